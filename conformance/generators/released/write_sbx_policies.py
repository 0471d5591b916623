"""Write small agents with the SBX (Stable Baselines Jax) that is installed, observations, and what it predicts for them.

    PYTHONPATH=REPOSITORY python write_sbx_policies.py OUT_FOLDER [NAME...]

Writes for each agent ``policy-sbx-NAME.zip``, ``.input.json`` and ``.expect.json`` (conformance/README.md, "Policies").
Python 3.13.14, sbx-rl 0.28.0, jax 0.11.2, flax 0.12.12, stable-baselines3 2.9.2, sb3-contrib 2.9.2, gymnasium 1.4.0 and numpy
2.5.5 wrote what is here. Weights are random multiples of 1/64. What is predicted is what SBX predicts with the agent that it
loads from its archive. From the archive that is written here, SBX's functions, the state of the optimizer and the target
networks are left out, so that it is small. That of ``whole`` has them.
"""

from __future__ import annotations

import base64
import io
import os
import pickle
import sys
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

os.environ["JAX_PLATFORMS"] = "cpu"

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import sbx
from gymnasium import spaces
from stable_baselines3.common import save_util
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from conformance.generators.released.write_policies import (
    IMAGE,
    OFF_POLICY,
    PAIR,
    PPO,
    THREE,
    VECTOR,
    Case,
    Spaces,
    is_batch,
    make_steps,
    randomize_statistics,
    shrink,
    tag,
    write_file,
    write_texts,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Mapping

SIX = {"net_arch": [6]}
LEFT_OUT = [
    "actor", "qf", "vf", "key", "ent_coef_state", "policy_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs",
    "replay_buffer_class", "replay_buffer_kwargs", "lr_schedule", "learning_rate", "clip_range", "clip_range_vf",
    "clip_range_schedule", "ep_info_buffer", "ep_success_buffer", "_last_obs", "train_freq", "exploration_schedule",
    "action_noise", "_last_episode_starts", "start_time", "ent_coef_init",
]  # fmt: skip
STATES = ("actor_state", "vf_state", "qf_state", "qf1_state", "qf2_state")
VECTORS = spaces.Dict([("speed", spaces.Box(-1, 1, (2,), np.float32)), ("goal", spaces.Box(-1, 1, (3,), np.float32))])


def ppo(
    space: spaces.Space = VECTOR, actions: spaces.Space = THREE, network: Mapping[str, Any] = SIX, **others: Any
) -> Case:
    return Case(sbx.PPO, "MlpPolicy", space, actions, network, PPO, **others)


def off_policy(
    algorithm: type,
    policy: str = "MlpPolicy",
    actions: spaces.Space = PAIR,
    network: Mapping[str, Any] = SIX,
    **others: Any,
) -> Case:
    return Case(algorithm, policy, others.pop("space", VECTOR), actions, network, OFF_POLICY, **others)


def activation(function: Any) -> Case:
    return ppo(actions=PAIR, network={**SIX, "activation_fn": function})


CASES: dict[str, Case] = {
    "whole": ppo(actions=PAIR),
    "ppo": ppo(),
    "ppo-box": ppo(actions=PAIR, network={"net_arch": {"pi": [6, 5], "vf": [4]}}),
    "ppo-multi-discrete": ppo(actions=spaces.MultiDiscrete([3, 2, 4])),
    "ppo-multi-binary": ppo(actions=spaces.MultiBinary(3)),
    "ppo-no-layers": ppo(network={"net_arch": []}),
    "ppo-observes-discrete": ppo(spaces.Discrete(5)),
    "ppo-observes-multi-discrete": ppo(spaces.MultiDiscrete([3, 4])),
    "ppo-observes-bytes": ppo(spaces.Box(0, 255, (1, 2, 3), np.uint8), scale=1 / 64),
    "sac": off_policy(sbx.SAC, network={"net_arch": {"pi": [6], "qf": [5]}}),
    "sac-layer-norm": off_policy(sbx.SAC, network={**SIX, "layer_norm": True, "n_critics": 3}),
    "sac-simba": off_policy(sbx.SAC, "SimbaPolicy", network={"net_arch": [4, 4]}),
    "sac-wide": off_policy(sbx.SAC, scale=16),
    "sac-observes-dict": off_policy(sbx.SAC, "MultiInputPolicy", space=VECTORS),
    "sac-normalized": off_policy(sbx.SAC, statistics={"clip_obs": 1.5}),
    "tqc": off_policy(sbx.TQC, network={**SIX, "n_quantiles": 3}),
    "crossq": off_policy(sbx.CrossQ),
    "crossq-no-norm": off_policy(sbx.CrossQ, network={**SIX, "batch_norm_actor": False, "batch_norm": False}),
    "crossq-simba": off_policy(sbx.CrossQ, "SimbaPolicy", network={"net_arch": [4]}),
    "td3": off_policy(sbx.TD3),
    "ddpg": off_policy(sbx.DDPG),
    "dqn": off_policy(sbx.DQN, actions=THREE),
    "dqn-cnn": off_policy(sbx.DQN, "CnnPolicy", THREE, {"net_arch": [8]}, space=IMAGE, scale=1),
    "activation-gelu": activation(jax.nn.gelu),
    "activation-silu": activation(jax.nn.silu),
    "activation-elu": activation(jax.nn.elu),
    "activation-hard-tanh": activation(jax.nn.hard_tanh),
    "activation-softplus": activation(jax.nn.softplus),
}


# -- agents -------------------------------------------------------------------------------------------


def make_agent(case: Case, generator: np.random.Generator) -> tuple[Any, VecNormalize | None]:
    """Return an agent with random weights, and statistics."""
    environment: Any = DummyVecEnv([lambda: Spaces(case)])
    if case.statistics is not None:
        environment = VecNormalize(environment, **case.statistics)
        randomize_statistics(environment, generator)
    model = case.algorithm(case.policy, environment, policy_kwargs=dict(case.network), seed=0, **case.options)
    for name in STATES:
        if hasattr(model.policy, name):
            state = getattr(model.policy, name)
            params = randomize(state.params, case, generator)
            others = {"target_params": params} if hasattr(state, "target_params") else {}
            if hasattr(state, "batch_stats"):
                others["batch_stats"] = randomize(state.batch_stats, case, generator)
            setattr(model.policy, name, state.replace(params=params, **others))
    return model, environment if case.statistics is not None else None


def randomize(tree: Any, case: Case, generator: np.random.Generator) -> Any:
    """Set each array to multiples of 1/64; those of a CNN are mostly 0, so that they deflate."""

    def change(path: Any, array: Any) -> Any:
        if np.ndim(array) == 0:
            return array
        items = np.round(generator.normal(0, 40 * case.scale, array.shape)) / 64
        if items.size > 1000:
            items *= generator.random(array.shape) < 8 / np.prod(array.shape[:-1])
        return jnp.asarray(np.abs(items) + 0.5 if path[-1].key == "var" else items, jnp.float32)

    return jax.tree_util.tree_map_with_path(change, tree)


def dumps(value: Any) -> bytes:
    """Pickle a value without the folder of the libraries, which functions by value name."""
    folder = sys.prefix.encode()
    return cloudpickle.dumps(value).replace(folder, b"/home/user/venv".ljust(len(folder), b"-")[: len(folder)])


def save(model: Any) -> bytes:
    save_util.cloudpickle = SimpleNamespace(dumps=dumps, loads=cloudpickle.loads)
    made = io.BytesIO()
    model.save(made, exclude=LEFT_OUT)
    return made.getvalue()


def drop_training(policy: Any) -> None:
    """Remove what a network does not compute with."""
    for name in STATES:
        if hasattr(policy, name):
            state = getattr(policy, name)
            setattr(policy, name, state.replace(apply_fn=None, tx=None, opt_state=(), step=0))
    for name in ("actor", "qf", "vf"):
        for part in ("apply", "reset_noise"):
            if hasattr(policy, name):
                getattr(policy, name).__dict__.pop(part, None)
    for name in ("optimizer_class", "optimizer_kwargs", "actor_class", "vector_critic_class", "critic_class"):
        policy.__dict__.pop(name, None)


# -- predictions --------------------------------------------------------------------------------------


def predict_steps(
    case: Case, model: Any, steps: list[dict[str, Any]], statistics: VecNormalize | None
) -> list[dict[str, Any]]:
    made = []
    for step in steps:
        observation = step["observation"]
        if statistics is not None:
            observation = statistics.normalize_obs(observation)
        found = {"outputs": find_outputs(model, observation)} if is_batch(case, observation) else {}
        action, _ = model.predict(observation, deterministic=True)
        is_box = isinstance(case.action_space, spaces.Box)
        made.append({"action": action if is_box else action.astype(np.int64), **found})  # jax has int32, SB3 int64
    return made


def find_outputs(model: Any, observation: Any) -> dict[str, np.ndarray]:
    """The outputs of 19.7."""
    policy = model.policy
    seen, _ = policy.prepare_obs(observation)
    if isinstance(model, sbx.DQN):
        return {"q_values": apply(policy.qf_state, seen)}
    if isinstance(model, sbx.PPO):
        found = apply(policy.actor_state, seen)
        outputs = {"value": apply(policy.vf_state, seen)}
        if isinstance(model.action_space, spaces.Box):
            return {**outputs, "mean": found.loc, "log_std": jnp.broadcast_to(jnp.log(found.stddev()), found.loc.shape)}
        is_one = isinstance(model.action_space, spaces.Discrete)
        logits = found.logits if is_one else found.distribution.logits
        return {
            **outputs,
            "logits": logits if is_one else np.stack([row[np.isfinite(row)] for row in np.asarray(logits)]),
        }
    found = apply(policy.actor_state, seen)
    if isinstance(model, sbx.TD3):  # and DDPG
        return {"q_values": find_values(policy.qf_state, seen, found)}
    outputs = {"mean": found.distribution.loc, "log_std": jnp.log(found.distribution.stddev())}
    if not isinstance(model, sbx.TQC):
        return {**outputs, "q_values": find_values(policy.qf_state, seen, found.mode())}
    quantiles = jnp.stack([apply(state, seen, found.mode()) for state in (policy.qf1_state, policy.qf2_state)], 1)
    return {**outputs, "quantiles": quantiles, "q_values": quantiles.mean(2)}


def find_values(state: Any, observation: Any, action: Any) -> Any:
    return jnp.moveaxis(apply(state, observation, action)[..., 0], 0, 1)


def apply(state: Any, *arguments: Any) -> Any:
    if hasattr(state, "batch_stats"):
        return state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, *arguments, train=False)
    return state.apply_fn(state.params, *arguments)


# -- files --------------------------------------------------------------------------------------------


def write_case(name: str, case: Case, folder: str) -> None:
    generator = np.random.default_rng(list(name.encode()))
    model, statistics = make_agent(case, generator)
    steps = make_steps(case, generator)
    loaded = type(model).load(
        io.BytesIO(save(model)), device="cpu", custom_objects={"learning_rate": 0.0, "lr_schedule": float}
    )
    found = predict_steps(case, loaded, steps, statistics)
    asked: dict[str, Any] = {"steps": tag(steps)}
    if statistics is not None:
        statistics.venv = None
        asked["vecnormalize"] = base64.b64encode(pickle.dumps(statistics)).decode()
    write_texts(f"sbx-{name}", asked, found, folder)
    if name != "whole":
        drop_training(model.policy)
    write_file(f"sbx-{name}.zip", shrink(save(model)), folder)


def main() -> None:
    warnings.simplefilter("ignore")
    folder, *wanted = sys.argv[1:]
    for name in wanted or CASES:
        write_case(name, CASES[name], folder)
        print(name)


if __name__ == "__main__":
    main()
