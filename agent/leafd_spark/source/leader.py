"""Questions that a stream's leader answers: what it is like, which message comes next, and messages one by one.

Direct gets may be answered by any replica, also by one that is behind, and by mirrors. STREAM.INFO and
STREAM.MSG.GET are answered by the leader alone, so they decide what is there and what is not.

Single messages are slow, some thousand a second, and the only way to read a work queue that does not allow direct
gets: its consumers take messages away from those that they are for. `messages` asks for a window of them at a time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from leafd.wire_client import Message

from leafd_spark.consumer import Consumer
from leafd_spark.fetch import DEFAULT_API, ApiError, api
from leafd_spark.options import Options
from leafd_spark.ranges import Range, StreamState
from leafd_spark.subjects import matches
from leafd_spark.wire import Connection, NoResponders, WireError

from .batches import listed_columns, nanoseconds_of, split_stored
from .columns import Origins, Parts, Place, Rows, assemble

WINDOW = 256  # messages asked for at a time
SECOND_LOOK = 0.05  # seconds; a server that has just lost the lead knows it by then
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a stream that the reader needs, as the stream's leader told them."""

    state: StreamState
    config: Mapping[str, Any]

    @property
    def origins(self) -> Origins:
        return Origins.of(self.config.get("sources") or ())

    @property
    def replicated(self) -> bool:
        return int(self.config.get("num_replicas", 1)) > 1

    @property
    def keeps_all(self) -> bool:
        """Whether reading takes nothing from anybody: in work queues and interest streams, consumers free messages."""
        return self.state.rules.retention == "limits"


class Leader:
    """The leader of one stream, by a connection of one's own: no other answers are on their way on it."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._connection = connection
        self._options = options

    @property
    def domain(self) -> str:
        """The domain of the server we are connected to; empty if it has none."""
        return str(self._connection.info.get("domain", "")) if self._options.api == DEFAULT_API else ""

    def facts(self) -> Facts:
        info = api(self._connection, self._options, f"STREAM.INFO.{self._options.stream}", {})
        return Facts(StreamState.of(info), info["config"])

    def next(self, position: int) -> int | None:
        """The first message from there on that the filters want; None if there is none."""
        found = (self._next(position, subject) for subject in self._options.subjects or (">",))
        return min((sequence for sequence in found if sequence is not None), default=None)

    def _next(self, position: int, subject: str) -> int | None:
        endpoint = f"STREAM.MSG.GET.{self._options.stream}"
        body = {"seq": position, "next_by_subj": subject, "no_hdr": True}
        try:
            return int(api(self._connection, self._options, endpoint, body)["message"]["seq"])
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def next_for_sure(self, position: int, facts: Facts) -> int | None:
        """The same, where "none" decides about rows: a leader that was stopped may go on for a moment as if it led."""
        found = self.next(position)
        if found is None and facts.replicated:
            time.sleep(SECOND_LOOK)
            found = self.next(position)
        return found

    def make(self, consumer: Consumer, position: int, target: str = "") -> None:
        consumer.make(self._connection, position, target=target)

    def remove(self, consumer: Consumer) -> None:
        """Delete a consumer; if that fails, the server does it after a while."""
        with contextlib.suppress(WireError, NoResponders, ApiError):
            consumer.remove(self._connection)

    def messages(self, place: Place, wanted: Range, with_headers: bool) -> Rows | None:
        """The rows of at most a window of sequences, all of which are settled: read, or not there."""
        asked = {}
        for sequence in range(wanted.first, wanted.last + 1):
            subject = self._options.subject_of(f"STREAM.MSG.GET.{self._options.stream}")
            reply = self._connection.publish_request(subject, b'{"seq":%d}' % sequence)
            asked[reply] = sequence
        found: dict[int, dict[str, Any]] = {}
        while asked:
            message = self._connection.next_message()
            if message.subject in asked:
                answer = _message_of(message)
                if answer is not None and _wanted(answer["subject"], self._options.subjects):
                    found[asked[message.subject]] = answer
                del asked[message.subject]
        return _rows(place, [found[sequence] for sequence in sorted(found)], with_headers) if found else None


def _message_of(message: Message) -> dict[str, Any] | None:
    """The message in an answer of STREAM.MSG.GET; None if it is not there."""
    if message.status == 503:
        raise NoResponders("nobody answers STREAM.MSG.GET")
    answer = json.loads(message.payload)
    if "error" not in answer:
        return dict(answer["message"])
    error = ApiError("STREAM.MSG.GET", answer["error"])
    if error.code == NOT_FOUND and error.err_code == ApiError.NO_MESSAGE:
        return None
    raise error


def _wanted(subject: str, filters: tuple[str, ...]) -> bool:
    return not filters or any(matches(subject, wanted) for wanted in filters)


def _rows(place: Place, messages: list[dict[str, Any]], with_headers: bool) -> Rows:
    parts = Parts(
        pa.array([message["seq"] for message in messages], pa.int64()),
        nanoseconds_of(pa.array([message["time"] for message in messages], pa.string())),
        pa.array([message["subject"] for message in messages], pa.string()),
        None,
        pa.array([base64.b64decode(message.get("data") or "") for message in messages], pa.binary()),
    )
    stored = [split_stored(base64.b64decode(message.get("hdrs") or "")) for message in messages]
    listed_columns(parts, stored, with_headers)
    return assemble(place, parts)
