"""Which network of Stable Baselines 2 a file has: the one whose names and shapes are those of its parameters.

The class of the policy and its keywords determine one network. A user's class does not, for its keywords are in its
code: then every network that SB2 can build with that many parameters is compared, and names leave at most one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from sbformat.errors import UnsupportedError, quote
from sbformat.formats.sb2.guesses import guess_actor_critics, guess_mlps
from sbformat.formats.sb2.networks import actor_critic
from sbformat.formats.sb2.policies import UncertainError, find_head, make_actor_critic, make_mlp, observation_shape
from sbformat.nets.arguments import NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.formats.sb2.networks import ActorCritic, Mlp, Shape, Variable
    from sbformat.policies.sb2.agents import Agent

    Form = Callable[[str, Mlp], Iterator[Variable]]

T = TypeVar("T")

_KEYWORDS: Final = "policy_kwargs"


class Found(NamedTuple):
    """A network of DQN, DDPG, SAC or TD3."""

    net: Mlp
    form: int
    """The position, among the functions that were offered, of the one that yields its variables."""


def find_actor_critic(agent: Agent, scope: str) -> ActorCritic:
    """Return the network of an on-policy algorithm.

    :param scope: of its variables
    :raises NetworkError: when the parameters are not those of the policy that the file names
    :raises UnsupportedError: when no network of SB2 has these parameters
    """
    shapes = _shapes_within(agent, scope)

    def candidates() -> Iterator[tuple[ActorCritic, Iterator[Variable]]]:
        shape, head = observation_shape(agent.data), find_head(agent.data)
        rule = agent.policy.rule
        if agent.has_known_class and rule is not None:
            nets = iter([make_actor_critic(rule, agent.policy.settings, shape, head, len(shapes))])
        else:
            nets = guess_actor_critics(tuple(shapes.values()), shape, head, has_lstm_arch=True)
        return ((net, actor_critic(scope, net)) for net in nets)

    return _match(agent, shapes, candidates)


def find_mlp(agent: Agent, scope: str, forms: Sequence[Form]) -> Found:
    """Return the network of an off-policy algorithm; errors as above.

    :param scope: of the part that is compared
    :param forms: functions that yield its variables: one for each form that a release has
    """
    shapes = _shapes_within(agent, scope)

    def candidates() -> Iterator[tuple[Found, Iterator[Variable]]]:
        shape, head = observation_shape(agent.data), find_head(agent.data)
        rule = agent.policy.rule
        if agent.has_known_class and rule is not None:
            nets = iter([make_mlp(agent.learner, rule, agent.policy.settings, shape, head.actions, len(shapes))])
        else:  # DQN's first parameter is its rate of exploration
            listed = ((), *shapes.values()) if agent.learner == "DQN" else tuple(shapes.values())
            nets = guess_mlps(agent.learner, listed, shape, head.actions)
        return ((Found(net, number), form(scope, net)) for net in nets for number, form in enumerate(forms))

    return _match(agent, shapes, candidates)


def _shapes_within(agent: Agent, scope: str) -> dict[str, Shape]:
    """Return the shapes of the variables in a scope; copies of a variable, which are equal to it, are left out."""
    return {
        name: tuple(info.shape)
        for name, info in agent.tensors.items()
        if name.startswith(f"{scope}/") and "#" not in name
    }


def _match(
    agent: Agent, shapes: Mapping[str, Shape], candidates: Callable[[], Iterator[tuple[T, Iterator[Variable]]]]
) -> T:
    """Return the first candidate whose variables are those of the file, in any order."""
    nearest: dict[str, Shape] = {}
    try:
        for candidate, variables in candidates():
            expected = dict(variables)
            if expected == shapes:
                return candidate
            nearest = nearest or expected
    except UncertainError as reason:
        message = f"{agent.policy.label}: {reason}"
        raise UnsupportedError(message) from None
    if agent.has_known_class:
        message = f"{agent.policy.label}: {_describe_difference(nearest, shapes)}"
        raise NetworkError(_KEYWORDS, message)
    message = f"no network of Stable Baselines 2 for {agent.policy.label} has these parameters"
    raise UnsupportedError(message)


def _describe_difference(expected: Mapping[str, Shape], actual: Mapping[str, Shape]) -> str:
    name = next(name for name in (*expected, *actual) if expected.get(name) != actual.get(name))
    if name not in actual:
        return f"the parameter {name} is missing, of the shape {expected[name]}"
    if name not in expected:
        return f"did not expect a parameter {quote(name, 120)}, got one of the shape {actual[name]}"
    return f"expected the shape {expected[name]} of the parameter {name}, got {actual[name]}"
