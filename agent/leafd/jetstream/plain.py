"""Streams of which there is nothing to tell but their counters, and maybe their consumers: neither copies nor copied.

A hub has thousands of those, and its monitoring is asked every few seconds. What the API tells of one stream costs a
hundred times what a row of these does. What does not live here: the reports (monitor/), streams with more to tell
(service.py: look()).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from leafd.jetstream.catalogue import Catalogue, Stream
from leafd.jetstream.ports import JetStreamPlane
from leafd.jetstream.takers import Takers
from leafd.turns import Pause

TOGETHER: Final = 256
"""So many are asked for at once."""


class PlainStream(NamedTuple):
    """One of them."""

    name: str
    created: int
    max_msgs: int
    max_bytes: int
    visible: int
    """How many consumers clients may see."""
    consumed: bool
    """Whether it has any."""
    state: bytes
    """stream_state_t"""


class PlainStreams:
    """The plain streams of all accounts."""

    def __init__(self, plane: JetStreamPlane, catalogue: Catalogue, takers: Takers) -> None:
        self._plane = plane
        self._catalogue = catalogue
        self._takers = takers

    async def of(self, account: str) -> list[PlainStream]:
        """An account's, in the order of their names. One that changes meanwhile, or whose state is not known yet, is
        left out: who asks looks at it by itself."""
        known, pause = self._catalogue.by_name.get(account), Pause()
        streams = [one for one in known.sorted_streams() if self._is_plain(one)] if known is not None else []
        found: list[PlainStream] = []
        for begin in range(0, len(streams), TOGETHER):
            some = streams[begin : begin + TOGETHER]
            states = await self._plane.streams_states([one.id for one in some])
            for stream, state in zip(some, states, strict=True):
                if state is not None and self._is_plain(stream):
                    found.append(_plain(stream, state))
            await pause()
        return found

    def _is_plain(self, stream: Stream) -> bool:
        config = stream.config
        return config.mirror is None and not config.sources and not self._takers.any_of(stream.id)


def _plain(stream: Stream, state: bytes) -> PlainStream:
    config = stream.config
    return PlainStream(
        config.name, stream.created, config.max_msgs, config.max_bytes, stream.visible, bool(stream.consumers), state
    )
