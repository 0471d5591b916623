"""The table of many files in the browser: sorting, filtering, choosing columns, with the mouse and with keys alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from sbformat.catalogue.rows import Cell, FileRow, Remark
from sbformat.html_report.table_page import render_table
from tests.helpers.browser import NARROW, WIDE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.browser import Browser

GAMMAS: Final = (0.99, 0.9, None, 0.999, 1.0)
NAMES: Final = ("b-10.zip", "a-1.zip", "b-9.zip", "broken.zip", "=cmd.zip")
VERDICTS: Final = ("clean", "dangerous", "clean", "broken", "unknown")
LEVELS: Final = {"clean": 0, "unknown": 1, "code": 2, "broken": 3, "dangerous": 4}


def make_row(name: str, remarks: tuple[Remark, ...] = (), **cells: Cell) -> FileRow:
    return FileRow(name=name, cells=cells, remarks=remarks, omitted=0, failure=None, is_broken=False)


def make_rows() -> list[FileRow]:
    """Five files, one of them without a gamma."""
    rows = []
    for index, (name, gamma, verdict) in enumerate(zip(NAMES, GAMMAS, VERDICTS)):
        cells = {
            "verdict": Cell(verdict, LEVELS[verdict]),
            "algorithm": Cell("PPO" if index % 2 else "SAC"),
            "timesteps": Cell(f"{10 ** (6 - index):,}", 10 ** (6 - index)),
            "kind": Cell("an archive" if index else "a file"),
        }
        if gamma is not None:
            cells["gamma"] = Cell(str(gamma), gamma)
        remarks = (Remark(verdict, "data", "a finding"),) if verdict in ("broken", "dangerous") else ()
        rows.append(make_row(name, remarks, **cells))
    return rows


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    """The page about five files, open."""
    open_table(browser, tmp_path, make_rows())
    return browser


def open_table(browser: Browser, folder: Path, rows: list[FileRow], **options: Any) -> None:
    (folder / "page.html").write_text(render_table(rows), "utf-8")
    browser.open(folder / "page.html", **options)


def list_names(browser: Browser) -> list[str]:
    """The names in the rows that are visible, in their order."""
    return list(
        browser.run("""
            return [...document.querySelectorAll("#files tbody tr")].filter((row) => row.checkVisibility())
              .map((row) => row.cells[0].textContent);""")
    )


def list_titles(browser: Browser) -> list[str]:
    """The titles of the columns that are visible."""
    return list(
        browser.run("""
            return [...document.querySelectorAll("#files thead th")].filter((cell) => cell.checkVisibility())
              .map((cell) => cell.textContent);""")
    )


def find_sorted(browser: Browser) -> dict[str, str]:
    """The columns with ``aria-sort``."""
    return dict(
        browser.run("""
            return Object.fromEntries([...document.querySelectorAll("#files thead [aria-sort]")]
              .map((cell) => [cell.textContent, cell.getAttribute("aria-sort")]));""")
    )


def click_header(browser: Browser, key: str) -> None:
    browser.driver.find_element("css selector", f'#files thead [data-key="{key}"] button').click()


def set_filter(browser: Browser, text: str) -> str:
    """Type a filter; return what the status says."""
    field = browser.driver.find_element("id", "filter")
    field.clear()
    field.send_keys(text)
    return str(browser.driver.find_element("id", "status").text)


def test_a_click_sorts_and_the_third_restores_the_order(page: Browser) -> None:
    assert find_sorted(page) == {}
    click_header(page, "gamma")
    assert list_names(page) == ["=cmd.zip", "broken.zip", "b-10.zip", "a-1.zip", "b-9.zip"]
    assert find_sorted(page) == {"gamma": "descending"}
    click_header(page, "gamma")
    assert list_names(page) == ["a-1.zip", "b-10.zip", "broken.zip", "=cmd.zip", "b-9.zip"]
    assert find_sorted(page) == {"gamma": "ascending"}
    click_header(page, "gamma")
    assert list_names(page) == list(NAMES)
    assert find_sorted(page) == {}


def test_names_are_sorted_with_their_numbers_and_verdicts_by_severity(page: Browser) -> None:
    click_header(page, "file")
    assert list_names(page) == ["=cmd.zip", "a-1.zip", "b-9.zip", "b-10.zip", "broken.zip"]
    click_header(page, "verdict")
    assert list_names(page) == ["a-1.zip", "broken.zip", "=cmd.zip", "b-10.zip", "b-9.zip"]
    assert find_sorted(page) == {"Verdict": "descending"}


def test_usual_titles_are_one_line_and_long_ones_a_few(browser: Browser, tmp_path: Path) -> None:
    height = 'return document.querySelector("#files thead").getBoundingClientRect().height'
    names = ("learning_rate", "policy_kwargs.optimizer_class", "max_grad_norm", "replay_buffer_class")
    rows = [make_row(f"{at}.zip", **{name: Cell(str(at), at) for name in names}) for at in range(3)]
    for width in (NARROW, WIDE):
        open_table(browser, tmp_path, rows, width=width)
        assert browser.run(height) < 40
        long = ".".join(["part_of_a_name"] * 5)
        open_table(browser, tmp_path, [*rows, make_row("x.zip", **{long: Cell("1", 1)})], width=width)
        browser.run('document.querySelectorAll("#files [hidden]").forEach((cell) => { cell.hidden = false; })')
        assert 40 < browser.run(height) < 110
        assert browser.find_overflow() == []


def test_keys_alone_sort_and_filter(page: Browser) -> None:
    page.run('document.getElementById("filter").focus()')
    page.press(*"zip")
    assert len(list_names(page)) == 5
    for _ in range(60):
        page.press("\ue004")  # Tab
        if page.run("return document.activeElement.textContent") == "gamma":
            break
    page.press("\ue007")  # Enter
    assert find_sorted(page) == {"gamma": "descending"}
    page.press(" ")
    assert find_sorted(page) == {"gamma": "ascending"}
    assert page.run("return document.activeElement.textContent") == "gamma"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b-", ["b-10.zip", "b-9.zip"]),
        ("PPO", ["a-1.zip", "broken.zip"]),
        ("-ppo b", ["b-10.zip", "b-9.zip"]),
        ("gamma>=0.99", ["b-10.zip", "broken.zip", "=cmd.zip"]),
        ("gamma<0.99", ["a-1.zip"]),
        ("gamma=0.990", ["b-10.zip"]),
        ("gamma=", ["b-9.zip"]),
        ("verdict!=clean algorithm:pp", ["a-1.zip", "broken.zip"]),
        ("-verdict=clean", ["a-1.zip", "broken.zip", "=cmd.zip"]),
        ("timesteps>100000", ["b-10.zip"]),
        ("1,000,000", ["b-10.zip"]),
        ('kind:"a file"', ["b-10.zip"]),
        ('"a file"', ["b-10.zip"]),
        ("=cmd", ["=cmd.zip"]),
        ("nothing-of-the-kind", []),
        (".*", []),
        ("   ", list(NAMES)),
        ('"', list(NAMES)),
        ("-", ["b-10.zip", "a-1.zip", "b-9.zip"]),
    ],
)
def test_a_filter_leaves_the_rows_that_match(page: Browser, text: str, expected: list[str]) -> None:
    status = set_filter(page, text)
    assert list_names(page) == expected
    assert status == ("All 5 files" if len(expected) == 5 else f"{len(expected)} of 5 files")


def test_a_filter_by_an_unknown_column_says_so(page: Browser) -> None:
    assert set_filter(page, "gama>0.9") == "0 of 5 files. No column is called gama, so the text is searched"


def test_sorting_keeps_the_filter(page: Browser) -> None:
    set_filter(page, "gamma>0.9")
    click_header(page, "gamma")
    assert list_names(page) == ["=cmd.zip", "broken.zip", "b-10.zip"]


def test_columns_can_be_chosen(page: Browser) -> None:
    assert list_titles(page) == ["File", "Verdict", "Algorithm", "Timesteps", "gamma"]
    page.driver.find_element("css selector", "#columns summary").click()
    page.driver.find_element("css selector", '#columns input[value="2"]').click()
    assert list_titles(page) == ["File", "Verdict", "Timesteps", "gamma"]
    page.driver.find_element("id", "all-columns").click()
    assert list_titles(page) == ["File", "Verdict", "Algorithm", "Timesteps", "Kind", "gamma"]
    assert page.run('return [...document.querySelectorAll("#columns input")].every((box) => box.checked)')
    assert page.driver.find_element("id", "column-count").text == "6 of 6"
    page.driver.find_element("id", "first-columns").click()
    assert list_titles(page) == ["File", "Verdict", "Algorithm", "Timesteps", "gamma"]
    hidden = page.run('return document.querySelectorAll("#files td[hidden]").length')
    assert hidden == 5


def test_the_shown_rows_are_saved_as_csv(page: Browser) -> None:
    page.run("""
        window.saved = [];
        URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return "#saved"; };""")
    set_filter(page, "-a-1")
    click_header(page, "gamma")
    page.driver.find_element("id", "download").click()
    text = page.driver.execute_async_script("""
        const done = arguments[0];
        const wait = () => (window.saved.length ? done(window.saved[0]) : setTimeout(wait, 10));
        wait();""")
    assert text.split("\r\n") == [
        "file,verdict,algorithm,timesteps,gamma",
        "'=cmd.zip,unknown,SAC,100,1.0",
        "broken.zip,broken,PPO,1000,0.999",
        "b-10.zip,clean,SAC,1000000,0.99",
        "b-9.zip,clean,SAC,10000,",
        "",
    ]


# -- the chart ----------------------------------------------------------------------------------------


def make_rewards() -> list[FileRow]:
    """Rewards of every kind of number, over columns of numbers and of text."""
    rewards = ("1.5", "-2", "1e+299", "1e-320", "nan", "inf", "", "1.7e+308", "7", "8")
    rows = []
    for index, text in enumerate(rewards):
        cells = {
            "algorithm": Cell("PPO" if index % 2 else "<b>SAC</b>"),
            "timesteps": Cell(f"{10**index:,}", 10**index),
            "seed": Cell(f"s{index}"),
            "gamma": Cell(str(index % 2), index % 2),
        }
        if text:
            cells["mean_reward"] = Cell(text, float(text))
        if index == 9:
            del cells["timesteps"]
        rows.append(make_row(f"{index}.zip", **cells))
    return rows


def choose(browser: Browser, name: str, value: str) -> None:
    """Choose an option with the mouse's event."""
    browser.run(
        """
        const select = document.getElementById(arguments[0]);
        select.value = arguments[1];
        select.dispatchEvent(new Event("change"));""",
        name, value,
    )  # fmt: skip


def list_points(browser: Browser) -> list[str]:
    """What is said of each point."""
    script = 'return [...document.querySelectorAll("#chart-plot title")].map((part) => part.textContent)'
    return list(browser.run(script))


def describe_chart(browser: Browser) -> str:
    return str(browser.driver.find_element("id", "chart-status").text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_rewards_of_every_size_are_drawn_over_any_column(
    browser: Browser, axe: None, tmp_path: Path, width: int, scheme: Any
) -> None:
    open_table(browser, tmp_path, make_rewards(), width=width, scheme=scheme)
    browser.run('for (const part of document.querySelectorAll("details")) part.open = true')
    keys = browser.run('return [...document.getElementById("chart-x").options].map((option) => option.value)')
    assert sorted(keys) == ["algorithm", "gamma", "seed", "timesteps"]
    for key in keys:
        for group in ("", *keys):
            choose(browser, "chart-x", key)
            choose(browser, "chart-by", group)
            assert len(list_points(browser)) == 5 + (key != "timesteps")
            drawn = browser.run('return document.getElementById("chart-plot").outerHTML')
            assert "NaN" not in drawn
            assert "Infinity" not in drawn
            assert browser.find_overflow() == []
    browser.picture(f"chart-{width}-{scheme}")
    assert browser.find_violations() == []
    assert browser.list_console() == []
    assert browser.list_requests() == []


def test_the_chart_follows_the_filter_and_is_also_text(browser: Browser, tmp_path: Path) -> None:
    open_table(browser, tmp_path, make_rewards())
    assert describe_chart(browser) == "Training reward over Timesteps: 5 of 10 files; the others have no such numbers"
    assert list_points(browser)[0] == "0.zip\nTraining reward 1.5\nTimesteps 1"
    assert browser.run('return document.getElementById("chart-legend").textContent').split() == ["<b>SAC</b>", "PPO"]
    set_filter(browser, "mean_reward>-5 mean_reward<5")
    assert describe_chart(browser) == "Training reward over Timesteps: 3 of 3 files"
    browser.run('document.querySelector("#chart details").open = true')
    rows = browser.run("""
        return [...document.querySelectorAll("#chart-rows tr")].map((row) => row.innerText.split("\\t"))""")
    assert rows == [["<b>SAC</b>", "1", "1.5", "1.5", "1.5"], ["PPO", "2", "\u22121", "\u22122", "1.00e\u2212320"]]
    label = browser.run('return document.getElementById("chart-plot").getAttribute("aria-label")')
    assert label.startswith("Training reward over Timesteps of 3 files, from \u22122 to 1.5")
    set_filter(browser, "nothing like this")
    assert describe_chart(browser) == "Training reward over Timesteps: 0 of 0 files"
    assert browser.list_console() == []


def test_lines_between_rows_stay_beside_the_names_when_the_table_is_scrolled(browser: Browser, tmp_path: Path) -> None:
    rows = [
        make_row(f"runs/number-{row}/best_model.zip", **{f"column{at}": Cell(f"{row}", row) for at in range(40)})
        for row in range(30)
    ]
    open_table(browser, tmp_path, rows)
    browser.run('document.getElementById("all-columns").click()')
    browser.run('const region = document.querySelector(".many"); region.scrollLeft = 500; region.scrollTop = 200')
    lines = browser.run("""
        const cells = [...document.querySelectorAll("#files tbody tr:not(:first-child) th")];
        return cells.map((cell) => [getComputedStyle(cell).borderTopWidth, cell.getBoundingClientRect().left])""")
    assert {width for width, _ in lines} == {"1px"}  # below a cell, the background of the next one can cover it
    assert len({left for _, left in lines}) == 1
    assert lines[0][1] >= 0


def test_a_name_leads_to_the_findings(page: Browser) -> None:
    page.driver.find_element("link text", "broken.zip").click()
    target = page.run('return document.querySelector(":target").textContent')
    assert "broken.zip" in target
    assert "a finding" in target


def test_a_page_without_script_shows_the_table_and_no_controls(browser: Browser, tmp_path: Path) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_table(browser, tmp_path, make_rows())
        visible = [row.is_displayed() for row in browser.driver.find_elements("css selector", "#files tbody tr")]
        assert visible == [True] * 5
        assert not browser.driver.find_element("id", "controls").is_displayed()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_axe_finds_nothing(browser: Browser, axe: None, tmp_path: Path, width: int, scheme: Any) -> None:
    open_table(browser, tmp_path, make_rows(), width=width, scheme=scheme)
    browser.picture(f"table-{width}-{scheme}")
    assert browser.find_violations() == []
    click_header(browser, "file")
    browser.driver.find_element("css selector", "#columns summary").click()
    set_filter(browser, "zip")
    assert browser.find_violations() == []
    assert browser.find_overflow() == []
    assert browser.list_console() == []
    assert browser.list_requests() == []


def test_the_printed_page_has_the_table_without_the_controls(browser: Browser, tmp_path: Path) -> None:
    open_table(browser, tmp_path, make_rows(), media="print")
    assert not browser.driver.find_element("id", "controls").is_displayed()
    assert browser.find_overflow() == []
    region = browser.run("""
        const region = document.querySelector(".many");
        return [region.scrollWidth, region.clientWidth, region.scrollHeight, region.clientHeight];""")
    assert region[0] <= region[1]
    assert region[2] <= region[3]
    assert browser.print_pages("table").startswith(b"%PDF")


def test_a_thousand_files_are_sorted_and_filtered_quickly(browser: Browser, tmp_path: Path) -> None:
    rows = [
        make_row(
            f"runs/{number % 7}/agent-{number}.zip",
            verdict=Cell("clean", 0),
            **{f"key{key}": Cell(str(number * key % 97), number * key % 97) for key in range(60)},
        )
        for number in range(1000)
    ]
    open_table(browser, tmp_path, rows)
    for script in (
        "document.querySelector('[data-key=\"key5\"] button').click()",
        (
            'document.getElementById("filter").value = "agent-99"; '
            'document.getElementById("filter").dispatchEvent(new Event("input"))'
        ),
        'document.getElementById("all-columns").click()',
    ):
        taken = browser.run(f"const begin = performance.now(); {script}; document.body.offsetHeight;"
                            "return performance.now() - begin")  # fmt: skip
        assert taken < 60_000  # of the page's own time: a tenth of a second where nothing else runs
    assert len(list_names(browser)) == 11
    assert browser.list_console() == []


def test_the_chart_shows_one_environment_that_the_reader_chooses(browser: Browser, tmp_path: Path) -> None:
    envs = ("Acrobot-v1", "CartPole-v1", "CartPole-v1", "CartPole-v1", "Acrobot-v1", "CartPole-v1")
    rows = [
        make_row(f"{at}.zip", env=Cell(env), mean_reward=Cell(str(at), at), gamma=Cell(str(at), at))
        for at, env in enumerate(envs)
    ]
    open_table(browser, tmp_path, rows)

    def list_files() -> list[str]:
        return [point.partition(".")[0] for point in list_points(browser)]

    assert list_files() == ["1", "2", "3", "5"]
    assert describe_chart(browser) == "Training reward over gamma in CartPole-v1: 4 of 4 files"
    set_filter(browser, "env:acrobot")
    assert list_files() == ["0", "4"]  # the only environment of the rows that are left
    set_filter(browser, "gamma>=0")
    choose(browser, "chart-env", "0")
    assert list_files() == ["0", "4"]
    choose(browser, "chart-env", "")
    assert sorted(list_files()) == ["0", "1", "2", "3", "4", "5"]
    open_table(browser, tmp_path, [row._replace(cells={**row.cells, "env": Cell("A")}) for row in rows])
    assert not browser.run('return document.getElementById("chart-env").checkVisibility()')


def test_file_algorithm_environment_and_reward_fit_a_phone(browser: Browser, tmp_path: Path) -> None:
    rows = [
        make_row(
            f"logs/ppo/{env}_{at}/best_model.zip",
            algorithm=Cell("RecurrentPPO" if at else "PPO"), env=Cell(env), seed=Cell(str(at), at),
            best_evaluation=Cell(str(at), -1000.25 - at), gamma=Cell(str(at), at),
        )
        for at, env in enumerate(("CartPole-v1", "Acrobot-v1", "Pendulum-v1"))
    ]  # fmt: skip
    open_table(browser, tmp_path, rows, width=NARROW)
    assert list_titles(browser)[:4] == ["File", "Algorithm", "Environment", "Best evaluation"]
    right = browser.run("""
        const box = document.querySelector(".many");
        const cell = document.querySelector('#files [data-key="best_evaluation"]');
        return box.getBoundingClientRect().right - cell.getBoundingClientRect().right""")
    assert right >= 0
    browser.run('document.querySelector(".many").scrollLeft = 1000')
    assert browser.run('return document.querySelector("#files tbody th").getBoundingClientRect().left') < NARROW / 4
