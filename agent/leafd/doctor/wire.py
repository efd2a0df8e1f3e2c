"""One connection to a NATS server with trio, as a client or as a leaf: messages, requests.

    line = await Line.to(host, port)      TCP; bounded reads of lines and payloads
    await line.secure(context, name)      TLS from here on
    head = await line.ask(request)        an HTTP request; line.framed(): WebSocket from here on
    session = Session(line, leaf=True)    after the login: run() reads, publish(), subscribe(), request()

What comes from the other side is hostile: every line and payload has a bound, and End is the only exception.
Not here: what a line or a message is (wire_client), and what is said at a login (hub.py, local.py).
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import trio

from leafd.doctor.frames import Frames, NoFrames
from leafd.wire_client import (
    Incoming,
    Limits,
    Line as Said,
    Malformed,
    Message,
    frame_publish,
    frame_subscribe,
    info_of as read_info,
)

LIMITS: Final = Limits(line=1 << 20, message=8 << 20)
"""An INFO with many addresses is long."""
HEAD_MAX: Final = 64 << 10
ANSWERS_MAX: Final = 64
"""Answers that wait for their asker; more are dropped."""
INTEREST_MAX: Final = 20_000


Found = TypeVar("Found")


class End(Exception):
    """The other side ended the conversation, or said what nobody can understand. The text says how."""


class TlsEnd(End):
    """The connection was ended by a TLS alert. In TLS 1.3 that comes after the handshake."""


class Line:
    """Bytes to lines."""

    def __init__(self, stream: trio.abc.Stream, *, leaf: bool = False) -> None:
        self._stream = stream
        self._incoming = Incoming(LIMITS, leaf=leaf)
        self._saying = trio.Lock()
        self._cut = False
        """Something was said in part."""

    @classmethod
    async def to(cls, host: str, port: int) -> Line:
        """Connects. Raises OSError."""
        return cls(await trio.open_tcp_stream(host, port))

    async def secure(self, context: ssl.SSLContext, name: str) -> bytes:
        """TLS from here on, with a server that has to be called this. The certificate that it showed, as DER. Raises
        ssl.SSLError, OSError."""
        stream = trio.SSLStream(self._stream, context, server_hostname=name, https_compatible=True)
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
            raise ConnectionResetError("the other side closed the connection") from None
        self._stream = stream
        self._incoming.clear()
        return stream.getpeercert(binary_form=True) or b""

    async def ask(self, request: bytes) -> bytes:
        """An HTTP request; the answer's head, or the first line of what is no HTTP. Raises End."""
        await self.say(request)
        head = await self.line()
        if head.startswith("HTTP/"):
            while line := await self.line():
                head += f"\r\n{line}"
                if len(head) > HEAD_MAX:
                    raise End("the head of its HTTP answer has no end")
        return f"{head}\r\n\r\n".encode("latin-1", "replace")

    def framed(self) -> None:
        """WebSocket from here on."""
        self._stream = Frames(self._stream, self._incoming.clear())

    async def _more(self) -> None:
        try:
            data = await self._stream.receive_some(65536)
        except NoFrames as error:
            raise End(str(error)) from error
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            if isinstance(error.__cause__, ssl.SSLError) and error.__cause__.reason:
                raise TlsEnd(error.__cause__.reason.lower().replace("_", " ")) from error
            raise End("the connection broke") from error
        if not data:
            raise End("the other side closed the connection")
        self._incoming.feed(data)

    async def line(self) -> str:
        """The next line, without its end. Raises End."""
        return (await self._next(self._incoming.line)).decode("utf-8", "replace")

    async def event(self) -> Message | Said:
        """The next message, or a line that is none. Raises End."""
        return await self._next(self._incoming.event)

    async def _next(self, take: Callable[[], Found | None]) -> Found:
        try:
            while (found := take()) is None:
                await self._more()
        except Malformed as error:
            raise End(str(error)) from None
        return found

    def as_leaf(self, leaf: bool) -> None:
        """Messages are those of a leaf from here on, or a client's."""
        self._incoming.leaf = leaf

    async def say(self, data: bytes) -> None:
        """Sends the data, one sender after the other. Raises End."""
        try:
            async with self._saying:
                if self._cut:
                    raise End("the connection broke")
                self._cut = True
                await self._stream.send_all(data)
                self._cut = False
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            raise End("the connection broke") from error

    async def close(self) -> None:
        """Without a word."""
        await trio.aclose_forcefully(self._stream)


def verb(line: str) -> tuple[str, str]:
    """The first word in capitals, and the rest."""
    word, _, rest = line.partition(" ")
    return word.upper(), rest.strip()


def info_of(rest: str) -> dict[str, Any]:
    """The fields of an INFO. Raises End."""
    try:
        return read_info(rest)
    except Malformed as error:
        raise End(str(error)) from None


class Session:
    """A connection that is logged in. run() has to run beside the task that uses it."""

    def __init__(self, line: Line, *, leaf: bool) -> None:
        self._line = line
        self._line.as_leaf(leaf)
        self._leaf = leaf
        self._waiting: dict[str, trio.MemorySendChannel[Message]] = {}
        self._numbers: dict[int, str] = {}
        self._pongs: list[trio.Event] = []
        self.interest: set[str] = set()
        """A leaf's: the subjects that the other side wants to be told."""
        self.errors: list[str] = []
        self.ended = ""
        """Why it is over."""

    async def run(self) -> None:
        """Reads until the connection ends."""
        try:
            while True:
                await self._take(await self._line.event())
        except End as error:
            self.ended = str(error)
        finally:
            for channel in self._waiting.values():
                channel.close()
            for pong in self._pongs:
                pong.set()
            with trio.CancelScope(shield=True):
                await self._line.close()

    async def _take(self, found: Message | Said) -> None:
        if isinstance(found, Message):
            self._hand_on(found)
            return
        word, rest = found
        if word == "PING":
            await self._line.say(b"PONG\r\n")
        elif word == "PONG" and self._pongs:
            self._pongs.pop(0).set()
        elif word == "-ERR" and len(self.errors) < ANSWERS_MAX:
            self.errors.append(rest.strip("'"))
        elif word == "LS+" and len(self.interest) < INTEREST_MAX:
            self.interest.add(rest.split(" ")[0])
        elif word == "LS-":
            self.interest.discard(rest.split(" ")[0])

    def _hand_on(self, message: Message) -> None:
        key = message.subject if self._leaf else self._numbers.get(message.number, "")
        channel = self._waiting.get(key)
        if channel is not None:
            try:
                channel.send_nowait(message)
            except (trio.WouldBlock, trio.BrokenResourceError):
                pass  # nobody waits for it any more

    async def close(self) -> None:
        """Closes a session that is not read any more."""
        await self._line.close()

    async def subscribe(self, subject: str) -> trio.MemoryReceiveChannel[Message]:
        """A receiver of the messages published to a subject without wildcards, from the moment at which the other side
        knows the subscription. Raises End."""
        sending, receiving = trio.open_memory_channel[Message](ANSWERS_MAX)
        self._waiting[subject] = sending
        number = len(self._numbers) + 1
        self._numbers[number] = subject
        await self._line.say(frame_subscribe(subject, number, leaf=self._leaf))
        await self.settled()
        return receiving

    async def settled(self) -> None:
        """The other side has taken all that was said. Raises End."""
        if self.ended:
            raise End(self.ended)
        pong = trio.Event()
        self._pongs.append(pong)
        await self._line.say(b"PING\r\n")
        await pong.wait()
        if self.ended:
            raise End(self.ended)

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """Raises End."""
        await self._line.say(frame_publish(subject, reply, b"", payload, leaf=self._leaf))

    async def answers(self, subject: str, payload: bytes, *, wait_s: float, more_s: float) -> list[Message]:
        """The answers to a request: the first that comes in time, and those that come soon after it. Raises End."""
        reply, found = f"_INBOX.{token()}", list[Message]()
        with trio.move_on_after(wait_s) as scope:
            channel = await self.subscribe(reply)
            await self.publish(subject, payload, reply)
            try:
                async for message in channel:
                    if not found:
                        scope.deadline = trio.current_time() + more_s
                    found.append(message)
                    if not more_s:
                        break
            finally:
                self._waiting.pop(reply, None)
        if not found and self.ended:
            raise End(self.ended)
        return found


def token() -> str:
    """A word that nobody else uses."""
    return secrets.token_hex(10)
