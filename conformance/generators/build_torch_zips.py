"""Torch zips with the same bytes on every platform, and the bytes of their storages."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_pth import dumps
from conformance.generators.build_zips import Member, build_zip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EIGHT: Final = struct.pack("<8f", *range(8))
"""A storage of eight float32."""
DATA: Final = {"0": EIGHT}


def zipped(members: Iterable[tuple[str, bytes]]) -> bytes:
    """A zip of these members, in order."""
    return build_zip(*[Member(name.encode(), data) for name, data in members])


def in_folder(records: Mapping[str, bytes], root: str = "archive") -> bytes:
    """A zip of records in one folder."""
    return zipped((f"{root}/{name}", data) for name, data in records.items())


def records(
    tree: object,
    storages: Mapping[str, bytes] | None = None,
    *,
    byte_order: bytes | None = b"little",
    version: bytes | None = b"3\n",
    protocol: int = 2,
) -> dict[str, bytes]:
    """The records of a current torch zip: the pickle of ``tree`` (or its bytes) and the storages by key."""
    made = {"data.pkl": tree if isinstance(tree, bytes) else dumps(tree, protocol)}
    if byte_order is not None:
        made["byteorder"] = byte_order
    made |= {f"data/{key}": data for key, data in (storages or {}).items()}
    return made if version is None else {**made, "version": version}


def pth(tree: object, storages: Mapping[str, bytes] | None = None, **options: Any) -> bytes:
    """A torch zip of a tree; the options are those of ``records``."""
    return in_folder(records(tree, storages, **options))


def reversed_groups(raw: bytes, size: int) -> bytes:
    """Reverse each group of ``size`` bytes, as a big-endian machine writes them."""
    return b"".join(raw[at : at + size][::-1] for at in range(0, len(raw), size))
