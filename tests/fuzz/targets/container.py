"""The zip layer."""

from __future__ import annotations

import io
import itertools
import zipfile
import zlib
from typing import Any

from sbformat import SbformatError
from sbformat.container.reader import Container
from sbformat.container.writer import ContainerWriter, Member, TorchZip
from sbformat.io.remote.source import RemoteSource
from tests.fuzz.law import ask
from tests.helpers.recorded_file import RecordedFile


def one_input(data: bytes) -> None:
    """Two readings agree, and so does one by ranges; bytes have the CRC and size of the directory, ``zipfile`` sees
    nothing else, and what is written of it is read again as the same."""
    found = ask(_container, data)
    again = ask(_container, data)
    ranged = ask(_container, RemoteSource(RecordedFile(data)))
    if isinstance(found, SbformatError) or isinstance(again, SbformatError):
        assert str(found) == str(again)
        assert isinstance(ranged, SbformatError) or any(
            isinstance(ask(ranged.read, name), SbformatError) for name in ranged
        )
        return
    assert found.entries == again.entries
    _check_tiles(found)
    contents = {name: _content(found, again, name) for name in found}
    _check_ranged(ranged, contents)
    _check_zipfile(data, found, contents)
    whole = {name: content for name, content in contents.items() if content is not None}
    _check_torch_zip(whole)
    if not isinstance(ask(found.require_paths), SbformatError):
        _check_writer(whole)


def _container(data: bytes | RemoteSource) -> Container:
    return Container(data, names="record")


def _check_tiles(found: Container) -> None:
    """Members lie one behind the other from the first byte on."""
    entries = sorted(found.entries.values(), key=lambda entry: entry.offset)
    assert entries[0].offset == 0
    for entry, following in itertools.pairwise(entries):
        assert entry.offset < entry.data_offset <= following.offset - entry.compressed_size


def _content(found: Container, again: Container, name: str) -> bytes | None:
    """A member's bytes, had in every way there is; None when they are refused in all of them."""
    entry = found.entry(name)
    view = ask(found.read, name)
    chunks = ask(lambda: b"".join(map(bytes, again.stream(name, 7 + entry.size // 3))))
    if isinstance(view, SbformatError) or isinstance(chunks, SbformatError):
        assert isinstance(view, SbformatError)
        assert isinstance(chunks, SbformatError), "a member that cannot be read can be streamed"
        return None
    content = bytes(view)
    assert content == chunks == bytes(found.view(name)) == bytes(again.read(name))
    assert (len(content), zlib.crc32(content)) == (entry.size, entry.crc)
    assert len(found.raw(name)) == entry.compressed_size
    return content


def _check_ranged(ranged: Container | SbformatError, contents: dict[str, bytes | None]) -> None:
    """By ranges, the same members have the same bytes or are refused, and then nothing is left unchecked."""
    assert isinstance(ranged, Container), ranged
    for name, content in contents.items():
        view = ask(ranged.read, name)
        assert (None if isinstance(view, SbformatError) else bytes(view)) == content
    unchecked = {row.name for row in ranged.list_unchecked()}
    assert unchecked <= {name for name, content in contents.items() if content is None}


def _check_zipfile(data: bytes, found: Container, contents: dict[str, bytes | None]) -> None:
    """Where the standard library reads it too, it reads the same."""
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
        names = [_raw_name(info) for info in file.infolist()]
    except Exception:  # noqa: BLE001 -- the oracle has no opinion; it leaks whatever comes
        return
    assert names == [name.encode() for name in found]
    for info, content in zip(file.infolist(), contents.values()):
        try:
            theirs = file.read(info)
        except Exception:  # noqa: BLE001, S112
            continue
        assert content in (None, theirs), f"zipfile reads {len(theirs)} other bytes"


def _raw_name(info: zipfile.ZipInfo) -> bytes:
    return info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")


def _members(contents: dict[str, bytes]) -> list[Member]:
    return [Member(name, len(content), lambda content=content: [content]) for name, content in contents.items()]


def _check_writer(contents: dict[str, bytes]) -> None:
    if not contents:
        return
    file = io.BytesIO()
    writer = ContainerWriter(file)
    for member in _members(contents):
        writer.add(member)
    writer.finish()
    _check_same(Container(file.getvalue()), contents)


def _check_torch_zip(contents: dict[str, bytes]) -> None:
    made = TorchZip(_members(contents))
    raw: Any = b"".join(map(bytes, made.chunks()))
    assert len(raw) == made.size
    if contents:
        _check_same(_container(raw), contents)


def _check_same(made: Container, contents: dict[str, bytes]) -> None:
    assert {name: bytes(made.read(name)) for name in made} == contents
