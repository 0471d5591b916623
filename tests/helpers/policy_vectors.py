"""The conformance vectors of policies that predict something, for anything with the methods of ``Policy``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import sbformat
from conformance.harness.python import policies
from conformance.runner.comparison import compare_predictions
from tests.helpers.bundled import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = ROOT / "conformance"
VECTORS: Final[dict[str, Mapping[str, Any]]] = {
    vector["name"]: vector
    for vector in json.loads((FOLDER / "manifest.json").read_bytes())["vectors"]
    if vector["kind"] == "policy" and "outcome" not in vector
}
"""By name."""


def load_vector(name: str) -> sbformat.Policy:
    """The policy of a vector."""
    vector = VECTORS[name]
    return policies.load_policy((FOLDER / vector["file"]).read_bytes(), _read_question(name), sbformat.DEFAULT_LIMITS)


def assert_predictions(name: str, policy: Any, tolerance: float | None = None) -> None:
    """Compare what a policy predicts with a vector.

    :param policy: with the methods of ``Policy``
    :param tolerance: instead of that of the vector
    """
    vector = VECTORS[name]
    expected = json.loads((FOLDER / vector["expect"]).read_bytes())
    found = policies.run_steps(policy, _read_question(name)["steps"])
    assert not compare_predictions(expected, found, tolerance or vector["tolerance"])


def _read_question(name: str) -> Any:
    return json.loads((FOLDER / VECTORS[name]["input"]).read_bytes())
