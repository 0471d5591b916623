"""Functions and classes by value, in the spellings that cloudpickle has had, and schedules: published or changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from sbformat.known.code import make_code
from sbformat.known.types import (
    CarriedClass,
    ConstantSchedule,
    Cycle,
    Described,
    EnumMember,
    FloatSchedule,
    Function,
    LinearSchedule,
    Module,
    Reference,
)
from sbformat.pkl import Call, Global, Node, Update
from tests.helpers.build_blobs import (
    CLOUD,
    CONSTANT,
    FAST,
    FILE,
    FLOATING,
    GLOBALS,
    OLD_CONSTANT,
    UTILS,
    Outcome,
    array,
    call,
    change,
    code,
    code_parts,
    decode_outcome,
    dtype,
    function,
    new,
    refused,
    state_of,
    understood,
)  # fmt: skip
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable

SPELLINGS: Final = ("make", "type", "fill")
TYPES: Final = (Global("builtins", "int"), Global("builtins", "str"))


def found(made: object) -> Outcome:
    """What a list of a function and its setter's dropped result comes to: the function."""
    outcome = decode_outcome(made)
    return Outcome(outcome.value[0], outcome.decoder)


# -- schedules ----------------------------------------------------------------------------------------


def schedule(name: str, **attributes: object) -> Call:
    return new(UTILS, name, attributes)


def test_the_classes_of_sb3() -> None:
    scalar = call("numpy.core.multiarray", "scalar", dtype("f4"), b"\0\0\0?")
    constant = schedule("ConstantSchedule", val=scalar)
    assert understood(constant) == ConstantSchedule(0.5)
    linear = schedule("LinearSchedule", start=1.0, end=0, end_fraction=0.1)
    assert understood(linear) == LinearSchedule(1.0, 0, 0.1)
    assert understood(schedule("FloatSchedule", value_schedule=linear)) == FloatSchedule(LinearSchedule(1.0, 0, 0.1))
    assert understood(new("rl_zoo3.utils", "SimpleLinearSchedule", {"initial_value": 0.5})) == LinearSchedule(
        0.5, 0.0, 1.0
    )


@check_each(
    "made",
    [
        lambda: schedule("ConstantSchedule", val="a"),
        lambda: schedule("ConstantSchedule", val=1.0, more=2),
        lambda: schedule("ConstantSchedule", value=1.0),
        lambda: new(UTILS, "ConstantSchedule", {"val": 1.0}, 5),
        lambda: new(UTILS, "ConstantSchedule"),
        lambda: schedule("ConstantSchedule", val=array((1,), bytes(4))),
        lambda: schedule("LinearSchedule", start=1.0, end=0.0),
        lambda: schedule("LinearSchedule", start=1.0, end=0.0, end_fraction=None),
        lambda: schedule("FloatSchedule", value_schedule=1.0),
    ],
)
def test_schedules_that_sb3_does_not_write(made: Callable[[], Any]) -> None:
    refused(made())


def test_a_float_schedule_of_an_unknown_object_keeps_it_inert() -> None:
    outcome = decode_outcome(schedule("FloatSchedule", value_schedule=new("my.module", "Schedule", {"a": 1})))
    assert isinstance(outcome.value, FloatSchedule)
    assert isinstance(outcome.value.schedule, Node)
    assert outcome.overlooked


# -- published functions ------------------------------------------------------------------------------


@check_each("spelling", SPELLINGS)
@check_each("parts", [CONSTANT, OLD_CONSTANT])
def test_a_published_function_is_a_schedule(spelling: str, parts: tuple[Any, ...]) -> None:
    outcome = found(function(parts, (0.0007,), spelling=spelling))
    assert isinstance(outcome.value, Function)
    assert outcome.value.closure == {"val": 0.0007}
    assert outcome.value.qualname == "constant_fn.<locals>.func"
    assert outcome.issues == []
    assert outcome.overlooked == []
    assert outcome.value.schedule == ConstantSchedule(0.0007)


@check_each("table", [b"", b"\x00\x02", b"\x02\x80\x02\x01", b"\x00\x7f\x00\x81\x04\x01"])
@check_each("spelling", SPELLINGS)
def test_another_line_table_does_not_change_what_a_published_function_is(spelling: str, table: bytes) -> None:
    """Patch releases of CPython write other ones: 3.12.7 than 3.12.1."""
    outcome = found(function(with_part(13, table), (0.0007,), spelling=spelling))
    assert outcome.issues == []
    assert outcome.value.schedule == ConstantSchedule(0.0007)


def test_cloudpickle_3_1_3_leaves_out_the_name_of_the_file() -> None:
    outcome = found(function(with_part(10, "<dynamic-code>"), (0.0007,)))
    assert outcome.value.schedule == ConstantSchedule(0.0007)
    assert outcome.issues == []


def test_a_lambda_around_a_schedule() -> None:
    inner: Any = function()
    outer = function(FLOATING, (inner[0],), "get_schedule_fn.<locals>.<lambda>")
    outcome = decode_outcome([outer, inner])
    assert outcome.issues == []
    assert outcome.value[0][0].schedule == FloatSchedule(ConstantSchedule(0.5))
    users = decode_outcome([function(FLOATING, (function_of(lambda x: x)[0],), "get_schedule_fn.<locals>.<lambda>")])
    assert [issue.rule for issue in users.issues] == ["function"]
    assert isinstance(users.value[0][0].schedule.schedule, Function)


def with_part(index: int, value: object) -> tuple[Any, ...]:
    return (*CONSTANT[:index], value, *CONSTANT[index + 1 :])


HOSTILE: Final = new("my.module", "Number", {})
CHANGES: Final[dict[str, tuple[str, Callable[[], Any]]]] = {
    "its bytecode": ("is pickled by value", lambda: function(with_part(6, b"\x88\x00\x53\x01"))),
    "its constants": ("is pickled by value", lambda: function(with_part(7, (None, 1)))),
    "its names": ("is pickled by value", lambda: function(with_part(8, ("float",)))),
    "its flags": ("is pickled by value", lambda: function(with_part(5, 3))),
    "a line table beyond its bytecode": ("line table", lambda: function(with_part(13, b"\x05\x01"))),
    "half a line table": ("line table", lambda: function(with_part(13, b"\x00"))),
    "its file": ("another file", lambda: function(with_part(10, "/lib/other/utils.py"))),
    "control characters in its file": ("another file", lambda: function(with_part(10, f"/lib\x1b/{FILE}"))),
    "its line": ("another line", lambda: function(with_part(12, 100_000))),
    "its qualified name": ("another name", lambda: function(qualname="other.<locals>.func")),
    "its name": ("another name", lambda: function(__name__="other")),
    "its module": ("another name or module", lambda: function(__module__="other")),
    "a global": ("bound to something else", lambda: function(__globals__={"float": HOSTILE})),
    "a base global": ("bound to something else", lambda: function(base={**GLOBALS, "float": HOSTILE})),
    "builtins": ("bound to something else", lambda: function(base={**GLOBALS, "__builtins__": {}})),
    "the name of its module": ("bound to something else", lambda: function(base={**GLOBALS, "__name__": "os"})),
    "the name of its package": ("bound to something else", lambda: function(base={**GLOBALS, "__package__": "os"})),
    "the file of its module": ("bound to something else", lambda: function(base={**GLOBALS, "__file__": HOSTILE})),
    "a list of base globals": ("bound to something else", lambda: function(base=[1])),
    "defaults": ("has defaults", lambda: function(__defaults__=(1,))),
    "keyword defaults": ("has defaults", lambda: function(__kwdefaults__={"a": 1})),
    "attributes": ("has defaults or attributes", lambda: function(attributes={"a": 1})),
    "its text": ("another docstring", lambda: function(__doc__="other")),
    "modules": ("or modules", lambda: function(_cloudpickle_submodules=[HOSTILE])),
    "its annotations": ("are not types", lambda: function(__annotations__={"x": HOSTILE})),
    "annotations that are a list": ("are not types", lambda: function(__annotations__=[1])),
    "another cell": ("number of cells", lambda: function(cells=(0.5, 1.0))),
    "no cell": ("number of cells", lambda: function(cells=())),
    "a hostile cell": ("other than numbers", lambda: function(cells=(HOSTILE,))),
    "text in a cell": ("other than numbers", lambda: function(cells=("0.5",))),
}


@check_each("what", CHANGES)
def test_published_code_in_changed_surroundings_is_in_doubt(what: str) -> None:
    message, make = CHANGES[what]
    outcome = found(make())
    assert isinstance(outcome.value, Function)
    assert outcome.value.schedule is None
    assert any(issue.rule == "function" and message in issue.message for issue in outcome.issues), outcome.issues


# -- functions of users -------------------------------------------------------------------------------


def function_of(func: Any, **options: Any) -> Any:
    return function(code_parts(func.__code__), options.pop("cells", ()), func.__qualname__, **options)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_function_is_described(spelling: str) -> None:
    def outer(rate: float) -> Any:
        return lambda left: (rate * left, [pow(left, power) for power in (2, 3)], "text")

    func = outer(0.5)
    outcome = found(
        function_of(
            func,
            cells=(0.5,),
            spelling=spelling,
            __defaults__=(1,),
            __globals__={"np": call(CLOUD, "subimport", "numpy")},
        )
    )
    made = outcome.value
    assert isinstance(made, Function)
    assert made.code is not None
    assert (made.qualname, made.closure, made.defaults) == (func.__qualname__, {"rate": 0.5}, (1,))
    assert made.globals == {"np": Module("numpy")}
    assert (made.code.filename, made.code.firstlineno) == (__file__, func.__code__.co_firstlineno)
    assert "text" in made.code.constants
    assert made.digest == digest_of(func.__code__)
    assert made.schedule is None
    assert [issue.rule for issue in outcome.issues] == ["function"]
    assert f"{__file__}:{func.__code__.co_firstlineno}" in outcome.issues[0].message
    assert outcome.overlooked == []


def digest_of(live: Any) -> str | None:
    parts = [tuple(inner(part) for part in value) if type(value) is tuple else value for value in code_parts(live)]
    made = make_code(tuple(parts))
    assert made is not None
    return made.digest


def inner(value: Any) -> Any:
    if not hasattr(value, "co_code"):
        return value
    return make_code(tuple(tuple(map(inner, part)) if type(part) is tuple else part for part in code_parts(value)))


def test_the_digest_is_of_what_executes() -> None:
    """Not of the file's name and lines; one to one over everything else."""
    digests = set()
    for parts in (CONSTANT, with_part(10, "other.py"), with_part(12, 1), with_part(13, b"\x02\x01")):
        made = make_code(parts)
        assert made is not None
        digests.add(made.digest)
    assert len(digests) == 1
    for index in set(range(16)) - {10, 12, 13}:
        value: Any = CONSTANT[index]
        other = {int: lambda v: v + 1, bytes: lambda v: v + b"\0", str: lambda v: v + "x", tuple: lambda v: (*v, "x")}[
            type(value)
        ]
        made = make_code(with_part(index, other(value)))
        assert made is not None
        digests.add(made.digest)
    assert len(digests) == 14
    assert all(digest is not None and len(digest) == 2 * hashlib.sha256().digest_size for digest in digests)


def test_a_frozenset_among_constants_has_no_digest() -> None:
    made = make_code(with_part(7, (frozenset({1}),)))
    assert made is not None
    assert made.digest is None


@check_each("index", range(16))
def test_code_of_wrong_parts_is_no_code(index: int) -> None:
    assert make_code(with_part(index, 0.5)) is None
    assert make_code(CONSTANT[:-2]) is None
    made: Any = function(with_part(index, 0.5))
    outcome = found(made)
    assert outcome.value.code is None
    assert {"arguments", "function"} == {issue.rule for issue in outcome.issues}


def test_a_function_whose_closure_is_itself() -> None:
    made: Any = function(cells=())
    made[0].args = (*made[0].args[:4], (call(CLOUD, "_make_empty_cell"),))
    made[1].args[1][1].append(("__closure__", (call(CLOUD, "_make_cell", made[0]),)))
    outcome = found(made)
    assert outcome.value.closure == {"val": Cycle()}
    assert outcome.issues


WRONG: Final[dict[str, Callable[[], Any]]] = {
    "another type of Python's": lambda: Call("REDUCE", call(CLOUD, "_builtin_type", "ModuleType"), ("a",)),
    "a huge number for a type": lambda: Call("REDUCE", call(CLOUD, "_builtin_type", 10**6000), ("a",)),
    "a function of nothing": lambda: call(CLOUD, "_make_function"),
    "a function with a state": lambda: change(call(CLOUD, "_make_function", code(CONSTANT), {}), {}),
    "cells that are none": lambda: call(CLOUD, "_make_function", code(CONSTANT), GLOBALS, None, None, (1,)),
    "a setter without a state": lambda: set_by(1),
    "a setter with text": lambda: set_by(("a", "b")),
    "two cells in one": lambda: call(CLOUD, "_make_cell", 1, 2),
    "filled without a skeleton": lambda: call(CLOUD, "_fill_function", 1, {}),
    "filled with a list": lambda: call(CLOUD, "_fill_function", skeleton(), [1]),
    "filled with a number for a closure": lambda: call(CLOUD, "_fill_function", skeleton(), {"closure_values": 5}),
    "subimport of a number": lambda: call(CLOUD, "subimport", 5),
    "an ellipsis with arguments": lambda: call(CLOUD, "_gen_ellipsis", 1),
    "a class of numbers": lambda: call(CLOUD, "_make_skeleton_class", Global("builtins", "type"), 1, (), {}, "x", None),
    "a class of nothing": lambda: call(CLOUD, "_make_skeleton_class"),
    "an enumeration of numbers": lambda: call(
        CLOUD, "_make_skeleton_enum", (), "E", "E", {10**6000: 1}, "m", "id", None
    ),
    "an enumeration of a numbered module": lambda: call(
        CLOUD, "_make_skeleton_enum", (), "E", "E", {}, 10**6000, "id", None
    ),
    "a TypeVar of nothing": lambda: call(CLOUD, "_make_typevar"),
    "getitem of a module": lambda: call("_operator", "getitem", Global("os", "environ"), "PATH"),
    "getitem of another type": lambda: call("_operator", "getitem", call(CLOUD, "_builtin_type", "CellType"), TYPES),
    "a union of numbers": lambda: call("_operator", "getitem", call(CLOUD, "_builtin_type", "UnionType"), (1, 2)),
    "a union of one type": lambda: call("_operator", "getitem", call(CLOUD, "_builtin_type", "UnionType"), TYPES[0]),
    "a property of numbers": lambda: call("builtins", "property", 1),
}


def skeleton() -> Call:
    return call(CLOUD, "_make_skel_func", code(CONSTANT), 1, GLOBALS)


def set_by(state: object) -> Any:
    made = call(CLOUD, "_make_function", code(CONSTANT), GLOBALS)
    return call("collections", "OrderedDict", [[made, call(FAST, "_function_setstate", made, state)]])


@check_each("what", WRONG)
def test_what_cloudpickle_does_not_write_stays_inert(what: str) -> None:
    outcome = decode_outcome(WRONG[what]())
    assert any(issue.rule == "arguments" for issue in outcome.issues)


def test_a_setter_of_something_else_is_not_understood() -> None:
    target = Global("stable_baselines3.common.policies", "BasePolicy")
    for module, name in ((FAST, "_function_setstate"), (CLOUD, "_class_setstate")):
        setter = call(module, name, target, ({}, {"__init__": Global("os", "system")}))
        outcome = decode_outcome([target, setter])
        assert any(str(node) == f"<REDUCE {module}.{name}>" for node in map(repr, outcome.overlooked))


# -- classes ------------------------------------------------------------------------------------------


def carried(attributes: dict[str, object], bases: tuple[object, ...] = (Global("builtins", "object"),)) -> list[Any]:
    made = call(
        CLOUD,
        "_make_skeleton_class",
        Global("builtins", "type"),
        "Extractor",
        bases,
        {"__module__": "mine"},
        "id",
        None,
    )
    return [made, call(CLOUD, "_class_setstate", made, (attributes, {}))]


def test_a_class_by_value_is_described() -> None:
    method: Any = function_of(lambda self: self)
    made = carried({"__doc__": "x", "forward": method[0], "size": call("builtins", "property", method[0])})
    outcome = decode_outcome([*made, *method])
    found_class = outcome.value[0]
    assert isinstance(found_class, CarriedClass)
    assert (found_class.module, found_class.name, found_class.bases) == (
        "mine",
        "Extractor",
        (Reference("builtins", "object"),),
    )
    assert found_class.methods == ("forward",)
    assert isinstance(found_class.attributes["size"], Described)
    assert sorted(issue.rule for issue in outcome.issues) == ["class", "function"]
    assert outcome.overlooked == []


def test_a_class_that_its_method_refers_to() -> None:
    """``super()`` keeps the class in a cell of the method."""
    made = carried({})
    method: Any = function(CONSTANT, (made[0],), "Extractor.forward")
    made[1].args[1][0].append(("forward", method[0]))
    outcome = decode_outcome([*made, *method])
    assert outcome.value[0].attributes["forward"].closure == {"val": Cycle()}
    assert outcome.overlooked == []


def test_a_class_of_cloudpickle_before_1_6() -> None:
    made = call(CLOUD, "_rehydrate_skeleton_class", carried({})[0], {"x": 1})
    outcome = decode_outcome(made)
    assert isinstance(outcome.value, CarriedClass)
    assert outcome.value.attributes == {"__module__": "mine", "x": 1}
    refused(call(CLOUD, "_rehydrate_skeleton_class", 1, {}))


def test_an_enumeration_by_value() -> None:
    made = call(
        CLOUD, "_make_skeleton_enum", (Global("enum", "Enum"),), "Color", "Color", {"RED": 1}, "mine", "id", None
    )
    outcome = decode_outcome([made, call(CLOUD, "_class_setstate", made, ({}, {}))])
    assert outcome.value[0].attributes == {"RED": EnumMember(Reference("mine", "Color"), 1)}
    assert [issue.rule for issue in outcome.issues] == ["class"]
    assert outcome.overlooked == []


def test_what_functions_refer_to() -> None:
    assert understood(call(CLOUD, "subimport", "numpy.linalg")) == Module("numpy.linalg")
    assert understood(call(CLOUD, "_gen_ellipsis")) is ...
    assert decode_outcome(call(CLOUD, "subimport", "ctypes")).issues[0].rule == "module"
    union = call(
        "_operator", "getitem", Global("typing", "Union"), (Global("builtins", "int"), Global("builtins", "str"))
    )
    assert understood(union) == Described("typing.Union", (Reference("builtins", "int"), Reference("builtins", "str")))


@pytest.mark.parametrize(
    "union",
    [
        pytest.param(call("_functools", "reduce", Global("_operator", "or_"), TYPES), id="before CPython 3.14"),
        pytest.param(call("_operator", "getitem", call(CLOUD, "_builtin_type", "UnionType"), TYPES), id="since 3.14"),
    ],
)
def test_a_union_of_types(union: Call) -> None:
    """CPython 3.14 pickles ``int | str`` by the name of its class, which cloudpickle names as a type in ``types``."""
    assert understood(union) == Described(
        "types.UnionType", (Reference("builtins", "int"), Reference("builtins", "str"))
    )


def test_a_name_that_was_changed_is_not_understood() -> None:
    """BUILD on a function or class sets its attributes, whatever it is used for afterwards."""
    for cls in (Global("numpy", "ndarray"), Global("numpy.random._pickle", "__bit_generator_ctor")):
        change(cls, (None, state_of("f", [])))
        made: Any = array((1,), bytes(4))
        made.args = (cls, (0,), b"b")
        generator = call("numpy.random._pickle", "__generator_ctor", "PCG64", cls)
        outcome = decode_outcome([made, generator])
        assert any(isinstance(node, Update) for node in outcome.overlooked)
