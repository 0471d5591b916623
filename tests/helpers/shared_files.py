"""What may lie beside the project, real archives and generated ones, and how a module tells what it did with them."""

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
DAMAGED: Final = "ppo-corrupt-one-bit.zip"
"""The one generated archive that must be refused."""


TOLD: Final = pytest.StashKey[list[str]]()
"""What the modules told."""


def tell(config: pytest.Config, line: str) -> None:
    """Have a line stand in the summary of the run; a worker's goes to the process that started it."""
    if hasattr(config, "workeroutput"):
        config.workeroutput.setdefault("told", []).append(line)
    else:
        config.stash.setdefault(TOLD, []).append(line)


def told(counts: Counter[str], what: str) -> Any:
    """A fixture that tells the terminal what was counted, whatever pytest captures, when the module ends."""

    @pytest.fixture(scope="module", autouse=True)
    def summary(request: pytest.FixtureRequest) -> Iterator[None]:
        counts.clear()
        yield
        if counts:
            tell(request.config, f"{what} {', '.join(f'{count:,} {row}' for row, count in counts.items())}")

    return summary
