"""From an agent of Stable Baselines 2 to an archive of SB3 (REBUILDING.md 15.7).

Theory of operation
-------------------
In: a zip or pickle of SB2. Out: an archive in the form that SB3 writes, whose values of ``data`` are still those of the
file, under SB3's names; the rebuild of SB3's archives then encodes every value for the target, checks the keys and the
weights against the network that SB3 makes, and starts the optimizers. So everything that holds for archives of SB3
(schedules, spaces, ``--set``) holds for those of SB2.

1. :mod:`sbformat.nets.sb2_agents` reads the agent: its algorithm, policy, spaces, and its parameters by name.
2. ``CONVERSIONS`` has, for each algorithm of SB2, the functions that convert its network (:mod:`.networks`) and its
   hyper-parameters (:mod:`.hyperparameters`). ``convert_agent`` calls them and assembles the archive.
3. ``merge_reports`` makes one report of the conversion and of the rebuild, with SB2's names of the keys.

Invariants: a network is converted exactly or refused: the same outputs for the same observations, up to the rounding
of float32; every key and every parameter of SB2 that is not in the result has a row.

Worked example, PPO2 with two shared layers::

    data/cliprange            clip_range, the same number
    data/nminibatches         batch_size = n_steps * n_envs / nminibatches
    model/shared_fc0/w:0      mlp_extractor.policy_net.0.weight and mlp_extractor.value_net.0.weight, transposed
    model/pi/w:0              action_net.weight, transposed
    model/q/w:0               dropped: PPO does not use it
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.archive.archive import Archive
from sbformat.archive.edits import dump_data
from sbformat.archive.entries import FileEntries
from sbformat.constants import (
    DATA_ENTRY,
    OPTIMIZER_WORD,
    POLICY_ENTRY,
    PTH_SUFFIX,
    SB2_PARAMETER_LIST_ENTRY,
    SB2_PARAMETERS_ENTRY,
)
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS, ENTROPY_LEARNERS, OPTIMIZERS
from sbformat.known.changes import A2C_OF_0_6, NEWEST
from sbformat.limits import Budget
from sbformat.nets.arguments import Agent
from sbformat.nets.entropy import FIXED, fixed_coefficient
from sbformat.nets.entropy import KEY as ENTROPY_KEY
from sbformat.nets.sb2_agents import read_agent
from sbformat.nets.sb3 import make_policy
from sbformat.policies.builder import Given
from sbformat.pth import StateDict
from sbformat.schema import known_keys
from sbformat.tools.rebuild.rebuild_context import FOR_REBUILD, Advice
from sbformat.tools.rebuild.rebuild_report import DEFAULT_NOTE, Row, is_hyperparameter, refuse
from sbformat.tools.rebuild.sb2 import hyperparameters, networks
from sbformat.tools.rebuild.sb2.hyperparameters import Keys, Undecodable, decode_all
from sbformat.tools.rebuild.sb2.networks import Sb2Agent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sbformat.tools.rebuild.rebuild_report import Action
    from sbformat.tools.rebuild.sb2.hyperparameters import Setting
    from sbformat.tools.rebuild.sb2.networks import ConvertedNetwork


CONVERSIONS: Final = {
    "A2C": (networks.convert_actor_critic, hyperparameters.convert_a2c_keys),
    "ACKTR": (networks.convert_actor_critic, hyperparameters.convert_acktr_keys),
    "DDPG": (networks.convert_ddpg, hyperparameters.convert_ddpg_keys),
    "DQN": (networks.convert_q_network, hyperparameters.convert_dqn_keys),
    "GAIL": (networks.convert_actor_critic, hyperparameters.convert_trpo_keys),
    "PPO1": (networks.convert_actor_critic, hyperparameters.convert_ppo1_keys),
    "PPO2": (networks.convert_actor_critic, hyperparameters.convert_ppo2_keys),
    "SAC": (networks.convert_sac, hyperparameters.convert_sac_keys),
    "TD3": (networks.convert_td3, hyperparameters.convert_td3_keys),
    "TRPO": (networks.convert_actor_critic, hyperparameters.convert_trpo_keys),
}
"""By the name of the algorithm; HER is converted as the algorithm that it wraps."""

REFUSED: Final = {
    "ACER": "SB3 has no ACER, nor another algorithm that learns a value of each action from a replay of trajectories"
}
"""Why the agents of an algorithm are not converted."""

_WORKS: Final = (
    "sbformat.load_policy runs its policy, sbformat export writes it as ONNX or C, read_parameters reads its weights"
)
_PLACEHOLDER: Final = Serialized(None, b"")
"""In place of a value that JSON does not have: its meaning is in ``Conversion.decoded``."""


class Conversion(Record):
    """An agent of SB2 in the form of SB3."""

    algorithm: str
    """Its name in SB3 or sb3-contrib."""
    original: str
    """The algorithm of SB2."""
    archive: Archive
    """With SB3's entries; values of ``data`` that JSON does not have are in ``settings`` alone."""
    settings: Mapping[str, Setting]
    rows: tuple[Row, ...]
    """What is dropped: keys and parameters."""

    @property
    def decoded(self) -> dict[str, object]:
        """The meanings of the values of ``data``."""
        return {key: setting.value for key, setting in self.settings.items()}

    @property
    def undecodable(self) -> list[str]:
        """Keys whose values cannot be decoded, each with the reason."""
        found = [(setting.source, setting.value) for setting in self.settings.values()]
        return [f"{source}: {value.reason}" for source, value in found if isinstance(value, Undecodable)]


def convert_agent(archive: Archive, *, policy_class: str | None = None, advice: Advice = FOR_REBUILD) -> Conversion:
    """Return an agent of SB2 as an archive in SB3's form.

    :param archive: a zip or pickle of SB2
    :param policy_class: the class of SB2 to treat a user's class as: ``MlpPolicy``
    :param advice: for the function that the caller used
    """
    agent = Sb2Agent(read_agent(archive, Given(policy_class=policy_class)), archive, decode_all(archive), set())
    try:
        if agent.model.learner not in CONVERSIONS:
            refuse(REFUSED.get(agent.algorithm, f"{quote(agent.algorithm)} of SB2 is not converted"), DATA_ENTRY)
        convert_network, convert_keys = CONVERSIONS[agent.model.learner]
        network = convert_network(agent)
        keys = Keys(agent, advice)
        convert_keys(keys)
        if network.algorithm == "RecurrentPPO":
            hyperparameters.convert_recurrent_keys(keys)
    except UnsupportedError as error:
        message = f"an agent of {agent.algorithm} of Stable Baselines 2: {error.message}"
        raise UnsupportedError(message, entry=error.entry, hint=_WORKS) from None
    hyperparameters.convert_common_keys(network, keys)
    for key, value in ALGORITHMS[network.algorithm].defaults.items():  # so that no value depends on the release
        is_old = network.algorithm == "A2C" and key in A2C_OF_0_6
        if key not in keys.settings and key in known_keys(network.algorithm) and not is_old:
            is_reported = is_hyperparameter(key, network.algorithm) and key not in keys.done
            keys.set(key, value, None, DEFAULT_NOTE.format(network.algorithm) if is_reported else "")
    return _assemble(agent, network, keys)


def _assemble(agent: Sb2Agent, network: ConvertedNetwork, keys: Keys) -> Conversion:
    def is_plain(value: Any) -> bool:
        return value is None or type(value) in (bool, int, float, str) or value == {}

    values = {key: setting.value for key, setting in keys.settings.items()}
    data = {key: value if is_plain(value) else _PLACEHOLDER for key, value in values.items()}
    budget = Budget(agent.archive.limits)
    variables = dict(network.variables)
    fixed = fixed_coefficient(values.get(ENTROPY_KEY))
    if network.algorithm in ENTROPY_LEARNERS and fixed is not None:  # SB3 also saves a coefficient that is fixed
        variables = {FIXED: np.asarray(fixed, dtype=np.float32)}
    parameters: dict[str, Any] = {POLICY_ENTRY.removesuffix(PTH_SUFFIX): _name_arrays(network, keys)}
    parameters |= {name: {"state": {}, "param_groups": []} for name in OPTIMIZERS[network.algorithm]}
    made = Archive(FileEntries({}, budget), "sb3", budget).with_entries({DATA_ENTRY: dump_data(data)})
    made = made.replace(
        parameters={name: StateDict.from_arrays(tree) for name, tree in parameters.items()},
        pytorch_variables=StateDict.from_arrays(variables),
    )
    rows = (*keys.rows, *network.rows, *_report_rest(agent))
    return Conversion(network.algorithm, agent.algorithm, made, keys.settings, rows)


def _name_arrays(network: ConvertedNetwork, keys: Keys) -> OrderedDict[str, np.ndarray]:
    """Return the arrays by the names of the tree of modules that SB3 makes, which has them in the same order."""
    names = ("policy_class", "observation_space", "action_space", "policy_kwargs")
    values: dict[str, Any] = {name: keys.settings[name].value for name in names}
    values["policy_class"] = values["policy_class"].pair
    agent = Agent(**values, use_sde=False, release=NEWEST)
    try:
        found = [made.name for made in make_policy(agent).parameters() if not made.same_as]
    except SbformatError:  # the rebuild refuses it, with the reason
        found = []
    return OrderedDict(zip(chain(found, map(str, count())), network.arrays))


def _report_rest(agent: Sb2Agent) -> Iterator[Row]:
    """Yield a row for each scope with parameters that no converter read or reported, and for the entries of a zip."""
    scopes: dict[str, list[str]] = {}
    for name in agent.parameters:
        if name not in agent.used:
            scopes.setdefault(name.rpartition("/")[0] or name, []).append(name)
    for scope, names in scopes.items():
        is_copy = all("#" in name for name in names)
        message = "a copy of the parameters without #" if is_copy else "SB3 has nothing like it"
        is_finding = not is_copy and scope not in names
        yield Row(SB2_PARAMETERS_ENTRY, scope, "dropped", message, None, None, is_finding)
    for name in agent.archive.entries if agent.archive.format == "sb2-zip" else ():
        if name == SB2_PARAMETER_LIST_ENTRY:
            yield Row(name, None, "translated", f"the names are those of the tensors of {POLICY_ENTRY}")
        elif name not in (DATA_ENTRY, SB2_PARAMETERS_ENTRY):
            yield Row(name, None, "dropped", "SB3 has no such entry")


# -- the report ---------------------------------------------------------------------------------------


def merge_reports(conversion: Conversion, rows: Sequence[Row], assigned: Collection[str]) -> tuple[Row, ...]:
    """Return the rows of the report: of the rebuild of the converted archive, and of the conversion."""
    made: dict[tuple[str, str | None], Row] = {}
    for row in (_merge_row(conversion, row) for row in rows if row.entry == DATA_ENTRY):
        _add_row(made, row)
    for row in conversion.rows:  # a key of SB2 that was part of a key for which the caller assigned a value
        is_assigned = row.new_key is not None and row.new_key.partition("/")[0] in assigned
        _add_row(made, row._replace(message="another value was assigned") if is_assigned else row)
    silent = {  # what SB3 would set by itself, and does not train with
        (DATA_ENTRY, key)
        for key, setting in conversion.settings.items()
        if setting.source is None and not setting.note and key != "policy_kwargs"
    }
    kept = [row for place, row in made.items() if place not in silent or row.action == "dropped"]
    form = f"{POLICY_ENTRY}, under the names and in the form of torch"
    of_entries = [Row(SB2_PARAMETERS_ENTRY, None, "translated", form)]
    seen = {DATA_ENTRY, POLICY_ENTRY}
    for row in rows:
        if row.entry not in seen:
            seen.add(row.entry)
            fresh = Row(row.entry, None, "translated", "a fresh state: SB2 does not save that of its optimizers")
            of_entries.append(fresh if OPTIMIZER_WORD in row.entry else row)
    return (*kept, *of_entries)


def _add_row(made: dict[tuple[str, str | None], Row], row: Row) -> None:
    """Add a row, or make one of two about a key: of the value in the result, and of what does not become of it."""
    earlier = made.get((row.entry, row.key))
    if earlier is not None:
        message = "; ".join(filter(None, (row.message, earlier.message)))
        action: Action = "dropped" if "dropped" in (earlier.action, row.action) else "translated"
        row = row._replace(action=action, message=message, is_finding=earlier.is_finding or row.is_finding)
    made[row.entry, row.key] = row


def _merge_row(conversion: Conversion, row: Row) -> Row:
    """Return the row of a key with SB2's name for it, and how the value follows from SB2's."""
    key, _, rest = (row.key or "").partition("/")
    setting = conversion.settings.get(key)
    if setting is None:
        return row
    renamed = f"{key} in SB3" if setting.source not in (None, key) else ""
    origin = ": ".join(filter(None, (renamed, setting.note)))
    message = "; ".join(filter(None, (origin, row.message)))
    below = f"/{rest}" if rest else ""
    name, place = (setting.source or key) + below, key + below
    action = "translated" if row.action == "kept" and message else row.action
    return row._replace(key=name, action=action, message=message, new_key=place if place != name else None)
