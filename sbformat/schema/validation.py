"""``validate`` and ``iter_problems``: the entries, the JSON Schemas of ``data``, and the rules between entries.

jsonschema is imported when the first ``data`` is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sbformat.archive.kinds import SB3_ARCHIVES, STATISTICS
from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, ValidationError
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.schema.check_data import check_data
from sbformat.schema.check_entries import check_entries, check_policy_file, check_readable, check_statistics
from sbformat.schema.check_network import check_network, check_sbx_network
from sbformat.schema.problem import Problem
from sbformat.schema.schemas import SB2, choose_schema, choose_schema_of_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike


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
        message = f"{first}{more}"
        raise ValidationError(message, problems=problems)
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
        yield from check_network(archive)
    elif archive.format == "sbx":
        yield from check_sbx_network(archive)
    elif archive.format == "policy-file":
        yield from check_policy_file(archive)
    elif archive.format in STATISTICS:
        yield from check_statistics(archive)
    elif archive.format == "sb2-zip" and DATA_ENTRY not in archive.entries:
        yield Problem(DATA_ENTRY, "", "missing-entry", "error", f"data is missing; {SB2.reason}")
