"""Who listens to JetStream's advisories gets them, whichever way: leafd does not write those that nobody hears.

Each listener is there before the request and hears of it, on both servers; one that has gone hears no more. Not here:
what advisories say (api_conversations.py), how listeners are counted (tests/native/test_route.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Final

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from tests.rig.official import must
from tests.rig.waiting import PATIENCE_S
from tests.servers import KINDS, running

HUB: Final = """
listen: 127.0.0.1:{port}
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: 127.0.0.1:{leaf_port} }
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ], exports: [ { stream: "$JS.EVENT.>" } ] }
  B {
    users: [ { user: b, password: b } ]
    imports: [ { stream: { account: A, subject: "$JS.EVENT.>" }, prefix: of_a } ]
  }
}
"""
LEAF: Final = """
listen: 127.0.0.1:{port}
server_name: leaf
leafnodes { remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{hub}" } ] }
"""
AGAIN_S: Final = 0.2
CREATED: Final = "$JS.EVENT.ADVISORY.STREAM.CREATED"


async def made(client: Client, name: str) -> None:
    """A memory stream of that name is there."""
    body = {"name": name, "subjects": [f"{name}.>"], "storage": "memory"}
    await must(client, f"$JS.API.STREAM.CREATE.{name}", body)


async def heard(client: Client, maker: Client, subject: str, name: str) -> None:
    """The subscription gets the advisory of a stream that is made then; of one of the next where it is told by a link,
    which takes its time."""
    subscription = await client.subscribe(subject)
    await client.flush()
    async with asyncio.timeout(PATIENCE_S):
        for number in itertools.count():
            await made(maker, name if not number else f"{name}-{number}")
            with contextlib.suppress(nats.errors.TimeoutError):
                found = json.loads((await subscription.next_msg(AGAIN_S if linked(client) else PATIENCE_S)).data)
                assert found["stream"].startswith(name)
                break
    await subscription.unsubscribe()
    await client.flush()


def linked(client: Client) -> bool:
    """Whether it is at the leaf, which has no users."""
    return client.connected_url is not None and client.connected_url.username is None


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_listener_hears(kind: str) -> None:
    """A subscription, one with wildcards, another account by an import, a stream, and a client behind a leaf link."""

    async def talk(port: int, leaf_port: int) -> None:
        a = await nats.connect(f"nats://a:a@127.0.0.1:{port}")
        b = await nats.connect(f"nats://b:b@127.0.0.1:{port}")
        below = await nats.connect(f"nats://127.0.0.1:{leaf_port}")
        try:
            await made(a, "unheard")
            cases = (
                (a, CREATED + ".s0"),
                (a, "$JS.EVENT.*.STREAM.>"),
                (a, "*.*.ADVISORY.STREAM.>"),
                (b, f"of_a.{CREATED}.*"),
            )
            for number, (client, subject) in enumerate((*cases, (below, f"{CREATED}.>"))):
                await heard(client, a, subject, f"s{number}")
            body = json.dumps({"name": "kept", "subjects": [f"{CREATED}.>"], "storage": "memory"}).encode()
            await a.request("$JS.API.STREAM.CREATE.kept", body, timeout=PATIENCE_S)
            await made(a, "last")
            last = b'{"last_by_subj":"%s.last"}' % CREATED.encode()
            async with asyncio.timeout(PATIENCE_S):
                while b"error" in (await a.request("$JS.API.STREAM.MSG.GET.kept", last, timeout=PATIENCE_S)).data:
                    await asyncio.sleep(0.05)
        finally:
            for client in (a, b, below):
                await client.close()

    with running(kind, HUB) as hub, running(kind, LEAF, hub=hub.ports["leaf_port"]) as leaf:
        asyncio.run(talk(hub.port, leaf.port))
