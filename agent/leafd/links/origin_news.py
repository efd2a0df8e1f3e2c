"""Log lines about a copy that cannot simply go on: its origin's stream is not the one that it knew, or its position is
lost.

Not here: how that is found out (replica.py; the plane, for a position).
"""

from __future__ import annotations

from typing import Final

import trio

from leafd import native_types as t
from leafd.links.refusals import WAIT_S
from leafd.links.replica import Replica, Slot
from leafd.links.steps import Back, Moves, Renewed
from leafd.operator_log import Log

DAMAGED_WAIT_S: Final = 600.0


def made_anew(log: Log, slot: Slot) -> None:
    """A stream that is another one now."""
    log.warning(
        f"stream {slot.origin.stream} was made anew at its origin: {slot.stream_name} starts over",
        event="origin_made_anew",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def another(log: Log, slot: Slot, order: Back | Renewed) -> None:
    """A stream that is another one now, and whose sequences do not start over."""
    if isinstance(order, Back):
        _back(log, slot, order.last_sequence)
    else:
        _renewed(log, slot, order.last_sequence)


def _renewed(log: Log, slot: Slot, sequence: int) -> None:
    """The origin of a mirror, which has that sequence of the stream that was there before."""
    log.warning(
        f"stream {slot.origin.stream} was made anew at its origin: mirror {slot.stream_name} has messages of the one"
        f" before, and of the new one only what comes behind sequence {sequence}",
        event="origin_made_anew",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def _back(log: Log, slot: Slot, sequence: int) -> None:
    """A stream that was there before the last one, and was taken up to that sequence: two machines have one name."""
    log.warning(
        f"stream {slot.origin.stream} of {slot.origin.domain or slot.origin.api} is again one that was there before, "
        f"as where two machines have one name: {slot.stream_name}, which had {sequence} of it, goes on",
        event="origin_back",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def put_back(log: Log, replica: Replica, ends: int) -> None:
    """A stream that was put back from an old copy, which ends there. The slot's info says it, too."""
    _put_back(log, replica, ends, replica.last_sequence)


def _put_back(log: Log, replica: Replica, ends: int, had: int) -> None:
    slot, replica.put_back_s = replica.slot, trio.current_time()
    log.warning(
        f"stream {slot.origin.stream} was put back to an earlier state at its origin, up to sequence {ends}:"
        f" {slot.stream_name}, which had {had} of it, goes on with what is newer",
        event="origin_put_back",
        account=slot.account_name,
        stream=slot.stream_name,
    )


def moves(log: Log, replica: Replica, order: Moves) -> None:
    """A stream of other epochs than those that were taken last (epochs.py)."""
    if order.stands > order.had:
        _back(log, replica.slot, order.stands)
    else:
        _put_back(log, replica, order.stands, order.had)


def not_begun(log: Log, replica: Replica, error: Exception) -> float:
    """How many seconds a copy waits that the plane did not begin. Told of in the log is a source whose position is
    damaged and does not follow from its last messages: all of it would come once more."""
    if not isinstance(error, t.PlaneError) or error.status != t.Status.CORRUPT:
        replica.error = {"code": 500, "err_code": 10029, "description": f"it cannot be begun here: {error}"}
        return WAIT_S
    slot = replica.slot
    replica.error = {"code": 500, "err_code": 10029, "description": "the source's position is damaged here"}
    log.error(
        f"the position of {slot.stream_name} in stream {slot.origin.stream} is damaged: nothing is taken of it",
        event="source_position_damaged",
        account=slot.account_name,
        stream=slot.stream_name,
    )
    return DAMAGED_WAIT_S
