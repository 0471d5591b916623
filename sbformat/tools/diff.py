"""``diff``: compare two archives, entry by entry, down to the tensor and the key of ``data``.

In: two archives, what to compare, a tolerance. Out: a :class:`DiffReport`. ``data`` is compared key by key, state dicts
tensor by tensor, everything else by its bytes, as is what cannot be decoded.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections import OrderedDict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.hyperparameters import class_reference
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, PTH_SUFFIX, SYSTEM_INFO_ENTRY, VERSION_ENTRY
from sbformat.data import LargeValue, Serialized, equal_json, has_pickle
from sbformat.errors import LimitError, MissingEntryError, SbformatError, escape, require_names, require_type
from sbformat.immutable import Record
from sbformat.known.changes import NEWEST
from sbformat.known.sb3 import START_TIME
from sbformat.known.spaces import Space
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pth import (
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    MetaTensor,
    QuantizedTensor,
    SparseTensor,
    TensorInfo,
)
from sbformat.pth.values import DTYPES
from sbformat.reader import read
from sbformat.rendering import count_noun, render_time
from sbformat.values import decode, encode
from sbformat.values.render import ValueRenderer, render_json, render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.pth import StateDict
    from sbformat.pth.arrays import Difference
    from sbformat.reader import ArchiveLike

ChangeKind: TypeAlias = Literal[
    "added", "removed", "value", "type", "dtype", "shape", "flags", "order", "structure", "bytes"
]

_DISPLAYED: Final = 1000


class Change(Record):
    """One difference between the first archive and the second.

    The numbers after ``message`` are those of tensors of the same dtype and shape whose elements differ (kind
    ``value``), and None for any other change.
    """

    entry: str
    loc: str
    """In ``data`` a JSON pointer, in a state dict the path of the tensor; empty for the whole entry."""
    kind: ChangeKind
    message: str
    """What changed, in words."""
    max_abs_difference: float | None = None
    """The largest difference of two elements, infinite if it is more than a float can represent; None where elements
    differ by NaN."""
    l2_difference: float | None = None
    """The Euclidean norm of the difference of the two tensors, infinite if it is more than a float can represent; None
    where elements differ by NaN."""
    relative_change: float | None = None
    """``l2_difference`` divided by the norm of the first tensor, infinite if that is zero or the difference is
    infinite; None if one is not a number."""
    differing: int | None = None
    """Number of elements that differ; with a tolerance, by more than that."""
    numel: int | None = None
    """Number of elements of the tensor."""
    old: Any = None
    """The value in the first archive as JSON: numbers, texts, lists and dicts as they are, and an object with its
    ``kind`` for what JSON does not have (``{"kind": "tensor", "dtype": "float32", "shape": [4]}``). None where the
    first archive has no such value (``added``), and where entries or orders differ rather than values."""
    new: Any = None
    """The value in the second archive, likewise; None for ``removed``."""


class StateDictComparison(Record):
    """A state dict that both archives contain."""

    name: str
    equal: int
    """Number of tensors that are equal: bit for bit, and in dtype, shape and flags."""
    different: int
    """Number of tensors that differ, or that only one archive contains."""
    max_abs_difference: float | None
    """The largest difference of two elements of any of its tensors; None where elements of one differ by NaN, and where
    none differ."""
    l2_difference: float | None = None
    """The Euclidean norm of the differences of all its tensors together; None like ``max_abs_difference``."""
    close: int = 0
    """Number of tensors that differ, but by no more than the tolerance."""


class UnreadableEntry(Record):
    """An entry that one of the two archives cannot decode: a wrong CRC, say. It was compared by its bytes."""

    entry: str
    side: Literal["first", "second"]
    outcome: str
    """As in :attr:`sbformat.SbformatError.outcome`."""
    message: str


class DiffReport(Record):
    """The differences of two archives.

    ``changes`` is empty exactly when they are equal (FORMAT.md 9), or with ``only`` and tolerances, when what was
    compared is equal within these.
    """

    changes: tuple[Change, ...]
    state_dicts: tuple[StateDictComparison, ...]
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Entries that cannot be decoded. Two of equal bytes are equal, also if the CRC of one is wrong."""
    close: int = 0
    """Number of tensors, numbers and values of ``data`` that differ, but by no more than the tolerance: they are not
    among the changes."""

    def __repr__(self) -> str:
        entries = ", ".join(dict.fromkeys(escape(change.entry, 60) for change in self.changes[:_DISPLAYED]))
        changes = count_noun(len(self.changes), "change") + (f" in {entries}" if entries else "")
        unreadable = count_noun(len(self.unreadable), "unreadable entry", "unreadable entries")
        return f"<DiffReport: {escape(changes)}, {unreadable}>"

    def _repr_html_(self) -> str:
        """Return the changes for notebooks."""
        from sbformat.notebook import render_output, render_paragraph, render_table

        rows = [(change.entry, change.loc, change.kind, change.message) for change in self.changes[:_DISPLAYED]]
        changes = render_table("", ("entry", "where", "kind", "what changed"), rows, count=len(self.changes))
        broken = [(row.entry, row.side, row.outcome, row.message) for row in self.unreadable[:_DISPLAYED]]
        header = ("entry", "archive", "outcome", "why")
        unreadable = render_table("cannot be decoded", header, broken, count=len(self.unreadable))
        title = f"DiffReport: {count_noun(len(self.changes), 'change')}"
        return render_output(title, [changes or render_paragraph("What was compared is equal."), unreadable])


# -- what is compared, and how closely -----------------------------------------------------------------


class Tolerance(Record):
    """``|new - old| <= atol + rtol * |old|``; two NaN are close, and an infinity only to itself."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether nothing but equal numbers is close."""
        return not self.rtol and not self.atol

    def is_close(self, old: float, new: float) -> bool:
        """Return whether two numbers count as equal.

        >>> Tolerance(rtol=0.1).is_close(10.0, 11.0)
        True
        """
        try:
            one, other = float(old), float(new)
        except OverflowError:  # an integer of more than 300 digits
            return old == new
        if not (math.isfinite(one) and math.isfinite(other)):
            return one == other or (math.isnan(one) and math.isnan(other))
        return abs(other - one) <= self.atol + self.rtol * abs(one)

    def is_close_json(self, old: Any, new: Any) -> bool:
        """Return whether two values of ``data`` differ in nothing but numbers that are close.

        Numbers of another type are not close: SB3 may treat ``1`` and ``1.0`` differently.
        """
        todo = [(old, new)]
        while todo:
            one, other = todo.pop()
            if type(one) is not type(other):
                return False
            if isinstance(one, dict):
                if list(one) != list(other):
                    return False
                todo += zip(one.values(), other.values())
            elif isinstance(one, list):
                if len(one) != len(other):
                    return False
                todo += zip(one, other)
            elif type(one) in (int, float):
                if not self.is_close(one, other):
                    return False
            elif one != other:
                return False
        return True


def select_entries(only: Iterable[str] | str | None, old: Archive, new: Archive) -> tuple[str, ...]:
    """Return the names of the entries to compare: those that only the first has, then those of the second.

    :param only: groups, or entries with or without ``.pth``; None for all
    """
    names = (*(name for name in old.contents if name not in new.contents), *new.contents)
    if only is None:
        return names
    state_dicts = {*old.state_dicts, *new.state_dicts}
    optimizers = {name for name in state_dicts if OPTIMIZER_WORD in name}
    groups = {
        "weights": state_dicts - optimizers,
        "optimizers": optimizers,
        "data": {DATA_ENTRY},
        "system": {VERSION_ENTRY, SYSTEM_INFO_ENTRY},
    }
    members = {group: found.intersection(names) for group, found in groups.items()}
    for name in names:
        members.setdefault(name, {name})
        members.setdefault(name.removesuffix(PTH_SUFFIX), {name})
    selected: set[str] = set()
    parts = (only,) if isinstance(only, str) else require_names(only, "only")
    if not parts:
        raise ValueError("expected at least one name in only; None compares everything")
    for part in parts:
        if not members.get(part):
            present = [name for name, found in members.items() if found]
            raise MissingEntryError(part, present=present, what="part of either archive")
        selected.update(members[part])
    return tuple(name for name in names if name in selected)


# -- entries ------------------------------------------------------------------------------------------

_CHARACTERS_PER_ROW: Final = 256  # characters of a location that count as one more reported row


def diff(
    old: ArchiveLike,
    new: ArchiveLike,
    *,
    only: Iterable[str] | str | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Callable[[int], None] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> DiffReport:
    """Compare two archives: hyperparameters by value, tensors bit for bit, everything else by its bytes.

    Entries that cannot be decoded are compared by their bytes, and listed in ``unreadable``. ::

        for change in sbformat.diff("before.zip", "after.zip", only=["weights"], rtol=1e-5).changes:
            print(change.entry, change.loc, change.message, change.relative_change)

    :param old: the first archive, or what :func:`sbformat.read` takes
    :param new: the second one
    :param only: what to compare: ``weights`` (the state dicts but those of optimizers), ``optimizers``, ``data``,
        ``system`` (the version and the system info), and names of entries; None compares everything
    :param rtol: numbers count as equal where ``|new - old| <= atol + rtol * |old|``: elements of tensors, numbers of
        ``data``, and numbers of state dicts, such as a learning rate
    :param atol: the absolute part of that tolerance; with both 0, tensors are compared bit for bit
    :param progress: called with the size of each entry of the second archive when it was compared
    :param limits: for reading
    :raises OSError: when a path cannot be opened
    :raises MissingEntryError: when neither archive has what ``only`` names
    :raises ValueError: for a tolerance that is negative or not finite
    :raises LimitError: for more changes than ``reported_values`` allows
    :raises SbformatError: when one of them is not an archive
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        require_type(value, (int, float), f"{name} to be a number")
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"expected {name} to be a finite number of 0 or more, got {value}")
    tolerance = Tolerance(float(rtol), float(atol))
    old, new = (read(source, limits=limits, on_unknown="inert") for source in (old, new))
    comparison = _Comparison(old, new, tolerance)
    budget = Budget(old.limits)
    changes: list[Change] = []
    for name in select_entries(only, old, new):
        for change in comparison.compare_entry(name):
            budget.spend("reported_values", 1 + len(change.loc) // _CHARACTERS_PER_ROW)
            changes.append(change)
        if progress is not None and name in new.entries:
            progress(new.entries[name].size)
    return DiffReport(tuple(changes), tuple(comparison.state_dicts), tuple(comparison.unreadable), comparison.close)


class _Comparison:
    """Two archives, and what is reported of them besides changes."""

    def __init__(self, old: Archive, new: Archive, tolerance: Tolerance) -> None:
        self._old = old
        self._new = new
        self._tolerance = tolerance
        self._renderer = ValueRenderer()
        self.state_dicts: list[StateDictComparison] = []
        self.unreadable: list[UnreadableEntry] = []
        self.close = 0

    def compare_entry(self, name: str) -> Iterator[Change]:
        """Yield the changes of an entry."""
        old, new = self._old, self._new
        if name not in new.contents:
            yield Change(name, "", "removed", "the second archive does not contain this entry")
            return
        if name not in old.contents:
            yield Change(name, "", "added", "the first archive does not contain this entry")
            return
        try:
            if name == DATA_ENTRY:
                yield from self._compare_data(old.data, new.data)
            elif name in old.state_dicts and name in new.state_dicts:
                comparer = _StateDictsComparer(name, old.state_dict(name), new.state_dict(name), self._tolerance)
                yield from comparer.changes()
                self.close += len(comparer.close)
                with contextlib.suppress(LimitError):  # too many values to count, none of which differs
                    self.state_dicts.append(comparer.summarize())
            else:
                left, right = old.raw(name), new.raw(name)
                if left != right and name in (VERSION_ENTRY, SYSTEM_INFO_ENTRY):
                    yield from _compare_text(name, old, new)
                elif left != right:
                    yield Change(name, "", "bytes", f"{len(left):,} bytes became {len(right):,} other bytes")
                self._find_unreadable(name)
        except SbformatError as error:
            self._find_unreadable(name)
            if old.raw(name) != new.raw(name):
                yield Change(name, "", "bytes", f"the bytes differ, and at least one side cannot be decoded: {error}")

    def _find_unreadable(self, name: str) -> None:
        """List an entry for each side that cannot decode it."""
        for archive in (self._old, self._new):
            try:
                _decode_all(name, archive)
            except SbformatError as error:
                side: Literal["first", "second"] = "first" if archive is self._old else "second"
                self.unreadable.append(UnreadableEntry(name, side, error.outcome, str(error)))

    def _compare_data(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
        """Compare objects key by key, their order included; a list is compared as a whole."""
        todo = [iter([("", old, new)])]
        while todo:
            for loc, left, right in todo[-1]:
                if isinstance(left, dict) and isinstance(right, dict):
                    if [key for key in left if key in right] != [key for key in right if key in left]:
                        yield Change(DATA_ENTRY, loc, "order", "the order of the keys differs")
                    todo.append(self._unequal_members(loc, left, right))
                    break
                first, second = (_describe_json(value, loc, self._renderer) for value in (left, right))
                kind: ChangeKind = "value" if type(left) is type(right) else "type"
                is_change = first is not None and second is not None
                message = _describe_json_change(left, right, first, second) if is_change else ""  # type: ignore[arg-type]
                yield _make_change(DATA_ENTRY, loc, first, second, kind, message)
            else:
                todo.pop()

    def _unequal_members(
        self, loc: str, left: Mapping[str, Any], right: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield the members of two objects that are not equal, each with its location."""
        for key in {**left, **right}:
            one, other = left.get(key, _ABSENT), right.get(key, _ABSENT)
            if one is not _ABSENT and other is not _ABSENT:
                if equal_json(one, other):
                    continue
                if not self._tolerance.is_exact and self._tolerance.is_close_json(one, other):
                    self.close += 1
                    continue
            yield f"{loc}/{_escape_key(key)}", one, other


def _decode_all(name: str, archive: Archive) -> None:
    """Decode an entry with all its tensors."""
    if name in archive.state_dicts:
        state_dict = archive.state_dict(name)
        budget = state_dict.new_budget()
        from sbformat.pth.arrays import storage_array

        for storage in state_dict.storages():
            storage_array(storage, budget)
    elif name == DATA_ENTRY:
        _ = archive.data
    else:
        archive.stored_entries.verify(name)


# -- values -------------------------------------------------------------------------------------------

_SHOWN: Final = 60
_MORE: Final = "\u2026"
_NEAR: Final = 20  # characters of a text before the first that differs
_TEXT: Final = 1000  # characters of a version or a field of the system info
_NAMED: Final = 3
_PICKLED_IN: Final = ", pickled in "
_ABSENT: Final = object()


class _Description(Record):
    """A value of one side."""

    text: str
    value: Any
    """The value as JSON, without the bytes of what is serialized."""


def _make_change(
    entry: str, loc: str, old: _Description | None, new: _Description | None, kind: ChangeKind, message: str = ""
) -> Change:
    """Return the change of a value; None for a side that has none.

    :param message: by default that the one became the other
    """
    if old is None:
        return Change(entry, loc, "added", f"is now {new.text if new else ''}", new=new.value if new else None)
    if new is None:
        return Change(entry, loc, "removed", f"was {old.text}", old=old.value)
    message = message or _describe_change(old, new, old.value, new.value)
    return Change(entry, loc, kind, message, old=old.value, new=new.value)


def _describe_change(old: _Description, new: _Description, left: Any, right: Any) -> str:
    """Describe two values that differ; those that read the same, by the first place where their JSON differs."""
    if old.text != new.text:
        return f"{old.text} became {new.text}"
    return _describe_place(left, right, old.text) or f"{old.text} became a different one"


def _describe_place(left: Any, right: Any, text: str) -> str:
    """Describe the first place where two values of JSON differ; empty if they are equal.

    :param text: of the values, which is before a place inside them
    """
    loc = ""
    while type(left) is type(right) and isinstance(left, (dict, list)):
        items: Iterable[tuple[Any, Any, Any]]
        if isinstance(left, dict):
            items = ((key, left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in {**left, **right})
        else:
            items = ((at, *pair) for at, pair in enumerate(zip_longest(left, right, fillvalue=_ABSENT)))
        key, left, right = next((item for item in items if not equal_json(*item[1:])), ("", None, None))
        loc = f"{loc}/{_escape_key(str(key))}"
    if equal_json(left, right):
        return ""
    if isinstance(left, str) and isinstance(right, str) and max(len(left), len(right)) > _SHOWN:
        at = next((at for at, pair in enumerate(zip(left, right)) if pair[0] != pair[1]), min(len(left), len(right)))
        start = max(at - _NEAR, 0)
        left, right = (f"{_MORE * bool(start)}{side[start:]}" for side in (left, right))
    one, other = (
        "" if side is _ABSENT else escape(json.dumps(side, ensure_ascii=False), _SHOWN) for side in (left, right)
    )
    change = f"is now {other}" if not one else f"was {one}" if not other else f"{one} became {other}"
    return f"{text}, at {escape(loc)}: {change}" if loc else change


def _escape_key(key: str) -> str:
    """Return a key as a JSON pointer contains it."""
    return key.replace("~", "~0").replace("/", "~1")


def _describe_json_change(left: object, right: object, first: _Description, second: _Description) -> str:
    """Describe two values of ``data`` that differ; those that read the same, by where they differ."""
    old, new = first.text, second.text
    if not has_pickle(left) or not has_pickle(right):
        values = (first.value, second.value) if isinstance(left, Serialized) else (left, right)
        return _describe_change(first, second, *values)
    if left.pickle != right.pickle and first.value == second.value and _is_same_value(left, right):
        sizes = f"{len(left.pickle):,} and {len(right.pickle):,} bytes"
        return f"{old.rpartition(_PICKLED_IN)[0] or old}: same value, pickled differently ({sizes})"
    shown = old.rpartition(_PICKLED_IN)[0] or old
    place = (
        _describe_place(first.value, second.value, shown) if shown == (new.rpartition(_PICKLED_IN)[0] or new) else ""
    )
    if old != new:
        return _describe_hidden_change(left, right, old, new) or place or f"{old} became {new}"
    if left.pickle != right.pickle:
        return place or f"{old}: other bytes in the pickle"
    names = [repr(escape(key)) for key in {**left.hints, **right.hints} if left.hints.get(key) != right.hints.get(key)]
    names += ["':type:'"] if left.type != right.type else []
    if not names:
        return f"{old}: same pickle, other text of base64"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{old}: same pickle, other description ({', '.join(names[:_NAMED])}{more})"


def _describe_hidden_change(left: Serialized, right: Serialized, old: str, new: str) -> str:
    """Describe two spaces whose texts are equal but for the size; empty for any other values."""
    (shown, size, old_size), (other, _, new_size) = (text.rpartition(_PICKLED_IN) for text in (old, new))
    if not size or shown != other:
        return ""
    try:
        one, two = decode(left), decode(right)
    except SbformatError:
        return ""
    if not isinstance(one, Space) or not isinstance(two, Space):
        return ""
    if one.library != two.library:
        sides = ((one.library, old_size), (two.library, new_size))
        return " became ".join(f"{shown} of {library}{_PICKLED_IN}{nbytes}" for library, nbytes in sides)
    sizes = f"{old_size.removesuffix(' bytes')} and {new_size}"
    return f"{shown}: its random generator differs ({sizes})" if one.random != two.random else ""


def _is_same_value(left: Serialized, right: Serialized) -> bool:
    """Return whether two pickles mean the same: written again, they are the same bytes."""
    try:
        values = decode(left), decode(right)
        one, other = (encode(value, NEWEST) for value in values)
    except SbformatError:
        return False
    libraries = {getattr(value, "library", None) for value in values}  # spaces of gym are written as gymnasium's
    return one == other and len(libraries) == 1


def _describe_json(value: object, loc: str, renderer: ValueRenderer) -> _Description | None:
    """Return a value of ``data``; None where there is none."""
    if value is _ABSENT:
        return None
    if not isinstance(value, Serialized):
        time = render_time(value) if loc == f"/{START_TIME}" else None
        return _Description(time or escape(json.dumps(value), _SHOWN), renderer.render(value))
    if isinstance(value, LargeValue):
        return _Description(f"a large value of {value.nbytes:,} bytes", {"kind": "large", "bytes": value.nbytes})
    size = f"{value.nbytes:,} bytes"
    try:
        decoded = decode(value)
    except SbformatError:
        return _Description(f"a broken pickle of {size}", {"kind": "broken pickle", "bytes": value.nbytes})
    reference = class_reference(value)
    text = (
        f"{render_line(decoded, loc[1:])}{_PICKLED_IN}{size}" if reference is None else f"the class {escape(reference)}"
    )
    return _Description(text, renderer.render(decoded, loc[1:]))


def _compare_text(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    """Yield the changes of the version or the system info, whose bytes differ."""
    left: Mapping[str, str] = {}
    right: Mapping[str, str] = {}
    if name == VERSION_ENTRY:
        left, right = ({"": str(archive.stable_baselines3_version)} for archive in (old, new))
    elif old.system_info and new.system_info:
        left, right = old.system_info.fields, new.system_info.fields
    differing = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    for key in differing:
        one, other = (
            None if key not in fields else _Description(escape(fields[key]), escape(fields[key], _TEXT))
            for fields in (left, right)
        )
        message = f"{one.text} became {other.text}" if one and other else ""
        yield _make_change(
            name, f"/{_escape_key(key)}" if key or name != VERSION_ENTRY else "", one, other, "value", message
        )
    if not differing:
        yield Change(name, "", "bytes", "white space differs, or lines that are not fields do")


# -- state dicts --------------------------------------------------------------------------------------

_FLAGS: Final = ("requires_grad", "is_parameter")
_ITEMS: Final = 16  # elements of a tensor that are listed; a larger one is described by its dtype and shape


class _StateDictsComparer:
    """The comparison of two state dicts: its changes, and afterwards its summary."""

    def __init__(self, name: str, old: StateDict, new: StateDict, tolerance: Tolerance) -> None:
        self._name = name
        self._old = old
        self._new = new
        self._tolerance = tolerance
        self._budgets = old.new_budget(), new.new_budget()
        self._close: set[str] = set()
        self._rows: list[Change] = []

    def changes(self) -> Iterator[Change]:
        """Yield the changes; none exactly when the state dicts are equal within the tolerance."""
        if self._old is self._new or self._old == self._new:
            return
        left, right = ({leaf.path: leaf.value for leaf in side.leaves()} for side in (self._old, self._new))
        for path in {**left, **right}:
            for change in self._compare_leaves(path, left.get(path, _ABSENT), right.get(path, _ABSENT)):
                self._rows.append(change)
                yield change
        if [path for path in left if path in right] != [path for path in right if path in left]:
            yield Change(self._name, "", "order", "the order of the tensors and values differs")
        elif not self._rows and not (
            self._close and self._equal(self._old.tree, self._new.tree, compares_numbers=False)
        ):
            message = "the containers differ: another type of dict or list, or another _metadata"
            yield Change(self._name, "", "structure", message)

    def _equal(self, left: Any, right: Any, *, compares_numbers: bool = True) -> bool:
        from sbformat.pth.compare import equal

        return equal(left, right, *self._budgets, compares_numbers=compares_numbers)

    def _compare_leaves(self, path: str, left: Any, right: Any) -> Iterator[Change]:
        is_in_both = left is not _ABSENT and right is not _ABSENT
        if is_in_both and self._equal(left, right):
            return
        if is_in_both and type(left) is type(right) and isinstance(left, TensorInfo):
            yield from self._compare_tensors(path, left, right)
        elif (
            is_in_both
            and type(left) is float
            and not self._tolerance.is_exact
            and self._tolerance.is_close(left, right)
        ):
            self._close.add(path)
        else:
            old, new = (
                None if value is _ABSENT else _Description(_describe_leaf(value), _render_leaf(value))
                for value in (left, right)
            )
            yield _make_change(self._name, path, old, new, "value" if type(left) is type(right) else "type")

    def _compare_tensors(self, path: str, left: TensorInfo, right: TensorInfo) -> Iterator[Change]:
        """Yield everything in which two tensors that are not equal differ."""
        from sbformat.pth.arrays import difference

        change = Change(self._name, path, "flags", "", old=_render_leaf(left), new=_render_leaf(right))
        if left.shape != right.shape:
            shapes = f"{_render_shape(left.shape)} became {_render_shape(right.shape)}"
            yield change._replace(kind="shape", message=shapes)
        if left.dtype != right.dtype:
            yield change._replace(kind="dtype", message=f"{left.dtype} became {right.dtype}")
        differing = 0
        if left.shape == right.shape and left.dtype == right.dtype:
            found = difference(left, right, *self._budgets, rtol=self._tolerance.rtol, atol=self._tolerance.atol)
            differing = found.differing
            if differing and not (found.beyond or self._tolerance.is_exact):
                self._close.add(path)
            elif differing:
                yield change._replace(
                    kind="value",
                    message=self._describe_difference(found, left.numel),
                    old={**change.old, **_render_items(left, self._budgets[0])},
                    new={**change.new, **_render_items(right, self._budgets[1])},
                    max_abs_difference=found.largest,
                    l2_difference=found.l2,
                    relative_change=found.relative_change(),
                    differing=found.beyond,
                    numel=found.numel,
                )
        flags = [
            f"{flag} {getattr(left, flag)} became {getattr(right, flag)}"
            for flag in _FLAGS
            if getattr(left, flag) != getattr(right, flag)
        ]
        if flags:
            yield change._replace(message=", ".join(flags))
        elif (not differing or path in self._close) and not self._equal(left.state, right.state):
            yield change._replace(message="the attributes differ")

    def _describe_difference(self, found: Difference, numel: int) -> str:
        if found.largest is None:
            distance = "some of them by NaN"
        elif math.isinf(found.largest):
            distance = f"some of them by more than {sys.float_info.max:.6g}"
        else:
            distance = f"by at most {found.largest:.6g}"
        if self._tolerance.is_exact:
            return f"{found.differing:,} of {numel:,} elements differ, {distance}"
        return f"{found.beyond:,} of {numel:,} elements differ by more than the tolerance, {distance}"

    @property
    def close(self) -> set[str]:
        """The tensors and numbers that differ by no more than the tolerance, after the changes."""
        return self._close - {row.loc for row in self._rows}

    def summarize(self) -> StateDictComparison:
        """Return the numbers of tensors, after :meth:`changes` is at its end."""
        paths = {**self._old.tensors(), **self._new.tensors()}
        touched = {row.loc for row in self._rows} & set(paths)
        close = self.close & set(paths)
        numbers = [row for row in self._rows if row.differing]
        largest = [row.max_abs_difference for row in numbers if row.max_abs_difference is not None]
        norms = [row.l2_difference for row in numbers if row.l2_difference is not None]
        is_known = len(largest) == len(norms) == len(numbers)  # NaN is not less than any difference
        return StateDictComparison(
            self._name,
            len(paths) - len(touched) - len(close),
            len(touched),
            max(largest, default=None) if is_known else None,
            math.hypot(*norms) if norms and is_known else None,
            len(close),
        )


def _render_leaf(value: Any) -> Any:
    """Return a value of a state dict as JSON: a tensor by its dtype, shape and flags."""
    if isinstance(value, TensorInfo):
        flags = {flag: getattr(value, flag) for flag in _FLAGS}
        return {"kind": "tensor", "dtype": value.dtype, "shape": list(value.shape), **flags}
    if value is None or isinstance(value, (bool, int, float, str)) or value in ({}, [], ()):
        return render_json(value)
    return {"kind": type(value).__name__, "text": _describe_leaf(value)}


def _render_items(info: TensorInfo, budget: Budget) -> dict[str, Any]:
    """Return the elements of a tensor of few numbers."""
    from sbformat.pth.arrays import to_array

    if info.numel > _ITEMS or not DTYPES[info.dtype].is_in_numpy:
        return {}
    array = to_array(info, budget)
    return {"items": array.ravel().tolist()} if array.dtype.kind in "biuf" else {}


def _render_shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _describe_leaf(value: Any) -> str:
    """Describe a value of a state dict in a few words."""
    if isinstance(value, TensorInfo):
        return f"a {'parameter' if value.is_parameter else 'tensor'} {value.dtype} {_render_shape(value.shape)}"
    if isinstance(value, (TensorInfo, SparseTensor, QuantizedTensor, MetaTensor)):
        shape = (value.int_repr if isinstance(value, QuantizedTensor) else value).shape
        return f"a {type(value).__name__} {_render_shape(shape)}"
    if isinstance(value, (str, int, float, complex)) or value is None:
        if isinstance(value, int) and value.bit_length() > _SHOWN:
            return f"an integer of {value.bit_length()} bits"
        return escape(repr(value[: _SHOWN + 1] if isinstance(value, str) else value), _SHOWN)
    if isinstance(value, (DTypeName, Layout, MemoryFormat)):
        return f"torch.{escape(value.name, _SHOWN)}"
    if isinstance(value, Device):
        return f"the device {escape(str(value.type), _SHOWN)}{'' if value.index is None else f':{value.index}'}"
    if not hasattr(value, "__len__"):
        return escape(repr(value), _SHOWN)
    article = "an" if isinstance(value, OrderedDict) else "a"
    return f"{article} {type(value).__name__} of {len(value)}"
