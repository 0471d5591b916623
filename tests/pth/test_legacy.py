"""The legacy stream on hand-made files: every rule of FORMAT.md 7, kept and broken."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from conformance.generators.build_pth import (
    LEGACY_PROTOCOL,
    MAGIC,
    REBUILD_PARAMETER,
    REBUILD_V3,
    SYSTEM,
    UNTYPED,
    Apply,
    Name,
    Persist,
    Run,
    dumps,
    legacy_stream,
    ordered,
    storage,
    tensor,
)
from sbformat import LimitError, Limits, PickleError, SbformatError, TensorError, UnsupportedError, pth
from tests.helpers.many_cases import check_each
from tests.helpers.pth_checks import everything, refusal

EIGHT = np.arange(8, dtype="<f4").tobytes()
OTHER = np.arange(10, 18, dtype="<f4").tobytes()
RUN = Run("0", 8, EIGHT)


def whole(numel: int = 8, key: str = "0", cls: str | Name = "FloatStorage", location: str = "cpu") -> Persist:
    """A storage without a view."""
    return storage(numel, key, cls, location, None)


def viewed(view: object, numel: int = 8, key: str = "0") -> Persist:
    return storage(numel, key, "FloatStorage", "cpu", view)


def refuses(kind: type[SbformatError], words: str, data: bytes) -> None:
    error = refusal(data)
    assert type(error) is kind, error
    assert words in str(error)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_five_pickles_and_the_storages(protocol: int) -> None:
    data = legacy_stream({"w": tensor(whole(), (2, 3), None, 1)}, [RUN], protocol=protocol)
    state_dict = pth.loads(data)
    info = state_dict.info("w")
    assert (info.dtype, info.shape, info.strides, info.offset) == ("float32", (2, 3), (3, 1), 1)
    assert info.storage.byte_order == "little"
    assert state_dict["w"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_the_order_of_the_runs_is_that_of_the_list() -> None:
    tree = [tensor(whole(8, "a"), (8,)), tensor(whole(8, "b"), (8,))]
    runs = [Run("b", 8, OTHER), Run("a", 8, EIGHT)]
    first, second = everything(legacy_stream(tree, runs))
    assert (first.tobytes(), second.tobytes()) == (EIGHT, OTHER)


def test_each_run_has_the_item_size_of_its_storage() -> None:
    kinds = {
        "d": ("DoubleStorage", "<f8"),
        "b": ("BoolStorage", "?"),
        "h": ("HalfStorage", "<f2"),
        "c": ("CharStorage", "i1"),
    }
    tree = {key: tensor(whole(3, key, cls), (3,)) for key, (cls, _) in kinds.items()}
    values = {key: np.array([0, 1, 1]).astype(code) for key, (_, code) in kinds.items()}
    runs = [Run(key, 3, value.tobytes()) for key, value in values.items()]
    made = everything(legacy_stream(tree, runs))
    for key, value in values.items():
        assert made[key].dtype == value.dtype
        assert made[key].tobytes() == value.tobytes()


def test_empty_storages_and_files_without_any() -> None:
    assert everything(legacy_stream({"a": 1})) == {"a": 1}
    made = everything(legacy_stream([tensor(whole(0, "e"), (0,)), tensor(whole(), (8,))], [Run("e", 0, b""), RUN]))
    assert (made[0].shape, made[1].tobytes()) == ((0,), EIGHT)


def test_many_ordered_dicts_hold_their_storages() -> None:
    count = 50
    tree = {f"d{n}": ordered({"w": tensor(whole(1, str(n)), (1,))}) for n in range(count)}
    runs = [Run(str(n), 1, struct.pack("<f", n)) for n in range(count)]
    made = everything(legacy_stream(tree, runs))
    assert [made[f"d{n}"]["w"].item() for n in range(count)] == list(range(count))


def test_shared_storages_share_memory() -> None:
    store = whole()
    made = everything(legacy_stream([tensor(store, (8,)), tensor(store, (4,), None, 4), tensor(whole(), (2,))], [RUN]))
    assert np.shares_memory(made[0], made[1])
    assert np.shares_memory(made[0], made[2])
    assert not made[0].flags.writeable


def test_the_writers_byte_order_changes_nothing() -> None:
    # torch writes little-endian storages on every machine, and does not look at the flag
    tree = tensor(whole(), (8,))
    for system in (SYSTEM, {**SYSTEM, "little_endian": False}, {**SYSTEM, "type_sizes": {}, "protocol_version": 0}):
        assert everything(legacy_stream(tree, [RUN], system=system)).tobytes() == EIGHT


def test_untyped_storages_count_bytes() -> None:
    info = Apply(REBUILD_V3, (whole(4, "0", UNTYPED), 0, (2,), (1,), False, ordered(), Name("torch", "uint16")))
    assert everything(legacy_stream(info, [Run("0", 4, b"\1\0\2\0")])).tolist() == [1, 2]


# -- the head -----------------------------------------------------------------------------------------


@check_each("magic", [MAGIC + 1, 0, "magic", None, float(MAGIC), ordered(), {}])
def test_another_first_value_is_another_pickle(magic: object) -> None:
    refuses(UnsupportedError, "magic number", legacy_stream([], magic=magic))


@pytest.mark.parametrize("version", [LEGACY_PROTOCOL + 1, 0, "1001", None, {}])
def test_another_protocol_is_refused(version: object) -> None:
    refuses(TensorError, "expected 1001 as the protocol", legacy_stream([], version=version))


@check_each(
    "system",
    [None, [], {}, {"little_endian": True}, {**SYSTEM, "more": 1}, {**SYSTEM, "protocol_version": 1} | {1: 2, "x": 1}],
)
def test_another_third_pickle_is_refused(system: object) -> None:
    refuses(TensorError, "writer's system", legacy_stream([], system=system))


@pytest.mark.parametrize("count", range(5))
def test_a_file_that_ends_between_its_pickles_is_refused(count: int) -> None:
    parts = [MAGIC, LEGACY_PROTOCOL, SYSTEM, {"w": tensor(whole(), (8,))}, ["0"]]
    assert isinstance(refusal(b"".join(dumps(part) for part in parts[:count])), SbformatError)


def test_every_truncation_is_refused() -> None:
    data = legacy_stream({"w": tensor(whole(), (8,))}, [RUN])
    for size in range(len(data)):
        assert type(refusal(data[:size])) in (PickleError, TensorError, UnsupportedError)


def test_every_flipped_byte_is_refused_or_changes_only_values() -> None:
    data = legacy_stream({"w": tensor(whole(), (8,)), "n": 5}, [RUN])
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(data)
            broken[at] ^= flip
            try:
                everything(bytes(broken))
            except SbformatError:
                continue


@pytest.mark.parametrize("left", [b"\x80\x02K\x01}.", b"\x80\x02(}."])
def test_values_left_behind_by_the_object_or_the_keys_are_refused(left: bytes) -> None:
    refuses(TensorError, "left on the stack", legacy_stream(left))
    refuses(TensorError, "left on the stack", legacy_stream([], keys=left))


# -- the storages -------------------------------------------------------------------------------------


@check_each(
    ("keys", "words"),
    [
        (("0",), "a list of texts"),
        ({"0": 1}, "a list of texts"),
        ([0], "a list of texts"),
        ([b"0"], "a list of texts"),
        (None, "a list of texts"),
        (["0", "0"], "contains one twice"),
        (["1"], "not in the list of keys"),
        ([], "not in the list of keys"),
        (["0", "1"], "no tensor uses it"),
    ],
)
def test_a_list_of_keys_that_does_not_fit_is_refused(keys: object, words: str) -> None:
    tree = {"w": tensor(whole(), (8,))}
    raw = dumps(keys)
    refuses(TensorError, words, legacy_stream(tree, [RUN], keys=raw))


@check_each("count", [0, 7, 9, 2**63 - 1, -1, -(2**63)])
def test_a_count_that_differs_from_the_tensors_is_refused(count: int) -> None:
    tree = {"w": tensor(whole(), (8,))}
    assert everything(legacy_stream(tree, [Run("0", 8, EIGHT)]))["w"].tobytes() == EIGHT
    refuses(TensorError, "expected 8 elements", legacy_stream(tree, [Run("0", count, EIGHT)]))


def test_a_storage_that_is_cut_short_is_refused() -> None:
    tree = {"w": tensor(whole(), (8,))}
    refuses(TensorError, "expected 32 bytes, got 31", legacy_stream(tree, [Run("0", 8, EIGHT[:-1])]))
    huge = {"w": tensor(whole(2**62), (8,))}
    refuses(TensorError, "bytes, got 32", legacy_stream(huge, [Run("0", 2**62, EIGHT)]))


@pytest.mark.parametrize("tail", [b"\0", b".", EIGHT])
def test_bytes_behind_the_last_storage_are_refused(tail: bytes) -> None:
    refuses(TensorError, "follow the last storage", legacy_stream([tensor(whole(), (8,))], [RUN], tail=tail))
    refuses(TensorError, "follow the last storage", legacy_stream([], tail=tail))


@check_each(
    "second",
    [
        whole(8, "0", "IntStorage"),
        whole(4, "0", "DoubleStorage"),
        whole(7),
        whole(8, "0", "FloatStorage", "cuda:0"),
        viewed(("v", 0, 7), 7),
        storage(8, "0", "IntStorage", "cpu", ("v", 0, 8)),
    ],
)
def test_one_key_has_one_class_and_size(second: Persist) -> None:
    tree = [tensor(whole(), (8,)), second]
    assert isinstance(refusal(legacy_stream(tree, [RUN])), TensorError)


@check_each(
    "reference",
    [
        storage(8),
        Persist(("storage", Name("torch", "FloatStorage"), "0", "cpu", 8, None, None)),
        Persist("0"),
        whole(8, "0", "os.system"),
        whole(-1),
        whole(True),
        viewed(()),
        viewed(("v",)),
        viewed(("v", 0)),
        viewed(["v", 0, 8]),
        viewed((0, 0, 8)),
        viewed((None, 0, 8)),
        viewed(("v", -1, 8)),
        viewed(("v", 0, -1)),
        viewed(("v", True, 1)),
        viewed(("v", 0, 1.0)),
        viewed(("v", 0, 2**63)),
        viewed(("v", 0, 9)),
        viewed(("v", 1, 8)),
        viewed(("v", 9, 0)),
    ],
)
def test_a_persistent_id_of_another_form_is_refused(reference: Persist) -> None:
    assert type(refusal(legacy_stream([tensor(reference, (1,))], [RUN]))) is TensorError


def test_a_view_is_a_part_of_its_storage() -> None:
    middle = everything(legacy_stream([tensor(viewed(("v", 2, 4)), (2, 2))], [RUN]))[0]
    assert middle.tolist() == [[2, 3], [4, 5]]
    nothing = everything(legacy_stream([tensor(viewed(("v", 8, 0)), (0,))], [RUN]))[0]
    assert nothing.shape == (0,)


def test_a_tensor_may_not_leave_its_view() -> None:
    refuses(TensorError, "reaches element 4", legacy_stream([tensor(viewed(("v", 2, 4)), (5,))], [RUN]))
    refuses(TensorError, "reaches element 4", legacy_stream([tensor(viewed(("v", 2, 4)), (1,), None, 4)], [RUN]))


def test_views_of_one_storage_share_its_memory() -> None:
    tree = [tensor(whole(), (8,)), tensor(viewed(("v", 2, 4)), (4,)), tensor(viewed(("w", 4, 4)), (4,))]
    made = everything(legacy_stream(tree, [RUN]))
    assert [array.tolist() for array in made[1:]] == [[2, 3, 4, 5], [4, 5, 6, 7]]
    assert np.shares_memory(made[0], made[1])
    assert np.shares_memory(made[1], made[2])


@pytest.mark.parametrize(
    ("references", "runs"),
    [
        ([viewed(("v", 0, 2)), viewed(("v", 4, 2))], "0"),
        ([viewed(("v", 0, 2)), viewed(("v", 4, 2), 8, "1")], "01"),
        ([whole(), viewed(("0", 4, 2))], "0"),
        ([whole(8, "1"), viewed(("1", 4, 2))], "01"),
    ],
    ids=["another part", "of another storage", "named as its storage", "named as another storage"],
)
def test_one_view_key_names_one_view(references: list[Persist], runs: str) -> None:
    # torch keeps views and storages in one table, and takes the first of a name for all of them
    tree = [tensor(reference, (2,)) for reference in references]
    assert isinstance(
        refusal(legacy_stream(tree, [Run(key, 8, {"0": EIGHT, "1": OTHER}[key]) for key in runs])), TensorError
    )


def test_a_whole_module_is_unsupported() -> None:
    module = Persist(("module", Name("models", "Net"), "models.py", "class Net: ..."))
    refuses(UnsupportedError, "nn.Module", legacy_stream(module))


def test_parameters_and_unknown_names_as_in_the_zip() -> None:
    parameter = Apply(REBUILD_PARAMETER, (tensor(whole(), (8,)), True, ordered()))
    assert pth.loads(legacy_stream(parameter, [RUN])).tree.is_parameter
    unknown: Any = {"x": Apply(Name("os", "system"), ("id",)), "w": tensor(whole(), (8,))}
    refuses(UnsupportedError, "system", legacy_stream(unknown, [RUN]))
    assert pth.loads(legacy_stream(unknown, [RUN]), on_unknown="inert")["w"].tobytes() == EIGHT


def test_the_number_of_storages_is_limited() -> None:
    tree = [tensor(whole(0, str(n)), (0,)) for n in range(5)]
    data = legacy_stream(tree, [Run(str(n), 0, b"") for n in range(5)])
    assert len(everything(data)) == 5
    with pytest.raises(LimitError, match="inner_entries"):
        pth.loads(data, limits=Limits(inner_entries=4))


def test_long_pickles_are_read_by_growing_windows() -> None:
    # each pickle is longer than the first window that is copied from the file
    text = "x" * 70_000
    data = legacy_stream([text, text[1:] * 5, tensor(whole(), (8,))], [RUN])
    made = everything(data)
    assert (made[0], made[2].tobytes()) == (text, EIGHT)
    for size in (65_536, 70_000, 300_000, len(data) - 33):
        assert isinstance(refusal(data[:size]), SbformatError)


def test_an_error_tells_where_in_the_file_it_is() -> None:
    before = len(dumps(MAGIC)) + len(dumps(LEGACY_PROTOCOL)) + len(dumps(SYSTEM))
    error = refusal(legacy_stream(b"\x80\x02]\xfe."))
    assert type(error) is PickleError
    assert error.offset is not None
    assert error.offset >= before
