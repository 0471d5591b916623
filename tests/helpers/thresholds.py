"""The private constants of the package that tests lower, so that small files are read as large ones are.

White-box, as a test with real sizes would take gigabytes or minutes. They are named in this file alone:
``monkeypatch.setattr(thresholds.PARALLEL_BYTES, 1000)``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

FILE_PIECE_BYTES: Final = "sbformat.io.opening._PIECE_BYTES"
"""Bytes of a file that are read in one step."""
PARALLEL_BYTES: Final = "sbformat.io.opening._PARALLEL_BYTES"
"""Bytes of a file from which two threads read it."""
CRC_PARALLEL_BYTES: Final = "sbformat.container.checksums._PARALLEL_BYTES"
"""Bytes from which two threads compute a CRC-32."""
COMPARED_IN_PIECES: Final = "sbformat.pth.array_streams._LARGE"
"""Bytes of a tensor from which it is compared in pieces."""
TENSOR_PIECE: Final = "sbformat.pth.array_streams.PIECE_BYTES"
"""Bytes of such a piece."""
REMOTE_KEPT_BYTES: Final = "sbformat.io.remote.source._KEPT_BYTES"
"""Bytes of a remote file that stay in memory."""
REMOTE_AHEAD_BYTES: Final = "sbformat.io.remote.source._AHEAD_BYTES"
"""Bytes that are fetched ahead at most."""
REMOTE_TOGETHER: Final = "sbformat.io.remote.http._TOGETHER"
"""Requests at the same time."""
ZIP64_MEMBERS: Final = "sbformat.container.writer.MAX16"
"""Members from which a zip has the end records of ZIP64."""
PROCESS_FILES: Final = "sbformat.cli._many._MANY_FILES"
"""Files from which several processes read them."""
PROCESS_BYTES: Final = "sbformat.cli._many._MANY_BYTES"
"""Bytes from which several processes read files."""
BAR_BYTES: Final = "sbformat.cli._progress._MANY_BYTES"
"""Bytes of a file from which a bar is drawn."""
HISTOGRAM_SAMPLE: Final = "sbformat.html_report.weights._SAMPLE"
"""Numbers of a tensor that a report looks at."""
HISTOGRAM_FEW: Final = "sbformat.html_report.weights._FEW"
"""Numbers up to which a histogram has few bins."""
REPORT_LARGE_BYTES: Final = "sbformat.html_report.weights._LARGE_BYTES"
"""Bytes of a tensor from which a report reads it in pieces."""
CONVOLUTION_ITEMS: Final = "sbformat.policies.run.kernels._PIECE_ITEMS"
"""Numbers of a convolution that are computed in one step."""
BATCH_ROWS: Final = "sbformat.policies.run.program._MOST_ROWS"
"""Rows of a batch that are computed in one step."""
WALKED_VALUES: Final = "sbformat.data._LARGEST_WALK"
"""Values after which a JSON document is taken to contain itself."""


def read_threshold(name: str) -> Any:
    """Return the value of a constant."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
