"""Files that are read whole are opened like others, so that small ones take several requests, too."""

from __future__ import annotations

import pytest

from sbformat.io.remote.source import OPENING_BYTES


@pytest.fixture(autouse=True)
def _opens_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbformat.io.remote.source.WHOLE_BYTES", OPENING_BYTES)
