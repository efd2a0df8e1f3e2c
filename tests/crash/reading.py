"""Whole streams, read by a bare connection: the official client takes four times as long for each message.

Not here: what is expected of a stream (keep.py, damaged.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.hostile.wires import Wire
from tests.servers import Server

BATCH = 500
SEQUENCE = b"\r\nNats-Sequence: "


class Reader(Wire):
    """A client that reads. Raises TimeoutError where the server is silent, or closes."""

    def __init__(self, server: Server, patience_s: float = 5.0) -> None:
        super().__init__(server.port, patience_s)
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB got 1\r\nPING\r\n')
        while self._said() != b"PONG":
            pass

    def _said(self) -> bytes:
        line = self.heard()
        if not line:
            raise TimeoutError("no answer")
        if line == b"PING":
            self.send(b"PONG\r\n")
        return line

    def _ask(self, subject: str, body: object) -> None:
        text = json.dumps(body).encode()
        self.send(f"PUB {subject} got {len(text)}\r\n".encode() + text + b"\r\n")

    def _next(self) -> tuple[bytes, bytes]:
        """The header block and the payload of what comes next."""
        while not (line := self._said()).startswith((b"MSG ", b"HMSG ")):
            pass
        words = line.split()
        size = int(words[-1])
        try:
            data = self.payload(size)
        except EOFError:
            raise TimeoutError("half a message") from None
        head = int(words[-2]) if line.startswith(b"H") else 0
        return data[:head], data[head:]

    def all(self, stream: str) -> Iterator[tuple[int, bytes]]:
        """Sequence and payload of each message that direct gets in batches find. Raises ValueError."""
        seq = 1
        while True:
            self._ask(f"$JS.API.DIRECT.GET.{stream}", {"seq": seq, "batch": BATCH})
            while (answer := self._next())[0].startswith(b"NATS/1.0\r\n"):
                seq = int(answer[0].partition(SEQUENCE)[2].partition(b"\r\n")[0])
                yield seq, answer[1]
                seq += 1
            status = answer[0][9:12]
            if status == b"404" or (status == b"204" and b"\r\nNats-Num-Pending: 0\r\n" in answer[0]):
                return
            if status != b"204":
                raise ValueError(f"{stream}: {answer[0]!r}")

    def delivered(self, stream: str, count: int) -> list[bytes]:
        """The payloads of the first messages, as a new consumer delivers them."""
        config = {"deliver_subject": "got", "ack_policy": "none", "deliver_policy": "all", "mem_storage": True}
        self.send(b"SUB made 2\r\n")
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        self.send(f"PUB $JS.API.CONSUMER.CREATE.{stream} made {len(body)}\r\n".encode() + body + b"\r\n")
        answer = b""
        found: list[bytes] = []
        while len(found) < count or not answer:
            head, payload = self._next()
            if not head and payload.startswith(b'{"type":"io.nats.jetstream.api.v1.consumer_create_response"'):
                answer = payload
                if b'"error"' in answer:
                    raise ValueError(f"{stream}: {answer!r}")
            else:
                found.append(payload)
        return found
