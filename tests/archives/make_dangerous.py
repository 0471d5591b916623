"""Make the bundled dangerous archive, of ``ppo-cartpole.zip``; run from the project's root.

    python tests/archives/make_dangerous.py

``PPO.load`` of it runs a command, as that of a malicious file would. This one prints a sentence, and is harmless.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sbformat

HERE: Final = Path(__file__).parent
COMMAND: Final = b"echo this file ran a command"
PICKLE: Final = b"\x80\x02cos\nsystem\nX" + len(COMMAND).to_bytes(4, "little") + COMMAND + b"\x85R."
"""``os.system(COMMAND)``, in protocol 2."""


def make() -> bytes:
    """Return the archive: a call of ``os.system`` is in the place of the learning rate's schedule."""
    archive = sbformat.read(HERE / "ppo-cartpole.zip")
    schedule = sbformat.Serialized("<class 'function'>", PICKLE)
    return sbformat.writes(archive.replace(data={**archive.data, "lr_schedule": schedule}))


if __name__ == "__main__":
    (HERE / "dangerous.zip").write_bytes(make())
