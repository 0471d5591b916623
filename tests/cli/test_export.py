"""``sbformat export``: four formats by the suffix of the output; text, JSON by its schema, errors, exit status."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.cli.agents import parse_batch
from sbformat.policies.export.formats import FORMATS as SUFFIXES
from sbformat.policies.export.formats import make_name
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, with_data
from tests.helpers.reports import parse_reports, unfold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"
FILES = {
    "onnx": ("p.onnx",), "c": ("p.c", "p.h"), "js": ("p.js", "p.d.ts"), "json": ("p.json", "p.safetensors"),
    "py": ("p.py", "p.safetensors"),
}  # fmt: skip
NAMES = {"js": "javascript", "py": "pytorch"}
FORMATS = pytest.mark.parametrize("suffix", FILES)


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Run the command; its status, standard output and standard error."""
    status = main(["export", *(os.fsdecode(arg) if isinstance(arg, bytes) else str(arg) for arg in args)])
    return (status, *capsys.readouterr())


def run_json(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, dict[str, Any]]:
    """Run the command with --format json; its status and report, checked against the schema."""
    status, out, _ = run(capsys, *args, "--format", "json")
    (report,) = parse_reports(out)
    return status, report


def read_folder(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- what is written ----------------------------------------------------------------------------------


CALLS: dict[str, Callable[[Any, Path], sbformat.ExportReport]] = {
    "onnx": sbformat.export_onnx,
    "c": lambda source, path: sbformat.export_c(source, path, name="p"),
    "js": sbformat.export_javascript,
    "json": sbformat.export_graph,
    "py": sbformat.export_torch,
}


@FORMATS
def test_the_command_writes_what_the_function_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    expected = CALLS[suffix](SAC, tmp_path / "a" / f"p.{suffix}")
    status, report = run_json(capsys, SAC, "-o", tmp_path / "b" / f"p.{suffix}")
    assert (status, report["format"], report["algorithm"]) == (0, NAMES.get(suffix, suffix), "SAC")
    assert read_folder(tmp_path / "a") == read_folder(tmp_path / "b")
    assert set(read_folder(tmp_path / "b")) == set(FILES[suffix])
    assert [file["path"] for file in report["files"]] == [str(tmp_path / "b" / name) for name in FILES[suffix]]
    assert [file["size"] for file in report["files"]] == [file.size for file in expected.files]
    assert [port["name"] for port in report["inputs"]] == ["observation"]
    assert [port["name"] for port in report["outputs"]] == [port.name for port in expected.outputs]
    assert (report["nodes"], report["constants"]) == (expected.nodes, expected.constants)
    assert report["metadata"] == dict(expected.metadata)
    assert (report["raw"], report["inferred"], report["warnings"]) == (False, [], [])


@FORMATS
def test_text_names_files_inputs_and_outputs(capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str) -> None:
    status, out, err = run(capsys, SAC, "-o", tmp_path / f"p.{suffix}", "--outputs", "mean,action")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"{SAC}: SAC as ")
    assert " operations, " in lines[0]
    words = [line.split() for line in lines]
    for name in FILES[suffix]:
        assert any(line[:1] == [str(tmp_path / name)] for line in words)
    assert ["observation", "float32", "(3,)"] in words
    assert words[-2:] == [["mean", "float32", "(1,)"], ["action", "float32", "(1,)"]]


def test_statistics_are_inside_unless_the_export_is_raw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.zip"
    sbformat.write(sbformat.bundle(SAC, STATISTICS), bundle)
    cases: list[tuple[Path, list[object], str, int]] = [
        (SAC, [], "false", 1),
        (SAC, ["--vecnormalize", STATISTICS], "true", 1),
        (bundle, [], "true", 1),
        (bundle, ["--raw"], "false", 0),
        (SAC, ["--raw", "--vecnormalize", STATISTICS], "true", 0),
    ]
    for path, options, normalized, bounds in cases:
        status, report = run_json(capsys, path, "-o", tmp_path / "p.json", "--force", *options)
        graph = json.loads((tmp_path / "p.json").read_bytes())
        assert (status, report["metadata"]["normalized"], report["raw"]) == (0, normalized, not bounds)
        assert any(name.endswith("/mean") for name in graph["weights"]) == (normalized == "true")
        assert any(node["module"] == "bounds" for node in graph["nodes"]) == bool(bounds)
        out = run(capsys, path, "-o", tmp_path / "p.json", "--force", *options)[1]
        assert ("with the statistics of VecNormalize" in out) == (normalized == "true")
        assert ("without the bounds" in out) == (not bounds)


def test_missing_statistics_are_told_on_standard_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(with_data(lambda data: data.update(_last_original_obs=data["observation_space"])))
    status, out, err = run(capsys, path, "-o", tmp_path / "p.json")
    assert (status, err.startswith("sbformat: warning: the agent was trained behind VecNormalize")) == (0, True)
    assert "warning" not in out
    assert len(run_json(capsys, path, "-o", tmp_path / "q.json")[1]["warnings"]) == 1
    assert run_json(capsys, path, "-o", tmp_path / "r.json", "--raw")[1]["warnings"] == []


@pytest.mark.parametrize(("batch", "expected"), [(None, "batch"), ("n", "n"), ("3", 3)])
def test_the_batch_has_a_name_or_a_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, batch: str | None, expected: str | int
) -> None:
    onnx = pytest.importorskip("onnx")
    options = [] if batch is None else ["--batch", batch]
    assert run(capsys, PPO, "-o", tmp_path / "p.onnx", "--opset", 15, *options)[0] == 0
    model = onnx.load(tmp_path / "p.onnx")
    dimension = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert (dimension.dim_param or dimension.dim_value) == expected
    assert model.opset_import[0].version == 15


def test_names_in_c_follow_the_file_or_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, PPO, "-o", tmp_path / "2 walk-fast.c")[0] == 0
    assert "void policy_2_walk_fast_predict(" in (tmp_path / "2 walk-fast.h").read_text()
    assert run(capsys, PPO, "-o", tmp_path / "p.c", "--name", "robot")[0] == 0
    assert "void robot_predict(" in (tmp_path / "p.h").read_text()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("policy.c", "policy"), ("a/b.x/My_Robot.c", "My_Robot"), ("9.c", "policy_9"), ("int.c", "policy_int"),
        ("__a--b__.c", "a_b"), ("агент.c", "policy"), ("\udcff.c", "policy"), (f"{'ab_' * 30}.c", "ab_" * 7 + "ab"),
        (f"{'a' * 22}_b.c", "a" * 22),
    ],
)  # fmt: skip
def test_every_file_name_gives_a_name_for_c(path: str, expected: str) -> None:
    from sbformat.policies.c.export import check_name

    assert make_name(path) == expected
    check_name(expected)


def test_a_batch_is_a_number_of_ascii_digits() -> None:
    assert [parse_batch(text) for text in ("7", "n", "٣", "-1", "")] == [7, "n", "٣", "-1", ""]
    assert parse_batch("9" * 5000) == "9" * 5000


# -- the function -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "given"),
    [
        ("p.json", {"outputs": ["value"]}, ["--outputs", "value"]),
        ("2 Walk.C", {"raw": True}, ["--raw"]),
        ("p.mjs", {}, []),
        ("p.c", {"name": "robot", "outputs": ("action", "value")}, ["--name", "robot", "--outputs", "action,value"]),
        ("p.ONNX", {"opset": 15, "batch": 3}, ["--opset", "15", "--batch", "3"]),
    ],
)
def test_the_function_chooses_the_format_as_the_command_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, options: dict[str, Any], given: list[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    report = sbformat.export(PPO, tmp_path / "a" / name, **options)
    assert run(capsys, PPO, "-o", tmp_path / "b" / name, *given)[0] == 0
    assert read_folder(tmp_path / "a") == read_folder(tmp_path / "b")
    assert {os.path.basename(file.path) for file in report.files} == set(os.listdir(tmp_path / "a"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("p.txt", {}, f"expected an output that ends in {', '.join(SUFFIXES)}, got "),
        ("p.h", {}, "; .h is written beside the output .c"),
        ("p.d.mts", {}, "; .d.mts is written beside the output .mjs"),
        ("p.json", {"opset": 17}, "opset: expected it with an output .onnx, got .json"),
        ("p.onnx", {"name": "robot"}, "name: expected it with an output .c, got .onnx"),
    ],
)
def test_the_function_refuses_what_no_format_has(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        sbformat.export(PPO, tmp_path / name, **options)
    assert os.listdir(tmp_path) == []


# -- errors -------------------------------------------------------------------------------------------


def test_arguments_of_python_are_named_as_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "policy.pth"
    path.write_bytes(zipfile.Path(PPO, "policy.pth").read_bytes())
    assert main(["export", str(path), "-o", str(tmp_path / "policy.js")]) == 2
    assert "the command line has --policy-class and --policy-kwargs" in unfold(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("options", "outcome", "message"),
    [
        (["-o", "p.txt"], "unsupported", f"expected an output that ends in {', '.join(SUFFIXES)}, got 'p.txt'"),
        (
            ["-o", "p.pth"],
            "unsupported",
            "sbformat export does not write .pth files; sbformat convert and sbformat rebuild do",
        ),
        (["-o", "p.h"], "unsupported", ".h is written beside the output .c"),
        (["-o", ".mjs"], "unsupported", "expected a name before the ending, such as policy.mjs, got '.mjs'"),
        (["-o", "policy"], "unsupported", f"expected an output that ends in {', '.join(SUFFIXES)}, got 'policy'"),
        (["-o", "p.onnx", "--outputs", "q_values"], "invalid", "expected outputs among 'action', 'logits'"),
        (["-o", "p.c", "--outputs", ""], "invalid", "got ''"),
        (["-o", "p.json", "--outputs", "action,"], "invalid", "got ''"),
        (["-o", "p.json", "--outputs", "action,action"], "unsupported", "'action' twice"),
        (["-o", "p.onnx", "--opset", "99"], "invalid", "expected an opset from 13 to 21, got"),
        (["-o", "p.onnx", "--batch", "0"], "invalid", "expected a name such as batch"),
        (["-o", "p.onnx", "--batch", "a b"], "invalid", "expected a name such as batch"),
        (["-o", "p.c", "--name", "int"], "invalid", "not a keyword"),
        (["-o", "p.c", "--name", "a;b"], "invalid", "an identifier of C"),
        (["-o", "p.onnx", "--stochastic"], "unsupported", "export the outputs 'logits', and sample from them"),
        (["-o", "p.json", "--stochastic"], "unsupported", "export the outputs 'logits', and sample from them"),
        (
            ["-o", "p.js", "--stochastic"],
            "unsupported",
            "with predict(observation, { deterministic: false })",
        ),
        (["-o", "p.py", "--stochastic"], "unsupported", "with policy.act(observation, deterministic=False)"),
        (["-o", "p.json", "--vecnormalize", "nowhere.pkl"], "cannot open", "No such file"),
        (["-o", "nowhere/p.json"], "cannot write", "there is no folder 'nowhere'"),
        (["-o", "p.json", "--limit", "policy_items=10"], "limit exceeded", "policy_items"),
    ],
)
def test_what_cannot_be_exported_is_one_error(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    outcome: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, report = run_json(capsys, PPO, *options)
    assert (status, report["outcome"]) == (2, outcome)
    assert message in report["message"]
    status, out, err = run(capsys, PPO, *options)
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    blamed = report.get("file", PPO)
    assert blamed in (PPO, *options)
    assert err.startswith(f"sbformat: {blamed}: {outcome}: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("suffix", "option", "expected"),
    [
        ("c", ["--opset", "17"], "--opset: expected it with an output .onnx, got .c"),
        ("json", ["--batch", "7"], "--batch: expected it with an output .onnx, got .json"),
        ("onnx", ["--name", "x"], "--name: expected it with an output .c, got .onnx"),
        ("onnx", ["--opset", "0"], "expected a number of at least 1, got 0"),
    ],
)
def test_options_of_other_formats_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, option: list[str], expected: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(PPO), "-o", str(tmp_path / f"p.{suffix}"), *option])
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


EACH_FILE = pytest.mark.parametrize(("suffix", "name"), [(key, name) for key, names in FILES.items() for name in names])


@EACH_FILE
def test_files_that_exist_are_replaced_with_force_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    options = [PPO, "-o", tmp_path / f"p.{suffix}"]
    status, report = run_json(capsys, *options)
    assert (status, report["outcome"]) == (2, "cannot write")
    assert report["message"] == f"{tmp_path / name} already exists; --force overwrites it"
    assert read_folder(tmp_path) == {name: b"mine"}
    assert run(capsys, *options, "--force")[0] == 0
    assert set(read_folder(tmp_path)) == set(FILES[suffix])
    assert read_folder(tmp_path)[name] != b"mine"


@EACH_FILE
def test_the_input_is_never_the_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, name: str
) -> None:
    for source, options in ((SAC, []), (STATISTICS, ["--vecnormalize", tmp_path / name])):
        (tmp_path / name).write_bytes(source.read_bytes())
        path = SAC if options else tmp_path / name
        status, report = run_json(capsys, path, "-o", tmp_path / f"p.{suffix}", "--force", *options)
        assert (status, report["outcome"]) == (2, "unsupported")
        assert report["message"] == "the output and the input are the same file"
        assert read_folder(tmp_path) == {name: source.read_bytes()}


def test_an_output_beside_a_folder_of_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    for name, entry in sbformat.read(PPO).entries.items():
        (tmp_path / "agent" / name).write_bytes(b"".join(sbformat.read(PPO).stream(name)))
        assert entry.size
    status, report = run_json(capsys, tmp_path / "agent", "-o", tmp_path / "agent.json")
    assert (status, report["outcome"], "sha256" in report["metadata"]) == (0, "ok", False)


@FORMATS
@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (b"", "container failure"),
        (changed(without=("policy.pth",)), "missing"),
        (changed(policy_pth=b"PK\x03\x04"), "container failure"),
        (with_data(lambda data: data.update(policy_kwargs={"net_arch": [9]})), "invalid"),
        (with_data(lambda data: data.update(policy_class="strange")), "invalid"),
    ],
)
def test_a_file_that_is_not_a_policy_gives_no_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str, content: bytes, outcome: str
) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    status, report = run_json(capsys, tmp_path / "a.zip", "-o", tmp_path / f"p.{suffix}")
    assert (status, report["outcome"]) == (2, outcome)
    assert list(read_folder(tmp_path)) == ["a.zip"]


@FORMATS
def test_a_lone_state_dict_says_what_python_has_to_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    sbformat.convert(sbformat.read(PPO), tmp_path / "policy.pth")
    status, report = run_json(capsys, tmp_path / "policy.pth", "-o", tmp_path / f"p.{suffix}")
    assert (status, report["outcome"]) == (2, "unsupported")
    assert "action_space" in report["message"]
    assert list(read_folder(tmp_path)) == ["policy.pth"]


@FORMATS
def test_paths_that_are_not_utf_8(capsys: pytest.CaptureFixture[str], tmp_path: Path, suffix: str) -> None:
    source = os.fsencode(tmp_path) + b"/\xff.zip"
    with open(source, "wb") as file:
        file.write(PPO.read_bytes())
    status, report = run_json(capsys, source, "-o", tmp_path / f"p.{suffix}")
    assert (status, report["path"]) == (0, os.fsdecode(source))
    status, out, _ = run(capsys, source, "-o", tmp_path / f"p.{suffix}", "--force")
    assert (status, "\\udcff.zip: PPO as" in out) == (0, True)
    target = os.fsencode(tmp_path) + b"/\xfe." + suffix.encode()
    status, report = run_json(capsys, PPO, "-o", target)
    assert (status == 0) == os.path.exists(target)
    assert report["outcome"] in ({"ok"} if suffix in ("onnx", "js", "py") else {"unsupported", "invalid"})


def test_without_onnx_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    status, _, err = run(capsys, PPO, "-o", tmp_path / "p.onnx")
    assert (status, 'pip install "sbformat[onnx]"' in err) == (2, True)
    assert not list(tmp_path.iterdir())
    for suffix in ("c", "js", "json", "py"):
        assert run(capsys, PPO, "-o", tmp_path / f"{suffix}.{suffix}")[0] == 0
