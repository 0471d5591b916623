"""Every real archive scanned: the share that is clean, the reason for each that is not, and what one byte changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import sbformat
from sbformat.data import Serialized
from sbformat.known.types import Function
from sbformat.values import decode
from tests.helpers.shared_files import CORPUS, GENERATED, summarize_counts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.exhaustive

COUNTS: Counter[str] = Counter()
summary = summarize_counts(COUNTS, "test_corpus_scan.py scanned")
CODE_RULES = {"carried-function", "carried-class"}
USERS = ("schedules", "lambda", "numpylr", "customextractor")
"""Variants of the generated archives that hold functions or classes of a user."""


def archives() -> list[Path]:
    return sorted(path for path in (CORPUS / "sb3").iterdir() if path.is_file())


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the project")
def test_the_corpus_is_clean_or_explained() -> None:
    verdicts: Counter[str] = Counter()
    for path in archives():
        report = sbformat.scan(path)
        verdicts[report.verdict] += 1
        assert (report.verdict == "clean") == (not report.findings)
        assert report.omitted == 0
        named = {name for finding in report.findings for name in finding.names}
        assert named <= {*report.imports}, path.name
    COUNTS.update({f"{verdict} archives of the corpus": count for verdict, count in verdicts.items()})
    assert verdicts["clean"] >= 0.95 * verdicts.total()
    assert verdicts["broken"] == 0


@pytest.mark.skipif(not GENERATED.is_dir(), reason="the generated archives are not beside the project")
def test_generated_archives_are_clean_but_for_users_code() -> None:
    verdicts: Counter[str] = Counter()
    for path in sorted(GENERATED.glob("[0-9]*/*.zip")):
        report = sbformat.scan(path)
        verdicts[report.verdict] += 1
        if any(word in path.name for word in USERS):
            assert {finding.rule for finding in report.findings} <= CODE_RULES, path
        else:
            assert report.verdict == "clean", (path, report.findings)
    COUNTS.update({f"{verdict} archives of releases": count for verdict, count in verdicts.items()})
    assert set(verdicts) == {"clean", "code"}


@pytest.mark.skipif(not GENERATED.is_dir(), reason="the generated archives are not beside the project")
def test_other_files_are_never_dangerous() -> None:
    verdicts: Counter[str] = Counter()
    for path in sorted(GENERATED.glob("[0-9]*/*.p*")):
        report = sbformat.scan(path)
        verdicts[report.verdict] += 1
        assert report.verdict != "dangerous", (path, report.findings)
    COUNTS.update({f"{verdict} statistics, buffers and policies": count for verdict, count in verdicts.items()})
    assert verdicts


def functions() -> list[tuple[str, bytes]]:
    """A published function of each release, as it was pickled."""
    found = {}
    for path in sorted(GENERATED.glob("[0-9]*/*-MlpPolicy.zip")) if GENERATED.is_dir() else []:
        for key in ("lr_schedule", "exploration_schedule"):
            value = sbformat.read(path).data.get(key)
            if isinstance(value, Serialized) and isinstance(decode(value), Function):
                found.setdefault((path.parent.name, key), value.pickle)
    return [(" ".join(name), pickle) for name, pickle in found.items()]


@pytest.mark.skipif(not GENERATED.is_dir(), reason="the generated archives are not beside the project")
def test_one_changed_byte_of_published_code_is_not_clean() -> None:
    """What stays clean after a change differs in the numbers of the closure, the folder or the line alone."""
    cases = functions()
    assert len(cases) >= 8
    for name, pickle in cases:
        before = decode(Serialized(None, pickle))
        assert isinstance(before, Function)
        assert sbformat.scan(pickle).verdict == "clean"
        for at in range(len(pickle)):
            changed = bytearray(pickle)
            changed[at] ^= 1
            if sbformat.scan(bytes(changed)).verdict != "clean":
                continue
            after = decode(Serialized(None, bytes(changed)))
            assert isinstance(after, Function), (name, at)
            assert (after.digest, after.qualname, after.module) == (before.digest, before.qualname, before.module)
            assert after.schedule is not None
            assert after.code is not None
            assert after.code.filename.endswith(".py"), (name, at)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the project")
def test_a_report_goes_to_another_process() -> None:
    import pickle

    for path in archives()[:3]:
        report = sbformat.scan(path)
        assert pickle.loads(pickle.dumps(report)) == report
        assert report.sha256 in {row["sha256"] for row in json.loads((CORPUS / "manifest.json").read_text())}
