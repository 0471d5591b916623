"""The conformance suite: vectors test rules, keep to their schema, and have the expected results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any, Final

import jsonschema
import pytest

from conformance.generate import existing_lines, fill_readme
from conformance.runner.vectors import list_sections, read_features, read_lines, read_section, read_vector, read_vectors
from sbformat.errors import MESSAGE_BYTES
from tests.helpers.bundled import ROOT
from tests.helpers.count_work import PATIENCE, stay_within
from tests.helpers.pth_checks import BASE_BYTES, SECONDS
from tests.helpers.sampling import sample, with_exhaustive
from tests.helpers.site_hooks import load_hook

HERE: Final = ROOT / "conformance"
VECTORS: Final = list(read_vectors())
SCHEMA: Final = json.loads((HERE / "vector.schema.json").read_bytes())


def normalize_spaces(text: str) -> str:
    return " ".join(text.split())


@cache
def sections() -> dict[str, str]:
    """The text of each section of the specification by its number."""
    found = load_hook("format_sections").list_sections()
    return {number: normalize_spaces(section.text) for number, section in found.items()}


def describe_form(vector: dict[str, Any]) -> tuple[str, ...]:
    """The fields of a vector, and what it needs and comes to."""
    return *sorted(vector), str(vector.get("features")), str(vector.get("outcome")), *vector.get("arguments", ())[:1]


# -- the vectors and their rules ----------------------------------------------------------------------


@pytest.mark.parametrize("one_in", with_exhaustive([5], [1]))
def test_every_line_is_valid_by_the_schema(one_in: int) -> None:
    """In the default run, a fifth of those with the same fields, arguments, features and outcome."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    chosen = sample(VECTORS, one_in, name=lambda vector: vector["name"], group=describe_form)
    assert {vector["name"]: str(error) for vector in chosen for error in validator.iter_errors(vector)} == {}
    names = Counter(vector["name"] for vector in VECTORS)
    assert [name for name, count in names.items() if count > 1] == []


def test_the_schema_is_strict() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    decoded, refused, policy, encoded = map(read_vector, ("form-zip", "file-empty", "policy-lstm", "encode-name-dots"))
    for broken in (
        {**decoded, "other": 1},
        {**decoded, "outcome": "missing"},
        {**decoded, "written": "0" * 64},
        {**decoded, "input": {"steps": []}},
        {**decoded, "tolerance": 1},
        {**decoded, "base64": "A"},
        {**decoded, "level": 4},
        {**refused, "outcome": "refused"},
        {**encoded, "expect": {}},
        {**encoded, "arguments": ["--scan"]},
        *({key: value for key, value in decoded.items() if key != absent} for absent in SCHEMA["required"]),
        {key: value for key, value in decoded.items() if key != "expect"},
        *({key: value for key, value in policy.items() if key != absent} for absent in ("input", "tolerance")),
    ):
        assert not validator.is_valid(broken), broken


def test_lines_are_in_the_file_of_their_section() -> None:
    for section in list_sections():
        for line in read_lines(section):
            assert json.loads(line)["section"] == section
            assert line.isascii()
    assert [v["name"] for v in VECTORS] == [v["name"] for section in list_sections() for v in read_section(section)]


def test_levels_are_those_of_the_features() -> None:
    levels = {name: feature.level for name, feature in read_features().items()}
    for vector in VECTORS:
        found = [levels[feature] for feature in vector.get("features", ["core"])]
        assert vector.get("level") == (None if None in found else max(found)), vector["name"]


def test_every_feature_is_described() -> None:
    described = json.loads((HERE / "features.json").read_bytes())
    listed = SCHEMA["$defs"]["feature"]["enum"]
    assert list(described) == ["core", *sorted(listed)]
    assert {feature for vector in VECTORS for feature in vector.get("features", ())} == set(listed)


def test_the_table_of_implementations_is_that_of_the_features() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    assert fill_readme(text, existing_lines()) == text


def test_every_layer_has_vectors() -> None:
    counts = Counter(vector.get("outcome", "accepted") for vector in VECTORS)
    assert counts["accepted"] >= 150
    assert sum(counts.values()) >= 300
    assert min(counts.values()) >= 4
    kinds = {vector["outcome"] for vector in VECTORS if "outcome" in vector}
    assert len(kinds) == 8


def test_every_vector_quotes_its_section() -> None:
    assert [v["name"] for v in VECTORS if normalize_spaces(v["sentence"]) not in sections().get(v["section"], "")] == []


ONE_SIDED: Final = {
    "A reader MUST NOT unpickle it": "test_no_execution.py tests it with all vectors",
    "MUST NOT use a hint as the value": "a decoder prints both; nothing is refused",
    "MUST accept and preserve them": "nothing is refused",
    "A reader MUST report that the text was not canonical": "a decoder prints it; nothing is refused",
    "never refused for that reason": "another sentence has the vectors that are refused",
    "a reader MUST accept any order": "nothing is refused",
    "MUST be preserved unchanged and otherwise ignored": "nothing is refused",
    "MUST traverse it without recursion": "a violation would be a crash",
    "MUST NOT hash anything that a file built": "a violation would be a hang",
    "MUST record, in order, every import": "a decoder prints the log",
    "MUST be flagged": "a decoder prints the flags",
    "A reader MUST do the same, according to the last PROTO executed": "a decoder prints the name",
    "MUST be understood (13.1), or produces a finding": "a scan refuses nothing; a decoder prints the verdicts",
    "A reader that drops decoded values": "a decoder of one file drops none; tests/test_limits.py has both sides",
    "HER MUST come first": "a decoder prints an algorithm; nothing is refused",
    'a runner MUST report "invalid"': "other policies are run",
}
"""Rules that have vectors on one side only, with the reason."""


def rules(number: str) -> list[str]:
    """The sentences of a section that contain MUST."""
    return [
        part
        for part in re.split(r"(?<=[.;:]) (?=[^a-z]|a reader|all |they |it )", sections()[number])
        if "MUST" in part
    ]


PROVED: Final = (*range(1, 10), 14, 16, 17, 18, 19, 22)
"""The sections with rules for readers that a decoder can show."""


@pytest.mark.parametrize("number", [number for number in sections() if number and int(number.split(".")[0]) in PROVED])
def test_every_must_has_a_vector_on_each_side(number: str) -> None:
    """A vector tests a sentence if it quotes a part of it, or text that contains it."""
    missing = []
    for sentence in rules(number):
        quoting = [v for v in VECTORS if v["section"] == number and _overlap(sentence, normalize_spaces(v["sentence"]))]
        sides = {"outcome" in vector for vector in quoting}
        excused = any(words in sentence for words in ONE_SIDED)
        if len(sides) != (1 if excused else 2):
            missing.append((sentence, sides))
    assert missing == []


def _overlap(sentence: str, quote: str) -> bool:
    """Say whether the quote and the sentence overlap."""
    return (
        quote in sentence
        or sentence in quote
        or any(
            sentence.endswith(quote[:size]) or quote.endswith(sentence[:size])
            for size in range(30, min(len(sentence), len(quote)))
        )
    )


# -- results ------------------------------------------------------------------------------------------


STEPS: Final = [8, pytest.param(1, marks=pytest.mark.robustness)]
"""One in so many vectors."""


@cache
def run_vectors_in_child(step: int) -> dict[str, Any]:
    """The results of a child process with lowered resource limits; none takes longer than a hostile file may."""

    def run(environment: dict[str, str]) -> dict[str, Any]:
        child = [sys.executable, str(ROOT / "tests" / "children" / "decode_vectors.py"), str(step)]
        path = {"PYTHONPATH": os.pathsep.join([*sys.path, str(HERE / "harness" / "python")])}
        done = subprocess.run(
            child, capture_output=True, text=True, check=False, timeout=PATIENCE, env={**environment, **path}
        )
        assert done.returncode == 0, done.stderr[-3000:]
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return stay_within(run, lambda report: max(row["seconds"] for row in report["rows"]), SECONDS)


@pytest.mark.parametrize("step", STEPS)
def test_every_vector_has_the_expected_result(step: int) -> None:
    rows = run_vectors_in_child(step)["rows"]
    assert [row["name"] for row in rows] == [vector["name"] for vector in VECTORS[::step]]
    assert {row["name"]: row["wrong"] for row in rows if row["wrong"]} == {}


@pytest.mark.parametrize("step", STEPS)
def test_no_vector_costs_more_than_a_hostile_file_may(step: int) -> None:
    for row in run_vectors_in_child(step)["rows"]:
        assert row["grown"] <= 3 * row["size"] + BASE_BYTES, row
        assert row["shown"] <= MESSAGE_BYTES, row


@pytest.mark.parametrize("step", STEPS)
def test_no_vector_changes_the_process(step: int) -> None:
    report = run_vectors_in_child(step)
    assert report["changed"] == []
    assert report["modules"] == []
