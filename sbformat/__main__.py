"""``python -m sbformat``: the command line."""

import sys

from sbformat.cli import main

if __name__ == "__main__":
    sys.exit(main())
