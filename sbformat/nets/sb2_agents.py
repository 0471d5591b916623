"""From a file of Stable Baselines 2 to the graph of its policy (SB2.md 16, POLICIES.md 19).

Nothing in a file says which release wrote it; where releases differ, names and shapes decide. The steps:

1. :func:`read_agent` reads the file: the algorithm that its keys identify, class and keywords of its policy, spaces,
   and parameters by name. Those of a list get their names from :mod:`~sbformat.nets.sb2_orders`, or the file is
   refused. Copies of parameters (``#2``) are left out: SB2 saved each with the value of the original.
2. :func:`find_network` makes the network (:mod:`~sbformat.nets.sb2`) that class, keywords and spaces determine, whose
   variables must be those of the file. The code of a user's class is not executed; with ``policy_class=``, and for a
   few classes that libraries published, the names and shapes of the file alone determine the network, and ``act_fun``
   is the default unless ``policy_kwargs=`` contains it.
3. :func:`encode_observation` adds the inputs as ``common/input.py`` encodes them, and the network its nodes.

A file that contradicts its own keywords is refused; all of it is done without numpy.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.formats.sb2 import Sb2Pickle
from sbformat.immutable import Record
from sbformat.known.numpy import to_number, unpack_items
from sbformat.known.rows import UnrecognizedError
from sbformat.nets.arguments import ACTIONS, KWARGS, OBSERVATIONS, NetworkError, refuse
from sbformat.nets.extractors import encode_numbers, normalize_observation
from sbformat.nets.layers import FLOAT, Network, Scope
from sbformat.nets.sb2 import ACTIVATIONS, POLICIES, ActorCriticPolicy, Place, list_variables
from sbformat.nets.sb2_orders import (
    Policy,
    UncertainError,
    find_policy,
    find_rule,
    find_space,
    find_wrapped,
    list_networks,
    named_class,
)
from sbformat.policies.builder import GraphBuilder, PolicyModel, numpy_name
from sbformat.policies.graph import Input
from sbformat.policies.operators import require
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.known.spaces import Bounds, Space
    from sbformat.limits import Budget
    from sbformat.nets import sb2
    from sbformat.nets.sb2 import Shape, Variable
    from sbformat.policies.builder import Given, Value

_KEYS: Final = (
    "policy", KWARGS, OBSERVATIONS, ACTIONS, "model_class", "her_obs_space", "normalize_observations",
    "observation_range",
)  # fmt: skip
ALGORITHMS: Final = ("A2C", "ACER", "ACKTR", "DDPG", "DQN", "GAIL", "PPO1", "PPO2", "SAC", "TD3", "TRPO")
"""The algorithms whose policies are known; HER has the policy of one of them."""
GOAL_KEYS: Final = ("observation", "achieved_goal", "desired_goal")
"""``KEY_ORDER`` of ``her/utils.py``: the parts of a goal environment's observation."""
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
_STATISTICS: Final = "input/obs_rms"
_SUMS: Final = tuple(f"{_STATISTICS}/{name}:0" for name in ("count", "runningsum", "runningsumsq"))


class Agent(Record):
    """The contents of a file that decide on the graph."""

    algorithm: str
    """The one that wrote the file: ``HER``, ..."""
    learner: str
    """The one whose policy it is; another one for HER."""
    policy: Policy
    inferred: str
    """How the layers were determined, a sentence; empty if the file names one of SB2's classes and its keywords."""
    observation_space: Space
    """The space of what the network gets: for HER, the parts of an observation one after another."""
    goal_space: Space | None
    """For HER, the observation space of the goal environment."""
    action_space: Space
    statistics: VecNormalize | None
    data: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]

    def has_variables(self, variables: Iterable[Variable]) -> bool:
        """Return whether the file has all of these variables, with these shapes."""
        tensors = self.tensors
        return all(name in tensors and tuple(tensors[name].shape) == shape for name, shape in variables)

    def read_activation(self, default: str) -> str:
        """Return the name of the activation, a key of ``sb2.ACTIVATIONS``."""
        value = self.policy.settings.get("act_fun", default)
        pair = named_class(value)
        # TensorFlow 1.15 is installed under the second name, too
        if pair is not None and pair[0].partition(".")[0] in ("tensorflow", "tensorflow_core"):
            value = pair[1]
        if isinstance(value, str) and value in ACTIVATIONS:
            return value
        shown = ".".join(pair) if pair else getattr(value, "name", None) or type(value).__name__
        hint = f"available: {', '.join(sorted(ACTIVATIONS))}"
        raise UnsupportedError(f"the activation {quote(shown, 120)} is not known", hint=hint)


def read_agent(archive: Archive, given: Given) -> Agent:
    """Return what a file says about its agent, completed by what the caller supplies."""
    data = {key: archive.decode(key) for key in _KEYS if key in archive.data}
    for key in ("action_noise", "param_noise"):  # only sampled actions depend on these, so they need not be known
        if key in archive.data:
            data[key] = NotImplemented
            with suppress(SbformatError):
                data[key] = archive.decode(key)
    algorithm = archive.algorithm.name
    learner = find_wrapped(data) if algorithm == "HER" else algorithm
    if algorithm is None or learner not in ALGORITHMS:
        message = f"expected an algorithm of Stable Baselines 2, got {quote(algorithm or 'none', 40)}"
        raise UnsupportedError(message, entry=DATA_ENTRY, hint=_ALTERNATIVES)
    goals = find_space(data, "her_obs_space") if algorithm == "HER" else None
    if algorithm == "HER":
        goals = given.observation_space or goals
    spaces = {OBSERVATIONS: given.observation_space, ACTIONS: given.action_space}
    data.update({key: space for key, space in spaces.items() if space is not None and not space.has_keys})
    policy, inferred = _read_policy(learner, data, given)
    observations, actions = (_require_space(data, key) for key in spaces)
    goals = goals if goals is not None and goals.has_keys else None
    tree = archive.state_dict(SB2_PARAMETERS_ENTRY).tree
    if isinstance(archive, Sb2Pickle) and archive.naming.names is None:
        message = f"expected parameters with names, got them {archive.naming.source}"
        raise UnsupportedError(message, entry=SB2_PARAMETERS_ENTRY)
    return Agent(
        algorithm, learner, policy, inferred, observations, goals, actions, given.vecnormalize,
        data, {name: value for name, value in tree.items() if isinstance(value, TensorInfo)},
    )  # fmt: skip


def _read_policy(learner: str, data: Mapping[str, Any], given: Given) -> tuple[Policy, str]:
    """Return the policy, and what was inferred of it."""
    reason = ""
    try:
        policy = find_policy(learner, data)
    except UncertainError as error:
        policy, reason = Policy("unknown", None, {}), str(error)
    if policy.rule is not None:
        return policy._replace(settings={**(given.policy_kwargs or {}), **policy.settings}), ""
    named = given.policy_class
    if named is None and named_class(data.get("policy")) in _PUBLISHED:
        named = "FeedForwardPolicy"
    if named is None:
        reason = reason or f"{policy.label} is not a class of Stable Baselines 2, and its code is not executed"
        hint = f"{_ALTERNATIVES}; policy_class= treats it as a class of SB2, such as MlpPolicy"
        refuse(reason, DATA_ENTRY, hint=hint)
    name = named.rpartition(".")[2]
    rule = find_rule(learner, name)
    if rule is None:
        refuse(f"expected policy_class to be a class of SB2's {learner}, got {quote(named, 120)}")
    inferred = f"the class is {policy.label}; names and shapes of the parameters determined the layers of a {name}"
    settings = {**policy.settings, **(given.policy_kwargs or {})}
    return Policy(f"{name} of {learner}", rule, settings), f"policy: {inferred}"


def _require_space(data: Mapping[str, Any], key: str) -> Space:
    space = find_space(data, key)
    if space is None or not space.distribution:
        shown = type(data.get(key)).__name__ if space is None else space.class_name
        refuse(f"expected a Box, Discrete, MultiDiscrete or MultiBinary as {key}, got {quote(shown, 80)}", DATA_ENTRY)
    return space


# -- the network --------------------------------------------------------------------------------------


def find_network(agent: Agent) -> sb2.Policy:
    """Return the network that acts: the one whose variables are those of the file.

    The class of the policy and its keywords determine one. A user's class does not, for its keywords are in its code:
    then every network that SB2 can build with that many parameters is compared, and names leave at most one.
    """
    forms = POLICIES.get(agent.learner, ())
    start = f"{forms[0].scope if forms else ActorCriticPolicy.scope}/"
    inside = {name: info for name, info in agent.tensors.items() if name.startswith(start)}
    shapes = {name: tuple(info.shape) for name, info in inside.items() if "#" not in name}  # "#" is a copy
    if forms and agent.action_space.distribution != ("categorical" if agent.learner == "DQN" else "gaussian"):
        kind = agent.action_space.class_name
        raise NetworkError(ACTIONS, f"{agent.learner} of Stable Baselines 2 does not support {kind} actions")
    policy, listed = agent.policy, tuple(shapes.values())
    if agent.inferred:
        policy = policy._replace(rule=None)
        listed = ((), *listed) if agent.learner == "DQN" else listed  # its first parameter is a rate of exploration
    nearest: dict[str, Shape] = {}
    made = list_networks(agent.learner, policy, agent.data, listed, len(shapes))
    networks: Iterator[sb2.Policy] = (form(one) for one in made for form in forms) if forms else made
    try:
        for network in networks:
            expected = dict(list_variables(network.scope, network))
            if expected == shapes:
                return network
            nearest = nearest or expected
    except UncertainError as reason:
        raise UnsupportedError(f"{agent.policy.label}: {reason}") from None
    if not agent.inferred:
        raise NetworkError(KWARGS, f"{agent.policy.label}: {_describe_difference(nearest, shapes)}")
    raise UnsupportedError(f"no network of Stable Baselines 2 for {agent.policy.label} has these parameters")


def _describe_difference(expected: Mapping[str, Shape], actual: Mapping[str, Shape]) -> str:
    name = next(name for name in (*expected, *actual) if expected.get(name) != actual.get(name))
    if name not in actual:
        return f"the parameter {name} is missing, of the shape {expected[name]}"
    if name not in expected:
        return f"did not expect a parameter {quote(name, 120)}, got one of the shape {actual[name]}"
    return f"expected the shape {expected[name]} of the parameter {name}, got {actual[name]}"


def build_sb2_policy(archive: Archive, given: Given, budget: Budget) -> PolicyModel:
    """Return the policy of a zip or pickle of Stable Baselines 2 as a graph."""
    agent = read_agent(archive, given)
    builder = GraphBuilder(budget)
    if agent.inferred:
        builder.infer(agent.inferred)
    network = Network(builder, agent.tensors, SB2_PARAMETERS_ENTRY)
    policy = find_network(agent)
    activation = ACTIVATIONS[agent.read_activation(policy.activation)]
    observation = encode_observation(agent, network, is_scaled=policy.inputs.cnn is not None)
    if agent.learner == "DDPG":
        observation = _normalize_for_ddpg(agent, network, observation)
    graph = builder.build(*policy.act(Place(network, policy.scope), agent, observation, activation))
    space = agent.goal_space or agent.observation_space
    return PolicyModel(graph, space, agent.action_space, agent.algorithm, "sb2", False, archive)


# -- observations -------------------------------------------------------------------------------------


def encode_observation(agent: Agent, network: Network, *, is_scaled: bool) -> Value:
    """Add the inputs, and return what the network gets, float32; with a CNN, SB2 scales a Box to 0 to 1."""
    space, builder = agent.observation_space, network.builder
    if agent.goal_space is not None:
        value = _join_goals(agent.goal_space, network)
        return value if agent.statistics is None else normalize_observation(builder, value, agent.statistics, None)
    value = builder.input(Input("observation", _input_dtype(space), space.shape))
    if agent.statistics is not None:
        value = normalize_observation(builder, value, agent.statistics, None)
        if space.bounds and not numpy_name(space.dtype).startswith("float"):  # as SB2's placeholder does
            value = builder.add("Cast", value, to=numpy_name(space.dtype))
    value = encode_numbers(Scope(network), value, space)
    return _scale(builder, space.bounds, value) if is_scaled and space.bounds else value


def _join_goals(goals: Space, network: Network) -> Value:
    """Concatenate the parts of a goal environment's observation (``HERGoalEnvWrapper.convert_dict_to_obs``)."""
    parts = []
    for key in GOAL_KEYS:
        space = goals.parts().get(key)
        if space is None or space.distribution in ("", "multi-categorical") or len(space.shape) > 1:
            refuse(f"expected a vector or a number as the part {key!r} of an observation of HER")
        described = Input(f"observation/{key}", _input_dtype(space), space.shape, key=key)
        parts.append(encode_numbers(Scope(network), network.builder.input(described), space))
    return network.builder.add("Concat", *parts, axis=-1)


def _input_dtype(space: Space) -> str:
    """Return the dtype that observations are cast to first: that of SB2's placeholder, ``int32`` for integers."""
    if space.observed == "one-hot":
        return "int64"  # OneHot takes it
    return numpy_name(space.dtype) if space.bounds else "int32"


def _scale(builder: GraphBuilder, bounds: Bounds, value: Value) -> Value:
    """Scale a Box from its bounds to 0 to 1: ``(x - low) / (high - low)``, if SB2 does.

    It does unless a bound is infinite, or all lower bounds are the upper ones. The difference is computed in the dtype
    of the bounds, where int8 overflows.
    """
    least, most = bounds
    require(least.dtype != "|b1", "expected numbers as bounds of images, got bools")
    lower = builder.weight("observation_space/low", least, "data:observation_space/low")
    upper = builder.weight("observation_space/high", most, "data:observation_space/high")
    low, high = unpack_items(least), unpack_items(most)
    if any(abs(bound) == inf for bound in (*low, *high)) or low == high:
        return value
    if set(low) == {0} and set(high) == {255}:  # images, without large weights
        return builder.add("Div", value, builder.constant(255.0))
    extent = builder.add("Cast", builder.add("Sub", upper, lower), to=FLOAT)
    return builder.add("Div", builder.add("Sub", value, builder.add("Cast", lower, to=FLOAT)), extent)


def _normalize_for_ddpg(agent: Agent, network: Network, value: Value) -> Value:
    """Normalize an observation with DDPG's own statistics, and clip it to ``observation_range``.

    DDPG clips in every case. Releases before 2.5 do not save the statistics, and begin with a mean of 0 and a deviation
    of 1 when they load a file.
    """
    scope = Scope(network, _STATISTICS)
    if agent.data.get("normalize_observations") is True:
        missing = [name for name in _SUMS if name not in network.tensors]
        if missing == list(_SUMS):
            network.builder.infer("normalize_observations: the file has no statistics, as SB2 saves them since 2.5")
        else:  # mean and standard deviation, as common/mpi_running_mean_std.py computes them from sums
            if missing:
                refuse(f"the parameter {missing[0]} is missing, without which others have no meaning")
            add, shape = scope.add, value.shape
            count, total, squares = (network.weight(name, "float64") for name in _SUMS)
            mean, square = (add("Cast", add("Div", part, count), to=FLOAT) for part in (total, squares))
            variance = add("Sub", square, add("Mul", mean, mean))
            deviation = add("Sqrt", add("Max", variance, scope.constant(1e-2)))
            value = add("Div", add("Sub", value, mean), deviation)
            require(value.shape == shape, f"{_STATISTICS}: expected statistics of the shape {shape}, got others")
    for op, bound in zip(("Max", "Min"), read_range(agent.data.get("observation_range", (-5.0, 5.0)))):
        if isfinite(bound):
            value = scope.add(op, value, scope.constant(bound))
    return value


def read_range(value: object) -> tuple[float, float]:
    """Return ``observation_range``: what DDPG clips observations to."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        try:
            least, most = (float(to_number(bound, "a bound")) for bound in value)
        except UnrecognizedError:
            pass
        else:
            return least, most
    raise UnsupportedError(f"expected two numbers as observation_range, got {quote(value, 80)}")
