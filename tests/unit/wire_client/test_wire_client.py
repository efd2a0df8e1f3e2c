"""A client's side of the protocol without a socket: what is a message, what isn't, and where it ends, however the
bytes arrive. What they are cut into is compared with what nats-server sends."""

from __future__ import annotations

import itertools
import socket

import pytest
from hypothesis import given, strategies
from leafd.wire_client import (
    Incoming,
    Limits,
    Line,
    Malformed,
    Message,
    frame_connect,
    frame_publish,
    frame_subscribe,
    header_of,
    info_of,
    status_of,
)

from tests import servers

LIMITS = Limits(line=4096, message=65536)
HEADERS = b"NATS/1.0 503\r\nNats-Stream: S\r\n\r\n"


def events(said: bytes, cuts: list[int], *, leaf: bool = False) -> list[Message | Line]:
    """What comes out when the bytes come in such pieces."""
    incoming, found = Incoming(LIMITS, leaf=leaf, room=16), []
    places = sorted({min(cut, len(said)) for cut in cuts} | {0, len(said)})
    for start, end in itertools.pairwise(places):
        incoming.feed(said[start:end])
        while (event := incoming.event()) is not None:
            found.append(event)
    assert incoming.clear() == b""
    return found


@given(strategies.lists(strategies.integers(0, 400)))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    """Messages with and without headers and reply, empty ones, lines between them."""
    said = b"INFO {}\r\nMSG a 1 2\r\nhi\r\nPING\r\nMSG a.b 12 re.ply 0\r\n\r\n-ERR 'no, never'\r\n"
    said += b"HMSG a 1 r %d %d\r\n%b\r\nhi\r\n+OK\r\n" % (len(HEADERS), len(HEADERS) + 4, HEADERS)
    wanted = [
        Line("INFO", "{}"),
        Message("a", 1, "", b"", b"hi"),
        Line("PING", ""),
        Message("a.b", 12, "re.ply", b"", b""),
        Line("-ERR", "'no, never'"),
        Message("a", 1, "r", HEADERS, b"\r\nhi"),
        Line("+OK", ""),
    ]
    assert wanted == events(said, cuts)


def test_a_leaf_is_told_replies_and_queues() -> None:
    """Each form that LMSG has."""
    said = b"LMSG a 0\r\n\r\nLMSG a r 0\r\n\r\nLMSG a + r q p 0\r\n\r\nLMSG a | q 0\r\n\r\nLS+ a.> q 1\r\n"
    wanted = [Message("a", 0, reply, b"", b"") for reply in ("", "r", "r", "")]
    assert [*wanted, Line("LS+", "a.> q 1")] == events(said, [], leaf=True)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"MSG a 1\r\n", "understood"),
        (b"MSG a x 1\r\n", "understood"),
        (b"MSG a 1 r more 1\r\n", "understood"),
        (b"MSG a 1 -1\r\n", "understood"),
        (b"MSG a 1 +1\r\n", "understood"),
        ("MSG a 1 ٣\r\n".encode(), "understood"),
        (b"HMSG a 1 5\r\n", "understood"),
        (b"HMSG a 1 6 5\r\n", "understood"),
        (b"MSG a 1 65537\r\n", "too large"),
        (b"MSG a 1 99999999999999999999\r\n", "understood"),
        (b"MSG a 1 2\r\nhi!\r\n", "longer"),
        (b"x" * 4097, "no end"),
        (b"x" * 4097 + b"\r\n", "no end"),
    ],
)
def test_what_cannot_be_understood_is_malformed(said: bytes, why: str) -> None:
    """Words that are missing or too many, numbers that are none, sizes beyond the limits: before any of it is kept."""
    incoming = Incoming(LIMITS)
    incoming.feed(said)
    with pytest.raises(Malformed, match=why):
        incoming.event()


@given(strategies.binary(max_size=200), strategies.booleans())
def test_any_bytes_are_events_or_malformed(said: bytes, leaf: bool) -> None:
    """Nothing else comes of them, and no more is kept than came."""
    incoming = Incoming(Limits(line=64, message=64), leaf=leaf, room=16)
    try:
        for at in range(len(said)):
            incoming.feed(said[at : at + 1])
            while incoming.event() is not None:
                pass
            assert len(incoming.buffer) <= 512
    except Malformed:
        pass


def test_frames() -> None:
    """PUB without headers, HPUB with them, a reply only where there is one; a leaf's have words of their own."""
    assert b"PUB a b 2\r\nhi\r\n" == frame_publish("a", "b", b"", b"hi")
    assert b"PUB a 0\r\n\r\n" == frame_publish("a", "", b"", b"")
    assert b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" == frame_publish("a", "", b"NATS/1.0\r\n\r\n", b"hi")
    assert b"LMSG a b 2\r\nhi\r\n" == frame_publish("a", "b", b"", b"hi", leaf=True)
    assert b"HMSG a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" == frame_publish("a", "", b"NATS/1.0\r\n\r\n", b"hi", leaf=True)
    assert (b"SUB a.* 7\r\n", b"LS+ a\r\n") == (frame_subscribe("a.*", 7), frame_subscribe("a", 7, leaf=True))


def test_headers() -> None:
    """A status is in the version line or nowhere; a field is found by its name."""
    assert [503, 0, 0] == [status_of(block) for block in (HEADERS, b"NATS/1.0\r\nStatus: 503\r\n\r\n", b"")]
    assert (b"S", b"") == (header_of(HEADERS, b"Nats-Stream"), header_of(HEADERS, b"Nats-Str"))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_an_info_that_is_no_object_is_malformed(text: str) -> None:
    """A JSON object, or nothing."""
    with pytest.raises(Malformed, match="INFO"):
        info_of(text)


def test_a_server_s_messages_are_what_was_published() -> None:
    """Through nats-server: headers, replies, a subject with a blank of another script, 300 sizes."""
    sizes = [*range(200), *range(1000, 50_000, 490)]
    with (
        servers.running(servers.REFERENCE, "listen: 127.0.0.1:{port}\n") as server,
        socket.create_connection(("127.0.0.1", server.port), 60) as wire,
    ):
        incoming = Incoming(LIMITS)

        def event() -> Message | Line:
            while (found := incoming.event()) is None:
                incoming.feed(wire.recv(4096))
            return found

        info = event()
        assert isinstance(info, Line)
        assert "max_payload" in info_of(info.rest)
        wire.sendall(frame_connect("test", {}) + frame_subscribe("s.>", 5))
        for size in sizes:
            wire.sendall(frame_publish("s.a\u00a0b", "r", HEADERS if size % 2 else b"", b"x" * size))
            found = event()
            while not isinstance(found, Message):
                assert found.verb in ("PONG", "PING", "INFO")
                found = event()
            assert Message("s.a\u00a0b", 5, "r", HEADERS if size % 2 else b"", b"x" * size) == found
