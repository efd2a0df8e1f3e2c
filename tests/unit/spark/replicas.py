"""A stream of several replicas that is scripted: which of them answers, and what it has by then.

Here: as much of a server as a reader asks. What its leader has is `leader`; each direct get, and each
consumer, is served by the next view of `views`, the last one for ever: the sequences that this replica has. A view
with another name is a mirror's. tests/unit/spark/test_replicas.py holds its answers to those of a real server.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CREATED = "2026-11-22T17:00:00Z"
STAMP = "2026-11-22T17:30:49.5Z"
NANOSECONDS = 1795368649500000000
NOT_FOUND = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}


@dataclass
class View:
    """What one who answers has."""

    sequences: range | list[int]
    name: str = "S"


@dataclass
class Made:
    """A consumer: what is left of it."""

    left: list[int]
    delivered: int = 0


@dataclass
class Replicas:
    """The stream S, whose message n has the payload n on the subject s.<n modulo 3>."""

    leader: range | list[int]
    views: list[View]
    last: int = 0  # of the stream; 0: the leader's last message
    config: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # the subject of each request
    consumers: dict[str, Made] = field(default_factory=dict)
    listening: dict[bytes, Session] = field(default_factory=dict)  # who subscribed to a subject
    port: int = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def count(self, endpoint: str) -> int:
        """How often something was asked."""
        return sum(endpoint in subject for subject in self.asked)

    def view(self) -> View:
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


def message(sequence: int) -> tuple[bytes, bytes]:
    return b"s.%d" % (sequence % 3), b"%d" % sequence


class Session(threading.Thread):
    """One connection."""

    def __init__(self, replicas: Replicas, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self.replicas = replicas
        self.connection = connection

    def run(self) -> None:
        with contextlib.suppress(OSError), self.connection, self.connection.makefile("rb") as lines:
            self.connection.sendall(b'INFO {"server_id":"x","version":"2.15.1","headers":true,"jetstream":true}\r\n')
            for line in lines:
                words = line.split()
                if words[:1] == [b"PING"]:
                    self.connection.sendall(b"PONG\r\n")
                elif words[:1] == [b"SUB"]:
                    self.replicas.listening[words[1]] = self
                elif words[:1] == [b"PUB"]:
                    payload = lines.read(int(words[3]) + 2)[:-2]
                    self.answer(words[1].decode(), words[2], json.loads(payload or b"{}"))

    def answer(self, subject: str, reply: bytes, body: dict[str, Any]) -> None:
        self.replicas.asked.append(subject)
        endpoint = subject.removeprefix("$JS.API.")
        if endpoint.startswith("DIRECT.GET"):
            self.direct(reply, body)
        elif endpoint.startswith("CONSUMER.MSG.NEXT"):
            consumer = self.replicas.consumers[endpoint.rpartition(".")[2]]
            if self.deliver(consumer, body["batch"]) < body["batch"]:
                self.send(reply, b"NATS/1.0 408 Request Timeout\r\n\r\n", b"")
        else:
            answer = json.dumps(self.api(endpoint, body)).encode()
            self.connection.sendall(b"MSG %b 1 %d\r\n%b\r\n" % (reply, len(answer), answer))

    def api(self, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
        there = list(self.replicas.leader)
        if endpoint.startswith("STREAM.INFO"):
            last = self.replicas.last or (there[-1] if there else 0)
            state = {"first_seq": there[0] if there else last + 1, "last_seq": last, "messages": len(there), "bytes": 9}
            config = {"name": "S", "num_replicas": 3, "retention": "limits", "allow_direct": True}
            return {"created": CREATED, "state": state, "config": config | self.replicas.config}
        if endpoint.startswith("STREAM.MSG.GET"):
            found = [n for n in there if n >= body["seq"]] if "next_by_subj" in body else [body["seq"]]
            if not found or found[0] not in there:
                return NOT_FOUND
            text, payload = message(found[0])
            data = base64.b64encode(payload).decode()
            return {"message": {"subject": text.decode(), "seq": found[0], "data": data, "time": STAMP}}
        if endpoint.startswith("CONSUMER.CREATE"):
            return self.consumer(body["config"])
        return {"success": True}

    def direct(self, reply: bytes, body: dict[str, Any]) -> None:
        view = self.replicas.view()
        found = [n for n in view.sequences if n >= body["seq"]]
        if not found:
            self.send(reply, b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")
            return
        sent, before = found[: body["batch"]], 0
        for place, number in enumerate(sent):
            subject, payload = message(number)
            named = (view.name.encode(), subject, number, STAMP.encode(), len(found) - place - 1, before)
            block = (
                b"NATS/1.0\r\nNats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
                b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n" % named
            )
            self.send(reply, block, payload)
            before = number
        ended = (len(found) - len(sent), sent[-1])
        self.send(reply, b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n\r\n" % ended, b"")

    def consumer(self, config: dict[str, Any]) -> dict[str, Any]:
        """One that is pulled from, or one that pushes all it has to who listens, and says at once that it is idle."""
        made = Made([n for n in self.replicas.view().sequences if n >= config["opt_start_seq"]])
        answer = {"num_pending": len(made.left)}
        if "deliver_subject" not in config:
            self.replicas.consumers[config["name"]] = made
            return answer
        target = config["deliver_subject"].encode()
        listener = self.replicas.listening[target]
        listener.deliver(made, len(made.left))
        listener.send(target, b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b"")
        return answer | {"push_bound": True}

    def deliver(self, consumer: Made, count: int) -> int:
        """How many there were."""
        sent, consumer.left = consumer.left[:count], consumer.left[count:]
        for place, number in enumerate(sent):
            consumer.delivered += 1
            subject, payload = message(number)
            pending = len(sent) - place - 1 + len(consumer.left)
            ack = b"$JS.ACK.S.c.1.%d.%d.%d.%d" % (number, consumer.delivered, NANOSECONDS, pending)
            self.connection.sendall(b"MSG %b 1 %b %d\r\n%b\r\n" % (subject, ack, len(payload), payload))
        return len(sent)

    def send(self, reply: bytes, block: bytes, payload: bytes) -> None:
        total = len(block) + len(payload)
        self.connection.sendall(b"HMSG %b 1 %d %d\r\n%b%b\r\n" % (reply, len(block), total, block, payload))


@contextlib.contextmanager
def serving(replicas: Replicas) -> Iterator[Replicas]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        replicas.port = listener.getsockname()[1]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    Session(replicas, listener.accept()[0]).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield replicas
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
