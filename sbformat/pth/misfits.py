"""How weights do not fit a template: rows for machines, one error that lists them for people."""

from __future__ import annotations

import difflib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat.errors import ValidationError, escape, quote
from sbformat.pth.values import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.pth.state_dict import StateDict

MismatchKind: TypeAlias = Literal["missing", "unexpected", "shape", "dtype"]

_SHOWN: Final = 20


class Mismatch(NamedTuple):
    """One way in which weights do not fit their template."""

    loc: str
    """The tensor's path."""
    kind: MismatchKind
    message: str
    """A sentence."""


def check_names(infos: Mapping[str, Any], given: Mapping[str, Any]) -> Iterable[Mismatch]:
    """Yield the names that only one side has."""
    for path in infos:
        if path not in given:
            yield Mismatch(path, "missing", "is not given")
    unexpected = [path for path in given if path not in infos]
    for at, path in enumerate(unexpected):
        close = difflib.get_close_matches(path[:60], list(infos), n=1) if at < _SHOWN else []
        hint = f"; did you mean {quote(close[0])}?" if close else ""
        yield Mismatch(path, "unexpected", f"the template has no such tensor{hint}")


def check_like(template: StateDict, given: StateDict) -> None:
    """Check that an optimizer's state dict is for the same parameters as the template; either may have no state.

    :raises ValidationError: when names or shapes differ: all that do are in ``problems``
    """
    infos, tensors = template.tensors(), given.tensors()
    mismatches = [
        Mismatch(f"param_groups/[{at}]/params", "shape", f"has {mine or 'no'} parameters where {theirs or 'no'} belong")
        for at, (theirs, mine) in enumerate(zip_longest(_groups(template), _groups(given)))
        if theirs != mine
    ]
    if infos and tensors:
        mismatches += check_names(infos, tensors)
        mismatches += [
            Mismatch(path, "shape", f"has shape {_shape(info)} where {_shape(infos[path])} belongs")
            for path, info in tensors.items()
            if path in infos and _shape(info) != _shape(infos[path])
        ]
    if mismatches:
        raise misfit(mismatches, template.entry)


def _groups(state_dict: StateDict) -> list[int]:
    """How many parameters each group of an optimizer has; 0 for what is no group."""
    tree: Any = state_dict.tree
    groups = tree.get("param_groups") if isinstance(tree, dict) else None
    parameters = [group.get("params") if isinstance(group, dict) else None for group in _items(groups)]
    return [len(_items(listed)) for listed in parameters]


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _shape(info: Any) -> tuple[int, ...]:  # noqa: ANN401 -- a tensor of any kind
    shape: tuple[int, ...] = info.int_repr.shape if isinstance(info, QuantizedTensor) else info.shape
    return shape


def misfit(mismatches: list[Mismatch], entry: str | None = None) -> ValidationError:
    """Return the error that lists what does not fit."""
    lines = [f"{escape(row.loc)}: {row.message}" for row in mismatches[:_SHOWN]]
    more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
    message = f"{len(mismatches)} tensors do not fit the template: {'; '.join(lines)}{more}"
    return ValidationError(message, problems=mismatches, entry=entry)
