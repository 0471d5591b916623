"""Decodes one in STEP of the conformance vectors under ceilings of memory and time; prints what each came to and cost.

    PYTHONPATH=.:conformance/harness/python python tests/children/decode_vectors.py STEP

A process of its own: the ceilings are its own limits (``resource.setrlimit``), and what passes them, or ends with
anything but an answer or an ``SbformatError``, ends the process.
"""

from __future__ import annotations

import encodings.raw_unicode_escape
import encodings.unicode_escape
import encodings.utf_8_sig  # noqa: F401 -- loaded when they are first used
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

import decode
import encode

from conformance.runner.checks import describe_difference
from conformance.runner.comparison import compare_predictions, replace_contents_by_digests, sort_entries
from conformance.runner.vectors import decode_file, list_arguments, read_vectors
from tests.children.read_hostile_pth import ask

CPU_SECONDS: Final = 400
WARMING: Final = (
    "zip-npz", "pickle-of-a-policy", "pickle-of-an-agent", "policy-unknown-class", "policy-layer-of-a-float",
    "policy-missing", "policy-ppo-normalized", "policy-ppo-gsde", "policy-sb2-ppo2", "policy-sbx-built", "policy-cnn",
    "policy-lstm", "equal-numpy-fortran",
    "released-ppo-0.6", "encode-name-beyond-ascii", "scan-line-table-compiled", "scan-cut-archive", "scan-two-data",
    "schedule-linear-3.6", "norm-whole-of-sb2", "buffer-whole", "bundle-whole", "parameters-by-",
)  # fmt: skip
"""How the names of files begin that are answered first: together they import all modules."""
ROOM: Final = 192 << 20
"""Address space beyond what the process has when all is imported: more than the budget of any vector."""


def state() -> list[Any]:
    """What no file may change."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return [os.getcwd(), sys.getrecursionlimit(), files, sorted(os.environ.items())]


def address_space() -> int:
    """Bytes of address space that the process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def lower_ceilings() -> None:
    """No more memory than a file may cost, and an end to whatever does not end."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if size := address_space():
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))


def answer(vector: dict[str, Any], data: bytes) -> dict[str, Any]:
    """What a vector came to: the outcome, what is wrong with the answer, and what it cost."""
    found: list[Any] = []

    def question() -> None:
        if vector["kind"] == "encode":
            found.append(decode.decode(encode.encode(json.loads(data))))
        else:
            found.append(decode.decode(data, arguments))

    with list_arguments(vector) as arguments:
        _, outcome, shown, seconds, grown = ask(vector["name"], question)
    wrong = "" if outcome == vector.get("outcome", "read") else f"{outcome}, not {vector.get('outcome', 'read')}"
    if found and not wrong:
        wrong = difference(vector, data, json.loads(json.dumps(found[0])))
    return {
        "name": vector["name"],
        "wrong": wrong,
        "shown": shown,
        "seconds": seconds,
        "grown": grown,
        "size": len(data),
    }


def difference(vector: dict[str, Any], data: bytes, found: Any) -> str:
    """Where an answer differs from what is expected, or an empty text."""
    if vector["kind"] == "encode":
        return describe_difference(sort_entries(replace_contents_by_digests(json.loads(data))), sort_entries(found))
    if vector["kind"] == "policy":
        return compare_predictions(vector["expect"], found, vector["tolerance"])
    return describe_difference(vector["expect"], found)


def main() -> None:
    """Answer a good file of each kind first, so that all is imported; then the vectors."""
    every = list(read_vectors())
    vectors = every[:: int(sys.argv[1])]
    warming = [vector for vector in every if vector["name"].startswith(WARMING)]
    files = {vector["name"]: decode_file(vector) for vector in (*warming, *vectors)}
    for vector in warming:
        answer(vector, files[vector["name"]])
    modules, before = set(sys.modules), state()
    lower_ceilings()
    rows = [answer(vector, files[vector["name"]]) for vector in vectors]
    changed = [str(pair) for pair in zip(before, state()) if pair[0] != pair[1]]
    sys.stdout.write(json.dumps({"rows": rows, "changed": changed, "modules": sorted(set(sys.modules) - modules)}))


if __name__ == "__main__":
    main()
