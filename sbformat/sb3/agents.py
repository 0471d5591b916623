"""``load``: pass a rebuilt archive to the ``load`` of the real Stable-Baselines3 (REBUILDING.md 15.6)."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.constants import DATA_ENTRY
from sbformat.errors import SbformatError, UnsupportedError, escape, require_names
from sbformat.known.changes import RENAMED, parse_target
from sbformat.known.sb3 import HER_BUFFER
from sbformat.known.types import Reference
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.reader import read
from sbformat.sb3.custom_objects import check_attributes, iter_misspelt, make_schedules
from sbformat.sb3.installed import find_class, find_installed_release, find_loader, find_name
from sbformat.sb3.older_layouts import iter_older_layouts
from sbformat.sb3.run_folders import choose_source
from sbformat.sb3.schedules import keep_callable, make_live_schedules
from sbformat.tools.rebuild import rebuild_with
from sbformat.tools.rebuild.rebuild_context import FOR_LOAD, Options
from sbformat.tools.rebuild.trusted import REPLAY_BUFFERS
from sbformat.writer import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.tools.rebuild import RebuildReport, Row

A = TypeVar("A")

_ALWAYS_READ: Final = ("policy_class", "observation_space", "action_space")
"""Keys of ``data`` that ``custom_objects`` may supply to an archive that lacks them: SB3 loads no agent without one."""
_NOT_WORTH_A_WARNING: Final = frozenset({"verbose"})
"""Keys that change what is printed, and nothing else."""


@overload
def load(
    algorithm: type[A],
    source: Archive | SourceLike,
    env: Any = None,
    device: Any = "auto",
    custom_objects: Mapping[str, Any] | None = None,
    print_system_info: bool = False,  # noqa: FBT001, FBT002 -- the arguments of SB3's load, in its order
    force_reset: bool = True,  # noqa: FBT001, FBT002
    *,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> A: ...


@overload
def load(
    algorithm: str | None,
    source: Archive | SourceLike,
    env: Any = None,
    device: Any = "auto",
    custom_objects: Mapping[str, Any] | None = None,
    print_system_info: bool = False,  # noqa: FBT001, FBT002 -- the arguments of SB3's load, in its order
    force_reset: bool = True,  # noqa: FBT001, FBT002
    *,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> Any: ...


def load(
    algorithm: type[Any] | str | None,
    source: Archive | SourceLike,
    env: Any = None,
    device: Any = "auto",
    custom_objects: Mapping[str, Any] | None = None,
    print_system_info: bool = False,  # noqa: FBT001, FBT002 -- the arguments of SB3's load, in its order
    force_reset: bool = True,  # noqa: FBT001, FBT002
    *,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    **kwargs: Any,
) -> Any:
    """Load an agent as ``algorithm.load`` does, from an archive of any release, or an untrusted one (REBUILDING.md 15).

    The archive is rebuilt in memory (:func:`sbformat.rebuild`) for the installed release of SB3, and SB3 loads the
    result: every pickle that it reads was made here. One ``UserWarning`` names each hyper-parameter, class or argument
    that was replaced or dropped, with the old and the new value::

        model = sbformat.sb3.load(PPO, "agent-2020.zip", env=env)
        model = sbformat.sb3.load("TQC", "agent-2020.zip", custom_objects={"learning_rate": 1e-3})

    :param algorithm: a class of SB3 or sb3-contrib, its name (``"PPO"``), or a class that is derived from one; None for
        the algorithm that the archive determines
    :param source: an archive, or a path, bytes or a binary file, as in :func:`sbformat.read`; also of SB2. Of the
        folder of a run its agent is loaded, as by :func:`sbformat.load_policy`; a warning names its statistics, which
        :func:`sbformat.sb3.load_vecnormalize` loads
    :param env: as in SB3, as are ``device``, ``print_system_info`` and ``force_reset``. Without one, an agent that was
        trained with ``HerReplayBuffer`` is loaded without that buffer, which needs an environment, and with a warning
    :param custom_objects: values by key of ``data`` to use instead of the archive's, as in SB3: a custom schedule or
        policy class is passed here. Under a key of a schedule, :class:`sbformat.LinearSchedule`,
        :class:`sbformat.ConstantSchedule`, ``{"linear": [3e-4, 0]}`` and ``{"constant": 3e-4}`` become SB3's own. A key
        that ``data`` does not contain is ignored, with a warning if it resembles one
    :param allow: exact dotted names outside SB3 that may be imported and called, as the warning or error names them
    :param report: a list to which the report of the rebuild is appended, or a function that is called with it, before
        SB3 loads the result
    :param limits: as in :func:`sbformat.read`
    :param kwargs: attributes to set on the agent, as in SB3; schedules as in ``custom_objects``
    :return: the agent
    :raises UnsupportedError: when it is an agent of another algorithm, when SB3 cannot load it without a class that is
        not allowed, when it cannot be rebuilt, and when SB3 is not installed
    :raises SbformatError: when the archive cannot be read
    :raises ValidationError: for a schedule with other numbers than SB3 accepts
    :raises TypeError: when ``algorithm`` is neither a class nor a name nor None, when ``allow`` is a str, and for an
        argument that only :func:`sbformat.rebuild` has
    """
    return load_with(
        None if algorithm is None else find_class(algorithm),
        source,
        env,
        device,
        custom_objects,
        print_system_info,
        force_reset,
        allow=allow,
        report=report,
        limits=limits,
        **kwargs,
    )


def load_with(
    algorithm: type | None,
    source: Archive | SourceLike,
    env: Any = None,
    device: Any = "auto",
    custom_objects: Mapping[str, Any] | None = None,
    print_system_info: bool = False,  # noqa: FBT001, FBT002
    force_reset: bool = True,  # noqa: FBT001, FBT002
    *,
    allow: Collection[str] = (),
    report: Callable[[RebuildReport], object] | list[RebuildReport] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    sb3_load: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Load an agent as :func:`load` does; the warnings are for the caller of the caller.

    :param algorithm: a class, or None for that which the archive determines
    :param sb3_load: SB3's method, bound to the class; by default the method of the class
    """
    check_attributes(kwargs)
    own, kwargs = make_schedules(custom_objects or {}), make_schedules(kwargs)
    source, remark = choose_source(source, env, limits)
    if remark:
        warnings.warn(remark, UserWarning, stacklevel=3)
    original = read(source, limits=limits)
    given = {**make_live_schedules(original), **own}
    options = Options(
        target=parse_target(find_installed_release()),
        on_unknown="drop",
        policy_class=None,
        keep_system_info=False,
        supplied_at_load=frozenset(_find_supplied(original, given)),
        allow=frozenset(require_names(allow, "allow")),
        advice=FOR_LOAD,
    )
    archive, account = rebuild_with(original, options, None if algorithm is None else find_name(algorithm))
    if report is not None:
        take = report.append if isinstance(report, list) else report
        take(account)
    without_her = env is None and "replay_buffer_class" not in given and _has_her_buffer(archive)
    changed = [row for row in account.findings if _key_of(row) not in {*given, *kwargs, *_NOT_WORTH_A_WARNING}]
    for sentence in (
        *_describe_changes(changed),
        *iter_misspelt(own, {*original.data, *archive.data}),
        *iter_older_layouts(original, archive),
        *([_NO_HER_BUFFER] if without_her else []),
    ):
        warnings.warn(sentence, UserWarning, stacklevel=3)
    archive = keep_callable(archive, original, given)
    if without_her:
        archive = _leave_out_her_buffer(archive)
    if print_system_info:
        archive = archive.replace(system_info=_read_system_info(original))
    arguments = {"env": env, "device": device, "print_system_info": print_system_info, "force_reset": force_reset}
    load_archive = sb3_load or find_loader(algorithm or find_class(account.algorithm))
    try:
        return load_archive(BytesIO(writes(archive)), custom_objects=given, **arguments, **kwargs)
    except RuntimeError as error:
        dropped = [_describe(row) for row in account.findings if _key_of(row) in ("policy_class", "policy_kwargs")]
        if not dropped:
            raise
        message = (
            f"SB3 cannot load it without what was dropped: {'; '.join(dropped)}; pass it in custom_objects "
            "(policy_class, policy_kwargs), or its name in allow"
        )
        raise UnsupportedError(message, entry=DATA_ENTRY) from error


def _find_supplied(original: Archive, given: Iterable[str]) -> set[str]:
    """Return the keys of ``custom_objects`` that replace a value: SB3 ignores those that ``data`` does not contain.

    A key that was renamed since is found by both names. Of SB2, each is replaced after the conversion.
    """
    if original.format not in SB3_ARCHIVES:
        return set()
    present = {*original.data, *_ALWAYS_READ}
    present |= {new for old, new in RENAMED.items() if old in present}
    return {key for key in given if key in present}


# -- HER without an environment -----------------------------------------------------------------------

_NO_HER_BUFFER: Final = (
    "loaded without HerReplayBuffer, which needs an environment: pass env to train with it; predict does not need it"
)


def _has_her_buffer(archive: Archive) -> bool:
    value = archive.decode("replay_buffer_class") if "replay_buffer_class" in archive.data else None
    return isinstance(value, Reference) and value.pair == HER_BUFFER


def _leave_out_her_buffer(archive: Archive) -> Archive:
    """Let SB3 choose the replay buffer, with the arguments that every buffer accepts."""
    data = dict(archive.data)
    arguments = archive.decode("replay_buffer_kwargs") if "replay_buffer_kwargs" in data else None
    accepted = frozenset.intersection(*REPLAY_BUFFERS.values())
    kept = {name: value for name, value in arguments.items() if name in accepted} if isinstance(arguments, dict) else {}
    return archive.replace(data={**data, "replay_buffer_class": None, "replay_buffer_kwargs": kept})


# -- warnings -----------------------------------------------------------------------------------------


def _describe_changes(findings: list[Row]) -> Iterator[str]:
    """Yield one sentence of everything that the agent computes or trains with and that is different now."""
    if findings:
        yield f"not as it was saved: {'; '.join(map(_describe, findings))}; custom_objects sets other values"


def _describe(row: Row) -> str:
    """Return the place, the old value, the new value and the reason."""
    place = row.key if row.entry == DATA_ENTRY and row.key is not None else row.entry
    was = row.was or "not readable"
    reason = row.message.removeprefix(was.removeprefix("not known: ")).lstrip(" :")
    return f"{place}: {was} -> {row.instead or 'the default of SB3'} ({reason})"


def _key_of(row: Row) -> str:
    """Return the key of ``data`` that a row is about, or its entry."""
    return row.key.partition("/")[0] if row.key is not None and row.entry == DATA_ENTRY else row.entry


def _read_system_info(archive: Archive) -> str | None:
    """Return the description of the system that saved the agent; without control characters, since SB3 prints it."""
    try:
        info = archive.system_info
    except SbformatError:
        return None
    return None if info is None else "\n".join(escape(line, 1000) for line in info.text.splitlines())
