"""``sbformat inspect``: the contents of archives, and what belongs together in folders.

In: files and folders. Out: of one file a page (:mod:`sbformat.cli._inspect_page`) and, with ``--long``, below it all
that it contains; of several a table with a row for each
(:mod:`sbformat.cli._inspect_table`), and before it the agents of each folder with their statistics and settings.
"""

from __future__ import annotations

import json
import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sbformat
from sbformat import pkl
from sbformat.archive.hyperparameters import describe_undecoded
from sbformat.archive.kinds import OBJECTS
from sbformat.cli import _files, _many, _output, _progress
from sbformat.cli import _options as opt
from sbformat.constants import DATA_ENTRY
from sbformat.data import LargeValue, Serialized
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, escape
from sbformat.immutable import Record
from sbformat.io.opening import has_file, is_folder, join_path
from sbformat.io.urls import hide_secrets, is_url
from sbformat.limits import Budget
from sbformat.rendering import count_noun, format_size, write_numbers
from sbformat.values.render import render_json, render_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.archive.hyperparameters import Hyperparameter
    from sbformat.cli._inspect_table import TableRow
    from sbformat.cli._output import Plain
    from sbformat.folders.agents import FolderReport
    from sbformat.formats.vecnormalize import RunningMeanStd, VecNormalize
    from sbformat.limits import Limits
    from sbformat.tools.inspect import InspectReport, StateDictReport

_SENTENCE: Final = 500
_LARGE_DATA: Final = 1 << 20  # bytes of a ``data`` of which the largest keys are listed
_SMALLEST_SHARE: Final = 100  # those that are at least this part of it
_JSON_BITS: Final = 64
_JSON_TEXT: Final = 200
_NETWORK_PARTS: Final = ("inputs", "preprocessing", "layers", "heads", "postprocessing", "states")

INSPECT: Final = opt.Command(
    example="sbformat inspect agent.zip",
    description="Show what a file is, its verdict, spaces, network, training and changed hyper-parameters.",
    options=(
        opt.FILES,
        opt.flag("--long", "show everything, with all tensors; of several files too, which are a table otherwise"),
        opt.option(
            "--columns",
            "NAME,NAME",
            "columns of the table: algorithm, gamma, ...; by default those that differ",
            type=opt.parse_columns,
        ),
        opt.option("--sort", "NAME", "sort the table by a column: path, learning_rate, ..."),
        opt.flag("--reverse", "reverse the order of the table"),
        opt.flag("--system", "compare the saved system with this one"),
        opt.repeated("--blobs", "KEY", "list what a pickle of data holds; repeatable"),
        opt.flag("--opcodes", "with --blobs: its opcodes with their offsets"),
        opt.REPORT,
        opt.MANY,
        opt.reading(*opt.TABLES),
    ),
)


class InspectResult(Record):
    """Result of a worker process for one file: the rendered text, which is small and picklable."""

    status: int
    json: str | None = None
    shown: Sequence[tuple[Any, ...]] = ()
    failure: dict[str, Any] | None = None
    """The report of a file that could not be read."""
    row: TableRow | None = None
    """With a table of all files: the row of this one."""


def run_inspect(args: argparse.Namespace) -> int:
    """Inspect each file; return 1 when something in it could not be read, 2 when that is the whole file."""
    import sbformat.reader
    import sbformat.tools.inspect

    _many.use_absolute_paths(args)
    paths = list(_files.expand_paths(args))
    chooses_columns = args.columns is not None or args.sort is not None or args.reverse
    if chooses_columns and args.format == "json":
        raise opt.UsageError("--columns, --sort and --reverse: expected them with a table, not with --format json")
    folders = [] if chooses_columns or args.format in opt.TABLES else _describe_folders(args)
    shows_each = args.long or args.system or args.blobs
    args.as_table = args.format in opt.TABLES or chooses_columns
    args.as_table |= args.format == "text" and len(paths) > 1 and not shows_each
    if args.as_table:
        import sbformat.cli._inspect_table  # noqa: F401 -- imported before processes are forked

    status = _files.EXIT_FINE
    results: list[InspectResult] = []
    printer = _output.Plain() if args.format == "json" else _output.make_printer()
    if args.format == "text":
        _print_folders(printer, folders)
    lost = partial(_make_result, report=None, args=args)
    work = partial(inspect_one, args=args)
    is_collected = args.as_table or args.format == "json"
    for done in _many.map_files(
        work, paths, args, label="inspecting", done="inspected", lost=lost, has_bar=is_collected
    ):
        status = max(status, done.status)
        if is_collected:
            results.append(done)
            continue
        if done.failure is not None:
            _output.report_failure(done.failure, lists_problems=False)
        _output.print_recorded(printer, done.shown)
    return max(status, _print_collected(results, args, folders) if is_collected else status)


def _print_collected(results: list[InspectResult], args: argparse.Namespace, folders: list[dict[str, Any]]) -> int:
    """Print the results of all files together, and return the exit status of that."""
    _output.report_failures(done.failure for done in results if done.failure is not None)
    if args.format == "json":
        _output.print_json("inspect", [done.json for done in results if done.json is not None], folders=folders)
        return _files.EXIT_FINE
    from sbformat.cli import _inspect_table

    try:
        rows = [done.row for done in results if done.row is not None]
        rows = _inspect_table.sort_rows(rows, args.sort, is_reversed=args.reverse)
        if args.format == "csv":
            _inspect_table.print_csv(rows, args.columns)
        else:
            printer = _output.make_printer(form=args.format)
            _inspect_table.print_text(printer, rows, args.columns, with_notes=args.format == "text")
    except MissingEntryError as error:
        _files.write_remark(_files.remove_hint(str(error), error.hint), error.hint)
        return _files.EXIT_COULD_NOT
    return _files.EXIT_FINE


def inspect_one(path: str, args: argparse.Namespace) -> InspectResult:
    """Inspect one file; runs in a worker process when there are many."""
    from sbformat.tools.inspect import inspect

    found: list[tuple[Archive, InspectReport]] = []

    def work() -> dict[str, Any]:
        with _progress.count_file("reading", path) as progress:
            archive = _files.read_in_place(path, args, on_unknown="inert", progress=progress, warns=False)
            report = inspect(archive)
        broken = tuple(row._replace(message=opt.name_option(row.message)) for row in report.broken)
        why = report.network_error and opt.name_option(report.network_error)
        found.append((archive, report._replace(broken=broken, network_error=why)))
        parts: dict[str, Any] = {}
        if args.system:
            parts["system"] = [row._asdict() for row in sbformat.compare_system(archive)]
        if args.blobs:
            parts["blobs"] = [_describe_blob(archive, key, with_opcodes=args.opcodes) for key in args.blobs]
        return parts

    outcome = _files.report_errors(path, work)
    if outcome["outcome"] == UnsupportedError.outcome and path not in args.paths:
        from sbformat.folders.listing import is_other_zip

        if is_other_zip(path):  # of something else than an agent, found in a folder
            return InspectResult(_files.EXIT_FINE)
    archive, report = found[0] if found and outcome["outcome"] == "ok" else (None, None)
    return _make_result(outcome, report, args, archive)


def _make_result(
    outcome: dict[str, Any], report: InspectReport | None, args: argparse.Namespace, archive: Archive | None = None
) -> InspectResult:
    failure = outcome if report is None else None
    values = (report.hyperparameters or {}).values() if report is not None else ()
    is_partial = (report is not None and report.broken) or any(found.how == "left out" for found in values)
    is_partial = is_partial or any(row["broken"] for row in outcome.get("blobs", ()))
    partial_status = _files.EXIT_FINDINGS if is_partial else _files.EXIT_FINE
    status = _files.EXIT_COULD_NOT if report is None else partial_status
    if args.format == "json":
        text = _output.render_report({**outcome, **(_describe_report(report) if report else {})})
        return InspectResult(status, json=text, failure=failure)
    if args.as_table:
        from sbformat.cli._inspect_table import make_row

        return InspectResult(status, failure=failure, row=make_row(outcome, report, archive))
    recorder = _output.Recorder()
    if report is not None and archive is not None:
        _print_text(recorder, outcome, report, archive, args)
    return InspectResult(status, shown=recorder.recorded, failure=failure)


# -- text ---------------------------------------------------------------------------------------------


def _print_text(
    printer: Plain, outcome: dict[str, Any], report: InspectReport, archive: Archive, args: argparse.Namespace
) -> None:
    from sbformat.cli._inspect_page import make_page, print_page

    printer.line(escape(outcome["path"], 1000), style="bold")
    print_page(printer, make_page(outcome["path"], report, archive, _files.make_limits(args), has_details=args.long))
    if args.long:
        print_contents(printer, report)
    printer.table("broken", ("entry", "outcome", "why"), report.broken, longest=_SENTENCE)
    compared = [
        (row["name"], row["saved"], row["here"], "matters" if row["matters"] else "", row["why"])
        for row in outcome.get("system", ())
    ]
    printer.table("system", ("", "saved", "here", "", "why"), compared)
    for blob in outcome.get("blobs", ()):
        printer.line(f"\n  {escape(blob['key'])}")
        for row in blob.get("opcodes", ()):
            printer.line(f"    {row['offset']:>8}  {row['name']}  {row['argument']}".rstrip())
        for line in (*blob.get("lines", ()), *filter(None, [blob["broken"]])):
            printer.line(f"    {line}")
    if not args.long:
        printer.line("\n  --long shows everything: all hyper-parameters, entries, layers and tensors")
    printer.line()


def print_contents(printer: Plain, report: InspectReport) -> None:
    """Print everything that is in a file, and not on the page above it."""
    if report.system_info:
        printer.table("system info", (), report.system_info.items())
    printer.table("largest keys of data", ("key", "type", "JSON"), _list_largest(report), right=(2,))
    if report.hyperparameters is not None:
        title = "attributes" if report.format in OBJECTS else "hyper-parameters (data)"
        printer.table(title, (), [(key, _render_data_value(key, row)) for key, row in report.hyperparameters.items()])
    if report.statistics is not None:
        rows = list_statistics(report.statistics, with_settings=report.format not in OBJECTS)
        printer.table("normalization", (), rows, longest=_SENTENCE)
    entries = [
        (
            row.name,
            format_size(row.size),
            "stored" if row.size == row.compressed_size else f"deflated, {format_size(row.compressed_size)}",
        )
        for row in report.entries
    ]
    printer.table("entries", ("name", "size", "stored as"), entries, right=(1,))
    if report.network is not None:
        from sbformat.policies.describe import list_tables

        for table in list_tables(report.network):
            printer.table(f"network: {table.title}", table.header, table.rows, right=table.right)
    for state_dict in report.state_dicts:
        _print_state_dict(printer, state_dict)
    printer.table("not checked, because it was not fetched", ("entry", "what"), report.not_checked, longest=_SENTENCE)


def _list_largest(report: InspectReport) -> list[tuple[str, str, str]]:
    """Return the keys whose values are at least a hundredth of a ``data`` of more than 1 MiB, the largest first."""
    size = next((entry.size for entry in report.entries if entry.name == DATA_ENTRY), 0)
    if size < _LARGE_DATA or not report.data:
        return []
    rows = []
    for key, value in report.data.items():
        is_blob = isinstance(value, Serialized)
        text = value.nbytes if isinstance(value, LargeValue) else len(value.text if is_blob else json.dumps(value))
        rows.append((text, key, (value.type or "") if is_blob else "JSON"))
    rows = sorted((row for row in rows if row[0] * _SMALLEST_SHARE >= size), key=lambda row: -row[0])
    return [(escape(key, 80), escape(type_, 80), format_size(text)) for text, key, type_ in rows]


def _render_data_value(key: str, found: Hyperparameter) -> str:
    value = found.value
    if found.how == "json":
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, Serialized):
        return f"{describe_undecoded(value)}: {opt.name_option(found.why or '')}"
    return render_line(value, key)


def _print_state_dict(printer: Plain, report: StateDictReport) -> None:
    count, size = count_noun(len(report.tensors), "tensor"), format_size(report.nbytes)
    title = f"{report.name}: {count}, {report.numel:,} items, {size}"
    if not report.tensors:
        printer.line(f"\n  {title}")
        return
    rows = []
    for row in report.tensors:
        notes = [] if row.kind == "tensor" else [row.kind]
        notes += ["requires grad"] if row.requires_grad else []
        notes += [row.location] if row.location not in (None, "cpu") else []
        notes += [f"shares {row.shares_storage_with}"] if row.shares_storage_with else []
        shape = " x ".join(map(str, row.shape)) or "scalar"
        rows.append((row.name or "(the whole entry)", row.dtype, shape, format_size(row.nbytes), ", ".join(notes)))
    printer.table(title, ("tensor", "dtype", "shape", "size", ""), rows, right=(3,))


# -- JSON ---------------------------------------------------------------------------------------------


def _describe_report(report: InspectReport) -> dict[str, Any]:
    """Return the contents of a file."""
    return {
        "format": report.format,
        "stable_baselines3_version": report.stable_baselines3_version,
        "algorithm": report.algorithm._asdict() if report.algorithm is not None else None,
        "policy_class": report.policy_class,
        "system_info": report.system_info,
        "data": None if report.hyperparameters is None else _describe_data(report, report.hyperparameters),
        "entries": [
            {
                "name": entry.name,
                "size": entry.size,
                "compressed_size": entry.compressed_size,
                "method": "deflated" if entry.method else "stored",
                "crc32": f"{entry.crc:08x}",
            }
            for entry in report.entries
        ],
        "state_dicts": [
            {
                "name": state_dict.name,
                "numel": state_dict.numel,
                "nbytes": state_dict.nbytes,
                "tensors": [row._asdict() for row in state_dict.tensors],
                "values": {path: _describe_leaf(value) for path, value in state_dict.values.items()},
            }
            for state_dict in report.state_dicts
        ],
        "extra": list(report.extra),
        "notes": list(report.notes),
        "network": _describe_network(report),
        "statistics": describe_statistics(report.statistics),
        "broken": [row._asdict() for row in report.broken],
        "not_checked": [row._asdict() for row in report.not_checked],
    }


def _describe_network(report: InspectReport) -> dict[str, Any] | None:
    """Return the network of a policy, or why it is not known; None for a file without a policy."""
    network = report.network
    if network is None:
        return None if report.network_error is None else {"reason": report.network_error}
    rows = {name: [row._asdict() for row in getattr(network, name)] for name in _NETWORK_PARTS}
    sampling = {**network.sampling._asdict(), "parameters": dict(network.sampling.parameters)}
    return {**network._asdict(), **rows, "sampling": sampling}


def _describe_data(report: InspectReport, hyperparameters: Mapping[str, Hyperparameter]) -> dict[str, Any]:
    """Return the values of ``data``; a blob as its type, size and decoded value, never its bytes."""
    made: dict[str, Any] = dict(report.data or {})
    for key, value in made.items():
        if isinstance(value, Serialized):
            decoded, how, why = hyperparameters[key]
            shown = None if decoded is value else render_json(decoded, key)
            blob = {
                "type": value.type,
                "bytes": value.nbytes,
                "how": how,
                "value": shown,
                "why": why and opt.name_option(why),
            }
            made[key] = {"serialized": blob}
    return made


def _describe_blob(archive: Archive, key: str, *, with_opcodes: bool) -> dict[str, Any]:
    """Return the inert tree of a blob, or its opcodes up to the first that cannot be read."""
    from sbformat.pkl.disassembly import opcodes, tree

    value = archive.data.get(key)
    if not isinstance(value, Serialized):
        blobs = [name for name, item in archive.data.items() if isinstance(item, Serialized)]
        raise MissingEntryError(key, present=blobs, what="pickle in data")
    if isinstance(value, LargeValue):
        raise value.error
    rows: list[Any] = []
    broken = None
    try:
        if with_opcodes:
            rows.extend(row._asdict() for row in opcodes(value.pickle))
        else:
            rows.extend(tree(pkl.decode_pickle(value.pickle, Budget(archive.limits))))
    except SbformatError as error:
        broken = f"{error.outcome}: {opt.name_option(error.message)}"
    return {"key": key, "opcodes" if with_opcodes else "lines": rows, "broken": broken}


def _describe_leaf(value: object) -> object:
    """Return a value of a state dict that is not a tensor."""
    is_small = type(value) is int and value.bit_length() <= _JSON_BITS
    is_short = type(value) is str and len(value) <= _JSON_TEXT
    if value is None or type(value) in (bool, float) or is_small or is_short or value in ({}, [], ()):
        return value
    if isinstance(value, (bytes, bytearray)):
        text = f"{len(value)} bytes"
    elif isinstance(value, (set, frozenset)):
        text = f"{len(value)} items"
    elif isinstance(value, int):
        text = f"an integer of {value.bit_length()} bits"
    else:
        text = escape(value if isinstance(value, str) else repr(value))
    return {"type": type(value).__name__, "text": text}


# -- folders ------------------------------------------------------------------------------------------

_RESULTS: Final = "results.json"
_FIRST_SETTINGS: Final = (
    "algo", "env", "n_timesteps", "seed", "normalize", "n_envs", "frame_stack", "env_wrapper", "policy",
    "mean_reward", "std_reward", "n_eval_episodes", "is_deterministic",
)  # fmt: skip
"""Settings that are printed first."""
_LONGEST: Final = 160
_LONGEST_SETTINGS: Final = 1000
_MOST_SETTINGS: Final = 30
_MOST: Final = 4  # items of a list that are printed
_TRAINING: Final = ("run", "env", "curve", "best", "last")
_ABSENT: Final[tuple[object, ...]] = (None, "", [], {})
"""Values of settings that are not printed: rl_zoo3 writes all of its arguments."""
_WORDS: Final = {True: "true", False: "false", None: "null"}


def _describe_folders(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what belongs together in each folder of a command line that is not an unzipped archive."""
    limits = _files.make_limits(args)
    found = []
    for path in dict.fromkeys(args.paths):
        try:
            if not is_folder(path) or has_file(path, DATA_ENTRY):
                continue
            from sbformat.folders.agents import inspect_folder

            report = inspect_folder(path, limits=limits, exclude=args.exclude)
        except (OSError, SbformatError):  # reading the files reports it
            continue
        if report.agents:
            found.append(_describe_folder(report, limits))
    return found


def _describe_folder(report: FolderReport, limits: Limits) -> dict[str, Any]:
    from sbformat.folders.agents import describe_doubt, find_normalization
    from sbformat.folders.logs import read_training

    agents = [row._asdict() for row in report.agents]
    names = dict.fromkeys(name for row in report.agents for name in row.settings)
    names |= dict.fromkeys(row.path for row in report.others if posixpath.basename(row.path) == _RESULTS)
    settings = [_read_settings_file(report.path, name, limits) for name in names]
    for row, agent in zip(agents, report.agents):
        row["doubt"] = ""
        if agent.statistics:
            normalization, problem = find_normalization(report.path, agent, limits)
            row["doubt"] = problem or describe_doubt(agent, normalization)
    runs = {(row.logs, row.settings) for row in report.agents if row.logs}
    training = {run: read_training(report.path, *run, limits).to_json() for run in runs}
    for row, agent in zip(agents, report.agents):
        row["training"] = training.get((agent.logs, agent.settings))
    return {
        "path": hide_secrets(report.path) if is_url(report.path) else report.path,
        "agents": agents,
        "others": [row._asdict() for row in report.others],
        "settings": settings,
    }


def _read_settings_file(top: str, name: str, limits: Limits) -> dict[str, Any]:
    from sbformat.folders.settings import read_results, read_settings

    path = join_path(top, name)
    try:
        values = read_results(path, limits) if name.endswith(_RESULTS) else read_settings(path, limits)
    except (SbformatError, OSError) as error:
        return {"path": name, "values": None, "message": str(error)}
    return {"path": name, "values": _to_json(values), "message": ""}


def _to_json(value: Any) -> Any:
    """Return a value as JSON: text for what was not made."""
    from sbformat.folders.settings import Opaque

    if isinstance(value, Opaque):
        return value.text
    if isinstance(value, dict):
        return {key: _to_json(part) for key, part in value.items()}
    return [_to_json(part) for part in value] if isinstance(value, list) else value


def _print_folders(printer: Plain, folders: list[dict[str, Any]]) -> None:
    """Print the agents of each folder with their files, then settings, then files that belong to no agent.

    Nothing is printed of a folder in which nothing belongs to an agent: the table of its files is enough.
    """
    for folder in folders:
        rows = [_render_agent(agent) for agent in folder["agents"]]
        if not any(any(row[1:]) for row in rows) and not folder["settings"]:
            continue
        title = f"agents of {folder['path']}, and what belongs to them"
        header = ("agent", "", "statistics", "replay buffer", "settings", "unzipped in")
        printer.table(title, header, rows, longest=_LONGEST, leaves_out=range(len(header)))
        settings = [(row["path"], _render_settings(row)) for row in folder["settings"]]
        printer.table("settings and results", (), _merge(settings), longest=_LONGEST_SETTINGS)
        printer.table("training", _TRAINING, _list_training(folder["agents"]), right=(3, 4), longest=_LONGEST)
        problems = {
            row["path"]: row["message"]
            for agent in folder["agents"]
            for row in (agent["training"] or {}).get("problems", ())
            if row["path"] not in agent["settings"]
        }
        printer.table("logs that cannot be read", (), _merge(problems.items()), longest=_LONGEST_SETTINGS)
        printer.table("statistics", (), _merge_doubts(folder["agents"]), longest=_LONGEST_SETTINGS)
        used = {row["path"] for row in folder["settings"]}
        used |= {name for agent in folder["agents"] for name in (*agent["statistics"], agent["replay_buffer"])}
        others = [
            (
                row["path"],
                f"{row['outcome']}: {row['message']}" if row["outcome"] != "ok" else row["title"] or row["message"],
            )
            for row in folder["others"]
            if row["path"] not in used
        ]
        printer.table("other files", (), _merge(others), longest=_LONGEST)
        printer.line()


def _list_training(agents: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return a row for each run: its evaluations, or else the means of its training.

    A run is called by the folder of its agents, if no other run has it, and else by its first agent.
    """
    runs: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for agent in agents:
        runs.setdefault(tuple(agent["logs"]), []).append(agent)
    folders = [posixpath.dirname(sharing[0]["path"]) for sharing in runs.values()]
    rows = []
    for folder, sharing in zip(folders, runs.values()):
        found = sharing[0]["training"] or {}
        curve = found.get("evaluations") or found.get("training")
        if curve is None:
            continue
        is_alone = bool(folder) and folders.count(folder) == 1
        name = folder if is_alone else _name_first([agent["path"] for agent in sharing])
        noun = "evaluations" if found.get("evaluations") else "means of 100 episodes"
        points = [f"{curve[at]['reward']:,.6g} at {curve[at]['steps']:,}" for at in ("best", "last")]
        rows.append((name, found["env"] or "", f"{curve['points']:,} {noun}", *points))
    return rows


def _name_first(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"


def _merge(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return rows of a file and a text about it, of which files with the same text share one."""
    files: dict[str, list[str]] = {}
    for name, text in rows:
        files.setdefault(text or name, []).append(name)
    return [(_name_first(names), text if text != names[0] else "") for text, names in files.items()]


def _merge_doubts(agents: list[dict[str, Any]]) -> list[tuple[str]]:
    """Return each doubt about statistics once: those that differ in folders and numbers of files alone are counted."""
    alike: dict[str, list[str]] = {}
    for doubt in dict.fromkeys(agent["doubt"] for agent in agents if agent["doubt"]):
        alike.setdefault(re.sub(r"[^\s']*/|\d+", "", doubt), []).append(doubt)
    ends = (f"; {len(doubts) - 1:,} more like this" if len(doubts) > 1 else "" for doubts in alike.values())
    return [(doubts[0] + end,) for doubts, end in zip(alike.values(), ends)]


def _render_agent(agent: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of an agent; its files are named from its own folder."""
    here = posixpath.dirname(agent["path"])

    def shorten(*names: str | None) -> str:
        shown = [posixpath.relpath(name, here or ".") for name in names if name is not None]
        folders = ["", *map(posixpath.dirname, shown)]  # a folder is named once
        return ", ".join(
            posixpath.basename(name) if before == folder else name
            for name, before, folder in zip(shown, folders, folders[1:])
        )

    role = "" if agent["role"] == "agent" else agent["role"]
    files = (shorten(*agent["statistics"]), shorten(agent["replay_buffer"]), shorten(*agent["settings"]))
    return (agent["path"], role, *files, shorten(agent["unzipped"]))


def _render_settings(row: dict[str, Any]) -> str:
    if row["values"] is None:
        return f"not read: {row['message']}"
    values = row["values"]
    others = [key for key, value in values.items() if key not in _FIRST_SETTINGS and value not in _ABSENT]
    keys = [key for key in _FIRST_SETTINGS if key in values] + others
    shown = [f"{key} {_render_value(values[key])}" for key in keys[:_MOST_SETTINGS]]
    shown += [f"{len(keys) - _MOST_SETTINGS:,} more (--format json)"] if len(keys) > _MOST_SETTINGS else []
    return ", ".join(shown) or f"{len(values)} settings"


def _render_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"({len(value)} settings)"
    if isinstance(value, list):
        shown = [_render_value(part) for part in value[:_MOST]] + ["\N{HORIZONTAL ELLIPSIS}"] * (len(value) > _MOST)
        return f"[{', '.join(shown)}]"
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


# -- statistics ---------------------------------------------------------------------------------------

SETTINGS: Final = (
    "library", "training", "norm_obs", "norm_reward", "norm_obs_keys", "clip_obs", "clip_reward", "gamma", "epsilon",
)  # fmt: skip
_MOST_IN_JSON: Final = 10_000  # items of an array in JSON; ``extract`` writes all of any array
_MOST_SHOWN: Final = 8


def describe_statistics(value: VecNormalize | None) -> dict[str, Any] | None:
    """Return settings, means and variances as JSON has them."""
    if value is None:
        return None
    rms = value.obs_rms
    observations = {key: _render_rms(part) for key, part in rms.items()} if isinstance(rms, dict) else _render_rms(rms)
    settings = {name: getattr(value, name) for name in SETTINGS}
    return {**settings, "obs_rms": observations, "ret_rms": _render_rms(value.ret_rms)}


def _render_rms(rms: RunningMeanStd | None) -> dict[str, Any] | None:
    if rms is None:
        return None
    is_short = rms.mean.size <= _MOST_IN_JSON
    arrays = {name: getattr(rms, name).tolist() if is_short else None for name in ("mean", "var")}
    return {"shape": rms.shape, "count": rms.count, **arrays}


def list_statistics(value: VecNormalize, *, with_settings: bool) -> list[tuple[str, str]]:
    """Return settings, means and variances as rows of a table: a name, and its value.

    :param with_settings: False for a file whose settings are in another table
    """
    settings = [(name, getattr(value, name)) for name in SETTINGS] if with_settings else []
    rows = [(name, text if isinstance(text, str) else json.dumps(write_numbers(text))) for name, text in settings]
    found = value.obs_rms if isinstance(value.obs_rms, dict) else {"": value.obs_rms}
    for key, rms in found.items():
        rows += _list_rms(f"obs_rms/{key}".removesuffix("/"), rms)
    return rows + _list_rms("ret_rms", value.ret_rms)


def render_settings(value: VecNormalize) -> str:
    """Return the settings that decide how observations and rewards are normalized, in a line."""
    names = ("norm_obs", "norm_reward", "clip_obs", "epsilon", "gamma")
    return ", ".join(f"{name} {json.dumps(write_numbers(getattr(value, name)))}" for name in names)


def _list_rms(name: str, rms: RunningMeanStd | None) -> list[tuple[str, str]]:
    if rms is None:
        return []
    arrays = [(f"{name}/mean", _render_array(rms.mean)), (f"{name}/var", _render_array(rms.var))]
    return [*arrays, (f"{name}/count", repr(rms.count))]


def _render_array(array: Any) -> str:
    """Return the first numbers of an array, and the range of a long one."""
    numbers = [f"{item:.6g}" for item in array.ravel()[:_MOST_SHOWN].tolist()]
    more = array.size - len(numbers)
    if not more:
        return ", ".join(numbers) or "no numbers"
    extent = f"from {array.min():.6g} to {array.max():.6g}"
    return f"{', '.join(numbers)}, … {more:,} more, {extent}"
