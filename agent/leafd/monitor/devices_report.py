"""The block about MQTT of /varz: who is here, whose session is kept, what waits for sessions, what is retained.

    sessions          those that outlive their connection, with or without one
    sessions_away     of these, whose client is not here
    waiting           messages that some session has still to acknowledge: each once, however many wait for it
    retained          one for each topic

Imported only where there is a listener for MQTT. Not here: the count of clients (logins/devices.py), the samples of
/metrics (metrics.py), one account's streams (jetstream_report.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from leafd.config.schema.base import SECOND
from leafd.monitor.facts import Facts
from leafd.native_stats import StateRow

if TYPE_CHECKING:
    from leafd.monitor.rooms import DevicesFacts

WAITING: Final = "$MQTT_msgs"
RETAINED: Final = "$MQTT_rmsgs"


async def devices_block(facts: Facts, devices: DevicesFacts) -> dict[str, Any]:
    """The block. Streams of all accounts are added up."""
    stats = facts.plane.stats()
    states = await facts.jetstream.plain.named((WAITING, RETAINED)) if facts.jetstream is not None else ()
    waiting = [one for name, one in states if name == WAITING]
    return {
        "clients": dict(devices.here),
        "refused_logins": devices.refused,
        "sessions": stats.mqtt_sessions,
        "sessions_away": stats.mqtt_away,
        "expired_sessions": stats.mqtt_expired,
        "refused_sessions": stats.mqtt_no_session,
        "refused_messages": stats.mqtt_not_stored,
        "dropped_messages": stats.mqtt_passed_over,
        "waiting": _summed(waiting) | {"oldest_seconds": _oldest_s(waiting)},
        "retained": _summed(one for name, one in states if name == RETAINED),
    }


def _summed(states: Iterable[StateRow]) -> dict[str, Any]:
    found = list(states)
    return {"messages": sum(one.messages for one in found), "bytes": sum(one.bytes for one in found)}


def _oldest_s(states: Iterable[StateRow]) -> float | None:
    """Since when the oldest waits; None: nothing does."""
    first = min((one.first_ts for one in states if one.messages), default=None)
    return None if first is None else max(time.time_ns() - first, 0) / SECOND
