"""Leaf links between leafd and the reference, in every line-up: domains, mirrors and sources over breaks.

The line-up of two reference servers proves the tests. It, and mixed ones, may wait long: nats-server takes up a source
or mirror again 40 s after some outages. What leafd promises of its own speed is measured by tests/bench.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop.clients import connected
from tests.rig.official import must

HUB = """
listen: "127.0.0.1:{port}"
server_name: "hub"
jetstream { store_dir: "{store}", domain: hub, max_memory_store: 64MB, max_file_store: 1GB }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: "leaf"
jetstream { store_dir: "{store}", domain: edge, max_memory_store: 64MB, max_file_store: 1GB }
leafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}" } ], reconnect: 1 }
"""
CATCH_UP_SECONDS_MAX = 90.0


@dataclass
class Pair:
    """A hub and a leaf that dials it."""

    hub: servers.Server
    leaf: servers.Server


LINE_UPS = [(hub, leaf) for hub in servers.KINDS for leaf in servers.KINDS]


@pytest.fixture(params=LINE_UPS, ids=lambda kinds: f"{kinds[0]}-{kinds[1]}")
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    hub_kind, leaf_kind = request.param
    with contextlib.ExitStack() as stack:
        made = []
        for name in ("hub", "leaf"):
            (tmp_path / name).mkdir()
        made.append(servers.make(hub_kind, HUB, tmp_path / "hub"))
        made.append(servers.make(leaf_kind, LEAF, tmp_path / "leaf", hub_port=made[0].ports["leaf_port"]))
        for server in made:
            server.start()
            stack.callback(server.stop)
        pair = Pair(*made)
        asyncio.run(until_linked(pair))
        yield pair


async def until_linked(pair: Pair) -> None:
    """Returns when a request from the hub reaches the leaf's domain."""
    async with asyncio.timeout(30), connected(pair.hub) as client:
        while True:
            with contextlib.suppress(nats.errors.NoRespondersError, nats.errors.TimeoutError):
                await must(client, "$JS.edge.API.INFO", seconds=1)
                return
            await asyncio.sleep(0.1)


async def publish(server: servers.Server, subject: str, first: int, last: int) -> None:
    """Publishes numbers, each acknowledged by the server's own stream."""
    async with connected(server) as client:
        js = client.jetstream()
        for number in range(first, last + 1):
            await js.publish(subject, str(number).encode(), timeout=5)


async def state_of(client: Client, stream: str) -> dict[str, int]:
    state = (await must(client, f"$JS.API.STREAM.INFO.{stream}"))["state"]
    assert isinstance(state, dict)
    return state


async def contents(client: Client, stream: str) -> list[int]:
    """The numbers in a stream, by its sequences, each message asked for on its own."""
    state = await state_of(client, stream)
    numbers = []
    for sequence in range(state["first_seq"], state["last_seq"] + 1):
        got = await client.request(f"$JS.API.DIRECT.GET.{stream}", b'{"seq":%d}' % sequence, timeout=5)
        if (got.headers or {}).get("Status") != "404":  # a mirror with a filter has gaps
            numbers.append(int(got.data))
    return numbers


async def until_holds(server: servers.Server, stream: str, count: int) -> list[int]:
    """Waits until a stream has that many messages, and a little longer for any that should not come."""
    held = 0
    async with connected(server) as client:
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while (held := (await state_of(client, stream))["messages"]) < count:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{stream} holds {held} of {count} messages") from None
        await asyncio.sleep(0.5)
        return await contents(client, stream)


async def make(server: servers.Server, **config: object) -> None:
    async with connected(server) as client:
        await must(client, f"$JS.API.STREAM.CREATE.{config['name']}", {"allow_direct": True, **config})


def test_messages_cross_the_link_both_ways(pair: Pair) -> None:
    """A subscription on one side hears a publisher on the other, requests and headers included."""

    async def run() -> None:
        async with connected(pair.hub) as hub, connected(pair.leaf) as leaf:
            for here, there in ((hub, leaf), (leaf, hub)):

                async def answer(message: Msg, client: Client = here) -> None:
                    await client.publish(message.reply, message.data.upper(), headers=message.headers)

                subscription = await here.subscribe("echo.*", cb=answer)
                await here.flush()
                async with asyncio.timeout(10):
                    while True:
                        try:
                            reply = await there.request("echo.x", b"abc", timeout=2, headers={"K": "v"})
                            break
                        except nats.errors.NoRespondersError:
                            await asyncio.sleep(0.05)  # the interest is on its way
                assert (b"ABC", {"K": "v"}) == (reply.data, reply.headers)
                await subscription.unsubscribe()
                await here.flush()

    asyncio.run(run())


def test_queue_group_spans_the_link(pair: Pair) -> None:
    """A group with members on both sides handles each message once."""

    async def run() -> None:
        counts = {"hub": 0, "leaf": 0}
        async with connected(pair.hub) as hub, connected(pair.leaf) as leaf:
            for name, client in (("hub", hub), ("leaf", leaf)):

                async def take(message: Msg, name: str = name) -> None:
                    counts[name] += 1

                await client.subscribe("work", queue="workers", cb=take)
                await client.flush()
            await asyncio.sleep(0.3)
            for _ in range(100):
                await hub.publish("work", b"")
                await leaf.publish("work", b"")
            await hub.flush()
            await leaf.flush()
            async with asyncio.timeout(5):
                while sum(counts.values()) < 200:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
        assert 200 == sum(counts.values())

    asyncio.run(run())


def test_each_side_keeps_its_own_jetstream(pair: Pair) -> None:
    """$JS.API is always the local domain; $JS.<domain>.API reaches that domain from both sides."""

    async def run() -> None:
        await make(pair.hub, name="SAME", subjects=["hub.only"])
        await make(pair.leaf, name="SAME", subjects=["leaf.only"])
        async with connected(pair.hub) as hub, connected(pair.leaf) as leaf:
            for client, prefix, expected in (
                (hub, "$JS.API", ["hub.only"]),
                (leaf, "$JS.API", ["leaf.only"]),
                (hub, "$JS.edge.API", ["leaf.only"]),
                (leaf, "$JS.hub.API", ["hub.only"]),
                (hub, "$JS.hub.API", ["hub.only"]),
                (leaf, "$JS.edge.API", ["leaf.only"]),
            ):
                config = (await must(client, f"{prefix}.STREAM.INFO.SAME"))["config"]
                assert isinstance(config, dict)
                assert expected == config["subjects"]
            with pytest.raises(nats.errors.NoRespondersError):
                await hub.request("$JS.nowhere.API.INFO", b"", timeout=5)

    asyncio.run(run())


SOURCE = {"name": "T", "external": {"api": "$JS.edge.API", "deliver": "deliver.t"}}
MIRROR = {"name": "C", "external": {"api": "$JS.hub.API", "deliver": "deliver.c"}}


def test_a_watcher_at_the_leaf_is_told_the_keys_of_a_bucket_of_the_hub(pair: Pair) -> None:
    async def play() -> None:
        async with connected(pair.hub) as above, connected(pair.leaf) as below:
            bucket = await above.jetstream().create_key_value(bucket="B", history=1)
            await bucket.put("one", b"1")
            watcher = await (await below.jetstream(domain="hub").key_value("B")).watchall()
            await bucket.put("two", b"2")
            keys: list[str] = []
            while len(keys) < 2:
                entry = await watcher.updates(timeout=5)  # type: ignore[no-untyped-call]
                keys += [entry.key] if entry is not None else []
            assert keys == ["one", "two"]
            await watcher.stop()  # type: ignore[no-untyped-call]

    asyncio.run(play())


def test_source_collects_once_and_in_order_over_a_killed_leaf(pair: Pair) -> None:
    """The hub sources the leaf's telemetry; a leaf that is killed and comes back loses and doubles nothing."""

    async def before() -> None:
        await make(pair.leaf, name="T", subjects=["t"])
        await make(pair.hub, name="ALL", sources=[SOURCE])
        await publish(pair.leaf, "t", 1, 50)
        assert list(range(1, 51)) == await until_holds(pair.hub, "ALL", 50)

    async def after() -> None:
        await publish(pair.leaf, "t", 51, 100)
        assert list(range(1, 101)) == await until_holds(pair.hub, "ALL", 100)

    asyncio.run(before())
    pair.leaf.kill()
    pair.leaf.start()
    asyncio.run(after())


def test_source_collects_what_was_stored_while_the_hub_was_dead(pair: Pair) -> None:
    """The leaf takes messages while the hub is gone; when it is back it gets each of them once and in order."""

    async def before() -> None:
        await make(pair.leaf, name="T", subjects=["t"])
        await make(pair.hub, name="ALL", sources=[SOURCE])
        await publish(pair.leaf, "t", 1, 50)
        await until_holds(pair.hub, "ALL", 50)

    async def meanwhile() -> None:
        await publish(pair.leaf, "t", 51, 150)

    async def after() -> None:
        assert list(range(1, 151)) == await until_holds(pair.hub, "ALL", 150)

    asyncio.run(before())
    pair.hub.kill()
    asyncio.run(meanwhile())
    pair.hub.start()
    asyncio.run(after())


def test_mirror_brings_commands_down_over_a_killed_hub(pair: Pair) -> None:
    """The leaf mirrors the hub's commands with their sequences; after the hub was killed it goes on where it was."""

    async def before() -> None:
        await make(pair.hub, name="C", subjects=["c"])
        await make(pair.leaf, name="M", mirror=MIRROR)
        await publish(pair.hub, "c", 1, 50)
        assert list(range(1, 51)) == await until_holds(pair.leaf, "M", 50)

    async def after() -> None:
        await publish(pair.hub, "c", 51, 100)
        assert list(range(1, 101)) == await until_holds(pair.leaf, "M", 100)

    asyncio.run(before())
    pair.hub.kill()
    pair.hub.start()
    asyncio.run(after())


def test_mirror_catches_up_after_the_leaf_was_away(pair: Pair) -> None:
    """Commands that were given while the leaf was dead reach it when it is back, each once."""

    async def before() -> None:
        await make(pair.hub, name="C", subjects=["c"])
        await make(pair.leaf, name="M", mirror=MIRROR)
        await publish(pair.hub, "c", 1, 20)
        await until_holds(pair.leaf, "M", 20)

    async def meanwhile() -> None:
        await publish(pair.hub, "c", 21, 120)

    async def after() -> None:
        assert list(range(1, 121)) == await until_holds(pair.leaf, "M", 120)

    asyncio.run(before())
    pair.leaf.kill()
    asyncio.run(meanwhile())
    pair.leaf.start()
    asyncio.run(after())


def test_source_names_where_a_message_came_from(pair: Pair) -> None:
    """A sourced message carries stream, sequence, filter and subject of its origin in Nats-Stream-Source."""

    async def run() -> None:
        await make(pair.leaf, name="T", subjects=["t.>"])
        await make(pair.hub, name="ALL", sources=[{**SOURCE, "filter_subject": "t.a"}])
        await publish(pair.leaf, "t.b", 1, 1)
        await publish(pair.leaf, "t.a", 2, 2)
        assert [2] == await until_holds(pair.hub, "ALL", 1)
        async with connected(pair.hub) as client:
            message = await client.jetstream().get_msg("ALL", 1)
        assert "t.a" == message.subject
        assert message.headers is not None
        # Stream and hash of the API prefix, sequence there, filter, destination, subject there.
        name, sequence, filtered, _, subject = message.headers["Nats-Stream-Source"].split(" ")[:5]
        assert ("T", "2", "t.a", "t.a") == (name.split(":")[0], sequence, filtered, subject)

    asyncio.run(run())


def test_source_renames_what_it_takes_over_a_killed_hub(pair: Pair) -> None:
    """A source's transforms choose and rename over the link; a hub that is killed goes on with them, each message
    once, and what it stores renamed is published again to the leaf's clients."""
    transforms = [{"src": "t.*.up", "dest": "up.{{wildcard(1)}}"}, {"src": "t.*.down", "dest": ""}]

    async def subjects() -> dict[str, int]:
        async with connected(pair.hub) as client:
            answer = await must(client, "$JS.API.STREAM.INFO.ALL", {"subjects_filter": ">"})
        state = answer["state"]
        assert isinstance(state, dict)
        return dict(state["subjects"])

    async def before() -> None:
        await make(pair.leaf, name="T", subjects=["t.>"])
        source = {**SOURCE, "subject_transforms": transforms}
        await make(pair.hub, name="ALL", sources=[source], republish={"src": "up.*", "dest": "again.$1"})
        await publish(pair.leaf, "t.x.up", 1, 5)
        await publish(pair.leaf, "t.x.no", 6, 7)
        await publish(pair.leaf, "t.y.down", 8, 10)
        assert [1, 2, 3, 4, 5, 8, 9, 10] == await until_holds(pair.hub, "ALL", 8)
        assert {"up.x": 5, "t.y.down": 3} == await subjects()

    async def after() -> None:
        async with connected(pair.leaf) as client:
            heard = await client.subscribe("again.*")
            await client.flush()
            await publish(pair.leaf, "t.z.up", 11, 13)
            assert [1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13] == await until_holds(pair.hub, "ALL", 11)
            assert {"up.x": 5, "t.y.down": 3, "up.z": 3} == await subjects()
            again = [await heard.next_msg(timeout=10) for _ in range(3)]
        assert ["again.z"] * 3 == [message.subject for message in again]
        assert [11, 12, 13] == [int(message.data) for message in again]
        assert ["up.z"] * 3 == [(message.headers or {})["Nats-Subject"] for message in again]

    asyncio.run(before())
    pair.hub.kill()
    pair.hub.start()
    asyncio.run(after())


def test_mirror_renames_what_it_takes(pair: Pair) -> None:
    """A mirror's transforms rename over the link; sequences stay the origin's."""

    async def run() -> None:
        await make(pair.hub, name="C", subjects=["c.>"])
        mirror = {**MIRROR, "subject_transforms": [{"src": "c.*", "dest": "m.{{partition(4,1)}}.$1"}]}
        await make(pair.leaf, name="M", mirror=mirror)
        await publish(pair.hub, "c.a", 1, 2)
        await publish(pair.hub, "c.no.no", 3, 3)
        await publish(pair.hub, "c.b", 4, 4)
        await until_holds(pair.leaf, "M", 3)
        async with connected(pair.leaf) as client:
            held = [await client.jetstream().get_msg("M", sequence) for sequence in (1, 2, 4)]
        assert ["m.0.a", "m.0.a", "m.1.b"] == [message.subject for message in held]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["sources", "mirror"])
def test_source_acknowledges_to_a_durable_consumer(pair: Pair, how: str) -> None:
    """A workqueue is handed over by a durable consumer of its own: what the hub has stored leaves the leaf, once and in
    order, also when the hub was killed in between."""
    consumer = {
        "durable_name": "hub",
        "deliver_subject": "deliver.t.hub",
        "ack_policy": "flow_control",
        "max_ack_pending": 1000,
        "flow_control": True,
        "idle_heartbeat": 1_000_000_000,
    }
    source = {**SOURCE, "consumer": {"name": "hub", "deliver_subject": "deliver.t.hub"}}

    async def until_empty() -> None:
        async with connected(pair.leaf) as client, asyncio.timeout(CATCH_UP_SECONDS_MAX):
            while (await state_of(client, "T"))["messages"]:
                await asyncio.sleep(0.1)

    async def before() -> None:
        await make(pair.leaf, name="T", subjects=["t"], retention="workqueue")
        async with connected(pair.leaf) as client:
            await must(client, "$JS.API.CONSUMER.CREATE.T.hub", {"stream_name": "T", "config": consumer})
        origin = {"sources": [source]} if how == "sources" else {"mirror": source}
        await make(pair.hub, name="ALL", **origin)
        await publish(pair.leaf, "t", 1, 50)
        assert list(range(1, 51)) == await until_holds(pair.hub, "ALL", 50)
        await until_empty()

    async def after() -> None:
        await publish(pair.leaf, "t", 51, 60)
        assert list(range(1, 61)) == await until_holds(pair.hub, "ALL", 60)
        await until_empty()

    asyncio.run(before())
    pair.hub.kill()
    pair.hub.start()
    asyncio.run(after())


def test_users_are_told_by_their_own_server_who_they_are(pair: Pair) -> None:
    """A leaf does not answer for its hub's users. (Of two nats-servers the leaf's answer may come first.)"""
    possible = {"hub"} if servers.LEAFD in (pair.hub.kind, pair.leaf.kind) else {"hub", "leaf"}

    async def check() -> None:
        await until_linked(pair)
        async with connected(pair.hub) as client:
            for _ in range(20):
                found = (await must(client, "$SYS.REQ.USER.INFO"))["server"]
                assert isinstance(found, dict)
                assert found["name"] in possible

    asyncio.run(check())
