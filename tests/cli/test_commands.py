"""The command line: exit status, text that is safe to show, JSON by its schema."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import sbformat.__main__
from sbformat import parallel
from sbformat.cli import COMMANDS, _options, _output, build_parser, main
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC, changed, entries, with_data, zipped
from tests.helpers.forks import run_fresh
from tests.helpers.many_archives import refuse_listing, write_archives
from tests.helpers.reports import REPORT, parse_reports
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    """Run a command; its status and standard output."""
    status = main([str(arg) for arg in args])
    return status, capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, list[dict[str, Any]]]:
    """Run a command with --format json; its status and reports, checked against the schema."""
    status, out = run(capsys, *args, "--format", "json")
    return status, parse_reports(out)


def test_inspect_shows_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = run(capsys, "inspect", PPO, "--long")
    assert status == 0
    for words in ("2.9.2", "PPO", "ActorCriticPolicy", "gamma", "0.99", "action_net.weight", "2 x 8", "Gymnasium"):
        assert words in out
    assert "gAWV" not in out


def test_inspect_fails_for_a_blob_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(PPO), "--blobs", "lr_schedul"]) == 2
    out, err = capsys.readouterr()
    assert (out, "missing: " in err, "did you mean 'lr_schedule'?" in err) == ("", True, True)
    status, (report,) = run_json(capsys, "inspect", PPO, "--blobs", "lr_schedul")
    assert (status, report["outcome"], report.keys()) == (2, "missing", {"path", "outcome", "message", "hint"})
    assert run_json(capsys, "inspect", PPO, "--blobs", "lr_schedule")[0] == 0


def test_inspect_tells_machines_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    status, (ppo, sac) = run_json(capsys, "inspect", PPO, SAC)
    assert status == 0
    assert ppo["algorithm"]["name"] == "PPO"
    assert ppo["policy_class"] == "stable_baselines3.common.policies.ActorCriticPolicy"
    assert ppo["data"]["gamma"] == 0.99
    assert ppo["data"]["policy_class"] == {
        "serialized": {
            "type": "<class 'abc.ABCMeta'>",
            "bytes": 70,
            "how": "decoded",
            "value": {"kind": "reference", "module": "stable_baselines3.common.policies", "name": "ActorCriticPolicy"},
            "why": None,
        }
    }
    assert ppo["data"]["action_space"]["serialized"]["value"]["n"] == 2
    assert ppo["data"]["lr_schedule"]["serialized"]["value"]["schedule"] == {
        "kind": "ConstantSchedule",
        "value": 0.0003,
    }
    assert [entry["name"] for entry in ppo["entries"]] == list(entries())
    policy = next(item for item in ppo["state_dicts"] if item["name"] == "policy.pth")
    assert policy["tensors"][0]["shape"] == [8, 4]
    optimizer = next(item for item in sac["state_dicts"] if item["name"] == "actor.optimizer.pth")
    assert optimizer["values"]["param_groups/[0]/lr"] == 0.0003
    assert {row["requires_grad"] for row in sac["state_dicts"][0]["tensors"]} == {True}


def test_one_bad_file_does_not_stop_the_rest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("hello")
    status, reports = run_json(capsys, "inspect", tmp_path / "text.zip", tmp_path / "nowhere.zip", PPO)
    assert status == 2
    assert [report["outcome"] for report in reports] == ["container failure", "cannot open", "ok"]


def test_a_broken_entry_is_a_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(changed(policy_optimizer_pth=b"x"))
    status, (report,) = run_json(capsys, "inspect", path)
    assert status == 1
    assert [row["entry"] for row in report["broken"]] == ["policy.optimizer.pth"]
    status, out = run(capsys, "inspect", path)
    assert status == 1
    assert "verdict of scan: broken, " in out
    assert "policy  4 -> 8 -> 8 -> 2 Tanh" in out
    assert "policy.optimizer.pth" in out.partition("\n  broken\n")[2]


def test_folders_stand_for_the_archives_in_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.zip").write_bytes(PPO.read_bytes())
    (tmp_path / "policy.pth").write_bytes(entries()["policy.pth"])
    (tmp_path / "notes.txt").write_text("no archive")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "b.zip").write_text("not looked at")
    unzipped = tmp_path / "unzipped"
    unzipped.mkdir()
    for name, content in entries().items():
        (unzipped / name).write_bytes(content)
    status, reports = run_json(capsys, "validate", tmp_path)
    assert status == 0
    found = sorted(os.path.relpath(report["path"], tmp_path) for report in reports)
    assert found == ["deep/er/a.zip", "policy.pth", "unzipped"]


def test_validate_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(gamma="high", mine=1)))
    status, (report,) = run_json(capsys, "validate", path)
    assert (status, report["outcome"]) == (1, "invalid")
    assert {(row["kind"], row["loc"], row["level"]) for row in report["problems"]} == {
        ("type", "/gamma", "error"),
        ("unknown-key", "/mine", "info"),
    }
    status, out = run(capsys, "validate", path, PPO)
    assert status == 1
    assert "/gamma" in out
    assert "2 files: 1 valid, 1 invalid" in out
    path.write_bytes(with_data(lambda data: data.update(mine=1)))
    assert run(capsys, "validate", path)[0] == 0


def test_validate_says_whether_a_release_loads_it(capsys: pytest.CaptureFixture[str]) -> None:
    old = ARCHIVES / "ppo-cartpole-1.0.zip"
    status, out = run(capsys, "validate", PPO, "--target", "2.9.2")
    assert (status, out) == (0, f"{PPO}: valid\n  SB3 2.9.2 loads it whole\n")
    status, out = run(capsys, "validate", PPO, old, "--target", "2.9")
    assert status == 1
    assert "  SB3 2.9.2 does not load it whole:\n  1. lr_schedule, clip_range: " in out
    assert f"  against all:\n       sbformat rebuild {old} -o NEW.zip --target 2.9\n" in out
    assert "2 files: 2 valid, 0 invalid" in out
    status, reports = run_json(capsys, "validate", PPO, old, "--target", "2.9")
    assert (status, [report["outcome"] for report in reports]) == (1, ["ok", "ok"])
    assert reports[0]["target"] == {"release": "2.9.2", "environment": None, "loads_whole": True, "reasons": []}
    assert [reason["cause"] for reason in reports[1]["target"]["reasons"]][:2] == ["python", "gym"]
    status, out = run(capsys, "validate", old, "--target", "2.9", "--format", "csv")
    assert (status, f"{old},ok,target,data,/clip_range,python," in out) == (1, True)
    assert main(["validate", str(PPO), "--target", "2.99"]) == 2
    assert "'2.99' is not a target" in capsys.readouterr().err


def test_validate_shows_what_helps_against_one_reason_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, out = run(capsys, "validate", PPO, "--target", "2.3")
    assert status == 1
    assert "[numpy]\n       pip install 'numpy>=2'\n  2. " in out


@pytest.mark.parametrize("name", ["o.safetensors", "o.npz", "o"])
def test_extract_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    status, out = run(capsys, "extract", PPO, "-o", tmp_path / name)
    assert status == 0
    assert "12 tensors" in out
    assert main(["extract", str(PPO), "-o", str(tmp_path / name)]) == 2
    message = f"sbformat: {tmp_path / name} already exists\n  hint: --force overwrites it\n"
    assert capsys.readouterr() == ("", message)
    status, (report,) = run_json(capsys, "extract", PPO, "-o", tmp_path / name, "--force", "--tensors", "*bias")
    assert (status, len(report["tensors"])) == (0, 6)


def test_extract_writes_tensors_of_several_names_and_patterns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--entry", "policy.optimizer", "--tensors", "state/[0]/exp_avg", "--tensors", "*/step")
    status, (report,) = run_json(capsys, "extract", PPO, "-o", tmp_path / "o.npz", *words)
    assert (status, report["tensors"][:2], len(report["tensors"])) == (0, ["state/[0]/step", "state/[0]/exp_avg"], 13)
    status, (report,) = run_json(capsys, "extract", PPO, "-o", tmp_path / "p.npz", *words, "--tensors", "nope")
    assert (status, "no tensor that matches 'nope'" in report["message"]) == (2, True)


def test_extract_counts_what_is_not_a_tensor_only_if_everything_was_requested(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("extract", PPO, "-o", tmp_path / "o.npz", "--entry", "policy.optimizer", "--force")
    assert "not written: 24 values" in run(capsys, *options)[1]
    assert "not written" not in run(capsys, *options, "--tensors", "state/[0]/exp_avg")[1]


def test_extract_reads_what_policy_save_wrote_around_the_tensors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, (report,) = run_json(capsys, "extract", PPO, "-o", tmp_path / "o.npz", "--entry", "nope")
    assert (status, report["outcome"]) == (2, "missing")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", [["inspect"], ["validate"], ["scan"], ["extract", "-o", "x.npz"], ["diff", PPO]])
def test_too_little_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[Any]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sbformat.io.opening._open_file", refuse)
    status, (report, *_) = run_json(capsys, *command, SAC)
    assert status == 2
    assert (report["outcome"], report["message"]) == (
        "limit exceeded",
        "out of memory: this machine has less than the file needs",
    )
    assert list(tmp_path.iterdir()) == []


def test_limits_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    status, (report,) = run_json(capsys, "inspect", PPO, "--limit", "outer-entries=2")
    assert (status, report["outcome"]) == (2, "limit exceeded")
    assert run(capsys, "inspect", PPO, "--limit", "outer_entries=2_000")[0] == 0
    for wrong in ("nothing=1", "tensors=many"):
        with pytest.raises(SystemExit) as caught:
            main(["inspect", str(PPO), "--limit", wrong])
        assert caught.value.code == 2
    capsys.readouterr()


def hostile() -> bytes:
    """An archive in which every text tries to command a terminal."""
    evil = "\x1b]0;pwned\x07\x1b[2J\u202e\u2066\r\n\x9b31m"

    def change(data: dict[str, Any]) -> None:
        data.update({evil: evil, "gamma": evil, "tensorboard_log": [evil], "verbose": {evil: evil}})
        data["policy_class"] = {":type:": evil, ":serialized:": "gAJjbwobeAou", evil: evil}

    info = f"- OS: {evil}\n- {evil}: {evil}\n".encode()
    return changed_data(change, info)


def changed_data(change: Any, info: bytes) -> bytes:
    """``data`` changed in place, and another system info."""
    data = json.loads(entries()["data"])
    change(data)
    return zipped({**entries(), "data": json.dumps(data).encode(), "system_info.txt": info, "notes": b""})


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_no_file_chooses_the_bytes_of_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = tmp_path / "\x1b[31mred.zip"
    path.write_bytes(hostile())
    for extra in ([], ["--format", "json"]):
        run_out = run(capsys, command, path, *extra)[1]
        bad = {c for c in run_out if not (c.isprintable() or c == "\n")}
        assert not bad


def test_numbers_that_json_cannot_spell_are_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(target_kl=float("nan"), max_grad_norm=float("inf"))))
    _, (report,) = run_json(capsys, "inspect", path)
    assert (report["data"]["target_kl"], report["data"]["max_grad_norm"]) == ("NaN", "Infinity")


# -- many files ---------------------------------------------------------------------------------------


DEFAULT = {("inspect", "text"), ("inspect --long", "json"), ("inspect", "csv"), ("validate", "text")}
"""Each command and each format; the other pairs are exhaustive."""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(command, words, marks=() if (command, words) in DEFAULT else pytest.mark.exhaustive)
        for command in ("inspect", "inspect --long", "validate")
        for words in ("text", "json", "csv")
    ],
)
def test_processes_change_no_byte(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shared_processes: list[int], command: str, words: str
) -> None:
    broken = changed(policy_pth=b"broken")
    for number in range(10):  # with fewer files than 32 there are no processes
        (tmp_path / f"{number}a.zip").write_bytes(PPO.read_bytes() if number < 2 else b"PK\3\4")
        (tmp_path / f"{number}b.zip").write_bytes(broken if number < 3 else b"text")
        (tmp_path / f"{number}c.zip").write_bytes(b"PK")
    (tmp_path / "hostile.zip").write_bytes(hostile())
    (tmp_path / "nan.zip").write_bytes(with_data(lambda data: data.update({"target_kl": float("nan")})))
    command, *others = command.split()
    paths = [tmp_path, tmp_path / "nowhere", "--format", words, *others]
    alone = main([command, *map(str, paths), "--jobs", "1"]), capsys.readouterr()
    assert alone == (main([command, *map(str, paths), "--jobs", "2"]), capsys.readouterr())
    assert shared_processes == [1, 2]
    assert (alone[0], "nowhere: cannot open" in alone[1].err) == (2, True)


def test_several_files_are_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for number, gamma in enumerate((0.5, 0.99, 0.125)):
        (tmp_path / f"{number}.zip").write_bytes(with_data(lambda data, gamma=gamma: data.update(gamma=gamma)))
    (tmp_path / "bad.zip").write_bytes(b"PK")
    assert main(["inspect", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert err.count("sbformat: ") == 1
    assert out.splitlines()[:5] == [
        f"  3 files in {tmp_path}", "    file   gamma", "    0.zip    0.5", "    1.zip   0.99", "    2.zip  0.125",
    ]  # fmt: skip
    assert re.search("\n  the same in all files\n.*\n    n_steps +32\n", out, re.DOTALL)
    assert main(["inspect", str(tmp_path), "--sort", "gamma", "--reverse", "--columns", "algorithm"]) == 2
    assert capsys.readouterr().out.splitlines()[1:] == [
        "    file   algorithm", "    1.zip  PPO", "    0.zip  PPO", "    2.zip  PPO",
    ]  # fmt: skip
    assert main(["inspect", str(tmp_path / "0.zip"), str(tmp_path / "1.zip"), "--long"]) == 0
    assert capsys.readouterr().out.count("hyper-parameters (data)") == 2


def test_a_table_names_broken_entries_and_columns_that_are_not_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.zip").write_bytes(changed(policy_pth=b"broken"))
    assert main(["inspect", str(tmp_path / "a.zip"), str(SAC)]) == 1
    out, err = capsys.readouterr()
    assert (err, "1 broken entry" in out) == ("", True)
    assert re.search("\n  --columns shows others that differ: .*train_freq, gradient_steps, ", out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "gamma", "--format", "json"], "expected them with a table, not with --format json"),
        (["--columns", " , "], "argument --columns: expected names of columns"),
    ],
)
def test_options_of_tables_are_checked(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    with pytest.raises(SystemExit):
        main(["inspect", str(PPO), *words])
    assert message in capsys.readouterr().err
    assert main(["inspect", str(PPO), "--columns", "gama"]) == 2
    assert capsys.readouterr() == ("", "sbformat: there is no column 'gama'\n  hint: did you mean 'gamma'?\n")


@pytest.mark.parametrize("words", ["text", "csv"])
def test_a_column_of_catalogues_is_not_mistaken_for_another(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(["inspect", str(PPO), str(SAC), "--columns", "best_evaluation_timesteps", "--format", words]) == 2
    hint = "a table of sbformat catalog has it: sbformat catalog FOLDER -o runs.csv"
    assert f"there is no column 'best_evaluation_timesteps'\n  hint: {hint}\n" in capsys.readouterr().err


@pytest.mark.parametrize("seed", with_exhaustive(["0", "1"], ["2"]))
def test_sets_are_shown_in_one_order(tmp_path: Path, seed: str) -> None:
    import base64
    import pickle

    words = sorted(map(str, range(20)))
    text = base64.b64encode(pickle.dumps({*words, None, 1 << 80})).decode()
    keys = {":type:": "x", ":serialized:": text}
    (tmp_path / "a.zip").write_bytes(with_data(lambda data: data.update({"mine": keys})))
    done = child("-m", "sbformat", "inspect", tmp_path / "a.zip", "--format", "json", PYTHONHASHSEED=seed)
    value = json.loads(done.stdout)["files"][0]["data"]["mine"]["serialized"]["value"]
    assert value["items"] == [*words, None, {"kind": "int", "bits": 81}]


@pytest.mark.parametrize("words", ["text", "json"])
@pytest.mark.parametrize(("command", "done"), [("inspect", "inspected"), ("validate", "validated")])
def test_a_lost_file_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, done: str, words: str
) -> None:
    def in_order(work: Any, items: Iterable[str], *, processes: int, lost: Any) -> Iterable[Any]:
        assert processes == 1
        first, *rest = items
        return [lost(first), *map(work, rest)]

    monkeypatch.setattr(parallel, "map_in_order", in_order)
    assert main([command, str(PPO), str(SAC), "--format", words]) == 2
    out, err = capsys.readouterr()
    assert f"the process that {done} it was killed" in err
    if words == "json":
        REPORT.validate(json.loads(out))
        assert [report["outcome"] for report in json.loads(out)["files"]] == ["process ended", "ok"]


@pytest.mark.parametrize("command", ["inspect", "validate"])
@pytest.mark.parametrize("number", ["0", "-1", "many", "1025"])
def test_a_number_of_processes_is_one(capsys: pytest.CaptureFixture[str], command: str, number: str) -> None:
    with pytest.raises(SystemExit):
        main([command, str(PPO), "--jobs", number])
    assert f"argument --jobs: expected a number from 1 to 1024, got {number}" in capsys.readouterr().err


# -- output -------------------------------------------------------------------------------------------


REPORTS: list[dict[str, Any]] = [
    {"a": {"b": [1, (2, "c"), {"d": None}], "e": {}}, "\u20ac \ud800 \x1b \n": "\n", "": [[[]], {}, ()]},
    {},
    {"numbers": [0, 1 << 70, -0.0, 1e300, 5e-324, True]},
]


@pytest.mark.parametrize("count", range(4))
def test_reports_rendered_apart_are_one_document(capsys: pytest.CaptureFixture[str], count: int) -> None:
    files = REPORTS[:count]
    whole = json.dumps({"command": "inspect", "report_version": 1, "files": files}, indent=2) + "\n"
    for given in (files, list(map(_output.render_report, files))):
        _output.print_json("inspect", given)
        assert capsys.readouterr().out == whole


def test_documents_hold_nothing_but_json(capsys: pytest.CaptureFixture[str]) -> None:
    _output.print_document({"x": [float("nan"), float("inf"), float("-inf")]})
    assert json.loads(capsys.readouterr().out) == {"x": ["NaN", "Infinity", "-Infinity"]}
    with pytest.raises(TypeError):
        _output.print_document({"x": b"bytes"})


ARGUMENTS = (
    "", "--help", "--version", "nothing", "insp", "--bogus inspect", "inspect", "inspect --help", "inspect x --bogus",
    "inspect x --format xml", "inspect x --limit depth=1", "scan", "scan --help", "scan x --fail-on clean",
    "validate --help", "extract --help", "diff --help", "edit --help", "convert --help", "rebuild --help",
    "bundle --help", "unbundle --help", "diff x", "edit x --bogus", "rebuild x -o", "-- inspect", "-V", "upgrade",
    "upgrade --help", "help --help",
)  # fmt: skip


@pytest.mark.parametrize("line", ARGUMENTS)
def test_a_parser_of_one_command_says_what_that_of_all_does(capsys: pytest.CaptureFixture[str], line: str) -> None:
    said = []
    for arguments in ((), line.split()):
        with pytest.raises(SystemExit) as ended:
            build_parser(*arguments).parse_args(line.split())
        said.append((ended.value.code, capsys.readouterr()))
    assert said[0] == said[1]


def test_a_command_does_not_load_the_others() -> None:
    loaded = run_fresh("inspect", PPO).modules
    assert [name for name in loaded if name.startswith("sbformat.cli.") and "._" not in name] == [
        "sbformat.cli.inspect"
    ]
    assert "multiprocessing" not in loaded


@pytest.mark.parametrize("option", ["--version", "-V", "--help"])
def test_what_is_about_all_commands_loads_none_of_them(option: str) -> None:
    loaded = run_fresh(option).modules
    assert [name for name in loaded if name.startswith("sbformat.cli.")] == []


def test_the_help_of_all_commands_makes_no_parser_of_one() -> None:
    assert build_parser("--help").commands == {}


@pytest.mark.parametrize("line", ["inspect --format json", "inspect", "scan --format json"])
def test_a_usual_archive_loads_nothing_for_unusual_ones(line: str) -> None:
    loaded = {*run_fresh(*line.split(), PPO).modules}
    unused = {"dataclasses", "difflib", "fractions", "inspect", "pathlib", "urllib.parse"}
    unused |= {"sbformat.formats.vecnormalize.values", "sbformat.pth.compare", "sbformat.values.computed.arithmetic"}
    if line == "inspect --format json":
        unused |= {"sbformat.pkl.disassembly", "sbformat.pth.modules", "sbformat.tools.scan"}
        assert len([name for name in loaded if name.startswith("sbformat")]) <= 100
    assert not loaded & unused


def test_commands_are_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    sections = dict(re.findall(r"^(\w+):\n((?:  .*\n)+)", out, re.MULTILINE))
    shown = {title: re.findall(r"^  (\w+)(?:, \w+)*  ", text, re.MULTILINE) for title, text in sections.items()}
    assert list(shown) == ["look", "check", "change", "use", "other", "options"]
    assert shown["check"] == ["scan", "validate"]
    assert [name for title in list(shown)[:-1] for name in shown[title]] == list(COMMANDS)
    assert "  rebuild, upgrade  " in out


def test_help_is_that_of_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["scan"], ["upgrade"], ["help"]):
        with pytest.raises(SystemExit):
            main([*arguments, "--help"])
        expected = capsys.readouterr()
        assert main(["help", *arguments]) == 0
        assert capsys.readouterr() == expected


def test_without_a_command_the_help_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    expected = capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([])
    assert (ended.value.code, capsys.readouterr()) == (2, ("", expected))


def test_a_second_name_is_the_same_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out = run(capsys, "upgrade", PPO, "-o", tmp_path / "a.zip", "--format", "json")
    assert (status, json.loads(out)["command"]) == (0, "rebuild")
    with pytest.raises(SystemExit):
        main(["upgrade", str(PPO)])
    assert "sbformat rebuild: error: " in capsys.readouterr().err


def test_shared_options_come_after_those_of_a_command() -> None:
    owners: dict[str, list[str]] = {}
    for name, parser in build_parser().commands.items():
        titles = [group.title for group in parser._action_groups if group._group_actions]
        assert titles[-1] == "shared options" or name in ("completion", "help")
        for group in parser._action_groups:
            for action in group._group_actions:
                owners.setdefault((action.option_strings or [""])[-1], []).append(str(group.title))
    for option in ("--format", "--quiet", "--color", "--limit", "--timeout", "--jobs", "--dask", "--unchecked-crc"):
        assert set(owners[option]) == {"shared options"}, option
    own = [option for option, titles in owners.items() if "shared options" in titles and len(titles) < 2]
    assert own == []


OTHERS = {
    "documents": zipped({"documents/": b"", "documents/notes.txt": b"text", "documents/data/a.csv": b"1"}),
    "nothing": zipped({}),
    "bzip2": zipped({"notes.txt": b"text"}, zipfile.ZIP_BZIP2),
}
"""Zips that are no agents."""
REFUSED = {
    "truncated": PPO.read_bytes()[:9000],
    "in a folder": zipped({f"agent/{name}": content for name, content in entries().items()}),
    "without data": zipped({"parameters": b"", "notes.txt": b""}, zipfile.ZIP_BZIP2),
    "torch": zipped({"archive/data.pkl": b"", "archive/version": b""}, zipfile.ZIP_BZIP2),
    "a page": b"<html>not found</html>",
}
"""Files in which an agent was lost."""


@pytest.mark.parametrize("name", OTHERS)
def test_validate_passes_over_zips_of_something_else_if_told_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "other.zip"
    path.write_bytes(OTHERS[name])
    assert main(["validate", str(path), str(PPO)]) == 2
    assert "1 valid, 0 invalid, 1 not read" in capsys.readouterr().out
    assert main(["validate", "--skip-others", str(path), str(PPO)]) == 0
    out, err = capsys.readouterr()
    assert (f"{PPO}: valid" in out, "2 files: 1 valid, 0 invalid, 1 skipped" in out) == (True, True)
    assert err.startswith(f"sbformat: {path}: skipped: ")
    assert main(["validate", "--skip-others", "--quiet", str(tmp_path / "other"), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    (report,) = parse_reports(out)
    assert (report["outcome"], err) == ("skipped", "")


@pytest.mark.parametrize("name", REFUSED)
def test_validate_does_not_pass_over_an_agent_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(REFUSED[name])
    assert main(["validate", "--skip-others", str(path)]) == 2
    assert "skipped" not in "".join(capsys.readouterr())
    assert main(["validate", "--skip-others", str(tmp_path / "nowhere.zip")]) == 2


def test_an_interruption_while_modules_are_imported_is_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sbformat.cli.build_parser", interrupt)
    assert main(["scan", str(PPO)]) == 130
    package = ModuleType("sbformat.cli")
    package.__getattr__ = interrupt  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "sbformat.cli", package)
    assert sbformat.__main__.main() == 130
    assert capsys.readouterr() == ("", "")


def test_a_table_of_files_loads_neither_the_page_of_html_nor_scan() -> None:
    loaded = run_fresh("inspect", PPO, PPO).modules
    assert "sbformat.catalogue.rows" in loaded
    assert not [name for name in loaded if name.startswith(("sbformat.html_report", "sbformat.tools.scan", "numpy"))]


def child(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        cwd=ROOT,
        check=False,
        timeout=500,
    )


HEAVY: tuple[tuple[tuple[object, ...], tuple[str, ...]], ...] = (
    (("inspect", PPO, "--format", "json"), ("numpy", "jsonschema", "safetensors", "rich", "torch", "dataclasses")),
    (("inspect", PPO), ("numpy", "jsonschema", "safetensors", "rich", "torch")),
    (
        ("extract", PPO, "-o", "o.safetensors"),
        ("numpy", "jsonschema", "safetensors", "zipfile", "torch", "rich"),
    ),
    (("convert", PPO, "-o", "o.safetensors"), ("numpy", "jsonschema", "safetensors", "zipfile", "torch", "rich")),
    (("validate", PPO), ("numpy", "safetensors", "rich", "torch")),
    (("predict", PPO, "--observation", "[0, 0, 0, 0]"), ("jsonschema", "safetensors", "zipfile", "torch", "rich")),
    (("export", PPO, "-o", "o.json"), ("jsonschema", "safetensors", "zipfile", "torch", "rich", "onnx")),
    (("export", PPO, "-o", "o.c"), ("jsonschema", "safetensors", "zipfile", "torch", "rich", "onnx")),
    (("--version",), ("numpy", "jsonschema", "safetensors", "rich", "torch")),
)


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    for number, (command, heavy) in enumerate(HEAVY):
        done = run_fresh(*(tmp_path / f"{number}{word}" if str(word).startswith("o.") else word for word in command))
        assert done.returncode == 0, (command, done.err)
        imported = done.packages
        assert "sbformat" in imported
        if sys.version_info >= (3, 14):
            imported -= {"dataclasses"}  # argparse imports it
        assert not imported & set(heavy), command


def test_a_reader_that_stops_listening_is_no_crash() -> None:
    done = subprocess.run(
        f"{sys.executable} -m sbformat inspect {PPO} {PPO} {PPO} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_text_without_unicode_output() -> None:
    done = child("-m", "sbformat", "inspect", PPO, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()


def test_a_terminal_gets_tables() -> None:
    import pty

    read_end, write_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "sbformat", "inspect", str(PPO), "--long"], stdout=write_end, cwd=ROOT
    ) as process:
        os.close(write_end)
        shown = b""
        while True:
            try:
                chunk = os.read(read_end, 65536)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
    assert process.returncode == 0
    os.close(read_end)
    assert b"hyper-parameters" in shown
    assert b"gamma" in shown


def test_a_folder_without_archives_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, (report,) = run_json(capsys, "inspect", tmp_path)
    assert (status, report["path"]) == (2, str(tmp_path))


def test_only_regular_files_of_a_folder_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.zip")
    (tmp_path / "b.zip").write_bytes(PPO.read_bytes())
    status, reports = run_json(capsys, "validate", tmp_path)
    assert (status, len(reports)) == (0, 1)


def test_the_input_is_never_the_output(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(PPO.read_bytes())
    status, _ = run_json(capsys, "extract", path, "-o", path, "--force")
    assert status == 2
    assert path.read_bytes() == PPO.read_bytes()


@pytest.mark.parametrize("extra", [[], ["--format", "json"]])
def test_values_of_any_size_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, extra: list[str]) -> None:
    from conformance.generators.build_pth import torch_zip

    path = tmp_path / "a.pth"
    path.write_bytes(torch_zip({"huge": 1 << 80_000, "set": {1 << 80_000}, "text": "x" * 100_000}))
    status, out = run(capsys, "inspect", path, *extra)
    assert status == 0
    assert len(out) < 5000


def test_a_full_disk_is_one_line() -> None:
    done = subprocess.run(
        f"{sys.executable} -m sbformat inspect {PPO} > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_tables_are_cut_on_a_terminal_and_whole_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update({f"mine{n}": n for n in range(5000)})))
    status, out = run(capsys, "inspect", "--long", path)
    assert (status, "mine4999" in out, "\u2026 and" in out) == (0, True, False)
    monkeypatch.setattr(_options, "shows_whole", lambda: False)
    monkeypatch.setattr(_output, "shows_whole", lambda: False)
    out = run(capsys, "inspect", "--long", path)[1]
    assert len(out.splitlines()) < 1500
    assert "\u2026 and" in out
    _, (report,) = run_json(capsys, "validate", path)
    assert len(report["problems"]) == 101


def test_reading_loads_nothing_that_writes() -> None:
    code = (
        "import sys, sbformat; sbformat.read(sys.argv[1]).parameters['policy'].tensors(); "
        "print([m for m in sys.modules if m.startswith('sbformat') "
        "and ('encode' in m or 'writ' in m or 'overlay' in m)])"
    )
    found = subprocess.run([sys.executable, "-c", code, PPO], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_a_folder_that_cannot_be_listed_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    write_archives(tmp_path / "runs", 1)
    (tmp_path / "runs" / "others").mkdir()
    refuse_listing(monkeypatch, tmp_path / "runs" / "others")
    status, reports = run_json(capsys, command, tmp_path / "runs")
    assert status == 2
    found = [(report["path"], report["message"]) for report in reports if report["outcome"] != "ok"]
    assert found == [(str(tmp_path / "runs" / "others"), "Permission denied")]
