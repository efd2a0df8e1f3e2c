"""Raw connections for hostile tests: a client that asks, a leaf, a hub that answers dials, HTTP.

Everything is bytes and every wait is bounded, because what is sent here is wrong on purpose. Not here:
what is sent (values.py, draw.py).
"""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.request
from typing import Any

from tests.rig.raw import Connection

PATIENCE_S = 5.0


class Wire(Connection):
    """A connection whose other side may close, or say nothing, at any time."""

    def __init__(self, port: int, patience_s: float = PATIENCE_S) -> None:
        self.closed = False
        super().__init__(port, patience_s)

    def heard(self) -> bytes:
        """The next line, b"" when the other side has closed or is silent."""
        try:
            return self.line().encode("latin-1")
        except TimeoutError:
            return b""
        except (EOFError, OSError):
            self.closed = True
            return b""

    def send(self, data: bytes) -> None:
        """Bytes as they are; the other side may have closed."""
        with contextlib.suppress(OSError):
            super().send(data)

    def rest(self) -> bytes:
        """Everything until the other side closes or is silent."""
        with contextlib.suppress(OSError, EOFError):
            while True:
                self._more(self._deadline(None))
        return bytes(self._received)


class Asker(Wire):
    """A logged-in client that sends requests one at a time. number: of its last reply subject, where others share
    its subjects."""

    def __init__(
        self, port: int, patience_s: float = PATIENCE_S, password: str | None = None, number: int = 0, **connect: Any
    ) -> None:
        super().__init__(port, patience_s)
        assert self.heard().startswith(b"INFO ")
        if password is not None:
            connect["pass"] = password
        # Of the first protocol, in which there is one INFO.
        self.connect(**{"protocol": 0, "no_responders": True} | connect)
        self.say("SUB in.* 1")
        assert [] == self.lines()
        self._number = number

    def ask(self, subject: bytes | str, body: bytes | str | dict[str, Any] = b"", header: bytes = b"") -> bytes | None:
        """The reply's payload; None: there was none, or the server closed this connection."""
        self._number += 1
        reply = b"in.%d" % self._number
        name = subject.encode() if isinstance(subject, str) else subject
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode() if isinstance(body, str) else body
        if header:
            block = b"NATS/1.0\r\n" + header + b"\r\n\r\n"
            self.send(b"HPUB %s %s %d %d\r\n%s%s\r\n" % (name, reply, len(block), len(block) + len(data), block, data))
        else:
            self.send(b"PUB %s %s %d\r\n%s\r\n" % (name, reply, len(data), data))
        return self._reply(reply)

    def _reply(self, reply: bytes) -> bytes | None:
        while line := self.heard():
            verb, *parts = line.split()
            if verb in (b"MSG", b"HMSG"):
                payload = self.payload(int(parts[-1]))
                if parts[0] == reply:
                    return payload[int(parts[-2]) :] if verb == b"HMSG" else payload
            elif verb == b"PING":
                self.send(b"PONG\r\n")
        return None

    def asked(self, subject: str, body: bytes | str | dict[str, Any] = b"", header: bytes = b"") -> dict[str, Any]:
        """The reply, which there is and which is JSON."""
        reply = self.ask(subject, body, header)
        assert reply is not None, f"{subject} was not answered"
        found: dict[str, Any] = json.loads(reply)
        return found

    def err_code(self, subject: str, body: bytes | str | dict[str, Any] = b"", header: bytes = b"") -> int:
        """The err_code of the reply, 0 when it is none."""
        return int(self.asked(subject, body, header).get("error", {}).get("err_code", 0))


class Hub:
    """A listener that plays the hub which a box dials."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(patience_s)
        self.port = int(self.listener.getsockname()[1])

    def greet(self, *lines: bytes) -> None:
        """Takes the next dial, says some lines, and waits until the other side has closed or is silent."""
        connection, _ = self.listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0.3)
            for line in lines:
                connection.sendall(line)
                with contextlib.suppress(TimeoutError):
                    connection.recv(65536)
            while connection.recv(65536):
                pass

    def close(self) -> None:
        """Ends the listener."""
        self.listener.close()


def http(port: int, target: bytes, method: bytes = b"GET") -> bytes:
    """The raw answer to one request."""
    with Wire(port) as wire:
        wire.send(b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (method, target))
        return wire.rest()


def varz(port: int) -> dict[str, Any]:
    """What the server tells of itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/varz", timeout=PATIENCE_S) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
