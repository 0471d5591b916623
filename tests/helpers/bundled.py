"""The bundled archives, and archives made of them by one change."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbformat.data import dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat import Archive

ROOT: Final = Path(__file__).parents[2]
ARCHIVES: Final = ROOT / "tests" / "archives"
PPO: Final = ARCHIVES / "ppo-cartpole.zip"
SAC: Final = ARCHIVES / "sac-pendulum.zip"


def set_data(archive: Archive, data: Mapping[str, Any]) -> Archive:
    """An archive with other ``data``, which need not be valid."""
    return archive.with_entries({"data": dumps(data)})


def entries(path: Path | io.BytesIO = PPO) -> dict[str, bytes]:
    """The entries of a bundled archive, by the standard library."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(contents: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of these entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return buffer.getvalue()


def changed(path: Path = PPO, *, without: tuple[str, ...] = (), **replaced: bytes) -> bytes:
    """A bundled archive with entries left out or replaced; ``policy_pth`` stands for ``policy.pth``."""
    contents = {name: content for name, content in entries(path).items() if name not in without}
    names = {name.replace(".", "_"): name for name in contents}
    contents.update({names.get(key, key): value for key, value in replaced.items()})
    return zipped(contents)


def with_data(change: Callable[[dict[str, Any]], object], path: Path = PPO) -> bytes:
    """A bundled archive whose ``data`` was changed in place."""
    data = json.loads(entries(path)["data"])
    change(data)
    return changed(path, data=json.dumps(data, indent=4).encode())
