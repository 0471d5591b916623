"""Replay buffers as tables of steps and as datasets of other libraries."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.errors import UnsupportedError
from sbformat.formats import steps as module
from sbformat.formats.replay_buffer import ReplayBuffer, read_replay_buffer
from sbformat.formats.steps import iter_steps
from tests.helpers.build_replay_buffers import buffer, hindsight_of_old
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CARTPOLE = ROOT / "tests" / "archives" / "replay-buffer-cartpole.pkl"


def flags(rows: int, envs: int, *set_at: tuple[int, int]) -> np.ndarray:
    made = np.zeros((rows, envs), "f4")
    for place in set_at:
        made[place] = 1
    return made


CASES: dict[str, Any] = {
    "two environments": buffer(rows=6, envs=2, pos=4, dones=flags(6, 2, (1, 0), (2, 1))),
    "full": buffer(rows=6, envs=2, pos=2, full=True, dones=flags(6, 2, (0, 0), (4, 1), (5, 1))),
    "one array for both observations": buffer(
        rows=6, envs=1, pos=2, full=True, dones=flags(6, 1, (4, 0)), optimize_memory_usage=True, next_observations=None
    ),
    "by episode": hindsight_of_old(),
}


@pytest.mark.parametrize("size", [1, 100, 1 << 24])
@pytest.mark.parametrize("name", CASES)
def test_pieces_have_the_steps_of_the_episodes(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", size)
    found = read_replay_buffer(CASES[name])
    pieces = list(iter_steps(found))
    whole = {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}
    place = 0
    for number, episode in enumerate(found.episodes()):
        part = slice(place, place + episode.length)
        assert set(whole["episode"][part]) == {number}
        assert set(whole["env"][part]) == {episode.env}
        assert set(whole["end"][part]) == {episode.end}
        for key, array in found.steps(episode).items():
            np.testing.assert_array_equal(whole[key][part], array)
        place += episode.length
    assert place == len(whole["episode"])


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_row_for_each_step(tmp_path: Path) -> None:
    report = sbformat.extract(CARTPOLE, tmp_path / "s.csv")
    found = read_replay_buffer(CARTPOLE)
    rows = read_csv(tmp_path / "s.csv")
    assert (report.format, report.tensors, len(rows)) == ("csv", tuple(rows[0]), found.size())
    assert list(rows[0])[:5] == ["episode", "env", "end", "observations.0", "observations.1"]
    first = found.steps(found.episodes()[0])
    assert np.float32(rows[3]["observations.2"]) == first["observations"][3, 2]
    assert [row["end"] for row in rows].count("unfinished") == 15


@pytest.mark.interop
def test_parquet_and_pandas_have_the_same_columns(tmp_path: Path) -> None:
    parquet, pandas = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pandas")
    sbformat.extract(CARTPOLE, tmp_path / "s.parquet")
    frame = read_replay_buffer(CARTPOLE).to_pandas()
    pandas.testing.assert_frame_equal(parquet.read_table(tmp_path / "s.parquet").to_pandas(), frame, check_dtype=False)
    assert frame.groupby("episode")["rewards"].sum().tolist() == [9, 14, 11, 15, 15]


def make_images() -> ReplayBuffer:
    images = np.arange(6 * 300, dtype="u1").reshape(6, 1, 3, 10, 10)
    return read_replay_buffer(buffer(rows=6, envs=1, pos=4, observations=images, next_observations=images))


def test_an_image_is_a_list_in_one_column(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = make_images()
    module.write_table(found, str(tmp_path / "s.parquet"), overwrite=False, progress=lambda _: None)
    table = parquet.read_table(tmp_path / "s.parquet")
    assert table["observations"].to_pylist()[1] == found.arrays["observations"][1].reshape(-1).tolist()
    with pytest.raises(UnsupportedError, match="has 300 numbers a step, too many for CSV: write .parquet"):
        module.write_table(found, str(tmp_path / "s.csv"), overwrite=False, progress=lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["s.parquet"]


def test_an_empty_buffer_is_an_empty_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "b.pkl").write_bytes(buffer(rows=6, envs=1, pos=0))
    assert sbformat.extract(tmp_path / "b.pkl", tmp_path / "s.parquet").tensors == ()
    assert sbformat.extract(tmp_path / "b.pkl", tmp_path / "s.csv").tensors == ()


def test_actions_of_a_box_are_those_of_the_environment(tmp_path: Path) -> None:
    gymnasium, h5py = pytest.importorskip("gymnasium"), pytest.importorskip("h5py")
    space = gymnasium.spaces.Box(-2, np.float32([6, 2]), (2,), np.float32)
    actions = np.stack([np.full((1, 2), value, "f4") for value in (-1, -0.5, 0, 0.5, 1, 0)])
    found = read_replay_buffer(buffer(rows=6, envs=1, pos=5, actions=actions))
    episodes = list(module._iter_episodes(found, space, lambda _: None))
    assert np.concatenate([row["actions"] for row in episodes]).tolist() == [[-2, -2], [0, -1], [2, 0], [4, 1], [6, 2]]
    module._write_d3rlpy(tmp_path / "d.h5", iter(episodes))
    with h5py.File(tmp_path / "d.h5") as file:
        assert (file["version"][()], file["num_episodes"][()]) == (b"2.1", len(episodes))
        assert file["rewards_0"].shape == (episodes[0]["rewards"].size, 1)
        assert file["observations_0"].shape[0] == file["actions_0"].shape[0] == episodes[0]["rewards"].size


@pytest.mark.interop
def test_d3rlpy_reads_its_dataset(tmp_path: Path) -> None:
    d3rlpy = pytest.importorskip("d3rlpy")
    sbformat.extract(CARTPOLE, tmp_path / "d.h5", dataset="d3rlpy")
    with open(tmp_path / "d.h5", "rb") as file:
        found = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
    assert (found.size(), found.dataset_info.action_size) == (5, 2)
    assert [episode.terminated for episode in found.episodes] == [True] * 4 + [False]


@pytest.mark.interop
def test_minari_reads_its_dataset(tmp_path: Path) -> None:
    minari = pytest.importorskip("minari")
    sbformat.extract(CARTPOLE, tmp_path / "m", dataset="minari")
    found = minari.MinariDataset(tmp_path / "m" / "data")
    assert (found.total_episodes, found.total_steps) == (5, 64)
    steps = read_replay_buffer(CARTPOLE)
    first = steps.steps(steps.episodes()[0])
    np.testing.assert_array_equal(found[0].observations[:-1], first["observations"])
    np.testing.assert_array_equal(found[0].observations[1:], first["next_observations"])
    assert (found[4].terminations[-1], found[4].truncations[-1]) == (False, True)


def test_options_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", str(CARTPOLE), "-o", str(tmp_path / "s.csv"), "--tensors", "rewards"]) == 2
    assert "a table or dataset has all arrays of a replay buffer" in capsys.readouterr().err
    assert main(["extract", str(ROOT / "tests/archives/ppo-cartpole.zip"), "-o", str(tmp_path / "s.csv")]) == 2
    assert "expected a replay buffer, got a file of the kind sb3" in capsys.readouterr().err
    with pytest.raises(ValueError, match="expected minari or d3rlpy as dataset, got 'rlds'"):
        sbformat.extract(CARTPOLE, tmp_path / "m", dataset="rlds")
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("mine")
    with pytest.raises(FileExistsError):
        sbformat.extract(CARTPOLE, tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == "mine"
    sbformat.extract(CARTPOLE, tmp_path / "s.csv", overwrite=True)
    assert len(read_csv(tmp_path / "s.csv")) == 64
