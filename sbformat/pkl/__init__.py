"""Pickles as inert trees: decoded without importing or calling anything (FORMAT.md 5), and encoded (WRITER.md 12.3).

The encoder, and what scans use, are imported when they are first used: most programs only read.
"""

from typing import TYPE_CHECKING

from sbformat.pkl.decode import Pickle, decode_next, decode_pickle, loads
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

if TYPE_CHECKING:
    from sbformat.pkl.decode import Attempt, attempt, trace
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
    if name in ("Attempt", "attempt", "trace"):
        from sbformat.pkl import decode

        return getattr(decode, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
