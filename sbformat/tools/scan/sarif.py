"""Render reports of ``scan`` as a SARIF 2.1.0 log, which code scanners and editors display.

Levels: ``dangerous`` and ``broken`` are errors, ``code`` is a warning, ``unknown`` a note. The log is written for the
subset of SARIF that GitHub displays (docs.github.com, "SARIF support for code scanning") and that Microsoft's
``sarif-multitool`` checks:

- What is found is in base64 within JSON within a zip, so it is at no line of the file. The result is at line 1,
  because GitHub requires a line. Only a YAML tag has a line. The entry and the key are a logical location, the offset
  of the opcode is a property.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.tools.scan.report import RULES, SKIP_REASONS, VERDICTS
from sbformat.tools.scan.rule_help import DANGEROUS_TOO, PAGE, RULE_HELP, SITE, get_severity, make_rule_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.tools.scan.report import Rule, SkipReason, Verdict

Level: TypeAlias = Literal["none", "note", "warning", "error"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
VERSION: Final = "2.1.0"
LEVELS: Final[dict[Verdict, Level]] = dict(zip(VERDICTS, ("none", "note", "warning", "error", "error")))
FINGERPRINT: Final = "primaryLocationLineHash"
SOURCE_ROOT: Final = "%SRCROOT%"
"""The name that GitHub and CodeQL use for the top folder of the repository."""
MAX_RESULTS: Final = 5000
"""GitHub displays 5,000 results of a log and refuses one with more than 25,000."""
MAX_BYTES: Final = 9_000_000
"""Of all results as JSON: GitHub refuses a log that is larger than 10 MB after compression, and a file may be built so
that its findings cannot be compressed."""
TAGS: Final = ("security", "pickle", "external/cwe/cwe-502")
"""CWE-502: deserialization of untrusted data."""
_DESCRIBED: Final[tuple[tuple[Rule, Verdict], ...]] = (
    *((rule, verdict) for rule, (verdict, _) in RULES.items()),
    *((rule, "dangerous") for rule in DANGEROUS_TOO),
)
_RULE_INDEX: Final = {make_rule_id(*pair): index for index, pair in enumerate(_DESCRIBED)}
_LINE: Final = {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 2}
_SEMANTIC: Final = re.compile(r"\d+\.\d+\.\d+")
_MAX_TEXT: Final = 1000


class _Row(Record):
    """A result, and what decides whether it is in the log."""

    rank: tuple[int, int]
    """Its place among the findings of its file when the worst is first, then its verdict; the lowest are kept."""
    result: dict[str, Any]


def render_sarif(
    reports: Sequence[Mapping[str, Any]], skipped: Mapping[str, Any], *, version: str, exit_code: int, root: str = ""
) -> dict[str, Any]:
    """Return the log of one run.

    :param reports: the reports of the files, as in ``schema/report.schema.json``
    :param skipped: the files without a verdict, as in the same schema
    :param version: of sbformat
    :param exit_code: of the run
    :param root: absolute path of the folder that the scan ran in; an absolute path below it becomes relative
    """
    read = [report for report in reports if report["outcome"] == "ok"]
    paths = _Paths(root)
    rows = list(_iter_rows(read, paths))
    kept = _select_worst(rows)
    omitted = sum(report["omitted"] for report in read) + len(rows) - len(kept)
    run = {
        "tool": {"driver": _render_driver(version)},
        "originalUriBaseIds": {SOURCE_ROOT: {"description": {"text": "The folder that the scan ran in."}}},
        "invocations": [
            {
                "executionSuccessful": exit_code != 2,
                "exitCode": exit_code,
                "toolExecutionNotifications": [
                    *(_render_failure(report, paths) for report in reports if report["outcome"] != "ok"),
                    *_render_remarks(reports, omitted),
                    *(_render_skipped(row["path"], row["reason"], paths) for row in skipped.get("files", ())),
                ],
                "properties": {"skipped": skipped["counts"], "omitted": omitted},
            }
        ],
        "artifacts": [_render_artifact(report, paths) for report in read],
        "results": kept,
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


# -- rules --------------------------------------------------------------------------------------------


def _render_driver(version: str) -> dict[str, Any]:
    driver: dict[str, Any] = {"name": "sbformat", "version": version}
    if _SEMANTIC.fullmatch(version):
        driver["semanticVersion"] = version
    return {**driver, "informationUri": SITE, "rules": [_render_rule(*pair) for pair in _DESCRIBED]}


def _render_rule(rule: Rule, verdict: Verdict) -> dict[str, Any]:
    identifier, help_of, url = make_rule_id(rule, verdict), RULE_HELP[rule], f"{PAGE}#{rule}"
    short = RULES[rule][1]
    if identifier != rule:
        short = f"{short.removesuffix('.')}, in a way that is dangerous."
    text = f"{help_of.meaning}\n\n{help_of.remedy}".replace("`", "")
    return {
        "id": identifier,
        "name": f"{identifier.title().replace('-', '')}{'' if '-' in identifier else 'File'}",
        "shortDescription": {"text": short},
        "fullDescription": {"text": help_of.meaning.replace("`", "")},
        "help": {
            "text": f"{text}\n\n{url}",
            "markdown": f"{help_of.meaning}\n\n**What to do.** {help_of.remedy}\n\n[Rule {rule}]({url})",
        },
        "helpUri": url,
        "defaultConfiguration": {"level": LEVELS[verdict]},
        "properties": {
            "tags": list(TAGS),
            "precision": help_of.precision,
            "security-severity": f"{get_severity(rule, verdict):.1f}",
            "verdict": verdict,
        },
    }


# -- the run ------------------------------------------------------------------------------------------


def _render_failure(report: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    """Return the notification for a file that could not be read."""
    return {
        "level": "error",
        "message": {"text": _escape_text(f"{report['outcome']}: {report['message']}")},
        "locations": [{"physicalLocation": {"artifactLocation": paths.locate(report["path"])}}],
    }


def _render_remarks(reports: Sequence[Mapping[str, Any]], omitted: int) -> Iterable[dict[str, Any]]:
    """Yield the notifications about the run as a whole."""
    if not reports:
        yield {"level": "error", "message": {"text": "no file was examined"}}
    if omitted:
        text = f"{omitted:,} findings are not in this log; the worst ones of each file are"
        yield {"level": "warning", "message": {"text": text}}


def _render_skipped(path: str, reason: SkipReason, paths: _Paths) -> dict[str, Any]:
    """Return the notification for a file without a verdict."""
    return {
        "level": "note",
        "message": {"text": _escape_text(SKIP_REASONS[reason][0])},
        "locations": [{"physicalLocation": {"artifactLocation": paths.locate(path)}}],
    }


def _render_artifact(report: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    made: dict[str, Any] = {
        "location": paths.locate(report["path"]),
        "roles": ["analysisTarget"] if report["sha256"] else ["analysisTarget", "directory"],
        "properties": {"format": report["format"], "verdict": report["verdict"]},
    }
    if report["sha256"]:
        made |= {"length": report["size"], "hashes": {"sha-256": report["sha256"]}}
    return made


# -- results ------------------------------------------------------------------------------------------


def _iter_rows(reports: Iterable[Mapping[str, Any]], paths: _Paths) -> Iterable[_Row]:
    for index, report in enumerate(reports):
        seen: Counter[str] = Counter()
        places = _rank_findings(report["findings"])
        for row, place in zip(report["findings"], places):
            digest = _digest_finding(row)
            seen[digest] += 1
            rule_id = make_rule_id(row["rule"], row["verdict"])
            result = {
                "ruleId": rule_id,
                "ruleIndex": _RULE_INDEX[rule_id],
                "level": LEVELS[row["verdict"]],
                "message": {"text": _escape_text(row["message"])},
                "locations": [_render_location(report, index, row, paths)],
                "partialFingerprints": {FINGERPRINT: f"{digest}:{seen[digest]}"},
                "properties": {name: row[name] for name in ("verdict", "reason", "names", "offset")},
            }
            yield _Row((place, -VERDICTS.index(row["verdict"])), result)


def _rank_findings(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the place of each finding of a file when the worst is first."""
    order = sorted(range(len(rows)), key=lambda at: -VERDICTS.index(rows[at]["verdict"]))
    places = [0] * len(rows)
    for place, at in enumerate(order):
        places[at] = place
    return places


def _select_worst(rows: Sequence[_Row]) -> list[dict[str, Any]]:
    """Return the results that the log has room for, in their order: of each file the worst are chosen first."""
    kept, room = [], MAX_BYTES
    for at in sorted(range(len(rows)), key=lambda at: rows[at].rank)[:MAX_RESULTS]:
        room -= len(json.dumps(rows[at].result))
        if room < 0:
            break
        kept.append(at)
    return [rows[at].result for at in sorted(kept)]


def _render_location(report: Mapping[str, Any], index: int, row: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    place = paths.locate(report["path"], index)
    if report["format"] == "folder" and row["entry"]:
        place = paths.locate(os.path.join(report["path"], row["entry"].partition("!")[0]))
    is_of_file = row["line"] and "!" not in row["entry"] and (report["format"] == "folder" or not row["entry"])
    region = {"startLine": row["line"]} if is_of_file else dict(_LINE)
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


def _digest_finding(row: Mapping[str, Any]) -> str:
    """Return an identifier of a finding that stays the same when other parts of the file change."""
    parts = "\0".join((row["rule"], row["entry"], row["key"], *row["names"]))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- paths and texts ----------------------------------------------------------------------------------


class _Paths:
    """Renders paths as URIs.

    :param root: the absolute path of a folder, or empty
    """

    def __init__(self, root: str) -> None:
        self._roots = tuple(dict.fromkeys((root, os.path.realpath(root)))) if root else ()

    def locate(self, path: str, index: int | None = None) -> dict[str, Any]:
        """Return the location of an artifact, with its index in the run's list."""
        for root in self._roots if os.path.isabs(path) else ():
            if path == root or path.startswith(os.path.join(root, "")):
                path = os.path.relpath(path, root)
                break
        location: dict[str, Any] = {"uri": _render_uri(path)}
        if not os.path.isabs(path):
            location["uriBaseId"] = SOURCE_ROOT
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
