"""Check the entries of an archive: that each can be decoded, and that they fit each other (FORMAT.md 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.constants import (
    ARRAYS_ENTRY,
    DATA_ENTRY,
    ENTROPY_OPTIMIZER,
    OPTIMIZER_WORD,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SETTINGS_ENTRY,
)
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, quote
from sbformat.known.algorithms import ENTROPY_LEARNERS, OPTIMIZERS
from sbformat.schema.check_network import list_wrappers
from sbformat.schema.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive

_ZIPPED: Final = frozenset({"sb3", "sbx", "folder", "torch-zip", "torch-legacy", "sb2-zip", "policy-file"})
"""Formats whose tensors may have a CRC; the tensors of a pickle have none, and may be larger than memory."""
_STATISTICS: Final = ("mean", "var", "count")
_HOLDERS: Final = ("obs_rms", "ret_rms")
"""The attributes of a VecNormalize that are statistics, or dicts of them."""


def check_readable(archive: Archive) -> Iterator[Problem]:
    """Yield every entry that cannot be decoded, or whose CRC is wrong."""
    beside = (name for name in archive.entries if name in archive.plain_entries and name not in archive.contents)
    for name in (*archive.contents, *beside):
        try:
            _decode(archive, name)
        except SbformatError as error:
            entry = error.entry or name
            yield Problem(entry, "", "unreadable", "error", f"{error.outcome}: {error.message}"[:2000])


def _decode(archive: Archive, name: str) -> None:
    if name in archive.plain_entries:
        archive.decode_plain(name)
    elif name in archive.state_dicts:
        state_dict = archive.state_dict(name)
        if archive.format in _ZIPPED:
            state_dict.check()
    elif archive.format in ("sb3", "sbx", "sb2-zip"):  # other files of a folder have no CRC
        for _ in archive.stream(name):
            pass


def check_entries(archive: Archive) -> Iterator[Problem]:
    """Yield missing and unexpected entries.

    :param archive: an archive of SB3
    """
    names = archive.state_dicts
    algorithm = archive.algorithm.name if DATA_ENTRY in archive.entries else None
    if DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", "data is missing; SB3's load needs it")
    if POLICY_ENTRY not in names:
        optimizers = [name for name in names if OPTIMIZER_WORD in name]
        why = f"{optimizers[0]} needs it" if optimizers else "SB3's load needs it"
        yield Problem(POLICY_ENTRY, "", "missing-entry", "error", f"{POLICY_ENTRY} is missing; {why}")
    if algorithm in ENTROPY_LEARNERS:
        yield from _entropy_problems(archive)
    expected = _expected_optimizers(algorithm, archive)
    for optimizer in expected or ():
        if optimizer + PTH_SUFFIX not in names:
            message = (
                f"{optimizer + PTH_SUFFIX} is missing; SB3's load of {algorithm} needs it, even with an empty state: "
                "rebuild makes a new one"
            )
            yield Problem(optimizer + PTH_SUFFIX, "", "missing-entry", "error", message)
    for name in names:
        stem = name.removesuffix(PTH_SUFFIX)
        if expected is not None and OPTIMIZER_WORD in stem and stem not in (*expected, ENTROPY_OPTIMIZER):
            message = f"{algorithm} has no {stem}; SB3 refuses names that an algorithm does not have"
            yield Problem(name, "", "unexpected-entry", "info", message)
    for name in archive.extra:
        if name.endswith(PTH_SUFFIX):
            message = "SB3 loads every .pth of an archive, and fails on this one because it is in a folder"
            yield Problem(name, "", "unexpected-entry", "error", message)
    if SETTINGS_ENTRY in archive.extra or ARRAYS_ENTRY in archive.extra:
        yield from _bundle_problems(archive)


def check_policy_file(archive: Archive) -> Iterator[Problem]:
    """Yield the wrappers in a file of ``policy.save()``, or a note if names and shapes cannot be checked."""
    from sbformat.nets.reading import match_saved_policy

    try:
        match_saved_policy(archive)
        yield from list_wrappers(archive)
    except (UnsupportedError, ValidationError) as error:
        yield Problem(POLICY_ENTRY, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
    except SbformatError:  # check_readable reports entries that cannot be decoded
        return


def _bundle_problems(archive: Archive) -> Iterator[Problem]:
    """Check the entries of a bundle (STATISTICS.md 17.5)."""
    from sbformat.formats.vecnormalize.entries import read_entries

    try:
        read_entries(archive)
    except SbformatError as error:
        name = (error.entry or SETTINGS_ENTRY).partition("/")[0]
        yield Problem(name, "", "unreadable", "error", f"{error.outcome}: {error.message}")


def _expected_optimizers(algorithm: str | None, archive: Archive) -> tuple[str, ...] | None:
    expected = OPTIMIZERS.get(algorithm or "")
    if expected is None or algorithm not in ENTROPY_LEARNERS:
        return expected
    from sbformat.nets.entropy import is_learned_coefficient

    return (*expected, ENTROPY_OPTIMIZER) if is_learned_coefficient(archive) else expected


def _entropy_problems(archive: Archive) -> Iterator[Problem]:
    """Yield the entries that do not fit ``ent_coef`` (FORMAT.md 6.8)."""
    from sbformat.nets.entropy import find_entropy_mismatches

    try:
        for row in find_entropy_mismatches(archive):
            yield Problem(row.entry, row.loc, "mismatch", "error", row.message)
    except SbformatError:  # check_readable reports entries that cannot be decoded
        return


def check_statistics(archive: Archive) -> Iterator[Problem]:
    """Yield missing or contradictory statistics: a running mean has a mean, a variance of its shape, and a count."""
    (entry,) = archive.state_dicts
    try:
        parts = {leaf.path: leaf.value for leaf in archive.state_dict(entry).leaves()}
    except SbformatError:
        return
    held = [path.rpartition("/")[0] for path in parts if path.partition("/")[0] in _HOLDERS]
    for place in dict.fromkeys(held) if archive.format == "vecnormalize" else [""]:
        found = {name: parts.get(f"{place}/{name}" if place else name) for name in _STATISTICS}
        named = quote(place, 80) if place else "a running mean"
        for name, value in found.items():
            if value is None:
                yield Problem(entry, "", "missing-key", "error", f"the {name} of {named} is missing")
        shapes = [getattr(found[name], "shape", ()) for name in ("mean", "var") if found[name] is not None]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            message = f"expected a variance of the same shape as the mean of {named}, {shapes[0]}, got {shapes[1]}"
            yield Problem(entry, "", "value", "error", message)
