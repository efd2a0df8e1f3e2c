"""Whether an account, and the server, have room for a stream.

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


def no_room(config: StreamConfig) -> errors.Row:
    """The error where a stream of that storage has no room."""
    return errors.MEMORY_RESOURCES_EXCEEDED if config.storage == MEMORY else errors.STORAGE_RESOURCES_EXCEEDED


def check_new_stream(account: JetStreamAccount, catalogue: Catalogue, settings: Settings, config: StreamConfig) -> None:
    """The limits that count before the configuration has been looked at: number of streams, and room."""
    check_number(account.limits, _others(account, config.name))
    check_room(
        account.limits,
        settings,
        config,
        add_bytes=config.max_bytes,
        account_reserved=account.taken.reserved(config.storage, without=config.name),
        all_reserved=catalogue.reserved.of(config.storage),
    )


def check_number(limits: JetStreamLimits, others: int) -> None:
    """Whether an account may have a stream beside so many others."""
    if not limits.applicable:
        raise errors.NO_LIMITS.error()
    if 0 < limits.max_streams <= others:
        raise errors.MAXIMUM_STREAMS_LIMIT.error()


def check_reserved(limits: JetStreamLimits, beside: Iterable[Mapping[str, Any]], config: StreamConfig) -> None:
    """Whether an account may reserve what a stream wants, or one byte, beside its other streams of all servers. beside:
    their configurations, as the servers' table has them."""
    most = limits.max_memory if config.storage == MEMORY else limits.max_store
    if most < 0:
        return
    taken = sum(_reserves(one) for one in beside if (one.get("storage") == MEMORY) == (config.storage == MEMORY))
    wanted = config.max_bytes * max(config.num_replicas, 1) if config.max_bytes > 0 else 1
    if wanted > most - taken:
        raise no_room(config).error()


def _reserves(config: Mapping[str, Any]) -> int:
    """Each server that keeps the stream reserves its bytes."""
    return max(int(config.get("max_bytes", -1)), 0) * max(int(config.get("num_replicas", 1)), 1)


def _others(account: JetStreamAccount, name: str) -> int:
    """How many streams of other names there are, with those that a backup is becoming."""
    # not keys() - keys(), which looks at each of thousands of streams
    restoring = sum(one not in account.streams for one in account.restoring)
    return len(account.streams) + restoring - (name in account.streams or name in account.restoring)


def check_update_room(
    account: JetStreamAccount, catalogue: Catalogue, settings: Settings, old: StreamConfig, new: StreamConfig
) -> None:
    """An update needs room for what it reserves more than before."""
    more = more_reserved(old, new)
    check_room(
        account.limits,
        settings,
        new,
        add_bytes=more,
        account_reserved=account.taken.reserved(new.storage, without=new.name) + max(new.max_bytes - more, 0),
        all_reserved=catalogue.reserved.of(new.storage),
    )


def more_reserved(old: StreamConfig, new: StreamConfig) -> int:
    """Bytes that an update reserves beyond those of before."""
    return max(max(new.max_bytes, 0) - max(old.max_bytes, 0), 0)
