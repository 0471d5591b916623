"""``python tests/fuzz``: see ``command``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fuzz.command import main  # noqa: E402 -- found in the folder that was just named

sys.exit(main())
