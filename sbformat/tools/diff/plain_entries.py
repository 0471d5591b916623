"""Compare ``data``, the version and the system info of two archives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.hyperparameters import class_reference
from sbformat.constants import DATA_ENTRY, VERSION_ENTRY
from sbformat.data import Serialized, equal_json
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record
from sbformat.known.changes import NEWEST
from sbformat.tools.diff.report import Change
from sbformat.values import decode, encode
from sbformat.values.render import ValueRenderer, render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.tools.diff.report import ChangeKind
    from sbformat.tools.diff.tolerance import Tolerance

_SHOWN: Final = 60
_TEXT: Final = 1000
"""Characters of a version or a field of the system info."""
_NAMED: Final = 3
"""Parts of a description that are named."""
_ABSENT: Final = object()


def describe_change(left: str, right: str) -> str:
    """Return what happened to a value, in words."""
    return f"{left} became {right}" if left != right else f"{left} became a different one"


def compare_data(
    old: Mapping[str, Any], new: Mapping[str, Any], tolerance: Tolerance, *, on_close: Callable[[], None] = lambda: None
) -> Iterator[Change]:
    """Compare objects key by key, their order included; a list is compared as a whole.

    :param on_close: called for each member that differs by no more than the tolerance
    """
    renderer = ValueRenderer()
    todo = [iter([("", old, new)])]
    while todo:
        for loc, left, right in todo[-1]:
            if isinstance(left, dict) and isinstance(right, dict):
                if [key for key in left if key in right] != [key for key in right if key in left]:
                    yield Change(DATA_ENTRY, loc, "order", "the order of the keys differs")
                todo.append(_unequal_members(loc, left, right, tolerance, on_close))
                break
            yield _compare_values(loc, left, right, renderer)
        else:
            todo.pop()


def _unequal_members(
    loc: str, left: Mapping[str, Any], right: Mapping[str, Any], tolerance: Tolerance, on_close: Callable[[], None]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the members of two objects that are not equal, each with its location."""
    for key in {**left, **right}:
        one, other = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if one is not _ABSENT and other is not _ABSENT:
            if equal_json(one, other):
                continue
            if not tolerance.is_exact and tolerance.is_close_json(one, other):
                on_close()
                continue
        yield f"{loc}/{_escape_key(key)}", one, other


def _compare_values(loc: str, left: object, right: object, renderer: ValueRenderer) -> Change:
    """Return the change of a value of ``data`` that was added or removed, or differs."""
    if left is _ABSENT:
        added = _describe_json(right, loc, renderer)
        return Change(DATA_ENTRY, loc, "added", f"is now {added.text}", new=added.value)
    if right is _ABSENT:
        removed = _describe_json(left, loc, renderer)
        return Change(DATA_ENTRY, loc, "removed", f"was {removed.text}", old=removed.value)
    old, new = _describe_json(left, loc, renderer), _describe_json(right, loc, renderer)
    kind: ChangeKind = "value" if type(left) is type(right) else "type"
    message = _describe_json_change(left, right, old, new)
    return Change(DATA_ENTRY, loc, kind, message, old=old.value, new=new.value)


def _escape_key(key: str) -> str:
    """Return a key as a JSON pointer contains it."""
    return key.replace("~", "~0").replace("/", "~1")


def _describe_json_change(left: object, right: object, first: _Description, second: _Description) -> str:
    """Describe two values of ``data`` that differ; those that read the same, by where they differ."""
    old, new = first.text, second.text
    if not isinstance(left, Serialized) or not isinstance(right, Serialized):
        return describe_change(old, new)
    if left.pickle != right.pickle and first.value == second.value and _is_same_value(left, right):
        sizes = f"{len(left.pickle):,} and {len(right.pickle):,} bytes"
        return f"{old.rpartition(', pickled in ')[0] or old}: same value, pickled differently ({sizes})"
    if old != new:
        return describe_change(old, new)
    if left.pickle != right.pickle:
        return f"{old}: other bytes in the pickle"
    names = [repr(escape(key)) for key in {**left.hints, **right.hints} if left.hints.get(key) != right.hints.get(key)]
    names += ["':type:'"] if left.type != right.type else []
    if not names:
        return f"{old}: same pickle, other text of base64"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{old}: same pickle, other description ({', '.join(names[:_NAMED])}{more})"


def _is_same_value(left: Serialized, right: Serialized) -> bool:
    """Return whether two pickles mean the same: written again, they are the same bytes."""
    try:
        values = decode(left), decode(right)
        one, other = (encode(value, NEWEST) for value in values)
    except SbformatError:
        return False
    libraries = {getattr(value, "library", None) for value in values}  # spaces of gym are written as gymnasium's
    return one == other and len(libraries) == 1


class _Description(Record):
    """A value of ``data``, without the bytes of a serialized value."""

    text: str
    """A few words."""
    value: Any
    """The value as JSON."""


def _describe_json(value: object, loc: str, renderer: ValueRenderer) -> _Description:
    if not isinstance(value, Serialized):
        return _Description(escape(json.dumps(value), _SHOWN), renderer.render(value))
    size = f"{len(value.pickle):,} bytes"
    try:
        decoded = decode(value)
    except SbformatError:
        return _Description(f"a broken pickle of {size}", {"kind": "broken pickle", "bytes": len(value.pickle)})
    reference = class_reference(value)
    text = (
        f"{render_line(decoded, loc[1:])}, pickled in {size}" if reference is None else f"the class {escape(reference)}"
    )
    return _Description(text, renderer.render(decoded, loc[1:]))


def compare_text(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    """Yield the changes of the version or the system info, whose bytes differ."""
    found = False
    if name == VERSION_ENTRY:
        versions = str(old.stable_baselines3_version), str(new.stable_baselines3_version)
        if versions[0] != versions[1]:
            found = True
            message = f"{escape(versions[0])} became {escape(versions[1])}"
            yield Change(name, "", "value", message, old=_shorten(versions[0]), new=_shorten(versions[1]))
    elif old.system_info and new.system_info:
        left, right = old.system_info.fields, new.system_info.fields
        for key in {**left, **right}:
            if left.get(key) != right.get(key):
                found = True
                yield _describe_field_change(name, key, left.get(key), right.get(key))
    if not found:
        yield Change(name, "", "bytes", "white space differs, or lines that are not fields do")


def _describe_field_change(name: str, key: str, left: str | None, right: str | None) -> Change:
    loc = f"/{_escape_key(key)}"
    if left is None:
        return Change(name, loc, "added", f"is now {escape(right or '')}", new=_shorten(right or ""))
    if right is None:
        return Change(name, loc, "removed", f"was {escape(left)}", old=_shorten(left))
    message = f"{escape(left)} became {escape(right)}"
    return Change(name, loc, "value", message, old=_shorten(left), new=_shorten(right))


def _shorten(text: str) -> str:
    return escape(text, _TEXT)
