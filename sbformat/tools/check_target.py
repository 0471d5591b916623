"""``check_target``: whether ``load`` of a release of SB3 loads an archive whole, and if not, why (REBUILDING.md 15.10).

Theory of operation
-------------------
In: an archive, and a release of SB3 or ``installed``. Out: a :class:`TargetReport` with reasons, in the order in which
a user has to deal with them. Nothing is imported: releases of installed packages are read from their metadata. The
answer is put together from those of other tools, and no fact is stated twice:

1. ``iter_problems`` and ``scan``: what is broken or harmful would be refused before anything else matters.
2. Each pickle in ``data`` is decoded to a tree. Each name in it has to be in the release: SB3 imports it. Functions and
   classes pickled by value are bytecode of one Python release, made by functions of cloudpickle.
3. ``rebuild`` makes the archive that does load. Its names of tensors, parameters of optimizers, and values of ``data``
   are compared with the stored ones: a difference is what SB3 would miss, refuse or read as something else.

What is not certain is a reason: a report without reasons is a promise, one with reasons may be too careful.

Worked example: MaskablePPO of SB3 1.3 and gym 0.21, for SB3 2.9::

    python     clip_range, lr_schedule            bytecode of Python 3.8
    gym        observation_space, action_space    SB3 2 has gymnasium instead
    network    policy.pth                         layers of mlp_extractor.shared_net, which SB3 1.8 removed
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from sbformat.archive.kinds import KIND_TITLES, OBJECTS, SB3_ARCHIVES
from sbformat.constants import DATA_ENTRY, OPTIMIZER_WORD, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY
from sbformat.data import LargeValue, Serialized
from sbformat.errors import (
    MissingEntryError,
    SbformatError,
    UnsupportedError,
    escape,
    quote,
    require_names,
    require_type,
)
from sbformat.folders.agents import find_in_folder
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.changes import NEWEST, RELEASES, Release, parse_release, parse_target
from sbformat.known.code import PYTHONS
from sbformat.known.rows import NOTHING, find, find_called
from sbformat.known.sb3 import HER_BUFFER, SCHEDULE_KEYS
from sbformat.known.types import Reference
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl import Call, Extension, Global, Persistent, decode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.reader import read
from sbformat.schema import iter_problems
from sbformat.tools.compare_system import find_release
from sbformat.tools.rebuild import rebuild_with
from sbformat.tools.rebuild.data_keys import METHODS
from sbformat.tools.rebuild.rebuild_context import Options
from sbformat.tools.rebuild.rebuild_report import EXCLUDED, RECREATED
from sbformat.tools.scan import scan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.known.rows import Known
    from sbformat.pkl.tree import Pair
    from sbformat.pth import StateDict
    from sbformat.tools.rebuild import RebuildReport, Rebuilt, Row

Cause: TypeAlias = Literal[
    "invalid", "harmful", "format", "algorithm", "python", "cloudpickle", "gym", "numpy", "class", "data", "network",
    "optimizer", "environment", "unchecked",
]  # fmt: skip
_CAUSES: Final = Cause.__args__  # type: ignore[attr-defined]
"""The causes in the order of what to do: a broken or harmful file first, then what has to be installed, then values."""

INSTALLED: Final = "installed"
"""The target that is the release of SB3 in the running environment."""


class TargetReason(Record):
    """Why SB3 does not load an archive whole, and what helps."""

    cause: Cause
    entry: str
    keys: tuple[str, ...]
    """The keys of ``data`` that are concerned, or paths below them; empty for an entry."""
    message: str
    """A sentence."""
    help: tuple[str, ...]
    """Commands, or sentences on what to do, the best first. ``FILE`` is the archive."""


class TargetReport(Record):
    """Whether a release of SB3 loads an archive whole: every hyper-parameter, space, schedule, weight and optimizer."""

    target: str
    """The version of SB3: ``2.9.2``."""
    environment: str | None
    """The installed releases that were considered; None when only the release of SB3 was given."""
    reasons: tuple[TargetReason, ...]
    """Why not, in the order of what to do; empty when it is loaded whole."""

    @property
    def loads_whole(self) -> bool:
        """Whether ``load`` loads everything, without ``custom_objects``."""
        return not self.reasons

    def __repr__(self) -> str:
        causes = ", ".join(dict.fromkeys(reason.cause for reason in self.reasons))
        return f"<TargetReport {self._answer}{f': {causes}' if causes else ''}>"

    def _repr_html_(self) -> str:
        """Return the answer and the reasons for notebooks."""
        from sbformat.notebook import render_output, render_paragraph, render_records

        environment = [render_paragraph(self.environment)] if self.environment else []
        return render_output(f"TargetReport: {self._answer}", [*environment, render_records("", self.reasons)])

    @property
    def _answer(self) -> str:
        return f"SB3 {self.target} {'loads it whole' if self.loads_whole else 'does not load it whole'}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: ``target`` of the ``validate`` report of ``schema/report.schema.json``."""
        reasons = [{**row._asdict(), "keys": list(row.keys), "help": list(row.help)} for row in self.reasons]
        return {
            "release": self.target,
            "environment": self.environment,
            "loads_whole": self.loads_whole,
            "reasons": reasons,
        }


class _Environment(Record):
    """What the archive would be loaded with; None for a release that is not determined."""

    release: Release
    version: str
    python: Release | None = None
    numpy: Release | None = None
    cloudpickle: Release | None = None
    has_contrib: bool = True
    described: str | None = None


def check_target(
    source: Archive | SourceLike,
    *,
    target: str,
    allow: Collection[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    name: str = "FILE",
) -> TargetReport:
    """Return whether SB3's own ``load`` loads an archive whole, without ``custom_objects``, and if not, why.

    Nothing is imported or executed. A report without reasons is certain; a reason may be too careful, where what SB3
    does is not known::

        report = sbformat.check_target("agent.zip", target="installed")
        if not report.loads_whole:
            for reason in report.reasons:
                print(reason.message, reason.help)

    :param source: an archive, or what :func:`sbformat.read` takes. Of the folder of a run, its agent is checked
    :param target: a release of SB3, ``1.6`` to ``2.9``, with whatever Python and with the newest releases that it
        supports of all else; or ``installed``: the releases of SB3, Python and the rest of the running environment
    :param allow: exact dotted names of classes of your own: they can be imported where SB3 loads the agent, and are
        those that it was saved with, so the network that they make is taken to have the stored weights
    :param limits: as in :func:`sbformat.read`
    :param name: what commands in ``help`` call the file
    :return: the target, and the reasons in the order of what to do
    :raises UnsupportedError: when the target is not known or not installed, and for what is not an agent
    :raises SbformatError: when it cannot be read
    """
    require_type(target, str, "a release of SB3 such as '2.9', or 'installed'")
    allowed = frozenset(require_names(allow, "allow"))
    environment = _find_environment(target)
    chosen = find_in_folder(source, limits)
    archive = read(source if chosen is None else chosen.path, limits=limits)
    if archive.format in OBJECTS:
        raise UnsupportedError(f"expected an agent, got {KIND_TITLES[archive.format]}")
    found = list(_Check(archive, environment, name, allowed).run())
    found.sort(key=lambda reason: _CAUSES.index(reason.cause))
    return TargetReport(environment.version, environment.described, tuple(found))


def _find_environment(target: str) -> _Environment:
    """Return the environment that a target means; that of the running Python for ``installed``."""
    if target != INSTALLED:
        try:
            release = parse_target(target)
        except UnsupportedError as error:
            error.message += f", or {INSTALLED}"
            raise
        numpy = changes.NEWEST_NUMPY_1 if release < changes.NUMPY_2 else None
        return _Environment(release, release.version, numpy=numpy)
    names = ("Stable-Baselines3", "Numpy", "Cloudpickle", "Gymnasium", "PyTorch")
    found = {name: find_release(name) for name in names}
    version = found["Stable-Baselines3"]
    exact = parse_release(version)
    if version is None or exact is None:
        hint = "the target can also be a release, such as 2.9"
        raise UnsupportedError("Stable-Baselines3 is not installed here", hint=hint)
    release = parse_target(min(exact, NEWEST)) if exact >= min(RELEASES) else parse_target(str(version))
    python = str(find_release("Python"))
    described = ", ".join([f"Python {python}", *(f"{name} {version}" for name, version in found.items() if version)])
    return _Environment(
        release,
        version,
        parse_release(python),
        parse_release(found["Numpy"]),
        parse_release(found["Cloudpickle"]),
        find_release("sb3-contrib") is not None,
        described,
    )


# -- names in pickles ----------------------------------------------------------------------------------

_PROVIDED: Final = frozenset({"numpy", "torch", "gym", "gymnasium", "stable_baselines3", "sb3_contrib", "cloudpickle"})
"""The packages that SB3 needs, and its own."""
_CONTRIB: Final = "sb3_contrib"
_SKELETON_ROLES: Final = frozenset({"skeleton_function", "filled_function", "filled_class"})


def _judge_name(pair: Pair, environment: _Environment) -> tuple[Cause, str] | None:
    """Return why a name that a pickle uses is not in an environment, or None if it is.

    :param pair: with an empty name, a module that a function pickled by value uses
    """
    module, name = pair
    package, row = module.partition(".")[0], find(pair)
    shown = escape(f"{module}.{name}" if name else module, 200)
    since = changes.GYMNASIUM
    if package == ("gym" if environment.release >= since else "gymnasium"):
        return "gym", f"SB3 uses spaces of gymnasium since {since}, of gym before"
    if row.role in _SKELETON_ROLES or row.role == "function":
        return _judge_cloudpickle(row, environment)
    if package == "numpy" and (why := _judge_numpy(pair, environment)):
        return "numpy", why
    if package == "pathlib" and (why := _judge_path(pair, environment)):
        return "python", why
    is_provided = package in _PROVIDED or package in sys.stdlib_module_names
    if package == "__main__":
        why = "is defined in the program that saved it"
    elif not is_provided:
        why = "is in a package that SB3 does not need: it has to be importable where SB3 loads it"
    elif package == _CONTRIB and not environment.has_contrib:
        why = "is in sb3-contrib, which is not installed"
    elif row is NOTHING and name:
        why = "is not a known name of its package, which may not have it"
    else:
        why = row.explain_missing(environment.release) or ""
        current = row.for_target(environment.release)
        if not why and current.pair != pair and package != "numpy" and name:
            why = f"is {current} now"
    return ("class", f"{shown} {why}") if why else None


def _judge_path(pair: Pair, environment: _Environment) -> str:
    """Return why a path of Python cannot be made, or an empty text; the system may be another than that of the path."""
    since, here = changes.LOCAL_PATHS, environment.python
    if pair[0] == _LOCAL_PATHS and (here is None or here < since):
        return f"Python before {since} has no {_LOCAL_PATHS}"
    system = _SYSTEMS.get(pair[1])
    return (
        f"{pair[1]} is a path of one kind of system: another cannot make it"
        if system and (here is None or system != os.name)
        else ""
    )


def _judge_cloudpickle(row: Known, environment: _Environment) -> tuple[Cause, str] | None:
    """Return why a release of cloudpickle does not have what makes functions and classes; None is the newest."""
    removed, since, here = changes.CLOUDPICKLE_SKELETON, changes.CLOUDPICKLE_FUNCTION, environment.cloudpickle
    if row.role in _SKELETON_ROLES and (here is None or here >= removed):
        return "cloudpickle", f"cloudpickle {removed} removed what makes functions and classes for such pickles"
    if row.role == "function" and here is not None and here < since:
        return "cloudpickle", f"cloudpickle before {since} lacks {row.name}"
    return None


def _judge_numpy(pair: Pair, environment: _Environment) -> str:
    """Return why a numpy does not have a name, or an empty text; None is numpy 2."""
    is_2 = environment.numpy is None or environment.numpy >= changes.NUMPY_NAMES
    is_new = pair[0].startswith(("numpy._core", *_BIT_MODULES)) or pair == ("numpy", "bool")
    if is_new and not is_2:
        return "numpy 1 does not have the names that numpy 2 wrote"
    return f"numpy 2 removed {pair[0]}" if pair[0] == _NUMPY_1_MODULE and is_2 else ""


_BIT_MODULES: Final = ("numpy.random._mt19937", "numpy.random._pcg64", "numpy.random._philox", "numpy.random._sfc64")
"""Modules of bit generators, which numpy 2 refers to by their classes."""
_NUMPY_1_MODULE: Final = "numpy.lib.function_base"
_LOCAL_PATHS: Final = "pathlib._local"
_SYSTEMS: Final = {"PosixPath": "posix", "WindowsPath": "nt"}
"""The systems, as ``os.name`` has them, that can make a path."""


class _Check:
    """One archive, and what is known of it for an environment."""

    def __init__(self, archive: Archive, environment: _Environment, name: str, allowed: frozenset[str]) -> None:
        self.archive = archive
        self.environment = environment
        allows = "".join(f" --allow {row}" for row in sorted(allowed))
        self.command = f"sbformat rebuild {name} -o NEW.zip --target {environment.release}{allows}"
        self.name = name
        self.allowed = allowed
        self.scanned = scan(archive, allow=allowed)
        self.rebuilt: Rebuilt | None = None
        self.refused = ""
        """Why it cannot be rebuilt."""
        self.code: frozenset[str] = frozenset()
        """The keys whose pickles carry code."""
        self.pythons: set[str] = set()
        """The releases of Python that have code objects with as many arguments."""

    def run(self) -> Iterator[TargetReason]:
        """Yield every reason, in any order."""
        archive = self.archive
        if archive.format not in SB3_ARCHIVES or archive.format == "folder":
            kind = KIND_TITLES.get(archive.format, archive.format)
            with suppress(SbformatError):
                self.rebuild()
            yield self.reason("format", DATA_ENTRY, f"it is not an archive of SB3, which is a zip: {kind}")
            return
        self.rebuild()
        found = [*self.check_file(), *self.check_algorithm(), *self.check_names()]
        yield from found
        stated = {name.partition("/")[0] for reason in found for name in reason.keys or [reason.entry]}
        if self.rebuilt is not None:
            yield from self.check_calls(stated)
            yield from self.check_data(self.rebuilt.report, stated)
            yield from (reason for reason in self.check_entries(self.rebuilt) if reason.entry not in stated)
        elif not found:
            why = "it carries code, which only running it shows" if self.code else "what SB3 makes of it is not known"
            yield self.reason("unchecked", DATA_ENTRY, f"not checked: {why}", sorted(self.code))

    def rebuild(self) -> None:
        """Rebuild the archive, or note why that is refused."""
        try:
            self.rebuilt = rebuild_with(self.archive, Options(self.environment.release, allow=self.allowed))
        except (SbformatError, MissingEntryError) as error:
            self.refused = str(error)

    def reason(self, cause: Cause, entry: str, message: str, keys: Iterable[str] = (), first: str = "") -> TargetReason:
        """Return a reason, with what helps first, and then ``rebuild``, or why that is refused."""
        rebuild = f"{self.command} is refused: {self.refused}" if self.refused else self.command
        concerned = tuple(keys)
        rows = () if self.rebuilt is None else self.rebuilt.report.findings
        dropped = [
            f"it drops {row.key}: {row.message}" for row in rows if row.key and row.key.partition("/")[0] in concerned
        ]
        return TargetReason(cause, entry, concerned, message, tuple(filter(None, (first, rebuild, *dropped))))

    def check_file(self) -> Iterator[TargetReason]:
        """Yield what ``validate`` finds wrong, and what ``scan`` finds harmful."""
        for problem in iter_problems(self.archive):
            if problem.level == "error":
                cause: Cause = "network" if problem.kind == "mismatch" else "invalid"
                keys = (problem.loc.removeprefix("/"),) if problem.key else ()
                yield self.reason(cause, problem.entry, problem.message, keys)
        harmful = next((row for row in self.scanned.findings if row.reason == "harmful"), None)
        if harmful is not None:
            message = f"do not load it: {harmful.message}"
            yield self.reason("harmful", DATA_ENTRY, message, (), f"sbformat scan {self.name}")
        elif self.scanned.verdict == "broken":
            yield self.reason("invalid", DATA_ENTRY, "a part of it cannot be loaded", (), f"sbformat scan {self.name}")

    def check_calls(self, stated: Collection[str]) -> Iterator[TargetReason]:
        """Yield which pickles call what is not known in that way, where the names themselves are no reason."""
        for row in self.scanned.findings:
            if row.verdict == "dangerous" and row.reason != "harmful" and (row.key or "") not in stated:
                yield self.reason("unchecked", row.entry or DATA_ENTRY, row.message, filter(None, [row.key]))

    def check_algorithm(self) -> Iterator[TargetReason]:
        """Yield why the release has no such algorithm, or why it needs an environment."""
        name, release = self.archive.algorithm.name, self.environment.release
        row = ALGORITHMS.get(name or "")
        since = None if row is None else find(next(iter(row.policies.values()))).since
        if name == "HER":
            message = f"HER is a replay buffer since SB3 {changes.DICT_SPACES}, not an algorithm"
            yield self.reason("algorithm", DATA_ENTRY, message, ("model_class",))
        elif since is not None and release < since:
            install = f"pip install 'stable-baselines3>={since}' 'sb3-contrib>={since}'"
            yield TargetReason(
                "algorithm", DATA_ENTRY, (), f"sb3-contrib has {name} since {since}, not in {release}", (install,)
            )
        elif row is not None and row.module.startswith(_CONTRIB) and not self.environment.has_contrib:
            install = f"pip install sb3-contrib~={release}.0"
            yield TargetReason(
                "algorithm", DATA_ENTRY, (), f"{name} is in sb3-contrib, which is not installed", (install,)
            )
        with suppress(SbformatError):
            buffer = self.archive.decode("replay_buffer_class") if "replay_buffer_class" in self.archive.data else None
            if name == "HER" or (isinstance(buffer, Reference) and buffer.pair == HER_BUFFER):
                message = "HerReplayBuffer needs the environment when it is loaded"
                load = f"{self.algorithm or name}.load({quote(self.name)}, env=env)"
                yield TargetReason("environment", DATA_ENTRY, ("replay_buffer_class",), message, (load,))

    def check_names(self) -> Iterator[TargetReason]:
        """Yield which pickles use names that are missing, one reason for all keys with the same cause."""
        keys: dict[tuple[Cause, str], list[str]] = {}
        code: list[str] = []
        try:
            blobs = {key: value for key, value in self.archive.data.items() if isinstance(value, Serialized)}
        except SbformatError:
            return  # an invalid entry
        budget = Budget(self.archive.limits)
        for key, value in blobs.items():
            try:
                log = decode_pickle(value.pickle, budget).log
            except SbformatError as error:
                if isinstance(value, LargeValue):
                    drop = f"sbformat edit {self.name} -o NEW.zip --unset {shlex.quote(key)}"
                    yield self.reason("unchecked", DATA_ENTRY, f"not checked: {error.message}", (key,), drop)
                else:
                    yield self.reason("invalid", DATA_ENTRY, f"it cannot be decoded: {error.message}", (key,))
                continue
            for node in log:
                if type(node) is Call:
                    if "by value" in find_called(node).uses and key not in code:
                        code.append(key)
                    if _is_code(node) and type(node.args) is tuple:
                        self.pythons.add(PYTHONS.get(len(node.args), "unknown"))
                pair = _find_name(node)
                is_judged = pair is not None and ".".join(pair) not in self.allowed
                why = _judge_name(pair, self.environment) if is_judged else None  # type: ignore[arg-type]
                if why is not None and key not in keys.setdefault(why, []):
                    keys[why].append(key)
        for (cause, message), concerned in keys.items():
            yield self.reason(cause, DATA_ENTRY, message, concerned, self.advise(cause, message))
        yield from self.check_python(code)

    def check_python(self, keys: list[str]) -> Iterator[TargetReason]:
        """Yield why functions and classes that are pickled by value are not loaded."""
        if not keys:
            return
        saved = None
        with suppress(SbformatError):
            info = self.archive.system_info
            saved = None if info is None else parse_release(dict(info.fields).get("Python"))
        self.code = frozenset(keys)
        here = self.environment.python
        if saved is not None and here is not None:
            if saved == here:
                return
            if min(saved, here) >= changes.CODE_ARGUMENTS:  # such code is created, and never runs
                keys = [key for key in keys if key not in RECREATED]
        if not keys:
            return
        own = str(saved) if saved else " and ".join(sorted(self.pythons)) or "unknown"
        other = f", not of {here}" if here else ""
        message = f"functions or classes pickled by value are bytecode of Python {own}{other}: no other runs it"
        is_possible = saved is not None and saved >= changes.oldest_python(self.environment.release)
        first = (
            f"load it with Python {own}, which saved it; --target installed checks that there" if is_possible else ""
        )
        yield self.reason("python", DATA_ENTRY, message, keys, first)

    def advise(self, cause: Cause, message: str) -> str:
        """Return what helps against a name that is missing, before ``rebuild``."""
        if cause == "numpy" and self.environment.release >= changes.GYMNASIUM:  # gym 0.21 needs numpy 1
            return "pip install 'numpy<2'" if "removed" in message else "pip install 'numpy>=2'"
        if cause == "class" and "importable" in message:
            return "make it importable there; --allow NAME says that it is"
        if cause == "cloudpickle":
            return "pip install 'cloudpickle<3'" if "removed" in message else "pip install -U cloudpickle"
        return ""

    def check_data(self, report: RebuildReport, stated: Collection[str]) -> Iterator[TargetReason]:
        """Yield the keys that SB3 misses, refuses or reads as something else, other than those that are stated."""
        rows = [row for row in report.rows if row.entry == DATA_ENTRY and row.key]
        parts = {row.key.partition("/")[0] for row in rows if row.key and "/" in row.key}
        old: list[str] = []
        for row in rows:
            if not row.key or row.key in parts:  # the rows of its parts say what is different
                continue
            key, is_below = row.key.partition("/")[0], "/" in row.key
            if key in stated or (key in self.code and key in SCHEDULE_KEYS) or key in _NOT_COMPARED:
                continue
            if row.key in changes.RENAMED or row.key in changes.REMOVED:
                old.append(row.key)
                continue
            if row.action == "dropped":
                is_reason = row.is_finding or (is_below and not row.key.endswith("/device"))
                is_reason = is_reason or key in EXCLUDED or key in METHODS
            else:
                is_reason = row.action == "translated" and _is_changed(row)
            if is_reason:
                verb = "it has to be changed" if row.action == "translated" else "SB3 does not accept it"
                yield self.reason("data", DATA_ENTRY, f"{verb}: {row.message}", (row.key,))
        if old:
            message = f"SB3 {self.environment.release} does not read keys that were renamed or removed before"
            yield self.reason("data", DATA_ENTRY, message, old)

    def check_entries(self, rebuilt: Rebuilt) -> Iterator[TargetReason]:
        """Yield the entries that SB3 refuses, misses, or continues differently from."""
        old, new = self.archive.parameters, rebuilt.archive.parameters
        notes = {row.entry: row.message for row in rebuilt.report.rows if row.key is None}
        for name in (*old, *(name for name in new if name not in old)):
            entry = name + PTH_SUFFIX
            if name not in old or name not in new:
                message = "it is missing" if name not in old else notes.get(entry, "SB3 has no such part")
                yield self.reason("optimizer" if OPTIMIZER_WORD in name else "network", entry, message)
                continue
            if any(isinstance(leaf.value, ArrayInfo) for leaf in old[name].leaves()):
                message = (
                    "it contains numbers of numpy, which torch.load refuses with weights_only=True, as SB3 calls it"
                )
                yield self.reason("optimizer" if OPTIMIZER_WORD in name else "network", entry, message)
            elif OPTIMIZER_WORD in name:
                if not self.fits_optimizer(old[name].tree, new[name].tree):
                    yield self.reason("optimizer", entry, f"SB3 cannot continue from it as it is: {notes.get(entry)}")
            elif why := _compare_tensors(old[name], new[name]):
                yield self.reason("network", entry, why)
        for problem in iter_problems(rebuilt.archive):
            is_vouched = any(name in problem.message for name in self.allowed)  # the network of an allowed class
            if (problem.kind == "unchecked" and not is_vouched) or problem.level == "error":
                yield self.reason("unchecked", problem.entry, problem.message)
        pairs = (self.archive.pytorch_variables, rebuilt.archive.pytorch_variables)
        before, after = (set() if part is None else set(part.tensors()) for part in pairs)
        if before != after:
            yield self.reason("network", PYTORCH_VARIABLES_ENTRY, "its variables are not those of the algorithm")

    def fits_optimizer(self, old: Any, new: Any) -> bool:
        """Return whether SB3's optimizer continues from a state as it is stored, as it does from the rebuilt one."""
        before, after = ([len(group["params"]) for group in tree["param_groups"]] for tree in (old, new))
        since = changes.ONE_NETWORK_OPTIMIZER
        is_cut = before == [2 * count for count in after] and self.environment.release >= since
        is_cut = is_cut and ALGORITHMS[self.algorithm].kind == "q"  # SB3 leaves the rest out, with a warning
        options, needed = (
            [{key: value for key, value in group.items() if key != "params"} for group in tree["param_groups"]]
            for tree in (old, new)
        )
        return (before == after or is_cut) and len(old["state"]) == len(new["state"]) and options == needed

    @property
    def algorithm(self) -> str:
        """The algorithm that loads the archive."""
        return self.rebuilt.report.algorithm if self.rebuilt is not None else ""


def _is_code(node: Call) -> bool:
    """Return whether a call makes a code object."""
    func = node.func
    if type(func) is Global:
        return func.pair == ("types", "CodeType")
    return type(func) is Call and find_called(func).role == "builtin_type" and func.args == ("CodeType",)


def _find_name(node: object) -> Pair | None:
    """Return the name that a part of a pickle imports, or a module and an empty name."""
    if type(node) is Global:
        return node.pair
    if type(node) in (Extension, Persistent):
        return ("?", "")  # what only the program that saved it can look up
    if type(node) is Call and find_called(node).role == "module":
        args: Any = node.args
        return (args[0], "") if len(args) == 1 and type(args[0]) is str else ("?", "")
    return None


_NOT_COMPARED: Final = frozenset({*RECREATED, "tensorboard_log", "observation_space", "action_space"})
"""Keys whose values make no difference once they are loaded, and spaces, which only get another random generator."""


def _is_changed(row: Row) -> bool:
    """Return whether a value of the result is another one, and not only encoded again: numpy's scalars are numbers."""
    old = row.old["value"] if isinstance(row.old, dict) and row.old.get("kind") == "scalar" else row.old
    return bool(old != row.new) and row.key not in SCHEDULE_KEYS


def _compare_tensors(old: StateDict, new: StateDict) -> str:
    """Return how names and shapes of tensors differ from those that SB3 makes, or an empty text."""
    before, after = ({name: tuple(info.shape) for name, info in part.tensors().items()} for part in (old, new))
    if before == after:
        return ""
    lacking = [name for name in after if before.get(name) != after[name]]
    unexpected = [name for name in before if name not in after]
    words = (("has no", lacking), ("has", unexpected))
    shown = [
        f"{word} {quote(names[0])}{f' and {len(names) - 1} more' if names[1:] else ''}"
        for word, names in words
        if names
    ]
    return f"names or shapes are not those of the network: it {', and '.join(shown)}"
