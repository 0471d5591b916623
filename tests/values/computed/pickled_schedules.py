"""The schedules that each CPython pickled, with what they return."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from sbformat.limits import Budget
from sbformat.values import decode_blob

FOLDER: Final = Path(__file__).parent / "pickled"
MISLEADING: Final = Path(__file__).parent / "misleading"
RELEASES: Final = ("3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
MISLEADING_RELEASES: Final = ("3.6", "3.8", "3.10", "3.11", "3.12", "3.13")


class Pickled(NamedTuple):
    kind: str
    data: bytes
    values: list[float] | None

    def decode(self) -> Any:
        return decode_blob(self.data, Budget())


@cache
def load(release: str, folder: Path = FOLDER) -> dict[str, Pickled]:
    found = json.loads(gzip.decompress((folder / f"{release}.json.gz").read_bytes()))
    assert found["python"].startswith(f"{release}.")
    return {
        name: Pickled(row["kind"], base64.b64decode(row["pickle"]), row["values"])
        for name, row in found["schedules"].items()
    }
