"""Constructors that the pickles of ``data`` may call, each exact name with its role in the table of node decoders.

Sources: numpy ``random/_pickle.py``, gym and gymnasium ``spaces/``, SB3 ``common/{utils,noise,type_aliases}.py``,
cloudpickle ``cloudpickle.py`` and ``cloudpickle_fast.py`` of 0.8 to 3.1. Those that a ``.pth`` may
call too are in :mod:`sbformat.globals.torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.globals.jax import ARRAYS, FROZEN_DICTS, NAMED_TUPLES
from sbformat.globals.spaces import SPACES
from sbformat.globals.stdlib import CALLS as CARRIED_CALLS
from sbformat.globals.torch import CALLS as PTH_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.globals.torch import Pair


def _pairs(modules: Iterable[str], name: str) -> list[Pair]:
    return [(module, name) for module in modules]


_CLOUDPICKLE: Final = ("cloudpickle.cloudpickle", "cloudpickle.cloudpickle_fast", "cloudpickle")
_PATHLIB: Final = ("pathlib", "pathlib._local")
_NUMPY_PICKLE: Final = "numpy.random._pickle"

CALLS: Final[dict[Pair, str]] = {
    **PTH_CALLS,
    **CARRIED_CALLS,
    ("numpy", "dtype"): "numpy_dtype",
    ("numpy.random", "__RandomState_ctor"): "random_state",
    (_NUMPY_PICKLE, "__randomstate_ctor"): "random_state",
    (_NUMPY_PICKLE, "__generator_ctor"): "generator",
    (_NUMPY_PICKLE, "__bit_generator_ctor"): "bit_generator",
    ("gym.utils.seeding", "RandomNumberGenerator._generator_ctor"): "generator",  # gym 0.22 to 0.25
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"): "seed_sequence",
    ("numpy.random._bit_generator", "__pyx_unpickle_SeedSequence"): "seed_sequence",  # numpy before 1.19
    ("collections", "deque"): "deque",
    ("collections", "defaultdict"): "default_dict",
    ("datetime", "datetime"): "datetime",
    ("datetime", "date"): "date",
    ("datetime", "time"): "time",
    ("datetime", "timedelta"): "timedelta",
    ("datetime", "timezone"): "timezone",
    **{
        (module, name): role
        for module in _PATHLIB
        for name, role in (
            ("PosixPath", "posix_path"),
            ("PurePosixPath", "posix_path"),
            ("WindowsPath", "windows_path"),
            ("PureWindowsPath", "windows_path"),
        )
    },
    ("builtins", "range"): "range",
    ("builtins", "slice"): "slice",
    ("builtins", "type"): "type_of",
    ("builtins", "property"): "descriptor",
    ("builtins", "staticmethod"): "descriptor",
    ("builtins", "classmethod"): "descriptor",
    ("_operator", "getitem"): "generic_alias",
    ("functools", "partial"): "partial",
    ("copyreg", "_reconstructor"): "reconstructor",
    ("builtins", "getattr"): "attribute",
    ("dill._dill", "_get_attr"): "dill_attribute",
    ("torch.storage", "_load_from_bytes"): "load_from_bytes",
    ("stable_baselines3.common.utils", "constant_fn"): "constant_function",
    ("stable_baselines3.common.utils", "get_linear_fn"): "linear_function",
    ("stable_baselines3.common.type_aliases", "TrainFrequencyUnit"): "enum",
    ("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy"): "enum",
    ("stable_baselines.her.replay_buffer", "GoalSelectionStrategy"): "enum",
    **dict.fromkeys(ARRAYS, "jax_array"),
    **dict.fromkeys(FROZEN_DICTS, "read_only"),
    ("sacred.config.custom_containers", "ReadOnlyDict"): "read_only",
    ("sacred.config.custom_containers", "ReadOnlyList"): "read_only",
    # Known constructors of torch whose tensors have no value here.
    ("torch._utils", "_rebuild_nested_tensor"): "unread_tensor",
    ("torch._utils", "_rebuild_device_tensor_from_numpy"): "unread_tensor",
    ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"): "unread_tensor",
    ("torch._utils", "_rebuild_xla_tensor"): "unread_tensor",
    **{
        pair: role
        for name, role in (
            ("_builtin_type", "builtin_type"),
            ("_make_function", "function"),
            ("_make_skel_func", "skeleton_function"),
            ("_fill_function", "filled_function"),
            ("_function_setstate", "function_state"),
            ("_make_cell", "cell"),
            ("_make_empty_cell", "empty_cell"),
            ("_empty_cell_value", "empty_cell_value"),
            ("_make_skeleton_class", "carried_class"),
            ("_make_skeleton_enum", "carried_enum"),
            ("_rehydrate_skeleton_class", "filled_class"),
            ("_class_setstate", "class_state"),
            ("_make_typevar", "type_variable"),
            ("_gen_ellipsis", "ellipsis"),
            ("subimport", "module"),
        )
        for pair in _pairs(_CLOUDPICKLE, name)
    },
}
"""Functions that REDUCE may call."""

REACHING: Final = frozenset(
    {
        "builtin_type", "function", "skeleton_function", "filled_function", "function_state", "carried_class",
        "carried_enum", "filled_class", "class_state", "module", "attribute", "load_from_bytes", "type_of",
        "reconstructor", "generic_alias", "partial", "random_state", "generator", "bit_generator", "from_type_v2",
        "tuple_getter", "union", "weak_set", "jax_array", "dill_attribute",
    }
)  # fmt: skip
"""Roles of functions that run code when they are given other arguments than those that are accepted."""

GENERICS: Final[frozenset[Pair]] = frozenset(
    {
        *(("typing", name) for name in (
            "Any", "Callable", "ClassVar", "Collection", "DefaultDict", "Deque", "Dict", "FrozenSet", "Generator",
            "Generic", "Iterable", "Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional", "OrderedDict",
            "Protocol", "Sequence", "Set", "Tuple", "Type", "TypeVar", "Union",
        )),
        *(("collections.abc", name) for name in (
            "Callable", "Generator", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Set",
        )),
        *(("builtins", name) for name in ("dict", "frozenset", "list", "set", "tuple", "type")),
    }
)  # fmt: skip
"""Generic types that annotations parametrize."""

_SB3: Final = "stable_baselines3.common"
_SB2_SCHEDULES: Final = "stable_baselines.common.schedules"

OBJECTS: Final[dict[Pair, str]] = {
    **SPACES,
    (f"{_SB3}.utils", "ConstantSchedule"): "constant_schedule",
    (f"{_SB3}.utils", "LinearSchedule"): "linear_schedule",
    (f"{_SB3}.utils", "FloatSchedule"): "float_schedule",
    ("rl_zoo3.utils", "SimpleLinearSchedule"): "simple_linear_schedule",
    (f"{_SB3}.type_aliases", "TrainFreq"): "train_freq",
    ("sb3_contrib.common.recurrent.type_aliases", "RNNStates"): "rnn_states",
    ("numpy", "ndarray"): "portable_array",
    **dict.fromkeys(NAMED_TUPLES, "named_tuple"),
}
"""Classes that NEWOBJ may instantiate and that have a node decoder of their own."""

ENVIRONMENT_SPECS: Final[dict[Pair, tuple[str, ...]]] = {
    **dict.fromkeys(
        _pairs(("gym.envs.registration", "gymnasium.envs.registration"), "EnvSpec"),
        (
            "id", "entry_point", "reward_threshold", "nondeterministic", "max_episode_steps", "order_enforce",
            "autoreset", "disable_env_checker", "apply_api_compatibility", "new_step_api", "kwargs", "namespace",
            "name", "version", "additional_wrappers", "vector_entry_point",
            "_kwargs", "_env_name",  # gym < 0.22
            "_entry_point", "_local_only", "tags", "timestep_limit", "trials", "max_episode_seconds",  # gym < 0.13
        ),
    ),
    ("gymnasium.envs.registration", "WrapperSpec"): ("name", "entry_point", "kwargs"),
}  # fmt: skip
"""Descriptions of environments, with their attributes; ``gym.make`` imports what they name, and loading does not."""

OBJECTS.update(dict.fromkeys(ENVIRONMENT_SPECS, "environment_spec"))

_NOISE: Final = ("_mu", "_sigma", "_dtype")
_BUFFER: Final = (
    "buffer_size", "observation_space", "action_space", "obs_shape", "action_dim", "pos", "full", "device", "n_envs",
    "observations", "actions", "rewards",
)  # fmt: skip
_REPLAY: Final = (
    *_BUFFER, "optimize_memory_usage", "next_observations", "dones", "handle_timeout_termination", "timeouts",
)  # fmt: skip
_HER: Final = (
    *_REPLAY, "goal_selection_strategy", "n_sampled_goal", "her_ratio",
    "copy_info_dict", "infos", "ep_start", "ep_length", "_current_ep_start",  # SB3 >= 1.8
    "buffer", "_buffer", "_observation_keys", "goal_shape", "current_idx", "episode_steps", "episode_lengths",
    "info_buffer", "max_episode_length", "max_episode_stored", "online_sampling", "replay_buffer",  # before
)  # fmt: skip
_NORMALIZE: Final = (
    "num_envs", "observation_space", "action_space", "obs_rms", "ret_rms", "clip_obs", "clip_reward", "gamma",
    "epsilon", "training", "norm_obs", "norm_reward", "old_obs", "old_reward", "old_rews", "obs_keys",
    "norm_obs_keys", "obs_spaces", "reset_infos", "_seeds", "_options", "render_mode", "metadata",
)  # fmt: skip
_STATISTICS: Final = ("mean", "var", "count")

PLAIN_OBJECTS: Final[dict[Pair, tuple[str, ...]]] = {
    (f"{_SB3}.noise", "NormalActionNoise"): _NOISE,
    (f"{_SB3}.noise", "OrnsteinUhlenbeckActionNoise"): (*_NOISE, "_theta", "_dt", "initial_noise", "noise_prev"),
    (f"{_SB3}.noise", "VectorizedActionNoise"): ("n_envs", "_n_envs", "_base_noise", "_noises"),
    **{
        (module, name): (*_NOISE, "_theta", "_dt", "initial_noise", "noise_prev")
        for module in ("stable_baselines.ddpg.noise", "stable_baselines.common.noise")
        for name in ("NormalActionNoise", "OrnsteinUhlenbeckActionNoise")
    },
    **dict.fromkeys(
        _pairs(("stable_baselines.ddpg.noise", "stable_baselines.common.noise"), "AdaptiveParamNoiseSpec"),
        ("initial_stddev", "desired_action_stddev", "adoption_coefficient", "current_stddev"),
    ),
    (_SB2_SCHEDULES, "ConstantSchedule"): ("_value",),
    (_SB2_SCHEDULES, "LinearSchedule"): ("schedule_timesteps", "final_p", "initial_p"),
    (_SB2_SCHEDULES, "PiecewiseSchedule"): ("_endpoints", "_interpolation", "_outside_value"),
    **dict.fromkeys(
        _pairs((_SB2_SCHEDULES, "stable_baselines.a2c.utils"), "Scheduler"),
        ("step", "initial_value", "nvalues", "schedule"),
    ),
    ("stable_baselines.gail.dataset.dataset", "ExpertDataset"): (
        "observations",
        "actions",
        "returns",
        "avg_ret",
        "std_ret",
        "verbose",
        "num_traj",
        "num_transition",
        "randomize",
        "sequential_preprocessing",
        "dataloader",
        "train_loader",
        "val_loader",
    ),
    (f"{_SB3}.running_mean_std", "RunningMeanStd"): _STATISTICS,
    ("stable_baselines.common.running_mean_std", "RunningMeanStd"): _STATISTICS,
    (f"{_SB3}.vec_env.vec_normalize", "VecNormalize"): _NORMALIZE,
    ("stable_baselines.common.vec_env.vec_normalize", "VecNormalize"): _NORMALIZE,
    (f"{_SB3}.buffers", "ReplayBuffer"): _REPLAY,
    (f"{_SB3}.buffers", "DictReplayBuffer"): _REPLAY,
    (f"{_SB3}.buffers", "NStepReplayBuffer"): (*_REPLAY, "n_steps", "gamma"),
    ("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer"): _HER,
}
"""Classes whose objects consist of their attributes alone, with the attributes that they write."""

NEVER_VALUES: Final[frozenset[Pair]] = frozenset(
    {("stable_baselines.gail.dataset.dataset", "ExpertDataset"), *ENVIRONMENT_SPECS}
)
"""Plain objects whose class is not a value: calling it, or a method of it, loads a file or imports a module."""

INTERPOLATION: Final[frozenset[Pair]] = frozenset({("numpy", "interp"), ("numpy.lib.function_base", "interp")})
"""``numpy.interp`` since numpy 1.16, and before. A partial of it with plain numbers is a schedule."""

PARTIAL_MODULES: Final = (
    "torch.nn.modules.",
    "torch.optim.",
    "stable_baselines3.common.torch_layers",
    "stable_baselines3.common.sb2_compat.rmsprop_tf_like",
)
"""Modules of the classes that a partial may call: constructors of tensors and storages accept pointers."""
