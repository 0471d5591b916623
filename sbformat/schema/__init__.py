"""Validation of archives: ``validate`` and ``iter_problems``, and the JSON Schemas of the project."""

from sbformat.schema.schemas import Level, Problem, ProblemKind, known_keys, load_schema
from sbformat.schema.validation import iter_problems, validate

__all__ = ["Level", "Problem", "ProblemKind", "iter_problems", "known_keys", "load_schema", "validate"]
