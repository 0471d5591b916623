"""Stacked frames, as ``VecFrameStack`` makes them; the interop tests compare with SB3 itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sbformat import UnsupportedError
from sbformat.known.spaces import convert_space
from sbformat.tools.evaluate import ChannelsOrder, FrameStack
from tests.helpers.environments import Box, Dict, Discrete
from tests.helpers.many_cases import check_each


def make(space: Any, frames: int, order: ChannelsOrder | None = None) -> FrameStack:
    return FrameStack(convert_space(space, "observation_space"), frames, order)


def test_zeros_come_before_the_first_frame_and_the_newest_is_last() -> None:
    stack = make(Box(0, 9, (2,)), 3)
    assert stack.reset([1, 2]).tolist() == [0, 0, 0, 0, 1, 2]
    assert stack.add([3, 4]).tolist() == [0, 0, 1, 2, 3, 4]
    assert stack.add([5, 6]).tolist() == [1, 2, 3, 4, 5, 6]
    assert stack.add([7, 8]).tolist() == [3, 4, 5, 6, 7, 8]
    assert stack.reset([9, 9]).tolist() == [0, 0, 0, 0, 9, 9]


def test_a_stack_that_was_returned_does_not_change() -> None:
    stack = make(Box(0, 9, (1,)), 2)
    first = stack.reset([1])
    stack.add([2])
    stack.reset([3])
    assert first.tolist() == [0, 1]


@check_each(
    ("space", "order", "shape"),
    [
        (Box(0, 255, (84, 84, 1), "uint8"), None, (84, 84, 4)),
        (Box(0, 255, (1, 84, 84), "uint8"), None, (4, 84, 84)),
        (Box(0, 255, (3, 84, 84), "uint8"), "last", (3, 84, 336)),
        (Box(0, 255, (84, 84, 3), "uint8"), "first", (336, 84, 3)),
        (Box(0, 1, (3, 84, 84)), None, (3, 84, 336)),  # not an image: floats
        (Box(0, 1, (2, 5)), None, (2, 20)),
        (Box(0, 1, (2, 5)), "first", (8, 5)),
    ],
)
def test_the_axis_is_that_of_the_channels(space: Box, order: ChannelsOrder | None, shape: tuple[int, ...]) -> None:
    stack = make(space, 4, order)
    assert stack.space.shape == shape  # type: ignore[attr-defined]
    newest = np.ones(space.shape, space.dtype)
    made = stack.reset(newest)
    assert (made.shape, made.dtype, made.sum()) == (shape, space.dtype, newest.size)
    assert stack.space.is_image() == convert_space(space, "observation_space").is_image()


def test_bounds_are_repeated_with_the_frames() -> None:
    space: Any = make(Box([0, 1], [2, 3], (2,)), 2).space
    assert np.asarray(space.low).tolist() == [0, 1, 0, 1]
    assert np.asarray(space.high).tolist() == [2, 3, 2, 3]


def test_each_key_has_its_own_stack() -> None:
    stack = make(Dict({"a": Box(0, 9, (1,)), "b": Box(0, 255, (1, 2, 2), "uint8")}), 2)
    image = np.ones((1, 2, 2), "uint8")
    assert stack.reset({"a": [5], "b": image})["a"].tolist() == [0, 5]
    made = stack.add({"a": [6], "b": image})
    assert made["a"].tolist() == [5, 6]
    assert made["b"].shape == (2, 2, 2)


@pytest.mark.parametrize("space", [Discrete(3), Dict({"a": Discrete(2)}), Box(0, 1, ())])
def test_only_frames_that_have_an_axis_can_be_stacked(space: Any) -> None:
    with pytest.raises(UnsupportedError, match="frames of a Box can be stacked"):
        make(space, 2)
