"""The activations of ``torch.nn``: how ``activation_fn`` names one, and its nodes in evaluation mode.

Which classes there are, and the names of their arguments, is in their rows (:mod:`sbformat.known.torch`). Dropout is
the identity in evaluation, and RReLU a LeakyReLU with the mean of its slopes.

Source: torch ``nn/modules/activation.py``.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf, isfinite, pi, sqrt
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.known.table import list_place
from sbformat.known.types import Partial, Reference
from sbformat.nets.arguments import LARGEST_FLOAT32, read_size, unknown_value_error
from sbformat.nets.modules import Layer, Module, Supplied, Tensor
from sbformat.policies.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.nets.arguments import Agent
    from sbformat.nets.modules import Scope
    from sbformat.pkl.names import Pair
    from sbformat.policies.builder import Value

ACTIVATIONS: Final[Mapping[Pair, tuple[str, ...]]] = {
    pair: tuple(row.arguments) for pair, row in list_place("activation_fn").items()
}
"""Activations, with the arguments that a partial may give them; none of them needs one."""
RELU: Final = ("torch.nn.modules.activation", "ReLU")
TANH: Final = ("torch.nn.modules.activation", "Tanh")
FLATTEN_LAYER: Final = ("torch.nn.modules.flatten", "Flatten")
"""Not an activation, but SB3 accepts it in the place of one, and it has no parameters."""
_KEY: Final = "policy_kwargs/activation_fn"


class Spec(Record):
    """What ``activation_fn`` is: the name of a class in ``torch.nn``, and the arguments that a partial gives it."""

    name: str
    arguments: Mapping[str, Any] = {}

    def number(self, name: str, default: float) -> float:
        """Return an argument that is a number; NaN and infinity are, as for torch.

        :raises UnsupportedError: when it is something else, or beyond float32, where torch fails
        """
        try:
            value = float(to_number(self.arguments.get(name, default), name))
        except UnrecognizedError as error:
            raise self.refuse(str(error)) from None
        if LARGEST_FLOAT32 < abs(value) < inf:
            message = f"expected a number of float32 as {name}, got {value!r}"
            raise self.refuse(message)
        return value

    def require(self, expected: str, *, is_true: bool) -> None:
        """Refuse arguments that torch refuses.

        :raises UnsupportedError: unless a condition is true
        """
        if not is_true:
            message = f"expected {expected}"
            raise self.refuse(message)

    def refuse(self, reason: str) -> UnsupportedError:
        """Return the error for an activation that has no graph."""
        message = f"{_KEY} is {self.name}: {reason}"
        return UnsupportedError(message, entry=DATA_ENTRY)


def read_activation(agent: Agent, default: Pair) -> Callable[[], Module]:
    """Return what makes a module of the policy's ``activation_fn``.

    :param default: the policy's default activation
    :raises UnsupportedError: when the activation is not known
    """
    if "activation_fn" in agent.supplied:
        return lambda: Supplied("activation_fn")
    if agent.supplied:  # then what no layer needs need not be known
        return lambda: Activation(_read_spec(agent, default))
    spec = _read_spec(agent, default)
    Activation(spec)  # what it cannot be is refused even where no layer has one
    return lambda: Activation(spec)


def _read_spec(agent: Agent, default: Pair) -> Spec:
    value: Any = agent.policy_kwargs.get("activation_fn", Reference(*default))
    given: dict[str, Any] = {}
    if type(value) is Partial:
        pair = value.function.pair if isinstance(value.function, Reference) else ("", "")
        given = {**dict(zip(ACTIVATIONS.get(pair, ()), value.args)), **value.keywords}
        value = value.function
    if not isinstance(value, Reference) or (value.pair not in ACTIVATIONS and value.pair != FLATTEN_LAYER):
        raise unknown_value_error(value, _KEY)
    return Spec(value.name, {name: _plain(part) for name, part in given.items()})


def _plain(value: object) -> object:
    with suppress(UnrecognizedError):
        return to_number(value, "argument")
    return value


class Activation(Layer):
    """An activation; PReLU alone has a tensor."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        if spec.name == "PReLU":
            self.weight = Tensor((read_size(spec.arguments.get("num_parameters", 1), _KEY),))

    def forward(self, scope: Scope, value: Value) -> Value:
        """Add the nodes of the activation.

        :return: a vector of the same size
        :raises UnsupportedError: for an activation that does not turn a vector into one of the same size, or that mixes
            the observations of a batch, with its name
        """
        return add_activation(scope, self.spec, value)


def add_activation(scope: Scope, spec: Spec, value: Value) -> Value:
    """Add the nodes of an activation; see :meth:`Activation.forward`."""
    return ACTIVATION_NODES[spec.name](_Place(scope, spec, value))


class _Place(Record):
    """Where an activation is: it adds nodes for one module."""

    scope: Scope
    spec: Spec
    value: Value

    def add(self, op: str, *operands: Value, **attributes: Any) -> Value:
        return self.scope.add(op, *operands, **attributes)

    def unary(self, op: str, **attributes: Any) -> Value:
        return self.add(op, self.value, **attributes)

    def constant(self, number: float) -> Value:
        return self.scope.constant(number)


def _operator(op: str) -> Callable[[_Place], Value]:
    """An activation that is one operator: its row has the arguments of torch that are attributes."""

    def add(place: _Place) -> Value:
        number = place.spec.number
        given = OPERATORS[op].arguments.items()
        return place.unary(op, **{name: number(*x) if isinstance(x, tuple) else x for name, x in given})

    return add


def _times(op: str) -> Callable[[_Place], Value]:
    """The input times an activation of it."""
    return lambda place: place.add("Mul", place.value, _operator(op)(place))


def _same(place: _Place) -> Value:
    return place.value


def _refused(reason: str) -> Callable[[_Place], Value]:
    def refuse(place: _Place) -> Value:
        raise place.spec.refuse(reason)

    return refuse


def _log_sigmoid(place: _Place) -> Value:
    return place.add("Neg", place.add("Softplus", place.unary("Neg")))


def _tanh_shrink(place: _Place) -> Value:
    return place.add("Sub", place.value, place.unary("Tanh"))


def _mish(place: _Place) -> Value:
    return place.add("Mul", place.value, place.add("Tanh", place.unary("Softplus")))


def _clip(place: _Place, low: float, high: float) -> Value:
    return place.add("Min", place.add("Max", place.value, place.constant(low)), place.constant(high))


def _hard_tanh(place: _Place) -> Value:
    low, high = place.spec.number("min_val", -1.0), place.spec.number("max_val", 1.0)
    place.spec.require("max_val to be greater than min_val", is_true=not low >= high)
    return _clip(place, low, high)


def _softmax(op: str) -> Callable[[_Place], Value]:
    """Along the only axis; torch takes it when ``dim`` is not given, too."""

    def add(place: _Place) -> Value:
        if place.spec.arguments.get("dim") not in (None, 1, -1):
            reason = "it mixes the observations of a batch"
            raise place.spec.refuse(reason)
        value = place.unary("Neg") if place.spec.name == "Softmin" else place.value
        return place.add(op, value, axis=-1)

    return add


def _gelu(place: _Place) -> Value:
    x = place.value
    if place.spec.arguments.get("approximate", "none") == "tanh":
        cube = place.add("Mul", place.add("Mul", x, x), x)
        inner = place.add("Add", x, place.add("Mul", cube, place.constant(0.044715)))
        curve = place.add("Tanh", place.add("Mul", inner, place.constant(sqrt(2 / pi))))
    else:
        curve = place.add("Erf", place.add("Mul", x, place.constant(sqrt(0.5))))
    half = place.add("Mul", x, place.constant(0.5))
    return place.add("Mul", half, place.add("Add", curve, place.constant(1.0)))


def _hard_shrink(place: _Place) -> Value:
    return place.unary("Shrink", lambd=place.spec.number("lambd", 0.5), bias=0.0)


def _soft_shrink(place: _Place) -> Value:
    lambd = place.spec.number("lambd", 0.5)
    place.spec.require("a finite lambd, 0 or more", is_true=0 <= lambd < inf)
    return place.unary("Shrink", lambd=lambd, bias=lambd)


def _random_relu(place: _Place) -> Value:
    lower, upper = place.spec.number("lower", 1 / 8), place.spec.number("upper", 1 / 3)
    is_range = isfinite(lower) and isfinite(upper) and lower <= upper
    place.spec.require("finite numbers as lower and upper, in this order", is_true=is_range)
    return place.unary("LeakyRelu", alpha=(lower + upper) / 2)


def _celu(place: _Place) -> Value:
    alpha = place.spec.number("alpha", 1.0)
    place.spec.require("alpha to be other than 0", is_true=alpha != 0)
    return place.unary("Celu", alpha=alpha)


def _prelu(place: _Place) -> Value:
    return place.add("PRelu", place.value, place.scope.weight("weight"))


_LINEAR_FROM: Final = 20.0
"""Where torch replaces Softplus by the identity, by default: there they are equal in float32."""


def _softplus(place: _Place) -> Value:
    beta, threshold = place.spec.number("beta", 1.0), place.spec.number("threshold", _LINEAR_FROM)
    if beta == 1.0 and threshold == _LINEAR_FROM:
        return place.unary("Softplus")
    scaled = place.add("Mul", place.value, place.constant(beta))
    curve = place.add("Div", place.add("Softplus", scaled), place.constant(beta))
    return place.add("Where", place.add("Greater", scaled, place.constant(threshold)), place.value, curve)


ACTIVATION_NODES: Final[Mapping[str, Callable[[_Place], Value]]] = {
    **{row.activation: _operator(op) for op, row in OPERATORS.items() if row.activation},
    "AlphaDropout": _same,
    "CELU": _celu,
    "Dropout": _same,
    "FeatureAlphaDropout": _same,
    "Flatten": _same,
    "GELU": _gelu,
    "GLU": _refused("it halves the number of features, which no layer of SB3 expects"),
    "Hardshrink": _hard_shrink,
    "Hardswish": _times("HardSigmoid"),
    "Hardtanh": _hard_tanh,
    "Identity": _same,
    "LogSigmoid": _log_sigmoid,
    "LogSoftmax": _softmax("LogSoftmax"),
    "Mish": _mish,
    "PReLU": _prelu,
    "RReLU": _random_relu,
    "ReLU6": lambda place: _clip(place, 0.0, 6.0),
    "SiLU": _times("Sigmoid"),
    "Softmax": _softmax("Softmax"),
    "Softmax2d": _refused("it needs images, and the layers of SB3 return vectors"),
    "Softmin": _softmax("Softmax"),
    "Softplus": _softplus,
    "Softshrink": _soft_shrink,
    "Tanhshrink": _tanh_shrink,
}
"""What adds the nodes of an activation, by the name of its class: one operator, unless a function here says more."""
