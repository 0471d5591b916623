"""What ``scan`` says: verdict, findings, imports; frozen, and plain enough to be sent between processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["clean", "unknown", "code", "broken", "dangerous"]

VERDICTS: Final[tuple[Verdict, ...]] = ("clean", "unknown", "code", "broken", "dangerous")
"""In order: the worst that is found anywhere is the file's (FORMAT.md 14.1)."""

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
    "unchecked-arguments": ("unknown", "A known constructor is given arguments that its library never writes."),
    "discarded-result": ("unknown", "A call is made whose result nothing uses."),
    "odd-pickle": ("unknown", "A pickle is put together as no pickler does it."),
    "trailing-bytes": ("unknown", "Bytes follow where the content ends."),
    "lenient-base64": ("unknown", "The base64 text of a blob is not what an encoder writes."),
    "hidden-blob": ("unknown", "A blob stands where SB3 does not look for one."),
    "unknown-entry": ("unknown", "An entry or file is of a kind that sbformat does not know."),
    "carried-function": ("code", "A function is carried by value: its code is in the file."),
    "carried-class": ("code", "A class is carried by value: its code is in the file."),
    "carried-program": ("code", "A TorchScript program is in the file."),
    "broken": ("broken", "Something does not parse: what a more lenient reader makes of it is not known."),
    "unknown-call": ("dangerous", "A pickle calls a name that sbformat does not know: loading runs it."),
    "unknown-object": (
        "dangerous",
        "A pickle makes an object of a class that sbformat does not know: loading runs methods of the class.",
    ),
    "called-name": ("dangerous", "Stable-Baselines, or a constructor, calls a name that sbformat does not know."),
    "changed-value": ("dangerous", "A value is changed after a call got it, or in a way that cannot be followed."),
    "ambiguous-frame": ("dangerous", "Frames end inside arguments, so that unpicklers read different bytes."),
    "dangerous-name": ("dangerous", "A pickle names something that runs, imports, opens or connects."),
    "computed-name": ("dangerous", "A pickle computes what it imports or calls."),
    "python-tag": ("dangerous", "A YAML tag names a Python object: an unsafe loader imports it or calls it."),
}
"""Each rule: the verdict that it gives, and what it means."""

Reason: TypeAlias = Literal["harmful", "not-known"]

REASONS: Final[tuple[Reason, ...]] = ("not-known", "harmful")
"""Why a finding is dangerous, in order: a name is not known, or is known to run, import, open or connect."""

_NOT_KNOWN: Final = ("unknown-name", "unknown-entry")
"""Rules below ``dangerous`` that are of something that sbformat does not know."""


def reason_of(rule: Rule, verdict: Verdict) -> Reason | None:
    """Return the reason that a finding has when nothing else is said."""
    if verdict == "dangerous":
        return "harmful" if rule == "dangerous-name" else "not-known"
    return "not-known" if rule in _NOT_KNOWN else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that keeps a file from being clean."""

    rule: Rule
    verdict: Verdict
    """What the finding alone makes of the file."""
    reason: Reason | None
    """``harmful`` when a name is known to run, import, open or connect; ``not-known`` when sbformat does not know it,
    as with a policy of its author's; None when that is not the question."""
    entry: str
    """The entry, ``data`` or ``policy.pth``; within it ``!`` and the record or nested member; empty for the file."""
    key: str
    """The key of ``data`` whose blob it is, or empty."""
    offset: int | None
    """Of the opcode in the pickle, or of the fault in the entry."""
    names: tuple[str, ...]
    """The dotted names involved, as CPython would resolve them."""
    message: str
    """What it is and why it matters, in a sentence."""


SkipReason: TypeAlias = Literal["link-out", "link", "broken-link", "special", "large", "script", "other"]

SKIP_REASONS: Final[dict[SkipReason, tuple[str, str]]] = {
    "link-out": ("link out of the tree: not followed", "links out of the tree: not followed"),
    "broken-link": ("link to nothing", "links to nothing"),
    "special": ("socket, pipe or device: not opened", "sockets, pipes or devices: not opened"),
    "large": (
        "large file of no known kind: only its ends examined",
        "large files of no known kind: only their ends examined",
    ),
    "script": ("script beside the archive: not judged", "scripts beside the archive: not judged"),
    "link": ("other name of what is judged under its own", "other names of what is judged under its own"),
    "other": (
        "other file with nothing found in it that is judged",
        "other files with nothing found in them that is judged",
    ),
}
"""Why a file of a tree has no verdict, for one and for several (FORMAT.md 14.2)."""


class Skipped(NamedTuple):
    """A file of a tree that has no verdict."""

    path: str
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What a file holds that loading it would run, import or not understand."""

    format: str
    """What the file is: a kind of :mod:`sbformat.archive.kinds`."""
    verdict: Verdict
    reason: Reason | None
    """Why it is dangerous: ``harmful`` when any dangerous finding is; None for any other verdict."""
    findings: tuple[Finding, ...]
    omitted: int
    """Findings beyond the first thousand of each verdict, which are not listed."""
    imports: tuple[str, ...]
    """Every ``module.name`` that any pickle in it would import, sorted."""
    pickles: int
    """How many pickles were looked into."""
    sha256: str | None
    """Of the file; None for a folder."""
    size: int
    """Bytes of the file, or of all that was examined in a folder."""
    skipped: tuple[Skipped, ...] = ()
    """Files of a folder that were not examined, or not judged."""
