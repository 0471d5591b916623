"""Edits of an archive that need nothing but the archive: values of ``data``, weights, optimizers, entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.algorithm import infer
from sbformat.archive import Archive, is_state_dict
from sbformat.data import Serialized
from sbformat.errors import MissingEntryError, UnsupportedError, ValidationError, quote
from sbformat.pth import emptied
from sbformat.pth.misfits import misfit
from sbformat.schema import Problem, iter_problems, known_keys
from sbformat.spec import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.pth import StateDict
    from sbformat.pth.misfits import Mismatch

_OPTIMIZER: Final = "optimizer"


class EditReport(NamedTuple):
    """What came of it."""

    archive: Archive
    """The edited archive; what was not edited is shared with the old one."""
    problems: tuple[Problem, ...]
    """Errors that :func:`sbformat.validate` finds now and did not find before: SB3 may not load it."""


def edit(
    archive: Archive,
    *,
    assign: Mapping[str, Any] | None = None,
    unset: Sequence[str] = (),
    weights: Mapping[str, Any] | None = None,
    drop_optimizer: bool = False,
    drop: Sequence[str] = (),
    unknown_keys: bool = False,
) -> EditReport:
    """Return the archive with edits, in this order.

    :param archive: the archive
    :param assign: JSON values by key of ``data``, or by JSON pointer (``/policy_kwargs/net_arch``); checked against the
        schema
    :param unset: keys, or JSON pointers, to remove
    :param weights: arrays by the names of the policy, or by address (``policy.optimizer:state/[0]/exp_avg``); names and
        shapes must be those of the state dict, which is replaced as a whole
    :param drop_optimizer: empty the state of every optimizer; the entries stay, for SB3's ``load`` needs them
    :param drop: entries to leave out
    :param unknown_keys: allow keys that no release of SB3 writes
    :raises ValidationError: for a value against the schema, and for weights that do not fit; all are in ``problems``
    :raises MissingEntryError: for a key, state dict or entry that is not there; a key that SB3 does not know, too
    """
    edited = archive
    if assign or unset:
        edited = edited.replace(data=_edited_data(archive, assign or {}, unset, unknown_keys=unknown_keys))
        _require_schema(archive.data, edited.data)
    if weights:
        edited = edited.replace(parameters=_fitted(archive, weights))
    if drop_optimizer:
        edited = edited.replace(parameters=_emptied(edited))
    if drop:
        edited = edited.without(*(_entry_name(edited, name) for name in drop))
    before = {problem for problem in iter_problems(archive) if problem.level == "error"}
    found = [problem for problem in iter_problems(edited) if problem.level == "error" and problem not in before]
    return EditReport(edited, tuple(found))


# -- data ---------------------------------------------------------------------------------------------


def _edited_data(
    archive: Archive, assign: Mapping[str, Any], unset: Sequence[str], *, unknown_keys: bool
) -> dict[str, Any]:
    data = {key: value if isinstance(value, Serialized) else _copied(value) for key, value in archive.data.items()}
    known = known_keys(infer(data, tuple(archive.entries)).name)
    for target, value in assign.items():
        path = _path(target)
        if len(path) == 1 and path[0] not in data and path[0] not in known and not unknown_keys:
            raise MissingEntryError(path[0], present=[*data, *sorted(known)], what="key of SB3")
        holder = _holder(data, path, target)
        holder[_index(holder, path[-1], target, may_append=True)] = value
    for target in unset:
        path = _path(target)
        holder = _holder(data, path, target)
        index = _index(holder, path[-1], target, may_append=False)
        if isinstance(holder, dict) and index not in holder:
            raise MissingEntryError(target, present=holder, what="key")
        del holder[index]
    return data


def _copied(value: Any) -> Any:  # noqa: ANN401 -- a JSON value
    """A copy that can be changed; ``data`` is no deeper than its limit."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _path(target: str) -> list[str]:
    """A key, or the parts of a JSON pointer (RFC 6901)."""
    if not target.startswith("/"):
        return [target]
    return [part.replace("~1", "/").replace("~0", "~") for part in target[1:].split("/")]


def _holder(data: dict[str, Any], path: list[str], target: str) -> Any:  # noqa: ANN401 -- a dict or list
    value: Any = data
    for part in path[:-1]:
        index = _index(value, part, target, may_append=False)
        if isinstance(value, dict) and index not in value:
            raise MissingEntryError(target, present=value, what="key")
        value = value[index]
    if isinstance(value, Serialized):
        message = f"{quote(target)} leads into a pickled value, which cannot be changed in part"
        raise UnsupportedError(message)
    if not isinstance(value, (dict, list)):
        message = f"{quote(target)} leads into a value that has no parts"
        raise UnsupportedError(message)
    return value


def _index(holder: Any, part: str, target: str, *, may_append: bool) -> Any:  # noqa: ANN401
    if not isinstance(holder, list):
        return part
    if part == "-" and may_append:
        holder.append(None)
        return -1
    if not (part.isascii() and part.isdigit()) or len(part) > 9 or int(part) >= len(holder):
        raise MissingEntryError(target, present=map(str, range(len(holder))), what="item")
    return int(part)


def _require_schema(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse values that break the schema and were not there before."""
    old = set(_errors(before))
    problems = [problem for problem in _errors(after) if problem not in old]
    if problems:
        message = "; ".join(f"{problem.loc or DATA_ENTRY}: {problem.message}" for problem in problems)
        raise ValidationError(message, problems=problems, entry=DATA_ENTRY)


def _errors(data: Mapping[str, Any]) -> Iterable[Problem]:
    return (problem for problem in iter_problems(data) if problem.level == "error")


# -- state dicts and entries --------------------------------------------------------------------------


def _fitted(archive: Archive, weights: Mapping[str, Any]) -> dict[str, StateDict]:
    """The state dicts that the weights belong to, with them; every mismatch of all of them in one error."""
    names = {name.removesuffix(PTH_SUFFIX): name for name in archive.entries if is_state_dict(name)}
    grouped: dict[str, dict[str, Any]] = {}
    for name, array in weights.items():
        head, separator, path = name.partition(":")
        entry, path = (head, path) if separator and head in names else (POLICY_ENTRY.removesuffix(PTH_SUFFIX), name)
        grouped.setdefault(entry, {})[path] = array
    made: dict[str, StateDict] = {}
    mismatches: list[Mismatch] = []
    for entry, arrays in grouped.items():
        if entry not in names:
            raise MissingEntryError(entry, present=names, what="state dict")
        try:
            made[entry] = archive.state_dict(names[entry]).with_arrays(arrays)
        except ValidationError as error:
            mismatches += [row._replace(loc=f"{entry}:{row.loc}") for row in error.problems]
    if mismatches:
        raise misfit(mismatches)
    return made


def _emptied(archive: Archive) -> dict[str, StateDict]:
    names = [name for name in archive.parameters if _OPTIMIZER in name]
    if not names:
        raise MissingEntryError(_OPTIMIZER, present=archive.entries, what="entry of an optimizer")
    return {name: emptied(archive.parameters[name]) for name in names}


def _entry_name(archive: Archive, name: str) -> str:
    """An entry by its name, or a state dict by SB3's."""
    return name if name in archive.entries or name + PTH_SUFFIX not in archive.entries else name + PTH_SUFFIX
