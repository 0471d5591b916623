"""What a Stable Baselines 2 file says about its agent: algorithm, policy, spaces, and parameters by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import DATA_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.formats.sb2.orders import find_wrapped
from sbformat.formats.sb2.pickles import Sb2Pickle
from sbformat.formats.sb2.policies import Policy, UncertainError, find_policy, find_rule, find_space, named_class
from sbformat.nets.arguments import NetworkError
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Space
    from sbformat.policies.model import Given

_OBSERVATIONS: Final = "observation_space"
_ACTIONS: Final = "action_space"
_KEYS: Final = (
    "policy", "policy_kwargs", _OBSERVATIONS, _ACTIONS, "model_class", "her_obs_space", "normalize_observations",
    "observation_range",
)  # fmt: skip
"""The keys of ``data`` that the network depends on."""
_NOISES: Final = ("action_noise", "param_noise")
"""Keys that only sampled actions depend on."""
ALGORITHMS: Final = ("A2C", "ACER", "ACKTR", "DDPG", "DQN", "GAIL", "PPO1", "PPO2", "SAC", "TD3", "TRPO")
"""The algorithms whose policies are known; HER has the policy of one of them."""
GOAL_KEYS: Final = ("observation", "achieved_goal", "desired_goal")
"""``KEY_ORDER`` of ``her/utils.py``: the parts of a goal environment's observation."""
_BASE: Final = "FeedForwardPolicy"
_PUBLISHED: Final = frozenset(
    {
        *((module, name) for module in ("utils", "utils.utils") for name in
          ("CustomDQNPolicy", "CustomMlpPolicy", "CustomSACPolicy")),
        *((module, "FeedForward32Policy") for module in
          ("imitation.util", "imitation.util.util", "imitation.policies.base")),
    }
)  # fmt: skip
"""Classes of rl-baselines-zoo and imitation that set nothing but layers, layer normalization and ``"mlp"``."""
_ALTERNATIVES: Final = "its weights can be read with read_parameters"


class Agent(NamedTuple):
    """What decides on the graph."""

    algorithm: str
    """The one that wrote the file: ``HER``, ..."""
    learner: str
    """The one whose policy it is; another one for HER."""
    policy: Policy
    has_known_class: bool
    """Whether the file names one of SB2's classes, whose keywords are all in the file."""
    inferred: tuple[str, ...]
    """What the file does not contain, and how it was determined, as sentences."""
    observation_space: Space
    """What the network gets: for HER, the parts of an observation one after another."""
    goal_space: Space | None
    """For HER, the observation space of the goal environment."""
    action_space: Space
    statistics: VecNormalize | None
    """What observations are normalized with."""
    data: Mapping[str, Any]
    """Values of the file, decoded."""
    tensors: Mapping[str, TensorInfo]
    """The parameters by name."""


def read_agent(archive: Archive, given: Given) -> Agent:
    """Return what a file says about its agent, completed by what the caller supplies.

    :raises UnsupportedError: when the algorithm, the policy or a space is not known, or parameters have no names
    """
    data = _read_data(archive)
    algorithm = archive.algorithm.name
    learner = find_wrapped(data) if algorithm == "HER" else algorithm
    if algorithm is None or learner not in ALGORITHMS:
        message = f"expected an algorithm of Stable Baselines 2, got {quote(algorithm or 'none', 40)}; {_ALTERNATIVES}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    goals = find_space(data, "her_obs_space") if algorithm == "HER" else None
    for key, space in ((_OBSERVATIONS, given.observation_space), (_ACTIONS, given.action_space)):
        if key == _OBSERVATIONS and space is not None and algorithm == "HER":
            goals = space
        if space is not None and not space.has_keys:
            data[key] = space
    policy, is_known, inferred = _read_policy(learner, data, given)
    return Agent(
        algorithm, learner, policy, is_known, inferred, _require_space(data, _OBSERVATIONS),
        goals if goals is not None and goals.has_keys else None, _require_space(data, _ACTIONS), given.vecnormalize,
        data, _read_tensors(archive),
    )  # fmt: skip


def _read_data(archive: Archive) -> dict[str, Any]:
    """Return the values that the graph depends on.

    Without noise the deterministic action is as good, so noise that cannot be decoded is left out.
    """
    data = {key: archive.decode(key) for key in _KEYS if key in archive.data}
    for key in _NOISES:
        if key in archive.data:
            try:
                data[key] = archive.decode(key)
            except SbformatError:
                data[key] = NotImplemented
    return data


def _read_policy(learner: str, data: Mapping[str, Any], given: Given) -> tuple[Policy, bool, tuple[str, ...]]:
    """Return the policy, whether the file names one of SB2's classes, and what was inferred."""
    try:
        policy, problem = find_policy(learner, data), ""
    except UncertainError as error:
        policy, problem = Policy("", None, {}), str(error)
    if policy.rule is not None:
        return policy._replace(settings={**(given.policy_kwargs or {}), **policy.settings}), True, ()
    label = policy.label or "unknown"
    named = given.policy_class
    if named is None and named_class(data.get("policy")) in _PUBLISHED:
        named = _BASE
    if named is None:
        reason = problem or f"{policy.label} is not a class of Stable Baselines 2, and its code is not executed"
        message = f"{reason}; {_ALTERNATIVES}; policy_class= treats it as a class of SB2, such as MlpPolicy"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    name = named.rpartition(".")[2]
    rule = find_rule(learner, name)
    if rule is None:
        message = f"expected policy_class to be a class of SB2's {learner}, got {quote(named, 120)}"
        raise UnsupportedError(message)
    inferred = f"policy: the class is {label}; names and shapes of the parameters determined the layers of a {name}"
    return Policy(f"{name} of {learner}", rule, {**policy.settings, **(given.policy_kwargs or {})}), False, (inferred,)


def _require_space(data: Mapping[str, Any], key: str) -> Space:
    space = find_space(data, key)
    if space is None or not space.distribution:
        shown = type(data.get(key)).__name__ if space is None else space.class_name
        message = f"expected a Box, Discrete, MultiDiscrete or MultiBinary as {key}, got {quote(shown, 80)}"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return space


def unsupported_actions(agent: Agent) -> NetworkError:
    """Return the error for an action space that the algorithm does not support."""
    message = f"{agent.learner} of Stable Baselines 2 does not support {agent.action_space.class_name} actions"
    return NetworkError(_ACTIONS, message)


def _read_tensors(archive: Archive) -> dict[str, TensorInfo]:
    """Return the parameters by name.

    :raises UnsupportedError: when the file has them without names, and those are not certain
    """
    tree = archive.state_dict(SB2_PARAMETERS_ENTRY).tree
    if isinstance(archive, Sb2Pickle) and archive.naming.names is None:
        message = f"expected parameters with names, got them {archive.naming.source}"
        raise UnsupportedError(message, entry=SB2_PARAMETERS_ENTRY)
    return {name: value for name, value in tree.items() if isinstance(value, TensorInfo)}
