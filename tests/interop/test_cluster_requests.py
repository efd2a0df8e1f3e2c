"""Who asks for JetStream at a server that has none, as the cluster's servers hear of it; and what they keep for it.

nats-server in leafd's place proves the tests. Not here: streams, consumers (test_cluster_jetstream.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import pytest
from nats.js.api import ObjectStoreConfig
from nats.js.errors import BadRequestError
from nats.js.object_store import ObjectStore

from tests import servers
from tests.interop.test_cluster_jetstream import started, until_heard, until_ready
from tests.rig.official import connect
from tests.rig.waiting import PATIENCE_S, until


@pytest.mark.parametrize("kind", servers.KINDS)
def test_requests_tell_who_asks_and_objects_are_the_same_at_every_server(kind: str, tmp_path: Path) -> None:
    """The audit names the client, its account and its own server; what is put here is got there, byte for byte."""

    async def play(made: list[servers.Server]) -> None:
        client, there = await connect(made[-1]), await connect(made[0])
        heard = await there.subscribe("$JS.EVENT.ADVISORY.API")
        await there.flush(30)
        await until_ready(client)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = json.loads((await heard.next_msg(PATIENCE_S)).data)
                if found["subject"] == "$JS.API.STREAM.CREATE.READY" and '"error"' not in found["response"]:
                    break
        asked = found["client"]
        assert (asked["acc"], asked["user"], asked["server"], asked["cluster"]) == ("A", "a", "s3", "C")
        assert (asked["kind"], asked["client_type"], asked["host"]) == ("Client", "nats", "127.0.0.1")
        assert {"start", "id", "lang", "ver", "rtt"} < set(asked)

        here = client.jetstream(timeout=PATIENCE_S)
        objects: list[ObjectStore] = []

        async def founded() -> bool:
            # A slow server is taken for absent: no suitable peers for placement.
            with contextlib.suppress(BadRequestError):
                objects.append(await here.create_object_store("things", ObjectStoreConfig(replicas=3)))
            return bool(objects)

        await until(founded, "three servers take no object store")
        await until_heard(client, "$O.things.C.first")
        content = bytes(range(256)) * 4_000
        await objects[0].put("thing", content)
        for context in (here, there.jetstream(timeout=PATIENCE_S)):
            assert (await (await context.object_store("things")).get("thing")).data == content
        await client.close()
        await there.close()

    with started((*[servers.REFERENCE] * 3, kind), tmp_path, without=3) as made:
        asyncio.run(play(made))
