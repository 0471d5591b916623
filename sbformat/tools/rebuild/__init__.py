"""``rebuild``: an old or untrusted archive, as one that today's SB3 loads and that runs nothing (REBUILDING.md 15).

Theory of operation
-------------------
In: an archive of any release of SB3, and options. Out: an archive for the target release, and a report with a row for
each key of ``data`` and each entry: ``kept`` (equal), ``translated`` (the same meaning in another form) or ``dropped``
(left out; ``instead`` is what SB3 uses then). A row is a finding when the agent computes or trains differently.

1. The algorithm is identified. A ``RebuildContext`` holds what is rebuilt, for which release, and the report so far.
2. ``network`` renames and copies the tensors of ``policy.pth``. Its layers may require arguments of the policy that
   were defaults once; they are noted, as is the optimizer's class.
3. ``data_keys`` rebuilds each key with the handler for it. A value is decoded to what it means and encoded again; code,
   and names outside the tables of what SB3 may call in that place, are dropped unless the caller allows them by their
   exact name (``trusted``). Then what the JSON Schema refuses is dropped, and what is missing is supplied or refused.
4. ``network.check_weights`` compares the network that SB3 will make from the new ``data`` with the new tensors.
5. ``optimizers`` renumbers and reorders the optimizer states; a state that does not fit starts anew. The entropy
   coefficient is made to agree with ``ent_coef``.

Invariants: every key and entry has a row; no byte of an old pickle is copied unless ``on_unknown="keep"``; numbers are
never changed, only moved; what cannot be rebuilt so that SB3 loads it is an ``UnsupportedError``, not a broken archive.

Worked example: PPO of SB3 1.0, ``net_arch=[8]`` shared by both networks, for SB3 2.9::

    policy.pth          translated  shared_net.0.weight is now policy_net.0.weight and value_net.0.weight
    policy_class        translated  the reference to ActorCriticPolicy, encoded again
    policy_kwargs       translated  net_arch becomes {pi: [8], vf: [8]}, which the new layers require
    observation_space   translated  gym's Box becomes gymnasium's
    clip_range          translated  a closure of Python 3.7 that always returns 0.2 becomes the number 0.2
    lr_schedule         translated  left out: SB3 makes it from learning_rate
    n_steps             kept
    tensorboard_log     dropped     a path of the author's machine
    policy.optimizer    translated  Adam's averages of the shared layer are copied to both layers

Where to change it: a key that SB3 renames or removes is in ``known/changes``, an algorithm and its defaults in
``known/algorithms``, a class that SB3 may call in its row of ``known``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from sbformat.archive.edits import dump_data
from sbformat.archive.kinds import SB3_ARCHIVES
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
from sbformat.data import LargeValue, Serialized
from sbformat.errors import MissingEntryError, SbformatError, escape, quote, require_names, require_type
from sbformat.folders.agents import find_in_folder
from sbformat.formats.vecnormalize.bundled import ENTRIES as STATISTICS_ENTRIES
from sbformat.formats.vecnormalize.bundled import read_entries
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.known.algorithms import ALGORITHMS, OPTIMIZERS, list_relatives
from sbformat.known.changes import NEWEST, parse_target
from sbformat.known.spaces import Space
from sbformat.known.table import current_name, find
from sbformat.known.types import Reference
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.nets.wrappers import unwrap
from sbformat.pkl import Global, decode_pickle
from sbformat.pth import StateDict
from sbformat.reader import read
from sbformat.schema import known_keys
from sbformat.tools.rebuild.data_keys import (
    find_kept_modules,
    rebuild_data,
    require_network_arguments,
    require_optimizer_class,
)
from sbformat.tools.rebuild.network import Copies, check_weights, read_her, rebuild_network
from sbformat.tools.rebuild.optimizers import Optimizer, make_state, rebuild_optimizer, rebuild_variables
from sbformat.tools.rebuild.other_files import RebuiltPolicy, RebuiltStatistics, rebuild_policy, rebuild_vecnormalize
from sbformat.tools.rebuild.rebuild_context import OnUnknown, Options, RebuildContext
from sbformat.tools.rebuild.rebuild_report import (
    EXCLUDED,
    OTHER_WAYS,
    RECREATED,
    Action,
    RebuildReport,
    Required,
    Row,
    add_values,
    refuse,
)
from sbformat.tools.rebuild.trusted import map_classes, treat_names

if TYPE_CHECKING:
    from collections.abc import Collection

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.sb2 import Conversion


__all__ = [
    "Action",
    "OnUnknown",
    "RebuildReport",
    "Rebuilt",
    "RebuiltPolicy",
    "RebuiltStatistics",
    "Required",
    "Row",
    "rebuild",
    "rebuild_policy",
    "rebuild_vecnormalize",
]


class Rebuilt(Record):
    """The result of :func:`rebuild`: ``archive, report = sbformat.rebuild("agent-2020.zip")``."""

    archive: Archive
    """For :func:`sbformat.write`."""
    report: RebuildReport

    def _repr_html_(self) -> str:
        """Return the report and the archive for notebooks."""
        return self.report._repr_html_() + self.archive._repr_html_()


def rebuild(
    source: Archive | SourceLike,
    *,
    target: str = str(NEWEST),
    algorithm: str | None = None,
    on_unknown: OnUnknown = "drop",
    policy_class: str | type | None = None,
    allow: Collection[str] = (),
    treat_as: Mapping[str, str] | None = None,
    map_names: Mapping[str, str] | None = None,
    assign: Mapping[str, Any] | None = None,
    keep_system_info: bool = False,
    supplied_at_load: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Rebuilt:
    """Return an archive that the target's SB3 loads, and a report with a row for each key and entry (REBUILDING.md 15).

    Each pickle is decoded without running it, and its meaning is encoded again: no pickle of the original is in the
    result, unless ``on_unknown`` is ``keep``. Paths, logs and the description of the author's machine are left out::

        archive, report = sbformat.rebuild("agent-2020.zip")
        for row in report.findings:  # what the agent computes or trains with that is different now
            print(row.key, row.old, row.new, row.message)
        sbformat.write(archive, "agent-2026.zip")

    An agent of Stable Baselines 2 becomes one of SB3 with the same network (REBUILDING.md 15.7).

    :param source: an archive, or a path, URL, bytes or a binary file, as in :func:`sbformat.read`. Of the folder of a
        run, which may be a repository of the Hub, its agent is rebuilt (:func:`sbformat.find_agent`)
    :param target: the release of SB3 that will load the result, ``1.6`` to ``2.9``
    :param algorithm: the algorithm's name, for an archive that does not determine it (:attr:`Archive.algorithm` is not
        certain)
    :param on_unknown: for a blob that is not known or carries code: ``drop`` leaves it out, and the report contains
        what SB3 uses instead; ``keep`` copies it, and the result is no longer clean; ``error`` raises
    :param policy_class: a policy to use instead of the archive's: a class, its dotted name, or SB3's short name
        (``MlpPolicy``). For an agent of Stable Baselines 2: the class of SB2 to treat a user's class as
    :param allow: exact dotted names of unknown classes and functions to keep: SB3 imports and calls them. All others
        are dropped, and an unknown policy class is replaced by SB3's own for the algorithm and observations if all
        weights fit it. Of a class, also its objects are kept that consist of numbers, texts and arrays: a schedule,
        or a space with the attributes of a space of gymnasium
    :param treat_as: known names by unknown ones: ``{"my.spaces.MyBox": "gymnasium.spaces.Box"}`` reads an object of the
        first class as one of the second, which the result contains instead
    :param map_names: names of your own modules by classes that cloudpickle carried by value:
        ``{"__main__.MyExtractor": "mymodule.MyExtractor"}`` refers to the second, as if it were in ``allow``, instead
        of the code of the first; SB3 imports it
    :param assign: values by key of ``data`` to use instead of the archive's; a schedule is a
        :class:`~sbformat.LinearSchedule` or :class:`~sbformat.ConstantSchedule`, or the same as JSON:
        ``{"linear": [3e-4, 0]}``, ``{"constant": 3e-4}``
    :param keep_system_info: keep ``system_info.txt`` and ``tensorboard_log``
    :param supplied_at_load: keys of ``data`` whose values will be passed to SB3's ``load`` as ``custom_objects``: the
        result contains null for them
    :param limits: as in :func:`sbformat.read`
    :return: the pair ``(archive, report)``
    :raises UnsupportedError: when the target does not have such a network, when SB3 cannot load it without what is not
        known, for a name in ``allow`` that is known to be harmful, for names in ``treat_as`` and ``map_names`` that
        cannot replace each other, for one in ``map_names`` that is not carried by value, and for
        ``on_unknown="error"``
    :raises ValidationError: when the schema refuses a value of ``assign``
    :raises MissingEntryError: for a key of ``assign`` that the algorithm does not have, and for a missing entry
    :raises SbformatError: when an entry cannot be decoded
    :raises TypeError: when ``allow`` is a str
    """
    require_type(treat_as, (Mapping, type(None)), "treat_as to be known names by others")
    require_type(map_names, (Mapping, type(None)), "map_names to be names of modules by classes carried by value")
    treated, mapped = dict(treat_as or {}), dict(map_names or {})
    require_names([*treated, *treated.values()], "treat_as")
    require_names([*mapped, *mapped.values()], "map_names")
    options = Options(
        parse_target(target),
        on_unknown,
        keep_system_info,
        frozenset(require_names(supplied_at_load, "supplied_at_load")),
        frozenset((*require_names(allow, "allow"), *mapped.values())),
        algorithm,
        policy_class,
        assign or {},
    )
    require_type(algorithm, (str, type(None)), "the name of an algorithm")
    require_type(policy_class, (str, type, type(None)), "a policy class or its name")
    require_type(assign, (Mapping, type(None)), "assign to be values by key")
    if on_unknown not in get_args(OnUnknown):
        raise ValueError(f"expected on_unknown to be one of {', '.join(get_args(OnUnknown))}, got {on_unknown!r}")
    chosen = find_in_folder(source, limits)
    original = read(source if chosen is None else chosen.path, limits=limits)
    archive, carried = map_classes(treat_names(original, treated), mapped)
    made, report = rebuild_with(archive, options, original)
    return Rebuilt(made, _note_mapped(report, carried, mapped))


def _note_mapped(report: RebuildReport, carried: Mapping[str, list[str]], targets: Mapping[str, str]) -> RebuildReport:
    """Return a report with the classes that are references now in the rows of their keys.

    :param carried: the names of the classes by keys of ``data``
    """
    kept = {(required.key, required.name) for required in report.requires}

    def add(row: Row) -> Row:
        names = carried.get(row.key or "", []) if row.entry == DATA_ENTRY and row.action != "dropped" else []
        names = [name for name in names if (row.key, targets[name]) in kept]
        notes = [f"{escape(name, 200)}, carried by value, is {targets[name]} now" for name in names]
        return row._replace(action="translated", message="; ".join([row.message, *notes])) if notes else row

    return report._replace(rows=tuple(map(add, report.rows)))


def rebuild_with(archive: Archive, options: Options, original: Archive | None = None) -> Rebuilt:
    """Rebuild an archive as :func:`rebuild` does, with checked options.

    :param original: the archive whose values the report has, if names in it were replaced
    """
    converted = None
    if archive.format in ("sb2-zip", "sb2-pickle"):
        context, converted = _start_sb2(archive, options)
    else:
        context = _start(archive, options)
    made = _rebuild_entries(context)
    context.raise_refused()
    name, rows, version, sb2_algorithm = context.algorithm, tuple(context.rows), None, None
    if converted is not None:
        from sbformat.tools.rebuild.sb2 import merge_reports

        rows, sb2_algorithm = merge_reports(converted, rows, options.assign), converted.original
    else:
        with contextlib.suppress(SbformatError):
            version = archive.stable_baselines3_version
    rows = add_values(rows, original or archive, made, name)
    requires = _list_kept(made, context.allowed.required)
    return Rebuilt(made, RebuildReport(name, version, options.target.version, rows, requires, sb2_algorithm))


def _list_kept(made: Archive, required: list[Required]) -> tuple[Required, ...]:
    """Return those names that the result has: a value may have been dropped after its names were noted."""
    found: dict[str, set[Pair]] = {}
    for key in {row.key.partition("/")[0] for row in required}:
        value = made.data.get(key)
        log = decode_pickle(value.pickle, Budget(made.limits)).log if isinstance(value, Serialized) else []
        found[key] = {step.pair for step in log if isinstance(step, Global)}
    return tuple(row for row in required if row.pair in found[row.key.partition("/")[0]])


def _require_read(archive: Archive, algorithm: str | None, options: Options) -> None:
    """Refuse an archive whose algorithm has a key that was left out because it is large (FORMAT.md 3.4)."""
    needed = known_keys(algorithm) - RECREATED.keys() - EXCLUDED - options.assign.keys()
    for key, value in archive.data.items():
        if isinstance(value, LargeValue) and key in needed:
            raise value.error


def _start(archive: Archive, options: Options) -> RebuildContext:
    """Return the context for an archive of SB3, after checks of what the caller passes."""
    if archive.format not in SB3_ARCHIVES:
        more = " (Stable Baselines Jax), whose networks SB3 does not have" if archive.format == "sbx" else ""
        message = f"expected an archive of Stable-Baselines3, got the format {archive.format}{more}"
        refuse(message, hint=OTHER_WAYS.get(archive.format, ""))
    name, certain, _ = archive.algorithm
    _require_read(archive, name, options)
    her, why_no_her = None, ""
    if name == "HER":
        name, her, why_no_her = read_her(archive)
    algorithm = options.algorithm
    if algorithm is not None and algorithm != name:
        if name is not None and (certain or algorithm not in list_relatives(name)):
            refuse(f"an agent of {name}, not of {algorithm if algorithm in ALGORITHMS else quote(algorithm)}")
        name = algorithm
    if name not in ALGORITHMS:
        refuse(f"{quote(name) if name else 'the algorithm'} is not a known algorithm of SB3", DATA_ENTRY)
    since = find(next(iter(ALGORITHMS[name].policies.values()))).since
    if since is not None and options.target < since:
        refuse(f"sb3-contrib {options.target} has no {name}")
    _require_known_keys(name, options.assign)
    chosen = None if options.policy_class is None else _resolve_policy_class(options.policy_class, name)
    context = RebuildContext(archive, name, options, chosen)
    if why_no_her:
        _refuse_goals_in_allowed_space(context)
    if her is not None and not context.has_sb3_policy:
        her, why_no_her = None, "its policy class is a custom one"
    context.her_observation, context.why_no_her_observation = her, why_no_her
    return context


def _refuse_goals_in_allowed_space(context: RebuildContext) -> None:
    """Refuse a space of an allowed class from which HER's goals can be separated only as from one of gymnasium."""
    key = "observation_space"
    space = context.decode_or_none(key)
    name = context.allowed.find_space_class(space)
    if isinstance(space, Space) and name is not None and read_her(context.archive, space)[1] is not None:
        advice = context.options.advice.treat_space(name)
        refuse(f"{key}: HER's goals cannot be separated from the observation in a {quote(name)}: {advice}", DATA_ENTRY)


def _start_sb2(archive: Archive, options: Options) -> tuple[RebuildContext, Conversion]:
    """Convert an agent of SB2 to SB3's form, and return the context for that."""
    from sbformat.tools.rebuild.sb2 import convert_agent

    if options.on_unknown == "keep":
        refuse("values of Stable Baselines 2 cannot be kept as they are: expected on_unknown to be drop or error")
    given = options.policy_class
    policy_class = given.__qualname__ if isinstance(given, type) else given
    converted = convert_agent(archive, policy_class=policy_class, advice=options.advice)
    name = converted.algorithm
    if options.algorithm not in (None, name):
        refuse(f"an agent of {converted.original}, which becomes one of {name}, not of {quote(str(options.algorithm))}")
    _require_known_keys(name, options.assign)
    context = RebuildContext(converted.archive, name, options, decoded=converted.decoded)
    if options.on_unknown == "error":
        context.refused += converted.undecodable
    return context, converted


def _resolve_policy_class(given: str | type, algorithm: str) -> Reference:
    """Return the policy class that the caller names: one of the algorithm's, or a custom one."""
    aliases = ALGORITHMS[algorithm].policies
    if isinstance(given, type):
        pair = given.__module__, given.__qualname__
    elif given in aliases:
        pair = aliases[given]
    else:
        module, _, name = given.rpartition(".")
        pair = current_name((module, name))
    if not pair[0] or (find(pair).is_reference and pair not in aliases.values()):
        shown = quote(".".join(pair).lstrip("."))
        refuse(f"{shown} is not a policy of {algorithm}: expected {', '.join(aliases)} or a dotted name")
    return Reference(*pair)


def _require_known_keys(algorithm: str, assigned: Mapping[str, Any]) -> None:
    known = known_keys(algorithm)
    for key in assigned:
        if key not in known:
            raise MissingEntryError(key, present=sorted(known), what="key of SB3")


# -- entries ------------------------------------------------------------------------------------------

_POLICY: Final = POLICY_ENTRY.removesuffix(PTH_SUFFIX)


def _rebuild_entries(context: RebuildContext) -> Archive:
    """Return the new archive: the network first, whose layers require arguments, then ``data``, then the optimizers."""
    archive, copies = context.archive, Copies()
    policy = unwrap(archive.parameters[_POLICY], find_kept_modules(context))
    network = rebuild_network(
        policy.state_dict,
        context.family.kind,
        context.target,
        her=context.her_observation,
        has_sb3_policy=context.has_sb3_policy,
        is_single_layer=_has_single_layer(context),
    )
    require_network_arguments(context, network)
    _report_entry(context, POLICY_ENTRY, [*policy.notes, *network.notes])
    optimizers = _read_optimizers(context, copies)
    data = rebuild_data(context)
    rate = data.get("learning_rate")
    context.new_learning_rate = rate if type(rate) in (int, float) else None
    match = check_weights(context, network, data, policy.refused.values())
    parameters = {_POLICY: policy.state_dict.with_tree(copies.move(network.tree))}
    for name, optimizer in optimizers.items():
        tree = rebuild_optimizer(context, optimizer, policy, network, match)
        parameters[name] = archive.parameters[name].with_tree(tree)
        _report_entry(context, name + PTH_SUFFIX, optimizer.notes)
    for name in _list_optimizers(context):
        if name not in parameters:
            new = make_state(context, name, match)
            if new is None:
                raise MissingEntryError(name, present=archive.parameters, what="state dict")
            parameters[name] = StateDict.from_arrays({}).with_tree(new)
            message = "a fresh state: it was missing, and SB3's load needs it"
            context.report("translated", message, entry=name + PTH_SUFFIX)
    variables = _rebuild_variables_entry(context, data)
    dropped = _report_other_entries(context, {f"{name}{PTH_SUFFIX}" for name in parameters})
    edited = archive.without(*dropped).with_entries({DATA_ENTRY: dump_data(data)})  # null: supplied when it is loaded
    return edited.replace(
        parameters=parameters,
        pytorch_variables=variables,
        stable_baselines3_version=context.target.version,
        system_info=... if context.options.keep_system_info else None,
    )


def _has_single_layer(context: RebuildContext) -> bool:
    """Return whether the policy is one layer of ARS, and no tanh follows it."""
    if context.sb3_policy != Reference(*ALGORITHMS["ARS"].policies["LinearPolicy"]):
        return False
    is_box = getattr(context.decode("action_space"), "distribution", "") == "gaussian"
    return not (is_box and context.policy_argument("squash_output") is True)


def _list_optimizers(context: RebuildContext) -> list[str]:
    return [*OPTIMIZERS[context.algorithm], *([ENTROPY_OPTIMIZER] if context.learns_entropy else [])]


def _read_optimizers(context: RebuildContext, copies: Copies) -> dict[str, Optimizer]:
    """Return the optimizer states of the archive; what they reveal of the policy's arguments is noted."""
    found = {}
    for name in _list_optimizers(context):
        if name not in context.archive.parameters:
            continue
        found[name] = optimizer = Optimizer(name, copies.move(context.archive.parameters[name].tree))
        if name != ENTROPY_OPTIMIZER:
            require_optimizer_class(context, optimizer.guess_class())
            if context.last_learning_rate is None:
                context.last_learning_rate = optimizer.learning_rate()
    return found


def _rebuild_variables_entry(context: RebuildContext, data: dict[str, object]) -> StateDict:
    """Return ``pytorch_variables.pth``."""
    tensors = rebuild_variables(context, data)
    if PYTORCH_VARIABLES_ENTRY in context.archive.entries:
        _report_entry(context, PYTORCH_VARIABLES_ENTRY, [])
    elif TENSORS_ENTRY in context.archive.entries:
        note = f"now {PYTORCH_VARIABLES_ENTRY}, its name since SB3 {changes.WRITES_VERSION}"
        _report_entry(context, TENSORS_ENTRY, [note])
    else:
        context.report("translated", "new: it was missing", entry=PYTORCH_VARIABLES_ENTRY)
    template = context.archive.pytorch_variables or StateDict.from_arrays({})
    return template.with_tree(Copies().move(tensors))


def _report_entry(context: RebuildContext, entry: str, notes: list[str]) -> None:
    if bytes(context.archive.raw(entry)[:2]) != b"PK":
        notes = ["a torch zip instead of a legacy stream", *notes]
    context.report("translated" if notes else "kept", "; ".join(dict.fromkeys(notes)), entry=entry)


def _report_other_entries(context: RebuildContext, parameters: set[str]) -> list[str]:
    """Report all entries but the rebuilt ones, and return those that the result does not have."""
    dropped = []
    for name in context.archive.entries:
        if name == VERSION_ENTRY:
            context.report("translated", context.target.version, entry=name)
        elif name == TENSORS_ENTRY:
            dropped.append(name)
        elif name not in (*parameters, DATA_ENTRY, PYTORCH_VARIABLES_ENTRY):
            why = "" if context.keeps_unknown else "SB3 has no such entry"
            if name == SYSTEM_INFO_ENTRY:
                why = "" if context.options.keep_system_info else "it describes the author's machine"
            elif name.endswith(PTH_SUFFIX):
                why = f"{context.algorithm} has no such part, and SB3 refuses to load an archive with it"
            elif name in STATISTICS_ENTRIES:  # those of a bundle (STATISTICS.md 17.5) are plain data, kept if valid
                with contextlib.suppress(SbformatError):
                    read_entries(context.archive)
                    why = ""
            context.report("dropped" if why else "kept", why, entry=name)
            dropped += [name] if why else []
    return dropped
