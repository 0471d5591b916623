"""Names in the archives of SBX (Stable Baselines Jax): arrays of jax, states of flax and optax (SBX.md 22).

The pickled policy of SBX contains functions of jax by value, and around them objects of jax that only store what they
are given. The constructors of all classes here were read: none calls, imports or opens anything.

Sources: jax ``_src/array.py`` (before 0.4 ``_src/device_array.py``), flax ``core/frozen_dict.py`` and
``training/train_state.py``, optax ``_src/base.py``, ``_src/transform.py``, ``schedules/_inject.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair

ARRAYS: Final[frozenset[Pair]] = frozenset(
    {("jax._src.array", "_reconstruct_array"), ("jax._src.device_array", "_reconstruct_device_array")}
)
"""The functions that jax pickles an array as a call of."""

FROZEN_DICTS: Final[frozenset[Pair]] = frozenset({("flax.core.frozen_dict", "FrozenDict")})
"""The class of flax's parameters before 0.7.1, and of those that a user froze."""

_ADAM: Final = ("count", "mu", "nu")

NAMED_TUPLES: Final[dict[Pair, tuple[str, ...]]] = {
    ("optax._src.base", "EmptyState"): (),
    ("optax._src.base", "GradientTransformation"): ("init", "update"),
    ("optax._src.base", "GradientTransformationExtraArgs"): ("init", "update"),
    ("optax._src.transform", "EmptyState"): (),
    ("optax._src.transform", "ScaleByAdamState"): _ADAM,
    ("optax._src.transform", "ScaleByAmsgradState"): ("count", "mu", "nu", "nu_max"),
    ("optax._src.transform", "ScaleByAdaDeltaState"): ("e_g", "e_x"),
    ("optax._src.transform", "ScaleByAdanState"): ("m", "v", "n", "g", "t"),
    ("optax._src.transform", "ScaleByBeliefState"): _ADAM,
    ("optax._src.transform", "ScaleByNovogradState"): _ADAM,
    ("optax._src.transform", "ScaleByLionState"): ("count", "mu"),
    ("optax._src.transform", "ScaleByRmsState"): ("nu",),
    ("optax._src.transform", "ScaleByRmsWithCountState"): ("count", "nu"),
    ("optax._src.transform", "ScaleByRssState"): ("sum_of_squares",),
    ("optax._src.transform", "ScaleByRStdDevState"): ("mu", "nu"),
    ("optax._src.transform", "ScaleByRStdDevWithCountState"): _ADAM,
    ("optax._src.transform", "ScaleByScheduleState"): ("count",),
    ("optax._src.transform", "TraceState"): ("trace",),
    ("optax._src.wrappers", "MaskedState"): ("inner_state",),
    ("optax.transforms._masking", "MaskedState"): ("inner_state",),
    ("optax.transforms._masking", "MaskedNode"): (),
    ("optax.transforms._accumulation", "EmaState"): ("count", "ema"),
    ("optax.transforms._accumulation", "TraceState"): ("trace",),
    ("optax._src.schedule", "InjectHyperparamsState"): ("count", "hyperparams", "inner_state"),
    ("optax._src.schedule", "InjectStatefulHyperparamsState"): (
        "count", "hyperparams", "hyperparams_states", "inner_state",
    ),
    ("optax.schedules._inject", "InjectHyperparamsState"): ("count", "hyperparams", "inner_state"),
    ("optax.schedules._inject", "InjectStatefulHyperparamsState"): (
        "count", "hyperparams", "hyperparams_states", "inner_state",
    ),
}  # fmt: skip
"""Named tuples of optax, with their fields."""

TRAIN_STATE: Final = "TrainState"
"""What the name of a class that holds parameters and the state of their optimizer ends with."""

_XLA: Final = ("jaxlib._jax", "jaxlib.xla_extension")
"""The modules of jax's classes in C++: that of today, and the one before 0.6."""
SBX: Final = {
    "sbx.common.jax_layers": "BatchRenorm NatureCNN SimbaResidualBlock",
    "sbx.common.policies": (
        "ContinuousCritic Flatten SimbaContinuousCritic SimbaSquashedGaussianActor SimbaVectorCritic "
        "SquashedGaussianActor VectorCritic"
    ),
    "sbx.common.type_aliases": "BatchNormTrainState RLTrainState",
    "sbx.crossq.crossq": "ConstantEntropyCoef EntropyCoef",
    "sbx.crossq.policies": (
        "Actor Critic CrossQPolicy SimbaActor SimbaCritic SimbaCrossQPolicy SimbaVectorCritic VectorCritic"
    ),
    "sbx.ddpg.policies": "Actor Critic DDPGPolicy TD3Policy VectorCritic",
    "sbx.dqn.policies": "CNNPolicy CnnQNetwork DQNPolicy QNetwork",
    "sbx.ppo.policies": "Actor CnnPolicy Critic PPOPolicy",
    "sbx.sac.policies": "Actor Critic SACPolicy SimbaSACPolicy VectorCritic",
    "sbx.sac.sac": "ConstantEntropyCoef EntropyCoef",
    "sbx.td3.policies": "Actor Critic TD3Policy VectorCritic",
    "sbx.tqc.policies": "Actor Critic SimbaTQCPolicy TQCPolicy",
    "sbx.tqc.tqc": "ConstantEntropyCoef EntropyCoef",
}
"""The classes of SBX: policies, networks and states."""

JAX_FUNCTIONS: Final = {
    "jax._src.nn.functions": (
        "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid "
        "silu soft_sign softplus swish"
    ),
    "jax._src.numpy.ufuncs": "tanh",
    "optax._src.alias": "adam adamw lion nadam nadamw radam rmsprop sgd",
}
"""Activations of jax, functions of an array, and functions of optax that only make an optimizer."""

METHODS: Final[frozenset[Pair]] = frozenset(
    {
        ("flax.linen.module", "Module.apply"),
        *(
            (module, f"{name}.reset_noise")
            for module, names in SBX.items()
            for name in names.split()
            if name.endswith("Policy")
        ),
    }
)
"""Methods that a policy of SBX has bound to its networks: its own, and that of flax which calls a network."""

_HELPER: Final = ("jax._src.numpy.array_methods", "_IndexUpdateHelper")
NAMES: Final[frozenset[Pair]] = (
    METHODS
    | FROZEN_DICTS
    | frozenset(
        {
            ("inspect", "_empty"),
            ("jax._src.interpreters.pxla", "cc_shard_arg"),
            ("jax._src.tree_util", "default_registry"),
            ("jax._src.tree_util", "dispatch_registry"),
            ("jax._src.tree_util", "none_leaf_registry"),
            ("optax._src.base", "init_empty_state"),
            ("typing", "Collection"),
            ("typing", "ForwardRef"),
            _HELPER,
            *((_HELPER[0], f"{_HELPER[1]}.{method}") for method in ("__getitem__", "__init__", "__repr__")),
            *((module, "ArrayMeta") for module in _XLA),
        }
    )
)
"""Other names that may be values where a function is pickled by value, and that nothing in the pickle calls."""

METACLASSES: Final[frozenset[Pair]] = frozenset((module, "ArrayMeta") for module in _XLA)
"""The metaclass of jax's arrays, which adds ``__instancecheck__``."""

SLOTS: Final[frozenset[tuple[Pair, str]]] = frozenset({(_HELPER, "array")})
"""Slots that ``getattr`` looks up in a class that a class pickled by value refers to."""

OBJECTS: Final[frozenset[Pair]] = frozenset(
    {
        *((module, name) for module, names in SBX.items() for name in names.split()),
        ("flax.ids", "FlaxId"),
        ("flax.linen.module", "_ModuleInternalState"),
        ("flax.training.train_state", "TrainState"),
        ("jax._src.custom_derivatives", "custom_jvp"),
        ("jax._src.interpreters.pxla", "JitGlobalCppCacheKeys"),
        ("jax._src.named_sharding", "UnspecifiedValue"),
        ("jax._src.sharding_impls", "UnspecifiedValue"),
        *((module, name) for module in _XLA for name in ("PjitFunction", "PjitFunctionCache", "pytree.PyTreeDef")),
        *((f"{module}.pytree", "PyTreeDef") for module in _XLA),
    }
)
"""Classes that NEWOBJ creates, and whose state is stored."""

RECORDS: Final[frozenset[Pair]] = frozenset(
    {
        ("collections.abc", "_CallableGenericAlias"),
        ("flax.linen.module", "SetupState"),
        ("inspect", "Parameter"),
        ("inspect", "Signature"),
        ("inspect", "_ParameterKind"),
        ("jax._src.pjit", "PjitInfo"),
    }
)
"""Classes that are called with what they store: enumerations, named tuples, parts of a signature."""

FORWARD_REFERENCE: Final[Pair] = ("typing", "ForwardRef")
"""A type annotation as text, with code that Python compiled of it."""
