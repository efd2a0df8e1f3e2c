"""Account info: usage, limits and the count of API calls.

Not here: limits themselves (catalogue.py), enforcing them (account_limits.py).
"""

from __future__ import annotations

from typing import Any, Final

from leafd.jetstream.catalogue import ONE_REPLICA, JetStreamLimits
from leafd.jetstream.models.stream import FILE, MEMORY
from leafd.jetstream.registry import Call, endpoint
from leafd.jetstream.rules.versioning import API_LEVEL
from leafd.turns import Pause

TOGETHER: Final = 256
"""Streams that are counted without a pause."""
NOTHING: Final = JetStreamLimits(0, 0, 0, 0, 0, 0, 0)
"""What stands for the limits where there are tiers."""


@endpoint("INFO", "account_info_response")
async def info(call: Call, _request: None) -> dict[str, Any]:
    """The account's use and limits. The call itself is not in its own count."""
    account, limits = call.account, call.account.limits
    held: dict[str, list[int]] = {FILE: [], MEMORY: []}
    pause, streams = Pause(), list(account.streams.values())
    for begin in range(0, len(streams), TOGETHER):
        for stream in streams[begin : begin + TOGETHER]:
            held[stream.config.storage].append(stream.id)
        await pause()
    used = {storage: await call.context.plane.streams_bytes(ids) for storage, ids in held.items()}
    members: dict[str, Any] = {
        "memory": used[MEMORY],
        "storage": used[FILE],
        "reserved_memory": account.taken.reserved(MEMORY),
        "reserved_storage": account.taken.reserved(FILE),
        "streams": len(account.streams),
        "consumers": account.consumers,
    }
    usage = dict(members)
    members["limits"] = _shown(limits if not limits.tiers else NOTHING)
    if call.context.settings.domain:
        members["domain"] = call.context.settings.domain
    members["api"] = {"level": API_LEVEL, "total": account.api_total, "errors": account.api_errors}
    if limits.tiers:
        unused = dict.fromkeys(usage, 0)
        members["tiers"] = {
            name: (usage if name == ONE_REPLICA else unused) | {"limits": _shown(one)} for name, one in limits.tiers
        }
    if call.everywhere is not None:
        await call.everywhere.add_others(account, members)
    return members


def _shown(limits: JetStreamLimits) -> dict[str, Any]:
    return {
        "max_memory": limits.max_memory,
        "max_storage": limits.max_store,
        "max_streams": limits.max_streams,
        "max_consumers": limits.max_consumers,
        "max_ack_pending": limits.max_ack_pending,
        "memory_max_stream_bytes": limits.memory_max_stream_bytes,
        "storage_max_stream_bytes": limits.store_max_stream_bytes,
        "max_bytes_required": limits.max_bytes_required,
    }
