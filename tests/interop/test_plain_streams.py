"""Streams of which there is nothing to tell but counters and consumers: reports tell of thousands of them in a short
way, which says what the API says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from operator import itemgetter
from typing import Any, Final

import nats
import pytest
from leafd.monitor.shapes import SHAPES_MAX
from nats.aio.client import Client

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


OF_CONSUMERS: Final[dict[str, Callable[[dict[str, Any]], int]]] = {
    "jetstream_consumer_num_pending": itemgetter("num_pending"),
    "jetstream_consumer_num_ack_pending": itemgetter("num_ack_pending"),
    "jetstream_consumer_num_redelivered": itemgetter("num_redelivered"),
    "jetstream_consumer_num_waiting": itemgetter("num_waiting"),
    "jetstream_consumer_delivered_consumer_seq": lambda info: int(info["delivered"]["consumer_seq"]),
    "jetstream_consumer_delivered_stream_seq": lambda info: int(info["delivered"]["stream_seq"]),
    "jetstream_consumer_ack_floor_consumer_seq": lambda info: int(info["ack_floor"]["consumer_seq"]),
    "jetstream_consumer_ack_floor_stream_seq": lambda info: int(info["ack_floor"]["stream_seq"]),
}


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
    """Name, labels and value of each sample stay, but for the count."""
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


CONSUMERS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "EMPTY": {"WAITS": {}},
    'F"ULL': {'a"ü': {"description": "ü", "max_deliver": 1}, "TAKES": {"filter_subject": "FULL.>"}},
    "MANY": {f"c{number:02}": {} for number in range(12)} | {"x": {"filter_subjects": ["MANY.1", "MANY.2"]}},
    "SHAPED": {
        "META": {"metadata": {"about": 'a "box"', "more": ""}},
        "PAUSED": {"pause_until": "2100-01-01T00:00:00Z"},
        "PUSH": {"deliver_subject": "to.me", "deliver_group": "all", "deliver_policy": "new"},
        "START": {"deliver_policy": "by_start_sequence", "opt_start_seq": 3, "backoff": [10**9, 2 * 10**9]},
    },
    "PURGED": {},
}
"""Few and many, of one shape and of others."""
SHOWN: Final = (
    "stream_name", "name", "created", "delivered", "ack_floor", "num_ack_pending", "num_redelivered", "num_waiting",
    "num_pending", "push_bound", "paused", "ts", "config",
)  # fmt: skip


@asynccontextmanager
async def consumed(server: servers.Server) -> AsyncIterator[Client]:
    """All of them are there: somebody waits at one, one has delivered two messages and heard of one, one is bound."""
    client = await nats.connect(server.url)
    await client.subscribe("to.me", queue="all")
    await client.subscribe("waits")
    api, stream = Api(server.port), client.jetstream()
    for name, consumers in CONSUMERS.items():
        for consumer, more in consumers.items():
            config = {"durable_name": consumer, "ack_policy": "explicit"} | more
            request = {"stream_name": name, "config": config}
            api.must(f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.{consumer}", request)
    api.close()
    taken = await stream.pull_subscribe_bind("TAKES", stream='F"ULL')
    await (await taken.fetch(2, timeout=60))[0].ack_sync(timeout=60)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.EMPTY.WAITS", b'{"expires": 600000000000}', reply="waits")
    await client.flush()
    yield client
    await client.close()


def as_told(server: servers.Server, stream: str, consumer: str) -> dict[str, Any]:
    """What the API's info says of the consumer, as far as a row does and without the time."""
    api = Api(server.port)
    info = api.must(f"$JS.API.CONSUMER.INFO.{stream}.{consumer}")
    api.close()
    metadata = {name: text for name, text in info["config"]["metadata"].items() if not name.startswith("_nats.")}
    level = {name: text for name, text in info["config"]["metadata"].items() if name == "_nats.req.level"}
    shown = {name: info[name] for name in SHOWN if name in info}
    return shown | {"ts": "", "config": info["config"] | {"metadata": level | metadata}}


def test_consumers_are_shown_as_the_api_shows_them(server: servers.Server) -> None:
    """Of streams with few and with many, with and without their configurations; members in the API's order."""

    async def shown() -> None:
        async with consumed(server):
            found = await asyncio.to_thread(rows, server, "&consumers=1&config=1")
            short = await asyncio.to_thread(rows, server, "&consumers=1")
            for stream, consumers in CONSUMERS.items():
                listed = found[stream]["consumer_detail"]
                assert [one["name"] for one in listed] == sorted(consumers)
                for one, brief in zip(listed, short[stream]["consumer_detail"], strict=True):
                    whole = await asyncio.to_thread(as_told, server, stream, one["name"])
                    assert one | {"ts": ""} == whole
                    assert [list(one), list(one["config"])] == [list(whole), list(whole["config"])]
                    del whole["config"]
                    assert brief | {"ts": ""} == whole
                    assert re.fullmatch(r"20\d\d-.*Z", brief["ts"])

    asyncio.run(shown())


def test_samples_of_consumers_are_those_of_the_api(server: servers.Server) -> None:
    """Each consumer has each sample once, and one that delivered has the time since."""

    async def shown() -> None:
        async with consumed(server):
            found = await asyncio.to_thread(samples, server)
            names = {(stream, name) for stream, consumers in CONSUMERS.items() for name in consumers}
            infos = {place: await asyncio.to_thread(as_told, server, *place) for place in names}
            for name, of in OF_CONSUMERS.items():
                told = {(labels["stream_name"], labels["consumer_name"]): value for labels, value in found[name]}
                assert len(found[name]) == len(names)
                assert told == {place: of(info) for place, info in infos.items()}, name
            for name in ("last_delivery", "last_ack"):
                ((labels, since),) = found[f"jetstream_consumer_{name}_seconds"]
                assert (labels["stream_name"], labels["consumer_name"]) == ('F"ULL', "TAKES")
                assert 0 <= since < 600

    asyncio.run(shown())


def test_a_thousand_streams_are_all_told_of(server: servers.Server) -> None:
    """More than are asked for at once, and more than are written at once. A report tells of what changed since the one
    before: a stream made anew, gone, consumed, with a message more, and a mirror among them."""
    api = Api(server.port)

    def make(number: int) -> None:
        api.must(f"$JS.API.STREAM.CREATE.S{number}", {"name": f"S{number}", "subjects": [f"s.{number}"]})

    for number in range(1000):
        make(number)
    assert len(rows(server, "")) == 1000 + len(STREAMS)
    for name in ("S7", "S8"):
        api.must(f"$JS.API.STREAM.DELETE.{name}")
    api.must("$JS.API.STREAM.CREATE.S70M", {"name": "S70M", "mirror": {"name": "S70"}})
    rows(server, "")
    make(8)
    durable = {"stream_name": "S9", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    api.must("$JS.API.CONSUMER.DURABLE.CREATE.S9.C", durable)
    api.must("s.10", {})
    shown = rows(server, "")
    assert set(shown) == {*STREAMS, "S70M", *(f"S{number}" for number in range(1000) if number != 7)}
    assert shown["S70M"]["mirror"]["name"] == "S70"
    for name in ("S8", "S9", "S10", "S999"):
        row = told(server, name)
        del row["config"]
        assert shown[name] == row
    assert [shown["S9"]["state"]["consumer_count"], shown["S10"]["state"]["messages"]] == [1, 1]
    make(7)
    api.must("$JS.API.STREAM.DELETE.S70M")
    api.close()
    found = of_streams(server)
    for name in ("total_messages", "limit_bytes"):
        assert sum(one == f"jetstream_stream_{name}" for one, _ in found) == 1000 + len(STREAMS)
