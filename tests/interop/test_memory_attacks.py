"""What a daemon with the smallest memory_limit takes, whatever clients ask of it: each test is one way to make it take
more, as large as a few seconds allow.

What the kernel cannot take back is looked at (RssAnon and RssShmem), and held against what it was before the attack.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from leafd.native_plane import MEMORY_SHARES

from tests import servers
from tests.rig.waiting import eventually

pytestmark = pytest.mark.anew  # its memory is looked at

MB = 1 << 20
LIMIT = 32 * MB
SLACK = 4 * MB  # pages that are free again, which the allocator has not given back yet
PARTS = set(MEMORY_SHARES)
CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
memory_limit: 32MB
jetstream { store_dir: "{store}" }
"""


class Watch:
    """The most memory that the daemon had since it was entered, beyond what it had then."""

    def __init__(self, server: servers.Server) -> None:
        self.base = self.most = held_bytes(server)
        self.parts: dict[str, float] = {}
        self._server, self._over = server, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for look in itertools.count():
            if self._over.is_set():
                return
            self.look()
            if look % 10 == 0:
                self.look_at_shares()
            time.sleep(0.01)

    def look_at_shares(self) -> None:
        url = f"http://127.0.0.1:{self._server.ports['http_port']}/varz"
        with urllib.request.urlopen(url, timeout=10) as answer:
            memory = json.load(answer)["leafd"]["memory"]
        del memory["limit"]
        for name, part in memory.items():
            self.parts[name] = max(part["used"] / part["share"], self.parts.get(name, 0))

    def look(self) -> None:
        self.most = max(self.most, held_bytes(self._server))

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.look()
        print(f"base {self.base / MB:.1f} MB, at most {(self.most - self.base) / MB:.1f} MB more", self.parts)
        assert set(self.parts) == PARTS


def held_bytes(server: servers.Server) -> int:
    return server.memory_bytes("RssAnon", "RssShmem")


@pytest.fixture
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as running:
        yield running


def read_until(connection: socket.socket, mark: bytes, count: int = 1) -> bytes:
    said = b""
    while said.count(mark) < count:
        data = connection.recv(1 << 18)
        assert data, said[-500:]
        said += data
    return said


def flushed(connection: socket.socket) -> None:
    connection.sendall(b"PING\r\n")
    read_until(connection, b"PONG\r\n")


def asked(connection: socket.socket, subject: str, **body: object) -> bytes:
    """The answer of the API."""
    text = json.dumps(body).encode()
    connection.sendall(b"SUB asked 9\r\nPUB $JS.API.%s asked %d\r\n%s\r\n" % (subject.encode(), len(text), text))
    said = read_until(connection, b"_response")
    connection.sendall(b"UNSUB 9\r\n")
    return said


def stored(connection: socket.socket, name: str, **options: object) -> None:
    said = asked(connection, f"STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **options)
    assert b'"error"' not in said, said


def pull(consumer: str, reply: str, **body: object) -> bytes:
    text = json.dumps(body)
    return f"PUB $JS.API.CONSUMER.MSG.NEXT.{consumer} {reply} {len(text)}\r\n{text}\r\n".encode()


def published(connection: socket.socket, frames: list[bytes]) -> None:
    """All of these frames, with the reply `acks`, and every PubAck heard."""
    connection.sendall(b"SUB acks 8\r\n")
    for at in range(0, len(frames), 1000):
        some = frames[at : at + 1000]
        sender = threading.Thread(target=connection.sendall, args=(b"".join(some),))
        sender.start()
        said = read_until(connection, b'"stream":', len(some))
        sender.join()
        assert b'"error"' not in said, said[:500]
    connection.sendall(b"UNSUB 8\r\n")


def test_messages_that_are_never_finished(server: servers.Server) -> None:
    """Two hundred clients that each begin a message of a megabyte and keep the last byte back."""
    frame = b"PUB a %d\r\n" % MB + b"x" * (MB - 1)
    with contextlib.ExitStack() as stack, Watch(server) as watch:
        for _ in range(200):
            one = stack.enter_context(servers.admitted(server))
            one.settimeout(0.05)
            with contextlib.suppress(OSError):
                one.sendall(frame)
        time.sleep(1)
    assert watch.most - watch.base < LIMIT + SLACK


def test_pull_requests_that_wait(server: servers.Server) -> None:
    """Fifty consumers with as many pull requests waiting as they take, with long replies."""
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S")
        connection.sendall(b"SUB r.> 1\r\n")
        reply = "r." + "x" * 900
        for i in range(50):
            said = asked(
                connection,
                f"CONSUMER.CREATE.S.k{i}",
                stream_name="S",
                config={"durable_name": f"k{i}", "ack_policy": "explicit", "max_waiting": 100000},
                action="create",
            )
            assert b'"error"' not in said
            connection.sendall(pull(f"S.k{i}", reply, batch=1, expires=100_000_000_000) * 2000)
            flushed(connection)
    assert watch.most - watch.base < LIMIT + SLACK


def test_many_subjects(server: servers.Server) -> None:
    """A hundred thousand subjects with a message each, then another one on each in any order: a page of the database
    changes with each of them, and all of these are in memory until a commit."""
    count, subject = 100_000, b"y" * 40
    frames = [b"PUB S.%d.%s acks 16\r\n0123456789abcdef\r\n" % (i * 7919 % count, subject) for i in range(count)]
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S", max_msgs_per_subject=1)
        published(connection, frames)
        published(connection, [frames[i * 4729 % count] for i in range(count)])
    assert watch.most - watch.base < LIMIT + SLACK


def test_ids_of_messages(server: servers.Server) -> None:
    """A hundred thousand messages with an id each, in any order."""
    header = b"NATS/1.0\r\nNats-Msg-Id: %028d\r\n\r\n"
    frame = b"HPUB S.a acks 55 71\r\n" + header + b"0123456789abcdef\r\n"
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S")
        published(connection, [frame % (i * 7919 % 1000003) for i in range(100_000)])
    assert watch.most - watch.base < LIMIT + SLACK


def test_subscriptions_and_connections(server: servers.Server) -> None:
    """Two thousand connections with twenty subscriptions each."""
    with contextlib.ExitStack() as stack, Watch(server) as watch:
        for i in range(2000):
            one = stack.enter_context(servers.admitted(server))
            one.sendall(b"".join(b"SUB a.%d.%d %d\r\n" % (i, j, j) for j in range(20)))
            if i % 100 == 0:
                flushed(one)
        flushed(one)
    assert watch.most - watch.base < LIMIT + SLACK


def test_connections_that_do_nothing(server: servers.Server) -> None:
    """Logins with the longest names: as many as memory_limit has 8 KB for, and one more whenever one has gone."""
    connect = b'CONNECT {"verbose":false,"name":"%s"}\r\nPING\r\n' % (b"n" * 3900)

    def logged_in() -> tuple[socket.socket, bytes]:
        one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
        one.sendall(connect)
        said = b""
        while b"PONG\r\n" not in said and b"-ERR" not in said:
            said += one.recv(4096)
        return one, said

    with contextlib.ExitStack() as stack, Watch(server) as watch:
        for _ in range(LIMIT // 8192):
            one, said = logged_in()
            assert b"PONG\r\n" in said
        assert b"-ERR 'maximum connections exceeded'" in logged_in()[1]
        one.close()
        eventually(lambda: b"PONG\r\n" in logged_in()[1], "the place of a connection that has gone stays taken")
    assert watch.most - watch.base < LIMIT + SLACK


def test_consumers(server: servers.Server) -> None:
    """Three hundred consumers, then all of them listed."""
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S")
        for i in range(300):
            said = asked(
                connection,
                f"CONSUMER.CREATE.S.k{i}",
                stream_name="S",
                config={"durable_name": f"k{i}", "ack_policy": "explicit"},
                action="create",
            )
            assert b'"error"' not in said
        for _ in range(3):
            asked(connection, "CONSUMER.LIST.S", offset=0)
    assert watch.most - watch.base < LIMIT + SLACK


def test_snapshots_that_nobody_reads(server: servers.Server) -> None:
    """Eight backups of a stream of a hundred megabytes at once, by clients that do not read them."""
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S")
        published(connection, [b"PUB S.a acks 65536\r\n" + b"%016d" % i * 4096 + b"\r\n" for i in range(1600)])
        with contextlib.ExitStack() as stack:
            for i in range(8):
                one = stack.enter_context(servers.admitted(server, buffer=4096))
                body = b'{"deliver_subject":"s.%d","chunk_size":1048576}' % i
                one.sendall(b"SUB s.%d 1\r\nPUB $JS.API.STREAM.SNAPSHOT.S x %d\r\n%s\r\n" % (i, len(body), body))
            time.sleep(4)
    assert watch.most - watch.base < LIMIT + SLACK


def test_messages_that_are_not_acknowledged(server: servers.Server) -> None:
    """Ten consumers that are asked for fifty thousand messages each, which nobody acknowledges: each delivers some, and
    further ones as long as there is memory to keep count of them."""
    with servers.admitted(server) as connection, Watch(server) as watch:
        stored(connection, "S")
        published(connection, [b"PUB S.a acks 16\r\n0123456789abcdef\r\n"] * 50000)
        for i in range(10):
            asked(
                connection,
                f"CONSUMER.CREATE.S.k{i}",
                stream_name="S",
                config={"durable_name": f"k{i}", "ack_policy": "explicit", "max_ack_pending": -1},
                action="create",
            )
            connection.sendall(b"SUB d.%d %d\r\n" % (i, i + 20) + pull(f"S.k{i}", f"d.{i}", batch=50000))
            read_until(connection, b"0123456789abcdef", 256)
        connection.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while connection.recv(1 << 18):
                pass
    assert watch.most - watch.base < LIMIT + SLACK


def test_large_requests(server: servers.Server) -> None:
    """Fifty clients with requests of a megabyte each to the API."""
    body = b'{"name":"' + b"x" * (MB - 100) + b'"}'
    with contextlib.ExitStack() as stack, Watch(server) as watch:
        clients = [stack.enter_context(servers.admitted(server)) for _ in range(50)]
        threads = [
            threading.Thread(
                target=one.sendall,
                args=((b"SUB i 1\r\n" + b"PUB $JS.API.STREAM.CREATE.%d i %d\r\n%s\r\n" % (i, len(body), body) * 4),),
            )
            for i, one in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for one in clients:
            read_until(one, b"MSG i", 4)
        for thread in threads:
            thread.join()
    assert watch.most - watch.base < LIMIT + SLACK
