"""The levels of conformance that FORMAT.md defines, and the features of the vectors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import sbformat
from conformance.runner.vectors import decode_file, read_vectors
from sbformat import SbformatError
from sbformat.container.layout import is_state_dict
from tests.helpers.bundled import ROOT
from tests.helpers.programs import import_from

if TYPE_CHECKING:
    import pytest

HERE: Final = ROOT / "conformance"
VECTORS: Final = list(read_vectors())
LOWEST: Final = [vector for vector in VECTORS if vector["kind"] == "decode" and not vector.get("features")]
CONFORMANCE: Final = (
    (ROOT / "schema" / "FORMAT.md").read_text("utf-8").partition("## Conformance\n")[2].split("\n## ")[0]
)


def test_level_0_reads_no_state_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    read = sbformat.Archive.state_dict
    decode = import_from(HERE / "harness" / "python", "decode").decode

    def state_dict(archive: sbformat.Archive, name: str) -> Any:
        found.append(vector["name"])
        return read(archive, name)

    monkeypatch.setattr(sbformat.Archive, "state_dict", state_dict)
    assert len(LOWEST) > 500
    for vector in LOWEST:
        try:
            decode(decode_file(vector), vector.get("arguments", ()))
            outcome = None
        except SbformatError as error:
            outcome = error.outcome
        assert outcome == vector.get("outcome"), vector["name"]
    assert found == []


def test_every_feature_has_a_level_or_is_independent_of_levels() -> None:
    features = {feature for vector in VECTORS for feature in vector.get("features", ())}
    named = set(re.findall(r"`([a-z-]+)`", CONFORMANCE))
    assert {feature for feature in features if not feature.startswith("policy-")} <= named
    assert named - features <= {"data", "policy-", "sbformat"}


def test_levels_of_features_are_those_of_the_text() -> None:
    listed = {}
    for level in (0, 1, 2):
        row = re.search(rf"^\| L{level} \|.*$", CONFORMANCE, re.MULTILINE)
        assert row
        listed[level] = set(re.findall(r"`([a-z-]+)`", row[0].rpartition("|")[0].rpartition("|")[2]))
    listed[0].add("core")
    highest = re.search(r"L3 has the features ([^.]+)\.", CONFORMANCE)
    assert highest
    listed[3] = set(re.findall(r"`([a-z-]+)`", highest[1]))
    described = json.loads((HERE / "features.json").read_bytes())
    assert {level: {name for name, row in described.items() if row[2] == level} for level in range(4)} == listed


def test_vectors_of_an_encoder_that_write_state_dicts_need_torch_zips() -> None:
    for vector in VECTORS:
        if vector["kind"] == "encode":
            entries = json.loads(decode_file(vector))["entries"]
            has_state_dict = any(is_state_dict(name) for name, _ in entries)
            assert ("torch-zip" in vector.get("features", ())) == has_state_dict, vector["name"]


def test_features_of_level_3_need_state_dicts() -> None:
    for vector in VECTORS:
        features = set(vector.get("features", ()))
        if features & {"big-endian", "quantized", "sparse", "meta", "attributes"}:
            assert features & {"torch-zip", "other-formats", "statistics"}, vector["name"]
