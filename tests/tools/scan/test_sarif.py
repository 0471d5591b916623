"""SARIF logs of ``scan``: the schema, the levels, the places, and nothing in them that a file chose."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from jsonschema import Draft202012Validator

from conformance.runner.vectors import decode_file, read_vectors
from sbformat import scan
from sbformat.tools.scan.findings import RULES, VERDICTS, default_reason
from sbformat.tools.scan.sarif import (
    DANGEROUS_TOO,
    LEVELS,
    MAX_BYTES,
    MAX_RESULTS,
    PAGE,
    RULE_HELP,
    get_severity,
    render_sarif,
)
from tests.helpers.bundled import PPO, ROOT
from tests.helpers.sampling import with_exhaustive

SARIF = Draft202012Validator(json.loads((ROOT / "schema" / "sarif.schema.json").read_text("utf-8")))


def finding(rule: str = "dangerous-name", **changed: Any) -> dict[str, Any]:
    """A finding as a report has it."""
    row = {
        "rule": rule,
        "verdict": RULES[rule],  # type: ignore[index]
        "reason": default_reason(rule, RULES[rule]),  # type: ignore[arg-type, index]
        "entry": "data",
        "key": "lr_schedule",
        "offset": 2,
        "line": None,
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


def run_of(*reports: dict[str, Any], exit_code: int = 1, root: str = "") -> dict[str, Any]:
    """The one run of a log, checked against the schema and itself."""
    log = render_sarif(reports, {"counts": {}}, version="1.2.3", exit_code=exit_code, root=root)
    SARIF.validate(json.loads(json.dumps(log)))
    assert list(log) == ["$schema", "version", "runs"]
    run: dict[str, Any] = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        if "index" in place:
            assert run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
    return run


def result_of(row: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The only result of a report with one finding."""
    (result,) = run_of(report(row, **changed))["results"]
    found: dict[str, Any] = result
    return found


def uri_of(path: str, **options: Any) -> Any:
    """The location of a clean file."""
    (artifact,) = run_of(report(path=path), exit_code=0, **options)["artifacts"]
    return artifact["location"]


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
    driver = run_of(report(), exit_code=0)["tool"]["driver"]
    assert (driver["version"], driver["semanticVersion"]) == ("1.2.3", "1.2.3")
    rules = {rule["id"]: rule for rule in driver["rules"]}
    assert list(rules) == [*RULES, *(f"{rule}-dangerous" for rule in DANGEROUS_TOO)]
    assert SARIF.schema["$defs"]["ruleId"]["enum"] == list(rules)
    assert list(RULE_HELP) == list(RULES)
    assert len({rule["name"] for rule in rules.values()}) == len(rules)
    for name, verdict in RULES.items():
        assert rules[name]["shortDescription"]["text"] == RULE_HELP[name].summary
        assert rules[name]["defaultConfiguration"]["level"] == LEVELS[verdict]
        assert rules[name]["helpUri"] == f"{PAGE}#{name}"
        assert RULE_HELP[name].remedy in rules[name]["help"]["markdown"]
        assert "`" not in rules[name]["help"]["text"]


def test_a_version_that_is_not_semantic_is_not_called_so() -> None:
    log = render_sarif([report()], {"counts": {}}, version="1.3.0.dev0", exit_code=0)
    SARIF.validate(log)
    assert "semanticVersion" not in log["runs"][0]["tool"]["driver"]


def test_texts_of_rules_are_within_the_limits_of_github() -> None:
    for rule in run_of(report(), exit_code=0)["tool"]["driver"]["rules"]:
        assert len(rule["name"]) <= 255
        assert len(rule["shortDescription"]["text"]) <= 1024
        assert len(rule["fullDescription"]["text"]) <= 1024
        assert len(rule["properties"]["tags"]) <= 10


def test_severities_rise_with_verdicts() -> None:
    ranges = {"unknown": (0.1, 3.9), "code": (4.0, 6.9), "broken": (7.0, 8.9), "dangerous": (7.0, 10.0)}
    for rule in run_of(report(), exit_code=0)["tool"]["driver"]["rules"]:
        low, high = ranges[rule["properties"]["verdict"]]
        assert low <= float(rule["properties"]["security-severity"]) <= high
    assert get_severity("dangerous-name", "dangerous") > 9


def test_a_dangerous_finding_of_a_lower_rule_has_a_rule_of_its_own() -> None:
    for rule in DANGEROUS_TOO:
        run = run_of(report(finding(rule), finding(rule, verdict="dangerous")))
        assert [(row["ruleId"], row["level"]) for row in run["results"]] == [
            (rule, LEVELS[RULES[rule]]),
            (f"{rule}-dangerous", "error"),
        ]
        described = run["tool"]["driver"]["rules"][run["results"][1]["ruleIndex"]]
        assert float(described["properties"]["security-severity"]) >= 7


def test_the_rules_that_may_be_dangerous_are_those_of_the_vectors() -> None:
    vectors = [vector for prefix in ("scan-", "tensor-", "method-93") for vector in read_vectors(prefix=prefix)]
    found = {(row.rule, row.verdict) for vector in vectors for row in scan(decode_file(vector)).findings}
    assert len(found) > 15
    assert {rule for rule, verdict in found if verdict != RULES[rule]} == set(DANGEROUS_TOO)


def test_levels_never_fall_as_verdicts_rise() -> None:
    levels = ("none", "note", "warning", "error")
    assert [levels.index(LEVELS[verdict]) for verdict in VERDICTS] == [0, 1, 2, 3, 3]


def test_a_finding_is_a_result() -> None:
    run = run_of(report(), report(finding(), path="b.zip"))
    (result,) = run["results"]
    assert result["ruleId"] == "dangerous-name"
    assert result["level"] == "error"
    assert result["message"] == {"text": "os.system is imported: it runs commands"}
    assert result["properties"] == {"verdict": "dangerous", "reason": "harmful", "names": ["os.system"], "offset": 2}
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "b.zip", "uriBaseId": "%SRCROOT%", "index": 1},
        "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2},
    }
    assert location["logicalLocations"] == [
        {"name": "lr_schedule", "fullyQualifiedName": "data:lr_schedule", "kind": "key"}
    ]
    assert [artifact["properties"]["verdict"] for artifact in run["artifacts"]] == ["clean", "dangerous"]
    assert run["artifacts"][0]["hashes"] == {"sha-256": "0" * 64}
    (invocation,) = run["invocations"]
    assert invocation == {
        "executionSuccessful": True, "exitCode": 1, "toolExecutionNotifications": [],
        "properties": {"skipped": {}, "omitted": 0},
    }  # fmt: skip


def test_the_level_is_the_findings_own() -> None:
    assert result_of(finding("unchecked-arguments", verdict="dangerous"))["level"] == "error"
    assert result_of(finding("unchecked-arguments"))["level"] == "note"


def test_an_entry_within_an_entry() -> None:
    result = result_of(finding(entry="policy.pth!archive/data.pkl", key=""))
    assert result["locations"][0]["logicalLocations"] == [
        {"name": "archive/data.pkl", "fullyQualifiedName": "policy.pth!archive/data.pkl", "kind": "entry"}
    ]


def test_a_finding_in_a_folder_is_in_the_file_of_its_entry() -> None:
    row = finding(entry="policy.pth!archive/data.pkl", key="")
    place = result_of(row, format="folder", sha256=None, path="agents/run 1")["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "agents/run%201/policy.pth", "uriBaseId": "%SRCROOT%"}
    whole = finding("unknown-entry", entry="", key="")
    place = result_of(whole, format="folder", sha256=None, path="agents")["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "agents", "uriBaseId": "%SRCROOT%", "index": 0}


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
    place = notification["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "x%20y.zip", "uriBaseId": "%SRCROOT%"}
    assert len(run["artifacts"]) == 1


def test_a_run_without_files_was_not_successful() -> None:
    (invocation,) = run_of(exit_code=2)["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [row["message"]["text"] for row in invocation["toolExecutionNotifications"]] == ["no file was examined"]


@pytest.fixture
def fifty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log has at most 50 results."""
    monkeypatch.setattr("sbformat.tools.scan.sarif.MAX_RESULTS", 50)


def test_of_too_many_findings_the_worst_of_each_file_are_listed(fifty: None) -> None:
    noise = [report(*(finding("unknown-name", key=str(index)) for index in range(10)), path=f"{at}") for at in range(5)]
    mixed = report(
        *(finding("odd-pickle", key=str(index)) for index in range(9)), finding(), path="last.zip", omitted=7
    )
    run = run_of(*noise, mixed)
    assert len(run["results"]) == 50
    of_last = [result["ruleId"] for result in run["results"] if result["ruleId"] != "unknown-name"]
    assert of_last[-1] == "dangerous-name"
    assert set(of_last[:-1]) == {"odd-pickle"}
    (invocation,) = run["invocations"]
    assert invocation["properties"]["omitted"] == 7 + 10
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "warning"
    assert notification["message"]["text"].startswith("17 findings are not in this log")


def test_a_file_with_many_findings_does_not_hide_another(fifty: None) -> None:
    full = [report(*(finding(key=str(index)) for index in range(20)), path=f"{at}.zip") for at in range(5)]
    run = run_of(*full, report(finding("odd-pickle"), path="last.zip"))
    assert len(run["results"]) == 50
    assert run["results"][-1]["ruleId"] == "odd-pickle"


@pytest.mark.parametrize("part", with_exhaustive([10], [1]))
def test_findings_that_cannot_be_compressed_stay_within_the_limit_of_github(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a part of the findings within the same part of the limits."""
    monkeypatch.setattr("sbformat.tools.scan.sarif.MAX_BYTES", MAX_BYTES // part)
    monkeypatch.setattr("sbformat.tools.scan.sarif.MAX_RESULTS", MAX_RESULTS // part)
    chance = random.Random(1)  # noqa: S311 -- texts, not secrets
    letters = bytes(0x20 + byte % 95 for byte in range(256))

    def make_report(number: int) -> dict[str, Any]:
        rows = [finding(message=chance.randbytes(1000).translate(letters).decode()) for _ in range(1000 // part)]
        return report(*rows, path=f"{number}.zip")

    log = render_sarif(list(map(make_report, range(12))), {"counts": {}}, version="1", exit_code=1)
    assert len(log["runs"][0]["results"]) + log["runs"][0]["invocations"][0]["properties"]["omitted"] == 12000 // part
    assert len(gzip.compress(json.dumps(log).encode())) < 10_000_000 // part


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
    location = uri_of(path)
    is_absolute = path.startswith("/")
    assert location == ({"uri": uri} if is_absolute else {"uri": uri, "uriBaseId": "%SRCROOT%"})
    split = urlsplit(uri)
    assert split.scheme == ("file" if is_absolute else "")
    assert os.fsdecode(unquote_to_bytes(split.path)) == path.removeprefix("./").lstrip("/" * (path[0] == "."))


def test_absolute_paths_below_the_folder_of_the_scan_are_relative(tmp_path: Path) -> None:
    root, link = tmp_path / "work", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    inside = {"uri": "models/a.zip", "uriBaseId": "%SRCROOT%"}
    assert uri_of(str(root / "models" / "a.zip"), root=str(root)) == inside
    assert uri_of(str(root / "models" / "a.zip"), root=str(link)) == inside
    assert uri_of(f"{root}er/a.zip", root=str(root)) == {"uri": Path(f"{root}er/a.zip").as_uri()}
    assert uri_of(str(root), root=str(root)) == {"uri": ".", "uriBaseId": "%SRCROOT%"}


def test_a_message_says_what_it_says() -> None:
    evil = "\x1b[2J [here](https://evil.example) {0} {1}\u202e\n" + "x" * 5000
    text = result_of(finding(message=evil))["message"]["text"]
    assert text.isprintable()
    assert "](" not in text
    assert "{{0}}" in text
    assert len(text) < 1200


def fingerprint_of(row: dict[str, Any], **changed: Any) -> str:
    found: str = result_of(row, **changed)["partialFingerprints"]["primaryLocationLineHash"]
    return found


def test_fingerprints_stay_and_differ() -> None:
    same = fingerprint_of(finding())
    assert fingerprint_of(finding(offset=99, message="other words"), sha256="1" * 64, path="moved.zip") == same
    others = [finding(key="clip_range"), finding(entry="x"), finding(names=["os.popen"]), finding("unknown-name")]
    assert len({same, *map(fingerprint_of, others)}) == 5


def test_fingerprints_of_equal_findings_are_numbered_in_each_file() -> None:
    rows = [finding(), finding(key="clip_range"), finding(offset=9)]
    results = run_of(report(*rows), report(finding(), path="b.zip"))["results"]
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]
    assert [text.partition(":")[2] for text in prints] == ["1", "1", "2", "1"]
    assert len(set(prints[:3])) == 3
    assert prints[3] == prints[0]  # GitHub adds the path


def test_a_real_scan(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sbformat.cli import main

    monkeypatch.chdir(tmp_path)
    Path("a.zip").write_bytes(PPO.read_bytes())
    Path("evil.pkl").write_bytes(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.")
    assert main(["scan", "a.zip", str(tmp_path / "evil.pkl"), "nowhere", "--format", "sarif"]) == 2
    log = json.loads(capsys.readouterr().out)
    SARIF.validate(log)
    (run,) = log["runs"]
    assert [artifact["properties"]["verdict"] for artifact in run["artifacts"]] == ["clean", "dangerous"]
    assert {result["ruleId"] for result in run["results"]} == {"dangerous-name"}
    assert run["results"][0]["properties"]["offset"] == 2
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "evil.pkl"
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 1


def test_only_a_tag_of_the_file_itself_has_its_line() -> None:
    for entry, kind, line in (
        ("", "text", 3),
        ("args.yml", "folder", 3),
        ("args.yml", "zip", 1),
        ("a.zip!b", "folder", 1),
    ):
        (result,) = run_of(report(finding("python-tag", entry=entry, key="", line=3), format=kind))["results"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line


@pytest.mark.parametrize(
    ("name", "content"),
    [("args.yml", b"a: 1\r\nb: 2\nc: !!python/object/apply:os.system [x]\n"), ("data", b'{\n "a": 1,\n "b": oops\n}')],
)
def test_a_finding_in_a_text_is_at_its_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, tmp_path):  # a file, and the file of a folder
        found = scan(path)
        rows = [row._asdict() for row in found.findings if row.rule in ("python-tag", "broken")]
        (result,) = run_of(report(*rows, path=str(path), format=found.format))["results"]
        place = result["locations"][0]["physicalLocation"]
        assert place["region"] == {"startLine": 3}
        assert place["artifactLocation"]["uri"].endswith(f"/{name}")
