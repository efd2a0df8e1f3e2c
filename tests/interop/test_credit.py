"""Who asks the server more than it answers is slowed down, loses nothing, and keeps no other account waiting."""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests import servers
from tests.rig.raw import RawClient
from tests.rig.stopwatch import Stopwatch

pytestmark = pytest.mark.anew  # its memory is looked at

REQUESTS = 50_000
MEMORY_MAX_MB = 60
"""Of growth while a flood lasts: what is under way, and the pages that a busy process touches."""

ACCOUNTS = """
port: {port}
jetstream { store_dir: "{store}", domain: hub }
leafnodes {
  port: {leaf_port}
  authorization { users = [ { user: l, password: l, account: A }, { user: m, password: m, account: B } ] }
}
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ] }
  B { jetstream: enabled, users: [ { user: b, password: b } ] }
}
"""


def resident_mb(server: servers.Server) -> float:
    return server.memory_bytes("VmRSS") / (1 << 20)


def count_answers(one: socket.socket, mark: bytes, count: int, within_s: float) -> int:
    """How many times the mark comes, up to count."""
    one.settimeout(within_s)
    answered, rest, until = 0, b"", time.monotonic() + within_s
    with contextlib.suppress(TimeoutError):
        while answered < count and time.monotonic() < until:
            data = one.recv(1 << 20)
            if not data:
                break
            if b"PING\r\n" in data:
                one.sendall(b"PONG\r\n")
            rest += data
            answered += rest.count(mark)
            rest = rest[-len(mark) + 1 :]
    return answered


@contextlib.contextmanager
def asking(server: servers.Server, peer: RawClient, subject: str) -> Iterator[list[float]]:
    """Somebody asks again and again meanwhile; how long each answer took, in milliseconds."""
    took: list[float] = []
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            watch = Stopwatch(server)
            peer.api(subject, {})
            took.append(watch.seconds() * 1000)
            time.sleep(0.005)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join(30)


def flood(peer: RawClient, requests: bytes) -> threading.Thread:
    """Sends all of it, however long the server takes."""

    def run() -> None:
        with contextlib.suppress(OSError):
            peer.send(requests)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def measured(kind: str) -> tuple[int, list[float], float, float]:
    """Answers that a client of 50,000 pipelined requests got, another account's times meanwhile, memory, seconds."""
    with servers.running(kind, ACCOUNTS) as server:
        flooding, other = RawClient(server, "a"), RawClient(server, "b")
        for one in (flooding, other):
            assert "error" not in one.api("STREAM.CREATE.S", {"name": "S"})
        before = resident_mb(server)
        flooding.send(b"SUB replies 9\r\n")
        with asking(server, other, "STREAM.INFO.S") as took:
            start = time.monotonic()
            sending = flood(flooding, b"PUB $JS.API.STREAM.INFO.S replies 0\r\n\r\n" * REQUESTS)
            answered = count_answers(flooding.socket, b"MSG replies 9 ", REQUESTS, 180)
            seconds = time.monotonic() - start
            grown = resident_mb(server) - before
        sending.join(10)
        flooding.close()
        other.close()
        return answered, took, grown, seconds


def test_fifty_thousand_requests_at_once_are_all_answered_and_others_wait_no_longer() -> None:
    """None is dropped; meanwhile another account's median answer takes 20 ms, of twenty at most one takes 100 ms,
    and memory stays where it was."""
    answered, took, grown, _ = measured(servers.LEAFD)
    assert REQUESTS == answered
    assert statistics.median(took) < 20
    assert statistics.quantiles(took, n=20)[-1] < 100
    assert grown < MEMORY_MAX_MB


LINK_REQUESTS = 200_000


def test_a_leaf_link_that_floods_keeps_nobody_of_another_link_waiting() -> None:
    """One link asks without reading answers first; a user behind a link of another account is answered as always, the
    flooding link stays, and memory stays where it was."""
    with servers.running(servers.LEAFD, ACCOUNTS) as server, contextlib.ExitStack() as held:
        port = server.ports["leaf_port"]
        links = []
        for user in "lm":
            link = held.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            link.recv(1 << 16)
            login = {"user": user, "pass": user, "name": user, "headers": True, "protocol": 1}
            link.sendall(f"CONNECT {json.dumps(login)}\r\nPING\r\nLS+ back.>\r\n".encode())
            links.append(link)
        flooding, other = links
        before = resident_mb(server)

        def send() -> None:
            with contextlib.suppress(OSError):
                flooding.sendall(b"LMSG $JS.hub.API.INFO back.1 0\r\n\r\n" * LINK_REQUESTS)

        threading.Thread(target=send, daemon=True).start()
        reader = threading.Thread(target=count_answers, args=(flooding, b"LMSG back.1 ", LINK_REQUESTS, 4), daemon=True)
        reader.start()
        took = []
        while reader.is_alive():
            watch = Stopwatch(server)
            other.sendall(b"LMSG $JS.hub.API.INFO back.2 0\r\n\r\n")
            assert 1 == count_answers(other, b"LMSG back.2 ", 1, 5)
            took.append(watch.seconds() * 1000)
            time.sleep(0.005)
        assert statistics.median(took) < 20
        assert resident_mb(server) - before < MEMORY_MAX_MB
        assert count_answers(flooding, b"LMSG back.1 ", 1, 5)  # it is still there, and answered


if __name__ == "__main__":
    for name in sys.argv[1:] or servers.KINDS:
        found, times, mb, s = measured(name)
        line = {
            "server": name,
            "answered": found,
            "seconds": round(s, 1),
            "grown_mb": round(mb, 1),
            "asked": len(times),
        }
        line |= {"median_ms": round(statistics.median(times), 2), "worst_ms": round(max(times), 2)}
        print(json.dumps(line))
