"""``rebuild_policy``: a file of ``policy.save()`` of any release, for today's SB3 (REBUILDING.md 15.9).

In: the torch file of ``{"state_dict": ..., "data": ...}``; ``data`` has the arguments of the policy's constructor.
Out: the same dict with the weights under the names of the target, and with the arguments that its class accepts,
encoded again: spaces of gymnasium instead of gym, classes by their names of today, and no pickle of the original.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import NEWEST, parse_target
from sbformat.known.encoder import make_tree
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.nets.reading import match_saved_policy
from sbformat.nets.sb3 import POLICIES
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.pth.encode import encode_tree
from sbformat.reader import read
from sbformat.tools.rebuild.network import rebuild_network
from sbformat.tools.rebuild.report import RebuildReport, Row
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.known.changes import Release
    from sbformat.pkl.names import Pair
    from sbformat.tools.rebuild.network import Network

_SCHEDULE: Final = "lr_schedule"
_SPACES: Final = ("observation_space", "action_space")
_BASE: Final = ("stable_baselines3.common.policies", "BasePolicy")
_NET_ARCH: Final = "net_arch"


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
    :param target: the release of SB3 that will load the result, ``2.0`` to ``2.9``
    :param limits: as in :func:`sbformat.read`
    :raises UnsupportedError: for another file, for a policy or an argument that is not known, and when the target does
        not have such a network
    :raises SbformatError: when it cannot be read
    """
    release = parse_target(target)
    archive = read(source, limits=limits)
    if archive.format != "policy-file":
        message = f"expected a file of policy.save(), got the format {archive.format}"
        raise UnsupportedError(message)
    pair = match_saved_policy(archive).agent.policy_class
    kind = next(family.kind for family in ALGORITHMS.values() if pair in family.policies.values())
    policy = unwrap_policy(archive)
    network = rebuild_network(policy.state_dict, kind, release, her=None, has_sb3_policy=True)
    message = "; ".join([*policy.notes, *network.notes])
    rows = [Row(POLICY_ENTRY, None, "translated" if message else "kept", message)]
    arguments = _rebuild_arguments(archive, pair, network, release, rows)

    tree = Dict([("state_dict", network.tree), ("data", Dict(list(arguments.items())))])
    content = b"".join(encode_tree(tree).chunks())
    return RebuiltPolicy(content, RebuildReport(".".join(pair), None, release.version, tuple(rows), ()))


def _rebuild_arguments(
    archive: Archive, pair: Pair, network: Network, release: Release, rows: list[Row]
) -> dict[str, Any]:
    """Return the arguments of the policy's constructor as trees, and add a row for each."""
    accepted = POLICIES[pair].argument_names(release) | {"use_sde", *_SPACES, _SCHEDULE}
    made: dict[str, Any] = {}
    row = partial(Row, DATA_ENTRY)
    for name in archive.data:
        if name == _SCHEDULE:
            made[name] = Call("REDUCE", Global("builtins", "getattr"), (Global(*_BASE), "_dummy_schedule"))
            rows.append(row(name, "kept", "the placeholder of a policy without an algorithm"))
            continue
        value = archive.decode(name)
        if name not in accepted:
            if value is not None:
                message = f"{escape(name, 80)}: {pair[1]} of SB3 {release} does not have this argument"
                raise UnsupportedError(message, entry=DATA_ENTRY)
            rows.append(row(name, "dropped", f"{pair[1]} does not have this argument, and it is None"))
            continue
        if name == _NET_ARCH and network.net_arch is not None:
            value = network.net_arch
            rows.append(row(name, "translated", f"{render_line(value)}: the layers of both networks, none shared"))
        else:
            is_of_gym = getattr(value, "library", None) == "gym"
            words = "a space of gymnasium instead of gym" if is_of_gym else ""
            rows.append(row(name, "translated" if is_of_gym else "kept", words))
        made[name] = make_tree(value, release)
    return made
