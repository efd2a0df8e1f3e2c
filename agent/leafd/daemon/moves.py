"""Orders about where one stream of an account is, by the system account or by the account itself:

    $JS.API.ACCOUNT.STREAM.MOVE.ACCOUNT.STREAM           another server keeps it in the place of one
    $JS.API.ACCOUNT.STREAM.CANCEL_MOVE.ACCOUNT.STREAM    it goes back to where it was before the change under way

The leader of the group carries them out, and answers with the stream's info, as nats-server does. Only a configuration
with `meta_size` imports this. Not here: which servers (cluster/sharing.py), orders about servers (orders.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from leafd.cluster.table import StreamRow, Table, UnreadError
from leafd.gojson import JsonError, loose
from leafd.jetstream import errors
from leafd.jetstream.errors import ApiError
from leafd.jetstream.ordered import ACCOUNT, STREAM
from leafd.jetstream.registry import TYPE

if TYPE_CHECKING:
    from leafd.cluster.placement import Site
    from leafd.daemon.meta_group import MetaGroup
    from leafd.jetstream.catalogue import Catalogue
    from leafd.jetstream.elsewhere import Elsewhere

MOVE: Final = "MOVE"


def type_of(tokens: list[str]) -> str:
    """The type of the answer to one."""
    return TYPE + ("stream_update_response" if tokens[2] == MOVE else "stream_cancel_move_response")


class Moves:
    """The orders, where this server leads. site: what is known of a server that is there; ask: decides on the table;
    leader_of: who leads a stream of several; arrived: as Members.arrived, from that one."""

    def __init__(
        self,
        meta: MetaGroup,
        catalogue: Catalogue,
        table: Callable[[], Table],
        site: Callable[[int], Site | None],
        ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
        leader_of: Callable[[StreamRow], Awaitable[int]],
        arrived: Callable[[StreamRow, int], Awaitable[list[list[int]]]],
    ) -> None:
        self._meta, self._catalogue, self._table, self._site = meta, catalogue, table, site
        self._ask, self._leader_of, self._arrived = ask, leader_of, arrived
        self.elsewhere: Elsewhere | None = None
        """Asks the servers of streams for their infos."""

    async def carry_out(self, tokens: list[str], body: bytes) -> dict[str, Any]:
        """The members of the answer. Raises ApiError."""
        name = tokens[STREAM]
        asked: dict[str, Any] = {}
        if tokens[2] == MOVE:
            try:
                asked = loose(body) if body.strip() else {}
            except JsonError as error:
                raise errors.INVALID_JSON.error(err=error) from None
        account = await self._catalogue.known(tokens[ACCOUNT])
        if account is None:
            raise errors.NO_ACCOUNT.error()
        row = self._row(account.name, name)
        about: dict[str, Any] = {"account": row.account, "name": row.name, "created": row.created}
        if row.origin is not None:
            with suppress(ApiError):  # nobody leads it: it has not arrived
                about["arrived"] = await self._arrived(row, await self._leader_of(row))
        if tokens[2] == MOVE:
            peer = self._keeper(row, asked)
            leader = await self._leader_of(row) if row.members else row.peer
            tags = [str(tag) for tag in asked.get("tags") or ()]
            await self._ask({"op": "move", "peer": peer, "leader": leader, "tags": tags, **about})
        else:
            await self._ask({"op": "back", **about})
        infos = await self.elsewhere.infos(account, [name]) if self.elsewhere is not None else {}
        config = self._row(account.name, name).config or {}
        info: dict[str, Any] = infos.get(name, {"config": dict(config)})
        # Its server is told of what was decided here a moment later.
        moved = {member: config[member] for member in ("num_replicas", "placement") if member in config}
        kept = {member: value for member, value in info["config"].items() if member != "placement"}
        return {"type": type_of(tokens), **info, "config": kept | moved}

    def _row(self, account: str, name: str) -> StreamRow:
        """Raises ApiError: there is none, or it cannot be read."""
        try:
            row = self._table().get(account, name)
        except UnreadError:
            raise errors.STREAM_OFFLINE.error() from None
        if row is None or row.config is None:
            raise errors.STREAM_NOT_FOUND.error()
        return row

    def _keeper(self, row: StreamRow, asked: dict[str, Any]) -> int:
        """The server that is to keep it no more: the one that is named, or any. Raises ApiError: it is none of them."""
        server, cluster = str(asked.get("server") or ""), str(asked.get("cluster") or "")
        if not server:
            return row.peers[-1]
        named = [one.peer for one in self._meta.members if self._meta.named(one.peer) == server]
        if not named or (cluster and ((site := self._site(named[0])) is None or site.cluster != cluster)):
            raise errors.CLUSTER_SERVER_NOT_MEMBER.error()
        if named[0] not in row.peers:
            raise errors.CLUSTER_PEER_NOT_MEMBER.error()
        return named[0]
