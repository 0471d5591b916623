"""From an archive to the parameters of its policy: the expected names and shapes, and what differs from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.known.changes import candidate_releases
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import Space
from sbformat.known.table import current_name
from sbformat.known.types import Reference
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.tree import Global
from sbformat.policies.shapes.agents import USE_SDE, Agent
from sbformat.policies.shapes.arguments import KWARGS, Arguments, is_true
from sbformat.policies.shapes.mismatches import find_mismatches, read_shapes
from sbformat.policies.shapes.policy_classes import POLICIES, PRESETS
from sbformat.policies.shapes.sizes import NetworkError, unknown_value_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.pkl.names import Pair
    from sbformat.policies.shapes.layers import Parameters
    from sbformat.policies.shapes.mismatches import Mismatch

_DEFAULT_KWARGS: Final = {"DDPG": {"n_critics": 1}}
"""``policy_kwargs`` of algorithms that do not pass an empty dict, for ``data`` without that key."""


class NetworkMatch(NamedTuple):
    """The network that SB3 makes for an archive, and how the stored state dict differs from it."""

    agent: Agent
    parameters: Parameters
    mismatches: tuple[Mismatch, ...]


def expected_parameters(source: Archive | Agent, release: Release | None = None) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a policy's state dict, in the order of ``state_dict()`` (FORMAT.md 6.8).

    >>> expected_parameters(sbformat.read("ppo-CartPole-v1.zip"))["action_net.weight"]
    (2, 64)

    :param source: an archive, or an ``Agent``; nothing that it names is imported
    :param release: the release of SB3 that makes the network; by default the one that wrote the archive, or the agent's
    :raises UnsupportedError: when the network is not known: a custom policy, features extractor or activation, which
        the message names; a space without a fixed size
    :raises NetworkError: when SB3 cannot make the network (a :class:`~sbformat.ValidationError`)
    :raises SbformatError: when ``data`` cannot be read
    """
    if isinstance(source, Agent):
        parameters = list_parameters(source if release is None else source._replace(release=release))
    elif release is None:
        parameters = match_network(source).parameters
    else:
        parameters = list_parameters(read_agent(source, release))
    return {parameter.name: tuple(map(int, parameter.shape)) for parameter in parameters}


def match_network(archive: Archive, replaced: Mapping[str, Any] | None = None) -> NetworkMatch:
    """Return the network that SB3 makes for an archive, and how the stored state dict differs.

    Where the release that wrote the archive is not certain, the one whose network differs least is taken.

    :param replaced: as in :func:`read_agent`
    :raises SbformatError: as :func:`expected_parameters`, and when the state dict cannot be read
    """
    if not replaced:
        return archive.derive("network", lambda: _match_network(archive, None))
    return _match_network(archive, replaced)


def _match_network(archive: Archive, replaced: Mapping[str, Any] | None) -> NetworkMatch:
    policy = unwrap_policy(archive)
    actual = read_shapes(policy.state_dict)
    found: list[NetworkMatch] = []
    errors: list[NetworkError] = []
    for release in candidate_releases(archive.stable_baselines3_version):
        agent = read_agent(archive, release, replaced)
        try:
            parameters = list_parameters(agent)
        except NetworkError as error:
            errors.append(error)
            continue
        expected = {parameter.name: parameter.shape for parameter in parameters}
        found.append(NetworkMatch(agent, parameters, find_mismatches(expected, actual)))
        if not found[-1].mismatches:
            break
    if not found:
        raise errors[0]
    policy.require_all()
    return min(found, key=lambda match: len(match.mismatches))


def list_parameters(agent: Agent) -> Parameters:
    """Return the parameters of a policy, with all that is known of each: cause of each size, buffers, aliases.

    :raises SbformatError: as :func:`expected_parameters`
    """
    policy = POLICIES.get(agent.policy_class)
    if policy is None:
        message = f"the network of the policy class {escape('.'.join(agent.policy_class), 200)} is not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    accepted = policy.argument_names(agent.release) | {"device"}  # SB3 removes it when it loads
    for name in agent.policy_kwargs:
        if name not in accepted:
            key = f"{KWARGS}/{escape(name, 80)}"
            raise NetworkError(key, f"{agent.policy_class[1]} has no argument of this name")
    optimizer = Arguments(agent.policy_kwargs).nested("optimizer_kwargs")
    if "lr" in optimizer.values:
        raise NetworkError(optimizer.key("lr"), "SB3 itself passes lr to the optimizer")
    if agent.use_sde:
        require_gsde(agent)
    try:
        return policy.network(agent, policy)
    except UnrecognizedError as error:
        raise UnsupportedError(str(error), entry=DATA_ENTRY) from None


def require_gsde(agent: Agent) -> None:
    """Refuse the algorithm's ``use_sde`` where the policy has no exploration noise: SB3's ``load`` samples it.

    :param agent: of a known policy class
    :raises NetworkError: when it has none
    """
    arguments = POLICIES[agent.policy_class].arguments
    if "full_std" in arguments:  # on-policy: the algorithm passes use_sde on
        if agent.action_space.distribution != "gaussian":
            raise NetworkError(USE_SDE, "gSDE needs Box actions")
    elif USE_SDE not in arguments:
        raise NetworkError(USE_SDE, f"{agent.policy_class[1]} has no gSDE")
    elif not Arguments(agent.policy_kwargs).flag(USE_SDE, default=False):
        raise NetworkError(USE_SDE, f"gSDE needs a policy with gSDE, but {KWARGS}/{USE_SDE} is not true")


# -- reading data -------------------------------------------------------------------------------------


def read_agent(archive: Archive, release: Release | None = None, replaced: Mapping[str, Any] | None = None) -> Agent:
    """Return what decides on the network of an archive's policy.

    :param archive: with ``data``
    :param release: of SB3; by default the one that wrote the archive, or the newest when the archive names none
    :param replaced: fields of the agent that are not read; of ``policy_kwargs``, the arguments that replace the file's
    :raises UnsupportedError: when a part is not known
    :raises NetworkError: when a part is missing or of another type
    :raises SbformatError: when ``data`` cannot be read
    """
    replaced = replaced or {}
    policy_class = replaced.get("policy_class") or read_policy_class(archive)
    kwargs = _read_replaceable_kwargs(archive, replaced)
    if policy_class in PRESETS:
        policy_class, fixed = PRESETS[policy_class]
        kwargs = {**kwargs, **fixed}
    return Agent(
        policy_class,
        replaced.get("observation_space") or read_space(archive, "observation_space", policy_class),
        replaced.get("action_space") or read_space(archive, "action_space", policy_class),
        kwargs,
        is_true(decode_value(archive, "use_sde") if "use_sde" in archive.data else None, "use_sde"),
        candidate_releases(archive.stable_baselines3_version)[0] if release is None else release,
    )


def decode_value(archive: Archive, key: str) -> Any:
    """Return the decoded value of a key of ``data``; None for a key that is missing.

    :raises UnsupportedError: when it cannot be decoded
    """
    if key not in archive.data:
        return None
    try:
        return archive.decode(key)
    except SbformatError as error:
        message = f"{key} cannot be decoded: {error.message}"
        raise UnsupportedError(message, entry=DATA_ENTRY) from None


def decode_once(archive: Archive, key: str) -> Any:
    """Return what :func:`decode_value` does, the same object each time: it must not be changed."""
    return archive.derive(key, lambda: decode_value(archive, key))


def read_policy_class(archive: Archive) -> Pair:
    """Return the policy class of an archive, by its name of today; it need not be known.

    :raises SbformatError: when it is not a class
    """
    key = "policy_class"
    value = decode_once(archive, key)
    if isinstance(value, Reference):
        return current_name(value.pair)
    if isinstance(value, Global) and not value.updates:
        return value.pair
    raise unknown_value_error(value, key)


def read_space(archive: Archive, key: str, policy_class: Pair) -> Space:
    """Return a space of ``data``.

    :raises SbformatError: when SB3 does not support it, or it is not known
    """
    value = decode_once(archive, key)
    if isinstance(value, Space):
        if value.observed:
            return value
        if policy_class in POLICIES:
            raise NetworkError(key, f"SB3 does not support {value.class_name} spaces")
    raise unknown_value_error(value, key, "a space")


def _read_replaceable_kwargs(archive: Archive, replaced: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy's arguments with those of the caller, who may replace ones that are not understood."""
    if "policy_kwargs" not in replaced:
        return _read_kwargs(archive)
    try:
        kwargs = _read_kwargs(archive)
    except UnsupportedError:
        kwargs = {}
    return {**kwargs, **replaced["policy_kwargs"]}


def _read_kwargs(archive: Archive) -> dict[str, Any]:
    if KWARGS not in archive.data:
        return dict(_DEFAULT_KWARGS.get(archive.algorithm.name or "", {}))
    value = decode_value(archive, KWARGS)
    if isinstance(value, dict) and all(type(name) is str for name in value):
        return value
    raise unknown_value_error(value, KWARGS, "a dict of arguments")
