"""Mutation testing of the vectors: a mutant that they notice, one that they cannot notice, one that does not end."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from conformance.mutation import __main__ as command
from conformance.mutation.mutants import Mutant, find_modules, read_equivalents
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LIST_VECTORS = command.list_vectors

needs_instrumenter = pytest.mark.skipif(
    shutil.which("node") is None or find_modules(None) is None,
    reason="SBFORMAT_NODE_MODULES names no folder with the instrumenter",
)


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, section: str, *arguments: str
) -> dict[str, list[dict[str, Any]]]:
    """Run mutants against the vectors of one section; return them by state."""
    vectors = [vector for vector in LIST_VECTORS() if vector["section"].startswith(section)]
    monkeypatch.setattr(command, "list_vectors", lambda: vectors)
    code = command.main([*arguments, "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    mutants: dict[str, list[dict[str, Any]]] = printed["mutants"]
    assert code == bool(mutants["survived"] or mutants["not covered"] or printed["stale"])
    return mutants


@needs_instrumenter
def test_vectors_kill_a_sample_of_mutants(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(capsys, monkeypatch, "4.2", "--file", "texts.js", "--sample", "15", "--seed", "3")
    assert sum(map(len, found.values())) == 15
    assert found["killed"]
    assert {row["file"] for rows in found.values() for row in rows} == {"texts.js"}


@needs_instrumenter
def test_mutants_survive_without_vectors_for_their_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(capsys, monkeypatch, "4.2", "--file", "base64.js", "--sample", "15")
    assert found["not covered"]


@needs_instrumenter
def test_a_mutant_that_does_not_end_is_killed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def select_loop(mutants: list[Mutant], _: Any) -> list[Mutant]:
        return [m for m in mutants if (m.file, m.original, m.replacement) == ("bytes.js", "i += 1", "i -= 1")][-1:]

    monkeypatch.setattr(command, "select_mutants", select_loop)
    found = run(capsys, monkeypatch, "2.5")
    assert len(found["killed"]) + len(found["timeout"]) == 1


def test_a_selection_without_mutants_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "find_modules", lambda _: tmp_path)
    monkeypatch.setattr(command, "write_mutants", lambda *_: (tmp_path, [Mutant("1", "zip.js", 1, 1, "", "", "", "")]))
    assert command.main(["--file", "no-such-file.js"]) == 2
    assert capsys.readouterr().err == "conformance.mutation: no mutant matches --file\n"
    with pytest.raises(SystemExit) as ended:
        command.main(["--sample", "0"])
    assert ended.value.code == 2


def test_equivalent_mutants_have_a_reason_and_occur_once() -> None:
    rows = json.loads((ROOT / "conformance" / "mutation" / "equivalent.json").read_bytes())
    assert all(group["reason"].strip() for group in rows)
    assert len(read_equivalents()) == sum(len(group["mutants"]) for group in rows)
