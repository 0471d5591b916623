"""Details of numpy values that no other family shows: found with mutants of a decoder (FORMAT.md 6.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.generators import expected
from conformance.generators.build_pth import EXIT, Apply, Change, Name
from conformance.generators.numpy_values import DTYPE, NATIVE, TWO, array, as_scalar, scalar
from conformance.generators.small_values import accepts, refuses
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from dtypes()
    yield from arrays()


def dtypes() -> Iterator[Vector]:
    rule = Rule("6.6", "then BUILD with 8 or 9 items: 3 or 4, then `<`, `>`, `=` (little) or `|`", "numpy-values")
    fourth = Apply(DTYPE, ("f8", False, True), Change("BUILD", (4, ">", *NATIVE)))
    yield accepts(rule, "numpy-dtype-of-version-4", scalar(fourth, TWO[:8][::-1]), as_scalar("float64", TWO[:8]))
    for name, change in {
        "no-tuple": Change("BUILD", None),
        "appended": Change("APPENDS", [3, "<", *NATIVE]),
    }.items():
        yield refuses(rule, f"numpy-dtype-state-{name}", scalar(Apply(DTYPE, ("f8", False, True), change), TWO[:8]))
    rule = Rule("6.6", "- a dtype is `numpy.dtype` (code[, align[, copy]])", "numpy-values")
    yield refuses(rule, "numpy-dtype-align-none", scalar(Apply(DTYPE, ("f8", None)), TWO[:8]))
    yield refuses(rule, "numpy-dtype-of-four-arguments", scalar(Apply(DTYPE, ("f8", False, True, False)), TWO[:8]))
    yield refuses(rule, "numpy-dtype-of-computed-arguments", scalar(Apply(DTYPE, EXIT), TWO[:8]))
    rule = Rule("6.5", "Anything else in place of an argument is an error.", "numpy-values")
    for name, function in {"module": Name("my", "dtype"), "name": Name("numpy", "float64")}.items():
        yield refuses(rule, f"numpy-dtype-of-another-{name}", scalar(Apply(function, ("f8",)), TWO[:8]))


def arrays() -> Iterator[Vector]:
    rule = Rule("6.6", "then one BUILD (1, shape, dtype, is_fortran: a bool, 0 or 1, bytes)", "numpy-values")
    good = array((2,), TWO)
    held = expected.array("float64", [2], TWO)
    yield accepts(rule, "numpy-array-fortran-0", array((2,), TWO, order=0), held)
    state = good.changes[0].value
    for name, tree in {
        "of-version-2": Apply(good.func, good.args, Change("BUILD", (2, *state[1:]))),
        "state-none": Apply(good.func, good.args, Change("BUILD", None)),
        "appended": Apply(good.func, good.args, Change("APPENDS", list(state))),
        "of-two-sizes": array((2,), TWO, how=((0, 0), b"b")),
        "of-a-list-of-sizes": array((2,), TWO, how=([0], b"b")),
        "of-no-code": array((2,), TWO, how=((0,), None)),
        "shape-list": array([2], TWO),
        "shape-none": array(None, TWO[:8]),
        "shape-of-floats": array((2.0,), TWO),
        "shape-of-bools": array((True,), TWO[:8]),
        "shape-of-two-negatives": array((-1, -2), TWO),
    }.items():
        yield refuses(rule, f"numpy-array-{name}", tree)
    rule = Rule("6.5", "is unsupported if it is another unchanged global.", "numpy-values")
    for name, function in {"module": Name("my", "ndarray"), "name": Name("numpy", "recarray")}.items():
        made = Apply(good.func, (function, *good.args[1:]), *good.changes)
        yield refuses(rule, f"numpy-array-class-of-another-{name}", made, "unsupported")
