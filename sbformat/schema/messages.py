"""Descriptions of JSON values and of JSON Schemas for error messages; blobs are never printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import SERIALIZED_MARKER
from sbformat.errors import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Describe what a schema expects.

    :param schema: a part of a JSON Schema
    :param keyword: the keyword of it that a value violates
    """
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
