"""Read, check, edit, write and run Stable-Baselines3 agents; no code in a file is ever executed, imported or fetched.

Importing this package is cheap: every name loads its module when it is first used, and numpy, jsonschema and
safetensors load where they are needed. Type checkers read ``__init__.pyi``, which has the same names.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # of typing, which takes as long to import as all else that --version needs
if TYPE_CHECKING:
    from typing import Any, Final

__version__ = "0.1.0"

_MODULES: Final = {
    "archive.archive": "Archive NotChecked",
    "archive.entries": "SystemInfo",
    "archive.hyperparameters": "Algorithm",
    "catalogue.catalog": "catalog",
    "data": "LargeValue Serialized",
    "errors": "ContainerError DataError FormatError LimitError MissingEntryError PickleError SbformatError TensorError "
    "UnsupportedError ValidationError",
    "folders.agents": "AgentFiles ChosenAgent FolderReport OtherFile find_agent inspect_folder",
    "formats.replay_buffer": "Episode ReplayBuffer read_replay_buffer",
    "formats.vecnormalize": "RunningMeanStd VecNormalize read_vecnormalize write_vecnormalize writes_vecnormalize",
    "html_report.report": "HtmlReport report",
    "io.urls": "Url",
    "known.types": "ConstantSchedule LinearSchedule",
    "limits": "DEFAULT_LIMITS Limits",
    "policies.c.export": "export_c",
    "policies.export.files": "ExportReport",
    "policies.export.formats": "export",
    "policies.export.lowering": "export_graph",
    "policies.graph": "Graph",
    "policies.javascript.export": "export_javascript",
    "policies.loading": "load_policy policy_graph",
    "policies.onnx": "export_onnx",
    "policies.pytorch.export": "export_torch",
    "policies.run.policy": "Policy",
    "pth": "StateDict TensorInfo",
    "reader": "TensorFile TensorSlice read read_parameters reads safe_open",
    "schema": "Problem iter_problems validate",
    "spaces": "Box Dict Discrete MultiBinary MultiDiscrete",
    "tools.bundle": "Unbundled bundle unbundle",
    "tools.check_target": "TargetReason TargetReport check_target",
    "tools.compare_system": "SystemRow compare_system",
    "tools.convert": "ConvertReport convert",
    "tools.diff": "Change DiffReport diff",
    "tools.edit": "EditReport edit",
    "tools.evaluate": "EvaluationReport evaluate",
    "tools.extract": "ExtractReport extract",
    "tools.inspect": "InspectReport inspect",
    "tools.rebuild": (
        "RebuildReport Rebuilt RebuiltPolicy RebuiltStatistics rebuild rebuild_policy rebuild_vecnormalize"
    ),
    "tools.scan": "Finding ScanReport scan",
    "values": "decode",
    "writer": "new write writes",
}
"""The public names, by the module that defines them."""

_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

_ELSEWHERE: Final = {
    "load": "sbformat.read reads an archive, sbformat.load_policy makes a policy that predicts",
    "loads": "sbformat.reads reads an archive of bytes",
    "load_file": "sbformat.read_parameters reads the tensors",
    "open": "sbformat.safe_open opens an archive to read single tensors",
    "save": "sbformat.write writes an archive",
    "dump": "sbformat.write writes an archive",
    "dumps": "sbformat.writes returns an archive as bytes",
    "save_file": "sbformat.extract and sbformat.convert write tensors to files",
    "load_model": "sbformat.load_policy makes a policy that predicts, sbformat.sb3.load a model of SB3",
    "load_agent": "sbformat.load_policy makes a policy that predicts, sbformat.sb3.load a model of SB3",
    "predict": "sbformat.load_policy makes a policy, whose method predict does it",
    **dict.fromkeys(
        ("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"),
        "sbformat.load_policy runs agents of every algorithm, sbformat.sb3.load takes the class of SB3",
    ),
    **dict.fromkeys(("pkl", "pth", "sb3", "unsafe"), "it is a module: import sbformat.{name}"),
}
"""What to use in place of the names of numpy, safetensors, torch, json and SB3 (docs/decisions/0010), and of modules
until they are imported."""

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604 -- names of the table


def __getattr__(name: str) -> Any:
    """Load the module of a public name when it is first used."""
    if name not in _MODULE_OF:
        hint = f"; {_ELSEWHERE[name].format(name=name)}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'sbformat' has no attribute {name!r}{hint}")
    from importlib import import_module

    value = getattr(import_module(f"sbformat.{_MODULE_OF[name]}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
