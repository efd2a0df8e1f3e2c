"""The members of the groups of streams, as the servers' table wants them: the groups that this server leads are brought
to that, step by step, and the table is told when they are there.

A disk that has lost something has another id from then on, and is another member. What it has of a stream goes, and it
is given a copy, once the group's leader says that a majority goes on without it and has let it in anew: nothing that
was acknowledged is on that disk alone then. As long as nobody says so it stays.

Only a configuration with `meta_size` imports this. Not here: the next step (cluster/membership.py), who is to keep a
stream (cluster/sharing.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.cluster.desired import desired
from leafd.cluster.sharing import moves
from leafd.cluster.table import StreamRow, Table, UnreadError
from leafd.gotime import format_time
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.stream import Placement
from leafd.native_meta import LEADER, shown_peer
from leafd.turns import beat

if TYPE_CHECKING:
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.replicas import Replicas
    from leafd.guard import Guard
    from leafd.jetstream.catalogue import Stream

TEND_S: Final = 2.0
SOON_S: Final = 0.2
"""The next step of several."""
ATTEMPTS: Final = 10
AGAIN_S: Final = 0.3
NOBODY: Final = (errors.PEER_REMAP.err_code, errors.NO_SUITABLE_PEERS.err_code)
HEARD_S: Final = 5.0
HANDED_S: Final = 10.0
"""Two servers with damage hand a stream's lead to each other no more often."""
Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
AskServer = Callable[[int, str, Mapping[str, Any], bytes, float], Awaitable[tuple[dict[str, Any], bytes] | None]]


class Members:
    """The members of those groups that this server leads. ask: the leader of all servers decides; ask_server: what
    another server says, None: nothing."""

    def __init__(
        self, meta: MetaGroup, table: Callable[[], Table], replicas: Replicas, ask: Ask, ask_server: AskServer
    ) -> None:
        self._meta, self._table, self._replicas, self._ask = meta, table, replicas, ask
        self._ask_server = ask_server
        self._news = trio.Event()
        self._damaged: dict[Stream, float] = {}
        """The streams of which this server waits to take a copy, and when it looks next whether it leads them."""

    async def run(self, guard: Guard) -> None:
        """Tends the groups until it is cancelled."""
        more = False
        while True:
            now = trio.current_time()
            with trio.move_on_at(now + SOON_S if more else beat(now, TEND_S)):
                await self._news.wait()
            self._news, more = trio.Event(), False
            with guard.around("the members of streams of several servers"):
                more = await self._replicas.tend(self._wanted, self._told)
            for stream, due in list(self._damaged.items()):
                with guard.around("a damaged copy of a stream of several servers"):
                    if (now := trio.current_time()) >= due:
                        self._damaged[stream] = now + HANDED_S
                        await self._handed_over(stream)
                    if await self._copied_anew(stream):
                        del self._damaged[stream]

    def look(self) -> None:
        """The table wants other members, perhaps."""
        self._news.set()

    def _wanted(self, stream: Stream) -> dict[int, int]:
        """The servers that are to keep the stream, each with the disk that it has now, 0: it is no member."""
        try:
            row = self._table().get(stream.account.name, stream.name)
        except UnreadError:
            return {}
        if row is None or row.config is None or row.created != stream.created:
            return {}
        disks = {member.peer: member.disk for member in self._meta.members}
        return {peer: disks.get(peer, 0) for peer in row.peers}

    async def _told(self, stream: Stream, members: dict[int, int]) -> bool:
        """The group's members are these, as the table wants it: which disks they have is written there. Returns whether
        the table had it so."""
        row = self._table().get(stream.account.name, stream.name)
        if row is None or stream.group is None:
            return False
        about = {"account": row.account, "name": row.name, "created": row.created, "group": stream.group.name}
        count = max(stream.config.num_replicas, 1)
        short, moves = len(members) < count, len(members) > count
        others = {one.peer for one in self._meta.members} - members.keys() - set(row.excluded)
        if dict(row.members) != members or row.leaving or (row.origin is not None and not short and not moves):
            with suppress(ApiError):  # later
                await self._ask({"op": "members", "members": sorted(members.items()), **about})
        elif moves:
            with suppress(ApiError):
                await self._ask({"op": "fill", "peer": self._meta.peer, **about})
        elif short and self._meta.linked().keys() & others:
            with suppress(ApiError):  # nobody who is there may take it
                await self._ask({"op": "fill", "peer": self._meta.peer, **about})
        else:
            return not short
        return False

    async def arrived(self, stream: Stream | None) -> list[list[int]]:
        """The members of a group that this server leads, if a change of them is under way in the table and they are
        those that it wants; else none. The table is told of that when the group is tended, which may be seconds later.
        The next change's asker tells it as well: else calling that one off would take both back."""
        row = self._table().get(stream.account.name, stream.name) if stream is not None else None
        if stream is None or stream.group is None or row is None or row.origin is None:
            return []
        if row.group != stream.group.name:
            return []
        return [list(one) for one in sorted((await self._replicas.come_to(stream, self._wanted(stream))).items())]

    async def leads(self, account: str, name: str) -> dict[str, Any]:
        """This server's answer to the question for a stream's leader; if it leads, with what the group has come to."""
        leader = await self._replicas.leader_here(account, name)
        there = await self.arrived(self._replicas.stream(account, name)) if leader == self._meta.peer else []
        return {"peer": leader, "arrived": there}

    async def arrived_at(self, row: StreamRow, leader: int) -> list[list[int]]:
        """As arrived(), from the server that leads the stream."""
        about = {"account": row.account, "name": row.name}
        if leader == self._meta.peer:
            said: dict[str, Any] = await self.leads(row.account, row.name)
        else:
            answer = await self._ask_server(leader, "leads", about, b"", self._meta.patience(HEARD_S))
            said = answer[0] if answer is not None else {}
        return list(said.get("arrived", ()))

    def keeper(self, stream: Stream, server: str) -> int:
        """The server of that name, or that shown_peer says, which keeps the stream. Raises ApiError: none does."""
        row = self._table().get(stream.account.name, stream.name)
        keep = row.peers if row is not None and row.config is not None and row.created == stream.created else ()
        peer = next((one for one in keep if server in (self._meta.named(one), shown_peer(one))), 0)
        if not peer:
            raise errors.CLUSTER_PEER_NOT_MEMBER.error()
        return peer

    async def without(self, stream: Stream, server: str, *, moves: bool = False) -> None:
        """Another server keeps the stream in the place of that one. moves: also a stream that this one has alone, which
        moves there. Raises ApiError."""
        peer = self.keeper(stream, server)
        if stream.group is None and not moves:
            raise errors.PEER_REMAP.error()
        about = {"account": stream.account.name, "name": stream.name, "created": stream.created}
        there = await self.arrived(stream)
        await self.patiently({"op": "without", "peer": peer, "leader": self._meta.peer, "arrived": there, **about})

    async def desired(self, stream: Stream) -> dict[str, Any] | None:
        """The change of the stream's servers that is under way, as its info has it; None: there is none."""
        row = self._table().streams.get(stream.account.name, {}).get(stream.name)
        if row is None or stream.group is None or row.created != stream.created or not moves(row):
            return None
        try:
            look, members = await self._replicas.look(stream)
        except t.PlaneError:
            return None
        seen = members if look.role == LEADER else None
        return desired(row, seen, self._shown, format_time, self._meta.peer)

    def _shown(self, peer: int) -> dict[str, Any]:
        there = peer == self._meta.peer or peer in self._meta.linked()
        named = {"name": self._meta.named(peer), "peer": shown_peer(peer)}
        return named if there else named | {"offline": True}

    def copy_anew(self, stream: Stream) -> None:
        """A stream of several is damaged here: others keep it without this server, which deletes what it has, and is
        then taken in again as one that has nothing."""
        self._damaged[stream] = 0.0
        self._news.set()

    async def _handed_over(self, stream: Stream) -> None:
        """Consumers wait for what is damaged where the stream is led: another server leads it, if there is one, however
        long the copy has to wait."""
        with suppress(ApiError, t.PlaneError):
            if stream.group is not None and await self._replicas.leader(stream) == self._meta.peer:
                await self._replicas.step_down(stream, Placement())

    async def _copied_anew(self, stream: Stream) -> bool:
        """False: not yet. That is so while another one of its servers is away, since a majority needs this one then,
        and where fewer than two others would keep it and nobody else can take its place: the damaged copy may be
        needed."""
        row = self._table().get(stream.account.name, stream.name)
        if row is None or stream.group is None or row.group != stream.group.name or not self._replicas.has(stream):
            return True
        own, others = self._meta.peer, set(row.peers) - {self._meta.peer}
        if own not in row.peers or not others:
            return True
        if row.leaving or not others <= self._meta.linked().keys():
            return False
        about = {"account": row.account, "name": row.name, "created": row.created, "fewer": len(others) > 1}
        with suppress(ApiError):
            if leader := await self._other_leader(stream):
                await self._ask({"op": "without", "peer": own, "leader": leader, **about})
                return True
        return False

    async def _other_leader(self, stream: Stream) -> int:
        """The server that leads the stream's group; this one hands its lead over before. 0: nobody does. Raises
        ApiError."""
        if await self._replicas.leader(stream) == self._meta.peer:
            await self._replicas.step_down(stream, Placement())
        with trio.move_on_after(self._meta.patience(HEARD_S)):
            while (leader := await self._replicas.leader(stream)) in (0, self._meta.peer):  # noqa: ASYNC110
                await trio.sleep(SOON_S)
            return leader
        return 0

    async def call_off(self, stream: Stream) -> None:
        """The servers that kept the stream before it began to move keep it again, and it asks for what it asked for
        then. Raises ApiError."""
        about = {"account": stream.account.name, "name": stream.name, "created": stream.created}
        await self._ask({"op": "back", "arrived": await self.arrived(stream), **about})

    async def hand_on(
        self, peer: int, leader_of: Callable[[StreamRow], Awaitable[int]], *, moves: bool = False
    ) -> tuple[int, int]:
        """Streams of several that a server kept which is no member any more: others take its place, or fewer keep them.
        Or one that is a member, and those that it has alone move as well (moves). How many stay on it, and how many
        lack a replica for it."""
        left = short = 0
        for row in [one for streams in self._table().streams.values() for one in streams.values()]:
            if peer in row.peers and (row.members or moves):
                about = {"account": row.account, "name": row.name, "created": row.created}
                try:  # where nobody leads it, or there is nobody, its row stays as it is
                    leader = await leader_of(row) if row.members else row.peer
                    less = {"op": "without", "peer": peer, "leader": leader, "fewer": True, "excludes": moves}
                    await self._ask(less | about)
                except ApiError:
                    left += 1
                    continue
                after = self._table().get(row.account, row.name)
                short += after is not None and 0 < len(after.members) < len(row.members)
        return left, short

    async def goes_on(self, row: StreamRow) -> bool:
        """A stream that no other server has goes on with what this disk has of it, as another group. Whether that is
        so. Raises ApiError."""
        peer, disk = self._meta.disk
        if row.peers != (peer,) or row.leaving:
            return False
        own = {"peer": peer, "disk": disk, "server": self._meta.named(peer), "group": row.group}
        about = {"account": row.account, "name": row.name, "created": row.created}
        return "refused" not in await self._ask({"op": "alone", **about, **own})

    async def begins_anew(self, row: StreamRow, stream: Stream) -> bool:
        """Whether the leader of the stream's group has let this server's disk in anew, which has another one's part."""
        if stream.group is None or stream.created != row.created or stream.group.name != row.group:
            return False
        about = {"account": row.account, "name": row.name, "group": row.group, "disk": self._meta.disk[1]}
        for peer in (*row.peers, *row.leaving):
            if peer != self._meta.peer and peer in self._meta.linked():
                said = await self._ask_server(peer, "lets-in", about, b"", self._meta.patience(HEARD_S))
                if said is not None and said[0].get("in") is True:
                    return True
        return False

    async def lets_in(self, stream: Stream | None, peer: int, head: Mapping[str, Any]) -> bool:
        """Whether this server leads the stream's group, and that one's disk was let in: it asks for that."""
        if stream is None or stream.group is None or stream.group.name != head["group"]:
            return False
        return await self._replicas.lets_in(stream, peer, head["disk"])

    async def patiently(self, wish: dict[str, Any]) -> None:
        """Asks again while the one server that could take the stream has yet to delete what it had of it."""
        for attempt in range(ATTEMPTS):
            try:
                await self._ask(wish)
                return
            except ApiError as error:
                row = self._table().get(wish["account"], wish["name"])
                waits = row is not None and (row.gone or row.leaving)
                if error.err_code not in NOBODY or not waits or attempt + 1 == ATTEMPTS:
                    raise
                await trio.sleep(AGAIN_S)
