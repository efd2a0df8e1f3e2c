"""Connections of the WebSocket listener until their HTTP request is answered; then they are clients' or leaf links'.

    Opened --[ TLS ]--> Line of kind HTTP --judge()--> upgrade --> clients.greet() | leafs.accept_web()
                                                   --> an HTTP error and the end

Imported only where the block is configured. Not here: what requests say (web_request.py), logins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leafd import native_types as t
from leafd.config.schema.websocket import WebSocket
from leafd.guard import Guard
from leafd.logins.client import Web
from leafd.logins.deadlines import Awaits, LoginTimes
from leafd.logins.handshakes import WEB, secure_of
from leafd.logins.web_request import Refused, judge
from leafd.native_connections import Connections
from leafd.operator_log import Log
from leafd.records import dataclass
from leafd.web_head import NoHttp, read_head

SECOND: Final = 1_000_000_000


@dataclass(slots=True)
class Visitor:
    """One whose request is not answered yet."""

    peer: str
    tls: t.Secured | None = None


class Webs:
    """Takes the plane's events of visitors."""

    def __init__(
        self,
        plane: Connections,
        log: Log,
        guard: Guard,
        block: Callable[[], WebSocket],
        *,
        leafs: Callable[[], bool],
        mqtt: Callable[[], bool],
        client: Callable[[int, str, Web, t.Secured | None], None],
        leaf: Callable[[int, str, t.Secured | None], None],
    ) -> None:
        self._plane = plane
        self._log = log
        self._guard = guard
        self._block = block
        self._leafs = leafs
        self._mqtt = mqtt
        self._client = client
        self._leaf = leaf
        self._visitors: dict[int, Visitor] = {}
        self._times = LoginTimes(self._awaits, self._too_late, guard)
        self.run = self._times.run

    def handle(self, event: t.Event) -> bool:
        """Takes an event if it is of a visitor."""
        match event:
            case t.Opened():
                self._opened(event)
            case t.Secured() if event.connection in self._visitors:
                self._visitors[event.connection].tls = event
            case t.Line() if event.connection in self._visitors:
                self._line(event, self._visitors.pop(event.connection))
            case t.Closed() if event.connection in self._visitors:
                visitor = self._visitors.pop(event.connection)
                self._log.debug(f"{visitor.peer} - wid:{event.connection} - closed before its request: {event.text}")
            case _:
                return False
        return True

    def _opened(self, event: t.Opened) -> None:
        self._visitors[event.connection] = Visitor(event.peer)
        block = self._block()
        self._times.add(event.connection, block.handshake_timeout / SECOND, patient=True)  # links come here, too
        how = secure_of(block.tls, WEB)
        if how is not None:  # as in HTTPS, nothing comes before the handshake
            how = t.Secure(WEB, int(t.SecureFlag.FIRST), 0)
            self._plane.secure(event.connection, how, before=b"", behind=b"")

    def _line(self, event: t.Line, visitor: Visitor) -> None:
        try:
            request = read_head(event.payload)
            secure = visitor.tls is not None
            found = judge(request, self._block(), secure=secure, leafs=self._leafs(), mqtt=self._mqtt())
        except (NoHttp, UnicodeError) as error:
            found = Refused(400, str(error))
        except Exception as error:
            self._guard.caught("a WebSocket's request", error)
            found = Refused(400, "unexpected error")
        if isinstance(found, Refused):
            self._log.error(f"{visitor.peer} - websocket handshake error: {found.reason}", event="handshake_failed")
            self._plane.send(event.connection, found.answer)
            self._plane.close_connection(event.connection, "", t.CloseReason.PROTOCOL)
            return
        self._plane.upgrade(event.connection, found.kind, found.flags, found.answer)
        if found.kind == t.ConnKind.LEAF:
            self._leaf(event.connection, visitor.peer, visitor.tls)
        else:
            web = Web(found.credentials, found.forwarded, found.kind == t.ConnKind.MQTT)
            self._client(event.connection, visitor.peer, web, visitor.tls)

    def _awaits(self, connection: int) -> Awaits:
        return Awaits.PEER if connection in self._visitors else Awaits.NOTHING

    def _too_late(self, connection: int, _why: str) -> None:
        self._plane.close_connection(connection, "", t.CloseReason.AUTHENTICATION)
