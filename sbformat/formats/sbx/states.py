"""The weights of an SBX policy: the states of flax and optax in its pickle, without anything that is around them.

**Theory of operation.** In: the pickle of the policy, an object of ``sbx`` whose attributes are, among functions and
modules, states: objects of flax's ``TrainState`` or of its subclasses in SBX. A state has ``step``, ``params``,
``opt_state``, and of SBX ``target_params`` or ``batch_stats``; its functions ``apply_fn`` and ``tx`` are left out.
Out: for each state a tree of dicts with the arrays of ``params``, ``target_params`` and ``batch_stats``, and a tree
of what belongs to its optimizer. Only the wanted parts are decoded; the rest of the pickle, which contains functions
by value, is read and not looked at.

Worked example, PPO with ``net_arch=[16]`` for 3 observations and 2 actions::

    actor_state  NEWOBJ flax.training.train_state.TrainState
      params     {"params": {"Dense_0": {"bias": (16,), "kernel": (3, 16)}, "Dense_1": ..., "log_std": (2,)}}
      opt_state  (EmptyState(), InjectStatefulHyperparamsState(count, hyperparams, ...))

is the state dict ``policy`` with the tensors ``actor_state/params/params/Dense_0/bias``, ..., and ``policy.optimizer``
with ``actor_state/step``, ``actor_state/opt_state/1/hyperparams/learning_rate``, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import TensorError, UnsupportedError, quote
from sbformat.formats.pickled.arrays import Tensors
from sbformat.formats.pickled.kinds import attributes_of, class_of
from sbformat.immutable import Record
from sbformat.known.rows import describe_node
from sbformat.known.sb3 import TRAIN_STATE
from sbformat.known.types import Instance
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle

_WEIGHTS: Final = ("params", "target_params", "batch_stats")
"""Attributes of a state that the network computes with."""
_OPTIMIZER: Final = ("step", "opt_state")
"""Attributes of a state that training continues with."""
_PLAIN: Final = (str, int, float, bool, type(None))


class States(Record):
    """What one pickle has: trees of dicts, lists, tensors and numbers."""

    weights: dict[str, Any]
    optimizers: dict[str, Any]


def is_train_state(node: object) -> bool:
    """Return whether a node is an object of flax's ``TrainState``, or of a subclass of it by its name."""
    made = class_of(node)
    return made is not None and made.name.endswith(TRAIN_STATE)


def read_states(pickle: Pickle, budget: Budget) -> States:
    """Return the states of a policy, by the names of its attributes; of a lone state, its own parts.

    :param pickle: of the policy, or of one state
    :param budget: the operation's
    :raises UnsupportedError: if the pickle has no state, and for a part that is not an array
    :raises TensorError: for an array that contradicts itself
    :raises LimitError: for more than allowed
    """
    found = _find_states(pickle.value)
    if not found:
        message = f"expected an object with the states of flax, got {describe_node(pickle.value)}"
        raise UnsupportedError(message)
    wanted = Dict()
    for name, state in found.items():
        parts = [(key, part) for key, part in attributes_of(state) if key in (*_WEIGHTS, *_OPTIMIZER)]
        wanted.append((name, Dict(parts)))
    value, _ = decode_tree(pickle._replace(value=wanted), budget)
    converter = _Converter(budget)
    weights: dict[str, Any] = {}
    optimizers: dict[str, Any] = {}
    for name, parts in value.items() if type(value) is dict else ():
        if type(parts) is not dict or "params" not in parts:
            message = f"expected params in the state {quote(name, 80)}"
            raise TensorError(message)
        weights[name] = {key: converter.convert(parts[key], 1) for key in _WEIGHTS if key in parts}
        optimizers[name] = {key: converter.convert(parts[key], 1) for key in _OPTIMIZER if key in parts}
    if is_train_state(pickle.value):
        return States(weights[""], optimizers[""])
    return States(weights, optimizers)


def _find_states(root: object) -> dict[str, Call]:
    """Return the states of an object by the names of its attributes; a lone state has an empty name.

    :raises TensorError: if a name occurs twice
    """
    if is_train_state(root) and isinstance(root, Call):
        return {"": root}
    found: dict[str, Call] = {}
    for name, part in attributes_of(root):
        if type(name) is str and isinstance(part, Call) and is_train_state(part):
            if name in found:
                message = f"expected one state {quote(name, 80)}, got two"
                raise TensorError(message)
            found[name] = part
    return found


class _Converter:
    """Converts decoded values to the tree of a state dict; a part that is shared is converted once.

    :param budget: the operation's
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._tensors = Tensors(budget)
        self._made: dict[int, tuple[Any, Any]] = {}

    def convert(self, value: Any, depth: int) -> Any:
        """Convert a value.

        :raises UnsupportedError: for what is neither an array, a number nor a container
        """
        self._budget.spend("value_depth", depth)
        if isinstance(value, ArrayInfo):
            return self._tensors.of(value)
        if isinstance(value, _PLAIN):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._convert_container(value, depth), value
        return self._made[id(value)][0]

    def _convert_container(self, value: Any, depth: int) -> Any:
        if type(value) is Instance:
            value = value.attributes
        if type(value) is dict and all(type(key) is str for key in value):
            return {key: self.convert(part, depth + 1) for key, part in value.items()}
        if type(value) in (list, tuple):
            return [self.convert(part, depth + 1) for part in value]
        shown = describe_node(value) if isinstance(value, (Call, Global)) else type(value).__name__
        message = f"expected arrays of jax in a state of SBX, got {shown}"
        raise UnsupportedError(message)
