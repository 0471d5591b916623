"""The command line as a process: ``sbformat``, and ``python -m sbformat``."""

import gc
import sys

_COLLECTED = 50_000
"""New objects between two looks for garbage: nearly all that is imported stays. Work on files restores Python's 700."""


def main() -> int:
    """Run the command of the process's arguments; an interruption is silent, also while modules are imported."""
    gc.set_threshold(_COLLECTED)
    try:
        from sbformat.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130
    finally:
        gc.freeze()  # the process ends: to look for garbage among all that is left would take 8 ms


if __name__ == "__main__":
    sys.exit(main())
