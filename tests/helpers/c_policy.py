"""A policy in C with the interface of ``sbformat.Policy``: compiled to a shared library, called through ctypes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from tests.helpers.exported_policy import ExportedPolicy

if TYPE_CHECKING:
    from sbformat import Policy
    from sbformat.policies.export.files import ExportReport

STRICT: Final = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-Wdouble-promotion")
C99: Final = ("-std=c99", *STRICT)
CPLUSPLUS: Final = ("-x", "c++", "-std=c++17", *STRICT)
_FUNCTION: Final = re.compile(r"^void (\w+)_predict\(", re.MULTILINE)


def find_program(name: str = "gcc") -> str:
    """Return the path of a compiler or its tools; without it, the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def compile_c(sources: Sequence[Path], target: Path, compiler: str = "gcc", flags: Sequence[str] = C99) -> Path:
    """Compile files; a warning is an error."""
    libraries = () if "-c" in flags else ("-x", "none", "-lm")
    command = [find_program(compiler), *flags, "-o", str(target), *map(str, sources), *libraries]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[:5000]
    return target


def load_library(sources: Sequence[Path], compiler: str = "gcc", flags: Sequence[str] = ("-O2",)) -> ctypes.CDLL:
    """Compile files to a shared library, and load it."""
    with tempfile.TemporaryDirectory(prefix="c-policy-") as folder:
        library = compile_c(sources, Path(folder) / "policy.so", compiler, (*C99, "-shared", "-fPIC", *flags))
        return ctypes.CDLL(str(library))


class CPolicy(ExportedPolicy):
    """A policy that ``export_c`` wrote.

    :param policy: that was exported
    :param c_path: the C file
    :param report: of the export
    :param library: of the compiled file, instead of one of its own
    """

    def __init__(
        self, policy: Policy, c_path: Path | str, report: ExportReport, compiler: str = "gcc",
        flags: Sequence[str] = ("-O2",), library: ctypes.CDLL | None = None,
    ) -> None:  # fmt: skip
        super().__init__(policy, report)
        source = Path(c_path)
        found = _FUNCTION.search(source.with_suffix(".h").read_text("utf-8"))
        assert found
        self._function = getattr(library or load_library([source], compiler, flags), f"{found[1]}_predict")
        self._function.restype = None
        order = ("observation", "action_masks", "episode_start")
        self._arguments = [port for role in order for port in report.inputs if port.role == role]
        self._state_ports = [port for port in report.inputs if port.role == "state"]
        states = {f"next_{port.name}" for port in self._state_ports}
        self._outputs = [port for port in report.outputs if port.name not in states]

    def run(self, inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
        made = {port.name: np.empty((count, *port.shape), port.dtype) for port in self._outputs}
        made.update({f"next_{port.name}": np.empty((count, *port.shape), np.float32) for port in self._state_ports})
        for row in range(count):
            arrays = [inputs[port.name][row : row + 1].copy() for port in self._arguments]
            states = [inputs[port.name][row].reshape(-1) for port in self._state_ports]
            if states:  # all are float32: the members of the struct are one after another
                arrays.append(np.concatenate(states))
            results = [made[port.name][row : row + 1] for port in self._outputs]
            self._function(*(ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *results)))
            at = 0
            for port in self._state_ports:
                size = int(np.prod(port.shape))
                made[f"next_{port.name}"][row] = arrays[-1][at : at + size].reshape(port.shape)
                at += size
        return made
