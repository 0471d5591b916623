"""The settings of a lone state dict: what its names and shapes determine, and what the caller is asked for.

The names determine the policy class, as far as it matters to what is computed; the shapes, the sizes of observations
and actions. Nothing in them says which activation is between the layers, which bounds an action has, or whether seven
logits are one choice of seven: the caller of ``load_policy`` is asked for these.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.known import changes
from sbformat.known.spaces import Box, Discrete
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.sb3.settings import WHAT_WORKS, Settings, find_policy_class, make_settings, read_given_kwargs
from sbformat.policies.shapes import POLICIES, Agent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.known.spaces import Space
    from sbformat.pkl.names import Pair
    from sbformat.policies.model import Given
    from sbformat.policies.sb3.network import Network

_MAX_FEATURES: Final = 1 << 20
"""Items of an observation whose space is inferred."""
_MATRIX: Final = 2
_NO_SPACE: Final = Discrete("gymnasium", 1, 0, "<i8", None)
"""In the place of a space that is not known yet."""
_HIDDEN: Final = {
    changes.SHARED_LAYERS: 0, "mlp_extractor.policy_net": 0, "mlp_extractor.value_net": 0, "q_net.q_net": 1,
    "quantile_net.quantile_net": 1, "action_net": 1, "actor.latent_pi": 0, "actor.mu": 1, "critic.qf0": 1,
    f"critic.{next(iter(changes.CRITICS))}": 1, changes.NOISE_LAYERS: 0, f"actor.{changes.NOISE_LAYERS}": 0,
}  # fmt: skip
"""Modules of layers, with the number of those that no activation follows."""
_FIRST: Final = {
    "lstm_actor": 0, changes.SHARED_LAYERS: 0, "mlp_extractor.policy_net": 0, "q_net.q_net": 0,
    "quantile_net.quantile_net": 0, "actor.latent_pi": 0, "actor.mu": 0, "action_net": 0,
}  # fmt: skip
"""Modules that may be the first after the features extractor, each before those that may follow it."""


def infer_policy_class(network: Network) -> Pair | None:
    """Return the policy class that the names of tensors suggest; None when they are not those of SB3.

    Classes that differ in their features extractor alone are one here. A masked actor-critic has the names of one that
    is not masked.
    """
    module, name = "", ""
    if network.has("lstm_actor"):
        module, name = "sb3_contrib.common.recurrent.policies", "RecurrentActorCriticPolicy"
    elif network.has("q_net"):
        module, name = "stable_baselines3.dqn.policies", "DQNPolicy"
    elif network.has("quantile_net"):
        module, name = "sb3_contrib.qrdqn.policies", "QRDQNPolicy"
    elif "actor.log_std" in network.tensors or network.has("actor.log_std"):
        module, name = _infer_gaussian(network)
    elif network.has("actor.mu"):
        module, name = "stable_baselines3.td3.policies", "TD3Policy"
    elif network.has("value_net"):
        module, name = "stable_baselines3.common.policies", "ActorCriticPolicy"
    elif network.has("action_net"):
        module, name = "sb3_contrib.ars.policies", "ARSPolicy"
    return (module, name) if name else None


def _infer_gaussian(network: Network) -> Pair:
    """Distinguish SAC, TQC with its several outputs of a critic, and CrossQ without targets."""
    if network.has("critic") and not network.has("critic_target"):
        return "sb3_contrib.crossq.policies", "CrossQPolicy"
    if any(shape[0] != 1 for shape in network.matrices("critic.qf0")[-1:]):
        return "sb3_contrib.tqc.policies", "TQCPolicy"
    return "stable_baselines3.sac.policies", "SACPolicy"


def infer_settings(network: Network, given: Given, inferred: Pair | None) -> Settings:
    """Return the settings of a state dict without ``data``; each inferred one is noted in the graph.

    :param given: what the caller supplies
    :param inferred: as :func:`infer_policy_class` returns it
    :raises UnsupportedError: when the names are not those of SB3, or the caller has to supply something
    """
    policy_class = inferred
    if given.policy_class is not None:
        policy_class = find_policy_class(given.policy_class, inferred)
    if policy_class is None:
        shown = ", ".join(quote(name, 60) for name in list(network.tensors)[:4])
        message = f"the tensors are not those of a policy of SB3 ({shown}); {WHAT_WORKS}"
        raise UnsupportedError(message)
    network.builder.infer(f"the policy is {policy_class[1]}, from the names of the tensors")
    kwargs = read_given_kwargs(given)
    is_on_policy = "full_std" in POLICIES[policy_class].arguments
    has_gsde = len(network.tensors["log_std"].shape) == _MATRIX if "log_std" in network.tensors else False
    if has_gsde or "actor.log_std" in network.tensors:
        network.builder.infer("gSDE, from the shape of log_std")
    _refuse_other_arguments(policy_class, kwargs)
    network.builder.infer("the policy computes as in the newest release, since nothing names another")
    kwargs.setdefault("share_features_extractor", shares_features(network))
    missing: list[str] = []
    observations = given.observation_space or _infer_observations(network, missing)
    actions = given.action_space or _infer_actions(network, policy_class, kwargs, missing)
    arguments = _missing_kwargs(network, given, kwargs, policy_class)
    missing += [f"policy_kwargs={arguments}"] if arguments else []
    if missing:
        which = ", with the agent's values instead of SB3's defaults if they differ" if arguments else ""
        message = (
            "a lone state dict has no data entry, and the tensors do not determine all settings: "
            f"pass {', '.join(missing)} to load_policy{which}"
        )
        raise UnsupportedError(message)
    return make_settings(Agent(policy_class, observations, actions, kwargs, is_on_policy and has_gsde, changes.NEWEST))


def shares_features(network: Network) -> bool:
    """Return whether actor and critic have one features extractor: the tensors of both are at the same place."""
    one, other = "actor.features_extractor", "critic.features_extractor"
    if not network.has(one):
        one, other = changes.ACTOR_EXTRACTOR, changes.CRITIC_EXTRACTOR
    return network.identify(one) == network.identify(other)


def _infer_observations(network: Network, missing: list[str]) -> Space:
    is_flat = not any(".cnn." in name or ".extractors." in name or name.startswith("cnn.") for name in network.tensors)
    is_flat = is_flat and not any("extractor" in name and "mlp" not in name for name in network.modules)
    sizes = (network.input_size(module) for module in _FIRST)
    size = next((size for size in sizes if size is not None), None)
    if not is_flat or size is None or not 0 < size <= _MAX_FEATURES:
        missing.append("observation_space=...")
        return _NO_SPACE
    network.builder.infer(f"the observation is a vector of {size:,} numbers, from the first layer")
    low, high = (
        ArrayInfo("<f4", (size,), "C", pack("<f", bound) * size, is_scalar=False)
        for bound in (float("-inf"), float("inf"))
    )
    return Box("gymnasium", (size,), "<f4", low, high, None)


def _infer_actions(network: Network, policy_class: Pair, kwargs: dict[str, Any], missing: list[str]) -> Space:
    """Only Q-networks have one output for each action, whatever the action space."""
    layers = {"DQNPolicy": "q_net.q_net", "QRDQNPolicy": "quantile_net.quantile_net"}.get(policy_class[1], "")
    quantiles = kwargs.get("n_quantiles", 0) if policy_class[1] == "QRDQNPolicy" else 1
    sizes = network.matrices(layers) if layers else []
    if not sizes or type(quantiles) is not int or quantiles < 1 or sizes[-1][0] % quantiles:
        missing.append("action_space=...")
        return _NO_SPACE
    count = sizes[-1][0] // quantiles
    network.builder.infer(f"the action is one of {count:,}, from the last layer")
    return Discrete("gymnasium", count, 0, "<i8", None)


def _missing_kwargs(network: Network, given: Given, kwargs: dict[str, Any], policy_class: Pair) -> dict[str, object]:
    """Return the arguments of the policy that matter and that no tensor determines, with SB3's defaults."""
    hidden = any(len(network.matrices(module)) > outputs for module, outputs in _HIDDEN.items())
    has_gsde = "log_std" in network.tensors and len(network.tensors["log_std"].shape) == _MATRIX
    is_off_policy_gsde = "actor.log_std" in network.tensors
    is_ars = policy_class[0].startswith("sb3_contrib.ars")
    is_on_policy = "full_std" in POLICIES[policy_class].arguments
    matters = {
        "activation_fn": hidden and "activation_fn" not in given.modules,
        "squash_output": has_gsde
        or (is_ars and (given.action_space is not None and given.action_space.distribution == "gaussian")),
        "clip_mean": is_off_policy_gsde and network.has("actor.mu.0"),
        "use_expln": has_gsde or is_off_policy_gsde,
        "batch_norm_eps": _has_renorm(network),
        "normalize_images": _has_images(given.observation_space),
    }
    defaults: dict[str, object] = {
        "activation_fn": "Tanh" if is_on_policy or policy_class[0].startswith("sb3_contrib.common") else "ReLU",
        "squash_output": is_ars and network.has("action_net.2"),
        "clip_mean": 2.0,
        "use_expln": False,
        "batch_norm_eps": 0.001,
        "normalize_images": True,
    }
    return {name: defaults[name] for name in matters if matters[name] and name not in kwargs}


def _has_renorm(network: Network) -> bool:
    return any(name.startswith("actor.") and name.endswith(".ra_var") for name in network.tensors)


def _has_images(space: Space | None) -> bool:
    return space is not None and any(part.is_image() for part in space.parts().values())


def _refuse_other_arguments(policy_class: Pair, names: Iterable[str]) -> None:
    """Refuse arguments that the policy does not accept: a misspelled one would have no effect.

    :raises UnsupportedError: with the name
    """
    accepted = POLICIES[policy_class].argument_names(changes.NEWEST)
    for name in names:
        if name not in accepted:
            message = (
                f"expected arguments of {policy_class[1]} in policy_kwargs, got {quote(name, 80)}; "
                f"available: {', '.join(sorted(accepted))}"
            )
            raise UnsupportedError(message)
