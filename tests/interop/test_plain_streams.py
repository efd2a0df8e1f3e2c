"""Streams of which there is nothing to tell but counters: reports tell of thousands of them in a short way, which says
what the long way says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from leafd.monitor.plain_rows import SHAPES_MAX

from tests import servers
from tests.bench.process import Api
from tests.interop.test_metrics import page, samples

CONFIGURATION: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: box
jetstream { store_dir: "{store}", domain: box }
"""
STREAMS: Final[dict[str, dict[str, Any]]] = {
    "EMPTY": {},
    'F"ULL': {"max_msgs": 10, "max_bytes": 4096},
    "MANY": {"storage": "memory"},
    "SHAPED": {"description": "ü", "metadata": {"about": 'a "box"\n'}, "subjects": ["SHAPED.>", "more.*"]},
    "PURGED": {},
}


@pytest.fixture
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        fill(server)
        yield server


def fill(server: servers.Server) -> None:
    api = Api(server.port)
    for name, more in STREAMS.items():
        subject = name.replace('"', "")
        config = {"name": name, "subjects": [f"{subject}.>"], "storage": "file"} | more
        api.must(f"$JS.API.STREAM.CREATE.{name}", config)
        for number in range(0 if name == "EMPTY" else 12):
            api.must(f"{subject}.{number % 5}", {"number": number})
    api.must('$JS.API.STREAM.MSG.DELETE.F"ULL', {"seq": 5})
    api.must("$JS.API.STREAM.PURGE.PURGED")
    api.close()


def rows(server: servers.Server, options: str) -> dict[str, dict[str, Any]]:
    report = json.loads(page(server, f"/jsz?streams=1{options}"))
    (account,) = report["account_details"]
    names = [one["name"] for one in account["stream_detail"]]
    assert names == sorted(names)
    return {one["name"]: one for one in account["stream_detail"]}


def of_streams(server: servers.Server) -> dict[tuple[str, str], tuple[dict[str, str], float]]:
    """Each sample of /metrics about a stream, by its name and the stream's."""
    return {
        (name, labels["stream_name"]): (labels, value)
        for name, found in samples(server).items()
        for labels, value in found
        if name.startswith("jetstream_stream_")
    }


def told(server: servers.Server, name: str) -> dict[str, Any]:
    """What the API's info says of the stream, as far as a row does, without the metadata that tells of the server."""
    api = Api(server.port)
    info = api.must(f"$JS.API.STREAM.INFO.{name}")
    api.close()
    metadata = {key: text for key, text in info["config"]["metadata"].items() if key in ("about", "_nats.req.level")}
    row = {"name": name, "created": info["created"], "cluster": {"leader": "box"}, "state": info["state"]}
    return row | {"config": info["config"] | {"metadata": metadata}}


def test_the_short_way_says_what_the_api_says(server: servers.Server) -> None:
    """Streams of one shape, of others, and one without subjects: name, configuration and state are the info's, to the
    byte of their times and in its order."""
    shown, short = rows(server, "&config=1"), rows(server, "")
    assert set(short) == set(shown) == set(STREAMS)
    for name, row in shown.items():
        whole = told(server, name)
        assert row == whole
        assert list(row["config"]) == list(whole["config"])
        assert list(row["state"]) == list(whole["state"])
        assert list(row) == ["name", "created", "cluster", "config", "state"]
        del row["config"]
        assert list(short[name]) == list(row)
        assert short[name] == row
    assert told(server, "SHAPED")["config"]["metadata"] == {"_nats.req.level": "0", "about": 'a "box"\n'}
    assert short['F"ULL']["state"]["messages"] == 9
    assert short['F"ULL']["state"]["num_deleted"] == 1
    assert rows(server, "&consumers=1") == {name: row | {"consumer_detail": []} for name, row in short.items()}


def test_a_configuration_that_changes_is_shown_as_it_is(server: servers.Server) -> None:
    """What a report has made of it is not kept beyond that; one of more shapes than are kept is made each time."""
    rows(server, "&config=1")
    api = Api(server.port)
    for number in range(300):
        config = {"name": "EMPTY", "subjects": ["EMPTY.>"], "storage": "file", "max_msgs": number + 1}
        api.must("$JS.API.STREAM.UPDATE.EMPTY", config)
        if number % 50 == 0:
            assert rows(server, "&config=1")["EMPTY"] == told(server, "EMPTY")
    for number in range(SHAPES_MAX + 10):
        config = {"name": f"N{number}", "subjects": [f"n.{number}"], "storage": "memory", "max_msgs": number + 1}
        api.must(f"$JS.API.STREAM.CREATE.N{number}", config)
    api.close()
    for _ in range(2):
        found = rows(server, "&config=1")
        assert {found[f"N{number}"]["config"]["max_msgs"] for number in range(SHAPES_MAX + 10)} == set(
            range(1, SHAPES_MAX + 11)
        )


def test_metrics_of_a_stream_are_the_same_once_somebody_consumes_it(server: servers.Server) -> None:
    """A consumer has it told of in the long way: name, labels and value of each sample stay, but for the count."""
    before = of_streams(server)
    assert {stream for _, stream in before} == set(STREAMS)
    api = Api(server.port)
    for name in STREAMS:
        config = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        api.must(f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.C", config)
    api.close()
    after = of_streams(server)
    assert set(after) == set(before)
    for key, (labels, value) in before.items():
        counts = key[0] == "jetstream_stream_consumer_count"
        assert after[key] == (labels, 1.0 if counts else value), key
    assert before["jetstream_stream_limit_messages", 'F"ULL'][1] == 10


def test_a_thousand_streams_are_all_told_of(server: servers.Server) -> None:
    """More than are asked for at once, and more than are written at once."""
    api = Api(server.port)
    for number in range(1000):
        api.must(f"$JS.API.STREAM.CREATE.S{number}", {"name": f"S{number}", "subjects": [f"s.{number}"]})
    api.close()
    assert len(rows(server, "")) == 1000 + len(STREAMS)
    found = of_streams(server)
    for name in ("total_messages", "limit_bytes"):
        assert sum(one == f"jetstream_stream_{name}" for one, _ in found) == 1000 + len(STREAMS)
