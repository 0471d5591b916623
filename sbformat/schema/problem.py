"""``Problem``: one result of :func:`sbformat.validate`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sbformat.immutable import Record

ProblemKind: TypeAlias = Literal[
    "type",
    "value",
    "base64",
    "missing-key",
    "unknown-key",
    "missing-entry",
    "unexpected-entry",
    "unreadable",
    "mismatch",
    "unchecked",
]
Level: TypeAlias = Literal["error", "warning", "info"]


class Problem(Record):
    """A violation of the schema or of a rule between entries, or an unknown key.

    >>> next(sbformat.iter_problems({**archive.data, "gamma": 2}))
    Problem(entry='data', loc='/gamma', kind='value', level='warning',
            message='expected a number in [0, 1] or a serialized value, got 2; it is unusual, but accepted')
    """

    entry: str
    """The name of the entry."""
    loc: str
    """A JSON pointer into ``data``; empty for the whole entry."""
    kind: ProblemKind
    level: Level
    """``error``; ``warning`` for what is unusual, although it is accepted; ``info`` for what is unknown."""
    message: str
    """A sentence."""

    @property
    def key(self) -> str:
        """The key of ``data`` that ``loc`` begins with; empty for the whole entry."""
        return self.loc.removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")
