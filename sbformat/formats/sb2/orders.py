"""The names of parameters that a pickle of Stable Baselines 2 has without names (FORMAT.md 16.4).

Before 2.6 SB2 saved a list of arrays in the order of ``algorithm.params``. Up to 2.5 those were *all* trainable
variables of the graph, whatever scope was asked for (``find_trainable_variables``), so that algorithms which joined
several such lists saved each variable twice. Names are given only when one network of SB2's has exactly the file's
shapes: first by the policy's class and keywords, or, for a user's class, whose keywords no file holds, by the shapes
alone. A second copy of the variable ``v`` is called ``v#2``.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain, islice, product, zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sbformat.formats.sb2.guesses import guessed_actor_critics, guessed_mlps
from sbformat.formats.sb2.networks import (
    actor,
    actor_critic,
    adversary,
    critics,
    ddpg_actor,
    ddpg_critic,
    deepq,
    first_deepq,
)  # fmt: skip
from sbformat.formats.sb2.policies import (
    PACKAGE,
    Unsure,
    head_of,
    named_class,
    own_actor_critic,
    own_mlp,
    policy_of,
    refuse,
    seen,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.formats.sb2.networks import ActorCritic, Mlp, Shape, Variable
    from sbformat.formats.sb2.policies import Policy

    Data: TypeAlias = Mapping[str, object]
    File: TypeAlias = "Iterator[Variable]"
    """All variables that one reading of a file expects."""

_MOST: Final = 65_536
"""Parameters that are looked at; the longest list seen has 86."""

_ADVERSARY: Final = "adversary"
_ADVERSARY_VARIABLES: Final = 6
_NOISE_SCOPES: Final = ("noise", "noise_adapt")
_POLICY_ALONE: Final = (("model",),)
_TRUST_REGION: Final = (
    ("model", "oldpi"),
    (_ADVERSARY, "model", "oldpi", _ADVERSARY),  # GAIL 2.0 to 2.5: all there are, and the adversary's again
    ("model", "oldpi", _ADVERSARY),
)
_ACTOR_CRITICS: Final = {
    "A2C": _POLICY_ALONE, "ACER": _POLICY_ALONE, "ACKTR": _POLICY_ALONE, "PPO1": _POLICY_ALONE, "PPO2": _POLICY_ALONE,
    "TRPO": _TRUST_REGION, "GAIL": _TRUST_REGION,
}  # fmt: skip
"""The parts of a file, in order, for each way in which a release saved them."""
_SCOPES: Final = {"model": "model", "oldpi": "oldpi/model"}

_SINCE_2_4: Final = "policy_kwargs"
_SINCE_2_6: Final = {"DDPG": "buffer_size", "SAC": "random_exploration"}
"""Keys of ``data`` that tell the releases that save names from those that do not."""
_RENAMED: Final = (("/pi/logstd:", "2.1", _SINCE_2_4), ("/qf_output/", "2.5.1", _SINCE_2_6["DDPG"]))
"""What a variable is called, since when, and a key of ``data`` that no release before that has."""


class Names(NamedTuple):
    """The names of a file's parameters."""

    names: tuple[str, ...] | None
    """In the file's order, each once; None when they are not certain."""
    source: str
    """A sentence for people: what gave them, or why there are none."""


def name_parameters(algorithm: str | None, data: Data, shapes: Sequence[Shape]) -> Names:
    """Name the parameters of an SB2 file that has them as a list.

    :param algorithm: that wrote it: ``PPO2``, ``DQN``, ...
    :param data: its hyper-parameters, by SB2's keys, as :mod:`sbformat.values` decodes them; anything may be missing
        or wrong
    :param shapes: of the parameters, in order
    :return: one name a parameter, TensorFlow's own, or None with the reason; never an error
    """
    try:
        if len(shapes) > _MOST:
            refuse("there are more parameters than SB2 has")
        return _named(algorithm, data, tuple(map(tuple, shapes)))
    except Unsure as reason:
        return Names(None, f"by index, for {reason}")


def _named(algorithm: str | None, data: Data, shapes: tuple[Shape, ...]) -> Names:
    if algorithm == "HER":
        algorithm = _wrapped(data)
    if algorithm not in _ACTOR_CRITICS and algorithm not in _FILES:
        refuse("nothing says which algorithm wrote the file")
    policy = policy_of(algorithm, data)
    make = _actor_critic_files if algorithm in _ACTOR_CRITICS else _mlp_files
    found: set[tuple[str, ...]] = set()
    for file in make(algorithm, data, policy, shapes):
        names = _fitting(file, shapes)
        if names is not None:
            found.add(names)
        if len(found) > 1:
            refuse(f"more than one network of SB2's has these shapes, and {policy.label} does not say which")
    if not found:
        refuse(f"no network of SB2's has these shapes: {policy.label} is another")
    names = found.pop()
    return Names(names, "; ".join(_sources(policy, names, data)))


def _wrapped(data: Data) -> str | None:
    """The algorithm that HER trains: SB2 saves its parameters, and HER's own keys beside its data."""
    module, name = named_class(data.get("model_class")) or ("", "")
    return name if module.partition(".")[0] == PACKAGE and name in _FILES else None


def _fitting(file: File, shapes: tuple[Shape, ...]) -> tuple[str, ...] | None:
    """Return the names that a reading gives, or None when its shapes are not the file's."""
    names, copies = [], Counter[str]()
    for shape, variable in zip_longest(shapes, islice(file, len(shapes) + 1)):
        if shape is None or variable is None or variable[1] != shape:
            return None
        name = variable[0]
        copies[name] += 1
        names.append(name if copies[name] == 1 else f"{name}#{copies[name]}")
    return tuple(names)


def _sources(policy: Policy, names: tuple[str, ...], data: Data) -> Iterator[str]:
    if policy.rule is None:
        yield f"{policy.label} is a user's class, and of SB2's networks these shapes fit one alone"
    else:
        yield f"the order in which SB2 makes them for {policy.label}, every shape checked"
    twice = sum(name.endswith("#2") for name in names)
    if twice:
        yield f"the file holds {twice} of them twice, as releases before 2.6 saved them: #2 marks the second copy"
    for part, release, key in _RENAMED:
        if key not in data and any(part in name for name in names):
            yield f"{part.strip('/:')} is the name since {release}"


# -- actor-critic policies ----------------------------------------------------------------------------


def _actor_critic_files(algorithm: str, data: Data, policy: Policy, shapes: tuple[Shape, ...]) -> Iterator[File]:
    """A2C, ACER, ACKTR, PPO1 and PPO2 save the policy, TRPO the old one too, GAIL its adversary besides."""
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
        for net in _actor_critics(data, policy, shapes[start : start + block]):
            yield chain.from_iterable(_part(part, net, hidden) for part in parts)


def _part(part: str, net: ActorCritic, hidden: Shape) -> File:
    """The variables of a part.

    :param hidden: how wide the adversary's layers are, if it is there
    """
    if part != _ADVERSARY:
        return actor_critic(_SCOPES[part], net)
    width = net.senses.shape[0] if len(net.senses.shape) == 1 else 0
    return adversary(width + net.actions, hidden[0] if hidden else 0)


def _actor_critics(data: Data, policy: Policy, shapes: tuple[Shape, ...]) -> Iterator[ActorCritic]:
    shape, head = seen(data), head_of(data)
    if policy.rule is not None:
        yield own_actor_critic(policy.rule, policy.settings, shape, head, len(shapes))
    else:
        # The LSTM policies had no net_arch before 2.4.
        yield from guessed_actor_critics(shapes, shape, head, has_lstm_arch=_SINCE_2_4 in data)


# -- DQN, DDPG, SAC and TD3 ---------------------------------------------------------------------------


def _mlp_files(algorithm: str, data: Data, policy: Policy, shapes: tuple[Shape, ...]) -> Iterator[File]:
    files = tuple(_FILES[algorithm](data))
    shape, head = seen(data), head_of(data)
    if head.is_gaussian is (algorithm == "DQN"):
        refuse(f"{algorithm} has no such actions")
    nets: Iterator[Mlp]
    if policy.rule is not None:
        nets = iter([own_mlp(algorithm, policy.rule, policy.settings, shape, head.actions, len(shapes))])
    else:
        nets = guessed_mlps(algorithm, shapes, shape, head.actions)
    for net, file in product(nets, files):
        yield file(net)


def _flag(data: Data, key: str) -> bool:
    value = data.get(key)
    if type(value) is not bool:
        refuse(f"the file does not say {key}")
    return value


def _dqn(data: Data) -> Iterator[Callable[[Mlp], File]]:
    scopes = ["model", "target_q_func/model"]
    if _flag(data, "param_noise"):
        scopes[1:1] = ["perturbed_model/model", "adaptive_model/model"]
    makers = (deepq,) if _SINCE_2_4 in data else (deepq, first_deepq)

    def networks(make: Callable[[str, Mlp], File], net: Mlp) -> File:
        yield "deepq/eps:0", ()
        for scope in scopes:
            yield from make(f"deepq/{scope}", net)

    return (partial(networks, make) for make in makers)


def _ddpg(data: Data) -> Iterator[Callable[[Mlp], File]]:
    if "param_noise" not in data:
        refuse("the file does not say param_noise")
    noise = _NOISE_SCOPES if data["param_noise"] is not None else ()
    shape = seen(data)
    moments = {"obs_rms": shape if _flag(data, "normalize_observations") else None}
    moments["ret_rms"] = () if _flag(data, "normalize_returns") else None

    def networks(net: Mlp) -> File:
        for scope in ("model", *noise, "target"):
            yield from ddpg_actor(f"{scope}/pi", net)
            if scope not in noise:
                yield from ddpg_critic(f"{scope}/qf", net)

    def normalisation() -> File:
        for scope, size in moments.items():
            if size is not None:
                yield from _moments(f"input/{scope}", size)

    if _SINCE_2_6["DDPG"] in data:
        yield lambda net: chain(networks(net), normalisation())
    elif _SINCE_2_4 not in data:
        yield networks
    else:  # 2.4 without, 2.5 with what normalises
        yield lambda net: chain(networks(net), networks(net))
        yield lambda net: chain(networks(net), networks(net), normalisation())


def _moments(scope: str, shape: Shape) -> File:
    """``common/mpi_running_mean_std.py``."""
    yield f"{scope}/runningsum:0", shape
    yield f"{scope}/runningsumsq:0", shape
    yield f"{scope}/count:0", ()


def _sac(data: Data) -> Iterator[Callable[[Mlp], File]]:
    coefficient: Any = data.get("ent_coef")
    learned = isinstance(coefficient, str) and coefficient.startswith("auto")
    if not learned and type(coefficient) not in (int, float):
        refuse("the file does not say ent_coef")

    def networks(net: Mlp) -> File:
        yield from actor("model/pi", net, outputs=2)
        yield from critics("model/values_fn", net, ("vf", "qf1", "qf2"))
        if learned:
            yield "model/log_ent_coef:0", ()
        yield from critics("target/values_fn", net, ("vf",))

    def without_eyes(net: Mlp) -> File:
        return (row for row in networks(net) if not row[0].startswith(_TARGET_EYES))

    if _SINCE_2_6["SAC"] not in data:
        yield lambda net: chain(networks(net), networks(net))
    else:
        yield networks  # 2.10.1
        yield without_eyes  # 2.6 to 2.10.0 forgot the target's CNN


_TARGET_EYES: Final = tuple(f"target/values_fn/{name}/" for name in ("c1", "c2", "c3", "fc1"))


def _td3(_: Data) -> Iterator[Callable[[Mlp], File]]:
    def networks(net: Mlp) -> File:
        for scope in ("model", "target"):
            yield from actor(f"{scope}/pi", net, outputs=1)
            yield from critics(f"{scope}/values_fn", net, ("qf1", "qf2"))

    yield networks


_FILES: Final = {"DQN": _dqn, "DDPG": _ddpg, "SAC": _sac, "TD3": _td3}
"""How each release saved the networks of an algorithm: what a file holds, given the network."""
