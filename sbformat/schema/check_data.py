"""Check ``data`` against its JSON Schema, and describe what is wrong: each result is a :class:`Problem`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat import data as data_entry
from sbformat.constants import DATA_ENTRY, SERIALIZED_MARKER
from sbformat.data import Serialized
from sbformat.errors import SbformatError, ValidationError, escape, quote
from sbformat.immutable import Record
from sbformat.schema.schemas import USUAL, DataSchema, choose_schema, make_validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive


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
    """The name of the entry."""
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
_BOUNDS: Final = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
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
    validator, known = make_validator(schema, algorithm)
    content = data_entry.to_json(data)
    seen: set[Problem] = set()  # definitions with common ancestors report the same violation
    for error in validator.iter_errors(content):
        problem = _convert_error(error)
        if problem not in seen:
            seen.add(problem)
            yield problem
    wrong = {problem.loc for problem in seen}
    for error in make_validator(schema, USUAL)[0].iter_errors(content):
        problem = _convert_error(error)
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


def _convert_error(error: Any) -> Problem:
    """Convert a ``jsonschema.ValidationError``."""
    kind: ProblemKind = "type" if error.validator in _TYPE_KEYWORDS else "value"
    message = f"expected {describe_expected(error.schema, error.validator)}, got {describe_value(error.instance)}"
    return Problem(DATA_ENTRY, _pointer(list(error.absolute_path)), kind, "error", message)
