"""``python tests/fuzz``: see ``command``."""

from __future__ import annotations

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import fuzz  # noqa: E402 -- found in the folder that was just named

sys.path[:1] = fuzz.PATHS

from fuzz.command import main  # noqa: E402

sys.exit(main())
