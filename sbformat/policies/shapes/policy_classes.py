"""``POLICIES``: every policy class of SB3 and sb3-contrib, its network, and the arguments that it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.known import changes
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.policies.shapes import dqn_and_ars, on_policy, sac_and_td3
from sbformat.policies.shapes.agents import Agent, Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.known.changes import Release
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.layers import Parameters

PRESETS: Final[dict[Pair, tuple[Pair, dict[str, Any]]]] = {
    ("imitation.policies.base", "FeedForward32Policy"): (
        ("stable_baselines3.common.policies", "ActorCriticPolicy"), {"net_arch": [32, 32]},
    ),
    ("imitation.policies.base", "SAC1024Policy"): (
        ("stable_baselines3.sac.policies", "SACPolicy"), {"net_arch": [1024, 1024]},
    ),
}  # fmt: skip
"""Published classes that only pass arguments to a class of SB3: that class, and the arguments.

Source: imitation ``policies/base.py``, 0.2 to 1.0.
"""

_COMMON: Final = frozenset(
    {
        "net_arch", "activation_fn", "features_extractor_class", "features_extractor_kwargs", "normalize_images",
        "optimizer_class", "optimizer_kwargs",
    }
)  # fmt: skip
_MASKABLE: Final = _COMMON | {"ortho_init", "share_features_extractor"}
_ON_POLICY: Final = _MASKABLE | {"log_std_init", "full_std", changes.NOISE_ARGUMENT, "use_expln", "squash_output"}
_RECURRENT: Final = _ON_POLICY | {
    "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs",
}  # fmt: skip
_CRITICS: Final = _COMMON | {"n_critics", "share_features_extractor"}
_SAC: Final = _CRITICS | {"use_sde", "log_std_init", changes.NOISE_ARGUMENT, "use_expln", "clip_mean"}
_CROSSQ: Final = _SAC | {"batch_norm", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}

_UNTIL: Final[dict[str, Release]] = {changes.NOISE_ARGUMENT: changes.NO_NOISE_ARGUMENT}
_ON_POLICY_SINCE: Final[dict[str, Release]] = {"share_features_extractor": changes.BRANCH_EXTRACTORS}
_CRITICS_SINCE: Final[dict[str, Release]] = {
    "n_critics": changes.NUMBERED_CRITICS, "share_features_extractor": changes.OWN_EXTRACTORS,
}  # fmt: skip


def _policies(
    module: str,
    names: Iterable[str],
    network: Callable[[Agent, Policy], Parameters],
    arguments: frozenset[str],
    since: dict[str, Release] | None = None,
) -> dict[Pair, Policy]:
    """Return the policies of a module: for vectors, images and dicts, as far as it has them."""
    return {
        (module, name): Policy(network, extractor, arguments, since or {}, _UNTIL)
        for name, extractor in zip(names, (FLATTEN, NATURE, COMBINED))
    }


_OFF_POLICY_NAMES: Final = ("CnnPolicy", "MultiInputPolicy")

POLICIES: Final[dict[Pair, Policy]] = {
    **_policies(
        "stable_baselines3.common.policies",
        ("ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"),
        on_policy.actor_critic, _ON_POLICY, _ON_POLICY_SINCE,
    ),
    **_policies(
        "sb3_contrib.common.maskable.policies",
        ("MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy"),
        on_policy.maskable, _MASKABLE, _ON_POLICY_SINCE,
    ),
    **_policies(
        "sb3_contrib.common.recurrent.policies",
        ("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy"),
        on_policy.recurrent, _RECURRENT, _ON_POLICY_SINCE,
    ),
    **_policies(
        "stable_baselines3.dqn.policies", ("DQNPolicy", *_OFF_POLICY_NAMES), dqn_and_ars.q_network, _COMMON
    ),
    **_policies(
        "sb3_contrib.qrdqn.policies", ("QRDQNPolicy", *_OFF_POLICY_NAMES),
        dqn_and_ars.quantile_network, _COMMON | {"n_quantiles"},
    ),
    **_policies(
        "stable_baselines3.sac.policies", ("SACPolicy", *_OFF_POLICY_NAMES), sac_and_td3.sac, _SAC, _CRITICS_SINCE
    ),
    **_policies(
        "stable_baselines3.td3.policies", ("TD3Policy", *_OFF_POLICY_NAMES), sac_and_td3.td3, _CRITICS, _CRITICS_SINCE
    ),
    **_policies(
        "sb3_contrib.tqc.policies", ("TQCPolicy", *_OFF_POLICY_NAMES),
        sac_and_td3.tqc, _SAC | {"n_quantiles"}, _CRITICS_SINCE,
    ),
    **_policies("sb3_contrib.crossq.policies", ("CrossQPolicy",), sac_and_td3.crossq, _CROSSQ, _CRITICS_SINCE),
    **_policies(
        "sb3_contrib.ars.policies", ("ARSPolicy",), dqn_and_ars.ars,
        frozenset({"net_arch", "activation_fn", "with_bias", "squash_output"}), {"with_bias": changes.ARS_BIAS},
    ),
    **_policies(
        "sb3_contrib.ars.policies", ("ARSLinearPolicy",), dqn_and_ars.ars_linear,
        frozenset({"with_bias", "squash_output"}),
    ),
}  # fmt: skip
"""The policies, by module and name of today."""
