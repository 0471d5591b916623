"""Keys of dicts and members of sets: the only values of a ``.pth`` that are hashed (FORMAT.md 6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.pkl.tree import Call, Dict, Global, Node
from sbformat.pth.addresses import other_keys

if TYPE_CHECKING:
    from sbformat.pth.context import DecodeContext

PLAIN: Final = frozenset({str, int, float, bool, type(None), bytes})
"""Types of values without parts; a key is one of them, or a tuple of them."""
_KEY_PARTS: Final = 8
_TEXT: Final = {str}


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


def check_keys(pairs: Dict, context: DecodeContext) -> list[Any]:
    """Check the keys of a dict and return them.

    Text is hashed with a salt, and the integers 0 to n-1 cannot collide. A file could choose other keys that collide,
    so only few of those are allowed. No key may occur twice.
    """
    keys: list[Any] = [key for key, _ in pairs]
    texts = keys
    if set(map(type, keys)) != _TEXT:
        keys = [_key(key, context) if type(key) in (Call, tuple) else key for key in keys]
        _check_other_keys(keys, context)
        texts = [key for key in keys if type(key) is str]
    if 4 * max(map(len, texts), default=0) > context.limits.tensor_name_bytes:
        for key in texts:
            context.budget.spend("tensor_name_bytes", len(key.encode("utf-8", "surrogatepass")))
    if len(set(keys)) != len(keys):
        _refuse("a dict has the same key twice")
    return keys


def _key(key: Any, context: DecodeContext) -> object:
    """Return a key with its bytes decoded, which protocol 2 encodes as calls; no other call can be a key."""
    if type(key) is tuple:
        if len(key) > _KEY_PARTS:
            _refuse(f"a dict has a key of {len(key)} items")
        return tuple([_key(part, context) if type(part) is Call else part for part in key])
    from sbformat.pkl.numpy import encoded_bytes

    raw = encoded_bytes(key)
    if raw is None:
        return key
    context.copy(len(raw))
    return raw


def _check_other_keys(keys: list[Any], context: DecodeContext) -> None:
    others = other_keys(keys)
    for key in others:
        _check_other_key(key)
    context.budget.spend("other_keys", len(others))


def _check_other_key(key: object) -> None:
    for part in key if type(key) is tuple else (key,):
        if isinstance(part, Node):
            name = quote(part) if isinstance(part, Global) else type(part).__name__.lower()
            message = f"a dict has a key with a node of the pickle, {name}"
            raise UnsupportedError(message)
        if type(part) not in PLAIN:
            _refuse(f"a dict has a key of type {type(part).__name__.lower()}")
        if part != part:  # noqa: PLR0124 -- NaN alone differs from itself
            _refuse("a dict has a key NaN, which Python compares by identity")
