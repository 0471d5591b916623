"""Node decoders for numpy's arrays, scalars, dtypes and random generators (VALUES.md 13.2, 13.3).

Sources: numpy ``_core/src/multiarray/methods.c``, ``_core/numeric.py``, ``random/_pickle.py``.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sbformat.known.rows import find, is_name, known, known_in_pth, reject
from sbformat.known.types import Described, DType, ObjectArray, RandomState, Reference, SeedSequence
from sbformat.pkl import numpy as arrays
from sbformat.pkl.numpy import ArrayInfo, is_empty_shape, is_flag
from sbformat.pkl.tree import NUMPY_NDARRAY, NUMPY_RECONSTRUCT, Call, Global, Update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.known.context import NodeContext
    from sbformat.known.rows import Known
    from sbformat.known.types import GeneratorKind

_EXACT_BITS: Final = 53  # bits of an integer that a float holds exactly
_WIDE: Final = 2**128 - 1
_BUFFERED: Final[dict[str, object]] = {"has_uint32": 1, "uinteger": 2**32 - 1}
_BIT_GENERATORS: Final[dict[str, tuple[str, dict[str, object], dict[str, object]]]] = {
    "MT19937": ("numpy.random._mt19937", {}, {"key": ("u4", 624), "pos": 624}),
    "PCG64": ("numpy.random._pcg64", _BUFFERED, {"state": _WIDE, "inc": _WIDE}),
    "PCG64DXSM": ("numpy.random._pcg64", _BUFFERED, {"state": _WIDE, "inc": _WIDE}),
    "Philox": (
        "numpy.random._philox", {"buffer": ("u8", 4), "buffer_pos": 4, **_BUFFERED},
        {"counter": ("u8", 4), "key": ("u8", 2)},
    ),
    "SFC64": ("numpy.random._sfc64", _BUFFERED, {"state": ("u8", 4)}),
}  # fmt: skip
"""Each bit generator: the module of its class, and its state at the top level and under ``state``: an array's dtype and
length, or the largest integer."""
_BIT_CLASSES: Final = [(module, name) for name, (module, *_) in _BIT_GENERATORS.items()]
_GAUSS: Final[dict[str, object]] = {"has_gauss": 1, "gauss": None}  # further parts of the state of a RandomState
_PICKLE: Final = "numpy.random._pickle"
_GYM_GENERATOR: Final = Described(
    "getattr", (Reference("gym.utils.seeding", "RandomNumberGenerator"), "_generator_ctor")
)


def decode_dtype(_: NodeContext, node: Call) -> DType:
    """Decode ``numpy.dtype("f4", False, True)`` with its byte order."""
    return DType("|O8", ()) if arrays.is_object_dtype(node) else DType(*arrays.wide_dtype(node))


def decode_array(context: NodeContext, node: Call) -> ArrayInfo | ObjectArray:
    """Decode an array or scalar; the call of its dtype is a part of it."""
    name = node.func.name if isinstance(node.func, Global) else ""
    if name == "_reconstruct" and arrays.is_object_array(node):
        return _object_array(context, node)
    info = _checked(context, node)
    if name == "_reconstruct":
        context.accept(node.args[0])  # type: ignore[index]
    return info


def decode_portable_array(context: NodeContext, node: Call) -> ArrayInfo:
    """Decode ``ndarray((0,))`` from NEWOBJ with the state of an array: what :mod:`sbformat.known.encoder` writes."""
    args: Any = node.args
    if len(args) != 1 or not is_empty_shape(args[0]):
        reject("expected an array constructed with the shape (0,)")
    stand_in = Call("REDUCE", Global("numpy.core.multiarray", "_reconstruct"), (Global(*NUMPY_NDARRAY), (0,), b"b"))
    stand_in.updates = node.updates
    return _checked(context, stand_in)


def _checked(context: NodeContext, call: Call) -> ArrayInfo:
    info = arrays.array_info(call, is_wide=True)
    if context.checks_unread:
        info.check()
    return info


def _object_array(context: NodeContext, node: Call) -> ObjectArray:
    args: Any = node.args
    if len(args) != 3 or not is_name(args[0], NUMPY_NDARRAY) or not is_empty_shape(args[1]):
        reject("an array of objects is not reconstructed as numpy does")
    if isinstance(args[2], bytearray) or arrays.encoded_bytes(args[2]) != b"b":
        reject("an array of objects is not reconstructed as numpy does")
    version, shape, _, is_fortran, _ = context.read_state(node)
    if type(version) is not int or version != 1 or not is_flag(is_fortran):
        reject("an array of objects has an unknown state")
    items = context.value(node.updates[0].value[4])  # type: ignore[index]
    if type(items) is not list:
        reject("expected a list of the items of an array of objects")
    numel = arrays.checked_numel(shape, 8)
    if numel != len(items):
        reject(f"expected {numel} items in an array of objects of shape {shape}, got {len(items)}")
    context.accept(args[0])
    return ObjectArray(shape, "F" if is_fortran else "C", items)


def decode_jax_array(context: NodeContext, node: Call) -> ArrayInfo:
    """Decode ``_reconstruct_array(function, arguments, state, aval_state)`` of jax.

    The first three are the parts of what numpy's ``__reduce__`` returns for the same array; jax calls the function.
    """
    args: Any = node.args
    if len(args) != 4 or node.updates:
        reject("expected four arguments of a jax array, and no state")
    function, given, state, aval = args
    is_numpy = isinstance(function, Global) and function.pair[1] == NUMPY_RECONSTRUCT and not function.updates
    if not is_numpy or find(function.pair).role != "numpy_array" or type(given) is not tuple:
        reject("expected numpy's _reconstruct and its arguments in a jax array")
    if type(context.value(aval)) is not dict or any(type(value) is not bool for value in context.value(aval).values()):
        reject("expected flags as the last argument of a jax array")
    call = Call("REDUCE", function, given)
    call.updates = [Update("BUILD", call, state)]
    info = _checked(context, call)
    context.accept(function, *(part for part in given if isinstance(part, Global)))
    return info


# -- random generators --------------------------------------------------------------------------------


def decode_gym_generator(context: NodeContext, node: Call) -> RandomState:
    """Decode ``getattr(RandomNumberGenerator, "_generator_ctor")(...)``, protocol 2 of gym 0.23 to 0.25."""
    getter: Any = node.func
    if type(node.args) is not tuple or context.value(getter) != _GYM_GENERATOR:
        reject("an attribute is called that is not a constructor")
    made = decode_generator(context, node)
    context.accept(getter, getter.args[0])
    return made


def decode_generator(context: NodeContext, node: Call, kind: GeneratorKind = "Generator") -> RandomState:
    """Decode a random generator: of the name of a bit generator or, since numpy 2, of that itself or its class."""
    args: tuple[object, ...] = node.args if type(node.args) is tuple else (None, None, None)
    inner = _bit_generator_of(context, args[0], kind) if args else "MT19937"
    is_named = isinstance(inner, str)
    if len(args) > (2 if is_named and kind != "BitGenerator" else 1) or any(
        not is_name(arg, (_PICKLE, "__bit_generator_ctor")) for arg in args[1:]
    ):
        reject("a random generator has unknown arguments")
    given = context.read_state(node) if node.updates else None
    sequence = None
    if kind == "BitGenerator" and type(given) is tuple and len(given) == 2:
        given, sequence = given
        if not isinstance(sequence, (SeedSequence, type(None))):
            reject("expected a SeedSequence in the state of a bit generator")
    if isinstance(inner, RandomState):
        made = _from_bit_generator(inner, given, kind)
    elif given is None:
        reject("a random generator has no state: numpy would seed it anew each time")
    else:
        made = RandomState(kind, inner, _checked_state(given, inner, kind), sequence)
    context.accept(*(arg for arg in args if isinstance(arg, Global)))
    return made


def _from_bit_generator(inner: RandomState, given: object, kind: GeneratorKind) -> RandomState:
    """Return a generator of numpy 2: its bit generator has the state, which a RandomState repeats and adds to."""
    state = inner.state
    if kind == "RandomState" or given is not None:
        state = _checked_state(given, inner.bit_generator, kind)
        own = {name: part for name, part in state.items() if name not in _GAUSS}
        if _comparable(own) != _comparable(inner.state):
            reject("a random generator and its bit generator have different states")
    return RandomState(kind, inner.bit_generator, state, inner.seed_sequence)


def _comparable(value: object) -> object:
    """Return a state that can be compared: with the items of its arrays."""
    if isinstance(value, dict):
        return {name: _comparable(part) for name, part in value.items()}
    return unpack_items(value) if isinstance(value, ArrayInfo) else value


def _bit_generator_of(context: NodeContext, value: object, kind: str) -> str | RandomState:
    if type(value) is str and value in _BIT_GENERATORS:
        return value
    if kind == "BitGenerator" and is_name(value, *_BIT_CLASSES):
        return value.name
    made = context.value(value) if isinstance(value, Call) and kind != "BitGenerator" else None
    if not isinstance(made, RandomState) or made.kind != "BitGenerator":
        reject("expected a bit generator of numpy")
    return made


def _checked_state(state: object, name: str, kind: str) -> dict[str, object]:
    """Check every number of a bit generator's state: numpy reads outside its arrays when a position is too large."""
    if type(state) is tuple and kind == "RandomState":  # before numpy 1.17
        legacy = [*state, 0, 0.0][:5] if len(state) in (3, 5) else [None] * 5
        state = dict(zip(("bit_generator", "state", "pos", "has_gauss", "gauss"), legacy))
        state["state"] = {"key": state["state"], "pos": state.pop("pos")}
    if type(state) is not dict or state.get("bit_generator") != name:
        reject("the state of a random generator names another bit generator")
    _, outer, within = _BIT_GENERATORS[name]
    if kind == "RandomState":
        outer = {**outer, **_GAUSS}
    inner = state["state"] if type(state.get("state")) is dict else {}
    if set(state) != {"bit_generator", "state", *outer} or set(inner) != set(within):
        reject("the state of a random generator has missing or unknown parts")
    for held, parts in ((state, outer), (inner, within)):
        for part, allowed in parts.items():
            if not _is_within(held[part], allowed):
                reject(f"{part} of a random generator is out of range")
    return state


def _is_within(value: object, allowed: object) -> bool:
    """Return whether a part of a state is what :data:`_BIT_GENERATORS` allows; a float where it has None."""
    if isinstance(allowed, tuple):
        return isinstance(value, ArrayInfo) and (value.dtype[1:], value.shape) == (allowed[0], (allowed[1],))
    if allowed is None:
        return type(value) is float or (type(value) is int and value.bit_length() <= _EXACT_BITS)
    return type(value) is int and 0 <= value <= allowed  # type: ignore[operator]


def decode_seed_sequence(context: NodeContext, node: Call) -> SeedSequence:
    """Decode ``__pyx_unpickle_SeedSequence(class, checksum, state)``, which Cython writes."""
    args: Any = node.args
    if len(args) != 3 or not is_name(args[0], *_SEED_SEQUENCES) or args[1] not in _CHECKSUMS:
        reject("a SeedSequence has unknown arguments")
    state = context.value(args[2]) if args[2] is not None else context.read_state(node)
    if type(state) is not tuple or len(state) != 5 or (args[2] is not None and node.updates):
        reject("a SeedSequence has an unknown state")
    entropy, children, pool, pool_size, spawn_key = state
    if (
        type(children) is not int
        or not 0 <= children < 2**32
        or not isinstance(pool, ArrayInfo)
        or type(pool_size) is not int
        or pool_size < _MIN_POOL
        or (pool.dtype[1:], pool.shape) != ("u4", (pool_size,))
        or not _is_entropy(entropy)
        or type(spawn_key) is not tuple
        or not all(map(_is_natural, spawn_key))
    ):
        reject("a SeedSequence has an unknown state")
    context.accept(args[0])
    return SeedSequence(entropy, spawn_key, pool_size, children, pool)


_MIN_POOL: Final = 4
_CHECKSUMS: Final = (0x3EAA222, 0xC464C19, 0xF88304A)
"""Checksums of the fields of a SeedSequence, by the release of Cython: numpy refuses any other."""
_SEED_SEQUENCES: Final = (
    ("numpy.random.bit_generator", "SeedSequence"), ("numpy.random._bit_generator", "SeedSequence"),
)  # fmt: skip


def _is_entropy(value: object) -> bool:
    """Return whether numpy accepts a value as entropy: a natural number, several, or an array of integers."""
    if type(value) in (list, tuple):
        return all(map(_is_natural, value))  # type: ignore[call-overload]
    if isinstance(value, ArrayInfo):
        return value.dtype[1] in "iu"
    return value is None or _is_natural(value)


def _is_natural(value: object) -> bool:
    return type(value) is int and value >= 0


# -- numbers -------------------------------------------------------------------------------------------

_CODES: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q", "f2": "e",
    "f4": "f", "f8": "d",
}  # fmt: skip


_BITS: Final = 64


def to_number(value: object, what: str) -> int | float:
    """Return a number; a numpy scalar becomes a Python number. Messages name it ``what``."""
    if isinstance(value, (int, float)) and (isinstance(value, float) or value.bit_length() <= _BITS):
        return value
    if not isinstance(value, ArrayInfo) or value.shape != () or value.dtype[1:] not in _CODES:
        reject(f"expected a number as {what}")
    return unpack_items(value)[0]


def to_float64(value: object, what: str) -> int | float:
    """Return a Python number or float64: numpy rounds in float32, and its integers overflow."""
    if isinstance(value, ArrayInfo) and value.dtype[1:] != "f8":
        reject(f"expected float64 as {what}, got {value.dtype}: numpy computes in the dtype of its scalars")
    return to_number(value, what)


def to_int(value: object, what: str) -> int:
    """Return an integer."""
    found = to_number(value, what)
    if type(found) is not int:
        reject(f"expected an integer as {what}")
    return found


def unpack_items(value: ArrayInfo) -> tuple[int | float, ...]:
    """Return the items of an array of plain numbers, in the order of its bytes."""
    code = _CODES.get(value.dtype[1:])
    if code is None:
        reject(f"expected an array of plain numbers, got {value.dtype}")
    order = ">" if value.dtype[0] == ">" else "<"
    return struct.unpack(f"{order}{len(value.buffer) // struct.calcsize(code)}{code}", value.read())


# -- rows ----------------------------------------------------------------------------------------------

_SEEDS: Final = "__pyx_unpickle_SeedSequence"


def _arrays(role: str, *uses: str) -> Iterator[Known]:
    for row in known_in_pth(role, call=decode_array):
        is_odd = row.module.endswith("umath")  # of some builds of numpy 1.16 to 1.19
        yield row._replace(uses=frozenset(uses if is_odd else (*uses, "built")))


ROWS: Final = [
    *_arrays("numpy_array", "unhashable"),
    *_arrays("numpy_scalar"),
    *known("numpy", "ndarray", "value, built", kind="portable_array", new=decode_portable_array),
    *known("numpy", "dtype", "value, built", role="numpy_dtype", call=decode_dtype),
    *known("numpy", "bool", "value, number", current=("numpy", "bool_")),  # numpy 1.24 to 1.26 lack numpy.bool
    *known("numpy", "bool_ bytes_ complex128 complex64 float16 float32 float64 int16 int32 int64 int8 longdouble "
           "longlong str_ uint16 uint32 uint64 uint8 ulonglong", "value, number"),
    *known(("numpy", "numpy.lib.function_base"), "interp", "interpolates"),  # since 1.16, and before
    # random generators, and gym's of 0.22 to 0.25
    *known("numpy.random", "__RandomState_ctor", "reaches, built", role="random_state",  # before 1.17
           call=partial(decode_generator, kind="RandomState")),
    *known(_PICKLE, "__randomstate_ctor", "reaches, built", role="random_state",
           call=partial(decode_generator, kind="RandomState")),
    *known(_PICKLE, "__generator_ctor", "reaches, built", role="generator", call=decode_generator),
    *known(_PICKLE, "__bit_generator_ctor", "reaches, built", role="bit_generator",
           call=partial(decode_generator, kind="BitGenerator")),
    *known("gym.utils.seeding", "RandomNumberGenerator._generator_ctor", "reaches", role="generator",
           call=decode_generator),
    *known("numpy.random.bit_generator", _SEEDS, "built", role="seed_sequence", call=decode_seed_sequence),
    *known("numpy.random._bit_generator", _SEEDS, role="seed_sequence", call=decode_seed_sequence),  # before 1.19
    *known("numpy.random._generator", "Generator", "value"),
    *(row for pair in _BIT_CLASSES for row in known(*pair, "value")),
    *known("numpy.random.bit_generator", "SeedSequence", "value"),
    *known("numpy.random.mtrand", "RandomState", "value"),
]  # fmt: skip
