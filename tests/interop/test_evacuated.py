"""Streams leave a server that stays a member: one of them, or all, also those that it has alone, as at nats-servers.

Three nats-servers walk the same way, which proves the test. Not here: another server in the place of one that is gone
(test_scaled_streams.py), which servers are chosen (tests/unit/cluster/test_sharing.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import CONFIG as CONFIG_OF_SERVERS, L, R, leader_of, led
from tests.interop.test_replicated_streams import same_at_both
from tests.interop.test_scaled_streams import CONFIG, kept_by, said, settled
from tests.rig.official import one_each, stored
from tests.rig.waiting import until

MESSAGES = 6
AWAY_S = 6.0
"""A server that was killed so long ago is away."""
MOVING, RECONFIGURED = 10124, 10226
"""A change of a nats-server's stream waits until the one before is carried out."""
NO_CHANGE = 10129
"""None is under way."""
CONSUMER = {"durable_name": "d", "ack_policy": "explicit", "ack_wait": 10**9}


async def published(client: Client, count: int) -> None:
    """Each is acknowledged."""
    for number in range(count):
        await stored(client, "s.a", message_id=f"{count} {number}")


async def leader_of_stream(client: Client) -> str:
    info = await said(client, "STREAM.INFO.S")
    leader: str = info["cluster"].get("leader", "")
    return leader


def told(answer: dict[str, Any]) -> object:
    """Whether it was done, or why not."""
    return answer.get("error", {}).get("err_code", answer.get("success"))


async def evacuated(made: list[servers.Server]) -> list[object]:
    """One stream leaves its server, alone and with replicas."""
    found: list[object] = []
    async with one_each(made) as (first, second, third):
        await said(first, "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
        await said(second, "CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": CONSUMER})
        await published(third, MESSAGES - 1)
        pulled = await (await first.jetstream().pull_subscribe_bind("d", "S")).fetch(3)
        await pulled[0].ack_sync()
        for wrong in ({}, {"peer": ""}, {"peer": "nobody"}):
            found.append(told(await said(first, "STREAM.PEER.EVACUATE.S", wrong)))
            found.append(told(await said(second, "CONSUMER.PEER.EVACUATE.S.d", wrong)))
        found.append(told(await said(third, "STREAM.PEER.EVACUATE.NONE", {"peer": "s0"})))
        found.append(told(await said(third, "STREAM.CANCEL_MOVE.S")))
        before = await leader_of_stream(first)
        found.append(told(await said(second, "STREAM.PEER.EVACUATE.S", {"peer": before})))
        (after,) = await settled(third, made, 1, MESSAGES - 1, but=before)
        await published(second, 1)
        rest = set[int]()

        async def delivered() -> bool:
            with contextlib.suppress(nats.errors.Error):
                pull = await third.jetstream().pull_subscribe_bind("d", "S")
                rest.update(message.metadata.sequence.stream for message in await pull.fetch(10, timeout=2))
            return len(rest) == MESSAGES - 1

        if made[0].kind == L:  # a nats-server's consumer has no leader for minutes at times
            await until(delivered, lambda: f"not delivered: {rest}")
            assert rest == set(range(2, MESSAGES + 1))  # the first one was acknowledged
        await said(first, "STREAM.UPDATE.S", CONFIG | {"num_replicas": 2})
        two = await settled(third, made, 2, MESSAGES)
        assert after in two
        ids = {row["name"]: row["peer"] for row in (await said(first, "STREAM.INFO.S"))["cluster"]["replicas"]}
        found.append(told(await said(first, "STREAM.PEER.EVACUATE.S", {"peer": ids[two[1]]})))  # by its id
        await settled(third, made, 2, MESSAGES, but=two[1])
    return found


def test_a_stream_leaves_a_server_as_at_nats_servers(tmp_path: Path) -> None:
    """With its messages and its consumers' positions; one of one server, too."""
    same_at_both(evacuated, tmp_path)


@pytest.mark.parametrize("kind", [R, L])
def test_all_streams_leave_a_server_which_stays_a_member(kind: str, tmp_path: Path) -> None:
    """By an order of the system account. Where nobody else can take a replica, fewer servers keep the stream: it is not
    given back until somebody asks for another number of them."""

    async def walk(made: list[servers.Server]) -> None:
        async with one_each(made) as clients, one_each(made[:1], "sys") as (system,):
            await said(clients[0], "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
            await published(clients[1], MESSAGES)
            goes = await leader_of_stream(clients[2])
            for name, code in (("s9", 10044), (goes, None)):
                answer = await said(system, "SERVER.EVACUATE", {"peer": name})
                assert answer["type"] == "io.nats.jetstream.api.v1.meta_server_evacuate_response"
                assert answer.get("error", {}).get("err_code") == code
            await settled(clients[0], made, 1, MESSAGES, but=goes)
            assert goes not in kept_by(made)
            await said(clients[0], "STREAM.UPDATE.S", CONFIG | {"num_replicas": 3})
            names = await settled(clients[1], made, 3, MESSAGES)
            assert goes in names  # it is a member as before
            await said(system, "SERVER.EVACUATE", {"peer": goes})
            await settled(clients[1], made, 2, MESSAGES, but=goes)
            if kind == L:
                await until(lambda: any(f"since {goes} was evacuated" in one.log for one in made), "nobody says so")
            limited = CONFIG | {"num_replicas": 3, "max_msgs": 1000}
            assert (await said(clients[2], "STREAM.UPDATE.S", limited))["config"]["num_replicas"] == 3
            await asyncio.sleep(3)  # longer than a server takes to look for more replicas
            await settled(clients[0], made, 2, MESSAGES, but=goes)
            for count in (2, 3):
                await said(clients[0], "STREAM.UPDATE.S", limited | {"num_replicas": count})
                await settled(clients[1], made, count, MESSAGES)

    with led(kind, tmp_path) as made:
        asyncio.run(walk(made))


async def moving(made: list[servers.Server], victim: str) -> None:
    """A stream of one server moves; that one, or the leader of all servers, is killed at once and comes back."""
    async with one_each(made) as clients:
        await said(clients[0], "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
        await published(clients[1], MESSAGES)
        before = await leader_of_stream(clients[2])
        assert told(await said(clients[0], "STREAM.PEER.EVACUATE.S", {"peer": before})) is True
    killed = made[int((before if victim == "itself" else leader_of(made))[1])]
    killed.kill()
    await asyncio.sleep(1)
    killed.start()
    async with one_each([killed]) as (client,):
        await settled(client, made, 1, MESSAGES, but=before)
        await published(client, 1)


@pytest.mark.parametrize("victim", ["itself", "leader"])
def test_a_stream_that_moves_arrives_whoever_dies_on_the_way(tmp_path: Path, victim: str) -> None:
    """What it had is there: it is kept by both until the other server has all of it."""
    with led(L, tmp_path) as made:
        asyncio.run(moving(made, victim))


TAGGED = CONFIG_OF_SERVERS.replace("server_name:", 'server_tags: [ "at:{name}" ]\nserver_name:')


async def placed(made: list[servers.Server]) -> list[object]:
    """A stream of one server and one of two are asked to be elsewhere."""
    found: list[object] = []

    async def edit(client: Client, replicas: int, **placement: object) -> None:
        answer: dict[str, Any] = {}

        async def heard() -> bool:
            answer.clear()
            config = CONFIG | {"num_replicas": replicas, "placement": placement}
            answer.update(await said(client, "STREAM.UPDATE.S", config))
            return answer.get("error", {}).get("err_code") not in (MOVING, RECONFIGURED)

        await until(heard, "the change before is not carried out")
        found.append(answer["error"]["description"] if "error" in answer else answer["config"]["placement"])

    async def arrived(client: Client, *names: str) -> None:
        async def there() -> bool:
            return sorted(await settled(client, made, len(names), MESSAGES)) == sorted(names)

        await until(there, f"it is not at {names}")

    async with one_each(made) as (first, second, third):
        await said(first, "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
        await said(second, "CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": CONSUMER})
        await published(third, MESSAGES)
        await edit(first, 1, tags=["nope"])
        await edit(second, 1, cluster="NOPE")
        await edit(second, 2, tags=["at:s2"])  # both at once
        for name in ("s2", "s1"):
            await edit(third, 1, tags=[f"at:{name}"])
            await arrived(first, name)
        await edit(third, 1, cluster="C")  # where it is
        await edit(first, 2, cluster="C")
        await settled(first, made, 2, MESSAGES)
        for name in ("s0", "s1", "s2"):
            await edit(second, 2, tags=[f"!at:{name}"])
            await arrived(third, *({"s0", "s1", "s2"} - {name}))
        leader = await leader_of_stream(first)
        for placement in ({"tags": ["nope"]}, {"cluster": "NOPE"}, {"tags": [f"at:{leader}"]}):
            answer = await said(first, "STREAM.LEADER.STEPDOWN.S", {"placement": placement})
            found.append(answer["error"]["description"])
        other = ({"s0", "s1"} - {leader}).pop()
        found.append(told(await said(first, "STREAM.LEADER.STEPDOWN.S", {"placement": {"tags": [f"at:{other}"]}})))

        async def led_by_other() -> bool:
            return await leader_of_stream(first) == other

        await until(led_by_other, f"{other} does not lead")
    return found


def test_a_stream_goes_where_its_placement_says_as_at_nats_servers(tmp_path: Path) -> None:
    """When that is changed, with its messages; or the change is refused. A lead goes to a server with the tags."""
    same_at_both(placed, tmp_path, TAGGED)


async def updated(client: Client, body: dict[str, Any], order: str = "STREAM.UPDATE.S") -> dict[str, Any]:
    """The answer to a change, once the one before is carried out."""
    answer: dict[str, Any] = {}

    async def heard() -> bool:
        answer.clear()
        answer.update(await said(client, order, body))
        return answer.get("error", {}).get("err_code") not in (MOVING, RECONFIGURED)

    await until(heard, "the change before is not carried out")
    return answer


def without_stamps(config: dict[str, Any]) -> dict[str, Any]:
    """Where a stream asks to be, and on how many servers."""
    return {name: config[name] for name in ("num_replicas", "placement") if name in config}


async def called_off(made: list[servers.Server]) -> list[object]:
    """A stream begins to move to a server that stands still, and goes back; by itself, then by the system account."""
    found: list[object] = []
    async with one_each(made) as clients, one_each(made, "sys") as systems:
        keeps = await asyncio.to_thread(leader_of, made)  # it decides on all that follows
        client, system = clients[int(keeps[1])], systems[int(keeps[1])]
        frozen, third = sorted({"s0", "s1", "s2"} - {keeps})
        here = CONFIG | {"num_replicas": 1, "placement": {"tags": [f"at:{keeps}"]}}
        two = CONFIG | {"num_replicas": 2, "placement": {"tags": [f"!at:{frozen}"]}}
        there: dict[int, dict[str, Any]] = {
            1: {"placement": {"tags": [f"at:{frozen}"]}},
            2: {"num_replicas": 3, "placement": {}},
        }
        await said(client, "STREAM.CREATE.S", here)
        await published(client, MESSAGES)
        for order in ("STREAM.CANCEL_MOVE.S", "STREAM.CANCEL_MOVE.NONE"):
            found.append(told(await said(client, order)))
        for order in ("A.S", "A.NONE", "NOBODY.S"):
            found.append(told(await said(system, f"ACCOUNT.STREAM.CANCEL_MOVE.{order}")))
        for config in (here, two):
            count = int(str(config["num_replicas"]))
            if count == 2:
                assert "error" not in await updated(client, CONFIG | {"num_replicas": 2})
                await updated(client, config)
                await settled(client, made, 2, MESSAGES, but=frozen)
            process = made[int(frozen[1])].process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            answer = await updated(client, config | there[count])
            found.append(answer["config"]["num_replicas"])
            if count == 1:
                back = await said(client, "STREAM.CANCEL_MOVE.S")
                found.append(back["type"])
            elif made[0].kind == L:
                back = await said(system, "ACCOUNT.STREAM.CANCEL_MOVE.A.S")
                assert back["type"] in found  # as of the account's own
            else:  # a nats-server answers in the stream's account, where nobody has asked
                await system.publish("$JS.API.ACCOUNT.STREAM.CANCEL_MOVE.A.S")
                back = {"config": config}
            assert without_stamps(back["config"]) == without_stamps(config)

            async def asks_as_before(wanted: dict[str, Any] = config) -> bool:
                info = await said(client, "STREAM.INFO.S")
                return without_stamps(info["config"]) == without_stamps(wanted)

            await until(asks_as_before, "the change is not taken back")
            process.send_signal(signal.SIGCONT)
            names = await settled(client, made, count, MESSAGES, but=frozen)
            assert set(names) == {keeps, third} if count == 2 else names == [keeps]
            assert await asks_as_before()

            async def is_over() -> bool:
                """Calling it off once more changes nothing."""
                return told(await said(client, "STREAM.CANCEL_MOVE.S")) == NO_CHANGE

            if made[0].kind == L:  # a nats-server may say for a minute that it has called it off
                await until(is_over, "the change is still under way")
    return found


def test_a_move_is_called_off_as_at_nats_servers(tmp_path: Path) -> None:
    """Also a change of the number of replicas: those have the stream that had it, and it asks for what it asked for."""
    same_at_both(called_off, tmp_path, TAGGED)


async def ordered(made: list[servers.Server]) -> list[object]:
    """The system account moves a stream, and so does the account itself."""
    found: list[object] = []
    async with one_each(made) as (first, second, third), one_each(made[:1], "sys") as (system,):
        await said(first, "STREAM.CREATE.S", CONFIG | {"num_replicas": 1})
        await published(first, MESSAGES)
        keeps = await leader_of_stream(second)
        other = sorted({"s0", "s1", "s2"} - {keeps})
        wrong: tuple[tuple[str, object], ...] = (
            ("A.S", {"server": "s9"}),
            ("A.S", {"server": keeps, "cluster": "D"}),
            ("A.S", {"server": other[0]}),
            ("A.S", {"tags": ["nope"]}),
            ("A.NONE", {}),
            ("NOBODY.S", {}),
        )
        for names, body in wrong:
            answer = await said(system, f"ACCOUNT.STREAM.MOVE.{names}", body)
            found += [answer["type"], told(answer)]
        answer = await said(system, "ACCOUNT.STREAM.MOVE.A.S", {"server": keeps, "tags": [f"at:{other[1]}"]})
        found += [answer["type"], answer["config"]["num_replicas"], answer["config"].get("placement")]
        assert await settled(third, made, 1, MESSAGES, but=keeps) == [other[1]]
        await updated(first, CONFIG | {"num_replicas": 2})
        two = await settled(second, made, 2, MESSAGES)
        answer = await updated(first, {"server": two[0]}, "ACCOUNT.STREAM.MOVE.A.S")  # by the account itself
        assert "config" in answer, answer
        found.append(answer["config"]["num_replicas"])
        await settled(third, made, 2, MESSAGES, but=two[0])
    return found


def test_an_order_moves_a_stream_as_at_nats_servers(tmp_path: Path) -> None:
    """Off one server, to another one that fits; or it is refused."""
    same_at_both(ordered, tmp_path, TAGGED)


def test_what_a_cluster_of_leafd_does_not_do(tmp_path: Path) -> None:
    """A consumer does not leave a server without its stream."""

    async def walk(made: list[servers.Server]) -> object:
        async with one_each(made) as clients:
            await said(clients[0], "STREAM.CREATE.S", CONFIG | {"num_replicas": 2})
            await said(clients[0], "CONSUMER.DURABLE.CREATE.S.d", {"stream_name": "S", "config": CONSUMER})
            two = await settled(clients[1], made, 2, 0)
            return told(await said(clients[2], "CONSUMER.PEER.EVACUATE.S.d", {"peer": two[1]}))

    with led(L, tmp_path) as made:
        assert asyncio.run(walk(made)) == 10075


async def replaced(made: list[servers.Server], folder: Path) -> None:
    """One of three dies, and is taken out; an empty one of another name comes."""
    dead = made[2]
    async with one_each(made[:2]) as (first, second), one_each(made[:1], "sys") as (system,):
        await said(first, "STREAM.CREATE.S", CONFIG | {"num_replicas": 3})
        await published(second, MESSAGES)
        await settled(first, made, 3, MESSAGES)
        dead.kill()
        await asyncio.sleep(AWAY_S)
        assert (await said(system, "SERVER.REMOVE", {"peer": "s2"})).get("success")

        async def kept(*names: str) -> bool:
            cluster = (await said(first, "STREAM.INFO.S"))["cluster"]
            rows = cluster.get("replicas", ())
            there = {cluster.get("leader", ""), *(row["name"] for row in rows)}
            return there == set(names) and all(row["current"] for row in rows)

        await until(lambda: kept("s0", "s1"), "two do not keep it")
        await published(second, 1)
        place = folder / "s3"
        place.mkdir()
        text = CONFIG_OF_SERVERS.replace("{first}", str(made[0].ports["route_port"]))
        new = servers.make(L, text, place, name="s3", meta="meta_size: 3")
        try:
            await asyncio.to_thread(new.start)
            await until(lambda: kept("s0", "s1", "s3"), "the new server gets no replica")
            await until(
                lambda: kept_by([new]) == {"s0": MESSAGES + 1}, "the new server has not all"
            )  # (the first here)
        finally:
            new.stop()


def test_an_empty_server_takes_the_place_of_one_that_was_taken_out(tmp_path: Path) -> None:
    """Also when nobody could until it came: two kept the stream meanwhile."""
    with led(L, tmp_path) as made:
        asyncio.run(replaced(made, tmp_path))
