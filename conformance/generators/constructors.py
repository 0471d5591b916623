"""The constructors of tensors: each as torch calls it, and with other arguments (FORMAT.md 6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import (
    EXIT,
    REBUILD,
    REBUILD_FROM_TYPE,
    REBUILD_META,
    REBUILD_PARAMETER,
    REBUILD_PARAMETER_WITH_STATE,
    REBUILD_V2,
    REBUILD_V3,
    SIZE,
    UNTYPED,
    Apply,
    Change,
    Name,
    Raw,
    floats,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, EIGHT, pth
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

GEOMETRY: Final = (1, (2, 3), (3, 1))
SIX: Final = expected.floats(*range(1, 7), shape=(2, 3))
"""The items of ``EIGHT`` that this geometry selects."""
WHOLE: Final = expected.floats(*range(8))
TRUE: Final = {"requires_grad": True}
FLOAT32: Final = Name("torch", "float32")
PARAMETER: Final = Name("torch.nn.parameter", "Parameter")
CALLS: Final = (
    "A tensor is a call of one of these functions by REDUCE, not changed afterwards, with a plain tuple of arguments."
)


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from strided()
    yield from calls()
    yield from argument_counts()
    yield from gradients()
    yield from hooks()
    yield from metadata()
    yield from dtypes()
    yield from parameters()
    yield from states()
    yield from from_types()


# -- strided tensors ----------------------------------------------------------------------------------


def v2(*args: object, **options: Any) -> Apply:
    """``_rebuild_tensor_v2`` over eight floats."""
    return Apply(REBUILD_V2, (storage(8), *GEOMETRY, *args), **options)


def v3(dtype: object, *more: object, reference: object = None) -> Apply:
    """``_rebuild_tensor_v3`` over eight floats."""
    return Apply(REBUILD_V3, (reference or storage(8), *GEOMETRY, False, ordered(), dtype, *more))


def strided() -> Iterator[Vector]:
    for name, sentence, call in (
        ("v1", "| `_rebuild_tensor` | storage, offset, shape, strides |", Apply(REBUILD, (storage(8), *GEOMETRY))),
        ("v2", "| storage, offset, shape, strides, requires_grad, hooks[, bits] |", v2(False, ordered())),
        ("v2-bits", "| storage, offset, shape, strides, requires_grad, hooks[, bits] |", v2(False, ordered(), {})),
        ("v3", "storage, offset, shape, strides, requires_grad, hooks, dtype[, bits]", v3(FLOAT32)),
        ("v3-bits", "storage, offset, shape, strides, requires_grad, hooks, dtype[, bits]", v3(FLOAT32, {})),
    ):
        yield Rule("6.5", sentence).accepts(f"tensor-{name}", pth(call, DATA), expected.lone(SIX))


def calls() -> Iterator[Vector]:
    rule = Rule("6.5", CALLS)
    for how in ("NEWOBJ", "OBJ", "INST"):
        made = pth(v2(False, ordered(), how=how), DATA)
        yield rule.refuses(f"tensor-by-{how.lower()}", made, "unsupported")
    for change in (Change("BUILD", {}), Change("SETITEMS", [0, 1]), Change("APPENDS", [0])):
        made = pth(Apply(REBUILD_V2, floats((8,)).args, change), DATA)
        yield rule.refuses(f"tensor-changed-by-{change.how.lower()}", made, "tensor failure")


def argument_counts() -> Iterator[Vector]:
    hooked = (False, ordered())
    for name, call in {
        "v1-few": Apply(REBUILD, (storage(8), 0, (2,))),
        "v2-few": v2(False),
        "v2-many": v2(*hooked, {}, None),
        "v3-few": Apply(REBUILD_V3, (storage(8), *GEOMETRY, *hooked)),
        "parameter-few": Apply(REBUILD_PARAMETER, (floats((8,)), True)),
        "parameter-with-state-few": Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered())),
    }.items():
        yield Rule("6.5", "| name | arguments |").refuses(f"tensor-arguments-{name}", pth(call, DATA), "tensor failure")


def gradients() -> Iterator[Vector]:
    rule = Rule("6.5", "`requires_grad` is a bool, and True only for floating and complex dtypes.")
    for dtype, cls, items in (
        ("float32", "FloatStorage", 8),
        ("bfloat16", "BFloat16Storage", 16),
        ("complex64", "ComplexFloatStorage", 4),
    ):
        made = pth(tensor(storage(items, "0", cls), (items,), None, 0, True), DATA)
        yield rule.accepts(f"tensor-grad-{dtype}", made, expected.lone(expected.tensor(dtype, (items,), EIGHT, **TRUE)))
    for cls in ("LongStorage", "ByteStorage", "BoolStorage"):
        items = {"LongStorage": 4}.get(cls, 32)
        made = pth(tensor(storage(items, "0", cls), (1,), None, 0, True), DATA)
        yield rule.refuses(f"tensor-grad-of-{cls.removesuffix('Storage').lower()}", made, "tensor failure")
    for name, value in {"1": 1, "none": None}.items():
        yield rule.refuses(f"tensor-grad-is-{name}", pth(v2(value, ordered()), DATA), "tensor failure")


def hooks() -> Iterator[Vector]:
    rule = Rule(
        "6.5",
        "`hooks` is an unchanged call of `collections.OrderedDict` by REDUCE without arguments. Anything else contains functions",
    )
    for name, value in {
        "none": None,
        "dict": {},
        "filled": ordered({0: Name("posix", "system")}),
        "built": ordered(None, {}),
        "of-another-module": Apply(Name("typing", "OrderedDict"), ()),
        "of-another-class": Apply(Name("collections", "Counter"), ()),
    }.items():
        yield rule.refuses(f"tensor-hooks-{name}", pth(v2(False, value), DATA), "unsupported")
    filled = Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered({0: EXIT})))
    yield rule.refuses("tensor-hooks-of-a-parameter", pth(filled, DATA), "unsupported")


def metadata() -> Iterator[Vector]:
    rule = Rule(
        "6.5",
        "`bits` is a dict with no keys except `conj` and `neg`, each at most once and True (torch treats the presence of the key as the bit)",
    )
    negated = expected.floats(*[-float(value) for value in range(1, 7)], shape=(2, 3))
    yield rule.accepts("tensor-bits-neg-v2", pth(v2(False, ordered(), {"neg": True}), DATA), expected.lone(negated))
    yield rule.accepts("tensor-bits-neg-v3", pth(v3(FLOAT32, {"neg": True}), DATA), expected.lone(negated))
    for name, value in {"false": False, "1": 1, "none": None}.items():
        made = pth(v2(False, ordered(), {"neg": value}), DATA)
        yield rule.refuses(f"tensor-bits-neg-is-{name}", made, "tensor failure")
    rule = Rule("6.5", "`bits` is a dict")
    yield rule.refuses("tensor-bits-none", pth(v2(False, ordered(), None), DATA), "tensor failure")
    yield rule.refuses("tensor-bits-list", pth(v2(False, ordered(), ["neg"]), DATA), "tensor failure")
    rule = Rule("6.5", "Other keys are unsupported")
    for name, value in {"names": {"names": ("a", "b")}, "beside": {"neg": True, "other": True}}.items():
        yield rule.refuses(f"tensor-bits-{name}", pth(v2(False, ordered(), value), DATA), "unsupported")


def dtypes() -> Iterator[Vector]:
    raw = storage(32, "0", UNTYPED)
    rule = Rule(
        "6.5", "In `_v3` it is the argument, a global `torch.<dtype>`, and the storage is untyped or of that dtype."
    )
    yield rule.accepts("tensor-v3-untyped", pth(v3(FLOAT32, reference=raw), DATA), expected.lone(SIX))
    yield rule.refuses("tensor-v3-of-another-dtype", pth(v3(Name("torch", "int32")), DATA), "tensor failure")
    yield rule.refuses(
        "tensor-v3-of-an-unknown-dtype", pth(v3(Name("torch", "int3"), reference=raw), DATA), "unsupported"
    )
    yield rule.refuses("tensor-v3-dtype-of-text", pth(v3("torch.float32"), DATA), "tensor failure")
    rule = Rule("6.5", "The dtype is that of the storage.")
    yield rule.refuses("tensor-v2-untyped", pth(tensor(raw, (2,)), DATA), "tensor failure")
    rule = Rule("6.5", "A quantized dtype without a scheme is an error.")
    made = pth(tensor(storage(32, "0", "QInt8Storage"), (2,)), DATA)
    yield rule.refuses("tensor-v2-quantized", made, "tensor failure")
    yield rule.refuses("tensor-v3-quantized", pth(v3(Name("torch", "qint8"), reference=raw), DATA), "tensor failure")


# -- parameters and attributes ------------------------------------------------------------------------


def parameter(data: object, requires_grad: object = True) -> Apply:  # noqa: FBT002 -- torch's argument
    """``_rebuild_parameter``."""
    return Apply(REBUILD_PARAMETER, (data, requires_grad, ordered()))


def parameters() -> Iterator[Vector]:
    rule = Rule("6.5", "| `_rebuild_parameter` | tensor, requires_grad, hooks |")
    is_parameter = {"is_parameter": True}
    learned = expected.lone({**WHOLE, **is_parameter, **TRUE})
    yield rule.accepts("tensor-parameter", pth(parameter(floats((8,))), DATA), learned)
    frozen = pth(parameter(floats((8,)), False), DATA)
    yield rule.accepts("tensor-parameter-frozen", frozen, expected.lone({**WHOLE, **is_parameter}))

    rule = Rule(
        "6.5",
        "Parameter: `tensor` is a strided, quantized, sparse or meta tensor, and is not itself a Parameter or another wrapped tensor.",
    )
    whole = tensor(storage(4, "0", "LongStorage"), (4,))
    held = expected.tensor("int64", (4,), EIGHT, **is_parameter)
    yield rule.accepts("tensor-parameter-of-integers", pth(parameter(whole, False), DATA), expected.lone(held))
    yield rule.refuses("tensor-parameter-of-integers-learned", pth(parameter(whole, True), DATA), "tensor failure")
    for name, data in {
        "none": None,
        "a-parameter": parameter(floats((8,))),
        "a-size": Apply(SIZE, ((1,),)),
        "a-changed-tensor": Apply(REBUILD_V2, floats((8,)).args, Change("BUILD", {})),
    }.items():
        yield rule.refuses(f"tensor-parameter-of-{name}", pth(parameter(data), DATA), "tensor failure")

    rule = Rule("6.5", "The tensor takes `requires_grad` from the Parameter")
    inner = tensor(storage(8), (8,), None, 0, True)
    held = expected.lone({**WHOLE, **is_parameter})
    yield rule.accepts("tensor-parameter-takes-over-false", pth(parameter(inner, False), DATA), held)
    yield rule.refuses("tensor-parameter-grad-is-1", pth(parameter(floats((8,)), 1), DATA), "tensor failure")
    lazy = parameter(Apply(REBUILD_META, (FLOAT32, (2, 3), (3, 1), False)))
    held = expected.lone({"meta": {"dtype": "float32", "shape": [2, 3]}, **is_parameter, **TRUE})
    yield rule.accepts("tensor-parameter-meta", pth(lazy), held, features=("meta",))


def with_state(state: object) -> Apply:
    """``_rebuild_parameter_with_state``."""
    return Apply(REBUILD_PARAMETER_WITH_STATE, (floats((8,)), True, ordered(), state))


def states() -> Iterator[Vector]:
    rule = Rule(
        "6.5",
        "`state` is a dict with text keys, none of them twice: Python attributes, kept as inert values.",
        "attributes",
    )
    flags = {"is_parameter": True, **TRUE}
    for name, state in {
        "state": {"role": "actor", "width": 3, "ratio": 0.5},
        "list-in-the-state": {"roles": ["a", None]},
    }.items():
        held = expected.lone({**WHOLE, **flags, "state": expected.plain(state)})
        yield rule.accepts(f"tensor-attributes-{name}", pth(with_state(state), DATA), held)
    yield rule.accepts("tensor-attributes-none", pth(with_state({}), DATA), expected.lone({**WHOLE, **flags}))

    rule = Rule("6.5", "`state` is a dict with text keys", "attributes")
    for name, state in {"no-dict": None, "pairs": [("role", "actor")], "key-number": {1: 2}}.items():
        yield rule.refuses(f"tensor-attributes-{name}", pth(with_state(state), DATA), "tensor failure")

    looped = Raw(b"}X\x01\0\0\0a]r\xff\0\0\0(j\xff\0\0\0es")
    yield rule.refuses("tensor-attribute-holds-itself", pth(with_state(looped), DATA), "tensor failure")
    rule = Rule(
        "6.5", "Attributes that begin with two underscores, and those that `torch.Tensor` itself has", "attributes"
    )
    names = ("__class__", "__setstate__", "data", "grad", "real", "requires_grad", "shape", "_backward_hooks")
    for name in names:
        short = name.strip("_").replace("_", "-")
        yield rule.refuses(f"tensor-attribute-{short}", pth(with_state({name: 1}), DATA), "unsupported")


def from_types() -> Iterator[Vector]:
    rule = Rule(
        "6.5",
        "the class is `torch.Tensor` or `torch.nn.parameter.Parameter`. The function is one of this table",
        "attributes",
    )
    state = {"role": "actor"}
    tagged = {"state": expected.plain(state)}
    args = floats((8,)).args
    tensors = Name("torch", "Tensor")
    for name, func, cls, arguments, held in (
        ("v1", REBUILD, tensors, (storage(8), *GEOMETRY), SIX),
        ("v2", REBUILD_V2, tensors, args, WHOLE),
        ("v3", REBUILD_V3, tensors, v3(FLOAT32).args, SIX),
        ("parameter", REBUILD_V2, PARAMETER, args, {**WHOLE, "is_parameter": True}),
    ):
        made = pth(Apply(REBUILD_FROM_TYPE, (func, cls, arguments, state)), DATA)
        yield rule.accepts(f"tensor-from-type-{name}", made, expected.lone({**held, **tagged}))
    rule = Rule("6.5", "Other classes and functions are unsupported", "attributes")
    for name, cls in {
        "own": Name("my", "Tensor"),
        "list": Name("builtins", "list"),
        "buffer": Name("torch.nn.parameter", "Buffer"),
    }.items():
        made = pth(Apply(REBUILD_FROM_TYPE, (REBUILD_V2, cls, args, {})), DATA)
        yield rule.refuses(f"tensor-from-type-class-{name}", made, "unsupported")
    rule = Rule(
        "6.5",
        "The function is one of this table that does not wrap another tensor, and its result is a strided tensor.",
        "attributes",
    )
    made = pth(Apply(REBUILD_FROM_TYPE, (EXIT, tensors, (0,), {})), DATA)
    yield rule.refuses("tensor-from-type-of-an-unknown-function", made, "unsupported")
    wrapping = (REBUILD_PARAMETER, tensors, (floats((8,)), True, ordered()), {})
    made = pth(Apply(REBUILD_FROM_TYPE, wrapping), DATA)
    yield rule.refuses("tensor-from-type-of-a-parameter", made, "unsupported")
    lazy = (REBUILD_META, tensors, (FLOAT32, (2,), (1,), False), {})
    yield rule.refuses("tensor-from-type-of-a-meta-tensor", pth(Apply(REBUILD_FROM_TYPE, lazy)), "unsupported")
    rule = Rule("6.5", "`state` is as above", "attributes")
    made = pth(Apply(REBUILD_FROM_TYPE, (REBUILD_V2, tensors, args, {"data": 1})), DATA)
    yield rule.refuses("tensor-from-type-attribute-data", made, "unsupported")
