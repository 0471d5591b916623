"""Hypothesis draws the same examples in every run: a test that passes once passes always."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("sbformat", derandomize=True, database=None, deadline=None)
settings.load_profile("sbformat")
