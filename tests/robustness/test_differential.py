"""The standard library beside us, over every conformance vector: where both succeed, both see the same.

Where only one does, the reason stands here, and FORMAT.md has the rule.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import pickletools
import re
import warnings
import zipfile
import zlib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.runner.vectors import decode_file, read_vectors
from sbformat import data as data_entry
from sbformat.container.reader import Container
from sbformat.errors import SbformatError
from sbformat.limits import Budget
from sbformat.pkl import Call, Global, Pickle, decode_pickle
from sbformat.pkl.state import FIX_IMPORTS_BELOW
from tests.helpers.recording_unpickler import Graph, Recorder, Unlike
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTORS: Final = [vector for vector in read_vectors() if vector["kind"] == "decode"]


@cache
def files() -> dict[str, bytes]:
    """What decoders are given, by the vector's name."""
    return {vector["name"]: decode_file(vector) for vector in VECTORS}


@cache
def zips() -> list[tuple[str, bytes]]:
    """Every zip, and every zip within one."""
    return list(_find_zips())


def _find_zips() -> Iterator[tuple[str, bytes]]:
    for name, raw in files().items():
        if raw[:2] == b"PK":
            yield name, raw
            for member, content in (members(raw) or {}).items():
                if content[:2] == b"PK":
                    yield f"{name}/{member}", content


@cache
def members(raw: bytes) -> dict[str, bytes] | None:
    """What we read of a zip, all CRCs checked; None when it is refused."""
    try:
        container = Container(raw, names="record")
        return {name: bytes(container.read(name)) for name in container}
    except SbformatError:
        return None


# -- zip ----------------------------------------------------------------------------------------------


REFUSALS: Final = (
    zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, EOFError, ValueError, RuntimeError, OverflowError,
)  # fmt: skip
"""How ``zipfile`` says no."""


def with_zipfile(raw: bytes) -> dict[str, bytes] | str:
    """What the standard library reads, or why it does not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer releases warn of extra fields
            opened = zipfile.ZipFile(io.BytesIO(raw))
        with opened:
            return {info.filename: opened.read(info) for info in opened.infolist()}
    except REFUSALS as error:
        return type(error).__name__


def test_zipfile_reads_the_same_from_every_zip_that_we_read() -> None:
    """Everything that we accept the standard library reads, to the same names in the same order and the same bytes."""
    counts: Counter[str] = Counter()
    for name, raw in zips():
        ours, theirs = members(raw), with_zipfile(raw)
        counts[
            "both"
            if ours and isinstance(theirs, dict)
            else "ours"
            if ours
            else "theirs"
            if isinstance(theirs, dict)
            else "neither"
        ] += 1
        if ours is None:
            continue
        if name in OURS_ALONE:
            continue
        assert isinstance(theirs, dict), (name, theirs)
        if not all(key.isascii() for key in ours):  # without flag 0x800 zipfile takes names for cp437 (FORMAT.md 2.6)
            theirs = {utf_8(key): content for key, content in theirs.items()}
        assert list(ours.items()) == list(theirs.items()), name
    assert counts["both"] > 500
    assert counts["ours"] == len(OURS_ALONE)
    assert counts["theirs"] > 100  # prefixes, gaps, second directories, wrong local headers: FORMAT.md 2


OURS_ALONE: Final = {"directory-any-versions": "zipfile looks at the version needed, which says nothing of these bytes"}


def utf_8(name: str) -> str:
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


# -- JSON ---------------------------------------------------------------------------------------------


@cache
def documents() -> list[tuple[str, bytes]]:
    """Every ``data``, bare or in an archive."""
    return list(_find_documents())


def _find_documents() -> Iterator[tuple[str, bytes]]:
    for name, raw in files().items():
        if raw.lstrip()[:1] == b"{" or raw[:3] == b"\xef\xbb\xbf":
            yield name, raw
        elif raw[:2] == b"PK" and "data" in (found := members(raw) or {}):
            yield name, found["data"]


def with_json(raw: bytes) -> Any:
    """What the standard library reads as UTF-8, or why it does not; a key that stands twice is an error here, too."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise KeyError
        return dict(items)

    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs)
    except (ValueError, KeyError, RecursionError) as error:
        return error


def test_json_reads_the_same_from_every_document_that_we_read() -> None:
    counts: Counter[str] = Counter()
    for name, raw in documents():
        theirs = with_json(raw)
        try:
            ours = data_entry.to_json(data_entry.loads(raw))
        except SbformatError as error:
            if not isinstance(theirs, Exception):
                counts[f"{error.outcome}: {reason(str(error))}"] += 1
            continue
        counts["both"] += 1
        theirs = {key: markers_first(value) for key, value in theirs.items()}
        assert data_entry.equal_json(ours, theirs), name
        assert json.dumps(ours) == json.dumps(theirs), name
    assert counts.pop("both") > 300
    assert set(counts) <= set(STRICTER_THAN_JSON), counts


def markers_first(value: Any) -> Any:
    """A serialized value as it is written: markers before hints, and no marker that is null."""
    if not isinstance(value, dict) or ":serialized:" not in value:
        return value
    markers = {key: value[key] for key in (":type:", ":serialized:") if value.get(key) is not None}
    return {**markers, **{key: part for key, part in value.items() if key not in (":type:", ":serialized:")}}


STRICTER_THAN_JSON: Final = (
    "data failure: not an object",
    "data failure: a marker",  # :type:, :serialized: and what base64 makes of it
    "limit exceeded: a limit",
)
"""What ``json`` reads and we refuse (FORMAT.md 3.1, 3.2, 8), besides keys that stand twice."""


def reason(message: str) -> str:
    """The rule that a message speaks of."""
    if "expected " in message and "or more; if you trust the size" in message:
        return "a limit"
    if "expected a JSON object" in message:
        return "not an object"
    return "a marker" if ":type:" in message or ":serialized:" in message else message


# -- base64 -------------------------------------------------------------------------------------------


def test_base64_is_what_binascii_makes_of_it() -> None:
    compared = 0
    for name, raw in documents():
        theirs = with_json(raw)
        if not isinstance(theirs, dict):
            continue
        for key, value in theirs.items():
            if not isinstance(value, dict) or not isinstance(value.get(":serialized:"), str):
                continue
            document = json.dumps({key: {":serialized:": value[":serialized:"]}}).encode()
            try:
                decoded = base64.b64decode(value[":serialized:"].encode())
            except (binascii.Error, UnicodeEncodeError):
                with pytest.raises(SbformatError):
                    data_entry.loads(document)
                continue
            assert data_entry.loads(document)[key].pickle == decoded, name
            compared += 1
    assert compared > 300


# -- pickles ------------------------------------------------------------------------------------------


@cache
def pickles() -> list[tuple[str, bytes]]:
    """Every blob of every document, and every ``data.pkl``."""
    return list(_find_pickles())


def _find_pickles() -> Iterator[tuple[str, bytes]]:
    for name, raw in documents():
        try:
            values = data_entry.loads(raw)
        except SbformatError:
            continue
        for key, value in values.items():
            if hasattr(value, "pickle"):
                yield f"{name} {key}", value.pickle
    for name, raw in zips():
        for record, content in (members(raw) or {}).items():
            if record.endswith("/data.pkl"):
                yield f"{name} {record}", content


def opcodes(raw: bytes) -> list[str] | None:
    """The opcodes by ``pickletools``, which checks no stack; None when it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python has not
            return [opcode.name for opcode, _, _ in pickletools.genops(raw)]
    except (ValueError, OverflowError, UnicodeDecodeError, MemoryError):
        return None


TOO_MUCH_FOR_CPYTHON: Final = {
    vector["name"]
    for vector in VECTORS
    if "MUST NOT hash anything that a file built" in vector["sentence"]
    or "MUST traverse it without recursion" in vector["sentence"]
    or re.match(r"value-depth-\d{4,}-", vector["name"])
}
"""What its unpickler would take minutes or its whole stack for."""
IMPORTED: Final = {"GLOBAL", "INST", "STACK_GLOBAL"}
CALLED: Final = {"REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}


@pytest.mark.parametrize("step", with_exhaustive([4], [1]))
def test_the_log_has_as_many_imports_and_calls_as_pickletools_counts(step: int) -> None:
    compared = 0
    for name, raw in pickles()[step // 2 :: step]:
        counted = opcodes(raw)
        try:
            found = decode_pickle(raw, Budget(), encoding="utf-8")
        except SbformatError:
            continue
        if counted is None:  # pickletools takes names and 8-bit text for ASCII, where the unpickler has UTF-8
            assert any(byte > 0x7F for byte in raw) or b"\\x" in raw, name
            continue
        log = Counter(type(row) for row in found.log)
        computed = sum(isinstance(row, Call) and row.how == "STACK_GLOBAL" for row in found.log)
        assert log[Global] + computed == sum(word in IMPORTED for word in counted), name
        assert log[Call] - computed == sum(word in CALLED for word in counted), name
        compared += 1
    assert compared > 800 // step


@pytest.mark.parametrize("step", with_exhaustive([4], [1]))
def test_a_recording_unpickler_makes_the_same_of_every_pickle_that_we_read(step: int) -> None:
    counts: Counter[str] = Counter()
    for name, raw in pickles()[::step]:
        if name.split()[0] in TOO_MUCH_FOR_CPYTHON:
            continue
        try:
            found = decode_pickle(raw, Budget(), encoding="utf-8")
        except SbformatError:
            continue
        if found.flags:  # what CPython makes of those depends on when a call saw its arguments
            continue
        if raw.count(b"\x80") > 1 and "names" in name:  # the recorder has one protocol for all of a pickle
            continue
        counts[compared(name, raw, found)] += 1
    assert counts.pop("the same") > 600 // step
    assert set(counts) <= NOT_COMPARED, counts


REASONS: Final = {
    "unhashable": "a key that cannot be hashed",
    "must be a tuple": "arguments that are no tuple",
    "must be a dict": "keywords that are no dict",
    "extension code": "an extension that is not registered",
    "STACK_GLOBAL requires str": "a computed name",
    "NEWOBJ": "a class that is none",
    "a bytes-like object is required": "a buffer that is none",
}
"""Where CPython stops at what the pickle asks for, and an inert tree holds it (FORMAT.md 5.1, 5.2)."""
NOT_COMPARED: Final = {
    *REASONS.values(), "keys that CPython merges", "a node of another kind", "a memo with room for the highest index",
}  # fmt: skip


def compared(name: str, raw: bytes, ours: Pickle) -> str:
    """Compare with what CPython makes of a pickle; or say why that cannot be."""
    try:
        recorder = Recorder(io.BytesIO(raw), encoding="utf-8")
        recorder.is_old = ours.protocol < FIX_IMPORTS_BELOW
        theirs = recorder.load()
    except (TypeError, ValueError, pickle.UnpicklingError) as error:
        return next((why for words, why in REASONS.items() if words in str(error)), f"{name}: {error}")
    except MemoryError:
        return "a memo with room for the highest index"
    try:
        left = Graph(ours.value)
    except Unlike:
        return "keys that CPython merges"
    except AssertionError:
        return "a node of another kind"
    right = Graph(theirs)
    assert (left.root, left.rows) == (right.root, right.rows), name
    return "the same"
