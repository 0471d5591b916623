"""Render reports of ``scan`` as a SARIF 2.1.0 log, which code scanners and editors display.

Levels: ``dangerous`` and ``broken`` are errors, ``code`` is a warning, ``unknown`` a note. The log is written for the
subset of SARIF that GitHub displays (docs.github.com, "SARIF support for code scanning") and that Microsoft's
``sarif-multitool`` checks:

- What is found is in base64 within JSON within a zip, so it is at no line of the file. The result is at line 1,
  because GitHub requires a line. Only YAML tags and faults in the JSON of ``data`` have lines. The entry and the key
  are a logical location, the offset of the opcode is a property.
- Of ``partialFingerprints``, GitHub reads ``primaryLocationLineHash``. What it computes by itself, from the text of
  line 1, would be the same for all findings of a rule in a file, and another after each training.
- Paths are relative to the folder that the scan ran in, usually the workspace of the continuous integration.
- A log has at most :data:`MAX_RESULTS` results in :data:`MAX_BYTES`, so that GitHub accepts it and displays all.
- ``executionSuccessful`` is false if something could not be read. GitHub then refuses the log, because accepting it
  would close alerts of the files that were not read.

Text that comes from a file is escaped, so that none of it becomes a link or a placeholder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.tools.scan.findings import RULES, SKIP_REASONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sbformat.tools.scan.findings import Rule, Verdict

_SITE: Final = "https://sbformat.github.io/sbformat/"
PAGE: Final = f"{_SITE}reference/rules/"

_SEVERITIES: Final[dict[Verdict, float]] = {"unknown": 3.0, "code": 5.0, "broken": 7.0, "dangerous": 8.0}
"""GitHub's ``security-severity`` of a rule, unless it has its own: low below 4, medium below 7, high to 9, critical."""

DANGEROUS_TOO: Final[tuple[Rule, ...]] = ("unchecked-arguments", "unknown-entry", "carried-function")
"""Rules with a lower verdict whose findings may be dangerous. A code scanner ranks a finding by its rule, so SARIF has
a second rule for these findings, such as ``unchecked-arguments-dangerous``."""


class RuleHelp(Record):
    """What a person needs to know about a rule; the texts are Markdown, with backticks around names and commands."""

    summary: str
    meaning: str
    """What was found, what it does when the file is loaded, and what harmless reason there may be."""
    remedy: str
    precision: str
    """How often such a finding is a reason not to load the file: GitHub sorts by it, from ``very-high`` to ``low``."""
    severity: float | None = None


RULE_HELP: Final = {
    rule: RuleHelp(**row)
    for rule, row in json.loads(files(__package__).joinpath("rules.json").read_text("utf-8")).items()
}


def get_severity(rule: Rule, verdict: Verdict) -> float:
    """Return GitHub's ``security-severity``, from 0.1 to 10, for the findings of a rule with this verdict."""
    return RULE_HELP[rule].severity or _SEVERITIES[verdict]


def make_rule_id(rule: Rule, verdict: Verdict) -> str:
    """Return the identifier in SARIF: the rule, or the second one of a rule whose findings may be dangerous too."""
    is_second = verdict == "dangerous" != RULES[rule] and rule in DANGEROUS_TOO
    return f"{rule}-dangerous" if is_second else rule


LEVELS: Final[dict[Verdict, str]] = dict(zip(VERDICTS, ("none", "note", "warning", "error", "error")))
_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SOURCE_ROOT: Final = "%SRCROOT%"  # the name that GitHub and CodeQL use for the top folder of the repository
MAX_RESULTS: Final = 5000
"""GitHub displays 5,000 results of a log and refuses one with more than 25,000."""
MAX_BYTES: Final = 9_000_000
"""Of all results as JSON: GitHub refuses a log that is larger than 10 MB after compression, and a file may be built so
that its findings cannot be compressed."""
_DESCRIBED: Final[tuple[tuple[Rule, Verdict], ...]] = (
    *RULES.items(),
    *((rule, "dangerous") for rule in DANGEROUS_TOO),
)
_RULE_INDEX: Final = {make_rule_id(*pair): index for index, pair in enumerate(_DESCRIBED)}
_MAX_TEXT: Final = 1000


def render_sarif(
    reports: Sequence[Mapping[str, Any]],
    skipped: Mapping[str, Any],
    *,
    version: str,
    exit_code: int,
    root: str = "",
    has_baseline: bool = False,
) -> dict[str, Any]:
    """Return the log of one run.

    :param reports: the reports of the files, as in ``schema/report.schema.json``
    :param root: absolute path of the folder that the scan ran in; an absolute path below it becomes relative
    :param has_baseline: findings may be accepted; then every result says whether it is
    """
    read = [report for report in reports if report["outcome"] == "ok"]
    paths = _Paths(root)
    rows = list(_iter_rows(read, paths, has_baseline=has_baseline))
    kept = _select_worst(rows)
    semantic = {"semanticVersion": version} if re.fullmatch(r"\d+\.\d+\.\d+", version) else {}
    rules = [_render_rule(*pair) for pair in _DESCRIBED]
    omitted = sum(report["omitted"] for report in read) + len(rows) - len(kept)
    run = {
        "tool": {
            "driver": {"name": "sbformat", "version": version, **semantic, "informationUri": _SITE, "rules": rules}
        },
        "originalUriBaseIds": {_SOURCE_ROOT: {"description": {"text": "The folder that the scan ran in."}}},
        "invocations": [
            {
                "executionSuccessful": exit_code != 2,
                "exitCode": exit_code,
                "toolExecutionNotifications": list(_iter_notifications(reports, skipped, omitted, paths)),
                "properties": {"skipped": skipped["counts"], "omitted": omitted},
            }
        ],
        "artifacts": [_render_artifact(report, paths) for report in read],
        "results": kept,
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _render_rule(rule: Rule, verdict: Verdict) -> dict[str, Any]:
    identifier, help_of, url = make_rule_id(rule, verdict), RULE_HELP[rule], f"{PAGE}#{rule}"
    short, meaning = help_of.summary, help_of.meaning.replace("`", "")
    if identifier != rule:
        short = f"{short.removesuffix('.')}, in a way that is dangerous."
    return {
        "id": identifier,
        "name": f"{identifier.title().replace('-', '')}{'' if '-' in identifier else 'File'}",
        "shortDescription": {"text": short},
        "fullDescription": {"text": meaning},
        "help": {
            "text": f"{meaning}\n\n{help_of.remedy.replace('`', '')}\n\n{url}",
            "markdown": f"{help_of.meaning}\n\n**What to do.** {help_of.remedy}\n\n[Rule {rule}]({url})",
        },
        "helpUri": url,
        "defaultConfiguration": {"level": LEVELS[verdict]},
        "properties": {
            "tags": ["security", "pickle", "external/cwe/cwe-502"],  # deserialization of untrusted data
            "precision": help_of.precision,
            "security-severity": f"{get_severity(rule, verdict):.1f}",
            "verdict": verdict,
        },
    }


def _iter_notifications(
    reports: Sequence[Mapping[str, Any]], skipped: Mapping[str, Any], omitted: int, paths: _Paths
) -> Iterator[dict[str, Any]]:
    """Yield a notification for each file that could not be read, for the run as a whole, and for skipped files."""
    for report in reports:
        if report["outcome"] != "ok":
            yield _notify("error", f"{report['outcome']}: {report['message']}", paths.locate(report["path"]))
    if not reports:
        yield _notify("error", "no file was examined")
    if omitted:
        yield _notify("warning", f"{omitted:,} findings are not in this log; the worst ones of each file are")
    for row in skipped.get("files", ()):
        yield _notify("note", SKIP_REASONS[row["reason"]][0], paths.locate(row["path"]))


def _notify(level: str, text: str, place: dict[str, Any] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"level": level, "message": {"text": _escape_text(text)}}
    if place is not None:
        made["locations"] = [{"physicalLocation": {"artifactLocation": place}}]
    return made


def _render_artifact(report: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    made: dict[str, Any] = {
        "location": paths.locate(report["path"]),
        "roles": ["analysisTarget"] if report["sha256"] else ["analysisTarget", "directory"],
        "properties": {"format": report["format"], "verdict": report["verdict"]},
    }
    if report["sha256"]:
        made |= {"length": report["size"], "hashes": {"sha-256": report["sha256"]}}
    return made


def _iter_rows(
    reports: Iterable[Mapping[str, Any]], paths: _Paths, *, has_baseline: bool
) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Yield each result after its rank, of which the lowest are kept.

    A rank is the place among the findings of the file when the worst is first, then the verdict, the worst first.
    """
    for index, report in enumerate(reports):
        seen: Counter[str] = Counter()
        badness = [VERDICTS.index(row["verdict"]) for row in report["findings"]]
        worst_first = sorted(range(len(badness)), key=lambda at: -badness[at])
        places = {at: place for place, at in enumerate(worst_first)}
        for at, row in enumerate(report["findings"]):
            # stays the same when other parts of the file change
            identity = "\0".join((row["rule"], row["entry"], row["key"], *row["names"]))
            digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            seen[digest] += 1
            rule_id = make_rule_id(row["rule"], row["verdict"])
            result = {
                "ruleId": rule_id,
                "ruleIndex": _RULE_INDEX[rule_id],
                "level": LEVELS[row["verdict"]],
                "message": {"text": _escape_text(row["message"])},
                "locations": [_render_location(report, index, row, paths)],
                "partialFingerprints": {"primaryLocationLineHash": f"{digest}:{seen[digest]}"},
                "properties": {name: row[name] for name in ("verdict", "reason", "names", "offset")},
            }
            if has_baseline:  # SARIF 3.27.23: all results of a run have suppressions, or none
                result["suppressions"] = list(_iter_suppressions(row))
            yield (places[at], -badness[at]), result


def _iter_suppressions(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the suppression of a finding that a baseline accepts."""
    if row.get("accepted"):
        why = row.get("justification")
        yield {"kind": "external", "status": "accepted", **({"justification": escape(why, _MAX_TEXT)} if why else {})}


def _select_worst(rows: Sequence[tuple[tuple[int, int], dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the results that the log has room for, in their order: of each file the worst are chosen first."""
    kept, room = [], MAX_BYTES
    for at in sorted(range(len(rows)), key=lambda at: rows[at][0])[:MAX_RESULTS]:
        room -= len(json.dumps(rows[at][1]))
        if room < 0:
            break
        kept.append(at)
    return [rows[at][1] for at in sorted(kept)]


def _render_location(report: Mapping[str, Any], index: int, row: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    place = paths.locate(report["path"], index)
    if report["format"] == "folder" and row["entry"]:
        place = paths.locate(os.path.join(report["path"], row["entry"].partition("!")[0]))
    is_of_file = row["line"] and "!" not in row["entry"] and (report["format"] == "folder" or not row["entry"])
    region = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}
    if is_of_file:
        region = {"startLine": row["line"]}
    made: dict[str, Any] = {"physicalLocation": {"artifactLocation": place, "region": region}}
    if row["entry"] or row["key"]:
        name = row["key"] or row["entry"].rpartition("!")[2]
        full = ":".join(filter(None, (row["entry"], row["key"])))
        logical = {
            "name": escape(name, _MAX_TEXT),
            "fullyQualifiedName": escape(full, _MAX_TEXT),
            "kind": "key" if row["key"] else "entry",
        }
        made["logicalLocations"] = [logical]
    return made


class _Paths:
    """Renders paths as URIs."""

    def __init__(self, root: str) -> None:
        self._roots = tuple(dict.fromkeys((root, os.path.realpath(root)))) if root else ()

    def locate(self, path: str, index: int | None = None) -> dict[str, Any]:
        """Return the location of an artifact, with its index in the run's list."""
        for root in self._roots if os.path.isabs(path) else ():
            here, top = os.path.normcase(path), os.path.normcase(root)
            if here == top or here.startswith(os.path.join(top, "")):
                path = os.path.relpath(path, root)
                break
        location: dict[str, Any] = {"uri": _render_uri(path)}
        if not os.path.isabs(path):
            location["uriBaseId"] = _SOURCE_ROOT
        if index is not None:
            location["index"] = index
        return location


def _render_uri(path: str) -> str:
    """Return a relative path as a relative URI, an absolute one as a file URI; other bytes are percent-encoded."""
    if os.path.isabs(path):
        return Path(path).as_uri()
    relative = path.replace(os.sep, "/")
    while relative.startswith("./"):
        relative = relative[2:].lstrip("/")
    return quote(os.fsencode(relative or "."))


def _escape_text(message: str) -> str:
    """Return a message as SARIF text: braces are doubled, and nothing in it is a link."""
    return escape(message, _MAX_TEXT).replace("](", "] (").replace("{", "{{").replace("}", "}}")
