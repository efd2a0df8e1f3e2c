"""What is an observation and what a dead letter, and that no message ends the job that reads it."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies
from leafd_spark.jobs.job import Field, Schema
from leafd_spark.jobs.judging import Dead, Judge, Observation
from leafd_spark.jobs.partitions import safe_name
from leafd_spark.subjects import matches

STORED = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
SCHEMA = Schema(
    name="obs",
    subject="w.>",
    fields=(
        Field("temp", "number", min=-50, max=50),
        Field("n", "integer"),
        Field("text", "string"),
        Field("on", "boolean"),
        Field("must", "number", required=True),
    ),
    sequence="seq",
)
GOOD = {"device": "d", "time": "2023-11-14T22:00:00Z", "must": 1}


def judge(value: Any, schema: Schema = SCHEMA, subject: str = "w.a") -> Observation:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Judge(schema).judge(subject, STORED, data)


def reason(value: Any, schema: Schema = SCHEMA, subject: str = "w.a") -> str:
    with pytest.raises(Dead) as found:
        judge(value, schema, subject)
    return str(found.value)


def test_an_observation_has_the_types_of_its_schema() -> None:
    """Integers are numbers, whole numbers are integers, what is null or absent is null."""
    found = judge(GOOD | {"temp": 3, "n": 4.0, "text": "ä", "on": True, "seq": 7, "other": [1]})
    assert found == Observation("d", 1_699_999_200_000_000, 7, [3.0, 4, "ä", True, 1.0])
    assert judge(GOOD | {"temp": None}).values == [None, None, None, None, 1.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"temp": "12.5"}, "temp: a string '12.5' where a number is due"),
        ({"temp": True}, "temp: a truth value True where a number is due"),
        ({"temp": [1]}, "temp: an array [1] where a number is due"),
        ({"temp": 51}, "temp: 51.0 is above 50"),
        ({"temp": -51}, "temp: -51.0 is below -50"),
        ({"temp": 10**400}, "temp: an integer too large for a number"),
        ({"n": 1.5}, "n: a number with a fraction 1.5 where an integer is due"),
        ({"n": 2**63}, "n: an integer of more than 64 bits"),
        ({"text": 1}, "text: a number where a string is due"),
        ({"text": "\ud800"}, "text: '\\ud800' is not Unicode"),
        ({"on": 1}, "on: a number where true or false is due"),
        ({"must": None}, "must: missing"),
        ({"device": None}, "device: missing"),
        ({"device": ""}, "device: empty"),
        ({"device": 7}, "device: a number where a string is due"),
        ({"device": "\udfff"}, "device: '\\udfff' is not Unicode"),
        ({"device": "ä" * 257}, "device: a name of more than 512 bytes"),
        ({"time": None}, "time: missing"),
        ({"time": 5}, "time: a number where a string is due"),
        ({"time": "yesterday"}, "time: 'yesterday' is no time such as 2026-01-31T12:00:00Z"),
        ({"time": "2023-11-14T22:00:00"}, "time: '2023-11-14T22:00:00' has no time zone"),
        ({"time": "1970-01-01T00:00:00Z"}, "time: '1970-01-01T00:00:00Z' is before 2000-01-01"),
        ({"time": "0001-01-01T00:00:00+23:59"}, "time: '0001-01-01T00:00:00+23:59' is before 2000-01-01"),
        ({"seq": "x"}, "sequence (seq): a string 'x' where an integer is due"),
    ],
)
def test_what_a_field_may_not_be_is_a_dead_letter_with_the_reason(wrong: dict[str, Any], said: str) -> None:
    """Each wrong value is named with its field and what was due."""
    assert reason(GOOD | wrong) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON: Expecting value"),
        (b"\xff", "not JSON: not UTF-8"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
        (b"[]", "an array where an object is due"),
        (b"null", "null where an object is due"),
        (b'{"temp":-Infinity}', "not JSON: -Infinity is no number in JSON"),
        (b'{"temp":' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
    ],
)
def test_a_payload_that_is_no_object_is_a_dead_letter(data: bytes, said: str) -> None:
    """Whatever the bytes are, the verdict is a reason and no other exception."""
    assert reason(data).startswith(said)


def test_an_infinity_never_becomes_a_value() -> None:
    """1e400 is read as infinity by every parser of JSON; it is refused by name."""
    assert reason(b'{"device":"d","time":"2023-11-14T22:00:00Z","must":1,"temp":1e400}') == (
        "temp: a number too large: it is infinite"
    )


def test_a_clock_is_judged_by_the_stream_and_not_by_this_machine() -> None:
    """A message gets the same verdict in every year in which it is read."""
    later = GOOD | {"time": "2023-11-16T00:00:00Z"}
    assert reason(later).startswith("time: '2023-11-16T00:00:00Z' is ahead of the stream's clock by more than 1 day")
    assert judge(GOOD | {"time": "2023-11-15T22:13:20Z"}).time == STORED + 86_400_000_000
    longer = Schema("obs", "w.>", (), ahead_max=timedelta(days=3), not_before=date(2023, 11, 16))
    assert judge(later, longer).time == 1_700_092_800_000_000
    younger = Schema("obs", "w.>", (), age_max=timedelta(minutes=13))
    assert reason(GOOD, younger).endswith("is behind the stream's clock by more than 0:13:00")
    assert judge(GOOD | {"time": "2023-11-14T22:00:20Z"}, younger).device == "d"
    assert reason(GOOD, longer) == "time: '2023-11-14T22:00:00Z' is before 2023-11-16"


@pytest.mark.parametrize(
    ("unit", "given"),
    [
        ("seconds", 1_699_999_200),
        ("seconds", 1_699_999_200.0),
        ("milliseconds", 1_699_999_200_000),
        ("microseconds", 1_699_999_200_000_000),
        ("nanoseconds", 1_699_999_200_000_000_999),
    ],
)
def test_a_time_may_be_a_number(unit: str, given: float) -> None:
    """In the schema's unit since 1970; a text is then of the wrong type, and no number is too large to be judged."""
    schema = Schema("obs", "w.>", (), time_unit=unit)
    assert judge({"device": "d", "time": given}, schema).time == 1_699_999_200_000_000
    assert reason({"device": "d", "time": str(given)}, schema).endswith("where a number is due")
    for wrong in (b"1e308", b"1e400", b"-5", b"true", b"9" * 400):
        assert reason(b'{"device":"d","time":' + wrong + b"}", schema).startswith("time: ")


def test_device_and_time_may_come_from_the_message() -> None:
    """A token of the subject is the device, the stream's own time the observation's."""
    schema = Schema("obs", "w.>", (), device_token=2, time="stream")
    found = judge({}, schema, "w.New York.x")
    assert (found.device, found.time) == ("New York", STORED)
    assert reason({}, schema, "w").endswith("the subject has no token 2")


@given(strategies.binary(max_size=60) | strategies.text(max_size=60).map(str.encode))
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    """An observation or a reason; nothing else comes out."""
    try:
        judge(data)
    except Dead as found:
        assert str(found)


@given(strategies.text())
def test_a_device_s_name_becomes_one_token(name: str) -> None:
    """Any name is a token of a subject and a key of a bucket, and two names are never the same one."""
    found = safe_name(name)
    assert not set(found) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=")
    parts = found.split("=")
    back = parts[0].encode() + b"".join(bytes([int(p[:2], 16)]) + p[2:].encode() for p in parts[1:])
    assert name == back.decode(errors="surrogatepass")


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_patterns_are_those_of_nats(pattern: str, subject: str, fits: bool) -> None:
    """* is one token and > at least one."""
    assert matches(subject, pattern) is fits
