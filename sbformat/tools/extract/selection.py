"""Which tensors are extracted: exact names, or glob patterns."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import MissingEntryError, require_names
from sbformat.immutable import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ALL: Final = "*"
"""The pattern that selects all tensors."""


class Candidate(Record):
    """A tensor that can be extracted."""

    label: str
    """Its name in the output, which begins with the entry if all entries are extracted."""
    names: tuple[str, ...]
    """Its path in the state dict, and the name of its TensorFlow variable."""
    make: Callable[[], Any]
    """Returns the array, or a stream of its bytes."""


def parse_patterns(tensors: Iterable[str] | str) -> tuple[str, ...]:
    """Return an argument as patterns.

    :raises TypeError: when one is not a str
    :raises ValueError: when there is none
    """
    patterns = (tensors,) if isinstance(tensors, str) else require_names(tensors, "tensors")
    if not patterns:
        message = "expected at least one name or pattern in tensors; '*' selects all"
        raise ValueError(message)
    return patterns


def select(candidates: Sequence[Candidate], patterns: Iterable[str]) -> list[Candidate]:
    """Return the candidates that a pattern selects, in their order.

    ``*`` selects all, also if a tensor has that name, which ``[*]`` selects. Any other pattern is first compared as an
    exact name, then as a glob, and then as a glob in which brackets are themselves: the paths of an optimizer contain
    brackets, such as ``state/[0]/exp_avg``. Globs are compared with names in the output only if no path matches:
    ``re*`` selects no tensor for the entry ``replay_buffer``.

    :raises MissingEntryError: when a pattern selects none
    """
    by_path, by_label = _index(candidates, with_labels=False), _index(candidates, with_labels=True)
    chosen: set[int] = set()
    for pattern in dict.fromkeys(patterns):
        found = None if pattern == ALL else by_path.get(pattern) or by_label.get(pattern)
        for index in (by_path, by_label):
            for glob in (pattern, pattern.replace("[", "[[]")):
                matching = (index[name] for name in index if fnmatch.fnmatchcase(name, glob))
                found = found or [place for places in matching for place in places]
        if not found and candidates:
            raise MissingEntryError(pattern, present=by_label, what="tensor that matches")
        chosen.update(found or ())
    return [candidate for place, candidate in enumerate(candidates) if place in chosen]


def _index(candidates: Sequence[Candidate], *, with_labels: bool) -> dict[str, list[int]]:
    """Return the places of the candidates by name: by path, or by the name in the output."""
    index: dict[str, list[int]] = {}
    for place, candidate in enumerate(candidates):
        for name in (candidate.label,) if with_labels else dict.fromkeys(candidate.names):
            index.setdefault(name, []).append(place)
    return index
