"""Streams of three servers that publish again what they store (`republish`): once, with its place, by their leader, and
by the next one when that is killed, as at nats-servers.

Three nats-servers walk the same way, which proves the test. Not here: what is published again (tests/wire).
"""

from __future__ import annotations

from pathlib import Path

from nats.aio.client import Client
from nats.aio.subscription import Subscription

from tests import servers
from tests.interop.test_replicated_streams import led_by, same_at_both
from tests.rig.official import connect, one_each, patiently, stored, until_heard

MESSAGES = 20
CONFIG = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "republish": {"src": "s.>", "dest": "again.>"}}
SHOWN = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Last-Sequence")


async def heard(subscription: Subscription, client: Client, count: int) -> list[object]:
    """So many that are published again, and what comes beside them until a round trip later."""
    found: list[object] = []
    while len(found) < count or subscription.pending_msgs:
        message = await subscription.next_msg(timeout=20)
        found.append((message.subject, message.data, [(message.headers or {}).get(name) for name in SHOWN]))
        if len(found) == count:
            await client.flush()
    return found


async def walk(made: list[servers.Server]) -> list[object]:
    """What subscribers at another server than the leader hear, before and after that one is killed."""
    async with one_each(made) as clients:
        await patiently(clients[0], "STREAM.CREATE.S", CONFIG)
        leader = await led_by(clients[0])
    names = {f"s{number}": server for number, server in enumerate(made)}
    others = [server for name, server in names.items() if name != leader]
    client, listener = await connect(others[0]), await connect(others[1])
    subscription = await listener.subscribe("again.>")
    await until_heard([client, listener], "known")
    for number in range(MESSAGES):
        await stored(client, "s.a", str(number).encode())
    found = await heard(subscription, listener, MESSAGES)
    names[leader].kill()
    await led_by(client, but=leader)
    for number in range(MESSAGES):
        await stored(client, "s.a", str(number).encode())
    found += await heard(subscription, listener, MESSAGES)
    await client.close()
    await listener.close()
    names[leader].start()
    return found


def test_what_a_stream_of_three_servers_stores_is_published_again_as_by_nats_servers(tmp_path: Path) -> None:
    """Each message once, where no leader is killed in between."""
    assert len(same_at_both(walk, tmp_path)) == 2 * MESSAGES
