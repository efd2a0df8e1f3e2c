"""Publishing rows to a JetStream stream: many in flight, each acknowledged before the task ends.

What lives here: the window of publishes that await their acknowledgement, sending them again with the same
`Nats-Msg-Id` after a broken connection, and where subject, headers and payload come from in a row. What
doesn't: who calls it (`source`).

A message id is either a column's value or made of query, batch, partition and row. Either way a retry
of a send, a task or a whole batch repeats the ids, and the stream drops what it has already, within its
duplicate window. The made-up ids need rows that come in the same order again; where a query cannot promise
that (a shuffle without a sort), name a column.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .fetch import Patience, dial
from .options import Options
from .wire import Connection, NoResponders, WireError, frame_publish

# A window's acknowledgements have to fit into the kernel's receive buffer: they are read only when the
# window is full, and a server that cannot send them might stop reading.
WINDOW_BYTES = 4 << 20


class PublishError(Exception):
    """The stream refused a message."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    subject: str
    headers: bytes
    payload: bytes


def header_block(message_id: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = ["NATS/1.0"]
    for name, value in fields:
        if ":" in name or "\r" in name or "\n" in name or "\r" in value or "\n" in value:
            raise ValueError(f"header {name!r} holds a character that headers cannot hold")
        if name.lower() != "nats-msg-id":
            lines.append(f"{name}: {value}")
    lines.append(f"Nats-Msg-Id: {message_id}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Window:
    """Publishes in flight over one connection; survives the connection."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._waiting: dict[int, Outgoing] = {}
        self._unsent: deque[Outgoing] = deque()
        self._bytes = 0
        self._connection: Connection | None = None
        self._patience = Patience(options.retry)
        self.stored = 0
        self.duplicates = 0

    def publish(self, message: Outgoing) -> None:
        self._unsent.append(message)
        self._bytes += len(message.payload) + len(message.headers)
        if len(self._unsent) >= self._options.in_flight or self._bytes >= WINDOW_BYTES:
            self.drain()

    def drain(self) -> None:
        """Send what is unsent and wait until every message is acknowledged."""
        while self._unsent or self._waiting:
            try:
                self._exchange()
            except (WireError, NoResponders, OSError) as error:
                self.close()
                # What was not acknowledged may be stored or not: its id makes asking again harmless.
                self._unsent = deque([*self._waiting.values(), *self._unsent])
                self._waiting.clear()
                self._patience.wait(error)
        self._bytes = 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self) -> None:
        if self._connection is None:
            self._connection = dial(self._options)
        connection = self._connection
        out = bytearray()
        while self._unsent:
            message = self._unsent[0]
            number = connection.next_reply_number()
            out += frame_publish(message.subject, f"{connection.inbox}.{number}", message.headers, message.payload)
            self._waiting[number] = self._unsent.popleft()
        connection.send(out)
        while self._waiting:
            reply = connection.next_message()
            number = int(reply.subject.rpartition(".")[2])
            if number not in self._waiting:
                continue
            if reply.status == 503:
                raise NoResponders(self._waiting[number].subject)
            if reply.status:
                raise WireError(f"a publish was answered with {reply.headers[:80]!r}")
            self._acknowledged(number, json.loads(reply.payload))

    def _acknowledged(self, number: int, answer: dict[str, Any]) -> None:
        message = self._waiting[number]
        if "error" in answer:
            text = f"{message.subject}: {answer['error'].get('description')} ({answer['error'].get('err_code')})"
            # 5xx is the server's trouble and may pass; the rest will be the same next time.
            if int(answer["error"].get("code", 0)) >= 500:
                raise WireError(text)
            raise PublishError(text)
        del self._waiting[number]
        if answer.get("duplicate"):
            self.duplicates += 1
        else:
            self.stored += 1
        self._patience.renew()


class RowReader:
    """Turns record batches into messages, by the columns they have."""

    def __init__(self, options: Options, names: list[str], id_prefix: str) -> None:
        self._options = options
        self._id_prefix = id_prefix
        if "data" not in names:
            raise ValueError(f"rows to publish need a column data (string or binary); there are {', '.join(names)}")
        if "subject" not in names and not options.subject:
            raise ValueError("rows to publish need a column subject, or the option subject")
        if options.message_id_column and options.message_id_column not in names:
            raise ValueError(f"option messageIdColumn names {options.message_id_column}, which is no column")
        self._names = names

    def messages(self, batches: Iterable[Any]) -> Iterator[Outgoing]:
        row = 0
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in self._wanted()}
            for index in range(batch.num_rows):
                yield self._message({name: values[index] for name, values in columns.items()}, row)
                row += 1

    def _wanted(self) -> list[str]:
        return [name for name in ("data", "subject", "headers", self._options.message_id_column) if name in self._names]

    def _message(self, row: dict[str, Any], number: int) -> Outgoing:
        data = row["data"]
        if data is None:
            raise ValueError("a row without data cannot be published")
        subject = row.get("subject") or self._options.subject
        if not subject or set(subject) & set(" \t\r\n"):
            raise ValueError(f"{subject!r} is not a subject")
        column = self._options.message_id_column
        message_id = str(row[column]) if column else f"{self._id_prefix}-{number}"
        headers = header_block(message_id, row.get("headers") or ())
        return Outgoing(subject, headers, data.encode() if isinstance(data, str) else data)
