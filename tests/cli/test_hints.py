"""Misuse of the command line: the message says what to do instead."""

from __future__ import annotations

import base64
import shutil
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

import sbformat
from sbformat.cli import find_nearest, main
from sbformat.cli._json import explain_json
from tests.helpers.bundled import PPO, ROOT, SAC, with_data
from tests.helpers.reports import parse_reports, run_failing, unfold

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES = ROOT / "tests" / "archives"
SHELLS = "some shells remove them; @FILE reads a file"


def fail(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run a command that fails; its error in one line."""
    return unfold(run_failing(capsys, *args)).splitlines()[-1]


# -- commands and options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["insp", "x"], "there is no command 'insp'; did you mean inspect?"),
        (["vaildate", "x"], "there is no command 'vaildate'; did you mean validate?"),
        (["migrate", "x"], "there is no command 'migrate'; sbformat rebuild does that"),
        (["Compare", "x", "y"], "there is no command 'Compare'; sbformat diff does that"),
        (["version"], "there is no command 'version'; sbformat --version does that"),
        (["--verison"], "unrecognized arguments: --verison; did you mean --version?"),
        (["--long", "inspect", "x"], "options of a command come after it; sbformat inspect --long x"),
        (["inspect", "x", "--limit", "json=3"], "unknown limit json; did you mean json_bytes?"),
        (["inspect", "x", "--limit", "qqqq=3"], "unknown limit qqqq; sbformat help limits lists them"),
        (["xyz"], "there is no command 'xyz'; available: inspect, report, "),
        (["help", "xyz"], "there is no command 'xyz'; available: inspect, report, "),
        (["help", "formats"], "export, completion, help, limits, environment"),
        (["help", "limit"], "there is no command 'limit'; did you mean limits?"),
        (["help", "enviroment"], "there is no command 'enviroment'; did you mean environment?"),
        (["help", "insp"], "there is no command 'insp'; did you mean inspect?"),
        (["\x1b[31m"], "there is no command '\\x1b[31m'; available: "),
        ([str(PPO)], f"expected a command before the file; sbformat inspect {PPO}"),
        ([str(PPO.with_suffix(""))], "expected a command before the file; sbformat inspect "),
        (["inspect", "x", "--lonng"], "unrecognized arguments: --lonng; did you mean --long?"),
        (["edit", "x", "-o", "y", "--drpo=5"], "unrecognized arguments: --drpo=5; did you mean --drop?"),
        (["inspect", "x", "--wibblewobble"], "unrecognized arguments: --wibblewobble"),
        (["export", "x", "y", "-o", "z.js"], "unrecognized arguments: y; one FILE is expected"),
    ],
)
def test_the_nearest_name_is_suggested(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in fail(capsys, *arguments)


def test_the_nearest_name_is_one_that_begins_so_or_looks_so() -> None:
    assert find_nearest("eval", ["evaluate", "validate"]) == "evaluate"
    assert find_nearest("SCAN", ["scan"]) == "scan"
    assert find_nearest("qqqq", ["scan", "edit"]) is None


# -- formats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "other"),
    [
        (["convert"], "x.onnx", "sbformat export does"),
        (["convert"], "x.C", "sbformat export does"),
        (["convert"], "x.npz", "sbformat extract does"),
        (["extract"], "x.pth", "sbformat convert and sbformat rebuild do"),
        (["export"], "x.npz", "sbformat extract does"),
        (["edit", "--set", "gamma=0.5"], "x.safetensors", "sbformat extract and sbformat convert do"),
        (["rebuild"], "x.onnx", "sbformat export does"),
        (["bundle", "--vecnormalize", str(ARCHIVES / "vecnormalize-pendulum.pkl")], "x.html", "sbformat report does"),
        (["report"], "x.onnx", "sbformat export does"),
        (["report"], "x.pdf", "it writes .html and .htm"),
        (["report"], "x.TXT", "it writes .html and .htm"),
    ],
)
def test_the_command_that_writes_a_format_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str], output: str, other: str
) -> None:
    path = tmp_path / output
    message = fail(capsys, *command, PPO, "-o", path)
    assert message.startswith(f"sbformat: {path}: unsupported: sbformat {command[0]} does not write ")
    assert message.endswith(other)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x08\x08\x12\x08sbformat\x1a\x05", "an ONNX model, which sbformat export writes"),
        (b"\x93NUMPY\x01\x00", "an array (.npy)"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as a model of Keras"),
        (b"\x1f\x8b\x08\x00", "a gzip file (container failure at byte 0); unpack it first"),
        (b"a.zip" + bytes(252) + b"ustar\x00", "a tar archive (container failure at byte 0); unpack it first"),
        (b"\x08\x99\x99\x99", "a file that starts with"),
        (b"\x08", "a file that starts with"),
    ],
)
def test_a_file_of_another_format_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    assert f"expected an archive, got {expected}" in fail(capsys, "inspect", tmp_path / "x.zip")


def test_suffixes_in_upper_case_are_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(PPO, tmp_path / "A.ZIP")
    source = tmp_path / "A.ZIP"
    for command, output in (
        ("convert", "B.SAFETENSORS"), ("convert", "B.PTH"), ("convert", "C.ZIP"), ("extract", "W.NPZ"),
        ("export", "P.ONNX"), ("export", "Q.C"), ("export", "R.JSON"), ("report", "PAGE.HTML"),
    ):  # fmt: skip
        if command == "report":
            pytest.importorskip("jinja2")
            pytest.importorskip("matplotlib")
            monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", 2)
        assert main([command, str(source), "-o", str(tmp_path / output)]) == 0, capsys.readouterr().err
    assert main(["edit", str(source), "-o", str(tmp_path / "D.ZIP"), "--weights", str(tmp_path / "W.NPZ")]) == 0
    capsys.readouterr()
    assert main(["validate", str(tmp_path), "--format", "json"]) == 0
    found = {report["path"].rpartition("/")[2] for report in parse_reports(capsys.readouterr().out)}
    assert {"A.ZIP", "B.PTH", "C.ZIP", "D.ZIP"} <= found
    assert (tmp_path / "Q.H").exists()
    assert '#include "Q.H"' in (tmp_path / "Q.C").read_text("utf-8")


# -- what is missing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("onnx", ["export", PPO, "-o", "x.onnx"], "onnx"),
        ("gymnasium", ["evaluate", PPO, "--env", "CartPole-v1"], "gym"),
        ("jinja2", ["report", PPO, "-o", "x.html"], "report"),
    ],
)
def test_a_missing_package_names_its_extra(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    command: list[object],
    extra: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert fail(capsys, *command).endswith(f' is needed; pip install "sbformat[{extra}]"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1,0.2", 'put the numbers in brackets: --observation "[0.1, 0.2]"'),
        ("0.1 -2e-3 ", 'put the numbers in brackets: --observation "[0.1, -2e-3]"'),
        ("1,2,3,4,5,6", 'put the numbers in brackets: --observation "[1, 2, 3, 4, ...]"'),
        ("e,e", ""),
        ("", ""),
        ("[1, 2", ""),
        (str(PPO), f"'{PPO}' is a file: --observation @{PPO} reads JSON from it"),
        ("[0, 1]\n[1, 0]\n", "--lines reads an observation a line"),
        ("[1,0,.5]", 'JSON wants 0.5 instead of .5: --observation "[1,0,0.5]"'),
        ("[1., -.5e3]", 'JSON wants 1.0 instead of 1.: --observation "[1.0, -0.5e3]"'),
        ("[+1, 007, 1_000]", 'JSON wants 1 instead of +1: --observation "[1, 7, 1000]"'),
        ("[nan, +inf, -inf]", 'JSON wants NaN instead of nan: --observation "[NaN, Infinity, -Infinity]"'),
        ("{'a': [1]}", "JSON wants \"a\" instead of 'a': --observation '{\"a\": [1]}'"),
        ("{'it\\'s': 1}", "JSON wants \"it's\" instead of 'it\\'s'"),
        ("[True, None]", 'JSON wants true instead of True: --observation "[true, null]"'),
        ("(1, 2)", 'JSON wants [ instead of (: --observation "[1, 2]"'),
        ("[1, 2,]", 'JSON wants no comma after the last value: --observation "[1, 2]"'),
        ("[[0.5 -1]\n [2 3]]", 'JSON wants commas between the values: --observation "[[0.5, -1], [2, 3]]"'),
        ("{a: b}", f'JSON wants "a" in double quotes ({SHELLS}): --observation \'{{"a": "b"}}\''),
        (f"[{'.5, ' * 40}1]", "JSON wants 0.5 instead of .5"),
        (f"[{'.5, ' * 5000}1]", ""),
        ("[a, .5]", ""),
    ],
)
def test_what_is_not_json_is_explained(text: str, expected: str) -> None:
    assert explain_json("--observation", text) == expected


@pytest.mark.parametrize(
    "text", ['{"a": ".5, True,]"}', "[NaN, Infinity, -Infinity, 1e5, -0.5, 0, 10, 0.05]", '"(\'+1 2"', "[true, null]"]
)
def test_what_is_json_already_needs_no_other_words(text: str) -> None:
    assert explain_json("--observation", text) == ""


def test_a_value_of_set_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = ["-o", tmp_path / "a.zip"]
    for text, hint in (
        (".98", "JSON wants 0.98 instead of .98: --set gamma=0.98"),
        ("hello", "expected a number"),
    ):
        assert fail(capsys, "edit", PPO, *output, "--set", f"gamma={text}").endswith(f"; {hint}")
    for key, hint in (
        ("seed", "expected null or an integer in [0, 4294967295]"),
        ("use_sde", "expected true or false"),
        ("verbose", "expected a number, true or false"),
        ("action_space", "expected a serialized value"),
    ):
        assert fail(capsys, "edit", PPO, *output, "--set", f"{key}=hello").endswith(f"; {hint}")
    message = fail(capsys, "edit", PPO, *output, "--set", "tensorboard_log=logs")
    assert message.endswith("; put a text in double quotes: --set 'tensorboard_log=\"logs\"'")
    for pointer, hint in (
        ("/gamma=high", "expected a number"),
        ("/policy_kwargs=high", "expected an object"),
        ("/policy_kwargs/a=high", "put a text in double quotes: --set '/policy_kwargs/a=\"high\"'"),
        ("/policy_kwargs/a=it's", "put a text in double quotes: --set '/policy_kwargs/a=\"...\"'"),
    ):
        assert fail(capsys, "edit", PPO, *output, "--set", pointer).endswith(f"; {hint}")


def test_an_observation_without_brackets_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    message = fail(capsys, "predict", PPO, "--observation", "0.1,0.2,0.3,0.4")
    assert message.endswith('; put the numbers in brackets: --observation "[0.1, 0.2, 0.3, 0.4]"')


def test_the_page_about_damaged_agents_is_no_hint_for_other_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, 2")
    missing = "data failure: at byte 5: expected {}JSON: Expecting ',' delimiter"
    for option, name in (("[1, 2", "--observation"), (f"@{path}", path)):
        message = fail(capsys, "predict", PPO, "--observation", option)
        assert message == f"sbformat: {name}: {missing.format('')}"
    expected = missing.format("a baseline, as scan --write-baseline writes it: expected ")
    assert fail(capsys, "scan", PPO, "--baseline", path) == f"sbformat: {path}: {expected}"


def test_an_unknown_name_in_rebuild_names_the_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schedule = base64.b64encode(b"\x80\x04cmy.module\nSchedule\n)R.").decode()
    source = tmp_path / "a.zip"
    source.write_bytes(with_data(lambda data: data["clip_range"].update({":serialized:": schedule})))
    main(["rebuild", str(source), "-o", str(tmp_path / "b.zip")])
    assert "--allow NAME keeps a class or function that is not known" in capsys.readouterr().out
    main(["rebuild", str(PPO), "-o", str(tmp_path / "c.zip")])
    assert "--allow" not in capsys.readouterr().out
    message = fail(capsys, "rebuild", source, "-o", tmp_path / "d.zip", "--on-unknown", "error")
    assert "--on-unknown drop (on_unknown='drop') drops it, --allow NAME" in message


def test_an_archive_without_statistics_is_not_a_bundle(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    message = fail(capsys, "unbundle", PPO, "-o", tmp_path / "a.zip", "--vecnormalize", tmp_path / "v.pkl")
    assert "expected a bundle, got an archive without statistics; sbformat bundle puts them into it" in message


@pytest.mark.parametrize("command", ["inspect", "validate", "scan"])
def test_a_folder_with_nothing_in_it_is_a_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    (tmp_path / "notes.txt").write_text("text")
    assert main([command, str(tmp_path)]) == 2
    assert "no archive" in capsys.readouterr().err


# -- folders ------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")
@pytest.mark.parametrize(
    ("command", "times"),
    [
        (["convert", "A", "-o", "OUT"], 1),
        (["edit", "A", "--set", "gamma=0.5", "-o", "OUT"], 1),
        (["validate", "A"], 1),
        (["diff", "A", "A"], 2),
        (["extract", "A", "-o", "OUT.npz"], 1),
        (["rebuild", "A", "-o", "OUT"], 1),
        (["inspect", "A"], 0),
    ],
)
def test_files_that_cannot_be_entries_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str], times: int
) -> None:
    folder = tmp_path / "agent"
    with zipfile.ZipFile(PPO) as archive:
        archive.extractall(folder)
    places = {"A": str(folder), "OUT": str(tmp_path / "out.zip"), "OUT.npz": str(tmp_path / "out.npz")}
    arguments = [places.get(word, word) for word in command]
    for name in ("run 12:30.log", "a\x1b[31m:b"):
        (folder / name).touch()
    assert main(arguments) == 0
    captured = capsys.readouterr()
    warning = f"sbformat: {folder}: left out, because an entry cannot have such a name: 'a\\x1b[31m:b', 'run 12:30.log'"
    assert unfold(captured.err).splitlines().count(warning) == times
    if not times:
        assert "'run 12:30.log'" in " ".join(captured.out.split())
    assert main([*arguments, "--quiet", *["--force"] * ("-o" in command)]) == 0
    assert capsys.readouterr().err == ""
    for name in ("run 12:30.log", "a\x1b[31m:b"):
        (folder / name).unlink()
    assert main([*arguments, *["--force"] * ("-o" in command)]) == 0
    assert "left out" not in capsys.readouterr().err


# -- VecNormalize -------------------------------------------------------------------------------------


def test_inspect_reports_an_agent_trained_behind_vecnormalize(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    archive, other = sbformat.read(PPO), sbformat.read(SAC).data["_last_original_obs"]
    behind = archive.replace(data={**archive.data, "_last_original_obs": other})
    sbformat.write(behind, tmp_path / "a.zip")
    (note,) = sbformat.inspect(behind).notes
    assert note.startswith("trained behind VecNormalize: predict, evaluate and export need its statistics")
    assert main(["inspect", str(tmp_path / "a.zip")]) == 0
    assert note in " ".join(capsys.readouterr().out.split())
    assert [sbformat.inspect(path).notes for path in (PPO, SAC)] == [(), ()]


# -- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("64MB", 64_000_000), ("1GiB", 1 << 30), ("500_000", 500_000), ("1.5KiB", 1536), ("2 kb", 2000), ("1T", 10**12),
        ("0", 0), ("7b", 7), ("20_000KB", 20_000_000),
    ],
)  # fmt: skip
def test_limits_have_units(value: str, number: int) -> None:
    from sbformat.cli._options import parse_limit

    assert parse_limit(f"json-bytes={value}") == ("json_bytes", number)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("json_bytes=-1", "json_bytes: expected a size such as 500_000, 64MB or 1GiB, got -1"),
        ("json_bytes=", "got nothing"),
        ("json_bytes", "got nothing"),
        ("json_bytes=1.5", "json_bytes: expected a whole number, got 1.5"),
        ("json_bytes=1XB", "got 1XB"),
        ("json_bytes=" + "9" * 30, "got 9999"),
        ("tensors=5MB", "tensors is a number of items, not of bytes: expected a whole number, got 5MB"),
        ("tensor=5", "unknown limit tensor; did you mean tensors?"),
        ("q=5", "unknown limit q; sbformat help limits lists them"),
        ("json_depth=1k", "json_depth can be at most 200"),
    ],
)
def test_limits_that_are_none_are_explained(capsys: pytest.CaptureFixture[str], limit: str, message: str) -> None:
    assert message in fail(capsys, "inspect", PPO, "--limit", limit)


def test_an_error_names_the_option_of_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert fail(capsys, "inspect", PPO, "--limit", "total_bytes=1k").endswith("pass --limit total_bytes=VALUE")
    for command in ("validate", "scan", "inspect"):
        assert main([command, str(PPO), "--limit", "json_bytes=1k", "-v"]) == 1
        out = capsys.readouterr().out
        assert ("pass --limit json_bytes=VALUE" in " ".join(out.split()), "limits=Limits(" in out) == (True, False)
    with pytest.raises(sbformat.LimitError, match=r"pass limits=Limits\(total_bytes=\.\.\.\)$"):
        sbformat.read(PPO, limits=sbformat.Limits(total_bytes=1000))


@pytest.mark.parametrize(
    ("limits", "kind", "message"),
    [
        ({"json_bytes": "1"}, TypeError, "expected limits to be int, got json_bytes='1'"),
        ({"json_bytes": 1.5}, TypeError, "expected limits to be int, got json_bytes=1.5"),
        ({"ratio": -1}, ValueError, "expected limits of 0 or more, got ratio=-1"),
    ],
)
def test_limits_of_a_wrong_type_are_refused(limits: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        sbformat.read(PPO, limits=sbformat.Limits(**limits))
