"""Real policies of every algorithm, space and option: their state dicts are what the table expects, in order."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import io
from functools import partial
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN
from torch import nn

import sbformat
from sbformat.nets.arguments import NetworkError
from sbformat.nets.reading import find_optimizer_mismatches, match_network
from sbformat.tools.edit import edit
from tests.interop.rebuild_envs import environment
from tests.nets.agents import expected_parameters

pytestmark = [pytest.mark.filterwarnings("ignore")]

VECTOR: Final = spaces.Box(-1, 1, (3,))
CNN: Final = spaces.Box(0, 255, (1, 36, 40), np.uint8)
LAST: Final = spaces.Box(0, 255, (40, 37, 3), np.uint8)
FLOATS: Final = spaces.Box(0, 1, (2, 36, 36), np.float32)
OBSERVATIONS: Final = {
    "vector": VECTOR,
    "scalar": spaces.Box(-1, 1, ()),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float64),
    "volume": spaces.Box(-1, 1, (2, 3, 2)),
    "discrete": spaces.Discrete(5, start=2),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "bits": spaces.MultiBinary(4),
    "bits2": spaces.MultiBinary([2, 3]),
    "image-as-vector": CNN,
}
DICT: Final = spaces.Dict(
    {
        "z": VECTOR,
        "image": spaces.Box(0, 255, (36, 40, 1), np.uint8),
        "last": LAST,
        "d": spaces.Discrete(3),
        "m": spaces.MultiDiscrete([2, 3]),
        "b": spaces.MultiBinary(3),
        "floats": FLOATS,
    }
)
GOALS: Final = spaces.Dict({"observation": VECTOR, "desired_goal": VECTOR, "achieved_goal": VECTOR})
BOX: Final = spaces.Box(-1, 1, (2,))
ACTIONS: Final = {
    "box": BOX,
    "box2": spaces.Box(-1, 1, (2, 2)),
    "discrete": spaces.Discrete(4, start=1),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "bits": spaces.MultiBinary(3),
}

ON_POLICY: Final = ("PPO", "A2C", "TRPO")
CRITICS: Final = ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
ALGORITHMS: Final = {
    **dict.fromkeys(ON_POLICY, ("box", "box2", "discrete", "multi-discrete", "bits")),
    "RecurrentPPO": ("box", "discrete", "multi-discrete", "bits"),
    "MaskablePPO": ("discrete", "multi-discrete", "bits"),
    "DQN": ("discrete",),
    "QRDQN": ("discrete",),
    **dict.fromkeys(CRITICS, ("box", "box2")),
    "ARS": ("box", "discrete"),
}
ACTION: Final = {name: ACTIONS[actions[0]] for name, actions in ALGORITHMS.items()}

COMMON: Final[list[dict[str, Any]]] = [
    {},
    {"net_arch": []},
    {"net_arch": [5]},
    {"net_arch": [5, 7, 6]},
    {"activation_fn": nn.PReLU},
    {"activation_fn": nn.SiLU, "net_arch": [4]},
    {"activation_fn": partial(nn.PReLU, num_parameters=4), "net_arch": [4]},
    {"activation_fn": partial(nn.LeakyReLU, 0.2), "net_arch": [4]},
    {"normalize_images": False},
    {"optimizer_class": torch.optim.SGD, "optimizer_kwargs": {"momentum": 0.5}},
    {"features_extractor_class": FlattenExtractor},
]
PI_VF: Final[list[dict[str, Any]]] = [
    {"net_arch": {"pi": [5], "vf": [6, 7]}},
    {"net_arch": {"vf": [6]}},
    {"net_arch": {}},
    {"net_arch": [{"pi": [5], "vf": []}]},
    {"ortho_init": False},
    {"share_features_extractor": False},
]
SDE: Final[list[dict[str, Any]]] = [
    {}, {"full_std": False}, {"squash_output": True, "use_expln": True}, {"net_arch": []},
]  # fmt: skip
PI_QF: Final[list[dict[str, Any]]] = [
    {"net_arch": {"pi": [5], "qf": [6, 7]}},
    {"net_arch": {"pi": [], "qf": []}},
    {"n_critics": 1},
    {"n_critics": 3, "net_arch": [4]},
    {"share_features_extractor": True},
]
OPTIONS: Final[dict[str, list[dict[str, Any]]]] = {
    **{name: [*COMMON, *PI_VF] for name in (*ON_POLICY, "MaskablePPO")},
    "RecurrentPPO": [
        *COMMON,
        *PI_VF,
        {"lstm_hidden_size": 8},
        {"n_lstm_layers": 3, "lstm_hidden_size": 8},
        {"shared_lstm": True, "enable_critic_lstm": False},
        {"enable_critic_lstm": False},
        {"lstm_kwargs": {"bias": False, "dropout": 0.1}, "n_lstm_layers": 2},
        {"lstm_kwargs": {"bidirectional": True, "proj_size": 4}, "n_lstm_layers": 2, "lstm_hidden_size": 8},
        {"lstm_kwargs": None},
    ],
    "DQN": COMMON,
    "QRDQN": [*COMMON, {"n_quantiles": 7}],
    "SAC": [*COMMON, *PI_QF, {"clip_mean": 0.0}],
    **{name: [*COMMON, *PI_QF] for name in ("TD3", "DDPG")},
    "TQC": [*COMMON, *PI_QF, {"n_quantiles": 7, "n_critics": 3}],
    "CrossQ": [*COMMON, *PI_QF, {"batch_norm": False}, {"renorm_warmup_steps": 3, "batch_norm_eps": 0.1}],
    "ARS": [
        {}, {"net_arch": []}, {"net_arch": [5, 6]}, {"activation_fn": nn.PReLU}, {"with_bias": False},
        {"squash_output": False},
    ],
}  # fmt: skip


def made(name: str, policy: str, observation: Any, action: Any, kwargs: dict[str, Any] | None, **options: Any) -> Any:
    """An agent of an algorithm, small where that changes no layer."""
    small = {"buffer_size": 1} if name in (*CRITICS, "DQN", "QRDQN") else {}
    algorithm = getattr(sb3, name, None) or getattr(contrib, name)
    copied = None if kwargs is None else dict(kwargs)
    return algorithm(policy, environment(observation, action), policy_kwargs=copied, **small, **options)


def check(model: Any) -> None:
    """Save an agent, and compare what the table expects with what torch has."""
    held = io.BytesIO()
    model.save(held)
    archive = sbformat.read(held.getvalue())
    actual = {key: tuple(value.shape) for key, value in model.policy.state_dict().items()}
    expected = expected_parameters(archive)
    assert expected == actual
    assert list(expected) == list(actual)
    fit = match_network(archive)
    parameters = fit.parameters
    assert not fit.mismatches
    buffers = {name for name, _ in model.policy.named_buffers(remove_duplicate=False)}
    assert {parameter.name for parameter in parameters if parameter.is_buffer} == buffers
    assert [parameter.name for parameter in parameters if not (parameter.is_buffer or parameter.same_as)] == [
        name for name, _ in model.policy.named_parameters()
    ]
    assert list(find_optimizer_mismatches(archive, fit)) == []


def policy_of(name: str, kind: str) -> str:
    return f"{kind}LstmPolicy" if name == "RecurrentPPO" else f"{kind}Policy"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_space(name: str) -> None:
    for action in ALGORITHMS[name]:
        for observation in OBSERVATIONS.values():
            if name == "RecurrentPPO" and isinstance(observation, spaces.MultiDiscrete):
                continue  # torch's LSTM refuses the numpy number that SB3 has of it
            check(made(name, policy_of(name, "Mlp"), observation, ACTIONS[action], {"net_arch": [4]}))
        if name not in ("ARS", "CrossQ"):
            for dictionary in (DICT, GOALS) if name != "RecurrentPPO" else (GOALS,):
                check(made(name, policy_of(name, "MultiInput"), dictionary, ACTIONS[action], {"net_arch": [4]}))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_option(name: str) -> None:
    for kwargs in OPTIONS[name]:
        check(made(name, policy_of(name, "Mlp"), VECTOR, ACTION[name], kwargs))
    check(made(name, policy_of(name, "Mlp"), VECTOR, ACTION[name], None))


@pytest.mark.parametrize("name", ["PPO", "A2C", "RecurrentPPO", "SAC", "TQC", "CrossQ"])
def test_state_dependent_noise(name: str) -> None:
    options = SDE if name in ("PPO", "A2C", "RecurrentPPO") else [{}, {"clip_mean": 0.0}, {"net_arch": []}]
    for kwargs in options:
        check(made(name, policy_of(name, "Mlp"), VECTOR, BOX, kwargs, use_sde=True))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("ARS", "CrossQ")])
def test_images(name: str) -> None:
    action = ACTION[name]
    small: list[dict[str, Any]] = [
        {"features_extractor_kwargs": {"features_dim": 6}},
        {"features_extractor_class": NatureCNN, "features_extractor_kwargs": {"features_dim": 6}, "net_arch": [5]},
    ]
    shares: list[dict[str, Any]] = (
        [] if name in ("DQN", "QRDQN") else [{**small[0], "share_features_extractor": share} for share in (True, False)]
    )
    for kwargs in (*small, *shares):
        for space in (CNN, LAST):
            check(made(name, policy_of(name, "Cnn"), space, action, kwargs))
    floats = {**small[0], "normalize_images": False}
    check(made(name, policy_of(name, "Cnn"), FLOATS, action, floats))
    check(made(name, policy_of(name, "Mlp"), CNN, action, small[1]))
    for kwargs in (
        {"features_extractor_kwargs": {"cnn_output_dim": 6}},
        {"features_extractor_kwargs": {"cnn_output_dim": 6}, "normalize_images": False},
        {"features_extractor_class": CombinedExtractor, "net_arch": [4]},
    ):
        space = spaces.Dict({**DICT, "m": BOX}) if name == "RecurrentPPO" else DICT
        check(made(name, policy_of(name, "MultiInput"), space, action, kwargs))


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC", "TD3"])
def test_images_with_all_defaults(name: str) -> None:
    check(made(name, "CnnPolicy", CNN, ACTION[name], None))
    check(made(name, "MultiInputPolicy", DICT, ACTION[name], None))


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("action", ["box", "discrete"])
def test_linear_policies_of_ars(action: str, bias: bool, squash: bool) -> None:  # noqa: FBT001
    check(made("ARS", "LinearPolicy", VECTOR, ACTIONS[action], {"with_bias": bias, "squash_output": squash}))


BAD: Final[list[tuple[str, str, Any, dict[str, Any]]]] = [
    ("PPO", "MlpPolicy", VECTOR, {"net_arch": ["8"]}),
    ("PPO", "MlpPolicy", VECTOR, {"net_arch": [8.0]}),
    ("PPO", "MlpPolicy", VECTOR, {"net_arch": [-1]}),
    ("PPO", "MlpPolicy", VECTOR, {"net_arch": [8, {"pi": [4], "vf": [4]}]}),
    ("PPO", "MlpPolicy", VECTOR, {"net_arch": 8}),
    ("PPO", "MlpPolicy", VECTOR, {"wat": 1}),
    ("PPO", "MlpPolicy", VECTOR, {"use_sde": False}),
    ("PPO", "MlpPolicy", VECTOR, {"sde_net_arch": None}),
    ("PPO", "MlpPolicy", VECTOR, {"squash_output": True}),
    ("PPO", "MlpPolicy", VECTOR, {"activation_fn": None}),
    ("PPO", "MlpPolicy", VECTOR, {"features_extractor_class": None}),
    ("PPO", "MlpPolicy", VECTOR, {"features_extractor_kwargs": {"features_dim": 3}}),
    ("PPO", "CnnPolicy", VECTOR, {}),
    ("PPO", "CnnPolicy", FLOATS, {}),
    ("PPO", "CnnPolicy", spaces.Box(0, 255, (1, 35, 40), np.uint8), {}),
    ("PPO", "CnnPolicy", CNN, {"features_extractor_kwargs": {"features_dim": 0}}),
    ("RecurrentPPO", "MlpLstmPolicy", VECTOR, {"shared_lstm": True}),
    ("RecurrentPPO", "MlpLstmPolicy", VECTOR, {"n_lstm_layers": 0}),
    ("RecurrentPPO", "MlpLstmPolicy", VECTOR, {"lstm_hidden_size": 8, "lstm_kwargs": {"proj_size": 8}}),
    ("RecurrentPPO", "MlpLstmPolicy", VECTOR, {"lstm_kwargs": {"wat": 8}}),
    ("DQN", "MlpPolicy", VECTOR, {"n_quantiles": 8}),
    ("QRDQN", "MlpPolicy", VECTOR, {"n_quantiles": "8"}),
    ("SAC", "MlpPolicy", VECTOR, {"net_arch": {"pi": [4], "vf": [4]}}),
    ("SAC", "MlpPolicy", VECTOR, {"full_std": True}),
    ("SAC", "MlpPolicy", VECTOR, {"n_critics": 2.0}),
    ("SAC", "MlpPolicy", VECTOR, {"n_critics": 0}),
    ("TD3", "MlpPolicy", VECTOR, {"use_sde": True}),
    ("TD3", "MlpPolicy", VECTOR, {"net_arch": "abc"}),
    ("ARS", "MlpPolicy", VECTOR, {"n_critics": 1}),
    ("ARS", "LinearPolicy", VECTOR, {"net_arch": []}),
]


@pytest.mark.parametrize(("name", "policy", "space", "kwargs"), BAD)
def test_what_sb3_cannot_make_is_refused(name: str, policy: str, space: Any, kwargs: dict[str, Any]) -> None:
    model = made(name, "MlpLstmPolicy" if name == "RecurrentPPO" else "MlpPolicy", VECTOR, ACTION[name], None)
    model.policy_class = model.policy_aliases[policy]
    model.policy_kwargs = kwargs
    model.observation_space = space
    held = io.BytesIO()
    model.save(held)
    with pytest.raises(NetworkError):
        expected_parameters(sbformat.read(held.getvalue()))
    held.seek(0)
    with pytest.raises(Exception):  # noqa: B017, PT011 -- torch, SB3 and Python have their own
        type(model).load(held)


def loads(archive: sbformat.Archive, algorithm: Any) -> Any:
    return algorithm.load(io.BytesIO(sbformat.writes(archive)))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("PPO", {"policy_kwargs": {"net_arch": [32]}}),
        ("PPO", {"policy_kwargs": {"net_arch": [4, 4]}}),
        ("PPO", {"policy_kwargs": {"net_arch": [4], "wat": 1}}),
        ("PPO", {"use_sde": True}),
        ("PPO", {"policy_kwargs": None}),
        ("SAC", {"policy_kwargs": {"net_arch": [4], "n_critics": 3}}),
        ("SAC", {"policy_kwargs": {"net_arch": [4], "use_sde": True}}),
        ("DQN", {"policy_kwargs": {}}),
        ("TQC", {"policy_kwargs": {"net_arch": [4], "n_quantiles": 7}}),
    ],
)
def test_edit_refuses_what_sb3_does_not_load(name: str, changes: dict[str, Any]) -> None:
    model = made(name, "MlpPolicy", VECTOR, ACTION[name], {"net_arch": [4]})
    held = io.BytesIO()
    model.save(held)
    archive = sbformat.read(held.getvalue())
    with pytest.raises(sbformat.ValidationError):
        edit(archive, assign=changes)
    if changes != {"policy_kwargs": None}:  # which the schema refuses
        edited = edit(archive, assign=changes, allow_mismatch=True)
        assert {row.kind for row in edited.problems} == {"mismatch"}
        with pytest.raises(Exception):  # noqa: B017, PT011 -- torch, SB3 and Python have their own
            loads(edited.archive, type(model))
    fine = edit(archive, assign={"policy_kwargs": {**archive.data["policy_kwargs"], "net_arch": [4]}})
    assert fine.problems == ()
    loads(fine.archive, type(model))


def test_one_name_of_a_shared_extractor_changes_all() -> None:
    model = made("PPO", "CnnPolicy", CNN, ACTION["PPO"], {"features_extractor_kwargs": {"features_dim": 6}})
    held = io.BytesIO()
    model.save(held)
    archive = sbformat.read(held.getvalue())
    name = "features_extractor.linear.0.bias"
    weights = {key: np.array(value) for key, value in archive.parameters["policy"].to_numpy().items()}
    new = np.arange(6, dtype=np.float32)
    with pytest.raises(sbformat.ValidationError, match="contradicts"):
        edit(archive, weights={**weights, f"vf_{name}": new})
    alone = {key: value for key, value in weights.items() if not key.startswith(("pi_", "vf_"))}
    again = loads(edit(archive, weights={**alone, name: new}).archive, type(model))
    found = again.policy.state_dict()
    assert all(found[prefix + name].tolist() == new.tolist() for prefix in ("", "pi_", "vf_"))
