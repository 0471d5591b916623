"""Lengths of paths with keys of each kind: found with mutants of a decoder (FORMAT.md 6.7, 8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.build_pth import ordered
from conformance.generators.build_torch_zips import pth
from conformance.generators.value_limits import Counted
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

KEYS: Final[dict[str, tuple[object, ...]]] = {
    "floats": (
        0.5, -1.5, 123456.789, 12.5, 1e15, 1234567890123456.0, 1e16, 1.5e16, -1e16, 1e22, 1e99, 1e100, 1.5e100,
        0.0001, 0.00015, 0.00123, 0.1, 1e-05, 1.5e-05, -1e-05, 1e-09, 1e-10, 1e-99, 1e-100, 5e-324,
        float("inf"), float("-inf"),
    ),
    "zeros": (0.0,),
    "negative-zeros": (-0.0,),
    "integers": (
        -1, 1000, 2**53, -(2**53), 2**64 - 1, 2**64, 1 - 2**64, -(2**64), 2**70, None,
    ),
    "bools": (False, True),
    "texts-in-tuples": tuple(
        (text,)
        for text in (
            "", "a", "a'", 'a"', "a'\"", "a''\"", "a'\"\"", "\u0600", "\\", "\n", "\r", "\t", "\0", "\x1f", "\x7f", "\xa0", "\xad", "é", " ",
            "a~", "a/", "~/~/", "[", "\u20ac", "\u2028", "\u3000", "\ud800", "\U0001f600", "\U000e0001",
        )
    ),
    "bytes": (
        b"", b"a", b"a'", b'a"', b"a'\"", b"\\", b"\n", b"\r", b"\t", b"\0", b"\x1f", b" ", b"~", b"/", b"\x7f", b"\x80",
        b"\xa0", b"\xff",
    ),
    "tuples": ((), (1,), (1, 2), (None, True, False), (0.5, b"\xff", "~", -(2**64)), (1, 2, 3, 4, 5, 6, 7, 8)),
    "texts": ("a", "a~", "~", "/", "a/b/", "[", "a[", "[[", "[~", "é", "\U0001f600", "'", "\n", ""),
}  # fmt: skip
"""Keys whose segments differ in how they are written."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    written = Rule("6.7", "So is every key that is not text, as Python's `repr`, with `~` and `/` escaped")
    texts = Rule("6.7", "A text key is written unchanged, except that `~` becomes `~0`, `/` becomes `~1`")
    for name, keys in KEYS.items():
        yield from lengths(texts if name == "texts" else written, name, keys)
    yield from containers()


def containers() -> Iterator[Vector]:
    """Paths of 255 and 256 characters to items, and to the metadata of a dict."""
    count = Counted("leaves", "sum of leaves(part, path of the part) for each item of a list or tuple, value of a dict")
    yield from count.needs("a-tuple", 4, [(1, 2)], expected.plain([(1, 2)]))
    for length, leaves in ((255, 13), (256, 14)):
        for name, items in {"a-list": [None] * 11, "a-tuple": (None,) * 11}.items():
            tree = {"k" * (length - len("/[10]")): items}
            yield from count.needs(f"a-path-of-{length}-to-an-item-of-{name}", leaves, tree, expected.plain(tree))
    count = Counted("leaves", "are each a value with the path of what they belong to")
    for length, leaves in ((255, 3), (256, 5)):
        key = "k" * length
        held = {"dict": [[key, expected.ordered_dict({}, expected.ordered_dict({}))]]}
        yield from count.needs(f"a-path-of-{length}-to-metadata", leaves, {key: ordered({}, ordered())}, held)


def lengths(rule: Rule, name: str, keys: tuple[object, ...]) -> Iterator[Vector]:
    """Paths of 256 characters, which count twice, and of 255, which count once, with each key as the last one."""
    for length, times in ((256, 2), (255, 1)):
        tree = {beginning(index, key, length): {key: None} for index, key in enumerate(keys)}
        leaves = 1 + len(keys) * (1 + times)
        held = expected.lone({"dict": [[start, expected.plain(inner)] for start, inner in tree.items()]})
        limits = [("--limit", f"leaves={count}") for count in (leaves, leaves - 1)]
        title = f"path-of-{length}-with-{name}"
        yield rule.accepts(f"{title}-kept", pth(tree), held, *limits[0])
        yield rule.refuses(f"{title}-passed", pth(tree), "limit exceeded", *limits[1])


def beginning(index: int, key: object, length: int) -> str:
    """The first key of a path that has this many characters with another key after it."""
    return f"{index:02}".ljust(length - 1 - len(segment(key)), "k")


def segment(key: object) -> str:
    """How a key is written in a path."""
    if not isinstance(key, str):
        text = hex(key) if type(key) is int and abs(key) >= 1 << 64 else repr(key)
        if isinstance(key, tuple):
            text = text.replace(str(1 << 64), hex(1 << 64))
        return f"[{text.replace('~', '~0').replace('/', '~1')}]"
    escaped = key.replace("~", "~0").replace("/", "~1")
    return (f"~2{escaped[1:]}" if escaped[:1] == "[" else escaped) or "~3"
