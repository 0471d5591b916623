"""What torch writes, beside the standard library's unpickler with stand-ins for torch: the same, or refused.

CPython's unpickler is the reference for what the opcodes mean. It is given the few names that a state dict holds, and
nothing else. Whatever damage is done to a pickle, it never means another value to us than to CPython.
"""

from __future__ import annotations

import io
import pickle
import types
import zipfile
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbformat import SbformatError
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.pkl.decode import decode_pickle
from sbformat.pth.context import DecodeContext
from sbformat.pth.decode import build_values
from sbformat.pth.values import Storage, TensorInfo
from tests.helpers.bundled import PPO
from tests.helpers.many_cases import check_each
from tests.helpers.sampling import more_examples, with_exhaustive
from tests.helpers.shared_files import CORPUS, DAMAGED, GENERATED, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

# -- a pickler that writes what torch's writes --------------------------------------------------------


def _rebuild_tensor_v2() -> None:
    """The name of torch's function, to be pickled by reference."""


_rebuild_tensor_v2.__module__ = "torch._utils"


def _class(name: str) -> type:
    return type(name, (), {"__module__": "torch"})


CLASSES: Final = {name: _class(name) for name in ("FloatStorage", "LongStorage", "DoubleStorage", "BoolStorage")}


class Ref(NamedTuple):
    """The persistent id of a storage."""

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
    file = io.BytesIO()
    Pickler(file, 2).dump(value)
    return file.getvalue()


def state_dict(tensors: dict[str, object], modules: list[str] | None = None) -> OrderedDict[str, object]:
    """Return what ``Module.state_dict`` returns."""
    made = OrderedDict(tensors)
    names = ["", *dict.fromkeys(name.rpartition(".")[0] for name in tensors)] if modules is None else modules
    made._metadata = OrderedDict((name, {"version": 1}) for name in names)  # type: ignore[attr-defined]
    return made


def optimizer(*states: dict[str, object], **more: object) -> dict[str, object]:
    """Return what ``Optimizer.state_dict`` returns."""
    group = {"lr": 3e-4, "betas": (0.9, 0.999), "eps": 1e-5, "amsgrad": False, "foreach": None, **more}
    return {"state": dict(enumerate(states)), "param_groups": [{**group, "params": list(range(len(states)))}]}


def adam(first: int, shape: tuple[int, ...], step: object = None) -> dict[str, object]:
    """Return Adam's state of one parameter; older releases count steps in numbers."""
    numel = 1
    for size in shape:
        numel *= size
    tensors = [Tensor(floats(str(first + at), numel), shape) for at in range(2)]
    return {"step": step or Tensor(floats(str(first + 2), 1), ()), "exp_avg": tensors[0], "exp_avg_sq": tensors[1]}


def floats(key: str, numel: int, location: str = "cpu", storage: str = "FloatStorage") -> Ref:
    return Ref(("storage", CLASSES[storage], key, location, numel))


# -- both readers -------------------------------------------------------------------------------------


def with_sbformat(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return the tree of a pickle, or None when it is refused."""

    def open_storage(key: str, dtype: str, numel: int, location: str, _: object) -> Storage:
        return Storage(key, dtype, numel, location, "little", memoryview, key)

    scope = DecodeContext(Budget(limits), open_storage, id_items=5)
    try:
        found = decode_pickle(data, scope.budget, encoding="utf-8")
        return None if found.flags else build_values(found, scope, "error")
    except SbformatError:
        return None


class Reference(pickle.Unpickler):
    """The standard library's unpickler, which finds stand-ins for the names of a state dict and no other name."""

    DTYPES: ClassVar = {
        "FloatStorage": "float32", "LongStorage": "int64", "DoubleStorage": "float64", "BoolStorage": "bool",
        "ByteStorage": "uint8", "IntStorage": "int32", "HalfStorage": "float16",
    }  # fmt: skip

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.storages: dict[object, Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, grad, _: TensorInfo(
                storage.dtype, shape, strides, offset, storage, grad
            )
        if module == "torch" and name in self.DTYPES:
            return self.DTYPES[name]
        raise pickle.UnpicklingError(name)

    def persistent_load(self, pid: Any) -> Storage:
        _, dtype, key, location, numel = pid
        storage = Storage(key, dtype, numel, location, "little", memoryview, key)
        return self.storages.setdefault(key, storage)


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
    """Return all tensors, in their order."""
    if isinstance(value, TensorInfo):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for part in parts for tensor in tensors_of(part)]


def shared(value: Any) -> list[int]:
    """Say which tensors share a storage, shape or strides: an encoder recognizes shared parts by identity."""
    seen: dict[int, int] = {}
    parts = [part for info in tensors_of(value) for part in (info.storage, info.shape, info.strides) if part != ()]
    return [seen.setdefault(id(part), len(seen)) for part in parts]


def is_read(data: bytes, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Assert that what is read is what the standard library reads; return whether it was read at all."""
    made = with_sbformat(data, limits)
    if made is None:
        return False
    reference = Reference(data).load()
    assert described(made) == described(reference)
    assert shared(made) == shared(reference)
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
LOCATION: Final = "cuda:0"
WRITTEN: Final[dict[str, object]] = {
    "two tensors": TWO,
    "shapes of every kind": state_dict(LAYERS),
    "more memo entries than BINPUT reaches": state_dict(MANY),
    "one storage for two": state_dict(
        {"aa.x": Tensor(SHARED, (2,)), "aa.y": Tensor(SHARED, (5,), (2,), offset=3), "zz": Tensor(floats("1", 1), ())}
    ),
    "another location, in full each time": state_dict(
        {f"l{at}.w": Tensor(floats(str(at), 3, LOCATION.swapcase().lower()), (3,)) for at in range(3)}
    ),
    "another location, by reference": state_dict(
        {f"l{at}.w": Tensor(floats(str(at), 3, LOCATION), (3,)) for at in range(3)}
    ),
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
    "an empty tensor": state_dict(
        {"a.w": Tensor(floats("0", 0), (0, 4)), "b.w": Tensor(floats("1", 9), (3, 3), (0, 1))}
    ),
    "no metadata": OrderedDict(TWO),
    "a number among them": state_dict({**LAYERS, "n": 3}),
    "a name beyond ASCII": state_dict({"\u00e9.w": LAYERS["r"], "b": LAYERS["r"]}),
    "a long name": state_dict({"a" * 300: LAYERS["r"], "b.c": LAYERS["q.qr.0.bias"]}),
    "one tensor under two names": state_dict({"a.w": LAYERS["r"], "b.w": LAYERS["r"]}),
    "more than one batch": state_dict({f"{at}.w": Tensor(floats("0", 1), ()) for at in range(1001)}),
    "an optimizer of named parameters": {"state": {"0": adam(0, (2,)), "x": adam(3, (2,))}, "param_groups": []},
    "an optimizer without state": optimizer(),
    "a tensor among the groups": optimizer(adam(0, (2,)), lr=Tensor(floats("9", 1), ())),
    "a dict among the groups": optimizer(adam(0, (2,)), lr=OrderedDict()),
    "a text that occurred before": optimizer(adam(0, (2,)), lr="exp_avg"),
}
REFUSED: Final[dict[str, bytes]] = {
    "an unknown class": dumped(TWO).replace(b"FloatStorage", b"FloatStorags"),
    "a tensor past its storage": dumped(state_dict({"a.w": Tensor(floats("0", 3), (4,)), "b": LAYERS["r"]})),
    "two sizes of one storage": dumped(
        state_dict({"a.w": Tensor(floats("0", 3), (3,)), "b.w": Tensor(floats("0", 4), (3,))})
    ),
    "a gradient of integers": dumped(
        state_dict({"a.w": Tensor(floats("0", 3, storage="LongStorage"), (3,), flag=True), "b.w": LAYERS["r"]})
    ),
    "bytes after an optimizer": dumped(ADAM) + b".",
    "bytes after a module": dumped(TWO) + b".",
    "nothing": b"",
}


@check_each("what", WRITTEN)
def test_what_torch_writes_is_read(what: str) -> None:
    assert is_read(dumped(WRITTEN[what]))


@check_each("what", REFUSED)
def test_what_torch_never_writes_is_refused(what: str) -> None:
    assert not is_read(REFUSED[what])


@pytest.mark.parametrize("entry", ["policy.pth", "policy.optimizer.pth"])
def test_bundled_policies_and_optimizers_are_read(entry: str) -> None:
    assert is_read(pickle_of(PPO, entry))


def pickle_of(path: Path, entry: str) -> bytes:
    """Return what a ``.pth`` of an archive pickles, by the standard library; nothing when it is not a zip."""
    with zipfile.ZipFile(path) as archive:
        data = archive.read(entry) if entry in archive.namelist() else b""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return b""
    with zipfile.ZipFile(io.BytesIO(data)) as records:
        (name,) = (name for name in records.namelist() if name.endswith("/data.pkl"))
        return records.read(name)


READ: Final[Counter[str]] = Counter()
_summary = summarize_counts(READ, "test_pth_reference.py:")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="there is no ../shared beside the project")
def test_real_policies_and_optimizers_are_read() -> None:
    for path in sorted([*CORPUS.rglob("*.zip"), *GENERATED.rglob("*.zip")]):
        for entry in ("policy.pth", "policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth"):
            data = pickle_of(path, entry) if zipfile.is_zipfile(path) and path.name not in DAMAGED else b""
            if data and b"cnumpy" in data:
                READ["with names that the reference does not have"] += 1
            elif data:
                assert is_read(data), path
                READ["policies" if entry == "policy.pth" else "optimizers"] += 1
    assert min(READ["policies"], READ["optimizers"]) > 100


# -- damage -------------------------------------------------------------------------------------------


def test_every_limit_is_enforced() -> None:
    data = dumped(TWO)
    tight = {
        "pickle_bytes": len(data) - 1, "pickle_opcodes": 20, "pickle_nodes": 5, "pickle_memo": 5, "pickle_stack": 5,
        "pickle_marks": 2, "value_depth": 1, "tensor_rank": 1, "tensor_name_bytes": 2, "tensors": 1,
    }  # fmt: skip
    for name, allowed in tight.items():
        assert not is_read(data, Limits(**{name: allowed})), name
    expanded = dumped(state_dict({"a.w": Tensor(floats("0", 1), (100, 9), (0, 0)), "b.w": LAYERS["q.qr.0.bias"]}))
    assert is_read(expanded)
    assert not is_read(expanded, Limits(expanded_items=899))


HEAD: Final = dumped(ADAM).partition(b"param_groups")[0] + b"param_groups"
PUT: Final = dumped(ADAM)[len(HEAD) :][:2]


def test_memoize_takes_the_next_entry() -> None:
    """MEMOIZE after BINPUTs takes the next entry."""
    count = PUT[1] + 1
    assert is_read(HEAD + PUT + b"](X\1\0\0\0a\x94X\1\0\0\0b\x94h%ch%ceu." % (count, count + 1))


CHANGES: Final = [*b"\x00\x01\x29\x2e\x30\x32\x5d\x62\x68\x71\x73\x75\x85\x86\x94\xff"]


@pytest.mark.parametrize("step", with_exhaustive([7], [1]))
@pytest.mark.parametrize("value", [TWO, optimizer(adam(0, (2, 3)), adam(3, (2,), 7))], ids=["module", "optimizer"])
def test_no_changed_byte_is_read_as_something_else(value: object, step: int) -> None:
    """Each byte of a small pickle, or one in so many, is flipped, and set to opcodes and small numbers."""
    data = dumped(value)
    taken = 0
    for at in range(0, len(data), step):
        for other in {*CHANGES, data[at] ^ 1, data[at] ^ 0x80}:
            taken += is_read(data[:at] + bytes((other,)) + data[at + 1 :])
    assert taken > 100 // step  # names, keys and sizes that are valid as well


@pytest.mark.parametrize("cuts", with_exhaustive([7], [100]))
@pytest.mark.parametrize("what", WRITTEN)
def test_no_cut_is_read_as_something_else(what: str, cuts: int) -> None:
    data = dumped(WRITTEN[what])
    step = max(1, len(data) // cuts)
    for at in range(0, len(data), step):
        assert not is_read(data[:at])
        is_read(data[:at] + data[at + 1 :])
        is_read(data[:at] + data[at : at + 2] + data[at:])


MOVED: Final = ["two tensors", "shapes of every kind", "one storage for two", "an optimizer", "two groups"]
OPCODES: Final = [
    b"u", b"u}", b"}", b"q\x03", b"q\x00", b"h\x00", b"h\x01", b"h\x03", b"h\x04", b"0", b"1", b"2", b"(", b")", b"t",
    b"\x85", b"\x86", b"\x87", b"\x94", b"b", b"e", b"a", b"s", b"]", b".", b"K\x01", b"N", b"\x89", b"00N",
]  # fmt: skip


@more_examples(400)
@given(st.data())
def test_no_moved_part_is_read_as_something_else(data: st.DataObject) -> None:
    """A part of a pickle is moved, or an opcode inserted."""
    whole = dumped(WRITTEN[data.draw(st.sampled_from(MOVED))])
    start, stop, at = sorted(data.draw(st.integers(0, len(whole))) for _ in range(3))
    part = data.draw(st.sampled_from([whole[start:stop], *OPCODES]))
    is_read(whole[:at] + part + whole[at:])
    is_read(whole[:start] + part + whole[at:])
