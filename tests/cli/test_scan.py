"""``sbformat scan``: exit status, formats, trees, many processes, and text that no file chose."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pytest

import sbformat
from sbformat import parallel
from sbformat.archive.kinds import Kind
from sbformat.cli import _options, main
from sbformat.cli import scan as scan_command
from sbformat.cli.scan import group_findings
from sbformat.schema import load_schema
from sbformat.tools.scan.findings import RULES, VERDICTS
from tests.cli.test_commands import run, run_json
from tests.helpers import thresholds, work_for_processes
from tests.helpers.bundled import PPO, ROOT, SAC, entries, with_data, zipped
from tests.helpers.forks import run_fresh
from tests.helpers.reports import unfold

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SYSTEM = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."
NAMED = b"\x80\x02cmy.policies\nMine\n."
EVIL = "\x1b]0;pwned\x07\x1b[2J\u202e\u2066\x9b31m"


def write(folder: Path, **contents: bytes) -> None:
    """Write files; ``a_zip`` stands for ``a.zip``."""
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_bytes(content)


def with_blob(pickle: bytes, key: str = "lr_schedule") -> bytes:
    """The PPO archive with another blob."""
    import base64

    blob = {":type:": "<class 'x'>", ":serialized:": base64.b64encode(pickle).decode()}
    return with_data(lambda data: data.update({key: blob}))


# -- verdicts and exit status -------------------------------------------------------------------------


def test_clean_archives(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = run(capsys, "scan", PPO, SAC)
    assert status == 0
    assert f"{PPO}: clean (sha256 " in out
    assert out.endswith("2 files, 2 clean\nresult: passes (--fail-on unknown)\n")
    status, (report, _) = run_json(capsys, "scan", PPO, SAC)
    assert (status, report["verdict"], report["findings"]) == (0, "clean", [])
    assert "torch._utils._rebuild_tensor_v2" in report["imports"]
    assert report["size"] == PPO.stat().st_size
    assert len(report["sha256"]) == 64


def test_one_file_needs_no_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(capsys, "scan", PPO)[1].splitlines()) == 1


def test_a_finding_says_where_and_why(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_zip=with_blob(SYSTEM))
    status, out = run(capsys, "scan", tmp_path / "a.zip")
    assert status == 1
    assert "a.zip: dangerous" in out
    assert "data:lr_schedule at byte 2 " in out
    assert "os.system" in out
    assert "dangerous-name" in out
    assert "safe" not in out.replace("unsafe", "")
    status, (report,) = run_json(capsys, "scan", tmp_path / "a.zip")
    assert (status, report["verdict"], report["outcome"]) == (1, "dangerous", "ok")
    row = report["findings"][0]
    assert (row["entry"], row["key"], row["names"]) == ("data", "lr_schedule", ["os.system"])


def test_a_finding_says_what_is_called_with_which_arguments(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_zip=with_blob(SYSTEM))
    message = "os.system('true') is called: it runs commands"
    _, out = run(capsys, "scan", tmp_path / "a.zip")
    assert message in out
    assert f"sbformat inspect {tmp_path / 'a.zip'} --blobs lr_schedule shows all that is called" in out
    assert "dangerous (harmful): loading the file may run code" in out.splitlines()[-1]
    assert "not known" not in out
    _, (report,) = run_json(capsys, "scan", tmp_path / "a.zip")
    assert message in report["findings"][1]["message"]
    _, out = run(capsys, "scan", tmp_path / "a.zip", "--format", "sarif")
    assert message in out
    assert "shows all" not in run(capsys, "scan", tmp_path / "a.zip", "--quiet")[1]


def test_what_not_known_means_is_explained_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_pkl=NAMED.replace(b".", b"(tR."), b_pkl=NAMED.replace(b".", b"(tR."))
    _, out = run(capsys, "scan", tmp_path)
    assert out.count("dangerous (not known): loading the file uses something that sbformat does not know") == 1
    assert "harmful" not in out


def test_other_arguments_make_no_other_fingerprint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is called may change in each version of a file: code scanning keeps it as one alert."""
    calls = SYSTEM[:-1] + SYSTEM[2:-1].replace(b"true", b"ls -") + b"\x86."
    found = []
    for pickle in (SYSTEM, SYSTEM.replace(b"true", b"echo"), calls):
        write(tmp_path, a_zip=with_blob(pickle))
        results = json.loads(run(capsys, "scan", tmp_path / "a.zip", "--format", "sarif")[1])["runs"][0]["results"]
        found.append([row["partialFingerprints"] for row in results if row["ruleId"] == "dangerous-name"])
    assert found[0] == found[1] == found[2]
    assert results[1]["message"]["text"].endswith("; 1 more call of it")


def test_a_level_that_no_verdict_reaches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_pkl=SYSTEM)
    assert run_json(capsys, "scan", tmp_path / "a.pkl", "--fail-on", "never")[0] == 0
    assert run_json(capsys, "scan", tmp_path / "a.pkl", tmp_path / "none.pkl", "--fail-on", "never")[0] == 2


@pytest.mark.parametrize(("level", "status"), [("unknown", 1), ("code", 0), ("broken", 0), ("dangerous", 0), (None, 1)])
def test_the_level_decides(capsys: pytest.CaptureFixture[str], tmp_path: Path, level: str | None, status: int) -> None:
    write(tmp_path, a_pkl=NAMED)
    extra = [] if level is None else ["--fail-on", level]
    assert run_json(capsys, "scan", tmp_path / "a.pkl", *extra)[0] == status
    write(tmp_path, a_pkl=SYSTEM)
    assert run_json(capsys, "scan", tmp_path / "a.pkl", *extra)[0] == 1


def test_what_cannot_be_read_outranks_findings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_pkl=SYSTEM)
    status, reports = run_json(capsys, "scan", tmp_path / "nowhere", tmp_path / "a.pkl", PPO)
    assert status == 2
    assert [report["outcome"] for report in reports] == ["cannot open", "ok", "ok"]
    assert main(["scan", str(tmp_path / "nowhere"), str(tmp_path / "a.pkl"), str(PPO)]) == 2
    out, err = capsys.readouterr()
    assert err == f"sbformat: {tmp_path / 'nowhere'}: cannot open: No such file or directory\n"
    assert out.splitlines()[-2:] == [
        "3 files, 1 clean, 1 dangerous (harmful), 1 not read",
        f"result: fails (--fail-on unknown): {tmp_path / 'a.pkl'}; not read: {tmp_path / 'nowhere'}",
    ]


def test_files_and_folders_without_permission(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_zip=PPO.read_bytes(), b_zip=PPO.read_bytes())
    (tmp_path / "a.zip").chmod(0)
    if os.access(tmp_path / "a.zip", os.R_OK):
        pytest.skip("root reads everything")
    (tmp_path / "c").mkdir(mode=0)
    status, reports = run_json(capsys, "scan", tmp_path)
    assert status == 2
    assert [report["outcome"] for report in reports] == ["cannot open", "ok", "cannot open"]


def test_a_folder_that_cannot_be_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c").mkdir()
    real = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("c"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    status, (report,) = run_json(capsys, "scan", tmp_path)
    assert (status, report["path"], report["outcome"]) == (2, str(tmp_path / "c"), "cannot open")


def test_names_can_be_allowed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_zip=with_blob(NAMED, "policy_class"))
    path = tmp_path / "a.zip"
    assert run_json(capsys, "scan", path)[0] == 1
    assert run_json(capsys, "scan", path, "--allow", "my.policies")[0] == 1
    assert run_json(capsys, "scan", path, "--allow", "x.y", "--allow", "my.policies.Mine")[0] == 0


@pytest.mark.parametrize("name", ["os.system", "builtins.eval"])
def test_dangerous_names_cannot_be_allowed(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["scan", str(tmp_path / "nowhere"), "--allow", "my.Class", "--allow", name])
    assert caught.value.code == 2
    assert f"--allow: {name} cannot be allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [("--jobs", "0"), ("--jobs", "many"), ("--jobs", "-1"), ("--fail-on", "clean"), ("--format", "xml"),
     ("--limit", "x=1")],
)  # fmt: skip
def test_wrong_options(capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["scan", str(PPO), *wrong])
    assert caught.value.code == 2
    capsys.readouterr()


def test_limits_reach_the_scan(capsys: pytest.CaptureFixture[str]) -> None:
    status, (report,) = run_json(capsys, "scan", PPO, "--limit", "blob_bytes=10")
    assert status == 1
    assert {row["rule"] for row in report["findings"]} == {"broken"}


def test_the_words_are_those_of_the_scanner() -> None:
    assert scan_command.VERDICTS == VERDICTS
    schema = load_schema("report")["$defs"]
    assert schema["Scanned"]["properties"]["verdict"]["enum"] == list(VERDICTS)
    assert schema["Scanned"]["properties"]["format"]["enum"] == list(get_args(Kind))
    assert schema["Finding"]["properties"]["verdict"]["enum"] == list(VERDICTS[1:])
    assert schema["Finding"]["properties"]["rule"]["enum"] == list(RULES)


# -- trees --------------------------------------------------------------------------------------------


def found(capsys: pytest.CaptureFixture[str], top: Path, *extra: object) -> list[str]:
    """What is looked into in a tree, by name."""
    _, reports = run_json(capsys, "scan", top, *extra)
    return [os.path.relpath(report["path"], top) for report in reports]


def saved(array: np.ndarray) -> bytes:
    """An array as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def in_tar(content: bytes) -> bytes:
    """A tar of one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        info = tarfile.TarInfo("pickle")
        info.size = len(content)
        file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


LOADABLE = {
    "archive.txt": PPO.read_bytes(),
    "behind text": b"#!/bin/sh\nexit\n" + PPO.read_bytes(),
    "blob.json": b'{"a": {":serialized:": "gAROLg=="}}',
    "blob in escapes.json": rb'{"a": {"\u003ase\u0072ialized\u003A": "gAROLg=="}}',
    "broken.json": b'{"a": {":serialized:": "gAROLg=="',
    "legacy.bin": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
    "objects.npy": saved(np.array([{}], dtype=object)),
    "pickle.md": b"\x80\x04N.",
    "pickle of protocol 0": b"cos\nsystem\n(S'true'\ntR.",
    "pickle that breaks early": b"cos\nsystem\n(S'true",
    "pickle that is cut": b"cos\nsystem\n(S'true'\ntR",
    "pickle with a long text first": b"T\x00\x00\x01\x00" + b"x" * 65536 + b"0cos\nsystem\n(S'true'\ntR.",
    "pickle without PROTO": SYSTEM[2:],
    "policy": entries()["policy.pth"],
    "tar": in_tar(SYSTEM),
}
NOTHING = {
    "a.html": b"<!doctype html><html></html>",
    "a.json": b'{"a": ["serialized"]}',
    "a.md": b"# An agent\n\nclass Foo:\n    pass\n",
    "a.npy": saved(np.zeros(3)),
    "a.png": b"\x89PNG\r\n\x1a\n" + bytes(64),
    "a.pth": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "a.py": b"class Foo:\n    pass\n",
    "bitmap.bmp": b"BM\x9a\x00\x00\x00" + bytes(128),
    "empty": b"",
    "numbers.txt": b"1.5\n2.5\n",
    "requirements.txt": b"cloudpickle\ngym\nnumpy\n",
    "words": b"Very\nVery\nVain\n" * 1000,
}


def test_files_of_a_tree_are_told_by_their_content(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, content in {**LOADABLE, **NOTHING}.items():
        (tmp_path / name).write_bytes(content)
    assert found(capsys, tmp_path, "--jobs", 1) == sorted(LOADABLE)
    document = json.loads(run(capsys, "scan", tmp_path, "--format", "json", "--list-skipped")[1])
    assert document["skipped"]["counts"] == {"other": len(NOTHING) - 2, "script": 1, "lfs-pointer": 1}
    assert [os.path.relpath(row["path"], tmp_path) for row in document["skipped"]["files"]] == sorted(NOTHING)


OTHERS = {
    "a.html": "an HTML page, as of a failed download: download it again",
    "a.md": "a text file: if it is a download, download it again",
    "a.pth": "a Git LFS pointer: fetch the file with 'git lfs pull', or download it again",
    "a.py": "a text file: if it is a download, download it again",
    "empty": "an empty file: download it again",
    "numbers.txt": "a text file: if it is a download, download it again",
    "requirements.txt": "a text file: if it is a download, download it again",
    "words": "a text file: if it is a download, download it again",
}
"""Files that the command does not read, and what it says when they are named."""


def test_a_file_that_is_named_is_looked_into(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, content in NOTHING.items():
        (tmp_path / name).write_bytes(content)
        for level in ("unknown", "dangerous", "never"):
            status, (report,) = run_json(capsys, "scan", tmp_path / name, "--fail-on", level)
            if name in OTHERS:
                assert (status, report["outcome"]) == (2, "unsupported")
                assert report["message"] == f"expected an archive, got {OTHERS[name]}"
            else:
                assert status in (0, 1)
                assert report["outcome"] == "ok"


@pytest.mark.parametrize("name", ["args.yml", "config.YAML"])
def test_a_settings_file_with_a_tag_is_judged_as_in_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"a: !!python/name:os.system x")
    status, (report,) = run_json(capsys, "scan", tmp_path / name)
    assert (status, [row["rule"] for row in report["findings"]]) == (1, ["python-tag"])
    assert run_json(capsys, "scan", tmp_path)[1][0]["findings"] == report["findings"]


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("args.yml", b"n_envs: 8\n", 0), ("CONFIG.YAML", b"a: !!python/tuple [1]", 0), ("a.json", b"[1, 2]", 0),
        ("a.json", b'{"half": ', 0), ("args.yml", b"<!doctype html>", 2), ("args.yml", b"", 2), ("a.yml", b"\0\1", 1),
    ],
)  # fmt: skip
def test_a_settings_file_that_is_named_is_judged_as_in_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: bytes, status: int
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run_json(capsys, "scan", tmp_path / name)[0] == status


def test_quiet_says_that_a_scan_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path, a_pkl=SYSTEM, b_pkl=SYSTEM + b" ", c_zip=PPO.read_bytes())
    out = run(capsys, "scan", tmp_path, "--quiet")[1]
    assert out.splitlines()[-1] == f"result: fails (--fail-on unknown): {tmp_path / 'a.pkl'} and 1 more"
    out = run(capsys, "scan", tmp_path, "--quiet", "--fail-on", "never")[1]
    assert "result" not in out
    assert run(capsys, "scan", tmp_path, "--fail-on", "never")[1].endswith("result: passes (--fail-on never)\n")


def test_folders_of_pointers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    advice = "a Git LFS pointer: fetch the file with 'git lfs pull', or download it again"
    agent, zips, mixed = tmp_path / "agent", tmp_path / "zips", tmp_path / "mixed"
    for name in ("agent/data", "agent/policy.pth", "zips/a.zip", "mixed/policy.pth", "mixed/readme.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(NOTHING["a.pth"])
    (mixed / "data").write_bytes(entries()["data"])
    for folder in (agent, zips):
        for command in ("scan", "inspect", "validate"):
            assert main([command, str(folder)]) == 2
            assert advice in unfold(capsys.readouterr().err)
        assert main(["predict", str(folder), "--observation", "[0, 0, 0]"]) == 2
        assert advice in unfold(capsys.readouterr().err)
    report = sbformat.scan(agent)
    assert (report.verdict, [row.rule for row in report.findings]) == ("unknown", ["unknown-entry"])
    (agent / "args.yml").write_bytes(b"a: !!python/name:os.system x")
    assert run(capsys, "scan", agent)[0] == 1
    assert sbformat.read(mixed).decode("gamma") == sbformat.read(PPO).decode("gamma")
    with pytest.raises(sbformat.UnsupportedError, match="git lfs pull"):
        _ = sbformat.read(mixed).parameters["policy"]
    broken = [row for row in sbformat.scan(mixed).findings if row.rule == "broken"]
    assert advice in broken[0].message


def test_the_order_is_that_of_the_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("b", "a", "B", "c/z", "c/a", "a.d/x", "c/b/y", ".x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(NAMED)
    assert found(capsys, tmp_path, "--jobs", 1) == [".x", "B", "a", "b", "a.d/x", "c/a", "c/z", "c/b/y"]


def test_unzipped_archives_are_one_thing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for folder, names in {
        "whole": list(entries()),
        "only-data": ["data"],
        "no-data": ["policy.pth", "_stable_baselines3_version"],
        "loose": ["policy.pth", "policy.optimizer.pth"],
    }.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_bytes(entries()[name])
    assert found(capsys, tmp_path) == [
        "loose/policy.optimizer.pth",
        "loose/policy.pth",
        "no-data",
        "only-data",
        "whole",
    ]
    status, (report,) = run_json(capsys, "scan", tmp_path / "whole")
    assert (status, report["format"], report["sha256"]) == (0, "folder", None)
    assert report["size"] == sum(map(len, entries().values()))
    assert run(capsys, "scan", tmp_path / "whole")[1] == f"{tmp_path / 'whole'}: clean\n"


def test_a_tree_with_nothing_in_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "scan", tmp_path)[0] == 2
    (tmp_path / "a.txt").write_text("text")
    assert main(["scan", str(tmp_path)]) == 2
    text, err = capsys.readouterr()
    assert text.startswith("0 files\nwithout a verdict: 1 other file, examined, with nothing in it that loading")
    assert err == "sbformat: nothing to judge: no archive, torch file or pickle was found\n"
    assert run_json(capsys, "scan", tmp_path) == (2, [])


def test_one_of_several_folders_with_nothing_in_it_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    (full / "below").mkdir(parents=True)
    empty.mkdir()
    (full / "below" / "a.zip").write_bytes(PPO.read_bytes())
    for content in ((), ("a.txt",)):
        for name in content:
            (empty / name).write_text("text")
        assert main(["scan", str(full), str(empty)]) == 2
        out, err = capsys.readouterr()
        assert f"{full / 'below' / 'a.zip'}: clean" in out
        assert err == f"sbformat: {empty}: nothing to judge: no archive, torch file or pickle was found\n"
    for others in (full, full / "below"):  # their files are listed already
        assert main(["scan", str(full), str(others)]) == 0
        assert capsys.readouterr().err == ""


# -- many files ---------------------------------------------------------------------------------------


def test_processes_change_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number in range(11):
        archive = PPO.read_bytes() if number < 3 else NAMED
        write(tmp_path, **{f"{number}a_zip": archive, f"{number}b_pkl": SYSTEM, f"{number}c_zip": b"PK\3\4"})
    paths = [*sorted(tmp_path.iterdir()), tmp_path / "nowhere"]
    alone = run_json(capsys, "scan", *paths, "--jobs", 1)
    assert alone == run_json(capsys, "scan", *paths, "--jobs", 2)
    assert alone[0] == 2


def test_few_files_start_no_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def in_order(work: Any, items: Any, *, processes: int, lost: Any) -> Iterable[Any]:
        seen.append(processes)
        return map(lost, items)  # what the scan finds plays no role here

    monkeypatch.setattr(parallel, "map_in_order", in_order)
    for count in (1, 31, 32, 33):
        run(capsys, "scan", *[PPO] * count, "--jobs", 3)
    assert seen == [1, 1, 3, 3]
    monkeypatch.setattr(thresholds.PROCESS_BYTES, 2 * PPO.stat().st_size)
    for paths in ([PPO], [PPO.with_suffix(""), PPO], [PPO, PPO, PPO, PPO], [PPO, "nowhere"]):
        run(capsys, "scan", *paths, "--jobs", 3)
    assert seen[4:] == [1, 2, 3, 1]


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_order(processes: int) -> None:
    done = parallel.map_in_order(
        work_for_processes.double, range(40), processes=processes, lost=work_for_processes.lost
    )
    assert list(done) == [number * 2 for number in range(40)]


def test_work_is_handed_out_as_it_is_done() -> None:
    taken = []

    def numbers() -> Iterable[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    done = iter(parallel.map_in_order(work_for_processes.double, numbers(), processes=2, lost=work_for_processes.lost))
    assert [next(done) for _ in range(3)] == [0, 2, 4]
    assert len(taken) < 40
    done.close()  # type: ignore[attr-defined]


def test_a_process_that_dies_takes_only_its_file_with_it() -> None:
    done = parallel.map_in_order(work_for_processes.double_or_die, range(12), processes=2, lost=work_for_processes.lost)
    assert list(done) == [-number if number % 7 == 3 else number * 2 for number in range(12)]


@pytest.mark.parametrize("error", [ZeroDivisionError, OSError, EOFError])
def test_an_error_of_our_own_is_raised(error: type[Exception]) -> None:
    with pytest.raises(error):
        list(parallel.map_in_order(work_for_processes.fail, [error] * 20, processes=2, lost=work_for_processes.lost))


def test_a_process_that_is_ended_once_costs_nothing(tmp_path: Path) -> None:
    items = [(number, str(tmp_path)) for number in range(8)]
    done = parallel.map_in_order(work_for_processes.die_once, items, processes=2, lost=work_for_processes.lost)
    assert list(done) == list(range(8))


def test_large_items_and_results_pass_each_other() -> None:
    items = ["x" * 300_000] * 12
    done = parallel.map_in_order(work_for_processes.many, items, processes=2, lost=work_for_processes.lost)
    assert [len(result) for result in done] == [3_000_000] * 12


FORKED = """
import sys
from sbformat import parallel
from tests.helpers.work_for_processes import die_once, double_or_die, lost

if __name__ == "__main__":
    assert parallel._is_alone() == (sys.platform == "linux")
    print(list(parallel.map_in_order(double_or_die, range(12), processes=2, lost=lost)))
    print(list(parallel.map_in_order(die_once, [(number, sys.argv[1]) for number in range(8)], processes=3, lost=lost)))
    print(next(parallel.map_in_order(double_or_die, range(100), processes=3, lost=lost)))
"""


def test_processes_of_a_process_with_one_thread(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(FORKED)
    done = subprocess.run(
        [sys.executable, "-W", "error", tmp_path / "main.py", tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=500,
    )
    doubled = [-number if number % 7 == 3 else number * 2 for number in range(12)]
    assert (done.stdout, done.stderr) == (f"{doubled}\n{list(range(8))}\n0\n", "")


def test_a_lost_file_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def in_order(work: Any, items: Iterable[str], *, processes: int, lost: Any) -> Iterable[Any]:
        assert processes
        first, *rest = items
        return [lost(first), *map(work, rest)]

    monkeypatch.setattr(parallel, "map_in_order", in_order)
    status, reports = run_json(capsys, "scan", PPO, SAC)
    assert (status, [report["outcome"] for report in reports]) == (2, ["process ended", "ok"])
    assert (main(["scan", str(PPO), str(SAC)]), "process ended: the process" in capsys.readouterr().err) == (2, True)


SLEEPER = """
import signal
import sys
from sbformat.parallel import map_in_order
from tests.helpers.work_for_processes import lost, sleep
from tests.helpers.reports import unfold

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
    list(map_in_order(sleep, [sys.argv[1]] * 8, processes=2, lost=lost))
"""


def is_running(pid: int) -> bool:
    """Say whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="asks the system of Linux")
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, ended_by: signal.Signals) -> None:
    (tmp_path / "main.py").write_text(SLEEPER)
    (tmp_path / "pids").mkdir()
    with subprocess.Popen(
        [sys.executable, tmp_path / "main.py", tmp_path / "pids"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: len(os.listdir(tmp_path / "pids")) == 2)
        process.send_signal(ended_by)
        assert process.wait(timeout=500) != 0
        wait_until(lambda: not any(is_running(int(pid)) for pid in os.listdir(tmp_path / "pids")))


def wait_until(done: Any) -> None:
    """Wait for something that takes a moment, or a minute where much else runs."""
    for _ in range(10_000):
        if done():
            return
        time.sleep(0.05)
    pytest.fail("it never came")


# -- output -------------------------------------------------------------------------------------------


def hostile(folder: Path) -> Path:
    """A file in whose name and content everything tries to command a terminal or a viewer."""
    link = "[here](https://evil.example) {0}"
    named = b"\x80\x02c" + EVIL.encode() + b"\n" + link.encode() + b"\n."
    change = with_data(
        lambda data: data.update(
            {
                EVIL: {":type:": "x", ":serialized:": "gAJjG10wCmV2aWwKLg=="},
                link: {":type:": "x", ":serialized:": "gAJj4oCuCmV2aWwKLg=="},
            }
        )
    )
    (folder / f"{EVIL}.zip").write_bytes(change)
    (folder / f"{link.replace('/', '')}.pkl").write_bytes(named)
    (folder / os.fsdecode(b"\xff\xfe.zip")).write_bytes(zipped({"notes": named}))
    return folder


@pytest.mark.parametrize("words", ["text", "json", "sarif"])
def test_no_file_chooses_the_bytes_of_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str
) -> None:
    status, out = run(capsys, "scan", hostile(tmp_path), tmp_path / f"{EVIL}.gone", "--format", words)
    assert status == 2
    assert not {char for char in out if not (char.isprintable() or char == "\n")}
    if words == "sarif":
        results = json.loads(out)["runs"][0]["results"]
        assert any("here" in result["message"]["text"] for result in results)
        assert not any("](" in result["message"]["text"] for result in results)


def scan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands with different outputs scan a file once."""
    import sbformat.tools.scan as tool

    scan, kept = tool.scan, []

    def scan_or_repeat(*arguments: Any, **options: Any) -> Any:
        if not kept:
            kept.append(scan(*arguments, **options))
        return kept[0]

    monkeypatch.setattr(tool, "scan", scan_or_repeat)


def test_the_worst_is_shown_of_many(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan_once(monkeypatch)
    names = b"".join(b"cmy.module%d\nThing\n0" % number for number in range(3000))
    write(tmp_path, a_pkl=b"\x80\x02" + names + SYSTEM[2:])
    status, out = run(capsys, "scan", tmp_path / "a.pkl", "--fail-on", "dangerous")
    assert status == 1
    assert "os.system" in out.splitlines()[4]
    assert len(out.splitlines()) < 1100
    assert "more that are not listed" in out
    _, (report,) = run_json(capsys, "scan", tmp_path / "a.pkl")
    assert len(report["findings"]) + report["omitted"] > 3000


@pytest.mark.parametrize("extra", ["--jobs 2", "--format sarif --jobs 1"])
def test_a_reader_that_stops_listening_is_no_crash(tmp_path: Path, extra: str) -> None:
    for number in range(200):
        (tmp_path / f"{number}.pkl").write_bytes(SYSTEM)
    done = subprocess.run(
        f"{sys.executable} -m sbformat scan {tmp_path} {extra} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=500,
    )
    assert done.stderr == ""


def test_one_file_imports_nothing_heavy() -> None:
    heavy = {
        "numpy", "jsonschema", "safetensors", "rich", "torch", "multiprocessing", "concurrent", "pickle", "_pickle",
    }  # fmt: skip
    for words in ("text", "json", "sarif"):
        done = run_fresh("scan", PPO, "--format", words)
        assert done.returncode == 0
        assert "sbformat" in done.packages
        assert not done.packages & heavy


def test_other_commands_do_not_load_the_scanner() -> None:
    assert "sbformat.tools.scan" not in run_fresh("validate", PPO).modules


def test_many_files_show_a_bar_on_a_terminal(tmp_path: Path) -> None:
    import pty

    for number in range(60):
        (tmp_path / f"{number}.pkl").write_bytes(NAMED)
    read_end, write_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sbformat", "scan", tmp_path, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=write_end,
        cwd=ROOT,
    ) as process:
        os.close(write_end)
        shown = b""
        while chunk := read_or_end(read_end):
            shown += chunk
        out = process.communicate()[0]
    os.close(read_end)
    assert b"scanning" in shown
    assert b"60 files, 60 unknown" in out


def read_or_end(file: int) -> bytes:
    """Read from a terminal; nothing when the other side is closed."""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device")
def test_a_device_has_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    status, (device, archive) = run_json(capsys, "scan", "/dev/zero", PPO)
    assert (status, device["outcome"], archive["verdict"]) == (2, "unsupported", "clean")
    assert main(["scan", "/dev/zero"]) == 2
    assert "expected a file, a folder or a pipe" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["dqn", pytest.param("ppo-box", marks=pytest.mark.exhaustive)])
def test_many_findings_of_a_kind_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    scan_once(monkeypatch)
    path = ROOT / "tests" / "nets" / "archives" / "sbx" / f"{name}.zip"
    assert main(["scan", str(path), "--format", "json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)["files"]
    total = len(report["findings"])
    assert total > 400
    assert main(["scan", str(path)]) == 1  # to a pipe
    assert len(capsys.readouterr().out.splitlines()) > total
    monkeypatch.setattr(_options, "shows_whole", lambda: False)
    for option in ("--format=text", "--quiet"):
        assert main(["scan", str(path), option]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 26
        assert f"  --verbose or --format json lists all {total}" in lines
        counted = [int(number) for line in lines for number in re.findall(r"and (\d+) more of the kind", line)]
        rules = [line for line in lines if line.startswith(("    code ", "    unknown "))]
        assert sum(counted) + len(rules) - len(counted) == total


def test_findings_that_are_counted_come_after_those_with_other_names() -> None:
    row = {"verdict": "dangerous", "reason": "harmful", "entry": "data", "key": "a", "rule": "r", "offset": 1}
    findings = [{**row, "names": [name]} for name in ("os.system",) * 30 + ("subprocess.Popen",)]
    listed = group_findings(findings)
    assert [(row["names"], more) for row, more in listed] == [
        (["os.system"], 0), (["subprocess.Popen"], 0), (["os.system"], 0), (["os.system"], 28),
    ]  # fmt: skip
    assert group_findings(findings[-20:]) == [(row, 0) for row in findings[-20:]]
    many = [{**row, "names": [], "key": str(index)} for index in range(50)]
    assert group_findings(many) == [(row, 0) for row in many[:20]]


def test_names_that_a_message_does_not_contain_follow_it() -> None:
    row = {"verdict": "unknown", "reason": None, "entry": "data", "key": "a", "offset": None, "rule": "unknown-name"}
    cells = scan_command._list_cells({**row, "names": ["my.A", "my.B"], "message": "my.A is not known"}, 0)
    assert cells[-1] == "my.A is not known: my.B"
