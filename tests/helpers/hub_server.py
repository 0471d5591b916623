"""A stand-in for the API of the Hugging Face Hub, sufficient for ``HfApi`` and ``HfFileSystem`` to read models.

::

    with HubServer(token="hf_secret") as hub:
        first = hub.create("sb3/ppo-CartPole-v1", {"ppo-CartPole-v1.zip": data}, tags=("stable-baselines3",))
        files = HfFileSystem(endpoint=hub.url(), token=False, skip_instance_cache=True)
        files.cat_file("sb3/ppo-CartPole-v1/ppo-CartPole-v1.zip", start=0, end=100)
        second = hub.commit("sb3/ppo-CartPole-v1", {"ppo-CartPole-v1.zip": other})
        print(hub.requests, hub.cdn.requests)

A child process finds it by the variables of ``hub.make_environment()``. Files in LFS are redirected to ``hub.cdn``, a
server on another port that wants a signature in the query. Both servers take the behaviours of ``http_behaviours``, by
path; for the Hub itself, those that answer without the file (Fails, Closes, NeverAnswers, Redirect, ...).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode

from tests.helpers.http_messages import Answer, Request, answer_file, make_file
from tests.helpers.http_server import Behaviours, HttpServer
from tests.helpers.hub_repositories import (
    MAIN,
    Commit,
    Repository,
    compute_blob_id,
    describe_file,
    describe_folder,
    is_large,
    list_below,
    list_tree,
)

if TYPE_CHECKING:
    from typing_extensions import Self

REPOSITORY: Final = r"/api/models/([^/]+/[^/]+)"
PAGE: Final = 1000
"""Entries of lists in one answer, as the Hub has it."""
EXPANDED_PAGE: Final = 50
"""Entries of trees in one answer if each has its last commit."""
TRUE: Final = ("True", "true", "1")

Query = Mapping[str, Sequence[str]]
Answerer = Callable[["HubServer", Request, Query, Sequence[str]], Answer]


class CdnServer(HttpServer):
    """The server of the contents, by sha256. URLs without a valid signature are refused, whoever asks."""

    signature = 1

    def sign(self, sha: str) -> str:
        """Return a URL that is valid until ``expire``."""
        query = urlencode({"Expires": "1893456000", "Signature": f"s{self.signature}~", "Key-Pair-Id": "K1"})
        return f"{self.url(f'/{sha}')}?{query}"

    def expire(self) -> None:
        """Make all URLs that were signed before invalid."""
        self.signature += 1

    def answer(self, request: Request) -> Answer:
        """Return 403 unless the URL is signed."""
        signature = parse_qs(request.query).get("Signature")
        if signature != [f"s{self.signature}~"]:
            return Answer(
                status=403,
                headers={"Content-Type": "application/xml"},
                body=b"<Error><Code>AccessDenied</Code></Error>",
            )
        return super().answer(request)


class HubServer(HttpServer):
    """A Hub on a free port, until the end of the ``with`` block.

    ``token`` reads private repositories. ``redirects_small_files`` sends what is not in LFS by a relative redirect to
    ``/api/resolve-cache/``, as the Hub does since 2025.
    """

    def __init__(
        self,
        token: str = "hf_secret",  # noqa: S107 - of this server
        behaviour: Behaviours | Mapping[str, Behaviours] = (),
        page: int = PAGE,
        *,
        redirects_small_files: bool = False,
    ) -> None:
        super().__init__(behaviour=behaviour)
        self.token = token
        self.page = page
        self.redirects_small_files = redirects_small_files
        self.repositories: dict[str, Repository] = {}
        self.cdn = CdnServer()

    def __enter__(self) -> Self:
        self.cdn.__enter__()
        return super().__enter__()

    def __exit__(self, kind: object, *error: object) -> None:
        super().__exit__(kind, *error)
        self.cdn.__exit__(kind, *error)

    def make_environment(self, token: str | None = None) -> dict[str, str]:
        """Return variables with which a child process talks to this server, with a token or none at all."""
        return {
            "HF_ENDPOINT": self.url(),
            **({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"} if token is None else {"HF_TOKEN": token}),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def create(
        self,
        repo_id: str,
        files: Mapping[str, bytes],
        tags: Sequence[str] = (),
        *,
        private: bool = False,
        gated: bool = False,
    ) -> str:
        """Create a repository with one commit and return its sha."""
        self.repositories[repo_id] = Repository(repo_id, tuple(tags), private, gated)
        return self.commit(repo_id, files)

    def commit(self, repo_id: str, changes: Mapping[str, bytes | None], ref: str = MAIN) -> str:
        """Commit files (None removes one) to a branch and return the sha."""
        for name, content in changes.items():
            if content is not None and is_large(name):
                self.cdn.put(f"/{hashlib.sha256(content).hexdigest()}", content)
        return self.repositories[repo_id].commit(changes, ref)

    def tag(self, repo_id: str, name: str, revision: str = MAIN) -> None:
        """Name a commit."""
        repository = self.repositories[repo_id]
        repository.refs[name] = repository.refs.get(revision, revision)

    def answer(self, request: Request) -> Answer:
        """Return the answer of the API."""
        for behaviour in self.list_behaviours(request):
            answer = behaviour.intercept(request)
            if answer is not None:
                return answer
        query = parse_qs(request.query)
        for pattern, answerer in ROUTES.items():
            match = re.fullmatch(pattern, request.raw_path)
            if match:
                return answerer(self, request, query, [unquote(part or "") for part in match.groups()])
        return refuse(404, "", "Not found")

    def may_read(self, repository: Repository, request: Request) -> bool:
        """Whether the request may see the repository."""
        return not repository.private or request.headers.get("authorization") == f"Bearer {self.token}"


def send_json(value: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer of JSON."""
    types = {"Content-Type": "application/json; charset=utf-8"}
    return Answer(status=200, headers={**types, **(headers or {})}, body=json.dumps(value).encode())


def refuse(status: int, code: str, message: str) -> Answer:
    """Return an error with the headers by which the client chooses its exception."""
    headers = {"Content-Type": "application/json; charset=utf-8", "X-Error-Message": message}
    if code:
        headers["X-Error-Code"] = code
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="Authentication required", charset="UTF-8"'
    return Answer(status=status, headers=headers, body=json.dumps({"error": message}).encode())


def send_page(hub: HubServer, request: Request, query: Query, values: Sequence[Any], size: int) -> Answer:
    """Return the page of a list that the cursor of the query names, with a link to the next."""
    start = int(query.get("cursor", ["0"])[0])
    headers = {}
    if start + size < len(values):
        pairs = {**query, "cursor": [str(start + size)]}
        headers["Link"] = f'<{hub.url()}{request.raw_path}?{urlencode(pairs, doseq=True)}>; rel="next"'
    return send_json(values[start : start + size], headers)


def find_commit(hub: HubServer, request: Request, repo_id: str, revision: str) -> tuple[Repository, Commit] | Answer:
    """Return a commit, or the error of the Hub.

    Who does not prove who they are cannot tell a private repository from a missing one. The Hub then answers 401, which
    the client takes for a missing repository if the URL is ``https``; here the code of the error says so.
    """
    authorization = request.headers.get("authorization")
    if authorization is not None and authorization != f"Bearer {hub.token}":
        return refuse(401, "", "Invalid credentials in Authorization header")
    repository = hub.repositories.get(repo_id)
    if repository is None or not hub.may_read(repository, request):
        if authorization is None:
            return refuse(401, "RepoNotFound", "Invalid username or password.")
        return refuse(404, "RepoNotFound", "Repository not found")
    commit = repository.find(revision)
    return (repository, commit) if commit else refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")


def answer_models(hub: HubServer, request: Request, query: Query, _: Sequence[str]) -> Answer:
    """List the repositories of an author, with all tags, with a text in their name."""
    author = query.get("author", [""])[0]
    search = query.get("search", [""])[0].lower()
    tags = {*query.get("filter", ()), *query.get("tags", ()), *query.get("library", ())}
    full = {"full", "expand", "cardData"} & set(query)
    found = [
        repository.describe(repository.commits[repository.refs[MAIN]], full=bool(full))
        for repository in hub.repositories.values()
        if hub.may_read(repository, request)
        and (not author or repository.id.startswith(f"{author}/"))
        and search in repository.id.lower()
        and tags <= set(repository.tags)
    ]
    if "expand" in query:
        wanted = {"_id", "id", "modelId", *query["expand"]}
        found = [{name: value for name, value in model.items() if name in wanted} for model in found]
    return send_page(hub, request, query, found, min(hub.page, int(query.get("limit", [str(hub.page)])[0])))


def answer_model(hub: HubServer, request: Request, query: Query, parts: Sequence[str]) -> Answer:
    """Describe a repository at a revision."""
    found = find_commit(hub, request, parts[0], parts[1] or MAIN)
    if isinstance(found, Answer):
        return found
    repository, commit = found
    model = repository.describe(commit, blobs="blobs" in query)
    if "expand" in query:
        wanted = {"_id", "id", "modelId", *query["expand"]}
        model = {name: value for name, value in model.items() if name in wanted}
    return send_json(model)


def answer_refs(hub: HubServer, request: Request, _: Query, parts: Sequence[str]) -> Answer:
    """List branches and tags."""
    found = find_commit(hub, request, parts[0], MAIN)
    if isinstance(found, Answer):
        return found
    refs = found[0].refs
    branches = [{"name": MAIN, "ref": f"refs/heads/{MAIN}", "targetCommit": refs[MAIN]}]
    tags = [
        {"name": name, "ref": f"refs/tags/{name}", "targetCommit": sha}
        for name, sha in refs.items()
        if name != MAIN and not name.startswith("refs/")
    ]
    return send_json({"branches": branches, "converts": [], "tags": tags, "pullRequests": []})


def answer_commits(hub: HubServer, request: Request, query: Query, parts: Sequence[str]) -> Answer:
    """List the commits, the newest first."""
    found = find_commit(hub, request, *parts)
    if isinstance(found, Answer):
        return found
    commits = [
        {"id": commit.sha, "title": commit.title, "message": "", "authors": [{"user": "ann"}], "date": commit.date}
        for commit in reversed(found[0].commits.values())
    ]
    return send_page(hub, request, query, commits, EXPANDED_PAGE)


def answer_tree(hub: HubServer, request: Request, query: Query, parts: Sequence[str]) -> Answer:
    """List a folder."""
    repo_id, revision, folder = parts
    found = find_commit(hub, request, repo_id, revision)
    if isinstance(found, Answer):
        return found
    expand = query.get("expand", [""])[0] in TRUE
    recursive = query.get("recursive", [""])[0] in TRUE
    entries = list_tree(*found, folder.strip("/"), recursive=recursive, expand=expand)
    if entries is None:
        return refuse(404, "EntryNotFound", f"{folder} does not exist on {quote(revision)}")
    return send_page(hub, request, query, entries, min(hub.page, EXPANDED_PAGE if expand else PAGE))


def answer_paths_info(hub: HubServer, request: Request, _: Query, parts: Sequence[str]) -> Answer:
    """Describe files and folders, and leave out those that do not exist."""
    found = find_commit(hub, request, *parts)
    if isinstance(found, Answer):
        return found
    repository, commit = found
    if request.headers.get("content-type", "").startswith("application/json"):
        body = json.loads(request.body)
        paths, expand = body["paths"], bool(body.get("expand"))
    else:
        form = parse_qs(request.body.decode())
        paths, expand = form["paths"], form.get("expand", [""])[0] in TRUE
    entries = [
        (describe_file if path in commit.files else describe_folder)(repository, commit, path, expand=expand)
        for path in paths
        if path in commit.files or list_below(commit, path)
    ]
    return send_json(entries)


def answer_resolve(hub: HubServer, request: Request, _: Query, parts: Sequence[str]) -> Answer:
    """Send a file, or redirect to where it is."""
    repo_id, revision, name = parts
    found = find_commit(hub, request, repo_id, revision)
    if isinstance(found, Answer):
        return found
    repository, commit = found
    if repository.gated and "authorization" not in request.headers:
        return refuse(401, "GatedRepo", f"Access to model {repo_id} is restricted. You must have access to it.")
    if name not in commit.files:
        return refuse(404, "EntryNotFound", "Entry not found")
    content = commit.files[name]
    headers = {"X-Repo-Commit": commit.sha, "Accept-Ranges": "bytes"}
    if is_large(name):
        sha = hashlib.sha256(content).hexdigest()
        headers |= {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{sha}"', "Location": hub.cdn.sign(sha)}
        return Answer(status=302, headers=headers, body=b"Found. Redirecting")
    headers["ETag"] = f'"{compute_blob_id(name, content)}"'
    if hub.redirects_small_files and "/api/" not in request.raw_path:
        headers["Location"] = f"/api/resolve-cache/models/{repo_id}/{commit.sha}/{quote(name, safe='')}"
        return Answer(status=307, headers={**headers, "X-Linked-Size": str(len(content))}, body=b"Temporary Redirect")
    answer = answer_file(request, make_file(content, content_type="text/plain; charset=utf-8"))
    return replace(answer, headers={**answer.headers, **headers})


def answer_whoami(hub: HubServer, request: Request, _: Query, __: Sequence[str]) -> Answer:
    """Describe the owner of the token."""
    if request.headers.get("authorization") != f"Bearer {hub.token}":
        return refuse(401, "", "Invalid username or password.")
    return send_json({"type": "user", "name": "ann", "auth": {"accessToken": {"role": "read"}}, "orgs": []})


ROUTES: Final[dict[str, Answerer]] = {
    "/api/models": answer_models,
    "/api/whoami-v2": answer_whoami,
    f"{REPOSITORY}(?:/revision/([^/]+))?": answer_model,
    "/api/models/([^/]+)(?:/revision/([^/]+))?": answer_model,  # an author alone: no such repository
    f"{REPOSITORY}/refs": answer_refs,
    f"{REPOSITORY}/commits/([^/]+)": answer_commits,
    f"{REPOSITORY}/tree/([^/]+)(?:/(.*))?": answer_tree,
    f"{REPOSITORY}/paths-info/([^/]+)": answer_paths_info,
    "/api/resolve-cache/models/([^/]+/[^/]+)/([^/]+)/(.+)": answer_resolve,
    "/([^/]+/[^/]+)/resolve/([^/]+)/(.+)": answer_resolve,
}
"""What answers each path, whose groups are decoded after they are matched."""
