"""``Archive``: an SB3 archive as a value; each entry is decoded when it is first asked for.

An edit gives another archive, which shares what was not edited. One bad entry breaks only itself: its error is raised
whenever it is asked for, the others are read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from sbformat import pth
from sbformat.archive.lazy import Lazy
from sbformat.archive.state_dicts import decode_entry
from sbformat.constants import (
    DATA_ENTRY,
    PLAIN_ENTRIES,
    POLICY_ENTRY,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    SYSTEM_INFO_ENTRY,
    TENSORS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.container.names import is_state_dict
from sbformat.container.records import Member
from sbformat.errors import FormatError, LimitError, MissingEntryError, SbformatError
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import EllipsisType

    from sbformat.archive.algorithm import Algorithm
    from sbformat.archive.entries import Entries
    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.archive.kinds import Kind
    from sbformat.archive.overlay import Content
    from sbformat.archive.system_info import SystemInfo
    from sbformat.container.records import Entry
    from sbformat.limits import Limits
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown

T = TypeVar("T")

_VARIABLES_ENTRIES: Final = (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY)


class Options(NamedTuple):
    """How entries are decoded; see :func:`sbformat.read`."""

    on_unknown: OnUnknown = "error"
    unchecked_crc: bool = False
    copy: bool = False
    check_crc: bool = True
    """Check the CRC of a ``.pth`` as a whole, besides those of the records that are handed out."""


class Encoded(NamedTuple):
    """An entry as it is to be written."""

    member: Member
    is_new: bool
    """It differs from what was read: replaced or added."""


class Archive:
    """An archive, read.

    :param entries: where its entries come from
    :param kind: what the file was, as :func:`sbformat.archive.kinds.sniff` tells
    :param budget: the operation's; each entry is charged once
    :param options: how entries are decoded
    """

    __slots__ = ("_budget", "_cache", "_entries", "_options", "contents", "format", "state_dicts")

    format: Kind
    """``sb3``, ``folder`` (an unzipped one), ``torch-zip``, ``torch-legacy`` (a lone ``.pth``), ``data-json`` (a bare
    ``data``); of the other formats ``sb2-zip``, ``sb2-pickle``, ``vecnormalize``, ``running-mean-std`` and
    ``replay-buffer``."""
    contents: tuple[str, ...]
    """What there is to report and to compare, as names of entries."""
    state_dicts: tuple[str, ...]
    """The full names of the entries that are state dicts: ``policy.pth``."""
    plain_entries: ClassVar[frozenset[str]] = PLAIN_ENTRIES
    """Names of entries that are neither state dicts nor unknown."""

    def __init__(self, entries: Entries, kind: Kind, budget: Budget, options: Options = Options()) -> None:  # noqa: B008 -- immutable
        self._entries = entries
        self._budget = budget
        self._options = options
        self._cache: dict[str, Any] = {}
        self.format = kind
        self.contents = tuple(entries.entries)
        self.state_dicts = tuple(filter(is_state_dict, self.contents))

    def __repr__(self) -> str:
        return f"<Archive {self.format} {' '.join(self.entries)!r:.200}>"

    @property
    def limits(self) -> Limits:
        """What it may ask for."""
        return self._budget.limits

    @property
    def on_unknown(self) -> OnUnknown:
        """What was asked for constructors that are not known; see :func:`sbformat.read`."""
        return self._options.on_unknown

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every entry by name, in order, with its size as stored and inflated."""
        return self._entries.entries

    @property
    def stored_entries(self) -> Entries:
        """The bytes of the entries, as the archive stores them."""
        return self._entries

    def stream(self, name: str) -> Iterator[memoryview | bytes]:
        """Yield an entry's bytes in chunks, verbatim; its CRC is checked after the last."""
        return self._entries.stream(name)

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes, or as they are stored when they cannot be had otherwise."""
        try:
            return self._entries.read(name)
        except SbformatError:
            return self._entries.raw(name)

    # -- entries --------------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was read, in sentences."""
        return ()

    @property
    def data(self) -> Mapping[str, Any]:
        """``data``: JSON values and :class:`~sbformat.Serialized`, in the order of the file (FORMAT.md 3).

        :raises MissingEntryError: when there is none
        :raises DataError: when it breaks the format
        """
        from sbformat.data import decode

        return self._once(DATA_ENTRY, lambda name: decode(self._entries.read(name, limit="json_bytes"), self._budget))

    @property
    def parameters(self) -> Mapping[str, StateDict]:
        """The state dicts by SB3's names: ``policy``, ``policy.optimizer``, ``actor.optimizer``, ...

        Each is decoded at its first access, which raises what is wrong with it (FORMAT.md 1.2, 6, 7).
        """
        variables = self._variables_entry
        names = {name.removesuffix(PTH_SUFFIX): name for name in self.state_dicts if name != variables}
        return Lazy(names, self.state_dict, "state dict")

    @property
    def pytorch_variables(self) -> StateDict | None:
        """``pytorch_variables.pth``, or ``tensors.pth`` of SB3 <= 0.8; None without."""
        name = self._variables_entry
        return None if name is None else self.state_dict(name)

    @property
    def _variables_entry(self) -> str | None:
        return next((name for name in _VARIABLES_ENTRIES if name in self.entries), None)

    @property
    def stable_baselines3_version(self) -> str | None:
        """The release that wrote it; None before 0.9.0 (FORMAT.md 4.1)."""
        if VERSION_ENTRY not in self.entries:
            return None
        from sbformat.archive.system_info import parse_version

        return self._once(
            VERSION_ENTRY, lambda name: parse_version(bytes(self._entries.read(name, limit="version_bytes")))
        )

    @property
    def system_info(self) -> SystemInfo | None:
        """``system_info.txt``: its fields and its text; None before 1.3.0 (FORMAT.md 4.2)."""
        if SYSTEM_INFO_ENTRY not in self.entries:
            return None
        from sbformat.archive.system_info import parse_system_info

        return self._once(
            SYSTEM_INFO_ENTRY,
            lambda name: parse_system_info(bytes(self._entries.read(name, limit="system_info_bytes"))),
        )

    @property
    def extra(self) -> Mapping[str, bytes]:
        """Every other entry, verbatim; SB3 ignores them."""
        known = {*self.plain_entries, *self.state_dicts}
        names = {name: name for name in self.entries if name not in known}
        return Lazy(names, lambda name: self._once(name, lambda n: bytes(self._entries.read(n))), "extra entry")

    @property
    def algorithm(self) -> Algorithm:
        """Which algorithm wrote it, how certain that is, and what tells so (FORMAT.md 4.3)."""
        from sbformat.archive.algorithm import infer

        return infer(self.data if DATA_ENTRY in self.entries else {}, tuple(self.entries))

    # -- decoding -------------------------------------------------------------------------------------

    def state_dict_entry(self, name: str, *, others: tuple[str, ...] = ()) -> str:
        """Return the entry that is meant by SB3's name of a state dict; of one alone, ``policy`` means that.

        :param name: ``policy``, ``policy.optimizer``, ...
        :param others: what else could have been asked for
        :raises MissingEntryError: when there is no such state dict
        """
        names = {entry.removesuffix(PTH_SUFFIX): entry for entry in self.state_dicts}
        if name in names:
            return names[name]
        if len(names) == 1 and name + PTH_SUFFIX == POLICY_ENTRY:
            return next(iter(names.values()))
        self.require_torch()
        raise MissingEntryError(name, present=[*names, *others], what="state dict")

    def state_dict(self, name: str) -> StateDict:
        """Return the state dict of an entry by its full name, ``policy.pth``.

        :raises MissingEntryError: when there is none
        :raises SbformatError: what is wrong with it
        """
        return self._once(name, self._decode_state_dict)

    def decode_plain(self, name: str) -> object:
        """Decode ``data``, the version or the system info by the entry's full name.

        :raises SbformatError: what is wrong with it
        """
        if name == DATA_ENTRY:
            return self.data
        return self.stable_baselines3_version if name == VERSION_ENTRY else self.system_info

    def _decode_state_dict(self, name: str) -> StateDict:
        on_unknown, unchecked_crc, copy, check_crc = self._options
        state_dict = decode_entry(
            self._entries, name, self._budget,
            on_unknown=on_unknown, unchecked_crc=unchecked_crc, copy=copy, check_crc=check_crc,
        )  # fmt: skip
        state_dict.entry = name
        return state_dict

    def check(self) -> None:
        """Check the CRCs of entries that were decoded but are not in memory; those of others were checked before.

        Call it after everything that is needed was read, and before the result counts; it reads the rest of the bytes.

        :raises ContainerError: when one is wrong
        """
        self._entries.check_deferred(self.entries.keys())

    def _once(self, name: str, decode: Callable[[str], T]) -> T:
        """Decode an entry once, and remember the value or the error."""
        if name not in self._cache:
            try:
                self._require(name)
                self._cache[name] = decode(name)
            except SbformatError as error:
                if error.entry != name and not isinstance(error, MissingEntryError):
                    error.within(name)
                self._cache[name] = error.again()
                raise
        found = self._cache[name]
        if isinstance(found, SbformatError):
            raise found.again()
        return found  # type: ignore[no-any-return]

    def _require(self, name: str) -> None:
        if name not in self.entries and is_state_dict(name):
            self.require_torch()
        self._entries.entry(name)

    def require_torch(self) -> None:
        """Refuse an archive of SBX, whose weights are not in a ``.pth``.

        :raises UnsupportedError: when it is one
        """
        from sbformat.archive.algorithm import refuse_sbx

        if DATA_ENTRY in self.contents and not self.state_dicts:
            with contextlib.suppress(FormatError, LimitError):  # whoever asks for data is told
                refuse_sbx(self.data)

    # -- what blobs mean ------------------------------------------------------------------------------

    def decode(self, key: str) -> Any:
        """Return what a value of ``data`` means: JSON as it is, a blob decoded without running it (FORMAT.md 13).

        :param key: of ``data``
        :return: as :func:`sbformat.values.decode` gives it
        :raises MissingEntryError: when ``data`` has no such key
        :raises PickleError: when the blob is no pickle
        :raises LimitError: when it asks for more than allowed
        """
        from sbformat.archive.hyperparameters import decoded

        data = self.data
        if key not in data:
            raise MissingEntryError(key, present=data, what="key of data")
        return decoded(data[key], self._budget.fork())

    def hyperparameters(self) -> dict[str, Hyperparameter]:
        """Return all of ``data``, decoded, in its order; a blob that cannot be decoded stays as it is."""
        from sbformat.archive.hyperparameters import hyperparameter

        data, budget = self.data, self._budget.fork()
        return {key: hyperparameter(value, budget) for key, value in data.items()}

    # -- edits ----------------------------------------------------------------------------------------

    def require_own(self) -> None:
        """Refuse what is no archive of Stable-Baselines3: only those are edited and written."""

    def replace(
        self,
        *,
        data: Mapping[str, Any] | EllipsisType | None = ...,
        parameters: Mapping[str, Any] | None = None,
        pytorch_variables: Any = ...,
        stable_baselines3_version: str | EllipsisType | None = ...,
        system_info: str | EllipsisType | None = ...,
        extra: Mapping[str, bytes | None] | None = None,
    ) -> Archive:
        """Return an archive with some entries replaced; every other one is kept, and written, byte for byte.

        An entry is replaced as a whole, None removes it, and ``...``,
        the default, keeps it: ``replace(data={**archive.data, "gamma": 0.98})``, ``replace(parameters={"policy":
        weights, "policy.optimizer": None})``.

        :param data: all of ``data``, as :attr:`data` gives it
        :param parameters: by SB3's names; a state dict, or arrays as :meth:`StateDict.to_numpy` gives them, which are
            referred to, not copied. Those that are not named are kept.
        :param pytorch_variables: as one of ``parameters``
        :param stable_baselines3_version: the release to name
        :param system_info: its text
        :param extra: bytes by entry name; those that are not named are kept
        :raises DataError: for values that JSON cannot hold
        :raises UnsupportedError: for values that a ``.pth`` cannot hold
        :raises ContainerError: for names that no entry can have
        :raises MissingEntryError: for a state dict or extra entry that is to be removed and is not there
        """
        from sbformat.archive.edits import replaced

        variables = self._variables_entry or PYTORCH_VARIABLES_ENTRY
        plain = {DATA_ENTRY: data, VERSION_ENTRY: stable_baselines3_version, SYSTEM_INFO_ENTRY: system_info}
        state_dicts = {name + PTH_SUFFIX: value for name, value in (parameters or {}).items()}
        if pytorch_variables is None and variables not in self.entries:
            if state_dicts.get(variables) is not None:
                del state_dicts[variables]
        elif pytorch_variables is not ...:
            state_dicts[variables] = pytorch_variables
        return self.with_entries(replaced(self._entries, self.limits, plain, state_dicts, extra or {}))

    def without(self, *names: str) -> Archive:
        """Return an archive that lacks some entries.

        :param names: full names, ``system_info.txt``
        :raises MissingEntryError: when there is no such entry
        """
        for name in names:
            self._entries.entry(name)
        return self.with_entries(dict.fromkeys(names))

    def with_entries(self, changes: dict[str, Content]) -> Archive:
        """Return an archive with entries replaced by their full names; None removes one."""
        from sbformat.archive.overlay import Overlay

        self.require_own()
        kept = {
            name: content
            for name, content in changes.items()
            if not (content is not None and content is self._cache.get(name))
            and (content is not None or name in self.entries)
        }
        made = Archive(Overlay(self._entries, kept), self.format, Budget(self.limits), self._options)
        made._cache = {name: value for name, value in self._cache.items() if name not in kept}
        for name, content in kept.items():
            if isinstance(content, pth.StateDict):
                made._cache[name] = content.named(name)
        return made

    def encoded(self, name: str, *, reencode: bool = False) -> Encoded:
        """Return an entry's bytes as they are to be written.

        :param name: of an entry
        :param reencode: make the bytes anew from the values
        :raises SbformatError: when it has to be decoded, and cannot be
        """
        self.require_own()
        if name == DATA_ENTRY and reencode:
            from sbformat.archive.edits import dump_data

            content = dump_data(self.data)
            return Encoded(Member(name, len(content), lambda: (content,)), is_new=True)
        if reencode and is_state_dict(name):
            made = pth.encode_pth(self.state_dict(name))
            return Encoded(Member(name, made.size, made.chunks, made.crc), is_new=True)
        return Encoded(self._entries.member(name), self._entries.is_new(name))

    def __copy__(self) -> Archive:
        """Return the same archive: nothing in it can be changed."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Archive:
        return self

    # -- equality -------------------------------------------------------------------------------------

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Equal by value (FORMAT.md 9).

        ``data`` by value and order of keys, tensors bit for bit, everything else, and what cannot be
        decoded, by its bytes. Zip headers, dates and compression do not count.
        """
        if not isinstance(other, Archive):
            return NotImplemented
        if set(self.contents) != set(other.contents):
            return False
        return all(self._same_entry(other, name) for name in self.contents)

    def _same_entry(self, other: Archive, name: str) -> bool:
        if name == DATA_ENTRY or name in self.state_dicts:
            from sbformat.data import equal_json

            try:
                if name == DATA_ENTRY:
                    return equal_json(self.data, other.data)
                return self.state_dict(name) == other.state_dict(name)
            except SbformatError:
                pass
        return self.raw(name) == other.raw(name)
