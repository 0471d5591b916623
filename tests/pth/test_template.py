"""New weights for a state dict that is there: all that does not fit is told at once, and what is kept is kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest

from conformance.generators.build_pth import (
    GET_LAYOUT,
    REBUILD_PARAMETER,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_SPARSE,
    Apply,
    floats,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from conformance.generators.build_zips import is_terminal_safe
from sbformat import UnsupportedError, ValidationError, pth
from sbformat.pth import StateDict, clear_optimizer
from sbformat.pth.compare import Mismatch, misfit
from tests.helpers.many_cases import check_each

EIGHT: Final = np.arange(8, dtype="<f4").tobytes()


def template(**arrays: Any) -> StateDict:
    """A decoded state dict of arrays, as of the entry ``policy.pth``."""
    return pth.loads(pth.dumps(StateDict.from_arrays(OrderedDict(arrays)))).named("policy.pth")


def problems(made: StateDict, arrays: Any) -> list[tuple[str, str]]:
    """Where and how arrays do not fit, all of it."""
    with pytest.raises(ValidationError) as caught:
        made.with_arrays(arrays)
    assert is_terminal_safe(str(caught.value))
    assert caught.value.entry == made.entry
    return [(row.loc, row.kind) for row in caught.value.problems]


def message(made: StateDict, arrays: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        made.with_arrays(arrays)
    return str(caught.value)


# -- what fits ----------------------------------------------------------------------------------------


def test_other_arrays_of_the_same_shapes_take_the_place() -> None:
    made = template(w=np.zeros((2, 3), "f4"), b=np.zeros(3, "f8"))
    found = made.with_arrays({"b": np.arange(3), "w": [[1, 2, 3], [4, 5, 6]]})
    assert found.entry == "policy.pth"
    assert list(found) == ["w", "b"]
    again = pth.loads(pth.dumps(found)).to_numpy()
    assert again["w"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert (again["w"].dtype, again["b"].dtype) == (np.float32, np.float64)
    assert made.to_numpy()["b"].tolist() == [0, 0, 0]


def test_its_own_arrays_give_the_same_state_dict() -> None:
    made = template(w=np.arange(6.0).reshape(2, 3), n=np.int64(3), s=np.array(1.5, "f2"), e=np.zeros((0, 2)))
    assert made.with_arrays({path: made.array(path) for path in made.tensors()}) == made


def test_everything_that_is_no_tensor_stays() -> None:
    """Flags, attributes, metadata, order, numbers and text are the template's."""
    learning = Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered()))
    named = Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,), "1"), False, ordered(), {"tag": 5}))
    inner: Any = {"z": learning, "list": [named, "text", (1, tensor(storage(8, "2"), (8,), requires_grad=True))]}
    tree = ordered({"first": 1, **inner, "last": None}, metadata=ordered({"": {"version": 2}}))
    made = pth.loads(torch_zip(tree, {"0": EIGHT, "1": EIGHT, "2": EIGHT}))
    ones = {path: np.ones(8) for path in made.tensors()}
    found = made.with_arrays(ones)
    assert list(found) == list(made)
    assert found.metadata == made.metadata
    assert (found["first"], found["last"], found["list"][1]) == (1, None, "text")
    for path, info in made.tensors().items():
        other = found.info(path)
        assert (other.requires_grad, other.is_parameter, other.state) == (
            info.requires_grad,
            info.is_parameter,
            info.state,
        )
        assert found.array(path).tolist() == [1.0] * 8
    assert pth.loads(pth.dumps(found)) == found


def test_a_tensor_that_is_the_whole_is_named_by_the_empty_path() -> None:
    made = pth.loads(pth.dumps(StateDict.from_arrays(np.zeros(2))))
    assert made.with_arrays({"": np.ones(2)}).to_numpy().tolist() == [1, 1]


@check_each(
    ("wanted", "given"),
    [
        ("f4", "f8"), ("f4", "f2"), ("f8", "i4"), ("f2", "?"), ("i8", "i4"), ("i4", "i8"), ("u1", "i8"), ("i1", "u1"),
        ("c8", "f8"), ("c16", "i2"), ("c8", "c16"), ("i2", "?"), ("f4", ">f4"), ("f4", ">f8"), ("u2", ">u2"),
        ("?", "?"),
    ],
)  # fmt: skip
def test_a_dtype_becomes_one_of_its_own_kind_or_a_wider_one(wanted: str, given: str) -> None:
    made = template(w=np.zeros(2, wanted))
    found = pth.loads(pth.dumps(made.with_arrays({"w": np.array([0, 1], given)}))).to_numpy()["w"]
    assert (found.dtype, found.tolist()) == (np.dtype(wanted), [0, 1])


@check_each(
    ("wanted", "given"),
    [("i4", "f4"), ("?", "i4"), ("?", "f4"), ("f4", "c8"), ("i8", "c8"), ("f4", "M8[s]"), ("f4", "S1"), ("u1", "f2")],
)
def test_a_dtype_of_another_kind_does_not_fit(wanted: str, given: str) -> None:
    assert problems(template(w=np.zeros(2, wanted)), {"w": np.zeros(2, given)}) == [("w", "dtype")]


@check_each(
    ("wanted", "given"),
    [
        ("i4", np.array([2**31])), ("u1", np.array([-1])), ("u1", np.array([256])), ("i1", np.array([128], "u1")),
        ("u8", np.array([-1])), ("i8", np.array([2**63], "u8")), ("f4", np.array([1e300])), ("f2", np.array([70_000])),
        ("c8", np.array([1e300j])), ("f2", np.array([-(2**40)])),
    ],
)  # fmt: skip
def test_numbers_beyond_the_range_of_the_dtype_do_not_fit(wanted: str, given: np.ndarray) -> None:
    """They would come as quite other numbers, or as infinities."""
    assert problems(template(w=np.zeros(1, wanted)), {"w": given}) == [("w", "dtype")]
    assert "out of range" in message(template(w=np.zeros(1, wanted)), {"w": given})


def test_infinities_nans_and_rounding_are_fine() -> None:
    made = template(w=np.zeros(4, "f4"))
    found = made.with_arrays({"w": np.array([np.inf, -np.inf, np.nan, 1 / 3])})
    assert found.array("w").tobytes() == np.array([np.inf, -np.inf, np.nan, 1 / 3], "f4").tobytes()


def test_a_template_of_bfloat16_takes_floats() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    made = template(w=np.zeros(2, bfloat16))
    assert made.with_arrays({"w": np.array([1.5, 2])}).array("w").dtype == bfloat16
    assert problems(made, {"w": np.array([1e300, 2])}) == [("w", "dtype")]
    assert template(w=np.zeros(1, "f4")).with_arrays({"w": np.ones(1, bfloat16)}).array("w").tolist() == [1]


# -- what does not ------------------------------------------------------------------------------------


def test_all_that_does_not_fit_is_listed_with_the_nearest_name() -> None:
    names = {"net.0.weight": np.zeros((2, 3)), "net.0.bias": np.zeros(3), "log_std": np.zeros(1), "fits": np.zeros(1)}
    made = template(**names)
    given = {"net.0.weight": np.zeros((3, 2)), "net.0.bais": np.zeros(3), "log_std": np.zeros(1, "c8"), "fits": [1.0]}
    assert sorted(problems(made, given)) == [
        ("log_std", "dtype"),
        ("net.0.bais", "unexpected"),
        ("net.0.bias", "missing"),
        ("net.0.weight", "shape"),
    ]
    shown = message(made, given)
    assert "did you mean 'net.0.bias'?" in shown
    assert "expected shape (2, 3), got (3, 2)" in shown
    assert "policy.pth" in shown


def test_a_long_list_is_cut_in_the_message_but_not_in_the_problems() -> None:
    made = template(**{f"layer{at}": np.zeros(1) for at in range(30)})
    assert len(problems(made, {})) == 30
    assert "and 10 more" in message(made, {})
    unexpected = {**{path: np.zeros(1) for path in made.tensors()}, **{f"new{at}": np.zeros(1) for at in range(300)}}
    assert len(problems(made, unexpected)) == 300


@check_each("value", [[[1.0], [1.0, 2.0]], np.array([None]), "text", object(), None, {"a": 1}, {1.0}])
def test_what_is_no_array_does_not_fit(value: Any) -> None:
    assert problems(template(w=np.zeros(1)), {"w": value}) in ([("w", "dtype")], [("w", "shape")])


def test_a_masked_array_does_not_fit() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    assert problems(template(w=np.zeros(2)), {"w": masked}) == [("w", "dtype")]


def test_names_from_a_file_are_escaped() -> None:
    made = template(**{"\x1b[31m\u202e": np.zeros(1)})
    assert "\\x1b[31m" in message(made, {})
    error = misfit([Mismatch("\x1b]0;\x07", "missing", "is not given")])
    assert is_terminal_safe(str(error))


def test_tensors_that_no_array_replaces_are_told_and_stay() -> None:
    indices = tensor(storage(2, "0", "LongStorage"), (1, 2))
    data = (indices, floats((2,), "1"), (3,))
    sparse = Apply(REBUILD_SPARSE, (Apply(GET_LAYOUT, ("torch.sparse_coo",)), data))
    half = tensor(storage(2, "2", "ComplexHalfStorage"), (2,))
    made = pth.loads(torch_zip({"s": sparse, "h": half}, {"0": bytes(16), "1": bytes(8), "2": bytes(8)}))
    assert problems(made, {"s": np.ones(3), "h": np.ones(2)}) == [("s", "dtype"), ("h", "dtype")]
    assert made.with_arrays({}) == made


# -- tensors that stand twice -------------------------------------------------------------------------


def twins() -> StateDict:
    base = np.arange(4, dtype="f4")
    return template(first=base, second=base, third=base[:], part=base[:2], other=np.arange(4, dtype="f4"))


REST: Final = {"other": np.ones(4)}


@pytest.mark.parametrize("given", [["first"], ["second"], ["third"], ["third", "second"], ["first", "second", "third"]])
def test_a_tensor_with_several_names_may_be_given_under_any(given: list[str]) -> None:
    made = twins()
    found = made.with_arrays({**REST, **{path: np.full(4, 7.0) for path in given}})
    again = pth.loads(pth.dumps(found)).to_numpy()
    assert all(again[path].tolist() == [7.0] * 4 for path in ("first", "second", "third"))
    assert np.shares_memory(again["first"], again["second"])
    assert np.shares_memory(again["first"], again["third"])
    assert again["other"].tolist() == [1.0] * 4
    assert not np.shares_memory(again["first"], again["other"])


@pytest.mark.parametrize("name", ["second", "third", "part"])
def test_names_of_one_tensor_must_not_contradict_one_another(name: str) -> None:
    other = np.array([0, 1, 0, 0])[: 2 if name == "part" else 4]
    given = {**REST, "first": np.zeros(4), name: other}
    assert (name, "contradiction") in problems(twins(), given)
    assert "'first'" in message(twins(), given)
    assert "contradicts" in message(twins(), given)
    again = twins().with_arrays({**given, name: np.zeros(4)[: len(other)]})
    assert again.array(name).tolist() == [0.0] * len(other)


def test_contradictions_are_of_bits() -> None:
    nan = np.full(4, np.nan)
    found = twins().with_arrays({**REST, "first": nan, "second": nan.copy(), "part": nan[:2]})
    assert np.isnan(found.array("third")).all()
    assert ("second", "contradiction") in problems(twins(), {**REST, "first": np.zeros(4), "second": -np.zeros(4)})
    near = np.full(4, 0.1)  # which float32 rounds
    twins().with_arrays({**REST, "first": near, "second": near.astype("f4")})


def test_views_that_others_cover_change_with_them() -> None:
    base = np.arange(6, dtype="f4")
    square = base.reshape(2, 3)
    made = template(low=base[:4], high=base[2:], middle=base[2:4], matrix=square, turned=square.T)
    found = made.with_arrays({"low": [9, 8, 7, 6], "high": [7, 6, 5, 4]})
    assert found.array("middle").tolist() == [7, 6]
    assert found.array("matrix").tolist() == [[9, 8, 7], [6, 5, 4]]
    assert found.array("turned").tolist() == [[9, 6], [8, 5], [7, 4]]
    assert len(pth.loads(pth.dumps(found)).storages()) == 1
    assert ("high", "missing") in problems(made, {"low": np.zeros(4)})
    assert problems(made, {"matrix": np.zeros((2, 3)), "turned": np.arange(6).reshape(3, 2)}) == [
        ("turned", "contradiction")
    ]


def test_views_side_by_side_are_apart() -> None:
    base = np.zeros(4, "f4")
    made = template(a=base[:2], b=base[2:], even=np.zeros(4, "f4")[::2])
    found = made.with_arrays({"a": [1, 2], "b": [3, 4], "even": [5, 6]})
    assert [found.array(path).tolist() for path in found] == [[1, 2], [3, 4], [5, 6]]


def test_all_names_of_a_tensor_that_is_not_given_are_missing() -> None:
    missing = [(path, "missing") for path in ("first", "second", "third", "part")]
    assert problems(twins(), REST) == missing


def test_a_conjugate_view_is_no_other_name_of_its_tensor() -> None:
    store = storage(2, "0", "ComplexFloatStorage")
    tree = {"z": tensor(store, (2,)), "conjugate": tensor(store, (2,), None, 0, False, {"conj": True})}
    made = pth.loads(torch_zip(tree, {"0": np.array([1j, 2j], "c8").tobytes()}))
    assert problems(made, {"z": np.ones(2)}) == [("conjugate", "missing")]
    both = {path: made.array(path) for path in made.tensors()}
    found = pth.loads(pth.dumps(made.with_arrays(both)))
    assert found.array("z").tolist() == [1j, 2j]
    assert found.array("conjugate").tolist() == [-1j, -2j]


def test_many_names_of_one_tensor_cost_no_more_than_their_number() -> None:
    base = np.zeros(1)
    made = template(**{f"w{at}": base for at in range(3000)})
    assert len(made.with_arrays({"w0": np.ones(1)})) == 3000


# -- optimizers ---------------------------------------------------------------------------------------


def optimizer(*shapes: tuple[int, ...], groups: Any = None, state: bool = True) -> StateDict:
    moments = {at: {"step": np.float32(1), "exp_avg": np.zeros(shape)} for at, shape in enumerate(shapes)}
    listed = [list(range(len(shapes)))] if groups is None else groups
    value = {"state": moments if state else {}, "param_groups": [{"lr": 0.1, "params": params} for params in listed]}
    return pth.loads(pth.dumps(StateDict.from_arrays(value)))


def unlike(one: StateDict, other: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        one.like_optimizer(other)
    assert is_terminal_safe(str(caught.value))
    return [(row.loc, row.kind) for row in caught.value.problems]


def test_optimizers_of_the_same_parameters_are_alike() -> None:
    optimizer((2,), (3, 4)).like_optimizer(optimizer((2,), (3, 4)))
    optimizer((2,), state=False, groups=[[0]]).like_optimizer(optimizer((2,)))
    optimizer((2,)).like_optimizer(optimizer((2,), state=False))


def test_optimizers_of_other_parameters_are_not() -> None:
    assert unlike(optimizer((2,), (3,)), optimizer((2,), (4,))) == [("state/[1]/exp_avg", "shape")]
    assert unlike(optimizer((2,), (3,)), optimizer((2,))) == [
        ("param_groups/[0]/params", "shape"),
        ("state/[1]/exp_avg", "missing"),
    ]
    two = optimizer((2,), (3,), groups=[[0], [1]])
    assert unlike(two, optimizer((2,), (3,))) == [
        ("param_groups/[0]/params", "shape"),
        ("param_groups/[1]/params", "shape"),
    ]


@check_each("groups", [None, 5, [], [5], [{}], [{"params": None}], [{"params": 3}], [{"lr": 1}], {"params": [0]}])
def test_what_are_no_parameter_groups_is_told(groups: Any) -> None:
    found = unlike(optimizer((2,)), StateDict.from_arrays({"state": {}, "param_groups": groups}))
    assert found[0] == ("param_groups/[0]/params", "shape")
    assert set(found[1:]) <= {("param_groups/[0]/lr", "missing")}


def test_groups_without_an_option_and_state_of_no_parameter_are_told() -> None:
    made = optimizer((2,)).to_numpy()
    del made["param_groups"][0]["lr"]
    made["state"][9] = {"exp_avg": np.zeros(2)}
    assert unlike(optimizer((2,), state=False, groups=[[0]]), StateDict.from_arrays(made)) == [
        ("param_groups/[0]/lr", "missing"),
        ("state/[9]", "unexpected"),
    ]


def test_moments_become_the_dtypes_of_the_template() -> None:
    narrow = StateDict.from_arrays({"state": {0: {"exp_avg": np.zeros(2, "f4")}}, "param_groups": [{"params": [0]}]})
    wide = StateDict.from_arrays({"state": {0: {"exp_avg": np.ones(2)}}, "param_groups": [{"params": [0]}]})
    assert narrow.like_optimizer(wide).info("state/[0]/exp_avg").dtype == "float32"
    assert narrow.like_optimizer(wide).array("state/[0]/exp_avg").tolist() == [1, 1]
    wide = StateDict.from_arrays({"state": {0: {"exp_avg": np.ones(2, "c8")}}, "param_groups": [{"params": [0]}]})
    assert unlike(narrow, wide) == [("state/[0]/exp_avg", "dtype")]


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_an_emptied_optimizer_keeps_its_groups(kind: Any) -> None:
    group = {"lr": np.ones(1), "betas": (0.9, 0.999), "params": [0]}
    value = kind(param_groups=[group], state={0: {"exp_avg": np.ones(2)}}, more=1)
    made = StateDict.from_arrays(value).named("policy.optimizer.pth")
    found = clear_optimizer(made)
    assert type(found.tree) is kind
    assert (list(found), found["state"], found["more"]) == (["param_groups", "state", "more"], {}, 1)
    assert found["param_groups"][0]["betas"] == (0.9, 0.999)
    assert found.entry == made.entry
    assert len(made["state"]) == 1
    assert pth.loads(pth.dumps(found)) == found
    assert clear_optimizer(found) == found


@check_each("value", [{}, {"state": {}}, {"param_groups": []}, {"state": 1, "param_groups": []}, [], 1])
def test_a_state_dict_that_is_not_an_optimizers_cannot_be_cleared(value: Any) -> None:
    with pytest.raises(UnsupportedError, match="optimizer"):
        clear_optimizer(StateDict.from_arrays(value))
