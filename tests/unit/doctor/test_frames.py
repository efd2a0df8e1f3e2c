"""WebSocket frames as the doctor speaks them, with a server that says what it wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from leafd.doctor import hub_web
from leafd.doctor.frames import Frames, NoFrames, masked
from leafd.doctor.wire import End, Line
from leafd.links.web import Asked, ask
from leafd.web_head import accept_key

from tests.rig.waiting import PATIENCE_S


def conversation(play: Callable[[Frames, trio.abc.Stream], Awaitable[None]]) -> None:
    """Frames, and the other end of their connection."""

    async def run() -> None:
        near, far = trio.testing.memory_stream_pair()
        with trio.fail_after(PATIENCE_S):
            await play(Frames(near), far)

    trio.run(run)


def frame(kind: int, data: bytes, *, final: bool = True) -> bytes:
    """As a server sends it; RFC 6455, 5.2."""
    size = len(data)
    if size < 126:
        length = bytes([size])
    elif size < 1 << 16:
        length = bytes([126]) + size.to_bytes(2, "big")
    else:
        length = bytes([127]) + size.to_bytes(8, "big")
    return bytes([0x80 * final | kind]) + length + data


@pytest.mark.parametrize("pieces", [1, 5, 100_000])
def test_what_comes_in_frames_is_handed_on_whole_however_it_is_cut(pieces: int) -> None:
    """Small and large frames, parts of one message, empty ones, and a ping between them, which is answered."""
    payload = bytes(range(256)) * 300
    said = frame(2, b"INFO") + frame(2, b"", final=False) + frame(0, b" {}\r\n") + frame(9, b"hi") + frame(1, payload)
    wanted = b"INFO {}\r\n" + payload

    async def play(frames: Frames, far: trio.abc.Stream) -> None:
        async def say() -> None:
            for at in range(0, len(said), pieces):
                await far.send_all(said[at : at + pieces])

        heard = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            while len(heard) < len(wanted):
                heard += await frames.receive_some()
        assert wanted == heard
        pong = bytes(await far.receive_some())
        assert (b"\x8a\x82", b"hi") == (pong[:2], masked(pong[6:], pong[2:6]))

    conversation(play)


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536, 200_000])
def test_what_is_sent_is_one_masked_frame(size: int) -> None:
    """The length in the shortest form that holds it, as RFC 6455 wants."""
    payload = bytes(at % 251 for at in range(size))

    async def play(frames: Frames, far: trio.abc.Stream) -> None:
        await frames.send_all(payload)
        await frames.aclose()
        heard = b""
        while more := await far.receive_some():
            heard += more
        plain = frame(2, payload)
        head = len(plain) - size
        assert plain[:1] + bytes([plain[1] | 0x80]) + plain[2:head] == heard[:head]
        assert payload == masked(heard[head + 4 :], heard[head : head + 4])

    conversation(play)


@pytest.mark.parametrize(
    "said",
    [
        b"\x82\x81abcdx",
        b"\xc2\x01x",
        b"\x83\x01x",
        b"\x8b\x00",
        b"\x09\x00",
        b"\x89\x7e\x00\x80" + bytes(128),
        b"HTTP/1.1 200 OK\r\n",
        frame(8, b"\x03\xf0over"),
        frame(8, b""),
    ],
)
def test_what_is_no_frame_of_a_server_ends_it(said: bytes) -> None:
    """A mask, bits and kinds that nobody agreed upon, control frames that are long or in parts, no frames at all, and
    the server's farewell."""

    async def play(frames: Frames, far: trio.abc.Stream) -> None:
        await far.send_all(said)
        with pytest.raises(NoFrames):
            while True:
                await frames.receive_some()

    conversation(play)


def test_a_frame_of_any_length_takes_no_memory_before_it_comes() -> None:
    """A head that tells of 2**63 bytes: what came is handed on, and the end of the connection is an end."""

    async def play(frames: Frames, far: trio.abc.Stream) -> None:
        await far.send_all(b"\x82\x7f\x7f" + b"\xff" * 7 + b"abc")
        await far.aclose()
        assert [b"abc", b""] == [bytes(await frames.receive_some()) for _ in range(2)]

    conversation(play)


def test_what_was_read_before_the_frames_belongs_to_them() -> None:
    """The hub's INFO may come in one piece with its answer to the request."""

    async def run() -> None:
        near, far = trio.testing.memory_stream_pair()
        line = Line(near)
        await far.send_all(b"HTTP/1.1 101 Switching Protocols\r\nA: b\r\n\r\n" + frame(2, b"INFO {}\r\n"))
        with trio.fail_after(PATIENCE_S):
            assert b"HTTP/1.1 101 Switching Protocols\r\nA: b\r\n\r\n" == await line.ask(b"GET\r\n\r\n")
            line.framed()
            assert "INFO {}" == await line.line()
            await far.send_all(frame(8, b"\x03\xe8\x1b[31mbye"))
            with pytest.raises(End, match="bye") as ended:
                await line.line()
            assert "\x1b" not in str(ended.value)

    trio.run(run)


def test_a_head_without_an_end_is_bounded() -> None:
    """A server that sends headers for ever is not listened to for ever."""

    async def run() -> None:
        near, far = trio.testing.memory_stream_pair()
        await far.send_all(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000)
        with trio.fail_after(PATIENCE_S), pytest.raises(End, match="no end"):
            await Line(near).ask(b"GET\r\n\r\n")

    trio.run(run)


def request() -> Asked:
    return ask("hub", 8080, "/x", compression=False, no_masking=False)


def test_the_hubs_own_answer_is_taken_and_anothers_is_not() -> None:
    """By the proof that the request was read."""
    asked = request()
    head = "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n"
    assert hub_web.judge(asked, head.format(accept_key(asked.key)).encode(), tls=False) is None
    assert hub_web.judge(asked, head.format(accept_key("another")).encode(), tls=False) is not None


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/", b"HTTP/1.1", b"HTTP/1.1 \xff\xff\r\n\r\n", b"\0\x15\x03", b"SSH-2.0-x"]
)
def test_any_first_line_is_judged(head: bytes) -> None:
    """What a stranger answers is never a mistake of the doctor."""
    found = hub_web.judge(request(), head + b"\r\n\r\n", tls=True)
    assert found is not None
    assert found.text
