"""The policy of a Stable Baselines 2 file, and the network that its class and keywords determine (SB2.md 16.4).

SB2's own classes determine the network, with ``policy_kwargs`` and the spaces. A user's class has keywords in its
constructor, which no file contains: then every network is yielded that SB2 can build with that many parameters, with
the widths of the shapes. Most of those do not fit: the caller compares all shapes.
"""

from __future__ import annotations

from itertools import product, zip_longest
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.errors import UnsupportedError, quote
from sbformat.formats.sb2 import OWN_POLICIES, SHARED_POLICIES
from sbformat.immutable import Record
from sbformat.known.spaces import Space
from sbformat.known.types import CarriedClass, Partial, Reference
from sbformat.nets.sb2 import LSTM_SCOPE, ActorCriticPolicy, Cnn, InputStage, Mlp, Step
from sbformat.pkl.tree import Global

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sbformat.nets.sb2 import Shape

_LAYERS: Final = (64, 64)
"""SB2's default."""
_CELLS: Final = 256
_IMAGE_RANK: Final = 3
_MOST_OF_ACTOR_CRITIC: Final = 80
"""Maximum number of parameters of a network whose layers may have many orders, all of which must be tried."""
_MOST_OF_MLPS: Final = 512
"""Maximum number of parameters of a file whose layers have one order; the longest real file has 86."""
_TOO_DEEP: Final = "its policy is a user's class with too many layers to try all orders"
_HEADS: Final = 6
_MATRIX: Final = 2
_OPEN: Final = (0,)
"""A width that is not known yet."""
_CNN_VARIABLES: Final = 8
_KINDS: Final = {(False, False): 0, (True, False): 3, (True, True): 9}
"""The number of variables of an LSTM, by whether there is one and whether it has layer normalization."""
_MOST_SETTINGS: Final = 32
PACKAGE: Final = "stable_baselines"


class UncertainError(Exception):
    """Why the names are not certain, in words for people; internal, never raised to a caller of sbformat."""


def refuse(message: str) -> NoReturn:
    """Raise :class:`UncertainError`."""
    raise UncertainError(message)


class Rule(Record):
    """The keywords that a policy class of SB2 fixes; None for those that a user sets."""

    convolved: bool | None = None
    normed: bool | None = None
    recurrent: bool = False
    dueling: bool | None = None


_ON_POLICY: Final = {
    "FeedForwardPolicy": Rule(normed=False),
    "MlpPolicy": Rule(convolved=False, normed=False),
    "CnnPolicy": Rule(convolved=True, normed=False),
    "LstmPolicy": Rule(recurrent=True),
    "MlpLstmPolicy": Rule(convolved=False, normed=False, recurrent=True),
    "MlpLnLstmPolicy": Rule(convolved=False, normed=True, recurrent=True),
    "CnnLstmPolicy": Rule(convolved=True, normed=False, recurrent=True),
    "CnnLnLstmPolicy": Rule(convolved=True, normed=True, recurrent=True),
}
_OFF_POLICY: Final = {
    "FeedForwardPolicy": Rule(),
    "MlpPolicy": Rule(convolved=False),
    "CnnPolicy": Rule(convolved=True),
    "LnMlpPolicy": Rule(convolved=False, normed=True),
    "LnCnnPolicy": Rule(convolved=True, normed=True),
}
_DQN: Final = {
    "FeedForwardPolicy": Rule(),
    "MlpPolicy": Rule(convolved=False, normed=False),
    "CnnPolicy": Rule(convolved=True, normed=False),
    # It accepts the keyword ``dueling`` and passes True.
    "LnMlpPolicy": Rule(convolved=False, normed=True, dueling=True),
    "LnCnnPolicy": Rule(convolved=True, normed=True),
}
_CNN_SETTINGS: Final = frozenset({"pad", "one_dim_bias"})


class Head(Record):
    """The outputs of a network that the action space needs."""

    actions: int
    is_gaussian: bool


class Policy(Record):
    """The policy of a file."""

    label: str
    rule: Rule | None
    """None for a user's class."""
    settings: Mapping[str, object]
    """Its keywords."""


# -- the policy ---------------------------------------------------------------------------------------


def find_policy(algorithm: str, data: Mapping[str, object]) -> Policy:
    """Return the policy that a file names, and its keywords.

    :raises UncertainError: when it names none, or one that the algorithm does not accept
    """
    policy, settings = data.get("policy"), _settings(data.get("policy_kwargs"))
    if isinstance(policy, Partial) and not policy.args:  # DQN's users set keywords this way before 2.4
        settings = {**_settings(policy.keywords), **settings}
        policy = policy.function
    if isinstance(policy, CarriedClass):
        return Policy(quote(policy.name), None, settings)
    pair = named_class(policy)
    if pair is None:
        refuse("the file does not contain its policy")
    module, name = pair
    if module.partition(".")[0] != PACKAGE:
        return Policy(quote(".".join(pair)), None, settings)
    rule = find_rule(algorithm, name)
    if module != OWN_POLICIES.get(algorithm, SHARED_POLICIES) or rule is None:
        refuse(f"{quote('.'.join(pair))} is not a policy of {algorithm}")
    return Policy(f"{name} of {algorithm}", rule, settings)


def find_rule(algorithm: str, name: str) -> Rule | None:
    """Return what SB2's class of that name fixes; None when the algorithm has no such class."""
    table = _DQN if algorithm == "DQN" else _OFF_POLICY if algorithm in OWN_POLICIES else _ON_POLICY
    return table.get(name)


def named_class(value: object) -> tuple[str, str] | None:
    """Return the module and name of a class, known or not."""
    if isinstance(value, Reference) or (isinstance(value, Global) and not value.updates):
        return value.pair
    return None


def _settings(value: object) -> dict[str, object]:
    if value is None:  # before 2.4
        return {}
    if not isinstance(value, dict) or len(value) > _MOST_SETTINGS or any(type(key) is not str for key in value):
        refuse("expected a dict of at most 32 keywords of the policy")
    return value


# -- spaces -------------------------------------------------------------------------------------------


def find_space(data: Mapping[str, object], key: str) -> Space | None:
    """Return a space of a file, or None when it has none that is known."""
    found = data.get(key)
    return found if isinstance(found, Space) else None


def observation_shape(data: Mapping[str, object]) -> Shape:
    """Return the shape of an observation, as ``common/input.py`` encodes it: discrete ones as one-hot.

    :raises UncertainError: when the space is missing, or SB2 does not support it
    """
    space = find_space(data, "observation_space")
    if space is not None and space.observed == "one-hot":
        return (sum(read_sizes(space)),)
    if space is not None and space.observed == "numbers":
        return space.shape  # type: ignore[no-any-return]
    refuse("the file does not contain an observation space that SB2 supports")


def find_head(data: Mapping[str, object]) -> Head:
    """Return the outputs that the action space needs, as in ``common/distributions.py``.

    :raises UncertainError: when the space is missing, or SB2 does not support it
    """
    space = find_space(data, "action_space")
    if space is not None and space.observed == "one-hot":
        return Head(sum(read_sizes(space)), is_gaussian=False)
    if space is not None and space.distribution and len(space.shape) == 1:
        return Head(space.shape[0], space.distribution == "gaussian")
    refuse("the file does not contain an action space that SB2 supports")


def read_sizes(space: Space) -> tuple[int, ...]:
    """Return the number of choices of each component of a space of choices.

    :raises UncertainError: when they are not integers
    """
    try:
        return space.choices()
    except UnsupportedError:
        refuse("expected integers as nvec of a MultiDiscrete")


# -- networks of SB2's policy classes -----------------------------------------------------------------


def list_networks(
    algorithm: str,
    rule: Rule | None,
    settings: Mapping[str, object],
    data: Mapping[str, object],
    shapes: Sequence[Shape],
    *,
    most: int,
    has_lstm_arch: bool = True,
) -> Iterator[Any]:
    """Yield the networks that a file may have: the one that SB2's class determines, or those that shapes allow.

    Each is an ActorCriticPolicy; of an off-policy algorithm, the arguments of its networks, an Mlp.

    :param rule: None for a user's class
    :param settings: its keywords
    :param data: of the file, with its spaces
    :param shapes: of the parameters, in order; of an off-policy algorithm, they may be those of more networks
    :param most: maximum number of hidden layers
    :param has_lstm_arch: whether the release has LSTM policies with a ``net_arch``
    :raises UncertainError: when a keyword is unknown, or has a value that SB2 does not accept, and when there are too
        many parameters to try every network
    """
    shape, head, is_mlp = observation_shape(data), find_head(data), algorithm in OWN_POLICIES
    if rule is None:
        yield from (
            guess_mlps(algorithm, shapes, shape, head)
            if is_mlp
            else guess_actor_critics(shapes, shape, head, has_lstm_arch=has_lstm_arch)
        )
    elif is_mlp:
        yield make_mlp(algorithm, rule, settings, shape, head, most)
    else:
        yield make_actor_critic(rule, settings, shape, head, most)


def make_actor_critic(
    rule: Rule, settings: Mapping[str, object], shape: Shape, head: Head, most: int
) -> ActorCriticPolicy:
    """Return the network of one of SB2's actor-critic policies.

    :param most: maximum number of hidden layers
    :raises UncertainError: when a keyword is unknown, or has a value that SB2 does not accept
    """
    inputs, is_normed = _read_input(rule, settings, shape, {"layers", "net_arch", "n_lstm"})
    if not rule.recurrent and "n_lstm" in settings:
        _refuse_keyword("n_lstm")
    cells = _widths([settings.get("n_lstm", _CELLS)], 1)[0]
    layers, arch = settings.get("layers"), settings.get("net_arch")
    steps: tuple[Step, ...]
    if arch is None:
        widths = () if inputs.cnn else _LAYERS if layers is None else _widths(layers, most)
        steps = arrange_legacy_lstm(widths, cells) if rule.recurrent else arrange_layers((), widths, widths)
    elif inputs.cnn is not None:
        if rule.recurrent:  # SB2 cannot build such a network
            _refuse_keyword("net_arch")
        steps = ()
    else:
        steps = arrange_layers(*_net_arch(arch, most), cells=cells, is_recurrent=rule.recurrent)
    return ActorCriticPolicy(inputs, steps, is_normed=is_normed, **head._asdict())


def make_mlp(algorithm: str, rule: Rule, settings: Mapping[str, object], shape: Shape, head: Head, most: int) -> Mlp:
    """Return the network of one of SB2's policies for DQN, DDPG, SAC or TD3; else like :func:`make_actor_critic`."""
    extra = {"SAC": {"reg_weight"}, "DQN": {"dueling"}}.get(algorithm, set())
    inputs, is_normed = _read_input(rule, settings, shape, {"layers"} | extra)
    layers = settings.get("layers")
    widths = _LAYERS if layers is None else _widths(layers, most)
    if algorithm != "DQN":
        return Mlp(inputs, widths, is_normed, head.actions)
    is_dueling = rule.dueling if rule.dueling is not None else settings.get("dueling", True)
    if type(is_dueling) is not bool:
        _refuse_keyword("dueling")
    return Mlp(inputs, widths, is_normed, head.actions, is_dueling)


def _read_input(rule: Rule, settings: Mapping[str, object], shape: Shape, known: set[str]) -> tuple[InputStage, bool]:
    """Return the input stage of the network, and whether it has layer normalization."""
    allowed = known | {"act_fun"}
    convolved, normed = rule.convolved, rule.normed
    if convolved is None:
        allowed |= {"feature_extraction"}
        extraction = settings.get("feature_extraction", "cnn")
        if not isinstance(extraction, str) or extraction not in ("cnn", "mlp"):
            _refuse_keyword("feature_extraction")
        convolved = extraction == "cnn"
    if normed is None:
        allowed |= {"layer_norm"}
        given = settings.get("layer_norm", False)
        if type(given) is not bool:
            _refuse_keyword("layer_norm")
        normed = given
    for key in settings:
        if key not in (allowed | _CNN_SETTINGS if convolved else allowed):
            _refuse_keyword(key)
    return (_read_cnn(shape, settings) if convolved else InputStage(shape, None)), normed


def _read_cnn(shape: Shape, settings: Mapping[str, object]) -> InputStage:
    pad, flat = settings.get("pad", "VALID"), settings.get("one_dim_bias", False)
    if len(shape) != _IMAGE_RANK or type(flat) is not bool or not isinstance(pad, str) or pad not in ("VALID", "SAME"):
        refuse("expected images, and the keywords pad and one_dim_bias as SB2 accepts them")
    return InputStage(shape, Cnn(pad == "SAME", flat))


def _refuse_keyword(key: str) -> NoReturn:
    refuse(f"the meaning of the keyword {quote(key)} of its policy is not known")


def _widths(value: object, most: int) -> tuple[int, ...]:
    if (
        not isinstance(value, (list, tuple))
        or len(value) > most
        or not all(type(width) is int and width > 0 for width in value)
    ):
        refuse("expected a list of widths as the layers of its policy")
    return tuple(value)


class _Arch(Record):
    """A ``net_arch``: shared layers, and those of policy and value function."""

    shared: tuple[Any, ...]
    pi: tuple[int, ...] = ()
    vf: tuple[int, ...] = ()


def _net_arch(value: object, most: int) -> _Arch:
    if not isinstance(value, (list, tuple)) or len(value) > most + 1:
        _refuse_keyword("net_arch")
    shared: list[Any] = []
    branches: dict[object, object] = {}
    for item in value:
        if isinstance(item, dict):
            branches = item
            break  # SB2 ignores the rest
        shared.append(item)
    cells = [item for item in shared if isinstance(item, str) and item == "lstm"]
    _widths([item for item in shared if not isinstance(item, str) or item != "lstm"], most)
    if len(cells) > 1:
        _refuse_keyword("net_arch")
    return _Arch(tuple(shared), _widths(branches.get("pi", ()), most), _widths(branches.get("vf", ()), most))


# -- the layers of actor-critic policies --------------------------------------------------------------


def arrange_layers(
    shared: Sequence[Any], pi: Sequence[int], vf: Sequence[int], *, cells: int = 0, is_recurrent: bool = False
) -> tuple[Step, ...]:
    """Return the layers of a ``net_arch`` in the order in which SB2 creates them.

    :param shared: widths, and ``lstm`` for the LSTM
    :param cells: the number of cells of the LSTM
    :param is_recurrent: with an LSTM all of ``pi`` comes before ``vf``, without one they alternate
    :raises UncertainError: when there is an unexpected LSTM, or an expected one is missing
    """
    if ("lstm" in shared) is not is_recurrent:
        _refuse_keyword("net_arch")
    steps = [
        Step(LSTM_SCOPE, "both", cells) if width == "lstm" else Step(f"shared_fc{number}", "both", width)
        for number, width in enumerate(shared)
    ]
    policy = [Step(f"pi_fc{number}", "pi", width) for number, width in enumerate(pi)]
    value = [Step(f"vf_fc{number}", "vf", width) for number, width in enumerate(vf)]
    if is_recurrent:
        return (*steps, *policy, *value)
    return (*steps, *(step for pair in zip_longest(policy, value) for step in pair if step is not None))


def arrange_legacy_lstm(widths: Sequence[int], cells: int) -> tuple[Step, ...]:
    """Return the layers before an LSTM without ``net_arch``: named ``pi_fc``, although both heads use them."""
    before = (Step(f"pi_fc{number}", "both", width) for number, width in enumerate(widths))
    return (*before, Step(LSTM_SCOPE, "both", cells))


# -- networks of users' classes ---------------------------------------------------------------------------


def _list_inputs(shape: Shape) -> tuple[InputStage, ...]:
    """Return the possible input stages for an observation."""
    cnns = [Cnn(*kind) for kind in product((False, True), repeat=2)] if len(shape) == _IMAGE_RANK else []
    return tuple(InputStage(shape, cnn) for cnn in (None, *cnns))


def guess_actor_critics(
    shapes: Sequence[Shape], shape: Shape, head: Head, *, has_lstm_arch: bool
) -> Iterator[ActorCriticPolicy]:
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
        start = _CNN_VARIABLES if inputs.cnn else 0
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
                yield ActorCriticPolicy(inputs, sized, is_normed=is_normed, **head._asdict())


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
        is_lstm = step.name == LSTM_SCOPE
        weights = shapes[at + is_lstm]  # the second matrix of an LSTM is cells by gates
        if len(weights) != _MATRIX:
            return None
        sized.append(step._replace(width=weights[0] if is_lstm else weights[1]))
        at += lstm_variables if is_lstm else 2
    return tuple(sized)


def guess_mlps(algorithm: str, shapes: Sequence[Shape], shape: Shape, head: Head) -> Iterator[Mlp]:
    """Yield the networks of DQN, DDPG, SAC or TD3 that may have these shapes; parameters as above.

    :param shapes: shapes of all variables of the file
    """
    if len(shapes) > _MOST_OF_MLPS:
        refuse(_TOO_DEEP)
    is_dqn, actions = algorithm == "DQN", head.actions
    for inputs, is_normed, is_dueling in product(
        _list_inputs(shape), (False, True), (False, True) if is_dqn else (False,)
    ):
        start = _CNN_VARIABLES if inputs.cnn else 0
        outputs = actions
        if is_dqn:
            start += 3 if inputs.cnn else 1  # eps, and after a CNN the action scores
            outputs = 1 if inputs.cnn else actions
            yield Mlp(inputs, (), is_normed, actions, is_dueling)
        widths: list[int] = []
        last = inputs.width
        for weights in shapes[start :: 4 if is_normed else 2]:
            if widths and weights == (last, outputs):  # the head
                yield Mlp(inputs, tuple(widths), is_normed, actions, is_dueling)
            if len(weights) != _MATRIX or weights[0] != last:
                break
            last = weights[1]
            widths.append(last)
