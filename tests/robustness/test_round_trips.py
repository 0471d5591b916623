"""Laws of writing, on files drawn at random, on real archives, and in a process that is weighed."""

from __future__ import annotations

import glob
import io
import os
import subprocess
import sys
import zipfile
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_pth import Apply, Pairs, Persist, Run, legacy_stream, torch_zip
from sbformat import SbformatError, pth
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.shared_files import SHARED
from tests.pth.test_properties import EIGHT, trees

ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB: Final = 1 << 20


def whole(data: bytes, **options: Any) -> pth.StateDict | None:
    """A state dict that can be read to its last value, or None."""
    try:
        found = pth.loads(data, **options)
        found.check()
        found.to_numpy()
        return found if found == pth.loads(data, **options) else None
    except SbformatError:
        return None


def assert_law(data: bytes, **options: Any) -> bool:
    """``loads(dumps(loads(x))) == loads(x)``, and ``dumps`` is a fixed point the second time; was x readable?"""
    before = whole(data, **options)
    if before is None:
        return False
    raw = pth.dumps(before)
    after = pth.loads(raw, **options)
    assert after == before
    assert pth.dumps(after) == raw
    assert list(after.tensors()) == list(before.tensors())
    return True


def has_no_late_opcodes(tree: Any) -> bool:
    """Bytes and sets are values of protocol 4: in an inert node of a file of protocol 2 they become calls."""
    if isinstance(tree, (list, tuple)):
        return all(map(has_no_late_opcodes, tree))
    if isinstance(tree, Pairs):
        return has_no_late_opcodes(tree.pairs)
    if isinstance(tree, Persist):
        return has_no_late_opcodes(tree.id)
    if isinstance(tree, Apply):
        parts = [tree.func, tree.args, *(change.value for change in tree.changes)]
        return all(map(has_no_late_opcodes, parts))
    return not isinstance(tree, (bytes, set, frozenset))


@more_examples(250)
@given(trees, st.booleans())
def test_any_file_that_is_read_is_written_and_read_again(tree: object, inert: bool) -> None:  # noqa: FBT001
    """The law, for zips of both byte orders and legacy streams, with and without inert nodes."""
    options = {"on_unknown": "inert"} if inert and has_no_late_opcodes(tree) else {}
    records = {"0": EIGHT, "1": bytes(8), "2": bytes(4)}
    assert_law(torch_zip(tree, records), **options)
    assert_law(torch_zip(tree, records, byte_order=b"big"), **options)
    assert_law(legacy_stream(tree, [Run("0", 8, EIGHT)]), **options)


# -- real files ---------------------------------------------------------------------------------------


def real_files(*pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(SHARED, *pattern)))


def entries(path: str) -> list[bytes]:
    """The state dicts of an archive, or the file itself."""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as opened:
            found = [opened.read(name) for name in opened.namelist() if name.endswith(".pth")]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        found = []
    return found or [raw]


@pytest.mark.parametrize("path", real_files("generated", "torch", "*", "*.pt"), ids=lambda path: path[-60:])
def test_what_torch_wrote_is_written_again(path: str) -> None:
    for data in entries(path):
        assert_law(data)
        assert_law(data, on_unknown="inert")


def test_state_dicts_of_real_archives_are_written_again() -> None:
    """The law, and the same from their arrays."""
    paths = real_files("corpus", "sb3", "*")[::9] + real_files("generated", "*", "*.zip")[::9]
    if not paths:
        pytest.skip("there are no real archives beside the project")
    seen = 0
    for path in paths:
        for data in entries(path):
            if not assert_law(data):
                continue
            before = pth.loads(data)
            made = pth.StateDict.from_arrays(before.to_numpy())
            after = pth.loads(pth.dumps(made))
            assert list(after.tensors()) == list(before.tensors())
            assert after.metadata == before.metadata
            for name, info in before.tensors().items():
                assert after.array(name).tobytes() == before.array(name).tobytes()
                assert after.info(name).shape == info.shape
            seen += 1
    assert seen


# -- memory -------------------------------------------------------------------------------------------

CHILD: Final = """
import resource, sys
import numpy as np
from sbformat import pth

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

size = int(sys.argv[1])
base = np.ones((8, size // 4), "f4")
square = base[4].reshape(2048, -1)
value = {
    "dense": base[0], "again": base[0], "view": base[1].reshape(4096, -1), "transposed": base[2].reshape(4096, -1).T,
    "backwards": base[3, ::-1], "columns": square[:, ::2], "more columns": square[:, 1::2],
    "swapped": base[5].view(">f4"),
    "typeless": base[6].view("u4"), "typeless backwards": base[7].view("u4")[::-1],
}
before = peak()
made = pth.encode_pth(pth.StateDict.from_arrays(value))
total = largest = 0
for chunk in made.chunks():
    total += len(chunk)
    largest = max(largest, len(chunk))
assert total == made.size
print(total, largest, peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no getrusage")
@pytest.mark.parametrize("size", with_exhaustive([16 * MIB], [32 * MIB]))
def test_large_arrays_are_encoded_in_small_pieces(size: int) -> None:
    """No array is copied as a whole, however it lies in memory: what is held at once is a small part of them."""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-W", "error", "-c", CHILD, str(size)]
    done = subprocess.run(command, capture_output=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    total, largest, grown = map(int, done.stdout.split())
    assert 8 * size < total < 8 * size + MIB
    assert largest <= 4 * MIB
    assert grown < 2 * size


def test_an_array_is_read_when_it_is_written() -> None:
    array = np.zeros(4)
    made = pth.StateDict.from_arrays({"w": array, "backwards": array[::-1]})
    array[:] = range(4)
    found = pth.loads(pth.dumps(made)).to_numpy()
    assert (found["w"].tolist(), found["backwards"].tolist()) == ([0, 1, 2, 3], [3, 2, 1, 0])
