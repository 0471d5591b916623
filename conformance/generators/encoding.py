"""Input of a writer, and what it must refuse (WRITER.md 12)."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_zips, expected
from conformance.generators.build_pth import text
from conformance.generators.build_zips import Member, build_zip, torch_zip
from conformance.generators.expected import floating, plain
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from zips()
    yield from names()
    yield from documents()
    yield from texts()
    yield from tensors()
    yield from dtypes()
    yield from small_values()
    yield from special_tensors()


def content(data: bytes) -> dict[str, str]:
    """The bytes of an entry."""
    return {"content": base64.b64encode(data).decode("ascii")}


def items(dtype: str, shape: list[int], data: bytes, **beside: Any) -> dict[str, Any]:
    """A tensor with its items."""
    return {"tensor": {"dtype": dtype, "shape": shape, "items": base64.b64encode(data).decode("ascii")}, **beside}


def vector(*values: float) -> dict[str, Any]:
    """A float32 tensor of one dimension."""
    return items("float32", [len(values)], struct.pack(f"<{len(values)}f", *values))


def state(value: Any) -> dict[str, Any]:
    """An archive with one state dict."""
    return expected.archive({"data": plain({}), "policy.pth": value})


def entry(name: str, data: bytes) -> Member:
    """A member by the rules of WRITER.md 12.1."""
    return Member(name.encode(), data, flags=0 if name.isascii() else build_zips.UTF8_FLAG)


def zips() -> Iterator[Vector]:
    rule = Rule(
        "12.1",
        "All members are stored, and their names satisfy the path rules of 2.6. Local header and directory: version 20, date 1980-01-01 00:00, flags 0 (0x800 for non-ASCII names), system 3",
    )
    one = build_zip(entry("data", b'{\n    "a": 1\n}'))
    yield rule.encodes("encode-one-entry", expected.archive({"data": plain({"a": 1})}), one)
    more = {"data": plain({}), "notes.txt": content(b"hi"), "\u00e9.txt": content(b"")}
    made = build_zip(entry("data", b"{}"), entry("notes.txt", b"hi"), entry("\u00e9.txt", b""))
    yield rule.encodes("encode-other-entries", expected.archive(more), made)
    folder = Member(b"runs/", central={"attributes": 0o40755 << 16 | 0x10})
    yield rule.encodes(
        "encode-folder",
        expected.archive({"data": plain({}), "runs/": content(b"")}),
        build_zip(entry("data", b"{}"), folder),
    )
    rule = Rule(
        "12.1",
        "the same entries give the same bytes. New entries follow the other entries of their rank, sorted by name.",
    )
    order = [("system_info.txt", {"system_info": [["OS", "Linux"]]}), ("z", content(b"z")), ("a", content(b"a")),
             ("_stable_baselines3_version", {"version": "2.3.2"}), ("data", plain({}))]  # fmt: skip
    written = build_zip(*[entry(name, data) for name, data in (
        ("data", b"{}"), ("_stable_baselines3_version", b"2.3.2"), ("system_info.txt", b"- OS: Linux\n"), ("a", b"a"), ("z", b"z"),
    )])  # fmt: skip
    yield rule.encodes("encode-canonical-order", expected.archive(dict(order)), written)


def names() -> Iterator[Vector]:
    rule = Rule("12", "It MUST NOT produce what a reader refuses.")
    yield rule.encodes(
        "encode-name-beyond-ascii", expected.archive({"data": plain({}), "gr\u00fc\u00dfe": content(b"x")})
    )
    for name, spelled in {
        "absolute": "/etc/passwd", "dots": "../up", "backslash": "a\\b", "drive": "C:x", "device": "nul.txt", "empty": "",
        "control": "a\x1bb", "bidi": "a\u202eb", "too-long": "x" * 1025, "dot-behind": "a.", "collides": "DATA",
        "file-under-a-file": "data/x", "surrogate": "\ud800",
    }.items():  # fmt: skip
        document = expected.archive({"data": plain({}), spelled: content(b"x")})
        yield rule.cannot_be_encoded(f"encode-name-{name}", document, "container failure")
    full = expected.archive({"data": plain({}), "runs/": content(b"x")})
    yield rule.cannot_be_encoded("encode-folder-with-content", full, "container failure")


def documents() -> Iterator[Vector]:
    rule = Rule("12.4", "what Python's `json.dumps(..., indent=4)` returns for the values of 3.1 and 3.2")
    values: dict[str, Any] = {
        "nested": {"a": {"b": [1, [2.5, None], {}]}, "c": [], "d": True}, "order": {"b": 1, "a": 2},
        "text": {"x": '\u00e9\u2028\U0001f600"\\\n\x7f', "": ""}, "long-number": {"n": 2**64, "m": -(2**53)},
        "floats": {"a": 0.1, "b": 1e300, "c": -0.0, "d": 5e-324, "e": 1e16},
    }  # fmt: skip
    for name, value in values.items():
        written = build_zip(entry("data", json.dumps(value, indent=4).encode()))
        yield rule.encodes(f"encode-data-{name}", expected.archive({"data": plain(value)}), written)
    odd = {
        "dict": [["nan", floating(float("nan"))], ["inf", floating(float("inf"))], ["minus", floating(float("-inf"))]]
    }
    written = build_zip(entry("data", b'{\n    "nan": NaN,\n    "inf": Infinity,\n    "minus": -Infinity\n}'))
    yield rule.encodes("encode-data-not-finite", expected.archive({"data": odd}), written)
    surrogate = {"dict": [["x", "a\ud800b"]]}
    yield rule.encodes("encode-data-lone-surrogate", expected.archive({"data": surrogate}))
    blob = {"type": "<class 'int'>", **content(expected.SEVEN), "canonical": True, "hints": plain({"low": "[-1.]"})}
    document = expected.archive(
        {
            "data": {
                "dict": [["x", {"serialized": blob}], ["y", {"serialized": {**blob, "type": None, "hints": plain({})}}]]
            }
        }
    )
    yield rule.encodes("encode-data-serialized", document)


def texts() -> Iterator[Vector]:
    rule = Rule("12", "It MUST NOT produce what a reader refuses.")
    yield rule.encodes(
        "encode-version", expected.archive({"data": plain({}), "_stable_baselines3_version": {"version": "2.4.0a11"}})
    )
    for name, version in {"beyond-ascii": "2.\u0663", "control": "2\x1b"}.items():
        document = expected.archive({"data": plain({}), "_stable_baselines3_version": {"version": version}})
        yield rule.cannot_be_encoded(f"encode-version-{name}", document, "data failure")
    fields = {"system_info": [["OS", "Linux: 6.1"], ["Python", "3.11.2"]]}
    yield rule.encodes("encode-system-info", expected.archive({"data": plain({}), "system_info.txt": fields}))


def tensors() -> Iterator[Vector]:
    rule = Rule(
        "12.2",
        "`archive/data.pkl`, `archive/byteorder` (`little`), `archive/data/0`, `archive/data/1`, ..., `archive/version` (`3` and LF), in this order.",
    )
    document = state({"ordered_dict": [["w", vector(1.0, -2.5)], ["b", vector(0.5)]]})
    made = build_zip(entry("data", b"{}"), entry("policy.pth", by_hand()))
    yield rule.encodes("encode-state-dict", document, made)
    rule = Rule("12.3", "Tensors are written as `_rebuild_tensor_v2` over a typed storage")
    for name, value in {
        "no-dimensions": items("float32", [], struct.pack("<f", 3)), "no-items": items("float32", [0, 3], b""),
        "matrix": items("float32", [2, 3], struct.pack("<6f", *range(6))),
        "requires-grad": {**vector(1.0), "requires_grad": True},
        "parameter": {**vector(1.0), "requires_grad": True, "is_parameter": True},
        "frozen-parameter": {**vector(1.0), "is_parameter": True},
    }.items():  # fmt: skip
        yield rule.encodes(f"encode-tensor-{name}", state({"ordered_dict": [["x", value]]}))
    yield rule.encodes("encode-tensor-alone", state(vector(1.0)))
    rank = items("float32", [1] * 33, bytes(4))
    yield Rule("12", "It MUST NOT produce what a reader refuses.").cannot_be_encoded(
        "encode-tensor-rank-33", state(rank), "limit exceeded"
    )
    rule = Rule(
        "12.3", "NaN as a key or member, and a text with a pair of surrogates (5.1), are refused (unsupported)."
    )
    nan = expected.floating(float("nan"))
    for name, value in {
        "key": {"dict": [[nan, 1]]},
        "key-of-an-ordered-dict": {"ordered_dict": [[nan, 1]]},
        "key-in-a-tuple": {"dict": [[{"tuple": [nan]}, 1]]},
        "member": {"set": [nan]},
    }.items():
        yield rule.cannot_be_encoded(f"encode-nan-{name}", state(value), "unsupported")
    infinite = {"dict": [[expected.floating(float("inf")), 1]]}
    yield rule.encodes("encode-infinite-key", state(infinite))


ORDERED: Final = b"ccollections\nOrderedDict\n"


def by_hand() -> bytes:
    """The torch zip of ``{"w": [1, -2.5], "b": [0.5]}`` by the rules of 12.2 and 12.3, opcode by opcode."""
    first = (
        text("w")
        + b"ctorch._utils\n_rebuild_tensor_v2\nq\x02(("
        + text("storage")
        + b"q\x03ctorch\nFloatStorage\nq\x04"
    )
    first += text("0") + text("cpu") + b"q\x05K\x02tQq\x06K\x00K\x02\x85K\x01\x85\x89h\x00)Rq\x07tRq\x08"
    second = (
        text("b")
        + b"h\x02((h\x03h\x04"
        + text("1")
        + b"h\x05K\x01tQq\x09K\x00K\x01\x85K\x01\x85\x89h\x00)Rq\x0atRq\x0b"
    )
    return torch_zip({
        "data.pkl": b"\x80\x02" + ORDERED + b"q\x00)Rq\x01(" + first + second + b"u.", "byteorder": b"little",
        "data/0": struct.pack("<2f", 1, -2.5), "data/1": struct.pack("<f", 0.5), "version": b"3\n",
    })  # fmt: skip


def dtypes() -> Iterator[Vector]:
    rule = Rule(
        "12.3",
        "`_rebuild_tensor_v3` over `torch.storage.UntypedStorage` for dtypes without a storage class (uint16, uint32, uint64, float8).",
    )
    for name, size in {
        "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "uint64": 8,
        "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
        "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    }.items():  # fmt: skip
        data = b"\x01\x00\x01" if name == "bool" else bytes(range(1, 3 * size + 1))
        made = {"ordered_dict": [["x", items(name, [3], data)]]}
        yield rule.encodes(f"encode-dtype-{name.replace('_', '-')}", state(made))


def small_values() -> Iterator[Vector]:
    rule = Rule("12.3", "Bytes, sets and complex numbers are the calls of 6.6")
    for name, value in {
        "optimizer": {"dict": [["state", {"dict": [[0, {"dict": [["step", vector(1.0)], ["exp_avg", vector(0.5)]]}]]}],
                               ["param_groups", {"list": [{"dict": [
                                   ["lr", floating(3e-4)], ["betas", {"tuple": [floating(0.9), floating(0.999)]}],
                                   ["amsgrad", False], ["foreach", None], ["params", {"list": [0, 1]}]]}]}]]},
        "numbers": {"list": [0, -1, 255, 256, 65535, 65536, -(2**31), 2**31, {"int": hex(2**64)}, {"int": hex(-(2**600))}]},
        "floats": {"list": [floating(0.0), floating(-0.0), floating(float("nan")), floating(float("inf"))]},
        "texts": {"list": ["", "\u00e9", "\U0001f600", "a\ud800b", "x" * 300]},
        "bytes": {"list": [expected.raw_bytes(b""), expected.raw_bytes(bytes(range(256))), {"bytearray": ""}, {"bytearray": "gAA="}]},
        "complex": {"complex": ["3ff0000000000000", "8000000000000000"]},
        "sets": {"list": [{"set": []}, {"set": [1, "a", None]}, {"frozenset": ["x"]}]},
        "tuples": {"tuple": [{"tuple": []}, {"tuple": [1]}, {"tuple": [1, 2, 3, 4]}]},
        "keys": {"dict": [[0, "a"], [-5, "b"], ["c", None], [None, 1], [{"tuple": [1, "x"]}, 2]]},
        "metadata": {"ordered_dict": [["w", vector(1.0)]], "_metadata": {"ordered_dict": [["", {"dict": [["version", 1]]}]]}},
        "torch-values": {"list": [{"size": [2, 3]}, {"device": ["cuda", 0]}, {"device": ["cpu", None]},
                                  {"dtype": "float32"}, {"layout": "strided"}, {"memory_format": "channels_last"}]},
    }.items():  # fmt: skip
        yield rule.encodes(f"encode-value-{name}", state(value))
    rule = Rule("12", "It MUST NOT produce what a reader refuses.")
    deep: Any = {"list": []}
    for _ in range(201):
        deep = {"list": [deep]}
    yield rule.cannot_be_encoded("encode-value-too-deep", state(deep), "limit exceeded")
    for name, data, is_scalar in (("array", struct.pack("<2d", 1, 2), False), ("scalar", struct.pack("<d", 1), True)):
        body = {"dtype": "float64", "items": base64.b64encode(data).decode("ascii")}
        value = {"scalar": body} if is_scalar else {"array": {**body, "shape": [2]}}
        rule = Rule("12.3", "numpy values are written under `numpy.core`, which numpy 1 and 2 both know.")
        yield rule.encodes(f"encode-numpy-{name}", state({"list": [value]}), features=("numpy-values",))


def special_tensors() -> Iterator[Vector]:
    rule = Rule(
        "12.3",
        "Parameters are wrapped by `_rebuild_parameter`, or `_rebuild_parameter_with_state` if they have attributes",
    )
    beside = {"requires_grad": True, "is_parameter": True, "state": {"dict": [["tag", "x"]]}}
    yield rule.encodes("encode-parameter-with-attributes", state({**vector(1.0), **beside}), features=("attributes",))
    rule = Rule(
        "12.3", "Other tensors with attributes are written by `torch._tensor._rebuild_from_type_v2` of `torch.Tensor`."
    )
    plain_ = {**vector(1.0), "state": {"dict": [["tag", 1]]}}
    yield rule.encodes("encode-tensor-with-attributes", state(plain_), features=("attributes",))
    rule = Rule(
        "12.3",
        "Sparse tensors of every layout are written by `_rebuild_sparse_tensor`, which torch 1.13 reads only for COO.",
    )
    coo = {"layout": "sparse_coo", "size": [3], "indices": [items("int64", [1, 1], struct.pack("<q", 2))],
           "values": vector(5.0), "is_coalesced": True}  # fmt: skip
    yield rule.encodes("encode-sparse-coo", state({"sparse": coo}), features=("sparse",))
    compressed, plain_indices = items("int64", [2], struct.pack("<2q", 0, 1)), items("int64", [1], struct.pack("<q", 2))
    csr = {"layout": "sparse_csr", "size": [1, 3], "indices": [compressed, plain_indices],
           "values": vector(5.0), "is_coalesced": None}  # fmt: skip
    yield rule.encodes("encode-sparse-csr", state({"sparse": csr}), features=("sparse",))
    rule = Rule("12", "It MUST NOT produce what a reader refuses.")
    body = {
        "dtype": "qint8",
        "shape": [2],
        "items": "AQI=",
        "scheme": "per_tensor_affine",
        "scale": floating(0.5),
        "zero_point": 1,
        "axis": None,
    }
    yield rule.encodes("encode-quantized", state({"quantized": body}), features=("quantized",))
    yield rule.encodes("encode-meta", state({"meta": {"dtype": "float32", "shape": [2, 3]}}), features=("meta",))
    bare = {"storage": {"dtype": "float32", **content(bytes(8))}}
    yield rule.encodes("encode-storage", state({"list": [bare]}))
