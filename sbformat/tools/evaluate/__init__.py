"""``evaluate``: run an agent in an environment of gymnasium, without torch."""

from __future__ import annotations

from sbformat.tools.evaluate.episodes import EvaluationReport, evaluate

__all__ = ["EvaluationReport", "evaluate"]
