"""The coefficient ``ent_coef`` of SAC, TQC and CrossQ, its tensor and optimizer (FORMAT.md 6.8, REBUILDING.md 15.6).

``ent_coef`` in ``data`` is a number for a fixed coefficient, ``auto`` or ``auto_0.1`` for a learned one. SB3's ``load``
puts the variable of ``pytorch_variables.pth`` in the place of the one that it makes: ``ent_coef_tensor``, of the shape
``()``, or ``log_ent_coef``, of the shape ``(1,)``, both float32. A learned coefficient also has an optimizer.
"""

from __future__ import annotations

import re
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, ENTROPY_OPTIMIZER, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, escape
from sbformat.known.numpy import to_number
from sbformat.known.rows import UnrecognizedError
from sbformat.nets.arguments import LARGEST_FLOAT32
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import TensorInfo
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive

KEY: Final = "ent_coef"
LEARNED: Final = "log_ent_coef"
FIXED: Final = "ent_coef_tensor"
_SHAPES: Final[dict[str, tuple[int, ...]]] = {LEARNED: (1,), FIXED: ()}
_NUMBER: Final = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?"


def fixed_coefficient(value: object) -> float | None:
    """Return a fixed coefficient: a number, a numpy scalar, or the text of a number; None for any other value."""
    if isinstance(value, ArrayInfo):
        value = value.to_numpy().item() if value.is_scalar and value.dtype[1] in "fiu" else None
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_FLOAT32:
        return None
    return value


def initial_coefficient(value: object) -> float | None:
    """Return the initial value of a learned coefficient: 1.0 for ``auto``; None when it is not learned."""
    found = re.fullmatch(rf"auto(?:_({_NUMBER}))?", value) if isinstance(value, str) else None
    if found is None:
        return None
    initial = float(found[1] or 1.0)
    return initial if 0 < initial <= LARGEST_FLOAT32 else None


def is_learned_coefficient(archive: Archive) -> bool:
    """Return whether SB3's ``load`` makes a learned coefficient, with an optimizer."""
    return isinstance(_read_coefficient(archive), str)


def _read_coefficient(archive: Archive) -> str | float | None:
    """Return ``ent_coef`` as SB3's ``load`` reads it: a text that begins with ``auto``, a number, or else None."""
    value = archive.data.get(KEY, "auto")  # SB3's default
    try:
        if isinstance(value, Serialized):
            value = archive.decode(KEY)
        if isinstance(value, str):
            return value if value.startswith("auto") else float(value)
        return to_number(value, KEY)
    except (SbformatError, UnrecognizedError, ValueError):
        return None


def check_variable(name: str, tensor: object) -> str:
    """Return what is wrong with the tensor ``log_ent_coef`` or ``ent_coef_tensor``, or an empty text."""
    if not isinstance(tensor, TensorInfo):
        found = escape(render_line(tensor), 80)
    elif tensor.dtype != "float32" or tuple(tensor.shape) != _SHAPES[name]:
        found = f"{escape(tensor.dtype, 40)} {tuple(tensor.shape)}"
    else:
        return ""
    return f"expected a float32 tensor of the shape {_SHAPES[name]}, got {found}"


def find_entropy_mismatches(archive: Archive) -> Iterator[tuple[str, str, str]]:
    """Yield what contradicts ``ent_coef``: the entry, a JSON pointer into ``data``, and a message.

    The missing optimizer of a learned coefficient is not among them: that is a missing entry.
    """
    entry = next((name for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY) if name in archive.state_dicts), "")
    state_dict = archive.pytorch_variables if entry else None
    tree: Any = state_dict.tree if state_dict is not None else None
    variables = {name: tree[name] for name in _SHAPES if tree.get(name) is not None} if isinstance(tree, dict) else {}
    value = _read_coefficient(archive)
    shown, problems = render_line(value), []
    if isinstance(value, str) and re.fullmatch(r"auto_(-.*|\+?[0.]+([eE].*)?)", value):
        problems.append(f"expected an initial value greater than 0, got {shown}")
    # SB3's load has no attribute for the other kind of coefficient
    optimizer = ENTROPY_OPTIMIZER + PTH_SUFFIX
    kind, other = ("learned", FIXED) if isinstance(value, str) else ("fixed", LEARNED)
    found = [f"there is {optimizer}"] if kind == "fixed" and optimizer in archive.state_dicts else []
    found += [f"{entry} holds {other}"] if other in variables else []
    if found and value is not None:
        problems.append(f"{shown} is a {kind} coefficient, but {' and '.join(found)}: SB3's load fails")
    for problem in problems:
        yield DATA_ENTRY, f"/{KEY}", problem
    wrong = {name: problem for name, tensor in variables.items() if (problem := check_variable(name, tensor))}
    for name, problem in wrong.items():
        yield entry, "", f"{name}: {problem}"
    if state_dict is None or not isinstance(value, (int, float)) or FIXED not in variables or FIXED in wrong:
        return
    stored = float(state_dict[FIXED])
    if not _equals_in_float32(value, stored):
        message = f"{shown} contradicts {FIXED} of {entry}, which is {stored!r}"
        yield DATA_ENTRY, f"/{KEY}", message


def _equals_in_float32(value: float, stored: float) -> bool:
    """Return whether a stored float32 is the one that a number rounds to; NaN equals NaN."""
    try:
        rounded = pack("<f", value)
    except OverflowError:  # torch makes it infinite
        rounded = pack("<f", float("inf") if value > 0 else float("-inf"))
    return rounded == pack("<f", stored) or (value != value and stored != stored) or value == stored  # noqa: PLR0124
