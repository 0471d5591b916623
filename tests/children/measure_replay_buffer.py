"""Extracts a replay buffer in a process of its own, and prints the most bytes that were resident.

Arguments: the buffer, the output; or the buffer alone, to read it and find its episodes; or ``--scan`` and the buffer,
or ``--diff`` and two of them.
"""

from __future__ import annotations

import json
import sys

import sbformat
from sbformat.formats.replay_buffer import read_replay_buffer
from sbformat.tools.diff import diff
from sbformat.tools.extract import extract
from tests.children.read_hostile_pth import peak


def main() -> None:
    """Do what was asked for."""
    path, *output = sys.argv[1:]
    if path == "--scan":
        scanned = sbformat.scan(*output)
        sys.stdout.write(json.dumps({"peak": peak(), "verdict": scanned.verdict, "sha256": scanned.sha256}))
    elif path == "--diff":
        report = diff(*map(sbformat.read, output))
        sys.stdout.write(json.dumps({"peak": peak(), "changes": [change._asdict() for change in report.changes]}))
    elif output:
        extracted = extract(sbformat.read(path), output[0])
        sys.stdout.write(json.dumps({"peak": peak(), "tensors": extracted.tensors, "nbytes": extracted.nbytes}))
    else:
        buffer = read_replay_buffer(path)
        episodes = buffer.episodes()
        rewards = float(sum(buffer.steps(episode)["rewards"].sum() for episode in episodes[:10]))
        sys.stdout.write(json.dumps({"peak": peak(), "episodes": len(episodes), "rewards": rewards}))


main()
