"""The JSON Schemas of ``data``: one for SB3, one for Stable Baselines 2, one for single objects (pickles).

The files are in the top-level folder ``schema/``, and in the wheel inside the package.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.hyperparameters import infer
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive

_DEFINITIONS: Final = "#/$defs/"
USUAL: Final = "Usual"
"""The definition of ranges that the library does not check: what violates it is a warning."""
_PACKAGE: Final = Path(__file__).parent.parent


class DataSchema(Record):
    """A schema, and the rules that it does not contain."""

    name: str
    """The argument of :func:`load_schema`."""
    root: str
    """The definition of the keys that all algorithms share."""
    writer: str
    """The library that writes these keys."""
    required: Mapping[str, tuple[str, ...]]
    """The required keys by definition; those of the root are required of all."""
    reason: str
    """Why they are required."""
    more: frozenset[str] = frozenset()
    """Keys that the library writes, and that the schema does not have."""


SB3: Final = DataSchema(
    "data",
    "BaseAlgorithm",
    "SB3 or sb3-contrib",
    {"BaseAlgorithm": ("policy_class", "observation_space", "action_space")},
    "SB3's load needs it",
)
"""Without those keys ``load`` of every SB3 release raises; all others fall back to defaults (FORMAT.md 3.3)."""
SBX: Final = SB3._replace(
    writer="SBX",
    reason="SBX's load needs it",
    more=frozenset(
        {
            "actor", "clip_range_schedule", "ent_coef_init", "ent_coef_state", "initial_qf_learning_rate", "key",
            "param_resets", "policy", "policy_delay", "qf", "qf_learning_rate", "reset_idx", "vf",
        }
    ),
)  # fmt: skip
"""SBX has the keys of SB3 by algorithm, and these: of the key of jax's random numbers, networks and their states."""
SB2: Final = DataSchema(
    "sb2-data",
    "BaseRLModel",
    "Stable Baselines 2",
    {
        "BaseRLModel": ("policy", "observation_space", "action_space"),
        "HER": ("model_class", "n_sampled_goal", "goal_selection_strategy", "her_obs_space", "her_action_space"),
    },
    "the load of Stable Baselines 2 needs it",
)
PICKLED: Final = DataSchema(
    "pickled",
    "Pickled",
    "SB3 or Stable Baselines 2",
    {
        "VecNormalize": (
            "clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_obs", "norm_reward", "observation_space",
        ),
        "PolicyFile": ("observation_space", "action_space"),
        "ReplayBuffer": ("buffer_size", "n_envs", "pos", "full", "observation_space", "action_space"),
    },
    "every release writes it",
)  # fmt: skip
OBJECTS: Final = {
    "vecnormalize": "VecNormalize",
    "running-mean-std": "RunningMeanStd",
    "replay-buffer": "ReplayBuffer",
    "policy-file": "PolicyFile",
}
"""The definition of each kind of file that contains a single object."""


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema of the project.

    :param name: ``data``, ``sb2-data``, ``pickled``, ``graph`` or ``report``
    """
    return json.loads(_text(name))  # type: ignore[no-any-return]


def _text(name: str) -> str:
    file = f"{name}.schema.json"
    inside = _PACKAGE / "_schema" / file
    found = inside if inside.exists() else _PACKAGE.parent / "schema" / file
    return found.read_text("utf-8")


def choose_schema(archive: Archive) -> tuple[DataSchema, str | None]:
    """Return the schema of an archive's ``data``, and the name of its definition."""
    if archive.format in OBJECTS:
        return PICKLED, OBJECTS[archive.format]
    if archive.format == "sbx":
        return SBX, archive.algorithm.name
    if archive.format in ("sb2-zip", "sb2-pickle"):
        return SB2, archive.algorithm.name
    if archive.format == "data-json":
        return choose_schema_of_data(archive.data)
    return SB3, archive.algorithm.name


def choose_schema_of_data(data: Mapping[str, Any]) -> tuple[DataSchema, str | None]:
    """Do the same for ``data`` alone: SB3 writes the policy's class as ``policy_class``, SB2 as ``policy``."""
    if "policy" in data and "policy_class" not in data:
        from sbformat.formats.sb2 import infer_algorithm as infer_sb2

        return SB2, infer_sb2(data).name
    return SB3, infer(data).name


_VALIDATORS: dict[tuple[str, str], tuple[Any, frozenset[str]]] = {}


def make_validator(schema: DataSchema, algorithm: str | None) -> tuple[Any, frozenset[str]]:
    """Return the validator for an algorithm, and the keys that its schema knows."""
    name = algorithm or schema.root
    if (schema.name, name) not in _VALIDATORS:
        definitions = _definitions(schema.name)
        if name not in definitions:
            name = schema.root
        known = frozenset(_known_keys(definitions[name]))
        _VALIDATORS[schema.name, name] = _validator_class()(definitions[name]), known
    return _VALIDATORS[schema.name, name]


@cache
def _definitions(schema: str) -> dict[str, Any]:
    """Return the definitions of a schema, each in the place of every reference to it.

    All references are to definitions of the same schema, and what is beside them, titles and descriptions, restricts
    nothing. Without them, checking ``data`` takes less time.
    """
    definitions: dict[str, Any] = json.loads(_text(schema))["$defs"]

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(value) for value in part]
        if not isinstance(part, dict):
            return part
        if "$ref" not in part:
            part.update({key: resolve(value) for key, value in part.items()})
        while "$ref" in part:
            part = definitions[part["$ref"].removeprefix(_DEFINITIONS)]
        return part

    return resolve(definitions)  # type: ignore[no-any-return]


@cache
def _validator_class() -> Any:
    """Return a validator class in which a tuple is an array, as it is when ``data`` is written, and 1.0 no integer."""
    from jsonschema import Draft202012Validator, validators

    def is_array(_: object, value: object) -> bool:
        return isinstance(value, (list, tuple))

    def is_integer(_: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    checker = Draft202012Validator.TYPE_CHECKER.redefine_many({"array": is_array, "integer": is_integer})
    return validators.extend(Draft202012Validator, type_checker=checker)  # type: ignore[no-untyped-call]


def _known_keys(definition: dict[str, Any]) -> Iterator[str]:
    yield from definition.get("properties", ())
    for parent in definition.get("allOf", ()):
        yield from _known_keys(parent)


def make_integer(key: str, value: Any, algorithm: str | None) -> Any:
    """Return a whole float as an integer if the schema of SB3 has an integer for its key; anything else unchanged."""
    if type(value) is not float or not value.is_integer():
        return value
    validators = [make_validator(SB3, name)[0] for name in (algorithm, USUAL)]
    is_wrong, would_be = (
        any(
            error.absolute_path and error.absolute_path[0] == key
            for validator in validators
            for error in validator.iter_errors({key: number})
        )
        for number in (value, int(value))
    )
    return int(value) if is_wrong and not would_be else value


def known_keys(algorithm: str | None) -> frozenset[str]:
    """Return the keys of ``data`` that an algorithm writes in any release of SB3; for None, the keys that all write."""
    return make_validator(SB3, algorithm)[1]
