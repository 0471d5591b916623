"""The readers and scanners that are measured, one per row; each imports what it needs when it runs.

A source is a path or the bytes of an archive. Every reader returns a dictionary of numpy arrays by name, and is
compared only where its arrays are equal to ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

US: Final = "sbformat"
IDEAL: Final = "safetensors"
MAPPED: Final = "torch, mmap"
MODELAUDIT: Final = "modelaudit"


class Reader(NamedTuple):
    """A reader of weights."""

    name: str
    module: str | None
    """The module that must be installed; None if nothing has to be."""
    checks: str
    read: Callable[[Any, str], Any]
    is_rival: bool = True
    """Neither sbformat nor a reference that reads another format."""
    is_slow: bool = False
    """Whether it gets fewer archives and rounds."""


class Scanner(NamedTuple):
    """A scanner for code in a file."""

    name: str
    module: str | None
    looks_into: str
    scan: Callable[[Any], Any]


def open_outer_zip(source: Any) -> Any:
    """Open the outer zip as SB3 does."""
    import io
    import zipfile

    return zipfile.ZipFile(source if isinstance(source, str) else io.BytesIO(source))


def entry_bytes(source: Any, entry: str) -> bytes:
    """Return the bytes of a ``.pth`` entry; the standard library checks the CRC."""
    with open_outer_zip(source) as archive:
        return archive.read(f"{entry}.pth")


# -- readers ------------------------------------------------------------------------------------------


def with_sbformat(source: Any, entry: str) -> Any:
    import sbformat

    return sbformat.read(source).parameters[entry].to_numpy()


def with_torch(source: Any, entry: str) -> Any:
    import io

    import torch

    pth = io.BytesIO(entry_bytes(source, entry))
    return as_arrays(torch.load(pth, weights_only=True, map_location="cpu"))


def map_with_torch(source: str, entry: str) -> Any:  # noqa: ARG001 -- the file holds one entry
    """Map a ``.pth`` file and copy each tensor, so that all bytes are read; torch maps no entry of an archive."""
    import torch

    mapped = torch.load(source, mmap=True, weights_only=True, map_location="cpu")
    return {name: tensor.clone().numpy() for name, tensor in mapped.items()}


def as_arrays(value: Any) -> Any:
    """Return the same containers with arrays in the place of tensors: views, without a copy."""
    if hasattr(value, "detach"):
        return value.detach().numpy()
    if isinstance(value, dict):
        return {key: as_arrays(part) for key, part in value.items()}
    return [as_arrays(part) for part in value] if isinstance(value, list) else value


def with_ptloader(source: Any, entry: str) -> Any:
    import io

    import ptloader

    return ptloader.load(io.BytesIO(entry_bytes(source, entry)))


def with_lazy_unpickler(source: Any, entry: str) -> Any:
    from benchmarks.lazy_unpickler import load

    return load(entry_bytes(source, entry))


def with_tinygrad(source: Any, entry: str) -> Any:
    from tinygrad import Tensor
    from tinygrad.nn.state import torch_load

    return {name: tensor.numpy() for name, tensor in torch_load(Tensor(entry_bytes(source, entry))).items()}


def with_safetensors(source: Any, entry: str) -> Any:  # noqa: ARG001 -- the file holds one entry
    """Read the same tensors from a safetensors file: the cost of a format without pickles."""
    import safetensors.numpy

    return safetensors.numpy.load_file(source) if isinstance(source, str) else safetensors.numpy.load(source)


READERS: Final = {
    reader.name: reader
    for reader in (
        Reader(US, None, "both zips, every CRC-32, the pickle, every tensor's bounds", with_sbformat, is_rival=False),
        Reader("torch", "torch", "the outer CRC-32; names that the pickle imports (weights_only)", with_torch),
        Reader("ptloader", "ptloader", "CRC-32s by zipfile; names that the pickle imports", with_ptloader),
        Reader("lazy unpickler", None, "CRC-32s by zipfile; nothing of the pickle: unsafe", with_lazy_unpickler),
        Reader("tinygrad", "tinygrad", "the outer CRC-32", with_tinygrad, is_slow=True),
        Reader(IDEAL, "safetensors", "its own header; no CRC-32", with_safetensors, is_rival=False),
        Reader(MAPPED, "torch", "no CRC-32; names that the pickle imports", map_with_torch, is_rival=False),
    )
}
OTHER_FILES: Final = frozenset({IDEAL, MAPPED})
"""Readers of the same tensors in a file of their own: ``safetensors`` is the ideal, and a ``.pth`` is mapped only when
it is large."""


# -- scanners -----------------------------------------------------------------------------------------


def scan_with_sbformat(source: Any) -> Any:
    import sbformat

    return sbformat.scan(source)


def scan_with_picklescan(source: Any) -> Any:
    """Scan each ``.pth``: given the whole archive, it opens none of them."""
    import io

    from picklescan.scanner import scan_bytes

    with open_outer_zip(source) as archive:
        names = [name for name in archive.namelist() if name.endswith(".pth")]
        return [scan_bytes(io.BytesIO(archive.read(name)), name, ".pth") for name in names]


def scan_with_fickling(source: Any) -> Any:
    """Check the ``data.pkl`` of each ``.pth``, which its user has to find."""
    import io
    import zipfile

    from fickling.analysis import check_safety
    from fickling.fickle import Pickled

    found = []
    with open_outer_zip(source) as archive:
        for name in archive.namelist():
            if name.endswith(".pth"):
                with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                    pickles = [record for record in inner.namelist() if record.endswith("/data.pkl")]
                    found += [check_safety(Pickled.load(io.BytesIO(inner.read(record)))) for record in pickles]
    return found


def scan_with_modelaudit(source: Any) -> Any:
    """Scan the archive as a file, which is written first: it takes nothing else."""
    import tempfile

    from modelaudit.core import scan_model_directory_or_file

    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(source)
        file.flush()
        return scan_model_directory_or_file(file.name, cache_enabled=False)


SCANNERS: Final = {
    scanner.name: scanner
    for scanner in (
        Scanner(US, None, "every pickle: of each .pth, and of each blob of data", scan_with_sbformat),
        Scanner("picklescan", "picklescan", "each .pth, not the blobs of data", scan_with_picklescan),
        Scanner("fickling", "fickling", "each .pth, not the blobs of data", scan_with_fickling),
        Scanner(MODELAUDIT, "modelaudit", "each .pth, not the blobs of data", scan_with_modelaudit),
    )
}

MODULES: Final = ("torch", "ptloader", "safetensors", "tinygrad", "picklescan", "fickling", "modelaudit")
"""The modules of the extra ``bench``."""
