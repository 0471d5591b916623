"""Objects of classes pickled by value: recognised in each spelling, with what loading runs, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import sbformat
from sbformat import pkl
from sbformat.known.types import (
    CarriedClass,
    CarriedObject,
    Cycle,
    Described,
    EnumMember,
    FloatSchedule,
    Function,
    Partial,
    Reference,
)
from sbformat.pkl import Call, Global, Node
from sbformat.values.render import render_line
from tests.helpers.build_blobs import (
    CLOUD,
    FAST,
    FLOATING,
    UTILS,
    Outcome,
    call,
    change,
    code,
    code_parts,
    decode_outcome,
    function,
    new,
    tree,
)  # fmt: skip  # fmt: skip
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable

OBJECT: Final = Global("builtins", "object")
TYPE: Final = Global("builtins", "type")
LINEAR: Final = Reference("__main__", "Linear")
STATE: Final = {"start": 0.5}


def method(name: str = "__call__") -> Any:
    """A function of the file; its setter comes along."""
    return function(code_parts((lambda self: self).__code__), (), f"Linear.{name}", __module__="__main__")


def skeleton(
    name: str = "Linear", bases: tuple[object, ...] = (OBJECT,), meta: object = TYPE, **namespace: object
) -> Call:
    return call(
        CLOUD, "_make_skeleton_class", meta, name, bases, {"__module__": "__main__", **namespace}, f"{name} id", None
    )


class Made:
    """Classes, and the setters whose results nothing uses."""

    def __init__(self) -> None:
        self.dropped: list[Any] = []

    def hooks(self, *names: str, wrapper: str = "") -> dict[str, object]:
        found = {}
        for name in names:
            made, setter = method(name)
            self.dropped.append(setter)
            found[name] = call("builtins", wrapper, made) if wrapper else made
        return found

    def cls(self, made: Call, attributes: dict[str, object] | None = None) -> Call:
        self.dropped.append(call(CLOUD, "_class_setstate", made, (attributes or {}, {})))
        return made

    def decode_outcome(self, value: object) -> Outcome:
        outcome = decode_outcome([value, *self.dropped])
        return Outcome(outcome.value[0], outcome.decoder)

    def scan(self, value: object) -> sbformat.ScanReport:
        return sbformat.scan(pkl.dumps(tree([value, *self.dropped]), protocol=4))  # type: ignore[arg-type]


def messages(report: sbformat.ScanReport, start: str = "") -> list[str]:
    return [finding.message for finding in report.findings if finding.message.startswith(start)]


def parts_of(value: CarriedObject) -> tuple[object, ...]:
    """What an object consists of, without its class."""
    return tuple(value)[:-2]


def made_by(how: Any, cls: object, args: object = (), state: object = None) -> Any:
    made = Call(how, cls, tree(args))
    return made if state is None else change(made, state)


# -- objects in each spelling -------------------------------------------------------------------------

SPELLINGS: Final[dict[str, Callable[[Call], Any]]] = {
    "NEWOBJ": lambda cls: made_by("NEWOBJ", cls, (), STATE),
    "NEWOBJ_EX": lambda cls: change(Call("NEWOBJ_EX", cls, (), tree({})), STATE),
    "a call": lambda cls: made_by("REDUCE", cls, (), STATE),
    "protocols 0 and 1": lambda cls: change(call("copyreg", "_reconstructor", cls, OBJECT, None), STATE),
    "slots": lambda cls: made_by("NEWOBJ", cls, (), (None, STATE)),
    "attributes and slots": lambda cls: made_by("NEWOBJ", cls, (), ({}, STATE)),
}


@check_each("spelling", SPELLINGS)
@check_each("release", ["setter", "filled", "filled before"])
def test_an_object_of_a_carried_class_is_code(spelling: str, release: str) -> None:
    made = Made()
    plain = skeleton()
    attributes = made.hooks("__call__", "__init__")
    if release == "setter":
        value = SPELLINGS[spelling](made.cls(plain, attributes))
    else:
        filled = call(CLOUD, "_rehydrate_skeleton_class", plain, attributes)
        made.dropped.insert(0, filled)
        value = SPELLINGS[spelling](filled if release == "filled" else plain)
    outcome = made.decode_outcome(value)
    assert parts_of(outcome.value) == (LINEAR, (), STATE, None, ())
    assert (outcome.value.cls.name, *outcome.value.cls.methods) == (LINEAR.name, "__call__", "__init__")
    assert {issue.rule for issue in outcome.issues} == {"class", "function"}
    assert outcome.overlooked == []
    report = made.scan(value)
    assert report.verdict == "code"
    assert {finding.rule for finding in report.findings} == {"carried-class", "carried-function"}
    text = render_line(outcome.value)
    assert "Linear" in text
    assert "start: 0.5" in text


def test_arguments_states_and_items() -> None:
    made = Made()
    cls = made.cls(skeleton())
    listed = change(change(made_by("NEWOBJ", cls, (1, "a")), [1, 2], "APPENDS"), [3])
    assert parts_of(made.decode_outcome(listed).value) == (LINEAR, (1, "a"), {}, [3], (1, 2))
    keyed = change(made_by("NEWOBJ", cls), {"a": 1}, "SETITEMS")
    assert parts_of(made.decode_outcome(keyed).value) == (LINEAR, (), {}, None, (("a", 1),))
    added = change(made_by("NEWOBJ", cls), [1], "ADDITEMS")
    assert made.decode_outcome(added).value.items == (1,)
    keywords = Call("NEWOBJ_EX", cls, (), tree({"a": 2}))
    assert made.decode_outcome(keywords).value.args == (2,)
    parts = [{"k": made_by("NEWOBJ", cls)}, (made_by("NEWOBJ", cls),), {made_by("NEWOBJ", cls): 1}]
    assert [type(value) for value in made.decode_outcome(parts[0]).value.values()] == [CarriedObject]
    assert made.scan(parts).verdict == "code"


def test_an_object_that_its_class_has() -> None:
    made = Made()
    cls = skeleton()
    one = made_by("NEWOBJ", cls, (), STATE)
    made.cls(cls, {"instance": one, **made.hooks("__setstate__")})
    outcome = made.decode_outcome(cls)
    assert isinstance(outcome.value, CarriedClass)
    assert parts_of(outcome.value.attributes["instance"]) == (LINEAR, (), STATE, None, ())
    assert outcome.overlooked == []
    assert messages(made.scan(cls), "an object") == [
        "an object of the class 'Linear', which is pickled by value, is created: loading runs Linear.__setstate__"
    ]


def test_members_of_an_enumeration() -> None:
    cls = call(CLOUD, "_make_skeleton_enum", (Global("enum", "Enum"),), "E", "E", {"A": 1}, "__main__", "id", None)
    for made_class in (cls, call(CLOUD, "_rehydrate_skeleton_class", cls, {"__module__": "__main__"})):
        outcome = decode_outcome(Call("REDUCE", made_class, (1,)))
        assert outcome.value == EnumMember(Reference("__main__", "E"), 1)
        assert {issue.rule for issue in outcome.issues} - {"name"} == {"class"}
        assert outcome.overlooked == []


def test_schedules_that_are_objects() -> None:
    made = Made()
    value = made_by("NEWOBJ", made.cls(skeleton(), made.hooks("__call__")), (), STATE)
    of_class = made.decode_outcome(new(UTILS, "FloatSchedule", {"value_schedule": value})).value
    assert isinstance(of_class, FloatSchedule)
    assert parts_of(of_class.schedule) == (LINEAR, (), STATE, None, ())
    published: Any = function(FLOATING, (value,), "get_schedule_fn.<locals>.<lambda>")
    made.dropped.append(published[1])
    by_function = made.decode_outcome(published[0]).value
    assert isinstance(by_function, Function)
    assert by_function.schedule == of_class
    partial = change(call("functools", "partial", value), (value, (1,), {}, None))
    assert made.decode_outcome(partial).value == Partial(of_class.schedule, (1,), {})
    bound = Call("REDUCE", call(CLOUD, "_builtin_type", "MethodType"), (method()[0], value))
    assert made.decode_outcome(bound).value.kind == "method"
    for part in (published[0], partial, bound):
        assert made.scan(part).verdict == "code"


# -- what loading runs --------------------------------------------------------------------------------


def test_the_hooks_of_bases_metaclass_and_namespace() -> None:
    made = Made()
    meta = made.cls(skeleton("Meta", (TYPE,)), made.hooks("__init__", "__call__"))
    base = made.cls(skeleton("Base"), made.hooks("__init_subclass__", wrapper="classmethod"))
    part = made.cls(skeleton("Part"), made.hooks("__set_name__", "__get__"))
    cls = made.cls(skeleton(bases=(base,), meta=meta, part=made_by("NEWOBJ", part)), made.hooks("forward"))
    report = made.scan(cls)
    assert report.verdict == "code"
    assert messages(report, "the class 'Linear'") == [
        (
            "the class 'Linear' is pickled by value: loading creates it from code in the file, and runs "
            "Base.__init_subclass__, Meta.__init__, Part.__set_name__"
        )
    ]
    loaded = {message.split(" ")[2] for message in messages(report, "the function") if "loading" in message}
    assert loaded == {"Linear.__init__", "Linear.__init_subclass__", "Linear.__set_name__"}
    called = [message for message in messages(report, "the function") if "runs when it is called" in message]
    assert len(called) == 3


@check_each(
    ("hooks", "make", "clause"),
    [
        (("__new__",), lambda cls: made_by("NEWOBJ", cls), "runs Linear.__new__"),
        (("__new__", "__init__"), lambda cls: made_by("REDUCE", cls), "runs Linear.__init__, Linear.__new__"),
        (("__init__",), lambda cls: made_by("NEWOBJ", cls), ""),
        (("__new__", "__init__"), SPELLINGS["protocols 0 and 1"], ""),
        (("__setstate__", "__setattr__"), SPELLINGS["slots"], "runs Linear.__setstate__"),
        (("__setattr__",), SPELLINGS["slots"], "runs Linear.__setattr__"),
        (("__setattr__",), SPELLINGS["NEWOBJ"], ""),
        (("__dict__",), SPELLINGS["NEWOBJ"], "runs Linear.__dict__"),
        (("__dict__",), SPELLINGS["slots"], ""),
        (("__getattr__",), SPELLINGS["NEWOBJ"], "may run Linear.__getattr__"),
        (("__del__", "__new__"), SPELLINGS["NEWOBJ"], "runs Linear.__new__ and may run Linear.__del__"),
        (("extend",), lambda cls: change(made_by("NEWOBJ", cls), [1], "APPENDS"), "runs Linear.extend"),
        (("__setitem__",), lambda cls: change(made_by("NEWOBJ", cls), {1: 2}, "SETITEMS"), "runs Linear.__setitem__"),
        (("add",), lambda cls: change(made_by("NEWOBJ", cls), [1], "ADDITEMS"), "runs Linear.add"),
        (("__reduce__", "__call__"), SPELLINGS["NEWOBJ"], ""),
    ],
)
def test_what_making_an_object_runs(hooks: tuple[str, ...], make: Callable[[Call], Any], clause: str) -> None:
    made = Made()
    cls = made.cls(skeleton(), made.hooks(*hooks))
    (message,) = messages(made.scan(make(cls)), "an object")
    head = "an object of the class 'Linear', which is pickled by value, is created: "
    assert message == head + (f"loading {clause}" if clause else "its methods run when it is used")


def test_a_method_of_a_library_overrides_an_inherited_one() -> None:
    made = Made()
    base = made.cls(skeleton("Base"), made.hooks("__hash__", "__new__"))
    library = call("builtins", "getattr", OBJECT, "__new__")
    cls = made.cls(skeleton(bases=(base,)), {"__hash__": None, "__new__": library})
    assert messages(made.scan(made_by("NEWOBJ", cls)), "an object of the class 'Linear'")[0].endswith("it is used")


def test_a_property_and_a_descriptor_that_slots_set() -> None:
    made = Made()
    part = made.cls(skeleton("Part"), made.hooks("__set__"))
    cls = made.cls(skeleton(), {"d": made_by("NEWOBJ", part), **made.hooks("v", wrapper="property")})
    (message,) = messages(made.scan(made_by("NEWOBJ", cls, (), (None, {"v": 1, "d": 2}))), "an object of the class 'L")
    assert message.endswith("loading runs Linear.v, Part.__set__")


def test_parameters_of_a_carried_class() -> None:
    made = Made()
    cls = made.cls(skeleton(), made.hooks("__class_getitem__", wrapper="classmethod"))
    outcome = made.decode_outcome(call("_operator", "getitem", cls, (Global("builtins", "int"),)))
    assert isinstance(outcome.value, Described)
    assert outcome.overlooked == []
    text = (
        "parameters are given to the class 'Linear', which is pickled by value: loading runs Linear.__class_getitem__"
    )
    assert text in [issue.message for issue in outcome.issues]


# -- what is not understood ---------------------------------------------------------------------------

REFUSED: Final[dict[str, Callable[[Made], Any]]] = {
    "a metaclass that is called for what it does": lambda made: made.cls(skeleton(meta=Global("os", "system"))),
    "a class that is no metaclass": lambda made: made.cls(skeleton(meta=Global("torch.nn.modules.module", "Module"))),
    "a function for a metaclass": lambda made: made.cls(skeleton(meta=method()[0])),
    "a type of Python's that is no metaclass": lambda made: made.cls(
        skeleton(meta=call(CLOUD, "_builtin_type", "FunctionType"))
    ),
    "a base that is an object": lambda made: made.cls(skeleton(bases=(made_by("NEWOBJ", made.cls(skeleton("Base"))),))),
    "a base that is a function": lambda made: made.cls(skeleton(bases=(method()[0],))),
    "a base that is not known": lambda made: made.cls(skeleton(bases=(Global("my.module", "Base"),))),
    "a base that does harm": lambda made: made.cls(skeleton(bases=(Global("subprocess", "Popen"),))),
    "a metaclass that is not known": lambda made: made.cls(skeleton(meta=Global("my.module", "Meta"))),
    "other bases in the attributes": lambda made: made.cls(skeleton(), {"__bases__": (OBJECT,)}),
    "another class in the attributes": lambda made: made.cls(skeleton(), {"__class__": TYPE}),
    "abstract methods with a truth of their own": lambda made: made.cls(
        skeleton(), {"__abstractmethods__": made_by("NEWOBJ", made.cls(skeleton("B")))}
    ),
    "two states": lambda made: change(SPELLINGS["NEWOBJ"](made.cls(skeleton())), STATE),
    "computed arguments": lambda made: made_by("NEWOBJ", made.cls(skeleton()), call("os", "getcwd")),
    "a class set twice": lambda made: made_by("NEWOBJ", made.cls(made.cls(skeleton()))),
    "a class changed by BUILD": lambda made: made_by("NEWOBJ", change(made.cls(skeleton()), {"a": 1})),
    "a class set as a function": lambda made: [
        cls := skeleton(),
        call(FAST, "_function_setstate", cls, ({}, {})),
    ],
    "an object of a function": lambda made: made_by("NEWOBJ", method()[0]),
    "OBJ": lambda made: made_by("OBJ", made.cls(skeleton())),
    "copyreg with another base": lambda made: call(
        "copyreg", "_reconstructor", made.cls(skeleton()), Global("subprocess", "Popen"), "true"
    ),
    "a function that the pickle calls": lambda made: Call("REDUCE", method()[0], (1,)),
    "a typed function that the pickle calls": lambda made: Call(
        "REDUCE", Call("REDUCE", call(CLOUD, "_builtin_type", "LambdaType"), (code(FLOATING), tree({}))), (1,)
    ),
    "what an object gives": lambda made: Call("REDUCE", made_by("NEWOBJ", made.cls(skeleton())), (1,)),
    "a bound method that the pickle calls": lambda made: Call(
        "REDUCE", Call("REDUCE", call(CLOUD, "_builtin_type", "MethodType"), (method()[0], 1)), ()
    ),
    "a function in types": lambda made: [made.cls(skeleton()), call(CLOUD, "_builtin_type", "new_class")],
    "a module for a type": lambda made: call(CLOUD, "_builtin_type", "sys"),
    "another attribute of object": lambda made: [
        made.cls(skeleton()),
        call("builtins", "getattr", OBJECT, "__subclasses__"),
    ],
    "map where it is called": lambda made: [
        made.cls(skeleton()),
        call("builtins", "map", Global("builtins", "len"), ([],)),
    ],
    "a union of calls": lambda made: call("_functools", "reduce", Global("os", "system"), ("true",)),
}


@check_each("what", REFUSED)
def test_what_is_not_of_that_form_is_dangerous(what: str) -> None:
    made = Made()
    report = made.scan(REFUSED[what](made))
    assert report.verdict == "dangerous", report.findings


def test_a_carried_function_that_is_called_is_said_to_run() -> None:
    made = Made()
    found = made.scan(Call("REDUCE", method()[0], (1,))).findings
    (finding,) = [finding for finding in found if finding.verdict == "dangerous"]
    assert finding.rule == "carried-function"
    assert finding.message == "a function that is pickled by value is called: loading the file runs its code"


def test_a_base_that_is_not_known_can_be_allowed() -> None:
    made = Made()
    value = tree([made.cls(skeleton(bases=(Global("my.module", "Base"),))), *made.dropped])
    data = pkl.dumps(value, protocol=4)  # type: ignore[arg-type]
    (finding,) = [finding for finding in sbformat.scan(data).findings if finding.verdict == "dangerous"]
    assert (finding.rule, finding.names) == ("unknown-call", ("my.module.Base",))
    assert sbformat.scan(data, allow=["my.module.Base"]).verdict == "code"


@check_each(
    "part",
    [
        lambda: Global("builtins", "map"),
        lambda: Global("dataclasses", "_replace"),
        lambda: call("operator", "itemgetter", 1),
        lambda: call("_collections", "_tuplegetter", 0, "text"),
        lambda: call("builtins", "getattr", OBJECT, "__new__"),
        lambda: new("dataclasses", "Field", (None, {"name": "a"})),
    ],
)
def test_names_of_the_standard_library_are_known_where_code_is_carried(part: Callable[[], Any]) -> None:
    made = Made()
    cls = made.cls(skeleton(), {"part": part()})
    assert made.scan(cls).verdict == "code"
    published: Any = function()
    for value in (part(), [part(), *published]):
        report = sbformat.scan(pkl.dumps(tree(value), protocol=4))  # type: ignore[arg-type]
        assert report.verdict in ("unknown", "dangerous")


@pytest.mark.parametrize("name", ["CodeType", "LambdaType", "NoneType", "SimpleNamespace", "GenericAlias"])
def test_a_type_of_python_is_a_reference(name: str) -> None:
    outcome = decode_outcome(call(CLOUD, "_builtin_type", name))
    assert outcome.value == Reference("types", name)
    assert outcome.issues == []
    assert decode_outcome(call(CLOUD, "_builtin_type", "ClassType")).value == Reference("builtins", "type")


def test_objects_of_a_type_of_python() -> None:
    def made(name: str, *args: object) -> Call:
        return Call("REDUCE", call(CLOUD, "_builtin_type", name), tree(args))

    namespace = decode_outcome(change(made("SimpleNamespace"), {"a": 1}))
    assert namespace.value == Described("types.SimpleNamespace", (("a", 1),))
    assert decode_outcome(made("MappingProxyType", {"a": 1})).value == Described("types.MappingProxyType", ({"a": 1},))
    for call_of in (made("ModuleType", "os"), made("SimpleNamespace", {}), made("MethodType", OBJECT, 1)):
        assert isinstance(decode_outcome(call_of).value, Node)


def test_many_classes_in_a_row_take_no_time() -> None:
    made = Made()
    base: object = OBJECT
    for number in range(1000):
        attributes = {f"p{number}_{at}": call("builtins", "property", None) for at in range(3)}
        base = made.cls(skeleton(f"C{number}", (base,)), attributes)
    assert made.scan(base).verdict in ("code", "broken")


def test_a_cell_that_is_being_made_is_a_cycle() -> None:
    """Two methods of a dataclass with slots share the cell of their class, on CPython 3.13."""
    made = Made()
    cls = skeleton()
    cell = call(CLOUD, "_make_cell", cls)
    first: Any = function(FLOATING, (0.5,), "Linear.f", __closure__=(cell,), __module__="__main__")
    second: Any = function(FLOATING, (0.5,), "Linear.g", __closure__=(cell,), __module__="__main__")
    made.cls(cls, {"f": first[0], "g": second[0]})
    made.dropped += [first[1], second[1]]
    outcome = made.decode_outcome(cell)
    assert outcome.overlooked == []
    assert {issue.rule for issue in outcome.issues} == {"class", "function"}
    closures = [outcome.value.content.attributes[name].closure for name in ("f", "g")]
    assert closures == [{"value_schedule": Cycle()}] * 2
