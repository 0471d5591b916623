"""The page of one agent with its policy in it: nothing of a file is code, and the panel has what the file says."""

from __future__ import annotations

import functools
import json
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import sbformat
from sbformat.cli import main
from sbformat.html_report import actions_panel
from sbformat.html_report.actions_panel import make_script, write_json
from sbformat.policies.javascript.export import make_program
from sbformat.policies.loading import load_model
from tests.helpers.bundled import ARCHIVES, PPO, SAC, with_data
from tests.helpers.hostile_archives import KEYS, hostile_keys
from tests.helpers.reports import unfold
from tests.helpers.run_folders import make_folder
from tests.helpers.vector_files import write_vector
from tests.html_report.test_page import JSON, assert_is_harmless, write_page

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS = (ARCHIVES / "vecnormalize-pendulum.pkl").read_bytes()

pytestmark = pytest.mark.usefixtures("few_plots")


def read_program(page: str) -> Any:
    """The program of a page, and the page is harmless."""
    [text] = assert_is_harmless(page).texts[JSON]
    assert text.isascii()
    return json.loads(text)


def test_a_page_has_the_policy_and_the_script_of_the_project(tmp_path: Path) -> None:
    page = write_page(PPO, tmp_path, interactive=True)
    assert read_program(page) == json.loads(json.dumps(make_program(load_model(PPO))))
    assert '<a href="#actions">Actions</a>' in page
    [script] = assert_is_harmless(page).texts["script"]
    assert "function createPanel(" in script
    assert "export " not in script
    assert page == write_page(PPO, tmp_path, interactive=True)
    assert "createPanel" not in write_page(PPO, tmp_path)


def test_the_script_is_the_same_for_every_agent(tmp_path: Path) -> None:
    scripts = [assert_is_harmless(write_page(path, tmp_path, interactive=True)).texts["script"] for path in (PPO, SAC)]
    assert scripts[0] == scripts[1]
    assert "</script" not in make_script()


def test_hostile_keys_are_data(tmp_path: Path) -> None:
    agent = hostile_keys(write_vector("policy-ppo-observes-dict").read_bytes())
    page = write_page(agent, tmp_path, interactive=True)
    assert [row["key"] for row in read_program(page)["inputs"]] == list(KEYS)
    assert page.count("</script>") == 2  # of the program and of the script


def test_json_in_a_page_ends_no_element() -> None:
    value = {"<!--": ["</script>", "&lt;", "\u2028\u2029\u202e\ud800", "__proto__"]}
    text = write_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(float("nan"))


def find_notes(page: str) -> str:
    """The notes above the panel."""
    return page.partition('id="actions"')[2].partition('id="actions-panel"')[0]


def test_statistics_beside_the_agent_are_in_the_policy(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "run", {"agent.zip": SAC.read_bytes(), "vecnormalize.pkl": STATISTICS})
    pages = [write_page(source, tmp_path, interactive=True) for source in (folder / "agent.zip", folder)]
    for page in pages:
        assert "The statistics are those beside the agent: vecnormalize.pkl." in find_notes(page)
        assert read_program(page)["metadata"]["normalized"] == "true"
    given = write_page(SAC, tmp_path, interactive=True, vecnormalize=STATISTICS)
    assert read_program(given) == read_program(pages[0])
    unused = write_page(folder / "agent.zip", tmp_path, interactive=True, vecnormalize=False)
    assert read_program(unused)["metadata"]["normalized"] == "false"
    assert find_notes(unused).count("note") == 0


def test_settings_may_say_that_statistics_are_not_used(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    files = {"agent.zip": SAC.read_bytes(), "vecnormalize.pkl": STATISTICS, "config.yml": b"normalize: false\n"}
    page = write_page(make_folder(tmp_path / "run", files) / "agent.zip", tmp_path, interactive=True)
    assert read_program(page)["metadata"]["normalized"] == "false"


def test_a_normalized_agent_without_statistics_has_a_note(tmp_path: Path) -> None:
    agent = write_vector("policy-sac-normalized")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        was_normalized = load_model(agent).was_normalized
    page = write_page(agent, tmp_path, interactive=True)
    assert ("no statistics are used" in find_notes(page)) == was_normalized


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([PPO, SAC], "expected one file, got 2"),
        ([PPO, PPO, SAC], "expected one file, got 3"),
        ([ARCHIVES / "vecnormalize-pendulum.pkl"], "got statistics of VecNormalize"),
        ([ARCHIVES / "replay-buffer-cartpole.pkl"], "got a replay buffer"),
        ([PPO.read_bytes()[:9000]], "a file that cannot be read: container failure: at byte 9000"),
        ([with_data(functools.partial(dict.update, policy_kwargs={"net_arch": [9]}))], "mlp_extractor"),
    ],
)
def test_without_a_policy_to_run_there_is_an_error_and_no_page(
    tmp_path: Path, sources: list[Any], message: str
) -> None:
    with pytest.raises(sbformat.SbformatError, match=message):
        sbformat.report(sources, tmp_path / "page.html", interactive=True)
    assert list(tmp_path.iterdir()) == []


def test_weights_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(tensor.nbytes for tensor in sbformat.read(PPO).parameters["policy"].values())
    monkeypatch.setattr(actions_panel, "LARGEST_WEIGHTS", size)
    write_page(PPO, tmp_path, interactive=True)
    monkeypatch.setattr(actions_panel, "LARGEST_WEIGHTS", size - 1)
    with pytest.raises(sbformat.UnsupportedError, match="expected weights of at most"):
        write_page(PPO, tmp_path, interactive=True)


def test_statistics_alone_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="interactive=True"):
        sbformat.report(PPO, tmp_path / "page.html", vecnormalize=STATISTICS)


def test_the_command_writes_an_interactive_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path / "run", {"agent.zip": SAC.read_bytes(), "vecnormalize.pkl": STATISTICS})
    assert main(["report", "run", "--interactive", "-o", "page.html"]) == 0
    out, err = capsys.readouterr()
    assert out == "page.html: a page about 1 file\n"
    assert err == "sbformat: run: the agent is 'agent.zip', its statistics 'vecnormalize.pkl'\n"
    assert read_program((tmp_path / "page.html").read_text("utf-8"))["metadata"]["normalized"] == "true"
    options = ["--interactive", "--vecnormalize", "none", "-o", "page.html", "--force"]
    assert main(["report", "run/agent.zip", *options]) == 0
    assert read_program((tmp_path / "page.html").read_text("utf-8"))["metadata"]["normalized"] == "false"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([str(PPO), str(SAC), "--interactive"], "an interactive page is about one agent: expected one file, got 2"),
        (["statistics.pkl", "--interactive"], "statistics.pkl: unsupported: expected an agent or its policy"),
        (["policy.pth", "--interactive"], "sbformat export has --policy-class and --policy-kwargs"),
    ],
)
def test_the_command_refuses_what_has_no_panel(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "statistics.pkl").write_bytes(STATISTICS)
    (tmp_path / "policy.pth").write_bytes(zipfile.Path(PPO, "policy.pth").read_bytes())
    assert main(["report", *given, "-o", "page.html"]) == 2
    assert message in unfold(capsys.readouterr().err)
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(PPO), "--vecnormalize", "none", "-o", "page.html"])
    assert "--vecnormalize goes with --interactive" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
