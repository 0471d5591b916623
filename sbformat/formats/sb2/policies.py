"""Which networks a file's policy can have: the one that SB2's class and its keywords fix, or all that shapes allow.

A class of SB2's own says, with ``policy_kwargs`` and the spaces, all that there is to know. A user's class fixes
keywords in its constructor, which no file holds: then each network of SB2's builders that has room for the
parameters is given, its widths read from the file's shapes; :mod:`~sbformat.formats.sb2.orders` takes what fits.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from sbformat.errors import quote
from sbformat.formats.sb2.algorithms import OWN_POLICIES, SHARED_POLICIES
from sbformat.formats.sb2.networks import LSTM, ActorCritic, Cnn, Mlp, Senses, Step
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Global
from sbformat.values.numbers import unpack_items
from sbformat.values.types import Box, CarriedClass, Discrete, MultiBinary, MultiDiscrete, Partial, Reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.formats.sb2.networks import Shape

_LAYERS: Final = (64, 64)
"""SB2's default."""
_CELLS: Final = 256
_PICTURE: Final = 3
_MOST_SETTINGS: Final = 32
PACKAGE: Final = "stable_baselines"


class Unsure(Exception):  # noqa: N818 -- a word between rooms, never raised to a caller
    """Why nothing certain can be said, in words for people."""


def refuse(message: str) -> NoReturn:
    """Say that nothing is certain."""
    raise Unsure(message)


class Rule(NamedTuple):
    """What a class of SB2's fixes; None is free to be set."""

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
    # It takes the keyword ``dueling`` and hands on True.
    "LnMlpPolicy": Rule(convolved=False, normed=True, dueling=True),
    "LnCnnPolicy": Rule(convolved=True, normed=True),
}
_CNN_SETTINGS: Final = frozenset({"pad", "one_dim_bias"})


class Head(NamedTuple):
    """What the action space asks of a network."""

    actions: int
    is_gaussian: bool


class Policy(NamedTuple):
    """The policy of a file."""

    label: str
    rule: Rule | None
    """None for a user's class."""
    settings: Mapping[str, object]
    """Its keywords."""


# -- the policy ---------------------------------------------------------------------------------------


def policy_of(algorithm: str, data: Mapping[str, object]) -> Policy:
    """Return the policy that a file names, and its keywords.

    :raises Unsure: when it names none, or one that the algorithm does not take
    """
    policy, settings = data.get("policy"), _settings(data.get("policy_kwargs"))
    if isinstance(policy, Partial) and not policy.args:  # how DQN's users set keywords before 2.4
        settings = {**_settings(policy.keywords), **settings}
        policy = policy.function
    if isinstance(policy, CarriedClass):
        return Policy(quote(policy.name), None, settings)
    pair = named_class(policy)
    if pair is None:
        refuse("the file does not say which policy it has")
    module, name = pair
    if module.partition(".")[0] != PACKAGE:
        return Policy(quote(".".join(pair)), None, settings)
    table = _DQN if algorithm == "DQN" else _OFF_POLICY if algorithm in OWN_POLICIES else _ON_POLICY
    if module != OWN_POLICIES.get(algorithm, SHARED_POLICIES) or name not in table:
        refuse(f"{quote('.'.join(pair))} is no policy of {algorithm}")
    return Policy(f"{name} of {algorithm}", table[name], settings)


def named_class(value: object) -> tuple[str, str] | None:
    """Return the module and name of a class, whether or not anybody knows it."""
    if isinstance(value, Reference) or (isinstance(value, Global) and not value.updates):
        return value.pair
    return None


def _settings(value: object) -> dict[str, object]:
    if value is None:  # before 2.4
        return {}
    if not isinstance(value, dict) or len(value) > _MOST_SETTINGS or any(type(key) is not str for key in value):
        refuse("the keywords of the policy are not what SB2 writes")
    return value


# -- spaces -------------------------------------------------------------------------------------------


def seen(data: Mapping[str, object]) -> Shape:
    """Return the shape of an observation, as ``common/input.py`` makes it.

    :raises Unsure: when the space is missing, or none that SB2 takes
    """
    space = data.get("observation_space")
    if isinstance(space, Discrete):
        return (space.n,)
    if isinstance(space, MultiDiscrete):
        return (_total(space.nvec),)
    if isinstance(space, (Box, MultiBinary)):
        return space.shape
    refuse("the file does not say what its policy observes")


def head_of(data: Mapping[str, object]) -> Head:
    """Return what the action space asks for, as ``common/distributions.py`` has it.

    :raises Unsure: when the space is missing, or none that SB2 takes
    """
    space = data.get("action_space")
    if isinstance(space, Discrete):
        return Head(space.n, is_gaussian=False)
    if isinstance(space, MultiDiscrete):
        return Head(_total(space.nvec), is_gaussian=False)
    if isinstance(space, (Box, MultiBinary)) and len(space.shape) == 1:
        return Head(space.shape[0], isinstance(space, Box))
    refuse("the file does not say how its policy acts")


def _total(nvec: object) -> int:
    if not isinstance(nvec, ArrayInfo) or nvec.dtype[1:2] not in ("i", "u"):
        refuse("a space of the file is not what gym writes")
    return sum(map(int, unpack_items(nvec)))


# -- networks of SB2's own classes --------------------------------------------------------------------


def own_actor_critic(rule: Rule, settings: Mapping[str, object], shape: Shape, head: Head, most: int) -> ActorCritic:
    """Return the network of one of SB2's actor-critic policies.

    :param most: hidden layers there is room for
    :raises Unsure: when a keyword is unknown, or has another value than SB2 takes
    """
    senses, is_normed = _look(rule, settings, shape, {"layers", "net_arch", "n_lstm"})
    if not rule.recurrent and "n_lstm" in settings:
        _refuse_keyword("n_lstm")
    cells = _widths([settings.get("n_lstm", _CELLS)], 1)[0]
    layers, arch = settings.get("layers"), settings.get("net_arch")
    steps: tuple[Step, ...]
    if arch is None:
        widths = () if senses.cnn else _LAYERS if layers is None else _widths(layers, most)
        steps = legacy_lstm(widths, cells) if rule.recurrent else arranged((), widths, widths)
    elif senses.cnn is not None:
        if rule.recurrent:  # SB2 has no such network
            _refuse_keyword("net_arch")
        steps = ()
    else:
        steps = arranged(*_net_arch(arch, most), cells=cells, is_recurrent=rule.recurrent)
    return ActorCritic(senses, steps, is_normed, *head)


def own_mlp(algorithm: str, rule: Rule, settings: Mapping[str, object], shape: Shape, actions: int, most: int) -> Mlp:
    """Return the network of one of SB2's policies for DQN, DDPG, SAC or TD3; else like :func:`own_actor_critic`."""
    extra = {"SAC": {"reg_weight"}, "DQN": {"dueling"}}.get(algorithm, set())
    senses, is_normed = _look(rule, settings, shape, {"layers"} | extra)
    layers = settings.get("layers")
    widths = _LAYERS if layers is None else _widths(layers, most)
    if algorithm != "DQN":
        return Mlp(senses, widths, is_normed, actions)
    is_dueling = rule.dueling if rule.dueling is not None else settings.get("dueling", True)
    if type(is_dueling) is not bool:
        _refuse_keyword("dueling")
    return Mlp(senses, widths, is_normed, actions, is_dueling)


def _look(rule: Rule, settings: Mapping[str, object], shape: Shape, known: set[str]) -> tuple[Senses, bool]:
    """Return what the network sees, and whether it is normed."""
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
    return (_pictured(shape, settings) if convolved else Senses(shape, None)), normed


def _pictured(shape: Shape, settings: Mapping[str, object]) -> Senses:
    pad, flat = settings.get("pad", "VALID"), settings.get("one_dim_bias", False)
    if len(shape) != _PICTURE or type(flat) is not bool or not isinstance(pad, str) or pad not in ("VALID", "SAME"):
        refuse("its policy looks at pictures, in another way than SB2 does")
    return Senses(shape, Cnn(pad == "SAME", flat))


def _refuse_keyword(key: str) -> NoReturn:
    refuse(f"its policy has the keyword {quote(key)}, with a meaning that is not known")


def _widths(value: object, most: int) -> tuple[int, ...]:
    if (
        not isinstance(value, (list, tuple))
        or len(value) > most
        or not all(type(width) is int and width > 0 for width in value)
    ):
        refuse("the layers of its policy are not what SB2 takes")
    return tuple(value)


class _Arch(NamedTuple):
    """A ``net_arch``: layers that both see, and those of policy and value function alone."""

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
            break  # SB2 looks no further
        shared.append(item)
    cells = [item for item in shared if isinstance(item, str) and item == "lstm"]
    _widths([item for item in shared if not isinstance(item, str) or item != "lstm"], most)
    if len(cells) > 1:
        _refuse_keyword("net_arch")
    return _Arch(tuple(shared), _widths(branches.get("pi", ()), most), _widths(branches.get("vf", ()), most))


# -- the layers of actor-critic policies --------------------------------------------------------------


def arranged(
    shared: Sequence[Any], pi: Sequence[int], vf: Sequence[int], *, cells: int = 0, is_recurrent: bool = False
) -> tuple[Step, ...]:
    """Return the layers of a ``net_arch`` in the order of their making.

    :param shared: widths, and ``lstm`` where the LSTM stands
    :param cells: of the LSTM
    :param is_recurrent: with an LSTM all of ``pi`` comes before ``vf``, without one they take turns
    :raises Unsure: when there is an LSTM that should not, or none that should
    """
    if ("lstm" in shared) is not is_recurrent:
        _refuse_keyword("net_arch")
    steps = [
        Step(LSTM, "both", cells) if width == "lstm" else Step(f"shared_fc{number}", "both", width)
        for number, width in enumerate(shared)
    ]
    policy = [Step(f"pi_fc{number}", "pi", width) for number, width in enumerate(pi)]
    value = [Step(f"vf_fc{number}", "vf", width) for number, width in enumerate(vf)]
    if is_recurrent:
        return (*steps, *policy, *value)
    return (*steps, *(step for pair in zip_longest(policy, value) for step in pair if step is not None))


def legacy_lstm(widths: Sequence[int], cells: int) -> tuple[Step, ...]:
    """Return the layers before an LSTM without ``net_arch``: called ``pi_fc``, though both heads see them."""
    return (*(Step(f"pi_fc{number}", "both", width) for number, width in enumerate(widths)), Step(LSTM, "both", cells))
