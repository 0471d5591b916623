"""Unpickle the blob on standard input, in a process that a crash may end; print ``loaded`` or the error's class."""

from __future__ import annotations

import base64
import resource
import sys

from sbformat.data import Serialized
from sbformat.errors import SbformatError
from sbformat.unsafe import unpickle

_MEMORY = 4 << 30
_SECONDS = 20


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    value: object = None
    try:
        value = unpickle(Serialized(None, base64.b64decode(sys.stdin.read())))
    except SbformatError as error:
        sys.stdout.write(type(error).__name__)
        return
    use(value)
    sys.stdout.write("loaded")


def use(value: object) -> None:
    """Do what a person does with a value: look at it, draw from it, add it up."""
    repr(value)
    for name in ("random", "random_raw", "sum", "sample", "tolist"):
        method = getattr(value, name, None)
        if callable(method):
            try:
                method()
            except (TypeError, ValueError):
                continue


if __name__ == "__main__":
    main()
