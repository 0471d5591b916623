"""Normalisation statistics: what is read of them, that they normalise as SB3 does, and how they are written."""

from __future__ import annotations

import copy
import glob
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from sbformat import (
    LimitError,
    Limits,
    MissingEntryError,
    PickleError,
    RunningMeanStd,
    SbformatError,
    TensorError,
    UnsupportedError,
    VecNormalize,
    read_vecnormalize,
    rebuild_vecnormalize,
    write_vecnormalize,
    writes_vecnormalize,
)
from sbformat.known.spaces import Box, DictSpace, Discrete, TupleSpace
from sbformat.pkl import Call, Global, Persistent
from sbformat.values.render import render_json
from tests.helpers.build_blobs import array, box, call, discrete, dtype, new
from tests.helpers.build_statistics import (
    ABSENT,
    MEAN,
    SB2,
    SB3,
    VAR,
    floats,
    pickled,
    returns,
    rms,
    scalar,
    vectors,
    whole,
    with_keys,
)
from tests.helpers.bundled import PPO
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.shared_files import CORPUS, GENERATED, SHARED, summarize_counts

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_vecnormalize.py read")

STATISTICS: Final = RunningMeanStd(np.array(MEAN), np.array(VAR), 100.0001)
RETURNS: Final = RunningMeanStd(np.array(2.0), np.array(9.0), 100.0001)


def read(value: Any, **more: Any) -> VecNormalize:
    return read_vecnormalize(value if isinstance(value, bytes) else pickled(value), **more)


def simple(**changes: Any) -> VecNormalize:
    """A value without spaces."""
    return VecNormalize(**{"obs_rms": STATISTICS, "ret_rms": RETURNS, **changes})


# -- what is read -------------------------------------------------------------------------------------


def test_a_file_of_sb3_is_read_whole() -> None:
    value = read(whole())
    assert value.obs_rms == STATISTICS
    assert value.ret_rms == RETURNS
    assert (value.clip_obs, value.clip_reward, value.gamma, value.epsilon) == (5.0, 10.0, 0.99, 1e-8)
    assert (value.training, value.norm_obs, value.norm_reward, value.num_envs) == (True, True, True, 1)
    assert value.library == "stable_baselines3"
    assert value.norm_obs_keys is None
    assert isinstance(value.observation_space, Box)
    assert isinstance(value.action_space, Discrete)
    assert value.old_obs.tolist() == [[1.0, 2.0, 3.0]]
    assert value.old_reward.tolist() == [1.5]
    assert value.old_obs.dtype == np.float32


def test_a_dict_space_has_statistics_by_key() -> None:
    value = read(with_keys())
    assert list(value.obs_rms) == ["vector"]
    assert value.norm_obs_keys == ("vector",)
    assert isinstance(value.observation_space, DictSpace)
    assert {key: part.dtype.name for key, part in value.old_obs.items()} == {"image": "uint8", "vector": "float32"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"norm_obs_keys": ["vector"], "obs_keys": {"image", "vector"}}, ("vector",)),
        ({"norm_obs_keys": []}, ()),
    ],
)
def test_the_keys_of_every_release(changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert read(with_keys(**changes)).norm_obs_keys == expected


def test_a_file_of_sb2_has_other_names() -> None:
    value = read(whole(SB2, old_rews=floats([2.5], "f4"), old_reward=ABSENT, norm_obs_keys=ABSENT))
    assert value.library == "stable_baselines"
    assert value.old_reward.tolist() == [2.5]
    assert value.obs_rms == STATISTICS


def test_numbers_of_numpy_are_numbers() -> None:
    numbers = {"clip_obs": scalar(5, "f4"), "gamma": scalar(0.5), "num_envs": scalar(3, "i8"), "clip_reward": 7}
    truth = call("numpy.core.multiarray", "scalar", dtype("b1", "|"), b"\0")
    value = read(whole(**numbers, training=truth, ret_rms=rms(floats(2), floats(9), scalar(5))))
    assert (value.clip_obs, value.gamma, value.num_envs, value.clip_reward) == (5.0, 0.5, 3, 7.0)
    assert value.training is False
    assert value.ret_rms == RunningMeanStd(np.array(2.0), np.array(9.0), 5.0)
    assert {type(value.clip_obs), type(value.clip_reward)} == {float}


def test_what_is_not_normalised_needs_no_statistics() -> None:
    value = read(whole(norm_obs=False, obs_rms=ABSENT, norm_reward=False, ret_rms=ABSENT, num_envs=ABSENT))
    assert (value.obs_rms, value.ret_rms, value.num_envs) == (None, None, None)


def test_odd_variances_are_kept() -> None:
    value = read(whole(obs_rms=rms(var=(-1.0, float("nan"), float("inf")))))
    assert np.array_equal(value.obs_rms.var, [-1.0, np.nan, np.inf], equal_nan=True)
    assert np.isnan(value.normalize_obs(np.zeros(3))).tolist() == [True, True, False]


def test_spaces_lose_their_random_generators_and_order() -> None:
    random = call("numpy.random", "__RandomState_ctor")
    plain = read(whole())
    low = array((3,), np.array([-1, -2, -np.inf], ">f4").tobytes(), "f4", ">", is_fortran=True)
    space = vectors([-1, -2, -np.inf], [1, 2, np.inf])
    held = dict(space.updates[0].value) | {"low": low}
    space = new("gymnasium.spaces.box", "Box", held)
    assert read(whole(observation_space=space)).observation_space == plain.observation_space
    assert plain.action_space == read(whole(action_space=discrete(2, _np_random=None))).action_space
    assert read(whole(action_space=random)).action_space is None
    assert read(whole(observation_space=new("mine", "Space", {}))).observation_space is None


def test_a_space_is_nested_no_deeper_than_any_is() -> None:
    def nested(depth: int) -> Any:
        space = discrete(2)
        for _ in range(depth):
            space = new("gymnasium.spaces.tuple", "Tuple", {"spaces": (space,)})
        return whole(action_space=space)

    assert read(nested(19)).action_space is not None
    deep = Limits(value_depth=5000)
    with pytest.raises(UnsupportedError, match="more than 20 levels"):
        read(nested(20), limits=deep)
    with pytest.raises(SbformatError, match="deep|value_depth|levels"):
        read(nested(150), limits=deep)


def test_a_shared_space_counts_at_its_lowest_level() -> None:
    """A space may occur at several levels: only the lowest of them decides, wherever it is found first."""

    def wrapped(space: Any, levels: int) -> Any:
        for _ in range(levels):
            space = TupleSpace("gym", (space,), None)
        return space

    shared = wrapped(Discrete("gym", 2, 0, "<i8", None), 9)
    for inner in (10, 11):
        low = wrapped(shared, inner - 1)
        for pair in ((shared, low), (low, shared)):
            space = TupleSpace("gym", pair, None)
            if inner == 10:
                assert VecNormalize(norm_obs=False, norm_reward=False, action_space=space).action_space is space
                continue
            with pytest.raises(UnsupportedError, match="more than 20 levels"):
                VecNormalize(norm_obs=False, norm_reward=False, action_space=space)


def test_an_observation_that_is_no_array_is_left_out() -> None:
    for odd in ((floats([1]),), {"a": None}, {1: floats([1])}, "text", 3):
        assert read(whole(old_obs=odd)).old_obs is None


@pytest.mark.parametrize("protocol", [2, 4])
def test_every_protocol(protocol: int) -> None:
    assert read(pickled(whole(), protocol)) == read(whole())


# -- SB2's two files, folders, other sources ----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tree", "is_of_returns"),
    [
        ("obs_rms.pkl", rms(library=SB2), False),
        ("ret_rms.pkl", returns(SB2), True),
        ("some.pkl", rms(library=SB2), False),
        ("some.pkl", returns(SB2), True),
        ("my_obs_rms_2.pkl", returns(SB2), False),
        ("some.pkl", rms(), False),
    ],
)  # fmt: skip
def test_a_lone_file_is_told_by_its_name_and_shape(tmp_path: Any, name: str, tree: Any, is_of_returns: Any) -> None:
    path = tmp_path / name
    path.write_bytes(pickled(tree))
    value = read_vecnormalize(path)
    assert (value.obs_rms is None, value.norm_obs) == (is_of_returns, not is_of_returns)
    assert (value.ret_rms is None, value.norm_reward) == (not is_of_returns, is_of_returns)
    assert (value.clip_obs, value.clip_reward, value.gamma, value.epsilon) == (10.0, 10.0, 0.99, 1e-8)


def test_returns_with_dimensions_are_refused(tmp_path: Any) -> None:
    (tmp_path / "ret_rms.pkl").write_bytes(pickled(rms(library=SB2)))
    with pytest.raises(TensorError, match="statistics of returns of shape"):
        read_vecnormalize(tmp_path / "ret_rms.pkl")
    with pytest.raises(TensorError, match=r"^ret_rms\.pkl: "):
        read_vecnormalize(tmp_path)


def test_a_folder_of_sb2(tmp_path: Any) -> None:
    with pytest.raises(MissingEntryError, match="no file"):
        read_vecnormalize(tmp_path)
    (tmp_path / "obs_rms.pkl").write_bytes(pickled(rms(library=SB2)))
    assert read_vecnormalize(tmp_path).ret_rms is None
    (tmp_path / "ret_rms.pkl").write_bytes(pickled(returns(SB2)))
    value = read_vecnormalize(str(tmp_path))
    assert (value.obs_rms, value.ret_rms, value.library) == (STATISTICS, RETURNS, "stable_baselines")
    (tmp_path / "ret_rms.pkl").write_bytes(pickled(returns()))
    with pytest.raises(UnsupportedError, match="expected files of one library"):
        read_vecnormalize(tmp_path)
    (tmp_path / "vecnormalize.pkl").write_bytes(pickled(whole()))
    assert read_vecnormalize(tmp_path).clip_obs == 5.0
    (tmp_path / "vecnormalize.pkl").write_bytes(pickled(returns()))
    with pytest.raises(UnsupportedError, match="expected the pickle that the file is named for"):
        read_vecnormalize(tmp_path)


def test_bytes_files_and_paths_are_sources(tmp_path: Any) -> None:
    data = pickled(whole())
    path = tmp_path / "v.pkl"
    path.write_bytes(data)
    value = read(data)
    with path.open("rb") as file:
        for source in (path, str(path), bytearray(data), memoryview(data), io.BytesIO(data), file):
            assert read_vecnormalize(source) == value
    with pytest.raises(FileNotFoundError):
        read_vecnormalize(tmp_path / "none.pkl")


@check_each(
    ("content", "error"),
    [
        (b"", SbformatError),
        (b"text", SbformatError),
        (b"{}", UnsupportedError),
        (pickle.dumps([1]), UnsupportedError),
        (pickled(new("mine", "VecNormalize", {})), UnsupportedError),
        (pickled(new(f"{SB3}.vec_env.vec_normalize", "VecNormalize", {"mine": 1})), UnsupportedError),
        (pickled(Call("REDUCE", Global("os", "system"), ("true",))), UnsupportedError),
        (pickled(whole()) + b"x", PickleError),
        (PPO.read_bytes(), MissingEntryError),
    ],
)
def test_anything_else_is_refused(content: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_vecnormalize(content)


# -- what does not fit --------------------------------------------------------------------------------

UNFIT: Final[list[tuple[Any, type[Exception], str]]] = [
    (
        whole(obs_rms=rms(var=(1.0, 2.0))),
        TensorError,
        r"obs_rms: expected mean and variance of one shape, got \(3,\) and \(2,\)",
    ),
    (whole(obs_rms=rms(mean=floats(MEAN, "f4"))), TensorError, "expected an array of float64 as obs_rms.mean"),
    (whole(obs_rms=rms(var=(1.0, 2.0), mean=(1.0, 2.0))), TensorError, r"shape \(3,\), that of the space, got \(2,\)"),
    (whole(obs_rms=rms(count="many")), TensorError, "expected a number as obs_rms.count"),
    (whole(obs_rms=rms(count=True)), TensorError, "expected a number as obs_rms.count"),
    (whole(obs_rms=3), TensorError, "expected a RunningMeanStd as obs_rms"),
    (whole(obs_rms=[rms()]), TensorError, "expected a RunningMeanStd as obs_rms"),
    (whole(obs_rms={"a": rms()}), TensorError, "expected norm_obs_keys, since"),
    (whole(obs_rms={"a": rms()}, norm_obs_keys=["a"]), TensorError, "expected a Dict"),
    (with_keys(norm_obs_keys=ABSENT), TensorError, "the statistics and the space have different keys"),
    (whole(old_rews=floats([1])), TensorError, "one of old_reward and old_rews"),
    (whole(obs_rms={1: rms()}), TensorError, "expected text as the keys of obs_rms"),
    (whole(obs_rms={"a": None}), TensorError, "expected a RunningMeanStd as obs_rms of 'a'"),
    (whole(obs_rms=None), MissingEntryError, "'obs_rms'"),
    (whole(obs_rms=new(f"{SB3}.running_mean_std", "RunningMeanStd", {"mean": 1.0})), MissingEntryError, "'var'"),
    (whole(ret_rms=ABSENT), MissingEntryError, "'ret_rms'"),
    (whole(ret_rms=rms()), TensorError, "statistics of returns of shape"),
    (whole(clip_obs=ABSENT), MissingEntryError, "'clip_obs'"),
    (whole(clip_obs="5"), TensorError, "expected a number as clip_obs"),
    (whole(clip_obs=False), TensorError, "expected a number as clip_obs"),
    (whole(clip_obs=10**400), TensorError, "expected a number as clip_obs"),
    (whole(epsilon=floats([1, 2])), TensorError, "expected a number as epsilon"),
    (whole(training=1), TensorError, "expected a bool as training"),
    (whole(norm_obs="yes"), TensorError, "expected a bool as norm_obs"),
    (whole(num_envs=0), UnsupportedError, "num_envs"),
    (whole(num_envs=2**40), UnsupportedError, "num_envs"),
    (whole(num_envs=2**60), UnsupportedError, "num_envs"),
    (whole(num_envs=1.0), TensorError, "expected an integer as num_envs"),
    (whole(num_envs=1.5), TensorError, "num_envs"),
    (whole(num_envs=float("nan")), TensorError, "num_envs"),
    (whole(norm_obs_keys=["a"]), UnsupportedError, "norm_obs_keys"),
    (with_keys(norm_obs_keys=["image"]), MissingEntryError, "'image'"),
    (with_keys(norm_obs_keys=[1]), TensorError, "expected text as norm_obs_keys"),
    (with_keys(norm_obs_keys="vector"), TensorError, "expected text as norm_obs_keys"),
    (with_keys(obs_rms={"other": rms()}), MissingEntryError, "'other'"),
    (with_keys(obs_rms={"vector": rms()}), TensorError, r"of 'vector' of shape \(2,\), that of the space, got \(3,\)"),
    (with_keys(obs_rms=rms()), UnsupportedError, "norm_obs_keys"),
    (rms(var=(1.0,)), TensorError, "shape"),
]


@check_each(("tree", "error", "message"), UNFIT)
def test_what_does_not_fit_is_refused(tree: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(tree)


@pytest.mark.parametrize("step", with_exhaustive([17], [1]))
def test_no_attribute_of_any_kind_gives_another_exception(step: int) -> None:
    """An attribute of any other type is refused, or passed over; each is given one in so many of the values."""
    odd = [
        None, True, 0, -1, 2**70, 1.5, float("nan"), "text", b"bytes", [], (), {}, {"a": 1}, {1, 2}, [[]], floats([]),
        floats([1.5], "f2"), array((0, 2**61), b"", "f8"), array((2,), b"ab", "S1"), scalar(1, "f4"), rms(), whole(),
        discrete(3), call("mine", "Mine"), Global("mine", "Mine"), Global("builtins", "list"), Persistent("x"),
    ]  # fmt: skip
    names = ["num_envs", "observation_space", "action_space", "norm_obs", "norm_obs_keys", "obs_rms", "ret_rms",
             "clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_reward", "old_reward", "old_obs",
             "obs_keys", "obs_spaces", "old_rews", "reset_infos", "_seeds", "metadata", "mine"]  # fmt: skip
    for at, name in enumerate(names):
        for number, value in list(enumerate(odd))[at % step :: step]:
            try:
                read(writes_vecnormalize(read((whole, with_keys)[number % 2](**{name: value}))))
            except SbformatError:
                continue
    for at, name in enumerate(("mean", "var", "count")):
        for value in odd[at :: min(step, 3)]:
            state = {"mean": floats(MEAN), "var": floats(VAR), "count": 1.0, name: value}
            try:
                read(new(f"{SB3}.running_mean_std", "RunningMeanStd", state))
            except SbformatError:
                continue


@pytest.mark.parametrize("step", with_exhaustive([4], [1]))
def test_every_cut_and_flip_is_refused_or_read(step: int) -> None:
    data = pickled(whole(observation_space=ABSENT, action_space=ABSENT, old_obs=ABSENT, old_reward=ABSENT))
    expected = read(data)
    for size in range(len(data)):
        with pytest.raises(SbformatError):
            read(data[:size])
    changed = 0
    for place in range(len(data)):
        for bits in (0x01, 0x80, 0xFF)[place % step :: step]:
            flipped = bytearray(data)
            flipped[place] ^= bits
            try:
                changed += read(bytes(flipped)) != expected
            except SbformatError:
                continue
    assert changed  # a pickle has no checksum: numbers differ


def test_limits_hold() -> None:
    with pytest.raises(LimitError):
        read(whole(), limits=Limits(pickle_opcodes=10))
    with pytest.raises(LimitError):
        read(whole(), limits=Limits(pickle_bytes=10))


# -- values -------------------------------------------------------------------------------------------


def test_values_are_frozen_and_equal_by_value() -> None:
    value, same = read(whole()), read(whole())
    assert value == same
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert value != replace(value, gamma=0.5)
    assert value != replace(value, obs_rms=replace(STATISTICS, count=1.0))
    assert value != 3
    assert RunningMeanStd(np.array(MEAN), -np.array(VAR), 100.0001) != STATISTICS
    assert RunningMeanStd(np.zeros(1), np.zeros(1), 1) != RunningMeanStd(-np.zeros(1), np.zeros(1), 1)
    assert simple(gamma=float("nan")) == simple(gamma=float("nan"))
    with pytest.raises(AttributeError):
        value.gamma = 0.5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        value.obs_rms.mean[0] = 1  # type: ignore[union-attr,index]
    with pytest.raises(TypeError):
        hash(value)
    assert repr(value).startswith("<VecNormalize of stable_baselines3: obs_rms=<RunningMeanStd (3,) of 100.0001>")
    assert "obs_rms={vector}" in repr(read(with_keys()))


def test_a_value_keeps_arrays_of_its_own() -> None:
    mean = np.zeros(3, np.float32)
    made = RunningMeanStd(mean, [1, 2, 3], 5)  # type: ignore[arg-type]
    mean += 1
    assert made.mean.tolist() == [0, 0, 0]
    assert (made.mean.dtype, made.var.dtype, type(made.count)) == (np.float64, np.float64, float)
    obs = np.zeros(3)
    value = simple(old_obs=obs, old_reward=np.zeros(1), norm_obs_keys=None)
    obs += 1
    assert value.old_obs.tolist() == [0, 0, 0]
    assert simple(obs_rms={"a": STATISTICS}).norm_obs_keys == ("a",)


@check_each(
    ("changes", "error"),
    [
        ({"obs_rms": None}, MissingEntryError),
        ({"ret_rms": None}, MissingEntryError),
        ({"ret_rms": STATISTICS}, TensorError),
        ({"obs_rms": {"a": STATISTICS}, "norm_obs_keys": ("b",)}, MissingEntryError),
        ({"obs_rms": {1: STATISTICS}}, UnsupportedError),
        ({"obs_rms": {"a": None}}, UnsupportedError),
        ({"obs_rms": 3}, UnsupportedError),
        ({"norm_obs_keys": "a"}, UnsupportedError),
        ({"training": 1}, UnsupportedError),
        ({"clip_obs": "a"}, UnsupportedError),
        ({"clip_obs": 10**400}, UnsupportedError),
        ({"library": "mine"}, UnsupportedError),
        ({"num_envs": 0}, UnsupportedError),
        ({"num_envs": True}, UnsupportedError),
        ({"observation_space": 3}, UnsupportedError),
        ({"old_obs": np.array([object()])}, TensorError),
        ({"old_obs": [[1], [1, 2]]}, TensorError),
        ({"old_reward": "text"}, TensorError),
    ],
)
def test_a_value_that_does_not_fit_is_not_made(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        simple(**changes)


@pytest.mark.parametrize(("mean", "var"), [("a", "b"), ([1, 2], [1]), ([[1], [1, 2]], [1]), (1j, 1.0), (None, None)])
def test_statistics_are_numbers_of_one_shape(mean: Any, var: Any) -> None:
    with pytest.raises(TensorError):
        RunningMeanStd(mean, var, 1.0)


def test_importing_it_needs_no_numpy() -> None:
    code = "import sys, sbformat.formats.vecnormalize; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- normalising (17.3) -------------------------------------------------------------------------------


def by_sb3(value: VecNormalize, obs: Any, statistics: RunningMeanStd) -> Any:
    """The formula of SB3's ``_normalize_obs``, with its cast."""
    mean, var = np.array(statistics.mean), np.array(statistics.var)
    with np.errstate(all="ignore"):
        scaled = np.clip((obs - mean) / np.sqrt(var + value.epsilon), -value.clip_obs, value.clip_obs)
        return scaled.astype(np.float32)


def same_bits(one: Any, other: Any) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@check_each("code", ["f8", "f4", "f2", "u1", "i8", "b1"])
@check_each("batch", [(), (1,), (5,), (2, 4)])
def test_observations_are_normalised_as_sb3_does(code: str, batch: tuple[int, ...]) -> None:
    value = simple(clip_obs=1.5)
    obs = np.random.default_rng(0).normal(2, 3, (*batch, 3)).astype(code)
    before = obs.copy()
    assert same_bits(value.normalize_obs(obs), by_sb3(value, obs, STATISTICS))
    back = (obs * np.sqrt(np.array(VAR) + value.epsilon)) + np.array(MEAN)
    assert same_bits(value.unnormalize_obs(obs), back)
    assert same_bits(obs, before)


def test_a_dict_is_normalised_by_key() -> None:
    value = read(with_keys())
    obs = OrderedDict(vector=np.array([[3.0, 0.5]], np.float32), image=np.full((1, 2, 2), 7, np.uint8), other="kept")
    made = value.normalize_obs(obs)
    assert type(made) is OrderedDict
    assert list(made) == list(obs)
    assert same_bits(made["vector"], by_sb3(value, obs["vector"], value.obs_rms["vector"]))
    assert same_bits(made["image"], obs["image"])
    assert made["image"] is not obs["image"]
    assert made["other"] == "kept"
    back = value.unnormalize_obs(made)
    assert np.allclose(back["vector"], obs["vector"])
    assert obs["vector"].tolist() == [[3.0, 0.5]]


def test_without_norm_obs_a_copy_comes_back() -> None:
    value = simple(norm_obs=False, norm_reward=False)
    obs = np.arange(6).reshape(2, 3)
    for made in (value.normalize_obs(obs), value.unnormalize_obs(obs)):
        assert same_bits(made, obs)
        assert made is not obs
    rewards = np.array([1.0, 20.0])
    assert value.normalize_reward(rewards).dtype == np.float32
    assert same_bits(value.unnormalize_reward(rewards), rewards)
    assert value.unnormalize_reward(rewards) is not rewards


@pytest.mark.parametrize("code", ["f8", "f4", "i8"])
def test_rewards_are_normalised_as_sb3_does(code: str) -> None:
    value = simple(clip_reward=2.0)
    rewards = np.array([-100, -1.5, 0, 3, 1000]).astype(code)
    scale = np.sqrt(np.float64(9.0) + 1e-8)
    assert same_bits(value.normalize_reward(rewards), np.clip(rewards / scale, -2.0, 2.0).astype(np.float32))
    assert same_bits(value.unnormalize_reward(rewards), rewards * scale)
    assert value.normalize_reward(3.0) == np.float32(3.0 / scale)


@more_examples(100)
@given(st.data())
def test_what_is_clipped_nowhere_comes_back(data: st.DataObject) -> None:
    """``unnormalize_obs(normalize_obs(x))`` is x, within float32, where nothing was clipped."""
    numbers = st.floats(-5, 5)
    mean, obs = (np.array(data.draw(st.lists(numbers, min_size=3, max_size=3))) for _ in range(2))
    value = simple(obs_rms=RunningMeanStd(mean, np.array([1.0, 0.25, 100.0]), 1.0), clip_obs=1e3)
    assert np.allclose(value.unnormalize_obs(value.normalize_obs(obs)), obs, atol=1e-4)


@check_each(
    ("obs", "message"),
    [
        (np.zeros(2), r"shape that ends with \(3,\), got \(2,\)"),
        (np.zeros((3, 1)), "shape that ends with"),
        (np.zeros(()), "shape that ends with"),
        ({"a": np.zeros(3)}, "expected an array as the observation, as the statistics have it, got a dict"),
        (np.array(["a", "b", "c"]), "expected numbers as"),
        ([[1], [1, 2]], "expected an array as"),
        (None, "expected an array of numbers as"),
        (np.zeros(3, complex), "expected numbers as"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(obs: Any, message: str) -> None:
    for work in (simple().normalize_obs, simple().unnormalize_obs):
        with pytest.raises(TensorError, match=message):
            work(obs)


def test_an_observation_without_a_key_is_refused() -> None:
    value = read(with_keys())
    with pytest.raises(MissingEntryError, match="'vector'"):
        value.normalize_obs({"image": np.zeros((2, 2))})
    with pytest.raises(TensorError, match="expected a dict as the observation"):
        value.normalize_obs(np.zeros(2))
    with pytest.raises(TensorError, match="expected 'vector' of the observation of a shape"):
        value.normalize_obs({"vector": np.zeros(3)})
    with pytest.raises(TensorError, match="the reward"):
        value.normalize_reward("much")


def test_lists_are_observations() -> None:
    assert same_bits(simple().normalize_obs([1.0, 2.0, 3.0]), by_sb3(simple(), np.array([1.0, 2.0, 3.0]), STATISTICS))


# -- writing (17.4) -----------------------------------------------------------------------------------


class Held:
    """Stands in for a class of SB3 or gymnasium: keeps what it is given."""


class Loader(pickle.Unpickler):
    """Python's own unpickler, with stand-ins for everything but numpy."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: list[str] = []

    def find_class(self, module: str, name: str) -> Any:
        self.names.append(f"{module}.{name}")
        if module in ("numpy", "collections"):
            return super().find_class(module, name)
        assert module.split(".", maxsplit=1)[0] in ("stable_baselines3", "gymnasium")
        return type(name, (Held,), {})


@pytest.mark.each_value
@pytest.mark.parametrize("target", ["2.0", "2.1", "2.2", "2.9", "2.9.2"])
@pytest.mark.parametrize("tree", [whole(), whole(SB2), with_keys(), rms(library=SB2), whole(num_envs=3)])
def test_python_loads_what_is_written(tree: Any, target: str) -> None:
    value = read(tree)
    data = writes_vecnormalize(value, target=target)
    assert data == writes_vecnormalize(value, target=target)
    made = Loader(data).load().__dict__
    assert ("_options" in made) == (not target.startswith(("2.0", "2.1")) and value.num_envs is not None)
    if value.num_envs is not None:
        assert made["reset_infos"] == [{}] * value.num_envs
    assert made["norm_obs_keys"] == (None if value.norm_obs_keys is None else list(value.norm_obs_keys))
    held = made["obs_rms"]
    for key, part in value.obs_rms.items() if isinstance(value.obs_rms, dict) else [(None, value.obs_rms)]:
        statistics = held if key is None else held[key]
        assert same_bits(statistics.mean, part.mean)
        assert same_bits(statistics.var, part.var)
        assert statistics.count == part.count
    assert made["ret_rms"].mean.shape == ()
    assert same_bits(np.asarray(made["clip_obs"]), np.asarray(value.clip_obs))
    again = read(data)
    assert again.library == "stable_baselines3"
    assert (again.obs_rms, again.clip_obs, again.norm_reward) == (value.obs_rms, value.clip_obs, value.norm_reward)


def test_what_is_written_reads_back_equal() -> None:
    for tree in (whole(), with_keys()):
        value = read(tree)
        assert read(writes_vecnormalize(value)) == value


def test_parts_of_a_space_stay_one_object() -> None:
    made = Loader(writes_vecnormalize(read(with_keys()))).load().__dict__
    assert made["obs_spaces"]["vector"] is made["observation_space"].spaces["vector"]


def test_many_environments_are_given_no_lists() -> None:
    made = Loader(writes_vecnormalize(simple(num_envs=2**31 - 1))).load().__dict__
    assert made["num_envs"] == 2**31 - 1
    assert "_seeds" not in made
    assert "observation_space" not in made


def test_a_space_that_no_release_has_is_refused() -> None:
    text = new("gymnasium.spaces.text", "Text", {"min_length": 0, "max_length": 3, "_char_list": ("a",)})
    value = read(whole(action_space=text))
    with pytest.raises(UnsupportedError):
        writes_vecnormalize(value)
    with pytest.raises(UnsupportedError, match="is not a target"):
        writes_vecnormalize(simple(), target="1.5")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Any) -> None:
    path = tmp_path / "vecnormalize.pkl"
    write_vecnormalize(read(whole()), path)
    assert path.read_bytes() == writes_vecnormalize(read(whole()))
    with pytest.raises(FileExistsError):
        write_vecnormalize(simple(), path)
    write_vecnormalize(simple(), path, overwrite=True, target="2.0")
    assert read_vecnormalize(path).obs_rms == STATISTICS
    with pytest.raises(UnsupportedError):
        write_vecnormalize(simple(), path, overwrite=True, target="1.0")
    assert os.listdir(tmp_path) == ["vecnormalize.pkl"]


# -- rebuilding ---------------------------------------------------------------------------------------


def actions(tree: Any, **more: Any) -> dict[str | None, str]:
    report = rebuild_vecnormalize(pickled(tree), **more).report
    assert all(row.message or row.action == "kept" for row in report.rows)
    assert (report.algorithm, report.requires) == ("VecNormalize", ())
    return {row.key: row.action for row in report.rows}


def test_every_attribute_is_accounted_for() -> None:
    environment = {"reset_infos": [{}], "_seeds": [None], "metadata": {"render_modes": []}, "render_mode": None}
    found = actions(whole(**environment, obs_spaces=None))
    assert {key for key, action in found.items() if action == "dropped"} == {*environment, "obs_spaces"}
    assert {key for key, action in found.items() if action == "translated"} == set()
    space = new("gymnasium.spaces.dict", "Dict", {"spaces": {"vector": box(*[floats([0, 0], "f4")] * 2, (2,))}})
    old = with_keys(norm_obs_keys=ABSENT, obs_keys={"vector"}, observation_space=space)
    assert actions(old)["obs_keys"] == "translated"
    assert actions(with_keys(obs_keys={"vector"}))["obs_keys"] == "dropped"
    of_gym = box(floats([-1] * 3, "f4"), floats([1] * 3, "f4"), (3,))
    of_gym.func = Global("gym.spaces.box", "Box")
    found = actions(whole(SB2, old_rews=floats([1]), observation_space=of_gym, old_reward=ABSENT))
    assert {key for key, action in found.items() if action == "translated"} == {
        "obs_rms", "ret_rms", "old_rews", "observation_space",
    }  # fmt: skip
    assert actions(whole(old_obs=(1,), observation_space=new("mine", "Space", {})))["observation_space"] == "dropped"


def test_settings_and_spaces_of_the_report_have_values_before_and_now() -> None:
    value, report = rebuild_vecnormalize(pickled(whole(clip_obs=5, norm_reward=False)))
    rows = {row.key: row for row in report.rows}
    assert (rows["clip_obs"].old, rows["clip_obs"].new, rows["clip_obs"].now) == (5, value.clip_obs, "5.0")
    assert (rows["norm_reward"].old, rows["norm_reward"].new) == (False, False)
    assert rows["observation_space"].old["kind"] == "Box"
    assert rows["observation_space"].new == render_json(value.observation_space)
    assert (rows["obs_rms"].old, rows["obs_rms"].new) == (None, None)


def test_a_space_that_not_every_release_has_is_left_out() -> None:
    text = new("gymnasium.spaces.text", "Text", {"min_length": 0, "max_length": 3, "_char_list": ("a",)})
    value, report = rebuild_vecnormalize(pickled(whole(action_space=text)), target="2.3")
    assert value.action_space is None
    assert report.target == "2.3.2"
    assert [row.instead for row in report.rows if row.key == "action_space"] == [
        "the space of the wrapped environment, without a check of shapes"
    ]
    assert read(writes_vecnormalize(value, target="2.3")) == value


def test_statistics_alone_are_rebuilt(tmp_path: Any) -> None:
    (tmp_path / "obs_rms.pkl").write_bytes(pickled(rms(library=SB2)))
    value, report = rebuild_vecnormalize(tmp_path)
    assert value == read_vecnormalize(tmp_path)
    assert {(row.entry, row.key) for row in report.rows} == {
        ("obs_rms.pkl", None), ("obs_rms.pkl", "settings"), ("obs_rms.pkl", "norm_reward"),
        ("obs_rms.pkl", "observation_space"), ("obs_rms.pkl", "action_space"),
    }  # fmt: skip


def test_an_archive_says_how_statistics_are_rebuilt(tmp_path: Any) -> None:
    path = tmp_path / "vecnormalize.pkl"
    path.write_bytes(pickled(whole()))
    with pytest.raises(SbformatError, match="rebuild_vecnormalize"):
        sbformat.rebuild(path)


# -- the corpus ---------------------------------------------------------------------------------------


def corpus() -> list[str]:
    path = os.path.join(CORPUS, "manifest.json")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    return [row["file"] for row in rows if row["kind"] in ("vecnormalize", "sb2rms")]


def digest_of(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        name = hashlib.sha256(file.read()).hexdigest()[:16]
    with open(os.path.join(CORPUS, "expected", f"{name}.json"), encoding="utf-8") as file:
        return dict(json.load(file))


@pytest.mark.parametrize("file", corpus())
def test_every_file_of_the_corpus_is_read(file: str) -> None:
    path = os.path.join(CORPUS, file)
    value = read_vecnormalize(path)
    kind = "of SB3" if value.library == "stable_baselines3" else "of SB2"
    COUNTED[f"{kind} from the corpus"] += 1
    check_round_trip(value)
    if "_rms" in os.path.basename(file):
        check_digests(value, path)


def check_digests(value: VecNormalize, path: str) -> None:
    """The arrays are those that the real unpickler gave."""
    expected = digest_of(path)
    found = value.obs_rms if value.obs_rms is not None else value.ret_rms
    assert isinstance(found, RunningMeanStd)
    for name in ("mean", "var"):
        assert hashlib.sha256(getattr(found, name).tobytes()).hexdigest() == expected[name]
    assert found.count == expected["count"]
    COUNTED["of them with the expected digests"] += 1


def check_round_trip(value: VecNormalize) -> None:
    again = read_vecnormalize(writes_vecnormalize(value))
    assert again.obs_rms == value.obs_rms
    assert again.norm_obs_keys == value.norm_obs_keys
    if value.ret_rms is not None:
        assert again.ret_rms == value.ret_rms


@pytest.mark.parametrize(
    "path",
    sorted(glob.glob(str(GENERATED / "*" / "vecnormalize*.pkl"))),
    ids=lambda path: os.path.relpath(path, SHARED),
)
def test_files_of_every_release_are_what_that_release_says(path: str) -> None:
    value = read_vecnormalize(path)
    with open(path.removesuffix(".pkl") + ".expected.json", encoding="utf-8") as file:
        expected = json.load(file)
    if "obs_mean" in expected:
        expected = {
            "obs_rms": {name: expected[f"obs_{name}"] for name in ("mean", "var", "count")},
            "ret_rms": {name: expected[f"ret_{name}"] for name in ("mean", "var", "count")},
        }
        assert comparable(value.ret_rms) == expected["ret_rms"]
    assert comparable(value.obs_rms) == expected["obs_rms"]
    check_round_trip(value)
    COUNTED["of every release"] += 1


def comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: comparable(part) for key, part in found.items()}
    return {"mean": found.mean.tolist(), "var": found.var.tolist(), "count": found.count}


@pytest.mark.skipif(not (GENERATED / "sb2").is_dir(), reason="there is no ../shared beside the project")
def test_the_two_files_of_sb2_are_one() -> None:
    whole_file = read_vecnormalize(GENERATED / "sb2" / "vecnormalize.pkl")
    for name in ("obs_rms", "ret_rms"):
        assert getattr(read_vecnormalize(GENERATED / "sb2" / f"{name}.pkl"), name) == getattr(whole_file, name)
        COUNTED["of every release"] += 1
