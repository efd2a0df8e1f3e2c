"""TLS before the login: whoever never finishes, never begins or begins again and again keeps nobody out, costs little,
and is gone after his time.

What a handshake costs and how turns are kept short is measured elsewhere (tests/native/test_tls_seats.c, tests/bench).
"""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.certificates import Authority
from tests.interop.test_tls import (
    Files,
    info_of,
    log_in,
    ping,
    plain,
    rest_of,
    serving,
    serving_first,
    shaken,
)
from tests.rig.stopwatch import Stopwatch
from tests.rig.waiting import eventually, logged

pytestmark = pytest.mark.anew  # its memory is looked at

STRANGERS = 10_000
ROOM = 2_000
"""Descriptors that the tests and the daemon need besides."""
IN_TIME_S = 5.0
LOGIN = "authorization { user: a, password: p, timeout: 4 }\nmax_connections: 15000"
HALF_RECORDS = (
    b"",
    b"\x16",
    b"\x16\x03\x01",
    b"\x16\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc\x03\x03" + b"x" * 50,  # a hello of 16 KB that does not come
    b"\x16\x03\x01\x00\xc0" + b"\x01\x00\x00\xbc\x03\x03" + b"x" * 100,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return Files(authority, authority.issue("server"), authority.issue("client"))


@contextlib.contextmanager
def many_descriptors() -> Iterator[int]:
    """As many descriptors as the machine gives, here and in what is started meanwhile; how many strangers fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield min(STRANGERS, hard - ROOM) if hard != resource.RLIM_INFINITY else STRANGERS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def honest(server: servers.Server, files: Files) -> float:
    """Seconds that a user's login takes."""
    watch = Stopwatch(server)
    with plain(server) as sock:
        info_of(sock)
        with shaken(sock, files.trusting()) as safe:
            safe.sendall(b'CONNECT {"verbose":false,"user":"a","pass":"p"}\r\nPING\r\n')
            assert safe.recv(100) == b"PONG\r\n"
    return watch.seconds()


def descriptors(server: servers.Server) -> int:
    """How many the daemon has open."""
    assert server.process is not None
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def storm(server: servers.Server, files: Files, count: int) -> tuple[float, int]:
    """That many strangers, who stay until they are sent away, and users who log in among them: the longest login, and
    the memory at the worst."""
    before = descriptors(server)
    worst_s, worst_bytes = 0.0, 0
    strangers: list[socket.socket] = []
    try:
        for number in range(count):
            one = socket.create_connection(("127.0.0.1", server.port), 20)
            strangers.append(one)
            with contextlib.suppress(OSError):
                one.sendall(HALF_RECORDS[number % len(HALF_RECORDS)])
            if number % (count // 10) == count // 10 - 1:
                worst_s = max(worst_s, honest(server, files))
                worst_bytes = max(worst_bytes, server.memory_bytes("RssAnon"))
        eventually(lambda: descriptors(server) <= before, lambda: f"{descriptors(server)} descriptors, {before} before")
    finally:
        for one in strangers:
            one.close()
    return worst_s, worst_bytes


def test_strangers_keep_nobody_out_and_leave_nothing_behind(files: Files) -> None:
    """Ten thousand connections that never log in, silent or with half a record: users get in among them at once, the
    memory stays within a bound, and a second storm takes no more than the first."""
    with many_descriptors() as count, serving(servers.LEAFD, files, "timeout: 4", LOGIN) as server:
        honest(server, files)
        idle = server.memory_bytes("RssAnon")
        seen = []
        for _ in range(2):
            worst_s, worst_bytes = storm(server, files, count)
            assert worst_s < IN_TIME_S
            seen.append(worst_bytes - idle)
            honest(server, files)

        assert seen[0] < count * 8192, seen
        assert seen[1] < seen[0] * 1.2 + (4 << 20), seen


@pytest.mark.parametrize("half", HALF_RECORDS, ids=len)
def test_a_handshake_has_its_time(files: Files, half: bytes) -> None:
    """Whoever stops in the middle of a record is closed when the time is over, with a line in the log."""
    with serving(servers.LEAFD, files, "timeout: 1") as server, plain(server) as sock:
        info_of(sock)
        began = time.monotonic()
        sock.sendall(half)
        assert b"PONG" not in rest_of(sock)
        assert 0.5 < time.monotonic() - began < 10
        assert "TLS handshake" in logged(server, "handshake")


def test_a_hello_byte_by_byte_has_no_more(files: Files) -> None:
    """Bytes that come slowly prolong nothing, and users log in meanwhile."""
    hello = HALF_RECORDS[-1]
    with serving(servers.LEAFD, files, "timeout: 2", LOGIN) as server, plain(server) as sock:
        info_of(sock)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for at in range(len(hello)):
                sock.sendall(hello[at : at + 1])
                time.sleep(0.2)
                if at == 3:
                    assert honest(server, files) < IN_TIME_S
        assert time.monotonic() - began < 15


@pytest.mark.parametrize("kind", servers.KINDS)
def test_nobody_shakes_hands_twice_on_a_connection(kind: str, files: Files) -> None:
    """TLS 1.2 lets a client ask for a new handshake as often as it likes, which costs the server most: it is
    refused."""
    with serving_first(kind, files, "handshake_first: true") as server:
        words = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{server.port}", "-CAfile"]
        with subprocess.Popen(
            [*words, str(files.authority.certificate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            timer = threading.Timer(20, client.kill)
            timer.start()
            found = b""
            while b"INFO {" not in found and (part := client.stdout.readline()):
                found += part
            client.stdin.write(b"R\n")
            client.stdin.flush()
            while b"no renegotiation" not in found.lower() and (part := client.stdout.readline()):
                found += part
            client.stdin.close()
            timer.cancel()
            client.kill()
        assert b"RENEGOTIATING" in found
        assert b"no renegotiation" in found.lower() or b"alert" in found.lower(), found[-2000:]
        with shaken(plain(server), files.trusting()) as safe:
            info_of(safe)
            ping(safe)


@pytest.mark.parametrize("line", [b"CONNECT {" + b"x" * 70_000, b"PUB x 1000000\r\n", b"y" * 5_000], ids=len)
def test_a_stranger_s_line_is_bounded_behind_tls_too(line: bytes, files: Files) -> None:
    """What is too long before the login, or no CONNECT, ends the connection; a payload is not waited for."""
    with serving(servers.LEAFD, files, rest=LOGIN) as server:
        with plain(server) as sock:
            info_of(sock)
            with shaken(sock, files.trusting()) as safe, contextlib.suppress(OSError):
                began = time.monotonic()
                safe.sendall(line)
                assert b"PONG" not in rest_of(safe)
                assert time.monotonic() - began < 3
        with pytest.raises((AssertionError, OSError)):
            log_in(server, files.trusting())  # without a password
        assert honest(server, files) < IN_TIME_S
