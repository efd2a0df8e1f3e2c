"""Consumers of streams that several servers keep, as the disk of one has them that does not lead the stream: for
reports, which name them at every server. The leader has all of them in the catalogue (leads.py).

Their positions are those that the leader last had all members write down: it does so when something is acknowledged,
and a second after a delivery.
How many messages are left or in flight is known to the leader alone. Not here: the reports (monitor/).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leafd import native_types as t
from leafd.jetstream.catalogue import Stream, read_consumer
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.plain import stored
from leafd.native_commands import Commands
from leafd.turns import Pause


class FollowedConsumer(NamedTuple):
    """A consumer of such a stream."""

    name: str
    created: int
    config: ConsumerConfig
    state: t.StoredConsumer

    def shown(self) -> dict[str, object]:
        """Its configuration as the report has it."""
        return stored(self.config)


class Followed:
    """The records of them on this disk."""

    def __init__(self, plane: Commands) -> None:
        self._plane = plane

    async def counts(self, streams: Sequence[Stream]) -> list[int | None]:
        """How many consumers each of them has; None: that cannot be read."""
        return await self._plane.consumers_count([one.id for one in streams])

    async def consumers(self, stream: Stream) -> list[FollowedConsumer] | None:
        """The consumers, in the order of their names; None: they cannot be read."""
        found, pause = list[FollowedConsumer](), Pause()
        try:
            for state, definition in await self._plane.consumers_stored(stream.id):
                name, created, config = read_consumer(definition)
                found.append(FollowedConsumer(name, created, config, state))
                await pause()
        except (t.PlaneError, KeyError, TypeError, ValueError):
            return None
        return sorted(found, key=lambda one: one.name)
