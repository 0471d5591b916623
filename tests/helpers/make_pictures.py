"""Make the pictures of reports in ``docs/assets/`` from the bundled archives.

``python -m tests.helpers.make_pictures`` needs Chromium with its driver, selenium, and the extra ``report``. Run it
when the pages look different.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import sbformat
from sbformat.cli import main as run_command
from tests.helpers.browser import WIDE, Browser, find_browser
from tests.helpers.bundled import ARCHIVES, ROOT

PICTURES: Final = ROOT / "docs" / "assets"
MOST_BYTES: Final = 120_000
"""Bytes of a picture at most: the documentation is read on phones, too."""


class Picture(NamedTuple):
    """A picture of a page."""

    sources: tuple[str, ...]
    height: int
    section: str = ""
    """The id of the section that it begins with; the top of the page without one."""


STRANGER: Final = "stranger.zip"
"""The archive of the home page: the value of ``lr_schedule`` calls ``os.system('true')``."""
SCHEDULE: Final = 'lr_schedule={":type:": "x", ":serialized:": "gAJjb3MKc3lzdGVtClgEAAAAdHJ1ZYVSLg=="}'

ALL: Final = {
    "report-stranger": Picture((STRANGER,), 880),
    "report-agent": Picture(("ppo-cartpole.zip",), 800),
    "report-comparison": Picture(("ppo-cartpole-1.0.zip", "ppo-cartpole.zip"), 900, "weights"),
    "report-table": Picture(
        ("ppo-cartpole.zip", "ppo-cartpole-1.0.zip", "sac-pendulum.zip", "replay-buffer-cartpole.pkl"), 560
    ),
}


def make_pictures(folder: Path) -> None:
    """Write the pictures, of archives in a temporary folder, so that the pages name files without folders.

    :param folder: an existing folder
    :raises RuntimeError: without a browser
    """
    programs = find_browser()
    if programs is None:
        message = "chromium and chromedriver are not installed"
        raise RuntimeError(message)
    browser = Browser(*programs)
    try:
        with tempfile.TemporaryDirectory() as pages:
            shutil.copytree(ARCHIVES, pages, dirs_exist_ok=True)
            os.chdir(pages)
            run_command(["edit", "ppo-cartpole.zip", "-o", STRANGER, "--set", SCHEDULE])
            for name, picture in ALL.items():
                page = Path(pages) / f"{name}.html"
                sbformat.report(list(picture.sources), page)
                (folder / f"{name}.png").write_bytes(take_picture(browser, page, picture))
    finally:
        browser.close()


def take_picture(browser: Browser, page: Path, picture: Picture) -> bytes:
    """Return a PNG of a part of a page, as wide as a window."""
    browser.open(page, width=WIDE)
    browser.resize(WIDE, picture.height)
    if picture.section:
        browser.run("document.getElementById(arguments[0]).scrollIntoView()", picture.section)
    return browser.picture(whole=False)


def main() -> int:
    """Write the pictures of the documentation."""
    make_pictures(PICTURES)
    sizes = {name: (PICTURES / f"{name}.png").stat().st_size for name in ALL}
    sys.stdout.writelines(f"{name}.png: {size:,} bytes\n" for name, size in sizes.items())
    return 0 if max(sizes.values()) < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
