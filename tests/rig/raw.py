"""A NATS client that speaks by hand: a test says lines and looks at each line and message that comes.

    client.say("SUB x 1")           a line; send() takes bytes as they are
    client.lines()                  what came before the answer to a PING that is sent now
    client.message()                the next message, with its headers and payload
    client.ask(subject, body)       the JSON that answers a request; of must() it is no error

Where the lines do not matter, tests take the official client (official.py). Not here: what is wrong on purpose
(tests/hostile/wires.py), transcripts (tests/wire/player.py).
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from tests.rig.waiting import PATIENCE_S
from tests.servers import Server

CLOSED: Final = "closed"
"""In place of a line: the server has ended the connection."""
Signs = Callable[[str], Mapping[str, object]]
"""The members of a CONNECT that answer a nonce."""


class Refused(Exception):
    """The login was refused; the lines that said so."""


class Message(NamedTuple):
    """A message as it came."""

    subject: str
    reply: str
    header: bytes
    payload: bytes
    sid: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object that it holds; an empty message holds {}."""
        found: dict[str, Any] = json.loads(self.payload) if self.payload else {}
        return found


class RawClient:
    """One connection, logged in. user: whose password is the same word. signs: what proves a login by a nonce. says:
    further members of CONNECT. waits: until the server has answered the login; a login that it refuses is Refused."""

    def __init__(
        self,
        at: Server | int,
        user: str = "",
        *,
        signs: Signs | None = None,
        waits: bool = True,
        patience_s: float = PATIENCE_S,
        says: Mapping[str, object] | None = None,
    ) -> None:
        self.patience_s = patience_s
        self.received = b""
        self._kept: deque[Message] = deque()
        self._inbox = ""
        self._count = 0
        self.socket = socket.create_connection(("127.0.0.1", at if isinstance(at, int) else at.port), patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.info: dict[str, Any] = json.loads(self.line().removeprefix("INFO "))
            body: dict[str, object] = {"verbose": False, "pedantic": False, "protocol": 1, "headers": True}
            body |= {"user": user, "pass": user} if user else {}
            body |= signs(str(self.info.get("nonce", ""))) if signs is not None else {}
            self.say("CONNECT " + json.dumps(body | dict(says or {})))
            answered = self.lines() if waits else []
            if any(line == CLOSED or line.startswith("-ERR") for line in answered):
                raise Refused(answered)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # ---- what is said

    def send(self, data: bytes) -> None:
        """Bytes as they are. That the server has closed is told by what it sent before."""
        try:
            self.socket.settimeout(self.patience_s)
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def say(self, *lines: str) -> None:
        self.send("".join(f"{line}\r\n" for line in lines).encode())

    def subscribe(self, subject: str, queue: str = "") -> str:
        """The number of the subscription, which the server knows when this returns."""
        self._count += 1
        self.say(f"SUB {subject} {queue} s{self._count}")
        assert not (found := self.lines()), found
        return f"s{self._count}"

    def publish(self, subject: str, payload: bytes | str = b"", header: bytes = b"", reply: str = "") -> None:
        data = payload.encode() if isinstance(payload, str) else payload
        sizes = f"{len(header)} {len(header) + len(data)}" if header else str(len(data))
        self.send(f"{'HPUB' if header else 'PUB'} {subject} {reply} {sizes}\r\n".encode() + header + data + b"\r\n")

    # ---- what is heard

    def line(self, seconds: float | None = None) -> str:
        """The next line. Raises TimeoutError, and EOFError at the end of the connection."""
        deadline = self._deadline(seconds)
        while b"\r\n" not in self.received:
            self._more(deadline)
        line, _, self.received = self.received.partition(b"\r\n")
        return line.decode("latin-1")

    def lines(self, seconds: float | None = None) -> list[str]:
        """Every line up to the answer of a PING sent now, or to the end of the connection (CLOSED). INFO and PING are
        left out."""
        found: list[str] = []
        deadline = self._deadline(seconds)
        self.say("PING")
        try:
            while (line := self.line(deadline - time.monotonic())) != "PONG":
                if not line.startswith(("INFO ", "PING")):
                    found.append(line)
        except EOFError:
            found.append(CLOSED)
        return found

    def payload(self, size: int, seconds: float | None = None) -> bytes:
        """So many bytes, which a line has announced."""
        deadline = self._deadline(seconds)
        while len(self.received) < size + 2:
            self._more(deadline)
        data, self.received = self.received[:size], self.received[size + 2 :]
        return data

    def message(self, seconds: float | None = None) -> Message:
        """The next message. PINGs are answered; an error of the server fails the test."""
        return self._kept.popleft() if self._kept else self._next(self._deadline(seconds))

    def replied(
        self, subject: str, body: object = b"", *, header: bytes = b"", seconds: float | None = None
    ) -> Message:
        """The answer. body: bytes and texts as they are, anything else as JSON. Messages that come meanwhile are kept
        for message()."""
        if not self._inbox:
            self._inbox = f"_INBOX.{self.socket.getsockname()[1]}"
            self.say(f"SUB {self._inbox}.* inbox")
        self._count += 1
        reply = f"{self._inbox}.{self._count}"
        self.publish(subject, body if isinstance(body, bytes | str) else json.dumps(body), reply=reply, header=header)
        deadline = self._deadline(seconds)
        while (found := self._next(deadline)).subject != reply:
            if found.sid != "inbox":  # else it is the answer to a request that was given up
                self._kept.append(found)
        return found

    def ask(self, subject: str, body: object = b"", **more: Any) -> dict[str, Any]:
        """The JSON that answers."""
        return self.replied(subject, body, **more).document

    def api(self, endpoint: str, body: object = b"", **more: Any) -> dict[str, Any]:
        """An answer of JetStream's API."""
        return self.ask(f"$JS.API.{endpoint}", body, **more)

    def must(self, subject: str, body: object = b"", **more: Any) -> dict[str, Any]:
        """The JSON that answers, which is no error."""
        found = self.ask(subject, body, **more)
        assert "error" not in found, f"{subject}: {found['error']}"
        return found

    # ---- bytes

    def _next(self, deadline: float) -> Message:
        while True:
            line = self.line(deadline - time.monotonic())
            words = line.split()
            if words[0] == "PING":
                self.send(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                headed = words[0] == "HMSG"
                whole = self.payload(int(words[-1]), deadline - time.monotonic())
                cut = int(words[-2]) if headed else 0
                reply = words[3] if len(words) == 5 + headed else ""
                return Message(words[1], reply, whole[:cut], whole[cut:], words[2])
            else:
                assert words[0] in ("INFO", "PONG"), line

    def _more(self, deadline: float) -> None:
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError(self.received)
        self.received += data

    def _deadline(self, seconds: float | None) -> float:
        return time.monotonic() + (self.patience_s if seconds is None else seconds)
