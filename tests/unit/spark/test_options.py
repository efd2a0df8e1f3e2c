"""Options: defaults that work, and errors that say what is wanted."""

from __future__ import annotations

import pickle

import pytest
from leafd.spark.options import EARLIEST, LATEST, Options, parse_options
from leafd.spark.wire import Login


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


def test_a_domain_is_an_api_prefix() -> None:
    """Either names the JetStream that is meant."""
    assert "$JS.leaf.API.STREAM.INFO.S" == parse_options({"stream": "S", "domain": "leaf"}).subject_of("STREAM.INFO.S")
    assert "JS.acc@hub.API.INFO" == parse_options({"stream": "S", "apiPrefix": "JS.acc@hub.API."}).subject_of("INFO")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "stream is missing"),
        ({"stream": "a.b"}, "name of a stream"),
        ({"stream": "S", "startingSequence": "0"}, "earliest, latest or a sequence"),
        ({"stream": "S", "endingSequence": "earliest"}, "latest or a sequence"),
        ({"stream": "S", "startingTime": "2026-01-01T00:00:00"}, "a time such as"),
        ({"stream": "S", "maxBytesPerTrigger": "-1"}, "positive number"),
        ({"stream": "S", "failOnDataLoss": "no"}, "true or false"),
        ({"stream": "S", "domain": "a", "apiPrefix": "b"}, "exclude each other"),
        ({"stream": "S", "maxOffsetsPerTrigger": "1"}, "no such option: maxoffsetspertrigger"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_must_be(given: dict[str, str], said: str) -> None:
    """A typo ends the query with a line that helps, and is never ignored."""
    with pytest.raises(ValueError, match=said):
        parse_options(given)


def test_options_travel_to_executors() -> None:
    """Pickled and unpickled they are the same."""
    options = parse_options({"stream": "S", "servers": "a,b", "token": "t"})
    assert options == pickle.loads(pickle.dumps(options))
    assert isinstance(options, Options)
