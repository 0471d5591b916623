"""The pictures of reports in the documentation: small, with a description, and each on the page of the command."""

from __future__ import annotations

import re
import struct

import pytest

from tests.helpers.browser import WIDE
from tests.helpers.bundled import ROOT
from tests.helpers.make_pictures import ALL, MOST_BYTES, PICTURES

PAGES = [(ROOT / "docs" / name).read_text("utf-8") for name in ("index.md", "how-to/report.md")]


@pytest.mark.parametrize("name", ALL)
def test_a_picture_is_small_and_described(name: str) -> None:
    content = (PICTURES / f"{name}.png").read_bytes()
    assert len(content) < MOST_BYTES
    assert struct.unpack(">II", content[16:24]) == (WIDE, ALL[name].height)
    described = [text for page in PAGES for text in re.findall(rf"!\[([^\]]+)\]\((?:\.\./)?assets/{name}\.png\)", page)]
    assert len(described) == 1
    assert len(described[0]) > 80


def test_every_picture_is_made_by_the_program() -> None:
    assert {path.stem for path in PICTURES.glob("report-*.png")} == set(ALL)
