"""Make small agents of Stable Baselines 2.10.2, with what it predicts; run on Python 3.7.

    pip install tensorflow==1.15.5 "protobuf<3.21" "numpy<1.19" "cloudpickle<1.7" scipy pandas joblib gym==0.17.3
    pip install --no-deps stable-baselines==2.10.2
    python tests/nets/archives/sb2/make.py tests/nets/archives/sb2 small
    python tests/nets/archives/sb2/make.py tests/nets/archives/sb2 converted
    python tests/nets/archives/sb2/make.py /tmp/large large
    pip install --no-deps stable-baselines==2.0.0
    python tests/nets/archives/sb2/make.py tests/nets/archives/sb2 2.0
    pip install --no-deps stable-baselines==2.5.0
    python tests/nets/archives/sb2/make.py tests/nets/archives/sb2 2.5

Releases before 2.4 need ``async`` renamed, a keyword of Python since.
A module of the name mpi4py that says it is alone will do: nothing is trained. Instead every parameter is set to random
numbers, so that no bias is 0 and no scale is 1. Each agent is one zip, of the old releases a pickle;
``NAME.predict.npz`` beside it contains ``observations``, deterministic ``actions``, and as SB2 has them
``probabilities`` (for a Box mean and deviation), ``value``, ``q_values``, ``samples`` (actions drawn for the first
observation), for an LSTM ``masks`` and ``states`` (after each step), and of an actor with critics ``critics``, their
values of the observations with the actions ``tried``, from -1 to 1.
"""

# ruff: noqa: NPY002, T201 -- a program, for a release of numpy without generators

from __future__ import annotations

import inspect
import pathlib
import sys
from typing import Any

import gym
import numpy as np
import stable_baselines
import tensorflow as tf
from gym import spaces
from stable_baselines.common.vec_env import DummyVecEnv

try:
    from stable_baselines.common.bit_flipping_env import BitFlippingEnv
    from stable_baselines.common.noise import AdaptiveParamNoiseSpec, NormalActionNoise, OrnsteinUhlenbeckActionNoise
except ImportError:  # old releases
    from stable_baselines.ddpg.noise import AdaptiveParamNoiseSpec, NormalActionNoise, OrnsteinUhlenbeckActionNoise

STEPS, SAMPLES = 24, 256
VECTORIZED = {"A2C", "ACER", "ACKTR", "PPO2"}
ON_POLICY = {*VECTORIZED, "GAIL", "PPO1", "TRPO"}

BOX4 = spaces.Box(-2.0, 3.0, (4,), np.float32)
BOX23_64 = spaces.Box(-1.0, 1.0, (2, 3), np.float64)
PIXELS = spaces.Box(0, 255, (3, 4, 2), np.uint8)
IMAGE = spaces.Box(0, 255, (36, 38, 3), np.uint8)
TINY = spaces.Box(0, 255, (7, 5, 1), np.uint8)
UNEVEN = spaces.Box(np.linspace(-1, 0, 35).reshape(7, 5, 1), np.linspace(1, 9, 35).reshape(7, 5, 1), dtype=np.float32)
UNBOUNDED = spaces.Box(-np.inf, np.inf, (7, 5, 1), np.float32)
FLAT = spaces.Box(1.0, 1.0, (7, 5, 1), np.float32)
SIGNED = spaces.Box(-100, 100, (7, 5, 1), np.int8)
FIVE = spaces.Discrete(5)
DISCRETE = spaces.Discrete(3)
MULTI = spaces.MultiDiscrete([2, 3, 4])
BITS = spaces.MultiBinary(4)
ARM = spaces.Box(np.float32([-1.0, 0.5]), np.float32([2.0, 0.75]), dtype=np.float32)
ARM_64 = spaces.Box(-0.4, 0.4, (2,), np.float64)
NN = tf.nn


def noise(kind: Any, mean: float = 0.1) -> Any:
    return kind(mean=mean * np.ones(2), sigma=np.array([0.3, 0.0]))


# Name, algorithm, policy, its keywords, observations, actions, the algorithm's keywords.
SMALL = [
    ("ppo2-elu-box64", "PPO2", "MlpPolicy", {"act_fun": NN.elu, "net_arch": [8, {"vf": [6], "pi": [5, 4]}]},
     BOX23_64, ARM, {}),
    ("ppo2-relu6-image", "PPO2", "MlpPolicy", {"act_fun": NN.relu6, "net_arch": [{"pi": [6]}]}, PIXELS, ARM_64, {}),
    ("a2c-no-layers", "A2C", "MlpPolicy", {"layers": []}, BOX4, DISCRETE, {}),
    ("a2c-leaky-bits", "A2C", "MlpPolicy", {"act_fun": NN.leaky_relu, "net_arch": [7]}, BITS, MULTI, {}),
    ("acktr-sigmoid-box", "ACKTR", "MlpPolicy", {"act_fun": tf.sigmoid, "layers": [6, 5]}, BOX4, ARM, {}),
    ("acer-swish", "ACER", "MlpPolicy", {"act_fun": NN.swish, "layers": [6]}, MULTI, DISCRETE, {}),
    ("trpo-bits", "TRPO", "MlpPolicy", {"layers": [6]}, BOX4, BITS, {}),
    ("ppo1-softplus", "PPO1", "MlpPolicy", {"act_fun": NN.softplus, "layers": [6]}, FIVE, MULTI, {}),
    ("gail-identity", "GAIL", "MlpPolicy", {"act_fun": tf.identity, "layers": [6]}, BOX4, DISCRETE, {}),
    ("ppo2-keywords", "PPO2", "FeedForwardPolicy",
     {"feature_extraction": "mlp", "layers": [6], "act_fun": NN.softsign}, BOX4, DISCRETE, {}),
    ("ppo2-lstm-arch", "PPO2", "MlpLstmPolicy",
     {"n_lstm": 5, "net_arch": [6, "lstm", 4, {"pi": [3], "vf": [5, 4]}], "act_fun": NN.relu}, BOX4, ARM, {}),
    ("a2c-lnlstm-arch", "A2C", "MlpLnLstmPolicy", {"n_lstm": 5, "net_arch": ["lstm", {"vf": [5]}]}, BOX4, MULTI, {}),
    ("acer-lstm-two", "ACER", "MlpLstmPolicy", {"n_lstm": 4, "layers": [6]}, FIVE, DISCRETE, {"n_envs": 2}),
    ("dqn-ln-tanh", "DQN", "LnMlpPolicy", {"layers": [6, 7], "act_fun": tf.tanh}, BOX4, DISCRETE, {}),
    ("dqn-no-layers", "DQN", "MlpPolicy", {"layers": [], "dueling": False}, BITS, DISCRETE, {}),
    ("dqn-noise", "DQN", "MlpPolicy", {"layers": [6]}, FIVE, DISCRETE, {"param_noise": True}),
    ("sac-softplus", "SAC", "MlpPolicy", {"layers": [7], "act_fun": NN.softplus, "reg_weight": 0.1}, BOX4, ARM, {}),
    ("sac-ln-box64", "SAC", "LnMlpPolicy", {"layers": [7, 6]}, BOX23_64, ARM_64, {"ent_coef": "auto"}),
    ("td3-noise", "TD3", "MlpPolicy", {"layers": [7]}, BOX4, ARM, {"action_noise": noise(NormalActionNoise)}),
    ("td3-selu-ln", "TD3", "FeedForwardPolicy",
     {"layers": [7, 5], "feature_extraction": "mlp", "layer_norm": True, "act_fun": NN.selu}, MULTI, ARM_64, {}),
    ("ddpg-normalized", "DDPG", "MlpPolicy", {"layers": [7]}, BOX4, ARM,
     {"normalize_observations": True, "normalize_returns": True, "action_noise": noise(NormalActionNoise)}),
    ("ddpg-perturbed", "DDPG", "LnMlpPolicy", {"layers": [7, 6]}, spaces.Box(-9, 9, (3,), np.float32), ARM_64,
     {"param_noise": AdaptiveParamNoiseSpec(), "observation_range": (-2.0, 4.0)}),
    ("ddpg-walk", "DDPG", "MlpPolicy", {"layers": [7]}, FIVE, ARM,
     {"action_noise": noise(OrnsteinUhlenbeckActionNoise)}),
    ("her-sac", "SAC", "MlpPolicy", {"layers": [7]}, "box", True, {}),
    ("her-dqn-bits", "DQN", "MlpPolicy", {"layers": [6]}, "bits", False, {}),
    ("her-dqn-discrete", "DQN", "LnMlpPolicy", {"layers": [6]}, "discrete", False, {}),
    ("her-ddpg-bits", "DDPG", "MlpPolicy", {"layers": [6]}, "bits", True, {"normalize_observations": True}),
    ("ppo2-cnn-same", "PPO2", "CnnPolicy", {"pad": "SAME", "one_dim_bias": True}, UNEVEN, DISCRETE, {}),
]  # fmt: skip
LARGE = [
    ("ppo2-cnn-lstm", "PPO2", "CnnLstmPolicy", {"n_lstm": 6}, IMAGE, DISCRETE, {}),
    ("a2c-cnn-lnlstm", "A2C", "CnnLnLstmPolicy", {"n_lstm": 6, "pad": "SAME"}, TINY, ARM, {}),
    ("acer-cnn", "ACER", "CnnPolicy", {}, IMAGE, DISCRETE, {}),
    ("acktr-cnn-signed", "ACKTR", "CnnPolicy", {"pad": "SAME"}, SIGNED, DISCRETE, {}),
    ("trpo-cnn-unscaled", "TRPO", "CnnPolicy", {"pad": "SAME"}, UNBOUNDED, ARM, {}),
    ("ppo2-cnn-flat", "PPO2", "CnnPolicy", {"pad": "SAME"}, FLAT, ARM, {}),
    ("dqn-lncnn", "DQN", "LnCnnPolicy", {"layers": [8]}, IMAGE, DISCRETE, {}),
    ("dqn-cnn-same", "DQN", "CnnPolicy", {"layers": [8], "pad": "SAME", "dueling": False}, TINY, DISCRETE, {}),
    ("sac-lncnn", "SAC", "LnCnnPolicy", {"layers": [8], "pad": "SAME"}, TINY, ARM, {}),
    ("td3-cnn", "TD3", "CnnPolicy", {"layers": [8], "pad": "SAME", "one_dim_bias": True}, TINY, ARM, {}),
    ("ddpg-cnn", "DDPG", "CnnPolicy", {"layers": [8], "pad": "SAME"}, TINY, ARM, {"normalize_observations": True}),
    ("dqn-cnn-dueling", "DQN", "CnnPolicy", {"layers": [8, 7]}, IMAGE, DISCRETE, {}),
    ("ddpg-cnn-valid", "DDPG", "CnnPolicy", {"layers": [8, 7]}, IMAGE, ARM, {}),
    ("td3-cnn-valid", "TD3", "CnnPolicy", {"layers": [8]}, IMAGE, ARM, {}),
    ("ppo2-default", "PPO2", "MlpPolicy", {}, BOX4, ARM, {}),
    ("ppo2-lstm-default", "PPO2", "MlpLstmPolicy", {}, BOX4, DISCRETE, {}),
]  # fmt: skip

# What rebuild converts to SB3.
CONVERTED = [
    ("ppo2-lstm-first", "PPO2", "MlpLstmPolicy",
     {"n_lstm": 5, "net_arch": ["lstm", 4, {"pi": [3], "vf": [5, 4]}], "act_fun": NN.relu}, BOX4, ARM, {}),
    ("ppo2-lstm-direct", "PPO2", "MlpLstmPolicy", {"n_lstm": 4, "layers": []}, PIXELS, MULTI, {}),
    ("a2c-lstm-bits", "A2C", "MlpLstmPolicy", {"n_lstm": 4, "net_arch": ["lstm"]}, BITS, DISCRETE, {"n_envs": 2}),
    ("dqn-leaky-image", "DQN", "MlpPolicy", {"layers": [6, 5], "act_fun": NN.leaky_relu}, PIXELS, DISCRETE, {}),
    ("sac-image", "SAC", "MlpPolicy", {"layers": [7, 5]}, PIXELS, ARM, {"ent_coef": 0.2}),
    ("sac-auto", "SAC", "MlpPolicy", {"layers": [6]}, BOX23_64, ARM, {"ent_coef": "auto_0.5"}),
    ("td3-tanh", "TD3", "MlpPolicy", {"layers": [7, 5], "act_fun": tf.tanh}, FIVE, ARM_64,
     {"action_noise": noise(OrnsteinUhlenbeckActionNoise)}),
    ("ddpg-deep", "DDPG", "MlpPolicy", {"layers": [7, 5, 4]}, spaces.Box(-9, 9, (3,), np.float32), ARM_64,
     {"normalize_returns": True, "observation_range": (-2.0, 4.0)}),
    ("ddpg-elu", "DDPG", "MlpPolicy", {"layers": [6, 5], "act_fun": NN.elu}, BITS, ARM, {}),
    ("ddpg-tanh", "DDPG", "MlpPolicy", {"layers": [6], "act_fun": tf.tanh}, BOX4, ARM, {}),
    ("her-td3", "TD3", "MlpPolicy", {"layers": [7]}, "box", True, {}),
]  # fmt: skip
OLD = [("dqn-first", "DQN", "LnMlpPolicy", {}, BOX4, DISCRETE, {})]
MIDDLE = [("ddpg-list", "DDPG", "LnMlpPolicy", {"layers": [7, 6]}, BOX4, ARM_64, {"normalize_observations": True})]
SETS = {"small": SMALL, "large": LARGE, "converted": CONVERTED, "2.0": OLD, "2.5": MIDDLE}


class Env(gym.Env):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self) -> Any:
        return self.observation_space.sample()

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, {}


class GoalEnv(Env):
    """The parts of an observation are vectors of different widths."""

    def __init__(self) -> None:
        widths = {"desired_goal": 2, "observation": 3, "achieved_goal": 2}
        boxes = {key: spaces.Box(-1.0, 1.0, (width,), np.float32) for key, width in widths.items()}
        super().__init__(spaces.Dict(boxes), ARM)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> float:
        return 0.0


class NoExpert:
    init_pointer = log_info = prepare_pickling = lambda *_: None


def make_goal_env(kind: str, *, is_continuous: bool) -> Any:
    if kind == "box":
        return GoalEnv()
    return BitFlippingEnv(4, continuous=is_continuous, discrete_obs_space=kind == "discrete")


def make_model(name: str, algorithm: str, policy: str, keywords: Any, seen: Any, acted: Any, settings: Any) -> Any:
    settings = {**settings, "policy_kwargs": keywords} if keywords else dict(settings)
    cls = getattr(stable_baselines, algorithm, None)
    if cls is None:
        cls = getattr(__import__(f"stable_baselines.{algorithm.lower()}", fromlist=[algorithm]), algorithm)
    if algorithm in ("DDPG", "SAC", "TD3", "DQN"):
        has_limit = "memory_limit" in inspect.signature(cls.__init__).parameters
        settings["memory_limit" if has_limit else "buffer_size"] = 10
    if policy == "FeedForwardPolicy":
        module = "common" if algorithm in ON_POLICY else algorithm.lower()
        policy = getattr(__import__(f"stable_baselines.{module}.policies", fromlist=[policy]), policy)
    if name.startswith("her"):
        return stable_baselines.HER(policy, make_goal_env(seen, is_continuous=acted), cls, **settings)
    count = settings.pop("n_envs", 1)
    env: Any = Env(seen, acted)
    if algorithm in VECTORIZED:
        env = DummyVecEnv([lambda: Env(seen, acted)] * count)
        settings["n_steps"] = 4
        if algorithm == "PPO2":
            settings["nminibatches"] = 1
    if algorithm == "GAIL":
        settings["expert_dataset"] = NoExpert()
    return cls(policy, env, **settings)


def unwrap(model: Any) -> Any:
    """Return the model that has the session: of HER and GAIL another one."""
    return model.model if type(model).__name__ == "HER" else getattr(model, "trpo", model)


def randomize(model: Any, random: Any) -> None:
    """Set all parameters; statistics to sums of 40 observations."""
    with model.sess.graph.as_default():
        variables = tf.trainable_variables() + [each for each in tf.global_variables() if "_rms/" in each.name]
    for variable in variables:
        name, value = variable.name, model.sess.run(variable)
        made = value + 0.2 * random.normal(size=value.shape)
        if "_rms/count" in name:
            made = np.array(40.0)
        elif "_rms/runningsumsq" in name:
            made = 40 * (0.5 + random.uniform(size=value.shape))
        elif "_rms/runningsum" in name:
            made = 40 * 0.4 * random.normal(size=value.shape)
        elif name == "deepq/eps:0":
            made = np.array(0.4)
        variable.load(made.astype(value.dtype), model.sess)


def observe(space: Any, random: Any) -> Any:
    """Draw observations, a few beyond the bounds that unbounded or narrow spaces have."""
    space.seed(int(random.randint(1 << 30)))
    return np.stack([space.sample() for _ in range(STEPS)])


def record_lstm(model: Any, observations: Any, count: int, random: Any) -> Any:
    state, actions, states, values = None, [], [], []
    masks = random.uniform(size=(STEPS, count)) < 0.2
    policy = getattr(model, "act_model", None) or model.step_model
    for step in range(STEPS):
        batch = np.stack([observations[(step + 5 * at) % STEPS] for at in range(count)])
        before = model.initial_state if state is None else state
        values.append(policy.value(batch, before, masks[step]))
        action, state = model.predict(batch, state, masks[step], deterministic=True)
        actions.append(action)
        states.append(state)
    return {"masks": masks, "actions": np.stack(actions), "states": np.stack(states), "value": np.stack(values)}


def record(model: Any, observations: Any) -> Any:
    found = {"actions": np.stack([model.predict(seen, deterministic=True)[0] for seen in observations])}
    inner = unwrap(model)
    kind = type(inner).__name__
    is_first = kind == "DQN" and not hasattr(inner, "step_model")
    if kind in ("PPO2", "A2C", "ACKTR", "TRPO", "PPO1", "GAIL"):
        policy = getattr(inner, "act_model", None) or getattr(inner, "step_model", None) or inner.policy_pi
        found["value"] = policy.value(observations)
    elif kind == "ACER":
        policy = inner.step_model
        found["q_values"] = policy.sess.run(policy.q_value, {policy.obs_ph: observations})
    elif kind == "DQN" and not is_first:
        found["q_values"] = inner.step_model.step(observations)[1]
    elif kind == "SAC":
        found["value"] = inner.sess.run(inner.policy_tf.value_fn, {inner.observations_ph: observations})[:, 0]
        found["probabilities"] = np.stack(inner.policy_tf.proba_step(observations))
    if kind not in ("DDPG", "SAC", "TD3") and not is_first:
        probabilities = model.action_probability(observations)
        if isinstance(inner.action_space, spaces.MultiDiscrete):
            probabilities = np.concatenate(probabilities, axis=-1)
        found["probabilities"] = np.stack(probabilities)
    found["samples"] = np.stack([model.predict(observations[0], deterministic=False)[0] for _ in range(SAMPLES)])
    return found


def record_critics(model: Any, observations: Any, random: Any) -> Any:
    """Return the values that the critics give to actions."""
    tried = random.uniform(-1, 1, (STEPS, *model.action_space.shape)).astype(np.float32)
    if type(model).__name__ == "DDPG":
        critics, placeholders = [model.critic_tf], (model.obs_train, model.actions)
    else:
        placeholders = model.observations_ph, model.actions_ph
        given = {"create_vf": False} if type(model).__name__ == "SAC" else {}
        with model.graph.as_default(), tf.variable_scope("model", reuse=True):
            made = model.policy_tf.make_critics(model.processed_obs_ph, model.actions_ph, reuse=True, **given)
        critics = [critic for critic in made[:2] if critic is not None]
    values = model.sess.run(critics, dict(zip(placeholders, (observations, tried))))
    return {"tried": tried, "critics": np.concatenate(values, axis=-1)}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    has_zips = sys.argv[2] in ("small", "large", "converted")
    for number, row in enumerate(SETS[sys.argv[2]]):
        name, count = row[0], row[-1].get("n_envs", 1)
        random = np.random.RandomState(number)
        np.random.seed(number)  # of layers and of draws
        model = make_model(*row)
        inner = unwrap(model)
        randomize(inner, random)
        observations = observe(inner.observation_space, random)
        is_lstm = "lstm" in name
        found = record_lstm(model, observations, count, random) if is_lstm else record(model, observations)
        if sys.argv[2] == "converted" and type(inner).__name__ in ("DDPG", "SAC", "TD3"):
            found.update(record_critics(inner, observations, random))
        model.save(str(folder / f"{name}.{'zip' if has_zips else 'pkl'}"))
        np.savez(str(folder / f"{name}.predict.npz"), observations=observations, **found)
        print(name, {key: value.shape for key, value in found.items()})


if __name__ == "__main__":
    main()
