"""The records that the store keeps for the rooms of the control side, handed to each at the start. What does not live
here: definitions of streams and consumers (jetstream/service.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.links.replica import Slot
    from leafd.links.replicas import Replicas
    from leafd.links.sending import Sending
    from leafd.native_plane import Plane


def read(
    plane: Plane, jetstream: JetStream, replicas: Replicas, sending: Sending, *, domain: str, log: Log, guard: Guard
) -> Callable[[], Awaitable[None]] | None:
    """Reads all of them; only before the plane's start. What is returned fetches again what damage took of mirrors,
    where it took any."""
    jetstream.read_records()
    for key, value in plane.records(t.Record.SOURCE):
        stream = int.from_bytes(key[:4], "big")
        sequence, newest_ts = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big")
        replicas.load_progress(stream, key[4:].decode("utf-8", "replace"), sequence, newest_ts)
    for key, value in plane.records(t.Record.CONTROL):
        with guard.around("reading a stored record"):
            replicas.load_record(key, value)
            sending.load_record(key, value)
    rows = list(plane.records(t.Record.HOLE))
    if not rows:
        return None
    # Here and not above: few stores were ever damaged.
    from leafd.links.holes import Holes, hole_of

    holes = [hole for row in rows if (hole := hole_of(*row)) is not None]

    async def fill() -> None:
        with guard.around("fetching again what damage took"):
            mirror_of = partial(_mirror_of, jetstream, domain)
            await Holes(plane, log, mirror_of, replicas.info, replicas.may_answer).run(holes)

    return fill


def _mirror_of(jetstream: JetStream, domain: str, stream_id: int) -> tuple[Slot, bool] | None:
    from leafd.daemon.neighbours import slots_of

    stream = jetstream.catalogue.stream(stream_id)
    if stream is None or stream.config.mirror is None:
        return None
    slot = next(slots_of(stream, domain), None)
    return None if slot is None else (slot, stream.config.max_msgs_per_subject > 0)
