"""The networks that a user's policy class may have, by the number of parameters (SB2.md 16.4).

Every network that SB2 can build with that many parameters is yielded, with the widths of the shapes. Most of them do
not fit: the caller compares all shapes.
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
    Input,
    Mlp,
)  # fmt: skip
from sbformat.formats.sb2.policies import arrange_layers, arrange_legacy_lstm, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbformat.formats.sb2.networks import Shape, Step
    from sbformat.formats.sb2.policies import Head

_MOST_OF_ACTOR_CRITIC: Final = 80
"""Maximum number of parameters of a network whose layers may have many orders, all of which must be tried."""
_MOST_OF_MLPS: Final = 512
"""Maximum number of parameters of a file whose layers have one order; the longest real file has 86."""
_TOO_DEEP: Final = "its policy is a user's class with too many layers to try all orders"
_IMAGE_RANK: Final = 3
_HEADS: Final = 6
_MATRIX: Final = 2
_OPEN: Final = (0,)
"""A width that is not known yet."""
_KINDS: Final = {(False, False): 0, (True, False): LSTM_VARIABLES, (True, True): NORMED_LSTM_VARIABLES}
"""The number of variables of an LSTM, by whether there is one and whether it has layer normalization."""


def _list_inputs(shape: Shape) -> tuple[Input, ...]:
    """Return the possible input stages for an observation."""
    cnns = [Cnn(*kind) for kind in product((False, True), repeat=2)] if len(shape) == _IMAGE_RANK else []
    return tuple(Input(shape, cnn) for cnn in (None, *cnns))


def guess_actor_critics(
    shapes: Sequence[Shape], shape: Shape, head: Head, *, has_lstm_arch: bool
) -> Iterator[ActorCritic]:
    """Yield the actor-critic networks that may have these shapes.

    :param shapes: shapes of the network's variables
    :param shape: shape of an observation
    :param head: the outputs that the action space needs
    :param has_lstm_arch: whether the release has LSTM policies with a ``net_arch``
    :raises UncertainError: when there are too many parameters to try every network
    """
    if len(shapes) > _MOST_OF_ACTOR_CRITIC:
        refuse(_TOO_DEEP)
    for inputs, (kind, variables) in product(_list_inputs(shape), _KINDS.items()):
        is_recurrent, is_normed = kind
        start = CNN_VARIABLES if inputs.cnn else 0
        count, odd = divmod(len(shapes) - start - variables - _HEADS - head.is_gaussian, 2)
        if odd or count < 0:
            continue
        hidden = shapes[start:]
        if inputs.cnn is not None:
            orders = iter([arrange_legacy_lstm((), 0) if is_recurrent else ()] if count == 0 else [])
        elif is_recurrent:
            orders = _place_lstm(count, hidden, has_arch=has_lstm_arch)
        else:
            orders = _split_layers(0, count)
        for steps in orders:
            sized = _set_widths(steps, hidden, variables)
            if sized is not None:
                yield ActorCritic(inputs, sized, is_normed, *head)


def _split_layers(least: int, count: int, lstm_at: int | None = None) -> Iterator[tuple[Step, ...]]:
    """Yield the orders of ``count`` layers of unknown widths: some shared, then those of policy and value function.

    :param least: minimum number of shared layers
    """
    for shared in range(least, count + 1):
        around: list[object] = [*_OPEN * shared]
        if lstm_at is not None:
            around.insert(lstm_at, "lstm")
        for policy in range(count - shared + 1):
            value = count - shared - policy
            yield arrange_layers(around, _OPEN * policy, _OPEN * value, is_recurrent=lstm_at is not None)


def _place_lstm(count: int, shapes: Sequence[Shape], *, has_arch: bool) -> Iterator[tuple[Step, ...]]:
    """Yield the orders of ``count`` layers and an LSTM, which is where two matrices are adjacent."""
    yield arrange_legacy_lstm(_OPEN * count, 0)
    lstm_at = next((number for number in range(count + 1) if len(shapes[2 * number + 1]) == _MATRIX), None)
    if has_arch and lstm_at is not None:
        yield from _split_layers(lstm_at, count, lstm_at)


def _set_widths(steps: tuple[Step, ...], shapes: Sequence[Shape], lstm_variables: int) -> tuple[Step, ...] | None:
    """Return the layers with the widths of the shapes, or None when those are not of weights."""
    sized, at = [], 0
    for step in steps:
        is_lstm = step.name == LSTM
        weights = shapes[at + is_lstm]  # the second matrix of an LSTM is cells by gates
        if len(weights) != _MATRIX:
            return None
        sized.append(step._replace(width=weights[0] if is_lstm else weights[1]))
        at += lstm_variables if is_lstm else 2
    return tuple(sized)


def guess_mlps(algorithm: str, shapes: Sequence[Shape], shape: Shape, actions: int) -> Iterator[Mlp]:
    """Yield the networks of DQN, DDPG, SAC or TD3 that may have these shapes; parameters as above.

    :param shapes: shapes of all variables of the file
    """
    if len(shapes) > _MOST_OF_MLPS:
        refuse(_TOO_DEEP)
    is_dqn = algorithm == "DQN"
    for inputs, is_normed, is_dueling in product(
        _list_inputs(shape), (False, True), (False, True) if is_dqn else (False,)
    ):
        start = CNN_VARIABLES if inputs.cnn else 0
        if is_dqn:
            start += 3 if inputs.cnn else 1  # eps, and after a CNN the action scores
        stride = 4 if is_normed else 2
        widths: list[int] = []
        if is_dqn:
            yield Mlp(inputs, (), is_normed, actions, is_dueling)
        for weights in shapes[start::stride]:
            if len(weights) != _MATRIX:
                break
            widths.append(weights[1])
            yield Mlp(inputs, tuple(widths), is_normed, actions, is_dueling)
