"""A small synchronous NATS client over one socket, for Spark's executors and planner.

Here: dialling and the handshake, request and reply, and handing received bytes to a decoder. Not here:
lines and messages (`leafd.wire_client`), who we are (`identity`), what a decoder makes of the bytes (`decoder`), the
JetStream API (`fetch`), ranges (`reader`), acknowledgements of publishes (`publish`).

Why not the official client: a task reads one range front to back and has nothing to do meanwhile, so an event loop
buys nothing, and a Python object a message costs more than everything else in the pipeline together.

One connection has one owner and no lock. On a `WireError` the owner closes it and dials anew:
a connection that timed out in the midst of a batch has answers on their way that belong to nobody.
"""

from __future__ import annotations

import json
import random
import select
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from leafd.wire_client import (
    Incoming,
    Limits,
    Line,
    Malformed,
    Message,
    frame_connect,
    frame_publish,
    frame_subscribe,
    info_of,
)

from .identity import Login, NotIdentified

RECEIVE_BUFFER = 1 << 20  # where the receive buffer starts; it doubles while a message needs more
RECEIVE_BUFFER_MAX = 1 << 28
SOCKET_BUFFER = 4 << 20  # asked of the kernel, so that the server can go on sending while Arrow is built
# A long row of messages is received in pieces of so many bytes, or of what there is after so many milliseconds: waking
# a reader for each little that a server writes costs both of them.
PIECE = 256 << 10
PIECE_MS = 2
LINE_MAX = 16384  # of a row's first line, for decoders: longer than a server's max_control_line and what it adds
# An INFO of a large cluster is longer than other lines.
LIMITS = Limits(line=1 << 18, message=RECEIVE_BUFFER_MAX)
DEFAULT_PORT = 4222


class WireError(Exception):
    """The connection is of no use any more; dialling anew may help."""


class Refused(WireError):
    """The server said -ERR, or its configuration rules us out: dialling anew will not help."""


class Denied(Refused):
    """The user lacks a permission. The connection goes on, what was asked for was not done."""


class NoResponders(Exception):
    """The subject of a request has no listener (status 503)."""


class Verdict(IntEnum):
    """Why a decoder stopped."""

    MORE = 0  # what is left is the beginning of a message
    FULL = 1  # the next message does not fit any more
    STATUS = 2  # a message that is no row: the end of a batch, a heartbeat, an answer to something else
    CONTROL = 3  # a line that is no message


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    tls: bool
    login: Login


def parse_servers(text: str) -> tuple[Address, ...]:
    """The addresses of `nats://user:password@host:port,...`; scheme, login and port may be missing."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        url = urlsplit(part if "://" in part else f"nats://{part}")
        if url.scheme not in ("nats", "tls") or not url.hostname:
            raise ValueError(f"{part!r} is not a server address such as nats://host:4222")
        user, password = unquote(url.username or ""), unquote(url.password or "")
        # A lone name before the @ is a token, as every client has it.
        login = Login(user, password) if password else Login(token=user)
        found.append(Address(url.hostname, url.port or DEFAULT_PORT, url.scheme == "tls", login))
    if not found:
        raise ValueError("no server address given")
    return tuple(found)


class Decoder(Protocol):
    """The interface of a decoder that gathers rows out of received bytes; `decoder` says more."""

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]:
        """Take rows from buffer[start:end]; a Verdict, and the first byte that was not taken."""


def broken(error: OSError) -> WireError:
    """The error of a socket, as a WireError. Certificates that one side does not accept stay what they are."""
    text = f"the connection broke: {error}"
    return Refused(text) if isinstance(error, ssl.SSLError) and "CERTIFICATE" in str(error).upper() else WireError(text)


def _complaint(said: str) -> WireError:
    """The exception for an -ERR."""
    text = said.strip(" '")
    if text.startswith("Permissions Violation"):
        return Denied(f"the server's permissions for this user do not allow it: {text}")
    if any(word in text for word in ("Authorization", "Authentication", "Account", "Required")):
        return Refused(f"the server refuses the login: {text}")
    return WireError(f"the server said {text}")


class Intake(Incoming):
    """A socket's incoming bytes."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        super().__init__(LIMITS, room=RECEIVE_BUFFER)
        self.socket = connection
        self._timeout = timeout
        self._poll: select.poll | None = None  # there while it is received in pieces

    def in_pieces(self) -> None:
        """Receives large pieces from now on. (Not over TLS: the kernel does not know of what TLS has decrypted.)"""
        if sys.platform == "linux" and not isinstance(self.socket, ssl.SSLSocket):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PIECE)
            self._poll = select.poll()
            self._poll.register(self.socket, select.POLLIN)

    def receive(self) -> None:
        """Wait for at least one byte more."""
        if self.start == self.end:
            self.start = self.end = 0
        elif self.end > len(self.buffer) * 3 // 4:
            if self.end - self.start >= RECEIVE_BUFFER_MAX:
                raise WireError("a message larger than the receive buffer may become")
            self.make_room()
        try:
            small = self._poll is not None and not self._poll.poll(PIECE_MS)
            if small:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            with memoryview(self.buffer) as view:
                received = self.socket.recv_into(view[self.end :])
            if small:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PIECE)
        except TimeoutError:
            raise WireError(f"no answer within {self._timeout:g} s") from None
        except OSError as error:
            raise broken(error) from error
        if received == 0:
            raise WireError("the server closed the connection")
        self.end += received

    def next(self) -> Message | Line:
        """The next message or line, waited for."""
        try:
            while (found := self.event()) is None:
                self.receive()
        except Malformed as error:
            raise WireError(str(error)) from error
        return found


class Connection:
    """One dialled connection: `request` for the API, `collect` for batches, `next_message` for the rest."""

    def __init__(self, addresses: Sequence[Address], login: Login, name: str, timeout: float = 10.0) -> None:
        self.inbox = f"_INBOX.{random.getrandbits(96):024x}"
        self._next_request = 0
        self._timeout = timeout
        self._intake, self.info = _dial(addresses, login, name, timeout)
        # One wildcard subscription serves requests and batches alike.
        self.send(frame_subscribe(f"{self.inbox}.*", 1))

    @property
    def intake(self) -> Intake:
        """The bytes that came and were not consumed, for code that finds messages in them without this class."""
        return self._intake

    # -- bytes out --------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._intake.socket.sendall(data)
        except TimeoutError:
            raise WireError(f"could not send for {self._timeout:g} s") from None
        except OSError as error:
            raise broken(error) from error

    def subscribe(self, subject: str) -> None:
        """Subscribes to one more subject; the server knows it when this returns. Meanwhile nothing else is awaited."""
        self.send(frame_subscribe(subject, 2) + b"PING\r\n")
        while not isinstance(line := self._intake.next(), Line) or line.verb != "PONG":
            self._control(line)

    def next_reply_number(self) -> int:
        """A number that makes `inbox.<number>` a reply subject of its own."""
        self._next_request += 1
        return self._next_request

    def publish_request(self, subject: str, payload: bytes) -> str:
        """Publish with a fresh reply subject, which is returned."""
        reply = f"{self.inbox}.{self.next_reply_number()}"
        self.send(frame_publish(subject, reply, b"", payload))
        return reply

    # -- control lines ----------------------------------------------------

    def _control(self, line: Message | Line) -> None:
        if isinstance(line, Message):
            raise WireError(f"a message on {line.subject}, and none was asked for")
        if line.verb == "PING":
            self.send(b"PONG\r\n")
        elif line.verb == "-ERR":
            raise _complaint(line.rest)
        elif line.verb not in ("PONG", "INFO", "+OK"):
            raise WireError(f"not a protocol line: {' '.join(line)[:80]!r}")

    # -- the slow lane ----------------------------------------------------

    def next_message(self) -> Message:
        """The next message, for any receiver. Control lines are dealt with on the way."""
        while not isinstance(found := self._intake.next(), Message):
            self._control(found)
        return found

    def request(self, subject: str, payload: bytes) -> Message:
        """Sends a request and returns its one reply."""
        reply = self.publish_request(subject, payload)
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            message = self.next_message()
            if message.subject == reply:
                if message.status == 503:
                    raise NoResponders(subject)
                return message
        raise WireError(f"no reply on {subject} within {self._timeout:g} s")

    def request_json(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = self.request(subject, json.dumps(body).encode() if body else b"")
        answer = json.loads(reply.payload)
        if not isinstance(answer, dict):
            raise WireError(f"{subject} answered with something else than an object")
        return answer

    # -- the fast lane ----------------------------------------------------

    def gather(self, decoder: Decoder) -> Message | None:
        """Give a decoder what arrives, until it is full (None) or a message came that is no row."""
        intake = self._intake
        while True:
            verdict, intake.start = decoder.feed(intake.buffer, intake.start, intake.end)
            if verdict == Verdict.MORE:
                intake.receive()
            elif verdict == Verdict.CONTROL:
                self._control(intake.next())
            else:
                return self.next_message() if verdict == Verdict.STATUS else None

    # -- the end ----------------------------------------------------------

    def close(self) -> None:
        try:
            self._intake.socket.close()
        except OSError:
            pass  # it is gone either way

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- dialling ---------------------------------------------------------------


def _dial(addresses: Sequence[Address], login: Login, name: str, timeout: float) -> tuple[Intake, dict[str, Any]]:
    """Try the addresses in random order, so that a fleet of executors spreads over a cluster."""
    failures = []
    for address in random.sample(addresses, len(addresses)):
        try:
            return _dial_one(address, login, name, timeout)
        except NotIdentified as error:
            raise Refused(str(error)) from error
        except (OSError, WireError) as error:
            failures.append((f"{address.host}:{address.port}: {error}", isinstance(error, Refused)))
    kind = Refused if all(refused for _, refused in failures) else WireError
    raise kind("no server could be reached: " + "; ".join(text for text, _ in failures))


def _dial_one(address: Address, login: Login, name: str, timeout: float) -> tuple[Intake, dict[str, Any]]:
    connection = socket.create_connection((address.host, address.port), timeout)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)
        intake = Intake(connection, timeout)
        line = intake.next()
        if not isinstance(line, Line) or line.verb != "INFO":
            raise Refused(f"not a NATS server: it began with {' '.join(map(str, line))[:40]!r}")
        try:
            info = info_of(line.rest)
        except Malformed as error:
            raise Refused(f"not a NATS server: {error}") from error
        if address.tls or info.get("tls_required") or login.wants_tls:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise Refused("TLS is wanted, and the server does not offer it")
            connection = intake.socket = _wrapped(connection, login, address.host)
        fields = (login if login.given else address.login).fields(str(info.get("nonce", "")))
        connection.sendall(frame_connect(name, fields))
        while not isinstance(line := intake.next(), Line) or line.verb != "PONG":
            if isinstance(line, Line) and line.verb == "-ERR":
                raise Refused(f"-ERR {line.rest}")
        return intake, info
    except BaseException:
        connection.close()
        raise


def _wrapped(connection: socket.socket, login: Login, host: str) -> ssl.SSLSocket:
    try:
        return login.context().wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        raise broken(error) from error
