"""Files beside archives, of any release, for today's SB3: of ``policy.save()``, and statistics of VecNormalize.

``rebuild_policy`` (REBUILDING.md 15.9). In: the torch file of ``{"state_dict": ..., "data": ...}``; ``data`` has the
arguments of the policy's constructor. Out: the same dict with the weights under the names of the target, and with the
arguments that its class accepts, encoded again: spaces of gymnasium instead of gym, classes by their names of today,
and no pickle of the original.

``rebuild_vecnormalize`` (STATISTICS.md 17.4). In: statistics of SB3 or SB2. Out: those that the target loads.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY, SETTINGS_ENTRY, WHOLE_FILE
from sbformat.errors import UnsupportedError, escape
from sbformat.formats.vecnormalize.bundled import read_entries
from sbformat.formats.vecnormalize.pickles import library_of, make_vecnormalize, read_parts
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import (
    BRANCH_EXTRACTORS,
    NEWEST,
    NORM_OBS_KEYS,
    NORMALIZED_ARGUMENT,
    NORMALIZED_IMAGES,
    name_space_library,
    parse_target,
)
from sbformat.known.encoder import Encoder
from sbformat.known.spaces import Space
from sbformat.known.table import find
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.nets.arguments import NetworkError
from sbformat.nets.reading import compare_network, match_saved_policy
from sbformat.nets.sb3 import POLICIES
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.pth.encode import encode_tree
from sbformat.reader import read
from sbformat.tools.rebuild.network import convert_net_arch, rebuild_network
from sbformat.tools.rebuild.rebuild_report import OTHER_WAYS, RebuildReport, Row, refuse
from sbformat.values import encode
from sbformat.values.render import render_json, render_line

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.formats.vecnormalize.values import VecNormalize
    from sbformat.io.opening import SourceLike
    from sbformat.known.changes import Release
    from sbformat.known.types import Instance
    from sbformat.nets.arguments import Agent
    from sbformat.tools.rebuild.network import Network


_SPACES: Final = ("observation_space", "action_space")


class RebuiltPolicy(Record):
    """The result of :func:`rebuild_policy`, a pair."""

    content: bytes
    """The new file."""
    report: RebuildReport


def rebuild_policy(
    source: Archive | SourceLike, *, target: str | Release = NEWEST, limits: Limits = DEFAULT_LIMITS
) -> RebuiltPolicy:
    """Return a file of ``policy.save()`` that the target's SB3 loads, and a report with a row for every argument.

    Nothing in the file is executed. The file does not name its class; the report's ``algorithm`` is the class whose
    ``load`` reads the result::

        content, report = sbformat.rebuild_policy("policy-2020.pth")
        pathlib.Path("policy.pth").write_bytes(content)  # ActorCriticPolicy.load("policy.pth")

    :param source: a path, bytes or a binary file, as in :func:`sbformat.read`
    :param target: the release of SB3 that will load the result, ``1.6`` to ``2.9``
    :param limits: as in :func:`sbformat.read`
    :raises UnsupportedError: for another file, for a policy or an argument that is not known, and when the target does
        not have such a network
    :raises SbformatError: when it cannot be read
    """
    release = parse_target(target)
    archive = read(source, limits=limits)
    if archive.format != "policy-file":
        hint = OTHER_WAYS.get(archive.format, "")
        refuse(f"expected a file of policy.save(), got the format {archive.format}", hint=hint)
    agent = match_saved_policy(archive).agent
    pair = agent.policy_class
    if missing := find(pair).explain_missing(release):
        refuse(f"{'.'.join(pair)} {missing}")
    kind = next(family.kind for family in ALGORITHMS.values() if pair in family.policies.values())
    policy = unwrap_policy(archive)
    network = rebuild_network(policy.state_dict, kind, release, her=None, has_sb3_policy=True)
    message = "; ".join([*policy.notes, *network.notes])
    rows = [Row(POLICY_ENTRY, None, "translated" if message else "kept", message)]
    arguments = _rebuild_arguments(archive, agent, network, release, rows)
    tree = Dict([("state_dict", network.tree), ("data", Dict(list(arguments.items())))])
    content = b"".join(encode_tree(tree).chunks())
    return RebuiltPolicy(content, RebuildReport(".".join(pair), None, release.version, tuple(rows), ()))


def _rebuild_arguments(
    archive: Archive, agent: Agent, network: Network, release: Release, rows: list[Row]
) -> dict[str, Any]:
    """Return the arguments of the policy's constructor as trees, and add a row for each."""
    pair, kept = agent.policy_class, dict(agent.policy_kwargs)
    accepted = POLICIES[pair].argument_names(release) | {"use_sde", *_SPACES, "lr_schedule"}
    made: dict[str, Any] = {}
    row = partial(Row, DATA_ENTRY)
    for name in archive.data:
        if name == "lr_schedule":
            base = Global("stable_baselines3.common.policies", "BasePolicy")
            made[name] = Call("REDUCE", Global("builtins", "getattr"), (base, "_dummy_schedule"))
            rows.append(row(name, "kept", "the placeholder of a policy without an algorithm"))
            continue
        value = archive.decode(name)
        if name not in accepted:
            kept.pop(name, None)
            if name == "share_features_extractor":  # the names of the weights have shown that they do
                rows.append(row(name, "dropped", f"the only choice before SB3 {BRANCH_EXTRACTORS}"))
                continue
            if value is not None:
                refuse(f"{escape(name, 80)}: {pair[1]} of SB3 {release} does not have this argument", DATA_ENTRY)
            rows.append(row(name, "dropped", f"{pair[1]} does not have this argument, and it is None"))
            continue
        if name == "features_extractor_kwargs" and release < NORMALIZED_IMAGES:
            value = {key: part for key, part in value.items() if key != NORMALIZED_ARGUMENT}
        converted = value
        if name == "net_arch" and "ortho_init" in accepted:  # an actor-critic
            converted = network.net_arch or convert_net_arch(value, network, release)
        library = name_space_library(release)
        if converted != value:
            value = converted
            rows.append(row(name, "translated", f"{render_line(value)}: the layers of both networks, none shared"))
        elif getattr(value, "library", library) != library:
            rows.append(row(name, "translated", f"a space of {library} instead of {value.library}"))
        else:
            rows.append(row(name, "kept", ""))
        made[name] = Encoder(release).tree(value)
        if name in kept:
            kept[name] = value
    _check_weights(agent._replace(policy_kwargs=kept, release=release), network)
    return made


def _check_weights(agent: Agent, network: Network) -> None:
    """Refuse a file that the target cannot load."""
    try:
        shapes = {tensor.name: tuple(tensor.info.shape) for tensor in network.tensors}
        message = next((mismatch.message for mismatch in compare_network(agent, shapes).mismatches), "")
    except NetworkError as error:
        message = error.message
    if message:
        refuse(f"{agent.policy_class[1]} of SB3 {agent.release} could not load the result: {message}", POLICY_ENTRY)


_SETTINGS: Final = (
    "clip_obs", "clip_reward", "gamma", "epsilon", "training", "norm_obs", "norm_reward", "num_envs",
)  # fmt: skip
_RENAMED: Final = {
    "obs_keys": ("norm_obs_keys", f"is norm_obs_keys since SB3 {NORM_OBS_KEYS}"),
    "old_rews": ("old_reward", "is old_reward in SB3"),
}
_OF_ENVIRONMENT: Final = frozenset({"reset_infos", "_seeds", "_options", "render_mode", "metadata"})
_INSTEAD: Final = "the space of the wrapped environment, without a check of shapes"


class RebuiltStatistics(Record):
    """The result of :func:`rebuild_vecnormalize`, a pair."""

    vecnormalize: VecNormalize
    """For :func:`sbformat.write_vecnormalize`."""
    report: RebuildReport


def rebuild_vecnormalize(
    source: Archive | SourceLike, *, target: str | Release = NEWEST, limits: Limits = DEFAULT_LIMITS
) -> RebuiltStatistics:
    """Return statistics that the target's SB3 loads, and a report with a row for every attribute (STATISTICS.md 17.4).

    The pickle is decoded without running it; spaces of gym become gymnasium's::

        statistics, report = sbformat.rebuild_vecnormalize("vecnormalize-2020.pkl")
        sbformat.write_vecnormalize(statistics, "vecnormalize.pkl")

    :param source: as in :func:`sbformat.read_vecnormalize`
    :param target: a release of SB3, ``1.6`` to ``2.9``
    :param limits: as in :func:`sbformat.read_vecnormalize`
    :raises UnsupportedError: for another target, and for a source that is not statistics
    :raises SbformatError: when it cannot be read
    """
    release = parse_target(target)
    found = read_parts(source, limits)
    if isinstance(found, dict):
        value, rows = _rebuild_parts(found, release)
    else:
        value, changed = _drop_unwritable_spaces(read_entries(found), release)
        rows = [Row(SETTINGS_ENTRY, None, "translated", "a pickle of SB3's VecNormalize")]
        rows += [_space_row(SETTINGS_ENTRY, name, None, value, release) for name in changed]
    return RebuiltStatistics(value, RebuildReport("VecNormalize", None, release.version, tuple(rows), ()))


def _rebuild_parts(parts: dict[str, Instance], release: Release) -> tuple[VecNormalize, list[Row]]:
    """Return statistics of a pickle of SB3, or of the pickles of SB2, and the rows about them."""
    value, _ = _drop_unwritable_spaces(make_vecnormalize(parts), release)
    if WHOLE_FILE in parts:
        whole = parts[WHOLE_FILE]
        parts_of_it = whole.attributes.items()
        return value, [_describe_attribute(name, part, whole, value, release) for name, part in parts_of_it]
    rows = [Row(name, None, "translated", f"{name.removesuffix('.pkl')} of SB3's VecNormalize") for name in parts]
    row = partial(Row, next(iter(parts)))
    rows += [row(name, "dropped", "SB2 saved no spaces with its statistics", _INSTEAD) for name in _SPACES]
    settings = ", ".join(f"{name} {getattr(value, name)}" for name in _SETTINGS[:4])
    rows.append(row("settings", "translated", f"SB2's defaults, which it does not save: {settings}"))
    for name, what in (("obs_rms", "norm_obs"), ("ret_rms", "norm_reward")):
        if getattr(value, name) is None:
            rows.append(row(what, "translated", f"false: {name} is missing"))
    return value, rows


def _drop_unwritable_spaces(value: VecNormalize, release: Release) -> tuple[VecNormalize, list[str]]:
    """Leave out spaces that the target cannot load; return the rest, and the names of those."""
    lost = []
    for name in _SPACES:
        try:
            encode(getattr(value, name), release)
        except UnsupportedError:
            lost.append(name)
    without: dict[str, Any] = dict.fromkeys(lost)
    return replace(value, **without), lost


def _describe_attribute(name: str, part: Any, whole: Instance, value: VecNormalize, release: Release) -> Row:
    """Return the row of an attribute; that of a setting or a space has the values."""
    row = _attribute_row(name, part, whole, value, release)
    is_space = name in _SPACES and isinstance(part, Space)
    if not is_space and not (name in _SETTINGS and (part is None or isinstance(part, (bool, int, float)))):
        return row
    row = row._replace(was=render_line(part), old=render_json(part) if is_space else part)
    found = getattr(value, name)
    return row if found is None and is_space else row._replace(now=render_line(found), new=render_json(found))


def _attribute_row(name: str, part: Any, whole: Instance, value: VecNormalize, release: Release) -> Row:
    row = partial(Row, WHOLE_FILE, name)
    if name in _OF_ENVIRONMENT:
        return row("dropped", "it belongs to the wrapped environment", "that of the next environment")
    if name in _SPACES:
        return _space_row(WHOLE_FILE, name, part, value, release)
    if name == "obs_spaces":
        if value.observation_space is not None and value.observation_space.has_keys:
            return _space_row(WHOLE_FILE, name, whole.attributes.get("observation_space"), value, release)
        return row("dropped", "only a Dict space has parts")
    if name in _RENAMED:
        today, how = _RENAMED[name]
        if today in whole.attributes:
            return row("dropped", f"there is also {today}, its new name")
        return row("dropped", "it is empty") if part is None else row("translated", how)
    if name in ("old_obs", "old_reward") and part is not None and getattr(value, name) is None:
        return row("dropped", "it does not consist of arrays", "nothing until the next reset")
    if name in ("obs_rms", "ret_rms") and part is not None and library_of(whole) != "stable_baselines3":
        return row("translated", "SB3's RunningMeanStd, with the same numbers")
    return row("kept", "")


def _space_row(entry: str, name: str, part: Any, value: VecNormalize, release: Release) -> Row:
    found: Any = value.observation_space if name == "obs_spaces" else getattr(value, name)
    if found is None:
        why = "the space is not known" if part is not None else "the target release does not have such a space"
        return Row(entry, name, "dropped", why, _INSTEAD)
    library = name_space_library(release)
    if found.library != library:
        return Row(entry, name, "translated", f"a space of {library} instead of {found.library}", None)
    is_random = getattr(part, "random", None) is not None
    return Row(entry, name, "kept", "without its random generator" if is_random else "")
