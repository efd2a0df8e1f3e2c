"""Leaders of streams at a hub that is a cluster: when one changes, the copies of its stream begin anew there.

    link up, to a cluster --listen(slot)--> $JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.<stream>, of that link alone
    advisory --moved--> the slot's consumer is asked for again, at most every MOVED_EACH_S
    the hub's INFO lists another server --grown--> the slots that wait for an answer ask anew, at most as often

A nats-server keeps the consumer of a copy at the stream's leader. That it is gone with its server is told by the link
(native/jetstream/ingest_life.c), and the next leader by the advisory. A stream with one replica has no other leader:
nobody answers until its server is back, of which the list of the hub's servers tells. Where the hub or the rights of
the link keep all that back, silence tells: also of a stream in another cluster than the hub's. Not here: how a slot
begins anew (replicas.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from leafd import native_types as t
from leafd.links.link import Link
from leafd.links.replica import Slot
from leafd.native_accounts import Accounts

ELECTED: Final = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED"
MOVED_EACH_S: Final = 2.0
"""The least time between two of these: any publisher at the hub may publish the advisory, too."""
Key = tuple[int, int]
"""A slot: stream and number."""


class Leaders:
    """The watch over the leaders of all slots' streams. moved: told of a slot, and in how many seconds it may begin
    anew. grown: told of the slots at a hub that has another server."""

    def __init__(
        self, plane: Accounts, moved: Callable[[Key, float], None], grown: Callable[[list[Key]], None]
    ) -> None:
        self._plane = plane
        self._moved = moved
        self._grown = grown
        self._clusters: dict[int, dict[Key, tuple[int, int]]] = {}
        """By link: the account and the subscription of each slot that listens there."""
        self._link_of: dict[Key, int] = {}
        self._begins_s: dict[Key, float] = {}
        """When each slot that was told of began anew, or will."""
        self._grown_s: dict[int, float] = {}
        """When each link told of another server of its hub last."""

    def link_up(self, link: Link) -> None:
        """Begins the watch on a link, if it leads to a cluster."""
        if link.to_cluster:
            self._clusters[link.connection] = {}
            link.on_grown.append(self._grew)

    def link_down(self, link: Link) -> None:
        for key in list(self._clusters.get(link.connection, ())):
            self._leave(key)
        self._clusters.pop(link.connection, None)
        self._grown_s.pop(link.connection, None)

    def listen(self, slot: Slot, connection: int) -> None:
        """The slot's origin is at the other end of that link."""
        key = slot.stream, slot.number
        if self._link_of.get(key) == connection or connection not in self._clusters:
            return
        self._leave(key)

        def elected(message: t.Message) -> None:
            if message.connection == connection:
                self._tell(key)

        subject = f"{ELECTED}.{slot.origin.stream}"
        subscription = self._plane.subscribe(slot.account, subject, elected, link=connection)
        self._clusters[connection][key] = slot.account, subscription
        self._link_of[key] = connection

    def forget(self, key: Key) -> None:
        """There is no such slot any more."""
        self._leave(key)
        self._begins_s.pop(key, None)

    def _leave(self, key: Key) -> None:
        if (connection := self._link_of.pop(key, None)) is not None:
            self._plane.unsubscribe(*self._clusters[connection].pop(key))

    def _grew(self, link: Link) -> None:
        now_s = trio.current_time()
        slots = self._clusters.get(link.connection)
        if slots and self._grown_s.get(link.connection, -MOVED_EACH_S) <= now_s - MOVED_EACH_S:
            self._grown_s[link.connection] = now_s
            self._grown(list(slots))

    def _tell(self, key: Key) -> None:
        now_s = trio.current_time()
        last_s = self._begins_s.get(key, now_s - MOVED_EACH_S)
        if last_s <= now_s:  # else it is to begin anew in a moment
            self._begins_s[key] = max(now_s, last_s + MOVED_EACH_S)
            self._moved(key, self._begins_s[key] - now_s)
