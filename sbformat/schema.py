"""``validate`` and ``iter_problems``: the JSON Schema of ``data``, and the rules between entries.

The schemas lie in ``schema/`` beside the package and inside its wheel. jsonschema is imported when the
first ``data`` is checked. No message ever prints a blob.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat import data as data_entry
from sbformat.archive import Archive, is_state_dict
from sbformat.data import Serialized
from sbformat.errors import SbformatError, ValidationError, escape, quote
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.spec import (
    DATA_ENTRY,
    OPTIMIZER_WORD,
    PLAIN_ENTRIES,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SERIALIZED_MARKER,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.source import SourceLike

ProblemKind: TypeAlias = Literal[
    "type", "value", "base64", "missing-key", "unknown-key", "missing-entry", "unexpected-entry", "unreadable"
]
Level: TypeAlias = Literal["error", "info"]

_ROOT_SCHEMA: Final = "BaseAlgorithm"
_UNKNOWN_SHOWN: Final = 100
_NEEDED_KEYS: Final = ("policy_class", "observation_space", "action_space")
"""Without these ``load`` of every SB3 release raises; all others fall back to defaults (FORMAT.md 3.3)."""

_POLICY_OPTIMIZER: Final = ("policy.optimizer",)
_ACTOR_CRITIC: Final = ("actor.optimizer", "critic.optimizer")
_OPTIMIZERS: Final = {
    **dict.fromkeys(("PPO", "A2C", "DQN", "QRDQN", "TRPO", "MaskablePPO", "RecurrentPPO"), _POLICY_OPTIMIZER),
    **dict.fromkeys(("SAC", "TQC", "CrossQ", "TD3", "DDPG"), _ACTOR_CRITIC),
    "ARS": (),
}
"""The optimizers that ``load`` of each algorithm asks for (FORMAT.md 1.2)."""
_ENTROPY_OPTIMIZER: Final = "ent_coef_optimizer"
_ENTROPY_LEARNERS: Final = frozenset({"SAC", "TQC", "CrossQ"})


class Problem(NamedTuple):
    """One thing that ``validate`` found."""

    entry: str
    """The entry it is in."""
    loc: str
    """A JSON pointer into ``data``; empty for the whole entry."""
    kind: ProblemKind
    level: Level
    """``error``, or ``info`` for what is merely not known."""
    message: str
    """A sentence."""


def validate(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[Problem, ...]:
    """Check an archive; raise when there is an error in it.

    :param source: an archive, what :func:`sbformat.read` takes, or a ``data`` dict
    :param limits: as in :func:`sbformat.read`
    :return: what is merely worth knowing (``level="info"``)
    :raises ValidationError: with all problems, when one of them is an error
    :raises SbformatError: when it is no archive at all
    """
    problems = tuple(iter_problems(source, limits=limits))
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first = f"{errors[0].entry}{errors[0].loc and ' ' + errors[0].loc}: {errors[0].message}"
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        message = f"{first}{more}"
        raise ValidationError(message, problems=problems)
    return problems


def iter_problems(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Problem]:
    """Yield what breaks the schema or the rules between entries, and the keys that are not known.

    Every entry is decoded and every CRC checked.

    :param source: as in :func:`validate`
    :param limits: as in :func:`sbformat.read`
    :raises SbformatError: when it is no archive at all
    """
    if isinstance(source, Mapping):
        yield from _data_problems(source, _algorithm_of(source))
        return
    archive = source if isinstance(source, Archive) else read(source, limits=limits)
    yield from _unreadable(archive)
    if DATA_ENTRY in archive.entries:
        try:
            data = archive.data
        except SbformatError:
            return
        yield from _data_problems(data, archive.algorithm.name)
    if archive.format in ("sb3", "folder"):
        yield from _entry_problems(archive)


# -- data against its schema --------------------------------------------------------------------------


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema of the project: ``data`` or ``report``."""
    file = f"{name}.schema.json"
    inside = Path(__file__).with_name("_schema") / file
    found = inside if inside.exists() else Path(__file__).parent.parent / "schema" / file
    return json.loads(found.read_text("utf-8"))  # type: ignore[no-any-return]


def _algorithm_of(data: Mapping[str, Any]) -> str | None:
    from sbformat.algorithm import infer

    return infer(data).name


_VALIDATORS: dict[str, tuple[Any, frozenset[str]]] = {}


def _validator(algorithm: str | None) -> tuple[Any, frozenset[str]]:
    """Return the validator of an algorithm, and the keys its schema knows."""
    name = algorithm or _ROOT_SCHEMA
    if name not in _VALIDATORS:
        from jsonschema import Draft202012Validator

        definitions = load_schema("data")["$defs"]
        if name not in definitions:
            name = _ROOT_SCHEMA
        schema = {"$ref": f"#/$defs/{name}", "$defs": definitions}
        _VALIDATORS[name] = Draft202012Validator(schema), frozenset(_known_keys(definitions, name))
    return _VALIDATORS[name]


def _known_keys(definitions: dict[str, Any], name: str) -> Iterator[str]:
    yield from definitions[name].get("properties", ())
    for parent in definitions[name].get("allOf", ()):
        yield from _known_keys(definitions, parent["$ref"].rpartition("/")[2])


def known_keys(algorithm: str | None) -> frozenset[str]:
    """Return the keys of ``data`` that an algorithm wrote in any release; those that all have, when None."""
    return _validator(algorithm)[1]


def _data_problems(data: Mapping[str, Any], algorithm: str | None) -> Iterator[Problem]:
    validator, known = _validator(algorithm)
    for error in validator.iter_errors(data_entry.to_json(data)):
        yield _schema_problem(error)
    for key in _NEEDED_KEYS:
        if key not in data:
            message = f"there is no {key}, and SB3's load needs it"
            yield Problem(DATA_ENTRY, "", "missing-key", "error", message)
    unknown = 0
    for key, value in data.items():
        if isinstance(value, Serialized) and not value.is_canonical:
            message = "its base64 is not what an encoder writes; stricter decoders than Python's see other bytes"
            yield Problem(DATA_ENTRY, _pointer([key]), "base64", "error", message)
        if key not in known:
            unknown += 1
            if unknown > _UNKNOWN_SHOWN:
                continue
            message = f"{quote(key, 80)} is no key that {algorithm or 'an algorithm'} of SB3 or sb3-contrib writes"
            yield Problem(DATA_ENTRY, _pointer([key]), "unknown-key", "info", message)
    if unknown > _UNKNOWN_SHOWN:
        message = f"{unknown - _UNKNOWN_SHOWN:,} more keys are not known"
        yield Problem(DATA_ENTRY, "", "unknown-key", "info", message)


def _pointer(path: list[Any]) -> str:
    return "".join("/" + escape(str(part), 80).replace("~", "~0").replace("/", "~1") for part in path)


def _schema_problem(error: Any) -> Problem:  # noqa: ANN401 -- jsonschema's ValidationError
    path = list(error.absolute_path)
    shown = _shown(error.instance)
    expected = _expected(error.schema, error.validator, error.validator_value)
    kind: ProblemKind = "type" if error.validator in ("type", "anyOf", "required", "not") else "value"
    return Problem(DATA_ENTRY, _pointer(path), kind, "error", f"{shown} stands where {expected} belongs")


def _shown(value: object) -> str:
    """Name a value without printing what it holds."""
    if isinstance(value, dict):
        return "a serialized value" if SERIALIZED_MARKER in value else f"an object of {len(value)} keys"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    if isinstance(value, str):
        return f"the text {quote(value)}" if len(value) <= _SHOWN_TEXT else f"a text of {len(value):,} characters"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"the number {json.dumps(value)[:40]}"


_SHOWN_TEXT: Final = 40
_TYPE_WORDS: Final = {
    "object": "an object", "array": "an array", "string": "a text", "number": "a number", "integer": "a whole number",
    "boolean": "true or false", "null": "null",
}  # fmt: skip


def _expected(schema: Any, keyword: str, value: Any) -> str:  # noqa: ANN401 -- parts of a JSON Schema
    """Say in words what one keyword of the schema asks for."""
    if keyword == "type":
        return " or ".join(_TYPE_WORDS[name] for name in ([value] if isinstance(value, str) else value))
    if keyword == "anyOf":
        return " or ".join(dict.fromkeys(_alternative(part) for part in value))
    if keyword in ("minimum", "exclusiveMinimum"):
        return f"a number {'>' if keyword.startswith('ex') else '>='} {value}"
    if keyword in ("maximum", "exclusiveMaximum"):
        return f"a number {'<' if keyword.startswith('ex') else '<='} {value}"
    if keyword == "pattern":
        return f"a text of the form {value}"
    if keyword == "enum":
        return " or ".join(json.dumps(item) for item in value)
    return str(schema.get("title") or f"a value that passes {keyword}").lower()


def _alternative(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "a serialized value" if name == "Serialized" else f"a {name}"
    words = _expected(schema, "type", schema["type"]) if "type" in schema else "a value"
    bounds = [_expected({}, key, schema[key]).rpartition("number ")[2] for key in _BOUNDS if key in schema]
    words += "".join(f" {bound}" for bound in bounds)
    return f"{words} of the form {schema['pattern']}" if "pattern" in schema else words


_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


# -- entries against each other -----------------------------------------------------------------------


def _unreadable(archive: Archive) -> Iterator[Problem]:
    """Decode everything, and check the CRC of every byte."""
    for name in archive.entries:
        try:
            _decode(archive, name)
        except SbformatError as error:
            entry = error.entry or name
            yield Problem(entry, "", "unreadable", "error", f"{error.outcome}: {error.message}"[:2000])


def _decode(archive: Archive, name: str) -> None:
    if name in PLAIN_ENTRIES:
        archive.decode_plain(name)
    elif is_state_dict(name):
        archive.state_dict(name).check()
    elif archive.format == "sb3":  # files beside an unzipped archive have no CRC, and may be anything
        for _ in archive.stream(name):
            pass


def _entry_problems(archive: Archive) -> Iterator[Problem]:
    names = [name for name in archive.entries if is_state_dict(name)]
    algorithm = archive.algorithm.name if DATA_ENTRY in archive.entries else None
    if DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", "there is no data, and SB3's load needs it")
    if POLICY_ENTRY not in names:
        optimizers = [name for name in names if OPTIMIZER_WORD in name]
        message = f"{optimizers[0]} has no policy to optimize" if optimizers else "there is no policy"
        yield Problem(POLICY_ENTRY, "", "missing-entry", "error", f"{message}: {POLICY_ENTRY} is missing")
    expected = _expected_optimizers(algorithm, archive)
    for optimizer in expected or ():
        if optimizer + PTH_SUFFIX not in names:
            message = f"{algorithm} cannot be loaded without it; its state may be empty, but the entry must be there"
            yield Problem(optimizer + PTH_SUFFIX, "", "missing-entry", "error", message)
    for name in names:
        stem = name.removesuffix(PTH_SUFFIX)
        if expected is not None and OPTIMIZER_WORD in stem and stem not in (*expected, _ENTROPY_OPTIMIZER):
            message = f"{algorithm} has no {stem}; SB3 refuses names that the algorithm does not have"
            yield Problem(name, "", "unexpected-entry", "info", message)
    for name in archive.extra:
        if name.endswith(PTH_SUFFIX):
            message = "SB3 loads every .pth of an archive, and fails on this one: it lies in a folder"
            yield Problem(name, "", "unexpected-entry", "error", message)


def _expected_optimizers(algorithm: str | None, archive: Archive) -> tuple[str, ...] | None:
    expected = _OPTIMIZERS.get(algorithm or "")
    if expected is None or algorithm not in _ENTROPY_LEARNERS:
        return expected
    entropy = archive.data.get("ent_coef")
    learned = isinstance(entropy, str) and entropy.startswith("auto")
    return (*expected, _ENTROPY_OPTIMIZER) if learned else expected
