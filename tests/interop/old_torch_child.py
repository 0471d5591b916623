"""Run by another interpreter, with a torch of any release since 1.6: tells what it loads from the files of a folder.

``python old_torch_child.py FOLDER`` prints a JSON object: the release, and for every file and every way of loading that
the release has, the description of its value, or the error.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from typing import Any

import torch

WAYS = {"plain": {}, "weights_only": {"weights_only": True}, "mmap": {"weights_only": True, "mmap": True}}


def ways() -> dict[str, dict[str, Any]]:
    """The ways of loading that this torch has; plain is the one that takes every file, where others are the default."""
    known = inspect.signature(torch.load).parameters
    found = {name: dict(way) for name, way in WAYS.items() if all(option in known for option in way)}
    if "weights_only" in known:
        found["plain"]["weights_only"] = False
    return found


def digest(tensor: torch.Tensor) -> str | None:
    plain = tensor.detach()
    if plain.is_meta:
        return None
    for resolve in ("resolve_conj", "resolve_neg"):
        if hasattr(plain, resolve):
            plain = getattr(plain, resolve)()
    if plain.is_quantized:
        plain = plain.int_repr()
    if plain.dtype == torch.bfloat16 or "float8" in str(plain.dtype):
        plain = plain.float()
    return hashlib.sha256(plain.contiguous().numpy().tobytes()).hexdigest()[:16]


def describe(value: Any, storages: dict[int, int]) -> Any:
    """What can be said of a value in JSON; storages are numbered as they are met."""
    if isinstance(value, torch.Tensor):
        return describe_tensor(value, storages)
    if isinstance(value, dict):
        items = [[repr(key), describe(part, storages)] for key, part in value.items()]
        metadata = describe(value._metadata, storages) if hasattr(value, "_metadata") else None
        return [type(value).__name__, items, metadata]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [describe(part, storages) for part in value]]
    return [type(value).__name__, repr(value)]


def describe_tensor(value: torch.Tensor, storages: dict[int, int]) -> Any:
    if value.layout == torch.sparse_coo:
        parts = [describe(part, storages) for part in (value._indices(), value._values())]
        return ["sparse", list(value.shape), parts]
    if value.layout != torch.strided:
        return [str(value.layout), list(value.shape), digest(value.detach().to_dense())]
    number = None
    if value.numel() and not value.is_meta:
        storage = value.untyped_storage() if hasattr(value, "untyped_storage") else value.storage()
        number = storages.setdefault(storage.data_ptr(), len(storages))
    geometry = [list(value.shape), list(value.stride()), value.storage_offset()]
    return [type(value).__name__, str(value.dtype), geometry, value.requires_grad, digest(value), number]


def loaded(path: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": describe(torch.load(path, map_location="cpu", **options), {})}
    except Exception as error:  # noqa: BLE001 -- whatever torch raises
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main(folder: str) -> None:
    files = {
        name: {way: loaded(os.path.join(folder, name), options) for way, options in ways().items()}
        for name in sorted(os.listdir(folder))
        if name.endswith(".pth")
    }
    sys.stdout.write(json.dumps({"torch": torch.__version__, "files": files}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
