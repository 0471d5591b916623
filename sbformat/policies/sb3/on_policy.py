"""PPO, A2C, TRPO, MaskablePPO and RecurrentPPO: an actor and a critic beside it.

Sources: SB3 ``common/policies.py`` of 0.6 to 2.9, sb3-contrib ``common/maskable/policies.py`` and
``common/recurrent/policies.py`` of 1.3 to 2.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.known import changes
from sbformat.policies.sb3.actions import (
    Head,
    add_bits,
    add_choices,
    add_gaussian,
    add_gsde,
    component_sizes,
    finish_action,
)
from sbformat.policies.sb3.lstm import add_lstm
from sbformat.policies.shapes.agents import has_noise_layers

if TYPE_CHECKING:
    from sbformat.policies.builder import Value
    from sbformat.policies.sb3.actions import Noise
    from sbformat.policies.sb3.features import Features
    from sbformat.policies.sb3.network import Network

_LAYERS: Final = "mlp_extractor"
_CRITIC_MODULES: Final = (changes.CRITIC_EXTRACTOR, "lstm_critic", "critic", f"{_LAYERS}.value_net", "value_net")
_ACTOR_FEATURES: Final = (changes.ACTOR_EXTRACTOR, "features_extractor")
_CRITIC_FEATURES: Final = (changes.CRITIC_EXTRACTOR, "features_extractor")


def build_actor_critic(network: Network, features: Features) -> Head:
    """``ActorCriticPolicy``, and its masked and recurrent variants."""
    observed = features.extract(_ACTOR_FEATURES, _consumers("policy_net", "actor"))
    latent = _add_layers(network, _recur(network, observed, "lstm_actor"), "policy_net", "action_net")
    head = _add_actor(network, observed, latent)
    value = _add_critic(network, features, observed)
    return head if value is None else head._replace(outputs={**head.outputs, "value": value})


def _consumers(branch: str, owner: str) -> dict[str, int]:
    """Return the modules that receive features, the first that exists first."""
    last = "action_net" if owner == "actor" else "value_net"
    names = ("critic",) if owner == "critic" else ()
    return dict.fromkeys((f"lstm_{owner}", *names, changes.SHARED_LAYERS, f"{_LAYERS}.{branch}", last), 0)


def _recur(network: Network, value: Value, module: str) -> Value:
    return add_lstm(network, module, value) if network.has(module) else value


def _add_layers(network: Network, value: Value, branch: str, last: str) -> Value:
    """``mlp_extractor``: the shared layers of old releases, and one of the two branches.

    A function that the caller supplies as ``mlp_extractor`` returns what the actor uses.
    """
    module = f"{_LAYERS}.{branch}"
    for function in (module, _LAYERS):
        if function in network.modules:
            network.used.update(network.names(_LAYERS))
            return network.call(function, module, [value], network.require_input_size(last))
    shared = network.sequential(changes.SHARED_LAYERS, value, has_output=False)
    return network.sequential(module, shared, has_output=False)


def _add_actor(network: Network, observed: Value, latent: Value) -> Head:
    space = network.settings.agent.action_space
    if space.distribution == "gaussian":
        return _add_numbers(network, observed, latent)
    is_masked = network.settings.kind == "maskable"
    logits = network.linear("action_net", latent, name="raw_logits" if is_masked else "logits")
    if space.distribution == "bernoulli" and not is_masked:
        return add_bits(network, logits)
    return add_choices(network, logits, component_sizes(network, logits), masked=is_masked)


def _add_numbers(network: Network, observed: Value, latent: Value) -> Head:
    mean = network.linear("action_net", latent, name="mean")
    settings = network.settings
    squash = settings.flag("squash_output", default=False)
    noise: Noise
    if settings.agent.use_sde:
        noise_features = add_noise_features(network, changes.NOISE_LAYERS, observed, latent)
        noise = add_gsde(network, mean, noise_features, "log_std")
    else:
        noise = add_gaussian(mean, network.weight("log_std"))
        squash = squash and settings.agent.release < changes.SQUASH_NEEDS_GSDE
    squashed = network.add("Tanh", mean, module="action") if squash and settings.agent.use_sde else mean
    action = finish_action(network, squashed, squashed=squash)
    spread = network.add("Identity", noise.log_std, name="log_std") if noise.log_std.is_weight else noise.log_std
    return Head({"action": action, "mean": mean, "log_std": spread}, noise.sampling)


def add_noise_features(network: Network, module: str, observed: Value, latent: Value) -> Value:
    """Return the features that gSDE's noise depends on: those of the last hidden layer, or of layers of its own.

    With layers of its own that are none, it depends on the features of the observation.

    :param module: those layers
    """
    if network.has(module):
        return network.sequential(module, observed, has_output=False)
    return observed if has_noise_layers(network.settings.agent) else latent


def _add_critic(network: Network, features: Features, actor_features: Value) -> Value | None:
    """Add the value; None when the caller supplies modules for the actor alone."""
    shares = network.settings.flag("share_features_extractor", default=True)
    names = _ACTOR_FEATURES if shares else _CRITIC_FEATURES
    observed = features.extract_for_critic(names, _consumers("value_net", "critic"))
    if observed is None or (_LAYERS in network.modules and f"{_LAYERS}.value_net" not in network.modules):
        for module in _CRITIC_MODULES:
            network.used.update(network.names(module))
        return None
    if network.has("lstm_critic"):
        observed = add_lstm(network, "lstm_critic", observed)
    elif network.has("critic"):
        observed = network.linear("critic", observed)
    elif network.has("lstm_actor"):
        observed = add_lstm(network, "lstm_actor", actor_features)
    latent = _add_layers(network, observed, "value_net", "value_net")
    return network.linear("value_net", latent, name="value")
