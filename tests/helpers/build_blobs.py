"""Pickles to decode, made from inert trees or by Python's pickler, and the outcome of decoding them.

Nothing here needs gym, torch or cloudpickle: what those write is spelled as calls that nobody makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat import pkl
from sbformat.known.table import find
from sbformat.limits import Budget
from sbformat.pkl import Call, Dict, FrozenSet, Global, Node, Set, Update, decode_pickle
from sbformat.values import Issue, decode_tree

if TYPE_CHECKING:
    from types import CodeType

    from sbformat.values import Decoder

CLOUD: Final = "cloudpickle.cloudpickle"
FAST: Final = "cloudpickle.cloudpickle_fast"
UTILS: Final = "stable_baselines3.common.utils"
FILE: Final = "/lib/stable_baselines3/common/utils.py"
GLOBALS: Final = {"__package__": "stable_baselines3.common", "__name__": UTILS, "__file__": FILE}


class Outcome(NamedTuple):
    value: Any
    decoder: Decoder

    @property
    def issues(self) -> list[Issue]:
        return list(self.decoder.issues.values())

    @property
    def overlooked(self) -> list[object]:
        """Rows of the log that are not accounted for: neither understood, nor doubted, nor a name that is known."""
        found = self.decoder
        return [
            node
            for node in found.pickle.log
            if id(node) not in found.understood
            and id(node) not in found.issues
            and not (type(node) is Global and find(node.pair).is_known and not node.updates)
        ]


def decode_outcome(content: object, protocol: int = 4) -> Outcome:
    """Decode a pickle, given its bytes or its tree."""
    data = content if type(content) is bytes else pkl.dumps(tree(content), protocol=protocol)  # type: ignore[arg-type]
    budget = Budget()
    return Outcome(*decode_tree(decode_pickle(data, budget), budget))


def understood(content: object, protocol: int = 4) -> Any:
    """The value of a pickle without issues."""
    outcome = decode_outcome(content, protocol)
    assert outcome.issues == []
    assert outcome.overlooked == []
    return outcome.value


def refused(content: object, message: str = "", rule: str = "arguments") -> Any:
    """The inert node that a pickle stays because of one thing that is wrong in it."""
    outcome = decode_outcome(content)
    assert isinstance(outcome.value, Node)
    assert any(issue.rule == rule and message in issue.message for issue in outcome.issues), outcome.issues
    return outcome.value


# -- trees --------------------------------------------------------------------------------------------


def tree(value: object) -> object:
    """Python's own dicts and sets in a tree are written for those of the tree."""
    if type(value) is dict:
        return Dict([(tree(key), tree(part)) for key, part in value.items()])
    if type(value) is list:
        return [tree(part) for part in value]
    if type(value) is tuple:
        return tuple(tree(part) for part in value)
    if type(value) is set:
        return Set(sorted(value))
    return FrozenSet(sorted(value)) if type(value) is frozenset else value


def call(module: str, name: str, *args: object) -> Call:
    """REDUCE."""
    return Call("REDUCE", Global(module, name), tree(args))


def new(module: str, name: str, state: object = None, *args: object) -> Call:
    """NEWOBJ, and BUILD when there is a state."""
    made = Call("NEWOBJ", Global(module, name), tree(args))
    return made if state is None else change(made, state)


def partial(function: object, *args: object, **keywords: object) -> Call:
    """A ``functools.partial``."""
    made = call("functools", "partial", function)
    return change(made, (function, args, keywords, None))


def change(node: Any, value: object, how: Any = "BUILD") -> Any:
    """Change a node once more."""
    node.updates = [*(node.updates or ()), Update(how, node, tree(value))]
    return node


def dtype(code: str, order: str = "<") -> Call:
    """As numpy pickles one."""
    flags = {"O": (-1, -1, 63), "U": (4 * int(code[1:] or 0), 4, 8)}.get(code[0], (-1, -1, 0))
    if code[0] in "SV":
        flags = (int(code[1:]), 1, 0)
    return change(call("numpy", "dtype", code, False, True), (3, order, None, None, None, *flags))


def array(
    shape: tuple[int, ...], items: object, code: str = "f4", order: str = "<", *, is_fortran: bool = False
) -> Call:
    """``_reconstruct`` and its state."""
    made = call("numpy.core.multiarray", "_reconstruct", Global("numpy", "ndarray"), (0,), b"b")
    return change(made, (1, shape, dtype(code, order), is_fortran, items))


def box(low: object, high: object, shape: object, **more: object) -> Call:
    """As gymnasium pickles one, with what it needs."""
    state = {"dtype": dtype("f4"), "_shape": shape, "low": low, "high": high, "_np_random": None, **more}
    return new("gymnasium.spaces.box", "Box", state)


def discrete(n: object = 2, library: str = "gymnasium", **more: object) -> Call:
    """A ``Discrete``."""
    return new(f"{library}.spaces.discrete", "Discrete", {"n": n, "_shape": (), "dtype": dtype("i8"), **more})


# -- functions ----------------------------------------------------------------------------------------

CODE_PARTS: Final = [
    "argcount",
    "posonlyargcount",
    "kwonlyargcount",
    "nlocals",
    "stacksize",
    "flags",
    "code",
    "consts",
    "names",
    "varnames",
    "filename",
    "name",
    "qualname",
    "firstlineno",
    "linetable",
    "exceptiontable",
    "freevars",
    "cellvars",
]


def code_parts(code: CodeType) -> tuple[Any, ...]:
    """The parts of a live code object, as cloudpickle takes them."""
    return tuple(getattr(code, f"co_{part}") for part in CODE_PARTS if hasattr(code, f"co_{part}"))


CONSTANT: Final = (
    1,
    0,
    0,
    1,
    1,
    19,
    b"\x88\x00S\x00",
    (None,),
    (),
    ("_",),
    FILE,
    "func",
    128,
    b"\x00\x01",
    ("val",),
    (),
)
"""The code of ``constant_fn.<locals>.func``: SB3 1.6.2 on CPython 3.8."""
OLD_CONSTANT: Final = (*CONSTANT[:1], *CONSTANT[2:])
"""On CPython 3.7."""
FLOATING: Final = (
    1, 0, 0, 1, 5, 19, b"\x95\x01\x97\x00t\x01" + bytes(10) + b"\x02\x00\x89\x01|\x00\xa6\x01\x00\x00\xab\x01"
    + bytes(8)
    + b"\xa6\x01\x00\x00\xab\x01" + bytes(8) + b"S\x00", (None,), ("float",), ("progress_remaining",), FILE, "<lambda>",
    "get_schedule_fn.<locals>.<lambda>", 97,
    b"\xf8\x80\x00\xa5e\xa8N\xa8N\xd0;M\xd1,N\xd4,N\xd1&O\xd4&O\x80\x00", b"", ("value_schedule",), (),
)  # fmt: skip
"""The code of ``get_schedule_fn.<locals>.<lambda>``: SB3 2.3.2 on CPython 3.11."""


def code(parts: tuple[Any, ...]) -> Call:
    """``_builtin_type("CodeType")(...)``; nested code objects become calls too."""
    made = [tuple(map(_constant, part)) if type(part) is tuple else part for part in parts]
    return Call("REDUCE", call(CLOUD, "_builtin_type", "CodeType"), tuple(made))


def _constant(value: Any) -> object:
    return code(code_parts(value)) if hasattr(value, "co_code") else value


def state_of(qualname: str, cells: list[object], **more: object) -> dict[str, object]:
    """What cloudpickle's state setter is given."""
    return {
        "__name__": qualname.rpartition(".")[2], "__qualname__": qualname, "__annotations__": {},
        "__kwdefaults__": None,
        "__defaults__": None, "__module__": UTILS, "__doc__": None,
        "__closure__": tuple(call(CLOUD, "_make_cell", content) for content in cells),
        "_cloudpickle_submodules": [], "__globals__": {}, **more,
    }  # fmt: skip


def function(
    parts: tuple[Any, ...] = CONSTANT,
    cells: tuple[object, ...] = (0.5,),
    qualname: str = "constant_fn.<locals>.func",
    *,
    base: object = None,
    attributes: object = None,
    spelling: str = "make",
    **more: object,
) -> object:
    """A function by value, the setter's dropped result beside it: a list of both, or of the function alone.

    :param spelling: ``make`` (cloudpickle >= 2.1), ``type`` (1.6 to 2.0) or ``fill`` (before)
    :param more: what differs in its state
    """
    scope = GLOBALS if base is None else base
    if spelling == "fill":
        names = {"__name__": "name", "__qualname__": "qualname", "__defaults__": "defaults",
                 "__kwdefaults__": "kwdefaults",
                 "__globals__": "globals", "__module__": "module", "__doc__": "doc"}  # fmt: skip
        state: dict[str, object] = {"dict": attributes or {}, "closure_values": list(cells), "annotations": {}}
        state |= {names[key]: value for key, value in state_of(qualname, [], **more).items() if key in names}
        skeleton = call(CLOUD, "_make_skel_func", code(parts), len(cells), scope)
        return [call(CLOUD, "_fill_function", skeleton, state)]
    empty = tuple(call(CLOUD, "_make_empty_cell") for _ in cells)
    args = (code(parts), tree(scope), None, None, empty)
    made = (
        Call("REDUCE", call(CLOUD, "_builtin_type", "LambdaType"), args)
        if spelling == "type"
        else call(CLOUD, "_make_function", *args)
    )
    setter = call(FAST, "_function_setstate", made, (attributes or {}, state_of(qualname, list(cells), **more)))
    return [made, setter]
