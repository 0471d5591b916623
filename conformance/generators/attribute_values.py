"""The values of a tensor's Python attributes: inert, in containers that follow the rules of others (FORMAT.md 6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_pth import EXIT, Apply, Pairs, Raw, storage
from conformance.generators.build_torch_zips import DATA, pth
from conformance.generators.constructors import TRUE, WHOLE, with_state
from conformance.generators.small_values import ENCODE
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

INERT: Final = {"inert": True}
NAN: Final = float("nan")


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from repeated()
    yield from keys()
    yield from inert()
    yield from within_themselves()


def tagged(state: list[list[Any]]) -> dict[str, Any]:
    """The expected output for a Parameter with this state."""
    return expected.lone({**WHOLE, "is_parameter": True, **TRUE, "state": {"dict": state}})


def repeated() -> Iterator[Vector]:
    rule = Rule("6.5", "`state` is a dict with text keys, none of them twice", "attributes")
    twice = Pairs(("a", 1), ("a", 2))
    yield rule.refuses("tensor-attribute-twice", pth(with_state(twice), DATA), "tensor failure")
    rule = Rule("6.5", "dicts in it are containers that follow the rules of 6.6 for keys", "attributes")
    yield rule.refuses("tensor-attributes-key-twice", pth(with_state({"d": twice}), DATA), "tensor failure")
    mixed = Pairs((1, "a"), (True, "b"))
    yield rule.refuses("tensor-attributes-keys-1-and-true", pth(with_state({"d": [mixed]}), DATA), "tensor failure")


def keys() -> Iterator[Vector]:
    rule = Rule("6.5", "dicts in it are containers that follow the rules of 6.6 for keys", "attributes")
    inner = {0: "a", None: "b", (1, "c"): "d"}
    made = pth(with_state({"d": inner}), DATA)
    yield rule.accepts("tensor-attributes-keys", made, tagged([["d", expected.plain(inner)]]))
    encoded = Pairs((Apply(ENCODE, ("a\xff", "latin1")), 1))
    held = tagged([["d", {"dict": [[expected.raw_bytes(b"a\xff"), 1]]}]])
    yield rule.accepts("tensor-attributes-key-of-bytes", pth(with_state({"d": encoded}), DATA), held)
    for name, key in {"list": [], "nan": NAN, "bytearray": bytearray(b"a"), "tuple-of-9": tuple(range(9))}.items():
        made = pth(with_state({"d": Pairs((key, 1))}), DATA)
        yield rule.refuses(f"tensor-attributes-key-{name}", made, "tensor failure")
    for name, key in {"global": EXIT, "call": Apply(EXIT, ()), "tuple-of-a-global": (EXIT,)}.items():
        made = pth(with_state({"d": Pairs((key, 1))}), DATA)
        yield rule.refuses(f"tensor-attributes-key-{name}", made, "unsupported")
    others = pth(with_state({"d": {5: 1, 6: 2}}), DATA)
    held = tagged([["d", expected.plain({5: 1, 6: 2})]])
    yield rule.accepts("tensor-attributes-other-keys-kept", others, held, "--limit", "other_keys=2")
    yield rule.refuses("tensor-attributes-other-keys-passed", others, "limit exceeded", "--limit", "other_keys=1")


def inert() -> Iterator[Vector]:
    rule = Rule("6.5", "All else, a set too, is kept without looking into it.", "attributes")
    for name, value in {
        "global": EXIT,
        "call": Apply(EXIT, ([Pairs((1, 2), (1, 3))],)),
        "storage": storage(8),
        "set": Raw(b"\x8f(K\1K\1\x90"),
        "frozenset": Raw(b"(]\x91"),
    }.items():
        held = tagged([["x", INERT], ["y", {"list": [INERT]}]])
        made = pth(with_state({"x": value, "y": [value]}), DATA)
        yield rule.accepts(f"tensor-attributes-of-a-{name}", made, held)


def within_themselves() -> Iterator[Vector]:
    rule = Rule("6.5", "depth and containers that contain themselves", "attributes")
    for name, value in {
        "list": Raw(b"]r\xff\0\0\0(j\xff\0\0\0e"),
        "dict": Raw(b"}r\xff\0\0\0(X\1\0\0\0aj\xff\0\0\0u"),
    }.items():
        made = pth(with_state({"x": value}), DATA)
        yield rule.refuses(f"tensor-attributes-{name}-in-itself", made, "tensor failure")
    state = Raw(b"}r\xff\0\0\0(X\1\0\0\0aj\xff\0\0\0u")
    yield rule.refuses("tensor-attributes-state-in-itself", pth(with_state(state), DATA), "tensor failure")
    shared = ["a"]
    made = pth(with_state({"x": shared, "y": [shared]}), DATA)
    held = tagged([["x", expected.plain(shared)], ["y", expected.plain([shared])]])
    yield rule.accepts("tensor-attributes-shared", made, held)
