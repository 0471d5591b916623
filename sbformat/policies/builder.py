"""``GraphBuilder``: makes a :class:`~sbformat.policies.graph.Graph` node by node, and checks each.

``Given`` is what the builders of policies in :mod:`sbformat.nets` take beside a file, ``PolicyModel`` what they return.
"""

from __future__ import annotations

from math import nan, prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.errors import LimitError, UnsupportedError, ValidationError, quote
from sbformat.immutable import FrozenDict, Record
from sbformat.policies.graph import Graph, Input, Node, Sampling, State, Weight
from sbformat.policies.operators import OPERATORS, Operand
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.limits import Budget, Limits
    from sbformat.pkl.numpy import ArrayInfo
    from sbformat.policies.operators import Shape


BFLOAT16: Final = "bfloat16"
"""A dtype that numpy does not have; float32 has all of its values."""
# What counts in ``policy_items`` beside numbers (FORMAT.md 8.1)
_NODE_ITEMS: Final = 1024  # a node, for the memory that it takes itself
_PART_ITEMS: Final = 64  # a component of an action, a number of an inferred observation
_LAYER_ITEMS: Final = 32_768  # a layer that settings ask for, before it is made for several releases


def check_layers(count: int, limits: Limits, key: str = "") -> None:
    """Refuse a number of layers that is forged, before any is made.

    :param key: the key of ``data`` that asks for them
    """
    try:
        limits.check("policy_items", _LAYER_ITEMS * count)
    except LimitError as error:
        error.message = f"{key or 'the network'} asks for {count:,} layers: {error.message}"
        raise


Value: TypeAlias = Operand
"""A value in a graph under construction: an input, a weight, whose shape is the whole one, or the result of a node."""


class GraphBuilder:
    """Collects the parts of a graph.

    :param budget: what the operation may use; the items that one observation makes are charged to it

    Example::

        builder = GraphBuilder(budget)
        observation = builder.input(Input("observation", "float32", (4,)))
        weight = builder.weight("q_net.q_net.0.weight", info, "policy.pth:q_net.q_net.0.weight")
        values = builder.add("Gemm", observation, weight, transB=True, name="q_values")
        action = builder.add("ArgMax", values, axis=-1, name="action")
        graph = builder.build({"action": action, "q_values": values}, Sampling("none"))
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._inputs: dict[str, Input] = {}
        self._nodes: dict[str, Node] = {}
        self._weights: dict[str, Weight] = {}
        self._states: list[State] = []
        self._numbers: dict[str, int] = {}
        """The last number that was appended to a name, so that thousands of equal names do not take forever."""
        self.inferred: list[str] = []

    @property
    def limits(self) -> Limits:
        """The limits of the operation."""
        return self._budget.limits

    def input(self, described: Input) -> Value:
        """Add an input; a second one of the same name is the first."""
        if described.name not in self._inputs:
            self._require_new(described.name)
            self._spend(described.name, described.shape)
            self._inputs[described.name] = described
        return Value(described.dtype, described.shape, False, described.name)

    def weight(self, name: str, source: TensorInfo | ArrayInfo, address: str) -> Value:
        """Add a weight; a second one of the same name is the first. A tensor of bfloat16 is a weight of float32."""
        if name not in self._weights:
            self._require_new(name)
            dtype = source.dtype if isinstance(source, TensorInfo) else numpy_name(source.dtype)
            dtype = "float32" if dtype == BFLOAT16 else dtype
            self._weights[name] = Weight(name, dtype, tuple(source.shape), address, source)
        made = self._weights[name]
        return Value(made.dtype, made.shape, True, name)

    def constant(self, items: float | Iterable[float], dtype: str = "float32", shape: Shape = ()) -> Value:
        """Add an array of numbers that no file contains; equal ones are one weight."""
        numbers = tuple(items) if not isinstance(items, (int, float)) else (items,)
        numbers = tuple(nan if item != item else item for item in numbers)  # noqa: PLR0124 - one NaN, so that it is equal
        name = f"constant {dtype} {shape} {numbers[:8]}".replace("'", "")
        while name in self._weights and self._weights[name].source != numbers:
            name += "+"
        if name not in self._weights:
            self._weights[name] = Weight(name, dtype, shape, None, numbers)
        return Value(dtype, shape, True, name)

    def add(self, op: str, *operands: Value, name: str = "", module: str = "", **attributes: Any) -> Value:
        """Add a node, and return its result.

        A node whose operands are weights alone is a weight itself: back ends compute it once.

        :param name: of the result; by default made from the module and the operator
        """
        operator = OPERATORS[op]
        least, most = operator.operands
        if not least <= len(operands) <= most or not set(attributes) <= operator.attributes:
            raise TypeError(f"{op} does not take {len(operands)} operands with {sorted(attributes)}")
        try:
            dtype, shape = operator.result(operands, attributes)
        except UnsupportedError as error:
            raise UnsupportedError(f"{quote(module or name or op, 120)}: {error.message}") from None
        self._spend(module or name or op, shape, beside=_NODE_ITEMS)
        name = self._unique(name or (f"{module}/{op}" if module else op))
        inputs = tuple(operand.name for operand in operands)
        self._nodes[name] = Node(name, op, inputs, FrozenDict(attributes), dtype, shape, module)
        return Value(dtype, shape, all(operand.is_weight for operand in operands), name)

    def cast(self, value: Value, dtype: str, module: str = "") -> Value:
        """Add a value in a dtype; it is the value itself if it has it."""
        return value if value.dtype == dtype else self.add("Cast", value, to=dtype, module=module)

    def check_parts(self, count: int) -> int:
        """Refuse a number of components of an action, or of an inferred observation, that is forged."""
        self.limits.check("policy_items", _PART_ITEMS * count)
        return count

    def state(self, described: State) -> None:
        """Add a recurrent state, whose input and output exist already."""
        self._states.append(described)

    def infer(self, sentence: str) -> None:
        """Note what shapes determined because ``data`` did not contain it; each sentence once."""
        if sentence not in self.inferred:
            self.inferred.append(sentence)

    def build(self, outputs: Mapping[str, Value], sampling: Sampling) -> Graph:
        """Return the graph; nodes that no output, state or sampling needs are left out."""
        wanted = {value.name for value in outputs.values()} | {sampling.replaces, *sampling.parameters.values()}
        wanted |= {state.output for state in self._states} | {state.input for state in self._states}
        for node in reversed(self._nodes.values()):
            if node.name in wanted:
                wanted.update(node.inputs)
        return Graph(
            tuple(item for item in self._inputs.values() if item.name in wanted or item.role == "observation"),
            tuple(node for node in self._nodes.values() if node.name in wanted),
            FrozenDict({name: value.name for name, value in outputs.items()}),
            FrozenDict({name: weight for name, weight in self._weights.items() if name in wanted}),
            tuple(self._states),
            sampling,
            tuple(self.inferred),
        )

    def _spend(self, what: str, shape: Shape, *, beside: int = 0) -> None:
        """Charge the items of a shape, and others beside them."""
        if min(shape, default=0) < 0:
            raise ValidationError(f"{quote(what, 120)}: expected sizes of 0 or more, got the shape {shape}")
        self._budget.spend("policy_items", prod(shape) + beside)

    def _unique(self, name: str) -> str:
        made = name
        while made in self._nodes or made in self._inputs or made in self._weights:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            made = f"{name}_{self._numbers[name]}"
        return made

    def _require_new(self, name: str) -> None:
        if name in self._nodes or name in self._inputs or name in self._weights:
            raise UnsupportedError(f"expected a new name in the graph, got {quote(name, 120)} twice")


_NUMPY_NAMES = {
    "b1": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
    "u8": "uint64", "i8": "int64", "f2": "float16", "f4": "float32", "f8": "float64",
}  # fmt: skip


def numpy_name(code: str) -> str:
    """Return numpy's name for a code of its array interface.

    >>> numpy_name("<f4")
    'float32'
    """
    try:
        return _NUMPY_NAMES[code[1:]]
    except KeyError:
        raise UnsupportedError(f"expected an array of numbers, got the dtype {quote(code, 40)}") from None


Family: TypeAlias = Literal["sb3", "sb2"]


class Given(Record):
    """The arguments of ``load_policy`` beside the file."""

    vecnormalize: VecNormalize | None = None
    policy_class: str | None = None
    """The class to treat the policy as, as in ``ActorCriticPolicy``, where the file's is missing or not known."""
    observation_space: Space | None = None
    action_space: Space | None = None
    policy_kwargs: Mapping[str, Any] | None = None
    """Arguments of the policy, instead of the file's; a class by its name, as in ``torch.nn`` or SB3."""
    modules: frozenset[str] = frozenset()


class PolicyModel(Record):
    """A policy, ready for a back end."""

    graph: Graph
    observation_space: Space
    action_space: Space
    algorithm: str | None
    family: Family
    """The library whose ``predict`` the policy follows: they differ in shapes and states."""
    was_normalized: bool
    """Whether the agent was trained behind VecNormalize."""
    archive: Archive | None = None
    is_normalized: bool = False
    """Whether the graph normalizes observations with statistics."""
