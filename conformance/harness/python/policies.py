"""Policies that are run, in the form of the protocol: actions, states and outputs for observations."""

from __future__ import annotations

import base64
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from sbformat.errors import ValidationError
from sbformat.formats.vecnormalize.bundled import read_space
from sbformat.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPACES: Final = ("observation_space", "action_space")
STEP: Final = ("state", "episode_start", "action_masks")
"""Arguments of ``predict`` and ``outputs``, beside the observation."""


def predict(source: bytes, question: str, limits: sbformat.Limits) -> dict[str, Any]:
    """Run the policy of a file for the observations of another."""
    asked = json.loads(Path(question).read_bytes())
    policy = load_policy(source, asked, limits)
    try:
        return run_steps(policy, asked["steps"])
    except ValueError as error:
        if "NaN or infinity" not in str(error):
            raise
        raise ValidationError(str(error)) from None


def load_policy(source: bytes, asked: Mapping[str, Any], limits: sbformat.Limits) -> sbformat.Policy:
    """Load the policy of a file, with the settings of a question."""
    given = {name: asked[name] for name in ("policy_class", "policy_kwargs") if name in asked}
    given |= {name: read_space(asked[name], Budget(limits)) for name in SPACES if name in asked}
    if "vecnormalize" in asked:
        given["vecnormalize"] = base64.b64decode(asked["vecnormalize"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an archive that was trained with statistics says so
        return sbformat.load_policy(source, limits=limits, **given)


def run_steps(policy: Any, asked: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Predict step after step, with the state of the one before.

    :param policy: with the methods of ``sbformat.Policy``
    """
    state, steps = None, []
    for step in asked:
        observation = _value(step["observation"])
        options = {name: _value(step[name]) for name in STEP if name in step}
        options.setdefault("state", state)
        action, state = policy.predict(observation, deterministic=True, **options)
        steps.append(
            {"action": _array(action), **_states(state), "outputs": _by_name(policy.outputs(observation, **options))}
        )
    return {"policy": {"steps": steps}}


def _value(value: Any) -> Any:
    """An array, or those of a Dict by key."""
    if "items" not in value:
        return {key: _value(part) for key, part in value.items()}
    return np.array(value["items"], np.dtype(value["dtype"])).reshape(value["shape"])


def _array(array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "items": array.ravel().tolist()}


def _states(state: Any) -> dict[str, Any]:
    if state is None:
        return {}
    return {"state": [_array(part) for part in (state if isinstance(state, tuple) else (state,))]}


def _by_name(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _array(array) for name, array in arrays.items()}
