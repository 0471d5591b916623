"""``data``: its blobs, what hides as one, and what can be seen in it when it is broken (FORMAT.md 14.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat import data as data_entry
from sbformat.constants import SERIALIZED_MARKER
from sbformat.data import Serialized
from sbformat.errors import LimitError, SbformatError
from sbformat.tools.scan import recover as carve
from sbformat.tools.scan.location import ANY_KEY, Place
from sbformat.tools.scan.roles import of_value
from sbformat.tools.scan.streams import StreamScanner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class DocumentScanner(StreamScanner):
    """What looks into ``data``."""

    def data(self, content: memoryview, place: Place, depth: int) -> None:
        """Look into ``data``: its blobs, and what hides as one."""
        try:
            decoded = data_entry.decode(content, self.budget)
        except SbformatError as error:
            self.add(place.broken(error))
            self.damaged_data(content, place, depth)
            return
        if SERIALIZED_MARKER in decoded:
            self.hidden({SERIALIZED_MARKER: decoded[SERIALIZED_MARKER]}, place, depth)
        with self.later():
            self._values(decoded, place, depth)

    def _values(self, decoded: Mapping[str, Any], place: Place, depth: int) -> None:
        """Look into every value of ``data``; what bytes in them are comes later, so that none is left out for it."""
        for key, value in decoded.items():
            inner = Place(place.entry, key)
            meaning: object = value
            if isinstance(value, Serialized):
                meaning = self.blob(value, inner, depth)
                self.hidden(dict(value.hints), inner, depth)
            else:
                self.hidden(value, inner, depth)
            for finding in of_value(key, meaning, inner):
                self.add(finding)

    def blob(self, value: Serialized, place: Place, depth: int) -> object:
        """Judge a blob, and what other decoders than SB3's read from its base64; return what it means."""
        judged = self.pickle(value.pickle, place, depth)
        if not value.is_canonical:
            message = "its base64 is not what an encoder writes: other decoders read other bytes"
            self.add(place.finding("lenient-base64", message))
            size = judged.pickle.size if judged is not None and judged.pickle is not None else 0
            for reading in self.readings(value.text, place):
                if not size or reading[:size] != value.pickle[:size]:
                    self.pickle_stream(memoryview(reading), place, depth)
        return judged.value if judged is not None else None

    def readings(self, text: str, place: Place) -> Iterator[bytes]:
        """Yield what decoders make of base64; that there was too much of it to look at all is a finding."""
        try:
            yield from carve.base64_readings(text, self.budget)
        except LimitError as error:
            self.add(place.broken(error))

    def hidden(self, value: Any, place: Place, depth: int) -> None:
        """Look for blobs where SB3 does not: deeper in a value."""
        todo = [value]
        while todo:
            part = todo.pop()
            if isinstance(part, list):
                todo.extend(part)
            elif isinstance(part, dict):
                todo.extend(part.values())
                text = part.get(SERIALIZED_MARKER)
                if type(text) is str:
                    self.add(place.finding("hidden-blob", "a blob lies deeper than SB3 looks for one"))
                    for reading in self.readings(text, place):
                        self.pickle(reading, place, depth)

    def damaged_data(self, raw: memoryview, place: Place, depth: int) -> None:
        """Look at the blobs of what is no valid ``data``, and at whether it is a pickle."""
        for key, blob in carve.blobs(raw, self.budget):
            self.pickle(blob, Place(place.entry, key or ANY_KEY), depth)
        if not carve.is_document(raw) and bytes(raw[:3]) != b"\xef\xbb\xbf":
            self.content(raw, place, depth)
