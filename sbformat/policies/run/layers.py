"""Kernels of layers: matrix products, convolutions, and functions of the caller (see ``kernels``)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sbformat.errors import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sbformat.policies.run.steps import Array, Steps

_PIECE_ITEMS: Final = 1 << 17
"""Items of the patches of a convolution that are in memory together, where one pixel's are not more."""


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
            message = (
                f"expected an array of {out.dtype} of the shape {out.shape} from the function for {quote(name)}, "
                f"got {result.dtype} of {result.shape}"
            )
            raise ValueError(message)
        np.copyto(out, result, casting="same_kind")

    yield call_function
