"""Go's JSON: what is accepted, what is refused in which words, how values are written.

Expected texts are what nats-server 2.15.1 answered.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from leafd.gojson import ELEMENTS_MAX, JsonError, decode, dump, dump_piecewise, loose, written
from leafd.gotime import ZERO_TIME, TimeError, format_duration, format_time, parse_time
from leafd.jetstream.models.requests import ConsumerCreateRequest, MessageGetRequest
from leafd.jetstream.models.stream import StreamConfig, StreamConfigRequest


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            b'{"name":"A","max_msgs":"x"}',
            "json: cannot unmarshal string into Go struct field StreamConfigRequest.max_msgs of type int64",
        ),
        (b'{"subjects":[1]}', "json: cannot unmarshal number into StreamConfigRequest.subjects.0 of type string"),
        (
            b'{"mirror":[]}',
            "json: cannot unmarshal array into Go struct field StreamConfigRequest.mirror of type server.StreamSource",
        ),
        (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
        (b'{"retention":"foo"}', 'can not unmarshal "\\"foo\\""'),
        (b'{"retention":null}', 'can not unmarshal "null"'),
        (b'{"compression":""}', "unknown compression algorithm"),
        (b'{"foo":1,"max_msgs":"x"}', 'json: unknown field "foo"'),
        (b'{"name":"A"', "unexpected EOF"),
        (b"x", "invalid character 'x' looking for beginning of value at offset 1"),
        (b'{"name":"A",}', "invalid character '}' looking for beginning of object key string at offset 13"),
        (b'{"name" "A"}', "invalid character '\"' after object key at offset 9"),
        (b'{"max_msgs":tru}', "invalid character '}' in literal true (expecting 'e') at offset 16"),
        (b'{"name":"A\n"}', "invalid character '\\n' in string at offset 11"),
    ],
)
def test_refusals_in_go_words(body: bytes, text: str) -> None:
    """The text behind `invalid JSON: ` is the reference's."""
    with pytest.raises(JsonError) as caught:
        decode(StreamConfigRequest, body)
    assert text == str(caught.value)


def test_unknown_members_pass_when_not_strict() -> None:
    """`strict: false` in the configuration ignores them, at every depth."""
    config = decode(StreamConfigRequest, b'{"name":"A","foo":1,"mirror":{"name":"B","bar":[{}]}}', strict=False)
    assert config.mirror is not None
    assert ("A", "B") == (config.name, config.mirror.name)


def test_names_match_without_case_and_null_is_absent() -> None:
    """As Go reads: NAME is name; null leaves a field alone unless its type reads null itself."""
    config = decode(StreamConfigRequest, b'{"NAME":"A","max_msgs":null,"consumer_limits":null,"sources":null}')
    assert ("A", 0, ()) == (config.name, config.max_msgs, config.sources)


def test_an_empty_body_is_the_default() -> None:
    """Go's stream decoder meets the end of the text before any value and is content."""
    assert MessageGetRequest() == decode(MessageGetRequest, b"")
    assert MessageGetRequest() == decode(MessageGetRequest, b" \n")


def test_deep_nesting_is_refused() -> None:
    """A body of brackets ends in an error, not in a crash of the control thread."""
    with pytest.raises(JsonError):
        decode(ConsumerCreateRequest, b'{"config":' * 100_000)


def test_lone_surrogates_become_the_replacement_character() -> None:
    """JSON can spell what UTF-8 cannot hold."""
    assert "\ufffd" == decode(StreamConfigRequest, b'{"name":"\\ud800"}').name


def test_writing_follows_declaration_and_omits_empties() -> None:
    """Field order, omitted empties and escapes as in the reference's transcript."""
    text = dump(written(StreamConfig(name="AX", subjects=("ax.>",), metadata={"b": "&", "a": "<"}))).decode()
    assert text.startswith('{"name":"AX","subjects":["ax.\\u003e"],"retention":"limits","max_consumers":0,')
    assert text.endswith('"allow_msg_ttl":false,"metadata":{"a":"\\u003c","b":"\\u0026"}}')
    assert "placement" not in text


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": []},
        {"a": {}, "b": [None, True, 1.5, -3, "<&\u2028\ud800"], "c": ()},
        {"rows": [{"name": f"{number}", "of": {"a": None, "b": [number] * (number % 7)}} for number in range(500)]},
        {'a"b': dict.fromkeys((f"k<{number}" for number in range(300)), ("x", ["y"]))},
        {"deep": [[[list(range(200))] * 3] * 3], "text": "z" * 300_000},
    ],
)
def test_what_is_written_in_parts_is_what_is_written_at_once(value: dict[str, Any]) -> None:
    """Large values are, so that others have the interpreter in between."""
    assert dump_piecewise(value) == dump(value)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("2026-11-21T03:36:37.404202803Z", "2026-11-21T03:36:37.404202803Z"),
        ("2026-11-21T03:36:37.400Z", "2026-11-21T03:36:37.4Z"),
        ("2026-11-21T03:36:37+02:30", "2026-11-21T01:06:37Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_times_survive(text: str, again: str) -> None:
    """Nanoseconds are kept, trailing zeros are not; zones become UTC."""
    assert again == format_time(parse_time(text))


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (ZERO_TIME - 1, "0001-01-01T00:00:00Z"),
        (-(1 << 80), "0001-01-01T00:00:00Z"),
        (1 << 80, "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_a_time_before_1970_is_written_and_one_that_has_no_text_is_the_nearest_that_has(ns: int, text: str) -> None:
    assert text == format_time(ns)


def test_the_zero_time_is_recognised() -> None:
    """Go's unset time has a value of its own."""
    assert ZERO_TIME == parse_time("0001-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("2020-01-01", 'parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
    ],
)
def test_what_is_no_time(text: str, refusal: str) -> None:
    """The words are Go's."""
    with pytest.raises(TimeError) as caught:
        parse_time(text)
    assert refusal == str(caught.value)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100_000_000, "100ms"),
        (60_000_000_000, "1m0s"),
        (5_430_000_000_000, "1h30m30s"),
    ],
)
def test_durations_as_go_prints_them(ns: int, text: str) -> None:
    """They appear in the texts of errors."""
    assert text == format_duration(ns)


def test_a_long_list_of_numbers_is_read_beside_other_threads() -> None:
    """While one thread reads it the others go on again and again, not only at its end."""
    body = b'{"a":[0' + b",0" * (ELEMENTS_MAX - 1) + b"]}"
    reader = threading.Thread(target=loose, args=(body,))
    turns = 0
    reader.start()
    while reader.is_alive():
        time.sleep(0.001)
        turns += 1

    assert turns >= 5


def test_more_elements_than_any_request_has_are_refused() -> None:
    """They are counted before anything is made of them."""
    with pytest.raises(JsonError, match="more than 400000 elements"):
        loose(b'{"a":[0' + b",0" * (ELEMENTS_MAX + 1) + b"]}")
