"""Tells other servers what the streams of accounts with limits have here, and the plane what they have there.

Each second so many streams are looked at as one request of the plane takes; with more than these, accounts come by
turns. Not here: the rules (cluster/stored.py), limits as the plane takes them (jetstream/allowed.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from leafd.cluster.stored import Kept, Stored
from leafd.jetstream.allowed import allowances, is_bounded
from leafd.jetstream.models.stream import MEMORY
from leafd.native import layout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leafd.daemon.meta_group import MetaGroup
    from leafd.guard import Guard
    from leafd.jetstream.catalogue import Catalogue, JetStreamAccount
    from leafd.native_plane import Plane

PAUSE_S: Final = 1.0
AT_ONCE: Final = 512
"""Streams that one look is for."""


class StoredElsewhere:
    """One server's part."""

    def __init__(
        self,
        plane: Plane,
        catalogue: Catalogue,
        meta: MetaGroup,
        reaches: Callable[[int], bool],
        tell: Callable[[int, bytes], Awaitable[None]],
    ) -> None:
        """tell: news to another server."""
        self._plane, self._catalogue, self._meta = plane, catalogue, meta
        self._reaches, self._tell = reaches, tell
        self._stored = Stored()
        self.hear = self._stored.hear
        self._at = 0

    async def run(self, guard: Guard) -> None:
        """Goes on until it is cancelled."""
        while True:
            with guard.around("telling what accounts have stored"):
                for account in self._next():
                    await self._look(account)
            await trio.sleep(PAUSE_S)

    def _next(self) -> list[JetStreamAccount]:
        """The accounts whose turn it is."""
        accounts = [one for one in self._catalogue.accounts.values() if one.streams and is_bounded(one.limits)]
        begin = self._at if self._at < len(accounts) else 0
        found: list[JetStreamAccount] = []
        count = 0
        for account in accounts[begin:] + accounts[:begin]:
            if found and count + len(account.streams) > AT_ONCE:
                break
            found.append(account)
            count += len(account.streams)
        self._at = begin + len(found)
        return found

    async def _look(self, account: JetStreamAccount) -> None:
        told = [one for one in account.streams.values() if one.group is None or one.led]
        states = await self._plane.streams_states([one.id for one in told])
        form = layout("stream_state_t")
        kept = []
        for stream, state in zip(told, states, strict=True):
            servers = {peer for peer, _ in stream.group.members} if stream.group is not None else {self._meta.peer}
            if state is not None:
                count = int(form.unpack(state)["bytes"])
                storage = int(stream.config.storage == MEMORY)
                kept.append(Kept(storage, max(stream.config.num_replicas, 1), count, frozenset(servers)))
        for peer, news in self._stored.tell(account.name, kept, self._meta.linked(), trio.current_time()):
            await self._tell(peer, news)
        rows = self._stored.elsewhere(account.name, self._reaches)
        if rows != account.elsewhere:
            account.elsewhere = rows
            for allowed in allowances(account.limits, rows):
                self._plane.allow(account.id, allowed)
