"""``StateDict.from_arrays``: whatever numpy arrays look like in memory, the file holds their items and no others."""

from __future__ import annotations

import enum
import io
from collections import OrderedDict, UserDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.generators.build_zips import is_terminal_safe
from sbformat import UnsupportedError, pth
from sbformat.pth import Device, DTypeName, Layout, MemoryFormat, QuantizedTensor, Size, SparseTensor, StateDict
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

CODES: Final = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
ML_DTYPES: Final = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]


def again(value: Any) -> StateDict:
    """Encode and decode; the second time the bytes are the same."""
    raw = pth.dumps(StateDict.from_arrays(value))
    found = pth.loads(raw)
    assert pth.dumps(found) == raw
    return found


def assert_kept(value: Any) -> Any:
    """Assert that arrays come back, before and after encoding: with their dtype in native order, shape and items."""
    found = again(value).to_numpy()
    for made in (found, StateDict.from_arrays(value).to_numpy()):
        assert list(made) == list(value)
        for key, array in value.items():
            array = np.asarray(array)  # noqa: PLW2901 -- what has __array__ counts as one
            assert made[key].shape == array.shape
            native = array.dtype if array.dtype.itemsize == 1 else array.dtype.newbyteorder("=")
            assert made[key].dtype == native
            assert made[key].tobytes() == array.astype(native).tobytes()
    return found


def bytes_of(value: Any) -> int:
    """Bytes of all storages."""
    return sum(storage.nbytes for storage in again(value).storages())


def refused(value: Any, *words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        pth.dumps(StateDict.from_arrays(value))
    assert all(word in str(caught.value) for word in words), caught.value
    assert is_terminal_safe(str(caught.value))


def numbers(code: str, *shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    return (np.arange(size) % 2 == 1 if code == "?" else np.arange(size)).astype(code).reshape(shape)


# -- dtypes and memory --------------------------------------------------------------------------------


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """One array of shape (4, 6) as numpy may hold it."""
    misaligned = np.frombuffer(b"x" + array.tobytes(), array.dtype, offset=1).reshape(4, 6)
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "plain": array,
        "fortran": np.asfortranarray(array),
        "transposed": array.T,
        "backwards": array[::-1],
        "both backwards": array[::-1, ::-2],
        "columns": array[:, 1:3],
        "every other": array[:, ::2],
        "swapped": array.reshape(2, 2, 6).swapaxes(0, 2),
        "one row": array[1],
        "one item": array[1:2, 2:3],
        "zero-dimensional": array[1, 2, ...],
        "broadcast": np.broadcast_to(array[:, :1], (4, 6)),
        "broadcast in front": np.broadcast_to(array, (3, 4, 6)),
        "empty": array[:0],
        "empty within": array[:, :0].reshape(4, 0, 1),
        "windows": np.ndarray((20, 5), array.dtype, array, strides=2 * array.strides[1:]),
        "misaligned": misaligned,
        "misaligned columns": misaligned[:, ::2],
        "frozen": frozen,
    }


@pytest.mark.each_value
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_dtype_in_every_layout_and_byte_order(code: str, order: str) -> None:
    """Items, shape and dtype come back, all arrays together and each alone."""
    array = numbers(code, 4, 6).astype(np.dtype(code).newbyteorder(order))
    assert_kept(layouts(array))
    for name, one in layouts(array).items():
        assert_kept({name: one})


@check_each("name", ML_DTYPES)
def test_every_dtype_of_ml_dtypes_in_every_layout(name: str) -> None:
    array = (np.arange(24) % 7 + 1).astype(getattr(pytest.importorskip("ml_dtypes"), name)).reshape(4, 6)
    assert_kept(layouts(array))
    for key, one in layouts(array).items():
        assert_kept({key: one})
    assert again({"w": array}).info("w").dtype == name


def test_structured_views_give_the_items_of_a_field() -> None:
    """The strides of a field are no multiple of its items."""
    records = np.zeros(5, [("a", "u1"), ("b", "<f4"), ("c", ">i8")])
    records["b"], records["c"] = np.arange(5), -np.arange(5)
    assert_kept({"b": records["b"], "c": records["c"], "a": records["a"]})


def test_a_nan_keeps_its_bits() -> None:
    assert_kept({"w": np.array([0x7FC00001, 0xFFFFFFFF, 0x80000000], "u4").view("f4")})


def test_an_array_larger_than_a_chunk_comes_whole() -> None:
    large = np.arange(700_000, dtype="f4")
    assert_kept({"dense": large, "scattered": large[::-2], "swapped": large.astype(">f4"), "columns": np.ones((5, 3))})


def test_strides_of_overlapping_views_are_kept() -> None:
    base = np.arange(12, dtype="f4").reshape(3, 4)
    found = again({"w": base, "t": base.T, "row": np.broadcast_to(base[0], (5, 4))})
    assert found.info("t").strides == (1, 4)
    assert found.info("row").strides == (0, 1)
    assert again({"w": base[:, ::2]}).info("w").strides == (2, 1)


# -- sharing ------------------------------------------------------------------------------------------


def test_arrays_that_share_memory_share_it_again() -> None:
    base = np.arange(24, dtype="f4")
    value = {
        "all": base,
        "same": base,
        "view": base[:],
        "square": base.reshape(4, 6),
        "part": base[5:9],
        "columns": base.reshape(4, 6)[:, 1:3],
        "apart": base.copy(),
    }
    found = assert_kept(value)
    for key, array in found.items():
        assert np.shares_memory(array, found["all"]) == (key != "apart")
    assert bytes_of(value) == 2 * base.nbytes


def test_neighbours_in_memory_do_not_share() -> None:
    base = np.arange(10, dtype="f4")
    assert len(again({"a": base[:5], "b": base[5:]}).storages()) == 2


def test_parts_that_overlap_share_what_they_cover_together() -> None:
    base = np.arange(100, dtype="f8")
    value = {"a": base[10:30], "b": base[20:50], "c": base[45:60], "d": base[70:80]}
    found = assert_kept(value)
    assert np.shares_memory(found["a"], found["b"])
    assert [storage.nbytes // 8 for storage in again(value).storages()] == [50, 10]


def test_the_same_gaps_twice_are_one_storage() -> None:
    base = np.arange(100, dtype="f8")
    every = base[::3]
    found = assert_kept({"a": every, "b": every, "c": base[::3]})
    assert np.shares_memory(found["a"], found["b"])
    assert np.shares_memory(found["a"], found["c"])
    assert bytes_of({"a": every, "b": every, "c": base[::3]}) == every.nbytes


def test_views_of_one_buffer_with_two_dtypes_come_back() -> None:
    base = np.arange(8, dtype="f4")
    assert_kept({"floats": base, "bits": base.view("u4"), "bytes": base.view("u1"), "swapped": base.view(">f4")})
    raw = np.frombuffer(bytes(range(32)), "u1")
    assert_kept({"aligned": raw[:16].view("i4"), "shifted": raw[2:18].view("i4"), "far": raw[16:].view("i4")})


SECRET: Final = 0x5EC2E75EC2E75EC2


@check_each(
    "views",
    [
        lambda base: [base[::2]],
        lambda base: [base[298::-2]],
        lambda base: [base.reshape(10, 30)[:, ::2]],
        lambda base: [base[::2], base[::4], base[::6]],
        lambda base: [base[:100:2], base[:100:2].reshape(5, 10), base[98:300:2]],
        lambda base: [np.lib.stride_tricks.sliding_window_view(base[::2], 9)],
        lambda base: [base[::2], np.lib.stride_tricks.sliding_window_view(base[::2], 4)],
        lambda base: [np.broadcast_to(base[::2], (9, 150)), base[::2]],
        lambda base: [base[4::4], base[2::2], base[:0]],
    ],
)
def test_no_byte_that_belongs_to_no_array_is_saved(views: Any) -> None:
    """Whatever of a buffer lies between the items of views stays where it is: it may be anything."""
    base = np.arange(300, dtype="i8")
    base[1::2] = SECRET
    value = {str(at): view for at, view in enumerate(views(base))}
    assert_kept(value)
    assert SECRET.to_bytes(8, "little") not in pth.dumps(StateDict.from_arrays(value))


@st.composite
def views(draw: Any) -> dict[str, np.ndarray]:
    """Random views of one buffer."""
    base = draw(st.sampled_from([np.arange(60, dtype="f4"), np.arange(60, dtype=">i2"), np.arange(60, dtype="u2")]))
    made = {}
    for at in range(draw(st.integers(1, 5))):
        view = base[draw(st.integers(0, 30)) : draw(st.integers(30, 60)) : draw(st.sampled_from([1, 1, 2, 3]))]
        if draw(st.booleans()):
            view = view[::-1]
        shape = [(size, view.size // size) for size in (2, 3, 5) if view.size % size == 0 and view.size]
        if shape and draw(st.booleans()):
            view = view.reshape(draw(st.sampled_from(shape)))
            if draw(st.booleans()):
                view = view.T
            if draw(st.booleans()):
                view = view[:, :: draw(st.sampled_from([1, 2]))]
        if draw(st.integers(0, 4)) == 0:
            view = np.broadcast_to(view, (2, *view.shape))
        made[str(at)] = view
    return made


@more_examples(150)
@given(views())
def test_any_views_come_back_and_none_takes_more_room_than_they_do(value: dict[str, np.ndarray]) -> None:
    """Items are kept; the storages hold exactly the items that some view has, or fewer bytes than the views."""
    assert_kept(value)
    assert bytes_of(value) <= sum(array.nbytes for array in value.values())
    base = next(iter(value.values()))
    while isinstance(base.base, np.ndarray):
        base = base.base
    seen = {item for array in value.values() for item in array.ravel().tolist()}
    stored = StateDict.from_arrays(value)
    for storage in stored.storages():
        items = np.frombuffer(
            storage.bytes(), base.dtype if storage.byte_order == "big" else base.dtype.newbyteorder("<")
        )
        assert set(items.tolist()) <= seen


# -- what counts as an array, and what as a number ----------------------------------------------------


class Tensorish:
    """Like a tensor of some library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


def test_what_has_array_counts_as_one_and_is_asked_once() -> None:
    box = Tensorish(np.arange(3.0))
    found = assert_kept({"a": box, "b": box})
    assert np.shares_memory(found["a"], found["b"])


def test_subclasses_of_arrays_are_arrays() -> None:
    assert_kept({"matrix": np.zeros((2, 3)).view(np.matrix), "recarray": np.arange(3.0).view(np.recarray)})
    assert_kept({"nothing masked": np.ma.array([1.0, 2.0]), "mask of nothing": np.ma.array([1.0], mask=[False])})


def test_a_masked_array_is_refused() -> None:
    """Its file would show what the mask hides."""
    refused({"w": {"m": np.ma.array([1.0, 2.0], mask=[False, True])}}, "'w/m'", "masked")


@check_each(
    ("given", "plain"),
    [
        (np.float64(1.5), 1.5), (np.float32(1.5), 1.5), (np.float16(1.5), 1.5), (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1), (np.bool_(1), True), (np.complex64(1 + 2j), 1 + 2j), (np.str_("a"), "a"),
        (np.bytes_(b"a"), b"a"), (np.longlong(5), 5),
    ],
)  # fmt: skip
def test_a_numpy_scalar_is_the_number_it_is(given: Any, plain: Any) -> None:
    found = again([given]).to_numpy()
    assert (type(found[0]), found[0]) == (type(plain), plain)


def test_a_scalar_of_ml_dtypes_is_the_number_it_is() -> None:
    found = again([pytest.importorskip("ml_dtypes").bfloat16(1.5)]).to_numpy()
    assert (type(found[0]), found[0]) == (float, 1.5)


class Flag(int, enum.Enum):
    ON = 1


class Text(str):
    __slots__ = ()


def test_subclasses_become_the_plain_value() -> None:
    found = again({Text("k"): [Flag.ON, Text("t"), OrderedDict(a=1), UserDict(b=2)], np.int64(3): None}).to_numpy()
    assert found == {"k": [1, "t", {"a": 1}, {"b": 2}], 3: None}
    assert list(map(type, found["k"])) == [int, str, OrderedDict, dict]
    assert list(map(type, found)) == [str, int]


DATES: Final = np.array(["2020-01-01"], "M8[D]")


@check_each(
    "value",
    [
        np.array([None, 1], object), np.array(["a"]), np.array([b"a"]), DATES, DATES - DATES, DATES[0],
        DATES[0] - DATES[0], DATES.astype("M8[ns]")[0], np.zeros(2, [("a", "f4")]), np.zeros(2, [("a", "f4")])[0],
        np.void(b"abcd"), np.zeros(2, "V4"), np.longdouble(1), np.zeros(2, np.longdouble),
        np.zeros(1, np.clongdouble), object(), range(3), memoryview(b"abc"), np.float32, np.dtype("f4"), open, ...,
        StateDict, [Ellipsis], {"x": object()}, {1, object()}, {(1, (2, 3))}, {1j}, {frozenset()}, {1j: 1},
        {(1,) * 9: 1}, {DATES[0]: 1},
    ],
)  # fmt: skip
def test_what_a_pth_cannot_hold_is_refused_by_its_path(value: Any) -> None:
    refused({"state": [{"a/b": value}]}, "state/[0]/a~1b")


@check_each("name", ["int4", "uint4", "float8_e4m3", "float8_e3m4", "float4_e2m1fn", "float8_e4m3b11fnuz"])
def test_dtypes_of_ml_dtypes_that_torch_lacks_are_refused(name: str) -> None:
    refused({"w": np.ones(2, getattr(pytest.importorskip("ml_dtypes"), name))}, "'w'", name)


def test_control_characters_in_a_path_are_escaped() -> None:
    refused({"\x1b[31m\u202e": object()}, "\\x1b")


# -- containers ---------------------------------------------------------------------------------------

PLAIN: Final = [
    None, True, 0, -1, 2**70, 1.5, float("inf"), "", "text", b"", b"bytes", bytearray(b"abc"), 1 - 2j, set(), {1, "a"},
    frozenset({None, 1.5}), [], (), {}, [(), [{}]], {"a": {1: (2, [3])}}, {True: 1}, {-5: 1, None: 2, (1, "a"): 4},
    Size((2, 3)), Device("cuda", 1), Device("cpu"), DTypeName("float32"), Layout("sparse_coo"), Layout("strided"),
    MemoryFormat("channels_last"),
]  # fmt: skip


@check_each("value", PLAIN)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    found = again({"v": value, "in list": [value]})
    assert repr(found.to_numpy()) == repr({"v": value, "in list": [value]})
    assert found == StateDict.from_arrays({"v": value, "in list": [value]})


@check_each("value", PLAIN)
def test_anything_may_be_the_whole(value: Any) -> None:
    assert repr(again(value).to_numpy()) == repr(value)


def test_an_array_alone_may_be_the_whole() -> None:
    assert again(np.arange(3.0)).to_numpy().tolist() == [0, 1, 2]
    assert again([np.arange(3.0)]).to_numpy()[0].tolist() == [0, 1, 2]


def test_an_ordered_dict_keeps_its_metadata_and_arrays_within_that() -> None:
    made: Any = OrderedDict([("b", np.ones(2)), ("a", np.zeros(2))])
    made._metadata = OrderedDict([("", {"version": 1, "w": np.arange(2.0)})])
    found = again(made)
    assert list(found) == ["b", "a"]
    assert found.metadata[""]["version"] == 1
    assert found.to_numpy()._metadata.keys() == {""}
    made._metadata = {"x": object()}
    refused(made, "_metadata/x")


def test_an_optimizer_with_whole_numbers_as_keys() -> None:
    state = {at: {"step": np.array(float(at), "f4"), "exp_avg": np.full((2, at), at)} for at in range(3)}
    value = {"state": state, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1, 2]}]}
    found = again(value)
    assert found.info("state/[2]/exp_avg").shape == (2, 2)
    made = found.to_numpy()
    assert made["param_groups"] == value["param_groups"]
    assert list(made["state"]) == [0, 1, 2]


def test_shared_containers_stay_shared_and_cost_nothing_twice() -> None:
    inner: Any = {"w": np.ones(2)}
    found = again([inner, inner]).to_numpy()
    assert found[0] is found[1]
    value: Any = [np.ones(1)]
    for _ in range(60):  # 2^60 paths
        value = [value, value]
    tree = StateDict.from_arrays(value).tree
    assert tree[0] is tree[1]


def test_what_holds_itself_is_refused() -> None:
    for value in (list, dict, OrderedDict):
        made: Any = value()
        made.append(made) if isinstance(made, list) else made.update(k=made)
        refused({"a": made}, "contains itself", "a/")
    inner: list[Any] = []
    inner.append((inner,))
    refused(inner, "contains itself")


@pytest.mark.parametrize("kind", ["dict", "list", "tuple"])
def test_depth_is_that_of_the_reader(kind: str) -> None:
    """What is made can be read: 200 levels, and as many where a shared part stands at its deepest."""
    nest: Any = {"dict": lambda value: {"k": value}, "list": lambda value: [value], "tuple": lambda value: (value,)}[
        kind
    ]

    def deep(levels: int) -> Any:
        value: Any = 1.5
        for _ in range(levels):
            value = nest(value)
        return value

    assert again(deep(200)).to_numpy() == deep(200)
    refused(deep(201), "deep")
    shared = deep(150)
    assert again([shared, shared]).to_numpy() == [shared, shared]
    outer = shared
    for _ in range(51):
        outer = nest(outer)
    refused([shared, outer], "deep")
    refused([outer, shared], "deep")


class Fresh(Mapping[str, Any]):
    """A mapping that makes its values anew each time it is asked, as an ``NpzFile`` does."""

    def __getitem__(self, key: str) -> Any:
        return {"array": np.arange(3.0), "list": [np.ones(2), {"x": 1}]}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["array", "list"])

    def __len__(self) -> int:
        return 2


def test_a_mapping_may_make_its_values_when_it_is_asked() -> None:
    found = again({"fresh": Fresh()}).to_numpy()["fresh"]
    assert found["array"].tolist() == [0, 1, 2]
    assert found["list"][0].tolist() == [1, 1]
    file = io.BytesIO()
    np.savez(file, w=np.arange(3.0), b=np.ones(2))
    file.seek(0)
    with np.load(file) as opened:
        made = StateDict.from_arrays(opened)
    assert again(made).to_numpy()["w"].tolist() == [0, 1, 2]


def test_state_dicts_within_are_taken_as_they_are() -> None:
    inner = again({"w": np.arange(3.0)})
    found = again({"inner": inner, "again": inner, "tree": inner.tree}).to_numpy()
    assert found["inner"] is found["again"]
    assert found["inner"]["w"].tolist() == [0, 1, 2]


def test_quantized_and_sparse_values_of_arrays() -> None:
    integers = np.arange(-3, 3, dtype="i1").reshape(2, 3)
    value = {
        "tensor": QuantizedTensor(integers, "per_tensor_affine", 0.5, 1, None),
        "scalars": QuantizedTensor(integers.T, "per_tensor_affine", np.float64(0.5), np.int64(1), None),
        "channel": QuantizedTensor(integers.view("u1"), "per_channel_affine", np.ones(2), np.zeros(2, "i8"), 0),
        "list": QuantizedTensor(integers.astype(">i4"), "per_channel_affine", (0.5, 1.5), (0, 1), 0),
        "coo": SparseTensor("sparse_coo", Size((3, 3)), (np.array([[0, 1], [1, 2]]),), np.ones(2), True),
        "csr": SparseTensor("sparse_csr", (2, 3), (np.array([0, 1, 2]), np.array([0, 2])), np.ones(2)),  # type: ignore[arg-type]
    }
    found = again(value).to_numpy()
    for key, quantity in value.items():
        for field, part in quantity._asdict().items():
            mine, theirs = getattr(found[key], field), part
            if isinstance(theirs, np.ndarray):
                assert np.array_equal(mine, theirs)
            elif field == "indices":
                assert all(map(np.array_equal, mine, theirs))
            else:
                assert mine == theirs
    assert again(value).info("tensor").int_repr.dtype == "qint8"
    assert again(value).info("list").int_repr.dtype == "qint32"
    refused({"q": value["tensor"]._replace(int_repr=np.ones(2))}, "float64")
    refused({"q": value["tensor"]._replace(int_repr=np.array(["a"]))}, "'q'")
    refused({"s": value["coo"]._replace(values=np.array(["a"]))}, "'s'")
    for part in ({"shape": Size((2, 2))}, {"values": np.ones(3)}, {"indices": (np.zeros((2, 2)),)}):
        with pytest.raises(UnsupportedError, match="sparse tensor"):
            pth.dumps({"s": value["coo"]._replace(**part)})


@more_examples(60)
@given(
    st.recursive(
        st.sampled_from([1, "a", None, 1.5, b"x"]) | st.integers(0, 4).map(lambda size: np.arange(size, dtype="f4")),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3) | st.integers(0, 5) | st.binary(max_size=2), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_anything_of_arrays_comes_back(value: Any) -> None:
    """``loads(dumps(from_arrays(x))).to_numpy()`` is x, and ``from_arrays`` of that is the same again."""
    found = again(value)
    assert found == StateDict.from_arrays(value) == StateDict.from_arrays(found.to_numpy())
    assert repr(found.to_numpy()) == repr(value)
