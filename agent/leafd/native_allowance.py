"""Limits of the bytes that an account's streams have, and the plane's events about those that come near them. Not here:
who is told of it (jetstream/service.py), the limits themselves (jetstream/catalogue.py)."""

from __future__ import annotations

from enum import IntEnum

from leafd.native import abi
from leafd.records import dataclass


class AllowanceLevel(IntEnum):
    """How near the streams of an account are to what they may have (ALLOWANCE_LEVEL_* of abi.h)."""

    BELOW = abi.ALLOWANCE_LEVEL_BELOW
    NEAR = abi.ALLOWANCE_LEVEL_NEAR
    FULL = abi.ALLOWANCE_LEVEL_FULL


@dataclass(frozen=True, slots=True)
class Allowed:
    """The bytes that the streams of an account may have; -1: no limit. Each copy that a server keeps counts.

    tier: those that so many servers keep; 0: all of them together, and there are no tiers. elsewhere: what streams have
    that this server has no copy of."""

    tier: int
    file: int
    memory: int
    file_elsewhere: int = 0
    memory_elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """An account's streams have come nearer to what they may have, or away from it. storage: 0 file, 1 memory; level:
    an AllowanceLevel; tier: the number of replicas of those that share the limit, 0: all streams share it."""

    account: int
    storage: int
    level: int
    bytes: int
    limit: int
    tier: int = 0
