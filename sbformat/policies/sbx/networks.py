"""The networks of SBX by the classes of their modules, as chains of layers.

Sources: SBX ``common/policies.py``, ``ppo/policies.py``, ``td3/policies.py``, ``dqn/policies.py`` and
``crossq/policies.py`` of 0.3 to 0.28; before ``common/policies.py`` had them, actors and critics of ``sac`` and
``tqc`` were in ``policies.py`` of the algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.errors import UnsupportedError, ValidationError, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.formats.sbx.modules import Module
    from sbformat.pkl.names import Pair
    from sbformat.policies.builder import Value
    from sbformat.policies.sbx.branches import Branch

Kind: TypeAlias = Literal["mlp", "renormed", "simba"]
"""Layers with activations; the same with ``BatchRenorm`` before and after each; residual blocks."""
Role: TypeAlias = Literal["ppo", "squashed", "deterministic", "q", "value"]

_ALGORITHMS: Final = ("common", "sac", "tqc", "droq")
"""The packages that had actors and critics of SAC and its relatives."""

ACTORS: Final[Mapping[Pair, tuple[Role, Kind]]] = {
    ("sbx.ppo.policies", "Actor"): ("ppo", "mlp"),
    **{(f"sbx.{package}.policies", "Actor"): ("squashed", "mlp") for package in _ALGORITHMS},
    ("sbx.common.policies", "SquashedGaussianActor"): ("squashed", "mlp"),
    ("sbx.common.policies", "SimbaSquashedGaussianActor"): ("squashed", "simba"),
    ("sbx.crossq.policies", "Actor"): ("squashed", "renormed"),
    ("sbx.crossq.policies", "SimbaActor"): ("squashed", "simba"),
    ("sbx.td3.policies", "Actor"): ("deterministic", "mlp"),
    ("sbx.ddpg.policies", "Actor"): ("deterministic", "mlp"),
    ("sbx.dqn.policies", "QNetwork"): ("q", "mlp"),
    ("sbx.dqn.policies", "CnnQNetwork"): ("q", "mlp"),
}
"""The classes of the networks that act: what their results are, and how their layers are chained."""

CRITICS: Final[Mapping[Pair, Kind]] = {
    ("sbx.ppo.policies", "Critic"): "mlp",
    **{
        (f"sbx.{package}.policies", name): "mlp"
        for package in (*_ALGORITHMS, "td3", "ddpg")
        for name in ("Critic", "VectorCritic", "ContinuousCritic")
    },
    ("sbx.common.policies", "SimbaContinuousCritic"): "simba",
    ("sbx.common.policies", "SimbaVectorCritic"): "simba",
    ("sbx.crossq.policies", "VectorCritic"): "renormed",
    ("sbx.crossq.policies", "SimbaVectorCritic"): "simba",
}
"""The classes of critics, and how their layers are chained."""


def add_layers(branch: Branch, kind: Kind, module: Module, value: Value, heads: int) -> tuple[Value, tuple[str, ...]]:
    """Add all layers of a network but the last ones.

    :param kind: how they are chained
    :param module: the settings of the network
    :param value: the observation, and of a critic the action: a vector, or an image for a CNN
    :param heads: the number of layers at the end that get the same input
    :return: their input, and their names
    :raises ValidationError: if there are fewer layers, or others than ``net_arch`` lists
    """
    if branch.has("NatureCNN_0/Dense_0/kernel"):
        value = branch.nature_cnn(value)
    elif len(value.shape) != 1:
        size = 1
        for length in value.shape:
            size *= length
        value = branch.add("Reshape", value, "Dense_0", shape=(size,))
    count = branch.count("Dense/kernel") - heads
    if count < 0:
        message = f"expected at least {heads} layers in {quote(branch.state, 40)}, got {count + heads}"
        raise ValidationError(message)
    if kind == "simba":
        return _add_simba(branch, value, heads), tuple(f"Dense_{number}" for number in range(1, 1 + heads))
    _require_sizes(branch, module, count)
    has_norms = kind == "renormed" and module.settings.get("use_batch_norm", True) is True
    return (
        _add_mlp(branch, value, count, renormed=has_norms),
        tuple(f"Dense_{count + number}" for number in range(heads)),
    )


def _require_sizes(branch: Branch, module: Module, count: int) -> None:
    """Compare the layers with ``net_arch``, or ``n_units`` of DQN, where the pickle has it.

    :raises ValidationError: if they differ
    """
    expected: Any = module.settings.get("net_arch")
    if type(expected) not in (list, tuple):
        return
    names = [branch.path_of(f"Dense_{number}/kernel") for number in range(count)]
    actual = [branch.weights.tensors[name].shape[-1] for name in names if branch.weights.tensors[name].shape]
    if list(expected) != actual:
        message = f"expected the layers {list(expected)} of net_arch in {quote(branch.state, 40)}, got {actual}"
        raise ValidationError(message)


def _add_mlp(branch: Branch, value: Value, count: int, *, renormed: bool) -> Value:
    """Add layers, each with ``LayerNorm`` if it has one, an activation, and ``BatchRenorm`` if ``renormed``."""
    if renormed:
        value = branch.batch_renorm("BatchRenorm_0", value)
    for number in range(count):
        layer = f"Dense_{number}"
        value = branch.dense(layer, value)
        if branch.has(f"LayerNorm_{number}/scale"):
            value = branch.layer_norm(f"LayerNorm_{number}", value)
        value = branch.activate(value, layer)
        if renormed:
            value = branch.batch_renorm(f"BatchRenorm_{number + 1}", value)
    return value


def _add_simba(branch: Branch, value: Value, heads: int) -> Value:
    """Add a layer and residual blocks, each with a norm before it, and a norm after the last one.

    :raises ValidationError: if there are other layers than the first and the heads
    """
    if branch.count("Dense/kernel") != 1 + heads:
        message = f"expected {1 + heads} layers beside the blocks of {quote(branch.state, 40)}"
        raise ValidationError(message)
    if branch.has("BatchRenorm_0/scale"):
        value = branch.batch_renorm("BatchRenorm_0", value)
    value = branch.dense("Dense_0", value)
    for number in range(branch.count("SimbaResidualBlock/Dense_0/kernel")):
        block = branch.child(f"SimbaResidualBlock_{number}")
        inner = _add_norm(block, 0, value)
        inner = block.activate(block.dense("Dense_0", inner), "Dense_0")
        value = block.add("Add", value, "Dense_1", block.dense("Dense_1", inner))
    return _add_norm(branch, 1 if branch.has("BatchRenorm_1/scale") else 0, value)


def _add_norm(branch: Branch, number: int, value: Value) -> Value:
    name = f"BatchRenorm_{number}"
    if branch.has(f"{name}/scale"):
        return branch.batch_renorm(name, value)
    return branch.layer_norm(f"LayerNorm_{number}", value)


def require_known_actor(module: Module) -> tuple[Role, Kind]:
    """Return what a network that acts computes.

    :raises UnsupportedError: for a class that is not known
    """
    if module.pair not in ACTORS:
        message = f"the network of the class {quote('.'.join(module.pair), 200)} is not known; {WHAT_WORKS}"
        raise UnsupportedError(message)
    return ACTORS[module.pair]


WHAT_WORKS: Final = "its parameters can be read with read_parameters"
