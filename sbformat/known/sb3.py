"""The classes of SB3, sb3-contrib, rl-zoo3, imitation, Stable Baselines 2 and SBX, and what they refer to (13.6).

Policies, buffers, noise, settings of training; the attributes of agents that Stable-Baselines uses. Left out on
purpose: functions of SB3; vectorised environments, wrappers and ``Monitor`` (processes, ``CloudpickleWrapper``, files);
loggers, callbacks and data sets (files). Spaces and schedules have modules of their own.

Sources: SB3 0.6 to 2.9, sb3-contrib 0.9 to 2.9, imitation 0.2 to 1.0, Stable Baselines 2.0 to 2.10 (SB2.md). SBX
(SBX.md 22) pickles objects of jax, flax and optax that only store what they are given: no constructor of them calls,
imports or opens anything. Attributes: all of the algorithm classes, in ``common/`` and the module of each algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.known.algorithms import ALGORITHMS, HER, POLICY_CLASSES
from sbformat.known.changes import BATCH_RENORM, NSTEP_RETURNS
from sbformat.known.numpy import decode_jax_array, to_int
from sbformat.known.python import decode_read_only
from sbformat.known.rows import describe_node, find, known, plain_arguments, reject
from sbformat.known.torch import RMSPROP
from sbformat.known.types import TRAIN_FREQ, Described, EnumMember, Instance, Reference, RNNStates, TrainFreq
from sbformat.pkl.tree import Node

if TYPE_CHECKING:
    from sbformat.known.context import NodeContext
    from sbformat.known.rows import Known
    from sbformat.pkl.tree import Call, Pair


_NAMES: Final = """
_adapt_param_noise _check_obs _compute_actor_grad _convert_train_freq _create_aliases _create_replay_wrapper
_current_progress _current_progress_remaining _custom_logger _do_one_update _dump_logs _episode_num _episode_storage
_excluded_save_params _get_eval_env _get_policy_from_name _get_pretrain_placeholders _get_stats _get_torch_save_params
_init_callback _init_num_timesteps _initialize _initialize_dataloader _is_vectorized_observation _last_dones
_last_episode_starts _last_lstm_states _last_obs _last_original_obs _load_from_file _load_from_file_cloudpickle
_log_and_dump _logger _make_runner _maybe_recommend_cpu _mimic_monitor_wrapper _n_calls _n_updates
_num_timesteps_at_start _on_step _param_load_ops _policy _requires_vec_env _reset _runner _sample_action
_sample_her_transitions _save_to_file _save_to_file_cloudpickle _save_to_file_zip _setup_actor_optimizer
_setup_critic_optimizer _setup_learn _setup_load_operations _setup_lr_schedule _setup_model _setup_param_noise
_setup_popart _setup_stats _setup_target_network_updates _softmax _stats_window_size _store_transition
_total_timesteps _train _train_step _trigger_callback _update_current_progress _update_current_progress_remaining
_update_info_buffer _update_learning_rate _update_target_net _vec_normalize_env _vectorize_action _wrap_env act
act_model action_adapt_noise action_noise action_noise_ph action_ph action_probability action_space action_target
action_train_ph actions actions_ph actor actor_batch_norm_stats actor_batch_norm_stats_target actor_grads actor_loss
actor_lr actor_optimizer actor_target actor_tf adam adam_epsilon adaptive_param_noise_actor adaptive_policy_distance
adversary_entcoeff advs_ph alive_bonus_offset allmean alpha apply_backprop approxkl assign_old_eq_new
async_eigen_decomp batch_norm_stats batch_norm_stats_target batch_size beta_schedule buffer_size cg_damping cg_iters
cg_max_steps check_env checkpoint_dir checkpoint_freq checkpoint_path clip_norm clip_param clip_range clip_range_ph
clip_range_vf clip_range_vf_ph clipfrac cliprange cliprange_vf collect_rollouts compute_fvp compute_lossandgrad
compute_losses compute_vflossandgrad continuous_actions correction_term critic critic_batch_norm_stats
critic_batch_norm_stats_target critic_grads critic_l2_reg critic_loss critic_lr critic_optimizer critic_target
critic_tf critic_with_actor_tf d_adam d_step d_stepsize delta delta_std_schedule deterministic_action device done_ph
double_q dump_logs enable_popart ent_coef ent_coef_optimizer ent_coef_tensor entcoeff entropy env ep_info_buf
ep_info_buffer ep_success_buffer episode_reward episode_rewards episode_steps epsilon eval_env evaluate_candidates
excluded_save_params expert_dataset exploration exploration_final_eps exploration_fraction exploration_initial_eps
exploration_rate exploration_schedule feed full_tensorboard_log g_step gae_lambda gamma get_env get_flat
get_parameter_list get_parameters get_torch_variables get_vec_normalize_env goal_selection_strategy gradient_steps
grads_check graph her_ratio hessian_vector_product hidden_size_adversary infos_names initial_state is_using_her
joint_fisher kfac_clip kfac_update lam learn learning_rate learning_rate_ph learning_rate_schedule learning_starts
len_buffer line_search_max_iter line_search_shrinking_factor load load_parameters load_replay_buffer log_ent_coef
logger loss_names lossandgrad lr_schedule max_episode_length max_grad_norm max_kl mean_length mean_reward memory
memory_limit memory_policy model model_class momentum mu_ph n_act n_batch n_cpu_tf_sess n_critic_updates n_delta
n_envs n_episodes_rollout n_epochs n_eval_episodes n_params n_quantiles n_sampled_goal n_steps n_top names_ops
nb_eval_steps nb_rollout_steps nb_train_steps next_observations_ph nminibatches noptepochs normalize_advantage
normalize_observations normalize_returns normalized_critic_tf normalized_critic_with_actor_tf num_procs num_timesteps
nworkers obs_adapt_noise obs_noise obs_rms obs_rms_params obs_target obs_train observation_range observation_space
observations_ph old_count old_mean old_neglog_pac_ph old_std old_vpred_ph online_sampling optim optim_batchsize
optim_epochs optim_stepsize optimize_memory_usage param_noise param_noise_actor param_noise_adaption_interval
param_noise_stddev params perturb_adaptive_policy_ops perturb_policy_ops perturbed_actor_tf pg_fisher pg_loss policy
policy_aliases policy_class policy_delay policy_kwargs policy_loss policy_out policy_pi policy_tf policy_train_op
polyak_model pop_size predict pretrain pretrained_weight prioritized_replay prioritized_replay_alpha
prioritized_replay_beta0 prioritized_replay_beta_iters prioritized_replay_eps proba_step processed_next_obs_ph
processed_obs_ph processes q_coef q_net q_net_target q_runner quantile_huber_loss quantile_net quantile_net_target
random_exploration rank remove_time_limit_termination render render_eval renormalize_q_outputs_op replay_buffer
replay_buffer_add replay_buffer_class replay_buffer_kwargs replay_ratio replay_start replay_wrapper ret_rms
ret_rms_params return_range reward_giver reward_ph reward_scale rewards rewards_ph rewbuffer rollout_buffer
rollout_buffer_class rollout_buffer_kwargs rprop_alpha rprop_epsilon run_ops runner safe_mean save save_per_iter
save_replay_buffer schedule sde_sample_freq seed sess set_env set_from_flat set_logger set_parameters set_random_seed
setup_model start_time stats_names stats_ops stats_sample step step_model step_ops sub_sampling_factor summary
target_entropy target_init_updates target_kl target_network_update_freq target_noise_clip target_ops target_params
target_policy target_policy_noise target_policy_tf target_q target_soft_updates target_update_interval
target_update_op task_name tau tb_seen_steps tb_writer tensorboard_log terminals1 terminals_ph timed
timesteps_per_actorbatch timesteps_per_batch top_quantiles_to_drop_per_net train train_freq train_model train_op
trained trpo trust_region update_target use_sde use_sde_at_warmup using_gail value value_fn value_target verbose
vf_coef vf_fisher vf_fisher_coef vf_iters vf_loss vf_stepsize vfadam weights zero_policy
"""

ATTRIBUTES: Final = frozenset(_NAMES.split())
"""Attributes and methods of the algorithm classes, in any release."""

START_TIME: Final = "start_time"
"""The key of ``data`` with the time at which training began."""
SCHEDULE_KEYS: Final = frozenset(
    {"learning_rate", "lr_schedule", "clip_range", "clip_range_vf", "exploration_schedule", "delta_std_schedule"}
)
"""Keys of ``data`` whose value can be a schedule."""
EXAMINED_KEYS: Final = SCHEDULE_KEYS | {"cliprange", "cliprange_vf"}
"""Those, and SB2's. Functions under other keys are not examined: a file may contain many, and each takes time."""
CALLABLE_KEYS: Final = EXAMINED_KEYS | {
    "policy_class", "replay_buffer_class", "rollout_buffer_class", "model_class", "policy"
}  # fmt: skip
"""Keys under which SB3 and SB2 store classes and functions."""
OBJECT_KEYS: Final = CALLABLE_KEYS | {
    "action_noise", "param_noise", "exploration", "beta_schedule", "learning_rate_schedule", "expert_dataset",
}  # fmt: skip
"""Those, and the keys under which they store objects of their classes."""
CALLED_SUFFIXES: Final = ("_class", "_kwargs", "_fn", "_schedule", "__")
"""Suffixes of keys whose values are called, or are arguments of a call, in any class; and of special methods."""


def is_sb3_attribute(key: str) -> bool:
    """Return whether Stable-Baselines uses a key of ``data``, or an attribute of the agent: it may call the value."""
    return key in ATTRIBUTES or key.endswith(CALLED_SUFFIXES)


def decode_plain_object(context: NodeContext, node: Call) -> Instance:
    """Decode an object that consists of its attributes alone: those that its row lists."""
    if node.args != ():
        reject("expected a plain object constructed without arguments")
    row = find(node.func.pair)  # type: ignore[attr-defined]
    attributes = context.read_attributes(node)
    unknown = sorted(set(attributes).difference(row.attributes or ()))
    if unknown:
        reject(f"it has the unknown attribute {escape(unknown[0], 80)}")
    return Instance(Reference(*row.pair), attributes)


def decode_enum(context: NodeContext, node: Call) -> EnumMember:
    """Decode a member of an enumeration, by its value: one of those that its row lists."""
    args = plain_arguments(context, node, "an enumeration")
    row = find(node.func.pair)  # type: ignore[attr-defined]
    if len(args) != 1 or type(args[0]) not in (str, int) or args[0] not in row.members:
        reject("an enumeration has no member of that value")
    return EnumMember(Reference(*row.pair), args[0])


def decode_train_freq(context: NodeContext, node: Call) -> TrainFreq:
    """Decode ``TrainFreq(frequency, unit)``."""
    args = plain_arguments(context, node, "a TrainFreq")
    if len(args) != 2 or not isinstance(args[1], EnumMember) or args[1].enum.name != "TrainFrequencyUnit":
        reject("expected a number and a unit in a TrainFreq")
    return TrainFreq(to_int(args[0], "the frequency of a TrainFreq"), args[1])


def decode_rnn_states(context: NodeContext, node: Call) -> RNNStates:
    """Decode ``RNNStates(pi, vf)``, two tuples of tensors."""
    args = plain_arguments(context, node, "RNNStates")
    if len(args) != 2 or any(type(arg) is not tuple or any(isinstance(part, Node) for part in arg) for arg in args):
        reject("expected two tuples of tensors in RNNStates")
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
_NOISE_ROW: Final[dict[str, Any]] = {"uses": "value, built", "kind": "noise"}
_TIMEOUTS: Final = {"handle_timeout_termination": None}


def _plain(modules: str | tuple[str, ...], names: str, attributes: tuple[str, ...], **fields: Any) -> list[Known]:
    """Return rows for classes whose objects consist of their attributes alone."""
    row = {"uses": "value", "kind": "plain", "new": decode_plain_object, "attributes": attributes, **fields}
    return known(modules, names, **row)


ROWS: Final = [
    # algorithms
    *(found for row in ALGORITHMS.values() for found in known(row.module, row.name, "algorithm")),
    *known(*HER, "algorithm"),
    # policies and their networks
    *(found for row in POLICY_CLASSES
      for found in known(row.module, f"{row.names} {row.others}", "value", since=row.since)),
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
    *(row._replace(current=(_LAYERS, row.name))
      for row in known(_POLICIES, "BaseFeaturesExtractor FlattenExtractor MlpExtractor NatureCNN", "value")),
    *known("sb3_contrib.common.torch_layers", "BatchRenorm BatchRenorm1d", "value", since=BATCH_RENORM),
    *known(f"{_COMMON}.sb2_compat.rmsprop_tf_like", "RMSpropTFLike", "value, layer", **RMSPROP),
    # distributions
    *known(f"{_COMMON}.distributions", "BernoulliDistribution CategoricalDistribution DiagGaussianDistribution "
           "Distribution MultiCategoricalDistribution SquashedDiagGaussianDistribution StateDependentNoiseDistribution "
           "TanhBijector", "value"),
    *known(f"{_CONTRIB}.maskable.distributions", "MaskableBernoulliDistribution MaskableCategorical "
           "MaskableCategoricalDistribution MaskableDistribution MaskableMultiCategoricalDistribution", "value"),
    # noise
    *known(f"{_COMMON}.noise", "ActionNoise", "value"),
    *_plain(f"{_COMMON}.noise", "NormalActionNoise", NOISE, **_NOISE_ROW),
    *_plain(f"{_COMMON}.noise", "OrnsteinUhlenbeckActionNoise", CORRELATED_NOISE, **_NOISE_ROW),
    *_plain(f"{_COMMON}.noise", "VectorizedActionNoise", ("n_envs", "_n_envs", "_base_noise", "_noises"), **_NOISE_ROW),
    # statistics
    *_plain(f"{_COMMON}.running_mean_std", "RunningMeanStd", STATISTICS),
    *_plain(f"{_COMMON}.vec_env.vec_normalize", "VecNormalize", NORMALIZE, uses=""),
    # buffers
    *known(f"{_COMMON}.buffers", "BaseBuffer", "value"),
    *known(f"{_COMMON}.buffers", "DictRolloutBuffer RolloutBuffer", "value", place=_ROLLOUT),
    *_plain(f"{_COMMON}.buffers", "ReplayBuffer DictReplayBuffer", _REPLAY, place=_BUFFER, arguments=_TIMEOUTS),
    *_plain(f"{_COMMON}.buffers", "NStepReplayBuffer", (*_REPLAY, "n_steps", "gamma"), place=_BUFFER,
            arguments={**_TIMEOUTS, "n_steps": 3, "gamma": 0.99}, since=NSTEP_RETURNS),
    *_plain(*HER_BUFFER, _HER, place=_BUFFER, arguments={
        **_TIMEOUTS, "n_sampled_goal": 4, "goal_selection_strategy": "future", "copy_info_dict": None,
    }),
    *known(f"{_CONTRIB}.maskable.buffers", "MaskableDictRolloutBufferSamples MaskableRolloutBufferSamples", "value"),
    *known(f"{_CONTRIB}.maskable.buffers", "MaskableDictRolloutBuffer MaskableRolloutBuffer", "value", place=_ROLLOUT),
    *known(f"{_CONTRIB}.recurrent.buffers", "RecurrentDictRolloutBuffer RecurrentRolloutBuffer", "value",
           place=_ROLLOUT),
    # settings and states of training
    *known(f"{_COMMON}.type_aliases",
           "DictReplayBufferSamples DictRolloutBufferSamples ReplayBufferSamples RolloutBufferSamples RolloutReturn",
           "value"),
    *known(*TRAIN_FREQ, "value, built", kind="train_freq", new=decode_train_freq),
    *known(f"{_COMMON}.type_aliases", "TrainFrequencyUnit", "value, built", role="enum", call=decode_enum,
           members=("step", "episode")),
    *known("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy", "value, built", role="enum",
           call=decode_enum, members=(0, 1, 2)),
    *known(f"{_CONTRIB}.recurrent.type_aliases", "RNNStates", "value, built", kind="rnn_states", new=decode_rnn_states),
    *known(f"{_CONTRIB}.recurrent.type_aliases", "RecurrentDictRolloutBufferSamples RecurrentRolloutBufferSamples",
           "value"),
]  # fmt: skip


_SB2: Final = "stable_baselines"
_SCHEDULES: Final = f"{_SB2}.common.schedules"
_NOISE: Final = (f"{_SB2}.ddpg.noise", f"{_SB2}.common.noise")
_FUNCTIONS: Final = "constant double_linear_con double_middle_drop linear_schedule middle_drop"
_FEED_FORWARD: Final = "CnnPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy"

SB2_ROWS: Final = [
    *known(f"{_SB2}.ddpg.ddpg", "DDPG", "algorithm"),
    *known(f"{_SB2}.deepq.dqn", "DQN", "algorithm"),
    *known(f"{_SB2}.sac.sac", "SAC", "algorithm"),
    *known(f"{_SB2}.td3.td3", "TD3", "algorithm"),
    *known(f"{_SB2}.common.policies", "ActorCriticPolicy BasePolicy CnnLnLstmPolicy CnnLstmPolicy CnnPolicy "
           "FeedForwardPolicy LstmPolicy MlpLnLstmPolicy MlpLstmPolicy MlpPolicy RecurrentActorCriticPolicy", "value"),
    *known(f"{_SB2}.ddpg.policies", f"DDPGPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.deepq.policies", f"DQNPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.sac.policies", f"SACPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.td3.policies", f"TD3Policy {_FEED_FORWARD}", "value"),
    *known("tensorflow.python.ops.gen_nn_ops", "elu relu relu6 selu softplus softsign", "value"),
    *known("tensorflow.python.ops.math_ops", "sigmoid tanh", "value"),
    *known("tensorflow.python.ops.nn_ops", "leaky_relu", "value"),
    *known(_NOISE, "ActionNoise", "value"),
    *_plain(_NOISE, "NormalActionNoise OrnsteinUhlenbeckActionNoise", CORRELATED_NOISE),
    *_plain(_NOISE, "AdaptiveParamNoiseSpec",
            ("initial_stddev", "desired_action_stddev", "adoption_coefficient", "current_stddev")),
    *known(_SCHEDULES, "Schedule linear_interpolation", "value"),
    *known((_SCHEDULES, f"{_SB2}.a2c.utils"), _FUNCTIONS, "value"),  # a2c.utils: before 2.10
    *_plain((_SCHEDULES, f"{_SB2}.a2c.utils"), "Scheduler", ("step", "initial_value", "nvalues", "schedule")),
    *_plain(_SCHEDULES, "ConstantSchedule", ("_value",)),
    *_plain(_SCHEDULES, "LinearSchedule", ("schedule_timesteps", "final_p", "initial_p")),
    *_plain(_SCHEDULES, "PiecewiseSchedule", ("_endpoints", "_interpolation", "_outside_value")),
    *_plain(f"{_SB2}.common.running_mean_std", "RunningMeanStd", STATISTICS, uses=""),
    *_plain(f"{_SB2}.common.vec_env.vec_normalize", "VecNormalize", NORMALIZE, uses=""),
    *known(f"{_SB2}.common.buffers", "PrioritizedReplayBuffer ReplayBuffer", "value"),
    *known(f"{_SB2}.deepq.replay_buffer", "PrioritizedReplayBuffer ReplayBuffer", "value"),
    *known(f"{_SB2}.ddpg.memory", "Memory RingBuffer", "value"),
    *known(f"{_SB2}.her.replay_buffer", "GoalSelectionStrategy", "value", role="enum", call=decode_enum,
           members=(0, 1, 2, 3)),
    *_plain(f"{_SB2}.gail.dataset.dataset", "ExpertDataset", (
        "observations", "actions", "returns", "avg_ret", "std_ret", "verbose", "num_traj", "num_transition",
        "randomize", "sequential_preprocessing", "dataloader", "train_loader", "val_loader",
    ), uses="only described"),  # its methods load files
]  # fmt: skip


TRAIN_STATE: Final = "TrainState"
"""What the name of a class that holds parameters and the state of their optimizer ends with."""


def decode_record(context: NodeContext, node: Call) -> Described:
    """Decode a call of a class of jax or ``inspect`` that only stores its arguments, and a state beside them."""
    if any(update.how != "BUILD" for update in node.updates or ()):
        reject("expected the arguments of a record, and at most a state")
    return Described(describe_node(node), context.arguments(node))


def decode_stored_object(context: NodeContext, node: Call) -> Instance:
    """Decode an object of jax, flax or SBX, with the state that it stores: attributes, or a tuple."""
    updates = node.updates or []
    if node.args != () or len(updates) > 1 or any(update.how != "BUILD" for update in updates):
        reject("expected an object without arguments, with at most one state")
    state = context.value(updates[0].value) if updates else {}
    if type(state) is dict and any(type(key) is not str for key in state):
        reject("expected texts as the names of attributes")
    return Instance(Reference(*node.func.pair), state if type(state) is dict else {"state": state})  # type: ignore[attr-defined]


def decode_named_tuple(context: NodeContext, node: Call) -> Instance:
    """Decode a named tuple of optax, such as the state of its Adam."""
    row = find(node.func.pair)  # type: ignore[attr-defined]
    args = plain_arguments(context, node, "a named tuple")
    names = row.attributes or ()
    if len(args) != len(names):
        reject(f"expected {len(names)} fields in a named tuple, got {len(args)}")
    return Instance(Reference(*row.pair), dict(zip(names, args)))


# -- rows ----------------------------------------------------------------------------------------------

_XLA: Final = ("jaxlib._jax", "jaxlib.xla_extension")
"""The modules of jax's classes in C++: that of today, and the one before 0.6."""
_INDEX_UPDATE: Final = "_IndexUpdateHelper"


def _tuples(modules: str | tuple[str, ...], names: str, *fields: str) -> list[Known]:
    return known(modules, names, kind="named_tuple", new=decode_named_tuple, attributes=fields)


def _stored(modules: str | tuple[str, ...], names: str, uses: str = "stores") -> list[Known]:
    return known(modules, names, uses, new=decode_stored_object)


def _records(module: str, names: str) -> list[Known]:
    """Return rows for classes that are called with what they store: enumerations, tuples, parts of a signature."""
    return known(module, names, role="record", call=decode_record, new=decode_record)


def _of_sbx(module: str, names: str) -> list[Known]:
    """Return rows for classes of SBX; a policy has a method bound to its networks."""
    policies = " ".join(f"{name}.reset_noise" for name in names.split() if name.endswith("Policy"))
    return [*_stored(f"sbx.{module}", names, "value, stores"), *known(f"sbx.{module}", policies, "beside code, method")]


SBX_ROWS: Final = [
    *_of_sbx("common.jax_layers", "BatchRenorm NatureCNN SimbaResidualBlock"),
    *_of_sbx("common.policies", "ContinuousCritic Flatten SimbaContinuousCritic SimbaSquashedGaussianActor "
             "SimbaVectorCritic SquashedGaussianActor VectorCritic"),
    *_of_sbx("common.type_aliases", "BatchNormTrainState RLTrainState"),
    *_of_sbx("crossq.crossq", "ConstantEntropyCoef EntropyCoef"),
    *_of_sbx("crossq.policies",
             "Actor Critic CrossQPolicy SimbaActor SimbaCritic SimbaCrossQPolicy SimbaVectorCritic VectorCritic"),
    *_of_sbx("ddpg.policies", "Actor Critic DDPGPolicy TD3Policy VectorCritic"),
    *_of_sbx("dqn.policies", "CNNPolicy CnnQNetwork DQNPolicy QNetwork"),
    *_of_sbx("ppo.policies", "Actor CnnPolicy Critic PPOPolicy"),
    *_of_sbx("sac.policies", "Actor Critic SACPolicy SimbaSACPolicy VectorCritic"),
    *_of_sbx("sac.sac", "ConstantEntropyCoef EntropyCoef"),
    *_of_sbx("td3.policies", "Actor Critic TD3Policy VectorCritic"),
    *_of_sbx("tqc.policies", "Actor Critic SimbaTQCPolicy TQCPolicy"),
    *_of_sbx("tqc.tqc", "ConstantEntropyCoef EntropyCoef"),
    # activations, functions of an array; functions of optax that only make an optimizer
    *known("jax._src.nn.functions", "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
           "mish relu relu6 selu sigmoid silu soft_sign softplus swish", "value"),
    *known("jax._src.numpy.ufuncs", "tanh", "value"),
    *known("optax._src.alias", "adam adamw lion nadam nadamw radam rmsprop sgd", "value"),
    # arrays, and the parameters of flax before 0.7.1, or that a user froze
    *known("jax._src.array", "_reconstruct_array", "reaches", role="jax_array", call=decode_jax_array),
    *known("jax._src.device_array", "_reconstruct_device_array", "reaches", role="jax_array", call=decode_jax_array),
    *known("flax.core.frozen_dict", "FrozenDict", "beside code", role="read_only", call=decode_read_only),
    # states of optimizers
    *_tuples("optax._src.base", "EmptyState"),
    *_tuples("optax._src.base", "GradientTransformation GradientTransformationExtraArgs", "init", "update"),
    *_tuples("optax._src.transform", "EmptyState"),
    *_tuples("optax._src.transform",
             "ScaleByAdamState ScaleByBeliefState ScaleByNovogradState ScaleByRStdDevWithCountState", "count", "mu",
             "nu"),
    *_tuples("optax._src.transform", "ScaleByAmsgradState", "count", "mu", "nu", "nu_max"),
    *_tuples("optax._src.transform", "ScaleByAdaDeltaState", "e_g", "e_x"),
    *_tuples("optax._src.transform", "ScaleByAdanState", "m", "v", "n", "g", "t"),
    *_tuples("optax._src.transform", "ScaleByLionState", "count", "mu"),
    *_tuples("optax._src.transform", "ScaleByRmsState", "nu"),
    *_tuples("optax._src.transform", "ScaleByRmsWithCountState", "count", "nu"),
    *_tuples("optax._src.transform", "ScaleByRssState", "sum_of_squares"),
    *_tuples("optax._src.transform", "ScaleByRStdDevState", "mu", "nu"),
    *_tuples("optax._src.transform", "ScaleByScheduleState", "count"),
    *_tuples(("optax._src.transform", "optax.transforms._accumulation"), "TraceState", "trace"),
    *_tuples("optax.transforms._accumulation", "EmaState", "count", "ema"),
    *_tuples(("optax._src.wrappers", "optax.transforms._masking"), "MaskedState", "inner_state"),
    *_tuples("optax.transforms._masking", "MaskedNode"),
    *_tuples(("optax._src.schedule", "optax.schedules._inject"), "InjectHyperparamsState", "count", "hyperparams",
             "inner_state"),
    *_tuples(("optax._src.schedule", "optax.schedules._inject"), "InjectStatefulHyperparamsState", "count",
             "hyperparams", "hyperparams_states", "inner_state"),
    # what the pickled functions refer to
    *_stored("flax.ids", "FlaxId"),
    *_stored("flax.linen.module", "_ModuleInternalState"),
    *_stored("flax.training.train_state", "TrainState"),
    *_stored("jax._src.custom_derivatives", "custom_jvp"),
    *_stored("jax._src.interpreters.pxla", "JitGlobalCppCacheKeys"),
    *_stored(("jax._src.named_sharding", "jax._src.sharding_impls"), "UnspecifiedValue"),
    *_stored(_XLA, "PjitFunction PjitFunctionCache pytree.PyTreeDef"),
    *_stored(tuple(f"{module}.pytree" for module in _XLA), "PyTreeDef"),
    *_records("collections.abc", "_CallableGenericAlias"),
    *_records("flax.linen.module", "SetupState"),
    *_records("inspect", "Parameter Signature _ParameterKind"),
    *_records("jax._src.pjit", "PjitInfo"),
    *known("jax._src.api", "Inline", "beside code", role="enum", call=decode_enum,
           members=("auto", "jax_early", "jax_late", "xla_early", "xla_late")),
    *known(_XLA, "ArrayMeta", "beside code, metaclass"),  # the metaclass of arrays: it adds __instancecheck__
    *known("jax", "Array", "beside code"),
    *known("flax.linen.module", "Module.apply", "beside code, method"),  # calls a network
    *known("inspect", "_empty", "beside code"),
    *known("jax._src.custom_derivatives", "_sum_tangents _zeros_like_pytree", "beside code"),
    *known("jax._src.interpreters.pxla", "cc_shard_arg", "beside code"),
    *known("jax._src.numpy.util", "promote_args_inexact", "beside code"),
    *known("jax._src.pjit", "_get_fastpath_data _infer_params _need_to_rebuild_with_fdo _run_python_pjit",
           "beside code"),
    *known("jax._src.traceback_util", "UnfilteredStackTrace _add_call_stack_frames _add_tracebackhide_to_hidden_frames "
           "_filtering_mode _is_under_reraiser filter_traceback format_exception_only", "beside code"),
    *known("jax._src.tree_util", "default_registry dispatch_registry none_leaf_registry", "beside code"),
    *known("jax.tree_util", "tree_map", "beside code"),
    *known("jaxlib.utils", "safe_zip", "beside code"),
    *known("optax._src.base", "init_empty_state", "beside code"),
    *known("optax.schedules._inject", "_convert_floats", "beside code"),
    *known("jax._src.numpy.array_methods", _INDEX_UPDATE, "beside code", looked_up=("array",)),
    *known("jax._src.numpy.array_methods",
           " ".join(f"{_INDEX_UPDATE}.{method}" for method in ("__getitem__", "__init__", "__repr__")), "beside code"),
]  # fmt: skip
