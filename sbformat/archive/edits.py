"""``Archive.replace``: the arguments are checked and encoded here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sbformat import pth
from sbformat.archive.system_info import parse_system_info, parse_version
from sbformat.constants import DATA_ENTRY, PLAIN_ENTRIES, PTH_SUFFIX, VERSION_ENTRY
from sbformat.container.names import is_state_dict
from sbformat.data import dumps
from sbformat.errors import ContainerError, SbformatError, quote, require_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.archive.edited_entries import Content
    from sbformat.archive.entries import Entries
    from sbformat.limits import Limits

T = TypeVar("T")


def encode_edits(
    entries: Entries,
    limits: Limits,
    plain: Mapping[str, Any],
    state_dicts: Mapping[str, Any],
    extra: Mapping[str, bytes | None],
) -> dict[str, Content]:
    """Return the new contents of entries by their full names; None removes an entry.

    :param entries: the entries to edit
    :param limits: the archive's
    :param plain: ``data``, the text of the version and of the system info; ``...`` keeps one
    :param state_dicts: state dicts, or arrays
    :param extra: bytes
    :raises SbformatError: see :meth:`Archive.replace`
    """
    changes: dict[str, Content] = {}
    for name, value in plain.items():
        if value is None:
            changes[name] = None
        elif value is not ...:
            changes[name] = dump_data(value) if name == DATA_ENTRY else _encode_text(name, value)
    for name, value in state_dicts.items():
        changes[name] = _convert_state_dict(entries, limits, name, value)
    for name, content in extra.items():
        if name in PLAIN_ENTRIES or is_state_dict(name):
            message = f"expected the name of an extra entry, got {quote(name)}, which SB3 itself reads"
            raise ContainerError(message)
        if content is None:
            entries.entry(name)  # raises if it does not exist
        else:
            require_type(content, (bytes, bytearray, memoryview), f"{quote(name)} in extra to be bytes")
        changes[name] = content if content is None else bytes(content)
    return changes


def dump_data(data: Mapping[str, Any]) -> bytes:
    """Encode ``data``.

    :raises DataError: for values that JSON cannot represent
    """
    require_type(data, Mapping, "data by key")
    return _call_within(DATA_ENTRY, dumps, data)


def _encode_text(name: str, text: str) -> bytes:
    """Encode a text entry, and check that a reader can parse it."""
    require_type(text, str, f"the text of {name}")
    raw = text.encode("utf-8", "surrogatepass")
    _call_within(name, parse_version if name == VERSION_ENTRY else parse_system_info, raw)
    return raw


def _convert_state_dict(entries: Entries, limits: Limits, name: str, value: Any) -> Content:
    if value is None:
        entries.entry(name)
    if not is_state_dict(name) or name.endswith(PTH_SUFFIX * 2):
        stem = name.removesuffix(PTH_SUFFIX)
        message = f"expected the name of a state dict, without folder and {PTH_SUFFIX}, got {quote(stem)}"
        raise ContainerError(message)
    if value is None or isinstance(value, pth.StateDict):
        return value
    return _call_within(name, partial(pth.StateDict.from_arrays, limits=limits), value)


def _call_within(name: str, function: Callable[[Any], T], value: object) -> T:
    """Call a function; add the entry's name to its error."""
    try:
        return function(value)
    except SbformatError as error:
        if error.entry is None:
            error.within(name)
        raise
