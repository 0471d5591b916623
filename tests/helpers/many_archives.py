"""Folders of small files that differ."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import sbformat
from tests.helpers.bundled import ARCHIVES, entries, zipped

if TYPE_CHECKING:
    from pathlib import Path


def write_archives(folder: Path, count: int, **data: Any) -> list[Path]:
    """Write archives that differ in gamma and seed.

    :param data: values of ``data`` that all of them have
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = entries()
    stored = json.loads(contents["data"])
    paths = []
    for number in range(count):
        stored.update({"seed": number, "gamma": 1 - 1 / (number + 2), **data})
        paths.append(folder / f"agent_{number:05}.zip")
        paths[-1].write_bytes(zipped({**contents, "data": json.dumps(stored).encode()}))
    return paths


def write_statistics(folder: Path, count: int) -> list[Path]:
    """Write statistics of ``VecNormalize`` that differ, which take less time to read than archives."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"statistics_{number:05}.pkl" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(make_statistics(number))
    return paths


@functools.cache
def make_statistics(number: int) -> bytes:
    """Return statistics that differ from those of other numbers."""
    known = sbformat.read_vecnormalize(ARCHIVES / "vecnormalize-pendulum.pkl")
    return sbformat.writes_vecnormalize(
        sbformat.VecNormalize(obs_rms=known.obs_rms, norm_reward=False, epsilon=1 / (number + 2))
    )
