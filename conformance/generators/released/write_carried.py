"""Write a pickle of objects of classes of ``__main__`` with the cloudpickle that is installed.

    python write_carried.py OUT_FOLDER

One run makes the file of one release, ``scan-carried-cloudpickle-RELEASE.pth``; the others need an environment of their
own, with nothing but cloudpickle in it:

| cloudpickle | 1.2.2  | 1.5.0  | 1.6.0  | 2.2.1   | 3.0.0  | 3.1.1  |
|-------------|--------|--------|--------|---------|--------|--------|
| Python      | 3.6.15 | 3.7.16 | 3.8.18 | 3.10.13 | 3.11.7 | 3.13.0 |

The classes are compiled as if from a script in a folder that is nobody's, and the folder of the standard library is
replaced by another of the same length. The bytes are others each time: classes have random identifiers. What is here is
kept, not made anew.
"""

import os
import sys

import cloudpickle

SCRIPT = "/home/user/train.py"
SOURCE = """
import abc, collections, enum, functools, types, typing

class Linear:
    def __init__(self, start):
        self.start = start
    def __call__(self, progress):
        return self.start * progress

class Slots:
    __slots__ = ("a",)
    def __init__(self):
        self.a = 1

class Base:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)

class Meta(type):
    def __init__(cls, name, bases, namespace):
        super().__init__(name, bases, namespace)

class Made(Base, metaclass=Meta):
    def __setstate__(self, state):
        self.__dict__.update(state)
    def __getstate__(self):
        return {"a": 1}

class Abstract(abc.ABC):
    @abc.abstractmethod
    def value(self): ...

class Real(Abstract):
    def value(self):
        return 1

class Color(enum.Enum):
    RED = 1

class Items(list):
    pass

class Failure(Exception):
    pass

class Pair(typing.NamedTuple):
    a: int
    b: float = 2.0

linear = Linear(0.5)

def refers(progress):
    return linear(progress)

def around(schedule):
    return lambda progress: schedule(progress)

def checks(value):
    return isinstance(value, (types.FunctionType, types.CodeType, type(None)))

objects = {
    "object": linear, "list": [linear, {"inner": Linear(1)}], "slots": Slots(), "hooks": Made(), "abstract": Real(),
    "enumeration": Color.RED, "items": Items([1, 2]), "exception": Failure("text"), "tuple": Pair(1),
    "global": refers, "closure": around(linear), "method": linear.__call__, "partial": functools.partial(linear, 1.0),
    "types": [types.CodeType, types.LambdaType, type(None)], "checks": checks,
}
"""
DATACLASSES = """
import dataclasses

@dataclasses.dataclass(frozen=True)
class Data:
    start: float = 0.5
    parts: list = dataclasses.field(default_factory=list)
    def __call__(self, progress):
        return self.start * progress

objects["dataclass"] = Data()
"""


def main() -> None:
    """Make the classes as a script does, and write their objects."""
    scope = {"__name__": "__main__", "__file__": SCRIPT, "__package__": None}
    exec(compile(SOURCE, SCRIPT, "exec"), scope)  # noqa: S102 -- the text above
    if sys.version_info >= (3, 7):  # noqa: UP036 -- it runs on what cloudpickle 1.2.2 runs on
        exec(compile(DATACLASSES, SCRIPT, "exec"), scope)  # noqa: S102 -- as above
    data = cloudpickle.dumps(scope["objects"], protocol=4)
    folder = sys.base_prefix.encode()
    data = data.replace(folder, b"/home/user/python".ljust(len(folder), b"-")[: len(folder)])
    name = f"scan-carried-cloudpickle-{cloudpickle.__version__}.pth"
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(data)


if __name__ == "__main__":
    main()
