"""Pickles as inert trees: decoded without importing, calling or hashing anything (FORMAT.md 5)."""

from sbformat.pkl.decode import Pickle, decode_next, decode_pickle, loads
from sbformat.pkl.encode import dumps, encode_pickle
from sbformat.pkl.tree import Call, Dict, Extension, FrozenSet, Global, Node, Persistent, Set, Update

__all__ = [
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
    "decode_next",
    "decode_pickle",
    "dumps",
    "encode_pickle",
    "loads",
]
