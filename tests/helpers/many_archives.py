"""Folders of small files that differ."""

from __future__ import annotations

import errno
import functools
import json
import os
from typing import TYPE_CHECKING, Any

import sbformat
from tests.helpers.bundled import ARCHIVES, entries, zipped

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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


def refuse_listing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the operating system refuse to list a folder: rights do not, for a test that is run by root."""
    scandir = os.scandir

    def refuse(path: str | os.PathLike[str] = ".") -> Any:
        if not isinstance(path, int) and os.fspath(path) == str(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
