"""The benchmarks hold together; nothing is timed here."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sbformat
from sbformat.pkl import Call, Global
from tests.helpers.bundled import PPO, ROOT, SAC
from tests.helpers.old_archives import OLD, blob, with_keys

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.append(str(ROOT))  # benchmarks is run from the root, not installed

from benchmarks import (
    agents,
    command,
    files,
    growth,
    history,
    hot_paths,
    instructions,
    lazy_unpickler,
    measures,
    page,
    policies,
    predictors,
    processes,
    rebuilding,
    report,
    results,
    rivals,
    size,
)
from benchmarks.tasks import PREDICTIONS, TASKS, prepare_task
from benchmarks.worker import digest


def test_every_measure_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == list(measures.MEASURES)
    assert len(set(names)) == len(names)


def test_a_measure_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "cold-two"])
    assert "unknown measurement 'cold-two'" in capsys.readouterr().err


@pytest.mark.parametrize(("archive", "entry"), [(PPO, "policy"), (PPO, "policy.optimizer"), (SAC, "policy")])
def test_the_lazy_unpickler_reads_what_we_read(archive: Path, entry: str) -> None:
    theirs = lazy_unpickler.load(rivals.entry_bytes(str(archive), entry))
    assert digest(theirs) == digest(sbformat.read(archive).parameters[entry].to_numpy())


def test_digests_tell_arrays_apart() -> None:
    one = np.arange(4, dtype=np.float32)
    different = [{"a": one}, {"b": one}, {"a": one + 1}, {"a": one.reshape(2, 2)}, {"a": one.view(np.int32)}]
    assert len({digest(value) for value in different}) == len(different)
    assert digest({"a": one, "b": [one]}) == digest({"b": [one], "a": one})


def test_files_of_many_tensors_can_be_made(tmp_path: Path) -> None:
    files.tensors(str(tmp_path / "many.zip"), 10_000)
    with sbformat.safe_open(tmp_path / "many.zip", limits=files.WIDE) as file:
        assert len(file.keys()) >= 10_000


@pytest.mark.parametrize("kind", files.MAKERS)
def test_files_that_are_made_are_archives(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "made.zip"
    files.MAKERS[kind](str(path), 1)
    archive = sbformat.read(path)
    assert archive.parameters["policy"].to_numpy()
    assert archive.hyperparameters()["gamma"].value == 0.99
    if kind == "policy":
        with sbformat.safe_open(path) as file:
            assert file.get_tensor(files.SMALL).nbytes == files.MIB


def test_the_ideal_holds_the_same_arrays(tmp_path: Path) -> None:
    files.ideals(str(tmp_path / "ideals"), [str(PPO)])
    theirs = rivals.with_safetensors(str(tmp_path / "ideals" / "0.safetensors"), "policy")
    assert digest(theirs) == digest(rivals.with_sbformat(str(PPO), "policy"))


@pytest.mark.parametrize(
    "task", ["policy", "optimizer", "scan", "validate", "rebuild", "data", "entries", "read-wide", "scan-wide"]
)
@pytest.mark.parametrize("is_held", [True, False], ids=["bytes", "path"])
def test_our_tasks_do_something(task: str, is_held: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    assert task in TASKS
    assert prepare_task(rivals.US, task, str(PPO), is_held=is_held)() is not None


@pytest.mark.parametrize("is_held", [True, False], ids=["bytes", "path"])
def test_rivals_read_the_json_of_data(is_held: bool) -> None:  # noqa: FBT001
    found = prepare_task("json.loads", "data", str(PPO), is_held=is_held)()
    assert isinstance(found, dict)
    assert list(found) == list(sbformat.read(PPO).data)


def test_what_is_written_for_the_measure_is_the_archive(tmp_path: Path) -> None:
    output = tmp_path / "written.zip"
    prepare_task(rivals.US, "write", str(PPO), is_held=False, output=str(output))()
    written, original = sbformat.read(output), sbformat.read(PPO)
    assert digest(written.parameters["policy"].to_numpy()) == digest(original.parameters["policy"].to_numpy())


@pytest.mark.parametrize("name", hot_paths.PATHS)
def test_hot_paths_are_there(name: str) -> None:
    assert hot_paths.PATHS[name](PPO.read_bytes())() is not None


# -- policies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [task for task, (_, count) in PREDICTIONS.items() if count == 1])
def test_predictors_of_one_observation_agree(task: str, tmp_path: Path) -> None:
    path = tmp_path / "agent-PPO.zip"
    shutil.copyfile(PPO, path)
    ours, bare = (prepare_task(name, task, str(path), is_held=False)() for name in (rivals.US, predictors.BARE))
    assert int(ours) == int(bare)


def test_a_batch_is_predicted(tmp_path: Path) -> None:
    path = tmp_path / "agent-PPO.zip"
    shutil.copyfile(PPO, path)
    assert prepare_task(rivals.US, "predict-batch", str(path), is_held=False)().shape == (4096,)


@pytest.mark.interop
@pytest.mark.parametrize("name", agents.AGENTS)
def test_predictors_agree(name: str, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    path = tmp_path / f"agent-{name}.zip"
    agents.make_agent(name, str(path))
    task = "predict-image" if name == policies.IMAGE else "predict-one"
    for other in (predictors.SB3, predictors.TORCH, predictors.BARE, predictors.WHOLE):
        if name in predictors.PREDICTORS[other].agents:
            ours, theirs = (prepare_task(one, task, str(path), is_held=False)() for one in (rivals.US, other))
            np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), rtol=1e-5, atol=1e-6)


# -- processes ----------------------------------------------------------------------------------------


def test_a_process_is_told_about(tmp_path: Path) -> None:
    env = processes.environment(str(tmp_path))
    ran = processes.run([sys.executable, "-S", "-c", "print(1); raise SystemExit(3)"], env, accepted=(3,))
    assert (ran.exit_code, ran.output) == (3, b"1\n")
    assert ran.seconds > 0
    assert ran.peak > 0


def list_environment(cache: Path) -> dict[str, str]:
    """The environment of the processes, with the bytecode that is there."""
    found = processes.environment(str(cache))
    assert found.pop("PYTHONPYCACHEPREFIX") == str(cache)
    return found


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(processes.Failed, match="exit code 1: ValueError: no"):
        processes.run([sys.executable, "-S", "-c", "raise ValueError('no')"], list_environment(tmp_path))
    with pytest.raises(processes.Failed, match="not-there"):
        processes.run([str(tmp_path / "not-there")], list_environment(tmp_path))


def test_a_worker_answers_and_says_why_it_cannot(tmp_path: Path) -> None:
    worker = processes.Worker(rivals.US, list_environment(tmp_path))
    try:
        assert worker.ask("policy", str(PPO), is_digest=True) == {
            "digest": digest(rivals.with_sbformat(str(PPO), "policy"))
        }
        with pytest.raises(processes.Failed, match="FileNotFoundError"):
            worker.ask("policy", str(tmp_path / "none.zip"), calls=1)
    finally:
        worker.close()


# -- results ------------------------------------------------------------------------------------------


def lines() -> list[results.Line]:
    samples = {"us": {"1": 1.0, "2": 2.0}, "slow": {"1": 4.0, "2": 4.0}, "quick": {"1": 1.0, "2": 1.0}}
    goals = {"slow": 0.5, results.FASTEST: 0.9, "absent": 1.0}
    made = results.compare(
        "m", samples, us="us", goals=goals, rivals=("slow", "quick"), missing={"absent": "not installed"}
    )
    return [*made, results.Line("m", "peak RSS", "B", 2e6, limit=3e6)]


def test_goals_are_judged_by_the_median_ratio() -> None:
    slow, quick, absent, peak = lines()
    assert slow.ratio == results.Spread(0.375, 0.3125, 0.4375)
    assert (slow.is_met, quick.is_met, absent.is_met, peak.is_met) == (True, False, None, True)
    assert "the fastest rival" in quick.note


def test_pairs_that_only_one_has_do_not_count() -> None:
    [line] = results.compare("m", {"us": {"1": 1.0, "2": 9.0}, "them": {"1": 2.0}}, us="us")
    assert line.ratio == results.Spread(0.5, 0.5, 0.5)
    assert line.note == "1 of 2 pairs"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(1.5, "s", "1.50 s"), (0.0123, "s", "12.3 ms"), (1e-4, "s", "100 us"), (9.997e-4, "s", "1.00 ms"),
     (5e6, "B", "5.0 MB"), (None, "s", "-"),
     (1234.6, "instructions", "1,235"), (1.06, "", "1.06")],
)  # fmt: skip
def test_quantities_have_three_digits(value: float | None, unit: str, shown: str) -> None:
    assert report.quantity(value, unit) == shown


def test_a_result_is_shown_in_three_ways() -> None:
    found = lines()
    about = report.environment({"torch": "1"}, 3)
    curves = [growth.Curve("tensors", "tensors", ((10, 0.1), (20, 0.2)))]
    text, markdown = report.text(found), report.markdown(found, about)
    for word in ("slow", "0.375 (0.312..0.438)", "met", "missed", "not measured", "not installed", "\u2264 0.50 x"):
        assert word in text
        assert word in markdown
    assert "2 of 4 goals met, 1 not measured; missed: m (time, quick)" in markdown
    read = json.loads(report.document(found, curves, about))
    assert [line.get("met") for line in read["lines"]] == [True, False, None, True]
    assert read["growth"][0]["points"] == [[10, 0.1], [20, 0.2]]


def test_results_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(report.document(lines(), [], report.environment({"torch": "1"}, 3)), "utf-8")
    assert page.read_results(path)[0] == lines()
    assert page.read_results(tmp_path / "none.json") == ([], {})
    other = results.Line("other", "time", "s", 1.0)
    assert page.merge([other, *lines()], [lines()[0]]) == [other, lines()[0]]


def test_every_row_of_the_page_is_of_a_measurement() -> None:
    assert {row.measure for row in page.ROWS} <= {*measures.MEASURES}
    assert page.MISSED.keys() <= {*measures.MEASURES}


def test_a_page_has_what_was_measured() -> None:
    row, second = page.ROWS[:2]
    made = [
        results.Line("warm-policy", "time", "s", 2e-3, row.rival, 4e-3, results.Spread(0.5, 0.4, 0.6), 0.4,
                     their_peak=9_000_000, note="12 archives"),
        results.Line("warm-policy", "time", "s", 2e-3, second.rival, 1e-3, results.Spread(2.0, 1.9, 2.1)),
    ]  # fmt: skip
    text = page.render_page(made, report.environment({"torch": "1.2"}, 3))
    assert f"| {row.title} | 2.00 ms | {row.beside} | 4.00 ms, 9 MB | 0.50 |\n| | | {second.beside} | 1.00 ms |" in text
    assert "12 real archives that all of them read, and torch 1.2:" in " ".join(text.split())
    assert "- warm-policy, time, beside torch: 0.5 times, the goal is 0.4 times." in text
    quote = page.Quote("a.md", r"takes ([\d.]+ ms) or ([\d.]+) times", ((row.title, 3, 0), (row.title, 4, 0)))
    assert page.replace_quotes("It takes 9\nms or 8.5 times.", quote, text) == "It takes 4.00 ms or 0.50 times."


def test_a_column_of_the_history_is_added_or_replaced() -> None:
    first = results.Line("m", "scan", "instructions", 2_000_000, "abc", 4_000_000)
    new = results.Line("m", "read", "instructions", 25_000)
    begin = "# Counts\n\n| path | ratio |\n| --- | ---: |\n\nEnd.\n"
    page_ = begin
    for title, counts in history.make_columns([first, new], "now", "abc").items():
        page_ = history.add_column(page_, title, counts, "3.11")
    assert page_.splitlines()[2:7] == [
        "| path | commit abc | now | ratio |",
        "| --- | ---: | ---: | ---: |",
        "| CPython, numpy, jsonschema | 3.11 | 3.11 | |",
        "| scan | 4,000 | 2,000 | 0.50 |",
        "| read | | 25.0 | |",
    ]
    again = history.add_column(page_, "now", {"scan": 1_000_000, "read": 25_000}, "3.11")
    assert again == page_.replace("| 2,000 | 0.50 |", "| 1,000 | 0.25 |")
    assert again.endswith("\n\nEnd.\n")


def test_what_is_counted_exists() -> None:
    assert len({row.name for row in instructions.ROWS}) == len(instructions.ROWS)
    assert {row.path for row in instructions.ROWS} - {""} == {*hot_paths.PATHS}
    for archive, count in instructions.RECORDS.items():
        with zipfile.ZipFile(archive) as outer, zipfile.ZipFile(outer.open("policy.pth")) as inner:
            assert len(inner.namelist()) == count


@pytest.mark.parametrize(("cost", "power"), [(lambda n: n, 1), (lambda n: n * n, 2), (lambda n: n + 100, 0.9)])
def test_exponents_are_those_of_the_upper_half(cost: Callable[[int], float], power: float) -> None:
    assert growth.exponent([(2**k, float(cost(2**k))) for k in range(14)]) == pytest.approx(power, abs=0.1)


def test_the_readme_names_what_there_is() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for reader in rivals.READERS.values():
        assert reader.name in text
    options = {word for action in command.parser()._actions for word in action.option_strings}
    for name in ("quick", "only", "list", "keep", "output", "instructions", "against", "page", "history"):
        word = f"--{name}"
        assert word in options
        assert word in text


# -- what rebuild keeps -------------------------------------------------------------------------------


def test_each_line_of_a_module_is_counted_once() -> None:
    source = '"""A module\n\nof three lines."""\n\nx = 1  # a remark\n"""About x."""\n# why\ny = """text\n"""\n'
    assert dict(size.count(source)) == {
        "modules": 1, "lines": 9, "docstrings": 4, "blank": 1, "code": 3, "comments": 1,
    }  # fmt: skip
    counted = size.count_folders([(PurePosixPath("a/b.py"), source), (PurePosixPath("a/c/d.py"), "z = 1\n")])
    assert [(name, one["modules"], one["code"]) for name, one in counted.items()] == [
        ("a", 1, 3), ("a/c", 1, 1), ("total", 2, 4),
    ]  # fmt: skip


def test_hyperparameters_of_rebuilt_agents_are_counted(tmp_path: Path) -> None:
    harmful = Call("REDUCE", Global("os", "system"), ("true",))
    sbformat.write(with_keys(learning_rate=blob(harmful), gamma="text"), tmp_path / "b.zip")
    (tmp_path / "sub").mkdir()
    shutil.copy(OLD, tmp_path / "sub" / "a.zip")
    sbformat.write(with_keys(observation_space=blob(harmful)), tmp_path / "c.zip")
    (tmp_path / "broken.zip").write_bytes(b"PK")
    (tmp_path / "notes.txt").write_text("not an agent")
    counts = rebuilding.count_agents(rebuilding.find_agents([tmp_path]))
    assert counts.files == {"whole": 1, "with findings": 1, "refused": 1, "not read": 1}
    expected = sum(len(sbformat.rebuild(path).report.hyperparameters) for path in (OLD, tmp_path / "b.zip"))
    assert sum(counts.values.values()) == expected
    assert counts.values["dropped"] == 2
    assert {key for key, _ in counts.dropped} == {"learning_rate", "gamma"}
    lines = "\n".join(rebuilding.describe_counts(counts))
    assert f"{expected} hyper-parameters that training uses: " in lines
    assert str(tmp_path / "b.zip") in lines


def test_reasons_are_without_what_differs_between_files() -> None:
    first = "function f (a.py:1): custom code carried by value, without a name to allow; its last value was 1"
    second = "function g (b.py:2), with {a: 1}: custom code carried by value, without a name to allow; --set x=1"
    assert rebuilding.simplify_reason(first) == rebuilding.simplify_reason(second)
    assert rebuilding.simplify_reason("expected 1, got 'x'") != rebuilding.simplify_reason("expected 2, got 'x'")
