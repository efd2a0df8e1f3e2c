"""What one user does as often and as much as he likes costs him time, and nobody else.

Each test is one such storm. The bounds are far above what a quiet machine shows and far below what there was once:
seconds in which nobody was served, a gigabyte of reports.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.hostile.test_bombs import peak_mb
from tests.hostile.test_causes import CONFIGURATION
from tests.hostile.wires import Asker, varz
from tests.rig.stopwatch import waited_s
from tests.servers import LEAFD, Server, running

TICK_MS = 1000.0


@pytest.fixture
def server() -> Iterator[Server]:
    """A daemon for each storm: the gauges are of this one alone."""
    with running(LEAFD, CONFIGURATION) as one:
        yield one
        assert one.process is not None, one.log[-4000:]
        assert one.process.poll() is None, one.log[-4000:]
        figures = varz(one.ports["http_port"])["leafd"]
        assert {} == figures["unexpected_errors_in"], one.log[-4000:]
        assert figures["longest_tick_ms"] < TICK_MS + waited_s(one.plane_task()) * 1000


@contextmanager
def listener(server: Server, lines: bytes) -> Iterator[Asker]:
    """A client that has subscribed and reads whatever comes, without looking at it."""
    with Asker(server.port, patience_s=60.0) as one:
        one.send(lines + b"PING\r\n")
        while one.heard() != b"PONG":
            pass
        one.socket.settimeout(60.0)
        thread = threading.Thread(target=_drain, args=(one,))
        thread.start()
        try:
            yield one
        finally:
            with suppress(OSError):
                one.socket.shutdown(2)
            thread.join()


def _drain(one: Asker) -> None:
    with suppress(OSError):
        while one.socket.recv(1 << 20):
            pass


def test_queue_groups_without_end(server: Server) -> None:
    """Ten thousand queue groups that one client has on a subject make a publish cost their number, not its square."""
    lines = b"".join(b"SUB work.* g%d %d\r\n" % (number, number + 10) for number in range(10_000))
    with listener(server, lines), Asker(server.port, patience_s=60.0) as client:
        client.send(b"".join(b"PUB work.%d 1\r\nx\r\n" % number for number in range(8)) + b"PING\r\n")
        while (line := client.heard()) != b"PONG":
            assert line == b"PING"


def test_deep_patterns_without_end(server: Server) -> None:
    """Where looking for who wants a subject takes long, the turn of its publisher ends with that one message."""
    lines = b"".join(
        b"SUB "
        + b"".join(b"*." if number >> bit & 1 else b"a." for bit in range(10))
        + b"a." * 200
        + b"z %d\r\n" % number
        for number in range(1000)
    )
    with listener(server, lines), Asker(server.port, patience_s=60.0) as client:
        subject = b"a." * 210
        client.send(b"".join(b"PUB %sy%d 1\r\nx\r\n" % (subject, number) for number in range(300)) + b"PING\r\n")
        while (line := client.heard()) != b"PONG":
            assert line == b"PING"


def test_reports_about_oneself_without_end(server: Server) -> None:
    """Who asks for the list of his subscriptions two thousand times at once has a few reports in memory at a time, and
    somebody else's question is answered meanwhile."""
    lines = b"".join(b"SUB a.rather.long.subject.of.somebody.%d %d\r\n" % (one, one) for one in range(10, 12_000))
    body = b'{"subscriptions":true,"subscriptions_detail":true}'
    with listener(server, lines) as asker, Asker(server.port, user="n", password="n") as other:
        before = peak_mb(server)
        asker.send(b"PUB $SYS.REQ.ACCOUNT.PING.CONNZ in.1 %d\r\n%s\r\n" % (len(body), body) * 2000)
        end = time.monotonic() + 6.0
        while time.monotonic() < end:
            assert "N" == other.asked("$SYS.REQ.USER.INFO")["data"]["account"]
        assert peak_mb(server) < before + 120
