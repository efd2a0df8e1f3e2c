"""One server's part in the group of all servers with JetStream: it founds the group with the others, or waits to be let
in; as its leader it lets others in and keeps a row of each.

    letters --> Founding (founding.py) --> promises to the disk --> letters
                    | founded
                    v
    the plane makes its part of the group --> look, once a second --> as the leader: members, rows

- A disk that is no member says Hello to all that it is linked with. A server that knows of the group tells it the first
  members, and its leader takes it in: as a learner first, and in the place of another disk of the same server, which is
  gone.
- Promises are of one disk. Those of another, which this store had before it lost something, are not this one's; those
  that cannot be read may be anything, and the disk takes part in nothing.

Knows no routes and no plane (Ports); what the group decides on is not here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from leafd.cluster.founding import Disk, Founding, Hello, Members, Message, Promises
from leafd.cluster.founding_bytes import DamagedError, read_message, read_promises, write_message, write_promises
from leafd.records import dataclass

TICK_S: Final = 0.25
LOOK_S: Final = 1.0
HEARD_S: Final = 12.0
"""A server that has said nothing for so long is not there, though there is a link with it: over one whose round trip is
four seconds, what is lost comes that much later."""
MEMBER_ROW: Final = b"m/"
BANNED_ROW: Final = b"x/"
"""The row of a disk that was taken out by hand, and is not let in again."""
LEARN, PROMOTE, REMOVE = 1, 2, 3
DISK_SIZE: Final = 8


class MemberSeen(Protocol):
    """A member of the group, as the plane shows it."""

    @property
    def peer(self) -> int: ...
    @property
    def disk(self) -> int: ...
    @property
    def voter(self) -> int: ...
    @property
    def heard_ns(self) -> int:
        """Since it answered the leader; -1: it never has."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The calls by which a council reaches the plane, the disk and the other servers."""

    linked: Callable[[], dict[int, str]]
    """The servers that this one has a route to, with their names."""
    send: Callable[[int, bytes], None]
    save: Callable[[bytes], Awaitable[bool]]
    """False: the disk has not taken it."""
    found: Callable[[int, tuple[Disk, ...]], Awaitable[bool]]
    """False: later."""
    alter: Callable[[int, Disk], Awaitable[bool]]
    put: Callable[[bytes, bytes, int], Awaitable[bool]]
    jitter: Callable[[], float]
    warn: Callable[[str], None]


def group_name(members: Iterable[Disk]) -> int:
    """The group's name, which is the same at all its members."""
    text = b"".join(disk.peer.to_bytes(8, "big") + disk.disk.to_bytes(8, "big") for disk in sorted(members))
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") | 1


def promises_in(record: bytes | None, disk: int) -> Promises:
    """The promises of this disk. Raises DamagedError."""
    if record is None:
        return Promises()
    if len(record) < DISK_SIZE:
        raise DamagedError
    promises = read_promises(record[DISK_SIZE:])
    return promises if int.from_bytes(record[:DISK_SIZE], "big") == disk else Promises()


class Council:
    """`receive` takes letters at any time; `tick` and `lead` are called by one task."""

    def __init__(self, own: Disk, name: str, expected: int, record: bytes | None, ports: Ports, *, there: bool) -> None:
        """there: the plane has its part of the group. Raises DamagedError."""
        self.own, self._name, self._ports = own, name, ports
        self.founding = Founding(own, expected, promises_in(record, own.disk), ports.jitter)
        self.there = there
        self.member = False
        """Whether this disk is one of the members, as far as it knows."""
        self._heard: dict[int, tuple[Disk, float]] = {}
        self._strangers: dict[int, tuple[Disk, float]] = {}
        self._now_s = 0.0
        self._hello_s = 0.0
        self._greeted: set[int] = set()
        """The servers that were linked when it greeted last."""
        self._told = False
        self._unsaved: Promises | None = None

    # ---- letters

    def receive(self, peer: int, data: bytes) -> None:
        """A letter; the route says which server sent it."""
        letter = read_message(data)
        if letter is None or letter.sender.peer != peer or letter.to.peer != self.own.peer:
            return
        self._heard[peer] = letter.sender, self._now_s
        if isinstance(letter.message, Hello):
            self._strangers[peer] = letter.sender, self._now_s
        elif letter.to != self.own:
            return
        self.founding.receive(letter.sender, letter.message)

    def _say(self, to: Disk, message: Message) -> None:
        self._ports.send(to.peer, write_message(self.own, to, message))

    # ---- founding

    async def tick(self, now_s: float) -> None:
        """The passing of time."""
        self._now_s = now_s
        linked = self._ports.linked()
        for known in (self._heard, self._strangers):
            for peer in [one for one, (_, at) in known.items() if one not in linked or now_s - at > HEARD_S]:
                del known[peer]
        self.founding.see(disk for disk, _ in self._heard.values())
        if not self.member and (now_s >= self._hello_s or linked.keys() != self._greeted):
            self._hello_s, self._greeted = now_s + LOOK_S, set(linked)
            for peer in linked:
                self._say(self._heard[peer][0] if peer in self._heard else Disk(peer, 0), Hello())
        if not self.there:
            self.founding.tick(now_s)
        await self._settle()
        if self.founding.kept.founded and self._unsaved is None and not self.there:
            await self._make()

    async def _settle(self) -> None:
        """Promises reach the disk before they are said."""
        saving, sendings = self.founding.take_saving(), self.founding.take_sendings()
        if saving is not None:
            self._unsaved = saving[1]
        if self._unsaved is not None:
            saved = self._unsaved
            if not await self._ports.save(self.own.disk.to_bytes(DISK_SIZE, "big") + write_promises(saved)):
                return  # what was to be said is lost, as on a network
            self._unsaved = None
        for sending in sendings:
            self._say(sending.to, sending.message)

    async def _make(self) -> None:
        members = self.founding.kept.members
        is_first = self.own in members
        if not is_first and not self._told:
            self._told = True
            self._ports.warn(
                "the servers of this cluster have founded their group without this server's disk: it is new, or was "
                "wiped or replaced; it waits until the group's leader lets it in"
            )
        self.there = await self._ports.found(group_name(members), tuple(sorted(members)) if is_first else ())

    async def follow(self, members: Members) -> None:
        """The group of that list is in the place of this disk's, which has still to leave it."""
        self.founding.follow(members)
        self.member = False
        await self._settle()

    # ---- the group's leader

    async def lead(self, members: Iterable[MemberSeen], rows: dict[bytes, tuple[int, bytes]]) -> None:
        """One change of members, if one is wanted; a row of each member. Called where this server leads."""
        there = {Disk(one.peer, one.disk): one for one in members}
        names = self._ports.linked() | {self.own.peer: self._name}
        for disk in there:
            if (name := names.get(disk.peer)) is not None:
                await self._keep_row(disk, name, rows)
        for disk, _ in self._strangers.values():
            if banned_row(disk) in rows:
                continue
            gone = [one for one in there if one.peer == disk.peer and one != disk]
            if gone:
                await self._ports.alter(REMOVE, gone[0])
                return
            if disk not in there:
                await self._ports.alter(LEARN, disk)
                return
        for disk, member in there.items():
            # One that is heard and does not answer would count for majorities that it is no part of: a site that has
            # another one's cluster name, so that letters to it go there.
            if not member.voter and member.heard_ns >= 0 and disk.peer in names:
                await self._ports.alter(PROMOTE, disk)
                return

    async def _keep_row(self, disk: Disk, name: str, rows: dict[bytes, tuple[int, bytes]]) -> None:
        key = MEMBER_ROW + disk.peer.to_bytes(8, "big")
        revision, value = rows.get(key, (0, b""))
        wanted = json.dumps({"name": name, "disk": f"{disk.disk:016x}"}, separators=(",", ":")).encode()
        if value != wanted:
            await self._ports.put(key, wanted, revision)


def banned_row(disk: Disk) -> bytes:
    """The key of the row that keeps a disk out."""
    return BANNED_ROW + disk.peer.to_bytes(8, "big") + disk.disk.to_bytes(8, "big")


def names_in(rows: dict[bytes, tuple[int, bytes]]) -> dict[int, str]:
    """The names of servers in the table's rows of members."""
    found: dict[int, str] = {}
    for key, (_, value) in rows.items():
        if key.startswith(MEMBER_ROW) and len(key) == len(MEMBER_ROW) + 8:
            row: dict[str, Any] = json.loads(value)
            found[int.from_bytes(key[len(MEMBER_ROW) :], "big")] = str(row.get("name", ""))
    return found
