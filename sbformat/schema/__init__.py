"""``validate`` and ``iter_problems``: the JSON Schemas of ``data``, and the rules between entries.

jsonschema is imported when the first ``data`` is checked. No message ever prints a blob.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from sbformat import data as data_entry
from sbformat.archive.archive import Archive
from sbformat.archive.kinds import STATISTICS
from sbformat.constants import (
    ARRAYS_ENTRY,
    DATA_ENTRY,
    ENTROPY_LEARNERS,
    ENTROPY_OPTIMIZER,
    OPTIMIZER_WORD,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SETTINGS_ENTRY,
)
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.schema.families import SB2, Family, family, family_of, known_keys, load_schema, validator
from sbformat.schema.words import expected, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.io.source import SourceLike

__all__ = ["OPTIMIZERS", "Level", "Problem", "ProblemKind", "iter_problems", "known_keys", "load_schema", "validate"]

ProblemKind: TypeAlias = Literal[
    "type",
    "value",
    "base64",
    "missing-key",
    "unknown-key",
    "missing-entry",
    "unexpected-entry",
    "unreadable",
    "mismatch",
    "unchecked",
]
Level: TypeAlias = Literal["error", "info"]

_UNKNOWN_SHOWN: Final = 100
_MISMATCHES_SHOWN: Final = 100
_POLICY_OPTIMIZER: Final = ("policy.optimizer",)
_ACTOR_CRITIC: Final = ("actor.optimizer", "critic.optimizer")
OPTIMIZERS: Final = {
    **dict.fromkeys(("PPO", "A2C", "DQN", "QRDQN", "TRPO", "MaskablePPO", "RecurrentPPO"), _POLICY_OPTIMIZER),
    **dict.fromkeys(("SAC", "TQC", "CrossQ", "TD3", "DDPG"), _ACTOR_CRITIC),
    "ARS": (),
}
"""The optimizers that ``load`` of each algorithm asks for (FORMAT.md 1.2)."""

_ZIPPED: Final = frozenset({"sb3", "folder", "torch-zip", "torch-legacy", "sb2-zip", "policy-file"})
"""Formats whose tensors may have a CRC; those of a pickle have none, and may be larger than memory."""
_STATISTICS: Final = ("mean", "var", "count")
_HOLDERS: Final = ("obs_rms", "ret_rms")
"""The attributes of a VecNormalize that are statistics, or a dict of them."""


class Problem(NamedTuple):
    """One thing that ``validate`` found."""

    entry: str
    """The entry it is in."""
    loc: str
    """A JSON pointer into ``data``; empty for the whole entry."""
    kind: ProblemKind
    level: Level
    """``error``, or ``info`` for what is merely not known."""
    message: str
    """A sentence."""


def validate(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[Problem, ...]:
    """Check an archive; raise when there is an error in it.

    :param source: an archive, what :func:`sbformat.read` takes, or a ``data`` dict
    :param limits: as in :func:`sbformat.read`
    :return: what is merely worth knowing (``level="info"``)
    :raises ValidationError: with all problems, when one of them is an error
    :raises SbformatError: when it is no archive at all
    """
    problems = tuple(iter_problems(source, limits=limits))
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first = f"{errors[0].entry}{errors[0].loc and ' ' + errors[0].loc}: {errors[0].message}"
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        message = f"{first}{more}"
        raise ValidationError(message, problems=problems)
    return problems


def iter_problems(
    source: Archive | Mapping[str, Any] | SourceLike, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Problem]:
    """Yield what breaks the schema or the rules between entries, and the keys that are not known.

    Every entry is decoded and every CRC checked.

    :param source: as in :func:`validate`
    :param limits: as in :func:`sbformat.read`
    :raises SbformatError: when it is no archive at all
    """
    if isinstance(source, Mapping):
        yield from _data_problems(source, *family_of(source))
        return
    archive = source if isinstance(source, Archive) else read(source, limits=limits)
    yield from _unreadable(archive)
    if DATA_ENTRY in archive.contents:
        try:
            data = archive.data
            archive.refuse_sbx()
        except UnsupportedError as error:
            yield Problem(POLICY_ENTRY, "", "missing-entry", "error", error.message)
            return
        except SbformatError:
            return
        yield from _data_problems(data, *family(archive))
    if archive.format in ("sb3", "folder"):
        yield from _entry_problems(archive)
        yield from network_problems(archive)
    elif archive.format == "policy-file":
        yield from _saved_policy_problems(archive)
    elif archive.format in STATISTICS:
        yield from _statistics_problems(archive)
    elif archive.format == "sb2-zip" and DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", f"there is no data, and {SB2.why}")


# -- data against its schema --------------------------------------------------------------------------


def _data_problems(data: Mapping[str, Any], kind: Family, algorithm: str | None) -> Iterator[Problem]:
    schema, known = validator(kind, algorithm)
    seen: set[Problem] = set()  # definitions with common ancestors find the same
    for error in schema.iter_errors(data_entry.to_json(data)):
        problem = _schema_problem(error)
        if problem not in seen:
            seen.add(problem)
            yield problem
    for key in (*kind.needed.get(kind.root, ()), *kind.needed.get(algorithm or "", ())):
        if key not in data:
            yield Problem(DATA_ENTRY, "", "missing-key", "error", f"there is no {key}, and {kind.why}")
    unknown = 0
    for key, value in data.items():
        if isinstance(value, Serialized) and not value.is_canonical:
            message = "its base64 is not what an encoder writes; stricter decoders than Python's see other bytes"
            yield Problem(DATA_ENTRY, _pointer([key]), "base64", "error", message)
        if key not in known:
            unknown += 1
            if unknown > _UNKNOWN_SHOWN:
                continue
            message = f"{quote(key, 80)} is no key that {algorithm or 'an algorithm'} of {kind.writer} writes"
            yield Problem(DATA_ENTRY, _pointer([key]), "unknown-key", "info", message)
    if unknown > _UNKNOWN_SHOWN:
        message = f"{unknown - _UNKNOWN_SHOWN:,} more keys are not known"
        yield Problem(DATA_ENTRY, "", "unknown-key", "info", message)


def _pointer(path: list[Any]) -> str:
    return "".join("/" + escape(str(part), 80).replace("~", "~0").replace("/", "~1") for part in path)


def _schema_problem(error: Any) -> Problem:
    path = list(error.absolute_path)
    stands = shown(error.instance)
    belongs = expected(error.schema, error.validator, error.validator_value)
    kind: ProblemKind = "type" if error.validator in ("type", "anyOf", "required", "not") else "value"
    return Problem(DATA_ENTRY, _pointer(path), kind, "error", f"{stands} stands where {belongs} belongs")


# -- entries against each other -----------------------------------------------------------------------


def _unreadable(archive: Archive) -> Iterator[Problem]:
    """Decode everything, and check the CRC of every byte."""
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
    elif archive.format in ("sb3", "sb2-zip"):  # files beside an unzipped archive have no CRC, and may be anything
        for _ in archive.stream(name):
            pass


def _entry_problems(archive: Archive) -> Iterator[Problem]:
    names = archive.state_dicts
    algorithm = archive.algorithm.name if DATA_ENTRY in archive.entries else None
    if DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", "there is no data, and SB3's load needs it")
    if POLICY_ENTRY not in names:
        optimizers = [name for name in names if OPTIMIZER_WORD in name]
        message = f"{optimizers[0]} has no policy to optimize" if optimizers else "there is no policy"
        yield Problem(POLICY_ENTRY, "", "missing-entry", "error", f"{message}: {POLICY_ENTRY} is missing")
    if algorithm in ENTROPY_LEARNERS:
        yield from _entropy_problems(archive)
    expected = _expected_optimizers(algorithm, archive)
    for optimizer in expected or ():
        if optimizer + PTH_SUFFIX not in names:
            message = f"{algorithm} cannot be loaded without it; its state may be empty, but the entry must be there"
            yield Problem(optimizer + PTH_SUFFIX, "", "missing-entry", "error", message)
    for name in names:
        stem = name.removesuffix(PTH_SUFFIX)
        if expected is not None and OPTIMIZER_WORD in stem and stem not in (*expected, ENTROPY_OPTIMIZER):
            message = f"{algorithm} has no {stem}; SB3 refuses names that the algorithm does not have"
            yield Problem(name, "", "unexpected-entry", "info", message)
    for name in archive.extra:
        if name.endswith(PTH_SUFFIX):
            message = "SB3 loads every .pth of an archive, and fails on this one: it lies in a folder"
            yield Problem(name, "", "unexpected-entry", "error", message)
    if SETTINGS_ENTRY in archive.extra or ARRAYS_ENTRY in archive.extra:
        yield from _bundle_problems(archive)


def network_problems(archive: Archive) -> Iterator[Problem]:
    """Yield what the policy and its optimizers have otherwise than ``data`` asks for (FORMAT.md 6.8).

    :param archive: of SB3
    """
    from sbformat.policies import NetworkError, find_contradictions, find_optimizer_mismatches, match_network

    if DATA_ENTRY not in archive.entries or POLICY_ENTRY not in archive.state_dicts:
        return
    try:
        match = match_network(archive)
        found = [(POLICY_ENTRY, row) for row in match.mismatches]
        if not found:
            contradictions = find_contradictions(archive.state_dict(POLICY_ENTRY), match.parameters)
            found = [*((POLICY_ENTRY, row) for row in contradictions), *find_optimizer_mismatches(archive, match)]
    except NetworkError as error:
        if error.key.partition("/")[0] in archive.data:
            message = f"SB3 cannot make the network: {error.message}"
            yield Problem(DATA_ENTRY, f"/{error.key}", "mismatch", "error", message)
        return
    except UnsupportedError as error:
        yield Problem(POLICY_ENTRY, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
        return
    except SbformatError:  # that an entry cannot be read is a problem of its own
        return
    for entry, row in found[:_MISMATCHES_SHOWN]:
        yield Problem(entry, "", "mismatch", "error", row.message)
    if len(found) > _MISMATCHES_SHOWN:
        message = f"{len(found) - _MISMATCHES_SHOWN:,} more names or shapes do not fit"
        yield Problem(found[-1][0], "", "mismatch", "error", message)


def _saved_policy_problems(archive: Archive) -> Iterator[Problem]:
    """Yield that names and shapes of a file of ``policy.save()`` are not checked, where they are not."""
    from sbformat.policies import require_known_network

    try:
        require_known_network(archive)
    except (UnsupportedError, ValidationError) as error:
        yield Problem(POLICY_ENTRY, "", "unchecked", "info", f"names and shapes are not checked: {error.message}")
    except SbformatError:  # that an entry cannot be read is a problem of its own
        return


def _bundle_problems(archive: Archive) -> Iterator[Problem]:
    """The entries of a bundle are as FORMAT.md 17.5 has them."""
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
    from sbformat.policies.entropy import is_learned_coefficient

    return (*expected, ENTROPY_OPTIMIZER) if is_learned_coefficient(archive) else expected


def _entropy_problems(archive: Archive) -> Iterator[Problem]:
    """Yield what does not fit ``ent_coef`` (FORMAT.md 6.8)."""
    from sbformat.policies.entropy import find_entropy_mismatches

    try:
        for row in find_entropy_mismatches(archive):
            yield Problem(row.entry, row.loc, "mismatch", "error", row.message)
    except SbformatError:  # that an entry cannot be read is a problem of its own
        return


def _statistics_problems(archive: Archive) -> Iterator[Problem]:
    """A running mean has a mean, a variance of its shape, and a count."""
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
                yield Problem(entry, "", "missing-key", "error", f"{named} has no {name}")
        shapes = [getattr(found[name], "shape", ()) for name in ("mean", "var") if found[name] is not None]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            message = f"the mean of {named} has the shape {shapes[0]}, its variance {shapes[1]}"
            yield Problem(entry, "", "value", "error", message)
