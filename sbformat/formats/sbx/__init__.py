"""Archives of SBX (Stable Baselines Jax): the zip of SB3, with the weights in the pickled policy (SBX.md 22)."""

from sbformat.formats.sbx.archive import SbxArchive, open_sbx

__all__ = ["SbxArchive", "open_sbx"]
