"""Alarms: the plane's reports of its own accord, handed to the log and to JetStream, and traces of the protocol. Not
here: what is measured and traced of messages for others (measurements.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from leafd import native_types as t
from leafd.daemon.store import traced_bytes
from leafd.host.anew import REST_S, WAITS_REST_S, begin_again
from leafd.host.log import Log, traced, traced_message

if TYPE_CHECKING:
    from leafd.daemon.current import Current
    from leafd.jetstream.service import JetStream

_NO_STORE: Final[dict[int, str]] = {
    t.AlarmCode.SLOW: "slow_consumer",
    t.AlarmCode.INPUT: "input_refused",
    t.AlarmCode.COMMAND: "command_failed",
    t.AlarmCode.INTEREST: "subscriptions_refused",
    t.AlarmCode.DROPPED: "messages_dropped",
}

_OF_CONNECTIONS: Final = (t.AlarmCode.SLOW, t.AlarmCode.INPUT)

_REFUSALS: Final = (t.AlarmCode.DISK_FULL, t.AlarmCode.IO)

_REST_S: Final[dict[int, float]] = {t.AlarmCode.MEND: REST_S, t.AlarmCode.WAITS: WAITS_REST_S}
"""The alarms after which the daemon begins again, if it has not within that time."""


class Alarms:
    """The alarms of one server. log_name: what lines about a connection begin with."""

    def __init__(self, log: Log, jetstream: JetStream | None, current: Current, log_name: Callable[[int], str]) -> None:
        self._log, self._jetstream, self._current, self._log_name = log, jetstream, current, log_name
        self.begins_again = False
        """The process is to be started anew, since only a start can mend the store."""
        self.on_room: list[Callable[[], None]] = []
        """Called when a disk that was full has room again."""
        self.on_hole: Callable[[int, int, int, bool], None] | None = None
        """Called when damage took messages of a stream: the first one, the last one, whether each was there."""
        self.on_refusal: list[Callable[[], None]] = []
        """Called when publishers are refused from now on, since a disk is full or cannot be written to."""

    def tell(self, event: t.Alarm) -> None:
        """One line, and what JetStream does about it."""
        if event.code == t.AlarmCode.HOLE:  # the damage was told by itself
            if self.on_hole is not None:
                self.on_hole(event.stream, event.sequence, event.upto, event.certain != 0)
            return
        say = self._log.info if event.code == t.AlarmCode.KEY else self._log.warning
        rest_s = _REST_S.get(event.code)
        if rest_s is not None and begin_again(self._log, rest_s):
            self.begins_again = True
        if event.code in _NO_STORE:  # whose number is no stream's
            who = f"{self._log_name(event.stream)} - " if event.code in _OF_CONNECTIONS else ""
            say(who + event.text, event=_NO_STORE[event.code])
            return
        named = self._jetstream.named(event.stream) if self._jetstream is not None else {}
        say(event.text, event=f"store_{t.AlarmCode(event.code).name.lower()}", **named)
        if self._jetstream is not None:
            self._jetstream.alarm(event)
        for callback in self.on_room if event.code == t.AlarmCode.DISK_OK else ():
            callback()
        for callback in self.on_refusal if event.code in _REFUSALS else ():
            callback()

    def trace(self, event: t.Trace) -> None:
        """Logs the lines of a connection."""
        who = self._log_name(event.connection)
        if event.text:
            self._log.trace(f"{who} - {traced(event)}")
            return
        config = self._current.config
        if said := traced_message(event, traced_bytes(config), headers_only=config.trace_headers):
            self._log.trace(f"{who} - {said}")
