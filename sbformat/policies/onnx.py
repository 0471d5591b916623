"""``export_onnx``: a policy as an ONNX model, which the ``onnx`` package makes and checks.

*In*: :class:`~sbformat.policies.export.lowering.Lowered`. *Out*: a file of protobufs. :func:`translate` makes steps and
initializers, plain data in a :class:`Writer`, and :func:`write_model` makes the model of these.

The operators of a graph are ONNX's, and most nodes become one step of the same name with the same attributes. What
differs is here:

- A shape of a graph is that of one item; a value of a model has the batch as its first axis, a constant does not.
  An axis that counts from the end is the same in both. Operands with fewer axes than the result get new ones after
  the batch, not before it, as broadcasting would.
- Some operators take as operands what are attributes in a graph, since various opsets.
- What the opset does not have is composed of other operators.
- Runtimes compute few operators with small integers: such operands are cast to wider ones, and the result back.

Worked example, for x of the shape (batch, 3) and y of (batch, 2, 3)::

    sum  Add(x, y)                  sum/Unsqueeze  Unsqueeze(x, [1])            (batch, 1, 3)
                                    sum            Add(sum/Unsqueeze, y)        (batch, 2, 3)

Sources: https://onnx.ai/onnx/operators; ``docs/OperatorKernels.md`` of onnxruntime.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import sbformat
from sbformat.errors import UnsupportedError, escape, need_extra, quote, require_type
from sbformat.immutable import Record
from sbformat.policies.export.files import ExportReport, summarize_origin, write_files
from sbformat.policies.export.lowering import lower, read_types
from sbformat.policies.operators import OPERATORS, Operand, decompose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.export.lowering import Lowered
    from sbformat.policies.graph import Node
    from sbformat.policies.operators import Shape
    from sbformat.policies.run.kernels import Array
    from sbformat.policies.run.policy import Policy


AXES_AS_OPERAND: Final = 18
"""The opset since which the axes of all reductions are an operand."""
SHAPE_WITH_RANGE: Final = 15
"""The opset since which Shape returns a range of axes."""
_MOST_CHARACTERS: Final = 120
_WIDER: Final = {
    "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64",
}  # fmt: skip
"""The dtype in which other operators compute with integers that runtimes do not have there."""


def translate(lowered: Lowered, opset: int, batch: int | None) -> Writer:
    """Return the steps and initializers of a model.

    :param batch: the size of a batch; None when it is not fixed
    """
    writer = Writer(lowered, opset, batch)
    clips = find_clips(lowered)
    skipped = {clip.inner for clip in clips.values()}
    for node in lowered.nodes:
        clip = clips.get(node.name)
        if clip is not None:
            bounds = [writer.add_numbers(bound, "bound") for bound in (clip.low, clip.high)]
            writer.add_result(node, "Clip", [writer.find(clip.value).name, *bounds])
        elif node.name not in skipped:
            _translate_node(writer, node)
    writer.add_outputs()
    return writer


def _translate_node(writer: Writer, node: Node) -> None:
    values = [writer.find(name) for name in node.inputs]
    row = OPERATORS[node.op]
    wide = None if row.moves else _WIDER.get(values[-1].dtype)
    if 0 in node.shape:  # a Reshape to 0 would mean something else
        empty = writer.add_numbers(np.empty((1, *node.shape), node.dtype), "empty")
        writer.add_result(node, "Expand", [empty, writer.add_shape(node.shape, node.name)])
    elif row.onnx > writer.opset:
        _add_parts(writer, node, values)
    elif wide is not None:
        _compute_wide(writer, node, values, wide)
    else:
        globals()[row.onnx_write](writer, node, values)


def _add_parts(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """Translate the parts of an operator that the opset does not have."""
    operands = [Operand(value.dtype, value.shape, value.array is not None) for value in values]
    parts = decompose(node, operands, f"opset {writer.opset} of ONNX", writer.types)
    for value in values:
        writer.refer(value)
    for name, (what, number) in parts.numbers.items():
        writer.add_number(name, np.array(number, node.dtype), what)
    *inner, last = parts.nodes
    for part in inner:
        writer.name_part(part.name, f"{_label(node)}/{part.op}")
        _translate_node(writer, part._replace(module=_label(node)))
    _translate_node(writer, last)


def add_plain(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """Add a step of the same operands and attributes."""
    writer.add_result(node, node.op, _refer(writer, node, values), **node.attributes)


def _refer(writer: Writer, node: Node, values: Sequence[Value]) -> list[str]:
    """Return the names of operands; those of an elementwise operator have as many axes as the result, or broadcast."""
    names = []
    for value in values:
        missing = len(node.shape) - len(value.shape) if OPERATORS[node.op].is_elementwise else 0
        if value.array is not None or not missing:
            names.append(writer.refer(value))
        else:
            axes = writer.add_axes(range(1, 1 + missing))
            names.append(writer.add_part(node, "Unsqueeze", [value.name, axes]))
    return names


def _compute_wide(writer: Writer, node: Node, values: Sequence[Value], wide: str) -> None:
    """Compute with wider integers; a result of the same dtype is cast back, as C does."""
    narrow = values[-1].dtype
    made = []
    for value in values:
        if value.dtype != narrow:  # the condition of Where
            made.append(value)
        elif value.array is not None:
            made.append(value._replace(name=f"{value.name}/{wide}", array=value.array.astype(wide), dtype=wide))
        else:
            made.append(value._replace(name=writer.add_part(node, "Cast", [value.name], to=wide), dtype=wide))
    add: Callable[..., None] = globals()[OPERATORS[node.op].onnx_write]
    if node.dtype != narrow:
        add(writer, node, made)
        return
    inner = node._replace(name=f"{node.name}/{wide}", dtype=wide)
    add(writer, inner, made)
    writer.add_result(node, "Cast", [writer.find(inner.name).name], to=narrow)


# -- operators that differ ----------------------------------------------------------------------------


def add_slope(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """PRelu; the slope of ONNX does not change the shape of x."""
    x, slope = values
    if x.array is None and x.shape == node.shape:
        add_plain(writer, node, values)
        return
    names = _refer(writer, node, [x, slope])
    zero = writer.add_numbers(np.zeros((), node.dtype), "number")
    is_below = writer.add_part(node, "Less", [names[0], zero])
    below = writer.add_part(node, "Mul", names)
    writer.add_result(node, "Where", [is_below, below, names[0]])


def add_one_hot(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """An index that is too large gives zeros; ONNX counts a negative one from the end, but no space contains one."""
    depth = writer.add_numbers(np.array(node.attributes["depth"], np.int64), "depth")
    items = writer.add_numbers(np.array([0, 1], node.dtype), "off and on")
    writer.add_result(node, "OneHot", [writer.refer(values[0]), depth, items], axis=-1)


def add_transpose(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """The axes count the batch."""
    axes = (0, *(axis + 1 for axis in node.attributes["axes"]))
    writer.add_result(node, "Transpose", [writer.refer(values[0])], perm=axes)


def add_reshape(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """The size 0 means that of the operand: the batch."""
    writer.add_result(node, "Reshape", [writer.refer(values[0]), writer.add_axes((0, *node.shape), "shape")])


def add_concat(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """Every operand has a batch axis of the same size."""
    names = []
    for value in values:
        if value.array is None:
            names.append(value.name)
        else:
            operands = [writer.refer(value), writer.add_shape(value.shape, node.name)]
            names.append(writer.add_part(node, "Expand", operands))
    writer.add_result(node, "Concat", names, **node.attributes)


def add_slice(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """Start, end and axis are operands."""
    ends = [writer.add_axes([node.attributes[name]], name) for name in ("start", "end", "axis")]
    writer.add_result(node, "Slice", [writer.refer(values[0]), *ends])


def add_reduction(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """By default ONNX keeps the axes, which are an attribute, and since an opset an operand; of a sum always."""
    x, axis, keepdims = writer.refer(values[0]), node.attributes["axis"], node.attributes.get("keepdims", False)
    if node.op == "ArgMax":
        writer.add_result(node, node.op, [x], axis=axis, keepdims=keepdims)
    elif node.op == "ReduceMean" and np.dtype(node.dtype).kind != "f":  # runtimes have that of floats
        total = writer.add_part(node, "ReduceSum", [x, writer.add_axes([axis])], keepdims=keepdims)
        count = writer.add_numbers(np.array(values[0].shape[axis], node.dtype), "count")
        writer.add_result(node, "Div", [total, count])
    elif node.op == "ReduceSum" or writer.opset >= AXES_AS_OPERAND:
        writer.add_result(node, node.op, [x, writer.add_axes([axis])], keepdims=keepdims)
    else:
        writer.add_result(node, node.op, [x], axes=[axis], keepdims=keepdims)


def add_normalization(writer: Writer, node: Node, values: Sequence[Value]) -> None:
    """LayerNormalization; scale and bias of ONNX do not have a batch axis."""
    x, *weights = values
    is_plain = x.array is None and all(weight.array is not None for weight in weights)
    (add_plain if is_plain else _add_parts)(writer, node, values)


# -- clips --------------------------------------------------------------------------------------------


class Clip(Record):
    """Two nodes as one."""

    inner: str
    """The node that is computed first, which nothing else uses."""
    value: str
    """What it is computed of."""
    low: Array
    high: Array


def find_clips(lowered: Lowered) -> Mapping[str, Clip]:
    """Return the clips of a graph, by the name of the second node of each."""
    uses = Counter(name for node in lowered.nodes for name in node.inputs)
    uses.update(port.value for port in lowered.outputs)
    bounded: dict[str, tuple[Node, str, Array]] = {}
    """Nodes with a bound that is one number, with the other operand and the number."""
    clips = {}
    for node in lowered.nodes:
        found = _find_bound(node, lowered.constants)
        if found is None:
            continue
        value, bound = found
        bounded[node.name] = (node, value, bound)
        inner = bounded.get(value)
        if inner is None or inner[0].op == node.op or uses[value] > 1 or value in clips or inner[0].shape != node.shape:
            continue
        low, high = (inner[2], bound) if node.op == "Min" else (bound, inner[2])
        if node.op == "Min" or low <= high:  # a Clip has its upper bound last
            clips[node.name] = Clip(value, inner[1], low, high)
    return clips


def _find_bound(node: Node, constants: Mapping[str, Array]) -> tuple[str, Array] | None:
    """Return the operand that is bounded and the bound, if that is one number that does not change the shape."""
    if node.op not in ("Max", "Min") or node.dtype != "float32":
        return None
    for value, bound in (node.inputs, node.inputs[::-1]):
        array = constants.get(bound)
        if array is None or value in constants or not array.size or array.ndim > len(node.shape):
            continue
        number = array.reshape(-1)[0]
        if (array == number).all():
            return value, np.array(number)
    return None


# -- the model ----------------------------------------------------------------------------------------


class Step(Record):
    """A node of the model."""

    op: str
    inputs: tuple[str, ...]
    output: str
    name: str
    attributes: Mapping[str, Any]


class Value(Record):
    """An operand."""

    name: str
    """In the model; of a constant, in the lowered graph."""
    dtype: str
    shape: Shape
    """The shape of one item; that of the whole for a constant."""
    array: Array | None
    """The array of a constant, which does not have a batch axis."""


class Writer:
    """Steps and initializers.

    :param lowered: inputs, outputs and constants
    :param opset: the version of ONNX's operators
    :param batch: the size of a batch; None when it is not fixed

    Example::

        writer = Writer(lowered, 17, None)
        hidden = writer.add_part(node, "Mul", [x, weight])
        writer.add_result(node, "Add", [hidden, bias])
    """

    def __init__(self, lowered: Lowered, opset: int, batch: int | None) -> None:
        self.opset = opset
        self.types = read_types(lowered)
        """Of all values of the graph."""
        self.steps: list[Step] = []
        self.initializers: dict[str, Array] = {}
        self._lowered, self._batch = lowered, batch
        ports = [port.name for port in (*lowered.inputs, *lowered.outputs)]
        self._names, self._step_names = Names(ports), Names()
        self._values = {port.value: Value(port.name, port.dtype, port.shape, None) for port in lowered.inputs}
        self._results: dict[str, str] = {}  # the first output that has each value, by the value's name
        for port in lowered.outputs:
            self._results.setdefault(port.value, port.name)
        self._initializer_names: dict[str, str] = {}
        self._numbers: dict[tuple[str, Shape, bytes], str] = {}
        self._batch_size = ""

    def find(self, name: str) -> Value:
        """Return an operand by its name in the lowered graph."""
        array = self._lowered.constants.get(name)
        return self._values[name] if array is None else Value(name, array.dtype.name, array.shape, array)

    def refer(self, value: Value) -> str:
        """Return the name of an operand in the model; a constant becomes an initializer."""
        if value.array is None:
            return value.name
        if value.name not in self._initializer_names:
            made = self._initializer_names[value.name] = self._names.choose(value.name)
            self.initializers[made] = value.array
        return self._initializer_names[value.name]

    def add_numbers(self, array: Array, what: str) -> str:
        """Return the name of an initializer of a few numbers that the agent does not have; equal ones are one.

        :param what: they are, for the name
        """
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self._names.choose(f"{what} {array.tolist()}")
            self.initializers[self._numbers[key]] = array
        return self._numbers[key]

    def add_number(self, name: str, number: Array, what: str) -> None:
        """Make a number that the agent does not have an operand."""
        self._initializer_names[name] = self.add_numbers(number, what)
        self._values[name] = Value(name, number.dtype.name, (), number)

    def name_part(self, name: str, wanted: str) -> None:
        """Choose a readable name in the model for the result of a node that the graph does not have."""
        self._results[name] = self._names.choose(wanted)

    def add_axes(self, axes: Sequence[int], what: str = "axes") -> str:
        """Return the name of an initializer of integers."""
        return self.add_numbers(np.array(axes, np.int64), what)

    def add_part(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a step that computes a part of a node, and return the name of its result."""
        label = f"{_label(node)}/{op}"
        return self._add(op, inputs, self._names.choose(label), label, attributes)

    def add_result(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Add the step whose result is that of a node."""
        output = self._results.get(node.name) or self._names.choose(node.name)
        self._values[node.name] = Value(output, node.dtype, node.shape, None)
        self._add(op, inputs, output, _label(node, op), attributes)

    def add_outputs(self) -> None:
        """Add what makes outputs of inputs, of constants, and of values that are another output already."""
        for port in self._lowered.outputs:
            value = self.find(port.value)
            if value.array is not None:
                self._add("Expand", [self.refer(value), self.add_shape(port.shape, port.name)], port.name, port.name)
            elif value.name != port.name:
                self._add("Identity", [value.name], port.name, port.name)

    def add_shape(self, shape: Shape, label: str) -> str:
        """Return the name of the shape of a batch of items."""
        if self._batch is not None:
            return self.add_axes((self._batch, *shape), "shape")
        parts = [self._add_batch_size()]
        if not shape:
            return parts[0]
        parts.append(self.add_axes(shape, "shape"))
        return self._add("Concat", parts, self._names.choose(f"{label}/shape"), f"{label}/shape", {"axis": 0})

    def _add_batch_size(self) -> str:
        """Return the name of the size of the batch, with one axis."""
        if not self._batch_size:
            port, label = self._lowered.inputs[0], "batch size"
            output = self._names.choose(label)
            if self.opset >= SHAPE_WITH_RANGE:
                self._add("Shape", [port.name], output, label, {"start": 0, "end": 1})
            else:
                whole = self._add("Shape", [port.name], self._names.choose("shape of the batch"), "shape of the batch")
                self._add("Slice", [whole, *(self.add_axes([at]) for at in (0, 1))], output, label)
            self._batch_size = output
        return self._batch_size

    def _add(
        self, op: str, inputs: Sequence[str], output: str, label: str, attributes: Mapping[str, Any] | None = None
    ) -> str:
        self.steps.append(Step(op, tuple(inputs), output, self._step_names.choose(label), attributes or {}))
        return output


def _label(node: Node, op: str = "") -> str:
    """Return a readable name: the module and the operator."""
    return f"{node.module}/{op or node.op}" if node.module else node.name


# -- names --------------------------------------------------------------------------------------------


class Names:
    """The names that a model has so far.

    :param taken: names that nothing else may have
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}  # the last number that was appended to a name

    def choose(self, wanted: str) -> str:
        """Return a name that is not taken, and take it. An empty name means "none" in ONNX, and is never chosen."""
        base = made = escape(wanted, _MOST_CHARACTERS) or "unnamed"
        while made in self._taken:
            self._numbers[base] = self._numbers.get(base, 1) + 1
            made = f"{base}_{self._numbers[base]}"
        self._taken.add(made)
        return made


OPSETS: Final = range(13, 22)
"""The opsets that are tested. Before 13, axes of Squeeze and Softmax mean something else."""
_LARGEST_BATCH: Final = 2**31 - 1
MOST_BYTES: Final = 2**31 - 2**24
"""Of weights, in a file of protobufs, which is less than 2 GiB (https://protobuf.dev/programming-guides/proto-limits)."""
_FAULT: Final = 500  # characters of a message of the checker


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
    try:
        import onnx  # noqa: F401 -- whether it is there
    except ImportError:
        raise need_extra("to write ONNX models, the package onnx is needed", "onnx") from None
    lowered = lower(policy, outputs, raw=raw, deterministic=deterministic)
    for name in (port.name for port in (*lowered.inputs, *lowered.outputs)):
        if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
            message = f"expected the name of an input without surrogates and NUL, got {quote(name, 80)}: ONNX has UTF-8"
            raise UnsupportedError(message)
    writer = translate(lowered, opset, batch if isinstance(batch, int) else None)
    files = write_files({os.fspath(path): write_model(lowered, writer, batch)}, overwrite=overwrite)
    return ExportReport(
        "onnx", files, lowered.inputs, lowered.outputs, len(writer.steps), lowered.constant_count, lowered.metadata
    )


def _check_arguments(path: object, opset: object, batch: object) -> None:
    """Refuse arguments before a policy is loaded."""
    require_type(path, (str, os.PathLike), "a path")
    if isinstance(opset, bool) or not isinstance(opset, int) or opset not in OPSETS:
        raise ValueError(f"expected an opset from {OPSETS[0]} to {OPSETS[-1]}, got {quote(opset, 40)}")
    require_type(batch, (str, int), "a name or a size as batch")
    is_size = isinstance(batch, int) and not isinstance(batch, bool) and 1 <= batch <= _LARGEST_BATCH
    if not (is_size or (isinstance(batch, str) and batch.isidentifier() and batch.isascii())):
        raise ValueError(f"expected a name such as batch, or a size of 1 or more as batch, got {quote(batch, 40)}")


# -- the model ----------------------------------------------------------------------------------------


def write_model(lowered: Lowered, writer: Writer, batch: str | int) -> bytes:
    """Return the file of a model, checked by the ``onnx`` package.

    :param batch: the name or the size of the first axis
    """
    import onnx

    size = sum(array.nbytes for array in writer.initializers.values())
    if size > MOST_BYTES:
        raise UnsupportedError(f"expected at most {MOST_BYTES:,} bytes of weights in an ONNX file, got {size:,}")
    content: bytes = _make_model(lowered, writer, batch).SerializeToString(deterministic=True)
    try:
        onnx.checker.check_model(content, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UnsupportedError(f"the onnx package refuses the model: {escape(str(error), _FAULT)}") from error
    return content


def _make_model(lowered: Lowered, writer: Writer, batch: str | int) -> Any:
    from onnx import helper, numpy_helper

    inputs, outputs = (
        [helper.make_tensor_value_info(port.name, _find_type(port.dtype), [batch, *port.shape]) for port in ports]
        for ports in (lowered.inputs, lowered.outputs)
    )
    name = _encode(lowered.metadata.get("algorithm", "policy"))
    graph = helper.make_graph(list(map(_make_node, writer.steps)), name, inputs, outputs)
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph, opset_imports=[opset], ir_version=helper.find_min_ir_version_for([opset]), producer_name="sbformat",
        producer_version=sbformat.__version__, doc_string=_encode(summarize_origin(lowered.metadata)),
    )  # fmt: skip
    helper.set_model_props(model, {name: _encode(text) for name, text in lowered.metadata.items()})
    for name, array in writer.initializers.items():  # not before, because a model has copies of its parts
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _make_node(step: Step) -> Any:
    from onnx import helper

    attributes: dict[str, Any] = dict(step.attributes)
    attributes.update({name: int(value) for name, value in attributes.items() if isinstance(value, bool)})
    if step.op == "Cast":
        attributes["to"] = _find_type(attributes["to"])
    return helper.make_node(step.op, step.inputs, [step.output], step.name, **attributes)


def _find_type(dtype: str) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _encode(text: str) -> str:
    """Return a text of a file without what UTF-8 does not have."""
    return text.encode("utf-8", "backslashreplace").decode()
