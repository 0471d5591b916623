"""The networks of SB2's that a user's policy may be, judged by how many parameters there are (FORMAT.md 16.4).

Every network that SB2's builders can make and that has room for the parameters is given, its widths read from the
shapes; most of them do not fit, which is for the caller to find out.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from sbformat.formats.sb2.networks import (
    CNN_VARIABLES,
    LSTM,
    LSTM_VARIABLES,
    NORMED_LSTM_VARIABLES,
    ActorCritic,
    Cnn,
    Mlp,
    Senses,
)  # fmt: skip
from sbformat.formats.sb2.policies import arranged, legacy_lstm, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.formats.sb2.networks import Shape, Step
    from sbformat.formats.sb2.policies import Head

_MOST_OF_ACTOR_CRITIC: Final = 80
"""Parameters of a network whose layers may stand in many orders; every order must be tried, or none is certain."""
_MOST_OF_MLPS: Final = 512
"""Parameters of a file whose layers stand in one order; the longest seen has 86."""
_TOO_DEEP: Final = "its policy has more layers than are tried for a user's class"
_PICTURE: Final = 3
_HEADS: Final = 6
_MATRIX: Final = 2
_OPEN: Final = (0,)
"""A width that is not known yet."""
_KINDS: Final = {(False, False): 0, (True, False): LSTM_VARIABLES, (True, True): NORMED_LSTM_VARIABLES}
"""Variables of an LSTM: is there one, and is it normed."""


def _looks(shape: Shape) -> tuple[Senses, ...]:
    """The ways to see an observation."""
    cnns = [Cnn(*kind) for kind in product((False, True), repeat=2)] if len(shape) == _PICTURE else []
    return tuple(Senses(shape, cnn) for cnn in (None, *cnns))


def guessed_actor_critics(
    shapes: Sequence[Shape], shape: Shape, head: Head, *, has_lstm_arch: bool
) -> Iterator[ActorCritic]:
    """Give the actor-critic networks that the shapes may be of.

    :param shapes: of the network's variables
    :param shape: of an observation
    :param head: what the action space asks for
    :param has_lstm_arch: whether the release has LSTM policies with a ``net_arch``
    :raises Unsure: when there are too many parameters to try every network
    """
    if len(shapes) > _MOST_OF_ACTOR_CRITIC:
        refuse(_TOO_DEEP)
    for senses, (kind, variables) in product(_looks(shape), _KINDS.items()):
        is_recurrent, is_normed = kind
        start = CNN_VARIABLES if senses.cnn else 0
        count, odd = divmod(len(shapes) - start - variables - _HEADS - head.is_gaussian, 2)
        if odd or count < 0:
            continue
        hidden = shapes[start:]
        if senses.cnn is not None:
            orders = iter([legacy_lstm((), 0) if is_recurrent else ()] if count == 0 else [])
        elif is_recurrent:
            orders = _around_lstm(count, hidden, has_arch=has_lstm_arch)
        else:
            orders = _split(0, count)
        for steps in orders:
            sized = _sized(steps, hidden, variables)
            if sized is not None:
                yield ActorCritic(senses, sized, is_normed, *head)


def _split(least: int, count: int, lstm_at: int | None = None) -> Iterator[tuple[Step, ...]]:
    """Give the orders of so many layers, their widths open: some shared, then those of policy and value function.

    :param least: layers that are shared at least
    """
    for shared in range(least, count + 1):
        around: list[object] = [*_OPEN * shared]
        if lstm_at is not None:
            around.insert(lstm_at, "lstm")
        for policy in range(count - shared + 1):
            value = count - shared - policy
            yield arranged(around, _OPEN * policy, _OPEN * value, is_recurrent=lstm_at is not None)


def _around_lstm(count: int, shapes: Sequence[Shape], *, has_arch: bool) -> Iterator[tuple[Step, ...]]:
    """Give the orders of so many layers and an LSTM, which stands where two matrices follow one another."""
    yield legacy_lstm(_OPEN * count, 0)
    lstm_at = next((number for number in range(count + 1) if len(shapes[2 * number + 1]) == _MATRIX), None)
    if has_arch and lstm_at is not None:
        yield from _split(lstm_at, count, lstm_at)


def _sized(steps: tuple[Step, ...], shapes: Sequence[Shape], lstm_variables: int) -> tuple[Step, ...] | None:
    """Give the layers the widths of the shapes, or None when those are no weights."""
    sized, at = [], 0
    for step in steps:
        is_lstm = step.name == LSTM
        weights = shapes[at + is_lstm]  # an LSTM's second are its cells by its gates
        if len(weights) != _MATRIX:
            return None
        sized.append(step._replace(width=weights[0] if is_lstm else weights[1]))
        at += lstm_variables if is_lstm else 2
    return tuple(sized)


def guessed_mlps(algorithm: str, shapes: Sequence[Shape], shape: Shape, actions: int) -> Iterator[Mlp]:
    """Give the networks of DQN, DDPG, SAC or TD3 that the shapes may be of; parameters as above.

    :param shapes: of all variables of the file
    """
    if len(shapes) > _MOST_OF_MLPS:
        refuse(_TOO_DEEP)
    is_dqn = algorithm == "DQN"
    for senses, is_normed, is_dueling in product(_looks(shape), (False, True), (False, True) if is_dqn else (False,)):
        start = CNN_VARIABLES if senses.cnn else 0
        if is_dqn:
            start += 3 if senses.cnn else 1  # eps, and behind a CNN the action scores first
        stride = 4 if is_normed else 2
        widths: list[int] = []
        if is_dqn:
            yield Mlp(senses, (), is_normed, actions, is_dueling)
        for weights in shapes[start::stride]:
            if len(weights) != _MATRIX:
                break
            widths.append(weights[1])
            yield Mlp(senses, tuple(widths), is_normed, actions, is_dueling)
