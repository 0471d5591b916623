"""Hostile pickles put together opcode by opcode, and the archives and files that they are hidden in.

Every payload would be harmless if it ran (``os.system("true")``), and none ever runs: they are data to look at.
A fragment is the opcodes that leave one value on the stack; ``pickle`` makes a whole pickle of one.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import tarfile
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import build_pth, build_zips
from conformance.generators.build_pth import text, whole
from tests.helpers import bundled
from tests.helpers.build_blobs import CLOUD, CONSTANT, FAST, FILE, FLOATING, GLOBALS, UTILS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# -- fragments ----------------------------------------------------------------------------------------

MARK: Final = b"("
POP: Final = b"0"
POP_MARK: Final = b"1"
DUP: Final = b"2"
STOP: Final = b"."
NONE: Final = b"N"
EMPTY: Final = b")"


def name(module: str, attribute: str) -> bytes:
    """GLOBAL."""
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def stack_name(module: str, attribute: str) -> bytes:
    """STACK_GLOBAL of two texts."""
    return text(module) + text(attribute) + b"\x93"


def items(*parts: bytes) -> bytes:
    """A tuple."""
    return MARK + b"".join(parts) + b"t"


def listed(*parts: bytes) -> bytes:
    """A list."""
    return b"](" + b"".join(parts) + b"e"


def pairs(*parts: bytes) -> bytes:
    """A dict of keys and values in turn."""
    return b"}(" + b"".join(parts) + b"u"


def attributes(**values: bytes) -> bytes:
    """A dict with text as keys."""
    return pairs(*[part for key, value in values.items() for part in (text(key), value)])


def call(func: bytes, *args: bytes) -> bytes:
    """REDUCE."""
    return func + items(*args) + b"R"


def new(cls: bytes, *args: bytes) -> bytes:
    """NEWOBJ."""
    return cls + items(*args) + b"\x81"


def build(target: bytes, state: bytes) -> bytes:
    """BUILD."""
    return target + state + b"b"


def octets(value: bytes) -> bytes:
    """BINBYTES."""
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: float) -> bytes:
    """BINFLOAT."""
    return b"G" + struct.pack(">d", value)


def put(index: int) -> bytes:
    """LONG_BINPUT."""
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    """LONG_BINGET."""
    return b"j" + struct.pack("<I", index)


def frame(body: bytes) -> bytes:
    """FRAME and what it holds."""
    return b"\x95" + struct.pack("<Q", len(body)) + body


def value(thing: Any) -> bytes:
    """A plain value."""
    kind = type(thing)
    if kind is bytes:
        return octets(thing)
    if kind is tuple:
        return items(*map(value, thing)) if thing else EMPTY
    if kind is dict:
        return pairs(*[value(part) for pair in thing.items() for part in pair])
    if kind is int:
        return whole(thing)
    if kind is float:
        return number(thing)
    return text(thing) if kind is str else {None: b"N", True: b"\x88", False: b"\x89"}[thing]


def pickle(fragment: bytes, protocol: int = 4) -> bytes:
    """A whole pickle of a fragment; protocols 0 and 1 have no PROTO."""
    head = b"\x80" + bytes([protocol]) if protocol > 1 else b""
    return head + fragment + STOP


# -- payloads -----------------------------------------------------------------------------------------

SYSTEM: Final = call(name("os", "system"), text("true"))
"""What most cases carry."""
PAYLOAD: Final = pickle(SYSTEM)
HIDDEN: Final = SYSTEM + POP
"""The call, with nothing left of it: in front of any fragment."""
TEXT_PAYLOAD: Final = b"cos\nsystem\n(S'true'\ntR."
"""Protocol 0: text alone."""


def payload(protocol: int) -> bytes:
    """The payload as the pickler of a protocol would spell it."""
    if protocol == 0:
        return TEXT_PAYLOAD
    if protocol == 1:
        return pickle(name("os", "system") + b"q\x00(" + text("true") + b"q\x01tq\x02Rq\x03", 1)
    func = stack_name("os", "system") if protocol > 3 else name("os", "system")
    body = func + b"q\x00" + text("true") + b"q\x01\x85q\x02Rq\x03."
    return b"\x80" + bytes([protocol]) + (frame(body) if protocol > 3 else body)


# -- functions by value, as cloudpickle writes them ---------------------------------------------------

LINEAR: Final = (
    1, 0, 0, 1, 4, 19,
    bytes.fromhex("64017c00180088016b04721088005300880264017c001800880088021800140088011b001700530064005300"),
    (None, 1), (), ("progress_remaining",), FILE, "func", 110, b"\x00\x01\x0c\x01\x04\x02",
    ("end", "end_fraction", "start"), (),
)  # fmt: skip
"""The code of ``get_linear_fn.<locals>.func``: SB3 1.6.2 on CPython 3.8."""
NESTED: Final = (
    1, 0, 0, 1, 1, 19, b"\x95\x01\x97\x00\x89\x01S\x00", (None,), (), ("_",), FILE, "func", "constant_fn.<locals>.func",
    133, b"\xf8\x80\x00\xd8\x0f\x12\x88\n", b"", ("val",), (),
)  # fmt: skip
"""The code of ``constant_fn.<locals>.func``: SB3 2.3.2 on CPython 3.11."""

ENDED: Final = call(name(CLOUD, "_make_cell"), number(0.0007))
"""A cell with a number."""


def code(parts: tuple[Any, ...]) -> bytes:
    """A code object: the call that makes it."""
    return call(call(name(CLOUD, "_builtin_type"), text("CodeType")), *map(value, parts))


def function(
    parts: tuple[Any, ...] = CONSTANT,
    cells: Sequence[bytes] = (ENDED,),
    *,
    qualname: str = "constant_fn.<locals>.func",
    scope: bytes | None = None,
    defaults: bytes = NONE,
    setter: tuple[str, str] = (FAST, "_function_setstate"),
    slot: int = 1000,
    more: bytes = b"",
    **state: bytes,
) -> bytes:
    """A function with its state set by a call whose result is dropped.

    :param scope: its globals; those that cloudpickle writes when None
    :param slot: where in the memo it may be put
    :param more: keys and values for its ``__dict__``
    :param state: what differs from a plain function's attributes
    """
    empty = b"".join([call(name(CLOUD, "_make_empty_cell"))] * len(cells))
    base = value(GLOBALS) if scope is None else scope
    made = call(name(CLOUD, "_make_function"), code(parts), base, NONE, defaults, MARK + empty + b"t")
    slots = {
        "__name__": text(parts[11]),
        "__qualname__": text(qualname),
        "__annotations__": b"}",
        "__kwdefaults__": NONE,
        "__defaults__": NONE,
        "__module__": text(UTILS),
        "__doc__": NONE,
        "__closure__": MARK + b"".join(cells) + b"t",
        "_cloudpickle_submodules": b"]",
        "__globals__": b"}",
        **state,
    }
    state_of = items(pairs(more) if more else b"}", attributes(**slots))
    return made + put(slot) + call(name(*setter), get(slot), state_of) + POP


def schedule_lambda(inner: bytes | None = None, **changes: Any) -> bytes:
    """``get_schedule_fn.<locals>.<lambda>`` around another function."""
    within = function(NESTED, setter=(CLOUD, "_function_setstate"), slot=1001) if inner is None else inner
    cell = call(name(CLOUD, "_make_cell"), within)
    options: dict[str, Any] = {"qualname": "get_schedule_fn.<locals>.<lambda>", "setter": (CLOUD, "_function_setstate")}
    return function(FLOATING, (cell,), **{**options, **changes})


def changed_parts(parts: tuple[Any, ...], index: int, new_value: object) -> tuple[Any, ...]:
    """Parts of code with one replaced."""
    assert repr(parts[index]) != repr(new_value)
    return (*parts[:index], new_value, *parts[index + 1 :])


# -- where a pickle is put ----------------------------------------------------------------------------


def encoded(content: bytes) -> str:
    """Canonical base64."""
    return base64.b64encode(content).decode("ascii")


def serialized(content: bytes | str) -> dict[str, Any]:
    """The pair of markers; of a base64 text or of bytes."""
    return {":type:": "<class 'function'>", ":serialized:": content if isinstance(content, str) else encoded(content)}


@cache
def _small_entries() -> dict[str, bytes]:
    """Those of the PPO archive, with small weights, and without optimizer and the pickles that any key may have."""
    kept = {name: content for name, content in bundled.entries().items() if not name.endswith(".pth")}
    needed = ("policy_class", "observation_space")
    data = {
        key: value
        for key, value in json.loads(kept["data"]).items()
        if key in needed or not isinstance(value, dict) or ":serialized:" not in value
    }
    kept["data"] = json.dumps(data, indent=4).encode()
    return {**kept, "policy.pth": build_pth.torch_zip({"w": build_pth.floats((8,))}, {"0": bytes(32)})}


def in_blob(content: bytes | str, key: str = "lr_schedule") -> bytes:
    """The PPO archive with small weights and one blob replaced or added."""
    data = {**json.loads(_small_entries()["data"]), key: serialized(content)}
    return bundled.zipped({**_small_entries(), "data": json.dumps(data, indent=4).encode()})


def in_entry(entry: str, content: bytes) -> bytes:
    """The PPO archive with small weights and one entry replaced or added."""
    return bundled.zipped({**_small_entries(), entry: content})


def in_data(text_of: Callable[[str], str | bytes]) -> bytes:
    """The PPO archive with the text of ``data`` changed."""
    made = text_of(bundled.entries()["data"].decode())
    return in_entry("data", made.encode() if isinstance(made, str) else made)


def torch_file(content: bytes = PAYLOAD, **more: bytes) -> bytes:
    """A torch zip around a pickle; ``more`` records, with ``_`` for ``.``."""
    return build_pth.torch_zip(content, more={key.replace("_", "."): record for key, record in more.items()})


STREAM: Final = (build_pth.MAGIC, build_pth.LEGACY_PROTOCOL, build_pth.SYSTEM, {}, [])


def in_stream(index: int) -> bytes:
    """A legacy stream that calls before it gives what its pickle number ``index`` should give."""
    parts = [build_pth.dumps(part) for part in STREAM]
    parts[index] = b"\x80\x02" + HIDDEN + parts[index][2:]
    return b"".join(parts)


def stream(content: bytes | None = None, tail: bytes = b"") -> bytes:
    """A legacy stream around a pickle."""
    parts = [build_pth.dumps(part) for part in STREAM]
    return b"".join([*parts[:3], parts[3] if content is None else content, parts[4], tail])


def in_tar(member: str) -> bytes:
    """The format of torch 0.1 with the payload in front of one member's pickle."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        for part, plain in (("sys_info", {}), ("storages", 0), ("tensors", 0), ("pickle", {})):
            content = build_pth.dumps(plain)
            if part in {"storages", "tensors"}:
                content += build_pth.dumps([])
            if part == member:
                content = b"\x80\x02" + HIDDEN + content[2:]
            info = tarfile.TarInfo(part)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
    return file.getvalue()


def without_magic(tar: bytes) -> bytes:
    """A tar of Unix V7: no ``ustar`` in its headers, which Python's tarfile takes as well."""
    made = bytearray(tar)
    for at in range(0, len(made), 512):
        if made[at + 257 : at + 262] == b"ustar":
            made[at + 257 : at + 265] = bytes(8)
            made[at + 148 : at + 156] = b" " * 8
            made[at + 148 : at + 156] = b"%06o\0 " % sum(made[at : at + 512])
    return bytes(made)


def torchscript(data: bytes | None = None, **records: bytes) -> bytes:
    """A TorchScript archive; ``records`` replace or add some."""
    root = {
        "data.pkl": pickle(b"}", 2) if data is None else data,
        "constants.pkl": pickle(EMPTY, 2),
        "version": b"3\n",
        "code/__torch__.py": b"class M(Module):\n  pass\n",
        **{key.replace("_pkl", ".pkl"): record for key, record in records.items()},
    }
    return build_pth.make_zip([(f"model/{key}", record) for key, record in root.items()])


def npy(content: bytes) -> bytes:
    """A numpy file of objects: a header and a pickle."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def members(**changed: bytes) -> list[build_zips.Member]:
    """The members of the PPO archive, to be forged field by field; ``policy_pth`` stands for ``policy.pth``."""
    contents = {**bundled.entries()}
    names = {entry.replace(".", "_"): entry for entry in contents}
    contents.update({names.get(key, key): content for key, content in changed.items()})
    return [build_zips.Member(entry.encode(), content) for entry, content in contents.items()]


def hostile_data() -> bytes:
    """The entry ``data`` with the payload in it."""
    data = json.loads(bundled.entries()["data"])
    data["lr_schedule"] = serialized(PAYLOAD)
    return json.dumps(data).encode()
