"""Edits of an archive that need nothing but the archive: values of ``data``, weights, optimizers, entries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.algorithm import infer
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, POLICY_ENTRY, PTH_SUFFIX
from sbformat.container.names import is_state_dict
from sbformat.data import Serialized
from sbformat.errors import MissingEntryError, UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import thaw
from sbformat.pth import emptied
from sbformat.pth.mismatches import Mismatch, fit_all
from sbformat.schema import Problem, iter_problems, known_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict

_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)
_OF_VALUES: Final = ("type", "value", "base64")
"""Kinds of problems that a value has, not a key that is missing."""
_MISMATCHES_SHOWN: Final = 4
_REFUSED: Final = "the weights would not fit data any more (allow_mismatch=True or --allow-mismatch makes it)"
_LOC_SHOWN: Final = 80
"""Characters of a key in the place of a problem."""


class EditReport(NamedTuple):
    """What came of it."""

    archive: Archive
    """The edited archive; what was not edited is shared with the old one."""
    problems: tuple[Problem, ...]
    """Errors that :func:`sbformat.validate` finds now and did not find before: SB3 may not load it."""


def edit(
    archive: Archive,
    *,
    assign: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    unset: Sequence[str] = (),
    weights: Mapping[str, Any] | None = None,
    drop_optimizer: bool = False,
    drop: Sequence[str] = (),
    unknown_keys: bool = False,
    allow_mismatch: bool = False,
) -> EditReport:
    """Return the archive with edits, in this order.

    :param archive: the archive
    :param assign: JSON values, or :class:`~sbformat.Serialized`, by key of ``data``, or by JSON pointer
        (``/policy_kwargs/net_arch``); checked against the schema. A mapping, or pairs, where a place may stand twice:
        ``/policy_kwargs/net_arch/-`` appends.
    :param unset: keys, or JSON pointers, to remove
    :param weights: arrays by the names of the policy, or by address (``policy.optimizer:state/[0]/exp_avg``); names and
        shapes must be those of the state dict, which is replaced as a whole
    :param drop_optimizer: empty the state of every optimizer; the entries stay, for SB3's ``load`` needs them
    :param drop: entries to leave out
    :param unknown_keys: allow keys that no release of SB3 writes
    :param allow_mismatch: allow ``data`` that the weights do not fit, such as another ``net_arch``: SB3 cannot load the
        result
    :raises ValidationError: for a value against the schema, for weights that do not fit, and for ``data`` that the
        weights do not fit any more; all are in ``problems``
    :raises MissingEntryError: for a key, state dict or entry that is not there; a key that SB3 does not know, too
    """
    archive.require_own()
    before = set(_errors(archive))
    edited = archive
    pairs = list(assign.items() if isinstance(assign, Mapping) else assign)
    if pairs or unset:
        edited = edited.replace(data=_edited_data(archive, pairs, unset, unknown_keys=unknown_keys))
        edited.data  # noqa: B018 -- what a reader's limits refuse is refused here
        _require_schema(before, edited, {_loc(_path(target)) for target, _ in pairs})
    if weights is not None:
        edited = edited.replace(parameters=_fitted(archive, weights))
    if drop_optimizer:
        edited = edited.replace(parameters=_emptied(edited))
    if drop:
        edited = edited.without(*(_entry_name(edited, name) for name in drop))
    problems = tuple(problem for problem in _errors(edited) if problem not in before)
    mismatches = [problem for problem in problems if problem.kind == "mismatch"]
    if mismatches and not allow_mismatch:
        raise _unfit(mismatches)
    return EditReport(edited, problems)


def _errors(archive: Archive) -> Iterable[Problem]:
    return (problem for problem in iter_problems(archive) if problem.level == "error")


# -- data ---------------------------------------------------------------------------------------------


def _edited_data(
    archive: Archive, assign: Iterable[tuple[str, Any]], unset: Sequence[str], *, unknown_keys: bool
) -> dict[str, Any]:
    data: dict[str, Any] = thaw(archive.data)
    known = known_keys(infer(data, tuple(archive.entries)).name)
    for target, value in assign:
        path = _path(target)
        if len(path) == 1 and path[0] not in data and path[0] not in known and not unknown_keys:
            raise MissingEntryError(path[0], present=[*data, *sorted(known)], what="key of SB3")
        holder = _holder(data, path)
        is_nested = len(path) > 1 and isinstance(value, Serialized)  # there it is a plain object
        holder[_index(holder, path, may_append=True)] = value.to_json() if is_nested else thaw(value)
    for target in unset:
        path = _path(target)
        holder = _holder(data, path)
        del holder[_index(holder, path)]
    return data


def _path(target: str) -> list[str]:
    """A key, or the parts of a JSON pointer (RFC 6901)."""
    if not target.startswith("/"):
        return [target]
    if re.search("~(?![01])", target):
        message = f"{quote(target)} is no JSON pointer: a ~ is written ~0, and a / within a key ~1"
        raise UnsupportedError(message)
    return [part.replace("~1", "/").replace("~0", "~") for part in target[1:].split("/")]


def _pointer(path: Iterable[str]) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def _loc(path: Iterable[str]) -> str:
    """The pointer as a :class:`Problem` has it."""
    return _pointer(escape(part, _LOC_SHOWN) for part in path)


def _holder(data: dict[str, Any], path: list[str]) -> dict[str, Any] | list[Any]:
    """The object or array that the last part of a path is in."""
    value: Any = data
    for at in range(1, len(path) + 1):
        where = quote(_pointer(path[:at]))
        if isinstance(value, Serialized):
            message = f"{where} leads into a pickled value, which cannot be changed in part"
            raise UnsupportedError(message)
        if not isinstance(value, (dict, list)):
            message = f"{where} leads into a value that has no parts"
            raise UnsupportedError(message)
        if at < len(path):
            value = value[_index(value, path[:at])]
    return value  # type: ignore[no-any-return]


def _index(holder: Any, path: list[str], *, may_append: bool = False) -> Any:
    """The key or index that the last part of a path is; it must be there, unless it may be added."""
    part = path[-1]
    if isinstance(holder, list):
        if part == "-" and may_append:
            holder.append(None)
            return -1
        if re.fullmatch("0|[1-9][0-9]{0,8}", part) and int(part) < len(holder):
            return int(part)
        what = "item"
    elif part in holder or may_append:
        return part
    else:
        what = "key"
    if len(path) == 1:
        raise MissingEntryError(part, present=holder, what=what)
    names = range(len(holder)) if isinstance(holder, list) else holder
    present = (_pointer([*path[:-1], str(name)]) for name in names)
    raise MissingEntryError(_pointer(path), present=present, what=what)


def _require_schema(before: set[Problem], edited: Archive, assigned: set[str]) -> None:
    """Refuse values that break the schema and were not there before; a key that is gone only becomes a problem."""
    problems = [
        problem
        for problem in _errors(edited)
        if problem.entry == DATA_ENTRY
        and problem.kind in _OF_VALUES
        and (problem.loc in assigned or problem not in before)
    ]
    if problems:
        message = "; ".join(f"{problem.loc or DATA_ENTRY}: {problem.message}" for problem in problems)
        raise ValidationError(message, problems=problems, entry=DATA_ENTRY)


def _unfit(mismatches: list[Problem]) -> ValidationError:
    """Return the error that lists what the weights have otherwise than the new ``data`` asks for."""
    listed = "; ".join(f"{row.loc.lstrip('/') or row.entry}: {row.message}" for row in mismatches[:_MISMATCHES_SHOWN])
    more = f"; and {len(mismatches) - _MISMATCHES_SHOWN} more" if len(mismatches) > _MISMATCHES_SHOWN else ""
    message = f"{_REFUSED}: {listed}{more}"
    return ValidationError(message, problems=mismatches)


# -- state dicts and entries --------------------------------------------------------------------------


def _fitted(archive: Archive, weights: Mapping[str, Any]) -> dict[str, StateDict]:
    """The state dicts that the weights belong to, with them; every mismatch of all of them in one error."""
    names = {name.removesuffix(PTH_SUFFIX): name for name in archive.entries if is_state_dict(name)}
    alone = next(iter(names)) if len(names) == 1 else None
    grouped: dict[str, dict[str, Any]] = {}
    twice: list[Mismatch] = []
    for name, array in weights.items():
        head, separator, path = name.partition(":")
        entry, path = (head, path) if separator and head in names else (alone or _POLICY, name)
        if path in grouped.setdefault(entry, {}):
            twice.append(Mismatch(f"{entry}:{path}", "unexpected", "is given twice: with its entry's name and without"))
        grouped[entry][path] = array
    grouped = grouped or {alone or _POLICY: {}}
    for entry in grouped:
        if entry not in names:
            raise MissingEntryError(entry, present=names, what="state dict")
    return fit_all(grouped, lambda entry, arrays: archive.state_dict(names[entry]).with_arrays(arrays), twice)


def _emptied(archive: Archive) -> dict[str, StateDict]:
    """The optimizers that have a state, without it; the others stay byte for byte."""
    names = [name for name in archive.parameters if OPTIMIZER_WORD in name]
    if not names:
        raise MissingEntryError(OPTIMIZER_WORD, present=archive.entries, what="entry of an optimizer")
    made = {name: emptied(archive.parameters[name]) for name in names}
    return {name: state_dict for name, state_dict in made.items() if archive.parameters[name].tree["state"]}


def _entry_name(archive: Archive, name: str) -> str:
    """An entry by its name, or a state dict by SB3's."""
    return name if name in archive.entries or name + PTH_SUFFIX not in archive.entries else name + PTH_SUFFIX
