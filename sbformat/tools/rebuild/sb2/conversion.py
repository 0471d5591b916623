"""What the modules of this package exchange: an agent of SB2, its network for SB3, and its keys of ``data`` for SB3.

A converter of networks is a function ``(agent) -> ConvertedNetwork``, a converter of hyper-parameters a function
``(keys) -> None``, which calls the methods of :class:`Keys`. The table ``CONVERSIONS`` has both for each algorithm of
SB2. Either raises :class:`~sbformat.errors.UnsupportedError` for an agent that SB3 does not have, with a
reason in words; the caller adds what works for it (``load_policy`` and the exports).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.constants import DATA_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.operators import DTYPES
from sbformat.tools.rebuild.rebuild_report import Row, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.known.spaces import Space
    from sbformat.nets.sb2_agents import Agent
    from sbformat.tools.rebuild.rebuild_context import Advice


class Undecodable:
    """The value of a key of ``data`` that cannot be decoded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Sb2Agent(Record):
    """An agent of SB2."""

    model: Agent
    """Its algorithm, policy, spaces and parameters."""
    archive: Archive
    data: Mapping[str, Any]
    """Every key, decoded; :class:`Undecodable` for a value that cannot be decoded."""
    used: set[str]
    """The names of the parameters that a converter read, and of those that it reported."""

    @property
    def algorithm(self) -> str:
        """The algorithm of SB2 that wrote the file: ``PPO2``, ``HER``, ..."""
        return self.model.algorithm

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in the order of the file: ``model/pi_fc0/w:0``; a copy ends with ``#2``."""
        return tuple(self.model.tensors)

    def array(self, name: str, dtype: str = "float32") -> np.ndarray:
        """Return a parameter, shape as SB2 has it: (inputs, outputs) for the weights of a layer."""
        if name not in self.model.tensors:
            raise KeyError(name)
        found = self.model.tensors[name].dtype
        if found not in DTYPES:
            message = f"expected numbers as the parameter {name}, got {found}"
            raise UnsupportedError(message, entry=SB2_PARAMETERS_ENTRY)
        self.used.add(name)
        state_dict = self.archive.state_dict(SB2_PARAMETERS_ENTRY)
        return np.asarray(state_dict[name], dtype=dtype)

    def drop_parameters(self, scope: str, message: str, *, is_finding: bool = False) -> list[Row]:
        """Return a row about the parameters of a scope that the result does not have; none if the file has none."""
        names = [name for name in self.parameters if name.startswith(f"{scope}/") and name not in self.used]
        self.used.update(names)
        return [Row(SB2_PARAMETERS_ENTRY, scope, "dropped", message, None, None, is_finding)] if names else []


class ConvertedNetwork(Record):
    """A network for SB3."""

    algorithm: str
    """The name of the algorithm in SB3 or sb3-contrib, as in ``algorithms.ALGORITHMS``."""
    policy_class: str
    """SB3's short name: ``MlpPolicy``, ``CnnPolicy``, ``MlpLstmPolicy``, ..."""
    policy_kwargs: Mapping[str, object]
    """Arguments of the policy where they are not SB3's defaults: values as :func:`sbformat.values.decode` returns them,
    so a class is a ``Reference("torch.nn.modules.activation", "ReLU")``."""
    arrays: Sequence[np.ndarray]
    """``policy.pth``: every tensor of the policy, float32, in the order of SB3's state dict; one with several names is
    there once."""
    variables: Mapping[str, np.ndarray] = {}
    """``pytorch_variables.pth``: ``log_ent_coef``, float32, shape (1,)."""
    rows: tuple[Row, ...] = ()
    """What became of parameters and arguments that SB3 does not have: see
    :func:`parameter_row` and :meth:`Sb2Agent.drop_parameters`."""
    observation_space: Space | None = None
    """The space that SB3 saves, where it is not the file's: of images, channels first."""


def parameter_row(name: str, message: str) -> Row:
    """Return a row about a parameter, or a scope of them, that the result has in another form."""
    return Row(SB2_PARAMETERS_ENTRY, name, "translated", message)


class Setting(Record):
    """A key of ``data`` of the result."""

    key: str
    """SB3's name."""
    value: object
    """As :func:`sbformat.values.decode` returns it."""
    source: str | None
    """SB2's name; None for what SB2 does without a key for it."""
    note: str
    """How the value or its meaning follows from SB2's."""


_LARGEST: Final = 2**63
"""Of integers; no release counts as far."""


class Keys:
    """Collects the keys of ``data`` of the result, and the fate of each key of SB2.

    :param advice: for the function that the caller used
    """

    def __init__(self, agent: Sb2Agent, advice: Advice) -> None:
        self.agent = agent
        self.advice = advice
        self.settings: dict[str, Setting] = {}
        """By SB3's name."""
        self.policy_kwargs: dict[str, object] = {}
        """Arguments of the policy that follow from keys of ``data``: of its optimizer."""
        self.rows: list[Row] = []
        """Rows of the keys that are dropped, and of those that became arguments of the policy."""
        self.done: set[str] = set()
        """The keys of SB2 that have a setting or a row."""

    def __contains__(self, key: str) -> bool:
        """Return whether the file has a key."""
        return key in self.agent.data

    def get(self, key: str, default: Any = None) -> Any:
        """Return the decoded value of a key of SB2, or the default when it is missing or cannot be decoded."""
        value = self.agent.data.get(key, default)
        return default if isinstance(value, Undecodable) else value

    def number(self, key: str, default: Any = None) -> float | int | None:
        """Return a finite number of Python or numpy as one of Python; None for anything else."""
        value = self.get(key, default)
        if isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu":
            value = value.to_numpy().item()
        is_number = (type(value) is int and abs(value) < _LARGEST) or (type(value) is float and isfinite(value))
        return value if is_number else None

    def copy(self, *keys: str) -> None:
        """Set keys that SB3 has under the same names; those that the file does not have are left out."""
        for key in keys:
            self.rename(key, key)

    def rename(self, source: str, key: str, note: str = "") -> None:
        """Set a key of SB3 to the value of one of SB2; nothing when the file does not have it."""
        if source in self:
            self.set(key, self.agent.data[source], source, note)

    def set(self, key: str, value: object, source: str | None = None, note: str = "") -> None:
        """Set a key of SB3.

        :param source: the key of SB2 that it is from; None for what SB2 does without a key for it
        """
        self.settings[key] = Setting(key, value, source, note)
        if source is not None:
            self.done.add(source)

    def drop(self, source: str, message: str, instead: str | None = None, *, is_finding: bool = True) -> None:
        """Report that a key of SB2 is not in the result; nothing when the file does not have it.

        :param instead: what SB3 uses
        :param is_finding: whether the agent trains differently without it
        """
        if source in self:
            value = self.agent.data[source]
            self.rows.append(Row(DATA_ENTRY, source, "dropped", message, instead, _show(value), is_finding))
            self.done.add(source)

    def merge(self, source: str, place: str, message: str = "") -> None:
        """Report that the value of a key of SB2 is part of another key; nothing when the file does not have it.

        :param place: the key of SB3, or a path below one: ``policy_kwargs/optimizer_kwargs/eps``
        """
        if source in self:
            self.rows.append(Row(DATA_ENTRY, source, "translated", message or f"part of {place}", new_key=place))
            self.done.add(source)

    def report_algorithm(self, message: str, instead: str) -> None:
        """Report that SB3 does not have the algorithm.

        :param instead: the algorithm that trains the result
        """
        self.rows.append(Row(DATA_ENTRY, None, "dropped", message, instead, self.agent.algorithm, is_finding=True))


def _show(value: object) -> str:
    return escape(value.reason, 200) if isinstance(value, Undecodable) else show(value)


def decode_all(archive: Archive) -> dict[str, Any]:
    """Return every key of ``data``, decoded."""
    found: dict[str, Any] = {}
    for key in archive.data:
        try:
            found[key] = archive.decode(key)
        except SbformatError as error:
            found[key] = Undecodable(error.message)
    return found
