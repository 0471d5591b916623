"""Who is measured: readers of an archive's weights and scanners, each a row; what they need is imported when they run.

A source is a path, or the archive's bytes. Every reader gives the same thing, a dictionary of numpy arrays by name, and
is believed only when its arrays are equal to ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

US: Final = "sbformat"
IDEAL: Final = "safetensors"


class Reader(NamedTuple):
    """A way to get at the weights."""

    name: str
    module: str | None
    """What must be installed; None for what is here anyhow."""
    checks: str
    read: Callable[[Any, str], Any]
    is_rival: bool = True
    """Not us, and not a reference that reads another format."""
    is_slow: bool = False
    """It gets fewer archives and rounds."""


class Scanner(NamedTuple):
    """A way to tell what a file would run."""

    name: str
    module: str | None
    looks_into: str
    scan: Callable[[Any], Any]


def opened(source: Any) -> Any:
    """The outer zip, as SB3 opens it."""
    import io
    import zipfile

    return zipfile.ZipFile(source if isinstance(source, str) else io.BytesIO(source))


def entry_bytes(source: Any, entry: str) -> bytes:
    """The bytes of a ``.pth`` entry, its CRC checked by the standard library."""
    with opened(source) as archive:
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


def as_arrays(value: Any) -> Any:
    """The same containers with arrays for torch's tensors: views, nothing is copied."""
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
    """Read the same tensors from a safetensors file: what a format without pickles would cost."""
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
    )
}
"""``safetensors`` reads the same tensors from a file of its own, so it is no rival but the ideal."""


# -- scanners -----------------------------------------------------------------------------------------


def scan_with_sbformat(source: Any) -> Any:
    import sbformat

    return sbformat.scan(source)


def scan_with_picklescan(source: Any) -> Any:
    """Scan each ``.pth`` inside: given the whole archive, it looks into none of them."""
    import io

    from picklescan.scanner import scan_bytes

    with opened(source) as archive:
        names = [name for name in archive.namelist() if name.endswith(".pth")]
        return [scan_bytes(io.BytesIO(archive.read(name)), name, ".pth") for name in names]


def scan_with_fickling(source: Any) -> Any:
    """Check the ``data.pkl`` of each ``.pth`` inside, which its user has to find."""
    import io
    import zipfile

    from fickling.analysis import check_safety
    from fickling.fickle import Pickled

    found = []
    with opened(source) as archive:
        for name in archive.namelist():
            if name.endswith(".pth"):
                with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                    pickles = [record for record in inner.namelist() if record.endswith("/data.pkl")]
                    found += [check_safety(Pickled.load(io.BytesIO(inner.read(record)))) for record in pickles]
    return found


SCANNERS: Final = {
    scanner.name: scanner
    for scanner in (
        Scanner(US, None, "every pickle: of each .pth, and of each blob of data", scan_with_sbformat),
        Scanner("picklescan", "picklescan", "each .pth, not the blobs of data", scan_with_picklescan),
        Scanner("fickling", "fickling", "each .pth, not the blobs of data", scan_with_fickling),
    )
}

MODULES: Final = ("torch", "ptloader", "safetensors", "tinygrad", "picklescan", "fickling")
"""Those of the extra ``bench`` that may be there."""
