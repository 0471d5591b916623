"""``lower``: the part of a graph that an exported file contains, in float32, with its weights as arrays.

*In*: a :class:`~sbformat.policies.run.policy.Policy` and the names of outputs. *Out*: :class:`Lowered`: inputs and
outputs with their names in the file, nodes in order, and constants. ``onnx`` and ``c`` translate each node by its
operator and need nothing else. The stages:

1. **Choose**: the outputs; with ``raw`` the action before it is clipped or scaled to the bounds of the space. A
   recurrent state that an output depends on is an input, and its next value an output.
2. **Prune** what they do not need.
3. **Clip** an action that is scaled to its bounds (:func:`clip_to_bounds`), and **fold** nodes that depend on weights
   alone, in float64 (:func:`fold_constants`).
4. **Narrow** float64 to float32 (:class:`Narrowed`).
5. **Drop** nodes that change nothing: copies, casts to the same dtype, one of two reshapes.

SAC with one action between -2 and 2::

    mu       Gemm(latent, ...)                            mu       Gemm(latent, ...)
    squashed Tanh(mu)                                     squashed Tanh(mu)
    action   low + 0.5 * (squashed + 1) * (high - low)    action   Min(Max(-2 + 0.5 * (squashed + 1) * 4, -2), 2)

:func:`export_graph` is the only export that lowers nothing: it writes the graph as JSON, and its weights as they are as
``.safetensors`` (POLICIES.md 20.4).

Invariants: no node is float64, except the subtraction of a mean from an input of float64 or large integers; operands
are inputs, constants or results of earlier nodes; a constant does not have a batch axis, every other value does.
"""

from __future__ import annotations

import hashlib
import json
import os
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.arrayfiles.writer import encode_safetensors
from sbformat.errors import UnsupportedError, quote, require_type
from sbformat.immutable import FrozenDict, Record
from sbformat.policies.export.files import (
    NEXT,
    ExportReport,
    Port,
    describe_origin,
    name_inputs,
    write_files,
)
from sbformat.policies.export.formats import FORMATS, GRAPH
from sbformat.policies.export.parts import (
    check_outputs,
    choose_outputs,
    close_over_states,
    find_raw_action,
    refuse_calls,
)
from sbformat.policies.graph import BOUNDS, Node, prune_nodes
from sbformat.policies.loading import open_policy
from sbformat.policies.operators import OPERATORS, Operand, decompose
from sbformat.policies.run.program import fold_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.graph import Graph, Input
    from sbformat.policies.operators import Result
    from sbformat.policies.run.kernels import Array
    from sbformat.policies.run.policy import Policy


_DOUBLE: Final = "float64"
SINGLE: Final = "float32"
_WIDE_INTEGERS: Final = frozenset({"int32", "uint32", "int64", "uint64"})
"""Integers that float32 does not represent from 2**24."""


class Lowered(Record):
    """The computation of an exported file."""

    inputs: tuple[Port, ...]
    """Observations in the order of the space, then masks, ``episode_start`` and states."""
    outputs: tuple[Port, ...]
    """In the requested order, then the next states. Their ``value`` may be a constant or an input."""
    nodes: tuple[Node, ...]
    """In order; a node's ``name`` is the name of its result."""
    constants: Mapping[str, Array]
    """The constants that nodes and outputs use, by name; C-contiguous."""
    metadata: Mapping[str, str]
    """See :func:`~sbformat.policies.export.files.describe_origin`."""

    @property
    def constant_count(self) -> int:
        """The number of items of all constants."""
        return sum(array.size for array in self.constants.values())


def lower(
    source: Policy | Archive | SourceLike,
    outputs: Iterable[str] = ("action",),
    *,
    raw: bool = False,
    deterministic: bool = True,
) -> Lowered:
    """Return the part of a policy's graph that computes outputs, in float32; the parameters are those of an export."""
    policy = open_policy(source)
    graph = policy.graph
    names = check_outputs(graph, outputs)
    if not deterministic:
        raise UnsupportedError(explain_sampling(graph))
    values = {name: graph.outputs[name] for name in names}
    raw_action = find_raw_action(graph)
    if raw and "action" in values:
        values["action"] = raw_action
    nodes, wanted, next_states = close_over_states(graph, tuple(values.values()))
    refuse_calls(nodes)
    constants: dict[str, Array] = {name: policy.weights[name] for name in graph.weights if name in wanted}
    nodes = fold_constants(clip_to_bounds(nodes, constants), constants)
    narrowed = Narrowed(nodes, graph.inputs, constants)
    values.update({f"{NEXT}{name}": value for name, value in next_states.items()})
    found = {name: narrowed.find(value) for name, value in values.items()}
    kept, used = prune_nodes(narrowed.nodes, tuple(found.values()))
    constants = {name: array for name, array in narrowed.constants.items() if name in used}
    types = {**narrowed.types, **{name: (array.dtype.name, array.shape) for name, array in constants.items()}}
    ports = tuple(Port(name, value, *types[value], "output") for name, value in found.items())
    return Lowered(name_inputs(graph, wanted, values), ports, kept, constants, describe_origin(policy.model))


def explain_sampling(graph: Graph) -> str:
    """Return why no export samples, and from which outputs the caller can."""
    parameters = [name for name in ("mean", "log_std", "logits", "q_values") if name in graph.outputs]
    message = "an exported policy is deterministic: it has no random numbers"
    if graph.sampling.kind == "none" or not parameters:
        return f"{message}, and the agent does not sample"
    return f"{message}; export the outputs {', '.join(map(quote, parameters))}, and sample from them where it runs"


def expand(lowered: Lowered, has: Callable[[Node], bool], back_end: str) -> Lowered:
    """Replace the nodes that a back end cannot write by the parts of their operators.

    :param has: whether it can write a node
    :param back_end: its name, for the message
    """
    if all(map(has, lowered.nodes)):
        return lowered
    types = read_types(lowered)
    constants, nodes = dict(lowered.constants), []
    pending = list(reversed(lowered.nodes))
    while pending:
        node = pending.pop()
        if has(node):
            nodes.append(node)
            types[node.name] = node.dtype, node.shape
            continue
        operands = [Operand(*types[name], name in constants) for name in node.inputs]
        parts = decompose(node, operands, back_end, types)
        constants.update({name: np.array(number, node.dtype) for name, (_, number) in parts.numbers.items()})
        types.update(dict.fromkeys(parts.numbers, (node.dtype, ())))
        pending += reversed(parts.nodes)
    return lowered._replace(nodes=tuple(nodes), constants=constants)


def read_types(lowered: Lowered) -> dict[str, Result]:
    """Return the dtype and shape of each value."""
    types: dict[str, Result] = {port.value: (port.dtype, port.shape) for port in lowered.inputs}
    types.update({name: (array.dtype.name, array.shape) for name, array in lowered.constants.items()})
    types.update({node.name: (node.dtype, node.shape) for node in lowered.nodes})
    return types


# -- bounds -------------------------------------------------------------------------------------------


def clip_to_bounds(nodes: Sequence[Node], constants: dict[str, Array]) -> tuple[Node, ...]:
    """Add what clips an action after it is scaled; one that is clipped alone remains.

    SB3 and SB2 compute ``low + 0.5 * (x + 1) * (high - low)``, and so does an exported file, in that order: any other
    loses digits where one bound is much larger than the other. Rounding may take the sum beyond a bound, and the
    ``Tanh`` of onnxruntime is up to 1.0000002.

    Components whose bounds are an infinite distance apart remain as well: they are infinite or NaN, as in SB3.

    :param nodes: in order
    :param constants: by name; the bounds are added
    """
    places = [at for at, node in enumerate(nodes) if node.module == BOUNDS]
    width = next((nodes[at] for at in places if nodes[at].op == "Sub"), None)
    if width is None:
        return tuple(nodes)
    at = places[-1]
    last = nodes[at]
    high, low = (constants[name].astype(last.dtype) for name in width.inputs)
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(high - low)
    made = [last._replace(name=f"{last.name}/scaled")]
    for op, choose, end in (("Max", np.minimum, -np.inf), ("Min", np.maximum, np.inf)):  # bounds may be reversed
        name = last.name if op == "Min" else f"{last.name}/{op}"
        constants[f"{last.name}/{op} by bounds"] = np.where(is_finite, choose(low, high), end).astype(last.dtype)
        inputs = (made[-1].name, f"{last.name}/{op} by bounds")
        made.append(Node(name, op, inputs, FrozenDict(), last.dtype, last.shape, BOUNDS))
    return (*nodes[:at], *made, *nodes[at + 1 :])


# -- constants ----------------------------------------------------------------------------------------


def fold_constants(nodes: Sequence[Node], constants: dict[str, Array]) -> tuple[Node, ...]:
    """Compute the nodes that depend on weights alone, and return the others.

    They are computed in float64 and rounded once: numpy's functions of float32 differ in the last bit between
    processors, and the same agent gives the same bytes everywhere.

    :param constants: by name; the results of the other nodes are added, in their dtype
    """
    known, kept, folded = set(constants), [], []
    for node in nodes:
        if known.issuperset(node.inputs):
            folded.append(node)
            known.add(node.name)
        else:
            kept.append(node)
    operands = {name: constants[name] for node in folded for name in node.inputs if name in constants}
    wide = {name: array.astype(_DOUBLE) if array.dtype == SINGLE else array for name, array in operands.items()}
    fold_nodes([node._replace(dtype=_DOUBLE) if node.dtype == SINGLE else node for node in folded], wide)
    with np.errstate(all="ignore"):
        constants.update({node.name: wide[node.name].astype(node.dtype) for node in folded})
    return tuple(kept)


# -- float32 ------------------------------------------------------------------------------------------


class Narrowed:
    """Nodes and constants in float32 that compute the same as float64 within float32's precision.

    A graph has float64 where SB3 computes with numpy: in VecNormalize, and with the bounds of an action. Runtimes for
    devices do not have it, and others are slow. Rounding every constant is not enough: the difference of an observation
    and a mean of 1000 that deviates by 0.1 would lose four digits. So a mean that float32 does not represent is
    subtracted in two parts, ``(x - high) - low``: near the mean the first difference is exact, and the second has the
    digits that ``high`` lacks. An input of float64 keeps its dtype, and its mean is subtracted before it is cast; an
    input of integers that float32 does not represent is cast to float64 for that.

    Bounds are rounded inwards, so that a clipped action is never outside of the space. Nodes that change nothing are
    left out.

    :param nodes: in order; none has only constants as operands
    :param inputs: of the graph; they keep their dtype
    """

    def __init__(self, nodes: Sequence[Node], inputs: Iterable[Input], constants: Mapping[str, Array]) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {name: narrow_array(array) for name, array in constants.items()}
        self._exact = constants
        self._names: dict[str, str] = {}  # the value that has replaced another one, by its name
        self.types: dict[str, Result] = {item.name: (item.dtype, item.shape) for item in inputs}
        """Of inputs and results of nodes."""
        self._made: dict[str, Node] = {}
        self._doubles = frozenset(item.name for item in inputs if item.dtype == _DOUBLE)
        self._integers = frozenset(item.name for item in inputs if item.dtype in _WIDE_INTEGERS)
        for node in nodes:
            self._add(node)

    def find(self, name: str) -> str:
        """Return the name of the value that a value has become."""
        return self._names.get(name, name)

    def _add(self, node: Node) -> None:
        operands = [self.find(name) for name in node.inputs]
        dtype = SINGLE if node.dtype == _DOUBLE else node.dtype
        first = operands[0]
        if self._changes_nothing(node, first, dtype):
            self._names[node.name] = first
        elif node.op == "Sub" and node.dtype == _DOUBLE and node.inputs[1] in self._exact:
            self._require_range(node)
            self._subtract(node, first)
        elif node.op == "Cast":
            self._emit(node, [first], dtype, to=dtype)
        elif node.op == "Reshape" and first in self._made and self._made[first].op == "Reshape":
            self._emit(node, [self._made[first].inputs[0]], dtype, **node.attributes)
        else:
            if node.op == "Div" and node.dtype == _DOUBLE:
                self._require_range(node)
            if node.module == BOUNDS and node.op in ("Max", "Min"):
                operands[1] = self._round_inwards(node)
            self._emit(node, [self._single(name) for name in operands], dtype, **node.attributes)

    def _changes_nothing(self, node: Node, first: str, dtype: str) -> bool:
        if first in self.constants or self.types[first] != (dtype, node.shape):
            return False
        axes = node.attributes.get("axes", ())
        return bool(OPERATORS[node.op].view) and axes == tuple(range(len(axes)))

    def _subtract(self, node: Node, first: str) -> None:
        """Subtract a constant of float64: in float64 from an input, in two parts from another value."""
        exact = self._exact[node.inputs[1]]
        first = self._widen(first)
        if self.types[first][0] == _DOUBLE:
            wide = f"{node.inputs[1]}/float64"
            self.constants[wide] = np.ascontiguousarray(exact)
            difference = node._replace(name=f"{node.name}/float64", inputs=(first, wide))
            self._keep(difference)
            self._emit(node._replace(op="Cast"), [difference.name], SINGLE, to=SINGLE)
            return
        high = self.constants[node.inputs[1]]
        with np.errstate(all="ignore"):
            rest = exact - high.astype(np.float64)
        low = narrow_array(np.where(np.isfinite(rest), rest, 0))
        operands = [self._single(first), node.inputs[1]]
        if low.any():
            rough, part = f"{node.name}/rough", f"{node.inputs[1]}/rest"
            self.constants[part] = low
            self._emit(node._replace(name=rough), operands, SINGLE)
            operands = [rough, part]
        self._emit(node, operands, SINGLE)

    def _require_range(self, node: Node) -> None:
        """Refuse a mean that is infinite as float32, and a deviation that is 0."""
        name = node.inputs[1]
        if name not in self._exact:
            return
        exact, rounded = self._exact[name], self.constants[name]
        is_lost = (rounded == 0) & (exact != 0) if node.op == "Div" else np.isinf(rounded) & np.isfinite(exact)
        if is_lost.any():
            message = f"{quote(node.module or name, 80)}: expected numbers that float32 has, got {exact[is_lost][0]}"
            raise UnsupportedError(message)

    def _widen(self, name: str) -> str:
        """Return the name of a value as float64 if it was an input of large integers, which is cast to float32."""
        made = self._made.get(name)
        if made is None or made.op != "Cast" or made.inputs[0] not in self._integers:
            return name
        wide = made._replace(name=f"{name}/float64", dtype=_DOUBLE, attributes=FrozenDict({"to": _DOUBLE}))
        if wide.name not in self._made:
            self._keep(wide)
        return wide.name

    def _round_inwards(self, node: Node) -> str:
        """Return the name of a bound as float32 that is not beyond the bound of float64."""
        name = node.inputs[1]
        rounded, exact = self.constants[name], self._exact[name]
        is_low = node.op == "Max"
        is_beyond = rounded < exact if is_low else rounded > exact
        nearer = np.nextafter(rounded, np.float32(np.inf if is_low else -np.inf), dtype=np.float32)
        inner = np.asarray(np.where(is_beyond, nearer, rounded))
        if (inner == rounded).all():
            return name
        self.constants[f"{name}/inner"] = inner
        return f"{name}/inner"

    def _single(self, name: str) -> str:
        """Return the name of an operand that is not float64."""
        if name not in self._doubles:
            return name
        cast = f"{name}/float32"
        if cast not in self._made:
            self._keep(Node(cast, "Cast", (name,), FrozenDict({"to": SINGLE}), SINGLE, self.types[name][1]))
        return cast

    def _emit(self, node: Node, operands: Sequence[str], dtype: str, **attributes: object) -> None:
        self._keep(node._replace(inputs=tuple(operands), dtype=dtype, attributes=FrozenDict(attributes)))

    def _keep(self, node: Node) -> None:
        self.nodes.append(node)
        self._made[node.name] = node
        self.types[node.name] = node.dtype, node.shape


def narrow_array(array: Array) -> Array:
    """Return an array in C order, as float32 if it is float64; what is too large becomes infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(array, np.float32 if array.dtype == np.float64 else array.dtype, order="C")


def export_graph(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
) -> ExportReport:
    """Write what a policy computes as JSON, with its weights in a ``.safetensors`` file of the same name.

    >>> [file.path for file in sbformat.export_graph("ppo_cartpole.zip", "policy.json").files]
    ['policy.json', 'policy.safetensors']

    The two files are all that a program in any language needs to compute actions: POLICIES.md 19.2 has the operators,
    20.4 the steps. The JSON has the digest of the weights, so that a reader notices files of two exports. Unlike the
    other exports it is exact: nodes, dtypes and names are those of :attr:`Policy.graph`.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the JSON, ending in ``.json``; the weights are written beside it
    :param outputs: names of outputs; what they do not depend on is left out. By default all of them
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param overwrite: replace files that exist
    :return: the files, inputs and outputs
    :raises FileExistsError: when one of the files exists and ``overwrite`` is False; then none is written
    :raises OSError: when one cannot be written
    :raises ValueError: for an output that the policy does not have, and a path that does not end in ``.json``
    :raises UnsupportedError: for modules that the caller supplied as functions, and names that the files cannot have
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    weights_path = _name_weights_file(target)
    policy = open_policy(policy)
    graph = choose_outputs(policy.graph, outputs, raw=raw)
    refuse_calls(graph.nodes)
    described = graph.to_dict()
    stored = [name for name, weight in described["weights"].items() if "items" not in weight]
    metadata = describe_origin(policy.model)
    weights = encode_safetensors({name: policy.weights[name] for name in stored})
    document = {
        **described,
        "metadata": dict(metadata),
        "weights_file": os.path.basename(weights_path),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    files = write_files({target: _write_json(document).encode(), weights_path: weights}, overwrite=overwrite)
    constants = sum(prod(weight.shape) for weight in graph.weights.values())
    inputs = tuple(Port(item.name, *item[:3], item.role, item.key) for item in graph.inputs)
    return ExportReport("json", files, inputs, _list_outputs(graph), len(graph.nodes), constants, metadata)


def _name_weights_file(target: str) -> str:
    if not target.lower().endswith(GRAPH):
        raise ValueError(f"expected a path that ends in {GRAPH}, got {quote(target)}")
    made = target[: -len(GRAPH)] + FORMATS[GRAPH].beside
    name = os.path.basename(made)
    if "\\" in name or not name.isprintable():  # a lone surrogate, which is a byte that is not UTF-8, is not printable
        message = f"expected a file name in UTF-8 without backslashes, which the JSON can contain, got {quote(name)}"
        raise UnsupportedError(message)
    return made


def _write_json(document: Mapping[str, Any]) -> str:
    """Return JSON with a line for each node, weight and other item, in ASCII."""
    members = [f"{json.dumps(name)}: {_write_items(value)}" for name, value in document.items()]
    return "{\n" + ",\n".join(members) + "\n}\n"


def _write_items(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(_dump(item) for item in value) + "\n]"
    if isinstance(value, dict) and value:
        return "{\n  " + ",\n  ".join(f"{json.dumps(name)}: {_dump(item)}" for name, item in value.items()) + "\n}"
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _list_outputs(graph: Graph) -> tuple[Port, ...]:
    """Return the outputs, then the next states, which have the names of their nodes."""
    values = {**graph.outputs, **{state.output: state.output for state in graph.states}}
    items: list[Input | Node] = [*graph.inputs, *graph.nodes]
    types = {item.name: (item.dtype, item.shape) for item in items}
    return tuple(Port(name, value, *types[value], "output") for name, value in values.items())
