"""Streams that three servers keep: made, published to, and whole when their leader is killed, as at nats-servers.

Three nats-servers walk the same way, which proves the test. Not here: a stream's log (tests/native/test_replicas.c),
its part in a plane (test_plane_replicated.c), the group of all servers (test_meta_group.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.crash.test_copies_lost_tail import lose_the_end
from tests.interop.test_meta_group import CONFIG, L, R, led
from tests.rig import official
from tests.rig.comparison import told_alike
from tests.rig.official import connect, must, one_each
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

MESSAGES = int(os.environ.get("LEAFD_REPLICATED_MESSAGES", "600"))
FLYING = 100
"""Messages whose answers are waited for at a time."""
AGAIN_S = 15.0
"""Publishing goes on so long after a leader's death at the latest: the next one is elected after 3 s, on a machine that
is not busy. (nats-server's takes up to 8 s.)"""
SETTLES_S = 3.0
"""So long a lead that was handed over has, to be where it was wanted."""
AWAY_S = 4.0
"""Then a server counts as away: it has missed three beats."""
LOSSES = 6
"""Tries: after a checkpoint nothing of the journal's end is a loss."""
Told = TypeVar("Told")


class Publisher:
    """One who publishes numbers, each until it is acknowledged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = itertools.count()
        self.acknowledged: dict[int, int] = {}
        """Sequences, by number."""
        self.last_ack = time.monotonic()
        self.longest_s = 0.0
        """Without any answer."""

    async def publish(self, count: int) -> None:
        """Publishes so many more."""
        upto = len(self.acknowledged) + count
        await asyncio.gather(*(self._some(upto) for _ in range(FLYING)))

    async def _some(self, upto: int) -> None:
        while (number := next(self._numbers)) < upto:
            while number not in self.acknowledged:
                await self._once(number)
        self._numbers = itertools.count(upto)

    async def _once(self, number: int) -> None:
        headers = {"Nats-Msg-Id": str(number)}
        try:
            said = await self._client.request("s.a", str(number).encode(), timeout=1, headers=headers)
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            await asyncio.sleep(0.05)
            return
        ack = json.loads(said.data)
        if "error" in ack:
            await asyncio.sleep(0.05)
            return
        now = time.monotonic()
        self.longest_s, self.last_ack = max(self.longest_s, now - self.last_ack), now
        self.acknowledged[number] = ack["seq"]


async def page_of(client: Client, count: int) -> list[str]:
    """So many messages, as a new consumer delivers them, which is where the stream is led; fewer where that is gone."""
    config = {"ack_policy": "none", "deliver_policy": "all", "inactive_threshold": 60_000_000_000}
    name = (await must(client, "$JS.API.CONSUMER.CREATE.S", {"stream_name": "S", "config": config}))["name"]
    inbox, found = client.new_inbox(), list[str]()
    subscription = await client.subscribe(inbox)
    body = json.dumps({"batch": count, "expires": 20_000_000_000}).encode()
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", body, reply=inbox)
    while len(found) < count and (message := await subscription.next_msg(timeout=30)).data:
        found.append(message.data.decode())
    await subscription.unsubscribe()
    return found


async def stored(client: Client, count: int = MESSAGES) -> list[str]:
    """What the stream's leader has, in order. That a new one listens is not known everywhere at once."""
    found: list[str] = []

    async def all_there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            found[:] = await page_of(client, count)
        return len(found) >= count

    await until(all_there, "the leader has not all of it")
    return found


def state_at(server: servers.Server) -> dict[str, Any]:
    """The stream as that server has it."""
    accounts = report(server, "jsz?accounts=true&streams=true")["account_details"]
    streams = [one for account in accounts for one in account.get("stream_detail", ())]
    found: dict[str, Any] = next((one["state"] for one in streams), {})
    return {name: found.get(name) for name in ("messages", "bytes", "first_seq", "last_seq")}


async def led_by(client: Client, *, but: str = "") -> str:
    """The stream's leader, once another one than that leads."""
    leader = ""

    async def told() -> bool:
        nonlocal leader
        with contextlib.suppress(AssertionError, nats.errors.Error):
            leader = (await must(client, "$JS.API.STREAM.INFO.S"))["cluster"].get("leader", "")
            return leader not in ("", but)
        return False

    await until(told, "nobody leads the stream")
    return leader


def told_of(made: list[servers.Server], info: dict[str, Any]) -> None:
    """raftz and jsz of all servers tell of the stream's group as its info does."""
    cluster = info["cluster"]

    def group(server: servers.Server) -> dict[str, Any]:
        groups = report(server, f"raftz?acc=A&group={cluster['raft_group']}").get("A", {})
        found: dict[str, Any] = groups.get(cluster["raft_group"], {})
        return found

    def row(server: servers.Server) -> dict[str, Any]:
        accounts = report(server, "jsz?acc=A&streams=true")["account_details"]
        found: dict[str, Any] = accounts[0]["stream_detail"][0]["cluster"]
        return found

    def led() -> bool:
        states = [group(server).get("state") for server in made]
        leaders = [name for name, state in zip(("s0", "s1", "s2"), states, strict=True) if state == "LEADER"]
        told = [(row(server)["raft_group"], row(server).get("leader")) for server in made]
        return states.count("FOLLOWER") == 2 and told == [(cluster["raft_group"], one) for one in leaders * 3]

    eventually(led, lambda: [group(server) for server in made])
    for server in made:
        assert len(group(server)["peers"]) == 2
    assert sum(report(server, "jsz?raft=true").get("streams_leader", 0) for server in made) == 1
    rows = [report(server, "jsz?acc=A&streams=true&raft=true")["account_details"][0] for server in made]
    details = [row["stream_detail"][0] for row in rows]
    assert {one["stream_raft_group"] for one in details} == {cluster["raft_group"]}
    assert [one["cluster"]["leader_since"] for one in details if "leader_since" in one["cluster"]] == [
        cluster["leader_since"]
    ]


async def made_by(server: servers.Server, names: set[str], **more: object) -> str:
    """Makes the stream, with more of a configuration; its leader."""
    client = await connect(server)
    config = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "allow_direct": True, **more}
    info: dict[str, Any] = {}

    async def there() -> bool:  # a nats-server whose group has just found its leader may not answer
        with contextlib.suppress(AssertionError, nats.errors.Error):
            info.update(await must(client, "$JS.API.STREAM.CREATE.S", config))
        return bool(info)

    await until(there, "the stream is not made")
    assert {info["cluster"]["leader"], *(row["name"] for row in info["cluster"]["replicas"])} == names
    await client.close()
    leader: str = info["cluster"]["leader"]
    return leader


async def walk(made: list[servers.Server]) -> Publisher:
    """The stream's leader is killed in the middle, comes back, and each of the three leads once at the end."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    first = await made_by(made[0], set(names))
    async with one_each(made[:1]) as (asker,):
        told_of(made, await must(asker, "$JS.API.STREAM.INFO.S"))
    client = await connect(next(server for name, server in names.items() if name != first))
    publisher = Publisher(client)
    await publisher.publish(MESSAGES // 2)
    publisher.longest_s, publisher.last_ack = 0.0, time.monotonic()
    names[first].kill()
    await publisher.publish(MESSAGES // 2)
    await led_by(client, but=first)
    names[first].start()
    expected = state_at(next(server for name, server in names.items() if name != first))
    assert expected["messages"] == MESSAGES
    eventually(lambda: all(state_at(server) == expected for server in made), lambda: [state_at(one) for one in made])
    await client.close()
    return publisher


async def contents(made: list[servers.Server], count: int = MESSAGES) -> list[list[str]]:
    """What each server has, when it leads."""
    found: dict[str, list[str]] = {}
    client = await connect(made[0])

    async def leads(wanted: str) -> bool:
        return await led_by(client) == wanted

    async def takes_over(wanted: str) -> bool:
        if await leads(wanted):
            return True
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await must(client, "$JS.API.STREAM.LEADER.STEPDOWN.S", {"placement": {"preferred": wanted}})
            # (Servers under load that are asked again at once only step down: the wanted one never catches up.)
            await until(partial(leads, wanted), seconds=SETTLES_S)
        return False

    for number in range(len(made)):
        wanted = f"s{number}"
        await until(partial(takes_over, wanted), f"the lead is not handed over by {made[0].kind} to {wanted}")
        found[f"s{number}"] = await stored(client, count)
    await client.close()
    return list(found.values())


async def alike(made: list[servers.Server]) -> tuple[list[str], dict[str, Any]]:
    """What all three have, which is the same, and the state that the stream's info tells of."""
    async with one_each(made[1:2]) as (client,):
        await led_by(client)
        state: dict[str, Any] = (await must(client, "$JS.API.STREAM.INFO.S"))["state"]
    everywhere = await contents(made, state["messages"])
    assert everywhere[0] == everywhere[1] == everywhere[2]
    return everywhere[0], state


def same_at_both(
    walk: Callable[[list[servers.Server]], Coroutine[Any, Any, list[Told]]], tmp_path: Path, config: str = CONFIG
) -> list[Told]:
    """Three leafd tell the walk what three nats-servers do; what they tell."""

    def told(kind: str, folder: Path) -> list[Told]:
        with led(kind, folder, config) as made:
            return asyncio.run(walk(made))

    return told_alike(told, tmp_path)


def members_at(server: servers.Server) -> dict[str, Any]:
    """The stream's group as that server sees it."""
    groups = report(server, "raftz?acc=A").get("A", {})
    found: dict[str, Any] = next(iter(groups.values()), {})
    return found


async def wiped(made: list[servers.Server]) -> None:
    """The disk of one that does not lead is wiped, and messages come meanwhile."""
    client = await connect(made[0])
    leader = await led_by(client)
    await client.close()
    others = [server for number, server in enumerate(made) if f"s{number}" != leader]
    gone, client = others[0], await connect(others[1])
    gone.stop()
    shutil.rmtree(gone.directory / "store")
    for _ in range(50):
        assert "seq" in json.loads((await client.request("s.w", b"0", timeout=20)).data)
    gone.start()
    expected = state_at(others[1])
    assert expected["messages"] == MESSAGES + 50
    eventually(lambda: state_at(gone) == expected and members_at(gone).get("size") == 3, lambda: members_at(gone))
    eventually(lambda: all(members_at(server)["size"] == 3 for server in made), lambda: list(map(members_at, made)))
    await client.close()


@pytest.mark.parametrize("kind", [R, L])
def test_publishing_goes_on_when_the_leader_of_a_stream_is_killed(kind: str, tmp_path: Path) -> None:
    """What was acknowledged is there, once and in order, at all three."""
    with led(kind, tmp_path) as made:
        publisher = asyncio.run(walk(made))
        assert len(publisher.acknowledged) == MESSAGES
        assert publisher.longest_s < AGAIN_S
        if kind == L:  # three nats-servers take it in again, too, and publish nothing of it in raftz
            asyncio.run(wiped(made))
        everywhere = [some[:MESSAGES] for some in asyncio.run(contents(made))]
        assert everywhere[0] == everywhere[1] == everywhere[2]
        numbers = [int(one) for one in everywhere[0]]
        assert sorted(numbers) == list(range(MESSAGES))
        assert all(numbers[sequence - 1] == number for number, sequence in publisher.acknowledged.items())


async def handed_on(made: list[servers.Server]) -> None:
    """A member is dead, and is to lead."""
    client = await connect(made[0])
    await must(client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "num_replicas": 3})
    leader = await led_by(client)
    await client.close()
    dead, third = (number for number in range(3) if f"s{number}" != leader)
    client = await connect(made[int(leader[1:])])
    made[dead].kill()
    await asyncio.sleep(AWAY_S)
    for preferred, heir in ((f"s{dead}", f"s{third}"), ("", leader)):
        wish = {"placement": {"preferred": preferred}} if preferred else None
        assert (await must(client, "$JS.API.STREAM.LEADER.STEPDOWN.S", wish))["success"]
        await until(partial(is_led, client, heir))
    await client.close()


async def is_led(client: Client, server: str) -> bool:
    return await led_by(client) == server


@pytest.mark.parametrize("kind", [R, L])
def test_a_lead_is_handed_to_a_server_that_is_there(kind: str, tmp_path: Path) -> None:
    """Whoever is asked for instead, or has the least to catch up with."""
    with led(kind, tmp_path) as made:
        asyncio.run(handed_on(made))


async def with_a_loss(made: list[servers.Server]) -> None:
    """The journal of one that does not lead loses its end, with messages that it has acknowledged."""
    client = await connect(made[0])
    leader = await led_by(client)
    await client.close()
    others = [server for number, server in enumerate(made) if f"s{number}" != leader]
    hurt, client, seen = others[0], await connect(others[1]), len(others[0].log)
    for number in range(LOSSES):
        for word in range(20):
            text = b"loss %d word %d." % (number, word)
            assert "seq" in json.loads((await client.request("s.w", text, timeout=20)).data)
        hurt.kill()
        (journal,) = (hurt.directory / "store").rglob("journal")
        lose_the_end(journal, b"loss %d word 10." % number)
        hurt.start()
        eventually(lambda: state_at(hurt) == state_at(others[1]), lambda: [members_at(hurt), state_at(hurt)])
        if "is copied from the others" in hurt.log[seen:]:
            break
    assert "is copied from the others" in hurt.log[seen:]
    eventually(lambda: all(members_at(server)["size"] == 3 for server in made), lambda: list(map(members_at, made)))
    await client.close()


def test_a_disk_that_lost_something_is_given_a_copy_and_is_one_of_three_again(tmp_path: Path) -> None:
    """It is another member, without an operator's doing: it may lead, and has what was acknowledged."""
    with led(L, tmp_path) as made:
        asyncio.run(made_by(made[0], {"s0", "s1", "s2"}))
        asyncio.run(with_a_loss(made))
        count = state_at(made[0])["messages"]
        everywhere = asyncio.run(contents(made, count))
        assert everywhere[0] == everywhere[1] == everywhere[2]
        assert len(everywhere[0]) == count


def definition_at(server: servers.Server) -> dict[str, Any]:
    """How that server has the stream: what was changed of it."""
    accounts = report(server, "jsz?acc=A&streams=true&config=true")["account_details"]
    row: dict[str, Any] = accounts[0]["stream_detail"][0]
    config = row["config"]
    found: dict[str, Any] = {name: config.get(name) for name in ("subjects", "max_msgs", "description")}
    found.update(row["state"])
    return found


async def change(made: list[servers.Server]) -> list[object]:
    """Changes by each of the three, and one when the leader was killed; what clients are told."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    await made_by(made[0], set(names))
    config: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "allow_direct": True}
    found: list[object] = []

    async def changed(at: Client, **how: Any) -> None:
        config.update(how)
        info = await must(at, "$JS.API.STREAM.UPDATE.S", config)
        found.append({name: info["config"].get(name) for name in ("subjects", "max_msgs", "description")})
        found.append((info["state"]["messages"], info["state"]["first_seq"], info["state"]["last_seq"]))

    async def publish(at: Client, subject: str, count: int) -> None:
        """That a new subject is listened to is not known at each server at once."""
        for _ in range(count):
            found.append(await official.stored(at, subject))

    async with one_each(made) as (first, second, third):
        await publish(second, "s.a", 5)
        await changed(first, subjects=["s.>", "t"], description="two")
        await publish(third, "t", 3)
        await changed(second, max_msgs=4)
        await changed(third, subjects=["t"])
        await publish(first, "t", 2)
        leader = (await must(first, "$JS.API.STREAM.INFO.S"))["cluster"]["leader"]
    names[leader].kill()
    other = next(server for name, server in names.items() if name != leader)
    async with one_each([other]) as (client,):
        await led_by(client, but=leader)
        await until(lambda: report(other, "jsz")["meta_cluster"].get("leader") not in (None, "", leader))
        await changed(client, max_msgs=2, description="three")
        await publish(client, "t", 1)
    names[leader].start()
    expected = definition_at(other)
    expected.pop("consumer_count")
    eventually(
        lambda: all(definition_at(server).items() >= expected.items() for server in made),
        lambda: [definition_at(server) for server in made],
    )
    return [*found, {name: value for name, value in expected.items() if not name.endswith("_ts")}]


def test_the_definition_of_a_stream_changes_at_all_servers_as_at_nats_servers(tmp_path: Path) -> None:
    """Asked for at any server, also when the leader was just killed, and known to that one when it is back."""
    same_at_both(change, tmp_path)


def test_what_replicas_lack_is_refused(tmp_path: Path) -> None:
    """With its reason, when a stream is made and when one is changed. nats-server keeps all of these."""

    async def refused(server: servers.Server) -> None:
        client = await connect(server)
        await made_by(server, {"s0", "s1", "s2"})
        await must(client, "$JS.API.STREAM.CREATE.O", {"name": "O", "subjects": ["o"]})
        alone = {"name": "M", "subjects": ["m"], "storage": "memory"}
        await must(client, "$JS.API.STREAM.CREATE.M", alone)
        answer = await client.request(
            "$JS.API.STREAM.UPDATE.M", json.dumps({**alone, "num_replicas": 3}).encode(), timeout=20
        )
        assert json.loads(answer.data)["error"]["description"] == (
            "a stream in memory may not get replicas later in leafd"
        )
        plain = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "allow_direct": True}
        answer = await client.request(
            "$JS.API.STREAM.UPDATE.S", json.dumps({**plain, "allow_msg_counter": True}).encode(), timeout=20
        )
        assert "error" in json.loads(answer.data)
        await client.close()

    with led(L, tmp_path) as made:
        asyncio.run(refused(made[0]))
