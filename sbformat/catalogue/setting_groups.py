"""The hyper-parameters by what they are about, for tables and pages."""

from __future__ import annotations

from typing import Final

GROUPS: Final = {
    "Optimization": (
        "learning_rate", "lr_schedule", "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range",
        "clip_range_vf", "normalize_advantage", "ent_coef", "target_entropy", "vf_coef", "max_grad_norm", "target_kl",
        "tau", "train_freq", "gradient_steps", "learning_starts", "policy_delay", "target_policy_noise",
        "target_noise_clip", "target_update_interval", "exploration_fraction", "exploration_initial_eps",
        "exploration_final_eps", "exploration_schedule", "top_quantiles_to_drop_per_net", "n_quantiles", "n_critics",
        "cg_max_steps", "cg_damping", "line_search_shrinking_factor", "line_search_max_iter", "n_critic_updates",
        "sub_sampling_factor", "n_delta", "delta_std", "n_top", "pop_size", "zero_policy", "alive_bonus_offset",
    ),
    "Policy": ("policy_class", "policy_kwargs", "use_sde", "sde_sample_freq", "use_sde_at_warmup", "action_noise"),
    "Replay and rollout": (
        "buffer_size", "replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage", "rollout_buffer_class",
        "rollout_buffer_kwargs", "n_sampled_goal", "goal_selection_strategy",
    ),
    "Run": (
        "num_timesteps", "_total_timesteps", "n_envs", "seed", "device", "verbose", "tensorboard_log", "start_time",
        "_stats_window_size", "_n_updates", "_episode_num",
    ),
}  # fmt: skip
"""The keys of ``data`` by what they are about, in the order in which they are shown."""
