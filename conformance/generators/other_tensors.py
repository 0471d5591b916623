"""Quantized, sparse and meta tensors, and unknown constructors (FORMAT.md 6.5)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    DEVICE,
    GET_LAYOUT,
    REBUILD_META,
    REBUILD_Q,
    REBUILD_SPARSE,
    SIZE,
    Apply,
    Name,
    contiguous,
    floats,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.constructors import FLOAT32, TRUE, parameter
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from quantized_per_tensor()
    yield from quantized_per_channel()
    yield from sparse_coo()
    yield from sparse_compressed()
    yield from parameters()
    yield from meta()
    yield from others()


# -- quantized tensors --------------------------------------------------------------------------------

AFFINE: Final = Name("torch", "per_tensor_affine")
CHANNELS: Final = Name("torch", "per_channel_affine")
PER_TENSOR: Final = (AFFINE, 0.5, 3)
SCALES: Final = tensor(storage(2, "s", "DoubleStorage"), (2,))
ZEROS: Final = tensor(storage(2, "z", "LongStorage"), (2,))
QUANTIZED: Final = {
    "q": bytes(range(250, 256)),
    "s": struct.pack("<2d", 0.5, 0.25),
    "z": struct.pack("<2q", 1, 2),
    "f": struct.pack("<4f", 0.5, 0.25, 1.0, 2.0),
}


def quantized(
    scheme: object, cls: str = "QUInt8Storage", *, shape: tuple[int, ...] = (2, 3), grad: bool = False
) -> Apply:
    """``_rebuild_qtensor`` over six items."""
    arguments = (storage(6, "q", cls), 0, shape, contiguous(shape), scheme, grad, ordered())
    return Apply(REBUILD_Q, arguments)


def as_quantized(
    scheme: str = "per_tensor_affine",
    scale: object = None,
    zero_point: object = 3,
    axis: int | None = None,
    dtype: str = "quint8",
    items: bytes = QUANTIZED["q"],
) -> dict[str, Any]:
    """The expected output for one of shape (2, 3)."""
    integers = {"dtype": dtype, "shape": [2, 3], "sha256": expected.digest(items)}
    scale = expected.floating(0.5) if scale is None else scale
    return {"quantized": {**integers, "scheme": scheme, "scale": scale, "zero_point": zero_point, "axis": axis}}


def quantized_per_tensor() -> Iterator[Vector]:
    rule = Rule("6.5", "Quantized: the storage is of qint8, quint8 or qint32.", "quantized")
    yield rule.accepts("tensor-quantized-quint8", pth(quantized(PER_TENSOR), QUANTIZED), expected.lone(as_quantized()))
    made = pth(quantized(PER_TENSOR, "QInt8Storage"), QUANTIZED)
    yield rule.accepts("tensor-quantized-qint8", made, expected.lone(as_quantized(dtype="qint8")))
    raw = struct.pack("<6i", *range(6))
    made = pth(quantized(PER_TENSOR, "QInt32Storage"), {"q": raw})
    held = expected.lone(as_quantized(dtype="qint32", items=raw))
    yield rule.accepts("tensor-quantized-qint32", made, held)
    made = pth(quantized(PER_TENSOR, "QInt32Storage"), {"q": struct.pack(">6i", *range(6))}, byte_order=b"big")
    yield rule.accepts("tensor-quantized-big-endian", made, held, features=("big-endian",))
    yield rule.refuses(
        "tensor-quantized-over-bytes", pth(quantized(PER_TENSOR, "ByteStorage"), QUANTIZED), "tensor failure"
    )

    rule = Rule("6.5", "`(torch.per_tensor_affine or _symmetric, scale: float, zero point: int)`", "quantized")
    symmetric = Name("torch", "per_tensor_symmetric")
    made = pth(quantized((symmetric, 0.5, 0)), QUANTIZED)
    held = expected.lone(as_quantized("per_tensor_symmetric", None, 0))
    yield rule.accepts("tensor-quantized-symmetric", made, held)
    for name, scheme in {
        "few": PER_TENSOR[:2],
        "whole-scale": (AFFINE, 1, 3),
        "zero-point-float": (AFFINE, 0.5, 3.0),
        "zero-point-bool": (AFFINE, 0.5, True),
        "empty": (),
        "of-text": ("per_tensor_affine", 0.5, 3),
    }.items():
        yield rule.refuses(f"tensor-quantized-scheme-{name}", pth(quantized(scheme), QUANTIZED), "tensor failure")
    rule = Rule("6.5", "`requires_grad` is a bool, and True only for floating and complex dtypes.", "quantized")
    made = pth(quantized(PER_TENSOR, grad=True), QUANTIZED)
    yield rule.refuses("tensor-quantized-grad", made, "tensor failure")


def quantized_per_channel() -> Iterator[Vector]:
    rule = Rule(
        "6.5", "axis is one of the tensor's dimensions, and scales and zero points are strided tensors", "quantized"
    )
    scales = expected.tensor("float64", (2,), QUANTIZED["s"])
    zeros = expected.tensor("int64", (2,), QUANTIZED["z"])
    for word in ("affine", "symmetric"):
        scheme = f"per_channel_{word}"
        made = pth(quantized((Name("torch", scheme), SCALES, ZEROS, 0)), QUANTIZED)
        yield rule.accepts(
            f"tensor-quantized-channels-{word}", made, expected.lone(as_quantized(scheme, scales, zeros, 0))
        )
    scheme = "per_channel_affine_float_qparams"
    store = storage(4, "f")
    parts = (tensor(store, (2,)), tensor(store, (2,), None, 2))
    made = pth(quantized((Name("torch", scheme), *parts, 0)), QUANTIZED)
    held = as_quantized(scheme, expected.floats(0.5, 0.25), expected.floats(1.0, 2.0), 0)
    yield rule.accepts("tensor-quantized-channels-float", made, expected.lone(held))
    for name, scheme in {
        "few": (CHANNELS, SCALES, ZEROS),
        "axis-2": (CHANNELS, SCALES, ZEROS, 2),
        "axis-negative": (CHANNELS, SCALES, ZEROS, -1),
        "axis-bool": (CHANNELS, SCALES, ZEROS, False),
        "other-size": (CHANNELS, SCALES, ZEROS, 1),
        "quantized-scales": (CHANNELS, quantized(PER_TENSOR, shape=(2,)), ZEROS, 0),
    }.items():
        yield rule.refuses(f"tensor-quantized-channels-{name}", pth(quantized(scheme), QUANTIZED), "tensor failure")
    rule = Rule("6.5", "or lists of that many numbers (torch <= 1.4)", "quantized")
    made = pth(quantized((CHANNELS, [0.5, 0.25], [1, 2], 0)), QUANTIZED)
    lists = (expected.plain([0.5, 0.25]), expected.plain([1, 2]))
    yield rule.accepts("tensor-quantized-lists", made, expected.lone(as_quantized("per_channel_affine", *lists, 0)))
    for name, parts in {
        "short": ([0.5], [1]),
        "of-bools": ([0.5, 0.25], [True, False]),
        "tuples": ((0.5, 0.25), (1, 2)),
    }.items():
        made = pth(quantized((CHANNELS, *parts, 0)), QUANTIZED)
        yield rule.refuses(f"tensor-quantized-lists-{name}", made, "tensor failure")


# -- sparse tensors -----------------------------------------------------------------------------------


def layout(name: object = "torch.sparse_coo") -> Apply:
    """A layout as torch names it."""
    return Apply(GET_LAYOUT, (name,))


INDICES: Final = tensor(storage(4, "i", "LongStorage"), (2, 2))
VALUES: Final = tensor(storage(8, "0"), (2,), None, 1)
SIZES: Final = Apply(SIZE, ((2, 3),))
SPARSE: Final = {
    **DATA, "i": struct.pack("<4q", 0, 1, 1, 2), "j": struct.pack("<4i", 0, 1, 1, 2), "c": struct.pack("<3q", 0, 1, 2),
}  # fmt: skip
COMPRESSED: Final = tensor(storage(3, "c", "LongStorage"), (3,))
PLAIN: Final = tensor(storage(4, "i", "LongStorage"), (2,), None, 2)


def coo(
    *more: object, size: object = SIZES, indices: object = INDICES, values: object = VALUES
) -> tuple[Apply, dict[str, bytes]]:
    """``_rebuild_sparse_tensor`` in COO, and its storages."""
    return Apply(REBUILD_SPARSE, (layout(), (indices, values, size, *more))), SPARSE


def as_coo(is_coalesced: object, values: object = None) -> dict[str, Any]:
    """The expected output for it."""
    indices = [expected.tensor("int64", (2, 2), SPARSE["i"])]
    values = expected.floats(1, 2) if values is None else values
    facts = {"layout": "sparse_coo", "size": [2, 3], "is_coalesced": is_coalesced}
    return {"sparse": {**facts, "indices": indices, "values": values}}


def sparse_coo() -> Iterator[Vector]:
    rule = Rule("6.5", "The parts are: COO (indices, values, size[, is_coalesced])", "sparse")
    yield rule.accepts("tensor-sparse-coo", pth(*coo()), expected.lone(as_coo(None)))
    for value in (True, False):
        made = pth(*coo(value))
        yield rule.accepts(f"tensor-sparse-coalesced-{str(value).lower()}", made, expected.lone(as_coo(value)))
    parts = (INDICES, VALUES, SIZES)
    for name, given in {
        "few": parts[:2],
        "list": list(parts),
        "coalesced-1": (*parts, 1),
        "without-indices": (None, *parts[1:]),
        "storage-of-values": (INDICES, storage(8), SIZES),
        "sparse-values": (INDICES, coo()[0], SIZES),
    }.items():
        made = pth(Apply(REBUILD_SPARSE, (layout(), given)), SPARSE)
        yield rule.refuses(f"tensor-sparse-parts-{name}", made, "tensor failure")

    yield rule.refuses("tensor-sparse-without-parts", pth(Apply(REBUILD_SPARSE, (layout(),)), SPARSE), "tensor failure")
    rule = Rule("6.5", "COO: the indices have the shape (s, n) and the values (n, *d)", "sparse")
    for name, changed in {
        "more-values": {"values": tensor(storage(8), (3,))},
        "indices-of-one-dimension": {"indices": tensor(storage(4, "i", "LongStorage"), (2,))},
        "a-size-more": {"size": (2, 3, 4)},
        "a-size-less": {"size": (2,)},
        "another-dense-size": {"values": tensor(storage(8), (2, 2)), "size": (2, 3, 3)},
    }.items():
        yield rule.refuses(f"tensor-sparse-{name}", pth(*coo(**changed)), "tensor failure")
    dense = expected.lone(
        {
            "sparse": {
                **as_coo(None, expected.floats(0, 1, 2, 3, shape=(2, 2)))["sparse"],
                "size": [2, 3, 2],
            }
        }
    )
    made = pth(*coo(values=tensor(storage(8), (2, 2)), size=(2, 3, 2)))
    yield rule.accepts("tensor-sparse-dense-dimension", made, dense)
    yield from sparse_coo_indices()

    rule = Rule("6.5", "`size` is a tuple, or a call of `torch.Size`.", "sparse")
    yield rule.accepts("tensor-sparse-size-tuple", pth(*coo(size=(2, 3))), expected.lone(as_coo(None)))
    for name, size in {
        "list": [2, 3],
        "negative": (2, -3),
        "bool": (2, True),
        "none": None,
        "device": Apply(DEVICE, ("cpu",)),
    }.items():
        yield rule.refuses(f"tensor-sparse-size-{name}", pth(*coo(size=size)), "tensor failure")


def sparse_coo_indices() -> Iterator[Vector]:
    rule = Rule(
        "6.5", "The parts MUST fit the size, as torch accesses memory by the indices without a check.", "sparse"
    )
    yield rule.accepts("tensor-sparse-fits", pth(*coo(False, size=(2, 3))), expected.lone(as_coo(False)))
    yield rule.refuses("tensor-sparse-does-not-fit", pth(*coo(size=(2, 2))), "tensor failure")
    rule = Rule("6.5", "They are int64, and each of row i is less than size i.", "sparse")
    for name, numbers in {"too-large": (0, 2, 1, 2), "negative": (0, 1, -1, 2), "far": (0, 1, 1, 2**62)}.items():
        made = pth(coo()[0], {**SPARSE, "i": struct.pack("<4q", *numbers)})
        yield rule.refuses(f"tensor-sparse-index-{name}", made, "tensor failure")
    made = pth(*coo(indices=tensor(storage(4, "j", "IntStorage"), (2, 2))))
    yield rule.refuses("tensor-sparse-indices-int32", made, "tensor failure")
    rule = Rule("6.5", "Indices MUST NOT have more bytes than their storage, as expanded ones have.", "sparse")
    yield rule.accepts("tensor-sparse-indices-whole", pth(*coo(True, size=(2, 3))), expected.lone(as_coo(True)))
    made = pth(*coo(indices=tensor(storage(4, "i", "LongStorage"), (2, 4), (1, 0)), values=tensor(storage(8), (4,))))
    yield rule.refuses("tensor-sparse-indices-expanded", made, "tensor failure")
    rule = Rule("6.5", "The product of the size is less than 2^63.", "sparse")
    for name, size, outcome in (("largest", (2, 2**62 - 1), ""), ("too-large", (2, 2**62), "tensor failure")):
        made = pth(*coo(size=size))
        if outcome:
            yield rule.refuses(f"tensor-sparse-size-{name}", made, outcome)
        else:
            held = {"sparse": {**as_coo(None)["sparse"], "size": [2, expected.integer(2**62 - 1)]}}
            yield rule.accepts(f"tensor-sparse-size-{name}", made, expected.lone(held))


CSR: Final[dict[str, Any]] = {"compressed": COMPRESSED, "plain": PLAIN, "values": VALUES, "size": SIZES}


def in_layout(name: str, data: dict[str, bytes] = SPARSE, **changed: object) -> bytes:
    """A ``.pth`` with a tensor of a compressed layout."""
    parts = {**CSR, **changed}
    return pth(Apply(REBUILD_SPARSE, (layout(f"torch.sparse_{name}"), tuple(parts.values()))), data)


def sparse_compressed() -> Iterator[Vector]:
    rule = Rule("6.5", "other layouts (compressed indices, plain indices, values, size)", "sparse")
    indices = [expected.tensor("int64", (3,), SPARSE["c"]), expected.tensor("int64", (2,), SPARSE["i"][16:])]
    facts = {"size": [2, 3], "is_coalesced": None, "indices": indices, "values": expected.floats(1, 2)}
    blocks = tensor(storage(8), (2, 2, 1))
    for name, values, held, size in (
        ("csr", VALUES, expected.floats(1, 2), (2, 3)),
        ("csc", VALUES, expected.floats(1, 2), (3, 2)),
        ("bsr", blocks, expected.floats(0, 1, 2, 3, shape=(2, 2, 1)), (4, 3)),
        ("bsc", blocks, expected.floats(0, 1, 2, 3, shape=(2, 2, 1)), (6, 2)),
    ):
        whole = {"sparse": {**facts, "layout": f"sparse_{name}", "values": held, "size": list(size)}}
        yield rule.accepts(f"tensor-sparse-{name}", in_layout(name, values=values, size=size), expected.lone(whole))
    yield from sparse_compressed_indices(blocks)
    parts = (COMPRESSED, PLAIN, VALUES, SIZES)
    made = pth(Apply(REBUILD_SPARSE, (layout("torch.sparse_csr"), parts[1:])), SPARSE)
    yield rule.refuses("tensor-sparse-csr-of-three-parts", made, "tensor failure")
    older = Name("torch._utils", "_rebuild_sparse_csr_tensor")
    rule = Rule("6.5", "`_rebuild_sparse_tensor`, `_rebuild_sparse_csr_tensor` | layout, parts", "sparse")
    held = expected.lone({"sparse": {"layout": "sparse_csr", **facts}})
    yield rule.accepts(
        "tensor-sparse-csr-by-its-old-name", pth(Apply(older, (layout("torch.sparse_csr"), parts)), SPARSE), held
    )

    rule = Rule("6.5", "`layout` is a call of `torch.serialization._get_layout` with `torch.sparse_coo`", "sparse")
    parts = (INDICES, VALUES, SIZES)
    for name, value in {"text": "torch.sparse_coo", "strided": layout("torch.strided")}.items():
        made = pth(Apply(REBUILD_SPARSE, (value, parts)), SPARSE)
        yield rule.refuses(f"tensor-sparse-layout-{name}", made, "tensor failure")
    rule = Rule(
        "6.5", "Nested tensors, wrapper subclasses, XLA and packed 2- and 4-bit tensors are unsupported.", "sparse"
    )
    made = pth(Apply(REBUILD_SPARSE, (layout("torch.jagged"), parts)), SPARSE)
    yield rule.refuses("tensor-sparse-layout-jagged", made, "unsupported")


def sparse_compressed_indices(blocks: object) -> Iterator[Vector]:
    rule = Rule("6.5", "the first is 0, the last n, and none is less than the one before it", "sparse")
    for name, numbers in {"first": (1, 1, 2), "last": (0, 1, 3), "order": (0, 3, 2), "negative": (0, -1, 2)}.items():
        made = in_layout("csr", {**SPARSE, "c": struct.pack("<3q", *numbers)})
        yield rule.refuses(f"tensor-sparse-compressed-{name}", made, "tensor failure")
    rule = Rule("6.5", "The plain ones are less than the number of columns (CSC, BSC: rows).", "sparse")
    for name, numbers in {"too-large": (0, 1, 3, 2), "negative": (0, 1, 1, -1)}.items():
        made = in_layout("csr", {**SPARSE, "i": struct.pack("<4q", *numbers)})
        yield rule.refuses(f"tensor-sparse-plain-{name}", made, "tensor failure")
    yield rule.refuses("tensor-sparse-csc-plain", in_layout("csc", size=(2, 2)), "tensor failure")
    rule = Rule("6.5", "Both are int32 or both int64, and have one dimension.", "sparse")
    narrow = tensor(storage(4, "j", "IntStorage"), (2,), None, 2)
    yield rule.refuses("tensor-sparse-indices-of-two-dtypes", in_layout("csr", plain=narrow), "tensor failure")
    both = {"compressed": tensor(storage(3, "0", "FloatStorage"), (3,)), "plain": tensor(storage(8), (2,))}
    yield rule.refuses("tensor-sparse-indices-of-floats", in_layout("csr", **both), "tensor failure")
    rule = Rule("6.5", "A batch of tensors, whose indices both have more dimensions, is unsupported.", "sparse")
    batch = {"compressed": tensor(storage(3, "c", "LongStorage"), (1, 3)), "values": tensor(storage(8), (1, 2)),
             "plain": tensor(storage(4, "i", "LongStorage"), (1, 2), None, 2), "size": (1, 2, 3)}  # fmt: skip
    yield rule.refuses("tensor-sparse-batch", in_layout("csr", **batch), "unsupported")
    rule = Rule("6.5", "CSR: the size is (rows, columns, *d) and the values have the shape (n, *d).", "sparse")
    for name, changed in {
        "rows": {"size": (3, 3)},
        "one-size": {"size": (2,)},
        "a-size-more": {"size": (2, 3, 1)},
        "fewer-plain": {"plain": tensor(storage(4, "i", "LongStorage"), (1,), None, 2)},
        "a-value-more": {"values": tensor(storage(8), (3,))},
    }.items():
        yield rule.refuses(f"tensor-sparse-csr-{name}", in_layout("csr", **changed), "tensor failure")
    rule = Rule("6.5", "BSR and BSC have the shape (n, rows of a block, columns of a block, *d).", "sparse")
    for name, values, size in (
        ("without-blocks", VALUES, (4, 3)),
        ("rows-of-no-whole-blocks", blocks, (5, 3)),
        ("blocks-of-nothing", tensor(storage(8), (2, 0, 1)), (4, 3)),
        ("fewer-block-rows", blocks, (2, 3)),
    ):
        yield rule.refuses(f"tensor-sparse-bsr-{name}", in_layout("bsr", values=values, size=size), "tensor failure")


# -- meta tensors and those that are not known --------------------------------------------------------


def meta() -> Iterator[Vector]:
    rule = Rule("6.5", "Meta: geometry without data; shape and strides of the same length.", "meta")
    for name, dtype, shape, grad in (
        ("float", "bfloat16", (2, 3), True),
        ("integers", "int8", (), False),
        ("large", "float32", (2**20, 2**20), False),
    ):
        call = Apply(REBUILD_META, (Name("torch", dtype), shape, contiguous(shape), grad))
        held = {"meta": {"dtype": dtype, "shape": list(shape)}, **(TRUE if grad else {})}
        yield rule.accepts(f"tensor-meta-{name}", pth(call), expected.lone(held))
    for name, args in {
        "stride-missing": (FLOAT32, (2,), (), False),
        "size-negative": (FLOAT32, (-2,), (1,), False),
        "size-bool": (FLOAT32, (True,), (1,), False),
        "grad-is-0": (FLOAT32, (2,), (1,), 0),
        "grad-of-integers": (Name("torch", "int8"), (2,), (1,), True),
    }.items():
        yield rule.refuses(f"tensor-meta-{name}", pth(Apply(REBUILD_META, args)), "tensor failure")
    rule = Rule("8", "| `tensor_rank` | 32 | 4 | dimensions |", "meta")
    made = pth(Apply(REBUILD_META, (FLOAT32, (1,) * 33, (1,) * 33, False)))
    yield rule.refuses("tensor-meta-of-rank-33", made, "limit exceeded")
    rule = Rule("6.6", "any other global, call or node, is unsupported", "meta")
    made = pth(Apply(REBUILD_META, (Name("torch", "int3"), (2,), (1,), False)))
    yield rule.refuses("tensor-meta-of-an-unknown-dtype", made, "unsupported")


def others() -> Iterator[Vector]:
    rule = Rule("6.5", "Nested tensors, wrapper subclasses, XLA and packed 2- and 4-bit tensors are unsupported.")
    strided_one = floats((8,))
    for name, arguments in {
        "nested_tensor": (strided_one, strided_one, strided_one, strided_one),
        "wrapper_subclass": (Name("my", "Tensor"), FLOAT32, (2,), (1,), 0, layout("torch.strided"), "cpu", False),
        "xla_tensor": (strided_one, FLOAT32, "xla:0", False),
    }.items():
        made = pth(Apply(Name("torch._utils", f"_rebuild_{name}"), arguments), DATA)
        yield rule.refuses(f"tensor-{name.replace('_', '-')}", made, "unsupported")
    rule = Rule("6.6", "any other global, call or node, is unsupported")
    for name, call in {
        "of-another-module": Apply(Name("torch.utils", "_rebuild_tensor_v2"), strided_one.args),
        "of-a-changed-name": Apply(Name("torch._utils", "_rebuild_tensor_v2.__call__"), strided_one.args),
    }.items():
        yield rule.refuses(f"tensor-{name}", pth(call, DATA), "unsupported")


def parameters() -> Iterator[Vector]:
    rule = Rule("6.5", "for a sparse or quantized tensor, its values or integers do")
    is_parameter = {"is_parameter": True}
    call, storages = coo()
    values = expected.floats(1, 2, **is_parameter, **TRUE)
    held = expected.lone(as_coo(None, values))
    yield rule.accepts("tensor-parameter-sparse", pth(parameter(call), storages), held, features=("sparse",))
    made = pth(parameter(quantized(PER_TENSOR), False), QUANTIZED)
    held = expected.lone({**as_quantized(), **is_parameter})
    yield rule.accepts("tensor-parameter-quantized", made, held, features=("quantized",))
    made = pth(parameter(quantized(PER_TENSOR), True), QUANTIZED)
    yield rule.refuses("tensor-parameter-quantized-learned", made, "tensor failure", features=("quantized",))
