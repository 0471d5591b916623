"""The report of ``scan``: verdict, findings, imports. Frozen, and of types that are sent between processes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from sbformat.errors import SbformatError, escape
from sbformat.immutable import Record

Verdict: TypeAlias = Literal["clean", "unknown", "code", "broken", "dangerous"]

VERDICTS: Final[tuple[Verdict, ...]] = ("clean", "unknown", "code", "broken", "dangerous")
"""From best to worst: a file has the worst verdict of its findings (SCANNING.md 14.1)."""

Rule: TypeAlias = Literal[
    "unknown-name", "unknown-object", "unchecked-arguments", "discarded-result", "odd-pickle", "trailing-bytes",
    "lenient-base64", "hidden-blob", "unknown-entry", "carried-function", "carried-class", "carried-program", "broken",
    "unknown-call", "called-name", "changed-value", "ambiguous-frame", "dangerous-name", "computed-name", "python-tag",
]  # fmt: skip

RULES: Final[dict[Rule, Verdict]] = {
    "unknown-name": "unknown",
    "unchecked-arguments": "unknown",
    "discarded-result": "unknown",
    "odd-pickle": "unknown",
    "trailing-bytes": "unknown",
    "lenient-base64": "unknown",
    "hidden-blob": "unknown",
    "unknown-entry": "unknown",
    "carried-function": "code",
    "carried-class": "code",
    "carried-program": "code",
    "broken": "broken",
    "unknown-call": "dangerous",
    "unknown-object": "dangerous",
    "called-name": "dangerous",
    "changed-value": "dangerous",
    "ambiguous-frame": "dangerous",
    "dangerous-name": "dangerous",
    "computed-name": "dangerous",
    "python-tag": "dangerous",
}
"""The verdict of a file with a finding of this rule alone; ``rules.json`` has what each rule means."""

Reason: TypeAlias = Literal["harmful", "not-known"]
"""Why a finding is dangerous: ``not-known`` if sbformat does not know a name, ``harmful`` if it runs, imports, opens or
connects, or if a value ends the process that uses it."""

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
    """Line of a YAML tag, or of the fault in the JSON of ``data``, in the entry, from 1; None for other findings."""
    names: tuple[str, ...]
    """The dotted names involved, as CPython resolves them."""
    message: str
    """What was found, and why it matters, as a sentence."""


SkipReason: TypeAlias = Literal[
    "excluded", "link-out", "link", "broken-link", "special", "large", "lfs-pointer", "temporary", "script", "other",
]  # fmt: skip

SKIP_REASONS: Final[dict[SkipReason, tuple[str, str]]] = {
    "excluded": (
        "file or folder excluded, with all that is in it, not examined",
        "files and folders excluded, with all that is in them, not examined",
    ),
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
        "other file, examined, with nothing in it that loading would run",
        "other files, examined, with nothing in them that loading would run",
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
        from collections import Counter

        from sbformat.rendering import count_noun

        rules = Counter(finding.rule for finding in self.findings).most_common(_NAMES)
        counted = [f"{count} {rule}" for rule, count in rules]
        counted += [f"{self.omitted:,} not listed"] if self.omitted else []
        details = f" ({', '.join(counted)})" if counted else ""
        findings = f"{count_noun(len(self.findings) + self.omitted, 'finding')}{details}"
        reason = f" ({self.reason})" if self.reason else ""
        text = f"{self.format} {self.verdict}{reason}: {findings}, {count_noun(self.pickles, 'pickle')}"
        return f"<ScanReport {escape(text, 300)}>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: the verdict, the findings with the worst first, and folded the imports."""
        from sbformat.notebook import Markup, escape_text, fold, render_badge, render_output, render_table
        from sbformat.rendering import count_noun, format_size

        reason = f" ({self.reason})" if self.reason else ""
        title = Markup(f"{render_badge(self.verdict)}{escape_text(reason)} {escape_text(_MEANINGS[self.verdict])}")
        facts = [
            ("format", self.format),
            ("size", format_size(self.size)),
            ("SHA-256", self.sha256 or "none: a folder, or an archive in memory"),
            ("pickles judged", f"{self.pickles:,}"),
        ]
        rows = []
        for row in sorted(self.findings, key=lambda finding: -VERDICTS.index(finding.verdict)):
            place = (row.entry, row.key, "" if row.offset is None else f"at byte {row.offset:,}")
            rows.append((render_badge(row.verdict), row.rule, ", ".join(filter(None, place)), row.message))
        header, count = ("verdict", "rule", "where", "what"), len(self.findings) + self.omitted
        imports = render_table("", ("name",), [(name,) for name in self.imports])
        skipped = render_table("", ("file", "reason"), self.skipped)
        files = count_noun(len(self.skipped), "file without a verdict", "files without a verdict")
        return render_output(
            title,
            [
                render_table("", (), facts),
                render_table("findings", header, rows, count=count),
                fold(count_noun(len(self.imports), "imported name"), [imports]),
                fold(files, [skipped]),
            ],
        )


_NAMES: Final = 8
_MEANINGS: Final[dict[Verdict, str]] = {
    "clean": "every byte was understood: plain data, and constructors with checked arguments",
    "unknown": "something is not known, and nothing calls it",
    "code": "functions, classes or programs are pickled by value",
    "broken": "it cannot be parsed, or exceeds a limit",
    "dangerous": "loading it calls something that is not known, or that runs, imports, opens or connects",
}
"""What each verdict means for the reader of a report, in short (SCANNING.md 14.1)."""


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
        verdict = verdict or RULES[rule]
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
