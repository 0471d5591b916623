"""The documentation site: built without warnings, links that lead somewhere, nothing loaded from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

import pytest

import sbformat
from sbformat.cli import build_parser
from sbformat.tools.scan import RULES
from sbformat.tools.scan.sarif import render_sarif
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC
from tests.helpers.programs import import_from
from tests.helpers.site_hooks import load_hook

SITE: Final = "https://sbformat.github.io/sbformat/"
CONFIGURATION: Final = (ROOT / "mkdocs.yml").read_text("utf-8")


# -- what the hooks write, without MkDocs ---------------------------------------------------------------


def test_lists_are_those_of_github() -> None:
    source = (
        "Rules:\n- a\n  more\n- b\n\n1. one\n   - nested\n\n   ```\n   - code\n   ```\n2. two\n\n"
        "text of 2.5 and\n3. lines"
    )
    expected = (
        "Rules:\n\n- a\n    more\n- b\n\n1. one\n    - nested\n\n    ```\n    - code\n    ```\n2. two\n\n"
        "text of 2.5 and\n3. lines"
    )
    assert load_hook("github_markdown").normalize_lists(source) == expected


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("architecture.md", "../schema/FORMAT.md", "format.md"),
        ("export/README.md", "../../schema/FORMAT.md", "../format.md"),
        ("export/README.md", "c.md", "c.md"),
        ("format.md", "data.schema.json", "https://github.com/sbformat/sbformat/blob/main/schema/data.schema.json"),
        ("contributing.md", "docs/architecture.md", "architecture.md"),
        ("contributing.md", "docs/decisions/README.md", "decisions/README.md"),
        ("contributing.md", "CHANGELOG.md", "changelog.md"),
        ("index.md", "nowhere.md", "nowhere.md"),
    ],
)
def test_links_lead_to_the_page_or_to_the_file(page: str, link: str, expected: str) -> None:
    pages = load_hook("site_pages")
    assert pages.resolve_link(link, page, pages.list_pages()) == expected


def test_code_is_not_changed() -> None:
    page = "```python\nx = y[0](schema)\n- a\n```\n"
    assert load_hook("site_pages").convert_page(page, "contributing.md", []) == page


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"^ +- (?:[^:\n]*: )?(\S+\.md)$", CONFIGURATION.partition("\nnav:\n")[2], re.MULTILINE))
    pages = {page for page in load_hook("site_pages").list_pages() if "decisions/0" not in page}
    assert pages - listed == set()


def test_section_numbers_of_the_format_are_links() -> None:
    pages = load_hook("site_pages")
    page = pages.convert_page(
        "see section 8, (12.6), 9.5 (2 more), `(3.1)`\n```\nsection 8\n```", "format.md", list(pages.PAGES)
    )
    assert "[section 8](#8-limits), ([12.6](format/writer.md#126-an-archive-as-safetensors)), 9.5 (" in page
    assert page.endswith("```\nsection 8\n```")


def test_the_format_has_the_day_of_its_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = load_hook("site_pages")
    text = (ROOT / "schema" / "FORMAT.md").read_text("utf-8")
    assert "\nVersion 1.0, as of 2026-01-31.\n" in pages.add_date(text, "2026-01-31")
    assert pages.add_date(text, "") == text
    assert re.fullmatch(r"(\d{4}-\d\d-\d\d)?", pages.read_date())
    monkeypatch.setenv("PATH", "")
    assert pages.read_date() == ""


def test_the_commands_are_complete() -> None:
    page = load_hook("command_reference").render_commands()
    commands = build_parser().commands
    assert re.findall(r"^## (\S+)$", page, re.MULTILINE) == list(commands)
    for command in commands.values():
        for action in command._actions:
            for option in action.option_strings if action.dest != "help" else ():
                assert re.search(rf"`[^`]*{re.escape(option)}\b[^`]*` \|", page), option
    assert "%(" not in page


def test_the_limits_are_complete() -> None:
    page = load_hook("limit_reference").render_limits()
    rows = re.findall(r"^\| <span id=\"(\w+)\">.* \| (.+) \| (.+) \|$", page, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(sbformat.Limits._fields)
    assert ("memory_bytes", "40 MiB") in [(name, default) for name, default, _ in rows]


def test_every_rule_has_a_heading_where_sarif_leads_to() -> None:
    page = load_hook("rule_reference").render_rules()
    log = render_sarif([], {"counts": {}}, version="1", exit_code=0)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    headings = re.findall(r"^## (\S+)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(RULES)
    assert {rule["helpUri"] for rule in rules} == {f"{SITE}reference/rules/#{heading}" for heading in headings}
    assert [f"[`{rule['id']}`]" for rule in rules if f"[`{rule['id']}`]" not in page] == []
    assert "| dangerous | error | 9.8 (critical) |" in page


def test_every_public_name_is_in_the_api() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    listed = re.findall(r"^::: sbformat\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted({*sbformat.__all__, "unsafe", "sb3"} - {"__version__"})


def test_the_members_that_the_api_lists_exist() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text("utf-8")
    lists = re.findall(r"^::: sbformat\.(\w+)\n    options:\n      members: \[(.*)\]$", page, re.MULTILINE)
    assert len(lists) >= 2
    for name, members in lists:
        cls = getattr(sbformat, name)
        known = {*dir(cls), *getattr(cls, "__annotations__", {})}
        assert set(members.split(", ")) - known == set()


# -- the page "Try it" ----------------------------------------------------------------------------------

READ: Final = """
import sys
sys.modules |= dict.fromkeys(("jsonschema", "numpy", "safetensors"))
sys.path.insert(0, sys.argv[1])
import summary
for work in (summary.scan, summary.describe, summary.act):
    print(work(sys.argv[2]).replace("\\n", ""))
"""
"""What the worker of the page does, without packages that it does not have."""


def test_the_page_has_the_digest_of_every_file_that_it_loads() -> None:
    hook = load_hook("try_page")
    files = hook.make_files(None)
    assert files == hook.make_files(None)
    loaded = json.loads(files["files.js"].decode().partition("=")[2].rstrip(";\n"))
    assert loaded == {name: hook.digest(files[name]) for name in files.keys() - {"files.js", "index.html"}}
    page = files["index.html"].decode()
    tags = re.findall(r'<(?:script|link)[^>]* (?:src|href)="(?!data:)([^"]+)"(?: integrity="([^"]+)")?', page)
    assert {name for name, _ in tags} == {name for name in files if name.endswith((".js", ".css"))} - {"worker.js"}
    assert tags == [(name, hook.digest(files[name])) for name, _ in tags]


def test_the_page_allows_only_its_own_files() -> None:
    page = load_hook("try_page").make_files(None)["index.html"].decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    directives = dict(directive.split(" ", 1) for directive in policy.split("; "))
    assert directives == {
        **dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'"),
        "script-src": "'self' 'wasm-unsafe-eval'",
        "worker-src": "blob:",
        "connect-src": "'self' https://cdn.jsdelivr.net/pyodide/",
        "style-src": "'self'",
        "img-src": "'self' data:",
    }
    assert re.findall(r"<style|<script(?! type=\"module\" src=)|<[^>]* (?:style|on\w+)=", page) == []


def test_another_file_of_pyodide_ends_the_build(tmp_path: Path) -> None:
    hook = load_hook("try_page")
    (tmp_path / "pyodide").mkdir()
    for name in hook.PYODIDE["files"]:
        (tmp_path / "pyodide" / name).write_bytes(b"changed")
    with pytest.raises(ValueError, match=f"is not the file of pyodide {hook.PYODIDE['version']}"):
        hook.make_files(tmp_path)


def test_the_build_says_that_pyodide_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = load_hook("try_page")
    caplog.set_level("INFO", "mkdocs")
    monkeypatch.delenv(hook.NODE_MODULES, raising=False)
    assert hook.find_modules() is None
    monkeypatch.setenv(hook.NODE_MODULES, str(tmp_path))
    assert hook.find_modules() is None
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]  # --strict refuses the second
    assert str(tmp_path) in caplog.messages[1]
    (tmp_path / "pyodide").mkdir()
    assert hook.find_modules() == tmp_path
    assert f"pyodide@{hook.PYODIDE['version']}\n" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_without_pyodide_the_page_has_no_button_to_press() -> None:
    page = load_hook("try_page").make_files(None)["index.html"].decode()
    drop = page.partition('id="drop"')[2].partition('class="state"')[0]
    assert drop.count("<button") == drop.count('<button type="button" disabled') == 4


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The functions of the worker, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    module = import_from(ROOT / "docs" / "try", "summary")
    module.clear(str(tmp_path / "dropped"), "1")
    return module


def write_run(**files: bytes) -> None:
    """Write files into a folder ``run``: ``a_zip`` is ``a.zip``."""
    for name, content in files.items():
        path = Path("run", ".".join(name.rsplit("_", 1)))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def test_one_of_several_agents_is_shown_with_its_statistics(summary: Any) -> None:
    statistics = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
    write_run(a_zip=PPO.read_bytes(), b_zip=SAC.read_bytes(), vecnormalize_b_pkl=statistics)
    assert json.loads(summary.describe("run")) == {"agents": ["a.zip", "b.zip"]}
    shown = json.loads(summary.describe("run", "b.zip"))
    assert shown["loaded"] == [os.path.join("run", name) for name in ("b.zip", "vecnormalize_b.pkl")]
    assert shown["has_policy"]
    for choice, expected in ((None, "true"), (False, "false")):
        actions = json.loads(summary.act("run", "b.zip", choice))
        assert actions["program"]["metadata"]["normalized"] == expected
        assert [("enter normalized" in remark) for remark in actions["remarks"]] == [True] * (choice is False)
    assert json.loads(summary.act("run", "a.zip"))["program"]["metadata"]["normalized"] == "false"


def test_statistics_that_are_not_certain_are_a_choice(summary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    statistics = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()
    write_run(best_model_zip=SAC.read_bytes(), vecnormalize_pkl=statistics, config_yml=b"normalize: true\n")
    answer = json.loads(summary.act("run"))
    assert answer["choices"] == [False, True]
    assert "it is not known whether the agent was trained with 'vecnormalize.pkl'" in answer["error"]
    for choice in answer["choices"]:
        program = json.loads(summary.act("run", "", choice))["program"]
        assert program["metadata"]["normalized"] == json.dumps(choice)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x06\x8e\xff'[" * 9, "expected an archive, got a file of a type that sbformat does not know"),
        (b"\x89PNG\r\n\x1a\n", "expected an archive, got a picture (PNG)"),
        (b"hello", "expected an archive, got a text file: if it is a download, download it again"),
    ],
)
def test_the_bytes_of_another_file_are_not_shown(summary: Any, content: bytes, expected: str) -> None:
    write_run(agent_zip=content)
    assert json.loads(summary.describe("run/agent.zip")) == {"error": expected}


def test_each_folder_is_listed_anew(summary: Any, tmp_path: Path) -> None:
    logs = b'#{"t_start": 0, "env_id": "CartPole-v1"}\nr,l,t\n1.5,2,0.1\n'
    pages = []
    for name, files in (("2", {}), ("3", {"monitor_csv": logs})):
        summary.clear(str(tmp_path / "dropped"), name)
        write_run(best_model_zip=PPO.read_bytes(), **files)
        pages.append(summary.describe("run"))
    assert ["monitor" in page for page in pages] == [False, True]
    assert os.listdir(tmp_path / "dropped") == ["3"]


def test_what_the_page_shows_needs_no_other_package() -> None:
    run = subprocess.run(
        [sys.executable, "-c", READ, str(ROOT / "docs" / "try"), "tests/archives/ppo-cartpole.zip"],
        cwd=ROOT, check=True, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    scan, contents, actions = map(json.loads, run.stdout.splitlines())
    assert [file["verdict"] for file in scan["files"]] == ["clean"]
    changed = "hyper-parameters that differ from the defaults of PPO in SB3 2.9"
    assert [title for title, _, _ in contents["page"]] == ["summary", "network", "training", changed]
    assert [title for title, _, _ in contents["details"] if title.startswith("policy.pth")] != []
    assert len(contents["diagram"]["boxes"]) == 9
    assert actions["program"]["outputs"][0]["name"] == "action"


# -- the site -------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The links, the anchors and the resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if "src" in values:
            self.loaded.add(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "preload", "icon"):
            self.loaded.add(values["href"])


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, after ``mkdocs build --strict``."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    out = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)], cwd=ROOT, check=False, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}, capture_output=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return out


@pytest.fixture(scope="module")
def site(site_folder: Path) -> dict[str, Page]:
    """The pages of the site, by address."""
    return {address_of(path, site_folder): Page(path.read_text("utf-8")) for path in site_folder.rglob("*.html")}


def address_of(path: Path, out: Path) -> str:
    """The address of a file of the site."""
    return SITE + path.relative_to(out).as_posix().removesuffix("index.html")


def test_links_lead_to_pages_and_anchors(site: dict[str, Page]) -> None:
    checked, broken = 0, []
    for address, page in site.items():
        for link in () if address.endswith("404.html") else page.links:
            target, fragment = urldefrag(urljoin(address, link))
            if target.startswith(SITE) and not target.endswith((".xml", ".inv", ".schema.json")):
                checked += 1
                found = site.get(target)
                if found is None or (fragment and unquote(fragment) not in found.anchors and fragment != "__skip"):
                    broken.append(f"{address}: {link}")
    assert broken == []
    assert checked > 1000


def test_the_schemas_are_at_their_addresses(site_folder: Path, site: dict[str, Page]) -> None:
    schemas = load_hook("site_pages").SCHEMAS
    for path in schemas:
        address = json.loads((ROOT / path).read_bytes())["$id"]
        assert address == SITE + path
        assert (site_folder / path).read_bytes() == (ROOT / path).read_bytes()
    links = {urljoin(address, link) for address, page in site.items() for link in page.links}
    linked = {link.partition("#")[0] for link in links if link.endswith(".schema.json")}
    assert len(linked) > 3
    assert linked <= {SITE + path for path in schemas}


def test_links_to_the_repository_lead_to_files(site: dict[str, Page]) -> None:
    links = {link for page in site.values() for link in page.links}
    paths = {link.partition("/blob/main/")[2].partition("#")[0] for link in links if "/sbformat/blob/main/" in link}
    assert len(paths) > 3
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


EXTERNAL: Final = {
    "https://distributed.dask.org/",
    "https://github.com/DLR-RM/rl-trained-agents",
    "https://github.com/DLR-RM/stable-baselines3",
    "https://github.com/java-native-access/jna",
    "https://github.com/pyodide/pyodide",
    "https://imitation.readthedocs.io",
    "https://keepachangelog.com/en/1.1.0/",
    "https://minari.farama.org",
    "https://plugins.jenkins.io/warnings-ng/",
    "https://semver.org/spec/v2.0.0.html",
    "https://squidfunk.github.io/mkdocs-material/",
}
"""Every link to another site. They are not requested: look at a new one once."""


def test_links_to_other_sites_are_listed(site: dict[str, Page]) -> None:
    links = {link for page in site.values() for link in page.links if "://" in link}
    assert {link for link in links if not link.startswith((SITE, "https://github.com/sbformat/sbformat"))} == EXTERNAL


def test_pages_load_nothing_from_elsewhere(site: dict[str, Page]) -> None:
    loaded = {urljoin(address, link) for address, page in site.items() for link in page.loaded}
    assert len(loaded) > 3
    assert [link for link in sorted(loaded) if not link.startswith((SITE, "data:"))] == []


def test_the_api_shows_every_public_name(site: dict[str, Page]) -> None:
    anchors = site[f"{SITE}reference/api/"].anchors
    assert [name for name in sbformat.__all__ if f"sbformat.{name}" not in anchors and name != "__version__"] == []
