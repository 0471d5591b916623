"""From a network's result to an action, as ``predict`` of Stable Baselines 2.10 returns it.

Each function adds the outputs of one kind of action to ``outputs``, ``action`` among them, and returns how an action is
drawn. Source: ``common/distributions.py``, ``ActorCriticRLModel.predict`` of ``common/base_class.py``, ``predict`` of
``ddpg``, ``sac`` and ``td3``, and ``unscale_action`` of ``common/math_util.py``.
"""

from __future__ import annotations

from functools import partial
from math import log
from typing import TYPE_CHECKING, Final

from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.types import Instance
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.graph import BOUNDS, Sampling
from sbformat.policies.operators import require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.policies.builder import GraphBuilder, Value

    Outputs = dict[str, Value]

ACTION: Final = "action"
BOOL: Final = "|b1"
_DOUBLE: Final = frozenset({"float64", "int32", "uint32", "int64", "uint64"})
"""The dtypes that numpy combines with float32 to float64."""
_NORMAL_NOISE: Final = (
    ("stable_baselines.common.noise", "NormalActionNoise"),
    ("stable_baselines.ddpg.noise", "NormalActionNoise"),
)
_NO_DEVIATION: Final = -1000.0
"""The logarithm of a standard deviation of 0: its exponential is 0 in every dtype."""


# -- discrete actions ---------------------------------------------------------------------------------


def add_choice(builder: GraphBuilder, logits: Value, outputs: Outputs) -> Sampling:
    """Add one action: the index of the greatest of ``logits``."""
    outputs[ACTION] = builder.add("ArgMax", logits, axis=-1, name=ACTION)
    outputs["probabilities"] = builder.add("Softmax", logits, axis=-1, name="probabilities")
    return Sampling("categorical", ACTION, {"logits": logits.name}, logits.shape)


def add_choices(builder: GraphBuilder, sizes: Sequence[int], logits: Value, outputs: Outputs) -> Sampling:
    """Add several actions, each with its own number of choices; their probabilities are one after another."""
    actions, probabilities, start = [], [], 0
    for size in sizes:
        part = builder.add("Slice", logits, axis=-1, start=start, end=start + size)
        probabilities.append(builder.add("Softmax", part, axis=-1))
        actions.append(builder.add("ArgMax", part, axis=-1, keepdims=True))
        start += size
    outputs[ACTION] = builder.add("Concat", *actions, axis=-1, name=ACTION)
    outputs["probabilities"] = builder.add("Concat", *probabilities, axis=-1, name="probabilities")
    return Sampling("categorical", ACTION, {"logits": logits.name}, tuple(sizes))


def add_bits(builder: GraphBuilder, logits: Value, outputs: Outputs) -> Sampling:
    """Add the actions of a MultiBinary space: float32 in SB2, 0 for a probability of one half."""
    probabilities = builder.add("Sigmoid", logits, name="probabilities")
    outputs[ACTION] = builder.add("Round", probabilities, name=ACTION)
    outputs["probabilities"] = probabilities
    return Sampling("bernoulli", ACTION, {"logits": logits.name})


# -- continuous actions -------------------------------------------------------------------------------


def add_clipped(builder: GraphBuilder, space: Space, mean: Value, log_std: Value, outputs: Outputs) -> Sampling:
    """Add the action of an on-policy algorithm: drawn, then clipped to the bounds."""
    low, high = _bounds(builder, space)
    dtype = _result_dtype(low)
    value = _cast(builder, mean, dtype)
    value = builder.add("Max", value, _cast(builder, low, dtype), module=BOUNDS)
    outputs[ACTION] = builder.add("Min", value, _cast(builder, high, dtype), name=ACTION, module=BOUNDS)
    return Sampling("gaussian", mean.name, {"mean": mean.name, "log_std": log_std.name})


def add_squashed(builder: GraphBuilder, space: Space, mean: Value, log_std: Value, outputs: Outputs) -> Sampling:
    """Add the action of SAC: drawn, squashed by ``tanh``, then scaled to the bounds."""
    outputs[ACTION] = _unscale(builder, space, builder.add("Tanh", mean))
    return Sampling("gaussian", mean.name, {"mean": mean.name, "log_std": log_std.name})


def add_noisy(
    builder: GraphBuilder, space: Space, squashed: Value, perturbed: Value | None, noise: object, outputs: Outputs
) -> Sampling:
    """Add the action of DDPG or TD3: with action noise unless it is deterministic, clipped, scaled to the bounds.

    :param squashed: what the actor computes, from -1 to 1
    :param perturbed: what the actor with parameter noise computes, which DDPG uses to draw an action
    :param noise: the decoded ``action_noise``
    """
    drawn = _read_noise(builder, noise, squashed.shape[0])
    if drawn is None and perturbed is None:
        outputs[ACTION] = _unscale(builder, space, squashed)
        return Sampling("none")
    mean = perturbed or squashed
    if drawn is None:
        log_std = builder.constant([_NO_DEVIATION] * squashed.shape[0], shape=squashed.shape)
    else:
        shift, log_std = drawn
        mean = builder.add("Add", mean, shift)
    value = builder.add("Max", squashed, builder.constant(-1.0))
    outputs[ACTION] = _unscale(builder, space, builder.add("Min", value, builder.constant(1.0)))
    return Sampling("gaussian", squashed.name, {"mean": mean.name, "log_std": log_std.name})


def _read_noise(builder: GraphBuilder, noise: object, size: int) -> tuple[Value, Value] | None:
    """Return the mean of the noise and the logarithm of its standard deviation; None if there is none."""
    if noise is None:
        return None
    if isinstance(noise, Instance) and noise.type.pair in _NORMAL_NOISE:
        means, deviations = (_read_numbers(noise.attributes, name, size) for name in ("_mu", "_sigma"))
        if means and deviations and min(deviations) >= 0:
            logarithms = [log(deviation) if deviation else _NO_DEVIATION for deviation in deviations]
            return builder.constant(means, shape=(size,)), builder.constant(logarithms, shape=(size,))
    shown = noise.type.name if isinstance(noise, Instance) else "one that cannot be decoded"
    builder.infer(f"action_noise: {shown} is not applied, actions are drawn without it")
    return None


def _read_numbers(attributes: Mapping[str, object], name: str, size: int) -> list[float]:
    """Return one number for each action; none if it is something else."""
    value = attributes.get(name)
    try:
        if isinstance(value, ArrayInfo) and value.shape in ((1,), (size,)):
            items = [float(item) for item in unpack_items(value)]
        else:
            items = [float(to_number(value, name))]
    except UnrecognizedError:
        return []
    return items * size if len(items) == 1 else items


# -- bounds -------------------------------------------------------------------------------------------


def _bounds(builder: GraphBuilder, space: Space) -> tuple[Value, Value]:
    bounds = space.bounds or ()
    require(all(bound.dtype != BOOL for bound in bounds), "expected numbers as bounds of the action space, got bools")
    low, high = (
        builder.weight(name, bound, f"data:{name}")
        for name, bound in zip(("action_space/low", "action_space/high"), bounds)
    )
    return low, high


def _result_dtype(bound: Value) -> str:
    """Return the dtype of an action that numpy combines with a bound."""
    return "float64" if bound.dtype in _DOUBLE else "float32"


def _cast(builder: GraphBuilder, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else builder.add("Cast", value, to=dtype, module=BOUNDS)


def _unscale(builder: GraphBuilder, space: Space, squashed: Value) -> Value:
    """Scale from -1 and 1 to the bounds: ``low + 0.5 * (x + 1) * (high - low)``."""
    add, constant = partial(builder.add, module=BOUNDS), builder.constant
    low, high = _bounds(builder, space)
    dtype = _result_dtype(low)
    extent = _cast(builder, add("Sub", high, low), dtype)
    share = add("Mul", add("Add", squashed, constant(1.0)), constant(0.5))
    return add("Add", _cast(builder, low, dtype), add("Mul", _cast(builder, share, dtype), extent), name=ACTION)
