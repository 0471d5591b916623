"""``build_sb3_policy``: from an archive of SB3 to the graph of its policy, without importing anything that it names.

The network is the one that SB3 makes for ``data``, and the stored tensors are its own: others are refused. Of a lone
state dict, of a policy class that a user derived, and beside modules that the caller supplies, the names determine the
policy class, as far as it matters to what is computed; the shapes, the layers and the sizes of observations and
actions. Nothing in them says which activation is between the layers, which bounds an action has, or whether seven
logits are one choice of seven: the caller of ``load_policy`` is asked for these.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from math import inf
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.formats.normalized import was_normalized
from sbformat.known import changes
from sbformat.known.changes import candidate_releases
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.known.spaces import Box, Discrete
from sbformat.known.types import Partial, Reference
from sbformat.nets import reading, sb3
from sbformat.nets.arguments import (
    ACTIONS,
    KWARGS,
    OBSERVATIONS,
    USE_SDE,
    Agent,
    NetworkError,
    Size,
    read_number,
    refuse,
    refuse_network,
    require_choices,
)
from sbformat.nets.extractors import (
    EXTRACTOR,
    EXTRACTOR_CLASS,
    EXTRACTORS,
    NORMALIZE,
    NORMS,
    NatureLayers,
    add_observation,
    is_known_extractor,
)
from sbformat.nets.layers import ACTIVATIONS, Network, RunningNorm, Scope, locate
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.builder import GraphBuilder, PolicyModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.known.spaces import Space
    from sbformat.limits import Budget
    from sbformat.pkl.tree import Pair
    from sbformat.policies.builder import Given
    from sbformat.pth.values import TensorInfo


WHAT_WORKS: Final = (
    "its parameters can be read with read_parameters; to run it, pass what is not known to load_policy: a part as a "
    "function of arrays, as in modules={'features_extractor': function}, or policy_class='...' "
    "(--policy-class), the class of SB3 that a custom policy class extends"
)
"""The end of a message about a policy that is not known."""
_MATRIX: Final = 2
_HIDDEN: Final = {
    changes.SHARED_LAYERS: 0, "mlp_extractor.policy_net": 0, "mlp_extractor.value_net": 0, "q_net.q_net": 1,
    "quantile_net.quantile_net": 1, "action_net": 1, "actor.latent_pi": 0, "actor.mu": 1, "critic.qf0": 1,
    changes.NOISE_LAYERS: 0, f"actor.{changes.NOISE_LAYERS}": 0,
}  # fmt: skip
"""Modules of layers, with the number of those that no activation follows."""
_FIRST: Final = (
    "lstm_actor", changes.SHARED_LAYERS, "mlp_extractor.policy_net", "q_net.q_net", "quantile_net.quantile_net",
    "actor.latent_pi", "actor.mu", "action_net",
)  # fmt: skip
"""Modules that may be the first after the features extractor, each before those that may follow it."""
_MODULES: Final = ("", "actor.", "q_net.", "quantile_net.")
_EXTRACTORS: Final = (changes.ACTOR_EXTRACTOR, *(module + EXTRACTOR for module in _MODULES))
_CNN_TENSORS: Final = {one.name for one in NatureLayers((1, 36, 36), Size(1, ""), changes.NEWEST).parameters()}
_TARGETS: Final = ("q_net_target.", "quantile_net_target.", "actor_target.", "critic_target.")
"""Copies that training alone uses."""
_ALIASES: Final = (
    f"{EXTRACTOR}.",
    f"{changes.ACTOR_EXTRACTOR}.",
    f"{changes.CRITIC_EXTRACTOR}.",
    "critic.features_",
)
"""Names of which several may stand for one features extractor."""
_BRANCHES: Final = {
    "mlp_extractor": "action_net", "mlp_extractor.policy_net": "action_net", "mlp_extractor.value_net": "value_net",
}  # fmt: skip
"""The modules of layers that a caller may supply, and the layer after each."""
_IN_EXTRACTOR: Final = f"{EXTRACTOR}."


class Stored:
    """The tensors of a state dict, by the names of modules in this package; ``shapes`` has the stored names."""

    def __init__(self, tensors: Mapping[str, TensorInfo], shapes: Mapping[str, tuple[int, ...]]) -> None:
        own = changes.own_names()
        self.tensors = {changes.rename(name, own): info for name, info in tensors.items()}
        self.shapes = shapes

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.tensors)

    def has(self, module: str) -> bool:
        """Return whether a module has tensors."""
        return bool(self.names(module))

    def names(self, module: str) -> list[str]:
        """Return the names of a module's tensors, sorted."""
        # "/" is the character after the dot that names of tensors have
        start, end = (bisect_left(self._names, module + character) for character in "./")
        return self._names[start:end]

    def identify(self, module: str) -> object:
        """Return what is equal for two names of one module: the places of its tensors in the file."""
        return tuple(self.place(name, name[len(module) :]) for name in self.names(module))

    def place(self, name: str, within: str) -> object:
        """Return the place of a tensor in the file, with a name of it; what is missing has none."""
        info = self.tensors.get(name)
        return None if info is None else (within, *locate(info))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor; an empty one if it is missing."""
        return tuple(self.tensors[name].shape) if name in self.tensors else ()

    @property
    def has_gsde(self) -> bool:
        """Whether an on-policy algorithm had gSDE."""
        return len(self.shape("log_std")) == _MATRIX

    def input_size(self, module: str) -> int | None:
        """Return the number of inputs of a module that begins with a layer; None when it has no tensors."""
        for name in (f"{module}.weight_ih_l0", f"{module}.weight"):
            if len(self.shape(name)) == _MATRIX:
                return self.shape(name)[1]
        for parts in self.layers(module).values():
            sizes = parts.get("ra_mean") or parts.get("weight")
            return sizes[-1] if sizes else None
        return None

    def matrices(self, module: str) -> list[tuple[int, ...]]:
        """Return the shapes of the linear layers of a ``Sequential``, in order."""
        shapes = (parts.get("weight", ()) for parts in self.layers(module).values())
        return [shape for shape in shapes if len(shape) == _MATRIX]

    def widths(self, module: str) -> list[int]:
        """Return the outputs of the linear layers of a ``Sequential``."""
        return [shape[0] for shape in self.matrices(module)]

    def layers(self, module: str) -> dict[int, dict[str, tuple[int, ...]]]:
        """Return the shapes of a ``Sequential``'s tensors: by position, in order, and by name."""
        made: dict[int, dict[str, tuple[int, ...]]] = {}
        for name in self.names(module):
            number, _, part = name[len(module) + 1 :].partition(".")
            if number.isascii() and number.isdecimal() and len(number) <= 6:  # else not a position
                made.setdefault(int(number), {})[part] = self.shape(name)
        return dict(sorted(made.items()))


# -- the policy class ---------------------------------------------------------------------------------


def infer_policy_class(stored: Stored) -> Pair | None:
    """Return the policy class that the names of tensors suggest; None when they are not those of SB3.

    Classes that differ in their features extractor alone are one here. A masked actor-critic has the names of one that
    is not masked.
    """
    squashed = "SACPolicy"
    if stored.has("critic") and not stored.has("critic_target"):
        squashed = "CrossQPolicy"
    elif any(shape[0] != 1 for shape in stored.matrices("critic.qf0")[-1:]):
        squashed = "TQCPolicy"
    found = {
        "RecurrentActorCriticPolicy": stored.has("lstm_actor"),
        "DQNPolicy": stored.has("q_net"),
        "QRDQNPolicy": stored.has("quantile_net"),
        squashed: "actor.log_std" in stored.tensors or stored.has("actor.log_std"),
        "TD3Policy": stored.has("actor.mu"),
        "ActorCriticPolicy": stored.has("value_net"),
        "ARSLinearPolicy": "action_net.weight" in stored.tensors,
        "ARSPolicy": stored.has("action_net"),
    }
    name = next((name for name, is_it in found.items() if is_it), "")
    return next((pair for pair in sb3.POLICIES if pair[1] == name), None)


def find_policy_class(name: str, inferred: Pair | None) -> Pair:
    """Return the policy class of a name; where several modules have it, that of the inferred class's module.

    :param name: ``ActorCriticPolicy``, with or without its module; ``MlpPolicy`` is the first class of its module
    """
    found = [pair for pair in sb3.POLICIES if name in (pair[1], ".".join(pair))]
    if name in ("MlpPolicy", "LinearPolicy") and inferred is not None:
        found = [pair for pair in sb3.POLICIES if pair[0] == inferred[0]][-1 if name == "LinearPolicy" else 0 :][:1]
    if len(found) > 1:
        found = [pair for pair in found if inferred is not None and pair[0] == inferred[0]]
    if found:
        return found[0]
    available = ", ".join(dict.fromkeys(pair[1] for pair in sb3.POLICIES))
    message = f"expected the name of a policy class, got {quote(name, 80)}"
    raise UnsupportedError(message, hint=f"available: {available}")


def read_given_kwargs(given: Given) -> dict[str, Any]:
    """Return the policy's arguments that the caller supplies, with classes for the names of classes."""
    kwargs = dict(given.policy_kwargs or {})
    for key, pairs, which in (
        ("activation_fn", ACTIVATIONS, "an activation of torch.nn"),
        (EXTRACTOR_CLASS, EXTRACTORS, "a features extractor of SB3"),
    ):
        name = kwargs.get(key)
        if isinstance(name, str):
            known = {pair[1]: pair for pair in pairs}
            if name not in known:
                refuse(f"expected {which}, got {quote(name, 80)}", hint=f"available: {', '.join(known)}")
            kwargs[key] = Reference(*known[name])
    return kwargs


# -- a lone state dict ------------------------------------------------------------------------------------


def infer_agent(stored: Stored, builder: GraphBuilder, given: Given) -> reading.NetworkMatch:
    """Return the agent of a state dict without ``data``, and its network; what was inferred is noted in the graph."""
    policy_class = infer_policy_class(stored)
    if given.policy_class is not None:
        policy_class = find_policy_class(given.policy_class, policy_class)
    if policy_class is None:
        shown = ", ".join(quote(name, 60) for name in list(stored.tensors)[:4])
        refuse(f"the tensors are not those of a policy of SB3 ({shown})", hint=WHAT_WORKS)
    builder.infer(f"the policy is {policy_class[1]}, from the names of the tensors")
    kwargs = read_given_kwargs(given)
    if stored.has_gsde or "actor.log_std" in stored.tensors:
        builder.infer("gSDE, from the shape of log_std")
    accepted = sb3.POLICIES[policy_class].argument_names(changes.NEWEST)
    if unknown := [name for name in kwargs if name not in accepted]:  # it would have no effect
        message = f"expected arguments of {policy_class[1]} in policy_kwargs, got {quote(unknown[0], 80)}"
        refuse(message, hint=f"available: {', '.join(sorted(accepted))}")
    at = len(builder.inferred)
    observations = given.observation_space or _infer_observations(stored, builder, given)
    actions = given.action_space or _infer_actions(stored, builder, policy_class, kwargs)
    arguments = _missing_kwargs(stored, given, kwargs, policy_class)
    missing = ["observation_space=..."] if observations is None else []
    missing += ["action_space=..."] if actions is None else []
    missing += [f"policy_kwargs={arguments}"] if arguments else []
    if observations is None or actions is None or arguments:
        which = ", with the agent's values instead of SB3's defaults if they differ" if arguments else ""
        why = "a lone state dict has no data entry, and the tensors do not determine all settings"
        hint = f"pass {', '.join(missing)} to load_policy{which}"
        refuse(f"{why}: {hint}", hint=hint)
    use_sde = sb3.is_on_policy(policy_class) and stored.has_gsde
    agent = Agent(policy_class, observations, actions, kwargs, use_sde, changes.NEWEST, limits=builder.limits)
    match = fit_network(stored, agent, given.modules, changes.ERAS, is_lone=True)
    release = match.agent.release
    which = "the newest release, since nothing names another"
    if release != changes.NEWEST:
        which = f"SB3 {release}, the newest release with these names"
    builder.inferred.insert(at, f"the policy computes as in {which}")
    return match


def _infer_observations(stored: Stored, builder: GraphBuilder, given: Given) -> Space | None:
    is_flat = not any(".cnn." in name or ".extractors." in name or name.startswith("cnn.") for name in stored.tensors)
    is_flat = is_flat and not any("extractor" in name and "mlp" not in name for name in given.modules)
    sizes = map(stored.input_size, _FIRST)
    size = next((size for size in sizes if size is not None), 0)
    if not is_flat or size < 1:
        return None
    builder.check_parts(size)
    builder.infer(f"the observation is a vector of {size:,} numbers, from the first layer")
    low, high = (ArrayInfo("<f4", (size,), "C", pack("<f", bound) * size, is_scalar=False) for bound in (-inf, inf))
    return Box("gymnasium", (size,), "<f4", low, high, None)


def _infer_actions(stored: Stored, builder: GraphBuilder, policy_class: Pair, kwargs: dict[str, Any]) -> Space | None:
    """Only Q-networks have one output for each action, whatever the action space."""
    row = sb3.POLICIES[policy_class]
    network = row.network
    quantiles = kwargs.get("n_quantiles", 0) if issubclass(network, sb3.QRDQNPolicy) else 1
    sizes = []
    if issubclass(network, sb3.DQNPolicy) and row.extractor == FLATTEN:
        sizes = stored.matrices(f"{network.network}.{network.network}")
    if not sizes or type(quantiles) is not int or quantiles < 1 or sizes[-1][0] % quantiles:
        return None
    count = sizes[-1][0] // quantiles
    builder.infer(f"the action is one of {count:,}, from the last layer")
    return Discrete("gymnasium", count, 0, "<i8", None)


def _missing_kwargs(stored: Stored, given: Given, kwargs: dict[str, Any], policy_class: Pair) -> dict[str, object]:
    """Return the arguments of the policy that matter and that no tensor determines, with SB3's defaults."""
    network = sb3.POLICIES[policy_class].network
    is_ars = issubclass(network, sb3.ARSPolicy)
    has_gsde, is_off_policy_gsde = stored.has_gsde, "actor.log_std" in stored.tensors
    hidden = any(len(stored.matrices(module)) > outputs for module, outputs in _HIDDEN.items())
    acts_in_box = given.action_space is not None and given.action_space.distribution == "gaussian"
    parts = {} if given.observation_space is None else given.observation_space.parts()
    has_norms = any(name.startswith("actor.") and name.endswith(".ra_var") for name in stored.tensors)
    found: tuple[tuple[str, bool, object], ...] = (
        ("activation_fn", hidden and "activation_fn" not in given.modules, network.activation[1]),
        ("squash_output", has_gsde or (is_ars and acts_in_box), is_ars and stored.has("action_net.2")),
        ("clip_mean", is_off_policy_gsde and stored.has("actor.mu.0"), 2.0),
        ("use_expln", has_gsde or is_off_policy_gsde, False),
        ("batch_norm_eps", has_norms, 0.001),
        ("normalize_images", any(part.is_image() for part in parts.values()), True),
    )
    return {name: default for name, matters, default in found if matters and name not in kwargs}


# -- layers -------------------------------------------------------------------------------------------


def fit_network(
    stored: Stored, agent: Agent, modules: frozenset[str], releases: Iterable[Release], *, is_lone: bool = False
) -> reading.NetworkMatch:
    """Return the network of a policy whose layers the names and shapes determine.

    Targets, second names of a features extractor, and critics may be missing: nothing that acts uses them.

    :param releases: those whose names the tensors may have, the most likely first
    :param is_lone: whether no ``data`` says what is shared
    """
    found, errors = [], []
    require_choices(agent.observation_space, OBSERVATIONS)
    require_choices(agent.action_space, ACTIONS)
    supplied, row = _measure_supplied(stored, agent, modules), sb3.POLICIES[agent.policy_class]
    unused = ("optimizer_class", "optimizer_kwargs", "log_std_init")  # nothing computes with them
    given = {name: value for name, value in agent.policy_kwargs.items() if name not in unused}
    ignores_squash = not (is_lone or agent.use_sde) and issubclass(row.network, sb3.ActorCriticPolicy)
    for release in releases:
        one = agent._replace(release=release, supplied=supplied)
        made = infer_arguments(stored, one)
        if not is_lone:  # then data decides
            made.pop("share_features_extractor", None)
        accepted = row.argument_names(release)
        if ignores_squash and release >= changes.SQUASH_NEEDS_GSDE:
            accepted -= {"squash_output"}  # nothing computes with it
        kwargs = {name: value for name, value in {**given, **made}.items() if name in accepted}
        try:
            match = _compare(stored, one._replace(policy_kwargs=kwargs))
        except NetworkError as error:
            if error.key.rpartition("/")[2] in given:
                raise
            errors.append(error)
            continue
        if not match.mismatches:
            return match
        found.append(match)
    if not found:
        raise errors[0]
    nearest = min(found, key=lambda match: len(match.mismatches))
    unexpected = [row.name for row in nearest.mismatches if row.kind == "unexpected"]
    if unexpected:
        shown = ", ".join(quote(name, 80) for name in unexpected[:4])
        refuse(f"{agent.policy_class[1]} does not have {shown}", hint=WHAT_WORKS)
    raise reading.misfit_error(nearest)


def _compare(stored: Stored, agent: Agent) -> reading.NetworkMatch:
    """Compare what acts with the stored tensors, in any of their names."""
    match = reading.compare_network(agent, {})
    skipped = {*match.policy.opaque_paths(), *_TARGETS, *(() if stored.has("critic.qf0") else ("critic.",))}
    actual = {name: shape for name, shape in stored.shapes.items() if skipped.isdisjoint(_beginnings(name))}
    parameters = [parameter for parameter in match.parameters if skipped.isdisjoint(_beginnings(parameter.name))]
    names = {parameter.name for parameter in parameters}
    held = {name.partition(_IN_EXTRACTOR)[0] for name in actual if _IN_EXTRACTOR in name}
    expected = [one for one in parameters if one.same_as not in actual or one.name.partition(_IN_EXTRACTOR)[0] in held]
    places = {stored.place(name, name.partition(_IN_EXTRACTOR)[2]) for name in names if _IN_EXTRACTOR in name}
    for name in [name for name in actual if name not in names and name.startswith(_ALIASES)]:
        if stored.place(name, name.partition(_IN_EXTRACTOR)[2]) in places:
            del actual[name]
    return match._replace(mismatches=reading.find_mismatches(expected, actual))


def _beginnings(name: str) -> Iterator[str]:
    """Yield the modules that a tensor is in, each with a dot at its end."""
    return accumulate(f"{part}." for part in name.split(".")[:-1])


def infer_arguments(stored: Stored, agent: Agent) -> dict[str, Any]:
    """Return the arguments of a policy that names and shapes determine."""
    network = sb3.POLICIES[agent.policy_class].network
    made, (owner, critic) = _infer_extractor(stored, agent), network.extractor_names
    if critic:  # they are one if the tensors of both are at the same place
        is_shared = not stored.has(owner) or stored.identify(owner) == stored.identify(critic)
        made["share_features_extractor"] = is_shared
    activation = agent.policy_kwargs.get("activation_fn")
    layers = (parts for module in _HIDDEN for parts in stored.layers(module).values())
    slopes = [parts["weight"] for parts in layers if parts.keys() == {"weight"} and len(parts["weight"]) == 1]
    if slopes and isinstance(activation, Reference):  # a PReLU
        made["activation_fn"] = Partial(activation, (), {"num_parameters": slopes[0][0]})
    noise_layers = [name for name in (changes.NOISE_LAYERS, f"actor.{changes.NOISE_LAYERS}") if stored.has(name)]
    if noise_layers or agent.policy_kwargs.get(changes.NOISE_ARGUMENT) is not None:
        made[changes.NOISE_ARGUMENT] = stored.widths((noise_layers or [changes.NOISE_LAYERS])[0])
    if issubclass(network, sb3.ActorCriticPolicy):
        return {**made, **_infer_actor_critic(stored, agent)}
    if issubclass(network, sb3.ActorCriticsPolicy):
        return {**made, **_infer_actor_critics(stored, agent)}
    module = "action_net" if issubclass(network, sb3.ARSPolicy) else f"{network.network}.{network.network}"  # type: ignore[attr-defined]
    widths = stored.widths(module)
    made["net_arch"] = widths[:-1]
    if issubclass(network, sb3.ARSPolicy):
        made["with_bias"] = any(name.endswith(".bias") for name in stored.names(module))
    elif issubclass(network, sb3.QRDQNPolicy) and widths and agent.action_space.distribution == "categorical":
        made["n_quantiles"] = widths[-1] // max(agent.action_space.flat_size(), 1)
    return made


def _infer_actor_critic(stored: Stored, agent: Agent) -> dict[str, Any]:
    modules = (changes.SHARED_LAYERS, "mlp_extractor.policy_net", "mlp_extractor.value_net")
    shared, pi, vf = map(stored.widths, modules)
    takes_dict = agent.release >= changes.NO_SHARED_LAYERS
    made: dict[str, Any] = {"net_arch": {"pi": pi, "vf": vf} if takes_dict else [*shared, {"pi": pi, "vf": vf}]}
    if (log_std := stored.shape("log_std"))[1:]:
        made["full_std"] = log_std[1] != 1 or agent.action_space.flat_size() == 1
    if issubclass(sb3.POLICIES[agent.policy_class].network, sb3.RecurrentActorCriticPolicy):
        layers = 0
        while f"lstm_actor.weight_ih_l{layers}" in stored.tensors:
            layers += 1
        made["n_lstm_layers"] = layers or 1
        if hidden := stored.shape("lstm_actor.weight_hh_l0"):
            made["lstm_hidden_size"] = hidden[0] // 4
        made["enable_critic_lstm"] = stored.has("lstm_critic")
        made["shared_lstm"] = not stored.has("lstm_critic") and not stored.has("critic")
        kwargs = agent.policy_kwargs.get("lstm_kwargs")
        made["lstm_kwargs"] = {
            "batch_first": kwargs.get("batch_first", False) if isinstance(kwargs, dict) else False,
            "bias": "lstm_actor.bias_ih_l0" in stored.tensors,
            "bidirectional": "lstm_actor.weight_ih_l0_reverse" in stored.tensors,
            "proj_size": (stored.shape("lstm_actor.weight_hr_l0") or (0,))[0],
        }
    return made


def _infer_actor_critics(stored: Stored, agent: Agent) -> dict[str, Any]:
    network = sb3.POLICIES[agent.policy_class].network
    first = "critic.qf0"
    is_gaussian = issubclass(network, sb3.SACPolicy)
    pi = stored.widths("actor.latent_pi") if is_gaussian else stored.widths("actor.mu")[:-1]
    qf = stored.widths(first)[:-1] if stored.has(first) else pi
    same_list = agent.release < changes.PI_AND_QF
    made: dict[str, Any] = {"net_arch": pi if same_list else {"pi": pi, "qf": qf}}
    count = 0
    while stored.has(f"critic.qf{count}"):
        count += 1
    if count:
        made["n_critics"] = count
    if is_gaussian:
        made[USE_SDE] = "actor.log_std" in stored.tensors
        if made[USE_SDE] and not stored.has("actor.mu.0"):
            made["clip_mean"] = 0.0
        if issubclass(network, sb3.CrossQPolicy):
            made["batch_norm"] = any(name.endswith(".ra_var") for name in stored.tensors)
        if issubclass(network, sb3.TQCPolicy) and stored.matrices(first):
            made["n_quantiles"] = stored.matrices(first)[-1][0]
    return made


def _infer_extractor(stored: Stored, agent: Agent) -> dict[str, Any]:
    """Return the class of the features extractor, and its arguments, unless the caller or ``data`` names it."""
    candidates = _EXTRACTORS
    if is_supplied := not agent.supplied.keys().isdisjoint(_EXTRACTORS):  # the actor's; a critic may have its own
        candidates = (changes.CRITIC_EXTRACTOR, f"critic.{EXTRACTOR}")
        is_known = is_known_extractor(agent.policy_kwargs.get(EXTRACTOR_CLASS, Reference(*FLATTEN)))
        if not is_known or not any(map(stored.has, candidates)):
            return {}
    else:
        agent.arguments.reference(EXTRACTOR_CLASS, FLATTEN)  # refuses one that is not known by its name
    module = next((name for name in candidates if stored.has(name)), EXTRACTOR)
    names = {name[len(module) + 1 :] for name in stored.names(module)}
    space, made = agent.observation_space, dict[str, Any]()
    images = [name.removesuffix(".cnn.0.weight") for name in names if name.endswith(".cnn.0.weight")]
    if space.has_keys and names == {f"{image}.{name}" for image in images for name in _CNN_TENSORS}:
        pair, parts = COMBINED, space.parts()
        if images:
            made["cnn_output_dim"] = (stored.shape(f"{module}.{images[0]}.linear.0.weight") or (1,))[0]
        shown = [parts[key] for image in images if (key := image.removeprefix("extractors.")) in parts]
    elif not space.has_keys and names == _CNN_TENSORS:
        pair, shown = NATURE, [space]
        made["features_dim"] = (stored.shape(f"{module}.linear.0.weight") or (1,))[0]
    elif not space.has_keys and not names:
        pair, shown = FLATTEN, []
    else:
        norms = {norm: RunningNorm(Size(1, ""), counters).parameters() for norm, counters in NORMS.items()}
        found = next((norm for norm, own in norms.items() if {f"normalize.{one.name}" for one in own} == names), None)
        if is_supplied and (found is None or space.has_keys):
            return {EXTRACTOR_CLASS: Reference("", "unknown")}
        if found is None or space.has_keys:
            listed = ", ".join(quote(name, 60) for name in sorted(names)[:4])
            message = f"the features extractor {quote(module, 80)} is not one of SB3: it has the tensors {listed}"
            refuse(message, hint=WHAT_WORKS)
        pair, shown = NORMALIZE, []
        made["normalize_class"] = Reference(*found)
    if any(not part.is_image() for part in shown) and agent.release >= changes.NORMALIZED_IMAGES:
        made["normalized_image"] = True
    named = agent.arguments.reference(EXTRACTOR_CLASS, pair)
    arguments: dict[str, Any] = {EXTRACTOR_CLASS: Reference(*named)}
    return {**arguments, "features_extractor_kwargs": made} if named == pair else arguments


def _measure_supplied(stored: Stored, agent: Agent, modules: frozenset[str]) -> dict[str, tuple[str, int]]:
    """Return the modules that functions of the caller replace, with the number of results that what follows expects.

    A function that is called ``features_extractor`` is the critic's, too, if the tensors of both are at one place.
    """
    network = sb3.POLICIES[agent.policy_class].network
    owner, critic = network.extractor_names
    made: dict[str, tuple[str, int]] = {}
    for name in modules:
        if name == "activation_fn":
            made[name] = name, 0
        elif name in (EXTRACTOR, owner, critic):
            made[name] = name, _count_features(stored, agent, name)
        elif name in _BRANCHES and issubclass(network, sb3.ActorCriticPolicy):
            size = stored.input_size(_BRANCHES[name])
            if size is None:
                message = f"expected the layer {quote(_BRANCHES[name], 120)} in the state dict"
                raise ValidationError(message, entry=POLICY_ENTRY)
            made[name] = name, size
    if EXTRACTOR in made and critic and stored.identify(owner) == stored.identify(critic):
        made.setdefault(critic, made[EXTRACTOR])
    return made


def _count_features(stored: Stored, agent: Agent, name: str) -> int:
    """Return the number of features that the layers after a features extractor expect."""
    modules: tuple[str, ...] = _FIRST
    actions = 0
    if name == changes.CRITIC_EXTRACTOR:
        modules = ("lstm_critic", "critic", changes.SHARED_LAYERS, "mlp_extractor.value_net", "value_net")
    elif name.startswith("critic."):
        modules, actions = ("critic.qf0",), agent.action_space.flat_size() if agent.action_space.distribution else 0
    sizes = [size for size in map(stored.input_size, modules) if size is not None]
    if not sizes:
        refuse(f"the number of features of {quote(name, 80)} is not known: no layer follows it")
    return sizes[0] - actions


_POLICY_FILE = "policy-file"


@refuse_network()
def build_sb3_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of an agent, a lone ``policy.pth`` or a file of ``policy.save()`` as a graph."""
    entry = archive.find_state_dict("policy")
    unwrapped = unwrap_policy(archive, entry)
    state_dict = unwrapped.state_dict
    builder = GraphBuilder(budget)
    is_saved = archive.format == _POLICY_FILE
    has_data = is_saved or DATA_ENTRY in archive.entries
    stored = Stored(state_dict.tree, reading.read_shapes(state_dict))
    rate = 0.0
    if is_saved or (has_data and entry == POLICY_ENTRY):
        match = _read_network(archive, stored, builder, given)
        if not is_saved and (value := reading.decode_value(archive, "exploration_rate")) is not None:
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
    algorithm = archive.algorithm.name if has_data else None
    is_normalized = has_data and was_normalized(archive, agent.observation_space)
    graph, spaces = builder.build(head.outputs, head.sampling), (agent.observation_space, agent.action_space)
    return PolicyModel(graph, *spaces, algorithm, "sb3", is_normalized, archive)


def _read_network(archive: Archive, stored: Stored, builder: GraphBuilder, given: Given) -> reading.NetworkMatch:
    """Return the network of an archive with ``data``, or of a file of ``policy.save()``, which its tensors fit."""
    is_saved = archive.format == _POLICY_FILE
    replaced = _read_given(given, stored)
    needed = (OBSERVATIONS, ACTIONS) if is_saved else ("policy_class", OBSERVATIONS, ACTIONS)
    # SB3 writes these keys unless it is told to leave them out
    if missing := [f"{key}=..." for key in needed if key not in archive.data and key not in replaced]:
        hint = f"pass {', '.join(missing)} to load_policy"
        refuse(f"data is incomplete: {hint}", DATA_ENTRY, hint=hint)
    named = {"policy_class": given.policy_class, EXTRACTOR_CLASS: (given.policy_kwargs or {}).get(EXTRACTOR_CLASS)}
    unknown = _list_unknown(archive) if any(named.values()) else []
    others = [name for name in unknown if named[name] is not None]
    try:
        if others or any("extractor" in name for name in given.modules):
            match = _fit(archive, stored, given.modules, replaced)
        elif is_saved:
            if all(name.startswith("action_net.") for name in stored.tensors):  # ARS, whose save() omits with_bias
                has_bias = any(name.endswith(".bias") for name in stored.tensors)
                replaced[KWARGS] = {"with_bias": has_bias, **replaced.get(KWARGS, {})}
            match = reading.match_saved_policy(archive, replaced)
        else:
            _require_known_class(archive, replaced)
            match = reading.match_network(archive, replaced)
    except UnsupportedError as error:
        option = _find_option(archive, stored, replaced)
        message = error.message if option else error.message.removesuffix(f"; {WHAT_WORKS}")
        raise UnsupportedError(message, entry=error.entry, hint=option or WHAT_WORKS) from None
    if match.mismatches:
        raise reading.misfit_error(match)
    agent = match.agent
    is_box = isinstance(match.policy, sb3.ARSPolicy) and agent.action_space.distribution == "gaussian"
    if is_saved and is_box and "squash_output" not in agent.policy_kwargs:  # and no tensor determines it
        hint = "pass policy_kwargs={'squash_output': ...} to load_policy"
        raise UnsupportedError(f"policy.save() of ARS omits squash_output: {hint}", entry=DATA_ENTRY, hint=hint)
    name = agent.policy_class[1]
    if is_saved and given.policy_class is None:
        builder.infer(f"the policy is {name}, from its arguments and tensors: the file does not name its class")
    elif others:
        which = f"{' and '.join(others)} {'says' if len(others) == 1 else 'say'} so"
        builder.infer(f"the policy computes as {name}, with its defaults, since {which}")
    return match


def _read_given(given: Given, stored: Stored) -> dict[str, Any]:
    """Return what the caller supplies as fields of an agent."""
    kwargs = read_given_kwargs(given)
    if "activation_fn" in given.modules:  # then its class does not matter
        kwargs["activation_fn"] = Reference("torch.nn.modules.linear", "Identity")
    named = given.policy_class
    made = {
        "policy_class": None if named is None else find_policy_class(named, infer_policy_class(stored)),
        OBSERVATIONS: given.observation_space,
        ACTIONS: given.action_space,
        KWARGS: kwargs if kwargs or given.policy_kwargs is not None else None,
        "supplied": {"activation_fn": ("activation_fn", 0)} if "activation_fn" in given.modules else None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _list_unknown(archive: Archive) -> list[str]:
    """Return which of the policy's classes that ``data`` names are not known: custom ones."""
    if archive.format == _POLICY_FILE:
        return []
    pair, kwargs = ("", ""), None
    with suppress(SbformatError):
        pair = reading.read_policy_class(archive)
    with suppress(SbformatError):
        kwargs = reading.decode_value(archive, KWARGS)
    value = kwargs.get(EXTRACTOR_CLASS) if isinstance(kwargs, dict) else None
    is_plain = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
    unknown = [] if pair in sb3.POLICIES or pair in sb3.PRESETS else ["policy_class"]
    return unknown if is_plain or is_known_extractor(value) else [*unknown, EXTRACTOR_CLASS]


def _find_option(archive: Archive, stored: Stored, replaced: Mapping[str, Any]) -> str:
    """Return which arguments run an agent whose classes are not known as SB3's own, if all weights fit those."""
    unknown = _list_unknown(archive)
    inferred = infer_policy_class(stored)
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
    fits = "names and shapes of all weights fit SB3's own, but it may compute something else"
    return f"{fits}: {' with '.join(options[key] for key in unknown)} runs it so"


def _require_known_class(archive: Archive, replaced: Mapping[str, Any]) -> None:
    """Refuse another policy class before its arguments, which may be as unknown."""
    found = replaced.get("policy_class") or reading.read_policy_class(archive)
    if found not in sb3.POLICIES and found not in sb3.PRESETS:
        refuse(f"the network of the policy class {escape('.'.join(found), 200)} is not known", DATA_ENTRY)


def _fit(
    archive: Archive, stored: Stored, modules: frozenset[str], replaced: Mapping[str, Any]
) -> reading.NetworkMatch:
    """Return the network of a file whose network is not SB3's alone: names and shapes of its tensors decide."""
    unwrap_policy(archive).require_all(modules)
    if archive.format != _POLICY_FILE:
        _require_known_class(archive, replaced)
        agent = reading.read_agent(archive, replaced=replaced)
        if EXTRACTOR_CLASS in replaced.get(KWARGS, {}):  # then the arguments of the file's are not for it
            kwargs = {**agent.policy_kwargs, "features_extractor_kwargs": None, **replaced[KWARGS]}
            agent = agent._replace(policy_kwargs={key: value for key, value in kwargs.items() if value is not None})
        return fit_network(stored, agent, modules, candidate_releases(archive.stable_baselines3_version))
    agents = list(reading.list_saved_agents(archive, {"policy_class": infer_policy_class(stored), **replaced}))
    if not agents:
        hint = "pass policy_class to load_policy"
        refuse(f"the file does not name its policy class: {hint}", DATA_ENTRY, hint=hint)
    releases = [agent.release for agent in agents if agent.policy_class == agents[0].policy_class]
    return fit_network(stored, agents[0], modules, releases)
