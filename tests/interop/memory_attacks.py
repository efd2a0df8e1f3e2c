"""What peers do to make the daemon remember much: one function a row of tests/memory_table.py.

Each is given a server of CONFIGURATION, makes more than the whole `memory_limit` if nothing bounds it, and sees what
the row says of it. Not here: what is measured meanwhile (test_memory_walk.py).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final

from tests import servers
from tests.hostile.test_bombs import BOMB
from tests.interop.test_backup import MAGIC, WHOLE, number, s2, state
from tests.rig.raw import RawClient, RawLeaf
from tests.rig.waiting import eventually

MB: Final = 1 << 20
LIMIT: Final = 32 * MB
Attack = Callable[[servers.Server, contextlib.ExitStack], None]
ATTACKS: Final[dict[str, Attack]] = {}
"""By the name of the row. What it opens is open until the stack ends."""
PREPARED: Final[dict[str, Attack]] = {}
"""What has to be there before, and is not counted."""
CONFIGURATION: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
memory_limit: 32MB
jetstream { store_dir: "{store}", max_memory_store: 4MB }
leafnodes: { listen: "127.0.0.1:{leaf_port}" }
no_auth_user: a
system_account: S
accounts {
    S { users: [ { user: s, password: s } ] }
    A {
        jetstream: enabled
        users: [
            { user: a, password: a }
            { user: responder, password: a, permissions: {
                publish: "told.>", allow_responses: { max: 1, expires: 5m } } }
        ]
        exports: [ { service: svc } ]
    }
    B { users: [ { user: b, password: b } ], imports: [ { service: { account: A, subject: svc } } ] }
    C { users: [ { user: c, password: c } ], imports: [ { service: { account: A, subject: svc } } ] }
}
"""
NAMED: Final = 3000
LONG: Final = b"r." + b"x" * 3900
"""With it, a line has nearly max_control_line."""


def attack(function: Attack) -> Attack:
    """Of the row that is called like it."""
    ATTACKS[function.__name__] = function
    return function


def prepared(function: Attack) -> Attack:
    """Of the row that is called like it, behind `some_`."""
    PREPARED[function.__name__.removeprefix("some_")] = function
    return function


def login(server: servers.Server, user: str = "a", name: str = "") -> socket.socket:
    """A client that is logged in as that user; their passwords are their accounts' letters."""
    password = "a" if user == "responder" else user
    return RawClient(server, user, says={"pass": password, "no_responders": True, "name": name}).socket


def heard(connection: socket.socket, mark: bytes) -> bytes:
    """What comes until that comes, with it."""
    said = bytearray()
    while mark not in said[-65536:]:
        data = connection.recv(1 << 18)
        assert data, bytes(said[-500:])
        said += data
    return bytes(said)


def flushed(connection: socket.socket) -> bytes:
    """Everything that it sent was acted on; what came meanwhile."""
    connection.sendall(b"PING\r\n")
    return heard(connection, b"PONG\r\n")


class Reader:
    """Reads a connection in the background and keeps the end of what came."""

    def __init__(self, connection: socket.socket) -> None:
        self.end = b""
        self._connection = connection
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._connection.recv(1 << 18):
                self.end = (self.end + data)[-16384:]


@attack
def memory_ring(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Eighty megabytes into a memory stream that keeps one of them."""
    one = stack.enter_context(login(server))
    config = {"name": "M", "subjects": ["m"], "storage": "memory", "max_bytes": MB}
    body = json.dumps(config).encode()
    one.sendall(b"SUB i 1\r\nPUB $JS.API.STREAM.CREATE.M i %d\r\n%s\r\n" % (len(body), body))
    assert b'"error"' not in heard(one, b"_response")
    for _ in range(80):
        one.sendall(b"PUB m 1024\r\n%s\r\n" % (b"x" * 1024) * 1000)
        flushed(one)


@attack
def service_replies(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Twenty thousand requests over a service import that nobody answers; who asks over another import is answered, by
    whom he asked before and by whom he asks now."""
    responder, flood, other = (stack.enter_context(login(server, user)) for user in ("a", "b", "c"))
    responder.sendall(b"SUB svc 1\r\n")
    flushed(responder)

    def asked() -> bytes:
        other.sendall(b"PUB svc mine 0\r\n\r\n")
        return heard(responder, b"\r\n\r\n").rsplit(b"MSG svc 1 ", 1)[1].split(b" ")[0]

    def answered(way: bytes) -> None:
        responder.sendall(b"PUB %s 2\r\nok\r\n" % way)
        assert b"MSG mine 1 2\r\nok\r\n" == heard(other, b"ok\r\n")

    other.sendall(b"SUB mine 1\r\n")
    before = asked()
    for at in range(0, 20_000, 500):
        flood.sendall(b"".join(b"PUB svc %s.%d 0\r\n\r\n" % (LONG, i) for i in range(at, at + 500)))
        flushed(flood)
        flushed(responder)
    answered(before)
    answered(asked())


@attack
def allowed_replies(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Four responders that are asked five thousand times each and answer nothing; one that was asked before by
    somebody else may still answer, and each may answer the last one."""
    asks = stack.enter_context(login(server))
    asks.sendall(b"SUB mine 1\r\nSUB last 2\r\n")
    responders = [stack.enter_context(login(server, "responder")) for _ in range(5)]
    for i, one in enumerate(responders):
        one.sendall(b"SUB q.%d 1\r\n" % i)
        flushed(one)
    asks.sendall(b"PUB q.4 mine 0\r\n\r\n")
    heard(responders[4], b"MSG q.4 1 mine 0\r\n\r\n")
    for at in range(0, 20_000, 500):
        asks.sendall(b"".join(b"PUB q.%d %s.%d 0\r\n\r\n" % (i % 4, LONG, i) for i in range(at, at + 500)))
        flushed(asks)
        for one in responders[:4]:
            flushed(one)
    for i, one in enumerate(responders[:4]):
        asks.sendall(b"PUB q.%d last 0\r\n\r\n" % i)
        heard(one, b" last 0\r\n\r\n")
        one.sendall(b"PUB last 1\r\n%d\r\n" % i)
        assert b"MSG last 2 1\r\n%d\r\n" % i == heard(asks, b"\r\n%d\r\n" % i)
        one.sendall(b"PUB %s.%d 0\r\n\r\n" % (LONG, i))
        assert b"-ERR 'Permissions Violation for Publish to" in flushed(one)
    responders[4].sendall(b"PUB mine 1\r\nm\r\n")
    assert b"MSG mine 1 1\r\nm\r\n" == heard(asks, b"\r\nm\r\n")


def asked_for(connection: socket.socket, lines: Iterable[bytes]) -> int:
    """How many of them are refused for their number."""
    refused = 0
    for some in batched(lines, 1000):
        connection.sendall(b"".join(some))
        refused += flushed(connection).count(b"-ERR 'maximum subscriptions exceeded'")
    return refused


def batched(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """They, so many at a time."""
    rest = iter(lines)
    while some := list(islice(rest, size)):
        yield some


def next_to_subscribe(server: servers.Server) -> None:
    """Whoever comes then can subscribe, and hears what is published."""
    with login(server, "c") as one:
        one.sendall(b"SUB later 1\r\nPUB later 2\r\nhi\r\n")
        assert b"MSG later 1 2\r\nhi\r\n" == heard(one, b"hi\r\n")


@attack
def half_messages(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Three thousand clients that begin a message of 16 KB and keep its end back; whoever comes next is heard."""
    for _ in range(3000):
        connection = stack.enter_context(login(server))
        connection.sendall(b"PUB half 16000\r\n" + b"x" * 15_000)
    with login(server) as next_one:
        next_one.sendall(b"SUB whole 1\r\nPUB whole 12000\r\n" + b"x" * 12_000 + b"\r\n")
        heard(next_one, b"MSG whole 1 12000\r\n")
    eventually(lambda: "memory_limit has no room for what clients have begun to send" in server.log, lambda: server.log)


@attack
def rights(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Four thousand connections of a user with permissions who may answer whom he is asked by."""
    for _ in range(4000):
        stack.enter_context(login(server, "responder"))


@attack
def subscriptions(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """A hundred thousand subscriptions of three tokens by four clients, with a queue group each, then long ones, and
    some with as many tokens as they may have."""
    wide = (b"SUB a.%d.%d g%d %d\r\n" % (i % 7, i, i, i) for i in range(100_000))
    long = (b"SUB l.%d.%s x%d\r\n" % (i, b"y" * 3800, i) for i in range(20_000))
    deep = (b"SUB d%d%s z%d\r\n" % (i, b".0" * 250, i) for i in range(20_000))
    for lines in (wide, long, deep):
        one = stack.enter_context(login(server))
        assert asked_for(one, lines) > 1000
        next_to_subscribe(server)


@attack
def interest(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Three hundred thousand subjects that a leaf asks for, while another one is told of all that it may know."""
    links = [stack.enter_context(leaf(server, user)) for user in "ab"]
    told = Reader(links[1])
    assert asked_for(links[0], (b"LS+ box.%d.%d\r\n" % (i % 7, i) for i in range(300_000))) > 200_000
    assert asked_for(links[0], (b"LS+ deep%d%s\r\n" % (i, b".0" * 250) for i in range(20_000))) > 19_000
    next_to_subscribe(server)
    assert b"-ERR" not in told.end
    assert "subscriptions have all of their share of memory_limit: further ones are refused" in server.log


def leaf(server: servers.Server, user: str) -> socket.socket:
    """A link that is up, of a leaf of that user's account."""
    return RawLeaf(server, f"box {user}", user).socket


@prepared
def some_reports(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Three thousand connections with names of 3.6 KB."""
    for _ in range(NAMED):
        stack.enter_context(login(server, "b", "n" * 3600))


@attack
def reports(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Eight reports of all of them at once, each of eleven megabytes, by who reads slowly; somebody asks for varz
    meanwhile. Each is whole, or ended by the server."""
    whole: list[int] = []

    def ask() -> None:
        with (
            socket.create_connection(("127.0.0.1", server.ports["http_port"]), 60) as one,
            contextlib.suppress(OSError),
        ):
            one.sendall(b"GET /connz?limit=%d HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % NAMED)
            said = bytearray()
            while data := one.recv(1 << 16):
                said += data
            head, _, body = bytes(said).partition(b"\r\n\r\n")
            assert not said or head.startswith(b"HTTP/1.1 200 ")  # it may be ended before its first byte
            if body.endswith(b"0\r\n\r\n"):
                whole.append(len(json.loads(unchunked(body))["connections"]))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/varz", timeout=5) as answer:
            assert "memory" in json.load(answer)["leafd"]
        time.sleep(0.1)
    assert len(whole) >= 1
    assert {NAMED} == set(whole)


@prepared
def some_system_reports(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """The same connections."""
    some_reports(server, stack)


@attack
def system_reports(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Eight clients of the system account that ask for all of them at once, four times each, which is refused; a page
    of them is answered."""
    askers = [Asker(stack.enter_context(login(server, "s")), b"$SYS.REQ.SERVER.") for _ in range(8)]

    def refused(asker: Asker) -> set[int]:
        return {asker.ask("PING.CONNZ", limit=NAMED)["error"]["code"] for _ in range(4)}

    with ThreadPoolExecutor(len(askers)) as threads:
        assert [{413}] * len(askers) == list(threads.map(refused, askers))
    assert 50 == len(askers[0].ask("PING.CONNZ", limit=50)["data"]["connections"])


class Asker:
    """A client of JetStream's API, or of what is below another prefix."""

    def __init__(self, connection: socket.socket, prefix: bytes = b"$JS.API.") -> None:
        self._connection, self._prefix = connection, prefix
        self._lines = connection.makefile("rb")
        self._inbox = b"api.%d" % connection.getsockname()[1]
        connection.sendall(b"SUB %s 1\r\n" % self._inbox)

    def ask(self, subject: str, **body: object) -> dict[str, Any]:
        """The answer."""
        found: dict[str, Any] = json.loads(self.request(subject, json.dumps(body).encode()))
        return found

    def request(self, subject: str, data: bytes) -> bytes:
        """The answer's payload."""
        self.publish(subject, data, self._inbox)
        while not (line := self._lines.readline()).startswith(b"MSG api."):
            assert line
        return self._lines.read(int(line.split()[-1]))

    def publish(self, subject: str, data: bytes, reply: bytes = b"nobody") -> None:
        """A message."""
        head = b"PUB %s%s %s %d\r\n" % (self._prefix, subject.encode(), reply, len(data))
        self._connection.sendall(head + data + b"\r\n")


@prepared
def some_subjects(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """A stream of 20,000 subjects of 1.5 KB each."""
    connection = stack.enter_context(login(server))
    Asker(connection).ask("STREAM.CREATE.L", name="L", subjects=["l.>"])
    for first in range(0, 20_000, 500):
        named = (b"PUB l.%s.%d 0\r\n\r\n" % (b"x" * 1500, number) for number in range(first, first + 500))
        connection.sendall(b"".join(named))
        flushed(connection)


@attack
def subjects(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Three clients that list them all, page by page: each gets every one."""

    def walked(asker: Asker) -> int:
        names, total = set[str](), 1
        while len(names) < total:
            page = asker.ask("STREAM.INFO.L", subjects_filter=">", offset=len(names))
            total = page["total"]
            assert page["limit"] == len(page["state"]["subjects"]) or len(names) + page["limit"] > total
            names |= set(page["state"]["subjects"])
        return len(names)

    askers = [Asker(stack.enter_context(login(server))) for _ in range(3)]
    with ThreadPoolExecutor(len(askers)) as threads:
        assert [20_000] * len(askers) == list(threads.map(walked, askers))


@prepared
def some_gets(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """A stream of 60,000 subjects."""
    connection = stack.enter_context(login(server))
    Asker(connection).ask("STREAM.CREATE.G", name="G", subjects=["g.>"], allow_direct=True)
    for first in range(0, 60_000, 1000):
        connection.sendall(b"".join(b"PUB g.%d 2\r\nhi\r\n" % number for number in range(first, first + 1000)))
    flushed(connection)


@attack
def gets(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Eight thousand requests for a subject that no message has, by one client: whoever asks next gets a message."""
    ask = json.dumps({"seq": 1, "next_by_subj": "g.*.never" + ".x" * 1000}).encode()
    connection = stack.enter_context(login(server))
    connection.sendall(b"SUB got 2\r\n")
    for _ in range(8):
        connection.sendall(b"PUB $JS.API.DIRECT.GET.G got %d\r\n%s\r\n" % (len(ask), ask) * 1000)
    heard(connection, b"503 Insufficient Resources")
    with login(server) as next_one:
        for _ in range(100):
            next_one.sendall(b"SUB one 1\r\nPUB $JS.API.DIRECT.GET.G.g.7 one 0\r\n\r\nUNSUB 1\r\n")
            if b"Nats-Sequence: 8" in flushed(next_one) + flushed(next_one):
                return
            time.sleep(0.1)
        raise AssertionError("nobody else gets a message")


@prepared
def some_listings(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Two hundred consumers with 120 KB of metadata each."""
    asker = Asker(stack.enter_context(login(server)))
    asker.ask("STREAM.CREATE.S", name="S", subjects=["s"])
    for i in range(200):
        config = {"durable_name": f"k{i}", "ack_policy": "explicit", "metadata": {"m": "x" * 120_000}}
        made = asker.ask(f"CONSUMER.CREATE.S.k{i}", stream_name="S", config=config, action="create")
        assert "error" not in made


@attack
def listings(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Eight clients that list all of them at once, page by page: each gets every one."""

    def walked(asker: Asker) -> int:
        names = list[str]()
        while len(names) < 200:
            page = asker.ask("CONSUMER.LIST.S", offset=len(names))
            assert page["total"] == 200
            assert page["limit"] == len(page["consumers"]) or len(names) + len(page["consumers"]) == 200
            names += [one["name"] for one in page["consumers"]]
        return len(set(names))

    askers = [Asker(stack.enter_context(login(server))) for _ in range(8)]
    with ThreadPoolExecutor(len(askers)) as threads:
        assert [200] * len(askers) == list(threads.map(walked, askers))


@attack
def archives(server: servers.Server, stack: contextlib.ExitStack) -> None:
    """Fifteen restores at once: of some the consumer comes to sixty megabytes of zeros, which are sent as a few bytes;
    of others a compressed block of four megabytes never ends. Whoever restores a stream beside them has it."""
    one = Asker(stack.enter_context(login(server)), b"")

    def begun(name: str) -> str:
        body = {"config": {"name": name, "subjects": [name]}}
        return str(one.ask(f"$JS.API.STREAM.RESTORE.{name}", **body)["deliver_subject"])

    consumer = b"".join(map(number, (len(b"consumers/c"), 2, 0, 0, 60 * MB))) + b"consumers/c"
    places, whole = [begun(f"R{i}") for i in range(15)], begun("WHOLE")
    for place in places:
        one.publish(place, s2(MAGIC + state(consumer_count=1) + consumer))
    for place in places[:5]:
        one.publish(place, BOMB * 7)
    for part in (b"\0" + (4 * MB).to_bytes(3, "little"), b"", b"", b""):
        for place in places[5:]:
            one.publish(place, part + b"x" * 900_000)
    assert b"" == one.request(whole, s2(WHOLE))
    assert b'"error"' not in one.request(whole, b"")
    assert "restores have all of their share of memory_limit" in server.log


def unchunked(body: bytes) -> bytes:
    """Without the sizes of the chunks."""
    found, at = bytearray(), 0
    while size := int(body[at : (end := body.index(b"\r\n", at))], 16):
        found += body[end + 2 : end + 2 + size]
        at = end + 4 + size
    return bytes(found)
