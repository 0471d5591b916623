"""SARIF logs of ``scan``: the schema, the levels, the places, and nothing in them that a file chose."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from jsonschema import Draft202012Validator

from sbformat.tools.scan.report import RULES, VERDICTS, default_reason
from sbformat.tools.scan.sarif import LEVELS, render_sarif
from tests.helpers.bundled import PPO, ROOT

SARIF = Draft202012Validator(json.loads((ROOT / "schema" / "sarif.schema.json").read_text("utf-8")))


def finding(rule: str = "dangerous-name", **changed: Any) -> dict[str, Any]:
    """A finding as a report has it."""
    row = {
        "rule": rule,
        "verdict": RULES[rule][0],  # type: ignore[index]
        "reason": default_reason(rule, RULES[rule][0]),  # type: ignore[arg-type, index]
        "entry": "data",
        "key": "lr_schedule",
        "offset": 2,
        "names": ["os.system"],
        "message": "os.system is imported: it runs commands",
    }
    return {**row, **changed}


def report(*findings: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The report of a file."""
    row = {
        "path": "agents/a.zip",
        "outcome": "ok",
        "format": "zip",
        "verdict": max((row["verdict"] for row in findings), key=VERDICTS.index, default="clean"),
        "reason": next((row["reason"] for row in findings if row["verdict"] == "dangerous"), None),
        "findings": list(findings),
        "omitted": 0,
        "imports": [],
        "pickles": 1,
        "sha256": "0" * 64,
        "size": 100,
    }
    return {**row, **changed}


def run_of(*reports: dict[str, Any], exit_code: int = 1) -> dict[str, Any]:
    """The one run of a log, checked against the schema and itself."""
    log = render_sarif(reports, {"counts": {}}, version="1.2.3", exit_code=exit_code)
    SARIF.validate(json.loads(json.dumps(log)))
    assert list(log) == ["$schema", "version", "runs"]
    run: dict[str, Any] = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
    return run


def test_the_schema_is_one_and_closed() -> None:
    Draft202012Validator.check_schema(SARIF.schema)
    todo: list[Any] = [SARIF.schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            assert part.get("type") != "object" or part["additionalProperties"] is False
            todo += part.values()
        elif isinstance(part, list):
            todo += part


def test_every_rule_is_described() -> None:
    run = run_of(report(), exit_code=0)
    assert run["tool"]["driver"]["version"] == "1.2.3"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(RULES)
    for rule in rules:
        verdict, meaning = RULES[rule["id"]]
        assert rule["shortDescription"]["text"] == meaning
        assert rule["defaultConfiguration"]["level"] == LEVELS[verdict]
    assert SARIF.schema["$defs"]["result"]["properties"]["ruleId"]["enum"] == list(RULES)


def test_levels_never_fall_as_verdicts_rise() -> None:
    levels = ("none", "note", "warning", "error")
    assert [levels.index(LEVELS[verdict]) for verdict in VERDICTS] == [0, 1, 2, 3, 3]


def test_a_finding_is_a_result() -> None:
    run = run_of(report(), report(finding(), path="b.zip"))
    (result,) = run["results"]
    assert result["ruleId"] == "dangerous-name"
    assert result["level"] == "error"
    assert result["message"] == {"text": "os.system is imported: it runs commands"}
    assert result["properties"] == {"verdict": "dangerous", "reason": "harmful", "names": ["os.system"]}
    (location,) = result["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "b.zip", "index": 1}}
    assert location["logicalLocations"] == [
        {"name": "lr_schedule", "fullyQualifiedName": "data:lr_schedule", "kind": "key"}
    ]
    assert [artifact["properties"]["verdict"] for artifact in run["artifacts"]] == ["clean", "dangerous"]
    assert run["artifacts"][0]["hashes"] == {"sha-256": "0" * 64}
    (invocation,) = run["invocations"]
    assert invocation == {
        "executionSuccessful": True, "exitCode": 1, "toolExecutionNotifications": [], "properties": {"skipped": {}},
    }  # fmt: skip


def test_the_level_is_the_findings_own() -> None:
    (result,) = run_of(report(finding("unchecked-arguments", verdict="dangerous")))["results"]
    assert result["level"] == "error"
    (result,) = run_of(report(finding("unchecked-arguments")))["results"]
    assert result["level"] == "note"


def test_an_entry_within_an_entry() -> None:
    (result,) = run_of(report(finding(entry="policy.pth!archive/data.pkl", key="")))["results"]
    assert result["locations"][0]["logicalLocations"] == [
        {"name": "archive/data.pkl", "fullyQualifiedName": "policy.pth!archive/data.pkl", "kind": "entry"}
    ]


def region(row: dict[str, Any], **changed: Any) -> Any:
    """The region of the only finding."""
    (result,) = run_of(report(row, **changed))["results"]
    return result["locations"][0]["physicalLocation"].get("region")


def test_only_an_offset_in_the_file_is_a_region() -> None:
    lone = finding(entry="", key="")
    assert region(lone, format="pickle") == {"byteOffset": 2, "byteLength": 1}
    assert region(lone, format="pickle", pickles=2) is None  # it could be that of the inner one
    assert region(finding(entry="", key="", offset=100)) is None
    assert region(finding(entry="", key="", offset=None)) is None
    assert region(finding(entry="policy.pth", key="")) is None
    assert region(finding(entry="", key="lr_schedule"), format="data-json") is None


def test_a_folder_has_no_digest() -> None:
    (artifact,) = run_of(report(format="folder", sha256=None), exit_code=0)["artifacts"]
    assert artifact["roles"] == ["analysisTarget", "directory"]
    assert "hashes" not in artifact


def test_a_file_that_could_not_be_read_is_a_notification() -> None:
    failed = {"path": "x y.zip", "outcome": "cannot open", "message": "Permission denied"}
    run = run_of(failed, report(), exit_code=2)
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "cannot open: Permission denied"
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "x%20y.zip"}
    assert len(run["artifacts"]) == 1


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a.zip", "a.zip"),
        ("./deep/a.zip", "deep/a.zip"),
        (".//a.zip", "a.zip"),
        ("../a.zip", "../a.zip"),
        (".", "."),
        ("a b#c?d%e.zip", "a%20b%23c%3Fd%25e.zip"),
        ("http:x.zip", "http%3Ax.zip"),
        ("\x1b[31m\u202e.zip", "%1B%5B31m%E2%80%AE.zip"),
        ("caf\u00e9.zip", "caf%C3%A9.zip"),
        (os.fsdecode(b"\xff\xfe.zip"), "%FF%FE.zip"),
        ("/tmp/a b.zip", "file:///tmp/a%20b.zip"),  # noqa: S108 -- a name, not a file
    ],
)
@pytest.mark.skipif(os.sep != "/", reason="paths of POSIX")
def test_paths_become_uris(path: str, uri: str) -> None:
    (artifact,) = run_of(report(path=path), exit_code=0)["artifacts"]
    assert artifact["location"]["uri"] == uri
    split = urlsplit(uri)
    assert split.scheme == ("file" if path.startswith("/") else "")
    assert os.fsdecode(unquote_to_bytes(split.path)) == path.removeprefix("./").lstrip("/" * (path[0] == "."))


def test_a_message_says_what_it_says() -> None:
    evil = "\x1b[2J [here](https://evil.example) {0} {1}\u202e\n" + "x" * 5000
    (result,) = run_of(report(finding(message=evil)))["results"]
    text = result["message"]["text"]
    assert text.isprintable()
    assert "](" not in text
    assert "{{0}}" in text
    assert len(text) < 1200


def test_fingerprints_stay_and_differ() -> None:
    def fingerprint(row: dict[str, Any], **changed: Any) -> str:
        (result,) = run_of(report(row, **changed))["results"]
        print_of: str = result["partialFingerprints"]["finding/v1"]
        return print_of

    same = fingerprint(finding())
    assert fingerprint(finding(offset=99, message="other words"), sha256="1" * 64, path="moved.zip") == same
    others = [finding(key="clip_range"), finding(entry="x"), finding(names=["os.popen"]), finding("unknown-name")]
    assert len({same, *(fingerprint(row) for row in others)}) == 5


def test_a_real_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sbformat.cli import main

    monkeypatch.chdir(tmp_path)
    Path("a.zip").write_bytes(PPO.read_bytes())
    Path("evil.pkl").write_bytes(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    assert main(["scan", "a.zip", "evil.pkl", "nowhere", "--format", "sarif"]) == 2
    log = json.loads(capsys.readouterr().out)
    SARIF.validate(log)
    (run,) = log["runs"]
    assert [artifact["properties"]["verdict"] for artifact in run["artifacts"]] == ["clean", "dangerous"]
    assert {result["ruleId"] for result in run["results"]} == {"dangerous-name"}
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"]["byteOffset"] == 2
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 1
