"""Mutants of JSON: of its text, of its values, and of base64."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from conformance.file_mutants.chance import NUMBERS, ODD_TEXTS

if TYPE_CHECKING:
    from conformance.file_mutants.chance import Chance

SERIALIZED: Final = ":serialized:"
_TEXTS: Final = (
    b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": -Infinity}', b'"\\ud800"', b'"\\ud800\\udc00"', b"1e999", b"-0.0", b"-0",
    b"1E5", b"01", b"1.", b"9" * 4301, b"[" * 65, b"]" * 65, b"{}", b"[]", b",", b":", b'"', b"\\", b"\\u", b"\xef\xbb\xbf",
    b"\xff", b"\xed\xa0\x80", b"null", b"true", b"\0", b"\x0b", b"\xc2\xa0", b'{":serialized:": "Ti4="}', b":type:",
)  # fmt: skip
_NOISE: Final = ("\n", "=", " ", "*", "-_", "A", "====", "\u0660", "\u2028")
"""What lenient base64 decoders skip, or do not."""
LAYOUTS: Final[tuple[dict[str, Any], ...]] = (
    {"indent": 4}, {}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": 1},
)  # fmt: skip
"""Options of ``json.dumps``."""


def change_json(chance: Chance, data: bytes) -> bytes:
    """Change a JSON text: its bytes, a value, or the base64 of a pickle."""
    if chance.one_in(3):
        return change_text(chance, data)
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return change_text(chance, data)
    containers = list_containers(root)
    if not containers:
        return change_text(chance, data)
    texts = [value for value in containers if isinstance(value, dict) and isinstance(value.get(SERIALIZED), str)]
    if texts and chance.one_in(3):
        value = chance.choice(texts)
        value[SERIALIZED] = change_base64(chance, value[SERIALIZED])
    else:
        _change_container(chance, chance.choice(containers))
    return json.dumps(root, **chance.choice(LAYOUTS)).encode("utf-8", "surrogatepass")


def change_text(chance: Chance, data: bytes) -> bytes:
    """Change the bytes of a JSON text, or put another piece of one into it."""
    if chance.one_in(2):
        return chance.bytes_of(data)
    start, stop = chance.part(data)
    return data[:start] + chance.choice(_TEXTS) + data[stop if chance.one_in(2) else start :]


def change_base64(chance: Chance, text: str) -> str:
    """Change how base64 is spelled."""
    at = chance.place(len(text)) if chance.one_in(2) else len(text) - chance.randrange(min(len(text), 4) + 1)
    return text[:at] + chance.choice(_NOISE) + text[at + chance.randrange(3) :]


def list_containers(root: Any) -> list[Any]:
    """The dicts and lists in a value of JSON, with itself."""
    found, todo = [], [root]
    while todo:
        value = todo.pop()
        if isinstance(value, (dict, list)):
            found.append(value)
            todo += value.values() if isinstance(value, dict) else value
    return found


def _change_container(chance: Chance, container: Any) -> None:
    """Add, drop, wrap, copy or replace a value."""
    keys: list[Any] = list(container) if isinstance(container, dict) else list(range(len(container)))
    kind = chance.randrange(5)
    if kind == 0 or not keys:
        _add(chance, container, _make_value(chance))
        return
    key = chance.choice(keys)
    if kind == 1:
        del container[key]
    elif kind == 2:
        for _ in range(chance.choice((1, 1, 62, 63, 64, 65))):
            container[key] = [container[key]] if chance.one_in(2) else {chance.choice(ODD_TEXTS): container[key]}
    elif kind == 3:
        _add(chance, container, container[key])
    else:
        container[key] = _make_value(chance)


def _add(chance: Chance, container: Any, value: Any) -> None:
    if isinstance(container, dict):
        container[chance.choice((*ODD_TEXTS, ":type:", SERIALIZED, *container))] = value
    else:
        container.insert(chance.place(len(container)), value)


def _make_value(chance: Chance) -> Any:
    others = ({}, [], [[]], {"a": "b"}, [1, 2], {SERIALIZED: 5}, {SERIALIZED: "Ti4="}, None, True, False, 10**400)
    return chance.choice((*others, chance.number(), chance.real(), chance.choice(ODD_TEXTS), chance.choice(NUMBERS)))


def find_pickle(data: bytes, key: str) -> bytes | None:
    """The pickle under a key of ``data``, or None."""
    try:
        value = json.loads(data)[key]
        return binascii.a2b_base64(value[SERIALIZED])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def replace_pickle(data: bytes, key: str, pickle: bytes) -> bytes:
    """Put another pickle under a key of ``data``."""
    root = json.loads(data)
    root[key][SERIALIZED] = base64.b64encode(pickle).decode()
    return json.dumps(root, indent=4).encode()
