"""URLs as sources: what a URL is, the options that go with one, and how it is named in messages.

Nothing here opens anything: :mod:`sbformat.io.remote` does.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypeGuard

_URL: Final = r"((?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]+)://"
_PARTS: Final = r"(?s)(?P<scheme>[^/]+?)://(?P<host>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
_LOCAL: Final = ("file", "local")
_DRIVE: Final = r"/[A-Za-z]:[/\\]"  # begins the path of file:///C:/agent.zip
_WITH_QUERY: Final = ("http", "https")
HUB_QUERY: Final = ("author", "tag", "search", "limit")  # names in queries of the Hub, which are no secrets
TIMEOUT: Final = 30.0  # seconds that a server may take, unless a :class:`Url` has another number
_DIGITS: Final = 8  # hexadecimal digits of the digest that stands for a value of a query


class Url(str):
    """A URL with the options of its file system; every function that takes a path takes one.

    A plain ``str`` is enough where the file system is configured by its own means: the environment, ``~/.aws``, the
    token of ``huggingface_hub``, or the configuration files of fsspec. ::

        archive = sbformat.read(sbformat.Url("s3://bucket/agent.zip", anon=True))

    The URL is ``https://``, ``s3://``, ``hf://``, or another that fsspec knows. Redirects to private addresses and from
    https to http are refused unless ``private_redirects`` is true. A server may send nothing for ``timeout`` seconds,
    and take that long besides the time for the bytes of a file, of which 16 KiB a second are enough. All other keywords
    are arguments of fsspec's file system, such as ``anon``, ``endpoint_url`` or ``token``.

    :raises ValueError: the text is no URL, or ``timeout`` is not above 0
    """

    __slots__ = ("options", "private_redirects", "timeout")

    options: dict[str, Any]
    private_redirects: bool
    timeout: float

    def __new__(  # noqa: PYI034
        cls, url: str, *, private_redirects: bool = False, timeout: float = TIMEOUT, **options: Any
    ) -> Url:
        if not is_url(url):
            raise ValueError(f"expected a URL such as https://host/agent.zip, got {hide_secrets(str(url))!r}")
        if not timeout > 0:
            raise ValueError(f"expected a timeout above 0 seconds, got {timeout!r}")
        made = super().__new__(cls, url)
        made.options = options
        made.private_redirects = private_redirects
        made.timeout = timeout
        return made

    def __repr__(self) -> str:
        return f"Url({hide_secrets(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Url, **self.keywords()), (str(self),)

    def keywords(self) -> dict[str, Any]:
        """Return the arguments that it was made with, besides the text."""
        return {**self.options, "private_redirects": self.private_redirects, "timeout": self.timeout}


def is_url(source: object) -> TypeGuard[str]:
    """Return whether a source is a URL: a str that begins with a scheme and ``://``."""
    return isinstance(source, str) and "://" in source and re.match(_URL, source) is not None


def find_scheme(url: str) -> str:
    """Return the scheme of a URL in lower case."""
    found = re.match(_URL, url)
    return found[1].lower() if found else ""


def local_path(url: str) -> str | None:
    """Return the path that a ``file://`` URL names; None for every other URL."""
    if find_scheme(url) not in _LOCAL:
        return None
    path = url.partition("://")[2]
    from urllib.parse import unquote

    path = unquote(path.removeprefix("localhost") if path.startswith("localhost/") else path)
    return path[1:] if sys.platform == "win32" and re.match(_DRIVE, path) else path


def join_url(url: str, name: str) -> str:
    """Return the URL of a file in a folder, with the same options."""
    return copy_options(url, f"{url.rstrip('/')}/{name}")


def copy_options(url: str, other: str) -> str:
    """Return another URL with the options of the first one."""
    return Url(other, **url.keywords()) if isinstance(url, Url) else other


def as_url(url: str) -> Url:
    """Return a URL with options, which are the defaults if it has none."""
    return url if isinstance(url, Url) else Url(url)


def last_name(url: str) -> str:
    """Return the last part of a URL's path, as a file name."""
    found = re.match(_PARTS, url)
    path = url if found is None else found["path"] if find_scheme(url) in _WITH_QUERY else url.partition("://")[2]
    from urllib.parse import unquote

    return unquote(path.rstrip("/").rpartition("/")[2])


def hide_secrets(url: str) -> str:
    """Return a URL as messages and reports show it.

    User names, passwords and fragments are left out. Each value of a query is replaced by the first digits of its
    SHA-256, because it may be a token or a signature; different URLs still look different.

    >>> hide_secrets("https://user:pw@host/a.zip?X-Amz-Signature=abc")
    'https://host/a.zip?X-Amz-Signature=#ba7816bf'
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = _remove_user(rest)
    if scheme.lower() in _WITH_QUERY:
        rest = rest.partition("#")[0]
    path, mark, query = rest.partition("?")
    if not mark:
        return f"{scheme}://{path}"
    shown = HUB_QUERY if scheme.lower() == "hf" else ()
    return f"{scheme}://{path}?{'&'.join(_hide_value(part, shown) for part in query.split('&'))}"


def _remove_user(rest: str) -> str:
    """Return what follows ``://`` without a user name and a password.

    A password may have a character that should have been quoted: what looks like a port and is not one begins it.
    """
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in host:
        return host.rpartition("@")[2] + rest[len(host) :]
    port = host.rpartition("]")[2].partition(":")
    if port[1] and not port[2].isdecimal() and port[2] and "@" in rest:
        return rest.rpartition("@")[2]
    return rest


def _hide_value(part: str, shown: Collection[str]) -> str:
    name, equals, value = part.partition("=")
    if not value:  # without a name, all of it may be a token
        return f"{name}{equals}" if equals else f"#{_digest(name)}" if name else ""
    return part if name.lower() in shown else f"{name}=#{_digest(value)}"


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
