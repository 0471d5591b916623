"""Functions, classes and objects pickled by value (VALUES.md 13.5, 13.6, SCANNING.md 14.1).

The pickles of cloudpickle's releases are stored unchanged; ``released/write_carried.py`` wrote them. The others are
built here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_pth import text
from conformance.generators.recorded import read_file
from conformance.generators.scanning import document, found, pickled, scans
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES: Final = ("1.2.2", "1.5.0", "1.6.0", "2.2.1", "3.0.0", "3.1.1")
CLOUD: Final = "cloudpickle.cloudpickle"
MODULE: Final = "stable_baselines3.common.utils"
FILE: Final = "/usr/lib/stable_baselines3/common/utils.py"


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from releases()
    yield from line_tables()
    yield from file_names()
    yield from objects()


def releases() -> Iterator[Vector]:
    rule = Rule("13.6", "Objects of such a class: NEWOBJ, NEWOBJ_EX or REDUCE of either call with any arguments")
    for release in RELEASES:
        name = f"carried-cloudpickle-{release}"
        yield scans(rule, name, read_file(f"scan-{name}"), "code", "carried-class", "carried-function")


def opcodes(value: Any) -> bytes:
    """Return the opcodes that push a value."""
    if isinstance(value, Opcodes):
        return value.code
    if isinstance(value, bytes):
        return b"C" + bytes([len(value)]) + value
    if isinstance(value, tuple):
        return b"(" + b"".join(map(opcodes, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(opcodes(key) + opcodes(part) for key, part in value.items()) + b"u"
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    return b"N" if value is None else text(value)


class Opcodes:
    """A value that is built by its own opcodes."""

    def __init__(self, code: bytes) -> None:
        self.code = code


def name_of(module: str, name: str) -> Opcodes:
    """A global."""
    return Opcodes(b"c" + f"{module}\n{name}\n".encode())


def call(module: str, name: str, *args: Any) -> Opcodes:
    """REDUCE of a global."""
    return call_of(name_of(module, name), *args)


def call_of(callable_: Opcodes, *args: Any) -> Opcodes:
    """REDUCE of a value that other opcodes push."""
    return Opcodes(callable_.code + opcodes(args) + b"R")


def function(line_table: bytes, file: str = FILE) -> Opcodes:
    """``constant_fn.<locals>.func`` of SB3 1.6.2, as CPython 3.8 compiles it, except for line table and file name."""
    code = call_of(
        call(CLOUD, "_builtin_type", "CodeType"), 1, 0, 0, 1, 1, 19, b"\x88\x00S\x00", (None,), (), ("_",), file,
        "func", 128, line_table, ("val",), (),
    )  # fmt: skip
    scope = {"__package__": MODULE.rpartition(".")[0], "__name__": MODULE, "__file__": FILE}
    state = {
        "globals": {}, "defaults": None, "dict": {}, "closure_values": (0.5,), "module": MODULE, "name": "func",
        "qualname": "constant_fn.<locals>.func",
    }  # fmt: skip
    return call(CLOUD, "_fill_function", call(CLOUD, "_make_skel_func", code, 1, scope), state)


def line_tables() -> Iterator[Vector]:
    rule = Rule("13.5", "The file name, the first line and the line table are omitted, also for nested code objects")
    for name, table in (("compiled", b"\x00\x01"), ("of-another-patch-release", b"\x00\x02"), ("empty", b"")):
        data = document(pickled(function(table).code), "lr_schedule")
        yield scans(rule, f"line-table-{name}", data, "clean")
    rule = Rule(
        "13.5", "the line table, and that of each nested code object, can be parsed and describes only the bytecode"
    )
    for name, table in (
        ("beyond-the-bytecode", b"\x05\x01"),
        ("of-odd-length", b"\x00"),
        ("before-line-1", b"\x00\x81\x00\x81"),
    ):
        data = document(pickled(function(table).code), "lr_schedule")
        yield scans(rule, f"line-table-{name}", data, "code", "carried-function")


def file_names() -> Iterator[Vector]:
    rule = Rule(
        "13.5", "the file name ends with the path of the source, or is `<dynamic-code>` (cloudpickle since 3.1.3)"
    )
    for name, file in (
        ("of-another-folder", "C:\\lib\\stable_baselines3\\common\\utils.py"),
        ("dynamic", "<dynamic-code>"),
    ):
        data = document(pickled(function(b"\x00\x01", file).code), "lr_schedule")
        yield scans(rule, f"file-name-{name}", data, "clean")
    for name, file in (("of-another-file", "/usr/lib/utils.py"), ("other-dynamic", "<dynamic-code>/x")):
        data = document(pickled(function(b"\x00\x01", file).code), "lr_schedule")
        yield scans(rule, f"file-name-{name}", data, "code", "carried-function")


def carried_class(metaclass: Opcodes | None = None, base: Opcodes | None = None) -> Opcodes:
    """An empty class of ``__main__``."""
    bases = (base or name_of("builtins", "object"),)
    namespace = {"__module__": "__main__"}
    return call(
        CLOUD,
        "_make_skeleton_class",
        metaclass or name_of("builtins", "type"),
        "Schedule",
        bases,
        namespace,
        "id",
        None,
    )


def objects() -> Iterator[Vector]:
    cls = carried_class()
    state = opcodes({"start": 0.5})
    rule = Rule(
        "13.6", "at most one BUILD (attributes, a pair of attributes and slots, or anything for `__setstate__`)"
    )
    made = cls.code + b")\x81"
    for name, fragment in (
        ("object", made + state + b"b"),
        ("object-with-slots", made + b"N" + state + b"\x86b"),
        ("object-with-any-state", made + b"K\x01b"),
        ("object-by-a-call", cls.code + b")R" + state + b"b"),
        ("object-by-keywords", cls.code + b")}\x92" + state + b"b"),
        (
            "object-by-copyreg",
            call("copyreg", "_reconstructor", cls, name_of("builtins", "object"), None).code + state + b"b",
        ),
    ):
        yield scans(rule, f"carried-{name}", document(pickled(fragment), "lr_schedule"), "code", "carried-class")
    rule = Rule(
        "13.6",
        "a class of Python's module `types` (`CodeType`, `NoneType`), also a reference; functions of that module (`new_class`) are not.",
    )
    for name, verdict, rules in (
        ("CodeType", "clean", ()), ("NoneType", "clean", ()), ("new_class", "dangerous", ("dangerous-name",)),
        ("sys", "dangerous", ("dangerous-name",)),
    ):  # fmt: skip
        data = document(pickled(opcodes((call(CLOUD, "_builtin_type", name),))))
        yield scans(rule, f"builtin-type-{name.lower()}", data, verdict, *rules)
    rule = Rule("14.1", "A pickle that itself calls such a function is dangerous (`carried-function`).")
    data = document(pickled(call_of(function(b"\x00\x01"), 1).code))
    yield rule.accepts("scan-carried-function-called", data, found("dangerous", "carried-function"), "--scan")
    rule = Rule("14.1", "one that is not known is `unknown-call`, as if it were called.")
    for name, cls_ in (
        ("base", carried_class(base=name_of("my_package", "Base"))),
        ("metaclass", carried_class(metaclass=name_of("my_package", "Meta"))),
    ):
        data = document(pickled(cls_.code))
        yield scans(rule, f"carried-unknown-{name}", data, "dangerous", "carried-class", "unknown-call")
