"""Archives rebuilt for an older SB3, loaded by that SB3: without a warning, and as what the originals are.

``SBFORMAT_SB3_2_0`` names a Python interpreter that has SB3 2.0 and sb3-contrib 2.0; ``SBFORMAT_SB3_1_8`` one with 1.8,
and so on for every target: ``SBFORMAT_SB3_2_0=old/bin/python python -m pytest -m interop
tests/interop/test_rebuild_targets.py``. What is expected is worked out here from the originals alone: from what SB3's
own release said of them (``.expected.json``), from their decoded values, and, for actions, by a forward pass over
their tensors that uses no SB3.
"""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from torch.nn import functional

import sbformat
from sbformat import SbformatError, Serialized, UnsupportedError
from sbformat.known import spaces as known_spaces
from sbformat.known import types as values
from sbformat.known.changes import RELEASES, Release
from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth import TensorInfo
from sbformat.pth.arrays import to_array
from tests.helpers.bundled import ARCHIVES as BUNDLED_ARCHIVES
from tests.helpers.sampling import HAS_ALL
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, SHARED, summarize_counts
from tests.interop.policy_agents import build_agent, draw_observations
from tests.interop.policy_oracle import RealPolicy
from tests.interop.policy_setups import SAVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sbformat.archive.archive import Archive
    from sbformat.tools.rebuild import RebuildReport

HERE: Final = os.path.dirname(os.path.abspath(__file__))
TARGETS: Final = {
    target: path for target in RELEASES if (path := os.environ.get(f"SBFORMAT_SB3_{target.major}_{target.minor}"))
}
BUNDLED: Final = sorted(map(str, BUNDLED_ARCHIVES.glob("*.zip")))
ALL: Final = [
    *BUNDLED, *sorted(glob.glob(str(GENERATED / "[0-9]*" / "*.zip"))), *sorted(glob.glob(str(CORPUS / "sb3" / "*"))),
]  # fmt: skip
SAMPLED: Final = 3
"""Of the archives of others, one in so many; ``SBFORMAT_ALL=1`` takes all."""
ARCHIVES: Final = [
    path
    for number, path in enumerate(ALL)
    if DAMAGED not in path and (path.startswith(str(GENERATED)) or path in BUNDLED or HAS_ALL or not number % SAMPLED)
]

pytestmark = [
    pytest.mark.skipif(not TARGETS, reason="SBFORMAT_SB3_2_0 names no interpreter with SB3 2.0"),
    pytest.mark.skipif(not ARCHIVES, reason="no archives beside the project"),
]

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_rebuild_targets.py:")

PROGRESS: Final = (1.0, 0.5, 0.0)
SEPARATE_LAYERS: Final = Release(1, 8)
"""The first release whose policy and value network share no layers."""
THREE_NAMES: Final = Release(1, 7)
"""The first release with three names for the features extractor that both share."""
CROSSQ: Final = Release(2, 4)
"""The first release of sb3-contrib with CrossQ."""
NOT_FOR_ANY: Final = "0.6.0/ppo-CnnPolicy.zip"
"""SB3 0.6's NatureCNN is another network: no target has it."""


class Case(NamedTuple):
    """An archive, what was made of it, and what the older SB3 says of that."""

    path: str
    target: Release
    archive: Archive
    report: RebuildReport
    answer: dict[str, Any]

    @property
    def dropped(self) -> dict[str | None, str]:
        """What was left out of ``data``, by key, and why."""
        return {row.key: row.message for row in self.report.rows if row.entry == "data" and row.action == "dropped"}

    @property
    def expected(self) -> dict[str, Any]:
        """What the release that wrote it said of its ``data``; nothing for the archives of others."""
        path = f"{self.path.removesuffix('.zip')}.expected.json"
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file)["data"])

    def decoded(self, key: str) -> Any:
        return self.archive.decode(key) if key in self.archive.data else None


# -- making them, and asking --------------------------------------------------------------------------


def numbers(info: ArrayInfo) -> np.ndarray:
    return np.asarray(info.to_numpy()).reshape(info.shape)


def observed(space: Any, offset: float = 0.11) -> Any:
    """An observation that a space contains, the same on every machine."""
    if isinstance(space, known_spaces.DictSpace):
        return {key: observed(part, offset + number / 7) for number, (key, part) in enumerate(space.spaces.items())}
    if isinstance(space, known_spaces.Discrete):
        return space.start + space.n // 2
    if isinstance(space, known_spaces.MultiDiscrete):
        return (numbers(space.nvec) // 2).tolist()
    shape = space.shape
    parts = ((np.arange(int(np.prod(shape))) * 0.37 + offset) % 1).reshape(shape)
    if isinstance(space, known_spaces.MultiBinary):
        return (parts > 0.5).astype(int).tolist()
    low, high = (np.clip(numbers(bound).astype(float), -3, 255) for bound in (space.low, space.high))
    return (low + (high - low) * parts).astype(space.dtype).tolist()


def goals(archive: Archive) -> tuple[dict[str, Any], list[Any]]:
    """For HER before SB3 1.1: an observation with goals, and the vector that it concatenated them to."""
    last: Any = archive.decode("_last_obs")
    made = {key: np.round(numbers(info)[0].astype(float), 3) for key, info in last.items()}
    whole = np.concatenate([made["observation"], made["desired_goal"]])
    return {key: part.tolist() for key, part in made.items()}, whole.tolist()


def is_old_her(archive: Archive) -> bool:
    return archive.algorithm.name == "HER"


def job_of(path: str, archive: Archive, report: RebuildReport) -> dict[str, Any]:
    observation = goals(archive)[0] if is_old_her(archive) else observed(archive.decode("observation_space"))
    hindsight = is_old_her(archive) or any("HerReplayBuffer" in line for line in archive.algorithm.evidence)
    return {"path": path, "algorithm": report.algorithm, "observation": observation, "needs_env": hindsight}


class Made(NamedTuple):
    """All archives for one target."""

    versions: dict[str, str]
    cases: dict[str, Case]
    refused: dict[str, str]


@pytest.fixture(scope="module", params=TARGETS, ids=str)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    target: Release = request.param
    folder = tmp_path_factory.mktemp("rebuilt")
    jobs, found, refused = [], {}, {}
    for number, path in enumerate(ARCHIVES):
        archive = sbformat.read(path)
        try:
            rebuilt, report = sbformat.rebuild(archive, target=str(target))
        except UnsupportedError as error:
            refused[path] = str(error)
            continue
        name = str(folder / f"{number}.zip")
        sbformat.write(rebuilt, name)
        jobs.append(job_of(name, archive, report))
        found[name] = path, archive, report
    (folder / "jobs.json").write_text(json.dumps(jobs))
    versions, *answers = asked(TARGETS[target], str(folder / "jobs.json"))
    assert versions["stable_baselines3"].startswith(f"{target}.")
    assert [answer["path"] for answer in answers] == [job["path"] for job in jobs]
    cases = {}
    for answer in answers:
        path, archive, report = found[answer["path"]]
        cases[path] = Case(path, target, archive, report, answer)
    return Made(versions, cases, refused)


def asked(interpreter: str, jobs: str) -> list[Any]:
    ran = subprocess.run(
        [interpreter, os.path.join(HERE, "target_child.py"), jobs],
        capture_output=True, text=True, check=False, timeout=3600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("target", TARGETS)
def test_agents_of_the_installed_sb3_act_alike_in_an_older_one(target: Release, tmp_path: Path) -> None:
    """Whatever torch, gymnasium and numpy are installed here: what they write is rebuilt, and loaded without them."""
    jobs, expected = [], {}
    for setup in SAVED:
        agent = build_agent(setup)
        if setup.algorithm == "CrossQ" and target < CROSSQ:
            with pytest.raises(UnsupportedError, match="CrossQ"):
                sbformat.rebuild(agent.raw, target=str(target))
            continue
        archive, report = sbformat.rebuild(agent.raw, target=str(target))
        name = str(tmp_path / f"{setup.id}.zip")
        sbformat.write(archive, name)
        (observation,) = draw_observations(agent.model.observation_space, 1)
        expected[name] = RealPolicy(agent.model).predict(observation, deterministic=True)[0]
        is_dict = isinstance(observation, dict)
        plain = {key: part.tolist() for key, part in observation.items()} if is_dict else observation.tolist()
        jobs.append({"path": name, "algorithm": report.algorithm, "observation": plain, "needs_env": setup.has_goals})
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    _, *answers = asked(TARGETS[target], str(tmp_path / "jobs.json"))
    assert [answer["path"] for answer in answers] == list(expected)
    for answer in answers:
        assert "error" not in answer, f"{answer['path']}: {answer['error']}"
        np.testing.assert_allclose(answer["actions"], expected[answer["path"]], rtol=1e-5, atol=1e-6)
        assert answer["learned"]["finite"]
        COUNTED["agents of the installed SB3"] += 1


@pytest.fixture(params=ARCHIVES, ids=lambda path: os.path.relpath(path, SHARED))
def case(request: pytest.FixtureRequest, made: Made) -> Case:
    """An archive that its target loads."""
    if request.param in made.refused:
        pytest.skip(made.refused[request.param])
    found = made.cases[request.param]
    assert "error" not in found.answer, f"{found.answer['stage']}: {found.answer['error']}"
    return found


def test_what_no_target_has_is_refused(made: Made) -> None:
    for path, message in made.refused.items():
        if path.endswith(NOT_FOR_ANY):
            assert "NatureCNN" in message
        elif "its weights do not fit" in message:
            assert re.search("customextractor|imitation", path)
        else:
            assert sbformat.read(path).algorithm.name == "CrossQ"
            assert "has no CrossQ" in message
    target = next(iter(made.cases.values())).target
    has_crossq = any("crossq" in path for path in ARCHIVES)
    assert any("CrossQ" in message for message in made.refused.values()) == (has_crossq and target < CROSSQ)
    COUNTED[f"archives for {made.versions['stable_baselines3']}"] += len(made.cases)
    COUNTED["refused"] += len(made.refused)


# -- spaces -------------------------------------------------------------------------------------------


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def described_space(space: Any) -> Any:
    """A decoded space as the child tells of one."""
    kind = type(space).__name__.removesuffix("Space")
    if isinstance(space, known_spaces.Box):
        low, high = numbers(space.low), numbers(space.high)
        below = low != -np.inf if space.bounded_below is None else numbers(space.bounded_below)
        above = high != np.inf if space.bounded_above is None else numbers(space.bounded_above)
        bounds = map(digest, (low, high, below, above))
        return [kind, np.dtype(space.dtype).name, list(space.shape), *bounds]
    if isinstance(space, known_spaces.Discrete):
        return [kind, space.n, space.start]
    if isinstance(space, known_spaces.MultiDiscrete):
        return [kind, np.dtype(space.dtype).name, numbers(space.nvec).tolist()]
    if isinstance(space, known_spaces.MultiBinary):
        return [kind, list(space.shape)]
    if isinstance(space, known_spaces.TupleSpace):
        return [kind, [described_space(part) for part in space.spaces]]
    return [kind, [[key, described_space(part)] for key, part in space.spaces.items()]]


def said_space(said: dict[str, Any]) -> Any:
    """What SB3's own release said of a space, in the same words."""
    kind = said["type"].rpartition(".")[2]
    if kind == "Box":
        dtype = np.dtype(said["dtype"])
        low, high = (np.array(said[name]["values"], said[name]["dtype"]) for name in ("low", "high"))
        assert low.dtype == high.dtype == dtype
        return [kind, dtype.name, said["shape"], digest(low), digest(high)]
    if kind == "Discrete":
        return [kind, said["n"], said["start"]]
    if kind == "MultiDiscrete":
        return [kind, np.dtype(said["dtype"]).name, said["nvec"]]
    if kind == "MultiBinary":
        return [kind, said["shape"]]
    return [kind, [[key, said_space(said["spaces"][key])] for key in said["order"]]]


def without_flags(found: Any) -> Any:
    """A described space without what is said nowhere: which bounds are bounds."""
    if found[0] == "Dict":
        return [found[0], [[key, without_flags(part)] for key, part in found[1]]]
    return found[:5]


def test_spaces_are_the_originals(case: Case) -> None:
    observation, action = case.answer["spaces"]
    assert action == described_space(case.decoded("action_space"))
    if is_old_her(case.archive):  # concatenated before SB3 1.1: the parts are those of the vector
        vector = case.decoded("observation_space")
        sizes = {key: part[2] for key, part in observation[1] if part[0] == "Box"}
        assert [key for key, _ in observation[1]] == ["achieved_goal", "desired_goal", "observation"]
        assert not sizes or (sizes["observation"][0] + sizes["desired_goal"][0],) == vector.shape
    else:
        assert observation == described_space(case.decoded("observation_space"))
    for key, found in (("observation_space", observation), ("action_space", action)):
        if key in case.expected and not (key == "observation_space" and is_old_her(case.archive)):
            assert without_flags(found) == said_space(case.expected[key])
            COUNTED["spaces as their own release saw them"] += 1


def test_spaces_are_as_good_as_new(case: Case) -> None:
    assert case.answer["faults"] == []


def test_parts_of_a_space_are_one_object_where_they_were(case: Case) -> None:
    """Parts that are one object share a random generator: what SB3 samples of them hangs together then."""
    space = case.decoded("observation_space")
    expected = 0
    if is_old_her(case.archive):
        expected = 3
    elif isinstance(space, known_spaces.DictSpace):
        expected = len({id(part) for part in space.spaces.values()})
    assert case.answer["distinct"] == expected


# -- schedules ----------------------------------------------------------------------------------------


def computed(schedule: Any) -> list[float] | None:
    """What a decoded schedule gives, by a formula of our own; None for a user's function."""
    while isinstance(schedule, (values.FloatSchedule, values.Function)):
        schedule = schedule.schedule
    if isinstance(schedule, ArrayInfo):
        schedule = schedule.to_numpy().item()
    if isinstance(schedule, (int, float)):
        return [float(schedule)] * 3
    if isinstance(schedule, values.ConstantSchedule):
        return [float(schedule.value)] * 3
    if isinstance(schedule, values.LinearSchedule):
        start, end, fraction = schedule.start, schedule.end, schedule.end_fraction
        return [start + min(1.0, (1 - left) / fraction) * (end - start) for left in PROGRESS]
    return None


def said(case: Case, key: str) -> list[float] | None:
    """What the schedule gave in the release that wrote it."""
    found = case.expected.get(key)
    called = found.get("call") if isinstance(found, dict) else None
    return None if called is None else [float(called[str(left)]) for left in PROGRESS]


def wanted(case: Case, key: str) -> list[float] | None:
    """What a key has to give; None when the original has no such key."""
    if case.report.algorithm == "A2C" and key in ("clip_range", "clip_range_vf"):  # which SB3 0.6 wrote
        return None
    assert key not in case.dropped
    if key not in case.archive.data:
        return None
    found = computed(case.decoded(key))
    return said(case, key) if found is None else found  # bytecode of a user is compared with what it returned


@pytest.mark.parametrize("key", ["learning_rate", "clip_range", "clip_range_vf", "delta_std_schedule"])
def test_schedules_give_what_they_gave(case: Case, key: str) -> None:
    found = case.answer["schedules"].get("lr_schedule" if key == "learning_rate" else key)
    expected = wanted(case, key)
    if expected is None:
        return
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-18)
    own = said(case, "lr_schedule" if key == "learning_rate" else key)
    if own is not None:
        assert found == pytest.approx(own, rel=1e-12, abs=1e-18)
        COUNTED["schedules as their own release called them"] += 1


def test_exploration_is_what_it_was(case: Case) -> None:
    """SB3 makes this one itself, from three numbers: it ends early in every release."""
    names = ("exploration_initial_eps", "exploration_final_eps", "exploration_fraction")
    if case.report.algorithm not in ("DQN", "QRDQN"):
        assert "exploration_schedule" not in case.answer["schedules"]
        return
    start, end, fraction = (case.archive.data[name] for name in names)
    found = case.answer["schedules"]["exploration_schedule"]
    assert found == pytest.approx(computed(values.LinearSchedule(start, end, fraction)), rel=1e-12)
    own = said(case, "exploration_schedule")
    assert own is None or found == pytest.approx(own, rel=1e-12)


# -- tensors and optimizers ---------------------------------------------------------------------------


def array(info: TensorInfo) -> np.ndarray:
    return to_array(info, Budget())


def arrays(archive: Archive) -> dict[str, np.ndarray]:
    return {name: array(info) for name, info in archive.parameters["policy"].tensors().items()}


def origin(name: str, tree: dict[str, np.ndarray], target: Release) -> str:
    """The name that a tensor of the target's policy had in the release that wrote it."""
    if name in tree:
        shared = [int(other.split(".")[2]) for other in tree if other.startswith("mlp_extractor.shared_net.")]
        branches = ("mlp_extractor.policy_net.", "mlp_extractor.value_net.")
        if not shared or target < SEPARATE_LAYERS or not name.startswith(branches):
            return name
    match = re.fullmatch(r"(critic|critic_target)\.qf(\d)\.(.*)", name)  # SB3 0.6
    if match:
        return f"{match[1]}.q{int(match[2]) + 1}_net.{match[3]}"
    match = re.fullmatch(r"(pi|vf)_(features_extractor\..*)", name)  # one name before SB3 1.7
    if match:
        return match[2]
    match = re.fullmatch(r"action_net\.(0\.)?(weight|bias)", name)  # ARS before SB3 1.7
    if match:
        return f"action_net.{match[2]}" if match[1] else f"action_net.0.{match[2]}"
    match = re.fullmatch(r"mlp_extractor\.(policy_net|value_net)\.(\d+)\.(.*)", name)  # shared layers before SB3 1.8
    assert match, name
    count = 2 + max(int(other.split(".")[2]) for other in tree if other.startswith("mlp_extractor.shared_net."))
    layer = int(match[2])
    if layer < count:
        return f"mlp_extractor.shared_net.{layer}.{match[3]}"
    return f"mlp_extractor.{match[1]}.{layer - count}.{match[3]}"


def test_tensors_are_the_originals(case: Case) -> None:
    tree = arrays(case.archive)
    used = set()
    for name, (dtype, shape, found) in case.answer["tensors"].items():
        old = origin(name, tree, case.target)
        used.add(old)
        expected = tree[old]
        if is_old_her(case.archive) and list(expected.shape) != shape:
            assert shape[0] == expected.shape[0]
            assert shape[1] > expected.shape[1]  # columns for the achieved goal: its actions are compared below
            continue
        assert (dtype, shape) == (f"torch.{expected.dtype.name}", list(expected.shape)), name
        assert found == digest(expected), name
        COUNTED["tensors"] += 1
    names = ("pi_features_extractor.", "vf_features_extractor.") if case.target < THREE_NAMES else ()
    assert used == {name for name in tree if not name.startswith(names)}


def test_variables_are_the_originals(case: Case) -> None:
    variables = case.archive.pytorch_variables
    known = {} if variables is None else variables.tree
    expected = {name: array(info).tolist() for name, info in known.items() if isinstance(info, TensorInfo)}
    assert case.answer["variables"] == expected


def state_dicts(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state_dict in case.archive.parameters.items():
        if name.endswith("optimizer"):
            yield name, state_dict.tree


def test_optimizers_have_taken_as_many_steps(case: Case) -> None:
    for name, tree in state_dicts(case):
        expected = [
            float(array(step).item()) if isinstance(step, TensorInfo) else float(step)
            for state in tree["state"].values()
            if (step := state.get("step")) is not None
        ]
        found = case.answer["steps"][name]
        if any(".shared_net." in other for other in case.archive.parameters["policy"].tensors()):
            assert set(found) == set(expected)  # the shared layers are there twice
            assert len(found) >= len(expected)
        else:
            assert sorted(found) == sorted(expected)
        COUNTED["optimizer states"] += len(found)
    assert set(case.answer["steps"]) == {name for name, _ in state_dicts(case)}


def test_optimizers_have_their_options(case: Case) -> None:
    """What the original says, the loaded optimizer says too; torch adds options of its own."""
    for name, tree in state_dicts(case):
        (group,) = tree["param_groups"]
        (found,) = case.answer["groups"][name]
        for key, value in group.items():
            if key in {"params", "fused", "capturable"}:  # of a GPU
                continue
            plain = value.to_numpy().item() if isinstance(value, ArrayInfo) else value
            assert found[key] == (list(plain) if isinstance(plain, tuple) else plain), (name, key)


# -- actions ------------------------------------------------------------------------------------------


OFF_POLICY: Final = ("SAC", "TQC", "CrossQ", "TD3", "DDPG")
"""Algorithms with an actor of its own, whose actions are scaled to the bounds."""


class Forward:
    """What an archive's network does with an observation, by its tensors and torch's functions, without SB3."""

    def __init__(self, archive: Archive, algorithm: str) -> None:
        self.archive = archive
        self.tree = {name: torch.tensor(np.ascontiguousarray(part)) for name, part in arrays(archive).items()}
        kwargs: Any = archive.decode("policy_kwargs") if "policy_kwargs" in archive.data else {}
        self.kwargs = kwargs if isinstance(kwargs, dict) else {}
        self.algorithm = algorithm
        is_on_policy = algorithm in ("PPO", "A2C", "TRPO", "MaskablePPO", "RecurrentPPO")
        default = torch.nn.Tanh if is_on_policy else torch.nn.ReLU
        given = self.kwargs.get("activation_fn")
        self.activation = default() if given is None else getattr(torch.nn, given.name)()

    def linear(self, name: str, x: Any) -> Any:
        return functional.linear(x, self.tree[f"{name}.weight"], self.tree.get(f"{name}.bias"))

    def layers(self, prefix: str, x: Any, *, ends: bool) -> Any:
        """Linear layers with activations between, and at the end when it ends with one."""
        numbered = sorted(
            int(match[1]) for name in self.tree if (match := re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.weight", name))
        )
        for number in numbered:
            if f"{prefix}.{number}.ra_mean" in self.tree:
                x = self.renormed(f"{prefix}.{number}", x)
                continue
            x = self.linear(f"{prefix}.{number}", x)
            if ends or number != numbered[-1]:
                x = self.activation(x)
        return x

    def renormed(self, name: str, x: Any) -> Any:
        """CrossQ's batch norm, with the averages that it has seen."""
        mean, variance, weight, bias = (self.tree[f"{name}.{word}"] for word in ("ra_mean", "ra_var", "weight", "bias"))
        return (x - mean) / (variance + self.kwargs.get("batch_norm_eps", 1e-3)).sqrt() * weight + bias

    # -- features --

    def extractor(self) -> str:
        """Where the features extractor's tensors are."""
        owner = {"DQN": "q_net.", "QRDQN": "quantile_net."}.get(self.algorithm, "")
        if self.algorithm in OFF_POLICY:
            owner = "actor."
        return next(
            (
                prefix
                for prefix in (f"{owner}pi_features_extractor", f"{owner}features_extractor", "features_extractor")
                if any(name.startswith(f"{prefix}.") for name in self.tree)
            ),
            "none",
        )

    def features(self, space: Any, observation: Any, prefix: str) -> Any:
        if isinstance(space, known_spaces.DictSpace):
            keys = [*space.spaces]
            parts = [self.features(space.spaces[key], observation[key], f"{prefix}.extractors.{key}") for key in keys]
            return torch.cat(parts)
        if isinstance(space, known_spaces.Discrete):
            return functional.one_hot(torch.tensor(observation - space.start), space.n).float()
        if isinstance(space, known_spaces.MultiDiscrete):
            sizes = numbers(space.nvec).tolist()
            parts = [functional.one_hot(torch.tensor(int(at)), int(size)) for at, size in zip(observation, sizes)]
            return torch.cat(parts).float()
        x = torch.tensor(observation, dtype=torch.float32)
        is_image = isinstance(space, known_spaces.Box) and len(space.shape) == 3 and space.dtype == "|u1"
        if is_image and self.kwargs.get("normalize_images", True):
            x = x / 255
        if f"{prefix}.cnn.0.weight" not in self.tree:
            return x.flatten()
        for number, stride in (("0", 4), ("2", 2), ("4", 1)):
            weight, bias = (self.tree[f"{prefix}.cnn.{number}.{word}"] for word in ("weight", "bias"))
            x = functional.relu(functional.conv2d(x[None], weight, bias, stride)[0])
        return functional.relu(self.linear(f"{prefix}.linear.0", x.flatten()))

    # -- heads --

    def output(self, x: Any) -> Any:
        """The mean action, the logits or the values."""
        name = self.algorithm
        if name == "DQN":
            return self.layers("q_net.q_net", x, ends=False)
        if name == "QRDQN":
            quantiles = self.layers("quantile_net.quantile_net", x, ends=False)
            actions = self.archive.decode("action_space")
            return quantiles.reshape(-1, actions.n).mean(0)  # type: ignore[attr-defined]
        if name in ("TD3", "DDPG"):
            return torch.tanh(self.layers("actor.mu", x, ends=False))
        if name in ("SAC", "TQC", "CrossQ"):
            x = self.layers("actor.latent_pi", x, ends=True)
            if "actor.mu.weight" in self.tree:
                return torch.tanh(self.linear("actor.mu", x))
            return torch.tanh(torch.clamp(self.linear("actor.mu.0", x), -2, 2))  # gSDE clips the mean
        if name == "ARS":
            linear = "action_net.weight" in self.tree
            x = self.linear("action_net", x) if linear else self.layers("action_net", x, ends=False)
            return torch.tanh(x) if self.squashes() else x
        if name == "RecurrentPPO":
            x = self.recurrent(x)
        for branch in ("shared_net", "policy_net"):
            x = self.layers(f"mlp_extractor.{branch}", x, ends=True)
        x = self.linear("action_net", x)
        return torch.tanh(x) if self.squashes() else x

    def recurrent(self, x: Any) -> Any:
        state = {name.removeprefix("lstm_actor."): part for name, part in self.tree.items() if "lstm_actor." in name}
        hidden = state["weight_hh_l0"].shape[1]
        lstm = torch.nn.LSTM(len(x), hidden, num_layers=len(state) // 4)
        lstm.load_state_dict(state)
        return lstm(x[None, None])[0][0, 0]

    def squashes(self) -> bool:
        """Whether the mean is squashed, and scaled to the bounds."""
        if self.algorithm == "ARS":
            policy: Any = self.archive.decode("policy_class")
            is_box = isinstance(self.archive.decode("action_space"), known_spaces.Box)
            return is_box and policy.name == "ARSPolicy" and bool(self.kwargs.get("squash_output", True))
        return self.algorithm in OFF_POLICY or bool(self.kwargs.get("squash_output", False))

    def action(self, observation: Any) -> Any:
        with torch.no_grad():
            x = self.features(self.archive.decode("observation_space"), observation, self.extractor())
            x = self.output(x)
        space: Any = self.archive.decode("action_space")
        if isinstance(space, known_spaces.Discrete):
            return int(x.argmax()) + space.start
        if isinstance(space, known_spaces.MultiDiscrete):
            return [int(part.argmax()) for part in torch.split(x, numbers(space.nvec).tolist())]
        if isinstance(space, known_spaces.MultiBinary):
            return (x > 0).int().tolist()
        low, high = numbers(space.low), numbers(space.high)
        action = x.numpy().reshape(low.shape)
        return (low + 0.5 * (action + 1) * (high - low) if self.squashes() else np.clip(action, low, high)).tolist()


def test_it_acts_as_the_original(case: Case) -> None:
    is_old = is_old_her(case.archive)
    observation = goals(case.archive)[1] if is_old else observed(case.decoded("observation_space"))
    expected = Forward(case.archive, case.report.algorithm).action(observation)
    np.testing.assert_allclose(np.array(case.answer["actions"]), np.array(expected), rtol=1e-4, atol=2e-6)
    COUNTED["actions"] += 1


# -- the rest of it -----------------------------------------------------------------------------------


def test_what_else_it_is_made_of(case: Case) -> None:
    answer, data = case.answer, case.archive.data
    assert answer["timesteps"] == data["num_timesteps"]
    frequency = case.decoded("train_freq")
    if isinstance(frequency, values.TrainFreq):
        assert answer["train_freq"] == [frequency.frequency, frequency.unit.value]
    elif isinstance(frequency, int):  # before SB3 1.0
        episodes = data["n_episodes_rollout"]
        assert answer["train_freq"] == ([episodes, "episode"] if episodes > 0 else [frequency, "step"])
    noise = case.decoded("action_noise")
    if noise is None:
        assert answer["noise"] is None
    else:
        name, count, mean, deviation, shape = answer["noise"]
        one = noise.attributes.get("_base_noise", noise)
        mu, sigma = (numbers(one.attributes[key]) for key in ("_mu", "_sigma"))
        assert (name, count) == (noise.type.name, noise.attributes.get("n_envs"))
        assert (mean, deviation) == (mu.tolist(), sigma.tolist())
        assert shape == ([] if count is None else [count]) + list(mu.shape)
    buffer = case.decoded("replay_buffer_class")
    if is_old_her(case.archive):
        assert answer["buffer"] == "HerReplayBuffer"
    elif isinstance(buffer, values.Reference):
        assert answer["buffer"] == buffer.name


def test_it_goes_on_learning(case: Case) -> None:
    learned = case.answer["learned"]
    assert learned["finite"]
    assert learned["changed"] or case.answer["schedules"]["lr_schedule"] == [0, 0, 0]
    COUNTED["models that learned on"] += 1


def test_what_it_learned_is_saved_and_loaded_again(case: Case) -> None:
    assert case.answer["learned"]["again"] == ""
    COUNTED["of them saved and loaded again"] += 1


def test_nothing_of_the_original_is_in_it(made: Made) -> None:
    """No blob has code in it, so that none depends on a Python; and all are of one protocol that each reads."""
    for case in made.cases.values():
        archive = sbformat.read(case.answer["path"])
        for value in archive.data.values():
            if isinstance(value, Serialized):
                COUNTED["blobs"] += 1
                assert value.pickle[:2] == b"\x80\x04"
                assert b"cloudpickle" not in value.pickle
                assert b"_core" not in value.pickle
                assert b"numpy.core" not in value.pickle
        with pytest.raises(SbformatError):
            archive.raw("system_info.txt")
