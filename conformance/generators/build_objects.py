"""Objects as SB3 and numpy pickle them: arrays and numbers, objects that consist only of their attributes, spaces.

Trees for ``build_pth.dumps``. Nothing here needs numpy: items are given as numbers, and packed here.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from conformance.generators import expected
from conformance.generators.build_pth import Apply, Change, Name, Pairs
from conformance.generators.numpy_values import CODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SB3: Final = "stable_baselines3.common"
NORMALIZE: Final = Name(f"{SB3}.vec_env.vec_normalize", "VecNormalize")
RUNNING: Final = Name(f"{SB3}.running_mean_std", "RunningMeanStd")
SB2: Final = "stable_baselines"
SB2_NORMALIZE: Final = Name(f"{SB2}.common.vec_env.vec_normalize", "VecNormalize")
SB2_RUNNING: Final = Name(f"{SB2}.common.running_mean_std", "RunningMeanStd")
BUFFER: Final = Name(f"{SB3}.buffers", "ReplayBuffer")
MULTIARRAY: Final = "numpy.core.multiarray"
FORMATS: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "f2": "e", "i4": "i", "u4": "I", "f4": "f", "i8": "q",
    "u8": "Q", "f8": "d", "c16": "d",
}  # fmt: skip
"""Format characters of ``struct`` for numpy's dtypes, by numpy's code."""


def pack_items(code: str, *values: float) -> bytes:
    """The items of an array."""
    return struct.pack(f"<{len(values)}{FORMATS[code]}", *values)


class SampleArray(NamedTuple):
    """An array: the pickled value and the expected output."""

    code: str
    shape: tuple[int, ...]
    items: bytes

    def tree(self) -> Apply:
        """The array as numpy pickles it."""
        return array(self.shape, self.items, self.code)


def sample_array(code: str, *values: float, shape: tuple[int, ...] | None = None) -> SampleArray:
    """An array of these items; a vector when no shape is given."""
    return SampleArray(code, (len(values),) if shape is None else shape, pack_items(code, *values))


def expected_arrays(arrays: Mapping[str, SampleArray]) -> list[list[Any]]:
    """The expected output for arrays by name."""
    return [[name, expected.array(CODES[code], shape, items)] for name, (code, shape, items) in sorted(arrays.items())]


# -- numpy --------------------------------------------------------------------------------------------


def dtype(code: str, order: str = "<", sizes: tuple[int, ...] = (-1, -1, 0)) -> Apply:
    """A dtype as numpy pickles it; ``sizes`` are the last three items of the state of dtypes that are not numbers."""
    state = (3, "|" if code[-1] == "1" and order == "<" else order, None, None, None, *sizes)
    return Apply(Name("numpy", "dtype"), (code, False, True), Change("BUILD", state))


def array(shape: tuple[int, ...], items: bytes, code: str = "f4") -> Apply:
    """An array as numpy pickles it below protocol 5; bytes are encoded as in protocol 2."""
    return reconstructed_array(shape, dtype(code), encoded_bytes(items))


def reconstructed_array(shape: tuple[int, ...], kind: Apply, items: object, *, is_fortran: bool = False) -> Apply:
    """An array of any dtype."""
    start = (Name("numpy", "ndarray"), (0,), encoded_bytes(b"b"))
    return Apply(Name(MULTIARRAY, "_reconstruct"), start, Change("BUILD", (1, shape, kind, is_fortran, items)))


def numbers(code: str, *values: float, shape: tuple[int, ...] | None = None) -> Apply:
    """An array of these items, as numpy pickles it."""
    return sample_array(code, *values, shape=shape).tree()


def floats(*values: float) -> Apply:
    """A vector of float32."""
    return numbers("f4", *values)


def doubles(*values: float) -> Apply:
    """A vector of float64."""
    return numbers("f8", *values)


def scalar(items: bytes, code: str) -> Apply:
    """A scalar as numpy pickles it."""
    return Apply(Name(MULTIARRAY, "scalar"), (dtype(code), encoded_bytes(items)))


def objects(shape: tuple[int, ...], *items: object) -> Apply:
    """An array of objects as numpy pickles it."""
    return reconstructed_array(shape, dtype("O8", "|", (-1, -1, 63)), list(items))


def given_pairs(levels: int) -> Apply:
    """A dtype that is given 2 ** ``levels`` parts: a pair of the same pair twice, and so on."""
    shared: tuple[object, ...] = (None,)
    for _ in range(levels):
        shared = (shared, shared)
    return Apply(Name("numpy", "dtype"), ("f8", shared))


def encoded_bytes(raw: bytes) -> Apply:
    """Bytes in protocol 2."""
    return Apply(Name("_codecs", "encode"), (raw.decode("latin-1"), "latin1"))


# -- objects ------------------------------------------------------------------------------------------


def instance(cls: Name, attributes: Mapping[str, Any] | Pairs) -> Apply:
    """An object that consists only of its attributes."""
    state = attributes if isinstance(attributes, Pairs) else dict(attributes)
    return Apply(cls, (), Change("BUILD", state), how="NEWOBJ")


def running_mean(mean: object, var: object, count: object = 4.5, cls: Name = RUNNING) -> Apply:
    """A running mean."""
    return instance(cls, {"mean": mean, "var": var, "count": count})


# -- spaces -------------------------------------------------------------------------------------------


def space(module: str, name: str, attributes: Mapping[str, Any], library: str = "gymnasium") -> Apply:
    """A space by its attributes."""
    return instance(Name(f"{library}.spaces.{module}", name), attributes)


def box(low: Sequence[float], high: Sequence[float], /, **others: Any) -> Apply:
    """A Box of float32, a vector, as gymnasium pickles it."""
    bounds = {"low": floats(*low), "high": floats(*high)}
    below = numbers("b1", *(value > -math.inf for value in low))
    above = numbers("b1", *(value < math.inf for value in high))
    flags = {"bounded_below": below, "bounded_above": above}
    made = {"dtype": dtype("f4"), "_shape": (len(low),), **bounds, **flags, "_np_random": None, **others}
    return space("box", "Box", made)


def discrete(n: int) -> Apply:
    """A Discrete."""
    return space("discrete", "Discrete", {"n": n, "start": 0, "_shape": (), "dtype": dtype("i8"), "_np_random": None})


def dict_space(spaces: Mapping[str, Any]) -> Apply:
    """A Dict."""
    return space("dict", "Dict", {"spaces": dict(spaces), "_shape": None, "dtype": None, "_np_random": None})
