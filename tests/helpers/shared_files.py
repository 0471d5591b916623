"""Real and generated archives beside the project, and a summary of what a module did with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

SHARED: Final = Path(__file__).parents[3] / "shared"
CORPUS: Final = SHARED / "corpus"
GENERATED: Final = SHARED / "generated"


def generated_files(pattern: str, *folders: str) -> list[Path]:
    """Files in folders of the generated archives that are named; other folders there do not matter.

    :param folders: ``[0-9]*`` for those of the releases of SB3, and ``extra``, ``sb2`` or ``torch``
    """
    return sorted(path for folder in folders for path in GENERATED.glob(f"{folder}/{pattern}"))


DAMAGED: Final = "ppo-corrupt-one-bit.zip"
"""The one generated archive that must be refused."""


SUMMARY: Final = pytest.StashKey[list[str]]()
"""Lines for the summary of the run."""


def add_summary_line(config: pytest.Config, line: str) -> None:
    """Print a line in the summary of the run; a worker hands it to the process that started it."""
    if hasattr(config, "workeroutput"):
        config.workeroutput.setdefault("summary", []).append(line)
    else:
        config.stash.setdefault(SUMMARY, []).append(line)


def summarize_counts(counts: Counter[str], what: str) -> Any:
    """Return a fixture that prints what was counted when the module ends."""

    @pytest.fixture(scope="module", autouse=True)
    def summary(request: pytest.FixtureRequest) -> Iterator[None]:
        counts.clear()
        yield
        if counts:
            add_summary_line(request.config, f"{what} {', '.join(f'{count:,} {row}' for row, count in counts.items())}")

    return summary
