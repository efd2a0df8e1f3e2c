"""The group of servers with JetStream, as the plane shows it: its members and the rows of its table."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from leafd.native import layout
from leafd.native_packing import decoded, records_in
from leafd.records import dataclass

LEADER: Final = 3
"""MetaLook.role (META_LEADER of abi.h)."""
LEARN, PROMOTE, REMOVE = 1, 2, 3
FOUNDS, WAITS, ALONE = 0, 1, 2
"""JOIN_* of abi_meta.h."""
OFFLINE_NS: Final = 5_000_000_000
"""A member that the leader has not heard for so long is shown as offline: as long as AWAY_S of cluster/presence.py, so
that what people see is what the group acts on."""
OFFLINE_TRIPS: Final = 8
"""Or for as many round trips, if it is far: as AWAY_TRIPS there."""
OFFLINE_MAX_NS: Final = 30_000_000_000
_ROW: Final = struct.Struct(">BIQ")


@dataclass(frozen=True, slots=True)
class MetaMember:
    """meta_member_t: a member. lag, trip_ns: at the leader alone. heard_ns: a follower knows it of the leader alone."""

    peer: int
    disk: int
    lag: int
    heard_ns: int
    voter: int
    copies: int
    trip_ns: int = 0

    def rank(self) -> tuple[int, float]:
        """The lower, the sooner it inherits a lead: who lacks least, and of those the nearest. With a leader that is
        far each message takes its way there and back."""
        return self.lag, self.trip_ns or math.inf


@dataclass(frozen=True, slots=True)
class MetaLook:
    """meta_look_t: the group as this server sees it. name 0: there is none here."""

    name: int
    term: int
    leader: int
    voted: int
    led_ts: int
    last: int
    last_term: int
    committed: int
    applied: int
    floor: int
    bytes: int
    frames_in: int
    frames_out: int
    bad: int
    refused: int
    election_ns: int
    role: int
    state: int
    leased: int
    members: int


def is_heard(look: MetaLook, member: MetaMember) -> bool:
    """Whether the server that the look is from hears the member: a leader hears all others, any other member its leader
    alone."""
    return look.role == LEADER or member.peer == look.leader


def is_silent(member: MetaMember) -> bool:
    """Whether a member that this server would hear has not said a word in this term, or not for long."""
    most_ns = min(max(OFFLINE_NS, OFFLINE_TRIPS * member.trip_ns), OFFLINE_MAX_NS)
    return not 0 <= member.heard_ns <= most_ns


def member_info(name: str, member: MetaMember, *, heard: bool = True, there: bool = False) -> dict[str, Any]:
    """A member as nats-server's PeerInfo has it. heard: as is_heard() has it; else its name is all that is known.
    there: its server can be reached, so one that has not said a word yet has not had the time."""
    row: dict[str, Any] = {"name": name, "current": False, "active": 0, "peer": shown_peer(member.peer)}
    if not heard:
        return row
    silent = is_silent(member)
    offline = silent and (member.heard_ns >= 0 or not there)
    # One that has no vote yet stands in for nobody, which who waits for it has to see.
    row |= {"current": member.lag == 0 and not silent and bool(member.voter), "active": max(member.heard_ns, 0)}
    row |= {"offline": True} if offline else {}
    row |= {"lag": member.lag} if member.lag else {}
    return row | ({"leafd": {"copies": True}} if member.copies else {})


def shown_peer(peer: int) -> str:
    """A server's number as nats-server shows it: the eight letters that its name's digest begins with."""
    return peer.to_bytes(8, "big").decode("ascii", "replace")


def look_in(payload: bytes) -> tuple[MetaLook, tuple[MetaMember, ...]]:
    """The answer to META_LOOK."""
    look = decoded("meta_look_t", payload, MetaLook)
    at = layout("meta_look_t").size
    end = at + look.members * layout("meta_member_t").size
    return look, tuple(records_in("meta_member_t", payload[at:end], MetaMember))


def rows_in(payload: bytes) -> dict[bytes, tuple[int, bytes]]:
    """The answer to META_ROWS: revision and value of each row."""
    found: dict[bytes, tuple[int, bytes]] = {}
    at = 0
    while at < len(payload):
        key_size, value_size, revision = _ROW.unpack_from(payload, at)
        at += _ROW.size
        key = payload[at : at + key_size]
        at += key_size
        found[key] = revision, payload[at : at + value_size]
        at += value_size
    return found
