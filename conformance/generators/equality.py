"""Two archives that are compared (FORMAT.md 9)."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_pth import (
    Apply,
    Change,
    Name,
    Raw,
    Run,
    legacy_stream,
    ordered,
    storage,
    tensor,
)
from conformance.generators.build_torch_zips import DATA, EIGHT, in_folder, pth, records, reversed_groups
from conformance.generators.build_zips import DEFLATED, Member, build_zip, changed, sb3_archive
from conformance.generators.constructors import parameter, with_state
from conformance.generators.numpy_values import array, dtype_of, scalar
from conformance.generators.small_values import ENCODE
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

NAN: Final = float("nan")
SIGNALING: Final = Raw(b"G\x7f\xf0\0\0\0\0\0\1")
"""NaN with other bits than those of Python's."""
VECTOR: Final = tensor(storage(8), (8,))
MATRIX: Final = tensor(storage(8), (2, 4))


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from entries()
    yield from data()
    yield from serialized()
    yield from containers()
    yield from numbers()
    yield from tensors()
    yield from layouts()
    yield from numpy_values()
    yield from attributes()
    yield from by_bytes()


def each(rule: Rule, start: str, pairs: dict[str, tuple[bytes, bytes, bool]], *features: str) -> Iterator[Vector]:
    """A vector for each name: two files, and whether they are equal."""
    for name, (one, other, is_equal) in pairs.items():
        yield rule.compares(f"equal-{start}-{name}", one, other, is_equal, features=features)


# -- entries ------------------------------------------------------------------------------------------


def entries() -> Iterator[Vector]:
    rule = Rule("9", "Two archives are equal if they have the same set of entry names and equal entries.")
    whole = sb3_archive()
    note = sb3_archive(entries={"note.txt": b"a"})
    yield from each(rule, "entry", {
        "all": (whole, sb3_archive(align=1), True),
        "added": (whole, note, False),
        "removed": (note, whole, False),
        "renamed": (note, sb3_archive(entries={"nota.txt": b"a"}), False),
    })  # fmt: skip
    rule = Rule("9", "Forms (1.1), headers, dates, compression and the order of entries are not compared.")
    parts = [Member(b"data", b"{}"), Member(b"a.txt", b"a" * 40)]
    plain = build_zip(*parts)
    dated = Member(b"data", b"{}", local={"date": 0x5A21}, central={"date": 0x5A21, "attributes": 0})
    yield from each(rule, "zip", {
        "date": (plain, build_zip(dated, parts[1]), True),
        "compression": (plain, build_zip(parts[0], Member(b"a.txt", b"a" * 40, DEFLATED)), True),
        "order": (plain, build_zip(*reversed(parts)), True),
        "form": (pth(VECTOR, DATA), build_zip(Member(b"policy.pth", pth(VECTOR, DATA))), True),
        "form-of-data": (b'{"a": 1}', build_zip(Member(b"data", b'{"a":1}')), True),
    })  # fmt: skip
    rule = Rule("9", "Two archives are equal if they have the same set of entry names and equal entries.")
    cut = plain[:-1]
    yield rule.compares("equal-cut-second", plain, cut, "container failure")
    yield rule.compares("equal-cut-first", cut, plain, "container failure")


# -- data ---------------------------------------------------------------------------------------------


def data() -> Iterator[Vector]:
    rule = Rule("9", "`data`: by value, with the same order of keys at every level.")
    yield from each(rule, "data", {
        "spaces": (b'{"a": [1, 2]}', b'{"a":[1,2]}\n', True),
        "escapes": (b'{"a": "\\u00e9"}', '{"a": "é"}'.encode(), True),
        "exponent": (b'{"a": 10.0}', b'{"a": 1e1}', True),
        "text": (b'{"a": "b"}', b'{"a": "c"}', False),
        "order": (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}', False),
        "inner-order": (b'{"a": {"b": 1, "c": 1}}', b'{"a": {"c": 1, "b": 1}}', False),
        "longer": (b'{"a": [1]}', b'{"a": [1, 1]}', False),
        "null": (b'{"a": null}', b'{"a": false}', False),
    })  # fmt: skip
    rule = Rule("9", "Integers are not equal to floats.")
    yield from each(rule, "data", {
        "integer-and-float": (b'{"a": 1}', b'{"a": 1.0}', False),
        "integer-and-bool": (b'{"a": 1}', b'{"a": true}', False),
        "long-integers": (b'{"a": 9007199254740992}', b'{"a": 9007199254740993}', False),
    })  # fmt: skip
    rule = Rule("9", "NaN equals NaN, 0.0 equals -0.0.")
    yield from each(rule, "data", {
        "nan": (b'{"a": [NaN]}', b'{"a":[NaN]}', True),
        "nan-and-infinity": (b'{"a": NaN}', b'{"a": Infinity}', False),
        "zeros": (b'{"a": [0.0, -0.0]}', b'{"a": [-0.0, 0.0]}', True),
        "integer-zeros": (b'{"a": 0}', b'{"a": -0}', True),
    })  # fmt: skip


def blob(pickle: bytes = b"\x80\x04K\x07.", **more: Any) -> bytes:
    """A ``data`` with one serialized value; ``more`` are its other keys."""
    text = base64.b64encode(pickle).decode()
    return json.dumps({"a": {":type:": "<class 'int'>", ":serialized:": text, **more}}).encode()


def serialized() -> Iterator[Vector]:
    plain = blob()
    rule = Rule("9", "Serialized values: equal type, pickle bytes and hints.")
    hints = blob(x=1, y=0.0)
    yield from each(rule, "serialized", {
        "type": (plain, changed(plain, b"'int'", b"'str'"), False),
        "pickle": (plain, blob(b"\x80\x04K\x08."), False),
        "pickle-of-the-same-value": (plain, blob(b"\x80\x03K\x07."), False),
        "hint": (hints, blob(x=2, y=0.0), False),
        "hint-zero": (hints, blob(x=1, y=-0.0), True),
        "hint-missing": (hints, blob(x=1), False),
        "hint-order": (hints, blob(y=0.0, x=1), False),
        "plain": (plain, b'{"a": "gARLBy4="}', False),
    })  # fmt: skip
    rule = Rule("9", "The form of the base64 text is not compared")
    yield from each(rule, "serialized", {
        "base64-line": (plain, changed(plain, b"gARL", b"gARL\\n"), True),
    })  # fmt: skip
    rule = Rule("9", "nor where the two markers are among the hints.")
    moved = json.dumps({"a": dict(reversed(json.loads(blob(x=1))["a"].items()))}).encode()
    yield from each(rule, "serialized", {"markers": (blob(x=1), moved, True)})


# -- state dicts --------------------------------------------------------------------------------------


def both(one: object, other: object, is_equal: bool) -> tuple[bytes, bytes, bool]:  # noqa: FBT001 -- a cell of a table
    """Two values of a lone state dict."""
    return pth(one, DATA), pth(other, DATA), is_equal


def states(one: object, other: object, is_equal: bool) -> tuple[bytes, bytes, bool]:  # noqa: FBT001
    """Two values of an attribute."""
    return both(with_state({"x": one}), with_state({"x": other}), is_equal)


def containers() -> Iterator[Vector]:
    rule = Rule("9", "containers of the same kind with the same keys in the same order, including `_metadata`.")
    named = {"a": 1, "b": 2}
    turned = {"b": 2, "a": 1}
    yield from each(rule, "containers", {
        "dict-order": both(named, turned, False),
        "ordered-dict-order": both(ordered(named), ordered(turned), False),
        "dict-and-ordered-dict": both(named, ordered(named), False),
        "list-and-tuple": both([1], (1,), False),
        "metadata": both(ordered(named, {"": {"version": 1}}), ordered(named, {"": {"version": 2}}), False),
        "metadata-missing": both(ordered(named, {}), ordered(named), False),
        "key-type": both({1: "a"}, {True: "a"}, False),
        "value": both(named, {"a": 1, "b": 3}, False),
        "protocol": (pth(named), pth(named, protocol=3), True),
    })  # fmt: skip
    rule = Rule("9", "The order of the members of a set is not compared.")
    yield from each(rule, "set", {
        "order": both(Raw(b"\x8f(K\1K\2\x90"), Raw(b"\x8f(K\2K\1\x90"), True),
        "member": both(Raw(b"\x8f(K\1K\2\x90"), Raw(b"\x8f(K\1K\3\x90"), False),
        "by-a-call": both(Raw(b"\x8f(K\1K\2\x90"), Apply(Name("builtins", "set"), ([2, 1],)), True),
        "frozenset-order": both(Raw(b"(K\1K\2\x91"), Raw(b"(K\2K\1\x91"), True),
        "and-frozenset": both(Raw(b"\x8f(K\1\x90"), Raw(b"(K\1\x91"), False),
    })  # fmt: skip


def numbers() -> Iterator[Vector]:
    rule = Rule("9", "Numbers are compared by type and bits (NaN equals the same NaN, 0.0 does not equal -0.0).")
    yield from each(rule, "numbers", {
        "nan": both([NAN, 1], [NAN, Raw(b"M\1\0")], True),
        "other-nan": both(NAN, SIGNALING, False),
        "zeros": both(0.0, -0.0, False),
        "integer-and-float": both(1, 1.0, False),
        "integer-and-bool": both(1, True, False),
        "key-zeros": both({0.0: 1}, {-0.0: 1}, False),
    })  # fmt: skip


def tensors() -> Iterator[Vector]:
    rule = Rule("9", "Tensors are compared by dtype, shape, requires_grad, whether they are a Parameter, attributes")
    integers = tensor(storage(8, "0", "IntStorage"), (8,))
    yield from each(rule, "tensor", {
        "dtype": both(VECTOR, integers, False),
        "shape": both(VECTOR, MATRIX, False),
        "requires-grad": both(VECTOR, tensor(storage(8), (8,), None, 0, True), False),
        "parameter": both(tensor(storage(8), (8,), None, 0, True), parameter(VECTOR), False),
        "item": (pth(VECTOR, DATA), pth(VECTOR, {"0": EIGHT[:-1] + b"\x41"}), False),
        "zeros": (pth(VECTOR, {"0": bytes(32)}), pth(VECTOR, {"0": bytes(31) + b"\x80"}), False),
        "nan": (pth(VECTOR, {"0": b"\xff" * 32}), pth(VECTOR, {"0": b"\xff" * 32}, version=b"4\n"), True),
        "other-nan": (pth(VECTOR, {"0": b"\xff" * 32}), pth(VECTOR, {"0": b"\xff\xff\xff\x7f" * 8}), False),
    })  # fmt: skip


def layouts() -> Iterator[Vector]:
    rule = Rule("9", "the bytes of their items in C order and one byte order, after conj and neg are applied.")
    swapped = pth(VECTOR, {"0": reversed_groups(EIGHT, 4)}, byte_order=b"big")
    yield from each(rule, "tensor", {"byte-order": (pth(VECTOR, DATA), swapped, True)}, "big-endian")
    negative = {"0": struct.pack("<8f", *(-float(item) for item in range(8)))}
    negated = tensor(storage(8), (8,), None, 0, False, {"neg": True})
    pairs = tensor(storage(4, "0", "ComplexFloatStorage"), (4,))
    conjugated = tensor(storage(4, "0", "ComplexFloatStorage"), (4,), None, 0, False, {"conj": True})
    opposite = {"0": struct.pack("<8f", *(item * (-1) ** item for item in range(8)))}
    yield from each(rule, "tensor", {
        "neg": (pth(negated, DATA), pth(VECTOR, negative), True),
        "neg-not-applied": (pth(negated, DATA), pth(VECTOR, DATA), False),
        "conj": (pth(conjugated, DATA), pth(pairs, opposite), True),
    })  # fmt: skip
    rule = Rule("9", "Strides, offsets, locations, storage keys and shared memory are not compared.")
    columns = {"0": struct.pack("<8f", 0, 4, 1, 5, 2, 6, 3, 7)}
    shared = [VECTOR, tensor(storage(8), (8,))]
    apart = [VECTOR, tensor(storage(8, "1"), (8,))]
    yield from each(rule, "tensor", {
        "strides": (pth(MATRIX, DATA), pth(tensor(storage(8), (2, 4), (1, 2)), columns), True),
        "offset": (pth(tensor(storage(8), (4,), None, 4), DATA), pth(tensor(storage(4), (4,)), {"0": EIGHT[16:]}), True),
        "location": both(VECTOR, tensor(storage(8, "0", "FloatStorage", "cuda:0"), (8,)), True),
        "key": (pth(VECTOR, DATA), pth(tensor(storage(8, "x"), (8,)), {"x": EIGHT}), True),
        "shared": (pth(shared, DATA), pth(apart, {"0": EIGHT, "1": EIGHT}), True),
    })  # fmt: skip
    stream = legacy_stream(tensor(storage(8, "0", "FloatStorage", "cpu", None), (8,)), [Run("0", 8, EIGHT)])
    yield from each(rule, "tensor", {"legacy": (pth(VECTOR, DATA), stream, True)}, "legacy")


def numpy_values() -> Iterator[Vector]:
    rule = Rule("9", "numpy arrays and scalars are compared by dtype, shape and items in the same way")
    two, turned = struct.pack("<2d", 1.0, -2.5), struct.pack(">2d", 1.0, -2.5)
    four, columns = struct.pack("<4d", 1, 2, 3, 4), struct.pack("<4d", 1, 3, 2, 4)
    little, big = dtype_of("f8"), dtype_of("f8", ">")
    yield from each(rule, "numpy", {
        "byte-order": both(array((2,), two), array((2,), turned, dtype=big), True),
        "fortran": both(array((2, 2), four), array((2, 2), columns, order=True), True),
        "shape": both(array((2, 2), four), array((4,), four), False),
        "items": both(array((2, 2), four), array((2, 2), columns), False),
        "dtype": both(array((2,), two), array((2,), two, dtype=dtype_of("i8")), False),
        "scalar-byte-order": both(scalar(little, two[:8]), scalar(big, turned[:8]), True),
        "scalar-and-array": both(scalar(little, two[:8]), array((), two[:8]), False),
    }, "numpy-values")  # fmt: skip
    rule = Rule("9", "storages by themselves by dtype, size and items.")
    swapped = pth(storage(8), {"0": reversed_groups(EIGHT, 4)}, byte_order=b"big")
    yield from each(rule, "storage", {"byte-order": (pth(storage(8), DATA), swapped, True)}, "big-endian")
    yield from each(rule, "storage", {
        "dtype": both(storage(8), storage(8, "0", "IntStorage"), False),
        "items": (pth(storage(8), DATA), pth(storage(8), {"0": EIGHT[::-1]}), False),
    })  # fmt: skip


# -- attributes ---------------------------------------------------------------------------------------


def attributes() -> Iterator[Vector]:
    rule = Rule("9", "No attributes equal an empty dict of them.", "attributes")
    yield from each(rule, "attributes", {"empty": both(parameter(VECTOR), with_state({}), True)})
    call = Name("my", "call")

    rule = Rule("9", "lists, tuples, dicts and sets by their items in order", "attributes")
    yield from each(rule, "attributes", {
        "name": both(with_state({"x": 1}), with_state({"y": 1}), False),
        "order": both(with_state({"x": 1, "y": 2}), with_state({"y": 2, "x": 1}), False),
        "number": states([0.0], [-0.0], False),
        "list": states([1, 2], [1, 2, 3], False),
        "list-and-tuple": states([1], (1,), False),
        "dict-and-list": states({"a": 1}, ["a", 1], False),
        "dict-order": states({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        "shared": states([(1, 2), (1, 2)], [(pair := (1, 2)), pair], True),
        "set-order": states(Raw(b"\x8f(K\1K\2\x90"), Raw(b"\x8f(K\2K\1\x90"), False),
    })  # fmt: skip
    rule = Rule("9", "names by module and name, calls by opcode, callable, arguments and changes", "attributes")
    yield from each(rule, "attributes", {
        "name-of-another": states(call, Name("my", "other"), False),
        "module": states(call, Name("mine", "call"), False),
        "call": states(Apply(call, (1,)), Apply(Name("my", "call"), (1,)), True),
        "call-argument": states(Apply(call, (1,)), Apply(call, (2,)), False),
        "call-opcode": states(Apply(call, (1,)), Apply(call, (1,), how="NEWOBJ"), False),
        "call-keywords": states(
            Raw(b"cmy\ncall\n)}X\1\0\0\0aK\1s\x92"), Raw(b"cmy\ncall\n)}X\1\0\0\0aK\2s\x92"), False
        ),
        "call-change": states(Apply(call, (), Change("BUILD", 1)), Apply(call, ()), False),
        "call-changes": states(
            Apply(call, (), Change("APPENDS", [1, 2])), Apply(call, (), Change("APPENDS", [1]), Change("APPENDS", [2])), False
        ),
        "call-items": states(Apply(call, (), Change("APPENDS", [1, 2])), Apply(call, (), Change("SETITEMS", [1, 2])), False),
    })  # fmt: skip
    rule = Rule("9", "persistent ids by the storages that they identify.", "attributes")
    yield from each(rule, "attributes", {
        "storage": (
            pth(with_state({"x": storage(8, "k")}), {**DATA, "k": EIGHT}),
            pth(with_state({"x": storage(8, "m", "FloatStorage", "cuda:0")}), {**DATA, "m": EIGHT}),
            True,
        ),
        "storage-items": (
            pth(with_state({"x": storage(8, "k")}), {**DATA, "k": EIGHT}),
            pth(with_state({"x": storage(8, "k")}), {**DATA, "k": EIGHT[::-1]}),
            False,
        ),
    })  # fmt: skip
    rule = Rule("9", "Within them, a value is equal to the call as which protocol 2 encodes it (12.3).", "attributes")
    encoded = Apply(ENCODE, ("a\xff", "latin1"))
    yield from each(rule, "attributes", {
        "bytes": states(b"a\xff", encoded, True),
        "other-bytes": states(b"a\xfe", encoded, False),
        "bytearray": states(Raw(b"\x96" + struct.pack("<Q", 1) + b"a"), Apply(Name("builtins", "bytearray"), ("a", "latin-1")), True),
        "set": states(Raw(b"\x8f(K\1\x90"), Apply(Name("builtins", "set"), ([1],)), True),
        "frozenset": states(Raw(b"(K\1\x91"), Apply(Name("builtins", "frozenset"), ([1],)), True),
        "no-bytes": states(b"", Apply(Name("builtins", "bytes"), ()), True),
        "no-bytearray": states(bytearray(), Apply(Name("builtins", "bytearray"), ()), True),
        "set-and-frozenset": states(Raw(b"\x8f(K\1\x90"), Apply(Name("builtins", "frozenset"), ([1],)), False),
    })  # fmt: skip


# -- bytes --------------------------------------------------------------------------------------------


def by_bytes() -> Iterator[Vector]:
    rule = Rule("9", "All other entries, and those that cannot be decoded, by their bytes.")

    def others(name: bytes, one: bytes, other: bytes) -> tuple[bytes, bytes, bool]:
        """Archives with an entry beside data, which is equal if the bytes are."""
        empty = Member(b"data", b"{}")
        return build_zip(empty, Member(name, one)), build_zip(Member(name, other), empty), one == other

    broken = in_folder(records(b"\x80\x02garbage", DATA))
    unknown = pth(Apply(Name("my", "call"), ()))
    yield from each(rule, "bytes", {
        "text": others(b"note.txt", b"a", b"b"),
        "version": others(b"_stable_baselines3_version", b"2.0.0", b"2.0.0\n"),
        "system-info": others(b"system_info.txt", b"- OS: a\n", b"- OS:  a\n"),
        "broken-state-dict": others(b"policy.pth", broken, broken),
        "broken-state-dicts": others(b"policy.pth", broken, in_folder(records(b"\x80\x02nothing", DATA))),
        "state-dict-of-a-folder": others(b"models/policy.pth", pth(VECTOR, DATA), pth(VECTOR, DATA, version=b"4\n")),
        "state-dict-without-a-name": others(b".pth", pth(VECTOR, DATA), pth(VECTOR, DATA, version=b"4\n")),
        "unknown-call": others(b"policy.pth", unknown, unknown),
        "unknown-call-twice": others(b"policy.pth", unknown, pth(Apply(Name("my", "call"), ()), version=b"4\n")),
        "one-broken": others(b"policy.pth", pth(VECTOR, DATA), broken),
        "broken-data": (
            build_zip(Member(b"data", b"{,}")), build_zip(Member(b"data", b"{,}", DEFLATED)), True,
        ),
        "broken-data-of-others": (build_zip(Member(b"data", b"{,}")), build_zip(Member(b"data", b"{, }")), False),
    })  # fmt: skip
