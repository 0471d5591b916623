"""``build_sb3_policy``: from an archive of SB3 to the graph of its policy, without importing anything that it names.

The network is the one that SB3 makes for ``data``, and the stored tensors are its own: others are refused. Of a lone
state dict, of a policy class that extends SB3's, and beside modules that the caller supplies, names and shapes
determine the layers (:mod:`~sbformat.nets.inference`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape
from sbformat.formats.normalized import was_normalized
from sbformat.known.changes import candidate_releases
from sbformat.known.types import Reference
from sbformat.nets.arguments import ACTIONS, KWARGS, OBSERVATIONS, NetworkError, read_number, require_choices
from sbformat.nets.extractors import EXTRACTOR_CLASS, add_observation, is_known_extractor
from sbformat.nets.inference import (
    WHAT_WORKS,
    Stored,
    find_policy_class,
    fit_network,
    infer_agent,
    read_given_kwargs,
)
from sbformat.nets.modules import Network, Scope
from sbformat.nets.reading import (
    decode_value,
    list_saved_agents,
    match_network,
    match_saved_policy,
    misfit_error,
    read_agent,
    read_policy_class,
    read_shapes,
)
from sbformat.nets.sb3 import POLICIES, PRESETS, ARSPolicy
from sbformat.nets.wrappers import unwrap_policy
from sbformat.policies.builder import GraphBuilder
from sbformat.policies.model import PolicyModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.limits import Budget
    from sbformat.nets.reading import NetworkMatch
    from sbformat.policies.model import Given

_POLICY_FILE = "policy-file"


def build_sb3_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an archive of SB3 as a graph.

    :param archive: of an agent, a lone ``policy.pth`` or a file of ``policy.save()``
    :param given: what the caller of ``load_policy`` supplies
    :param budget: what the operation may use
    :raises UnsupportedError: when a part is not known, with its name, or when the caller has to supply something
    :raises ValidationError: when the tensors are not those that SB3 makes for ``data``, or the statistics not those of
        the observations
    :raises SbformatError: when an entry cannot be read

    Example::

        model = build_sb3_policy(archive, Given(), Budget(DEFAULT_LIMITS))
        model.graph.outputs["action"]
    """
    try:
        return _build(archive, given, budget)
    except NetworkError as error:
        message = f"{error.key}: {error.message}"
        raise ValidationError(message, entry=error.entry) from None


def _build(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    entry = archive.find_state_dict("policy")
    unwrapped = unwrap_policy(archive, entry)
    state_dict = unwrapped.state_dict
    builder = GraphBuilder(budget)
    is_saved = archive.format == _POLICY_FILE
    has_data = is_saved or DATA_ENTRY in archive.entries
    stored = Stored(state_dict.tree, read_shapes(state_dict))
    rate = 0.0
    if is_saved or (has_data and entry == POLICY_ENTRY):
        match = _read_network(archive, stored, given)
        name = match.agent.policy_class[1]
        if is_saved and given.policy_class is None:
            builder.infer(f"the policy is {name}, from its arguments and tensors: the file does not name its class")
        elif replaced := _list_replaced(archive, given):
            which = f"{' and '.join(replaced)} {'says' if len(replaced) == 1 else 'say'} so"
            builder.infer(f"the policy computes as {name}, with its defaults, since {which}")
        if not is_saved and (value := decode_value(archive, "exploration_rate")) is not None:
            rate = read_number(value, "exploration_rate")
    else:
        unwrapped.require_all(given.modules)
        match = infer_agent(stored, builder, given)
    agent = match.agent
    for key, space in ((OBSERVATIONS, agent.observation_space), (ACTIONS, agent.action_space)):
        require_choices(space, key)
    for note in unwrapped.notes:
        builder.infer(note)
    network = Network(builder, state_dict.tree, entry, agent.release, unwrapped.origins)
    head = match.policy.act(Scope(network), add_observation(network, agent, given.vecnormalize), rate)
    return PolicyModel(
        builder.build(head.outputs, head.sampling),
        agent.observation_space,
        agent.action_space,
        archive.algorithm.name if has_data else None,
        "sb3",
        has_data and was_normalized(archive, agent.observation_space),
        archive,
    )


def _read_network(archive: Archive, stored: Stored, given: Given) -> NetworkMatch:
    """Return the network of an archive with ``data``, or of a file of ``policy.save()``, which its tensors fit.

    :raises UnsupportedError: when the network is not known
    :raises ValidationError: when names or shapes differ, with the differences
    """
    replaced = _read_given(given, stored)
    _require_all_given(archive, replaced)
    try:
        if _list_replaced(archive, given) or any("extractor" in name for name in given.modules):
            match = _fit(archive, stored, given.modules, replaced)
        elif archive.format == _POLICY_FILE:
            match = _match_saved(archive, stored, replaced)
        else:
            _require_known_class(archive, replaced)
            match = match_network(archive, replaced)
    except UnsupportedError as error:
        message = error.message if error.message.endswith(WHAT_WORKS) else f"{error.message}; {WHAT_WORKS}"
        if option := _find_option(archive, stored, replaced):
            message = f"{error.message}; {option}"
        raise UnsupportedError(message, entry=error.entry) from None
    if match.mismatches:
        raise misfit_error(match)
    if archive.format == _POLICY_FILE:
        _require_squash_output(match)
    return match


def _read_given(given: Given, stored: Stored) -> dict[str, Any]:
    """Return what the caller supplies as fields of an agent."""
    kwargs = read_given_kwargs(given)
    if "activation_fn" in given.modules:  # then its class does not matter
        kwargs["activation_fn"] = Reference("torch.nn.modules.linear", "Identity")
    named = given.policy_class
    made = {
        "policy_class": None if named is None else find_policy_class(named, stored.policy_class),
        OBSERVATIONS: given.observation_space,
        ACTIONS: given.action_space,
        KWARGS: kwargs if kwargs or given.policy_kwargs is not None else None,
        "supplied": {"activation_fn": ("activation_fn", 0)} if "activation_fn" in given.modules else None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _require_all_given(archive: Archive, replaced: Mapping[str, Any]) -> None:
    """Ask the caller for what ``data`` does not have; SB3 writes it unless it is told to leave it out.

    :raises UnsupportedError: with the keywords of ``load_policy``
    """
    needed = (OBSERVATIONS, ACTIONS) if archive.format == _POLICY_FILE else ("policy_class", OBSERVATIONS, ACTIONS)
    missing = [f"{key}=..." for key in needed if key not in archive.data and key not in replaced]
    if missing:
        message = f"data is incomplete: pass {', '.join(missing)} to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)


def _list_unknown(archive: Archive) -> list[str]:
    """Return which of the policy's classes that ``data`` names are not known: custom ones."""
    if archive.format == _POLICY_FILE:
        return []
    unknown = []
    try:
        pair = read_policy_class(archive)
    except SbformatError:
        pair = ("", "")
    if pair not in POLICIES and pair not in PRESETS:
        unknown.append("policy_class")
    try:
        kwargs = decode_value(archive, KWARGS)
    except SbformatError:
        kwargs = None
    if isinstance(kwargs, dict) and EXTRACTOR_CLASS in kwargs:
        value = kwargs[EXTRACTOR_CLASS]
        is_plain = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
        unknown += [] if is_plain or is_known_extractor(value) else [EXTRACTOR_CLASS]
    return unknown


def _list_replaced(archive: Archive, given: Given) -> list[str]:
    """Return which of the policy's classes are not known, and are another one that the caller names."""
    named = {"policy_class": given.policy_class, EXTRACTOR_CLASS: (given.policy_kwargs or {}).get(EXTRACTOR_CLASS)}
    if not any(named.values()):
        return []
    return [name for name in _list_unknown(archive) if named[name] is not None]


def _find_option(archive: Archive, stored: Stored, replaced: Mapping[str, Any]) -> str:
    """Return which arguments run an agent whose classes are not known as SB3's own, if all weights fit those."""
    unknown = _list_unknown(archive)
    inferred = stored.policy_class
    if inferred is None or not unknown or "supplied" in replaced:
        return ""
    try:
        kwargs = {**replaced.get(KWARGS, {}), EXTRACTOR_CLASS: None} if EXTRACTOR_CLASS in unknown else {}
        own = {"policy_class": inferred} if "policy_class" in unknown else {}
        match = _fit(archive, stored, frozenset(), {**replaced, **own, **({KWARGS: kwargs} if kwargs else {})})
    except SbformatError:
        return ""
    name = inferred[1]
    options = {"policy_class": f"policy_class='{name}' (--policy-class {name})"}
    if EXTRACTOR_CLASS in unknown:
        chosen = {key: value.name for key, value in match.agent.policy_kwargs.items() if key == EXTRACTOR_CLASS}
        options[EXTRACTOR_CLASS] = f"policy_kwargs={chosen} (--policy-kwargs '{json.dumps(chosen)}')"
    return (
        "names and shapes of all weights fit SB3's own, but it may compute something else: "
        f"{' with '.join(options[key] for key in unknown)} runs it so"
    )


def _require_known_class(archive: Archive, replaced: Mapping[str, Any]) -> None:
    """Refuse another policy class before its arguments, which may be as unknown."""
    found = replaced.get("policy_class") or read_policy_class(archive)
    if found not in POLICIES and found not in PRESETS:
        message = f"the network of the policy class {escape('.'.join(found), 200)} is not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)


def _fit(archive: Archive, stored: Stored, modules: frozenset[str], replaced: Mapping[str, Any]) -> NetworkMatch:
    """Return the network of a file whose network is not SB3's alone: names and shapes of its tensors decide."""
    unwrap_policy(archive).require_all(modules)
    if archive.format != _POLICY_FILE:
        _require_known_class(archive, replaced)
        agent = read_agent(archive, replaced=replaced)
        if EXTRACTOR_CLASS in replaced.get(KWARGS, {}):  # then the arguments of the file's are not for it
            kwargs = {**agent.policy_kwargs, "features_extractor_kwargs": None, **replaced[KWARGS]}
            agent = agent._replace(policy_kwargs={key: value for key, value in kwargs.items() if value is not None})
        return fit_network(stored, agent, modules, candidate_releases(archive.stable_baselines3_version))
    agents = list(list_saved_agents(archive, {"policy_class": stored.policy_class, **replaced}))
    if not agents:
        message = "the file does not name its policy class: pass policy_class to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    releases = [agent.release for agent in agents if agent.policy_class == agents[0].policy_class]
    return fit_network(stored, agents[0], modules, releases)


def _match_saved(archive: Archive, stored: Stored, replaced: dict[str, Any]) -> NetworkMatch:
    """Return the network of a file of ``policy.save()``, which omits ``with_bias`` of ARS: the tensors determine it."""
    if all(name.startswith("action_net.") for name in stored.tensors):
        has_bias = any(name.endswith(".bias") for name in stored.tensors)
        replaced = {**replaced, "policy_kwargs": {"with_bias": has_bias, **replaced.get("policy_kwargs", {})}}
    return match_saved_policy(archive, replaced)


def _require_squash_output(match: NetworkMatch) -> None:
    """Ask the caller for ``squash_output`` of ARS, which ``policy.save()`` omits and no tensor determines.

    :raises UnsupportedError: unless the agent has it, or does not need it
    """
    agent = match.agent
    is_box = isinstance(match.policy, ARSPolicy) and agent.action_space.distribution == "gaussian"
    if is_box and "squash_output" not in agent.policy_kwargs:
        message = "policy.save() of ARS omits squash_output: pass policy_kwargs={'squash_output': ...} to load_policy"
        raise UnsupportedError(message, entry=DATA_ENTRY)
