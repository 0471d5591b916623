"""Run a decoder, and an encoder, over the conformance vectors (README.md). Standard library only.

python run.py --decoder "python harness/python/decode.py"
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
OUTCOMES = (
    "container failure", "data failure", "pickle failure", "tensor failure", "limit exceeded", "unsupported", "missing",
    "invalid",
)  # fmt: skip


UNKNOWN_ARGUMENT = 2
"""Exit code of a command that does not know an argument."""

Vector = dict[str, Any]
"""A row of the manifest."""


class Crash(Exception):  # noqa: N818 -- the protocol's own word
    """The command violated the protocol."""


class Unknown(Exception):  # noqa: N818 -- no error
    """The command does not know an argument: it lacks a feature."""


def run_command(command: list[str], arguments: Sequence[str], data: bytes, timeout: float) -> tuple[bool, bytes]:
    """Run a command with bytes on standard input; return whether it accepted them, and its standard output."""
    try:
        done = subprocess.run([*command, *arguments], input=data, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        message = f"no answer within {timeout:g} s"
        raise Crash(message) from None
    if done.returncode == UNKNOWN_ARGUMENT and arguments and arguments[0] != "--entry":
        raise Unknown(arguments[0])
    if done.returncode not in (0, 1) or not done.stdout.strip():
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Crash(f"exit code {done.returncode}" + "".join(f": {line}" for line in last))
    return done.returncode == 0, done.stdout


def parse_answer(output: bytes) -> Any:
    """Parse the output of a command."""
    try:
        return json.loads(output)
    except ValueError:
        message = "its output is not JSON"
        raise Crash(message) from None


def parse_refusal(output: bytes) -> str:
    """Return the outcome of a refusal."""
    found = parse_answer(output)
    if not isinstance(found, dict) or found.get("outcome") not in OUTCOMES:
        message = f"a refusal without a known outcome: {str(found)[:100]}"
        raise Crash(message)
    return found["outcome"]


def normalize(value: Any) -> Any:
    """Sort the members of all sets in a value."""
    if isinstance(value, list):
        return [normalize(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: normalize(part) for key, part in value.items()}
    for word in ("set", "frozenset"):
        if isinstance(made.get(word), list):
            made[word] = sorted(made[word], key=lambda part: json.dumps(part, sort_keys=True))
    return made


def is_same(first: Any, second: Any) -> bool:
    """Compare JSON values: True is not 1, and the order of keys is not significant."""
    return json.dumps(normalize(first), sort_keys=True) == json.dumps(normalize(second), sort_keys=True)


def find_difference(wanted: Any, found: Any, path: str = "") -> str:
    """Describe the first difference between two values."""
    if type(wanted) is type(found) and isinstance(wanted, dict) and wanted.keys() == found.keys():
        rows = ((wanted[key], found[key], f"{path}/{key}") for key in wanted)
    elif type(wanted) is type(found) and isinstance(wanted, list) and len(wanted) == len(found):
        rows = ((one, other, f"{path}/{at}") for at, (one, other) in enumerate(zip(wanted, found)))
    else:
        return f"at {path or '/'}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    return next((find_difference(*row) for row in rows if not is_same(row[0], row[1])), "")


def read_file(name: str) -> bytes:
    """Read a file in the folder of this program."""
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def check_refusal(vector: Vector, output: bytes, *, is_accepted: bool) -> str:
    """Compare a refusal, or its absence, with the outcome that a vector expects; return what is wrong."""
    if "outcome" not in vector:
        return f"refused: {parse_answer(output)}"
    if is_accepted:
        return f"accepted; {vector['outcome']!r} was expected"
    outcome = parse_refusal(output)
    return "" if outcome == vector["outcome"] else f"{outcome!r}; {vector['outcome']!r} was expected"


def check_decoder(vector: Vector, options: argparse.Namespace) -> str:
    """Run a vector of a decoder; return what is wrong, or an empty string."""
    is_accepted, output = run_command(
        options.decoder, vector.get("arguments", ()), read_file(vector["file"]), options.timeout
    )
    if "outcome" in vector or not is_accepted:
        return check_refusal(vector, output, is_accepted=is_accepted)
    wanted, found = json.loads(read_file(vector["expect"])), parse_answer(output)
    return "" if is_same(wanted, found) else find_difference(normalize(wanted), normalize(found))


def check_policy(vector: Vector, options: argparse.Namespace) -> str:
    """Run a vector of a policy; return what is wrong, or an empty string."""
    arguments = ["--predict", os.path.join(HERE, vector["input"]), *vector.get("arguments", ())]
    is_accepted, output = run_command(options.decoder, arguments, read_file(vector["file"]), options.timeout)
    if "outcome" in vector or not is_accepted:
        return check_refusal(vector, output, is_accepted=is_accepted)
    return compare_predictions(json.loads(read_file(vector["expect"])), parse_answer(output), vector["tolerance"])


def compare_predictions(wanted: Any, found: Any, tolerance: float, path: str = "") -> str:
    """Describe the first difference between two predictions; outputs that are not expected do not matter."""
    if isinstance(wanted, dict) and "items" in wanted:
        return compare_arrays(wanted, found, tolerance, path)
    rows: list[tuple[Any, Any, str]]
    if isinstance(wanted, dict) and isinstance(found, dict) and wanted.keys() <= found.keys():
        rows = [(wanted[key], found[key], f"{path}/{key}") for key in wanted]
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        rows = [(one, other, f"{path}/{at}") for at, (one, other) in enumerate(zip(wanted, found))]
    else:
        return f"at {path or '/'}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    return next(filter(None, (compare_predictions(one, other, tolerance, at) for one, other, at in rows)), "")


def compare_arrays(wanted: Any, found: Any, tolerance: float, path: str) -> str:
    """Describe the first difference between two arrays of 17.6: floats may differ by the tolerance."""
    facts = [[part.get(key) for key in ("dtype", "shape")] for part in (wanted, found) if isinstance(part, dict)]
    if len(facts) < 2 or facts[0] != facts[1] or len(wanted["items"]) != len(found.get("items", ())):
        return f"at {path}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    is_float = wanted["dtype"][1] == "f"
    for at, (one, other) in enumerate(zip(wanted["items"], found["items"])):
        if is_float and type(one) is not str and type(other) in (int, float):
            is_close = one == other or abs(one - other) <= tolerance * max(1, abs(one))
        else:
            is_close = is_same(one, other)
        if not is_close:
            return f"at {path}/{at}: {other}, not {one}"
    return ""


def check_encoder(vector: Vector, options: argparse.Namespace) -> str:
    """Run a vector of an encoder; return what is wrong, or an empty string."""
    is_accepted, output = run_command(options.encoder, (), read_file(vector["file"]), options.timeout)
    if "outcome" in vector:
        if is_accepted:
            return f"written; {vector['outcome']!r} was expected"
        outcome = parse_refusal(output)
        return "" if outcome == vector["outcome"] else f"{outcome!r}; {vector['outcome']!r} was expected"
    if not is_accepted:
        return f"refused: {parse_answer(output)}"
    if "canonical" in vector.get("features", ()) and not {"canonical"} & set(options.skip_feature):
        found = hashlib.sha256(output).hexdigest()
        if found != vector["written"]:
            return f"the bytes have the SHA-256 {found}, not {vector['written']}"
    is_accepted, output = run_command(options.decoder, (), output, options.timeout)
    if not is_accepted:
        return f"the decoder refused what was written: {parse_answer(output)}"
    wanted, found = (
        sort_entries(replace_contents_by_digests(json.loads(read_file(vector["file"])))),
        sort_entries(parse_answer(output)),
    )
    return "" if is_same(wanted, found) else find_difference(normalize(wanted), normalize(found))


def replace_contents_by_digests(value: Any) -> Any:
    """Replace the contents in an encoder's input by digests, as a decoder prints it."""
    if isinstance(value, list):
        return [replace_contents_by_digests(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: replace_contents_by_digests(part) for key, part in value.items()}
    if "items" in made and "dtype" in made:
        made["sha256"] = hashlib.sha256(base64.b64decode(made.pop("items"))).hexdigest()
    if "content" in made:
        content = base64.b64decode(made.pop("content"))
        made.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    return made


def sort_entries(document: Any) -> Any:
    """Sort the entries of an archive by name: a writer chooses the order."""
    return {**document, "entries": sorted(document["entries"], key=lambda entry: entry[0])}


# -- the run ------------------------------------------------------------------------------------------


def parse_arguments(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Run a decoder, and an encoder, over the conformance vectors.")
    command: dict[str, Any] = {"type": shlex.split, "metavar": "COMMAND"}
    parser.add_argument("--decoder", required=True, help="reads an archive, prints tagged JSON", **command)
    parser.add_argument("--encoder", help="reads tagged JSON, writes an archive", **command)
    parser.add_argument(
        "--skip-feature", action="append", default=[], metavar="NAME", help="do not run vectors that need this feature"
    )
    parser.add_argument(
        "--xfail", action="append", default=[], metavar="NAME", help="a vector that is expected to fail"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only vectors with this in their names")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="only one vector in N of those that the other options select"
    )
    parser.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="for one file (default: 20)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="number of parallel commands"
    )
    return parser, parser.parse_args(arguments)


def select_vectors(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Vector]:
    """Select the vectors to run; exit if an option names an unknown feature or vector."""
    vectors = json.loads(read_file("manifest.json"))["vectors"]
    features = {feature for vector in vectors for feature in vector.get("features", ())}
    names = {vector["name"] for vector in vectors}
    for word, given, known in (("feature", options.skip_feature, features), ("vector", options.xfail, names)):
        for name in given:
            if name not in known:
                parser.error(f"unknown {word} {name!r}; available: {', '.join(sorted(known)[:30])}")
    if options.every < 1:
        parser.error("expected a number >= 1 for --every")
    selected = [
        vector
        for vector in vectors
        if options.only in vector["name"]
        and (vector["kind"] != "encode" or options.encoder)
        and not (set(vector.get("features", ())) - {"canonical"}) & set(options.skip_feature)
    ]
    return selected[:: options.every]


def judge(vector: Vector, options: argparse.Namespace) -> tuple[str, str]:
    """Run a vector; return its state, and what is wrong."""
    try:
        wrong = CHECKS[vector["kind"]](vector, options)
    except Unknown:
        return "skipped", ""
    except (Crash, OSError) as error:
        return "crash", f"crash: {error}"
    return "fail" if wrong else "passed", wrong


CHECKS = {"decode": check_decoder, "encode": check_encoder, "policy": check_policy}


def table_row(vector: Vector) -> str:
    """Return the row of the table in which a vector is counted."""
    if vector["kind"] == "encode":
        return "encode"
    return vector.get("outcome", "predicted" if vector["kind"] == "policy" else "accepted")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the vectors; return 0 if all results were as expected."""
    sys.setrecursionlimit(10_000)  # values nest 200 deep, and each takes several levels of JSON
    parser, options = parse_arguments(arguments)
    vectors = select_vectors(parser, options)
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        found = list(pool.map(lambda vector: judge(vector, options), vectors))
    counts: Counter[tuple[str, str]] = Counter()
    for vector, (answered, wrong) in zip(vectors, found):
        state, why = answered, wrong
        if vector["name"] in options.xfail:
            state, why = ("xfail", wrong) if wrong else ("fail", "passes, though it was expected to fail")
        counts[table_row(vector), state] += 1
        if state in ("fail", "crash"):
            print(f"{vector['name']}: {why}\n    section {vector['section']}: {vector['sentence']}")
    print_table(counts)
    return int(
        not any(state in ("passed", "xfail") for _, state in counts)
        or any(state in ("fail", "crash") for _, state in counts)
    )


def print_table(counts: Counter[tuple[str, str]]) -> None:
    """Print the number of vectors by kind and state."""
    states = ("passed", "skipped", "xfail", "fail", "crash")
    print(f"{'':20}" + "".join(f"{state:>8}" for state in states))
    for row in [*dict.fromkeys(name for name, _ in counts), "all"]:
        cells = [sum(n for (name, state), n in counts.items() if state == wanted and row in (name, "all"))
                 for wanted in states]  # fmt: skip
        print(f"{row:20}" + "".join(f"{cell:>8}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
