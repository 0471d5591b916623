"""The files that are measured, made from the bundled archive: the same bytes each time for the same amount.

``python -m benchmarks.files KIND OUTPUT AMOUNT``, in a process of its own, which may need much memory.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parent.parent
TEMPLATE: Final = ROOT / "tests" / "archives" / "ppo-cartpole.zip"
MIB: Final = 1 << 20
KIB: Final = 1 << 10
LARGE_TENSOR: Final = 16
"""Size of the tensors of a large policy, in MiB; the last sixteen have one MiB each."""
SMALL: Final = "small.15.weight"
"""Name of a tensor of one MiB at the end of the file of a large policy."""
BLOB_KEY: Final = "_last_obs"
WIDE: Final = sbformat.Limits()._replace(
    **dict.fromkeys(
        ("outer_entries", "inner_entries", "tensors", "leaves", "pickle_nodes", "pickle_opcodes", "pickle_memo"),
        1 << 24,
    ),
    directory_bytes=1 << 30,
    pickle_bytes=1 << 30,
    blob_bytes=1 << 30,
    blobs_bytes=1 << 30,
    json_bytes=1 << 31,
    memory_bytes=1 << 33,
)
"""Limits above the defaults, to measure how the cost grows."""


def template() -> sbformat.Archive:
    return sbformat.read(TEMPLATE, limits=WIDE)


def write_policy(output: str, arrays: dict[str, np.ndarray]) -> None:
    """Write an archive with these weights and without the optimizer, which belongs to other weights."""
    made = template().replace(parameters={"policy": arrays, "policy.optimizer": None})
    sbformat.write(made, output, overwrite=True)


def policy(output: str, mebibytes: int) -> None:
    """Write an archive with a policy of that many MiB of random numbers."""
    random = np.random.default_rng(0)
    sizes = [(f"large.{at}.weight", LARGE_TENSOR) for at in range(max(mebibytes - 16, 0) // LARGE_TENSOR)]
    sizes += [(f"small.{at}.weight", 1) for at in range(16)]
    write_policy(output, {name: random.random((size * MIB // KIB // 4, KIB), np.float32) for name, size in sizes})


def tensors(output: str, count: int) -> None:
    """Write an archive with a policy of that many tensors of 64 bytes."""
    one = np.arange(16, dtype=np.float32)
    write_policy(output, {f"layers.{at}.bias": one + at for at in range(count)})


def data(output: str, mebibytes: int) -> None:
    """Write an archive whose ``data`` has that many MiB: half in lists of numbers, half in base64 of pickles."""
    made = template()
    half = mebibytes * MIB // 2
    numbers = np.random.default_rng(0).random(half // 20).round(15).tolist()  # about 20 bytes each with the comma
    values: dict[str, Any] = {f"history_{at}": numbers[at::10] for at in range(10)}
    for at in range(4):
        values[f"_last_obs_{at}"] = array_blob(half * 3 // 4 // 4)
    sbformat.write(made.replace(data={**made.data, **values}), output, overwrite=True)


def array_blob(size: int) -> sbformat.Serialized:
    """Return a pickled array of that many bytes, as SB3 stores one in ``data``."""
    array = np.random.default_rng(0).random(size // 4, np.float32)
    return sbformat.Serialized("<class 'numpy.ndarray'>", pickle.dumps(array, 4))


def blob(output: str, kibibytes: int) -> None:
    """Write an archive with one pickle of that many KiB in ``data``."""
    made = template()
    sbformat.write(made.replace(data={**made.data, BLOB_KEY: array_blob(kibibytes * KIB)}), output, overwrite=True)


def entries(output: str, count: int) -> None:
    """Write an archive with that many entries that SB3 ignores, after its own."""
    sbformat.write(
        template().replace(extra={f"extra/{at}": b"sixteen bytes ok" for at in range(count)}), output, overwrite=True
    )


def ideal(output: str, source: str) -> None:
    """Write the policy of an archive as a safetensors file."""
    from safetensors.numpy import save_file

    arrays = sbformat.read(source, limits=WIDE, copy=True).parameters["policy"].to_numpy()
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, output)


def pth(output: str, source: str) -> None:
    """Write the policy of an archive as a ``.pth`` file."""
    with zipfile.ZipFile(source) as archive, archive.open("policy.pth") as entry, open(output, "wb") as file:
        shutil.copyfileobj(entry, file)


def ideals(output: str, sources: list[str]) -> None:
    """Write the policies of archives as safetensors files into a folder, named by their position in the list."""
    Path(output).mkdir()
    for at, source in enumerate(sources):
        ideal(str(Path(output) / f"{at}.safetensors"), source)


MAKERS: Final[dict[str, Callable[[str, int], None]]] = {
    "policy": policy,
    "tensors": tensors,
    "data": data,
    "blob": blob,
    "entries": entries,
}
"""The functions by what the amount counts: MiB of a policy, tensors, MiB of data, KiB of a pickle, entries."""


def main(kind: str, output: str, *rest: str) -> None:
    """Write one file, or a folder of safetensors files."""
    if kind == "ideals":
        ideals(output, list(rest))
    elif kind == "pth":
        pth(output, *rest)
    else:
        MAKERS[kind](output, int(rest[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
