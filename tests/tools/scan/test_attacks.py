"""Every way in that reading pickles, zips, JSON, torch, SB3 and cloudpickle turned up: what ``scan`` has to see.

A case is a good archive or file with one named change. It says the least verdict that it must get, a rule that must be
among the findings and where, and names that must be among the imports. Look-alikes say the verdict exactly.
"""

from __future__ import annotations

import _compat_pickle
import bz2
import gzip
import json
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

import sbformat
from conformance.generators import build_pth, build_zips
from conformance.generators.build_pth import Apply, Name, Persist, text
from sbformat.known.dangerous import GADGETS, MODULES, explain_danger
from sbformat.limits import Limits
from sbformat.tools.scan.findings import RULES, VERDICTS
from tests.helpers import bundled
from tests.helpers.attacks import (
    DUP,
    EMPTY,
    ENDED,
    HIDDEN,
    LINEAR,
    MARK,
    NESTED,
    NONE,
    PAYLOAD,
    POP,
    POP_MARK,
    STOP,
    SYSTEM,
    attributes,
    build,
    call,
    changed_parts,
    code,
    encoded,
    frame,
    function,
    get,
    hostile_data,
    in_blob,
    in_data,
    in_entry,
    in_stream,
    in_tar,
    items,
    listed,
    members,
    name,
    new,
    npy,
    number,
    octets,
    pairs,
    payload,
    pickle,
    put,
    schedule_lambda,
    serialized,
    stack_name,
    stream,
    torch_file,
    torchscript,
    value,
    without_magic,
)  # fmt: skip
from tests.helpers.build_blobs import CLOUD, CONSTANT, FLOATING, GLOBALS, UTILS, code_parts
from tests.helpers.many_cases import check_all, check_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sbformat.tools.scan.findings import Rule, ScanReport, Verdict

OS: Final = ("os.system",)
NAMED: Final = "dangerous-name"


class Case(NamedTuple):
    name: str
    made: Callable[[], bytes]
    verdict: Verdict = "dangerous"
    """At least."""
    rule: Rule | None = "dangerous-name"
    names: tuple[str, ...] = OS
    entry: str | None = "data"
    """Of a finding with that rule, up to ``!``; None where more than one place would be right."""
    key: str | None = ""


def blob(
    label: str,
    content: bytes | str,
    rule: Rule | None = "dangerous-name",
    names: Iterable[str] = OS,
    *,
    verdict: Verdict = "dangerous",
    key: str = "lr_schedule",
) -> Case:
    """A case with a pickle in one blob of ``data``."""
    return Case(label, lambda: in_blob(content, key), verdict, rule, tuple(names), "data", key)


def entry(label: str, where: str, content: Callable[[], bytes], names: tuple[str, ...] = OS) -> Case:
    """A case with one entry of the archive."""
    return Case(label, lambda: in_entry(where, content()), names=names, entry=where)


def file(label: str, made: Callable[[], bytes], names: tuple[str, ...] = OS) -> Case:
    """A case that is no archive."""
    return Case(label, made, names=names, entry="")


def lone_zip(label: str, made: Callable[[], bytes]) -> Case:
    """A case that is a zip or tar, and no archive: the finding stands at a member."""
    return Case(label, made, entry=None)


def at_least_unknown(label: str, content: bytes, rule: Rule | None = None, names: Iterable[str] = ()) -> Case:
    """A case where nothing is called that is known to be harmful, and which is not clean."""
    return blob(label, content, rule, names, verdict="unknown")


def two_data_pkl(first: bytes, second: bytes) -> bytes:
    records = (("data.pkl", first), ("version", b"3\n"), ("data.pkl", second))
    return build_zips.build_zip(*[build_zips.Member(b"archive/" + key.encode(), content) for key, content in records])


def two_roots() -> bytes:
    records = (("a/data.pkl", pickle(b"}", 2)), ("a/version", b"3\n"), ("b/data.pkl", PAYLOAD), ("b/version", b"3\n"))
    return build_pth.make_zip(records)


def wrong_crc() -> bytes:
    good = build_zips.Member(b"archive/version", b"3\n")
    return build_zips.build_zip(
        build_zips.Member(b"archive/data.pkl", PAYLOAD, local={"crc": 1}, central={"crc": 1}), good
    )


def storage_of(cls: str | Name, key: object = "0") -> bytes:
    tree = {"w": build_pth.tensor(build_pth.storage(1, key, cls), (1,))}
    return build_pth.torch_zip(tree, {"0": bytes(4)})


def legacy_module() -> bytes:
    module = Persist(("module", Name("os", "_wrap_close"), "a.py", "import os"))
    called = Apply(Name("os", "system"), ("true",))
    return build_pth.legacy_stream({"a": module, "b": called})


# -- places -------------------------------------------------------------------------------------------

KEYS: Final = (
    "policy_class", "observation_space", "action_space", "lr_schedule", "learning_rate", "clip_range", "ep_info_buffer",
    "ep_success_buffer", "_last_obs", "_last_episode_starts", "rollout_buffer_class", "policy_kwargs", "action_noise",
    "verbose", "train_freq", "my own key", "",
)  # fmt: skip
IN_KEYS: Final = [blob(f"in the blob of {key!r}", PAYLOAD, key=key) for key in KEYS]

PTH: Final = ("policy.pth", "policy.optimizer.pth", "pytorch_variables.pth", "tensors.pth", "extra.pth", "a/b/c.pth")
IN_ENTRIES: Final = [
    *[entry(f"a torch zip as {where}", where, torch_file) for where in PTH],
    *[entry(f"a raw pickle as {where}", where, lambda: PAYLOAD) for where in PTH],
    *[entry(f"a legacy stream as {where}", where, lambda: stream(PAYLOAD)) for where in PTH],
    *[entry(f"protocol {n} as policy.pth", "policy.pth", lambda n=n: payload(n)) for n in range(6)],
    *[entry(f"pickle {n} of a legacy stream", "policy.pth", lambda n=n: in_stream(n)) for n in range(5)],
    entry("in place of a legacy stream's storages", "policy.pth", lambda: stream(tail=PAYLOAD)),
    *[
        entry(f"{part} of torch's tar", "policy.pth", lambda part=part: in_tar(part))
        for part in ("sys_info", "storages", "tensors", "pickle")
    ],
    entry("a tar without magic", "policy.pth", lambda: without_magic(in_tar("pickle"))),
    entry("data.pkl of TorchScript", "policy.pth", lambda: torchscript(PAYLOAD)),
    entry("constants.pkl of TorchScript", "policy.pth", lambda: torchscript(constants_pkl=PAYLOAD)),
    entry("a record more in a torch zip", "policy.pth", lambda: torch_file(pickle(b"}", 2), evil_pkl=PAYLOAD)),
    entry("a second data.pkl", "policy.pth", lambda: two_data_pkl(pickle(b"}", 2), PAYLOAD)),
    entry("a first data.pkl", "policy.pth", lambda: two_data_pkl(PAYLOAD, pickle(b"}", 2))),
    entry("data.pkl in a folder of its own", "policy.pth", two_roots),
    entry("deflated data.pkl", "policy.pth", lambda: build_pth.torch_zip(PAYLOAD, deflated=True)),
    entry("a torch zip without version", "policy.pth", lambda: build_pth.torch_zip(PAYLOAD, version=None)),
    entry("a torch zip of another version", "policy.pth", lambda: build_pth.torch_zip(PAYLOAD, version=b"99\n")),
    entry("a torch zip in a torch zip", "policy.pth", lambda: torch_file(pickle(b"}", 2), a_pth=torch_file())),
    entry("a torch zip behind a prefix", "policy.pth", lambda: b"prefix" + torch_file()),
    entry("a truncated torch zip", "policy.pth", lambda: torch_file()[:-30]),
    entry("a wrong CRC of data.pkl", "policy.pth", wrong_crc),
    entry("a storage's type", "policy.pth", lambda: storage_of(Name("os", "system"))),
    entry(
        "a storage's key", "policy.pth", lambda: storage_of("FloatStorage", key=Apply(Name("os", "system"), ("true",)))
    ),
    entry("a module of the legacy stream", "policy.pth", legacy_module),
    entry("an entry that is a pickle", "model.pkl", lambda: PAYLOAD),
    entry("an entry that is a pickle, whatever its name", "notes.txt", lambda: PAYLOAD),
    entry("an entry that is a text pickle", "notes.txt", lambda: payload(0)),
    entry("an entry that is a zip of a pickle", "stuff", lambda: bundled.zipped({"a": PAYLOAD})),
    Case("an entry that is an archive", lambda: in_entry("inner.zip", in_blob(PAYLOAD)), entry="inner.zip", key=None),
    entry("an entry that is an archive with a hostile policy", "i.zip", lambda: in_entry("policy.pth", torch_file())),
    entry("an entry that is a numpy file", "rewards.npy", lambda: npy(PAYLOAD)),
    entry("an entry that is a npz", "rewards.npz", lambda: bundled.zipped({"a.npy": npy(PAYLOAD)})),
    entry("an entry that is a legacy stream", "weights.bin", lambda: stream(PAYLOAD)),
    entry("an entry in capitals", "POLICY.PTH", torch_file),
    entry("a file of macOS", "__MACOSX/._policy.pth", lambda: PAYLOAD),
    entry("the version", "_stable_baselines3_version", lambda: PAYLOAD),
    entry("the system info", "system_info.txt", lambda: PAYLOAD),
    entry("data that is a pickle", "data", lambda: PAYLOAD),
    entry("data that is a text pickle", "data", lambda: payload(0)),
    entry("data that is a zip of a pickle", "data", torch_file),
]

FILES: Final = [
    *[file(f"a raw pickle of protocol {n}", lambda n=n: payload(n)) for n in range(6)],
    lone_zip("a lone torch zip", torch_file),
    file("a lone legacy stream", lambda: stream(PAYLOAD)),
    *[file(f"pickle {n} of a lone legacy stream", lambda n=n: in_stream(n)) for n in range(5)],
    lone_zip("a lone tar", lambda: in_tar("pickle")),
    *[
        lone_zip(f"{part} of a lone tar without magic", lambda part=part: without_magic(in_tar(part)))
        for part in ("sys_info", "storages", "tensors", "pickle")
    ],
    lone_zip("a lone TorchScript archive", lambda: torchscript(PAYLOAD)),
    file("a lone numpy file", lambda: npy(PAYLOAD)),
    Case("a lone data", hostile_data, entry=None, key="lr_schedule"),
    file("a pickle behind a good one", lambda: pickle(b"}") + PAYLOAD),
    file("a pickle behind ten good ones", lambda: pickle(b"}") * 10 + PAYLOAD),
    lone_zip("a zip of a pickle", lambda: bundled.zipped({"a.pkl": PAYLOAD})),
]


# -- opcodes ------------------------------------------------------------------------------------------

WRAPPER: Final = ("stable_baselines3.common.vec_env.base_vec_env", "CloudpickleWrapper")
POPEN: Final = name("subprocess", "Popen")
USER: Final = name("my.module", "Thing")
CALL_USER: Final = call(name("my.module", "make"), text("true"))
ACTIVATION: Final = "torch.nn.modules.activation"
OPCODES: Final = [
    blob("GLOBAL and REDUCE", pickle(call(name("os", "system"), text("true")))),
    blob("STACK_GLOBAL", pickle(call(stack_name("os", "system"), text("true")))),
    blob("STACK_GLOBAL of texts in the memo", pickle(
        text("system") + put(0) + POP + text("os") + put(1) + get(0) + b"\x93" + items(text("true")) + b"R")),
    blob("STACK_GLOBAL of a text that is in the memo twice", pickle(
        text("os") + b"\x94" + POP + text("x") + b"\x94" + POP + b"h\x00" + text("system") + b"\x93" + EMPTY + b"R")),
    blob("STACK_GLOBAL of 8-bit texts", pickle(b"U\x02osU\x06system\x93" + EMPTY + b"R")),
    blob("STACK_GLOBAL of a line of text", pickle(b"Vos\nVsystem\n\x93" + EMPTY + b"R")),
    blob("STACK_GLOBAL of a long text", pickle(b"\x8d" + struct.pack("<Q", 2) + b"os" + text("system") + b"\x93)R")),
    blob("STACK_GLOBAL of a computed module", pickle(
        call(name("codecs", "decode"), text("bf"), text("rot13")) + text("system") + b"\x93" + EMPTY + b"R"),
        "computed-name", ("codecs.decode",)),
    blob("STACK_GLOBAL of a computed name", pickle(
        text("os") + call(name("builtins", "str"), text("system")) + b"\x93" + EMPTY + b"R"),
        "computed-name", ("builtins.str",)),
    blob("a computed name that nothing calls", pickle(
        text("os") + call(name("builtins", "str"), text("system")) + b"\x93"), "computed-name", ("builtins.str",)),
    blob("INST", pickle(MARK + text("true") + b"ios\nsystem\n")),
    blob("OBJ", pickle(MARK + name("os", "system") + text("true") + b"o")),
    blob("NEWOBJ", pickle(new(POPEN, listed(text("true")))), names=["subprocess.Popen"]),
    blob("NEWOBJ_EX", pickle(POPEN + items(listed(text("true"))) + pairs(text("shell"), b"\x88") + b"\x92"),
         names=["subprocess.Popen"]),
    blob("BUILD that unpickles", pickle(build(new(name(*WRAPPER)), octets(PAYLOAD))), names=[".".join(WRAPPER), *OS]),
    blob("BUILD that sets a class's method", pickle(
        build(name(UTILS, "ConstantSchedule"), items(NONE, attributes(__call__=name("os", "system")))))),
    at_least_unknown("BUILD that changes a known class", pickle(
        build(name(UTILS, "ConstantSchedule"), items(NONE, attributes(val=number(1.0)))))),
    at_least_unknown("BUILD that changes a known class's dict", pickle(
        build(name(ACTIVATION, "Tanh"), attributes(forward=name(ACTIVATION, "ReLU"))))),
    blob("BUILD on a module's function", pickle(
        build(name("shutil", "rmtree"), attributes(a=NONE))), names=["shutil.rmtree"]),
    blob("APPEND to sys.path", pickle(name("sys", "path") + text("x") + b"a"), names=["sys.path"]),
    blob("APPENDS to sys.meta_path", pickle(name("sys", "meta_path") + MARK + USER + b"e"), names=["sys.meta_path"]),
    blob("SETITEM on os.environ", pickle(name("os", "environ") + text("LD_PRELOAD") + text("x") + b"s"),
         names=["os.environ"]),
    blob("SETITEMS on sys.modules", pickle(name("sys", "modules") + MARK + text("json") + USER + b"u"),
         names=["sys.modules"]),
    blob("ADDITEMS of a call", pickle(b"\x8f" + MARK + SYSTEM + b"\x90")),
    at_least_unknown("APPEND to an unknown object", pickle(new(USER) + text("x") + b"a"), "unknown-object",
                     ["my.module.Thing"]),
    at_least_unknown("APPENDS to an unknown name", pickle(USER + MARK + text("x") + b"e"), None, ["my.module.Thing"]),
    at_least_unknown("SETITEM on an unknown object", pickle(new(USER) + text("x") + NONE + b"s"), "unknown-object",
                     ["my.module.Thing"]),
    at_least_unknown("ADDITEMS on an unknown name", pickle(USER + MARK + text("x") + b"\x90"), None,
                     ["my.module.Thing"]),
    at_least_unknown("BUILD on an unknown object", pickle(build(new(USER), attributes(a=NONE))), "unknown-object",
                     ["my.module.Thing"]),
    blob("EXT1, called", pickle(call(b"\x82\x07", text("true"))), None, ()),
    blob("EXT2, called", pickle(call(b"\x83\x07\x01", text("true"))), None, ()),
    blob("EXT4, called", pickle(call(b"\x84\x07\x00\x00\x01", text("true"))), None, ()),
    at_least_unknown("EXT1, referred to", pickle(b"\x82\x07")),
    blob("PERSID", pickle(HIDDEN + b"Pthing\n")),
    blob("BINPERSID of a call", pickle(SYSTEM + b"Q")),
    at_least_unknown("PERSID where nothing resolves it", pickle(b"Pthing\n")),
    blob("an unknown name that is called", pickle(CALL_USER), "unknown-call", ["my.module.make"]),
    blob("an unknown name that INST calls", pickle(MARK + b"imy.module\nmake\n"), "unknown-call", ["my.module.make"]),
    blob("an unknown name that OBJ calls", pickle(MARK + USER + b"o"), "unknown-call", ["my.module.Thing"]),
    blob("an unknown class whose instance is called", pickle(call(new(USER), text("x"))), None, ["my.module.Thing"]),
    blob("the result of a call that is called", pickle(call(CALL_USER, text("x"))), "unknown-call", ["my.module.make"]),
    blob("arguments that a call gives", pickle(name("my.module", "make") + SYSTEM + b"R")),
    blob("keywords that a call gives", pickle(USER + EMPTY + SYSTEM + b"\x92")),
    blob("a state that a call gives", pickle(build(new(name(UTILS, "ConstantSchedule")), SYSTEM))),
    blob("a class that a call gives", pickle(SYSTEM + EMPTY + b"\x81")),
]  # fmt: skip

# -- what is left of the result -----------------------------------------------------------------------

ORDERED: Final = name("collections", "OrderedDict")
DEQUE: Final = name("collections", "deque")
RESULTS: Final = [
    blob("a result that is popped", pickle(HIDDEN + NONE)),
    blob("a result that POP_MARK drops", pickle(MARK + SYSTEM + POP_MARK + NONE)),
    blob("a result behind the value", pickle(SYSTEM + NONE)),
    blob("a result under a mark", pickle(SYSTEM + MARK + NONE)),
    blob("a result that is only in the memo", pickle(SYSTEM + put(9) + POP + NONE)),
    blob("a result that is duplicated", pickle(SYSTEM + DUP + b"\x86")),
    blob("a function from the memo", pickle(name("os", "system") + put(3) + POP + call(get(3), text("true")))),
    blob("a function from the memo, by DUP", pickle(name("os", "system") + DUP + items(text("true")) + b"R" + POP)),
    blob("a memo entry that is written twice", pickle(
        ORDERED + put(0) + POP + name("os", "system") + put(0) + POP + call(get(0), text("true")))),
    blob("a memo entry far away", pickle(name("os", "system") + put(2**31 - 2) + POP + call(get(2**31 - 2)))),
    blob("a memo entry in decimal", pickle(name("os", "system") + b"p77\n" + POP + b"g77\n" + EMPTY + b"R")),
    blob("arguments from the memo", pickle(items(text("true")) + put(1) + POP + name("os", "system") + get(1) + b"R")),
    blob("a key of a dict", pickle(pairs(SYSTEM, NONE))),
    blob("a value of a dict that another replaces", pickle(pairs(text("a"), SYSTEM, text("a"), NONE))),
    blob("an item of a set", pickle(MARK + SYSTEM + b"\x91")),
    blob("deep in lists", pickle(b"]" * 150 + SYSTEM + b"a" * 150)),
    blob("in an understood constructor", pickle(call(ORDERED, listed(items(text("a"), SYSTEM))))),
    blob("in a deque", pickle(call(DEQUE, EMPTY, b"Kd") + MARK + SYSTEM + b"e")),
    blob("in a space", pickle(build(new(name("gymnasium.spaces.box", "Box")), attributes(low=SYSTEM)))),
    blob("in a schedule", pickle(build(new(name(UTILS, "FloatSchedule")), attributes(value_schedule=SYSTEM)))),
    blob("a function in a schedule", pickle(
        build(new(name(UTILS, "FloatSchedule")), attributes(value_schedule=name("os", "system"))))),
    blob("a function in policy_kwargs", pickle(attributes(activation_fn=name("os", "system"))), key="policy_kwargs"),
    blob("in an array of objects", pickle(build(
        call(name("numpy._core.multiarray", "_reconstruct"), name("numpy", "ndarray"), items(b"K\x00"), octets(b"b")),
        items(b"K\x01", items(b"K\x01"), call(name("numpy", "dtype"), text("O8"), b"\x89", b"\x88"), b"\x89",
              listed(SYSTEM)))), key="_last_obs"),
    blob("the second of two BUILDs", pickle(
        build(build(new(name(UTILS, "ConstantSchedule")), attributes(val=number(1.0))), attributes(val=SYSTEM)))),
    blob("a thousand good calls before", pickle((call(ORDERED) + POP) * 1000 + SYSTEM)),
]  # fmt: skip

# -- names --------------------------------------------------------------------------------------------


def resolved(module: str, attribute: str) -> str:
    """A Python 2 name as CPython 3 finds it below protocol 3."""
    found = _compat_pickle.NAME_MAPPING.get((module, attribute))
    return ".".join(found or (_compat_pickle.IMPORT_MAPPING.get(module, module), attribute))


PYTHON_2: Final = (
    ("__builtin__", "eval"), ("__builtin__", "execfile"), ("__builtin__", "apply"), ("__builtin__", "raw_input"),
    ("__builtin__", "reduce"), ("__builtin__", "reload"), ("__builtin__", "file"), ("commands", "getoutput"),
    ("cPickle", "loads"), ("urllib2", "urlopen"), ("httplib", "HTTPConnection"), ("anydbm", "open"),
    ("thread", "start_new_thread"), ("itertools", "imap"), ("SocketServer", "TCPServer"), ("copy_reg", "__newobj__"),
    ("popen2", "popen3"), ("_winreg", "SetValue"),
)  # fmt: skip
DOTTED: Final = (
    ("os", "path.os.system"), ("collections", "_sys.modules"), ("torch.serialization", "os.system"),
    ("numpy", "f2py.os.system"), ("stable_baselines3.common.save_util", "pickle.loads"), (UTILS, "os.system"),
    ("builtins", "type.__subclasses__"), ("collections", "OrderedDict.__init__.__globals__"),
    ("random", "_os.system"), ("torch.nn.modules.activation", "ReLU.__init__.__globals__"),
    ("stable_baselines3.ppo.ppo", "PPO.load"), ("pathlib", "Path.write_text"), ("torch", "Tensor.apply_"),
    ("torch._ops", "ops.load_library"), ("code", "InteractiveInterpreter.runcode"),
)  # fmt: skip
ODD: Final = (
    ("os ", "system"), (" os", "system"), ("os", "system "), ("os\t", "system"), ("\uff4f\uff53", "system"),
    ("o\u200bs", "system"), ("os", ".system"), (".os", "system"), ("os.", "system"), ("os", ""), ("", "eval"),
    ("os\x1b[31m", "system"), ("os\u202e", "metsys"), ("os\r", "system"), ("x" * 5000, "system"),
)  # fmt: skip
NAMES: Final = [
    *[blob(f"Python 2: {m}.{n}, protocol {p}", pickle(call(name(m, n), text("1")), p),
           None if n in ("imap", "reduce") else NAMED, [resolved(m, n)]) for m, n in PYTHON_2 for p in (0, 2)],
    blob("a Python 2 name in protocol 3", pickle(call(name("__builtin__", "eval"), text("1")), 3),
         names=["__builtin__.eval"]),
    blob("a Python 2 module in protocol 4", pickle(call(stack_name("commands", "getoutput"), text("true"))),
         names=["commands.getoutput"]),
    blob("PROTO twice, Python 2 names between", pickle(call(name("__builtin__", "eval"), b"\x80\x04" + text("1")), 2),
         names=["builtins.eval"]),
    blob("a second PROTO that ends the renaming", b"\x80\x02" + pickle(call(name("commands", "getoutput")), 4),
         names=["commands.getoutput"]),
    *[blob(f"dotted: {m} {n}", pickle(call(stack_name(m, n), text("true"))), names=[f"{m}.{n}"]) for m, n in DOTTED],
    *[blob(f"dotted, not called: {m} {n}", pickle(stack_name(m, n)), names=[f"{m}.{n}"]) for m, n in DOTTED],
    blob("a dotted name by GLOBAL", pickle(call(name("torch.serialization", "os.system"), text("true"))),
         names=["torch.serialization.os.system"]),
    blob("a dotted name in protocol 2", pickle(call(name("os", "path.os.system"), text("true")), 2),
         names=["os.path.os.system"]),
    *[blob(f"an odd name: {(m, n)!a:.40}", pickle(call(stack_name(m, n), text("true"))), None, ()) for m, n in ODD],
    blob("a name with a line break", pickle(call(stack_name("os\nsystem", "x"), text("true"))), None, ()),
    blob("a module of os", pickle(name("os.path", "join")), names=["os.path.join"]),
    blob("a module as a value", pickle(stack_name("torch.serialization", "os")), names=["torch.serialization.os"]),
    *[blob(f"{m}.{n} as a value", pickle(stack_name(m, n)), names=[f"{m}.{n}"]) for m, n in (
        ("builtins", "getattr"), (CLOUD, "_make_function"), (CLOUD, "subimport"), (CLOUD, "_builtin_type"),
        ("copyreg", "_reconstructor"))],
    blob("functools.partial as a value", pickle(name("functools", "partial")), None, ["functools.partial"]),
    *[blob(f"{m}.{n} in policy_kwargs", pickle(attributes(activation_fn=stack_name(m, n))), names=[f"{m}.{n}"],
           key="policy_kwargs") for m, n in (("builtins", "getattr"), (CLOUD, "_make_function"))],
    blob("a dangerous name that nothing calls", pickle(name("os", "system"))),
    blob("a dangerous name among plain data", pickle(attributes(a=b"K\x01", b=name("posix", "system"))),
         names=["posix.system"]),
]  # fmt: skip

# -- bytes within bytes -------------------------------------------------------------------------------

LOAD: Final = name("torch.storage", "_load_from_bytes")
WITHIN: Final = [
    blob("a pickle in bytes", pickle(octets(PAYLOAD)), None),
    blob("a pickle in a bytearray", pickle(b"\x96" + struct.pack("<Q", len(PAYLOAD)) + PAYLOAD, 5), None),
    blob("a pickle in pickle.loads", pickle(call(name("pickle", "loads"), octets(PAYLOAD))),
         names=["pickle.loads", *OS]),
    blob("a pickle in Latin-1 text", pickle(
        call(name("_codecs", "encode"), text(PAYLOAD.decode("latin-1")), text("latin1")), 2), None),
    blob("a pickle in a pickle in a pickle", pickle(octets(pickle(octets(PAYLOAD)))), None),
    blob("a pickle in five pickles", pickle(octets(pickle(octets(pickle(octets(pickle(octets(PAYLOAD)))))))), None),
    blob("_load_from_bytes of a pickle", pickle(call(LOAD, octets(PAYLOAD)))),
    blob("_load_from_bytes of a legacy stream", pickle(call(LOAD, octets(stream(PAYLOAD))))),
    blob("_load_from_bytes of a legacy stream's head", pickle(call(LOAD, octets(in_stream(0))))),
    blob("_load_from_bytes of a torch zip", pickle(call(LOAD, octets(torch_file())))),
    blob("_load_from_bytes of a call's result", pickle(call(LOAD, SYSTEM))),
    blob("_load_from_bytes of what is computed", pickle(call(LOAD, call(name("builtins", "bytes"), b"K\x05"))), None,
         ["torch.storage._load_from_bytes"]),
    blob("_load_from_bytes as a value", pickle(LOAD), names=["torch.storage._load_from_bytes"]),
    blob("a torch zip in bytes", pickle(octets(torch_file())), None),
    blob("an archive in bytes", pickle(octets(bundled.zipped({"a.pkl": PAYLOAD}))), None),
    blob("a pickle behind STOP", pickle(NONE) + PAYLOAD),
    blob("a text pickle behind STOP", pickle(NONE) + payload(0)),
    blob("a pickle behind STOP and some bytes", pickle(NONE) + b"\x00\x00" + PAYLOAD, "trailing-bytes", (),
         verdict="unknown"),
    entry("a pickle behind the STOP of data.pkl", "policy.pth", lambda: torch_file(pickle(b"}", 2) + PAYLOAD)),
    entry("a pickle behind a raw pickle", "policy.pth", lambda: pickle(b"}", 2) + PAYLOAD),
]  # fmt: skip

# -- broken afterwards --------------------------------------------------------------------------------

BODY: Final = PAYLOAD[:-1]
BROKEN: Final = [
    blob("cut behind REDUCE", BODY),
    blob("cut in the next opcode", BODY + b"X\xff\xff\xff\x7fab"),
    blob("an opcode that is none", BODY + b"\xff."),
    blob("no STOP behind a frame", b"\x80\x04" + frame(SYSTEM)),
    blob("a frame that is too long", BODY + POP + b"\x95" + struct.pack("<Q", 1 << 20) + NONE + STOP),
    blob("a frame that ends in an opcode", BODY + POP + b"\x95" + struct.pack("<Q", 2) + text("abc") + STOP),
    blob("the first frame is too long", b"\x80\x04\x95" + struct.pack("<Q", 1 << 20) + SYSTEM + STOP),
    blob("a memo entry that is not there", BODY + POP + get(77) + STOP),
    blob("an empty stack", BODY + POP + POP + POP + STOP),
    blob("no mark", BODY + b"t."),
    blob("text that is no UTF-8", BODY + POP + b"X\x01\x00\x00\x00\xff."),
    blob("a protocol that is none", BODY + POP + b"\x80\x09N."),
    blob("a negative length", BODY + POP + b"\x8b\xff\xff\xff\xff."),
    blob("a buffer from outside", BODY + POP + b"\x97."),
    blob("an integer that is none", BODY + POP + b"Iabc\n."),
    blob("a key that no dict takes", BODY + POP + pairs(b"]", NONE) + STOP),
    blob("a name that is no text", BODY + POP + b"K\x01K\x02\x93."),
    blob("SETITEMS of an odd number", BODY + POP + b"}(K\x01u."),
    blob("APPEND to a number", BODY + POP + b"K\x01K\x02a."),
    blob("BUILD of a number", BODY + POP + b"K\x01K\x02b."),
    blob("a call of a number", BODY + POP + b"K\x01)R."),
    entry("data.pkl cut behind REDUCE", "policy.pth", lambda: torch_file(BODY)),
    entry("a legacy stream cut behind REDUCE", "policy.pth", lambda: stream(PAYLOAD)[: -len(build_pth.dumps([])) - 1]),
    file("a raw pickle cut behind REDUCE", lambda: BODY),
    file("a raw text pickle cut behind REDUCE", lambda: payload(0)[:-1]),
]  # fmt: skip

# -- gadgets ------------------------------------------------------------------------------------------


def gadget(module: str, attribute: str, *args: bytes, label: str = "") -> Case:
    """A call of a name that is known to do harm."""
    dotted = f"{module}.{attribute}"
    return blob(f"{dotted}{label}", pickle(call(stack_name(module, attribute), *args)), names=[dotted])


def caller(module: str, attribute: str, *args: bytes) -> Case:
    """A call of a name that does no more than what it is given, which is not known."""
    return blob(f"{module}.{attribute}", pickle(call(stack_name(module, attribute), *args)), None, [])


def built(module: str, attribute: str, state: bytes) -> Case:
    """An object whose class does harm when it gets its state."""
    return blob(
        f"{module}.{attribute}, built",
        pickle(build(new(name(module, attribute)), state)),
        names=[f"{module}.{attribute}"],
    )


T: Final = text("true")
SB3: Final = "stable_baselines3.common"
GADGET_CALLS: Final = [
    gadget(f"{SB3}.save_util", "load_from_pkl", T), gadget(f"{SB3}.save_util", "json_to_data", T),
    gadget(f"{SB3}.save_util", "load_from_zip_file", T), gadget(f"{SB3}.save_util", "open_path", T, text("w")),
    gadget("stable_baselines3.common.base_class", "load_from_zip_file", T, label=", from where it is imported"),
    gadget(f"{SB3}.logger", "configure", T), gadget(f"{SB3}.logger", "HumanOutputFormat", T),
    gadget(f"{SB3}.monitor", "Monitor", NONE, T), gadget(f"{SB3}.env_util", "make_vec_env", text("os:x-v0")),
    gadget(f"{SB3}.vec_env.subproc_vec_env", "SubprocVecEnv", listed(USER)),
    gadget(f"{SB3}.vec_env", "SubprocVecEnv", listed(USER)), gadget(UTILS, "get_system_info"),
    gadget(f"{SB3}.vec_env.vec_normalize", "VecNormalize.load", T, NONE),
    gadget(f"{SB3}.policies", "BasePolicy.load", T), gadget("sb3_contrib.tqc.tqc", "TQC.load", T),
    caller(f"{SB3}.evaluation", "evaluate_policy", NONE, NONE), gadget("rl_zoo3.utils", "StoreDict"),
    gadget("rl_zoo3.utils", "get_class_by_name", text("os.system")), gadget("rl_zoo3.exp_manager", "ExperimentManager"),
    built(*WRAPPER, octets(b"N.")), built("gymnasium.vector.utils.misc", "CloudpickleWrapper", octets(b"N.")),
    built("gym.vector.utils.misc", "CloudpickleWrapper", octets(b"N.")),
    built("gymnasium.utils.ezpickle", "EzPickle", attributes(_ezpickle_args=EMPTY, _ezpickle_kwargs=b"}")),
    built("gymnasium.envs.mujoco.ant_v5", "AntEnv", attributes(_ezpickle_args=items(T), _ezpickle_kwargs=b"}")),
    gadget("gymnasium", "make", text("os:x-v0")), gadget("gymnasium.envs.registration", "load_env_creator", T),
    gadget("gym", "make", text("os:x-v0")), gadget("gym.envs.registration", "load", T),
    gadget("gymnasium.vector", "AsyncVectorEnv", listed(USER)), gadget("gymnasium.utils.save_video", "save_video"),
    gadget("numpy", "load", T), gadget("numpy.lib.npyio", "load", T), gadget("numpy", "fromfile", T),
    gadget("numpy", "memmap", T), gadget("numpy._core.multiarray", "fromfile", T), gadget("numpy", "loadtxt", T),
    gadget("numpy.f2py.crackfortran", "getlincoef", T, NONE),
    gadget("numpy.testing._private.utils", "runstring", T, b"}"),
    gadget("numpy.distutils.exec_command", "exec_command", T), gadget("numpy.ctypeslib", "load_library", T, T),
    caller("numpy", "vectorize", USER), gadget("numpy.core", "_ufunc_reconstruct", text("os"), text("system")),
    gadget("numpy.lib.format", "read_array", NONE), caller("numpy", "apply_along_axis", USER, NONE, NONE),
    gadget("torch", "load", T), gadget("torch.serialization", "load", T), gadget("torch.hub", "load", T, T),
    gadget("torch.jit", "load", T), gadget("torch.package", "PackageImporter", T), gadget("torch", "compile", USER),
    gadget("torch.utils.collect_env", "run", T), gadget("torch.utils.cpp_extension", "load_inline", T, T),
    gadget("torch.fx.graph_module", "reduce_graph_module", attributes(_code=T), T),
    gadget("torch.jit.unsupported_tensor_ops", "execWrapper", T, b"}", b"}"),
    built("torch.utils.data.datapipes.datapipe", "_IterDataPipeSerializationWrapper", items(octets(PAYLOAD), b"\x89")),
    gadget("torch.utils._config_module", "ConfigModule.load_config", octets(b"N.")),
    gadget("torch._utils", "_import_dotted_name", text("os.system")), gadget("torch.multiprocessing", "spawn", USER),
    gadget("torch.distributed.rpc", "rpc_sync", T, USER), gadget("torch._inductor.codecache", "compile_file", T, T, T),
    gadget("torch._dynamo.guards", "GuardBuilder.get", NONE, T), gadget("torch.utils.bottleneck.__main__", "run_prof"),
    gadget("torch.cuda.memory", "CUDAPluggableAllocator", T), gadget("torch", "UntypedStorage.from_file", T),
    gadget("torch.utils._pytree", "treespec_loads", T), gadget("torch.utils.data", "DataLoader", USER),
    gadget(CLOUD, "loads", octets(b"N.")), gadget(CLOUD, "dynamic_subimport", T, b"}"),
    gadget(CLOUD, "_lookup_module_and_qualname", T), gadget("joblib", "load", T),
    gadget("dill", "loads", octets(b"N.")),
    gadget("dill._dill", "_create_function", T), gadget("joblib.numpy_pickle", "load", T),
    gadget("pandas", "read_pickle", T), gadget("pandas", "eval", T), gadget("sympy", "sympify", T),
    gadget("yaml", "unsafe_load", T), gadget("keras.models", "load_model", T), gadget("PIL.ImageMath", "eval", T),
    gadget("tensorflow.python.keras.layers.core", "Lambda", T), gadget("tensorflow", "py_function", USER),
    gadget("builtins", "getattr", name("collections", "OrderedDict"), text("__init__")), gadget("builtins", "eval", T),
    gadget("builtins", "exec", T), gadget("builtins", "__import__", T), gadget("builtins", "open", T, text("w")),
    gadget("builtins", "compile", T, T, T), caller("builtins", "map", USER, EMPTY), gadget("builtins", "breakpoint"),
    gadget("builtins", "setattr", USER, T, T), gadget("builtins", "globals"), gadget("io", "open", T),
    caller("operator", "attrgetter", T), caller("_operator", "methodcaller", T), caller("operator", "itemgetter", T),
    gadget("types", "FunctionType", NONE, b"}"), gadget("types", "CodeType"), caller("weakref", "finalize", USER, USER),
    caller("functools", "reduce", USER, EMPTY), caller("itertools", "starmap", USER, EMPTY),
    caller("copy", "_reconstruct", NONE, NONE, USER, EMPTY), gadget("uuid", "_get_command_stdout", T),
    gadget("pkgutil", "resolve_name", text("os:system")), gadget("pydoc", "pipepager", T, T), gadget("pip", "main", T),
    gadget("runpy", "run_path", T), gadget("timeit", "timeit", T), gadget("cProfile", "run", T),
    gadget("pty", "spawn", T),
    gadget("trace", "Trace.run", T), gadget("idlelib.pyshell", "ModifiedInterpreter.runcode", T),
    gadget("ctypes", "CDLL", T), gadget("marshal", "loads", octets(b"N")), gadget("shelve", "open", T),
    gadget("sqlite3", "connect", T), gadget("tempfile", "mkstemp"), gadget("shutil", "rmtree", T),
    gadget("codecs", "open", T), gadget("site", "addsitedir", T), gadget("distutils.spawn", "spawn", T),
    gadget("multiprocessing.context", "Process", NONE, USER), gadget("threading", "Timer", number(0.0), USER),
    gadget("socket", "create_connection", T), gadget("webbrowser", "open", T), gadget("urllib.request", "urlopen", T),
    gadget("logging", "FileHandler", T), gadget("logging.config", "fileConfig", T), gadget("atexit", "register", USER),
    gadget("signal", "signal", b"K\x0e", USER), gadget("asyncio", "run", T), gadget("smtplib", "SMTP", T),
    gadget("importlib", "import_module", T), gadget("zipimport", "zipimporter", T), gadget("unittest", "main"),
    gadget("platform", "_syscmd_file", T), gadget("imaplib", "IMAP4_stream", T), gadget("nt", "system", T),
    gadget("doctest", "debug_script", T), gadget("ensurepip", "_run_pip", T), gadget("linecache", "getlines", T),
]  # fmt: skip

# -- known constructors, other arguments --------------------------------------------------------------

GENERATOR: Final = name("numpy.random._pickle", "__generator_ctor")
REBUILD: Final = name("torch._tensor", "_rebuild_from_type_v2")
TENSOR: Final = name("torch", "Tensor")
PPO_CLASS: Final = name("stable_baselines3.ppo.ppo", "PPO")
ARGUMENTS: Final = [
    blob("numpy's generator, made by os.system", pickle(call(GENERATOR, T, name("os", "system")))),
    blob("numpy's generator, made by an unknown name", pickle(call(GENERATOR, T, name("my.module", "make"))), None,
         ["my.module.make"]),
    blob("numpy's RandomState, made by os.system", pickle(
        call(name("numpy.random._pickle", "__randomstate_ctor"), T, name("os", "system")))),
    blob("a bit generator of another class", pickle(
        call(name("numpy.random._pickle", "__bit_generator_ctor"), POPEN)), names=["subprocess.Popen"]),
    blob("a bit generator of an unknown class", pickle(
        call(name("numpy.random._pickle", "__bit_generator_ctor"), USER)), None, ["my.module.Thing"]),
    blob("a tensor rebuilt by os.system", pickle(call(REBUILD, name("os", "system"), TENSOR, items(T), NONE))),
    blob("a tensor rebuilt by an unknown name", pickle(call(REBUILD, USER, TENSOR, items(T), NONE)), None,
         ["my.module.Thing"]),
    entry("a tensor of a .pth rebuilt by os.system", "policy.pth", lambda: torch_file(
        pickle(call(REBUILD, name("os", "system"), TENSOR, items(T), NONE), 2))),
    blob("getattr of a policy's load", pickle(call(
        name("builtins", "getattr"), name(f"{SB3}.policies", "BasePolicy"), text("load"))), names=["builtins.getattr"]),
    blob("getattr of __globals__", pickle(call(name("builtins", "getattr"), USER, text("__globals__"))),
         names=["builtins.getattr"]),
    blob("getitem of an unknown name", pickle(call(name("_operator", "getitem"), USER, T)), None,
         ["_operator.getitem", "my.module.Thing"]),
    *[blob(f"getitem of {module}'s sys.modules", pickle(
        call(name("_operator", "getitem"), stack_name(module, "sys.modules"), text("os"))), None,
        [f"{module}.sys.modules"])
      for module in ("typing", "collections.abc", "types")],
    at_least_unknown("an algorithm that makes its features", pickle(attributes(
        features_extractor_class=PPO_CLASS, features_extractor_kwargs=attributes(env=text("this:x-v0")))),
        None, ["stable_baselines3.ppo.ppo.PPO"]),
    at_least_unknown("an algorithm as a schedule", pickle(build(
        call(name("functools", "partial"), PPO_CLASS),
        items(PPO_CLASS, items(text("MlpPolicy"), text("this:x-v0")), b"}", NONE))), None,
        ["stable_baselines3.ppo.ppo.PPO"]),
    *[blob(f"{module}, which runs when it is imported", pickle(
        call(name(CLOUD, "subimport"), text(module))), None, [f"{CLOUD}.subimport", module])
      for module in ("numpy.f2py.__main__", "optuna.__main__", "idlelib.idle", "this.__main__")],
    blob("a name of a module that runs when it is imported", pickle(name("optuna.__main__", "main")),
         names=["optuna.__main__.main"]),
    blob("getitem of sys.modules", pickle(call(name("_operator", "getitem"), name("sys", "modules"), text("os"))),
         names=["sys.modules"]),
    blob("type with three arguments", pickle(call(name("builtins", "type"), T, items(USER), b"}")), None,
         ["builtins.type"]),
    blob("partial of os.system", pickle(call(name("functools", "partial"), name("os", "system"), T))),
    blob("partial of os.system, called", pickle(call(call(name("functools", "partial"), name("os", "system")), T))),
    blob("partial with a state", pickle(build(
        call(name("functools", "partial"), name("torch.optim.adam", "Adam")),
        items(name("os", "system"), EMPTY, b"}", NONE)))),
    at_least_unknown("partial of an unknown name", pickle(call(name("functools", "partial"), USER)), None,
                     ["my.module.Thing"]),
    blob("property of os.system", pickle(call(name("builtins", "property"), name("os", "system")))),
    blob("defaultdict of os.system", pickle(call(name("collections", "defaultdict"), name("os", "system")))),
    at_least_unknown("defaultdict of an unknown name", pickle(call(name("collections", "defaultdict"), USER)), None,
                     ["my.module.Thing"]),
    blob("a deque that runs a map", pickle(
        call(DEQUE, call(name("builtins", "map"), name("builtins", "eval"), items(T)))),
         names=["builtins.map", "builtins.eval"]),
    blob("an OrderedDict that runs a map", pickle(
        call(ORDERED, call(name("builtins", "map"), name("os", "system"), items(T)))), names=["builtins.map", *OS]),
    blob("bytes that run a map", pickle(
        call(name("builtins", "bytes"), call(name("builtins", "map"), name("os", "system"), items(T)))),
        names=["builtins.map", *OS]),
    at_least_unknown("an object of numpy's that is no array", pickle(call(
        name("numpy._core.multiarray", "_reconstruct"), USER, items(b"K\x00"), octets(b"b"))), None,
        ["my.module.Thing"]),
    at_least_unknown("a codec that is imported", pickle(call(name("_codecs", "encode"), T, text("rot13"))), None,
                     ["_codecs.encode"]),
    at_least_unknown("copyreg of an unknown class", pickle(call(
        name("copyreg", "_reconstructor"), USER, name("builtins", "object"), NONE), 2), None, ["my.module.Thing"]),
    blob("copyreg of a dangerous class", pickle(call(
        name("copy_reg", "_reconstructor"), name("os", "_wrap_close"), name("__builtin__", "object"), NONE), 0),
        names=["copyreg._reconstructor", "os._wrap_close"]),
    at_least_unknown("a base class that copyreg initialises", pickle(call(
        name("copyreg", "_reconstructor"), USER, USER, T), 2), None, ["my.module.Thing"]),
    blob("a module by name", pickle(call(name(CLOUD, "subimport"), text("os"))), None, [f"{CLOUD}.subimport"]),
    at_least_unknown("an unknown module by name", pickle(call(name(CLOUD, "subimport"), text("my.module"))), None,
                     [f"{CLOUD}.subimport"]),
    blob("a builtin type that is none", pickle(
        call(call(name(CLOUD, "_builtin_type"), text("MethodType")), USER, USER)), None, [f"{CLOUD}._builtin_type"]),
    at_least_unknown("a class with an unknown maker", pickle(call(
        name(CLOUD, "_make_skeleton_class"), USER, T, EMPTY, b"}", NONE, NONE)), None, ["my.module.Thing"]),
    blob("a class that os.system makes", pickle(call(
        name(CLOUD, "_make_skeleton_class"), name("os", "system"), T, EMPTY, b"}", NONE, NONE))),
    blob("a class with a hostile attribute", pickle(call(
        name(CLOUD, "_make_skeleton_class"), name("builtins", "type"), T, EMPTY, attributes(a=SYSTEM), NONE, NONE))),
    at_least_unknown("a known class that gets another state", pickle(
        call(name(CLOUD, "_class_setstate"), name(UTILS, "ConstantSchedule"), items(attributes(a=USER), b"}"))), None,
        ["my.module.Thing"]),
    blob("a schedule that is given a class", pickle(build(
        new(name(UTILS, "ConstantSchedule")), items(NONE, attributes(__class__=name("subprocess", "Popen"))))),
        names=["subprocess.Popen"]),
    at_least_unknown("a schedule that is given an unknown class", pickle(build(
        new(name(UTILS, "ConstantSchedule")), items(NONE, attributes(__class__=USER)))), None, ["my.module.Thing"]),
    *[at_least_unknown(f"a state in two parts for {label}", pickle(build(
        made, items(NONE, attributes(__class__=name(ACTIVATION, "ReLU"))))))
      for label, made in (
        ("an OrderedDict", call(ORDERED)), ("a deque", call(DEQUE, EMPTY, b"Kd")),
        ("a space", build(new(name("gymnasium.spaces.discrete", "Discrete")), attributes(n=b"K\x02", start=b"K\x00"))),
        ("a schedule", build(new(name(UTILS, "ConstantSchedule")), attributes(val=number(1.0)))),
      )],
    at_least_unknown("a schedule with arguments", pickle(new(name(UTILS, "ConstantSchedule"), USER)), None,
                     ["my.module.Thing"]),
    blob("a known class that is called with other arguments", pickle(call(
        name(f"{SB3}.type_aliases", "TrainFrequencyUnit"), SYSTEM))),
]  # fmt: skip

# -- published functions, with other surroundings -----------------------------------------------------

THING_CELL: Final = call(name(CLOUD, "_make_cell"), name("my.module", "Thing"))
HOSTILE_CELL: Final = call(name(CLOUD, "_make_cell"), name("os", "system"))
LAMBDA: Final = {"qualname": "get_schedule_fn.<locals>.<lambda>"}


def scope(**more: bytes) -> bytes:
    """The globals of SB3's functions, and others."""
    return attributes(**{key: text(plain) for key, plain in GLOBALS.items()}, **more)


def carried(label: str, fragment: bytes, names: Iterable[str] = (), rule: Rule | None = "carried-function") -> Case:
    """A function that is no longer the one that was published."""
    return blob(label, pickle(fragment), rule, names, verdict="code")


def not_clean(label: str, fragment: bytes, names: Iterable[str] = ()) -> Case:
    """A function with surroundings that SB3 never writes."""
    return blob(label, pickle(fragment), None, names, verdict="unknown")


CODE_CHANGES: Final = (
    ("argcount", 0, 2), ("nlocals", 3, 2), ("stacksize", 4, 9), ("flags", 5, 3), ("bytecode", 6, b"\x88\x00S\x01"),
    ("constants", 7, (None, 1)), ("names", 8, ("os",)), ("varnames", 9, ("x",)), ("name", 11, "other"),
    ("cellvars", 15, ("x",)), ("free variables", 14, ("other",)), ("line table", 13, b"\x00\x02\x00"),
)  # fmt: skip
OTHER_CODE: Final = code(changed_parts(CONSTANT, 6, b"d\x00S\x00"))
OLD_STATE: Final = {
    "globals": b"}", "defaults": NONE, "dict": b"}", "module": text(UTILS), "closure_values": listed(number(0.5)),
    "name": text("func"), "qualname": text("constant_fn.<locals>.func"),
}  # fmt: skip


def old_function(parts: tuple[object, ...] = CONSTANT, **state: bytes) -> bytes:
    """A function as cloudpickle before 1.6 spelt it."""
    skeleton = call(name(CLOUD, "_make_skel_func"), code(parts), b"K\x01", value(GLOBALS))
    return call(name(CLOUD, "_fill_function"), skeleton, attributes(**{**OLD_STATE, **state}))


def typed_function(**state: bytes) -> bytes:
    """A function as cloudpickle 1.6 to 2.0 spelt it."""
    kind = call(name(CLOUD, "_builtin_type"), text("LambdaType"))
    return function(**state).replace(name(CLOUD, "_make_function"), kind, 1)


FUNCTIONS: Final = [
    blob("float rebound to os.system", pickle(schedule_lambda(scope=scope(float=name("os", "system"))))),
    blob("float rebound in the state", pickle(schedule_lambda(__globals__=attributes(float=name("os", "system"))))),
    not_clean("float rebound to an unknown name", schedule_lambda(scope=scope(float=USER)), ["my.module.Thing"]),
    not_clean("float rebound in the state, unknown", schedule_lambda(__globals__=attributes(float=USER)),
              ["my.module.Thing"]),
    not_clean("float rebound to a known name", schedule_lambda(scope=scope(float=name("builtins", "int")))),
    not_clean("float rebound afterwards", scope() + put(50) + schedule_lambda(scope=get(50)) + put(51) + POP + get(50)
              + text("float") + USER + b"s" + POP + POP + get(51), ["my.module.Thing"]),
    blob("float rebound by __builtins__", pickle(
        schedule_lambda(scope=scope(__builtins__=attributes(float=name("os", "system")))))),
    not_clean("__builtins__ of its own", schedule_lambda(scope=scope(__builtins__=b"}"))),
    not_clean("a global more", function(scope=scope(os=text("x")))),
    not_clean("globals that are no dict", function(scope=USER), ["my.module.Thing"]),
    blob("globals that a call gives", pickle(function(scope=SYSTEM))),
    blob("os.system in the cell", pickle(function(FLOATING, (HOSTILE_CELL,), **LAMBDA))),
    not_clean("an unknown name in the cell", function(FLOATING, (THING_CELL,), **LAMBDA), ["my.module.Thing"]),
    blob("a call in the cell", pickle(function(cells=(call(name(CLOUD, "_make_cell"), SYSTEM),)))),
    not_clean("a cell that is none", function(cells=(USER,)), ["my.module.Thing"]),
    not_clean("a cell changed afterwards", function(FLOATING, (build(
        ENDED, items(NONE, attributes(cell_contents=USER))),), **LAMBDA), ["my.module.Thing"]),
    not_clean("another function in the cell", schedule_lambda(
        function(changed_parts(NESTED, 7, (None, 1)), setter=(CLOUD, "_function_setstate"), slot=1001))),
    not_clean("too many cells", function(cells=(ENDED, ENDED))),
    not_clean("defaults", function(defaults=value((1,)))),
    not_clean("defaults in the state", function(__defaults__=value((1,)))),
    not_clean("keyword defaults", function(__kwdefaults__=value({"x": 1}))),
    blob("os.system as a default", pickle(function(__defaults__=items(name("os", "system"))))),
    not_clean("something in __dict__", function(more=text("a") + NONE)),
    blob("os.system in __dict__", pickle(function(more=text("__wrapped__") + name("os", "system")))),
    not_clean("an annotation", function(__annotations__=attributes(x=USER)), ["my.module.Thing"]),
    carried("__code__ in the state", function(__code__=OTHER_CODE), rule=None),
    carried("__code__ in the state of a function type", typed_function(__code__=OTHER_CODE), rule=None),
    not_clean("an attribute in the state", function(__call__=name("builtins", "int"))),
    not_clean("another class in the state", function(__class__=name("builtins", "int"))),
    not_clean("cell contents in the state of a cell", function(cells=(
        ENDED + put(70) + call(name(CLOUD, "_function_setstate"), get(70), items(b"}", attributes(cell_contents=USER)))
        + POP,)), ["my.module.Thing"]),
    not_clean("float rebound in the state to a known name", schedule_lambda(
        __globals__=attributes(float=name("builtins", "int")))),
    carried("other code, of old", old_function(changed_parts(CONSTANT, 5, 3))),
    not_clean("float rebound, of old", old_function(globals=attributes(float=USER)), ["my.module.Thing"]),
    blob("os.system in the closure, of old", pickle(old_function(closure_values=listed(name("os", "system"))))),
    not_clean("a closure that is none, of old", old_function(closure_values=USER), ["my.module.Thing"]),
    blob("a closure that a call gives, of old", pickle(old_function(closure_values=SYSTEM))),
    not_clean("defaults, of old", old_function(defaults=value((1,)))),
    not_clean("something in __dict__, of old", old_function(dict=attributes(a=NONE))),
    not_clean("a state for a function of old", old_function() + put(80) + call(
        name(CLOUD, "_function_setstate"), get(80), items(b"}", attributes(__code__=OTHER_CODE))) + POP),
    not_clean("an attribute that no function has", function(__class__=USER), ["my.module.Thing"]),
    not_clean("a module in the state", function(_cloudpickle_submodules=listed(
        call(name(CLOUD, "subimport"), text("my.module")))), [f"{CLOUD}.subimport"]),
    carried("__code__ by BUILD", build(function(), items(NONE, attributes(__code__=OTHER_CODE))), rule=None),
    not_clean("a second state", function() + put(60) + call(name(CLOUD, "_function_setstate"), get(60), items(
        b"}", attributes(__code__=OTHER_CODE))) + POP),
    not_clean("the state of a library's function", call(name(CLOUD, "_function_setstate"), name(
        "torch.nn.functional", "relu"), items(b"}", attributes(__code__=code(CONSTANT))))),
    not_clean("the state of a class", call(name(CLOUD, "_function_setstate"), name(
        UTILS, "ConstantSchedule"), items(b"}", attributes(__call__=USER))), ["my.module.Thing"]),
    *[carried(f"other {what}", function(changed_parts(CONSTANT, index, other))) for what, index, other in CODE_CHANGES],
    carried("a constant of another type", function(
        changed_parts(LINEAR, 7, (None, 1.0)), (ENDED,) * 3, qualname="get_linear_fn.<locals>.func")),
    carried("other bytecode in the lambda", function(changed_parts(
        FLOATING, 6, FLOATING[6].replace(b"S\x00", b"S\x01")), (ENDED,), **LAMBDA)),
    not_clean("code with a part too few", function(CONSTANT[:-1])),
    blob("code with a call among its parts", pickle(call(
        name(CLOUD, "_make_function"), call(call(name(CLOUD, "_builtin_type"), text("CodeType")), SYSTEM)))),
    blob("code from marshal", pickle(call(
        name(CLOUD, "_make_function"), call(name("marshal", "loads"), octets(b"c")), b"}", NONE, NONE, NONE)),
        names=["marshal.loads"]),
    blob("a user's function beside a payload", pickle(function(code_parts(bundled.zipped.__code__), ()) + HIDDEN)),
    carried("a user's function in a FloatSchedule", build(new(name(UTILS, "FloatSchedule")), attributes(
        value_schedule=function(code_parts(bundled.zipped.__code__), ())))),
]  # fmt: skip

# -- base64, JSON, zip --------------------------------------------------------------------------------

TEXT: Final = encoded(PAYLOAD)


def spaced(by: str, every: int = 5) -> str:
    """The base64 with something in it that a lenient decoder skips."""
    return by.join(TEXT[at : at + every] for at in range(0, len(TEXT), every))


BASE64: Final = [
    blob("base64 in lines", spaced("\n"), None), blob("base64 with spaces", spaced(" \t"), None),
    blob("base64 with other characters", spaced("!$%"), None), blob("base64 of the other alphabet", spaced("-_"), None),
    blob("base64 with '=' before a quad", spaced("=", 4), None), blob("base64 with controls", spaced("\x00\x07"), None),
    blob("base64 that says how it is spaced", spaced("\n"), "lenient-base64"),
    blob("base64 with bytes behind its padding", encoded(b"\x80\x04N.") + TEXT, None, (), verdict="unknown"),
    blob("base64 that ends early for some decoders", "gA==" + encoded(PAYLOAD[1:]), None),
    blob("base64 that goes on for some decoders", TEXT + "====" + encoded(b"garbage"), None),
]  # fmt: skip

HOSTILE: Final = json.dumps(serialized(PAYLOAD))
GOOD: Final = json.dumps(serialized(pickle(NONE)))


def data_case(label: str, change: Callable[[str], str | bytes], key: str | None = None, rule: Rule = NAMED) -> Case:
    """A case with the text of ``data``."""
    return Case(label, lambda: in_data(change), "dangerous", rule, OS, "data", key)


def added(plain: str, more: str) -> str:
    """The text of ``data`` with more behind its last value."""
    return f"{plain.strip()[:-1]}, {more}}}"


def with_blob(plain: str) -> str:
    """The text of ``data`` with the payload as ``lr_schedule``."""
    return json.dumps({**json.loads(plain), "lr_schedule": serialized(PAYLOAD)})


ESCAPED: Final = "".join(f"\\u{ord(character):04x}" for character in TEXT)
JSON: Final = [
    data_case("a key twice, the payload first", lambda t: f'{{"lr_schedule": {HOSTILE},{t.strip()[1:]}'),
    data_case("a key twice, the payload last", lambda t: added(t, f'"lr_schedule": {HOSTILE}')),
    data_case("a marker twice", lambda t: added(t, f'"x": {GOOD[:-1]}, ":serialized:": "{TEXT}"}}')),
    data_case("a marker twice, the payload first", lambda t: added(t, f'"x": {HOSTILE[:-1]}, {GOOD[1:]}')),
    data_case("a blob deeper in an object", lambda t: added(t, f'"x": {{"y": {HOSTILE}}}'), "x"),
    data_case(
        "a blob deeper in an object, told so", lambda t: added(t, f'"x": {{"y": {HOSTILE}}}'), "x", "hidden-blob"
    ),
    data_case("a blob in an array", lambda t: added(t, f'"x": [1, [{HOSTILE}]]'), "x"),
    data_case("a blob in a blob's hints", lambda t: added(t, f'"x": {GOOD[:-1]}, "y": {HOSTILE}}}'), "x"),
    data_case("a blob that is all of data", lambda _: HOSTILE),
    data_case("a blob in an array that is all of data", lambda _: f"[{HOSTILE}]"),
    data_case("a byte order mark", lambda t: b"\xef\xbb\xbf" + with_blob(t).encode()),
    data_case("an escaped marker", lambda t: with_blob(t).replace('":serial', '"\\u003aserial'), "lr_schedule"),
    data_case("escaped base64", lambda t: with_blob(t).replace(TEXT, ESCAPED), "lr_schedule"),
    data_case("no type", lambda t: added(t, f'"x": {{":serialized:": "{TEXT}"}}'), "x"),
    data_case("a type that is no text", lambda t: added(t, f'"x": {{":type:": 5, ":serialized:": "{TEXT}"}}')),
    data_case("something behind the object", lambda t: with_blob(t) + "garbage"),
    data_case("a second object behind it", lambda t: t + f'{{"x": {HOSTILE}}}'),
    data_case("an object cut short", lambda t: with_blob(t).strip()[:-1]),
    data_case("a comma too many", lambda t: with_blob(t).strip()[:-1] + ",}"),
    data_case("a number of too many digits", lambda t: added(with_blob(t), f'"x": {"1" * 5000}')),
    data_case("arrays too deep", lambda t: added(with_blob(t), f'"x": {"[" * 100 + "]" * 100}')),
    data_case("bytes that are no UTF-8", lambda t: with_blob(t).encode() + b"\xff"),
    data_case("a lone surrogate", lambda t: added(with_blob(t), '"x": "\\ud800"'), "lr_schedule"),
    data_case("a key that looks like a call", lambda t: added(t, f'"os.system": {HOSTILE}'), "os.system"),
]


def zip_case(
    label: str, made: Callable[[], bytes], verdict: Verdict = "dangerous", names: tuple[str, ...] = OS
) -> Case:
    """A case with the outer zip; where the finding stands is not said."""
    rule: Rule | None = "dangerous-name" if verdict == "dangerous" else None
    return Case(label, made, verdict, rule, names, None, None)


def hostile(**forged: object) -> bytes:
    """An archive whose ``data`` holds the payload and is forged in one way."""
    made = members(data=hostile_data())
    for field, forgery in forged.items():
        setattr(made[0], field, forgery)
    return build_zips.build_zip(*made)


def with_member(entry_name: bytes, content: bytes | None = None) -> bytes:
    """The PPO archive with one member more, whatever its name."""
    return build_zips.build_zip(*members(), build_zips.Member(entry_name, torch_file() if content is None else content))


def unicode_path(told: bytes, shown: bytes) -> build_zips.Member:
    """A member whose extra field gives it another name (0x7075), as CPython 3.12 and Info-ZIP take it."""
    extra = build_zips.extra_field(0x7075, struct.pack("<BL", 1, zlib.crc32(shown)) + told)
    return build_zips.Member(shown, torch_file(), extra=extra, central_extra=extra)


def making_tar() -> bytes:
    return in_tar("none of them")


def deflated_policy(method: int = build_zips.DEFLATED, **forged: object) -> bytes:
    """An archive with the payload in a deflated ``policy.pth``."""
    made = [member for member in members() if member.name != b"policy.pth"]
    return build_zips.build_zip(*made, build_zips.Member(b"policy.pth", torch_file(), method, **forged))  # type: ignore[arg-type]


def hostile_gap() -> bytes:
    made = members()
    made[0].behind = PAYLOAD
    return build_zips.build_zip(*made)


ZIPS: Final = [
    zip_case("two data, the payload last", lambda: with_member(b"data", hostile_data())),
    zip_case("two data, the payload first", lambda: build_zips.build_zip(
        build_zips.Member(b"data", hostile_data()), *members())),
    zip_case("a member that the directory leaves out", lambda: build_zips.build_zip(
        *members(), build_zips.Member(b"evil.pth", torch_file()), order=range(6))),
    zip_case("a prefix", lambda: build_zips.build_zip(*members(data=hostile_data()), prefix=b"#!/bin/sh\n")),
    *[zip_case(f"an archive behind {what}", lambda before=before: before() + hostile()) for what, before in (
        ("a good pickle", lambda: pickle(NONE)), ("text", lambda: b"# An agent\n"), ("JSON", lambda: b"{}\n"),
        ("a legacy stream", stream), ("a tar", making_tar),
        ("an empty zip", lambda: b"PK\x05\x06" + bytes(18)),
        ("a good torch zip", lambda: torch_file(pickle(b"}", 2))), ("zeros", lambda: bytes(600)),
        ("a numpy file", lambda: npy(pickle(NONE))), ("a good text pickle", lambda: b"ccollections\nOrderedDict\n(tR."),
    )],
    zip_case("bytes behind the end", lambda: hostile() + b"garbage"),
    zip_case("a wrong CRC of data", lambda: hostile(local={"crc": 1}, central={"crc": 1})),
    zip_case("a wrong CRC in the local header", lambda: hostile(local={"crc": 1})),
    zip_case("an encrypted flag", lambda: hostile(flags=1)),
    zip_case("a flag of strong encryption", lambda: hostile(flags=0x40)),
    zip_case("deflated", lambda: bundled.zipped({**bundled.entries(), "data": hostile_data()}, zipfile.ZIP_DEFLATED)),
    zip_case("another name in the local header", lambda: hostile(local_name=b"dat0")),
    zip_case("a name that ends early", lambda: with_member(b"evil.pth\x00.txt")),
    zip_case("a name in an extra field", lambda: build_zips.build_zip(
        *members(), unicode_path(b"evil.pth", b"notes.txt"))),
    zip_case("a size too small", lambda: hostile(central={"size": 10}, local={"size": 10})),
    zip_case("a size too large", lambda: hostile(central={"size": 1 << 24}, local={"size": 1 << 24})),
    zip_case("sizes that differ between the headers", lambda: hostile(local={"size": 10, "compressed": 10})),
    zip_case("a deflated policy in a damaged archive", lambda: deflated_policy(local={"size": 10})),
    zip_case("a deflated policy behind a prefix", lambda: b"prefix" + deflated_policy()),
    zip_case("sizes in the local header of a policy", lambda: deflated_policy(
        method=build_zips.STORED, local={"size": 10, "compressed": 10})),
    zip_case("a data descriptor", lambda: hostile(descriptor="32")),
    zip_case("an end that is cut off", lambda: hostile()[:-10]),
    zip_case("a directory that is cut off", lambda: hostile()[: hostile().rindex(b"PK\x01\x02")]),
    zip_case("half an archive", lambda: hostile()[: len(hostile()) * 6 // 10]),
    zip_case("a good archive behind a hostile one", lambda: hostile() + bundled.zipped(bundled.entries())),
    zip_case("a hostile archive behind a good one", lambda: bundled.zipped(bundled.entries()) + hostile()),
    zip_case("a hostile archive in the comment", lambda: build_zips.build_zip(*members(), comment=hostile()[:60000])),
    zip_case("a directory that counts too few", lambda: build_zips.build_zip(
        *members(), build_zips.Member(b"evil.pth", torch_file()), end={"count": 6, "count_here": 6})),
    zip_case("a path that leaves the folder", lambda: with_member(b"../evil.pth")),
    zip_case("a path with a backslash", lambda: with_member(b"a\\evil.pth")),
    zip_case("an absolute path", lambda: with_member(b"/evil.pth")),
    zip_case("one name in two cases", lambda: with_member(b"Policy.pth")),
    zip_case("a folder with content", lambda: with_member(b"evil.pth/")),
    zip_case("a method that is none", lambda: hostile(method=99), "broken", ()),
    zip_case("bzip2, which zipfile reads", lambda: hostile(
        method=12, stored=bz2.compress(hostile_data())), "broken", ()),
    zip_case("a gap with a pickle", hostile_gap, "broken", ()),
    zip_case("a bomb", lambda: bundled.zipped(
        {**bundled.entries(), "data": hostile_data() + b" " * (8 << 20)}, zipfile.ZIP_DEFLATED), "broken", ()),
    zip_case("a compressed pickle", lambda: with_member(b"a.pkl.gz", gzip.compress(PAYLOAD)), "unknown", ()),
    zip_case("zip64 end records", lambda: build_zips.build_zip(*members(data=hostile_data()), zip64=True)),
    zip_case("a wrong offset of the directory", lambda: build_zips.build_zip(
        *members(data=hostile_data()), end={"start": 7})),
    zip_case("more entries than allowed", lambda: build_zips.build_zip(
        *members(data=hostile_data()), *[build_zips.Member(b"e%d" % n) for n in range(1100)])),
]  # fmt: skip


TABLES: Final = {
    "keys": IN_KEYS, "entries": IN_ENTRIES, "files": FILES, "opcodes": OPCODES, "results": RESULTS, "names": NAMES,
    "within": WITHIN, "broken": BROKEN, "gadgets": GADGET_CALLS, "arguments": ARGUMENTS, "functions": FUNCTIONS,
    "base64": BASE64, "json": JSON, "zips": ZIPS,
}  # fmt: skip
CASES: Final = [case for cases in TABLES.values() for case in cases]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=VERDICTS.index, default="clean")


def check_report(report: ScanReport) -> None:
    """What every report keeps to."""
    assert report.verdict == worst(finding.verdict for finding in report.findings)
    assert list(report.imports) == sorted(set(report.imports))
    for finding in report.findings:
        assert VERDICTS.index(finding.verdict) >= VERDICTS.index(RULES[finding.rule])
        assert build_zips.is_terminal_safe(finding.message)
        assert "".join([finding.entry, finding.key, *finding.names]).isprintable()


def is_there(case: Case, report: ScanReport) -> bool:
    """Is there a finding with the case's rule, where the case says?"""
    return any(
        finding.rule == case.rule
        and (case.entry is None or finding.entry.split("!")[0] == case.entry)
        and (case.key is None or finding.key == case.key)
        for finding in report.findings
    )


def test_the_table_is_long_and_its_names_are_unique() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)


@check_each("table", TABLES)
def test_attacks(table: str) -> None:
    check_all(check_attack, ((case,) for case in TABLES[table]))


def check_attack(case: Case) -> None:
    report = sbformat.scan(case.made())
    check_report(report)
    assert VERDICTS.index(report.verdict) >= VERDICTS.index(case.verdict), (report.verdict, report.findings)
    assert not set(case.names) - set(report.imports)
    assert case.rule is None or is_there(case, report), report.findings


# -- look-alikes --------------------------------------------------------------------------------------


class Alike(NamedTuple):
    name: str
    made: Callable[[], bytes]
    verdict: Verdict = "clean"
    """Exactly."""


def plain(label: str, fragment: bytes, verdict: Verdict = "clean", key: str = "lr_schedule") -> Alike:
    """A look-alike in a blob."""
    return Alike(label, lambda: in_blob(pickle(fragment), key), verdict)


def keyed(**more: object) -> bytes:
    """The PPO archive with plain values in ``data``."""
    return bundled.with_data(lambda data: data.update(more))


def user_schedule(progress: float) -> float:
    return progress * 1e-3


ARRAY: Final = call(
    name("numpy._core.numeric", "_frombuffer"), octets(b"\x80\x04\x95" + bytes(13)),
    call(name("numpy", "dtype"), text("u1"), b"\x89", b"\x88"), items(b"K\x10"), text("C"),
)  # fmt: skip
STORED: Final = {"w": build_pth.tensor(build_pth.storage(4, cls="ByteStorage"), (4,))}
ALIKE: Final = [
    Alike("a PPO archive", bundled.PPO.read_bytes), Alike("a SAC archive", bundled.SAC.read_bytes),
    Alike("deflated", lambda: bundled.zipped(bundled.entries(), zipfile.ZIP_DEFLATED)),
    Alike("no version", lambda: bundled.changed(without=("_stable_baselines3_version",))),
    Alike("text that names os.system", lambda: keyed(
        note="os.system('true')", tensorboard_log="cos\nsystem\n(S'true'\ntR.")),
    Alike("a key that is called os.system", lambda: keyed(**{"os.system": 1, "__reduce__": "x"})),
    Alike("text that is the base64 of a payload", lambda: keyed(note=TEXT)),
    Alike("not a number", lambda: keyed(gamma=float("nan"))),
    Alike("a legacy stream", lambda: in_entry("policy.pth", stream(build_pth.dumps(build_pth.ordered())))),
    Alike("storages that look like a pickle", lambda: in_entry(
        "policy.pth", build_pth.torch_zip(STORED, {"0": b"\x80\x04N."}))),
    plain("text in a pickle that names os.system", attributes(a=text("os.system"), b=text("cos\nsystem\n)R."))),
    plain("an array that looks like the start of a pickle", ARRAY, key="_last_obs"),
    plain("bytes that look like the start of a pickle", octets(b"\x80\x04\x95")),
    plain("a class by reference", name(ACTIVATION, "ReLU")),
    plain("an optimizer in policy_kwargs", attributes(
        optimizer_class=name("torch.optim.adam", "Adam")), key="policy_kwargs"),
    plain("an OrderedDict", call(ORDERED) + MARK + text("a") + b"K\x01u"),
    plain("a deque", call(DEQUE, EMPTY, b"Kd") + MARK + pairs(text("r"), number(1.0)) + b"e", key="ep_info_buffer"),
    plain("a known schedule", build(new(name(UTILS, "ConstantSchedule")), attributes(val=number(1.0)))),
    plain("SB3's constant_fn", function()),
    plain("SB3's get_linear_fn", function(LINEAR, (ENDED,) * 3, qualname="get_linear_fn.<locals>.func")),
    plain("SB3's get_schedule_fn", schedule_lambda()),
    plain("SB3's constant_fn, of old", old_function()),
    plain("SB3's constant_fn, by the function type", typed_function()),
    plain("HER's algorithm", PPO_CLASS, key="model_class"),
    plain("Python 2's name for set", name("__builtin__", "set"), "unknown", key="notes"),
    plain("a user's policy by reference", name("my.policies", "CustomPolicy"), "dangerous", key="policy_class"),
    plain("a class of a user's own that SB3 only keeps", name("my.tasks", "Task"), "unknown", key="my_task"),
    plain("a user's object", build(new(USER), attributes(a=NONE)), "dangerous"),
    plain("a user's named tuple", new(USER, NONE, NONE), "dangerous"),
    plain("names that are dangerous within longer ones", items(
        name("my.systems", "OsSystem"), name("evaluation", "Evaluator"), name("posixx", "Thing"),
    ), "unknown", "my_names"),
    plain("a user's schedule", function(code_parts(user_schedule.__code__), (), qualname="user_schedule"), "code"),
    plain("a user's lambda", function(code_parts((lambda p: p * 1e-3).__code__), ()), "code"),
    plain("a user's function that speaks of os", function(code_parts((lambda _: "os.system").__code__), ()), "code"),
    plain("a user's class", call(
        name(CLOUD, "_make_skeleton_class"), name("builtins", "type"), text("Net"),
        items(name(f"{SB3}.torch_layers", "BaseFeaturesExtractor")), attributes(__module__=text("__main__")),
        text("0123456789abcdef"), NONE), "code"),
    Alike("TorchScript", lambda: in_entry("policy.pth", torchscript()), "code"),
    Alike("base64 in lines", lambda: in_blob("gARO\nLg=="), "unknown"),
    Alike("an entry of text", lambda: in_entry("README.md", b"# An agent\n"), "clean"),
    Alike("an entry of another kind", lambda: in_entry("video.mp4", b"\x00\x00\x00\x20ftypisom"), "unknown"),
    Alike("bytes behind STOP", lambda: in_blob(pickle(NONE) + bytes(4)), "unknown"),
    Alike("a good archive with a wrong CRC", lambda: build_zips.build_zip(
        build_zips.Member(b"data", b"{}", local={"crc": 1}, central={"crc": 1})), "broken"),
    Alike("a good archive, cut", lambda: bundled.PPO.read_bytes()[:-30], "broken"),
    Alike("a key twice", lambda: in_data(lambda t: t.strip()[:-1] + ', "gamma": 1}'), "broken"),
    Alike("a pickle that is cut", lambda: in_blob(pickle(pairs(text("a"), NONE))[:-1]), "broken"),
]  # fmt: skip


@check_each("alike", ALIKE)
def test_look_alike(alike: Alike) -> None:
    report = sbformat.scan(alike.made())
    check_report(report)
    assert report.verdict == alike.verdict, report.findings


# -- the tables of names ------------------------------------------------------------------------------


def test_every_dangerous_name() -> None:
    unseen = []
    names = sorted({*GADGETS, *((module, "thing") for module in MODULES)})
    assert len(names) > 600
    for known, attribute in names:
        module = known or "any.module"
        report = sbformat.scan(pickle(stack_name(module, attribute)))
        if (report.verdict, report.imports) != ("dangerous", (f"{module}.{attribute}",)):
            unseen.append((module, attribute, report.verdict, report.imports))
    assert not unseen


def test_reasons_are_clauses() -> None:
    for why in {*MODULES.values(), *GADGETS.values()}:
        assert why[0].islower()
        assert not why.endswith(".")


def test_names_that_are_not_dangerous() -> None:
    for pair in (
        ("torch", "Tensor"),
        ("numpy", "ndarray"),
        ("collections", "OrderedDict"),
        ("my.os", "System"),
        ("", ""),
    ):
        assert explain_danger(pair) is None


# -- folders and limits -------------------------------------------------------------------------------


def test_a_folder(tmp_path: Path) -> None:
    for where, content in {**bundled.entries(), "data": hostile_data(), "x/evil.pth": torch_file()}.items():
        (tmp_path / where).parent.mkdir(exist_ok=True)
        (tmp_path / where).write_bytes(content)
    report = sbformat.scan(tmp_path)
    check_report(report)
    assert report.verdict == "dangerous"
    assert {"data", "x/evil.pth"} <= {finding.entry.split("!")[0] for finding in report.findings}


def test_a_payload_before_a_limit_counts() -> None:
    report = sbformat.scan(pickle(SYSTEM + b"0N" * 2000), limits=Limits(pickle_opcodes=1000))
    assert report.verdict == "dangerous"
    assert report.imports == OS


def test_a_payload_behind_a_limit_is_not_clean() -> None:
    report = sbformat.scan(pickle(NONE + b"0N" * 2000 + POP + SYSTEM), limits=Limits(pickle_opcodes=1000))
    assert VERDICTS.index(report.verdict) >= VERDICTS.index("broken")


def test_a_blob_beyond_a_limit_does_not_hide_another() -> None:
    made = bundled.with_data(lambda data: data.update(a=serialized(pickle(octets(bytes(5000)))), z=serialized(PAYLOAD)))
    report = sbformat.scan(made, limits=Limits(blob_bytes=4000))
    assert report.verdict == "dangerous"
    assert "os.system" in report.imports
