"""Where pickles are: every layer of a file, down to pickles within pickles (FORMAT.md 14.2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sbformat.archive.folder import LooseEntries
from sbformat.archive.kinds import is_safetensors, sniff, sniff_zip
from sbformat.archive.system_info import parse_system_info, parse_version
from sbformat.constants import (
    ARRAYS_ENTRY,
    BYTE_ORDER_RECORD,
    DATA_ENTRY,
    END_SIGNATURE,
    IGNORED_RECORDS,
    LEGACY_MAGIC_BYTES,
    LOCAL_SIGNATURE,
    NPY_MAGIC,
    PICKLE_RECORD,
    PTH_SUFFIX,
    STORAGE_FOLDER,
    SYSTEM_INFO_ENTRY,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    VERSION_ENTRY,
)
from sbformat.container.inflate import InflatedSource
from sbformat.container.names import check_records
from sbformat.container.reader import INFLATED_WHOLE_BYTES, Container
from sbformat.container.records import STORED
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.io.source import BytesSource
from sbformat.pth import legacy
from sbformat.pth.decode import open_zip
from sbformat.tools.scan import recover as carve
from sbformat.tools.scan.documents import DocumentScanner
from sbformat.tools.scan.judge import judge_pth
from sbformat.tools.scan.roles import of_attribute, of_state_dict
from sbformat.tools.scan.sidecars import of_yaml
from sbformat.tools.scan.streams import DEEPEST, is_marked
from sbformat.tools.scan.yaml_tags import may_hold_tags

if TYPE_CHECKING:
    from sbformat.archive.entries import Entries
    from sbformat.archive.kinds import Kind
    from sbformat.io.source import Source
    from sbformat.limits import Limits
    from sbformat.tools.scan.judge import Judged
    from sbformat.tools.scan.location import Place

_MOST_INFLATED: Final = 1 << 22
"""Of one member that cannot be had by the rules."""
_COPIES: Final = 2
"""Of bytes that may be a pickle: the pickle, and a frame of it."""
_HEAD_BYTES: Final = 1 << 12
_TAR_FILES: Final = ("\0", "0", "5")
"""Kinds of members of a tar: files and folders."""
_MOST_ZIPS: Final = 2
_END_WINDOW: Final = 1 << 17
"""Where readers look for the end record of a zip: 65,557 bytes from the end, and more in some."""
_NO_ARCHIVES: Final = {"html": "an HTML page", "lfs-pointer": "a Git LFS pointer", "empty": "an empty file"}
_RECORDS: Final = frozenset(
    {PICKLE_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, BYTE_ORDER_RECORD, *IGNORED_RECORDS}
)
"""Records that torch writes, besides the storages."""


class Scanner(DocumentScanner):
    """One scan of files and what lies in them."""

    def __init__(self, limits: Limits, allow: frozenset[str]) -> None:
        super().__init__(limits, allow)
        self.format: Kind | None = None
        """Of a zip, once its names are known."""

    def grant(self, size: int) -> None:
        """Allow for a file, also for what is kept of it in memory."""
        super().grant(size)
        self.budget.grant(size)

    # -- files and entries ----------------------------------------------------------------------------

    def content(self, data: memoryview, place: Place, depth: int = 0, *, is_beside: bool = False) -> None:
        """Look into bytes of any kind.

        :param is_beside: they lie beside an archive: what nobody could load from there is no finding
        """
        if depth > DEEPEST:
            self.add(place.finding("broken", "files lie within files deeper than any that is written"))
            return
        if may_hold_tags(data) and self.charge(len(data), place):
            for finding in of_yaml(data, place, self.allow):
                self.add(finding)
        head = bytes(data[:512])
        is_tar = carve.is_tar(data)
        if is_tar:  # torch asks that first, whatever else a file is
            self.tar(data, place, depth)
        if head.startswith(LOCAL_SIGNATURE):
            self.zip(data, place, depth)
        elif head[:1] == b"\x80" and LEGACY_MAGIC_BYTES in head[:32]:
            self.legacy(data, place, depth)
        elif is_tar:
            pass
        elif head.startswith(NPY_MAGIC):
            self.npy(data, place, depth)
        elif is_safetensors(head, len(data)):
            self.safetensors(data, place, depth)
        elif is_marked(head) and self.large_pickle(BytesSource(data), place, depth):
            pass
        elif not self.pickle_stream(data, place, depth, is_due=is_marked(head)):
            self.other(data, place, depth, is_beside=is_beside)
        if not head.startswith(LOCAL_SIGNATURE):
            self.ending(data, place, depth)

    def large_file(self, source: Source, place: Place) -> bool:
        """Look into a file that stays where it is, if it is one pickle; say whether it is.

        :param source: of which nothing but the pickle without its arrays, and one of these at a time, is held
        """
        head, end = source.view(0, 512), max(source.size - _END_WINDOW, 0)
        is_legacy = LEGACY_MAGIC_BYTES in bytes(head[:32])
        if not is_marked(head) or is_legacy or carve.is_tar(head):
            return False
        if END_SIGNATURE in bytes(source.view(end, source.size - end)):
            return False
        return self.large_pickle(source, place, 0)

    def other(self, data: memoryview, place: Place, depth: int, *, is_beside: bool = False) -> None:
        """Look into what is neither zip nor pickle: text is plain data, anything else is not known."""
        kind = sniff(BytesSource(data))
        if kind == "data-json" and ((not depth and not is_beside) or carve.holds_marker(data)):
            self.data(data, place, depth)
        elif _is_text(data):
            if not depth and not is_beside:
                self.add(place.finding("unknown-entry", f"{_NO_ARCHIVES.get(kind, 'text')}, not an archive"))
        elif not is_beside and not _is_bundled(place, data):
            self.add(place.finding("unknown-entry", "bytes of a kind that is not known"))

    def ending(self, data: memoryview, place: Place, depth: int) -> None:
        """Look into what ends as a zip does, though it does not begin as one: zipfile opens it, and so does SB3."""
        if END_SIGNATURE in bytes(data[-_END_WINDOW:]):
            self.add(place.finding("broken", "it does not begin as a zip and ends as one: some readers open it"))
            self.carved(data, place, depth)

    def safetensors(self, data: memoryview, place: Place, depth: int) -> None:
        """Look into a ``.safetensors``: arrays, and the entries of the archive that it was made of."""
        from sbformat.arrayfiles.safetensors import read_tensors
        from sbformat.formats.array_files import METADATA_KEY, contents_of, document_of

        try:
            tensors, metadata = read_tensors(BytesSource(data), self.budget)
            document = document_of(metadata.get(METADATA_KEY), self.budget.limits)
            kept = contents_of(document, tensors, self.budget)[0] if document is not None else {}
        except SbformatError as error:
            self.add(place.broken(error))
            return
        self.scan_entries(LooseEntries(kept, self.budget), place, depth)

    def npy(self, data: memoryview, place: Place, depth: int) -> None:
        """Look behind the header of a numpy array: unless it is of plain numbers or text, that is a pickle."""
        start = carve.npy_pickle(data)
        if start is not None:
            self.pickle_stream(data[start:], place, depth, is_due=True)

    def tar(self, data: memoryview, place: Place, depth: int) -> None:
        """Look into the tar that torch wrote before 0.1.10, which torch.load unpickles still."""
        self.add(place.finding("broken", "a tar of torch before 0.1.10, which sbformat does not read"))
        for name, kind, member in carve.tar_members(data):
            inner = place.within(name)
            if kind not in _TAR_FILES:
                message = f"a member of the kind {kind!r}, which tarfile puts together and which is not looked into"
                self.add(inner.finding("unknown-entry", message, verdict="dangerous"))
            self.pickle_stream(member, inner, depth + 1)

    def zip(self, data: memoryview | InflatedSource, place: Place, depth: int) -> None:
        """Look into a zip: an archive, a torch zip, or any other."""
        if depth > _MOST_ZIPS:
            self.add(place.finding("broken", "zips lie within zips deeper than any that is written"))
            return
        try:
            source = data if isinstance(data, InflatedSource) else BytesSource(data)
            container = Container(
                source, budget=self.budget, names="record", entry_limit="inner_entries", unchecked_crc=True
            )
        except SbformatError as error:
            self.add(place.broken(error))
            self.carved(_first(data), place, depth)
            return
        kind = sniff_zip(container.entries)
        self.format = self.format or kind
        if kind == "torch-zip":
            self.torch_zip(container, place, depth)
            return
        if DATA_ENTRY in container or any(name.endswith(PTH_SUFFIX) for name in container):
            self.scan_entries(container, place, depth)
            return
        for name in container:
            with self.budget.temporary():
                self.any_member(container, name, place, depth)

    def scan_entries(self, entries: Entries, place: Place, depth: int) -> None:
        """Look into the entries of an archive, zipped or unzipped."""
        if isinstance(entries, Container):
            try:
                self.budget.spend("outer_entries", len(entries))
                entries.require_paths()
            except SbformatError as error:
                self.add(place.broken(error))
        for name in entries.entries:
            with self.budget.temporary():
                self.entry(entries, name, place, depth)

    def entry(self, entries: Entries, name: str, place: Place, depth: int) -> None:
        """Look into an entry of an archive."""
        inner = place.within(name)
        if name.endswith(PTH_SUFFIX):
            self.findings_of_name(name, inner)
            large = self.large_member(entries, name)
            self.pth(self.member(entries, name, place) if large is None else large, inner, depth + 1)
        elif name == DATA_ENTRY:
            self.data(self.member(entries, name, place, copies=0), inner, depth + 1)
        elif name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
            self.text(name, self.member(entries, name, place), inner, depth + 1)
        else:
            self.any_member(entries, name, place, depth)

    def any_member(self, entries: Entries, name: str, place: Place, depth: int) -> None:
        """Look into a member of any kind."""
        large = self.large_member(entries, name)
        if large is None:
            self.content(self.member(entries, name, place), place.within(name), depth + 1)
        else:
            self.large_content(large, place.within(name), depth + 1)

    def large_member(self, entries: Entries, name: str) -> InflatedSource | None:
        """Return a member that inflates to more than is held of one, checked; None for others and what is damaged."""
        entry = entries.entries[name]
        if entry.method == STORED or entry.size <= INFLATED_WHOLE_BYTES or not isinstance(entries, Container):
            return None
        try:
            source = entries.source(name)
        except SbformatError:  # which whoever reads it reports
            return None
        return source if isinstance(source, InflatedSource) else None

    def large_content(self, source: InflatedSource, place: Place, depth: int) -> None:
        """Look into what is too large to hold for nothing: a zip and an array are looked at in parts."""
        head = source.view(0, min(source.size, _HEAD_BYTES))
        if bytes(head[:4]) == LOCAL_SIGNATURE and not carve.is_tar(head):
            self.zip(source, place, depth)
        elif bytes(head[: len(NPY_MAGIC)]) == NPY_MAGIC and carve.npy_pickle(head) is None and not carve.is_tar(head):
            end = max(source.size - _END_WINDOW, 0)
            self.ending(source.view(end, source.size - end), place, depth)
        elif is_marked(head) and not carve.is_tar(head) and self.large_pickle(source, place, depth):
            pass
        else:
            self.content(self.held(source, place), place, depth)

    def held(self, source: InflatedSource, place: Place) -> memoryview:
        """Return all of a large member, or as much as may be held, which is a finding."""
        try:
            self.budget.keep((1 + _COPIES) * source.size)
            return source.view(0, source.size)
        except SbformatError as error:
            self.add(place.broken(error))
            return _first(source)

    def member(self, entries: Entries, name: str, place: Place, *, copies: int = _COPIES) -> memoryview:
        """Return an entry's bytes; as they are stored when they are damaged, which is said.

        :param copies: of what is inflated, that are made where it is looked into
        """
        try:
            if entries.entries[name].method != STORED:
                self.budget.keep(copies * entries.entries[name].size)
            return entries.read(name)
        except SbformatError as error:
            self.add(place.within(name).broken(error))
            entry = entries.entries[name]
            try:
                raw = entries.raw(name)
            except SbformatError:  # it lies in what is inflated, and is too large to hold
                return memoryview(b"")
            if not entry.method:
                return raw
            content = carve.inflated(raw, entry.method, min(self.left(), _MOST_INFLATED))
            self.charge(len(content), place.within(name))
            return memoryview(content)

    def carved(self, data: memoryview, place: Place, depth: int) -> None:
        """Look at whatever can be seen in a zip that is broken."""
        for name, method, content in carve.members(data, lambda: min(self.left(), _MOST_INFLATED)):
            member, inner, is_inflated = memoryview(content), place.within(escape(name, 200)), method != STORED
            if method == carve.ZSTANDARD:
                message = (
                    "compressed with Zstandard, which is not looked into, and Python's zipfile reads it since 3.14"
                )
                self.add(inner.finding("unknown-entry", message, verdict="dangerous"))
                continue
            if not self.charge(len(content) if is_inflated else len(content) >> 4, inner):
                return
            if is_inflated and bytes(member[:4]) == LOCAL_SIGNATURE:
                self.zip(member, inner, depth + 1)
            if carve.is_document(member):
                self.damaged_data(member, inner, depth + 1)
            elif depth < DEEPEST:
                self.pickle_stream(member, inner, depth + 1, is_whole=False)

    def text(self, name: str, content: memoryview, place: Place, depth: int) -> None:
        """Look at the version and the system info."""
        try:
            (parse_version if name == VERSION_ENTRY else parse_system_info)(bytes(content))
        except SbformatError as error:
            self.add(place.broken(error))
            self.content(content, place, depth)

    # -- .pth -----------------------------------------------------------------------------------------

    def pth(self, content: memoryview | InflatedSource, place: Place, depth: int) -> None:
        """Look into a ``.pth``: SB3 gives each to torch, whatever it is."""
        if isinstance(content, InflatedSource):
            first = content.view(0, _HEAD_BYTES)
            if bytes(first[:4]) == LOCAL_SIGNATURE and not carve.is_tar(first):
                self.zip(content, place, depth)
                return
            content = self.held(content, place)
        head = bytes(content[:32])
        if head.startswith(LOCAL_SIGNATURE) or LEGACY_MAGIC_BYTES in head or carve.is_tar(content):
            self.content(content, place, depth)
        else:
            self.add(place.finding("broken", "neither a torch zip nor a legacy torch file, but torch unpickles it"))
            self.pickle_stream(content, place, depth, is_due=True)
            self.ending(content, place, depth)

    def torch_zip(self, container: Container, place: Place, depth: int) -> None:
        """Look into a torch zip: its pickle with its storages, and every other record."""
        used: set[str] = set()
        is_told = True  # why it is not known which records are in use
        try:
            check_records(container)
        except SbformatError as error:
            self.add(place.broken(error))
        try:
            pickle, scope, name = open_zip(container, self.budget)
            judged = judge_pth(bytes(container.read(name)), pickle, scope, place.within(name), self.budget, self.allow)
            self.judged(judged, place.within(name), depth)
            self.findings_of_state(judged, place)
            is_told = judged.is_cut
            used = {name, *(name.removesuffix(PICKLE_RECORD) + STORAGE_FOLDER + key for key in scope.keys)}
        except SbformatError as error:
            self.unopened(error, place)
            self.is_program = _is_program(error)
        for name in container:
            with self.budget.temporary():
                self.record(container, name, place, depth, is_used=name in used, is_told=is_told)
        self.is_program = False

    def record(
        self, container: Container, name: str, place: Place, depth: int, *, is_used: bool, is_told: bool
    ) -> None:
        """Look into a record of a torch zip besides its pickle.

        :param is_used: its bytes are numbers of a tensor: they are checked, and none is held
        :param is_told: it was said why it is not known which records are in use
        """
        inner = place.within(name)
        short = name.partition("/")[2]
        is_known = is_used or (short in _RECORDS and short != PICKLE_RECORD)
        record = self.checked_record(container, name) if is_known else None
        if record is None:
            large = self.large_member(container, name)
            record = self.member(container, name, place) if large is None else self.held(large, inner)
        if bytes(record[: len(NPY_MAGIC)]) == NPY_MAGIC:  # numpy.load goes by that, not by names
            if is_known:
                record = self.member(container, name, place)
            self.npy(record, inner, depth + 1)
        if is_known:
            return
        if bytes(record[:4]) == LOCAL_SIGNATURE:
            self.zip(record, inner, depth + 1)
        elif self.pickle_stream(record, inner, depth + 1, is_due=short.lower() == PICKLE_RECORD):
            return
        if not is_told:
            self.add(inner.finding("unknown-entry", "a record that torch does not write, or that no tensor uses"))

    def checked_record(self, container: Container, name: str) -> memoryview | None:
        """Check a record in windows and return the first; None when it is damaged."""
        first = memoryview(b"")
        try:
            for window in container.stream(name):
                first = first or memoryview(window)
        except SbformatError:
            return None
        return first

    def unopened(self, error: SbformatError, place: Place) -> None:
        """Say why a ``.pth`` was not opened: a program, something else, or broken."""
        if _is_program(error):
            self.add(place.finding("carried-program", "a TorchScript archive: torch.jit.load runs the program in it"))
        elif isinstance(error, UnsupportedError):
            self.add(place.finding("unchecked-arguments", f"not all of it is understood: {error.message}"))
        else:
            self.add(place.broken(error))

    def legacy(self, data: memoryview, place: Place, depth: int) -> None:
        """Look into a legacy torch file: five pickles, and the storages behind them."""
        try:
            pickle, scope = legacy.decode(data, self.budget)
        except SbformatError as error:
            self.unopened(error, place)
            self.pickle_stream(data, place, depth, is_whole=False)
            return
        judged = judge_pth(b"", pickle, scope, place, self.budget, self.allow)
        self.judged(judged, place, depth)
        self.findings_of_state(judged, place)

    def findings_of_name(self, name: str, place: Place) -> None:
        """Judge what SB3 looks up on the agent by the name of an entry."""
        for finding in of_attribute(name.removesuffix(PTH_SUFFIX), place):
            self.add(finding)

    def findings_of_state(self, judged: Judged, place: Place) -> None:
        """Judge what SB3 and torch do with the values of a ``.pth``."""
        for finding in of_state_dict(judged.pickle and judged.pickle.value, place):
            self.add(finding)


def _is_program(error: SbformatError) -> bool:
    """Say whether a torch zip was not opened because it is a TorchScript archive."""
    return "TorchScript" in error.message


def _is_bundled(place: Place, data: memoryview) -> bool:
    """Say whether this is the entry of a bundle that holds its numbers: a whole safetensors file."""
    if place.entry.rpartition("!")[2] != ARRAYS_ENTRY:
        return False
    from sbformat.arrayfiles.reader import read_safetensors

    try:
        read_safetensors(data)
    except SbformatError:
        return False
    return True


def _first(data: memoryview | InflatedSource) -> memoryview:
    """Return as much as is looked at of what cannot be had by the rules."""
    return data.view(0, min(data.size, _MOST_INFLATED)) if isinstance(data, InflatedSource) else data


def _is_text(data: memoryview) -> bool:
    """Say whether all of it is text that a person can read."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return not re.search("[^\\t\\n\\f\\r\\x20-\\x7e\\x80-\\U0010ffff]", text)
