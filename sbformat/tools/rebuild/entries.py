"""The entries of the result: the order in which they are rebuilt, and a row of the report each (REBUILDING.md 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbformat.archive.edits import dump_data
from sbformat.constants import (
    DATA_ENTRY,
    ENTROPY_OPTIMIZER,
    POLICY_ENTRY,
    PTH_SUFFIX,
    PYTORCH_VARIABLES_ENTRY,
    SYSTEM_INFO_ENTRY,
    TENSORS_ENTRY,
    VERSION_ENTRY,
)
from sbformat.errors import MissingEntryError, SbformatError
from sbformat.formats.vecnormalize.entries import ENTRIES as STATISTICS_ENTRIES
from sbformat.formats.vecnormalize.entries import read_entries
from sbformat.known import changes
from sbformat.known.algorithms import OPTIMIZERS
from sbformat.pth import StateDict
from sbformat.tools.rebuild.check_weights import check_weights
from sbformat.tools.rebuild.data import rebuild_data
from sbformat.tools.rebuild.network import Tensor, rebuild_network
from sbformat.tools.rebuild.optimizers import Optimizer, make_entropy_state, make_policy_state, rebuild_optimizer
from sbformat.tools.rebuild.policy_kwargs import require_network_arguments, require_optimizer_class
from sbformat.tools.rebuild.tensors import CpuCopies
from sbformat.tools.rebuild.variables import rebuild_variables

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.nets.reading import NetworkMatch
    from sbformat.tools.rebuild.context import RebuildContext
    from sbformat.tools.rebuild.network import Network

_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)


def rebuild_entries(context: RebuildContext) -> Archive:
    """Return the new archive: the network first, whose layers require arguments, then ``data``, then the optimizers."""
    archive = context.archive
    policy = archive.parameters[_POLICY]
    network = rebuild_network(
        policy, context.family.kind, context.target, her=context.her_observation, has_sb3_policy=context.has_sb3_policy
    )
    require_network_arguments(context, network)
    _report_entry(context, POLICY_ENTRY, [*network.notes])
    copies = CpuCopies()
    optimizers = _read_optimizers(context, copies)
    data = rebuild_data(context)
    rate = data.get("learning_rate")
    context.new_learning_rate = rate if type(rate) in (int, float) else None
    match = check_weights(context, network, data)
    parameters = {_POLICY: policy.with_tree(copies.copy(network.tree))}
    parameters.update(_rebuild_optimizers(context, optimizers, network, match))
    variables = _rebuild_variables_entry(context, data)
    dropped = _report_other_entries(context, set(parameters))
    edited = archive.without(*dropped).with_entries({DATA_ENTRY: dump_data(data)})  # null: supplied when it is loaded
    return edited.replace(
        parameters=parameters,
        pytorch_variables=variables,
        stable_baselines3_version=context.target.version,
        system_info=... if context.options.keep_system_info else None,
    )


def _read_optimizers(context: RebuildContext, copies: CpuCopies) -> dict[str, Optimizer]:
    """Return the optimizer states of the archive; what they reveal of the policy's arguments is noted."""
    found = {}
    for name in OPTIMIZERS[context.algorithm]:
        if name not in context.archive.parameters:
            continue
        found[name] = optimizer = Optimizer(name, copies.copy(context.archive.parameters[name].tree))
        require_optimizer_class(context, optimizer.guess_class())
        if context.last_learning_rate is None:
            context.last_learning_rate = optimizer.learning_rate()
    if context.learns_entropy and ENTROPY_OPTIMIZER in context.archive.parameters:
        tree = copies.copy(context.archive.parameters[ENTROPY_OPTIMIZER].tree)
        found[ENTROPY_OPTIMIZER] = Optimizer(ENTROPY_OPTIMIZER, tree)
    return found


def _rebuild_optimizers(
    context: RebuildContext, optimizers: dict[str, Optimizer], network: Network, match: NetworkMatch | None
) -> dict[str, StateDict]:
    """Return the optimizer states for the target.

    :param match: the policy as SB3 makes it; None when it is not known
    """
    policy = context.archive.parameters[_POLICY].tree
    old = tuple(Tensor(name, name, info) for name, info in policy.items()) if isinstance(policy, dict) else ()
    made = {}
    for name, optimizer in optimizers.items():
        tree = rebuild_optimizer(context, optimizer, old, network, match)
        made[name] = context.archive.parameters[name].with_tree(tree)
        _report_entry(context, name + PTH_SUFFIX, optimizer.notes)
    needed = [*OPTIMIZERS[context.algorithm], *([ENTROPY_OPTIMIZER] if context.learns_entropy else [])]
    for name in needed:
        if name in made:
            continue
        is_policy = name != ENTROPY_OPTIMIZER
        new = make_policy_state(context, name, match) if is_policy else make_entropy_state(context)
        if new is None:
            raise MissingEntryError(name, present=context.archive.parameters, what="state dict")
        made[name] = StateDict.from_arrays({}).with_tree(new)
        message = "a fresh state: it was missing, and SB3's load needs it"
        context.report("translated", message, entry=name + PTH_SUFFIX)
    return made


def _rebuild_variables_entry(context: RebuildContext, data: dict[str, object]) -> StateDict:
    """Return ``pytorch_variables.pth``."""
    tensors = rebuild_variables(context, data)
    names = context.archive.entries
    old = next((name for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY) if name in names), None)
    if old is None:
        context.report("translated", "new: it was missing", entry=PYTORCH_VARIABLES_ENTRY)
    else:
        note = f"now {PYTORCH_VARIABLES_ENTRY}, its name since SB3 {changes.WRITES_VERSION}"
        _report_entry(context, old, [note] if old == TENSORS_ENTRY else [])
    template = context.archive.pytorch_variables or StateDict.from_arrays({})
    return template.with_tree(CpuCopies().copy(tensors))


def _report_entry(context: RebuildContext, entry: str, notes: list[str]) -> None:
    if bytes(context.archive.raw(entry)[:2]) != b"PK":
        notes = ["a torch zip instead of a legacy stream", *notes]
    context.report("translated" if notes else "kept", "; ".join(dict.fromkeys(notes)), entry=entry)


def _report_other_entries(context: RebuildContext, parameters: set[str]) -> list[str]:
    """Report all other entries, and return those that the result does not have."""
    dropped = []
    written = {f"{name}{PTH_SUFFIX}" for name in parameters} | {DATA_ENTRY, PYTORCH_VARIABLES_ENTRY}
    for name in context.archive.entries:
        if name == VERSION_ENTRY:
            context.report("translated", context.target.version, entry=name)
        elif name == TENSORS_ENTRY:
            dropped.append(name)
        elif name not in written:
            why = _find_reason_to_drop(context, name)
            context.report("dropped" if why else "kept", why, entry=name)
            if why:
                dropped.append(name)
    return dropped


def _find_reason_to_drop(context: RebuildContext, name: str) -> str:
    """Return why an entry is left out, or an empty text."""
    if name == SYSTEM_INFO_ENTRY:
        return "" if context.options.keep_system_info else "it describes the author's machine"
    if name.endswith(PTH_SUFFIX):
        return f"{context.algorithm} has no such part, and SB3 refuses to load an archive with it"
    if context.options.on_unknown == "keep" or (name in STATISTICS_ENTRIES and _are_statistics(context.archive)):
        return ""
    return "SB3 has no such entry"


def _are_statistics(archive: Archive) -> bool:
    """Return whether the statistics of a bundle (STATISTICS.md 17.5) are valid: they are plain data, and are kept."""
    try:
        read_entries(archive)
    except SbformatError:
        return False
    return True
