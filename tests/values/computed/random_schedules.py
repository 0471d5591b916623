"""Write random schedules as a CPython pickles them, with what they return: ``random_schedules.py NUMBER FILE [SEED]``.

Needs cloudpickle and numpy of any release; Python 3.6 has to compile this file. Each schedule is a function with its
source, numbers of Python and of every dtype of numpy in its closure and globals, and the values that it returns for 61
values of the progress, or None where it fails or is not finite.
"""

import base64
import gzip
import json
import math
import platform
import random
import sys
import warnings

import numpy as np

DTYPES = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
CONSTANTS = [
    "0", "1", "2", "3", "5", "0.5", "0.25", "0.1", "0.3", "0.7", "3e-4", "1e-3", "1e-5", "1e16", "2.5", "True", "False",
    "-1", "-0.5", "10", "100", "2**31", "2**62", "1e300",
]  # fmt: skip
POINTS = [step / 20 for step in range(21)] + [1 - step / 7 for step in range(8)]
MATH = "sin cos exp sqrt log tanh fabs floor ceil trunc log1p atan erf".split()
NUMPY = "sin cos exp sqrt log tanh abs floor square sign log1p arctan rint float64 float32 int64 int32 float16".split()


class Writer(object):
    """Writes the source of one function."""

    def __init__(self, chance):
        self.chance = chance
        self.names = ["p", "p", "p"] + ["c%d" % index for index in range(4)] + ["G0", "G1"]
        self.lines = []

    def pick(self, *items):
        return self.chance.choice(items)

    def expression(self, depth):
        if depth <= 0 or self.chance.random() < 0.12:
            return self.chance.choice(self.names) if self.chance.random() < 0.65 else self.chance.choice(CONSTANTS)
        kind = self.chance.random()
        a = self.expression(depth - 1)
        b = self.expression(depth - 1)
        if kind < 0.45:
            operator = self.pick("+", "-", "*", "+", "-", "*", "/", "//", "%", "**", "&", "|")
            if operator == "**":
                b = self.pick("2", "3", "0.5", "-1", "p", "c0", "1")
            return "(%s %s %s)" % (a, operator, b)
        if kind < 0.53:
            return "(%s if %s else %s)" % (a, self.condition(depth - 1), b)
        if kind < 0.62:
            return "%s(%s, %s)" % (self.pick("min", "max", "min", "max", "np.minimum", "np.maximum"), a, b)
        if kind < 0.67:
            return "%s(%s)" % (self.pick("math.", "") and "math." + self.chance.choice(MATH) or "abs", a)
        if kind < 0.75:
            return "np.%s(%s)" % (self.chance.choice(NUMPY), a)
        if kind < 0.83:
            return "(%s(%s))" % (self.pick("float", "int", "bool", "abs", "round", "-", "+", "(not %s) or abs" % b), a)
        if kind < 0.86:
            return "round(%s, %d)" % (a, self.chance.randrange(4))
        if kind < 0.89:
            return "np.clip(%s, %s, %s)" % (a, b, self.expression(depth - 2))
        if kind < 0.92:
            return "np.interp(%s, [0.0, 0.4, 1.0], [%s, 0.5, 0.1])" % (a, self.pick("0.1", "1e-3", "2"))
        if kind < 0.94:
            return "sum([%s, %s, 0.1])" % (a, b)
        if kind < 0.96:
            return "(%s, %s, 0.5)[int(%s) %% 3]" % (a, b, self.expression(depth - 2))
        if kind < 0.98:
            return "{'a': %s, 'b': %s}['a']" % (a, b)
        return "(lambda x: x * %s)(%s)" % (self.pick("0.5", "c1", "2"), a)

    def condition(self, depth):
        kind = self.chance.random()
        a, b = self.expression(depth), self.expression(depth)
        if kind < 0.7:
            return "%s %s %s" % (a, self.pick("<", "<=", ">", ">=", "==", "!="), b)
        if kind < 0.8:
            return "%s < %s <= %s" % (a, self.expression(depth - 1), b)
        if kind < 0.92:
            return "%s %s %s" % (self.condition(depth - 1), self.pick("and", "or"), self.condition(depth - 1))
        return a

    def body(self):
        for index in range(self.chance.randrange(4)):
            name = "x%d" % index
            kind = self.chance.random()
            if kind < 0.5:
                self.lines.append("    %s = %s" % (name, self.expression(2)))
            elif kind < 0.7:
                self.lines.append("    %s = %s" % (name, self.expression(1)))
                self.lines.append("    if %s:" % self.condition(1))
                self.lines.append("        %s %s= %s" % (name, self.pick("+", "-", "*"), self.expression(1)))
            elif kind < 0.85:
                self.lines.append("    %s = %s" % (name, self.expression(0)))
                self.lines.append("    for i in range(%d):" % self.chance.randrange(1, 5))
                self.lines.append("        %s = %s + i * %s" % (name, name, self.expression(1)))
            else:
                self.lines.append("    %s = sum([y * %s for y in (0.1, 0.2, c0)])" % (name, self.expression(1)))
            self.names += [name, name]
        self.lines.append("    return %s" % self.expression(self.chance.randrange(1, 5)))
        return "\n".join(self.lines)


def make_number(chance):
    """A number of Python, or of numpy."""
    if chance.random() < 0.45:
        return chance.choice([0.5, 0.1, 3e-4, 2, 1, 3, True, 0.25, -1, 1e-5, 1.5])
    value = chance.choice([0, 1, 2, 3, 0.5, 0.1, 100, 2**31 - 1, 2**31, 250])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(value).astype(chance.choice(DTYPES))[()]


def make_function(chance):
    """The source of a function, and the function."""
    source = Writer(chance).body()
    text = "def make(c0, c1, c2, c3):\n def f(p):\n" + source + "\n return f\n"
    scope = {"math": math, "np": np, "__name__": "__main__", "G0": make_number(chance), "G1": make_number(chance)}
    exec(text, scope)
    return source, scope["make"](*(make_number(chance) for _ in range(4)))


def call(function, progress):
    try:
        value = float(function(progress))
    except Exception:
        return None
    return value if math.isfinite(value) else None


def main(number, path, seed="0"):
    import cloudpickle

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    chance = random.Random("%s %s" % (platform.python_version(), seed))
    points = POINTS + [chance.random() for _ in range(32)]
    rows = []
    while len(rows) < int(number):
        source, function = make_function(chance)
        values = [call(function, point) for point in points]
        if chance.random() < 0.9 and all(value is None for value in values):
            continue
        pickled = base64.b64encode(cloudpickle.dumps(function, protocol=4)).decode()
        rows.append({"source": source, "pickle": pickled, "values": values})
    found = {"python": platform.python_version(), "numpy": np.__version__, "points": points, "schedules": rows}
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(found, sort_keys=True).encode("ascii"))


if __name__ == "__main__":
    main(*sys.argv[1:])
