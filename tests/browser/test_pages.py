"""Pages of reports in the browser: of one, two and more files, honest and hostile, narrow and wide, light and dark."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from tests.helpers import attacks
from tests.helpers.browser import NARROW, WIDE
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, with_data
from tests.helpers.hostile_archives import DIRECTIONS, LONG, MARKUP, archive_with_tensors, hostile_archive
from tests.helpers.make_pictures import ALL, MOST_BYTES, make_pictures
from tests.helpers.run_folders import make_evaluations, make_folder
from tests.helpers.sb2_files import AGENTS
from tests.helpers.shared_files import CORPUS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.browser import Browser

NAME: Final = "<b onmouseover=attack()>'\u202e$x$.zip"
"""A name of a file."""
MONITOR: Final = f"#{json.dumps({'env_id': f'{MARKUP}{LONG}'})}\nr,l,t\n1,2,3\n-4e9,200000,6\n".encode()
LIMITS: Final = sbformat.Limits(
    memory_bytes=1 << 30, tensors=200_000, leaves=300_000, pickle_nodes=3_000_000, pickle_opcodes=20_000_000,
    pickle_stack=1_000_000, reported_values=1_000_000,
)  # fmt: skip
"""Limits that let 100,000 tensors pass."""


def make_runs(folder: Path) -> None:
    """Write six runs of two environments, with logs, rewards, and statistics of VecNormalize beside three of them."""
    statistics = {"vecnormalize.pkl": (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()}
    for at in range(6):
        episodes = [{"r": 10.0**at, "l": 5}, {"r": -1.0, "l": 1}]
        changes = {"ep_info_buffer": episodes, "seed": at, "num_timesteps": 10**at}
        results = np.array([[1.0], [float(at)], [5.0]])
        settings = f"algo: ppo\nenv: {'Pong' if at % 2 else repr(NAME)}\nseed: {at}\n".encode()
        files = {
            "best_model.zip": with_data(functools.partial(dict.update, **changes)),
            "evaluations.npz": make_evaluations(results=results),
            "args.yml": settings,
        }
        make_folder(folder / f"ppo-{at}", files | (statistics if at % 2 else {}))


def list_sources(kind: str, folder: Path) -> list[Any]:
    """The files of a page."""
    bundled = [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip", ARCHIVES / "vecnormalize-pendulum.pkl"]
    (folder / "broken.zip").write_bytes(PPO.read_bytes()[:9000])
    (folder / "dangerous.zip").write_bytes(attacks.in_blob(attacks.PAYLOAD))
    if kind.startswith("hostile"):
        for index, name in enumerate(("a.zip", NAME, f"{'n' * 200}.zip")):
            (folder / name).write_bytes(hostile_archive(1 + index))
        count = {"hostile-1": 1, "hostile-2": 2, "hostile-3": 3}[kind]
        return [folder / name for name in ("a.zip", NAME, f"{'n' * 200}.zip")][-count:]
    if kind == "training":
        logs = {"0.monitor.csv": MONITOR, "progress.csv": b"steps,eval/mean_reward\n1e6,-2e9\n2e6,3\n"}
        make_folder(folder / "run", {"agent.zip": PPO.read_bytes(), "evaluations.npz": b"PK broken", **logs})
        return [folder / "run" / "agent.zip"]
    if kind == "runs":
        make_runs(folder)
        return sorted(folder.glob("ppo-*/*.[zp]*"))
    sources: dict[str, list[Any]] = {
        "agent": [PPO],
        "off-policy": [SAC],
        "statistics": bundled[3:],
        "replay-buffer": [ARCHIVES / "replay-buffer-cartpole.pkl"],
        "broken": [folder / "broken.zip"],
        "broken-entry": [changed(policy_pth=b"PK broken")],
        "dangerous": [folder / "dangerous.zip"],
        "two": [PPO, changed(policy_pth=sbformat.read(bundled[2]).raw("policy.pth"))],
        "two-algorithms": [PPO, SAC],
        "two-one-broken": [folder / "broken.zip", folder / "dangerous.zip"],
        "lone-policy": [ARCHIVES / "policy-box.pth"],
        "sb2": [AGENTS / "ppo2-elu-box64.zip"],
        "many": [*bundled, folder / "broken.zip", folder / "dangerous.zip"],
    }
    return sources[kind]


KINDS: Final = (
    "agent", "off-policy", "statistics", "replay-buffer", "broken", "broken-entry", "dangerous", "two",
    "two-algorithms", "two-one-broken", "many", "runs", "lone-policy", "sb2", "training",
    "hostile-1", "hostile-2", "hostile-3",
)  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A kind of page, and its path."""
    folder = tmp_path_factory.mktemp(request.param)
    output = folder / "page.html"
    sbformat.report(list_sources(request.param, folder), output)
    return request.param, output


def open_all_details(browser: Browser) -> None:
    browser.run('document.querySelectorAll("details").forEach((part) => { part.open = true; })')


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_page_is_accessible_and_fits_the_window(
    browser: Browser, axe: None, page: tuple[str, Path], width: int, scheme: Any
) -> None:
    kind, path = page
    browser.open(path, width=width, scheme=scheme)
    picture = browser.picture(f"{kind}-{width}-{scheme}")
    assert len(picture) > 5000
    open_all_details(browser)
    assert browser.find_overflow() == []
    assert browser.find_violations() == []
    assert browser.list_console() == []
    assert browser.list_requests() == []


def test_light_and_dark_differ(browser: Browser, page: tuple[str, Path]) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.open(page[1], scheme=scheme)  # type: ignore[arg-type]
        script = "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
        colours.append(browser.run(script))
    assert sum(map(int, colours[0][0][4:-1].split(", "))) > 600
    assert sum(map(int, colours[1][0][4:-1].split(", "))) < 150
    assert sum(map(int, colours[0][1][4:-1].split(", "))) < 200
    assert sum(map(int, colours[1][1][4:-1].split(", "))) > 500


def test_a_page_prints_black_on_white_and_within_the_paper(browser: Browser, page: tuple[str, Path]) -> None:
    kind, path = page
    browser.open(path, width=WIDE, scheme="dark", media="print")
    assert browser.run("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    browser.open(path, width=1000 if kind in ("many", "runs", "hostile-3") else 700, media="print")
    assert browser.find_overflow() == []
    assert browser.print_pages(kind)[:5] == b"%PDF-"
    assert browser.list_console() == []


def test_a_hostile_file_does_nothing(browser: Browser, page: tuple[str, Path]) -> None:
    kind, path = page
    browser.open(path)
    open_all_details(browser)
    browser.run(
        'document.querySelectorAll("body *").forEach((part) => part.dispatchEvent(new MouseEvent("mouseover")))'
    )
    assert browser.run("return window.attacked") is None
    scripts = {"many": 1, "hostile-3": 1, "runs": 2}.get(kind, 0)
    assert browser.run('return document.querySelectorAll("script").length') == scripts
    assert browser.run('return document.querySelectorAll("img, iframe, object, embed, base, link, form").length') == 0
    assert (
        browser.run("""return [...document.querySelectorAll("body *")].some((part) => part.getAttributeNames()
        .some((name) => name.startsWith("on") || name === "style"))""")
        is False
    )
    assert browser.driver.current_url == path.as_uri()
    assert browser.list_console() == []
    assert browser.list_requests() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_layer_is_opened_and_closed_with_keys(
    browser: Browser, axe: None, tmp_path: Path, width: int, scheme: Any
) -> None:
    from selenium.webdriver.common.keys import Keys

    find_open = 'return [...document.querySelectorAll(":popover-open")].map((panel) => panel.textContent)'
    sbformat.report(PPO, tmp_path / "page.html")
    browser.open(tmp_path / "page.html", width=width, scheme=scheme)
    assert browser.run(find_open) == []
    browser.run('document.querySelector(".diagram button").focus()')
    browser.press(Keys.ENTER)
    (text,) = browser.run(find_open)
    for part in ("mlp_extractor.policy_net.0.weight", "4 \u2192 8", "standard deviation"):
        assert part in text
    box = browser.run("""
        const shown = document.querySelector(":popover-open use").getBoundingClientRect();
        return [shown.width, shown.height]""")
    assert min(box) > 40
    browser.picture(f"layer-{width}-{scheme}", whole=False)
    assert browser.find_violations() == []
    assert browser.find_overflow() == []
    browser.press(Keys.TAB, Keys.ENTER)
    assert browser.run(find_open) == []
    browser.press(Keys.ENTER)
    assert len(browser.run(find_open)) == 1
    browser.press(Keys.ESCAPE)
    assert browser.run(find_open) == []
    assert browser.run("return document.activeElement.title") == "mlp_extractor.policy_net.0: details"
    browser.run('document.querySelectorAll(".diagram button")[3].click()')
    assert "mlp_extractor.value_net" in browser.run(find_open)[0]
    assert browser.list_console() == []


@pytest.mark.parametrize("count", [1, 2])
def test_hostile_text_is_shown_as_it_is(browser: Browser, tmp_path: Path, count: int) -> None:
    sbformat.report(list_sources(f"hostile-{count}", tmp_path), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    text = browser.run("return document.body.textContent").replace("\u200b", "")
    assert [markup for markup in MARKUP if markup not in text] == []
    shown = browser.run("return document.documentElement.outerHTML")
    assert [character for character in DIRECTIONS if not character.isprintable() and character in shown] == []
    assert "\\u202e" in text
    assert LONG not in text
    assert LONG[:200] in text


@pytest.fixture(scope="module")
def many_tensors(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two archives with a hundred thousand tensors."""
    folder = tmp_path_factory.mktemp("tensors")
    for index in range(2):
        (folder / f"{index}.zip").write_bytes(archive_with_tensors(100_000, offset=index))
    return [folder / "0.zip", folder / "1.zip"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_hundred_thousand_tensors_make_a_small_page(
    browser: Browser, tmp_path: Path, many_tensors: list[Path], count: int
) -> None:
    written = sbformat.report([*many_tensors[:count], PPO][:count], tmp_path / "page.html", limits=LIMITS)
    assert written.broken == ()
    assert written.nbytes < 3_000_000
    browser.open(tmp_path / "page.html", width=NARROW)
    text = browser.run("return document.body.textContent")
    assert {1: "100,000 tensors", 2: "more, which are not listed", 3: "All 3 files"}[count] in text
    assert browser.find_overflow() == []
    assert browser.list_console() == []


def test_the_usual_limits_refuse_a_hundred_thousand_tensors(
    browser: Browser, tmp_path: Path, many_tensors: list[Path]
) -> None:
    written = sbformat.report(many_tensors[0], tmp_path / "page.html")
    assert written.broken == (str(many_tensors[0]),)
    browser.open(tmp_path / "page.html")
    assert "limit exceeded" in browser.run("return document.body.textContent")
    assert browser.list_console() == []


@pytest.mark.skipif(not CORPUS.exists(), reason="the archives of others are not there")
def test_a_page_about_a_hundred_real_files(browser: Browser, axe: None, tmp_path: Path) -> None:
    sources = sorted((CORPUS / "sb3").glob("*.zip*"))[:100]
    sbformat.report(sources, tmp_path / "page.html")
    for width in (NARROW, WIDE):
        browser.open(tmp_path / "page.html", width=width)
        browser.picture(f"hundred-{width}")
        assert browser.find_overflow() == []
        assert browser.find_violations() == []
        assert browser.list_console() == []


def test_the_pictures_of_the_documentation_can_be_made_again(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ARCHIVES)
    make_pictures(tmp_path)
    sizes = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == set(ALL)
    assert 5000 < min(sizes.values()) <= max(sizes.values()) < MOST_BYTES
