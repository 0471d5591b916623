"""The command line as a process: ``sbformat``, and ``python -m sbformat``."""

import gc
import sys

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Of new objects. A command makes modules and values, which stay; to look for garbage among them takes 5 ms."""


def main() -> int:
    """Run the command of the process's arguments; an interruption is silent, also while modules are imported."""
    try:
        from sbformat.cli import main as run
    except KeyboardInterrupt:
        return 130
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    status = run()
    gc.freeze()  # the process ends: nothing has to be collected
    return status


if __name__ == "__main__":
    sys.exit(main())
