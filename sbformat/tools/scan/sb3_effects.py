"""Judge plain values by what SB3 and torch do with them: some name what is imported, connected to or looked up.

SCANNING.md 14.1. Sources: SB3 ``common/base_class.py`` (``load``, ``set_parameters``), ``common/utils.py``
(``configure_logger``), gym ``envs/registration.py``, torch ``optim/_functional.py``.
"""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, TORCH_VARIABLES
from sbformat.errors import escape
from sbformat.known.dangerous import ADDRESS
from sbformat.known.sb3_attributes import CALLABLE_KEYS, OBJECT_KEYS
from sbformat.known.table import find_role
from sbformat.known.types import (
    ConstantSchedule,
    Described,
    FloatSchedule,
    Function,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    Partial,
    Reference,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Node, walk
from sbformat.tools.scan.location import SHOWN
from sbformat.tools.scan.name_uses import list_pairs
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.tools.scan.location import Location
    from sbformat.tools.scan.report import Finding, Reason

_STATE_DICTS: Final = frozenset(
    {
        "policy", "policy.optimizer", "actor.optimizer", "critic.optimizer", ENTROPY_OPTIMIZER,
        *(name.removesuffix(PTH_SUFFIX) for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY)),
    }
)  # fmt: skip
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?")
_LOCAL: Final = re.compile(r"file://(?:(?:localhost)?/(?![\\/])|[a-z]:)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"://|^[\\/]{2}")
"""In a path that TensorBoard does not take as a local one; a chain (``a::b``) begins with a scheme."""
_SERVER: Final = re.compile(
    r"^[\\/]{2}|::|(?<![a-z0-9])(?:https?|ftps?|sftp|ssh|scp|smb|cifs|nfs|webhdfs|wss?|file|git|github)://",
    re.IGNORECASE,
)
"""Addresses in which a file names the server. Others, such as ``s3://``, name a store of objects, to which TensorBoard
and TensorFlow write with the credentials of the machine."""
_CALLABLE_OBJECTS: Final = (ConstantSchedule, LinearSchedule, FloatSchedule, InterpolatedSchedule, Instance)
_PLAIN: Final = (
    "builtins.property", "builtins.range", "builtins.slice", "types.MappingProxyType", "types.SimpleNamespace",
    "types.UnionType", "typing.Optional", "typing.Union",
)  # fmt: skip
"""Small values that cannot be called; others are methods, and generic types such as ``list[int]``."""
_BYTES: Final = ("encode", "bytes")


def judge_data_value(key: str, value: object, location: Location) -> Iterator[Finding]:
    """Judge a value of ``data`` by what SB3 does with its key.

    :param key: of ``data``
    :param value: a JSON value, or a decoded one
    :param location: of the value
    """
    text = _find_text(value)
    if key == "env" and value is not None:
        if text is None:
            yield location.finding("unknown-name", "SB3 never saves an environment, and uses this value as one")
        else:
            message = "SB3 creates the environment with this name, which may import a module"
            yield location.finding("dangerous-name", message, names=(text,))
    elif key == "tensorboard_log":
        yield from _judge_log_folder(str(value) if isinstance(value, PurePath) else text or "", location)
    elif (
        (
            isinstance(value, (Function, Partial, Reference))
            or (isinstance(value, Described) and value.kind not in _PLAIN)
        )
        and key not in CALLABLE_KEYS
    ) or (isinstance(value, _CALLABLE_OBJECTS) and key not in OBJECT_KEYS):
        message = "a class, function or schedule is stored under a key where SB3 stores none, and may replace a method"
        yield location.finding("unknown-name", message, names=(_name_of(value),))


def _judge_log_folder(path: str, location: Location) -> Iterator[Finding]:
    """Judge the folder to which training writes: an address of a local folder, of a store of objects, or any other."""
    if not _SCHEME.search(path):
        return
    local = _LOCAL.match(path)
    if local and not ADDRESS.search(path, local.end()):
        yield location.finding("unknown-name", "the log folder is given as an address of a local folder", names=(path,))
        return
    message = "the log folder is a network address, to which training connects"
    reason: Reason = "harmful" if _SERVER.search(path) else "not-known"
    yield location.finding("dangerous-name", message, names=(path,), reason=reason)


def _name_of(value: object) -> str:
    """Return the name of a class, function or schedule as people write it."""
    if isinstance(value, (Reference, Instance)):
        return ".".join((value if isinstance(value, Reference) else value.type).pair)
    return value.qualname if isinstance(value, Function) else render_line(value)


def _find_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, ArrayInfo) and value.dtype[1:2] == "U":
        decode = codecs.utf_32_be_decode if value.dtype[0] == ">" else codecs.utf_32_le_decode
        return decode(value.read(), "replace", True)[0].rstrip("\0")
    return None


def judge_attribute_path(path: str, location: Location) -> Iterator[Finding]:
    """Judge the name of a state dict or variable, which SB3 looks up on the agent attribute by attribute.

    :param path: the name without its suffix
    :param location: of the entry
    """
    if path in _STATE_DICTS or path in TORCH_VARIABLES:
        return
    shown = escape(path, SHOWN)
    parts = path.split(".")
    if _PLAIN_NAME.fullmatch(path) and "ctypes" not in parts:
        yield location.finding(
            "unknown-entry", f"no release of SB3 writes {shown}; SB3 looks up an attribute of this name on the agent"
        )
        return
    if len(parts) > 2 or "ctypes" in parts or any(part.startswith("__") and part.endswith("__") for part in parts):
        message = f"SB3 looks up {shown} on the agent, attribute by attribute, which reaches objects other than tensors"
        yield location.finding("dangerous-name", message, names=(path,))
        return
    yield location.finding("unknown-entry", f"SB3 looks up {shown} on the agent, which is not the name of an attribute")


def judge_state_dict(tree: object, parts: Iterable[object], location: Location) -> Iterator[Finding]:
    """Judge the values of a ``.pth``: names of variables, and values that a fused optimizer does not check.

    :param tree: the tree of its pickle
    :param parts: every composite value and node of the pickle, also of values that it popped
    :param location: of the entry
    """
    if location.entry in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY):
        keys = [key for key, _ in list_pairs(tree)]
        for name in dict.fromkeys(key for key in keys if isinstance(key, str)):
            yield from judge_attribute_path(name, location)
        for key in keys:
            if isinstance(key, Node):
                message = "SB3 looks up on the agent what a key contains, and this key is not text"
                yield location.finding("dangerous-name", message)
    if next(_judge_keys(parts, location), None) is not None:  # perhaps in a popped value, which torch does not use
        yield from _judge_keys(walk(tree), location)


def _judge_keys(parts: Iterable[object], location: Location) -> Iterator[Finding]:
    """Yield a finding for the first key that is a node, or that makes an optimizer a fused one."""
    for part in parts:
        if type(part) is not Dict and not isinstance(part, Node):  # without keys
            continue
        for key, value in list_pairs(part):
            if isinstance(key, Node) and not (isinstance(key, Call) and find_role(key) in _BYTES):
                yield location.finding("unchecked-arguments", "a key is neither text, a number nor bytes")
                return
            if type(key) is str and key == "fused" and not (value is None or (isinstance(value, int) and not value)):
                message = (
                    "a fused optimizer, which does not check the sizes of its state and may access memory past a tensor"
                )
                yield location.finding("unchecked-arguments", message)
                return
