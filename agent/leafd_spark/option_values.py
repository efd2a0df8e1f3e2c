"""The values of options: text to what is meant, or a ValueError. What options there are is `options`.

Everything here is pure. A time comes out as RFC 3339 in UTC, as servers want it, with all digits of its fraction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

EARLIEST = "earliest"
LATEST = "latest"

Place = str | int  # a word such as LATEST, or a sequence
Places = Place | Mapping[str, Place]  # or one for each stream
Times = str | Mapping[str, str]  # RFC 3339, or one for each stream; empty is none

# As in the JSON of Spark's Kafka source.
NUMBERED_PLACES: dict[int, Place] = {-2: EARLIEST, -1: LATEST}
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s*([Zz]|[+-]\d\d:?\d\d)")


def positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


DURATION_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Spark's short form of a time span: 15m, 30s, 500ms; without a unit seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in DURATION_UNITS:
        raise ValueError
    return seconds(str(float(found[1]) * DURATION_UNITS[found[2]]))


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def name(text: str) -> str:
    """A stream's or a domain's name."""
    if not text or set(text) & set(" .*>/\\\t\r\n,"):
        raise ValueError
    return text


def names(text: str) -> tuple[str, ...]:
    found = tuple(name(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise ValueError
    return found


def pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error:
        raise ValueError from None
    return text


def subject_filter(text: str) -> str:
    """A subject, which may have wildcards."""
    tokens = text.split(".")
    if not all(tokens) or set(text) & set(" \t\r\n\f,") or ">" in tokens[:-1]:
        raise ValueError
    return text


def subject_filters(text: str) -> tuple[str, ...]:
    """Several, which must not overlap: the server refuses those that do, since it would deliver a message twice."""
    return tuple(dict.fromkeys(subject_filter(part.strip()) for part in text.split(",")))


def time_of(text: str) -> str:
    """RFC 3339 in UTC, of a date and time with its zone, or of milliseconds since 1970 as Kafka's source has it."""
    if text.isdigit():
        whole, fraction = divmod(int(text), 1000)
        return _utc(datetime.fromtimestamp(whole, UTC), f"{fraction:03d}")
    found = TIME.fullmatch(text.strip())
    if not found:
        raise ValueError
    zone = found[4].upper().replace("Z", "+00:00")
    return _utc(datetime.fromisoformat(f"{found[1]}T{found[2]}{zone}").astimezone(UTC), found[3] or "")


def _utc(instant: datetime, fraction: str) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if fraction else "") + "Z"


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or not found:
        raise ValueError
    return found


def _place(value: object, words: tuple[str, ...]) -> Place:
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    number = int(str(value))
    if number in NUMBERED_PLACES and NUMBERED_PLACES[number] in words:
        return NUMBERED_PLACES[number]
    return positive(str(number))


def places(*words: str) -> Callable[[str], Places]:
    """A word or a sequence, or JSON with one for each stream."""

    def parse(text: str) -> Places:
        if text.lstrip().startswith("{"):
            return {name(stream): _place(value, words) for stream, value in _object(text).items()}
        return _place(text, words)

    return parse


def times_by_stream(text: str) -> Mapping[str, str]:
    return {name(stream): time_of(str(value)) for stream, value in _object(text).items()}
