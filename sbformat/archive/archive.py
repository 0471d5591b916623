"""``Archive``: an SB3 archive as an immutable value.

Each entry is decoded at its first access. One bad entry breaks only itself: its error is raised at every access, the
others can be read. An edit returns another archive, which shares everything that was not edited.

The bytes of a ``.pth`` are in two zips, each with a CRC-32 over them; :mod:`sbformat.container.checksums` reads them
once for both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from sbformat import constants, pth
from sbformat.archive.entries import ReadOptions, describe_left_out, parse_system_info, parse_version
from sbformat.constants import DATA_ENTRY, PLAIN_ENTRIES, PTH_SUFFIX, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.container.layout import Member, is_state_dict
from sbformat.container.reader import Container
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, escape, require_names, require_type
from sbformat.immutable import Record
from sbformat.io.source import JoinedSource, is_by_range, iter_views
from sbformat.limits import Budget
from sbformat.pth import decode_pth, decode_zip
from sbformat.pth.decode import is_torch_zip, open_records
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from types import EllipsisType

    from sbformat.archive.edits import Content
    from sbformat.archive.entries import Entries, SystemInfo
    from sbformat.archive.hyperparameters import Algorithm, Hyperparameters
    from sbformat.archive.kinds import Kind
    from sbformat.container.layout import Entry
    from sbformat.immutable import FrozenDict
    from sbformat.limits import Limits
    from sbformat.pth import StateDict
    from sbformat.pth.values import OnUnknown


T = TypeVar("T")

_MOST_NAMES: Final = 8  # of a mapping, in its repr
_VERIFIED_BYTES: Final = 1 << 18
"""An entry up to this size that cannot be decoded is fetched whole, to find out whether it is damaged."""
_VARIABLES_ENTRIES: Final = (constants.PYTORCH_VARIABLES_ENTRY, constants.TENSORS_ENTRY)
_DEFAULT_OPTIONS: Final = ReadOptions()


class NotChecked(Record):
    """An entry of which something was not checked."""

    entry: str
    message: str
    """What, as a sentence without its end."""


class Archive:
    """An archive that was read. :func:`sbformat.read` returns one.

    >>> archive = sbformat.read("ppo_cartpole.zip")
    >>> archive.data["gamma"], archive.decode("observation_space").shape
    (0.99, (4,))
    >>> archive.parameters["policy"].to_numpy()["action_net.bias"].shape
    (2,)

    :param entries: the bytes of its entries
    :param kind: the kind of the file, as :func:`sbformat.archive.kinds.detect_kind` returns it
    :param budget: the budget of the operation; each entry is charged once
    :param options: how entries are decoded
    """

    __slots__ = ("_budget", "_cache", "_contents", "_derived", "_entries", "_kind", "_options", "_state_dicts")

    plain_entries: ClassVar[frozenset[str]] = PLAIN_ENTRIES
    """The names of entries that are neither state dicts nor ``extra``."""

    def __init__(self, entries: Entries, kind: Kind, budget: Budget, options: ReadOptions = _DEFAULT_OPTIONS) -> None:
        self._entries = entries
        self._budget = budget
        self._options = options
        self._cache: dict[str, Any] = {}  # by the name of the entry: its value, or the error that decoding it raised
        self._derived: dict[str, Any] = {}  # see derive
        self._kind = kind
        self._contents = tuple(entries.entries)
        self._state_dicts = tuple(filter(is_state_dict, self._contents))

    def __repr__(self) -> str:
        from sbformat.archive.show_archive import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return a summary for notebooks: what it is, its entries and hyper-parameters."""
        from sbformat.archive.show_archive import render

        return render(self)

    # -- the file -------------------------------------------------------------------------------------

    @property
    def format(self) -> Kind:
        """The kind of the file.

        ``sb3``, ``folder`` (an unzipped archive), ``torch-zip`` or ``torch-legacy`` (a single ``.pth``), ``data-json``
        (a single ``data``); of the other formats ``sbx``, ``sb2-zip``, ``sb2-pickle``, ``policy-file``,
        ``vecnormalize``, ``running-mean-std``, ``replay-buffer``, ``safetensors`` and ``npz``.
        """
        return self._kind

    @property
    def contents(self) -> tuple[str, ...]:
        """The names of everything that is reported and compared; of a single pickle these are parts of one file."""
        return self._contents

    @property
    def state_dicts(self) -> tuple[str, ...]:
        """The full names of the state dicts, such as ``policy.pth``."""
        return self._state_dicts

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every entry by name, in the order of the file, with its stored and its inflated size in bytes."""
        return MappingProxyType(self._entries.entries)

    @property
    def limits(self) -> Limits:
        """The limits that it is read with."""
        return self._budget.limits

    @property
    def on_unknown(self) -> OnUnknown:
        """How unknown constructors are treated; see :func:`sbformat.read`."""
        return self._options.on_unknown

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about how the file was read."""
        left_out = describe_left_out(self._entries.left_out)
        return (left_out,) if left_out else ()

    @property
    def stored_entries(self) -> Entries:
        """The bytes of the entries, as the archive stores them."""
        return self._entries

    def sha256(self) -> str | None:
        """Return the SHA-256 of the file in hexadecimal; None for a folder, and for an edited archive.

        >>> sbformat.read("ppo_cartpole.zip").sha256()

        :raises ContainerError: when the file was left on the disk and has changed since it was opened
        """
        file = self._entries.file
        if file is None or self._kind == "folder":
            return None
        import hashlib

        digest = hashlib.sha256()
        for chunk in iter_views(file, 0, file.size):
            digest.update(chunk)
        return digest.hexdigest()

    def stream(self, name: str) -> Iterator[memoryview | bytes]:
        """Yield an entry's bytes in chunks, unchanged; its CRC is checked after the last one."""
        return self._entries.stream(name)

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes; if they cannot be read, as they are stored, unchecked."""
        try:
            return self._entries.read(name)
        except SbformatError:
            return self._entries.raw(name)

    # -- entries --------------------------------------------------------------------------------------

    @property
    def data(self) -> Mapping[str, Any]:
        """The hyper-parameters: JSON values and :class:`~sbformat.Serialized`, in the order of the file (FORMAT.md 3).

        They cannot be changed, nested lists and dicts included; use :meth:`replace`.

        :raises MissingEntryError: if the archive has no ``data``
        :raises DataError: if it breaks the format
        """
        return self._decode_once(DATA_ENTRY, self._decode_data)

    def _decode_data(self, name: str) -> FrozenDict:
        from sbformat.data import decode, decode_large, is_large

        entries = self._entries
        if not is_large(entries.entry(name).size, self.limits):
            return decode(entries.read(name, limit="json_bytes"), self._budget)
        return decode_large(entries.stream(name), self._budget, partial(entries.source, name))

    @property
    def parameters(self) -> Mapping[str, StateDict]:
        """The state dicts by SB3's names: ``policy``, ``policy.optimizer``, ``actor.optimizer``, ...

        Each is decoded at its first access, which raises its errors (FORMAT.md 1.2, 6, 7).
        """
        variables = self._variables_entry
        names = {name.removesuffix(PTH_SUFFIX): name for name in self.state_dicts if name != variables}
        return Lazy(names, self.state_dict, "state dict")

    @property
    def pytorch_variables(self) -> StateDict | None:
        """``pytorch_variables.pth``, or ``tensors.pth`` of SB3 <= 0.8; None if it is missing."""
        name = self._variables_entry
        return None if name is None else self.state_dict(name)

    @property
    def _variables_entry(self) -> str | None:
        return next((name for name in _VARIABLES_ENTRIES if name in self.entries), None)

    @property
    def stable_baselines3_version(self) -> str | None:
        """The SB3 release that wrote it; None before 0.9.0 (FORMAT.md 4.1)."""
        if VERSION_ENTRY not in self.entries:
            return None
        return self._decode_once(
            VERSION_ENTRY, lambda name: parse_version(bytes(self._entries.read(name, limit="version_bytes")))
        )

    @property
    def system_info(self) -> SystemInfo | None:
        """The fields and the text of ``system_info.txt``; None before 1.3.0 (FORMAT.md 4.2)."""
        if SYSTEM_INFO_ENTRY not in self.entries:
            return None
        return self._decode_once(
            SYSTEM_INFO_ENTRY,
            lambda name: parse_system_info(bytes(self._entries.read(name, limit="system_info_bytes"))),
        )

    @property
    def extra(self) -> Mapping[str, bytes]:
        """The bytes of every other entry; SB3 ignores them."""
        known = {*self.plain_entries, *self.state_dicts}
        names = {name: name for name in self.entries if name not in known}
        return Lazy(names, lambda name: self._decode_once(name, lambda n: bytes(self._entries.read(n))), "extra entry")

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that wrote it, whether that is certain, and the evidence (FORMAT.md 4.3)."""
        from sbformat.archive.hyperparameters import infer

        data = self.data if DATA_ENTRY in self.entries else {}
        return self.derive("algorithm", lambda: infer(data, tuple(self.entries)))

    # -- decoding -------------------------------------------------------------------------------------

    def find_state_dict(self, name: str, *, others: tuple[str, ...] = ()) -> str:
        """Return the full name of a state dict's entry. If there is only one, ``policy`` means that one.

        :param others: other valid names, for the error message
        """
        require_type(name, str, "the name of a state dict")
        names = {entry.removesuffix(PTH_SUFFIX): entry for entry in self.state_dicts}
        if name in names:
            return names[name]
        if len(names) == 1 and name + PTH_SUFFIX == constants.POLICY_ENTRY:
            return next(iter(names.values()))
        raise MissingEntryError(name, present=[*names, *others], what="state dict")

    def state_dict(self, name: str) -> StateDict:
        """Decode a state dict by the full name of its entry, ``policy.pth``.

        :raises MissingEntryError: if there is no such entry
        :raises SbformatError: if it cannot be decoded
        """
        require_type(name, str, "the name of an entry")
        return self._decode_once(name, self._decode_state_dict)

    def decode_plain(self, name: str) -> object:
        """Decode ``data``, the version or the system info by the full name of the entry."""
        if name == DATA_ENTRY:
            return self.data
        return self.stable_baselines3_version if name == VERSION_ENTRY else self.system_info

    def _decode_state_dict(self, name: str) -> StateDict:
        """Decode a ``.pth`` and check its CRC: at once, or, if the entry is not in memory, in :meth:`check`.

        A wrong CRC of the entry is reported first, unless the entry is large and would have to be fetched for it.
        """
        entries, options, budget = self._entries, self._options, self._budget
        source = entries.source(name)
        modules = None
        if self.format in ("torch-zip", "torch-legacy"):
            from sbformat.pth.modules import ModuleState

            modules = ModuleState(budget)
        try:
            if is_torch_zip(source):
                records = open_records(source, budget, unchecked_crc=options.unchecked_crc)
                if options.check_crc:
                    entries.check_zip(name, records)
                state_dict = decode_zip(
                    records, budget, on_unknown=options.on_unknown, copy=options.copy, modules=modules
                )
            else:
                data = entries.read(name) if options.check_crc else entries.view(name)
                unknown, unchecked = options.on_unknown, options.unchecked_crc
                state_dict = decode_pth(
                    data, budget, on_unknown=unknown, unchecked_crc=unchecked, copy=options.copy, modules=modules
                )
        except SbformatError:
            if options.check_crc and (source.size <= _VERIFIED_BYTES or not is_by_range(source)):
                entries.verify(name)
            raise
        state_dict.entry = name
        state_dict.classes = {} if modules is None else modules.classes
        return state_dict

    def check(self) -> None:
        """Check the CRCs of entries whose tensors were read from the disk one by one.

        Call it after the last tensor was read, before its bytes are relied on: it reads the rest of each entry.

        :raises ContainerError: if a CRC is wrong
        """
        self._entries.check_deferred(self.entries.keys())
        for name in self.state_dicts:
            records = self._find_records(name)
            if records is not None:
                try:
                    records.check_rest()
                except SbformatError as error:
                    raise error.within(name) from None

    def not_checked(self) -> tuple[NotChecked, ...]:
        """Return what was not fetched of a remote file and so not checked (FORMAT.md 2.7); :meth:`check` fetches it."""
        stored = self._entries
        rows = {row.name: row for row in stored.list_unchecked()} if isinstance(stored, Container) else {}
        found = []
        for name, entry in self.entries.items():
            row = rows.get(name)
            if row is not None and row.header:
                message = "nothing of it was fetched: neither its local header nor its CRC-32 was checked"
                found.append(NotChecked(name, message))
                continue
            if row is not None:
                found.append(NotChecked(name, f"the CRC-32 of its {entry.size:,} bytes was not checked"))
            records = self._find_records(name)
            unread = records.list_unchecked() if records is not None else ()
            if records is not None and unread:
                headers = sum(record.header for record in unread)
                message = f"the CRC-32 of {len(unread):,} of its {count_noun(len(records), 'record')} was not checked"
                message += f", nor the local header of {headers:,}" if headers else ""
                found.append(NotChecked(name, message))
        return tuple(found)

    def _find_records(self, name: str) -> Container | None:
        """Return the torch zip of a state dict that was decoded."""
        return getattr(self._cache.get(name), "records", None)

    def _decode_once(self, name: str, decode: Callable[[str], T]) -> T:
        """Decode an entry at the first call; keep the value or the error for the others."""
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

    def is_decoded(self, name: str) -> bool:
        """Return whether an entry was decoded before, or failed to be, so that its value is in memory."""
        return name in self._cache

    def _require(self, name: str) -> None:
        self._entries.entry(name)

    # -- values ---------------------------------------------------------------------------------------

    def decode(self, key: str) -> Any:
        """Return the meaning of a value of ``data``: JSON unchanged, a blob decoded without running it (VALUES.md 13).

        What can be changed is made anew at each call; changing it does not change the archive.

        >>> archive.decode("clip_range")
        <Constant schedule 0.2>

        :param key: a key of ``data``
        :return: see :func:`sbformat.values.decode`
        :raises MissingEntryError: if ``data`` has no such key
        :raises PickleError: if the blob is not a pickle
        :raises LimitError: if it needs more than allowed
        """
        from sbformat.archive.hyperparameters import ValueDecoder

        data = self.data
        if key not in data:
            raise MissingEntryError(key, present=data, what="key of data")
        return self.derive("values", ValueDecoder).decode(key, data[key], self._budget.fork())

    def derive(self, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` makes of this archive alone, under a name, and once; an error is not kept."""
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]  # type: ignore[no-any-return]

    def hyperparameters(self) -> Hyperparameters:
        """Decode all of ``data``, in its order; a blob that cannot be decoded is returned as it is.

        >>> archive.hyperparameters()["gamma"]
        <Hyperparameter 0.99, json>
        """
        from sbformat.archive.hyperparameters import Hyperparameters, ValueDecoder

        data, budget, values = self.data, self._budget.fork(), self.derive("values", ValueDecoder)
        return Hyperparameters({key: values.describe(key, value, budget) for key, value in data.items()})

    # -- edits ----------------------------------------------------------------------------------------

    def require_writable(self) -> None:
        """Refuse files of other formats: only archives of Stable-Baselines3 can be edited and written."""

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
        """Return an archive with some entries replaced; all others are kept, and written, byte for byte.

        An entry is replaced as a whole, None removes it, and ``...``, the default, keeps it.

        >>> archive.replace(data={**archive.data, "gamma": 0.98})
        >>> archive.replace(parameters={"policy": weights, "policy.optimizer": None})

        :param data: all of ``data``, in the form of :attr:`data`
        :param parameters: by SB3's names: state dicts, or arrays in the form of :meth:`StateDict.to_numpy`, which are
            referred to, not copied. Those that are not named are kept.
        :param pytorch_variables: a state dict or arrays
        :param stable_baselines3_version: the SB3 release
        :param system_info: the text of ``system_info.txt``
        :param extra: bytes by entry name; those that are not named are kept
        :raises DataError: for values that JSON cannot represent
        :raises ValidationError: for new values of ``data`` that violate the schema, as :func:`sbformat.edit` does
        :raises UnsupportedError: for values that a ``.pth`` cannot represent, and for files of other formats
        :raises ContainerError: for invalid entry names
        :raises MissingEntryError: for a state dict or extra entry to remove that does not exist
        """
        from sbformat.archive.edits import encode_edits
        from sbformat.schema.schemas import require_values

        plain = {DATA_ENTRY: data, VERSION_ENTRY: stable_baselines3_version, SYSTEM_INFO_ENTRY: system_info}
        require_type(parameters, (Mapping, type(None)), "parameters to be state dicts by name")
        require_type(extra, (Mapping, type(None)), "extra to be bytes by entry name")
        require_names((parameters or {}).keys(), "parameters")
        require_names((extra or {}).keys(), "extra")
        state_dicts = {name + PTH_SUFFIX: value for name, value in (parameters or {}).items()}
        variables = self._variables_entry or constants.PYTORCH_VARIABLES_ENTRY
        if pytorch_variables is None and variables not in self.entries:
            if state_dicts.get(variables) is not None:
                del state_dicts[variables]
        elif pytorch_variables is not ...:
            state_dicts[variables] = pytorch_variables
        edited = self.with_entries(encode_edits(self._entries, self.limits, plain, state_dicts, extra or {}))
        if data not in (None, ...):
            require_values(self, edited)
        return edited

    def unchecked(self) -> Archive:
        """Return the archive without a check of the CRC of each state dict; those of its records are checked."""
        return Archive(self._entries, self.format, Budget(self.limits), self._options._replace(check_crc=False))

    def without(self, *names: str) -> Archive:
        """Return an archive without some entries.

        :param names: full names, ``system_info.txt``
        :raises MissingEntryError: if there is no such entry
        """
        for name in names:
            self._entries.entry(name)
        return self.with_entries(dict.fromkeys(names))

    def with_entries(self, changes: dict[str, Content]) -> Archive:
        """Return an archive with entries replaced by their full names; None removes one."""
        from sbformat.archive.edits import EditedEntries

        self.require_writable()
        changes = {
            name: content
            for name, content in changes.items()
            if (name in self.entries if content is None else content is not self._cache.get(name))
        }
        budget = Budget(self.limits)
        budget.grant(sum(content.size for content in changes.values() if isinstance(content, JoinedSource)))
        edited = Archive(EditedEntries(self._entries, changes), self.format, budget, self._options)
        edited._cache = {name: value for name, value in self._cache.items() if name not in changes}
        for name, content in changes.items():
            if isinstance(content, pth.StateDict):
                edited._cache[name] = content.named(name)
        return edited

    def encode_entry(self, name: str, *, reencode: bool = False) -> tuple[Member, bool]:
        """Return an entry as it is written, and whether it was replaced, added or encoded again since it was read.

        :param reencode: encode its values again instead of copying its bytes
        """
        self.require_writable()
        if name == DATA_ENTRY and reencode:
            from sbformat.archive.edits import dump_data, encode_content

            return encode_content(name, dump_data(self.data)), True
        if reencode and is_state_dict(name):
            encoded = pth.encode_pth(self.state_dict(name))
            return Member(name, encoded.size, encoded.chunks, encoded.crc), True
        return self._entries.member(name), self._entries.is_new(name)

    def __copy__(self) -> Archive:
        """Return the same archive: nothing in it can be changed."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Archive:
        return self

    # -- equality -------------------------------------------------------------------------------------

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Compare by value (FORMAT.md 9).

        ``data`` by value and order of keys, tensors bit for bit, everything else, and what cannot be decoded, by its
        bytes. Zip headers, dates and compression do not count.
        """
        if not isinstance(other, Archive):
            return NotImplemented
        return set(self.contents) == set(other.contents) and all(
            _is_same_entry(self, other, name) for name in self.contents
        )


def _is_same_entry(one: Archive, other: Archive, name: str) -> bool:
    with contextlib.suppress(SbformatError):
        if name == DATA_ENTRY:
            from sbformat.data import equal_json

            return equal_json(one.data, other.data)
        if name in one.state_dicts:
            return one.state_dict(name) == other.state_dict(name)
    return one.raw(name) == other.raw(name)


class Lazy(Mapping[str, T]):
    """A read-only mapping that calls ``decode`` at every lookup."""

    __slots__ = ("_decode", "_names", "_what")

    def __init__(self, names: dict[str, str], decode: Callable[[str], T], what: str) -> None:
        self._names = names
        self._decode = decode
        self._what = what

    def __getitem__(self, key: str) -> T:
        try:
            name = self._names[key]
        except KeyError:
            raise MissingEntryError(key, present=self._names, what=self._what) from None
        return self._decode(name)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        more = ", \u2026" if len(self) > _MOST_NAMES else ""
        return f"<{len(self)} of {', '.join(escape(name, 60) for name in islice(self, _MOST_NAMES))}{more}>"


class ReadOnlyArchive(Archive):
    """The base class of Stable Baselines 2 files, single pickles and files of arrays (SB2.md 16)."""

    __slots__ = ()

    def require_writable(self) -> None:
        hint = "rebuild makes an archive of Stable-Baselines3 of it" if self.format.startswith("sb2-") else ""
        message = f"expected an archive of Stable-Baselines3 to edit or write, got a file of the kind {self.format}"
        raise UnsupportedError(message, hint=hint)


class SingleFileArchive(ReadOnlyArchive):
    """The base class of formats whose parts, the last of them a state dict, are not entries but in one file."""

    __slots__ = ()

    def __init__(
        self, entries: Entries, kind: Kind, budget: Budget, options: ReadOptions, contents: tuple[str, ...]
    ) -> None:
        super().__init__(entries, kind, budget, options)
        self._contents = contents
        self._state_dicts = contents[-1:]

    def _require(self, name: str) -> None:
        if name not in self.contents:
            raise MissingEntryError(name, present=self.contents)

    @property
    def algorithm(self) -> Algorithm:
        """Unknown: such a file does not contain it."""
        from sbformat.archive.hyperparameters import Algorithm

        return Algorithm(None, certain=False, evidence=())

    @property
    def extra(self) -> Mapping[str, bytes]:
        """Empty: there is one file only."""
        return {}

    def raw(self, name: str) -> memoryview:  # noqa: ARG002 -- every part is in the one file
        return super().raw(next(iter(self.entries)))
