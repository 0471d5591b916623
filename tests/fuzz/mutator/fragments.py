"""Opcodes that leave one value on the stack: leaves, and the calls of every constructor that readers know."""

from __future__ import annotations

from typing import Any, Final

from conformance.generators.build_pth import (
    DEVICE,
    GET_LAYOUT,
    REBUILD_FROM_TYPE,
    REBUILD_PARAMETER,
    REBUILD_Q,
    REBUILD_SPARSE,
    SIZE,
    Apply,
    Name,
    dumps,
    floats,
    ordered,
    storage,
    tensor,
    text,
    whole,
)
from sbformat import pkl
from tests.helpers import attacks
from tests.helpers.build_blobs import CLOUD, CONSTANT, OLD_CONSTANT, array, box, call, discrete, dtype, function, new

__all__ = ["FRAGMENTS", "LEAVES", "name_lines", "text"]

_ENDS: Final = slice(2, -1)
"""Without PROTO and STOP."""


def name_lines(pair: tuple[str, str]) -> bytes:
    """Module and name as two lines."""
    return f"{pair[0]}\n{pair[1]}\n".encode()


def _of_tree(tree: Any) -> bytes:
    return dumps(tree)[_ENDS]


def _of_node(node: Any) -> bytes:
    return pkl.dumps(node, protocol=4)[_ENDS]


LEAVES: Final = (
    b"N", b"\x88", b"\x89", b")", b"]", b"}", b"\x8f", *map(whole, (0, 1, 2, 4, 8, 255, 256, -1, 2**31, 2**63, 2**64)),
    *map(attacks.number, (0.0, 0.5, float("nan"), float("inf"))), text("a"), text(""), text("\ud800"), b"B\0\0\0\0",
    attacks.octets(bytes(8)), b"\x96" + bytes(8), b"cos\nsystem\n", b"cbuiltins\nint\n", b"\x82\x01", b"P0\n",
    b"X\0\0\0\0Q",
    b"I01\n", b"L5L\n", b"F0.5\n", b"S'a'\n", b"U\x01a", b"T\x01\0\0\0a", b"Va\n",
)  # fmt: skip

_TENSORS: Final = (
    storage(8), floats((2, 4)), tensor(storage(8), (2, 2), (4, 1), 1),
    tensor(storage(4, "0", "ComplexFloatStorage"), (2,)),
    tensor(storage(4, "2", "BoolStorage"), (4,)), tensor(storage(8), (), ()), ordered({"w": floats((8,))}, ordered()),
    Apply(REBUILD_PARAMETER, (floats((8,)), True, ordered())),
    Apply(REBUILD_FROM_TYPE, (Name("torch._utils", "_rebuild_tensor_v2"), Name("torch", "Tensor"),
                              (storage(8), 0, (8,), (1,), False, ordered()), {})),
    Apply(REBUILD_Q, (storage(8, "1", "QInt8Storage"), 0, (8,), (1,),
                      (Name("torch", "per_tensor_affine"), 0.5, 3), False, ordered())),
    Apply(REBUILD_SPARSE, (Apply(GET_LAYOUT, ("torch.sparse_coo",)),
                           (tensor(storage(4, "0", "LongStorage"), (1, 2)), floats((2,), "1"), (4,)))),
    Apply(SIZE, ((2, 3),)), Apply(DEVICE, ("cuda", 0)), Name("torch", "float32"),
    {"state": {0: {"step": 1, "exp_avg": floats((8,))}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
)  # fmt: skip

_GENERATOR: Final = {
    "bit_generator": "PCG64", "state": {"state": 2**100, "inc": 2**90}, "has_uint32": 0, "uinteger": 0,
}  # fmt: skip
_KNOWN: Final = (
    dtype("f4"), dtype("i8", ">"), array((2, 2), bytes(16)), array((0,), b""), array((1,), [None], "O8"),
    call("numpy.core.multiarray", "scalar", dtype("f8"), bytes(8)),
    box(array((3,), bytes(12)), array((3,), bytes(12)), (3,), bounded_below=array((3,), bytes(3), "b1"),
        bounded_above=array((3,), bytes(3), "b1")),
    discrete(), discrete(3, "gym", start=1), new("gymnasium.spaces.dict", "Dict", {"spaces": {"a": discrete()}}),
    new("gymnasium.spaces.tuple", "Tuple", {"spaces": [discrete()]}),
    new("gymnasium.spaces.multi_binary", "MultiBinary", {"n": 4, "_shape": (4,), "dtype": dtype("i1")}),
    new("gymnasium.spaces.multi_discrete", "MultiDiscrete", {"nvec": array((2,), bytes(16), "i8"), "_shape": (2,)}),
    new("stable_baselines3.common.utils", "ConstantSchedule", {"val": 0.5}),
    new("stable_baselines3.common.utils", "FloatSchedule",
        {"value_schedule": new("stable_baselines3.common.utils", "ConstantSchedule", {"val": 0.5})}),
    new("stable_baselines3.common.type_aliases", "TrainFreq", None, 1,
        call("stable_baselines3.common.type_aliases", "TrainFrequencyUnit", "step")),
    new("stable_baselines3.common.noise", "NormalActionNoise", {"_mu": array((1,), bytes(4)), "_sigma": 0.5}),
    call("collections", "deque", [], 100), call("collections", "OrderedDict"), call("builtins", "slice", 1, 2, None),
    call("numpy.random._pickle", "__generator_ctor", "PCG64"), call(CLOUD, "_make_cell", 0.5),
    call("datetime", "timedelta", 1, 2, 3), call("pathlib", "PosixPath", "a", "b"),
    call("builtins", "getattr", "a", "b"), call(CLOUD, "_builtin_type", "CodeType"), call(CLOUD, "subimport", "os"),
    call("numpy.random._pickle", "__bit_generator_ctor", "MT19937"),
)  # fmt: skip

FRAGMENTS: Final = (
    *map(_of_tree, _TENSORS), *map(_of_node, _KNOWN),
    *[_of_node(function(parts, spelling=spelling))
      for parts, spelling in ((CONSTANT, "make"), (CONSTANT, "type"), (OLD_CONSTANT, "fill"))],
    attacks.function(), attacks.schedule_lambda(), attacks.SYSTEM, attacks.value(_GENERATOR),
    attacks.call(attacks.name("torch.storage", "_load_from_bytes"), attacks.octets(attacks.torch_file(b"\x80\x02}."))),
)  # fmt: skip
