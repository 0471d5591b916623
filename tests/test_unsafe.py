"""The one module that unpickles: what is on the list works, and what is not runs nothing.

Every payload that must be refused names a module that leaves a mark when it is imported; the unpickler is
never even made.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sbformat
from conformance.generators.build_zips import sb3_archive
from sbformat import pkl, unsafe
from sbformat.data import Serialized, dumps
from sbformat.errors import DataError, LimitError, PickleError, SbformatError, UnsupportedError
from sbformat.limits import DEFAULT_LIMITS
from sbformat.pkl import Call, Dict, Global, Update
from sbformat.unsafe import I_TRUST_THIS_FILE, SB3_TYPES, NotAllowedError, load_data, unpickle
from tests.helpers.bundled import PPO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sbformat.archive.archive import Archive

CANARY = """
ran = ["imported"]
def call(*args, **kwargs):
    ran.append("called")
class Thing:
    def __init__(self, *args):
        ran.append("made")
    def __setstate__(self, state):
        ran.append("built")
    def append(self, item):
        ran.append("appended")
"""


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that can be imported, and tells what was done with it."""
    (tmp_path / "canary.py").write_text(CANARY)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("canary", None)


@pytest.fixture
def idle(canary: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing may be unpickled or imported."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the unpickler was made")

    monkeypatch.setattr(unsafe, "_Unpickler", refuse)
    before = set(sys.modules)
    yield
    assert "canary" not in sys.modules
    assert set(sys.modules) == before


def blob(value: bytes | object, type: str | None = "<class 'mine'>") -> Serialized:  # noqa: A002
    return Serialized(type, value if isinstance(value, bytes) else pkl.dumps(value))


def call(module: str, name: str, *args: object, how: Any = "REDUCE") -> Call:
    return Call(how, Global(module, name), args)


def changed(node: Any, how: Any, value: object) -> Any:
    node.updates = [*(node.updates or ()), Update(how, node, value)]
    return node


def archive(**data: object) -> Archive:
    return sbformat.reads(sb3_archive(entries={"data": dumps(data)}))


# -- what is on the list -------------------------------------------------------------------------------

VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array([None, 1, "a"], dtype=object),
    np.zeros((0, 3)),
    np.float32(1.5),
    np.int64(7),
    np.bool_(True),
    np.dtype("f4"),
    np.dtype(">c16"),
    np.dtype("U7"),
    np.dtype("V3"),
    np.float32,
    np.ndarray,
    int,
    OrderedDict(a=1, b=[2]),
    deque([{"r": 1.0, "l": 3, "t": np.float64(0.5)}], maxlen=100),
    defaultdict(list, {"a": [1]}),
    {1, 2},
    frozenset({1}),
    bytearray(b"ab"),
    1 + 2j,
    {"a": (None, True, 2**70, -1.5, "\u00e9", b"\x00")},
]


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_what_pickle_writes_of_sb3s_types_comes_back_as_from_pickle(value: Any, protocol: int) -> None:
    written = pickle.dumps(value, protocol)
    found, expected = unpickle(blob(written)), pickle.loads(written)
    assert type(found) is type(value)
    np.testing.assert_array_equal(found, value)
    if isinstance(value, (np.ndarray, np.generic)):
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("make", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
@pytest.mark.parametrize("kind", [np.random.Generator, np.random.RandomState])
def test_random_states_come_back(make: Any, kind: Any) -> None:
    value = kind(make(3))
    found = unpickle(blob(pickle.dumps(value)))
    assert type(found) is kind
    draw = "integers" if kind is np.random.Generator else "randint"
    assert getattr(found, draw)(1 << 30) == getattr(value, draw)(1 << 30)


def test_a_name_of_python_2_is_renamed_below_protocol_3_as_cpython_does() -> None:
    found = unpickle(blob(b"\x80\x02c__builtin__\nset\n]K\x01a\x85R."))
    assert found == {1}
    assert unpickle(blob(b"c__builtin__\nunicode\n.")) is str


def test_the_name_of_python_2_is_not_renamed_from_protocol_3_on(idle: None) -> None:
    with pytest.raises(NotAllowedError) as caught:
        unpickle(blob(b"\x80\x03c__builtin__\nset\n."))
    assert caught.value.names == ("__builtin__.set",)


@pytest.mark.parametrize("allow", [{("canary", "Thing")}, {"canary.Thing"}, [("canary", "Thing")]])
def test_a_list_of_ones_own_is_exact(canary: None, allow: Any) -> None:
    found = unpickle(blob(call("canary", "Thing", 1)), allow=SB3_TYPES | set(allow))
    assert sys.modules["canary"].ran == ["imported", "made"]
    assert type(found).__name__ == "Thing"
    with pytest.raises(NotAllowedError):
        unpickle(blob(call("collections", "OrderedDict")), allow=allow)


@pytest.mark.parametrize("allow", [{("a", "b.c")}, {"name"}, {("a", "b", "c")}, {1}, {("", "b")}])
def test_a_list_of_anything_but_exact_names_is_refused(allow: Any) -> None:
    with pytest.raises(ValueError, match="for allow, got"):
        unpickle(blob(None), allow=allow)
    with pytest.raises(ValueError, match="for allow, got"):
        load_data(archive(), allow=allow)


def test_one_name_is_no_list() -> None:
    with pytest.raises(TypeError, match="set"):
        unpickle(blob(None), allow="canary.Thing")


def test_only_a_serialized_is_taken() -> None:
    with pytest.raises(TypeError, match="got bytes"):
        unpickle(b"N.")  # type: ignore[arg-type]


# -- what is not, and runs nothing ---------------------------------------------------------------------

OUTSIDE = {
    "reduce": (call("canary", "call", 1), "canary.call"),
    "newobj": (call("canary", "Thing", how="NEWOBJ"), "canary.Thing"),
    "newobj-ex": (Call("NEWOBJ_EX", Global("canary", "Thing"), (), Dict()), "canary.Thing"),
    "inst": (b"(icanary\ncall\n.", "canary.call"),
    "obj": (b"(ccanary\ncall\no.", "canary.call"),
    "named": (Global("canary", "call"), "canary.call"),
    "in-a-value": ([Dict([("a", (Global("canary", "Thing"),))])], "canary.Thing"),
    "popped": (b"\x80\x04\x8c\x06canary\x8c\x04call\x93)R0N.", "canary.call"),
    "left-on-the-stack": (b"\x80\x04ccanary\ncall\n)RN.", "canary.call"),
    "in-the-memo-only": (b"\x80\x04ccanary\ncall\n\x940N.", "canary.call"),
    "as-an-argument": (call("collections", "deque", (Global("canary", "call"),)), "canary.call"),
    "as-a-factory": (call("collections", "defaultdict", Global("canary", "call")), "canary.call"),
    "as-a-state": (
        changed(call("stable_baselines3.common.utils", "FloatSchedule", how="NEWOBJ"), "BUILD",
                Dict([("value_schedule", Global("canary", "call"))])),
        "canary.call",
    ),
    "dotted": (Global("collections", "OrderedDict.fromkeys"), "collections.OrderedDict.fromkeys"),
    "dotted-allowed-module": (b"\x80\x04\x8c\x05numpy\x8c\x08f2py.os_\x93.", "numpy.f2py.os_"),
    "prefix": (Global("numpy", "ndarray_"), "numpy.ndarray_"),
    "submodule": (Global("numpy.ndarray", "dtype"), "numpy.ndarray.dtype"),
    "getattr": (call("builtins", "getattr", Global("builtins", "int"), "real"), "builtins.getattr"),
    "eval": (call("builtins", "eval", "1"), "builtins.eval"),
    "system": (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
    "python-2": (b"ccommands\ngetoutput\n(S'true'\ntR.", "subprocess.getoutput"),
    "partial": (call("functools", "partial", Global("builtins", "int")), "functools.partial"),
    "subimport": (call("cloudpickle.cloudpickle", "subimport", "canary"), "cloudpickle.cloudpickle.subimport"),
    "function": (
        call("cloudpickle.cloudpickle", "_make_function", None), "cloudpickle.cloudpickle._make_function",
    ),
    "torch-load": (call("torch", "load", b""), "torch.load"),
    "numpy-load": (call("numpy", "load", "/etc/passwd"), "numpy.load"),
    "json-to-data": (
        call("stable_baselines3.common.save_util", "json_to_data", "{}"),
        "stable_baselines3.common.save_util.json_to_data",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "name"), OUTSIDE.values(), ids=OUTSIDE.keys())
def test_a_name_outside_the_list_is_refused_before_anything_runs(idle: None, value: object, name: str) -> None:
    with pytest.raises(NotAllowedError) as caught:
        unpickle(blob(value))
    assert caught.value.names == (name,)
    assert name in str(caught.value)
    assert "nothing was executed" in str(caught.value)


def test_every_name_outside_the_list_is_told() -> None:
    for number, more in ((12, ""), (13, "; and 1 more"), (30, "; and 18 more")):
        with pytest.raises(NotAllowedError) as caught:
            unpickle(blob([call("canary", f"f{i}") for i in range(number)]))
        assert len(caught.value.names) == number
        assert f"{more}. sbformat.values.decode" in str(caught.value)
        assert ("more" in str(caught.value)) is bool(more)


def test_a_function_by_value_is_refused_with_the_way_to_look_at_it() -> None:
    with pytest.raises(NotAllowedError, match=r"values\.decode.*I_TRUST_THIS_FILE"):
        unpickle(blob(OUTSIDE["function"][0]))


ENUM = ("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
DTYPE = ("numpy", "dtype")
STATE = (3, "<", None, None, None, -1, -1, 0)
SUCH = {
    "computed-import": (b"\x80\x04cnumpy\nfloat32\ncnumpy\nint8\n\x93.", "computes the name"),
    "computed-call": (Call("REDUCE", call("collections", "OrderedDict"), ()), "calls a value that it computes"),
    "computed-arguments": (
        Call("REDUCE", Global("collections", "deque"), call("collections", "deque")), "computes the arguments",
    ),
    "extension": (b"\x80\x02\x82\x01.", "extension code"),
    "build-on-a-class": (changed(Global("collections", "OrderedDict"), "BUILD", Dict([("a", 1)])), "itself"),
    "set-on-a-class": (changed(Global("collections", "deque"), "APPENDS", [1]), "itself"),
    "algorithm": (call("stable_baselines3.ppo.ppo", "PPO", "MlpPolicy", "canary:Env"), "may only be referred to"),
    "policy": (call("stable_baselines3.common.policies", "ActorCriticPolicy"), "may only be referred to"),
    "type": (call("builtins", "type", "X", (), Dict()), "may only be referred to"),
    "module": (call("torch.nn.modules.linear", "Linear", 1, 1, how="NEWOBJ"), "may only be referred to"),
    "enum-member": (changed(call(*ENUM, "step"), "BUILD", Dict([("value", 1)])), "no pickler writes"),
    "slots": (
        changed(call("stable_baselines3.common.utils", "FloatSchedule", how="NEWOBJ"), "BUILD",
                (None, Dict([("__class__", 1)]))),
        "no pickler writes",
    ),
    "state-of-a-deque": (changed(call("collections", "deque"), "BUILD", Dict([("a", 1)])), "no pickler writes"),
    "items-of-a-space": (
        changed(call("gymnasium.spaces.dict", "Dict", how="NEWOBJ"), "SETITEMS", [("a", 1)]), "no pickler writes",
    ),
    "pointers-as-numbers": (
        changed(call(*DTYPE, "O8", False, True), "BUILD", (3, "|", None, None, None, -1, -1, 0)), "'numpy.dtype' with",
    ),
    "numbers-as-pointers": (
        changed(call(*DTYPE, "i8", False, True), "BUILD", (3, "|", None, None, None, -1, -1, 63)), "'numpy.dtype' with",
    ),
    "dtype-of-another-size": (
        changed(call(*DTYPE, "S8", False, True), "BUILD", (3, "|", None, None, None, 800, 1, 0)), "'numpy.dtype' with",
    ),
    "dtype-twice": (
        changed(changed(call(*DTYPE, "f4", False, True), "BUILD", STATE), "BUILD", STATE), "'numpy.dtype' with",
    ),
    "dtype-with-fields": (
        changed(call(*DTYPE, "V8", False, True), "BUILD", (3, "|", None, ("a",), Dict(), 8, 1, 0)),
        "'numpy.dtype' with",
    ),
    "dtype-by-text": (call(*DTYPE, "f4,(2,3)f8", False, True), "'numpy.dtype' with"),
    "array-of-a-text": (
        call("numpy.core.multiarray", "_reconstruct", Global("numpy", "ndarray"), (0,), b"(2)f8"), "_reconstruct' with",
    ),
    "array-of-any-size": (
        call("numpy._core.multiarray", "_reconstruct", Global("numpy", "ndarray"), (1 << 40,), b"b"),
        "_reconstruct' with",
    ),
    "array-with-a-text-in-its-state": (
        changed(call("numpy", "ndarray", (0,), how="NEWOBJ"), "BUILD", (1, (1,), "(2)f8", False, b"")), "ndarray' with",
    ),
    "buffer-of-a-text": (call("numpy.core.numeric", "_frombuffer", b"", "f4", (0,), "C"), "_frombuffer' with"),
    "scalar-of-a-text": (call("numpy._core.multiarray", "scalar", "f4", b""), "scalar' with"),
    "generator-that-calls": (
        call("numpy.random._pickle", "__generator_ctor", "MT19937", Global("builtins", "bytearray")), "ctor' with",
    ),
    "generator-of-a-class": (
        call("numpy.random._pickle", "__generator_ctor", Global("builtins", "list")), "ctor' with",
    ),
    "bit-generator-of-any-class": (
        call("numpy.random._pickle", "__bit_generator_ctor", Global("builtins", "list")), "ctor' with",
    ),
    "bytearray-of-any-size": (call("builtins", "bytearray", 1 << 40), "'builtins.bytearray' with"),
    "storage-of-no-bytes": (call("torch.storage", "_load_from_bytes", "file"), "'torch.storage._load_from_bytes'"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "why"), SUCH.values(), ids=SUCH.keys())
def test_a_name_on_the_list_is_no_licence(idle: None, value: object, why: str) -> None:
    with pytest.raises(NotAllowedError) as caught:
        unpickle(blob(value))
    assert caught.value.names == ()
    assert why in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"N", b"junk", b"N.N.", b"\x80\x05\x97."])
def test_what_is_no_pickle_is_refused_before_anything_runs(idle: None, data: bytes) -> None:
    with pytest.raises(PickleError):
        unpickle(blob(data))


def test_a_blob_larger_than_allowed_is_not_looked_at(idle: None) -> None:
    small = DEFAULT_LIMITS._replace(blob_bytes=10)
    with pytest.raises(LimitError, match="blob_bytes"):
        unpickle(blob(b"N" * 11), limits=small)
    with pytest.raises(LimitError, match="blob_bytes"):
        unpickle(blob(b"N" * 11), limits=small, trust=I_TRUST_THIS_FILE)


def test_tuples_too_deep_for_cpythons_stack_are_refused(idle: None) -> None:
    deep = b"\x80\x04})" + b"\x85" * 200_000 + b"Ns."
    with pytest.raises(LimitError, match="pickle_nodes"):
        unpickle(blob(deep))


def test_messages_are_escaped_and_bounded() -> None:
    with pytest.raises(NotAllowedError) as caught:
        unpickle(blob([Global("a\x1b[31m" * 500, f"b{i}") for i in range(50)], type="\x1b[31m"))
    assert str(caught.value).isprintable()
    assert len(str(caught.value).encode()) <= 2048


# -- the unpickler itself, had the first look seen nothing ---------------------------------------------


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x80\x04ccanary\ncall\n)R.", "canary.call"),
        (b"\x80\x04\x8c\x06canary\x8c\x04call\x93)R.", "canary.call"),
        (b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.", "collections.OrderedDict.fromkeys"),
        (b"(icanary\ncall\n.", "canary.call"),
        (b"ccommands\ngetoutput\n.", "subprocess.getoutput"),
    ],
)
def test_the_unpickler_checks_each_name_again(canary: None, data: bytes, name: str) -> None:
    unpickler = unsafe._Unpickler(data, SB3_TYPES | {("collections", "OrderedDict.fromkeys")}, is_renamed=True)
    with pytest.raises(NotAllowedError) as caught:
        unpickler.load()
    assert caught.value.names == (name,)
    assert "canary" not in sys.modules


# -- what fails while it runs --------------------------------------------------------------------------


def test_a_module_that_is_missing_is_one_error_with_the_cause_chained() -> None:
    missing = blob(Global("not_installed_here", "Box"), "<class 'not_installed_here.Box'>")
    with pytest.raises(UnsupportedError, match="not_installed_here.Box.*failed: ModuleNotFoundError") as caught:
        unpickle(missing, allow={"not_installed_here.Box"})
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert not isinstance(caught.value, NotAllowedError)


def test_a_name_that_a_module_lacks_is_one_error(canary: None) -> None:
    with pytest.raises(UnsupportedError, match="AttributeError"):
        unpickle(blob(Global("canary", "gone")), allow={"canary.gone"})


def test_a_reference_out_of_the_pickle_is_one_error() -> None:
    with pytest.raises(UnsupportedError, match="UnpicklingError"):
        unpickle(blob(b"\x80\x02K\x01Q."))


# -- full trust ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["yes", "", "this file may run any code", True, 1, False])
def test_trust_is_spelled_out_or_nothing(idle: None, trust: Any) -> None:
    with pytest.raises(ValueError, match=I_TRUST_THIS_FILE):
        unpickle(blob(call("canary", "call")), trust=trust)
    with pytest.raises(ValueError, match=I_TRUST_THIS_FILE):
        load_data(archive(), trust=trust)


def test_what_is_trusted_runs(canary: None) -> None:
    assert unpickle(blob(call("canary", "call")), trust=I_TRUST_THIS_FILE) is None
    assert sys.modules["canary"].ran == ["imported", "called"]


def test_what_fails_in_trusted_code_is_one_error() -> None:
    with pytest.raises(UnsupportedError, match="'mine' failed: ValueError: invalid") as caught:
        unpickle(blob(call("builtins", "int", "x"), "mine"), trust=I_TRUST_THIS_FILE)
    assert isinstance(caught.value.__cause__, ValueError)


# -- data ----------------------------------------------------------------------------------------------


def test_data_is_loaded_as_sb3_does_and_one_broken_object_does_not_stop_the_others(canary: None) -> None:
    loaded = load_data(
        archive(
            gamma=0.5,
            space=blob(Global("not_installed_here", "Box"), "<class 'Box'>"),
            obs=blob(pickle.dumps(np.arange(3))),
            learning_rate=blob(call("canary", "call"), "<class 'function'>"),
            junk=blob(b"junk", None),
            policy_kwargs={"net_arch": [1]},
            last=blob(Global("collections", "OrderedDict")),
        ),
        allow=SB3_TYPES | {"not_installed_here.Box"},
    )
    assert list(loaded.data) == ["gamma", "obs", "policy_kwargs", "last"]
    assert loaded.data["gamma"] == 0.5
    assert loaded.data["obs"].tolist() == [0, 1, 2]
    assert [(key, f.type, f.error) for key, f in loaded.failures.items()] == [
        ("space", "<class 'Box'>", "ModuleNotFoundError"),
        ("learning_rate", "<class 'function'>", "NotAllowedError"),
        ("junk", None, "PickleError"),
    ]
    assert "canary.call" in loaded.failures["learning_rate"].message
    assert "canary" not in sys.modules


def test_a_key_of_custom_objects_is_not_deserialised(canary: None) -> None:
    mine = object()
    found = archive(gamma=0.5, learning_rate=blob(call("canary", "call")), junk=blob(b"junk"))
    loaded = load_data(
        found, {"gamma": mine, "learning_rate": mine, "junk": None, "absent": mine}, trust=I_TRUST_THIS_FILE
    )
    assert loaded == unsafe.LoadedData(data={"gamma": mine, "learning_rate": mine, "junk": None}, failures={})
    assert "canary" not in sys.modules


def test_custom_objects_are_a_dict() -> None:
    with pytest.raises(ValueError, match="custom_objects"):
        load_data(archive(), [("gamma", 1)])  # type: ignore[arg-type]


def test_what_is_loaded_is_the_callers_own() -> None:
    found = archive(policy_kwargs={"net_arch": [1]})
    load_data(found).data["policy_kwargs"]["net_arch"].append(2)
    assert found.data["policy_kwargs"] == {"net_arch": [1]}


def test_data_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(DataError):
        load_data(sbformat.reads(sb3_archive(entries={"data": b"{"})))


def test_errors_can_be_sent_between_processes() -> None:
    error = NotAllowedError(["a.b"], ["it does"], None)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.names, str(again)) == (NotAllowedError, ("a.b",), str(error))
    assert isinstance(again, SbformatError)


def test_nothing_of_the_package_imports_it() -> None:
    """In a process that imports every module but those that unpickle, and runs commands: a late import is seen too."""
    code = """
import importlib, pathlib, sys
import sbformat
import sbformat.cli

folder = pathlib.Path(sbformat.__path__[0])
for path in folder.rglob("*.py"):
    name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
    if not name.startswith(("sbformat.unsafe", "sbformat.sb3", "sbformat.__main__")):
        importlib.import_module(name)
for command in ("inspect", "scan", "validate"):
    sbformat.cli.main([command, sys.argv[1], "--quiet"])
sbformat.rebuild(sys.argv[1])
print([name for name in ("sbformat.unsafe", "sbformat.sb3") if name in sys.modules])
import sbformat.unsafe
print("sbformat.unsafe" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, str(PPO)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-2:] == ["[]", "True"]
