"""A box whose store was put back from an older copy, as packaging/doc/guide.md tells: its hub collects it again.

What does not live here: backups of single streams (test_backup.py), damage (tests/crash/).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client

from tests import servers

HUB: Final = (
    "listen: 127.0.0.1:{port}\nserver_name: hub\n"
    'jetstream { store_dir: "{store}", domain: hub }\nleafnodes { listen: 127.0.0.1:{leaf_port} }\n'
)
BOX: Final = (
    "listen: 127.0.0.1:{port}\nserver_name: box\n"
    'jetstream { store_dir: "{store}", domain: box }\nleafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:HUB" } ] }\n'
)
PATIENCE_S: Final = 60.0
SOURCE: Final = {"name": "T", "external": {"api": "$JS.box.API"}}


async def ask(client: Client, endpoint: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await client.request(f"$JS.API.{endpoint}", json.dumps(body).encode(), timeout=PATIENCE_S)
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def publish(box: servers.Server, words: list[bytes], *, purge_to: int = 0) -> None:
    client = await nats.connect(box.url)
    if purge_to:
        await ask(client, "STREAM.PURGE.T", {"seq": purge_to})
    for word in words:
        await client.jetstream().publish("t.x", word, timeout=PATIENCE_S)
    await client.close()


async def collected(hub: servers.Server, wanted: list[bytes]) -> None:
    """The hub has these messages, in this order, and no others."""
    client = await nats.connect(hub.url)
    end = time.monotonic() + PATIENCE_S
    while (await ask(client, "STREAM.INFO.T", {}))["state"]["messages"] < len(wanted):
        assert time.monotonic() < end, "the hub does not collect them"
        await asyncio.sleep(0.1)
    subscription = await client.jetstream().subscribe(">", stream="T", ordered_consumer=True)
    held = [(await subscription.next_msg(timeout=PATIENCE_S)).data for _ in wanted]
    assert wanted == held
    await client.close()


async def made(server: servers.Server, config: dict[str, Any]) -> None:
    client = await nats.connect(server.url)
    await ask(client, "STREAM.CREATE.T", {"name": "T", "storage": "file"} | config)
    await client.close()


def test_a_box_that_was_put_back_is_collected_again_once_its_stream_is_moved_on(tmp_path: Path) -> None:
    """The copy is older than what the hub has; with the purge of the guide nothing new is passed over or doubled."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(servers.LEAFD, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    store, copy = tmp_path / "box" / "store", tmp_path / "copy"
    early, late, new = ([b"%s-%d" % (word, number) for number in range(5)] for word in (b"early", b"late", b"new"))
    hub.start()
    try:
        box.start()
        asyncio.run(made(box, {"subjects": ["t.>"]}))
        asyncio.run(made(hub, {"sources": [SOURCE]}))
        asyncio.run(publish(box, early))
        asyncio.run(collected(hub, early))
        box.stop()
        shutil.copytree(store, copy)
        box.start()
        asyncio.run(publish(box, late))
        asyncio.run(collected(hub, early + late))
        box.stop()
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        box.start()
        asyncio.run(publish(box, new, purge_to=1_000_000))
        asyncio.run(collected(hub, early + late + new))
    finally:
        box.stop()
        hub.stop()
