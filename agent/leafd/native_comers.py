"""Connections that come, as the plane tells of them: that one did, its line, or both in one event.

Not here: what is judged by that (logins/), what else the plane tells of a connection (native_types.py).
"""

from __future__ import annotations

from leafd.records import dataclass


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection was accepted or adopted; the plane waits for the INFO line (COMMAND_SEND)."""

    connection: int
    kind: int
    listener: int
    peer: str
    greeted: int = 0
    """1: it has had its INFO, as greet() said."""
    round_trip_ns: int = 0
    """A link's round trip, as TCP's handshake has it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A handshake line; reading of this connection waits for a verdict."""

    connection: int
    kind: int
    payload: bytes
    known: int = 0
    """1: the plane has admitted it already, as remember() said."""
    named: bytes = b""
    """The text that remember() was told of a known login, if it is not the whole line."""


@dataclass(frozen=True, slots=True)
class Came:
    """A connection was accepted, and the plane has admitted it by its line, as remember() said: both in one."""

    connection: int
    kind: int
    peer: str
    payload: bytes
    named: bytes = b""
    """As of a Line."""
