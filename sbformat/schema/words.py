"""What stands in ``data`` and what a schema asks for, in words; no blob is ever printed."""

from __future__ import annotations

import json
from typing import Any, Final

from sbformat.constants import SERIALIZED_MARKER
from sbformat.errors import quote


def shown(value: object) -> str:
    """Name a value without printing what it holds."""
    if isinstance(value, dict):
        return "a serialized value" if SERIALIZED_MARKER in value else f"an object of {len(value)} keys"
    if isinstance(value, (list, tuple)):
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


def expected(schema: Any, keyword: str, value: Any) -> str:
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
    if keyword in ("enum", "const"):
        return _alternative({keyword: value})
    return str(schema.get("title") or f"a value that passes {keyword}").lower()


def _alternative(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return "a serialized value" if name == "Serialized" else f"a {name}"
    if "const" in schema or "enum" in schema:
        return " or ".join(json.dumps(item) for item in schema.get("enum", [schema.get("const")]))
    words = expected(schema, "type", schema["type"]) if "type" in schema else "a value"
    bounds = [expected({}, key, schema[key]).rpartition("number ")[2] for key in _BOUNDS if key in schema]
    words += "".join(f" {bound}" for bound in bounds)
    return f"{words} of the form {schema['pattern']}" if "pattern" in schema else words


_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
