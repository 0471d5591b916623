"""``validate`` and ``iter_problems``: the entries, the JSON Schemas of ``data``, and the rules between entries.

jsonschema is imported when the first ``data`` is checked.

In: an archive or ``data``. Out: a :class:`Problem` for each entry that cannot be decoded, each violation of a schema,
and each entry, name or shape that does not fit the rest (FORMAT.md 1.2, 6.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import SB3_ARCHIVES, STATISTICS
from sbformat.constants import (
    ARRAYS_ENTRY,
    DATA_ENTRY,
    ENTROPY_OPTIMIZER,
    OPTIMIZER_WORD,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SETTINGS_ENTRY,
)
from sbformat.errors import LimitError, SbformatError, UnsupportedError, ValidationError, quote
from sbformat.known.algorithms import ENTROPY_LEARNERS, OPTIMIZERS
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.nets.wrappers import unwrap_policy
from sbformat.reader import read
from sbformat.schema.schemas import SB2, Problem, check_data, choose_schema, choose_schema_of_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike


_SBX_POLICY: Final = "policy"
_MOST_MISMATCHES: Final = 100


def _check_names(archive: Archive) -> Iterator[Problem]:
    """Yield the names and shapes of tensors that are not those of the network, or why they cannot be checked."""
    entry, check = POLICY_ENTRY, check_network
    if archive.format == "sbx":
        entry, check = _SBX_POLICY, check_sbx_network
    elif archive.format == "policy-file":
        check = check_policy_file
    try:
        yield from check(archive)
    except (UnsupportedError, LimitError) as error:
        yield Problem(entry, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
    except SbformatError as error:
        if error.entry == DATA_ENTRY:  # check_readable reports other entries that cannot be decoded
            yield Problem(entry, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")


def check_sbx_network(archive: Archive) -> Iterator[Problem]:
    """Yield why the weights of an archive of SBX are not those of its networks."""
    from sbformat.nets.sbx import build_sbx_policy
    from sbformat.policies.builder import Given

    try:
        build_sbx_policy(archive, Given(), Budget(archive.limits))
    except ValidationError as error:
        yield Problem(_SBX_POLICY, "", "mismatch", "error", error.message)


def list_wrappers(archive: Archive) -> Iterator[Problem]:
    """Yield the wrappers of torch that were removed from the names of the policy (FORMAT.md 6.8)."""
    for note in unwrap_policy(archive).notes:
        message = f"{note}; SB3's load does not do this: load with sbformat.sb3.load, or rebuild"
        yield Problem(POLICY_ENTRY, "", "mismatch", "warning", message)


def check_network(archive: Archive) -> Iterator[Problem]:
    """Yield the names and shapes of tensors of SB3 that differ from those that ``data`` requires."""
    from sbformat.nets.arguments import NetworkError
    from sbformat.nets.reading import find_contradictions, find_optimizer_mismatches, match_network

    if DATA_ENTRY not in archive.entries or POLICY_ENTRY not in archive.state_dicts:
        return
    try:
        match = match_network(archive)
        policy = unwrap_policy(archive)
        found = [(POLICY_ENTRY, row) for row in match.mismatches]
        if not found:
            contradictions = find_contradictions(policy.state_dict, match.parameters)
            optimizers = find_optimizer_mismatches(archive, match)
            found = [*((POLICY_ENTRY, row) for row in contradictions), *optimizers]
    except NetworkError as error:
        if error.key.partition("/")[0] in archive.data:
            message = f"SB3 cannot make the network: {error.message}"
            yield Problem(DATA_ENTRY, f"/{error.key}", "mismatch", "error", message)
        return
    yield from list_wrappers(archive)
    for entry, row in found[:_MOST_MISMATCHES]:
        yield Problem(entry, "", "mismatch", "error", row.message)
    if len(found) > _MOST_MISMATCHES:
        message = f"{len(found) - _MOST_MISMATCHES:,} more names or shapes do not fit"
        yield Problem(found[-1][0], "", "mismatch", "error", message)


_ZIPPED: Final = frozenset({"sb3", "sbx", "folder", "torch-zip", "torch-legacy", "sb2-zip", "policy-file"})
"""Formats whose tensors may have a CRC; the tensors of a pickle have none, and may be larger than memory."""
_STATISTICS: Final = ("mean", "var", "count")
_HOLDERS: Final = ("obs_rms", "ret_rms")  # the attributes of a VecNormalize that are statistics, or dicts of them


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
    """Yield missing and unexpected entries of an archive of SB3."""
    names = archive.state_dicts
    algorithm = archive.algorithm.name if DATA_ENTRY in archive.entries else None
    if DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", "data is missing; SB3's load needs it")
    if POLICY_ENTRY not in names:
        optimizers = [name for name in names if OPTIMIZER_WORD in name]
        why = f"{optimizers[0]} needs it" if optimizers else "SB3's load needs it"
        yield Problem(POLICY_ENTRY, "", "missing-entry", "error", f"{POLICY_ENTRY} is missing; {why}")
    if algorithm in ENTROPY_LEARNERS:
        from sbformat.nets.entropy import find_entropy_mismatches

        with suppress(SbformatError):  # check_readable reports entries that cannot be decoded
            for entry, loc, message in find_entropy_mismatches(archive):
                yield Problem(entry, loc, "mismatch", "error", message)
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
        from sbformat.formats.vecnormalize.bundled import read_entries

        try:
            read_entries(archive)
        except SbformatError as error:
            name = (error.entry or SETTINGS_ENTRY).partition("/")[0]
            yield Problem(name, "", "unreadable", "error", f"{error.outcome}: {error.message}")


def check_policy_file(archive: Archive) -> Iterator[Problem]:
    """Yield the wrappers in a file of ``policy.save()``."""
    from sbformat.nets.reading import match_saved_policy

    try:
        match_saved_policy(archive)
        yield from list_wrappers(archive)
    except ValidationError as error:
        raise UnsupportedError(error.message) from None


def _expected_optimizers(algorithm: str | None, archive: Archive) -> tuple[str, ...] | None:
    expected = OPTIMIZERS.get(algorithm or "")
    if expected is None or algorithm not in ENTROPY_LEARNERS:
        return expected
    from sbformat.nets.entropy import is_learned_coefficient

    return (*expected, ENTROPY_OPTIMIZER) if is_learned_coefficient(archive) else expected


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


def validate(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[Problem, ...]:
    """Check an archive, and raise if it has errors.

    >>> sbformat.validate("ppo_cartpole.zip")
    ()

    :param source: an archive, what :func:`sbformat.read` takes, or a ``data`` dict
    :param limits: see :func:`sbformat.read`
    :return: what is only worth knowing (``level="info"``)
    :raises ValidationError: if there is an error; its ``problems`` are all problems
    :raises SbformatError: if it is not an archive
    """
    problems = tuple(iter_problems(source, limits=limits))
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first = f"{errors[0].entry}{errors[0].loc and ' ' + errors[0].loc}: {errors[0].message}"
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        raise ValidationError(f"{first}{more}", problems=problems)
    return problems


def iter_problems(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Problem]:
    """Yield every violation of the schema and of the rules between entries, and every unknown key.

    Every entry is decoded and every CRC is checked.

    >>> for problem in sbformat.iter_problems("ppo_cartpole.zip"):
    ...     print(problem.entry, problem.loc, problem.message)

    :param source: an archive, what :func:`sbformat.read` takes, or a ``data`` dict
    :param limits: see :func:`sbformat.read`
    :raises SbformatError: if it is not an archive
    """
    if isinstance(source, Mapping):
        yield from check_data(source, *choose_schema_of_data(source))
        return
    archive = read(source, limits=limits)
    yield from check_readable(archive)
    if DATA_ENTRY in archive.contents:
        try:
            data = archive.data
        except SbformatError:
            return
        yield from check_data(data, *choose_schema(archive))
    if archive.format in SB3_ARCHIVES:
        yield from check_entries(archive)
    if archive.format in (*SB3_ARCHIVES, "sbx", "policy-file"):
        yield from _check_names(archive)
    elif archive.format in STATISTICS:
        yield from check_statistics(archive)
    elif archive.format == "sb2-zip" and DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", f"data is missing; {SB2.reason}")
