"""Coverage-guided fuzzing: one target a layer, a mutator that knows the format, and ``python tests/fuzz``.

The law of every target: each input is decoded or raises ``SbformatError``, never anything else, within the budget of
RULES.md; and what each target says of what was decoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
