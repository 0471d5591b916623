"""How weights do not fit a template: rows for machines, one error that lists them for people."""

from __future__ import annotations

import difflib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from sbformat.errors import UnsupportedError, ValidationError, escape, quote
from sbformat.pth.paths import segment
from sbformat.pth.values import QuantizedTensor
from sbformat.spec import PTH_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

S = TypeVar("S")
T = TypeVar("T")

MismatchKind: TypeAlias = Literal["missing", "unexpected", "shape", "dtype"]

_SHOWN: Final = 20
_HINTED: Final = 3
"""Names that the nearest one is sought for: it costs time with the template's size."""


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
        close = difflib.get_close_matches(path[:60], list(infos), n=1) if at < _HINTED else []
        hint = f"; did you mean {quote(close[0])}?" if close else ""
        yield Mismatch(path, "unexpected", f"the template has no such tensor{hint}")


def optimizer_misfits(
    template: object, infos: Mapping[str, Any], given: object, tensors: Mapping[str, Any]
) -> list[Mismatch]:
    """List how an optimizer's tree is not for the same parameters as the template; either may have no state.

    Its groups have the options that the template's have, its state is that of its own parameters.

    :param template: the tree to compare with
    :param infos: its tensors by path
    :param given: the tree
    :param tensors: its tensors by path
    """
    mismatches = []
    theirs: dict[Any, Any]
    mine: dict[Any, Any]
    known: set[object] = set()
    for at, (theirs, mine) in enumerate(zip_longest(_groups(template), _groups(given), fillvalue={})):
        wanted, listed = len(_items(theirs.get("params"))), _items(mine.get("params"))
        known.update(key for key in listed if isinstance(key, (int, str)))
        if len(listed) != wanted:
            message = f"has {len(listed) or 'no'} parameters where {wanted or 'no'} belong"
            mismatches.append(Mismatch(f"param_groups/[{at}]/params", "shape", message))
        lacking = [key for key in theirs if mine and key not in mine and key != "params"]
        mismatches += [Mismatch(f"param_groups/[{at}]/{segment(key)}", "missing", "is not given") for key in lacking]
    mismatches += [
        Mismatch(f"state/{segment(key)}", "unexpected", "is the state of no parameter")
        for key in _state(given)
        if key not in known
    ]
    if infos and tensors:
        mismatches += check_names(infos, tensors)
        mismatches += [
            Mismatch(path, "shape", f"has shape {_shape(info)} where {_shape(infos[path])} belongs")
            for path, info in tensors.items()
            if path in infos and _shape(info) != _shape(infos[path])
        ]
    return mismatches


def _groups(tree: object) -> list[dict[Any, Any]]:
    """The groups of an optimizer; an empty one for what is none."""
    groups = tree.get("param_groups") if isinstance(tree, dict) else None
    return [group if isinstance(group, dict) else {} for group in _items(groups)]


def _state(tree: object) -> dict[Any, Any]:
    state = tree.get("state") if isinstance(tree, dict) else None
    return state if isinstance(state, dict) else {}


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _shape(info: Any) -> tuple[int, ...]:  # noqa: ANN401 -- a tensor of any kind
    shape: tuple[int, ...] = info.int_repr.shape if isinstance(info, QuantizedTensor) else info.shape
    return shape


def fit_all(parts: Mapping[str, T], fit: Callable[[str, T], S], mismatches: Iterable[Mismatch] = ()) -> dict[str, S]:
    """Fit what is given for several state dicts; what does not fit in any of them is told in one error.

    :param parts: what is given, by SB3's names
    :param fit: returns the state dict, or raises ValidationError
    :param mismatches: what is known not to fit already
    :raises ValidationError: the rows' places begin with the state dict's name
    """
    found = list(mismatches)
    made = {}
    for name, part in parts.items():
        try:
            made[name] = fit(name, part)
        except ValidationError as error:
            found += [row._replace(loc=f"{name}:{row.loc}") for row in error.problems]
        except UnsupportedError as error:
            raise error if error.entry else error.within(name + PTH_SUFFIX) from None
    if found:
        raise misfit(found)
    return made


def misfit(mismatches: list[Mismatch], entry: str | None = None) -> ValidationError:
    """Return the error that lists what does not fit."""
    lines = [f"{escape(row.loc)}: {row.message}" for row in mismatches[:_SHOWN]]
    more = f"; and {len(mismatches) - _SHOWN} more" if len(mismatches) > _SHOWN else ""
    message = f"{len(mismatches)} tensors do not fit the template: {'; '.join(lines)}{more}"
    return ValidationError(message, problems=mismatches, entry=entry)
