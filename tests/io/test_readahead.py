"""``read_ahead``: the same items, one step ahead; errors come where the items would, and no thread stays."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat.io.source import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sbformat")]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=3))))
def test_items_come_in_order(items: list[bytes | None]) -> None:
    assert list(read_ahead(iter(items))) == items
    assert threads() == []


def test_they_are_made_in_one_other_thread_one_step_ahead() -> None:
    made: list[int] = []
    makers = set()

    def steps() -> Iterator[int]:
        for step in range(10):
            makers.add(threading.get_ident())
            made.append(step)
            yield step

    for step in read_ahead(steps()):
        assert len(made) <= step + 2
    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("error", [ValueError("broken"), OSError(28, "no room"), KeyboardInterrupt(), MemoryError()])
def test_an_error_is_raised_where_the_item_would_have_come(error: BaseException) -> None:
    def steps() -> Iterator[int]:
        yield 1
        yield 2
        raise error

    seen = []
    with pytest.raises(type(error)) as caught:
        for step in read_ahead(steps()):
            seen.append(step)  # noqa: PERF402 -- those before the error
    assert caught.value is error
    assert seen == [1, 2]
    assert threads() == []


def test_nothing_is_left_of_one_that_is_not_used_up() -> None:
    ended = threading.Event()

    def steps() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    items = read_ahead(steps())
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    del items
    assert threads() == []
    assert ended.wait(500)


def test_nothing_is_begun_before_it_is_asked_for() -> None:
    read_ahead(iter("abc"))
    assert threads() == []


def test_where_no_thread_can_be_had_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(read_ahead(range(3))) == [0, 1, 2]


def test_an_interrupt_while_the_thread_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(read_ahead(iter("abc")))
    for thread in threading.enumerate():
        if thread.name.startswith("sbformat"):
            thread.join(500)
    assert threads() == []
