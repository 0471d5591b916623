"""Forged archives: whatever names, sizes and values a file has, an error of ours within the budget."""

from __future__ import annotations

import contextlib
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat import LimitError, Limits, SbformatError, Serialized, UnsupportedError, ValidationError
from sbformat.limits import Budget
from sbformat.nets.building import build_sb3_policy, find_policy_class
from sbformat.nets.sb3 import POLICIES
from sbformat.policies.builder import Given, GraphBuilder
from sbformat.policies.graph import Graph, Input
from sbformat.pth.values import TensorInfo
from sbformat.values import encode
from tests.helpers.count_work import count_calls
from tests.helpers.recursion import allow_calls_within_one_another
from tests.helpers.sampling import more_examples
from tests.nets.agents import build, lone, make_agent, weights_of, with_kwargs
from tests.policies.run.models import box, dict_space, discrete, images, multi_binary, multi_discrete

if TYPE_CHECKING:
    from sbformat import Archive

TANH: dict[str, Any] = {"policy_kwargs": {"activation_fn": "Tanh"}}
GIVEN = {"observation_space": box(3), "action_space": discrete(2), **TANH}
NAMES = [
    "action_net.weight", "action_net.bias", "value_net.weight", "mlp_extractor.policy_net.0.weight",
    "mlp_extractor.policy_net.1.weight", "mlp_extractor.policy_net.99999.weight", "mlp_extractor.policy_net.x.weight",
    "mlp_extractor.policy_net.-1.weight", "mlp_extractor.policy_net..weight", "lstm_actor.weight_ih_l0",
    "lstm_actor.weight_hh_l0", "lstm_actor.bias_ih_l0", "q_net.q_net.0.weight", "q_net.q_net.0.bias",
    "quantile_net.quantile_net.0.weight", "actor.mu.weight", "actor.mu.0.weight", "actor.log_std", "actor.mu.bias",
    "actor.log_std.weight", "critic.qf0.0.weight", "critic.q1_net.0.weight", "actor.latent_pi.0.ra_mean",
    "actor.latent_pi.0.scale", "log_std", "features_extractor.cnn.0.weight", "pi_features_extractor.linear.0.weight",
    "observation", "action", "critic.weight", "value_net.bias", "", ".", "action_net..", "\ud800",
]  # fmt: skip


SOUND = [
    ("ActorCriticPolicy", box(3), box(2)),
    ("td3.TD3Policy", box(3), box(2)),
    ("dqn.DQNPolicy", box(3), discrete(2)),
]


@more_examples(20)
@given(
    st.sampled_from(SOUND),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["f4", "f8", "i8", "?", "f2"]), max_size=2),
)
def test_tensors_that_no_layer_has_are_refused_or_not_in_the_graph(sound: Any, added: dict[str, str]) -> None:
    policy, observations, actions = sound
    archive = make_agent(policy, observations, actions)
    weights = weights_of(archive)
    more = {name: np.zeros((2, 2), dtype) for name, dtype in added.items() if name.isprintable()}
    changed = archive.replace(parameters={"policy": {**more, **weights}})
    expected = names_of_the_file(build(archive).graph)
    assert expected
    try:
        model = build(changed)
    except ValidationError as error:
        assert more and "is unexpected" in str(error)  # noqa: PT017, PT018
    else:
        assert names_of_the_file(model.graph) == expected


def names_of_the_file(graph: Graph) -> set[str]:
    return {name for name, weight in graph.weights.items() if isinstance(weight.source, TensorInfo)}


@more_examples(100)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(["f4", "f8", "i8", "?", "f2"])),
        max_size=8,
    ),
    st.sampled_from([discrete(2), box(2), multi_discrete(1, 1)]),
    st.sampled_from([box(3), images(1, 36, 36), dict_space(a=box(2), b=discrete(1)), discrete(3)]),
    st.sampled_from(["ActorCriticPolicy", "SACPolicy", "TQCPolicy", "TD3Policy", "DQNPolicy", "ARSLinearPolicy", None]),
)
def test_any_tensors_make_a_graph_or_an_error(
    tensors: dict[str, Any], actions: Any, observations: Any, policy_class: str | None
) -> None:
    weights = {name: np.zeros(shape, dtype) for name, (shape, dtype) in tensors.items() if name.isprintable()}
    kwargs: dict[str, Any] = {"activation_fn": "Tanh", "squash_output": True, "clip_mean": 1.0, "use_expln": False}
    if policy_class is not None:
        accepted = POLICIES[find_policy_class(policy_class, None)].arguments
        kwargs = {key: value for key, value in {**kwargs, "normalize_images": True}.items() if key in accepted}
    try:
        model = build(
            lone(make_agent(weights=weights)), observation_space=observations, action_space=actions,
            policy_class=policy_class, policy_kwargs=kwargs,
        )  # fmt: skip
    except SbformatError:
        return
    assert names_of_the_file(model.graph) <= weights.keys()  # seldom: see the test above


def forged(archive: Archive, **shapes: tuple[int, ...]) -> Any:
    """The archive with the shapes of some tensors replaced, whose strides are 0."""
    tree = archive.state_dict("policy.pth").tree
    for name, shape in shapes.items():
        info = tree[name]
        assert isinstance(info, TensorInfo)
        tree[name] = info._replace(shape=shape, strides=(0,) * len(shape))
    return archive


def test_a_forged_size_costs_nothing() -> None:
    archive = lone(make_agent(actions=discrete(2), net_arch=[]))
    size = 1 << 40
    forged(archive, **{"action_net.weight": (size, 3), "action_net.bias": (size,)})
    with pytest.raises(LimitError, match="policy_items"):
        build(archive, **{**GIVEN, "action_space": discrete(size)})
    archive = lone(make_agent(actions=discrete(2), net_arch=[]))
    forged(archive, **{"action_net.weight": (2, size)})
    with pytest.raises(LimitError, match="policy_items"):
        build(archive, action_space=discrete(2))


def test_nodes_are_counted() -> None:
    archive = make_agent(actions=multi_discrete(*[2] * 400), net_arch=[])
    build(archive)
    with pytest.raises(LimitError, match="policy_items"):
        build(archive, Limits(policy_items=400_000))


@pytest.mark.parametrize(("layers", "levels"), [(100, 200), pytest.param(400, 1000, marks=pytest.mark.exhaustive)])
def test_hundreds_of_layers(layers: int, levels: int) -> None:
    archive = make_agent(actions=discrete(2), net_arch=[1] * layers)
    with allow_calls_within_one_another(levels):
        assert len(build(archive).graph.nodes) > max(4 * layers, levels)
    with pytest.raises(LimitError, match="policy_items"):
        build(archive, Limits(policy_items=1000 * layers))


@pytest.mark.parametrize(("critics", "layers"), [(80, 30), pytest.param(300, 100, marks=pytest.mark.exhaustive)])
def test_many_critics_and_lstm_layers(critics: int, layers: int) -> None:
    graph = build(make_agent("sac.SACPolicy", n_critics=critics, net_arch=[1])).graph
    assert graph.output("q_values").shape == (critics,)
    archive = make_agent("recurrent.RecurrentActorCriticPolicy", n_lstm_layers=layers, lstm_hidden_size=1, net_arch=[])
    assert len(build(archive).graph.states) == 4 * layers


@pytest.mark.parametrize("key", ["observation", "a" * 10_000, "\x1b[31m", "features_extractor", "a/b"])
def test_any_key_of_a_dict(key: str) -> None:
    space = dict_space(**{key: box(2), "b": box(1)})
    graph = build(make_agent("MultiInputActorCriticPolicy", space, discrete(2), net_arch=[])).graph
    assert [item.key for item in graph.inputs] == [key, "b"]
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


@pytest.mark.parametrize("value", ["fast", None, [1], float("nan"), True])
@pytest.mark.parametrize(
    ("policy", "key"),
    [
        ("sac.SACPolicy", "clip_mean"),
        ("crossq.CrossQPolicy", "batch_norm_eps"),
        ("ActorCriticPolicy", "use_expln"),
        ("ActorCriticPolicy", "normalize_images"),
    ],
)
def test_any_argument(policy: str, key: str, value: Any) -> None:
    archive = make_agent(policy, use_sde=policy != "crossq.CrossQPolicy")
    kwargs = archive.decode("policy_kwargs")
    archive = archive.replace(data={**archive.data, "policy_kwargs": {**kwargs, key: value}})
    with contextlib.suppress(SbformatError):
        build(archive)


@pytest.mark.parametrize("value", ["often", [], {}])
def test_any_rate(value: Any) -> None:
    with pytest.raises(ValidationError, match="exploration_rate: expected a number of at most 64 bits, got "):
        build(make_agent("dqn.DQNPolicy", actions=discrete(2), data={"exploration_rate": value}))


def test_tensors_of_other_dtypes_are_converted_as_sb3_loads_them() -> None:
    archive = make_agent(actions=discrete(2), net_arch=[])
    weights = {name: value.astype("f8") for name, value in weights_of(archive).items()}
    graph = build(archive.replace(parameters={"policy": weights})).graph
    assert graph.weights["action_net.weight"].dtype == "float64"
    assert graph.output("logits").dtype == "float32"


def test_a_dtype_that_numpy_does_not_have() -> None:
    archive = make_agent(actions=discrete(2), net_arch=[])
    tree = archive.state_dict("policy.pth").tree
    tree["action_net.weight"] = tree["action_net.weight"]._replace(dtype="bfloat16")
    graph = build_sb3_policy(archive, Given(), Budget(Limits())).graph
    assert graph.weights["action_net.weight"].dtype == "float32"
    tree["action_net.weight"] = tree["action_net.weight"]._replace(dtype="complex64")
    with pytest.raises(
        UnsupportedError, match="expected 'action_net.weight' to have one of the dtypes .* got complex64"
    ):
        build_sb3_policy(archive, Given(), Budget(Limits()))


def test_thousands_of_equal_names_take_no_longer() -> None:
    builder = GraphBuilder(Budget())
    value = builder.input(Input("x", "float32", (4,)))
    calls = []
    for _ in range(4):
        with count_calls() as count:
            for _ in range(1000):
                value = builder.add("Relu", value, module="m")
        calls.append(count.number)
    assert value.name == "m/Relu_4000"
    assert calls[-1] < 1.1 * calls[0]


def test_supplied_layers_before_a_layer_that_is_not_one() -> None:
    archive = lone(make_agent(actions=discrete(2)))
    forged(archive, **{"action_net.weight": (2,)})
    with pytest.raises(ValidationError, match="expected the layer 'action_net' in the state dict"):
        build(archive, **GIVEN, modules=frozenset({"mlp_extractor"}))


@pytest.mark.parametrize("space", [images(1, 36, 36), dict_space(a=images(1, 36, 36))])
def test_a_number_in_the_place_of_a_layer_of_an_extractor(space: Any) -> None:
    name = "MultiInputActorCriticPolicy" if space.has_keys else "ActorCriticCnnPolicy"
    archive = make_agent(name, space, discrete(2), net_arch=[])
    for key in [key for key in weights_of(archive) if "linear.0.weight" in key]:
        changed = lone(forged(lone(archive), **{key: ()}))
        kwargs = {"normalize_images": True}
        with pytest.raises(SbformatError):
            build(changed, observation_space=space, action_space=discrete(2), policy_kwargs=kwargs)


HUGE = 10**400


@pytest.mark.parametrize(
    ("policy", "made", "key"),
    [
        ("dqn.DQNPolicy", {"actions": discrete(2)}, "exploration_rate"),
        ("crossq.CrossQPolicy", {}, "batch_norm_eps"),
        ("sac.SACPolicy", {"use_sde": True}, "clip_mean"),
    ],
)
@pytest.mark.parametrize("number", [HUGE, -HUGE, np.complex64(1)], ids=["huge", "-huge", "complex"])
def test_a_number_that_torch_refuses(policy: str, made: Any, key: str, number: Any) -> None:
    archive = make_agent(policy, **made)
    if key == "exploration_rate":
        archive = archive.replace(data={**archive.data, key: Serialized(None, pickle.dumps(number))})
    else:
        archive = with_kwargs(archive, **{key: number})
    with pytest.raises(ValidationError, match=f"{key}: expected a number( of at most 64 bits)?, got |not those of SAC"):
        build(archive)


def test_a_limit_of_the_mean_beyond_float32() -> None:
    archive = make_agent("sac.SACPolicy", use_sde=True, clip_mean=1e39)
    with pytest.raises(ValidationError, match="clip_mean: expected a number of float32, got 1e"):
        build(archive)
    assert build(make_agent("sac.SACPolicy", use_sde=True, clip_mean=float("inf"))).graph.output("mean").shape == (2,)


def test_thousands_of_constants_that_are_not_numbers_take_no_longer() -> None:
    builder = GraphBuilder(Budget())
    names = {builder.constant(float("nan")).name for _ in range(5_000)}
    assert len(names) == 1


@pytest.mark.parametrize("value", [np.False_, np.True_, np.float32(0), np.int64(2)])
def test_a_flag_may_be_a_scalar_of_numpy(value: Any) -> None:
    space = images(1, 36, 36)
    archive = with_kwargs(make_agent("ActorCriticPolicy", space, discrete(2)), normalize_images=value)
    ops = [node.op for node in build(archive).graph.nodes]
    assert ("Div" in ops) == bool(value)


def test_a_flag_that_is_not_known() -> None:
    archive = with_kwargs(make_agent(use_sde=True), use_expln=np.complex64(1))
    with pytest.raises(UnsupportedError, match="policy_kwargs/use_expln: expected true or false, got "):
        build(archive)


@pytest.mark.parametrize(
    "part",
    [discrete(-(2**40)), discrete(0), multi_discrete(-(2**40)), multi_binary(-(2**40)), multi_binary(-1, -3)],
    ids=["discrete", "no-choice", "multi-discrete", "multi-binary", "two-axes"],
)
@pytest.mark.parametrize("key", ["a", "c"])
def test_a_negative_size_does_not_make_room_for_another(part: Any, key: str) -> None:
    parts = {"b": discrete(2**28), key: part}
    space = dict_space(**dict(sorted(parts.items())))
    archive = make_agent("MultiInputActorCriticPolicy", dict_space(**dict.fromkeys(parts, discrete(1))), discrete(2))
    archive = archive.replace(data={**archive.data, "observation_space": Serialized(None, encode(space))})
    with pytest.raises(ValidationError, match="observation_space: expected (at least one choice|sizes of 0 or more), "):
        build(archive, modules=frozenset({"features_extractor"}))
    with pytest.raises(ValidationError, match="observation_space: expected (at least one choice|sizes of 0 or more), "):
        build(lone(archive), modules=frozenset({"features_extractor"}), **{**GIVEN, "observation_space": space})


@pytest.mark.parametrize("actions", [discrete(0), multi_discrete(2, 0)])
def test_an_action_without_choices(actions: Any) -> None:
    archive = lone(make_agent(actions=discrete(2), net_arch=[]))
    with pytest.raises(ValidationError, match="action_space: expected at least one choice, got 0"):
        build(archive, action_space=actions)


def test_no_input_has_a_negative_size() -> None:
    with pytest.raises(ValidationError, match=r"'x': expected sizes of 0 or more, got the shape \(-1, -3\)"):
        GraphBuilder(Budget()).input(Input("x", "float32", (-1, -3)))
