"""The monitoring port: HTTP/1.1 by h11 on trio (over TLS: secure.py), GET only, bounded in connections, time and size.
Loaded only when the port is configured. Not here: the reports, and the status page (page/).

A client that sends nothing, sends half a request, does not read or asks again and again never keeps another one out:
when all seats are taken, the one that has been waited for longest gives his up, first of the address that has most of
them.

A report is sent while it is made, a piece at a time. One that may be large is begun when it has room in the share of
reports (holding.py), and has it until it is sent; while others wait for that, its reader has little time for a piece.
"""

from __future__ import annotations

import json
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import h11
import trio

from leafd.holding import SMALL
from leafd.monitor import reports
from leafd.monitor.cluster_report import routez
from leafd.monitor.connections import connz
from leafd.monitor.encoding import packed, pieces, takes_gzip, texts
from leafd.monitor.facts import Facts
from leafd.monitor.gateway_report import gatewayz
from leafd.monitor.heavy import weight
from leafd.monitor.hosts import MISDIRECTED, UNREAD, is_known, is_loopback
from leafd.monitor.jetstream_report import healthz, jsz, plain_streams
from leafd.monitor.page.routes import PATHS, Page, Reply
from leafd.records import dataclass
from leafd.turns import ITEM_WEIGHT, Pause, aside

CONNECTIONS_MAX: Final = 32
REPORTS_AT_ONCE: Final = 4
REQUEST_S: Final = 5.0
IDLE_S: Final = 30.0
SEND_S: Final = 10.0
ALONE: Final = 16 << 10
"""A piece that is sent by itself. What is smaller, as the end of a report is, waits for what comes behind it."""
HURRIED_S: Final = 1.0
"""For a piece of a large report, while another one waits."""
CROWDED_S: Final = 0.1
METRICS: Final = "/metrics"
JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"
RAFT: Final = "/raftz"
BOXES: Final = "/boxz"
METRICS_ROW: Final = 16 * ITEM_WEIGHT
"""The weight of the samples of a link or stream."""
REQUEST_MAX: Final = 8 << 10
RECEIVE_MAX: Final = 4 << 10
REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""The words for each status that is answered with. (The table of the standard library takes 78 KB.)"""

NO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
)
LOGIN_S: Final = 15.0
"""Passwords queue, and refusals after several are late."""
LIVE_BUFFER: Final = 64 << 10
"""Bytes that the kernel holds for a reader of events who does not read."""

Report = Callable[[Facts, Mapping[str, Any]], Awaitable[dict[str, Any]]]
Answer = tuple[int, str, bytes | AsyncGenerator[bytes, None]]
REPORTS: Final[dict[str, Report]] = {
    "/varz": reports.varz,
    "/connz": connz,
    "/routez": routez,
    "/gatewayz": gatewayz,
    "/leafz": reports.leafz,
    "/jsz": jsz,
    "/subsz": reports.subsz,
    "/subscriptionsz": reports.subsz,
    "/accountz": reports.accountz,
    "/accstatz": reports.accstatz,
    "/ipqueuesz": reports.ipqueuesz,
    "/raftz": reports.raftz,
}


async def serve(sock: socket.socket, facts: Facts, base_path: str = "") -> None:
    """Answers on a listening socket for ever. Cancel to end it."""
    base = "/" + base_path.strip("/") if base_path.strip("/") else ""
    boxes = (BOXES,) if facts.boxes is not None else ()
    page = Page(facts, base, (*REPORTS, *boxes, METRICS, "/healthz"))
    port = _Port(facts, base, Seats(CONNECTIONS_MAX), trio.CapacityLimiter(REPORTS_AT_ONCE), page)
    secured = _secured(facts)

    async def one(stream: trio.SocketStream, address: str) -> None:
        async with stream:
            if not port.seats.take():
                return
            try:
                await _converse(secured(stream), port, address)
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError, OSError):
                pass  # The other side went away or spoke no HTTP; it has nobody to be told.
            except Exception as error:
                facts.guard.caught("a conversation over HTTP", error)
            finally:
                port.seats.leave()

    listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(page.history.run)
        nursery.start_soon(page.feed.run)
        while True:
            try:
                stream = await listener.accept()
            except OSError:
                await trio.sleep(CROWDED_S)  # No descriptor at the moment: the client is still in the backlog then.
                continue
            nursery.start_soon(one, stream, _address(stream))


def _secured(facts: Facts) -> Callable[[trio.SocketStream], trio.abc.Stream]:
    """The function that turns a stream into one of HTTPS, where that is configured."""
    if not facts.config.monitors_securely:
        return lambda stream: stream
    from leafd.monitor.secure import Secured

    return Secured(lambda: facts.config.tls).stream


def _address(stream: trio.SocketStream) -> str:
    try:
        # An address of IPv4 at a listener of both kinds.
        return str(stream.socket.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""  # gone already


class Seats:
    """Connections: how many there are, and which of them we wait for."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: OrderedDict[trio.CancelScope, str] = OrderedDict()

    def take(self) -> bool:
        """A seat for one more. False: all are being answered."""
        if self._free <= 0:
            if not self._waiting:
                return False
            most = Counter(self._waiting.values()).most_common(1)[0][0]
            oldest = next(scope for scope, address in self._waiting.items() if address == most)
            del self._waiting[oldest]
            oldest.cancel()
        self._free -= 1
        return True

    def leave(self) -> None:
        """A connection has ended."""
        self._free += 1

    @contextmanager
    def waiting(self, address: str, seconds: float) -> Iterator[trio.CancelScope]:
        """While we wait for the other side or for others, at most so long; left early when the seat is needed."""
        with trio.move_on_after(seconds) as scope:
            self._waiting[scope] = address
            try:
                yield scope
            finally:
                self._waiting.pop(scope, None)


@dataclass(frozen=True, slots=True)
class _Port:
    """The state that all conversations share."""

    facts: Facts
    base: str
    seats: Seats
    at_once: trio.CapacityLimiter
    page: Page


async def _converse(stream: trio.abc.Stream, port: _Port, address: str) -> None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_MAX)
    patience_s = REQUEST_S
    while True:
        request: h11.Request | None = None
        with port.seats.waiting(address, patience_s):
            request = await _request(stream, connection)
        if request is None:
            return
        patience_s = IDLE_S
        async with AsyncExitStack() as held:
            reply = await _reply(port, request, address, held)
            if reply is None:
                return
            if reply.live and request.method == b"GET":
                await _live(stream, connection, port, reply, address)
                return
            parts = await held.enter_async_context(aclosing(_written(connection, request, reply)))
            async for part in parts:
                hurried = reply.rest is not None and port.facts.reports.crowded
                with port.seats.waiting(address, HURRIED_S if hurried else SEND_S) as sending:
                    await stream.send_all(part)
                if sending.cancelled_caught:
                    return
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _reply(port: _Port, request: h11.Request, address: str, held: AsyncExitStack) -> Reply | None:
    """The reply to a request; None: the request waited too long, or its place was needed. held: what is his until it is
    sent."""
    if is_loopback(address) and not is_known(port.facts.config, _header(request, b"host").decode("latin-1")):
        return Reply(421, PLAIN, MISDIRECTED.encode(), list(UNREAD))
    path, admitted = _page_path(port.base, request), True
    if path is not None:
        with port.seats.waiting(address, LOGIN_S) as judging:
            authorization, wanted = _header(request, b"authorization"), partial(_waits, judging)
            admitted = await port.page.admits(path, authorization, address, wanted)
        if judging.cancelled_caught:
            return None
    size = weight(port.facts, _behind(port.base, _line(request)[1].partition("?")[0]) or "", request.target)
    with port.seats.waiting(address, REQUEST_S) as queueing:
        if size > SMALL:
            await held.enter_async_context(port.facts.reports.take(size))
        else:
            await port.at_once.acquire()
    if queueing.cancelled_caught:
        return None
    try:
        if path is None:
            asked = *_line(request), _header(request, b"accept").decode("latin-1")
            found = await answer(port.facts, port.base, *asked)
            return await _begun(held, found, _header(request, b"accept-encoding").decode("latin-1"))
        _count(port.facts, path)
        return await port.page.reply(path, admitted)
    except Exception as error:
        port.facts.guard.caught("a request over HTTP", error)
        return Reply(500, PLAIN, b"500 unexpected error\n", [*UNREAD, ("Connection", "close")])
    finally:
        if size <= SMALL:
            port.at_once.release()


async def _begun(held: AsyncExitStack, found: Answer, encodings: str) -> Reply:
    """With its first pieces: two make it one that is sent while it is made. Metrics are packed for a client that takes
    gzip, as Prometheus does; reports never are, as at the reference."""
    status, kind, body = found
    headers = list(UNREAD)
    if isinstance(body, bytes):
        return Reply(status, kind, body, headers)
    if kind != JSON:
        headers.append(("Vary", "Accept, Accept-Encoding"))
    if kind != JSON and takes_gzip(encodings):
        headers.append(("Content-Encoding", "gzip"))
        body = packed(body)
    await held.enter_async_context(aclosing(body))
    first, second = await anext(body, b""), await anext(body, b"")
    return Reply(status, kind, first + second, headers, rest=body if second else None)


def _waits(scope: trio.CancelScope) -> bool:
    return not scope.cancel_called


def _header(request: h11.Request, wanted: bytes) -> bytes:
    return b", ".join(value for name, value in request.headers if name == wanted)


def _line(request: h11.Request) -> tuple[str, str]:
    return request.method.decode(), request.target.decode("utf-8", "replace")


def _page_path(base: str, request: h11.Request) -> str | None:
    """The path if it is one of the status page's."""
    method, target = _line(request)
    path = _behind(base, target.partition("?")[0])
    return path if path in PATHS and method in ("GET", "HEAD") else None


def _behind(base: str, path: str) -> str | None:
    """The rest of a path that is below the base; None: it is not."""
    rest = path.removeprefix(base)
    return None if rest == path and base else rest or "/"


async def _written(connection: h11.Connection, request: h11.Request, reply: Reply) -> AsyncGenerator[bytes, None]:
    """The answer: at once, or a piece at a time, in chunks, as the reference sends what is long."""
    size = [] if reply.rest is not None else [("Content-Length", str(len(reply.body)))]
    begin = _head(connection, reply, *size)
    if request.method == b"HEAD":
        yield begin + (connection.send(h11.EndOfMessage()) or b"")
        return
    begin += connection.send(h11.Data(data=reply.body)) or b""
    if reply.rest is not None:
        yield begin
        begin = b""
        async for piece in reply.rest:
            begin += connection.send(h11.Data(data=piece)) or b""
            if len(begin) >= ALONE:
                yield begin
                begin = b""
    yield begin + (connection.send(h11.EndOfMessage()) or b"")


def _head(connection: h11.Connection, reply: Reply, *more: tuple[str, str]) -> bytes:
    headers = [*reply.headers, ("Content-Type", reply.kind), ("Date", _date(time.time())), *more]
    response = h11.Response(status_code=reply.status, headers=headers, reason=REASONS[reply.status])
    return connection.send(response) or b""


async def _live(stream: trio.abc.Stream, connection: h11.Connection, port: _Port, reply: Reply, address: str) -> None:
    """The stream of events, until it or the reader ends; the connection ends with it."""

    async def send(text: bytes) -> None:
        await stream.send_all(connection.send(h11.Data(data=text)) or b"")

    plain = getattr(stream, "transport_stream", stream)  # of TLS, whose class is not loaded for this question
    if isinstance(plain, trio.SocketStream):
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LIVE_BUFFER)
    with port.page.feed.seat(address) as seat:
        if seat is not None:
            await stream.send_all(_head(connection, reply, ("Connection", "close")))
            await port.page.feed.follow(send)
    if seat is not None:
        return  # Also when the seat's time was over, which leaves the block by itself.
    full = Reply(503, PLAIN, b"503 too many look at this page\n")
    await stream.send_all(_head(connection, full, ("Connection", "close"), ("Retry-After", "10")) + full.body)


async def _request(stream: trio.abc.Stream, connection: h11.Connection) -> h11.Request | None:
    request: h11.Request | None = None
    pause = Pause()
    while True:
        await pause()  # a body of thousands of chunks is as many events
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            await stream.send_all(NO_HTTP)
            raise
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(RECEIVE_MAX)))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.EndOfMessage):
            return request
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return None


async def answer(facts: Facts, base: str, method: str, target: str, accept: str) -> Answer:
    """(status code, content type, body or its pieces) for one request; accept: the header of that name."""
    try:
        parts = urlsplit(target)
    except ValueError as error:
        return 400, PLAIN, f"error: {error}\n".encode()
    path = _behind(base, parts.path)
    if method not in ("GET", "HEAD"):
        return 405, PLAIN, b"405 only GET\n"
    if path is None:
        return 404, PLAIN, b"404 page not found\n"
    _count(facts, path)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    try:
        if path == "/healthz":
            status, report = await healthz(facts, options)
            return status, JSON, json.dumps(report, separators=(",", ":")).encode()
        if path == METRICS:
            return await _metrics(facts, accept)
        if path == RAFT and facts.meta is None:
            return 404, PLAIN, b"No Raft nodes registered"
        function = REPORTS.get(path) if path != BOXES else _boxz(facts)
        if function is None:
            return 404, PLAIN, b"404 page not found\n"
        if function is not jsz:  # which asks the plane for what it tells
            await facts.plane.settled()  # all that have logged in by now are in it
        report = await function(facts, options)
    except (ValueError, TypeError) as error:
        return 400, PLAIN, str(error).encode()
    return 200, JSON, pieces(report, indent=2)


async def _boxz_of(facts: Facts, streams: dict[str, Any], connections: reports.Connections) -> dict[str, Any] | None:
    if facts.boxes is None:
        return None
    from leafd.monitor.boxes import boxz

    return await boxz(facts, {}, streams, connections)


def _boxz(facts: Facts) -> Report | None:
    if facts.boxes is None:
        return None
    from leafd.monitor.boxes import boxz  # here: most configurations enrol nobody

    return boxz


async def _metrics(facts: Facts, accept: str) -> tuple[int, str, AsyncGenerator[bytes, None]]:
    """The metrics for Prometheus, written while they are sent; read from the reports on the worker thread where there
    are many links or copies."""
    from leafd.monitor import metrics

    every = dict.fromkeys(("accounts", "streams", "config"), "1")
    plain, consumers = await plain_streams(facts)
    streams = await jsz(facts, every, but=plain)
    connections = await facts.plane.connections()
    found = metrics.Reports(
        varz=await reports.varz(facts, {}, sums=False),  # jsz has them
        links=await reports.linked(facts, connections),
        accstatz=await reports.accstatz(facts, {"unused": "1"}, connections),
        jsz=streams,
        disk=facts.plane.disk_took(),
        plain=plain,
        consumers=consumers,
        boxz=await _boxz_of(facts, streams, connections),
    )
    rows = len(found.boxz["boxes"]) if found.boxz is not None else 0
    rows += len(found.links) + len(found.accstatz["account_statz"])
    rows += found.jsz["streams"] - sum(len(run.streams) for runs in plain.values() for run in runs)
    families = await aside(METRICS_ROW * rows, metrics.families, found)
    return 200, metrics.content_type(accept), texts(metrics.page(families, accept))


def _count(facts: Facts, path: str) -> None:
    """For varz, which tells of the paths that there are and of no other."""
    if path in (*REPORTS, *PATHS, "/healthz", METRICS) or (path == BOXES and facts.boxes is not None):
        facts.http_requests[path] = facts.http_requests.get(path, 0) + 1


def _date(now_s: float) -> str:
    """A time as HTTP writes it. The names are English: the daemon never takes over the environment's locale."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now_s))
