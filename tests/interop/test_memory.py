"""Memory has a bound, whatever clients do: `memory_limit` over what the daemon has at rest.

What the kernel cannot take back is looked at (RssAnon and RssShmem). At rest is BASE: Python, its modules, threads'
stacks.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers

MB = 1 << 20
LIMIT = 48 * MB
BASE = 40 * MB
CONFIGURATION = """
listen: "127.0.0.1:{port}"
memory_limit: 48MB
jetstream { store_dir: "{store}" }
"""


@pytest.fixture
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as running:
        yield running


@contextlib.contextmanager
def client(server: servers.Server, buffer: int = 0) -> Iterator[socket.socket]:
    """A connection that is admitted; with a small receive buffer where one is given."""
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        said = b""
        while b"PONG\r\n" not in said:
            said += connection.recv(65536)
        yield connection


def held_bytes(server: servers.Server) -> int:
    """What the daemon has that the kernel cannot take back."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return sum(int(status.split(f"{name}:")[1].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


class Watch:
    """Looks at the memory, and how long another client's request takes, as long as it is entered."""

    def __init__(self, server: servers.Server) -> None:
        self.most, self.slowest = 0, 0.0
        self._server, self._over = server, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with client(self._server) as bystander:
            bystander.sendall(b"SUB answers 1\r\n")
            while not self._over.is_set():
                began = time.monotonic()
                bystander.sendall(b"PUB $JS.API.INFO answers 0\r\n\r\n")
                said = b""
                while b'account_info_response"' not in said:
                    said += bystander.recv(65536)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.most = max(self.most, held_bytes(self._server))
                time.sleep(0.02)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_fifty_clients_that_do_not_read(server: servers.Server) -> None:
    """What waits for fifty clients that do not read stays below memory_limit, though each may have max_pending waiting;
    those with the most are cut off, and others are served."""
    payload = b"x" * 65536
    frame = b"PUB flood %d\r\n" % len(payload) + payload + b"\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            sleeper = stack.enter_context(client(server, buffer=65536))
            sleeper.sendall(b"SUB flood 1\r\nPING\r\n")
            assert b"PONG\r\n" == sleeper.recv(6)
        publisher = stack.enter_context(client(server))
        with Watch(server) as watch:
            for _ in range(800):
                publisher.sendall(frame)
            publisher.sendall(b"PING\r\n")
            assert publisher.recv(6) == b"PONG\r\n"

        assert watch.most < LIMIT + BASE
        assert watch.slowest < 1
        assert "Slow Consumer" in server.log or "slow consumer" in server.log
