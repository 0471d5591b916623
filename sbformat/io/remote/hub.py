"""Files of the Hugging Face Hub: ``hf://user/name[@revision]/path``, and queries such as ``hf://?author=sb3``.

huggingface_hub resolves repositories, lists them, and knows the user's token; the bytes are fetched as those of any
HTTP server, from the URL of a commit, so that they cannot change.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.parse import quote as percent

from sbformat.errors import UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.io.remote.clients import RemoteEntry, call_client, list_by_client, missing_packages, not_found
from sbformat.io.remote.http import HttpFile, is_private
from sbformat.io.remote.source import OPENING_BYTES
from sbformat.io.urls import HUB_QUERY, Url, as_url, copy_options, hide_secrets
from sbformat.limits import DEFAULT_LIMITS, Limits
from sbformat.rendering import count_noun

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

HUB_SCHEME: Final = "hf"
HUB_PREFIX: Final = f"{HUB_SCHEME}://"
_REPOSITORY: Final = re.compile(
    r"(?:(?P<type>models|datasets|spaces)/)?(?P<id>[^/@?*\[]+/[^/@?*\[]+)"
    r"(?:@(?P<revision>refs/(?:pr|convert)/[^/]+|[^/]+))?(?:/(?P<path>.*))?",
    re.DOTALL,
)
_AUTHOR: Final = re.compile(r"[^/@?*\[]+/?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TYPES: Final = {None: "model", "models": "model", "datasets": "dataset", "spaces": "space"}


class HubPath(Record):
    """A place on the Hub."""

    repo_type: str
    repo_id: str
    revision: str | None  # a branch, tag or commit; None for the default branch
    path: str  # in the repository; empty for all of it

    @property
    def full_id(self) -> str:
        """The repository with its type, as URLs have it: ``datasets/user/name``; models have no type."""
        return self.repo_id if self.repo_type == "model" else f"{self.repo_type}s/{self.repo_id}"


def parse_hub_url(url: str) -> HubPath | None:
    """Return the place that a URL names; None for a query, and for an author.

    >>> parse_hub_url("hf://sb3/ppo-CartPole-v1@main/ppo-CartPole-v1.zip")
    HubPath(repo_type='model', repo_id='sb3/ppo-CartPole-v1', revision='main', path='ppo-CartPole-v1.zip')
    """
    rest = url[len(HUB_PREFIX) :]
    if rest.startswith("?") or (rest and _AUTHOR.fullmatch(rest)):
        return None
    found = _REPOSITORY.fullmatch(rest)
    if found is None:
        forms = "hf://USER/REPOSITORY[@REVISION][/FILE], hf://AUTHOR or hf://?tag=TAG"
        raise UnsupportedError(f"expected {forms}, got {quote(hide_secrets(url))}")
    revision = unquote(found["revision"]) if found["revision"] else None
    return HubPath(_TYPES[found["type"]], found["id"], revision, (found["path"] or "").strip("/"))


def pin_commit(url: str) -> str:
    """Return a URL with the commit that its revision is now; unchanged if it has one."""
    place = parse_hub_url(url)
    if place is None or (place.revision is not None and _COMMIT.fullmatch(place.revision)):
        return url
    given = {"revision": place.revision, "repo_type": place.repo_type}
    commit = call_hub(url, lambda api: api.repo_info(place.repo_id, **given)).sha
    return copy_options(url, f"{HUB_PREFIX}{place.full_id}@{commit}{'/' if place.path else ''}{place.path}")


def open_hub_file(url: str, limits: Limits = DEFAULT_LIMITS, *, first_bytes: int = OPENING_BYTES) -> HttpFile:
    """Open a file of the Hub at the commit that its revision is now."""
    name = hide_secrets(url)
    place = _find_place(pin_commit(url))
    if not place.path:
        raise UnsupportedError(f"expected a file of a repository, got {quote(name)}")
    given = as_url(url)
    endpoint = call_hub(url, lambda api: api.endpoint)
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    target = f"{endpoint}/{place.full_id}/resolve/{place.revision}/{percent(place.path)}"
    allows_private = given.private_redirects or _is_private_host(endpoint)
    headers = build_hf_headers(token=given.options.get("token"), library_name="sbformat")
    made = Url(target, private_redirects=allows_private, timeout=given.timeout)
    return HttpFile(made, headers=headers, limits=limits, name=name, scheme=HUB_SCHEME, first_bytes=first_bytes)


def list_repository(url: str) -> list[RemoteEntry]:
    """Return the files at or below a place, at its commit, by the names that they have below it.

    Their version is the SHA-256 of a large file, git's identifier of a small one.
    """
    place = _find_place(url)
    start = len(f"{place.path}/") if place.path else 0
    given = {"recursive": True, "revision": place.revision, "repo_type": place.repo_type}
    rows = list_by_client(url, lambda: _open_api(url).list_repo_tree(place.repo_id, place.path or None, **given))
    files = (row for row in rows if hasattr(row, "size"))
    return sorted(RemoteEntry(row.path[start:], row.size, row.lfs.sha256 if row.lfs else row.blob_id) for row in files)


def is_hub_folder(url: str) -> bool:
    """Return whether a URL names a repository or a folder of one."""
    place = parse_hub_url(url)
    if place is None or not place.path:
        return True
    given = {"revision": place.revision, "repo_type": place.repo_type}
    found = call_hub(url, lambda api: api.get_paths_info(place.repo_id, [place.path], **given))
    if not found:
        raise not_found(hide_secrets(url))
    return not hasattr(found[0], "size")


def find_repositories(url: str) -> list[str]:
    """Return the URLs of the models that a query finds, in the order of their names.

    ``hf://AUTHOR`` and ``hf://?author=AUTHOR&tag=TAG&search=WORDS&limit=N`` are queries; ``tag`` may be repeated.
    """
    rest = url[len(HUB_PREFIX) :]
    query = parse_qs(rest[1:], keep_blank_values=True) if rest.startswith("?") else {"author": [rest.rstrip("/")]}
    unknown = [name for name in query if name not in HUB_QUERY]
    limit = query.get("limit", ["0"])[-1]
    if unknown or not query or not limit.isdecimal():
        raise UnsupportedError(f"expected a query of {', '.join(HUB_QUERY)}, got {quote(hide_secrets(url))}")
    given: dict[str, Any] = {key: query.get(key, [None])[-1] for key in ("author", "search")}
    given |= {"filter": query.get("tag"), "limit": int(limit) or None}
    rows = list_by_client(url, lambda: _open_api(url).list_models(**given))
    return [copy_options(url, HUB_PREFIX + name) for name in sorted(row.id for row in rows)]


def _find_place(url: str) -> HubPath:
    """Return the place that a URL names; a query is refused once it was asked: its own error comes first."""
    place = parse_hub_url(url)
    if place is None:
        found = count_noun(len(find_repositories(url)), "repository", "repositories")
        raise UnsupportedError(f"expected a repository or a file of one, got a query that finds {found}")
    return place


def call_hub(url: str, work: Callable[[Any], T]) -> T:
    """Call a function with huggingface_hub's client; its errors become ours."""
    return call_client(url, lambda: work(_open_api(url)))


def _open_api(url: str) -> Any:
    try:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.errors import OfflineModeIsEnabled
    except ImportError as error:
        raise missing_packages(HUB_SCHEME, error.name) from None
    if constants.HF_HUB_OFFLINE:  # of a commit, only its files would be fetched, which are not asked for by this client
        raise OfflineModeIsEnabled
    options = as_url(url).options
    return HfApi(endpoint=options.get("endpoint"), token=options.get("token"), library_name="sbformat")


def _is_private_host(endpoint: str) -> bool:
    """Return whether the Hub is one of the user's own network, whose redirects may lead to others in it."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return any(is_private(str(row[4][0])) for row in socket.getaddrinfo(host, None))
    except (OSError, ValueError):
        return False
