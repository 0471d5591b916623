"""The page "Try it" in a browser: what it shows of honest, damaged and hostile files, and what it requests."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.helpers import attacks
from tests.helpers.browser import NARROW, WIDE, serve, wait_for
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed
from tests.helpers.hostile_archives import DIRECTIONS, MARKUP, hostile_archive
from tests.helpers.site_hooks import load_hook
from tests.helpers.vector_files import write_vector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.helpers.browser import Browser, Site

PAGE: Final = "try/index.html"
CLEAN, DANGEROUS = 0, 1
"""The samples of the page."""
SLIDER: Final = """
    const slider = document.querySelector("#result input[type=range]");
    slider.value = arguments[0] === "high" ? slider.max : slider.min;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
"""
SENDING: Final = """
    const [address, done] = arguments;
    const source = `
      onmessage = async ({data}) => {
        const ways = {
          fetch: () => fetch(data, {mode: "no-cors"}),
          import: () => import(data),
          request: () => {
            const request = new XMLHttpRequest();
            request.open("GET", data, false);
            request.send();
          },
          eval: () => eval("1"),
        };
        const worked = [];
        for (const [name, way] of Object.entries(ways)) {
          try { await way(); worked.push(name); } catch {}
        }
        postMessage(worked);
      };`;
    const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})), {type: "module"});
    worker.onerror = () => done(null);
    worker.onmessage = ({data}) => done(data);
    worker.postMessage(address);
"""
"""What a worker of the page can send to another address, and whether it can run text as code."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with the page."""
    hook = load_hook("try_page")
    modules = hook.find_modules()
    if modules is None:
        pytest.skip("SBFORMAT_NODE_MODULES names no folder with pyodide")
    out = tmp_path_factory.mktemp("site")
    for name, content in hook.make_files(modules).items():
        path = out / "try" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with serve(out) as served:
        yield served


@pytest.fixture
def page(browser: Browser, site: Site) -> Browser:
    """The page, after Python was loaded."""
    browser.open(site.address + PAGE)
    wait_for(lambda: "Ready" in read_state(browser))
    return browser


def read_state(page: Browser) -> str:
    return str(page.run('return document.getElementById("state").textContent'))


def read_result(page: Browser) -> str:
    return str(page.run('return document.getElementById("result").textContent'))


def wait_until_done(page: Browser) -> str:
    """Wait until a file was examined; return the text about it."""
    wait_for(lambda: page.run('return document.getElementById("progress").hidden'))
    assert read_state(page).endswith(("done.", "choose an agent."))
    return read_result(page)


def choose_sample(page: Browser, number: int) -> str:
    page.run('document.getElementById("result").replaceChildren()')
    page.run('document.querySelectorAll(".sample")[arguments[0]].click()', number)
    wait_for(lambda: page.run('return document.getElementById("result").children.length'))
    return wait_until_done(page)


def choose(page: Browser, path: Path, field: str = "files") -> str:
    """Choose a file, or a folder, as with the dialog of the browser."""
    page.run('document.getElementById("result").replaceChildren()')
    page.driver.find_element("id", field).send_keys(str(path))
    wait_for(lambda: page.run('return document.getElementById("result").children.length'))
    return wait_until_done(page)


def press(page: Browser, button: str) -> str:
    """Press a button of the result by its text; return the text about what it asks for."""
    page.driver.find_element("xpath", f"//*[@id='result']//button[.='{button}']").click()
    return wait_until_done(page)


def has_slider(page: Browser) -> bool:
    return bool(page.run('return document.querySelector("#result input[type=range]") !== null'))


def list_severe(page: Browser) -> list[str]:
    """What is written to the console, but that the host of numpy cannot be reached from here."""
    return [line for line in page.list_console() if "SEVERE" in line and "cdn.jsdelivr.net" not in line]


def test_a_clean_agent_acts(page: Browser, site: Site) -> None:
    text = choose_sample(page, CLEAN)
    for part in (
        "clean",
        "PPO",
        "2.9.2",
        "4 -> 8 -> 8 -> 2 Tanh",
        "n_steps",
        "32  (default 2048)",
        "action_net.weight",
    ):
        assert part in text
    assert page.run('return document.querySelectorAll(".diagram .box").length') == 9
    answers = []
    for end in ("low", "high"):
        page.run(SLIDER, end)
        answers.append(page.run('return document.querySelector(".actions-answer").textContent'))
    assert answers[0] != answers[1]
    assert list_severe(page) == []
    assert [address for address in page.list_requests() if not address.startswith(site.address)] == []


def test_a_dangerous_file_is_shown_without_actions(page: Browser) -> None:
    text = choose_sample(page, DANGEROUS)
    for part in ("dangerous (harmful)", "os.system is imported", "data:lr_schedule at byte 2", "4 -> 8 -> 8 -> 2 Tanh"):
        assert part in text
    assert "Actions are computed here for clean files" in text
    assert page.run('return document.querySelector("#result input")') is None
    assert list_severe(page) == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_fits_the_window(
    browser: Browser, site: Site, axe: None, width: int, scheme: Any
) -> None:
    browser.open(site.address + PAGE, width=width, scheme=scheme)
    wait_for(lambda: "Ready" in read_state(browser))
    for number in (CLEAN, DANGEROUS):
        choose_sample(browser, number)
        browser.run('document.querySelectorAll("details").forEach((part) => { part.open = true; })')
        assert browser.find_overflow() == []
        assert browser.find_violations() == []
        if width == WIDE:
            assert (
                browser.run("""const table = document.querySelector(".beside .scroll:last-child");
                return table.scrollWidth - table.clientWidth""")
                == 0
            )
        browser.picture(f"try-{number}-{width}-{scheme}")


def test_files_that_are_not_agents_have_a_reason(page: Browser, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_bytes(b"hello")
    (tmp_path / "broken.zip").write_bytes(PPO.read_bytes()[:9000])
    (tmp_path / "bytes.zip").write_bytes(b"\x06\x8e\xff'[" * 900)
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as file:
        file.writestr("notes.txt", "hello")
    assert "expected an archive, got a text file" in choose(page, tmp_path / "text.zip")
    text = choose(page, tmp_path / "broken.zip")
    assert text.count("the end of the zip is missing") == 1
    assert "Actions" not in text
    text = choose(page, tmp_path / "bytes.zip")
    assert "unknown (not an archive of SB3)" in text
    assert "the file \u00b7 unknown-entry" in text
    assert "\ufffd" not in text
    assert "Actions" not in text
    assert "clean (not an archive of SB3)" in choose(page, tmp_path / "notes.zip")
    assert page.run('return document.querySelector(".verdict-clean")') is None
    assert "There are none: expected an agent" in choose(page, ARCHIVES / "replay-buffer-cartpole.pkl")
    assert list_severe(page) == []


def test_a_folder_is_examined_as_one_run(page: Browser, tmp_path: Path) -> None:
    run = tmp_path / "a run"
    for name, source in (("best_model.zip", PPO), ("old/..x &.zip", ARCHIVES / "dangerous.zip")):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(source.read_bytes())
    text = choose(page, run, "folder")
    assert "best_model.zip" in text
    assert "dangerous (harmful)" in text
    assert "old/..x__.zip" in text
    (run / "old" / "..x &.zip").unlink()
    text = choose(page, run, "folder")
    assert "The agent is 'best_model.zip'" in text
    assert has_slider(page)


def test_one_of_several_agents_is_chosen(page: Browser, tmp_path: Path) -> None:
    for name, source in (("a.zip", PPO), ("b.zip", SAC), ("c.zip", ARCHIVES / "dangerous.zip")):
        (tmp_path / name).write_bytes(source.read_bytes())
    text = choose(page, tmp_path, "folder")
    assert "There are 3 agents" in text
    assert "a.zip clean" in text
    assert not has_slider(page)
    for name, shown, acts in (("a.zip", "PPO", True), ("c.zip", "PPO", False), ("b.zip", "SAC", True)):
        text = press(page, name)
        assert f"The agent is '{name}'" in text
        assert shown in text
        assert text.count("What it is") == text.count("Actions are computed") + text.count("Sample the action") == 1
        assert has_slider(page) == acts
    page.run('document.querySelectorAll(".sample")[0].click()')
    page.run('document.getElementById("stop").click()')
    assert page.run('return document.querySelectorAll("#result .asks button:enabled").length') == 0
    assert list_severe(page) == []


def test_statistics_need_numpy_and_what_does_not_is_shown(page: Browser, tmp_path: Path) -> None:
    (tmp_path / "best_model.zip").write_bytes((ARCHIVES / "sac-pendulum.zip").read_bytes())
    (tmp_path / "vecnormalize.pkl").write_bytes((ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes())
    text = choose(page, tmp_path, "folder")
    assert "its statistics 'vecnormalize.pkl'" in text
    assert "3 -> 8 -> 8 -> 1 ReLU" in text
    assert "which could not be loaded" in text
    text = press(page, "Without statistics")
    assert "enter normalized observations" in text
    assert has_slider(page)


def test_a_dropped_file_is_examined(page: Browser) -> None:
    page.run("""
        const dropped = new DataTransfer();
        dropped.items.add(new File(["hello"], "a\\u202ename.zip"));
        const event = new DragEvent("drop", {bubbles: true, dataTransfer: dropped});
        document.getElementById("drop").dispatchEvent(event);""")
    wait_for(lambda: "text file" in read_result(page))
    assert "a\\u{202e}name.zip" in read_result(page)


def test_hostile_files_do_nothing(page: Browser, site: Site, tmp_path: Path) -> None:
    files = {
        "markup": hostile_archive(),
        "infinite": hostile_archive(float("inf")),
        "payload": attacks.in_blob(attacks.PAYLOAD),
        "entry": changed(policy_pth=b"PK broken"),
        "version": changed(_stable_baselines3_version=MARKUP[0].encode()),
    }
    for name, content in files.items():
        (tmp_path / f"{name}{DIRECTIONS[:4]}<b>.zip").write_bytes(content)
        choose(page, tmp_path / f"{name}{DIRECTIONS[:4]}<b>.zip")
        page.run('document.querySelectorAll("details").forEach((part) => { part.open = true; })')
        page.run(
            'document.querySelectorAll("body *").forEach((part) => part.dispatchEvent(new MouseEvent("mouseover")))'
        )
        assert page.run("return window.attacked") is None
        assert page.find_overflow() == []
        assert page.run('return document.querySelectorAll("#result :is(img, script, iframe, base, form)").length') == 0
        assert (
            page.run("""return [...document.querySelectorAll("#result *")].some((part) => part.getAttributeNames()
            .some((name) => name.startsWith("on")))""")
            is False
        )
        assert page.driver.current_url == site.address + PAGE
    assert list_severe(page) == []
    assert [address for address in page.list_requests() if not address.startswith(site.address)] == []


def test_the_policy_of_the_page_applies_to_its_workers(page: Browser, tmp_path: Path) -> None:
    targets = page.driver.execute_cdp_cmd("Target.getTargets", {})["targetInfos"]
    assert {target["url"][:5] for target in targets if target["type"] == "worker"} == {"blob:"}
    with serve(tmp_path) as other:
        assert page.driver.execute_async_script(SENDING, other.address) == []
        assert other.requests == []


def test_a_changed_file_is_not_used(browser: Browser, site: Site, tmp_path: Path) -> None:
    hook = load_hook("try_page")
    for name, content in hook.make_files(hook.find_modules()).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content + b"\0" if name == "sbformat.zip" else content)
    with serve(tmp_path) as served:
        browser.open(f"{served.address}index.html")
        wait_for(lambda: "could not be loaded" in read_state(browser))


def test_after_a_file_that_ends_python_another_one_is_examined(page: Browser) -> None:
    page.driver.find_element("id", "files").send_keys(str(write_vector("pickle-deep-tuples-that-are-dropped")))
    wait_for(lambda: "nested too deeply for the page" in read_state(page))
    assert "clean" in choose_sample(page, CLEAN)


def test_what_takes_too_long_can_be_stopped(browser: Browser, site: Site) -> None:
    browser.open(site.address + PAGE)
    browser.run('document.querySelector(".sample").click()')
    wait_for(lambda: not browser.run('return document.getElementById("stop").hidden'))
    browser.run('document.getElementById("stop").click()')
    assert read_state(browser) == "Stopped."
    assert "clean" in choose_sample(browser, CLEAN)


def test_without_pyodide_the_page_says_so(browser: Browser, tmp_path: Path) -> None:
    for name, content in load_hook("try_page").make_files(None).items():
        (tmp_path / name).write_bytes(content)
    with serve(tmp_path) as served:
        browser.open(f"{served.address}index.html")
        wait_for(lambda: "built without Pyodide" in read_state(browser))
        assert browser.run('return document.querySelectorAll("#drop button:enabled").length') == 0
        assert browser.run('return document.querySelector("#state a").getAttribute("href")').startswith("../contrib")
        assert list_severe(browser) == []
