"""Write what a CPython pickles for the schedules of a file: ``python make.py sources.py RELEASE.json.gz``.

Needs cloudpickle; numpy's few functions are replaced, because only their names are pickled. The values are what the
functions return when this CPython calls them. CPython 3.14 runs it in Pyodide where it is not installed otherwise.
"""

import base64
import gzip
import json
import math
import os
import platform
import sys
import types


def stand_in_for_numpy():
    numpy = types.ModuleType("numpy")
    for name in ("sin", "cos", "exp", "log", "sqrt", "pi"):
        setattr(numpy, name, getattr(math, name))
    numpy.float64 = float
    numpy.float32 = float
    numpy.maximum = max
    numpy.power = pow
    numpy.max = numpy.min = numpy.sum = max
    numpy.random = types.ModuleType("numpy.random")
    numpy.clip = lambda x, a_min=None, a_max=None: min(max(x, a_min), math.inf if a_max is None else a_max)
    numpy.where = lambda test, one, other: one if test else other
    numpy.interp = interp
    sys.modules["numpy"] = numpy


def interp(x, points, values):
    if x <= points[0]:
        return values[0]
    for left, right, low, high in zip(points, points[1:], values, values[1:]):
        if x < right:
            return low + (high - low) / (right - left) * (x - left)
    return values[-1]


def call(function, progress):
    try:
        return float(function(progress))
    except Exception:
        return None


def main(source_name, path):
    stand_in_for_numpy()
    import cloudpickle

    with open(os.path.join(os.path.dirname(__file__), source_name)) as file:
        source = file.read()
    exec(compile(source, "train.py", "exec"), globals())  # functions of __main__ are pickled by value
    made = {}
    for name, (kind, function) in CASES.items():
        values = None if kind == "none" else [call(function, step / 50) for step in range(51)]
        pickled = cloudpickle.dumps(function, protocol=4)
        made[name] = {"kind": kind, "pickle": base64.b64encode(pickled).decode(), "values": values}
    found = {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__, "schedules": made}
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(found, sort_keys=True).encode("ascii"))


if __name__ == "__main__":
    main(*sys.argv[1:])
