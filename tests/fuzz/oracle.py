"""What the standard library makes of a file: the names that its pickles import, as scanners find them."""

from __future__ import annotations

import base64
import io
import json
import pickletools
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMO = ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "FRAME")


def genops(data: bytes) -> list[tuple[str, Any, int]] | None:
    """The opcodes of a pickle with argument and offset, or None where ``pickletools`` cannot tell."""
    try:
        return [(opcode.name, argument, at) for opcode, argument, at in pickletools.genops(data)]  # type: ignore[misc]
    except Exception:  # noqa: BLE001 -- the oracle has no opinion; it leaks whatever comes
        return None


def imports(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names that a pickle imports, those of STACK_GLOBAL where two texts stand right before it."""
    texts: list[object] = []
    for name, argument, _ in genops(data) or ():
        if name in ("GLOBAL", "INST"):
            module, _, attribute = argument.partition(" ")
            yield module, attribute
        elif name == "STACK_GLOBAL" and len(texts) == 2 and all(isinstance(text, str) for text in texts):
            yield str(texts[0]), str(texts[1])
        if name not in _MEMO:
            texts = [*texts[-1:], argument]


def pickles(data: bytes) -> Iterator[bytes]:
    """Yield the pickles of an archive that SB3 would load: the blobs of ``data`` and those of each ``.pth``."""
    entries = _entries(data)
    yield from _blobs(entries.get("data", b""))
    for name, content in entries.items():
        if name.endswith(".pth"):
            yield from (record for path, record in _entries(content).items() if path.endswith("/data.pkl"))


def _entries(data: bytes) -> dict[str, bytes]:
    found = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            for name in file.namelist():
                found[name] = file.read(name)
    except Exception:  # noqa: BLE001 -- what was read until then counts
        return found
    return found


def _blobs(text: bytes) -> list[bytes]:
    try:
        values = [value for value in json.loads(text).values() if isinstance(value, dict)]
        return [base64.b64decode(value[":serialized:"]) for value in values if ":serialized:" in value]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []
