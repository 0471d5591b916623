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
from sbformat.tools.scan.findings import RULES, SKIP_REASONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.tools.scan.findings import Rule, Verdict


Precision: TypeAlias = Literal["very-high", "high", "medium", "low"]

SITE: Final = "https://sbformat.github.io/sbformat/"
PAGE: Final = f"{SITE}reference/rules/"
"""The page with a heading for each rule."""

SEVERITIES: Final[dict[Verdict, float]] = {"unknown": 3.0, "code": 5.0, "broken": 7.0, "dangerous": 8.0}
"""GitHub's ``security-severity`` of a rule, unless it has its own: low below 4, medium below 7, high to 9, critical."""

DANGEROUS_TOO: Final[tuple[Rule, ...]] = ("unchecked-arguments", "unknown-entry", "carried-function")
"""Rules with a lower verdict whose findings may be dangerous. A code scanner ranks a finding by its rule, so SARIF has
a second rule for these findings, such as ``unchecked-arguments-dangerous``."""


class RuleHelp(Record):
    """What a person needs to know about a rule; the texts are Markdown, with backticks around names and commands."""

    meaning: str
    """What was found, what it does when the file is loaded, and what harmless reason there may be."""
    remedy: str
    """What to do about it."""
    precision: Precision
    """How often such a finding is a reason not to load the file: GitHub sorts by it."""
    severity: float | None = None
    """None: that of the verdict, in ``SEVERITIES``."""


_ALLOW: Final = (
    "If you know the name and trust its module, allow exactly this name: `sbformat scan --allow MODULE.NAME`. "
    "Otherwise find out what it is before you load the file."
)
_DO_NOT_LOAD: Final = (
    "Do not load the file, neither with Stable-Baselines3 nor with torch or pickle. Ask where it comes from. If you "
    "need the agent, `sbformat rebuild FILE -o NEW` writes an archive without anything that runs."
)
_REBUILD: Final = "`sbformat rebuild FILE -o NEW` writes an archive without it."

RULE_HELP: Final[dict[Rule, RuleHelp]] = {
    "unknown-name": RuleHelp(
        "A pickle refers to a class, function or module that sbformat does not know, and nothing calls it while the "
        "file is loaded. Loading still imports its module, and importing a module runs the code in it, if it is "
        "installed. Agents with classes of their own contain such names.",
        f"{_ALLOW} {_REBUILD}",
        "low",
    ),
    "unchecked-arguments": RuleHelp(
        "A pickle calls a constructor that sbformat knows, with arguments that it does not know. What the "
        "constructor does with them was not checked. A release of the library that sbformat does not know may be the "
        "reason. The finding is dangerous when the callable reaches code if it receives other arguments, as `getattr` "
        "does.",
        "Do not load the file if the finding is dangerous. Otherwise compare the file with one that the same library "
        "saved, and report the difference if a library really writes it.",
        "medium",
    ),
    "discarded-result": RuleHelp(
        "A pickle calls something that sbformat knows, and throws the result away. Picklers do not write that; a "
        "payload does, to run a call without a trace in the loaded object.",
        f"Do not load the file unless you know which program wrote it. {_REBUILD}",
        "medium",
    ),
    "odd-pickle": RuleHelp(
        "A pickle is built from opcodes in a way that no pickler uses: it was written by hand or by another program. "
        "What it loads as is known, and runs nothing that sbformat does not know.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "trailing-bytes": RuleHelp(
        "Bytes follow the end of a pickle, an array or an archive. The usual loader ignores them; another program may "
        "read them. They were examined: if they contain a pickle, it has findings of its own.",
        f"Ask which program wrote the file, or whether it was damaged in transfer. {_REBUILD}",
        "medium",
    ),
    "lenient-base64": RuleHelp(
        "The base64 text of a serialized value contains other characters, or has other padding, than an encoder "
        "writes. Decoders differ in what they make of such text, so two programs may load different pickles. Each "
        "interpretation was examined.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "hidden-blob": RuleHelp(
        "A member named `:serialized:` is nested in a place of `data` where Stable-Baselines3 does not look for one. "
        "Another program that reads the archive may unpickle it. Its pickle was examined like the others.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "unknown-entry": RuleHelp(
        "An entry of an archive is one that Stable-Baselines3 does not write, or sbformat does not know the type of a "
        "file, so its content could not be examined. The finding is dangerous when a loader would read the entry and "
        "sbformat cannot unpack it.",
        "Do not load the file if the finding is dangerous. Otherwise find out what the entry is and which program "
        "reads it. Files that have nothing to do with the agent do not belong in the archive.",
        "low",
    ),
    "carried-function": RuleHelp(
        "cloudpickle stored a function with its bytecode in the file: a learning rate schedule given as a lambda, for "
        "example. The code runs when Stable-Baselines3 calls the function, and a learning rate is called while the "
        "agent is loaded. The finding is dangerous when the pickle itself calls the function. Functions that "
        "Stable-Baselines3 or rl-zoo3 published are recognized and have no finding.",
        "Give the agent a number instead: `sbformat rebuild FILE -o NEW --set learning_rate=0.0003` drops the function "
        "and stores that. Otherwise load the file only if you trust the author.",
        "medium",
    ),
    "carried-class": RuleHelp(
        "cloudpickle stored a class with the bytecode of its methods in the file: a policy or features extractor that "
        "was defined in a script or notebook. Loading creates the class, and what Stable-Baselines3 does with it runs "
        "its methods. The finding names the methods that run while the file is loaded.",
        "Load the file only if you trust the author. With the source of the class in a module of your own, save the "
        "agent again from a program that imports it, so that the file only refers to it.",
        "medium",
    ),
    "carried-program": RuleHelp(
        "The file contains a TorchScript program, which `torch.jit.load` compiles and a call of the model runs. "
        "Stable-Baselines3 does not save such files.",
        "Load it only if you trust the author. The weights alone: `sbformat extract FILE -o weights.safetensors`, if "
        "the file can be read.",
        "medium",
    ),
    "broken": RuleHelp(
        "Something cannot be parsed, cannot be loaded, or needs more than the limits allow: a truncated download, a "
        "damaged file, or one that was built to confuse readers. What a more lenient reader makes of it is not known. "
        "What could be examined has findings of its own.",
        "Compare the size and checksum with the source and download the file again. If a limit was exceeded and you "
        "expect a file of that size, raise the limit: `sbformat scan --limit NAME=VALUE`. `sbformat validate` lists "
        "every fault.",
        "high",
    ),
    "unknown-call": RuleHelp(
        "A pickle calls a function or class that sbformat does not know: loading the file imports its module and runs "
        "it, with arguments that the file chooses. Agents with objects of libraries that sbformat does not know "
        "contain such calls, and so does every attack with a function that is not on a list of harmful ones.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "unknown-object": RuleHelp(
        "A pickle creates an object of a class that sbformat does not know: loading runs methods of the class, such "
        "as `__new__` and `__setstate__`, with values that the file chooses. Agents with a policy, environment or "
        "callback of their own contain such objects.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "called-name": RuleHelp(
        "A pickle refers to a class or function that sbformat does not know, in a place where Stable-Baselines3 or a "
        "constructor calls it: a policy class, an optimizer, a features extractor, a schedule. A custom policy is the "
        "usual reason.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "changed-value": RuleHelp(
        "A value is changed after a call received it, or in a way that cannot be followed. So what the call received "
        "while loading is not what the finished object shows. No pickler writes that.",
        _DO_NOT_LOAD,
        "high",
    ),
    "ambiguous-frame": RuleHelp(
        "A pickle ends its frames inside arguments. CPython's unpicklers differ there: one reads other bytes than the "
        "other, so a scanner can be shown harmless content while another is loaded. No pickler writes that.",
        _DO_NOT_LOAD,
        "high",
    ),
    "dangerous-name": RuleHelp(
        "A pickle imports or calls something that is known to run commands or code, import modules, open files or "
        "connect to a network: `os.system`, `builtins.eval`, `subprocess.Popen`, for example. Loading the file "
        "executes it, before any check in Python can prevent it.",
        f"{_DO_NOT_LOAD} If it was loaded already, treat the machine as compromised.",
        "very-high",
        9.8,
    ),
    "computed-name": RuleHelp(
        "A pickle computes which name it imports or calls, or takes it from the copyreg registry of the process. Only "
        "running the file shows what that is. No pickler writes that; payloads do, to evade scanners.",
        _DO_NOT_LOAD,
        "very-high",
        9.5,
    ),
    "python-tag": RuleHelp(
        "A file contains a YAML tag that names a Python object. rl_zoo3 loads `args.yml` and `config.yml` with an "
        "unsafe loader, which imports what a tag names and calls it. The tags that rl_zoo3 itself writes are "
        "recognized and have no finding. A comment or text that is spelled as a tag has one, because another encoding "
        "or reader may see a tag in it.",
        "Remove the tag or the file, or load it with `yaml.safe_load`. Do not run rl_zoo3 in this folder.",
        "high",
        8.8,
    ),
}


def get_severity(rule: Rule, verdict: Verdict) -> float:
    """Return GitHub's ``security-severity``, from 0.1 to 10, for the findings of a rule with this verdict."""
    own = RULE_HELP[rule].severity
    return SEVERITIES[verdict] if own is None else own


def make_rule_id(rule: Rule, verdict: Verdict) -> str:
    """Return the identifier in SARIF: the rule, or the second one of a rule whose findings may be dangerous too."""
    is_second = verdict == "dangerous" != RULES[rule][0] and rule in DANGEROUS_TOO
    return f"{rule}-dangerous" if is_second else rule


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
                "toolExecutionNotifications": list(_iter_notifications(reports, skipped, omitted, paths)),
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


def _iter_notifications(
    reports: Sequence[Mapping[str, Any]], skipped: Mapping[str, Any], omitted: int, paths: _Paths
) -> Iterable[dict[str, Any]]:
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


def _notify(level: Level, text: str, place: dict[str, Any] | None = None) -> dict[str, Any]:
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
