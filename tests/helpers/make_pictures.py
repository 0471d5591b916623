"""Make the pictures of reports in ``docs/assets/`` from the bundled archives.

``python -m tests.helpers.make_pictures`` needs Chromium with its driver, selenium, and the extra ``report``. Run it
when the pages look different.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from PIL import Image

import sbformat
from sbformat.cli import main as run_command
from sbformat.folders.trees import expand_paths
from tests.helpers.browser import WIDE, Browser, find_browser
from tests.helpers.bundled import ARCHIVES, ROOT
from tests.helpers.run_folders import make_evaluations, make_folder

PICTURES: Final = ROOT / "docs" / "assets"
MOST_BYTES: Final = 60_000
"""Bytes of a picture at most: the documentation is read on phones, too."""
_COLOURS: Final = 256  # of the palette of a picture


class Picture(NamedTuple):
    """A picture of a page."""

    sources: tuple[str, ...]
    height: int
    section: str = ""
    """The id of the section that it begins with; the top of the page without one."""
    title: str | None = None
    observation: tuple[float, ...] = ()
    """What the panel of an interactive page shows the answer to."""


RUNS: Final = "runs"
"""A folder with runs of two environments, which :func:`make_runs` makes."""

ALL: Final = {
    "report-dangerous": Picture(("dangerous.zip",), 880),
    "report-agent": Picture(("ppo-cartpole.zip",), 800),
    "report-actions": Picture(("ppo-cartpole.zip",), 470, "actions", observation=(0.4, -0.6, 0.05, 0.8)),
    "report-comparison": Picture(("ppo-cartpole-1.0.zip", "ppo-cartpole.zip"), 900, "weights"),
    "report-table": Picture((RUNS,), 832, title="Runs of today"),
    "report-curves": Picture((RUNS,), 1210, "chart", title="Runs of today"),
}


def make_runs(folder: Path) -> None:
    """Write runs of the bundled agents with other learning rates, and evaluations whose rewards are made up."""
    steps = np.arange(1, 21) * 5000
    for name, env, first, last in (
        ("ppo-cartpole", "CartPole-v1", 20, 500),
        ("sac-pendulum", "Pendulum-v1", -1400, -150),
    ):
        algorithm = name.partition("-")[0]
        for seed, rate in enumerate((1e-4, 3e-4, 1e-3, 3e-3)):
            run = folder / algorithm / f"{env}_{seed + 1}"
            speed = 45_000 / (1 + 2 * abs(math.log10(rate / 6e-4)))
            noise = np.random.default_rng(seed).normal(0, 0.03, (len(steps), 5))
            rewards = first + (last - first) * (1 - np.exp(-steps / (60_000 - speed)))[:, None] * (1 - abs(noise))
            make_folder(run, {
                "evaluations.npz": make_evaluations(timesteps=steps, results=rewards),
                "args.yml": f"algo: {algorithm}\nenv: {env}\nseed: {seed}\n".encode(),
                **({"vecnormalize.pkl": Path("vecnormalize-pendulum.pkl").read_bytes()} if algorithm == "sac" else {}),
            })  # fmt: skip
            values = (f"learning_rate={rate}", f"seed={seed}", "num_timesteps=100000")
            options = [option for value in values for option in ("--set", value)]
            run_command(["edit", f"{name}.zip", "-o", str(run / "best_model.zip"), *options])


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
            make_runs(Path(RUNS))
            for name, picture in ALL.items():
                page = Path(pages) / f"{name}.html"
                sources, interactive = list(expand_paths(picture.sources)), bool(picture.observation)
                sbformat.report(sources, page, title=picture.title, interactive=interactive)
                (folder / f"{name}.png").write_bytes(take_picture(browser, page, picture))
    finally:
        browser.close()


def take_picture(browser: Browser, page: Path, picture: Picture) -> bytes:
    """Return a PNG of a part of a page, as wide as a window."""
    browser.open(page, width=WIDE)
    browser.resize(WIDE, picture.height)
    for at, number in enumerate(picture.observation):
        label = f"Observation {at}, as a number"
        browser.driver.find_element("css selector", f"[aria-label='{label}']").send_keys("\ue009a\ue000", str(number))
    browser.run("document.activeElement.blur()")
    if picture.section:
        browser.run("document.getElementById(arguments[0]).scrollIntoView()", picture.section)
    return shrink_picture(browser.picture(whole=False))


def shrink_picture(data: bytes) -> bytes:
    """Return a PNG with a palette, which is a third as large."""
    image = Image.open(io.BytesIO(data)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def main() -> int:
    """Write the pictures of the documentation."""
    make_pictures(PICTURES)
    sizes = {name: (PICTURES / f"{name}.png").stat().st_size for name in ALL}
    sys.stdout.writelines(f"{name}.png: {size:,} bytes\n" for name, size in sizes.items())
    return 0 if max(sizes.values()) < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
