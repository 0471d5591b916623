"""``sbformat.pth.at_once``: what it takes means what the machine reads; all else is left to that."""

from __future__ import annotations

import pickle
import types
import zipfile
from collections import Counter, OrderedDict
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from beside import CORPUS, DAMAGED, GENERATED, told
from bundled import PPO, SAC
from sbformat import SbformatError
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pth.at_once import read_state_dict
from sbformat.pth.build import build_values
from sbformat.pth.scope import Scope
from sbformat.pth.values import Storage, TensorInfo

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
    return type(value), value


def shared(value: Any) -> list[int]:
    """Which tensors have one storage."""
    seen: dict[int, int] = {}
    tensors = [part for part in value.values() if isinstance(part, TensorInfo)]
    return [seen.setdefault(id(part.storage), len(seen)) for part in tensors]


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
    made = read_state_dict(data, _scope(limits))
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
    "nothing in it": state_dict({"a.w": Tensor(floats("0", 0), (0, 4)), "b.w": Tensor(floats("1", 9), (3, 3), (0, 1))}),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_torch_writes_is_read_at_once(what: str) -> None:
    assert agrees(dumped(TAKEN[what]))


@pytest.mark.parametrize("path", [PPO, SAC])
def test_bundled_policies_are_read_at_once(path: Path) -> None:
    assert agrees(pickle_of(path))


def pickle_of(path: Path, entry: str = "policy.pth") -> bytes:
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
        data = pickle_of(path) if zipfile.is_zipfile(path) and path.name not in DAMAGED else b""
        if data:
            READ["policies read at once" if agrees(data) else "policies left to the machine"] += 1
    assert READ["policies read at once"] > 9 * READ["policies left to the machine"]


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
    "bytes behind it": lambda: dumped(TWO) + b".",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", LEFT)
def test_all_else_is_left_to_the_machine(what: str) -> None:
    assert not agrees(LEFT[what]())


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


def test_no_changed_byte_is_read_otherwise() -> None:
    """Each byte of a small pickle is set to each other value: nothing or what the machine reads comes out."""
    data = dumped(TWO)
    taken = 0
    for at in range(len(data)):
        for value in range(256):
            taken += agrees(data[:at] + bytes((value,)) + data[at + 1 :])
    assert taken > len(data)  # itself, and names, keys and sizes that fit as well


@pytest.mark.parametrize("what", TAKEN)
def test_no_cut_is_read_otherwise(what: str) -> None:
    data = dumped(TAKEN[what])
    step = max(1, len(data) // 300)
    for at in range(0, len(data), step):
        assert not agrees(data[:at])
        agrees(data[:at] + data[at + 1 :])
        agrees(data[:at] + data[at : at + 2] + data[at:])


OPCODES: Final = [
    b"q\x03",
    b"h\x03",
    b"h\x04",
    b"h\x00",
    b"0",
    b"2",
    b"(",
    b")",
    b"t",
    b"\x85",
    b"K\x01",
    b"N",
    b"\x89",
]


@settings(max_examples=400)
@given(st.data())
def test_no_moved_part_is_read_otherwise(data: st.DataObject) -> None:
    """A part of a pickle put elsewhere, or an opcode put in, gives nothing or what the machine reads."""
    whole = dumped(TAKEN[data.draw(st.sampled_from(["two tensors", "shapes of every kind", "one storage for two"]))])
    start, stop, at = sorted(data.draw(st.integers(0, len(whole))) for _ in range(3))
    part = data.draw(st.sampled_from([whole[start:stop], *OPCODES]))
    agrees(whole[:at] + part + whole[at:])
    agrees(whole[:start] + part + whole[at:])
