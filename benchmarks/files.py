"""The files that are measured, made anew from the bundled archive: always the same bytes for the same amount.

``python -m benchmarks.files KIND OUTPUT AMOUNT``, in a process of its own, which may need much memory.
"""

from __future__ import annotations

import pickle
import sys
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
"""MiB; the last sixteen of a large policy have one MiB each."""
SMALL: Final = "small.15.weight"
"""A tensor of one MiB of a large policy, at the end of the file."""
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
)
"""Beyond the defaults, to see how the cost grows."""


def template() -> sbformat.Archive:
    return sbformat.read(TEMPLATE, limits=WIDE)


def write_policy(output: str, arrays: dict[str, np.ndarray]) -> None:
    """Write an archive with these weights, and no optimizer, which would belong to others."""
    made = template().replace(parameters={"policy": arrays, "policy.optimizer": None})
    sbformat.write(made, output)


def policy(output: str, mebibytes: int) -> None:
    """An archive with a policy of so many MiB, random, as weights look to a disk and to a checksum."""
    random = np.random.default_rng(0)
    sizes = [(f"large.{at}.weight", LARGE_TENSOR) for at in range(max(mebibytes - 16, 0) // LARGE_TENSOR)]
    sizes += [(f"small.{at}.weight", 1) for at in range(16)]
    write_policy(output, {name: random.random((size * MIB // KIB // 4, KIB), np.float32) for name, size in sizes})


def tensors(output: str, count: int) -> None:
    """An archive with a policy of so many tensors of 64 bytes."""
    one = np.arange(16, dtype=np.float32)
    write_policy(output, {f"layers.{at}.bias": one + at for at in range(count)})


def data(output: str, mebibytes: int) -> None:
    """An archive whose ``data`` has so many MiB: half of it in lists of numbers, half in the base64 of blobs."""
    made = template()
    half = mebibytes * MIB // 2
    numbers = np.random.default_rng(0).random(half // 20).round(15).tolist()  # some 20 bytes each with their commas
    values: dict[str, Any] = {f"history_{at}": numbers[at::10] for at in range(10)}
    for at in range(4):
        values[f"_last_obs_{at}"] = array_blob(half * 3 // 4 // 4)
    sbformat.write(made.replace(data={**made.data, **values}), output)


def array_blob(size: int) -> sbformat.Serialized:
    """A pickled array of so many bytes, as SB3 keeps one in ``data``."""
    array = np.random.default_rng(0).random(size // 4, np.float32)
    return sbformat.Serialized("<class 'numpy.ndarray'>", pickle.dumps(array, 4))


def blob(output: str, kibibytes: int) -> None:
    """An archive with one blob of so many KiB in ``data``."""
    made = template()
    sbformat.write(made.replace(data={**made.data, BLOB_KEY: array_blob(kibibytes * KIB)}), output)


def entries(output: str, count: int) -> None:
    """An archive with so many entries that SB3 does not know, after its own."""
    sbformat.write(template().replace(extra={f"extra/{at}": b"sixteen bytes ok" for at in range(count)}), output)


def ideal(output: str, source: str) -> None:
    """The policy of an archive as a safetensors file."""
    from safetensors.numpy import save_file

    arrays = sbformat.read(source, limits=WIDE, copy=True).parameters["policy"].to_numpy()
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, output)


def ideals(output: str, sources: list[str]) -> None:
    """The policies of archives as safetensors files, in a folder, by the archives' places in the list."""
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
"""By what there is much of: MiB of a policy, tensors, MiB of data, KiB of a blob, entries."""


def main(kind: str, output: str, *rest: str) -> None:
    """Make one file, or a folder of safetensors."""
    if kind == "ideals":
        ideals(output, list(rest))
    else:
        MAKERS[kind](output, int(rest[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
