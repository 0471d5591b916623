"""The text of ``data``: its values, its blobs down to their opcodes, and now and then its bytes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.mutator import pickles

if TYPE_CHECKING:
    from tests.fuzz.mutator.chance import Chance

_TYPE: Final = ":type:"
_SERIALIZED: Final = ":serialized:"
_TEXTS: Final = (
    b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": -Infinity}', b'"\\ud800"', b"1e999", b"-0.0", b"9" * 4301, b"[" * 65,
    b"]" * 65, b"{}", b",", b'"', b"\\", b"\xef\xbb\xbf", b"\xff", b"null", b"\0", b'{":serialized:": "Ti4="}',
)  # fmt: skip
_NOISE: Final = ("\n", "=", " ", "*", "-_", "A", "====", "\u0660")
"""What lenient base64 decoders pass over, or do not."""
_LAYOUTS: Final[tuple[dict[str, Any], ...]] = (
    {"indent": 4}, {}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": 1},
)  # fmt: skip


def changed(chance: Chance, data: bytes) -> bytes:
    """JSON with one value changed, mostly within a blob; text that Python cannot read is changed as text."""
    if chance.one_in(8):
        return _as_text(chance, data)
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return _as_text(chance, data)
    if type(root) is not dict:
        return _as_text(chance, data)
    blobs = [key for key, value in root.items() if type(value) is dict and type(value.get(_SERIALIZED)) is str]
    if blobs and not chance.one_in(3):
        _change_blob(chance, root[chance.choice(blobs)])
    else:
        _change_value(chance, root)
    made = json.dumps(root, **chance.choice(_LAYOUTS))
    return made.encode("utf-8", "surrogatepass")


def _as_text(chance: Chance, data: bytes) -> bytes:
    if chance.one_in(2):
        return chance.bytes_of(data)
    start, stop = chance.part(data)
    return data[:start] + chance.choice(_TEXTS) + data[stop if chance.one_in(2) else start :]


def _change_blob(chance: Chance, value: dict[str, Any]) -> None:
    """Change the pickle of a blob, or how its base64 is spelled."""
    text = value[_SERIALIZED]
    try:
        pickle = binascii.a2b_base64(text)
    except (binascii.Error, ValueError):
        pickle = b"N."
    if not chance.one_in(12):
        value[_SERIALIZED] = base64.b64encode(pickles.changed(chance, pickle)).decode()
        return
    at = chance.place(len(text))
    value[_SERIALIZED] = text[:at] + chance.choice(_NOISE) + text[at + chance.randrange(3) :]


def _change_value(chance: Chance, root: dict[str, Any]) -> None:
    """Replace, drop, wrap or add a value somewhere below."""
    container = chance.choice(_containers(root))
    keys: list[Any] = list(container) if type(container) is dict else list(range(len(container)))
    kind = chance.randrange(5)
    if kind == 0 or not keys:
        _add(chance, container, _value(chance))
        return
    key = chance.choice(keys)
    if kind == 1:
        del container[key]
    elif kind == 2:
        wrapped = container[key]
        for _ in range(chance.randrange(1, 70) if chance.one_in(4) else 1):
            wrapped = [wrapped] if chance.one_in(2) else {chance.word(): wrapped}
        container[key] = wrapped
    elif kind == 3:
        _add(chance, container, container[key])
    else:
        container[key] = _value(chance)


def _add(chance: Chance, container: Any, value: Any) -> None:
    if type(container) is dict:
        container[chance.word()] = value
    else:
        container.insert(chance.place(len(container)), value)


def _containers(root: Any) -> list[Any]:
    found, todo = [], [root]
    while todo:
        value = todo.pop()
        if type(value) in (dict, list):
            found.append(value)
            todo += value.values() if type(value) is dict else value
    return found


def _value(chance: Chance) -> Any:
    kind = chance.randrange(8)
    if kind == 0:
        made = pickles.join([b"\x80\x04", *pickles.value(chance, []), b"."])
        return {_TYPE: chance.word(), _SERIALIZED: base64.b64encode(made).decode()}
    if kind == 1:
        return chance.choice(({}, [], [[]], {chance.word(): chance.word()}, [1, 2], {_SERIALIZED: 5}))
    if kind == 2:
        return 10 ** chance.choice((20, 400, 4299))
    if kind == 3:
        return chance.real()
    return chance.choice((None, True, False, chance.number(), chance.word(), chance.word()))
