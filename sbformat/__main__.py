"""The command line as a process: ``sbformat``, and ``python -m sbformat``."""

import gc
import sys


def main() -> int:
    """Run the command of the process's arguments; an interruption is silent, also while modules are imported."""
    try:
        from sbformat.cli import main as run
    except KeyboardInterrupt:
        return 130
    status = run()
    gc.freeze()  # the process ends: to look for garbage among all that is left would take 8 ms
    return status


if __name__ == "__main__":
    sys.exit(main())
