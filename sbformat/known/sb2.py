"""The classes of Stable Baselines 2, and the activations of TensorFlow that its policies name (SB2.md).

Sources: stable-baselines 2.0 to 2.10. Its functions of a number and TensorFlow's functions of a tensor may be values;
environments, loggers, callbacks and data sets (``numpy.load``) may not.
"""

from __future__ import annotations

from typing import Final

from sbformat.known.rows import known
from sbformat.known.sb3 import CORRELATED_NOISE, NORMALIZE, STATISTICS, decode_enum, decode_plain_object

_SB2: Final = "stable_baselines"
_SCHEDULES: Final = f"{_SB2}.common.schedules"
_NOISE: Final = (f"{_SB2}.ddpg.noise", f"{_SB2}.common.noise")
_FUNCTIONS: Final = "constant double_linear_con double_middle_drop linear_schedule middle_drop"
_FEED_FORWARD: Final = "CnnPolicy FeedForwardPolicy LnCnnPolicy LnMlpPolicy MlpPolicy"

ROWS: Final = [
    *known(f"{_SB2}.ddpg.ddpg", "DDPG", "algorithm"),
    *known(f"{_SB2}.deepq.dqn", "DQN", "algorithm"),
    *known(f"{_SB2}.sac.sac", "SAC", "algorithm"),
    *known(f"{_SB2}.td3.td3", "TD3", "algorithm"),
    *known(
        f"{_SB2}.common.policies",
        "ActorCriticPolicy BasePolicy CnnLnLstmPolicy CnnLstmPolicy CnnPolicy FeedForwardPolicy LstmPolicy "
        "MlpLnLstmPolicy MlpLstmPolicy MlpPolicy RecurrentActorCriticPolicy",
        "value",
    ),
    *known(f"{_SB2}.ddpg.policies", f"DDPGPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.deepq.policies", f"DQNPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.sac.policies", f"SACPolicy {_FEED_FORWARD}", "value"),
    *known(f"{_SB2}.td3.policies", f"TD3Policy {_FEED_FORWARD}", "value"),
    *known("tensorflow.python.ops.gen_nn_ops", "elu relu relu6 selu softplus softsign", "value"),
    *known("tensorflow.python.ops.math_ops", "sigmoid tanh", "value"),
    *known("tensorflow.python.ops.nn_ops", "leaky_relu", "value"),
    *known(_NOISE, "ActionNoise", "value"),
    *known(
        _NOISE, "NormalActionNoise OrnsteinUhlenbeckActionNoise", "value", kind="plain", new=decode_plain_object,
        attributes=CORRELATED_NOISE,
    ),
    *known(
        _NOISE, "AdaptiveParamNoiseSpec", "value", kind="plain", new=decode_plain_object,
        attributes=("initial_stddev", "desired_action_stddev", "adoption_coefficient", "current_stddev"),
    ),
    *known(_SCHEDULES, "Schedule linear_interpolation", "value"),
    *known((_SCHEDULES, f"{_SB2}.a2c.utils"), _FUNCTIONS, "value"),  # a2c.utils: before 2.10
    *known(
        (_SCHEDULES, f"{_SB2}.a2c.utils"), "Scheduler", "value", kind="plain", new=decode_plain_object,
        attributes=("step", "initial_value", "nvalues", "schedule"),
    ),
    *known(
        _SCHEDULES, "ConstantSchedule", "value", kind="plain", new=decode_plain_object, attributes=("_value",)
    ),
    *known(
        _SCHEDULES, "LinearSchedule", "value", kind="plain", new=decode_plain_object,
        attributes=("schedule_timesteps", "final_p", "initial_p"),
    ),
    *known(
        _SCHEDULES, "PiecewiseSchedule", "value", kind="plain", new=decode_plain_object,
        attributes=("_endpoints", "_interpolation", "_outside_value"),
    ),
    *known(f"{_SB2}.common.running_mean_std", "RunningMeanStd", kind="plain", new=decode_plain_object,
           attributes=STATISTICS),
    *known(f"{_SB2}.common.vec_env.vec_normalize", "VecNormalize", kind="plain", new=decode_plain_object,
           attributes=NORMALIZE),
    *known(f"{_SB2}.common.buffers", "PrioritizedReplayBuffer ReplayBuffer", "value"),
    *known(f"{_SB2}.deepq.replay_buffer", "PrioritizedReplayBuffer ReplayBuffer", "value"),
    *known(f"{_SB2}.ddpg.memory", "Memory RingBuffer", "value"),
    *known(f"{_SB2}.her.replay_buffer", "GoalSelectionStrategy", "value", role="enum", call=decode_enum,
           members=(0, 1, 2, 3)),
    *known(  # its methods load files
        f"{_SB2}.gail.dataset.dataset", "ExpertDataset", "only described", kind="plain", new=decode_plain_object,
        attributes=(
            "observations", "actions", "returns", "avg_ret", "std_ret", "verbose", "num_traj", "num_transition",
            "randomize", "sequential_preprocessing", "dataloader", "train_loader", "val_loader",
        ),
    ),
]  # fmt: skip
