"""An HTTP/1.1 server on loopback that counts requests and bytes, and misbehaves as a test wants.

::

    with HttpServer({"/agent.zip": data}, behaviour={"/agent.zip": [Fails(503, times=2)]}) as server:
        read(server.url("/agent.zip"))
        assert [(request.status, request.range) for request in server.requests] == [(503, None), ...]

The behaviours are in ``http_behaviours``. Without one, the server has ranges, strong ETags, Last-Modified, conditions,
HEAD and persistent connections. A path that ends in ``/`` is a page of links to the files under it.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote, urlsplit

from tests.helpers.http_behaviours import Behaviour
from tests.helpers.http_messages import FIRST_CHANGE, Answer, File, Range, Request, answer_file, make_file

if TYPE_CHECKING:
    from typing_extensions import Self

Behaviours = Behaviour | Sequence[Behaviour]
IDLE: Final = 60
"""Seconds after which a connection that nobody uses is closed."""


@dataclass
class Record:
    """A request and its answer. ``sent`` counts bytes of the body, as they are sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    range: Range | None = None
    status: int = 0
    sent: int = 0

    @property
    def authorization(self) -> str | None:
        """The header of that name, with which a client proves who it is."""
        return self.headers.get("authorization")


class HttpServer:
    """A server of files on a free port, in threads of this process, until the end of the ``with`` block."""

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        behaviour: Behaviours | Mapping[str, Behaviours] = (),
        host: str = "127.0.0.1",
    ) -> None:
        self.files: dict[str, File] = {}
        self.host = host
        self.errors: list[BaseException] = []
        self.stopping = threading.Event()
        self._records: list[Record] = []
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.behaviour = behaviour
        for path, content in (files or {}).items():
            self.put(path, content)

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()
        self._thread.join()
        if self.errors and kind is None:
            raise self.errors[0]

    @property
    def behaviour(self) -> Behaviours | Mapping[str, Behaviours]:
        """Behaviours of all paths, or of each. After they are set, requests are numbered from 1 again."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviours | Mapping[str, Behaviours]) -> None:
        with self._lock:
            self._behaviour = behaviour
            self._numbers.clear()

    def url(self, path: str = "", *, host: str | None = None) -> str:
        """Return the URL of a path; ``host`` may be another name of this machine."""
        name = host or self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}{quote(path)}"

    def put(self, path: str, content: bytes) -> None:
        """Store a file, with a later Last-Modified if there was one."""
        before = self.files.get(path)
        self.files[path] = make_file(content, before.modified + 3600 if before else FIRST_CHANGE)

    @property
    def requests(self) -> list[Record]:
        """Copies of the records since the start or the last ``reset``, in the order of arrival."""
        with self._lock:
            return [replace(record) for record in self._records]

    @property
    def bytes_sent(self) -> int:
        """Bytes of all bodies since the start or the last ``reset``."""
        return sum(record.sent for record in self.requests)

    def reset(self) -> None:
        """Forget the records, but not the numbers by which behaviours go (``after``, ``times``)."""
        with self._lock:
            self._records.clear()

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request."""
        active = self.list_behaviours(request)
        for behaviour in active:
            answer = behaviour.intercept(request)
            if answer is not None:
                return answer
        file = self.files.get(request.path) or self._list_folder(request.path)
        if file is None:
            return Answer(status=404, headers={"Content-Type": "text/plain"}, body=b"not found")
        for behaviour in active:
            file = behaviour.change_file(request, file)
        answer = answer_file(request, file)
        for behaviour in active:
            answer = behaviour.change_answer(request, answer, file)
        return answer

    def list_behaviours(self, request: Request) -> list[Behaviour]:
        """Return the behaviours that concern a request."""
        found = self.behaviour.get(request.path, ()) if isinstance(self.behaviour, Mapping) else self.behaviour
        behaviours = (found,) if isinstance(found, Behaviour) else found
        return [behaviour for behaviour in behaviours if behaviour.concerns(request)]

    def _list_folder(self, path: str) -> File | None:
        if not path.endswith("/"):
            return None
        rests = [name.removeprefix(path) for name in self.files if name.startswith(path)]
        names = sorted({rest[: rest.find("/") + 1] or rest for rest in rests})
        links = [f'<a href="{escape(quote(name))}">{escape(name)}</a>' for name in names]
        page = "\n".join(["<!DOCTYPE html>", *links]).encode()
        return make_file(page, content_type="text/html; charset=utf-8") if links else None

    def begin(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[Request, Record]:
        """Count a request and return it."""
        parts = urlsplit(target)
        path = unquote(parts.path)
        with self._lock:
            self._numbers[path] += 1
            number = self._numbers[path]
            record = Record(method, path, parts.query, headers)
            self._records.append(record)
        request = Request(
            method=method, raw_path=parts.path, query=parts.query, headers=headers, number=number, body=body
        )
        return request, record

    def note(self, record: Record, **values: Any) -> None:
        """Change values of a record."""
        with self._lock:
            for name, value in values.items():
                setattr(record, name, value)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # they are joined when the server is closed
    request_queue_size = 128

    def __init__(self, owner: HttpServer) -> None:
        self.owner = owner
        self.address_family = socket.AF_INET6 if ":" in owner.host else socket.AF_INET
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__((owner.host, 0), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
            super().shutdown_request(request)

    def end_connections(self) -> None:
        """End what threads wait for."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client was first
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep an error of the server itself for the end of the ``with`` block; clients may go when they like."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    timeout = IDLE
    server: _Server

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request, record = owner.begin(self.command, self.path, headers, body)
        answer = owner.answer(request)
        owner.note(record, status=answer.status, range=answer.range)
        if not answer.status:
            owner.stopping.wait(answer.pause)
            self.close_connection = True
            return
        self._send_head(answer)
        if self.command != "HEAD" and answer.status not in {204, 304}:
            self._send_body(answer, record)
        self.wfile.flush()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

    def _send_head(self, answer: Answer) -> None:
        owner = self.server.owner
        self.send_response(answer.status)
        headers = dict(answer.headers)
        if answer.framing == "length" and isinstance(answer.body, (bytes, memoryview)) and answer.status != 304:
            declared = headers.setdefault("Content-Length", str(len(answer.body)))
            self.close_connection |= declared != str(len(answer.body)) and self.command != "HEAD"
        elif answer.framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        while answer.head_pause and not owner.stopping.wait(answer.head_pause):
            self.send_header("X-More", "x")
            self.flush_headers()
            self.wfile.flush()
        self.end_headers()

    def _send_body(self, answer: Answer, record: Record) -> None:
        left = answer.cut_after
        owner = self.server.owner
        if answer.pause:
            self.wfile.flush()
        for piece in split_body(answer.body, answer.piece):
            part = piece if left is None else piece[:left]
            if answer.pause and owner.stopping.wait(answer.pause):
                self.close_connection = True
                return
            if part:  # an empty chunk would be the end of the body
                self._send_piece(part, record, is_chunk=answer.framing == "chunked")
            if left is not None:
                left -= len(part)
                if not left:
                    self.close_connection = True
                    return
        if answer.framing == "chunked":
            self.wfile.write(b"0\r\n\r\n")

    def _send_piece(self, part: bytes | memoryview, record: Record, *, is_chunk: bool) -> None:
        owner = self.server.owner
        owner.note(record, sent=record.sent + len(part))  # before the client can have it, and look
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunk else part)
            self.wfile.flush()
        except OSError:
            owner.note(record, sent=record.sent - len(part))
            raise


def split_body(body: bytes | memoryview | Iterable[bytes], size: int) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a body."""
    parts: Iterable[bytes | memoryview] = [body] if isinstance(body, (bytes, memoryview)) else body
    for part in parts:
        view = memoryview(part)
        yield from (view[start : start + size] for start in range(0, len(view), size))
