"""From the last layer to the action: distributions, and what ``predict`` does to the action in numpy.

Sources: SB3 ``common/distributions.py`` and ``BasePolicy.predict`` of 0.6 to 2.9, sb3-contrib
``common/maskable/distributions.py``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from sbformat.errors import ValidationError
from sbformat.immutable import Record
from sbformat.nets.arguments import ACTIONS, action_space_error, choice_counts, output_size
from sbformat.nets.layers import FLOAT
from sbformat.policies.graph import BOUNDS, Input, Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.known.spaces import Space
    from sbformat.nets.layers import Scope
    from sbformat.policies.builder import GraphBuilder, Value

LOG_STD_RANGE: Final = (-20.0, 2.0)
"""``LOG_STD_MIN`` and ``LOG_STD_MAX`` of SAC and its relatives, in SB2 and SBX too."""
_LIKELY: Final = 1.5 * 2**-24  # the greatest logit whose Sigmoid is a half in torch's float32, which Round takes to 0
_GSDE_EPSILON: Final = 1e-6  # ``epsilon`` of ``StateDependentNoiseDistribution``
_NARROW: Final = frozenset({"bool", "uint8", "int8", "uint16", "int16", "float16", "float32"})
"""Dtypes of bounds with which numpy computes in float32; with any other, in float64."""


class Head(Record):
    """The outputs of a policy, ``action`` first, and how the action is drawn."""

    outputs: Mapping[str, Value]
    sampling: Sampling


# -- choices ------------------------------------------------------------------------------------------


def add_choices(scope: Scope, space: Space, logits: Value, *, masked: bool, is_normalized: bool = True) -> Head:
    """Add categorical distributions, of which each takes its part of the logits.

    :param masked: whether an input ``action_masks`` excludes choices, 0 for each that is excluded
    :param is_normalized: whether the greatest logit is found as torch does, which normalizes them first
    """
    sizes = component_sizes(scope, space, logits)
    require_outputs(logits, *sizes)
    is_single = space.distribution == "categorical"
    parts = [logits] if is_single else _split(scope, logits, sizes)
    scores = [_normalize(scope, part) for part in parts] if is_normalized else parts
    if masked:
        described = Input("action_masks", "bool", logits.shape, default=1.0, role="action_masks")
        masks, excluded = scope.network.builder.input(described), scope.constant(-1e8)  # as sb3-contrib
        logits = scope.add("Where", masks, logits, excluded, name="logits", module="action_net")
        allowed = [masks] if is_single else _split(scope, masks, sizes)
        for at, (mask, part) in enumerate(zip(allowed, scores)):
            scores[at] = _normalize(scope, scope.add("Where", mask, part, excluded, module="action"))
    if is_single:
        action = scope.add("ArgMax", scores[0], axis=-1, name="action")
        probabilities = scope.add("Softmax", logits, axis=-1, name="probabilities")
    else:
        parts = _split(scope, logits, sizes) if masked else parts
        best = [scope.add("ArgMax", part, axis=-1, keepdims=True, module="action") for part in scores]
        likely = [scope.add("Softmax", part, axis=-1, module="probabilities") for part in parts]
        action = scope.add("Concat", *best, axis=-1, name="action")
        probabilities = scope.add("Concat", *likely, axis=-1, name="probabilities")
    drawn = Sampling("categorical", action.name, {"logits": logits.name}, tuple(sizes))
    return Head({"action": action, "logits": logits, "probabilities": probabilities}, drawn)


def _normalize(scope: Scope, logits: Value) -> Value:
    """Subtract the logarithm of the sum of exponentials, as ``torch.distributions.Categorical`` does.

    float32 rounds the difference, so that logits that are nearly the same may become equal: then the first one counts.
    """
    total = scope.add("ReduceLogSumExp", logits, axis=-1, keepdims=True, module="action")
    return scope.add("Sub", logits, total, module="action")


def _split(scope: Scope, value: Value, sizes: Sequence[int]) -> list[Value]:
    ends = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    return [scope.add("Slice", value, axis=-1, start=start, end=end, module="action_net") for start, end in ends]


def add_bits(scope: Scope, space: Space, logits: Value) -> Head:
    """Add Bernoulli distributions: SB3's action is float32, 1 where the probability in float32 is above a half.

    The logit decides, so that no back end's exponential does.
    """
    require_outputs(logits, output_size(space))
    probabilities = scope.add("Sigmoid", logits, name="probabilities")
    is_likely = scope.add("Greater", logits, scope.constant(_LIKELY), module="action")
    action = scope.add("Cast", is_likely, to=FLOAT, name="action")
    drawn = Sampling("bernoulli", action.name, {"logits": logits.name})
    return Head({"action": action, "logits": logits, "probabilities": probabilities}, drawn)


def choose_greatest(scope: Scope, outputs: Mapping[str, Value], rate: float) -> Head:
    """Add the action of the greatest of ``q_values``; a share of actions, the rate, is random."""
    values = outputs["q_values"]
    action = scope.add("ArgMax", values, axis=-1, name="action")
    drawn = Sampling("epsilon_greedy", action.name, sizes=values.shape, rate=rate) if rate else Sampling("none")
    return Head({"action": action, **outputs}, drawn)


def average_quantiles(scope: Scope, critics: Sequence[Value]) -> dict[str, Value]:
    """Add the outputs of critics that return quantiles of a value, whose mean is the value."""
    rows = [scope.add("Reshape", value, shape=(1, *value.shape)) for value in critics]
    quantiles = scope.add("Concat", *rows, axis=-2, name="quantiles")
    return {"q_values": scope.add("ReduceMean", quantiles, axis=-1, name="q_values"), "quantiles": quantiles}


# -- numbers ------------------------------------------------------------------------------------------


class Noise(Record):
    """The distribution of continuous actions around their mean."""

    log_std: Value
    sampling: Sampling


def add_gaussian(mean: Value, log_std: Value) -> Noise:
    """Return a Gaussian distribution with independent components."""
    drawn = Sampling("gaussian", mean.name, {"mean": mean.name, "log_std": log_std.name})
    return Noise(log_std, drawn)


def add_gsde(scope: Scope, mean: Value, latent: Value, *, use_expln: bool) -> Noise:
    """Add the noise of gSDE: a matrix (features, actions), or (features, 1) without ``full_std``, times features."""
    log_std = scope.network.weight(scope.path)
    std = scope.add("Exp", log_std)
    if use_expln:  # above 0 it grows like a logarithm
        one, zero, epsilon = (scope.constant(number) for number in (1.0, 0.0, _GSDE_EPSILON))
        shifted = scope.add("Add", scope.add("Add", log_std, epsilon), one)
        above = scope.add("Add", scope.add("Log", shifted), one)
        std = scope.add("Where", scope.add("Greater", log_std, zero), above, std)
    count = scope.network.builder.check_parts(mean.shape[0])
    if std.shape[-1] != count:
        std = scope.add("Concat", *[std] * count, axis=-1)
    squares = [scope.add("Mul", value, value) for value in (latent, std)]
    variance = scope.add("Gemm", *squares, transB=False)
    safe = scope.add("Add", variance, scope.constant(_GSDE_EPSILON))
    spread = scope.add("Mul", scope.add("Log", safe), scope.constant(0.5))
    drawn = Sampling("gsde", mean.name, {"mean": mean.name, "latent": latent.name, "std": std.name})
    return Noise(spread, drawn)


def finish_action(builder: GraphBuilder, space: Space, action: Value, *, squashed: bool) -> Value:
    """Add what ``predict`` does to a continuous action: unscale it from [-1, 1], or clip it to the bounds.

    numpy computes with the bounds, so that the dtype is float64 unless theirs fits into float32.

    :param squashed: whether the policy has ``squash_output``
    :return: an action of the shape of the space
    """
    if space.distribution != "gaussian":
        raise action_space_error(space)
    names = ("data:action_space/low", "data:action_space/high")
    low, high = (builder.weight(name, bound, name) for name, bound in zip(names, space.bounds or ()))
    if action.shape != space.shape:
        action = builder.add("Reshape", action, shape=space.shape, module="action")
    wide = FLOAT if low.dtype in _NARROW else "float64"
    if not squashed:
        least, most, action = (builder.cast(value, wide, BOUNDS) for value in (low, high, action))
        return builder.add("Min", builder.add("Max", action, least, module=BOUNDS), most, name="action", module=BOUNDS)
    half = builder.constant(0.5)
    share = builder.add("Mul", builder.add("Add", action, builder.constant(1.0), module=BOUNDS), half, module=BOUNDS)
    width = builder.cast(builder.add("Sub", high, low, module=BOUNDS), wide, BOUNDS)
    moved = builder.add("Mul", builder.cast(share, wide, BOUNDS), width, module=BOUNDS)
    return builder.add("Add", builder.cast(low, wide, BOUNDS), moved, name="action", module=BOUNDS)


def finish_gaussian(scope: Scope, space: Space, noise: Noise, mean: Value, scaled: Value, *, squashed: bool) -> Head:
    """Add the action of a Gaussian policy, and its outputs; ``scaled`` is the mean, or its tanh."""
    action = finish_action(scope.network.builder, space, scaled, squashed=squashed)
    log_std = scope.add("Identity", noise.log_std, name="log_std") if noise.log_std.is_weight else noise.log_std
    return Head({"action": action, "mean": mean, "log_std": log_std}, noise.sampling)


def finish_deterministic(scope: Scope, space: Space, scaled: Value, *, squashed: bool = True) -> Head:
    """Add the action of a policy that only has a mean."""
    action = finish_action(scope.network.builder, space, scaled, squashed=squashed)
    return Head({"action": action, "mean": scaled}, Sampling("none"))


# -- any of them --------------------------------------------------------------------------------------


def require_outputs(scores: Value, *sizes: int) -> None:
    """Refuse a layer that does not have an output for each choice, which a caller's action space may not fit."""
    count = sum(sizes)
    if scores.shape != (count,):
        message = f"expected an output for each of the {count:,} choices of the action space, got {scores.shape[0]:,}"
        raise ValidationError(message)


def component_sizes(scope: Scope, space: Space, logits: Value) -> tuple[int, ...]:
    """Return the number of choices of each component of a discrete action."""
    counts = choice_counts(space, ACTIONS)
    return counts or (2,) * scope.network.builder.check_parts(logits.shape[0] // 2)
