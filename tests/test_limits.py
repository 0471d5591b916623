"""``Limits`` is the policy, ``Budget`` counts against it: each limit on both sides of its number."""

from __future__ import annotations

from typing import get_args

import pytest

from conformance.generators.build_zips import is_terminal_safe
from sbformat.errors import LimitError
from sbformat.limits import DEFAULT_LIMITS, Budget, LimitName, Limits
from sbformat.pkl.decode import decode_pickle

MIB = 1024 * 1024
RUNNING_TOTALS = ("total_bytes", "memory_bytes", "blobs_bytes", "expanded_items", "reported_values", "policy_items")
DOCUMENTED = {
    "outer_entries": 1024,
    "inner_entries": 65_536,
    "member_bytes": 2048 * MIB,
    "total_bytes": 4096 * MIB,
    "memory_bytes": 40 * MIB,
    "ratio": 200,
    "version_bytes": 4096,
    "system_info_bytes": MIB,
    "json_bytes": 64 * MIB,
    "json_depth": 64,
    "json_digits": 4300,
    "blob_bytes": 32 * MIB,
    "blobs_bytes": 64 * MIB,
    "pickle_opcodes": 2_000_000,
    "pickle_memo": 1_000_000,
    "pickle_memo_index": 2**31 - 1,
    "pickle_stack": 100_000,
    "pickle_marks": 1000,
    "value_depth": 200,
    "tensors": 65_536,
    "tensor_rank": 32,
    "tensor_name_bytes": 1024,
}


@pytest.mark.parametrize(("limit", "value"), DOCUMENTED.items())
def test_the_defaults_are_those_that_are_documented(limit: str, value: int) -> None:
    assert getattr(DEFAULT_LIMITS, limit) == value


def test_every_limit_is_a_positive_whole_number() -> None:
    assert all(type(value) is int and value > 0 for value in DEFAULT_LIMITS)


def test_one_limit_is_changed_by_keyword_and_the_others_keep_their_defaults() -> None:
    limits = Limits(json_depth=3)
    assert limits.json_depth == 3
    assert limits._replace(json_depth=DEFAULT_LIMITS.json_depth) == DEFAULT_LIMITS


def test_a_type_checker_knows_the_names_of_all_limits() -> None:
    assert get_args(LimitName) == Limits._fields


def test_only_fields_that_differ_from_the_defaults_are_shown() -> None:
    """So that the signatures of the public functions stay readable."""
    assert repr(Limits()) == "Limits()"
    assert repr(Limits(json_depth=3, ratio=DEFAULT_LIMITS.ratio)) == "Limits(json_depth=3)"


@pytest.mark.parametrize("limit", Limits._fields)
def test_one_number_is_compared_without_a_budget(limit: LimitName) -> None:
    limits = Limits(**{limit: 10})
    limits.check(limit, 10)
    with pytest.raises(LimitError) as caught:
        limits.check(limit, 11, offset=7)
    assert (caught.value.limit, caught.value.allowed, caught.value.actual, caught.value.offset) == (limit, 10, 11, 7)


def test_limits_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        DEFAULT_LIMITS.json_depth = 5  # type: ignore[misc]


@pytest.mark.parametrize("limit", Limits._fields)
def test_a_limit_admits_its_number_and_refuses_one_more(limit: str) -> None:
    limits = Limits(**{limit: 10})
    Budget(limits).spend(limit, 0)
    Budget(limits).spend(limit, 10)
    with pytest.raises(LimitError) as caught:
        Budget(limits).spend(limit, 11, offset=7)
    error = caught.value
    assert (error.limit, error.allowed, error.actual, error.offset) == (limit, 10, 11, 7)
    assert f"Limits({limit}=" in str(error)
    assert is_terminal_safe(str(error))


@pytest.mark.parametrize("limit", RUNNING_TOTALS)
def test_running_totals_add_up_over_one_operation(limit: str) -> None:
    budget = Budget(Limits(**{limit: 10}))
    budget.spend(limit, 6)
    budget.spend(limit, 4)
    with pytest.raises(LimitError) as caught:
        budget.spend(limit, 1)
    assert caught.value.actual == 11


@pytest.mark.parametrize("limit", [name for name in Limits._fields if name not in RUNNING_TOTALS])
def test_other_limits_are_about_a_single_thing(limit: str) -> None:
    budget = Budget(Limits(**{limit: 10}))
    for _ in range(3):
        budget.spend(limit, 10)


def test_what_is_refused_is_not_charged() -> None:
    budget = Budget(Limits(total_bytes=10))
    with pytest.raises(LimitError):
        budget.spend("total_bytes", 11)
    budget.spend("total_bytes", 10)


def test_a_negative_amount_gives_nothing_back() -> None:
    budget = Budget(Limits(policy_items=10))
    budget.spend("policy_items", -(2**40))
    budget.spend("policy_items", 10)
    budget.spend("policy_items", -1)
    with pytest.raises(LimitError):
        budget.spend("policy_items", 1)


def test_running_totals_are_kept_apart() -> None:
    budget = Budget(Limits(total_bytes=10, blobs_bytes=10))
    budget.spend("total_bytes", 10)
    budget.spend("blobs_bytes", 10)


def test_budgets_share_nothing() -> None:
    limits = Limits(total_bytes=10)
    Budget(limits).spend("total_bytes", 10)
    Budget(limits).spend("total_bytes", 10)


def test_inflating_charges_the_member_and_the_total() -> None:
    budget = Budget(Limits(member_bytes=5, total_bytes=8))
    budget.inflate(5)
    with pytest.raises(LimitError) as one:
        budget.inflate(6)
    with pytest.raises(LimitError) as total:
        budget.inflate(4)
    assert (one.value.limit, total.value.limit) == ("member_bytes", "total_bytes")
    budget.inflate(3)


def test_values_that_are_dropped_are_limited_in_sum() -> None:
    """At most twice ``memory_bytes`` and eight times the file (FORMAT.md 8)."""
    data = b"(" + b"N" * 1000 + b"t."
    budget = Budget(Limits(memory_bytes=100_000))
    budget.grant(1000)
    cost = 24 * len(data) + 320
    count = (2 * 100_000 + 8 * 1000) // cost
    for _ in range(count):
        with budget.temporary():
            decode_pickle(data, budget)
    with pytest.raises(LimitError, match="memory_bytes"):
        decode_pickle(data, budget)


def test_a_budget_without_limits_has_the_default_ones() -> None:
    assert Budget().limits is DEFAULT_LIMITS
