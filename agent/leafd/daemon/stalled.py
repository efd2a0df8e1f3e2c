"""Mirrors and sources that get nothing and will not by themselves, for what answers whether this server is well. One
whose origin is only away is not told: boxes may be away for weeks.

To look at all of them costs 20 us of processor time each, and a prober may ask every second. What was found is told
again for a while, so that looking takes at most one part in SHARE of the time.
Not here: how far each copy is (links/lag.py), where each is shown with its reason (jetstream/endpoints/infos.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from leafd.jetstream.ports import SourceStatus
    from leafd.jetstream.service import JetStream

AWAY: Final = ("no answer from the origin", "origin not reachable")
NAMED_MAX: Final = 20
SHARE: Final = 1000
KEPT_MAX_S: Final = 30.0
"""The oldest that an answer may be, however long a look takes."""

Statuses = Callable[[int, Sequence[int]], Awaitable[list["SourceStatus"]]]


class Stalled:
    """Asked, it answers with the reason of each, by account, stream and origin; so many of them."""

    def __init__(self, jetstream: JetStream, statuses: Statuses) -> None:
        self._jetstream, self._statuses = jetstream, statuses
        self._looking = trio.Lock()
        self._found: dict[str, str] = {}
        self._until_s = 0.0

    async def __call__(self) -> dict[str, str]:
        """The reasons of this moment, or of one that is at most a thousand times as long ago as it took to look."""
        async with self._looking:
            began_s = trio.current_time()
            if began_s >= self._until_s:
                self._found = await self._look()
                now_s = trio.current_time()
                self._until_s = now_s + min((now_s - began_s) * SHARE, KEPT_MAX_S)
            return self._found

    async def _look(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for account in list(self._jetstream.catalogue.by_name.values()):
            for stream in list(account.streams.values()):
                config = stream.config
                origins = [config.mirror] if config.mirror is not None else list(config.sources)
                first = 0 if config.mirror is not None else 1
                told = await self._statuses(stream.id, range(first, first + len(origins))) if origins else []
                for origin, one in zip(origins, told, strict=True):
                    reason = str((one.error or {}).get("description", ""))
                    if reason and reason not in AWAY and len(found) < NAMED_MAX:
                        found[f"{account.name} > {config.name} < {origin.name}"] = reason
        return found
