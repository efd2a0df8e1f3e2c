"""Consumers of streams that several servers keep: here while this server leads the stream, and known only then.

    the plane leads --> Led events: here, each consumer as this disk has it, that was all --> taken up --> stream.led
    the plane leads no more --> the consumers are forgotten; their records stay, with the next leader
    a mirror or sources --> taken in by the leader alone, from the positions that its disk has
    the log has another definition --> the stream is made like that; its log waits for it

Only a configuration with `meta_size` imports this. Not here: deliveries and the log (native/jetstream/replicated.h).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from leafd import native_types as t
from leafd.jetstream import group_events
from leafd.jetstream.catalogue import Stream
from leafd.jetstream.context import Context
from leafd.jetstream.ports import Placing

TOGETHER: Final = 64
"""Consumers for which the plane is asked at once."""
Records = list[tuple[int, int, bytes]]
"""Stored consumers: the plane's numbers of the stream and of the consumer, and its definition."""
Load = Callable[[Records, set[int]], Awaitable[None]]
Positions = dict[str, tuple[int, int]]
"""Positions of sources by their keys: the origin's sequence that was taken last, and the newest stamp."""
Source = Callable[[Stream, Positions | None], Awaitable[None]]
Made = Callable[[int, int], Awaitable[None]]
Define = Callable[[Stream, bytes], Awaitable[bool]]
AGAIN_S: Final = 1.0
"""A definition that the stream could not be given is tried again."""


class Leads:
    """The streams of several that this server leads. load: takes stored consumers up. source: has a mirror or sources
    begin at these positions, or end (None). define: gives a stream another definition; False: not now. made: tells the
    plane that all consumers of a stream are here, in that lead of its own."""

    def __init__(
        self, context: Context, placing: Placing, load: Load, source: Source, define: Define, made: Made
    ) -> None:
        self._context, self._catalogue, self._placing = context, context.catalogue, placing
        self._load, self._source, self._define, self._made = load, source, define, made
        self._coming: dict[int, Records] = {}
        """By stream; so are ..."""
        self._positions: dict[int, Positions] = {}

    def take(self, event: t.Led) -> None:
        """This server leads a stream of several, whose consumers follow; or it does so no more."""
        stream = self._catalogue.stream(event.stream)
        if stream is None:
            return
        if event.code == t.LedCode.DEFINITION:
            stream.redefined = trio.Event()
            self._placing.go_on(partial(self._redefine, stream, event.definition, stream.redefined))
        elif event.code in (t.LedCode.NO_MORE, t.LedCode.HERE):
            if stream.led:
                told = partial(group_events.left, self._context, stream, group_events.shared(stream))
                self._placing.go_on(told)
            stream.lead, stream.led = stream.lead + 1, False
            stream.lose_consumers()
            self._coming[stream.id], self._positions[stream.id] = [], {}
            self._placing.go_on(partial(self._source, stream, None))
        elif event.code == t.LedCode.CONSUMER:
            self._coming.setdefault(stream.id, []).append((stream.id, event.consumer, event.definition))
        elif event.code == t.LedCode.SOURCE:
            sequence, newest_ts = (int.from_bytes(event.definition[at : at + 8], "big") for at in (0, 8))
            key = event.definition[16:].decode("utf-8", "replace")
            self._positions.setdefault(stream.id, {})[key] = sequence, newest_ts
        else:
            records, positions = self._coming.pop(stream.id, []), self._positions.pop(stream.id, {})
            led = partial(self._take_over, stream, stream.lead, event.consumer, records, positions)
            self._placing.go_on(led)

    async def _redefine(self, stream: Stream, definition: bytes, ended: trio.Event) -> None:
        while self._catalogue.stream(stream.id) is stream and not await self._define(stream, definition):  # noqa: ASYNC110
            await trio.sleep(AGAIN_S)
        ended.set()

    async def _take_over(self, stream: Stream, lead: int, number: int, records: Records, positions: Positions) -> None:
        async with stream.lock:
            if stream.lead != lead:
                return
            stream.lose_consumers()  # those of a lead before, which were still being taken up
            for at in range(0, len(records), TOGETHER):
                await self._load(records[at : at + TOGETHER], set())
            stream.led = stream.lead == lead
            if stream.led:
                if not stream.aside:  # else nobody knows what those that are aside want
                    await self._made(stream.id, number)
                await self._source(stream, positions)
                await group_events.elected(self._context, stream)
