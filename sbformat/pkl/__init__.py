"""Pickles as inert trees: decoded without importing or calling anything (FORMAT.md 5), and encoded (WRITER.md 12.3)."""

from sbformat.pkl.decode import Attempt, attempt, decode_next, decode_pickle, dumps, loads, trace
from sbformat.pkl.machine import Pickle
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

__all__ = [
    "Attempt", "Call", "Dict", "Extension", "FrozenSet", "Global", "Node", "Persistent", "Pickle", "Set", "Update",
    "attempt", "decode_next", "decode_pickle", "dumps", "loads", "trace",
]  # fmt: skip
