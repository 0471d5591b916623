"""Schedules that are easily misread, for ``make.py``: those that an analysis takes for a simpler function than they are.

``CASES`` is as in ``sources.py``. Kind "none" is of functions that are not understood.
"""

import math
from types import SimpleNamespace

import numpy as np

CASES = {}


def case(kind):
    def add(function):
        CASES[function.__name__] = (kind, function)
        return function

    return add


def add(name, kind, function):
    CASES[name] = (kind, function)


EMPTY = {}
THREE = {"a": 1, "b": 2, "c": 3}
NAMESPACE = SimpleNamespace(lr=3e-4)
NOTHING = set()
NO_BYTES = b""
COMPLEX = 0j
NUMBERS = [1e-3, 1e-4]
PAIR = (1e-3, 1e-4)


def helper(x):
    return x


# -- truth, length, items and types of values that are not numbers ---------------------------------------

add("truth_of_dict", "none", lambda p: 1e-3 if EMPTY else p)
add("truth_of_default", "none", lambda p, options={}: 1e-3 if options else p)
add("truth_of_namespace", "none", lambda p: 1e-3 if NAMESPACE else p)
add("truth_of_set", "none", lambda p: 1e-3 if NOTHING else p)
add("truth_of_bytes", "none", lambda p: 1e-3 if NO_BYTES else p)
add("truth_of_complex", "none", lambda p: 1e-3 if COMPLEX else p)
add("not_of_dict", "none", lambda p: 1e-3 if not EMPTY else p)
add("truth_of_iterator", "none", lambda p: 1e-3 if reversed(()) else 1e-4)
add("truth_of_list", "constant", lambda p: 1e-3 if NUMBERS else 1e-4)
add("truth_of_tuple", "linear", lambda p: 1e-3 if () else p)
add("length_of_dict", "none", lambda p: len(THREE) * p)
add("length_of_function", "none", lambda p: len(helper) * p)
add("length_of_list", "linear", lambda p: len(NUMBERS) * p)
add("loop_over_dict", "none", lambda p: sum([1 for _ in THREE]) * p)
add("zip_of_dict", "none", lambda p: len(list(zip(THREE, PAIR))) * p)
add("item_of_function", "none", lambda p: helper[0])
add("dict_and_number", "none", lambda p: (EMPTY or 1e-3) * p)
add("all_of_dict", "none", lambda p: 1e-3 if all(EMPTY) else p)
add("equal_dicts", "none", lambda p: 1e-3 if THREE == {} else p)
add("list_is_a_list", "constant", lambda p: 1e-3 if isinstance(NUMBERS, list) else 1e-4)
add("list_is_no_tuple", "constant", lambda p: 1e-3 if isinstance(NUMBERS, tuple) else 1e-4)
add("tuple_is_no_list", "constant", lambda p: 1e-3 if isinstance(PAIR, list) else 1e-4)
add("function_is_no_tuple", "none", lambda p: 1e-3 if isinstance(helper, tuple) else p)
add("one_type_unknown", "none", lambda p: 1e-3 if isinstance(3e-4, (str, math.sin)) else p)
add("rounded_is_int", "constant", lambda p: 1e-3 if isinstance(round(p * 2), int) else 1e-4)
add("condition_is_int", "constant", lambda p: 1e-3 if isinstance(p > 0.5, int) else 1e-4)
add("either_type", "any", lambda p: 1e-3 if isinstance(max(0, p), float) else 1e-4)
add("nan_in_tuple", "none", lambda p: 1e-3 if float("nan") in (float("nan"),) else p)
add("nan_in_max", "none", lambda p: max(float("nan"), p))
add("item_method_of_float", "none", lambda p: p.item() * 1e-3)

# -- text, ranges, iterators ------------------------------------------------------------------------------

LONG = "2.99999999999999973719448544786359432006808556616306304931640625e-4"
add("long_number", "none", lambda p: p * float(LONG))
add("short_number", "linear", lambda p: p * float("2.5e-4"))
add("endless_range", "none", lambda p: sum(range(10**30)) * p)
add("length_of_range", "linear", lambda p: len(range(7)) * p)


@case("none")
def loop_over_endless_range(p):
    for _ in range(10**30):
        return p * 1e-3
    return 5.0


@case("linear")
def iterates_twice(p):
    pairs = zip((1, 2), (3, 4))
    total = 0
    for a, _ in pairs:
        total += a
    for _, b in pairs:
        total += b
    return total * p


@case("linear")
def iterates_through_another(p):
    pairs = zip((1, 2), (3, 4))
    for _ in enumerate(pairs):
        break
    return len(list(pairs)) * p


@case("linear")
def counts_twice(p):
    numbers = enumerate((1, 2))
    return (len(list(numbers)) + len(list(numbers))) * p


@case("none")
def one_list_with_two_names(p):
    one = [1.0]
    other = one
    other += [2.0]
    return sum(one) * p


# -- errors -----------------------------------------------------------------------------------------------


@case("none")
def error_of_unused_value(p):
    math.sqrt(p - 0.3)
    return 3e-4


@case("none")
def handled_error(p):
    try:
        math.sqrt(p - 0.3)
    except ValueError:
        return 1e-4
    return 3e-4


@case("none")
def handled_division(p):
    try:
        1e-4 / (p - 0.3)
    except ZeroDivisionError:
        return 1.0
    return 3e-4


@case("computed")
def handled_division_by_number(p):
    total = 0.0
    try:
        total += (p * p - p * p + p) / 3
    except ZeroDivisionError:
        total = 1.0
    return total


@case("none")
def handled_name(p):
    try:
        missing
    except NameError:
        return p
    return 3e-4


@case("none")
def handled_import(p):
    try:
        import not_there  # noqa: F401
    except ImportError:
        return p
    return 3e-4


def returns_at_the_end(p):
    try:
        return p * 1e-3
    finally:
        return 5e-4


def breaks_at_the_end(p):
    for _ in (1, 2, 3):
        try:
            return p * 1e-3
        finally:
            break
    return 7e-4


def continues_in_finally(p):
    total = 0
    for i in (1, 2, 3):
        try:
            if i == 2:
                continue
            total += i
        finally:
            total += 10
    return total * p


@case("linear")
def continues_in_try(p):
    total = 0
    for i in (1, 2, 3):
        try:
            if i == 2:
                continue
            total += i
        except ValueError:
            pass
    return total * p


# "any": not understood, or understood as what it is
add("returns_at_the_end", "any", returns_at_the_end)
add("breaks_at_the_end", "any", breaks_at_the_end)
add("continues_in_finally", "any", continues_in_finally)

# -- rounding, and pieces that are easily missed -------------------------------------------------------------

add("overflow", "any", lambda p: 1e-3 if p * 1e300 * 1e300 > 1 else 5.0)
add("cancelled", "any", lambda p: 1e-3 if (p * 3 + 1e16) - 1e16 > 3.5 else 5.0)
add("cancelled_value", "computed", lambda p: (p * 3 + 1e16) - 1e16)
add("equal_but_for_rounding", "computed", lambda p: 1e-3 if p / 49 * 49 == p else 5.0)
add("equal_to_itself", "linear", lambda p: p if p == p else 1.0)
add("step_of_rounding", "computed", lambda p: 1000 + int((p * 11 / 11 - p) * 1e17))
add("narrow_piece", "computed", lambda p: p * 1e-3 + (1000 * (p - 0.5015) if 0.5 < p < 0.503 else 0))
add("narrow_rise", "computed", lambda p: 1.0 + (1e6 * (p - 0.50390625) if 0.5 < p < 0.5078125 else 0))
add("zero_between_samples", "none", lambda p: 1e-4 / (p - 0.3))

# -- objects ------------------------------------------------------------------------------------------------


class Base:
    def rate(self):
        return 1.0


class Left(Base):
    pass


class Right:
    def rate(self):
        return 2.0


class Diamond(Left, Right):
    def __call__(self, p):
        return self.rate() * p


class CallsItself:
    def __init__(self):
        self.value = 3e-4
        self.__call__ = lambda p: 9.0

    def __call__(self, p):
        return self.value * p


class Computes:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 1.0

    def __call__(self, p):
        return self.x * p


class Sized:
    def __len__(self):
        return 0

    def __bool__(self):
        return False

    def __iter__(self):
        return iter((5.0, 6.0))

    def __call__(self, p):
        return 1.0 if self else 2.0


class Property:
    def __init__(self):
        vars(self)["value"] = 3.0

    @property
    def value(self):
        return 5.0

    def __call__(self, p):
        return self.value * p


class Counter:
    count = 0

    def __call__(self, p):
        self.count += 1
        return p * self.count


SIZED = Sized()
add("two_bases", "none", Diamond())
add("calls_its_class", "linear", CallsItself())
add("computes_attributes", "none", Computes())
add("has_a_truth", "none", Sized())
add("has_a_length", "none", lambda p: 1e-3 * len(SIZED) + p)
add("has_items", "none", lambda p: sum(SIZED) * p)
add("has_a_property", "none", Property())
add("has_a_counter", "none", Counter())

# -- numpy: functions whose second argument is an axis; only names are pickled ---------------------------------

add("maximum_along_axis", "none", lambda p: np.max(p - 0.5, 0))
add("minimum_along_axis", "none", lambda p: np.min(p * 1e-3, 0))
add("sum_along_axis", "none", lambda p: np.sum([p, 1.0], -1))
add("maximum_of_list", "linear", lambda p: np.max([p, 0.25]))
add("power_of_integers", "none", lambda p: np.power(2, -1) * p)
add("sum_of_conditions", "any", lambda p: np.float64(p > 0.5) + ((np.float64(p) > 0.5) + (np.float64(p) > 0.2)))
add("where_of_conditions", "none", lambda p: np.where(p > 0.5, True, False) + np.where(p > 0.2, True, False))
add("maximum_of_conditions", "none", lambda p: np.maximum(p > 0.5, p > 0.2) + np.maximum(p > 0.5, p > 0.2))
add("where_of_number", "computed", lambda p: np.where(p - 0.5, 1e-3, 1.0))

# -- work: a condition of many pieces, which thousands of jumps depend on ---------------------------------------

PIECES = "    q = abs(abs(abs(abs(abs(abs(p - .5) - .25) - .125) - .0625) - .03125) - .015625)\n    d = q > 5\n"
namespace = {"__name__": "__main__"}
exec(
    "def f(p):\n" + PIECES + "    for i in range(199):\n" + 20 * "        if d: return 1\n" + "    return p", namespace
)
add("many_decisions", "none", namespace["f"])
