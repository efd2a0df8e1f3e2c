"""How far a mirror or source is behind, as far as its origin told: what is known now, and what was known last.

    plane: ingest_states of the consumer that runs --note()--> Told --info()--> stream info, the status page, /metrics

A consumer at the origin tells what waits there; made anew, the next one tells it anew. In between nobody knows, and
that is said (`known`): a number that was true once is not one for now. Not here: consumers (replica.py),
and what is told in which words (jetstream/endpoints/infos.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.records import dataclass

if TYPE_CHECKING:
    from leafd.links.replica import Replica

NO_NEARER_S: Final = 600.0
"""So long a copy is behind before it is said that it comes no nearer."""
NO_NEARER: Final = {"code": 503, "err_code": 10029, "description": "it comes no nearer to its origin"}


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """The members of stream info about a mirror or source. Times are ns that have passed; -1 = it never was."""

    lag: int = 0
    """Messages that are missing, as the origin has told last .."""
    told_ns: int = -1
    """.. at that time."""
    known: bool = False
    """The lag is today's, but for what is under way: the origin is heard of. Otherwise it is not known."""
    active_ns: int = -1
    """Since anything came of the origin."""
    sequence: int = 0
    error: dict[str, Any] | None = None
    running: bool = False
    level_ns: int = -1
    """Since nothing was missing."""
    pace: float | None = None
    """Messages a second that it comes nearer, of late; None: that is not known."""
    newest_ts: int = 0
    """Stamp of the newest message that was taken, Unix ns; 0: not known."""
    mean_size: float | None = None
    """The mean bytes of header and payload of messages that were taken; None: none was since the start."""
    held: str = ""
    """The messages that the budget of the origin's end lets go (limits.py), as it says; empty: it says nothing."""
    put_back_ns: int = -1
    """Since it was noticed that the origin was put back from an old copy."""


@dataclass(frozen=True, slots=True)
class Behind:
    """All mirrors and sources together: how many get what their origin has, how many messages these have still to get,
    and how many get nothing."""

    running: int = 0
    messages: int = 0
    stopped: int = 0


@dataclass(slots=True)
class Told:
    """The facts told about one slot, over all of its consumers."""

    lag: int = 0
    told_s: float | None = None
    heard_s: float | None = None
    level_s: float | None = None
    newest_ts: int = 0
    mean_size: float | None = None
    begun_s: float | None = None

    def note(self, state: t.IngestState) -> None:
        """Notes an ingest's state, which stays known when the ingest has ended."""
        now_s = trio.current_time()
        self.begun_s = now_s if self.begun_s is None else self.begun_s
        if state.known_ns >= 0:
            self.lag, self.told_s = state.lag, now_s - state.known_ns / 1e9
        if state.active_ns >= 0:
            self.heard_s = now_s - state.active_ns / 1e9
        if state.level_ns >= 0:
            self.level_s = now_s - state.level_ns / 1e9
        if state.messages:
            self.mean_size = state.bytes / state.messages
        self.newest_ts = max(state.newest_ts, self.newest_ts)

    def info(self, replica: Replica, state: t.IngestState | None = None, *, linked: bool = True) -> SlotInfo:
        """The slot's info. state: of its ingest, if it has one, which takes from there; linked: the link that its
        messages come by is there."""
        if state is not None:
            self.note(state)
        now_s, error = trio.current_time(), replica.error
        running = state is not None and bool(state.running)
        milli = state.pace_milli if state is not None else t.PACE_UNKNOWN
        known = running and linked and state is not None and state.known_ns >= 0
        pace = milli / 1e3 if running and linked and milli != t.PACE_UNKNOWN else None
        if error is None and known and self._comes_no_nearer(pace, now_s):
            error = NO_NEARER
        return SlotInfo(
            lag=self.lag,
            told_ns=_since(self.told_s, now_s),
            known=known,
            active_ns=_since(self.heard_s, now_s),
            sequence=replica.last_sequence if state is None else state.last_sequence,
            error=error,
            running=running,
            level_ns=_since(self.level_s, now_s),
            pace=pace,
            newest_ts=self.newest_ts,
            mean_size=self.mean_size,
            put_back_ns=_since(replica.put_back_s, now_s),
        )

    def _comes_no_nearer(self, pace: float | None, now_s: float) -> bool:
        """Behind for a while, and no less of late. A copy that comes nearer, however slowly, is well."""
        since_s = max((one for one in (self.level_s, self.begun_s) if one is not None), default=now_s)
        return self.lag > 0 and pace is not None and pace <= 0 and now_s - since_s > NO_NEARER_S


def _since(at_s: float | None, now_s: float) -> int:
    return -1 if at_s is None else round((now_s - at_s) * 1e9)
