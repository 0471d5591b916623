"""``rebuild``: networks and optimizers of old releases compute and learn as before (REBUILDING.md 15.3 to 15.5)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators.build_pth import Run, legacy_stream, ordered, storage, tensor
from sbformat import Archive, StateDict, UnsupportedError, pkl
from sbformat.known.spaces import Box, DictSpace
from sbformat.known.types import Reference
from sbformat.pkl import Global
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild import rebuild
from tests.helpers.build_blobs import array, box, call, dtype, new
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, blob, rebuilt, reference, with_keys
from tests.helpers.sampling import with_exhaustive

pytestmark = pytest.mark.usefixtures("any_network")

RANDOM: Final = np.random.default_rng(0)
Arrays = dict[str, np.ndarray]


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


def adam(*shapes: tuple[int, ...], keys: list[int] | None = None, step: Any = 3) -> dict[str, Any]:
    """The state of an Adam over parameters of these shapes."""
    keys = keys or list(range(len(shapes)))
    state = {
        key: {"step": step, "exp_avg": numbers(*shape), "exp_avg_sq": numbers(*shape) ** 2}
        for key, shape in zip(keys, shapes)
    }
    group = {"lr": 3e-4, "betas": (0.9, 0.999), "eps": 1e-5, "weight_decay": 0, "amsgrad": False, "params": keys}
    return {"state": state, "param_groups": [group]}


def with_network(policy: Arrays, base: str = "ppo", optimizers: dict[str, Any] | None = None, **keys: Any) -> Archive:
    """A bundled archive with another network, and moments for it."""
    made = optimizers or {"policy.optimizer": adam(*(value.shape for value in policy.values()))}
    return with_keys(base, **keys).replace(parameters={"policy": OrderedDict(policy), **made})


def arrays(archive: Archive, name: str = "policy") -> Any:
    return archive.parameters[name].to_numpy()


def forward(layers: Arrays, prefix: str, inputs: np.ndarray, last: str) -> np.ndarray:
    """Plain layers with tanh between them, then one without."""
    names = sorted(
        (name for name in layers if name.startswith(prefix) and name.endswith(".weight")),
        key=lambda name: int(name.removeprefix(prefix).partition(".")[0]),
    )
    for name in names:
        inputs = np.tanh(inputs @ layers[name].T + layers[name.replace(".weight", ".bias")])
    return inputs @ layers[f"{last}.weight"].T + layers[f"{last}.bias"]


# -- layers that were shared --------------------------------------------------------------------------


def shared_network(*sizes: int) -> Arrays:
    """Shared layers, one own layer of each branch, and the two heads."""
    made, width = {}, 4
    for index, size in enumerate(sizes):
        made |= {
            f"mlp_extractor.shared_net.{2 * index}.weight": numbers(size, width),
            f"mlp_extractor.shared_net.{2 * index}.bias": numbers(size),
        }
        width = size
    for branch in ("policy", "value"):
        made |= {
            f"mlp_extractor.{branch}_net.0.weight": numbers(5, width),
            f"mlp_extractor.{branch}_net.0.bias": numbers(5),
        }
    return {
        **made, "action_net.weight": numbers(2, 5), "action_net.bias": numbers(2),
        "value_net.weight": numbers(1, 5), "value_net.bias": numbers(1),
    }  # fmt: skip


@pytest.mark.parametrize("sizes", [(8,), (8, 6), (8, 6, 7)])
def test_parted_layers_compute_the_same(sizes: tuple[int, ...]) -> None:
    old = shared_network(*sizes)
    archive = with_network(old, policy_kwargs={"net_arch": [*sizes, {"pi": [5], "vf": [5]}]})
    made, rows, _ = rebuilt(archive)
    new_ = arrays(made)
    inputs = numbers(16, 4)
    for branch, head in (("policy", "action_net"), ("value", "value_net")):
        shared = inputs
        for index in range(len(sizes)):
            layer = f"mlp_extractor.shared_net.{2 * index}"
            shared = np.tanh(shared @ old[f"{layer}.weight"].T + old[f"{layer}.bias"])
        expected = forward(old, f"mlp_extractor.{branch}_net.", shared, head)
        np.testing.assert_allclose(forward(new_, f"mlp_extractor.{branch}_net.", inputs, head), expected, rtol=1e-5)
    assert made.data["policy_kwargs"]["net_arch"] == {"pi": [*sizes, 5], "vf": [*sizes, 5]}
    assert "none of them shared" in rows["policy_kwargs/net_arch"].message
    own = {id(info.storage) for info in made.parameters["policy"].tensors().values()}
    assert len(own) == len(made.parameters["policy"].tensors())


def test_names_stand_in_the_order_of_todays_modules() -> None:
    made, _, _ = rebuilt(with_network({"log_std": numbers(2), **shared_network(8)}, policy_kwargs=...))
    assert list(arrays(made)) == [
        "log_std",
        *(f"mlp_extractor.{b}_net.{n}.{k}" for b in ("policy", "value") for n in (0, 2) for k in ("weight", "bias")),
        *(f"{head}.{kind}" for head in ("action_net", "value_net") for kind in ("weight", "bias")),
    ]
    assert made.data["policy_kwargs"] == {"net_arch": {"pi": [8, 5], "vf": [8, 5]}}


def test_moments_follow_the_layers() -> None:
    old = {"log_std": numbers(2), **shared_network(8)}
    archive = with_network(old)
    before, after = arrays(archive, "policy.optimizer"), arrays(rebuilt(archive)[0], "policy.optimizer")
    names, now = list(old), list(arrays(rebuilt(archive)[0]))
    assert after["param_groups"][0]["params"] == list(range(len(now)))
    for index, name in enumerate(now):
        origin = name
        for branch in ("policy", "value"):
            origin = origin.replace(f"mlp_extractor.{branch}_net.0.", "mlp_extractor.shared_net.0.")
            origin = origin.replace(f"{branch}_net.2.", f"{branch}_net.0.")
        moments = before["state"][names.index(origin)]
        np.testing.assert_array_equal(after["state"][index]["exp_avg"], moments["exp_avg"])
        assert float(after["state"][index]["step"]) == 3
        assert after["state"][index]["step"].dtype == np.float32


def test_moments_that_fit_nothing_start_anew() -> None:
    old = shared_network(8)
    made, rows, _ = rebuilt(with_network(old, optimizers={"policy.optimizer": adam((1, 1))}))
    state = arrays(made, "policy.optimizer")
    assert state["state"] == {}
    assert state["param_groups"][0]["params"] == list(range(12))
    assert "starts anew" in rows["policy.optimizer.pth"].message


# -- extractors, critics, ARS -------------------------------------------------------------------------


def extractor(prefix: str = "features_extractor.") -> Arrays:
    return {f"{prefix}linear.0.weight": numbers(6, 4), f"{prefix}linear.0.bias": numbers(6)}


def test_a_features_extractor_is_there_by_three_names_over_one_memory() -> None:
    old = {**extractor(), "action_net.weight": numbers(2, 6), "value_net.weight": numbers(1, 6)}
    made, _, _ = rebuilt(with_network(old))
    infos = made.parameters["policy"].tensors()
    assert list(infos)[:6] == [
        f"{prefix}features_extractor.linear.0.{kind}" for prefix in ("", "pi_", "vf_") for kind in ("weight", "bias")
    ]
    assert len({id(info.storage) for info in infos.values()}) == 4
    assert len(arrays(made, "policy.optimizer")["state"]) == 4
    again, rows, _ = rebuilt(made)
    assert again == made
    assert rows["policy.pth"].action == "kept"


def test_the_policy_networks_extractor_alone_is_added_and_the_value_networks_alone_is_not() -> None:
    rest = {"action_net.weight": numbers(2, 6), "value_net.weight": numbers(1, 6)}
    shared, own = extractor(), extractor("vf_features_extractor.")
    made, rows, _ = rebuilt(with_network({**shared, **own, **rest}))
    assert rows["policy.pth"].action == "translated"
    for name, value in shared.items():
        np.testing.assert_array_equal(arrays(made)[f"pi_{name}"], value)
        np.testing.assert_array_equal(arrays(made)[f"vf_{name}"], own[f"vf_{name}"])
    kept, rows, _ = rebuilt(with_network({**shared, **extractor("pi_features_extractor."), **rest}))
    assert rows["policy.pth"].action == "kept"
    assert not any(name.startswith("vf_") for name in arrays(kept))


def test_critics_have_their_names_of_today() -> None:
    policy = {
        name.replace("qf0.", "q1_net.").replace("qf1.", "q2_net."): value
        for name, value in arrays(BASES["sac"]).items()
    }
    made, rows, _ = rebuilt(BASES["sac"].replace(parameters={"policy": OrderedDict(policy)}))
    assert arrays(made).keys() == arrays(BASES["sac"]).keys()
    assert "critic.q1_net is critic.qf0 since SB3 0.8" in rows["policy.pth"].message
    for name, value in arrays(BASES["sac"]).items():
        np.testing.assert_array_equal(arrays(made)[name], value)


def test_an_extractor_that_actor_and_critics_shared_is_asked_for() -> None:
    shared = extractor("actor.features_extractor.")
    policy = {**arrays(BASES["sac"]), **shared}
    policy |= {name.replace("actor", "critic", 1): value for name, value in shared.items()}
    made, rows, _ = rebuilt(BASES["sac"].replace(parameters={"policy": OrderedDict(policy)}))
    assert made.data["policy_kwargs"]["share_features_extractor"] is True
    assert "default before SB3 1.6" in rows["policy_kwargs/share_features_extractor"].message
    apart = {name: value.copy() for name, value in policy.items()}
    made, _, _ = rebuilt(BASES["sac"].replace(parameters={"policy": OrderedDict(apart)}))
    assert "share_features_extractor" not in made.data["policy_kwargs"]


def ars(name: str) -> Archive:
    archive = with_keys(n_delta=8, pop_size=16, policy_class=reference("sb3_contrib.ars.policies", "ARSLinearPolicy"))
    return archive.replace(parameters={"policy": OrderedDict({name: numbers(2, 4)}), "policy.optimizer": None})


def test_the_linear_layer_of_ars_has_a_number() -> None:
    made, _, report = rebuilt(ars("action_net.weight"))
    assert report.algorithm == "ARS"
    assert list(arrays(made)) == ["action_net.0.weight"]
    assert rebuilt(ars("action_net.0.weight"))[1]["policy.pth"].action == "kept"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"features_extractor.cnn.4.weight": numbers(32, 64, 3, 3)}, "NatureCNN is that of SB3 0.6"),
        ({"sde_features_extractor.0.weight": numbers(4, 4)}, "sde_net_arch"),
    ],
)
def test_networks_that_today_has_not_are_refused(policy: Arrays, message: str) -> None:
    with pytest.raises(UnsupportedError, match=f"policy.pth: .*{message}"):
        rebuild(with_network(policy))


# -- optimizers ---------------------------------------------------------------------------------------


def test_parameters_that_were_addresses_are_numbered() -> None:
    policy = arrays(BASES["ppo"])
    keys = [94_000_000_000_000 + 64 * (7 * index % 12) for index in range(len(policy))]
    given = adam(*(value.shape for value in policy.values()), keys=keys)
    given["state"] = dict(reversed(given["state"].items()))
    archive = BASES["ppo"].replace(parameters={"policy.optimizer": given})
    made = arrays(rebuilt(archive)[0], "policy.optimizer")
    assert made["param_groups"][0]["params"] == list(range(12))
    for index, key in enumerate(keys):
        np.testing.assert_array_equal(made["state"][index]["exp_avg"], given["state"][key]["exp_avg"])


def q_archive(*, is_doubled: bool) -> Archive:
    """A DQN, with the optimizer of before or after SB3 2.4."""
    online = {"q_net.q_net.0.weight": numbers(2, 4), "q_net.q_net.0.bias": numbers(2)}
    target = {name.replace("q_net", "q_net_target", 1): value.copy() for name, value in online.items()}
    state = adam((2, 4), (2,))
    state["param_groups"][0]["params"] = list(range(4 if is_doubled else 2))
    archive = with_network(
        {**online, **target},
        optimizers={"policy.optimizer": state},
        exploration_fraction=0.5,
        policy_class=reference("stable_baselines3.dqn.policies", "DQNPolicy"),
    )
    return archive.replace(data={key: value for key, value in archive.data.items() if key != "n_epochs"})


@check_each("is_doubled", [True, False])
@check_each(("target", "wanted"), [("2.9", 2), ("2.4", 2), ("2.3", 4), ("2.0", 4)])
def test_the_optimizer_of_dqn_has_the_parameters_of_the_target(is_doubled: bool, target: str, wanted: int) -> None:  # noqa: FBT001 -- a case
    made, _, report = rebuilt(q_archive(is_doubled=is_doubled), target=target)
    assert report.algorithm == "DQN"
    state = arrays(made, "policy.optimizer")
    assert state["param_groups"][0]["params"] == list(range(wanted))
    assert sorted(state["state"]) == [0, 1]


def test_an_optimizer_tells_its_class_where_nothing_else_does() -> None:
    policy = arrays(BASES["ppo"])
    group = {"lr": 7e-4, "alpha": 0.99, "eps": 1e-5, "centered": False, "momentum": 0, "weight_decay": 0}
    state = {index: {"step": 3, "square_avg": value**2} for index, value in enumerate(policy.values())}
    given = {"state": state, "param_groups": [{**group, "params": list(state)}]}
    archive = BASES["ppo"].replace(parameters={"policy.optimizer": given})
    made, _, _ = rebuilt(archive)
    arguments: Any = made.decode("policy_kwargs")
    assert arguments["optimizer_class"] == Reference("torch.optim.rmsprop", "RMSprop")
    assert arrays(made, "policy.optimizer")["state"][0]["step"].dtype == np.float32
    module = "stable_baselines3.common.sb2_compat.rmsprop_tf_like"
    own = blob({"optimizer_class": reference_tree(module, "RMSpropTFLike")})
    made, _, _ = rebuilt(archive.replace(data={**archive.data, "policy_kwargs": own}))
    assert arrays(made, "policy.optimizer")["state"][0]["step"] == 3
    assert type(arrays(made, "policy.optimizer")["state"][0]["step"]) is int


def reference_tree(module: str, name: str) -> Any:
    return sbformat.pkl.Global(module, name)


@pytest.mark.parametrize("fused", [True, 1, (), 0.5])
def test_what_only_holds_on_a_gpu_is_off_and_numpys_numbers_are_pythons(fused: Any) -> None:
    given = arrays(BASES["ppo"], "policy.optimizer")
    lr = ArrayInfo("<f8", (), "C", np.float64(2e-4).tobytes(), is_scalar=True)
    given["param_groups"][0] |= {"fused": fused, "capturable": True, "lr": lr}
    made, rows, _ = rebuilt(BASES["ppo"].replace(parameters={"policy.optimizer": given}))
    group = arrays(made, "policy.optimizer")["param_groups"][0]
    assert (group["fused"], group["capturable"], group["lr"]) == (None, False, 2e-4)
    assert type(group["lr"]) is float
    assert "GPU" in rows["policy.optimizer.pth"].message


@pytest.mark.parametrize("step", [1e300, -1, float("nan"), 10**30])
def test_steps_that_nobody_took_are_refused(step: float) -> None:
    policy = arrays(BASES["ppo"])
    given = adam(*(value.shape for value in policy.values()), step=step)
    with pytest.raises(UnsupportedError, match="number of steps"):
        rebuild(BASES["ppo"].replace(parameters={"policy.optimizer": given}))


def test_a_shared_layer_that_is_no_matrix_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="is not a matrix"):
        rebuild(with_network({**shared_network(8), "mlp_extractor.shared_net.0.weight": numbers(8)}))


@pytest.mark.parametrize("value", [{"state": {}}, {"state": [], "param_groups": []}, {"a": np.zeros(2)}, {}])
def test_what_is_no_optimizer_is_refused(value: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"policy\.optimizer\.pth: not an optimizer"):
        rebuild(BASES["ppo"].replace(parameters={"policy.optimizer": value}))


def test_legacy_streams_become_torch_zips_and_gpus_cpus(tmp_path: Any) -> None:
    root = tmp_path / "agent"
    root.mkdir()
    for name in BASES["ppo"].entries:
        (root / name).write_bytes(bytes(BASES["ppo"].raw(name)))
    object_ = ordered({"w": tensor(storage(2, "7", "FloatStorage", "cuda:0", None), (2,))})
    (root / "policy.pth").write_bytes(legacy_stream(object_, [Run("7", 2, b"\0\0\x80\x3f" * 2)]))
    made, rows, _ = rebuilt(sbformat.read(root))
    assert "legacy stream" in rows["policy.pth"].message
    assert made.parameters["policy"].info("w").location == "cpu"
    np.testing.assert_array_equal(arrays(made)["w"], [1, 1])


# -- HER before 1.1 -----------------------------------------------------------------------------------

HER: Final = {
    "model_class": reference("stable_baselines3.sac.sac", "SAC"), "n_sampled_goal": 2, "online_sampling": True,
    "max_episode_length": 7,
    "goal_selection_strategy": blob(
        call("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy", 2)
    ),
}  # fmt: skip


def her(last: dict[str, tuple[int, ...]] | None = None, **keys: Any) -> Archive:
    """HER around the bundled SAC, whose three observations were two and a goal of one."""
    parts = last or {"observation": (1, 2), "achieved_goal": (1, 1), "desired_goal": (1, 1)}
    arrays_ = {key: array(shape, bytes(4 * int(np.prod(shape)))) for key, shape in parts.items()}
    low = array((3,), np.array([-1, -2, -3], "<f4").tobytes())
    high = array((3,), np.array([1, 2, np.inf], "<f4").tobytes())
    return with_keys(
        "sac", **{**HER, "_last_obs": blob(arrays_), "observation_space": blob(box(low, high, (3,))), **keys}
    )


def test_her_is_a_replay_buffer_and_its_observation_a_dict() -> None:
    made, rows, report = rebuilt(her())
    assert report.algorithm == "SAC"
    assert made.data["replay_buffer_kwargs"] == {"n_sampled_goal": 2, "goal_selection_strategy": "episode"}
    assert made.decode("replay_buffer_class") == Reference("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
    assert made.decode("policy_class") == Reference("stable_baselines3.sac.policies", "MultiInputPolicy")
    assert not set(HER) & set(made.data)
    space = made.decode("observation_space")
    assert isinstance(space, DictSpace)
    assert list(space.spaces) == ["achieved_goal", "desired_goal", "observation"]
    goal, observation = space.spaces["desired_goal"], space.spaces["observation"]
    assert isinstance(goal, Box)
    assert isinstance(observation, Box)
    assert goal.low.to_numpy().tolist() == [-3]
    assert observation.high.to_numpy().tolist() == [1, 2]
    assert rows["max_episode_length"].action == "dropped"


def test_first_layers_take_the_dict_and_compute_the_same() -> None:
    archive = her().replace(parameters={"actor.optimizer": BASES["sac"].parameters["actor.optimizer"]})
    made, _, _ = rebuilt(archive)
    old, new_ = arrays(archive), arrays(made)
    observation, goal, action = numbers(8, 2), numbers(8, 1), numbers(8, 1)
    dictionary = np.concatenate([numbers(8, 1), goal, observation], axis=1)
    for name in ("actor.latent_pi.0.weight", "critic.qf0.0.weight", "critic_target.qf1.0.weight"):
        others = [] if name.startswith("actor") else [action]
        before = np.concatenate([observation, goal, *others], axis=1) @ old[name].T
        after = np.concatenate([dictionary, *others], axis=1) @ new_[name].T
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    before, after = (arrays(one, "actor.optimizer")["state"][0]["exp_avg"] for one in (archive, made))
    np.testing.assert_array_equal(after, np.concatenate([np.zeros((8, 1)), before[:, 2:], before[:, :2]], axis=1))


@pytest.mark.parametrize(
    "keys",
    [
        {"_last_obs": None},
        {"last": {"observation": (1, 5), "achieved_goal": (1, 1), "desired_goal": (1, 1)}},
        {"last": {"observation": (1, 1), "achieved_goal": (1, 1), "desired_goal": (1, 2)}},
        {"last": {"observation": (2,), "achieved_goal": (1,), "desired_goal": (1,)}},
        {"last": {"observation": (1, 2)}},
    ],
)
def test_an_observation_that_tells_no_goal_stays_as_it_is(keys: Any) -> None:
    archive = her(**keys)
    made, rows, _ = rebuilt(archive)
    assert isinstance(made.decode("observation_space"), Box)
    assert "replay_buffer_kwargs" not in made.data or "n_sampled_goal" not in made.data["replay_buffer_kwargs"]
    assert rows["model_class"].instead == "a plain replay buffer"
    for name, value in arrays(archive).items():
        np.testing.assert_array_equal(arrays(made)[name], value)


def test_bits_and_choices_are_parted_like_boxes() -> None:
    bits = new("gym.spaces.multi_binary", "MultiBinary", {"n": 3, "_shape": (3,), "dtype": dtype("i1", "|")})
    made, _, _ = rebuilt(her(observation_space=blob(bits)))
    space: Any = made.decode("observation_space")
    assert [part.shape for part in space.spaces.values()] == [(1,), (1,), (2,)]


def test_her_with_a_space_of_a_users_class_is_taken_as_the_one_that_it_extends() -> None:
    archive = her()
    space: Any = pkl.loads(archive.data["observation_space"].pickle)
    space.func = Global("mine.spaces", "MyBox")
    mine = her(observation_space=blob(space))
    made = rebuild(mine, treat_as={"mine.spaces.MyBox": "gymnasium.spaces.Box"})
    assert made.archive == rebuild(archive).archive
    assert isinstance(made.archive.decode("observation_space"), DictSpace)
    assert [row.key for row in made.report.findings] == [row.key for row in rebuild(archive).report.findings]
    with pytest.raises(
        UnsupportedError, match="HER's goals cannot be separated .*'mine.spaces.MyBox': --as mine.spaces"
    ):
        rebuild(mine, allow=["mine.spaces.MyBox"])
    untrained = rebuild(her(observation_space=blob(space), _last_obs=None), allow=["mine.spaces.MyBox"])
    assert "model_class" in [row.key for row in untrained.report.findings]


def test_what_her_was_put_around_has_to_be_known() -> None:
    with pytest.raises(UnsupportedError, match="model_class"):
        rebuild(her(model_class=reference("mine", "SAC")))


def test_a_state_dict_that_is_none_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'a' is not a tensor"):
        rebuild(BASES["ppo"].replace(parameters={"policy": StateDict.from_arrays({"a": 1})}))


def test_an_interval_that_was_saved_divided_is_whole_again() -> None:
    archive = q_archive(is_doubled=True)
    data = {**archive.data, "target_update_interval": 5, "n_envs": 3}
    for version, wanted in (("1.3.0", 5), ("1.4.0", 15), ("1.8.0", 15), ("2.0.0", 5), ("2.9.2", 5)):
        made, _, _ = rebuilt(archive.replace(data=data, stable_baselines3_version=version))
        assert made.data["target_update_interval"] == wanted, version


def test_image_policies_without_hidden_layers_say_so() -> None:
    policy = {
        "actor.features_extractor.linear.0.weight": numbers(6, 4), "actor.mu.weight": numbers(1, 6),
        "critic.features_extractor.linear.0.weight": numbers(6, 4), "critic.qf0.0.weight": numbers(1, 7),
    }  # fmt: skip
    archive = BASES["sac"].replace(parameters={"policy": OrderedDict(policy)})
    made, rows, _ = rebuilt(archive.replace(data={**archive.data, "policy_kwargs": {"use_sde": False}}))
    assert made.data["policy_kwargs"]["net_arch"] == {"pi": [], "qf": []}
    assert "default once" in rows["policy_kwargs/net_arch"].message
    made, _, _ = rebuilt(archive)
    assert made.data["policy_kwargs"]["net_arch"] == [8, 8]


def test_ars_squashed_whatever_it_was_told() -> None:
    archive = with_keys(
        n_delta=8, pop_size=16, policy_class=reference("sb3_contrib.ars.policies", "ARSPolicy"),
        policy_kwargs={"squash_output": False},
        action_space=blob(box(array((1,), b"\0\0\x80\xbf"), array((1,), b"\0\0\x80\x3f"), (1,))),
    )  # fmt: skip
    policy = OrderedDict({"action_net.0.weight": numbers(2, 4)})
    archive = archive.replace(parameters={"policy": policy, "policy.optimizer": None})
    for version, wanted in (("1.6.2", True), ("1.7.0", False)):
        made, _, _ = rebuilt(archive.replace(stable_baselines3_version=version))
        assert made.data["policy_kwargs"]["squash_output"] is wanted
    wide = blob(box(array((1,), b"\0\0\0\xc0"), array((1,), b"\0\0\0\x40"), (1,)))
    with pytest.raises(UnsupportedError, match="did not scale"):
        rebuild(archive.replace(data={**archive.data, "action_space": wide}, stable_baselines3_version="1.6.2"))


@pytest.mark.parametrize(
    "given",
    [
        {"state": {-5000: {"exp_avg": np.zeros(2)}, "abc": {}, None: {}}},
        {"param_groups": [{"params": list(range(1000))}] * 2000},
        *with_exhaustive(
            [{"state": {index: {"step": 1, **dict.fromkeys(map(str, range(1000)), 1)} for index in range(20)}}],
            [{"state": {index: {"step": 1, **dict.fromkeys(map(str, range(1000)), 1)} for index in range(400)}}],
        ),
    ],
)
def test_states_of_nothing_and_shared_ones_cost_nothing(given: Any) -> None:
    for base, name in (("ppo", "policy.optimizer"), ("sac", "actor.optimizer")):
        state = {**arrays(BASES[base], name), **given}
        try:
            made, _, _ = rebuilt(BASES[base].replace(parameters={name: state}))
        except UnsupportedError:
            continue
        assert not set(arrays(made, name)["state"]) & set(given["state"])


def test_a_layer_that_stands_twice_under_two_names_is_no_key_error() -> None:
    old = shared_network(5)
    old["mlp_extractor.value_net.0.weight"] = old["mlp_extractor.policy_net.0.weight"]
    reordered = {"mlp_extractor.value_net.0.weight": old["mlp_extractor.value_net.0.weight"], **old}
    made, _, _ = rebuilt(with_network(reordered))
    assert len(arrays(made)) == 12


@pytest.mark.parametrize("name", [7, None, "mlp_extractor.value_net.99999999999999999999.weight"])
def test_names_that_no_module_has_are_refused(name: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"policy\.pth: "):
        rebuild(with_network({**shared_network(8), name: numbers(2, 2)}))


def test_an_actor_without_hidden_layers_takes_the_dict_too() -> None:
    policy = {
        "actor.mu.weight": numbers(1, 3), "actor.log_std.weight": numbers(1, 3),
        "critic.qf0.0.weight": numbers(1, 4), "critic_target.qf0.0.weight": numbers(1, 4),
    }  # fmt: skip
    optimizers = {"actor.optimizer": adam((1, 3), (1, 3)), "critic.optimizer": adam((1, 4))}
    archive = her().replace(parameters={"policy": OrderedDict(policy), **optimizers})
    made, _, _ = rebuilt(archive)
    assert arrays(made, "actor.optimizer")["state"][1]["exp_avg"].shape == (1, 4)
    assert [value.shape for value in arrays(made).values()] == [(1, 4), (1, 4), (1, 5), (1, 5)]
    np.testing.assert_array_equal(arrays(made)["actor.mu.weight"][0, 1:], policy["actor.mu.weight"][0, [2, 0, 1]])
    noisy = her().replace(parameters={"policy": OrderedDict({**policy, "actor.log_std": numbers(3, 1)})})
    assert rebuilt(noisy)[1]["model_class"].instead == "a plain replay buffer"


def test_nothing_of_the_author_is_in_state_dicts() -> None:
    given = arrays(BASES["ppo"], "policy.optimizer")
    given["param_groups"][0]["/home/alice/a"] = 1
    given["param_groups"][0]["note"] = "alice"
    given["state"][0]["/home/alice/b"] = np.zeros(2)
    policy: Any = BASES["ppo"].parameters["policy"].to_numpy()
    policy._metadata = OrderedDict({"": {"version": 1}, "/home/alice": {"version": 1}, "action_net": {"version": "al"}})
    made, _, _ = rebuilt(BASES["ppo"].replace(parameters={"policy.optimizer": given, "policy": policy}))
    assert b"alice" not in sbformat.writes(made)
    assert made.parameters["policy"].metadata == {"": {"version": 1}}
    assert 0 not in arrays(made, "policy.optimizer")["state"]
