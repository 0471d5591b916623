"""Changes of plain values by opcodes that picklers use for objects only (FORMAT.md 5.3).

CPython runs APPENDS as ``extend`` and SETITEMS as ``value[key] = item`` on whatever is on the stack: a bytearray or
list can be changed after it was made, and a call that follows is given the changed one. A scan follows such a change,
or notes that it cannot; what CPython refuses is a fault of the pickle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.pkl.tree import Dict, Node, Unread

if TYPE_CHECKING:
    from sbformat.pkl.state import State
    from sbformat.pkl.tree import UpdateHow


def change_plain(state: State, how: UpdateHow, target: object, value: object) -> None:
    """Change a plain value as CPython does.

    :param state: of the machine, which notes the change, or the fault
    :param how: the opcode
    :param target: what it changes; no node
    :param value: the state, items or pairs, as in :class:`~sbformat.pkl.tree.Update`
    """
    if _is_without_effect(how, value):
        state.is_odd = True
    elif how == "APPENDS" and _is_bytearray(target):
        _append_bytes(state, target, value)
    elif how == "SETITEMS" and (type(target) is list or _is_bytearray(target)):
        _set_items(state, target, value)
    else:
        kind = type(target).__name__.lower()
        state.faults.append(f"{how} on a value of type {kind}, which no unpickler can do")


def _is_without_effect(how: UpdateHow, value: object) -> bool:
    """Say whether CPython passes over a change: of no items, and to a state that is None."""
    if how != "BUILD":
        return not value
    state, slots = value if type(value) is tuple and len(value) == 2 else (value, None)
    return state is None and (slots is None or (type(slots) is Dict and not slots))


def _is_bytearray(target: object) -> bool:
    return type(target) is bytearray or (type(target) is Unread and target.is_bytearray)


def _append_bytes(state: State, target: object, items: object) -> None:
    if type(target) is not bytearray or any(isinstance(item, Node) for item in items):  # type: ignore[attr-defined]
        _note(state, target, is_uncertain=True)
    elif all(_is_byte(item) for item in items):  # type: ignore[attr-defined]
        target.extend(items)  # type: ignore[arg-type]
        _note(state, target)
    else:
        state.faults.append("APPENDS of something other than numbers below 256 to a bytearray")


def _set_items(state: State, target: object, pairs: object) -> None:
    for key, item in pairs:  # type: ignore[attr-defined]
        if isinstance(key, Node) or type(target) is Unread or (type(target) is bytearray and isinstance(item, Node)):
            _note(state, target, is_uncertain=True)  # a slice, or a number that only the loader knows
        elif (
            not isinstance(key, int)
            or not -len(target) <= key < len(target)  # type: ignore[arg-type]
            or (type(target) is bytearray and not _is_byte(item))
        ):
            state.faults.append("SETITEMS with a position or an item that a list or bytearray does not take")
        else:
            target[key] = item  # type: ignore[index]
            _note(state, target)


def _is_byte(item: object) -> bool:
    return isinstance(item, int) and 0 <= item < 256


def _note(state: State, target: object, *, is_uncertain: bool = False) -> None:
    state.is_odd = True
    state.changes.append((target, len(state.log)))
    if is_uncertain or id(target) in state.frozen_views:
        state.is_uncertain = True
