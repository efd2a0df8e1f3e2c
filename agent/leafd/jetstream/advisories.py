"""Events that JetStream publishes about itself, under $JS.EVENT.

Where nobody listens, they are neither written nor given to the plane: a request then costs it one message and not
three. Streams that capture them, links and imports are listeners, too (plane_advised). Only the audit of API calls can
be large, and is cut off beyond a size. Not here: when something happened.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Any, Final

from leafd import native_types as t
from leafd.gojson import dump, dumped
from leafd.gotime import ZERO_TIME, format_time, now_ns
from leafd.jetstream.catalogue import Consumer, JetStreamAccount, Settings, Stream
from leafd.jetstream.ports import Asker
from leafd.native_commands import Commands

_ADVISORY: Final = "$JS.EVENT.ADVISORY"
_METRIC: Final = "$JS.EVENT.METRIC"
_TYPE: Final = "io.nats.jetstream."
_INT64_MAX: Final = (1 << 63) - 1
AUDIT_SIZE_MAX: Final = 256 * 1024

# Last tokens of the subject, of the type, and which numbers go along.
_CONSUMER_EVENTS: Final[dict[int, tuple[str, str, str, tuple[str, ...]]]] = {
    t.AdvisoryCode.MAX_DELIVERIES: (
        _ADVISORY,
        "MAX_DELIVERIES",
        "advisory.v1.max_deliver",
        ("stream_seq", "deliveries"),
    ),
    t.AdvisoryCode.NAKED: (_ADVISORY, "MSG_NAKED", "advisory.v1.nak", ("consumer_seq", "stream_seq", "deliveries")),
    t.AdvisoryCode.TERMINATED: (
        _ADVISORY,
        "MSG_TERMINATED",
        "advisory.v1.terminated",
        ("consumer_seq", "stream_seq", "deliveries"),
    ),
    t.AdvisoryCode.ACK_SAMPLE: (
        _METRIC,
        "ACK",
        "metric.v1.consumer_ack",
        ("consumer_seq", "stream_seq", "ack_time", "deliveries"),
    ),
}


def unique() -> str:
    """An id of 22 characters that no other event has."""
    return token_hex(11)


class Advisories:
    """Writes advisories and hands them to the plane."""

    def __init__(self, plane: Commands, settings: Settings) -> None:
        self._plane = plane
        self._settings = settings

    def _publish(self, account: JetStreamAccount, subject: str, type_name: str, members: dict[str, Any]) -> None:
        if self._plane.advised():
            self._plane.publish(account.id, subject, dump(self._event(type_name, members)))

    def _event(self, type_name: str, members: dict[str, Any]) -> dict[str, Any]:
        event = {"type": _TYPE + type_name, "id": unique(), "timestamp": format_time(now_ns())} | members
        if self._settings.domain:
            event["domain"] = self._settings.domain
        return event

    async def audit(
        self, account: JetStreamAccount, subject: str, asker: Asker, request: bytes, response: bytes
    ) -> None:
        """An API call was answered."""
        if len(request) + len(response) > AUDIT_SIZE_MAX or not self._plane.advised():
            return
        members: dict[str, Any] = {"server": self._settings.server_name, "client": asker.info(), "subject": subject}
        if request:
            members["request"] = request.decode("utf-8", "replace")
        members["response"] = response.decode("utf-8", "replace")
        event = self._event("advisory.v1.api_audit", members)
        body = await dumped(len(request) + len(response), event)
        self._plane.publish(account.id, f"{_ADVISORY}.API", body)

    def stream(self, stream: Stream, what: str, action: str) -> None:
        """A stream was CREATED, UPDATED or DELETED."""
        members = {"stream": stream.name, "action": action}
        subject = f"{_ADVISORY}.STREAM.{what}.{stream.name}"
        self._publish(stream.account, subject, "advisory.v1.stream_action", members)

    def backup(self, account: JetStreamAccount, stream: str, what: str, members: dict[str, Any]) -> None:
        """A SNAPSHOT or RESTORE of a stream was begun (.._CREATE) or is over (.._COMPLETE)."""
        type_name = f"advisory.v1.{what.lower()}"
        self._publish(account, f"{_ADVISORY}.STREAM.{what}.{stream}", type_name, {"stream": stream} | members)

    def consumer(self, stream: Stream, consumer: Consumer, what: str, action: str) -> None:
        """A consumer was CREATED or DELETED."""
        members = {"stream": stream.name, "consumer": consumer.name, "action": action}
        subject = f"{_ADVISORY}.CONSUMER.{what}.{stream.name}.{consumer.name}"
        self._publish(stream.account, subject, "advisory.v1.consumer_action", members)

    def group(self, stream: Stream, consumer: str, what: str, members: dict[str, Any], system: int) -> None:
        """The group of a stream has another leader (LEADER_ELECTED), or too few servers for one (QUORUM_LOST); or a
        consumer of it does. Told to the system account of that number, too."""
        noun, names = ("CONSUMER", f"{stream.name}.{consumer}") if consumer else ("STREAM", stream.name)
        subject, type_name = f"{_ADVISORY}.{noun}.{what}.{names}", f"advisory.v1.{noun.lower()}_{what.lower()}"
        about = {"stream": stream.name} | ({"consumer": consumer} if consumer else {}) | members
        self._publish(stream.account, subject, type_name, about)
        event = self._event(type_name, {"account": stream.account.name} | about)
        self._plane.publish(system, subject, dump(event))

    def pause(self, stream: Stream, consumer: Consumer) -> None:
        """A consumer was paused or resumed, or its pause is over."""
        until = consumer.config.pause_until
        paused = until is not None and until > now_ns()
        members: dict[str, Any] = {"stream": stream.name, "consumer": consumer.name, "paused": paused}
        members["pause_until"] = format_time(ZERO_TIME if until is None else until)
        subject = f"{_ADVISORY}.CONSUMER.PAUSE.{stream.name}.{consumer.name}"
        self._publish(stream.account, subject, "advisory.v1.consumer_pause", members)

    def unpinned(self, stream: Stream, consumer: Consumer, group: str, reason: str) -> None:
        """A client is pinned no longer."""
        self._group(stream, consumer, "UNPINNED", {"group": group, "reason": reason})

    def _group(self, stream: Stream, consumer: Consumer, what: str, members: dict[str, Any]) -> None:
        about = {"account": stream.account.name, "stream": stream.name, "consumer": consumer.name}
        subject = f"{_ADVISORY}.CONSUMER.{what}.{stream.name}.{consumer.name}"
        self._publish(stream.account, subject, f"advisory.v1.consumer_group_{what.lower()}", about | members)

    def batch_abandoned(self, stream: Stream, batch: str, reason: int) -> None:
        """An atomic batch was dropped (ABANDONED_*)."""
        members = {"stream": stream.name, "batch": batch, "reason": t.Abandoned(reason).name.lower()}
        subject = f"{_ADVISORY}.STREAM.BATCH_ABANDONED.{stream.name}"
        self._publish(stream.account, subject, "advisory.v1.stream_batch_abandoned", members)

    def damage(self, stream: Stream, event: t.Alarm) -> None:
        """Something of the stream fails its checksum or is lost; sequence 0: not one message."""
        members: dict[str, Any] = {"stream": stream.name, "seq": event.sequence, "reason": event.text}
        self._publish(
            stream.account, f"{_ADVISORY}.STREAM.DAMAGED.{stream.name}", "advisory.v1.stream_damaged", members
        )

    def usage(self, account: JetStreamAccount, storage: str, event: t.Allowance) -> None:
        """Reports that an account's streams have reached another level of their limit."""
        members: dict[str, Any] = {
            "account": account.name,
            "storage": storage,
            "level": t.AllowanceLevel(event.level).name.lower(),
            "bytes": event.bytes,
        }
        if event.limit <= _INT64_MAX:
            members["max_bytes"] = event.limit
        self._publish(account, f"{_ADVISORY}.ACCOUNT.USAGE.{storage}", "advisory.v1.account_usage", members)

    def plane_event(self, stream: Stream, consumer: Consumer, event: t.Advisory) -> None:
        """Something happened to a message of a consumer, as the plane says."""
        if event.code == t.AdvisoryCode.PAUSE_ENDED:
            self.pause(stream, consumer)
            return
        if event.code == t.AdvisoryCode.PINNED:
            group, _, pin = event.text.partition(" ")
            self._group(stream, consumer, "PINNED", {"group": group, "pinned_id": pin})
            return
        if event.code == t.AdvisoryCode.UNPINNED:
            self.unpinned(stream, consumer, event.text, "timeout")
            return
        known = _CONSUMER_EVENTS.get(event.code)
        if known is None:
            return
        prefix, what, type_name, numbers = known
        values = {
            "stream_seq": event.stream_seq,
            "consumer_seq": event.consumer_seq,
            "deliveries": event.deliveries,
            "ack_time": event.ack_time_ns,
        }
        members: dict[str, Any] = {"stream": stream.name, "consumer": consumer.name}
        members |= {name: values[name] for name in numbers}
        if what == "MSG_TERMINATED" and event.text:
            members["reason"] = event.text
        subject = f"{prefix}.CONSUMER.{what}.{stream.name}.{consumer.name}"
        self._publish(stream.account, subject, type_name, members)
