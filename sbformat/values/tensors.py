"""Node decoders for torch's tensors, dtypes, devices and small values in pickles (VALUES.md 13.6).

A tensor in a pickle refers to its storage by ``_load_from_bytes``, whose argument is a complete legacy torch file. That
file is decoded as any other; the constructors are those of a ``.pth``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from sbformat.errors import FormatError
from sbformat.globals.torch import STORAGES
from sbformat.pkl.numpy import encoded_bytes
from sbformat.pkl.tree import Call, Global, Persistent
from sbformat.pth.constructors import CONSTRUCTORS
from sbformat.pth.decode import open_pth
from sbformat.pth.values import StorageId
from sbformat.values.context import UnrecognizedError, find_role, reject

if TYPE_CHECKING:
    from sbformat.pth.values import Storage
    from sbformat.values.context import Context


def decode_storage(context: Context, node: Call) -> Storage:
    """Decode ``_load_from_bytes(data)``: the storage that is the one object of a torch file."""
    from copy import copy

    args: Any = node.args
    if len(args) != 1 or node.updates:
        reject("_load_from_bytes has unknown arguments")
    seen = context.storages
    if id(args[0]) not in seen:
        seen[id(args[0])] = None
        seen[id(args[0])] = _storage(context, args[0])
    storage = copy(seen[id(args[0])])  # loading the same bytes again makes another storage
    if storage is None:
        reject("expected a storage in the bytes of _load_from_bytes")
    reference = Persistent(StorageId(storage))
    context.substitute(node, reference)
    context.accept(node)
    return storage


def _storage(context: Context, raw: object) -> Storage:
    data = encoded_bytes(raw)
    if data is None:
        reject("expected bytes as the argument of _load_from_bytes")
    try:
        pickle, storages = open_pth(memoryview(data), context.budget)
        is_storage = type(pickle.value) is Persistent and not pickle.flags and all(map(_is_storage_class, pickle.log))
        if is_storage:
            return storages.storage(pickle.value)
    except FormatError as error:
        reject(f"expected a torch file as the argument of _load_from_bytes: {error.message}")
    message = "expected a storage in the bytes of _load_from_bytes"
    raise UnrecognizedError(message)


def _is_storage_class(node: object) -> bool:
    return type(node) is Global and not node.updates and node.pair in STORAGES


def reject_tensor(context: Context, node: Call) -> NoReturn:  # noqa: ARG001 -- the signature of a node decoder
    """Reject a tensor whose constructor is known, and that has no value here."""
    reject("a tensor of a kind that cannot be read")


def decode_tensor(context: Context, node: Call) -> object:
    """Decode a tensor or small value of torch, by the constructors of a ``.pth``."""
    role = find_role(node)
    if node.updates or role is None:
        reject("a value of torch is changed after it was constructed")
    args: tuple[object, ...] = node.args  # type: ignore[assignment]
    if context.has_substitutes:
        args = tuple(_with_storages(context, arg) for arg in args)
    value = CONSTRUCTORS[role](context.tensors, args)
    if args != node.args:
        context.substitute(node, Call("REDUCE", node.func, args))
    context.accept(node, *[arg for arg in args if type(arg) is Global])
    return value


def _with_storages(context: Context, arg: object) -> object:
    """Return an argument with persistent references in place of the calls of ``_load_from_bytes``."""
    if type(arg) is tuple:
        return tuple([context.find_substitute(part) for part in arg])
    return context.find_substitute(arg)
