"""Normalization statistics: ``vecnormalize.pkl``, SB2's ``obs_rms.pkl``, ``ret_rms.pkl``; bundles (STATISTICS.md 17).

When SB3 loads a pickle of its ``VecNormalize``, it runs whatever the pickle names. This package decodes it to a plain
value that normalizes as SB3 does, and writes such values as new pickles for any SB3 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.reading import read_vecnormalize
    from sbformat.formats.vecnormalize.writing import write_vecnormalize, writes_vecnormalize

__all__ = ["RunningMeanStd", "VecNormalize", "read_vecnormalize", "write_vecnormalize", "writes_vecnormalize"]


def __getattr__(name: str) -> object:
    """Import the reader and the writer when they are first used."""
    if name == "read_vecnormalize":
        from sbformat.formats.vecnormalize import reading

        return reading.read_vecnormalize
    if name in ("write_vecnormalize", "writes_vecnormalize"):
        from sbformat.formats.vecnormalize import writing

        return getattr(writing, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
