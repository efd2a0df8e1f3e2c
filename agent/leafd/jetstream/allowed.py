"""The bytes that the streams of an account may store, as the plane takes them.

Limits by number of replicas (tiers) are for the bytes of a stream, and hold for each of its copies; others are for all
copies of all streams together, as in nats-server. Not here: what is refused (native/store/allowance.h), what streams
reserve (rules/account_limits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leafd import native_types as t
from leafd.jetstream.catalogue import JetStreamLimits
from leafd.native import abi


def is_bounded(limits: JetStreamLimits) -> bool:
    """Whether what is stored is limited at all."""
    return bool(limits.tiers) or limits.max_store >= 0 or limits.max_memory >= 0


def allowances(limits: JetStreamLimits, elsewhere: Iterable[tuple[int, int, int]] = ()) -> Iterator[t.Allowed]:
    """Each that the plane is told of. elsewhere: what streams have that are at other servers alone: storage (0 file, 1
    memory), replicas, bytes of a copy. Of tiers that there are not there may be nothing."""
    sums: dict[tuple[int, int], int] = {}
    for storage, replicas, count in elsewhere:
        tier = min(replicas, abi.ALLOW_TIERS) if limits.tiers else 0
        sums[storage, tier] = sums.get((storage, tier), 0) + count * replicas
    for tier in range(1, abi.ALLOW_TIERS + 1) if limits.tiers else (0,):
        one = limits.of(tier) if tier else limits
        file, memory = (one.max_store, one.max_memory) if one is not None else (0, 0)
        copies = max(tier, 1)
        yield t.Allowed(
            tier,
            file * copies if file >= 0 else -1,
            memory * copies if memory >= 0 else -1,
            sums.get((0, tier), 0),
            sums.get((1, tier), 0),
        )
