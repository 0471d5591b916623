"""The page about two files: how far weights are apart, which settings differ, and files that cannot be compared."""

from __future__ import annotations

import base64
import math
import pickle
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from sbformat.catalogue.collect import collect_file
from sbformat.cli import main
from sbformat.html_report.comparison_page import (
    describe_places,
    format_percent,
    name_files,
    pair_facts,
    pair_findings,
    pair_settings,
)
from sbformat.html_report.weights import LayerPair, choose_bars, compare_weights, group_layers, make_overlays
from sbformat.pth.encode import dumps
from tests.helpers import attacks, thresholds
from tests.helpers.bundled import ARCHIVES, PPO, SAC, changed, with_data
from tests.helpers.many_cases import check_each
from tests.helpers.run_folders import make_folder
from tests.html_report.test_page import ATTACK, assert_is_harmless, write_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD_PPO = ARCHIVES / "ppo-cartpole-1.0.zip"


def with_weights(change: Callable[[dict[str, np.ndarray]], object]) -> bytes:
    """The PPO archive with tensors of its policy changed."""
    archive = sbformat.read(PPO)
    policy = archive.state_dict("policy.pth")
    arrays = {path: policy.array(path).copy() for path in policy.tensors()}
    change(arrays)
    return changed(policy_pth=dumps(policy.with_arrays(arrays)))


def compare(first: Any, second: Any) -> Any:
    return compare_weights(sbformat.read(first), sbformat.read(second))


def test_equal_files_are_equal(tmp_path: Path) -> None:
    found = compare(PPO, PPO)
    assert all(pair.is_equal and pair.relative_change == 0 for pair in found.pairs)
    assert {layer.relative_change for layer in found.layers} == {0}
    page = write_page([PPO, PPO], tmp_path)
    assert "The two files are equal." in page
    assert page.count("<svg") == 0


def test_the_change_of_a_tensor_and_of_its_layer() -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["action_net.weight"] *= np.float32(1.5)

    found = compare(PPO, with_weights(change))
    differing = {pair.name: pair for pair in found.pairs if not pair.is_equal}
    assert set(differing) == {"action_net.weight"}
    assert differing["action_net.weight"].relative_change == pytest.approx(0.5)
    layers = {layer.name: layer.relative_change for layer in found.layers}
    policy = sbformat.read(PPO).parameters["policy"]
    weight, bias = (np.linalg.norm(policy[f"action_net.{name}"]) for name in ("weight", "bias"))
    assert layers["action_net"] == pytest.approx(0.5 * weight / math.hypot(weight, bias))
    assert layers["value_net"] == 0
    assert sum(pair.entry == "policy.optimizer.pth" for pair in found.pairs) == 36
    assert "state/[0]/exp_avg" not in layers


def test_histograms_of_a_tensor_have_one_range() -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["mlp_extractor.policy_net.0.weight"] += np.float32(3)

    second = with_weights(change)
    archives = sbformat.read(PPO), sbformat.read(second)
    (overlay,) = make_overlays(compare_weights(*archives), *archives)
    assert (overlay.first.low, overlay.first.high) == (overlay.second.low, overlay.second.high)
    assert sum(overlay.first.counts) == sum(overlay.second.counts) == 32
    low = archives[0].parameters["policy"]["mlp_extractor.policy_net.0.weight"].min()
    assert overlay.first.low == pytest.approx(float(low))
    assert overlay.second.counts[0] == 0


def test_histograms_over_each_other_have_the_same_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.HISTOGRAM_FEW, 32)

    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["mlp_extractor.policy_net.0.weight"][0, 0] = np.nan

    archives = sbformat.read(PPO), sbformat.read(with_weights(change))
    (overlay,) = make_overlays(compare_weights(*archives), *archives)
    assert len(overlay.first.counts) == len(overlay.second.counts) == 40
    assert sum(overlay.second.counts) == 31


def test_numbers_that_are_not_finite_have_no_histogram_and_do_not_hide_the_rest(tmp_path: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["action_net.weight"][:] = np.nan
        arrays["value_net.weight"] += np.float32(1)

    second = with_weights(change)
    found = compare(PPO, second)
    changes = {pair.name: pair.relative_change for pair in found.pairs if not pair.is_equal}
    assert changes["action_net.weight"] is None
    assert [layer.name for layer in choose_bars(found.layers)].count("action_net") == 0
    page = write_page([PPO.read_bytes(), second], tmp_path)
    assert_is_harmless(page)
    assert "unknown" in page


def test_tensors_of_another_shape_or_of_one_file_are_listed() -> None:
    found = compare(PPO, SAC)
    remarks = {pair.name: pair.remark for pair in found.pairs}
    assert remarks["action_net.weight"] == "only in the first file"
    assert remarks["actor.mu.weight"] == "only in the second file"
    assert "actor.optimizer.pth" in found.unreadable
    other = sbformat.read(OLD_PPO).parameters["policy"]
    shapes = {pair.name: pair.shapes for pair in compare(PPO, OLD_PPO).pairs if pair.entry == "policy.pth"}
    assert shapes["action_net.weight"] == ((2, 8), other["action_net.weight"].shape)


def test_tensors_beyond_the_first_thousand_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sbformat.html_report.weights.MOST_TENSORS", 5)
    found = compare(PPO, PPO)
    assert len(found.pairs) == 5
    assert found.omitted == 12 + 36 - 5
    assert "… and 43 more" in write_page([PPO, with_data(lambda data: data.update(gamma=0.5))], tmp_path)


def test_only_the_layers_that_changed_most_are_drawn() -> None:
    layers = [LayerPair(str(index), index / 100) for index in range(100)]
    layers += [LayerPair("zero", math.inf), LayerPair("unknown", math.nan)]
    assert [layer.name for layer in choose_bars(layers)] == [str(index) for index in range(60, 100)]
    assert group_layers([]) == []


@check_each(
    ("change", "text"),
    [
        (0.0, "equal"), (1e-7, "less than 0.001%"), (0.0123, "1.23%"), (1.414, "141%"), (12.0, "12 times"),
        (math.inf, "from zero"), (None, "unknown"), (math.nan, "unknown"),
    ],
)  # fmt: skip
def test_a_relative_change_as_text(change: float | None, text: str) -> None:
    assert format_percent(change) == text


def test_settings_that_differ_are_apart_from_those_that_are_the_same(tmp_path: Path) -> None:
    second = with_data(lambda data: (data.update(gamma=0.5, extra=1), data.pop("n_epochs")))
    page = write_page([PPO, second], tmp_path)
    count = len(sbformat.read(PPO).data) - 3 + 1  # without the spaces and lr_schedule, and with the added key
    assert f"3 of {count} hyper-parameters and values differ." in page
    files = collect_file(PPO), collect_file(second)
    pairs = {pair.name: pair for pair in pair_settings(*files, sbformat.diff(PPO, second).changes)}
    assert {name for name, pair in pairs.items() if pair.differs} == {"gamma", "extra", "n_epochs"}
    assert (pairs["gamma"].first, pairs["gamma"].second) == ("0.99", "0.5")
    assert (pairs["extra"].first, pairs["n_epochs"].second) == ("\u2013", "\u2013")


def test_the_state_of_a_run_is_apart_from_the_settings(tmp_path: Path) -> None:
    page = write_page([PPO, with_data(lambda data: data.update(gamma=0.5, start_time=1643522319123456789))], tmp_path)
    assert "2 of " in page
    settings, states = page.split("1 value of the run when it was saved")
    assert "gamma" in settings
    assert "start_time" not in settings
    assert "2022-01-30 05:58:39 UTC" in states


def test_the_schedule_of_the_learning_rate_is_listed_where_it_says_more() -> None:
    def list_names(second: bytes) -> list[str]:
        files = collect_file(PPO), collect_file(second)
        return [pair.name for pair in pair_settings(*files, sbformat.diff(PPO, second).changes) if pair.differs]

    assert list_names(with_data(lambda data: data.update(lr_schedule=0.5))) == ["lr_schedule"]
    assert list_names(with_data(lambda data: data.update(lr_schedule=0.5, learning_rate=0.5))) == ["learning_rate"]


def test_histograms_and_differences_of_optimizers_are_folded(tmp_path: Path) -> None:
    old = sbformat.read(OLD_PPO)
    replaced = {"policy_optimizer_pth": old.raw("policy.optimizer.pth"), "policy_pth": old.raw("policy.pth")}
    page = write_page([PPO, changed(**replaced)], tmp_path)
    weights, optimizer = page.split("<summary>Histograms of <code>policy.optimizer.pth</code></summary>")
    assert "<h3><code>policy.pth</code></h3>" in weights
    assert "exp_avg" in optimizer
    assert "of the optimizer state</summary>" in optimizer


def test_curves_of_both_files_are_drawn_over_each_other(tmp_path: Path) -> None:
    log = b"steps,eval/mean_reward\n5,%d\n9,1\n"
    logs = {f"{at}/progress.csv": log % at for at in range(2)}
    make_folder(tmp_path, {**logs, "0/a.zip": PPO.read_bytes(), "1/a.zip": SAC.read_bytes()})
    sources = [tmp_path / "0" / "a.zip", tmp_path / "1" / "a.zip"]
    page = write_page(sources, tmp_path)
    assert "at the end: First 1 at step 9, Second 1 at step 9" in page
    assert 'href="#training"' in page
    assert 'id="training"' not in write_page([sources[0].read_bytes(), SAC], tmp_path)
    assert "at the end: Second 1 at step 9" in write_page([PPO, sources[1]], tmp_path)


def test_a_blob_that_looks_the_same_but_differs_is_listed() -> None:
    second = with_data(lambda data: data["ep_info_buffer"].update({":serialized:": SERIALIZED_DEQUE}))
    files = collect_file(PPO), collect_file(second)
    pairs = {pair.name: pair for pair in pair_settings(*files, sbformat.diff(PPO, second).changes)}
    pair = pairs["ep_info_buffer"]
    assert pair.first == pair.second
    assert pair.differs
    assert pair.remark


SERIALIZED_DEQUE = attacks.encoded(b"\x80\x04\x8c\x0bcollections\x8c\x05deque\x93)K\x32\x86R.")
"""An empty deque of at most 50 items."""


def test_facts_and_findings_of_both_files() -> None:
    second = attacks.in_blob(attacks.PAYLOAD)
    files = collect_file(PPO), collect_file(second)
    facts = {pair.name: pair for pair in pair_facts(*files)}
    assert (facts["Verdict"].first, facts["Verdict"].second, facts["Verdict"].differs) == ("clean", "dangerous", True)
    assert not facts["Algorithm"].differs
    findings = pair_findings(*files)
    assert findings
    assert {row.place for row in findings} == {"second"}
    assert {row.place for row in pair_findings(files[1], files[1])} == {"both"}
    assert {row.place for row in pair_findings(files[1], files[0])} == {"first"}


def test_networks_are_compared(tmp_path: Path) -> None:
    assert "Both files have the same network." in write_page([PPO, with_data(lambda d: d.update(gamma=0))], tmp_path)
    page = write_page([PPO, SAC], tmp_path)
    assert "Both files have the same network." not in page
    assert "actor.latent_pi.0" in page
    assert "<code>linear 4 \u2192 8, Tanh, 40 parameters</code>" in page
    assert "mlp_extractor.policy_net.0" in page


@pytest.mark.parametrize("order", [1, -1])
def test_a_file_that_cannot_be_read_is_described_beside_the_other(tmp_path: Path, order: int) -> None:
    (tmp_path / "broken.zip").write_bytes(PPO.read_bytes()[:5000])
    sources = [PPO, tmp_path / "broken.zip"][::order]
    assert main(["report", *map(str, sources), "-o", str(tmp_path / "two.html")]) == 1
    page = (tmp_path / "two.html").read_text("utf-8").replace("<wbr>", "")
    assert_is_harmless(page)
    assert f"The {'second' if order == 1 else 'first'} file cannot be read" in page
    assert "ActorCriticPolicy" in page


def test_a_broken_entry_does_not_stop_the_comparison(tmp_path: Path) -> None:
    page = write_page([changed(policy_optimizer_pth=b"PK broken"), PPO], tmp_path)
    assert "1 entry of the first file cannot be read." in page
    assert "policy.optimizer.pth" in page
    assert "12 as a table" not in page


@pytest.mark.parametrize("pair", [(ARCHIVES / "vecnormalize-pendulum.pkl", PPO), (PPO, b"x"), (SAC, OLD_PPO)])
def test_files_of_any_kind_can_be_compared(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    assert_is_harmless(write_page(list(pair), tmp_path))


def test_the_description_beside_a_pickle_is_not_a_difference_of_settings(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["policy_class"] = data["policy_class"] | {"__init__": "<function __init__ at 0x7f0000000000>"}

    second = with_data(change)
    changes = sbformat.diff(PPO, second).changes
    pairs = pair_settings(collect_file(PPO), collect_file(second), changes)
    assert [pair.name for pair in pairs if pair.differs] == []
    page = write_page([PPO, second], tmp_path)
    assert "The two files are equal." not in page
    assert ">1 other difference</a>: 1 in data (policy_class).</li>" in re.sub("<wbr>", "", page)
    text = "the class stable_baselines3.common.policies.ActorCriticPolicy: same pickle, other description"
    assert text in page
    assert "became a different one" not in page


@pytest.mark.parametrize("where", ["key", "value", "tensor", "name"])
def test_what_the_files_contain_is_escaped(tmp_path: Path, where: str) -> None:
    def change(data: dict[str, Any]) -> None:
        data.update({ATTACK: 1} if where == "key" else {"gamma": ATTACK} if where == "value" else {})

    second: Any = with_data(change)
    if where == "tensor":
        weights = {ATTACK: np.ones(9, np.float32), "$\\frac{x}{y}$": np.ones(9, np.float32)}
        second = changed(policy_pth=dumps(weights))
    if where == "name":
        (tmp_path / "a$<b>&'\u202e.zip").write_bytes(second)
        second = tmp_path / "a$<b>&'\u202e.zip"
    page = write_page([PPO, second], tmp_path)
    assert_is_harmless(page)
    assert "\u202e" not in page
    assert "&lt;" in page


def test_names_of_layers_in_a_plot_are_text_and_not_formulas(tmp_path: Path) -> None:
    names = ["$\\frac{1}{2}$.weight", "\u7f51\u7edc.weight", f"{'x' * 300}.weight", "</text><script>.weight"]
    files = [changed(policy_pth=dumps({n: np.full(9, v, np.float32) for n in names})) for v in (1, 2)]
    page = write_page(files, tmp_path)
    assert_is_harmless(page)
    assert "$\\frac{1}{2}$</text>" in page
    assert "??</text>" in page


def test_the_same_files_give_the_same_page(tmp_path: Path) -> None:
    assert write_page([PPO, SAC], tmp_path) == write_page([PPO, SAC], tmp_path)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("runs/a/best/model.zip", "runs/b/best/model.zip"), ("a", "b", "best/model.zip")),
        (("runs/a/1.zip", "runs/b/2.zip"), ("a/1.zip", "b/2.zip", "")),
        (("runs/1.zip", "runs/2.zip"), ("1.zip", "2.zip", "")),
        (("a/x.zip", "a/b/x.zip"), ("x.zip", "b/x.zip", "")),
        (("<bytes>", "<bytes>"), ("<bytes>", "<bytes>", "")),
    ],
)
def test_headings_have_the_parts_in_which_paths_differ(paths: tuple[str, str], names: tuple[str, str, str]) -> None:
    assert name_files(*paths) == names


def test_what_runs_were_and_earned_is_side_by_side(tmp_path: Path) -> None:
    for name, env in (("a", "CartPole-v1"), ("b", "Acrobot-v1")):
        logs = {"progress.csv": b"steps,eval/mean_reward\n5,2\n9,1\n", "args.yml": f"env: {env}\n".encode()}
        make_folder(tmp_path / name, {"agent.zip": PPO.read_bytes(), **logs})
    page = re.sub("<wbr>", "", write_page([tmp_path / "a/agent.zip", tmp_path / "b/agent.zip"], tmp_path))
    assert "<h1>agent.zip: a and b</h1>" in page
    assert 'First <small>a</small></th><th scope="col">Second <small>b</small>' in page
    assert "<td>CartPole-v1</td><td>Acrobot-v1</td>" in page
    assert "<td>2 at step 5</td><td>2 at step 5</td>" in page


def test_arguments_have_one_form_whether_they_are_pickled_or_not() -> None:
    pickled = base64.b64encode(pickle.dumps({"net_arch": [8, 8], "ortho_init": True})).decode()
    values = ({"net_arch": [8, 8], "ortho_init": True}, {":type:": "<class 'dict'>", ":serialized:": pickled})
    files = [with_data(partial(dict.update, policy_kwargs=value)) for value in values]  # type: ignore[arg-type]
    pairs = {pair.name: pair for pair in pair_settings(*map(collect_file, files), ())}
    assert (pairs["policy_kwargs"].first, pairs["policy_kwargs"].differs) == (pairs["policy_kwargs"].second, False)


def test_other_differences_are_counted_by_entry_with_their_names() -> None:
    other = with_data(lambda data: data["policy_class"].update(__init__="<function>"))
    (place,) = describe_places(sbformat.diff(PPO, other).changes)
    assert place == ("data", 1, "policy_class")
