"""Files that are one pickle, in the shape of an archive (FORMAT.md 16.3): statistics of VecNormalize, replay buffers.

The pickle is decoded once, and nothing in it is run. Its arrays are the tensors of one state dict; its numbers, flags
and texts stand in ``data``, and so does all else, as the pickle of that part alone.
"""

from sbformat.formats.pickled.archive import PickledArchive
from sbformat.formats.pickled.kinds import classify_pickle, require_plain_pickle

__all__ = ["PickledArchive", "classify_pickle", "require_plain_pickle"]
