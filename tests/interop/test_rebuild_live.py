"""``rebuild`` beside Stable-Baselines3 of today: every old archive is loaded whole, and is the agent that it was."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import numpy as np

import sbformat
from sbformat.errors import UnsupportedError
from sbformat.known.types import FloatSchedule, Function
from tests.helpers.shared_files import summarize_counts
from tests.interop import rebuild_oracle as oracle
from tests.interop.rebuild_envs import environment, sample, steps_of_one_update
from tests.interop.rebuild_oracle import ARCHIVES, Case, is_any, loadable, name_of
from tests.interop.rebuild_pickles import GLOBALS, OF_SB3, blobs, globals_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # gymnasium's and torch's own; loading makes errors of all
    pytest.mark.skipif(not ARCHIVES, reason="no archives beside the project"),
]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_rebuild_live.py:")
REBUILT: Final[dict[str, bool]] = {}
"""By path: whether today's SB3 loaded it rebuilt."""

ALGORITHMS: Final = (
    "A2C", "ARS", "CrossQ", "DDPG", "DQN", "MaskablePPO", "PPO", "QRDQN", "RecurrentPPO", "SAC", "TD3", "TQC", "TRPO",
)  # fmt: skip


@lru_cache(maxsize=2)
def case_of(path: Path) -> Case:
    torch.set_num_threads(1)
    return Case(path)


def each(paths: list[Path]) -> Any:
    return [pytest.param(path, id=name_of(path)) for path in paths]


@pytest.fixture(scope="module", params=each(loadable(ARCHIVES)))
def case(request: pytest.FixtureRequest) -> Case:
    """An archive that SB3 alone can load."""
    return case_of(request.param)


@pytest.fixture(scope="module", params=each(ARCHIVES))
def any_case(request: pytest.FixtureRequest) -> Case:
    return case_of(request.param)


@pytest.fixture(scope="module", autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have another process load the archives as they are, and tell both in the end."""
    paths = sorted({str(item.callspec.params["case"]) for item in request.session.items if _loads(item)})
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "rebuild_child.py"), *paths], stdout=subprocess.PIPE
    )
    yield
    if request.session.shouldfail or request.session.shouldstop:
        child.kill()
        child.wait()
        return
    as_is = json.loads(child.communicate()[0])
    plugins = request.config.pluginmanager
    reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        reporter.write_line("\n" + "\n".join(rows_of(as_is)))


def _loads(item: Any) -> bool:
    return item.path == Path(__file__) and "case" in getattr(item, "callspec", item).__dict__.get("params", {})


def rows_of(as_is: dict[str, str]) -> Iterator[str]:
    yield f"{'archives':<12}{'':>6}{'as is: whole':>14}{'not whole':>12}{'fails':>8}{'rebuilt: whole':>17}"
    folders = sorted({Path(path).parent.name for path in as_is})
    for folder in [*folders, "all"]:
        paths = [path for path in as_is if folder in (Path(path).parent.name, "all")]
        found = Counter(as_is[path] for path in paths)
        whole = sum(REBUILT.get(path, False) for path in paths)
        counts = f"{found['whole']:>14}{found['not whole']:>12}{found['fails']:>8}{whole:>17}"
        yield f"{folder:<12}{len(paths):>6}{counts}"


# -- what SB3 loads -----------------------------------------------------------------------------------


def test_todays_sb3_loads_it_without_a_warning(case: Case) -> None:
    REBUILT[str(case.path)] = False
    model = case.model
    assert type(model) is oracle.algorithm_class(case.report.algorithm)
    assert case.report.requires == ()
    COUNTED["loaded without a warning"] += 1
    REBUILT[str(case.path)] = True


def test_the_algorithm_is_the_one_that_trained_it(case: Case) -> None:
    """Generated archives and those of the zoo have it in their name; HER's was SAC before it was a buffer."""
    word = re.match(r"(?:her-)?([a-z0-9]+)(?:-|__)", case.path.name.replace("her-Mlp", "her-sac-Mlp"))
    if word and word[1].upper() in {name.upper() for name in ALGORITHMS}:
        assert case.report.algorithm.upper() == word[1].upper()
        COUNTED["algorithms as the name tells"] += 1


def test_spaces_are_equal(case: Case) -> None:
    model = case.model
    oracle.assert_same_space(model.observation_space, case.observation_space)
    oracle.assert_same_space(model.action_space, case.action_space)
    for key in ("observation_space", "action_space"):
        expected = case.expected.get(key, {})
        live = getattr(model, key)
        for word in ("low", "high") if case.goals is None or key == "action_space" else ():
            if isinstance(expected.get(word), dict):
                assert getattr(live, word).tolist() == expected[word]["values"]
                COUNTED["bounds as cloudpickle loaded them"] += 1


def test_policy_tensors_are_equal_bit_for_bit(case: Case) -> None:
    live = case.model.policy.state_dict()
    expected = oracle.expected_weights(case)
    written = oracle.torch_loads(bytes(case.rebuilt[0].raw("policy.pth")))
    assert list(written) == list(live) == list(expected)
    for name, values in expected.items():
        oracle.assert_same_bits(live[name], values, name)
    assert len({tensor.data_ptr() for tensor in written.values()}) == len({one.data_ptr() for one in live.values()})
    COUNTED["policy tensors"] += len(expected)
    assert type(case.model.policy).__name__ == policy_name(case)


_NAMES_OF_TODAY: Final = {"PPOPolicy": "ActorCriticPolicy", "FeedForward32Policy": "ActorCriticPolicy"}


def policy_name(case: Case) -> str:
    """Today's name of the policy's class: PPOPolicy was SB3 0.6's of PPO and A2C."""
    name = case.original.decode("policy_class").name
    return "MultiInputPolicy" if case.goals else _NAMES_OF_TODAY.get(name, name)


def test_policy_arguments_are_equal(case: Case) -> None:
    live = case.model.policy_kwargs
    for key, value in oracle.policy_arguments(case).items():
        if key == "net_arch" and "mlp_extractor.shared_net.0.weight" in case.weights:
            continue  # the same layers, parted: the tensors say so
        if key != "device":
            oracle.assert_same_value(live[key], unwrapped(key, value), key)


def unwrapped(key: str, value: Any) -> Any:
    """The dict in a list that SB3 before 1.8 had for both branches: its ``load`` takes it out."""
    return value[0] if key == "net_arch" and value and isinstance(value, list) and isinstance(value[0], dict) else value


def test_optimizers_have_their_options_and_moments(case: Case) -> None:
    stored = [name for name in oracle.OPTIMIZERS if f"{name}.pth" in case.original.entries]
    assert [name for name in oracle.OPTIMIZERS if f"{name}.pth" in case.rebuilt[0].entries] == stored
    for name in stored:
        COUNTED["optimizers"] += 1
        COUNTED["parameters with moments"] += oracle.assert_same_optimizer(case, name)


def test_the_entropy_coefficient_is_equal(case: Case) -> None:
    entries = [name for name in ("pytorch_variables.pth", "tensors.pth") if name in case.original.entries]
    for name, tensor in case.stored(entries[0]).items():
        if tensor is None:
            assert getattr(case.model, name, None) is None
        else:
            oracle.assert_same_bits(getattr(case.model, name), tensor.detach().numpy(), name)
            COUNTED["entropy coefficients"] += 1


@pytest.mark.parametrize(
    ("key", "attribute"),
    [
        ("learning_rate", "lr_schedule"),
        ("lr_schedule", "lr_schedule"),
        ("clip_range", "clip_range"),
        ("clip_range_vf", "clip_range_vf"),
        ("exploration_schedule", "exploration_schedule"),
        ("delta_std_schedule", "delta_std_schedule"),
    ],
)
def test_schedules_give_what_they_gave(case: Case, key: str, attribute: str) -> None:
    if key in oracle.schedules_gone(case):
        return  # test_what_is_left_out_is_said
    expected = oracle.values_of(case, key)
    live = getattr(case.model, attribute, None)
    if expected is None:
        assert live is None or key not in case.original.data
        return
    assert [live(progress) for progress in oracle.PROGRESS] == pytest.approx(expected, rel=1e-12, abs=0)
    COUNTED[f"{key} equal"] += 1


def test_all_other_values_are_equal(case: Case) -> None:
    for key in oracle.other_keys(case):
        live = getattr(case.model, oracle.RENAMED.get(key, key))
        oracle.assert_same_value(live, case.original.decode(key), key)
        COUNTED["other values"] += 1
    for word in ("buffer_size", "n_envs"):
        assert case.rebuilt[0].data.get(word) == case.original.data.get(word)


def test_it_collects_and_keeps_experience_as_before(case: Case) -> None:
    frequency = oracle.train_freq(case)
    if frequency is None:
        assert not hasattr(case.model, "train_freq")
        return
    assert (case.model.train_freq.frequency, case.model.train_freq.unit.value) == frequency
    buffer = case.model.replay_buffer
    if case.has_goals:
        assert type(buffer).__name__ == "HerReplayBuffer"
        sampled, strategy = oracle.goal_options(case)
        if "replay_buffer_kwargs/goal_selection_strategy" in oracle.carried(case.name):
            strategy = "future"  # SB3's default, in the place of a strategy that it never had
        assert (buffer.n_sampled_goal, buffer.goal_selection_strategy.name.lower()) == (sampled, strategy)
        COUNTED["goal replay buffers"] += 1
    elif case.original.data.get("replay_buffer_class") is not None:
        assert type(buffer).__name__ == case.original.decode("replay_buffer_class").name


# -- what was parted still computes the same ----------------------------------------------------------


def holding(word: bytes) -> Any:
    return each([path for path in loadable(ARCHIVES) if word in path.read_bytes()])


def linear(weights: Any, prefix: str, values: np.ndarray, activation: Any = None) -> np.ndarray:
    """Layers by their numbers; without an activation, one layer of no number."""
    for name, weight in weights.items():
        if name.startswith(f"{prefix}.") and name.endswith(".weight"):
            bias = weights[name.replace(".weight", ".bias")]
            values = values @ weight.double().numpy().T + bias.double().numpy()
            values = values if activation is None else activation(values)
    return values


ACTIVATIONS: Final = {
    "Tanh": np.tanh,
    "ReLU": lambda values: np.maximum(values, 0),
    "ELU": lambda values: np.where(values > 0, values, np.expm1(np.minimum(values, 0))),
}


@pytest.mark.parametrize("path", holding(b"mlp_extractor.shared_net.0.weight"))
def test_parted_layers_compute_what_the_shared_ones_did(path: Path) -> None:
    case = case_of(path)
    weights, policy = case.weights, case.model.policy
    activation = ACTIVATIONS[getattr(oracle.policy_arguments(case).get("activation_fn"), "name", "Tanh")]
    features = random_features(case)
    shared = linear(weights, "mlp_extractor.shared_net", features, activation)
    actions = linear(weights, "action_net", linear(weights, "mlp_extractor.policy_net", shared, activation))
    values = linear(weights, "value_net", linear(weights, "mlp_extractor.value_net", shared, activation))
    with torch.no_grad():
        latent = policy.mlp_extractor(torch.as_tensor(features, dtype=torch.float32))
        live = policy.action_net(latent[0]).numpy(), policy.value_net(latent[1]).numpy()
    np.testing.assert_allclose(live[0], actions, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(live[1], values, rtol=1e-4, atol=1e-5)
    COUNTED["parted networks that compute the same"] += 1


def random_features(case: Case) -> np.ndarray:
    """Features of observations: flattened; where an LSTM stands between, what it may give."""
    random = np.random.default_rng(1)
    policy = case.model.policy
    if hasattr(policy, "lstm_actor"):
        return random.uniform(-1, 1, (16, policy.lstm_output_dim))
    observations = [sample(case.observation_space, random) for _ in range(16)]
    with torch.no_grad():
        tensors = [policy.obs_to_tensor(observation)[0] for observation in observations]
        features = np.concatenate([policy.extract_features(tensor).numpy() for tensor in tensors])
    if type(case.observation_space).__name__ in {"Box", "MultiBinary"}:
        np.testing.assert_array_equal(features, np.stack([np.ravel(one) for one in observations]).astype(np.float32))
    return features


@pytest.mark.parametrize("path", holding(b'"model_class"'))
def test_a_dict_of_goals_computes_what_the_concatenation_did(path: Path) -> None:
    case = case_of(path)
    weights, policy, random = case.weights, case.model.policy, np.random.default_rng(2)
    observations = [sample(case.observation_space, random) for _ in range(16)]
    old = np.stack([np.concatenate([one["observation"], one["desired_goal"]]) for one in observations])
    actions = random.uniform(-1, 1, (16, *case.action_space.shape))
    relu = ACTIVATIONS["ReLU"]
    mean = linear(weights, "actor.mu", linear(weights, "actor.latent_pi", old, relu))
    batch = {key: torch.as_tensor(np.stack([one[key] for one in observations])) for key in observations[0]}
    with torch.no_grad():
        live = policy.actor.get_action_dist_params(batch)[0].numpy()
        critics = policy.critic(batch, torch.as_tensor(actions, dtype=torch.float32))
    np.testing.assert_allclose(live, mean, rtol=1e-4, atol=1e-5)
    for index, critic in enumerate(critics):
        last = max(name for name in weights if name.startswith(f"critic.qf{index}.")).rpartition(".")[0]
        hidden = {name: tensor for name, tensor in weights.items() if not name.startswith(f"{last}.")}
        expected = linear(hidden, f"critic.qf{index}", np.concatenate([old, actions], 1), relu)
        np.testing.assert_allclose(critic.numpy(), linear(weights, last, expected), rtol=1e-4, atol=1e-5)
    COUNTED["goal networks that compute the same"] += 1


# -- what it does -------------------------------------------------------------------------------------


def test_it_predicts_an_action(case: Case) -> None:
    observation = sample(case.observation_space, np.random.default_rng(3))
    action, _ = case.model.predict(observation, deterministic=True)
    assert case.action_space.contains(action if np.ndim(action) else action.item())


TRAINED: Final = 64
"""Further steps of one agent of each algorithm, with its own hyper-parameters."""


def one_of_each() -> Any:
    """By algorithm, the agent of the latest release with a schedule or, failing that, any."""
    found: dict[str, Path] = {}
    for path in loadable(ARCHIVES):
        algorithm = re.match(r"([a-z0-9]+)-", path.name)
        is_better = algorithm is not None and ("schedules" in path.name or algorithm[1] not in found)
        if algorithm is not None and is_better and "Cnn" not in path.name:
            found[algorithm[1]] = path
    return [pytest.param(path, id=name) for name, path in found.items()]


@pytest.mark.parametrize("path", one_of_each())
def test_one_of_each_algorithm_trains_64_steps_as_it_would_have(path: Path) -> None:
    """The learning rate that its optimizers have afterwards is the one of the original's schedule."""
    case = case_of(path)
    count = case.original.data.get("n_envs", 1)
    env = environment(case.observation_space, case.action_space, count)
    options = {"buffer_size": 256} if "buffer_size" in case.original.data else {}
    if case.has_goals:  # SB3 samples goals of whole episodes
        options["learning_starts"] = case.original.data["num_timesteps"] + 16
    model = case.load(env, **options)
    begun = model.num_timesteps
    model.learn(TRAINED, reset_num_timesteps=False)
    assert model.num_timesteps - begun >= TRAINED
    assert all(tensor.isfinite().all() for tensor in model.policy.state_dict().values())
    rate = model.lr_schedule(model._current_progress_remaining)
    optimizers = [live for name in oracle.OPTIMIZERS if (live := find_optimizer(model, name)) is not None]
    assert all(group["lr"] == rate for live in optimizers for group in live.param_groups)
    COUNTED[f"{type(model).__name__} trained {TRAINED} steps"] += 1


def find_optimizer(model: Any, name: str) -> Any:
    """An optimizer of an agent by the name of its entry, or None."""
    owner, _, _ = name.partition(".")
    if owner == name:
        return getattr(model, name, None)
    module = model.policy if owner == "policy" else getattr(model, owner, None)
    return getattr(module, "optimizer", None)


def test_training_goes_on(case: Case) -> None:
    model = case.loaded_to_train()
    before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
    updates = model._n_updates
    model.learn(steps_of_one_update(model, model.n_envs))
    after = model.policy.state_dict()
    assert model._n_updates > updates
    assert any(not torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(tensor.isfinite().all() for tensor in after.values())
    COUNTED["trained on"] += 1


# -- what is left out, and what is never in it --------------------------------------------------------


def test_what_is_left_out_is_said(any_case: Case) -> None:
    name = any_case.name
    if is_any(name, oracle.REFUSED):
        reason = next(text for pattern, text in oracle.REFUSED.items() if is_any(name, [pattern]))
        with pytest.raises(UnsupportedError, match=reason):
            _ = any_case.rebuilt
        COUNTED["refused"] += 1
        return
    lost = oracle.carried(name)
    dropped = {row.key or row.entry: row for row in any_case.report.rows if row.action == "dropped"}
    allowed = oracle.GONE | lost | oracle.superseded(any_case) | ({"lr_schedule"} if "learning_rate" in lost else set())
    nulls = {key for key in oracle.NULLS & dropped.keys() if any_case.original.data[key] is None}
    assert dropped.keys() - allowed - nulls == set()
    assert lost <= dropped.keys()
    assert dropped.keys().isdisjoint(any_case.rebuilt[0].entries)
    assert not any(any_case.rebuilt[0].data.get(key) for key in dropped if key != "policy_class")
    for key in lost:
        assert dropped[key].instead
        COUNTED[f"times {key} is not SB3's"] += 1


def is_of_a_user(case: Case, key: str) -> bool:
    """Whether a schedule is bytecode that its author wrote."""
    meaning = case.original.decode(key) if key in case.original.data else None
    while isinstance(meaning, FloatSchedule) or (isinstance(meaning, Function) and meaning.schedule is not None):
        meaning = meaning.schedule
    return isinstance(meaning, Function)


def test_schedules_that_users_wrote_are_linear_ones_of_sb3(case: Case) -> None:
    """Their values are compared by ``test_schedules_give_what_they_gave``; here, that nothing of them is left."""
    keys = [key for key in ("learning_rate", "clip_range", "clip_range_vf") if is_of_a_user(case, key)]
    rows = {row.key: row for row in case.report.rows}
    for key in keys:
        assert (rows[key].action, rows[key].is_finding) == ("translated", False)
        assert sbformat.scan(case.path).verdict == "code"
        COUNTED["schedules of users"] += 1


def test_no_schedule_is_dropped() -> None:
    """The goal: none of the functions that real and generated agents carry is more than arithmetic."""
    dropped = Counter(
        (row.key, row.message)
        for path in loadable(ARCHIVES)
        for row in case_of(path).report.hyperparameters
        if row.action == "dropped" and row.is_finding
    )
    COUNTED["hyper-parameters dropped"] += sum(dropped.values())
    assert [key for key, _ in dropped] == ["replay_buffer_kwargs/goal_selection_strategy"]


def test_every_key_and_entry_has_a_row(any_case: Case) -> None:
    if not is_any(any_case.name, oracle.REFUSED):
        rows = any_case.report.rows
        assert {row.key for row in rows} >= set(any_case.original.data)
        assert {row.entry for row in rows if row.key is None} >= set(any_case.original.entries) - {"data"}


@pytest.mark.parametrize("path", each([path for path in ARCHIVES if is_any(name_of(path), oracle.FOREIGN)]))
def test_a_policy_of_another_package_is_kept_when_it_is_allowed(path: Path) -> None:
    case = case_of(path)
    name = "imitation.policies.base.FeedForward32Policy"
    made, report = sbformat.rebuild(case.original, allow=[name])
    assert name in {required.name for required in report.requires}
    with pytest.raises(ModuleNotFoundError, match="imitation"):
        oracle.algorithm_class(report.algorithm).load(io.BytesIO(sbformat.writes(made)), device="cpu")
    COUNTED["policies of other packages"] += 1


def test_a_class_that_only_passes_arguments_becomes_that_of_sb3() -> None:
    (path,) = (path for path in ARCHIVES if is_any(name_of(path), [oracle.REPLACED]))
    case = case_of(path)
    assert case.report.findings == ()
    (row,) = (row for row in case.report.rows if row.key == "policy_class")
    assert row.message.startswith(f"{type(case.model.policy).__module__}.{type(case.model.policy).__name__}, to which")


def test_it_is_clean_and_names_nothing_but_a_few_classes(any_case: Case) -> None:
    if is_any(any_case.name, oracle.REFUSED):
        return
    assert sbformat.scan(any_case.raw).verdict == "clean"
    for key, pickled in blobs(any_case.raw):
        assert globals_of(pickled) - GLOBALS - OF_SB3 == set(), key
        COUNTED["pickles that name known classes alone"] += 1


def test_picklescan_finds_nothing_dangerous(any_case: Case) -> None:
    scanner = pytest.importorskip("picklescan.scanner")
    if is_any(any_case.name, oracle.REFUSED):
        return
    for key, pickled in blobs(any_case.raw):
        found = scanner.scan_pickle_bytes(io.BytesIO(pickled), key)
        assert (found.issues_count, found.scan_err) == (0, False), key
        COUNTED["pickles that picklescan passes"] += 1


def test_fickling_finds_nothing_overtly_malicious(any_case: Case) -> None:
    """Whatever is imported outside the standard library, numpy included, is likely unsafe to it; that is not asked."""
    analysis, fickle = pytest.importorskip("fickling.analysis"), pytest.importorskip("fickling.fickle")
    if is_any(any_case.name, oracle.REFUSED):
        return
    for key, pickled in blobs(any_case.raw):
        if is_new(pickled):
            result = analysis.check_safety(fickle.Pickled.load(pickled))
            assert result.severity <= analysis.Severity.LIKELY_UNSAFE, (key, str(result))
            COUNTED["pickles that fickling passes"] += 1


SEEN: Final[set[bytes]] = set()


def is_new(pickled: bytes) -> bool:
    known = pickled in SEEN
    SEEN.add(pickled)
    return not known
