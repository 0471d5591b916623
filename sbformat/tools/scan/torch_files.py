"""Scan torch files: torch zips, legacy torch files, and whatever else an entry ``.pth`` may be (SCANNING.md 14.2)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from sbformat.constants import (
    BYTE_ORDER_RECORD,
    IGNORED_RECORDS,
    LEGACY_MAGIC_BYTES,
    LOCAL_SIGNATURE,
    NPY_MAGIC,
    PICKLE_RECORD,
    STORAGE_FOLDER,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
)
from sbformat.container.layout import check_records
from sbformat.container.reader import InflatedSource
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.pth import legacy
from sbformat.pth.decode import open_zip
from sbformat.tools.scan import recover
from sbformat.tools.scan.data_entry import DataScanner
from sbformat.tools.scan.judge import judge_pth
from sbformat.tools.scan.members import open_large_member, read_large_member, read_member
from sbformat.tools.scan.sb3_effects import judge_state_dict

if TYPE_CHECKING:
    from sbformat.container.reader import Container
    from sbformat.tools.scan.location import Location

HEAD_BYTES: Final = 1 << 12
"""Bytes at the start of a file that identify its type."""
_RECORDS: Final = frozenset(
    {PICKLE_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, BYTE_ORDER_RECORD, *IGNORED_RECORDS}
)
"""Records that torch writes besides the storages."""

_PROGRAM_STORAGES: Final = (STORAGE_FOLDER, "constants/")
"""Folders of the numbers of a TorchScript archive, which only ``torch.jit`` reads; they may begin like a pickle."""


class TorchScanner(DataScanner):
    """Scans torch files, besides ``data`` and pickles."""

    @abstractmethod
    def scan_zip(self, data: memoryview | InflatedSource, location: Location, depth: int) -> None:
        """Scan a zip of any type."""

    @abstractmethod
    def scan_end(self, data: memoryview, location: Location, depth: int) -> None:
        """Scan bytes that may end as a zip."""

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
            judged = judge_pth(content, pickle, scope, location.within(name), self.budget, self.allow)
            self.add_judged(judged, location.within(name), depth)
            self.add(*judge_state_dict(pickle.value, judged.parts, location))
            is_explained = judged.is_cut
            used = {name, *(name.removesuffix(PICKLE_RECORD) + STORAGE_FOLDER + key for key in scope.keys)}
        except SbformatError as error:
            self._report_unopened(error, location)
            self.is_program = _is_program(error)
        for name in container:
            with self.budget.temporary():
                self._scan_record(container, name, location, depth, is_used=name in used, is_explained=is_explained)
        self.is_program = False

    def _scan_record(
        self, container: Container, name: str, location: Location, depth: int, *, is_used: bool, is_explained: bool
    ) -> None:
        """Scan a record of a torch zip besides its pickle.

        :param is_used: it is the storage of a tensor: its CRC is checked, and its numbers are skipped
        :param is_explained: a finding says why the records in use are not known
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
            pickle, scope = legacy.decode(data, self.budget)
        except SbformatError as error:
            self._report_unopened(error, location)
            self.scan_pickles(data, location, depth, is_whole=False)
            return
        judged = judge_pth(b"", pickle, scope, location, self.budget, self.allow)
        self.add_judged(judged, location, depth)
        self.add(*judge_state_dict(pickle.value, judged.parts, location))

    def _report_unopened(self, error: SbformatError, location: Location) -> None:
        """Report why a torch file was not opened: it is a program, not understood, or broken."""
        if _is_program(error):
            message = "a TorchScript archive: torch.jit.load runs the program in it"
            self.add(location.finding("carried-program", message))
        elif isinstance(error, UnsupportedError):
            self.add(
                location.finding("unchecked-arguments", f"sbformat does not understand all of it: {error.message}")
            )
        else:
            self.add(location.broken(error))


def _check_record(container: Container, name: str) -> memoryview | None:
    """Check the CRC of a record in windows and return the first window; None when the record is damaged."""
    first = memoryview(b"")
    try:
        for window in container.stream(name):
            first = first or memoryview(window)
    except SbformatError:
        return None
    return first


def _is_program(error: SbformatError) -> bool:
    """Return whether a torch zip was not opened because it is a TorchScript archive."""
    return "TorchScript" in error.message
