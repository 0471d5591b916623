"""Scans: what loading a file would run, import or not understand (SCANNING.md 14).

Every payload would be harmless if it ran (``os.system("true")``), and none ever runs.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_pth import storage, text
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.build_zips import (
    DEFLATED,
    POLICY,
    Member,
    build_zip,
    sb3_archive,
    state_dict_zip,
    torch_zip,
)
from conformance.generators.other_tensors import SPARSE, in_layout
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM: Final = b"cos\nsystem\n" + text("true") + b"\x85R"
"""A call of ``os.system``."""
CSR_DATA: Final = {key: SPARSE[key] for key in ("0", "c", "i")}
PAYLOAD: Final = b"\x80\x02" + SYSTEM + b"."


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from clean()
    yield from understood_or_not()
    yield from called_later()
    yield from changed_values()
    yield from keys()
    yield from frames()
    yield from imports_and_calls()
    yield from values()
    yield from hidden()
    yield from broken()
    yield from large()
    yield from yaml()


def encoded(pickle: bytes) -> str:
    """Base64."""
    return base64.b64encode(pickle).decode("ascii")


def document(pickle: bytes, key: str = "x") -> bytes:
    """A bare ``data`` with one blob."""
    return json.dumps({key: {":type:": "<class 'object'>", ":serialized:": encoded(pickle)}}).encode()


def pickled(fragment: bytes, protocol: int = 4) -> bytes:
    """A pickle of opcodes that push one value."""
    return b"\x80" + bytes([protocol]) + fragment + b"."


def found(verdict: str, *rules: str, harmful: bool | None = None) -> dict[str, Any]:
    """The expected output of a decoder; by default the rules determine whether the file is harmful."""
    if harmful is None:
        harmful = "dangerous-name" in rules or "python-tag" in rules
    reason = ("harmful" if harmful else "not-known") if verdict == "dangerous" else None
    return {"verdict": verdict, "reason": reason, "rules": sorted(rules)}


def scans(rule: Rule, name: str, data: bytes, verdict: str, *rules: str, harmful: bool | None = None) -> Vector:
    """A file and its verdict."""
    return rule.accepts(f"scan-{name}", data, found(verdict, *rules, harmful=harmful), "--scan")


def clean() -> Iterator[Vector]:
    rule = Rule(
        "14.1",
        "every byte was understood: plain data, constructors of 13 with checked arguments, references, published functions",
    )
    yield scans(rule, "archive", sb3_archive(), "clean")
    yield scans(rule, "lone-pth", state_dict_zip(POLICY), "clean")
    yield scans(rule, "plain-blob", document(pickled(b"](K\x01K\x02e")), "clean")
    reference = b"cstable_baselines3.common.policies\nActorCriticPolicy\n"
    yield scans(rule, "reference", document(pickled(reference), "policy_class"), "clean")
    schedule = b"cstable_baselines3.common.utils\nConstantSchedule\n)\x81}" + text("val") + b"G?\xf0" + bytes(6) + b"sb"
    yield scans(rule, "schedule", document(pickled(schedule), "lr_schedule"), "clean")
    yield scans(rule, "bare-pickle", pickled(b"K\x01"), "clean")


def large() -> Iterator[Vector]:
    rule = Rule("3.4", "A scanner examines the pickle in such a value in pieces, without holding it in memory.")
    filler = b"B" + struct.pack("<I", 300) + bytes(300)
    for name, fragment, verdict, *rules in (
        ("clean", filler, "clean"),
        ("payload", filler + b"0" + SYSTEM, "dangerous", "dangerous-name"),
    ):
        yield rule.accepts(
            f"scan-large-value-{name}",
            document(pickled(fragment)),
            found(verdict, *rules),
            "--scan", "--limit", "blob_bytes=100",
        )  # fmt: skip
    rule = Rule("3.4", 'Otherwise its verdict is "broken".')
    text = encoded(pickled(filler))
    wrong = json.dumps({"x": {":type:": "<class 'object'>", ":serialized:": f"{text[:40]}!{text[40:]}"}}).encode()
    arguments = ("--scan", "--limit", "blob_bytes=100")
    yield rule.accepts("scan-large-value-not-canonical", wrong, found("broken", "broken"), *arguments)


def understood_or_not() -> Iterator[Vector]:
    rule = Rule("14.1", "MUST be understood (13.1), or produces a finding.")
    for name, fragment, verdict, rules in (
        ("unknown-name", b"cmy_package\nMyPolicy\n", "dangerous", ("called-name",)),
        (
            "unknown-submodule",
            b"cstable_baselines3.common.policies.more\nActorCriticPolicy\n",
            "dangerous",
            ("called-name",),
        ),
        ("unknown-object", b"cmy_package\nThing\n)\x81", "dangerous", ("unknown-name", "unknown-object")),
        ("unknown-object-state", b"cmy_package\nThing\n)\x81}b", "dangerous", ("unknown-name", "unknown-object")),
        ("unknown-object-keywords", b"cmy_package\nThing\n)}\x92", "dangerous", ("unknown-name", "unknown-object")),
        ("unknown-call", b"cmy_package\nmake\n)R", "dangerous", ("unknown-call", "unknown-name")),
        ("unknown-inst", b"(imy_package\nmake\n", "dangerous", ("unknown-call", "unknown-name")),
        ("unknown-obj", b"(cmy_package\nmake\no", "dangerous", ("unknown-call", "unknown-name")),
        ("popped-name", b"cmy_package\nThing\n0N", "unknown", ("unknown-name",)),
        ("extension", b"\x82\x01", "dangerous", ("computed-name",)),
    ):
        yield scans(rule, name, document(pickled(fragment), "policy_class"), verdict, *rules)


def called_later() -> Iterator[Vector]:
    rule = Rule(
        "14.1",
        "under a key of `data` that Stable-Baselines uses, at any depth of its value",
    )
    unknown = b"csympy.core.containers\nTuple\n"
    nested = b"}" + text("features_extractor_class") + unknown + b"s"
    for key in ("policy_class", "policy_kwargs", "learning_rate", "_setup_model", "my_class", "my_kwargs"):
        yield scans(rule, f"called-{key}", document(pickled(nested), key), "dangerous", "called-name")
    yield scans(rule, "kept-name", document(pickled(nested), "my_task"), "unknown", "unknown-name")
    yield scans(rule, "name-alone", pickled(b"]" + unknown + b"a"), "unknown", "unknown-name")
    agent = b"}" + text("policy") + unknown + b"s}\x86"
    rule = Rule(
        "14.1",
        "the argument `data` of what `policy.save` writes, in a dict of any kind and whatever else is in it",
    )
    yield scans(rule, "called-sb2-policy", pickled(agent), "dangerous", "called-name")
    rule = Rule("14.1", "If it is called, it is `called-name`, otherwise `unknown-name`.")
    algorithm = b"cstable_baselines3.ppo.ppo\nPPO\n"
    called = b"}" + text("features_extractor_class") + algorithm + b"s"
    yield scans(rule, "called-algorithm", document(pickled(called), "policy_kwargs"), "dangerous", "called-name")
    yield scans(rule, "kept-algorithm", document(pickled(algorithm), "my_note"), "unknown", "unknown-name")
    rule = Rule("14.1", "passed to a known constructor which may call it, as an argument or in its state.")
    schedule = b"cstable_baselines3.common.utils\nFloatSchedule\n)\x81}" + text("value_schedule") + unknown + b"sb"
    yield scans(rule, "given-in-a-state", pickled(schedule), "dangerous", "called-name")
    given = b"ccollections\ndeque\n" + unknown + b"\x85R"
    yield scans(rule, "given-as-an-argument", pickled(given), "dangerous", "called-name", "unchecked-arguments")
    held = b"ccollections\ndeque\n]" + unknown + b"a\x85R"
    yield scans(rule, "held-in-a-list", pickled(held), "unknown", "unknown-name")


def changed_values() -> Iterator[Vector]:
    def buffer(raw: bytes) -> bytes:
        return b"\x96" + len(raw).to_bytes(8, "little") + raw

    load = b"ctorch.storage\n_load_from_bytes\n"
    rule = Rule("14.1", "A plain value that is changed by an opcode intended for objects")
    pairs = b"".join(b"K" + bytes([at]) + b"K" + bytes([byte]) for at, byte in enumerate(PAYLOAD))
    made = buffer(bytes(len(PAYLOAD))) + b"(" + pairs + b"u"
    yield scans(rule, "changed-bytes", pickled(made, 5), "dangerous", "dangerous-name", "odd-pickle")
    made = buffer(b"ab") + b"\x94" + load + b"h\x00\x85R0h\x00(K\x00K\x01u"
    rules = ("changed-value", "dangerous-name", "discarded-result", "odd-pickle")
    yield scans(rule, "changed-after-a-call", pickled(made, 5), "dangerous", *rules)
    made = buffer(b"ab") + b"(cbuiltins\nslice\nK\x00K\x01\x86RC\x01xu"
    yield scans(
        rule, "changed-by-a-slice", pickled(made, 5), "dangerous", "changed-value", "discarded-result", "odd-pickle"
    )
    rule = Rule("14.1", "So is any list, dict, set or bytearray that is changed after a call received it.")
    made = b"]\x94ccollections\nOrderedDict\nh\x00\x85R0h\x00(K\x01K\x02\x86e"
    rules = ("changed-value", "discarded-result", "odd-pickle", "unchecked-arguments")
    yield scans(rule, "changed-list", pickled(made), "dangerous", *rules)
    rule = Rule("14.1", "A change that CPython refuses is broken, and everything after it is examined too.")
    yield scans(rule, "unchangeable", pickled(b")K\x01a"), "broken", "broken")
    yield scans(
        rule,
        "unchangeable-and-a-call",
        pickled(b")K\x01a" + SYSTEM),
        "dangerous",
        "broken",
        "dangerous-name",
        "odd-pickle",
    )


def keys() -> Iterator[Vector]:
    rule = Rule("14.1", "keys and members of a set that have no hash")
    for name, fragment in {
        "list": b"}]K\x01s", "in-a-tuple": b"}]\x85K\x01s", "member": b"\x8f(}\x90", "frozen": b"(]\x91",
        "popped": b"}]K\x01s0N", "ordered": b"ccollections\nOrderedDict\n)R]K\x01s",
    }.items():  # fmt: skip
        yield scans(rule, f"unhashable-{name}", pickled(fragment), "broken", "broken")
    rule = Rule("14.1", "more than `pickle_nodes` parts of keys in total.")
    yield scans(rule, "hashing-without-end", pickled(b"})" + b"2\x86" * 60 + b"Ns"), "broken", "broken")
    yield scans(rule, "hashing-that-ends", pickled(b"})" + b"2\x86" * 8 + b"Ns"), "clean")
    rule = Rule("14.1", "that need more than 32 steps from slot to slot each, in CPython's tables")
    rule_of_calls = Rule("14.1", "more than `other_keys` keys of one table that are calls")
    calls = b"".join(b"cbuiltins\ncomplex\nK\x00M" + at.to_bytes(2, "little") + b"\x86RN" for at in range(1025))
    yield scans(
        rule_of_calls, "keys-of-calls", pickled(b"}(" + calls + b"u"), "broken", "broken", "unchecked-arguments"
    )
    for name, step in (("colliding", 2**61 - 1), ("spread", 12_345)):
        numbers = b"".join(b"\x8a\x0a" + (1 + at * step).to_bytes(10, "little") + b"N" for at in range(1500))
        verdict, rules = ("broken", ("broken",)) if name == "colliding" else ("clean", ())
        yield scans(rule, f"keys-{name}", pickled(b"}(" + numbers + b"u"), verdict, *rules)


def frames() -> Iterator[Vector]:
    rule = Rule("14.1", "If a frame ends inside an argument, unpicklers differ, and each interpretation is examined")

    def framed(size: int, body: bytes) -> bytes:
        return b"\x80\x04\x95" + size.to_bytes(8, "little") + body

    system = b"posix\nsystem\n" + text("true") + b"\x85R."
    yield scans(rule, "frame-in-a-line", framed(5, b"cjson" + system), "dangerous", "broken", "dangerous-name")
    yield scans(rule, "frame-in-a-line-ignored", framed(2, b"c" + system), "dangerous", "broken", "dangerous-name")
    rule = Rule("14.1", "More than one such frame in one interpretation is `ambiguous-frame`.")
    twice = framed(3, b"I12") + b"3\n0" + framed(3, b"I12")[2:] + b"3\n."
    yield scans(rule, "frames-in-two-lines", twice, "dangerous", "ambiguous-frame", "broken")
    rule = Rule("14.1", "After STOP, another pickle may begin there and at the end of the frame.")
    behind = framed(4, b"N.\xff\xff") + PAYLOAD
    yield scans(rule, "behind-a-frame", behind, "dangerous", "dangerous-name", "odd-pickle")
    rule = Rule("14.2", "torch's files contain several in a row, and all are examined.")
    yield scans(rule, "two-hundred-pickles", pickled(b"N") * 200 + PAYLOAD, "dangerous", "dangerous-name")


def imports_and_calls() -> Iterator[Vector]:
    rule = Rule(
        "14.1", "a name that is not known is called, now or later, or a name is known to run, import, open or connect"
    )
    for name, fragment in {
        "system": SYSTEM, "system-named": b"cos\nsystem\n", "eval": b"cbuiltins\neval\n" + text("1") + b"\x85R",
        "popen": b"csubprocess\nPopen\n" + text("true") + b"\x85\x81", "getattr": b"cbuiltins\ngetattr\n",
        "open": b"cbuiltins\nopen\n", "socket": b"csocket\nsocket\n)R", "import": b"cimportlib\nimport_module\n",
        "posix": b"cposix\nsystem\n", "runpy": b"crunpy\nrun_path\n", "sb3-gadget": b"cstable_baselines3.common.save_util\nload_from_pkl\n",
        "torch-load": b"ctorch\nload\n", "cloudpickle": b"ccloudpickle\nloads\n", "popped-call": SYSTEM + b"0N",
    }.items():  # fmt: skip
        yield scans(rule, name, document(pickled(fragment)), "dangerous", "dangerous-name")
    rule = Rule(
        "14.1",
        "A name that is computed, taken from the copyreg registry, or called although another call returned it, is `computed-name`.",
    )
    joined = b"cbuiltins\nstr\n" + text("os") + b"\x85R" + text("system") + b"\x93"
    yield scans(rule, "computed-name", document(pickled(joined)), "dangerous", "computed-name", "unknown-call")
    python2 = Rule("14.1", "Every row of every log (5.3)")
    commands = b"\x80\x02ccommands\ngetoutput\n" + text("true") + b"\x85R."
    yield scans(python2, "python-2-name", document(commands), "dangerous", "dangerous-name")


def values() -> Iterator[Vector]:
    rule = Rule(
        "14.1",
        "A text under `env` is the environment that SB3 creates, from any module: dangerous. Anything else there is unknown.",
    )
    yield scans(rule, "env-text", b'{"env": "evil_module:Env-v0"}', "dangerous", "dangerous-name")
    yield scans(rule, "env-null", b'{"env": null}', "clean")
    rule = Rule("14.1", "SB3 connects to an address under `tensorboard_log`: dangerous.")
    log = b'{"tensorboard_log": "%s"}'
    yield scans(rule, "tensorboard-address", log % b"ftp://host/logs", "dangerous", "dangerous-name")
    yield scans(rule, "tensorboard-folder", log % b"logs/ppo", "clean")
    rule = Rule(
        "14.1",
        "`not-known` unless it names a server, as `ftp://`, or is a chain of addresses; and unknown if it is `file://` and a local path.",
    )
    for name, path in (("s3", b"s3://bucket/logs"), ("gs", b"gs://bucket/logs"), ("hf", b"hf://bucket/logs")):
        yield scans(rule, f"tensorboard-{name}", log % path, "dangerous", "dangerous-name", harmful=False)
    yield scans(rule, "tensorboard-file", log % b"file:///tmp/logs", "unknown", "unknown-name")
    yield scans(rule, "tensorboard-localhost", log % b"file://localhost/logs", "unknown", "unknown-name")
    colons = Rule("14.1", "Without `://`, only a UNC path is an address.")
    yield scans(colons, "tensorboard-colons", log % b"logs/PPO::CartPole", "clean")
    yield scans(colons, "tensorboard-unc", log % b"//host/logs", "dangerous", "dangerous-name")
    for name, path in (("file-host", b"file:////host/logs"), ("chain", b"s3://bucket/x::zip://y")):
        yield scans(rule, f"tensorboard-{name}", log % path, "dangerous", "dangerous-name")
    yield from descriptions()
    yield from arguments()
    yield from memory()
    rule = Rule(
        "14.1",
        "Those of 1.2 are known; a path of three or more parts, through `ctypes` or a dunder is dangerous; any other is unknown.",
    )
    for name, entry, verdict, rules in (
        ("entry-known", "actor.optimizer.pth", "clean", ()),
        ("entry-unknown", "critic.pth", "unknown", ("unknown-entry",)),
        ("entry-dunder", "policy.__class__.pth", "dangerous", ("dangerous-name",)),
        ("entry-deep", "policy.optimizer.state.pth", "dangerous", ("dangerous-name",)),
    ):
        made = build_zip(Member(b"data", b"{}"), Member(entry.encode(), state_dict_zip(POLICY)))
        yield scans(rule, name, made, verdict, *rules)


def descriptions() -> Iterator[Vector]:
    rule = Rule("14.1", "a description of an environment (`EnvSpec`), with which `gym.make` imports what it names")
    state = b"}(" + text("id") + text("CartPole-v1") + text("entry_point") + text("gym.envs:CartPole") + b"ub"
    for library in ("gym", "gymnasium"):
        cls = f"c{library}.envs.registration\nEnvSpec\n".encode()
        yield scans(rule, f"envspec-{library}", pickled(cls + b")\x81" + state), "unknown", "unknown-name")
    rule = Rule("14.1", "A class of such descriptions, and of SB2's data sets, is not known as a value")
    yield scans(rule, "envspec-class", pickled(b"cgym.envs.registration\nEnvSpec\n"), "dangerous", "dangerous-name")
    data_set = b"cstable_baselines.gail.dataset.dataset\nExpertDataset\n"
    empty = document(pickled(data_set + b")\x81}" + text("dataloader") + b"Nsb"), "expert_dataset")
    yield scans(rule, "sb2-data-set", empty, "clean")
    yield scans(rule, "sb2-data-set-class", document(pickled(data_set), "policy_kwargs"), "dangerous", "called-name")


def arguments() -> Iterator[Vector]:
    rule = Rule("14.1", "These are not harmful themselves; their arguments have findings of their own:")
    mine, command = b"cmy_package\nmake\n", b"cos\nsystem\n"
    state = b"\x85R(%s)}Ntb"
    for name, callee, verdict in (("mine", mine, "called-name"), ("command", command, "dangerous-name")):
        made = b"cfunctools\npartial\n" + callee + state % callee
        rules = ("unchecked-arguments", verdict)
        yield scans(rule, f"partial-{name}", document(pickled(made), "learning_rate"), "dangerous", *rules)
    made = b"ccopyreg\n_reconstructor\n(cmy_package\nThing\ncbuiltins\nobject\nNtR}b"
    rules = ("called-name", "unchecked-arguments")
    yield scans(rule, "reconstructor-object", document(pickled(made)), "dangerous", *rules)
    made = b"ccopyreg\n_reconstructor\n(cmy_package\nThing\ncbuiltins\ntype\nNtR}b"
    yield scans(rule, "reconstructor-type", document(pickled(made)), "dangerous", "called-name", "dangerous-name")
    made = b"cbuiltins\ngetattr\n(cmy_package\nThing\n)\x81" + text("value") + b"tR"
    rules = ("unchecked-arguments", "unknown-name", "unknown-object")
    yield scans(rule, "method-of-an-object", document(pickled(made), "x"), "dangerous", *rules)
    named = b"(cmy_package\nThing\ncbuiltins\ntuple\n)tR"
    rules = ("unchecked-arguments", "called-name")
    yield scans(
        rule, "reconstructor-tuple", document(pickled(b"ccopyreg\n_reconstructor\n" + named)), "dangerous", *rules
    )
    for name, given, rules in (
        ("mine", mine, ("unknown-call", "unknown-name")),
        ("command", command, ("dangerous-name", "unknown-call", "unknown-name")),
    ):
        made = b"cbuiltins\nmap\n" + given + b"](K\x01e\x86R"
        yield scans(rule, f"map-{name}", document(pickled(made)), "dangerous", *rules)
    rule = Rule(
        "14.1",
        "by which no harmful name is reached: the name in the module, in the class, or in the class of the object",
    )
    for name, owner, attribute, rules in (
        ("function-of-torch", b"ctorch._C\n_VariableFunctionsClass\n", "tanh", ("called-name", "unchecked-arguments")),
        ("dunder", b"cmy_package\nmake\n", "__globals__", ("called-name", "dangerous-name")),
    ):
        made = b"cbuiltins\ngetattr\n(" + owner + text(attribute) + b"tR"
        yield scans(rule, f"getattr-{name}", document(pickled(made)), "dangerous", *rules)
    rule = Rule("14.1", "that only hold values or compute something (`http.HTTPStatus`, `os.getcwd`)")
    yield scans(rule, "harmless-name", document(pickled(b"chttp\nHTTPStatus\n")), "unknown", "unknown-name")
    rule = Rule("14.1", "A code object in a pickle without a function is `carried-function` too.")
    kind = b"ccloudpickle.cloudpickle\n_builtin_type\n" + text("CodeType") + b"\x85R"
    numbers = b"K\x00K\x00K\x00K\x00K\x01K\x40"
    rest = b"C\x00N\x85))" + text("f") * 3 + b"K\x01C\x00C\x00))"
    made = kind + b"(" + numbers + rest + b"tR"
    yield scans(rule, "code-without-a-function", document(pickled(made)), "code", "carried-function")
    rule = Rule(
        "13.6",
        "which protocols 0 and 1 write, is the same as NEWOBJ of the class for these objects, spaces and schedules.",
    )
    state = b"}" + text("val") + b"G?\xf0" + bytes(6) + b"sb"
    made = (
        b"ccopyreg\n_reconstructor\n(cstable_baselines3.common.utils\nConstantSchedule\ncbuiltins\nobject\nNtR" + state
    )
    yield scans(rule, "reconstructor-schedule", document(pickled(made), "lr_schedule"), "clean")
    rule = Rule("13.6", "is the name in that module if it is one of 13.2 or 13.3 and is called.")
    for name, module, function, verdict, rules in (
        ("numpy", "numpy.core.multiarray", "scalar", "clean", ()),
        ("os", "os", "system", "dangerous", ("computed-name", "dangerous-name", "unchecked-arguments")),
    ):
        module_of = b"ccloudpickle.cloudpickle\nsubimport\n" + text(module) + b"\x85R"
        getter = b"cdill._dill\n_get_attr\n(" + module_of + text(function) + b"tR"
        dtype = b"cnumpy\ndtype\n(" + text("i1") + b"\x89\x88tR"
        made = getter + b"(" + dtype + b"C\x01\x07tR"
        yield scans(rule, f"dill-{name}", document(pickled(made)), verdict, *rules)


def memory() -> Iterator[Vector]:
    rule = Rule("14.1", "for the BUILD of a numpy dtype that is not one of 6.6 or 13.2")
    minus, date = b"J\xff\xff\xff\xff" * 2, b"}(C\x02usK\x01K\x01K\x01t\x86"
    for name, code, state, verdict in (
        ("pointers", "i8", b"(K\x03" + text("|") + b"NNN" + minus + b"K?tb", "dangerous"),
        ("alignment", "V8", b"(K\x03" + text("|") + b"NNNK\x08K\x00K\x00tb", "dangerous"),
        ("dates-without-a-unit", "M8", b"(K\x04" + text("<") + b"NNN" + minus + b"K\x00tb", "dangerous"),
        ("dates", "M8", b"(K\x04" + text("<") + b"NNN" + minus + b"K\x00" + date + b"tb", "unknown"),
        ("wide-floats", "f16", b"(K\x03" + text("<") + b"NNN" + minus + b"K\x00tb", "unknown"),
    ):
        made = b"cnumpy\ndtype\n(" + text(code) + b"\x89\x88tR" + state
        yield scans(rule, f"dtype-{name}", document(pickled(made)), verdict, "unchecked-arguments")
    rule = Rule("14.1", "The scanner checks the indices of every sparse tensor")
    yield scans(rule, "sparse", in_layout("csr", CSR_DATA), "clean")
    outside = in_layout("csr", {**CSR_DATA, "c": struct.pack("<3q", 0, 9, 2)})
    yield scans(rule, "sparse-outside", outside, "dangerous", "unchecked-arguments", harmful=True)
    yield scans(rule, "sparse-size", in_layout("csr", CSR_DATA, size=(3, 3)), "dangerous", "unchecked-arguments")
    rule = Rule("14.1", "a storage that no tensor uses, which SB3 cannot load - a device of a type that no release")
    yield scans(rule, "storage-alone", pth([storage(8)], DATA), "unknown", "odd-pickle")
    for name, kind, findings in (
        ("cpu", "cpu", ()),
        ("empty", "", ("unchecked-arguments",)),
        ("auto", "auto", ("unchecked-arguments",)),
    ):
        made = b"ctorch\ndevice\n" + text(kind) + b"\x85R"
        yield scans(
            rule, f"device-{name}", document(pickled(made), "device"), "unknown" if findings else "clean", *findings
        )


def hidden() -> Iterator[Vector]:
    rule = Rule(
        "14.2",
        "archives, zipped or not; lone `.pth`; pickles; `data`; any other file or entry that is a zip or a pickle, whatever its name.",
    )
    evil = torch_zip({"data.pkl": PAYLOAD, "version": b"3\n"})
    yield scans(rule, "in-a-lone-pth", evil, "dangerous", "dangerous-name")
    yield scans(rule, "in-an-archives-pth", sb3_archive(entries={"policy.pth": evil}), "dangerous", "dangerous-name")
    yield scans(rule, "bare-pickle-payload", PAYLOAD, "dangerous", "dangerous-name")
    yield scans(rule, "other-entry", sb3_archive(entries={"notes.txt": PAYLOAD}), "dangerous", "dangerous-name")
    inner = build_zip(Member(b"stats.pkl", PAYLOAD, DEFLATED))
    yield scans(rule, "zip-in-an-entry", sb3_archive(entries={"backup.bin": inner}), "dangerous", "dangerous-name")
    rule = Rule("14.2", "a `:serialized:` deeper than 3.2, which SB3 ignores")
    deep = json.dumps({"a": {"b": {":serialized:": encoded(PAYLOAD)}}}).encode()
    yield scans(rule, "deeper-blob", deep, "dangerous", "dangerous-name", "hidden-blob")
    rule = Rule("14.2", "each base64 interpretation of text that is not canonical")
    text_ = encoded(PAYLOAD)
    spaced = json.dumps({"x": {":serialized:": "\n".join([text_[:20], text_[20:]])}}).encode()
    yield scans(rule, "base64-newline", spaced, "dangerous", "dangerous-name", "lenient-base64")
    rule = Rule("14.2", "bytes after STOP")
    behind = pickled(b"N") + PAYLOAD
    yield scans(rule, "behind-stop", document(behind), "dangerous", "dangerous-name", "trailing-bytes")
    rule = Rule("14.2", "bytes within pickles that are pickles, torch files or zips")
    nested = pickled(b"C" + bytes([len(PAYLOAD)]) + PAYLOAD)
    yield scans(rule, "pickle-in-a-pickle", document(nested), "dangerous", "dangerous-name")


def broken() -> Iterator[Vector]:
    rule = Rule("14.1", "Imports and calls before a fault count, because they happen.")
    yield scans(rule, "broken-blob", document(b"\x80\x04K"), "broken", "broken")
    yield scans(
        rule, "call-before-a-fault", document(b"\x80\x02" + SYSTEM + b"\xff"), "dangerous", "broken", "dangerous-name"
    )
    rule = Rule(
        "14.2", "A file that violates section 2 or 3 is broken, and is still examined as a more lenient reader would"
    )
    whole = sb3_archive(entries={"policy.pth": torch_zip({"data.pkl": PAYLOAD, "version": b"3\n"})})
    yield scans(rule, "cut-archive", whole[:-30], "dangerous", "broken", "dangerous-name")
    twice = build_zip(Member(b"data", document(PAYLOAD)), Member(b"data", b"{}"))
    yield scans(rule, "two-data", twice, "dangerous", "broken", "dangerous-name")
    yield scans(
        rule,
        "no-json",
        b'{"x": {":serialized:": "' + encoded(PAYLOAD).encode() + b'"',
        "dangerous",
        "broken",
        "dangerous-name",
    )


def yaml() -> Iterator[Vector]:
    rule = Rule("14.2", "A file or entry of any name is searched for YAML tags")
    called, text_ = b"!!python/object/apply:os.system ['true']\n", "unknown-entry"
    for name, data in {
        "yaml-tag": called,
        "yaml-tag-verbatim": b"a: !<tag:yaml.org,2002:python/object/apply:os.system> ['true']\n",
        "yaml-tag-escaped": b"a: !!%70ython/object/apply:os.system ['true']\n",
        "yaml-tag-with-a-handle": b"%TAG !e! tag:yaml.org,2002:pyth\n---\na: !e!on/object/apply:os.system ['true']\n",
        "yaml-tag-with-a-handle-of-another-document": b"%TAG ! t\n--- 1\n--- !ag:yaml.org,2002:python/name:os.system 1\n",
        "yaml-tag-in-utf-16": called.decode().encode("utf-16"),
        "yaml-tag-in-utf-16-without-a-mark": called.decode().encode("utf-16-be"),
        "yaml-tag-in-utf-32": called.decode().encode("utf-32"),
    }.items():
        rules = ("python-tag", text_)
        yield scans(rule, name, data, "dangerous", *rules)
    archive = sb3_archive(entries={"config.yml": called})
    yield scans(rule, "yaml-tag-in-an-entry", archive, "dangerous", "python-tag")
    rule = Rule("14.2", "whatever is spelled as a tag of a Python object is judged as one")
    comment = b'# \xc2\x85a: "\nb: !!python/object/apply:os.system [x]\n# "\n'
    yield scans(rule, "yaml-tag-in-one-of-two-encodings", comment, "dangerous", "python-tag", text_)
    yield scans(rule, "yaml-tag-in-a-comment", b"# " + called, "dangerous", "python-tag", text_)
    yield scans(rule, "yaml-no-tag", b"!python/name:os.system\n!!str python/name:os.system\n", "unknown", text_)
    rule = Rule("14.2", "except for calls of `collections.OrderedDict`")
    plain = b"!!python/object/apply:collections.OrderedDict\n- - - a\n    - !!python/tuple [1]\n"
    yield scans(rule, "yaml-ordered-dict", plain, "unknown", text_)
