"""The entry ``data``."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from sbformat import DataError, LimitError, SbformatError
from sbformat.archive.hyperparameters import infer
from sbformat.constants import SERIALIZED_MARKER, TYPE_MARKER
from sbformat.data import Serialized, dumps, equal_json, loads
from sbformat.schema import iter_problems
from tests.fuzz.law import ask

_TWICE: Final = object()


def one_input(data: bytes) -> None:
    """``json.loads`` agrees where both succeed, plain JSON objects are never refused, and what was read is written and
    read again as the same."""
    found = ask(loads, data)
    theirs = _oracle(data)
    if isinstance(found, SbformatError):
        assert type(found) in (DataError, LimitError), found
        assert isinstance(found, LimitError) or not _is_plain(theirs), f"plain JSON is refused: {found}"
        return
    theirs = json.loads(data.decode())
    assert list(found) == list(theirs)
    for key, value in found.items():
        if isinstance(value, Serialized):
            _check_blob(value, theirs[key])
        else:
            assert equal_json(value, theirs[key])
    _check_written(found)
    ask(infer, found)
    for problem in list(iter_problems(found)):
        assert problem.message.isprintable(), problem


def _oracle(data: bytes) -> Any:
    """What Python reads, or None; ``_TWICE`` for an object with a key that stands twice somewhere."""
    twice: list[object] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            twice.append(_TWICE)
        return made

    try:
        found = json.loads(data.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        return None
    return _TWICE if twice else found


def _is_plain(value: Any) -> bool:
    """Is it an object that holds no blob?"""
    return type(value) is dict and not any(type(part) is dict and SERIALIZED_MARKER in part for part in value.values())


def _check_blob(value: Serialized, theirs: dict[str, Any]) -> None:
    """No key of the object is lost, but for a type that is null; their order is SB3's."""
    made = value.to_json()
    said = {key: part for key, part in theirs.items() if key != TYPE_MARKER or part is not None}
    assert made.keys() == said.keys()
    assert equal_json({key: made[key] for key in said}, said)
    assert value.pickle == base64.b64decode(value.text.encode())
    assert value.is_canonical == (base64.b64encode(value.pickle).decode() == value.text)
    assert repr(value).isprintable()


def _check_written(found: dict[str, Any]) -> None:
    raw = dumps(found)
    again = loads(raw)
    assert list(again) == list(found)
    assert equal_json(again, found)
    assert dumps(again) == raw
