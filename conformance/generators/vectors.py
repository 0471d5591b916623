"""Vectors: a rule of FORMAT.md, bytes that test it, and the result that a reader must return."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, NamedTuple

from conformance.runner.vectors import LAYERS, encode_json, find_suffix


class Vector(NamedTuple):
    """One file, one fact or one fault."""

    name: str
    section: str
    """Section of FORMAT.md."""
    sentence: str
    """A sentence of that section, verbatim."""
    data: bytes
    expect: Any
    """The expected output of a decoder, or the outcome as a text. For an encoder: the bytes that WRITER.md 12 determines, or
    None if it does not determine them."""
    arguments: tuple[str, ...]
    features: tuple[str, ...]
    kind: str = "decode"
    """``decode``, ``encode`` or ``policy``."""
    question: Any = None
    """Of a policy: its observations, and what the caller supplies beside the file."""
    other: bytes | None = None
    """The file that ``--equal`` names."""

    @property
    def is_valid(self) -> bool:
        """Whether a reader must accept the file."""
        return not isinstance(self.expect, str)


class Rule:
    """A sentence of FORMAT.md, and the vectors that test it.

    :param section: number of the section
    :param sentence: the sentence or a part of it, verbatim
    :param features: features that its vectors require of a decoder
    """

    def __init__(self, section: str, sentence: str, *features: str) -> None:
        self.section = section
        self.sentence = sentence
        self.features = features

    def accepts(self, name: str, data: bytes, expect: Any, *arguments: str, features: tuple[str, ...] = ()) -> Vector:
        """A file that a reader must accept.

        :param expect: the expected output of a decoder
        :param arguments: arguments of the decoder
        """
        return self._vector(name, data, expect, arguments, features)

    def refuses(self, name: str, data: bytes, outcome: str, *arguments: str, features: tuple[str, ...] = ()) -> Vector:
        """A file that a reader must refuse, with this outcome."""
        assert outcome in LAYERS, outcome
        return self._vector(name, data, outcome, arguments, features)

    def compares(self, name: str, data: bytes, other: bytes, expect: Any, *, features: tuple[str, ...] = ()) -> Vector:
        """Two archives that a reader must compare.

        :param expect: whether they are equal, or the outcome if one of them must be refused
        """
        wanted = expect if isinstance(expect, str) else {"equal": expect}
        made = self._vector(name, data, wanted, (), ("equality", *features))
        return made._replace(other=other)

    def encodes(
        self, name: str, document: Any, written: bytes | None = None, *, features: tuple[str, ...] = ()
    ) -> Vector:
        """An archive that a writer must write.

        :param document: input of the encoder
        :param written: the bytes that WRITER.md 12 determines, if the vector is about them
        """
        canonical = () if written is None else ("canonical",)
        return self._encode(name, document, written, (*features, *canonical))

    def cannot_be_encoded(self, name: str, document: Any, outcome: str, *, features: tuple[str, ...] = ()) -> Vector:
        """Input that a writer must refuse, with this outcome."""
        assert outcome in LAYERS, outcome
        return self._encode(name, document, outcome, features)

    def predicts(
        self, name: str, data: bytes, question: Any, expect: Any, *arguments: str, features: tuple[str, ...] = ()
    ) -> Vector:
        """A policy that a reader must run.

        :param question: the observations, and what the caller supplies beside the file
        :param expect: what the policy predicts for them
        """
        return self._policy(name, data, question, expect, arguments, features)

    def cannot_run(
        self, name: str, data: bytes, question: Any, outcome: str, *arguments: str, features: tuple[str, ...] = ()
    ) -> Vector:
        """A policy that a reader must refuse to run, with this outcome."""
        assert outcome in LAYERS, outcome
        return self._policy(name, data, question, outcome, arguments, features)

    def _policy(
        self, name: str, data: bytes, question: Any, expect: Any, arguments: tuple[str, ...], features: tuple[str, ...]
    ) -> Vector:
        made = self._vector(name, data, expect, arguments, ("policy", *features))
        return made._replace(kind="policy", question=question)

    def _encode(self, name: str, document: Any, expect: Any, features: tuple[str, ...]) -> Vector:
        data = encode_json(document)
        wanted = {*self.features, *features}
        wanted |= {"torch-zip"} if any(entry.endswith(".pth") for entry, _ in document["entries"]) else set()
        return Vector(name, self.section, self.sentence, data, expect, (), tuple(sorted(wanted)), "encode")

    def _vector(
        self, name: str, data: bytes, expect: Any, arguments: tuple[str, ...], features: tuple[str, ...]
    ) -> Vector:
        wanted = {*self.features, *features}
        wanted |= {_ARGUMENTS[word] for word in arguments if word in _ARGUMENTS}
        wanted |= {"torch-zip"} if self.section.startswith("6") or _has_state_dict(data, wanted) else set()
        wanted |= {"unicode-names"} if _has_unicode_names(data) else set()
        return Vector(name, self.section, self.sentence, data, expect, arguments, tuple(sorted(wanted)))


_ARGUMENTS: Final = {
    "--algorithm": "algorithm",
    "--blob": "pickle-tree",
    "--limit": "limits",
    "--other-formats": "other-formats",
    "--replay-buffer": "replay-buffer",
    "--scan": "scan",
    "--schedule": "schedule",
    "--statistics": "statistics",
    "--unchecked-crc": "unchecked-crc",
}
"""The feature that an argument requires."""


def _has_state_dict(data: bytes, features: set[str]) -> bool:
    """Return whether a file is a ``.pth``, or an archive that has one."""
    return b".pth" in data or (find_suffix(data) == ".pth" and (data[:2] == b"PK" or "legacy" in features))


def _has_unicode_names(data: bytes) -> bool:
    """Return whether a name in a zip is not ASCII, and right by the rules for every name (2.6)."""
    for found in re.finditer(rb"PK\x01\x02", data):
        start, size = found.start() + 46, int.from_bytes(data[found.start() + 28 : found.start() + 30], "little")
        name = data[start : start + size].decode("utf-8", "replace")
        if not name.isascii() and not any(one in _FORBIDDEN or unicodedata.category(one) == "Cc" for one in name):
            return True
    return False


_FORBIDDEN: Final = frozenset(
    "\ufffd\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Line separators, bidirectional controls, and what stands for bytes that are not UTF-8."""
