"""Folders of small archives that differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.helpers.bundled import entries, zipped

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
