"""``export_onnx``: a policy as an ONNX model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError, quote, require_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.export.files import ExportReport
    from sbformat.policies.run.policy import Policy

OPSETS: Final = range(13, 22)
"""The opsets that are tested. Before 13, axes of Squeeze and Softmax mean something else."""
_LARGEST_BATCH: Final = 2**31 - 1


def export_onnx(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] = ("action",),
    opset: int = 17,
    batch: str | int = "batch",
    raw: bool = False,
    deterministic: bool = True,
    overwrite: bool = False,
) -> ExportReport:
    """Write a policy as an ONNX model, which computes everything from the observation to the action.

    Encoding of the observation, VecNormalize's statistics and the bounds of the action are in the model. Inputs are
    named ``observation``, or by the keys of a Dict, and have the dtype of their space and the shape (batch, ...).
    Masks, ``episode_start`` and recurrent states are inputs where an output depends on them; the next states are
    outputs. Everything is computed in float32, within 1e-5 of :meth:`sbformat.Policy.outputs`, or of the width of the
    bounds that an action is scaled to. The same agent gives the same bytes. The extra ``onnx`` installs what this
    needs; torch and Stable-Baselines3 are not used.

    An index that a Discrete does not contain is not refused as ``predict`` refuses it, and neither is NaN.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the file
    :param outputs: names of outputs of the policy's graph: ``action``, ``logits``, ``mean``, ``value``, ...
    :param opset: the version of ONNX's operators, 13 to 21. A newer one needs a newer runtime
    :param batch: the name of the first axis, whose size is free; or its size
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param deterministic: a model has no random numbers, so False is refused
    :param overwrite: replace a file that exists
    :return: inputs, outputs and sizes
    :raises ValueError: for an output that the policy does not have, another opset or batch
    :raises UnsupportedError: when ``onnx`` is not installed; for modules that the caller supplied as functions; for
        2 GiB of weights or more
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`
    :raises FileExistsError: when the file exists and ``overwrite`` is False

    Example::

        report = sbformat.export_onnx("agent.zip", "agent.onnx", outputs=("action", "value"))
        session = onnxruntime.InferenceSession("agent.onnx")
        action, value = session.run(None, {"observation": observations})

    Source: POLICIES.md 20; https://onnx.ai/onnx/operators.
    """
    _check_arguments(path, opset, batch)
    _require_onnx()
    from sbformat.policies.export.files import ExportReport, write_files
    from sbformat.policies.export.lowering import lower
    from sbformat.policies.onnx.model import write_model
    from sbformat.policies.onnx.names import require_text
    from sbformat.policies.onnx.translate import translate

    lowered = lower(policy, outputs, raw=raw, deterministic=deterministic)
    for port in (*lowered.inputs, *lowered.outputs):
        require_text(port.name)
    writer = translate(lowered, opset, batch if isinstance(batch, int) else None)
    files = write_files({os.fspath(path): write_model(lowered, writer, batch)}, overwrite=overwrite)
    return ExportReport(
        "onnx", files, lowered.inputs, lowered.outputs, len(writer.steps), lowered.constant_count, lowered.metadata
    )


def _check_arguments(path: object, opset: object, batch: object) -> None:
    """Refuse arguments before a policy is loaded.

    :raises TypeError: for another type
    :raises ValueError: for a value that is not possible
    """
    require_type(path, (str, os.PathLike), "a path")
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in OPSETS:
        message = f"expected an opset from {OPSETS[0]} to {OPSETS[-1]}, got {quote(opset, 40)}"
        raise ValueError(message)
    require_type(batch, (str, int), "a name or a size as batch")
    if isinstance(batch, str):
        is_valid = batch.isidentifier() and batch.isascii()
    else:
        is_valid = not isinstance(batch, bool) and 1 <= batch <= _LARGEST_BATCH  # type: ignore[operator]
    if not is_valid:
        message = f"expected a name such as batch, or a size of 1 or more as batch, got {quote(batch, 40)}"
        raise ValueError(message)


def _require_onnx() -> None:
    """Refuse to begin without the package.

    :raises UnsupportedError: when it is not installed
    """
    try:
        import onnx  # noqa: F401 -- whether it is there
    except ImportError:
        message = "to write ONNX models, the package onnx is needed: pip install 'sbformat[onnx]'"
        raise UnsupportedError(message) from None
