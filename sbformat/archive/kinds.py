"""What a file is: a closed set of kinds, told from its first bytes and, for zips, its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from sbformat.constants import (
    DATA_ENTRY,
    END_SIGNATURE,
    LEGACY_MAGIC_BYTES,
    LOCAL_SIGNATURE,
    PICKLE_RECORD,
    PTH_SUFFIX,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
    TORCH_VERSION_RECORD,
    TORCH_VERSION_RECORD_OLD,
    TORCHSCRIPT_RECORD,
    VERSION_ENTRY,
)
from sbformat.errors import ContainerError, UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.io.source import Source

Kind: TypeAlias = Literal[
    "sb3", "folder", "torch-zip", "torch-legacy", "data-json", "sb2-zip", "sb2-pickle", "policy-file", "vecnormalize",
    "running-mean-std", "replay-buffer", "safetensors", "npz", "pickle", "zip", "lfs-pointer", "html", "text", "empty",
    "empty-zip", "unknown",
]  # fmt: skip
"""What a pickle is of is told by what is in it: ``sbformat.formats.pickled.kind_of``."""
STATISTICS: Final[frozenset[Kind]] = frozenset({"vecnormalize", "running-mean-std"})
"""Kinds of files that hold what observations were normalised with."""
OBJECTS: Final[frozenset[Kind]] = STATISTICS | {"replay-buffer"}
"""Kinds of files that hold one object, and no agent."""

_HEAD_BYTES: Final = 512
_LFS: Final = b"version https://git-lfs"
_MAGIC_WITHIN: Final = 32
_TORCH_RECORDS: Final = (PICKLE_RECORD, TORCH_VERSION_RECORD, TORCH_VERSION_RECORD_OLD, TORCHSCRIPT_RECORD)


def sniff(source: Source) -> Kind:
    """Tell what a file is from its first bytes; a zip is only told to be one.

    :param source: the bytes
    """
    head = bytes(source.view(0, min(source.size, _HEAD_BYTES)))
    if not head:
        return "empty"
    if head.startswith(LOCAL_SIGNATURE):
        return "zip"
    if head.startswith(END_SIGNATURE):
        return "empty-zip"
    if is_safetensors(head, source.size):  # before pickles: its length may begin with the bytes 80 03
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return "torch-legacy" if LEGACY_MAGIC_BYTES in head[:_MAGIC_WITHIN] else "pickle"
    if head.startswith(_LFS):
        return "lfs-pointer"
    start = head.lstrip(b" \t\r\n")
    if start.startswith((b"{", b"\xef\xbb\xbf{")):
        return "data-json"
    if start[:9].lower() in (b"<!doctype", b"<html") or start[:5].lower() == b"<html":
        return "html"
    return "text" if _is_text(head) else "unknown"


def is_safetensors(head: bytes, size: int) -> bool:
    """Say whether a file begins as a ``.safetensors``: the length of its header, and JSON.

    :param head: its first bytes
    :param size: of all of it
    """
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length <= size - 8 and b'"' in head[9:16]


def _is_text(head: bytes) -> bool:
    return all(byte >= 0x20 or byte in b"\t\r\n\f" for byte in head)


def sniff_zip(names: Collection[str]) -> Kind:
    """Tell what a zip is from the names of its members.

    :param names: in the order of the directory
    """
    if SB2_PARAMETERS_ENTRY in names and SB2_PARAMETER_LIST_ENTRY in names:
        return "sb2-zip"
    if (
        DATA_ENTRY in names
        or VERSION_ENTRY in names
        or any(name.endswith(PTH_SUFFIX) and "/" not in name for name in names)
    ):
        return "sb3"
    root = next(iter(names)).partition("/")[0]
    folded = {name.casefold() for name in names}  # as torch looks records up: a difference in case is for it to refuse
    if any(f"{root}/{record}".casefold() in folded for record in _TORCH_RECORDS):
        return "torch-zip"
    if all(name.endswith(".npy") for name in names):
        return "npz"
    return "zip"


def refuse(kind: Kind, source: Source, names: Collection[str] = ()) -> NoReturn:
    """Say in one sentence why a file of this kind is not read.

    :raises UnsupportedError: for kinds that are well formed but something else
    :raises ContainerError: for no archive at all
    """
    head = bytes(source.view(0, min(source.size, 40))).decode("utf-8", "replace")
    if kind in ("empty", "empty-zip", "text", "html", "unknown"):
        message = {
            "empty": "the file is empty",
            "html": f"an HTML page, not an archive: the download went wrong; it starts with {quote(head)}",
            "text": f"a text file, not an archive: it starts with {quote(head)}",
            "empty-zip": "a zip with nothing in it",
            "unknown": f"no archive: it starts with {quote(head)}, a zip with 'PK'",
        }[kind]
        raise ContainerError(message, offset=0)
    raise UnsupportedError(_SOMETHING_ELSE.get(kind) or _other_zip(names))


_SOMETHING_ELSE: Final[dict[Kind, str]] = {
    "lfs-pointer": "a Git LFS pointer, not the file it points to: fetch that with 'git lfs pull'",
    "npz": "a numpy .npz file, not an archive of Stable-Baselines3",
    "safetensors": "a .safetensors file, not an archive of Stable-Baselines3",
    "sb2-zip": "an archive of Stable Baselines 2 (TensorFlow), not of Stable-Baselines3",
}


def _other_zip(names: Collection[str]) -> str:
    shown = ", ".join(quote(name, 40) for name, _ in zip(names, range(4)))
    folders = dict.fromkeys(name.partition("/")[0] for name in names if "/" in name)
    for folder in folders:
        if f"{folder}/{DATA_ENTRY}" in names:
            return (
                f"a zip whose archive lies in a folder, {quote(folder)}: SB3 needs 'data' at the top; unzip it "
                f"and read the folder"
            )
    return f"a zip, but no archive of Stable-Baselines3: there is no 'data' and no '.pth' in it, but {shown}"
