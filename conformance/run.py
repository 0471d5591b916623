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
)  # fmt: skip


UNKNOWN_ARGUMENT = 2
"""The exit code of a command that lacks what an argument asks for."""

Vector = dict[str, Any]
"""A row of the manifest."""


class Crash(Exception):  # noqa: N818 -- the protocol's own word
    """The command did not keep to the protocol."""


class Unknown(Exception):  # noqa: N818 -- no error
    """The command does not know an argument: a feature that it lacks."""


def ask(command: list[str], arguments: Sequence[str], data: bytes, timeout: float) -> tuple[bool, bytes]:
    """Run a command over bytes; return whether it accepted them, and its standard output."""
    try:
        done = subprocess.run([*command, *arguments], input=data, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        message = f"no answer within {timeout:g} s"
        raise Crash(message) from None
    if done.returncode == UNKNOWN_ARGUMENT and arguments and arguments[0] != "--entry":
        raise Unknown(arguments[0])
    if done.returncode not in (0, 1):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Crash(f"exit code {done.returncode}" + "".join(f": {line}" for line in last))
    return done.returncode == 0, done.stdout


def answer(output: bytes) -> Any:
    """Parse what a command printed."""
    try:
        return json.loads(output)
    except ValueError:
        message = "its output is not JSON"
        raise Crash(message) from None


def refusal(output: bytes) -> str:
    """The outcome that a command refused with."""
    found = answer(output)
    if not isinstance(found, dict) or found.get("outcome") not in OUTCOMES:
        message = f"a refusal names no outcome: {str(found)[:100]}"
        raise Crash(message)
    return found["outcome"]


def normal(value: Any) -> Any:
    """The same value with the members of sets in one order."""
    if isinstance(value, list):
        return [normal(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: normal(part) for key, part in value.items()}
    for word in ("set", "frozenset"):
        if isinstance(made.get(word), list):
            made[word] = sorted(made[word], key=lambda part: json.dumps(part, sort_keys=True))
    return made


def same(first: Any, second: Any) -> bool:
    """Is it the same JSON? True is not 1, and the order of keys does not matter."""
    return json.dumps(normal(first), sort_keys=True) == json.dumps(normal(second), sort_keys=True)


def difference(wanted: Any, found: Any, path: str = "") -> str:
    """Where two values differ first, in words."""
    if type(wanted) is type(found) and isinstance(wanted, dict) and wanted.keys() == found.keys():
        rows = ((wanted[key], found[key], f"{path}/{key}") for key in wanted)
    elif type(wanted) is type(found) and isinstance(wanted, list) and len(wanted) == len(found):
        rows = ((one, other, f"{path}/{at}") for at, (one, other) in enumerate(zip(wanted, found)))
    else:
        return f"at {path or '/'}: {json.dumps(found)[:120]}, not {json.dumps(wanted)[:120]}"
    return next((difference(*row) for row in rows if not same(row[0], row[1])), "")


def read(name: str) -> bytes:
    """The bytes of a file beside this one."""
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def decoded(vector: Vector, options: argparse.Namespace) -> str:
    """Run a vector of a decoder; return what is wrong, or an empty text."""
    is_accepted, output = ask(options.decoder, vector.get("arguments", ()), read(vector["file"]), options.timeout)
    if "outcome" in vector:
        if is_accepted:
            return f"accepted; {vector['outcome']!r} was expected"
        outcome = refusal(output)
        return "" if outcome == vector["outcome"] else f"{outcome!r}; {vector['outcome']!r} was expected"
    if not is_accepted:
        return f"refused: {answer(output)}"
    wanted, found = json.loads(read(vector["expect"])), answer(output)
    return "" if same(wanted, found) else difference(normal(wanted), normal(found))


def encoded(vector: Vector, options: argparse.Namespace) -> str:
    """Run a vector of an encoder; return what is wrong, or an empty text."""
    is_accepted, output = ask(options.encoder, (), read(vector["file"]), options.timeout)
    if "outcome" in vector:
        if is_accepted:
            return f"written; {vector['outcome']!r} was expected"
        outcome = refusal(output)
        return "" if outcome == vector["outcome"] else f"{outcome!r}; {vector['outcome']!r} was expected"
    if not is_accepted:
        return f"refused: {answer(output)}"
    if "canonical" in vector.get("features", ()) and not {"canonical"} & set(options.skip_feature):
        found = hashlib.sha256(output).hexdigest()
        if found != vector["written"]:
            return f"the bytes have the SHA-256 {found}, not {vector['written']}"
    is_accepted, output = ask(options.decoder, (), output, options.timeout)
    if not is_accepted:
        return f"the decoder refused what was written: {answer(output)}"
    wanted, found = by_name(digested(json.loads(read(vector["file"])))), by_name(answer(output))
    return "" if same(wanted, found) else difference(normal(wanted), normal(found))


def digested(value: Any) -> Any:
    """What an encoder is given, with digests in the place of contents, as a decoder prints it."""
    if isinstance(value, list):
        return [digested(part) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: digested(part) for key, part in value.items()}
    if "items" in made and "dtype" in made:
        made["sha256"] = hashlib.sha256(base64.b64decode(made.pop("items"))).hexdigest()
    if "content" in made:
        content = base64.b64decode(made.pop("content"))
        made.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    return made


def by_name(document: Any) -> Any:
    """An archive with its entries in the order of their names: a writer has an order of its own."""
    return {**document, "entries": sorted(document["entries"], key=lambda entry: entry[0])}


# -- the run ------------------------------------------------------------------------------------------


def parsed(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run a decoder, and an encoder, over the conformance vectors.")
    command: dict[str, Any] = {"type": shlex.split, "metavar": "COMMAND"}
    parser.add_argument("--decoder", required=True, help="reads an archive, prints tagged JSON", **command)
    parser.add_argument("--encoder", help="reads tagged JSON, writes an archive", **command)
    parser.add_argument("--skip-feature", action="append", default=[], metavar="NAME", help="do not run what needs it")
    parser.add_argument("--xfail", action="append", default=[], metavar="NAME", help="a vector that must fail")
    parser.add_argument("--only", default="", metavar="TEXT", help="only vectors with this in their names")
    parser.add_argument("--timeout", type=float, default=20, metavar="SECONDS", help="for one file (default: 20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="commands at one time")
    return parser, parser.parse_args(arguments)


def chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Vector]:
    """The vectors to run; ends the program when an option names what there is not."""
    vectors = json.loads(read("manifest.json"))["vectors"]
    features = {feature for vector in vectors for feature in vector.get("features", ())}
    names = {vector["name"] for vector in vectors}
    for word, given, known in (("feature", options.skip_feature, features), ("vector", options.xfail, names)):
        for name in given:
            if name not in known:
                parser.error(f"there is no {word} {name!r}; there is {', '.join(sorted(known)[:30])}")
    return [
        vector
        for vector in vectors
        if options.only in vector["name"]
        and (vector["kind"] == "decode" or options.encoder)
        and not (set(vector.get("features", ())) - {"canonical"}) & set(options.skip_feature)
    ]


def judged(vector: Vector, options: argparse.Namespace) -> tuple[str, str]:
    """How a vector was answered, and what is wrong with it."""
    try:
        wrong = (decoded if vector["kind"] == "decode" else encoded)(vector, options)
    except Unknown:
        return "skipped", ""
    except (Crash, OSError) as error:
        return "crash", f"crash: {error}"
    return "fail" if wrong else "passed", wrong


def layer(vector: Vector) -> str:
    """The row of the table that a vector counts in."""
    if vector["kind"] == "encode":
        return "encode"
    return vector.get("outcome", "accepted")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the vectors; 0 when all did as expected."""
    sys.setrecursionlimit(10_000)  # values nest 200 deep, and each takes several levels of JSON
    parser, options = parsed(arguments)
    vectors = chosen(parser, options)
    with ThreadPoolExecutor(max(options.jobs, 1)) as pool:
        found = list(pool.map(lambda vector: judged(vector, options), vectors))
    counts: Counter[tuple[str, str]] = Counter()
    for vector, (answered, wrong) in zip(vectors, found):
        state, why = answered, wrong
        if vector["name"] in options.xfail:
            state, why = ("xfail", wrong) if wrong else ("fail", "passes, though it was expected to fail")
        counts[layer(vector), state] += 1
        if state in ("fail", "crash"):
            print(f"{vector['name']}: {why}\n    FORMAT.md {vector['section']}: {vector['sentence']}")
    table(counts)
    return int(
        not any(state in ("passed", "xfail") for _, state in counts)
        or any(state in ("fail", "crash") for _, state in counts)
    )


def table(counts: Counter[tuple[str, str]]) -> None:
    """Print how many vectors of each kind came to what."""
    states = ("passed", "skipped", "xfail", "fail", "crash")
    print(f"{'':20}" + "".join(f"{state:>8}" for state in states))
    for row in [*dict.fromkeys(name for name, _ in counts), "all"]:
        cells = [sum(n for (name, state), n in counts.items() if state == wanted and row in (name, "all"))
                 for wanted in states]  # fmt: skip
        print(f"{row:20}" + "".join(f"{cell:>8}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
