"""The expected output of decoders, built from plain facts: the tagged JSON of ``conformance/README.md``.

Nothing here reads an archive: a generator states the content of the archive.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING, Any

from conformance.generators import build_zips

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def digest(data: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def floating(value: float) -> dict[str, str]:
    """A float."""
    return {"float": struct.pack(">d", value).hex()}


def integer(value: int) -> Any:
    """An integer."""
    return value if abs(value) < 1 << 53 else {"int": hex(value)}


def raw_bytes(value: bytes) -> dict[str, str]:
    """Bytes."""
    return {"bytes": base64.b64encode(value).decode("ascii")}


def plain(value: Any) -> Any:
    """A plain Python value of ``json`` or a pickle."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, bytes):
        return raw_bytes(value)
    if isinstance(value, bytearray):
        return {"bytearray": raw_bytes(bytes(value))["bytes"]}
    if isinstance(value, dict):
        return {"dict": [[plain(key), plain(part)] for key, part in value.items()]}
    return {type(value).__name__: [plain(part) for part in value]}


def serialized(
    pickle: bytes, type_: str | None = None, hints: Mapping[str, Any] | None = None, *, canonical: bool = True
) -> dict[str, Any]:
    """A serialized value of ``data``."""
    facts = {"size": len(pickle), "sha256": digest(pickle), "canonical": canonical}
    return {"serialized": {"type": type_, **facts, "hints": plain(dict(hints or {}))}}


def tensor(dtype: str, shape: Iterable[int], items: bytes, **beside: Any) -> dict[str, Any]:
    """A strided tensor; ``items`` are its items in C order, little-endian."""
    return {"tensor": {"dtype": dtype, "shape": list(shape), "sha256": digest(items)}, **beside}


def floats(*values: float, shape: Iterable[int] | None = None, **beside: Any) -> dict[str, Any]:
    """A float32 tensor; a vector if no shape is given."""
    return tensor(
        "float32", [len(values)] if shape is None else shape, struct.pack(f"<{len(values)}f", *values), **beside
    )


def array(dtype: str, shape: Iterable[int], items: bytes) -> dict[str, Any]:
    """A numpy array; ``items`` as in :func:`tensor`."""
    return {"array": {"dtype": dtype, "shape": list(shape), "sha256": digest(items)}}


def storage(dtype: str | None, data: bytes) -> dict[str, Any]:
    """A storage by itself; ``data`` are its bytes as they are in the file."""
    return {"storage": {"dtype": dtype, "size": len(data), "sha256": digest(data)}}


def ordered_dict(pairs: Mapping[str, Any], metadata: Any = None) -> dict[str, Any]:
    """An OrderedDict with text keys."""
    made: dict[str, Any] = {"ordered_dict": [[key, value] for key, value in pairs.items()]}
    return made if metadata is None else {**made, "_metadata": metadata}


def other(data: bytes) -> dict[str, Any]:
    """An entry that a reader preserves unchanged."""
    return {"size": len(data), "sha256": digest(data)}


def archive(entries: Mapping[str, Any], form: str = "zip") -> dict[str, Any]:
    """A whole archive."""
    return {"form": form, "entries": [[name, value] for name, value in entries.items()]}


def bare(value: Any) -> dict[str, Any]:
    """A bare ``data``."""
    return archive({"data": value}, "data")


def lone(value: Any) -> dict[str, Any]:
    """A lone ``.pth``."""
    return archive({"policy.pth": value}, "pth")


def state_dict(tensors: Mapping[str, Iterable[float]]) -> dict[str, Any]:
    """The value that ``build_zips.state_dict_pickle`` writes: an OrderedDict of float32 vectors with empty metadata."""
    return ordered_dict({name: floats(*values) for name, values in tensors.items()}, {"ordered_dict": []})


SEVEN = b"\x80\x04K\x07."
POLICY = state_dict(build_zips.POLICY)
DATA = {
    "dict": [["policy_class", serialized(SEVEN, "<class 'abc.ABCMeta'>")], ["verbose", 1], ["gamma", floating(0.5)],
             ["seed", None]]
}  # fmt: skip
ENTRIES = {
    "data": DATA,
    "policy.pth": POLICY,
    "_stable_baselines3_version": {"version": "2.3.2"},
    "system_info.txt": {"system_info": [["OS", "Linux"], ["Python", "3.11.2"]]},
}
"""The expected output for ``build_zips.sb3_archive()``."""
ARCHIVE = archive(ENTRIES)
