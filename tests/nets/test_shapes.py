"""Names and shapes of policies: one table, equal to what SB3 wrote, and what ``validate`` says of others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import Archive, LimitError, Serialized, StateDict, UnsupportedError, ValidationError
from sbformat.known.changes import ERAS, candidate_releases
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, TupleSpace
from sbformat.known.types import Reference
from sbformat.nets.arguments import Agent, NetworkError
from sbformat.nets.layers import Parameter
from sbformat.nets.reading import find_mismatches, find_optimizer_mismatches, match_network
from sbformat.nets.sb3 import (
    POLICIES,  # fmt: skip
    make_policy,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.edit import edit
from sbformat.values import encode
from tests.helpers.bundled import PPO, SAC
from tests.helpers.many_cases import check_all
from tests.helpers.shared_files import SHARED, add_summary_line
from tests.nets.agents import expected_parameters

if TYPE_CHECKING:
    from pathlib import Path

NN: Final = "torch.nn.modules.activation"
ACTOR_CRITIC: Final = ("stable_baselines3.common.policies", "ActorCriticPolicy")
RELEASES: Final = [(0, 6), (0, 8), (0, 9), (0, 10), (1, 0), (1, 2), (1, 3), (1, 6), (1, 7), (1, 8), (2, 2), (2, 9)]


def array(code: str, shape: tuple[int, ...], *values: float) -> ArrayInfo:
    return ArrayInfo(code, shape, "C", np.array(values, code).tobytes(), is_scalar=False)


def box(*shape: int, code: str = "<f4", low: float = -1, high: float = 1) -> Box:
    count = int(np.prod(shape))
    bounds = (array(code, shape, *[bound] * count) for bound in (low, high))
    return Box("gymnasium", shape, code, *bounds, None)


def discrete(n: int) -> Discrete:
    return Discrete("gymnasium", n, 0, "<i8", None)


def image(*shape: int) -> Box:
    return box(*shape, code="|u1", low=0, high=255)


def agent(
    policy: str = "common.ActorCriticPolicy",
    observation: Any = None,
    action: Any = None,
    release: Any = (2, 9),
    **kwargs: Any,
) -> Agent:
    package, _, name = policy.partition(".")
    pair = next(pair for pair in POLICIES if pair[1] == name and f".{package}." in f".{pair[0]}.")
    use_sde = kwargs.pop("uses_sde", False)
    return Agent(pair, observation or box(3), action or box(2), kwargs, use_sde, release)


def shapes(*args: Any, **kwargs: Any) -> dict[str, tuple[int, ...]]:
    return expected_parameters(agent(*args, **kwargs))


# -- the table ----------------------------------------------------------------------------------------


def archives() -> list[Path]:
    found = [*(SHARED / "generated").glob("*/*.zip"), *(SHARED / "corpus" / "sb3").iterdir()]
    return sorted(path for path in found if path.parent.name != "sb2" and "corrupt" not in path.name)


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared archives")
def test_every_real_archive_has_what_is_expected(request: pytest.FixtureRequest) -> None:
    count, unknown = 0, []
    for path in archives():
        archive = sbformat.read(path)
        if "policy.pth" not in archive.entries:
            continue
        try:
            expected = expected_parameters(archive)
        except UnsupportedError as error:
            unknown.append(error.message)
            continue
        actual = {name: tuple(info.shape) for name, info in archive.parameters["policy"].tree.items()}
        assert expected == actual, path
        assert list(expected) == list(actual), path
        assert list(find_optimizer_mismatches(archive, match_network(archive))) == [], path
        count += 1
    assert count > 500
    assert all("MyExtractor" in message for message in unknown)
    add_summary_line(
        request.config, f"corpus: {count} policies have the expected names and shapes, {len(unknown)} are not known"
    )


def test_a_policy_of_two_layers() -> None:
    assert shapes(net_arch=[5, 4]) == {
        "log_std": (2,),
        "mlp_extractor.policy_net.0.weight": (5, 3), "mlp_extractor.policy_net.0.bias": (5,),
        "mlp_extractor.policy_net.2.weight": (4, 5), "mlp_extractor.policy_net.2.bias": (4,),
        "mlp_extractor.value_net.0.weight": (5, 3), "mlp_extractor.value_net.0.bias": (5,),
        "mlp_extractor.value_net.2.weight": (4, 5), "mlp_extractor.value_net.2.bias": (4,),
        "action_net.weight": (2, 4), "action_net.bias": (2,), "value_net.weight": (1, 4), "value_net.bias": (1,),
    }  # fmt: skip


def check_every_policy_of_every_release_has_a_network(pair: tuple[str, str], release: tuple[int, int]) -> None:
    space = POLICIES[pair].extractor[1]
    observation: Any = {"FlattenExtractor": box(3), "NatureCNN": image(1, 36, 36)}.get(space)
    observation = observation or DictSpace("gymnasium", {"a": box(3)}, None)
    action = box(2) if any(f".{name}." in pair[0] for name in ("sac", "tqc", "td3")) else discrete(2)
    made = Agent(pair, observation, action, {}, use_sde=False, release=release)
    if space == "CombinedExtractor" and release < (1, 1):
        with pytest.raises(UnsupportedError, match="CombinedExtractor"):
            make_policy(made).parameters()
        return
    names = [parameter.name for parameter in make_policy(made).parameters()]
    assert len(set(names)) == len(names) > 0


def test_every_policy_of_every_release_has_a_network() -> None:
    pairs = [pair for pair in POLICIES if "crossq" not in pair[0]]
    check_all(check_every_policy_of_every_release_has_a_network, itertools.product(pairs, RELEASES))


def test_what_changed_in_which_release() -> None:
    cnn = dict(policy="common.ActorCriticCnnPolicy", observation=image(1, 36, 36), action=discrete(2))
    assert shapes(release=(0, 7), **cnn)["features_extractor.cnn.4.weight"] == (32, 64, 3, 3)
    assert "pi_features_extractor.cnn.0.weight" not in shapes(release=(1, 6), **cnn)
    assert "pi_features_extractor.cnn.0.weight" in shapes(release=(1, 7), **cnn)
    assert shapes(release=(1, 7), net_arch=[5])["mlp_extractor.shared_net.0.weight"] == (5, 3)
    assert "mlp_extractor.shared_net.0.weight" not in shapes(release=(1, 8), net_arch=[5])
    mixed = shapes(release=(1, 6), net_arch=[5, {"pi": [4], "vf": [6, 7]}])
    assert (mixed["mlp_extractor.policy_net.0.weight"], mixed["value_net.weight"]) == ((4, 5), (1, 7))
    noise = dict(uses_sde=True, sde_net_arch=[7])
    assert shapes(release=(1, 2), **noise)["log_std"] == (7, 2)
    assert shapes(release=(1, 3), **noise)["log_std"] == (64, 2)
    sac = dict(policy="sac.SACPolicy", net_arch=[4])
    assert "critic.q1_net.0.weight" in shapes(release=(0, 7), **sac)
    assert "critic.qf0.0.weight" in shapes(release=(0, 8), **sac)
    images = dict(policy="sac.CnnPolicy", observation=image(1, 36, 36))
    assert shapes(release=(0, 9), **images)["features_extractor.cnn.0.bias"] == (32,)
    assert shapes(release=(1, 5), **images)["actor.mu.weight"] == (2, 512)
    assert shapes(release=(1, 6), **images)["actor.mu.weight"] == (2, 256)
    linear = dict(policy="ars.ARSLinearPolicy")
    assert list(shapes(release=(1, 6), **linear)) == ["action_net.weight"]
    assert list(shapes(release=(1, 6), squash_output=True, **linear)) == ["action_net.0.weight"]
    assert list(shapes(release=(1, 7), **linear)) == ["action_net.0.weight"]


def test_spaces() -> None:
    nvec = MultiDiscrete("gymnasium", array("<i8", (2,), 3, 4), None, "<i8", None)
    bits = MultiBinary("gymnasium", (2, 3), "|i1", None)
    first = "mlp_extractor.policy_net.0.weight"
    observations = (box(), box(2, 3), discrete(5), nvec, bits)
    assert [shapes(observation=space)[first][1] for space in observations] == [1, 6, 5, 7, 6]
    assert [shapes(action=space)["action_net.bias"] for space in (discrete(5), nvec)] == [(5,), (7,)]
    masked = agent("maskable.MaskableActorCriticPolicy", action=MultiBinary("gymnasium", (3,), "|i1", None))
    assert expected_parameters(masked)["action_net.bias"] == (6,)


@pytest.mark.parametrize(
    ("kwargs", "key"),
    [
        ({"net_arch": ["8"]}, "net_arch"), ({"net_arch": [True]}, "net_arch"), ({"net_arch": [-1]}, "net_arch"),
        ({"net_arch": 8}, "net_arch"), ({"net_arch": [[8]]}, "net_arch"),
        ({"net_arch": array("<f8", (1,), 8)}, "net_arch"), ({"net_arch": array("|b1", (1,), 1)}, "net_arch"),
        ({"net_arch": array("<i8", (1, 1), 8)}, "net_arch"), ({"net_arch": array("<i8", (), 8)}, "net_arch"),
        ({"net_arch": array("<i8", (1,), 8), "release": (1, 7)}, "net_arch"),
        ({"policy": "sac.SACPolicy", "net_arch": array("<i8", (1,), 8)}, "net_arch"),
        ({"log_std_init": "0"}, "log_std_init"), ({"log_std_init": None}, "log_std_init"),
        ({"log_std_init": [0.0, 0.0], "uses_sde": True}, "log_std_init"),
        ({"policy": "sac.SACPolicy", "use_sde": True, "log_std_init": "0"}, "log_std_init"),
        ({"optimizer_kwargs": {"lr": 1.0}}, "optimizer_kwargs/lr"), ({"optimizer_kwargs": 1}, "optimizer_kwargs"),
        ({"policy": "recurrent.RecurrentActorCriticPolicy", "lstm_kwargs": {"dropout": 2}}, "lstm_kwargs/dropout"),
        ({"wat": 1}, "wat"), ({"activation_fn": "Tanh"}, "activation_fn"),
        ({"features_extractor_kwargs": [1]}, "features_extractor_kwargs"),
        ({"features_extractor_kwargs": {"x": 1}}, "features_extractor_kwargs/x"),
    ],
)  # fmt: skip
def test_what_sb3_cannot_make(kwargs: dict[str, Any], key: str) -> None:
    with pytest.raises(NetworkError) as caught:
        shapes(**kwargs)
    assert caught.value.key == f"policy_kwargs/{key}"


@pytest.mark.parametrize(
    ("kwargs", "layers"),
    [
        ({"net_arch": [0] * 2049}, "policy_kwargs/net_arch asks for 2,049"),
        ({"policy": "sac.SACPolicy", "net_arch": [8], "n_critics": 1025}, "policy_kwargs/n_critics asks for 2,050"),
        (
            {"policy": "recurrent.RecurrentActorCriticPolicy", "n_lstm_layers": 10**9},
            "policy_kwargs/n_lstm_layers asks for 1,000,000,000",
        ),
    ],
)
def test_layers_are_counted_before_any_is_made(kwargs: dict[str, Any], layers: str) -> None:
    with pytest.raises(LimitError, match=f"{layers} layers: expected policy_items <= 67,108,864, got "):
        shapes(**kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"activation_fn": Reference("torch.nn.modules.linear", "Linear")},
        {"features_extractor_class": Reference("stable_baselines3.common.torch_layers", "MlpExtractor")},
        {"observation": TupleSpace("gymnasium", (box(2),), None)},
    ],
)
def test_what_is_not_known(kwargs: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        shapes(**kwargs)
    with pytest.raises(UnsupportedError, match=r"mine\.Policy"):
        expected_parameters(agent()._replace(policy_class=("mine", "Policy")))


def test_numbers_of_numpy_are_sizes() -> None:
    array_of_two = array("<i8", (2,), 5, 6)
    assert shapes(net_arch=array_of_two) == shapes(net_arch=[5, 6])
    assert shapes(net_arch={"pi": array_of_two, "vf": []}) == shapes(net_arch={"pi": [5, 6], "vf": []})
    assert shapes(net_arch=array("<f8", (0,))) == shapes(net_arch=[])
    assert shapes(net_arch=[array("|u1", (), 5)]) == shapes(net_arch=[5])
    dqn = {"policy": "dqn.DQNPolicy", "action": discrete(2)}
    assert shapes(**dqn, net_arch=array_of_two) == shapes(**dqn, net_arch=[5, 6])
    assert shapes(log_std_init=array("<f4", (), 0)) == shapes(log_std_init=True) == shapes()
    sac = {"policy": "sac.SACPolicy"}
    assert shapes(**sac, n_critics=True) == shapes(**sac, n_critics=1)
    assert shapes(**sac, log_std_init="0") == shapes(**sac)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"policy": "sac.SACPolicy"}, {"policy": "sac.SACPolicy", "use_sde": False}, {"policy": "tqc.TQCPolicy"},
        {"policy": "crossq.CrossQPolicy"}, {"policy": "td3.TD3Policy"}, {"policy": "ars.ARSPolicy"},
        {"policy": "dqn.DQNPolicy", "action": discrete(2)}, {"policy": "qrdqn.QRDQNPolicy", "action": discrete(2)},
        {"policy": "maskable.MaskableActorCriticPolicy", "action": discrete(2)},
        {"action": discrete(2)},
    ],
)  # fmt: skip
def test_gsde_of_the_algorithm_needs_that_of_the_policy(kwargs: dict[str, Any]) -> None:
    shapes(**kwargs)
    with pytest.raises(NetworkError) as caught:
        shapes(**kwargs, uses_sde=True)
    assert caught.value.key == "use_sde"


def test_gsde_where_the_policy_has_it() -> None:
    sde = {"policy": "sac.SACPolicy", "use_sde": True}
    assert shapes(**sde, uses_sde=True) == shapes(**sde)
    with pytest.raises(ValidationError, match="use_sde: .*policy_kwargs/use_sde is not true"):
        edit(sbformat.read(SAC), assign={"use_sde": True})


@pytest.mark.parametrize(
    ("policy", "space"),
    [
        ("ActorCriticPolicy", DictSpace("gymnasium", {"a": box(2)}, None)),
        ("MultiInputActorCriticPolicy", box(2)),
        ("MultiInputActorCriticPolicy", DictSpace("gymnasium", {"a": DictSpace("gymnasium", {}, None)}, None)),
        ("ActorCriticPolicy", TupleSpace("gymnasium", (box(2),), None)),
    ],
)
def test_observations_that_sb3_does_not_take(policy: str, space: Any) -> None:
    archive = with_data(
        sbformat.read(PPO), observation_space=blob(space), policy_class=blob(Reference(ACTOR_CRITIC[0], policy))
    )
    found = [row.loc for row in sbformat.iter_problems(archive) if row.kind == "mismatch"]
    assert found == ["/observation_space"]


def test_activations_with_parameters_are_numbered_between_the_layers() -> None:
    found = shapes(net_arch=[5], activation_fn=Reference(NN, "PReLU"))
    assert found["mlp_extractor.policy_net.1.weight"] == (1,)
    assert shapes(net_arch=[5], activation_fn=Reference(NN, "ELU")) == shapes(net_arch=[5])


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("2.9.2", [(2, 9)]), ("1.8.0", [(1, 8)]), ("1.7.0a5", [(1, 7), (1, 6)]), ("2.0.0a1", [(2, 0), (1, 8)]),
        ("1.0rc1", [(1, 0), (0, 11)]), ("2.10.0.dev3", [(2, 10), (2, 9)]), (None, list(ERAS)), ("unknown", list(ERAS)),
    ],
)  # fmt: skip
def test_releases_that_may_have_written_an_archive(version: str | None, found: list[Any]) -> None:
    assert list(candidate_releases(version)) == found


# -- what validate says -------------------------------------------------------------------------------


def problems(archive: Archive) -> list[tuple[str, str, str]]:
    """What names and shapes are wrong; all text is safe."""
    rows = [row for row in sbformat.iter_problems(archive) if row.kind in ("mismatch", "unchecked")]
    assert all(row.message.isprintable() for row in rows)
    return [(row.entry, row.level, row.message) for row in rows]


def with_data(archive: Archive, **changes: Any) -> Archive:
    return archive.replace(data={**archive.data, **changes})


def blob(value: Any) -> Serialized:
    return Serialized(None, encode(value))


@pytest.mark.parametrize("path", [PPO, SAC])
def test_no_release_named_is_every_release(path: Path) -> None:
    archive = sbformat.read(path).replace(stable_baselines3_version=None)
    assert problems(archive) == []
    assert problems(with_data(archive, policy_kwargs={"net_arch": [32]})) != []


def test_each_mismatch_says_what_was_expected_and_why() -> None:
    archive = sbformat.read(PPO)
    found = problems(with_data(archive, policy_kwargs={"net_arch": [8, 9]}))
    assert all(row[:2] == ("policy.pth", "error") for row in found)
    text = "\n".join(row[2] for row in found)
    assert "'action_net.weight': expected the shape (2, 9) (from policy_kwargs/net_arch), got (2, 8)" in text
    (row, *_) = problems(with_data(archive, observation_space=blob(box(5))))
    assert "(8, 5) (from observation_space), got (8, 4)" in row[2]
    (row, *_) = problems(with_data(archive, action_space=blob(discrete(3))))
    assert "(3, 8) (from action_space), got (2, 8)" in row[2]
    missing = problems(with_data(archive, action_space=blob(box(2))))
    assert missing == [
        ("policy.pth", "error", "'log_std' is missing: expected the shape (2,) (from action_space)"),
    ]


def test_names_that_are_missing_or_too_many() -> None:
    archive = sbformat.read(PPO)
    weights = archive.parameters["policy"].to_numpy()
    bias = weights.pop("value_net.bias")
    found = problems(archive.replace(parameters={"policy": {**weights, "value_net.bais": bias}}))
    assert [row[2].split(" is ")[0] for row in found] == ["'value_net.bias'", "'value_net.bais'"]
    many = {f"w{at}": np.zeros(1) for at in range(300)}
    found = problems(archive.replace(parameters={"policy": {**weights, "value_net.bias": bias, **many}}))
    assert len(found) == 101
    assert found[-1][2] == "200 more names or shapes do not fit"


def test_optimizers_of_other_parameters() -> None:
    archive = sbformat.read(PPO)
    optimizer = archive.parameters["policy.optimizer"].to_numpy()
    optimizer["state"][0]["exp_avg"] = np.zeros((3, 3), "f4")
    optimizer["state"] = {0: optimizer["state"][0]}
    (row,) = problems(archive.replace(parameters={"policy.optimizer": optimizer}))
    assert row[0] == "policy.optimizer.pth"
    assert "'state/[0]/exp_avg': expected the shape (8, 4)" in row[2]
    optimizer["state"][0] = {"step_size": optimizer["state"][0]["exp_avg"]}  # of Rprop
    (row,) = problems(archive.replace(parameters={"policy.optimizer": optimizer}))
    assert "'state/[0]/step_size': expected the shape (8, 4)" in row[2]
    optimizer["state"] = {}
    optimizer["param_groups"][0]["params"].pop()
    (row,) = problems(archive.replace(parameters={"policy.optimizer": optimizer}))
    assert row[2] == "expected one group of 12 parameters (from policy_kwargs), got 11"
    optimizer["param_groups"] *= 2
    (row,) = problems(archive.replace(parameters={"policy.optimizer": optimizer}))
    assert "groups of (11, 11)" in row[2]


def test_what_sb3_cannot_make_is_invalid_and_what_is_not_known_is_said() -> None:
    archive = sbformat.read(PPO)
    (row,) = problems(with_data(archive, policy_kwargs={"net_arch": "\x1b[31m"}))
    assert row[1] == "error"
    with pytest.raises(ValidationError):
        sbformat.validate(with_data(archive, policy_kwargs={"wat": 1}))
    other = blob_of_name(b"mine", b"Policy")
    (row,) = problems(with_data(archive, policy_class=other))
    assert (row[1], "mine.Policy" in row[2]) == ("info", True)
    assert "names and shapes are not checked" in row[2]


def blob_of_name(module: bytes, name: bytes) -> Serialized:
    return Serialized(None, b"\x80\x02c" + module + b"\n" + name + b"\n.")


def test_find_mismatches_compares_names_and_shapes() -> None:
    found = find_mismatches([Parameter("a", (1,)), Parameter("b", (2, 3))], {"b": (3, 2), "c": (1,)})
    assert [(row.name, row.kind, row.expected, row.actual) for row in found] == [
        ("a", "missing", (1,), None), ("b", "shape", (2, 3), (3, 2)), ("c", "unexpected", None, (1,)),
    ]  # fmt: skip
    assert find_mismatches([Parameter("a", (1,)), Parameter("b", ())], {"b": (), "a": (1,)}) == ()


# -- one tensor by several names ----------------------------------------------------------------------


def images(**kwargs: Any) -> Archive:
    """An agent that looks at images; its weights are zeros, each in memory of its own."""
    archive = sbformat.read(PPO)
    changes = {
        "policy_class": blob(Reference(ACTOR_CRITIC[0], "ActorCriticCnnPolicy")),
        "observation_space": blob(image(1, 36, 36)),
        "policy_kwargs": {"features_extractor_kwargs": {"features_dim": 4}, **kwargs},
    }
    archive = with_data(archive, **changes)
    weights = {name: np.zeros(shape, "f4") for name, shape in expected_parameters(archive).items()}
    return archive.replace(parameters={"policy": weights, "policy.optimizer": {"state": {}, "param_groups": []}})


NAME: Final = "features_extractor.linear.0.bias"


@pytest.mark.parametrize("prefix", ["pi_", "vf_"])
def test_other_values_under_another_name_are_an_error(prefix: str) -> None:
    archive = images()
    assert [row for row in problems(archive) if row[0] == "policy.pth"] == []
    weights = archive.parameters["policy"].to_numpy()
    other = {**weights, prefix + NAME: np.ones(4, "f4")}
    (row,) = [row for row in problems(archive.replace(parameters={"policy": other})) if row[0] == "policy.pth"]
    assert row[1:] == (
        "error", f"'{prefix}{NAME}' contradicts '{NAME}': they are one tensor in SB3, but their values differ",
    )  # fmt: skip
    with pytest.raises(ValidationError, match="contradicts"):
        edit(archive, weights=other)
    with pytest.raises(ValidationError, match="contradicts"):
        sbformat.new(archive, {"policy": other})
    both = {**weights, **{name + NAME: np.ones(4, "f4") for name in ("", "pi_", "vf_")}}
    assert edit(archive, weights=both).problems == ()
    sbformat.new(archive, {"policy": both})


def test_an_extractor_that_is_not_shared_has_values_of_its_own() -> None:
    archive = images(share_features_extractor=False)
    weights = archive.parameters["policy"].to_numpy()
    edit(archive, weights={**weights, f"vf_{NAME}": np.ones(4, "f4")})
    with pytest.raises(ValidationError, match="contradicts"):
        edit(archive, weights={**weights, f"pi_{NAME}": np.ones(4, "f4")})


def tensor(*values: float, code: str = "<f4", shape: tuple[int, ...] | None = None) -> Any:
    return np.array(values, code).reshape((len(values),) if shape is None else shape)


LEARNED: Final = {"log_ent_coef": tensor(0.5)}
FIXED: Final = {"ent_coef_tensor": tensor(0.3, shape=())}


def entropic(value: Any, variables: dict[str, Any] | None, *, has_optimizer: bool) -> Archive:
    """SAC with another ``ent_coef``, other variables, and with or without the coefficient's optimizer."""
    archive = with_data(sbformat.read(SAC), ent_coef=value)
    dropped = [] if has_optimizer else ["ent_coef_optimizer.pth"]
    if variables is None:
        return archive.without("pytorch_variables.pth", *dropped)
    return archive.without(*dropped).replace(pytorch_variables=StateDict.from_arrays(variables))


@pytest.mark.parametrize(
    ("value", "variables", "has_optimizer", "found"),
    [
        ("auto", LEARNED, True, []),
        ("auto_0.1", LEARNED, True, []),
        ("auto", {}, True, []),
        ("auto", None, True, []),
        (0.3, FIXED, False, []),
        (0.3, None, False, []),
        ("0.3", FIXED, False, []),
        (0.3, FIXED, True, ["/ent_coef"]),
        (0.3, LEARNED, True, ["/ent_coef"]),
        (0.3, LEARNED, False, ["/ent_coef"]),
        (0.3, None, True, ["/ent_coef"]),
        ("auto", FIXED, True, ["/ent_coef"]),
        ("auto_0", LEARNED, True, ["/ent_coef"]),
        (0.2, FIXED, False, ["/ent_coef"]),
        (1e300, FIXED, False, ["/ent_coef"]),
        (float("nan"), {"ent_coef_tensor": tensor(float("nan"), shape=())}, False, []),
        ("auto", {"log_ent_coef": tensor(0.5, 0.5)}, True, [""]),
        ("auto", {"log_ent_coef": tensor(0.5, shape=())}, True, [""]),
        ("auto", {"log_ent_coef": tensor(0.5, code="<f8")}, True, [""]),
        ("auto", {"log_ent_coef": tensor(1, code="<i8")}, True, [""]),
        (0.3, {"ent_coef_tensor": tensor(0.3)}, False, [""]),
        (0.3, {"ent_coef_tensor": tensor(0.3, code="<f8", shape=())}, False, [""]),
    ],
)
def test_the_entropy_coefficient_and_its_entries(
    value: Any, variables: dict[str, Any] | None, *, has_optimizer: bool, found: list[str]
) -> None:
    archive = entropic(value, variables, has_optimizer=has_optimizer)
    rows = [problem for problem in sbformat.iter_problems(archive) if problem.level == "error"]
    assert [row.loc for row in rows if row.kind == "mismatch"] == found
    assert [row.kind for row in rows] == ["mismatch"] * len(found)


def test_a_learned_coefficient_needs_its_optimizer() -> None:
    archive = entropic("auto", LEARNED, has_optimizer=False)
    rows = [(row.entry, row.kind) for row in sbformat.iter_problems(archive) if row.level == "error"]
    assert rows == [("ent_coef_optimizer.pth", "missing-entry")]


@pytest.mark.parametrize("value", [0.3, "0.3"])
def test_edits_of_the_entropy_coefficient_that_the_entries_do_not_fit(value: Any) -> None:
    with pytest.raises(ValidationError, match=r"ent_coef_optimizer\.pth.*pytorch_variables\.pth holds log_ent_coef"):
        edit(sbformat.read(SAC), assign={"ent_coef": value})
    assert edit(sbformat.read(SAC), assign={"ent_coef": value}, allow_mismatch=True).problems
    drop = ["ent_coef_optimizer.pth", "pytorch_variables.pth"]
    assert edit(sbformat.read(SAC), assign={"ent_coef": value}, drop=drop).problems == ()
    with pytest.raises(ValidationError, match="ent_coef_tensor"):
        edit(entropic(0.3, FIXED, has_optimizer=False), assign={"ent_coef": "auto"})
    with pytest.raises(ValidationError, match=r"0\.4 contradicts ent_coef_tensor"):
        edit(entropic(0.3, FIXED, has_optimizer=False), assign={"ent_coef": 0.4})
