"""The sessions of aiohttp that requests are made in: one for what the user named, one for redirects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.io.remote.errors import missing_packages
from sbformat.io.remote.redirects import make_public_resolver

if TYPE_CHECKING:
    from aiohttp import ClientSession


def open_file_systems(scheme: str, options: dict[str, Any], *, allows_private: bool) -> tuple[Any, Any]:
    """Return fsspec's file system for the named origin, and one without credentials for all others.

    :param options: of the first one
    :param allows_private: the second one reaches any address; otherwise those of the internet only

    fsspec keeps both, with their connections, and closes them when the process ends.
    """
    try:
        import aiohttp  # noqa: F401 -- whether it is there
        import fsspec
    except ImportError as error:
        raise missing_packages(scheme, error.name) from None
    others = _make_plain_client if allows_private else _make_public_client
    return (
        fsspec.filesystem(scheme, **{"get_client": _make_client, **options}),
        fsspec.filesystem(scheme, get_client=others),
    )


async def _make_client(**kwargs: Any) -> ClientSession:
    """Return a session with the user's ``client_kwargs``; what a server compresses stays so."""
    import aiohttp

    kwargs["auto_decompress"] = False
    return aiohttp.ClientSession(**kwargs)


async def _make_public_client(**kwargs: Any) -> ClientSession:
    """Return a session without the user's credentials, for redirects."""
    import aiohttp

    connector = aiohttp.TCPConnector(resolver=make_public_resolver())
    return aiohttp.ClientSession(loop=kwargs.get("loop"), connector=connector, auto_decompress=False)


async def _make_plain_client(**kwargs: Any) -> ClientSession:
    """Return a session without the user's credentials, for redirects into a network that the user allows."""
    import aiohttp

    return aiohttp.ClientSession(loop=kwargs.get("loop"), auto_decompress=False)
