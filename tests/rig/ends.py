"""This side of a route or a gateway to a real server: a machine of links/ over a bare socket, without the plane."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from leafd.links import gateway, route
from leafd.links.handshake import Close
from leafd.links.leaf import Resume, Send
from leafd.native_types import LineKind

from tests.rig.waiting import PATIENCE_S, eventually

VERBS = {b"CONNECT": LineKind.CONNECT, b"INFO": LineKind.INFO, b"-ERR": LineKind.ERR}
MachineT = TypeVar("MachineT", bound=route.Machine | gateway.Machine)
Joined = route.Join | gateway.Join
_open: list[End[Any]] = []


class End(Generic[MachineT]):
    """One connection."""

    def __init__(self, sock: socket.socket, machine: MachineT) -> None:
        self.machine = machine
        self.rest: list[bytes] = []
        """Lines that until() has passed over."""
        self._sock = sock
        sock.settimeout(PATIENCE_S)
        self._file = sock.makefile("rb")
        _open.append(self)
        self.do(machine.opened())

    def do(self, actions: list[Any]) -> Joined | Close | None:
        """Carries them out, up to the one that ends the handshake."""
        for action in actions:
            match action:
                case Send(said):
                    self.send(said)
                case Resume() | gateway.Misnamed():  # the second is for the log
                    pass
                case route.Join() | gateway.Join() | Close():
                    return action
                case _:
                    raise AssertionError(action)
        return None

    def shake(self) -> Joined | Close:
        """Until it joins or ends."""
        while True:
            verb, _, payload = self.line().partition(b" ")
            if verb == b"PING":
                self.send(b"PONG\r\n")
                continue
            found = self.do([*self.machine.line(VERBS[verb], payload.strip().strip(b"'"))])
            if found is not None:
                return found

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def line(self) -> bytes:
        """The next line, which has to come."""
        line = self._file.readline()
        assert line, "the connection has ended"
        return line.rstrip(b"\r\n")

    def until(self, beginning: bytes) -> bytes:
        """The next line that begins so. PINGs are answered."""
        while not (line := self.line()).startswith(beginning):
            if line == b"PING":
                self.send(b"PONG\r\n")
            else:
                self.rest.append(line)
        return line

    def told(self, verb: bytes) -> dict[str, Any]:
        """The text of the next line of that kind."""
        found: dict[str, Any] = json.loads(self.until(verb + b" ").removeprefix(verb))
        return found

    def ping(self) -> None:
        """All that was sent before has been dealt with."""
        self.send(b"PING\r\n")
        self.until(b"PONG")

    def close(self) -> None:
        self._file.close()
        self._sock.close()


@contextmanager
def all_closed() -> Iterator[None]:
    """Whatever becomes of a test, its ends are closed behind it."""
    try:
        yield
    finally:
        for end in _open:
            end.close()
        _open.clear()


def reached(port: int) -> socket.socket:
    """A real server listens for others a moment after it listens for clients."""

    def dialled() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        except ConnectionRefusedError:
            return None

    found = eventually(dialled, f"nobody listens on port {port}")
    assert found is not None
    return found
