"""``export_onnx``: a policy as an ONNX model, which the ``onnx`` package makes and checks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat.errors import UnsupportedError, escape, quote, require_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.export.files import ExportReport, Port
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.onnx.translate import Step, Writer
    from sbformat.policies.run.policy import Policy

OPSETS: Final = range(13, 22)
"""The opsets that are tested. Before 13, axes of Squeeze and Softmax mean something else."""
_LARGEST_BATCH: Final = 2**31 - 1
MOST_BYTES: Final = 2**31 - 2**24
"""Of weights, in a file of protobufs, which is less than 2 GiB (https://protobuf.dev/programming-guides/proto-limits)."""
_FAULT: Final = 500
"""Characters of a message of the checker."""


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
    from sbformat.policies.onnx.translate import require_text, translate

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


# -- the model ----------------------------------------------------------------------------------------


def write_model(lowered: Lowered, writer: Writer, batch: str | int) -> bytes:
    """Return the file of a model, checked by the ``onnx`` package.

    :param lowered: inputs, outputs and metadata
    :param writer: steps and initializers
    :param batch: the name or the size of the first axis
    :raises UnsupportedError: for more weights than a file has room for, and when the check fails
    """
    import onnx

    size = sum(array.nbytes for array in writer.initializers.values())
    if size > MOST_BYTES:
        message = f"expected at most {MOST_BYTES:,} bytes of weights in an ONNX file, got {size:,}"
        raise UnsupportedError(message)
    content: bytes = _make_model(lowered, writer, batch).SerializeToString(deterministic=True)
    try:
        onnx.checker.check_model(content, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        message = f"the onnx package refuses the model: {escape(str(error), _FAULT)}"
        raise UnsupportedError(message) from error
    return content


def _make_model(lowered: Lowered, writer: Writer, batch: str | int) -> Any:
    from onnx import helper, numpy_helper

    from sbformat.policies.export.files import summarize_origin

    graph = helper.make_graph(
        [_make_node(step) for step in writer.steps],
        _encode(lowered.metadata.get("algorithm", "policy")),
        _describe_ports(lowered.inputs, batch),
        _describe_ports(lowered.outputs, batch),
    )
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph,
        opset_imports=[opset],
        ir_version=helper.find_min_ir_version_for([opset]),
        producer_name="sbformat",
        producer_version=sbformat.__version__,
        doc_string=_encode(summarize_origin(lowered.metadata)),
    )
    helper.set_model_props(model, {name: _encode(text) for name, text in lowered.metadata.items()})
    for name, array in writer.initializers.items():  # not before, because a model has copies of its parts
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _make_node(step: Step) -> Any:
    import numpy as np
    from onnx import helper

    attributes: dict[str, Any] = dict(step.attributes)
    for name, value in attributes.items():
        if isinstance(value, bool):
            attributes[name] = int(value)
    if step.op == "Cast":
        attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))
    return helper.make_node(step.op, step.inputs, [step.output], step.name, **attributes)


def _describe_ports(ports: Iterable[Port], batch: str | int) -> list[Any]:
    import numpy as np
    from onnx import helper

    return [
        helper.make_tensor_value_info(
            port.name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), [batch, *port.shape]
        )
        for port in ports
    ]


def _encode(text: str) -> str:
    """Return a text of a file without what UTF-8 does not have."""
    return text.encode("utf-8", "backslashreplace").decode()
