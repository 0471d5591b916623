"""The parameters that a policy has by its class, spaces, arguments and release: the one table of expected shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.globals.renamed import of_today
from sbformat.pkl.tree import Global
from sbformat.policies import off_policy, on_policy, one_network
from sbformat.policies.agents import USE_SDE, Agent, Policy
from sbformat.policies.extractors import COMBINED, FLATTEN, NATURE
from sbformat.policies.mismatches import find_mismatches, shapes_of
from sbformat.policies.releases import candidates
from sbformat.policies.sizes import KWARGS, Arguments, NetworkError, is_true
from sbformat.values.context import UnrecognizedError
from sbformat.values.render import render_line
from sbformat.values.types import (
    Box,
    DictSpace,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Reference,
    Sequence,
    Text,
    TupleSpace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sbformat.archive.archive import Archive
    from sbformat.globals.torch import Pair
    from sbformat.policies.layers import Parameters
    from sbformat.policies.mismatches import Mismatch
    from sbformat.policies.releases import Release
    from sbformat.values.types import Space

_COMMON: Final = frozenset(
    {
        "net_arch", "activation_fn", "features_extractor_class", "features_extractor_kwargs", "normalize_images",
        "optimizer_class", "optimizer_kwargs",
    }
)  # fmt: skip
_MASKABLE: Final = _COMMON | {"ortho_init", "share_features_extractor"}
_ON_POLICY: Final = _MASKABLE | {"log_std_init", "full_std", "sde_net_arch", "use_expln", "squash_output"}
_RECURRENT: Final = _ON_POLICY | {
    "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs",
}  # fmt: skip
_CRITICS: Final = _COMMON | {"n_critics", "share_features_extractor"}
_SAC: Final = _CRITICS | {"use_sde", "log_std_init", "sde_net_arch", "use_expln", "clip_mean"}
_CROSSQ: Final = _SAC | {"batch_norm", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}

_SDE_UNTIL: Final[dict[str, Release]] = {"sde_net_arch": (1, 7)}
_SHARED_SINCE_1_7: Final[dict[str, Release]] = {"share_features_extractor": (1, 7)}
_CRITICS_SINCE: Final[dict[str, Release]] = {"n_critics": (0, 8), "share_features_extractor": (0, 10)}
_EXTRACTORS: Final = (FLATTEN, NATURE, COMBINED)


def _policies(
    module: str,
    names: Iterable[str],
    network: Callable[[Agent, Policy], Parameters],
    arguments: frozenset[str],
    since: dict[str, Release] | None = None,
) -> dict[Pair, Policy]:
    """Return the policies of a module: for vectors, images and dicts, as far as it has them."""
    return {
        (module, name): Policy(network, extractor, arguments, since or {}, _SDE_UNTIL)
        for name, extractor in zip(names, _EXTRACTORS)
    }


_OFF_POLICY_NAMES: Final = ("CnnPolicy", "MultiInputPolicy")

POLICIES: Final[dict[Pair, Policy]] = {
    **_policies(
        "stable_baselines3.common.policies",
        ("ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"),
        on_policy.actor_critic, _ON_POLICY, _SHARED_SINCE_1_7,
    ),
    **_policies(
        "sb3_contrib.common.maskable.policies",
        ("MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy"),
        on_policy.maskable, _MASKABLE, _SHARED_SINCE_1_7,
    ),
    **_policies(
        "sb3_contrib.common.recurrent.policies",
        ("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy"),
        on_policy.recurrent, _RECURRENT, _SHARED_SINCE_1_7,
    ),
    **_policies(
        "stable_baselines3.dqn.policies", ("DQNPolicy", *_OFF_POLICY_NAMES), one_network.q_network, _COMMON
    ),
    **_policies(
        "sb3_contrib.qrdqn.policies", ("QRDQNPolicy", *_OFF_POLICY_NAMES),
        one_network.quantile_network, _COMMON | {"n_quantiles"},
    ),
    **_policies(
        "stable_baselines3.sac.policies", ("SACPolicy", *_OFF_POLICY_NAMES), off_policy.sac, _SAC, _CRITICS_SINCE
    ),
    **_policies(
        "stable_baselines3.td3.policies", ("TD3Policy", *_OFF_POLICY_NAMES), off_policy.td3, _CRITICS, _CRITICS_SINCE
    ),
    **_policies(
        "sb3_contrib.tqc.policies", ("TQCPolicy", *_OFF_POLICY_NAMES),
        off_policy.tqc, _SAC | {"n_quantiles"}, _CRITICS_SINCE,
    ),
    **_policies("sb3_contrib.crossq.policies", ("CrossQPolicy",), off_policy.crossq, _CROSSQ, _CRITICS_SINCE),
    **_policies(
        "sb3_contrib.ars.policies", ("ARSPolicy",), one_network.ars,
        frozenset({"net_arch", "activation_fn", "with_bias", "squash_output"}), {"with_bias": (1, 7)},
    ),
    **_policies(
        "sb3_contrib.ars.policies", ("ARSLinearPolicy",), one_network.ars_linear,
        frozenset({"with_bias", "squash_output"}),
    ),
}  # fmt: skip
"""Every policy class of SB3 and sb3-contrib, by its name of today."""

_SPACES: Final = (Box, Discrete, MultiDiscrete, MultiBinary, DictSpace)
_OTHER_SPACES: Final = (TupleSpace, OneOf, Text, Sequence, Graph)
"""Spaces of gymnasium that no agent of SB3 observes or acts in."""
_OFF_POLICY_DEFAULTS: Final = {"DDPG": {"n_critics": 1}}
"""Arguments that an algorithm gives its policy, where ``data`` has no ``policy_kwargs``."""


class Fit(NamedTuple):
    """The network of an archive's policy, beside its state dict."""

    agent: Agent
    parameters: Parameters
    mismatches: tuple[Mismatch, ...]


def expected_parameters(source: Archive | Agent, release: Release | None = None) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a policy's state dict, in the order of ``state_dict()``.

    :param source: an archive, or what decides on the network; nothing that it names is imported
    :param release: of SB3, whose network it is; by default the one that wrote the archive, or that the agent has
    :raises UnsupportedError: when the network is not known: a policy, features extractor or activation of another
        author, which the message names; a space without a fixed size
    :raises NetworkError: when SB3 cannot make the network (a :class:`~sbformat.ValidationError`)
    :raises SbformatError: for what is wrong with ``data``
    """
    if isinstance(source, Agent):
        parameters = parameters_of(source if release is None else source._replace(release=release))
    elif release is None:
        parameters = nearest(source).parameters
    else:
        parameters = parameters_of(agent_of(source, release))
    return {parameter.name: tuple(map(int, parameter.shape)) for parameter in parameters}


def nearest(archive: Archive) -> Fit:
    """Return the parameters that the policy of an archive should have, and what its state dict has otherwise.

    Where the release that wrote the archive is not certain, those of the release that differ least.

    :raises SbformatError: as :func:`expected_parameters`, and for a state dict that cannot be read
    """
    actual = shapes_of(archive.state_dict(POLICY_ENTRY))
    found: list[Fit] = []
    errors: list[NetworkError] = []
    for release in candidates(archive.stable_baselines3_version):
        agent = agent_of(archive, release)
        try:
            parameters = parameters_of(agent)
        except NetworkError as error:
            errors.append(error)
            continue
        expected = {parameter.name: parameter.shape for parameter in parameters}
        found.append(Fit(agent, parameters, find_mismatches(expected, actual)))
        if not found[-1].mismatches:
            break
    if not found:
        raise errors[0]
    return min(found, key=lambda fit: len(fit.mismatches))


def parameters_of(agent: Agent) -> Parameters:
    """Return the same with all that is known of each: the key that a size follows from, buffers, shared tensors.

    :raises SbformatError: as :func:`expected_parameters`
    """
    policy = POLICIES.get(agent.policy_class)
    if policy is None:
        message = f"the policy class {escape('.'.join(agent.policy_class), 200)} is none whose network is known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    allowed = policy.argument_names(agent.release) | {"device"}  # SB3 removes it when it loads
    for name in agent.policy_kwargs:
        if name not in allowed:
            key = f"{KWARGS}/{escape(name, 80)}"
            raise NetworkError(key, f"{agent.policy_class[1]} takes no argument of this name")
    optimizer = Arguments(agent.policy_kwargs).nested("optimizer_kwargs")
    if "lr" in optimizer.values:
        raise NetworkError(optimizer.key("lr"), "SB3 gives the optimizer its learning rate itself")
    if agent.use_sde:
        _require_gsde(agent, policy)
    try:
        return policy.network(agent, policy)
    except UnrecognizedError as error:
        raise UnsupportedError(str(error), entry=DATA_ENTRY) from None


def _require_gsde(agent: Agent, policy: Policy) -> None:
    """Refuse the algorithm's ``use_sde`` where the policy has no exploration noise that ``load`` could sample."""
    if "full_std" in policy.arguments:  # on-policy: the algorithm hands use_sde on
        return
    if USE_SDE not in policy.arguments:
        raise NetworkError(USE_SDE, f"{agent.policy_class[1]} has no gSDE")
    if not Arguments(agent.policy_kwargs).flag(USE_SDE, default=False):
        raise NetworkError(USE_SDE, f"gSDE needs a policy with gSDE, but {KWARGS}/{USE_SDE} is not true")


def agent_of(archive: Archive, release: Release | None = None) -> Agent:
    """Return what decides on the network of an archive's policy.

    :param archive: with ``data``
    :param release: of SB3; by default the one that wrote the archive, or the newest when it names none
    :raises UnsupportedError: when a part of it is not known
    :raises NetworkError: when a part of it is missing or of another type
    :raises SbformatError: for what is wrong with ``data``
    """
    kwargs = _kwargs(archive)
    policy_class = _policy_class(archive)
    return Agent(
        policy_class,
        space_of(archive, "observation_space", policy_class),
        space_of(archive, "action_space", policy_class),
        kwargs,
        is_true(meaning_of(archive, "use_sde") if "use_sde" in archive.data else None, "use_sde"),
        candidates(archive.stable_baselines3_version)[0] if release is None else release,
    )


def meaning_of(archive: Archive, key: str) -> Any:
    """Return what a value of ``data`` means.

    :raises UnsupportedError: when it cannot be decoded
    """
    if key not in archive.data:
        return None
    try:
        return archive.decode(key)
    except SbformatError as error:
        message = f"{key} cannot be decoded: {error.message}"
        raise UnsupportedError(message, entry=DATA_ENTRY) from None


def _policy_class(archive: Archive) -> Pair:
    key = "policy_class"
    value = meaning_of(archive, key)
    if isinstance(value, Reference):
        return of_today(value.pair)
    if isinstance(value, Global) and not value.updates:
        return value.pair
    raise _other(key, value, "a class")


def space_of(archive: Archive, key: str, policy_class: Pair) -> Space:
    """Return the space that ``data`` has by a key.

    :raises SbformatError: when the policy takes none such, or it is not known
    """
    value = meaning_of(archive, key)
    if isinstance(value, _SPACES):
        return value
    if isinstance(value, _OTHER_SPACES) and policy_class in POLICIES:
        raise NetworkError(key, f"SB3 takes no {type(value).__name__.removesuffix('Space')}")
    raise _other(key, value, "a space")


def _other(key: str, value: object, expected: str) -> SbformatError:
    """Return the error for a value that is plain, and the one for what it is not known what it is."""
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return NetworkError(key, f"expected {expected}, got {escape(render_line(value), 120)}")
    message = f"{key} is {escape(render_line(value), 200)}, for which the network is not known"
    return UnsupportedError(message, entry=DATA_ENTRY)


def _kwargs(archive: Archive) -> dict[str, Any]:
    if KWARGS not in archive.data:
        return dict(_OFF_POLICY_DEFAULTS.get(archive.algorithm.name or "", {}))
    value = meaning_of(archive, KWARGS)
    if isinstance(value, dict) and all(type(name) is str for name in value):
        return value
    raise _other(KWARGS, value, "a dict of arguments")
