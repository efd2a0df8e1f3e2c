"""Mirrors and sources that get nothing and will not by themselves, for what answers whether this server is well. One
whose origin is only away is not told: boxes may be away for weeks.

Not here: how far each copy is (links/lag.py), where each is shown with its reason (jetstream/endpoints/infos.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leafd.jetstream.ports import SourceStatus
    from leafd.jetstream.service import JetStream

AWAY: Final = ("no answer from the origin", "origin not reachable")
NAMED_MAX: Final = 20


async def stalled(
    jetstream: JetStream, statuses: Callable[[int, Sequence[int]], Awaitable[list[SourceStatus]]]
) -> dict[str, str]:
    """The reason of each, by account, stream and origin; so many of them."""
    found: dict[str, str] = {}
    for account in list(jetstream.catalogue.by_name.values()):
        for stream in list(account.streams.values()):
            config = stream.config
            origins = [config.mirror] if config.mirror is not None else list(config.sources)
            first = 0 if config.mirror is not None else 1
            told = await statuses(stream.id, range(first, first + len(origins))) if origins else []
            for origin, one in zip(origins, told, strict=True):
                reason = str((one.error or {}).get("description", ""))
                if reason and reason not in AWAY and len(found) < NAMED_MAX:
                    found[f"{account.name} > {config.name} < {origin.name}"] = reason
    return found
