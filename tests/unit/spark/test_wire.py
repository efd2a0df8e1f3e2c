"""The client's framing: what is a message, what isn't, and where it ends, however the bytes arrive."""

from __future__ import annotations

import pytest
from leafd.spark.wire import (
    LINES_KNOWN_MAX,
    Address,
    Connection,
    LineSizes,
    Login,
    NoResponders,
    Refused,
    Scan,
    WireError,
    frame_publish,
    parse_servers,
    scan_batch,
    status_of,
)

from tests import servers

# Recorded from nats-server 2.15.1: two answers of a direct get (one with a stored header) and the end of their batch.
FIRST_BLOCK = (
    b"NATS/1.0\r\nNats-Stream: B\r\nNats-Subject: b.1\r\nNats-Sequence: 2\r\n"
    b"Nats-Time-Stamp: 2026-11-21T05:41:55.904933874Z\r\nNats-Num-Pending: 3\r\nNats-Last-Sequence: 0\r\n\r\n"
)
SECOND_BLOCK = (
    b"NATS/1.0\r\nNats-Msg-Id: 2\r\nNats-Stream: B\r\nNats-Subject: b.2\r\nNats-Sequence: 3\r\n"
    b"Nats-Time-Stamp: 2026-11-21T05:41:55.904946833Z\r\nNats-Num-Pending: 2\r\nNats-Last-Sequence: 2\r\n\r\n"
)
END_OF_BATCH = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 2\r\nNats-Last-Sequence: 3\r\n\r\n"


def hmsg(block: bytes, payload: bytes) -> bytes:
    return b"HMSG I.x 1 %d %d\r\n%b%b\r\n" % (len(block), len(block) + len(payload), block, payload)


TRANSCRIPT = hmsg(FIRST_BLOCK, b"x" * 150) + hmsg(SECOND_BLOCK, b"y" * 150) + hmsg(END_OF_BATCH, b"")


def cut(data: bytes, scan: Scan) -> list[tuple[bytes, bytes]]:
    """Header block and payload of each message that a scan found."""
    spans = iter(scan.spans)
    return [(data[start:middle], data[middle:end]) for start, middle, end in zip(spans, spans, spans, strict=True)]


def test_a_batch_is_its_messages_and_the_status_that_ends_it() -> None:
    """A recorded batch is taken apart to the byte."""
    scan = Scan()
    assert scan_batch(bytearray(TRANSCRIPT), len(TRANSCRIPT), scan, LineSizes())
    assert [(FIRST_BLOCK, b"x" * 150), (SECOND_BLOCK, b"y" * 150)] == cut(TRANSCRIPT, scan)
    assert END_OF_BATCH == scan.status
    assert len(TRANSCRIPT) == scan.position


def test_a_batch_may_arrive_split_anywhere() -> None:
    """Split at every byte, the outcome is the same."""
    buffer = bytearray(TRANSCRIPT)
    for split in range(len(TRANSCRIPT)):
        scan, lines = Scan(), LineSizes()
        assert not scan_batch(buffer, split, scan, lines)
        assert scan_batch(buffer, len(buffer), scan, lines)
        assert [(FIRST_BLOCK, b"x" * 150), (SECOND_BLOCK, b"y" * 150)] == cut(TRANSCRIPT, scan)
        assert END_OF_BATCH == scan.status


def test_a_payload_may_look_like_the_protocol() -> None:
    """A payload of protocol lines and statuses is a payload."""
    payload = hmsg(END_OF_BATCH, b"") + b"PING\r\n-ERR 'no'\r\nHMSG I.x 1 0 0\r\n"
    data = hmsg(FIRST_BLOCK, payload) + hmsg(END_OF_BATCH, b"")
    scan = Scan()
    assert scan_batch(bytearray(data), len(data), scan, LineSizes())
    assert [(FIRST_BLOCK, payload)] == cut(data, scan)
    assert END_OF_BATCH == scan.status


def test_a_message_without_payload_is_no_status() -> None:
    """An empty message with headers belongs to the batch."""
    data = hmsg(FIRST_BLOCK, b"") + hmsg(END_OF_BATCH, b"")
    scan = Scan()
    assert scan_batch(bytearray(data), len(data), scan, LineSizes())
    assert [(FIRST_BLOCK, b"")] == cut(data, scan)


def test_a_control_line_within_a_batch_is_handed_out() -> None:
    """A PING between two messages stops the scan behind it, and the batch goes on afterwards."""
    data = hmsg(FIRST_BLOCK, b"a") + b"PING\r\n" + hmsg(SECOND_BLOCK, b"b") + hmsg(END_OF_BATCH, b"")
    scan, lines = Scan(), LineSizes()
    assert scan_batch(bytearray(data), len(data), scan, lines)
    assert (b"PING", b"") == (scan.control, scan.status)
    assert scan_batch(bytearray(data), len(data), scan, lines)
    assert [(FIRST_BLOCK, b"a"), (SECOND_BLOCK, b"b")] == cut(data, scan)


@pytest.mark.parametrize("line", [b"HMSG I.x 1 a b\r\n", b"HMSG\r\n", b"HMSG I.x 1 20 10\r\n", b"HMSG I.x 1 0 10\r\n"])
def test_sizes_that_cannot_be_end_the_connection(line: bytes) -> None:
    """A message line that makes no sense is an error, not a guess."""
    with pytest.raises(WireError):
        scan_batch(bytearray(line), len(line), Scan(), LineSizes())


def test_a_line_without_an_end_is_an_error() -> None:
    """Bytes that never become a line do not fill the memory."""
    with pytest.raises(WireError):
        scan_batch(bytearray(b"x" * 5000), 5000, Scan(), LineSizes())


def test_remembered_lines_are_bounded() -> None:
    """However many sizes a stream's messages have, only so many lines are remembered."""
    lines = LineSizes()
    for size in range(LINES_KNOWN_MAX * 2):
        assert (10, 10 + size) == lines.learn(b"HMSG I.x 1 10 %d" % (10 + size))
    assert len(lines.known) <= LINES_KNOWN_MAX


def test_server_addresses() -> None:
    """Scheme, login and port may be missing, and several addresses stand in one option."""
    found = parse_servers("nats://u:p%40@a:1, b ,tls://t@c")
    assert (
        Address("a", 1, False, Login("u", "p@")),
        Address("b", 4222, False, Login()),
        Address("c", 4222, True, Login(token="t")),
    ) == found
    for wrong in ("", "http://a", "nats://"):
        with pytest.raises(ValueError, match="address"):
            parse_servers(wrong)


def test_publish_frames() -> None:
    """PUB without headers, HPUB with them, and a reply only where there is one."""
    assert b"PUB a b 2\r\nhi\r\n" == frame_publish("a", "b", b"", b"hi")
    assert b"PUB a 0\r\n\r\n" == frame_publish("a", "", b"", b"")
    assert b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n" == frame_publish("a", "", b"NATS/1.0\r\n\r\n", b"hi")


def test_status_of_a_block() -> None:
    """A status is in the version line or nowhere."""
    assert 503 == status_of(b"NATS/1.0 503\r\n\r\n")
    assert 0 == status_of(FIRST_BLOCK)
    assert 0 == status_of(b"")


def test_a_request_gets_its_reply_and_a_lonely_one_is_told_so() -> None:
    """Against the reference server: an API request is answered, a subject nobody listens on fails at once."""
    with (
        servers.running(servers.REFERENCE, STREAMS) as server,
        Connection(parse_servers(server.url), Login(), "test") as connection,
    ):
        answer = connection.request_json("$JS.API.INFO", {})
        assert "io.nats.jetstream.api.v1.account_info_response" == answer["type"]
        with pytest.raises(NoResponders):
            connection.request("nobody.here", b"")


def test_a_wrong_password_is_refused_and_not_tried_again() -> None:
    """A login that the server rejects is told apart from a server that is away."""
    configuration = "listen: 127.0.0.1:{port}\nauthorization { user: a, password: b }\n"
    with servers.running(servers.REFERENCE, configuration) as server:
        with Connection(parse_servers(server.url), Login("a", "b"), "test") as connection:
            assert connection.info["auth_required"]
        with pytest.raises(Refused, match="Authorization Violation"):
            Connection(parse_servers(server.url), Login("a", "wrong"), "test")
    with pytest.raises(WireError) as failure:
        Connection(parse_servers(server.url), Login("a", "b"), "test")
    assert not isinstance(failure.value, Refused)


STREAMS = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
