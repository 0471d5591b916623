"""Compare ``data``, the version and the system info of two archives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.algorithm import class_reference
from sbformat.constants import DATA_ENTRY, VERSION_ENTRY
from sbformat.data import Serialized, equal_json
from sbformat.errors import SbformatError, escape
from sbformat.tools.diff.report import Change
from sbformat.values import decode
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.tools.diff.report import ChangeKind
    from sbformat.tools.diff.tolerance import Tolerance

_SHOWN: Final = 60
_NAMED: Final = 3
"""Parts of a description that are named."""
_ABSENT: Final = object()


def describe_change(left: str, right: str) -> str:
    """Return what happened to a value, in words."""
    return f"{left} became {right}" if left != right else f"{left} became a different one"


def compare_data(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: Tolerance) -> Iterator[Change]:
    """Compare objects key by key, their order included; a list is compared as a whole."""
    todo = [iter([("", old, new)])]
    while todo:
        for loc, left, right in todo[-1]:
            if isinstance(left, dict) and isinstance(right, dict):
                if [key for key in left if key in right] != [key for key in right if key in left]:
                    yield Change(DATA_ENTRY, loc, "order", "the order of the keys differs")
                todo.append(_unequal_members(loc, left, right, tolerance))
                break
            if left is _ABSENT:
                yield Change(DATA_ENTRY, loc, "added", f"is now {_describe_json(right)}")
            elif right is _ABSENT:
                yield Change(DATA_ENTRY, loc, "removed", f"was {_describe_json(left)}")
            else:
                kind: ChangeKind = "value" if type(left) is type(right) else "type"
                yield Change(DATA_ENTRY, loc, kind, _describe_json_change(left, right))
        else:
            todo.pop()


def _unequal_members(
    loc: str, left: Mapping[str, Any], right: Mapping[str, Any], tolerance: Tolerance
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the members of two objects that are not equal, each with its location."""
    for key in {**left, **right}:
        one, other = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if one is _ABSENT or other is _ABSENT or not _is_equal(one, other, tolerance):
            yield f"{loc}/{_escape_key(key)}", one, other


def _is_equal(one: Any, other: Any, tolerance: Tolerance) -> bool:
    return equal_json(one, other) or (not tolerance.is_exact and tolerance.is_close_json(one, other))


def _escape_key(key: str) -> str:
    """Return a key as a JSON pointer contains it."""
    return key.replace("~", "~0").replace("/", "~1")


def _describe_json_change(left: object, right: object) -> str:
    """Describe two values of ``data`` that differ; those that read the same, by where they differ."""
    texts = _describe_json(left), _describe_json(right)
    if texts[0] != texts[1] or not isinstance(left, Serialized) or not isinstance(right, Serialized):
        return describe_change(*texts)
    if left.pickle != right.pickle:
        return f"{texts[0]}: other bytes in the pickle"
    names = [repr(escape(key)) for key in {**left.hints, **right.hints} if left.hints.get(key) != right.hints.get(key)]
    names += ["':type:'"] if left.type != right.type else []
    if not names:
        return f"{texts[0]}: same pickle, other text of base64"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{texts[0]}: same pickle, other description ({', '.join(names[:_NAMED])}{more})"


def _describe_json(value: object) -> str:
    """Describe a value of ``data`` in a few words, without the bytes of a serialized value."""
    if isinstance(value, Serialized):
        reference = class_reference(value)
        if reference is not None:
            return f"the class {escape(reference)}"
        size = f"{len(value.pickle):,} bytes"
        try:
            return f"{render_line(decode(value))}, pickled in {size}"
        except SbformatError:
            return f"a broken pickle of {size}"
    return escape(json.dumps(value), _SHOWN)


def compare_text(name: str, old: Archive, new: Archive) -> Iterator[Change]:
    """Yield the changes of the version or the system info, whose bytes differ."""
    found = False
    if name == VERSION_ENTRY:
        versions = str(old.stable_baselines3_version), str(new.stable_baselines3_version)
        if versions[0] != versions[1]:
            found = True
            yield Change(name, "", "value", f"{escape(versions[0])} became {escape(versions[1])}")
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
        return Change(name, loc, "added", f"is now {escape(right or '')}")
    if right is None:
        return Change(name, loc, "removed", f"was {escape(left)}")
    return Change(name, loc, "value", f"{escape(left)} became {escape(right)}")
