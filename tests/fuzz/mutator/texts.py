"""The text of ``data``: its values, its blobs down to their opcodes, and now and then its bytes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from conformance.file_mutants.texts import LAYOUTS, SERIALIZED, change_base64, change_text, list_containers
from tests.fuzz.mutator import pickles

if TYPE_CHECKING:
    from tests.fuzz.mutator.chance import Chance

_TYPE: Final = ":type:"


def changed(chance: Chance, data: bytes) -> bytes:
    """JSON with one value changed, mostly within a blob; text that Python cannot read is changed as text."""
    if chance.one_in(8):
        return change_text(chance, data)
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return change_text(chance, data)
    if type(root) is not dict:
        return change_text(chance, data)
    blobs = [key for key, value in root.items() if type(value) is dict and type(value.get(SERIALIZED)) is str]
    if blobs and not chance.one_in(3):
        _change_blob(chance, root[chance.choice(blobs)])
    else:
        _change_value(chance, root)
    made = json.dumps(root, **chance.choice(LAYOUTS))
    return made.encode("utf-8", "surrogatepass")


def _change_blob(chance: Chance, value: dict[str, Any]) -> None:
    """Change the pickle of a blob, or how its base64 is spelled."""
    text = value[SERIALIZED]
    try:
        pickle = binascii.a2b_base64(text)
    except (binascii.Error, ValueError):
        pickle = b"N."
    if not chance.one_in(12):
        value[SERIALIZED] = base64.b64encode(pickles.changed(chance, pickle)).decode()
        return
    value[SERIALIZED] = change_base64(chance, text)


def _change_value(chance: Chance, root: dict[str, Any]) -> None:
    """Replace, drop, wrap or add a value somewhere below."""
    container = chance.choice(list_containers(root))
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


def _value(chance: Chance) -> Any:
    kind = chance.randrange(8)
    if kind == 0:
        made = pickles.join([b"\x80\x04", *pickles.value(chance, []), b"."])
        return {_TYPE: chance.word(), SERIALIZED: base64.b64encode(made).decode()}
    if kind == 1:
        return chance.choice(({}, [], [[]], {chance.word(): chance.word()}, [1, 2], {SERIALIZED: 5}))
    if kind == 2:
        return 10 ** chance.choice((20, 400, 4299))
    if kind == 3:
        return chance.real()
    return chance.choice((None, True, False, chance.number(), chance.word(), chance.word()))
