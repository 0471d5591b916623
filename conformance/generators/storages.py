"""Persistent ids, storages, geometry, dtypes and byte orders (FORMAT.md 6.3, 6.4)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from conformance.generators import expected
from conformance.generators.build_pth import (
    REBUILD_V2,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Name,
    Persist,
    Raw,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, EIGHT, pth, reversed_groups
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

FLOAT: Final = Name("torch", "FloatStorage")
TWO: Final = expected.lone(expected.floats(0, 1))
"""The first two of ``EIGHT``."""
WHOLE: Final = expected.lone(expected.floats(*range(8)))


class Items(NamedTuple):
    """Three items of a dtype."""

    raw: bytes
    swap: int = 1
    """Number of bytes that a big-endian machine writes in the opposite order."""
    cls: str = ""
    """The storage class; untyped storages hold the others."""


ITEMS: Final = {
    "bool": Items(b"\0\1\1", 1, "BoolStorage"),
    "uint8": Items(b"\0\x7f\xff", 1, "ByteStorage"),
    "int8": Items(b"\0\x7f\x80", 1, "CharStorage"),
    "uint16": Items(struct.pack("<3H", 1, 256, 65535), 2),
    "int16": Items(struct.pack("<3h", 1, 256, -1), 2, "ShortStorage"),
    "uint32": Items(struct.pack("<3I", 1, 65536, 2**32 - 1), 4),
    "int32": Items(struct.pack("<3i", 1, 65536, -1), 4, "IntStorage"),
    "uint64": Items(struct.pack("<3Q", 1, 2**32, 2**64 - 1), 8),
    "int64": Items(struct.pack("<3q", 1, 2**32, -1), 8, "LongStorage"),
    "float16": Items(struct.pack("<3e", 1.0, -2.5, 2.0**-24), 2, "HalfStorage"),
    "bfloat16": Items(b"\x80\x3f\x00\xc0\xc0\x3f", 2, "BFloat16Storage"),
    "float32": Items(struct.pack("<3f", 1.0, -2.5, 2.0**-149), 4, "FloatStorage"),
    "float64": Items(struct.pack("<3d", 1.0, -2.5, 5e-324), 8, "DoubleStorage"),
    "complex32": Items(struct.pack("<6e", 1.0, -2.5, 0.0, 1.0, 2.0**-24, -0.0), 2, "ComplexHalfStorage"),
    "complex64": Items(struct.pack("<6f", 1.0, -2.5, 0.0, 1.0, 2.0**-149, -0.0), 4, "ComplexFloatStorage"),
    "complex128": Items(struct.pack("<6d", 1.0, -2.5, 0.0, 1.0, 5e-324, -0.0), 8, "ComplexDoubleStorage"),
    "float8_e4m3fn": Items(b"\x38\xb8\x7f"),
    "float8_e4m3fnuz": Items(b"\x40\xc0\x80"),
    "float8_e5m2": Items(b"\x3c\xbc\x7d"),
    "float8_e5m2fnuz": Items(b"\x40\xc0\x80"),
    "float8_e8m0fnu": Items(b"\x7f\x80\xff"),
}
"""Every dtype of 6.4 except the quantized ones; little-endian."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from persistent_ids()
    yield from classes()
    yield from id_parts()
    yield from record_sizes()
    yield from one_class_a_key()
    yield from shared()
    yield from whole_numbers()
    yield from shapes_and_strides()
    yield from products()
    yield from bounds()
    yield from expanded()
    yield from dtypes()
    yield from big_endian()
    yield from bools()
    yield from bits()


# -- persistent ids and storages (6.3) ----------------------------------------------------------------


def over(reference: object, shape: tuple[int, ...] = (2,), storages: dict[str, bytes] | None = None) -> bytes:
    """A file of one tensor over a storage."""
    return pth(tensor(reference, shape), DATA if storages is None else storages)


def persistent_ids() -> Iterator[Vector]:
    rule = Rule("6.3", 'A persistent id is the tuple `("storage", class, key, location, numel)`')
    parts = ("storage", FLOAT, "0", "cpu", 8)
    yield rule.accepts("storage-id", over(Persist(parts)), TWO)
    yield rule.accepts("storage-id-alone", pth(Persist(parts), DATA), expected.lone(expected.storage("float32", EIGHT)))
    for name, reference in {
        "text": Persist("0"),
        "line": Raw(b"P0\n"),
        "four-items": Persist(parts[:4]),
        "six-items": Persist((*parts, None)),
        "list": Persist(list(parts)),
        "tag-of-bytes": Persist((b"storage", *parts[1:])),
        "other-tag": Persist(("Storage", *parts[1:])),
    }.items():
        yield rule.refuses(f"storage-id-{name}", pth(reference, DATA), "tensor failure")
    yield rule.refuses("storage-id-not-persistent", over(parts), "tensor failure")
    yield rule.refuses("storage-none", over(None), "tensor failure")

    rule = Rule("6.3", 'An id that starts with `"module"` is an entire `nn.Module`: unsupported.')
    module = Persist(("module", Name("models", "Net"), "models.py", "class Net: ..."))
    yield rule.refuses("storage-id-of-a-module", pth(module), "unsupported")


def classes() -> Iterator[Vector]:
    rule = Rule("6.3", "`class` is a global of this list: `torch.<X>Storage`, or `torch.cuda.<X>Storage`")
    cuda = storage(8, "0", Name("torch.cuda", "FloatStorage"), "cuda:1")
    yield rule.accepts("storage-class-of-cuda", over(cuda), TWO)
    for name, dtype in {"QInt8": "qint8", "QUInt8": "quint8", "QInt32": "qint32"}.items():
        held = expected.lone(expected.storage(dtype, EIGHT))
        made = pth(storage(8 if dtype == "qint32" else 32, "0", f"{name}Storage"), DATA)
        yield rule.accepts(f"storage-class-{dtype}", made, held, features=("quantized",))

    rule = Rule("6.3", "`torch.storage.UntypedStorage` or `torch.UntypedStorage`, which has no dtype and counts bytes")
    for name, cls in {"": UNTYPED, "-of-torch": Name("torch", "UntypedStorage")}.items():
        made = pth(storage(32, "0", cls), DATA)
        yield rule.accepts(f"storage-class-untyped{name}", made, expected.lone(expected.storage(None, EIGHT)))
    yield rule.refuses("storage-untyped-counted-in-items", pth(storage(8, "0", UNTYPED), DATA), "tensor failure")

    rule = Rule("6.3", "which pack several items into a byte, are unsupported")
    for name in ("QUInt4x2Storage", "QUInt2x4Storage"):
        made = pth(storage(32, "0", name), DATA)
        yield rule.refuses(f"storage-class-{name.removesuffix('Storage').lower()}", made, "unsupported")

    rule = Rule("6.3", "Any other class is an error.")
    for name, cls in {
        "unknown": Name("torch", "QuantumStorage"),
        "of-another-module": Name("torch.storage", "FloatStorage"),
        "harmful": Name("posix", "system"),
        "as-text": "torch.FloatStorage",
        "called": Apply(FLOAT, ()),
    }.items():
        made = over(Persist(("storage", cls, "0", "cpu", 8)))
        yield rule.refuses(f"storage-class-{name}", made, "tensor failure")


def id_parts() -> Iterator[Vector]:
    rule = Rule("6.3", "`key` and `location` are text; `numel` is an integer, 0 <= numel < 2^63.")
    for name, key in {"text": "w", "slash": "a/b", "beyond-ascii": "é", "space": "a b"}.items():
        yield rule.accepts(f"storage-key-{name}", over(storage(8, key), storages={key: EIGHT}), TWO)
    empty = over(storage(0), (0,), {"0": b""})
    yield rule.accepts("storage-numel-0", empty, expected.lone(expected.floats()))
    for name, reference in {
        "key-number": storage(8, 0),
        "key-bytes": storage(8, b"0"),
        "location-none": storage(8, "0", FLOAT, None),
        "numel-float": storage(8.0),
        "numel-negative": storage(-8),
        "numel-2-to-63": storage(2**63),
    }.items():
        yield rule.refuses(f"storage-{name}", over(reference), "tensor failure")
    yield rule.refuses("storage-numel-bool", over(storage(True), (1,), {"0": EIGHT[:4]}), "tensor failure")

    rule = Rule("6.3", "The location (`cpu`, `cuda:0`) is informative: it has no effect on a reader.")
    for name, location in {"cuda": "cuda:0", "unknown": "a place", "empty": ""}.items():
        yield rule.accepts(f"storage-location-{name}", over(storage(8, "0", FLOAT, location)), TWO)


def record_sizes() -> Iterator[Vector]:
    rule = Rule("6.3", "The record `data/<key>` MUST exist and have exactly numel x itemsize bytes")
    yield rule.accepts("storage-record", over(storage(8), (8,)), WHOLE)
    for name, reference, storages in (
        ("missing", storage(8, "1"), DATA),
        ("of-another-case", storage(8, "A"), {"a": EIGHT}),
        ("outside", storage(8, "../byteorder"), DATA),
        ("numel-less", storage(7), DATA),
        ("numel-more", storage(9), DATA),
        ("of-larger-items", storage(8, "0", "DoubleStorage"), DATA),
        ("numel-0-of-8", storage(0), DATA),
        ("numel-that-wraps", storage(2**62 + 8), DATA),
    ):
        made = over(reference, (0,) if name == "numel-0-of-8" else (2,), storages)
        yield rule.refuses(f"storage-record-{name}", made, "tensor failure")


def one_class_a_key() -> Iterator[Vector]:
    rule = Rule("6.3", "One key has one class (that is, dtype), location and numel throughout the file.")
    bare = expected.storage("float32", EIGHT)
    same = pth([storage(8), storage(8, "0", Name("torch.cuda", "FloatStorage"))], DATA)
    yield rule.accepts("storage-key-twice", same, expected.lone({"list": [bare, bare]}))
    for name, second in {
        "dtypes": storage(8, "0", "IntStorage"),
        "typed-and-untyped": storage(32, "0", UNTYPED),
        "locations": storage(8, "0", FLOAT, "cuda:0"),
        "numels": storage(7),
    }.items():
        yield rule.refuses(f"storage-key-of-two-{name}", pth([storage(8), second], DATA), "tensor failure")


def shared() -> Iterator[Vector]:
    rule = Rule("6.3", "Tensors with the same key share memory")
    store = storage(8)
    made = pth([tensor(store, (2, 2)), tensor(store, (4,), None, 4), tensor(storage(8), (1,), None, 3)], DATA)
    held = [expected.floats(0, 1, 2, 3, shape=(2, 2)), expected.floats(4, 5, 6, 7), expected.floats(3)]
    yield rule.accepts("storage-shared", made, expected.lone({"list": held}))


# -- geometry (6.4) -----------------------------------------------------------------------------------


def geometry(shape: object, strides: object, offset: object = 0, data: bytes = EIGHT) -> bytes:
    """A file of one float32 tensor with any geometry."""
    call = Apply(REBUILD_V2, (storage(len(data) // 4), offset, shape, strides, False, ordered()))
    return pth(call, {"0": data})


def whole_numbers() -> Iterator[Vector]:
    rule = Rule("6.4", "offset, sizes and strides are integers, >= 0 and < 2^63")
    yield rule.accepts("geometry-offset", geometry((2,), (1,), 3), expected.lone(expected.floats(3, 4)))
    yield rule.accepts("geometry-scalar", geometry((), (), 7), expected.lone(expected.floats(7, shape=())))
    largest = geometry((0,), (2**63 - 1,), 2**63 - 1)
    yield rule.accepts("geometry-largest-numbers", largest, expected.lone(expected.floats()))
    one = geometry((1,), (2**63 - 1,), 7)
    yield rule.accepts("geometry-largest-stride-of-one-item", one, expected.lone(expected.floats(7)))
    for name, shape, strides, offset in (
        ("size-negative", (-1,), (1,), 0),
        ("size-bool", (True,), (1,), 0),
        ("size-2-to-63", (2**63, 0), (1, 1), 0),
        ("stride-negative", (2,), (-1,), 7),
        ("stride-bool", (2,), (True,), 0),
        ("stride-2-to-63", (1,), (2**63,), 0),
        ("offset-negative", (2,), (1,), -1),
        ("offset-bool", (2,), (1,), True),
        ("offset-2-to-63", (0,), (1,), 2**63),
    ):
        yield rule.refuses(f"geometry-{name}", geometry(shape, strides, offset), "tensor failure")


def shapes_and_strides() -> Iterator[Vector]:
    rule = Rule("6.4", "shape and strides are tuples of the same length, at most the limit on rank")
    for name, shape, strides in (
        ("stride-missing", (2, 2), (1,)),
        ("stride-too-many", (), (1,)),
        ("lists", [2], [1]),
        ("size-object", Apply(SIZE, ((2,),)), (1,)),
    ):
        yield rule.refuses(f"geometry-{name}", geometry(shape, strides), "tensor failure")
    held = expected.lone(expected.floats(0, shape=(1,) * 32))
    yield rule.accepts("geometry-rank-32", geometry((1,) * 32, (1,) * 32), held)
    yield rule.refuses("geometry-rank-33", geometry((1,) * 33, (1,) * 33), "limit exceeded")
    three = geometry((1, 2, 1), (2, 1, 1))
    held = expected.lone(expected.floats(0, 1, shape=(1, 2, 1)))
    yield rule.accepts("geometry-rank-limit-kept", three, held, "--limit", "tensor_rank=3")
    yield rule.refuses("geometry-rank-limit-passed", three, "limit exceeded", "--limit", "tensor_rank=2")


def products() -> Iterator[Vector]:
    rule = Rule("6.4", "the product of the sizes, with 1 in place of 0, is below 2^59")
    below = (2**30, 0, 2**28)
    held = expected.lone(expected.floats(shape=below))
    yield rule.accepts("geometry-product-2-to-58", geometry(below, (0, 0, 0)), held)
    for name, shape in {"2-to-59": (2**30, 0, 2**29), "2-to-64": (2**32, 2**32, 0), "one-size": (0, 2**62)}.items():
        yield rule.refuses(f"geometry-product-{name}", geometry(shape, (0,) * len(shape)), "tensor failure")
    view = geometry((2**30, 2**29), (0, 0))
    limit = f"expanded_items={2**60}"
    yield rule.refuses("geometry-product-of-a-view", view, "tensor failure", "--limit", limit)


def bounds() -> Iterator[Vector]:
    rule = Rule("6.4", "`offset + sum((size - 1) x stride)` MUST be below the number of items of the storage")
    for name, shape, strides, offset, values in (
        ("last", (1,), (1,), 7, [7]),
        ("rows", (2, 4), (4, 1), 0, range(8)),
        ("columns", (4, 2), (1, 4), 0, [0, 4, 1, 5, 2, 6, 3, 7]),
        ("every-second", (4,), (2,), 1, [1, 3, 5, 7]),
        ("channels-last", (1, 2, 2, 2), (8, 1, 4, 2), 0, [0, 2, 4, 6, 1, 3, 5, 7]),
    ):
        held = expected.lone(expected.floats(*values, shape=shape))
        yield rule.accepts(f"geometry-within-{name}", geometry(shape, strides, offset), held)
    for name, shape, strides, offset in (
        ("size", (9,), (1,), 0),
        ("offset", (8,), (1,), 1),
        ("offset-alone", (1,), (1,), 8),
        ("offset-of-a-scalar", (), (), 8),
        ("stride", (2, 4), (5, 1), 0),
        ("of-an-empty-storage", (1,), (0,), 0),
    ):
        data = b"" if name == "of-an-empty-storage" else EIGHT
        yield rule.refuses(f"geometry-beyond-{name}", geometry(shape, strides, offset, data), "tensor failure")
    rule = Rule("6.4", "in arithmetic that cannot overflow")
    for name, shape, strides, offset in (
        ("63-bits", (2, 2), (2**62, 2**62), 0),
        ("64-bits", (2,) * 4, (2**62,) * 4, 0),
        ("53-bits", (2,), (2**53 + 1,), 0),
    ):
        yield rule.refuses(f"geometry-overflow-{name}", geometry(shape, strides, offset), "tensor failure")
    rule = Rule("6.4", "unless a size is 0")
    for name, shape, strides, offset in (
        ("beyond", (0,), (1,), 1000),
        ("large-strides", (2, 0, 3), (2**62, 3, 2**62), 0),
    ):
        made = geometry(shape, strides, offset)
        yield rule.accepts(f"geometry-empty-{name}", made, expected.lone(expected.floats(shape=shape)))

    rule = Rule("6.4", "(bytes / itemsize, rounded down, if it is untyped)")
    odd = EIGHT[:11]
    held = expected.lone(expected.floats(0, 1))
    yield rule.accepts("geometry-untyped-rounded-down", pth(untyped("float32", 2, 11), {"0": odd}), held)
    yield rule.refuses("geometry-untyped-part-of-an-item", pth(untyped("float32", 3, 11), {"0": odd}), "tensor failure")


def untyped(dtype: str, items: int, size: int, offset: int = 0) -> Apply:
    """A vector over an untyped storage of that many bytes."""
    store = storage(size, "0", UNTYPED)
    return Apply(REBUILD_V3, (store, offset, (items,), (1,), False, ordered(), Name("torch", dtype)))


def expanded() -> Iterator[Vector]:
    rule = Rule("6.4", "overlapping and zero strides are valid")
    for name, shape, strides, offset, values in (
        ("overlapping", (3, 3), (1, 1), 0, [0, 1, 2, 1, 2, 3, 2, 3, 4]),
        ("zero-stride", (3, 2), (0, 1), 6, [6, 7, 6, 7, 6, 7]),
    ):
        held = expected.lone(expected.floats(*values, shape=shape))
        yield rule.accepts(f"geometry-{name}", geometry(shape, strides, offset), held)
    rule = Rule("6.4", "may exceed four times that of its storage only up to the limit `expanded_items`")
    four = expected.lone(expected.floats(1, 1, 1, 1))
    one = EIGHT[4:8]
    yield rule.accepts(
        "geometry-expanded-four-times", geometry((4,), (0,), 0, one), four, "--limit", "expanded_items=0"
    )
    five = geometry((5,), (0,), 0, one)
    held = expected.lone(expected.floats(*[1] * 5))
    yield rule.accepts("geometry-expanded-limit-kept", five, held, "--limit", "expanded_items=5")
    yield rule.refuses("geometry-expanded-limit-passed", five, "limit exceeded", "--limit", "expanded_items=4")
    huge = geometry((2**24 + 1,), (0,), 0, one)
    yield rule.refuses("geometry-expanded-beyond-the-default", huge, "limit exceeded")
    rule = Rule("8.1", "expanded_items += max(0, expanded, all - 8 x stored)")
    store = storage(1, "0", "ByteStorage")
    made = pth([tensor(store, (4,), (0,)) for _ in range(3)], {"0": b"\7"})
    held = expected.lone({"list": [expected.tensor("uint8", (4,), b"\7" * 4)] * 3})
    yield rule.accepts("geometry-all-items-limit-kept", made, held, "--limit", "expanded_items=4")
    yield rule.refuses("geometry-all-items-limit-passed", made, "limit exceeded", "--limit", "expanded_items=3")


# -- dtypes and byte orders (6.4) ---------------------------------------------------------------------


def three(dtype: str, *more: object) -> Apply:
    """Three items of a dtype, in a storage of its class if it has one."""
    items = ITEMS[dtype]
    if items.cls:
        return tensor(storage(3, "0", items.cls), (3,), None, 0, False, *more)
    return untyped(dtype, 3, len(items.raw))


def dtypes() -> Iterator[Vector]:
    rule = Rule("6.4", "| dtype | bytes | swapped by |")
    for dtype, items in ITEMS.items():
        held = expected.lone(expected.tensor(dtype, (3,), items.raw))
        name = dtype.replace("_", "-")
        yield rule.accepts(f"geometry-dtype-{name}", pth(three(dtype), {"0": items.raw}), held)


def big_endian() -> Iterator[Vector]:
    rule = Rule("6.4", 'each group of "swapped by" bytes in a storage is reversed', "big-endian")
    for dtype in ("uint8", "int16", "bfloat16", "float32", "int64", "complex32", "complex64", "complex128"):
        items = ITEMS[dtype]
        made = pth(three(dtype), {"0": reversed_groups(items.raw, items.swap)}, byte_order=b"big")
        yield rule.accepts(f"geometry-big-endian-{dtype}", made, expected.lone(expected.tensor(dtype, (3,), items.raw)))
    swapped = reversed_groups(EIGHT, 4)
    view = pth(tensor(storage(8), (2, 2), (1, 4), 1), {"0": swapped}, byte_order=b"big")
    held = expected.lone(expected.floats(1, 5, 2, 6, shape=(2, 2)))
    yield rule.accepts("geometry-big-endian-view", view, held)
    bare = pth(storage(8), {"0": swapped}, byte_order=b"big")
    yield rule.accepts("storage-big-endian-alone", bare, expected.lone(expected.storage("float32", swapped)))

    rule = Rule("6.4", "For an untyped storage the tensor's dtype determines the group size.", "big-endian")
    raw = bytes(range(1, 9))
    tree = {f"int{8 * size}": untyped(f"int{8 * size}", 8 // size, 8) for size in (1, 2, 4, 8)}
    pairs = [
        [f"int{8 * size}", expected.tensor(f"int{8 * size}", (8 // size,), reversed_groups(raw, size))]
        for size in (1, 2, 4, 8)
    ]
    made = pth(tree, {"0": raw}, byte_order=b"big")
    yield rule.accepts("geometry-big-endian-untyped", made, expected.lone({"dict": pairs}))
    odd = pth(untyped("float32", 2, 11), {"0": reversed_groups(EIGHT[:8], 4) + b"\1\2\3"}, byte_order=b"big")
    yield rule.accepts("geometry-big-endian-untyped-odd", odd, TWO)


def bools() -> Iterator[Vector]:
    rule = Rule("6.4", "A bool item is 0 or 1. Other bytes are an error when the tensor's values are requested.")
    store = storage(3, "0", "BoolStorage")
    held = expected.lone(expected.tensor("bool", (2,), b"\1\0"))
    beside = pth(tensor(store, (2,)), {"0": b"\1\0\2"})
    yield rule.accepts("geometry-bool-of-2-beside-the-tensor", beside, held)
    for name, raw in {"2": b"\0\1\2", "255": b"\xff\0\1"}.items():
        yield rule.refuses(f"geometry-bool-of-{name}", pth(tensor(store, (3,)), {"0": raw}), "tensor failure")
    view = pth(untyped("bool", 3, 3), {"0": b"\0\1\2"})
    yield rule.refuses("geometry-bool-of-2-untyped", view, "tensor failure")


def with_bits(dtype: str, **bits: bool) -> bytes:
    """Three items of a dtype with bits."""
    return pth(three(dtype, bits), {"0": ITEMS[dtype].raw})


def bits() -> Iterator[Vector]:
    rule = Rule(
        "6.4", "`conj` and `neg` (6.5) mean that the values are the conjugates and the negatives of the stored items."
    )
    conjugates = {
        "complex32": struct.pack("<6e", 1.0, 2.5, 0.0, -1.0, 2.0**-24, 0.0),
        "complex64": struct.pack("<6f", 1.0, 2.5, 0.0, -1.0, 2.0**-149, 0.0),
        "complex128": struct.pack("<6d", 1.0, 2.5, 0.0, -1.0, 5e-324, 0.0),
    }
    for dtype, raw in conjugates.items():
        made = with_bits(dtype, conj=True)
        yield rule.accepts(f"tensor-conj-{dtype}", made, expected.lone(expected.tensor(dtype, (3,), raw)))
    for dtype, raw in {
        "uint8": b"\0\x81\1",
        "int8": b"\0\x81\x80",
        "bfloat16": b"\x80\xbf\x00\x40\xc0\xbf",
        "float32": struct.pack("<3f", -1.0, 2.5, -(2.0**-149)),
        "complex64": struct.pack("<6f", -1.0, 2.5, -0.0, -1.0, -(2.0**-149), 0.0),
    }.items():
        made = with_bits(dtype, neg=True)
        yield rule.accepts(f"tensor-neg-{dtype}", made, expected.lone(expected.tensor(dtype, (3,), raw)))
    both = struct.pack("<6f", -1.0, -2.5, -0.0, 1.0, -(2.0**-149), -0.0)
    made = with_bits("complex64", conj=True, neg=True)
    yield rule.accepts("tensor-conj-and-neg", made, expected.lone(expected.tensor("complex64", (3,), both)))
    zeros = pth(tensor(storage(2), (2,), None, 0, False, {"neg": True}), {"0": struct.pack("<2f", 0.0, -0.0)})
    yield rule.accepts("tensor-neg-of-zeros", zeros, expected.lone(expected.floats(-0.0, 0.0)))
    rule = Rule("6.4", "`conj` needs a complex dtype, `neg` any dtype except bool and the float8 dtypes")
    yield rule.refuses("tensor-conj-of-floats", with_bits("float32", conj=True), "tensor failure")
    yield rule.refuses("tensor-conj-of-integers", with_bits("int64", conj=True), "tensor failure")
    yield rule.refuses("tensor-neg-of-bools", with_bits("bool", neg=True), "tensor failure")
