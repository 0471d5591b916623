"""Sizes that know which key of ``data`` they follow from, and the arguments of a policy, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, escape, quote
from sbformat.globals.renamed import of_today
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global, Node
from sbformat.policies.layers import Parameter, Parameters
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import to_number, unpack_items
from sbformat.values.render import render_line
from sbformat.values.types import Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typing_extensions import Self

    from sbformat.globals.torch import Pair

KWARGS: Final = "policy_kwargs"
MOST_PARAMETERS: Final = 8_192
"""Layers of a network: a number of critics or layers in a file can be any."""
_SHOWN: Final = 120
_NUMERIC: Final = tuple("biufc")
"""Kinds of numpy dtypes that are numbers."""


class NetworkError(ValidationError):
    """SB3 cannot make the network that ``data`` describes.

    :param key: of ``data``
    :param message: what is wrong
    """

    key: str

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, entry=DATA_ENTRY)
        self.key = key


class Size(int):
    """The size of an axis, and the key of ``data`` that it follows from."""

    key: str

    def __new__(cls, value: int, key: str) -> Self:
        """Make one.

        :param value: the size
        :param key: of ``data``; empty for what a layer always has
        """
        made = super().__new__(cls, value)
        made.key = key
        return made

    def __add__(self, other: int) -> Size:
        """Add the size of what is concatenated."""
        return Size(int(self) + int(other), joined((self.key, getattr(other, "key", ""))))

    def __mul__(self, other: int) -> Size:
        """Multiply; the other may be plain."""
        return Size(int(self) * int(other), joined((self.key, getattr(other, "key", ""))))

    __rmul__ = __mul__


def joined(keys: Iterable[str]) -> str:
    """Join the keys that a size follows from."""
    return " and ".join(dict.fromkeys(key for key in keys if key))


class Arguments(NamedTuple):
    """Arguments of a class, by name."""

    values: Mapping[str, Any]
    place: str = KWARGS
    """The key of ``data``, and the way in it."""

    def key(self, name: str) -> str:
        """Return the place of an argument."""
        return f"{self.place}/{name}"

    def refuse_others(self, allowed: Iterable[str], owner: str) -> None:
        """Refuse names that the class does not take.

        :param allowed: the names that it takes
        :param owner: the class, as a message has it
        """
        known = set(allowed)
        for name in self.values:
            if name not in known:
                raise NetworkError(self.key(escape(name, 80)), f"{owner} takes no argument {quote(name, 80)}")

    def size(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a whole number, not less than the least that torch takes."""
        return size_of(self.values.get(name, default), self.key(name), least=least)

    def whole(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a whole number that Python counts to, which a bool can be, too."""
        value = self.values.get(name, default)
        return size_of(int(value) if isinstance(value, bool) else value, self.key(name), least=least)

    def require_number(self, name: str) -> None:
        """Refuse an argument that is there and that torch cannot multiply a tensor by."""
        value = self.values.get(name, 0)
        is_array = isinstance(value, ArrayInfo) and value.dtype[1:2] in _NUMERIC
        if not is_array and not isinstance(value, (int, float, complex)):
            raise wrong(value, self.key(name), "a number")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an argument is true for Python."""
        return is_true(self.values.get(name, default), self.key(name))

    def reference(self, name: str, default: Pair) -> Pair:
        """Return the class that an argument names.

        :raises UnsupportedError: when it is not one that is known by its name
        """
        value = self.values.get(name, Reference(*default))
        if isinstance(value, Reference):
            return of_today(value.pair)
        raise not_known(value, self.key(name))

    def nested(self, name: str) -> Arguments:
        """Return an argument that is a dict of arguments; None is an empty one."""
        value = self.values.get(name)
        if not (value is None or (isinstance(value, dict) and all(type(part) is str for part in value))):
            raise wrong(value, self.key(name), "a dict of arguments")
        return Arguments(value or {}, self.key(name))


def wrong(value: object, key: str, expected: str) -> UnsupportedError | NetworkError:
    """Return the error for a value of another type: unsupported when it is not known what it is."""
    if isinstance(value, Node):
        return not_known(value, key)
    return NetworkError(key, f"expected {expected}, got {shown(value)}")


def not_known(value: object, key: str) -> UnsupportedError | NetworkError:
    """Return the error for a value that is no class that is known."""
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return NetworkError(key, f"expected a class, got {shown(value)}")
    name = str(value) if isinstance(value, Global) else render_line(value)
    message = f"{escape(key, 80)} is {escape(name, _SHOWN)}, whose layers are not known"
    return UnsupportedError(message, entry=DATA_ENTRY)


def shown(value: object) -> str:
    """Return a value for a message."""
    return escape(render_line(value), _SHOWN)


def size_of(value: object, key: str, *, least: int = 0) -> Size:
    """Return a value as a size.

    :raises NetworkError: when torch would not take it
    """
    what = f"a whole number, {least} or more"
    if isinstance(value, ArrayInfo) and value.shape == ():
        try:
            value = to_number(value, key)
        except UnrecognizedError:
            raise NetworkError(key, f"expected {what}, got {shown(value)}") from None
    if type(value) is not int or value < least:
        raise wrong(value, key, what)
    return Size(value, key)


def sizes_of(value: object, key: str) -> list[Size]:
    """Return a list of layer sizes, which an array of whole numbers is, too.

    :raises NetworkError: when it is none
    """
    if isinstance(value, ArrayInfo) and len(value.shape) == 1:
        value = _items(value, key)
    if not isinstance(value, (list, tuple)):
        raise wrong(value, key, "a list of layer sizes")
    if len(value) > MOST_PARAMETERS:
        raise NetworkError(key, f"{len(value):,} layers are more than any network has")
    return [size_of(part, key) for part in value]


def _items(value: ArrayInfo, key: str) -> tuple[int | float, ...]:
    if value.shape[0] > MOST_PARAMETERS:
        raise NetworkError(key, f"{value.shape[0]:,} layers are more than any network has")
    try:
        return unpack_items(value)
    except UnrecognizedError:
        raise wrong(value, key, "a list of layer sizes") from None


def is_true(value: object, key: str) -> bool:
    """Return whether a value is true for Python.

    :raises UnsupportedError: when it is not known what it is
    """
    if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
        return bool(value)
    if isinstance(value, ArrayInfo) and value.shape == ():
        return bool(to_number(value, key))
    message = f"{escape(key, 80)} is {shown(value)}, neither true nor false"
    raise UnsupportedError(message, entry=DATA_ENTRY)


_ACTIVATIONS: Final = frozenset(
    """
    CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish RReLU ReLU ReLU6
    SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink
    """.split()  # noqa: SIM905 -- a name a line is no better
)
"""Activations of torch that have no parameters, and that can be made without arguments."""
_WITHOUT_PARAMETERS: Final = frozenset(
    {("torch.nn.modules.activation", name) for name in _ACTIVATIONS}
    | {("torch.nn.modules.linear", "Identity"), ("torch.nn.modules.flatten", "Flatten")}
    | {("torch.nn.modules.dropout", name) for name in ("AlphaDropout", "Dropout", "FeatureAlphaDropout")}
)
_PRELU: Final = ("torch.nn.modules.activation", "PReLU")
RELU: Final = ("torch.nn.modules.activation", "ReLU")
TANH: Final = ("torch.nn.modules.activation", "Tanh")


def activation_of(arguments: Arguments, default: Pair) -> Parameters:
    """Return the parameters of the activation: none, but for PReLU.

    :raises UnsupportedError: when it is not known
    """
    key = arguments.key("activation_fn")
    value: Any = arguments.values.get("activation_fn", Reference(*default))
    given: Mapping[str, object] = {}
    if type(value) is Partial:
        names = dict(zip(("num_parameters", "init"), value.args))
        value, given = value.function, {**names, **value.keywords}
    if not isinstance(value, Reference):
        raise not_known(value, key)
    if value.pair == _PRELU:
        return [Parameter("weight", (size_of(given.get("num_parameters", 1), key),))]
    if value.pair not in _WITHOUT_PARAMETERS:
        raise not_known(value, key)
    return []
