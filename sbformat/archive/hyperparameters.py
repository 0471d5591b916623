"""The meaning of ``data``: the values of its keys, and the algorithm that wrote it.

In: ``data`` as :func:`sbformat.data.loads` returns it. Out: JSON unchanged, blobs decoded without running them
(VALUES.md 13); and the algorithm, which no entry names (FORMAT.md 4.3). The keys of ``data`` are specific to the
algorithm except for three pairs; ``policy_class`` distinguishes PPO from its relatives. Source: the ``__init__`` of
each algorithm in SB3 and sb3-contrib.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from sbformat import pkl
from sbformat.data import LargeValue, Serialized
from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record, thaw
from sbformat.known import changes
from sbformat.known.algorithms import ACTOR_CRITIC, ALGORITHMS, SIGNATURES, list_relatives
from sbformat.known.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from sbformat.known.types import Reference
from sbformat.pkl.decode import COPIES
from sbformat.pkl.tree import Node
from sbformat.rendering import format_size
from sbformat.values import decode_blob
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.limits import Budget
    from sbformat.notebook import Markup


class Hyperparameter(Record):
    """A value of ``data``, and how it was decoded."""

    value: Any
    """A JSON value, a decoded one, or, if it could not be decoded, a node of :mod:`sbformat.pkl.tree`, or
    :class:`~sbformat.Serialized` if it is not a pickle."""
    how: Literal["json", "decoded", "opaque", "left out"]
    why: str | None
    """The reason if it is opaque, or left out because it is large."""

    def __repr__(self) -> str:
        """Return one line: with shared parts, the repr of a value can be as long as a file wants."""
        return f"<Hyperparameter {render_line(self.value)}, {self.how}{f': {escape(self.why)}' if self.why else ''}>"


class Hyperparameters(dict[str, Hyperparameter]):
    """The values of ``data`` by key, in its order; a notebook displays them as a table."""

    def _repr_html_(self) -> str:
        from sbformat.notebook import render_output

        return render_output("", [self.render()])

    def render(self) -> Markup:
        """Return the table: the keys with their values in one line."""
        from sbformat.notebook import MAX_ROWS, render_table

        rows = [(key, describe_hyperparameter(found, key)) for key, found in islice(self.items(), MAX_ROWS)]
        return render_table("", ("name", "value"), rows, count=len(self))


def describe_hyperparameter(found: Hyperparameter, key: str | None = None) -> str:
    """Return a value in one line, or why it is not decoded."""
    if isinstance(found.value, Serialized):
        return f"not decoded: {found.why}"
    return render_line(found.value, key)


def describe_undecoded(value: Serialized) -> str:
    """Return the type and the size of a value that is pickled, or left out, in a line."""
    how = "left out" if isinstance(value, LargeValue) else "pickled"
    return f"{value.type or 'JSON'}, {how}, {format_size(value.nbytes)}"


_CONSTANT: Final = frozenset({Reference, Box, Discrete, MultiDiscrete, MultiBinary})
"""Types of values that nothing can change: classes and spaces, which several readers of an archive ask for."""


class ValueDecoder:
    """Decodes the values of one archive's ``data``; those that nothing can change once.

    A value that is not decoded again is charged again, so that it does not matter who asked for it before.
    """

    def __init__(self) -> None:
        self._decoded: dict[str, tuple[Any, int]] = {}  # constant values and their cost

    def decode(self, key: str, value: object, budget: Budget) -> Any:
        """Decode a value."""
        if not isinstance(value, Serialized):
            return thaw(value)
        if key in self._decoded:
            made, cost = self._decoded[key]
            if budget.repeat(cost, meanwhile=COPIES * value.nbytes):
                return made
        worked = budget.worked
        made = decode_blob(value.pickle, budget)
        if type(made) in _CONSTANT:
            self._decoded[key] = made, budget.worked - worked
        return made

    def describe(self, key: str, value: object, budget: Budget) -> Hyperparameter:
        """Decode a value; if that fails, it is returned unchanged, with the reason."""
        if not isinstance(value, Serialized):
            return Hyperparameter(thaw(value), "json", None)
        if isinstance(value, LargeValue):
            return Hyperparameter(value, "left out", value.error.message)
        try:
            decoded = self.decode(key, value, budget)
        except SbformatError as error:
            return Hyperparameter(value, "opaque", f"{error.outcome}: {error.message}")
        if isinstance(decoded, Node):
            return Hyperparameter(decoded, "opaque", "its constructor is not known")
        return Hyperparameter(decoded, "decoded", None)


class Algorithm(Record):
    """The algorithm that wrote an archive.

    >>> archive.algorithm
    Algorithm(name='PPO', certain=True, evidence=('policy_class is ...', 'data has n_epochs'))
    """

    name: str | None
    """``PPO``, ``A2C``, ``DQN``, ``SAC``, ``TD3``, ``DDPG``, ``HER``, ``TQC``, ``QRDQN``, ``TRPO``,
    ``MaskablePPO``, ``RecurrentPPO``, ``ARS``, ``CrossQ``; None if unknown."""
    certain: bool
    """False if another algorithm writes the same."""
    evidence: tuple[str, ...]
    """Sentences that say what it was inferred from."""


_PACKAGES: Final = {
    package: row.name for row in reversed(ALGORITHMS.values()) for package in (row.classes.module, *row.older_packages)
}
"""The modules of the algorithms' own policy classes; a user's class is in another module."""

_REFERENCE_BYTES: Final = 4096  # longer blobs are not references to a class, and are not decoded


def class_of_blob(value: object) -> pkl.Global | None:
    """Return the class that a blob refers to; None if it is anything else."""
    if not isinstance(value, Serialized) or value.nbytes > _REFERENCE_BYTES:
        return None
    try:
        tree = pkl.loads(value.pickle)
    except SbformatError:
        return None
    return tree if isinstance(tree, pkl.Global) else None


def class_reference(value: object) -> str | None:
    """Return the dotted name of the class that a blob refers to, to be displayed; None if it is anything else."""
    found = class_of_blob(value)
    return None if found is None else str(found)


_SBX_MODULE: Final = r"(?s:sbx\.([^.]+)(?:\..*)?)"
_SBX_TYPE: Final = r"(?s:<class 'sbx\.([^.]+)\..+'>)"
_SBX_NAMES: Final = {name.lower(): name for name in ALGORITHMS}


def sbx_algorithm(data: Mapping[str, Any]) -> str | None:
    """Return the algorithm of SBX (Stable Baselines Jax) that wrote ``data``; None if another library wrote it.

    SBX saves like SB3, except that the weights are a part of the pickled policy: there is no ``policy.pth``
    (SBX.md 22).
    Source: sbx ``common/off_policy_algorithm.py`` and ``common/on_policy_algorithm.py``, ``_excluded_save_params``.
    """
    cls, policy = class_of_blob(data.get("policy_class")), data.get("policy")
    found = re.fullmatch(_SBX_MODULE, cls.module) if cls is not None else None
    if found is None and isinstance(policy, Serialized):
        found = re.fullmatch(_SBX_TYPE, policy.type or "")
    return _SBX_NAMES.get(found[1], found[1].upper()) if found is not None else None


def infer(data: Mapping[str, Any], entries: tuple[str, ...] = ()) -> Algorithm:
    """Infer the algorithm from ``data`` and the names of the entries."""
    policy = class_of_blob(data.get("policy_class"))
    package = "" if policy is None else policy.module
    by_class = _PACKAGES.get(package)
    evidence = [] if policy is None else [f"policy_class is {policy}"]
    sbx = sbx_algorithm(data)
    if sbx is not None:
        return Algorithm(None, False, (*evidence, f"{sbx} of SBX (Stable Baselines Jax), which is not of SB3"))
    for name, keys in SIGNATURES:
        if all(key in data for key in keys):
            evidence.append(f"data has {', '.join(keys)}")
            return _refine(name, by_class, data, evidence)
    if by_class is not None:
        return Algorithm(by_class, package != ACTOR_CRITIC.module, tuple(evidence))
    if "ent_coef_optimizer.pth" in entries:
        others = " and ".join(list_relatives("SAC"))
        return Algorithm("SAC", False, (*evidence, f"there is ent_coef_optimizer.pth; {others} write it too"))
    if {"actor.optimizer.pth", "critic.optimizer.pth"} <= set(entries):
        evidence.append("an actor and a critic optimizer: off-policy actor-critic")
    return Algorithm(None, False, tuple(evidence))


DDPG_EVIDENCE: Final = "policy_delay is 1 and target_noise_clip is 0, as DDPG fixes them; TD3 allows them"


def is_ddpg(data: Mapping[str, Any]) -> bool:
    """Return whether the settings of a TD3 are those that DDPG fixes."""
    ddpg = ALGORITHMS["DDPG"]
    return all(_is_number(data.get(key), ddpg.defaults[key]) for key in ddpg.fixes)


def _is_number(value: object, number: object) -> bool:
    """Return whether a value is this number, as an integer or a float; a bool is none."""
    return value == number and type(value) is not bool


def _refine(name: str, by_class: str | None, data: Mapping[str, Any], evidence: list[str]) -> Algorithm:
    """Distinguish the algorithms that write the same keys."""
    without_keys = [relative for relative in list_relatives(name) if not ALGORITHMS[relative].keys]
    if by_class in without_keys:
        return Algorithm(by_class, True, tuple(evidence))
    certain = True
    if name == "PPO":
        certain = by_class == "PPO"
        if changes.MARK_OF_0_6 in data:
            certain = False
            name = "A2C" if _is_number(data.get("n_epochs"), 1) else "PPO"
            old = f"SB3 {changes.FIRST}, where A2C wrote PPO's keys"
            evidence.append(f"{old}: n_epochs is {data.get('n_epochs')}, 1 in A2C")
        elif not certain:
            evidence.append(f"a policy class of its own: {' and '.join(without_keys)} write the same keys")
    elif name == "TD3":
        certain = not is_ddpg(data)
        name = "TD3" if certain else "DDPG"
        evidence.append("policy_delay and target_noise_clip differ from what DDPG fixes" if certain else DDPG_EVIDENCE)
    replay = class_of_blob(data.get("replay_buffer_class"))
    if replay is not None and replay.name == "HerReplayBuffer":
        evidence.append("replay_buffer_class is HerReplayBuffer: hindsight experience replay")
    return Algorithm(name, certain, tuple(evidence))
