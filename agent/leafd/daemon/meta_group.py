"""The group of all servers of a cluster with JetStream, in this server: joins the council (cluster/council.py) with the
plane, the links to other servers and the store's records, and shows the group to reports.

Only a configuration with `meta_size` imports this. Not here: founding and members (cluster/), the group itself
(native/meta).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from leafd import native_types as t
from leafd.cluster.council import DISK_SIZE, LOOK_S, TICK_S, Council, Ports, group_name, names_in
from leafd.cluster.founding import Disk, Members, Promises
from leafd.cluster.founding_bytes import DamagedError, read_promises, write_promises
from leafd.cluster.letters import MAGIC as LETTERS
from leafd.cluster.neighbours import MAGIC as NEIGHBOURS
from leafd.cluster.presence import AWAY_S
from leafd.daemon import rescue
from leafd.jetstream.asides import insisted
from leafd.links.origin import peer_number
from leafd.native_meta import LEADER, MetaLook, MetaMember, is_heard, look_in, member_info, rows_in, shown_peer
from leafd.quoting import quoted
from leafd.turns import beat

if TYPE_CHECKING:
    from leafd.cluster.neighbours import Neighbours
    from leafd.daemon.about import About
    from leafd.daemon.current import Current
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.native_plane import Plane

RECORD: Final = b"meta/founding"
NEW_S: Final = 4.0
"""Shorter than clients wait for an answer: 5 s, most of them."""
SOON_S: Final = 0.1
IDLE_SHOWN: Final = 4
Part = Literal["none", "founding", "stranger", "member"]
_NOTHING: Final = {"pending": 0, "pending_requests": 0, "pending_infos": 0}
_LATER: Final = (t.Status.AGAIN, t.Status.FULL, t.Status.CLOSED, t.Status.EXISTS)


class MetaGroup:
    """Owner of this server's part in the group."""

    def __init__(
        self,
        plane: Plane,
        current: Current,
        about: About,
        neighbours: Neighbours,
        expected: int,
        log: Log,
        guard: Guard,
    ) -> None:
        self._plane, self._current, self._neighbours = plane, current, neighbours
        self._name, self._expected = about.name, expected
        self._log, self._guard = log, guard
        self._record, self._rescued = self._kept()
        self._council: Council | None = None
        self._heard = trio.Event()
        """A letter about founding came, or another server, which is not to wait for the next tick."""
        self._look: MetaLook | None = None
        self._members: tuple[MetaMember, ...] = ()
        self._led = (0, 0.0)
        """The server that was last seen to lead, and when."""
        self._stands_since = 0.0
        """Since when the group has that leader, or none."""
        self._judging: set[int] = set()
        """The servers that say that the group was rescued, while that is judged, .."""
        self._disbelieved: tuple[int, Members] | None = None
        """.. and the last one that was not believed, with the list that it told."""
        self._leaving = trio.Lock()
        self._rows: dict[bytes, tuple[int, bytes]] = {}
        self._row_names: dict[int, str] = {}
        """Names of the servers that have a row."""
        self._read_at = 0
        self._names: dict[int, str] = {}
        """Names of members that were linked once: one that is away may have died before its row was written."""
        self.unread = 0
        """Rows of the table that this version cannot read, as its readers say."""
        self.peer = peer_number(about.name)
        self._term_read = 0
        """The term in which this server, as its leader, has seen all of the log applied."""
        self.take_letter: Callable[[int, bytes], None] = lambda peer, letter: None
        """Takes letters that are no matter of founding (cluster/letters.py)."""
        self.on_left: list[Callable[[], None]] = []
        """This server is in another group from here on, whose rows it has still to get."""
        self.on_rows: list[Callable[[dict[bytes, tuple[int, bytes]], int], None]] = []
        """The table, and the entry of the log as of which it is at least."""
        self.on_lead: list[Callable[[], None]] = []
        """This server leads from here on."""

    def _kept(self) -> tuple[bytes | None, bytes]:
        """The record of what this disk has promised, None: it has promised nothing; and the name of the group that it
        was rescued from. Before the plane's start."""
        try:
            records = dict(self._plane.records(t.Record.CONTROL, whole=True))
            return records.get(RECORD), records.get(rescue.RECORD, b"")
        except t.PlaneError:
            return b"", b""  # which no promises are: they may be anything

    def handle(self, letter: t.Letter) -> None:
        """A letter of another server."""
        if letter.payload.startswith(LETTERS):
            self.take_letter(letter.peer, letter.payload)
        elif letter.payload.startswith(NEIGHBOURS):
            self._neighbours.hear(letter.peer, letter.payload)
        elif self._council is not None:
            with self._guard.around("a letter about the group of servers"):
                self._council.receive(letter.peer, letter.payload)
                if not self._council.there:
                    self._heard.set()

    # ---- serving

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Takes part until it is cancelled."""
        await self._open()
        self._stands_since = trio.current_time()
        task_status.started()
        if self._council is None:
            return
        look_at = 0.0
        while True:
            now, self._heard = trio.current_time(), trio.Event()
            with self._guard.around("the group of servers"):
                self._neighbours.tick(now)
                await self._council.tick(now)
                if now >= look_at or not self.leader:
                    look_at = beat(now, LOOK_S)
                    await self._look_at()
            with trio.move_on_at(look_at if self._is_settled else now + TICK_S):
                await self._heard.wait()

    @property
    def _is_settled(self) -> bool:
        """Whether this disk is a member of a group that is led: what changes comes as news, not by a clock's tick."""
        return self._council is not None and self._council.there and self._council.member and self.leader != 0

    def heard(self) -> None:
        """A server came, or went."""
        self._heard.set()

    async def _open(self) -> None:
        system = self._current.account(self._current.compiled.graph.system_name)
        assert system is not None
        try:
            disk, there, stale = await insisted(self._plane.meta_open, system.id, self.peer)
            if stale:
                await self._go_on_as_another(Disk(self.peer, disk))
            there = await self._rescue(Disk(self.peer, disk), there=there)
            ports = Ports(
                self.linked,
                self._plane.meta_send,
                self._save,
                self._found,
                self._alter,
                self._put,
                random.random,
                self._log.warning,
            )
            own = Disk(self.peer, disk)
            self._council = Council(own, self._name, self._expected, self._record, ports, there=there)
        except (t.PlaneError, rescue.RescueError) as error:
            self._log.error(f"JetStream cluster: this server takes no part in the group of servers: {error}")
        except DamagedError:
            self._log.error(
                "JetStream cluster: this server takes no part in the group of servers: the record of what it has "
                "promised cannot be read"
            )

    async def _go_on_as_another(self, own: Disk) -> None:
        """This disk has lost something, perhaps of what it promised: it is another member from here on, which knows
        that the group was founded, and waits. Raises PlaneError, DamagedError."""
        before = read_promises((self._record or b"")[DISK_SIZE:])
        if not before.founded:
            raise DamagedError
        promises = write_promises(Promises(members=before.members, founded=True))
        self._record = own.disk.to_bytes(DISK_SIZE, "big") + promises
        await self._plane.record_put(RECORD, self._record)
        self._log.warning(
            "JetStream cluster: this disk has lost something, and is another member of the group of servers from here "
            "on: it waits until the group's leader lets it in"
        )

    async def _rescue(self, own: Disk, *, there: bool) -> bool:
        """Goes on alone, if that is asked for. Returns whether this disk has a group."""
        folder = self._current.store
        if folder is None or not rescue.is_asked_for(folder):
            return there
        found = await rescue.carry_out(folder, self._plane, own, there=there, record=RECORD)
        self._record, self._rescued = found
        self._log.warning(
            "JetStream cluster: this server goes on without the others of its group, as it was asked to: those that "
            "come back are let in again"
        )
        return True

    async def leave_for(self, sender: int, groups: Mapping[int, Members], members: Members) -> None:
        """Leaves the group that this disk has, if it is one of these, and waits to be let into that of the list: once
        this group says nothing against it (rescue.judged()). One letter of a server is judged at a time."""
        if sender in self._judging:
            return
        self._judging.add(sender)
        leaves = False
        try:
            with trio.move_on_after(rescue.KEPT_S):
                leaves = await self._is_to_leave(sender, groups, members)
        finally:
            self._judging.discard(sender)
        async with self._leaving:
            if leaves and self._is_replaced(groups, members):
                await self._leave(members)

    def _is_replaced(self, groups: Container[int], members: Members) -> bool:
        """Whether this disk's group is one of these, and not the one of the list."""
        look = self._look
        return look is not None and look.name in groups and look.name != group_name(members)

    async def _is_to_leave(self, sender: int, groups: Mapping[int, Members], members: Members) -> bool:
        asked_at = trio.current_time()
        while self._is_replaced(groups, members):
            look, now = self._look, trio.current_time()
            assert look is not None
            since = {"stood_s": now - self._stands_since, "asked_s": now - asked_at}
            verdict = rescue.judged(look, self._members, groups[look.name], own=Disk(*self.disk), **since)
            if verdict == "leave":
                return True
            if verdict == "stay":
                if (sender, members) != self._disbelieved:
                    self._disbelieved = sender, members
                    self._log.warning(
                        f"JetStream cluster: {self._named(sender)} says that the group of servers was rescued without "
                        "this server, by one that answers in the group, or is no member of it: this server stays"
                    )
                return False
            await trio.sleep(TICK_S)
        return False

    async def _leave(self, members: Members) -> None:
        assert self._council is not None
        self._log.warning(
            "JetStream cluster: the group of servers was rescued without this server, which leaves the old one: what "
            "that agreed on since is lost, and streams of this server that the others do not know are told to them"
        )
        await self._council.follow(members)
        while not await self._tried(self._plane.meta_replace(group_name(members), None, 1)):  # noqa: ASYNC110
            await trio.sleep(TICK_S)
        self._look, self._members, self._rows, self._read_at, self._term_read = None, (), {}, 0, 0
        self._led = (0, 0.0)
        for callback in self.on_left:
            callback()

    @property
    def rescued(self) -> dict[str, Any] | None:
        """The news for servers of a group that this one replaced, where this server leads; None: there are none."""
        if self._council is None or not self.leads:
            return None
        groups = rescue.replaced_groups(self._rows)
        return rescue.news(groups, self._council.founding.kept.members) if groups else None

    # ---- ports of the council

    def linked(self) -> dict[int, str]:
        """The servers to which there is a way, with their names."""
        return self._neighbours.linked

    async def _save(self, promises: bytes) -> bool:
        try:
            await self._plane.record_put(RECORD, promises)
        except t.PlaneError as error:
            self._log.warning(f"JetStream cluster: what this disk promises cannot be written: {error}")
            return False
        return True

    async def _found(self, name: int, members: tuple[Disk, ...]) -> bool:
        try:
            await self._plane.meta_found(name, members)
        except t.PlaneError as error:
            if error.status not in _LATER:
                raise
            return False
        if members:
            self._log.info(f"JetStream cluster: the group of {len(members)} servers is founded")
        return True

    async def _alter(self, change: int, member: Disk) -> bool:
        return await self._tried(self._plane.meta_alter(change, member))

    async def _put(self, key: bytes, value: bytes, revision: int) -> bool:
        return await self._tried(self._plane.meta_put(key, value, revision))

    async def _tried(self, asked: Any) -> bool:
        """False: this server may lead no more, or another change comes first. The next look says."""
        try:
            await asked
        except t.PlaneError as error:
            if error.status not in _LATER:
                raise
            return False
        return True

    # ---- what it looks like

    async def _look_at(self) -> None:
        assert self._council is not None
        known, before = (self._look.name, self._look.leader) if self._look is not None else (0, 0)
        look, self._members = look_in(await self._plane.meta_look())
        self._look = look
        self._council.member = any(self._is_own(one) for one in self._members)
        if look.name != known:
            self._stands_since = trio.current_time()
        if not look.name:
            return
        if look.leader:
            self._led = look.leader, trio.current_time()
        linked = self.linked()
        self._names |= {one.peer: linked[one.peer] for one in self._members if one.peer in linked}
        if look.applied != self._read_at:
            await self._read_rows(look)
        if look.leader != before:
            self._stands_since = trio.current_time()
            self._tell_leader(look)
        if look.role == LEADER and look.leased:
            if look.applied == look.last:
                self._term_read = look.term
            if self._rescued and (row := rescue.ROW + self._rescued) not in self._rows:
                await self._put(row, rescue.written_row(self._council.own), 0)
            await self._council.lead(self._members, self._rows)

    async def _read_rows(self, look: MetaLook) -> None:
        self._read_at, self._rows = look.applied, rows_in(await self._plane.meta_rows())
        self._row_names = names_in(self._rows)
        for callback in self.on_rows:
            with self._guard.around("rows of the servers' table"):
                callback(self._rows, look.applied)

    def _is_own(self, member: MetaMember) -> bool:
        return self._council is not None and self._council.own == (member.peer, member.disk)

    def _tell_leader(self, look: MetaLook) -> None:
        if look.leader == self.peer:
            self._log.info("Self is new JetStream cluster metadata leader")
            for callback in self.on_lead:
                callback()
        elif look.leader:
            self._log.info(f"JetStream cluster new metadata leader: {self._named(look.leader)}")
        else:
            self._log.info("JetStream cluster no metadata leader")

    def _named(self, peer: int) -> str:
        if peer == self.peer:
            return self._name
        return self._names.get(peer) or self._row_names.get(peer) or shown_peer(peer)

    # ---- its table, for those who keep something there

    async def look(self) -> None:
        """Looks at the group at once."""
        if self._council is not None:
            await self._look_at()

    async def write(self, key: bytes, value: bytes | None, revision: int) -> int:
        """Writes a row that has that revision, or removes it; the new revision. Returns when a majority has it. Raises
        PlaneError: EXISTS: the row is another one by now; else this server does not lead, or nobody does."""
        if value is None:
            return await self._plane.meta_remove(key, revision)
        return await self._plane.meta_put(key, value, revision)

    @property
    def members(self) -> tuple[MetaMember, ...]:
        """The members of the group."""
        return self._members

    @property
    def disk(self) -> tuple[int, int]:
        """This server and its disk, as members are named; the disk is 0 where it takes part in nothing."""
        return self._council.own if self._council is not None else (self.peer, 0)

    @property
    def system(self) -> str:
        """The account in whose name servers talk with each other."""
        return self._current.compiled.graph.system_name

    @property
    def seen(self) -> tuple[MetaLook, tuple[MetaMember, ...]] | None:
        """The group as this server saw it last; None: it knows of none."""
        return (self._look, self._members) if self._look is not None and self._look.name else None

    @property
    def leader(self) -> int:
        """The server that leads; 0: none, as far as this one knows."""
        return self._look.leader if self._look is not None else 0

    @property
    def decider(self) -> int:
        """The server to ask for decisions; 0: there is none. The server that led a moment ago most likely still does,
        and is asked: over a far link one lost packet has its beats late, and the answer would have come."""
        led, at_s = self._led
        if self.leader or led == self.peer or trio.current_time() - at_s >= AWAY_S:
            return self.leader
        return led if led in self.linked() else 0

    @property
    def is_new(self) -> bool:
        """Whether the group has its leader, or none, since a moment: it may have another one in a moment."""
        return trio.current_time() - self._stands_since < NEW_S

    async def soon(self, ready: Callable[[], object]) -> None:
        """Returns when that is so, or the group has stood as it is for long: a client would rather wait for an
        election, which takes a second or two, than be refused."""
        while not ready() and self.is_new:  # noqa: ASYNC110
            await trio.sleep(SOON_S)

    @property
    def decides(self) -> bool:
        """Whether this server leads, and its table is all that was ever agreed on."""
        look = self._look
        return look is not None and look.role == LEADER and bool(look.leased) and look.term == self._term_read

    def named(self, peer: int) -> str:
        """The name of a server."""
        return self._named(peer)

    def patience(self, seconds: float) -> float:
        """How long a decision, or an election, may take that takes so long near by: nine round trips at least where the
        servers are far from each other."""
        return max(seconds, 3 * self._look.election_ns / 1e9 if self._look is not None else 0.0)

    @property
    def leads(self) -> bool:
        """Whether this server leads the group."""
        return self._look is not None and self._look.role == LEADER

    @property
    def expected(self) -> int:
        """How many servers found the group."""
        return self._expected

    @property
    def missing(self) -> int:
        """How many of them are still missing to found it."""
        council = self._council
        return council.founding.missing if council is not None and not council.there else 0

    @property
    def idle(self) -> list[str]:
        """Servers that are there and that nobody has to wait for: they have no JetStream, and routes and gateways say
        how many servers found the group. None is counted out: whether it is one of those is not known, and so two
        groups might be founded."""
        jetstream = self._current.config.jetstream
        counted = self.missing and jetstream is not None and not jetstream.meta_size
        return self._neighbours.idle()[:IDLE_SHOWN] if counted else []

    @property
    def part(self) -> Part:
        """The standing of this server's disk in the group."""
        if self._council is None:
            return "none"
        if not self._council.there or self._look is None or not self._look.name:
            return "founding"
        return "member" if self._council.member else "stranger"

    @property
    def unwell(self) -> str:
        """Why healthz is not well, in the reference's words where it has some; "": it is."""
        if self._look is not None and self._look.leader:
            return f"{self.unread} of the servers' streams cannot be read" if self.unread else ""
        why = "JetStream has not established contact with a meta leader"
        if not self.missing:
            return why
        names = [quoted(name) for name in self.idle]
        told = f"{why}: {self.missing} of {self._expected} servers are missing to found the group"
        return told + (f"; without JetStream {', '.join(names)}: meta_size is how many have it" if names else "")

    def report(self, cluster: str, *, at_followers: bool = False) -> dict[str, Any]:
        """meta_cluster of jsz, and `meta` of varz. at_followers: also who does not lead names the other members."""
        look = self._look
        if look is None or not look.name:
            return {"name": cluster, "cluster_size": self._expected, "quorum_needed": self._expected // 2 + 1}
        found: dict[str, Any] = {"name": cluster}
        if look.leader:
            found |= {"leader": self._named(look.leader), "peer": shown_peer(look.leader)}
        if look.role == LEADER or at_followers:
            found["replicas"] = [self._replica(look, one) for one in self._members if not self._is_own(one)]
        voters = sum(one.voter for one in self._members)
        return found | {"cluster_size": len(self._members), "quorum_needed": voters // 2 + 1, **_NOTHING}

    def _replica(self, look: MetaLook, member: MetaMember) -> dict[str, Any]:
        row = member_info(self._named(member.peer), member, heard=is_heard(look, member))
        if not member.voter:
            row["observer"] = True
        return row
