"""Scan ``data``: its serialized values, those that are hidden in other values, and damaged JSON (SCANNING.md 14.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat import data as data_entry
from sbformat.constants import SERIALIZED_MARKER
from sbformat.data import Serialized
from sbformat.errors import LimitError, SbformatError
from sbformat.tools.scan import recover
from sbformat.tools.scan.location import UNKNOWN_KEY, Location
from sbformat.tools.scan.pickles import PickleScanner
from sbformat.tools.scan.sb3_effects import judge_data_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class DataScanner(PickleScanner):
    """Scans ``data``, besides pickles."""

    def scan_data(self, content: memoryview, location: Location, depth: int) -> None:
        """Scan ``data``, or what should be ``data``."""
        try:
            decoded = data_entry.decode(content, self.budget)
        except SbformatError as error:
            self.add(location.broken(error))
            self.scan_damaged_data(content, location, depth)
            return
        if SERIALIZED_MARKER in decoded:
            self._scan_hidden({SERIALIZED_MARKER: decoded[SERIALIZED_MARKER]}, location, depth)
        with self.postpone_nested():
            self._scan_values(decoded, location, depth)

    def _scan_values(self, decoded: Mapping[str, Any], location: Location, depth: int) -> None:
        for key, value in decoded.items():
            inner = Location(location.entry, key)
            meaning: object = value
            if isinstance(value, Serialized):
                meaning = self._scan_serialized(value, inner, depth)
                self._scan_hidden(dict(value.hints), inner, depth)
            else:
                self._scan_hidden(value, inner, depth)
            self.add(*judge_data_value(key, meaning, inner))

    def _scan_serialized(self, value: Serialized, location: Location, depth: int) -> object:
        """Judge a pickle, and what decoders other than SB3's decode its base64 to; return the decoded value."""
        judged = self.scan_blob(value.pickle, location, depth)
        if not value.is_canonical:
            message = "the base64 text is not what an encoder writes, so other decoders decode other bytes"
            self.add(location.finding("lenient-base64", message))
            size = judged.pickle.size if judged is not None and judged.pickle is not None else 0
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
