"""Install sbformat, as it is in this repository, into an environment of its own: the first step of the GitHub Action.

Environment variables, which the runner sets: ``GITHUB_ACTION_PATH``, this repository; ``RUNNER_TEMP``, a folder for
temporary files; ``GITHUB_OUTPUT``, the file that receives ``python``, the interpreter of the environment.

Every program runs with ``-I``: the folder that the step runs in is the repository that is scanned, and without ``-I``
a file ``pip.py`` or ``json.py`` in it would be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys


def main() -> int:
    """Create the environment; return the exit status."""
    folder = os.path.join(os.environ["RUNNER_TEMP"], "sbformat-environment")
    python = os.path.join(folder, *(("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")))
    source = os.environ["GITHUB_ACTION_PATH"]
    subprocess.run([sys.executable, "-I", "-m", "venv", "--clear", folder], check=True)
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source], check=True)
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.write(f"python={python}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
