"""The records that the store keeps for the rooms of the control side, handed to each at the start; and what damage took
of copies, which is fetched again then and while the daemon runs. Not here: definitions of streams and consumers
(jetstream/service.py), how a hole is filled (links/holes.py)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import trio

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.links.holes import Copy, Holes
    from leafd.links.replicas import Replicas
    from leafd.links.sending import Sending
    from leafd.native_plane import Plane

TOLD_MAX: Final = 4096
"""Holes that wait to be taken up. Of more the next start finds the records."""


class Fetching:
    """Fetches again what damage took of copies. `run` does it; the other methods bring what it fetches."""

    def __init__(
        self, plane: Plane, jetstream: JetStream, replicas: Replicas, *, domain: str, log: Log, guard: Guard
    ) -> None:
        self._plane, self._jetstream, self._replicas = plane, jetstream, replicas
        self._domain, self._log, self._guard = domain, log, guard
        self._send, self._told = trio.open_memory_channel[tuple[int, int, int, bool, bool]](TOLD_MAX)
        self._taken: dict[int, dict[str, tuple[int, int]]] = {}
        """How far each source was at the start, by streams that had holes then."""

    def find(self) -> None:
        """Reads the records of holes, and of how far all sources are; only before the plane's start."""
        rows = list(self._plane.records(t.Record.HOLE))
        taken: dict[int, dict[str, tuple[int, int]]] = {int.from_bytes(key[:4], "big"): {} for key, _ in rows}
        for key, value in self._plane.records(t.Record.SOURCE):
            stream, name = int.from_bytes(key[:4], "big"), key[4:].decode("utf-8", "replace")
            sequence, newest_ts = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big")
            self._replicas.load_progress(stream, name, sequence, newest_ts)
            if stream in taken:
                taken[stream][name] = sequence, newest_ts
        self._taken = taken
        if rows:
            from leafd.links.holes import hole_of  # here and not above: few stores were ever damaged

            for hole in filter(None, (hole_of(*row) for row in rows)):
                self._take(hole.stream, hole.first, hole.last, hole.certain, False)

    def tell(self, stream: int, first: int, last: int, certain: bool) -> None:
        """A page was made anew while the daemon runs."""
        self._taken.pop(stream, None)  # sources have come further since
        self._take(stream, first, last, certain, True)

    def _take(self, stream: int, first: int, last: int, certain: bool, young: bool) -> None:
        with contextlib.suppress(trio.WouldBlock):
            self._send.send_nowait((stream, first, last, certain, young))

    async def run(self) -> None:
        """Fills holes, those of several streams beside each other."""
        filling = None
        async with trio.open_nursery() as nursery:
            async for told in self._told:
                if filling is None:
                    from leafd.links.holes import Holes

                    replicas = self._replicas
                    filling = Holes(self._plane, self._log, self._copy_of, replicas.info, replicas.may_answer)
                nursery.start_soon(self._fill, filling, told)

    async def _fill(self, filling: Holes, told: tuple[int, int, int, bool, bool]) -> None:
        from leafd.links.holes import Hole

        with self._guard.around("fetching again what damage took"):
            await filling.fill(Hole(*told[:4]), young=told[4])

    def _copy_of(self, stream_id: int) -> Copy | None:
        from leafd.daemon.neighbours import slots_of
        from leafd.links.holes import Copy

        stream = self._jetstream.catalogue.stream(stream_id)
        slots = tuple(slots_of(stream, self._domain)) if stream is not None else ()
        if stream is None or not slots or stream.group is not None:  # else the group's others have it
            return None
        config = stream.config
        return Copy(
            slots,
            limited=config.max_msgs_per_subject > 0,
            counts=config.allow_msg_counter,
            removes=config.retention != "limits",
            taken=self._taken.get(stream_id),
        )


def read(
    plane: Plane, jetstream: JetStream, replicas: Replicas, sending: Sending, fetching: Fetching, guard: Guard
) -> None:
    """Reads all of them; only before the plane's start."""
    jetstream.read_records()
    fetching.find()
    for key, value in plane.records(t.Record.CONTROL):
        with guard.around("reading a stored record"):
            replicas.load_record(key, value)
            sending.load_record(key, value)
