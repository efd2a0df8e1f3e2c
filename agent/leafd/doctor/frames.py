"""WebSocket frames of the side that dialled, around a stream of bytes: what is sent goes out in masked frames, what
comes in frames is handed on, pings are answered.

Nothing is compressed, since nobody asks for it. What comes from the other side is hostile: nothing is kept but a
frame's head, a control frame, and what one read has brought. Not here: the request before the frames
(hub_web.py).
"""

from __future__ import annotations

import secrets
from typing import Final

import trio

from leafd.quoting import quoted

READ: Final = 65536
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_FINAL, _MASKED, _RESERVED, _KIND = 0x80, 0x80, 0x70, 0x0F
_CONTROL_MAX: Final = 125


class NoFrames(trio.BrokenResourceError):
    """The other side ended it, or does not speak WebSocket. The text says how."""


class Frames(trio.abc.Stream):
    """The bytes that are in frames."""

    def __init__(self, stream: trio.abc.Stream, read: bytes = b"") -> None:
        """read: what was read of the stream already."""
        self._stream = stream
        self._buffer = bytearray(read)
        self._left = 0
        """Bytes left of the frame that is being read."""
        self._saying = trio.Lock()

    async def _say(self, kind: int, data: bytes) -> None:
        size = len(data)
        if size <= _CONTROL_MAX:
            length = bytes([_MASKED | size])
        elif size < 1 << 16:
            length = bytes([_MASKED | 126]) + size.to_bytes(2, "big")
        else:
            length = bytes([_MASKED | 127]) + size.to_bytes(8, "big")
        mask = secrets.token_bytes(4)
        async with self._saying:
            await self._stream.send_all(bytes([_FINAL | kind]) + length + mask + masked(data, mask))

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Sends the data in one frame."""
        await self._say(BINARY, bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        """As of the stream below."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Without a word."""
        await self._stream.aclose()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Some of what comes in frames, b"" at the end of the stream below. Raises NoFrames."""
        try:
            while not self._left:
                await self._head()
            if not self._buffer:
                await self._need(1)
        except EOFError:
            return b""
        size = min(self._left, len(self._buffer), max_bytes or READ)
        self._left -= size
        return self._take(size)

    async def _need(self, size: int) -> None:
        while len(self._buffer) < size:
            data = await self._stream.receive_some(READ)
            if not data:
                raise EOFError
            self._buffer += data

    def _take(self, size: int) -> bytes:
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    async def _head(self) -> None:
        await self._need(2)
        first, size = self._take(2)
        kind = first & _KIND
        if first & _RESERVED or size & _MASKED or kind not in (CONTINUED, TEXT, BINARY, CLOSE, PING, PONG):
            raise NoFrames("what comes is no WebSocket frame of a server")
        if kind >= CLOSE:
            if size > _CONTROL_MAX or not first & _FINAL:
                raise NoFrames("what comes is no WebSocket frame of a server")
            await self._need(size)
            await self._control(kind, self._take(size))
            return
        if size > _CONTROL_MAX:
            more = 2 if size == 126 else 8
            await self._need(more)
            size = int.from_bytes(self._take(more), "big")
        self._left = size

    async def _control(self, kind: int, data: bytes) -> None:
        if kind == PING:
            await self._say(PONG, data)
        elif kind == CLOSE:
            why = data[2:].decode("utf-8", "replace")
            raise NoFrames(f"the other side closed the connection{f': {quoted(why)}' if why else ''}")


def masked(data: bytes, mask: bytes) -> bytes:
    """Under a mask of four bytes, or out of it."""
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")
