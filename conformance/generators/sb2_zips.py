"""Zips of Stable Baselines 2 and the npz in them (SB2.md 16.1, 16.2)."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_zips, expected
from conformance.generators.build_zips import DEFLATED, Member, build_zip
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.generators.vectors import Vector

ASKED: Final = "--other-formats"
REFUSED: Final = ("container failure", "data failure", "tensor failure", "unsupported", "limit exceeded")
CONTAINER, DATA, TENSOR, UNSUPPORTED, _ = REFUSED
NAMES: Final = ("model/pi_fc0/w:0", "model/pi_fc0/b:0")
ITEMS: Final = struct.pack("<6f", 1, 2, 3, 4, 5, 6)


def header(descr: str = "'<f4'", shape: str = "(2, 3)", order: str = "False") -> str:
    """The header of a ``.npy`` as numpy writes it."""
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def npy(text: str | None = None, items: bytes = ITEMS, *, version: int = 1, length: int | None = None) -> bytes:
    """A ``.npy``: its header is padded with spaces to a multiple of 64 bytes."""
    raw = (header() if text is None else text).encode("latin-1")
    width = 2 if version == 1 else 4
    raw += b" " * (-(8 + width + len(raw) + 1) % 64) + b"\n"
    size = len(raw) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(width, "little") + raw + items


BIAS: Final = npy(header(shape="(3,)"), struct.pack("<3f", 7, 8, 9))
SCALAR: Final = npy(header(shape="()"), struct.pack("<f", 0.5))


def npz(members: Mapping[str, bytes]) -> bytes:
    return build_zip(*[Member(name.encode(), data) for name, data in members.items()])


def agent(
    arrays: Mapping[str, bytes] | None = None, *, names: Sequence[Any] | bytes | None = None, data: bytes | None = b"{}",
    parameters: bytes | None = None, **others: bytes,
) -> bytes:  # fmt: skip
    """A whole zip: the arrays by the names of parameters, listed in their order unless ``names`` says otherwise."""
    arrays = {NAMES[0]: npy(), NAMES[1]: BIAS} if arrays is None else arrays
    listed = names if isinstance(names, bytes) else json.dumps(list(arrays if names is None else names)).encode()
    made = npz({f"{name}.npy": array for name, array in arrays.items()}) if parameters is None else parameters
    entries = {b"data": data, b"parameters": made, b"parameter_list": listed}
    entries |= {name.encode(): content for name, content in others.items()}
    return build_zip(*[Member(name, content) for name, content in entries.items() if content is not None])


def expected_output(tensors: Mapping[str, Any], data: Any = None, **others: Any) -> dict[str, Any]:
    """The expected output for it."""
    entries = {"data": data or {"dict": []}, "parameters": expected.ordered_dict(tensors), **others}
    return expected.archive(entries, "sb2-zip")


WEIGHTS: Final = expected.floats(1, 2, 3, 4, 5, 6, shape=(2, 3))
BOTH: Final = {NAMES[0]: WEIGHTS, NAMES[1]: expected.floats(7, 8, 9)}


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from zips()
    yield from lists()
    yield from members()
    yield from crcs()
    yield from npy_heads()
    yield from npy_headers()
    yield from npy_bytes()


def zips() -> Iterator[Vector]:
    rule = Rule("16.1", "The entries are `data` (section 3), `parameters` and `parameter_list`, stored.")
    data = b'{"gamma": 0.5, "policy_kwargs": {"layers": [8]}, "x": NaN}'
    facts = {
        "dict": [
            ["gamma", expected.floating(0.5)],
            ["policy_kwargs", expected.plain({"layers": [8]})],
            ["x", {"float": "7ff8000000000000"}],
        ]
    }
    yield rule.accepts("sb2-zip-data", agent(data=data), expected_output(BOTH, facts), ASKED)
    yield rule.accepts("sb2-zip-more", agent(notes=b"hi"), expected_output(BOTH, notes=expected.other(b"hi")), ASKED)
    packed = [Member(name, content, DEFLATED) for name, content in (
        (b"data", b"{}"), (b"parameters", npz({"a.npy": SCALAR})), (b"parameter_list", b'["a"]'),
    )]  # fmt: skip
    held = expected_output({"a": expected.floats(0.5, shape=())})
    yield rule.accepts("sb2-zip-deflated", build_zip(*packed), held, ASKED)
    without = expected.archive({"parameters": expected.ordered_dict(BOTH)}, "sb2-zip")
    yield rule.accepts("sb2-zip-without-data", agent(data=None), without, ASKED)
    yield rule.refuses("sb2-zip-data-broken", agent(data=b"{"), DATA, ASKED)
    unasked = Rule("1.3", "Stable Baselines 2 zip: unsupported.")
    yield unasked.refuses("sb2-zip-not-asked-for", agent(), UNSUPPORTED)
    rule = Rule("16.1", "It satisfies section 2 with the path rules of 2.6, as an SB3 archive does")
    yield rule.refuses("sb2-zip-path", agent(**{"../x": b""}), CONTAINER, ASKED)
    yield rule.refuses("sb2-zip-cut", agent()[:-1], CONTAINER, ASKED)
    yield rule.refuses("sb2-zip-behind", agent() + b"x", CONTAINER, ASKED)


def lists() -> Iterator[Vector]:
    rule = Rule("16.1", "It determines the order.")
    arrays = {NAMES[1]: BIAS, NAMES[0]: npy()}
    yield rule.accepts("sb2-list-order", agent(arrays, names=NAMES), expected_output(BOTH), ASKED)
    yield rule.accepts("sb2-list-of-one", agent({}, parameters=build_zips.build_zip(Member(b"x.npy", SCALAR)), names=["x"]),
                       expected_output({"x": expected.floats(0.5, shape=())}), ASKED)  # fmt: skip
    rule = Rule("16.1", "is JSON by the rules of 3.1, but an array: of texts, none of them twice")
    for name, listed in {
        "object": b"{}", "numbers": b"[1, 2]", "null": b"null", "cut": b'["a"', "bom": b"\xef\xbb\xbf[]", "nested": b'[["a"]]',
        "latin-1": b'["\xe9"]', "twice": b'["a", "a"]', "behind": b'["a"]]', "empty": b"",
    }.items():  # fmt: skip
        yield rule.refuses(f"sb2-list-{name}", agent(names=listed), DATA, ASKED)


def members() -> Iterator[Vector]:
    rule = Rule("16.1", "the parameters of `parameter_list` and the members MUST be the same")
    yield rule.accepts(
        "sb2-members-same",
        agent({"a/../b": SCALAR}),
        expected_output({"a/../b": expected.floats(0.5, shape=())}),
        ASKED,
    )
    yield rule.refuses("sb2-members-fewer", agent(names=[*NAMES, "model/q:0"]), TENSOR, ASKED)
    yield rule.refuses("sb2-members-more", agent(names=NAMES[:1]), TENSOR, ASKED)
    yield rule.refuses("sb2-members-none", agent(names=[]), TENSOR, ASKED)
    rule = Rule("16.1", "Each member MUST be named `<parameter>.npy`")
    yield rule.refuses("sb2-member-no-npy", agent(parameters=npz({"a": SCALAR}), names=["a"]), UNSUPPORTED, ASKED)
    yield rule.refuses(
        "sb2-member-text", agent(parameters=npz({"a.npy": SCALAR, "b.txt": b""}), names=["a"]), UNSUPPORTED, ASKED
    )
    dotted = agent({"a.npy": SCALAR})
    yield rule.accepts("sb2-member-dotted", dotted, expected_output({"a.npy": expected.floats(0.5, shape=())}), ASKED)
    rule = Rule("16.1", "`parameters` is an npz: a zip by section 2")
    yield rule.refuses("sb2-npz-empty", agent(parameters=b"", names=[]), CONTAINER, ASKED)
    yield rule.refuses("sb2-npz-none", agent(parameters=b"x" * 40), CONTAINER, ASKED)
    yield rule.refuses("sb2-npz-pickle", agent(parameters=b"\x80\x04]."), CONTAINER, ASKED)
    yield rule.refuses("sb2-npz-cut", agent(parameters=npz({"a.npy": SCALAR})[:-1], names=["a"]), CONTAINER, ASKED)


def crcs() -> Iterator[Vector]:
    rule = Rule("16.1", "The CRC of `parameters` as a whole and that of each member are verified")
    whole = agent()
    yield rule.accepts("sb2-crc-right", whole, expected_output(BOTH), ASKED)
    yield rule.refuses("sb2-crc-outer", whole.replace(ITEMS, ITEMS[::-1]), CONTAINER, ASKED)
    inner = build_zip(Member(b"a.npy", SCALAR, local={"crc": 1}, central={"crc": 1}))
    yield rule.refuses("sb2-crc-inner", agent(parameters=inner, names=["a"]), CONTAINER, ASKED)


def one(array: bytes) -> bytes:
    """An agent of one parameter."""
    return agent({"a": array})


def npy_heads() -> Iterator[Vector]:
    rule = Rule("16.2", "the length of the header (`u2` in version 1, otherwise `u4`, at most 65,536)")
    for version in (1, 2, 3):
        yield rule.accepts(f"npy-version-{version}", one(npy(version=version)), expected_output({"a": WEIGHTS}), ASKED)
    rule = Rule("16.2", "a minor version (any)")
    newer = npy()[:7] + b"\x07" + npy()[8:]
    yield rule.accepts("npy-minor-version", one(newer), expected_output({"a": WEIGHTS}), ASKED)
    rule = Rule("16.2", "a major version 1, 2 or 3")
    for version in (0, 4, 255):
        yield rule.refuses(f"npy-version-{version}", one(npy(version=version)), TENSOR, ASKED)
    rule = Rule("16.2", "A member is `93 4e 55 4d 50 59` (`\\x93NUMPY`)")
    for name, data in {
        "magic": b"\x92" + npy()[1:],
        "nothing": b"",
        "short": npy()[:9],
        "pickle": b"\x80\x04].",
    }.items():
        yield rule.refuses(f"npy-no-{name}", one(data), TENSOR, ASKED)
    rule = Rule("16.2", "at most 65,536")
    yield rule.refuses("npy-header-longer-than-the-file", one(npy(length=60_000)), TENSOR, ASKED)
    long = npy(header() + " " * 70_000, version=2)
    yield rule.refuses("npy-header-long", one(long), TENSOR, ASKED)


def npy_headers() -> Iterator[Vector]:
    rule = Rule("16.2", "exactly the keys `'descr'`, `'fortran_order'` and `'shape'`, each once")
    texts = {
        "another-order": "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
        "python-2": "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        "no-spaces": "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
    }
    for name, text in texts.items():
        yield rule.accepts(f"npy-header-{name}", one(npy(text)), expected_output({"a": WEIGHTS}), ASKED)
    broken = {
        "object": header("'|O'"), "text": header("'<U3'"), "fields": header("[('a', '<f4')]"), "date": header("'<M8[s]'"),
        "order": header(order="None"), "shape": header(shape="[2, 3]"), "negative": header(shape="(-2, 3)"),
        "call": header("__import__('os')"), "missing": "{'descr': '<f4', 'shape': (2, 3), }",
        "twice": "{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3), }", "more": header()[:-1] + "'x': 1}", "list": "[]", "empty": "",
        "no-commas": "{'descr': '<f4' 'fortran_order': False 'shape': (2, 3)}", "no-tuple": header(shape="(6)"),
        "zeros": header(shape="(02, 3)"), "behind": header() + "\x0c", "order-twice": "{'descr': '<f4', 'fortran_order': False, 'fortran_order': True}",
        "size": header("'<f3'"), "letter": header("'<q8'"),
    }  # fmt: skip
    yield from npy_spaces()
    rule = Rule("16.2", 'Anything else is refused ("unsupported"): objects would have to be')
    for name, text in broken.items():
        yield rule.refuses(f"npy-header-{name}", one(npy(text)), UNSUPPORTED, ASKED)
    rule = Rule("16.2", "The code with its byte order removed is one of 6.6;")
    facts = {
        "<f8": ("float64", "<6d"),
        ">f4": ("float32", ">6f"),
        "=i2": ("int16", "<6h"),
        "|u1": ("uint8", "<6B"),
        "i8": ("int64", "<6q"),
    }
    for code, (dtype, packed) in facts.items():
        little = struct.pack(f"<{packed[1:]}", 1, 2, 3, 4, 5, 6)
        array = npy(header(f"'{code}'"), struct.pack(packed, 1, 2, 3, 4, 5, 6))
        word = code.translate(str.maketrans("<>=|", "lbnn"))
        features = ("big-endian",) if code[0] == ">" else ()
        made = expected_output({"a": expected.tensor(dtype, (2, 3), little)})
        yield rule.accepts(f"npy-dtype-{word}", one(array), made, ASKED, features=features)


def npy_spaces() -> Iterator[Vector]:
    """Spaces, and the sizes, of the grammar of a header."""
    rule = Rule("16.2", "`s` is any number of spaces")
    spaced = "{   'descr'  :  '<f4'  ,  'fortran_order'  :  False  ,  'shape'  :  (2, 3, )  ,  }"
    yield rule.accepts("npy-header-spaces", one(npy(spaced)), expected_output({"a": WEIGHTS}), ASKED)
    lines = npy(header() + " \n \n")
    yield rule.accepts("npy-header-line-feeds", one(lines), expected_output({"a": WEIGHTS}), ASKED)
    for name, text in {
        "first": " " + header(), "in-shape": header(shape="( 2, 3)"), "two-in-shape": header(shape="(2,  3)"),
        "before-comma": header(shape="(2 , 3)"), "after-one": header(shape="(6, )"), "tab": header().replace(" ", "\t"),
        "line-feed-within": header().replace(", ", ",\n"), "two-commas": header()[:-1] + ", }",
    }.items():  # fmt: skip
        yield rule.refuses(f"npy-header-space-{name}", one(npy(text)), UNSUPPORTED, ASKED)
    rule = Rule(
        "16.2", '"0" or 1 to 19 digits that do not begin with 0, then ["L"], of Python 2, in versions 1 and 2 only'
    )
    old = npy(header(shape="(2L, 3L)"), version=2)
    yield rule.accepts("npy-header-python-2-version-2", one(old), expected_output({"a": WEIGHTS}), ASKED)
    newer = npy(header(shape="(2L, 3L)"), version=3)
    yield rule.refuses("npy-header-python-2-version-3", one(newer), UNSUPPORTED, ASKED)
    long = npy(header(shape=f"(0, {10**19})"), b"")
    yield rule.refuses("npy-header-20-digits", one(long), UNSUPPORTED, ASKED)
    rule = Rule("16.2", "Sizes are below 2^63, and so is the product of the sizes, with 1 in place of 0, x itemsize.")
    shape = (2**31, 0, 2**30 - 1)
    largest = npy(header(shape=str(shape)), b"")
    yield rule.accepts("npy-sizes-largest", one(largest), expected_output({"a": expected.floats(shape=shape)}), ASKED)
    for bits in (61, 63):
        larger = npy(header(shape=f"(0, {2**bits})"), b"")
        yield rule.refuses(f"npy-size-of-{bits + 1}-bits", one(larger), TENSOR, ASKED)
    rule = Rule("16.2", "Items of `b1` are 0 or 1.")
    yield rule.refuses("npy-bool-of-two", one(npy(header("'|b1'", "()"), b"\x02")), TENSOR, ASKED)
    rule = Rule("16.2", "The limit `tensor_rank` applies.")
    deep = npy(header(shape="(1, 1, 1)"), ITEMS[:4])
    held = expected_output({"a": expected.floats(1, shape=(1, 1, 1))})
    yield rule.accepts("npy-rank-at", one(deep), held, ASKED, "--limit", "tensor_rank=3")
    yield rule.refuses("npy-rank-above", one(deep), "limit exceeded", ASKED, "--limit", "tensor_rank=2")


def npy_bytes() -> Iterator[Vector]:
    rule = Rule("16.2", "The number of bytes after the header MUST be what dtype and shape require")
    empty = expected_output({"a": expected.floats(shape=(0, 3))})
    yield rule.accepts("npy-empty", one(npy(header(shape="(0, 3)"), b"")), empty, ASKED)
    yield rule.refuses("npy-bytes-fewer", one(npy(items=ITEMS[:-1])), TENSOR, ASKED)
    yield rule.refuses("npy-bytes-more", one(npy(items=ITEMS + b"x")), TENSOR, ASKED)
    yield rule.refuses("npy-bytes-none", one(npy(items=b"")), TENSOR, ASKED)
    huge = header(shape="(9223372036854775807, 9223372036854775807)")
    yield rule.refuses("npy-shape-huge", one(npy(huge)), TENSOR, ASKED)
    rule = Rule("16.2", "`fortran_order` true means that the first axis varies fastest.")
    turned = expected.floats(1, 3, 5, 2, 4, 6, shape=(2, 3))
    yield rule.accepts("npy-fortran", one(npy(header(order="True"))), expected_output({"a": turned}), ASKED)
