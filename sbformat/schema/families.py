"""Which schema is for what, and where it lies: beside the package, or inside its wheel.

One for SB3, one for Stable Baselines 2, one for objects that are a file of their own.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.algorithm import infer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive

_DEFINITIONS: Final = "#/$defs/"
_PACKAGE: Final = Path(__file__).parent.parent


class Family(NamedTuple):
    """What one schema is for."""

    schema: str
    """Its name, as :func:`load_schema` takes it."""
    root: str
    """The definition of what all have in common."""
    writer: str
    """Whose keys they are."""
    needed: Mapping[str, tuple[str, ...]]
    """Keys that must be there, by definition; those of the root for every one."""
    why: str
    """Why they must."""


SB3: Final = Family(
    "data",
    "BaseAlgorithm",
    "SB3 or sb3-contrib",
    {"BaseAlgorithm": ("policy_class", "observation_space", "action_space")},
    "SB3's load needs it",
)
"""Without those keys ``load`` of every SB3 release raises; all others fall back to defaults (FORMAT.md 3.3)."""
SB2: Final = Family(
    "sb2-data",
    "BaseRLModel",
    "Stable Baselines 2",
    {
        "BaseRLModel": ("policy", "observation_space", "action_space"),
        "HER": ("model_class", "n_sampled_goal", "goal_selection_strategy", "her_obs_space", "her_action_space"),
    },
    "the load of Stable Baselines 2 needs it",
)
PICKLED: Final = Family(
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
"""The definition of each kind of file that is one object."""


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema of the project.

    :param name: ``data``, ``sb2-data``, ``pickled`` or ``report``
    """
    return json.loads(_text(name))  # type: ignore[no-any-return]


def _text(name: str) -> str:
    file = f"{name}.schema.json"
    inside = _PACKAGE / "_schema" / file
    found = inside if inside.exists() else _PACKAGE.parent / "schema" / file
    return found.read_text("utf-8")


def family(archive: Archive) -> tuple[Family, str | None]:
    """Return the schema of an archive's ``data``, and the name of its definition."""
    if archive.format in OBJECTS:
        return PICKLED, OBJECTS[archive.format]
    if archive.format in ("sb2-zip", "sb2-pickle"):
        return SB2, archive.algorithm.name
    if archive.format == "data-json":
        return family_of(archive.data)
    return SB3, archive.algorithm.name


def family_of(data: Mapping[str, Any]) -> tuple[Family, str | None]:
    """Return the same for ``data`` alone: SB3 has its policy in ``policy_class``, SB2 in ``policy``."""
    if "policy" in data and "policy_class" not in data:
        from sbformat.formats.sb2.algorithms import infer as infer_sb2

        return SB2, infer_sb2(data).name
    return SB3, infer(data).name


_VALIDATORS: dict[tuple[str, str], tuple[Any, frozenset[str]]] = {}


def validator(family: Family, algorithm: str | None) -> tuple[Any, frozenset[str]]:
    """Return the validator of an algorithm, and the keys its schema knows."""
    name = algorithm or family.root
    if (family.schema, name) not in _VALIDATORS:
        definitions = _definitions(family.schema)
        if name not in definitions:
            name = family.root
        schema = {"$ref": f"{family.schema}{_DEFINITIONS}{name}"}
        _VALIDATORS[family.schema, name] = _validator_class()(schema), frozenset(_known_keys(definitions, name))
    return _VALIDATORS[family.schema, name]


_MEANT: dict[str, dict[str, Any]] = {}
"""The definitions of schemas that are in use, by what refers to them."""


@cache
def _definitions(schema: str) -> dict[str, Any]:
    """Return the definitions of a schema, in which every reference names the schema as well."""

    def whole(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            part["$ref"] = f"{schema}{part['$ref']}"
        return part

    definitions: dict[str, Any] = json.loads(_text(schema), object_hook=whole)["$defs"]
    _MEANT.update({f"{schema}{_DEFINITIONS}{name}": part for name, part in definitions.items()})
    return definitions


@cache
def _validator_class() -> Any:
    """JSON Schema where a tuple is an array, as it is when ``data`` is written.

    A reference means a definition of the same schema: to take it from a table saves an eighth of all time over
    jsonschema's way, which is made for references to anywhere.
    """
    from jsonschema import Draft202012Validator, validators

    def is_array(_: object, value: object) -> bool:
        return isinstance(value, (list, tuple))

    def refer(validator: Any, reference: str, value: object, _: object) -> Iterator[Any]:
        yield from validator.descend(value, _MEANT[reference])

    checker = Draft202012Validator.TYPE_CHECKER.redefine("array", is_array)
    return validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, validators={"$ref": refer}, type_checker=checker
    )


def _known_keys(definitions: dict[str, Any], name: str) -> Iterator[str]:
    yield from definitions[name].get("properties", ())
    for parent in definitions[name].get("allOf", ()):
        yield from _known_keys(definitions, parent["$ref"].rpartition("/")[2])


def known_keys(algorithm: str | None) -> frozenset[str]:
    """Return the keys of ``data`` that an algorithm wrote in any release of SB3; those that all have, when None."""
    return validator(SB3, algorithm)[1]
