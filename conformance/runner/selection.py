"""Which vectors are run."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from conformance.runner.reports import describe_expectation
from conformance.runner.vectors import list_features, list_files, read_features, read_vectors, write_files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from conformance.runner.vectors import Vector


def select_vectors(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Vector]:
    """Select the vectors; exit with 2 if an option names something unknown, or none remains."""
    vectors = list(read_vectors(() if options.xfail else options.section))
    features = read_features().keys() - {"core"}
    names = {vector["name"] for vector in vectors}
    for word, given, known in (
        ("feature", options.skip_feature, features),
        ("feature", options.feature, {*features, "core"}),
        ("vector", options.xfail, names),
    ):
        for name in given:
            if name not in known:
                parser.error(f"unknown {word} {name!r}; available: {', '.join(sorted(known)[:30])}")
    if options.every < 1:
        parser.error("expected a number >= 1 for --every")
    selected = [vector for vector in vectors if is_selected(vector, options)][:: options.every]
    if not selected:
        parser.error("no vector matches --only, --level, --feature and --section; --list prints their names")
    return selected


def is_selected(vector: Vector, options: argparse.Namespace) -> bool:
    """Say whether a vector matches ``--only``, ``--level``, ``--feature`` and ``--section``."""
    return (
        options.only in vector["name"]
        and (options.level is None or is_within(vector, options.level, options.feature))
        and (not options.feature or bool(set(list_features(vector)) & set(options.feature)))
        and (not options.section or any(f"{vector['section']}.".startswith(f"{one}.") for one in options.section))
    )


def is_within(vector: Vector, level: int, named: Sequence[str]) -> bool:
    """Say whether a level has all features of a vector, except those named that are independent of the levels."""
    levels = {name: read_features()[name].level for name in list_features(vector)}
    return all(own <= level if own is not None else name in named for name, own in levels.items())


def print_features(vectors: Sequence[Vector]) -> None:
    """Print the features that vectors need, with the number of vectors, the section and a description."""
    counts = Counter(feature for vector in vectors for feature in list_features(vector))
    for name, feature in read_features().items():
        if counts[name]:
            alone = " (one implementation only)" if len(feature.implementations) < 2 else ""
            print(f"{name:16}{counts[name]:>6}  {feature.section:8}{feature.description}{alone}")


def print_vectors(vectors: Sequence[Vector]) -> None:
    """Print names, sections, what is expected, and the features."""
    for vector in vectors:
        expected = describe_expectation(vector)
        print(
            f"{vector['name']:48} {vector['section']:7} {expected:19} {' '.join(vector.get('features', ()))}".rstrip()
        )


def write_vectors(parser: argparse.ArgumentParser, vectors: Sequence[Vector], folder: str) -> None:
    """Write the files of vectors; exit with 2, and write nothing, if one of them exists."""
    for vector in vectors:
        for name in list_files(vector):
            if os.path.lexists(path := os.path.join(folder, name)):
                parser.error(f"{path} exists")
    for vector in vectors:
        write_files(vector, folder)
