"""Schedules as users write them, for ``make.py``: Python 3.6 has to compile them, so newer syntax is text.

``CASES`` maps a name to what the schedule is ("constant", "linear", "computed", or "none" if it is not understood) and
to the function itself.
"""

import argparse
import functools
import math
import operator
import sys
from math import cos
from types import SimpleNamespace

import numpy as np

CASES = {}


def case(kind, name=None):
    """Return a decorator that adds a schedule, or the schedule that a factory without arguments returns."""

    def add(function):
        CASES[name or function.__name__] = (kind, function)
        return function

    return add


def add(name, kind, function):
    CASES[name] = (kind, function)


RATE = 3e-4
FLOOR = 1e-5
SETTINGS = {"lr": 0.001, "points": (0.2, 0.5, 0.9)}


def linear_schedule(initial_value):
    def func(progress_remaining):
        return progress_remaining * initial_value

    return func


def two_values(initial_value, final_value):
    def scheduler(progress):
        return final_value + progress * (initial_value - final_value)

    return scheduler


def get_linear_fn(start, end, end_fraction):
    def func(progress_remaining):
        if (1 - progress_remaining) > end_fraction:
            return end
        return start + (1 - progress_remaining) * (end - start) / end_fraction

    return func


def constfn(val):
    def func(_):
        return val

    return func


def with_floor(initial_value, floor):
    def func(progress_remaining: float) -> float:
        value = progress_remaining * initial_value
        value = max(value, floor)
        return value

    return func


def cosine(initial_value, minimum=1e-6):
    def func(progress_remaining):
        fraction = 0.5 * (1 + math.cos(math.pi * (1 - progress_remaining)))
        return minimum + (initial_value - minimum) * fraction

    return func


def exponential(initial_value, decay):
    def func(progress_remaining):
        return initial_value * decay ** (1 - progress_remaining)

    return func


def wrapped(schedule):
    return lambda progress: float(schedule(progress))


def piecewise(endpoints, outside):
    def value(p):
        t = 1 - p
        for (left_t, left), (right_t, right) in zip(endpoints[:-1], endpoints[1:]):
            if left_t <= t < right_t:
                alpha = (t - left_t) / (right_t - left_t)
                return left + alpha * (right - left)
        return outside

    return value


# -- constant -----------------------------------------------------------------------------------------

add("constant", "constant", lambda _: 3e-4)
add("constant_integer", "constant", lambda p: 1)
add("constant_closure", "constant", constfn(0.2))
add("constant_global", "constant", lambda p: RATE)
add("constant_computed", "constant", lambda p: 3e-4 * math.sqrt(4) / 2)
add("constant_zero_slope", "constant", lambda p: 0.001 + 0 * p)
add("constant_both_branches", "constant", lambda p: 0.1 if p > 0.5 else 0.1)
add("constant_min_of_range", "constant", lambda p: min(p + 1, 0.5))
add("constant_always_true", "constant", lambda p: 1e-3 if p >= 0 else 5.0)
add("constant_dict", "constant", lambda p: SETTINGS["lr"])
add("constant_numpy", "constant", lambda p: np.float64(0.25))

# -- linear -------------------------------------------------------------------------------------------

add("lambda", "linear", lambda p: p * 3e-4)
add("lambda_reversed", "linear", lambda p: 3e-4 * p)
add("closure", "linear", linear_schedule(0.001))
add("closure_integer", "linear", linear_schedule(2))
add("two_values", "linear", two_values(2.5e-4, 2.5e-6))
add("rising", "linear", lambda p: 1e-3 * (1 - p) + 1e-5)
add("linear_fn", "linear", get_linear_fn(1.0, 0.05, 0.1))
add("linear_fn_whole", "linear", get_linear_fn(0.001, 1e-05, 1.0))
add("floor_if", "linear", with_floor(3e-4, 3e-5))
add("floor_max", "linear", lambda p: max(p * 3e-4, FLOOR))
add("floor_max_reversed", "linear", lambda p: max(FLOOR, 3e-4 * p))
add("floor_numpy", "linear", lambda p: np.maximum(p * 3e-4, 1e-5))
add("clip", "linear", lambda p: np.clip(p * 3e-4, 1e-4, 1.0))
add("clip_keywords", "linear", lambda p: np.clip(p * 3e-4, a_min=1e-4, a_max=None))
add("sine_of_constant", "linear", lambda p: p * np.sin(1.0))
add("division", "linear", lambda p: p / 3000.0)
add("negative", "linear", lambda p: -(-p) * 2e-4)
add("plus", "linear", lambda p: +p * 2e-4)
add("in_place", "linear", lambda p: in_place(p))
add("calls_another", "linear", wrapped(linear_schedule(0.0007)))
add("calls_global", "linear", lambda p: linear_schedule(0.5)(p))
add("partial", "linear", functools.partial(lambda rate, p: rate * p, 3e-4))
add("partial_keyword", "linear", functools.partial(lambda p, rate: rate * p, rate=3e-4))
add("default", "linear", lambda p, rate=3e-4: rate * p)
add("interp", "linear", lambda p: np.interp(p, [0.0, 1.0], [1e-5, 1e-3]))
add("interp_end", "linear", lambda p: np.interp(1 - p, [0, 0.5], [1e-3, 1e-5]))
add("namespace", "linear", lambda p: SETTINGS_OBJECT.lr * p)
add("float_call", "linear", lambda p: float(p) * 3e-4)
add("power_of_one", "linear", lambda p: 3e-4 * (p * 2**-1))
add("operator_function", "linear", lambda p: operator.mul(p, 0.01))
add("module_function", "computed", lambda p: cos(p) * 0.01)
add("arguments", "linear", lambda p: ARGUMENTS.lr * p)
add("dict_with_default", "linear", lambda p: SETTINGS.get("rate", 0.001) * p)
add("power_1", "linear", lambda p: 0.001 * p**1)
add("text_of_a_number", "linear", lambda p: float("3e-4") * p)
add("any_of", "computed", lambda p: 1e-3 if any([p > 0.5, p < 0.1]) else 1e-4)
add("item_of_list", "computed", lambda p: [1e-3, 5e-4, 1e-4][int((1 - p) * 2.99)])
add("is_close", "computed", lambda p: 1e-3 if abs(p - 0.5) <= 0.1 else 1e-4)
ARGUMENTS = argparse.Namespace(lr=0.004)
SETTINGS_OBJECT = SimpleNamespace(lr=0.004)


def in_place(p):
    value = p
    value *= 4e-4
    value += 1e-4
    value -= 1e-5
    value /= 2
    return value


@case("linear")
def keyword_only(p, *, rate=0.003):
    return p * rate


@case("linear")
def star_arguments(p, *args):
    return p * 0.003


@case("linear")
def asserted(p):
    assert 0 <= p <= 1, "expected a fraction"
    return p * 0.02


@case("linear")
def raises_never(p):
    if p < 0 or p > 1:
        raise ValueError(f"expected a fraction, got {p}")
    return 0.02 * p


@case("linear")
def imports_math(p):
    import math

    return p * math.sqrt(0.25)


@case("linear")
def imports_from(p):
    from math import sqrt

    return p * sqrt(0.25)


@case("linear")
def loop(p):
    total = 0.0
    for _ in range(10):
        total += 1e-4 * p
    return total


@case("linear")
def while_loop(p):
    count = 0
    total = 0.0
    while count < 5:
        count += 1
        if count == 4:
            continue
        total += p * 0.001
    return total


@case("linear")
def broken_loop(p):
    rate = 0.0
    for number in (1e-3, 2e-3, 3e-3):
        rate = number
        if number > 1.5e-3:
            break
    return rate * p


@case("linear")
def inner_function(p):
    scale = 0.003

    def inner(x):
        return x * scale

    return inner(p)


@case("linear")
def argument_in_cell(p):
    def inner():
        return p * 0.25

    return inner()


@case("linear")
def unpacks(p):
    a, b = 0.001, 0.002
    a, b = b, a
    return b * p + a * 0


@case("linear")
def not_none(p):
    return (lambda x: x if x is not None else 0.0)(p) * 0.5


@case("linear")
def tries(p):
    rate = 0.0
    for number in (1.0, 2.0):
        try:
            rate += number / 1000
            if rate > 0.002:
                break
        except ZeroDivisionError:
            rate = 0.5
    return rate * p


class Linear:
    def __init__(self, start, end):
        self.start = start
        self.end = end

    def value(self, p):
        return self.end + (self.start - self.end) * p

    def __call__(self, progress):
        return self.value(progress)


class Floored(Linear):
    FLOOR = 1e-4

    def __call__(self, progress):
        return max(self.FLOOR, Linear.__call__(self, progress))


add("object", "linear", Linear(1e-3, 1e-5))
add("object_of_subclass", "linear", Floored(1e-3, 0.0))
add("object_called", "linear", (lambda schedule: lambda p: schedule(p) / 2)(Linear(0.2, 0.1)))
add("bound_method", "linear", Linear(0.3, 0.1).value)

# -- other pure functions -----------------------------------------------------------------------------

add("square", "computed", lambda p: 3e-4 * p**2)
add("square_root", "computed", lambda p: 3e-4 * math.sqrt(p))
add("cosine", "computed", cosine(3e-4))
add("cosine_numpy", "computed", lambda p: 1e-4 + 1e-3 * (1 + np.cos(np.pi * (1 - p))) / 2)
add("exponential", "computed", exponential(1e-3, 0.1))
add("exponential_math", "computed", lambda p: 1e-3 * math.exp(-5 * (1 - p)))
add("exponential_numpy", "computed", lambda p: 1e-3 * np.exp(-5.0 * (1.0 - p)))
add("power", "computed", lambda p: 1e-3 * pow(p, 0.9))
add("power_numpy", "computed", lambda p: 1e-3 * np.power(p, 1.5))
add("steps", "computed", lambda p: 1e-3 if p > 0.5 else 1e-4)
add("three_steps", "computed", lambda p: 1e-3 if p > 0.66 else (5e-4 if p > 0.33 else 1e-4))
add("chained", "computed", lambda p: 1e-3 if 0.25 < p <= 0.75 else 1e-4)
add("and_or", "computed", lambda p: 1e-3 if p > 0.9 or (p > 0.1 and not p > 0.5) else 1e-4)
add("boolean_arithmetic", "computed", lambda p: 1e-4 + (p > 0.5) * 1e-3)
add("first_step_apart", "computed", lambda p: 1e-3 if p == 1 else p * 1e-4)
add("warm_up", "computed", lambda p: 3e-4 * min((1 - p) / 0.1, 1.0, p / 0.9))
add("hold_then_fall", "computed", lambda p: 3e-4 * min(1.0, p / 0.5))
add("triangle", "computed", lambda p: 1e-3 * (1 - abs(2 * p - 1)))
add("floor_division", "computed", lambda p: 1e-4 * ((p * 10) // 1 + 1))
add("remainder", "computed", lambda p: 1e-4 + 1e-3 * (p % 0.25))
add("integer", "computed", lambda p: 1e-4 * (1 + int(p * 4)))
add("rounded", "computed", lambda p: 1e-4 + round(p, 1) * 1e-3)
add("floor_function", "computed", lambda p: 0.5 ** math.floor((1 - p) * 4) * 1e-3)
add("logarithm", "computed", lambda p: 1e-3 * math.log(1 + p) + 1e-5)
add("tanh", "computed", lambda p: 1e-3 * (1 + math.tanh(4 * p - 2)))
add("where", "computed", lambda p: np.where(p > 0.5, 1e-3, 1e-4))
add("interp_three", "computed", lambda p: np.interp(p, [0.0, 0.5, 1.0], [1e-5, 1e-3, 1e-4]))
add("opaque_condition", "computed", lambda p: 1e-3 if math.sin(p) > 0.5 else p * 1e-4)
add("guarded_division", "computed", lambda p: 1e-4 / p if p > 0.1 else 1e-3)
add("piecewise", "computed", piecewise([(0.0, 1e-3), (0.25, 5e-4), (0.75, 1e-4), (1.0, 1e-5)], 1e-5))
add("nested", "computed", wrapped(cosine(0.1)))
add("listed", "computed", lambda p: 1e-4 + sum([x * p * p for x in SETTINGS["points"]]))
add("keywords", "computed", lambda p: two_values(initial_value=1e-3, final_value=1e-5)(p) * p)
add("long_constants", "computed", lambda p: p * p + 1.5e300 * 1e-300 - 2.25e-3 / 1e-1)

# -- not pure functions of numbers, or not ones that are known ------------------------------------------


def impure(p):
    global COUNT
    COUNT = 1
    return p


def counter():
    count = 0

    def func(p):
        nonlocal count
        count += 1
        return p / count

    return func


add("generator", "none", lambda p: sum(1e-4 for x in SETTINGS["points"] if p > x) + 1e-5)
add("prints", "none", lambda p: print(p) or p)
add("writes_a_global", "none", impure)
add("counts", "none", counter())
add("random", "none", lambda p: p * np.random.rand())
add("text", "none", lambda p: float("rate") * p)
add("returns_none", "none", lambda p: None)
add("divides_by_zero", "none", lambda p: 1e-4 / p)
add("logarithm_of_zero", "none", lambda p: math.log(p))
add("infinite_power", "none", lambda p: p + 10**10**10)
add("endless", "none", lambda p: endless(p))
add("recursive", "none", lambda p: recursive(p))
add("opens_a_file", "none", lambda p: len(open("rate.txt").read()) * p)
add("raises", "none", lambda p: raises(p))
add("two_arguments", "none", lambda p, q: p * q)
add("no_arguments", "none", lambda: 0.1)
add("shadowed_float", "none", lambda p: shadowed(p))
add("numpy_float32", "none", lambda p: np.float32(3e-4) * p)


def endless(p):
    while True:
        p += 1


def recursive(p):
    return recursive(p / 2) if p > 0 else 0.1


def raises(p):
    if p < 0.5:
        raise ValueError
    return p


def shadowed(p):
    def float(x):
        return open(x)

    return float(p)


def newer(name, kind, release, source):
    """Add a schedule in syntax that older releases do not have."""
    if sys.version_info >= release:
        namespace = dict(globals(), __name__="__main__")
        exec(source, namespace)
        CASES[name] = (kind, namespace["f"])


newer("positional_only", "linear", (3, 8), "def f(p, /, rate=0.5):\n    return p * rate\n")
newer("walrus", "computed", (3, 8), "f = lambda p: (x := p * 0.5) * x + 1e-4\n")
newer(
    "matched",
    "linear",
    (3, 10),
    "def f(p):\n    match 'linear':\n        case 'linear':\n            return p * 0.25\n    return 0.5\n",
)
many = "".join(f"    x{i} = {i} / 1e6\n" for i in range(300))
newer("extended_arguments", "linear", (3, 6), "def f(p):\n" + many + "    return x299 * p + x280\n")
