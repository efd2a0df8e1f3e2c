"""The groups of servers that keep something together, as rows for people and programs, and what needs attention: the
group of all servers, and the streams that several of them keep.

Pure functions of the JSON of /varz and /jsz. Not here: everything else of those pages (status.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leafd.records import dataclass

Page = Mapping[str, Any]
MISSED_S: Final = 10.0
"""A server that was missed for a shorter time needs no attention: it may just have been started."""
NAMED: Final = 4
"""So many names stand in one line."""
LOST: Final = "if they are lost for good, see the guide (A lost majority)"
STREAM_LOST: Final = "if they are lost for good, see the guide (Streams that have lost their majority)"


@dataclass(frozen=True, slots=True)
class Problem:
    """A thing that needs attention, and what to do."""

    text: str
    remedy: str
    grave: bool = False
    """Something does not work now."""

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Member:
    """A server of the group of all servers."""

    name: str
    cluster: str
    leads: bool
    voter: bool
    """False: it is being let in, and does not count yet."""
    away_s: float | None
    """How long it has been missed; None: it is there."""
    streams: int
    """Streams that the server alone has ..."""
    shared: int
    """... and that it keeps with others."""
    lag: int | None
    """Entries that it has not confirmed; only the leader knows."""


@dataclass(frozen=True, slots=True)
class Group:
    """The group of all servers, as this one sees it."""

    part: str
    """The part that this server has: member, stranger, founding, none."""
    leader: str
    """Empty: there is none."""
    needed: int
    """So many members have to be there for a leader."""
    expected: int
    missing: int
    """So many servers are missing to found it."""
    idle: tuple[str, ...]
    """Servers without JetStream, of which some may be those that are missing."""
    unread: int
    """Rows of the servers' table that this version cannot read."""
    waits: str
    """Why this server does not go on with what was agreed on; empty: it does."""
    members: tuple[Member, ...]

    @property
    def there(self) -> int:
        """How many of those that count are there."""
        return sum(one.voter and one.away_s is None for one in self.members)


@dataclass(frozen=True, slots=True)
class Keeper:
    """Another server that keeps a stream with the one that leads it."""

    name: str
    current: bool
    lag: int
    away: bool
    copies: bool
    """The server is being given a copy, as the log has no longer what it lacks."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A stream that several servers keep."""

    name: str
    account: str
    leader: str
    """Empty: there is none."""
    led: bool
    """This server leads it, and knows how far the others are."""
    keepers: tuple[Keeper, ...]
    """All servers but the one that leads it; of the others nothing but their names is known where it is not led."""
    replicas: int = 0
    """So many servers are to keep it; 0: the page does not say."""
    waits: bool = False
    """This server is to keep it, and is none of its members yet: it has no copy."""

    @property
    def lacks(self) -> int:
        """So many servers have no copy yet, those that are away not among them."""
        return self.replicas - 1 - sum(one.away or not one.copies for one in self.keepers) if self.led else 0


def group(varz: Page) -> Group | None:
    """The group; None: this server is in none."""
    found = varz.get("leafd", {}).get("group")
    if not found:
        return None
    return Group(
        part=found["part"],
        leader=found["leader"],
        needed=found["needed"],
        expected=found["expected"],
        missing=found["missing"],
        idle=tuple(found.get("idle", ())),
        unread=found["unread"],
        waits=found.get("waits", ""),
        members=tuple(
            Member(
                name=one["name"],
                cluster=one["cluster"],
                leads=one["name"] == found["leader"],
                voter=one["voter"],
                away_s=one["away"],
                streams=one["streams"],
                shared=one["shared"],
                lag=one.get("lag"),
            )
            for one in found["servers"]
        ),
    )


def shared(varz: Page, jsz: Page) -> Iterator[Shared]:
    """The streams of several that this server keeps."""
    own = varz.get("server_name", "")
    for account in jsz.get("account_details", ()):
        for one in account.get("stream_detail") or ():
            told = one.get("cluster") or {}
            if "raft_group" in told:
                leader = told.get("leader", "")
                others = told.get("replicas") or []
                waits = not leader and not others
                if leader != own and others:  # this server is one of them
                    others = [one for one in (_named(own), *others) if one["name"] != leader]
                keepers = tuple(map(_keeper, others))
                replicas = (one.get("config") or {}).get("num_replicas", 0)
                yield Shared(one["name"], account.get("name", ""), leader, leader == own, keepers, replicas, waits)


def _named(server: str) -> Page:
    return {"name": server, "current": False}


def _keeper(row: Page) -> Keeper:
    return Keeper(
        name=row["name"],
        current=row["current"],
        lag=row.get("lag", 0),
        away=bool(row.get("offline")),
        copies=bool((row.get("leafd") or {}).get("copies")),
    )


def part_of(one: Member) -> str:
    """A member's part, in a word."""
    return "leader" if one.leads else "member" if one.voter else "is let in"


def kept_by(stream: Shared) -> str:
    """The others that keep a stream, with their states as far as they are known here."""
    return ", ".join(f"{one.name} ({_state(one)})" if stream.led else one.name for one in stream.keepers)


def _state(one: Keeper) -> str:
    if one.away:
        return "away"
    if one.copies:
        return "is given a copy"
    return "level" if one.current else f"{one.lag:,} behind"


def problems(found: Group | None, streams: Sequence[Shared]) -> Iterator[Problem]:
    """All that needs attention."""
    if found is None:
        return
    yield from _of_group(found)
    waiting = [one.name for one in streams if one.waits]
    if waiting:
        yield Problem(
            f"{_listed('stream', waiting)} of several servers: this server has no copy yet",
            "the server that leads gives it one: ask another server whether there is one that leads",
        )
    leaderless = [one.name for one in streams if not one.leader and not one.waits]
    if leaderless:
        yield Problem(
            f"{_listed('stream', leaderless)} of several servers: there is no leader, and messages are refused",
            f"start the servers that keep them; {STREAM_LOST}",
            grave=True,
        )
    few = [one.name for one in streams if one.lacks > 0]
    if few:
        yield Problem(
            f"{_listed('stream', few)} of several servers: fewer have a copy than are to keep it",
            "others are given one, if they are there: wipe no disk and take out no server until then",
        )
    gone = {one.name for one in found.members if one.away_s is not None}
    unheard = [one for stream in streams if stream.led for one in stream.keepers if one.away]
    silent = Counter(one.name for one in unheard if not one.copies)
    copied = Counter(one.name for one in unheard if one.copies)
    for name, count in copied.items():
        if name not in gone:
            yield Problem(
                f"server {name} is there, and is given a copy of {count} streams over a way that brings little",
                "wait, or mend the way; the streams go on without it meanwhile",
            )
    for name, count in silent.items():
        if name not in gone:
            yield Problem(
                f"server {name} is there and does not keep {count} streams that it should keep with this one",
                "its log says why; its disk may be another one",
            )


def _of_group(found: Group) -> Iterator[Problem]:
    if found.part == "none":
        yield Problem(
            "this server takes no part in the group of servers, and has no streams", "see its log", grave=True
        )
        return
    if found.missing:
        yield Problem(
            f"the group of servers is not founded, and there are no streams: {found.missing} of {found.expected} "
            "servers are missing",
            "start them, and see that routes or gateways lead to them"
            + (f"; without JetStream {', '.join(found.idle)}: meta_size is how many have it" if found.idle else ""),
            grave=True,
        )
    if found.part == "stranger":
        yield Problem(
            "this server's disk is not a member of the group of servers: the leader lets it in",
            "wait; if it takes more than a minute, see the leader's log",
        )
    if found.members and not found.leader:
        yield _leaderless(found)
    for one in found.members:
        if found.leader and one.away_s is not None and one.away_s > MISSED_S:
            yield _away(one)
    if found.unread:
        yield Problem(
            f"{found.unread} of the servers' streams cannot be read by this version of leafd, and are offline",
            "update this server",
        )
    if found.waits:
        yield Problem(f"this server does not go on with what the group agreed on, as {found.waits}", "see its log")


def _leaderless(found: Group) -> Problem:
    head = "the group of servers has no leader, and no stream can be made, changed or deleted"
    if found.there >= found.needed:
        text = f"{head}: {found.there} of {len(found.members)} are there, and elect one"
        return Problem(text, "wait; if it takes more than a minute, see the logs", grave=True)
    away = [one.name for one in found.members if one.away_s is not None and one.voter]
    text = f"{head}: {found.there} are there, {found.needed} are needed"
    return Problem(text, f"start {_names(away)}; {LOST}", grave=True)


def _away(one: Member) -> Problem:
    alone = f", and its {one.streams} streams with it" if one.streams else ""
    others = f"; {one.shared} more go on with the servers that keep them, too" if one.shared else ""
    return Problem(
        f"server {one.name} of the group is away for {one.away_s:.0f} s{alone}{others}",
        f"start it; if it does not come back, take it out (nats server cluster peer-remove {one.name})",
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _listed(noun: str, names: Sequence[str]) -> str:
    return f"{noun if len(names) == 1 else noun + 's'} {_names(names)}"
