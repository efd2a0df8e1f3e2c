"""/metrics, read by the Prometheus client's own parser: the numbers of the JSON reports under the exporter's names."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import nats
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older

from tests import servers
from tests.rig.waiting import eventually

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: box
jetstream { store_dir: "{store}", domain: box }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}", account: "$G" } ] }
"""

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    """Three messages in a stream whose name wants escapes, a consumer, and a hub that does not answer."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        asyncio.run(filled(server))
        yield server


async def filled(server: servers.Server) -> None:
    client = await nats.connect(server.url)
    stream = client.jetstream()
    await stream.add_stream(name='S"q', subjects=["s.>"], max_msgs=10)
    await stream.add_consumer('S"q', durable_name="C", ack_policy="explicit")
    for number in range(3):
        await stream.publish(f"s.{number}", b"12345")
    await client.close()


def asked(server: servers.Server, path: str, accept: str = "*/*") -> tuple[str, bytes]:
    """Content type and body."""
    url = f"http://127.0.0.1:{server.ports['http_port']}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as answer:
        return answer.headers["Content-Type"], bytes(answer.read())


def test_metrics_are_packed_for_who_takes_that_and_reports_never_are(server: servers.Server) -> None:
    """As Prometheus asks for it; the text is the same, but for what moves."""
    url = f"http://127.0.0.1:{server.ports['http_port']}"
    found = {}
    for path, encodings in (("/metrics", "gzip"), ("/metrics", "gzip;q=0, br"), ("/varz", "gzip")):
        request = urllib.request.Request(url + path, headers={"Accept-Encoding": encodings})
        with urllib.request.urlopen(request, timeout=10) as answer:
            found[path, encodings] = answer.headers["Content-Encoding"], answer.read()
    coding, packed = found["/metrics", "gzip"]
    assert (coding, None, None) == (
        "gzip",
        found["/metrics", "gzip;q=0, br"][0],
        found["/varz", "gzip"][0],
    )
    text, plain = gzip.decompress(packed).decode(), found["/metrics", "gzip;q=0, br"][1].decode()
    names = [[line.partition(" ")[0] for line in one.splitlines() if not line.startswith("#")] for one in (text, plain)]
    assert names[0] == names[1]
    assert len(packed) < len(plain) / 4
    older(text)


def page(server: servers.Server, path: str) -> bytes:
    return asked(server, path)[1]


def samples(server: servers.Server) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every sample by its name; the parser refuses what is no OpenMetrics."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    body = asked(server, "/metrics", OPENMETRICS)[1].decode()
    for family in text_string_to_metric_families(body):  # type: ignore[no-untyped-call]
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def test_numbers_are_those_of_the_reports(server: servers.Server) -> None:
    """Server, stream and consumer, with the labels that tell them apart."""
    found, varz = samples(server), json.loads(page(server, "/varz"))
    ((labels, value),) = found["gnatsd_varz_max_payload"]
    assert (labels, value) == ({"server_id": "box"}, varz["max_payload"])
    expected: dict[str, Any] = {
        "jetstream_stream_total_messages": 3,
        "jetstream_stream_first_seq": 1,
        "jetstream_stream_last_seq": 3,
        "jetstream_stream_subject_count": 3,
        "jetstream_stream_consumer_count": 1,
        "jetstream_stream_limit_messages": 10,
        "jetstream_stream_limit_bytes": -1,
        "jetstream_consumer_num_pending": 3,
        "jetstream_consumer_ack_floor_stream_seq": 0,
        "jetstream_server_total_messages": 3,
    }
    assert {name: [value for _, value in found[name]] for name in expected} == {
        name: [value] for name, value in expected.items()
    }
    ((labels, _),) = found["jetstream_consumer_num_pending"]
    assert (labels["account"], labels["stream_name"], labels["consumer_name"]) == ("$G", 'S"q', "C")
    assert (labels["server_name"], labels["domain"]) == ("box", "box")


def test_how_long_a_consumer_has_rested_is_told(server: servers.Server) -> None:
    """Since its last delivery and its last acknowledgement, once there was one."""

    async def rested() -> None:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(name="R", subjects=["r.>"])
        await stream.add_consumer("R", durable_name="C", ack_policy="explicit")
        assert "jetstream_consumer_last_delivery_seconds" not in samples(server)
        await stream.publish("r.1", b"")
        began = time.monotonic()
        await (await (await stream.pull_subscribe("r.1", durable="C", stream="R")).fetch(1))[0].ack_sync(timeout=10)
        found = samples(server)
        for name in ("jetstream_consumer_last_delivery_seconds", "jetstream_consumer_last_ack_seconds"):
            ((labels, seconds),) = found[name]
            assert labels["stream_name"] == "R"
            assert 0 <= seconds <= time.monotonic() - began + 1  # the plane reads the clock once a turn
        await stream.delete_stream("R")
        await client.close()

    asyncio.run(rested())


def test_a_hub_that_does_not_answer_is_seen(server: servers.Server) -> None:
    """The link's state is a metric of its own, with the hub's address and no login."""
    address = f"nats-leaf://127.0.0.1:{server.ports['hub_port']}"
    assert samples(server)["leafd_remote_up"] == [({"account": "$G", "url": address}, 0)]


def test_what_the_store_does_is_counted(server: servers.Server) -> None:
    """Counters only grow, each acknowledged message was synced, and of each sync it is told how long it took."""
    before = samples(server)["leafd_store_journal_syncs_total"][0][1]
    asyncio.run(published(server))
    found = samples(server)
    after = found["leafd_store_journal_syncs_total"][0][1]
    assert after > before >= 3
    assert found["leafd_store_sync_seconds_count"] == [({}, after)]
    assert found["leafd_store_sync_seconds_bucket"][-1] == ({"le": "+Inf"}, after)
    assert found["leafd_store_sync_seconds_sum"][0][1] > 0


async def published(server: servers.Server) -> None:
    client = await nats.connect(server.url)
    await client.jetstream().publish("s.3", b"")
    await client.close()


def test_commits_of_the_store_are_timed(server: servers.Server) -> None:
    """A checkpoint follows within some seconds, and is counted with the time that it took."""
    eventually(lambda: samples(server)["leafd_store_commit_seconds_count"][0][1] > 0)
    assert samples(server)["leafd_store_commit_seconds_sum"][0][1] > 0


def test_who_asks_for_openmetrics_gets_it_and_others_the_older_text(server: servers.Server) -> None:
    """Scrapers say what they read, and choose their parser by the content type."""
    kind, body = asked(server, "/metrics", f"{OPENMETRICS},text/plain;version=0.0.4;q=0.5")
    assert (kind, body.endswith(b"# EOF\n")) == ("application/openmetrics-text; version=1.0.0; charset=utf-8", True)
    kind, body = asked(server, "/metrics")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    families = {one.name: one for one in older(body.decode())}
    assert families["leafd_store_sync_seconds"].type == "histogram"
    (one,) = families["leafd_store_journal_syncs"].samples
    assert (one.name, families["leafd_store_journal_syncs"].type) == ("leafd_store_journal_syncs_total", "counter")
