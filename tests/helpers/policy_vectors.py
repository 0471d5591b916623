"""The conformance vectors of policies that predict something, for anything with the methods of ``Policy``."""

from __future__ import annotations

import functools
from typing import Any, Final

import sbformat
from conformance.harness.python import policies
from conformance.runner.comparison import compare_predictions
from conformance.runner.vectors import Vector, decode_file, name_file, read_vectors

VECTORS: Final[dict[str, Vector]] = {
    vector["name"]: vector for vector in read_vectors(["19"]) if vector["kind"] == "policy" and "outcome" not in vector
}
"""By name."""
ARCHIVES: Final = [name for name, vector in VECTORS.items() if name_file(vector).endswith(".zip")]
"""Names of those whose file is not a lone state dict."""


@functools.cache
def load_vector(name: str) -> sbformat.Policy:
    """The policy of a vector, one for all tests."""
    vector = VECTORS[name]
    return policies.load_policy(decode_file(vector), vector["input"], sbformat.DEFAULT_LIMITS)


def assert_predictions(name: str, policy: Any, tolerance: float | None = None) -> None:
    """Compare what a policy predicts with a vector.

    :param policy: with the methods of ``Policy``
    :param tolerance: instead of that of the vector
    """
    vector = VECTORS[name]
    found = policies.run_steps(policy, vector["input"]["steps"])
    assert not compare_predictions(vector["expect"], found, tolerance or vector["tolerance"])
