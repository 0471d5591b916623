"""``load_policy`` and ``policy_graph``: files and arguments; the actions are compared with SB3's in tests/interop."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, convert_space
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC, changed, entries, zipped
from tests.helpers.shared_files import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
BUFFER: Final = ARCHIVES / "replay-buffer-cartpole.pkl"
CARTPOLE: Final = np.array([0.5, -1.0, 0.03, 2.0], "float32")
PENDULUM: Final = np.array([0.6, -0.8, 3.0], "float32")
TO_CARTPOLE: Final[dict[str, Any]] = {
    "observation_space": sbformat.read(PPO).decode("observation_space"),
    "action_space": sbformat.read(PPO).decode("action_space"),
}


def weights_of(path: Path) -> dict[str, np.ndarray]:
    return sbformat.read_parameters(path)["policy"]


def layer(weights: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def cartpole_outputs(observation: np.ndarray, path: Path = PPO) -> dict[str, np.ndarray]:
    """Compute what the bundled PPO does: two layers of 8 with Tanh, for the actor and for the value."""
    weights = weights_of(path)
    latent = {}
    for name in ("policy_net", "value_net"):
        x = observation
        for number in (0, 2):
            x = np.tanh(layer(weights, f"mlp_extractor.{name}.{number}", x))
        latent[name] = x
    logits = layer(weights, "action_net", latent["policy_net"])
    return {"logits": logits, "value": layer(weights, "value_net", latent["value_net"]), "action": logits.argmax()}


def pendulum_action(observation: np.ndarray) -> np.ndarray:
    """Compute what the bundled SAC does: two layers of 8 with ReLU, Tanh, and actions from -2 to 2."""
    weights, x = weights_of(SAC), observation
    for number in (0, 2):
        x = np.maximum(layer(weights, f"actor.latent_pi.{number}", x), 0)
    return 2 * np.tanh(layer(weights, "actor.mu", x))


def assert_cartpole(policy: sbformat.Policy) -> None:
    expected = cartpole_outputs(CARTPOLE)
    made = policy.outputs(CARTPOLE)
    for name, value in expected.items():
        np.testing.assert_allclose(made[name], value, rtol=1e-5)
    assert policy.predict(CARTPOLE, deterministic=True)[0] == expected["action"]


# -- files --------------------------------------------------------------------------------------------


def unzip(folder: Path) -> Path:
    with zipfile.ZipFile(PPO) as file:
        file.extractall(folder / "agent")
    return folder / "agent"


def bare_name(folder: Path) -> str:
    shutil.copy(PPO, folder / "agent.zip")
    return str(folder / "agent")


def as_safetensors(folder: Path) -> Path:
    sbformat.convert(PPO, folder / "agent.safetensors", overwrite=True)
    return folder / "agent.safetensors"


FILES: Final[dict[str, Callable[[Path], Any]]] = {
    "path": lambda _: PPO,
    "bare name": bare_name,
    "bytes": lambda _: PPO.read_bytes(),
    "file object": lambda _: io.BytesIO(PPO.read_bytes()),
    "Archive": lambda _: sbformat.read(PPO),
    "folder": unzip,
    "converted": as_safetensors,
    "rebuilt": lambda _: sbformat.rebuild(PPO).archive,
}


@pytest.mark.parametrize("kind", FILES)
def test_an_agent_in_any_form(kind: str, tmp_path: Path) -> None:
    policy = sbformat.load_policy(FILES[kind](tmp_path))
    assert policy.algorithm == "PPO"
    assert not policy.inferred
    assert_cartpole(policy)


def test_an_agent_of_another_release() -> None:
    policy = sbformat.load_policy(ARCHIVES / "ppo-cartpole-1.0.zip")
    assert policy.predict(CARTPOLE)[0].shape == ()


def test_continuous_actions() -> None:
    policy = sbformat.load_policy(SAC, vecnormalize=False)
    np.testing.assert_allclose(policy.predict(PENDULUM, deterministic=True)[0], pendulum_action(PENDULUM), rtol=1e-5)


def test_a_lone_state_dict_needs_what_shapes_leave_open() -> None:
    content = entries(PPO)["policy.pth"]
    with pytest.raises(
        sbformat.UnsupportedError, match="a lone state dict has no data entry, .* pass .*activation_fn.* to load_policy"
    ):
        sbformat.load_policy(content, **TO_CARTPOLE)
    policy = sbformat.load_policy(content, **TO_CARTPOLE, policy_kwargs={"activation_fn": "Tanh"})
    assert policy.algorithm is None
    assert policy.inferred
    assert_cartpole(policy)
    relu = sbformat.load_policy(content, **TO_CARTPOLE, policy_kwargs={"activation_fn": "ReLU"})
    weights, x = weights_of(PPO), CARTPOLE
    for number in (0, 2):
        x = np.maximum(layer(weights, f"mlp_extractor.policy_net.{number}", x), 0)
    np.testing.assert_allclose(relu.outputs(CARTPOLE)["logits"], layer(weights, "action_net", x), rtol=1e-5)


def test_it_keeps_working_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    shutil.copy(PPO, path)
    policy = sbformat.load_policy(path)
    path.write_bytes(SAC.read_bytes())
    assert_cartpole(policy)
    path.unlink()
    policy.predict(CARTPOLE)


def save_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    return buffer.getvalue()


NOT_AGENTS: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "statistics": (lambda: STATISTICS, "expected an agent or its policy, got statistics"),
    "replay buffer": (lambda: BUFFER, "got a replay buffer"),
    "data": (lambda: entries(PPO)["data"], "got a lone data entry, which has no weights"),
    "arrays": (save_npz, "got plain arrays"),
    "optimizer": (lambda: entries(PPO)["policy.optimizer.pth"], "got that of an optimizer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_AGENTS)
@pytest.mark.parametrize("function", [sbformat.load_policy, sbformat.policy_graph])
def test_a_file_without_a_policy_is_refused(kind: str, function: Callable[..., Any]) -> None:
    make, message = NOT_AGENTS[kind]
    with pytest.raises(sbformat.UnsupportedError, match=message):
        function(make())


def test_an_archive_without_weights_is_refused() -> None:
    with pytest.raises(sbformat.MissingEntryError, match="there is no entry 'policy.pth'"):
        sbformat.load_policy(changed(without=("policy.pth", "policy.optimizer.pth")))


def test_a_damaged_weight_is_found_when_the_file_is_loaded() -> None:
    content = entries(PPO)["policy.pth"]
    value = weights_of(PPO)["value_net.weight"].tobytes()
    at = content.index(value)
    damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    with pytest.raises(sbformat.ContainerError, match="CRC-32"):
        sbformat.load_policy(zipped({**entries(PPO), "policy.pth": damaged}))


def test_limits_apply() -> None:
    with pytest.raises(sbformat.LimitError, match="policy_items"):
        sbformat.load_policy(PPO, limits=sbformat.Limits(policy_items=10))
    with pytest.raises(sbformat.LimitError, match="json_bytes"):
        sbformat.policy_graph(PPO, limits=sbformat.Limits(json_bytes=10))


def test_a_missing_file_is_an_oserror() -> None:
    with pytest.raises(FileNotFoundError):
        sbformat.load_policy("no-such-agent")


SB2_AGENTS: Final = SHARED / "policies" / "sb2"


@pytest.mark.skipif(not SB2_AGENTS.is_dir(), reason="needs ../shared")
@pytest.mark.parametrize("suffix", [".zip", ".pkl"])
def test_agents_of_sb2_do_what_sb2_did(suffix: str) -> None:
    files = sorted(SB2_AGENTS.glob(f"*{suffix}"))
    assert len(files) > 20
    for file in files:
        policy = sbformat.load_policy(file)
        with np.load(file.with_suffix(".predict.npz")) as known:
            observations, actions = known["observations"], known["actions"]
            is_recurrent = "states" in known  # which SB2 runs on batches only
            steps = zip(known["states"], known["masks"]) if is_recurrent else [(None, None)] * len(actions)
            state = None
            for observation, action, (after, mask) in zip(observations, actions, steps):
                if is_recurrent:
                    observation, action, after, mask = observation[None], action[None], after[None], mask[None]  # noqa: PLW2901
                made, state = policy.predict(observation, state, mask, deterministic=True)
                assert (made.dtype, made.shape) == (action.dtype, action.shape), file.name
                np.testing.assert_allclose(made, action, rtol=1e-5, atol=1e-5, err_msg=file.name)
                assert (state is None) == (after is None)
                if after is not None:
                    np.testing.assert_allclose(state, after, rtol=1e-5, atol=1e-5, err_msg=file.name)
            if "actions_batch" in known:
                made, _ = policy.predict(observations, deterministic=True)
                np.testing.assert_allclose(made, known["actions_batch"], rtol=1e-5, atol=2e-5, err_msg=file.name)


# -- statistics ---------------------------------------------------------------------------------------


def normalized(statistics: sbformat.VecNormalize | None = None) -> np.ndarray:
    """Compute the action with statistics, by default the bundled ones."""
    statistics = statistics or sbformat.read_vecnormalize(STATISTICS)
    return pendulum_action(statistics.normalize_obs(PENDULUM))


def bundle() -> sbformat.Archive:
    return sbformat.bundle(SAC, STATISTICS)


GIVEN: Final[dict[str, Callable[[Path], Any]]] = {
    "path": lambda _: STATISTICS,
    "text": lambda _: str(STATISTICS),
    "bytes": lambda _: STATISTICS.read_bytes(),
    "file object": lambda _: io.BytesIO(STATISTICS.read_bytes()),
    "object": lambda _: sbformat.read_vecnormalize(STATISTICS),
    "bundle": lambda _: bundle(),
    "file of a bundle": lambda folder: sbformat.write(bundle(), folder / "bundle.zip") or folder / "bundle.zip",
}


@pytest.mark.parametrize("kind", GIVEN)
def test_statistics_are_applied(kind: str, tmp_path: Path) -> None:
    policy = sbformat.load_policy(SAC, vecnormalize=GIVEN[kind](tmp_path))
    assert policy.vecnormalize == sbformat.read_vecnormalize(STATISTICS)
    np.testing.assert_allclose(policy.predict(PENDULUM, deterministic=True)[0], normalized(), rtol=1e-5)
    assert np.abs(normalized() - pendulum_action(PENDULUM)).max() > 0.01


def test_those_of_a_bundle_are_the_default() -> None:
    policy = sbformat.load_policy(bundle())
    np.testing.assert_allclose(policy.predict(PENDULUM, deterministic=True)[0], normalized(), rtol=1e-5)
    without = sbformat.load_policy(bundle(), vecnormalize=False)
    assert without.vecnormalize is None
    np.testing.assert_allclose(without.predict(PENDULUM, deterministic=True)[0], pendulum_action(PENDULUM), rtol=1e-5)
    rms = sbformat.RunningMeanStd(np.array([0.0, 0, 1]), np.array([1.0, 4, 9]), 10.0)
    other = sbformat.VecNormalize(obs_rms=rms, norm_reward=False)
    given = sbformat.load_policy(bundle(), vecnormalize=other)
    np.testing.assert_allclose(given.predict(PENDULUM, deterministic=True)[0], normalized(other), rtol=1e-5)


def test_statistics_of_rewards_alone_change_nothing() -> None:
    ret_rms = sbformat.RunningMeanStd(np.array(0.0), np.array(1.0), 10.0)
    policy = sbformat.load_policy(SAC, vecnormalize=sbformat.VecNormalize(norm_obs=False, ret_rms=ret_rms))
    np.testing.assert_allclose(policy.predict(PENDULUM, deterministic=True)[0], pendulum_action(PENDULUM), rtol=1e-5)


def test_statistics_of_another_shape_are_refused() -> None:
    with pytest.raises(sbformat.ValidationError, match=r"normalize observations yourself .* expected the shape \(4,\)"):
        sbformat.load_policy(PPO, vecnormalize=STATISTICS)


def behind_vecnormalize(path: Path = PPO) -> sbformat.Archive:
    """An agent whose data is as if it was trained behind VecNormalize."""
    archive = sbformat.read(path)
    value = sbformat.read(SAC).data["_last_original_obs"]
    return archive.replace(data={**archive.data, "_last_original_obs": value})


def test_missing_statistics_are_warned_about_once() -> None:
    with pytest.warns(UserWarning, match="was trained behind VecNormalize.*vecnormalize=False") as caught:
        policy = sbformat.load_policy(behind_vecnormalize())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_cartpole(policy)


def test_no_warning_without_a_reason() -> None:
    rms = sbformat.RunningMeanStd(np.zeros(4), np.ones(4), 10.0)
    statistics = sbformat.VecNormalize(obs_rms=rms, norm_reward=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sbformat.load_policy(PPO)
        sbformat.load_policy(SAC)  # off-policy agents always keep an observation
        sbformat.load_policy(behind_vecnormalize(), vecnormalize=False)
        sbformat.load_policy(behind_vecnormalize(), vecnormalize=statistics)
        sbformat.load_policy(sbformat.bundle(behind_vecnormalize(), statistics))
        sbformat.policy_graph(behind_vecnormalize())


def with_last_observation(last: Any, original: Any) -> sbformat.Archive:
    archive = sbformat.read(SAC)
    values = {"_last_obs": last, "_last_original_obs": original}
    blobs = {key: encode_array(np.array([value], dtype)) for key, (value, dtype) in values.items()}
    return archive.replace(data={**archive.data, **blobs})


def encode_array(array: np.ndarray) -> sbformat.Serialized:
    import pickle

    return sbformat.Serialized("<class 'numpy.ndarray'>", pickle.dumps(array, protocol=4), {})


LAST: Final[dict[str, tuple[Any, Any, bool]]] = {
    "consecutive": (([0.5, 0.8, 1.0], "f4"), ([0.6, 0.7, 1.1], "f4"), False),
    "beyond the space": (([0.5, -1.7, 1.0], "f4"), ([0.6, 0.7, 1.1], "f4"), True),
    "both beyond the space": (([0.5, -1.7, 1.0], "f4"), ([0.6, -1.6, 1.1], "f4"), False),
    "of float64": (([0.5, 0.8, 1.0], "f8"), ([0.6, 0.7, 1.1], "f8"), False),
    "float64 before": (([0.5, 0.8, 1.0], "f4"), ([0.6, 0.7, 1.1], "f8"), True),
}
"""The last observation and the one that is called original, and whether the first is the second, normalized."""


@pytest.mark.parametrize("name", LAST)
def test_an_off_policy_agent_behind_vecnormalize(name: str) -> None:
    last, original, is_normalized = LAST[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sbformat.load_policy(with_last_observation(last, original))
    assert bool(caught) == is_normalized


def dict_of(**arrays: np.ndarray) -> sbformat.Serialized:
    import pickle

    return sbformat.Serialized("<class 'dict'>", pickle.dumps(arrays, protocol=4), {})


FLOATS: Final = np.array([[0.5, 0.0, 1.0]], "f4")
UNCHANGED: Final[dict[str, tuple[Any, Any, bool]]] = {
    "equal": (encode_array(FLOATS), encode_array(FLOATS), False),
    "different": (encode_array(FLOATS), encode_array(FLOATS + 1), True),
    "another dtype": (encode_array(FLOATS), encode_array(FLOATS.astype("f8")), True),
    "zeros": (encode_array(0 * FLOATS), encode_array(0 * FLOATS), True),
    "bytes": (encode_array(FLOATS.astype("u1")), encode_array(FLOATS.astype("u1") + 1), False),
    "nothing": (None, encode_array(FLOATS), True),
    "empty": (encode_array(FLOATS[:0]), encode_array(FLOATS[:0]), True),
    "equal parts": (dict_of(a=FLOATS, b=FLOATS), dict_of(a=FLOATS, b=FLOATS), False),
    "one part": (dict_of(a=FLOATS, b=FLOATS), dict_of(a=FLOATS, b=FLOATS + 1), True),
    "other parts": (dict_of(a=FLOATS), dict_of(b=FLOATS), True),
    "no parts": (dict_of(), dict_of(), True),
}
"""``_last_obs`` and ``_last_original_obs`` of an on-policy agent, and whether the first may be normalized."""


@pytest.mark.parametrize("name", UNCHANGED)
def test_an_on_policy_agent_behind_vecnormalize_that_normalizes_rewards_alone(name: str) -> None:
    last, original, is_normalized = UNCHANGED[name]
    archive = sbformat.read(PPO)
    archive = archive.replace(data={**archive.data, "_last_obs": last, "_last_original_obs": original})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sbformat.load_policy(archive)
    assert bool(caught) == is_normalized


# -- arguments ----------------------------------------------------------------------------------------

SLIPS: Final[dict[str, tuple[dict[str, Any], type[Exception], str]]] = {
    "vecnormalize": ({"vecnormalize": True}, TypeError, "expected statistics as vecnormalize, or False, got True"),
    "vecnormalize of another type": ({"vecnormalize": 3}, TypeError, "got int"),
    "policy_class": ({"policy_class": dict}, TypeError, "expected the name of a class as policy_class, got type"),
    "policy_kwargs": ({"policy_kwargs": [1]}, TypeError, "expected policy_kwargs to be a dict of arguments, got list"),
    "space": ({"observation_space": (4,)}, TypeError, "expected a space of .* as observation_space, got tuple"),
    "action space": ({"action_space": "Box"}, TypeError, "expected a space of .* as action_space, got str"),
    "modules": ({"modules": ["features_extractor"]}, TypeError, "expected modules to be a dict of functions by name"),
    "module": ({"modules": {"x": 3}}, TypeError, "expected a function as the module x, got int"),
    "module name": ({"modules": {3: print}}, TypeError, "expected a name of a module, got int"),
    "unknown module": ({"modules": {"extractor": print}}, ValueError, "does not have the module 'extractor'"),
    "seed": ({"seed": "1"}, TypeError, "expected an integer or a numpy.random.Generator as seed, got str"),
    "limits": ({"limits": {}}, TypeError, "expected limits to be a Limits, got dict"),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_a_wrong_argument_is_refused(name: str) -> None:
    arguments, error, message = SLIPS[name]
    with pytest.raises(error, match=message):
        sbformat.load_policy(PPO, **arguments)


def test_names_of_modules_for_a_graph() -> None:
    with pytest.raises(TypeError, match="modules: expected a collection of names, got the str"):
        sbformat.policy_graph(PPO, modules="features_extractor")


@pytest.mark.parametrize("seed", [3, np.int64(3), np.random.default_rng(3)])
def test_a_seed(seed: Any) -> None:
    policy = sbformat.load_policy(SAC, seed=seed)
    expected = sbformat.load_policy(SAC, seed=3)
    for _ in range(5):
        assert policy.predict(PENDULUM)[0] == expected.predict(PENDULUM)[0]


def test_a_module_of_the_caller() -> None:
    seen = []

    def extract(observations: np.ndarray) -> np.ndarray:
        seen.append(observations.shape)
        return observations[:, ::-1]

    policy = sbformat.load_policy(PPO, modules={"features_extractor": extract})
    made = policy.outputs(np.stack([CARTPOLE, CARTPOLE * 2]))
    for row, factor in enumerate((1, 2)):
        expected = cartpole_outputs(CARTPOLE[::-1] * factor)
        np.testing.assert_allclose(made["logits"][row], expected["logits"], rtol=1e-5)
    assert set(seen) == {(2, 4)}
    graph = sbformat.policy_graph(PPO, modules=["features_extractor"])
    assert [node.attributes["function"] for node in graph.nodes if node.op == "Call"] == ["features_extractor"]


# -- spaces -------------------------------------------------------------------------------------------


class Object:
    """An object with attributes, as a space of gymnasium is one."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def make_like(name: str, module: str = "gymnasium.spaces", **attributes: Any) -> Any:
    return type(name, (Object,), {"__module__": module})(**attributes)


def test_a_space_of_gymnasium_is_read_by_its_attributes() -> None:
    low, high = np.array([0, 1], ">f4"), np.array([[2, 3]], "f4")[0]
    box = make_like("Box", low=low, high=high, shape=(2,), dtype=np.dtype("f4"))
    found = convert_space(box, "space")
    assert isinstance(found, Box)
    assert (found.library, found.shape, found.dtype) == ("gymnasium", (2,), "<f4")
    assert (np.asarray(found.low).tolist(), np.asarray(found.high).tolist()) == ([0, 1], [2, 3])

    found = convert_space(make_like("Discrete", "gym.spaces.discrete", n=np.int64(3), start=np.int64(2)), "space")
    assert isinstance(found, Discrete)
    assert (found.library, found.n, found.start, type(found.n)) == ("gym", 3, 2, int)
    assert convert_space(make_like("Discrete", n=3), "space").start == 0  # type: ignore[attr-defined]

    found = convert_space(make_like("MultiDiscrete", nvec=np.array([3, 4]), start=np.array([0, 1])), "space")
    assert isinstance(found, MultiDiscrete)
    assert (np.asarray(found.nvec).tolist(), np.asarray(found.start).tolist()) == ([3, 4], [0, 1])

    parts = {"b": make_like("MultiBinary", n=3, shape=(3,)), "a": box}
    found = convert_space(make_like("Dict", spaces=parts), "space")
    assert isinstance(found, DictSpace)
    assert list(found.spaces) == ["b", "a"]
    assert isinstance(found["b"], MultiBinary)
    assert found["b"].shape == (3,)


def test_a_subclass_of_a_space_is_one() -> None:
    box = make_like("Box", low=np.zeros(1), high=np.ones(1), shape=(1,), dtype=np.dtype("f8"))
    narrow = type("Narrow", (type(box),), {})(**vars(box))
    assert convert_space(narrow, "space") == convert_space(box, "space")


@pytest.mark.parametrize("space", [None, 3, make_like("Box"), make_like("Tuple", spaces=()), Box, {"a": 1}])
def test_something_else_is_not_a_space(space: Any) -> None:
    with pytest.raises(TypeError, match="expected a space of gymnasium or sbformat as action_space, got"):
        convert_space(space, "action_space")


def test_spaces_of_the_caller_are_used() -> None:
    box = make_like("Box", low=np.full(4, -1.0), high=np.ones(4), shape=(4,), dtype=np.dtype("f8"))
    policy = sbformat.load_policy(
        entries(PPO)["policy.pth"], observation_space=box, action_space=make_like("Discrete", n=2),
        policy_kwargs={"activation_fn": "Tanh"},
    )  # fmt: skip
    assert policy.observation_space == convert_space(box, "")
    assert_cartpole(policy)


# -- start-up -----------------------------------------------------------------------------------------


def imported_by(code: str) -> set[str]:
    """Return the packages that a program imports, and the modules of sbformat."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True, env=env, cwd=ROOT
    )
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    return {name if name.startswith("sbformat.") else name.partition(".")[0] for name in names}


HEAVY: Final = {"jsonschema", "safetensors", "torch", "stable_baselines3", "gymnasium", "gym", "rich", "onnx"}


def test_a_graph_is_made_without_numpy() -> None:
    found = imported_by(f"import sbformat; sbformat.policy_graph({str(PPO)!r}).describe()")
    assert "sbformat.policies.graph" in found
    assert not found & {"numpy", *HEAVY}
    assert not {name for name in found if name.startswith(("sbformat.policies.run", "sbformat.nets.sb2"))}


def test_a_policy_imports_numpy_and_nothing_heavier() -> None:
    code = f"import sbformat; p = sbformat.load_policy({str(SAC)!r}); p.predict([0.0] * 3); p.outputs([0.0] * 3)"
    found = imported_by(code)
    assert "numpy" in found
    assert not found & HEAVY
    assert not {name for name in found if name.startswith(("sbformat.tools", "sbformat.cli", "sbformat.schema"))}


def test_importing_the_class_of_policies_is_public() -> None:
    assert isinstance(sbformat.load_policy(PPO), sbformat.Policy)
    assert isinstance(sbformat.policy_graph(PPO), sbformat.Graph)


# -- forged files -------------------------------------------------------------------------------------

FORGED: Final[list[Any]] = [
    None, True, -1, 2**70, 1e308, float("nan"), "", "\x1b[31m", [], [[[]]], {}, {"a": 1}, "x" * 100,
]  # fmt: skip
DECIDING: Final = (
    "policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde", "exploration_rate", "_last_obs",
    "_last_original_obs",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "key"),
    [
        *((PPO, key) for key in DECIDING),
        *(
            pytest.param(SAC, key, marks=() if key in {"policy_kwargs", "action_space"} else pytest.mark.exhaustive)
            for key in DECIDING
        ),
    ],
)
def test_forged_data_gives_an_error_of_sbformat_or_a_policy_that_acts(key: str, path: Path) -> None:
    data = json.loads(entries(path)["data"])
    blobs = [value for value in data.values() if isinstance(value, dict) and ":serialized:" in value]
    assert len(blobs) > 4
    for value in [*FORGED, *blobs]:
        forged = zipped({**entries(path), "data": json.dumps({**data, key: value}).encode()})
        try:
            policy = sbformat.load_policy(forged, vecnormalize=False)
        except sbformat.SbformatError:
            continue
        observation = np.zeros(policy.observation_space.shape)  # type: ignore[attr-defined]
        for deterministic in (True, False):
            policy.predict(observation, deterministic=deterministic)
        policy.outputs(observation)


def test_an_agent_is_not_statistics() -> None:
    with pytest.raises(
        sbformat.UnsupportedError, match=r"expected statistics as vecnormalize .* an archive without them"
    ):
        sbformat.load_policy(PPO, vecnormalize=PPO)


def test_a_graph_cannot_be_changed() -> None:
    policy = sbformat.load_policy(PPO)
    for part in (policy.graph.outputs, policy.graph.weights, policy.graph.nodes[0].attributes):
        with pytest.raises(TypeError):
            part["action"] = "value"  # type: ignore[index]
    assert copy.deepcopy(policy.graph.outputs) == policy.graph.outputs
