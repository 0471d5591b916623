"""Pages load nothing, run nothing of a file, and escape what it contains."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.html_report.weights import MOST_PLOTS
from tests.helpers.bundled import PPO, SAC, changed, with_data

if TYPE_CHECKING:
    from pathlib import Path

JSON = "application/json"
ATTACK = "</td></style></script><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}\u202e\x00"


class Elements(HTMLParser):
    """The elements of a page, with their attributes and their text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        """Of each script and style; of what a browser does not run, by its type."""
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        kind = dict(attrs).get("type") or tag
        self._open.append(kind)
        if tag in ("script", "style"):
            self.texts.setdefault(kind, []).append("")

    def handle_endtag(self, tag: str) -> None:
        names = (tag, JSON) if tag == "script" else (tag,)
        self._open = self._open[: max((at for at, name in enumerate(self._open) if name in names), default=0)]

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style", JSON):
            self.texts[self._open[-1]][-1] += data


def write_page(source: Any, folder: Path, **options: Any) -> str:
    sbformat.report(source, folder / "page.html", overwrite=True, **options)
    return (folder / "page.html").read_text("utf-8").replace("<wbr>", "")


def assert_is_harmless(page: str) -> Elements:
    """The policy allows exactly the page's own style and scripts; nothing refers to anything outside of it."""
    elements = Elements(page)
    policies = [attrs["content"] for tag, attrs in elements.found if attrs.get("http-equiv") is not None]
    assert len(policies) == 1
    assert policies[0] is not None
    directives = dict(part.strip().split(" ", 1) for part in policies[0].split(";"))
    assert directives["default-src"] == "'none'"
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        hashes = {
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in elements.texts.get(tag, [])
        }
        assert hashes == set(directives.get(directive, "").split())
    for tag, attrs in elements.found:
        assert not {name for name in attrs if name.startswith("on") or name in ("style", "src", "action")}, (tag, attrs)
        assert tag not in ("link", "iframe", "object", "embed", "base", "form", "img"), tag
        target = attrs.get("href") or attrs.get("xlink:href")
        assert target is None or target.startswith("#") or target == "https://github.com/sbformat/sbformat", target
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"] for tag, attrs in elements.found if tag == "a" and (attrs["href"] or "").startswith("#")} <= {
        f"#{name}" for name in ids
    }
    return elements


def test_a_page_shows_what_the_archive_is(tmp_path: Path) -> None:
    page = write_page(PPO, tmp_path)
    assert_is_harmless(page)
    for text in (
        "PPO",
        "2.9.2",
        "ActorCriticPolicy",
        "gamma",
        "0.99",
        "Discrete(2)",
        "mlp_extractor.policy_net.0",
        "251",
    ):
        assert text in page


@pytest.mark.parametrize(
    ("source", "plots"),
    [(PPO, 2), *(pytest.param(path, MOST_PLOTS, marks=pytest.mark.exhaustive) for path in (PPO, SAC))],
)
def test_the_same_file_gives_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, plots: int
) -> None:
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", plots)
    assert write_page(source, tmp_path) == write_page(source, tmp_path)


@pytest.mark.usefixtures("few_plots")
def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update({ATTACK: ATTACK, "policy_kwargs": {ATTACK: [ATTACK]}, "seed": ATTACK})

    path = tmp_path / f"{ATTACK.replace('/', '').replace(chr(0), '')}.zip"
    path.write_bytes(with_data(change))
    page = write_page(path, tmp_path, title=ATTACK)
    elements = assert_is_harmless(page)
    assert [tag for tag, _ in elements.found if tag in ("script", "img")] == []
    assert "{{ 7 * 7 }}" in page
    assert not re.search("[\u202e\x00]", page)


@pytest.mark.usefixtures("few_plots")
def test_a_broken_entry_is_shown_beside_the_others(tmp_path: Path) -> None:
    page = write_page(changed(policy_optimizer_pth=b"x"), tmp_path)
    assert_is_harmless(page)
    assert "Entries that cannot be read" in page
    assert "action_net" in page


def test_a_file_that_is_not_an_archive_has_a_page(tmp_path: Path) -> None:
    report = sbformat.report([b"hello"], tmp_path / "page.html")
    assert report.broken == ("<bytes>",)
    assert report.reasons == (
        (
            "container failure: at byte 0: expected an archive, got a text file: if it is a download, download it "
            "again; it starts with 'hello'"
        ),
    )
    page = (tmp_path / "page.html").read_text("utf-8")
    assert_is_harmless(page)
    assert "container failure" in page


def test_a_missing_file_is_an_error_of_the_operating_system(tmp_path: Path) -> None:
    for sources in ([tmp_path / "nowhere.zip"], [PPO, tmp_path / "nowhere.zip"], [tmp_path / "nowhere.zip"] * 3):
        with pytest.raises(FileNotFoundError, match=r"nowhere\.zip"):
            sbformat.report(sources, tmp_path / "page.html")
    with pytest.raises(ValueError, match="at least one source"):
        sbformat.report([], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_an_existing_page_is_kept_without_overwrite(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(FileExistsError):
        sbformat.report(PPO, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(sbformat.UnsupportedError, match=rf'{package}.*pip install "sbformat\[report\]"'):
        sbformat.report(PPO, tmp_path / "page.html")


@pytest.mark.usefixtures("few_plots")
def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(PPO), "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}: a page about 1 file\n"
    assert main(["report", str(PPO), "-o", str(page)]) == 2
    assert main(["report", str(PPO), "-o", str(page), "--force", "--format", "json"]) == 0
    (tmp_path / "broken.zip").write_bytes(changed(policy_optimizer_pth=b"x"))
    assert main(["report", str(tmp_path / "broken.zip"), "-o", str(page), "--force"]) == 1
    assert main(["report", str(tmp_path / "nowhere.zip"), "-o", str(page), "--force"]) == 2
