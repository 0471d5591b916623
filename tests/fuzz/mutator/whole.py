"""A file of any layer, changed where it means something: a zip's members, a text's blobs, a pickle's opcodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conformance.file_mutants import archives, zips
from conformance.file_mutants.opcodes import split_stream
from tests.fuzz.mutator import pickles, texts
from tests.fuzz.mutator.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_TRIES: Final = 4
_OTHER_ORDER: Final = {b"little": b"big", b"big": b"little"}
"""Of a torch zip: a record of one word, which no change of its bytes would make the other."""


def mutate(data: bytes, max_size: int, seed: int, change_bytes: Callable[[bytes, int], bytes] | None = None) -> bytes:
    """Return a changed file, the same for the same seed.

    :param data: any bytes
    :param max_size: bytes that it may have; what would be longer is made otherwise
    :param seed: of every choice
    :param change_bytes: for bytes without a meaning, such as ``atheris.Mutate``
    """
    chance = Chance(seed, change_bytes)
    for _ in range(_MOST_TRIES):
        made = content(chance, data)
        while chance.one_in(8):
            made = content(chance, made)
        if len(made) <= max_size:
            return made
    return chance.bytes_of(data[:max_size], max_size)[:max_size]


def content(chance: Chance, data: bytes) -> bytes:
    """Change bytes by what they are."""
    if not chance.one_in(64):
        if data.startswith(zips.LOCAL_SIGNATURE):
            made = zips.parse(data)
            if made is not None and made.parts:
                return _zip(chance, made)
        elif data.lstrip(b" \t\r\n").startswith(b"{"):
            return texts.changed(chance, data)
        elif pickles.is_pickle(data):
            return _stream(chance, data)
        elif data in _OTHER_ORDER:
            return _OTHER_ORDER[data]
    return chance.bytes_of(data)


def _zip(chance: Chance, made: zips.Zip) -> bytes:
    """Change a member's content, mostly; the zip itself, sometimes."""
    if chance.one_in(6):
        archives.changed(chance, made)
    else:
        part = chance.choice([part for part in made.parts for _ in range(_weight(part.name))])
        part.replace(content(chance, part.data))
    if chance.one_in(64):
        archives.fault(chance, made)
    return zips.build(made)


def _weight(name: bytes) -> int:
    """How often a member is changed: what has a structure is more worth it than numbers are."""
    return 4 if name.endswith((b".pkl", b".pth")) or name == b"data" else 1


def _stream(chance: Chance, data: bytes) -> bytes:
    """Change one of the pickles that follow each other, or what follows them."""
    found, data = split_stream(data)
    index = chance.place(len(found)) if data else chance.randrange(len(found))
    if index == len(found):
        data = chance.bytes_of(data)
    else:
        found[index] = pickles.changed(chance, found[index])
    return b"".join(found) + data
