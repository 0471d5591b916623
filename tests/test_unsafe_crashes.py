"""No blob ends the process: what numpy takes as it comes is checked before the unpickler sees it.

Each blob is unpickled in a process of its own, which a signal, a limit on its memory or one on its time may end.
"""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pytest

from sbformat import pkl
from sbformat.pkl import Call, Dict, FrozenSet, Global, Set
from tests.helpers.build_blobs import array, call, change, dtype, new

pytestmark = pytest.mark.exhaustive

CHILD: Final = Path(__file__).parent / "children" / "unpickle_unsafe.py"
PICKLE: Final = "numpy.random._pickle"


def outcome(data: bytes) -> str:
    """The word that the child prints."""
    path = os.pathsep.join([str(CHILD.parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(CHILD)], input=base64.b64encode(data), capture_output=True, timeout=500, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-500:])
    return done.stdout.decode().strip()


def ints(count: int, code: str = "u4") -> Call:
    return array((count,), bytes(count * int(code[1])), code)


def bit_generator(name: str, module: str, outer: dict[str, Any], **inner: Any) -> Call:
    state = {"bit_generator": name, "state": inner, **outer}
    return change(call(PICKLE, "__bit_generator_ctor", Global(f"numpy.random.{module}", name)), (state, None))  # type: ignore[no-any-return]


def generator(name: str, module: str, outer: dict[str, Any], **inner: Any) -> Call:
    return call(PICKLE, "__generator_ctor", bit_generator(name, module, outer, **inner))


def legacy(pos: object, key: object = None) -> Call:
    made = call("numpy.random", "__RandomState_ctor")
    return change(made, ("MT19937", ints(624) if key is None else key, pos, 0, 0.0))  # type: ignore[no-any-return]


def raw_dtype(code: str, state: tuple[object, ...], copy: object = 1) -> Call:
    return change(call("numpy", "dtype", code, False, copy), state)  # type: ignore[no-any-return]


def of_dtype(kind: Call, shape: tuple[int, ...] = (2,), items: object = bytes(16)) -> Call:
    made = call("numpy.core.multiarray", "_reconstruct", Global("numpy", "ndarray"), (0,), b"b")
    return change(made, (1, shape, kind, False, items))  # type: ignore[no-any-return]


def seeds(pool: object, size: object = 4, entropy: object = 1, checksum: int = 0x3EAA222) -> Call:
    made = call("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence",
                Global("numpy.random.bit_generator", "SeedSequence"), checksum, None)  # fmt: skip
    return change(made, (entropy, 0, pool, size, ()))  # type: ignore[no-any-return]


BUFFERED: Final = {"has_uint32": 0, "uinteger": 0}
PHILOX: Final = {"buffer": ints(4, "u8"), "buffer_pos": 4, **BUFFERED}
POINTERS: Final = (3, "|", None, None, None, -1, -1, 63)
FIELDS: Final = Dict([("a", (dtype("f8"), 0))])

REFUSED: Final[dict[str, Any]] = {
    "an array of objects with fewer items than its shape": array((1000,), [None], "O8", "|"),
    "an array of objects without items": array((4,), [], "O8", "|"),
    "an array of objects as bytes": array((2,), bytes(16), "O8", "|"),
    "an array of objects in another order": of_dtype(raw_dtype("O8", (3, ">", *POINTERS[2:])), (1,), [None]),
    "numbers as pointers": of_dtype(raw_dtype("i8", POINTERS)),
    "numbers as pointers in a field": of_dtype(
        raw_dtype("V8", (3, "|", None, ("a",), Dict([("a", (raw_dtype("i8", POINTERS), 0))]), 8, 1, 27))
    ),
    "a structure with a field outside it": of_dtype(
        raw_dtype("V8", (3, "|", None, ("a",), Dict([("a", (dtype("f8"), 1 << 40))]), 8, 1, 0))
    ),
    "a structure with another size": of_dtype(raw_dtype("V8", (3, "|", None, ("a",), FIELDS, 1 << 30, 1, 0))),
    "a structure with an alignment of 0": of_dtype(raw_dtype("V8", (3, "|", None, ("a",), FIELDS, 8, 0, 128))),
    "a structure with fewer fields than names": of_dtype(
        raw_dtype("V8", (3, "|", None, ("a", "b"), FIELDS, 8, 1, 0))
    ),
    "a structure whose flags ask for Python": of_dtype(raw_dtype("V8", (3, "|", None, ("a",), FIELDS, 8, 1, 127))),
    "a subarray": of_dtype(raw_dtype("V8", (3, "|", (dtype("f8"), (1 << 40,)), None, None, 8, 1, 0))),
    "text of another size": of_dtype(raw_dtype("U2", (3, "<", None, None, None, 1 << 30, 4, 8))),
    "metadata of a dtype": of_dtype(raw_dtype("f8", (4, "<", None, None, None, -1, -1, 0, 5))),
    "a dtype of no copy": of_dtype(raw_dtype("i8", POINTERS, False)),
    "a shape that wraps": of_dtype(dtype("f8"), (1 << 32, 1 << 32), b""),
    "a negative shape": of_dtype(dtype("f8"), (-2, -1)),
    "a shape larger than its bytes": of_dtype(dtype("f8"), (1 << 40,)),
    "a shape of 65 axes": of_dtype(dtype("i1", "|"), (1,) * 65, b"a"),
    "a buffer of another size": call("numpy.core.numeric", "_frombuffer", bytes(8), dtype("f8"), (1 << 40,), "C"),
    "a buffer of nothing": call("numpy.core.numeric", "_frombuffer", b"", dtype("U0"), (4,), "C"),
    "a scalar of a pointer": call("numpy.core.multiarray", "scalar", dtype("O8", "|"), bytes(8)),
    "a short scalar": call("numpy.core.multiarray", "scalar", dtype("f8"), b"ab"),
    "a legacy position": legacy(2**30),
    "a negative legacy position": legacy(-1),
    "a short legacy key": legacy(0, ints(4)),
    "a position of MT19937": generator("MT19937", "_mt19937", {}, key=ints(624), pos=2**30),
    "a negative position of MT19937": bit_generator("MT19937", "_mt19937", {}, key=ints(624), pos=-(2**30)),
    "a short key of MT19937": generator("MT19937", "_mt19937", {}, key=ints(3), pos=0),
    "a position of Philox": generator("Philox", "_philox", {**PHILOX, "buffer_pos": 1 << 30},
                                      counter=ints(4, "u8"), key=ints(2, "u8")),
    "a negative position of Philox": generator("Philox", "_philox", {**PHILOX, "buffer_pos": -(1 << 20)},
                                               counter=ints(4, "u8"), key=ints(2, "u8")),
    "a short counter of Philox": generator("Philox", "_philox", PHILOX, counter=ints(1, "u8"), key=ints(2, "u8")),
    "a short state of SFC64": generator("SFC64", "_sfc64", BUFFERED, state=ints(1, "u8")),
    "text in the state of PCG64": generator("PCG64", "_pcg64", BUFFERED, state="a", inc=1),
    "a state of another generator": generator("PCG64", "_pcg64", {"bit_generator": "MT19937"}, key=ints(624), pos=0),
    "a RandomState of a position": change(call(PICKLE, "__randomstate_ctor", "MT19937"), {
        "bit_generator": "MT19937", "state": {"key": ints(624), "pos": 10**9}, "has_gauss": 0, "gauss": 0.0,
    }),
    "a generator without a state": call(PICKLE, "__generator_ctor", "PCG64"),
    "a short pool": seeds(ints(1)),
    "a pool without a number": seeds(ints(0), 0),
    "a pool of another size": seeds(ints(4), 1 << 30),
    "a pool of floats": seeds(array((4,), bytes(16), "f4")),
    "a pool that is none": seeds(None),
    "entropy of text": seeds(ints(4), 4, "abc"),
    "a checksum of other fields": seeds(ints(4), checksum=1),
    "a Box of a pointer": new("gymnasium.spaces.box", "Box", {"low": of_dtype(raw_dtype("i8", POINTERS))}),
    "a list as a key": Dict([([], 1)]),
    "a dict as a member": Set([Dict()]),
    "an array as a key": Dict([(array((1,), b"abcd"), 1)]),
    "a list in a frozenset": FrozenSet([[1]]),
    "a list in a called set": call("builtins", "set", [[1]]),
    "a list as a key of an OrderedDict": call("collections", "OrderedDict", [[[], 1]]),
    "a list as a key set later": change(call("collections", "OrderedDict"), [([], 1)], "SETITEMS"),
    "a deep tuple as a key": Dict([(reduce(lambda inner, _: (inner,), range(250), 1), 1)]),
    "numbers that collide": Dict([((number << 61) - number, None) for number in range(1, 5000)]),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_end_the_process_is_refused(what: str) -> None:
    assert outcome(pkl.dumps(REFUSED[what])) in {"NotAllowedError", "LimitError"}


STREAMS: Final[dict[str, bytes]] = {
    "an exponential key": b"\x80\x04}" + b")" + b"2\x86" * 60 + b"Ns.",
    "an exponential member": b"\x80\x04\x8f(" + b")" + b"2\x86" * 60 + b"\x90.",
    "an exponential member of a frozenset": b"\x80\x04(" + b")" + b"2\x86" * 60 + b"\x91.",
    "an exponential key in a dict that is dropped": b"\x80\x04}" + b")" + b"2\x86" * 60 + b"Ns0N.",
    "an exponential key in a dict below STOP": b"\x80\x04}" + b")" + b"2\x86" * 60 + b"NsN.",
    "an exponential key in a dict under a mark": b"\x80\x04(}" + b")" + b"2\x86" * 60 + b"Ns1N.",
}


@pytest.mark.parametrize("what", STREAMS)
def test_keys_that_are_hashed_for_years_are_refused(what: str) -> None:
    assert outcome(STREAMS[what]) == "NotAllowedError"


@pytest.mark.parametrize("opcodes", [b"]" * 100_000 + b"a" * 99_999, b"N" + b"\x85" * 100_000, b")" + b"\x85" * 15_000])
def test_what_is_nested_too_deep_is_refused(opcodes: bytes) -> None:
    assert outcome(b"\x80\x04" + opcodes + b".") == "LimitError"


def test_a_dtype_that_is_changed_after_its_use_is_refused() -> None:
    """BUILD makes it big-endian, or an array of pointers, once an array of it is there."""
    kind = b"cnumpy\ndtype\n(\x8c\x02i8\x89\x88tR\x94"  # memo 0
    made = b"cnumpy.core.numeric\n_frombuffer\n(C\x08abcdefghh\x00K\x01\x85\x8c\x01CtR"
    state = b"h\x00(K\x03\x8c\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    assert outcome(b"\x80\x04" + kind + made + b"\x86" + state + b"\x86.") in ("NotAllowedError", "PickleError")
    assert outcome(b"\x80\x04" + kind + state + made + b"\x87.") in ("NotAllowedError", "PickleError")


def test_what_numpy_writes_is_loaded() -> None:
    import numpy as np

    fields = np.zeros(2, np.dtype([("a", "f8"), ("b", "i2")], align=True))
    objects = np.array([[1, "a", None], [2.5, b"c", (1, 2)]], dtype=object)
    for value in (np.arange(3), fields, objects, np.random.default_rng(1), np.random.RandomState(1), np.float32(1)):
        for protocol in (4, 5):
            assert outcome(pickle.dumps(value, protocol)) == "loaded"
