"""What the sections of a page say: weights, optimizer state, episodes, statistics, settings, spaces."""

from __future__ import annotations

import math
import re
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from conformance.runner.vectors import name_file, read_vectors
from sbformat.archive.hyperparameters import Hyperparameter
from sbformat.catalogue.collect import FileData, collect_episodes, collect_file
from sbformat.folders.logs import Curve, Training
from sbformat.html_report.archive_page import (
    MOST_POINTS,
    MOST_ROWS,
    REWARDS,
    TRAINING_REWARD,
    Setting,
    average,
    collect_statistics,
    draw_schedules,
    list_facts,
    list_settings,
    list_spaces,
    render_archive,
)
from sbformat.html_report.plots import Plots
from sbformat.html_report.weights import collect_weights, describe_numbers, find_parameters, read_numbers
from sbformat.known.types import ConstantSchedule, FloatSchedule, InterpolatedSchedule, LinearSchedule
from sbformat.rendering import render_time
from tests.helpers import attacks, thresholds
from tests.helpers.bundled import ARCHIVES, PPO, ROOT, SAC, changed
from tests.helpers.many_cases import check_each
from tests.helpers.run_folders import make_folder
from tests.helpers.sampling import with_exhaustive
from tests.helpers.vector_files import write_vector
from tests.html_report.test_page import assert_is_harmless

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS = ARCHIVES / "vecnormalize-pendulum.pkl"
OTHERS = ROOT / "tests" / "nets" / "archives"
BUFFER = ARCHIVES / "replay-buffer-cartpole.pkl"


def render(source: Any) -> str:
    return render_file(collect_file(source))


def render_file(file: FileData) -> str:
    page = render_archive(file).replace("<wbr>", "")
    assert_is_harmless(page)
    return page


def with_settings(**values: Any) -> FileData:
    """The bundled agent, with decoded values of ``data``."""
    file = collect_file(PPO)
    assert file.inspected is not None
    settings = {**(file.inspected.hyperparameters or {})}
    settings.update((key, Hyperparameter(value, "decoded", None)) for key, value in values.items())
    inspected = file.inspected._replace(hyperparameters=settings)
    return FileData(name="a", archive=file.archive, failure=None, inspected=inspected, scanned=file.scanned)


# -- weights ------------------------------------------------------------------------------------------


def test_numbers_are_those_of_numpy() -> None:
    state_dict = next(part for part in collect_weights(collect_file(PPO)) if part.report.name == "policy.pth")
    found = {tensor.row.name: tensor.distribution for tensor in state_dict.tensors}
    array = sbformat.read(PPO).parameters["policy"]["mlp_extractor.policy_net.2.weight"]
    distribution = found["mlp_extractor.policy_net.2.weight"]
    assert distribution is not None
    assert distribution.mean == pytest.approx(array.mean(), rel=1e-5)
    assert distribution.std == pytest.approx(array.std(), rel=1e-5)
    assert (distribution.minimum, distribution.maximum) == (array.min(), array.max())
    assert distribution.histogram is not None
    assert sum(distribution.histogram.counts) == array.size
    few = found["action_net.bias"]
    assert few is not None
    assert few.histogram is None


@check_each(
    ("array", "zeros", "not_finite", "has_histogram"),
    [
        (np.zeros(20), 20, 0, False),
        (np.full(20, np.nan), 0, 20, False),
        (np.array([np.inf, -np.inf, 0.0, 1.0] * 5), 5, 10, True),
        (np.array([1e308, -1e308] * 5), 0, 0, True),
        (np.array([5e-324, 0.0] * 5), 5, 0, True),
        (1 + np.arange(20) * 2.3e-16, 0, 0, False),
        (np.array([2**63 - 1, -(2**63)] * 5), 0, 0, True),
        (np.array([True, False] * 5), 5, 0, True),
        (np.zeros(0, np.float32), 0, 0, False),
        (np.arange(7.0), 1, 0, False),
        (np.arange(8.0), 1, 0, True),
    ],
)
def test_odd_numbers_are_counted(array: Any, zeros: int, not_finite: int, has_histogram: bool) -> None:  # noqa: FBT001
    found = describe_numbers(array)
    assert found is not None
    assert (found.zeros, found.not_finite, found.histogram is not None) == (zeros, not_finite, has_histogram)
    if found.histogram is not None:
        assert sum(found.histogram.counts) == array.size - not_finite
    assert "nan" not in found.describe()


def test_numbers_that_are_not_real_have_no_distribution() -> None:
    assert describe_numbers(np.zeros(9, np.complex64)) is None
    assert describe_numbers(np.zeros(9, [("a", "f4")])) is None


def test_a_large_tensor_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.HISTOGRAM_SAMPLE, 100)
    found = describe_numbers(np.arange(1001.0).reshape(7, 143))
    assert found is not None
    assert found.sampled
    assert found.histogram is not None
    assert 80 <= sum(found.histogram.counts) <= 100
    assert not getattr(describe_numbers(np.arange(100.0)), "sampled", True)


def test_a_tensor_that_is_read_in_pieces_gives_a_sample_of_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).standard_normal((300, 1001)).astype(np.float32)
    archive = sbformat.reads(sbformat.writes(sbformat.read(PPO).replace(parameters={"policy": {"a": array}})))
    state_dict = archive.parameters["policy"]
    monkeypatch.setattr(thresholds.REPORT_LARGE_BYTES, 1000)
    monkeypatch.setattr(thresholds.HISTOGRAM_SAMPLE, 5000)
    found, sampled = read_numbers(state_dict, state_dict.tensors()["a"])
    assert sampled
    assert found.tolist() == array.reshape(-1)[:: -(-array.size // 5000)].tolist()


def test_the_state_of_an_optimizer_is_named_by_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbformat.html_report.plots.Plots.draw_histogram", lambda *_, **__: "drawn")
    report = sbformat.inspect(PPO)
    optimizer = next(part for part in report.state_dicts if part.name == "policy.optimizer.pth")
    policy = next(part for part in report.state_dicts if part.name == "policy.pth")
    names = [row.name for row in policy.tensors]
    assert find_parameters(optimizer, report.state_dicts) == dict(enumerate(names))
    swapped = policy._replace(tensors=policy.tensors[::-1])
    assert find_parameters(optimizer, [swapped, optimizer]) == {}
    assert find_parameters(optimizer, [optimizer]) == {}
    assert find_parameters(policy, report.state_dicts) == {}
    assert "exp_avg_sq of action_net.weight" in render(PPO)


def test_an_optimizer_of_a_part_is_named_by_the_parameters_of_that_part() -> None:
    report = sbformat.inspect(SAC)
    critic = next(part for part in report.state_dicts if part.name == "critic.optimizer.pth")
    found = find_parameters(critic, report.state_dicts)
    assert found[0] == "critic.qf0.0.weight"
    assert all(name.startswith("critic.qf") for name in found.values())


@pytest.mark.parametrize(("count", "rows"), [(60, 20), pytest.param(1500, MOST_ROWS, marks=pytest.mark.exhaustive)])
def test_many_tensors_are_counted_not_drawn(count: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {f"{'</script>' * 3}{at}": np.arange(9, dtype=np.float32) for at in range(count)}
    archive = sbformat.read(PPO).replace(parameters={"policy": arrays})
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_PLOTS", 5)
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_ROWS", rows)
    page = render(archive)
    assert page.count("<figure") == 5
    assert f"{count:,} tensors" in page
    assert f"{count - rows:,} more, which are not listed" in page
    assert len(page) < 45_000 + 300 * rows


# -- episodes -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_plots")
def test_the_last_episodes_are_read_with_numbers_of_numpy() -> None:
    file = with_settings(
        ep_info_buffer=deque([{"r": 1.5, "l": 3, "t": 0.1}, {"r": -2, "l": 4}], maxlen=100),
        ep_success_buffer=deque([True, False, 1.0, 0]),
    )
    found = collect_episodes(file)
    assert found is not None
    assert (found.rewards, found.lengths, found.success_rate) == ((1.5, -2.0), (3, 4), 0.5)
    page = render_archive(file)
    assert "The last 2 episodes" in page
    assert "50% of them were a success" in page


@check_each(
    "rows",
    [
        5,
        "text",
        [None, 5, {}],
        [{"r": "much", "l": 1}],
        [{"r": math.nan, "l": 1}],
        [{"r": 1.0, "l": math.inf}],
        [{"r": 10**400, "l": 1}],
        [],
    ],
)
def test_episodes_that_are_none_are_left_out(rows: Any) -> None:
    value = deque(rows) if isinstance(rows, list) else rows
    assert collect_episodes(with_settings(ep_info_buffer=value)) is None


def test_odd_episodes_beside_others_are_counted() -> None:
    found = collect_episodes(with_settings(ep_info_buffer=[{"r": 1.0, "l": 1}, {"r": math.nan, "l": 1}, 3]))
    assert found is not None
    assert found.rewards == (1.0,)
    assert "2 episodes" in found.remarks[0]


def test_rewards_of_a_replay_buffer_are_summed_by_episode() -> None:
    found = collect_episodes(collect_file(BUFFER))
    buffer = sbformat.read_replay_buffer(BUFFER)
    assert found is not None
    assert found.lengths == tuple(episode.length for episode in buffer.episodes())
    assert found.rewards == tuple(float(buffer.steps(episode)["rewards"].sum()) for episode in buffer.episodes())


@pytest.mark.parametrize("name", ["buffer-hindsight", "buffer-episodes-of-1.7", "buffer-shared-full", "buffer-axes"])
def test_rewards_of_other_layouts_are_summed_by_episode(name: str) -> None:
    path = write_vector(name)
    found = collect_episodes(collect_file(path))
    buffer = sbformat.read_replay_buffer(path)
    episodes = buffer.episodes()
    assert (found.rewards if found else ()) == tuple(float(buffer.steps(one)["rewards"].sum()) for one in episodes)


def test_the_training_reward_is_in_the_summary_with_the_number_of_episodes() -> None:
    def list_means(*rewards: float) -> list[tuple[str, str]]:
        file = with_settings(ep_info_buffer=[{"r": reward, "l": 1} for reward in rewards])
        assert file.inspected is not None
        facts = list_facts(file, file.inspected)
        return [(fact.value, fact.remark) for fact in facts if fact.label == TRAINING_REWARD]

    assert list_means(1.5, -2.0, 3.5) == [("1", "in the last 3 episodes")]
    assert list_means(-4.25) == [("\u22124.25", "in the last episode")]
    assert list_means() == []


def test_averages_are_means_of_the_last_numbers() -> None:
    values = [float(at * at) for at in range(30)]
    found = average(values, 10)
    assert found[:3] == pytest.approx([0.0, 0.5, 5 / 3])
    assert found[9:] == pytest.approx([np.mean(values[at - 9 : at + 1]) for at in range(9, 30)])
    assert average(values[:19], 10) == []


# -- statistics, settings, spaces ---------------------------------------------------------------------


@pytest.mark.usefixtures("few_plots")
def test_statistics_are_those_of_the_file_and_of_a_bundle(tmp_path: Path) -> None:
    sbformat.write(sbformat.bundle(SAC, STATISTICS), tmp_path / "bundle.zip")
    known = sbformat.read_vecnormalize(STATISTICS)
    assert isinstance(known.obs_rms, sbformat.RunningMeanStd)
    for source in (STATISTICS, tmp_path / "bundle.zip"):
        found = collect_statistics(collect_file(source))
        assert found is not None
        observations, returns = found.parts
        assert [row.mean for row in observations.components] == known.obs_rms.mean.tolist()
        assert [row.std for row in observations.components] == np.sqrt(known.obs_rms.var).tolist()
        assert returns.shape == ()
        assert dict(found.settings)["clip_obs"] == known.clip_obs
        assert "Normalization statistics" in render(source)
    assert collect_statistics(collect_file(SAC)) is None


@pytest.mark.usefixtures("few_plots")
def test_statistics_of_many_keys_are_cut(tmp_path: Path) -> None:
    one = sbformat.RunningMeanStd(np.zeros(1), np.ones(1), 1.0)
    known = dict.fromkeys((f"key {index}" for index in range(100)), one)
    many = sbformat.VecNormalize(obs_rms=known, norm_reward=False)
    sbformat.write(sbformat.bundle(SAC, many, allow_mismatch=True), tmp_path / "many.zip")
    found = collect_statistics(collect_file(tmp_path / "many.zip"))
    assert found is not None
    assert (len(found.parts), found.omitted) == (39, 61)
    assert "Not shown: the observations of 61 more keys." in render(tmp_path / "many.zip")


def with_training(training: Training) -> FileData:
    return collect_file(PPO)._replace(training=training)


def test_curves_of_the_logs_are_drawn_and_listed() -> None:
    curve = Curve((100, 200, 300), (1.5, 5.5, 3.5))
    training = Training("CartPole-v1", 7, curve, curve, ("evaluations.npz",), {"progress.csv": "expected a CSV file"})
    page = render_file(with_training(training))
    assert "Mean reward of evaluations, 3 points: best 5.5 at step 200, last 3.5 at step 300" in page
    for text in ("evaluations.npz", "expected a CSV file", 'href="#training"'):
        assert text in page
    assert 'id="training"' not in render(PPO)


def test_environment_seed_and_evaluations_are_in_the_summary_with_their_source() -> None:
    curve = Curve((100, 200, 300), (1.5, 500.0, -1079.236))
    training = Training("CartPole-v1", 7, curve, None, (), {}, "logs/0.monitor.csv", "args.yml")

    def find(file: FileData) -> list[tuple[str, str, str]]:
        assert file.inspected is not None
        labels = ("Environment", "Seed", *REWARDS)
        facts = list_facts(file._replace(training=training), file.inspected)
        return [(fact.label, fact.value, fact.remark) for fact in facts if fact.label in labels]

    facts = find(with_settings(seed=None))
    assert facts == [
        ("Environment", "CartPole-v1", "from 0.monitor.csv"),
        ("Seed", "7", "from args.yml"),
        ("Best evaluation", "500", "at step 200"),
        ("Last evaluation", "\u22121,079.24", "at step 300"),
    ]
    assert find(with_settings(seed=3))[1] == ("Seed", "3", "")  # that of the agent


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("logs/ppo/CartPole-v1_1/best_model.zip", "CartPole-v1_1/best_model.zip"),
        ("runs/a/checkpoints/rl_model_1000_steps.zip", "a/checkpoints/rl_model_1000_steps.zip"),
        ("runs/ppo-cartpole.zip", "ppo-cartpole.zip"),
        ("../agent.zip", "agent.zip"),
        ("/model.zip", "model.zip"),
    ],
)
def test_an_agent_with_a_usual_name_is_named_with_its_run(path: str, name: str) -> None:
    page = render_file(collect_file(PPO, name=path))
    assert f"<title>{name} \u2013 sbformat report</title>" in page


def test_a_long_curve_is_thinned() -> None:
    curve = Curve(tuple(range(100_000)), tuple(map(float, range(100_000))))
    page = render_file(with_training(Training(None, None, None, curve, ("monitor.csv",), {})))
    section = page[page.index('<section id="training"') : page.index('<section id="weights"')]
    assert section.count("<tr>") == MOST_POINTS + 1
    assert len(section) < 120_000
    assert "100,000 points: best 99,999 at step 99,999" in section


@pytest.mark.parametrize("rewards", [(1e299, -1e299), (0.0, 0.0), (1e-310,), (5.0,)])
@pytest.mark.parametrize("steps", [(0, 0), (1 << 62, 1 << 62), (-5, 7)])
def test_odd_curves_are_drawn(steps: tuple[int, ...], rewards: tuple[float, ...]) -> None:
    curve = Curve(steps[: len(rewards)], rewards)
    assert 'aria-label="Mean reward of evaluations' in render_file(
        with_training(Training(None, None, curve, None, (), {}))
    )


def test_texts_of_logs_are_escaped() -> None:
    markup = "<script>alert(1)</script>\u202e"
    page = render_file(with_training(Training(markup, None, None, None, (markup,), {markup: markup})))
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_a_report_reads_the_logs_beside_an_agent(tmp_path: Path) -> None:
    make_folder(tmp_path, {"a.zip": PPO.read_bytes(), "progress.csv": b"steps,eval/mean_reward\n5,2\n9,1\n"})
    sbformat.report(tmp_path / "a.zip", tmp_path / "a.html")
    assert "2 points: best 2 at step 5, last 1 at step 9" in (tmp_path / "a.html").read_text("utf-8")
    make_folder(tmp_path, {"other/b.zip": PPO.read_bytes(), "other/c.zip": SAC.read_bytes()})
    sources = [tmp_path / name for name in ("a.zip", "other/b.zip", "other/c.zip")]
    sbformat.report(sources, tmp_path / "many.html")
    page = (tmp_path / "many.html").read_text("utf-8")
    assert "Best evaluation" in page
    assert "Last evaluation" in page


def test_settings_are_grouped_and_none_is_lost() -> None:
    report = sbformat.inspect(PPO)
    groups = list_settings(report)
    names = [row.name for rows in groups.values() for row in rows]
    assert report.data is not None
    assert sorted([*names, "observation_space", "action_space", "lr_schedule"]) == sorted(report.data)
    assert [row.name for row in groups["Optimization"]][:2] == ["learning_rate", "n_steps"]
    assert {row.name for row in groups["Other values"]} >= {"_last_obs", "ep_info_buffer"}
    assert [(row.role, row.kind) for row in list_spaces(report)] == [
        ("Observation", "Box of 4"),
        ("Action", "Discrete"),
    ]


def list_shown(**values: Any) -> dict[str, Setting]:
    file = with_settings(**values)
    assert file.inspected is not None
    return {row.name: row for rows in list_settings(file.inspected).values() for row in rows}


def test_the_learning_rate_is_listed_once_unless_its_schedule_is_another() -> None:
    line = LinearSchedule(3e-4, 0.0, 1.0)
    assert "lr_schedule" not in list_shown(learning_rate=line, lr_schedule=FloatSchedule(line))
    assert "lr_schedule" not in list_shown(learning_rate=1, lr_schedule=ConstantSchedule(1.0))
    assert list_shown(learning_rate=3e-4, lr_schedule=line)["lr_schedule"].value == "linear 0.0003 -> 0.0"
    deep: list[list[Any]] = [[], []]
    for _ in range(100_000):
        deep = [[part] for part in deep]
    assert "lr_schedule" in list_shown(learning_rate=deep[0], lr_schedule=deep[1])
    inspected = sbformat.inspect(attacks.in_blob(attacks.PAYLOAD))
    assert "lr_schedule" in [row.name for rows in list_settings(inspected).values() for row in rows]


@check_each(
    ("value", "text"),
    [
        (1643522319123456789, "2022-01-30 05:58:39 UTC"), (1614619329.0860486, "2021-03-01 17:22:09 UTC"), (0, None),
        (-5, None), (math.nan, None), (math.inf, None), (10**400, None), (99_999_999_999_999, None), (True, None),
        ("1", None),
    ],
)  # fmt: skip
def test_the_start_of_a_run_is_a_date(value: object, text: str | None) -> None:
    assert render_time(value) == text


@pytest.mark.usefixtures("few_plots")
def test_schedules_that_change_are_drawn() -> None:
    table = InterpolatedSchedule((0.0, 0.5, 1.0), (1e-310, 5e-311, 1e-310))
    page = render_file(with_settings(learning_rate=LinearSchedule(3e-4, 0.0, 1.0), clip_range=table, tau=0.5))
    assert 'aria-label="learning_rate during the training: from 0.0003 to 0"' in page
    assert 'aria-label="clip_range during the training: from 1e-310 to 1e-310"' in page
    assert page.count("during the training: ") == 2
    drawn = Plots().draw_schedule([math.nan, 1.0, 1e300, math.inf, -1e300], label="")
    assert not re.search("nan|inf", str(drawn).casefold())
    assert draw_schedules([Setting("a", "", "", LinearSchedule(math.nan, math.inf, 0.0))], Plots()) == {}
    assert draw_schedules([Setting("a", "", "", LinearSchedule(10**400, 10**400, 0.5))], Plots()) == {}


def test_a_layer_of_the_diagram_opens_a_panel_with_its_weights() -> None:
    page = render(PPO)
    elements = assert_is_harmless(page)
    panels = {attrs["id"] for _, attrs in elements.found if "popover" in attrs}
    opened = [attrs["popovertarget"] for _, attrs in elements.found if attrs.get("title", "").endswith(": details")]
    network = sbformat.inspect(PPO).network
    assert network is not None
    assert len(opened) == len(network.layers) == len(panels)
    assert set(opened) == panels
    panel = page[page.index('id="layer-0"') : page.index('id="layer-1"')]
    for text in ("mlp_extractor.policy_net.0.weight", "4 \u2192 8", "Tanh", ">40<", "8 \u00d7 4; mean"):
        assert text in panel
    names = [attrs["href"] for tag, attrs in elements.found if tag == "use" and attrs["href"].count("-") == 0]
    assert len(names) == sum(at.histogram is not None for at in list_distributions(PPO))
    ids = {attrs["id"] for tag, attrs in elements.found if tag == "svg" and "id" in attrs}
    assert {name[1:] for name in names} <= ids


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (OTHERS / "sb2" / "ppo2-elu-box64.zip", "model/pi_fc0/w:0"),
        (OTHERS / "sbx" / "ppo-box.zip", "actor_state/params/params/Dense_0/kernel"),
        (ARCHIVES / "policy-box.pth", "mlp_extractor.policy_net.0.weight"),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_panels_of_other_formats_have_the_weights_of_their_layers(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbformat.html_report.plots.Plots.draw_histogram", lambda *_, **__: "drawn")
    page = render_archive(collect_file(path)).replace("<wbr>", "")
    start = page.index(f"<figcaption><code>{name}</code>")
    assert '<use href="#f' in page[start : page.index("</figure>", start)]
    assert "standard deviation" in page[start : page.index("</figcaption>", start)]


def list_distributions(path: Path) -> list[Any]:
    (policy,) = (part for part in collect_weights(collect_file(path)) if part.report.name == "policy.pth")
    return [tensor.distribution for tensor in policy.tensors]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (write_vector("policy-cnn-multi-input"), ["Dict", "camera", "pre-processing"]),
        pytest.param(SAC, ["SAC", "critic.qf1.4.bias", "Layers (364 parameters)"], marks=pytest.mark.exhaustive),
        (STATISTICS, ["Statistics of VecNormalize", "Shape 3, from 101 samples"]),
        (BUFFER, ["Replay buffer", "5 episodes in the replay buffer", "next_observations"]),
        (ARCHIVES / "ppo-cartpole-1.0.zip", ["PPO", "1.0"]),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
@pytest.mark.usefixtures("few_plots")
def test_every_kind_of_file_has_a_page(source: Any, words: list[str]) -> None:
    page = render(source)
    for word in words:
        assert word in page


@pytest.mark.usefixtures("few_plots")
def test_a_dangerous_archive_has_its_findings_in_the_page(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    sbformat.write(sbformat.read(PPO).replace(extra={"x.pkl": b"cos\nsystem\n(S'<script>'\ntR."}), path)
    page = render(path)
    assert re.search(r'class="verdict-word">dangerous \(harmful\)', page)
    assert "os.system" in page
    assert "x.pkl" in page
    allowed = collect_file(PPO, allow=["my.thing"])
    assert allowed.scanned is not None


@pytest.mark.filterwarnings("ignore:Empty unicode path:UserWarning")  # zipfile's, of Python 3.12 and later
@pytest.mark.usefixtures("few_plots")
@pytest.mark.parametrize("every", with_exhaustive([180], [60]))
def test_every_vector_of_the_format_has_a_page_or_a_reason(every: int) -> None:
    vectors = [vector for vector in read_vectors() if name_file(vector).endswith((".zip", ".pth"))]
    for vector in vectors[::every]:
        file = collect_file(write_vector(vector["name"]))
        assert (file.archive is None) == (file.failure is not None and file.inspected is None)
        assert_is_harmless(render_archive(file))


@pytest.mark.usefixtures("few_plots")
@pytest.mark.parametrize("rows", with_exhaustive([50], [MOST_ROWS]))
def test_the_last_episodes_are_listed(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sbformat.html_report.archive_page.MOST_ROWS", rows)
    episodes = [{"r": 0.5 + index, "l": 7000 + index} for index in range(rows + 100)]
    page = render_file(with_settings(ep_info_buffer=episodes))
    assert "100 before these are not listed" in page
    assert f">{7099 + rows:,}<" in page
    assert ">7,099<" not in page
    assert f'<th scope="row" class="right">{rows + 100}</th>' in page


@pytest.mark.usefixtures("few_plots")
def test_fields_of_the_system_beyond_the_first_are_counted() -> None:
    file = collect_file(changed(system_info_txt="".join(f"- A{index}: x\n" for index in range(600)).encode()))
    page = render_file(file)
    assert page.count('<td class="text">x</td>') == MOST_ROWS
    assert "… and 100 more, which are not listed" in page
