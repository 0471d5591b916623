"""``StateDict``: a mapping, its addresses, its equality (FORMAT.md 6.7 and 9)."""

from __future__ import annotations

import copy
import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_zips
from conformance.generators.build_pth import (
    DEVICE,
    EXIT,
    GET_LAYOUT,
    REBUILD_META,
    REBUILD_PARAMETER,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_Q,
    REBUILD_SPARSE,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Change,
    Name,
    Raw,
    Run,
    floats,
    legacy_stream,
    ordered,
    storage,
    tensor,
    torch_zip,
)
from sbformat import LimitError, Limits, MissingEntryError, SbformatError, TensorError, pth
from sbformat.pth import StateDict, TensorInfo
from sbformat.pth.values import segment
from sbformat.schema import iter_problems
from tests.helpers.many_cases import check_each
from tests.helpers.pth_checks import decode

EIGHT = np.arange(8, dtype="<f4").tobytes()
OTHER = np.arange(10, 18, dtype="<f4").tobytes()
BYTES = {"0": EIGHT, "1": OTHER}

POLICY = ordered({"net.weight": floats((2, 4)), "net.bias": floats((8,), "1")}, {"": {"version": 1}})
OPTIMIZER = {
    "state": {0: {"step": tensor(storage(8), ()), "exp_avg": floats((8,), "1")}, 1: {"step": 3}},
    "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1], "foreach": None}],
}


# -- a mapping ----------------------------------------------------------------------------------------


def test_it_is_a_mapping_of_arrays() -> None:
    state_dict = decode(POLICY, BYTES)
    assert isinstance(state_dict, Mapping)
    assert list(state_dict) == ["net.weight", "net.bias"]
    assert len(state_dict) == 2
    assert state_dict["net.weight"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert dict(state_dict.items()).keys() == {"net.weight", "net.bias"}
    assert state_dict.metadata == {"": {"version": 1}}
    assert decode({}).metadata is None
    assert state_dict.entry is None


def test_what_is_below_a_key_is_made_too() -> None:
    state_dict = decode(OPTIMIZER, BYTES)
    assert state_dict["state"][0]["exp_avg"].tobytes() == OTHER
    assert state_dict["param_groups"][0]["betas"] == (0.9, 0.999)
    assert type(state_dict["param_groups"][0]["betas"]) is tuple


def test_to_numpy_gives_the_containers_that_torch_gives() -> None:
    made = decode(POLICY, BYTES).to_numpy()
    assert type(made) is OrderedDict
    assert getattr(made, "_metadata") == {"": {"version": 1}}  # noqa: B009 -- no type of the standard library has it
    nested = decode({"a": POLICY, "b": [POLICY]}, BYTES).to_numpy()
    assert nested["a"] is nested["b"][0]
    assert nested["a"]._metadata == {"": {"version": 1}}


@check_each("tree", [[1, 2], 5, None, "text", (1,), Apply(SIZE, ((2,),))])
def test_what_is_no_dict_is_an_empty_mapping_with_a_tree(tree: object) -> None:
    state_dict = decode(tree)
    assert (len(state_dict), list(state_dict)) == (0, [])
    assert state_dict.to_numpy() == state_dict.tree


def test_a_missing_key_suggests_the_nearest() -> None:
    state_dict = decode(POLICY, BYTES)
    with pytest.raises(MissingEntryError, match=r"did you mean 'net\.weight'") as raised:
        state_dict["net.wieght"]
    assert isinstance(raised.value, KeyError)
    assert state_dict.get("absent") is None
    with pytest.raises(MissingEntryError, match="there is"):
        decode({0: 1})["zero"]


def test_to_ask_whether_a_key_is_there_makes_no_array() -> None:
    data = bytearray(torch_zip({"w": floats((8,))}, {"0": EIGHT}))
    data[data.index(EIGHT)] ^= 1
    state_dict = pth.loads(bytes(data))
    assert "w" in state_dict
    assert "v" not in state_dict
    with pytest.raises(SbformatError):
        state_dict["w"]


def test_its_repr_is_short_and_says_nothing_of_the_file() -> None:
    shown = repr(decode({"\x1b[31m" + str(n): n for n in range(1000)}))
    assert len(shown) < 80
    assert shown.isprintable()


def test_it_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(decode({}))


def test_a_missing_entry_error_can_be_copied() -> None:
    with pytest.raises(MissingEntryError) as raised:
        decode(POLICY, BYTES).info("absent")
    assert str(copy.copy(raised.value)) == str(raised.value)


# -- addresses ----------------------------------------------------------------------------------------


@check_each(
    ("key", "part"),
    [
        ("mlp_extractor.policy_net.0.weight", "mlp_extractor.policy_net.0.weight"),
        ("a/b", "a~1b"),
        ("a~b", "a~0b"),
        ("~1", "~01"),
        ("/", "~1"),
        ("~/", "~0~1"),
        ("[0]", "~20]"),
        ("a[0]", "a[0]"),
        ("[", "~2"),
        ("[/~]", "~2~1~0]"),
        (0, "[0]"),
        (-1, "[-1]"),
        (2**40, "[1099511627776]"),
        (None, "[None]"),
        (True, "[True]"),
        (1.5, "[1.5]"),
        (b"a/b", "[b'a~1b']"),
        ((1, "x~"), "[(1, 'x~0')]"),
    ],
)
def test_each_key_has_its_segment(key: object, part: str) -> None:
    assert segment(key) == part
    state_dict = decode({key: floats((8,))}, BYTES)
    assert list(state_dict.tensors()) == [part]
    assert state_dict.array(part).tobytes() == EIGHT


def test_segments_of_different_keys_differ() -> None:
    keys: list[Any] = [
        0,
        "0",
        "[0]",
        "~2",
        "~0",
        "~",
        "~1",
        "/",
        "a/b",
        "a~1b",
        b"0",
        (0,),
        "(0,)",
        "[(0,)]",
        None,
        "None",
    ]
    keys += ["[None]", 1.5, "1.5", "[1.5]", "[", "]", "[]", (), "()", "[()]", -1, "-1", "", "~3", "[''", "['']"]
    assert len({segment(key) for key in keys}) == len(keys)
    assert len(decode(dict.fromkeys(keys, floats((8,))), BYTES).tensors()) == len(keys)


def test_paths_of_different_places_differ() -> None:
    weight = floats((8,))
    tree = {
        "": {"a": weight, "": {"a": weight}},
        "a": weight,
        "/a": weight,
        "b": {"": weight},
        "b/": weight,
        "[0]": [weight],
    }
    places = 7
    assert len(decode(tree, BYTES).tensors()) == places


def test_the_paths_of_an_optimizer() -> None:
    state_dict = decode(OPTIMIZER, BYTES)
    assert list(state_dict.tensors()) == ["state/[0]/step", "state/[0]/exp_avg"]
    assert [leaf.path for leaf in state_dict.leaves()] == [
        "state/[0]/step",
        "state/[0]/exp_avg",
        "state/[1]/step",
        "param_groups/[0]/lr",
        "param_groups/[0]/betas/[0]",
        "param_groups/[0]/betas/[1]",
        "param_groups/[0]/params/[0]",
        "param_groups/[0]/params/[1]",
        "param_groups/[0]/foreach",
    ]
    info = state_dict.info("state/[0]/exp_avg")
    assert isinstance(info, TensorInfo)
    assert (info.shape, info.dtype, info.numel, info.nbytes, info.location) == ((8,), "float32", 8, 32, "cpu")
    assert info.storage.key == "1"


def test_a_lone_tensor_has_the_empty_path() -> None:
    state_dict = decode(floats((8,)), BYTES)
    assert list(state_dict.tensors()) == [""]
    assert state_dict.array("").tobytes() == EIGHT


def test_empty_containers_are_leaves() -> None:
    leaves = list(decode({"a": {}, "b": [], "c": ((),), "d": ordered()}).leaves())
    assert [(leaf.path, leaf.value) for leaf in leaves] == [("a", {}), ("b", []), ("c/[0]", ()), ("d", OrderedDict())]


def test_leaves_that_hold_values_stay_whole() -> None:
    tree = {"s": {1, 2}, "z": Apply(SIZE, ((1, 2),)), "d": Apply(DEVICE, ("cpu",)), "n": None}
    assert [leaf.path for leaf in decode(tree).leaves()] == ["s", "z", "d", "n"]


def test_shared_parts_come_once_a_path() -> None:
    part = {"w": floats((8,))}
    assert list(decode({"a": part, "b": part}, BYTES).tensors()) == ["a/w", "b/w"]


def test_storages_come_once_each() -> None:
    part = {"w": floats((8,)), "v": tensor(storage(8), (2,)), "u": floats((8,), "1"), "s": storage(8, "1")}
    assert [found.key for found in decode({"a": part, "b": part}, BYTES).storages()] == ["0", "1"]


def test_info_of_a_missing_tensor_suggests_the_nearest() -> None:
    state_dict = decode(OPTIMIZER, BYTES)
    for path, near in (("state/0/exp_avg", r"state/\[0\]/exp_avg"), ("state/[0]/exp_avg_sq", r"state/\[0\]/exp_avg")):
        with pytest.raises(MissingEntryError, match=f"there is no tensor '.*'; did you mean '{near}'"):
            state_dict.info(path)
    with pytest.raises(MissingEntryError):
        state_dict.array("param_groups/[0]/lr")


def test_the_tensors_of_other_kinds_have_addresses_too() -> None:
    indices = tensor(storage(2, "i", "LongStorage"), (1, 2))
    layout = Apply(GET_LAYOUT, ("torch.sparse_coo",))
    scheme = (Name("torch", "per_tensor_affine"), 0.5, 0)
    tree = {
        "sparse": Apply(REBUILD_SPARSE, (layout, (indices, tensor(storage(8), (2,)), (4,)))),
        "quantized": Apply(REBUILD_Q, (storage(4, "q", "QInt8Storage"), 0, (4,), (1,), scheme, False, ordered())),
        "meta": Apply(REBUILD_META, (Name("torch", "int8"), (2,), (1,), False)),
    }
    state_dict = decode(tree, {**BYTES, "i": bytes(16), "q": b"\1\2\3\4"})
    assert list(state_dict.tensors()) == ["sparse", "quantized", "meta"]
    assert [found.key for found in state_dict.storages()] == ["i", "0", "q"]
    assert state_dict.array("quantized").dequantize().tolist() == [0.5, 1.0, 1.5, 2.0]  # type: ignore[attr-defined]


def test_the_leaves_of_a_tree_that_shares_its_parts_are_limited() -> None:
    doubling: Any = [floats((8,))]
    for _ in range(30):
        doubling = (doubling, doubling)
    state_dict = decode({"d": doubling}, BYTES, limits=Limits(leaves=10_000))
    for ask in (state_dict.tensors, lambda: list(state_dict.leaves()), lambda: state_dict.info("d")):
        with pytest.raises(LimitError):
            ask()
    made = state_dict.to_numpy()["d"]
    for _ in range(30):
        assert made[0] is made[1]
        made = made[0]
    assert made[0].tobytes() == EIGHT
    assert len(repr(state_dict)) < 300
    assert [found.key for found in state_dict.storages()] == ["0"]
    assert state_dict == decode({"d": doubling}, BYTES)


def test_the_limit_on_leaves_has_two_sides() -> None:
    state_dict = decode({"a": [1, 2]}, limits=Limits()._replace(leaves=4))
    assert len(list(state_dict.leaves())) == 2
    with pytest.raises(LimitError, match="leaves"):
        list(decode({"a": [1, 2]}, limits=Limits()._replace(leaves=3)).leaves())


# -- equality -----------------------------------------------------------------------------------------


def pair(first: object, second: object, **options: Any) -> tuple[StateDict, StateDict]:
    return decode(first, BYTES, **options), decode(second, BYTES, **options)


NAN = struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0]


@check_each(
    "tree",
    [
        POLICY,
        OPTIMIZER,
        {"a": float("nan"), "b": [NAN, -0.0, complex], "c": {1, 2}} | {"b": 1},
        [floats((8,)), None, True, 1, 1.0, "x", b"x", bytearray(b"x"), frozenset({"a"})],
        Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered())),
        Apply(
            REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), {"a": floats((8,), "1"), "b": [1, {"c": 2}]})
        ),
        storage(8),
        Apply(SIZE, ((1, 2),)),
        {"s": {1.0, -0.0, ("a", 0.5)}, "f": frozenset({0.5}), 0.5: 1, (0.5, 2): 3},
    ],
)
def test_what_holds_the_same_is_equal(tree: object) -> None:
    first, second = pair(tree, tree)
    assert first == second
    assert first == first  # noqa: PLR0124
    assert first != decode([tree], BYTES)
    assert first != tree
    assert (first == object()) is False


DIFFERENT: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"a": True}),
    ({"a": 1}, {"a": 1.0}),
    ({"a": 0.0}, {"a": -0.0}),
    ({"a": float("nan")}, {"a": NAN}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, {"b": 1}),
    ({0: 1}, {False: 1}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1}, ordered({"a": 1})),
    (ordered({"a": 1}), ordered({"a": 1}, {"": 1})),
    (ordered({"a": 1}, {"": 2}), ordered({"a": 1}, {"": 1})),
    ([1, 2], (1, 2)),
    ([1, 2], [1, 2, 3]),
    ({"s": {1}}, {"s": {2}}),
    (["a"], [b"a"]),
    ([b"a"], [bytearray(b"a")]),
    (floats((8,)), floats((2, 4))),
    (floats((8,)), floats((8,), "1")),
    (floats((8,)), tensor(storage(8, "0", "IntStorage"), (8,))),
    (floats((8,)), tensor(storage(8), (8,), None, 0, True)),
    (floats((8,)), Apply(REBUILD_PARAMETER, (floats((8,)), False, ordered()))),
    (floats((8,)), storage(8)),
    (floats((8,)), [floats((8,))]),
    (floats((8,)), tensor(storage(8), (8,), None, 0, False, {"neg": True})),
    (storage(8), storage(8, "1")),
    (storage(8), storage(8, "0", "IntStorage")),
    (Apply(SIZE, ((1, 2),)), (1, 2)),
    (Apply(DEVICE, ("cpu",)), Apply(DEVICE, ("cuda",))),
]


@check_each(("left", "right"), DIFFERENT)
def test_what_holds_something_else_differs(left: object, right: object) -> None:
    first, second = pair(left, right)
    assert first != second
    assert second != first
    assert decode([1, {"x": left}], BYTES) != decode([1, {"x": right}], BYTES)


def test_where_the_bytes_lie_does_not_count() -> None:
    whole = decode(tensor(storage(8), (2, 2), None, 4), {"0": EIGHT})
    raw = np.arange(4, 8, dtype="<f4")
    assert whole == decode(floats((2, 2)), {"0": raw.tobytes()})
    assert whole == decode(
        tensor(storage(4, "7", "FloatStorage", "cuda:0"), (2, 2), (1, 2)), {"7": raw.reshape(2, 2).T.tobytes()}
    )
    assert whole == pth.loads(torch_zip(floats((2, 2)), {"0": raw.byteswap().tobytes()}, byte_order=b"big"))
    assert whole == pth.loads(
        legacy_stream(tensor(storage(4, "0", "FloatStorage", "cpu", None), (2, 2)), [Run("0", 4, raw.tobytes())])
    )
    negative = tensor(storage(4), (2, 2), None, 0, False, {"neg": True})
    assert whole == decode(negative, {"0": (-raw).tobytes()})


def test_untyped_and_typed_storages_give_equal_tensors() -> None:
    typed = decode(floats((8,)), BYTES)
    call = Apply(REBUILD_V3, (storage(32, "0", UNTYPED), 0, (8,), (1,), False, ordered(), Name("torch", "float32")))
    assert typed == decode(call, BYTES)


def test_equality_compares_what_is_kept_inert() -> None:
    def call(number: object, *more: object) -> Apply:
        return Apply(EXIT, (number,), Change("SETITEMS", ["k", number]), Change("BUILD", [number, *more]))

    for left, right, same in (
        (call(1), call(1), True),
        (call(1), call(2), False),
        (call(1), call(1, 1), False),
        (call(1), EXIT, False),
        (EXIT, EXIT, True),
        (EXIT, Name("posix", "exit"), False),
    ):
        first, second = pair({"x": left}, {"x": right}, on_unknown="inert")
        assert (first == second) is same


@check_each("count", [1, 2, 3, 5, 10, 20])
def test_one_attribute_among_many_parameters_makes_a_difference(count: int) -> None:
    def tree(numbers: list[int]) -> list[Apply]:
        return [
            Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), {"n": number})) for number in numbers
        ]

    numbers = list(range(count))
    for at in range(count):
        changed = [*numbers[:at], -1, *numbers[at + 1 :]]
        first, second = pair(tree(numbers), tree(changed))
        assert first != second


@check_each("count", [1, 2, 3, 5, 10, 20])
def test_one_item_among_many_inert_calls_makes_a_difference(count: int) -> None:
    def tree(numbers: list[int]) -> list[Apply]:
        return [Apply(EXIT, (), Change("SETITEMS", ["n", number, "m", [number]])) for number in numbers]

    numbers = list(range(count))
    for at in range(count):
        changed = [*numbers[:at], -1, *numbers[at + 1 :]]
        first, second = pair(tree(numbers), tree(changed), on_unknown="inert")
        assert first != second


@pytest.mark.parametrize(
    "state",
    [
        Raw(b"]q\xf0h\xf0a"),
        Raw(b")" + b"\x85" * 5000),
        Raw(b")" + b"2\x86" * 40),
        Raw(b"}q\xf0K\x00h\xf0s"),
        Raw(b"cos\nsystem\n)R"),
        Raw(b"(" + b")" + b"\x85" * 5000 + b"\x91"),
        Raw(b"(" + b")\x85" + b"2\x86" * 40 + b"\x91"),
        Raw(b"\x8f(" + b")" + b"\x85" * 5000 + b"\x90"),
    ],
    ids=[
        "holds itself", "deep", "doubling", "dict that holds itself", "a call", "deep in a frozenset",
        "doubling in a frozenset", "deep in a set",
    ],
)  # fmt: skip
def test_the_attributes_of_a_tensor_may_be_anything(state: Raw, request: pytest.FixtureRequest) -> None:
    data = torch_zip(Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), {"x": state})), BYTES)
    if request.node.callspec.id in ("holds itself", "deep", "dict that holds itself"):
        with pytest.raises(SbformatError, match=r"contains itself|value_depth"):
            pth.loads(data)
        return
    first = pth.loads(data)
    assert first == pth.loads(data)
    assert first.to_numpy().tobytes() == EIGHT
    inert = torch_zip(Apply(EXIT, (state,)))
    assert pth.loads(inert, on_unknown="inert") == pth.loads(inert, on_unknown="inert")


def test_changes_are_compared_one_by_one() -> None:
    first = Apply(EXIT, (), Change("SETITEMS", ["a", 1]), Change("APPENDS", ["x", "y"]))
    second = Apply(EXIT, (), Change("SETITEMS", ["a", 1, "x", "y"]), Change("APPENDS", []))
    assert decode(first, on_unknown="inert") != decode(second, on_unknown="inert")


def test_a_tree_that_shares_equals_one_that_does_not() -> None:
    part = [1, floats((8,))]
    assert decode([part, part], BYTES) == decode([[1, floats((8,))], [1, floats((8,))]], BYTES)
    assert decode([part, part], BYTES) != decode([[1, floats((8,))], [1, floats((8,), "1")]], BYTES)


def test_a_damaged_record_cannot_be_compared() -> None:
    data = bytearray(torch_zip({"w": floats((8,))}, {"0": EIGHT}))
    data[data.index(EIGHT)] ^= 1
    with pytest.raises(SbformatError):
        assert pth.loads(bytes(data)) == decode({"w": floats((8,))}, BYTES)


def test_the_name_of_the_entry_stands_in_its_errors() -> None:
    data = bytearray(torch_zip({"w": floats((8,))}, {"0": EIGHT}))
    data[data.index(EIGHT)] ^= 1
    state_dict = pth.loads(bytes(data))
    state_dict.entry = "policy.pth"
    for ask in (state_dict.to_numpy, lambda: state_dict["w"], lambda: state_dict.array("w"), state_dict.check):
        with pytest.raises(SbformatError, match=r"^policy\.pth/archive/data/0: "):
            ask()


BOOLS: Final = {
    "a run": tensor(storage(6, "0", "BoolStorage"), (2, 3)),
    "turned": tensor(storage(6, "0", "BoolStorage"), (3, 2), (1, 3)),
    "a storage": storage(6, "0", "BoolStorage"),
}


@pytest.mark.parametrize("name", BOOLS)
def test_checking_looks_at_bools(name: str) -> None:
    def file(items: bytes) -> bytes:
        return torch_zip({"w": BOOLS[name]}, {"0": items})

    pth.loads(file(b"\0\1\0\1\1\0")).check()
    with pytest.raises(TensorError, match="0 and 1"):
        pth.loads(file(b"\0\1\0\1\2\0")).check()
    archive = sbformat.reads(build_zips.sb3_archive(entries={"policy.pth": file(b"\0\1\0\1\2\0")}))
    assert [problem.entry for problem in iter_problems(archive) if problem.kind == "unreadable"] == ["policy.pth"]
