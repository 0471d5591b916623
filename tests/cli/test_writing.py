"""The commands that compare and write: ``diff``, ``edit``, ``convert``."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import sbformat
from conformance.generators.build_pth import torch_zip
from sbformat.cli import main
from sbformat.cli.diff import group_changes
from tests.cli.test_commands import hostile, run, run_json
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, entries, with_data, zipped

if TYPE_CHECKING:
    from pathlib import Path

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def ppo(tmp_path: Path) -> Path:
    """A copy of an archive that may be written over."""
    path = tmp_path / "in.zip"
    path.write_bytes(PPO.read_bytes())
    return path


def failure(capsys: Capture, *args: object) -> dict[str, Any]:
    """The report of a run that could not; its text says the same, on lines that fit."""
    status, (report,) = run_json(capsys, *args)
    assert status == 2
    assert report["outcome"] != "ok"
    status, out = run(capsys, *args)
    assert status == 2
    assert all(c.isprintable() or c == "\n" for c in out)
    return report


# -- diff ---------------------------------------------------------------------------------------------


def test_diff_of_equal_archives(capsys: Capture, ppo: Path) -> None:
    status, (report,) = run_json(capsys, "diff", PPO, ppo)
    assert (status, report["equal"], report["changes"]) == (0, True, [])
    assert {row["different"] for row in report["state_dicts"]} == {0}
    assert run(capsys, "diff", PPO, ppo) == (0, f"{PPO} -> {ppo}: equal\n")


def test_diff_says_what_differs(capsys: Capture, ppo: Path) -> None:
    ppo.write_bytes(with_data(lambda data: data.update(gamma=0.5)))
    status, (report,) = run_json(capsys, "diff", PPO, ppo)
    assert (status, report["equal"], report["other"]) == (1, False, str(ppo))
    assert report["changes"] == [
        {
            "entry": "data", "loc": "/gamma", "kind": "value", "message": "0.99 became 0.5",
            "max_abs_difference": None, "l2_difference": None, "relative_change": None, "differing": None,
            "numel": None, "old": 0.99, "new": 0.5,
        }
    ]  # fmt: skip
    status, out = run(capsys, "diff", PPO, ppo)
    assert status == 1
    assert "1 difference\n" in out
    assert "0.99 became 0.5" in out
    assert run_json(capsys, "diff", PPO, SAC)[0] == 1


def test_differences_that_json_cannot_spell_are_text(capsys: Capture, tmp_path: Path) -> None:
    for name, value in (("a.pth", np.inf), ("b.pth", 0.0)):
        tree = sbformat.StateDict.from_arrays({"x": np.array([value, 1]), "y": np.array([np.nan])})
        (tmp_path / name).write_bytes(sbformat.pth.dumps(tree))
    status, (report,) = run_json(capsys, "diff", tmp_path / "a.pth", tmp_path / "b.pth")
    assert (status, report["changes"][0]["kind"]) == (1, "removed")  # a lone file keeps its name
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "b.pth").rename(other / "a.pth")
    status, (report,) = run_json(capsys, "diff", tmp_path / "a.pth", other / "a.pth")
    assert [row["max_abs_difference"] for row in report["changes"]] == ["Infinity"]
    assert report["state_dicts"][0]["max_abs_difference"] == "Infinity"
    assert "inf" in run(capsys, "diff", tmp_path / "a.pth", other / "a.pth")[1]


def test_diff_shows_how_much_tensors_differ(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "a.pth", tmp_path / "other" / "a.pth"]
    for path, values in zip(paths, ([3, 4], [3, 4.5])):
        path.write_bytes(sbformat.pth.dumps(sbformat.StateDict.from_arrays({"x": np.array(values, np.float32)})))
    status, (report,) = run_json(capsys, "diff", *paths)
    (row,) = report["changes"]
    assert (status, row["l2_difference"], row["relative_change"], row["differing"], row["numel"]) == (1, 0.5, 0.1, 1, 2)
    assert report["state_dicts"][0]["l2_difference"] == 0.5
    status, out = run(capsys, "diff", *paths)
    assert "norm of the difference  relative change" in out
    assert run(capsys, "diff", "-q", *paths) == (1, f"{paths[0]} -> {paths[1]}: 1 difference\n")
    assert re.search("x +value +1 of 2 elements differ, by at most 0.5 +0.5 +0.1\n", out)


def test_diff_has_a_row_for_many_tensors_that_differ_in_numbers(capsys: Capture, ppo: Path) -> None:
    weights = {name: array + 1 for name, array in sbformat.read(PPO).parameters["policy"].to_numpy().items()}
    sbformat.write(sbformat.read(PPO).replace(parameters={"policy": weights}), ppo, overwrite=True)
    status, out = run(capsys, "diff", PPO, ppo)
    assert (status, out.splitlines()[-1]) == (
        1, "    12 tensors  value  their numbers differ, not their shapes; --long lists them",
    )  # fmt: skip
    assert "action_net" not in out
    assert f"{PPO} -> {ppo}: 12 differences\n" in out
    out = run(capsys, "diff", PPO, ppo, "--long")[1]
    assert "12 tensors" not in out
    assert all(f"\n    {name} " in out for name in weights)
    assert len(run_json(capsys, "diff", PPO, ppo)[1][0]["changes"]) == 12
    assert run(capsys, "diff", PPO, ppo, "--format", "csv")[1].count("elements differ") == 12


def test_diff_says_how_spaces_differ_and_has_optimizers_last(capsys: Capture) -> None:
    status, out = run(capsys, "diff", ARCHIVES / "ppo-cartpole-1.0.zip", PPO)
    assert status == 1
    assert "Discrete(2) of gym, pickled in 2,879 bytes became Discrete(2) of gymnasium, pickled in 670 bytes" in out
    titles = re.findall(r"^  (\S.*)$", out, re.MULTILINE)
    assert titles[:2] == ["tensors", "data"]
    assert titles[-1] == "policy.optimizer.pth"


def test_diff_of_parts_and_within_a_tolerance(capsys: Capture, ppo: Path) -> None:
    other = sbformat.read(PPO)
    weights = other.parameters["policy"].to_numpy()
    for name in weights:
        weights[name] = weights[name] * 1.01
    sbformat.write(
        other.replace(data={**other.data, "gamma": 0.5}, parameters={"policy": weights}), ppo, overwrite=True
    )
    status, (report,) = run_json(capsys, "diff", PPO, ppo, "--only", "weights", "--only", "system", "--rtol", "0.02")
    assert (status, report["equal"], report["only"], report["rtol"]) == (0, True, ["weights", "system"], 0.02)
    assert [row["close"] for row in report["state_dicts"] if row["name"] == "policy.pth"] == [12]
    line = f"{PPO} -> {ppo}: equal within the tolerance in weights, system; 12 differences left out\n"
    words = ("--only", "weights", "--only", "system", "--rtol", "0.02")
    assert run(capsys, "diff", PPO, ppo, *words)[1].startswith(line)
    line = f"{PPO} -> {ppo}: 1 difference in data, weights, and 12 within the tolerance\n"
    words = ("--only", "data", "--only", "weights", "--rtol", "0.02")
    assert run(capsys, "diff", PPO, ppo, *words)[1].startswith(line)
    assert run_json(capsys, "diff", PPO, ppo, "--only", "weights", "--atol", "1e-9")[0] == 1
    status, (report,) = run_json(capsys, "diff", PPO, ppo, "--only", "data", "--rtol", "0.02")
    assert (status, [row["loc"] for row in report["changes"]]) == (1, ["/gamma"])
    report = failure(capsys, "diff", PPO, ppo, "--only", "wights")
    assert "did you mean 'weights'?" in report["message"]


def test_an_emptied_state_is_one_change_for_people(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.zip"
    status, out = run(capsys, "edit", ppo, "-o", small, "--drop-optimizer", "--set", "gamma=0.5")
    assert (status, out.splitlines()[0]) == (0, f"{small}: 2 changes")
    assert re.search("state +removed +contained 36 values, is now a dict of 0\n", out)
    _, out = run(capsys, "diff", small, ppo)
    assert out.startswith(f"{small} -> {ppo}: 2 differences\n")
    assert re.search("state +added +was a dict of 0, contains 36 values\n", out)
    _, (report,) = run_json(capsys, "diff", small, ppo)
    assert len(report["changes"]) == 38


def test_only_what_is_below_a_dict_belongs_to_it() -> None:
    rows = [
        {"entry": entry, "loc": loc, "kind": kind, "message": "."}
        for entry, loc, kind in [
            ("a", "s", "added"), ("a", "s/x", "removed"), ("a", "s0", "removed"), ("a", "s.", "removed"),
            ("a", "s/y", "value"), ("b", "s/x", "removed"), ("data", "/s", "added"), ("data", "/s/x", "removed"),
        ]
    ]  # fmt: skip
    grouped = group_changes(rows)
    assert [row for row in rows if row not in grouped] == rows[:2]
    assert grouped[0] == {"entry": "a", "loc": "s", "kind": "removed", "message": "contained 1 value, ."}


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "much", ""])
@pytest.mark.parametrize("option", ["--rtol", "--atol"])
def test_a_tolerance_of_a_command_line_is_a_number(capsys: Capture, option: str, text: str) -> None:
    with pytest.raises(SystemExit):
        main(["diff", str(PPO), str(PPO), f"{option}={text}"])
    assert f"argument {option}: expected a finite number of 0 or more" in capsys.readouterr().err


def test_diff_finds_an_entry_that_cannot_be_decoded_in_archives_of_equal_bytes(capsys: Capture, ppo: Path) -> None:
    crc = sbformat.read(ppo).entries["policy.pth"].crc.to_bytes(4, "little")
    damaged = ppo.with_name("damaged.zip")
    damaged.write_bytes(ppo.read_bytes().replace(crc, b"\1\2\3\4"))
    status, (report,) = run_json(capsys, "diff", ppo, damaged)
    assert (status, report["equal"]) == (1, True)
    assert [(row["entry"], row["side"]) for row in report["unreadable"]] == [("policy.pth", "second")]
    status, out = run(capsys, "diff", ppo, damaged)
    assert (status, out.splitlines()[0]) == (1, f"{ppo} -> {damaged}: equal, but 1 entry cannot be decoded")
    assert "expected CRC-32 0x04030201" in out


@pytest.mark.parametrize(("first", "second"), [("bad", "good"), ("good", "bad"), ("gone", "good"), ("good", "gone")])
def test_diff_names_the_file_that_could_not_be_read(capsys: Capture, ppo: Path, first: str, second: str) -> None:
    bad = ppo.with_name("bad.zip")
    bad.write_text("hello")
    paths = {"bad": bad, "good": ppo, "gone": ppo.with_name("gone.zip")}
    report = failure(capsys, "diff", paths[first], paths[second])
    assert report["path"] == str(paths[first])
    if first == "good":
        assert report["file"] == str(paths[second])


@pytest.mark.parametrize("extra", [[], ["--format", "json"]])
def test_no_file_chooses_the_bytes_of_a_terminal(capsys: Capture, tmp_path: Path, extra: list[str]) -> None:
    path = tmp_path / "\x1b[31mred.zip"
    path.write_bytes(hostile())
    evil = tmp_path / "\x1b[2J.pth"
    evil.write_bytes(torch_zip({"\x1b[2J\u202e": "\x1b[2J\u202e", "x" * 5000: 1, "huge": 1 << 80_000}))
    for args in (
        ["diff", PPO, path], ["diff", path, PPO], ["diff", PPO, evil], ["diff", evil, path],
        ["convert", path, "-o", tmp_path / "\x1b[2J.safetensors"],
        ["edit", path, "--drop", "notes", "-o", tmp_path / "\x1b[3J.zip"],
        ["edit", path, "--drop", "\x1b[2J", "-o", tmp_path / "o.zip"],
        ["edit", path, "--set", "\x1b[2J=1", "-o", tmp_path / "o.zip"],
        ["edit", path, "--set", "gamma=\x1b[2J", "-o", tmp_path / "o.zip"],
        ["edit", path, "--set", "\ud800=\udcff", "-o", tmp_path / "o.zip"],
        ["edit", path, "--weights", tmp_path / "\x1b[2J.npz", "-o", tmp_path / "o.zip"],
    ):  # fmt: skip
        main([str(arg) for arg in [*args, *extra]])
        out = "".join(capsys.readouterr())
        assert out
        assert not {c for c in out if not (c.isprintable() or c == "\n")}
        assert len(out) < 60_000


# -- edit ---------------------------------------------------------------------------------------------


def test_edit_writes_another_archive(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    args = ["--set", "gamma=0.5", "--set", 'tensorboard_log="runs"', "--unset", "lr_schedule", "--drop-optimizer"]
    out = tmp_path / "out.zip"
    status, (report,) = run_json(capsys, "edit", ppo, "-o", out, *args)
    assert (status, report["output"], report["problems"]) == (0, str(out), [])
    found = sbformat.read(out)
    assert (found.data["gamma"], found.data["tensorboard_log"]) == (0.5, "runs")
    assert {row["loc"] for row in report["changes"] if row["entry"] == "data"} == {
        "/gamma", "/tensorboard_log", "/lr_schedule",
    }  # fmt: skip
    assert ppo.read_bytes() == PPO.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in.zip", "out.zip"]
    assert run(capsys, "validate", out)[0] == 0


def test_edit_tells_what_sb3_will_miss(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    args = ["edit", ppo, "--unset", "policy_class", "--drop", "policy.optimizer.pth", "-o", tmp_path / "o.zip"]
    status, (report,) = run_json(capsys, *args)
    assert status == 1
    assert {row["kind"] for row in report["problems"]} == {"missing-key", "missing-entry"}
    out = run(capsys, *args, "--force")[1]
    assert out.count("new error") == 2
    assert run(capsys, "validate", tmp_path / "o.zip")[0] == 1


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gamma=high", "expected a number"),
        ("/policy_kwargs/a=high", "double quotes"),
        ("tensorboard_log=high", "double quotes"),
        ("policy_kwargs/net_arch=[8]", "did you mean '/policy_kwargs/net_arch'?"),
        ("gamma=", "not a JSON value"),
        ("gamma=1}", "not a JSON value"),
        ("gamma=1,", "not a JSON value"),
        ('gamma=1,"seed":2', "more than one"),
        ('gamma=1,"":2', "twice"),
        ('policy_kwargs={"a":1,"a":2}', "twice"),
        ("gamma=" + "[" * 100 + "]" * 100, "json_depth"),
        ("seed=" + "9" * 5000, "json_digits"),
        ('lr_schedule={":serialized:": "a"}', "base64"),
        ('policy_kwargs="\x01"', "not a JSON value"),
        ("gamma=\udcff", "UTF-8"),
        ("gama=1", "did you mean 'gamma'"),
        ('gamma="high"', "/gamma"),
    ],
)
def test_values_that_are_refused(capsys: Capture, ppo: Path, option: str, words: str) -> None:
    before = set(os.listdir(ppo.parent))
    report = failure(capsys, "edit", ppo, "--in-place", "--set", option)
    assert words in report["message"]
    assert ppo.read_bytes() == PPO.read_bytes()
    assert set(os.listdir(ppo.parent)) == before


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NaN", "nan"), ("-Infinity", "-inf"), ("1e999", "inf"), ("123456789012345678901", "123456789012345678901"),
        (' {"a": [1, null, true]} ', "{'a': [1, None, True]}"), ('"\u00e9\\ud800"', "\u00e9\ud800"), ("-0.0", "-0.0"),
    ],
)  # fmt: skip
def test_values_are_read_as_data_is(capsys: Capture, ppo: Path, text: str, value: str) -> None:
    status, _ = run_json(capsys, "edit", ppo, "--in-place", "--unknown-keys", "--set", f"mine={text}")
    assert status == 0
    assert str(sbformat.read(ppo).data["mine"]) == value


def test_limits_hold_for_values(capsys: Capture, ppo: Path) -> None:
    deep = "[" * 100 + "]" * 100
    args = ["edit", ppo, "--in-place", "--unknown-keys", "--set", f"mine={deep}"]
    assert run(capsys, *args)[0] == 2
    assert run(capsys, *args, "--limit", "json_depth=150")[0] == 0


def test_serialized_values_can_be_set(capsys: Capture, ppo: Path) -> None:
    status, _ = run_json(capsys, "edit", ppo, "--in-place", "--set", 'lr_schedule={":serialized:": "gARLBy4="}')
    assert status == 0
    assert sbformat.read(ppo).data["lr_schedule"] == sbformat.Serialized(None, b"\x80\x04K\x07.")


def test_items_are_appended_one_by_one(capsys: Capture, ppo: Path) -> None:
    place = "/policy_kwargs/net_arch/-"
    sets = ("--set", f"{place}=16", "--set", f"{place}=32")
    assert run(capsys, "edit", ppo, "--in-place", *sets, "--allow-mismatch")[0] == 1
    assert sbformat.read(ppo).data["policy_kwargs"] == {"net_arch": [8, 8, 16, 32]}


def test_data_that_the_weights_do_not_fit_is_refused(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    before = ppo.read_bytes()
    change = ("--set", 'policy_kwargs={"net_arch":[32]}')
    assert main(["edit", str(ppo), "-o", str(tmp_path / "o.zip"), *change]) == 2
    out, err = capsys.readouterr()
    assert (out, "mlp_extractor.policy_net.0.weight" in err, "--allow-mismatch" in err) == ("", True, True)
    assert run(capsys, "edit", ppo, "--in-place", *change)[0] == 2
    assert not (tmp_path / "o.zip").exists()
    assert ppo.read_bytes() == before
    assert run(capsys, "edit", ppo, "-o", tmp_path / "o.zip", *change, "--allow-mismatch")[0] == 1
    status, (report,) = run_json(capsys, "validate", tmp_path / "o.zip")
    assert status == 1
    assert {(row["entry"], row["kind"]) for row in report["problems"]} == {("policy.pth", "mismatch")}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_weights_from_a_file(capsys: Capture, ppo: Path, tmp_path: Path, suffix: str) -> None:
    arrays = {name: array * 2 for name, array in sbformat.read(PPO).parameters["policy"].to_numpy().items()}
    file = tmp_path / f"w{suffix}"
    np.savez(file, **arrays) if suffix == ".npz" else save_file(arrays, file)
    status, (report,) = run_json(capsys, "edit", ppo, "--in-place", "--weights", file)
    assert (status, len(report["changes"])) == (0, 12)
    found = sbformat.read(ppo).parameters["policy"].to_numpy()
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_weights_of_a_whole_archive(capsys: Capture, tmp_path: Path) -> None:
    assert run(capsys, "convert", SAC, "-o", tmp_path / "all.safetensors")[0] == 0
    status, (report,) = run_json(
        capsys, "edit", SAC, "--weights", tmp_path / "all.safetensors", "-o", tmp_path / "o.zip"
    )
    assert (status, report["changes"]) == (0, [])


def test_weights_that_do_not_fit_are_all_listed(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    arrays = sbformat.read(PPO).parameters["policy"].to_numpy()
    arrays["value_net.bias"] = np.zeros(2)
    arrays["action_net.bias"] = np.zeros(2, "c8")
    arrays["value_net.wieght"] = arrays.pop("value_net.weight")
    np.savez(tmp_path / "w.npz", **arrays)
    report = failure(capsys, "edit", ppo, "--in-place", "--weights", tmp_path / "w.npz")
    assert {(row["loc"], row["kind"]) for row in report["problems"]} == {
        ("policy:value_net.bias", "shape"), ("policy:action_net.bias", "dtype"),
        ("policy:value_net.weight", "missing"), ("policy:value_net.wieght", "unexpected"),
    }  # fmt: skip
    main(["edit", str(ppo), "--in-place", "--weights", str(tmp_path / "w.npz")])
    assert "value_net.wieght" in capsys.readouterr().err
    save_file({"\x1b[2J\u202e": np.zeros(1)}, tmp_path / "w.safetensors")
    failure(capsys, "edit", ppo, "--in-place", "--weights", tmp_path / "w.safetensors")
    assert ppo.read_bytes() == PPO.read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"junk", b"PK\x05\x06" + bytes(18)])
def test_files_of_weights_that_cannot_be_read_are_named(
    capsys: Capture, ppo: Path, tmp_path: Path, content: bytes | None
) -> None:
    for name in ("w.npz", "w.safetensors"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        report = failure(capsys, "edit", ppo, "--in-place", "--weights", tmp_path / name)
        assert report["outcome"] == "invalid" or report["file"] == str(tmp_path / name)
    assert ppo.read_bytes() == PPO.read_bytes()


def test_in_place_keeps_the_mode_and_links(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    ppo.chmod(0o640)
    link = tmp_path / "link.zip"
    link.symlink_to(ppo)
    assert run(capsys, "edit", link, "--in-place", "--set", "gamma=0.5")[0] == 0
    assert link.is_symlink()
    assert stat.S_IMODE(ppo.stat().st_mode) == 0o640
    assert sbformat.read(ppo).data["gamma"] == 0.5


def test_in_place_finds_the_file_that_is_read(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    status, (report,) = run_json(capsys, "edit", tmp_path / "in", "--in-place", "--set", "gamma=0.5")
    assert (status, report["output"]) == (0, str(ppo))
    assert os.listdir(tmp_path) == ["in.zip"]
    for command in (["edit", "--set", "gamma=0.5"], ["convert"]):
        report = failure(capsys, command[0], tmp_path / "in", *command[1:], "-o", ppo, "--force")
        assert "are the same file" in report["message"]


def test_in_place_is_for_archives(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "unzipped"
    folder.mkdir()
    for name, content in entries().items():
        (folder / name).write_bytes(content)
    for path in (folder, folder / "policy.pth", folder / "data"):
        assert "-o" in failure(capsys, "edit", path, "--in-place", "--drop", "policy.pth")["message"]
    assert sorted(os.listdir(folder)) == sorted(entries())
    assert run(capsys, "edit", folder, "--set", "gamma=0.5", "-o", tmp_path / "o.zip")[0] == 0
    assert sbformat.read(tmp_path / "o.zip").data["gamma"] == 0.5


def test_a_failure_while_writing_leaves_the_file_whole(
    capsys: Capture, ppo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    report = failure(capsys, "edit", ppo, "--in-place", "--set", "gamma=0.5")
    assert (report["outcome"], report["file"]) == ("cannot write", str(ppo))
    assert ppo.read_bytes() == PPO.read_bytes()
    assert os.listdir(tmp_path) == ["in.zip"]


def test_a_damaged_entry_is_not_copied(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    raw = zipped({**entries(), "notes": b"a note"}).replace(b"a note", b"a n0te", 1)
    ppo.write_bytes(raw)
    assert failure(capsys, "edit", ppo, "--in-place", "--set", "gamma=0.5")["outcome"] == "container failure"
    assert ppo.read_bytes() == raw
    assert run(capsys, "edit", ppo, "--in-place", "--drop", "notes")[0] == 0
    assert sbformat.read(ppo) == sbformat.read(PPO)
    assert os.listdir(tmp_path) == ["in.zip"]


def test_a_broken_entry_is_copied(capsys: Capture, ppo: Path) -> None:
    ppo.write_bytes(changed(policy_optimizer_pth=b"junk"))
    assert run(capsys, "edit", ppo, "--in-place", "--set", "gamma=0.5")[0] == 0
    assert bytes(sbformat.read(ppo).raw("policy.optimizer.pth")) == b"junk"


def test_what_is_there_stays_unless_forced(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.zip"
    out.write_text("mine")
    for command in (["edit", ppo, "--set", "gamma=0.5"], ["convert", ppo]):
        assert "--force" in failure(capsys, *command, "-o", out)["message"]
        assert out.read_text() == "mine"
        assert run(capsys, *command, "-o", out, "--force")[0] == 0
        out.write_text("mine")
    for command in (["edit", ppo, "--set", "gamma=0.5"], ["convert", ppo]):
        assert "are the same file" in failure(capsys, *command, "-o", ppo, "--force")["message"]
    assert ppo.read_bytes() == PPO.read_bytes()
    failure(capsys, "edit", ppo, "--set", "gamma=0.5", "-o", tmp_path / "no" / "o.zip")
    failure(capsys, "edit", ppo, "--set", "gamma=0.5", "-o", tmp_path, "--force")


@pytest.mark.parametrize(
    "args",
    [
        ["edit", "a.zip", "--set", "gamma=1"],
        ["edit", "a.zip", "-o", "b.zip"],
        ["edit", "a.zip", "-o", "b.zip", "--in-place", "--set", "gamma=1"],
        ["edit", "a.zip", "-o", "b.zip", "--set", "gamma"],
        ["edit", "a.zip", "-o", "b.zip", "--set", "=1"],
        ["convert", "a.zip"],
        ["diff", "a.zip"],
    ],
)
def test_wrong_usage(capsys: Capture, args: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"sbformat {args[0]}: error: ")
    assert "usage" not in error
    assert "\n  hint: " in error


# -- convert ------------------------------------------------------------------------------------------


def test_convert_there_and_back(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    middle, end = tmp_path / "m.safetensors", tmp_path / "e.zip"
    status, (report,) = run_json(capsys, "convert", ppo, "-o", middle)
    assert (status, report["format"], report["as_bytes"]) == (0, "safetensors", [])
    assert report["entries"] == list(entries())
    assert report["nbytes"] == middle.stat().st_size
    status, out = run(capsys, "convert", middle, "-o", end)
    assert status == 0
    assert out.startswith(f"{end}: 6 entries, 48 tensors, ")
    assert run(capsys, "diff", ppo, end)[0] == 0


def test_convert_tells_what_is_held_as_bytes(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    ppo.write_bytes(changed(policy_optimizer_pth=b"junk"))
    status, out = run(capsys, "convert", ppo, "-o", tmp_path / "m.safetensors")
    assert status == 0
    assert "policy.optimizer.pth is stored as bytes" in out


def test_convert_writes_one_state_dict(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.pth"
    status, (report,) = run_json(capsys, "convert", ppo, "-o", out, "--entry", "policy.optimizer")
    assert (status, report["entries"], report["format"]) == (0, ["policy.optimizer.pth"], "pth")
    assert run(capsys, "convert", ppo, "-o", out, "--force")[1].startswith(f"{out}: 1 entry, 12 tensors, ")
    assert "did you mean" in failure(capsys, "convert", ppo, "-o", tmp_path / "p.pth", "--entry", "polcy")["message"]
    assert "suffix" in failure(capsys, "convert", ppo, "-o", tmp_path / "o.h5")["message"]


def test_arrays_are_no_archive(capsys: Capture, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.zeros(3))
    assert "--weights" in failure(capsys, "convert", tmp_path / "a.npz", "-o", tmp_path / "o.zip")["message"]
    status, (report,) = run_json(capsys, "convert", tmp_path / "a.npz", "-o", tmp_path / "o.pth")
    assert (status, report["entries"], report["tensors"]) == (0, [], 1)
    for name in ("gone.npz", "gone.safetensors", "gone.zip"):
        assert failure(capsys, "convert", tmp_path / name, "-o", tmp_path / "x.pth")["outcome"] == "cannot open"


def test_hostile_arrays_are_reported(capsys: Capture, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", w=np.array([None]))
    assert failure(capsys, "convert", tmp_path / "a.npz", "-o", tmp_path / "o.pth")["outcome"] == "unsupported"
    save_file({}, tmp_path / "a.safetensors", {"sbformat": json.dumps({"version": 1, "entries": [{"name": "../x"}]})})
    report = failure(capsys, "convert", tmp_path / "a.safetensors", "-o", tmp_path / "o.zip")
    assert report["outcome"] == "container failure"
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.safetensors"]


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".npz"])
def test_an_edit_is_an_archive(capsys: Capture, ppo: Path, tmp_path: Path, suffix: str) -> None:
    status, (report,) = run_json(capsys, "edit", ppo, "-o", tmp_path / f"o{suffix}", "--set", "gamma=0.5")
    assert (status, report["outcome"]) == (2, "unsupported")
    assert not (tmp_path / f"o{suffix}").exists()


def test_an_edit_that_cannot_be_told_is_not_made(capsys: Capture, ppo: Path) -> None:
    before = ppo.read_bytes()
    args = ["--set", "gamma=0.5", "--set", "seed=9", "--limit", "reported_values=1"]
    assert run(capsys, "edit", ppo, "--in-place", *args)[0] == 2
    assert ppo.read_bytes() == before


def test_weights_without_a_tensor_are_told_to_lack_all(capsys: Capture, ppo: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz")
    status, (report,) = run_json(capsys, "edit", ppo, "-o", tmp_path / "o.zip", "--weights", tmp_path / "w.npz")
    assert status == 2
    assert len(report.get("problems", [])) == 12 or report["outcome"] == "container failure"
