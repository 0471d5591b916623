"""Attributes and methods that the algorithm classes of Stable-Baselines use.

``load`` puts every key of ``data`` into the agent's ``__dict__``. A class or function under a key that is listed here
is one that SB3 calls, or whose methods it calls, while it loads, trains or predicts; any other key it only keeps.

Sources: every attribute of ``self``, method and class attribute in the algorithm classes of stable-baselines3 0.6 to
2.9, sb3-contrib 0.10 to 2.9 and stable-baselines 2.0 to 2.10 (``common/*_algorithm.py``, ``common/base_class.py`` and
the module of each algorithm).
"""

from __future__ import annotations

from typing import Final

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
    """Return whether Stable-Baselines uses the value of a key of ``data``, so that it may call it.

    :param key: of ``data``, or an attribute of the agent
    """
    return key in ATTRIBUTES or key.endswith(CALLED_SUFFIXES)
