"""Files of the other file systems that fsspec knows, such as S3, through the file objects that they open.

S3's send the ETag with each request, and so does every version-aware file system. For others, what the file system says
of a file (size, time, checksum) is compared before and after what was read.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.io.remote.errors import call_client, changed, failed, missing_packages, translate
from sbformat.io.urls import Url, find_scheme, hide_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbformat.io.remote.source import Range

S3_SCHEMES: Final = frozenset({"s3", "s3a"})
"""File systems whose files refuse to be read once they have changed."""
_VERSIONS: Final = ("ETag", "etag", "generation", "VersionId", "version_id", "md5", "mtime", "LastModified", "created")
"""What file systems call the version of a file, the most exact first."""
_FEW_TRIES: Final = {"retries": {"max_attempts": 2, "mode": "standard"}}
"""botocore's own tries, for answers of 500 and 503: s3fs tries connections that fail five times, and five times five
tries take minutes."""
_NO_LISTING: Final = {"use_listings_cache": False}


class FileSystemFile:
    """A file of a file system of fsspec; see :class:`~sbformat.io.remote.source.RangedFile`.

    :param url: with any scheme that fsspec knows
    :raises OSError: if it cannot be opened
    :raises UnsupportedError: for a scheme that is not known or needs a package
    """

    __slots__ = ("_file", "_fs", "_is_conditional", "_path", "_url", "name", "size", "version")

    def __init__(self, url: str) -> None:
        self.name = hide_secrets(url)
        self._url = url
        self._is_conditional = find_scheme(url) in S3_SCHEMES
        self._fs, self._path = open_file_system(url)
        info = call_client(url, self._open)
        size = info.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise failed(self.name, "the file system does not say how large it is")
        self.size = size
        self.version = read_version(info)

    def _open(self) -> Mapping[str, Any]:
        """Open the file; return what the file system says of it.

        Of a file that refuses to be read once it has changed, this is the version that it asks for.
        """
        info: Mapping[str, Any] | None = None if self._is_conditional else self._fs.info(self._path)
        if info is None or info.get("type") != "directory":
            self._file = self._fs.open(self._path, "rb", cache_type="none")
            info = info or dict(self._file.details)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a folder", self.name)
        return info

    @property
    def whole(self) -> None:
        """None: ranges can be fetched."""

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        """Return the bytes of ranges."""
        size = sum(stop - start for start, stop in ranges)
        return call_client(self._url, lambda: self._fetch(ranges), size)

    def _fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        found = [self._read(start, stop) for start, stop in ranges]
        if not self._is_conditional:
            self._check_unchanged()
        return found

    def _check_unchanged(self) -> None:
        """Compare what the file system says of the file with what it said when it was opened.

        :raises ContainerError: if they differ
        """
        info = self._fs.info(self._path)
        if (info.get("size"), read_version(info)) != (self.size, self.version):
            raise changed(self.name)

    def _read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        data: bytes = self._file.read(stop - start)
        return data


def read_version(info: Mapping[str, Any]) -> str | None:
    """Return the version of a file from what its file system says of it."""
    for name in _VERSIONS:
        if info.get(name):
            return str(info[name])
    return None


def open_file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    :raises UnsupportedError: for a scheme that is not known or needs a package, and for a chain of URLs
    """
    scheme = find_scheme(url)
    if "::" in url:
        message = f"expected one URL, got a chain: {quote(hide_secrets(url))}"
        raise UnsupportedError(message)
    try:
        import fsspec.config
        import fsspec.core
    except ImportError as error:
        raise missing_packages(scheme, error.name) from None
    options = dict(url.options) if isinstance(url, Url) else {}
    if scheme in S3_SCHEMES and not {"config_kwargs"} & {*options, *fsspec.config.conf.get("s3", {})}:
        options["config_kwargs"] = _FEW_TRIES
    try:
        fs, path = fsspec.core.url_to_fs(url, **{**_NO_LISTING, **options})
    except ImportError as error:  # fsspec's own, and the one that caused it
        raise missing_packages(scheme, error.name or getattr(error.__cause__, "name", None)) from None
    except ValueError:
        message = f"expected a path or a URL of a file system that fsspec knows, got one of {quote(scheme)}"
        raise UnsupportedError(message) from None
    except Exception as error:  # noqa: BLE001 -- whatever a file system raises when it is made
        raise translate(error, scheme, hide_secrets(url)) from None
    return fs, path


__all__ = ["FileSystemFile", "open_file_system", "read_version"]
