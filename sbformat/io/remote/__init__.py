"""Sources by URL: ``https://``, ``s3://``, ``hf://``, and what else fsspec knows (extra ``remote``).

Nothing here is imported for a local path. :func:`open_remote` opens a file, :mod:`~sbformat.io.remote.listing` lists
folders. Names in messages and reports are those of :func:`sbformat.io.urls.hide_secrets`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbformat.io.remote.source import OPENING_BYTES, RemoteSource
from sbformat.io.urls import find_scheme
from sbformat.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from sbformat.io.remote.source import RangedFile

__all__ = ["RemoteSource", "open_remote"]


def open_remote(url: str, *, limits: Limits = DEFAULT_LIMITS, first_bytes: int = OPENING_BYTES) -> RemoteSource:
    """Open a remote file; only its first bytes are fetched, of a file that is read whole more of them."""
    scheme = find_scheme(url)
    if scheme in ("http", "https", "hf"):
        from sbformat.io.remote.http import HttpFile
        from sbformat.io.remote.hub import open_hub_file

        web = (open_hub_file if scheme == "hf" else HttpFile)(url, limits=limits, first_bytes=first_bytes)
        return RemoteSource(web, web.start, limits=limits)
    from sbformat.io.remote.clients import FileSystemFile

    file: RangedFile = FileSystemFile(url)
    start = b""
    if first_bytes > OPENING_BYTES and file.size:  # otherwise the end may be wanted first
        start = bytes(file.fetch([(0, min(first_bytes, file.size))])[0])
    return RemoteSource(file, start, limits=limits)
