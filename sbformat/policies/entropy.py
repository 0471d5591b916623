"""The entropy coefficient of SAC, TQC and CrossQ: ``ent_coef`` against the entries (FORMAT.md 6.8)."""

from __future__ import annotations

import re
from struct import pack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import (
    DATA_ENTRY,
    ENTROPY_OPTIMIZER,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    TENSORS_ENTRY,
)
from sbformat.data import Serialized
from sbformat.errors import SbformatError, quote
from sbformat.pth.values import TensorInfo
from sbformat.values.context import UnrecognizedError
from sbformat.values.numbers import to_number
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive

_KEY: Final = "ent_coef"
_LEARNED: Final = "log_ent_coef"
_FIXED: Final = "ent_coef_tensor"
_SHAPES: Final[dict[str, tuple[int, ...]]] = {_LEARNED: (1,), _FIXED: ()}


class EntropyMismatch(NamedTuple):
    """An entry that does not fit ``ent_coef``."""

    entry: str
    loc: str
    """A JSON pointer into ``data``; empty for the whole entry."""
    message: str
    """A sentence."""


def entropy_coefficient(archive: Archive) -> str | float | None:
    """Return ``ent_coef`` as SB3's ``load`` has it: ``auto`` or a text that begins so, or a number.

    :param archive: with ``data``
    :return: None when it is not known, or when it is neither
    """
    value = archive.data.get(_KEY, "auto")  # SB3's default
    try:
        if isinstance(value, Serialized):
            value = archive.decode(_KEY)
        if isinstance(value, str):
            return value if value.startswith("auto") else float(value)
        return to_number(value, _KEY)
    except (SbformatError, UnrecognizedError, ValueError):
        return None


def entropy_mismatches(archive: Archive) -> Iterator[EntropyMismatch]:
    """Yield what the entries have otherwise than ``ent_coef`` asks for.

    A learned coefficient without its optimizer is not among them: that is an entry that is missing.

    :param archive: of SAC, TQC or CrossQ, with ``data``
    :raises SbformatError: for an entry that cannot be read
    """
    entry = next((name for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY) if name in archive.state_dicts), "")
    state_dict = archive.pytorch_variables if entry else None
    tree: Any = state_dict.tree if state_dict is not None else None
    variables = {name: tree[name] for name in _SHAPES if tree.get(name) is not None} if isinstance(tree, dict) else {}
    value = entropy_coefficient(archive)
    if value is not None:
        yield from _unexpected(archive, value, entry, variables)
    for name, tensor in variables.items():
        yield from _tensor_mismatches(entry, name, tensor)
    if state_dict is None or not isinstance(value, (int, float)) or not _is_of(variables.get(_FIXED), _SHAPES[_FIXED]):
        return
    held = float(state_dict[_FIXED])
    if not _is_float32(value, held):
        message = f"{render_line(value)} contradicts {_FIXED} of {entry}, which is {held!r}"
        yield EntropyMismatch(DATA_ENTRY, f"/{_KEY}", message)


def _unexpected(
    archive: Archive, value: str | float, entry: str, variables: Mapping[str, object]
) -> Iterator[EntropyMismatch]:
    """Yield what SB3 has no place for when it loads the archive, and an initial value that it refuses."""
    if isinstance(value, str) and re.fullmatch(r"auto_(-.*|\+?[0.]+([eE].*)?)", value):
        message = f"expected an initial value greater than 0, got {render_line(value)}"
        yield EntropyMismatch(DATA_ENTRY, f"/{_KEY}", message)
    optimizer = ENTROPY_OPTIMIZER + PTH_SUFFIX
    kind, other = ("learned", _FIXED) if isinstance(value, str) else ("fixed", _LEARNED)
    found = [f"{optimizer} is there"] if kind == "fixed" and optimizer in archive.state_dicts else []
    if other in variables:
        found.append(f"{entry} holds {other}")
    if found:
        message = f"{render_line(value)} is a {kind} coefficient, but {' and '.join(found)}: SB3's load fails"
        yield EntropyMismatch(DATA_ENTRY, f"/{_KEY}", message)


def _tensor_mismatches(entry: str, name: str, tensor: object) -> Iterator[EntropyMismatch]:
    shape = _SHAPES[name]
    if not _is_of(tensor, shape):
        got = quote(render_line(tensor), 80)
        if isinstance(tensor, TensorInfo):
            got = f"{tensor.dtype} of {tuple(tensor.shape)}"
        yield EntropyMismatch(entry, "", f"{name}: expected a tensor of float32 of the shape {shape}, got {got}")


def _is_of(tensor: object, shape: tuple[int, ...]) -> bool:
    return isinstance(tensor, TensorInfo) and tensor.dtype == "float32" and tuple(tensor.shape) == shape


def _is_float32(value: float, held: float) -> bool:
    """Return whether a float32 is what a number becomes in that dtype; NaN is NaN."""
    try:
        rounded = pack("<f", value)
    except OverflowError:  # torch makes it infinite
        rounded = pack("<f", float("inf") if value > 0 else float("-inf"))
    return rounded == pack("<f", held) or (value != value and held != held) or value == held  # noqa: PLR0124
