"""A client that logs in with a JWT and says what it hears, for the tests of operator mode."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

from tests.servers import Server
from tests.wire.player import Connection

VIOLATION = "-ERR 'Authorization Violation'"
HEAD = 'listen: "127.0.0.1:{port}"\n'
_opened: list[Connection] = []


def close_all() -> None:
    """Closes the connections that a test has opened."""
    while _opened:
        _opened.pop().socket.close()


class Signs(Protocol):
    """Who can answer a nonce."""

    @property
    def connect(self) -> Callable[[str], dict[str, str]]: ...


class Peer(Connection):
    """A client that sends a CONNECT; lines() are what it was told since, up to the answer of a PING."""

    def __init__(self, server: Server, by: Signs | None = None, **fields: object) -> None:
        super().__init__(server.port, "lines", random.Random(1))
        _opened.append(self)
        self.sids = 1000
        self.first: dict[str, Any] = json.loads(self.line().removeprefix("INFO "))
        body: dict[str, object] = {"verbose": False, "pedantic": False, "protocol": 1, "headers": True}
        if by is not None:
            body |= by.connect(str(self.first.get("nonce", "")))
        self.say("CONNECT " + json.dumps(body | fields))

    def say(self, *lines: str) -> None:
        self.send("".join(f"{line}\r\n" for line in lines).encode())

    def lines(self) -> list[str]:
        """Every line up to the answer of a PING sent now, or the end of the connection ("closed")."""
        found: list[str] = []
        try:
            self.say("PING")
            while (line := self.line()) != "PONG":
                if not line.startswith(("INFO ", "PING")):
                    found.append(line)
        except (OSError, EOFError):
            found.append("closed")
        return found

    def ask(self, subject: str, body: bytes | str = b"", answers: int = 1, seconds: float = 5.0) -> list[bytes]:
        """The payloads of the answers to a request."""
        data = body.encode() if isinstance(body, str) else body
        self.sids += 1
        self.say(f"SUB _INBOX.{self.sids} {self.sids}")
        self.send(f"PUB {subject} _INBOX.{self.sids} {len(data)}\r\n".encode() + data + b"\r\n")
        found: list[bytes] = []
        deadline = time.monotonic() + seconds
        while len(found) < answers:
            line = self.line(deadline - time.monotonic())
            if line.startswith("MSG "):
                found.append(self.payload(int(line.split()[-1])))
            elif line == "PING":
                self.say("PONG")
            assert not line.startswith("-ERR"), line
        return found
