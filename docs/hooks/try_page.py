"""Makes the page "Try it" of the site, ``try/``: sbformat in Pyodide.

In: ``docs/try/``, the package, and the npm package pyodide in the folder that SBFORMAT_NODE_MODULES names. Out: the
files of ``try/``, the same for the same checkout. ``files.js`` has the SHA-384 of every file that the page and its
worker load, and ``index.html`` those of its styles and scripts. Those of Pyodide are pinned in
``docs/try/pyodide.json``: files that differ end the build. Without the npm package the page is made without Pyodide,
and says so; the build says it, too, with a warning if the folder is named and does not have it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import re
import zipfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "try"
NODE_MODULES: Final = "SBFORMAT_NODE_MODULES"
PYODIDE: Final[dict[str, Any]] = json.loads((FOLDER / "pyodide.json").read_text("utf-8"))
"""The version of the npm package, and the SHA-384 of each file of it that the page loads."""

_LOG: Final = logging.getLogger("mkdocs.hooks.try_page")  # MkDocs counts the warnings of loggers below its own
_PACKAGE: Final = ROOT / "sbformat"
_TEMPLATES: Final = _PACKAGE / "html_report" / "templates"
_COPIED: Final = (
    *(FOLDER / name for name in ("try.js", "worker.js", "try.css")),
    *(_TEMPLATES / name for name in ("style.css", "panel.css", "panel.js")),
    _PACKAGE / "policies" / "javascript" / "runtime.js",
    *(ROOT / "tests" / "archives" / name for name in ("ppo-cartpole.zip", "dangerous.zip")),
)
_LINKED: Final = re.compile(r"(?:src|href)=\"([\w.-]+\.(?:js|css))\"")


def make_files(modules: Path | None) -> dict[str, bytes]:
    """Return the files of ``try/`` by their names.

    :param modules: a folder with the npm package pyodide; None for a page without Pyodide
    :raises ValueError: when a file of Pyodide is not the one that is pinned
    """
    files = {path.name: path.read_bytes() for path in _COPIED}
    files["sbformat.zip"] = pack()
    if modules is not None:
        files |= {f"pyodide/{name}": read_pinned(modules / "pyodide" / name) for name in PYODIDE["files"]}
    digests = {name: digest(content) for name, content in files.items()}
    files["files.js"] = f"export const FILES = {json.dumps(digests, indent=2)};\n".encode()

    def add_digest(found: re.Match[str]) -> str:
        return f'{found[0]} integrity="{digest(files[found[1]])}"'

    files["index.html"] = _LINKED.sub(add_digest, (FOLDER / "index.html").read_text("utf-8")).encode()
    return files


def find_modules() -> Path | None:
    """Return the folder with the npm package pyodide; None without one, which is logged."""
    folder = os.environ.get(NODE_MODULES)
    if folder and (Path(folder) / "pyodide").is_dir():
        return Path(folder)
    outcome = 'The page "Try it" is made without Pyodide, and cannot examine files (CONTRIBUTING.md, "Write a page")'
    if folder:
        _LOG.warning("%s: %s names a folder without the npm package pyodide: %s", outcome, NODE_MODULES, folder)
    else:
        _LOG.info("%s: %s is not set", outcome, NODE_MODULES)
    return None


def read_pinned(path: Path) -> bytes:
    """Return a file of Pyodide, whose digest is checked."""
    content = path.read_bytes()
    if digest(content) != PYODIDE["files"][path.name]:
        message = (
            f"{path} is not the file of pyodide {PYODIDE['version']}: its SHA-384 is not that of docs/try/pyodide.json"
        )
        raise ValueError(message)
    return content


def digest(content: bytes) -> str:
    """Return the SHA-384 of a file, as browsers expect it in ``integrity``."""
    return f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"


def pack() -> bytes:
    """Return a zip of the modules of the package, and of ``summary.py``, which the worker imports."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for path in (*sorted(_PACKAGE.rglob("*.py")), FOLDER / "summary.py"):
            top = FOLDER if path.parent == FOLDER else ROOT
            info = zipfile.ZipInfo(path.relative_to(top).as_posix())  # of 1980, on every system
            file.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
