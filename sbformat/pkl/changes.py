"""Changes of plain values by opcodes that picklers use only for objects (FORMAT.md 5.3).

CPython executes APPENDS as ``extend`` and SETITEMS as ``value[key] = item`` on whatever value is on the stack. So a
pickle can change a bytearray or list after it was created, and a later call receives the changed value. A lenient
machine applies such a change, or notes that it cannot; what CPython refuses is a fault of the pickle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.pkl.tree import Dict, Node, Unread

if TYPE_CHECKING:
    from sbformat.pkl.tree import UpdateHow


class Notes:
    """What is unusual about one pickle. All but ``frozen`` stays empty unless the machine is lenient."""

    __slots__ = ("changes", "faults", "frozen", "is_odd", "is_uncertain")

    def __init__(self) -> None:
        self.is_odd = False
        """A number, text or change is encoded as no pickler encodes it."""
        self.is_uncertain = False
        """A value was changed in a way that is not followed here: what a call receives is unknown."""
        self.faults: list[str] = []
        """What CPython refuses, although this machine continues."""
        self.changes: list[tuple[object, int]] = []
        """Values that were changed after a second reference to them, and bytearrays that were changed at all, each with
        the length of the log at that moment: an earlier call received the value as it was before."""
        self.frozen: dict[int, tuple[bytearray, bytes]] = {}
        """Bytearrays by identity, with the bytes that READONLY_BUFFER made of them."""

    def note_change(self, target: object, rows: int, *, is_uncertain: bool = False) -> None:
        """Note the change of a plain value.

        :param target: the value
        :param rows: the length of the log
        :param is_uncertain: whether the result of the change is unknown
        """
        self.is_odd = True
        self.changes.append((target, rows))
        if is_uncertain or id(target) in self.frozen:
            self.is_uncertain = True


def change_plain(notes: Notes, how: UpdateHow, target: object, value: object, rows: int) -> None:
    """Change a plain value as CPython does, and note the change or the fault.

    :param notes: the notes of the machine
    :param how: the opcode
    :param target: the value to change, not a node
    :param value: the state, items or pairs, as in :class:`~sbformat.pkl.tree.Update`
    :param rows: the length of the log
    """
    if _is_without_effect(how, value):
        notes.is_odd = True
    elif how == "APPENDS" and _is_bytearray(target):
        _append_bytes(notes, target, value, rows)
    elif how == "SETITEMS" and (type(target) is list or _is_bytearray(target)):
        _set_items(notes, target, value, rows)
    else:
        kind = type(target).__name__.lower()
        notes.faults.append(f"{how} on a value of type {kind}, which every unpickler refuses")


def _is_without_effect(how: UpdateHow, value: object) -> bool:
    """Return whether CPython ignores a change: one of no items, or to a state that is None."""
    if how != "BUILD":
        return not value
    state, slots = value if type(value) is tuple and len(value) == 2 else (value, None)
    return state is None and (slots is None or (type(slots) is Dict and not slots))


def _is_bytearray(target: object) -> bool:
    return type(target) is bytearray or (type(target) is Unread and target.is_bytearray)


def _append_bytes(notes: Notes, target: object, items: object, rows: int) -> None:
    if type(target) is not bytearray or any(isinstance(item, Node) for item in items):  # type: ignore[attr-defined]
        notes.note_change(target, rows, is_uncertain=True)
    elif all(_is_byte(item) for item in items):  # type: ignore[attr-defined]
        target.extend(items)  # type: ignore[arg-type]
        notes.note_change(target, rows)
    else:
        notes.faults.append("APPENDS of a value that is not an integer below 256 to a bytearray")


def _set_items(notes: Notes, target: object, pairs: object, rows: int) -> None:
    for key, item in pairs:  # type: ignore[attr-defined]
        if isinstance(key, Node) or type(target) is Unread or (type(target) is bytearray and isinstance(item, Node)):
            notes.note_change(target, rows, is_uncertain=True)  # a slice, or a number that only the unpickler computes
        elif (
            not isinstance(key, int)
            or not -len(target) <= key < len(target)  # type: ignore[arg-type]
            or (type(target) is bytearray and not _is_byte(item))
        ):
            notes.faults.append("SETITEMS with an index or item that a list or bytearray refuses")
        else:
            target[key] = item  # type: ignore[index]
            notes.note_change(target, rows)


def _is_byte(item: object) -> bool:
    return isinstance(item, int) and 0 <= item < 256
