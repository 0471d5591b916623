"""The sessions of aiohttp that requests are made in: one for what the user named, one for redirects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.io.remote.errors import missing_packages
from sbformat.io.remote.redirects import make_public_resolver

if TYPE_CHECKING:
    from aiohttp import ClientSession


def open_file_systems(scheme: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return fsspec's file system for the named origin, and one that reaches addresses of the internet only.

    fsspec keeps both, with their connections, and closes them when the process ends.
    """
    try:
        import aiohttp  # noqa: F401 -- whether it is there
        import fsspec
    except ImportError as error:
        raise missing_packages(scheme, error.name) from None
    return fsspec.filesystem(scheme, **{"get_client": _make_client, **options}), fsspec.filesystem(
        scheme, get_client=_make_public_client
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
