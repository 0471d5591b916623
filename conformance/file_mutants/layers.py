"""Mutants by layer: which vectors they begin with, and which bytes of the file are changed.

A mutant of a layer has right bytes in all layers above: a pickle in ``policy.pth`` is changed, and the sizes, CRCs and
offsets of both zips are made right, so that a decoder comes as far as the pickle. The mutant is determined by the seed
of the run, the layer and its number.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from conformance.file_mutants import archives, zips
from conformance.file_mutants.chance import Chance
from conformance.file_mutants.opcodes import is_pickle
from conformance.file_mutants.pickles import change_pickle, change_stream, collect_values
from conformance.file_mutants.texts import change_json, find_pickle, replace_pickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DEEPEST: Final = 3
"""A bundle has an archive, which has a torch zip."""
_LEGACY_MAGIC: Final = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
_OTHER_ORDER: Final = {b"little": b"big", b"big": b"little"}
_HEADERS: Final = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08")
_HEADER_BYTES: Final = 46
_MOST_BYTES: Final = 1 << 18
"""Larger seeds take the time of many small ones."""


@dataclass(frozen=True)
class Seed:
    """A file that a mutant is made of, and the arguments of the decoder."""

    name: str
    content: bytes
    arguments: tuple[str, ...] = ()
    question: Any = None
    """The content of the file that ``--predict`` names, of a policy."""
    tolerance: float = 0.0
    """How far floats of a policy may differ."""

    def list_options(self) -> set[str]:
        """The names of the options of the decoder."""
        given = {word for word in self.arguments if word.startswith("--")}
        return given if self.question is None else {"--predict", *given}

    def value_of(self, argument: str) -> str | None:
        """The word after an argument."""
        if argument not in self.arguments[:-1]:
            return None
        return self.arguments[self.arguments.index(argument) + 1]


class Part(NamedTuple):
    """Bytes within a file: in members of zips, by their indices from the outermost zip."""

    path: tuple[int, ...]
    name: bytes
    content: bytes


def list_parts(content: bytes, path: tuple[int, ...] = (), name: bytes = b"") -> Iterator[Part]:
    """A file, and the members of zips in it, the inner ones too."""
    yield Part(path, name, content)
    if content.startswith(zips.LOCAL_SIGNATURE) and len(path) < _DEEPEST:
        found = zips.parse(content)
        for index, part in enumerate(found.parts if found else ()):
            yield from list_parts(part.data, (*path, index), part.name)


def replace_part(content: bytes, path: tuple[int, ...], new: bytes) -> bytes:
    """Put other bytes in the place of a part; sizes, CRCs and offsets become right."""
    if not path:
        return new
    found = zips.parse(content)
    assert found is not None
    part = found.parts[path[0]]
    part.replace(replace_part(part.data, path[1:], new))
    return zips.build(found)


# -- the parts of a layer -----------------------------------------------------------------------------


def _is_zip(_: Seed, part: Part) -> bool:
    return part.content.startswith(zips.LOCAL_SIGNATURE) and zips.parse(part.content) is not None


def _is_data(_: Seed, part: Part) -> bool:
    return part.name == b"data" or (not part.path and part.content.lstrip(b" \t\r\n").startswith(b"{"))


def _has_pickle(seed: Seed, part: Part) -> bool:
    return _is_data(seed, part) and find_pickle(part.content, _find_key(seed) or "") is not None


def _is_record(_: Seed, part: Part) -> bool:
    names = (b"/data.pkl", b"/version", b"/byteorder")
    return part.name.endswith(names) or b"/data/" in part.name


def _is_legacy(_: Seed, part: Part) -> bool:
    return _LEGACY_MAGIC in part.content[:32]


def _is_leaf(seed: Seed, part: Part) -> bool:
    return not _is_zip(seed, part)


def _find_key(seed: Seed) -> str | None:
    return seed.value_of("--blob") or seed.value_of("--schedule")


# -- changes of a part --------------------------------------------------------------------------------


def _change_zip(chance: Chance, _: Seed, content: bytes, __: Sequence[bytes]) -> bytes:
    """Change members, headers, or bytes; those of headers mostly."""
    kind = chance.randrange(3)
    if kind == 0:
        return chance.bytes_of(content)
    if kind == 1:
        places = [at for header in _HEADERS for at in _find_all(content, header)]
        at = chance.choice(places) + chance.randrange(_HEADER_BYTES)
        size = chance.choice((1, 2, 2, 4, 4, 8))
        number = chance.number(int.from_bytes(content[at : at + size], "little")) % 256**size
        return content[:at] + number.to_bytes(size, "little") + content[at + size :]
    found = zips.parse(content)
    assert found is not None
    if found.parts:
        archives.changed(chance, found)
    return zips.build(found)


def _find_all(content: bytes, header: bytes) -> Iterator[int]:
    at = content.find(header)
    while at >= 0:
        yield at
        at = content.find(header, at + 1)


def _change_data(chance: Chance, _: Seed, content: bytes, __: Sequence[bytes]) -> bytes:
    return change_json(chance, content)


def _change_serialized(chance: Chance, seed: Seed, content: bytes, donors: Sequence[bytes]) -> bytes:
    key = _find_key(seed) or ""
    return replace_pickle(content, key, change_pickle(chance, find_pickle(content, key) or b"N.", donors))


def _change_bytes(chance: Chance, content: bytes) -> bytes:
    """Change a record: other bytes, or more or fewer of them."""
    if content in _OTHER_ORDER and chance.one_in(2):
        return _OTHER_ORDER[content]
    if chance.one_in(2):
        return chance.bytes_of(content)
    size = len(content)
    wanted = chance.choice((0, size // 2, size * 2, size + 4, size + 1, max(size - 4, 0), 64))
    return (content + bytes(wanted))[:wanted]


def _change_leaf(chance: Chance, _: Seed, content: bytes, donors: Sequence[bytes]) -> bytes:
    """Change a pickle or several, JSON, or other bytes."""
    if is_pickle(content):
        return change_stream(chance, content, donors)
    if content.lstrip(b" \t\r\n").startswith(b"{"):
        return change_json(chance, content)
    return _change_bytes(chance, content)


class Layer(NamedTuple):
    """Which parts of which vectors are changed, and how."""

    arguments: tuple[str, ...]
    """The vector has the first of these, if there are any, and no others but ``--limit``, ``--entry`` and theirs."""
    is_part: Callable[[Seed, Part], bool]
    change: Callable[[Chance, Seed, bytes, Sequence[bytes]], bytes]


LAYERS: Final = {
    "container": Layer((), _is_zip, _change_zip),
    "data": Layer((), _is_data, _change_data),
    "pickle": Layer(("--blob",), _has_pickle, _change_serialized),
    "tensor": Layer((), _is_record, _change_leaf),
    "legacy": Layer((), _is_legacy, _change_leaf),
    "statistics": Layer(("--statistics",), _is_leaf, _change_leaf),
    "replay-buffer": Layer(("--replay-buffer",), _is_leaf, _change_leaf),
    "other-formats": Layer(("--other-formats",), _is_leaf, _change_leaf),
    "schedule": Layer(("--schedule",), _has_pickle, _change_serialized),
    "algorithm": Layer(("--algorithm", "--other-formats"), _is_data, _change_data),
    "policy": Layer(("--predict",), _is_leaf, _change_leaf),
}
"""By the name of ``--layer``."""
_ALWAYS: Final = ("--limit", "--entry", "--unchecked-crc")


def fits(layer: Layer, seed: Seed) -> bool:
    """Say whether a file belongs to a layer by its arguments and size."""
    wanted = set(layer.arguments[:1])
    return len(seed.content) <= _MOST_BYTES and wanted <= seed.list_options() <= {*layer.arguments, *_ALWAYS}


class Mutants:
    """The mutants of a layer.

    :param name: of the layer
    :param seeds: files; those that do not fit the layer are not used
    """

    def __init__(self, name: str, seeds: Sequence[Seed], seed: int) -> None:
        self.name = name
        self._layer = LAYERS[name]
        self._seed = seed
        self._places = [
            (one, parts)
            for one in seeds
            if fits(self._layer, one)
            and (parts := [part for part in list_parts(one.content) if self._layer.is_part(one, part)])
        ]
        self._donors = collect_values([pickle for one, parts in self._places for pickle in self._pickles(one, parts)])

    def __len__(self) -> int:
        return len(self._places)

    def _pickles(self, seed: Seed, parts: Sequence[Part]) -> Iterator[bytes]:
        for part in parts:
            if self._layer.is_part is _has_pickle:
                yield find_pickle(part.content, _find_key(seed) or "") or b""
            elif is_pickle(part.content):
                yield part.content

    def make(self, number: int) -> Seed:
        """The mutant of this number."""
        digest = hashlib.sha256(f"{self._seed}/{self.name}/{number}".encode()).digest()
        chance = Chance(int.from_bytes(digest[:8], "little"))
        seed, parts = chance.choice(self._places)
        pickles = [part for part in parts if part.name.endswith(b"/data.pkl")]
        part = chance.choice(pickles if pickles and not chance.one_in(5) else parts)
        changed = self._layer.change(chance, seed, part.content, self._donors)
        return replace(seed, content=replace_part(seed.content, part.path, changed))
