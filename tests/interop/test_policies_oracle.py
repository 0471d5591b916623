"""The oracle of policies itself: SB3 agrees with SB3, and each way of being wrong is found."""

from __future__ import annotations

from typing import Any, Final

import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import numpy as np

import sbformat
from tests.interop.policy_agents import build_agent, draw_observations
from tests.interop.policy_forms import check_refusals
from tests.interop.policy_oracle import RealPolicy, check_actions, check_outputs, check_sequence
from tests.interop.policy_sampling import check_samples
from tests.interop.policy_setups import SETUPS

pytestmark = [pytest.mark.filterwarnings("ignore")]

BY_ID: Final = {setup.id: setup for setup in SETUPS}


class Same(RealPolicy):
    """SB3 itself, with errors of sbformat."""

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().predict(*args, **kwargs)
        except Exception as error:
            message = f"expected something else: {error}"
            raise sbformat.SbformatError(message) from error


class WrongDtype(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        action, state = super().predict(*args, **kwargs)
        return action.astype(np.float64 if action.dtype.kind == "f" else np.int32), state


class WrongShape(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        action, state = super().predict(*args, **kwargs)
        return np.atleast_1d(action)[None], state


class SlightlyOff(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        action, state = super().predict(*args, **kwargs)
        return (action * np.float32(1.0001)).astype(action.dtype), state

    def outputs(self, *args: Any, **kwargs: Any) -> Any:
        return {name: value * np.float32(1.0001) for name, value in super().outputs(*args, **kwargs).items()}


class Incomplete(Same):
    def outputs(self, *args: Any, **kwargs: Any) -> Any:
        return {}


class AlwaysDeterministic(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return super().predict(*args, **{**kwargs, "deterministic": True})


class NoResets(Same):
    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, **kwargs: Any) -> Any:
        return super().predict(observation, state, None, **kwargs)


class Forgetful(Same):
    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, **kwargs: Any) -> Any:
        return super().predict(observation, None, episode_start, **kwargs)


class Changing(Same):
    def predict(self, observation: Any, *args: Any, **kwargs: Any) -> Any:
        found = super().predict(observation, *args, **kwargs)
        observation[...] = 0
        return found


class Lenient(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().predict(*args, **kwargs)
        except sbformat.SbformatError:
            return np.zeros(3, np.float32), None


class Foreign(Same):
    def predict(self, *args: Any, **kwargs: Any) -> Any:
        return RealPolicy.predict(self, *args, **kwargs)


def deviating(factor: float, name: str) -> Any:
    """A policy whose deviation, or epsilon, is another by this factor."""

    class Deviating(Same):
        def __init__(self, model: Any) -> None:
            super().__init__(model)
            if name == "epsilon":
                model.exploration_rate *= factor
            else:
                model.policy.log_std.data += np.log(factor)

    return Deviating


ACTIONS: Final = "PPO-Mlp-to_asymmetric"
CHOICES: Final = "DQN-Mlp-to_discrete_start"
LSTM: Final = "RecurrentPPO-MlpLstm-layers"
WRONG: Final[list[tuple[str, Any, str]]] = [
    ("actions", WrongDtype, ACTIONS),
    ("actions", WrongDtype, CHOICES),
    ("actions", WrongShape, ACTIONS),
    ("actions", WrongShape, CHOICES),
    ("actions", SlightlyOff, ACTIONS),
    ("actions", Changing, ACTIONS),
    ("actions", Changing, "DQN-Cnn-first"),
    ("outputs", SlightlyOff, ACTIONS),
    ("outputs", SlightlyOff, CHOICES),
    ("outputs", SlightlyOff, "PPO-Mlp-to_multi_discrete"),
    ("outputs", Incomplete, ACTIONS),
    ("outputs", Incomplete, CHOICES),
    ("samples", AlwaysDeterministic, ACTIONS),
    ("samples", AlwaysDeterministic, CHOICES),
    ("samples", AlwaysDeterministic, "PPO-Mlp-to_bits"),
    ("samples", AlwaysDeterministic, "PPO-Mlp-to_multi_discrete"),
    ("samples", AlwaysDeterministic, "PPO-Mlp-sde"),
    ("samples", deviating(1.1, "log_std"), ACTIONS),
    ("samples", deviating(1.4, "log_std"), "PPO-Mlp-sde"),
    ("samples", deviating(1.4, "epsilon"), CHOICES),
    ("sequence", NoResets, LSTM),
    ("sequence", Forgetful, LSTM),
    ("sequence", SlightlyOff, LSTM),
    ("refusals", Lenient, ACTIONS),
    ("refusals", Foreign, ACTIONS),
    ("refusals", Lenient, "PPO-MultiInput-dict"),
]


def run_check(name: str, real: RealPolicy, policy: Any) -> None:
    observations = draw_observations(real.observation_space, 12)
    if name == "samples":
        check_samples(real, policy)
    elif name == "sequence":
        check_sequence(real, policy, 2, steps=30)
    elif name == "refusals":
        check_refusals(real, policy)
    else:
        {"actions": check_actions, "outputs": check_outputs}[name](real, policy, observations)


@pytest.mark.parametrize(("name", "wrong", "setup"), WRONG)
def test_the_oracle_finds(name: str, wrong: Any, setup: str) -> None:
    real, other = RealPolicy(build_agent(BY_ID[setup]).model), build_agent(BY_ID[setup]).model
    run_check(name, real, Same(other))
    with pytest.raises((AssertionError, ValueError)):
        run_check(name, real, wrong(other))
