"""What strangers do to the WebSocket listener before a login: broken frames, asked of leafd and nats-server alike, and
floods, of which leafd says what they cost: memory, and how long others wait."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
import zlib

import pytest

from tests import servers
from tests.interop.test_websocket_told import SECONDS_MAX, Browser
from tests.rig.stopwatch import waited_s

pytestmark = pytest.mark.anew  # its memory is looked at

USERS = "accounts { A { users: [ {user: a, password: a} ] } }\n"
BLOCK = "websocket { port: {web_port}, no_tls: true, compression: true, handshake_timeout: '3s' }\n"
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"
MASK = bytes(4)
PROTOCOL_ERROR = 1002
TURN_MS_MAX = 40.0
"""A bomb that is unpacked whole takes some hundred. A shared machine takes some of a turn even from who is first."""
CROWD = 1_000
CROWD_BYTES_MAX = 48 << 20
"""For a thousand connections of which each has sent 16 KB of a head, with what the kernel does not count."""

BROKEN: dict[str, bytes] = {
    "no mask": b"\x82\x04PING",
    "part of a ping": b"\x09\x80" + MASK,
    "a ping of 126 bytes": b"\x89\xfe\x00\x7e" + MASK + bytes(126),
    "a reserved bit": b"\xa2\x84" + MASK + b"PING",
    "an opcode that is none": b"\x83\x84" + MASK + b"PING",
    "the middle of no message": b"\x80\x84" + MASK + b"PING",
    "a message in a message": b"\x02\x81" + MASK + b"P\x82\x81" + MASK + b"I",
}
"""Each what a frame may not be."""


def ends(browser: Browser) -> bytes:
    """All that comes until the server closes."""
    heard = browser.until(b"\0never\0")
    browser.close()
    return heard


@pytest.mark.parametrize("kind", servers.KINDS)
def test_broken_frames_end_the_connection_with_the_reason(kind: str) -> None:
    """Before a login a frame that is none ends its connection at once, and leafd's close frame says why."""
    with servers.running(kind, "port: {port}\n" + BLOCK + USERS) as server:
        for name, frame in BROKEN.items():
            browser = Browser(server.ports["web_port"])
            browser.info()
            began = time.monotonic()
            browser.stream.sendall(frame)
            heard = ends(browser)
            assert time.monotonic() - began < SECONDS_MAX, name
            close = heard.rindex(b"\r\n") + 2
            if kind == servers.REFERENCE:
                continue  # it does not always say why, and sometimes that it was the login
            status = int.from_bytes(heard[close + 2 : close + 4], "big")
            assert (heard[close], status) == (0x88, PROTOCOL_ERROR), name


def report(server: servers.Server) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/varz", timeout=30) as answer:
        found: dict[str, float] = json.load(answer)["leafd"]
    return found


def bomb() -> bytes:
    """A frame of 100 KB that becomes a line of 100 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"CONNECT " + b"x" * (100 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    packed = packed[:-4]
    return b"\xc2\xff" + len(packed).to_bytes(8, "big") + MASK + packed


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\nX: "


def test_floods_before_a_login_are_bounded_and_keep_nobody_waiting() -> None:
    """A thousand heads that never end, bombs, frames that announce half the world and send a few bytes: memory stays
    within what was sent, no turn of the loop takes 40 ms, and a client is served meanwhile."""
    text = "port: {port}\nhttp: '127.0.0.1:{http_port}'\n" + BLOCK + USERS
    with servers.running(servers.LEAFD, text) as server:
        port = server.ports["web_port"]
        server.put_plane_first()
        Browser(port, DEFLATE).close()  # what the first one costs is no flood's
        before, waited = server.memory_bytes("RssAnon"), waited_s(server.plane_task())
        slow = []
        for _ in range(CROWD):
            stream = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
            stream.sendall(HEAD + b"y" * 16_000)
            slow.append(stream)
        assert server.memory_bytes("RssAnon") - before < CROWD_BYTES_MAX
        explosive, announced = bomb(), b"\x82\xff" + (1 << 62).to_bytes(8, "big") + MASK + b"CONN"
        for frame in (explosive, announced) * 10:
            browser = Browser(port, DEFLATE)  # whose INFO comes compressed
            try:
                browser.stream.sendall(frame)
            except ConnectionError:  # it was refused before it was sent
                continue
            slow.append(browser.stream)
        client = Browser(port)
        client.info()
        client.say('CONNECT {"user":"a","pass":"a","verbose":false}\r\nPING\r\n')
        assert b"PONG" in client.until(b"PONG", b"-ERR")
        client.close()
        assert server.memory_bytes("RssAnon") - before < CROWD_BYTES_MAX
        found, waited = report(server), waited_s(server.plane_task()) - waited
        assert found["longest_tick_ms"] < TURN_MS_MAX + waited * 1000
        assert found["unexpected_errors"] == 0
        for stream in slow:
            stream.close()
