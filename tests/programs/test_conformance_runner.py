"""The runner of the conformance vectors, ``conformance/run.py``: its protocol, its totals, its reports."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from conformance import run
from conformance.runner.checks import Commands, judge
from conformance.runner.commands import Batch, Crash, Request, SingleRuns, open_command, supports_batch
from conformance.runner.comparison import compare_predictions
from conformance.runner.vectors import (
    Vector,
    decode_file,
    list_arguments,
    list_features,
    list_files,
    list_implementations,
    list_lacking,
    read_features,
    read_vector,
    read_vectors,
)
from tests.helpers.bundled import ROOT
from tests.helpers.conformance_commands import run_program, share_processes
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = ROOT / "conformance"
VECTORS: Final = list(read_vectors())
NODE: Final = shutil.which("node")


def run_runner(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(run.main, "--jobs", "1", *arguments)


def harness(name: str) -> str:
    """The command of a decoder or encoder of this repository."""
    if name.endswith(".js"):
        return f"{NODE} {HERE / 'harness' / 'javascript' / name}"
    return f"{sys.executable} {HERE / 'harness' / 'python' / name}"


@pytest.fixture(scope="module")
def shared() -> Iterator[None]:
    """The decoders of this repository run in a process each, and are not asked again whether they support batches."""
    with share_processes(run, *(shlex.split(harness(name)) for name in ("decode.py", "decode.js"))):
        yield


def test_the_decoder_and_encoder_follow_the_protocol() -> None:
    done = run_runner(
        "--decoder", harness("decode.py"), "--encoder", harness("encode.py"), "--only", "system-info", "--jobs", "2"
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^all +[1-9][0-9]* +0 +0 +0 +0$", done.stdout, re.MULTILINE)
    assert "encode" in done.stdout


@pytest.mark.usefixtures("shared")
@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    "part", ["entry-", "names-", "json-key", "pickle-frame", "storage-key", "legacy-key", "policy-ppo", "policy-lstm"]
)
def test_a_decoder_in_another_language_agrees(part: str) -> None:
    """Some of the vectors; ``.ci/run`` runs all."""
    done = run_runner("--decoder", harness("decode.js"), "--only", part)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^all +[1-9]", done.stdout, re.MULTILINE)


BROKEN: Final = {
    "that accepts anything": "import sys; sys.stdin.buffer.read(); print('{}')",
    "that refuses everything": 'import sys; print(\'{"outcome": "container failure"}\'); sys.exit(1)',
    "that names no outcome": "import sys; print('{}'); sys.exit(1)",
    "that prints no JSON": "print('ok')",
    "that prints nothing": "",
    "that raises": "raise KeyError('x')",
    "that is killed": "import os; os.kill(os.getpid(), 9)",
    "that hangs": "import time; time.sleep(60)",
    "that knows no argument at all": "import sys; sys.exit(2)",
    "that ends with 0 when it refuses": 'print(\'{"outcome": "data failure"}\')',
}


@pytest.mark.parametrize("part", with_exhaustive(["file-pickle-protocol"], ["file-"]))
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_decoder_fails(what: str, part: str) -> None:
    decoder = f'{sys.executable} -S -c "{BROKEN[what].replace(chr(34), chr(92) + chr(34))}"'
    only, timeout = ("file-text", "0.5") if what == "that hangs" else (part, "3")
    done = run_runner("--decoder", decoder, "--only", only, "--timeout", timeout)
    assert done.returncode == 1, done.stdout
    if what not in ("that refuses everything", "that accepts anything", "that ends with 0 when it refuses"):
        assert "crash" in done.stdout
        assert re.search(r"^all +0 ", done.stdout, re.MULTILINE)


WRAPPED: Final = """
import io, json, sys
sys.path.insert(0, {folder!r})
import decode
{fault}
sys.exit(decode.main())
"""
FAULTS: Final = {
    "a wrong number": """
import tagged
old = tagged.scalar
tagged.scalar = lambda value: 2 if value == 1 else old(value)
""",
    "true for 1": """
old = decode.json_value
decode.json_value = lambda value: json.loads(json.dumps(old(value)).replace(" 1]", " true]"))
""",
    "another order": """
old = decode.json_value
decode.json_value = lambda value: old(dict(reversed(value.items())))
""",
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_decoder_with_one_fault_fails(what: str, tmp_path: Any) -> None:
    program = tmp_path / "decode_wrong.py"
    program.write_text(WRAPPED.format(folder=str(HERE / "harness" / "python"), fault=FAULTS[what]), encoding="utf-8")
    with share_processes(run, [sys.executable, str(program)]):
        done = run_runner("--decoder", f"{sys.executable} {program}", "--only", "form-")
    assert done.returncode == 1, done.stdout
    assert "crash" not in done.stdout.splitlines()[0]


@pytest.mark.usefixtures("shared")
def test_an_expected_failure_that_passes_fails_the_run() -> None:
    decoder = harness("decode.py")
    assert run_runner("--decoder", decoder, "--only", "file-empty", "--xfail", "file-empty").returncode == 1
    wrong = f'{sys.executable} -S -c "{BROKEN["that accepts anything"]}"'
    expected = [word for v in VECTORS if "file-empty" in v["name"] for word in ("--xfail", v["name"])]
    assert run_runner("--decoder", wrong, "--only", "file-empty", *expected).returncode == 0


def test_features_are_skipped_and_unknown_words_are_reported() -> None:
    decoder = f'{sys.executable} -c "{BROKEN["that accepts anything"]}"'
    nothing = run_runner("--decoder", decoder, "--only", "scan-archive", "--skip-feature", "scan")
    assert nothing.returncode == 1  # a run of no vectors proves nothing
    for words in (["--skip-feature", "legcy"], ["--xfail", "no-such-vector"], []):
        done = run_runner(*(["--decoder", decoder] if words else []), *words)
        assert done.returncode == 2, words
    assert "legacy" in run_runner("--decoder", decoder, "--skip-feature", "legcy").stderr


# -- many files in one process ------------------------------------------------------------------------

HARNESSES: Final = ("decode.py", pytest.param("decode.js", marks=pytest.mark.skipif(NODE is None, reason="no node")))
DECODED: Final = [vector for vector in VECTORS if vector["kind"] == "decode"]


def write_program(tmp_path: Path, text: str, name: str = "program.py") -> str:
    """The command of a program."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return shlex.join([sys.executable, "-S", str(path)])


def run_batch(command: str, *requests: dict[str, Any] | str) -> list[dict[str, Any]]:
    lines = [request if isinstance(request, str) else json.dumps(request) for request in requests]
    done = subprocess.run(
        [*shlex.split(command), "--batch"], input="\n".join(lines), capture_output=True, text=True, check=False,
        timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize("every", with_exhaustive([1400], [70]))
def test_a_batch_answers_as_single_runs_do(name: str, every: int) -> None:
    words = shlex.split(harness(name))
    single, batch = SingleRuns(words, 60), Batch(words, 60)
    for vector in DECODED[::every]:
        request = Request(vector.get("arguments", ()), decode_file(vector))
        answers = []
        for command in (single, batch):
            try:
                answers.append(command.run(request))
            except Exception as error:  # noqa: BLE001 -- an unknown argument
                answers.append(repr(error))
        assert answers[0] == answers[1], vector["name"]
    batch.close()


@pytest.mark.parametrize("name", HARNESSES)
def test_every_request_has_one_response_in_order(name: str, tmp_path: Path) -> None:
    vector = read_vector("form-zip")
    expected = {"code": 0, "answer": vector["expect"]}
    file = {"arguments": [], "base64": vector["base64"]}
    (tmp_path / "form.zip").write_bytes(decode_file(vector))
    found = run_batch(
        harness(name),
        file,
        {"arguments": [], "file": str(tmp_path / "form.zip")},
        {"arguments": [], "base64": ""},
        {"arguments": ["--nonsense"], "base64": ""},
        {"arguments": ["--limit", "no_such_limit=1"], "base64": ""},
        {"arguments": ["--limit", "ratio"], "base64": ""},
        {"arguments": ["--limit", "ratio=-1"], "base64": ""},
        {"arguments": ["--batch"], "base64": ""},
        {"arguments": ["--entry"], "base64": ""},
        {"arguments": [], "file": str(tmp_path / "missing")},
        "not JSON",
        file,
    )
    assert [response["code"] for response in found] == [0, 0, 1, 2, 2, 2, 2, 2, 2, 70, 70, 0]
    assert found[0] == found[1] == found[-1] == expected
    assert found[2]["answer"]["outcome"] == "container failure"
    assert all(response["message"] for response in found[3:-1])


def test_an_encoder_returns_bytes() -> None:
    vector = next(vector for vector in VECTORS if vector["kind"] == "encode" and "outcome" not in vector)
    single = subprocess.run(
        shlex.split(harness("encode.py")), input=decode_file(vector), capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    found = run_batch(
        harness("encode.py"), {"arguments": [], "base64": vector["base64"]}, {"arguments": [], "base64": "eA=="}
    )
    assert found[0] == {"code": 0, "base64": base64.b64encode(single.stdout).decode()}
    assert found[1]["code"] == 70


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--limit", "no_such_limit=1"], 2, "unknown limit 'no_such_limit'; available: outer_entries, "),
        (["--limit", "ratio"], 2, "expected --limit NAME=VALUE with a whole number, got 'ratio'"),
        (["--limit", "ratio=1.5"], 2, "expected --limit NAME=VALUE with a whole number, got 'ratio=1.5'"),
        (["--stat"], 2, "unrecognized arguments: --stat"),
        (["--predict", "/no/such/file"], 70, "FileNotFoundError: "),
    ],
)
def test_the_python_harness_reports_wrong_arguments(
    arguments: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(HERE / "harness" / "python")
    monkeypatch.setattr("sys.argv", ["decode.py", *arguments])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert import_module("decode").main() == code
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert errors.splitlines()[-1].startswith(f"decode.py: {message}")
    assert ("Traceback" in errors) == (code == 70)


COUNTING: Final = """
import json, sys
NAMES = {names}
if sys.argv[1:] == ["--batch"]:
    with open({log!r}, "a") as file:
        file.write("batch\\n")
    for line in sys.stdin:
        name = NAMES[json.loads(line)["base64"]]
        {fault}
        print(json.dumps({{"code": 1, "answer": {{"outcome": "container failure"}}}}), flush=True)
else:
    with open({log!r}, "a") as file:
        file.write("single\\n")
    print('{{"outcome": "container failure"}}')
    sys.exit({code})
"""


FILES: Final = {vector["base64"]: vector["name"] for vector in VECTORS if "file-" in vector["name"]}


def run_counting(tmp_path: Path, fault: str, *arguments: str, code: int = 1) -> tuple[dict[str, Any], Counter[str]]:
    """Run a decoder that refuses everything but for a fault; return the results and how often it was started."""
    log = tmp_path / "log"
    command = write_program(tmp_path, COUNTING.format(names=FILES, log=str(log), fault=fault, code=code))
    done = run_runner("--decoder", command, "--only", "file-", "--jobs", "1", "--format", "json", *arguments)
    return json.loads(done.stdout), Counter(log.read_text("ascii").split())


def test_one_process_answers_for_all_files(tmp_path: Path) -> None:
    report, started = run_counting(tmp_path, "pass")
    assert report["totals"]["passed"] >= 4
    assert started == {"batch": 2}  # one is the probe
    report, started = run_counting(tmp_path, "pass", "--batch", "no", "--only", "file-pickle-")
    assert started["single"] == sum(result["state"] != "skipped" for result in report["results"])


def test_a_command_without_batches_is_started_for_each_file(tmp_path: Path) -> None:
    program = "import sys\nif '--batch' in sys.argv: sys.exit(2)\n" + BROKEN["that refuses everything"]
    command = write_program(tmp_path, program)
    assert not supports_batch(shlex.split(command), 20)
    done = run_runner("--decoder", command, "--only", "file-empty")
    assert done.returncode == 0, done.stdout


FAULTS_OF_A_WORKER: Final = {
    "sys.exit(3)": "crash: the process ended without an answer: exit code 3",
    "raise KeyError('why')": "crash: the process ended without an answer: exit code 1: KeyError: 'why'",
    "import time; time.sleep(60)": "crash: no answer within 2 s",
    "sys.stdout.close(); import os; os.close(1); import time; time.sleep(60)": "crash: the process ended without an",
    "print('no JSON', flush=True); continue": "crash: its output is not JSON: b'no JSON",
    "print(5, flush=True); continue": "crash: not a response of a batch: b'5",
    """print('{"code": 3}', flush=True); continue""": "crash: not a response of a batch",
    """print('{"code": true, "answer": {}}', flush=True); continue""": "crash: not a response of a batch",
    """print('{"code": 0}', flush=True); continue""": "crash: not a response of a batch",
    "print('[' * 100000, flush=True); continue": "crash: its output is nested",
    """print('{"code": 70, "message": "' + chr(92) + 'ud800"}', flush=True); continue""": "crash: exit code 70: ?",
    """print('{"code": 70, "message": "why"}', flush=True); continue""": "crash: exit code 70: why",
}


@pytest.mark.parametrize("fault", FAULTS_OF_A_WORKER)
def test_a_fault_of_a_worker_is_a_crash_of_one_vector(fault: str, tmp_path: Path) -> None:
    condition = f"if 'file-text' in name:\n            {fault}"
    report, started = run_counting(tmp_path, condition, "--timeout", "2" if fault.startswith("import time") else "300")
    crashed = [result for result in report["results"] if result["state"] == "crash"]
    assert [result["name"] for result in crashed] == ["file-text"]
    assert crashed[0]["reason"].startswith(FAULTS_OF_A_WORKER[fault])
    assert report["totals"]["passed"] >= 4
    assert started == {"batch": 2 if '"code": 70' in fault else 3}  # a fault that is reported leaves the process intact


@pytest.mark.parametrize("answer", ["[" * 100_000 + "]" * 100_000, "[" * 8000 + "]" * 8000])
def test_deeply_nested_output_is_a_crash_of_a_single_run(answer: str, tmp_path: Path) -> None:
    program = "import sys\nif '--batch' in sys.argv: sys.exit(2)\n" + f"print('{answer}')\n"
    done = run_runner("--decoder", write_program(tmp_path, program), "--only", "form-zip")
    assert done.returncode == 1
    assert done.stderr == ""
    assert "crash: its output is nested more than 2000 levels deep\n" in done.stdout


WRITES_WRONG_BASE64: Final = """
import sys
for line in sys.stdin:
    print('{"code": 0, "base64": TEXT}', flush=True)
"""


@pytest.mark.parametrize("text", ['"A"', '"UEsD!!!!"', '"\u00e9"', "5", "null"])
def test_wrong_base64_of_an_encoder_is_a_crash(text: str, tmp_path: Path) -> None:
    encoder = write_program(tmp_path, WRITES_WRONG_BASE64.replace("TEXT", text))
    report = run_json("--decoder", refuse_all(tmp_path), "--encoder", encoder, "--only", "encode-name-dots")
    assert [result["state"] for result in report["results"]] == ["crash"]
    assert report["results"][0]["reason"].startswith("crash: its output is not base64: ")


@pytest.mark.parametrize("items", [None, 5, {}, [10**400], [[]], [True]])
def test_wrong_items_of_an_array_are_a_difference(items: Any) -> None:
    wanted = {"dtype": "<f4", "shape": [1], "items": [0.5]}
    assert compare_predictions(wanted, {**wanted, "items": items}, 1e-5)


def test_a_worker_that_reads_nothing_is_ended(tmp_path: Path) -> None:
    command = write_program(tmp_path, "import sys, time\nsys.stdin.fileno()\nif 1: time.sleep(60)\n")
    batch = Batch(shlex.split(command), 1)
    with pytest.raises(Crash, match="no answer within 1 s"):
        batch.run(Request((), bytes(1 << 20)))
    batch.close()


def test_what_is_wrong_is_the_last_line_of_standard_error(tmp_path: Path) -> None:
    command = write_program(tmp_path, "import sys\nprint('no JSON')\nprint('first\\nlast', file=sys.stderr)\n")
    done = run_runner("--decoder", command, "--only", "file-empty")
    assert "crash: its output is not JSON: last\n" in done.stdout


# -- selection and reports ----------------------------------------------------------------------------


REFUSES_ALL: Final = """
import json, sys
for line in sys.stdin:
    refusal = {"code": 1, "answer": {"outcome": "tensor failure"}}
    print(json.dumps({"code": 2} if json.loads(line)["arguments"] else refusal), flush=True)
"""


def refuse_all(tmp_path: Path) -> str:
    """A decoder that refuses everything in a batch, and knows no argument."""
    return write_program(tmp_path, REFUSES_ALL, "refuses.py")


@cache
def read_schema() -> jsonschema.Draft202012Validator:
    schema = json.loads((HERE / "results.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def run_json(*arguments: str) -> dict[str, Any]:
    done = run_runner(*arguments, "--format", "json")
    report = json.loads(done.stdout)
    read_schema().validate(report)
    assert report["success"] == (done.returncode == 0)
    return report


@pytest.mark.parametrize("every", with_exhaustive([12], [1]))
def test_every_vector_is_counted(every: int, tmp_path: Path) -> None:
    """What was skipped, too: by --skip-feature, for the lack of an encoder, and by exit code 2."""
    selected = VECTORS[::every]
    words = ["--skip-feature", "legacy", "--skip-feature", "statistics", "--every", str(every)]
    report = run_json("--decoder", refuse_all(tmp_path), *words)
    results = report["results"]
    assert [result["name"] for result in results] == [vector["name"] for vector in selected]
    skipped = Counter(result.get("skipped_for") for result in results)
    assert skipped["encoder"] == sum(vector["kind"] == "encode" for vector in selected) > 0
    dropped = [vector for vector in selected if {"legacy", "statistics"} & set(vector.get("features", ()))]
    assert skipped["feature"] == len(dropped) > 0
    assert skipped["argument"] > 500 // every
    assert sum(report["totals"].values()) == len(selected)
    needed = Counter(feature for vector in selected for feature in vector.get("features", ["core"]))
    assert {name: sum(counts.values()) for name, counts in report["features"].items()} == needed
    assert list(report["features"])[:3] == ["core", "algorithm", "attributes"]
    assert report["features"]["legacy"]["skipped"] == needed["legacy"]
    sections = Counter(vector["section"] for vector in selected)
    assert {name: sum(counts.values()) for name, counts in report["sections"].items()} == sections


@pytest.mark.parametrize("every", with_exhaustive([12], [1]))
def test_totals_by_feature_and_section_are_printed(every: int, tmp_path: Path) -> None:
    selected, words = VECTORS[::every], ["--totals", "--skip-feature", "legacy", "--every", str(every)]
    done = run_runner("--decoder", refuse_all(tmp_path), *words)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line[-1:].isdigit()}
    needed = sum("legacy" in vector.get("features", ()) for vector in selected)
    assert rows["legacy"] == ["0", str(needed), "0", "0", "0"]
    assert sum(map(int, rows["17"])) == sum(vector["section"].startswith("17") for vector in selected)
    assert sum(map(int, rows["all"])) == len(selected)
    assert (
        f"skipped: {needed} that need a feature of --skip-feature or one that --implementation lacks\n" in done.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "no-such-name"], "no vector matches"),
        (["--feature", "legacy", "--section", "14"], "no vector matches"),
        (["--section", "1.1", "--section", "99"], None),
        (["--section", "99"], "no vector matches"),
        (["--feature", "legcy"], "unknown feature 'legcy'; available: "),
        (["--skip-feature", "core"], "unknown feature 'core'"),
        (["--every", "0"], "expected a number >= 1"),
    ],
)
def test_a_selection_without_vectors_is_an_error(arguments: list[str], message: str | None) -> None:
    done = run_runner("--list", *arguments)
    assert done.returncode == (2 if message else 0)
    assert (message or "") in done.stderr


def test_vectors_are_selected_by_feature_and_section() -> None:
    def names(*arguments: str) -> set[str]:
        return {line.split()[0] for line in run_runner("--list", *arguments).stdout.splitlines()}

    def expect(wanted: Any) -> set[str]:
        return {vector["name"] for vector in VECTORS if wanted(vector, set(vector.get("features", ["core"])))}

    assert names() == expect(lambda *_: True)
    assert names("--feature", "sparse", "--feature", "core") == expect(lambda _, needs: needs & {"sparse", "core"})
    assert names("--section", "1") == expect(lambda vector, _: vector["section"].split(".")[0] == "1")
    assert names("--level", "0") == expect(lambda _, needs: needs <= {"core", "unicode-names"})
    assert names("--level", "1", "--section", "6") == expect(
        lambda vector, needs: needs <= {"core", "torch-zip", "unicode-names"} and vector["section"].startswith("6.")
    )
    assert names("--level", "3") > names("--level", "2") > names("--level", "1")
    assert names("--level", "0", "--feature", "limits") == expect(lambda _, needs: needs == {"limits"})
    assert names("--level", "1", "--feature", "limits", "--feature", "pickle-tree") == expect(
        lambda _, needs: needs & {"limits", "pickle-tree"} and needs <= {"limits", "pickle-tree", "torch-zip"}
    )
    assert names("--section", "6.5", "--feature", "sparse") == expect(
        lambda vector, needs: vector["section"] == "6.5" and "sparse" in needs
    )


def test_vectors_are_written_as_files(tmp_path: Path) -> None:
    """The same selection, names and bytes; files that exist remain."""
    folder = tmp_path / "written"
    words = ["--write", str(folder), "--section", "1.1", "--level", "1"]
    assert run_runner(*words).returncode == 0
    selected = [v for v in VECTORS if v["section"] == "1.1" and set(v.get("features", ())) <= {"torch-zip"}]
    expected = {name: data for vector in selected for name, data in list_files(vector).items()}
    written = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in written.items()} == expected
    assert {"valid/form-zip.zip", "valid/form-zip.expect.json", "valid/form-lone-pth.pth"} <= expected.keys()
    assert "invalid/data/form-bare-data-byte-order-mark.bin" in expected
    assert json.loads(expected["valid/form-zip.expect.json"]) == read_vector("form-zip")["expect"]
    written["valid/form-zip.expect.json"].write_bytes(b"mine")
    written["valid/form-bare-data.json"].unlink()
    done = run_runner(*words)
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert written["valid/form-zip.expect.json"].read_bytes() == b"mine"
    assert not written["valid/form-bare-data.json"].exists()


def test_the_second_file_of_a_comparison_is_written_too(tmp_path: Path) -> None:
    assert run_runner("--write", str(tmp_path), "--only", "equal-tensor-legacy").returncode == 0
    vector = read_vector("equal-tensor-legacy")
    found = {path.name: path.read_bytes() for path in (tmp_path / "valid").iterdir()}
    expected = {"equal-tensor-legacy.pth": "base64", "equal-tensor-legacy.other.pth": "other"}
    assert {name: base64.b64decode(vector[key]) for name, key in expected.items()}.items() <= found.items()
    with list_arguments(vector) as arguments:
        assert arguments[0] == "--equal"
        assert Path(arguments[1]).read_bytes() == found["equal-tensor-legacy.other.pth"]
    assert not Path(arguments[1]).exists()


def test_policies_and_vectors_of_encoders_are_written_as_files(tmp_path: Path) -> None:
    assert run_runner("--write", str(tmp_path), "--only", "policy-lone-no-a").returncode == 0
    assert run_runner("--write", str(tmp_path), "--only", "encode-name-dots").returncode == 0
    vector = read_vector("policy-lone-no-activation")
    refused = tmp_path / "invalid" / "unsupported"
    assert (refused / "policy-lone-no-activation.pth").read_bytes() == decode_file(vector)
    assert json.loads((refused / "policy-lone-no-activation.input.json").read_bytes()) == vector["input"]
    assert (tmp_path / "encode" / "encode-name-dots.json").read_bytes() == decode_file(read_vector("encode-name-dots"))


def test_the_file_of_predict_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    vector = read_vector("policy-lstm")
    with list_arguments(vector) as arguments:
        assert arguments[0] == "--predict"
        assert json.loads(Path(arguments[1]).read_bytes()) == vector["input"]
    assert list(tmp_path.iterdir()) == []


def test_the_features_are_listed() -> None:
    lines = run_runner("--list-features").stdout.splitlines()
    described = json.loads((HERE / "features.json").read_bytes())
    assert [line.split()[0] for line in lines] == list(described)
    count = sum("sparse" in vector.get("features", ()) for vector in VECTORS)
    assert f"sparse          {count:>6}  6.5     sparse tensors" in lines
    marked = {line.split()[0] for line in lines if line.endswith(" (one implementation only)")}
    assert marked == {name for name, row in described.items() if len(row[3]) < 2}


def list_samples() -> list[Vector]:
    """Two vectors of a decoder for each combination of features and of names of arguments, and of an outcome."""
    counts: Counter[str] = Counter()
    chosen = []
    for vector in VECTORS:
        words = [word for word in vector.get("arguments", ()) if word.startswith("--")]
        key = str((vector.get("features"), words, "outcome" in vector))
        counts[key] += 1
        if vector["kind"] != "encode" and counts[key] <= 2:
            chosen.append(vector)
    return chosen


@pytest.mark.parametrize("name", HARNESSES)
def test_a_decoder_has_the_features_that_are_declared_for_it(name: str) -> None:
    """It passes the vectors that need no others; of a feature that is not declared, it does not pass all."""
    implementation = {"decode.py": "python", "decode.js": "javascript"}[name]
    commands = Commands(open_command(shlex.split(harness(name)), 60, batch="auto"), None)
    results = [(vector, judge(vector, commands).state) for vector in list_samples()]
    commands.close()
    has = [(vector, state) for vector, state in results if implementation in list_implementations(vector)]
    assert [(vector["name"], state) for vector, state in has if state != "passed"] == []
    lacking = {*list_lacking(implementation)} - {"canonical"}
    missed = {feature for vector, state in results for feature in list_features(vector) if state != "passed"}
    assert lacking <= missed
    assert {feature for vector, _ in has for feature in list_features(vector)} == read_features().keys() - {
        "canonical",
        *lacking,
    }


def test_the_runner_needs_no_folder_of_the_harness(tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns("harness", "generators", "__pycache__")
    shutil.copytree(HERE, tmp_path / "conformance", ignore=left_out)
    decoder = shlex.join([sys.executable, str(HERE / "harness" / "python" / "decode.py")])
    words = [
        sys.executable,
        str(tmp_path / "conformance" / "run.py"),
        "--decoder",
        decoder,
        "--section",
        "12",
        "--every",
        "9",
    ]
    done = subprocess.run(words, check=False, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert " for an encoder, and there is none" in done.stdout


def test_a_feature_of_an_encoder_is_declared_for_folders_with_an_encoder() -> None:
    encoders = {path.parent.name for path in HERE.glob("harness/*/encode.*")}
    assert set(read_features()["canonical"].implementations) == encoders


def test_a_run_counts_the_vectors_with_one_implementation(tmp_path: Path) -> None:
    report = run_runner("--decoder", refuse_all(tmp_path), "--section", "14", "--section", "4.3").stdout
    chosen = [vector for vector in VECTORS if vector["section"].split(".")[0] == "14" or vector["section"] == "4.3"]
    count = sum("scan" in vector["features"] for vector in chosen)
    assert 0 < count < len(chosen)
    assert f"\none implementation only: {count}, " in report


def test_an_implementation_is_not_run_on_what_it_lacks(tmp_path: Path) -> None:
    report = run_json("--decoder", refuse_all(tmp_path), "--implementation", "javascript", "--section", "16")
    lacking = {*list_lacking("javascript")}
    for result in report["results"]:
        assert (result.get("skipped_for") == "feature") == bool(lacking & {*result["features"]})


def test_junit_and_json_have_every_state(tmp_path: Path) -> None:
    """Every state of a result, and characters that XML does not permit."""
    program = """
        if 'file-text' in name: sys.stderr.write('\\x1b[31mred \\ufffe\\n'); sys.exit(3)
        if 'file-empty' in name: print('{"code": 2}', flush=True); continue
        if 'file-pickle' in name: print('{"code": 1, "answer": {"outcome": "missing"}}', flush=True); continue
"""
    junit = tmp_path / "results.xml"
    names = [vector["name"] for vector in VECTORS if "file-" in vector["name"]]
    report, _ = run_counting(tmp_path, program.strip(), "--junit", str(junit))
    states = {result["name"]: result["state"] for result in report["results"]}
    assert list(states) == names
    root = ET.parse(junit).getroot()  # noqa: S314 -- the runner wrote it
    assert root.tag == "testsuites"
    tags: dict[str, str] = {}
    for suite in root:
        assert suite.tag == "testsuite"
        cases = list(suite)
        assert {case.tag for case in cases} == {"testcase"}
        counts = Counter(child.tag for case in cases for child in case)
        wanted = (len(cases), counts["failure"], counts["error"], counts["skipped"])
        assert tuple(int(suite.get(key, "")) for key in ("tests", "failures", "errors", "skipped")) == wanted
        for case in cases:
            assert case.get("classname", "").startswith(suite.get("name", "").replace("section-", ""))
            assert float(case.get("time", "")) >= 0
            tags[case.get("name", "")] = next((child.tag for child in case), "passed")
            assert all(child.get("message") for child in case)
    assert {name: {"failure": "fail", "error": "crash"}.get(tag, tag) for name, tag in tags.items()} == states
    for key, count in (("tests", len(names)), ("failures", list(states.values()).count("fail"))):
        assert int(root.get(key, "")) == count


def test_an_expected_failure_is_skipped_in_junit(tmp_path: Path) -> None:
    junit = tmp_path / "results.xml"
    report = run_json(
        "--decoder", refuse_all(tmp_path), "--only", "form-zip", "--xfail", "form-zip", "--junit", str(junit)
    )
    assert {result["name"]: result["state"] for result in report["results"]}["form-zip"] == "xfail"
    root = ET.parse(junit).getroot()  # noqa: S314 -- the runner wrote it
    case = next(case for case in root.iter("testcase") if case.get("name") == "form-zip")
    assert case[0].tag == "skipped"
    assert case[0].get("message", "").startswith("expected to fail: refused: ")
