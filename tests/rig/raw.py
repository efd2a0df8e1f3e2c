"""A NATS client that speaks by hand: a test says lines and looks at each line and message that comes.

    client.say("SUB x 1")           a line; send() takes bytes as they are
    client.lines()                  what came before the answer to a PING that is sent now
    client.message()                the next message, with its headers and payload
    client.ask(subject, body)       the JSON that answers a request; of must() it is no error

Connection is what is under it: nobody has logged in there. RawLeaf is a leaf node's end of a link.

    message_frame(), announced()    the bytes of a message, and what its line says, for a connection of asyncio's

Where the lines do not matter, tests take the official client (official.py). Not here: what is wrong on purpose
(tests/hostile/wires.py), transcripts (tests/wire/player.py).
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

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


def message_frame(
    subject: str, payload: bytes | str = b"", header: bytes = b"", reply: str = "", *, link: bool = False
) -> bytes:
    """The bytes of a message that a client publishes, or that one end of a link sends the other."""
    data = payload.encode() if isinstance(payload, str) else payload
    verb = ("HMSG" if header else "LMSG") if link else ("HPUB" if header else "PUB")
    sizes = f"{len(header)} {len(header) + len(data)}" if header else str(len(data))
    return f"{verb} {subject} {reply + ' ' if reply else ''}{sizes}\r\n".encode() + header + data + b"\r\n"


class Announced(NamedTuple):
    """The parts of a message's line."""

    subject: str
    reply: str
    sid: str
    cut: int  # where the payload begins behind the headers
    size: int  # of both


def announced(words: list[str], *, link: bool = False) -> Announced:
    """The line that begins a message, in its words."""
    headed = words[0] == "HMSG"
    subject, *more = words[1 : -1 - headed]
    sid = "" if link else more.pop(0)
    if more[:1] == ["+"]:  # a reply, and behind it the groups
        more.pop(0)
    reply = more[0] if more and more[0] != "|" else ""
    return Announced(subject, reply, sid, int(words[-2]) if headed else 0, int(words[-1]))


class Connection:
    """A connection on which a test says and hears lines; it has not logged in."""

    def __init__(self, at: Server | int, patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._received = bytearray()
        self.socket = socket.create_connection(("127.0.0.1", at if isinstance(at, int) else at.port), patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

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

    def connect(self, **says: object) -> None:
        """CONNECT."""
        body: dict[str, object] = {"verbose": False, "pedantic": False, "protocol": 1, "headers": True}
        self.say("CONNECT " + json.dumps(body | says))

    # ---- what is heard

    def line(self, seconds: float | None = None) -> str:
        """The next line. Raises TimeoutError, and EOFError at the end of the connection."""
        deadline, searched = self._deadline(seconds), 0
        while (end := self._received.find(b"\r\n", max(searched - 1, 0))) < 0:
            searched = len(self._received)
            self._more(deadline)
        return self._taken(end).decode("latin-1")

    def info(self) -> dict[str, Any]:
        """The next line, which is an INFO."""
        verb, _, body = self.line().partition(" ")
        assert verb == "INFO", f"{verb} {body}"
        found: dict[str, Any] = json.loads(body)
        return found

    def lines(self, seconds: float | None = None) -> list[str]:
        """Every line up to the answer of a PING sent now, or to the end of the connection (CLOSED). INFO and PING are
        left out."""
        self.say("PING")
        return self._until("PONG", seconds)

    def ending(self, seconds: float | None = None) -> list[str]:
        """Every line up to the end of the connection, with CLOSED; INFO and PING are left out."""
        return self._until("", seconds)

    def payload(self, size: int, seconds: float | None = None) -> bytes:
        """So many bytes, which a line has announced."""
        deadline = self._deadline(seconds)
        while len(self._received) < size + 2:
            self._more(deadline)
        return self._taken(size)

    # ---- bytes

    def _until(self, last: str, seconds: float | None) -> list[str]:
        found: list[str] = []
        deadline = self._deadline(seconds)
        try:
            while (line := self.line(deadline - time.monotonic())) != last:
                if not line.startswith(("INFO ", "PING")):
                    found.append(line)
        except EOFError:
            found.append(CLOSED)
        return found

    def _taken(self, size: int) -> bytes:
        """So many bytes of what has come; the end of a line behind them goes, too."""
        data = bytes(self._received[:size])
        del self._received[: size + 2]
        return data

    def _more(self, deadline: float) -> None:
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError(bytes(self._received))
        self._received += data

    def _deadline(self, seconds: float | None) -> float:
        return time.monotonic() + (self.patience_s if seconds is None else seconds)


class RawClient(Connection):
    """One connection, logged in. user: whose password is the same word. signs: what proves a login by a nonce. says:
    further members of CONNECT. waits: until the server has answered the login, with the lines `told`; a login that it
    refuses is Refused."""

    link: ClassVar = False

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
        super().__init__(at, patience_s)
        self._kept: deque[Message] = deque()
        self._inbox = ""
        self._count = 0
        try:
            nonce = str(self.info().get("nonce", ""))
            body: dict[str, object] = {"user": user, "pass": user} if user else {}
            body |= signs(nonce) if signs is not None else {}
            self.connect(**body | dict(says or {}))
            self.told = self.lines() if waits else []
            if any(line == CLOSED or line.startswith("-ERR") for line in self.told):
                raise Refused(self.told)
        except BaseException:
            self.socket.close()
            raise

    def subscribe(self, subject: str, queue: str = "") -> str:
        """The number of the subscription, which the server knows when this returns."""
        self._count += 1
        self.say(f"SUB {subject} {queue} s{self._count}")
        assert not (found := self.lines()), found
        return f"s{self._count}"

    def publish(self, subject: str, payload: bytes | str = b"", header: bytes = b"", reply: str = "") -> None:
        self.send(message_frame(subject, payload, header, reply, link=self.link))

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
            elif words[0] in ("MSG", "HMSG", "LMSG"):
                said = announced(words, link=self.link)
                whole = self.payload(said.size, deadline - time.monotonic())
                return Message(said.subject, said.reply, whole[: said.cut], whole[said.cut :], said.sid)
            else:
                self._other(line)

    def _other(self, line: str) -> None:
        """Takes a line among messages that is none."""
        assert line.startswith(("INFO ", "PONG")), line


class RawLeaf(RawClient):
    """A leaf node's end of a link, which is up. name: of its server, and its id."""

    link = True

    def __init__(self, at: Server, name: str, user: str = "", **more: Any) -> None:
        says = {"name": name, "server_id": name, "version": "2.15.1", **more.pop("says", {})}
        super().__init__(at.ports["leaf_port"], user, says=says, **more)

    def subscribe(self, subject: str, queue: str = "") -> str:
        """Asks for a subject, which the server knows when this returns."""
        self.say(f"LS+ {subject} {f'{queue} 1' if queue else ''}".rstrip())
        self.lines()
        return subject

    def _other(self, line: str) -> None:
        assert line.startswith(("INFO ", "PONG", "LS+ ", "LS- ")), line
