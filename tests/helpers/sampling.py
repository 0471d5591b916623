"""Fewer test cases: a part of a large product, the same in every run; with ``SBFORMAT_ALL=1``, ``sample`` takes all.

Properties and sizes are smaller in the default run than in the exhaustive run (``python -m pytest -m exhaustive``)::

    @more_examples(400)  # examples of Hypothesis: 50 in the default run, 400 in the exhaustive run
    @given(st.binary())
    def test_any_bytes(content): ...

    @pytest.mark.parametrize("step", with_exhaustive([37], [1]))  # every 37th cut in the default run
    def test_no_cut(step): ...

    @pytest.mark.parametrize("name", mark_others(NAMES, 3, group=find_kind))  # a third of each kind
    def test_vector(name): ...

    @pytest.mark.each_value  # in the default run, only as many cases as contain each target and each key
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("key", KEYS)
    def test_rebuild(key, target): ...
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Case = TypeVar("Case")
Test = TypeVar("Test", bound="Callable[..., None]")
Item = TypeVar("Item", bound="pytest.Item")

HAS_ALL: Final = bool(os.environ.get("SBFORMAT_ALL"))
"""Whether every test takes all its cases; continuous integration on GitHub does."""

DEFAULT_PROFILE: Final = "sbformat"
EXHAUSTIVE_PROFILE: Final = "exhaustive"
"""The profiles of Hypothesis: ``tests/conftest.py`` loads the second one for the exhaustive run."""

for _profile in (DEFAULT_PROFILE, EXHAUSTIVE_PROFILE):
    settings.register_profile(_profile, derandomize=True, database=None, deadline=None)


def sample(
    cases: Iterable[Case], one_in: int, *, name: Callable[[Case], str], group: Callable[[Case], object]
) -> list[Case]:
    """Choose one in so many cases of each group, and at least one, by a digest of their names.

    :returns: the chosen cases in the order of ``cases``; all of them with ``SBFORMAT_ALL=1``
    """
    known = list(cases)
    if HAS_ALL:
        return known
    groups: dict[object, list[int]] = defaultdict(list)
    for number, case in enumerate(known):
        groups[group(case)].append(number)
    chosen: set[int] = set()
    for numbers in groups.values():
        numbers.sort(key=lambda number: crc32(name(known[number]).encode()))
        chosen.update(numbers[: -(-len(numbers) // one_in)])
    return [case for number, case in enumerate(known) if number in chosen]


def more_examples(count: int, **options: Any) -> Callable[[Test], Test]:
    """Draw so many examples in the exhaustive run, and an eighth of them, but 25 to 60, in the default run.

    :param options: other settings of Hypothesis
    """

    def decorate(test: Test) -> Test:
        if settings.default is settings.get_profile(EXHAUSTIVE_PROFILE):
            return pytest.mark.exhaustive(settings(max_examples=count, **options)(test))
        return settings(max_examples=min(count, max(25, min(60, count // 8))), **options)(test)

    return decorate


def with_exhaustive(default: Iterable[object], exhaustive: Iterable[object]) -> list[Any]:
    """Return values for ``parametrize``: those of the default run, and others for the exhaustive run."""
    first = list(default)
    return [*first, *(pytest.param(value, marks=pytest.mark.exhaustive) for value in exhaustive if value not in first)]


def mark_others(
    cases: Iterable[Any], one_in: int, *, name: Callable[[Any], str] = str, group: Callable[[Any], object]
) -> list[Any]:
    """Return parameters of tests: one in so many cases of each group, and the others for the exhaustive run."""
    known = list(cases)
    some = sample(known, one_in, name=name, group=group)
    values = [case if isinstance(case, tuple) else (case,) for case in known]
    return [
        pytest.param(*items, marks=() if case in some else pytest.mark.exhaustive) for case, items in zip(known, values)
    ]


def choose_redundant(
    cases: Iterable[Item], group: Callable[[Item], object], values: Callable[[Item], set[tuple[str, int]]]
) -> list[Item]:
    """Choose the cases of each group that contain no value that cases before them, by a digest, do not contain."""
    redundant = []
    seen: dict[object, set[tuple[str, int]]] = defaultdict(set)
    for case in sorted(cases, key=lambda case: crc32(case.name.encode())):
        if values(case) <= seen[group(case)]:
            redundant.append(case)
        seen[group(case)] |= values(case)
    return redundant
