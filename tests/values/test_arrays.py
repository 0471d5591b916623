"""numpy's arrays, scalars, dtypes and random generators in blobs, and torch's tensors."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from conformance.generators.build_pth import Name, Persist, Run, dumps, legacy_stream
from sbformat.known.types import DType, ObjectArray, RandomState, SeedSequence
from sbformat.limits import Budget
from sbformat.pkl import Call, Dict, Global, Node
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth import Device, DTypeName, Size, TensorInfo
from sbformat.pth.arrays import to_array
from tests.helpers.build_blobs import array, call, change, decode_outcome, dtype, refused, tree, understood
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOLS: Final = (0, 1, 2, 3, 4, 5)

# -- numpy --------------------------------------------------------------------------------------------

FIELDS: Final = np.dtype([("a", "<f4"), ("b", ">i2"), ("c", "?")])
ARRAYS: Final[dict[str, Any]] = {
    "floats": np.arange(6, dtype="f4").reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype="f8").reshape(2, 3)),
    "big-endian": np.arange(4, dtype=">i4"),
    "strided": np.arange(24).reshape(4, 6)[::2, ::3],
    "no axes": np.array(1.5),
    "empty": np.zeros((0, 3), "i1"),
    "complex": np.array([1 + 2j], "c8"),
    "text": np.array(["a", "bc\0d", "\U0001f600"]),
    "bytes": np.array([b"a", b"bcd"]),
    "raw": np.zeros(2, "V3"),
    "structured": np.array([(1.5, 2, True), (0, -1, False)], FIELDS),
    "aligned": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "transposed": np.arange(24, dtype="i2").reshape(2, 3, 4).transpose(1, 2, 0),
    "a number": np.float32(2.5),
    "a bool": np.True_,
    "a text": np.str_("ab"),
    "a structure": np.array([(1.5, 2, True)], FIELDS)[0],
}  # fmt: skip


@check_each("protocol", PROTOCOLS)
@check_each("what", ARRAYS)
def test_arrays_and_scalars_are_numpys(what: str, protocol: int) -> None:
    value = ARRAYS[what]
    found = understood(pickle.dumps(value, protocol))
    assert isinstance(found, ArrayInfo)
    made: Any = found.to_numpy()
    assert (type(made), made.dtype.newbyteorder("="), made.shape) == (
        type(value),
        value.dtype.newbyteorder("="),
        value.shape,
    )
    assert made.tolist() == value.tolist()


def test_axes_in_another_order_than_the_bytes() -> None:
    """``_frombuffer`` of numpy >= 2.3."""
    raw = bytes(range(24))
    found = understood(call("numpy._core.numeric", "_frombuffer", raw, dtype("i1", "|"), (2, 3, 4), "K", (1, 2, 0)))
    assert found.shape == (3, 4, 2)
    wanted = np.frombuffer(raw, "i1").reshape(2, 3, 4).transpose(1, 2, 0)
    np.testing.assert_array_equal(found.to_numpy(), wanted)
    for axes in ((0, 1), (0, 1, 1), "abc", (0, 1, True)):
        refused(call("numpy._core.numeric", "_frombuffer", raw, dtype("i1", "|"), (2, 3, 4), "K", axes))


def test_arrays_of_objects() -> None:
    value = np.array([[1, "a", None], [2.5, b"c", (1, 2)]], dtype=object)
    for made in (value, np.asfortranarray(value)):
        found = understood(pickle.dumps(made))
        order = "F" if made.flags.f_contiguous else "C"
        assert found == ObjectArray((2, 3), order, made.ravel().tolist())
    inner = understood(pickle.dumps(np.array([np.arange(2), None], dtype=object))).items[0]
    np.testing.assert_array_equal(inner.to_numpy(), [0, 1])
    refused(array((2,), [1], "O8", "|"), "got 1")
    refused(array((2,), b"ab" * 8, "O8", "|"), "a list of the items")
    refused(array((2**40, 2**40), [], "O8", "|"))


@pytest.mark.parametrize("func", ["_reconstruct", "scalar"])
def test_an_array_of_objects_is_one_of_numpys(func: str) -> None:
    """What ``_reconstruct`` makes has to be an ndarray: any other name given to it is accounted for by itself."""
    for args in ((Global("os", "system"), (0,), b"b"), (), (Global("numpy", "ndarray"), (0,))):
        made = change(call("numpy.core.multiarray", func, *args), (1, (1,), dtype("O8", "|"), False, [1]))
        outcome = decode_outcome(made)
        assert outcome.issues
        assert id(made) not in outcome.decoder.understood
        assert all(getattr(node, "pair", None) != ("os", "system") for node in outcome.decoder.pickle.log) or any(
            getattr(node, "pair", None) == ("os", "system") for node in outcome.overlooked
        )


def test_dtypes() -> None:
    assert understood(dtype("f4", ">")) == DType(">f4")
    assert understood(dtype("O8", "|")) == DType("|O8")
    fields = understood(pickle.dumps(FIELDS)).fields
    assert [tuple(field) for field in fields] == [("a", "<f4", 0), ("b", ">i2", 4), ("c", "|b1", 6)]


UNDECODED: Final[dict[str, Any]] = {
    "a subarray": np.dtype(("f4", (2, 3))),
    "a date": np.datetime64("2020-01-01"),
    "dates": np.array(["2020-01-01"], "M8[s]"),
    "masked": np.ma.array([1.0, 2.0], mask=[0, 1]),
    "long doubles": np.zeros(2, "g"),
    "objects in fields": np.zeros(2, [("a", "O"), ("b", "i2")]),
    "titles": np.dtype([(("title", "a"), "f4")]),
    "records": np.zeros(1, [("a", "f4")]).view(np.recarray),
    "a function": np.mean,
}  # fmt: skip


@check_each("what", UNDECODED)
def test_what_is_outside_the_table_stays_inert(what: str) -> None:
    outcome = decode_outcome(pickle.dumps(UNDECODED[what]))
    assert isinstance(outcome.value, Node)
    assert outcome.issues or outcome.overlooked


@pytest.mark.parametrize("state", [(-1, -1, 63), (-1, -1, 1), (8, -1, 0), (-1, 4, 0)])
def test_a_dtype_whose_flags_would_have_numpy_take_bytes_for_pointers(state: tuple[int, ...]) -> None:
    refused(change(call("numpy", "dtype", "f8", False, True), (3, "<", None, None, None, *state)))


def test_two_fields_of_one_name() -> None:
    fields = {"a": (dtype("f4"), 0)}
    made = change(call("numpy", "dtype", "V8", False, True), (3, "|", None, ("a", "a"), None, 8, 1, 16))
    made.updates[0].value = (*made.updates[0].value[:4], Dict(tree(fields) * 2), 8, 1, 16)  # type: ignore[operator]
    refused(made, "two fields")


# -- random generators --------------------------------------------------------------------------------

BITS: Final = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def plainly(value: Any) -> Any:
    if isinstance(value, ArrayInfo):
        return value.to_numpy().tolist()
    if isinstance(value, dict):
        return {key: plainly(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@check_each("protocol", PROTOCOLS)
@check_each("name", BITS)
def test_random_generators_have_numpys_state(name: str, protocol: int) -> None:
    bits = getattr(np.random, name)(5)
    for value, kind in (
        (np.random.Generator(bits), "Generator"),
        (bits, "BitGenerator"),
        (np.random.RandomState(bits), "RandomState"),
    ):
        found = understood(pickle.dumps(value, protocol))
        assert (type(found), found.kind, found.bit_generator) == (RandomState, kind, name)
        assert plainly(found.state) == plainly(bits.state) | (plainly(found.state) if kind == "RandomState" else {})
        assert plainly(found.state["state"]) == plainly(bits.state["state"])


def test_a_seed_sequence() -> None:
    made = np.random.SeedSequence(7, spawn_key=(1, 2))
    found = understood(pickle.dumps(made))
    assert found == SeedSequence(7, (1, 2), 4, 0, ArrayInfo("<u4", (4,), "C", made.pool.tobytes(), False))


def test_the_random_state_of_numpy_before_1_17() -> None:
    key = array((624,), bytes(2496), "u4")
    found = understood(change(call("numpy.random", "__RandomState_ctor"), ("MT19937", key, 1, 0, 0.5)))
    assert {**found.state, "state": found.state["state"]["pos"]} == {
        "bit_generator": "MT19937", "state": 1, "has_gauss": 0, "gauss": 0.5
    }  # fmt: skip


@check_each(
    "made",
    [
        lambda: change(call("numpy.random", "__RandomState_ctor"), ("PCG64", 1, 2, 0, 0.5)),
        lambda: change(call("numpy.random", "__RandomState_ctor"), {"bit_generator": "MT19937", "state": [1]}),
        lambda: change(call("numpy.random", "__RandomState_ctor"), 5),
        lambda: call("numpy.random._pickle", "__generator_ctor", "NoSuch"),
        lambda: call("numpy.random._pickle", "__generator_ctor", Global("os", "PCG64")),
        lambda: call("numpy.random._pickle", "__generator_ctor", "PCG64", Global("os", "system")),
        lambda: call(
            "numpy.random._pickle",
            "__generator_ctor",
            "PCG64",
            change(Global("numpy.random._pickle", "__bit_generator_ctor"), {"a": 1}),
        ),
        lambda: call("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", Global("os", "x"), 1, None),
        lambda: call(
            "numpy.random.bit_generator",
            "__pyx_unpickle_SeedSequence",
            Global("numpy.random.bit_generator", "SeedSequence"),
            1,
            (1, 2),
        ),
    ],
)
def test_random_generators_that_numpy_does_not_write(made: Callable[[], Any]) -> None:
    refused(made())


LEGACY: Final = array((624,), bytes(4 * 624), "u4")
PARTS: Final[dict[str, dict[str, int]]] = {
    "MT19937": {"pos": 624},
    "PCG64": {"state": 2**128 - 1, "inc": 2**128 - 1, "has_uint32": 1, "uinteger": 2**32 - 1},
    "PCG64DXSM": {"state": 2**128 - 1, "inc": 2**128 - 1, "has_uint32": 1, "uinteger": 2**32 - 1},
    "Philox": {"buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1},
    "SFC64": {"has_uint32": 1, "uinteger": 2**32 - 1},
}
"""The greatest of each number in a state."""
KEPT: Final[dict[str, dict[str, tuple[str, int]]]] = {
    "MT19937": {"key": ("u4", 624)},
    "Philox": {"counter": ("u8", 4), "key": ("u8", 2), "buffer": ("u8", 4)},
    "SFC64": {"state": ("u8", 4)},
}
"""The arrays of each."""


def zeros(code: str, count: int) -> Call:
    return array((count,), bytes(count * int(code[1:])), code)


def generator(name: str, **changed: object) -> Call:
    """A generator with a state of zeros, and what differs; a part that is given as ``...`` is left out."""
    inner = {part: zeros(*kept) for part, kept in KEPT.get(name, {}).items() if part != "buffer"}
    inner |= {part: 0 for part in PARTS[name] if part in ("state", "inc", "pos")}  # type: ignore[misc]
    outer: dict[str, Any] = {part: 0 for part in PARTS[name] if part not in inner}
    outer |= {"buffer": zeros("u8", 4)} if name == "Philox" else {}
    for part, value in changed.items():
        (inner if part in inner else outer)[part] = value  # type: ignore[assignment]
    state = {"bit_generator": name, "state": inner, **outer}
    left = {part: value for part, value in state.items() if value is not ...}
    left["state"] = {part: value for part, value in inner.items() if value is not ...}
    return change(call("numpy.random._pickle", "__bit_generator_ctor", name), left)  # type: ignore[no-any-return]


@check_each(("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_numbers_of_a_state_are_within_its_bounds(name: str, part: str) -> None:
    """numpy takes a position as it comes, and reads and writes there."""
    greatest = PARTS[name][part]
    for value in (0, 1, greatest - 1, greatest):
        understood(generator(name, **{part: value}))
    for value in (-1, greatest + 1, -(10**9), 2**200, True, 0.0, "0", None, zeros("u4", 1), [0], ...):  # type: ignore[assignment]
        refused(generator(name, **{part: value}), "random generator")


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in KEPT.items() for part in parts])
def test_arrays_of_a_state_have_its_length(name: str, part: str) -> None:
    code, count = KEPT[name][part]
    understood(generator(name, **{part: zeros(code, count)}))
    other = {"u4": "u8", "u8": "u4"}[code]
    wrong: list[object] = [zeros(code, count - 1), zeros(code, count + 1), zeros(code, 0), zeros(other, count)]
    wrong += [
        zeros("i" + code[1], count),
        array((1, count), bytes(count * int(code[1])), code),
        [0] * count,
        0,
        b"",
        ...,
    ]
    for value in wrong:
        refused(generator(name, **{part: value}), "random generator")


@pytest.mark.parametrize("name", BITS)
def test_a_state_has_no_other_parts(name: str) -> None:
    refused(generator(name, other=1), "unknown parts")
    for other in BITS:
        if other != name:
            refused(generator(name, bit_generator=other), "another bit generator")


@pytest.mark.parametrize(("pos", "has_gauss", "gauss"), [(0, 0, 0.5), (624, 1, -0.5), (1, 1, 0)])
def test_the_legacy_state_within_its_bounds(pos: int, has_gauss: int, gauss: float) -> None:
    good = ("MT19937", LEGACY, pos, has_gauss, gauss)
    understood(change(call("numpy.random", "__RandomState_ctor"), good))
    for at, values in ((2, (-1, 625, 1.0, None)), (3, (-1, 2, None)), (4, ("0", None, b""))):
        for value in values:
            wrong = (*good[:at], value, *good[at + 1 :])
            refused(change(call("numpy.random", "__RandomState_ctor"), wrong), "out of range")
    refused(change(call("numpy.random", "__RandomState_ctor"), (good[0], zeros("u4", 623), *good[2:])), "out of range")


# -- tensors ------------------------------------------------------------------------------------------


def stored(values: bytes = bytes(16), numel: int = 4, key: str = "0", **more: Any) -> bytes:
    """The torch file that a storage is pickled as."""
    return legacy_stream(
        Persist(("storage", Name("torch", "FloatStorage"), key, "cpu", numel, None)), [Run(key, numel, values)], **more
    )


def storage(raw: object) -> Call:
    return call("torch.storage", "_load_from_bytes", raw)


def tensor(store: object, shape: tuple[int, ...] = (2, 2), offset: int = 0) -> Call:
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        store,
        offset,
        shape,
        (2, 1)[-len(shape) :],
        False,
        call("collections", "OrderedDict"),
    )


VALUES: Final = np.arange(4, dtype="<f4")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_tensor_and_a_parameter(protocol: int) -> None:
    made = tensor(storage(stored(VALUES.tobytes())))
    found, parameter = understood(
        [made, call("torch._utils", "_rebuild_parameter", made, True, call("collections", "OrderedDict"))], protocol
    )
    assert isinstance(found, TensorInfo)
    np.testing.assert_array_equal(to_array(found, Budget()), VALUES.reshape(2, 2))
    assert (parameter.is_parameter, parameter.requires_grad, found.is_parameter) == (True, True, False)
    np.testing.assert_array_equal(to_array(parameter, Budget()), VALUES.reshape(2, 2))


def test_tensors_that_share_a_storage_share_it() -> None:
    shared = storage(stored(VALUES.tobytes()))
    first, second = understood([tensor(shared), tensor(shared, (2,), 2)])
    assert first.storage is second.storage
    np.testing.assert_array_equal(to_array(second, Budget()), [2, 3])


def test_the_same_bytes_loaded_twice_are_two_storages() -> None:
    raw = stored(VALUES.tobytes())
    first, second = understood([tensor(storage(raw)), tensor(storage(raw))])
    assert first.storage is not second.storage
    np.testing.assert_array_equal(to_array(first, Budget()), to_array(second, Budget()))


def test_small_values_of_torch() -> None:
    assert understood(call("torch", "device", "cuda", 1)) == Device("cuda", 1)
    assert understood(call("torch", "Size", (2, 3))) == Size((2, 3))
    assert str(understood(Global("torch", "float32"))) in ("torch.float32", str(DTypeName("float32")))


STORED: Final[dict[str, Callable[[], object]]] = {
    "text": lambda: storage("abc"),
    "no torch file": lambda: storage(b"abc"),
    "a pickle": lambda: storage(pickle.dumps(1)),
    "a torch file of a tensor": lambda: storage(legacy_stream([1])),
    "a torch file that is cut short": lambda: storage(stored()[:-1]),
    "a torch file that calls first": lambda: storage(hidden_call()),
    "two files": lambda: call("torch.storage", "_load_from_bytes", stored(), stored()),
    "a state": lambda: change(storage(stored()), {}),
}


def hidden_call() -> bytes:
    """A storage's torch file whose pickle calls something else, and drops what that gave."""
    raw = stored()
    body = dumps(Persist(("storage", Name("torch", "FloatStorage"), "0", "cpu", 4, None)))
    assert body in raw
    return raw.replace(body, body[:2] + b"cos\nsystem\n)R0" + body[2:])


@check_each("what", STORED)
def test_storages_that_torch_does_not_write(what: str) -> None:
    node = refused(STORED[what]())
    outcome = decode_outcome([STORED[what]()] * 2)
    assert isinstance(node, Call)
    assert all(isinstance(value, Node) for value in outcome.value)


def test_a_tensor_over_what_is_no_storage() -> None:
    for store in (None, storage(b"abc"), Global("torch", "FloatStorage"), [1]):
        refused(tensor(store))
    refused(tensor(storage(stored()), (9, 9)))
    refused(change(tensor(storage(stored())), {}))
    refused(tensor(Dict()))
