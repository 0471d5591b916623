"""Extracts or converts files, each in a fork, and prints by how many bytes the memory of each grew at most.

Arguments: for each file, ``extract`` or ``convert``, the file, the output.
"""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np

import sbformat.arrayfiles.writer  # noqa: F401 -- what it imports is not to count
from sbformat.cli import _files
from sbformat.tools.convert import convert
from sbformat.tools.extract import extract
from tests.children.read_hostile_pth import forget, peak


def measure(verb: str, path: str, output: str) -> int:
    """Do what was asked for, as the command line does."""
    args = argparse.Namespace(limit=[], unchecked_crc=False)
    np.arange(3).tobytes()
    forget()
    before = peak()
    if verb == "extract":
        extract(_files.read_in_place(path, args), output)
    else:
        convert(_files.read_in_place(path, args), output)
    return peak() - before


def main() -> None:
    """Measure each."""
    for case in zip(*(iter(sys.argv[1:]),) * 3):
        process = os.fork()
        if not process:
            try:
                os.write(1, b"%d\n" % measure(*case))
            finally:
                os._exit(0)
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
