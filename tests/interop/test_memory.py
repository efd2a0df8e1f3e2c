"""Memory has a bound, whatever clients do: `memory_limit` beyond what the daemon takes when idle.

What the kernel cannot take back is looked at (RssAnon and RssShmem). At rest is BASE: Python, its modules, threads'
stacks.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.rig.stopwatch import Stopwatch, waited_s

pytestmark = pytest.mark.anew  # its memory is looked at

MB = 1 << 20
LIMIT = 48 * MB
BASE = 40 * MB
KINDS = ("RssAnon", "RssShmem")
RING = 8 * MB
"""Of the journal's 16 MB, that are in memory at a time; it is the only memory that is shared."""
CONFIGURATION = """
listen: "127.0.0.1:{port}"
memory_limit: 48MB
jetstream { store_dir: "{store}" }
"""


@pytest.fixture
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as running:
        yield running


def held_bytes(server: servers.Server) -> int:
    """What the daemon has that the kernel cannot take back."""
    return server.memory_bytes(*KINDS)


class Watch:
    """Looks at the memory, and how long another client's request takes, as long as it is entered."""

    def __init__(self, server: servers.Server, *kinds: str) -> None:
        self.most, self.slowest, self._kinds = 0, 0.0, kinds or KINDS
        self._server, self._over = server, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with servers.admitted(self._server) as bystander:
            bystander.sendall(b"SUB answers 1\r\n")
            while not self._over.is_set():
                asked = Stopwatch(self._server)
                bystander.sendall(b"PUB $JS.API.INFO answers 0\r\n\r\n")
                said = b""
                while b'account_info_response"' not in said:
                    said += bystander.recv(65536)
                self.slowest = max(self.slowest, asked.seconds())
                self.most = max(self.most, self._server.memory_bytes(*self._kinds))
                time.sleep(0.02)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def make_stream(connection: socket.socket, name: str, options: str = "") -> None:
    """A stream over its own name's subjects."""
    body = f'{{"name":"{name}","subjects":["{name}.>"],"storage":"file"{options}}}'.encode()
    connection.sendall(
        b"SUB made 7\r\nPUB $JS.API.STREAM.CREATE.%s made %d\r\n%s\r\n" % (name.encode(), len(body), body)
    )
    said = b""
    while b"stream_create_response" not in said:
        said += connection.recv(65536)
    assert b'"error"' not in said, said


SENT_AT_ONCE = 1 << 18


def flood_stream(server: servers.Server, publishers: int, frames: bytes, rounds: int) -> tuple[int, int]:
    """So many connections publish these frames at once, without waiting for an answer; returns how many PubAcks, and
    how many refusals came."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(servers.admitted(server)) for _ in range(publishers)]
        acks = errors = 0
        waiting = {one.fileno(): one for one in clients}
        # Views, so that no send copies what is left: a client that is slow by itself is closed, and rightly.
        left = {fd: memoryview(frames.replace(b"acks", b"acks.%d" % fd) * rounds) for fd in waiting}
        tails = dict.fromkeys(waiting, b"")
        messages = rounds * frames.count(b"PUB ")
        expected = publishers * messages
        sizes = {fd: len(text) // messages for fd, text in left.items()}
        for one in clients:
            one.sendall(b"SUB acks.%d 1\r\n" % one.fileno())
            one.setblocking(False)
        poll = select.epoll()
        for fd in waiting:
            poll.register(fd, select.EPOLLIN | select.EPOLLOUT)
        deadline = time.monotonic() + 60
        while acks + errors < expected and time.monotonic() < deadline:
            for fd, event in poll.poll(1):
                if event & select.EPOLLOUT:
                    with contextlib.suppress(BlockingIOError):
                        # Whole messages: whoever waits for this thread meanwhile is not silent in the middle of one.
                        piece = len(left[fd]) % sizes[fd] + max(SENT_AT_ONCE // sizes[fd], 1) * sizes[fd]
                        left[fd] = left[fd][waiting[fd].send(left[fd][:piece]) :]
                    if not left[fd]:
                        poll.modify(fd, select.EPOLLIN)
                if event & select.EPOLLIN:
                    data = tails[fd] + waiting[fd].recv(1 << 18)
                    end = data.rfind(b"\r\n") + 2
                    acks += data[:end].count(b'"seq":')
                    errors += data[:end].count(b'"error":')
                    tails[fd] = data[end:]
        return acks - errors, errors


def test_fifty_clients_that_do_not_read(server: servers.Server) -> None:
    """What waits for fifty clients that do not read stays below memory_limit, though each may have max_pending waiting;
    those with the most are cut off, and others are served."""
    payload = b"x" * 65536
    frame = b"PUB flood %d\r\n" % len(payload) + payload + b"\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(servers.subscribed(server))
        publisher = stack.enter_context(servers.admitted(server))
        with Watch(server) as watch:
            for _ in range(800):
                publisher.sendall(frame)
            taken(publisher, b"")

        assert watch.most < LIMIT + BASE
        assert watch.slowest < 5  # of a client beside them; alone it is some hundredths
        assert "Slow Consumer" in server.log or "slow consumer" in server.log


def test_megabytes_to_a_hundred_clients_that_do_not_read(server: servers.Server) -> None:
    """A large message to many is in memory once: forty of them, of a megabyte each, to a hundred clients that do not
    read stay below memory_limit, and another client is answered meanwhile."""
    frame = b"PUB flood %d\r\n" % MB + b"x" * MB + b"\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(servers.subscribed(server))
        publisher = stack.enter_context(servers.admitted(server))
        with Watch(server) as watch:
            for _ in range(8):
                publisher.sendall(frame)
            taken(publisher, b"")
            few = server.log.lower().count("slow consumer")
            for _ in range(32):
                publisher.sendall(frame)
            taken(publisher, b"")

        assert 0 == few
        assert watch.most < LIMIT + BASE
        assert watch.slowest < 5  # of a client beside them; alone it is some hundredths


def test_megabytes_to_fifty_clients_that_read() -> None:
    """Forty megabytes from eight publishers reach each of fifty clients that read, and wait in memory once, not fifty
    times, however long the clients take."""
    total = 8 * 5 * MB
    frame = b"PUB flood %d\r\n" % MB + b"x" * MB + b"\r\n"
    expected = 8 * 5 * (len(b"MSG flood 1 %d\r\n" % MB) + MB + 2)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(servers.running(servers.LEAFD, CONFIGURATION.replace("48MB", "512MB")))
        readers = [stack.enter_context(servers.subscribed(server, buffer=0)) for _ in range(50)]
        poll = select.epoll()
        heard = {}
        for reader in readers:
            poll.register(reader.fileno(), select.EPOLLIN)
            heard[reader.fileno()] = 0
        sockets = {reader.fileno(): reader for reader in readers}
        publishers = [stack.enter_context(servers.admitted(server)) for _ in range(8)]
        threads = [threading.Thread(target=one.sendall, args=(frame * 5,)) for one in publishers]
        with Watch(server) as watch:
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 60
            while min(heard.values()) < expected and time.monotonic() < deadline:
                for fd, _ in poll.poll(1):
                    heard[fd] += len(sockets[fd].recv(1 << 20))
            for thread in threads:
                thread.join()

        # The server may have asked for a sign of life, once.
        assert {count - expected for count in heard.values()} <= {0, len(b"PING\r\n")}, server.log[-1000:]
        assert watch.most < 2 * total + BASE


def test_a_disk_that_cannot_keep_up() -> None:
    """Publishers that are faster than the disk have half of the journal in memory, not all of it, and all is stored;
    the largest messages are stored, too."""
    frames = (b"PUB s.1 acks 16384\r\n" + b"y" * 16384 + b"\r\n") * 100
    with servers.running(servers.LEAFD, CONFIGURATION.replace("memory_limit: 48MB", "")) as server:
        with servers.admitted(server) as maker:
            make_stream(maker, "s")
        with Watch(server, "RssShmem") as watch:
            assert (1600, 0) == flood_stream(server, 2, frames, 8)
        assert watch.most <= RING + MB

        large = b"PUB s.1 acks %d\r\n" % MB + b"y" * MB + b"\r\n"
        assert (16, 0) == flood_stream(server, 4, large, 4)


SILENT_S = 0.2
"""Where input has no room, who is in the middle of a message and is silent for so long is closed (plane/memory.c)."""
FLOODS = 3


@pytest.mark.parametrize(("size", "times", "rounds"), [(128, 200, 10), (65536, 4, 6), (1 << 20, 1, 2)])
def test_two_hundred_publishers(size: int, times: int, rounds: int) -> None:
    """Two hundred clients that publish into a stream without waiting for an answer are slowed down: none of their
    messages is refused, none of them is closed, and memory stays below the limit."""
    payload = b"y" * size
    frames = (b"PUB s.%d acks %d\r\n" % (size, size) + payload + b"\r\n") * times
    own = Path(f"/proc/self/task/{threading.get_native_id()}")
    for number in range(1, FLOODS + 1):
        with servers.running(servers.LEAFD, CONFIGURATION) as server:
            with servers.admitted(server) as maker:
                make_stream(maker, "s")
            before_s = waited_s(own)
            try:
                with Watch(server) as watch:
                    acks, errors = flood_stream(server, 200, frames, rounds)
            except (BrokenPipeError, ConnectionResetError):
                # All two hundred are this thread. If it had no processor for so long, they were silent in truth.
                if number == FLOODS or waited_s(own) - before_s < SILENT_S:
                    raise
                continue
            assert (200 * times * rounds, 0) == (acks, errors), server.log[-2000:]
        break

    print(f"most {watch.most / MB:.1f} MB, slowest {watch.slowest:.3f} s")
    assert watch.most < LIMIT + BASE
    assert watch.slowest < 5  # of a client beside them; alone it is some hundredths


MANY = 150_000
"""Subscriptions: 85 MB."""
LEFT = 20 * MB
QUIET_SECONDS = 15.0
UNBOUND = """
listen: "127.0.0.1:{port}"
"""


def taken(connection: socket.socket, lines: bytes) -> None:
    """Returns when the server has acted on these. It may ask with a PING, too."""
    connection.sendall(lines + b"PING\r\n")
    said = b""
    while b"PONG\r\n" not in said:
        part = connection.recv(64)
        assert part, f"the connection has ended behind {said!r}"
        said += part


def test_what_subscriptions_leave_goes_back_to_the_system() -> None:
    """A client with many subscriptions goes, and a few of another client lie among them."""
    with servers.running(servers.LEAFD, UNBOUND) as server:
        before = held_bytes(server)
        with servers.admitted(server) as stays, servers.admitted(server) as goes:
            for begin in range(0, MANY, 1000):
                lines = b"".join(b"SUB evil.%d.x %d\r\n" % (one, one) for one in range(begin, begin + 1000))
                taken(goes, lines)
                taken(stays, b"SUB good.%d.x %d\r\n" % (begin, begin))
            assert held_bytes(server) - before > 3 * LEFT
            goes.close()
            deadline = time.monotonic() + QUIET_SECONDS
            while held_bytes(server) - before > LEFT and time.monotonic() < deadline:
                time.sleep(0.1)
            assert held_bytes(server) - before < LEFT
