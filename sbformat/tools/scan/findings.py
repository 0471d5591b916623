"""The report of ``scan``: verdict, findings, imports. Frozen, and of types that are sent between processes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record

Verdict: TypeAlias = Literal["clean", "unknown", "code", "broken", "dangerous"]

VERDICTS: Final[tuple[Verdict, ...]] = ("clean", "unknown", "code", "broken", "dangerous")
"""From best to worst: a file has the worst verdict of its findings (SCANNING.md 14.1)."""

Rule: TypeAlias = Literal[
    "unknown-name",
    "unknown-object",
    "unchecked-arguments",
    "discarded-result",
    "odd-pickle",
    "trailing-bytes",
    "lenient-base64",
    "hidden-blob",
    "unknown-entry",
    "carried-function",
    "carried-class",
    "carried-program",
    "broken",
    "unknown-call",
    "called-name",
    "changed-value",
    "ambiguous-frame",
    "dangerous-name",
    "computed-name",
    "python-tag",
]  # fmt: skip

RULES: Final[dict[Rule, tuple[Verdict, str]]] = {
    "unknown-name": ("unknown", "A pickle refers to a name that sbformat does not know; loading imports its module."),
    "unchecked-arguments": ("unknown", "A known constructor is called with arguments that sbformat does not know."),
    "discarded-result": ("unknown", "A pickle calls something and discards the result."),
    "odd-pickle": ("unknown", "A pickle is built in a way that no pickler uses."),
    "trailing-bytes": ("unknown", "Bytes follow the end of the content."),
    "lenient-base64": ("unknown", "The base64 text of a serialized value is not what an encoder writes."),
    "hidden-blob": ("unknown", "A serialized value is stored where SB3 does not look for one."),
    "unknown-entry": ("unknown", "sbformat does not know the type of an entry or file."),
    "carried-function": ("code", "A function is pickled by value: its code is in the file."),
    "carried-class": ("code", "A class is pickled by value: its code is in the file."),
    "carried-program": ("code", "The file contains a TorchScript program."),
    "broken": (
        "broken",
        "Something cannot be parsed, or exceeds a limit: what a more lenient reader makes of it is unknown.",
    ),
    "unknown-call": ("dangerous", "A pickle calls a name that sbformat does not know: loading runs it."),
    "unknown-object": (
        "dangerous",
        "A pickle creates an object of a class that sbformat does not know: loading runs methods of the class.",
    ),
    "called-name": ("dangerous", "Stable-Baselines, or a constructor, calls a name that sbformat does not know."),
    "changed-value": ("dangerous", "A value is changed after a call received it, or in a way that cannot be followed."),
    "ambiguous-frame": ("dangerous", "Frames end inside arguments, so unpicklers read different bytes."),
    "dangerous-name": ("dangerous", "A pickle names something that runs, imports, opens or connects."),
    "computed-name": ("dangerous", "A pickle computes what it imports or calls."),
    "python-tag": ("dangerous", "A YAML tag names a Python object: an unsafe loader imports it or calls it."),
}
"""The verdict and the meaning of each rule."""

Reason: TypeAlias = Literal["harmful", "not-known"]

REASONS: Final[tuple[Reason, ...]] = ("not-known", "harmful")
"""Why a finding is dangerous, in order: sbformat does not know a name, or it runs, imports, opens or connects, or a
value ends the process that uses it."""

_NOT_KNOWN: Final = ("unknown-name", "unknown-entry")
"""Rules with a verdict below ``dangerous`` about something that sbformat does not know."""


def default_reason(rule: Rule, verdict: Verdict) -> Reason | None:
    """Return the reason of a finding of this rule, unless the finding has another one."""
    if verdict == "dangerous":
        return "harmful" if rule == "dangerous-name" else "not-known"
    return "not-known" if rule in _NOT_KNOWN else None


MAX_FINDINGS: Final = 1000
"""Findings of one verdict that are listed, of a pickle and of a file; the others are counted."""


class FindingCounter:
    """Counts findings, and decides which are listed."""

    def __init__(self) -> None:
        self.omitted = 0
        self.is_harmful = False
        """Whether any finding, listed or omitted, is ``harmful``."""
        self._counts: dict[Verdict, int] = {}

    def count(self, verdict: Verdict, reason: Reason | None) -> bool:
        """Count a finding; return whether to list it."""
        self.is_harmful = self.is_harmful or reason == "harmful"
        count = self._counts[verdict] = self._counts.get(verdict, 0) + 1
        self.omitted += count > MAX_FINDINGS
        return count <= MAX_FINDINGS

    def is_full(self, verdict: Verdict) -> bool:
        """Return whether no more findings of a verdict are listed."""
        return self._counts.get(verdict, 0) >= MAX_FINDINGS


class Finding(Record):
    """Something that keeps a file from being ``clean``."""

    rule: Rule
    verdict: Verdict
    """The verdict of a file with this finding alone."""
    reason: Reason | None
    """``harmful`` when a name is known to run, import, open or connect; ``not-known`` when sbformat does not know it,
    as with a custom policy; None for findings that are not about a name."""
    entry: str
    """The entry, such as ``policy.pth``; ``!`` leads to a record or member within it; empty for the file itself."""
    key: str
    """The key of ``data`` that contains the value, or empty."""
    offset: int | None
    """Byte offset of the opcode in the pickle, or of the fault in the entry."""
    line: int | None
    """Line of a YAML tag in the entry, from 1; None for findings that are not about text."""
    names: tuple[str, ...]
    """The dotted names involved, as CPython resolves them."""
    message: str
    """What was found, and why it matters, as a sentence."""


SkipReason: TypeAlias = Literal[
    "link-out", "link", "broken-link", "special", "large", "lfs-pointer", "temporary", "script", "other",
]  # fmt: skip

SKIP_REASONS: Final[dict[SkipReason, tuple[str, str]]] = {
    "link-out": ("link out of the tree, not followed", "links out of the tree, not followed"),
    "broken-link": ("link to nothing", "links to nothing"),
    "special": ("socket, pipe or device, not opened", "sockets, pipes or devices, not opened"),
    "large": (
        "large file of an unknown type, examined only at its start and end",
        "large files of an unknown type, examined only at their start and end",
    ),
    "lfs-pointer": (
        "Git LFS pointer, whose file is not here: git lfs pull fetches it",
        "Git LFS pointers, whose files are not here: git lfs pull fetches them",
    ),
    "temporary": (
        "unfinished output of an interrupted run of sbformat, not examined",
        "unfinished outputs of interrupted runs of sbformat, not examined",
    ),
    "script": ("script next to the archive, not judged", "scripts next to the archive, not judged"),
    "link": ("second name of a file that is judged", "second names of files that are judged"),
    "other": (
        "other file that contains nothing to judge",
        "other files that contain nothing to judge",
    ),
}
"""Why a file of a tree has no verdict, in the singular and the plural (SCANNING.md 14.2)."""


class Skipped(Record):
    """A file of a tree without a verdict."""

    path: str
    reason: SkipReason


class ScanReport(Record):
    """The result of :func:`scan`: what loading a file would run or import, and what in it is not understood."""

    format: str
    """The type of the file: one of :mod:`sbformat.archive.kinds`."""
    verdict: Verdict
    reason: Reason | None
    """``harmful`` when any finding of a dangerous file is, otherwise ``not-known``; None for other verdicts."""
    findings: tuple[Finding, ...]
    omitted: int
    """Number of findings beyond the first thousand of each verdict, which are not listed."""
    imports: tuple[str, ...]
    """Every ``module.name`` that any pickle in the file imports, sorted."""
    pickles: int
    """Number of pickles that were judged."""
    sha256: str | None
    """SHA-256 of the file; None for a folder, and for an archive in memory."""
    size: int
    """Bytes of the file, or of everything that was examined in a folder."""
    skipped: tuple[Skipped, ...] = ()
    """Files of a folder without a verdict."""

    def __repr__(self) -> str:
        from sbformat.tools.scan.show_scan import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return the verdict and the findings for notebooks."""
        from sbformat.tools.scan.show_scan import render

        return render(self)


UNKNOWN_KEY: Final = "?"
"""The key of a serialized value in a damaged ``data``, where the key cannot be read."""
SHOWN: Final = 200
"""Characters of a name that a message contains."""


class Location(Record):
    """Where something was found."""

    entry: str
    key: str = ""

    def within(self, name: str) -> Location:
        """Return the location of a member of this one."""
        return Location(f"{self.entry}!{name}" if self.entry else name, self.key)

    def finding(
        self,
        rule: Rule,
        message: str,
        *,
        names: tuple[str, ...] = (),
        verdict: Verdict | None = None,
        reason: Reason | None = None,
        offset: int | None = None,
        line: int | None = None,
    ) -> Finding:
        """Return a finding at this location; verdict and reason are by default those of the rule."""
        verdict = verdict or RULES[rule][0]
        return Finding(
            rule=rule,
            verdict=verdict,
            reason=reason or default_reason(rule, verdict),
            entry=escape(self.entry, 1000),
            key=escape(self.key, SHOWN),
            offset=offset,
            line=line,
            names=tuple(escape(name, SHOWN) for name in names),
            message=message,
        )

    def broken(self, error: SbformatError) -> Finding:
        """Return the finding for something that cannot be parsed."""
        inner = self if error.entry in (None, self.entry) else self.within(str(error.entry))
        return inner.finding("broken", f"{error.outcome}: {error.message}", offset=error.offset)
