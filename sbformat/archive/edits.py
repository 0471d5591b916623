"""What an archive is asked to become: new contents of entries, checked before anything is made of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sbformat import pth
from sbformat.archive.system_info import parse_system_info, parse_version
from sbformat.constants import DATA_ENTRY, PLAIN_ENTRIES, PTH_SUFFIX, VERSION_ENTRY
from sbformat.container.names import is_state_dict
from sbformat.data import dumps
from sbformat.errors import ContainerError, SbformatError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.entries import Entries
    from sbformat.archive.overlay import Content
    from sbformat.limits import Limits

T = TypeVar("T")


def replaced(
    entries: Entries,
    limits: Limits,
    plain: Mapping[str, Any],
    state_dicts: Mapping[str, Any],
    extra: Mapping[str, bytes | None],
) -> dict[str, Content]:
    """Return the new contents that :meth:`Archive.replace` is asked for, by full names; None removes an entry.

    :param entries: what is edited
    :param limits: of the archive
    :param plain: ``data``, the version's text, that of the system info; ``...`` keeps one
    :param state_dicts: state dicts, or arrays
    :param extra: bytes
    :raises SbformatError: as :meth:`Archive.replace` says
    """
    changes: dict[str, Content] = {}
    for name, value in plain.items():
        if value is not ...:
            changes[name] = None if value is None else dump_data(value) if name == DATA_ENTRY else _text(name, value)
    for name, value in state_dicts.items():
        changes[name] = _state_dict(entries, limits, name, value)
    for name, content in extra.items():
        if name in PLAIN_ENTRIES or is_state_dict(name):
            message = f"{quote(name)} is no extra entry: SB3 has a meaning for it"
            raise ContainerError(message)
        if content is None:
            entries.entry(name)  # what is to be removed must be there
        changes[name] = content if content is None else bytes(memoryview(content))  # a number has no bytes
    return changes


def dump_data(data: Mapping[str, Any]) -> bytes:
    """Return ``data`` as it is written.

    :raises DataError: for values that JSON cannot hold
    """
    return _within(DATA_ENTRY, dumps, data)


def _text(name: str, text: str) -> bytes:
    """The text of an entry that is one, which a reader has to understand."""
    raw = text.encode("utf-8", "surrogatepass")
    _within(name, parse_version if name == VERSION_ENTRY else parse_system_info, raw)
    return raw


def _state_dict(entries: Entries, limits: Limits, name: str, value: Any) -> Content:
    if value is None:
        entries.entry(name)
    if not is_state_dict(name) or name.endswith(PTH_SUFFIX * 2):
        message = f"{quote(name.removesuffix(PTH_SUFFIX))} is no state dict's name: SB3's have no {PTH_SUFFIX}"
        raise ContainerError(message)
    if value is None or isinstance(value, pth.StateDict):
        return value
    return _within(name, partial(pth.StateDict.from_arrays, limits=limits), value)


def _within(name: str, make: Callable[[Any], T], value: object) -> T:
    """Make an entry's content; what is wrong with it is told with the entry's name."""
    try:
        return make(value)
    except SbformatError as error:
        if error.entry is None:
            error.within(name)
        raise
