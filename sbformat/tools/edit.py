"""``edit``: change values of ``data``, replace weights, empty optimizers, and drop entries of an archive."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.hyperparameters import infer
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, POLICY_ENTRY, PTH_SUFFIX
from sbformat.container.layout import is_state_dict
from sbformat.data import LargeValue, Serialized
from sbformat.errors import (
    MissingEntryError,
    SbformatError,
    UnsupportedError,
    ValidationError,
    quote,
    require_names,
    require_type,
)
from sbformat.immutable import Record, thaw
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pth import clear_optimizer
from sbformat.pth.compare import Mismatch, fit_all
from sbformat.reader import read
from sbformat.schema import Problem, iter_problems, known_keys
from sbformat.schema.assigned import encode_assigned, find_release
from sbformat.schema.schemas import make_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict
    from sbformat.reader import ArchiveLike

_MISMATCHES_SHOWN: Final = 4


class EditReport(Record):
    """The result of :func:`edit`."""

    archive: Archive
    """The edited archive; entries that were not edited are shared with the original."""
    problems: tuple[Problem, ...]
    """What :func:`sbformat.validate` finds in the edited archive and not in the original: errors, with which SB3 may
    fail to load it, and warnings."""


def edit(
    source: ArchiveLike,
    *,
    assign: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    unset: Sequence[str] = (),
    weights: Mapping[str, Any] | None = None,
    drop_optimizer: bool = False,
    drop: Sequence[str] = (),
    unknown_keys: bool = False,
    allow_mismatch: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> EditReport:
    """Return an edited copy of an archive; the edits are made in the order of the parameters.

    Example::

        report = sbformat.edit("ppo-cartpole.zip", assign={"gamma": 0.98}, drop_optimizer=True)
        sbformat.write(report.archive, "edited.zip")

    :param source: an archive, or what :func:`sbformat.read` takes
    :param assign: JSON values, or :class:`~sbformat.Serialized`, by key of ``data`` or by JSON pointer
        (``/policy_kwargs/net_arch``); checked against the schema. Either a mapping or pairs, where a location may occur
        twice: ``/policy_kwargs/net_arch/-`` appends. ``learning_rate``, ``clip_range`` and the other schedules may also
        be a :class:`~sbformat.LinearSchedule` or :class:`~sbformat.ConstantSchedule`, or the same as JSON:
        ``{"linear": [3e-4, 0]}``, ``{"constant": 3e-4}``. A whole float becomes an integer where SB3 needs one.
    :param unset: keys, or JSON pointers, to remove
    :param weights: arrays by the names of the policy's tensors, or by address
        (``policy.optimizer:state/[0]/exp_avg``); they replace all tensors of a state dict, whose names and shapes they
        must have
    :param drop_optimizer: empty the state of every optimizer; its entry stays, because SB3's ``load`` needs it. One
        whose options are damaged too is removed: :func:`sbformat.rebuild` makes a new one
    :param drop: names of entries to remove
    :param unknown_keys: allow keys that no release of SB3 writes
    :param allow_mismatch: allow ``data`` that the weights do not fit, such as another ``net_arch``, although SB3 cannot
        load the result
    :param limits: for reading
    :raises ValidationError: for a value that violates the schema, for weights that do not fit, and for ``data`` that
        the weights would no longer fit; ``problems`` lists all of them
    :raises MissingEntryError: for a key, state dict or entry that does not exist, and a key that SB3 does not know
    :raises UnsupportedError: for files of other formats, which are only read
    """
    unset, drop = require_names(unset, "unset"), require_names(drop, "drop")
    require_type(assign, Iterable, "assign to be a mapping or pairs")
    require_type(weights, (Mapping, type(None)), "weights to be arrays by name")
    require_names((weights or {}).keys(), "weights")
    pairs = list(assign.items() if isinstance(assign, Mapping) else assign)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"expected pairs of a key and a value in assign, got {quote(pair)}")
        require_type(pair[0], str, "keys in assign to be str")
    archive = read(source, limits=limits)
    archive.require_writable()
    before = set(_iter_problems(archive))
    edited = archive
    if pairs or unset:
        edited = edited.replace(data=_edit_data(archive, pairs, unset, unknown_keys=unknown_keys))
    if weights is not None:
        edited = edited.replace(parameters=_replace_weights(archive, weights))
    if drop_optimizer:
        edited = edited.replace(parameters=_empty_optimizers(edited))
    if drop:
        present = edited.entries
        full = (name if name in present or name + PTH_SUFFIX not in present else name + PTH_SUFFIX for name in drop)
        edited = edited.without(*full)
    problems = tuple(problem for problem in _iter_problems(edited) if problem not in before)
    mismatches = [problem for problem in problems if problem.kind == "mismatch"]
    if mismatches and not allow_mismatch:
        raise _describe_mismatches(mismatches)
    return EditReport(edited, problems)


def _describe_mismatches(problems: Sequence[Problem]) -> ValidationError:
    """Return the error for weights that would not fit, or for ``data`` of which SB3 makes no network at all."""
    shown = problems[:_MISMATCHES_SHOWN]
    listed = "; ".join(f"{row.loc.lstrip('/') or row.entry}: {row.message}" for row in shown)
    more = f"; and {len(problems) - len(shown)} more" if len(problems) > len(shown) else ""
    if any(row.entry == DATA_ENTRY for row in problems):
        return ValidationError(f"{listed}{more}", problems=problems)
    hint = "allow_mismatch=True or --allow-mismatch writes it anyway"
    return ValidationError(f"the weights would no longer fit data: {listed}{more}", problems=problems, hint=hint)


def _iter_problems(archive: Archive) -> Iterable[Problem]:
    return (problem for problem in iter_problems(archive) if problem.level != "info")


# -- data ---------------------------------------------------------------------------------------------


def _edit_data(
    archive: Archive, assign: Iterable[tuple[str, Any]], unset: Sequence[str], *, unknown_keys: bool
) -> dict[str, Any]:
    data: dict[str, Any] = thaw(archive.data)
    algorithm = infer(data, tuple(archive.entries)).name
    known = known_keys(algorithm)
    release = find_release(archive.stable_baselines3_version)
    for target, given in assign:
        path = _parse_target(target)
        value = encode_assigned(path[0], given, release) if len(path) == 1 else given
        value = make_integer(path[0], value, algorithm) if len(path) == 1 else value
        if len(path) == 1 and path[0] not in data and path[0] not in known and not unknown_keys:
            present = [*data, *sorted(known)]
            raise MissingEntryError(path[0], present=present, what="key of SB3", hint=_suggest_pointer(path[0], data))
        container = _find_container(data, path)
        is_nested = len(path) > 1 and isinstance(value, Serialized)  # SB3 reads it as a plain object there
        container[_find_index(container, path, may_append=True)] = value.to_json() if is_nested else thaw(value)
    for target in unset:
        path = _parse_target(target)
        container = _find_container(data, path)
        del container[_find_index(container, path)]
    return data


def _parse_target(target: str) -> list[str]:
    """Return the one key, or the tokens of a JSON pointer (RFC 6901)."""
    if not target.startswith("/"):
        return [target]
    if re.search("~(?![01])", target):
        raise UnsupportedError(f"{quote(target)} is not a JSON pointer: write ~0 for a ~ in a key, and ~1 for a /")
    return [part.replace("~1", "/").replace("~0", "~") for part in target[1:].split("/")]


def _render_pointer(path: Iterable[str]) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def _suggest_pointer(key: str, data: Mapping[str, Any]) -> str:
    """Return the hint for a key that would be the place of a value with a slash before it; empty for any other."""
    first, slash, _ = key.partition("/")
    return f"did you mean {quote(f'/{key}')}?" if slash and first in data else ""


def _find_container(data: dict[str, Any], path: list[str]) -> dict[str, Any] | list[Any]:
    """Return the object or array that contains the last token of a path."""
    value: Any = data
    for at in range(1, len(path) + 1):
        where = quote(_render_pointer(path[:at]))
        if isinstance(value, LargeValue):
            raise value.error
        if isinstance(value, Serialized):
            raise UnsupportedError(f"{where} points into a serialized value, which can only be replaced as a whole")
        if not isinstance(value, (dict, list)):
            raise UnsupportedError(f"{where} points into a value that is neither an object nor an array")
        if at < len(path):
            value = value[_find_index(value, path[:at])]
    return value  # type: ignore[no-any-return]


def _find_index(container: Any, path: list[str], *, may_append: bool = False) -> Any:
    """Return the last token of a path as a key or index, which must exist unless it may be added."""
    part = path[-1]
    if isinstance(container, list):
        if part == "-" and may_append:
            container.append(None)
            return -1
        if re.fullmatch("0|[1-9][0-9]{0,8}", part) and int(part) < len(container):
            return int(part)
        what = "item"
    elif part in container or may_append:
        return part
    else:
        what = "key"
    if len(path) == 1:
        raise MissingEntryError(part, present=container, what=what, hint=_suggest_pointer(part, container))
    names = range(len(container)) if isinstance(container, list) else container
    present = (_render_pointer([*path[:-1], str(name)]) for name in names)
    raise MissingEntryError(_render_pointer(path), present=present, what=what)


# -- state dicts and entries --------------------------------------------------------------------------


def _replace_weights(archive: Archive, weights: Mapping[str, Any]) -> dict[str, StateDict]:
    """Return the state dicts that the weights belong to, with the weights; one error lists all mismatches."""
    names = {name.removesuffix(PTH_SUFFIX): name for name in archive.entries if is_state_dict(name)}
    default = next(iter(names)) if len(names) == 1 else POLICY_ENTRY.removesuffix(PTH_SUFFIX)
    grouped: dict[str, dict[str, Any]] = {}
    twice: list[Mismatch] = []
    for name, array in weights.items():
        head, separator, path = name.partition(":")
        entry, path = (head, path) if separator and head in names else (default, name)
        if path in grouped.setdefault(entry, {}):
            message = "expected it once, got it twice: with and without its entry"
            twice.append(Mismatch(f"{entry}:{path}", "unexpected", message))
        grouped[entry][path] = array
    grouped = grouped or {default: {}}
    for entry in grouped:
        if entry not in names:
            raise MissingEntryError(entry, present=names, what="state dict")
    return fit_all(grouped, lambda entry, arrays: archive.state_dict(names[entry]).with_arrays(arrays), twice)


def _empty_optimizers(archive: Archive) -> dict[str, StateDict | None]:
    """Return the optimizers that have a state, without it; None for one of which nothing can be read.

    Those that have no state stay byte for byte.
    """
    names = [name for name in archive.parameters if OPTIMIZER_WORD in name]
    if not names:
        raise MissingEntryError(OPTIMIZER_WORD, present=archive.entries, what="entry of an optimizer")
    made: dict[str, StateDict | None] = {}
    for name in names:
        try:
            found = archive.parameters[name]
            cleared = clear_optimizer(found)
        except SbformatError:
            made[name] = None
            with contextlib.suppress(SbformatError):  # its options may be whole: their record has a CRC of its own
                found = archive.unchecked().parameters[name]
                made[name] = clear_optimizer(found) if found.records is not None else None
            continue
        if found.tree["state"]:
            made[name] = cleared
    return made
