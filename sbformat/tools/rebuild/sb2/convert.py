"""``convert_agent``: the archive in SB3's form that the rebuild of SB3's archives continues with."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.archive import Archive
from sbformat.archive.edits import dump_data
from sbformat.archive.entries import FileEntries
from sbformat.constants import (
    DATA_ENTRY,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
)
from sbformat.data import Serialized
from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS, ENTROPY_LEARNERS, OPTIMIZERS
from sbformat.known.changes import A2C_OF_0_6
from sbformat.limits import Budget
from sbformat.nets.entropy import FIXED, fixed_coefficient
from sbformat.nets.entropy import KEY as ENTROPY_KEY
from sbformat.nets.sb2_agents import read_agent
from sbformat.policies.builder import Given
from sbformat.pth import StateDict
from sbformat.schema import known_keys
from sbformat.tools.rebuild.advice import FOR_REBUILD, Advice
from sbformat.tools.rebuild.algorithms import is_hyperparameter
from sbformat.tools.rebuild.report import DEFAULT_NOTE, Row
from sbformat.tools.rebuild.sb2.algorithms import CONVERSIONS, REFUSED
from sbformat.tools.rebuild.sb2.common_keys import convert_common_keys
from sbformat.tools.rebuild.sb2.interface import Keys, Sb2Agent, Undecodable, decode_all
from sbformat.tools.rebuild.sb2.recurrent import convert_recurrent_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.tools.rebuild.sb2.interface import ConvertedNetwork, Setting

_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)
_WORKS: Final = (
    "sbformat.load_policy runs its policy, sbformat export writes it as ONNX or C, read_parameters reads its weights"
)
_PLACEHOLDER: Final = Serialized(None, b"")
"""In place of a value that JSON does not have: its meaning is in ``Conversion.decoded``."""


class Conversion(Record):
    """An agent of SB2 in the form of SB3."""

    algorithm: str
    """Of SB3 or sb3-contrib."""
    original: str
    """The algorithm of SB2."""
    archive: Archive
    """With SB3's entries; values of ``data`` that JSON does not have are in ``decoded`` alone."""
    decoded: Mapping[str, object]
    """The meanings of the values of ``data``."""
    settings: Mapping[str, Setting]
    """Where each key of ``data`` comes from."""
    rows: tuple[Row, ...]
    """What is dropped: keys and parameters."""
    undecodable: tuple[str, ...]
    """Keys whose values cannot be decoded, each with the reason."""


def convert_agent(archive: Archive, *, policy_class: str | None = None, advice: Advice = FOR_REBUILD) -> Conversion:
    """Return an agent of SB2 as an archive in SB3's form.

    :param archive: a zip or pickle of SB2
    :param policy_class: the class of SB2 to treat a user's class as: ``MlpPolicy``
    :param advice: for the function that the caller used
    :raises UnsupportedError: when SB3 has no such agent; the message says why, and what works for it
    :raises SbformatError: when the file cannot be read, or contradicts itself
    """
    agent = Sb2Agent(read_agent(archive, Given(policy_class=policy_class)), archive, decode_all(archive), set())
    try:
        conversion = CONVERSIONS.get(agent.model.learner)
        if conversion is None:
            refused = REFUSED.get(agent.algorithm, f"{quote(agent.algorithm)} of SB2 is not converted")
            raise UnsupportedError(refused, entry=DATA_ENTRY)
        network = conversion.network(agent)
        keys = Keys(agent, advice)
        conversion.keys(agent, keys)
        if network.algorithm == "RecurrentPPO":
            convert_recurrent_keys(agent, keys)
    except UnsupportedError as error:
        message = f"an agent of {agent.algorithm} of Stable Baselines 2: {error.message}; {_WORKS}"
        raise UnsupportedError(message, entry=error.entry) from None
    convert_common_keys(agent, network, keys)
    _add_defaults(network, keys)
    return _assemble(agent, network, keys)


def _add_defaults(network: ConvertedNetwork, keys: Keys) -> None:
    """Set what SB3 would set in the constructor, so that no value depends on the release that loads the archive."""
    for key, value in ALGORITHMS[network.algorithm].defaults.items():
        is_old = network.algorithm == "A2C" and key in A2C_OF_0_6
        if key not in keys.settings and key in known_keys(network.algorithm) and not is_old:
            note = DEFAULT_NOTE.format(network.algorithm)
            is_reported = is_hyperparameter(key, network.algorithm) and key not in keys.done
            keys.set(key, value, None, note if is_reported else "")


def _assemble(agent: Sb2Agent, network: ConvertedNetwork, keys: Keys) -> Conversion:
    decoded = {key: setting.value for key, setting in keys.settings.items()}
    undecodable = [
        f"{setting.source}: {setting.value.reason}"
        for setting in keys.settings.values()
        if isinstance(setting.value, Undecodable)
    ]
    data = {key: value if _is_plain(value) else _PLACEHOLDER for key, value in decoded.items()}
    budget = Budget(agent.archive.limits)
    empty: dict[str, Any] = {"state": {}, "param_groups": []}
    made = Archive(FileEntries({}, budget), "sb3", budget).with_entries({DATA_ENTRY: dump_data(data)})
    made = made.replace(
        parameters={
            _POLICY: StateDict.from_arrays(OrderedDict(network.arrays)),
            **{name: StateDict.from_arrays(empty) for name in OPTIMIZERS[network.algorithm]},
        },
        pytorch_variables=StateDict.from_arrays(_make_variables(network, keys)),
    )
    rows = (*keys.rows, *network.rows, *_report_unused(agent), *_report_entries(agent.archive))
    return Conversion(network.algorithm, agent.algorithm, made, decoded, keys.settings, rows, tuple(undecodable))


def _make_variables(network: ConvertedNetwork, keys: Keys) -> dict[str, np.ndarray]:
    """Return the variables of the result: SB3 also saves an entropy coefficient that is fixed."""
    setting = keys.settings.get(ENTROPY_KEY)
    fixed = None if setting is None else fixed_coefficient(setting.value)
    if network.algorithm in ENTROPY_LEARNERS and fixed is not None:
        return {FIXED: np.asarray(fixed, dtype=np.float32)}
    return dict(network.variables)


def _report_unused(agent: Sb2Agent) -> list[Row]:
    """Return a row for each scope with parameters that no converter read or reported."""
    scopes: dict[str, list[str]] = {}
    for name in agent.parameters:
        if name not in agent.used:
            scopes.setdefault(name.rpartition("/")[0] or name, []).append(name)
    agent.used.update(name for names in scopes.values() for name in names)
    return [_report_scope(scope, names) for scope, names in scopes.items()]


def _report_scope(scope: str, names: list[str]) -> Row:
    is_copy = all("#" in name for name in names)
    message = "a copy of the parameters without #" if is_copy else "SB3 has nothing like it"
    is_finding = not is_copy and scope not in names
    return Row(SB2_PARAMETERS_ENTRY, scope, "dropped", message, None, None, is_finding)


def _report_entries(archive: Archive) -> list[Row]:
    """Return the rows of the entries of a zip other than ``data`` and ``parameters``."""
    if archive.format != "sb2-zip":
        return []
    names = [name for name in archive.entries if name not in (DATA_ENTRY, SB2_PARAMETERS_ENTRY)]
    return [
        Row(name, None, "translated", f"the names are those of the tensors of {POLICY_ENTRY}")
        if name == SB2_PARAMETER_LIST_ENTRY
        else Row(name, None, "dropped", "SB3 has no such entry")
        for name in names
    ]


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, str) or value == {}
