"""One message judged: an observation with the types that its schema wants, or a dead letter with the reason.

Pure functions of a schema, a subject, a time and a payload. Nothing here depends on the clock of this machine: a
message is judged by the time at which the stream stored it, so that it gets the same verdict whenever it is read again.

No payload may raise out of `judge`: what it says comes from anywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from .job import BOOLEAN, INTEGER, NEWEST, NUMBER, STRING, Field, Schema

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEVICE_BYTES_MAX = 512
INT64 = 1 << 63
SHOWN_MAX = 60
UNIT_MICROSECONDS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
NANOSECONDS = 1_000  # a microsecond
MILLENNIA = 1e18


class Dead(Exception):
    """A message is no observation; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Observation:
    device: str
    time: int  # in microseconds since 1970
    counter: int | None
    values: list[Any]  # in the order of the schema's fields


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def shown(value: Any) -> str:
    """A value in a reason: short, and in one line."""
    text = ascii(value)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def payload_of(data: bytes) -> dict[str, Any]:
    try:
        found = _DECODER.decode(data.decode())
    except UnicodeDecodeError:
        raise Dead("not JSON: not UTF-8") from None
    except RecursionError:
        raise Dead("not JSON: nested too deeply") from None
    except ValueError as error:
        raise Dead(f"not JSON: {str(error)[:SHOWN_MAX]}") from None
    if not isinstance(found, dict):
        raise Dead(f"{kind_of(found)} where an object is due")
    return found


def _string(value: Any) -> str:
    if type(value) is not str:
        raise Dead(f"{kind_of(value)} where a string is due")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Dead(f"{shown(value)} is not Unicode") from None
    return value


def _number(value: Any) -> float:
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Dead("an integer too large for a number") from None
    if type(value) is not float:
        raise Dead(f"{kind_of(value)} {shown(value)} where a number is due")
    if math.isinf(value):
        raise Dead("a number too large: it is infinite")
    return value


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        what = "a number with a fraction" if type(value) is float else kind_of(value)
        raise Dead(f"{what} {shown(value)} where an integer is due")
    if not -INT64 <= value < INT64:
        raise Dead("an integer of more than 64 bits")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Dead(f"{kind_of(value)} where true or false is due")
    return value


_TYPES: dict[str, Callable[[Any], Any]] = {NUMBER: _number, INTEGER: _integer, STRING: _string, BOOLEAN: _boolean}


def _check(field: Field, value: Any) -> None:
    if field.min is not None and value < field.min:
        raise Dead(f"{shown(value)} is below {field.min:g}")
    if field.max is not None and value > field.max:
        raise Dead(f"{shown(value)} is above {field.max:g}")


def _instant(value: Any, unit: str) -> int:
    """An observation's time in microseconds since 1970."""
    if unit == "rfc3339":
        try:
            parsed = datetime.fromisoformat(_string(value))
            if parsed.tzinfo is None:
                raise Dead(f"{shown(value)} has no time zone")
            return (parsed - EPOCH) // MICROSECOND
        except (ValueError, OverflowError):
            raise Dead(f"{shown(value)} is no time such as 2026-01-31T12:00:00Z") from None
    number = value if type(value) is int else _number(value)
    if unit == "nanoseconds":
        return int(number // NANOSECONDS)
    # (Of a float so large that the product would be infinite the integer is exact.)
    return int(number * UNIT_MICROSECONDS[unit]) if abs(number) < MILLENNIA else int(number) * UNIT_MICROSECONDS[unit]


class Judge:
    """A schema, ready to judge messages."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._fields = [(field.name, field, _TYPES[field.type]) for field in schema.fields]
        first = datetime(schema.not_before.year, schema.not_before.month, schema.not_before.day, tzinfo=UTC)
        self._first = (first - EPOCH) // MICROSECOND
        self._ahead = schema.ahead_max // MICROSECOND
        self._age = schema.age_max // MICROSECOND if schema.age_max else None
        given = {"device": schema.device, "time": schema.time, "sequence": schema.sequence}
        self._names = {what: what if name == what else f"{what} ({name})" for what, name in given.items()}

    def judge(self, subject: str, stored: int, data: bytes) -> Observation:
        """The observation that a message is; Dead says why it is not. `stored`: the stream's time, in microseconds."""
        payload = payload_of(data)
        schema = self._schema
        what = self._names["device"]  # what is being judged
        try:
            device = self._device(subject, payload)
            what = self._names["time"]
            time = stored if schema.time == NEWEST else self._time(stored, payload)
            values = []
            for what, field, convert in self._fields:
                value = payload.get(what)
                if value is not None:
                    value = convert(value)
                    if field.bounded:
                        _check(field, value)
                elif field.required:
                    raise Dead("missing")
                values.append(value)
            what = self._names["sequence"]
            counter = payload.get(schema.sequence) if schema.sequence else None
            if counter is not None:
                counter = _integer(counter)
        except Dead as reason:
            raise Dead(f"{what}: {reason}") from None
        return Observation(device, time, counter, values)

    def _device(self, subject: str, payload: dict[str, Any]) -> str:
        if self._schema.device_token:
            tokens = subject.split(".")
            if len(tokens) < self._schema.device_token:
                raise Dead(f"the subject has no token {self._schema.device_token}")
            device = tokens[self._schema.device_token - 1]
        else:
            given = payload.get(self._schema.device)
            if given is None:
                raise Dead("missing")
            device = _string(given)
        if not device:
            raise Dead("empty")
        if len(device) > DEVICE_BYTES_MAX // 4 and len(device.encode()) > DEVICE_BYTES_MAX:
            raise Dead(f"a name of more than {DEVICE_BYTES_MAX} bytes")
        return device

    def _time(self, stored: int, payload: dict[str, Any]) -> int:
        given = payload.get(self._schema.time)
        if given is None:
            raise Dead("missing")
        time = _instant(given, self._schema.time_unit)
        if time < self._first:
            raise Dead(f"{shown(given)} is before {self._schema.not_before}")
        if time > stored + self._ahead:
            raise Dead(f"{shown(given)} is ahead of the stream's clock by more than {self._schema.ahead_max}")
        if self._age is not None and time < stored - self._age:
            raise Dead(f"{shown(given)} is behind the stream's clock by more than {self._schema.age_max}")
        return time
