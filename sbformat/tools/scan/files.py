"""Find the pickles in a file, down through every layer of it (SCANNING.md 14.2).

Theory of operation.

In come the bytes of a file, or the entries of a folder; out come findings, and every pickle goes to
:mod:`sbformat.tools.scan.judge`. What a layer is depends on its bytes alone, never on the name of the file, because
loaders decide in the same way; names count only for the entries of an archive, which SB3 looks up by name.
:meth:`FileScanner.scan_content` tries, in the order of the loaders that would accept the bytes:

1. YAML tags, in any bytes (:mod:`~sbformat.tools.scan.sidecars`)
2. a tar header, which torch looks for first; the bytes may be something else as well
3. a zip: an archive of SB3 or SB2, a torch zip, or any other, member by member
4. a legacy torch file; a ``.npy`` array, whose content is a pickle unless its header describes plain numbers or text; a
   ``.safetensors`` file, which may contain the entries of an archive
5. pickles, one after another (:mod:`~sbformat.tools.scan.pickles`)
6. otherwise JSON that contains a serialized value, other text, or unknown bytes
7. whatever it is, it may end as a zip: zipfile, and so SB3, would open it

Invariants: what violates the format is a ``broken`` finding, and is then searched as the most lenient reader would do
(:mod:`~sbformat.tools.scan.recover`); nothing that is found in this way improves the verdict. A file may contain
itself: levels are limited, and so are the bytes that are examined (:meth:`~.PickleScanner.charge`). A member of a zip
that inflates to more than ``INFLATED_WHOLE_BYTES`` is examined in pieces if that is possible.

Worked example: an agent with a custom policy, and what examines each part of it

    agent.zip                       scan_content -> scan_zip -> scan_entries
      data                          scan_data: each base64 value -> scan_blob -> judge
                                      bytes objects in that pickle -> scan_pickles, once all values were judged
      policy.pth                    scan_pth -> scan_zip -> scan_torch_zip
        archive/data.pkl            judge, with the storages
        archive/data/0              a storage in use: its CRC is checked, and its numbers are skipped
        archive/extra               _scan_record: a zip, pickles, or else ``unknown-entry``
      _stable_baselines3_version    parsed; if that fails, scan_content
      notes.txt                     scan_content, as any other file
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat import data as data_entry
from sbformat.archive.entries import FileEntries, parse_system_info, parse_version
from sbformat.archive.kinds import describe_other, detect_kind, detect_zip_kind, is_safetensors
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
    SERIALIZED_MARKER,
    STORAGE_FOLDER,
    SYSTEM_INFO_ENTRY,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    VERSION_ENTRY,
)
from sbformat.container.layout import STORED, check_records
from sbformat.container.reader import INFLATED_WHOLE_BYTES, Container, InflatedSource
from sbformat.data import LargeValue, Serialized
from sbformat.errors import LimitError, SbformatError, UnsupportedError, escape
from sbformat.io.source import BytesSource, iter_views
from sbformat.pth.decode import open_legacy, open_zip
from sbformat.tools.scan import recover
from sbformat.tools.scan.findings import UNKNOWN_KEY, Location
from sbformat.tools.scan.judge import judge_attribute_path, judge_data_value, judge_state_dict
from sbformat.tools.scan.pickles import MAX_DEPTH, PickleScanner, is_marked
from sbformat.tools.scan.recover import MAX_RECOVERED, inflate_member
from sbformat.tools.scan.sidecars import REPEATED, iter_python_tags, judge_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sbformat.archive.entries import Entries
    from sbformat.io.source import Source


_COPIES: Final = 2  # copies that are made of bytes that may be a pickle: of the pickle, and of one of its frames

HEAD_BYTES: Final = 1 << 12
"""Bytes at the start of a file that identify its type."""
_RECORDS: Final = frozenset(
    {PICKLE_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, BYTE_ORDER_RECORD, *IGNORED_RECORDS}
)
"""Records that torch writes besides the storages."""

_PROGRAM_STORAGES: Final = (STORAGE_FOLDER, "constants/")
"""Folders of the numbers of a TorchScript archive, which only ``torch.jit`` reads; they may begin like a pickle."""

_TAR_FILES: Final = ("\0", "0", "5")  # types of tar members that are files and folders
_MAX_ZIP_DEPTH: Final = 2
_END_WINDOW: Final = 1 << 17  # readers look for the end record of a zip in the last 65,557 bytes, some in more
_TAG_COST: Final = 16  # cost of a YAML tag, in bytes of a pickle
_FINDING_COST: Final = 400  # cost of a YAML tag that is not known, in bytes of a pickle


class FileScanner(PickleScanner):
    """Scans files of any type, and the entries of archives."""

    # -- files ----------------------------------------------------------------------------------------

    def scan_content(self, data: memoryview, location: Location, depth: int = 0, *, is_sidecar: bool = False) -> None:
        """Scan bytes of any type.

        :param is_sidecar: they are a file next to an archive: being of an unknown type is not a finding
        """
        if depth > MAX_DEPTH:
            self.add(location.finding("broken", f"files are nested in files more than {MAX_DEPTH} levels deep"))
            return
        self.scan_tags(BytesSource(data), location)
        head = bytes(data[:512])
        is_tar = recover.is_tar(data)
        if is_tar:  # of torch before 0.1.10, which torch.load still unpickles
            self.add(location.finding("broken", "a tar of torch before 0.1.10, which sbformat does not read"))
            for name, kind, member in recover.iter_tar_members(data):
                inner = location.within(name)
                if kind not in _TAR_FILES:
                    message = (
                        f"a tar member of the type {kind!r}, which tarfile assembles and sbformat does not examine"
                    )
                    self.add(inner.finding("unknown-entry", message, verdict="dangerous"))
                self.scan_pickles(member, inner, depth + 1)
        if head.startswith(LOCAL_SIGNATURE):
            self.scan_zip(data, location, depth)
        elif head[:1] == b"\x80" and LEGACY_MAGIC_BYTES in head[:32]:
            self.scan_legacy(data, location, depth)
        elif is_tar:
            pass
        elif head.startswith(NPY_MAGIC):
            self.scan_npy(data, location, depth)
        elif is_safetensors(head, len(data)):
            self._scan_safetensors(data, location, depth)
        elif is_marked(head) and self.scan_large_pickle(BytesSource(data), location, depth):
            pass
        elif not self.scan_pickles(data, location, depth, is_due=is_marked(head)):
            self._scan_other(data, location, depth, is_sidecar=is_sidecar)
        if not head.startswith(LOCAL_SIGNATURE):
            self.scan_end(data, location, depth)

    def scan_tags(self, source: Source, location: Location) -> None:
        """Judge whatever may be a YAML tag of a Python object, in a file of any type and size."""
        for tag in iter_python_tags(source):
            finding = None if tag is REPEATED else judge_tag(tag, location, self.allow)
            if finding is not None:
                self.add(finding)
            if not self.charge(_TAG_COST if finding is None else _FINDING_COST, location):
                return

    def scan_large_file(self, source: Source, location: Location) -> bool:
        """Scan a file without reading it into memory, if it is one pickle; return whether it is one."""
        head, end = source.view(0, 512), max(source.size - _END_WINDOW, 0)
        is_legacy = LEGACY_MAGIC_BYTES in bytes(head[:32])
        if not is_marked(head) or is_legacy or recover.is_tar(head):
            return False
        if END_SIGNATURE in bytes(source.view(end, source.size - end)):
            return False
        return self.scan_large_pickle(source, location, 0) is not None

    def _scan_other(self, data: memoryview, location: Location, depth: int, *, is_sidecar: bool) -> None:
        """Scan what is neither a zip nor a pickle: text is plain data, anything else is unknown."""
        kind = detect_kind(BytesSource(data))
        is_file = not depth and not is_sidecar
        if kind == "data-json" and (is_file or recover.contains_blob_key(data)):
            self.scan_data(data, location, depth)
        elif _is_text(data):
            if is_file:
                message = f"expected an archive, got {describe_other(kind) or describe_other('text')}"
                self.add(location.finding("unknown-entry", message))
        elif not is_sidecar and not _is_bundled(location, data):
            self.add(location.finding("unknown-entry", "the bytes are of a type that sbformat does not know"))

    def scan_end(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan bytes that end as a zip although they do not begin as one: zipfile opens them, and so does SB3."""
        if END_SIGNATURE in bytes(data[-_END_WINDOW:]):
            message = "the bytes end as a zip but do not begin as one: some readers open them"
            self.add(location.finding("broken", message))
            self._scan_recovered(data, location, depth)

    def _scan_safetensors(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan a ``.safetensors`` file: arrays, and the entries of the archive that it was made of."""
        from sbformat.arrayfiles.headers import read_tensors
        from sbformat.formats.array_files import METADATA_KEY, build_contents, decode_description

        try:
            tensors, metadata = read_tensors(BytesSource(data), self.budget)
            document = decode_description(metadata.get(METADATA_KEY), self.budget.limits)
            kept = build_contents(document, tensors, self.budget)[0] if document is not None else {}
        except SbformatError as error:
            self.add(location.broken(error))
            return
        self.scan_entries(FileEntries(kept, self.budget), location, depth)

    # -- zips -----------------------------------------------------------------------------------------

    def scan_zip(self, data: memoryview | InflatedSource, location: Location, depth: int) -> None:
        """Scan a zip: an archive, a torch zip, or any other."""
        if depth > _MAX_ZIP_DEPTH:
            self.add(location.finding("broken", f"zips are nested in zips more than {_MAX_ZIP_DEPTH} levels deep"))
            return
        try:
            source = data if isinstance(data, InflatedSource) else BytesSource(data)
            container = Container(source, budget=self.budget, names="record", unchecked_crc=True)
        except SbformatError as error:
            self.add(location.broken(error))
            self._scan_recovered(first_bytes(data), location, depth)
            return
        kind = detect_zip_kind(container.entries)
        self.format = self.format or kind
        if kind == "torch-zip":
            self.scan_torch_zip(container, location, depth)
        elif DATA_ENTRY in container or any(name.endswith(PTH_SUFFIX) for name in container):
            self.scan_entries(container, location, depth)
        else:
            for name in container:
                with self.budget.temporary():
                    self._scan_member(container, name, location, depth)

    def scan_entries(self, entries: Entries, location: Location, depth: int) -> None:
        """Scan the entries of an archive, zipped or unzipped."""
        if isinstance(entries, Container):
            try:
                self.budget.spend("outer_entries", len(entries))
                entries.require_paths()
            except SbformatError as error:
                self.add(location.broken(error))
        for name in entries.entries:
            with self.budget.temporary():
                self._scan_entry(entries, name, location, depth)

    def _scan_entry(self, entries: Entries, name: str, location: Location, depth: int) -> None:
        """Scan an entry as SB3 reads it, by its name."""
        inner = location.within(name)
        if name.endswith(PTH_SUFFIX):
            self.add(*judge_attribute_path(name.removesuffix(PTH_SUFFIX), inner))
            large = open_large_member(entries, name)
            self.scan_pth(read_member(self, entries, name, location) if large is None else large, inner, depth + 1)
        elif name == DATA_ENTRY:
            self._scan_data_entry(entries, name, location, depth + 1)
        elif name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
            content = read_member(self, entries, name, location)
            try:
                (parse_version if name == VERSION_ENTRY else parse_system_info)(bytes(content))
            except SbformatError as error:
                self.add(inner.broken(error))
                self.scan_content(content, inner, depth + 1)
        else:
            self._scan_member(entries, name, location, depth)

    def _scan_member(self, entries: Entries, name: str, location: Location, depth: int) -> None:
        """Scan a member of any type; of a large one, zips, arrays and pickles in pieces."""
        inner, source = location.within(name), open_large_member(entries, name)
        if source is None:
            self.scan_content(read_member(self, entries, name, location), inner, depth + 1)
            return
        head = source.view(0, min(source.size, HEAD_BYTES))
        is_tar = recover.is_tar(head)
        if bytes(head[:4]) == LOCAL_SIGNATURE and not is_tar:
            self.scan_zip(source, inner, depth + 1)
        elif bytes(head[: len(NPY_MAGIC)]) == NPY_MAGIC and recover.find_npy_pickle(head) is None and not is_tar:
            end = max(source.size - _END_WINDOW, 0)
            self.scan_end(source.view(end, source.size - end), inner, depth + 1)
        elif is_marked(head) and not is_tar and self.scan_large_pickle(source, inner, depth + 1):
            pass
        else:
            data = read_large_member(self, source, inner)
            if len(data) < source.size:
                self.scan_tags(source, inner)
            self.scan_content(data, inner, depth + 1)

    def _scan_recovered(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan whatever can be recovered from a damaged zip."""
        for name, method, content in recover.iter_members(data, self.bytes_left):
            member, inner, is_inflated = memoryview(content), location.within(escape(name, 200)), method != STORED
            if method == recover.ZSTANDARD:
                message = (
                    "compressed with Zstandard, which zipfile reads since Python 3.14 and sbformat does not examine"
                )
                self.add(inner.finding("unknown-entry", message, verdict="dangerous"))
                continue
            if not self.charge(len(content) if is_inflated else len(content) >> 4, inner):
                return
            if is_inflated and bytes(member[:4]) == LOCAL_SIGNATURE:
                self.scan_zip(member, inner, depth + 1)
            if recover.starts_as_json_object(member):
                self.scan_damaged_data(member, inner, depth + 1)
            elif depth < MAX_DEPTH:
                self.scan_pickles(member, inner, depth + 1, is_whole=False)

    # -- torch files ----------------------------------------------------------------------------------

    def scan_pth(self, content: memoryview | InflatedSource, location: Location, depth: int) -> None:
        """Scan an entry ``.pth``, which SB3 passes to torch whatever it is."""
        if isinstance(content, InflatedSource):
            first = content.view(0, HEAD_BYTES)
            if bytes(first[:4]) == LOCAL_SIGNATURE and not recover.is_tar(first):
                self.scan_zip(content, location, depth)
                return
            content = read_large_member(self, content, location)
        head = bytes(content[:32])
        if head.startswith(LOCAL_SIGNATURE) or LEGACY_MAGIC_BYTES in head or recover.is_tar(content):
            self.scan_content(content, location, depth)
        else:
            message = "neither a torch zip nor a legacy torch file, and torch.load unpickles it nevertheless"
            self.add(location.finding("broken", message))
            self.scan_pickles(content, location, depth, is_due=True)
            self.scan_end(content, location, depth)

    def scan_torch_zip(self, container: Container, location: Location, depth: int) -> None:
        """Scan a torch zip: its pickle with its storages, and every other record."""
        used: set[str] = set()
        is_explained = True  # a finding says why the records in use are not known
        try:
            check_records(container)
        except SbformatError as error:
            self.add(location.broken(error))
        try:
            pickle, scope, name = open_zip(container, self.budget)
            content = bytes(container.read(name))
            judged = self.judge(pickle, content, location.within(name), depth, scope=scope)
            self.add(*judge_state_dict(pickle.value, judged.parts, location))
            is_explained = judged.is_cut
            used = {name, *(name.removesuffix(PICKLE_RECORD) + STORAGE_FOLDER + key for key in scope.keys)}
        except SbformatError as error:
            self.is_program = self._report_unopened(error, location)
        for name in container:
            with self.budget.temporary():
                self._scan_record(container, name, location, depth, is_used=name in used, is_explained=is_explained)
        self.is_program = False

    def _scan_record(
        self, container: Container, name: str, location: Location, depth: int, *, is_used: bool, is_explained: bool
    ) -> None:
        """Scan a record of a torch zip besides its pickle.

        :param is_used: it is the storage of a tensor: its CRC is checked, and its numbers are skipped
        """
        inner = location.within(name)
        short = name.partition("/")[2]
        is_known = is_used or (short in _RECORDS and short != PICKLE_RECORD)
        record = _check_record(container, name) if is_known else None
        if record is None:
            large = open_large_member(container, name)
            if large is None:
                record = read_member(self, container, name, location)
            else:
                record = read_large_member(self, large, inner)
        if bytes(record[: len(NPY_MAGIC)]) == NPY_MAGIC:  # numpy.load ignores the name
            if is_known:
                record = read_member(self, container, name, location)
            self.scan_npy(record, inner, depth + 1)
        if is_known:
            return
        if bytes(record[:4]) == LOCAL_SIGNATURE:
            self.scan_zip(record, inner, depth + 1)
        elif self.scan_pickles(
            record,
            inner,
            depth + 1,
            is_due=short.lower() == PICKLE_RECORD,
            is_nested=self.is_program and short.startswith(_PROGRAM_STORAGES),
        ):
            return
        if not is_explained:
            self.add(inner.finding("unknown-entry", "a record that torch does not write, or that no tensor uses"))

    def scan_npy(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan a ``.npy`` array: unless its header describes plain numbers or text, its content is a pickle."""
        start = recover.find_npy_pickle(data)
        if start is not None:
            self.scan_pickles(data[start:], location, depth, is_due=True)

    def scan_legacy(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan a legacy torch file: five pickles, followed by the storages."""
        try:
            pickle, scope = open_legacy(data, self.budget)
        except SbformatError as error:
            self._report_unopened(error, location)
            self.scan_pickles(data, location, depth, is_whole=False)
            return
        judged = self.judge(pickle, b"", location, depth, scope=scope)
        self.add(*judge_state_dict(pickle.value, judged.parts, location))

    def _report_unopened(self, error: SbformatError, location: Location) -> bool:
        """Report why a torch file was not opened; return whether it is a TorchScript archive."""
        is_program = "TorchScript" in error.message
        if is_program:
            message = "a TorchScript archive: torch.jit.load runs the program in it"
            self.add(location.finding("carried-program", message))
        elif isinstance(error, UnsupportedError):
            message = f"sbformat does not understand all of it: {error.message}"
            self.add(location.finding("unchecked-arguments", message))
        else:
            self.add(location.broken(error))
        return is_program

    # -- data -----------------------------------------------------------------------------------------

    def scan_data(self, content: memoryview, location: Location, depth: int) -> None:
        """Scan ``data``, or what should be ``data``."""

        def decode() -> Mapping[str, Any]:
            source = BytesSource(content)
            if data_entry.is_large(source.size, self.budget.limits):
                return data_entry.decode_large(iter_views(source, 0, source.size), self.budget, lambda: source)
            return data_entry.decode(content, self.budget)

        self._scan_decoded(decode, lambda: content, location, depth)

    def _scan_data_entry(self, entries: Entries, name: str, location: Location, depth: int) -> None:
        """Scan ``data``; of a large one, values that are left out stay where they are."""
        inner, read = location.within(name), partial(read_member, self, entries, name, location, copies=0)
        if not data_entry.is_large(entries.entries[name].size, self.budget.limits):
            self.scan_data(read(), inner, depth)
            return

        def decode() -> Mapping[str, Any]:
            return data_entry.decode_large(entries.stream(name), self.budget, partial(entries.source, name))

        self._scan_decoded(decode, read, inner, depth)

    def _scan_decoded(
        self,
        decode: Callable[[], Mapping[str, Any]],
        read: Callable[[], memoryview],
        location: Location,
        depth: int,
    ) -> None:
        """Scan the values of ``data``; if it cannot be decoded, what can be recovered of its bytes."""
        try:
            decoded = decode()
        except SbformatError as error:
            finding, raw = location.broken(error), read()
            if error.offset is not None and not data_entry.is_large(raw.nbytes, self.budget.limits):
                finding = finding._replace(line=bytes(raw[: error.offset]).count(b"\n") + 1)
            self.add(finding)
            self.scan_damaged_data(raw, location, depth)
            return
        if SERIALIZED_MARKER in decoded:
            self._scan_hidden({SERIALIZED_MARKER: decoded[SERIALIZED_MARKER]}, location, depth)
        with self.postpone_nested():
            for key, value in decoded.items():
                inner = Location(location.entry, key)
                meaning, hints = value, value
                if isinstance(value, LargeValue):
                    meaning, hints = self._scan_large_value(value, inner, depth)
                elif isinstance(value, Serialized):
                    meaning, hints = self._scan_serialized(value, inner, depth), dict(value.hints)
                self._scan_hidden(hints, inner, depth)
                self.add(*judge_data_value(key, meaning, inner))

    def _scan_large_value(self, value: LargeValue, location: Location, depth: int) -> tuple[object, dict[str, Any]]:
        """Judge a pickle that was left out, as far as it can be read; return what it means, and its hints."""
        with suppress(SbformatError), self.budget.temporary():
            source, hints = value.open_pickle(self.budget.limits) or (None, {})
            if source is not None and source.size <= self.budget.limits.pickle_bytes:
                self.budget.keep(_COPIES * source.size)
                judged = self.scan_blob(bytes(source.view(0, source.size)), location, depth)
                return judged.value if judged is not None else None, hints
            judged = self.scan_large_pickle(source, location, depth) if source is not None else None
            if judged is not None:
                return judged.value, hints
        self.add(location.broken(value.error))
        with suppress(SbformatError):
            self.scan_damaged_data(value.source().view(0, min(value.nbytes, MAX_RECOVERED)), location, depth)
        return None, {}

    def _scan_serialized(self, value: Serialized, location: Location, depth: int) -> object:
        """Judge a pickle, and what decoders other than SB3's decode its base64 to; return the decoded value."""
        judged = self.scan_blob(value.pickle, location, depth)
        if not value.is_canonical:
            message = "the base64 text is not what an encoder writes, so other decoders decode other bytes"
            self.add(location.finding("lenient-base64", message))
            pickle = judged.attempt.pickle if judged is not None else None
            size = pickle.size if pickle is not None else 0
            for reading in self._iter_base64_readings(value.text, location):
                if not size or reading[:size] != value.pickle[:size]:
                    self.scan_pickles(memoryview(reading), location, depth)
        return judged.value if judged is not None else None

    def _iter_base64_readings(self, text: str, location: Location) -> Iterator[bytes]:
        """Yield what decoders decode base64 text to; text that is too long to examine is a finding."""
        try:
            yield from recover.iter_base64_readings(text, self.budget)
        except LimitError as error:
            self.add(location.broken(error))

    def _scan_hidden(self, value: Any, location: Location, depth: int) -> None:
        """Scan for serialized values within a JSON value, where SB3 does not look for them."""
        todo = [value]
        while todo:
            part = todo.pop()
            if isinstance(part, list):
                todo.extend(part)
            elif isinstance(part, dict):
                todo.extend(part.values())
                text = part.get(SERIALIZED_MARKER)
                if type(text) is str:
                    message = "a serialized value is nested deeper than SB3 looks for one"
                    self.add(location.finding("hidden-blob", message))
                    for reading in self._iter_base64_readings(text, location):
                        self.scan_blob(reading, location, depth)

    def scan_damaged_data(self, raw: memoryview, location: Location, depth: int) -> None:
        """Scan the serialized values of invalid ``data``, and the whole of it when it is not JSON."""
        for key, blob in recover.iter_blobs(raw, self.budget):
            self.scan_blob(blob, Location(location.entry, key or UNKNOWN_KEY), depth)
        if not recover.starts_as_json_object(raw) and bytes(raw[:3]) != b"\xef\xbb\xbf":
            self.scan_content(raw, location, depth)


# -- members of zips ----------------------------------------------------------------------------------


def open_large_member(entries: Entries, name: str) -> InflatedSource | None:
    """Open a member that inflates to more than is held in memory; None for smaller and for damaged ones."""
    entry = entries.entries[name]
    if entry.method == STORED or entry.size <= INFLATED_WHOLE_BYTES or not isinstance(entries, Container):
        return None
    try:
        source = entries.source(name)
    except SbformatError:  # read_member reports it
        return None
    return source if isinstance(source, InflatedSource) else None


def read_large_member(scanner: PickleScanner, source: InflatedSource, location: Location) -> memoryview:
    """Return all of a large member, or its first bytes if it is too large, which is a finding."""
    try:
        scanner.budget.keep((1 + _COPIES) * source.size)
        return source.view(0, source.size)
    except SbformatError as error:
        scanner.add(location.broken(error))
        return first_bytes(source)


def read_member(
    scanner: PickleScanner, entries: Entries, name: str, location: Location, *, copies: int = _COPIES
) -> memoryview:
    """Return the bytes of an entry; of a damaged one, which is a finding, as many as can be recovered.

    :param copies: number of copies that are made of inflated bytes when they are scanned
    """
    entry = entries.entries[name]
    try:
        if entry.method != STORED:
            scanner.budget.keep(copies * entry.size)
        return entries.read(name)
    except SbformatError as error:
        scanner.add(location.within(name).broken(error))
    try:
        raw = entries.raw(name)
    except SbformatError:  # it is in inflated bytes that are too large to hold
        return memoryview(b"")
    if entry.method == STORED:
        return raw
    content = inflate_member(raw, entry.method, min(scanner.bytes_left(), MAX_RECOVERED))
    scanner.charge(len(content), location.within(name))
    return memoryview(content)


def first_bytes(data: memoryview | InflatedSource) -> memoryview:
    """Return as many bytes as are examined of a zip that is damaged."""
    return data.view(0, min(data.size, MAX_RECOVERED)) if isinstance(data, InflatedSource) else data


# -- what bytes are ------------------------------------------------------------------------------------


def _check_record(container: Container, name: str) -> memoryview | None:
    """Check the CRC of a record in windows and return the first window; None when the record is damaged."""
    first = memoryview(b"")
    try:
        for window in container.stream(name):
            first = first or memoryview(window)
    except SbformatError:
        return None
    return first


def _is_bundled(location: Location, data: memoryview) -> bool:
    """Return whether this is the entry of a bundle that contains its arrays: a whole safetensors file."""
    if location.entry.rpartition("!")[2] != ARRAYS_ENTRY:
        return False
    from sbformat.arrayfiles.reader import read_safetensors

    try:
        read_safetensors(data)
    except SbformatError:
        return False
    return True


def _is_text(data: memoryview) -> bool:
    """Return whether all of the bytes are readable text."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return not re.search("[^\\t\\n\\f\\r\\x20-\\x7e\\x80-\\U0010ffff]", text)
