"""Agents with one fault give a policy or one error, within the budget, whatever sizes, settings and spaces are."""

from __future__ import annotations

import base64
import json
import struct
from itertools import product
from math import nan, prod
from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from conformance.generators.build_pth import Name, Pairs, dumps, ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.policies import change, expanded, layers, read_agent, read_json, serialize
from sbformat import Limits, SbformatError, load_policy, pkl
from tests.fuzz import law
from tests.fuzz.targets import policies as target
from tests.helpers.build_blobs import array, box, discrete, new, tree
from tests.helpers.many_cases import check_all
from tests.helpers.sampling import with_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS: Final = (
    "ppo-box", "ppo-gsde-squashed", "ppo-observes-dict", "maskable-multi-discrete", "lstm-two-layers", "dqn", "qrdqn",
    "sac", "sac-gsde", "tqc", "crossq", "td3", "ars", "cnn",
)  # fmt: skip
MANY: Final = 1 << 31


def judge(data: bytes) -> None:
    """The law of the fuzzers: a policy that acts within its spaces or one error, within time and memory."""
    law.judge(target.one_input, data)


def find_outcome(data: bytes, **options: Any) -> str:
    judge(data)
    try:
        load_policy(data, **options)
    except SbformatError as error:
        return error.outcome
    return "loaded"


def test_agents_as_they_are_act_within_their_spaces() -> None:
    for name in AGENTS:
        judge(read_agent(name))


# -- settings -----------------------------------------------------------------------------------------


def nest(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: Final = (
    None, -1, 3, 1 << 200, 0.5, "x", [], [0], [MANY], [8] * 2000, ["8"], {}, {"pi": [8], "vf": [], "qf": [8]},
    [8, {"pi": [8], "vf": [8]}, 8], nest(50),
)  # fmt: skip
KWARGS: Final = (
    "net_arch", "activation_fn", "features_extractor_class", "features_extractor_kwargs", "squash_output", "full_std",
    "use_sde", "use_expln", "clip_mean", "n_critics", "n_quantiles", "normalize_images", "share_features_extractor",
    "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs", "with_bias", "batch_norm",
    "batch_norm_eps", "log_std_init",
)  # fmt: skip
DATA: Final = ("policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde", "exploration_rate")


@pytest.mark.parametrize("step", with_exhaustive([31], [1]))
@pytest.mark.parametrize("name", ["ppo-gsde-squashed", "ppo-observes-dict", "lstm-two-layers", "qrdqn", "tqc", "ars"])
def test_an_argument_of_any_type_and_size_gives_a_policy_or_an_error(name: str, step: int) -> None:
    """Or one in so many: each agent with 11 of 330, which are others for each agent."""
    kwargs = sbformat.reads(read_agent(name)).decode("policy_kwargs")
    plain = {key: value for key, value in kwargs.items() if isinstance(value, (bool, int, float, list, dict))}
    for key, value in list(product(KWARGS, VALUES))[len(name) % step :: step]:
        judge(change(name, policy_kwargs=json.loads(json.dumps({**plain, key: value}, default=dict))))


@pytest.mark.parametrize("step", with_exhaustive([5], [1]))
@pytest.mark.parametrize("name", ["ppo-box", "dqn", "sac"])
def test_a_key_of_data_of_any_type_and_size_gives_a_policy_or_an_error(name: str, step: int) -> None:
    for key, value in list(product(DATA, (*VALUES, nan)))[::step]:
        judge(change(name, **{key: value}))


def test_arguments_by_pickle_may_be_anything() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    odd: tuple[Any, ...] = (
        cycle, Name("torch.nn.modules.activation", "ReLU"), Name("os", "system"), {1: 2}, {("a",): 1}, Pairs((None, 1)),
        {"net_arch": cycle}, {"net_arch": (8,)}, {"net_arch": Pairs(("pi", [8]), ("pi", [9]))}, b"x", (), {8},
        {"activation_fn": Name("torch.nn.modules.activation", "Softmax2d")}, {"activation_fn": cycle},
    )  # fmt: skip
    for value in odd:
        judge(change("ppo-box", policy_kwargs=serialize(dumps(value))))
        judge(change("ppo-box", policy_class=serialize(dumps(value))))


# -- state dicts --------------------------------------------------------------------------------------


def read_shapes(name: str) -> dict[str, tuple[int, ...]]:
    tensors = sbformat.reads(read_agent(name)).parameters["policy"]
    return {key: tuple(tensors.info(key).shape) for key in tensors}


def write_shapes(shapes: dict[str, Any]) -> bytes:
    """A state dict: a tensor of each shape over one storage, or what is given in its place."""
    most = max((prod(shape) for shape in shapes.values() if isinstance(shape, tuple)), default=1)
    store = storage(most)
    tree = {key: tensor(store, shape) if isinstance(shape, tuple) else shape for key, shape in shapes.items()}
    return pth(ordered(tree), {"0": struct.pack("<f", 0.25) * most})


def shape_faults(shape: tuple[int, ...]) -> Iterator[Any]:
    """What may stand in the place of a tensor."""
    yield from (
        (*shape[::-1], 1),
        (*shape, 1),
        shape[1:],
        (0, *shape[1:]),
        tuple(size + 1 for size in shape),
        (1,) * 20,
    )
    yield expanded(MANY, None)
    yield tensor(storage(1, "0"), (MANY, *shape[1:]), (0,) * max(len(shape), 1))
    yield tensor(storage(1, "0"), shape, (0,) * len(shape))
    yield from ({}, 5, None, ordered({"weight": expanded(2, 2)}))


def tensor_faults(shapes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """State dicts with one tensor that is missing, is another, or has another name."""
    for key, shape in shapes.items():
        rest = {other: shapes[other] for other in shapes if other != key}
        yield rest
        yield from ({**shapes, key: fault} for fault in shape_faults(shape))
        yield from ({**rest, name: shape} for name in (f"{key}.0", key.replace(".0.", ".8000."), "", "mlp_extractor"))


@pytest.mark.parametrize("step", with_exhaustive([11], [1]))
@pytest.mark.parametrize("name", ["ppo-gsde-squashed", "lstm-two-layers", "sac"])
def test_a_tensor_of_any_shape_gives_a_policy_or_an_error(name: str, step: int) -> None:
    for found in list(tensor_faults(read_shapes(name)))[::step]:
        judge(change(name, {"policy.pth": write_shapes(found)}))


@pytest.mark.parametrize("step", with_exhaustive([3], [1]))
@pytest.mark.parametrize("name", ["ppo-box", "dqn", "td3"])
def test_a_lone_state_dict_of_any_shape_gives_a_policy_or_an_error(name: str, step: int) -> None:
    shapes = read_shapes(name)
    for key, fault in [(key, fault) for key, shape in shapes.items() for fault in shape_faults(shape)][::step]:
        judge(write_shapes({**shapes, key: fault}))


def test_items_of_any_dtype_give_a_policy_or_an_error() -> None:
    shapes = read_shapes("ppo-box")
    size = max(map(prod, shapes.values()))
    for dtype in ("Half", "BFloat16", "Double", "Bool", "Byte", "Long", "ComplexFloat", "QInt8"):
        tree = {key: tensor(storage(size, "0", f"{dtype}Storage"), shape) for key, shape in shapes.items()}
        width = {"Half": 2, "BFloat16": 2, "Double": 8, "Long": 8, "ComplexFloat": 8}.get(dtype, 1)
        judge(change("ppo-box", {"policy.pth": pth(ordered(tree), {"0": bytes(size * width)})}))


def test_a_weight_that_is_not_finite_is_no_error() -> None:
    shapes = read_shapes("ppo-box")
    size = max(map(prod, shapes.values()))
    tree = {key: tensor(storage(size), shape) for key, shape in shapes.items()}
    for item in (nan, float("inf"), -float("inf"), 3e38):
        raw = pth(ordered(tree), {"0": struct.pack("<f", item) * size})
        assert find_outcome(change("ppo-box", {"policy.pth": raw})) == "loaded"


# -- sizes --------------------------------------------------------------------------------------------


def test_forged_sizes_cost_nothing() -> None:
    wide = change("ppo", {"policy.pth": layers(4, MANY, 3)}, policy_kwargs={"net_arch": [MANY]})
    assert find_outcome(wide) == "limit exceeded"
    for hidden, outcome in ((1 << 10, "loaded"), (1 << 20, "limit exceeded")):
        made = change("ppo", {"policy.pth": layers(4, hidden, 3)}, policy_kwargs={"net_arch": [hidden]})
        assert find_outcome(made, limits=Limits(policy_items=1 << 16)) == outcome


@pytest.mark.parametrize("count", with_exhaustive([1500], [2048]))
def test_thousands_of_layers_are_a_policy_like_any_other(count: int) -> None:
    tensors = {f"action_net.{2 * number}.weight": (4, 4) for number in range(count)}
    raw = write_shapes({**tensors, f"action_net.{2 * count}.weight": (2, 4)})
    data = change("ars", {"policy.pth": raw}, policy_kwargs={"net_arch": [4] * count, "with_bias": False})
    assert find_outcome(data) == "loaded"
    fewer = change("ars", {"policy.pth": raw}, policy_kwargs={"net_arch": [4] * (count - 1), "with_bias": False})
    assert find_outcome(fewer) == "invalid"


# -- spaces -------------------------------------------------------------------------------------------


def nested_dicts(depth: int) -> Any:
    space: Any = discrete()
    for _ in range(depth):
        space = new("gymnasium.spaces.dict", "Dict", {"spaces": {"a": space}})
    return space


def choices(*sizes: int) -> Any:
    raw = struct.pack(f"<{len(sizes)}q", *sizes)
    return new(
        "gymnasium.spaces.multi_discrete",
        "MultiDiscrete",
        {"nvec": array((len(sizes),), raw, "i8"), "_shape": (len(sizes),)},
    )


def bits(count: Any, shape: tuple[int, ...]) -> Any:
    return new("gymnasium.spaces.multi_binary", "MultiBinary", {"n": count, "_shape": shape})


SPACES: Final = {
    **{f"discrete {n}": discrete(n) for n in (0, 1, -1, 3, MANY, 1 << 62)},
    "choices": choices(2, 3),
    "choices of nothing": choices(),
    "no choice": choices(0, 2),
    "negative choices": choices(-1, 2),
    "more choices than can be added": choices(1 << 62, 1 << 62, 1 << 62),
    "many choices": choices(*[2] * 5000),
    "bits": bits(4, (4,)),
    "many bits": bits(1 << 40, (1 << 40,)),
    "bits of another shape": bits(4, (MANY, MANY)),
    "parts": nested_dicts(1),
    "no parts": new("gymnasium.spaces.dict", "Dict", {"spaces": {}}),
    "parts of parts": nested_dicts(50),
    "many parts": new("gymnasium.spaces.dict", "Dict", {"spaces": {f"part {n}": discrete() for n in range(1000)}}),
    "a box of nothing": box(array((0,), b""), array((0,), b""), (0,)),
    "a box of one number": box(array((), bytes(4)), array((), bytes(4)), ()),
    "a box of many axes": box(array((1,) * 30, bytes(4)), array((1,) * 30, bytes(4)), (1,) * 30),
    "a box of another shape": box(array((4,), bytes(16)), array((4,), bytes(16)), (1, MANY, MANY)),
    "an image without pixels": box(
        array((1, 0, 1 << 40), b"", "u1"), array((1, 0, 1 << 40), b"", "u1"), (1, 0, 1 << 40)
    ),
    "a text": new("gymnasium.spaces.text", "Text", {"min_length": 1, "max_length": MANY}),
}
OBSERVERS: Final = ("ppo", "ppo-observes-dict", "dqn", "sac", "cnn")
PAIRS: Final = [(OBSERVERS[(number + more) % 5], what) for number, what in enumerate(SPACES) for more in (0, 2)]
"""Each space with two of the agents."""


@pytest.mark.parametrize("cases", with_exhaustive([PAIRS], [list(product(OBSERVERS, SPACES))]))
def test_a_space_of_any_size_gives_a_policy_or_an_error(cases: list[tuple[str, str]]) -> None:
    check_all(judge_spaces, cases)


def judge_spaces(name: str, what: str) -> None:
    value = serialize(pkl.dumps(tree(SPACES[what]), protocol=4))
    for key in ("observation_space", "action_space"):
        judge(change(name, **{key: value}))


def test_a_space_within_itself_is_an_error() -> None:
    raw = b"\x80\x02cgymnasium.spaces.dict\nDict\n)\x81q\x00}X\x06\x00\x00\x00spaces}X\x01\x00\x00\x00ah\x00ssb."
    assert find_outcome(change("ppo", observation_space=serialize(raw))) != "loaded"


def test_statistics_of_another_shape_are_refused() -> None:
    asked = read_json("sac-normalized", "input")
    statistics = base64.b64decode(asked["vecnormalize"])
    assert load_policy(read_agent("sac"), vecnormalize=statistics).vecnormalize is not None
    for name in ("ppo-observes-dict", "ppo-observes-discrete", "cnn", "image-flattened"):
        with pytest.raises(SbformatError):
            load_policy(read_agent(name), vecnormalize=statistics)
