"""The messages that a job publishes: each device's last values, windows that changed, alarms. Rows in, messages out;
pure.

Every message has an id that a repetition has, too, so that the stream drops what it has already: of a last value and
of a window the id is made of what the message says, of an alarm of the device and the window that raised it. Windows
only ever get more rows, so a message that says the same again is the same.

A device's name is any text; in subjects and keys its bytes but letters, digits, - and _ are written as =XX.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .gold import DAYS, HEALTH, HOURS, PULSES, Change, Computed
from .job import HOUR, Alarm, Job
from .partitions import safe_name

Key = tuple[str, datetime]
STATISTICS = ("count", "min", "mean", "max", "sum", "first", "last")


@dataclass(frozen=True, slots=True)
class Message:
    subject: str
    data: str
    id: str


def _plain(value: Any) -> Any:
    """A value as JSON has it: no infinity, times as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _message(job: Job, subject: str, value: dict[str, Any], *identity: str) -> Message:
    data = _text(value)
    return Message(subject, data, _id(job.name, subject, *(identity or (data,))))


def _by_window(windows: Any, counts: Any, name: str) -> dict[Key, dict[str, Any]]:
    """Device and begin to what is published of that window."""
    found: dict[Key, dict[str, Any]] = {}
    for row in counts.to_pylist():
        found[row["device"], row["start"]] = {
            "device": row["device"],
            "window": name,
            "start": _plain(row["start"]),
            "messages": row["messages"],
            "metrics": {},
        }
    for row in windows.to_pylist():
        # (A crash may have put one of the two tables in place and not yet the other.)
        if window := found.get((row["device"], row["start"])):
            window["metrics"][row["metric"]] = {each: _plain(row[each]) for each in STATISTICS}
    return found


def window_messages(job: Job, computed: Computed) -> Iterator[Message]:
    """Windows that say something else than before."""
    windows, counts = (HOURS, PULSES) if job.results.window == HOUR else (DAYS, HEALTH)
    rows, beside = computed.changes[windows], computed.changes[counts]
    before = _by_window(rows.before, beside.before, job.results.window)
    shape = "%Y-%m-%dT%H" if job.results.window == HOUR else "%Y-%m-%d"
    for key, value in sorted(_by_window(rows.after, beside.after, job.results.window).items()):
        if before.get(key) != value:
            device, start = key
            subject = f"{job.results.windows}.{safe_name(device)}.{start.astimezone(UTC).strftime(shape)}"
            yield _message(job, subject, value)


def _raised(alarm: Alarm, rows: Any) -> dict[Key, float]:
    """Windows that raise an alarm, with the value that does."""
    found: dict[Key, float] = {}
    for row in rows.to_pylist():
        key = (row["device"], row["start"])
        if alarm.silence is not None:
            if timedelta(seconds=row["longest_silence_s"]) > alarm.silence:
                found[key] = row["longest_silence_s"]
        elif row["metric"] == alarm.field:
            if alarm.above is not None and row["max"] > alarm.above:
                found[key] = row["max"]
            elif alarm.below is not None and row["min"] < alarm.below:
                found[key] = row["min"]
    return found


def alarm_messages(job: Job, schema: str, computed: Computed) -> Iterator[Message]:
    """Alarms of windows that had none before."""
    for alarm in job.results.alarms:
        if alarm.schema != schema:
            continue
        change = computed.changes[HOURS if alarm.field else HEALTH]
        known = _raised(alarm, change.before)
        for (device, start), value in sorted(_raised(alarm, change.after).items()):
            if (device, start) in known:
                continue
            said: dict[str, Any] = {"alarm": alarm.name, "device": device, "start": _plain(start)}
            if alarm.field:
                said |= {"field": alarm.field, "value": _plain(value), "above": alarm.above, "below": alarm.below}
            else:
                said |= {"silence_s": value}
            subject = f"{alarm.subject}.{alarm.name}.{safe_name(device)}"
            yield _message(job, subject, said, device, said["start"])


def last_messages(job: Job, schema: str, change: Change) -> Iterator[Message]:
    """One message for each device of which a last value changed: all that is last of it."""

    def devices(table: Any) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for row in table.to_pylist():
            values = found.setdefault(row["device"], {})
            values[row["metric"]] = {"value": _plain(row["value"]), "time": _plain(row["time"])}
        return found

    before = devices(change.before)
    for device, values in sorted(devices(change.after).items()):
        if before.get(device) != values:
            subject = f"$KV.{job.results.last_values}.{safe_name(schema)}.{safe_name(device)}"
            yield _message(job, subject, {"device": device, "metrics": values})
