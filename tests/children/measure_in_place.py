"""Extracts or converts a file in a process of its own, and prints by how many bytes its memory grew at most.

Arguments: ``extract`` or ``convert``, the file, the output.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import sbformat.arrayfiles.writer  # noqa: F401 -- what it imports is not to count
from sbformat.cli import _files
from sbformat.tools.convert import convert
from sbformat.tools.extract import extract
from tests.children.read_hostile_pth import forget, peak


def main() -> None:
    """Do what was asked for, as the command line does."""
    verb, path, output = sys.argv[1:]
    args = argparse.Namespace(limit=[], unchecked_crc=False)
    np.arange(3).tobytes()
    forget()
    before = peak()
    if verb == "extract":
        extract(_files.read_in_place(path, args), output)
    else:
        convert(_files.read_in_place(path, args), output)
    sys.stdout.write(str(peak() - before))


if __name__ == "__main__":
    main()
