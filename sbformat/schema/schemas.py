"""The JSON Schemas of ``data``: one for SB3, one for Stable Baselines 2, one for single objects (pickles).

The files are in the top-level folder ``schema/``, and in the wheel inside the package. :func:`check_data` checks
``data`` against its schema, and describes what is wrong: each result is a :class:`Problem`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat import data as data_entry
from sbformat.archive.hyperparameters import infer
from sbformat.constants import DATA_ENTRY, SERIALIZED_MARKER
from sbformat.data import LargeValue, Serialized
from sbformat.errors import SbformatError, ValidationError, escape, quote
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sbformat.archive.archive import Archive

_DEFINITIONS: Final = "#/$defs/"
USUAL: Final = "Usual"
"""The definition of ranges that the library does not check: what violates it is a warning."""
_PACKAGE: Final = Path(__file__).parent.parent


_BOUNDS: Final = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_ANNOTATIONS: Final = frozenset({"title", "description", "examples", "default"})
_RESTRICTING: Final[Mapping[Any, set[str]]] = {
    "null": set(),
    "boolean": set(),
    "integer": {*_BOUNDS},
    "number": {"multipleOf", *_BOUNDS},
    "string": {"pattern"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "object": {"properties", "required"},
}
"""The keywords that restrict values of a type, and no others."""


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

    :param name: ``data``, ``sb2-data``, ``pickled``, ``graph``, ``report`` or ``baseline``
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


class _Rule(Record):
    """What a schema requires of the value of a key."""

    key: str
    schema: dict[str, Any]
    """As in the file, for messages."""
    validator: Any
    """Of an equivalent schema that takes less time."""
    takes_serialized: bool
    """Whether a serialized value is allowed: the decoder has checked those of a file."""

    def iter_errors(self, value: Any) -> Iterator[Any]:
        """Yield the errors of jsonschema for a value."""
        if isinstance(value, Serialized):
            if self.takes_serialized:
                return
            value = value.to_json()
        if not self.validator.is_valid(value):
            yield from _validator_class()(self.schema).iter_errors(value)


@cache
def make_rules(schema: str, definition: str) -> tuple[tuple[_Rule, ...], frozenset[str]]:
    """Return a rule for each key of a definition, and those keys.

    Each key has a validator of its own, because jsonschema makes one whenever it descends into a part of a schema.
    """
    definitions = _definitions(schema)
    made: dict[int, tuple[Any, bool]] = {}
    rules = []
    for key, part in _list_keys(definitions[definition]):
        if id(part) not in made:
            alternatives = list(_list_alternatives(part))
            takes_serialized = any(alternative is definitions["Serialized"] for alternative in alternatives)
            made[id(part)] = _validator_class()(_merge_alternatives(alternatives) or part), takes_serialized
        rules.append(_Rule(key, part, *made[id(part)]))
    return tuple(rules), frozenset(rule.key for rule in rules)


def _find_rules(schema: DataSchema, algorithm: str | None) -> tuple[tuple[_Rule, ...], frozenset[str]]:
    """Return the same for an algorithm; where the schema does not have it, for what all algorithms share."""
    name = algorithm or schema.root
    return make_rules(schema.name, name if name in _definitions(schema.name) else schema.root)


def _list_keys(definition: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys of a definition with their schemas, those of the definitions that it extends first."""
    for parent in definition.get("allOf", ()):
        yield from _list_keys(parent)
    yield from definition.get("properties", {}).items()


def _list_alternatives(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas of which a value has to fit one; the schema itself if it is the only one."""
    if schema.keys() - _ANNOTATIONS == {"anyOf"}:
        for part in schema["anyOf"]:
            yield from _list_alternatives(part)
    else:
        yield schema


def _merge_alternatives(alternatives: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one schema that is equivalent to alternatives for different types; None if they are not.

    A value of one of the types can only fit that alternative, and the keywords of the others do not restrict it.
    """
    types = [alternative.get("type") for alternative in alternatives]
    merged: dict[str, Any] = {"type": types}
    for name, alternative in zip(types, alternatives):
        keywords = alternative.keys() - _ANNOTATIONS - {"type"}
        if name not in _RESTRICTING or keywords - _RESTRICTING[name]:
            return None
        merged.update({keyword: alternative[keyword] for keyword in keywords})
    is_disjoint = len(set(types)) == len(types) and not {"number", "integer"}.issubset(types)
    return merged if is_disjoint else None


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


def make_integer(key: str, value: Any, algorithm: str | None) -> Any:
    """Return a whole float as an integer if the schema of SB3 has an integer for its key; anything else unchanged."""
    if type(value) is not float or not value.is_integer():
        return value
    rules = [rule for name in (algorithm, USUAL) for rule in _find_rules(SB3, name)[0] if rule.key == key]
    is_wrong, would_be = (any(list(rule.iter_errors(number)) for rule in rules) for number in (value, int(value)))
    return int(value) if is_wrong and not would_be else value


def known_keys(algorithm: str | None) -> frozenset[str]:
    """Return the keys of ``data`` that an algorithm writes in any release of SB3; for None, the keys that all write."""
    return _find_rules(SB3, algorithm)[1]


# -- what is wrong with data --------------------------------------------------------------------------

ProblemKind: TypeAlias = Literal[
    "type", "value", "base64", "missing-key", "unknown-key", "missing-entry", "unexpected-entry", "unreadable",
    "mismatch", "unchecked",
]  # fmt: skip
Level: TypeAlias = Literal["error", "warning", "info"]


class Problem(Record):
    """A violation of the schema or of a rule between entries, or an unknown key.

    >>> next(sbformat.iter_problems({**archive.data, "gamma": 2}))
    Problem(entry='data', loc='/gamma', kind='value', level='warning',
            message='expected a number in [0, 1] or a serialized value, got 2; it is unusual, but accepted')
    """

    entry: str
    loc: str
    """A JSON pointer into ``data``; empty for the whole entry."""
    kind: ProblemKind
    level: Level
    """``error``; ``warning`` for what is unusual, although it is accepted; ``info`` for what is unknown."""
    message: str
    """A sentence."""

    @property
    def key(self) -> str:
        """The key of ``data`` that ``loc`` begins with; empty for the whole entry."""
        return self.loc.removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")


_LONGEST_TEXT: Final = 40
_TYPE_NAMES: Final = {
    "object": "an object", "array": "an array", "string": "a string", "number": "a number", "integer": "an integer",
    "boolean": "true, false", "null": "null",
}  # fmt: skip
_DESCRIBED: Final = frozenset({"type", "pattern", "enum", "const", "anyOf", "multipleOf", *_BOUNDS})


def describe_value(value: object) -> str:
    """Describe a value in a few words: numbers and short strings themselves, everything else by type and size.

    >>> describe_value(2), describe_value([1, 2])
    ('2', 'an array of 2 items')
    """
    if isinstance(value, dict):
        return "a serialized value" if SERIALIZED_MARKER in value else f"an object of {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)} items"
    if isinstance(value, str):
        return quote(value) if len(value) <= _LONGEST_TEXT else f"a string of {len(value):,} characters"
    return json.dumps(value)[:_LONGEST_TEXT]


def describe_expected(schema: Any, keyword: str) -> str:
    """Describe what a part of a JSON Schema expects, of which a value violates a keyword."""
    if keyword in _DESCRIBED:
        *most, last = dict.fromkeys(_describe_alternatives(schema))
        return f"{', '.join(most)} or {last}" if most else last
    return str(schema.get("title") or f"a value that passes {keyword}").lower()


def _describe_alternatives(schema: dict[str, Any]) -> Iterator[str]:
    if "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _describe_alternatives(part)
    elif schema.get("required") == [SERIALIZED_MARKER]:
        yield "a serialized value"
    elif "const" in schema or "enum" in schema:
        yield from map(json.dumps, schema.get("enum", [schema.get("const")]))
    else:
        names = schema.get("type", ["value"])
        details = _describe_bounds(schema) + (f" that matches {schema['pattern']}" if "pattern" in schema else "")
        for name in [names] if isinstance(names, str) else names:
            kind = "a whole number" if "multipleOf" in schema else _TYPE_NAMES.get(name, "a value")
            yield kind + ("" if name == "null" else details)


def _describe_bounds(schema: dict[str, Any]) -> str:
    """Describe bounds as an interval, or by an operator if there is one bound."""
    found = [key for key in _BOUNDS if key in schema]
    if len(found) == 2:
        low, high = found
        left, right = "(" if low.startswith("ex") else "[", ")" if high.startswith("ex") else "]"
        return f" in {left}{schema[low]}, {schema[high]}{right}"
    return "".join(f" {_BOUNDS[key]} {schema[key]}" for key in found)


_MOST_UNKNOWN: Final = 100
_VALUE_PROBLEMS: Final = ("type", "value", "base64")
_TYPE_KEYWORDS: Final = ("type", "anyOf", "required", "not")


def require_values(old: Archive, edited: Archive) -> None:
    """Refuse values of ``data`` that violate the schema, unless the archive had them before."""
    try:
        had = _find_wrong_values(old)
    except SbformatError:
        had = {}
    problems = [problem for problem, value in _find_wrong_values(edited).items() if had.get(problem) != value]
    if problems:
        message = "; ".join(f"{problem.loc or DATA_ENTRY}: {problem.message}" for problem in problems)
        raise ValidationError(message, problems=problems, entry=DATA_ENTRY)


def _find_wrong_values(archive: Archive) -> dict[Problem, str]:
    """Return the violations of the schema, but no missing keys, each with the value of its key as text."""
    data = archive.data
    found = {}
    for problem in check_data(data, *choose_schema(archive)):
        if problem.level == "error" and problem.kind in _VALUE_PROBLEMS:
            found[problem] = repr(data_entry.to_json({problem.key: data.get(problem.key)}))
    return found


def check_data(data: Mapping[str, Any], schema: DataSchema, algorithm: str | None) -> Iterator[Problem]:
    """Yield the violations of the schema, unusual values, missing and unknown keys, and non-canonical base64.

    :param algorithm: the name of its definition for the algorithm; None uses the common one
    """
    rules, known = _find_rules(schema, algorithm)
    large = {key: value for key, value in data.items() if isinstance(value, LargeValue)}
    checked = data.keys() - large
    seen: set[Problem] = set()  # definitions with common ancestors report the same violation
    for problem in _find_violations(rules, data, checked):
        if problem not in seen:
            seen.add(problem)
            yield problem
    wrong = {problem.loc for problem in seen}
    for problem in _find_violations(_find_rules(schema, USUAL)[0], data, checked):
        if problem.loc not in wrong:
            message = f"{problem.message}; it is unusual, but accepted"
            yield problem._replace(kind="value", level="warning", message=message)
    for key in (*schema.required.get(schema.root, ()), *schema.required.get(algorithm or "", ())):
        if key not in data:
            yield Problem(DATA_ENTRY, "", "missing-key", "error", f"the key {key} is missing; {schema.reason}")
    for key, value in data.items():
        if isinstance(value, Serialized) and not value.is_canonical:
            message = "expected canonical base64: a decoder stricter than Python's would read other bytes"
            yield Problem(DATA_ENTRY, _pointer([key]), "base64", "error", message)
    for key, value in large.items():
        yield Problem(DATA_ENTRY, _pointer([key]), "unreadable", "warning", f"not checked: {value.error.message}")
    keys = [key for key in data if key not in known and key not in schema.more]
    for key in keys[:_MOST_UNKNOWN]:
        message = f"{algorithm or 'an algorithm'} of {schema.writer} writes no key {quote(key, 80)}"
        yield Problem(DATA_ENTRY, _pointer([key]), "unknown-key", "info", message)
    if len(keys) > _MOST_UNKNOWN:
        message = f"{len(keys) - _MOST_UNKNOWN:,} more keys are unknown"
        yield Problem(DATA_ENTRY, "", "unknown-key", "info", message)


def _pointer(path: list[Any]) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join("/" + escape(str(part), 80).replace("~", "~0").replace("/", "~1") for part in path)


def _find_violations(rules: tuple[_Rule, ...], data: Mapping[str, Any], checked: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each error of jsonschema, in the order of the rules."""
    for rule in rules:
        if rule.key not in checked:
            continue
        for error in rule.iter_errors(data[rule.key]):
            kind: ProblemKind = "type" if error.validator in _TYPE_KEYWORDS else "value"
            expected, got = describe_expected(error.schema, error.validator), describe_value(error.instance)
            loc = _pointer([rule.key, *error.absolute_path])
            yield Problem(DATA_ENTRY, loc, kind, "error", f"expected {expected}, got {got}")
