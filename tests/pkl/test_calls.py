from __future__ import annotations

from sbformat.pkl import Call, Dict, Extension, FrozenSet, Global, Persistent, Set
from sbformat.pkl.disassembly import ARGUMENTS, render_arguments, render_call
from tests.helpers.count_work import count_calls
from tests.helpers.many_cases import check_each

SYSTEM = Global("os", "system")


@check_each(
    ("call", "expected"),
    [
        (Call("REDUCE", SYSTEM, ("echo owned > /tmp/owned",)), "os.system('echo owned > /tmp/owned')"),
        (Call("REDUCE", SYSTEM, ()), "os.system()"),
        (Call("REDUCE", SYSTEM, (b"id", bytearray(b"x"), None, True, 1.5)), "os.system(b'id', b'x', None, True, 1.5)"),
        (Call("REDUCE", SYSTEM, ((1,), [2, 3], Set([4]), FrozenSet([5]))), "os.system((1,), [2, 3], {4}, {5})"),
        (Call("NEWOBJ_EX", SYSTEM, (1,), Dict([("shell", True)])), "os.system(1, **{'shell': True})"),
        (Call("REDUCE", SYSTEM, Call("REDUCE", SYSTEM, ("a",))), "os.system(*os.system('a'))"),
        (Call("REDUCE", None, (SYSTEM,)), "a computed function(os.system)"),
        (
            Call("REDUCE", SYSTEM, (Persistent(1), Extension(7))),
            "os.system(a persistent value, the copyreg extension 7)",
        ),
        (Call("REDUCE", SYSTEM, (1 << 100_000,)), "os.system(an integer of 100,001 bits)"),
        (Call("REDUCE", SYSTEM, ("\x1b[31m\u202e",)), r"os.system('\x1b[31m\u202e')"),
    ],
)
def test_a_call_is_rendered_as_python_writes_it(call: Call, expected: str) -> None:
    assert render_call(call) == expected


def test_what_is_omitted_is_marked() -> None:
    assert render_arguments(Call("REDUCE", SYSTEM, ("x" * 500,)), 10) == "('xxxxxxxxx\u2026)"
    assert render_arguments(Call("REDUCE", SYSTEM, (list(range(1000)),)), 1000).endswith("57, 58, \u2026])")


def test_a_hostile_argument_takes_neither_time_nor_space() -> None:
    """Arguments may be shared, deep, long, and contain themselves."""
    shared: object = "\x1b" * 10_000_000
    for _ in range(1000):
        shared = [shared, shared]
    cyclic: list[object] = []
    cyclic += [cyclic, shared]
    for args in (("\x1b" * 10_000_000,), (shared,), (cyclic,), tuple([cyclic] * 100_000)):
        with count_calls() as calls:
            assert len(render_arguments(Call("REDUCE", SYSTEM, args))) <= ARGUMENTS + len("(\u2026)")
        assert calls.number < 10_000
