"""Spaces to write: constructors and JSON, the same as gymnasium's, and the archives that have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.cli import main
from sbformat.errors import DataError, ValidationError
from sbformat.rendering import write_numbers
from sbformat.spaces import from_json
from sbformat.values.render import render_json
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.reports import unfold

if TYPE_CHECKING:
    from pathlib import Path

SPACES: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "box of one bound": (sbformat.Box(-1, 1, (3,)), "Box", (-1, 1, (3,))),
    "box of arrays": (
        sbformat.Box([-np.inf, 0], [1, np.inf]),
        "Box",
        (np.float32([-np.inf, 0]), np.float32([1, np.inf])),
    ),
    "image": (sbformat.Box(0, 255, (2, 4, 4), "uint8"), "Box", (0, 255, (2, 4, 4), np.uint8)),
    "float64": (sbformat.Box(0, 0.1, (1,), "float64"), "Box", (0, 0.1, (1,), np.float64)),
    "discrete": (sbformat.Discrete(4), "Discrete", (4,)),
    "discrete from -1": (sbformat.Discrete(3, -1), "Discrete", (3, None, -1)),
    "multi-discrete": (sbformat.MultiDiscrete([2, 3]), "MultiDiscrete", ([2, 3],)),
    "multi-binary": (sbformat.MultiBinary(3), "MultiBinary", (3,)),
    "multi-binary of two axes": (sbformat.MultiBinary([2, 3]), "MultiBinary", ([2, 3],)),
    "dict": (sbformat.Dict({"b": sbformat.Discrete(2), "a": sbformat.Box(0, 1, (2,))}), "Dict", ()),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_report_of_a_space_makes_it_again(name: str) -> None:
    space = SPACES[name][0]
    document = json.loads(json.dumps(write_numbers(render_json(space, "observation_space"))))
    assert from_json(document) == space


@pytest.mark.interop
@pytest.mark.parametrize("name", SPACES)
def test_constructors_do_what_those_of_gymnasium_do(name: str) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    space, kind, arguments = SPACES[name]
    if kind == "Dict":
        arguments = ({"b": gymnasium.spaces.Discrete(2), "a": gymnasium.spaces.Box(0, 1, (2,))},)
    assert space.to_gymnasium() == getattr(gymnasium.spaces, kind)(*arguments)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "expected a space: an object with the kind Box, Discrete"),
        ({"kind": "Graph"}, "expected a space"),
        ({"kind": "Box"}, "missing 2 required"),
        ({"kind": "Box", "low": 1, "high": 0, "shape": [2]}, "no lower bound above its upper bound"),
        ({"kind": "Box", "low": 0, "high": "NaN", "shape": [2]}, "got NaN"),
        ({"kind": "Box", "low": 0, "high": 1, "shape": [0]}, "integers of at least 1 as a shape"),
        ({"kind": "Box", "low": 0, "high": 1, "shape": [100_000, 100_000]}, "of at most 100,000,000 items"),
        ({"kind": "Box", "low": 0, "high": 1, "size": 2}, "expected low, high, shape, dtype for a Box, got size"),
        ({"kind": "Box", "low": [0, 1], "high": [0, 1, 2]}, "shape mismatch"),
        ({"kind": "Box", "low": 0, "high": 300, "shape": [1], "dtype": "uint8"}, "bounds that uint8 can represent"),
        ({"kind": "Box", "low": 0, "high": 1, "shape": [1], "dtype": "O"}, "a dtype of numbers"),
        ({"kind": "Box", "low": {"min": 0, "max": 1}, "high": 1}, "lists only the first numbers of a long array"),
        ({"kind": "Discrete", "n": 0}, "an integer of at least 1 as n"),
        ({"kind": "MultiDiscrete", "nvec": [2, 0]}, "integers of at least 1 as nvec"),
        ({"kind": "Dict", "spaces": {}}, "expected a space for each text"),
    ],
)
def test_other_json_is_refused(value: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        from_json(value)


def test_a_space_is_written_as_gymnasium_pickles_it(tmp_path: Path) -> None:
    space = sbformat.Box([-1, -1, -9], [1, 1, 9])
    edited = sbformat.edit(sbformat.read(SAC), assign={"observation_space": space}).archive
    sbformat.write(edited, tmp_path / "a.zip")
    found = sbformat.read(tmp_path / "a.zip")
    assert np.asarray(found.decode("observation_space").high).tolist() == [1, 1, 9]
    assert (sbformat.scan(tmp_path / "a.zip").verdict, sbformat.validate(found)) == ("clean", ())
    assert found.data["observation_space"].hints == {"dtype": "float32", "_shape": [3]}


def test_the_command_line_takes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = 'action_space={"kind": "Discrete", "n": 2}'
    assert main(["edit", str(PPO), "-o", str(tmp_path / "a.zip"), "--set", given]) == 0
    assert main(["edit", str(PPO), "-o", str(tmp_path / "b.zip"), "--set", 'action_space={"kind": "Box"}']) == 2
    assert "/action_space: Box: " in capsys.readouterr().err
    assert main(["edit", str(PPO), "-o", str(tmp_path / "b.zip"), "--set", given.replace("2", "3")]) == 2
    assert "expected the shape (3, 8) (from action_space)" in unfold(capsys.readouterr().err)
    assert not (tmp_path / "b.zip").exists()


def test_a_space_for_another_key_is_refused() -> None:
    with pytest.raises((ValidationError, DataError, TypeError)):
        sbformat.edit(sbformat.read(PPO), assign={"gamma": sbformat.Discrete(2)})


def widen(path: Path) -> None:
    """Write an agent that observes one number more, as docs/how-to/edit.md does."""
    archive = sbformat.read(ARCHIVES / "sac-pendulum.zip")
    policy = archive.parameters["policy"]
    weights = {name: policy.array(name) for name in policy.tensors()}
    for name, array in weights.items():
        if name.endswith(("latent_pi.0.weight", "qf0.0.weight", "qf1.0.weight")):
            weights[name] = np.insert(array, [3], 0.0, axis=1)
    wider = archive.replace(parameters={"policy": sbformat.StateDict.from_arrays(weights)})
    space = sbformat.Box([-1, -1, -8, 0], [1, 1, 8, 200])
    report = sbformat.edit(wider, assign={"observation_space": space}, unset=["_last_obs"], drop_optimizer=True)
    sbformat.write(report.archive, path)


def test_a_wider_agent_acts_as_before(tmp_path: Path) -> None:
    widen(tmp_path / "a.zip")
    policy = sbformat.load_policy(tmp_path / "a.zip")
    before = sbformat.load_policy(SAC).predict(np.float32([1, 0, 0.5]), deterministic=True)[0]
    for number in (0, 77):
        np.testing.assert_array_equal(policy.predict(np.float32([1, 0, 0.5, number]), deterministic=True)[0], before)


@pytest.mark.interop
def test_a_wider_agent_trains_on_in_sb3(tmp_path: Path) -> None:
    gymnasium, sb3 = pytest.importorskip("gymnasium"), pytest.importorskip("stable_baselines3")
    widen(tmp_path / "a.zip")
    space = gymnasium.spaces.Box(np.float32([-1, -1, -8, 0]), np.float32([1, 1, 8, 200]))
    env = gymnasium.wrappers.TransformObservation(
        gymnasium.make("Pendulum-v1"), lambda found: np.append(found, np.float32(5)), space
    )
    model = sb3.SAC.load(tmp_path / "a.zip", env=env)
    model.learn(64)
    assert model.num_timesteps == 64
