"""``diff``: limited to parts, with tolerances, and by how much tensors differ."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbformat
from sbformat import Archive, MissingEntryError, StateDict
from sbformat.tools.diff import Change, Tolerance, diff
from tests.helpers import thresholds
from tests.helpers.bundled import PPO, changed, set_data
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE: Final = sbformat.read(PPO)
NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module", autouse=True, params=["as arrays", "in pieces"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Small tensors are compared whole, those of a megabyte and more in pieces: both give the same numbers."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in pieces":
            patch.setattr(thresholds.COMPARED_IN_PIECES, 0)
            patch.setattr(thresholds.TENSOR_PIECE, 16)
        yield request.param


def with_policy(tree: Any) -> Archive:
    return BASE.replace(parameters={"policy": StateDict.from_arrays(tree)})


def compare(left: Any, right: Any, **options: Any) -> tuple[Change, ...]:
    return diff(with_policy({"a": left}), with_policy({"a": right}), **options).changes


def values(*numbers: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(numbers, dtype)


# -- norms --------------------------------------------------------------------------------------------


@check_each("dtype", [np.float64, np.float32, np.float16, np.int32, np.int8, ml_dtypes.bfloat16])
def test_a_change_of_a_tensor_has_its_norms(dtype: Any) -> None:
    (change,) = compare(values(3, 4, 0, 12, dtype=dtype), values(3, 4, 2, 11, dtype=dtype))
    assert change.kind == "value"
    assert (change.differing, change.numel) == (2, 4)
    assert change.max_abs_difference == 2
    assert change.l2_difference == pytest.approx(math.sqrt(5))
    assert change.relative_change == pytest.approx(math.sqrt(5) / 13)


def test_norms_of_complex_numbers_are_those_of_their_magnitudes() -> None:
    (change,) = compare(np.array([3 + 4j, 1]), np.array([0, 1 + 0j]))
    assert change.l2_difference == 5
    assert change.relative_change == pytest.approx(5 / math.sqrt(26))


def test_norms_of_random_tensors_are_those_of_numpy() -> None:
    random = np.random.default_rng(1)
    left = random.normal(size=(37, 11)).astype(np.float32)
    right = left + random.normal(size=left.shape).astype(np.float32) * 0.01
    (change,) = compare(left, right)
    expected = np.linalg.norm(right.astype(float) - left.astype(float))
    assert change.l2_difference == pytest.approx(expected, rel=1e-12)
    assert change.relative_change == pytest.approx(expected / np.linalg.norm(left.astype(float)), rel=1e-12)


@check_each(
    ("left", "right", "l2", "relative"),
    [
        (values(0, 0), values(3, 4), 5, INF),
        (values(0.0), values(-0.0), 0, 0),
        (values(INF, 1), values(INF, 2), 1, 0),
        (values(1, 1), values(INF, 1), INF, INF),
        (values(INF, 1), values(1, 1), INF, None),
        (values(NAN, 1), values(NAN, 2), 1, None),
        (values(NAN, 1), values(1, 1), None, None),
        (values(1, 1), values(NAN, 2), None, None),
        (values(1e308, 1, dtype=float), values(-1e308, 1, dtype=float), INF, INF),
        (values(3e200, 4e200, dtype=float), values(0, 0, dtype=float), 5e200, 1),
        (values(3e-200, 4e-200, dtype=float), values(0, 0, dtype=float), 5e-200, 1),
    ],
)
def test_norms_without_overflow_and_of_numbers_that_are_not_finite(
    left: np.ndarray, right: np.ndarray, l2: float, relative: float | None
) -> None:
    (change,) = compare(left, right)
    assert change.l2_difference == (None if l2 is None else pytest.approx(l2))
    assert change.relative_change == (None if relative is None else pytest.approx(relative))


def test_the_norm_of_a_state_dict_is_that_of_all_its_tensors_together() -> None:
    old = with_policy({"a": values(1, 2), "b": values(0), "c": values(5)})
    new = with_policy({"a": values(1, 5), "b": values(4), "c": values(5)})
    (row,) = (row for row in diff(old, new).state_dicts if row.name == "policy.pth")
    assert (row.equal, row.different, row.max_abs_difference, row.l2_difference) == (1, 2, 4, 5)
    (same,) = (row for row in diff(old, old).state_dicts if row.name == "policy.pth")
    assert (same.equal, same.l2_difference) == (3, None)


def test_the_norm_of_a_state_dict_is_not_known_if_that_of_one_tensor_is_not() -> None:
    old = with_policy({"a": values(1), "b": values(1)})
    for tree in ({"a": values(2), "b": values(NAN)}, {"a": values(NAN), "b": values(2)}):
        (row,) = (row for row in diff(old, with_policy(tree)).state_dicts if row.name == "policy.pth")
        assert (row.different, row.max_abs_difference, row.l2_difference) == (2, None, None)


@check_each("new", [-1e308, -INF, INF])
def test_a_difference_that_a_float_cannot_represent_is_said_to_be_larger(new: float) -> None:
    (change,) = compare(values(1e308, dtype=float), values(new, dtype=float))
    assert change.message == "1 of 1 elements differ, some of them by more than 1.79769e+308"
    assert change.max_abs_difference == INF


def test_other_changes_have_no_norms() -> None:
    (change,) = compare(values(1, 2), values(1, 2, 3))
    assert change[4:9] == (None,) * 5


# -- tolerances ---------------------------------------------------------------------------------------


@check_each(
    ("old", "new", "options", "is_close"),
    [
        (1.0, 1.5, {"atol": 0.5}, True),
        (1.0, 1.75, {"atol": 0.5}, False),
        (4.0, 5.0, {"rtol": 0.25}, True),
        (5.0, 4.0, {"rtol": 0.19}, False),
        (4.0, 5.5, {"rtol": 0.25, "atol": 0.5}, True),
        (-4.0, -5.0, {"rtol": 0.25}, True),
        (0.0, 1e-30, {"rtol": 0.5}, False),
        (0.0, -0.0, {"rtol": 0.5}, True),
        (NAN, -NAN, {"atol": 1.0}, True),
        (NAN, 1.0, {"atol": 1.0}, False),
        (1.0, NAN, {"atol": 1.0}, False),
        (INF, INF, {"atol": 1.0}, True),
        (INF, 1.0, {"rtol": 1.0}, False),
        (1.0, INF, {"rtol": 1.0}, False),
        (INF, -INF, {"rtol": 1.0}, False),
    ],
)
def test_numbers_within_the_tolerance_are_equal_in_every_place(
    old: float, new: float, options: dict[str, float], *, is_close: bool
) -> None:
    assert Tolerance(**options).is_close(old, new) == is_close
    assert (not compare(values(7, old), values(7, new), **options)) == is_close
    assert (not compare(old, new, **options)) == is_close  # a number in a state dict: a learning rate
    data = [set_data(BASE, {**BASE.data, "gamma": value, "x": [1, {"y": value}]}) for value in (old, new)]
    assert (not diff(*data, **options).changes) == is_close


def test_the_relative_tolerance_of_tensors_is_that_of_the_first_archive() -> None:
    assert compare(values(1), values(2), rtol=0.75)  # 0.75 times the new number would be enough
    assert not compare(values(2), values(1), rtol=0.75)


@more_examples(100)
@given(st.floats(width=32), st.floats(width=32), st.floats(0, 10), st.floats(0, 10))
def test_the_tolerance_is_that_of_numpy_with_the_first_archive_as_reference(
    old: float, new: float, rtol: float, atol: float
) -> None:
    with np.errstate(all="ignore"):
        expected = bool(np.isclose(np.float64(new), np.float64(old), rtol=rtol, atol=atol, equal_nan=True))
    assert Tolerance(rtol, atol).is_close(old, new) == expected


def test_what_is_beyond_the_tolerance_is_counted() -> None:
    (change,) = compare(values(1, 1, 1, 1), values(1, 1.0625, 2, 3), atol=0.5)
    assert (change.differing, change.numel, change.max_abs_difference) == (2, 4, 2)
    assert change.message == "2 of 4 elements differ by more than the tolerance, by at most 2"


def test_close_tensors_are_counted_apart_from_equal_ones() -> None:
    old = with_policy({"a": values(1, 2), "b": values(1), "c": values(1)})
    new = with_policy({"a": values(1, 2), "b": values(1.0625), "c": values(9)})
    report = diff(old, new, atol=0.5)
    assert [change.loc for change in report.changes] == ["c"]
    (row,) = (row for row in report.state_dicts if row.name == "policy.pth")
    assert (row.equal, row.close, row.different) == (1, 1, 1)


def test_a_tolerance_does_not_excuse_another_type_or_shape() -> None:
    generous = {"rtol": 1e9, "atol": 1e9}
    assert [change.kind for change in compare(values(1), values(1, dtype=float), **generous)] == ["dtype"]
    assert [change.kind for change in compare(values(1), values(1, 1), **generous)] == ["shape"]
    assert [change.kind for change in compare(1, 1.0, **generous)] == ["type"]
    integer = [BASE.replace(data={**BASE.data, "gamma": value}) for value in (1, 1.0)]
    assert [change.kind for change in diff(*integer, **generous).changes] == ["type"]
    text = [set_data(BASE, {**BASE.data, "device": value}) for value in ("cpu", "cuda")]
    assert [change.kind for change in diff(*text, **generous).changes] == ["value"]


@check_each(
    ("old", "new"),
    [
        ({"x": values(1)}, OrderedDict(x=values(1.0625))),
        ([values(1)], (values(1.0625),)),
        ([1.0], (1.0625,)),
        ({"x": [values(1), [2]]}, {"x": [values(1.0625), (2,)]}),
    ],
)
def test_a_tolerance_does_not_excuse_another_container(old: Any, new: Any) -> None:
    assert [change.kind for change in compare(old, new, atol=0.5)] == ["structure"]


def test_a_tolerance_does_not_excuse_other_attributes_or_metadata() -> None:
    state_dict = StateDict.from_arrays(OrderedDict(a=values(1)))
    close = StateDict.from_arrays(OrderedDict(a=values(1.0625)))

    def policy(**fields: Any) -> Archive:
        tree = OrderedDict(a=close.tree["a"]._replace(**fields))
        return BASE.replace(parameters={"policy": state_dict.with_tree(tree)})

    old = BASE.replace(parameters={"policy": state_dict})
    assert not diff(old, policy(), atol=0.5).changes
    (change,) = diff(old, policy(state={"mine": 1}), atol=0.5).changes
    assert (change.kind, change.message) == ("flags", "the attributes differ")
    tree = OrderedDict(close.tree)
    tree._metadata = {"version": 1}  # type: ignore[attr-defined]
    (change,) = diff(old, BASE.replace(parameters={"policy": close.with_tree(tree)}), atol=0.5).changes
    assert change.kind == "structure"


def test_integers_of_any_length_have_a_tolerance() -> None:
    assert Tolerance(atol=1.0).is_close(10**400, 10**400)
    assert not Tolerance(atol=1.0).is_close(10**400, 1)


@check_each("options", [{"rtol": -1.0}, {"atol": -1e-9}, {"rtol": NAN}, {"atol": INF}])
def test_a_tolerance_is_a_finite_number_of_0_or_more(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected [ra]tol to be a finite number of 0 or more"):
        diff(BASE, BASE, **options)
    with pytest.raises(TypeError, match="expected [ra]tol to be a number, got str"):
        diff(BASE, BASE, **dict.fromkeys(options, "1"))  # type: ignore[arg-type]


# -- parts --------------------------------------------------------------------------------------------

OTHER: Final = BASE.replace(
    data={**BASE.data, "gamma": 0.5},
    parameters={
        name: {**BASE.parameters[name].to_numpy(), "new": values(1)} for name in ("policy", "policy.optimizer")
    },
    extra={"notes.txt": b"x"},
)


@check_each(
    ("only", "entries"),
    [
        (None, {"data", "policy.pth", "policy.optimizer.pth", "notes.txt"}),
        (["data"], {"data"}),
        (["weights"], {"policy.pth"}),
        (["optimizers"], {"policy.optimizer.pth"}),
        (["policy"], {"policy.pth"}),
        (["policy.optimizer.pth"], {"policy.optimizer.pth"}),
        ("weights", {"policy.pth"}),
        (["weights", "data"], {"data", "policy.pth"}),
        (["system"], set()),
        (["notes.txt"], {"notes.txt"}),
    ],
)
def test_only_some_parts_are_compared(only: Any, entries: set[str]) -> None:
    report = diff(BASE, OTHER, only=only)
    assert {change.entry for change in report.changes} == entries
    names = {"policy", "policy.optimizer"} if only is None else {name.removesuffix(".pth") for name in entries}
    assert {row.name.removesuffix(".pth") for row in report.state_dicts} - {"pytorch_variables"} <= names
    assert {change.entry for change in diff(OTHER, BASE, only=only).changes} == entries


def test_a_part_that_neither_archive_has_is_refused() -> None:
    with pytest.raises(MissingEntryError, match="there is no part of either archive 'polcy'; did you mean 'policy'"):
        diff(BASE, OTHER, only=["data", "polcy"])
    lone = sbformat.reads(BASE.raw("policy.pth"))
    with pytest.raises(MissingEntryError, match="'data'"):
        diff(lone, lone, only=["data"])
    with pytest.raises(TypeError, match="names in only, got int"):
        diff(BASE, OTHER, only=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="expected at least one name in only"):
        diff(BASE, OTHER, only=[])


# -- entries that cannot be decoded -------------------------------------------------------------------


def damage_crc(entry: str) -> bytes:
    """Return the archive with another CRC-32 of an entry in the directory and its header: no other byte differs."""
    whole = bytearray(changed())
    correct = sbformat.reads(bytes(whole)).entries[entry].crc.to_bytes(4, "little")
    assert whole.count(correct) >= 2
    return bytes(whole.replace(correct, b"\1\2\3\4"))


@check_each("entry", ["policy.pth", "data", "_stable_baselines3_version"])
def test_archives_that_differ_in_nothing_but_a_crc_are_equal_and_one_is_unreadable(entry: str) -> None:
    good, bad = changed(), damage_crc(entry)
    for pair, sides in (((good, bad), ["second"]), ((bad, good), ["first"]), ((bad, bad), ["first", "second"])):
        report = diff(*pair)
        assert not report.changes
        assert [(row.entry, row.side, row.outcome) for row in report.unreadable] == [
            (entry, side, "container failure") for side in sides
        ]
        assert all("expected CRC-32 0x04030201" in row.message for row in report.unreadable)
    assert diff(good, bad, only=["policy.optimizer"]).unreadable == ()
    assert diff(good, good).unreadable == ()


def test_progress_counts_what_was_compared() -> None:
    counts: list[int] = []
    diff(BASE, OTHER, progress=counts.append)
    assert sum(counts) == sum(entry.size for entry in OTHER.entries.values())
    counts.clear()
    diff(BASE, OTHER, only=["policy"], progress=counts.append)
    assert counts == [OTHER.entries["policy.pth"].size]


def test_differences_within_the_tolerance_are_counted() -> None:
    archive = sbformat.read(PPO)
    policy = archive.parameters["policy"]
    weights = policy.with_arrays({name: array * 1.01 for name, array in policy.to_numpy().items()})
    other = archive.replace(data={**archive.data, "gamma": 0.991}, parameters={"policy": weights})
    report = sbformat.diff(archive, other, rtol=0.1)
    assert (report.changes, report.close) == ((), 13)
    assert sbformat.diff(archive, other).close == 0
    assert sbformat.diff(archive, other, rtol=0.001, only="data").close == 0
