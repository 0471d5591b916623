"""Files that are one pickle: what they are told to be, how they lie in the shape of an archive, and what is refused."""

from __future__ import annotations

import contextlib
import pickle
from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.formats.pickled import PickledArchive
from sbformat.formats.sb2 import Sb2Pickle
from sbformat.known.types import Instance
from sbformat.pkl import Call, Dict, Global, Node, Update
from sbformat.tools.convert import convert
from sbformat.tools.diff import diff
from sbformat.tools.inspect import inspect
from tests.helpers.build_blobs import tree
from tests.helpers.many_cases import check_each

VEC: Final = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
RMS: Final = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
BUFFER: Final = ("stable_baselines3.common.buffers", "ReplayBuffer")


def instance(pair: tuple[str, str], attributes: dict[str, Any]) -> Call:
    """An object that is nothing but its attributes, as pickle writes it."""
    made = Call("NEWOBJ", Global(*pair), ())
    made.updates = [Update("BUILD", made, Dict([(key, part(value)) for key, value in attributes.items()]))]
    return made


def part(value: Any) -> Any:
    """A tree, of arrays as numpy's pickles have them."""
    if isinstance(value, (np.ndarray, np.generic)):
        return pkl.loads(pickle.dumps(value, 4))
    if isinstance(value, OrderedDict):
        made = Call("REDUCE", Global("collections", "OrderedDict"), ())
        made.updates = [Update("SETITEMS", made, [(key, part(item)) for key, item in value.items()])]
        return made
    if isinstance(value, dict):
        return Dict([(key, part(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return type(value)(map(part, value))
    return value if isinstance(value, Node) else tree(value)


def read(value: Any, protocol: Any = 4) -> Any:
    return sbformat.reads(pkl.dumps(part(value), protocol=protocol))


def statistics(mean: Any = (0.5, 1.5), **others: Any) -> Call:
    mean = np.asarray(mean)
    return instance(RMS, {"mean": mean, "var": np.ones(mean.shape), "count": 10.5, **others})


def vecnormalize(**others: Any) -> Call:
    return instance(VEC, {"obs_rms": statistics(), "ret_rms": statistics(0.25), "clip_obs": 10.0, **others})


WEIGHTS: Final = [np.ones((2, 3), "f4"), np.zeros(3, "f4")]


# -- what it is ---------------------------------------------------------------------------------------

KINDS: Final = {
    "sb2 list": (({"gamma": 0.9}, WEIGHTS), "sb2-pickle"),
    "sb2 by name": (({}, OrderedDict(a=WEIGHTS[0])), "sb2-pickle"),
    "vecnormalize": (vecnormalize(), "vecnormalize"),
    "vecnormalize of sb2": (
        instance(("stable_baselines.common.vec_env.vec_normalize", "VecNormalize"), {"obs_rms": None}), "vecnormalize",
    ),
    "statistics": (statistics(), "running-mean-std"),
    "buffer": (instance(BUFFER, {"pos": 3}), "replay-buffer"),
    "a class of the author's": (
        instance(("agent", "Normalize"), {"obs_rms": statistics(), "ret_rms": None, "clip_obs": 1.0}), "vecnormalize",
    ),
    "a buffer of the author's": (
        instance(
            ("agent", "Memory"),
            {"observations": WEIGHTS[0], "actions": WEIGHTS[0], "rewards": WEIGHTS[1], "pos": 1, "full": False},
        ),
        "replay-buffer",
    ),
}  # fmt: skip


@check_each("name", KINDS)
@check_each("protocol", [2, 4, 5])
def test_a_pickle_is_told_by_its_root(name: str, protocol: int) -> None:
    value, kind = KINDS[name]
    archive = read(value, protocol)
    assert archive.format == kind
    assert isinstance(archive, PickledArchive)


def test_protocols_below_two_spell_objects_as_a_call() -> None:
    made = Call("REDUCE", Global("copyreg", "_reconstructor"), (Global(*RMS), Global("builtins", "object"), None))
    made.updates = statistics().updates
    archive = sbformat.reads(pkl.dumps(made, protocol=2))
    assert archive.format == "running-mean-std"
    np.testing.assert_array_equal(archive.parameters["statistics"]["mean"], [0.5, 1.5])


@check_each(
    "value",
    [
        None, [], {}, ({},), ([], []), "text", (1, 2), Global("os", "system"),
        Call("REDUCE", Global("os", "system"), ("id",)),
        instance(("agent", "Unknown"), {"observations": 1}),
        Call("NEWOBJ", Global(*VEC), (1,)),
    ],
)  # fmt: skip
def test_other_pickles_are_refused_in_one_sentence(value: Any) -> None:
    with pytest.raises(sbformat.UnsupportedError, match="neither statistics of VecNormalize") as caught:
        read(value)
    assert "\n" not in str(caught.value)


# -- statistics and buffers ---------------------------------------------------------------------------


def test_arrays_are_a_state_dict_and_the_rest_is_data() -> None:
    archive = read(
        vecnormalize(
            norm_obs=True, norm_obs_keys=["a"], old_obs=WEIGHTS[0], obs_spaces={"a": Global("builtins", "Ellipsis")}
        )
    )
    assert list(archive.parameters) == ["statistics"]
    found = archive.parameters["statistics"].to_numpy()
    np.testing.assert_array_equal(found["obs_rms"]["mean"], [0.5, 1.5])
    assert found["ret_rms"]["mean"].shape == ()
    assert found["ret_rms"]["count"] == 10.5
    np.testing.assert_array_equal(found["old_obs"], WEIGHTS[0])
    assert {key: archive.data[key] for key in ("clip_obs", "norm_obs", "norm_obs_keys")} == {
        "clip_obs": 10.0, "norm_obs": True, "norm_obs_keys": ["a"],
    }  # fmt: skip
    assert type(archive.data["obs_spaces"]) is Serialized
    assert archive.decode("obs_spaces") == {"a": Ellipsis}
    assert archive.algorithm.name is None
    assert inspect(archive).algorithm is None
    assert type(archive.value) is Instance


def test_statistics_by_key_stay_by_key() -> None:
    rms = {"vec": statistics(), "goal": statistics([1.0])}
    for made in (rms, OrderedDict(rms)):
        found = read(vecnormalize(obs_rms=made)).parameters["statistics"].to_numpy()["obs_rms"]
        assert {key: part["mean"].shape for key, part in found.items()} == {"vec": (2,), "goal": (1,)}


def test_numbers_of_numpy_are_numbers() -> None:
    numbers = {"a": np.float32(0.5), "b": np.int64(-3), "c": np.bool_(1), "d": np.float64("nan"), "e": np.uint8(200)}
    data = read(({**numbers}, [])).data
    assert (data["a"], data["b"], data["c"], data["e"]) == (0.5, -3, True, 200)
    assert data["d"] != data["d"]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (statistics(count=None), sbformat.TensorError, "count"),
        (statistics(count=[1]), sbformat.TensorError, "count"),
        (statistics(mean=np.array(["x"])), sbformat.UnsupportedError, "dtype"),
        (instance(RMS, {}), sbformat.TensorError, "expected mean, var and count"),
        (instance(BUFFER, {"observations": np.zeros((1,) * 33)}), sbformat.LimitError, "tensor_rank"),
    ],
)
def test_statistics_that_are_none_are_refused(value: Any, error: type[Exception], words: str) -> None:
    archive = read(value)
    with pytest.raises(error, match=words):
        archive.parameters[archive.state_dicts[0]]


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(sbformat.PickleError, match="distinct texts"):
        read(({1: 2}, [])).data  # noqa: B018
    with pytest.raises(sbformat.PickleError, match="distinct texts"):
        read((Dict([("a", 1), ("a", 2)]), [])).data  # noqa: B018


def test_nothing_is_written() -> None:
    archive = read(vecnormalize())
    for act in (
        lambda: sbformat.writes(archive),
        lambda: archive.replace(data={}),
        lambda: convert(archive, "out.zip"),
    ):
        with pytest.raises(sbformat.UnsupportedError, match="vecnormalize"):
            act()


# -- agents of Stable Baselines 2 ---------------------------------------------------------------------


def test_parameters_by_name_keep_their_names_and_order() -> None:
    archive = read(({"gamma": 0.9}, OrderedDict({"model/b:0": WEIGHTS[1], "model/a:0": WEIGHTS[0]})))
    assert type(archive) is Sb2Pickle
    assert list(archive.parameters["parameters"]) == ["model/b:0", "model/a:0"]
    assert archive.notes == ()


def test_a_list_that_nothing_names_is_named_by_position() -> None:
    archive = read(({"gamma": 0.9}, [*WEIGHTS, np.float32(2.0)]))
    found = archive.parameters["parameters"].to_numpy()
    assert list(found) == ["0", "1", "2"]
    assert found["2"].shape == ()
    (note,) = archive.notes
    assert note.startswith("names of parameters: ")
    assert inspect(archive).notes == (note,)


@check_each("params", [None, {1: WEIGHTS[0]}, [None], [[1.0]], "ab", {"a": 1}, [np.array([None])], [np.array(["x"])]])
def test_parameters_that_are_no_arrays_are_refused(params: Any) -> None:
    archive = read(({"gamma": 0.9}, params))
    assert archive.data == {"gamma": 0.9}
    with pytest.raises((sbformat.TensorError, sbformat.UnsupportedError)):
        archive.parameters["parameters"]
    report = inspect(archive)
    assert [row.entry for row in report.broken] == ["parameters"]


def test_a_function_keeps_the_state_that_a_setter_gives_it() -> None:
    """cloudpickle since 1.6 gives a function its closure by a call whose result is dropped."""
    cloudpickle = pytest.importorskip("cloudpickle")

    def constant(value: float) -> Any:
        return lambda _: value

    archive = sbformat.reads(cloudpickle.dumps(({"cliprange": constant(0.25), "gamma": 0.9}, [])))
    function = archive.decode("cliprange")
    assert function.closure == {"value": 0.25}
    assert cloudpickle.loads(archive.data["cliprange"].pickle)(None) == 0.25


def test_two_pickles_differ_in_what_differs() -> None:
    old, new = (read(({"gamma": gamma}, [WEIGHTS[0] * gamma])) for gamma in (0.9, 0.8))
    assert [(change.entry, change.loc) for change in diff(old, new).changes] == [
        ("data", "/gamma"), ("parameters", "0"),
    ]  # fmt: skip
    assert old != new
    assert old == read(({"gamma": 0.9}, [WEIGHTS[0] * 0.9]))


# -- hostile ------------------------------------------------------------------------------------------


def test_sharing_does_not_multiply() -> None:
    """A part that every key holds is written out for each of them: no more than the limits allow."""
    limits = sbformat.Limits(pickle_nodes=10_000)
    shared: Any = Dict([(Global("agent", f"name{index}"), index) for index in range(80)])
    made = Dict([(f"key{index}", shared) for index in range(80)])
    with pytest.raises(sbformat.LimitError, match="pickle_nodes"):
        sbformat.reads(pkl.dumps((made, [])), limits=limits).data  # noqa: B018
    doubled: Any = [1]
    for _ in range(30):
        doubled = [doubled, doubled]
    with pytest.raises(sbformat.LimitError, match="pickle_nodes"):
        sbformat.reads(pkl.dumps((Dict([("a", doubled)]), [])), limits=limits).data  # noqa: B018


def test_what_unpicklers_could_read_otherwise_is_refused() -> None:
    """A state that is changed after it was given, values that are left behind, an object given two states or none."""
    loop: list[Any] = []
    loop.append(loop)
    late = b"\x80\x04(}\x94]\x94t\x94\x30h\x00\x8c\x01aK\x01sh\x02."
    for raw in (pkl.dumps((Dict([("a", loop)]), [])), b"\x80\x04N" + pkl.dumps(part(({}, [])))[2:], late):
        with pytest.raises(sbformat.PickleError, match="no pickler of plain data writes that"):
            sbformat.reads(raw)
    for updates in ([], [{"clip_obs": 1}, {"clip_obs": 2}], [None], [({}, {})]):
        made = Call("NEWOBJ", Global(*VEC), ())
        made.updates = [Update("BUILD", made, part(state)) for state in updates]
        with pytest.raises(sbformat.UnsupportedError, match="neither statistics"):
            sbformat.reads(pkl.dumps(made))
    for args in (
        (Global(*RMS), Global("builtins", "dict"), None),
        (Global(*RMS),),
        (Global(*RMS), Global("a", "b"), 1),
    ):
        made = Call("REDUCE", Global("copyreg", "_reconstructor"), args)
        made.updates = statistics().updates
        with pytest.raises(sbformat.UnsupportedError, match="neither statistics"):
            sbformat.reads(pkl.dumps(made, protocol=2))


def test_text_and_arrays_that_are_shared_do_not_multiply() -> None:
    text = "x" * 200_000
    shared = Dict([("a", [text] * 2000)])
    with pytest.raises(sbformat.LimitError, match="json_bytes"):
        sbformat.reads(pkl.dumps((shared, []))).data  # noqa: B018
    array = part(np.zeros(100_000, "f4"))
    archive = sbformat.reads(pkl.dumps((Dict(), [array] * 2000)))
    with pytest.raises(sbformat.LimitError, match="expanded_items"):
        archive.parameters["parameters"]
    twice = sbformat.reads(pkl.dumps((Dict(), [array] * 2))).parameters["parameters"]
    assert twice.info("0").storage is twice.info("1").storage


def test_two_spellings_of_one_file_are_equal_however_often_they_are_asked() -> None:
    import pickletools

    raw = pkl.dumps(vecnormalize(norm_obs=True))
    one, other = sbformat.reads(raw), sbformat.reads(pickletools.optimize(raw))
    assert [one == other for _ in range(3)] == [True, True, True]
    assert one.extra == {}
    assert inspect(one).extra == ()


def test_every_cut_and_flip_is_the_same_or_one_error() -> None:
    """One flipped byte of a pickle, which nothing checks, may be another value; it is never another exception."""
    for value in (vecnormalize(norm_obs=True), ({"gamma": 0.9, "f": Global("a", "b")}, WEIGHTS)):
        raw = pkl.dumps(part(value))
        for at in range(len(raw)):
            for data in (raw[:at], raw[:at] + bytes([raw[at] ^ 0x80]) + raw[at + 1 :]):
                with contextlib.suppress(sbformat.SbformatError):
                    archive = sbformat.reads(data)
                    archive.hyperparameters()
                    archive.parameters[archive.state_dicts[0]].to_numpy()
