"""What loading a file would run, import or not understand (FORMAT.md 14).

Every payload would be harmless if it ran (``os.system("true")``), and none ever does: they are data to look at.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from making import DEFLATED, POLICY, Member, build_zip, sb3_archive, state_dict_zip, torch_zip
from making_pth import text
from vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM: Final = b"cos\nsystem\n" + text("true") + b"\x85R"
"""A call of ``os.system``."""
PAYLOAD: Final = b"\x80\x02" + SYSTEM + b"."


def vectors() -> Iterator[Vector]:
    """All of this family."""
    yield from clean()
    yield from understood_or_not()
    yield from imports_and_calls()
    yield from values()
    yield from hidden()
    yield from broken()
    yield from yaml()


def encoded(pickle: bytes) -> str:
    """Base64."""
    return base64.b64encode(pickle).decode("ascii")


def document(pickle: bytes, key: str = "x") -> bytes:
    """A bare ``data`` with one blob."""
    return json.dumps({key: {":type:": "<class 'object'>", ":serialized:": encoded(pickle)}}).encode()


def pickled(fragment: bytes, protocol: int = 4) -> bytes:
    """A pickle of opcodes that leave one value."""
    return b"\x80" + bytes([protocol]) + fragment + b"."


def found(verdict: str, *rules: str) -> dict[str, Any]:
    """What a decoder prints."""
    return {"verdict": verdict, "rules": sorted(rules)}


def scans(rule: Rule, name: str, data: bytes, verdict: str, *rules: str) -> Vector:
    """A file and its verdict."""
    return rule.accepts(f"scan-{name}", data, found(verdict, *rules), "--scan")


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


def understood_or_not() -> Iterator[Vector]:
    rule = Rule("14.1", "MUST be understood (13.1), or gives a finding.")
    known = b"cstable_baselines3.common.policies\nActorCriticPolicy\n"
    for name, fragment, verdict, rules in (
        ("known-name", known, "clean", ()),
        ("unknown-name", b"cmy_package\nMyPolicy\n", "unknown", ("unknown-name",)),
        (
            "unknown-submodule",
            b"cstable_baselines3.common.policies.more\nActorCriticPolicy\n",
            "unknown",
            ("unknown-name",),
        ),
        ("unknown-object", b"cmy_package\nThing\n)\x81", "unknown", ("unknown-name", "unknown-object")),
        ("unknown-call", b"cmy_package\nmake\n)R", "dangerous", ("unknown-call", "unknown-name")),
        ("unknown-inst", b"(imy_package\nmake\n", "dangerous", ("unknown-call", "unknown-name")),
        ("unknown-obj", b"(cmy_package\nmake\no", "dangerous", ("unknown-call", "unknown-name")),
        ("popped-name", b"cmy_package\nThing\n0N", "unknown", ("unknown-name",)),
        ("extension", b"\x82\x01", "dangerous", ("computed-name",)),
    ):
        yield scans(rule, name, document(pickled(fragment), "policy_class"), verdict, *rules)


def imports_and_calls() -> Iterator[Vector]:
    rule = Rule("14.1", "an unknown name is called, or one is named that runs, imports, opens or connects")
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
        "A name that is computed, taken from the copyreg registry, or called though another call gave it, is `computed-name`.",
    )
    joined = b"cbuiltins\nstr\n" + text("os") + b"\x85R" + text("system") + b"\x93"
    yield scans(rule, "computed-name", document(pickled(joined)), "dangerous", "computed-name", "unknown-call")
    python2 = Rule("14.1", "Every row of every log (5.3)")
    commands = b"\x80\x02ccommands\ngetoutput\n" + text("true") + b"\x85R."
    yield scans(python2, "python-2-name", document(commands), "dangerous", "dangerous-name")


def values() -> Iterator[Vector]:
    rule = Rule(
        "14.1",
        "A text under `env` is the environment that SB3 makes, from any module (dangerous; anything else there is unknown)",
    )
    yield scans(rule, "env-text", b'{"env": "evil_module:Env-v0"}', "dangerous", "dangerous-name")
    yield scans(rule, "env-null", b'{"env": null}', "clean")
    rule = Rule("14.1", "`tensorboard_log` is connected to (dangerous)")
    yield scans(rule, "tensorboard-address", b'{"tensorboard_log": "gs://bucket/logs"}', "dangerous", "dangerous-name")
    yield scans(rule, "tensorboard-folder", b'{"tensorboard_log": "logs/ppo"}', "clean")
    rule = Rule(
        "14.1",
        "those of 1.2 are known, a path of three or more parts, through `ctypes` or a dunder is dangerous, any other unknown.",
    )
    for name, entry, verdict, rules in (
        ("entry-known", "actor.optimizer.pth", "clean", ()),
        ("entry-unknown", "critic.pth", "unknown", ("unknown-entry",)),
        ("entry-dunder", "policy.__class__.pth", "dangerous", ("dangerous-name",)),
        ("entry-deep", "policy.optimizer.state.pth", "dangerous", ("dangerous-name",)),
    ):
        made = build_zip(Member(b"data", b"{}"), Member(entry.encode(), state_dict_zip(POLICY)))
        yield scans(rule, name, made, verdict, *rules)


def hidden() -> Iterator[Vector]:
    rule = Rule(
        "14.2",
        "Archives, zipped or not; lone `.pth`; pickles; `data`; any other file or entry that is a zip or a pickle, whatever its name.",
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
    rule = Rule("14.2", "each base64 reading of text that is not canonical")
    text_ = encoded(PAYLOAD)
    spaced = json.dumps({"x": {":serialized:": "\n".join([text_[:20], text_[20:]])}}).encode()
    yield scans(rule, "base64-newline", spaced, "dangerous", "dangerous-name", "lenient-base64")
    rule = Rule("14.2", "bytes behind STOP")
    behind = pickled(b"N") + PAYLOAD
    yield scans(rule, "behind-stop", document(behind), "dangerous", "dangerous-name", "trailing-bytes")
    rule = Rule("14.2", "bytes within pickles that are pickles, torch files or zips")
    nested = pickled(b"C" + bytes([len(PAYLOAD)]) + PAYLOAD)
    yield scans(rule, "pickle-in-a-pickle", document(nested), "dangerous", "dangerous-name")


def broken() -> Iterator[Vector]:
    rule = Rule("14.1", "Imports and calls before a fault count: they happen.")
    yield scans(rule, "broken-blob", document(b"\x80\x04K"), "broken", "broken")
    yield scans(
        rule, "call-before-a-fault", document(b"\x80\x02" + SYSTEM + b"\xff"), "dangerous", "broken", "dangerous-name"
    )
    rule = Rule(
        "14.2", "What breaks section 2 or 3 is broken, and is looked into all the same as a more lenient reader would"
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
    rule = Rule("14.2", "Text of any name is read as YAML")
    called, text_ = b"!!python/object/apply:os.system ['true']\n", "unknown-entry"
    for name, data in {
        "yaml-tag": called,
        "yaml-tag-verbatim": b"a: !<tag:yaml.org,2002:python/object/apply:os.system> ['true']\n",
        "yaml-tag-escaped": b"a: !!%70ython/object/apply:os.system ['true']\n",
        "yaml-tag-with-a-handle": b"%TAG !e! tag:yaml.org,2002:pyth\n---\na: !e!on/object/apply:os.system ['true']\n",
        "yaml-tag-in-utf-16": called.decode().encode("utf-16"),
    }.items():
        rules = ("python-tag", text_)
        yield scans(rule, name, data, "dangerous", *rules)
    archive = sb3_archive(entries={"config.yml": called})
    yield scans(rule, "yaml-tag-in-an-entry", archive, "dangerous", "python-tag")
    rule = Rule("14.2", "in comments, quoted\ntexts and blocks of text there are no tags")
    quoted = b"# !!python/name:os.system\na: '!!python/name:os.system'\nb: |\n  !!python/name:os.system\n"
    yield scans(rule, "yaml-no-tag", quoted, "unknown", text_)
    rule = Rule("14.2", "but for calls of `collections.OrderedDict`")
    plain = b"!!python/object/apply:collections.OrderedDict\n- - - a\n    - !!python/tuple [1]\n"
    yield scans(rule, "yaml-ordered-dict", plain, "unknown", text_)
