"""Plain text where the handshake belongs: with TLS asked for by INFO, and with TLS first, beside nats-server.

Nothing that comes in plain text is carried out, wherever it is put: before the handshake, in the same segment as its
first record, in its middle. Slow, half and abandoned handshakes: tests/interop/test_tls_attacks.py.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Final

import pytest

from tests import servers
from tests.certificates import Authority
from tests.interop.test_tls import Files, plain, serving, serving_first, shaken

ORDERS: Final = b"CONNECT {}\r\nSUB > 9\r\nPUB forbidden 1\r\nx\r\nPING\r\n"
MODES: Final = ("", "handshake_first: true", "handshake_first: auto", 'handshake_first: "300ms"')


def hello(files: Files) -> bytes:
    """The first record of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = files.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()


def attacks(record: bytes) -> dict[str, tuple[bytes, ...]]:
    """What is sent, a segment each."""
    return {
        "alone": (ORDERS,),
        "before the record": (ORDERS + record,),
        "behind the record": (record + ORDERS,),
        "in its middle": (record[:20], ORDERS, record[20:]),
        "a PING before": (b"PING\r\n", record, ORDERS),
        "a NUL before": (b"\0" + record, ORDERS),
        "a line's end before": (b"\r\n", record, ORDERS),
        "a record of no type": (b"\x63\x03\x03\x00\x05hello", ORDERS),
        "a record of 64 KB": (b"\x16\x03\x01\xff\xff" + b"\x01" * 65535, ORDERS),
        "records without content": (b"\x16\x03\x01\x00\x00" * 2000, ORDERS),
        "an alert": (b"\x15\x03\x01\x00\x02\x02\x28", ORDERS),
        "application data": (b"\x17\x03\x03\x00\x20" + b"P" * 32, ORDERS),
        "SSL 2": (b"\x80\x2e\x01\x00\x02" + b"\0" * 43, ORDERS),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return Files(authority, authority.issue("server"), authority.issue("client"))


def answer_to(server: servers.Server, segments: tuple[bytes, ...]) -> bytes:
    """All that comes until the connection ends."""
    found = b""
    with plain(server) as sock, contextlib.suppress(ConnectionError):
        sock.settimeout(10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for segment in segments:
            sock.sendall(segment)
            time.sleep(0.02)
        while part := sock.recv(65536):
            found += part
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", servers.KINDS)
def test_nothing_in_plain_text_is_carried_out(kind: str, mode: str, files: Files) -> None:
    """Neither a login nor an order; the connection ends, and who comes with a handshake is served."""
    opened = serving_first(kind, files, mode) if mode else serving(kind, files)
    with opened as server, shaken(plain(server), files.trusting()) if mode else plain(server) as hears:
        if not mode:
            while b"INFO" not in hears.recv(4096):
                pass
            hears = files.trusting().wrap_socket(hears, server_hostname="localhost")
        hears.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
        heard = b""
        while b"PONG" not in heard:
            heard += hears.recv(65536)
        for name, segments in attacks(hello(files)).items():
            answered = answer_to(server, segments)
            # Whole lines: what is encrypted has any three bytes once in a while.
            assert b"PONG\r\n" not in answered, name
            assert b"MSG " not in answered, name
            assert b"+OK\r\n" not in answered, name
        hears.sendall(b"PUB over 0\r\n\r\n")
        heard = b""
        while b"MSG over" not in heard:
            heard += hears.recv(65536)
        assert b"forbidden" not in heard
        assert "forbidden" not in server.log
        hears.close()
