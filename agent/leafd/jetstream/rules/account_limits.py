"""Whether an account, and the server, have room for a stream.

Where an account has limits by number of replicas (tiers), streams with so many share those, and a stream of three
servers counts once. Where its limits are for all streams, it counts three times.
Streams with max_bytes reserve them; streams without count for one byte when they are made. What is stored counts when
it is stored: native/store/allowance.h, for which daemon/tenants.py tells the plane the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leafd.jetstream import errors
from leafd.jetstream.catalogue import Catalogue, JetStreamAccount, JetStreamLimits, Settings
from leafd.jetstream.models.stream import MEMORY, StreamConfig


def check_room(
    limits: JetStreamLimits,
    settings: Settings,
    config: StreamConfig,
    *,
    add_bytes: int,
    account_reserved: int,
    all_reserved: int,
) -> None:
    """Refuses a stream that needs add_bytes more than there are. -1: no limit asked for, counted as one byte."""
    if 0 < limits.max_consumers < config.max_consumers:
        raise errors.MAXIMUM_CONSUMERS_LIMIT.error()
    add_bytes = 1 if add_bytes < 0 else add_bytes
    memory = config.storage == MEMORY
    most = limits.max_memory if memory else limits.max_store
    server_most = settings.max_memory if memory else settings.max_store
    if most >= 0 and add_bytes > most - account_reserved:
        raise no_room(config).error()
    if add_bytes > server_most - all_reserved:
        raise no_room(config).error()


def granted(limits: JetStreamLimits, replicas: int) -> JetStreamLimits:
    """The limits of what has so many replicas. Raises ApiError: such may not be."""
    found = limits.of(replicas)
    if found is None:
        raise errors.NO_LIMITS.error()
    return found


def no_room(config: StreamConfig) -> errors.Row:
    """The error where a stream of that storage has no room."""
    return errors.MEMORY_RESOURCES_EXCEEDED if config.storage == MEMORY else errors.STORAGE_RESOURCES_EXCEEDED


def check_new_stream(account: JetStreamAccount, catalogue: Catalogue, settings: Settings, config: StreamConfig) -> None:
    """The limits that count before the configuration has been looked at: number of streams, and room."""
    limits, tier = granted(account.limits, config.num_replicas), account.limits.tier(config.num_replicas)
    check_number(limits, _others(account, config.name, tier))
    check_room(
        limits,
        settings,
        config,
        add_bytes=config.max_bytes,
        account_reserved=account.taken.reserved(config.storage, without=config.name, replicas=tier),
        all_reserved=catalogue.reserved.of(config.storage),
    )


def check_number(limits: JetStreamLimits, others: int) -> None:
    """Whether an account may have a stream beside so many others."""
    if 0 < limits.max_streams <= others:
        raise errors.MAXIMUM_STREAMS_LIMIT.error()


def check_beside(
    limits: JetStreamLimits, rows: Iterable[Mapping[str, Any]], config: StreamConfig, before: StreamConfig | None
) -> None:
    """Whether an account may have one more stream, and reserve what it wants, or one byte, beside its other streams of
    all servers. rows: their configurations, as the servers' table has them. before: None: the stream is new."""
    granting, tier = granted(limits, config.num_replicas), limits.tier(config.num_replicas)
    beside = [one for one in rows if tier in (0, replicas_in(one))]
    if before is None or tier != limits.tier(before.num_replicas):
        check_number(granting, len(beside))
    elif _wanted(config, tier) <= _wanted(before, tier):
        return
    most = granting.max_memory if config.storage == MEMORY else granting.max_store
    if most < 0:
        return
    taken = sum(
        bytes_in(one) * (1 if tier else replicas_in(one))
        for one in beside
        if (one.get("storage") == MEMORY) == (config.storage == MEMORY)
    )
    if (_wanted(config, tier) or 1) > most - taken:
        raise no_room(config).error()


def _wanted(config: StreamConfig, tier: int) -> int:
    return max(config.max_bytes, 0) * (1 if tier else max(config.num_replicas, 1))


def bytes_in(row: Mapping[str, Any]) -> int:
    """The bytes that the stream of a row reserves at each of its servers."""
    return max(int(row.get("max_bytes", -1)), 0)


def replicas_in(row: Mapping[str, Any]) -> int:
    """How many servers keep the stream of a row."""
    return max(int(row.get("num_replicas", 1)), 1)


def _others(account: JetStreamAccount, name: str, tier: int) -> int:
    """How many streams of other names there are, with those that a backup is becoming. tier: those that have so many
    replicas; 0: all."""
    if tier:
        own = [account.restoring[name]] if name in account.restoring else []
        own += [account.streams[name].config] if name in account.streams else []
        there = account.taken.number(len(account.streams) + len(account.restoring), tier)
        return there - sum(tier == max(one.num_replicas, 1) for one in own)
    # not keys() - keys(), which looks at each of thousands of streams
    restoring = sum(one not in account.streams for one in account.restoring)
    return len(account.streams) + restoring - (name in account.streams or name in account.restoring)


def check_update_room(
    account: JetStreamAccount, catalogue: Catalogue, settings: Settings, old: StreamConfig, new: StreamConfig
) -> None:
    """An update needs room for what it reserves more than before."""
    limits, tier = granted(account.limits, new.num_replicas), account.limits.tier(new.num_replicas)
    more = more_reserved(old, new)
    beside = account.taken.reserved(new.storage, without=new.name, replicas=tier)
    check_room(
        limits,
        settings,
        new,
        add_bytes=more,
        account_reserved=beside + max(new.max_bytes - more, 0),
        all_reserved=catalogue.reserved.of(new.storage),
    )


def more_reserved(old: StreamConfig, new: StreamConfig) -> int:
    """Bytes that an update reserves beyond those of before."""
    return max(max(new.max_bytes, 0) - max(old.max_bytes, 0), 0)
