"""SAC, TQC, CrossQ, TD3 and DDPG: an actor, and critics of its action; DQN, QR-DQN and ARS: one network.

Sources: SB3 ``sac/policies.py``, ``td3/policies.py`` and ``dqn/policies.py`` of 0.6 to 2.9, sb3-contrib
``tqc/policies.py``, ``crossq/policies.py``, ``qrdqn/policies.py`` and ``ars/policies.py`` of 0.11 to 2.9.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from sbformat.errors import ValidationError
from sbformat.known import changes
from sbformat.policies.graph import Sampling
from sbformat.policies.sb3.actions import Head, add_gaussian, add_gsde, component_sizes, finish_action, require_outputs
from sbformat.policies.sb3.on_policy import add_noise_features
from sbformat.policies.shapes.agents import action_space_error
from sbformat.policies.shapes.entropy import LARGEST_FLOAT32
from sbformat.policies.shapes.sac_and_td3 import shares_extractor
from sbformat.policies.shapes.sizes import NetworkError

if TYPE_CHECKING:
    from sbformat.policies.builder import Value
    from sbformat.policies.sb3.actions import Noise
    from sbformat.policies.sb3.features import Features
    from sbformat.policies.sb3.network import Network

_LOG_STD_RANGE: Final = (-20.0, 2.0)
"""``LOG_STD_MIN`` and ``LOG_STD_MAX``."""
_CLIP_MEAN: Final = 2.0
"""``clip_mean`` by default."""


# -- an actor and critics -----------------------------------------------------------------------------


def build_gaussian_actor(network: Network, features: Features) -> Head:
    """``SACPolicy``, ``TQCPolicy`` and ``CrossQPolicy``: a Gaussian, squashed by tanh."""
    observed = _extract(features, "actor", {"actor.latent_pi": 0, "actor.mu": 0})
    latent = network.sequential("actor.latent_pi", observed, has_output=False)
    noise: Noise
    if "actor.log_std" in network.tensors:
        mean = _add_clipped_mean(network, latent)
        noise_features = add_noise_features(network, f"actor.{changes.NOISE_LAYERS}", observed, latent)
        noise = add_gsde(network, mean, noise_features, "actor.log_std")
    else:
        mean = network.linear("actor.mu", latent, name="mean")
        low, high = map(network.constant, _LOG_STD_RANGE)
        raw = network.linear("actor.log_std", latent)
        above = network.add("Max", raw, low, module="actor.log_std")
        noise = add_gaussian(mean, network.add("Min", above, high, name="log_std", module="actor.log_std"))
    scaled = network.add("Tanh", mean, module="actor")
    action = finish_action(network, scaled, squashed=True)
    outputs = {"action": action, "mean": mean, "log_std": noise.log_std, **_add_critics(network, features, scaled)}
    return Head(outputs, noise.sampling)


def _add_clipped_mean(network: Network, latent: Value) -> Value:
    """The mean of gSDE, which a Hardtanh limits unless ``clip_mean`` is 0."""
    if not network.has("actor.mu.0"):
        return network.linear("actor.mu", latent, name="mean")
    limit = network.settings.number("clip_mean", _CLIP_MEAN)
    if LARGEST_FLOAT32 < limit < inf:
        raise NetworkError(network.settings.arguments.key("clip_mean"), f"expected a number of float32, got {limit!r}")
    above = network.add("Max", network.linear("actor.mu.0", latent), network.constant(-limit), module="actor.mu.1")
    return network.add("Min", above, network.constant(limit), name="mean", module="actor.mu.1")


def build_deterministic_actor(network: Network, features: Features) -> Head:
    """``TD3Policy``, which DDPG uses too."""
    observed = _extract(features, "actor", {"actor.mu": 0})
    raw = network.sequential("actor.mu", observed, has_output=True)
    scaled = network.add("Tanh", raw, name="mean", module="actor.mu")
    action = finish_action(network, scaled, squashed=True)
    return Head({"action": action, "mean": scaled, **_add_critics(network, features, scaled)}, Sampling("none"))


def _extract(features: Features, owner: str, consumers: dict[str, int]) -> Value:
    """The features extractor of an actor or critic, which once was the policy's."""
    return features.extract((f"{owner}.features_extractor", "features_extractor"), consumers)


def _add_critics(network: Network, features: Features, action: Value) -> dict[str, Value]:
    """Add the value of the deterministic action for each critic; for TQC, its quantiles too.

    Nothing is added when the caller supplies a features extractor for the actor alone.
    """
    names = [f"critic.{name}" for name in changes.CRITICS if network.has(f"critic.{name}")]
    while not names or names[0].startswith("critic.qf"):
        name = f"critic.qf{len(names)}"
        if not network.has(name):
            break
        names.append(name)
    if not names:
        return {}
    owner = "actor" if shares_extractor(network.settings.agent) else "critic"
    extractors = (f"{owner}.features_extractor", "features_extractor")
    observed = features.extract_for_critic(extractors, dict.fromkeys(names, action.shape[0]))
    if observed is None:
        network.used.update(network.names("critic"))
        return {}
    seen = network.add("Concat", observed, action, axis=-1, module="critic")
    values = [network.sequential(name, seen, has_output=True) for name in names]
    if network.settings.kind != "tqc":
        return {"q_values": network.add("Concat", *values, axis=-1, name="q_values", module="critic")}
    rows = [network.add("Reshape", value, shape=(1, value.shape[0]), module="critic") for value in values]
    quantiles = network.add("Concat", *rows, axis=-2, name="quantiles", module="critic")
    mean = network.add("ReduceMean", quantiles, axis=-1, name="q_values", module="critic")
    return {"q_values": mean, "quantiles": quantiles}


# -- one network --------------------------------------------------------------------------------------


def build_q_network(network: Network, features: Features) -> Head:
    """``DQNPolicy``: the action of the greatest value, or at random with the rate that ``data`` has."""
    values = _add_values(network, features, "q_net", "q_values")
    return _choose(network, {"q_values": values})


def build_quantile_network(network: Network, features: Features) -> Head:
    """``QRDQNPolicy``: as DQN, with the mean of each action's quantiles as its value."""
    flat = _add_values(network, features, "quantile_net", "")
    space = network.settings.agent.action_space
    actions = space.flat_size() if space.distribution == "categorical" else 1
    if actions < 1 or flat.shape[0] % actions:
        message = f"expected a number of quantiles for each of {actions:,} actions, got {flat.shape[0]:,} outputs"
        raise ValidationError(message)
    shape = (flat.shape[0] // actions, actions)
    quantiles = network.add("Reshape", flat, shape=shape, name="quantiles", module="quantile_net")
    values = network.add("ReduceMean", quantiles, axis=-2, name="q_values", module="quantile_net")
    return _choose(network, {"q_values": values, "quantiles": quantiles})


def _add_values(network: Network, features: Features, module: str, name: str) -> Value:
    layers = f"{module}.{module}"
    observed = _extract(features, module, {layers: 0})
    return network.sequential(layers, observed, has_output=True, name=name)


def _choose(network: Network, outputs: dict[str, Value]) -> Head:
    values = outputs["q_values"]
    space = network.settings.agent.action_space
    if space.distribution != "categorical":
        raise action_space_error(space)
    require_outputs(values, space.flat_size())
    action = network.add("ArgMax", values, axis=-1, name="action")
    rate = network.settings.rate
    drawn = Sampling("epsilon_greedy", action.name, sizes=values.shape, rate=rate) if rate else Sampling("none")
    return Head({"action": action, **outputs}, drawn)


def build_ars(network: Network, features: Features) -> Head:
    """``ARSPolicy`` and ``ARSLinearPolicy``, which are deterministic."""
    is_linear = network.settings.kind == "ars_linear"
    observed = features.extract(("features_extractor",), {"action_net": 0})
    is_box = network.settings.agent.action_space.distribution == "gaussian"
    name = "" if is_box else "scores"
    if "action_net.weight" in network.tensors:  # ARSLinearPolicy before changes.ARS_SEQUENCE
        raw = network.linear("action_net", observed, name=name)
    else:
        raw = network.sequential("action_net", observed, has_output=True, name=name)
    if not is_box:
        require_outputs(raw, *component_sizes(network, raw))
        return Head({"action": network.add("ArgMax", raw, axis=-1, name="action"), "scores": raw}, Sampling("none"))
    squash = network.settings.flag("squash_output", default=not is_linear)
    has_tanh = squash or (not is_linear and network.settings.agent.release < changes.ARS_SQUASHES_IF_ASKED)
    raw = network.add("Tanh", raw, module="action_net") if has_tanh else raw
    return Head({"action": finish_action(network, raw, squashed=squash), "mean": raw}, Sampling("none"))
