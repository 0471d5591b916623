"""The ``Agent``, which decides on a policy's network: its arguments, checked as torch and SB3 would, and sizes.

A ``Size`` is an int that remembers the key of ``data`` that decides on it, so that a mismatch names its cause. A value
that SB3 cannot make a network of is a :class:`NetworkError` with the key that is wrong; a class or value that is not
known is an ``UnsupportedError`` that names it.

Sources: SB3 ``common/policies.py`` and ``common/preprocessing.py``, 0.6 to 2.9.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.known.table import current_name, find
from sbformat.known.types import Reference
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Global, Node
from sbformat.policies.builder import check_layers
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Self

    from sbformat.known.changes import Release
    from sbformat.known.spaces import Space
    from sbformat.pkl.tree import Pair

OBSERVATIONS: Final = "observation_space"
ACTIONS: Final = "action_space"
USE_SDE: Final = "use_sde"
KWARGS: Final = "policy_kwargs"
NET_ARCH: Final = f"{KWARGS}/net_arch"
LARGEST_FLOAT32: Final = 3.4028234663852886e38
_MAX_VALUE_LENGTH: Final = 120


class NetworkError(ValidationError):
    """SB3 cannot make the network of ``data``; ``key`` is the path of what is wrong: ``policy_kwargs/net_arch``."""

    key: str

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message, entry=DATA_ENTRY)
        self.key = key


def refuse(message: str, entry: str | None = None, *, hint: str = "") -> NoReturn:
    """Refuse what is not known, or what no back end could compute."""
    raise UnsupportedError(message, entry=entry, hint=hint)


@contextmanager
def refuse_network() -> Iterator[None]:
    """Raise a NetworkError as a ValidationError whose message begins with the key that is wrong."""
    try:
        yield
    except NetworkError as error:
        raise ValidationError(f"{error.key}: {error.message}", entry=error.entry) from None


class Size(int):
    """The size of an axis, and the key of ``data`` that decides on it; empty for a size that a layer always has."""

    key: str

    def __new__(cls, value: int, key: str) -> Self:
        made = super().__new__(cls, value)
        made.key = key
        return made

    def __add__(self, other: int) -> Size:
        return Size(int(self) + int(other), join_keys((self, other)))

    def __mul__(self, other: int) -> Size:
        return Size(int(self) * int(other), join_keys((self, other)))

    __rmul__ = __mul__


def join_keys(sizes: Iterable[int]) -> str:
    """Return the keys that decide on sizes: ``use_sde and action_space``."""
    keys = (getattr(size, "key", "") for size in sizes)
    return " and ".join(dict.fromkeys(key for key in keys if key))


def read_size(value: object, key: str, *, least: int = 0) -> Size:
    """Return a value as a size."""
    expected = f"a whole number, {least} or more"
    if isinstance(value, ArrayInfo) and value.shape == ():
        with suppress(UnrecognizedError):
            value = to_number(value, key)
    if type(value) is not int or value < least:
        raise wrong_value_error(value, key, expected)
    return Size(value, key)


def _read_sizes(value: object, key: str, limits: Limits) -> list[Size]:
    if isinstance(value, ArrayInfo) and len(value.shape) == 1:
        check_layers(value.shape[0], limits, key)
        try:
            value = unpack_items(value)
        except UnrecognizedError:
            raise wrong_value_error(value, key, "a list of layer sizes") from None
    if not isinstance(value, (list, tuple)):
        raise wrong_value_error(value, key, "a list of layer sizes")
    check_layers(len(value), limits, key)
    return [read_size(part, key) for part in value]


def read_number(value: object, key: str) -> float:
    """Return a number of ``data``; a numpy scalar is one, too."""
    try:
        return float(to_number(value, key))
    except UnrecognizedError:
        raise wrong_value_error(value, key, "a number of at most 64 bits") from None


# -- arguments ----------------------------------------------------------------------------------------


class Arguments(Record):
    """Arguments of a class, by name."""

    values: Mapping[str, Any]
    path: str = KWARGS
    """The key of ``data`` that holds them, and the path below it."""

    def key(self, name: str) -> str:
        """Return the path of an argument: ``policy_kwargs/net_arch``."""
        return f"{self.path}/{name}"

    def refuse_others(self, accepted: tuple[str, ...], owner: str) -> None:
        """Refuse names that a class does not accept; its name is for the message."""
        for name in self.values:
            if name not in accepted:
                raise NetworkError(self.key(escape(name, 80)), f"{owner} has no argument {quote(name, 80)}")

    def size(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a size, not less than the least that torch accepts."""
        return read_size(self.values.get(name, default), self.key(name), least=least)

    def number_of(self, name: str, default: int, *, least: int = 0) -> Size:
        """Return a number that Python counts to; there, a bool is 0 or 1."""
        value = self.values.get(name, default)
        return read_size(int(value) if isinstance(value, bool) else value, self.key(name), least=least)

    def require_number(self, name: str) -> None:
        """Refuse an argument that is set and that torch cannot multiply a tensor by."""
        value = self.values.get(name, 0)
        is_array = isinstance(value, ArrayInfo) and value.dtype[1:2] in tuple("biufc")  # numpy's kinds of numbers
        if not is_array and not isinstance(value, (int, float, complex)):
            raise wrong_value_error(value, self.key(name), "a number")

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an argument is true for Python."""
        return is_true(self.values.get(name, default), self.key(name))

    def number(self, name: str, default: float) -> float:
        """Return an argument that is a number."""
        return read_number(self.values.get(name, default), self.key(name))

    def reference(self, name: str, default: Pair) -> Pair:
        """Return the class that an argument names, by its name of today."""
        value = self.values.get(name, Reference(*default))
        if isinstance(value, Reference):
            return current_name(value.pair)
        raise unknown_value_error(value, self.key(name))

    def nested(self, name: str) -> Arguments:
        """Return an argument that is itself a dict of arguments; None is an empty one."""
        value = self.values.get(name)
        if not (value is None or (isinstance(value, dict) and all(type(part) is str for part in value))):
            raise wrong_value_error(value, self.key(name), "a dict of arguments")
        return Arguments(value or {}, self.key(name))


def is_true(value: object, key: str) -> bool:
    """Return whether a value is true for Python."""
    if isinstance(value, ArrayInfo):  # before tuples: it is one, which is not empty
        with suppress(UnrecognizedError):
            return bool(to_number(value, key))
    elif value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
        return bool(value)
    refuse(f"{escape(key, 80)}: expected true or false, got {describe_value(value)}", DATA_ENTRY)


class Agent(Record):
    """Class, spaces and arguments of a policy, which decide on its network."""

    policy_class: Pair
    """The module and name of the class, as they are today."""
    observation_space: Space
    action_space: Space
    policy_kwargs: Mapping[str, Any]
    use_sde: bool
    """The algorithm's ``use_sde``, which on-policy algorithms pass to their policy."""
    release: Release
    supplied: Mapping[str, tuple[str, int]] = {}
    """The modules that functions of the caller replace: the name of the function, and the number of its results."""
    limits: Limits = DEFAULT_LIMITS

    @property
    def arguments(self) -> Arguments:
        """The arguments of the policy."""
        return Arguments(self.policy_kwargs)

    def net_arch(self) -> Any:
        """Return ``net_arch`` as SB3's ``load`` passes it on: a list that begins with a dict may be that dict."""
        value: Any = self.policy_kwargs.get("net_arch")
        begins_with_dict = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
        return value[0] if begins_with_dict and self.release >= changes.NO_SHARED_LAYERS else value

    def read_sizes(self, value: object, key: str = NET_ARCH) -> list[Size]:
        """Return a list of layer sizes; an array of whole numbers is one, too."""
        return _read_sizes(value, key, self.limits)

    def shares_extractor(self) -> bool:
        """Return whether the actor and critics of an off-policy algorithm share one features extractor."""
        default = self.release < changes.UNSHARED_EXTRACTORS
        return self.arguments.flag("share_features_extractor", default=default)


# -- sizes of spaces ----------------------------------------------------------------------------------


def action_size(space: Space) -> Size:
    """Return the number of components of an action."""
    if not space.distribution:
        raise action_space_error(space)
    if space.distribution in ("multi-categorical", "bernoulli") and len(space.shape) != 1:
        raise NetworkError(ACTIONS, f"expected a {space.class_name} of one dimension, got the shape {space.shape}")
    return Size(prod(space.shape), ACTIONS)


def action_space_error(space: Space) -> NetworkError:
    """Return the error for an action space that a policy does not support."""
    return NetworkError(ACTIONS, f"the policy does not support {space.class_name} actions")


def output_size(space: Space) -> Size:
    """Return the number of outputs for a distribution over actions: logits, or the mean of continuous ones."""
    action_size(space)
    choice_counts(space, ACTIONS)
    return Size(space.flat_size(), ACTIONS)


def flattened_size(space: Space, key: str) -> Size:
    """Return the number of features of a flattened observation; discrete ones are one-hot."""
    if space.observed not in ("numbers", "one-hot"):
        refuse(f"the number of features of {key}, a {space.class_name}, is not known", DATA_ENTRY)
    choice_counts(space, key)
    size = space.flat_size()
    if size < 1:
        raise NetworkError(key, f"expected at least one feature, got {size}")
    return Size(size, key)


def choice_counts(space: Space, key: str) -> tuple[int, ...]:
    """Return the number of choices of each component of a space of choices."""
    if space.distribution == "multi-categorical" and len(space.shape) != 1:
        raise NetworkError(key, f"expected a {space.class_name} of one dimension, got the shape {space.shape}")
    try:
        return space.choices()
    except UnsupportedError:
        raise UnsupportedError(f"nvec of {key} is not an array of whole numbers", entry=DATA_ENTRY) from None


def require_choices(space: Space, key: str) -> None:
    """Refuse a space that contains nothing: one without choices, or with a negative size."""
    for part in space.parts().values():
        sizes: tuple[int, ...] = ()
        with suppress(UnsupportedError):
            sizes = part.choices()
        if min(sizes, default=1) < 1:
            raise NetworkError(key, f"expected at least one choice, got {min(sizes):,}")
        if min(part.shape or (), default=0) < 0:
            raise NetworkError(key, f"expected sizes of 0 or more, got the shape {part.shape}")


# -- errors -------------------------------------------------------------------------------------------


def describe_value(value: object) -> str:
    """Return a value for a message, escaped and bounded."""
    return escape(render_line(value), _MAX_VALUE_LENGTH)


def wrong_value_error(value: object, key: str, expected: str) -> UnsupportedError | NetworkError:
    """Return the error for a value of another type; a value that was not decoded is unsupported."""
    if isinstance(value, Node):
        return unknown_value_error(value, key, expected)
    return NetworkError(key, f"expected {expected}, got {describe_value(value)}")


def unknown_value_error(value: object, key: str, expected: str = "a class") -> UnsupportedError | NetworkError:
    """Return the error for a value outside the tables: plain data is wrong, and anything else is not known."""
    if (
        value is None
        or isinstance(value, (bool, int, float, str, bytes, list, dict, ArrayInfo))
        or type(value) is tuple
    ):
        return NetworkError(key, f"expected {expected}, got {describe_value(value)}")
    name = str(value) if isinstance(value, Global) else render_line(value)
    message = f"{escape(key, 80)} is {escape(name, _MAX_VALUE_LENGTH)}, and the network for it is not known"
    return UnsupportedError(message, entry=DATA_ENTRY)


def find_unknown_class(value: object) -> str | None:
    """Return the class of an object if it is unknown and not dangerous: a user's, which may extend a known one."""
    from sbformat.known.dangerous import explain_danger

    name = value.func if isinstance(value, Call) else None
    if not isinstance(name, Global) or name.updates or find(name.pair).is_known or explain_danger(name.pair):
        return None
    return str(name)
