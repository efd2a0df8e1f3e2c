"""Log lines about an origin's stream that is not the one that a copy knew.

Not here: how that is found out (replica.py).
"""

from __future__ import annotations

from leafd.links.replica import Slot
from leafd.operator_log import Log


def made_anew(log: Log, slot: Slot) -> None:
    """A stream that is another one now."""
    log.warning(
        f"stream {slot.origin.stream} was made anew at its origin: {slot.stream_name} starts over",
        event="origin_made_anew",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def back(log: Log, slot: Slot, sequence: int) -> None:
    """A stream that was there before the last one, and was taken up to that sequence: two machines have one name."""
    log.warning(
        f"stream {slot.origin.stream} of {slot.origin.domain or slot.origin.api} is again one that was there before, "
        f"as where two machines have one name: {slot.stream_name}, which had {sequence} of it, goes on",
        event="origin_back",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def put_back(log: Log, slot: Slot, had: int, ends: int) -> None:
    """A stream that was put back from an old copy, which ends there."""
    log.warning(
        f"stream {slot.origin.stream} was put back to an earlier state at its origin, up to sequence {ends}:"
        f" {slot.stream_name}, which had {had} of it, goes on with what is newer",
        event="origin_put_back",
        account=slot.account_name,
        stream=slot.stream_name,
    )
