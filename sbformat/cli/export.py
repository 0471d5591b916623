"""``sbformat export``: a policy as an ONNX model, as C source, or as its graph with the weights beside it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.cli import _agents, _files, _output
from sbformat.cli._hints import require_suffix
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape, quote
from sbformat.immutable import Record

if TYPE_CHECKING:
    import argparse

    from sbformat.policies.export.files import ExportReport
    from sbformat.policies.run.policy import Policy


class _Format(Record):
    title: str
    beside: str
    """The suffix of the file that is written beside the requested one; empty for none."""
    options: frozenset[str]
    """Options that other formats do not have."""


_FORMATS: Final = {
    ".onnx": _Format("an ONNX model", "", frozenset({"opset", "batch"})),
    ".c": _Format("C source", ".h", frozenset({"name"})),
    ".json": _Format("a graph with its weights", ".safetensors", frozenset()),
}
"""The formats, by the suffix of the output."""
_ACTION: Final = ("action",)
_NAME: Final = "policy"
_DIGITS: Final = 18


def configure(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export",
        example="sbformat export agent.zip -o policy.onnx",
        help="write a policy as ONNX (extra onnx), C, or JSON with its weights",
        description="Write the policy of an agent for programs without Python or torch: everything from the "
        "observation to the deterministic action, with the statistics of VecNormalize and the bounds of the action.",
    )
    parser.add_argument("path", metavar="FILE", help="an agent, or a folder with one and its statistics")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the suffix selects the format: .onnx, .c (and .h), or .json (and .safetensors)",
    )
    parser.add_argument(
        "--outputs", metavar="NAME,NAME", help="action, value, logits, ...; default: action, and all for .json"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="what SB3's guide exports: actions that are not clipped or scaled, statistics only with --vecnormalize",
    )
    _agents.add_statistics_option(parser)
    _agents.add_class_options(parser)
    parser.add_argument("--opset", type=_agents.parse_number, metavar="N", help="of .onnx: 13 to 21; default: 17")
    parser.add_argument("--batch", metavar="NAME|N", help="of .onnx: the name of the batch axis, or its size")
    parser.add_argument("--name", metavar="NAME", help="of .c: what its names begin with; default: that of OUT")
    parser.add_argument("--stochastic", action="store_true", help="refused: says how to sample the actions yourself")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    _files.add_reading_options(parser)
    parser.set_defaults(run=run, refuse=parser.error)


def run(args: argparse.Namespace) -> int:
    """Export; return 2 when it failed."""
    suffix = os.path.splitext(args.output)[1].lower()
    if suffix in _FORMATS:
        for other, form in _FORMATS.items():
            for option in sorted(form.options - _FORMATS[suffix].options):
                if getattr(args, option) is not None:
                    args.refuse(f"--{option}: expected it with an output {other}, got {escape(suffix)}")
    with _agents.collect_warnings() as warned:
        report = _files.report_errors(args.path, lambda: _export(args, suffix), outputs=_list_outputs(args, suffix))
    return _agents.finish_run(args, report, _print_text, warned)


def _export(args: argparse.Namespace, suffix: str) -> dict[str, Any]:
    if suffix not in _FORMATS:
        other = next((name for name, form in _FORMATS.items() if form.beside == suffix != ""), "")
        hint = f"; {suffix} is written beside the output {other}" if other else ""
        if not hint:
            require_suffix("export", args.output)
        message = f"expected an output that ends in {', '.join(_FORMATS)}, got {quote(args.output)}{hint}"
        raise _files.OtherFileError(args.output) from UnsupportedError(message)
    _refuse_inputs(args, suffix)
    statistics = False if args.raw and args.vecnormalize is None else _agents.read_statistics(args)
    policy = _agents.load_agent(args, statistics=statistics)
    if args.stochastic:
        from sbformat.policies.export.lowering import explain_sampling

        raise UnsupportedError(explain_sampling(policy.graph))
    try:
        report = _write(policy, args, suffix)
    except SbformatError:
        raise
    except ValueError as error:  # an option that does not fit the policy or the format
        raise ValidationError(escape(str(error), 1000)) from None
    return {
        "format": report.format,
        "algorithm": policy.algorithm,
        "files": [file._asdict() for file in report.files],
        **{
            name: [{"name": port.name, "dtype": port.dtype, "shape": port.shape, "role": port.role, "key": port.key}
                   for port in ports]
            for name, ports in (("inputs", report.inputs), ("outputs", report.outputs))
        },
        "nodes": report.nodes,
        "constants": report.constants,
        "raw": args.raw,
        "metadata": dict(report.metadata),
        "inferred": list(policy.inferred),
    }  # fmt: skip


def _refuse_inputs(args: argparse.Namespace, suffix: str) -> None:
    """Refuse outputs that are inputs.

    :raises UnsupportedError: with what is the same file
    """
    for path in (args.path, args.vecnormalize):
        for output in _list_outputs(args, suffix):
            if path is not None:
                _files.refuse_same_file(path, output)


def _list_outputs(args: argparse.Namespace, suffix: str) -> list[str]:
    """Return the files that are written."""
    beside = _FORMATS[suffix].beside if suffix in _FORMATS else ""
    if beside == ".h" and args.output.endswith(".C"):
        beside = ".H"
    return [args.output, args.output[: -len(suffix)] + beside] if beside else [args.output]


def _write(policy: Policy, args: argparse.Namespace, suffix: str) -> ExportReport:
    """Write the files of a format.

    :raises ValueError: for an option that does not fit
    """
    names = None if args.outputs is None else tuple(name.strip() for name in args.outputs.split(","))
    if suffix == ".json":
        from sbformat.policies.export.lowering import export_graph

        return export_graph(policy, args.output, outputs=names, raw=args.raw, overwrite=args.force)
    outputs = _ACTION if names is None else names
    if suffix == ".c":
        from sbformat.policies.c.export import export_c

        name = make_name(args.output) if args.name is None else args.name
        return export_c(policy, args.output, name=name, outputs=outputs, raw=args.raw, overwrite=args.force)
    from sbformat.policies.onnx import export_onnx

    options: dict[str, Any] = {} if args.opset is None else {"opset": args.opset}
    if args.batch is not None:
        options["batch"] = parse_batch(args.batch)
    return export_onnx(policy, args.output, outputs=outputs, raw=args.raw, overwrite=args.force, **options)


def parse_batch(text: str) -> str | int:
    """Return the size of a batch, or the name of its axis."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else text


def make_name(path: str) -> str:
    """Return the name of a file as one that names in C can begin with.

    >>> make_name("2 robots/walk (new).c")
    'walk_new'
    """
    from sbformat.policies.c.export import KEYWORDS, LONGEST_NAME

    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub("[^A-Za-z0-9]+", "_", stem).strip("_")
    if not name:
        return _NAME
    if name[0].isdigit() or name in KEYWORDS:
        name = f"{_NAME}_{name}"
    return name[:LONGEST_NAME].rstrip("_")


# -- text ---------------------------------------------------------------------------------------------


def _print_text(printer: _output.Plain, report: dict[str, Any]) -> None:
    suffix = os.path.splitext(report["files"][0]["path"])[1].lower()
    with_ = ["without the bounds of the action"] * report["raw"]
    with_ += ["with the statistics of VecNormalize"] * (report["metadata"]["normalized"] == "true")
    words = [
        f"{report['algorithm'] or 'unknown algorithm'} as {_FORMATS[suffix].title}",
        _output.count_noun(report["nodes"], "operation"),
        _output.count_noun(report["constants"], "constant"),
        *with_,
    ]
    printer.line(f"{escape(report['path'], 1000)}: {', '.join(words)}")
    sizes = [(file["path"], _output.format_size(file["size"])) for file in report["files"]]
    printer.table("files", (), sizes, right=(1,), longest=1000)
    for title in ("inputs", "outputs"):
        rows = [(port["name"], port["dtype"], str(tuple(port["shape"]))) for port in report[title]]
        printer.table(title, ("name", "dtype", "shape of one item"), rows)
    printer.table("inferred", (), [(sentence,) for sentence in report["inferred"]])
