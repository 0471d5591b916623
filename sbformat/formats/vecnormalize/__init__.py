"""Normalization statistics: ``vecnormalize.pkl``, SB2's ``obs_rms.pkl``, ``ret_rms.pkl``; bundles (STATISTICS.md 17).

When SB3 loads a pickle of its ``VecNormalize``, it runs whatever the pickle names. This package decodes it to a plain
value that normalizes as SB3 does, and writes such values as new pickles for SB3 1.6 and later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.formats.vecnormalize.values import RunningMeanStd, VecNormalize

if TYPE_CHECKING:
    from sbformat.formats.vecnormalize.pickles import read_vecnormalize, write_vecnormalize, writes_vecnormalize

__all__ = ["RunningMeanStd", "VecNormalize", "read_vecnormalize", "write_vecnormalize", "writes_vecnormalize"]


def __getattr__(name: str) -> object:
    """Import the reader and the writer, which need more than the values, when they are first used."""
    if name in __all__:
        from sbformat.formats.vecnormalize import pickles

        return getattr(pickles, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
