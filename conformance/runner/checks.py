"""Run a vector, and compare the answer of the command with what the vector expects."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.runner.commands import Answer, Crash, Request, Unknown
from conformance.runner.comparison import (
    compare_predictions,
    find_difference,
    is_same,
    normalize,
    replace_contents_by_digests,
    sort_entries,
)
from conformance.runner.vectors import LAYERS, Vector, decode_file, list_arguments

if TYPE_CHECKING:
    from collections.abc import Collection

    from conformance.runner.commands import Command


@dataclass(frozen=True)
class Commands:
    """What the vectors are run against."""

    decoder: Command
    encoder: Command | None
    skipped_features: Collection[str] = ()

    def close(self) -> None:
        """End all processes."""
        self.decoder.close()
        if self.encoder is not None:
            self.encoder.close()


@dataclass(frozen=True)
class Result:
    """What became of a vector."""

    vector: Vector
    state: str
    """``passed``, ``skipped``, ``xfail`` (failed as expected), ``fail`` or ``crash``."""
    reason: str = ""
    """What is wrong, or why the vector was skipped."""
    skipped_for: str = ""
    """``argument`` (exit code 2), ``feature`` (``--skip-feature``) or ``encoder`` (none was given)."""
    seconds: float = 0.0


def read_outcome(answer: Answer) -> str:
    """Return the outcome of a refusal."""
    found = answer.value
    if not isinstance(found, dict) or found.get("outcome") not in LAYERS:
        message = f"a refusal without a known outcome: {str(found)[:100]}"
        raise Crash(message)
    return found["outcome"]


def check_refusal(vector: Vector, answer: Answer) -> str:
    """Compare a refusal, or its absence, with the outcome that a vector expects; return what is wrong."""
    if "outcome" not in vector:
        return f"refused: {answer.value}"
    if answer.is_accepted:
        return f"{'written' if vector['kind'] == 'encode' else 'accepted'}; {vector['outcome']!r} was expected"
    outcome = read_outcome(answer)
    return "" if outcome == vector["outcome"] else f"{outcome!r}; {vector['outcome']!r} was expected"


def ask_decoder(vector: Vector, commands: Commands) -> Answer:
    """Run the decoder on the file of a vector."""
    with list_arguments(vector) as arguments:
        return commands.decoder.run(Request(arguments, decode_file(vector)))


def check_decoder(vector: Vector, commands: Commands) -> str:
    """Run a vector of a decoder; return what is wrong, or an empty string."""
    answer = ask_decoder(vector, commands)
    if "outcome" in vector or not answer.is_accepted:
        return check_refusal(vector, answer)
    if vector["kind"] == "policy":
        return compare_predictions(vector["expect"], answer.value, vector["tolerance"])
    return describe_difference(vector["expect"], answer.value)


def describe_difference(wanted: Any, found: Any) -> str:
    """Describe the first difference between two values, or return an empty string."""
    return "" if is_same(wanted, found) else find_difference(normalize(wanted), normalize(found))


def check_encoder(vector: Vector, commands: Commands) -> str:
    """Run a vector of an encoder; return what is wrong, or an empty string."""
    assert commands.encoder is not None
    answer = commands.encoder.run(Request((), decode_file(vector)))
    if "outcome" in vector or not answer.is_accepted:
        return check_refusal(vector, answer)
    if "canonical" in vector.get("features", ()) and "canonical" not in commands.skipped_features:
        found = hashlib.sha256(answer.written).hexdigest()
        if found != vector["written"]:
            return f"the bytes have the SHA-256 {found}, not {vector['written']}"
    decoded = commands.decoder.run(Request((), answer.written))
    if not decoded.is_accepted:
        return f"the decoder refused what was written: {decoded.value}"
    try:
        found = sort_entries(decoded.value)
    except (KeyError, TypeError, IndexError):
        return f"the decoder printed no entries for what was written: {json.dumps(decoded.value)[:120]}"
    return describe_difference(sort_entries(replace_contents_by_digests(json.loads(decode_file(vector)))), found)


def judge(vector: Vector, commands: Commands) -> Result:
    """Run a vector."""
    dropped = (set(vector.get("features", ())) - {"canonical"}) & set(commands.skipped_features)
    if dropped:
        return Result(vector, "skipped", f"needs {', '.join(sorted(dropped))}", "feature")
    if vector["kind"] == "encode" and commands.encoder is None:
        return Result(vector, "skipped", "there is no encoder", "encoder")
    start = time.perf_counter()
    state, skipped_for = "", ""
    try:
        reason = (check_encoder if vector["kind"] == "encode" else check_decoder)(vector, commands)
        state = "fail" if reason else "passed"
    except Unknown as error:
        state, reason, skipped_for = "skipped", f"unknown argument {error}", "argument"
    except (Crash, OSError) as error:
        state, reason = "crash", f"crash: {error}"
    return Result(vector, state, reason, skipped_for, time.perf_counter() - start)


def apply_expectation(result: Result, expected_failures: Collection[str]) -> Result:
    """Turn the failure of a vector that is expected to fail into ``xfail``, and its success into a failure."""
    if result.vector["name"] not in expected_failures or result.state == "skipped":
        return result
    if result.state == "passed":
        return Result(result.vector, "fail", "passes, though it was expected to fail", seconds=result.seconds)
    return Result(result.vector, "xfail", result.reason, seconds=result.seconds)
