"""Observations that are none, and other forms of good ones: beside real Stable-Baselines3."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gymnasium import spaces

from sbformat import SbformatError
from tests.interop.policy_agents import draw_observations, stack_observations
from tests.interop.policy_oracle import assert_same_action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.policy_oracle import RealPolicy


def list_bad_observations(space: Any) -> Iterator[tuple[str, Any]]:
    """What no environment of the space gives."""
    good = draw_observations(space, 3)
    batch = stack_observations(good)
    yield "a tuple of gymnasium's reset", (good[0], {})
    yield "a text", "observation"
    yield "nothing", None
    if isinstance(space, spaces.Dict):
        key = next(iter(space.spaces))
        yield "a dict without a key", {name: value for name, value in good[0].items() if name != key}
        yield "a dict with another key", {**good[0], "other": np.zeros(2, np.float32)}
        yield "a part of another shape", {**good[0], key: np.zeros((2, 2, 2, 9, 2))}
        yield "an array in the place of a dict", np.zeros(3, np.float32)
        yield "no keys", {}
        return
    yield "a dict in the place of an array", {"observation": good[0]}
    yield "an axis too many", batch[None, None]
    yield "a column too many", np.zeros((*np.shape(good[0]), 2, 3))
    if space.shape:
        yield "a number", np.float32(0)
        yield "half of it", np.reshape(good[0], -1)[:-1]
    else:
        yield "a number beyond the last", np.int64(space.n)
        yield "a negative number", np.int64(-1)


def predict_or_refuse(policy: Any, observation: Any) -> tuple[Any, str]:
    """Return the action and no text, or None and the text of the error."""
    try:
        return policy.predict(copy.deepcopy(observation), deterministic=True)[0], ""
    except Exception as error:  # noqa: BLE001 -- SB3, numpy and torch have their own
        is_ours = isinstance(error, (SbformatError, ValueError)) and "expected" in str(error)
        return None, str(error) if is_ours else type(error).__name__


def check_refusals(real: RealPolicy, policy: Any) -> int:
    """Give both what is no observation: what SB3 refuses is refused, what it takes has SB3's result.

    A wrong argument is a ValueError of sbformat: one that says what was expected, not one of numpy.
    """
    refused = 0
    for label, observation in list_bad_observations(real.observation_space):
        expected, _ = predict_or_refuse(real, observation)
        found, error = predict_or_refuse(policy, observation)
        if expected is None:
            assert found is None, f"SB3 refuses {label}"
            assert "expected" in error, (label, error)
            refused += 1
        else:
            assert found is not None, (label, error)
            assert_same_action(found, expected, label)
    return refused


def list_forms(space: Any) -> Iterator[tuple[str, Any]]:
    """Other forms of good observations: SB3 takes some of them."""
    good = draw_observations(space, 4)
    batch = stack_observations(good)
    for label, change in FORMS.items():
        yield f"one: {label}", change_parts(good[0], change)
        yield f"batch: {label}", change_parts(batch, change)
    if isinstance(space, spaces.Dict):
        yield "keys in another order", dict(reversed(batch.items()))
        return
    yield "no rows", batch[:0]
    yield "every second row", batch[::2]
    if batch.dtype.kind == "f":
        yield "not a number", np.full(space.shape, np.nan, space.dtype)
        yield "infinite", np.full(space.shape, np.inf, space.dtype)
    yield "a list of observations", list(good)
    if np.ndim(good[0]) == 3:
        yield "one: channels last", np.moveaxis(good[0], 0, -1)
        yield "batch: channels last", np.moveaxis(batch, 1, -1)


FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "list": lambda values: values.tolist(),
    "Fortran order": np.asfortranarray,
    "read-only": lambda values: np.frombuffer(values.tobytes(), values.dtype).reshape(np.shape(values)),
    **{
        name: lambda values, name=name: np.asarray(values).astype(name)  # type: ignore[misc]
        for name in ("float64", "float32", "float16", "int64", "int32", "uint8", "bool", ">f4", "object")
    },
    "with a part": lambda values: np.asarray(values) + 0.7,
}


def change_parts(observation: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(observation, dict):
        return {key: change(part) for key, part in observation.items()}
    return change(observation)


def check_forms(real: RealPolicy, policy: Any) -> int:
    """Give both the observations in other forms, and compare where SB3 takes them; return how many it takes."""
    taken = 0
    for label, observation in list_forms(real.observation_space):
        expected, _ = predict_or_refuse(real, observation)
        if expected is not None:
            found, error = predict_or_refuse(policy, observation)
            assert found is not None, (label, error)
            assert_same_action(found, expected, label)
            taken += 1
    return taken
