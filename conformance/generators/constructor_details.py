"""Details of the constructors of tensors that no other family shows: found with mutants of a decoder (FORMAT.md 6.5)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from conformance.generators import expected
from conformance.generators.build_pth import (
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_SPARSE,
    REBUILD_V2,
    SIZE,
    Apply,
    Name,
    floats,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.constructors import FLOAT32, TRUE, WHOLE, v3, with_state
from conformance.generators.other_tensors import (
    CHANNELS,
    INDICES,
    QUANTIZED,
    SCALES,
    SIZES,
    SPARSE,
    VALUES,
    ZEROS,
    as_quantized,
    coo,
    layout,
    quantized,
)
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILURE = "tensor failure"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from strided()
    yield from attributes()
    yield from classes()
    yield from schemes()
    yield from sparse()


def strided() -> Iterator[Vector]:
    rule = Rule("6.5", "the argument, a global `torch.<dtype>`, and the storage is untyped or of that dtype.")
    yield rule.refuses("tensor-dtype-of-numpy", pth(v3(Name("numpy", "float32")), DATA), "unsupported")
    rule = Rule(
        "6.5", "| `_rebuild_tensor_v3` | storage, offset, shape, strides, requires_grad, hooks, dtype[, bits] |"
    )
    yield rule.refuses("tensor-v3-nine-arguments", pth(v3(FLOAT32, {}, {}), DATA), FAILURE)
    rule = Rule("6.5", "Anything else contains functions and is unsupported.")
    made = pth(Apply(REBUILD_V2, (*floats((8,)).args[:5], Apply(ordered(), ()))), DATA)
    yield rule.refuses("tensor-hooks-of-a-call-of-a-call", made, "unsupported")
    rule = Rule("6.4", "`conj` needs a complex dtype, `neg` any dtype except bool")
    none = tensor(storage(0, "0", "BoolStorage"), (0,), None, 0, False, {"neg": True})
    yield rule.refuses("tensor-neg-of-no-bools", pth(none, {"0": b""}), FAILURE)


def attributes() -> Iterator[Vector]:
    rule = Rule(
        "6.5",
        "`state` is a dict with text keys, none of them twice: Python attributes, kept as inert values.",
        "attributes",
    )
    for name, key in {"underscores-at-the-end": "role__", "no-name": ""}.items():
        held = {**WHOLE, "is_parameter": True, **TRUE, "state": expected.plain({key: 1})}
        yield rule.accepts(f"tensor-attribute-{name}", pth(with_state({key: 1}), DATA), expected.lone(held))
    rule = Rule("6.5", "For a tensor that is not strided, `state` is unsupported.", "attributes", "meta")
    meta = Apply(REBUILD_META, (FLOAT32, (2,), (1,), False))
    made = Apply(REBUILD_PARAMETER_WITH_STATE, (meta, True, ordered(), {"role": 1}))
    yield rule.refuses("tensor-attributes-of-a-meta-tensor", pth(made), "unsupported")


def classes() -> Iterator[Vector]:
    rule = Rule("6.5", "Other classes and functions are unsupported", "attributes")

    def from_type(cls: Name, arguments: Any) -> bytes:
        return pth(Apply(REBUILD_FROM_TYPE, (REBUILD_V2, cls, arguments, {})), DATA)

    arguments = floats((8,)).args
    for name, cls in {
        "parameter-of-another-module": Name("my", "Parameter"),
        "of-torch": Name("torch", "Size"),
    }.items():
        yield rule.refuses(f"tensor-from-type-class-{name}", from_type(cls, arguments), "unsupported")


def schemes() -> Iterator[Vector]:
    rule = Rule("6.5", "Zero point tensors are of int32, int64 or float32 (float_qparams: only float32).", "quantized")
    scales = expected.tensor("float64", (2,), QUANTIZED["s"])
    for dtype, cls, raw in (
        ("int32", "IntStorage", struct.pack("<2i", 1, -2)),
        ("float32", "FloatStorage", struct.pack("<2f", 1.0, -2.5)),
    ):
        zeros = tensor(storage(2, "o", cls), (2,))
        made = pth(quantized((CHANNELS, SCALES, zeros, 0)), {**QUANTIZED, "o": raw})
        held = as_quantized("per_channel_affine", scales, expected.tensor(dtype, (2,), raw), 0)
        yield rule.accepts(f"tensor-quantized-zero-points-of-{dtype}", made, expected.lone(held))
    floating = (Name("torch", "per_channel_affine_float_qparams"), SCALES, ZEROS, 0)
    yield rule.refuses("tensor-quantized-float-with-integers", pth(quantized(floating), QUANTIZED), FAILURE)
    rule = Rule("6.5", "is unsupported if it is another unchanged global.", "quantized")
    for name, function in {"module": Name("my", "per_tensor_affine"), "name": Name("torch", "per_row_affine")}.items():
        made = pth(quantized((function, 0.5, 3)), QUANTIZED)
        yield rule.refuses(f"tensor-quantized-scheme-of-another-{name}", made, "unsupported")
    rule = Rule("6.5", "shape (size of that dimension,) or lists of that many numbers (torch <= 1.4).", "quantized")
    column = tensor(storage(2, "s", "DoubleStorage"), (2, 1))
    made = pth(quantized((CHANNELS, column, ZEROS, 0)), QUANTIZED)
    yield rule.refuses("tensor-quantized-scales-in-a-column", made, FAILURE)
    made = pth(quantized((CHANNELS, [0.5, None], [1, 2], 0)), QUANTIZED)
    yield rule.refuses("tensor-quantized-lists-with-none", made, FAILURE)


def sparse() -> Iterator[Vector]:
    rule = Rule("6.5", "Sparse: `layout` is a call of `torch.serialization._get_layout` with", "sparse")
    for name, word, outcome in (
        ("prefixed", "my.torch.sparse_coo", "unsupported"),
        ("with-torch-within", "sparse_torch.coo", "unsupported"),
        ("strided-of-four-parts", "torch.strided", FAILURE),
    ):
        made = Apply(REBUILD_SPARSE, (layout(word), (INDICES, INDICES, VALUES, SIZES)))
        yield rule.refuses(f"tensor-sparse-layout-name-{name}", pth(made, SPARSE), outcome)
    rule = Rule("6.5", "The parts are: COO (indices, values, size[, is_coalesced])", "sparse")
    made = Apply(REBUILD_SPARSE, (layout(), (INDICES, VALUES, SIZES, True, True)))
    yield rule.refuses("tensor-sparse-parts-five", pth(made, SPARSE), FAILURE)
    rule = Rule("6.5", "COO: the indices have the shape (s, n) and the values (n, *d)", "sparse")
    cube = tensor(storage(4, "i", "LongStorage"), (2, 2, 1))
    yield rule.refuses("tensor-sparse-indices-of-three-dimensions", pth(*coo(indices=cube)), FAILURE)
    rule = Rule("6.5", "`size` is a tuple, or a call of `torch.Size`.", "sparse")
    made = pth(*coo(size=Apply(SIZE, ((2, 3), 1))))
    yield rule.refuses("tensor-sparse-size-of-two-arguments", made, FAILURE)
