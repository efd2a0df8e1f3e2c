"""The streams of other servers of the cluster, as the plane hears of them: a client of MQTT hears that its message is
on disk when these have it, too (native/plane/placed.h).

    a row is written     --> the stream's subjects, unless this server has it alone
    a server leads       --> that was all: until then nobody is told that a message is on disk

Imported only where the block `mqtt` stands beside a group of servers. Not here: the table (placing.py), who is asked
and waits (native/verbs/mqtt_far.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from leafd.config.schema.gateway import cluster_name

if TYPE_CHECKING:
    from leafd.cluster.table import StreamRow
    from leafd.daemon.current import Current
    from leafd.daemon.meta_group import MetaGroup
    from leafd.daemon.placing import Placing
    from leafd.guard import Guard
    from leafd.jetstream.models.stream import StreamConfig
    from leafd.native_plane import Plane


AGAIN_S: Final = 1.0


class Placed:
    """Tells the plane."""

    def __init__(self, plane: Plane, meta: MetaGroup, placing: Placing, current: Current) -> None:
        self._plane, self._meta, self._placing, self._current = plane, meta, placing, current
        self._streams: dict[tuple[str, str], tuple[str, ...]] = {}
        """The subjects of each."""
        self._changed: set[tuple[str, str]] = set()
        """The names of those of which the plane has still to hear."""
        self._known = False
        self._news = trio.Event()
        placing.follow = self.follow
        meta.on_left.append(self._forget)
        plane.placed_known(known=False)

    async def run(self, guard: Guard) -> None:
        """Takes part until it is cancelled."""
        while True:
            self._news = trio.Event()
            if not self._known:
                await self._placing.until_led()
                await self._meta.look()
            with guard.around("telling the plane of other servers' streams"):
                await self._tell()
            if self._changed:  # the plane had no memory, so it must not say yet what it does not know
                self._say_known(known=False)
                await trio.sleep(AGAIN_S)
                continue
            self._say_known(known=True)
            await self._news.wait()

    async def _tell(self) -> None:
        while self._changed:
            key = next(iter(self._changed))
            subjects = self._streams.get(key, ())
            await self._plane.placed(*key, subjects)
            if subjects == self._streams.get(key, ()):
                self._changed.discard(key)

    def _say_known(self, *, known: bool) -> None:
        if self._known != known:
            self._known = known
            self._plane.placed_known(known=known)

    def follow(self, row: StreamRow, config: StreamConfig | None) -> None:
        """A row is like that from here on; no config: there is no such stream."""
        key = row.account, row.name
        subjects = self._subjects(row, config) if config is not None else ()
        if subjects == self._streams.get(key, ()):
            return
        if subjects:
            self._streams[key] = subjects
        else:
            del self._streams[key]
        self._changed.add(key)
        self._news.set()

    def _subjects(self, row: StreamRow, config: StreamConfig) -> tuple[str, ...]:
        """The subjects of a stream that answers this server: one of another cluster cannot be asked over gateways, and
        one without acknowledgements says nothing."""
        alone = not row.members and row.peer == self._meta.peer
        if alone or config.no_ack or row.cluster != cluster_name(self._current.config):
            return ()
        return tuple(config.subjects)

    def _forget(self) -> None:
        """This server is in another group, whose rows it has still to get."""
        self._say_known(known=False)
        self._changed |= self._streams.keys()
        self._streams = {}
        self._news.set()
