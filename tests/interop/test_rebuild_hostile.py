"""Hostile archives, rebuilt and loaded by Stable-Baselines3: nothing that they name runs (REBUILDING.md 15.1)."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
pytest.importorskip("sympy")
pytest.importorskip("safetensors")

import sbformat
import sbformat.sb3
from sbformat import UnsupportedError
from sbformat.pkl import Global
from sbformat.tools.rebuild import rebuild
from tests.helpers.build_blobs import array, call, discrete, new, partial
from tests.helpers.old_archives import blob, reference, with_keys

if TYPE_CHECKING:
    from pathlib import Path

    from sbformat import Archive

pytestmark = [pytest.mark.filterwarnings("ignore")]

TUPLE: Final = Global("sympy.core.containers", "Tuple")
"""Evaluates the texts that it is called with."""
SAVE: Final = Global("safetensors.numpy", "save_file")
"""Writes the file that it is called with."""
RELU: Final = Global("torch.nn.modules.activation", "ReLU")
KWARGS: Final = {"net_arch": [8, 8]}


def code(marker: Path) -> str:
    return f"__import__('os').system('touch {marker}')"


def noise(**state: Any) -> Any:
    return new("stable_baselines3.common.noise", "VectorizedActionNoise", {"_n_envs": 1, **state})


def float_schedule(value: Any) -> Any:
    return new("stable_baselines3.common.utils", "FloatSchedule", {"value_schedule": value})


def arguments(**values: Any) -> dict[str, Any]:
    return {"policy_kwargs": blob({**KWARGS, **values})}


def of_ppo(marker: Path) -> dict[str, dict[str, Any]]:
    """Keys of ``data`` by what they try."""
    text = code(marker)
    space = new("gymnasium.spaces.dict", "Dict", {"spaces": {text: discrete(2)}, "_np_random": None})
    multi = reference("stable_baselines3.common.policies", "MultiInputActorCriticPolicy")
    numbers = array((1,), b"\0" * 8, "f8")
    return {
        "extractor with a space": {
            "observation_space": blob(space), "policy_class": multi, **arguments(features_extractor_class=TUPLE),
        },
        "policy with a space": {"observation_space": blob(space), "policy_class": blob(TUPLE)},
        "policy": {"policy_class": blob(TUPLE)},
        "policy as text": {"policy_class": text},
        "policy as a partial": {"policy_class": blob(partial(TUPLE, text))},
        "extractor with a file": arguments(
            features_extractor_class=SAVE, features_extractor_kwargs={"filename": str(marker)}
        ),
        "extractor as a partial": arguments(features_extractor_class=partial(SAVE, filename=str(marker))),
        "arguments of the extractor": arguments(features_extractor_kwargs={"a": [partial(TUPLE, text)]}),
        "activation": arguments(activation_fn=partial(TUPLE, text)),
        "activation as text": arguments(activation_fn=text),
        "activation as an object": arguments(activation_fn=float_schedule(partial(TUPLE, text))),
        "activation in a partial": arguments(activation_fn=partial(RELU, partial(TUPLE, text))),
        "transformer": arguments(activation_fn=partial(Global("torch.nn.modules.transformer", "Transformer"), TUPLE)),
        "optimizer": arguments(optimizer_class=partial(TUPLE, text)),
        "arguments of the optimizer": arguments(optimizer_kwargs={"eps": partial(TUPLE, text), text: 1}),
        "layers": {"policy_kwargs": blob({"net_arch": [8, 8], "log_std_init": partial(TUPLE, text)})},
        "learning rate": {"learning_rate": blob(partial(TUPLE, text))},
        "learning rate in a schedule": {"learning_rate": blob(float_schedule(partial(TUPLE, text)))},
        "learning rate as an object": {"learning_rate": blob(noise(_base_noise=TUPLE))},
        "learning rate as text": {"learning_rate": text},
        "schedule": {"lr_schedule": blob(partial(TUPLE, text))},
        "clip range": {"clip_range": blob(partial(TUPLE, text)), "clip_range_vf": blob(TUPLE)},
        "rollout buffer": {"rollout_buffer_class": blob(TUPLE), "rollout_buffer_kwargs": blob({"a": TUPLE})},
        "texts": {"device": text, "env": text, "tensorboard_log": text, "verbose": text, text: text},
        "numbers": {"_last_obs": blob([numbers, partial(TUPLE, text)]), "gamma": blob(TUPLE)},
    }  # fmt: skip


def of_sac(marker: Path) -> dict[str, dict[str, Any]]:
    text = code(marker)
    numbers = array((1,), b"\0" * 8, "f8")
    return {
        "replay buffer": {"replay_buffer_class": blob(TUPLE)},
        "arguments of the replay buffer": {
            "replay_buffer_kwargs": blob({"env": partial(TUPLE, text), "handle_timeout_termination": TUPLE})
        },
        "noise": {"action_noise": blob(partial(TUPLE, text))},
        "base noise": {"action_noise": blob(noise(_base_noise=partial(TUPLE, text), _noises=[]))},
        "dtype of noise": {
            "action_noise": blob(
                new(
                    "stable_baselines3.common.noise",
                    "NormalActionNoise",
                    {"_mu": numbers, "_sigma": numbers, "_dtype": TUPLE},
                )
            )
        },
        "train_freq": {"train_freq": blob(partial(TUPLE, text))},
        "entropy": {"ent_coef": text, "target_entropy": text},
    }


def hostile() -> list[Any]:
    from pathlib import Path

    nowhere = Path()
    return [("ppo", name) for name in of_ppo(nowhere)] + [("sac", name) for name in of_sac(nowhere)]


def archive_of(base: str, name: str, marker: Path) -> Archive:
    return with_keys(base, **(of_ppo if base == "ppo" else of_sac)(marker)[name])


def loaded(base: str, made: Archive) -> Any:
    algorithm = sb3.PPO if base == "ppo" else sb3.SAC
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {} if base == "ppo" else {"buffer_size": 16}
        return algorithm.load(io.BytesIO(sbformat.writes(made)), device="cpu", **options)


REFUSED: Final = ("extractor with a space", "policy with a space")
"""Their weights do not fit the Dict space."""
LOST_FOR_NOTHING: Final = ("schedule", "texts")
"""They change nothing that SB3 computes or trains with."""


@pytest.mark.parametrize(("base", "name"), hostile())
def test_nothing_runs_and_what_is_written_loads(base: str, name: str, tmp_path: Path) -> None:
    archive = archive_of(base, name, tmp_path / "ran")
    if name in REFUSED:
        with pytest.raises(UnsupportedError, match="SB3 could not load the result"):
            rebuild(archive)
    else:
        made, report = rebuild(archive)
        assert report.requires == ()
        assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
        assert loaded(base, made).gamma == 0.99
        assert bool(report.findings) == (name not in LOST_FOR_NOTHING)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("base", "name"), hostile())
def test_nothing_runs_in_memory_either(base: str, name: str, tmp_path: Path) -> None:
    algorithm = sb3.PPO if base == "ppo" else sb3.SAC
    archive = archive_of(base, name, tmp_path / "ran")
    if name in REFUSED:
        with pytest.raises(UnsupportedError, match="SB3 could not load the result"):
            sbformat.sb3.load(algorithm, archive)
    elif name in LOST_FOR_NOTHING:
        sbformat.sb3.load(algorithm, archive, device="cpu")
    else:
        with pytest.warns(UserWarning, match="not as it was saved: "):
            sbformat.sb3.load(algorithm, archive, device="cpu", **({} if base == "ppo" else {"buffer_size": 16}))
    assert not list(tmp_path.iterdir())


def test_the_attack_is_real(tmp_path: Path) -> None:
    """SB3 runs it from the archive as it is."""
    marker = tmp_path / "ran"
    archive = archive_of("ppo", "activation", marker)
    with pytest.raises(TypeError):
        loaded("ppo", archive)
    assert marker.exists()


def test_a_call_of_a_harmful_name_is_never_kept(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    archive = with_keys(learning_rate=blob(call("os", "system", f"touch {marker}")))
    with pytest.raises(UnsupportedError, match="it cannot be allowed"):
        rebuild(archive, allow=["os.system"])
    made, _ = rebuild(archive, allow=["mine.Thing"])
    assert loaded("ppo", made).learning_rate == 3e-4
    assert not marker.exists()
