"""Where a redirect may lead: not to another scheme, and not into a private network.

A server on the internet may answer with a redirect to ``http://169.254.169.254/`` or ``http://localhost:8080/``, so
that a program inside a network asks for what only it can reach (server-side request forgery). The address that the
user named is followed wherever it is; a redirect to another origin only to addresses of the internet. The check is made
on the addresses that the connection is then made to, so that a name cannot be resolved differently for each.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote
from sbformat.io.urls import hide_secrets

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver
    from yarl import URL

MOST_REDIRECTS: Final = 8
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_OF_CLOUDS: Final = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20"))
)
"""Addresses of services in the networks of clouds, and others of which releases of Python do not agree."""
_INTERNET: Final = ipaddress.ip_network("2000::/3")
"""All addresses of version 6 that were assigned to the internet."""
_ADVICE: Final = "pass Url(..., private_redirects=True) or --private-redirects to follow it"


class PrivateAddressError(OSError):
    """A name that is resolved to an address that is not one of the internet."""


def is_private(address: str) -> bool:
    """Return whether an IP address is not one of the internet: private, of this machine, of the link, or reserved.

    :raises ValueError: if it is not an IP address
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_private(str(inner))
        if found not in _INTERNET:
            return True
    return not found.is_global or found.is_multicast or any(found in network for network in _OF_CLOUDS)


def is_same_origin(first: URL, second: URL) -> bool:
    """Return whether two URLs have the same scheme, server and port, so that credentials of one are for both."""
    return (first.scheme, first.host, first.port) == (second.scheme, second.host, second.port)


def check_redirect(source: URL, target: URL, named: URL, *, allows_private: bool) -> None:
    """Refuse a redirect to another scheme, or to a private address that is written as one.

    :param source: the URL that answered with the redirect
    :param target: the URL that it names
    :param named: the URL that the user named, whose server is followed wherever it is
    :param allows_private: the user allows private addresses, and http from https
    :raises UnsupportedError: if it is refused
    """
    name = quote(hide_secrets(str(target)))
    is_secure = target.scheme == "https" or (target.scheme == "http" and (source.scheme == "http" or allows_private))
    if not is_secure or not target.host:
        advice = f"; {_ADVICE}" if target.scheme == "http" else ""
        message = f"the server redirects from {source.scheme} to another scheme, which is not followed: {name}{advice}"
        raise UnsupportedError(message)
    if allows_private or is_same_origin(target, named):
        return
    try:
        refused = is_private(_read_address(target.host))
    except ValueError:  # a name, which the resolver checks
        return
    if refused:
        raise refuse_private(str(target))


def _read_address(host: str) -> str:
    """Return an IP address as it is usually written: ``127.1``, ``0x7f000001`` and ``2130706433`` are 127.0.0.1."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host


def refuse_private(target: str) -> UnsupportedError:
    """Return the error for a redirect to a private address."""
    return UnsupportedError(
        f"the server redirects to a private address, which is not followed: {quote(hide_secrets(target))}; {_ADVICE}"
    )


def find_private(error: BaseException) -> bool:
    """Return whether a connection failed because :func:`make_public_resolver` refused the address."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, PrivateAddressError) or isinstance(getattr(found, "os_error", None), PrivateAddressError):
            return True
        found = found.__cause__ or found.__context__
    return False


def make_public_resolver() -> AbstractResolver:
    """Return a resolver of names that fails for names of private addresses."""
    from aiohttp.abc import AbstractResolver
    from aiohttp.resolver import DefaultResolver

    class PublicResolver(AbstractResolver):
        """Resolves names to addresses of the internet."""

        def __init__(self) -> None:
            self._resolver = DefaultResolver()

        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
            """Return the addresses of a name.

            :raises PrivateAddressError: if one of them is private
            """
            found = await self._resolver.resolve(host, port, family)
            for row in found:
                if is_private(row["host"]):
                    raise PrivateAddressError
            return list(found)

        async def close(self) -> None:
            """Close the resolver."""
            await self._resolver.close()

    return PublicResolver()


__all__ = [
    "MOST_REDIRECTS",
    "PrivateAddressError",
    "check_redirect",
    "find_private",
    "is_private",
    "is_same_origin",
    "make_public_resolver",
    "refuse_private",
]
