"""The parts of its neighbours that this room needs, as protocols: mirrors and sources beside it, the daemon
above. Not here: the plane below, whose commands are its port (native_commands.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.jetstream.catalogue import Stream


class SourceStatus(Protocol):
    """How a mirror or source is doing. Times are ns that have passed, -1 = it never was."""

    @property
    def lag(self) -> int: ...
    @property
    def told_ns(self) -> int: ...
    @property
    def known(self) -> bool: ...
    @property
    def level_ns(self) -> int: ...
    @property
    def pace(self) -> float | None: ...
    @property
    def newest_ts(self) -> int: ...
    @property
    def mean_size(self) -> float | None: ...
    @property
    def active_ns(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def error(self) -> dict[str, Any] | None: ...
    @property
    def held(self) -> str: ...


class Asker(Protocol):
    """The sender of a request, with the rights of its login."""

    @property
    def author(self) -> str:
        """The author that a stream keeps, to look up rights later; empty: the author may do everything."""

    def info(self) -> dict[str, Any]:
        """For advisories."""

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these, which may have wildcards, to which the asker may not publish."""


class Neighbours(Protocol):
    """The daemon's knowledge that this room lacks; daemon/neighbours.py wires it to links/ and accounts/."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """A stream was loaded, made or updated: its mirror or sources may be new. last_sequence: of the store, now."""

    def stream_removed(self, stream: Stream) -> None:
        """A stream is gone with everything in it."""

    async def source_status(self, stream: int, slot: int) -> SourceStatus:
        """Slot 0 is the mirror, 1.. are the sources in the order of the configuration."""

    def asker(self, message: t.Message) -> Asker:
        """The sender of a request."""

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects among these to which the stream's author may not publish today, or about which that is not
        known."""

    def has_leafs(self, account: int) -> bool:
        """Whether leaf links are bound to the account: then another JetStream may answer in our place."""

    def lets_go(self, account: int, domain: str) -> str:
        """The traffic that the budget of the link to that domain allows: "all"; "normal", "high" or "none": bulk waits,
        or more; "": there is no budget."""


class Alone:
    """Neighbours of a server that has none: no links, unknown clients."""

    def stream_changed(self, stream: Stream, last_sequence: int) -> None:
        """Tells nobody."""

    def stream_removed(self, stream: Stream) -> None:
        """Tells nobody."""

    async def source_status(self, stream: int, slot: int) -> SourceStatus:
        """Never heard of anything."""
        return NEVER

    def asker(self, message: t.Message) -> Asker:
        """The server itself, as logins do not exist here."""
        return SERVER

    async def denied(self, stream: Stream, subjects: tuple[str, ...]) -> tuple[str, ...]:
        """No subject is denied."""
        return ()

    def has_leafs(self, account: int) -> bool:
        """There are no leaves."""
        return False

    def lets_go(self, account: int, domain: str) -> str:
        """There is no link."""
        return ""


class _Server:
    """The server itself, for its configuration: everything is allowed."""

    author = ""

    def info(self) -> dict[str, Any]:
        return {}

    async def denied(self, subjects: tuple[str, ...]) -> tuple[str, ...]:
        return ()


class _Never:
    lag = newest_ts = sequence = 0
    told_ns = level_ns = active_ns = -1
    known = False
    pace: float | None = None
    mean_size: float | None = None
    error: dict[str, Any] | None = None
    held = ""


NEVER = _Never()
SERVER: Asker = _Server()
