"""The monitoring reports beside nats-server's: what tools find that read all numbers of a report
(prometheus-nats-exporter, nats-top) is there, and means the same. Both servers are given the same configuration and the
same work."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource

from tests import servers
from tests.interop.test_metrics import page
from tests.rig.waiting import eventually

HUB = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub, max_mem: 64M, max_file: 1G,
  limits { max_request_batch: 500, max_ack_pending: 5000, duplicate_window: "1h", default_max_consumers: 50 } }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  A { jetstream: { max_mem: 10M, max_file: 100M }, users: [{user: a, password: a}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
"""
LEAF = """
listen: "127.0.0.1:{{port}}"
server_name: box
leafnodes {{ remotes: [ {{ url: "nats-leaf://a:a@127.0.0.1:{hub}" }} ] }}
"""
PATHS = (
    "/varz", "/connz?auth=1", "/leafz", "/jsz?accounts=1&streams=1&consumers=1&config=1", "/subsz", "/routez",
    "/accstatz?unused=1", "/accountz", "/gatewayz", "/healthz",
)  # fmt: skip
NOT_HERE = {
    "/varz.git_commit",  # of nats-server's own making
    "/varz.jetstream.config.compress_ok",
    "/jsz.config.compress_ok",
}  # fmt: skip
"""Members that leafd leaves out."""
MEANT = (
    "/varz.connections", "/varz.leafnodes", "/varz.slow_consumers", "/varz.jetstream.stats.storage",
    "/varz.jetstream.config.max_storage",
    "/leafz.leafs[].in_msgs", "/leafz.leafs[].out_msgs",
    "/jsz.account_details[A].reserved_storage", "/jsz.account_details[A].storage",
    "/jsz.account_details[A].stream_detail[S].state.messages",
    "/jsz.account_details[A].stream_detail[M].mirror.lag",
    "/jsz.account_details[A].stream_detail[S].consumer_detail[C].num_pending",
    "/accstatz.account_statz[A].received.leafs.msgs", "/accstatz.account_statz[A].slow_consumers",
)  # fmt: skip
"""Numbers that are the same in both after the same work."""


@pytest.fixture(scope="module")
def reports() -> Iterator[dict[str, dict[str, Any]]]:
    """By server: each member's path and its value."""
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            hubs = list(pool.map(lambda kind: stack.enter_context(servers.running(kind, HUB)), servers.KINDS))
        found = {}
        for hub in hubs:
            leaf = stack.enter_context(servers.running(servers.LEAFD, LEAF.format(hub=hub.ports["leaf_port"])))
            sent, got = asyncio.run(work(hub, leaf))
            until_gone(hub)
            found[hub.kind] = {"sent": sent, "got": got} | {
                name: value for path in PATHS for name, value in members(path.partition("?")[0], report(hub, path))
            }
        yield found


def until_gone(hub: servers.Server) -> None:
    """A server notices a moment later that its clients have gone."""
    eventually(lambda: report(hub, "/varz")["connections"] == 0)


def report(hub: servers.Server, path: str) -> Any:
    return json.loads(page(hub, path))


def members(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Each leaf of a report; rows are told apart by their name, or by the kind of a connection."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from members(f"{path}.{name}", one)
    elif isinstance(value, list):
        for one in value:
            key = (one.get("kind") or one.get("name") or one.get("acc")) if isinstance(one, dict) else ""
            # (A leaf's name is the machine's, or one that the server made up.)
            yield from members(f"{path}[{'' if path.startswith('/leafz') else key}]", one)
    else:
        yield path, value


async def work(hub: servers.Server, leaf: servers.Server) -> tuple[int, int]:
    """The same for both, by clients that leave. How many messages the hub's one has sent, and got."""
    early, far = await nats.connect(hub.url, user="a", password="a"), await nats.connect(leaf.url)
    got, heard = await early.subscribe("up"), await far.subscribe("down")
    in_vain = await until_carried(early, far, heard)
    for _ in range(7):
        await far.publish("up", b"12345")
    for _ in range(7):
        await got.next_msg(10)
    stream = early.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.add_consumer("S", ConsumerConfig(durable_name="C"))
    for number in range(5):
        await stream.publish(f"s.{number}", b"12345")
    await stream.add_stream(StreamConfig(name="M", mirror=StreamSource(name="S")))
    deadline = time.monotonic() + 30
    while (await stream.stream_info("M")).state.messages < 5:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await early.close()
    await far.close()
    return early.stats["out_msgs"], early.stats["in_msgs"] - in_vain


async def until_carried(early: Client, far: Client, heard: Any) -> int:
    """One message went down the link, and none before. How often the answer was that nobody is there, which no server
    counts as a message."""
    await far.flush()
    in_vain = 0
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            await early.request("down", b"", timeout=0.2)
        except nats.errors.NoRespondersError:
            in_vain += 1
            await asyncio.sleep(0.05)
            continue
        except nats.errors.TimeoutError:
            pass
        await heard.next_msg(10)
        return in_vain
    raise AssertionError("the link does not carry")


def test_every_member_of_nats_servers_reports_is_there(reports: dict[str, dict[str, Any]]) -> None:
    """But for those that are named, each with its reason."""
    missing = reports[servers.REFERENCE].keys() - reports[servers.LEAFD].keys()
    assert missing == NOT_HERE


def test_numbers_are_numbers(reports: dict[str, dict[str, Any]]) -> None:
    """A tool that makes metrics of them takes what is a number there as one here."""
    ours, theirs = reports[servers.LEAFD], reports[servers.REFERENCE]
    for name in ours.keys() & theirs.keys():
        assert isinstance(ours[name], int | float) == isinstance(theirs[name], int | float), name


@pytest.mark.parametrize("name", MEANT)
def test_numbers_mean_the_same(reports: dict[str, dict[str, Any]], name: str) -> None:
    """After the same work they are equal."""
    assert reports[servers.LEAFD][name] == reports[servers.REFERENCE][name]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_clients_that_left_have_sent_stays_counted(reports: dict[str, dict[str, Any]], kind: str) -> None:
    """Of the server and of its account, apart from what came and went over links."""
    found = reports[kind]
    sent, got = found["sent"], found["got"]
    assert (found["/varz.in_client_msgs"], found["/varz.out_client_msgs"]) == (sent, got)
    assert (found["/varz.in_msgs"], found["/varz.out_msgs"]) == (sent + 7, got + 1)
    account = "/accstatz.account_statz[A]"
    assert (found[f"{account}.received.msgs"], found[f"{account}.sent.msgs"]) == (sent + 7, got + 1)
    assert (found[f"{account}.received.leafs.msgs"], found[f"{account}.sent.leafs.msgs"]) == (7, 1)
