"""Build the graph of an SBX policy: its actor, its critics, and the action that ``predict`` returns.

Source: SBX ``common/policies.py``, ``BaseJaxPolicy.predict``, and ``_predict`` of each policy.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, ValidationError, quote
from sbformat.formats.normalized import was_normalized
from sbformat.formats.sbx import SbxArchive
from sbformat.known.spaces import Space
from sbformat.nets.arguments import NetworkError, choice_counts, read_number, require_choices
from sbformat.nets.distributions import add_choices, finish_action, require_outputs
from sbformat.nets.modules import Network, Scope
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.graph import Sampling
from sbformat.policies.model import PolicyModel
from sbformat.policies.sbx.agents import Agent, open_branch
from sbformat.policies.sbx.branches import Branch, Weights
from sbformat.policies.sbx.critics import add_critics
from sbformat.policies.sbx.networks import WHAT_WORKS, Role, add_layers, require_known_actor
from sbformat.policies.sbx.observations import add_observation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.sbx.modules import Module
    from sbformat.limits import Budget
    from sbformat.policies.builder import Value
    from sbformat.policies.model import Given
    from sbformat.pth.values import TensorInfo

_POLICY: Final = "policy"
_DRAWN_BITS: Final = 2
"""The choices of each component of a MultiBinary action: SBX has no Bernoulli distribution."""
_LOG_STD: Final = (("log_std_min", -20.0), ("log_std_max", 2.0))


class _Acting(NamedTuple):
    """The results of the network that acts."""

    outputs: dict[str, Value]
    sampling: Sampling
    scaled: Value | None
    """The deterministic action before it is scaled to the bounds, for the critics; None without critics of actions."""


def build_sbx_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an archive of SBX as a graph.

    :param archive: as :func:`sbformat.formats.opener.open_archive` returns it
    :param given: what the caller supplies beside the file; its policy class, ``policy_class``, is not used: the file
        names the classes of its networks
    :param budget: what the operation may use
    :raises UnsupportedError: when a network, an activation or a space is not known; the message names it
    :raises ValidationError: when the file contradicts itself
    :raises SbformatError: when it cannot be read

    Example::

        model = build_sbx_policy(open_archive("sbx_sac.zip", budget), Given(), budget)
        model.graph.outputs   # {"action": ..., "mean": ..., "log_std": ..., "q_values": ...}
    """
    if not isinstance(archive, SbxArchive):
        message = f"expected an archive of SBX, got the format {archive.format}"
        raise UnsupportedError(message)
    try:
        return _build(archive, given, budget)
    except NetworkError as error:
        message = f"{error.key}: {error.message}"
        raise ValidationError(message, entry=error.entry) from None


def _build(archive: SbxArchive, given: Given, budget: Budget) -> PolicyModel:
    builder = GraphBuilder(budget)
    spaces = _read_spaces(archive, given)
    tensors: Mapping[str, TensorInfo] = archive.state_dict(_POLICY).tensors()
    observation = add_observation(builder, spaces[0], given.vecnormalize)
    agent = Agent(
        archive, builder, Weights(builder, tensors, set()), archive.read_modules(), given, observation, spaces[1]
    )
    name = "actor" if "actor" in agent.modules else "qf"
    module = _find_module(agent, name)
    role, kind = require_known_actor(module)
    branch = open_branch(agent, f"{name}_state", module)
    heads = 2 if role == "squashed" else 1
    hidden, last = add_layers(branch, kind, module, observation, heads)
    acting = _add_action(agent, branch, role, hidden, last)
    _require_all_used(branch, module)
    outputs = {**acting.outputs, **add_critics(agent, acting.scaled)}
    return PolicyModel(
        builder.build(outputs, acting.sampling),
        *spaces,
        archive.algorithm.name,
        "sb3",
        was_normalized(archive, spaces[0]),
        archive,
    )


def _read_spaces(archive: SbxArchive, given: Given) -> tuple[Space, Space]:
    found = []
    for key, own in (("observation_space", given.observation_space), ("action_space", given.action_space)):
        space = own if own is not None else archive.decode(key)
        if not isinstance(space, Space):
            message = f"{key} is not known: pass {key}=... to load_policy"
            raise UnsupportedError(message, entry=DATA_ENTRY)
        require_choices(space, key)
        found.append(space)
    return found[0], found[1]


def _find_module(agent: Agent, name: str) -> Module:
    """Return a network of the policy.

    :raises UnsupportedError: if the pickle does not have it
    """
    if name not in agent.modules:
        message = f"expected the network actor or qf in the pickled policy of SBX; {WHAT_WORKS}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return agent.modules[name]


def _require_all_used(branch: Branch, module: Module) -> None:
    """Refuse weights of the network that acts which no layer uses.

    :raises UnsupportedError: for any but those of a norm that CrossQ makes without using it
    """
    unused = [name for name in branch.names() if name not in branch.weights.used]
    if module.settings.get("use_batch_norm") is False:
        unused = [name for name in unused if "/BatchRenorm_0/" not in name]
    if unused:
        shown = ", ".join(quote(name, 80) for name in unused[:4])
        message = f"{quote('.'.join(module.pair), 120)} does not have {shown}; {WHAT_WORKS}"
        raise UnsupportedError(message)


# -- the network that acts ----------------------------------------------------------------------------


def _add_action(agent: Agent, branch: Branch, role: Role, hidden: Value, last: tuple[str, ...]) -> _Acting:
    if role == "q":
        return _add_greedy(agent, branch.dense(last[0], hidden, name="q_values"))
    if role == "ppo" and agent.action_space.distribution != "gaussian":
        return _add_choices(agent, branch.dense(last[0], hidden, name="logits"))
    space = agent.action_space
    if space.distribution != "gaussian":
        message = f"expected a Box as the action space of {agent.archive.algorithm.name}, got a {space.class_name}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    raw = branch.dense(last[0], hidden, name="" if role == "deterministic" else "mean")
    require_size = prod(space.shape)
    if raw.shape != (require_size,):
        message = f"expected an output for each of the {require_size:,} actions, got {raw.shape[0]:,}"
        raise ValidationError(message)
    if role == "deterministic":
        scaled = branch.add("Tanh", raw, last[0], name="mean")
        action = finish_action(agent.builder, space, scaled, squashed=True)
        return _Acting({"action": action, "mean": scaled}, Sampling("none"), scaled)
    log_std = branch.weight("log_std") if role == "ppo" else _add_log_std(agent, branch, hidden, last[1])
    drawn = Sampling("gaussian", raw.name, {"mean": raw.name, "log_std": log_std.name})
    scaled = branch.add("Tanh", raw, last[0]) if role == "squashed" else raw
    action = finish_action(agent.builder, space, scaled, squashed=role == "squashed")
    spread = agent.builder.add("Identity", log_std, name="log_std") if log_std.is_weight else log_std
    outputs = {"action": action, "mean": raw, "log_std": spread}
    return _Acting(outputs, drawn, scaled if role == "squashed" else None)


def _add_log_std(agent: Agent, branch: Branch, hidden: Value, layer: str) -> Value:
    """Add the logarithm of the standard deviation, within the bounds that the actor has."""
    settings = agent.modules["actor"].settings
    low, high = (read_number(settings.get(key, default), key) for key, default in _LOG_STD)
    above = branch.add("Max", branch.dense(layer, hidden), layer, agent.builder.constant(low))
    return branch.add("Min", above, layer, agent.builder.constant(high), name="log_std")


def _add_greedy(agent: Agent, values: Value) -> _Acting:
    """Add the action of the greatest value, or at random with the rate that ``data`` has."""
    if agent.action_space.distribution != "categorical":
        message = f"expected a Discrete as the action space of DQN, got a {agent.action_space.class_name}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    require_outputs(values, agent.action_space.flat_size())
    action = agent.builder.add("ArgMax", values, axis=-1, name="action")
    rate = read_number(agent.archive.data.get("exploration_rate", 0.0), "exploration_rate")
    drawn = Sampling("epsilon_greedy", action.name, sizes=values.shape, rate=rate) if rate else Sampling("none")
    return _Acting({"action": action, "q_values": values}, drawn, None)


def _add_choices(agent: Agent, logits: Value) -> _Acting:
    space = agent.action_space
    if space.distribution == "categorical":
        require_outputs(logits, space.flat_size())
    elif space.distribution:
        sizes = choice_counts(space, "action_space")
        if not sizes:
            require_outputs(logits, _DRAWN_BITS * prod(space.shape))
    else:
        message = f"SBX has no {space.class_name} actions"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    scope = Scope(Network(agent.builder, {}, _POLICY))
    return _Acting(*add_choices(scope, space, logits, masked=False, is_normalized=False), None)  # type: ignore[arg-type]
