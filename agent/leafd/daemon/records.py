"""The records that the store keeps for the rooms of the control side, handed to each at the start. What does not live
here: definitions of streams and consumers (jetstream/service.py)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.daemon.server import Server
    from leafd.jetstream.service import JetStream
    from leafd.links.replica import Slot


def read(server: Server, jetstream: JetStream) -> None:
    """Reads all of them; only before the plane's start."""
    jetstream.read_records()
    plane = server.plane
    for key, value in plane.records(t.Record.SOURCE):
        stream = int.from_bytes(key[:4], "big")
        sequence, newest_ts = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big")
        server.replicas.load_progress(stream, key[4:].decode("utf-8", "replace"), sequence, newest_ts)
    for key, value in plane.records(t.Record.CONTROL):
        with server.guard.around("reading a stored record"):
            server.replicas.load_record(key, value)
            server.leafs.sending.load_record(key, value)
    rows = list(plane.records(t.Record.HOLE))
    if rows:
        # Here and not above: few stores were ever damaged.
        from leafd.links.holes import Holes, hole_of

        holes = [hole for row in rows if (hole := hole_of(*row)) is not None]

        async def fill() -> None:
            with server.guard.around("fetching again what damage took"):
                replicas = server.replicas
                mirror_of = partial(_mirror_of, server)
                await Holes(plane, server.log, mirror_of, replicas.info, replicas.may_answer).run(holes)

        server.fill = fill


def _mirror_of(server: Server, stream_id: int) -> tuple[Slot, bool] | None:
    from leafd.daemon.neighbours import slots_of

    stream = server.jetstream.catalogue.stream(stream_id) if server.jetstream is not None else None
    if stream is None or stream.config.mirror is None:
        return None
    slot = next(slots_of(stream, server.about.domain), None)
    return None if slot is None else (slot, stream.config.max_msgs_per_subject > 0)
