"""The end of a server that leads others: it hands its leads over before it goes, so that nobody waits for an election.

    the group of all servers, each stream of several  -->  the member that lacks least leads  -->  this server may end

Whoever nobody can take a lead from keeps it: the others elect one when this server is gone. Only a configuration with
`meta_size` imports this. Not here: a lead that is handed over by an order (orders.py, replicas.py).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.replicas import Replicas
    from leafd.native_plane import Plane

HANDED_S: Final = 2.0
"""No longer than an election takes."""
LOOK_S: Final = 0.02


async def hand_over(plane: Plane, meta: MetaGroup, replicas: Replicas) -> None:
    """Returns when others lead, as far as they can; after a while at the latest."""
    if not meta.linked():
        return
    with trio.move_on_after(HANDED_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hand_over_group, plane, meta)
            nursery.start_soon(_hand_over_streams, plane, meta.peer, replicas)


async def _hand_over_group(plane: Plane, meta: MetaGroup) -> None:
    await meta.look()
    there = meta.linked()
    fitting = [one for one in meta.members if one.voter and one.peer in there and one.peer != meta.peer]
    if not meta.leads or not fitting:
        return
    with suppress(t.PlaneError):
        await plane.meta_transfer(min(fitting, key=lambda one: one.lag).peer)
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
