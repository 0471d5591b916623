"""``config.yml`` and ``args.yml`` of rl_zoo3 as plain values, read by PyYAML's event parser (extra ``yaml``).

rl_zoo3 loads these files with ``yaml.UnsafeLoader``, which imports and calls what a tag names. Here PyYAML only splits
the text into events; values are made of them below: dicts, lists, numbers, text. No tag is looked up: the one that
rl_zoo3 writes, ``!!python/object/apply:collections.OrderedDict`` with a list of pairs, is read as a dict, and the value
of another Python tag is an :class:`Opaque`. An alias is the scalar of its anchor, or for a collection an ``Opaque``, so
that aliases do not multiply. ``settings_bytes`` and ``json_depth`` limit bytes and depth.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import DataError, SbformatError, UnsupportedError, escape, quote
from sbformat.immutable import Record
from sbformat.io.opening import join_path, read_start
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.limits import Limits

MISSING_EXTRA: Final = 'PyYAML reads it: pip install "sbformat[yaml]"'
_ORDERED_DICT: Final = "tag:yaml.org,2002:python/object/apply:collections.OrderedDict"
_TEXT_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "python/str", "python/unicode")) | {"!"}
_PLAIN_TAGS: Final = frozenset({
    None, *_TEXT_TAGS, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:int",
    "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", "tag:yaml.org,2002:python/tuple",
    "tag:yaml.org,2002:python/dict", "tag:yaml.org,2002:python/list",
})  # fmt: skip
_WORDS: Final = {
    "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": None, "~": None, "null": None,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,40})", re.ASCII)
_FLOAT: Final = re.compile(
    r"(?:[-+]?[0-9][0-9_]{0,40}\.[0-9_]{0,40}|\.[0-9][0-9_]{0,40})(?:[eE][-+][0-9]{1,4})?", re.ASCII
)
_NORM_OBS: Final = re.compile(r"""(?:['"]norm_obs['"]\s*:|\bnorm_obs\s*=)\s*(True|False)\b""", re.ASCII)

_LONGEST_KEY: Final = 1024  # characters from the start of a key to its colon, as in PyYAML
_RL_ZOO_KEYS: Final = frozenset({"n_timesteps", "policy"})  # hyper-parameters that rl_zoo3 requires


class Opaque(Record):
    """A value that is not made: that of a tag, or a second use of a list or dict."""

    text: str
    """The tag, or the alias."""


class OrderedSettings(dict[str, Any]):
    """A dict that was written as an ``OrderedDict`` of pairs, as rl_zoo3 writes settings."""


def read_settings(path: str, limits: Limits) -> dict[str, Any]:
    """Return the values of a file of settings."""
    try:
        import yaml
    except ImportError:
        raise UnsupportedError(MISSING_EXTRA) from None
    budget = Budget(limits)
    data = _read_file(path, budget)
    try:
        found = _build(yaml.parse(data, Loader=make_loader()), budget)
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError, OverflowError) as error:
        if isinstance(error, SbformatError):
            raise
        raise DataError(f"expected YAML: {escape(str(error).partition(chr(10))[0])}") from None
    if not isinstance(found, dict):
        raise DataError("expected YAML of a mapping")
    return found


def read_results(path: str, limits: Limits) -> dict[str, Any]:
    """Return the values of a ``results.json``, in which the Hugging Face tools store the reward of an evaluation."""
    from sbformat.data import parse_object

    budget = Budget(limits)
    return parse_object(_read_file(path, budget), budget)


@cache
def make_loader() -> Any:
    """Return PyYAML's loader, with the events of ``SafeLoader`` in time linear in the text.

    At each token, its scanner looks at the brackets of the last 1,024 characters that are open, as each may begin a
    key. They are in the order of their positions, so here the search ends at the first that is recent enough.
    """
    import yaml

    class LinearLoader(yaml.SafeLoader):  # type: ignore[misc]
        def stale_possible_simple_keys(self) -> None:
            keys = self.possible_simple_keys
            for level in list(takewhile(lambda level: self._is_stale(keys[level]), keys)):
                key = keys.pop(level)
                if key.required:
                    problem = "could not find expected ':'"
                    raise yaml.scanner.ScannerError("while scanning a simple key", key.mark, problem, self.get_mark())

        def next_possible_simple_key(self) -> int | None:
            return next((key.token_number for key in self.possible_simple_keys.values()), None)

        def _is_stale(self, key: Any) -> bool:
            return bool(key.line != self.line or self.index - key.index > _LONGEST_KEY)

    return LinearLoader


def _read_file(path: str, budget: Budget) -> bytes:
    data = read_start(path, budget.limits.settings_bytes + 1)
    budget.spend("total_bytes", len(data))
    budget.spend("settings_bytes", len(data))
    return data


class Normalization(Record):
    """The statement of the settings beside an agent about ``VecNormalize``."""

    is_normalized: bool | None = None
    """Whether observations were normalized; None when no settings say so."""
    why: str = ""
    """Why they were not."""
    is_stated: bool = False
    """Whether the settings have ``normalize``."""
    not_read: str = ""
    """The file of settings that could not be read, and why."""
    is_unreadable: bool = False
    """Whether that is because PyYAML is missing."""


def read_normalize(top: str, settings: Sequence[str], limits: Limits) -> Normalization:
    """Return whether observations were normalized, by ``normalize`` of ``config.yml`` (FOLDERS.md 21).

    In a ``config.yml`` that rl_zoo3 wrote, no ``normalize`` is false: rl_zoo3 evaluates such an agent without
    statistics, also if there are some. Such a file is an ``OrderedDict`` of pairs, or has ``n_timesteps`` and
    ``policy``.
    """
    for name in settings:
        last = name.rpartition("/")[2]
        if not last.lower().startswith("config."):
            continue
        try:
            values = read_settings(join_path(top, name), limits)
        except (SbformatError, OSError) as error:
            why = error.message if isinstance(error, SbformatError) else error.strerror or type(error).__name__
            not_read = f"{quote(name)} was not read ({why})"
            return Normalization(not_read=not_read, is_unreadable=why == MISSING_EXTRA)
        if "normalize" in values:
            is_normalized = _means_normalized(values["normalize"])
            return Normalization(is_normalized, f"normalize in {quote(name)} says so", is_stated=True)
        if last == "config.yml" and (isinstance(values, OrderedSettings) or values.keys() >= _RL_ZOO_KEYS):
            why = f"{quote(name)} has no normalize, and rl_zoo3 evaluates such an agent without statistics"
            return Normalization(is_normalized=False, why=why)
        break
    return Normalization()


def _means_normalized(value: object) -> bool | None:
    """Return what ``normalize`` means: false, or true, a dict of arguments of VecNormalize, or the text of one."""
    if not value or value == "False":
        return False
    if isinstance(value, dict):
        return bool(value.get("norm_obs", True))
    if isinstance(value, str):
        found = _NORM_OBS.search(value)
        return found[1] == "True" if found else True
    return True if isinstance(value, (int, float)) else None


def _build(events: Iterable[Any], budget: Budget) -> Any:
    """Return the value of the first document; None for an empty text."""
    anchors: dict[str, Any] = {}
    items: list[Any] = []
    stack: list[tuple[list[Any], Any]] = []
    for event in events:
        kind = type(event).__name__
        if kind in ("SequenceStartEvent", "MappingStartEvent"):
            stack.append((items, event))
            budget.spend("json_depth", len(stack))
            items = []
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            made, (items, start) = items, stack.pop()
            items.append(_make_collection(start, made, is_mapping=kind == "MappingEndEvent"))
        elif kind == "ScalarEvent":
            items.append(_resolve_scalar(event))
            if event.anchor is not None:
                anchors[event.anchor] = items[-1]
        elif kind == "AliasEvent":
            items.append(anchors.get(event.anchor, Opaque(f"*{event.anchor}")))
        elif kind == "DocumentEndEvent":
            break
    return items[0] if items else None


def _make_collection(start: Any, items: list[Any], *, is_mapping: bool) -> Any:
    if is_mapping:
        items = [[key, value] for key, value in zip(items[::2], items[1::2])]
    if start.tag == _ORDERED_DICT:
        pairs = items[0] if len(items) == 1 and isinstance(items[0], list) else items
        if not is_mapping and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            return OrderedSettings(_make_dict(pairs))
        return Opaque(start.tag)
    if start.tag not in _PLAIN_TAGS:
        return Opaque(start.tag)
    return _make_dict(items) if is_mapping else items


def _make_dict(pairs: list[Any]) -> dict[str, Any]:
    """Return a dict by text: a key that is not a scalar is named by its type."""
    return {
        key if isinstance(key, str) else type(key).__name__ if isinstance(key, (list, dict, tuple)) else str(key): value
        for key, value in pairs
    }


def _resolve_scalar(event: Any) -> Any:
    """Return a number, bool, None or text, as YAML 1.1 resolves them."""
    if event.tag not in _PLAIN_TAGS:
        return Opaque(event.tag)
    text: str = event.value
    if event.tag in _TEXT_TAGS or (event.tag is None and not event.implicit[0]):  # the second is quoted
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text
