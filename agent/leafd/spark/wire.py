"""A small synchronous NATS client over one socket, for Spark's executors and planner.

What lives here: dialling and the handshake, framing, request and reply, and handing received bytes to a decoder.
What doesn't: who we are (`identity`), what a decoder makes of the bytes (`decoder`), the JetStream API (`fetch`),
ranges (`reader`), acknowledgements of publishes (`publish`).

Why not the official client: a task reads one range front to back and has nothing to do meanwhile, so an event loop
buys nothing, and a Python object a message costs more than everything else in the pipeline together.

One connection has one owner and no lock. Whoever sees a `WireError` closes it and dials anew:
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

from .identity import Login, NotIdentified

RECEIVE_BUFFER = 1 << 20  # where the receive buffer starts; it doubles while a message needs more
RECEIVE_BUFFER_MAX = 1 << 28
SOCKET_BUFFER = 4 << 20  # asked of the kernel, so that the server can go on sending while Arrow is built
# A long row of messages is received in pieces of so many bytes, or of what there is after so many milliseconds: waking
# a reader for each little that a server writes costs both of them.
PIECE = 256 << 10
PIECE_MS = 2
LINE_MAX = 16384  # a line longer than a server's max_control_line and what it adds is not a protocol line
DEFAULT_PORT = 4222

STATUS_LINE = b"NATS/1.0 "  # headers that begin so carry a status; a publisher may have stored such, too


class WireError(Exception):
    """The connection is of no use any more; dialling anew may help."""


class Refused(WireError):
    """The server said -ERR, or its configuration rules us out: dialling anew will not help."""


class Denied(Refused):
    """The user lacks a permission. The connection goes on, what was asked for was not done."""


class NoResponders(Exception):
    """Nobody listens on the subject of a request (status 503)."""


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


@dataclass(frozen=True, slots=True)
class Message:
    """One message in the slow lane: replies of the API, acknowledgements."""

    subject: str
    sid: int
    reply: str
    headers: bytes  # the whole block, or empty
    payload: bytes

    @property
    def status(self) -> int:
        """The inline status of the header block, 0 without one."""
        return status_of(self.headers)


def status_of(headers: bytes) -> int:
    if not headers.startswith(STATUS_LINE):
        return 0
    code = headers[len(STATUS_LINE) : len(STATUS_LINE) + 3]
    return int(code) if code.isdigit() else 0


def header_of(headers: bytes, name: bytes) -> bytes:
    """A field of a server's own header block; empty without it."""
    start = headers.find(b"\r\n%b:" % name)
    if start < 0:
        return b""
    start += len(name) + 3
    return headers[start : headers.find(b"\r\n", start)].strip()


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
    """What gathers rows out of received bytes; `decoder` says more."""

    def feed(self, buffer: bytearray, start: int, end: int) -> tuple[int, int]:
        """Take rows from buffer[start:end]; a Verdict, and the first byte that was not taken."""


def broken(error: OSError) -> WireError:
    """What a socket failed of. Certificates that one side does not accept stay what they are."""
    text = f"the connection broke: {error}"
    return Refused(text) if isinstance(error, ssl.SSLError) and "CERTIFICATE" in str(error).upper() else WireError(text)


def _complaint(line: bytes) -> WireError:
    """The exception for an -ERR."""
    text = line[len(b"-ERR") :].decode(errors="replace").strip(" '")
    if text.startswith("Permissions Violation"):
        return Denied(f"the server's permissions for this user do not allow it: {text}")
    if any(word in text for word in ("Authorization", "Authentication", "Account", "Required")):
        return Refused(f"the server refuses the login: {text}")
    return WireError(f"the server said {text}")


class Intake:
    """A socket's incoming bytes: what is received and not consumed lies in buffer[start:end]."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self.socket = connection
        self.buffer = bytearray(RECEIVE_BUFFER)
        self.start = 0
        self.end = 0
        self._timeout = timeout
        self._poll: select.poll | None = None  # there while it is received in pieces

    def in_pieces(self) -> None:
        """From now on much is to come. (Of what TLS has decrypted the kernel does not know: not there.)"""
        if sys.platform == "linux" and not isinstance(self.socket, ssl.SSLSocket):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PIECE)
            self._poll = select.poll()
            self._poll.register(self.socket, select.POLLIN)

    def receive(self) -> None:
        """Wait for at least one byte more."""
        if self.start == self.end:
            self.start = self.end = 0
        elif self.end > len(self.buffer) * 3 // 4:
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

    def make_room(self) -> None:
        """Move what is not consumed to the front; double the buffer if that leaves it more than half full."""
        if self.start:
            kept = self.end - self.start
            self.buffer[:kept] = self.buffer[self.start : self.end]
            self.start, self.end = 0, kept
        if self.end > len(self.buffer) // 2:
            if len(self.buffer) >= RECEIVE_BUFFER_MAX:
                raise WireError("a message larger than the receive buffer may become")
            self.buffer.extend(bytes(len(self.buffer)))

    def line(self) -> bytes:
        searched = 0  # bytes behind start; receiving may move both
        while True:
            newline = self.buffer.find(b"\n", self.start + searched, self.end)
            if newline >= 0:
                line = bytes(self.buffer[self.start : newline]).rstrip()
                self.start = newline + 1
                return line
            searched = self.end - self.start
            if searched > LINE_MAX * 16:  # an INFO of a large cluster is longer than other lines
                raise WireError("a protocol line without an end")
            self.receive()

    def exactly(self, count: int) -> bytes:
        while self.end - self.start < count:
            self.receive()
        taken = bytes(self.buffer[self.start : self.start + count])
        self.start += count
        return taken


class Connection:
    """One dialled connection: `request` for the API, `collect` for batches, `next_message` for the rest."""

    def __init__(self, addresses: Sequence[Address], login: Login, name: str, timeout: float = 10.0) -> None:
        self.inbox = f"_INBOX.{random.getrandbits(96):024x}"
        self._next_request = 0
        self._timeout = timeout
        self._intake, self.info = _dial(addresses, login, name, timeout)
        # One wildcard subscription serves requests and batches alike.
        self.send(b"SUB %b.* 1\r\n" % self.inbox.encode())

    @property
    def intake(self) -> Intake:
        """What came and was not consumed, for who finds messages in it without this class."""
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
        """Also to this one; the server knows it when this returns, and nothing else may be awaited meanwhile."""
        self.send(b"SUB %b 2\r\nPING\r\n" % subject.encode())
        while (line := self._intake.line()) != b"PONG":
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

    def _control(self, line: bytes) -> None:
        verb = line[:4].upper()
        if verb == b"PING":
            self.send(b"PONG\r\n")
        elif verb == b"-ERR":
            raise _complaint(line)
        elif verb not in (b"PONG", b"INFO", b"+OK"):
            raise WireError(f"not a protocol line: {line[:80]!r}")

    # -- the slow lane ----------------------------------------------------

    def next_message(self) -> Message:
        """The next message, whoever it is for. Control lines are dealt with on the way."""
        while True:
            line = self._intake.line()
            parts = line.decode(errors="replace").split()
            verb = parts[0] if parts else ""
            if verb == "MSG" and len(parts) in (4, 5):
                headers_size, total = 0, int(parts[-1])
                reply = parts[3] if len(parts) == 5 else ""
            elif verb == "HMSG" and len(parts) in (5, 6):
                headers_size, total = int(parts[-2]), int(parts[-1])
                reply = parts[3] if len(parts) == 6 else ""
            else:
                self._control(line)
                continue
            body = self._intake.exactly(total + 2)
            return Message(parts[1], int(parts[2]), reply, body[:headers_size], body[headers_size:-2])

    def request(self, subject: str, payload: bytes) -> Message:
        """One request, its one reply."""
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
                self._control(intake.line())
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


def frame_publish(subject: str, reply: str, headers: bytes, payload: bytes) -> bytes:
    """PUB, or HPUB when there is a header block."""
    head = f"{subject} {reply}".rstrip().encode()
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (head, len(payload), payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (head, len(headers), len(headers) + len(payload), headers, payload)


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
        line = intake.line()
        if not line.startswith(b"INFO "):
            raise Refused(f"not a NATS server: it began with {line[:40]!r}")
        info: dict[str, Any] = json.loads(line[5:])
        if address.tls or info.get("tls_required") or login.wants_tls:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise Refused("TLS is wanted, and the server does not offer it")
            connection = intake.socket = _wrapped(connection, login, address.host)
        hello = json.dumps(_connect_options(address, login, name, str(info.get("nonce", ""))))
        connection.sendall(b"CONNECT " + hello.encode() + b"\r\nPING\r\n")
        while (line := intake.line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise Refused(line.decode(errors="replace"))
        return intake, info
    except BaseException:
        connection.close()
        raise


def _wrapped(connection: socket.socket, login: Login, host: str) -> ssl.SSLSocket:
    try:
        return login.context().wrap_socket(connection, server_hostname=host)
    except ssl.SSLError as error:
        raise broken(error) from error


def _connect_options(address: Address, login: Login, name: str, nonce: str) -> dict[str, Any]:
    options: dict[str, Any] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    options |= {"protocol": 1, "lang": "python", "version": "1", "name": name}
    return options | (login if login.given else address.login).fields(nonce)
