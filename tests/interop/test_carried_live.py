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

import sbformat

cloudpickle = pytest.importorskip("cloudpickle")

PRELUDE: Final = """
import abc, builtins, enum, typing

def noted(owner, name, result=None, *, inherited=None):
    def method(*args, **kwargs):
        builtins.RAN.append(f"{owner}.{name}")
        return getattr(inherited, name)(*args, **kwargs) if inherited is not None else result
    return method

builtins.RAN = []
"""
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
        """
class A:
    __init__ = noted('A', '__init__')
    __call__ = noted('A', '__call__')
""",
        "A()",
        set(),
    ),
    "__init_subclass__ of a base": (
        """
class A:
    __init_subclass__ = classmethod(noted('A', '__init_subclass__'))
class B(A): pass
""",
        "B",
        {"A.__init_subclass__"},
    ),
    "__init_subclass__ of the class itself": (
        """
class A:
    __init_subclass__ = classmethod(noted('A', '__init_subclass__'))
""",
        "A",
        set(),
    ),
    "a metaclass": (
        """
class M(type):
    __new__ = noted('M', '__new__', inherited=type)
    __init__ = noted('M', '__init__', inherited=type)
    __setattr__ = noted('M', '__setattr__', inherited=type)
    __prepare__ = classmethod(noted('M', '__prepare__', {}))
    __hash__ = noted('M', '__hash__', inherited=type)
class A(metaclass=M): x = 1
""",
        "A",
        {"M.__hash__", "M.__init__", "M.__new__", "M.__prepare__", "M.__setattr__"},
    ),
    "an object of a class with a metaclass": (
        """
class M(type):
    __call__ = noted('M', '__call__', inherited=type)
class A(metaclass=M): pass
""",
        "A()",
        set(),
    ),
    "the metaclass of a base": (
        """
class M(type):
    __init__ = noted('M', '__init__', inherited=type)
class A(metaclass=M): pass
class B(A): pass
""",
        "B()",
        {"M.__init__"},
    ),
    "__new__": (
        """
class A:
    def __new__(cls, a):
        builtins.RAN.append('A.__new__')
        return object.__new__(cls)
    def __getnewargs__(self): return (1,)
""",
        "A(1)",
        {"A.__new__"},
    ),
    "an inherited __new__ with keywords": (
        """
class A:
    def __new__(cls, *, a):
        builtins.RAN.append('A.__new__')
        return object.__new__(cls)
    def __getnewargs_ex__(self): return (), {'a': 1}
class B(A): pass
""",
        "B(a=1)",
        {"A.__new__"},
    ),
    "__setstate__": (
        """
class A:
    def __getstate__(self): return {'a': 1}
    __setstate__ = noted('A', '__setstate__')
    __setattr__ = noted('A', '__setattr__')
""",
        "A()",
        {"A.__setstate__"},
    ),
    "attributes are not set one by one": (
        """
class A:
    def __init__(self): self.__dict__['a'] = 1
    __setattr__ = noted('A', '__setattr__')
""",
        "A()",
        set(),
    ),
    "slots are": (
        """
class A:
    __slots__ = ('a',)
    __setattr__ = noted('A', '__setattr__', inherited=object)
    def __init__(self): self.a = 1
""",
        "A()",
        {"A.__setattr__"},
    ),
    "a property that a state names": (
        """
class A:
    def __getstate__(self): return None, {'v': 1}
    v = property(noted('A', 'other'), noted('A', 'v'))
""",
        "A()",
        {"A.v"},
    ),
    "a descriptor that a state names": (
        """
class D:
    __set__ = noted('D', '__set__')
    __get__ = noted('D', '__get__')
    __set_name__ = noted('D', '__set_name__')
class A:
    d = D()
    def __getstate__(self): return None, {'d': 1}
""",
        "A()",
        {"D.__set__"},
    ),
    "a descriptor that nothing sets": (
        """
class D:
    __get__ = noted('D', '__get__')
    __set_name__ = noted('D', '__set_name__')
class A:
    d = D()
    def __init__(self): self.x = 1
""",
        "A()",
        set(),
    ),
    "__getattribute__": (
        """
class A:
    def __init__(self): self.x = 1
    __getattribute__ = noted('A', '__getattribute__', inherited=object)
""",
        "A()",
        {"A.__getattribute__"},
    ),
    "__getattr__": (
        """
class A:
    def __init__(self): self.x = 1
    def __getattr__(self, name):
        builtins.RAN.append('A.__getattr__')
        raise AttributeError(name)
""",
        "A()",
        {"A.__getattr__"},
    ),
    "a list": (
        """
class A(list):
    extend = noted('A', 'extend', inherited=list)
    append = noted('A', 'append', inherited=list)
""",
        "A([1, 2])",
        {"A.extend"},
    ),
    "a dict": (
        """
class A(dict):
    __setitem__ = noted('A', '__setitem__', inherited=dict)
""",
        "A(a=1)",
        {"A.__setitem__"},
    ),
    "a set, which is made by a call": (
        """
class A(set):
    __init__ = noted('A', '__init__', inherited=set)
    add = noted('A', 'add', inherited=set)
""",
        "A({1})",
        {"A.__init__"},
    ),
    "an exception": (
        """
class A(Exception):
    def __init__(self, a):
        builtins.RAN.append('A.__init__')
        super().__init__(a)
""",
        "A(1)",
        {"A.__init__"},
    ),
    "__reduce__ that calls the class": (
        """
class M(type):
    __call__ = noted('M', '__call__', inherited=type)
class A(metaclass=M):
    __init__ = noted('A', '__init__')
    def __reduce__(self): return A, ()
""",
        "A()",
        {"A.__init__", "M.__call__"},
    ),
    "keys of a dict": (
        """
class A:
    __hash__ = noted('A', '__hash__', 1)
    __eq__ = noted('A', '__eq__', True)
""",
        "{A(): 1}",
        {"A.__hash__"},
    ),
    "__del__": (
        """
class A:
    __del__ = noted('A', '__del__')
class B:
    def __reduce__(self): return B, ()
class C:
    __slots__ = ('a',)
    __setattr__ = noted('C', '__setattr__')
    def __getstate__(self):
        return None, {'a': A()}
""",
        "C()",
        {"A.__del__", "C.__setattr__"},
    ),
    "an enumeration that a base makes the members of": (
        """
class A(float):
    def __new__(cls, value):
        builtins.RAN.append('A.__new__')
        return float.__new__(cls, value)
class E(A, enum.Enum):
    HALF = 0.5
""",
        "E.HALF",
        {"A.__new__"},
    ),
    "__dict__ as a property": (
        """
class A:
    __slots__ = ('_d',)
    def __getstate__(self): return {'a': 1}
    __dict__ = property(noted('A', '__dict__', {}))
""",
        "A()",
        {"A.__dict__"},
    ),
    "an abstract class with a class registered": (
        """
class A(abc.ABC):
    __subclasshook__ = classmethod(noted('A', '__subclasshook__', NotImplemented))
class B: pass
A.register(B)
""",
        "A",
        {"A.__subclasshook__"},
    ),
}
"""Classes, what is pickled, and the methods that loading it runs."""


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
