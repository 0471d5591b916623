"""The results of a run as text, as JSON (results.schema.json) and as JUnit XML."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from conformance.runner.vectors import list_features, list_implementations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.runner.checks import Result
    from conformance.runner.vectors import Vector

STATES: Final = ("passed", "skipped", "xfail", "fail", "crash")
SKIPPED_FOR: Final = {
    "argument": "with an argument that the command does not know",
    "feature": "that need a feature of --skip-feature or one that --implementation lacks",
    "encoder": "for an encoder, and there is none",
}
NOT_IN_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_success(results: Sequence[Result]) -> bool:
    """Say whether all results were as expected, and at least one vector was run."""
    states = {result.state for result in results}
    return bool(states & {"passed", "xfail"}) and not states & {"fail", "crash"}


def describe_expectation(vector: Vector) -> str:
    """Return what a vector expects: an outcome, or ``accepted``, ``predicted`` or ``encode``."""
    if vector["kind"] == "encode":
        return "encode"
    return vector.get("outcome", "predicted" if vector["kind"] == "policy" else "accepted")


def list_chapter(vector: Vector) -> list[str]:
    """Return the number of the section without its subsections."""
    return [vector["section"].partition(".")[0]]


def count_states(results: Sequence[Result], list_rows: Callable[[Vector], list[str]]) -> dict[str, dict[str, int]]:
    """Count the states of the vectors of each row."""
    counts: Counter[tuple[str, str]] = Counter()
    for result in results:
        counts.update((row, result.state) for row in list_rows(result.vector))
    rows = dict.fromkeys(row for row, _ in counts)
    return {row: {state: counts[row, state] for state in STATES} for row in rows}


# -- text ---------------------------------------------------------------------------------------------


def print_text(results: Sequence[Result], *, totals: bool) -> None:
    """Print what is wrong, and the tables."""
    for result in results:
        if result.state in ("fail", "crash"):
            name, section, sentence = (result.vector[key] for key in ("name", "section", "sentence"))
            print(f"{name}: {result.reason}\n    section {section}: {sentence}")
    if totals:
        print_table("feature (a vector may need several)", sort_rows(count_states(results, list_features)))
        print_table("section", sort_rows(count_states(results, list_chapter)))
    expected = count_states(results, lambda vector: [describe_expectation(vector)])
    print_table("", {**expected, **count_states(results, lambda _: ["all"])})
    for reason, count in Counter(result.skipped_for for result in results if result.skipped_for).items():
        print(f"skipped: {count} {SKIPPED_FOR[reason]}")
    alone = sum(len(list_implementations(result.vector)) < 2 for result in results)
    if alone:
        print(f"one implementation only: {alone}, whose results were checked by that one and by hand alone")


def sort_rows(rows: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Sort sections by their numbers; features by name, ``core`` first."""

    def key(name: str) -> tuple[list[int], bool, str]:
        return [int(part) for part in name.split(".") if part.isdigit()], name != "core", name

    return dict(sorted(rows.items(), key=lambda row: key(row[0])))


def print_table(title: str, rows: dict[str, dict[str, int]]) -> None:
    """Print the number of vectors by row and state."""
    if len(title) > 18:
        print(title)
    print(f"{title if len(title) <= 18 else '':20}" + "".join(f"{state:>8}" for state in STATES))
    for row, counts in rows.items():
        print(f"{row:20}" + "".join(f"{counts[state]:>8}" for state in STATES))
    if title:
        print()


# -- JSON ---------------------------------------------------------------------------------------------


def print_json(results: Sequence[Result], commands: dict[str, Any]) -> None:
    """Print the results by ``results.schema.json``."""
    document = {
        "version": 1,
        **commands,
        "success": is_success(results),
        "totals": count_states(results, lambda _: ["all"])["all"],
        "features": sort_rows(count_states(results, list_features)),
        "sections": sort_rows(count_states(results, lambda vector: [vector["section"]])),
        "results": [describe_result(result) for result in results],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


def describe_result(result: Result) -> dict[str, Any]:
    """Describe one result."""
    vector = result.vector
    described = {key: vector[key] for key in ("name", "kind", "section", "sentence")}
    described |= {"features": vector.get("features", []), "expected": describe_expectation(vector)}
    described |= {"state": result.state, "seconds": round(result.seconds, 6)}
    if result.reason:
        described["reason"] = result.reason
    if result.skipped_for:
        described["skipped_for"] = result.skipped_for
    return described


# -- JUnit --------------------------------------------------------------------------------------------


def write_junit(path: str, results: Sequence[Result]) -> None:
    """Write JUnit XML: a suite for each section, with a case for each vector."""
    root = ET.Element("testsuites", name="conformance", **describe_totals(results))
    by_chapter: dict[str, list[Result]] = {}
    for result in results:
        by_chapter.setdefault(list_chapter(result.vector)[0], []).append(result)
    for chapter in sorted(by_chapter, key=int):
        name = f"conformance.section-{chapter}"
        suite = ET.SubElement(root, "testsuite", name=name, **describe_totals(by_chapter[chapter]))
        for result in by_chapter[chapter]:
            add_case(suite, result)
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def describe_totals(results: Sequence[Result]) -> dict[str, str]:
    """Return the attributes of a suite."""
    counts = Counter(result.state for result in results)
    return {
        "tests": str(len(results)),
        "failures": str(counts["fail"]),
        "errors": str(counts["crash"]),
        "skipped": str(counts["skipped"] + counts["xfail"]),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def add_case(suite: ET.Element, result: Result) -> None:
    """Add the case of a vector to a suite."""
    name, section, sentence = (result.vector[key] for key in ("name", "section", "sentence"))
    case = ET.SubElement(suite, "testcase", classname=f"conformance.{section}", name=name, time=f"{result.seconds:.3f}")
    if result.state == "passed":
        return
    tag = {"fail": "failure", "crash": "error"}.get(result.state, "skipped")
    prefix = "expected to fail: " if result.state == "xfail" else ""
    message = NOT_IN_XML.sub("?", f"{prefix}{result.reason}")
    found = ET.SubElement(case, tag, message=message)
    if tag != "skipped":
        found.set("type", result.state)
        found.text = NOT_IN_XML.sub("?", f"{message}\nsection {section}: {sentence}")
