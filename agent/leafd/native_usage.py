"""Commands that ask about very many streams or consumers at once: what streams hold together, and the counters of each.
And the one that puts a message back into a hole that damage left (links/holes.py).

A hub of thousands of boxes is asked for its metrics every few seconds: thousands of questions to the plane, each a turn
of both threads, are tens of milliseconds of processor time. Not here: one stream's state with its lists
(native_commands.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain

from leafd import native_types as t
from leafd.native import abi, layout
from leafd.native_packing import Strings, decoded
from leafd.native_submits import Submits


class Usage(Submits):
    """The commands about use and limits, and the one for holes."""

    async def streams_bytes(self, streams: Sequence[int]) -> int:
        """How many bytes these hold together. One that there is not holds none."""
        found = 0
        for begin in range(0, len(streams), abi.USAGE_STREAMS_MAX):
            some = streams[begin : begin + abi.USAGE_STREAMS_MAX]
            body = struct.pack(f"={len(some)}I", *some)
            found += (await self._request("STREAM_BYTES", "counting the bytes of streams", body=body)).arg
        return found

    async def streams_states(self, streams: Sequence[int]) -> list[bytes | None]:
        """The counters of each, as stream_state_t. None: it is not there, or its first message is still looked for, and
        stream_state() waits for that."""
        found: list[bytes | None] = []
        for begin in range(0, len(streams), abi.USAGE_STATES_MAX):
            some = streams[begin : begin + abi.USAGE_STATES_MAX]
            body = struct.pack(f"={len(some)}I", *some)
            done = await self._request("STREAM_BYTES", "reading the states of streams", body=body, arg=1)
            found += _states(done.payload, "stream_state_t", "consumers")
        return found

    async def consumers_states(self, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Positions and counts of each, by stream and consumer, as consumer_state_t. None: it is not there."""
        found: list[bytes | None] = []
        while len(found) < len(places):
            some = places[len(found) : len(found) + abi.USAGE_STATES_MAX]
            body = struct.pack(f"={2 * len(some)}I", *chain.from_iterable(some))
            done = await self._request("CONSUMERS_STATE", "reading the states of consumers", body=body)
            told = _states(done.payload, "consumer_state_t", "push_bound")
            found += [
                state or await self._counted_state(*place) for place, state in zip(some[: len(told)], told, strict=True)
            ]
        return found

    async def _counted_state(self, stream: int, consumer: int) -> bytes | None:
        """The state of one whose messages may still be counted, which it waits for."""
        try:
            done = await self._request("CONSUMER_STATE", "reading a consumer's state", target=stream, arg=consumer)
        except t.PlaneError:
            return None
        return done.payload[: layout("consumer_state_t").size]

    async def consumers_count(self, streams: Sequence[int]) -> list[int | None]:
        """How many consumers this disk has of each stream, whichever server leads it. None: that cannot be read."""
        found: list[int | None] = []
        while len(found) < len(streams):
            some = streams[len(found) : len(found) + abi.USAGE_STATES_MAX]
            body = struct.pack(f"={len(some)}I", *some)
            try:
                done = await self._request("CONSUMERS_COUNT", "counting the consumers of streams", body=body)
                found += memoryview(done.payload).cast("I").tolist()
            except t.PlaneError:
                found.append(None)
        return found

    async def consumers_stored(self, stream: int) -> list[tuple[t.StoredConsumer, bytes]]:
        """The consumers that this disk has of a stream, whichever server leads it, each with its definition. Raises
        PlaneError."""
        found: list[tuple[t.StoredConsumer, bytes]] = []
        size, after = layout("stored_consumer_t").size, 0
        while True:
            done = await self._request("CONSUMERS_STORED", "reading a stream's consumers", target=stream, arg=after)
            at = 0
            while at < len(done.payload):
                row = decoded("stored_consumer_t", done.payload[at : at + size], t.StoredConsumer)
                found.append((row, done.payload[at + size : at + size + row.size]))
                at += size + row.size
            after = done.arg
            if after == 0:
                return found

    async def stream_fill(
        self, stream: int, last: int, *, sequence: int, ts: int = 0, subject: str = "", header: bytes = b"",
        payload: bytes = b"", origin: tuple[int, int] | None = None,
    ) -> bool:  # fmt: skip
        """Puts a message into the hole that ends at `last`; without a subject nothing is put there. From then on the
        hole begins behind that sequence. origin: a source's slot, and the message's sequence there. False: the stream
        did not want the message."""
        came = b"" if origin is None else struct.pack(">IQ", *origin)
        strings: Strings = {"subject": subject, "header": header, "upto": last.to_bytes(8, "big"), "origin": came}
        done = await self._request(
            "STREAM_FILL",
            "putting back a message",
            target=stream,
            arg=sequence,
            arg2=ts,
            body=payload,
            strings=strings,
        )
        return bool(done.arg)


def _states(payload: bytes, struct_name: str, member: str) -> list[bytes | None]:
    """Each of the structs, but for those that say in that member that they are none."""
    form = layout(struct_name)
    words, size = form.size // 8, form.size
    said = memoryview(payload).cast("Q")[form.names.index(member) :: words].tolist()
    return [
        payload[at * size : (at + 1) * size] if value != abi.STATE_UNKNOWN else None for at, value in enumerate(said)
    ]
