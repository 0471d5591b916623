"""What a scan says that loading runs of a class or object carried by value is what cloudpickle's loader runs.

Each case defines classes whose methods note their names when they run. They are pickled as classes of ``__main__`` and
loaded by another process, which prints the names. Run with real cloudpickle:
``python -m pytest -m interop tests/interop/test_carried_live.py``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, Final

import pytest

cloudpickle = pytest.importorskip("cloudpickle")

import sbformat

pytestmark = pytest.mark.interop

PRELUDE: Final = '''
import abc, builtins, enum, typing

def noted(owner, name, result=None, *, inherited=None):
    def method(*args, **kwargs):
        builtins.RAN.append(f"{owner}.{name}")
        return getattr(inherited, name)(*args, **kwargs) if inherited is not None else result
    return method

builtins.RAN = []
'''
LOADER: Final = """
import builtins, json, pickle, sys
builtins.RAN = []
loaded = pickle.loads(sys.stdin.buffer.read())
ran = list(builtins.RAN)
json.dump(ran, sys.stdout)
sys.stdout.flush()
"""

CASES: Final[dict[str, tuple[str, str, set[str]]]] = {
    "a plain object": (
        "class A:\n    __init__ = noted('A', '__init__')\n    __call__ = noted('A', '__call__')",
        "A()",
        set(),
    ),
    "__init_subclass__ of a base": (
        "class A:\n    __init_subclass__ = classmethod(noted('A', '__init_subclass__'))\nclass B(A): pass",
        "B",
        {"A.__init_subclass__"},
    ),
    "__init_subclass__ of the class itself": (
        "class A:\n    __init_subclass__ = classmethod(noted('A', '__init_subclass__'))",
        "A",
        set(),
    ),
    "a metaclass": (
        "class M(type):\n"
        "    __new__ = noted('M', '__new__', inherited=type)\n"
        "    __init__ = noted('M', '__init__', inherited=type)\n"
        "    __setattr__ = noted('M', '__setattr__', inherited=type)\n"
        "    __prepare__ = classmethod(noted('M', '__prepare__', {}))\n"
        "    __hash__ = noted('M', '__hash__', inherited=type)\n"
        "class A(metaclass=M): x = 1",
        "A",
        {"M.__new__", "M.__init__", "M.__setattr__", "M.__prepare__", "M.__hash__"},
    ),
    "an object of a class with a metaclass": (
        "class M(type):\n    __call__ = noted('M', '__call__', inherited=type)\nclass A(metaclass=M): pass",
        "A()",
        set(),
    ),
    "the metaclass of a base": (
        "class M(type):\n    __init__ = noted('M', '__init__', inherited=type)\n"
        "class A(metaclass=M): pass\nclass B(A): pass",
        "B()",
        {"M.__init__"},
    ),
    "__new__": (
        "class A:\n    def __new__(cls, a):\n        builtins.RAN.append('A.__new__')\n        return object.__new__(cls)\n"
        "    def __getnewargs__(self): return (1,)",
        "A(1)",
        {"A.__new__"},
    ),
    "an inherited __new__ with keywords": (
        "class A:\n    def __new__(cls, *, a):\n        builtins.RAN.append('A.__new__')\n        return object.__new__(cls)\n"
        "    def __getnewargs_ex__(self): return (), {'a': 1}\nclass B(A): pass",
        "B(a=1)",
        {"A.__new__"},
    ),
    "__setstate__": (
        "class A:\n    def __getstate__(self): return {'a': 1}\n    __setstate__ = noted('A', '__setstate__')\n"
        "    __setattr__ = noted('A', '__setattr__')",
        "A()",
        {"A.__setstate__"},
    ),
    "attributes are not set one by one": (
        "class A:\n    def __init__(self): self.__dict__['a'] = 1\n    __setattr__ = noted('A', '__setattr__')",
        "A()",
        set(),
    ),
    "slots are": (
        "class A:\n    __slots__ = ('a',)\n    __setattr__ = noted('A', '__setattr__', inherited=object)\n"
        "    def __init__(self): self.a = 1",
        "A()",
        {"A.__setattr__"},
    ),
    "a property that a state names": (
        "class A:\n    def __getstate__(self): return None, {'v': 1}\n"
        "    v = property(noted('A', 'other'), noted('A', 'v'))",
        "A()",
        {"A.v"},
    ),
    "a descriptor that a state names": (
        "class D:\n    __set__ = noted('D', '__set__')\n    __get__ = noted('D', '__get__')\n"
        "    __set_name__ = noted('D', '__set_name__')\n"
        "class A:\n    d = D()\n    def __getstate__(self): return None, {'d': 1}",
        "A()",
        {"D.__set__"},
    ),
    "a descriptor that nothing sets": (
        "class D:\n    __get__ = noted('D', '__get__')\n    __set_name__ = noted('D', '__set_name__')\n"
        "class A:\n    d = D()\n    def __init__(self): self.x = 1",
        "A()",
        set(),
    ),
    "__getattribute__": (
        "class A:\n    def __init__(self): self.x = 1\n"
        "    __getattribute__ = noted('A', '__getattribute__', inherited=object)",
        "A()",
        {"A.__getattribute__"},
    ),
    "__getattr__": (
        "class A:\n    def __init__(self): self.x = 1\n"
        "    def __getattr__(self, name):\n        builtins.RAN.append('A.__getattr__')\n        raise AttributeError(name)",
        "A()",
        {"A.__getattr__"},
    ),
    "a list": (
        "class A(list):\n    extend = noted('A', 'extend', inherited=list)\n"
        "    append = noted('A', 'append', inherited=list)",
        "A([1, 2])",
        {"A.extend"},
    ),
    "a dict": (
        "class A(dict):\n    __setitem__ = noted('A', '__setitem__', inherited=dict)",
        "A(a=1)",
        {"A.__setitem__"},
    ),
    "a set, which is made by a call": (
        "class A(set):\n    __init__ = noted('A', '__init__', inherited=set)\n    add = noted('A', 'add', inherited=set)",
        "A({1})",
        {"A.__init__"},
    ),
    "an exception": (
        "class A(Exception):\n    def __init__(self, a):\n        builtins.RAN.append('A.__init__')\n"
        "        super().__init__(a)",
        "A(1)",
        {"A.__init__"},
    ),
    "__reduce__ that calls the class": (
        "class M(type):\n    __call__ = noted('M', '__call__', inherited=type)\n"
        "class A(metaclass=M):\n    __init__ = noted('A', '__init__')\n    def __reduce__(self): return A, ()",
        "A()",
        {"M.__call__", "A.__init__"},
    ),
    "keys of a dict": (
        "class A:\n    __hash__ = noted('A', '__hash__', 1)\n    __eq__ = noted('A', '__eq__', True)",
        "{A(): 1}",
        {"A.__hash__"},
    ),
    "__del__": (
        "class A:\n    __del__ = noted('A', '__del__')\nclass B:\n    def __reduce__(self): return B, ()\n"
        "class C:\n    __slots__ = ('a',)\n    __setattr__ = noted('C', '__setattr__')\n    def __getstate__(self):\n"
        "        return None, {'a': A()}",
        "C()",
        {"C.__setattr__", "A.__del__"},
    ),
    "an enumeration that a base makes the members of": (
        "class A(float):\n    def __new__(cls, value):\n        builtins.RAN.append('A.__new__')\n"
        "        return float.__new__(cls, value)\nclass E(A, enum.Enum):\n    HALF = 0.5",
        "E.HALF",
        {"A.__new__"},
    ),
    "__dict__ as a property": (
        "class A:\n    __slots__ = ('_d',)\n    def __getstate__(self): return {'a': 1}\n"
        "    __dict__ = property(noted('A', '__dict__', {}))",
        "A()",
        {"A.__dict__"},
    ),
    "an abstract class with a class registered": (
        "class A(abc.ABC):\n    __subclasshook__ = classmethod(noted('A', '__subclasshook__', NotImplemented))\n"
        "class B: pass\nA.register(B)",
        "A",
        {"A.__subclasshook__"},
    ),
}


def pickled(source: str, expression: str) -> bytes:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PRELUDE + source, "classes.py", "exec"), scope)  # noqa: S102 -- the test's own text
    return bytes(cloudpickle.dumps(eval(expression, scope)))  # noqa: S307 -- as above


def told(report: sbformat.ScanReport) -> tuple[set[str], set[str]]:
    """The methods that the findings say loading runs, and those that it may run."""
    runs, may_run = set(), set()
    for finding in report.findings:
        for certain, names in re.findall(r"(may run|runs) ((?:[\w.]+, )*[\w.]+\.[\w.]+)", finding.message):
            (runs if certain == "runs" else may_run).update(names.split(", "))
    return runs, may_run


@pytest.mark.parametrize("case", CASES)
def test_what_runs_is_what_is_said_to_run(case: str) -> None:
    source, expression, expected = CASES[case]
    data = pickled(source, expression)
    done = subprocess.run([sys.executable, "-c", LOADER], input=data, capture_output=True, check=True)
    ran = set(json.loads(done.stdout))
    assert ran == expected
    report = sbformat.scan(data)
    assert report.verdict == "code"
    runs, may_run = told(report)
    assert runs <= ran <= runs | may_run
