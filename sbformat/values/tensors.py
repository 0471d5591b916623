"""torch's tensors, dtypes, devices and small values inside blobs (FORMAT.md 13.6).

A tensor in a blob refers to its storage by ``_load_from_bytes``: a legacy torch file, whole, inside the pickle. It is
decoded as such; the constructors are those of a ``.pth``.
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
from sbformat.values.context import Unrecognised, role_of

if TYPE_CHECKING:
    from sbformat.pth.values import Storage
    from sbformat.values.context import Recognition


def load_from_bytes(scope: Recognition, node: Call) -> Storage:
    """A storage: the object of the torch file that these bytes are."""
    from copy import copy

    args: Any = node.args
    if len(args) != 1 or node.updates:
        message = "_load_from_bytes has unknown arguments"
        raise Unrecognised(message)
    seen = scope.storages
    if id(args[0]) not in seen:
        seen[id(args[0])] = None
        seen[id(args[0])] = _storage(scope, args[0])
    storage = copy(seen[id(args[0])])  # the same bytes loaded again are another storage
    if storage is None:
        message = "_load_from_bytes is given the same bytes again, which are no storage"
        raise Unrecognised(message)
    reference = Persistent(StorageId(storage))
    scope.substitute(node, reference)
    scope.accept(node)
    return storage


def _storage(scope: Recognition, raw: object) -> Storage:
    data = encoded_bytes(raw)
    if data is None:
        message = "_load_from_bytes is not given bytes"
        raise Unrecognised(message)
    try:
        pickle, storages = open_pth(memoryview(data), scope.budget)
        is_storage = type(pickle.value) is Persistent and not pickle.flags and all(map(_is_storage_class, pickle.log))
        if is_storage:
            return storages.storage(pickle.value)
    except FormatError as error:
        message = f"_load_from_bytes is given what is no torch file: {error.message}"
        raise Unrecognised(message) from None
    message = "_load_from_bytes gives something other than a storage"
    raise Unrecognised(message)


def _is_storage_class(node: object) -> bool:
    return type(node) is Global and not node.updates and node.pair in STORAGES


def unread(scope: Recognition, node: Call) -> NoReturn:  # noqa: ARG001 -- the recognisers' signature
    """A tensor that torch makes by a constructor of its own, and that has no value here."""
    message = "a tensor of a kind that is not read"
    raise Unrecognised(message)


def constructed(scope: Recognition, node: Call) -> object:
    """A tensor or small value of torch, by the constructors of a ``.pth``."""
    role = role_of(node)
    if node.updates or role is None:
        message = "a value of torch is changed after it was made"
        raise Unrecognised(message)
    args = tuple(_with_storages(scope, arg) for arg in node.args)  # type: ignore[attr-defined]
    value = CONSTRUCTORS[role](scope.tensors, args)
    if args != node.args:
        scope.substitute(node, Call("REDUCE", node.func, args))
    scope.accept(node, *(arg for arg in args if isinstance(arg, Global)))
    return value


def _with_storages(scope: Recognition, arg: object) -> object:
    """Return an argument with persistent references in the place of the storages' own files."""
    if type(arg) is tuple:
        return tuple([scope.substituted(part) for part in arg])
    return scope.substituted(arg)
