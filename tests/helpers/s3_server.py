"""An S3 server on loopback: moto in one child process for all, behind an HTTP server that counts and misbehaves.

::

    with S3Server() as server:
        server.put_object("agents", "runs/a.zip", data)
        files = s3fs.S3FileSystem(**server.storage_options, skip_instance_cache=True)
        files.cat_file("agents/runs/a.zip", start=0, end=100)
        print(server.requests)

A child process finds it by the variables of ``server.make_environment()``. Behaviours go by path, as
``/agents/runs/a.zip``: those that answer without the file (Fails, Refuses, Closes, NeverAnswers, ...), and those that
change an answer (Cuts, Drips, LongerLength, OtherContentRange, FewerBytes, ...). moto has the objects, so none changes
what the server knows of a file (NoRanges, NoETag, Changes, ...).
"""

from __future__ import annotations

import atexit
import functools
import http.client
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tests.helpers.http_behaviours import Behaviour
from tests.helpers.http_messages import Answer, Range, Request, make_file
from tests.helpers.http_server import Behaviours, HttpServer

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRAM: Final = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
"""It ends when the process that started it closes its standard input, or ends."""
REGION: Final = "us-east-1"
SIGNED: Final = "AWS4-HMAC-SHA256 Credential={key}/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""moto looks for the key, and does not check the signature."""
HOP_BY_HOP: Final = {"connection", "date", "keep-alive", "server", "transfer-encoding"}
"""Headers of one connection, which the server in between writes itself."""


@dataclass(frozen=True)
class Refuses(Behaviour):
    """An error of S3 with its code: 403 AccessDenied, 503 SlowDown, ..."""

    status: int = 403
    code: str = "AccessDenied"

    def intercept(self, request: Request) -> Answer | None:
        return refuse(self.status, self.code)


@dataclass(frozen=True)
class NeedsKey(Behaviour):
    """Only requests with this access key are answered; the signature is not checked."""

    key: str

    def intercept(self, request: Request) -> Answer | None:
        authorization = request.headers.get("authorization")
        if authorization is None:
            return refuse(403, "AccessDenied")
        return None if f"Credential={self.key}/" in authorization else refuse(403, "InvalidAccessKeyId")


def refuse(status: int, code: str) -> Answer:
    """Return an error as S3 writes it."""
    body = f"<Error><Code>{code}</Code><Message>{code} by the test</Message></Error>".encode()
    return Answer(status=status, headers={"Content-Type": "application/xml"}, body=body)


def keep_descriptions() -> None:
    """Let botocore read its descriptions of services once: a client, of which each test has its own, parses them."""
    from botocore.loaders import JSONFileLoader

    if hasattr(JSONFileLoader.load_file, "__wrapped__"):
        return
    load, kept = JSONFileLoader.load_file, {}

    @functools.wraps(load)
    def load_file(self: JSONFileLoader, file_path: str) -> Any:
        if file_path not in kept:
            kept[file_path] = load(self, file_path)
        return kept[file_path]

    JSONFileLoader.load_file = load_file


@functools.cache
def start_moto() -> int:
    """Start moto, once for all servers of this process; return its port. It ends with this process."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    atexit.register(process.communicate)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        message = f"moto did not start: exit status {process.wait()}"
        raise RuntimeError(message)
    return int(line)


class S3Server(HttpServer):
    """An S3 server on a free port, until the end of the ``with`` block; at its beginning, there are no objects."""

    key = "test-key"
    secret = "test-secret"  # noqa: S105 - of this server

    def __init__(self, behaviour: Behaviours | Mapping[str, Behaviours] = ()) -> None:
        super().__init__(behaviour=behaviour)
        self._contents: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        keep_descriptions()
        self._moto_port = start_moto()
        self._send("POST", "/moto-api/reset", checked=True)
        return super().__enter__()

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options of ``s3fs.S3FileSystem`` for this server."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.url(),
            "client_kwargs": {"region_name": REGION},
        }

    def make_environment(self, key: str | None = None) -> dict[str, str]:
        """Return variables with which a child process talks to this server; ``key`` is another access key."""
        return {
            "AWS_ENDPOINT_URL": self.url(),
            "AWS_ACCESS_KEY_ID": key or self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def put_object(self, bucket: str, name: str, content: bytes, *, public: bool = False) -> str:
        """Write an object, and its bucket if it is missing; return its ETag. These requests are not counted."""
        if self._send("HEAD", f"/{bucket}").status == 404:
            self._send("PUT", f"/{bucket}", checked=True)
        path = f"/{bucket}/{name}"
        acl = {"x-amz-acl": "public-read"} if public else {}
        self._contents[path] = content
        return self._send("PUT", quote(path), content, acl, checked=True).headers["Etag"]

    def delete_object(self, bucket: str, name: str) -> None:
        """Delete an object."""
        self._send("DELETE", quote(f"/{bucket}/{name}"), checked=True)

    def keep_versions(self, bucket: str) -> None:
        """Keep the old versions of the objects of a bucket that exists."""
        body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        self._send("PUT", f"/{bucket}?versioning", body, checked=True)

    def answer(self, request: Request) -> Answer:
        """Return moto's answer, changed by the behaviours of the path."""
        active = self.list_behaviours(request)
        for behaviour in active:
            answer = behaviour.intercept(request)
            if answer is not None:
                return answer
        target = f"{request.raw_path}?{request.query}" if request.query else request.raw_path
        answer = self._forward(request.method, target, request.body, request.headers)
        if answer.status in {200, 206}:
            file = make_file(self._contents.get(request.path, b""))
            for behaviour in active:
                answer = behaviour.change_answer(request, answer, file)
        return answer

    def _send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        checked: bool = False,
    ) -> Answer:
        authorization = {"Authorization": SIGNED.format(key=self.key)}
        answer = self._forward(method, target, body, {**authorization, **(headers or {})})
        if checked and answer.status >= 300:
            message = f"{method} {target}: {answer.status} {answer.body!r}"
            raise RuntimeError(message)
        return answer

    def _forward(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        sent = {name: value for name, value in headers.items() if name not in {"connection", "expect"}}
        with closing(http.client.HTTPConnection("127.0.0.1", self._moto_port, timeout=500)) as connection:
            connection.request(method, target, body or None, sent)
            with closing(connection.getresponse()) as response:
                content = response.read()
                kept = {name.title(): value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
                found = read_range(response.headers.get("Content-Range"))
                return Answer(status=response.status, headers=kept, body=content, range=found)


def read_range(header: str | None) -> Range | None:
    """Return the range that a Content-Range names."""
    match = re.match(r"bytes (\d+)-(\d+)/", header or "")
    return (int(match[1]), int(match[2]) + 1) if match else None
