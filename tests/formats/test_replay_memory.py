"""A replay buffer is extracted in the memory of one array, at most, and 64 MiB: most of that is Python and numpy."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from sbformat.arrayfiles.reader import read_arrays
from tests.helpers.build_replay_buffers import BUFFERS, HER, attributes_of, buffer, classes
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB: Final = 1 << 20
_ROWS: Final = 1 << 14
_SHAPE: Final = (48, 96)
_ARRAY: Final = _ROWS * 48 * 96
"""Bytes of the observations: 72 MiB, and as many of the next ones."""
_SLACK: Final = 64 * _MIB

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system tells no peak"),
]


@pytest.fixture(scope="module", params=["C", "F"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A buffer of 145 MiB, whose observations lie in memory in this order; pickle itself writes it."""
    made = tmp_path_factory.mktemp(f"replay-{request.param}") / "buffer.pkl"
    attributes = attributes_of(_ROWS, 1, (1,), 100, full=True, observation_space=None, action_space=None)
    observations = np.zeros((_ROWS, 1, *_SHAPE), np.uint8, order=request.param)
    observations[:] = np.arange(_ROWS, dtype=np.uint8)[:, None, None, None]
    attributes |= {"observations": observations, "next_observations": observations, "obs_shape": _SHAPE}
    attributes["dones"][::50] = 1
    attributes["next_observations"] = observations.copy(order="K")
    with classes((BUFFERS, "ReplayBuffer")) as found:
        (cls,) = found.values()
        value = cls()
        value.__dict__.update(attributes)
        with made.open("wb") as file:
            pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
    yield made
    made.unlink()


def run(*args: str | Path) -> dict[str, Any]:
    child = ROOT / "tests" / "children" / "measure_replay_buffer.py"
    done = subprocess.run([sys.executable, str(child), *map(str, args)], capture_output=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_extracting_takes_the_memory_of_one_array(path: Path, tmp_path: Path, name: str) -> None:
    report = run(path, tmp_path / name)
    is_transposed = path.parent.name.startswith("replay-F") and name == "o.safetensors"
    assert report["peak"] <= _SLACK + (_ARRAY if is_transposed else 0)
    assert "observations" in report["tensors"]
    check(tmp_path / name)


def check(output: Path) -> None:
    """All that was written is there, and right."""
    if output.suffix:
        found = read_arrays(output)
    else:
        found = {item.stem: np.load(item, mmap_mode="r") for item in output.iterdir()}
    for key in ("observations", "next_observations"):
        assert found[key].shape == (_ROWS, 1, *_SHAPE)
        assert np.array_equal(found[key][:, 0, 5, 7], np.arange(_ROWS, dtype=np.uint8))
        assert np.array_equal(found[key][300], np.full((1, *_SHAPE), 300 % 256, np.uint8))
    assert int(found["pos"]) == 100
    assert len(found["episode_env"]) == -(-_ROWS // 50) + 1


def test_reading_episodes_takes_no_array_at_all(path: Path) -> None:
    report = run(path)
    assert report["episodes"] == -(-_ROWS // 50) + 1
    is_whole = path.parent.name.startswith("replay-F")  # one episode's rows lie all over it
    assert report["peak"] <= _SLACK + (_ARRAY if is_whole else 0)


def test_scanning_takes_no_array_at_all(path: Path) -> None:
    report = run("--scan", path)
    assert report["verdict"] == "clean"
    assert report["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert report["peak"] <= _SLACK


def test_comparing_takes_no_array_at_all(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pkl"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"next_observations") + 100_000] ^= 4
    other.write_bytes(raw)
    report = run("--diff", path, other)
    (change,) = report["changes"]
    assert change["message"] == f"1 of {_ARRAY:,} elements differ, by at most 4"
    assert change["loc"] == "next_observations"
    assert report["peak"] <= _SLACK


def test_a_hindsight_buffer_of_the_default_size_is_read(tmp_path: Path) -> None:
    """A million empty dicts beside the arrays are no reason to refuse it, nor to hold them one by one."""
    rows = 1_000_000
    infos = np.array([[{}] for _ in range(rows)])
    columns = {"ep_start": np.zeros((rows, 1), "i8"), "ep_length": np.zeros((rows, 1), "i8")}
    path = tmp_path / "b.pkl"
    path.write_bytes(buffer("HerReplayBuffer", HER, rows=rows, envs=1, pos=7, her_ratio=0.8, infos=infos, **columns))
    report = run(path)
    assert report["episodes"] == 1
    assert report["peak"] <= _SLACK + 8 * rows
