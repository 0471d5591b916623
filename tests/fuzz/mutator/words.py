"""Names and texts that the format has a meaning for: what random bytes would hardly ever spell."""

from __future__ import annotations

from typing import Final

from sbformat.known.dangerous import GADGETS
from sbformat.known.spaces import ROWS as SPACES
from sbformat.known.table import TABLE
from sbformat.pkl.tree import CALLS as PTH_CALLS
from sbformat.pkl.tree import DTYPES, LAYOUTS, MEMORY_FORMATS, QUANTIZATION_SCHEMES, STORAGES, TENSOR_CLASSES

_HARMFUL: Final = (("os", "system"), ("builtins", "eval"), ("posix", "system"), ("my.module", "Thing"))

FAMILIES: Final = tuple(
    tuple(family)
    for family in (
        [pair for pair in STORAGES if pair[0] != "torch.cuda"], DTYPES, {**MEMORY_FORMATS, **QUANTIZATION_SCHEMES},
        TENSOR_CLASSES, PTH_CALLS, [pair for pair, row in TABLE.items() if row.role], [row.pair for row in SPACES],
        [pair for pair, row in TABLE.items() if row.kind],
        sorted(pair for pair, row in TABLE.items() if row.is_reference)[::8], sorted(GADGETS)[::16], _HARMFUL,
    )
)  # fmt: skip
"""Pairs of module and name that stand in one another's place."""

ATTRIBUTES: Final = tuple(sorted({name for row in TABLE.values() if row.is_plain for name in row.attributes or ()}))

_IN_PICKLES: Final = (
    "storage", "module", "cpu", "cuda:0", "meta", "0", "1", "2", "little", "big", "latin1", "latin-1", "C", "F", "<",
    ">", "|", "=", "b", "f4", "f8", "i8", "u1", "b1", "c8", "O8", "U4", "S1", "V8", "conj", "neg", "_metadata",
    "version", "state", "param_groups", "params", "lr", "betas", "exp_avg", "step", "PCG64", "MT19937", "CodeType",
    "LambdaType", "__name__", "__closure__", "__qualname__", "__dict__", "val", "low", "high", "_shape", "dtype",
    "n", "nvec", "start", "spaces", "bounded_below", "bounded_above", "_np_random", "shape", "initial_value", "end",
    "end_fraction", "frequency", "unit", "STEP", "step", "episode", "log_std", "torch.sparse_coo", "float32",
)  # fmt: skip
_IN_DATA: Final = (
    ":type:", ":serialized:", "policy_class", "observation_space", "action_space", "learning_rate", "lr_schedule",
    "policy_kwargs", "n_envs", "seed", "gamma", "ent_coef", "auto", "auto_0.1", "use_sde", "n_steps", "batch_size",
    "clip_range", "train_freq", "_last_obs", "ep_info_buffer", "replay_buffer_class", "tau", "target_entropy",
    "<class 'function'>", "MlpPolicy", "verbose", "device", "tensorboard_log", "exploration_schedule", "top_quantiles",
)  # fmt: skip
_IN_POLICIES: Final = (
    "net_arch", "activation_fn", "features_extractor_class", "features_extractor_kwargs", "features_dim",
    "cnn_output_dim", "normalize_images", "normalized_image", "share_features_extractor", "squash_output", "full_std",
    "use_expln", "clip_mean", "n_critics", "n_quantiles", "with_bias", "batch_norm_eps", "lstm_hidden_size",
    "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "pi", "vf", "qf", "layers", "act_fun", "dueling", "n_lstm",
    "log_std", "action_net.weight", "action_net.bias", "value_net.weight", "mlp_extractor.policy_net.0.weight",
    "mlp_extractor.policy_net.2.bias", "mlp_extractor.value_net.0.weight", "mlp_extractor.shared_net.0.weight",
    "q_net.q_net.0.weight", "quantile_net.quantile_net.0.weight", "actor.mu.0.weight", "actor.latent_pi.0.weight",
    "actor.log_std.weight", "critic.qf0.0.weight", "lstm_actor.weight_ih_l0", "lstm_actor.weight_hh_l1",
    "features_extractor.cnn.0.weight", "features_extractor.linear.0.bias", "exploration_rate", "_last_original_obs",
    "model/pi/w:0", "model/pi_fc0/w:0", "model/lstm1/wx:0", "deepq/model/action_value/fully_connected/weights:0",
)  # fmt: skip
WORDS: Final = (*_IN_PICKLES, *_IN_PICKLES, *_IN_DATA, *_IN_POLICIES, *ATTRIBUTES, *sorted(LAYOUTS))
