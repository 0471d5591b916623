"""``sbformat.pth.at_once``: what it takes means what the machine reads; all else is left to that."""

from __future__ import annotations

import pickle
import types
import zipfile
from collections import Counter, OrderedDict
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sbformat
from sbformat import SbformatError, pth
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pth import decode
from sbformat.pth.at_once import read_at_once
from sbformat.pth.build import build_values
from sbformat.pth.context import Scope
from sbformat.pth.values import Storage, TensorInfo
from tests.helpers.bundled import PPO
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# -- a pickler that writes what torch's writes --------------------------------------------------------


def _rebuild_tensor_v2() -> None:
    """A name to pickle."""


_rebuild_tensor_v2.__module__ = "torch._utils"


def _class(name: str) -> type:
    return type(name, (), {"__module__": "torch"})


CLASSES: Final = {name: _class(name) for name in ("FloatStorage", "LongStorage", "DoubleStorage", "BoolStorage")}


class Ref(NamedTuple):
    """What a storage is pickled as."""

    id: tuple[object, ...]


class Tensor:
    """A tensor to pickle."""

    def __init__(self, ref: Ref, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, **more: Any) -> None:
        self.parts = ref, shape, strides, more.get("offset", 0), more.get("flag", False)

    def __reduce_ex__(self, protocol: int) -> Any:
        ref, shape, strides, offset, flag = self.parts
        if strides is None:
            steps = [1]
            for size in reversed(shape[1:]):
                steps.insert(0, steps[0] * size)
            strides = tuple(steps[: len(shape)])
        return _rebuild_tensor_v2, (ref, offset, (*shape,), (*strides,), flag, OrderedDict())


class Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]
    """Protocol 2, as ``torch.save`` asks for."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def persistent_id(self, value: object) -> object:
        return (*value.id,) if isinstance(value, Ref) else None  # torch makes tuples anew: no memo entry is read

    def save_global(self, value: Any, name: str | None = None) -> None:
        self.write(f"c{value.__module__}\n{name or value.__name__}\n".encode())
        self.memoize(value)

    dispatch[types.FunctionType] = save_global


def dumped(value: object) -> bytes:
    file = BytesIO()
    Pickler(file, 2).dump(value)
    return file.getvalue()


def state_dict(tensors: dict[str, object], modules: list[str] | None = None) -> OrderedDict[str, object]:
    """What ``Module.state_dict`` gives."""
    made = OrderedDict(tensors)
    names = ["", *dict.fromkeys(name.rpartition(".")[0] for name in tensors)] if modules is None else modules
    made._metadata = OrderedDict((name, {"version": 1}) for name in names)  # type: ignore[attr-defined]
    return made


def optimizer(*states: dict[str, object], **more: object) -> dict[str, object]:
    """What ``Optimizer.state_dict`` gives."""
    group = {"lr": 3e-4, "betas": (0.9, 0.999), "eps": 1e-5, "amsgrad": False, "foreach": None, **more}
    return {"state": dict(enumerate(states)), "param_groups": [{**group, "params": list(range(len(states)))}]}


def adam(first: int, shape: tuple[int, ...], step: object = None) -> dict[str, object]:
    """What Adam keeps for a parameter; older releases count steps in numbers."""
    numel = 1
    for size in shape:
        numel *= size
    tensors = [Tensor(floats(str(first + at), numel), shape) for at in range(2)]
    return {"step": step or Tensor(floats(str(first + 2), 1), ()), "exp_avg": tensors[0], "exp_avg_sq": tensors[1]}


def floats(key: str, numel: int, location: str = "cpu", storage: str = "FloatStorage") -> Ref:
    return Ref(("storage", CLASSES[storage], key, location, numel))


# -- both ways to read --------------------------------------------------------------------------------


def _scope(limits: Limits) -> Scope:
    def open_storage(key: str, dtype: str, numel: int, location: str, _: object) -> Storage:
        return Storage(key, dtype, numel, location, "little", memoryview, key)

    return Scope(Budget(limits), open_storage, id_items=5)


def described(value: Any) -> object:
    """All there is to a tree, as values that compare."""
    if isinstance(value, TensorInfo):
        storage = value.storage
        return [*value._replace(storage=None), storage.key, storage.dtype, storage.numel, storage.location]  # type: ignore[arg-type]
    if isinstance(value, dict):
        parts = [(key, type(key), described(part)) for key, part in value.items()]
        return type(value), parts, described(getattr(value, "_metadata", None))
    if isinstance(value, (list, tuple)):
        return type(value), [described(part) for part in value]
    return type(value), repr(value)


def tensors_of(value: Any) -> list[TensorInfo]:
    """All tensors, in their order."""
    if isinstance(value, TensorInfo):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def shared(value: Any) -> list[int]:
    """Which tensors have one storage, shape or strides: who writes them again tells by their identity."""
    seen: dict[int, int] = {}
    parts = [part for info in tensors_of(value) for part in (info.storage, info.shape, info.strides)]
    return [seen.setdefault(id(part), len(seen)) for part in parts]


def by_the_machine(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """What the machine and the walk make of a pickle; None when they refuse it."""
    scope = _scope(limits)
    try:
        found = decode_pickle(data, scope.budget, encoding="utf-8")
        return None if found.flags else build_values(found, scope, "error")
    except SbformatError:
        return None


def agrees(data: bytes, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Assert that what is read at once is what the machine reads; say whether it was."""
    made = read_at_once(data, _scope(limits))
    if made is None:
        return False
    slowly = by_the_machine(data, limits)
    assert slowly is not None
    assert described(made) == described(slowly)
    assert shared(made) == shared(slowly)
    return True


TWO: Final = state_dict({"a.w": Tensor(floats("0", 6), (2, 3)), "a.b": Tensor(floats("1", 2), (2,))})
LAYERS: Final = {
    name: Tensor(floats(str(at), 70_000), shape)
    for at, (name, shape) in enumerate(
        {"q.qr.0.weight": (300, 70), "q.qr.0.bias": (300,), "r": (), "conv.weight": (4, 3, 8, 8)}.items()
    )
}
MANY: Final = {f"layer.l{at}.weight": Tensor(floats(str(at), 4), (2, 2)) for at in range(80)}
SHARED: Final = floats("0", 12)
PLACE: Final = "cuda:0"
TAKEN: Final[dict[str, object]] = {
    "two tensors": TWO,
    "shapes of every kind": state_dict(LAYERS),
    "more than the memo's short form holds": state_dict(MANY),
    "one storage for two": state_dict(
        {"aa.x": Tensor(SHARED, (2,)), "aa.y": Tensor(SHARED, (5,), (2,), offset=3), "zz": Tensor(floats("1", 1), ())}
    ),
    "another place, spelled each time": state_dict(
        {f"l{at}.w": Tensor(floats(str(at), 3, PLACE.swapcase().lower()), (3,)) for at in range(3)}
    ),
    "one place, spelled once": state_dict({f"l{at}.w": Tensor(floats(str(at), 3, PLACE), (3,)) for at in range(3)}),
    "other classes": state_dict(
        {
            f"l{at}.{name}": Tensor(floats(str(at), 3, storage=name), (3,), flag=name == "DoubleStorage")
            for at, name in enumerate([*CLASSES, *reversed(CLASSES)])
        }
    ),
    "a large number": state_dict({"a.w": Tensor(floats("0", 2**31 - 1), (2**20, 2**10)), "b.w": LAYERS["r"]}),
    "an optimizer": (ADAM := optimizer(adam(0, (2, 3)), adam(3, (2,)))),
    "an optimizer that counts in numbers": optimizer(adam(0, (2, 3), 300), adam(3, (2,), 70_000), adam(6, (), 1)),
    "an optimizer of many": optimizer(*[adam(3 * at, (4, 4)) for at in range(40)]),
    "two groups": {
        **optimizer(adam(0, (2,)), adam(3, (2,))),
        "param_groups": [{"lr": 0.1}, {"lr": 1e-9, "x": [[], ()]}],
    },
    "nothing in it": state_dict({"a.w": Tensor(floats("0", 0), (0, 4)), "b.w": Tensor(floats("1", 9), (3, 3), (0, 1))}),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_torch_writes_is_read_at_once(what: str) -> None:
    assert agrees(dumped(TAKEN[what]))


@pytest.mark.parametrize("entry", ["policy.pth", "policy.optimizer.pth"])
def test_bundled_policies_and_optimizers_are_read_at_once(entry: str) -> None:
    assert agrees(pickle_of(PPO, entry))


def test_what_is_read_at_once_is_what_an_archive_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    once = []
    for first in (0, 1000):
        monkeypatch.setattr(decode, "_FIRST", first)
        parameters = sbformat.read(PPO).parameters
        trees = [described(parameters[name].tree) for name in parameters]
        once.append((trees, [pth.dumps(parameters[name]) for name in parameters]))
    assert once[0] == once[1]


def pickle_of(path: Path, entry: str) -> bytes:
    """What a ``.pth`` of an archive pickles, by the standard library; nothing when it is no zip."""
    with zipfile.ZipFile(path) as archive:
        data = archive.read(entry) if entry in archive.namelist() else b""
    if not zipfile.is_zipfile(BytesIO(data)):
        return b""
    with zipfile.ZipFile(BytesIO(data)) as records:
        (name,) = (name for name in records.namelist() if name.endswith("/data.pkl"))
        return records.read(name)


READ: Final[Counter[str]] = Counter()
_summary = told(READ, "test_pth_at_once.py:")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="there is no ../shared beside the project")
def test_real_policies_are_read_at_once() -> None:
    for path in sorted([*CORPUS.rglob("*.zip"), *GENERATED.rglob("*.zip")]):
        for entry in ("policy.pth", "policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth"):
            data = pickle_of(path, entry) if zipfile.is_zipfile(path) and path.name not in DAMAGED else b""
            if data:
                what = "policies" if entry == "policy.pth" else "optimizers"
                READ[f"{what} read at once" if agrees(data) else f"{what} left to the machine"] += 1
    for what in ("policies", "optimizers"):
        assert READ[f"{what} read at once"] > 3 * READ[f"{what} left to the machine"]


LEFT: Final[dict[str, Callable[[], bytes]]] = {
    "no metadata": lambda: dumped(OrderedDict(TWO)),
    "a plain dict": lambda: dumped(dict(TWO)),
    "one tensor": lambda: dumped(state_dict({"w": LAYERS["r"]})),
    "a number among them": lambda: dumped(state_dict({**LAYERS, "n": 3})),
    "a name that is no ASCII": lambda: dumped(state_dict({"\u00e9.w": LAYERS["r"], "b": LAYERS["r"]})),
    "a long name": lambda: dumped(state_dict({"a" * 300: LAYERS["r"], "b.c": LAYERS["q.qr.0.bias"]})),
    "one tensor under two names": lambda: dumped(state_dict({"a.w": LAYERS["r"], "b.w": LAYERS["r"]})),
    "a class that is not known": lambda: dumped(TWO).replace(b"FloatStorage", b"FloatStorags"),
    "a tensor past its storage": lambda: dumped(state_dict({"a.w": Tensor(floats("0", 3), (4,)), "b": LAYERS["r"]})),
    "two sizes of one storage": lambda: dumped(
        state_dict({"a.w": Tensor(floats("0", 3), (3,)), "b.w": Tensor(floats("0", 4), (3,))})
    ),
    "a gradient of whole numbers": lambda: dumped(
        state_dict({"a.w": Tensor(floats("0", 3, storage="LongStorage"), (3,), flag=True), "b.w": LAYERS["r"]})
    ),
    "more than one batch": lambda: dumped(state_dict({f"{at}.w": Tensor(floats("0", 1), ()) for at in range(1001)})),
    "another protocol": lambda: b"\x80\x03" + dumped(TWO)[2:],
    "a parameter that is left out": lambda: dumped({"state": {1: adam(0, (2,)), 2: adam(3, (2,))}, "param_groups": []}),
    "a parameter with a name": lambda: dumped({"state": {"0": adam(0, (2,)), "1": adam(3, (2,))}, "param_groups": []}),
    "an optimizer without state": lambda: dumped(optimizer()),
    "more than an optimizer has": lambda: dumped({**ADAM, "more": 1}),
    "a tensor among the groups": lambda: dumped(optimizer(adam(0, (2,)), lr=Tensor(floats("9", 1), ()))),
    "a class among the groups": lambda: dumped(optimizer(adam(0, (2,)), lr=OrderedDict())),
    "a text said before": lambda: dumped(optimizer(adam(0, (2,)), lr="exp_avg")),
    "groups that are no list": lambda: dumped({**ADAM, "param_groups": ({"lr": 0.1},)}),
    "bytes behind an optimizer": lambda: dumped(ADAM) + b".",
    "bytes behind it": lambda: dumped(TWO) + b".",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", LEFT)
def test_all_else_is_left_to_the_machine(what: str) -> None:
    assert not agrees(LEFT[what]())


HEAD: Final = dumped(ADAM).partition(b"param_groups")[0] + b"param_groups"
PLACE_OF_GROUPS: Final = dumped(ADAM)[len(HEAD) :][:2]
GROUPS: Final = b"X\x0c\0\0\0param_groups"
TAILS: Final = {
    "state in a tuple": b"0\x85" + GROUPS + b"]u.",
    "state twice": b"02\x86" + GROUPS + b"]u.",
    "another state": b"00K\x05" + GROUPS + b"]u.",
    "no state": b"00N" + GROUPS + b"]u.",
    "a state of its own": b"1(X\x05\0\0\0stateK\x07" + GROUPS + b"]u.",
    "the text in a tuple": b"\x86" + GROUPS + b"]u.",
    "another state, behind the place": PLACE_OF_GROUPS + b"00K\x05" + GROUPS + b"]u.",
    "places by count": PLACE_OF_GROUPS + b"](X\1\0\0\0a\x94X\1\0\0\0b\x94h\x01eu.",
    "places by count, from the first": PLACE_OF_GROUPS + b"](X\1\0\0\0a\x94h\0eu.",
    "state among the groups": PLACE_OF_GROUPS + b"](h\x02eu.",
    "a change of state": PLACE_OF_GROUPS + b"h\x02K\x09}s0]u.",
    "a change of state, through the groups": PLACE_OF_GROUPS + b"](h\x02K\x09}seu.",
    "a value more": PLACE_OF_GROUPS + b"]Nu.",
    "no end of the dict": PLACE_OF_GROUPS + b"].",
    "an end in the groups": PLACE_OF_GROUPS + b"]u.]u.",
    "another place": b"q\x01]u.",
    "no place": b"]u.",
}


@pytest.mark.parametrize("what", TAILS)
def test_groups_are_a_value_and_no_more(what: str) -> None:
    assert agrees(HEAD + PLACE_OF_GROUPS + b"]u.")
    assert not agrees(HEAD + TAILS[what])


def test_places_that_are_counted_are_those_of_the_whole_pickle() -> None:
    """MEMOIZE in the groups takes the next place of all."""
    count = PLACE_OF_GROUPS[1] + 1
    assert agrees(HEAD + PLACE_OF_GROUPS + b"](X\1\0\0\0a\x94X\1\0\0\0b\x94h%ch%ceu." % (count, count + 1))


def test_nothing_is_charged_for_what_is_left_to_the_machine() -> None:
    views = {"a": Tensor(floats("0", 1), (10_000_000,), (0,)), "b": LAYERS["r"]}
    for groups in ((), [OrderedDict()], {}):
        scope = _scope(DEFAULT_LIMITS)
        assert read_at_once(dumped({"state": {0: views, 1: adam(5, (2,))}, "param_groups": groups}), scope) is None
        scope.budget.spend("expanded_items", DEFAULT_LIMITS.expanded_items)
    scope = _scope(DEFAULT_LIMITS)
    assert (
        read_at_once(dumped({"state": {0: views, 1: adam(5, (2,))}, "param_groups": [{"lr": 1.0}]}), scope) is not None
    )
    with pytest.raises(sbformat.LimitError):
        scope.budget.spend("expanded_items", DEFAULT_LIMITS.expanded_items)


def test_every_limit_is_the_machines() -> None:
    data = dumped(TWO)
    tight = {
        "pickle_bytes": len(data) - 1, "pickle_opcodes": 20, "pickle_nodes": 5, "pickle_memo": 5, "pickle_stack": 5,
        "pickle_marks": 2, "value_depth": 1, "tensor_rank": 1, "tensor_name_bytes": 2, "tensors": 1,
    }  # fmt: skip
    for name, allowed in tight.items():
        assert not agrees(data, Limits(**{name: allowed})), name
        assert by_the_machine(data, Limits(**{name: allowed})) is None, name
    expanded = dumped(state_dict({"a.w": Tensor(floats("0", 1), (100, 9), (0, 0)), "b.w": LAYERS["q.qr.0.bias"]}))
    assert agrees(expanded)
    assert not agrees(expanded, Limits(expanded_items=899))


@pytest.mark.parametrize("value", [TWO, optimizer(adam(0, (2, 3)), adam(3, (2,), 7))], ids=["module", "optimizer"])
def test_no_changed_byte_is_read_otherwise(value: object) -> None:
    """Each byte of a small pickle is set to each other value: nothing or what the machine reads comes out."""
    data = dumped(value)
    taken = 0
    for at in range(len(data)):
        for byte in range(256):
            taken += agrees(data[:at] + bytes((byte,)) + data[at + 1 :])
    assert taken > len(data)  # itself, and names, keys and sizes that fit as well


@pytest.mark.parametrize("what", TAKEN)
def test_no_cut_is_read_otherwise(what: str) -> None:
    data = dumped(TAKEN[what])
    step = max(1, len(data) // 300)
    for at in range(0, len(data), step):
        assert not agrees(data[:at])
        agrees(data[:at] + data[at + 1 :])
        agrees(data[:at] + data[at : at + 2] + data[at:])


MOVED: Final = ["two tensors", "shapes of every kind", "one storage for two", "an optimizer", "two groups"]
OPCODES: Final = [
    b"u", b"u}", b"}", b"q\x03", b"q\x00", b"h\x00", b"h\x01", b"h\x03", b"h\x04", b"0", b"1", b"2", b"(", b")", b"t",
    b"\x85", b"\x86", b"\x87", b"\x94", b"b", b"e", b"a", b"s", b"]", b".", b"K\x01", b"N", b"\x89", b"00N",
]  # fmt: skip


@settings(max_examples=400)
@given(st.data())
def test_no_moved_part_is_read_otherwise(data: st.DataObject) -> None:
    """A part of a pickle put elsewhere, or an opcode put in, gives nothing or what the machine reads."""
    whole = dumped(TAKEN[data.draw(st.sampled_from(MOVED))])
    start, stop, at = sorted(data.draw(st.integers(0, len(whole))) for _ in range(3))
    part = data.draw(st.sampled_from([whole[start:stop], *OPCODES]))
    agrees(whole[:at] + part + whole[at:])
    agrees(whole[:start] + part + whole[at:])
