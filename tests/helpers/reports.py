"""What commands print: JSON, checked against its schema, and errors."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from sbformat.cli import main
from sbformat.schema import load_schema

REPORT: Final = Draft202012Validator(load_schema("report"))


def parse_reports(out: str) -> list[dict[str, Any]]:
    """Return the report of each file; a number that JSON does not have fails the test."""
    document = json.loads(out, parse_constant=pytest.fail)
    REPORT.validate(document)
    files: list[dict[str, Any]] = document["files"]
    return files


def run_failing(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run a command that fails and prints nothing; what it writes to standard error."""
    try:
        status: Any = main([str(arg) for arg in args])
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    return err


def unfold(err: str) -> str:
    """Return standard error with each error in one line: its clauses and its hint after semicolons."""
    return re.sub(r"\n +", " ", re.sub(r"\n  (?:hint: |- )", "; ", err))
