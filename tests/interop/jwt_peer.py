"""A client that logs in with a JWT and says what it hears, for the tests of operator mode."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tests.rig.raw import RawClient
from tests.servers import Server

VIOLATION = "-ERR 'Authorization Violation'"
HEAD = 'listen: "127.0.0.1:{port}"\n'
_opened: list[RawClient] = []


def close_all() -> None:
    """Closes the connections that a test has opened."""
    while _opened:
        _opened.pop().close()


class Signs(Protocol):
    """Who can answer a nonce."""

    @property
    def connect(self) -> Callable[[str], dict[str, str]]: ...


class Peer(RawClient):
    """A client that sends a CONNECT; lines() are what it was told since, up to the answer of a PING."""

    def __init__(self, server: Server, by: Signs | None = None, **fields: object) -> None:
        super().__init__(server, signs=by.connect if by is not None else None, waits=False, says=fields)
        _opened.append(self)
        self.server = server
        self.sids = 1000

    def answers(self, subject: str, body: bytes | str = b"", count: int = 1, seconds: float = 5.0) -> list[bytes]:
        """The payloads of the answers to a request."""
        self.sids += 1
        self.say(f"SUB _INBOX.{self.sids} {self.sids}")
        self.publish(subject, body, reply=f"_INBOX.{self.sids}")
        deadline = time.monotonic() + seconds
        return [self.message(deadline - time.monotonic()).payload for _ in range(count)]
