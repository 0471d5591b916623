"""A catalogue is brought up to date: what has not changed is not read, and a run that was killed is resumed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sbformat.catalogue.update
from sbformat.catalogue.table_files import SUFFIXES, find_columns, find_format, read_table
from sbformat.catalogue.update import Spool, update_catalog
from sbformat.errors import UnsupportedError, escape
from sbformat.parallel import map_in_order
from tests.helpers.bundled import ARCHIVES, ROOT
from tests.helpers.many_archives import refuse_listing, write_archives, write_statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sbformat.catalogue.update import CatalogReport


def map_rows(work: Any, sources: Iterable[Any], lost: Any, _: int) -> Iterator[Any]:
    return map_in_order(work, sources, lost=lost)


update = partial(update_catalog, map_rows=map_rows)


def run(folder: Path, output: Path, **options: Any) -> CatalogReport:
    if output.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    report = update([str(folder)], str(output), **options)
    assert report is not None
    return report


def read(output: Path) -> list[dict[str, Any]]:
    return list(read_table(str(output)))


def spoil(path: Path) -> None:
    """Change the contents of a file, but neither its size nor its time: whoever reads it finds it damaged."""
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_makes_rows_is_imported_only_if_there_are_rows_to_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_archives(tmp_path / "runs", 2)
    run(tmp_path / "runs", tmp_path / "out.csv")
    monkeypatch.setattr(sbformat.catalogue.update, "import_tools", lambda: pytest.fail("nothing is to be read"))
    assert run(tmp_path / "runs", tmp_path / "out.csv").read == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_has_not_changed_is_not_read_again(tmp_path: Path, suffix: str) -> None:
    paths = [*write_archives(tmp_path / "runs", 2), *write_statistics(tmp_path / "runs", 4)]
    output = tmp_path / f"out{suffix}"
    first = run(tmp_path / "runs", output)
    assert (first.rows, first.read, first.failed, first.resumed) == (6, 6, 0, False)
    content = output.read_bytes()
    for path in paths:
        spoil(path)
    again = run(tmp_path / "runs", output)
    assert (again.rows, again.read, again.failed) == (6, 0, 0)
    assert output.read_bytes() == content
    with pytest.raises(UnsupportedError, match="the table is left as it is"):
        run(tmp_path / "runs", output, fresh=True)
    assert output.read_bytes() == content
    assert run(tmp_path / "runs", output, fresh=True, overwrite=True).failed == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == [output.name, "runs"]


def test_what_has_changed_is_read_and_what_has_vanished_is_left_out(tmp_path: Path) -> None:
    paths = write_archives(tmp_path / "runs", 5)
    output = tmp_path / "out.csv"
    run(tmp_path / "runs", output)
    shutil.copy(ARCHIVES / "sac-pendulum.zip", paths[1])
    paths[2].unlink()
    shutil.copy(paths[3], tmp_path / "runs" / "agent_00002b.zip")
    (tmp_path / "runs" / "vecnormalize.pkl").write_bytes((ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes())
    report = run(tmp_path / "runs", output)
    assert (report.rows, report.read) == (6, 3)
    rows = read(output)
    assert [os.path.basename(row["source"])[6:] for row in rows] == [
        "00000.zip", "00001.zip", "00002b.zip", "00003.zip", "00004.zip", "malize.pkl",
    ]  # fmt: skip
    assert [row["algorithm"] for row in rows] == ["PPO", "SAC", "PPO", "PPO", "PPO", None]
    assert [row["statistics"] for row in rows] == ["vecnormalize.pkl"] * 5 + [None]
    run(tmp_path / "runs", tmp_path / "other.csv")
    assert (tmp_path / "other.csv").read_bytes() == output.read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "sqlite", "parquet"])
def test_an_agent_is_read_again_when_its_logs_change(tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"out.{suffix}"
    write_archives(tmp_path / "runs" / "a", 1, num_timesteps=300)
    write_archives(tmp_path / "runs" / "b", 1)
    log = tmp_path / "runs" / "a" / "progress.csv"
    log.write_text("time/total_timesteps,eval/mean_reward\n100,1.5\n")
    assert run(tmp_path / "runs", output).read == 2
    assert run(tmp_path / "runs", output).read == 0
    with log.open("a") as file:
        file.write("200,3.5\n300,2.5\n")
    assert run(tmp_path / "runs", output).read == 1
    found = [(row["best_evaluation"], row["last_evaluation_timesteps"], row["logs"]) for row in read(output)]
    assert found == [(3.5, 300, "progress.csv"), (None, None, None)]
    log.unlink()
    assert run(tmp_path / "runs", output).read == 1
    assert [row["best_evaluation"] for row in read(output)] == [None, None]


def test_rows_of_other_options_are_made_again(tmp_path: Path) -> None:
    write_archives(tmp_path / "runs", 2)
    run(tmp_path / "runs", tmp_path / "out.sqlite")
    assert run(tmp_path / "runs", tmp_path / "out.sqlite", allow=["my.f"]).read == 2
    assert run(tmp_path / "runs", tmp_path / "out.sqlite", allow=["my.f"]).read == 0


def test_a_file_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    (path,) = write_archives(tmp_path, 1)
    output = tmp_path / "out.jsonl"
    sources = [str(path), str(tmp_path / "later.zip")]
    assert [update(sources, str(output)).failed, update(sources, str(output)).read] == [1, 1]
    shutil.copy(path, tmp_path / "later.zip")
    assert [update(sources, str(output)).failed, update(sources, str(output)).read] == [0, 0]


def test_a_source_that_is_given_twice_has_one_row(tmp_path: Path) -> None:
    (path,) = write_archives(tmp_path, 1)
    assert update([str(path), str(path)], str(tmp_path / "out.csv")).rows == 1


NAMES = ["a\r=1+1.zip", "b\x1b[31m.zip", "c\n=2.zip", "d\u202e.zip", "=1+1.zip", os.fsdecode(b"e\xff.zip")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_name_of_a_file_is_in_a_table_as_it_is(tmp_path: Path, suffix: str) -> None:
    (path,) = write_archives(tmp_path, 1)
    (tmp_path / "runs").mkdir()
    for name in NAMES:
        shutil.copy(path, tmp_path / "runs" / name)
    output = tmp_path / f"out{suffix}"
    assert (run(tmp_path / "runs", output).read, run(tmp_path / "runs", output).read) == (6, 0)
    sources = [str(row["source"]) for row in read(output)]
    assert all(source.isascii() and source.isprintable() for source in sources)
    assert sorted(os.path.basename(source) for source in sources) == sorted(map(escape, NAMES))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_two_names_that_are_one_when_they_are_escaped_are_two_rows(tmp_path: Path) -> None:
    (path,) = write_archives(tmp_path, 1)
    (tmp_path / "runs").mkdir()
    for name in ("a\r.zip", "a\\r.zip"):
        shutil.copy2(path, tmp_path / "runs" / name)
    reports = [run(tmp_path / "runs", tmp_path / "out.csv") for _ in range(2)]
    assert [(report.rows, report.read) for report in reports] == [(2, 2), (2, 2)]


def change_table(output: Path, change: str) -> None:
    """Change a CSV table as a spreadsheet, an editor or a full disk does."""
    header, *lines = output.read_text("utf-8").splitlines(keepends=True)
    changed = {
        "blank": [header, "\n", *lines],
        "short": [header, lines[0].rpartition(",")[0] + "\n", *lines[1:]],
        "cut": [header, *lines[:-1], lines[-1][:-2]],
        "cell": [header, lines[0].replace("PPO", "DQN", 1), *lines[1:]],
        "half": [header, lines[0], lines[1][: len(lines[1]) // 2]],
    }
    output.write_text("".join(changed[change]), "utf-8")


@pytest.mark.parametrize(("change", "read_again"), [("blank", 3), ("short", 3), ("cut", 1), ("cell", 1), ("half", 2)])
def test_rows_that_are_not_as_they_were_written_are_read_again(tmp_path: Path, change: str, read_again: int) -> None:
    write_archives(tmp_path / "runs", 3)
    output = tmp_path / "out.csv"
    run(tmp_path / "runs", output)
    content = output.read_bytes()
    change_table(output, change)
    if change != "cell":
        with pytest.raises(UnsupportedError, match=r"was cut off, or changed by another program in .*repairs it"):
            read(output)
    assert run(tmp_path / "runs", output).read == read_again
    assert output.read_bytes() == content


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".sqlite"])
def test_a_column_that_was_deleted_comes_back(tmp_path: Path, suffix: str) -> None:
    write_archives(tmp_path / "runs", 2)
    output = tmp_path / f"out{suffix}"
    run(tmp_path / "runs", output)
    content, rows = output.read_bytes(), read(output)
    output.unlink()
    rows = [{name: value for name, value in row.items() if name != "gamma"} for row in rows]
    find_format(str(output)).write(str(output), rows, find_columns(rows))
    assert run(tmp_path / "runs", output).read == 2
    assert output.read_bytes() == content


def test_a_good_table_is_not_replaced_by_one_of_failures(tmp_path: Path) -> None:
    paths = write_archives(tmp_path / "runs", 2)
    output = tmp_path / "out.csv"
    run(tmp_path / "runs", output)
    content = output.read_bytes()
    for path in paths:
        path.write_bytes(b"no zip")
    for options in ({}, {"fresh": True}):
        with pytest.raises(
            UnsupportedError, match=r"no source can be read \(.*agent_00000.zip: container failure: .*--force"
        ):
            run(tmp_path / "runs", output, **options)
    assert output.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "runs"]
    assert run(tmp_path / "runs", output, overwrite=True).failed == 2
    assert run(tmp_path / "runs", output).failed == 2


def test_rows_of_a_folder_that_cannot_be_listed_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archives(tmp_path / "runs" / "a", 2)
    write_archives(tmp_path / "runs" / "b", 2)
    output = tmp_path / "out.csv"
    run(tmp_path / "runs", output)
    content = output.read_bytes()
    with monkeypatch.context() as patch:
        refuse_listing(patch, tmp_path / "runs" / "b")
        report = run(tmp_path / "runs", output)
        assert (report.rows, report.read, report.failed) == (5, 1, 1)
        assert report.failures == ((str(tmp_path / "runs" / "b"), "cannot open", "Permission denied"),)
        assert [os.path.basename(row["source"]) for row in read(output)] == [
            "agent_00000.zip", "agent_00001.zip", "b", "agent_00000.zip", "agent_00001.zip",
        ]  # fmt: skip
        assert update([str(tmp_path / "**" / "*.zip")], str(tmp_path / "other.csv")).failed == 1
    assert run(tmp_path / "runs", output).read == 0
    assert output.read_bytes() == content


def test_urls_without_their_packages_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnsupportedError, match=r'pip install "sbformat\[remote\]"'):
        update(["https://example.org/agent.zip"], str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("statement", ["BEGIN EXCLUSIVE", "INSERT OR IGNORE INTO sources"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    write_archives(tmp_path / "runs", 1)

    class FullDatabase(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql.startswith(statement):
                message = "database or disk is full"
                raise sqlite3.OperationalError(message)
            return super().execute(sql, *values)

        executemany = execute

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FullDatabase))
    with pytest.raises(OSError, match="No space left on device") as raised:
        run(tmp_path / "runs", tmp_path / "out.csv")
    assert raised.value.filename == str(tmp_path / "out.csv.partial")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE catalog SET gamma = x'00'",
        "UPDATE catalog SET timesteps = 'many'",
        "UPDATE catalog SET verdict = 7",
        "UPDATE catalog SET checksum = x'ff'",
    ],
)
def test_a_row_with_other_types_is_read_again(tmp_path: Path, change: str) -> None:
    write_archives(tmp_path / "runs", 1)
    output = tmp_path / "out.sqlite"
    run(tmp_path / "runs", output)
    with closing(sqlite3.connect(output)) as database:
        before = database.execute("SELECT * FROM catalog").fetchall()
        database.execute(change)
        database.commit()
    assert run(tmp_path / "runs", output).read == 1
    with closing(sqlite3.connect(output)) as database:
        assert database.execute("SELECT * FROM catalog").fetchall() == before


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    write_archives(tmp_path / "runs", 1)
    output = tmp_path / "out.csv"
    output.write_text("a,b\n1,2\n")
    with pytest.raises(UnsupportedError, match=r"is not a catalogue that sbformat wrote; --force replaces it"):
        run(tmp_path / "runs", output)
    assert output.read_text() == "a,b\n1,2\n"
    assert run(tmp_path / "runs", output, overwrite=True).rows == 1


def test_no_sources_write_nothing(tmp_path: Path) -> None:
    assert update([], str(tmp_path / "out.csv")) is None
    assert list(tmp_path.iterdir()) == []


def test_two_runs_of_one_output_are_refused(tmp_path: Path) -> None:
    output = str(tmp_path / "out.csv")
    spool = Spool(output, made_by="1", fresh=False)
    with pytest.raises(UnsupportedError, match="another run writes this catalogue"):
        Spool(output, made_by="1", fresh=False)
    spool.remove()
    assert list(tmp_path.iterdir()) == []


def test_another_file_with_the_name_of_the_spool_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out.csv.partial").write_text("of somebody else, and long enough" * 99)
    with pytest.raises(UnsupportedError, match="is not what an unfinished run left"):
        Spool(str(tmp_path / "out.csv"), made_by="1", fresh=True)
    assert (tmp_path / "out.csv.partial").read_text().startswith("of somebody else")


CHILD = """
import os, signal, sys
from sbformat.catalogue import update
from sbformat.cli import catalog, main

folder, output, jobs, kept = sys.argv[1:]
update._ROWS, update._SECONDS = 4, 1e9
catalog._FEW = 2
add_row = update.Spool.add_row
added = []

def add_row_or_die(self, source, row):
    if len(added) == int(kept):
        print(*added, sep="\\n", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    add_row(self, source, row)
    added.append(source.state.name)

update.Spool.add_row = add_row_or_die
if __name__ == "__main__":
    main(["catalog", folder, "-o", output, "--jobs", jobs])
"""


@pytest.mark.parametrize(
    ("jobs", "has_output"),
    [
        ("1", True),
        ("2", False),
        pytest.param("1", False, marks=pytest.mark.exhaustive),
        pytest.param("2", True, marks=pytest.mark.exhaustive),
    ],
)
def test_a_run_that_was_killed_is_resumed_without_reading_again(tmp_path: Path, jobs: str, *, has_output: bool) -> None:
    paths = write_statistics(tmp_path / "runs", 20)
    output, expected = tmp_path / "out.csv", tmp_path / "expected.csv"
    run(tmp_path / "runs", expected)
    if has_output:
        run(tmp_path / "runs", output)
        for path in paths[:16]:
            os.utime(path, ns=(0, int(path.stat().st_mtime_ns) + 10**9))
        run(tmp_path / "runs", expected)
    (tmp_path / "child.py").write_text(CHILD)
    before = output.read_bytes() if has_output else None
    child = [sys.executable, str(tmp_path / "child.py"), str(tmp_path / "runs"), str(output), jobs, "13"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(child, env=environment, check=False, timeout=500, stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    assert (output.read_bytes() if output.exists() else None) == before
    assert (tmp_path / "out.csv.partial").exists()
    for path in done.stdout.splitlines()[:12]:  # 13 were finished, and 12 of them committed
        spoil(Path(path))
    report = run(tmp_path / "runs", output)
    assert report.resumed
    assert report.read <= (4 if has_output else 8)
    assert report.failed == 0
    assert output.read_bytes() == expected.read_bytes()
    assert not (tmp_path / "out.csv.partial").exists()


def test_a_damaged_file_that_is_read_again_is_noticed(tmp_path: Path) -> None:
    """The test above can fail: a file that is spoiled has another row."""
    paths = write_archives(tmp_path / "runs", 2)
    spoil(paths[0])
    assert run(tmp_path / "runs", tmp_path / "out.csv").failed == 1
