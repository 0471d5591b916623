"""``load`` and ``replace_loaders``: agents for the real Stable-Baselines3, from rebuilt archives (REBUILDING.md 15.6).

In comes any source of an agent, out comes SB3's own object: the agent of a folder is chosen (FOLDERS.md
21); what the caller passes beside the file is checked, and schedules that SB3 has no class for become callable objects
(VALUES.md 13.5); the archive is rebuilt for the installed release; what was replaced or dropped is a warning; SB3 loads
the bytes. Nothing of the file is executed: the instructions of a schedule are followed one by one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial, wraps
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.constants import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote, require_names
from sbformat.folders.agents import find_in_folder
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import ACTOR_EXTRACTOR, BRANCH_EXTRACTORS, ONE_NETWORK_OPTIMIZER, RENAMED, parse_target
from sbformat.known.sb3 import HER_BUFFER, SCHEDULE_KEYS
from sbformat.known.types import ConstantSchedule, FloatSchedule, LinearSchedule, Reference
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.pkl.numpy import ArrayInfo
from sbformat.reader import read
from sbformat.sb3.installed import (
    ORIGINAL,
    find_class,
    find_installed_release,
    find_loader,
    find_name,
    load_vecnormalize,
)
from sbformat.sb3.replay_buffers import load_replay_buffer
from sbformat.schema import known_keys
from sbformat.schema.assigned import encode_assigned, find_release, parse_schedule
from sbformat.tools.rebuild import rebuild_with
from sbformat.tools.rebuild.rebuild_context import FOR_LOAD, Options, find_source_release
from sbformat.tools.rebuild.rebuild_report import RECREATED
from sbformat.tools.rebuild.trusted import REPLAY_BUFFERS
from sbformat.values.computed import ComputedSchedule
from sbformat.values.schedule_meaning import SAMPLED, describe_samples, find_meaning
from sbformat.writer import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.tools.rebuild import RebuildReport, Row


_DEEPEST: Final = 100


def choose_source(source: Archive | SourceLike, env: Any, limits: Limits) -> tuple[Archive | SourceLike, str]:
    """Return the agent of a folder, and what to warn of: statistics that the environments do not have.

    :param source: anything that is not the folder of a run is returned unchanged
    """
    chosen = find_in_folder(source, limits)
    if chosen is None:
        return source, ""
    if chosen.statistics is None or _is_normalized(env):
        return chosen.path, chosen.warning or chosen.problem
    remark = (
        f"{chosen.remark}, which are not loaded with the agent: "
        f"sbformat.sb3.load_vecnormalize({quote(chosen.statistics)}, venv) makes an environment with them"
    )
    return chosen.path, f"{remark}; {chosen.warning}" if chosen.warning else remark


def _is_normalized(env: Any) -> bool:
    """Return whether an environment has SB3's ``VecNormalize`` among its wrappers."""
    for _ in range(_DEEPEST):
        if any(cls.__name__ == "VecNormalize" for cls in type(env).__mro__):
            return True
        env = getattr(env, "venv", None)
    return False


_NOT_OF_LOAD: Final = {
    "assign": "custom_objects={'learning_rate': 3e-4} sets values",
    "target": "the target is the installed release of SB3",
    "on_unknown": "what is not known is dropped with a warning; custom_objects replaces it, allow=[NAME] keeps a class",
    "policy_class": "custom_objects={'policy_class': CLASS} sets the class",
    "treat_as": "custom_objects={'observation_space': SPACE} sets a space, allow=[NAME] keeps a class",
    "map_names": "custom_objects={'policy_class': CLASS, 'policy_kwargs': {...}} passes classes",
    "keep_system_info": "SB3 does not load it",
    "supplied_at_load": "custom_objects has the values",
}
"""The arguments of :func:`sbformat.rebuild` that ``load`` does not have, and what to use."""
_SCHEDULES: Final = (ConstantSchedule, LinearSchedule, FloatSchedule)
_SIMILARITY: Final = 0.8


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Check that none of the attributes is an argument of ``rebuild``, which SB3 would set without effect.

    A class as ``policy_class`` is an attribute that SB3 uses; a name is not.
    """
    for name, value in attributes.items():
        if name in _NOT_OF_LOAD and not (name == "policy_class" and isinstance(value, type)):
            raise TypeError(f"sbformat.sb3.load has no argument {name}, which is one of rebuild: {_NOT_OF_LOAD[name]}")


def make_schedules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by key of ``data`` with SB3's own schedules where ``assign`` of ``rebuild`` accepts one."""
    return {key: _make_schedule(key, value) for key, value in values.items()}


def _make_schedule(key: str, value: Any) -> Any:
    if not isinstance(value, (*_SCHEDULES, Mapping) if key in SCHEDULE_KEYS else _SCHEDULES):
        return value
    schedule = parse_schedule(key, value)
    from stable_baselines3.common import utils

    has_classes = hasattr(utils, "LinearSchedule")
    if isinstance(schedule, ConstantSchedule):
        return (utils.ConstantSchedule if has_classes else utils.constant_fn)(schedule.value)
    if isinstance(schedule, LinearSchedule):
        return (utils.LinearSchedule if has_classes else utils.get_linear_fn)(*schedule)
    return value


def iter_misspelt(given: Iterable[str], present: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each key of ``custom_objects`` that SB3 ignores and that resembles one of ``data``."""
    known = frozenset(RENAMED).union(present, *map(known_keys, ALGORITHMS))
    for key in given:
        near = get_close_matches(key, sorted(present), 1, _SIMILARITY) if key not in known else []
        if near:
            yield f"custom_objects: {escape(key, 80)} is ignored, since data has no such key; did you mean {near[0]}?"


_INTERVALS: Final = 1000


class EvaluatedSchedule:
    """A schedule that was found in bytecode.

    It is pickled as a linear interpolation of 1,001 of its values by numpy, so that an agent that is saved with it
    loads where sbformat is not installed.

    :param schedule: as :func:`sbformat.values.computed.understand` returns it
    """

    def __init__(self, schedule: ComputedSchedule) -> None:
        self._schedule = schedule

    def __call__(self, progress_remaining: float) -> float:
        """Return the value; SB3 also asks beyond the end of the training, where the last value stays."""
        return self._schedule.sample(min(max(float(progress_remaining), 0.0), 1.0))

    def __repr__(self) -> str:
        return f"EvaluatedSchedule({describe_samples(self._schedule)} during training)"

    def __reduce__(self) -> Any:
        import numpy as np

        grid = [step / _INTERVALS for step in range(_INTERVALS + 1)]
        return partial(np.interp, xp=grid, fp=list(map(self, grid))).__reduce__()


def make_live_schedules(archive: Archive) -> dict[str, EvaluatedSchedule]:
    """Return the schedules of an archive that no class of SB3 computes, by their keys of ``data``.

    Their values are finite, and the first is one that torch accepts as a learning rate.
    """
    made = {}
    for key, value in _decode_schedules(archive).items():
        found = find_meaning(value).schedule
        if (
            isinstance(found, ComputedSchedule)
            and found.sample(1.0) >= 0
            and all(math.isfinite(found.sample(progress)) for progress in SAMPLED)
        ):
            made[key] = EvaluatedSchedule(found)
    return made


def keep_callable(archive: Archive, original: Archive, given: Container[str]) -> Archive:
    """Return a rebuilt archive whose constant learning rate is a schedule if the original was one.

    :param archive: the rebuilt one, where it is a number
    :param given: keys that the caller supplies
    """
    rate = archive.data.get("learning_rate")
    was_schedule = "learning_rate" in _decode_schedules(original) and "learning_rate" not in given
    if not was_schedule or not isinstance(rate, (int, float)):
        return archive
    release = find_release(archive.stable_baselines3_version)
    written = encode_assigned("learning_rate", ConstantSchedule(rate), release)
    return archive.replace(data={**archive.data, "learning_rate": written})


def _decode_schedules(archive: Archive) -> dict[str, object]:
    """Return the values of an archive's keys of schedules that are not numbers."""
    made: dict[str, object] = {}
    for key in SCHEDULE_KEYS - RECREATED.keys() if archive.format in SB3_ARCHIVES else ():
        if isinstance(archive.data.get(key), Serialized):
            with suppress(SbformatError):
                value = archive.decode(key)
                if not isinstance(value, (int, float, ArrayInfo)):
                    made[key] = value
    return made


_OPTIMIZER_ENTRY: Final = f"policy.optimizer{PTH_SUFFIX}"


def iter_older_layouts(original: Archive, rebuilt: Archive) -> Iterator[str]:
    """Yield a sentence for each older layout in an archive of a release that has a newer one."""
    release = find_source_release(original)
    end = f"and SB3 {release} saved it: save it again to get rid of this warning"
    old, new = (_read_tree(archive, POLICY_ENTRY) for archive in (original, rebuilt))
    has_one = _has(old, "features_extractor") and not _has(old, ACTOR_EXTRACTOR)
    if release >= BRANCH_EXTRACTORS and has_one and _has(new, ACTOR_EXTRACTOR):
        layout = f"the layout of SB3 < {BRANCH_EXTRACTORS}, with fewer names for its features extractor"
        yield f"the policy has {layout}, {end}"
    old_size, new_size = (_count_parameters(_read_tree(archive, _OPTIMIZER_ENTRY)) for archive in (original, rebuilt))
    if release >= ONE_NETWORK_OPTIMIZER and new_size and old_size == 2 * new_size:
        layout = f"the layout of SB3 < {ONE_NETWORK_OPTIMIZER}, with the target network's parameters"
        yield f"the optimizer has {layout}, {end}"


def _read_tree(archive: Archive, name: str) -> Any:
    """Return a state dict's tree; empty when it is missing or cannot be decoded."""
    try:
        return archive.state_dict(name).tree if name in archive.contents else {}
    except SbformatError:
        return {}


def _has(tree: Any, module: str) -> bool:
    return isinstance(tree, dict) and any(isinstance(name, str) and name.startswith(f"{module}.") for name in tree)


def _count_parameters(tree: Any) -> int:
    """Return the number of parameters of an optimizer with one group; 0 for anything else."""
    groups = tree.get("param_groups") if isinstance(tree, dict) else None
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return 0
    parameters = groups[0].get("params")
    return len(parameters) if isinstance(parameters, list) else 0


A = TypeVar("A")

_ALWAYS_READ: Final = ("policy_class", "observation_space", "action_space")
"""Keys of ``data`` that ``custom_objects`` may supply to an archive that lacks them: SB3 loads no agent without one."""
_NOT_WORTH_A_WARNING: Final = frozenset({"verbose"})  # keys that change what is printed, and nothing else


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
    cls = None if algorithm is None else find_class(algorithm)
    # SB3's own method, from one that replaces it: then the warnings are for the caller of that one
    sb3_load = kwargs.pop(ORIGINAL, None)
    stacklevel = 2 if sb3_load is None else 3
    check_attributes(kwargs)
    own, kwargs = make_schedules(custom_objects or {}), make_schedules(kwargs)
    source, remark = choose_source(source, env, limits)
    if remark:
        warnings.warn(remark, UserWarning, stacklevel=stacklevel)
    original = read(source, limits=limits)
    given = {**make_live_schedules(original), **own}
    # SB3 ignores keys that data does not contain, by its name before or after a release; of SB2, each is replaced later
    present = {*original.data, *_ALWAYS_READ} if original.format in SB3_ARCHIVES else set()
    present |= {new for old, new in RENAMED.items() if old in present}
    options = Options(
        target=parse_target(find_installed_release()),
        supplied_at_load=frozenset(present.intersection(given)),
        allow=frozenset(require_names(allow, "allow")),
        algorithm=None if cls is None else find_name(cls),
        advice=FOR_LOAD,
    )
    archive, account = rebuild_with(original, options)
    if report is not None:
        take = report.append if isinstance(report, list) else report
        take(account)
    without_her = env is None and "replay_buffer_class" not in given and _has_her_buffer(archive)
    changed = [row for row in account.findings if _key_of(row) not in {*given, *kwargs, *_NOT_WORTH_A_WARNING}]
    sentences = []
    if changed:
        listed = "; ".join(map(_describe, changed))
        sentences.append(f"not as it was saved: {listed}; custom_objects sets other values")
    sentences += [*iter_misspelt(own, {*original.data, *archive.data}), *iter_older_layouts(original, archive)]
    for sentence in [*sentences, _NO_HER_BUFFER] if without_her else sentences:
        warnings.warn(sentence, UserWarning, stacklevel=stacklevel)
    archive = keep_callable(archive, original, given)
    if without_her:
        archive = _leave_out_her_buffer(archive)
    if print_system_info:
        archive = archive.replace(system_info=_read_system_info(original))
    arguments = {"env": env, "device": device, "print_system_info": print_system_info, "force_reset": force_reset}
    load_archive = sb3_load or find_loader(cls or find_class(account.algorithm))
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


@contextmanager
def replace_loaders(*, allow: Collection[str] = (), limits: Limits = DEFAULT_LIMITS) -> Iterator[None]:
    """Replace SB3's loading methods by those of this package, for programs that cannot be changed.

    Until the context ends, the ``load`` of every algorithm, ``load_replay_buffer`` and ``VecNormalize.load`` load files
    of any release, and untrusted ones, without their pickles::

        with sbformat.sb3.replace_loaders():
            runpy.run_module("rl_zoo3.enjoy", run_name="__main__")

    ``BasePolicy.load``, which reads the files of ``policy.save()``, is not replaced. The replacement holds for all
    threads of the process.

    :param allow: as in :func:`sbformat.sb3.load`
    :param limits: as in :func:`sbformat.read`
    :raises UnsupportedError: when SB3 is not installed
    """
    find_installed_release()
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecNormalize

    methods = (BaseAlgorithm, "load"), (OffPolicyAlgorithm, "load_replay_buffer"), (VecNormalize, "load")
    before = [vars(cls)[name] for cls, name in methods]
    load_agent, load_buffer, load_statistics = map(_unwrap, before)
    BaseAlgorithm.load = classmethod(_replace_load(load_agent, allow, limits))
    OffPolicyAlgorithm.load_replay_buffer = _replace_buffer_load(load_buffer, limits)
    VecNormalize.load = staticmethod(_replace_statistics_load(load_statistics, limits))
    try:
        yield
    finally:
        for (cls, name), method in zip(methods, before):
            setattr(cls, name, method)


def _unwrap(method: Any) -> Any:
    """Return SB3's own function: of a class or static method, or of one that is already replaced."""
    function = getattr(method, "__func__", method)
    return getattr(function, ORIGINAL, function)


def _replace_load(original: Any, allow: Collection[str], limits: Limits) -> Callable[..., Any]:
    @wraps(original)
    def load_replaced(cls: type, path: Any, *arguments: Any, **kwargs: Any) -> Any:
        load_any: Callable[..., Any] = load
        options = {"allow": allow, "limits": limits, ORIGINAL: partial(original, cls)}
        return load_any(cls, path, *arguments, **options, **kwargs)

    setattr(load_replaced, ORIGINAL, original)
    return load_replaced


def _replace_buffer_load(original: Any, limits: Limits) -> Callable[..., None]:
    @wraps(original)
    def load(model: Any, path: Any, truncate_last_traj: bool = True) -> None:  # noqa: FBT001, FBT002 -- SB3's own
        load_replay_buffer(model, path, truncate_last_traj, limits=limits)

    return load


def _replace_statistics_load(original: Any, limits: Limits) -> Callable[..., Any]:
    @wraps(original)
    def load(load_path: Any, venv: Any) -> Any:
        return load_vecnormalize(load_path, venv, limits=limits)

    setattr(load, ORIGINAL, original)
    return load
