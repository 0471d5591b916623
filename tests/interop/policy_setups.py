"""The agents of the matrix: every algorithm with each space, and with each option that changes what it computes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN
from torch import nn

from tests.interop.policy_agents import (
    ACTIONS,
    ACTIONS_OF,
    ALGORITHMS,
    DICT,
    FIRST_ACTION,
    FIRST_DICT,
    FLOAT_IMAGE_DICT,
    GOALS,
    IMAGE_FIRST,
    IMAGE_FLOATS,
    IMAGE_LAST,
    MULTI_DISCRETE_DICT,
    OBSERVATIONS,
    ON_POLICY,
    SMALL,
    SMALL_CNN,
    SMALL_DICT,
    VECTOR,
    Setup,
    policy_name,
    small_kwargs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CRITICS: Final = ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
VALUES: Final = ("DQN", "QRDQN")
WITH_CNN: Final = tuple(name for name in ALGORITHMS if name not in ("ARS", "CrossQ"))
"""ARS and CrossQ have an MlpPolicy alone (and ARS a LinearPolicy)."""
PI_VF_ALGORITHMS: Final = (*ON_POLICY, "MaskablePPO", "RecurrentPPO")

ACTIVATIONS: Final[dict[str, Any]] = {
    **{
        name: getattr(nn, name)
        for name in (
            "ReLU", "RReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU",
            "CELU", "SELU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink", "PReLU",
            "Softsign", "Tanhshrink", "Softmin", "Softmax", "LogSoftmax", "Identity", "Dropout", "AlphaDropout",
            "Flatten",
        )
    },
    "PReLU-each": partial(nn.PReLU, num_parameters=6),
    "LeakyReLU-0.2": partial(nn.LeakyReLU, 0.2),
    "LeakyReLU-keyword": partial(nn.LeakyReLU, negative_slope=0.3, inplace=True),
    "ELU-0.5": partial(nn.ELU, alpha=0.5),
    "CELU-2": partial(nn.CELU, 2.0),
    "GELU-tanh": partial(nn.GELU, approximate="tanh"),
    "Softmax-1": partial(nn.Softmax, dim=1),
    "Softmax-last": partial(nn.Softmax, -1),
    "LogSoftmax-1": partial(nn.LogSoftmax, dim=-1),
    "Softmin-1": partial(nn.Softmin, dim=1),
    "Softplus-2": partial(nn.Softplus, 2, 0.5),
    "Hardtanh-own": partial(nn.Hardtanh, -0.3, 0.7),
    "Hardshrink-own": partial(nn.Hardshrink, 0.1),
    "Softshrink-own": partial(nn.Softshrink, lambd=0.2),
    "RReLU-own": partial(nn.RReLU, 0.1, 0.2),
    "Dropout-0.9": partial(nn.Dropout, 0.9),
}  # fmt: skip

COMMON: Final[dict[str, dict[str, Any]]] = {
    "no_layers": {"net_arch": []},
    "one_layer": {"net_arch": [5]},
    "three_layers": {"net_arch": [5, 7, 6], "activation_fn": nn.ELU},
    "normalize_images": {"normalize_images": False},
    "flatten": {"features_extractor_class": FlattenExtractor, "features_extractor_kwargs": {}},
}
PI_VF: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "unequal": {"net_arch": {"pi": [5], "vf": [6, 7]}},
    "only_pi": {"net_arch": {"pi": [5, 6]}},
    "only_vf": {"net_arch": {"vf": [6]}},
    "empty_dict": {"net_arch": {}},
    "old_list": {"net_arch": [{"pi": [5], "vf": []}]},
    "ortho_init": {"ortho_init": False, **SMALL},
    "separate_extractors": {"share_features_extractor": False, **SMALL},
}
PI_QF: Final[dict[str, dict[str, Any]]] = {
    "unequal": {"net_arch": {"pi": [5], "qf": [6, 7]}},
    "no_layers_dict": {"net_arch": {"pi": [], "qf": []}},
    "one_critic": {"n_critics": 1, **SMALL},
    "three_critics": {"n_critics": 3, **SMALL},
    "shared_extractor": {"share_features_extractor": True, **SMALL},
}
LSTM: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "layers": {"n_lstm_layers": 2},
    "three_layers_small": {"n_lstm_layers": 3, "net_arch": [4]},
    "shared": {"shared_lstm": True, "enable_critic_lstm": False},
    "no_critic": {"enable_critic_lstm": False},
    "no_critic_separate": {"enable_critic_lstm": False, "share_features_extractor": False},
    "no_bias": {"lstm_kwargs": {"bias": False}},
    "dropout": {"lstm_kwargs": {"dropout": 0.5}, "n_lstm_layers": 2},
    "none": {"lstm_kwargs": None},
}
OPTIONS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    **{name: {**COMMON, **PI_VF} for name in (*ON_POLICY, "MaskablePPO")},
    "RecurrentPPO": {**COMMON, **PI_VF, **LSTM},
    "DQN": {"defaults": {}, **COMMON},
    "QRDQN": {**COMMON, "seven_quantiles": {"n_quantiles": 7}, "one_quantile": {"n_quantiles": 1}},
    **{name: {"defaults": {}, **COMMON, **PI_QF} for name in ("SAC", "TD3", "DDPG")},
    "TQC": {**COMMON, **PI_QF, "quantiles": {"n_quantiles": 7, "n_critics": 3, **SMALL}},
    "CrossQ": {
        **COMMON, **PI_QF,
        "no_norm": {"batch_norm": False, **SMALL},
        "norm_options": {"renorm_warmup_steps": 3, "batch_norm_eps": 0.1, "batch_norm_momentum": 0.5, **SMALL},
        "norm_no_layers": {"net_arch": {"pi": [], "qf": [4]}},
    },
    "ARS": {
        "defaults": {}, "no_layers": {"net_arch": []}, "layers": {"net_arch": [5, 6], "activation_fn": nn.PReLU},
        "no_bias": {"with_bias": False, **SMALL}, "no_squash": {"squash_output": False, **SMALL},
    },
}  # fmt: skip
SDE_ON_POLICY: Final[dict[str, dict[str, Any]]] = {
    "sde": SMALL,
    "sde_full_std": {"full_std": False, **SMALL},
    "sde_squash": {"squash_output": True, **SMALL},
    "sde_expln": {"use_expln": True, "log_std_init": 0.5, **SMALL},
    "sde_all": {"full_std": False, "squash_output": True, "use_expln": True, "net_arch": []},
}
SDE_CRITICS: Final[dict[str, dict[str, Any]]] = {
    "sde": SMALL,
    "sde_no_clip": {"clip_mean": 0.0, **SMALL},
    "sde_clip": {"clip_mean": 0.05, "use_expln": True, **SMALL},
    "sde_no_layers": {"net_arch": []},
}


def list_spaces() -> Iterator[Setup]:
    """Every algorithm with each observation space, and with each action space."""
    for name in ALGORITHMS:
        for label, space in OBSERVATIONS.items():
            if name == "RecurrentPPO" and isinstance(space, spaces.MultiDiscrete):
                continue  # torch's LSTM refuses the numpy number that SB3 computes for it
            kwargs = small_kwargs(name, SMALL)
            yield Setup(f"from_{label}", name, policy_name(name, "Mlp"), space, FIRST_ACTION[name], kwargs)
        for label in ACTIONS_OF[name]:
            kwargs = small_kwargs(name, SMALL)
            yield Setup(f"to_{label}", name, policy_name(name, "Mlp"), VECTOR, ACTIONS[label], kwargs)
    for squash in (False, True):
        for bias in (False, True):
            for label in ("asymmetric", "half", "discrete_start"):
                kwargs = {"with_bias": bias, "squash_output": squash}
                yield Setup(f"{label}-{bias}-{squash}", "ARS", "LinearPolicy", VECTOR, ACTIONS[label], kwargs)


def list_options() -> Iterator[Setup]:
    """Every algorithm with each option of its policy; activations with one algorithm a family."""
    for name, options in OPTIONS.items():
        for label, kwargs in options.items():
            small = kwargs if label == "defaults" else small_kwargs(name, kwargs)
            yield Setup(label, name, policy_name(name, "Mlp"), VECTOR, FIRST_ACTION[name], small)
    for name in ("PPO", "SAC", "DQN"):
        for label, activation in ACTIVATIONS.items():
            kwargs = {"activation_fn": activation, "net_arch": [6, 6]}
            yield Setup(f"activation_{label}", name, "MlpPolicy", VECTOR, FIRST_ACTION[name], kwargs)
    for name in ALGORITHMS:
        kwargs = small_kwargs(name, {"activation_fn": nn.PReLU, **SMALL})
        yield Setup("learned_slopes", name, policy_name(name, "Mlp"), VECTOR, FIRST_ACTION[name], kwargs)


def list_noise() -> Iterator[Setup]:
    """State-dependent noise (gSDE) for each algorithm that has it."""
    for name, options in (
        *((name, SDE_ON_POLICY) for name in ("PPO", "A2C", "RecurrentPPO")),
        *((name, SDE_CRITICS) for name in ("SAC", "TQC", "CrossQ")),
    ):
        for label, kwargs in options.items():
            small = small_kwargs(name, kwargs)
            action = FIRST_ACTION[name]
            yield Setup(label, name, policy_name(name, "Mlp"), VECTOR, action, small, {"use_sde": True})
    for name in ("PPO", "RecurrentPPO", "SAC"):
        for kind, space, kwargs in (("Cnn", IMAGE_LAST, SMALL_CNN), ("MultiInput", DICT, SMALL_DICT)):
            small = small_kwargs(name, kwargs)
            yield Setup("noisy", name, policy_name(name, kind), space, FIRST_ACTION[name], small, {"use_sde": True})


def list_images() -> Iterator[Setup]:
    """Images for each algorithm, through NatureCNN."""
    for name in WITH_CNN:
        action, cnn = FIRST_ACTION[name], policy_name(name, "Cnn")
        small = small_kwargs(name, SMALL_CNN)
        yield Setup("first", name, cnn, IMAGE_FIRST, action, small)
        yield Setup("last", name, cnn, IMAGE_LAST, action, small)
        yield Setup("floats", name, cnn, IMAGE_FLOATS, action, {**small, "normalize_images": False})
        yield Setup("not_normalized", name, cnn, IMAGE_LAST, action, {**small, "normalize_images": False})
        given = {**small, "features_extractor_class": NatureCNN}
        yield Setup("cnn_given", name, policy_name(name, "Mlp"), IMAGE_LAST, action, given)
        for share in (True, False) if name not in VALUES else ():
            yield Setup(f"share_{share}", name, cnn, IMAGE_FIRST, action, {**small, "share_features_extractor": share})
    for name in ("PPO", "DQN", "SAC", "TD3", "TQC", "QRDQN"):
        yield Setup("all_defaults", name, "CnnPolicy", IMAGE_FIRST, FIRST_ACTION[name])


def list_dicts() -> Iterator[Setup]:
    """Dict observations for each algorithm, through CombinedExtractor; and HER."""
    for name in WITH_CNN:
        action, multi = FIRST_ACTION[name], policy_name(name, "MultiInput")
        small = small_kwargs(name, SMALL_DICT)
        yield Setup("dict", name, multi, DICT, action, small)
        yield Setup("images_first", name, multi, FIRST_DICT, action, small)
        yield Setup("not_normalized", name, multi, DICT, action, {**small, "normalize_images": False})
        yield Setup("float_image", name, multi, FLOAT_IMAGE_DICT, action, {**small, "normalize_images": False})
        if name != "RecurrentPPO":
            yield Setup("multi_discrete", name, multi, MULTI_DISCRETE_DICT, action, {"net_arch": [4]})
        given = {**small, "features_extractor_class": CombinedExtractor}
        yield Setup("combined_given", name, multi, GOALS, action, given)
        for share in (True, False) if name not in VALUES else ():
            yield Setup(f"share_{share}", name, multi, DICT, action, {**small, "share_features_extractor": share})
    for name in ("DQN", "SAC", "TD3", "DDPG", "TQC", "QRDQN"):
        kwargs, options = {"net_arch": [5, 4]}, {"replay_buffer_class": HerReplayBuffer}
        yield Setup("her", name, "MultiInputPolicy", GOALS, FIRST_ACTION[name], kwargs, options)
    for name in ("PPO", "DQN", "SAC"):
        yield Setup("all_defaults", name, "MultiInputPolicy", DICT, FIRST_ACTION[name])


SETUPS: Final = [*list_spaces(), *list_options(), *list_noise(), *list_images(), *list_dicts()]
_SAVED: Final = ("from_float32", "from_multi_discrete", "first", "dict", "her", "sde", "asymmetric-True-True")
SAVED: Final = [setup for setup in SETUPS if setup.label in _SAVED]
"""Agents of every algorithm and policy: what the installed releases write is rebuilt for others."""


def list_normalized() -> Iterator[tuple[Setup, dict[str, Any]]]:
    """Agents behind VecNormalize, with its options."""
    for label, name, kind, space, options in (
        ("vector", "PPO", "Mlp", VECTOR, {}),
        ("float64", "SAC", "Mlp", OBSERVATIONS["float64"], {"clip_obs": 0.7, "epsilon": 1e-2}),
        ("matrix", "DQN", "Mlp", OBSERVATIONS["matrix"], {}),
        ("integers", "TD3", "Mlp", OBSERVATIONS["integers"], {}),
        ("image", "PPO", "Cnn", IMAGE_FIRST, {}),
        ("image_last", "PPO", "Cnn", IMAGE_LAST, {}),
        ("unchanged", "PPO", "Mlp", spaces.Discrete(4), {"norm_obs": False}),
        ("goals", "SAC", "MultiInput", GOALS, {"clip_obs": 3.0}),
        ("keys", "PPO", "MultiInput", MULTI_DISCRETE_DICT, {"norm_obs_keys": ["v"]}),
        ("lstm", "RecurrentPPO", "Mlp", VECTOR, {}),
        ("ars", "ARS", "Linear", VECTOR, {}),
    ):
        kwargs = SMALL_CNN if kind == "Cnn" else small_kwargs(name, {})  # SB3 divides the normalized image by 255
        yield Setup(label, name, policy_name(name, kind), space, FIRST_ACTION[name], kwargs), options


NORMALIZED: Final = {setup.label: (setup, options) for setup, options in list_normalized()}
