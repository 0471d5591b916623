"""Scan files and report to GitHub: the second step of the GitHub Action.

What comes in, as environment variables: the inputs of ``action.yml`` (``SBFORMAT_PATH``, ``SBFORMAT_FAIL_ON``,
``SBFORMAT_ALLOW``, ``SBFORMAT_BASELINE``, ``SBFORMAT_LIMITS``, ``SBFORMAT_SARIF_FILE``), and what the runner sets
(``GITHUB_WORKSPACE``, ``GITHUB_OUTPUT``, ``GITHUB_STEP_SUMMARY``, ``RUNNER_TEMP``).

What goes out: the SARIF log, the outputs, a summary, annotations of the worst findings, and the findings as text. The
step itself succeeds, so that the log is uploaded; its output ``fails`` makes the last step fail.

File names and names in files are chosen by whoever made the files. The runner executes lines of the output that begin
with ``::``, and reads outputs by lines. So text is printed while commands are stopped, annotations and outputs are
encoded as the runner documents, and the summary has such text as escaped HTML in ``<code>``, where neither Markdown nor
mentions are read.
"""

from __future__ import annotations

import html
import json
import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from sbformat.errors import escape
from sbformat.tools.scan.findings import SKIP_REASONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NEVER: Final = "never"
"""The value of ``fail-on`` with which no verdict fails the job."""
COULD_NOT: Final = 2
"""Exit status of ``sbformat scan`` when something could not be read."""
COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}
"""The commands of the runner that annotate a file, by the level of a result."""
MAX_ANNOTATIONS: Final = 10
"""GitHub shows ten annotations of each kind in a step."""
MAX_ROWS: Final = 200
"""Findings that the summary and the log list."""
MAX_SUMMARY: Final = 1_000_000
"""Bytes of a summary: of more than 1 MiB GitHub displays nothing."""
_FRAME: Final = 1000
"""Bytes of the table besides its rows."""
MAX_TEXT: Final = 500


class Finding(NamedTuple):
    """A result of the log, as it is displayed."""

    verdict: str
    level: str
    path: str
    place: str
    """The entry and the key, or empty."""
    rule: str
    url: str
    message: str
    line: int
    is_accepted: bool
    """The baseline accepts it."""


# -- the scan -----------------------------------------------------------------------------------------


def list_lines(name: str) -> list[str]:
    """Return the lines of an input that are not empty."""
    return [line.strip() for line in os.environ.get(name, "").splitlines() if line.strip()]


def make_command() -> list[str]:
    """Return the command line of the scan."""
    fail_on = os.environ.get("SBFORMAT_FAIL_ON", "").strip() or VERDICTS[1]
    command = [sys.executable, "-I", "-m", "sbformat", "scan", "--format", "sarif"]
    command += ["--fail-on", VERDICTS[-1] if fail_on == NEVER else fail_on]
    command += [f"--allow={name}" for name in list_lines("SBFORMAT_ALLOW")]
    command += [f"--baseline={path}" for path in list_lines("SBFORMAT_BASELINE")[:1]]
    command += [f"--limit={limit}" for limit in list_lines("SBFORMAT_LIMITS")]
    return [*command, "--", *(list_lines("SBFORMAT_PATH") or ["."])]


def run_scan(sarif_path: str) -> tuple[int, str, dict[str, Any] | None]:
    """Write the log; return the exit status, what was printed to stderr, and the run, None if there is no log."""
    workspace = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    with open(sarif_path, "wb") as file:
        done = subprocess.run(make_command(), stdout=file, stderr=subprocess.PIPE, cwd=workspace, check=False)
    errors = done.stderr.decode("utf-8", "replace")
    try:
        with open(sarif_path, encoding="utf-8") as file:
            return done.returncode, errors, json.load(file)["runs"][0]
    except (ValueError, LookupError):
        return COULD_NOT, errors, None


def iter_findings(run: dict[str, Any]) -> Iterable[Finding]:
    """Yield the results of a run, the worst first, those that a baseline accepts last."""
    rules = {rule["id"]: rule["helpUri"] for rule in run["tool"]["driver"]["rules"]}
    for result in sorted(run["results"], key=rank):
        location = result["locations"][0]
        places = location.get("logicalLocations", [])
        yield Finding(
            verdict=result["properties"]["verdict"],
            level=result["level"],
            path=unquote(location["physicalLocation"]["artifactLocation"]["uri"]),
            place=places[0]["fullyQualifiedName"] if places else "",
            rule=result["ruleId"],
            url=rules[result["ruleId"]],
            message=result["message"]["text"].replace("{{", "{").replace("}}", "}"),
            line=location["physicalLocation"]["region"]["startLine"],
            is_accepted=bool(result.get("suppressions")),
        )


def rank(result: dict[str, Any]) -> tuple[bool, int]:
    """Return the key that sorts results."""
    return bool(result.get("suppressions")), -VERDICTS.index(result["properties"]["verdict"])


def list_errors(run: dict[str, Any]) -> list[str]:
    """Return why the scan is not complete: files that could not be read."""
    rows = run["invocations"][0]["toolExecutionNotifications"]
    return [f"{path_of(row)}{row['message']['text']}" for row in rows if row["level"] != "note"]


def path_of(notification: dict[str, Any]) -> str:
    """Return the path that a notification is about, with a colon, or nothing."""
    for location in notification.get("locations", ()):
        return f"{unquote(location['physicalLocation']['artifactLocation']['uri'])}: "
    return ""


def worst_verdict(run: dict[str, Any]) -> str:
    """Return the worst verdict of a run; empty if no file has one."""
    verdicts = [artifact["properties"]["verdict"] for artifact in run["artifacts"]]
    return max(verdicts, key=VERDICTS.index, default="")


def count_verdicts(run: dict[str, Any]) -> str:
    """Return how many files have each verdict, as words, the worst first."""
    verdicts = [artifact["properties"]["verdict"] for artifact in run["artifacts"]]
    parts = [f"{verdicts.count(name):,} {name}" for name in reversed(VERDICTS) if name in verdicts]
    return f"{len(verdicts):,} {'file' if len(verdicts) == 1 else 'files'}{': ' if parts else ''}{', '.join(parts)}"


def count_skipped(run: dict[str, Any]) -> str:
    """Return the files without a verdict, counted by their reasons, as words."""
    counts = run["invocations"][0]["properties"]["skipped"]
    return "; ".join(f"{count:,} {SKIP_REASONS[reason][count != 1]}" for reason, count in counts.items())


# -- what GitHub reads --------------------------------------------------------------------------------


def encode_data(text: str) -> str:
    """Encode the message of a command of the runner."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def encode_property(text: str) -> str:
    """Encode a property of a command of the runner."""
    return encode_data(text).replace(":", "%3A").replace(",", "%2C")


def make_annotations(findings: Iterable[Finding]) -> list[str]:
    """Return the commands that annotate files with their worst findings, but those that are accepted."""
    counts = dict.fromkeys(COMMANDS, 0)
    commands = []
    for row in findings:
        if row.is_accepted:
            continue
        counts[row.level] += 1
        if counts[row.level] <= MAX_ANNOTATIONS:
            title = encode_property(f"sbformat: {row.rule}")
            place = f"{escape(row.place, MAX_TEXT)}: " if row.place else ""
            message = encode_data(f"{place}{escape(row.message, MAX_TEXT)}")
            path = encode_property(escape(row.path, MAX_TEXT))
            commands.append(f"::{COMMANDS[row.level]} file={path},line={row.line},title={title}::{message}")
    return commands


def print_stopped(lines: Sequence[str]) -> None:
    """Print lines of text in which the runner looks for no commands."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", *lines, f"::{token}::", sep="\n")


def format_output(name: str, value: str) -> str:
    """Return an output as the runner reads it, with a delimiter that the value cannot contain."""
    delimiter = secrets.token_hex(16)
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def render_code(text: str) -> str:
    """Return text as HTML in which nothing of it is markup, a mention or a link."""
    return f"<code>{html.escape(escape(text, MAX_TEXT))}</code>"


def render_summary(run: dict[str, Any], findings: Sequence[Finding], errors: Sequence[str], *, fails: bool) -> str:
    """Return the summary of the job, as Markdown with a table in HTML, of less than :data:`MAX_SUMMARY` bytes."""
    lines = [f"## sbformat scan: {worst_verdict(run) or 'nothing examined'}{' (failed)' if fails else ''}", ""]
    lines += [f"{count_verdicts(run)}.", ""]
    if count_skipped(run):
        lines += [f"Without a verdict: {count_skipped(run)}.", ""]
    shown = take_lines((f"<p>{render_code(error)}</p>\n" for error in errors[:MAX_ROWS]), MAX_SUMMARY // 4)
    lines += shown
    if len(errors) > len(shown):
        lines += [f"The first {len(shown)} of {len(errors):,} errors; the log of the step has all.", ""]
    if findings:
        cells = ("verdict", "file", "where", "rule", "finding")
        left = MAX_SUMMARY - len("\n".join(lines).encode()) - _FRAME
        shown = take_lines(map(render_row, findings[:MAX_ROWS]), left)
        lines += ["<table>", f"<tr>{''.join(f'<th>{cell}</th>' for cell in cells)}</tr>", *shown, "</table>", ""]
        if len(findings) > len(shown):
            lines += [f"The first {len(shown)} of {len(findings):,} findings; the SARIF log has more.", ""]
    return "\n".join(lines)


def name_verdict(row: Finding) -> str:
    """Return the verdict of a finding, and whether it is accepted."""
    return f"{row.verdict} (accepted)" if row.is_accepted else row.verdict


def render_row(row: Finding) -> str:
    """Return a finding as a row of the table."""
    link = f'<a href="{html.escape(row.url)}">{html.escape(row.rule)}</a>'
    where = render_code(row.place) if row.place else ""
    texts = (name_verdict(row), render_code(row.path), where, link, render_code(row.message))
    return f"<tr>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"


def take_lines(lines: Iterable[str], nbytes: int) -> list[str]:
    """Return the first lines, as many as fit into a number of bytes in UTF-8 with their newlines."""
    taken = []
    for line in lines:
        nbytes -= len(line.encode()) + 1
        if nbytes < 0:
            break
        taken.append(line)
    return taken


def main() -> int:
    """Scan; return the exit status of the step."""
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr] -- Windows has cp1252
    sarif_path = os.environ.get("SBFORMAT_SARIF_FILE", "").strip()
    sarif_path = os.path.abspath(sarif_path or os.path.join(os.environ["RUNNER_TEMP"], "sbformat.sarif"))
    status, printed, run = run_scan(sarif_path)
    if run is None:
        print_stopped([*printed.splitlines(), "sbformat wrote no log"])
        return COULD_NOT
    findings, errors = list(iter_findings(run)), list_errors(run)
    fails = status == COULD_NOT or (status != 0 and os.environ.get("SBFORMAT_FAIL_ON", "").strip() != NEVER)
    rows = [
        f"{name_verdict(row)}: {escape(row.path, MAX_TEXT)}: {escape(row.place, MAX_TEXT)}: {row.rule}: {row.message}"
        for row in findings[:MAX_ROWS]
    ]
    print_stopped([*rows, *(escape(error, MAX_TEXT) for error in errors), *printed.splitlines(), count_verdicts(run)])
    print(*make_annotations(findings), sep="\n")
    if "lfs-pointer" in run["invocations"][0]["properties"]["skipped"]:
        advice = "the repository has Git LFS pointers: give actions/checkout the input lfs: true to scan their files"
        print(f"::warning title=sbformat::{advice}")
    outputs = {
        "verdict": worst_verdict(run),
        "exit-status": str(status),
        "files": str(len(run["artifacts"])),
        "findings": str(len(findings) + run["invocations"][0]["properties"]["omitted"]),
        "sarif-file": sarif_path,
        "complete": "true" if run["invocations"][0]["executionSuccessful"] else "false",
        "fails": "true" if fails else "false",
    }
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.writelines(format_output(name, value) for name, value in outputs.items())
    with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as file:
        file.write(render_summary(run, findings, errors, fails=fails))
    return 0


if __name__ == "__main__":
    sys.exit(main())
