"""The keys of a state dict: which are safe to hash, and how they form the path of a value (FORMAT.md 6.6, 6.7)."""

from __future__ import annotations

from typing import Any, Final

_DECIMAL_BITS: Final = 64


def segment(key: object) -> str:
    """Return a key's part of a tensor's path (FORMAT.md 6.7).

    Text is unchanged, with ``~`` as ``~0``, ``/`` as ``~1`` and a leading ``[`` as ``~2``; empty text
    is ``~3``; every other key is in brackets.
    """
    if type(key) is not str:
        return f"[{key_text(key)}]".replace("~", "~0").replace("/", "~1")
    if "~" in key or "/" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"~2{key[1:]}" if key.startswith("[") else key or "~3"


def other_keys(keys: list[Any]) -> list[Any]:
    """Return those of a dict's keys that are neither text nor 0..n-1: a file could choose ones that collide (6.6)."""
    return [key for key in keys if type(key) is not str and not (type(key) is int and 0 <= key < len(keys))]


def key_text(key: object) -> str:
    """Return a key that is not text as Python's ``repr`` does, long integers in hexadecimal (FORMAT.md 6.7)."""
    if type(key) is int:
        return str(key) if key.bit_length() <= _DECIMAL_BITS else hex(key)  # long decimals cost, or are refused
    if type(key) is tuple:
        parts = ", ".join(map(key_text, key))
        return f"({parts},)" if len(key) == 1 else f"({parts})"
    if isinstance(key, frozenset):
        return f"frozenset({{{', '.join(sorted(map(key_text, key)))}}})"
    return repr(key)
