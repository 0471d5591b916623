"""Render reports of ``scan`` as a SARIF 2.1.0 log, which code scanners and editors display.

Levels: ``dangerous`` and ``broken`` are errors, ``code`` is a warning, ``unknown`` a note. Locations within a file are
logical locations: most are in base64 within JSON within a zip, where an offset in the pickle is not one in the file.
Text that comes from a file is escaped, so that none of it becomes a link or a placeholder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from sbformat.errors import escape
from sbformat.tools.scan.report import RULES, SKIP_REASONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.tools.scan.report import SkipReason, Verdict

Level: TypeAlias = Literal["none", "note", "warning", "error"]

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
VERSION: Final = "2.1.0"
LEVELS: Final[dict[Verdict, Level]] = dict(zip(VERDICTS, ("none", "note", "warning", "error", "error")))
FINGERPRINT: Final = "finding/v1"
_RULE_INDEX: Final = {rule: index for index, rule in enumerate(RULES)}
_MAX_TEXT: Final = 1000


def render_sarif(
    reports: Sequence[Mapping[str, Any]], skipped: Mapping[str, Any], *, version: str, exit_code: int
) -> dict[str, Any]:
    """Return the log of one run.

    :param reports: the reports of the files, as in ``schema/report.schema.json``
    :param skipped: the files without a verdict, as in the same schema
    :param version: of sbformat
    :param exit_code: of the run
    """
    read = [report for report in reports if report["outcome"] == "ok"]
    failed = [report for report in reports if report["outcome"] != "ok"]
    run = {
        "tool": {"driver": {"name": "sbformat", "version": version, "rules": _render_rules()}},
        "invocations": [
            {
                "executionSuccessful": not failed,
                "exitCode": exit_code,
                "toolExecutionNotifications": [
                    *(_render_failure(report) for report in failed),
                    *(_render_skipped(row["path"], row["reason"]) for row in skipped.get("files", ())),
                ],
                "properties": {"skipped": skipped["counts"]},
            }
        ],
        "artifacts": [_render_artifact(report) for report in read],
        "results": list(_iter_results(read)),
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _render_rules() -> list[dict[str, Any]]:
    return [
        {
            "id": rule,
            "shortDescription": {"text": _escape_text(meaning)},
            "defaultConfiguration": {"level": LEVELS[verdict]},
            "properties": {"verdict": verdict},
        }
        for rule, (verdict, meaning) in RULES.items()
    ]


def _render_failure(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notification for a file that could not be read."""
    return {
        "level": "error",
        "message": {"text": _escape_text(f"{report['outcome']}: {report['message']}")},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _render_uri(report["path"])}}}],
    }


def _render_skipped(path: str, reason: SkipReason) -> dict[str, Any]:
    """Return the notification for a file without a verdict."""
    return {
        "level": "note",
        "message": {"text": _escape_text(SKIP_REASONS[reason][0])},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _render_uri(path)}}}],
    }


def _render_artifact(report: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "location": {"uri": _render_uri(report["path"])},
        "roles": ["analysisTarget"] if report["sha256"] else ["analysisTarget", "directory"],
        "properties": {"format": report["format"], "verdict": report["verdict"]},
    }
    if report["sha256"]:
        made |= {"length": report["size"], "hashes": {"sha-256": report["sha256"]}}
    return made


def _iter_results(reports: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    for index, report in enumerate(reports):
        for row in report["findings"]:
            yield {
                "ruleId": row["rule"],
                "ruleIndex": _RULE_INDEX[row["rule"]],
                "level": LEVELS[row["verdict"]],
                "message": {"text": _escape_text(row["message"])},
                "locations": [_render_location(report, index, row)],
                "partialFingerprints": {FINGERPRINT: _compute_fingerprint(row)},
                "properties": {"verdict": row["verdict"], "reason": row["reason"], "names": row["names"]},
            }


def _render_location(report: Mapping[str, Any], index: int, row: Mapping[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _render_uri(report["path"]), "index": index}}
    if row["offset"] is not None and _is_in_file(report, row):
        place["region"] = {"byteOffset": row["offset"], "byteLength": 1}
    made: dict[str, Any] = {"physicalLocation": place}
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


def _is_in_file(report: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether an offset counts from the start of the file, and not from that of a pickle within it."""
    return not row["entry"] and not row["key"] and report["pickles"] <= 1 and row["offset"] < report["size"]


def _compute_fingerprint(row: Mapping[str, Any]) -> str:
    """Return an identifier of a finding that stays the same when other parts of the file change."""
    parts = "\0".join((row["rule"], row["entry"], row["key"], *row["names"]))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _render_uri(path: str) -> str:
    """Return a relative path as a relative URI, an absolute one as a file URI; other bytes are percent-encoded."""
    if os.path.isabs(path):
        return PurePath(path).as_uri()
    relative = path.replace(os.sep, "/")
    while relative.startswith("./"):
        relative = relative[2:].lstrip("/")
    return quote(os.fsencode(relative or "."))


def _escape_text(message: str) -> str:
    """Return a message as SARIF text: braces are doubled, and nothing in it is a link."""
    return escape(message, _MAX_TEXT).replace("](", "] (").replace("{", "{{").replace("}", "}}")
