"""Orders of the system account to the group of servers: another leader, a member less.

    $JS.API.META.LEADER.STEPDOWN    the lead goes to another member, as its placement says
    $JS.API.SERVER.REMOVE           a server is no member any more, and its disk does not become one again
    $JS.API.SERVER.EVACUATE         what a server keeps of streams goes to others; it stays a member

Only a configuration with `meta_size` imports this. Not here: who leads (meta_group.py), how a request gets to the
leader (placing.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from leafd import native_types as t
from leafd.cluster.council import MEMBER_ROW, REMOVE, banned_row
from leafd.cluster.founding import Disk
from leafd.cluster.placement import Site
from leafd.daemon.moves import type_of
from leafd.gojson import JsonError, loose
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.ordered import is_move
from leafd.jetstream.registry import TYPE
from leafd.quoting import quoted

if TYPE_CHECKING:
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.moves import Moves
    from leafd.host.log import Log
    from leafd.native_meta import MetaMember
    from leafd.native_plane import Plane

STEPPED_S: Final = 2.0
"""As long as a lead that was given away may stay here: the other one may be away, and then it does."""
LOOKED_S: Final = 0.02
HANDED_ON_S: Final = 3.0
"""So long a client waits that asks a server to take itself out. Rows that are left by then stay as they are."""


class Orders:
    """The orders, as the server that leads carries them out. site: what is known of a server that is there; hand_on:
    others keep the streams of several that a server kept; go_on: begins what follows an answer; moves: those about
    one stream."""

    def __init__(
        self,
        meta: MetaGroup,
        plane: Plane,
        site: Callable[[int], Site | None],
        hand_on: Callable[..., Awaitable[tuple[int, int]]],
        go_on: Callable[[Callable[[], Awaitable[object]]], None],
        log: Log,
        moves: Moves,
    ) -> None:
        self._meta, self._plane, self._site, self._hand_on, self._go_on = meta, plane, site, hand_on, go_on
        self._log, self._moves = log, moves

    def refused(self, tokens: list[str], error: ApiError) -> dict[str, Any]:
        """The members of the answer that says no."""
        return {"type": _type(tokens), "error": error.fields()}

    async def carry_out(self, tokens: list[str], body: bytes) -> dict[str, Any]:
        """The members of the answer."""
        try:
            if not self._meta.leads:
                await self._meta.look()  # it may do since a moment
            if not self._meta.leads:
                raise errors.CLUSTER_NOT_AVAILABLE.error()
            if is_move(tokens):
                return await self._moves.carry_out(tokens, body)
            await _DONE[tokens[-1]](self, body)
        except ApiError as error:
            return self.refused(tokens, error)
        except t.PlaneError:
            return self.refused(tokens, errors.CLUSTER_NOT_AVAILABLE.error())
        return {"type": _type(tokens), "success": True}

    def _others(self) -> list[MetaMember]:
        return [one for one in self._meta.members if one.peer != self._meta.peer]

    async def _step_down(self, body: bytes) -> None:
        try:
            asked = loose(body).get("placement") if body.strip() else None
        except JsonError:
            asked = None
        placement = asked if isinstance(asked, dict) else {}
        preferred = str(placement.get("preferred") or "")
        fitting = [one for one in self._others() if one.voter and self._fits(one, placement)]
        if preferred:
            if all(self._meta.named(one.peer) != preferred for one in self._meta.members):
                raise errors.NO_SUITABLE_PEERS_FOR.error(why=f'preferred server "{preferred}" not known')
            fitting = [one for one in fitting if self._meta.named(one.peer) == preferred]
        if not fitting:
            raise errors.NO_SUITABLE_PEERS_FOR.error(why="no replacement peer connected")
        await self._plane.meta_transfer(min(fitting, key=lambda one: one.rank()).peer)
        with trio.move_on_after(
            self._meta.patience(STEPPED_S)
        ):  # who is told so asks for the leader at once, and hears of one
            while self._meta.leader in (0, self._meta.peer):
                await trio.sleep(LOOKED_S)
                await self._meta.look()

    def _fits(self, member: MetaMember, placement: dict[str, Any]) -> bool:
        site = self._site(member.peer)
        tags = [str(tag).lower() for tag in placement.get("tags") or ()]
        cluster = placement.get("cluster") or ""
        return site is not None and (not cluster or site.cluster == cluster) and all(tag in site.tags for tag in tags)

    def _asked_for(self, body: bytes) -> MetaMember:
        """The member that an order names. Raises ApiError."""
        if not body.strip():
            raise errors.BAD_REQUEST.error()
        try:
            asked = loose(body)
        except JsonError as error:
            raise errors.INVALID_JSON.error(err=error) from None
        name, number = str(asked.get("peer") or ""), str(asked.get("peer_id") or "")
        found = [
            one
            for one in self._meta.members
            if (number and one.peer.to_bytes(8, "big") == number.encode())
            or (not number and self._meta.named(one.peer) == name)
        ]
        if not found:
            raise errors.CLUSTER_SERVER_NOT_MEMBER.error()
        return found[0]

    async def _evacuate(self, body: bytes) -> None:
        self._go_on(partial(self._move_off, self._asked_for(body).peer))

    async def _move_off(self, peer: int) -> None:
        left, short = await self._hand_on(peer, moves=True)
        name = self._meta.named(peer)
        if left:
            self._log.warning(
                f"{left} streams stay on {name}, which was to be evacuated: no other server can take them"
            )
        if short:
            self._log.warning(
                f"{short} streams have a replica less, since {name} was evacuated: no other server can take its place"
            )

    async def _remove(self, body: bytes) -> None:
        member = self._asked_for(body)
        gone = Disk(member.peer, member.disk)
        if gone.peer == self._meta.peer:  # while it may decide on them: it leads no more in a moment
            with trio.move_on_after(self._meta.patience(HANDED_ON_S)):
                await self._hand_on(gone.peer)
        # It may be there, and ask to be let in again.
        await self._meta.write(banned_row(gone), quoted(self._meta.named(gone.peer)).encode(), _ANY)
        await self._meta.write(MEMBER_ROW + gone.peer.to_bytes(8, "big"), None, _ANY)
        await self._plane.meta_alter(REMOVE, gone)
        self._go_on(partial(self._hand_on, gone.peer))


_ANY: Final = (1 << 64) - 1
"""Whatever the row's revision is (META_ANY)."""


_DONE: Final = {"STEPDOWN": Orders._step_down, "REMOVE": Orders._remove, "EVACUATE": Orders._evacuate}
_TYPES: Final = {"STEPDOWN": "leader_stepdown", "REMOVE": "server_remove", "EVACUATE": "server_evacuate"}
"""By the last token."""


def _type(tokens: list[str]) -> str:
    if is_move(tokens):
        return type_of(tokens)
    return f"{TYPE}meta_{_TYPES[tokens[-1]]}_response"
