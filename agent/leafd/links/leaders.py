"""Leaders of streams at a hub that is a cluster: when one changes, the copies of its stream begin anew there.

    link up, to a cluster --listen(slot)--> $JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.<stream>, of that link alone
    advisory --moved--> the slot's consumer is asked for again, at most every MOVED_EACH_S

A nats-server keeps the consumer of a copy at the stream's leader, and that of a leader that was killed is gone without
a word. Behind a link heartbeats are few, so nothing but the silence of most of a minute would tell. Where the rights of
the link keep the advisory back it is that silence. Not here: how a slot begins anew (replicas.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from leafd import native_types as t
from leafd.links.link import Link
from leafd.links.replica import Slot
from leafd.links.replica_plane import ReplicaPlane

ELECTED: Final = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED"
MOVED_EACH_S: Final = 2.0
"""Who may publish at the hub may publish this, too."""
Key = tuple[int, int]
"""A slot: stream and number."""


class Leaders:
    """The watch over the leaders of all slots' streams. moved: told of a slot, and in how many seconds it may begin
    anew."""

    def __init__(self, plane: ReplicaPlane, moved: Callable[[Key, float], None]) -> None:
        self._plane = plane
        self._moved = moved
        self._clusters: dict[int, dict[Key, tuple[int, int]]] = {}
        """By link: the account and the subscription of each slot that listens there."""
        self._link_of: dict[Key, int] = {}
        self._begins_s: dict[Key, float] = {}
        """When each slot that was told of began anew, or will."""

    def link_up(self, link: Link) -> None:
        """Begins or ends the watch on a link: it leads to a cluster with JetStream, or not; a leaf without one calls
        itself by its name, and a leafd has none of its streams in a cluster."""
        bind = link.bind
        if bind is not None and bind.cluster not in ("", bind.remote_name) and not bind.orderly:
            self._clusters[link.connection] = {}

    def link_down(self, link: Link) -> None:
        for key in list(self._clusters.get(link.connection, ())):
            self._leave(key)
        self._clusters.pop(link.connection, None)

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

    def _tell(self, key: Key) -> None:
        now_s = trio.current_time()
        last_s = self._begins_s.get(key, now_s - MOVED_EACH_S)
        if last_s <= now_s:  # else it is to begin anew in a moment
            self._begins_s[key] = max(now_s, last_s + MOVED_EACH_S)
            self._moved(key, self._begins_s[key] - now_s)
