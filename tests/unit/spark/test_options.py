"""Options: defaults that work, and errors that say what is wanted."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from leafd_spark.identity import Login
from leafd_spark.option_page import render
from leafd_spark.options import EARLIEST, LATEST, Options, parse_options


def test_a_stream_is_all_that_must_be_given() -> None:
    """The defaults read a stream of the server on this machine from its beginning."""
    options = parse_options({"stream": "S"})
    assert ("127.0.0.1", 4222) == (options.addresses[0].host, options.addresses[0].port)
    assert (EARLIEST, LATEST, "$JS.API", True) == (
        options.starting,
        options.ending,
        options.api,
        options.fail_on_data_loss,
    )


def test_names_are_case_insensitive() -> None:
    """Spark hands options over in whatever case they were written."""
    options = parse_options({"STREAM": "S", "startingsequence": "7", "USER": "a", "Password": "b"})
    assert ("S", 7, Login("a", "b")) == (options.stream, options.starting, options.login)


def test_kafkas_names_and_the_older_ones_mean_the_same() -> None:
    """Whoever knows Spark's Kafka source finds its names; queries of the first version need no change."""
    kafka = {"startingOffsets": "7", "endingOffsets": "9", "startingTimestamp": "1767225600000", "parallelism": "3"}
    ours = {"startingSequence": "7", "endingSequence": "9", "startingTime": "2026-01-01 01:00:00.000+01:00"}
    assert parse_options({"stream": "S"} | kafka) == parse_options({"stream": "S", "numPartitions": "3"} | ours)
    limits = [{name: "5"} for name in ("maxOffsetsPerTrigger", "maxMessagesPerTrigger")]
    one, other = (parse_options({"stream": "S"} | limit, streaming=True) for limit in limits)
    assert one == other


def test_each_stream_may_have_its_own_place() -> None:
    """JSON as Kafka's source takes it: -2 is earliest, -1 latest, times are RFC 3339 or milliseconds."""
    given = {
        "stream": "A, B,C",
        "startingOffsets": '{"A": 101, "B": -1, "C": "earliest"}',
        "startingOffsetsByTimestamp": '{"A": 1767225600123}',
    }
    options = parse_options(given)
    assert {"A": 101, "B": LATEST, "C": EARLIEST} == options.starting
    assert {"A": "2026-01-01T00:00:00.123Z"} == options.starting_time
    assert ("A", "B", "C") == options.streams


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z"),
        ("2026-01-31 00:00:00Z", "2026-01-31T00:00:00Z"),
        ("2026-01-31 01:30:00.123456789+01:30", "2026-01-31T00:00:00.123456789Z"),
        ("2026-01-31t00:00:00-0100", "2026-01-31T01:00:00Z"),
    ],
)
def test_a_time_is_what_servers_take(text: str, meant: str) -> None:
    """Whatever form of ISO 8601 was given, the server gets RFC 3339 in UTC with every digit."""
    assert meant == parse_options({"stream": "S", "startingTimestamp": text}).starting_time


def test_a_domain_is_an_api_prefix() -> None:
    """Either names the JetStream that is meant."""
    assert "$JS.leaf.API.STREAM.INFO.S" == parse_options({"stream": "S", "domain": "leaf"}).subject_of("STREAM.INFO.S")
    assert "JS.acc@hub.API.INFO" == parse_options({"stream": "S", "apiPrefix": "JS.acc@hub.API."}).subject_of("INFO")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "stream is missing"),
        ({"stream": "a.b"}, "names of streams"),
        ({"stream": "S", "startingSequence": "0"}, "earliest, latest or a sequence"),
        ({"stream": "S", "endingSequence": "earliest"}, "latest or a sequence"),
        ({"stream": "S", "startingTime": "2026-01-01T00:00:00"}, "a time with its zone"),
        ({"stream": "S", "startingTime": "2026-13-01T00:00:00Z"}, "a time with its zone"),
        ({"stream": "S", "fetchBytes": "-1"}, "positive number"),
        ({"stream": "S", "failOnDataLoss": "no"}, "true or false"),
        ({"stream": "S", "domain": "a", "apiPrefix": "b"}, "exclude each other"),
        ({"stream": "S", "maxOffsetPerTrigger": "1"}, "no such option: maxoffsetpertrigger"),
        ({"stream": "S", "maxOffsetsPerTrigger": "1"}, "no use here .batch.: it is for streaming"),
        ({"stream": "S", "maxMessagesPerTrigger": "1"}, "option maxOffsetsPerTrigger is of no use here"),
        ({"stream": "S", "messageIdColumn": "a"}, "no use here .batch.: it is for write"),
        ({"stream": "S", "subject": "s.3,s.4"}, "several: option subjects"),
        ({"stream": "S", "subject": "s..3"}, "one subject"),
        ({"stream": "S", "subjects": "s.3,s.4.>.a"}, "subjects with commas"),
        ({"stream": "S", "subject": "a", "subjects": "b"}, "exclude each other"),
        ({"stream": "S", "streamPattern": "S.*"}, "exclude each other"),
        ({"streamPattern": "S("}, "regular expression"),
        ({"stream": "A,B", "startingOffsets": '{"C": 1}'}, "names C, which option stream does not"),
        ({"stream": "S", "startingOffsets": "7", "startingSequence": "7"}, "mean the same"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_must_be(given: dict[str, str], said: str) -> None:
    """A typo ends the query with a line that helps, and is never ignored."""
    with pytest.raises(ValueError, match=said):
        parse_options(given)


def test_all_that_is_wrong_is_said_together_and_a_typo_with_what_was_meant() -> None:
    """A line each, as of a job's file."""
    given = {"straem": "S", "fetchBytes": "-1", "maxInFlight": "4", "domain": "a", "apiPrefix": "b", "user": "u"}
    with pytest.raises(ValueError, match="straem") as found:
        parse_options(given)
    assert [
        "option fetchBytes is '-1', but must be a positive number",
        "option maxInFlight is of no use here (batch): it is for write",
        "no such option: straem; do you mean stream?",
        "option stream is missing: which stream is to be read?",
        "options domain and apiPrefix exclude each other",
    ] == str(found.value).splitlines()


def test_options_travel_to_executors() -> None:
    """Pickled and unpickled they are the same."""
    options = parse_options({"stream": "S", "servers": "a,b", "token": "t"})
    assert options == pickle.loads(pickle.dumps(options))
    assert isinstance(options, Options)


@pytest.mark.parametrize("name", ["endingSequence", "endingOffsets", "endingTimestamp", "maxInFlight"])
def test_a_streaming_query_refuses_what_is_of_no_use_to_it(name: str) -> None:
    """An end of a query that has none is not ignored."""
    with pytest.raises(ValueError, match=r"no use here .streaming."):
        parse_options({"stream": "S", name: "7"}, streaming=True)


def test_the_page_of_options_is_current() -> None:
    """The tables of packaging/doc/spark-options.md are what the code says; the page says how to write them."""
    page = (Path(__file__).parents[3] / "packaging" / "doc" / "spark-options.md").read_text(encoding="utf-8")
    assert "maxOffsetsPerTrigger" in page
    assert render(page) == page
