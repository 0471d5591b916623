"""Networks of Stable Baselines 2's policy classes, and names for the parameters of pickles without (SB2.md 16.4).

Before 2.6 SB2 saved a list of arrays, in the order in which its source creates the variables. So the names follow from
the network, and the shapes tell whether a network is the right one. In: the algorithm, its hyper-parameters, and the
shapes of the arrays in order. Out: one TensorFlow name per array, or None with a reason.

1. :func:`find_policy` and :func:`list_networks` find the network, of files with names too. SB2's own policy classes
   determine it, with ``policy_kwargs`` and the spaces. A user's class has keywords in its constructor, which no file
   contains: then every network is tried that SB2 can build with that many parameters, with the widths of the shapes.
2. :func:`name_parameters` takes, for each network, every *variable list* that a release may have saved: which networks
   the algorithm has, in which scopes and order, and, up to 2.5, which of them twice. Those releases saved *all*
   trainable variables of the graph whatever scope they requested (``find_trainable_variables``), so algorithms that
   joined several such lists saved each variable twice. The second copy of the variable ``v`` is named ``v#2``.

Invariants: every shape is compared; when two different lists of names fit, none is returned; a hostile file only costs
a bounded number of attempts; no error is raised. A2C with ``MlpPolicy``, 4 observations, 2 actions, and the shapes
``(4, 64) (64,) (4, 64) (64,) (64, 64) (64,) (64, 64) (64,) (64, 1) (1,) (64, 2) (2,) (64, 2) (2,)``::

    model/pi_fc0/w:0 (4, 64)  model/pi_fc0/b:0 (64,)  model/vf_fc0/w:0 (4, 64)  model/vf_fc0/b:0 (64,)
    model/pi_fc1/w:0 (64, 64)  ...  model/vf/w:0 (64, 1)  ...  model/pi/w:0 (64, 2)  ...  model/q/w:0 (64, 2)
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain, islice, product, takewhile, zip_longest
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from sbformat.errors import UnsupportedError, quote
from sbformat.formats.sb2 import OWN_POLICIES, SHARED_POLICIES, Names
from sbformat.immutable import Record
from sbformat.known.spaces import Space
from sbformat.known.types import CarriedClass, Partial, Reference
from sbformat.nets import sb2
from sbformat.pkl.tree import Global

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Data: TypeAlias = Mapping[str, object]
    VariableList: TypeAlias = "Iterator[sb2.Variable]"
    """The variable list of a file: names and shapes, in order."""

_LAYERS: Final = (64, 64)
_IMAGE_RANK: Final = 3
_MOST_OF_ACTOR_CRITIC: Final = 80
"""Maximum number of parameters of a network whose layers may have many orders, all of which must be tried."""
_MOST_OF_MLPS: Final = 512
"""Maximum number of parameters of a file whose layers have one order; the longest real file has 86."""
_TOO_DEEP: Final = "its policy is a user's class with too many layers to try all orders"
_HEADS: Final = 6
_MATRIX: Final = 2
_OPEN: Final = (0,)  # A width that is not known yet
_CNN_VARIABLES: Final = 8
_KINDS: Final = {(False, False): 0, (True, False): 3, (True, True): 9}
"""The number of variables of an LSTM, by whether there is one and whether it has layer normalization."""
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


# -- the policy ---------------------------------------------------------------------------------------


def find_policy(algorithm: str, data: Data) -> Policy:
    """Return the policy that a file names, and its keywords."""
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
    if not isinstance(value, dict) or len(value) > 32 or any(type(key) is not str for key in value):
        refuse("expected a dict of at most 32 keywords of the policy")
    return value


# -- spaces -------------------------------------------------------------------------------------------


def find_space(data: Data, key: str) -> Space | None:
    """Return a space of a file, or None when it has none that is known."""
    found = data.get(key)
    return found if isinstance(found, Space) else None


def observation_shape(data: Data) -> sb2.Shape:
    """Return the shape of an observation, as ``common/input.py`` encodes it: discrete ones as one-hot."""
    space = find_space(data, "observation_space")
    if space is None or space.observed not in ("one-hot", "numbers"):
        refuse("the file does not contain an observation space that SB2 supports")
    return (sum(read_sizes(space)),) if space.observed == "one-hot" else space.shape


def find_head(data: Data) -> Head:
    """Return the outputs that the action space needs, as in ``common/distributions.py``."""
    space = find_space(data, "action_space")
    if space is not None and space.observed == "one-hot":
        return Head(sum(read_sizes(space)), is_gaussian=False)
    if space is not None and space.distribution and len(space.shape) == 1:
        return Head(space.shape[0], space.distribution == "gaussian")
    refuse("the file does not contain an action space that SB2 supports")


def read_sizes(space: Space) -> tuple[int, ...]:
    """Return the number of choices of each component of a space of choices."""
    try:
        return space.choices()
    except UnsupportedError:
        refuse("expected integers as nvec of a MultiDiscrete")


# -- networks of SB2's policy classes -----------------------------------------------------------------


def list_networks(
    algorithm: str, policy: Policy, data: Data, shapes: Sequence[sb2.Shape], most: int, *, has_lstm_arch: bool = True
) -> Iterator[Any]:
    """Yield the network that SB2's class determines, or those that shapes allow.

    Each is an ActorCriticPolicy; of an off-policy algorithm, the arguments of its networks, an Mlp.

    :param shapes: of the parameters, in order; of an off-policy algorithm, they may be those of more networks
    :param has_lstm_arch: whether the release has LSTM policies with a ``net_arch``
    """
    shape, head = observation_shape(data), find_head(data)
    made, is_mlp = _Candidates(algorithm, policy.settings, shape, head, shapes, most), algorithm in OWN_POLICIES
    if policy.rule is not None:
        yield made.make_mlp(policy.rule) if is_mlp else made.make_actor_critic(policy.rule)
    else:
        yield from made.guess_mlps() if is_mlp else made.guess_actor_critics(has_lstm_arch=has_lstm_arch)


class _Candidates(Record):
    """What decides on the networks that a file may have."""

    algorithm: str
    settings: Mapping[str, object]
    shape: sb2.Shape
    """Shape of an observation."""
    head: Head
    shapes: Sequence[sb2.Shape]
    most: int

    def make_actor_critic(self, rule: Rule) -> sb2.ActorCriticPolicy:
        settings = self.settings
        inputs, is_normed = self._read_input(rule, {"layers", "net_arch", "n_lstm"})
        if not rule.recurrent and "n_lstm" in settings:
            _refuse_keyword("n_lstm")
        cells = _widths([settings.get("n_lstm", 256)], 1)[0]
        layers, arch = settings.get("layers"), settings.get("net_arch")
        steps: tuple[sb2.Step, ...]
        if arch is None:
            widths = () if inputs.cnn else _LAYERS if layers is None else _widths(layers, self.most)
            steps = arrange_legacy_lstm(widths, cells) if rule.recurrent else arrange_layers((), widths, widths)
        elif inputs.cnn is not None:
            if rule.recurrent:  # SB2 cannot build such a network
                _refuse_keyword("net_arch")
            steps = ()
        else:
            steps = arrange_layers(*_net_arch(arch, self.most), cells=cells, is_recurrent=rule.recurrent)
        return sb2.ActorCriticPolicy(inputs, steps, is_normed=is_normed, **self.head._asdict())

    def make_mlp(self, rule: Rule) -> sb2.Mlp:
        settings, is_dqn = self.settings, self.algorithm == "DQN"
        extra = {"SAC": {"reg_weight"}, "DQN": {"dueling"}}.get(self.algorithm, set())
        inputs, is_normed = self._read_input(rule, {"layers"} | extra)
        layers = settings.get("layers")
        widths = _LAYERS if layers is None else _widths(layers, self.most)
        is_dueling = rule.dueling if rule.dueling is not None else is_dqn and settings.get("dueling", True)
        if type(is_dueling) is not bool:
            _refuse_keyword("dueling")
        return sb2.Mlp(inputs, widths, is_normed, self.head.actions, is_dueling)

    def _read_input(self, rule: Rule, known: set[str]) -> tuple[sb2.InputStage, bool]:
        """Return the input stage of the network, and whether it has layer normalization."""
        settings, shape = self.settings, self.shape
        convolved: Any = rule.convolved
        normed: Any = rule.normed
        allowed = known | {"act_fun"}
        if convolved is None:
            allowed |= {"feature_extraction"}
            extraction = settings.get("feature_extraction", "cnn")
            if not isinstance(extraction, str) or extraction not in ("cnn", "mlp"):
                _refuse_keyword("feature_extraction")
            convolved = extraction == "cnn"
        if normed is None:
            allowed |= {"layer_norm"}
            normed = settings.get("layer_norm", False)
            if type(normed) is not bool:
                _refuse_keyword("layer_norm")
        allowed |= {"pad", "one_dim_bias"} if convolved else set()
        for key in settings:
            if key not in allowed:
                _refuse_keyword(key)
        if not convolved:
            return sb2.InputStage(shape, None), normed
        pad, flat = settings.get("pad", "VALID"), settings.get("one_dim_bias", False)
        is_pad = isinstance(pad, str) and pad in ("VALID", "SAME")
        if len(shape) != _IMAGE_RANK or type(flat) is not bool or not is_pad:
            refuse("expected images, and the keywords pad and one_dim_bias as SB2 accepts them")
        return sb2.InputStage(shape, sb2.Cnn(pad == "SAME", flat)), normed

    # -- networks of users' classes -------------------------------------------------------------------

    def _list_inputs(self) -> tuple[sb2.InputStage, ...]:
        """Return the possible input stages for an observation."""
        cnns = [sb2.Cnn(*kind) for kind in product((False, True), repeat=2)] if len(self.shape) == _IMAGE_RANK else []
        return tuple(sb2.InputStage(self.shape, cnn) for cnn in (None, *cnns))

    def guess_actor_critics(self, *, has_lstm_arch: bool) -> Iterator[sb2.ActorCriticPolicy]:
        """Yield the actor-critic networks that may have these shapes."""
        if len(self.shapes) > _MOST_OF_ACTOR_CRITIC:
            refuse(_TOO_DEEP)
        for inputs, (kind, variables) in product(self._list_inputs(), _KINDS.items()):
            is_recurrent, is_normed = kind
            start = _CNN_VARIABLES if inputs.cnn else 0
            count, odd = divmod(len(self.shapes) - start - variables - _HEADS - self.head.is_gaussian, 2)
            if odd or count < 0:
                continue
            hidden = self.shapes[start:]
            orders: Iterable[tuple[sb2.Step, ...]] = _split_layers(0, count)
            if inputs.cnn is not None:
                orders = [arrange_legacy_lstm((), 0) if is_recurrent else ()] if count == 0 else []
            elif is_recurrent:  # the LSTM is where two matrices are adjacent
                lstm_at = next((at for at in range(count + 1) if len(hidden[2 * at + 1]) == _MATRIX), None)
                with_arch = _split_layers(lstm_at, count, lstm_at) if has_lstm_arch and lstm_at is not None else ()
                orders = (arrange_legacy_lstm(_OPEN * count, 0), *with_arch)
            for steps in orders:
                sized = _set_widths(steps, hidden, variables)
                if sized is not None:
                    yield sb2.ActorCriticPolicy(inputs, sized, is_normed=is_normed, **self.head._asdict())

    def guess_mlps(self) -> Iterator[sb2.Mlp]:
        """Yield the networks of DQN, DDPG, SAC or TD3 that may have these shapes, those of all variables of a file."""
        if len(self.shapes) > _MOST_OF_MLPS:
            refuse(_TOO_DEEP)
        is_dqn, actions = self.algorithm == "DQN", self.head.actions
        for inputs, is_normed, is_dueling in product(
            self._list_inputs(), (False, True), (False, True) if is_dqn else (False,)
        ):
            start = _CNN_VARIABLES if inputs.cnn else 0
            outputs = actions
            if is_dqn:
                start += 3 if inputs.cnn else 1  # eps, and after a CNN the action scores
                outputs = 1 if inputs.cnn else actions
                yield sb2.Mlp(inputs, (), is_normed, actions, is_dueling)
            widths: list[int] = []
            last = inputs.width
            for weights in self.shapes[start :: 4 if is_normed else 2]:
                if widths and weights == (last, outputs):  # the head
                    yield sb2.Mlp(inputs, tuple(widths), is_normed, actions, is_dueling)
                if len(weights) != _MATRIX or weights[0] != last:
                    break
                last = weights[1]
                widths.append(last)


def _refuse_keyword(key: str) -> NoReturn:
    refuse(f"the meaning of the keyword {quote(key)} of its policy is not known")


def _widths(value: object, most: int) -> tuple[int, ...]:
    is_list = isinstance(value, (list, tuple)) and len(value) <= most
    if not is_list or not all(type(width) is int and width > 0 for width in value):  # type: ignore[attr-defined]
        refuse("expected a list of widths as the layers of its policy")
    return tuple(value)  # type: ignore[arg-type]


def _net_arch(value: object, most: int) -> tuple[list[Any], tuple[int, ...], tuple[int, ...]]:
    """Return the shared layers of a ``net_arch``, and those of policy and value function."""
    if not isinstance(value, (list, tuple)) or len(value) > most + 1:
        _refuse_keyword("net_arch")
    shared = list(takewhile(lambda item: not isinstance(item, dict), value))
    branches = value[len(shared)] if len(shared) < len(value) else {}  # SB2 ignores the rest
    widths = [item for item in shared if not isinstance(item, str) or item != "lstm"]
    _widths(widths, most)
    if len(shared) > len(widths) + 1:
        _refuse_keyword("net_arch")
    return shared, _widths(branches.get("pi", ()), most), _widths(branches.get("vf", ()), most)


# -- the layers of actor-critic policies --------------------------------------------------------------


def arrange_layers(
    shared: Sequence[Any], pi: Sequence[int], vf: Sequence[int], *, cells: int = 0, is_recurrent: bool = False
) -> tuple[sb2.Step, ...]:
    """Return the layers of a ``net_arch`` in the order in which SB2 creates them.

    :param shared: widths, and ``lstm`` for the LSTM
    :param is_recurrent: with an LSTM all of ``pi`` comes before ``vf``, without one they alternate
    """
    if ("lstm" in shared) is not is_recurrent:
        _refuse_keyword("net_arch")
    steps = [
        sb2.Step(sb2.LSTM_SCOPE, "both", cells) if width == "lstm" else sb2.Step(f"shared_fc{number}", "both", width)
        for number, width in enumerate(shared)
    ]
    policy = [sb2.Step(f"pi_fc{number}", "pi", width) for number, width in enumerate(pi)]
    value = [sb2.Step(f"vf_fc{number}", "vf", width) for number, width in enumerate(vf)]
    if is_recurrent:
        return (*steps, *policy, *value)
    return (*steps, *(step for pair in zip_longest(policy, value) for step in pair if step is not None))


def arrange_legacy_lstm(widths: Sequence[int], cells: int) -> tuple[sb2.Step, ...]:
    """Return the layers before an LSTM without ``net_arch``: named ``pi_fc``, although both heads use them."""
    before = (sb2.Step(f"pi_fc{number}", "both", width) for number, width in enumerate(widths))
    return (*before, sb2.Step(sb2.LSTM_SCOPE, "both", cells))


def _split_layers(least: int, count: int, lstm_at: int | None = None) -> Iterator[tuple[sb2.Step, ...]]:
    """Yield the orders of ``count`` layers of unknown widths: some shared, then those of policy and value function."""
    for shared in range(least, count + 1):
        around: list[object] = [*_OPEN * shared]
        if lstm_at is not None:
            around.insert(lstm_at, "lstm")
        for policy in range(count - shared + 1):
            value = count - shared - policy
            yield arrange_layers(around, _OPEN * policy, _OPEN * value, is_recurrent=lstm_at is not None)


def _set_widths(
    steps: tuple[sb2.Step, ...], shapes: Sequence[sb2.Shape], lstm_variables: int
) -> tuple[sb2.Step, ...] | None:
    """Return the layers with the widths of the shapes, or None when those are not of weights."""
    sized, at = [], 0
    for step in steps:
        is_lstm = step.name == sb2.LSTM_SCOPE
        weights = shapes[at + is_lstm]  # the second matrix of an LSTM is cells by gates
        if len(weights) != _MATRIX:
            return None
        sized.append(step._replace(width=weights[0] if is_lstm else weights[1]))
        at += lstm_variables if is_lstm else 2
    return tuple(sized)


# -- names ---------------------------------------------------------------------------------------------

_ADVERSARY: Final = "adversary"
_ADVERSARY_VARIABLES: Final = 6
_POLICY_ALONE: Final = (("model",),)
_TRUST_REGION: Final = (
    ("model", "oldpi"),
    (_ADVERSARY, "model", "oldpi", _ADVERSARY),  # GAIL 2.0 to 2.5: all variables, then those of the adversary again
    ("model", "oldpi", _ADVERSARY),
)
_ACTOR_CRITICS: Final = {
    "A2C": _POLICY_ALONE, "ACER": _POLICY_ALONE, "ACKTR": _POLICY_ALONE, "PPO1": _POLICY_ALONE, "PPO2": _POLICY_ALONE,
    "TRPO": _TRUST_REGION, "GAIL": _TRUST_REGION,
}  # fmt: skip
"""The parts of a variable list in order, for each form that a release saved."""

_SINCE_2_4: Final = "policy_kwargs"
_SINCE_2_6: Final = {"DDPG": "buffer_size", "SAC": "random_exploration"}
"""Keys of ``data`` that only the releases that save names have, and a few versions before the first of them."""
_RENAMED: Final = (("/pi/logstd:", "2.1", _SINCE_2_4), ("/qf_output/", "2.5.1", _SINCE_2_6["DDPG"]))
"""A renamed variable, the release that renamed it, and a key of ``data`` that no earlier release has."""


def name_parameters(algorithm: str | None, data: Data, shapes: Sequence[sb2.Shape]) -> Names:
    """Name the parameters of an SB2 file that has them as a list.

    :param data: hyper-parameters, as :mod:`sbformat.values` decodes them; anything may be missing or wrong
    :return: one TensorFlow name per parameter, or None with the reason; no error is raised
    """
    try:
        return _find_names(algorithm, data, tuple(map(tuple, shapes)))
    except UncertainError as reason:
        return Names(None, f"by index, for {reason}")


def _find_names(algorithm: str | None, data: Data, shapes: tuple[sb2.Shape, ...]) -> Names:
    if algorithm == "HER":
        algorithm = find_wrapped(data)
    if algorithm not in _ACTOR_CRITICS and algorithm not in _LISTS:
        refuse("the algorithm that wrote the file is not known")
    policy = find_policy(algorithm, data)
    make = _list_actor_critics if algorithm in _ACTOR_CRITICS else _list_mlps
    found: set[tuple[str, ...]] = set()
    for file in make(algorithm, data, policy, shapes):
        names = _match_names(file, shapes)
        if names is not None:
            found.add(names)
        if len(found) > 1:
            refuse(f"more than one network of SB2 has these shapes, and {policy.label} does not determine which")
    if not found:
        refuse(f"no network of SB2 for {policy.label} has these shapes")
    names = found.pop()
    return Names(names, "; ".join(_explain_names(policy, names, data)))


def find_wrapped(data: Data) -> str | None:
    """Return the algorithm that HER wraps: SB2 saves its parameters, and adds HER's keys to its data."""
    module, name = named_class(data.get("model_class")) or ("", "")
    return name if module.partition(".")[0] == PACKAGE and name in _LISTS else None


def _match_names(file: VariableList, shapes: tuple[sb2.Shape, ...]) -> tuple[str, ...] | None:
    """Return the names of a variable list, or None when its shapes are not those of the file."""
    names, copies = [], Counter[str]()
    missing = ("", None)  # differs from every shape, and from every variable
    for shape, (name, expected) in zip_longest(shapes, islice(file, len(shapes) + 1), fillvalue=missing):
        if shape != expected:
            return None
        copies[name] += 1
        names.append(name if copies[name] == 1 else f"{name}#{copies[name]}")
    return tuple(names)


def _explain_names(policy: Policy, names: tuple[str, ...], data: Data) -> Iterator[str]:
    if policy.rule is None:
        yield f"{policy.label} is a user's class, and only one network of SB2 has these shapes"
    else:
        yield f"the order in which SB2 creates them for {policy.label}, every shape checked"
    twice = sum(name.endswith("#2") for name in names)
    if twice:
        yield f"the file contains {twice} of them twice, as releases before 2.6 saved them: #2 marks the second copy"
    for part, release, key in _RENAMED:
        if key not in data and any(part in name for name in names):
            yield f"{part.strip('/:')} is the name since {release}"


# -- actor-critic policies ----------------------------------------------------------------------------


def _list_actor_critics(
    algorithm: str, data: Data, policy: Policy, shapes: tuple[sb2.Shape, ...]
) -> Iterator[VariableList]:
    """Yield the lists of on-policy algorithms: the policy, for TRPO the old one too, for GAIL also the adversary."""
    has_adversary = data.get("using_gail")
    for parts in _ACTOR_CRITICS[algorithm]:
        if type(has_adversary) is bool and has_adversary is not (_ADVERSARY in parts) and len(parts) > 1:
            continue
        room = len(shapes) - _ADVERSARY_VARIABLES * parts.count(_ADVERSARY)
        block, rest = divmod(room, len(parts) - parts.count(_ADVERSARY))
        if rest or block <= 0:
            continue
        start = _ADVERSARY_VARIABLES * (parts[0] == _ADVERSARY)
        weights = shapes[0 if start else -_ADVERSARY_VARIABLES] if _ADVERSARY in parts else ()
        hidden = weights[-1] if weights else 0
        listed, has_arch = shapes[start : start + block], _SINCE_2_4 in data  # LSTMs had no net_arch before
        for net in list_networks(algorithm, policy, data, listed, block // 2, has_lstm_arch=has_arch):
            width = net.inputs.shape[0] if len(net.inputs.shape) == 1 else 0
            made = {
                "model": ("model", net),
                "oldpi": ("oldpi/model", net),
                _ADVERSARY: (_ADVERSARY, sb2.Adversary(width + net.actions, hidden)),
            }
            yield chain.from_iterable(sb2.list_variables(*made[part]) for part in parts)


# -- DQN, DDPG, SAC and TD3 ---------------------------------------------------------------------------


def _list_mlps(algorithm: str, data: Data, policy: Policy, shapes: tuple[sb2.Shape, ...]) -> Iterator[VariableList]:
    files = tuple(_LISTS[algorithm](data))
    if find_head(data).is_gaussian is (algorithm == "DQN"):
        refuse(f"{algorithm} does not support this action space")
    for net, file in product(list_networks(algorithm, policy, data, shapes, len(shapes) // 2), files):
        yield file(net)


def _read_flag(data: Data, key: str) -> bool:
    value = data.get(key)
    if type(value) is not bool:
        refuse(f"the file does not contain a valid {key}")
    return value


def _dqn(data: Data) -> Iterator[Callable[[sb2.Mlp], VariableList]]:
    scopes = ["model", "target_q_func/model"]
    if _read_flag(data, "param_noise"):
        scopes[1:1] = ["perturbed_model/model", "adaptive_model/model"]
    makers = (sb2.QNetwork,) if _SINCE_2_4 in data else (sb2.QNetwork, sb2.FirstQNetwork)

    def networks(make: type[sb2.QNetwork | sb2.FirstQNetwork], net: sb2.Mlp) -> VariableList:
        yield "deepq/eps:0", ()
        for scope in scopes:
            yield from sb2.list_variables(f"deepq/{scope}", make(net))

    return (partial(networks, make) for make in makers)


def _ddpg(data: Data) -> Iterator[Callable[[sb2.Mlp], VariableList]]:
    if "param_noise" not in data:
        refuse("the file does not contain param_noise")
    noise = ("noise", "noise_adapt") if data["param_noise"] is not None else ()
    shape = observation_shape(data)
    statistics = {"obs_rms": shape if _read_flag(data, "normalize_observations") else None}
    statistics["ret_rms"] = () if _read_flag(data, "normalize_returns") else None

    def networks(net: sb2.Mlp) -> VariableList:
        for scope in ("model", *noise, "target"):
            yield from sb2.list_variables(f"{scope}/pi", sb2.DDPGActor(net))
            if scope not in noise:
                yield from sb2.list_variables(f"{scope}/qf", sb2.DDPGCritic(net))

    def normalization() -> VariableList:  # ``common/mpi_running_mean_std.py``
        for scope, size in statistics.items():
            if size is not None:
                yield from ((f"input/{scope}/{name}:0", size) for name in ("runningsum", "runningsumsq"))
                yield f"input/{scope}/count:0", ()

    if _SINCE_2_6["DDPG"] in data:
        yield lambda net: chain(networks(net), normalization())
    if _SINCE_2_4 not in data:
        yield networks
    else:  # 2.4 without statistics; 2.5 with them, as development versions that already had the key of 2.6
        yield lambda net: chain(networks(net), networks(net))
        yield lambda net: chain(networks(net), networks(net), normalization())


def _sac(data: Data) -> Iterator[Callable[[sb2.Mlp], VariableList]]:
    coefficient: Any = data.get("ent_coef")
    learned = isinstance(coefficient, str) and coefficient.startswith("auto")
    if not learned and type(coefficient) not in (int, float):
        refuse("the file does not contain a valid ent_coef")

    def networks(net: sb2.Mlp) -> VariableList:
        yield from sb2.list_variables("model/pi", sb2.SACActor(net))
        yield from sb2.list_variables("model/values_fn", sb2.Critics(net, ("vf", "qf1", "qf2")))
        if learned:
            yield "model/log_ent_coef:0", ()
        yield from sb2.list_variables("target/values_fn", sb2.Critics(net, ("vf",)))

    def without_target_cnn(net: sb2.Mlp) -> VariableList:
        return (row for row in networks(net) if not row[0].startswith(_TARGET_CNN))

    yield lambda net: chain(networks(net), networks(net))  # up to 2.5, and versions between 2.5 and 2.6
    if _SINCE_2_6["SAC"] in data:
        yield networks  # 2.10.1
        yield without_target_cnn  # 2.6 to 2.10.0 lack the target's CNN


_TARGET_CNN: Final = tuple(f"target/values_fn/{name}/" for name in ("c1", "c2", "c3", "fc1"))


def _td3(_: Data) -> Iterator[Callable[[sb2.Mlp], VariableList]]:
    def networks(net: sb2.Mlp) -> VariableList:
        for scope in ("model", "target"):
            yield from sb2.list_variables(f"{scope}/pi", sb2.TD3Actor(net))
            yield from sb2.list_variables(f"{scope}/values_fn", sb2.Critics(net, ("qf1", "qf2")))

    yield networks


_LISTS: Final = {"DQN": _dqn, "DDPG": _ddpg, "SAC": _sac, "TD3": _td3}
"""For each algorithm, the functions from its network to the variable lists that releases saved."""
