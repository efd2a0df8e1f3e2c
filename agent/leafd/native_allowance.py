"""The plane's events about accounts that come near the limits of their streams. Not here: who is told of
it (jetstream/service.py), the limits themselves (jetstream/catalogue.py)."""

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
class Allowance:
    """An account's streams have come nearer to what they may have, or away from it. storage: 0 file, 1 memory; level:
    an AllowanceLevel."""

    account: int
    storage: int
    level: int
    bytes: int
    limit: int
