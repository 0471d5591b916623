"""Replay buffers as values: what is read, what is refused, and which rows are one trajectory."""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from sbformat.arrayfiles.reader import read_arrays
from sbformat.arrayfiles.writer import write_arrays
from sbformat.errors import LimitError, MissingEntryError, SbformatError, TensorError, UnsupportedError
from sbformat.formats.replay_buffer import ENDS, Episode, ReplayBuffer, is_of_sb3, read_replay_buffer
from sbformat.known.spaces import Box
from sbformat.known.types import Reference
from sbformat.limits import Limits
from sbformat.tools.extract import extract
from sbformat.tools.scan import scan
from tests.helpers.build_replay_buffers import (
    BUFFERS,
    HER,
    Named,
    attributes_of,
    buffer,
    hindsight_of_old,
    named_hindsight_of_old,
    pickled,
)
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples
from tests.helpers.shared_files import GENERATED, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

DECODED: Final[Counter[str]] = Counter()
_summary = summarize_counts(DECODED, "test_replay_buffer.py read")


def read(**options: Any) -> ReplayBuffer:
    return read_replay_buffer(buffer(**options))


# -- what is read -------------------------------------------------------------------------------------


def test_a_buffer_says_what_was_saved() -> None:
    found = read(rows=6, envs=2, pos=4)
    assert (found.type, found.is_known) == (Reference(BUFFERS, "ReplayBuffer"), True)
    assert (found.buffer_size, found.n_envs, found.pos, found.full, found.size()) == (6, 2, 4, False, 4)
    assert isinstance(found.observation_space, Box)
    assert (found.handle_timeout_termination, found.optimize_memory_usage) == (True, False)
    assert (found.n_steps, found.gamma, found.hindsight, found.offline) == (None, None, None, None)
    expected = {name: value for name, value in attributes_of().items() if isinstance(value, np.ndarray)}
    assert set(found.arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert not found.arrays[name].flags.writeable
    assert repr(found) == "<ReplayBuffer ReplayBuffer 4 of 6, 2 envs>"
    with pytest.raises(MissingEntryError, match="did you mean 'rewards'"):
        found.arrays["reward"]
    with pytest.raises(AttributeError):
        found.pos = 3  # type: ignore[misc]


def test_observations_by_name() -> None:
    parts = {"a": np.ones((6, 2, 3), "u1"), "b/c": np.zeros((6, 2, 1))}
    found = read(name="DictReplayBuffer", observations=parts, next_observations=parts)
    assert [name for name in found.arrays if name.startswith("obs")] == ["observations/a", "observations/b~1c"]
    assert found.arrays["observations/a"].dtype == np.uint8
    assert found.steps(Episode(1, 0, 2, "unfinished"))["next_observations/b~1c"].shape == (2, 1)


def test_n_steps_and_gamma() -> None:
    found = read(name="NStepReplayBuffer", n_steps=3, gamma=0.9)
    assert (found.n_steps, found.gamma) == (3, 0.9)


def test_hindsight_of_today() -> None:
    rows = {"ep_start": np.zeros((6, 2), "i8"), "ep_length": np.zeros((6, 2), "i8"), "_current_ep_start": np.zeros(2)}
    infos = np.array([[{} for _ in range(2)] for _ in range(6)])
    found = read(
        module=HER, name="HerReplayBuffer", her_ratio=0.8, n_sampled_goal=4, copy_info_dict=False, infos=infos, **rows
    )
    assert found.hindsight is not None
    assert (found.hindsight.her_ratio, found.hindsight.copy_info_dict) == (0.8, False)
    assert found.hindsight.max_episode_length is None
    assert "ep_start" in found.steps(Episode(0, 0, 1, "unfinished"))


def test_numbers_may_be_numpys() -> None:
    found = read(pos=np.int64(3), full=np.bool_(True), n_envs=np.int32(2))
    assert (found.pos, found.full, found.n_envs) == (3, True, 2)


def test_a_users_own_class_is_read_and_told() -> None:
    data = buffer(module="mine.buffers", name="Mine", priorities=np.arange(6.0), note="x")
    found = read_replay_buffer(data)
    assert (str(found.type), found.is_known) == ("mine.buffers.Mine", False)
    assert found.arrays["priorities"].tolist() == [0, 1, 2, 3, 4, 5]
    assert (scan(data).verdict, scan(data).reason) == ("dangerous", "not-known")
    assert not is_of_sb3(sbformat.reads(data))
    assert is_of_sb3(sbformat.reads(buffer()))
    assert scan(buffer()).verdict == "clean"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_says_the_same(protocol: int) -> None:
    found = read(protocol=protocol)
    np.testing.assert_array_equal(found.arrays["observations"], attributes_of()["observations"])


def test_arrays_of_another_byte_order_are_not_kept_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewards = np.arange(40_000, dtype=">f4").reshape(20_000, 2)
    path = tmp_path / "b.pkl"
    path.write_bytes(buffer(rows=20_000, rewards=rewards))
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", 1000)
    assert np.array_equal(read_replay_buffer(path).arrays["rewards"], rewards)
    state = sbformat.read(path).parameters["replay_buffer"]
    assert np.array_equal(state["rewards"], rewards)
    assert state.info("rewards").storage.swapped is None
    write_arrays({"a": state.stream("rewards")}, tmp_path / "o.npz")
    assert np.array_equal(read_arrays(tmp_path / "o.npz")["a"], rewards)


def test_a_file_beyond_memory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.pkl"
    path.write_bytes(buffer(rows=50_000))
    monkeypatch.setattr("sbformat.io.opening.LARGE_FILE_BYTES", 1000)
    found = read_replay_buffer(path)
    assert repr(found.infos["observations"].buffer).startswith("<Unread 1200000 bytes")
    np.testing.assert_array_equal(found.arrays["rewards"], attributes_of(rows=50_000)["rewards"])
    steps = found.steps(Episode(1, 2, 2, "unfinished"))
    assert steps["rewards"].tolist() == [5, 7]
    path.write_bytes(b"another")
    with pytest.raises(SbformatError, match="has changed"):
        found.arrays["rewards"]


# -- trajectories -------------------------------------------------------------------------------------


def flags(rows: int, envs: int, *set_at: tuple[int, int]) -> np.ndarray:
    made = np.zeros((rows, envs), "f4")
    for place in set_at:
        made[place] = 1
    return made


def test_episodes_are_cut_at_dones() -> None:
    found = read(dones=flags(6, 2, (1, 0), (3, 0), (0, 1)), timeouts=flags(6, 2, (3, 0), (2, 0)))
    assert found.episodes() == [
        Episode(0, 0, 2, "terminated"), Episode(0, 2, 2, "timeout"), Episode(1, 0, 1, "terminated"),
        Episode(1, 1, 3, "unfinished"),
    ]  # fmt: skip
    assert found.steps(found.episodes()[3])["rewards"].tolist() == [3, 5, 7]
    assert found.positions(found.episodes()[3]).tolist() == [1, 2, 3]


def test_a_full_buffer_begins_where_it_is_written_next() -> None:
    found = read(pos=2, full=True, envs=1, dones=flags(6, 1, (1, 0), (3, 0)))
    assert found.episodes() == [Episode(0, 2, 2, "terminated"), Episode(0, 4, 4, "terminated")]
    last = found.episodes()[1]
    assert found.positions(last).tolist() == [4, 5, 0, 1]
    assert found.steps(last)["rewards"].tolist() == [4, 5, 0, 1]
    with pytest.raises(UnsupportedError, match="next_observations"):
        found.next_positions(last)


def test_with_one_array_for_both_observations_the_next_is_the_row_behind() -> None:
    options: dict[str, Any] = {"optimize_memory_usage": True, "next_observations": None, "envs": 1}
    found = read(pos=2, full=True, **options)
    (only,) = found.episodes()
    assert only == Episode(0, 3, 5, "unfinished")  # row 2 holds the next observation of row 1
    assert found.positions(only).tolist() == [3, 4, 5, 0, 1]
    assert found.next_positions(only).tolist() == [4, 5, 0, 1, 2]
    rows = found.arrays["observations"][:, 0]
    np.testing.assert_array_equal(found.steps(only)["next_observations"], rows[[4, 5, 0, 1, 2]])
    assert read(pos=2, **options).episodes() == [Episode(0, 0, 2, "unfinished")]
    assert read(rows=1, pos=0, full=True, **options).episodes() == []


@pytest.mark.parametrize("options", [{"pos": 0}, {"pos": 0, "envs": 1}])
def test_an_empty_buffer_has_no_episodes(options: Any) -> None:
    found = read(**options)
    assert found.episodes() == []
    assert {name: column.tolist() for name, column in found.episode_table().items()} == {
        "env": [], "start": [], "length": [], "end": [],
    }  # fmt: skip


def test_timeouts_that_were_not_recorded() -> None:
    found = read(timeouts=None, handle_timeout_termination=None, dones=flags(6, 2, (3, 0)))
    assert [episode.end for episode in found.episodes()] == ["terminated", "unfinished"]
    assert not found.handle_timeout_termination


def test_actions_of_a_dict_buffer_before_1_4_have_no_axis_of_environments() -> None:
    parts = {"a": np.arange(6, dtype="f4").reshape(6, 1, 1)}
    found = read(
        name="DictReplayBuffer",
        envs=1,
        observations=parts,
        next_observations=parts,
        actions=np.arange(18).reshape(6, 3),
    )
    assert found.steps(Episode(0, 1, 2, "unfinished"))["actions"].tolist() == [[3, 4, 5], [6, 7, 8]]


@more_examples(60)
@given(st.data())
def test_episodes_are_those_that_a_loop_would_find(data: st.DataObject) -> None:
    """Every valid step stands in exactly one episode, in the order of time, and only the last row of one is done."""
    rows, envs = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
    pos, full = data.draw(st.integers(0, rows - 1)), data.draw(st.booleans())
    is_shared = data.draw(st.booleans())
    drawn = st.lists(st.booleans(), min_size=rows * envs, max_size=rows * envs)
    dones, timeouts = (np.array(data.draw(drawn), "f4").reshape(rows, envs) for _ in range(2))
    options: dict[str, Any] = {"optimize_memory_usage": True, "next_observations": None} if is_shared else {}
    found = read(rows=rows, envs=envs, pos=pos, full=full, dones=dones, timeouts=timeouts, **options)
    in_time = [(pos + at) % rows for at in range(rows)][is_shared:] if full else list(range(pos))
    expected = []
    for env in range(envs):
        steps: list[int] = []
        for row in in_time:
            steps.append(row)
            if dones[row, env] or row == in_time[-1]:
                end = ("timeout" if timeouts[row, env] else "terminated") if dones[row, env] else "unfinished"
                expected.append((env, steps, end))
                steps = []
    mine = [(episode.env, found.positions(episode).tolist(), episode.end) for episode in found.episodes()]
    assert mine == expected
    for episode, (env, steps, _) in zip(found.episodes(), expected):
        np.testing.assert_array_equal(found.steps(episode)["rewards"], found.arrays["rewards"][steps, env])


@pytest.mark.parametrize("name", ["_buffer", "buffer"])
def test_hindsight_before_1_8_keeps_episodes(name: str) -> None:
    done = np.zeros((4, 5, 1), "f4")
    done[1, 1] = 1
    found = read_replay_buffer(hindsight_of_old(name, done=done))
    assert (found.size(), found.pos) == (7, 2)
    assert found.hindsight is not None
    assert (found.hindsight.max_episode_length, found.hindsight.current_idx) == (5, 3)
    episodes = found.episodes()
    assert episodes == [Episode(0, 0, 5, "timeout"), Episode(0, 5, 2, "terminated"), Episode(0, 10, 3, "unfinished")]
    steps = found.steps(episodes[1])
    assert steps["rewards"].tolist() == [5, 6]
    assert steps["actions"].tolist() == [[15, 16, 17], [18, 19, 20]]
    assert steps["observations/observation"].tolist() == [[10, 11], [12, 13]]
    assert steps["next_observations/achieved_goal"].tolist() == [[5], [6]]
    flat = found.arrays[f"{name}/reward"].reshape(-1)
    assert flat[found.positions(episodes[2])].tolist() == [10, 11, 12]


def test_hindsight_before_1_8_wraps_by_episode() -> None:
    full = {"full": True, "pos": 1, "episode_lengths": np.array([5, 5, 3, 4])}
    found = read_replay_buffer(hindsight_of_old(**full, current_idx=0))
    assert [episode.start // 5 for episode in found.episodes()] == [1, 2, 3, 0]
    found = read_replay_buffer(hindsight_of_old(**full))
    assert [episode.start // 5 for episode in found.episodes()] == [2, 3, 0, 1]  # 1 is written anew
    assert [episode.length for episode in found.episodes()] == [3, 4, 5, 3]


def test_hindsight_that_sampled_offline_has_a_buffer_of_its_own() -> None:
    inner = Named(BUFFERS, "DictReplayBuffer", attributes_of(pos=3))
    found = read_replay_buffer(hindsight_of_old(replay_buffer=inner, online_sampling=False))
    assert found.offline is not None
    assert (found.offline.type.name, found.offline.size()) == ("DictReplayBuffer", 3)


def test_an_offline_buffer_may_have_one_of_its_own() -> None:
    value = Named(BUFFERS, "DictReplayBuffer", attributes_of(pos=3))
    for pos in range(3):
        value = named_hindsight_of_old(pos=pos, replay_buffer=value, online_sampling=False)
    found: ReplayBuffer | None = read_replay_buffer(pickled(value))
    positions = []
    while found is not None:
        positions.append(found.pos)
        found = found.offline
    assert positions == [2, 1, 0, 3]


def test_buffers_in_each_other_are_limited_by_value_depth_alone() -> None:
    value = Named(BUFFERS, "DictReplayBuffer", attributes_of(pos=3))
    for _ in range(150):
        value = named_hindsight_of_old(replay_buffer=value, online_sampling=False)
    data = pickled(value)
    with pytest.raises(LimitError, match="value_depth"):
        read_replay_buffer(data)
    found: ReplayBuffer | None = read_replay_buffer(data, limits=Limits(value_depth=1000))
    count = 0
    while found is not None:
        count, found = count + 1, found.offline
    assert count == 151


# -- what is refused ----------------------------------------------------------------------------------


@check_each(
    ("options", "words"),
    [
        ({"pos": 6}, "pos below the 6 rows, got 6"),
        ({"pos": -1}, "expected an integer >= [01] as pos"),
        ({"pos": 2**70}, "as pos"),
        ({"pos": True}, "expected an integer >= [01] as pos"),
        ({"pos": 1.5}, "expected an integer >= [01] as pos"),
        ({"pos": "x"}, "expected a number as pos"),
        ({"full": 2}, "expected a bool as"),
        ({"full": None}, "full is missing"),
        ({"buffer_size": 0}, "expected an integer >= [01] as buffer_size"),
        ({"buffer_size": 5}, "of a shape that begins with"),
        ({"n_envs": 3}, "of a shape that begins with"),
        ({"n_envs": 0}, "expected an integer >= [01] as n_envs"),
        ({"dones": np.zeros((6, 2, 1), "f4")}, "expected 'dones' of shape"),
        ({"rewards": np.zeros((6, 2, 1), "f4")}, "expected 'rewards' of shape"),
        ({"timeouts": np.zeros((5, 2), "f4")}, "expected 'timeouts' of a shape"),
        ({"actions": np.zeros((6, 2), "f4")[:5]}, "expected 'actions' of a shape"),
        ({"actions": np.zeros((6, 1), "f4")}, "expected 'actions' of a shape"),
        ({"observations": np.float32(3)}, "expected an array as observations"),
        ({"next_observations": None}, "expected an array as next_observations"),
        ({"dones": "x"}, "expected an array as dones"),
        ({"infos": np.array([[{}]])}, "expected an array of objects of shape"),
        ({"name": "NStepReplayBuffer", "n_steps": 0, "gamma": 1.0}, "expected an integer >= [01] as n_steps"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], words: str) -> None:
    module = {"module": HER, "name": "HerReplayBuffer"} if "infos" in options else {}
    with pytest.raises(TensorError, match=words):
        read(**options, **module)


@check_each(
    ("options", "words"),
    [
        ({"pos": 4}, "pos below 4 and"),
        ({"current_idx": 6}, "current_idx of at most"),
        ({"current_idx": ...}, "current_idx is missing"),
        ({"max_episode_stored": 5}, "array of integers as episode_lengths"),
        ({"buffer": {"done": np.zeros((4, 5, 1), "f4")}}, "both _buffer and buffer"),
        ({"max_episode_length": 4}, "expected episode_lengths from"),
        ({"episode_lengths": np.array([5, -2, 0, 0])}, "expected episode_lengths from"),
        ({"episode_lengths": np.zeros(4)}, "expected an array of integers as"),
        ({"_buffer": {"done": np.zeros((4, 5), "f4")}}, "expected 'done' of a shape"),
        ({"_buffer": {"done": np.zeros((4, 5, 2), "f4")}}, "expected done of shape"),
        ({"_buffer": {"reward": np.zeros((4, 5, 1), "f4")}}, "expected done of shape"),
        ({"_buffer": {"done": np.zeros((4, 5, 1), "f4"), "x": np.zeros((5, 4), "f4")}}, "expected 'x' of a shape"),
    ],
)
def test_what_does_not_fit_of_episodes_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TensorError, match=words):
        read_replay_buffer(hindsight_of_old(**options))


def test_other_files_are_refused() -> None:
    other = pickled(
        Named("stable_baselines3.common.running_mean_std", "RunningMeanStd", {"mean": 0.0, "var": 1.0, "count": 1.0})
    )
    with pytest.raises(UnsupportedError, match="expected a replay buffer"):
        read_replay_buffer(other)
    with pytest.raises(UnsupportedError):
        read_replay_buffer(b'{"gamma": 0.9}')


def test_many_episodes_need_a_limit() -> None:
    data = buffer(rows=50, envs=1, pos=0, full=True, dones=np.ones((50, 1), "f4"))
    with pytest.raises(LimitError, match="reported_values"):
        read_replay_buffer(data, limits=Limits(reported_values=49)).episodes()
    assert len(read_replay_buffer(data, limits=Limits(reported_values=50)).episodes()) == 50
    assert len(read_replay_buffer(data, limits=Limits(reported_values=1)).episode_table()["env"]) == 50
    with pytest.raises(LimitError, match="expanded_items"):
        read_replay_buffer(data, limits=Limits(expanded_items=49)).episode_table()
    with pytest.raises(LimitError, match="expanded_items"):
        read_replay_buffer(hindsight_of_old(), limits=Limits(expanded_items=3)).episodes()


def test_every_cut_and_every_flipped_byte_gives_our_errors() -> None:
    data = buffer(rows=2, envs=1, pos=1)
    for at in range(len(data)):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]):
            try:
                found = read_replay_buffer(changed)
                for episode in found.episodes():
                    found.steps(episode)
            except SbformatError:
                continue


# -- extracted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_extract_writes_arrays_numbers_and_episodes(tmp_path: Path, name: str) -> None:
    dones = flags(6, 2, (1, 0))
    report = extract(sbformat.reads(buffer(dones=dones)), tmp_path / name)
    if name == "o":
        found = {item.stem: np.load(item) for item in (tmp_path / name).iterdir()}
    else:
        found = read_arrays(tmp_path / name)
    assert set(found) == set(report.tensors)
    for key, array in attributes_of(dones=dones).items():
        if isinstance(array, np.ndarray):
            np.testing.assert_array_equal(found[key], array)
    facts = {key: found[key].tolist() for key in ("pos", "full", "buffer_size", "n_envs")}
    assert facts == {"pos": 4, "full": False, "buffer_size": 6, "n_envs": 2}
    rows = [found[f"episode_{key}"] for key in ("env", "start", "length", "end")]
    assert {column.dtype for column in rows} == {np.dtype("int64")}
    assert [tuple(row) for row in np.stack(rows, 1).tolist()] == [(0, 0, 2, 0), (0, 2, 2, 2), (1, 0, 4, 2)]


def test_extracted_metadata_says_what_the_numbers_mean(tmp_path: Path) -> None:
    extract(sbformat.reads(buffer()), tmp_path / "o.safetensors")
    raw = (tmp_path / "o.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    facts = json.loads(header["__metadata__"]["sbformat"])["replay_buffer"]
    assert facts["class"] == f"{BUFFERS}.ReplayBuffer"
    assert facts["episode_end"] == list(ENDS)
    assert (facts["pos"], facts["full"]) == (4, False)


def test_a_glob_selects_of_all(tmp_path: Path) -> None:
    assert extract(sbformat.reads(buffer()), tmp_path / "a.npz", tensors="episode_*").tensors == (
        "episode_env", "episode_start", "episode_length", "episode_end",
    )  # fmt: skip
    names = extract(sbformat.reads(buffer()), tmp_path / "b.npz", tensors="re*", entry="all").tensors
    assert names == ("replay_buffer:rewards",)


def test_of_a_users_own_layout_the_arrays_are_extracted(tmp_path: Path) -> None:
    odd = {"dones": np.zeros(3, "f4")}
    with pytest.raises(TensorError, match="dones"):
        extract(sbformat.reads(buffer(**odd)), tmp_path / "o.npz")
    report = extract(sbformat.reads(buffer(module="mine", name="Mine", **odd)), tmp_path / "o.npz")
    assert "dones" in report.tensors
    assert "pos" not in report.tensors


def test_arrays_of_a_users_own_have_the_names_that_they_have(tmp_path: Path) -> None:
    data = buffer(module="mine", name="Mine", episode_env=np.ones(3))
    extract(sbformat.reads(data), tmp_path / "o.npz")
    assert read_arrays(tmp_path / "o.npz")["episode_env"].tolist() == [1, 1, 1]


# -- real ones ----------------------------------------------------------------------------------------

REAL: Final = sorted(glob.glob(os.path.join(GENERATED, "*", "replaybuffer*.pkl")))


@pytest.mark.parametrize("path", REAL, ids=[os.path.relpath(path, GENERATED) for path in REAL])
def test_buffers_of_every_release_are_read(path: str, tmp_path: Path) -> None:
    found = read_replay_buffer(path)
    assert found.is_known
    assert scan(path).verdict == "clean"
    expected_path = path.removesuffix(".pkl") + ".expected.json"
    if os.path.exists(expected_path):
        with open(expected_path, encoding="utf-8") as file:
            check_expected(found, json.load(file))
        DECODED["buffers equal to what was expected"] += 1
    episodes = found.episodes()
    assert sum(episode.length for episode in episodes) == found.size() * found.n_envs
    rewards = np.concatenate([found.steps(episode)["rewards"] for episode in episodes])
    np.testing.assert_array_equal(rewards, found.arrays["rewards"][: found.size()].T.reshape(-1))
    check_continuity(found, episodes)
    report = extract(sbformat.read(path), tmp_path / "o.npz")
    assert set(found.arrays) < set(report.tensors)
    DECODED["buffers"] += 1
    DECODED["episodes"] += len(episodes)
    DECODED["arrays"] += len(found.arrays)


def check_expected(found: ReplayBuffer, expected: dict[str, Any]) -> None:
    scalars = {
        key: row["value"]
        for key, row in expected.items()
        if row.get("type", "").startswith("builtins.") and "value" in row
    }
    assert {"pos", "full", "buffer_size", "n_envs"} <= set(scalars)
    for key, value in scalars.items():
        assert getattr(found, key, value) == value
    for key, row in expected.items():
        if row.get("type") == "numpy.ndarray":
            assert found.arrays[key].reshape(-1).tolist() == row["values"]
    space = expected["observation_space"]
    assert isinstance(found.observation_space, Box)
    assert found.observation_space.low.to_numpy().tolist() == space["low"]["values"]


def check_continuity(found: ReplayBuffer, episodes: list[Episode]) -> None:
    """Within an episode, the next observation of a step is the observation of the next."""
    for episode in episodes:
        steps = found.steps(episode)
        for name in [name for name in steps if name.startswith("observations")]:
            np.testing.assert_array_equal(steps[f"next_{name}"][:-1], steps[name][1:])
