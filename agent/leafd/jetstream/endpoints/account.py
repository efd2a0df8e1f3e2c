"""Account info: usage, limits and the count of API calls.

Not here: limits themselves (catalogue.py), enforcing them (account_limits.py).
"""

from __future__ import annotations

from typing import Any, Final

from leafd.cluster.consumers import replicas_of
from leafd.jetstream.catalogue import JetStreamAccount, JetStreamLimits
from leafd.jetstream.models.stream import FILE, MEMORY
from leafd.jetstream.registry import Among, Call, endpoint
from leafd.jetstream.rules.versioning import API_LEVEL
from leafd.turns import Pause

TOGETHER: Final = 256
"""Streams that are counted without a pause."""
NOTHING: Final = JetStreamLimits(0, 0, 0, 0, 0, 0, 0)
"""The limits of an account that has tiers."""


@endpoint("INFO", "account_info_response", among=Among.LEADER)
async def info(call: Call, _request: None) -> dict[str, Any]:
    """The account's use and limits. The call itself is not in its own count."""
    account, limits = call.account, call.account.limits
    members = await _used(call, account)
    members["limits"] = _shown(limits if not limits.tiers else NOTHING)
    if call.context.settings.domain:
        members["domain"] = call.context.settings.domain
    members["api"] = {"level": API_LEVEL, "total": account.api_total, "errors": account.api_errors}
    if limits.tiers:
        members["tiers"] = {
            name: await _used(call, account, _replicas(name)) | {"limits": _shown(one)} for name, one in limits.tiers
        }
    if call.everywhere is not None:
        await call.everywhere.add_others(account, members)
    return members


def _replicas(tier: str) -> int:
    """The number in the name of a tier. -1: no stream has so many."""
    return (int(tier[1:]) if tier[1:].isdecimal() and tier.startswith("R") else 0) or -1


async def _used(call: Call, account: JetStreamAccount, replicas: int = 0) -> dict[str, Any]:
    """The use that streams and consumers with so many replicas make of this server; 0: all."""
    held: dict[str, list[int]] = {FILE: [], MEMORY: []}
    pause, streams, consumers = Pause(), list(account.streams.values()), account.consumers if not replicas else 0
    for begin in range(0, len(streams), TOGETHER):
        for stream in streams[begin : begin + TOGETHER]:
            if replicas in (0, stream.config.num_replicas):
                held[stream.config.storage].append(stream.id)
            if replicas:
                visible = [stream.consumers[name].config for name in stream.names]
                consumers += sum(replicas_of(one, stream.config) == replicas for one in visible)
        await pause()
    used = {storage: await call.context.plane.streams_bytes(ids) for storage, ids in held.items()}
    return {
        "memory": used[MEMORY],
        "storage": used[FILE],
        "reserved_memory": account.taken.reserved(MEMORY, replicas=replicas),
        "reserved_storage": account.taken.reserved(FILE, replicas=replicas),
        "streams": len(held[FILE]) + len(held[MEMORY]),
        "consumers": consumers,
    }


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
