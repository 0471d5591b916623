"""Compare what a command printed with what is expected."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any


def normalize(value: Any) -> Any:
    """Sort the members of all sets in a value."""
    if isinstance(value, list):
        return [normalize(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: normalize(part) for key, part in value.items()}
    for word in ("set", "frozenset"):
        if isinstance(made.get(word), list):
            made[word] = sorted(made[word], key=lambda part: json.dumps(part, sort_keys=True))
    return made


def is_same(first: Any, second: Any) -> bool:
    """Compare JSON values: True is not 1, and the order of keys is not significant."""
    if json.dumps(first) == json.dumps(second):
        return True
    return json.dumps(normalize(first), sort_keys=True) == json.dumps(normalize(second), sort_keys=True)


def find_difference(wanted: Any, found: Any, path: str = "") -> str:
    """Describe the first difference between two values."""
    if type(wanted) is type(found) and isinstance(wanted, dict) and wanted.keys() == found.keys():
        rows = ((wanted[key], found[key], f"{path}/{key}") for key in wanted)
    elif type(wanted) is type(found) and isinstance(wanted, list) and len(wanted) == len(found):
        rows = ((one, other, f"{path}/{at}") for at, (one, other) in enumerate(zip(wanted, found)))
    else:
        return f"at {path or '/'}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    return next((find_difference(*row) for row in rows if not is_same(row[0], row[1])), "")


def compare_predictions(wanted: Any, found: Any, tolerance: float, path: str = "") -> str:
    """Describe the first difference between two predictions; outputs that are not expected do not matter."""
    if isinstance(wanted, dict) and "items" in wanted:
        return compare_arrays(wanted, found, tolerance, path)
    rows: list[tuple[Any, Any, str]]
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() <= found.keys():
        rows = [(wanted[key], found[key], f"{path}/{key}") for key in wanted]
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        rows = [(one, other, f"{path}/{at}") for at, (one, other) in enumerate(zip(wanted, found))]
    else:
        return f"at {path or '/'}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    return next(filter(None, (compare_predictions(one, other, tolerance, at) for one, other, at in rows)), "")


def compare_arrays(wanted: Any, found: Any, tolerance: float, path: str) -> str:
    """Describe the first difference between two arrays of 17.6: floats may differ by the tolerance."""
    facts = [[part.get(key) for key in ("dtype", "shape")] for part in (wanted, found) if isinstance(part, dict)]
    items = found.get("items") if len(facts) == 2 else None
    if not isinstance(items, list) or facts[0] != facts[1] or len(wanted["items"]) != len(items):
        return f"at {path}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    is_float = wanted["dtype"][1] == "f"
    for at, (one, other) in enumerate(zip(wanted["items"], items)):
        if is_float and type(one) is not str and is_number(other):
            is_close = one == other or abs(one - other) <= tolerance * max(1, abs(one))
        else:
            is_close = is_same(one, other)
        if not is_close:
            return f"at {path}/{at}: {json.dumps(other)[:120]}, not {one}"
    return ""


def is_number(value: Any) -> bool:
    """Say whether a JSON value is a float, or an integer that a float can represent approximately."""
    return type(value) is float or (type(value) is int and abs(value) < 1 << 1023)


def replace_contents_by_digests(value: Any) -> Any:
    """Replace the contents in an encoder's input by digests, as a decoder prints it."""
    if isinstance(value, list):
        return [replace_contents_by_digests(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: replace_contents_by_digests(part) for key, part in value.items()}
    if "items" in made and "dtype" in made:
        made["sha256"] = hashlib.sha256(base64.b64decode(made.pop("items"))).hexdigest()
    if "content" in made:
        content = base64.b64decode(made.pop("content"))
        made.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    return made


def sort_entries(document: Any) -> Any:
    """Sort the entries of an archive by name: a writer chooses the order."""
    return {**document, "entries": sorted(document["entries"], key=lambda entry: entry[0])}
