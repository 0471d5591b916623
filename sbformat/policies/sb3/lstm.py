"""``torch.nn.LSTM`` for one step, as elementary nodes, with the states as inputs and outputs.

Source: torch ``nn/modules/rnn.py``; ``RecurrentActorCriticPolicy._process_sequence`` of sb3-contrib, which multiplies
the states by 0 where an episode starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.errors import UnsupportedError
from sbformat.policies.graph import Input, State
from sbformat.policies.sb3.network import FLOAT

if TYPE_CHECKING:
    from sbformat.policies.builder import Value
    from sbformat.policies.sb3.network import Network

_GATES: Final = 4
"""Input, forget, cell and output gate, in this order in each matrix."""
EPISODE_START: Final = "episode_start"


def add_lstm(network: Network, module: str, value: Value) -> Value:
    """Add an LSTM of any number of layers.

    Each layer has the inputs ``lstm_actor.hidden_l0`` and ``lstm_actor.cell_l0``, 0 when they are not given.

    :param module: ``lstm_actor`` or ``lstm_critic``; a second call for a module returns the first one's result
    :param value: a vector
    :return: the hidden state of the last layer
    :raises UnsupportedError: for a variant with which sb3-contrib cannot predict
    """
    if module in network.recurrent:
        return network.recurrent[module]
    _refuse_variants(network, module)
    going_on = _add_going_on(network)
    layer = 0
    while f"{module}.weight_ih_l{layer}" in network.tensors:
        value = _add_layer(network, module, layer, value, going_on)
        layer += 1
    network.recurrent[module] = value
    return value


def _add_going_on(network: Network) -> Value:
    """Add what multiplies the states of all LSTMs: 0 where an episode starts, otherwise 1."""
    if EPISODE_START not in network.recurrent:
        start = network.builder.input(Input(EPISODE_START, FLOAT, (), default=0.0, role="episode_start"))
        made = network.add("Sub", network.constant(1.0), start, module=EPISODE_START)
        network.recurrent[EPISODE_START] = network.add("Reshape", made, shape=(1,), module=EPISODE_START)
    return network.recurrent[EPISODE_START]


def _refuse_variants(network: Network, module: str) -> None:
    """Refuse LSTMs whose output or states have other shapes than ``RecurrentActorCriticPolicy`` expects."""
    found = {
        "bidirectional": f"{module}.weight_ih_l0_reverse" in network.tensors,
        "proj_size": f"{module}.weight_hr_l0" in network.tensors,
        "batch_first": network.settings.arguments.nested("lstm_kwargs").flag("batch_first", default=False),
    }
    for name, is_given in found.items():
        if is_given:
            message = f"sb3-contrib can neither train nor predict several environments with {name} in lstm_kwargs"
            raise UnsupportedError(message)


def _add_layer(network: Network, module: str, layer: int, value: Value, going_on: Value) -> Value:
    part = f"{module}.l{layer}"
    size = network.shape(f"{module}.weight_hh_l{layer}")[-1]
    hidden, cell = (
        network.builder.input(Input(f"{module}.{name}_l{layer}", FLOAT, (size,), default=0.0, role="state"))
        for name in ("hidden", "cell")
    )
    kept, old = (network.add("Mul", going_on, state, module=part) for state in (hidden, cell))
    gates = network.add(
        "Add",
        *(_add_gates(network, module, way, layer, source) for way, source in (("ih", value), ("hh", kept))),
        module=part,
    )
    raw = [
        network.add("Slice", gates, axis=-1, start=at * size, end=(at + 1) * size, module=part) for at in range(_GATES)
    ]
    functions = ("Sigmoid", "Sigmoid", "Tanh", "Sigmoid")
    enter, forget, new, leave = (network.add(op, gate, module=part) for op, gate in zip(functions, raw))
    remembered = network.add("Mul", forget, old, module=part)
    added = network.add("Mul", enter, new, module=part)
    next_cell = network.add("Add", remembered, added, name=f"{part}/cell", module=part)
    shown = network.add("Tanh", next_cell, module=part)
    next_hidden = network.add("Mul", leave, shown, name=f"{part}/hidden", module=part)
    whose = "critic_" if module.endswith("critic") else ""
    for name, before, after in (("hidden", hidden, next_hidden), ("cell", cell, next_cell)):
        network.builder.state(State(before.name, after.name, f"{whose}{name}"))
    return next_hidden


def _add_gates(network: Network, module: str, way: str, layer: int, value: Value) -> Value:
    """Add one of the two matrix products of a layer: that of its input, or that of its hidden state."""
    operands = [network.weight(f"{module}.weight_{way}_l{layer}")]
    bias = f"{module}.bias_{way}_l{layer}"
    if bias in network.tensors:
        operands.append(network.weight(bias))
    return network.add("Gemm", value, *operands, transB=True, module=f"{module}.l{layer}")
