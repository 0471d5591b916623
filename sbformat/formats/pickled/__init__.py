"""Files that are a single pickle, read as an archive (SB2.md 16.3): statistics of VecNormalize, replay buffers.

The pickle is decoded once, and nothing in it is run. Its arrays become the tensors of one state dict. Its numbers,
flags and strings become JSON values of ``data``, every other part a :class:`~sbformat.Serialized` with its pickle.
"""

from sbformat.formats.pickled.archive import PickledArchive
from sbformat.formats.pickled.kinds import classify_pickle, require_distinct_names, require_plain_pickle

__all__ = ["PickledArchive", "classify_pickle", "require_distinct_names", "require_plain_pickle"]
