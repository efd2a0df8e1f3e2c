"""Connections that have gone: the latest of them, with what they carried and why they ended, for connz.

Not here: the report (connections.py), events about them (events.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from leafd import native_types as t

TEXT_MAX: Final = 256
"""Characters kept of what a client says of itself."""
_REASONS: Final[dict[int, str]] = {
    t.CloseReason.CLIENT: "Client Closed",
    t.CloseReason.PROTOCOL: "Protocol Violation",
    t.CloseReason.AUTHENTICATION: "Authentication Failure",
    t.CloseReason.SLOW: "Slow Consumer (Pending Bytes)",
    t.CloseReason.STALE: "Stale Connection",
    t.CloseReason.WRITE: "Write Error",
    t.CloseReason.SHUTDOWN: "Server Shutdown",
    t.CloseReason.LOOP: "Protocol Violation",
    t.CloseReason.PERMISSION: "Protocol Violation",
    t.CloseReason.LIMIT: "Protocol Violation",
    t.CloseReason.DUPLICATE: "Duplicate Remote LeafNode Connection",
    t.CloseReason.TLS: "TLS Handshake Failure",
    t.CloseReason.KICKED: "Kicked",
}
_SPECIAL: Final = {
    "authentication timeout": "Authentication Timeout",
    "user authentication expired": "Authentication Expired",
    "user authentication revoked": "Credentials Revoked",
    "maximum connections exceeded": "Maximum Connections Exceeded",
    "maximum account active connections exceeded": "Maximum Account Connections Exceeded",
    "maximum payload violation": "Maximum Message Payload Exceeded",
    "maximum control line exceeded": "Maximum Control Line Exceeded",
    "maximum subscriptions exceeded": "Maximum Subscriptions Exceeded",
    "unknown protocol operation": "Protocol Violation",
    "no memory for input": "No Memory For Input",
}
"""Said to the other side, in small letters, where the reason alone does not tell."""


def reason(event: t.Closed) -> str:
    """Why a connection ended, in the reference's words."""
    return _SPECIAL.get(event.text.lower()) or _REASONS.get(event.reason, "Unknown State")


class Gone(NamedTuple):
    """One connection that has gone. Its numbers have the names that they have in ConnectionRow. (A tuple is made in a
    fifth of the time of a record, and thousands may go at once.)"""

    connection: int
    link: bool
    peer: str
    account: str
    user: str
    told: dict[str, Any]
    """The members of the report beside the numbers."""
    start_wall_ns: int
    last_wall_ns: int
    stop_wall_ns: int
    reason: str
    rtt_ns: int
    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    subscriptions: int
    rows: bytes
    """The first of its subscriptions, for native_types.subscription_rows()."""
    pending_bytes: int = 0


def gone(
    event: t.Closed,
    *,
    link: bool,
    peer: str,
    account: str,
    user: str,
    told: dict[str, Any],
    opened_ns: int,
    ended_ns: int,
) -> Gone:
    """The record of a connection that ended."""
    return Gone(
        event.connection, link, peer, account, user[:TEXT_MAX],
        {name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in told.items()},
        opened_ns, max(event.last_wall_ns, opened_ns), ended_ns, reason(event), event.rtt_ns,
        event.in_msgs, event.out_msgs, event.in_bytes, event.out_bytes, event.subscriptions, event.rows,
    )  # fmt: skip


class ClosedConnections:
    """The latest of them, the oldest first."""

    def __init__(self, most: int) -> None:
        self._rows: deque[Gone | Callable[[], Gone]] = deque(maxlen=most)

    def add(self, row: Gone | Callable[[], Gone]) -> None:
        """One more, or what makes it where somebody asks; the oldest gives way."""
        self._rows.append(row)

    def rows(self) -> Iterator[Gone]:
        """All that are kept at the moment of the call."""
        kept = list(self._rows)
        return (row if isinstance(row, Gone) else row() for row in kept)
