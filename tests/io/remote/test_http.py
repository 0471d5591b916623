"""Files of HTTP servers that follow the RFC, know little, lie, fail, change, or never end."""

from __future__ import annotations

import errno
import gzip
import socket
import tracemalloc

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import sbformat
from sbformat import ContainerError, LimitError, Limits, SbformatError, UnsupportedError
from sbformat.io.remote import RemoteSource, clients, http, open_remote
from sbformat.io.remote.source import OPENING_BYTES
from sbformat.io.urls import Url, hide_secrets
from tests.helpers import thresholds
from tests.helpers.bundled import PPO
from tests.helpers.http_behaviours import (
    Behaviour,
    Changes,
    Chunked,
    Closes,
    Cuts,
    Drips,
    Endless,
    EndlessHead,
    Fails,
    FewerBytes,
    Gzip,
    HtmlPage,
    LongerLength,
    MoreBytes,
    NeedsPassword,
    NeedsToken,
    NeverAnswers,
    NoConditions,
    NoContentRange,
    NoETag,
    NoHead,
    NoLastModified,
    NoLength,
    NoRanges,
    OtherContentRange,
    OtherStart,
    WeakETag,
)
from tests.helpers.http_server import HttpServer
from tests.helpers.large_agents import make_many_tensors
from tests.helpers.remote_errors import catch
from tests.helpers.sampling import with_exhaustive

PATH = "/runs/agent.zip"
DATA = make_many_tensors(3, 200_000)
"""An agent of 0.6 MB, so that its parts are fetched by several requests."""
OTHER = DATA[:300_000] + bytes([DATA[300_000] ^ 1]) + DATA[300_001:]
SECRET = "s3cr3t-signature"  # noqa: S105


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the client would have waited between tries."""
    found: list[float] = []

    async def wait(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(http, "_wait", wait)
    return found


def serve(*behaviours: Behaviour, data: bytes = DATA) -> HttpServer:
    return HttpServer({PATH: data}, behaviour=behaviours)


def name(server: HttpServer) -> str:
    return f"{server.url(PATH)}?sig={SECRET}"


def open_file(server: HttpServer, limits: Limits = sbformat.DEFAULT_LIMITS) -> RemoteSource:
    return open_remote(name(server), limits=limits)


def read_all(server: HttpServer) -> bytes:
    source = open_file(server)
    return bytes(source.view(0, source.size))


def read_tensors(url: str) -> object:
    """Read an agent and decode its tensors, which checks their CRCs."""
    policy = sbformat.read(url).parameters["policy"]
    return policy.to_numpy()


def refuse(server: HttpServer, expected: type[Exception], *words: str) -> Exception:
    """The file cannot be opened, or not be read: one error, that names it."""
    error = catch(lambda: read_all(server), SECRET)
    assert isinstance(error, expected), error
    shown = server.url(PATH)
    assert shown in str(error), error
    for word in words:
        assert word in str(error), error
    return error


# -- servers that follow the RFC ----------------------------------------------------------------------


def test_only_the_ranges_that_are_read_are_fetched() -> None:
    with serve() as server:
        source = open_file(server)
        assert (source.size, source.is_by_range()) == (len(DATA), True)
        assert bytes(source.view(len(DATA) - 22, 22)) == DATA[-22:]
        assert bytes(source.view(300_000, 10)) == DATA[300_000:300_010]
        assert [record.method for record in server.requests] == ["GET"] * 3
        assert server.bytes_sent < OPENING_BYTES + 2 * (1 << 14)
        assert source.fetched == server.bytes_sent
        assert {record.query for record in server.requests} == {f"sig={SECRET}"}


@pytest.mark.parametrize("size", [1, OPENING_BYTES - 1, OPENING_BYTES, OPENING_BYTES + 1])
def test_files_of_every_size_are_the_same(size: int) -> None:
    with serve(data=DATA[:size]) as server:
        assert read_all(server) == DATA[:size]
        assert server.bytes_sent == size


@pytest.mark.parametrize("behaviours", [(), (NoRanges(),), (Chunked(),)])
def test_an_empty_file_is_empty(behaviours: tuple[Behaviour, ...]) -> None:
    with serve(*behaviours, data=b"") as server:
        source = open_file(server)
        assert (source.size, bytes(source.view(0, 10))) == (0, b"")
        error = catch(lambda: sbformat.read(name(server)))
        assert "an empty file" in str(error)


@pytest.mark.parametrize(
    "behaviours",
    [
        (NoETag(),), (NoLastModified(),), (NoETag(), NoLastModified()), (WeakETag(),), (NoConditions(),), (Chunked(),),
        (NoLength(),), (NoHead(),), (NoHead(status=404),),
    ],
    ids=str,
)  # fmt: skip
def test_servers_that_know_less_are_read_by_ranges(behaviours: tuple[Behaviour, ...]) -> None:
    with serve(*behaviours) as server:
        source = open_file(server)
        assert source.is_by_range()
        assert bytes(source.view(0, source.size)) == DATA


def test_a_url_without_suffix_falls_back_to_zip() -> None:
    with serve() as server:
        assert sbformat.read(server.url(PATH.removesuffix(".zip"))).format == "sb3"
        paths = [record.path for record in server.requests]
        assert paths[:2] == ["/runs/agent", "/runs/agent.zip"]
        error = catch(lambda: sbformat.read(server.url("/runs/other")))
        assert isinstance(error, FileNotFoundError)
        assert error.filename == server.url("/runs/other")


def test_paths_and_queries_are_sent_as_they_are_written() -> None:
    """A signature is of the text: an escape that is not needed must not be lost."""
    target = "/a%7Eb%2Fc%20d.zip?X=%2F%7E%2B&sig=a%3D"
    with HttpServer({"/a~b/c d.zip": DATA}) as server:
        assert open_remote(server.url() + target).size == len(DATA)
        assert server.requests[0].query == "X=%2F%7E%2B&sig=a%3D"


# -- servers without ranges ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviours",
    [(NoRanges(),), (NoRanges(advertised=True),), (NoRanges(), Chunked()), (NoRanges(), NoLength())],
    ids=str,
)
def test_without_ranges_the_file_is_fetched_once_and_checked_whole(behaviours: tuple[Behaviour, ...]) -> None:
    with serve(*behaviours) as server:
        report = sbformat.inspect(name(server))
        assert report == sbformat.inspect(DATA)
        assert report.not_checked == ()
        assert [record.sent for record in server.requests] == [len(DATA)]


def test_without_ranges_damage_is_refused_as_in_a_local_file() -> None:
    with serve(NoRanges(), data=OTHER) as server:
        remote, local = sbformat.inspect(name(server)), sbformat.inspect(OTHER)
    assert remote.broken == local.broken
    assert remote.broken


@pytest.mark.parametrize("behaviours", [(), (Chunked(),), (NoLength(),), (Endless(),)], ids=str)
def test_without_ranges_total_bytes_limits_what_is_fetched(behaviours: tuple[Behaviour, ...]) -> None:
    limits = Limits(total_bytes=400_000)
    with serve(NoRanges(), *behaviours) as server:
        error = catch(lambda: sbformat.read(name(server), limits=limits), SECRET)
        assert isinstance(error, LimitError)
        assert "total_bytes" in str(error)
        assert len(server.requests) == 1


def test_a_file_without_ranges_is_in_memory_once() -> None:
    with serve(NoRanges(), data=bytes(30 << 20)) as server:
        tracemalloc.start()
        source = open_file(server)
        found = source.load()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found.size == 30 << 20
    assert peak < 45 << 20


# -- lies about lengths -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        OtherContentRange(start=1), OtherContentRange(start=-1), OtherContentRange(total=-len(DATA) + 10),
        NoContentRange(), OtherStart(5), OtherStart(5, honest=True), FewerBytes(5), FewerBytes(5, honest=False),
        MoreBytes(5), Endless(), LongerLength(7),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("after", [0, 1])
def test_answers_that_contradict_the_request_are_refused(lie: Behaviour, after: int) -> None:
    object.__setattr__(lie, "after", after)
    with serve(lie) as server:
        error = refuse(server, OSError)
        assert isinstance(error, OSError)
        assert error.errno == errno.EIO
        assert "contradicts" in str(error) or "was cut" in str(error)
        assert server.bytes_sent < 8 << 20


@pytest.mark.parametrize("by", [-100, 100])
def test_a_total_that_differs_in_later_answers_is_a_change(by: int) -> None:
    with serve(OtherContentRange(total=by, after=1)) as server:
        source = open_file(server)
        error = catch(lambda: source.view(300_000, 10), SECRET)
        assert isinstance(error, ContainerError)
        assert "has changed since it was opened" in str(error)


def test_bytes_of_another_place_are_not_taken_for_the_file() -> None:
    """Nothing in the answer says so: the CRCs do."""
    with serve(OtherStart(-5, honest=False, after=1)) as server:
        error = catch(lambda: read_tensors(name(server)), SECRET)
        assert isinstance(error, SbformatError)


def test_a_size_that_a_server_makes_up_allocates_nothing() -> None:
    with serve(OtherContentRange(total=3 << 30)) as server:
        tracemalloc.start()
        error = catch(lambda: open_file(server).load(), SECRET)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "contradicts" in str(error)
    assert peak < 32 << 20


def test_a_size_past_the_limit_is_refused() -> None:
    with serve(OtherContentRange(total=5 << 30)) as server:
        error = catch(lambda: sbformat.read(name(server)), SECRET)
        assert isinstance(error, LimitError)
        assert len(server.requests) == 1


# -- failures that pass, and that do not --------------------------------------------------------------


@pytest.mark.parametrize("failure", [Cuts(1000), Fails(503), Fails(429), Fails(500)], ids=str)
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("ranges", [(), (NoRanges(),)])
def test_a_failure_that_passes_is_not_seen(
    failure: Behaviour, after: int, ranges: tuple[Behaviour, ...], waits: list[float]
) -> None:
    object.__setattr__(failure, "after", after)
    object.__setattr__(failure, "times", 2)
    with serve(failure, *ranges) as server:
        assert read_all(server) == DATA
    assert waits == ([] if after and ranges else [0.5, 1.0])


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("after", [0, 1])
def test_a_connection_that_ends_without_an_answer_is_tried_again(times: int, after: int) -> None:
    with serve(Closes(after=after, times=times)) as server:
        assert read_all(server) == DATA


def test_a_server_that_ends_every_connection_is_one_error() -> None:
    with serve(Closes()) as server:
        refuse(server, OSError)
        assert len(server.requests) in {4, 8}  # recent clients try each request twice


@pytest.mark.parametrize("failure", [Cuts(1000), Cuts(0), Fails(503), Fails(408)], ids=str)
@pytest.mark.parametrize("after", [0, 1])
def test_a_failure_that_lasts_is_one_error(failure: Behaviour, after: int, waits: list[float]) -> None:
    object.__setattr__(failure, "after", after)
    with serve(failure) as server:
        refuse(server, OSError)
        assert len(server.requests) == 4 + after
    assert waits == [0.5, 1.0, 2.0]


def test_what_was_cut_off_is_continued_where_it_ended() -> None:
    with serve(Cuts(100_000, after=1, times=2), Drips(20_000, 0.02)) as server:
        assert read_all(server) == DATA
        starts = [record.range[0] for record in server.requests if record.range]
    assert starts[:2] == [0, OPENING_BYTES]
    assert OPENING_BYTES + 50_000 < starts[2] < starts[3]


def test_a_file_that_changes_while_it_is_cut_off_is_a_change() -> None:
    with serve(Cuts(1000, after=1, times=1), Changes(OTHER, after=2), NoConditions()) as server:
        refuse(server, ContainerError, "has changed since it was opened")


@pytest.mark.parametrize(
    ("retry_after", "expected"), [(0, 0.0), (3, 3.0), (7200, 20.0), (None, 0.5), ("soon", 0.5), ("-1", 0.5)]
)
def test_the_server_says_how_long_to_wait(retry_after: object, expected: float, waits: list[float]) -> None:
    with serve(Fails(503, retry_after=retry_after, times=1)) as server:  # type: ignore[arg-type]
        assert read_all(server) == DATA
    assert waits == [expected]


@pytest.mark.parametrize(
    ("status", "expected", "word"),
    [
        (404, FileNotFoundError, "not found"),
        (410, FileNotFoundError, "not found"),
        (401, PermissionError, "access denied"),
        (403, PermissionError, "access denied"),
        (400, OSError, "status 400"),
        (418, OSError, "status 418"),
        (204, OSError, "status 204"),
        (304, OSError, "status 304"),
        (501, OSError, "status 501"),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_status_is_an_error_of_the_system(
    status: int, expected: type[OSError], word: str, after: int, waits: list[float]
) -> None:
    with serve(Fails(status, after=after)) as server:
        error = refuse(server, expected, word)
        assert isinstance(error, OSError)
        assert error.filename == hide_secrets(name(server))
        assert len(server.requests) == 1 + after
    assert waits == []


def test_credentials_come_from_the_configuration() -> None:
    with serve(NeedsToken("right")) as server:
        error = refuse(server, PermissionError, "client_kwargs")
        assert "right" not in str(error)
        for options in (
            {"headers": {"Authorization": "Bearer right"}},
            {"client_kwargs": {"headers": {"Authorization": "Bearer right"}}},
        ):
            assert sbformat.read(Url(name(server), **options)).format == "sb3"
        wrong = Url(name(server), headers={"Authorization": "Bearer wr0ng"})
        catch(lambda: sbformat.read(wrong), "wr0ng", SECRET)
        assert "wr0ng" not in repr(wrong)


def test_a_password_in_the_url_is_sent_and_never_shown() -> None:
    with serve(NeedsPassword("ann", "p@ss w0rd")) as server:
        right = server.url(PATH).replace("://", "://ann:p%40ss%20w0rd@")
        assert sbformat.read(right).format == "sb3"
        wrong = server.url(PATH).replace("://", "://ann:wr0ng@")
        error = catch(lambda: sbformat.read(wrong), "wr0ng", "ann")
        assert isinstance(error, PermissionError)
        assert error.filename == server.url(PATH)


@pytest.mark.parametrize(
    "text",
    [
        "http://u:tok/en@127.0.0.1/a.zip", "http://u:tok#en@127.0.0.1/a.zip", "http://u:tok?en@127.0.0.1/a.zip",
        "http://u:token@/a.zip", "http://", "https:///a.zip", "http://127.0.0.1:99999/", "http://[::1/a.zip",
        "http://a b/c.zip", "http://127.0.0.1:port/", "http://\x00/", "http://h\r\nX: y/a.zip", "http://.../a.zip",
        "http://" + "a" * 300 + "/x",
    ],
)  # fmt: skip
def test_what_is_not_a_url_is_one_error(text: str) -> None:
    error = catch(lambda: sbformat.read(text), "tok", "en@", "u:")
    assert isinstance(error, (OSError, UnsupportedError))


def test_a_page_in_place_of_the_file_is_not_an_archive() -> None:
    with serve(HtmlPage()) as server:
        error = catch(lambda: sbformat.read(name(server)), SECRET)
        assert isinstance(error, SbformatError)
        assert "HTML" in str(error)


@pytest.mark.parametrize("ranges", [(), (NoRanges(),)])
def test_a_page_instead_of_a_range_is_refused(ranges: tuple[Behaviour, ...]) -> None:
    with serve(HtmlPage(after=1), *ranges) as server:
        if ranges:
            assert read_all(server) == DATA
        else:
            refuse(server, SbformatError)


def test_a_compressed_file_is_not_asked_for() -> None:
    with serve(Gzip()) as server:
        assert read_all(server) == DATA
        assert {record.headers["accept-encoding"] for record in server.requests} == {"identity"}


@pytest.mark.parametrize("size", with_exhaustive([10 << 20], [50 << 20]))
def test_a_file_that_is_compressed_all_the_same_is_refused(size: int) -> None:
    bomb = gzip.compress(bytes(size))
    with serve(Gzip(always=True)) as server:
        refuse(server, OSError, "compresses")
    with serve(Gzip(always=True), data=bytes(size)) as server:
        tracemalloc.start()
        refuse(server, OSError, "compresses")
        assert tracemalloc.get_traced_memory()[1] < 2 * size + len(bomb)
        tracemalloc.stop()


def test_a_port_where_nobody_listens_is_one_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.zip"
        error = catch(lambda: sbformat.read(f"{url}?token={SECRET}"), SECRET)
    assert isinstance(error, OSError)
    assert url in str(error)
    assert "refused" in str(error)


def test_something_that_is_not_http_is_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def answer() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"SSH-2.0-OpenSSH\r\n\r\n" * 3)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.zip"
        error = catch(lambda: sbformat.read(url))
        assert isinstance(error, OSError)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(500)


# -- answers that take too long -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "behaviours"),
    [
        (0, (NeverAnswers(500),)), (0, (EndlessHead(0.02),)), (0, (Drips(10, 500),)), (0, (Drips(1, 0.02),)),
        (0, (Drips(1, 0.02), NoRanges())), (0, (Drips(1, 0.02), Chunked())),
        (0, (Drips(1, 0.02), Chunked(), NoRanges())),
        (1, (NeverAnswers(500, after=1),)), (1, (EndlessHead(0.02, after=1),)), (1, (Drips(10, 500, after=1),)),
    ],
    ids=str,
)  # fmt: skip
def test_a_server_that_takes_too_long_is_a_timeout(
    after: int, behaviours: tuple[Behaviour, ...], waits: list[float]
) -> None:
    with serve(*behaviours) as server:
        error = catch(lambda: sbformat.read(Url(name(server), timeout=0.2)), SECRET)
        assert isinstance(error, TimeoutError)
        assert "in time: pass Url(..., timeout=SECONDS) or --timeout SECONDS" in str(error)
        assert error.filename == hide_secrets(name(server))
        assert len(server.requests) == 1 + after
    assert waits == []


@pytest.mark.exhaustive
def test_an_answer_that_stops_is_tried_again() -> None:
    with serve(Drips(10, 500, times=1)) as server:
        assert sbformat.read(Url(name(server), timeout=10)).format == "sb3"


@pytest.mark.parametrize(("timeout", "expected"), [(2, []), (30, [20.0])])
def test_to_wait_longer_than_the_time_is_no_use(timeout: float, expected: list[float], waits: list[float]) -> None:
    with serve(Fails(503, retry_after=7200, times=1)) as server:
        source = Url(name(server), timeout=timeout)
        if expected:
            assert sbformat.read(source).format == "sb3"
        else:
            assert "status 503" in str(catch(lambda: sbformat.read(source), SECRET))
    assert waits == expected


def test_a_large_file_may_take_long_and_its_requests_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(clients, "monotonic", lambda: now)
    clock = clients.Clock(30)
    clock.start()
    assert clock.seconds_left() == 30
    for _ in range(4):  # 2 GB an hour, with 20 seconds between two bytes
        now += 20
        clock.count(20 << 20)
        assert clock.seconds_left() == 30
    now += 30
    assert clock.seconds_left() == 0
    for between in (0, 10_000):  # bytes at half of the slowest rate
        clock = clients.Clock(30)
        for second in range(60):
            clock.start()
            now += 1
            clock.count(clients.SLOWEST // 2)
            clock.stop()
            now += between
            clock.start()
            assert clock.seconds_left() == min(30, 30 - (second + 1) / 2)
            clock.stop()
        assert clock.seconds_left() <= 0


# -- files that change --------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [OTHER, DATA + b"more", DATA[:-100_000], b"", DATA[:10]], ids=len)
@pytest.mark.parametrize(
    "knows",
    [(), (NoConditions(),), (NoETag(),), (NoLastModified(),), (WeakETag(),), (NoLastModified(), NoConditions())],
    ids=str,
)
def test_a_file_that_has_changed_is_refused(to: bytes, knows: tuple[Behaviour, ...]) -> None:
    with serve(Changes(to, after=1), *knows) as server:
        refuse(server, ContainerError, "has changed since it was opened")
        error = catch(lambda: sbformat.inspect(name(server)), SECRET) if to not in {OTHER, DATA + b"more"} else None
        assert error is None or isinstance(error, SbformatError)


@pytest.mark.parametrize("to", [DATA + b"more", DATA[:-100_000]], ids=len)
def test_a_change_of_size_is_seen_without_any_version(to: bytes) -> None:
    with serve(Changes(to, after=1), NoETag(), NoLastModified()) as server:
        refuse(server, ContainerError, "has changed since it was opened")


def test_a_change_that_the_server_hides_is_damage() -> None:
    """No header tells of it: the bytes of two versions are never decoded as one file."""
    other = changed_tensor(DATA)
    assert len(other) == len(DATA)
    with serve(Changes(other, after=1, keeps_etag=True)) as server:
        error = catch(lambda: read_tensors(name(server)), SECRET)
        assert isinstance(error, ContainerError)


def changed_tensor(data: bytes) -> bytes:
    """The agent with other numbers in its last tensor, and the CRCs of these."""
    import numpy as np

    archive = sbformat.reads(data)
    tensors = dict(archive.parameters["policy"].to_numpy())
    last = list(tensors)[-1]
    tensors[last] = np.ascontiguousarray(tensors[last][::-1])
    return sbformat.writes(archive.replace(parameters={"policy": sbformat.StateDict.from_arrays(tensors)}))


class Forgets(Behaviour):
    """The headers of the version are missing from some answer on."""

    def change_answer(self, request, answer, file):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        kept = {key: value for key, value in answer.headers.items() if key not in {"ETag", "Last-Modified"}}
        return answer.__class__(**{**vars(answer), "headers": kept})


def test_an_answer_that_says_nothing_of_its_version_is_refused() -> None:
    with serve(Forgets(after=1)) as server:
        refuse(server, ContainerError, "has changed since it was opened")


def test_the_version_is_asked_for() -> None:
    with serve() as server:
        read_all(server)
        first, *others = server.requests
    assert "if-match" not in first.headers
    assert {record.headers["if-match"] for record in others} == {open_etag(DATA)}


def open_etag(data: bytes) -> str:
    from tests.helpers.http_messages import make_file

    return str(make_file(data).etag)


def test_a_weak_etag_is_not_asked_for() -> None:
    with serve(WeakETag()) as server:
        assert read_all(server) == DATA
        assert all("if-match" not in record.headers for record in server.requests)


@pytest.mark.parametrize("command", ["read", "scan", "validate", "inspect", "safe_open"])
def test_no_command_mixes_versions(command: str) -> None:
    """Both versions are good archives of the same length; what comes out is of one, or there is an error."""
    other = changed_tensor(DATA)
    with serve(Changes(other, after=1), NoConditions()) as server:
        url = name(server)
        work = {
            "read": lambda: read_tensors(url),
            "scan": lambda: sbformat.scan(url),
            "validate": lambda: sbformat.validate(url),
            "inspect": lambda: sbformat.inspect(url),
            "safe_open": lambda: sbformat.safe_open(url).get_tensor("layers.2.weight"),
        }[command]
        if command == "scan":
            (finding,) = work().findings  # type: ignore[attr-defined]
            assert (finding.verdict, "has changed since" in finding.message) == ("broken", True)
        else:
            error = catch(work, SECRET)
            assert "has changed since it was opened" in str(error)


def test_small_archives_are_one_request() -> None:
    with serve(data=PPO.read_bytes()) as server:
        assert sbformat.inspect(name(server)) == sbformat.inspect(PPO)
        assert len(server.requests) == 1


def test_many_ranges_are_fetched_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds.REMOTE_TOGETHER, 2)
    with serve(Drips(1 << 20, 0.02)) as server:
        source = open_file(server)
        source.prefetch([(at, at + 10) for at in range(0, len(DATA), 60_000)])
        requests = len(server.requests)
        assert requests == 1 + len([at for at in range(0, len(DATA), 60_000) if at >= OPENING_BYTES])
        assert bytes(source.view(120_000, 10)) == DATA[120_000:120_010]
        assert len(server.requests) == requests
