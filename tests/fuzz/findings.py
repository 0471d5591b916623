"""What was found: one file for each place that an error came from, with its traceback beside it."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Final

from tests.fuzz import ROOT

_OURS: Final = (str(ROOT / "sbformat") + os.sep, str(ROOT / "tests" / "fuzz") + os.sep)
_ARTIFACTS: Final = ("crash-", "timeout-", "oom-", "leak-")
"""What libFuzzer writes when the process dies; its names follow the prefix that it is given."""


class Findings:
    """The findings of one target.

    :param folder: where they are kept
    :param target: its name
    """

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder
        self.target = target
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, data: bytes, error: Exception) -> None:
        """Keep an input, unless a smaller one is there that failed in the same place."""
        file = self.folder / f"{self.target}-{_place(error)}"
        if file.exists() and file.stat().st_size <= len(data):
            return
        file.write_bytes(data)
        file.with_name(file.name + ".txt").write_text("".join(traceback.format_exception(error)), "utf-8", "replace")

    @property
    def artifact_prefix(self) -> str:
        """What libFuzzer puts before the names of the files that it writes."""
        return str(self.folder / f"{self.target}-")

    def files(self) -> list[Path]:
        """Every input that is kept, in order."""
        return sorted(file for file in self.folder.glob(f"{self.target}-*") if file.suffix not in (".txt", ".log"))

    def killers(self) -> list[str]:
        """The digests of the inputs that ended the process."""
        names = [file.name.removeprefix(f"{self.target}-") for file in self.files()]
        return [name.rpartition("-")[2] for name in names if name.startswith(_ARTIFACTS)]


def _place(error: Exception) -> str:
    """The kind of an error and the innermost line of ours that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_OURS)]
    where = f"{Path(frames[-1].filename).stem}-{frames[-1].lineno}" if frames else "elsewhere"
    return f"{type(error).__name__}-{where}"
