"""Files for ``benchmarks.scanners``: ordinary ones, and ones that run a command when their library loads them.

The command is ``echo run > PROOF`` in the current folder, so that a file on the disk proves that it ran.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import sbformat

ARCHIVES: Final = Path(__file__).resolve().parents[1] / "tests" / "archives"
PROOF: Final = "PROOF"
COMMAND: Final = f"echo run > {PROOF}".encode()
DIRECT: Final = b"cos\nsystem\n(S'" + COMMAND + b"'\ntR."
"""A pickle of protocol 0 that calls ``os.system``."""
INDIRECT: Final = b"cgymnasium.envs.registration\nload_env_creator\n(S'os:system'\ntR(S'" + COMMAND + b"'\ntR."
"""The same through a function of gymnasium, which SB3 requires: it imports ``os`` and returns ``os.system``."""
TAGGED: Final = b"!!python/object/apply:os.system ['" + COMMAND + b"']\n"
BENIGN: Final = ("ppo-cartpole.zip", "ppo-cartpole-1.0.zip", "vecnormalize-pendulum.pkl", "replay-buffer-cartpole.pkl")


class ScannedFile(NamedTuple):
    """A file that the scanners get."""

    path: Path
    title: str
    """What it is, for the table."""
    is_harmful: bool
    loader: str | None = None
    """How its library loads it: a key of ``benchmarks.load_child.LOADERS``."""


def make_files(folder: Path) -> list[ScannedFile]:
    """Write all files to a folder that exists."""
    titles = (
        "agent of SB3 2.9",
        "agent of SB3 1.0",
        "`vecnormalize.pkl`",
        "replay buffer",
    )
    for name in BENIGN:
        shutil.copy(ARCHIVES / name, folder / name)
    loaders = ("archive", None, "statistics", "buffer")
    benign = [ScannedFile(folder / name, title, False, how) for name, title, how in zip(BENIGN, titles, loaders)]
    return [*benign, *make_harmful_files(folder), *unzip_files(folder)]


def make_harmful_files(folder: Path) -> list[ScannedFile]:
    """Write the files that run a command."""
    rows = (
        ("policy-system.zip", replace_entry("policy.pth", make_pth(DIRECT)), "command in `policy.pth`", "archive"),
        ("data-system.zip", replace_schedule(DIRECT), "command in `data`", "archive"),
        ("data-indirect.zip", replace_schedule(INDIRECT), "in `data`, through gymnasium", "archive"),
        ("statistics-system.pkl", DIRECT, "command in `vecnormalize.pkl`", "statistics"),
        ("statistics-indirect.pkl", INDIRECT, "the same, through gymnasium", "statistics"),
        ("buffer-system.pkl", DIRECT, "command in a replay buffer", "buffer"),
        ("args.yml", TAGGED, "command in `args.yml`", "yaml"),
    )
    for name, content, _, _ in rows:
        (folder / name).write_bytes(content)
    return [ScannedFile(folder / name, title, True, loader) for name, _, title, loader in rows]


def unzip_files(folder: Path) -> list[ScannedFile]:
    """Unzip three archives, because some scanners do not look into a zip within a zip."""
    rows = (
        ("ppo-cartpole.zip", "agent of SB3 2.9, unzipped", False),
        ("policy-system.zip", "command in `policy.pth`, unzipped", True),
        ("data-system.zip", "command in `data`, unzipped", True),
    )
    files = []
    for name, title, is_harmful in rows:
        path = folder / name.removesuffix(".zip")
        with zipfile.ZipFile(folder / name) as archive:
            archive.extractall(path)
        files.append(ScannedFile(path, title, is_harmful))
    return files


def make_pth(pickled: bytes) -> bytes:
    """Return a torch file around a pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as records:
        records.writestr("archive/data.pkl", pickled)
        records.writestr("archive/version", b"3\n")
    return file.getvalue()


def replace_entry(name: str, content: bytes) -> bytes:
    """Return the PPO archive with one entry replaced."""
    file = io.BytesIO()
    with zipfile.ZipFile(ARCHIVES / BENIGN[0]) as old, zipfile.ZipFile(file, "w") as new:
        for entry in old.namelist():
            new.writestr(entry, content if entry == name else old.read(entry))
    return file.getvalue()


def replace_schedule(pickled: bytes) -> bytes:
    """Return the PPO archive with another pickle as its learning rate schedule."""
    archive = sbformat.read(ARCHIVES / BENIGN[0])
    schedule = sbformat.Serialized("<class 'function'>", pickled)
    return sbformat.writes(archive.replace(data={**archive.data, "lr_schedule": schedule}))
