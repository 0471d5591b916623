"""Build a state dict from the inert tree of its pickle (FORMAT.md 6.6).

Theory of operation
-------------------

In: a :class:`~sbformat.pkl.machine.Pickle`, whose tree consists of plain values and nodes that describe calls, and a
:class:`~sbformat.pth.context.DecodeContext`, which opens storages and counts. Out: containers of Python with values of
:mod:`sbformat.pth.values`. A tensor becomes a ``TensorInfo``: dtype, shape, strides, and the storage with its bytes,
which are not read here.

The tree is walked depth first. A container that is being built is a :class:`_Frame` on a stack: a list of its parts, of
which each is replaced by its value, and a function that makes the container of the finished parts. A part that is a
container itself gets a frame of its own. A call becomes a value by the function for its name, in ``constructors`` for
tensors, in ``torch_values`` for small values, here for containers.

For example, a module with one parameter of shape (2,) has this tree::

    Call(REDUCE, Global("collections", "OrderedDict"), ())
      updates: SETITEMS [("bias", Call(REDUCE, Global("torch._utils", "_rebuild_tensor_v2"), args))]
      args:    (Persistent(("storage", Global("torch", "FloatStorage"), "0", "cpu", 2)), 0, (2,), (1,), False, hooks)

1. The call of OrderedDict becomes a frame: its keys are checked, its parts are ``[Call(_rebuild_tensor_v2)]``.
2. That call becomes ``TensorInfo("float32", (2,), (1,), 0, storage)``, when the two items are within the storage "0".
3. No part is left: the frame makes ``OrderedDict([("bias", TensorInfo(...))])``.

Invariants:

* Nothing recurses, whatever the tree is.
* Only keys are hashed, and only those that a file cannot choose to collide.
* A part that occurs twice is built once, and is the same object in both places. What contains itself is refused.
* Depth is counted along the path: a shared part counts with all its levels wherever it occurs. So it cannot hide depth.
* Only a call with exactly the known module, name and arguments becomes a value. Everything else is refused, or kept as
  its node with ``on_unknown="inert"``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.pkl.names import CALLS, NUMPY_RECONSTRUCT_NAME
from sbformat.pkl.tree import Call, Dict, FrozenSet, Global, Persistent, Set, Update
from sbformat.pth.constructors import CONSTRUCTORS
from sbformat.pth.keys import PLAIN, check_keys
from sbformat.pth.torch_values import named_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import DecodeContext
    from sbformat.pth.values import OnUnknown

_METADATA: Final = "_metadata"


def _refuse(message: str) -> NoReturn:
    raise TensorError(message)


class _Frame:
    """A container that is being built."""

    __slots__ = ("at", "height", "make", "node", "parts")

    def __init__(self, node: object, parts: list[Any], make: Callable[[list[Any]], object]) -> None:
        self.node = node
        self.parts = parts
        """A new list, in which each part is replaced by its value."""
        self.make = make
        self.at = 0
        """The index of the part that is being built."""
        self.height = 1
        """The levels of containers from here downwards, as far as they are built."""


def build_values(pickle: Pickle, context: DecodeContext, on_unknown: OnUnknown) -> object:  # noqa: C901, PLR0912, PLR0915
    """Build the value of a pickle.

    :param pickle: the decoded pickle
    :param context: opens the storages; a new one for each pickle
    :param on_unknown: ``error`` refuses unknown constructors and names, ``inert`` keeps their nodes
    :raises TensorError: for tensors that do not fit their storages, and arguments that torch never writes
    :raises UnsupportedError: for unknown constructors and names
    :raises LimitError: when a limit is exceeded
    """
    shared = pickle.shared
    context.copied -= pickle.size
    done: dict[int, tuple[object, int]] = {}
    opened: set[int] = set()
    frame = _Frame(None, [pickle.value], list)
    frames = [frame]
    plain = PLAIN
    deepest = context.limits.value_depth
    longest_key = context.limits.tensor_name_bytes // 4  # in characters: so many take at most four times the bytes
    func: object = None
    make = None  # the function for the name of the last call: nearly all tensors have the same name
    while True:
        parts = frame.parts
        for at in range(frame.at, len(parts)):
            node = parts[at]
            kind = type(node)
            if kind in plain:
                continue
            is_shared = id(node) in shared
            if is_shared and id(node) in done:
                value, height = done[id(node)]
            else:
                height = 0
                if kind is Call:
                    if node.func is not func:
                        func = node.func
                        make = _constructor(func)
                    if make is not None and not node.updates and node.how == "REDUCE" and type(node.args) is tuple:
                        value = make(context, node.args)
                    else:
                        context.height = 0
                        value = _visit_call(node, context, on_unknown)
                        height = context.height
                elif kind is Dict and (flat := _flat(node, longest_key)) is not None:
                    value = flat
                    height = 1
                else:
                    context.height = 0
                    value = _visit(node, context, on_unknown)
                    height = context.height
                if type(value) is _Frame:
                    if is_shared:
                        if id(node) in opened:
                            _refuse("a value contains itself")
                        opened.add(id(node))
                    frame.at = at
                    context.budget.spend("value_depth", len(frames))
                    frames.append(value)
                    frame = value
                    break
                if is_shared:
                    done[id(node)] = value, height
            parts[at] = value
            if height:
                if len(frames) + height - 1 > deepest:
                    context.budget.spend("value_depth", len(frames) + height - 1)
                if frame.height <= height:
                    frame.height = height + 1
        else:
            frames.pop()
            if not frames:
                context.check_totals()
                return parts[0]
            value = frame.make(parts)
            height = frame.height
            if id(frame.node) in shared:
                opened.discard(id(frame.node))
                done[id(frame.node)] = value, height
            frame = frames[-1]
            frame.parts[frame.at] = value
            frame.at += 1
            frame.height = max(frame.height, height + 1)


def _flat(pairs: Dict, longest_key: int) -> dict[str, object] | None:
    """Build a dict of text keys and plain values without a frame, as half of all dicts are; None for others."""
    made: dict[str, object] = {}
    for key, value in pairs:
        if type(key) is not str or type(value) not in PLAIN or len(key) > longest_key:
            return None
        made[key] = value
    return made if len(made) == len(pairs) else None


def _visit(node: object, context: DecodeContext, on_unknown: OnUnknown) -> object:
    """Return the value of a leaf or the frame of a container, except for calls."""
    kind = type(node)
    if kind is Dict:
        keys = check_keys(node, context)  # type: ignore[arg-type]
        return _Frame(node, [value for _, value in node], lambda values: dict(zip(keys, values)))  # type: ignore[attr-defined]
    if kind is list:
        return _Frame(node, list(node), _itself)  # type: ignore[call-overload]
    if kind is tuple:
        return _Frame(node, list(node), tuple)  # type: ignore[call-overload]
    if kind is Persistent:
        return context.storage(node)
    if kind is bytearray:
        return node
    if kind is Set or kind is FrozenSet:
        return _members(list(node), context, set if kind is Set else frozenset)  # type: ignore[call-overload]
    value = named_value(node) if type(node) is Global else None
    return _unknown(node, context, on_unknown) if value is None else value


def _itself(parts: list[Any]) -> list[Any]:
    return parts


def _visit_call(node: Call, context: DecodeContext, on_unknown: OnUnknown) -> object:
    func = node.func
    role, make = _ROLES.get(func.pair, _NO_ROLE) if type(func) is Global and not func.updates else _NO_ROLE
    if role is None or node.how != "REDUCE":
        return _unknown(node, context, on_unknown)
    if role in _COPIED:
        context.copy(_copied_bytes(role, node))
    if make is not None:
        if node.updates or type(node.args) is not tuple:
            _refuse(f"expected plain arguments and no changes for a {role}, got computed arguments or a change")
        return make(context, node.args)
    if role == "ordered_dict":
        return _ordered_dict(node, context)
    if role in ("set", "frozenset"):
        return _set_of(node, context, set if role == "set" else frozenset)
    from sbformat.pkl.numpy import array_info

    return array_info(node)


def _constructor(func: object) -> Callable[[DecodeContext, tuple[object, ...]], object] | None:
    """Return the function for calls of a name, if it needs only the arguments."""
    if type(func) is not Global or func.updates:
        return None
    role, make = _ROLES.get(func.pair, _NO_ROLE)
    return None if role in _COPIED or role in _WITH_ATTRIBUTES else make


_NO_ROLE: Final = None, None
_ROLES: Final = {pair: (role, CONSTRUCTORS.get(role)) for pair, role in CALLS.items()}
_WITH_ATTRIBUTES: Final = frozenset({"parameter_with_state", "from_type_v2"})
"""Roles whose values may contain containers without being one."""
_ITEM_COST: Final = 8
"""What an item of a list or tuple counts that a constructor copies, in bytes."""
_COPIED: Final = {
    "encode": 0, "bytearray": 0, "size": 0, "numpy_scalar": 1, "numpy_array": 0, "ordered_dict": 0, "set": 0,
    "frozenset": 0,
}  # fmt: skip
"""Roles whose values are as large as an argument, which a pickle can share between thousands of calls, and the index of
that argument. The bytes of ``_reconstruct`` are in its state."""
_ARRAY_BYTES: Final = 4


def _copied_bytes(role: str, node: Call) -> int:
    """Return how many bytes a call copies (FORMAT.md 8, ``expanded_items``)."""
    args = node.args if type(node.args) is tuple else ()
    at = _COPIED[role]
    if role == "numpy_array" and node.func.pair[1] == NUMPY_RECONSTRUCT_NAME:  # type: ignore[attr-defined]
        state = node.updates[0].value if node.updates else ()
        args, at = state if type(state) is tuple else (), _ARRAY_BYTES
    copied: Any = args[at] if len(args) > at else None
    if type(copied) is Call and type(copied.args) is tuple and copied.args:
        copied = copied.args[0]  # bytes that are encoded by another call
    if type(copied) in (list, tuple):
        return _ITEM_COST * len(copied)
    return len(copied) if type(copied) in (str, bytes, bytearray) else 0


def _unknown(node: object, context: DecodeContext, on_unknown: OnUnknown) -> object:
    if on_unknown == "inert":
        context.resolve(node)
        return node
    message = f"{_describe(node)} is not a known constructor or name; on_unknown='inert' keeps its node"
    raise UnsupportedError(message)


def _describe(node: object) -> str:
    if type(node) is Call and type(node.func) is Global:
        return f"{quote(node.func)}, which is called here,"
    return quote(node) if type(node) is Global else f"a {type(node).__name__}"


def _ordered_dict(node: Call, context: DecodeContext) -> _Frame:
    """Return the frame of an OrderedDict, with the attribute ``_metadata`` that ``Module.state_dict`` sets."""
    pairs = Dict(_initial_pairs(node.args))
    metadata: list[object] = []
    for update in node.updates or ():
        if update.how == "SETITEMS" and not metadata:
            pairs.extend(update.value)  # type: ignore[arg-type]
        else:
            metadata.append(_metadata_of(update))
    if len(metadata) > 1:
        _refuse("an OrderedDict has its attributes set twice")
    keys = check_keys(pairs, context)

    def make(values: list[Any]) -> OrderedDict[Any, Any]:
        made = OrderedDict(zip(keys, values))
        if metadata:
            made._metadata = values[-1]  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made

    return _Frame(node, [value for _, value in pairs] + metadata, make)


def _initial_pairs(args: object) -> list[tuple[object, object]]:
    """Return the pairs of ``OrderedDict()`` or, as Python 2 wrote it, ``OrderedDict([[key, value], ...])``."""
    if args == ():
        return []
    if type(args) is tuple and len(args) == 1 and type(args[0]) is list:
        pairs = [tuple(item) if type(item) in (list, tuple) else () for item in args[0]]
        if all(len(pair) == 2 for pair in pairs):
            return pairs
    _refuse("expected pairs for an OrderedDict, got another value")


def _metadata_of(update: Update) -> object:
    state = update.value
    if update.how != "BUILD" or type(state) is not Dict or len(state) != 1 or state[0][0] != _METADATA:
        _refuse("expected no attributes of an OrderedDict except _metadata, got others")
    return state[0][1]


def _set_of(node: Call, context: DecodeContext, kind: Callable[[Any], object]) -> object:
    args = node.args
    if node.updates or type(args) is not tuple or len(args) > 1 or (args and type(args[0]) not in (list, tuple)):
        _refuse("expected a list for a set, got another value")
    return _members(list(args[0]) if args else [], context, kind)


def _members(items: list[object], context: DecodeContext, kind: Callable[[Any], object]) -> object:
    context.height = 1
    return kind(check_keys(Dict([(item, None) for item in items]), context))
