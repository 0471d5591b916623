"""Mutation testing of the vectors: a mutant that they notice, one that they cannot notice, one that does not end."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from conformance.mutation import __main__ as command
from conformance.mutation.mutants import find_modules, read_equivalents

if TYPE_CHECKING:
    from conformance.mutation.mutants import Mutant

needs_instrumenter = pytest.mark.skipif(
    shutil.which("node") is None or find_modules(None) is None,
    reason="SBFORMAT_NODE_MODULES names no folder with the instrumenter",
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    code = command.main([*arguments, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)["mutants"]


@needs_instrumenter
def test_vectors_kill_a_sample_of_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "--file", "texts.js", "--sample", "12", "--seed", "3")
    assert code == 0
    assert sum(map(len, found.values())) == 12
    assert len(found["killed"]) >= 8


@needs_instrumenter
def test_a_mutant_survives_without_its_vectors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, requests = command.list_requests()
    kept = [index for index, vector in enumerate(vectors) if not vector["section"].startswith("3")]
    fewer = [vectors[index] for index in kept], [requests[index] for index in kept]
    monkeypatch.setattr(command, "list_requests", lambda: fewer)
    code, found = run(capsys, "--file", "base64.js", "--sample", "25")
    assert code == 1
    assert found["survived"] or found["not covered"]


@needs_instrumenter
def test_a_mutant_that_does_not_end_is_killed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def select_loop(mutants: list[Mutant], _: Any) -> list[Mutant]:
        return [next(m for m in mutants if (m.file, m.original, m.replacement) == ("bytes.js", "i += 1", "i -= 1"))]

    monkeypatch.setattr(command, "select_mutants", select_loop)
    code, found = run(capsys)
    assert code == 0
    assert len(found["killed"]) + len(found["timeout"]) == 1


def test_equivalent_mutants_have_a_reason_and_occur_once() -> None:
    rows = json.loads((command.CONFORMANCE / "mutation" / "equivalent.json").read_bytes())
    assert all(group["reason"].strip() for group in rows)
    assert len(read_equivalents()) == sum(len(group["mutants"]) for group in rows)
