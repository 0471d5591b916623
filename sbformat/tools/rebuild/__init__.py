"""``rebuild``: an old or a stranger's archive as one that today's SB3 loads whole and that runs nothing (FORMAT.md 15).

Every blob is decoded to a value that is known, and written anew from that value; what is not known is dropped, and
said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.archive.archive import Archive
from sbformat.archive.kinds import STATISTICS
from sbformat.constants import (
    DATA_ENTRY,
    ENTROPY_LEARNERS,
    ENTROPY_OPTIMIZER,
    POLICY_ENTRY,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    SYSTEM_INFO_ENTRY,
    TENSORS_ENTRY,
    TORCH_VARIABLES,
    VERSION_ENTRY,
)
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, quote
from sbformat.formats.vecnormalize.entries import ENTRIES as STATISTICS_ENTRIES
from sbformat.formats.vecnormalize.entries import read_entries
from sbformat.globals.references import REFERENCES
from sbformat.globals.releases import NEWEST, Target, parse_target
from sbformat.globals.renamed import current_name
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.policies.entropy import FIXED, LEARNED
from sbformat.pth import StateDict
from sbformat.reader import read
from sbformat.schema import OPTIMIZERS, known_keys
from sbformat.tools.rebuild.check_weights import check_fit
from sbformat.tools.rebuild.context import Job, OnUnknown, Options
from sbformat.tools.rebuild.data import rebuilt_data
from sbformat.tools.rebuild.entropy import rebuilt_entropy
from sbformat.tools.rebuild.hindsight import Hindsight, hindsight_of, inner_algorithm
from sbformat.tools.rebuild.networks import Tensor, rebuilt_network
from sbformat.tools.rebuild.optimizers import Optimizer, fresh_entropy_state, rebuilt_optimizer
from sbformat.tools.rebuild.releases import ALGORITHMS
from sbformat.tools.rebuild.report import Action, RebuildReport, Required, Row
from sbformat.tools.rebuild.statistics import RebuiltStatistics, rebuild_vecnormalize
from sbformat.tools.rebuild.tensors import Moved
from sbformat.values.types import Reference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sbformat.io.source import SourceLike
    from sbformat.policies import NetworkMatch
    from sbformat.pth.values import TensorInfo
    from sbformat.tools.rebuild.networks import Network

__all__ = [
    "Action",
    "OnUnknown",
    "RebuildReport",
    "Rebuilt",
    "RebuiltStatistics",
    "Required",
    "Row",
    "rebuild",
    "rebuild_vecnormalize",
]

_ARCHIVES: Final = ("sb3", "folder")
_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)
_SINCE: Final = {"CrossQ": Target(2, 4)}
_ALTERNATIVES: Final = {
    "TD3": ("DDPG",),
    "DDPG": ("TD3",),
    "PPO": ("A2C", "TRPO", "MaskablePPO", "RecurrentPPO"),
    "A2C": ("PPO",),
    "SAC": ("TQC", "CrossQ"),
}
"""Where the algorithm is not certain: the others that may have written the same."""


class Rebuilt(NamedTuple):
    """What :func:`rebuild` returns."""

    archive: Archive
    report: RebuildReport


def rebuild(
    source: Archive | SourceLike,
    *,
    target: str = str(NEWEST),
    algorithm: str | None = None,
    on_unknown: OnUnknown = "drop",
    policy_class: str | type | None = None,
    allow: Collection[str] = (),
    assign: Mapping[str, Any] | None = None,
    keep_system_info: bool = False,
    given: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Rebuilt:
    """Return an archive that the target's SB3 loads, and an account of every key and entry.

    No pickle of the original is in it, unless ``on_unknown`` asks for that: each was decoded without running it, and
    what it meant is written anew. Paths, logs and the description of the author's machine stay behind.

    :param source: an archive, or what :func:`sbformat.read` takes
    :param target: a release of SB3, ``2.0`` to ``2.9``
    :param algorithm: which one it is of, where the archive does not tell (:attr:`Archive.algorithm` is not certain)
    :param on_unknown: what becomes of a blob that is not known or carries code: ``drop`` leaves it out, and the account
        says what SB3 uses instead; ``keep`` copies it, and the result is no longer clean; ``error`` raises
    :param policy_class: takes the place of the archive's: a class, its dotted name, or SB3's short one (``MlpPolicy``)
    :param allow: dotted names, exact, of classes and functions that are not known and that may be kept, for SB3 to
        import and call; without, they are dropped, and a policy class that is not known is replaced by SB3's own for
        the algorithm and observations where all weights fit it
    :param assign: values by key of ``data`` in the place of the archive's, where a schedule of one's own is lost
    :param keep_system_info: keep ``system_info.txt`` and ``tensorboard_log``
    :param given: keys of ``data`` whose values the loader brings along (SB3's ``custom_objects``): null holds their
        place
    :param limits: as in :func:`sbformat.read`
    :return: the archive, and the report
    :raises UnsupportedError: when the target has no such network, when SB3 cannot load it without what is not known,
        for a name of ``allow`` that is known to be harmful, and for ``on_unknown="error"``
    :raises ValidationError: for a value of ``assign`` against the schema
    :raises TypeError: when ``allow`` is a str
    :raises MissingEntryError: for a key of ``assign`` that the algorithm does not have, and for an entry that it needs
    :raises SbformatError: when an entry cannot be decoded
    """
    if isinstance(allow, str):
        message = f"allow: expected a collection of dotted names, got the str {quote(allow)}; pass [{quote(allow)}]"
        raise TypeError(message)
    archive = source if isinstance(source, Archive) else read(source, limits=limits)
    if archive.format not in _ARCHIVES:
        hint = "; rebuild_vecnormalize rebuilds statistics" if archive.format in STATISTICS else ""
        message = f"a {archive.format} is no whole archive, and cannot be rebuilt as one{hint}"
        raise UnsupportedError(message)
    archive.require_torch()
    name, hindsight, lost = _algorithm(archive, algorithm)
    family = ALGORITHMS[name]
    release = parse_target(target)
    if release < _SINCE.get(name, release):
        message = f"sb3-contrib {release} has no {name}"
        raise UnsupportedError(message)
    _check_keys(name, assign or {})
    chosen = None if policy_class is None else _named_class(policy_class, name)
    options = Options(release, on_unknown, chosen, keep_system_info, frozenset(given), frozenset(allow))
    job = Job(archive, name, family, options, dict(assign or {}))
    if hindsight is not None and not job.is_of_sb3:
        hindsight, lost = None, "its policy is a class of its author's"
    job.hindsight, job.lost = hindsight, lost
    made = _rebuilt(job)
    job.finish()
    requires = tuple(job.allowed.required)
    return Rebuilt(made, RebuildReport(name, _version(archive), release.version, tuple(job.rows), requires))


def _rebuilt(job: Job) -> Archive:
    """Return the archive: the network first, whose layers decide on arguments, then ``data``, then the optimizers."""
    archive = job.archive
    policy = archive.parameters[_POLICY]
    network = rebuilt_network(job)
    job.note_network(network)
    _tell(job, POLICY_ENTRY, [*network.notes])
    moved = Moved()
    optimizers = _optimizers(job, moved)
    data = rebuilt_data(job)
    known = check_fit(job, network, data)
    parameters = {_POLICY: policy.with_tree(moved.value(network.tree))}
    parameters.update(_optimizer_states(job, optimizers, network, known))
    variables = _variables(job, data)
    dropped = _others(job, set(parameters))
    return archive.without(*dropped).replace(
        data=data,
        parameters=parameters,
        pytorch_variables=variables,
        stable_baselines3_version=job.target.version,
        system_info=... if job.options.keep_system_info else None,
    )


def _algorithm(archive: Archive, asked: str | None) -> tuple[str, Hindsight | None, str]:
    """Return the algorithm that loads the result; of HER before SB3 1.1, what the observation was made of."""
    name, certain, _ = archive.algorithm
    hindsight, lost = None, ""
    if name == "HER":
        name = inner_algorithm(archive)
        hindsight, lost = hindsight_of(archive)
    if asked is not None and asked != name:
        if name is not None and (certain or asked not in _ALTERNATIVES.get(name, ())):
            message = f"an agent of {name}, not of {asked if asked in ALGORITHMS else quote(asked)}"
            raise UnsupportedError(message)
        name = asked
    if name not in ALGORITHMS:
        message = f"{quote(name) if name else 'the algorithm'} is none of SB3's that are known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    return name, hindsight, lost


def _named_class(given: str | type, algorithm: str) -> Reference:
    """Return the policy that the caller names: one of the algorithm's, or one that is not known."""
    aliases = ALGORITHMS[algorithm].policies
    if isinstance(given, type):
        pair = given.__module__, given.__qualname__
    elif given in aliases:
        pair = aliases[given]
    else:
        module, _, name = given.rpartition(".")
        pair = current_name((module, name))
    if not pair[0] or (pair in REFERENCES and pair not in aliases.values()):
        shown = quote(".".join(pair).lstrip("."))
        message = f"{shown} is not a policy of {algorithm}: give {', '.join(aliases)} or a dotted name"
        raise UnsupportedError(message)
    return Reference(*pair)


def _check_keys(algorithm: str, assigned: Mapping[str, Any]) -> None:
    known = known_keys(algorithm)
    for key in assigned:
        if key not in known:
            raise MissingEntryError(key, present=sorted(known), what="key of SB3")


def _version(archive: Archive) -> str | None:
    try:
        return archive.stable_baselines3_version
    except SbformatError:
        return None


# -- entries ------------------------------------------------------------------------------------------


def _optimizers(job: Job, moved: Moved) -> dict[str, Optimizer]:
    """Return the states of the optimizers as they were; what they say of the policy's arguments is noted."""
    found = {}
    for name in OPTIMIZERS[job.algorithm]:
        found[name] = optimizer = Optimizer(name, moved.value(job.archive.parameters[name].tree))
        job.note_optimizer(optimizer.kind())
        job.last_rate = job.last_rate if job.last_rate is not None else optimizer.rate()
    if job.learns_entropy and ENTROPY_OPTIMIZER in job.archive.parameters:
        found[ENTROPY_OPTIMIZER] = Optimizer(
            ENTROPY_OPTIMIZER, moved.value(job.archive.parameters[ENTROPY_OPTIMIZER].tree)
        )
    return found


def _optimizer_states(
    job: Job, optimizers: dict[str, Optimizer], network: Network, known: NetworkMatch | None
) -> dict[str, StateDict]:
    """Return the states of the optimizers for the target.

    :param known: the policy as SB3 makes it; None when it is not known
    """
    policy = job.archive.parameters[_POLICY].tree
    old = tuple(Tensor(name, name, info) for name, info in policy.items()) if isinstance(policy, dict) else ()
    made = {}
    for name, optimizer in optimizers.items():
        made[name] = job.archive.parameters[name].with_tree(rebuilt_optimizer(job, optimizer, old, network, known))
        _tell(job, name + PTH_SUFFIX, optimizer.notes)
    if job.learns_entropy and ENTROPY_OPTIMIZER not in made:
        made[ENTROPY_OPTIMIZER] = StateDict.from_arrays({}).with_tree(fresh_entropy_state(job))
        message = "fresh: there was none, and SB3 loads nothing without it"
        job.told("translated", message, entry=ENTROPY_OPTIMIZER + PTH_SUFFIX)
    return made


def _tell(job: Job, entry: str, notes: list[str]) -> None:
    if bytes(job.archive.raw(entry)[:2]) != b"PK":
        notes = ["a torch zip, where it was a legacy stream", *notes]
    job.told("translated" if notes else "kept", "; ".join(dict.fromkeys(notes)), entry=entry)


def _variables(job: Job, data: dict[str, Any]) -> StateDict:
    """Return ``pytorch_variables.pth``: what SB3 has of it, and nothing else that it would look up on the agent."""
    found = job.archive.pytorch_variables
    tree: Any = found.tree if found is not None and isinstance(found.tree, dict) else {}
    wanted = "" if job.algorithm not in ENTROPY_LEARNERS else LEARNED if job.learns_entropy else FIXED
    for name, value in tree.items():
        if name != wanted and not (name in TORCH_VARIABLES and value is None):
            message = f"not a variable of {job.algorithm}{wanted and ', which has only ' + wanted}"
            job.told("dropped", message, key=str(name), entry=PYTORCH_VARIABLES_ENTRY)
    kept: dict[str, TensorInfo] = {}
    if wanted:
        kept[wanted] = _entropy(job, wanted, tree.get(wanted), data)
    old = next((name for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY) if name in job.archive.entries), None)
    if old is None:
        job.told("translated", "new: there was none", entry=PYTORCH_VARIABLES_ENTRY)
    else:
        _tell(job, old, [f"is {PYTORCH_VARIABLES_ENTRY} since SB3 0.9"] if old == TENSORS_ENTRY else [])
    return (found or StateDict.from_arrays({})).with_tree(Moved().value(kept))


def _entropy(job: Job, name: str, found: object, data: dict[str, Any]) -> TensorInfo:
    """Return the entropy coefficient's tensor, with a row where it is another than the archive's."""
    tensor, why, is_finding = rebuilt_entropy(job, found, data)
    if why:
        action: Action = "dropped" if is_finding else "translated"
        instead = why.partition(": ")[0] if is_finding else None
        message = why.partition(": ")[2] if is_finding else why
        job.rows.append(Row(PYTORCH_VARIABLES_ENTRY, name, action, message, instead, None, is_finding))
    return tensor


def _others(job: Job, parameters: set[str]) -> list[str]:
    """Tell of all other entries, and return those that the result does not have."""
    dropped = []
    written = {f"{name}{PTH_SUFFIX}" for name in parameters} | {DATA_ENTRY, PYTORCH_VARIABLES_ENTRY}
    for name in job.archive.entries:
        if name == VERSION_ENTRY:
            job.told("translated", job.target.version, entry=name)
        elif name == TENSORS_ENTRY:
            dropped.append(name)
        elif name not in written:
            why = _why_not(job, name)
            job.told("dropped" if why else "kept", why, entry=name)
            if why:
                dropped.append(name)
    return dropped


def _why_not(job: Job, name: str) -> str:
    """Say why an entry is left out, or nothing."""
    if name == SYSTEM_INFO_ENTRY:
        return "" if job.options.keep_system_info else "it describes the machine of whoever trained it"
    if name.endswith(PTH_SUFFIX):
        return f"{job.algorithm} has no such part, and SB3 refuses to load one with it"
    if job.options.on_unknown == "keep" or (name in STATISTICS_ENTRIES and _are_statistics(job.archive)):
        return ""
    return "SB3 has no such entry"


def _are_statistics(archive: Archive) -> bool:
    """Whether the entries of a bundle (17.5) are what they should be: plain data, which stays."""
    try:
        read_entries(archive)
    except SbformatError:
        return False
    return True
