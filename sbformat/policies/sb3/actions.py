"""From the last layer to the action: distributions, and what ``predict`` does to the action in numpy.

Sources: SB3 ``common/distributions.py`` and ``BasePolicy.predict`` of 0.6 to 2.9, sb3-contrib
``common/maskable/distributions.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import UnsupportedError, ValidationError
from sbformat.known.spaces import Box, Discrete, MultiDiscrete
from sbformat.policies.graph import BOUNDS, Input, Sampling
from sbformat.policies.sb3.network import FLOAT
from sbformat.policies.shapes.agents import action_space_error, output_size
from sbformat.policies.shapes.extractors import choice_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.policies.builder import GraphBuilder, Value
    from sbformat.policies.sb3.network import Network

_MASKED: Final = -1e8
"""The logit of a masked action in sb3-contrib."""
_LIKELY: Final = 1.5 * 2**-24
"""The greatest logit whose Sigmoid is a half in torch's float32, which Round takes to 0."""
_GSDE_EPSILON: Final = 1e-6
"""``epsilon`` of ``StateDependentNoiseDistribution``."""
_MAX_COMPONENTS: Final = 1 << 20
"""Components of an action, beyond all real ones."""
_NARROW: Final = frozenset({"bool", "uint8", "int8", "uint16", "int16", "float16", "float32"})
"""Dtypes of bounds with which numpy computes in float32; with any other, in float64."""


class Head(NamedTuple):
    """The outputs of a policy, ``action`` first, and how the action is drawn."""

    outputs: Mapping[str, Value]
    sampling: Sampling


# -- choices ------------------------------------------------------------------------------------------


def add_choices(network: Network, logits: Value, sizes: Sequence[int], *, masked: bool) -> Head:
    """Add categorical distributions, of which each takes its part of the logits.

    :param logits: those of all components, one after another
    :param sizes: the number of choices of each component; one for a Discrete, whose action has no axis
    :param masked: whether an input ``action_masks`` excludes choices, 0 for each that is excluded
    """
    require_outputs(logits, *sizes)
    is_single = isinstance(network.settings.agent.action_space, Discrete)
    parts = [logits] if is_single else _split(network, logits, sizes)
    scores = [_normalize(network, part) for part in parts]
    if masked:
        masks = network.builder.input(Input("action_masks", "bool", logits.shape, default=1.0, role="action_masks"))
        excluded = network.constant(_MASKED)
        logits = network.add("Where", masks, logits, excluded, name="logits", module="action_net")
        allowed = [masks] if is_single else _split(network, masks, sizes)
        scores = [
            _normalize(network, network.add("Where", mask, part, excluded, module="action"))
            for mask, part in zip(allowed, scores)
        ]
    if is_single:
        action = network.add("ArgMax", scores[0], axis=-1, name="action")
        probabilities = network.add("Softmax", logits, axis=-1, name="probabilities")
    else:
        parts = _split(network, logits, sizes) if masked else parts
        best = [network.add("ArgMax", part, axis=-1, keepdims=True, module="action") for part in scores]
        likely = [network.add("Softmax", part, axis=-1, module="probabilities") for part in parts]
        action = network.add("Concat", *best, axis=-1, name="action")
        probabilities = network.add("Concat", *likely, axis=-1, name="probabilities")
    drawn = Sampling("categorical", action.name, {"logits": logits.name}, tuple(sizes))
    return Head({"action": action, "logits": logits, "probabilities": probabilities}, drawn)


def _normalize(network: Network, logits: Value) -> Value:
    """Subtract the logarithm of the sum of exponentials, as ``torch.distributions.Categorical`` does.

    float32 rounds the difference, so that logits that are nearly the same may become equal: then the first one counts.
    """
    total = network.add("ReduceLogSumExp", logits, axis=-1, keepdims=True, module="action")
    return network.add("Sub", logits, total, module="action")


def _split(network: Network, value: Value, sizes: Sequence[int]) -> list[Value]:
    parts = []
    start = 0
    for size in sizes:
        parts.append(network.add("Slice", value, axis=-1, start=start, end=start + size, module="action_net"))
        start += size
    return parts


def add_bits(network: Network, logits: Value) -> Head:
    """Add Bernoulli distributions: SB3's action is float32, 1 where the probability in float32 is above a half.

    The logit decides, so that no back end's exponential does.
    """
    require_outputs(logits, output_size(network.settings.agent.action_space))
    probabilities = network.add("Sigmoid", logits, name="probabilities")
    is_likely = network.add("Greater", logits, network.constant(_LIKELY), module="action")
    action = network.add("Cast", is_likely, to=FLOAT, name="action")
    drawn = Sampling("bernoulli", action.name, {"logits": logits.name})
    return Head({"action": action, "logits": logits, "probabilities": probabilities}, drawn)


# -- numbers ------------------------------------------------------------------------------------------


class Noise(NamedTuple):
    """The distribution of continuous actions around their mean."""

    log_std: Value
    """Of each action: the logarithm of its standard deviation."""
    sampling: Sampling


def add_gaussian(mean: Value, log_std: Value) -> Noise:
    """Return a Gaussian distribution with independent components.

    :param log_std: a weight, or computed from the observation
    """
    drawn = Sampling("gaussian", mean.name, {"mean": mean.name, "log_std": log_std.name})
    return Noise(log_std, drawn)


def add_gsde(network: Network, mean: Value, latent: Value, log_std: str) -> Noise:
    """Add the noise of gSDE, which is a matrix times features.

    :param latent: the features
    :param log_std: the name of the tensor: (features, actions), or (features, 1) without ``full_std``
    """
    std = _add_gsde_std(network, network.weight(log_std), log_std)
    count = _require_few(mean.shape[0])
    if std.shape[-1] != count:
        std = network.add("Concat", *[std] * count, axis=-1, module=log_std)
    squares = [network.add("Mul", value, value, module=log_std) for value in (latent, std)]
    variance = network.add("Gemm", *squares, transB=False, module=log_std)
    safe = network.add("Add", variance, network.constant(_GSDE_EPSILON), module=log_std)
    spread = network.add("Mul", network.add("Log", safe, module=log_std), network.constant(0.5), module=log_std)
    drawn = Sampling("gsde", mean.name, {"mean": mean.name, "latent": latent.name, "std": std.name})
    return Noise(spread, drawn)


def _add_gsde_std(network: Network, log_std: Value, module: str) -> Value:
    """``get_std``: the exponential, or with ``use_expln`` its continuation that grows like a logarithm above 0."""
    below = network.add("Exp", log_std, module=module)
    if not network.settings.flag("use_expln", default=False):
        return below
    one, zero, epsilon = (network.constant(number) for number in (1.0, 0.0, _GSDE_EPSILON))
    shifted = network.add("Add", network.add("Add", log_std, epsilon, module=module), one, module=module)
    above = network.add("Add", network.add("Log", shifted, module=module), one, module=module)
    is_above = network.add("Greater", log_std, zero, module=module)
    return network.add("Where", is_above, above, below, module=module)


def finish_action(network: Network, action: Value, *, squashed: bool) -> Value:
    """Add what ``predict`` does to a continuous action: unscale it from [-1, 1], or clip it to the bounds.

    numpy computes with the bounds, so that the dtype is float64 unless theirs fits into float32.

    :param action: a vector of float32
    :param squashed: whether the policy has ``squash_output``
    :return: an action of the shape of the space
    :raises NetworkError: when it is not a Box
    """
    space = network.settings.agent.action_space
    if not isinstance(space, Box):
        raise action_space_error(space)
    return finish_box_action(network.builder, space, action, squashed=squashed)


def finish_box_action(builder: GraphBuilder, space: Box, action: Value, *, squashed: bool) -> Value:
    """Do the same for a known space; parameters and result as of :func:`finish_action`."""
    low, high = (
        builder.weight(f"data:action_space/{part}", getattr(space, part), f"data:action_space/{part}")
        for part in ("low", "high")
    )
    if action.shape != space.shape:
        action = builder.add("Reshape", action, shape=space.shape, module="action")
    wide = FLOAT if low.dtype in _NARROW else "float64"
    if not squashed:
        least, most, action = (_cast(builder, value, wide) for value in (low, high, action))
        return builder.add("Min", builder.add("Max", action, least, module=BOUNDS), most, name="action", module=BOUNDS)
    half = builder.constant(0.5)
    share = builder.add("Mul", builder.add("Add", action, builder.constant(1.0), module=BOUNDS), half, module=BOUNDS)
    width = _cast(builder, builder.add("Sub", high, low, module=BOUNDS), wide)
    moved = builder.add("Mul", _cast(builder, share, wide), width, module=BOUNDS)
    return builder.add("Add", _cast(builder, low, wide), moved, name="action", module=BOUNDS)


def _cast(builder: GraphBuilder, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else builder.add("Cast", value, to=dtype, module=BOUNDS)


# -- any of them --------------------------------------------------------------------------------------


def require_outputs(scores: Value, *sizes: int) -> None:
    """Refuse a layer that does not have an output for each choice, which a caller's action space may not fit.

    :param sizes: the number of choices of each component
    :raises ValidationError: when there are more or fewer
    """
    if scores.shape != (sum(sizes),):
        message = (
            f"expected an output for each of the {sum(sizes):,} choices of the action space, got {scores.shape[0]:,}"
        )
        raise ValidationError(message)


def component_sizes(network: Network, logits: Value) -> tuple[int, ...]:
    """Return the number of choices of each component of a discrete action."""
    space = network.settings.agent.action_space
    if isinstance(space, MultiDiscrete):
        return choice_counts(space, "action_space")
    if isinstance(space, Discrete):
        return (space.n,)
    return (2,) * _require_few(logits.shape[0] // 2)


def _require_few(count: int) -> int:
    """Refuse a number of components of an action that is forged: each is a part of a node.

    :raises UnsupportedError: for more than a million
    """
    if count > _MAX_COMPONENTS:
        message = f"expected an action of at most {_MAX_COMPONENTS:,} components, got {count:,}"
        raise UnsupportedError(message)
    return count
