"""Changes of a zip: its members, their headers, their order, and a field that is wrong on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.file_mutants.zips import Fault, Part
from conformance.generators.build_zips import DEFLATED, STORED, UTF8_FLAG, extra_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.file_mutants.chance import Chance
    from conformance.file_mutants.zips import Zip

_LOCAL_FIELDS: Final = {
    "signature": 0, "version": 2, "flags": 2, "method": 2, "time": 2, "date": 2, "crc": 4, "compressed": 4, "size": 4,
    "name_size": 2, "extra_size": 2,
}  # fmt: skip
_FIELDS: Final = {
    "local": _LOCAL_FIELDS,
    "central": {**_LOCAL_FIELDS, "made_by": 2, "comment_size": 2, "disk": 2, "internal": 2, "attributes": 4,
                "offset": 4},
    "end": {"signature": 0, "disk": 2, "start_disk": 2, "count_here": 2, "count": 2, "length": 4, "start": 4,
            "comment_size": 2},
    "zip64_end": {"signature": 0, "record_size": 8, "disk": 4, "start_disk": 4, "count_here": 8, "count": 8,
                  "length": 8, "start": 8},
    "locator": {"signature": 0, "disk": 4, "record_at": 8, "disks": 4},
}  # fmt: skip
"""Bytes of each field; 0 for signatures."""
ENTRIES: Final = (
    "data", "policy.pth", "policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth",
    "ent_coef_optimizer.pth", "pytorch_variables.pth", "tensors.pth", "system_info.txt", "_stable_baselines3_version",
    "parameters", "parameter_list", "a/b.pth", "notes.txt", "a/", ".pth", "data/x", "Data", "x.pkl", "x.npy",
)  # fmt: skip
RECORDS: Final = (
    "data.pkl", "version", "byteorder", ".data/version", ".data/serialization_id", ".format_version",
    ".storage_alignment", "constants.pkl", "code/x.py", "data/0", "data/1", "data/7", "DATA.PKL", "data/",
)  # fmt: skip
_AROUND: Final = ("prefix", "behind_directory", "tail")
_EXTRAS: Final = (0x4246, 0x5455, 0x7075, 0x0001, 0x000A)
_ATTRIBUTES: Final = (0, 0o600 << 16, 0o100644 << 16, 0o120777 << 16, 0o040755 << 16 | 16, 16)


def _drop(chance: Chance, made: Zip) -> None:
    if len(made.parts) > 1:
        del made.parts[chance.randrange(len(made.parts))]
        made.order = None


def _add(chance: Chance, made: Zip) -> None:
    """Put in a member: another one's content under a name that means something."""
    model = chance.choice(made.parts)
    content = model.data if chance.one_in(2) else chance.randbytes(chance.choice((0, 1, 4, 8, 32)))
    part = Part(_name(chance, model.name), content, flags=model.flags, descriptor=model.descriptor)
    made.parts.insert(chance.place(len(made.parts)), part)
    made.order = None


def _rename(chance: Chance, made: Zip) -> None:
    part = chance.choice(made.parts)
    part.name = chance.bytes_of(part.name) if chance.one_in(4) else _name(chance, part.name)


def _name(chance: Chance, near: bytes) -> bytes:
    """A name that means something: of a record, where the others lie in a folder."""
    folder, slash, _ = near.rpartition(b"/data" if b"/data" in near else b"/")
    if slash and not chance.one_in(4):
        return folder + b"/" + chance.choice(RECORDS).encode()
    return chance.choice(ENTRIES).encode()


def _move(chance: Chance, made: Zip) -> None:
    made.parts.insert(chance.place(len(made.parts) - 1), made.parts.pop(chance.randrange(len(made.parts))))


def _reorder(chance: Chance, made: Zip) -> None:
    order = list(range(len(made.parts)))
    chance.shuffle(order)
    made.order = order


def _compress(chance: Chance, made: Zip) -> None:
    part = chance.choice(made.parts)
    part.method, part.stored = (STORED if part.method == DEFLATED else DEFLATED), None


def _describe(chance: Chance, made: Zip) -> None:
    part = chance.choice(made.parts)
    part.descriptor, part.repeats = chance.choice(("", "32", "64")), chance.one_in(2)


def _widen(chance: Chance, made: Zip) -> None:
    part = chance.choice(made.parts)
    part.narrow = tuple(name for name in ("size", "compressed", "offset") if chance.one_in(2))
    part.extra = extra_field(1, bytes([1]) * chance.choice((8, 16, 24))) if chance.one_in(2) else part.extra
    part.is_local_wide = chance.one_in(2)


def _decorate(chance: Chance, made: Zip) -> None:
    """Extra fields, comments, attributes and flags: what readers pass over, or must not."""
    part = chance.choice(made.parts)
    kind = chance.randrange(4)
    if kind == 0:
        part.extra += extra_field(chance.choice(_EXTRAS), chance.randbytes(chance.randrange(12)))
    elif kind == 1:
        part.central_extra += extra_field(chance.choice(_EXTRAS), chance.randbytes(chance.randrange(12)))
    elif kind == 2:
        part.central["attributes"] = chance.choice(_ATTRIBUTES)
    else:
        part.flags ^= chance.choice((1, 2, 4, UTF8_FLAG))


def _resize(chance: Chance, made: Zip) -> None:
    """Give a member more or fewer bytes: of a record, other numbers of items."""
    part = chance.choice(made.parts)
    size = len(part.data)
    wanted = chance.choice((0, size // 2, size * 2, size + 4, size + 1, max(size - 4, 0), 64))
    part.replace((part.data + bytes(wanted))[:wanted])


def _end_otherwise(chance: Chance, made: Zip) -> None:
    if chance.one_in(2):
        made.is_zip64 = not made.is_zip64
    else:
        made.comment = chance.choice((b"", b"x", b"PK\x05\x06", chance.randbytes(30)))


def fault(chance: Chance, made: Zip) -> None:
    """Leave one field wrong, or put bytes where none belong."""
    if chance.one_in(6):
        made.around[chance.choice(_AROUND)] = chance.choice((b"\0", b"PK\x03\x04", chance.randbytes(22)))
        return
    where = chance.choice(["local", "central", "end", *(["zip64_end", "locator"] if made.is_zip64 else [])])
    name = chance.choice(list(_FIELDS[where]))
    size = _FIELDS[where][name]
    value: int | bytes = chance.randbytes(4) if not size else chance.number(chance.randrange(1 << 16)) % 256**size
    made.faults.append(Fault(where, name, value, chance.randrange(len(made.parts))))  # type: ignore[arg-type]


_CHANGES: Final[tuple[Callable[[Chance, Zip], None], ...]] = (
    _drop, _add, _add, _rename, _move, _reorder, _compress, _compress, _describe, _widen, _decorate, _resize, _resize,
    _end_otherwise, fault,
)  # fmt: skip


def changed(chance: Chance, made: Zip) -> None:
    """Change a zip in one way."""
    chance.choice(_CHANGES)(chance, made)
