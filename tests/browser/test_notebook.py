"""Values displayed in a notebook: a kernel runs the cells, nbconvert renders them as JupyterLab, light and dark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.helpers.browser import NARROW, WIDE
from tests.helpers.bundled import ARCHIVES, PPO, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.browser import Browser

CELLS: Final = (
    f"import numpy as np, sbformat\narchive = sbformat.read({str(PPO)!r})\narchive",
    "archive.parameters['policy']",
    "sbformat.load_policy(archive)",
    f"sbformat.scan({str(PPO)!r})",
    f"sbformat.rebuild({str(ARCHIVES / 'ppo-cartpole-1.0.zip')!r}).report",
    f"sbformat.inspect({str(PPO)!r})",
    f"sbformat.read_vecnormalize({str(ARCHIVES / 'vecnormalize-pendulum.pkl')!r})",
    f"sbformat.read_replay_buffer({str(ARCHIVES / 'replay-buffer-cartpole.pkl')!r})",
    "sbformat.policy_graph(archive)",
    "sbformat.check_target(archive, target='1.6')",
    "sbformat.EvaluationReport((1.0, 3.0), (10, 20), True, 0, False, 'PPO', ())",
    "archive.replace(data={k: v for k, v in archive.data.items() if k != 'policy_class'}, extra={'notes.txt': b''})",
    "sbformat.StateDict.from_arrays({name: np.zeros(2) for name in HOSTILE})",
    "archive.replace(data={**{name: name for name in HOSTILE}, **archive.data})",
    "sbformat.scan(sbformat.writes(archive.replace(extra={'evil.pkl': b'cos\\nsystem\\n(S\"id\"\\ntR.'})))",
)
HOSTILE: Final = (
    "<script>window.executed = 1</script>",
    "<img src=x onerror='window.executed = 1'>",
    "$\\href{javascript:window.executed=1}{x}$",
    "\u202egpj.exe",
    "x" * 500,
)


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, with the outputs that a real kernel made."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    v4 = nbformat.v4
    setup = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nHOSTILE = {HOSTILE!r}"
    notebook = v4.new_notebook(cells=[v4.new_code_cell(text) for text in (setup, *CELLS)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbclient.NotebookClient(notebook, timeout=500, kernel_name="python3").execute()
    return notebook


def render(notebook: Any, folder: Path, theme: str) -> Path:
    """The notebook as a page; what it would load from elsewhere is left out."""
    nbconvert = pytest.importorskip("nbconvert")
    exporter = nbconvert.HTMLExporter(template_name="lab", theme=theme)
    exporter.mathjax_url = exporter.require_js_url = exporter.jquery_url = exporter.mermaid_js_url = "data:,"
    text, _ = exporter.from_notebook_node(notebook)
    path = folder / f"{theme}.html"
    path.write_text(text, "utf-8")
    return path


def test_every_value_has_html_and_a_line_of_text(executed: Any) -> None:
    for cell in executed.cells[1:]:
        (output,) = cell.outputs
        assert set(output.data) == {"text/html", "text/plain"}, cell.source
        assert output.data["text/html"].startswith('<div class="sbformat ')
        assert len(output.data["text/plain"]) < 1000
        assert output.data["text/plain"].startswith("<"), output.data["text/plain"]
    assert len(json.dumps(executed)) < 500_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_notebook_is_readable_in_both_themes(
    browser: Browser, axe: None, executed: Any, tmp_path: Path, theme: str
) -> None:
    browser.open(render(executed, tmp_path, theme), width=WIDE)
    assert browser.run("return document.querySelectorAll('.sbformat').length") == len(CELLS)
    browser.run("document.querySelectorAll('.sbformat details').forEach((part) => part.open = true)")
    assert browser.find_violations(within=".sbformat") == []
    browser.picture(f"notebook-{theme}-{WIDE}")


def test_nothing_that_a_file_contains_becomes_part_of_the_page(browser: Browser, executed: Any, tmp_path: Path) -> None:
    browser.open(render(executed, tmp_path, "light"), width=NARROW)
    assert browser.run("return window.executed") is None
    assert browser.run("return document.querySelectorAll('.sbformat :is(script, img, a, iframe, style)').length") == 0
    text = browser.run("return [...document.querySelectorAll('.sbformat')].map((part) => part.textContent).join()")
    assert HOSTILE[0] in text
    assert HOSTILE[2] in text
    assert "\u202e" not in text
    parts = "[...document.querySelectorAll('.sbformat')]"
    assert browser.run(f"return Math.max(...{parts}.map((part) => part.getBoundingClientRect().right))") <= NARROW
    browser.picture(f"notebook-{NARROW}")
