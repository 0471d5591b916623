"""``sbformat.sb3.load``: agents whose schedules are functions that a user wrote."""

from __future__ import annotations

import math
import pickle
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

import sbformat.sb3
from sbformat.sb3.agents import EvaluatedSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

stable_baselines3 = pytest.importorskip("stable_baselines3")
PROGRESS = [step / 50 for step in range(51)]


def save_and_load(**arguments: Any) -> tuple[Any, Any]:
    """An agent of SB3, and the one that is loaded from its archive."""
    original = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, n_epochs=1, **arguments)
    file = BytesIO()
    original.save(file)
    assert sbformat.scan(file.getvalue()).verdict == "code"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return original, sbformat.sb3.load(stable_baselines3.PPO, file.getvalue())


def cosine(start: float) -> Callable[[float], float]:
    def schedule(progress: float) -> float:
        return start * (0.5 + 0.5 * math.cos(math.pi * (1 - progress)))

    return schedule


@pytest.mark.parametrize("name", ["learning_rate", "clip_range", "clip_range_vf"])
@pytest.mark.parametrize(
    "function",
    [
        lambda p: 3e-4 * p,
        lambda p: 3e-4,
        lambda p: 3e-4 * p**2,
        lambda p: 3e-4 if p > 0.5 else 3e-5,
        cosine(0.1),
    ],
    ids=["linear", "constant", "square", "step", "cosine"],
)
def test_a_function_of_arithmetic_gives_what_it_gave(name: str, function: Callable[[float], float]) -> None:
    original, loaded = save_and_load(**{name: function})
    attribute = "lr_schedule" if name == "learning_rate" else name
    found = [getattr(loaded, attribute)(progress) for progress in PROGRESS]
    assert found == pytest.approx(
        [getattr(original, attribute)(progress) for progress in PROGRESS], rel=1e-12, abs=1e-18
    )
    assert callable(getattr(loaded, name))
    loaded.set_env(original.get_env())
    loaded.learn(16)


def test_an_agent_that_was_loaded_is_saved_without_sbformat() -> None:
    original, loaded = save_and_load(learning_rate=lambda p: 3e-4 * p**2)
    assert isinstance(loaded.learning_rate, EvaluatedSchedule)
    file = BytesIO()
    loaded.save(file)
    assert b"sbformat" not in pickle.dumps(loaded.learning_rate)
    again = stable_baselines3.PPO.load(BytesIO(file.getvalue()))
    expected = [original.lr_schedule(progress) for progress in PROGRESS]
    assert [again.lr_schedule(progress) for progress in PROGRESS] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["learning_rate", "clip_range", "clip_range_vf"])
def test_what_is_saved_is_clean_and_stays_the_same(name: str) -> None:
    """A table of values: saved again, rebuilt for each target, and loaded in either way."""
    _, loaded = save_and_load(**{name: cosine(0.1)})
    file = BytesIO()
    loaded.save(file)
    assert sbformat.scan(file.getvalue()).verdict == "clean"
    attribute = "lr_schedule" if name == "learning_rate" else name
    again = stable_baselines3.PPO.load(BytesIO(file.getvalue()))
    expected = [getattr(again, attribute)(progress) for progress in PROGRESS]
    sources = [file.getvalue()]
    for target in ("2.0", "2.6", "2.7", "2.9"):
        made, report = sbformat.rebuild(file.getvalue(), target=target)
        assert report.findings == ()
        sources.append(sbformat.writes(made))
        assert sbformat.scan(sources[-1]).verdict == "clean"
    for source in sources:
        for agent in (
            stable_baselines3.PPO.load(BytesIO(source)), sbformat.sb3.load(stable_baselines3.PPO, source)
        ):  # fmt: skip
            assert callable(getattr(agent, name))
            assert [getattr(agent, attribute)(progress) for progress in PROGRESS] == expected
    again.set_env(loaded.get_env() or stable_baselines3.PPO("MlpPolicy", "CartPole-v1").get_env())
    again.learn(16)


def test_a_schedule_of_custom_objects_takes_its_place() -> None:
    original = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, learning_rate=lambda p: p**2)
    file = BytesIO()
    original.save(file)
    loaded = sbformat.sb3.load(stable_baselines3.PPO, file.getvalue(), custom_objects={"learning_rate": 0.5})
    assert loaded.learning_rate == 0.5
