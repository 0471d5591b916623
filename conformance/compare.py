"""Compare decoders on mutants of the vectors (README.md). Standard library only.

python compare.py --decoder "python harness/python/decode.py" --decoder "node harness/javascript/decode.js"
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE)]

from conformance.file_mutants.layers import LAYERS, Mutants, Seed  # noqa: E402
from conformance.runner.checks import describe_difference, read_outcome  # noqa: E402
from conformance.runner.commands import Command, Crash, Request, Unknown, open_command  # noqa: E402
from conformance.runner.comparison import compare_predictions  # noqa: E402
from conformance.runner.vectors import decode_file, list_arguments, list_implementations, read_vectors  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECURSION_LIMIT = 10_000
KINDS = ("accept", "value", "outcome", "crash")
"""One accepts and another refuses; different values; refused for different reasons; the protocol was violated."""
BATCHED = ("pickle_opcodes=", "pickle_nodes=", "pickle_memo=", "pickle_stack=", "pickle_marks=", "memory_bytes=")
"""Limits with which decoders may compare counts late (FORMAT.md 5.3), so that they may differ on what is near a limit."""


@dataclass(frozen=True)
class Finding:
    """What the decoders answered for a mutant."""

    layer: str
    number: int
    mutant: Seed
    kind: str
    """One of ``KINDS``; or ``accepted`` or ``refused`` by all; or ``unknown``: one does not know an argument."""
    answers: list[str]
    """Of each decoder, for people."""


def ask(decoder: Command, mutant: Seed) -> tuple[str, Any, str]:
    """Run a decoder on a mutant; return the kind of its answer, the value or outcome, and a text for people."""
    asked: dict[str, Any] = {"arguments": mutant.arguments}
    if mutant.question is not None:
        asked["input"] = mutant.question
    try:
        with list_arguments(asked) as arguments:
            answer = decoder.run(Request(arguments, mutant.content))
        if answer.is_accepted:
            return "accepted", answer.value, "accepted"
        outcome = read_outcome(answer)
    except Unknown as error:
        return "unknown", None, f"unknown argument {error}"
    except (Crash, OSError) as error:
        return "crash", None, f"crash: {error}"
    message = str(answer.value.get("message", ""))
    return "refused", outcome, f"{outcome}: {message}" if message else outcome


def describe_values(mutant: Seed, wanted: Any, found: Any) -> str:
    """Describe the first difference between two answers; of policies, between actions and states."""
    if mutant.question is None:
        return describe_difference(wanted, found)
    steps = [
        [{key: step[key] for key in ("action", "state") if key in step} for step in value["policy"]["steps"]]
        for value in (wanted, found)
    ]
    return compare_predictions(*steps, mutant.tolerance)


def examine(layer: str, number: int, mutant: Seed, decoders: Sequence[Command]) -> Finding:
    """Run all decoders on a mutant, and compare the others with the first."""
    answers = [ask(decoder, mutant) for decoder in decoders]
    texts = [text for _, _, text in answers]
    states = {state for state, _, _ in answers}
    first = answers[0]
    if "crash" in states:
        kind = "crash"
    elif "unknown" in states:
        kind = "unknown"
    elif len(states) > 1:
        kind = "accept"
    elif first[0] == "refused":
        kind = "outcome" if len({outcome for _, outcome, _ in answers}) > 1 else "refused"
    else:
        differences = [describe_values(mutant, first[1], value) for _, value, _ in answers[1:]]
        kind = "value" if any(differences) else "accepted"
        texts[1:] = [difference or "accepted" for difference in differences]
    return Finding(layer, number, mutant, kind, texts)


def read_seeds(files: Sequence[str]) -> list[Seed]:
    """Read the vectors that decoders accept, and other files."""
    seeds = [
        Seed(
            vector["name"],
            decode_file(vector),
            tuple(vector.get("arguments", ())),
            vector.get("input"),
            vector.get("tolerance", 0.0),
        )
        for vector in read_vectors()
        if (vector["kind"] == "decode" or (vector["kind"] == "policy" and len(list_implementations(vector)) > 1))
        and "expect" in vector
        and not any(word.startswith(BATCHED) for word in vector.get("arguments", ()))
    ]
    for path in files:
        with open(path, "rb") as file:
            seeds.append(Seed(path, file.read()))
    return seeds


def run_layer(mutants: Mutants, options: argparse.Namespace, decoders: Sequence[Command]) -> Iterator[Finding]:
    """Compare the decoders on the mutants of a layer, in parallel; yield in the order of the numbers."""
    limits = tuple(word for limit in options.limit for word in ("--limit", limit))

    def run(number: int) -> Finding:
        made = mutants.make(number)
        return examine(mutants.name, number, replace(made, arguments=(*made.arguments, *limits)), decoders)

    numbers = range(options.mutants) if options.mutant is None else [options.mutant]
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        yield from pool.map(run, numbers)


# -- the report ---------------------------------------------------------------------------------------


def group_key(finding: Finding) -> tuple[str, ...]:
    """Return what findings of the same cause have in common: the answers without numbers and quoted texts."""
    answers = (re.sub(r"'[^']*'|\"[^\"]*\"|[0-9a-f]{16,}|[0-9]+", "*", answer)[:100] for answer in finding.answers)
    return finding.layer, finding.kind, *answers


def print_findings(findings: Sequence[Finding], seed: int, shown: int) -> None:
    """Print disagreements by cause, those in the outcome alone last, with a mutant of each."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(group_key(finding), []).append(finding)
    order = ("crash", "accept", "value", "outcome")
    rows = sorted(groups.values(), key=lambda group: (order.index(group[0].kind), -len(group)))
    for group in rows[:shown]:
        first = group[0]
        print(f"{first.kind}: {len(group)} of {first.layer}, as --layer {first.layer} --seed {seed} "
              f"--mutant {first.number} ({first.mutant.name} {shlex.join(first.mutant.arguments)})")  # fmt: skip
        for letter, answer in zip("ABCDEFGH", first.answers):
            print(f"    {letter}: {answer[:200]!r}"[:220])
    if len(rows) > shown:
        print(f"{len(rows) - shown} more causes; --show N prints more")


def print_table(counts: Counter[tuple[str, str]]) -> None:
    """Print the number of mutants by layer and result."""
    columns = ("accepted", "refused", "unknown", *KINDS)
    print(f"{'':16}" + "".join(f"{column:>10}" for column in columns))
    for layer in dict.fromkeys(layer for layer, _ in counts):
        print(f"{layer:16}" + "".join(f"{counts[layer, column]:>10}" for column in columns))


def save_finding(folder: str, finding: Finding, seed: int) -> None:
    """Write a mutant, and what the decoders answered."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{finding.kind}-{finding.layer}-{seed}-{finding.number}")
    with open(f"{path}.bin", "wb") as file:
        file.write(finding.mutant.content)
    described = {"vector": finding.mutant.name, "arguments": finding.mutant.arguments, "answers": finding.answers}
    with open(f"{path}.json", "w", encoding="utf-8") as text:
        json.dump(described, text, indent=1)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(
        "compare.py", description="Compare decoders on mutants of the vectors.", allow_abbrev=False
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="files to change in addition to the vectors")
    parser.add_argument(
        "--decoder", action="append", type=shlex.split, required=True, metavar="COMMAND",
        help="two or more; each is compared with the first",
    )  # fmt: skip
    parser.add_argument("--layer", action="append", choices=tuple(LAYERS), help="only mutants of this layer")
    parser.add_argument("--mutants", type=int, default=1000, metavar="N", help="of each layer (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="other mutants for each seed (default: 0)")
    parser.add_argument("--mutant", type=int, metavar="N", help="only the mutant of this number")
    parser.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", help="of the decoders")
    parser.add_argument("--save", metavar="FOLDER", help="write the mutants on which decoders disagree")
    parser.add_argument("--show", type=int, default=40, metavar="N", help="causes that are printed (default: 40)")
    parser.add_argument("--strict", action="store_true", help="fail if outcomes alone differ, too")
    parser.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="for one mutant (default: 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="number of parallel mutants")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the decoders; return 0 if they agree."""
    sys.setrecursionlimit(RECURSION_LIMIT)
    parser = make_parser()
    options = parser.parse_args(arguments)
    if len(options.decoder) < 2:
        parser.error("expected two or more --decoder")
    if options.mutants < 1:
        parser.exit(2, f"{parser.prog}: expected a number >= 1 for --mutants, got {options.mutants}\n")
    try:
        seeds = read_seeds(options.files)
    except OSError as error:
        parser.exit(2, f"{parser.prog}: cannot read {error.filename!r}: {error.strerror}\n")
    decoders = [open_command(command, options.timeout, batch="auto") for command in options.decoder]
    counts: Counter[tuple[str, str]] = Counter()
    findings: list[Finding] = []
    try:
        for name in options.layer or LAYERS:
            for finding in run_layer(Mutants(name, seeds, options.seed), options, decoders):
                counts[name, finding.kind] += 1
                if finding.kind in KINDS:
                    findings.append(finding)
                    if options.save:
                        save_finding(options.save, finding, options.seed)
    finally:
        for decoder in decoders:
            decoder.close()
    print_findings(findings, options.seed, options.show)
    print_table(counts)
    failing = KINDS if options.strict else [kind for kind in KINDS if kind != "outcome"]
    return int(any(counts[layer, kind] for layer, kind in counts if kind in failing))


if __name__ == "__main__":
    sys.exit(main())
