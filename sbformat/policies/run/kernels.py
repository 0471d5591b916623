"""The operators in numpy: the functions that :data:`~sbformat.policies.operators.OPERATORS` names.

A kernel computes nothing when it is called. It gets the arrays that its node reads and writes, and returns *steps*:
calls of numpy functions with all arguments bound, which do the work each time they are called. So a step has no
overhead but that of the numpy function, and memory for intermediate results is allocated once. Example::

    out = numpy.empty_like(x)
    steps = list(relu(out, x))
    x[:] = ...              # new values
    for step in steps:
        step()              # out has the result

The contract of all kernels:

- The first argument is the array of the result. The others are the operands; keywords are the node's attributes.
- Each has a batch axis, also operands that are weights (theirs has size 1), except those that can only be weights: the
  matrix and bias of ``gemm`` and ``conv``. An ``axis`` counts from the end, and so does not depend on the batch.
- Elementwise kernels accept any shapes that broadcast to that of the result.
- ``out`` may be the first operand, where the operator works in place. Other operands are never written.
- Overflow, infinities and NaN give what torch gives. Whoever calls the steps switches numpy's warnings off.

A function ``view_NAME`` returns the result as a view of the operand, or None when its items have to be copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from sbformat.errors import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Step: TypeAlias = Callable[[], object]
"""A call of a numpy function with all arguments bound."""
Steps: TypeAlias = Iterator[Step]


def make_number(value: float, like: Array) -> Array:
    """Return a number as an array without axes, of the dtype of another array, which no kernel writes."""
    number = np.asarray(value, dtype=like.dtype)
    number.flags.writeable = False
    return number


_FEW_ITEMS: Final = 512
"""Up to here a comparison and a masked copy are faster than ``numpy.maximum``, which resets the state of the processor
for floating-point errors."""
_PIECE_ITEMS: Final = 1 << 17
"""Items of the patches of a convolution that are in memory together, where one pixel's are not more."""


# -- elementwise --------------------------------------------------------------------------------------


def identity(out: Array, x: Array) -> Steps:
    """Copy."""
    if out is not x:
        yield partial(np.copyto, out, x)


def cast(out: Array, x: Array, *, to: str) -> Steps:  # noqa: ARG001 -- it is the dtype of out
    """Convert, as C does."""
    yield partial(np.copyto, out, x, casting="unsafe")


def divide(out: Array, x: Array, y: Array) -> Steps:
    """Divide; integers are truncated."""
    yield partial(np.divide, x, y, out) if out.dtype.kind == "f" else partial(np.divide, x, y, out, casting="unsafe")


def maximum(out: Array, x: Array, y: Array) -> Steps:
    """Choose the greater; NaN if one is NaN."""
    return _bound(out, x, y, np.less, np.maximum)


def minimum(out: Array, x: Array, y: Array) -> Steps:
    """Choose the lesser; NaN if one is NaN."""
    return _bound(out, x, y, np.greater, np.minimum)


def _bound(out: Array, x: Array, y: Array, is_beyond: np.ufunc, choose: np.ufunc) -> Steps:
    is_repeated = y.size == 1 or y.shape == out.shape
    if out.size > _FEW_ITEMS or not is_repeated or y.flags.writeable or np.isnan(y).any():
        yield partial(choose, x, y, out=out)
        return
    if out is not x:
        yield partial(np.copyto, out, x)
    mask = np.empty(out.shape, np.bool_)
    yield partial(is_beyond, out, y, mask)
    yield partial(np.putmask, out, mask, y)


def where(out: Array, condition: Array, x: Array, y: Array) -> Steps:
    """Choose by a condition."""
    yield partial(np.copyto, out, y)
    yield partial(np.copyto, out, x, where=condition)


def negative(out: Array, x: Array) -> Steps:
    """Change the sign.

    ``numpy.negative`` reads the wrong items where those of x are 16 bytes apart and those of out have gaps (numpy 2.4).
    """
    if out.flags.c_contiguous:
        yield partial(np.negative, x, out)
    else:
        yield partial(np.multiply, x, np.asarray(-1).astype(out.dtype), out)


def relu(out: Array, x: Array) -> Steps:
    """Replace negative items by 0; NaN remains."""
    return maximum(out, x, make_number(0, out))


def sigmoid(out: Array, x: Array) -> Steps:
    """Compute 1 / (1 + e ** -x), as torch does: an overflow of the power gives 0."""
    yield from negative(out, x)
    yield partial(np.exp, out, out)
    yield partial(np.add, out, make_number(1, out), out)
    yield partial(np.reciprocal, out, out)


def softplus(out: Array, x: Array) -> Steps:
    """Compute max(x, 0) + log(1 + e ** -|x|), which does not overflow."""
    power = np.empty_like(out)
    yield partial(np.absolute, x, power)
    yield partial(np.negative, power, power)
    yield partial(np.exp, power, power)
    yield partial(np.log1p, power, power)
    yield partial(np.maximum, x, make_number(0, out), out=out)
    yield partial(np.add, out, power, out)


def celu(out: Array, x: Array, *, alpha: float) -> Steps:
    """Compute x, or alpha * (e ** (x / alpha) - 1) below 0."""
    return elu(out, x, alpha=alpha, divisor=alpha)


def elu(out: Array, x: Array, *, alpha: float, gamma: float = 1.0, divisor: float = 1.0) -> Steps:
    """Compute gamma * x, or gamma * alpha * (e ** (x / divisor) - 1) below 0."""
    zero = make_number(0, out)
    below = np.empty_like(out)
    yield partial(np.minimum, x, zero, out=below)
    if divisor != 1:
        yield partial(np.divide, below, make_number(divisor, out), below)
    yield partial(np.expm1, below, below)
    yield partial(np.multiply, below, make_number(alpha, out), below)
    yield partial(np.maximum, x, zero, out=out)
    yield partial(np.add, out, below, out)
    if gamma != 1:
        yield partial(np.multiply, out, make_number(gamma, out), out)


def leaky_relu(out: Array, x: Array, *, alpha: float) -> Steps:
    """Compute x, or alpha * x below 0."""
    return prelu(out, x, make_number(alpha, out))


def prelu(out: Array, x: Array, slope: Array) -> Steps:
    """Compute x, or slope * x below 0."""
    zero = make_number(0, out)
    below = np.empty_like(out)
    yield partial(np.minimum, x, zero, out=below)
    yield partial(np.multiply, below, slope, below)
    yield partial(np.maximum, x, zero, out=out)
    yield partial(np.add, out, below, out)


_ERF_ABOVE: Final = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04,
    -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_ERF_BELOW: Final = (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02,
)  # fmt: skip
"""Coefficients of x ** 2 in a rational approximation of erf(x) / x between -4 and 4, highest power first (Eigen's)."""


def erf(out: Array, x: Array) -> Steps:
    """Compute the error function: x * P(x ** 2) / Q(x ** 2) in float64, with an error of 2e-7."""
    bounded, square, above, below = (np.empty(out.shape, np.float64) for _ in range(4))
    yield partial(np.maximum, x, np.float64(-4), out=bounded)
    yield partial(np.minimum, bounded, np.float64(4), out=bounded)
    yield partial(np.multiply, bounded, bounded, square)
    for made, coefficients in ((above, _ERF_ABOVE), (below, _ERF_BELOW)):
        yield partial(np.multiply, square, coefficients[0], made)
        for coefficient in coefficients[1:-1]:
            yield partial(np.add, made, coefficient, made)
            yield partial(np.multiply, made, square, made)
        yield partial(np.add, made, coefficients[-1], made)
    yield partial(np.divide, above, below, above)
    yield partial(np.multiply, above, bounded, above)
    yield partial(np.copyto, out, above, casting="same_kind")


def hard_sigmoid(out: Array, x: Array, *, alpha: float, beta: float) -> Steps:
    """Compute alpha * x + beta, from 0 to 1."""
    yield partial(np.multiply, x, make_number(alpha, out), out)
    yield partial(np.add, out, make_number(beta, out), out)
    yield partial(np.maximum, out, make_number(0, out), out=out)
    yield partial(np.minimum, out, make_number(1, out), out=out)


def shrink(out: Array, x: Array, *, lambd: float, bias: float) -> Steps:
    """Compute x - bias above lambd, x + bias below -lambd, else 0; NaN remains."""
    sign, is_small = np.empty_like(out), np.empty(out.shape, np.bool_)
    yield partial(np.absolute, x, sign)
    yield partial(np.less_equal, sign, make_number(lambd, out), is_small)
    yield partial(np.sign, x, sign)
    yield partial(np.multiply, sign, make_number(bias, out), sign)
    yield partial(np.subtract, x, sign, out)
    yield partial(np.putmask, out, is_small, make_number(0, out))


# -- along an axis ------------------------------------------------------------------------------------


def _reduced(x: Array, axis: int) -> Array:
    """Return memory for a reduction of x that keeps the axis."""
    shape = list(x.shape)
    shape[axis] = 1
    return np.empty(shape, x.dtype)


def softmax(out: Array, x: Array, *, axis: int) -> Steps:
    """Compute e ** (x - the greatest) over its sum."""
    along = _reduced(x, axis)
    yield partial(np.maximum.reduce, x, axis, None, along, True)
    yield partial(np.subtract, x, along, out)
    yield partial(np.exp, out, out)
    yield partial(np.add.reduce, out, axis, None, along, True)
    yield partial(np.divide, out, along, out)


def log_softmax(out: Array, x: Array, *, axis: int) -> Steps:
    """Compute the logarithm of ``softmax`` without its underflow."""
    along, power = _reduced(x, axis), np.empty_like(out)
    yield partial(np.maximum.reduce, x, axis, None, along, True)
    yield partial(np.subtract, x, along, out)
    yield partial(np.exp, out, power)
    yield partial(np.add.reduce, power, axis, None, along, True)
    yield partial(np.log, along, along)
    yield partial(np.subtract, out, along, out)


def reduce_sum(out: Array, x: Array, *, axis: int, keepdims: bool = False) -> Steps:
    """Add along an axis."""
    yield partial(np.add.reduce, x, axis, out.dtype, out, keepdims)


def reduce_mean(out: Array, x: Array, *, axis: int, keepdims: bool = False) -> Steps:
    """Take the mean along an axis."""
    yield partial(np.add.reduce, x, axis, out.dtype, out, keepdims)
    yield from divide(out, out, make_number(x.shape[axis], out))


def reduce_min(out: Array, x: Array, *, axis: int, keepdims: bool = False) -> Steps:
    """Take the least along an axis; NaN if one is NaN."""
    yield partial(np.minimum.reduce, x, axis, None, out, keepdims)


def reduce_log_sum_exp(out: Array, x: Array, *, axis: int, keepdims: bool = False) -> Steps:
    """Add the greatest and log(sum(e ** (x - the greatest))), as torch does.

    numpy's functions of float32 differ from the nearest number more often than others, so those of float64 are used.
    """
    along, power = _reduced(x, axis), np.empty_like(x)
    total = np.empty_like(along)
    yield partial(np.maximum.reduce, x, axis, None, along, True)
    yield partial(np.subtract, x, along, power)
    yield partial(np.exp, power, power, dtype=np.float64)
    yield partial(np.add.reduce, power, axis, None, total, True)
    yield partial(np.log, total, total, dtype=np.float64)
    yield partial(np.add, total, along, out if keepdims else np.expand_dims(out, axis))


def arg_max(out: Array, x: Array, *, axis: int, keepdims: bool = False) -> Steps:
    """Find the first greatest, or the first NaN."""
    target = np.squeeze(out, axis) if keepdims else out
    if target.dtype == np.intp:
        yield partial(x.argmax, axis, target)
    else:  # where an index has 32 bits
        found = np.empty(target.shape, np.intp)
        yield partial(x.argmax, axis, found)
        yield partial(np.copyto, target, found)


def one_hot(out: Array, x: Array, *, depth: int) -> Steps:
    """Set 1 at the index; an index that is out of range gives 0 everywhere."""
    mask = np.empty(out.shape, np.bool_)
    yield partial(np.equal, x[..., np.newaxis], np.arange(depth), mask)
    yield partial(np.copyto, out, mask)


# -- layers, and functions of the caller ---------------------------------------------------------------


def gemm(out: Array, x: Array, weight: Array, bias: Array | None = None, *, transB: bool) -> Steps:  # noqa: N803
    """Multiply by a matrix, and add the bias."""
    matrix = weight.T if transB else weight
    if len(x) == 1:  # a product with a vector takes half the time of one with a matrix of one row
        out, x = out[0], x[0]
        yield partial(matrix.T.dot, x, out)
    else:
        yield partial(x.dot, matrix, out)
    if bias is not None:  # repeated for all rows it is added in a third of the time
        yield partial(np.add, out, np.ascontiguousarray(np.broadcast_to(bias, out.shape)), out)


def conv(
    out: Array, x: Array, weight: Array, bias: Array | None = None, *, strides: tuple[int, int], pads: tuple[int, ...]
) -> Steps:
    """Multiply patches of the image by the filters: a copy (im2col) and one matrix product for all pixels.

    The fastest order in memory is (batch, height, width, channels): the rows of a patch are contiguous then, and the
    product has its result in the same order. An image in another order is copied.
    """
    if any(pads) or not x.transpose(0, 2, 3, 1).flags.c_contiguous:
        top, left, bottom, right = pads
        count, channels, height, width = x.shape
        padded = np.zeros((count, height + top + bottom, width + left + right, channels), x.dtype).transpose(0, 3, 1, 2)
        yield partial(np.copyto, padded[:, :, top : top + height, left : left + width], x)
        x = padded
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))
    patches = windows[:, :, :: strides[0], :: strides[1]].transpose(0, 2, 3, 4, 5, 1)
    matrix = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)).reshape(-1, len(weight))
    target = out.transpose(0, 2, 3, 1)
    yield from _multiply_patches(target, patches, matrix)
    if bias is not None:
        yield partial(np.add, target, bias, target)


def _multiply_patches(target: Array, patches: Array, matrix: Array) -> Steps:
    """Multiply in pieces: many images, rows of an image, or parts of a row, so that the copies are bounded.

    :param target: (batch, height, width, filters)
    :param patches: a view (batch, height, width, kernel height, kernel width, channels)
    :param matrix: (items of a patch, filters)
    """
    count, height, width = patches.shape[:3]
    pixels = max(1, _PIECE_ITEMS // len(matrix))
    across = min(width, pixels)
    down = min(height, max(1, pixels // width))
    images = min(count, max(1, pixels // (width * height)))
    copied = np.empty(images * down * across * len(matrix), matrix.dtype)
    flat = None if target.flags.c_contiguous else np.empty(images * down * across * len(matrix.T), matrix.dtype)

    def multiply_piece(begin: int, top: int, left: int) -> Steps:
        where_ = (slice(begin, begin + images), slice(top, top + down), slice(left, left + across))
        piece, result = patches[where_], target[where_]
        rows = piece.shape[0] * piece.shape[1] * piece.shape[2]
        columns = copied[: rows * len(matrix)]
        yield partial(np.copyto, columns.reshape(piece.shape), piece)
        if result.flags.c_contiguous:
            yield partial(columns.reshape(rows, len(matrix)).dot, matrix, result.reshape(rows, matrix.shape[1]))
            return
        product = np.empty((rows, matrix.shape[1]), matrix.dtype) if flat is None else flat[: rows * matrix.shape[1]]
        yield partial(columns.reshape(rows, len(matrix)).dot, matrix, product.reshape(rows, matrix.shape[1]))
        yield partial(np.copyto, result, product.reshape(result.shape))

    def multiply_all() -> None:
        for begin in range(0, count, images):
            for top in range(0, height, down):
                for left in range(0, width, across):
                    for step in multiply_piece(begin, top, left):
                        step()

    if (images, down, across) == (count, height, width):
        yield from multiply_piece(0, 0, 0)
    else:
        yield multiply_all


def call(
    out: Array,
    *operands: Array,
    function: Callable[..., Any],
    name: str,
    keys: Sequence[str] = (),
    **_: object,
) -> Steps:
    """Call a function of the caller's with copies, which it may keep, and check what it returns.

    :param name: of the function, for messages
    :param keys: when not empty, the function receives one dict of the operands by these
    """

    def call_function() -> None:
        copies = [operand.copy() for operand in operands]
        result = np.asarray(function(dict(zip(keys, copies))) if keys else function(*copies))
        if result.shape != out.shape or not np.can_cast(result.dtype, out.dtype, "same_kind"):
            raise ValueError(
                f"expected an array of {out.dtype} of the shape {out.shape} from the function for {quote(name)}, "
                f"got {result.dtype} of {result.shape}"
            )
        np.copyto(out, result, casting="same_kind")

    yield call_function


# -- rearranged ---------------------------------------------------------------------------------------


def transpose(out: Array, x: Array, *, axes: tuple[int, ...]) -> Steps:
    """Copy with axes in another order."""
    yield partial(np.copyto, out, view_transposed(x, axes=axes))


def reshape(out: Array, x: Array, *, shape: tuple[int, ...]) -> Steps:  # noqa: ARG001 -- it is the shape of out
    """Copy in C order; ``out`` is contiguous."""
    yield partial(np.copyto, out.reshape(x.shape), x)


def concat(out: Array, *parts: Array, axis: int) -> Steps:
    """Copy one after another."""
    yield partial(np.concatenate, parts, axis, out)


def slice_axis(out: Array, x: Array, *, axis: int, start: int, end: int) -> Steps:
    """Copy a range."""
    yield partial(np.copyto, out, view_slice(x, axis=axis, start=start, end=end))


def view_same(x: Array) -> Array:
    """Return the operand."""
    return x


def view_cast(x: Array, *, to: str) -> Array | None:
    """Return the operand if it has the dtype."""
    return x if x.dtype == to else None


def view_transposed(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Return a view with axes in another order, the batch first."""
    made: Array = x.transpose(0, *(axis + 1 for axis in axes))
    return made


def view_reshaped(x: Array, *, shape: tuple[int, ...]) -> Array | None:
    """Return a view in another shape; None when the items would have to be copied."""
    made = x.reshape(len(x), *shape)
    return made if np.may_share_memory(made, x) or not x.size else None


def view_slice(x: Array, *, axis: int, start: int, end: int) -> Array:
    """Return a view of a range."""
    where_: tuple[Any, ...] = (..., slice(start, end), *(slice(None),) * (-1 - axis))
    made: Array = x[where_]
    return made
