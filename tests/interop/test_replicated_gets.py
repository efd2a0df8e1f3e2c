"""Direct gets of streams that three servers keep: any of them answers, as at nats-servers, each get once.

Three nats-servers walk the same way, which proves the test. Not here: how far a follower has to be (`share_gets` in
native/jetstream/replicated.c), and what a get may ask for (tests/wire).
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import CONFIG, L, R, leader_of, led, three
from tests.interop.test_replicated_streams import led_by, made_by, state_at
from tests.rig.official import connect, one_each
from tests.rig.waiting import eventually, until

GETS = 60
SOME = 5
"""Of these, when one server of three has stopped: each of the two others would answer 20."""
GET = "DIRECT.GET.S.s.a"
LEAF = """
listen: "127.0.0.1:{port}"
server_name: "leaf"
accounts { A { users: [ {user: a, password: a} ] } }
leafnodes { remotes: [ {url: "nats-leaf://a:a@127.0.0.1:{leaf_port}", account: A} ] }
"""


async def got(client: Client, prefix: str = "$JS.API.") -> bytes:
    """What one get is answered; nothing where no answer comes."""
    try:
        return (await client.request(prefix + GET, b"", timeout=1)).data
    except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
        return b""


async def filled(made: list[servers.Server]) -> None:
    """One message is in the stream, at all three."""
    await made_by(made[0], {"s0", "s1", "s2"})
    async with one_each(made) as (first, *_):
        await first.request("s.a", b"kept", timeout=20)
    eventually(lambda: all(state_at(server)["messages"] == 1 for server in made), lambda: [state_at(o) for o in made])


async def without_the_leader(made: list[servers.Server], leader: str) -> int:
    """How many gets are answered, rightly, while the leader stands still, before there is another one."""
    stopped, client = made[int(leader[1])], await connect(made[(int(leader[1]) + 1) % 3])
    assert await got(client) == b"kept"
    assert stopped.process is not None
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        answers = await asyncio.gather(*(got(client) for _ in range(GETS)))
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    await client.close()
    assert set(answers) <= {b"", b"kept"}
    return answers.count(b"kept")


async def answered_by_followers(made: list[servers.Server]) -> None:
    """A nats-server's followers answer some seconds after they have all."""
    await filled(made)

    async def answered() -> bool:
        async with one_each(made[:1]) as (client,):
            leader = await led_by(client)
        return await without_the_leader(made, leader) >= SOME

    await until(answered, "only the leader answers")


@pytest.mark.parametrize("kind", [R, L])
def test_followers_answer_direct_gets_while_the_leader_stands_still(kind: str, tmp_path: Path) -> None:
    """Most of those asked at once, and with what is in the stream."""
    with led(kind, tmp_path) as made:
        asyncio.run(answered_by_followers(made))


async def answers_of(clients: list[Client]) -> list[int]:
    """How many answers come for each of many gets at each server."""
    found: list[int] = []
    for client in clients:
        counted = Counter[str]()
        inbox = client.new_inbox()
        subscription = await client.subscribe(f"{inbox}.*")
        for number in range(GETS):
            await client.publish(f"$JS.API.{GET}", b"", reply=f"{inbox}.{number}")
        for _ in range(GETS):
            counted[(await subscription.next_msg(timeout=20)).subject] += 1
        await client.flush()
        found += [*counted.values(), *([0] * (GETS - len(counted)))]
        found.append(1 + subscription.pending_msgs)
        await subscription.unsubscribe()
    return found


@pytest.mark.parametrize("kind", [R, L])
def test_each_direct_get_is_answered_once(kind: str, tmp_path: Path) -> None:
    """At each server, though all three listen."""

    async def asked(made: list[servers.Server]) -> list[int]:
        await filled(made)
        async with one_each(made) as clients:
            for client in clients:

                async def known(at: Client = client) -> bool:
                    return await got(at) == b"kept"

                await until(known, "a server does not know who answers")
            return await answers_of(clients)

    with led(kind, tmp_path) as made:
        assert set(asyncio.run(asked(made))) == {1}


@pytest.mark.parametrize("kind", [R, L])
def test_a_leaf_is_answered_by_the_domain_of_its_hubs(kind: str, tmp_path: Path) -> None:
    """Each of its gets, whoever of the hub's three servers has it answered."""
    config = CONFIG.replace('store_dir: "{store}"', 'domain: HUB, store_dir: "{store}"')
    config += 'leafnodes { listen: "127.0.0.1:{leaf_port}" }\n'

    async def asked(leaf: servers.Server) -> None:
        client = await connect(leaf)

        async def known() -> bool:
            return await got(client, "$JS.HUB.API.") == b"kept"

        await until(known, "the leaf is not answered")
        for _ in range(GETS):
            assert await got(client, "$JS.HUB.API.") == b"kept"
        await client.close()

    with three(kind, tmp_path, config) as made:
        for server in made:
            server.start()
        leader_of(made)
        asyncio.run(filled(made))
        with servers.running(L, LEAF.replace("{leaf_port}", str(made[0].ports["leaf_port"]))) as leaf:
            asyncio.run(asked(leaf))
