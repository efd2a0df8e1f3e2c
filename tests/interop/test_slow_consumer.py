"""A client that does not read: it is cut off, the server's memory stays bounded, and nobody else notices."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests import servers

pytestmark = pytest.mark.anew  # its memory is looked at

CONFIGURATION = """
listen: "127.0.0.1:{port}"
max_pending: 4MB
write_deadline: "2s"
"""
PAYLOAD = b"x" * 65536
MESSAGES = 1500  # about 100 MB, far above max_pending and what the kernel buffers
GROWTH_BYTES_MAX = 64 << 20


@pytest.fixture(params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(str(request.param), CONFIGURATION) as running:
        yield running


def flood(server: servers.Server, subject: bytes) -> None:
    """Publishes about 100 MB and waits until the server has taken all of it."""
    frame = b"PUB " + subject + b" %d\r\n" % len(PAYLOAD) + PAYLOAD + b"\r\n"
    with servers.admitted(server) as publisher:
        for _ in range(MESSAGES):
            publisher.sendall(frame)
        publisher.sendall(b"PING\r\n")
        said = b""
        while b"PONG\r\n" not in said:
            said += publisher.recv(65536)


def test_client_that_does_not_read_is_cut_off(server: servers.Server) -> None:
    """The connection of a client that lets its messages pile up is closed, after some of them and long before all."""
    with servers.subscribed(server) as sleeper:
        flood(server, b"flood")
        time.sleep(2.5)

        received = 0
        with contextlib.suppress(ConnectionResetError):
            while data := sleeper.recv(1 << 20):
                received += len(data)
        assert 0 < received < MESSAGES * len(PAYLOAD) // 2


def test_memory_stays_bounded(server: servers.Server) -> None:
    """Five clients that do not read cost the server no more than their bounds allow."""
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(servers.subscribed(server))
        before = server.memory_bytes("VmRSS")
        flood(server, b"flood")

        assert server.memory_bytes("VmRSS") - before < GROWTH_BYTES_MAX


def test_others_get_everything(server: servers.Server) -> None:
    """A client that reads gets every message although another on the same subject does not."""
    with servers.subscribed(server), servers.subscribed(server, buffer=0) as reader:
        frame = b"PUB flood 1024\r\n" + b"y" * 1024 + b"\r\n"
        delivered = len(b"MSG flood 1 1024\r\n") + 1026
        received = 0
        with servers.admitted(server) as publisher:
            for sent in range(100, 20_001, 100):
                publisher.sendall(frame * 100)
                while received < sent * delivered:
                    received += len(reader.recv(1 << 20))

        # The server may have asked for a sign of life, once.
        assert received - 20_000 * delivered in (0, len(b"PING\r\n"))
