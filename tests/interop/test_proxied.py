"""The PROXY protocol in front of the clients' port, both versions: whom connz shows, what is refused, as nats-server
does; HAProxy's specification tells the headers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest

from tests import servers
from tests.certificates import Authority
from tests.rig.waiting import eventually

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
proxy_protocol: true
"""
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V4 = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + (40_001).to_bytes(2, "big") + (4222).to_bytes(2, "big")
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + (40_002).to_bytes(2, "big") + (4222).to_bytes(2, "big")
MAPPED = socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.9") * 2 + (40_003).to_bytes(2, "big") + bytes(2)


def second(rest: bytes, *, command: int = 0x21, family: int = 0x11) -> bytes:
    """A header of version 2."""
    return SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2, "big") + rest


def connections(server: servers.Server) -> list[tuple[str, int]]:
    url = f"http://127.0.0.1:{server.ports['monitor_port']}/connz?limit=4096"  # without it 1,024 of them
    with urllib.request.urlopen(url, timeout=60) as answer:
        return [(one["ip"], one["port"]) for one in json.load(answer)["connections"]]


def line_of(stream: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\r\n"):
        piece = stream.recv(1)
        if not piece:
            return found
        found += piece
    return found


def speak(stream: socket.socket, header: bytes, pieces: int) -> dict[str, Any]:
    """Logs in behind a header that comes in pieces of that size; returns the first INFO."""
    stream.settimeout(10)
    for at in range(0, len(header), pieces):
        stream.sendall(header[at : at + pieces])
        time.sleep(0.005 if pieces < 20 else 0)
    info = line_of(stream)
    stream.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert b"PONG\r\n" == line_of(stream)
    return dict(json.loads(info[5:]))


GOOD = [
    (b"PROXY TCP4 192.0.2.1 198.51.100.2 40001 4222\r\n", ("192.0.2.1", 40_001)),
    (b"PROXY TCP6 2001:db8::7 2001:db8::8 40002 4222\r\n", ("2001:db8::7", 40_002)),
    (b"PROXY TCP6 ::ffff:192.0.2.9 ::1 40003 4222\r\n", ("192.0.2.9", 40_003)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ff:: x 1 2\r\n", None),
    (second(V4), ("192.0.2.1", 40_001)),
    (second(V4 + bytes(700)), ("192.0.2.1", 40_001)),
    (second(V6, family=0x21), ("2001:db8::7", 40_002)),
    (second(MAPPED, family=0x21), ("192.0.2.9", 40_003)),
    (second(b"", command=0x20, family=0), None),
    (second(V4, command=0x20), None),
    (second(b"anything", family=0x01), None),
    (b"", None),
]


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_connections_have_the_address_that_the_proxy_tells(kind: str, pieces: int) -> None:
    """However the header comes; health checks, and who sends no header, keep their own. INFO names none."""
    with servers.running(kind, CONFIGURATION) as server:
        for header, expected in GOOD:
            if pieces == 1 and len(header) > 200:
                continue
            # (What came before may still be listed: at first that which asked whether the server speaks.)
            eventually(lambda: not connections(server), lambda: connections(server))
            with socket.create_connection(("127.0.0.1", server.port)) as stream:
                own = stream.getsockname()[:2]
                assert "client_ip" not in speak(stream, header, pieces)
                assert [expected or own] == connections(server)


BAD = [
    b"PROXY \r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.2 40001\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.2 40001 4222 5\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.256 40001 4222\r\n",
    b"PROXY TCP4 2001:db8::7 2001:db8::8 40002 4222\r\n",
    b"PROXY TCP6 192.0.2.1 198.51.100.2 40001 4222\r\n",
    b"PROXY UDP4 192.0.2.1 198.51.100.2 40001 4222\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.2 70000 4222\r\n",
    b"PROXY TCP4 192.0.2.1 198.51.100.2 -1 4222\r\n",
    b"PROXY " + b"x" * 200,
    b"\r\n\r\n\0\rxQUIT\n" + bytes(100),
    second(V4, command=0x11),
    second(V4, command=0x22),
    second(V4, family=0x12),
    second(V4, family=0x31),
    second(V4[:8]),
    second(V6[:30], family=0x21),
]


def told(server: servers.Server) -> int:
    """But for the connections of tests/servers.py, which end without a word."""
    return server.log.count("Error reading PROXY protocol header from 127.0.0.1:") - server.log.count(": EOF")


def more_told(server: servers.Server, before: int) -> bool:
    return told(server) > before


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_bad_header_ends_the_connection_with_one_line(kind: str) -> None:
    """The log says whose it was and what is wrong; the client is told nothing but INFO."""
    with servers.running(kind, CONFIGURATION) as server:
        for header in BAD:
            before = told(server)
            with socket.create_connection(("127.0.0.1", server.port)) as stream:
                stream.settimeout(10)
                stream.sendall(header)
                said = b""
                with contextlib.suppress(ConnectionResetError):
                    while piece := stream.recv(4096):
                        said += piece
            assert said.count(b"\r\n") == said.count(b"INFO"), (header, said)
            eventually(partial(more_told, server, before), f"nothing is told of {header!r}")
            assert before + 1 == told(server), (header, server.log[-600:])


def test_a_half_header_is_waited_for_some_seconds() -> None:
    """It has five, as in nats-server."""
    with (
        servers.running(servers.LEAFD, CONFIGURATION + "authorization { timeout: 60 }\n") as server,
        socket.create_connection(("127.0.0.1", server.port)) as stream,
    ):
        stream.settimeout(15)
        begun = time.monotonic()
        stream.sendall(b"PROXY TCP4 192.0.2.1")
        with contextlib.suppress(ConnectionResetError):
            while stream.recv(4096):
                pass
        assert 4 < time.monotonic() - begun < 12
        eventually(lambda: told(server) != 0, "nothing is told of it")
        assert told(server) == 1


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("header", [GOOD[0][0], second(V4 + bytes(40)), b""])
@pytest.mark.parametrize("more", ["", "allow_non_tls: true"])
def test_tls_begins_behind_the_header(kind: str, header: bytes, more: str, tmp_path: Path) -> None:
    """INFO, header, handshake; the address is the one that the header tells."""
    authority = Authority(tmp_path)
    own = authority.issue("server")
    tls = f"tls {{ cert_file: '{own.certificate}', key_file: '{own.key}', timeout: 10 }}\n{more}\n"
    with servers.running(kind, CONFIGURATION + tls) as server:
        raw = socket.create_connection(("127.0.0.1", server.port))
        raw.settimeout(10)
        raw.sendall(header)
        assert line_of(raw).startswith(b"INFO ")
        context = ssl.create_default_context(cafile=str(authority.certificate))
        with context.wrap_socket(raw, server_hostname="localhost") as stream:
            stream.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            assert b"PONG\r\n" == line_of(stream)
            expected = ("192.0.2.1", 40_001) if header else stream.getsockname()[:2]
            assert [expected] == connections(server)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_an_official_client_needs_no_proxy(kind: str) -> None:
    """nats-py comes straight to the port."""
    with servers.running(kind, CONFIGURATION) as server:
        asyncio.run(straight(server.url))


async def straight(url: str) -> None:
    client = await nats.connect(url)
    heard = await client.subscribe("x")
    await client.publish("x", b"1")
    assert b"1" == (await heard.next_msg(timeout=5)).data
    await client.close()
