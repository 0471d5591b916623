"""What SB3 and torch do with plain values: some of them name what is imported, connected to or looked up.

FORMAT.md 14.1. Sources: SB3 ``common/base_class.py`` (``load``, ``set_parameters``), ``common/utils.py``
(``configure_logger``), gym ``envs/registration.py``, torch ``optim/_functional.py``.
"""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, TORCH_VARIABLES
from sbformat.errors import escape
from sbformat.globals.dangerous import ADDRESS
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Node, walk
from sbformat.tools.scan.uses import pairs_of
from sbformat.values.context import find_role
from sbformat.values.types import (
    ConstantSchedule,
    FloatSchedule,
    Function,
    Instance,
    LinearSchedule,
    Partial,
    Reference,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.tools.scan.location import Place
    from sbformat.tools.scan.report import Finding

_SHOWN: Final = 200
_STATE_DICTS: Final = frozenset(
    {
        "policy", "policy.optimizer", "actor.optimizer", "critic.optimizer", ENTROPY_OPTIMIZER,
        *(name.removesuffix(PTH_SUFFIX) for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY)),
    }
)  # fmt: skip
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?")
_CALLABLES: Final = frozenset(
    {
        "policy_class", "replay_buffer_class", "rollout_buffer_class", "model_class", "lr_schedule", "learning_rate",
        "clip_range", "clip_range_vf", "exploration_schedule", "delta_std_schedule", "policy", "cliprange",
        "cliprange_vf",
    }
)  # fmt: skip
"""Keys of ``data`` under which SB3 and its predecessor keep classes and functions."""
_CALLABLE_OBJECTS: Final = (ConstantSchedule, LinearSchedule, FloatSchedule, Instance)
_BYTES: Final = ("encode", "bytes")


def of_value(key: str, value: object, place: Place) -> Iterator[Finding]:
    """Judge a value of ``data`` by what SB3 does with its key.

    :param key: of ``data``
    :param value: JSON, or what a blob means
    :param place: of the value
    """
    text = _text(value)
    if key == "env" and value is not None:
        if text is None:
            yield place.finding("unknown-name", "SB3 never writes the environment; what stands there is used as one")
        else:
            message = "SB3 makes the environment that it names, which may import a module"
            yield place.finding("dangerous-name", message, names=(text,))
    elif key == "tensorboard_log" and ADDRESS.search(str(value) if isinstance(value, PurePath) else text or ""):
        message = "an address: training writes its log there, and connects to it"
        yield place.finding("dangerous-name", message, names=(text or str(value),))
    elif (isinstance(value, (Function, Partial, Reference)) and key not in _CALLABLES) or (
        isinstance(value, _CALLABLE_OBJECTS) and key not in (*_CALLABLES, "action_noise")
    ):
        message = (
            "a class, function or schedule stands under a key where SB3 keeps none: it may take the place of a method"
        )
        yield place.finding("unknown-name", message, names=(str(getattr(value, "qualname", value))[:_SHOWN],))


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, ArrayInfo) and value.dtype[1:2] == "U":
        decode = codecs.utf_32_be_decode if value.dtype[0] == ">" else codecs.utf_32_le_decode
        return decode(value.read(), "replace", True)[0].rstrip("\0")
    return None


def of_attribute(path: str, place: Place) -> Iterator[Finding]:
    """Judge the name of a state dict or variable: SB3 looks it up on the agent, attribute by attribute.

    :param path: without its suffix
    :param place: of the entry
    """
    if path in _STATE_DICTS or path in TORCH_VARIABLES:
        return
    shown = escape(path, _SHOWN)
    parts = path.split(".")
    if _PLAIN_NAME.fullmatch(path) and "ctypes" not in parts:
        yield place.finding("unknown-entry", f"SB3 has no {shown}; it looks for an attribute of that name")
        return
    if len(parts) > 2 or "ctypes" in parts or any(part.startswith("__") and part.endswith("__") for part in parts):
        message = f"SB3 looks up {shown} on the agent, attribute by attribute: such a path leads to whatever it holds"
        yield place.finding("dangerous-name", message, names=(path,))
        return
    yield place.finding("unknown-entry", f"SB3 looks up {shown} on the agent, which is no attribute's name")


def of_state_dict(tree: object, place: Place) -> Iterator[Finding]:
    """Judge the values of a ``.pth``: names of variables, and what a fused optimizer does not check.

    :param tree: the inert tree of its pickle
    :param place: of the entry
    """
    if place.entry in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY):
        keys = [key for key, _ in pairs_of(tree)]
        for name in dict.fromkeys(key for key in keys if isinstance(key, str)):
            yield from of_attribute(name, place)
        for key in keys:
            if isinstance(key, Node):
                yield place.finding("dangerous-name", "SB3 looks up on the agent what a key spells that is no text")
    for part in walk(tree):
        for key, value in pairs_of(part):
            if isinstance(key, Node) and not (isinstance(key, Call) and find_role(key) in _BYTES):
                yield place.finding("unchecked-arguments", "a key that is neither text, number nor bytes")
                return
            if type(key) is str and key == "fused" and not (value is None or (isinstance(value, int) and not value)):
                message = "a fused optimizer, which takes the sizes of its state as they come, past the end of a tensor"
                yield place.finding("unchecked-arguments", message)
                return
