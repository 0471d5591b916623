"""Read, check, edit and write Stable-Baselines3 archives; nothing in a file is ever run, imported or fetched.

Importing this package is cheap: numpy, jsonschema and safetensors load where they are used.
"""

from __future__ import annotations

import sys
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
    from sbformat.archive.algorithm import Algorithm
    from sbformat.archive.archive import Archive
    from sbformat.archive.system_info import SystemInfo
    from sbformat.data import Serialized
    from sbformat.formats.replay_buffer import Episode, ReplayBuffer, read_replay_buffer
    from sbformat.formats.vecnormalize import (
        RunningMeanStd,
        VecNormalize,
        read_vecnormalize,
        write_vecnormalize,
        writes_vecnormalize,
    )
    from sbformat.pth import StateDict, TensorInfo
    from sbformat.reader import read, read_parameters, reads, safe_open
    from sbformat.schema import Problem, iter_problems, validate
    from sbformat.tools.bundle import bundle, unbundle
    from sbformat.tools.compare_system import SystemRow, compare_system
    from sbformat.tools.rebuild import RebuildReport, rebuild, rebuild_vecnormalize
    from sbformat.tools.scan import Finding, ScanReport, scan
    from sbformat.writer import new, write, writes

__version__ = "0.1.0"

_LAZY = {
    "Algorithm": "sbformat.archive.algorithm",
    "Archive": "sbformat.archive.archive",
    "Episode": "sbformat.formats.replay_buffer",
    "Finding": "sbformat.tools.scan",
    "Problem": "sbformat.schema",
    "RebuildReport": "sbformat.tools.rebuild",
    "RunningMeanStd": "sbformat.formats.vecnormalize",
    "ReplayBuffer": "sbformat.formats.replay_buffer",
    "ScanReport": "sbformat.tools.scan",
    "Serialized": "sbformat.data",
    "StateDict": "sbformat.pth",
    "SystemInfo": "sbformat.archive.system_info",
    "SystemRow": "sbformat.tools.compare_system",
    "TensorInfo": "sbformat.pth",
    "VecNormalize": "sbformat.formats.vecnormalize",
    "bundle": "sbformat.tools.bundle",
    "compare_system": "sbformat.tools.compare_system",
    "iter_problems": "sbformat.schema",
    "new": "sbformat.writer",
    "read": "sbformat.reader",
    "read_parameters": "sbformat.reader",
    "read_replay_buffer": "sbformat.formats.replay_buffer",
    "read_vecnormalize": "sbformat.formats.vecnormalize",
    "reads": "sbformat.reader",
    "rebuild": "sbformat.tools.rebuild",
    "rebuild_vecnormalize": "sbformat.tools.rebuild",
    "safe_open": "sbformat.reader",
    "scan": "sbformat.tools.scan",
    "unbundle": "sbformat.tools.bundle",
    "validate": "sbformat.schema",
    "write": "sbformat.writer",
    "write_vecnormalize": "sbformat.formats.vecnormalize",
    "writes": "sbformat.writer",
    "writes_vecnormalize": "sbformat.formats.vecnormalize",
}

__all__ = [
    "DEFAULT_LIMITS",
    "Algorithm",
    "Archive",
    "ContainerError",
    "DataError",
    "Episode",
    "Finding",
    "FormatError",
    "LimitError",
    "Limits",
    "MissingEntryError",
    "PickleError",
    "Problem",
    "RebuildReport",
    "ReplayBuffer",
    "RunningMeanStd",
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
    "VecNormalize",
    "__version__",
    "bundle",
    "compare_system",
    "iter_problems",
    "new",
    "read",
    "read_parameters",
    "read_replay_buffer",
    "read_vecnormalize",
    "reads",
    "rebuild",
    "rebuild_vecnormalize",
    "safe_open",
    "scan",
    "unbundle",
    "validate",
    "write",
    "write_vecnormalize",
    "writes",
    "writes_vecnormalize",
]


def __getattr__(name: str) -> Any:
    """Load the rooms behind the front door when they are first asked for."""
    if name not in _LAZY:
        message = f"module 'sbformat' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
