"""Values to what ``data`` holds: JSON where SB3 takes it, else a blob of our own (FORMAT.md 13.7, 15.2)."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import Serialized
from sbformat.globals.renamed import current_name
from sbformat.pkl.numpy import ArrayInfo
from sbformat.values import encode
from sbformat.values.types import (
    Box,
    DictSpace,
    Discrete,
    FloatSchedule,
    Instance,
    LinearSchedule,
    MultiBinary,
    MultiDiscrete,
    Reference,
    TrainFreq,
    TupleSpace,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.globals.releases import Target
    from sbformat.globals.torch import Pair

_DEEPEST_JSON: Final = 20
_MOST_JSON: Final = 100_000
_MOST_TEXT: Final = 1 << 20
_EXACT_INTEGERS: Final = 2**63
_SPACES: Final[Mapping[type, str]] = {
    Box: "box.Box",
    Discrete: "discrete.Discrete",
    MultiDiscrete: "multi_discrete.MultiDiscrete",
    MultiBinary: "multi_binary.MultiBinary",
    DictSpace: "dict.Dict",
    TupleSpace: "tuple.Tuple",
}
_SCHEDULES: Final[Mapping[type, str]] = {FloatSchedule: "FloatSchedule", LinearSchedule: "LinearSchedule"}

PRIVATE: Final = "it holds a path or an address of whoever trained it"
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
    """Say whether a text holds an absolute path, or an address with a user or host."""
    return _PATH.search(text) is not None


def parts(value: object, closed: tuple[type, ...], *, with_keys: bool = False) -> Iterator[object]:
    """Yield a value and all that is in it, each once.

    :param closed: types that are not looked into
    :param with_keys: yield the keys of dicts too
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


def texts(value: object) -> Iterator[str]:
    """Yield every text in a value, each once, and what bytes would be as one; keys included."""
    for part in parts(value, (ArrayInfo, Reference), with_keys=True):  # numbers, and names that are known
        if isinstance(part, str):
            yield part
        elif isinstance(part, (bytes, bytearray)):
            yield part.decode("latin-1")


def written(value: object, target: Target, *, foreign: frozenset[Pair] = frozenset()) -> Any:
    """Return what ``data`` holds for a value: plain JSON when that gives it back, else a blob.

    :param value: as :func:`sbformat.values.decode` gives it
    :param foreign: names outside SB3 that may stand in it
    :raises UnsupportedError: when it has no form without code
    """
    if isinstance(value, ArrayInfo) and value.is_scalar:
        return written(value.to_numpy().item(), target)
    if _is_json(value):
        return value
    return Serialized(_type_of(value), encode(value, target, foreign=foreign), _hints(value))


def _is_json(value: object) -> bool:
    """Say whether JSON gives a value back; what shares so many parts that it would not fit stays a blob."""
    todo = [(value, 0)]
    size = 0
    seen: set[int] = set()
    for _ in range(_MOST_JSON):
        if not todo:
            return size <= _MOST_TEXT
        part, depth = todo.pop()
        if isinstance(part, (dict, list)):
            if id(part) in seen:  # JSON would write it as often as it is met
                return False
            seen.add(id(part))
        size += len(part) if type(part) is str else 0
        if part is None or type(part) in (bool, float, str) or (type(part) is int and abs(part) < _EXACT_INTEGERS):
            continue
        if depth > _DEEPEST_JSON:
            return False
        if type(part) is dict and all(type(key) is str and not key.startswith(":") for key in part):
            todo.extend((inner, depth + 1) for inner in part.values())
        elif type(part) is list:
            todo.extend((inner, depth + 1) for inner in part)
        else:
            return False
    return False


def _type_of(value: object) -> str:
    """What SB3 writes as ``:type:``."""
    name = type(value).__name__
    if isinstance(value, ArrayInfo):
        name = "numpy.ndarray"
    elif isinstance(value, Reference):
        name = "abc.ABCMeta"
    elif type(value) in _SPACES:
        name = f"gymnasium.spaces.{_SPACES[type(value)]}"
    elif type(value) in _SCHEDULES:
        name = f"stable_baselines3.common.utils.{_SCHEDULES[type(value)]}"
    elif isinstance(value, TrainFreq):
        name = "stable_baselines3.common.type_aliases.TrainFreq"
    elif isinstance(value, Instance):
        name = str(value.type)
    elif isinstance(value, (OrderedDict, deque)):
        name = f"collections.{name}"
    return f"<class '{name}'>"


def _hints(value: object) -> dict[str, Any]:
    """The siblings that people and catalogues read: nothing loads them."""
    if isinstance(value, Reference):
        return {"__module__": current_name(value.pair)[0]}
    if isinstance(value, (Box, MultiBinary)):
        return {"dtype": _dtype_name(value.dtype), "_shape": list(value.shape)}
    if isinstance(value, Discrete):
        return {"dtype": _dtype_name(value.dtype), "_shape": [], "n": str(value.n), "start": str(value.start)}
    if isinstance(value, MultiDiscrete):
        return {"dtype": _dtype_name(value.dtype), "_shape": list(value.nvec.shape)}
    return {}


def _dtype_name(code: str) -> str:
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    kind = kinds.get(code[1:2])
    return code if kind is None else kind if kind == "bool" else f"{kind}{int(code[2:]) * 8}"
