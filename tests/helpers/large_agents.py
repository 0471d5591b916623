"""Agents of hundreds of megabytes, made in memory of the bundled ones."""

from __future__ import annotations

import functools
import io
import zipfile
from typing import Any, Final

import numpy as np

import sbformat
from sbformat import StateDict
from tests.helpers.bundled import PPO, SAC, entries

SMALL_WIDTH: Final = 8
"""Units of the hidden layers of the bundled agents."""
MIB: Final = 1 << 20


@functools.cache
def make_wide_sac(width: int = 2180) -> bytes:
    """An agent of SAC as SB3 writes it, with five ``.pth`` entries: 200 MiB if its layers have 2,180 units."""
    archive = sbformat.read(SAC)
    parameters = {name: widen(archive.parameters[name].to_numpy(), width) for name in archive.parameters}
    data = {**archive.data, "policy_kwargs": {**archive.data["policy_kwargs"], "net_arch": [width, width]}}
    changed = archive.replace(
        data=data, parameters={name: StateDict.from_arrays(value) for name, value in parameters.items()}
    )
    return sbformat.writes(changed)


@functools.cache
def make_many_tensors(count: int = 200, nbytes: int = MIB) -> bytes:
    """An agent with many tensors in its ``policy.pth``."""
    archive = sbformat.read(PPO)
    tensors = {f"layers.{number}.weight": make_array((nbytes // 4,), number) for number in range(count)}
    return sbformat.writes(archive.replace(parameters={"policy": StateDict.from_arrays(tensors)}))


@functools.cache
def make_deflated_data(width: int = 2180) -> bytes:
    """The agent of SAC, with its ``data`` deflated, as other programs write zips."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in entries(io.BytesIO(make_wide_sac(width))).items():
            file.writestr(name, content, zipfile.ZIP_DEFLATED if name == "data" else zipfile.ZIP_STORED)
    return made.getvalue()


def widen(value: Any, width: int) -> Any:
    """Return a tree of arrays whose sides of ``SMALL_WIDTH`` have another length."""
    if isinstance(value, dict):
        return {key: widen(item, width) for key, item in value.items()}
    if isinstance(value, np.ndarray) and SMALL_WIDTH in value.shape:
        return make_array(tuple(width if side == SMALL_WIDTH else side for side in value.shape), len(value.shape))
    return value


def make_array(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An array of numbers that repeat after 16 KiB, so that it takes no time to make."""
    numbers = np.random.default_rng(seed).standard_normal(4096).astype(np.float32)
    return np.resize(numbers, shape)
