"""Commands about consumers: their definitions, their state, and their position as a backup.

Not here: deliveries and acknowledgements (native/consume).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from leafd import native_types as t
from leafd.native import layout
from leafd.native_packing import (
    consumer_state_in,
    consumer_strings,
    decoded,
    encoded,
    pack_pending,
    records_in,
    vars_of,
)
from leafd.native_submits import Submits
from leafd.turns import ITEM_WEIGHT, aside


class Consumers(Submits):
    """One consumer at a time."""

    async def consumer_put(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
        loading: bool = False,
    ) -> t.ConsumerState:
        """Creates, updates or (loading) takes up a consumer; the answer is its state before any delivery."""
        done = await self._request(
            "CONSUMER_PUT",
            f"consumer {name}",
            account=config.account,
            target=stream,
            arg=consumer,
            arg2=int(loading),
            body=config,
            strings=consumer_strings(
                name, definition, deliver_subject, deliver_group, backoff_ns, priority_groups, filters
            ),
        )
        return consumer_state_in(done.payload)

    async def consumer_remove(self, stream: int, consumer: int) -> None:
        """Removes a consumer and its records."""
        await self._request("CONSUMER_REMOVE", "removing a consumer", target=stream, arg=consumer)

    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState:
        """Positions and counts, now."""
        done = await self._request("CONSUMER_STATE", "reading a consumer's state", target=stream, arg=consumer)
        return consumer_state_in(done.payload)

    async def consumer_pause(self, stream: int, consumer: int, until_wall_ns: int) -> None:
        """Pauses until a wall time; 0 resumes."""
        await self._request("CONSUMER_PAUSE", "pausing a consumer", target=stream, arg=consumer, arg2=until_wall_ns)

    async def consumer_begin(self, stream: int, consumer: int) -> None:
        """One that was put with ConsumerFlag.HELD, or reset, may deliver."""
        await self._request("CONSUMER_BEGIN", "beginning to deliver", target=stream, arg=consumer)

    async def consumer_spare(self, stream: int, consumer: int, interval_ns: int) -> None:
        """Has its idle heartbeats come so seldom for as long as there is a subscriber, which is told of its removal."""
        await self._request("CONSUMER_SPARE", "sparing heartbeats", target=stream, arg=consumer, arg2=interval_ns)

    async def consumer_unpin(self, stream: int, consumer: int) -> None:
        """The pinned client, if there is one, is so no longer."""
        await self._request("CONSUMER_UNPIN", "unpinning a client", target=stream, arg=consumer)

    async def consumer_reset(self, stream: int, consumer: int, sequence: int) -> tuple[int, t.ConsumerState]:
        """Moves a consumer back; 0 = ack floor + 1. Returns the sequence and the state."""
        done = await self._request("CONSUMER_RESET", "resetting a consumer", target=stream, arg=consumer, arg2=sequence)
        return done.arg, consumer_state_in(done.payload)

    async def consumer_export(self, stream: int, consumer: int) -> t.Position:
        """The position of a consumer, with what is in flight."""
        size = layout("consumer_state_t").size
        rows: list[t.PendingEntry] = []
        after = 0
        while True:
            done = await self._request(
                "CONSUMER_EXPORT", "reading a consumer's position", target=stream, arg=consumer, arg2=after
            )
            rows += records_in("pending_entry_t", done.payload[size:], t.PendingEntry)
            after = done.arg
            if after == 0:
                break
        state = decoded("consumer_state_t", done.payload, t.ConsumerState)
        return t.Position(
            state.delivered_consumer, state.delivered_stream, state.floor_consumer, state.floor_stream, tuple(rows)
        )

    async def consumer_import(
        self,
        stream: int,
        consumer: int,
        config: t.FlatConsumer,
        position: t.Position,
        *,
        name: str,
        definition: bytes,
        deliver_subject: str = "",
        deliver_group: str = "",
        backoff_ns: Iterable[int] = (),
        priority_groups: Iterable[str] = (),
        filters: Iterable[str] = (),
    ) -> None:
        """Makes a consumer that stands where another one stood."""
        sequences = {one.name: getattr(position, one.name) for one in fields(position) if one.name != "pending"}
        body = encoded("consumer_config_t", vars_of(config)) + encoded("consumer_state_t", sequences)
        body += await aside(len(position.pending) * ITEM_WEIGHT, pack_pending, position.pending)
        await self._request(
            "CONSUMER_IMPORT",
            f"consumer {name}",
            account=config.account,
            target=stream,
            arg=consumer,
            body=body,
            strings=consumer_strings(
                name, definition, deliver_subject, deliver_group, backoff_ns, priority_groups, filters
            ),
        )
