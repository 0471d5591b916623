"""Pickles as inert trees: decoded without importing or calling anything (FORMAT.md 5), and encoded (WRITER.md 12.3).

The encoder is imported when it is first used: most programs only read.
"""

from typing import TYPE_CHECKING

from sbformat.pkl.decode import Attempt, attempt, decode_next, decode_pickle, loads, trace
from sbformat.pkl.machine import Pickle
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

if TYPE_CHECKING:
    from sbformat.pkl.encode import dumps, encode_pickle

__all__ = [
    "Attempt",
    "Call",
    "Dict",
    "Extension",
    "FrozenSet",
    "Global",
    "Node",
    "Persistent",
    "Pickle",
    "Set",
    "Update",
    "attempt",
    "decode_next",
    "decode_pickle",
    "dumps",
    "encode_pickle",
    "loads",
    "trace",
]


def __getattr__(name: str) -> object:
    if name in ("dumps", "encode_pickle"):
        from sbformat.pkl import encode

        return getattr(encode, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
