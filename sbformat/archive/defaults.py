"""Which hyper-parameters of an agent differ from the defaults of its algorithm.

In: the decoded values of ``data``, and the algorithm that wrote them. Out: the values that a call of the constructor
has to name. The defaults are those of :data:`~sbformat.known.changes.NEWEST`; what a constructor stores in the place of
a default, such as the class of a buffer in the place of None, is in ``_STORED``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import DIVIDED_INTERVAL, UNKNOWN, parse_release
from sbformat.known.spaces import Box, DictSpace
from sbformat.known.types import ConstantSchedule, Reference, TrainFreq
from sbformat.values.render import render_line
from sbformat.values.schedule_meaning import find_meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.known.algorithms import KnownAlgorithm
    from sbformat.known.changes import Release

_PLAIN: Final = (bool, int, float, str)
ARGUMENTS: Final = "_kwargs"
"""The end of the keys of dicts of arguments, whose items are listed one by one."""


ABSENT: Final = "not set"
"""The value of an argument that is not in the file, where a constructor adds one."""


class ChangedValue(Record):
    """A hyper-parameter that differs from its default."""

    key: str
    """That of ``data``; of an item of arguments with its name, ``policy_kwargs.net_arch``."""
    value: Any
    default: str | float | None
    has_default: bool
    """False of an item of arguments that the constructor does not set: the class that takes it has the default."""


class _Agent(Record):
    """The facts that decide what a constructor stores."""

    row: KnownAlgorithm
    values: Mapping[str, Any]
    release: Release

    def find_plain(self, key: str) -> Any:
        """Return a number, truth value or text of ``data``; None for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, _PLAIN) else None


def list_changed(algorithm: str, found: Mapping[str, Hyperparameter], version: str | None) -> list[ChangedValue]:
    """Return the hyper-parameters that differ from the defaults of an algorithm, in the order of its constructor.

    :param algorithm: a key of :data:`~sbformat.known.algorithms.ALGORITHMS`
    :param found: the values of ``data``
    :param version: the release of SB3 that wrote them; None if it is not known
    """
    row = ALGORITHMS[algorithm]
    agent = _Agent(row, {key: value.value for key, value in found.items()}, parse_release(version) or UNKNOWN)
    changed = []
    for key, default in row.hyperparameters.items():
        if key not in agent.values:
            continue
        value = agent.values[key]
        stored = _STORED[key](agent, default) if key in _STORED else default
        if key.endswith(ARGUMENTS) and isinstance(value, dict):
            changed += _list_items(key, value, stored or {})
        elif not _is_same(value, stored) and (key in _DERIVED or not _is_same(value, default)):
            changed.append(ChangedValue(key, value, default, has_default=True))
    return changed


def _get_default(usual: Mapping[str, Any], name: Any) -> str | float | None:
    """Return the value of an item that a constructor sets, as text if it is more than a number."""
    default = usual.get(name)
    return default if default is None or isinstance(default, _PLAIN) else render_line(default)


def _list_items(key: str, value: dict[Any, Any], usual: Mapping[str, Any]) -> list[ChangedValue]:
    """Return the arguments that differ from those that a constructor adds, and those that it did not have to add."""
    found = [
        ChangedValue(_name_item(key, name), item, _get_default(usual, name), has_default=name in usual)
        for name, item in value.items()
        if name not in usual or not _is_same(item, usual[name])
    ]
    missing = [name for name in usual if name not in value and name not in _MAYBE_ADDED]
    if "optimizer_class" in value and any(row.key == _name_item(key, "optimizer_class") for row in found):
        missing = [name for name in missing if name != "optimizer_kwargs"]  # those of the usual class
    return found + [
        ChangedValue(_name_item(key, name), ABSENT, _get_default(usual, name), has_default=True) for name in missing
    ]


def _name_item(key: str, name: object) -> str:
    return f"{key}.{name if isinstance(name, str) else render_line(name)}"


def _is_same(value: Any, usual: Any) -> bool:
    """Return whether a value of a file is a usual one: a constant schedule is its number, a list a tuple, and so on.

    The recursion follows the usual value, because that of a file may be as deep as it wants.
    """
    if isinstance(usual, dict):
        is_alike = type(value) is dict and value.keys() == usual.keys()
        return is_alike and all(_is_same(value[name], item) for name, item in usual.items())
    if isinstance(usual, Reference):
        return isinstance(value, Reference) and value.pair == usual.pair
    if type(usual) is tuple:
        found = (value.frequency, value.unit.value) if isinstance(value, TrainFreq) else value
        is_alike = type(found) in (list, tuple) and len(found) == len(usual)
        return is_alike and all(map(_is_same, found, usual))
    schedule = find_meaning(value).schedule
    found = schedule.value if isinstance(schedule, ConstantSchedule) else value
    return found is usual or (isinstance(found, _PLAIN) and found == usual)


# -- what a constructor stores ------------------------------------------------------------------------


def _store_frequency(_agent: _Agent, default: Any) -> Any:
    return default, "step"


def _store_entropy(agent: _Agent, default: Any) -> Any:
    space = agent.values.get("action_space")
    return float(-prod(space.shape)) if isinstance(space, Box) else default


def _store_interval(agent: _Agent, default: Any) -> Any:
    """Return the interval; some releases divide it by the number of environments."""
    since, until = DIVIDED_INTERVAL.get(agent.row.name, (UNKNOWN, UNKNOWN))
    count = agent.find_plain("n_envs")
    is_divided = since <= agent.release < until and type(count) is int and count > 0
    return max(default // count, 1) if is_divided else default


def _store_directions(agent: _Agent, _default: Any) -> Any:
    return agent.find_plain("n_delta")


def _store_replay_buffer(agent: _Agent, _default: Any) -> Any:
    if _observes_dict(agent):
        name = "DictReplayBuffer"
    else:
        name = "ReplayBuffer" if agent.find_plain("n_steps") in (1, None) else "NStepReplayBuffer"
    return Reference("stable_baselines3.common.buffers", name)


def _store_replay_arguments(agent: _Agent, default: Any) -> Any:
    if _observes_dict(agent) or agent.find_plain("n_steps") in (1, None):
        return default
    return {key: agent.find_plain(key) for key in ("n_steps", "gamma")}


def _store_rollout_buffer(agent: _Agent, _default: Any) -> Any:
    return Reference(*agent.row.rollout_buffer(is_dict=_observes_dict(agent)))


def _observes_dict(agent: _Agent) -> bool:
    return isinstance(agent.values.get("observation_space"), DictSpace)


def _store_policy_arguments(agent: _Agent, _default: Any) -> Any:
    """Return the arguments of the policy that the constructor adds. Source: ``a2c.py``, ``qrdqn.py``, ``ddpg.py``."""
    added = {**agent.row.policy_kwargs, "use_sde": agent.find_plain("use_sde")}
    size = agent.find_plain("batch_size")
    if agent.row.name == "A2C":
        added["optimizer_class"] = Reference("torch.optim.rmsprop", "RMSprop")
        added["optimizer_kwargs"] = {"alpha": 0.99, "eps": 1e-5, "weight_decay": 0}
    elif agent.row.name == "QRDQN" and type(size) is int and size > 0:
        added["optimizer_class"] = Reference("torch.optim.adam", "Adam")
        added["optimizer_kwargs"] = {"eps": 0.01 / size}
    return added


_STORED: Final[Mapping[str, Callable[[_Agent, Any], Any]]] = {
    "train_freq": _store_frequency,
    "target_entropy": _store_entropy,
    "target_update_interval": _store_interval,
    "n_top": _store_directions,
    "replay_buffer_class": _store_replay_buffer,
    "replay_buffer_kwargs": _store_replay_arguments,
    "rollout_buffer_class": _store_rollout_buffer,
    "policy_kwargs": _store_policy_arguments,
}
"""The value that a constructor stores where its argument has the default, by key of ``data``."""
_DERIVED: Final = frozenset({"target_update_interval"})
"""Keys whose default is an argument that no constructor stores as it is."""
_MAYBE_ADDED: Final = frozenset({"use_sde"})
"""Arguments of the policy that only some constructors add."""
