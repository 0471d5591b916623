"""What the tests of ``.pth`` files ask of them: decode a tree, name the refusal, weigh a hostile file."""

from __future__ import annotations

import json
import struct
import sys
from typing import TYPE_CHECKING, Any

import pytest

from conformance.generators.build_pth import torch_zip
from sbformat import SbformatError, pth
from sbformat.errors import MESSAGE_BYTES
from sbformat.pth import arrays
from tests.helpers import bundled
from tests.helpers.count_work import PATIENCE, stay_within
from tests.helpers.forks import run_fork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.pth import StateDict

ROOT = str(bundled.ROOT)

SECONDS = 2.0
"""RULES.md: what a hostile file may cost, in time of one processor."""
BASE_BYTES = 64 << 20
"""And in memory: three times its size and this."""


def hide_extension_dtype(monkeypatch: pytest.MonkeyPatch, name: str, ml_dtypes: object = None) -> None:
    """Let a dtype of ml_dtypes be as on a machine without that package, or with another one.

    White-box: dtypes that were made are remembered.
    """
    monkeypatch.setitem(sys.modules, "ml_dtypes", ml_dtypes)
    monkeypatch.delitem(arrays._NUMPY_DTYPES, name, raising=False)


def decode(tree: object, storages: Mapping[str, bytes] | None = None, **options: Any) -> StateDict:
    """Decode a tree, as the torch zip of it."""
    return pth.loads(torch_zip(tree, storages), **options)


def everything(data: bytes | bytearray | memoryview, **options: Any) -> Any:
    """Decode a file and make every array in it."""
    state_dict = pth.loads(data, **options)
    state_dict.check()
    return state_dict.to_numpy()


def refusal(data: bytes, **options: Any) -> SbformatError:
    """The error that a file is refused with, at the latest when its arrays are made."""
    with pytest.raises(SbformatError) as raised:
        everything(data, **options)
    return raised.value


def refuses(kind: type[SbformatError], words: str, tree: object, storages: Mapping[str, bytes] | None = None) -> None:
    """Assert that a tree is refused with an error of exactly this class, saying this."""
    error = refusal(torch_zip(tree, storages))
    assert type(error) is kind, error
    assert words in str(error)


def weigh(*files: bytes, program: str = "read_hostile_pth", **options: Any) -> list[dict[str, Any]]:
    """Read hostile files in a process of its own: what each way to look at each gave, and what it cost.

    Asserts that nothing but our own errors came out, and that each took no more than a hostile file may.
    """
    sent = b"".join(struct.pack("<Q", len(data)) + data for data in files)

    def run(environment: dict[str, str]) -> list[dict[str, Any]]:
        left = run_fork(program, json.dumps(options), stdin=sent, environment=environment)
        ended = f"exit status {left.returncode}, after {PATIENCE} s if it is that of an alarm"
        assert left.returncode == 0, f"{ended}: {left.stderr.decode()[-2000:]}"
        rows: list[dict[str, Any]] = json.loads(left.stdout)
        assert {row["file"] for row in rows} == set(range(len(files)))
        return rows

    rows = stay_within(run, lambda rows: max(row["seconds"] for row in rows), SECONDS)
    for row in rows:
        assert row["shown"] <= MESSAGE_BYTES, row
        assert row["grown"] <= 3 * len(files[row["file"]]) + BASE_BYTES, row
    return rows
