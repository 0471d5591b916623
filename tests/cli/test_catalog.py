"""``sbformat catalog``: the command line, its reports, and what it refuses."""

from __future__ import annotations

import io
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from sbformat import parallel
from sbformat.cli import catalog, main
from tests.catalogue.test_files import make_row, write
from tests.helpers.bundled import ARCHIVES, PPO, SAC
from tests.helpers.many_archives import write_archives
from tests.helpers.reports import REPORT, parse_reports, unfold

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Capture = pytest.CaptureFixture[str]
STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    status = main(["catalog", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_catalogue_is_written_and_searched(tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "runs.csv"
    status, out, err = run(capsys, PPO, SAC, "-o", output)
    assert (status, err) == (0, "")
    assert out.startswith(f"{output}: 2 rows, ")
    status, out, err = run(capsys, output, "--where", "algorithm = 'SAC'", "--columns", "algorithm,gamma")
    assert (status, err) == (0, "")
    assert out.splitlines() == [f"  1 row of {output}", "    algorithm  gamma", "    SAC         0.99"]
    _, out, _ = run(capsys, output, "--sort", "algorithm", "--reverse", "--format", "csv", "--columns", "algorithm")
    assert out == "algorithm\nSAC\nPPO\n"
    _, out, _ = run(capsys, output, "--rows", 1, "--format", "json", "--columns", "algorithm,tau")
    assert parse_reports(out)[0]["rows"] == [{"algorithm": "PPO", "tau": None}]


def test_the_report_is_json_by_the_schema(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "broken.zip").write_bytes(b"no zip")
    output = tmp_path / "out.jsonl"
    status, out, _ = run(capsys, PPO, tmp_path / "broken.zip", "-o", output, "--format", "json")
    (report,) = parse_reports(out)
    assert status == 1
    assert (report["rows"], report["read"], report["failed"]) == (2, 2, 1)
    assert report["failures"][0]["path"] == str(tmp_path / "broken.zip")
    assert report["nbytes"] == output.stat().st_size
    status, out, _ = run(capsys, PPO, "-o", output)
    assert (status, "(0 read, 1 known from before)" in out) == (0, True)


def test_broken_files_are_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "broken.zip").write_bytes(b"no zip")
    status, out, _ = run(capsys, tmp_path / "broken.zip", "-o", tmp_path / "out.csv", "--quiet")
    assert status == 1
    assert out.startswith(f"  container failure: {tmp_path}/broken.zip: ")


def test_sources_come_from_a_list(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in ("utf-8-sig", "utf-16"):  # of Windows PowerShell, the latter
        (tmp_path / "list.txt").write_text(f"{PPO}\n\n{SAC}\r\n", encoding)
        assert run(capsys, "--list", tmp_path / "list.txt", "-o", tmp_path / f"{encoding}.csv")[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\ufeff{SAC}\n"))
    run(capsys, PPO, "--list", "-", "-o", tmp_path / "other.csv")
    for name in ("utf-8-sig", "utf-16"):
        assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


@pytest.mark.parametrize("jobs", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_rows_are_the_same_whatever_the_jobs(
    tmp_path: Path, capsys: Capture, shared_processes: list[int], jobs: int
) -> None:
    write_archives(tmp_path / "runs", 5)
    for number in range(30):  # with fewer files than 32 there are no processes
        (tmp_path / "runs" / f"statistics_{number:05}.pkl").write_bytes(STATISTICS.read_bytes())
    (tmp_path / "runs" / "agent_00003.zip").write_bytes(b"no zip")
    run(capsys, tmp_path / "runs", "-o", tmp_path / "one.csv", "--jobs", 1)
    run(capsys, tmp_path / "runs", "-o", tmp_path / "out.csv", "--jobs", jobs)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert shared_processes == [1, jobs]


def test_a_lost_file_is_a_row(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_order(work: Any, items: Iterable[Any], *, lost: Any, processes: int) -> Iterable[Any]:
        assert processes == 1
        for number, item in enumerate(items):
            yield lost(item) if number == 0 else work(item)

    monkeypatch.setattr(parallel, "map_in_order", in_order)
    status, out, _ = run(capsys, PPO, SAC, "-o", tmp_path / "out.csv")
    assert (status, "process ended: " in out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected -o OUT to write a table, or one table to print rows of"),
        (["a.zip", "b.zip"], "expected -o OUT to write a table"),
        (["-o", "out.csv"], "expected sources: files, folders, globs, URLs, or --list FILE"),
        (["-", "-o", "out.csv"], "expected paths and URLs as sources"),
        (["a.zip", "-o", "-"], "and a file as OUT, got '-'"),
        (["a.zip", "-o", "out.csv", "--where", "1"], "--where: expected it with a table that exists"),
        (["runs.csv", "--fresh"], "--fresh: expected it with -o OUT"),
        (["a.zip", "-o", "out.csv", "--format", "csv"], "name a file that ends with .csv"),
        (["a.zip", "-o", "out.csv", "--format", "latex"], "--format latex prints rows of a table"),
        (
            ["a.zip", "-o", "out.csv", "--group-by", "env"],
            "first: sbformat catalog a.zip -o out.csv; then: sbformat catalog out.csv --group-by env",
        ),
        (
            ["my runs", "-o", "t.tex", "--where", "n < 1", "--group-by", "env", "--reverse"],
            "'my runs' -o runs.csv; then: sbformat catalog runs.csv --where 'n < 1' --group-by env --reverse -o t.tex",
        ),
        (["runs"], "expected a table to print rows of, got runs hint: first: sbformat catalog runs -o runs.csv"),
        (["runs", "--where", "1"], "hint: first: sbformat catalog runs -o runs.csv"),
        (["runs.csv", "-o", "out.csv"], "expected archives as sources of a table, got the table runs.csv"),
        (["runs.csv", "--where", "1", "-o", "out.sqlite"], "-o out.sqlite: expected .json, .csv, .md, .tex, .txt"),
        (["runs.csv", "-o", "out.md", "--fresh"], "--fresh: expected it with -o OUT, which writes a table"),
        (["a.zip", "-o", "out.csv", "--allow", "os.system"], "argument --allow: os.system cannot be allowed"),
        (["runs.csv", "--rows", "0"], "expected a number from 1, got 0"),
        (["a.zip", "-o", "out.csv", "--jobs", "2", "--dask", "local"], "not allowed with argument"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["catalog", *arguments])
    assert raised.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out.xlsx", "expected a file that ends with .parquet, .csv, .jsonl or .sqlite"),
        ("none/out.csv", "there is no folder"),
        ("out.csv", "is not a catalogue that sbformat wrote; --force replaces it"),
    ],
)
def test_an_output_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: Capture, name: str, message: str) -> None:
    (tmp_path / "out.csv").write_text("a,b\n")
    status, out, err = run(capsys, PPO, "-o", tmp_path / name)
    assert (status, out, unfold(err).count("\n")) == (2, "", 1)
    assert message in unfold(err)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_file_for_rows_of_archives_has_a_hint(tmp_path: Path, capsys: Capture) -> None:
    status, _, err = run(capsys, PPO, "-o", tmp_path / "t.tex")
    assert (status, f"then: sbformat catalog runs.csv -o {tmp_path / 't.tex'}" in unfold(err)) == (2, True)
    assert f"first: sbformat catalog {PPO} -o runs.csv; " in unfold(err)
    assert not any(tmp_path.iterdir())


def test_no_sources_are_an_error(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "list").write_text("\n")
    status, _, err = run(capsys, "--list", tmp_path / "list", "-o", tmp_path / "out.csv")
    assert (status, "there are no sources" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--where", "algoritm = 1"], "there is no column 'algoritm'; did you mean 'algorithm'?"),
        (["--columns", "gama"], "there is no column 'gama'; did you mean 'gamma'?"),
        (["--group-by", "env,gama"], "there is no column 'gama'; did you mean 'gamma'?"),
        (["--sort", "reward"], "there is no column 'reward'; did you mean 'mean_reward'"),
        (["--where", "reward > 3"], "'mean_reward'? texts are in single quotes"),
        (["--where", "env = CartPole-v1"], "no column 'CartPole'; texts are in single quotes: 'CartPole-v1'\n"),
        (["--where", "env IN (`Cart Pole`)"], "no column 'Cart Pole'; texts are in single quotes: 'Cart Pole'\n"),
        (["--where", "gamma < 1 && n_steps > 1"], '"&": syntax error; in SQL, AND combines conditions, not &&\n'),
        (["--where", "gamma <"], "the condition is not SQL that SQLite accepts"),
    ],
)
@pytest.mark.parametrize("words", ["text", "csv", "json"])
def test_a_wrong_condition_is_one_error(
    tmp_path: Path, capsys: Capture, options: list[str], message: str, words: str
) -> None:
    run(capsys, PPO, "-o", tmp_path / "out.sqlite")
    status, out, err = run(capsys, tmp_path / "out.sqlite", *options, "--format", words)
    assert (status, unfold(err).count("\n"), message in unfold(err)) == (2, 1, True)
    if words == "json":
        REPORT.validate(json.loads(out))
    else:
        assert out == ""


def test_rows_and_groups_are_tables_of_a_paper(tmp_path: Path, capsys: Capture) -> None:
    rows = [
        make_row("a|b.zip", env="CartPole-v1", algorithm="PPO", mean_reward=500.0, timesteps=1_000_000, gamma=0.25),
        make_row("b.zip", env="CartPole-v1", algorithm="PPO", mean_reward=475.38, timesteps=1_000_000, gamma="auto"),
        make_row("c.zip", env="CartPole-v1", algorithm="PPO", timesteps=1_000_000, gamma=1e-5),
        make_row("d.zip", env="A_b", algorithm="SAC", mean_reward=-1234.5678, outcome="data failure"),
    ]
    path = tmp_path / "runs.jsonl"
    write(path, rows)
    groups = ("--group-by", "env,algorithm", "--sort", "mean_reward", "--reverse")
    status, out, err = run(capsys, path, *groups)
    hint = "without: --where \"outcome = 'ok'\""
    assert (status, err) == (0, f"sbformat: the groups have 1 file that could not be read whole; {hint}\n")
    assert out.splitlines() == [
        f"  2 groups of {path}",
        "    env          algorithm  n         mean_reward    timesteps",
        "    CartPole-v1  PPO        3  487.7 \u00b1 17.4 (n=2)  1000000 \u00b1 0",
        "    A_b          SAC        1            -1234.57",
    ]
    _, out, _ = run(capsys, path, *groups, "--format", "latex", "--rows", 1)
    assert r"CartPole-v1 & PPO & 3 & $487.7 \pm 17.4$ (n=2) & $1000000 \pm 0$ \\" in out.splitlines()
    _, out, _ = run(capsys, path, *groups, "--format", "csv", "--columns", "mean_reward,gamma", "--quiet")
    assert out.splitlines()[::2] == [
        "env,algorithm,n,mean_reward_mean,mean_reward_std,mean_reward_n,gamma", "A_b,SAC,1,-1234.5678,,1,",
    ]  # fmt: skip
    _, out, _ = run(capsys, path, *groups, "--format", "json", "--columns", "gamma")
    assert parse_reports(out)[0]["rows"][0] == {"env": "CartPole-v1", "algorithm": "PPO", "n": 3, "gamma": "3 values"}
    _, out, _ = run(capsys, path, "--columns", "source,mean_reward,gamma", "--format", "markdown", "--rows", 2)
    assert out.splitlines() == [
        "| source   | mean_reward | gamma |",
        "| -------- | ----------: | ----- |",
        "| a\\|b.zip |         500 | 0.25  |",
        "| b.zip    |      475.38 | auto  |",
    ]


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ([], "t.tex"),
        ([], "t.md"),
        ([], "t.json"),
        ([], "t.txt"),
        (["--where", "gamma < 1"], "t.csv"),
        (["--group-by", "algorithm"], "t"),
        (["--format", "latex"], "t"),
    ],
)
def test_rows_go_into_a_file(tmp_path: Path, capsys: Capture, options: list[str], output: str) -> None:
    table = tmp_path / "runs.sqlite"
    run(capsys, PPO, SAC, "-o", table)
    formats = {".tex": "latex", ".md": "markdown", ".json": "json", ".csv": "csv"}
    shown = options if "--format" in options else [*options, "--format", formats.get(output[1:], "text")]
    printed = run(capsys, table, *shown)[1]
    assert run(capsys, table, *options, "-o", tmp_path / output) == (0, f"{tmp_path / output}: written\n", "")
    assert (tmp_path / output).read_text("utf-8") == printed != ""
    assert run(capsys, table, *options, "-o", tmp_path / output)[0] == 2
    assert run(capsys, table, *options, "-o", tmp_path / output, "--force", "--quiet") == (0, "", "")


def test_a_file_for_rows_is_not_the_table_and_stays_after_an_error(tmp_path: Path, capsys: Capture) -> None:
    table, rows = tmp_path / "runs.csv", tmp_path / "rows.csv"
    run(capsys, PPO, "-o", table)
    before = table.read_bytes()
    status, _, err = run(capsys, table, "--columns", "source", "-o", table, "--force")
    assert (status, "the output and the input are the same file" in err, table.read_bytes()) == (2, True, before)
    rows.write_text("mine")
    assert run(capsys, table, "--where", "gama < 1", "-o", rows, "--force")[0] == 2
    assert rows.read_text() == "mine"


def test_numbers_that_are_not_finite_are_on_the_right_with_the_others(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "runs.sqlite"
    numbers = (math.nan, -math.inf, 1e-7)
    write(path, [make_row("NaN", mean_reward=number, policy_class="Infinity") for number in numbers])
    options = ("--columns", "source,mean_reward,policy_class", "--where", "1", "--format")
    assert [line.split() for line in run(capsys, path, *options, "text")[1].splitlines()[2:]] == [
        ["NaN", "NaN", "Infinity"], ["NaN", "-inf", "Infinity"], ["NaN", "1e-07", "Infinity"],
    ]  # fmt: skip
    cells = [line.split(" & ")[1] for line in run(capsys, path, *options, "latex")[1].splitlines() if line[:3] == "NaN"]
    assert cells == [r"$\mathrm{NaN}$", r"$-\infty$", r"$1 \times 10^{-7}$"]


def test_several_files_of_one_run_in_a_group_are_said(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "runs.sqlite"
    logs = {
        "a/best_model.zip": "e.npz, 0.csv",
        "a/x/1.zip": "../e.npz",
        "a\\2.zip": "e.npz",
        "b/best_model.zip": "e.npz",
    }
    write(path, [make_row(name, env="x", logs=names) for name, names in logs.items()])
    _, _, err = run(capsys, path, "--group-by", "env")
    assert err.startswith("sbformat: 2 files belong to runs of other files in the groups (checkpoints): n counts")
    assert run(capsys, path, "--group-by", "env", "--where", "source LIKE '%best_model.zip'")[2] == ""


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.0003, 0.0, "0.0003 \u00b1 0"),
        (0.0003, 0.000123456, "0.000300 \u00b1 0.000123"),
        (487.8333, 11.77214, "487.8 \u00b1 11.8"),
        (-1050.4, 150.24, "-1050 \u00b1 150"),
        (52345.6, 12345.6, "52346 \u00b1 12346"),
        (1.0, 1e-12, "1 \u00b1 1e-12"),
        (2.5e12, 1e9, "2.5e+12 \u00b1 1e+09"),
        (math.nan, math.nan, "nan \u00b1 nan"),
        (0.0, math.inf, "0 \u00b1 inf"),
        (1 / 3, None, "0.333333"),
    ],
)
def test_a_deviation_has_three_digits_and_its_mean_as_many_decimals(
    mean: float, deviation: float | None, text: str
) -> None:
    assert catalog._render_measure({"x_mean": mean, "x_std": deviation, "x_n": 2, "n": 2}, "x") == text


def test_a_table_of_a_paper_that_is_too_long_says_so(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_MOST", 2)
    monkeypatch.setattr(catalog.opt, "shows_whole", lambda: False)
    write(tmp_path / "runs.csv", [make_row(f"{number}.zip") for number in range(3)])
    _, out, err = run(capsys, tmp_path / "runs.csv", "--format", "markdown", "--columns", "source")
    assert (out.count(".zip"), err) == (2, "sbformat: only the first 2 rows are printed; --format csv prints all\n")


def test_text_of_a_file_is_escaped(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a\x1b[31m.zip").write_bytes(PPO.read_bytes())
    run(capsys, tmp_path, "-o", tmp_path / "out.csv")
    _, out, _ = run(capsys, tmp_path / "out.csv", "--columns", "source")
    assert "\\x1b[31m.zip" in out
    assert "\x1b" not in out


def test_the_archives_of_the_repository_fit_one_table(tmp_path: Path, capsys: Capture) -> None:
    assert run(capsys, ARCHIVES, "-o", tmp_path / "out.csv")[0] == 0
    _, out, _ = run(capsys, tmp_path / "out.csv", "--columns", "format", "--format", "csv")
    assert sorted(out.split()[1:]) == ["policy-file", "replay-buffer", *["sb3"] * 4, "vecnormalize"]
