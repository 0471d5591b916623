"""The classes of SB3, sb3-contrib, rl-zoo3 and imitation: policies, buffers, noise, settings of training (13.6).

Sources: SB3 0.6 to 2.9, sb3-contrib 0.9 to 2.9, imitation 0.2 to 1.0. Left out on purpose: functions; vectorised
environments, wrappers and ``Monitor`` (processes, ``CloudpickleWrapper``, files); loggers and callbacks (files).
Spaces and schedules have modules of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import escape
from sbformat.known.algorithms import ALGORITHMS, HER, POLICY_CLASSES
from sbformat.known.changes import BATCH_RENORM, NSTEP_RETURNS
from sbformat.known.numpy import to_int
from sbformat.known.rows import find, known, plain_arguments, reject
from sbformat.known.torch import RMSPROP
from sbformat.known.types import TRAIN_FREQ, EnumMember, Instance, Reference, RNNStates, TrainFreq
from sbformat.pkl.tree import Node

if TYPE_CHECKING:
    from sbformat.known.context import Context
    from sbformat.pkl.names import Pair
    from sbformat.pkl.tree import Call


def decode_plain_object(context: Context, node: Call) -> Instance:
    """Decode an object that consists of its attributes alone: those that its row lists."""
    if node.args != ():
        reject("expected a plain object constructed without arguments")
    row = find(node.func.pair)  # type: ignore[attr-defined]
    attributes = context.read_attributes(node)
    unknown = sorted(set(attributes).difference(row.attributes or ()))
    if unknown:
        reject(f"it has the unknown attribute {escape(unknown[0], 80)}")
    context.accept(node)
    return Instance(Reference(*row.pair), attributes)


def decode_enum(context: Context, node: Call) -> EnumMember:
    """Decode a member of an enumeration, by its value: one of those that its row lists."""
    args = plain_arguments(context, node, "an enumeration")
    row = find(node.func.pair)  # type: ignore[attr-defined]
    if len(args) != 1 or type(args[0]) not in (str, int) or args[0] not in row.members:
        reject("an enumeration has no member of that value")
    context.accept(node)
    return EnumMember(Reference(*row.pair), args[0])


def decode_train_freq(context: Context, node: Call) -> TrainFreq:
    """Decode ``TrainFreq(frequency, unit)``."""
    args = plain_arguments(context, node, "a TrainFreq")
    if len(args) != 2 or not isinstance(args[1], EnumMember) or args[1].enum.name != "TrainFrequencyUnit":
        reject("expected a number and a unit in a TrainFreq")
    made = TrainFreq(to_int(args[0], "the frequency of a TrainFreq"), args[1])
    context.accept(node)
    return made


def decode_rnn_states(context: Context, node: Call) -> RNNStates:
    """Decode ``RNNStates(pi, vf)``, two tuples of tensors."""
    args = plain_arguments(context, node, "RNNStates")
    if len(args) != 2 or any(type(arg) is not tuple or any(isinstance(part, Node) for part in arg) for arg in args):
        reject("expected two tuples of tensors in RNNStates")
    context.accept(node)
    return RNNStates(*args)


# -- rows ----------------------------------------------------------------------------------------------

_COMMON: Final = "stable_baselines3.common"
_POLICIES: Final = f"{_COMMON}.policies"
_LAYERS: Final = f"{_COMMON}.torch_layers"
_CONTRIB: Final = "sb3_contrib.common"

NOISE: Final = ("_mu", "_sigma", "_dtype")
CORRELATED_NOISE: Final = (*NOISE, "_theta", "_dt", "initial_noise", "noise_prev")
STATISTICS: Final = ("mean", "var", "count")
NORMALIZE: Final = (
    "num_envs", "observation_space", "action_space", "obs_rms", "ret_rms", "clip_obs", "clip_reward", "gamma",
    "epsilon", "training", "norm_obs", "norm_reward", "old_obs", "old_reward", "old_rews", "obs_keys",
    "norm_obs_keys", "obs_spaces", "reset_infos", "_seeds", "_options", "render_mode", "metadata",
)  # fmt: skip
_REPLAY: Final = (
    "buffer_size", "observation_space", "action_space", "obs_shape", "action_dim", "pos", "full", "device", "n_envs",
    "observations", "actions", "rewards", "optimize_memory_usage", "next_observations", "dones",
    "handle_timeout_termination", "timeouts",
)  # fmt: skip
_HER: Final = (
    *_REPLAY, "goal_selection_strategy", "n_sampled_goal", "her_ratio",
    "copy_info_dict", "infos", "ep_start", "ep_length", "_current_ep_start",  # SB3 >= 1.8
    "buffer", "_buffer", "_observation_keys", "goal_shape", "current_idx", "episode_steps", "episode_lengths",
    "info_buffer", "max_episode_length", "max_episode_stored", "online_sampling", "replay_buffer",  # before
)  # fmt: skip

FLATTEN: Final[Pair] = (_LAYERS, "FlattenExtractor")
NATURE: Final[Pair] = (_LAYERS, "NatureCNN")
COMBINED: Final[Pair] = (_LAYERS, "CombinedExtractor")
HER_BUFFER: Final[Pair] = ("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
NSTEP_BUFFER: Final[Pair] = (f"{_COMMON}.buffers", "NStepReplayBuffer")

_EXTRACTOR: Final = "features_extractor_class"
_BUFFER: Final = "replay_buffer_class"
_ROLLOUT: Final = "rollout_buffer_class"
_TIMEOUTS: Final = {"handle_timeout_termination": None}

ROWS: Final = [
    # algorithms
    *(found for row in ALGORITHMS.values() for found in known(row.module, row.name, "algorithm")),
    *known(*HER, "algorithm"),
    # policies and their networks
    *(
        found
        for row in POLICY_CLASSES
        for found in known(row.module, f"{row.names} {row.others}", "value", since=row.since)
    ),
    *known("stable_baselines3.ppo.policies", "PPOPolicy", "value", current=(_POLICIES, "ActorCriticPolicy")),  # 0.6
    *known("stable_baselines3.ppo.policies", "CnnPolicy", "value", current=(_POLICIES, "ActorCriticCnnPolicy")),  # 0.6
    *known(("stable_baselines3.sac.policies", "stable_baselines3.td3.policies"), "Critic", "value", is_gone=True),
    *known("imitation.policies.base", "FeedForward32Policy NormalizeFeaturesExtractor SAC1024Policy", "value"),
    *known("imitation.util.networks", "BaseNorm EMANorm RunningNorm", "value"),  # layers that normalize observations
    # layers; SB3 0.6 had the extractors among the policies
    *known(_LAYERS, "FlattenExtractor", "value, layer", place=_EXTRACTOR),
    *known(_LAYERS, "NatureCNN", "value, layer", place=_EXTRACTOR,
           arguments={"features_dim": 512, "normalized_image": None}),
    *known(_LAYERS, "CombinedExtractor", "value, layer", place=_EXTRACTOR,
           arguments={"cnn_output_dim": 256, "normalized_image": None}),
    *known(_LAYERS, "BaseFeaturesExtractor MlpExtractor", "value, layer"),
    *(
        row._replace(current=(_LAYERS, row.name))
        for row in known(_POLICIES, "BaseFeaturesExtractor FlattenExtractor MlpExtractor NatureCNN", "value")
    ),
    *known("sb3_contrib.common.torch_layers", "BatchRenorm BatchRenorm1d", "value", since=BATCH_RENORM),
    *known(f"{_COMMON}.sb2_compat.rmsprop_tf_like", "RMSpropTFLike", "value, layer", **RMSPROP),
    # distributions
    *known(
        f"{_COMMON}.distributions",
        "BernoulliDistribution CategoricalDistribution DiagGaussianDistribution Distribution "
        "MultiCategoricalDistribution SquashedDiagGaussianDistribution StateDependentNoiseDistribution TanhBijector",
        "value",
    ),
    *known(
        f"{_CONTRIB}.maskable.distributions",
        "MaskableBernoulliDistribution MaskableCategorical MaskableCategoricalDistribution MaskableDistribution "
        "MaskableMultiCategoricalDistribution",
        "value",
    ),
    # noise
    *known(f"{_COMMON}.noise", "ActionNoise", "value"),
    *known(f"{_COMMON}.noise", "NormalActionNoise", "value, built", kind="noise", new=decode_plain_object,
           attributes=NOISE),
    *known(f"{_COMMON}.noise", "OrnsteinUhlenbeckActionNoise", "value, built", kind="noise", new=decode_plain_object,
           attributes=CORRELATED_NOISE),
    *known(f"{_COMMON}.noise", "VectorizedActionNoise", "value, built", kind="noise", new=decode_plain_object,
           attributes=("n_envs", "_n_envs", "_base_noise", "_noises")),
    # statistics
    *known(f"{_COMMON}.running_mean_std", "RunningMeanStd", "value", kind="plain", new=decode_plain_object,
           attributes=STATISTICS),
    *known(f"{_COMMON}.vec_env.vec_normalize", "VecNormalize", kind="plain", new=decode_plain_object,
           attributes=NORMALIZE),
    # buffers
    *known(f"{_COMMON}.buffers", "BaseBuffer", "value"),
    *known(f"{_COMMON}.buffers", "DictRolloutBuffer RolloutBuffer", "value", place=_ROLLOUT),
    *known(f"{_COMMON}.buffers", "ReplayBuffer DictReplayBuffer", "value", kind="plain", new=decode_plain_object,
           attributes=_REPLAY, place=_BUFFER, arguments=_TIMEOUTS),
    *known(f"{_COMMON}.buffers", "NStepReplayBuffer", "value", kind="plain", new=decode_plain_object,
           attributes=(*_REPLAY, "n_steps", "gamma"), place=_BUFFER,
           arguments={**_TIMEOUTS, "n_steps": 3, "gamma": 0.99}, since=NSTEP_RETURNS),
    *known(HER_BUFFER[0], HER_BUFFER[1], "value", kind="plain", new=decode_plain_object, attributes=_HER,
           place=_BUFFER, arguments={**_TIMEOUTS, "n_sampled_goal": 4, "goal_selection_strategy": "future",
                                     "copy_info_dict": None}),
    *known(
        f"{_CONTRIB}.maskable.buffers", "MaskableDictRolloutBufferSamples MaskableRolloutBufferSamples", "value",
    ),
    *known(f"{_CONTRIB}.maskable.buffers", "MaskableDictRolloutBuffer MaskableRolloutBuffer", "value", place=_ROLLOUT),
    *known(f"{_CONTRIB}.recurrent.buffers", "RecurrentDictRolloutBuffer RecurrentRolloutBuffer", "value",
           place=_ROLLOUT),
    # settings and states of training
    *known(
        f"{_COMMON}.type_aliases",
        "DictReplayBufferSamples DictRolloutBufferSamples ReplayBufferSamples RolloutBufferSamples RolloutReturn",
        "value",
    ),
    *known(*TRAIN_FREQ, "value, built", kind="train_freq", new=decode_train_freq),
    *known(f"{_COMMON}.type_aliases", "TrainFrequencyUnit", "value, built", role="enum", call=decode_enum,
           members=("step", "episode")),
    *known("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy", "value, built", role="enum",
           call=decode_enum, members=(0, 1, 2)),
    *known(f"{_CONTRIB}.recurrent.type_aliases", "RNNStates", "value, built", kind="rnn_states", new=decode_rnn_states),
    *known(
        f"{_CONTRIB}.recurrent.type_aliases", "RecurrentDictRolloutBufferSamples RecurrentRolloutBufferSamples",
        "value",
    ),
]  # fmt: skip
