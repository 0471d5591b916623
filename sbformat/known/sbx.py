"""Names in the archives of SBX (Stable Baselines Jax): arrays of jax, states of flax and optax (SBX.md 22).

The pickled policy of SBX contains functions of jax by value, and around them objects of jax that only store what they
are given. The constructors of all classes here were read: none calls, imports or opens anything.

Sources: jax ``_src/array.py`` (before 0.4 ``_src/device_array.py``), flax ``core/frozen_dict.py`` and
``training/train_state.py``, optax ``_src/base.py``, ``_src/transform.py``, ``schedules/_inject.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known.numpy import decode_jax_array
from sbformat.known.python import decode_read_only
from sbformat.known.rows import find, known, later, plain_arguments, reject
from sbformat.known.types import Instance, Reference

if TYPE_CHECKING:
    from sbformat.known.context import Context
    from sbformat.known.rows import Known
    from sbformat.pkl.tree import Call

TRAIN_STATE: Final = "TrainState"
"""What the name of a class that holds parameters and the state of their optimizer ends with."""


def decode_named_tuple(context: Context, node: Call) -> Instance:
    """Decode a named tuple of optax, such as the state of its Adam."""
    row = find(node.func.pair)  # type: ignore[attr-defined]
    args = plain_arguments(context, node, "a named tuple")
    names = row.attributes or ()
    if len(args) != len(names):
        reject(f"expected {len(names)} fields in a named tuple, got {len(args)}")
    context.accept(node)
    return Instance(Reference(*row.pair), dict(zip(names, args)))


# -- rows ----------------------------------------------------------------------------------------------

_XLA: Final = ("jaxlib._jax", "jaxlib.xla_extension")
"""The modules of jax's classes in C++: that of today, and the one before 0.6."""
_INDEX_UPDATE: Final = "_IndexUpdateHelper"


def _tuples(modules: str | tuple[str, ...], names: str, *fields: str) -> list[Known]:
    return known(modules, names, kind="named_tuple", new=decode_named_tuple, attributes=fields)


def _stored(modules: str | tuple[str, ...], names: str, uses: str = "stores") -> list[Known]:
    return known(modules, names, uses, new=later("python_objects", "decode_stored_object"))


def _records(module: str, names: str) -> list[Known]:
    """Return rows for classes that are called with what they store: enumerations, tuples, parts of a signature."""
    decode: Any = later("python_objects", "decode_record")
    return known(module, names, role="record", call=decode, new=decode)


def _of_sbx(module: str, names: str) -> list[Known]:
    """Return rows for classes of SBX; a policy has a method bound to its networks."""
    policies = " ".join(f"{name}.reset_noise" for name in names.split() if name.endswith("Policy"))
    return [*_stored(f"sbx.{module}", names, "value, stores"), *known(f"sbx.{module}", policies, "beside code, method")]


ROWS: Final = [
    *_of_sbx("common.jax_layers", "BatchRenorm NatureCNN SimbaResidualBlock"),
    *_of_sbx(
        "common.policies",
        "ContinuousCritic Flatten SimbaContinuousCritic SimbaSquashedGaussianActor SimbaVectorCritic "
        "SquashedGaussianActor VectorCritic",
    ),
    *_of_sbx("common.type_aliases", "BatchNormTrainState RLTrainState"),
    *_of_sbx("crossq.crossq", "ConstantEntropyCoef EntropyCoef"),
    *_of_sbx(
        "crossq.policies",
        "Actor Critic CrossQPolicy SimbaActor SimbaCritic SimbaCrossQPolicy SimbaVectorCritic VectorCritic",
    ),
    *_of_sbx("ddpg.policies", "Actor Critic DDPGPolicy TD3Policy VectorCritic"),
    *_of_sbx("dqn.policies", "CNNPolicy CnnQNetwork DQNPolicy QNetwork"),
    *_of_sbx("ppo.policies", "Actor CnnPolicy Critic PPOPolicy"),
    *_of_sbx("sac.policies", "Actor Critic SACPolicy SimbaSACPolicy VectorCritic"),
    *_of_sbx("sac.sac", "ConstantEntropyCoef EntropyCoef"),
    *_of_sbx("td3.policies", "Actor Critic TD3Policy VectorCritic"),
    *_of_sbx("tqc.policies", "Actor Critic SimbaTQCPolicy TQCPolicy"),
    *_of_sbx("tqc.tqc", "ConstantEntropyCoef EntropyCoef"),
    # activations, functions of an array; functions of optax that only make an optimizer
    *known(
        "jax._src.nn.functions",
        "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid "
        "silu soft_sign softplus swish",
        "value",
    ),
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
    *_tuples(
        "optax._src.transform", "ScaleByAdamState ScaleByBeliefState ScaleByNovogradState ScaleByRStdDevWithCountState",
        "count", "mu", "nu",
    ),
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
    *_tuples(
        ("optax._src.schedule", "optax.schedules._inject"), "InjectHyperparamsState", "count", "hyperparams",
        "inner_state",
    ),
    *_tuples(
        ("optax._src.schedule", "optax.schedules._inject"), "InjectStatefulHyperparamsState", "count", "hyperparams",
        "hyperparams_states", "inner_state",
    ),
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
    *known(_XLA, "ArrayMeta", "beside code, metaclass"),  # the metaclass of arrays: it adds __instancecheck__
    *known("flax.linen.module", "Module.apply", "beside code, method"),  # calls a network
    *known("inspect", "_empty", "beside code"),
    *known("jax._src.interpreters.pxla", "cc_shard_arg", "beside code"),
    *known("jax._src.tree_util", "default_registry dispatch_registry none_leaf_registry", "beside code"),
    *known("optax._src.base", "init_empty_state", "beside code"),
    *known("jax._src.numpy.array_methods", _INDEX_UPDATE, "beside code", looked_up=("array",)),
    *known(
        "jax._src.numpy.array_methods",
        " ".join(f"{_INDEX_UPDATE}.{method}" for method in ("__getitem__", "__init__", "__repr__")), "beside code",
    ),
]  # fmt: skip
