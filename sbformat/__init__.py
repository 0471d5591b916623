"""Read, check, edit and write Stable-Baselines3 archives; nothing in a file is ever run, imported or fetched.

Importing this package is cheap: numpy, jsonschema and safetensors load where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.errors import (
    ContainerError,
    DataError,
    FormatError,
    LimitError,
    MissingEntryError,
    PickleError,
    SbformatError,
    TensorError,
    UnsupportedError,
    ValidationError,
)
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from sbformat.algorithm import Algorithm
    from sbformat.archive import Archive
    from sbformat.data import Serialized
    from sbformat.pth import StateDict, TensorInfo
    from sbformat.reader import read, read_parameters, reads, safe_open
    from sbformat.schema import Problem, iter_problems, validate
    from sbformat.system_info import SystemInfo
    from sbformat.tools.compare_system import SystemRow, compare_system
    from sbformat.tools.rebuild import RebuildReport, rebuild
    from sbformat.tools.scan import Finding, ScanReport, scan
    from sbformat.writer import new, write, writes

__version__ = "0.1.0"

_LAZY = {
    "Algorithm": "sbformat.algorithm",
    "Archive": "sbformat.archive",
    "Finding": "sbformat.tools.scan",
    "Problem": "sbformat.schema",
    "RebuildReport": "sbformat.tools.rebuild",
    "ScanReport": "sbformat.tools.scan",
    "Serialized": "sbformat.data",
    "StateDict": "sbformat.pth",
    "SystemInfo": "sbformat.system_info",
    "SystemRow": "sbformat.tools.compare_system",
    "TensorInfo": "sbformat.pth",
    "compare_system": "sbformat.tools.compare_system",
    "iter_problems": "sbformat.schema",
    "new": "sbformat.writer",
    "read": "sbformat.reader",
    "read_parameters": "sbformat.reader",
    "reads": "sbformat.reader",
    "rebuild": "sbformat.tools.rebuild",
    "safe_open": "sbformat.reader",
    "scan": "sbformat.tools.scan",
    "validate": "sbformat.schema",
    "write": "sbformat.writer",
    "writes": "sbformat.writer",
}

__all__ = [
    "DEFAULT_LIMITS",
    "Algorithm",
    "Archive",
    "ContainerError",
    "DataError",
    "Finding",
    "FormatError",
    "LimitError",
    "Limits",
    "MissingEntryError",
    "PickleError",
    "Problem",
    "RebuildReport",
    "SbformatError",
    "ScanReport",
    "Serialized",
    "StateDict",
    "SystemInfo",
    "SystemRow",
    "TensorError",
    "TensorInfo",
    "UnsupportedError",
    "ValidationError",
    "__version__",
    "compare_system",
    "iter_problems",
    "new",
    "read",
    "read_parameters",
    "reads",
    "rebuild",
    "safe_open",
    "scan",
    "validate",
    "write",
    "writes",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load the rooms behind the front door when they are first asked for."""
    if name not in _LAZY:
        message = f"module 'sbformat' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
