"""Streams that several servers keep, in this one: its part in their groups, and who leads them.

    a row with members --> the stream is made here, as on each of them --> join: the plane takes part in its group
    the table wants other members, or a server has another disk --> who leads alters the group, step by step
    a request          --> who leads, as the group here says, or else a server that has the stream

Only a configuration with `meta_size` imports this. Not here: who is to keep a stream (placing.py), what a member does
(native/jetstream/replicated.c).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.cluster.membership import Change, next_change
from leafd.cluster.placement import Site, Wish, fits
from leafd.gotime import format_time
from leafd.jetstream import errors
from leafd.jetstream.followed import Followed
from leafd.native_meta import LEADER, REMOVE, MetaLook, MetaMember, is_heard, look_in, member_info

if TYPE_CHECKING:
    from leafd.daemon.meta_group import MetaGroup
    from leafd.guard import Guard
    from leafd.jetstream.catalogue import Catalogue, Group, Settings, Stream
    from leafd.jetstream.models.stream import Placement
    from leafd.native_plane import Plane

FOREIGN: Final = t.Status.INVALID
"""The status of joining a group in which this disk made promises before it lost something."""
WAITS: Final = (t.Status.AGAIN, t.Status.FULL, t.Status.NOT_FOUND, t.Status.IO, t.Status.NO_MEMORY)
"""The statuses of a group that cannot be joined now."""
JOIN_S: Final = 0.3
"""A group that cannot be joined now is tried again."""
LED_S: Final = 5.0
"""How long who makes a stream waits for its leader."""
LOOK_S: Final = 0.05
ALONE_ATTEMPTS: Final = 40
"""A leader that hears nobody leads for some seconds."""


class Replicas:
    """This server's part in streams of several."""

    def __init__(
        self,
        plane: Plane,
        meta: MetaGroup,
        catalogue: Catalogue,
        settings: Settings,
        site: Callable[[int], Site | None],
    ) -> None:
        """site: what is known of a server that is there."""
        self._site = site
        self._plane, self._meta, self._catalogue, self._settings = plane, meta, catalogue, settings
        self.followed = Followed(plane)
        self._joined: set[int] = set()
        """Streams, by the plane's numbers."""
        self._settled: dict[int, tuple[int, dict[int, int]]] = {}
        """By stream: the lead in which its members were seen to be the ones that are wanted, which are these."""
        self._wished: dict[int, Change | None] = {}
        """By stream: a disk is gone when that is found twice, since a new leader has not heard of all yet."""

    async def join_all(self, guard: Guard) -> None:
        """Joins the groups of the streams that this server had at its start."""
        with guard.around("the streams of several servers"):
            await self._join_all()

    async def _join_all(self) -> None:
        waiting = [stream for stream in self._catalogue.streams() if stream.group is not None]
        lost = set[int]()  # until they begin anew, or are rescued, which the table's rows have done
        while waiting:
            for stream in waiting:
                try:
                    await self.join(stream)
                except t.PlaneError as error:
                    if error.status in (FOREIGN, t.Status.EXISTS, t.Status.CORRUPT):
                        lost.add(stream.id)
                    elif error.status not in WAITS:
                        raise
            waiting = [
                one for one in waiting if one.id not in self._joined | lost and self._catalogue.stream(one.id) is one
            ]
            await trio.sleep(JOIN_S)

    async def join(self, stream: Stream) -> None:
        """This server takes its part in the stream's group. Raises PlaneError."""
        assert stream.group is not None
        founders = stream.group.members if self._meta.disk in stream.group.members else ()
        await self._plane.stream_group(stream.id, stream.group.name, founders)
        self._joined.add(stream.id)

    async def alone(self, stream: Stream, group: Group) -> None:
        """The stream's group goes on here without the others, as that one. Raises PlaneError."""
        for attempt in range(ALONE_ATTEMPTS):
            try:
                await self._plane.stream_group_alone(stream.id, group.name)
                break
            except t.PlaneError as error:  # AGAIN: what its log has is carried out first
                if error.status != t.Status.AGAIN or attempt + 1 == ALONE_ATTEMPTS:
                    raise
                await trio.sleep(JOIN_S)
        self._joined.add(stream.id)
        self._settled.pop(stream.id, None)

    async def tend(
        self,
        wanted: Callable[[Stream], dict[int, int]],
        tell: Callable[[Stream, dict[int, int]], Awaitable[bool]],
    ) -> bool:
        """One change of members of each group that this server leads, if one is wanted. Returns whether there is more
        to do soon. wanted: the servers that are to keep a stream, with their disks. tell: takes those that keep it,
        once they are the ones; True: that was known, so nothing is to be done until another one leads or is wanted."""
        more = False
        for stream in [one for one in self._catalogue.streams() if one.group is not None and one.led]:
            servers = wanted(stream)
            state = (stream.lead, servers)
            if self._settled.get(stream.id) == state:
                continue
            self._settled.pop(stream.id, None)  # it holds no more, also where the same servers are wanted again
            with suppress(t.PlaneError):  # it leads no more, or a change is under way
                look, members = await self.look(stream)
                if not servers or look.role != LEADER or not look.leased:
                    continue
                change = next_change(members, servers, self._meta.peer)
                before, self._wished[stream.id] = self._wished.get(stream.id), change
                sure = change is not None and (change.what != REMOVE or change.peer not in servers)
                more = more or sure
                voters = {one.peer for one in members if one.voter}
                if change is not None and (sure or change == before):
                    await self._plane.stream_group_alter(stream.id, change.what, (change.peer, change.disk))
                elif change is None and sorted(one.peer for one in members) == sorted(servers):
                    # A disk that was heard a moment ago and is another one now stands here beside that: it has to go.
                    if await tell(stream, {one.peer: one.disk for one in members}):
                        self._settled[stream.id] = state
                elif change is None and self._meta.peer not in servers and servers.keys() <= voters:
                    await self._plane.stream_group_transfer(stream.id, next(iter(servers)))  # which takes this one out
        return more

    async def come_to(self, stream: Stream, servers: Mapping[int, int]) -> dict[int, int]:
        """The members of a group that this server leads, with their disks, if they are these servers and no change of
        them is left; else none."""
        with suppress(t.PlaneError):
            look, members = await self.look(stream)
            leads = look.role == LEADER and bool(look.leased)
            same = sorted(one.peer for one in members) == sorted(servers)
            if leads and same and next_change(members, servers, self._meta.peer) is None:
                return {one.peer: one.disk for one in members}
        return {}

    async def lets_in(self, stream: Stream, peer: int, disk: int) -> bool:
        """Whether this server leads the stream's group, and a majority has let that disk in without a vote yet. (The
        one that the server had before is taken out first, also by a majority.)"""
        with suppress(t.PlaneError):
            look, members = await self.look(stream)
            wanted = (peer, disk, False)
            there = any((one.peer, one.disk, bool(one.voter)) == wanted for one in members)
            return there and look.role == LEADER and bool(look.leased)
        return False

    async def look(self, stream: Stream) -> tuple[MetaLook, tuple[MetaMember, ...]]:
        """The group as this server sees it. Raises PlaneError."""
        return look_in(await self._plane.stream_group_look(stream.id))

    def shared(self) -> list[Stream]:
        """The streams of several servers that this one has."""
        return [stream for stream in self._catalogue.streams() if stream.group is not None]

    def has(self, stream: Stream) -> bool:
        """Whether it is still here."""
        return self._catalogue.stream(stream.id) is stream

    def name_of(self, number: int) -> str:
        """The name of the stream's group, in nats-server's form."""
        stream = self._catalogue.stream(number)
        return _group_name(stream) if stream is not None and stream.group is not None else ""

    async def seen(self, number: int) -> tuple[MetaLook, tuple[MetaMember, ...]] | None:
        """The group of the stream of that number as this server sees it; None: it has joined none."""
        stream = self._catalogue.stream(number)
        if stream is None:
            return None
        try:
            return await self.look(stream)
        except t.PlaneError:
            return None

    async def leader(self, stream: Stream) -> int:
        """The server that leads; 0: none, as far as this one knows."""
        try:
            return (await self.look(stream))[0].leader
        except t.PlaneError:
            return 0

    async def leads(self, stream: Stream) -> bool:
        """Whether this server does."""
        return await self.leader(stream) == self._meta.peer

    def stream(self, account: str, name: str) -> Stream | None:
        """The stream of that name, if this server has it."""
        found = self._catalogue.by_name.get(account)
        return found.streams.get(name) if found is not None else None

    async def leader_here(self, account: str, name: str) -> int:
        """The server that leads the stream of that name; 0: none, or the stream is not here, or no group's."""
        stream = self.stream(account, name)
        return await self.leader(stream) if stream is not None and stream.group is not None else 0

    async def led(self, stream: Stream) -> None:
        """Returns when a server leads the group, this one with all that belongs to it; or none does for long."""
        with trio.move_on_after(self._meta.patience(LED_S)):
            while not await self._led(stream):  # noqa: ASYNC110
                await trio.sleep(LOOK_S)

    async def begun(self, stream: Stream) -> None:
        """Returns when this server, if it leads the group, has all that belongs to it; after a while at the latest."""
        with trio.move_on_after(self._meta.patience(LED_S)):
            while not stream.led and await self.leads(stream):  # noqa: ASYNC110
                await trio.sleep(LOOK_S)

    async def _led(self, stream: Stream) -> bool:
        leader = await self.leader(stream)
        return stream.led if leader == self._meta.peer else leader != 0

    async def step_down(self, stream: Stream, wanted: Placement) -> None:
        """Another server leads: the one that is preferred, or any in that cluster and with these tags. Raises
        ApiError."""
        assert stream.group is not None
        look, members = await self.look(stream)
        preferred = wanted.preferred
        peers = {self._meta.named(one.peer): one.peer for one in members}
        if preferred and preferred not in peers:
            raise errors.NO_SUITABLE_PEERS_FOR.error(why=f'preferred server "{preferred}" not known')
        if preferred and peers[preferred] == look.leader:
            raise errors.NO_SUITABLE_PEERS_FOR.error(why=f'preferred server "{preferred}" is already leader')
        heir = peers.get(preferred, 0)
        if not preferred and (wanted.cluster or wanted.tags):
            others = [one for one in members if one.peer != look.leader and one.voter]
            fitting = [one for one in others if self._fits(one.peer, wanted)]
            if not fitting:
                raise errors.NO_SUITABLE_PEERS_FOR.error(why="no replacement peer connected")
            heir = min(fitting, key=lambda one: one.rank()).peer
        try:
            await self._plane.stream_group_transfer(stream.id, heir)
        except t.PlaneError:
            raise errors.CLUSTER_NOT_AVAILABLE.error() from None

    def has_room(self, peer: int) -> bool:
        """Whether a server is there and takes what publishers send."""
        site = self._site(peer)
        return site is not None and not site.full

    def _fits(self, peer: int, wanted: Placement) -> bool:
        site = self._site(peer)
        return site is not None and fits(site, Wish(tags=wanted.tags), wanted.cluster or site.cluster)

    async def cluster_of(self, stream: Stream) -> dict[str, Any]:
        """The cluster member of the stream's info, as its leader answers: without the leader among the replicas."""
        try:
            look, members = await self.look(stream)
        except t.PlaneError:
            return {"name": self._settings.cluster_name}
        found: dict[str, Any] = {"name": self._settings.cluster_name}
        if stream.config.num_replicas == 1 and len(members) == 1:  # scaled down: as one that was never shared
            return found | {"leader": self._meta.named(members[0].peer)}
        found["raft_group"] = _group_name(stream)
        if look.leader:
            found["leader"] = self._meta.named(look.leader)
        if stream.led and look.led_ts:
            found["leader_since"] = format_time(look.led_ts)
        found |= {"system_account": True, "traffic_account": self._meta.system}
        linked = self._meta.linked()
        others = [one for one in members if one.peer != look.leader]
        return found | {"replicas": [self._replica(look, one, there=one.peer in linked) for one in others]}

    def _replica(self, look: MetaLook, member: MetaMember, *, there: bool) -> dict[str, Any]:
        return member_info(self._meta.named(member.peer), member, heard=is_heard(look, member), there=there)


def _group_name(stream: Stream) -> str:
    assert stream.group is not None
    storage = "M" if stream.config.storage == "memory" else "F"
    return f"S-R{stream.config.num_replicas}{storage}-{stream.group.name:016x}"
