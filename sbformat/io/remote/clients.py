"""Clients of remote file systems: the files that fsspec opens, their errors as ours, and how long they may take.

In: a URL and a call of a client. Out: what the client returns, or one ``OSError`` that names the URL without secrets.
The clients put whole URLs into their errors, with signatures and tokens. So only the kind of an error, its status and
words of ours are kept, and the error is not chained to the one that it is made of.

A server that never answers, or sends a byte now and then, must not hold a program for minutes; a large file over a slow
connection is not an error. So it is an error if nothing came for ``timeout`` seconds (of a
:class:`~sbformat.io.urls.Url`), or if all requests for a file took ``timeout`` seconds longer than its bytes take at
the slowest rate.
"""

from __future__ import annotations

import errno
import os
import socket
from concurrent.futures import Future, wait
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.errors import ContainerError, SbformatError, UnsupportedError, escape, need_extra, quote
from sbformat.immutable import Record
from sbformat.io.urls import as_url, find_scheme, hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sbformat.io.remote.source import Range

T = TypeVar("T")

SLOWEST: Final = 1 << 14  # bytes a second at which a file of any size may come


class Clock:
    """The time that the requests for one file take; see the module."""

    __slots__ = ("_end", "_last", "_left", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = self._left = timeout
        self._end = self._last = 0.0

    def start(self) -> None:
        self._last = monotonic()
        self._end = self._last + self._left

    def stop(self) -> None:
        self._left = self._end - monotonic()

    def count(self, size: int) -> None:
        self._last = monotonic()
        self._end += size / SLOWEST

    def seconds_left(self) -> float:
        """Return how long the next bytes may take; 0 or less when the time is over."""
        return min(self._end, self._last + self.timeout) - monotonic()


def collect_in_time(work: Callable[[], Iterable[T]], seconds: float) -> list[T]:
    """Return what a client's function yields, which runs in a thread that is left alone when it takes too long.

    :param seconds: until the end, or else until the next item
    """
    found: list[T] = []
    end: Future[None] = Future()

    def run() -> None:
        try:
            for item in work():  # to extend a list by them would add none before the last
                found.append(item)  # noqa: PERF402
            end.set_result(None)
        except BaseException as error:  # noqa: BLE001 -- raised again below
            end.set_exception(error)

    Thread(target=run, daemon=True).start()
    count = 0
    while not wait([end], seconds).done:
        if len(found) == count and not end.done():
            raise TimeoutError
        count = len(found)
    end.result()
    return found


_CREDENTIALS: Final = {
    "s3": "the AWS configuration: AWS_PROFILE, ~/.aws/credentials, or Url(..., anon=True) for public buckets",
    "hf": "'hf auth login' or the environment variable HF_TOKEN",
    "http": "client_kwargs of fsspec's configuration",
    "https": "client_kwargs of fsspec's configuration",
}
"""The place of the credentials, by scheme."""
_PACKAGES: Final = {
    "http": "fsspec and aiohttp", "https": "fsspec and aiohttp", "s3": "fsspec and s3fs", "s3a": "fsspec and s3fs",
    "hf": "fsspec and huggingface_hub",
}  # fmt: skip
"""Packages of the extra ``remote``, by scheme."""
_MISSING: Final = ("NotFound", "NoSuchKey", "NoSuchBucket", "FileNotFound")
_DENIED: Final = (
    "Permission", "Forbidden", "Unauthorized", "AccessDenied", "GatedRepo", "Credential", "InvalidAccessKey",
)  # fmt: skip
_PROXIES: Final = ("https_proxy", "http_proxy", "all_proxy")
S3_SCHEMES: Final = frozenset({"s3", "s3a"})  # file systems whose files refuse to be read once they have changed
_VERSIONS: Final = ("ETag", "etag", "generation", "VersionId", "version_id", "md5", "mtime", "LastModified", "created")
"""Names of the version of a file in file systems, the most exact first."""
_FEW_TRIES: Final = {"retries": {"max_attempts": 2, "mode": "standard"}}
"""botocore's own tries, for answers of 500 and 503: s3fs tries connections that fail five times, and five times five
tries take minutes."""


def not_found(name: str) -> FileNotFoundError:
    """Return the error for a file that does not exist."""
    return FileNotFoundError(errno.ENOENT, "not found", name)


def denied(name: str, scheme: str) -> PermissionError:
    """Return the error for a file that the credentials do not open."""
    where = _CREDENTIALS.get(scheme)
    return PermissionError(errno.EACCES, f"access denied{f'; credentials come from {where}' if where else ''}", name)


def failed(name: str, text: str) -> OSError:
    """Return the error for what a server did otherwise."""
    return OSError(errno.EIO, text, name)


def changed(name: str) -> ContainerError:
    """Return the error for a file that is not the one that was opened."""
    return ContainerError(f"{quote(name)} has changed since it was opened")


def missing_packages(scheme: str, package: str | None = None) -> UnsupportedError:
    """Return the error for a scheme whose packages are not installed."""
    needed = _PACKAGES.get(scheme)
    if needed is None and package != "fsspec":
        named = f", which needs the package {package}" if package else ""
        return UnsupportedError(f"cannot open {scheme}:// URLs without fsspec's file system for them{named}")
    words = f"{needed} are" if needed else "fsspec is"
    return need_extra(f"to open {scheme}:// URLs, {words} needed", "remote")


def require_packages(url: str) -> None:
    """Check that the packages for a URL are installed, before work on many of them is begun."""
    scheme = find_scheme(url)
    try:
        import fsspec

        for name in (scheme, "https") if scheme == "hf" else (scheme,):  # the Hub's files come from a web server
            fsspec.get_filesystem_class(name)
    except ImportError as error:
        raise _translate_import(error, scheme) from None
    except ValueError:
        pass


def call_client(url: str, work: Callable[[], T], size: int = 0) -> T:
    """Call a function that uses a client and fetches so many bytes; its errors become ours."""
    return list_by_client(url, lambda: [work()], size)[0]


def list_by_client(url: str, work: Callable[[], Iterable[T]], size: int = 0) -> list[T]:
    """Return what a client lists, as :func:`call_client` does; its time begins again with each item."""
    name = hide_secrets(url)
    try:
        return collect_in_time(work, as_url(url).timeout + size / SLOWEST)
    except SbformatError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename == name:
            raise
        raise translate(error, find_scheme(url), name) from None


def translate(  # noqa: PLR0911 -- one for each kind of error
    error: BaseException, scheme: str, name: str
) -> Exception:
    """Return the error of ours for one of a client; the scheme says where credentials come from."""
    if isinstance(error, ImportError):
        return _translate_import(error, scheme)
    chain = list(iter_chain(error))
    words = " ".join(cls.__name__ for one in chain for cls in type(one).__mro__)
    statuses = {status for one in chain if (status := _find_status(one))}
    if "FileExpired" in words:
        return changed(name)
    if "RepositoryNotFound" in words:  # the Hub does not say whether a private repository exists
        text = f"not found, or private; credentials come from {_CREDENTIALS['hf']}"
        return FileNotFoundError(errno.ENOENT, text, name)
    if statuses & {404, 410} or any(word in words for word in _MISSING):
        return not_found(name)
    if statuses & {401, 403} or any(word in words for word in _DENIED):
        return denied(name, scheme)
    if 412 in statuses:
        return changed(name)
    # files of the web are fetched by aiohttp, without the proxy of the environment
    proxies = [key for key in _PROXIES if os.environ.get(key) or os.environ.get(key.upper())]
    is_of_file = any(type(one).__module__.startswith("aiohttp.") for one in chain)
    is_ignored = proxies and is_of_file and scheme in ("http", "https", "hf")
    hint = f"; files of {scheme}:// URLs are fetched without the proxy of {proxies[0]}" if is_ignored else ""
    if "Timeout" in words:
        advice = "pass Url(..., timeout=SECONDS) or --timeout SECONDS to wait longer"
        return TimeoutError(errno.ETIMEDOUT, f"the server did not answer in time: {advice}{hint}", name)
    if statuses:
        return failed(name, f"the server answered with status {min(statuses)}")
    if "OfflineMode" in words:
        return failed(name, "HF_HUB_OFFLINE is set: unset it, or name the folder of a repository that was downloaded")
    if any(isinstance(one, socket.gaierror) for one in chain):
        return failed(name, f"the name of the server is not known: check the URL and the network{hint}")
    text = f"cannot be fetched: {escape(type(error).__name__, 100)}"
    number = next((one.errno for one in chain if isinstance(one, OSError) and one.errno), None)
    return failed(name, text if number is None else f"{text} ({os.strerror(number).lower()}){hint}")


def _translate_import(error: ImportError, scheme: str) -> UnsupportedError:
    """Return the error for a package that is missing; fsspec's own error names it in its cause."""
    return missing_packages(scheme, error.name or getattr(error.__cause__, "name", None))


def iter_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that caused it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        for inner in ("os_error", "certificate_error"):
            found = getattr(error, inner, None)
            if isinstance(found, BaseException):
                yield found
        error = error.__cause__ or error.__context__


def _find_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of aiohttp, botocore or huggingface_hub."""
    response = getattr(error, "response", None)
    found = getattr(error, "status", None) or getattr(response, "status_code", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found if isinstance(found, int) and 400 <= found < 600 else None


class RemoteEntry(Record):
    """A file of a remote folder."""

    name: str  # the path from the top of the folder, with slashes
    size: int
    version: str | None  # identifies its contents: ETag, checksum or time


class FileSystemFile:
    """A file of a file system of fsspec, such as S3; see :class:`~sbformat.io.remote.source.RangedFile`.

    S3's files send the ETag with each request, and so does every version-aware file system. For others, what the file
    system says of a file (size, time, checksum) is compared before and after what was read.
    """

    __slots__ = ("_file", "_fs", "_is_conditional", "_path", "_url", "name", "size", "version")

    whole: Final = None

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

    def fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        size = sum(stop - start for start, stop in ranges)
        return call_client(self._url, lambda: self._fetch(ranges), size)

    def _fetch(self, ranges: Sequence[Range]) -> list[bytes]:
        found = []
        for start, stop in ranges:
            self._file.seek(start)
            found.append(self._file.read(stop - start))
        if not self._is_conditional:
            info = self._fs.info(self._path)
            if (info.get("size"), read_version(info)) != (self.size, self.version):
                raise changed(self.name)
        return found


def read_version(info: Mapping[str, Any]) -> str | None:
    """Return the version of a file from what its file system says of it."""
    return next((str(info[name]) for name in _VERSIONS if info.get(name)), None)


def open_file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    scheme = find_scheme(url)
    if "::" in url:
        raise UnsupportedError(f"expected one URL, got a chain: {quote(hide_secrets(url))}")
    try:
        import fsspec.config
        import fsspec.core
    except ImportError as error:
        raise _translate_import(error, scheme) from None
    options = dict(as_url(url).options)
    if scheme in S3_SCHEMES and not {"config_kwargs"} & {*options, *fsspec.config.conf.get("s3", {})}:
        options["config_kwargs"] = _FEW_TRIES
    try:
        fs, path = fsspec.core.url_to_fs(url, **{"use_listings_cache": False, **options})
    except ImportError as error:
        raise _translate_import(error, scheme) from None
    except ValueError:
        message = f"expected a path or a URL of a file system that fsspec knows, got one of {quote(scheme)}"
        raise UnsupportedError(message) from None
    except Exception as error:  # noqa: BLE001 -- whatever a file system raises when it is made
        raise translate(error, scheme, hide_secrets(url)) from None
    return fs, path
