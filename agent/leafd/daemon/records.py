"""The records that the store keeps for the rooms of the control side, handed to each at the start. Not here:
definitions of streams and consumers (jetstream/service.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from leafd import native_types as t

if TYPE_CHECKING:
    from leafd.guard import Guard
    from leafd.host.log import Log
    from leafd.jetstream.service import JetStream
    from leafd.links.holes import Copy
    from leafd.links.replicas import Replicas
    from leafd.links.sending import Sending
    from leafd.native_plane import Plane


def read(
    plane: Plane, jetstream: JetStream, replicas: Replicas, sending: Sending, *, domain: str, log: Log, guard: Guard
) -> Callable[[], Awaitable[None]] | None:
    """Reads all of them; only before the plane's start. What is returned fetches again what damage took of copies,
    where it took any."""
    jetstream.read_records()
    rows = list(plane.records(t.Record.HOLE))
    taken: dict[int, dict[str, tuple[int, int]]] = {int.from_bytes(key[:4], "big"): {} for key, _ in rows}
    for key, value in plane.records(t.Record.SOURCE):
        stream, name = int.from_bytes(key[:4], "big"), key[4:].decode("utf-8", "replace")
        sequence, newest_ts = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big")
        replicas.load_progress(stream, name, sequence, newest_ts)
        if stream in taken:
            taken[stream][name] = sequence, newest_ts
    for key, value in plane.records(t.Record.CONTROL):
        with guard.around("reading a stored record"):
            replicas.load_record(key, value)
            sending.load_record(key, value)
    if not rows:
        return None
    # Here and not above: few stores were ever damaged.
    from leafd.links.holes import Holes, hole_of

    holes = [hole for row in rows if (hole := hole_of(*row)) is not None]

    async def fill() -> None:
        with guard.around("fetching again what damage took"):
            copy_of = partial(_copy_of, jetstream, domain, taken)
            await Holes(plane, log, copy_of, replicas.info, replicas.may_answer).run(holes)

    return fill


def _copy_of(
    jetstream: JetStream, domain: str, taken: dict[int, dict[str, tuple[int, int]]], stream_id: int
) -> Copy | None:
    from leafd.daemon.neighbours import slots_of
    from leafd.links.holes import Copy

    stream = jetstream.catalogue.stream(stream_id)
    slots = tuple(slots_of(stream, domain)) if stream is not None else ()
    if stream is None or not slots or stream.group is not None:  # else the group's others have it
        return None
    config = stream.config
    return Copy(
        slots,
        limited=config.max_msgs_per_subject > 0,
        counts=config.allow_msg_counter,
        removes=config.retention != "limits",
        taken=taken[stream_id],
    )
