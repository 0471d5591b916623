"""``sbformat.pth`` on hand-made torch zips: every rule of FORMAT.md 6, kept and broken."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from conformance.generators.build_pth import (
    DEVICE,
    EXIT,
    GET_LAYOUT,
    ORDERED_DICT,
    REBUILD,
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_Q,
    REBUILD_SPARSE,
    REBUILD_V2,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Change,
    Name,
    Pairs,
    Persist,
    Raw,
    Run,
    dumps,
    floats,
    legacy_stream,
    make_zip,
    ordered,
    storage,
    tensor,
    torch_zip,
    whole,
    without_crcs,
)
from sbformat import (
    ContainerError,
    LimitError,
    Limits,
    MissingEntryError,
    PickleError,
    SbformatError,
    TensorError,
    UnsupportedError,
    pth,
)
from sbformat.pkl import Call, Global
from sbformat.pth import (
    Device,
    DTypeName,
    Layout,
    MemoryFormat,
    MetaTensor,
    QuantizedTensor,
    Size,
    SparseTensor,
    Storage,
)
from tests.helpers.many_cases import check_each
from tests.helpers.pth_checks import decode, everything, refusal, refuses

EIGHT = np.arange(8, dtype="<f4").tobytes()
OTHER = np.arange(10, 18, dtype="<f4").tobytes()


# -- what a file is -----------------------------------------------------------------------------------


@check_each("data", [b"", b"P", b"PK", b"hello", b"\x93NUMPY\x01\x00", b"I1\n."])
def test_what_is_neither_a_zip_nor_a_pickle_is_refused(data: bytes) -> None:
    error = refusal(data)
    assert type(error) is TensorError
    assert "expected a torch zip or a legacy torch file" in str(error)


def test_the_tar_of_old_torch_is_named() -> None:
    error = refusal(b"storages".ljust(257, b"\0") + b"ustar\x0000".ljust(255, b"\0"))
    assert type(error) is UnsupportedError
    assert "tar" in str(error)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_of_something_else_is_named(protocol: int) -> None:
    error = refusal(pickle.dumps({"a": 1}, protocol))
    assert type(error) is UnsupportedError
    assert "magic number" in str(error)


def test_torchscript_is_named() -> None:
    error = refusal(torch_zip({}, more={"constants.pkl": b"\x80\x02)."}))
    assert type(error) is UnsupportedError
    assert "TorchScript" in str(error)


def test_an_unfinished_save_is_named() -> None:
    error = refusal(make_zip([("archive/version", b"3\n"), ("archive/.data/serialization_id", b"0" * 40)]))
    assert type(error) is TensorError
    assert "saving was interrupted" in str(error)


def test_a_record_outside_the_one_folder_is_refused() -> None:
    good = torch_zip({"w": floats((2,))}, {"0": EIGHT[:8]})
    assert everything(good)["w"].tolist() == [0.0, 1.0]
    error = refusal(make_zip([("archive/data.pkl", dumps({})), ("archive/version", b"3"), ("other/data/0", b"")]))
    assert type(error) is TensorError
    assert "all records in one folder" in str(error)


@check_each("root", ["archive", "policy", "model.v1", "é", "data.pkl", "a b"])
def test_any_folder_may_hold_the_records(root: str) -> None:
    assert everything(torch_zip({"w": floats((2,))}, {"0": EIGHT[:8]}, root=root))["w"].tolist() == [0.0, 1.0]


@check_each("version", [b"1", b"3", b"3\n", b"03\n", b"9", b"10\n"])
def test_versions_1_to_10_are_read(version: bytes) -> None:
    assert everything(torch_zip([], version=version)) == []


@check_each("version", [b"0\n", b"11\n", b"", b"\n", b"3\n\n", b"3 ", b"+3", b"-1", b"003", b"three", b"\xb3"])
def test_other_versions_are_refused(version: bytes) -> None:
    refuses_file(TensorError, "format version", torch_zip([], version=version))


def refuses_file(kind: type[SbformatError], words: str, data: bytes, **options: Any) -> None:
    """Assert that a file is refused with an error of exactly this class, saying this."""
    error = refusal(data, **options)
    assert type(error) is kind, error
    assert words in str(error)


def test_the_version_may_lie_in_the_hidden_folder() -> None:
    assert everything(torch_zip([], version=None, more={".data/version": b"3\n"})) == []
    refuses_file(TensorError, "version", torch_zip([], version=None))
    refuses_file(TensorError, "version", torch_zip([], version=b"11", more={".data/version": b"3\n"}))


@pytest.mark.parametrize("order", [b"", b"Little", b"little\n", b"middle", b"\xff"])
def test_an_unknown_byte_order_is_refused(order: bytes) -> None:
    refuses_file(TensorError, "byte order", torch_zip([], byte_order=order))


def test_without_a_byte_order_the_bytes_are_little_endian() -> None:
    assert everything(torch_zip(floats((2,)), {"0": EIGHT[:8]}, byte_order=None)).tolist() == [0.0, 1.0]


def test_records_that_nobody_uses_are_ignored() -> None:
    more = {"data/9": b"unused", ".format_version": b"1", ".storage_alignment": b"64", "extra/info": b"x"}
    assert everything(torch_zip(floats((2,)), {"0": EIGHT[:8]}, more=more)).tolist() == [0.0, 1.0]


def test_deflated_records_are_read() -> None:
    assert everything(torch_zip(floats((2,)), {"0": EIGHT[:8]}, deflated=True)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("data", [b"\x80\x02}.tail", b"\x80\x02", b"", b"\x80\x02}", b"\xff"])
def test_a_damaged_pickle_is_the_pickles_failure(data: bytes) -> None:
    assert type(refusal(torch_zip(data))) is PickleError


def test_a_failure_in_the_pickle_names_its_record() -> None:
    assert refusal(torch_zip(Apply(EXIT, (0,)))).entry == "archive/data.pkl"
    assert refusal(torch_zip(b"\x80\x02}")).entry == "archive/data.pkl"


@pytest.mark.parametrize(
    "data",
    [b"\x80\x02K\x01}.", b"\x80\x02(}.", b"\x80\x04\x95\x04\0\0\0\0\0\0\0}.K\x01"],
    ids=["value left", "mark left", "frame past stop"],
)
def test_what_no_pickler_leaves_behind_is_refused(data: bytes) -> None:
    assert isinstance(refusal(torch_zip(data)), (TensorError, PickleError))


def test_a_damaged_storage_is_refused_when_its_array_is_made() -> None:
    data = bytearray(torch_zip({"a": floats((2,)), "b": floats((2,), "1")}, {"0": EIGHT[:8], "1": OTHER[:8]}))
    data[data.index(OTHER[:8])] ^= 1
    state_dict = pth.loads(bytes(data))
    assert state_dict["a"].tolist() == [0.0, 1.0]
    assert state_dict.info("b").shape == (2,)
    for ask in (lambda: state_dict["b"], state_dict.to_numpy, state_dict.check):
        with pytest.raises(ContainerError, match="archive/data/1: expected CRC-32"):
            ask()


def test_a_file_without_crcs_is_read_only_when_asked_for() -> None:
    data = without_crcs(torch_zip(floats((2,)), {"0": EIGHT[:8]}))
    refuses_file(ContainerError, "unchecked_crc=True", data)
    assert everything(data, unchecked_crc=True).tolist() == [0.0, 1.0]


def test_a_damaged_record_is_named_once() -> None:
    whole = torch_zip({"w": floats((8,))}, {"0": EIGHT})
    for record, part in (("archive/data.pkl", b"_rebuild_tensor_v2"), ("archive/data/0", EIGHT)):
        damaged = bytearray(whole)
        damaged[whole.index(part)] ^= 1
        with pytest.raises(ContainerError) as caught:
            pth.loads(bytes(damaged)).to_numpy()
        assert caught.value.entry == record


def test_unchecked_crc_checks_the_crcs_that_there_are() -> None:
    data = bytearray(torch_zip(floats((2,)), {"0": EIGHT[:8]}))
    assert everything(bytes(data), unchecked_crc=True).tolist() == [0.0, 1.0]
    data[data.index(EIGHT[:8])] ^= 1
    refuses_file(ContainerError, "CRC-32", bytes(data), unchecked_crc=True)


def test_bytes_behind_the_zip_are_refused() -> None:
    refuses_file(ContainerError, "", torch_zip([]) + b"\0")


def test_a_file_of_another_zip_writer_is_read() -> None:
    file = torch_zip({"w": floats((2, 2))}, {"0": EIGHT[:16]})
    with zipfile.ZipFile(io.BytesIO(file)) as opened:
        assert opened.testzip() is None
    assert everything(bytearray(file))["w"].tolist() == everything(memoryview(file))["w"].tolist() == [[0, 1], [2, 3]]


# -- persistent ids (FORMAT.md 6.3) -------------------------------------------------------------------


@check_each(
    ("store", "words"),
    [
        (None, "expected a storage for a tensor"),
        (("storage", Name("torch", "FloatStorage"), "0", "cpu", 8), "expected a storage for a tensor"),
        (Persist("0"), "persistent id"),
        (Persist(0), "persistent id"),
        (Persist(()), "persistent id"),
        (Persist(("storage", Name("torch", "FloatStorage"), "0", "cpu")), "5 items"),
        (Persist(("storage", Name("torch", "FloatStorage"), "0", "cpu", 8, None)), "5 items"),
        (Persist(["storage", Name("torch", "FloatStorage"), "0", "cpu", 8]), "persistent id"),
        (Persist((b"storage", Name("torch", "FloatStorage"), "0", "cpu", 8)), "persistent id"),
        (Persist(("Storage", Name("torch", "FloatStorage"), "0", "cpu", 8)), "persistent id"),
        (storage(8, "0", "QuantumStorage"), "storage class"),
        (storage(8, "0", "float32"), "storage class"),
        (storage(8, "0", Name("torch.storage", "FloatStorage")), "storage class"),
        (Persist(("storage", "torch.FloatStorage", "0", "cpu", 8)), "storage class"),
        (Persist(("storage", Apply(Name("torch", "FloatStorage"), ()), "0", "cpu", 8)), "storage class"),
        (storage(8, 0), "of a persistent id, got other values"),
        (storage(8, b"0"), "of a persistent id, got other values"),
        (storage(8, "0", "FloatStorage", None), "of a persistent id, got other values"),
        (storage(8.0), "of a persistent id, got other values"),
        (storage(True), "of a persistent id, got other values"),
        (storage(-1), "of a persistent id, got other values"),
        (storage(-8), "of a persistent id, got other values"),
        (storage(2**63), "of a persistent id, got other values"),
        (storage(Raw(whole(1 << 70000))), "of a persistent id, got other values"),
        (storage(8, "1"), "no record"),
        (storage(8, "../data.pkl"), "no record"),
        (storage(7), "expected 7 x 4 bytes for the storage"),
        (storage(9), "expected 9 x 4 bytes for the storage"),
        (storage(8, "0", "DoubleStorage"), "8 x 8 bytes"),
        (storage(8, "0", UNTYPED), "8 x 1 bytes"),
    ],
)
def test_a_persistent_id_that_is_not_exact_is_refused(store: object, words: str) -> None:
    refuses(TensorError, words, tensor(store, (2,)), {"0": EIGHT})


def test_none_is_not_a_storage_class() -> None:
    """Neither before any class is known nor after one: what is remembered of the last class is not for None."""
    ids = ("storage", None, "0", "cpu", 32)  # as many bytes as the record, so that an untyped storage would fit
    nothing = Persist(ids)
    for tree in (nothing, tensor(nothing, (8,)), [nothing, storage(8)], [storage(8), nothing]):
        refuses(TensorError, "'None' is not a known storage class", tree, {"0": EIGHT})
    stream = legacy_stream(Persist((*ids, None)), [Run("0", 32, EIGHT)])
    assert "'None' is not a known storage class" in str(refusal(stream))


def test_the_location_changes_nothing() -> None:
    for location in ("cpu", "cuda:0", "mps", "anything"):
        state_dict = decode(tensor(storage(8, "0", "FloatStorage", location), (2,)), {"0": EIGHT})
        assert state_dict.tree.location == location
        assert state_dict.to_numpy().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("module", ["torch", "torch.cuda"])
def test_storage_classes_of_both_devices_are_known(module: str) -> None:
    store = storage(8, "0", Name(module, "FloatStorage"), "cuda:1")
    assert decode(tensor(store, (8,)), {"0": EIGHT}).to_numpy().tobytes() == EIGHT


@pytest.mark.parametrize(
    "second",
    [
        storage(8, "0", "IntStorage"),
        storage(4, "0", "DoubleStorage"),
        storage(32, "0", UNTYPED),
        storage(8, "0", "FloatStorage", "cuda:0"),
        storage(7, "0"),
    ],
    ids=["dtype", "dtype and numel", "untyped", "location", "numel"],
)
def test_one_key_has_one_class_size_and_location(second: Persist) -> None:
    assert decode([storage(8), storage(8)], {"0": EIGHT}).tree[0].numel == 8
    refuses(TensorError, "", [storage(8), second], {"0": EIGHT})


def test_a_whole_module_is_unsupported() -> None:
    module = Persist(("module", Name("models", "Net"), "models.py", "class Net: ..."))
    refuses(UnsupportedError, "nn.Module", module)


def test_packed_storages_are_unsupported() -> None:
    for name in ("QUInt4x2Storage", "QUInt2x4Storage"):
        refuses(UnsupportedError, name, tensor(storage(8, "0", name), (2,)), {"0": EIGHT})


def test_records_whose_names_differ_only_in_case_are_refused() -> None:
    # torch looks records up without regard to case, and would give one of the two for both keys
    error = refusal(torch_zip([floats((8,), "a"), floats((8,), "A")], {"a": EIGHT, "A": OTHER}))
    assert type(error) in (ContainerError, TensorError)


# -- geometry (FORMAT.md 6.4) -------------------------------------------------------------------------


@check_each(
    ("shape", "strides", "offset", "words"),
    [
        ((9,), (1,), 0, "reaches element 8 of a storage of 8"),
        ((8,), (1,), 1, "reaches element 8 of a storage of 8"),
        ((1,), (1,), 8, "reaches element 8 of a storage of 8"),
        ((), (), 8, "reaches element 8 of a storage of 8"),
        ((2, 4), (8, 1), 0, "reaches element 11 of a storage of 8"),
        ((2, 2), (1, 7), 0, "reaches element 8 of a storage of 8"),
        ((2,), (2**62,), 0, "reaches element"),
        ((2,) * 3, (2**62,) * 3, 2**62, "reaches element"),
        ((2**62, 0), (0, 0), 0, "too large for any memory"),
        ((2**59, 0), (0, 0), 0, "too large for any memory"),
        ((-1,), (1,), 0, "expected integers >= 0"),
        ((2,), (-1,), 7, "expected integers >= 0"),
        ((2,), (1,), -1, "offset"),
        ((2**63,), (0,), 0, "expected integers >= 0"),
        ((2,), (2**63,), 0, "expected integers >= 0"),
        ((2,), (1,), 2**63, "offset"),
        ((2,), (1,), Raw(whole(1 << 70000)), "offset"),
        ((True,), (1,), 0, "expected integers >= 0"),
        ((2,), (True,), 0, "expected integers >= 0"),
        ((2,), (1,), True, "offset"),
        ((2.0,), (1,), 0, "expected integers >= 0"),
        ((2,), (1.0,), 0, "expected integers >= 0"),
        ((2,), (1,), 0.0, "offset"),
        ((2,), (1,), None, "offset"),
        (("2",), (1,), 0, "expected integers >= 0"),
        ([2], [1], 0, "tuples of the same length"),
        ((2,), (), 0, "tuples of the same length"),
        ((), (1,), 0, "tuples of the same length"),
        ((2, 2), (1,), 0, "tuples of the same length"),
        (2, 1, 0, "tuples of the same length"),
        (None, None, 0, "tuples of the same length"),
        (Apply(SIZE, ((2,),)), (1,), 0, "tuples of the same length"),
    ],
)
def test_a_geometry_outside_its_storage_is_refused(shape: object, strides: object, offset: object, words: str) -> None:
    call = Apply(REBUILD_V2, (storage(8), offset, shape, strides, False, ordered()))
    refuses(TensorError, words, call, {"0": EIGHT})


def test_rank_up_to_the_limit_is_read() -> None:
    for rank in (0, 1, 32):
        assert decode(tensor(storage(8), (1,) * rank), {"0": EIGHT}).to_numpy().shape == (1,) * rank
    refuses(LimitError, "tensor_rank", tensor(storage(8), (1,) * 33), {"0": EIGHT})
    raised = decode(tensor(storage(8), (1,) * 33), {"0": EIGHT}, limits=Limits(tensor_rank=33))
    assert raised.tree.shape == (1,) * 33


def test_a_rank_beyond_numpys_is_our_error() -> None:
    state_dict = decode(tensor(storage(8), (1,) * 65), {"0": EIGHT}, limits=Limits(tensor_rank=100))
    with pytest.raises(SbformatError):
        state_dict.to_numpy()


def test_expanded_views_are_read_up_to_the_limit() -> None:
    one = EIGHT[4:8]
    wide = decode(tensor(storage(1), (1 << 24,), (0,)), {"0": one}).to_numpy()
    assert (wide.shape, wide.strides, wide[-1]) == ((1 << 24,), (0,), 1.0)
    for shape in (((1 << 24) + 1,), ((1 << 59) - 1,)):
        refuses(LimitError, "expanded_items", tensor(storage(1), shape, (0,)), {"0": one})
    for shape in ((1 << 59,), (2**62, 2**62)):  # multiplied by an item size, 63 bits are too few
        refuses(TensorError, "too large for any memory", tensor(storage(1), shape, (0,) * len(shape)), {"0": one})
    few = Limits(expanded_items=4)
    assert decode(tensor(storage(1), (4,), (0,)), {"0": one}, limits=few).to_numpy().tolist() == [1.0] * 4
    assert decode(tensor(storage(2), (2, 4), (1, 0)), {"0": EIGHT[:8]}, limits=few).to_numpy().shape == (2, 4)
    with pytest.raises(LimitError):
        decode(tensor(storage(1), (5,), (0,)), {"0": one}, limits=few)


def test_an_expanded_view_beyond_numpys_is_our_error() -> None:
    with pytest.raises(SbformatError):
        decode(tensor(storage(1), (1 << 62,), (0,)), {"0": EIGHT[:4]}, limits=Limits(expanded_items=1 << 63)).to_numpy()


def test_an_expanded_view_of_nothing_is_refused() -> None:
    refuses(TensorError, "reaches element 0 of a storage of 0", tensor(storage(0), (4,), (0,)), {"0": b""})


def test_the_number_of_tensors_is_limited() -> None:
    tree = [floats((2,)) for _ in range(3)]
    assert len(decode(tree, {"0": EIGHT[:8]}, limits=Limits(tensors=3)).tensors()) == 3
    with pytest.raises(LimitError, match="tensors"):
        decode(tree, {"0": EIGHT[:8]}, limits=Limits(tensors=2))


# -- constructors (FORMAT.md 6.5) ---------------------------------------------------------------------


def test_each_way_to_build_a_strided_tensor() -> None:
    old = Apply(REBUILD, (storage(8), 1, (2, 3), (3, 1)))
    plain = tensor(storage(8), (2, 3), None, 1)
    bits = tensor(storage(8), (2, 3), None, 1, True, {})
    third = Apply(REBUILD_V3, (storage(8), 1, (2, 3), (3, 1), False, ordered(), Name("torch", "float32")))
    state_dict = decode([old, plain, bits, third], {"0": EIGHT})
    for info in state_dict.tree:
        assert (info.dtype, info.shape, info.strides, info.offset) == ("float32", (2, 3), (3, 1), 1)
        assert not info.is_parameter
    assert [info.requires_grad for info in state_dict.tree] == [False, False, True, False]
    assert all(array.tolist() == [[1, 2, 3], [4, 5, 6]] for array in state_dict.to_numpy())


@check_each(
    ("call", "words"),
    [
        (Apply(REBUILD, (storage(8), 0, (2,))), "arguments"),
        (Apply(REBUILD, (storage(8), 0, (2,), (1,), False)), "arguments"),
        (Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), False)), "arguments"),
        (Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), False, ordered(), {}, None)), "arguments"),
        (Apply(REBUILD_V2, ()), "arguments"),
        (Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), 1, ordered())), "requires_grad"),
        (Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), None, ordered())), "requires_grad"),
        (Apply(REBUILD_V3, (storage(8), 0, (2,), (1,), False, ordered())), "arguments"),
        (
            Apply(REBUILD_V3, (storage(8), 0, (2,), (1,), False, ordered(), Name("torch", "int32"))),
            "expected a storage of",
        ),
        (
            Apply(REBUILD_V3, (storage(8), 0, (2,), (1,), False, ordered(), Name("torch", "qint8"))),
            "expected a storage of",
        ),
        (
            Apply(REBUILD_V3, (storage(32, "0", UNTYPED), 0, (2,), (1,), False, ordered(), Name("torch", "qint8"))),
            "scale",
        ),
        (tensor(storage(32, "0", UNTYPED), (2,)), "expected a dtype"),
        (tensor(storage(32, "0", "QInt8Storage"), (2,)), "no scale"),
        (Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), False, ordered()), Change("BUILD", {})), "or a change"),
        (Apply(REBUILD_V2, Apply(ORDERED_DICT, ())), "computed arguments"),
        (tensor(storage(8), (2,), None, 0, False, {"conj": True}), "conj bit"),
        (tensor(storage(8), (2,), None, 0, False, {"neg": 1}), ""),
    ],
)
def test_a_constructor_with_arguments_that_torch_never_writes_is_refused(call: Apply, words: str) -> None:
    refuses(TensorError, words, call, {"0": EIGHT})


@pytest.mark.parametrize(
    "metadata",
    [{"names": ("a",)}, {"conj": True, "other": True}, Pairs(("neg", True), ("neg", True))],
)
def test_other_tensor_metadata_is_unsupported(metadata: object) -> None:
    refuses(UnsupportedError, "metadata", tensor(storage(8), (2,), None, 0, False, metadata), {"0": EIGHT})


@pytest.mark.parametrize("metadata", [None, (), [], 1, "conj"])
def test_tensor_metadata_is_a_dict(metadata: object) -> None:
    refuses(TensorError, "metadata", tensor(storage(8), (2,), None, 0, False, metadata), {"0": EIGHT})


@check_each(
    "hooks",
    [
        None,
        {},
        (),
        ordered({0: Name("posix", "system")}),
        ordered(None, {}),
        Apply(ORDERED_DICT, ([[0, 1]],)),
        Apply(Name("collections", "deque"), ()),
    ],
)
def test_backward_hooks_are_unsupported(hooks: object) -> None:
    refuses(UnsupportedError, "hooks", Apply(REBUILD_V2, (storage(8), 0, (2,), (1,), False, hooks)), {"0": EIGHT})
    refuses(UnsupportedError, "hooks", Apply(REBUILD_PARAMETER, (floats((8,)), True, hooks)), {"0": EIGHT})


def test_a_bit_that_is_false_is_refused() -> None:
    # torch never writes one, and takes the key alone for the bit
    call = tensor(storage(4, "0", "ComplexFloatStorage"), (4,), None, 0, False, {"conj": False})
    assert isinstance(refusal(torch_zip(call, {"0": EIGHT})), (TensorError, UnsupportedError))


@pytest.mark.parametrize("name", ["BoolStorage", "QInt8Storage"])
def test_the_neg_bit_needs_numbers_that_have_a_sign(name: str) -> None:
    call = tensor(storage(8, "0", name), (4,), None, 0, False, {"neg": True})
    assert type(refusal(torch_zip(call, {"0": bytes(8)}))) is TensorError


def test_requires_grad_needs_a_dtype_that_has_gradients() -> None:
    data = {"0": bytes(8)}
    assert decode(tensor(storage(4, "0", "HalfStorage"), (4,), None, 0, True), data).tree.requires_grad
    for name in ("LongStorage", "BoolStorage", "ByteStorage"):
        store = storage(1 if name == "LongStorage" else 8, "0", name)
        refuses(TensorError, "", tensor(store, (1,), None, 0, True), data)


def test_parameters() -> None:
    made = decode(
        {
            "trained": Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered())),
            "frozen": Apply(REBUILD_PARAMETER, (floats((8,)), False, ordered())),
            "named": Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), {"role": "actor"})),
            "integers": Apply(REBUILD_PARAMETER, (tensor(storage(4, "1", "LongStorage"), (4,)), False, ordered())),
        },
        {"0": EIGHT, "1": OTHER},
    )
    assert all(info.is_parameter for info in made.tree.values())
    assert [info.requires_grad for info in made.tree.values()] == [True, False, True, False]
    assert made.info("named").state == {"role": "actor"}
    assert made.info("trained").state is None
    assert made["named"].tobytes() == EIGHT
    assert made["integers"].dtype == np.int64


@check_each(
    ("call", "words"),
    [
        (Apply(REBUILD_PARAMETER, (floats((8,)), True)), "arguments"),
        (Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered(), {}, {})), "arguments"),
        (Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered())), "arguments"),
        (Apply(REBUILD_PARAMETER, (floats((8,)), 1, ordered())), "requires_grad"),
        (Apply(REBUILD_PARAMETER, (None, True, ordered())), "plain tensor"),
        (Apply(REBUILD_PARAMETER, (storage(8), True, ordered())), "plain tensor"),
        (
            Apply(REBUILD_PARAMETER, (Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered())), True, ordered())),
            "plain",
        ),
        (Apply(REBUILD_PARAMETER, (Apply(SIZE, ((1,),)), True, ordered())), "plain tensor"),
    ],
)
def test_a_parameter_of_anything_else_is_refused(call: Apply, words: str) -> None:
    refuses(TensorError, words, call, {"0": EIGHT})


TENSOR = Name("torch", "Tensor")


def with_attributes(state: object, func: Name = REBUILD_V2, cls: Name = TENSOR) -> Apply:
    return Apply(REBUILD_FROM_TYPE, (func, cls, floats((8,)).args, state))


def test_a_tensor_with_attributes() -> None:
    info = decode(with_attributes({"note": "x", "list": [1]}), {"0": EIGHT}).tree
    assert (info.state, info.is_parameter) == ({"note": "x", "list": [1]}, False)
    parameter = decode(with_attributes({}, cls=Name("torch.nn.parameter", "Parameter")), {"0": EIGHT}).tree
    assert parameter.is_parameter


@check_each(
    "call",
    [
        with_attributes({}, cls=Name("my", "Tensor")),
        with_attributes({}, cls=Name("builtins", "list")),
        with_attributes({}, func=EXIT),
        with_attributes({}, func=REBUILD_PARAMETER),
        with_attributes({}, func=REBUILD_FROM_TYPE),
        Apply(REBUILD_FROM_TYPE, (REBUILD_META, Name("torch", "Tensor"), (Name("torch", "int8"), (), (), False), {})),
    ],
)
def test_attributes_of_other_kinds_are_unsupported(call: Apply) -> None:
    assert type(refusal(torch_zip(call, {"0": EIGHT}))) is UnsupportedError


@pytest.mark.parametrize("state", [None, ({}, {}), [("note", 1)], {1: 2}, ({}, {"slot": 1})])
def test_attributes_are_a_dict_with_text_keys(state: object) -> None:
    parameter = Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), state))
    for call in (with_attributes(state), parameter):
        refuses(TensorError, "dict of attributes", call, {"0": EIGHT})


@check_each("name", ["data", "requires_grad", "real", "imag", "grad", "_grad", "__class__"])
def test_an_attribute_that_would_change_the_tensor_is_refused(name: str) -> None:
    # torch sets each attribute of the state: "data" gives the tensor other values
    state = {name: floats((8,), "1")}
    for call in (Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), state)), with_attributes(state)):
        error = refusal(torch_zip(call, {"0": EIGHT, "1": OTHER}))
        assert type(error) in (TensorError, UnsupportedError)


def layout(name: object = "torch.sparse_coo") -> Apply:
    return Apply(GET_LAYOUT, (name,))


INDICES = tensor(storage(4, "i", "LongStorage"), (2, 2))
POINTERS = tensor(storage(4, "p", "LongStorage"), (3,))
SPARSE = {"0": EIGHT, "i": np.array([0, 1, 1, 0], "<i8").tobytes(), "p": np.array([0, 1, 2, 0], "<i8").tobytes()}


def test_sparse_tensors() -> None:
    values, size = floats((2,), "0", 8), Apply(SIZE, ((2, 2),))
    coo = decode(Apply(REBUILD_SPARSE, (layout(), (INDICES, values, size, True))), SPARSE)
    assert isinstance(coo.tree, SparseTensor)
    assert (coo.tree.layout, coo.tree.shape, coo.tree.is_coalesced) == ("sparse_coo", (2, 2), True)
    made = coo.to_numpy()
    assert made.indices[0].tolist() == [[0, 1], [1, 0]]
    assert made.values.tobytes() == EIGHT[:8]
    old = decode(Apply(REBUILD_SPARSE, (layout(), (INDICES, values, (2, 2)))), SPARSE)
    assert (old.tree.is_coalesced, type(old.tree.shape)) == (None, Size)
    names = ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
    plain = tensor(storage(4, "i", "LongStorage"), (2,), None, 2)
    for name in names:
        entries = floats((2, 1, 1), "0", 8) if name.startswith("sparse_bs") else values
        parts = (POINTERS, plain, entries, size)
        found = decode(Apply(REBUILD_SPARSE, (layout(f"torch.{name}"), parts)), SPARSE).to_numpy()
        assert (found.layout, [part.tolist() for part in found.indices]) == (name, [[0, 1, 2], [1, 0]])
    older = Name("torch._utils", "_rebuild_sparse_csr_tensor")
    parts = (POINTERS, plain, values, size)
    assert decode(Apply(older, (layout("torch.sparse_csr"), parts)), SPARSE).tree.layout == "sparse_csr"
    few = Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((3,), "0", 8), size, True)))
    assert isinstance(refusal(torch_zip(few, SPARSE)), TensorError)


@check_each(
    ("kind", "call"),
    [
        (TensorError, Apply(REBUILD_SPARSE, (layout(),))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), [INDICES, floats((8,)), (2, 2)]))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)), (2, 2), 1)))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)), (2, -2))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)), [2, 2])))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)), Apply(EXIT, ((2, 2),)))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (None, floats((8,)), (2, 2))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(), (INDICES, storage(8), (2, 2))))),
        (TensorError, Apply(REBUILD_SPARSE, ("torch.sparse_coo", (INDICES, floats((8,)), (2, 2))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout("torch.strided"), (INDICES, floats((8,)), (2, 2))))),
        (TensorError, Apply(REBUILD_SPARSE, (layout("torch.sparse_csr"), (POINTERS, floats((8,)), (2, 2))))),
        (UnsupportedError, Apply(REBUILD_SPARSE, (layout("torch.jagged"), ()))),
        (TensorError, Apply(REBUILD_SPARSE, (layout(3), ()))),
    ],
)
def test_a_sparse_tensor_of_other_parts_is_refused(kind: type[SbformatError], call: Apply) -> None:
    assert type(refusal(torch_zip(call, SPARSE))) is kind


def test_tensors_do_not_nest() -> None:
    inner = Apply(REBUILD_SPARSE, (layout(), (INDICES, floats((8,)), (2, 2))))
    refuses(TensorError, "strided", Apply(REBUILD_SPARSE, (layout(), (inner, floats((8,)), (2, 2)))), SPARSE)
    scheme = (Name("torch", "per_channel_affine"), inner, inner, 0)
    call = Apply(REBUILD_Q, (storage(8, "q", "QInt8Storage"), 0, (8,), (1,), scheme, False, ordered()))
    refuses(TensorError, "strided", call, {**SPARSE, "q": bytes(8)})


def quantized(scheme: object, shape: tuple[int, ...] = (2, 3), cls: str = "QUInt8Storage", **changed: object) -> Apply:
    arguments = {"grad": False, "hooks": ordered(), **changed}
    strides = (shape[-1], 1) if len(shape) == 2 else (1,)
    store = storage(6 if cls != "FloatStorage" else 8, "q" if cls != "FloatStorage" else "0", cls)
    return Apply(REBUILD_Q, (store, 0, shape, strides, scheme, arguments["grad"], arguments["hooks"]))


PER_TENSOR, PER_CHANNEL = Name("torch", "per_tensor_affine"), Name("torch", "per_channel_affine")
SCALES = tensor(storage(2, "s", "DoubleStorage"), (2,))
ZEROS = tensor(storage(2, "z", "LongStorage"), (2,))
QUANTIZED = {
    "0": EIGHT,
    "q": bytes(range(6)),
    "s": np.array([0.5, 0.25], "<f8").tobytes(),
    "z": np.array([1, 2], "<i8").tobytes(),
}


def test_quantized_tensors() -> None:
    made = decode(quantized((PER_TENSOR, 0.5, 1)), QUANTIZED).to_numpy()
    assert isinstance(made, QuantizedTensor)
    assert (made.scheme, made.scale, made.zero_point, made.axis) == ("per_tensor_affine", 0.5, 1, None)
    assert made.int_repr.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made.dequantize().tolist() == [[-0.5, 0, 0.5], [1, 1.5, 2]]
    for scales, zeros in ((SCALES, ZEROS), ([0.5, 0.25], [1, 2])):
        made = decode(quantized((PER_CHANNEL, scales, zeros, 0)), QUANTIZED).to_numpy()
        assert (list(made.scale), list(made.zero_point), made.axis) == ([0.5, 0.25], [1, 2], 0)
        assert made.dequantize().tolist() == [[-0.5, 0, 0.5], [0.25, 0.5, 0.75]]
        assert made.dequantize().dtype == np.float32


@check_each(
    "call",
    [
        quantized((PER_TENSOR, 0.5)),
        quantized((PER_TENSOR, 0.5, 1, 0)),
        quantized((PER_TENSOR, 1, 1)),
        quantized((PER_TENSOR, 0.5, 1.0)),
        quantized((PER_TENSOR, 0.5, True)),
        quantized((PER_CHANNEL, SCALES, ZEROS)),
        quantized((PER_CHANNEL, SCALES, ZEROS, 2)),
        quantized((PER_CHANNEL, SCALES, ZEROS, -1)),
        quantized((PER_CHANNEL, SCALES, ZEROS, True)),
        quantized((PER_CHANNEL, SCALES, ZEROS, 1)),
        quantized((PER_CHANNEL, [0.5], [1], 0)),
        quantized((PER_CHANNEL, [0.5, "x"], [1, 2], 0)),
        quantized((PER_CHANNEL, SCALES, None, 0)),
        quantized(()),
        quantized([PER_TENSOR, 0.5, 1]),
        quantized(PER_TENSOR),
        quantized((PER_TENSOR, 0.5, 1), cls="FloatStorage"),
        quantized((PER_TENSOR, 0.5, 1), (2, 4)),
        quantized((PER_TENSOR, 0.5, 1), grad=1),
    ],
)
def test_a_quantized_tensor_with_another_scheme_is_refused(call: Apply) -> None:
    assert type(refusal(torch_zip(call, QUANTIZED))) is TensorError


@pytest.mark.parametrize("scheme", [Name("torch", "float32"), EXIT])
def test_an_unknown_scheme_is_unsupported(scheme: Name) -> None:
    assert type(refusal(torch_zip(quantized((scheme, 0.5, 1)), QUANTIZED))) is UnsupportedError


def test_a_parameter_of_an_unknown_call_is_unsupported() -> None:
    call = Apply(REBUILD_PARAMETER, (Apply(EXIT, (0,)), True, ordered()))
    refuses(UnsupportedError, "unknown call", call, {"0": EIGHT})


def test_meta_tensors() -> None:
    made = decode(Apply(REBUILD_META, (Name("torch", "bfloat16"), (2, 3), (3, 1), True)))
    assert made.tree == made.to_numpy() == MetaTensor("bfloat16", (2, 3), (3, 1), True)
    inner = Apply(REBUILD_META, (Name("torch", "int8"), (), (), False))
    parameter = decode(Apply(REBUILD_PARAMETER, (inner, False, ordered()))).tree
    assert (parameter.dtype, parameter.shape, parameter.is_parameter) == ("int8", (), True)


@check_each(
    ("kind", "args"),
    [
        (TensorError, (Name("torch", "int8"), (2,), ())),
        (TensorError, (Name("torch", "int8"), (2,), (1,), 0)),
        (TensorError, (Name("torch", "int8"), (2,), (), False)),
        (TensorError, (Name("torch", "int8"), (-2,), (1,), False)),
        (TensorError, (Name("torch", "int8"), (True,), (1,), False)),
        (TensorError, (Name("torch", "int8"), [2], [1], False)),
        (LimitError, (Name("torch", "int8"), (1,) * 33, (1,) * 33, False)),
        (TensorError, (Name("torch", "int8"), (2,), (1,), True)),
        (UnsupportedError, (Name("torch", "int3"), (2,), (1,), False)),
        (TensorError, ("torch.int8", (2,), (1,), False)),
    ],
)
def test_a_meta_tensor_of_other_arguments_is_refused(kind: type[SbformatError], args: tuple[object, ...]) -> None:
    assert type(refusal(torch_zip(Apply(REBUILD_META, args)))) is kind


# -- small values (FORMAT.md 6.6) ---------------------------------------------------------------------


@check_each(
    ("tree", "value"),
    [
        (Apply(SIZE, ((2, 3),)), Size((2, 3))),
        (Apply(SIZE, ((),)), Size(())),
        (Apply(DEVICE, ("cpu",)), Device("cpu")),
        (Apply(DEVICE, ("cuda", 1)), Device("cuda", 1)),
        (Name("torch", "float32"), DTypeName("float32")),
        (Name("torch", "float8_e4m3fn"), DTypeName("float8_e4m3fn")),
        (layout("torch.sparse_csr"), Layout("sparse_csr")),
        (Name("torch", "strided"), Layout("strided")),
        (Name("torch", "channels_last"), MemoryFormat("channels_last")),
        (Apply(Name("__builtin__", "set"), ([1, 2],)), {1, 2}),
        (Apply(Name("builtins", "frozenset"), (["a"],)), frozenset({"a"})),
        (Apply(Name("__builtin__", "set"), ()), set()),
        ({1, "a"}, {1, "a"}),
        (frozenset({b"a"}), frozenset({b"a"})),
        (Apply(Name("__builtin__", "bytearray"), ("é", "latin-1")), bytearray(b"\xe9")),
        (Apply(Name("__builtin__", "bytearray"), (b"ab",)), bytearray(b"ab")),
        (Apply(Name("__builtin__", "bytearray"), ()), bytearray()),
        (Apply(Name("__builtin__", "bytes"), ()), b""),
        (Apply(Name("__builtin__", "complex"), (1.0, -0.0)), complex(1.0, -0.0)),
        (Apply(Name("_codecs", "encode"), ("\xff\x00", "latin1")), b"\xff\0"),
        (bytearray(b"xyz"), bytearray(b"xyz")),
        (2**70, 2**70),
        (-(2**70), -(2**70)),
        ("lone \ud800", "lone \ud800"),
        ([1, (2.5, None, True, b"x"), {"k": []}], [1, (2.5, None, True, b"x"), {"k": []}]),
    ],
)
def test_small_values(tree: object, value: object) -> None:
    found = decode(tree).to_numpy()
    assert (type(found), found) == (type(value), value)


@check_each(
    ("kind", "tree"),
    [
        (TensorError, Apply(SIZE, (2, 3))),
        (TensorError, Apply(SIZE, ([2, 3],))),
        (TensorError, Apply(SIZE, ((-1,),))),
        (TensorError, Apply(SIZE, ((True,),))),
        (TensorError, Apply(DEVICE, ())),
        (TensorError, Apply(DEVICE, (0,))),
        (TensorError, Apply(DEVICE, ("cuda", "1"))),
        (TensorError, Apply(DEVICE, ("",))),
        (TensorError, Apply(DEVICE, ("cuda:0", 0))),
        (TensorError, Apply(DEVICE, ("cuda", 1, 2))),
        (UnsupportedError, layout("torch.jagged")),
        (UnsupportedError, layout("os.system")),
        (TensorError, Apply(GET_LAYOUT, ())),
        (TensorError, Apply(Name("builtins", "set"), (1,))),
        (TensorError, Apply(Name("builtins", "set"), ("ab",))),
        (TensorError, Apply(Name("builtins", "set"), ([1], [2]))),
        (TensorError, Apply(Name("builtins", "set"), ([1, 1],))),
        (TensorError, Apply(Name("builtins", "set"), ([1],), Change("ADDITEMS", [2]))),
        (TensorError, Apply(Name("builtins", "bytearray"), (4,))),
        (TensorError, Apply(Name("builtins", "bytearray"), ("é", "utf-8"))),
        (TensorError, Apply(Name("builtins", "bytearray"), ("\u1234", "latin-1"))),
        (TensorError, Apply(Name("builtins", "complex"), (1, 2))),
        (TensorError, Apply(Name("builtins", "complex"), (1.0,))),
        (TensorError, Apply(Name("_codecs", "encode"), ("x", "utf-8"))),
        (TensorError, Apply(Name("_codecs", "encode"), ("\u0100", "latin1"))),
        (TensorError, Apply(Name("_codecs", "encode"), (b"x", "latin1"))),
        (UnsupportedError, Apply(Name("builtins", "bytes"), (4,))),
        (UnsupportedError, Apply(Name("_codecs", "decode"), (b"x", "latin1"))),
    ],
)
def test_small_values_of_other_arguments_are_refused(kind: type[SbformatError], tree: object) -> None:
    assert isinstance(refusal(torch_zip(tree)), kind if kind is TensorError else (kind, TensorError))


# -- names that are not known -------------------------------------------------------------------------


UNKNOWN = [
    Apply(EXIT, (3,)),
    EXIT,
    Name("torch", "load"),
    Name("torch", "Tensor"),
    Name("torch._utils", "_rebuild_tensor_v2.__globals__"),
    Apply(Name("torch._utils", "_rebuild_tensor_v4"), ()),
    Apply(Name("torch._utils", "_rebuild_nested_tensor"), (floats((8,)), None, None, None)),
    Apply(Name("torch.storage", "_load_from_bytes"), (b"",)),
    Apply(Name("builtins", "eval"), ("1",)),
    Apply(Name("builtins", "getattr"), (EXIT, "x")),
    Apply(ORDERED_DICT, (), how="NEWOBJ"),
    Apply(ORDERED_DICT, ([["k", 1]],), how="NEWOBJ"),
    Apply(Name("builtins", "set"), ([1],), how="NEWOBJ"),
    Apply(REBUILD_V2, floats((8,)).args, how="NEWOBJ"),
    Apply(REBUILD_V2, floats((8,)).args, how="OBJ"),
    Apply(REBUILD_V2, floats((8,)).args, how="INST"),
    Raw(b"\x82\x01"),
]


@check_each("tree", UNKNOWN)
def test_a_name_that_is_not_known_is_refused_or_kept_inert(tree: object) -> None:
    refuses(UnsupportedError, "", tree, {"0": EIGHT})
    refuses(UnsupportedError, "", {"w": floats((8,)), "x": [tree]}, {"0": EIGHT})
    state_dict = decode({"w": floats((8,)), "x": [tree]}, {"0": EIGHT}, on_unknown="inert")
    assert state_dict["w"].tobytes() == EIGHT
    assert "pkl.tree" in type(state_dict.tree["x"][0]).__module__
    assert state_dict["x"][0] is state_dict.tree["x"][0]


def test_what_is_kept_inert_tells_what_it_would_be() -> None:
    found = decode({"f": Apply(EXIT, (3,)), "c": Name("my", "Class")}, on_unknown="inert").tree
    assert isinstance(found["f"], Call)
    assert (found["f"].func, found["f"].args) == (Global("posix", "_exit"), (3,))
    assert found["c"] == Global("my", "Class")


def test_inert_does_not_excuse_broken_tensors() -> None:
    data = torch_zip({"x": Apply(EXIT, ()), "w": floats((9,))}, {"0": EIGHT})
    refuses_file(TensorError, "9 x 4", data, on_unknown="inert")


def test_names_of_python_2_are_renamed_below_protocol_3_only() -> None:
    tree = Apply(Name("__builtin__", "set"), ([1],))
    assert everything(torch_zip(tree, protocol=2)) == {1}
    refuses_file(UnsupportedError, "__builtin__.set", torch_zip(tree, protocol=3))


def test_a_name_that_was_changed_is_not_the_name() -> None:
    changed = Raw(b"ctorch._utils\n_rebuild_tensor_v2\n}b")
    call = Apply(changed, floats((8,)).args)
    assert type(refusal(torch_zip(call, {"0": EIGHT}))) is UnsupportedError


# -- containers and keys (FORMAT.md 6.6) --------------------------------------------------------------


def test_ordered_dicts() -> None:
    made = decode(ordered({"b": 1, "a": ordered({0: 2})}, {"": {"version": 1}})).to_numpy()
    assert list(made.items()) == [("b", 1), ("a", OrderedDict({0: 2}))]
    assert type(made) is type(made["a"]) is OrderedDict
    assert getattr(made, "_metadata") == {"": {"version": 1}}  # noqa: B009 -- no type of the standard library has it
    assert not hasattr(made["a"], "_metadata")
    by_python_2 = decode(Apply(ORDERED_DICT, ([["a", 1], ("b", 2)],))).to_numpy()
    assert list(by_python_2.items()) == [("a", 1), ("b", 2)]


@check_each(
    "tree",
    [
        Apply(ORDERED_DICT, (), Change("BUILD", {})),
        Apply(ORDERED_DICT, (), Change("BUILD", {"other": 1})),
        Apply(ORDERED_DICT, (), Change("BUILD", {"_metadata": 1, "other": 1})),
        Apply(ORDERED_DICT, (), Change("BUILD", ({"_metadata": 1}, None))),
        Apply(ORDERED_DICT, (), Change("BUILD", None)),
        Apply(ORDERED_DICT, (), Change("BUILD", {"_metadata": 1}), Change("BUILD", {"_metadata": 1})),
        Apply(ORDERED_DICT, (), Change("BUILD", {"_metadata": 1}), Change("SETITEMS", ["a", 1])),
        Apply(ORDERED_DICT, (), Change("APPENDS", ["a"])),
        Apply(ORDERED_DICT, ({"a": 1},)),
        Apply(ORDERED_DICT, ([["a"]],)),
        Apply(ORDERED_DICT, (["ab"],)),
        Apply(ORDERED_DICT, ([], [])),
        Apply(ORDERED_DICT, ([["a", 1]],), Change("SETITEMS", ["a", 2])),
        Apply(ORDERED_DICT, (), Change("SETITEMS", ["a", 1]), Change("SETITEMS", ["a", 2])),
        Pairs(("a", 1), ("a", 1)),
        Pairs((1, 1), (True, 1)),
        Pairs((1, 1), (1.0, 1)),
        Pairs((b"a", 1), (b"a", 1)),
        Pairs(((1, 2), 1), ((1, 2), 1)),
        Pairs(([], 1)),
        Pairs(({}, 1)),
        Pairs((bytearray(), 1)),
        Pairs((((1,),), 1)),
        Pairs((((),), 1)),
        Pairs((tuple(range(9)), 1)),
        Pairs((([],), 1)),
        Pairs((frozenset(), 1)),
        Apply(Name("builtins", "set"), ([[1]],)),
    ],
)
def test_keys_and_attributes_that_no_state_dict_has_are_refused(tree: object) -> None:
    assert type(refusal(torch_zip(tree))) is TensorError


@pytest.mark.parametrize("key", [Name("a", "B"), Apply(EXIT, ()), storage(8), floats((8,))])
def test_a_node_as_a_key_is_unsupported(key: object) -> None:
    assert type(refusal(torch_zip(Pairs((key, 1)), {"0": EIGHT}))) is UnsupportedError
    assert type(refusal(torch_zip({"s": Apply(Name("builtins", "set"), ([key],))}, {"0": EIGHT}))) is UnsupportedError


def test_keys_that_are_read() -> None:
    keys = ["a", "", "a/b", 0, 1, -5, 2**64, None, 1.5, float("inf"), b"raw", (), (1, "x", None), tuple(range(2, 10))]
    assert list(decode(dict.fromkeys(keys)).tree) == keys


def test_bytes_are_keys_in_the_spelling_of_protocol_2_too() -> None:
    assert decode(Pairs((Apply(Name("_codecs", "encode"), ("a", "latin1")), 1))).tree == {b"a": 1}


def test_dense_whole_numbers_are_keys_without_limit() -> None:
    many = dict.fromkeys(range(5000))
    assert decode(many).tree == many
    assert decode({"s": set(range(5000))}).tree["s"] == set(range(5000))


@pytest.mark.parametrize("count", [1023, 1024, 1025, 5000])
def test_other_keys_are_limited(count: int) -> None:
    tree = {94_593_051_500_896 + 16 * number: number for number in range(count)}
    if count <= 1024:
        assert decode(tree).tree == tree
    else:
        refuses(LimitError, "other_keys", tree)
        refuses(LimitError, "other_keys", {"s": set(tree)})
        refuses(LimitError, "other_keys", ordered(tree))
        refuses(LimitError, "other_keys", {(key,): 0 for key in tree})
        refuses(LimitError, "other_keys", {float(key): 0 for key in tree})
        assert decode(tree, limits=Limits(other_keys=count)).tree == tree


def test_the_length_of_a_key_is_limited_in_utf_8() -> None:
    for key in ("a" * 1024, "é" * 512, "\U0001f600" * 256):
        assert list(decode({key: 0}).tree) == [key]
        refuses(LimitError, "tensor_name_bytes", {key + "a": 0})
        refuses(LimitError, "tensor_name_bytes", ordered({key + "a": [0]}))


def test_whole_numbers_of_any_size_are_values_and_cannot_break_a_message() -> None:
    huge = 1 << 70000
    assert decode([huge]).tree == [huge]
    state_dict = pth.loads(torch_zip({huge: 1}))
    assert len(list(state_dict.leaves())) == 1
    with pytest.raises(MissingEntryError):
        state_dict["absent"]


def test_shared_parts_stay_shared() -> None:
    part, weight = [1, 2], floats((8,))
    made = decode({"a": part, "b": part, "c": (weight, weight), "d": weight}, {"0": EIGHT}).to_numpy()
    assert made["a"] is made["b"]
    assert made["c"][0] is made["c"][1] is made["d"]


def test_equal_parts_that_are_not_shared_stay_apart() -> None:
    made = decode({"a": [1], "b": [1], "c": floats((8,)), "d": floats((8,))}, {"0": EIGHT}).to_numpy()
    assert made["a"] is not made["b"]
    assert made["c"] is not made["d"]
    assert np.shares_memory(made["c"], made["d"])


def holding_itself(kind: str) -> object:
    if kind == "list":
        made: Any = []
        made.append([made])
        return made
    if kind == "dict":
        made = {}
        made["a"] = ({"b": made},)
        return made
    made = ordered()
    if kind == "ordered dict":
        made.changes.append(Change("SETITEMS", ["a", [made]]))
    elif kind == "metadata":
        made.changes.append(Change("BUILD", {"_metadata": made}))
    else:
        made = ([],)
        made[0].append(made)
    return made


@pytest.mark.parametrize("kind", ["list", "dict", "ordered dict", "metadata", "tuple"])
def test_what_holds_itself_is_refused(kind: str) -> None:
    if kind == "tuple":  # by way of the memo: a tuple is put there once it is whole
        refuses_file(TensorError, "", torch_zip(b"\x80\x02]q\x00h\x00\x85a."))
    else:
        refuses(TensorError, "", holding_itself(kind))


@pytest.mark.parametrize("opening", [b"]", b"}K\x00", b"("])
def test_depth_is_limited_along_the_path(opening: bytes) -> None:
    closing = {b"]": b"a", b"}K\x00": b"s", b"(": b"t"}[opening]
    for depth, limits in ((200, Limits()), (5, Limits(value_depth=5))):
        pickled = b"\x80\x02" + opening * depth + b"N" + closing * depth + b"."
        assert pth.loads(torch_zip(pickled), limits=limits).to_numpy() is not None
        deeper = b"\x80\x02" + opening * (depth + 1) + b"N" + closing * (depth + 1) + b"."
        refuses_file(LimitError, "value_depth", torch_zip(deeper), limits=limits)


def test_depth_is_not_hidden_by_a_shared_part_that_grew() -> None:
    # the part is made before what it is put into: a depth kept with each part would be the shallow one's
    inner = b"]q\x00"
    chain = b"".join(b"]q%c" % (n + 1) + b"h%c" % n + b"a0" for n in range(100))
    pickled = b"\x80\x02" + inner + b"0" + chain + b"h\x00" + b"]" * 150 + b"a" * 150 + b"0" + b"hd."
    assert isinstance(refusal(torch_zip(pickled)), (LimitError, TensorError))


def test_the_pickles_own_limits_hold() -> None:
    tree = [[n] for n in range(100)]
    assert decode(tree).tree == tree
    for name in ("pickle_opcodes", "pickle_nodes", "pickle_memo", "pickle_bytes"):
        with pytest.raises(LimitError, match=name):
            decode(tree, limits=Limits()._replace(**{name: 50}))


def test_a_bare_storage_is_an_array_of_its_items() -> None:
    typed = decode({"s": storage(8)}, {"0": EIGHT})
    assert isinstance(typed.tree["s"], Storage)
    assert typed["s"].tobytes() == EIGHT
    assert typed["s"].dtype == np.float32
    untyped = decode({"s": storage(32, "0", UNTYPED)}, {"0": EIGHT})
    assert untyped["s"].dtype == np.uint8
    assert untyped["s"].tobytes() == EIGHT


def test_an_argument_is_what_it_was_when_the_call_was_made() -> None:
    # a list handed to set() and changed afterwards: the set keeps what it got
    pickled = b"\x80\x02(]q\x00K\x01a0c__builtin__\nset\nh\x00\x85Rh\x00K\x02a0t."
    data = torch_zip(pickled)
    assert pickle.loads(pickled) == ({1},)
    with suppress(SbformatError):
        assert everything(data) == ({1},)


def test_numbers_keep_their_bits() -> None:
    nan = Raw(b"G\x7f\xf8\0\0\0\0\0\x07")
    made = decode([nan, -0.0, whole(5) and 5, 1e308]).to_numpy()
    assert np.array(made[0]).tobytes() == b"\x07\0\0\0\0\0\xf8\x7f"
    assert np.signbit(made[1])
