"""Pickles in a bare ``data``, and the trees that ``--blob`` prints for them, built from plain facts."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from conformance.generators import expected
from conformance.generators.vectors import Rule, Vector

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY: Final = "x"


class Node:
    """A node of a tree: its fields by the words of the protocol, in order; a Node among them is a reference.

    Nodes are compared by identity: each opcode creates a node of its own.
    """

    def __init__(self, **facts: object) -> None:
        self.facts = facts

    def holds(self, *parts: object) -> Node:
        """Add parts to a list, tuple, set or frozenset, for values that contain themselves."""
        (held,) = self.facts.values()
        held.extend(parts)  # type: ignore[attr-defined]
        return self

    def changed(self, how: str, what: object) -> Node:
        """Add a change; its row of the log is :func:`change`."""
        self.facts.setdefault("changes", []).append({how: what})  # type: ignore[attr-defined]
        return self


def list_(*parts: object) -> Node:
    """A list."""
    return Node(list=[*parts])


def tuple_(*parts: object) -> Node:
    """A tuple of one part or more."""
    return Node(tuple=[*parts])


def set_(*parts: object) -> Node:
    """A set."""
    return Node(set=[*parts])


def frozenset_(*parts: object) -> Node:
    """A frozenset."""
    return Node(frozenset=[*parts])


def dict_(*pairs: Sequence[object]) -> Node:
    """A dict by its pairs."""
    return Node(dict=[[*pair] for pair in pairs])


def name(module: str = "m", attribute: str = "n") -> Node:
    """A Global."""
    return Node(**{"global": [module, attribute]})


def call(how: str, function: Node, arguments: object = (), **keywords: object) -> Node:
    """A call; NEWOBJ_EX has ``keywords``."""
    return Node(call=how, callable=function, arguments=arguments, **keywords)


def computed(module: object, attribute: object) -> Node:
    """A call of STACK_GLOBAL: a computed name."""
    return Node(call="STACK_GLOBAL", arguments=[module, attribute])


def persistent(key: object) -> Node:
    """A persistent id."""
    return Node(persistent=key)


def extension(code: int) -> Node:
    """An extension code."""
    return Node(extension=code)


def change(node: Node) -> dict[str, Node]:
    """A row of the log: this node was changed."""
    return {"changed": node}


class _Numbers:
    """Numbers of nodes, in the order of the first reference."""

    def __init__(self) -> None:
        self.found: list[Node] = []
        self._numbers: dict[int, int] = {}

    def shown(self, part: object) -> object:
        """A reference, or a value that contains references."""
        if isinstance(part, Node):
            if id(part) not in self._numbers:
                self._numbers[id(part)] = len(self.found)
                self.found.append(part)
            return {"node": self._numbers[id(part)]}
        if isinstance(part, list):
            return [self.shown(inner) for inner in part]
        if isinstance(part, dict):
            return {word: self.shown(inner) for word, inner in part.items()}
        return expected.plain(part)


def tree(value: object, *log: object, protocol: int = 0, flags: Sequence[str] = ()) -> dict[str, object]:
    """The expected output of ``--blob``: the value, and the rows of the log."""
    numbers = _Numbers()
    head = {"protocol": protocol, "value": numbers.shown(value), "log": [numbers.shown(row) for row in log]}
    nodes: list[object] = []
    while len(nodes) < len(numbers.found):
        nodes.append(numbers.shown(numbers.found[len(nodes)].facts))
    return {**head, "flags": sorted(flags), "nodes": nodes}


def data(*pickles: bytes) -> bytes:
    """A bare ``data`` that contains pickles, the first under :data:`KEY`."""
    texts = [base64.b64encode(pickle).decode("ascii") for pickle in pickles]
    keys = [KEY, *(f"{KEY}{number}" for number in range(1, len(texts)))]
    return json.dumps({key: {":serialized:": text} for key, text in zip(keys, texts)}).encode("ascii")


class PickleRule(Rule):
    """A rule whose vectors are pickles; ``limits`` are ``NAME=VALUE``."""

    def gives(self, vector: str, pickle: bytes, printed: dict[str, object], *limits: str) -> Vector:
        """A pickle that a reader must accept, and its tree."""
        return self.accepts(vector, data(pickle), printed, "--blob", KEY, *_arguments(limits))

    def fails(self, vector: str, pickle: bytes, *limits: str, outcome: str = "pickle failure") -> Vector:
        """A pickle that a reader must refuse."""
        return self.refuses(vector, data(pickle), outcome, "--blob", KEY, *_arguments(limits))

    def exceeds(self, vector: str, pickle: bytes, *limits: str) -> Vector:
        """A pickle that requires more than a limit allows."""
        return self.fails(vector, pickle, *limits, outcome="limit exceeded")


def _arguments(limits: Sequence[str]) -> list[str]:
    return [word for limit in limits for word in ("--limit", limit)]


# -- the bytes ----------------------------------------------------------------------------------------

GLOBAL: Final = b"cm\nn\n"
"""Of :func:`name`."""


def counted(size: int, raw: bytes, more: int = 0) -> bytes:
    """Bytes after their length, a field of ``size`` bytes; ``more`` is added to the length."""
    return (len(raw) + more).to_bytes(size, "little") + raw


def frame(body: bytes, size: int | None = None) -> bytes:
    """A FRAME around opcodes; ``size`` replaces its size."""
    return b"\x95" + (len(body) if size is None else size).to_bytes(8, "little") + body
