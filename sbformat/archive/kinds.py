"""The kind of a file, detected from its first bytes and, for zips, from the names of its members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias

from sbformat import constants
from sbformat.container.layout import is_state_dict
from sbformat.errors import ContainerError, UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.io.source import Source

Kind: TypeAlias = Literal[
    "sb3", "sbx", "folder", "torch-zip", "torch-legacy", "data-json", "sb2-zip", "sb2-pickle", "policy-file",
    "vecnormalize", "running-mean-std", "replay-buffer", "array-pickle", "safetensors", "npz", "pickle", "zip",
    "lfs-pointer", "html", "text", "empty", "empty-zip", "unknown",
]  # fmt: skip
"""The kinds of pickles are detected from their contents: ``sbformat.formats.pickled.classify_pickle``."""
SB3_ARCHIVES: Final[frozenset[Kind]] = frozenset({"sb3", "folder"})
"""Kinds of whole archives whose ``data`` has the keys of SB3."""
STATISTICS: Final[frozenset[Kind]] = frozenset({"vecnormalize", "running-mean-std"})
"""Kinds of files with normalisation statistics."""
OBJECTS: Final[frozenset[Kind]] = STATISTICS | {
    "replay-buffer",
    "array-pickle",
}  # kinds of files with one object that is not an agent
KIND_TITLES: Final[dict[Kind, str]] = {
    "sb3": "Stable-Baselines3 archive",
    "sbx": "SBX (Stable Baselines Jax) archive",
    "folder": "unzipped Stable-Baselines3 archive",
    "torch-zip": "lone .pth (torch zip)",
    "torch-legacy": "lone .pth (legacy torch stream)",
    "data-json": "bare data",
    "sb2-zip": "Stable Baselines 2 archive",
    "sb2-pickle": "Stable Baselines 2 pickle",
    "policy-file": "file of policy.save()",
    "safetensors": "arrays (safetensors)",
    "npz": "arrays (npz)",
    "vecnormalize": "statistics of VecNormalize",
    "running-mean-std": "running mean and variance",
    "replay-buffer": "replay buffer",
    "array-pickle": "pickle of tensors or arrays",
}
"""Names for people of the kinds that can be read."""

_HEAD_BYTES: Final = 512
_LFS: Final = b"version https://git-lfs"
_MAGIC_WITHIN: Final = 32
_TORCH_RECORDS: Final = (
    constants.PICKLE_RECORD,
    constants.TORCH_VERSION_RECORD,
    constants.TORCH_VERSION_RECORD_OLD,
    constants.TORCHSCRIPT_RECORD,
)


def detect_kind(source: Source) -> Kind:
    """Detect the kind of a file from its first bytes; for a zip, :func:`detect_zip_kind` knows more."""
    head = bytes(source.view(0, min(source.size, _HEAD_BYTES)))
    if not head:
        return "empty"
    if head.startswith(constants.LOCAL_SIGNATURE):
        return "zip"
    if head.startswith(constants.END_SIGNATURE):
        return "empty-zip"
    if is_safetensors(head, source.size):  # before pickles: its length may begin with the bytes 80 03
        return "safetensors"
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return "torch-legacy" if constants.LEGACY_MAGIC_BYTES in head[:_MAGIC_WITHIN] else "pickle"
    if head.startswith(_LFS):
        return "lfs-pointer"
    start = head.lstrip(b" \t\r\n")
    if start.startswith((b"{", b"\xef\xbb\xbf{")):
        return "data-json"
    if start[:9].lower() in (b"<!doctype", b"<html") or start[:5].lower() == b"<html":
        return "html"
    return "text" if all(byte >= 0x20 or byte in b"\t\r\n\f" for byte in head) else "unknown"


def is_lfs_pointer(source: Source) -> bool:
    """Return whether a file is a pointer of Git LFS to one that was not fetched."""
    return bytes(source.view(0, min(source.size, len(_LFS)))) == _LFS


def is_safetensors(head: bytes, size: int) -> bool:
    """Return whether a file starts like a ``.safetensors``: the length of its header, then JSON."""
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and 2 <= length <= size - 8 and b'"' in head[9:16]


def detect_zip_kind(names: Collection[str]) -> Kind:
    """Detect the kind of a zip from the names of its members."""
    if constants.SB2_PARAMETERS_ENTRY in names and constants.SB2_PARAMETER_LIST_ENTRY in names:
        return "sb2-zip"
    if constants.DATA_ENTRY in names or constants.VERSION_ENTRY in names or any(map(is_state_dict, names)):
        return "sb3"
    root = next(iter(names)).partition("/")[0]
    folded = {name.casefold() for name in names}  # torch ignores case here, too
    if any(f"{root}/{record}".casefold() in folded for record in _TORCH_RECORDS):
        return "torch-zip"
    if all(name.endswith(".npy") for name in names):
        return "npz"
    return "zip"


def refuse_kind(kind: Kind, source: Source, names: Collection[str] = ()) -> NoReturn:
    """Raise an error that says why a file of this kind is not read."""
    head = bytes(source.view(0, min(source.size, _HEAD_BYTES)))
    shown = head[:40].decode("utf-8", "replace")
    if kind == "unknown":
        found = next((what for at, magic, what in _MAGIC if head[at : at + len(magic)] == magic), None)
        if head[:1] == b"\x08" and head[1:2] <= _LAST_ONNX and head[2:3] and head[2:3] in _ONNX_FIELDS:
            found = found or "an ONNX model, which sbformat export writes and onnxruntime runs"
        if found is None:
            found = f"a file that starts with {quote(shown)} (a zip starts with 'PK')"
        raise _refuse_other(found)
    if kind in _NOT_ARCHIVES:
        raise _refuse_other(_NOT_ARCHIVES[kind], f"; it starts with {quote(shown)}" if shown else "")
    if kind in _SOMETHING_ELSE:
        raise UnsupportedError(_SOMETHING_ELSE[kind])
    raise _refuse_zip(names)


def _refuse_other(found: str, more: str = "") -> ContainerError:
    """Return the error for a file of another kind.

    :param found: what it is, and after a colon what to do
    """
    return ContainerError(f"expected an archive, got {found}{more}", offset=0, hint=found.partition(": ")[2])


def describe_other(kind: str) -> str | None:
    """Return what a file is, and what to do, if it is one of the kinds that people have instead of an archive."""
    return LFS_POINTER if kind == "lfs-pointer" else _NOT_ARCHIVES.get(kind)


LFS_POINTER: Final = "a Git LFS pointer: fetch the file with 'git lfs pull', or download it again"
"""Describes the file that is in the place of one that was not fetched."""
_NOT_ARCHIVES: Final[dict[str, str]] = {
    "empty": "an empty file: download it again",
    "empty-zip": "an empty zip",
    "html": "an HTML page, as of a failed download: download it again",
    "text": "a text file: if it is a download, download it again",
}


_MAGIC: Final = (
    (0, b"\x93NUMPY", "an array (.npy)"),
    (0, b"\x89HDF\r\n", "an HDF5 file, such as a model of Keras"),
    (0, b"\x1f\x8b", "a gzip file: unpack it first"),
    (0, b"BZh", "a bzip2 file: unpack it first"),
    (0, b"\xfd7zXZ\x00", "an xz file: unpack it first"),
    (0, b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (0, b"Rar!", "a rar archive: unpack it first"),
    (257, b"ustar", "a tar archive: unpack it first"),
    (4, b"TFL3", "a model of TensorFlow Lite"),
    (0, b"%PDF", "a PDF"),
    (0, b"\x89PNG", "a picture (PNG)"),
    (0, b"\x7fELF", "a program (ELF)"),
    (4, b"ftyp", "a video (MP4)"),
)
"""Formats that people have beside their agents: the position of a constant, the constant, and what it is."""
_ONNX_FIELDS: Final = b"\x12\x1a\x22\x28\x32\x3a\x42\x72"
"""First bytes of the fields of an ONNX ModelProto after its first, the version."""
_LAST_ONNX: Final = b"\x28"  # a version that ONNX has not reached


_SOMETHING_ELSE: Final[dict[Kind, str]] = {
    "lfs-pointer": f"expected an archive, got {LFS_POINTER}",
    "npz": "expected an archive of Stable-Baselines3, got a .npz file of numpy",
    "safetensors": "expected an archive of Stable-Baselines3, got a .safetensors file",
    "sb2-zip": "expected an archive of Stable-Baselines3, got one of Stable Baselines 2 (TensorFlow)",
}


def _refuse_zip(names: Collection[str]) -> UnsupportedError:
    shown = ", ".join(quote(name, 40) for name, _ in zip(names, range(4)))
    folders = dict.fromkeys(name.partition("/")[0] for name in names if "/" in name)
    for folder in folders:
        if f"{folder}/{constants.DATA_ENTRY}" in names:
            message = (
                f"expected 'data' at the top of the zip, as SB3 does, got an archive in the folder {quote(folder)}"
            )
            return UnsupportedError(message, hint="unzip it and read that folder")
    return UnsupportedError(f"expected an archive of Stable-Baselines3, with 'data' or a '.pth', got a zip of {shown}")
