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
    from sbformat.replay_buffer import Episode, ReplayBuffer, read_replay_buffer
    from sbformat.schema import Problem, iter_problems, validate
    from sbformat.system_info import SystemInfo
    from sbformat.tools.bundle import bundle, unbundle
    from sbformat.tools.compare_system import SystemRow, compare_system
    from sbformat.tools.rebuild import RebuildReport, rebuild, rebuild_vecnormalize
    from sbformat.tools.scan import Finding, ScanReport, scan
    from sbformat.vecnormalize import (
        RunningMeanStd,
        VecNormalize,
        read_vecnormalize,
        write_vecnormalize,
        writes_vecnormalize,
    )
    from sbformat.writer import new, write, writes

__version__ = "0.1.0"

_LAZY = {
    "Algorithm": "sbformat.algorithm",
    "Archive": "sbformat.archive",
    "Episode": "sbformat.replay_buffer",
    "Finding": "sbformat.tools.scan",
    "Problem": "sbformat.schema",
    "RebuildReport": "sbformat.tools.rebuild",
    "RunningMeanStd": "sbformat.vecnormalize",
    "ReplayBuffer": "sbformat.replay_buffer",
    "ScanReport": "sbformat.tools.scan",
    "Serialized": "sbformat.data",
    "StateDict": "sbformat.pth",
    "SystemInfo": "sbformat.system_info",
    "SystemRow": "sbformat.tools.compare_system",
    "TensorInfo": "sbformat.pth",
    "VecNormalize": "sbformat.vecnormalize",
    "bundle": "sbformat.tools.bundle",
    "compare_system": "sbformat.tools.compare_system",
    "iter_problems": "sbformat.schema",
    "new": "sbformat.writer",
    "read": "sbformat.reader",
    "read_parameters": "sbformat.reader",
    "read_replay_buffer": "sbformat.replay_buffer",
    "read_vecnormalize": "sbformat.vecnormalize",
    "reads": "sbformat.reader",
    "rebuild": "sbformat.tools.rebuild",
    "rebuild_vecnormalize": "sbformat.tools.rebuild",
    "safe_open": "sbformat.reader",
    "scan": "sbformat.tools.scan",
    "unbundle": "sbformat.tools.bundle",
    "validate": "sbformat.schema",
    "write": "sbformat.writer",
    "write_vecnormalize": "sbformat.vecnormalize",
    "writes": "sbformat.writer",
    "writes_vecnormalize": "sbformat.vecnormalize",
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
