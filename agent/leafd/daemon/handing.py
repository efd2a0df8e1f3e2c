"""A server that leads others hands its leads over: before it ends, so that nobody waits for an election, and while its
disk is full or cannot be written to.

    the group of all servers, each stream of several  -->  the member that lacks least leads  -->  this server may end

A lead that nobody can take over stays: the others elect one when this server is gone. Only a configuration with
`meta_size` imports this. Not here: a lead that is handed over by an order (orders.py, replicas.py).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.replicas import Replicas
    from leafd.native_meta import MetaMember
    from leafd.native_plane import Plane

HANDED_S: Final = 2.0
"""No longer than an election takes."""
LOOK_S: Final = 0.02
SETTLED_S: Final = 4.0
"""Servers tell the others of themselves each second."""
AGAIN_MAX_S: Final = 64.0


async def hand_over(plane: Plane, meta: MetaGroup, replicas: Replicas) -> None:
    """Returns when others lead, as far as they can; after a while at the latest."""
    if not meta.linked():
        return
    with trio.move_on_after(meta.patience(HANDED_S)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hand_over_group, plane, meta)
            nursery.start_soon(_hand_over_streams, plane, meta.peer, replicas)


class Refusals:
    """While this server refuses publishers for lack of room, others that have room lead: a message is stored when most
    of the members have it.

    A member that is full, too, could not even be elected, and then nobody would lead. So what the others tell of
    themselves is waited for, and a lead stays here where all are full."""

    def __init__(self, plane: Plane, meta: MetaGroup, replicas: Replicas) -> None:
        self._plane, self._meta, self._replicas = plane, meta, replicas
        self._begun = trio.Event()

    def begin(self) -> None:
        """Publishers are refused from now on."""
        self._begun.set()

    async def run(self) -> None:
        """Hands over, whenever that begins and as long as it lasts."""
        while True:
            await self._begun.wait()
            self._begun, wait_s = trio.Event(), SETTLED_S
            await trio.sleep(wait_s)
            while self._plane.stats().refuses_files:
                await self._hand_over()
                wait_s = min(2 * wait_s, AGAIN_MAX_S)
                await trio.sleep(wait_s)

    async def _hand_over(self) -> None:
        own, meta, replicas = self._meta.peer, self._meta, self._replicas
        await meta.look()
        if meta.leads and (heir := _heir(meta.members, own, replicas.has_room)):
            with suppress(t.PlaneError):
                await self._plane.meta_transfer(heir)
        for stream in replicas.shared():
            with suppress(t.PlaneError):
                look, members = await replicas.look(stream)
                if look.leader == own and (heir := _heir(members, own, replicas.has_room)):
                    await self._plane.stream_group_transfer(stream.id, heir)


def _heir(members: Iterable[MetaMember], own: int, fits: Callable[[int], bool]) -> int:
    """The voter besides this server that lacks least, among those that fit; 0: none does."""
    fitting = [one for one in members if one.voter and one.peer != own and fits(one.peer)]
    return min(fitting, key=lambda one: one.rank()).peer if fitting else 0


async def _hand_over_group(plane: Plane, meta: MetaGroup) -> None:
    await meta.look()
    there = meta.linked()
    heir = _heir(meta.members, meta.peer, there.__contains__)
    if not meta.leads or not heir:
        return
    with suppress(t.PlaneError):
        await plane.meta_transfer(heir)
        while meta.leader in (0, meta.peer):
            await trio.sleep(LOOK_S)
            await meta.look()


async def _hand_over_streams(plane: Plane, own: int, replicas: Replicas) -> None:
    waiting = []
    for stream in replicas.shared():
        with suppress(t.PlaneError):
            if (await replicas.look(stream))[0].leader == own:
                await plane.stream_group_transfer(stream.id)
                waiting.append(stream)
    for stream in waiting:
        while await replicas.leader(stream) in (0, own):  # noqa: ASYNC110
            await trio.sleep(LOOK_S)
