"""``write_model``: a checked ONNX model as bytes, of the steps of ``translate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from sbformat.errors import UnsupportedError, escape
from sbformat.policies.export.metadata import summarize_origin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.policies.export.interface import Port
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.onnx.writer import Step, Writer

MOST_BYTES: Final = 2**31 - 2**24
"""Of weights, in a file of protobufs, which is less than 2 GiB (https://protobuf.dev/programming-guides/proto-limits)."""
_FAULT: Final = 500
"""Characters of a message of the checker."""


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
    from onnx import helper

    attributes: dict[str, Any] = dict(step.attributes)
    for name, value in attributes.items():
        if isinstance(value, bool):
            attributes[name] = int(value)
    if step.op == "Cast":
        attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))
    return helper.make_node(step.op, step.inputs, [step.output], step.name, **attributes)


def _describe_ports(ports: Iterable[Port], batch: str | int) -> list[Any]:
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
