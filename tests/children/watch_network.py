"""Reads local files in every way, and runs every command over them, while every event of a network is watched.

A process of its own (``tests/cli/test_urls.py``), which prints as JSON the events, the packages of remote file systems
that were imported, the commands that ran and the commands that there are::

    python tests/children/watch_network.py FOLDER

FOLDER is where it writes.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sbformat
import sbformat.cli
import sbformat.html_report.archive_page
from tests.helpers.bundled import ARCHIVES, PPO, SAC

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(sys.argv[1])
EVENTS: Final = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "poplib.", "imaplib.", "nntplib.", "telnetlib.")
PACKAGES: Final = (
    "fsspec", "aiohttp", "yarl", "s3fs", "aiobotocore", "botocore", "huggingface_hub", "httpx", "requests",
    "sbformat.io.remote",
)  # fmt: skip
STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
BUFFER: Final = ARCHIVES / "replay-buffer-cartpole.pkl"
SEEN: Final[list[str]] = []


def watch(event: str, arguments: Any) -> None:
    """Note an event of a network."""
    if event.startswith(EVENTS):
        SEEN.append(f"{event} {arguments!r}"[:200])


def list_commands(files: Path) -> list[list[object]]:
    """Return command lines, at least one of each command."""
    out = FOLDER / "out"
    return [
        ["inspect", PPO, SAC, files, STATISTICS, BUFFER],
        ["help", "inspect"],
        ["inspect", files / "missing.zip"],
        ["inspect", f"file://{PPO}"],
        ["validate", PPO, SAC],
        ["scan", PPO, files, f"file://{files}", "--format", "sarif"],
        ["extract", PPO, "-o", out / "e.npz"],
        ["diff", PPO, SAC],
        ["edit", PPO, "--set", "gamma=0.5", "-o", out / "edited.zip"],
        ["convert", PPO, "-o", out / "c.safetensors"],
        ["rebuild", PPO, "-o", out / "r.zip"],
        ["rebuild", files, "-o", out / "folder"],
        ["bundle", SAC, "--vecnormalize", STATISTICS, "-o", out / "b.zip"],
        ["unbundle", out / "b.zip", "--vecnormalize", out / "v.pkl", "-o", out / "u.zip"],
        ["predict", PPO, "--observation", "[0, 0, 0, 0]"],
        ["evaluate", PPO, "--env", "CartPole-v1", "-n", "1"],
        ["export", PPO, "-o", out / "p.json"],
        ["export", files, "-o", out / "p.c"],
        ["report", PPO, SAC, files, "-o", out / "report.html"],
        ["catalog", files, "-o", out / "c.csv"],
        ["completion", "bash"],
    ]


def list_calls(files: Path) -> list[Callable[[], object]]:
    """Return calls of the public functions that take a source."""
    return [
        *(lambda path=path: sbformat.read(path) for path in (PPO, str(SAC), STATISTICS, f"file://{PPO}")),  # type: ignore[misc]
        lambda: sbformat.reads(PPO.read_bytes()),
        lambda: sbformat.read_parameters(PPO),
        lambda: sbformat.safe_open(PPO).keys(),
        *(lambda path=path: sbformat.inspect(path) for path in (PPO, STATISTICS, BUFFER)),  # type: ignore[misc]
        *(lambda path=path: sbformat.scan(path) for path in (PPO, files, f"file://{files}")),  # type: ignore[misc]
        lambda: sbformat.validate(PPO),
        lambda: sbformat.rebuild(PPO),
        lambda: sbformat.load_policy(files).predict([0.1, 0.2, 0.3]),
        lambda: sbformat.load_policy(PPO).predict([0.1, 0.2, 0.3, 0.4]),
        lambda: sbformat.find_agent(files),
        lambda: sbformat.inspect_folder(files),
        lambda: sbformat.read_replay_buffer(BUFFER),
        lambda: sbformat.read_vecnormalize(STATISTICS),
        lambda: sbformat.read(files / "missing.zip"),
    ]


def main() -> None:
    """Run all of it."""
    files = FOLDER / "files"
    files.mkdir()
    (FOLDER / "out").mkdir()
    shutil.copy(SAC, files / "best_model.zip")
    shutil.copy(STATISTICS, files / "vecnormalize.pkl")
    sys.addaudithook(watch)
    warnings.simplefilter("ignore")
    for call in list_calls(files):
        with contextlib.suppress(FileNotFoundError):
            call()
    sbformat.html_report.archive_page.MOST_PLOTS = 2  # to draw all takes a second
    statuses = {}
    for words in list_commands(files):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
            status = sbformat.cli.main([str(word) for word in words])
        statuses[" ".join(str(word) for word in words)] = [status, err.getvalue()]
    found = {
        "events": SEEN,
        "imported": sorted(name for name in PACKAGES if name in sys.modules),
        "statuses": statuses,
        "commands": sorted({words.partition(" ")[0] for words in statuses}),
        "known": sorted(sbformat.cli.COMMANDS),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
