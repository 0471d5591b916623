"""The tasks of the workers: for each subject that can perform it, prepared once and then called.

What is prepared (the file's bytes in memory, arrays to write) is not part of what is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import rivals
from benchmarks.exported import RUNNERS
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Callable


def read_policy(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001 -- all tasks have the same parameters
    return lambda: rivals.READERS[subject].read(source, "policy")


def read_optimizer(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    return lambda: rivals.READERS[subject].read(source, "policy.optimizer")


def scan(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    return lambda: rivals.SCANNERS[subject].scan(source)


def validate(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    import sbformat

    return lambda: sbformat.validate(source)


def rebuild(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Rebuild an archive in memory."""
    import sbformat

    return lambda: sbformat.rebuild(source)


def read_data(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Read ``data``; the rivals read its JSON only."""
    if subject == US:
        import sbformat

        return lambda: sbformat.read(source).data
    import json

    def plain() -> object:
        with rivals.open_outer_zip(source) as archive:
            return json.loads(archive.read("data"))

    return plain


# -- writing ------------------------------------------------------------------------------------------


def write(subject: str, source: Any, output: str) -> Callable[[], object]:
    """Write an archive whose policy is in memory."""
    import sbformat

    template = sbformat.read(source)
    weights = sbformat.read(source, copy=True).parameters["policy"].to_numpy()
    if subject == US:
        return lambda: sbformat.write(template.replace(parameters={"policy": weights}), output, overwrite=True)
    plain = {name: template.raw(name).tobytes() for name in template.entries if name != "policy.pth"}
    return lambda: write_as_sb3(weights, plain, output, is_synced=subject == "torch, synced")


def write_as_sb3(weights: dict[str, Any], plain: dict[str, bytes], output: str, *, is_synced: bool) -> None:
    """Write as ``save_to_zip_file`` does; ``synced`` waits for the disk, as sbformat does."""
    import os
    import zipfile

    import torch

    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    with open(output, "wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in plain.items():
                archive.writestr(name, content)
            with archive.open("policy.pth", "w", force_zip64=True) as entry:
                torch.save(tensors, entry)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


# -- growth -------------------------------------------------------------------------------------------


def read_wide(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Read a policy above the default limits."""
    import sbformat
    from benchmarks.files import WIDE

    def call() -> object:
        return sbformat.read(source, limits=WIDE).parameters["policy"].to_numpy()

    return call


def read_entries(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Read every entry that SB3 ignores."""
    import sbformat
    from benchmarks.files import WIDE

    return lambda: list(sbformat.read(source, limits=WIDE).extra.values())


def decode_blob(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Decode a pickle of ``data`` and make its array."""
    import sbformat
    from benchmarks.files import BLOB_KEY, WIDE

    return lambda: sbformat.read(source, limits=WIDE).decode(BLOB_KEY).to_numpy()


def scan_wide(subject: str, source: Any, output: str) -> Callable[[], object]:  # noqa: ARG001
    """Scan above the default limits."""
    import sbformat
    from benchmarks.files import WIDE

    return lambda: sbformat.scan(source, limits=WIDE)


# -- policies -----------------------------------------------------------------------------------------

PREDICTIONS: Final = {"predict-one": (50, 1), "predict-batch": (1, 4096), "predict-image": (5, 1)}
"""By task, the calls that are timed together and the observations of each."""


def predict(subject: str, source: Any, repeats: int, count: int) -> Callable[[], object]:
    """Predict several times: one observation as an environment returns it, or a batch."""
    import numpy as np

    from benchmarks.agents import AGENTS
    from benchmarks.predictors import PREDICTORS, WITH_BATCH, name_of

    shape = AGENTS[name_of(source)].observation
    random = np.random.default_rng(0)
    observations = random.uniform(-1, 1, (count, *shape)).astype(np.float32)
    if len(shape) == 3:
        observations = random.integers(0, 256, (count, *shape), np.uint8)
    given = observations if count > 1 or subject in WITH_BATCH else observations[0]
    function = PREDICTORS[subject].make(source)

    def call() -> object:
        for _ in range(repeats):
            made = function(given)
        return made

    return call


def predicting(task: str) -> Callable[[str, Any, str], Callable[[], object]]:
    """Return the task that predicts as often as it says."""
    return lambda subject, source, _: predict(subject, source, *PREDICTIONS[task])


# -- exports ------------------------------------------------------------------------------------------


def export(subject: str, source: Any, output: str) -> Callable[[], object]:
    """Export an agent that is loaded to ONNX."""
    from benchmarks.exporters import EXPORTERS

    exporter = EXPORTERS[subject]
    agent = exporter.load(source)
    return lambda: exporter.export(agent, output)


def running(task: str) -> Callable[[str, Any, str], Callable[[], object]]:
    """Return the task that runs an exported file, whoever wrote it."""
    return lambda _, source, __: RUNNERS[task].make(source)


TASKS: Final[dict[str, Callable[[str, Any, str], Callable[[], object]]]] = {
    "policy": read_policy,
    "optimizer": read_optimizer,
    "scan": scan,
    "validate": validate,
    "rebuild": rebuild,
    "data": read_data,
    "write": write,
    "read-wide": read_wide,
    "entries": read_entries,
    "blob": decode_blob,
    "scan-wide": scan_wide,
    "export": export,
    **{task: predicting(task) for task in PREDICTIONS},
    **{task: running(task) for task in RUNNERS},
}


def prepare_task(subject: str, task: str, path: str, *, is_held: bool, output: str = "") -> Callable[[], object]:
    """Return the function to call: over the bytes of the file in memory, or over its path."""
    return TASKS[task](subject, Path(path).read_bytes() if is_held else path, output)
