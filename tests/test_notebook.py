"""What values display: one line for ``repr``, HTML for notebooks; safe and bounded whatever a file contains."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat.archive.archive import Lazy
from sbformat.immutable import Record
from sbformat.notebook import BADGES, MAX_ROWS, Markup, escape_text, fold, render_badge, render_output, render_table
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, entries, with_data, zipped
from tests.helpers.count_work import count_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></table></div><iframe srcdoc=x>",
    "$\\href{javascript:alert(1)}{x}$",
    "\u202egpj.exe\u2066",
    "line\nbreak\x1b[31m\x00",
    "\ud800 lone surrogate",
    "&lt;b&gt; <!-- --> ]]>",
    "x" * 100_000,
)
ALLOWED: Final = {
    "div": {"class", "style"},
    "table": {"style"},
    "caption": {"style"},
    "tr": set(),
    "th": {"scope", "style"},
    "td": {"colspan", "style"},
    "details": set(),
    "summary": {"style"},
    "span": {"style"},
    "p": {"style"},
}
STATISTICS: Final = ARCHIVES / "vecnormalize-pendulum.pkl"
BUFFER: Final = ARCHIVES / "replay-buffer-cartpole.pkl"
MAX_BYTES: Final = 200_000


class Page(HTMLParser):
    """Parses an output; fails for tags and attributes that sbformat does not write, and for tags that do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.captions = 0
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []
        self.text = " ".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= ALLOWED[tag]
        for name, value in attrs:
            assert name != "style" or not re.search(r"url|expression|[<>]", value or "")
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_comment(self, data: str) -> None:
        pytest.fail(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_display(value: Any) -> tuple[str, Page]:
    """The line and the parsed HTML of a value; both are printable and bounded."""
    line, html = repr(value), value._repr_html_()
    assert line.isprintable()
    assert len(line) < 3000
    assert "\n" not in html  # Markdown cells would end the HTML at an empty line
    assert len(html) < MAX_BYTES
    page = Page(html)
    html.encode()
    assert not set(page.text) & set("\u202e\u2066\x1b\x00")
    assert html.count("mathjax_ignore") == html.count('<div class="sbformat ')
    return line, page


def contrast_with_white(color: str) -> float:
    """The contrast ratio of WCAG 2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


# -- HTML ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_wherever_it_enters(text: str) -> None:
    html = render_output(text, [render_table(text, (text, "b"), [(text, text)]), fold(text, [escape_text(text)])])
    page = Page(html)
    assert len(html) < 10_000
    assert page.text.isprintable()


def test_a_table_of_many_rows_counts_those_it_leaves_out() -> None:
    page = Page(render_table("", ("number",), [(str(row),) for row in range(MAX_ROWS + 7)]))
    assert page.texts[-1] == "\u2026 and 7 more"
    assert len(page.texts) == 1 + MAX_ROWS + 1
    assert "and" not in Page(render_table("", ("number",), [(str(row),) for row in range(MAX_ROWS)])).text


def test_empty_parts_are_left_out() -> None:
    assert render_table("title", ("a",), []) == ""
    assert fold("title", [Markup(), Markup()]) == ""


@pytest.mark.parametrize("word", BADGES)
def test_badges_are_readable_on_light_and_dark_pages(word: str) -> None:
    assert f"background:{BADGES[word]}" in render_badge(word)
    assert "color:#fff" in render_badge(word)
    assert contrast_with_white(BADGES[word]) >= 4.5


def test_only_badges_have_colours() -> None:
    html = render_output("title", [render_table("a", ("b",), [("c",)]), fold("d", [escape_text("e")])])
    assert re.findall(r"color:(?!inherit)|background", html) == []


# -- archives -----------------------------------------------------------------------------------------


def test_an_archive_displays_algorithm_release_and_entries() -> None:
    line, page = check_display(sbformat.read(PPO))
    assert line.startswith("<Archive sb3, PPO of SB3 2.9.2: data 10.0 KiB, ")
    assert "policy.pth 5.7 KiB" in line
    for text in ("Stable-Baselines3 archive", "Discrete(2)", "12 tensors, 251 float32", "clip_range", "constant 0.2"):
        assert text in page.text


FILES: Final = sorted([*ARCHIVES.glob("*.zip"), *ARCHIVES.glob("*.pkl")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_kind_of_file_is_displayed(path: Path) -> None:
    archive = sbformat.read(path)
    line, _ = check_display(archive)
    assert line.startswith(f"<Archive {archive.format}")
    for name in archive.state_dicts:
        check_display(archive.state_dict(name))


@pytest.mark.parametrize("entry", sorted(set(entries(PPO)) - {"pytorch_variables.pth"}))
def test_a_broken_entry_is_displayed_with_its_error(entry: str) -> None:
    line, page = check_display(sbformat.reads(changed(**{entry.replace(".", "_"): b"\xff\xfe broken"})))
    assert line.startswith("<Archive sb3")
    assert page.texts.count("broken") == 1


def test_an_archive_of_hostile_text_is_displayed_as_text() -> None:
    def change(data: dict[str, Any]) -> None:
        rest = dict(data)
        data.clear()
        data.update({f"{number}{text}": text for number, text in enumerate(HOSTILE)}, **rest)

    contents = entries(io.BytesIO(with_data(change))) | {"<b>.txt": b"", "$x$.txt": b""}
    _, page = check_display(sbformat.reads(zipped(contents)))
    assert "0<script>alert(1)</script>" in page.text
    assert "<b>.txt" in page.text


def test_a_display_decodes_no_large_data() -> None:
    archive = sbformat.reads(with_data(lambda data: data.update(large=["x" * 1000] * 2000)))
    line, page = check_display(archive)
    assert line.startswith("<Archive sb3, SB3 2.9.2: data 1.9 MiB")
    assert "not decoded: large" in page.text
    assert not archive.is_decoded("data")
    assert archive.data["gamma"] == 0.99
    assert repr(archive).startswith("<Archive sb3, PPO of SB3 2.9.2")


def test_an_archive_of_many_entries_is_displayed_in_part() -> None:
    contents = entries(PPO) | {f"extra{number}": b"" for number in range(900)}
    line, page = check_display(sbformat.reads(zipped(contents)))
    assert "898 more" in line
    assert "\u2026 and 856 more" in page.text


def test_an_edited_archive_and_an_archive_without_entries_are_displayed() -> None:
    archive = sbformat.read(PPO)
    check_display(archive.replace(data={**archive.data, "gamma": 0.5}, parameters={"policy": {"w": np.zeros(3)}}))
    line, _ = check_display(archive.without(*archive.entries))
    assert line == "<Archive sb3: empty>"


def test_an_archive_whose_file_is_gone_is_displayed(tmp_path: Path) -> None:
    path = tmp_path / "agent.zip"
    path.write_bytes(PPO.read_bytes())
    archive = sbformat.read(path)
    path.unlink()
    check_display(archive)


# -- state dicts --------------------------------------------------------------------------------------


def test_a_state_dict_displays_names_shapes_and_sizes() -> None:
    line, page = check_display(sbformat.read(PPO).parameters["policy"])
    assert line.startswith(
        "<StateDict policy.pth: 12 tensors, 251 float32, 1004 B; mlp_extractor.policy_net.0.weight 8 x 4"
    )
    for text in ("action_net.weight", "float32", "2 x 8"):
        assert text in page.text


def test_an_optimizer_displays_its_other_values() -> None:
    _, page = check_display(sbformat.read(PPO).parameters["policy.optimizer"])
    assert "36 tensors, 514 float32, 2.0 KiB, 24 other values" in page.text
    assert "24 values that are not tensors" in page.text
    assert "param_groups/[0]/lr" in page.text


def test_a_state_dict_of_many_tensors_is_counted_in_part() -> None:
    array = np.zeros(2, np.float32)
    state_dict = sbformat.StateDict.from_arrays({f"layer{number}": array for number in range(10_100)})
    line, page = check_display(state_dict)
    assert line.startswith("<StateDict: at least 10,000 tensors, 20,000 float32, 78.1 KiB; layer0 2, layer1 2, \u2026>")
    assert "\u2026 and 9,950 more" in page.text
    twice = sbformat.StateDict.from_arrays({f"layer{number}": array for number in range(20_200)})
    with count_calls() as calls:
        check_display(state_dict)
    with count_calls() as calls_of_twice:
        check_display(twice)
    assert calls_of_twice.number < 1.01 * calls.number


@pytest.mark.parametrize("value", [{}, [], "text", 2**100, None, np.zeros(()), {"a": {"b": []}}, {1: np.zeros((2, 0))}])
def test_state_dicts_of_any_value_are_displayed(value: object) -> None:
    line, _ = check_display(sbformat.StateDict.from_arrays(value))
    assert line.startswith("<StateDict: ")


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_hostile_names_of_tensors_are_displayed_as_text(name: str) -> None:
    state_dict = sbformat.StateDict.from_arrays({name: np.zeros(2), "value": name})
    check_display(state_dict)


# -- reports and policies -----------------------------------------------------------------------------


def test_a_clean_scan_report_displays_its_verdict() -> None:
    line, page = check_display(sbformat.scan(PPO))
    assert line == "<ScanReport sb3 clean: 0 findings, 13 pickles>"
    assert page.texts[0] == "clean"
    assert "stable_baselines3.common.policies.ActorCriticPolicy" in page.text


def test_a_dangerous_scan_report_displays_the_worst_finding_first() -> None:
    attack = b"cos\nsystem\n(S'<script>'\ntR."
    line, page = check_display(sbformat.scan(changed(policy_pth=attack, without=("data",))))
    assert line.startswith("<ScanReport sb3 dangerous (harmful): ")
    assert "dangerous-name" in line
    assert page.texts[0] == "dangerous"
    assert "os.system" in page.text


@pytest.mark.parametrize("path", [PPO, SAC, ARCHIVES / "ppo-cartpole-1.0.zip"], ids=lambda path: path.name)
def test_a_rebuild_report_displays_its_rows(path: Path) -> None:
    rebuilt = sbformat.rebuild(path)
    line, page = check_display(rebuilt.report)
    assert re.fullmatch(r"<RebuildReport \w+ of SB3 [\d.]+ for SB3 [\d.]+: \d+ kept, .* dropped; 0 findings>", line)
    assert "system_info.txt" in page.text or "data" in page.text
    assert "computes and trains as before" in page.text
    assert Page(rebuilt._repr_html_()).text.startswith(page.text)


def test_a_policy_displays_spaces_and_layers() -> None:
    line, page = check_display(sbformat.load_policy(PPO))
    assert line == "<Policy PPO Box(4,) -> Discrete(2)>"
    for text in (
        "Discrete(2)",
        "layers (251 parameters)",
        "mlp_extractor.policy_net.0",
        "4 -> 8",
        "Tanh",
        "not normalized",
    ):
        assert text in page.text


def test_a_comparison_displays_its_changes() -> None:
    archive = sbformat.read(PPO)
    edited = archive.replace(data={**archive.data, "gamma": 0.5, "<script>": 1}, parameters={"policy.optimizer": None})
    line, page = check_display(sbformat.diff(archive, edited))
    assert line == "<DiffReport: 3 changes in policy.optimizer.pth, data, 0 unreadable entries>"
    assert "/<script>" in page.text
    line, page = check_display(sbformat.diff(archive, archive))
    assert line == "<DiffReport: 0 changes, 0 unreadable entries>"
    assert page.text == "DiffReport: 0 changes What was compared is equal."


def test_a_comparison_displays_what_could_not_be_decoded() -> None:
    correct = sbformat.reads(changed()).entries["policy.pth"].crc.to_bytes(4, "little")
    damaged = bytes(changed()).replace(correct, bytes(byte ^ 1 for byte in correct))
    line, page = check_display(sbformat.diff(changed(), damaged))
    assert line == "<DiffReport: 0 changes, 1 unreadable entry>"
    assert "What was compared is equal. cannot be decoded entry archive outcome why policy.pth second" in page.text


def test_an_inspection_displays_network_tensors_and_hyperparameters() -> None:
    line, page = check_display(sbformat.inspect(PPO))
    assert line == "<InspectReport sb3, PPO of SB3 2.9.2: 6 entries, 48 tensors, 0 broken>"
    for text in ("Discrete(2)", "layers (251 parameters)", "4 -> 8", "action_net.weight", "clip_range", "constant 0.2"):
        assert text in page.text
    broken = sbformat.inspect(changed(policy_pth=b"broken"))
    line, page = check_display(broken)
    assert line == "<InspectReport sb3, PPO of SB3 2.9.2: 6 entries, 36 tensors, 1 broken>"
    assert "broken entries entry outcome message policy.pth" in page.text


def test_statistics_display_each_number_that_has_some() -> None:
    line, page = check_display(sbformat.read_vecnormalize(STATISTICS))
    assert line.startswith("<VecNormalize of stable_baselines3: obs_rms=<RunningMeanStd (3,) of ")
    assert "observation[0]" in page.text
    assert "return" in page.texts
    assert "Box" in page.text
    many = sbformat.RunningMeanStd(mean=np.zeros((1000, 1000)), var=-np.ones((1000, 1000)), count=1.0)
    _, page = check_display(many)
    assert "[0, 49] 0 -1 nan 1 \u2026 and 999,950 more" in page.text


def test_a_replay_buffer_displays_its_arrays_without_reading_them() -> None:
    buffer = sbformat.read_replay_buffer(BUFFER)
    _, page = check_display(buffer)
    assert "next_observations <f4" in page.text
    assert "Discrete(2)" in page.text


def test_an_evaluation_displays_mean_and_range() -> None:
    line, page = check_display(sbformat.EvaluationReport((1.0, 3.0), (10, 20), True, 0, False, "PPO", ()))
    assert line == "<EvaluationReport PPO: mean reward 2.00 +/- 1.00 over 2 episodes>"
    assert "reward 2.00 1.00 1.00 3.00 length 15.00 5.00 10.00 20.00" in page.text


def test_hyperparameters_are_a_table() -> None:
    archive = sbformat.read(PPO)
    page = Page(archive.hyperparameters()._repr_html_())
    assert "gamma 0.99" in page.text
    assert "clip_range constant 0.2" in page.text
    page = Page(archive.data._repr_html_())  # type: ignore[attr-defined]
    assert "policy_kwargs {'net_arch': [8, 8]}" in page.text


def test_a_comparison_of_systems_is_a_table() -> None:
    rows = sbformat.compare_system(PPO)
    assert rows == tuple(rows)
    assert Page(rows._repr_html_()).text.startswith("name saved here matters why OS Linux")  # type: ignore[attr-defined]


def test_the_names_of_a_mapping_are_escaped_and_counted() -> None:
    mapping = Lazy({f"{number}\x1b[31m{'x' * 500}": "" for number in range(1000)}, str, "entry")
    assert repr(mapping).startswith("<1000 of 0\\x1b[31mxxx")
    assert repr(mapping).isprintable()
    assert len(repr(mapping)) < 1000


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_reports_and_statistics_are_displayed_as_text(text: str) -> None:
    statistics = sbformat.RunningMeanStd(mean=np.zeros(2), var=np.ones(2), count=1.0)
    check_display(sbformat.VecNormalize(obs_rms={text: statistics}, ret_rms=None, norm_reward=False))
    check_display(sbformat.EvaluationReport((1.0,), (1,), True, 0, False, text, (text,) * 1000))
    reason = sbformat.TargetReason("class", text, (text,) * 1000, text, (text,) * 1000)
    check_display(sbformat.TargetReport("2.9.2", text, (reason,) * 1000))

    def change(data: dict[str, Any]) -> None:
        data.update({f"{number}{text}": text for number in range(100)}, policy_class=text)

    archive = sbformat.reads(with_data(change))
    check_display(sbformat.inspect(archive))
    assert Page(archive.data._repr_html_()).text.isprintable()  # type: ignore[attr-defined]
    assert Page(archive.hyperparameters()._repr_html_()).text.isprintable()


# -- every public class -------------------------------------------------------------------------------

EXAMPLES: Final[dict[str, Callable[[], Any]]] = {
    "AgentFiles": lambda: sbformat.inspect_folder(ARCHIVES).agents[0],
    "Algorithm": lambda: sbformat.read(PPO).algorithm,
    "Archive": lambda: sbformat.read(PPO),
    "Change": lambda: sbformat.diff(PPO, SAC).changes[0],
    "ChosenAgent": lambda: sbformat.ChosenAgent("a.zip", None, True, "trained behind <VecNormalize>", None, None),
    "ConvertReport": lambda: sbformat.ConvertReport("agent.safetensors", "safetensors", 6, 48, ("extra",), 30_000),
    "DiffReport": lambda: sbformat.diff(PPO, SAC),
    "EditReport": lambda: sbformat.edit(PPO, assign={"gamma": 9.995}),
    "Episode": lambda: sbformat.read_replay_buffer(BUFFER).episodes()[0],
    "EvaluationReport": lambda: sbformat.EvaluationReport((1.0,) * 10_000, (1,) * 10_000, False, None, True, None, ()),
    "ExportReport": lambda: sbformat.ExportReport("onnx", (), (), (), 9, 251, {"algorithm": "PPO"}),
    "ExtractReport": lambda: sbformat.ExtractReport("weights.npz", "npz", 12, 1004, ("x",) * 5000),
    "Finding": lambda: sbformat.scan(zipped({"a.pkl": b"cos\nsystem\n(S'<b>'\ntR."})).findings[0],
    "FolderReport": lambda: sbformat.inspect_folder(ARCHIVES),
    "Graph": lambda: sbformat.policy_graph(PPO),
    "HtmlReport": lambda: sbformat.HtmlReport(
        output="a.html", nbytes=9000, files=("<a>.zip",) * 5000, broken=(), reasons=()
    ),
    "InspectReport": lambda: sbformat.inspect(PPO),
    "Limits": lambda: sbformat.DEFAULT_LIMITS,
    "NotChecked": lambda: sbformat.NotChecked("policy.pth", "only its directory was fetched"),
    "OtherFile": lambda: sbformat.inspect_folder(ARCHIVES).others[0],
    "Policy": lambda: sbformat.load_policy(PPO),
    "Problem": lambda: next(sbformat.iter_problems(with_data(lambda data: data.update(gamma="<b>")))),
    "RebuildReport": lambda: sbformat.rebuild(PPO).report,
    "Rebuilt": lambda: sbformat.rebuild(PPO),
    "RebuiltPolicy": lambda: sbformat.rebuild_policy(ARCHIVES / "policy-box.pth")._replace(content=bytes(10**7)),
    "RebuiltStatistics": lambda: sbformat.rebuild_vecnormalize(STATISTICS),
    "ReplayBuffer": lambda: sbformat.read_replay_buffer(BUFFER),
    "RunningMeanStd": lambda: sbformat.RunningMeanStd(
        mean=np.zeros((1000, 1000)), var=np.ones((1000, 1000)), count=1.0
    ),
    "ScanReport": lambda: sbformat.scan(PPO),
    "StateDict": lambda: sbformat.read(PPO).parameters["policy"],
    "SystemInfo": lambda: sbformat.read(PPO).system_info,
    "SystemRow": lambda: sbformat.compare_system(PPO)[0],
    "TargetReason": lambda: sbformat.check_target(PPO, target="1.6").reasons[0],
    "TargetReport": lambda: sbformat.check_target(PPO, target="1.6"),
    "TensorFile": lambda: sbformat.safe_open(PPO),
    "TensorInfo": lambda: sbformat.read(PPO).parameters["policy"].info("action_net.weight"),
    "Unbundled": lambda: sbformat.Unbundled(sbformat.read(SAC), sbformat.read_vecnormalize(STATISTICS)),
    "VecNormalize": lambda: sbformat.read_vecnormalize(STATISTICS),
}
"""A value of each public class that a notebook displays, large where its size has no limit."""

WITHOUT_HTML: Final = {
    "ConstantSchedule": "its line says all of it",
    "LinearSchedule": "its line says all of it",
    "LargeValue": "its line says all of it",
    "Serialized": "its line says all of it",
    "TensorSlice": "its line says all of it; the array that it gives is numpy's",
    "Url": "a text, and an argument",
}


def is_displayed(name: str) -> bool:
    value = getattr(sbformat, name)
    return isinstance(value, type) and not issubclass(value, Exception)  # a notebook shows the traceback of these


def test_every_public_class_is_displayed_or_says_why_not() -> None:
    classes = set(filter(is_displayed, dir(sbformat)))
    assert set(EXAMPLES) | set(WITHOUT_HTML) == classes
    assert {name for name in classes if not hasattr(getattr(sbformat, name), "_repr_html_")} == set(WITHOUT_HTML)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_value_of_every_public_class_is_displayed(name: str) -> None:
    value = EXAMPLES[name]()
    assert type(value) is getattr(sbformat, name)
    _, page = check_display(value)
    assert len(page.texts) > 1


class Everything(Record):
    """A record of fields of every kind."""

    text: str
    number: Any
    names: tuple[str, ...]
    mapping: dict[Any, Any]
    records: tuple[Any, ...]
    value: Any = None


@pytest.mark.parametrize("text", HOSTILE)
def test_a_record_is_bounded_and_escaped_whatever_its_fields_are(text: str) -> None:
    rows = tuple(sbformat.NotChecked(text, text) for _ in range(10_000))
    deep: list[Any] = [text]
    for _ in range(5000):
        deep = [deep, deep]
    value = Everything(text, 10**5000, (text,) * 10_000, {f"{at}{text}": text for at in range(10_000)}, rows, deep)
    html = value._repr_html_()  # type: ignore[attr-defined]
    page = Page(html)
    assert page.text.isprintable()
    assert len(html) < MAX_BYTES
    assert len(repr(value)) < 3000
    assert f"an integer of {(10**5000).bit_length():,} bits" in page.text
    assert page.text.count("9,950 more") == 2
    empty = Everything("", None, (), {}, ())
    assert check_display(empty)[1].texts[0] == "Everything"
