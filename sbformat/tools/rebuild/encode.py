"""Values to what ``data`` contains: JSON where SB3 accepts it, else a new blob (VALUES.md 13.7, REBUILDING.md 15.2)."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.known.spaces import Space
from sbformat.known.table import current_name
from sbformat.known.types import (
    ConstantSchedule,
    FloatSchedule,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    Reference,
    TrainFreq,
    Value,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.known.changes import Release
    from sbformat.pkl.names import Pair

_MAX_JSON_DEPTH: Final = 20
_MAX_JSON_NODES: Final = 100_000
_MAX_JSON_TEXT: Final = 1 << 20
_EXACT_INTEGERS: Final = 2**63
_SCHEDULES: Final = (ConstantSchedule, FloatSchedule, LinearSchedule)

PRIVATE: Final = "it contains a path or an address of the author"
_PATH: Final = re.compile(
    r"""
    (?<![\w.])/[^\s/]                                     # an absolute path, however short
    | /(?:home|users|root|mnt|media|tmp|var|opt|usr|etc|srv|data|scratch|private|workspace|content)\b
    | ~[\w/\\] | (?<![A-Za-z])[A-Za-z]:[/\\\w] | \\[\w.-]+\\ | \\\\[\w.-] | \$\{?[A-Z_]{2,} | %[A-Za-z_]{3,}%
    | [\w.+-]@[\w-] | \w:// | \bfile: | \bssh: | \w:\d{2,5}\b      # addresses
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_private(text: str) -> bool:
    """Return whether a text contains an absolute path, or an address with a user or host."""
    return _PATH.search(text) is not None


def iter_parts(value: object, closed: tuple[type, ...], *, with_keys: bool = False) -> Iterator[object]:
    """Yield a value and everything in it, each part once.

    :param closed: types whose parts are not yielded
    :param with_keys: whether to yield the keys of dicts
    """
    todo = [value]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            todo.extend(part.keys() if with_keys else ())
            todo.extend(part.values())
        elif isinstance(part, (list, tuple, deque, set, frozenset, Value)) and not isinstance(part, closed):
            todo.extend(part)


def iter_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, each once: keys included, and bytes as latin-1."""
    for part in iter_parts(value, (ArrayInfo, Reference), with_keys=True):  # these contain numbers and known names
        if isinstance(part, str):
            yield part
        elif isinstance(part, (bytes, bytearray)):
            yield part.decode("latin-1")


def encode_value(value: object, target: Release, *, foreign: frozenset[Pair] = frozenset()) -> Any:
    """Return what ``data`` contains for a value: plain JSON if that decodes to the same value, else a blob.

    :param value: as :func:`sbformat.values.decode` returns it
    :param foreign: names outside SB3 that it may contain
    :raises UnsupportedError: when it cannot be encoded without code
    """
    if isinstance(value, ArrayInfo) and value.is_scalar:
        return encode_value(value.to_numpy().item(), target)
    if _is_json(value):
        return value
    kind, hints = _describe(value)
    return Serialized(f"<class '{kind}'>", encode(value, target, foreign=foreign), hints)


def _is_json(value: object) -> bool:
    """Return whether JSON decodes to the same value; a value with shared parts stays a blob."""
    todo = [(value, 0)]
    size = 0
    seen: set[int] = set()
    for _ in range(_MAX_JSON_NODES):
        if not todo:
            return size <= _MAX_JSON_TEXT
        part, depth = todo.pop()
        if isinstance(part, (dict, list)):
            if id(part) in seen:  # JSON would repeat it
                return False
            seen.add(id(part))
        size += len(part) if type(part) is str else 0
        if part is None or type(part) in (bool, float, str) or (type(part) is int and abs(part) < _EXACT_INTEGERS):
            continue
        if depth > _MAX_JSON_DEPTH:
            return False
        if type(part) is dict and all(type(key) is str and not key.startswith(":") for key in part):
            todo.extend((inner, depth + 1) for inner in part.values())
        elif type(part) is list:
            todo.extend((inner, depth + 1) for inner in part)
        else:
            return False
    return False


def _describe(value: object) -> tuple[str, dict[str, Any]]:
    """Return the class that SB3 writes as ``:type:``, and what it writes beside the blob.

    People and catalogues read the latter; SB3 does not load it.
    """
    name, hints = type(value).__name__, {}
    if isinstance(value, ArrayInfo):
        name = "numpy.ndarray"
    elif isinstance(value, Reference):
        name, hints = "abc.ABCMeta", {"__module__": current_name(value.pair)[0]}
    elif isinstance(value, Space):
        name, hints = ".".join(value.pair), value.make_hints()
    elif isinstance(value, _SCHEDULES):
        name = f"stable_baselines3.common.utils.{name}"
    elif isinstance(value, InterpolatedSchedule):
        name = "functools.partial"
    elif isinstance(value, TrainFreq):
        name = "stable_baselines3.common.type_aliases.TrainFreq"
    elif isinstance(value, Instance):
        name = str(value.type)
    elif isinstance(value, (OrderedDict, deque)):
        name = f"collections.{name}"
    return name, hints
