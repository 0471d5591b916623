"""Names for the parameters of Stable Baselines 2 pickles, which contain arrays without names (SB2.md 16.4).

**Theory of operation.** Before 2.6 SB2 saved a list of arrays, in the order of ``algorithm.params``: the order in which
its source creates the variables. So the names follow from the network, and the shapes tell whether a network is the
right one.

Input: the algorithm, its hyper-parameters, and the shapes of the arrays in order. Output: one TensorFlow name per
array, or None with a reason. The steps:

1. :mod:`~sbformat.nets.sb2_policies` finds the network. SB2's own policy classes determine it, with
   ``policy_kwargs`` and the spaces. A user's class has keywords in its constructor, which no file contains:
   then every network is tried that SB2 can build with that many parameters.
2. This module yields, for each network, every *variable list* that a release may have saved: which networks the
   algorithm has, in which scopes and order, and, up to 2.5, which of them twice. Those releases saved *all* trainable
   variables of the graph whatever scope they requested (``find_trainable_variables``), so algorithms that joined
   several such lists saved each variable twice. The second copy of the variable ``v`` is named ``v#2``.
3. A network (:mod:`~sbformat.nets.sb2`) has the names and shapes of its variables, in SB2's order.
4. A variable list whose shapes are those of the file gives names. Names are returned only if all such lists agree.

Invariants: every shape is compared; when two different lists of names fit, none is returned; a hostile file only costs
a bounded number of attempts; no error is raised.

Example, A2C with ``MlpPolicy``, an observation of 4 numbers, 2 actions, and the shapes ``(4, 64) (64,) (4, 64) (64,)
(64, 64) (64,) (64, 64) (64,) (64, 1) (1,) (64, 2) (2,) (64, 2) (2,)``::

    policies   Rule(convolved=False, normed=False), layers 64 and 64 for policy and value function, which take turns
    networks   model/pi_fc0/w:0 (4, 64)  model/pi_fc0/b:0 (64,)  model/vf_fc0/w:0 (4, 64)  model/vf_fc0/b:0 (64,)
               model/pi_fc1/w:0 (64, 64)  ...  model/vf/w:0 (64, 1)  ...  model/pi/w:0 (64, 2)  ...  model/q/w:0 (64, 2)
    names      all 14 shapes are equal: these names
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain, islice, product, zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.formats.sb2 import Names
from sbformat.nets.sb2 import (
    Adversary,
    Critics,
    DDPGActor,
    DDPGCritic,
    FirstQNetwork,
    Mlp,
    QNetwork,
    SACActor,
    TD3Actor,
    list_variables,
)
from sbformat.nets.sb2_policies import (
    PACKAGE,
    UncertainError,
    find_head,
    find_policy,
    list_networks,
    named_class,
    observation_shape,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.nets.sb2 import ActorCriticPolicy, Shape, Variable
    from sbformat.nets.sb2_policies import Policy

    Data: TypeAlias = Mapping[str, object]
    VariableList: TypeAlias = "Iterator[Variable]"
    """The variable list of a file: names and shapes, in order."""

_MOST: Final = 65_536
"""Maximum number of parameters; the longest real list has 86."""

_ADVERSARY: Final = "adversary"
_ADVERSARY_VARIABLES: Final = 6
_NOISE_SCOPES: Final = ("noise", "noise_adapt")
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
_SCOPES: Final = {"model": "model", "oldpi": "oldpi/model"}

_SINCE_2_4: Final = "policy_kwargs"
_SINCE_2_6: Final = {"DDPG": "buffer_size", "SAC": "random_exploration"}
"""Keys of ``data`` that only the releases that save names have, and a few versions before the first of them."""
_RENAMED: Final = (("/pi/logstd:", "2.1", _SINCE_2_4), ("/qf_output/", "2.5.1", _SINCE_2_6["DDPG"]))
"""A renamed variable, the release that renamed it, and a key of ``data`` that no earlier release has."""


def name_parameters(algorithm: str | None, data: Data, shapes: Sequence[Shape]) -> Names:
    """Name the parameters of an SB2 file that has them as a list.

    :param algorithm: the one that wrote the file: ``PPO2``, ``DQN``, ...
    :param data: its hyper-parameters, as :mod:`sbformat.values` decodes them; anything may be missing or wrong
    :param shapes: shapes of the parameters, in order
    :return: one TensorFlow name per parameter, or None with the reason; no error is raised
    """
    try:
        if len(shapes) > _MOST:
            refuse(f"there are more than {_MOST:,} parameters")
        return _find_names(algorithm, data, tuple(map(tuple, shapes)))
    except UncertainError as reason:
        return Names(None, f"by index, for {reason}")


def _find_names(algorithm: str | None, data: Data, shapes: tuple[Shape, ...]) -> Names:
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


def _match_names(file: VariableList, shapes: tuple[Shape, ...]) -> tuple[str, ...] | None:
    """Return the names of a variable list, or None when its shapes are not those of the file."""
    names, copies = [], Counter[str]()
    for shape, variable in zip_longest(shapes, islice(file, len(shapes) + 1)):
        if shape is None or variable is None or variable[1] != shape:
            return None
        name = variable[0]
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
    algorithm: str, data: Data, policy: Policy, shapes: tuple[Shape, ...]
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
        hidden = shapes[0 if start else -_ADVERSARY_VARIABLES][-1:] if _ADVERSARY in parts else ()
        listed = shapes[start : start + block]
        for net in _list_networks(algorithm, data, policy, listed):
            yield chain.from_iterable(_list_part(part, net, hidden) for part in parts)


def _list_networks(algorithm: str, data: Data, policy: Policy, shapes: tuple[Shape, ...]) -> Iterator[Any]:
    most, has_arch = len(shapes) // 2, _SINCE_2_4 in data  # the LSTM policies had no net_arch before 2.4
    return list_networks(algorithm, policy.rule, policy.settings, data, shapes, most=most, has_lstm_arch=has_arch)


def _list_part(part: str, net: ActorCriticPolicy, hidden: Shape) -> VariableList:
    """Return the variables of a part.

    :param hidden: the width of the adversary's layers, if there is one
    """
    if part != _ADVERSARY:
        return list_variables(_SCOPES[part], net)
    width = net.inputs.shape[0] if len(net.inputs.shape) == 1 else 0
    return list_variables(_ADVERSARY, Adversary(width + net.actions, hidden[0] if hidden else 0))


# -- DQN, DDPG, SAC and TD3 ---------------------------------------------------------------------------


def _list_mlps(algorithm: str, data: Data, policy: Policy, shapes: tuple[Shape, ...]) -> Iterator[VariableList]:
    files = tuple(_LISTS[algorithm](data))
    if find_head(data).is_gaussian is (algorithm == "DQN"):
        refuse(f"{algorithm} does not support this action space")
    for net, file in product(_list_networks(algorithm, data, policy, shapes), files):
        yield file(net)


def _read_flag(data: Data, key: str) -> bool:
    value = data.get(key)
    if type(value) is not bool:
        refuse(f"the file does not contain a valid {key}")
    return value


def _dqn(data: Data) -> Iterator[Callable[[Mlp], VariableList]]:
    scopes = ["model", "target_q_func/model"]
    if _read_flag(data, "param_noise"):
        scopes[1:1] = ["perturbed_model/model", "adaptive_model/model"]
    makers = (QNetwork,) if _SINCE_2_4 in data else (QNetwork, FirstQNetwork)

    def networks(make: type[QNetwork | FirstQNetwork], net: Mlp) -> VariableList:
        yield "deepq/eps:0", ()
        for scope in scopes:
            yield from list_variables(f"deepq/{scope}", make(net))

    return (partial(networks, make) for make in makers)


def _ddpg(data: Data) -> Iterator[Callable[[Mlp], VariableList]]:
    if "param_noise" not in data:
        refuse("the file does not contain param_noise")
    noise = _NOISE_SCOPES if data["param_noise"] is not None else ()
    shape = observation_shape(data)
    statistics = {"obs_rms": shape if _read_flag(data, "normalize_observations") else None}
    statistics["ret_rms"] = () if _read_flag(data, "normalize_returns") else None

    def networks(net: Mlp) -> VariableList:
        for scope in ("model", *noise, "target"):
            yield from list_variables(f"{scope}/pi", DDPGActor(net))
            if scope not in noise:
                yield from list_variables(f"{scope}/qf", DDPGCritic(net))

    def normalization() -> VariableList:
        for scope, size in statistics.items():
            if size is not None:
                yield from _statistics(f"input/{scope}", size)

    if _SINCE_2_6["DDPG"] in data:
        yield lambda net: chain(networks(net), normalization())
    if _SINCE_2_4 not in data:
        yield networks
    else:  # 2.4 without statistics; 2.5 with them, as development versions that already had the key of 2.6
        yield lambda net: chain(networks(net), networks(net))
        yield lambda net: chain(networks(net), networks(net), normalization())


def _statistics(scope: str, shape: Shape) -> VariableList:
    """``common/mpi_running_mean_std.py``."""
    yield f"{scope}/runningsum:0", shape
    yield f"{scope}/runningsumsq:0", shape
    yield f"{scope}/count:0", ()


def _sac(data: Data) -> Iterator[Callable[[Mlp], VariableList]]:
    coefficient: Any = data.get("ent_coef")
    learned = isinstance(coefficient, str) and coefficient.startswith("auto")
    if not learned and type(coefficient) not in (int, float):
        refuse("the file does not contain a valid ent_coef")

    def networks(net: Mlp) -> VariableList:
        yield from list_variables("model/pi", SACActor(net))
        yield from list_variables("model/values_fn", Critics(net, ("vf", "qf1", "qf2")))
        if learned:
            yield "model/log_ent_coef:0", ()
        yield from list_variables("target/values_fn", Critics(net, ("vf",)))

    def without_target_cnn(net: Mlp) -> VariableList:
        return (row for row in networks(net) if not row[0].startswith(_TARGET_CNN))

    yield lambda net: chain(networks(net), networks(net))  # up to 2.5, and versions between 2.5 and 2.6
    if _SINCE_2_6["SAC"] in data:
        yield networks  # 2.10.1
        yield without_target_cnn  # 2.6 to 2.10.0 lack the target's CNN


_TARGET_CNN: Final = tuple(f"target/values_fn/{name}/" for name in ("c1", "c2", "c3", "fc1"))


def _td3(_: Data) -> Iterator[Callable[[Mlp], VariableList]]:
    def networks(net: Mlp) -> VariableList:
        for scope in ("model", "target"):
            yield from list_variables(f"{scope}/pi", TD3Actor(net))
            yield from list_variables(f"{scope}/values_fn", Critics(net, ("qf1", "qf2")))

    yield networks


_LISTS: Final = {"DQN": _dqn, "DDPG": _ddpg, "SAC": _sac, "TD3": _td3}
"""For each algorithm, the functions from its network to the variable lists that releases saved."""
