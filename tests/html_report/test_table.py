"""The table of many files: what becomes a column, what all files share, and what of a hostile file gets into it."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

from sbformat.catalogue.collect import collect_file
from sbformat.catalogue.rows import Cell, FileRow, FileTable, collect_row, make_table
from sbformat.cli import main
from sbformat.html_report.page import is_plain
from sbformat.html_report.table_page import FEWEST_IN_CHART, describe_files, fold_statistics, render_table
from tests.helpers import attacks, thresholds
from tests.helpers.bundled import ARCHIVES, PPO, SAC, with_data
from tests.helpers.run_folders import make_folder
from tests.html_report.test_page import ATTACK, assert_is_harmless, write_page

if TYPE_CHECKING:
    from pathlib import Path


def collect(source: Any, name: str = "agent.zip") -> FileRow:
    return collect_row(collect_file(source, name=name))


def with_gamma(gamma: float) -> bytes:
    return with_data(lambda data: data.update(gamma=gamma))


def make_rows(count: int, **cells: Any) -> list[FileRow]:
    """Rows with the same cells: text, or a function of the number of the row."""
    return [
        FileRow(
            name=f"runs/{index}.zip",
            cells={key: value(index) if callable(value) else Cell(value) for key, value in cells.items()},
            remarks=(),
            omitted=0,
            failure=None,
            is_broken=False,
        )
        for index in range(count)
    ]


def list_titles(table: FileTable, *, shown: bool | None = None) -> list[str]:
    return [column.title for column in table.columns if shown in (None, column.is_shown)]


def test_what_differs_is_a_column_and_what_all_files_share_is_apart() -> None:
    table = make_table([collect(with_gamma(gamma), f"{gamma}.zip") for gamma in (0.9, 0.99, 0.999)])
    assert list_titles(table, shown=True) == ["Verdict", "gamma"]
    assert dict(table.shared)["Algorithm"] == "PPO"
    assert dict(table.shared)["gae_lambda"] == "0.95"
    gamma = table.columns[-1]
    assert gamma.is_number
    assert [row.cells["gamma"].number for row in table.rows] == [0.9, 0.99, 0.999]


def test_agents_of_several_algorithms_have_columns_of_all() -> None:
    table = make_table([collect(PPO), collect(SAC), collect(ARCHIVES / "ppo-cartpole-1.0.zip")])
    titles = list_titles(table)
    assert {"Algorithm", "SB3 version", "Parameters", "batch_size", "tau", "clip_range"} <= set(titles)
    assert titles[:3] == ["Verdict", "Algorithm", "Policy"]
    assert [row.cells["algorithm"].text for row in table.rows] == ["PPO", "SAC", "PPO"]
    assert "tau" not in table.rows[0].cells
    assert not table.shared or "tau" not in dict(table.shared)


def test_the_parts_of_policy_kwargs_are_columns() -> None:
    other = with_data(lambda data: data["policy_kwargs"].update(net_arch=[64, 64]))
    table = make_table([collect(PPO), collect(other)])
    assert "policy_kwargs.net_arch" in list_titles(table, shown=True)
    assert [row.cells["policy_kwargs.net_arch"].text for row in table.rows] == ["[8, 8]", "[64, 64]"]


def test_schedules_and_arrays_of_one_item_are_sorted_as_numbers() -> None:
    row = collect(PPO)
    assert row.cells["clip_range"] == Cell("0.2", 0.2, value=0.2)
    assert row.cells["learning_rate"] == Cell("0.0003", 0.0003, value=0.0003)
    assert collect(SAC).cells["target_entropy"].number == -1.0
    assert row.cells["normalize_advantage"] == Cell("true", value=True)
    assert row.cells["_last_obs"].number is None


def test_the_mean_of_the_last_episodes_is_a_column() -> None:
    row = collect(with_data(lambda data: data.update(ep_info_buffer=[{"r": 1, "l": 2}, {"r": 2.5, "l": 9}, {"l": 1}])))
    assert row.cells["mean_reward"] == Cell("1.75", 1.75, value=1.75)
    assert row.cells["episodes"].number == 2
    assert "mean_reward" not in collect(PPO).cells


def test_statistics_are_in_the_row_of_their_agent(tmp_path: Path) -> None:
    statistics = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
    dangerous = attacks.pickle(attacks.PAYLOAD)
    files = {"a/agent.zip": SAC.read_bytes(), "a/vecnormalize.pkl": statistics, "b/agent.zip": PPO.read_bytes()}
    make_folder(tmp_path, {**files, "c/vecnormalize.pkl": statistics, "d/vecnormalize.pkl": dangerous})
    page = write_page([tmp_path / name for name in (*files, "c/vecnormalize.pkl", "d/vecnormalize.pkl")], tmp_path)
    rows = re.findall(r'<tr><th scope="row">(?:<a [^>]*>)?([^<]+)(.*?)</tr>', page)
    assert [name for name, _ in rows] == ["a/agent.zip", "b/agent.zip", "c/vecnormalize.pkl", "d/vecnormalize.pkl"]
    assert ">vecnormalize.pkl<" in rows[0][1]
    assert "<h1>2 agents, 2 files of statistics and 1 other file</h1>" in page
    assert "1 file has statistics" in page
    row = collect(PPO)._replace(statistics=("/x/odd.pkl",))
    odd = collect(attacks.pickle(attacks.PAYLOAD), "/x/odd.pkl")
    assert fold_statistics([row, odd]) == [row, odd]
    assert fold_statistics([row, collect(ARCHIVES / "vecnormalize-pendulum.pkl", "/x/odd.pkl")]) == [row]


def test_the_environment_and_the_seed_are_columns_beside_each_other() -> None:
    def number(at: int) -> Cell:
        return Cell(str(at), at)

    page = render_table(make_rows(4, gamma=number, seed=number, env=number, algorithm=number))
    titles = re.findall(r'<th scope="col" data-key="([^"]+)"[^>]*?( hidden)?>', page)
    assert titles[:4] == [("file", ""), ("algorithm", ""), ("env", ""), ("seed", "")]


def test_what_nearly_all_files_share_is_hidden_and_stated_once() -> None:
    def policy(at: int) -> Cell:
        return Cell("Recurrent" if at == 3 else "Mlp")

    def list_columns(count: int) -> tuple[list[str], str]:
        rows = make_rows(count, verdict="clean", policy=policy, gamma=lambda at: Cell(str(at % 2), at % 2))
        page = render_table(rows)
        titles = re.findall(r'<th scope="col" data-key="([^"]+)"[^>]*?( hidden)?>', page)
        return [key for key, is_hidden in titles if not is_hidden], page

    shown, page = list_columns(20)
    assert shown == ["file", "gamma"]
    assert "<li>Policy: Mlp, but Recurrent in 3.zip</li>" in page
    assert "All 20 files" in page
    shown, page = list_columns(9)
    assert shown == ["file", "policy", "gamma"]
    assert "nearly all" not in page


def test_the_verdict_is_shown_if_a_file_is_not_clean() -> None:
    def verdict(at: int) -> Cell:
        return Cell("code" if at == 3 else "clean", float(at == 3))

    rows = make_rows(20, verdict=verdict, seed=lambda at: Cell(str(at), at))
    page = render_table(rows)
    assert page.index('data-key="verdict"><span>Verdict</span>') < page.index('data-key="seed"')
    assert "<span>Seed</span>" in page


def test_rewards_of_a_column_have_as_many_decimals() -> None:
    rewards = (-1079.236, 500.0, 42.6705)
    page = render_table(make_rows(3, mean_reward=lambda at: Cell(str(rewards[at]), rewards[at])))
    cells = re.findall(r'<td class="number"( data-value="[^"]+")?>([^<]*)</td>', page)
    assert cells == [
        (' data-value="-1079.236"', "\u22121,079.24"), ("", "500.00"), (' data-value="42.6705"', "42.67"),
    ]  # fmt: skip


def test_files_are_counted_by_what_they_are() -> None:
    agent, statistics = collect(PPO), collect(ARCHIVES / "vecnormalize-pendulum.pkl")
    assert describe_files([agent, agent, statistics]) == "2 agents and 1 file of statistics"
    assert describe_files([agent, statistics, *make_rows(2)]) == "1 agent, 1 file of statistics and 2 other files"
    assert describe_files(make_rows(3)) == "3 files"


def test_a_chart_needs_rewards() -> None:
    def has_chart(count: int, **cells: Any) -> bool:
        return 'id="chart"' in render_table(make_rows(count, **cells))

    def reward(at: int) -> Cell:
        return Cell(str(at), at)

    assert has_chart(FEWEST_IN_CHART, mean_reward=reward)
    assert has_chart(FEWEST_IN_CHART, last_evaluation=reward)
    assert not has_chart(FEWEST_IN_CHART - 1, mean_reward=reward)
    assert not has_chart(FEWEST_IN_CHART, gamma=reward)


def test_the_text_of_a_number_is_in_the_page_once() -> None:
    for text, number in (("1,000", 1000), ("-0.5", -0.5), ("1e-05", 1e-5)):
        assert is_plain(Cell(text, number))
    for text, number in (("linear 0.5 -> 0", 0.5), ("29.4 KiB", 30102), ("null", None), ("2", 1)):
        assert not is_plain(Cell(text, number))


def test_a_broken_file_is_a_row_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.zip").write_bytes(PPO.read_bytes()[:1000])
    row = collect(tmp_path / "broken.zip")
    assert row.failure is not None
    assert row.is_broken
    assert row.cells["verdict"].text == "broken"
    assert row.remarks[0].message
    missing = collect(tmp_path / "missing.zip")
    assert missing.cells["verdict"].text == "cannot open"
    table = make_table([collect(PPO), collect(PPO), row])
    assert dict(table.shared)["Algorithm"] == "PPO"
    assert table.verdicts == (("broken", 1), ("clean", 2))


def test_findings_are_listed_worst_first_and_the_others_counted() -> None:
    names = [attacks.call(attacks.name("os", f"exec{index}"), attacks.text("true")) for index in range(9)]
    row = collect(attacks.pickle(attacks.listed(attacks.name("some", "thing"), *names)), "agent.pkl")
    assert row.cells["verdict"].text == "dangerous"
    assert [remark.label for remark in row.remarks] == ["unsupported", *["dangerous"] * 4]
    assert row.omitted >= 5


def test_names_are_relative_to_the_folder_of_all_files() -> None:
    rows = [collect(PPO, name) for name in ("/runs/a/1.zip", "/runs/b/2.zip")]
    table = make_table(rows)
    assert (table.folder, [row.name for row in table.rows]) == ("/runs", ["a/1.zip", "b/2.zip"])
    table = make_table([collect(PPO, name) for name in ("/runs/1.zip", "2.zip")])
    assert (table.folder, [row.name for row in table.rows]) == ("", ["/runs/1.zip", "2.zip"])


def test_too_many_columns_are_left_out_and_counted() -> None:
    rows = make_rows(3, **{f"key{number}": lambda index: Cell(str(index), index) for number in range(400)})
    table = make_table(rows)
    assert len(table.columns) == 150
    assert table.omitted_columns == 250
    assert "250 more columns" in render_table(rows)


def test_a_key_cannot_take_the_place_of_another_column() -> None:
    row = collect(with_data(lambda data: data.update(verdict="clean", file="other.zip", size=0)))
    assert row.cells["data.verdict"].text == "clean"
    assert row.cells["size"].number != 0
    assert "file" not in row.cells


def test_a_row_can_be_sent_between_processes() -> None:
    row = collect(SAC)
    assert pickle.loads(pickle.dumps(row)) == row


@pytest.mark.parametrize("where", ["key", "value", "name"])
def test_what_a_file_contains_is_escaped(where: str, tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update({ATTACK: 1} if where == "key" else {"gamma": ATTACK} if where == "value" else {})

    rows = [collect(PPO), collect(with_data(change), ATTACK if where == "name" else "a"), collect(SAC)]
    page = render_table(rows)
    assert_is_harmless(page)
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "49" not in page.partition("img src")[2][:60]


def test_long_texts_are_truncated() -> None:
    row = collect(with_data(lambda data: data.update({"gamma": "x" * 10_000, "y" * 10_000: 1})), "n" * 100_000)
    assert len(row.cells["gamma"].text) == 81
    assert max(map(len, row.cells)) == 81
    assert len(render_table([row, collect(PPO), collect(SAC)])) < 100_000


def test_the_command_writes_a_table_of_three_files_and_more(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / f"{index}.zip").write_bytes(with_gamma(0.9 + index / 100))
    (tmp_path / "broken.zip").write_bytes(b"PK")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "-o", str(page)]) == 1
    text = page.read_text("utf-8")
    assert text.count('<tr><th scope="row">') >= 4
    assert f"All in <code>{tmp_path}</code>" in text
    assert_is_harmless(text)
    assert main(["report", str(tmp_path / "0.zip"), str(PPO), str(SAC), "-o", str(page), "--force"]) == 0


def test_several_processes_write_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_processes: list[int]
) -> None:
    monkeypatch.setattr(thresholds.PROCESS_FILES, 3)
    pages = []
    for jobs in ("1", "2"):
        page = tmp_path / f"{jobs}.html"
        assert main(["report", str(PPO), str(SAC), str(PPO), "-o", str(page), "--jobs", jobs]) == 0
        pages.append(page.read_bytes())
    assert pages[0] == pages[1]
    assert shared_processes == [1, 2]


def test_python_writes_a_table_of_sources_of_every_kind(tmp_path: Path) -> None:
    page = write_page([PPO, PPO.read_bytes(), SAC], tmp_path, title="Runs <1>")
    assert "<h1>Runs &lt;1&gt;</h1>" in page
    assert "&lt;bytes&gt;" in page
