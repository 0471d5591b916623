"""Errors of remote sources: one ``OSError`` for what a server or its client says, without its secrets.

The clients put whole URLs into their errors, with signatures and tokens. So only the kind of an error, its status and
words of ours are kept, and the error is not chained to the one that it is made of.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from sbformat.errors import ContainerError, SbformatError, UnsupportedError, escape, quote
from sbformat.io.remote.time_limits import SLOWEST, collect_in_time
from sbformat.io.urls import find_scheme, find_timeout, hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    T = TypeVar("T")

CREDENTIALS: Final = {
    "s3": "the AWS configuration: AWS_PROFILE, ~/.aws/credentials, or Url(..., anon=True) for public buckets",
    "hf": "'hf auth login' or the environment variable HF_TOKEN",
    "http": "client_kwargs of fsspec's configuration",
}
"""Where the credentials of a file system come from."""
PACKAGES: Final = {
    "http": "fsspec and aiohttp", "https": "fsspec and aiohttp", "s3": "fsspec and s3fs", "s3a": "fsspec and s3fs",
    "hf": "fsspec and huggingface_hub",
}  # fmt: skip
"""What a scheme needs, of the extra ``remote``."""
_MISSING: Final = ("NotFound", "NoSuchKey", "NoSuchBucket", "FileNotFound")
_PERHAPS_PRIVATE: Final = ("RepositoryNotFound",)
"""Errors of the Hub, which does not say whether a private repository exists."""
_DENIED: Final = (
    "Permission",
    "Forbidden",
    "Unauthorized",
    "AccessDenied",
    "GatedRepo",
    "Credential",
    "InvalidAccessKey",
)
_TIMEOUTS: Final = ("Timeout",)
_TOO_SLOW: Final = (
    "the server did not answer in time: pass Url(..., timeout=SECONDS) or --timeout SECONDS to wait longer"
)
_EXPIRED: Final = ("FileExpired",)
_OFFLINE: Final = ("OfflineMode",)
_PROXIES: Final = ("https_proxy", "http_proxy", "all_proxy")
_WITHOUT_PROXY: Final = ("http", "https", "hf")
"""Schemes whose files are fetched without the proxy that the environment names."""


def not_found(name: str) -> FileNotFoundError:
    """Return the error for a file that does not exist."""
    return FileNotFoundError(errno.ENOENT, "not found", name)


def denied(name: str, scheme: str) -> PermissionError:
    """Return the error for a file that the credentials do not open."""
    where = CREDENTIALS.get(scheme.removesuffix("s") if scheme == "https" else scheme)
    return PermissionError(errno.EACCES, f"access denied{f'; credentials come from {where}' if where else ''}", name)


def failed(name: str, text: str) -> OSError:
    """Return the error for what a server did otherwise."""
    return OSError(errno.EIO, text, name)


def changed(name: str) -> ContainerError:
    """Return the error for a file that is not the one that was opened."""
    return ContainerError(f"{quote(name)} has changed since it was opened")


def missing_packages(scheme: str, package: str | None = None) -> UnsupportedError:
    """Return the error for a scheme whose packages are not installed."""
    needed = PACKAGES.get(scheme)
    if needed is None and package != "fsspec":
        named = f", which needs the package {package}" if package else ""
        return UnsupportedError(f"cannot open {scheme}:// URLs without fsspec's file system for them{named}")
    words = f"{needed} are" if needed else "fsspec is"
    return UnsupportedError(f"to open {scheme}:// URLs, {words} needed: pip install 'sbformat[remote]'")


def require_packages(url: str) -> None:
    """Check that the packages for a URL are installed, before work on many of them is begun.

    :raises UnsupportedError: if one is not; a scheme that fsspec does not know is refused when the URL is opened
    """
    scheme = find_scheme(url)
    try:
        import fsspec

        for name in (scheme, "https") if scheme == "hf" else (scheme,):  # the Hub's files come from a web server
            fsspec.get_filesystem_class(name)
    except ImportError as error:  # fsspec's own names the package in its cause
        raise missing_packages(scheme, error.name or getattr(error.__cause__, "name", None)) from None
    except ValueError:
        pass


def call_client(url: str, work: Callable[[], T], size: int = 0) -> T:
    """Call a function that uses a client; its errors become ours.

    :param url: what it is asked about
    :param size: bytes that it fetches, which take their time
    :raises OSError: if the client fails, or takes too long
    """
    return list_by_client(url, lambda: [work()], size)[0]


def list_by_client(url: str, work: Callable[[], Iterable[T]], size: int = 0) -> list[T]:
    """Return what a client lists, as :func:`call_client` does; its time begins again with each item."""
    name = hide_secrets(url)
    try:
        return collect_in_time(work, find_timeout(url) + size / SLOWEST)
    except SbformatError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename == name:
            raise
        raise translate(error, find_scheme(url), name) from None


def translate(error: BaseException, scheme: str, name: str) -> Exception:
    """Return the error of ours for one of a client.

    :param error: of aiohttp, botocore, huggingface_hub, or another file system
    :param scheme: of the URL, which says where credentials come from
    :param name: the URL without secrets
    """
    words = {cls.__name__ for one in _iter_chain(error) for cls in type(one).__mro__}
    if isinstance(error, ImportError):
        return missing_packages(scheme, error.name)
    if _has(words, _EXPIRED):
        return changed(name)
    statuses = {status for one in _iter_chain(error) if (status := _find_status(one))}
    if _has(words, _PERHAPS_PRIVATE):
        text = f"not found, or private; credentials come from {CREDENTIALS['hf']}"
        return FileNotFoundError(errno.ENOENT, text, name)
    if statuses & {404, 410} or _has(words, _MISSING):
        return not_found(name)
    if statuses & {401, 403} or _has(words, _DENIED):
        return denied(name, scheme)
    if 412 in statuses:
        return changed(name)
    if _has(words, _TIMEOUTS):
        return TimeoutError(errno.ETIMEDOUT, f"{_TOO_SLOW}{_describe_proxy(error, scheme)}", name)
    if statuses:
        return failed(name, f"the server answered with status {min(statuses)}")
    return failed(name, _describe_cause(error, _describe_proxy(error, scheme)))


def _describe_cause(error: BaseException, hint: str) -> str:
    """Return what the operating system says of an error; the name of the error if it is not the system's."""
    if _has({type(one).__name__ for one in _iter_chain(error)}, _OFFLINE):
        return "HF_HUB_OFFLINE is set: unset it, or name the folder of a repository that was downloaded"
    found = next((one for one in _iter_chain(error) if isinstance(one, OSError) and one.errno), None)
    if any(isinstance(one, socket.gaierror) for one in _iter_chain(error)):
        return f"the name of the server is not known: check the URL and the network{hint}"
    text = f"cannot be fetched: {escape(type(error).__name__, 100)}"
    return text if found is None or found.errno is None else f"{text} ({os.strerror(found.errno).lower()}){hint}"


def _describe_proxy(error: BaseException, scheme: str) -> str:
    """Return that the proxy of the environment is not used, which may be why aiohttp has no connection."""
    names = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.upper())]
    is_of_file = any(type(one).__module__.startswith("aiohttp.") for one in _iter_chain(error))
    is_ignored = names and is_of_file and scheme in _WITHOUT_PROXY
    return f"; files of {scheme}:// URLs are fetched without the proxy of {names[0]}" if is_ignored else ""


def _has(words: set[str], parts: tuple[str, ...]) -> bool:
    return any(part in word for word in words for part in parts)


def _iter_chain(error: BaseException | None) -> Iterator[BaseException]:
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


__all__ = [
    "call_client",
    "changed",
    "denied",
    "failed",
    "list_by_client",
    "missing_packages",
    "not_found",
    "require_packages",
    "translate",
]
