"""``scan --baseline``: accepted findings are shown and do not fail a scan; nothing else is accepted."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import sbformat
from sbformat.cli import main
from sbformat.schema import load_schema
from sbformat.tools.scan.baseline import apply_baseline, make_baseline, read_baseline, render_baseline
from tests.cli.test_commands import run, run_json
from tests.helpers.bundled import PPO
from tests.helpers.reports import unfold
from tests.tools.scan.test_sarif import SARIF

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
NAMED = b"\x80\x02cmy.policies\nMine\n."
SCHEMA = Draft202012Validator(load_schema("baseline"))


@pytest.fixture
def baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A baseline of a folder with a dangerous and an unknown file."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "evil.pkl").write_bytes(SYSTEM)
    (tmp_path / "models" / "named.pkl").write_bytes(NAMED)
    path = tmp_path / "accepted.json"
    assert main(["scan", "--write-baseline", str(path), str(tmp_path / "models")]) == 0
    models = tmp_path / "models"
    assert capsys.readouterr().err.splitlines() == [
        f"sbformat: wrote {path}: 3 accepted findings",
        f"  - 2 findings dangerous (harmful), in {models / 'evil.pkl'}",
        f"  - 1 finding unknown, in {models / 'named.pkl'}",
    ]
    return path


def change(path: Path, **fields: Any) -> None:
    """Change fields of all items."""
    document = json.loads(path.read_text("utf-8"))
    for item in document["accepted"]:
        item.update(fields)
    path.write_text(json.dumps(document), "utf-8")


def list_accepted(reports: list[dict[str, Any]]) -> list[bool]:
    return [row.get("accepted", False) for report in reports for row in report["findings"]]


def test_accepted_findings_are_shown_and_do_not_count(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SCHEMA.validate(json.loads(baseline.read_text("utf-8")))
    models = baseline.with_name("models")
    status, out = run(capsys, "scan", models, "--baseline", baseline)
    assert status == 0
    assert "evil.pkl: dangerous (harmful)" in out
    assert out.count("  accepted  ") == 3
    assert out.splitlines()[-2:] == [
        "2 files, 1 unknown, 1 dangerous (harmful)",
        "result: passes (--fail-on unknown, 3 of 3 findings accepted by the baseline)",
    ]
    status, reports = run_json(capsys, "scan", models, "--baseline", baseline)
    assert (status, list_accepted(reports)) == (0, [True, True, True])
    assert [report["verdict"] for report in reports] == ["dangerous", "unknown"]
    assert all("accepted" not in row for report in run_json(capsys, "scan", models)[1] for row in report["findings"])
    out = run(capsys, "scan", models, "--baseline", baseline, "--format", "csv")[1]
    assert [line.rpartition(",")[2] for line in out.splitlines()] == ["accepted", "true", "true", "true"]


def test_a_changed_file_is_not_accepted_and_its_item_is_a_remark(
    baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = baseline.with_name("models") / "evil.pkl"
    evil.write_bytes(SYSTEM.replace(b"true", b"reboot"[:4]))
    assert main(["scan", str(evil.parent), "--baseline", str(baseline), "--format", "json"]) == 1
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert list_accepted(document["files"]) == [False, False, True]
    assert document["baseline"]["accepted"] == 1
    assert [item["path"] for item in document["baseline"]["unmatched"]] == [str(evil)]
    changed = f"{baseline}: {evil} changed since its findings were accepted (other SHA-256): look at it again"
    remark = f"sbformat: {changed}; when it is fine: sbformat scan --write-baseline {baseline} {evil}\n"
    assert unfold(err) == remark
    assert main(["scan", str(evil.parent), "--baseline", str(baseline), "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert (unfold(err), out.splitlines()[-1]) == (
        remark, f"result: fails (--fail-on unknown, 1 of 3 findings accepted by the baseline): {evil}",
    )  # fmt: skip
    assert main(["scan", str(evil.parent), "--baseline", str(baseline), "--quiet", "--fail-on", "never"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["scan", "--write-baseline", str(baseline), str(evil), "--quiet"]) == 0
    assert main(["scan", str(evil.parent), "--baseline", str(baseline)]) == 0
    assert capsys.readouterr().err == ""


def test_items_of_files_that_are_gone_or_were_not_scanned_are_remarks(
    baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil, named = (baseline.with_name("models") / name for name in ("evil.pkl", "named.pkl"))
    assert main(["scan", str(named), "--baseline", str(baseline)]) == 0
    expected = f"sbformat: {baseline}: 1 of 2 items are of files that were not scanned: {evil}\n"
    assert unfold(capsys.readouterr().err) == expected
    evil.unlink()
    assert main(["scan", str(named.parent), "--baseline", str(baseline)]) == 0
    expected = f"sbformat: {baseline}: 1 of 2 items match no finding any more: {evil}; remove them from {baseline}\n"
    assert unfold(capsys.readouterr().err) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [("rule", "python-tag"), ("verdict", "unknown"), ("reason", None), ("entry", "data"), ("key", "x"),
     ("names", ["os.popen"]), ("sha256", "0" * 64)],
)  # fmt: skip
def test_a_finding_that_differs_in_one_field_is_not_accepted(
    baseline: Path, capsys: pytest.CaptureFixture[str], field: str, value: Any
) -> None:
    change(baseline, **{field: value})
    status, reports = run_json(capsys, "scan", baseline.with_name("models") / "evil.pkl", "--baseline", baseline)
    assert (status, list_accepted(reports)) == (1, [False, False])


def test_a_copy_of_a_file_is_accepted_under_any_name(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (baseline.with_name("models") / "copy.pkl").write_bytes(SYSTEM)
    status, reports = run_json(capsys, "scan", baseline.with_name("models"), "--baseline", baseline)
    assert (status, len(reports)) == (0, 3)


def test_findings_that_are_not_listed_are_not_accepted() -> None:
    (report,) = [{"path": "a", "outcome": "ok", **sbformat.scan(SYSTEM)._asdict()}]
    report["findings"] = [row._asdict() for row in report["findings"]]
    items = make_baseline([report])
    assert apply_baseline([report], items, date(2026, 1, 1)).accepted == 2
    from sbformat.cli.scan import _exit_status

    assert _exit_status([report], "unknown") == 0
    assert _exit_status([{**report, "omitted": 1}], "unknown") == 1


def test_findings_that_are_not_listed_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "many.pkl"
    path.write_bytes(b"\x80\x02" + b"".join(b"cmine\nx%d\n0" % number for number in range(1002)) + b"N.")
    assert main(["scan", str(path), "--write-baseline", str(tmp_path / "a.json"), "--quiet"]) == 1
    assert main(["scan", str(path), "--write-baseline", str(tmp_path / "a.json")]) == 1
    assert " cannot be accepted, because a report does not list so many" in capsys.readouterr().err


def test_an_item_expires_after_its_day() -> None:
    report = {"path": "a", "sha256": "0" * 64, "findings": [row._asdict() for row in sbformat.scan(NAMED).findings]}
    items = [{**item, "expires": "2026-06-30"} for item in make_baseline([report])]
    for day, accepted in ((30, 1), (29, 1)):
        applied = apply_baseline([report], items, date(2026, 6, day))
        assert (applied.accepted, applied.unmatched, applied.expired) == (accepted, [], [])
    del report["findings"][0]["accepted"]
    applied = apply_baseline([report], items, date(2026, 7, 1))
    assert (applied.accepted, applied.unmatched, applied.expired) == (0, [], items)
    assert "accepted" not in report["findings"][0]


def test_what_expired_is_a_remark(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(baseline, expires="2000-01-01")
    assert main(["scan", str(baseline.with_name("models")), "--baseline", str(baseline)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith(
        "result: fails (--fail-on unknown, 0 of 3 findings accepted by the baseline): "
    )
    assert "2 of 2 items expired: " in unfold(err)


def test_sarif_has_suppressions(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(baseline, justification="our own")
    models = baseline.with_name("models")
    (models / "new.pkl").write_bytes(NAMED + b" ")
    status, out = run(capsys, "scan", models, "--baseline", baseline, "--format", "sarif")
    log = json.loads(out)
    SARIF.validate(log)
    accepted = [{"kind": "external", "status": "accepted", "justification": "our own"}]
    found = [row["suppressions"] for row in log["runs"][0]["results"]]
    assert (status, found) == (1, [accepted] * 3 + [[], []])
    out = run(capsys, "scan", models, "--format", "sarif")[1]
    assert not any("suppressions" in row for row in json.loads(out)["runs"][0]["results"])


def test_writing_again_keeps_what_people_wrote(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(baseline, justification="our own", expires="9999-12-31")
    models = baseline.with_name("models")
    (models / "evil.pkl").unlink()
    (models / "new.pkl").write_bytes(SYSTEM + b" ")
    assert main(["scan", "--write-baseline", str(baseline), str(models)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"sbformat: wrote {baseline}: 4 accepted findings, 3 of them new",
        f"  - 2 findings dangerous (harmful), in {models / 'new.pkl'}",
        f"  - 1 finding unknown, in {models / 'new.pkl'}",
    ]
    items = read_baseline(baseline.read_bytes())
    assert [(item["path"], item.get("justification")) for item in items] == [
        (str(models / "named.pkl"), "our own"), *[(str(models / "new.pkl"), None)] * 2,
    ]  # fmt: skip
    assert items[0]["expires"] == "9999-12-31"
    assert read_baseline(render_baseline(items)) == items


def test_accepting_one_file_keeps_the_items_of_others(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = baseline.with_name("models")
    (models / "args.yml").write_text("a: !!python/object/apply:my.Thing []")
    change(baseline, justification="our own")
    assert main(["scan", str(models / "args.yml"), "--write-baseline", str(baseline)]) == 0
    err = unfold(capsys.readouterr().err)
    assert f"wrote {baseline}: 1 accepted finding, 1 of them new; kept 2 items of files that were not scanned" in err
    assert [item.get("justification") for item in read_baseline(baseline.read_bytes())] == [None, "our own", "our own"]
    assert main(["scan", str(models), "--baseline", str(baseline)]) == 0
    assert capsys.readouterr().err == ""
    (models / "evil.pkl").unlink()
    assert main(["scan", str(models), "--exclude", "named.*", "--write-baseline", str(baseline)]) == 0
    items = read_baseline(baseline.read_bytes())
    assert [item["path"] for item in items] == [str(models / "args.yml"), str(models / "named.pkl")]


def test_a_baseline_is_not_written_when_a_file_could_not_be_read(
    baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = baseline.read_bytes()
    assert main(["scan", "--write-baseline", str(baseline), str(PPO), str(baseline.with_name("none.pkl"))]) == 2
    assert f"{baseline}: not written, because something could not be read" in capsys.readouterr().err
    assert baseline.read_bytes() == before


def test_an_unzipped_archive_cannot_be_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "data").write_text("{", "utf-8")
    assert main(["scan", "--write-baseline", str(tmp_path / "a.json"), str(tmp_path / "agent")]) == 1
    assert "of folders cannot be accepted, because a folder has no digest" in capsys.readouterr().err
    assert read_baseline((tmp_path / "a.json").read_bytes()) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x80\x02", "expected a baseline, as scan --write-baseline writes it: expected UTF-8"),
        (b"[]", "expected a JSON object"),
        (b"{}", "'baseline_version' is a required property"),
        (b'{"baseline_version": 2, "accepted": []}', "/baseline_version: 1 was expected"),
        (b'{"baseline_version": 1, "accepted": [{"sha256": "x"}]}', "/accepted/0"),
        (b'{"baseline_version": 1, "accepted": [], "accepted": []}', "twice"),
    ],
)
@pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
def test_a_file_that_is_not_a_baseline_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, expected: str, option: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert main(["scan", str(PPO), option, str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("sbformat: ")) == ("", 1)
    assert err.startswith(f"sbformat: {path}: data failure: ")
    assert expected in unfold(err)
    assert path.read_bytes() == content


def test_a_day_that_does_not_exist_is_an_error(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(baseline, expires="2026-02-30")
    assert main(["scan", str(PPO), "--baseline", str(baseline)]) == 2
    assert "/accepted/0/expires: expected a date such as 2027-06-30, got 2026-02-30" in capsys.readouterr().err


def test_a_baseline_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(PPO), "--baseline", str(tmp_path / "none.json")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"sbformat: {tmp_path / 'none.json'}: cannot open: ")
    assert unfold(err).endswith(f"; --write-baseline {tmp_path / 'none.json'} makes it\n")
    assert main(["scan", str(PPO), "--write-baseline", str(tmp_path / "none" / "a.json")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["scan", str(PPO), "--write-baseline", "-"])
    assert "--write-baseline: expected a file, got '-'" in capsys.readouterr().err


def test_with_a_report_in_a_file_the_result_is_printed(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil, output = baseline.with_name("models") / "evil.pkl", baseline.with_name("s.json")
    command = ["scan", str(evil.parent), "-o", str(output), "--force"]
    assert main([*command, "--baseline", str(baseline)]) == 0
    counts = f"{output}: 2 files, 1 unknown, 1 dangerous (harmful)\n"
    passes = "result: passes (--fail-on unknown, 3 of 3 findings accepted by the baseline)\n"
    assert capsys.readouterr() == (f"{counts}{passes}", "")
    fails = f"result: fails (--fail-on dangerous): {evil}\n"
    assert main([*command, "--fail-on", "dangerous"]) == 1
    assert capsys.readouterr() == (f"{counts}{fails}", "")
    assert main([*command, "--fail-on", "dangerous", "--quiet"]) == 1
    assert capsys.readouterr() == (fails, "")
    assert main(["scan", str(evil), *command[2:], "--fail-on", "dangerous"]) == 1
    assert capsys.readouterr().out == f"{output}: 1 file, 1 dangerous (harmful)\n{fails}"
