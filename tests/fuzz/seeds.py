"""What fuzzing begins with: files of the tests' makers, good and hostile, small ones of every layer."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from conformance.file_mutants import zips
from conformance.generators import build_pth, build_zips
from conformance.generators.build_pth import floats, legacy_stream, ordered, storage, tensor
from conformance.runner.vectors import list_files, read_vectors
from tests.fuzz import tables
from tests.fuzz.mutator import pickles
from tests.fuzz.mutator.fragments import FRAGMENTS
from tests.helpers import attacks, bundled
from tests.values.computed import pickled_schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SMALL: Final = 200
_STORAGES: Final = {"0": bytes(32), "1": bytes(8), "2": bytes(4)}


def write(target: str, folder: Path, max_size: int) -> None:
    """Put the seeds of a target into its corpus, each under its digest, as libFuzzer names files."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in files() if target in ("archive", "policies") else layers(files()):
        if len(data) <= max_size and FITS[target](data):
            (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def files() -> Iterator[bytes]:
    """Whole files."""
    archives = sorted((bundled.ROOT / "tests" / "archives").glob("*.zip"))
    for path in archives:
        yield path.read_bytes()
        yield slim(path.read_bytes())
    yield build_zips.sb3_archive()
    yield build_zips.sb3_archive(
        align=4, entries={"policy.optimizer.pth": _weights(), "notes.txt": b"x", "a/b.pth": b""}
    )
    yield from _torch_files()
    yield from (attacks.pickle(fragment) for fragment in FRAGMENTS)
    yield from (slim(attacks.in_blob(attacks.pickle(fragment, 5))) for fragment in FRAGMENTS)
    yield from _hostile()
    yield from tables.pickles()
    for data in tables.torch_files():
        yield data
        yield build_zips.sb3_archive(align=1, entries={"policy.pth": data})
    for vector in read_vectors():
        yield from list_files(vector).values()
    for release in pickled_schedules.RELEASES:
        yield from (schedule.data for schedule in pickled_schedules.load(release).values())


_POLICY: Final = ordered({"w": floats((8,)), "b": tensor(storage(2, "1"), (2,))}, ordered())


def _weights(tree: Any = _POLICY) -> bytes:
    return build_pth.torch_zip(tree, _STORAGES)


def _torch_files() -> Iterator[bytes]:
    """State dicts around each constructor, as torch zips and as legacy streams."""
    for fragment in FRAGMENTS:
        raw = attacks.pickle(fragment, 2)
        yield _weights(raw)
        yield build_pth.torch_zip(raw, _STORAGES, byte_order=b"big", deflated=True)
    run = build_pth.Run("0", 8, bytes(32))
    yield build_pth.torch_zip({"w": floats((8,))}, {"0": bytes(32)}, byte_order=None, root="x")
    yield legacy_stream(ordered({"w": tensor(storage(8, "0", "FloatStorage", "cpu", None), (8,))}, ordered()), [run])
    yield legacy_stream({"w": tensor(storage(8, "0", "FloatStorage", "cpu", ("1", 0, 4)), (4,))}, [run])
    yield from _LONE


def _hostile() -> Iterator[bytes]:
    """The attacks, slim where the rest of the archive adds nothing; those of the tests' tables too."""
    from tests.tools.scan.test_attacks import ALIKE, CASES

    yield from map(attacks.payload, range(6))
    yield from map(attacks.in_stream, range(5))
    yield from (attacks.torch_file(), attacks.in_tar("pickle"), attacks.torchscript(), attacks.hostile_data())
    for case in (*CASES, *ALIKE):
        yield slim(case.made())


# -- what files are made of ---------------------------------------------------------------------------


def slim(data: bytes) -> bytes:
    """An archive with what is only the bundled one's left out: its weights, and its long values."""
    made = zips.parse(data)
    if made is None:
        return data
    made.parts = [part for part in made.parts if part.name == b"policy.pth" or not _is_usual(part)]
    made.order = None
    for part in made.parts:
        if part.name == b"data":
            part.replace(_slim_data(part.data, _usual()[b"data"]))
        elif _is_usual(part):
            part.replace(_weights())
    return zips.build(made)


def _is_usual(part: zips.Part) -> bool:
    return part.name.endswith(b".pth") and part.data == _usual().get(part.name)


@cache
def _usual() -> dict[bytes, bytes]:
    return {name.encode(): content for name, content in bundled.entries().items()}


def _is_small(value: Any) -> bool:
    return type(value) is not dict and len(json.dumps(value)) <= _SMALL


def _slim_data(text: bytes, usual: bytes) -> bytes:
    try:
        values, known = json.loads(text), json.loads(usual)
    except ValueError:
        return text
    if type(values) is not dict or text not in (json.dumps(values, indent=4).encode(), json.dumps(values).encode()):
        return text  # there is something about its spelling
    short = {key: value for key, value in values.items() if value != known.get(key) or _is_small(value)}
    return json.dumps(short, indent=4).encode()


def layers(whole: Iterator[bytes]) -> Iterator[bytes]:
    """Files, and all that lies in them."""
    todo = list(whole)
    seen: set[bytes] = set()
    while todo:
        data = todo.pop()
        if data in seen:
            continue
        seen.add(data)
        yield data
        made = zips.parse(data) if data.startswith(zips.LOCAL_SIGNATURE) else None
        todo += [part.data for part in made.parts if part.data] if made else _blobs(data)


def _blobs(data: bytes) -> list[bytes]:
    """The blobs of a ``data``, decoded as SB3 does."""
    try:
        root = json.loads(data)
        return [base64.b64decode(value[":serialized:"]) for value in root.values() if ":serialized:" in value]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []


_LONE: Final = (build_zips.state_dict_zip(build_zips.POLICY), legacy_stream({}), attacks.PAYLOAD, b'{"gamma": 0.5}')
"""What people have an archive's parts in, one of each form: their own targets have the others."""


def _is_zip(data: bytes) -> bool:
    return data.startswith(zips.LOCAL_SIGNATURE)


def _is_data(data: bytes) -> bool:
    return data[:1] in (b"{", b"[")


def _is_pth(data: bytes) -> bool:
    return (_is_zip(data) and b"data.pkl" in data and b"policy.pth" not in data) or pickles.is_pickle(data)


FITS: Final[dict[str, Callable[[bytes], bool]]] = {
    "container": _is_zip,
    "data": _is_data,
    "pkl": pickles.is_pickle,
    "pth": _is_pth,
    "archive": lambda data: (_is_zip(data) and not _is_pth(data)) or data in _LONE,
    "computed": lambda data: pickles.is_pickle(data) and b"CodeType" in data,
    "policies": lambda data: (
        _is_zip(data) and any(name in data for name in (b"policy.pth", b"parameter_list", b"_net"))
    ),
}
