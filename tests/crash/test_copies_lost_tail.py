"""Copies whose journal lost its end after kill -9: a mirror and a source take again what their origin still has.

What is lost out of the middle of a mirror: test_mirror_holes.py.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import nats
import pytest

from tests import servers
from tests.held import ask, held_of

HUB: Final = (
    "listen: 127.0.0.1:{port}\nserver_name: hub\n"
    'jetstream { store_dir: "{store}", domain: hub }\nleafnodes { listen: 127.0.0.1:{leaf_port} }\n'
)
BOX: Final = (
    "listen: 127.0.0.1:{port}\nserver_name: box\n"
    'jetstream { store_dir: "{store}", domain: box }\nleafnodes { remotes: [ { url: "nats-leaf://127.0.0.1:HUB" } ] }\n'
)
PATIENCE_S: Final = 120.0
ORIGIN: Final = {"name": "T", "external": {"api": "$JS.box.API"}}
COPIES: Final[dict[str, dict[str, Any]]] = {"MIRROR": {"mirror": ORIGIN}, "SOURCE": {"sources": [ORIGIN]}}
BLOCK: Final = 4096
ROUNDS: Final = 6
SAID: Final = "lost all or part"


async def make(server: servers.Server, streams: dict[str, dict[str, Any]]) -> None:
    client = await nats.connect(server.url)
    for name, config in streams.items():
        await ask(client, f"STREAM.CREATE.{name}", {"name": name, "storage": "file"} | config, PATIENCE_S)
    await client.close()


async def publish(box: servers.Server, words: list[bytes]) -> None:
    client = await nats.connect(box.url)
    for word in words:
        await client.jetstream().publish("t.x", word, timeout=PATIENCE_S)
    await client.close()


async def until_both_are(hub: servers.Server, wanted: list[bytes]) -> None:
    """Both copies have these messages, in this order, each once."""
    client = await nats.connect(hub.url)
    end = time.monotonic() + PATIENCE_S
    while (found := {name: await held_of(client, name, PATIENCE_S) for name in COPIES}) != dict.fromkeys(
        COPIES, wanted
    ):
        wrong = {name: b" ".join(held) for name, held in found.items() if held != wanted}
        assert time.monotonic() < end, wrong
        await asyncio.sleep(0.1)
    await client.close()


def lose_the_end(journal: Path, word: bytes) -> None:
    """From the block with the first message of this text on all that was written is zeros."""
    content = bytearray(journal.read_bytes())
    begin = content.find(word) // BLOCK * BLOCK
    end = -(-len(content.rstrip(b"\0")) // BLOCK) * BLOCK
    if 0 <= begin < end:
        content[begin:end] = bytes(end - begin)
        journal.write_bytes(content)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_the_journal_lost_is_taken_again(tmp_path: Path, kind: str) -> None:
    """The loss is said, and both copies become whole again, with nothing twice."""
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    box = servers.make(kind, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")
    words: list[bytes] = []
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(make(hub, COPIES))
        asyncio.run(publish(box, [b"before"]))
        asyncio.run(until_both_are(hub, [b"before"]))
        words.append(b"before")
        for number in range(ROUNDS):  # a checkpoint in between makes nothing of it a loss
            more = [b"round %d word %d." % (number, word) for word in range(20)]
            asyncio.run(publish(box, more))
            words += more
            asyncio.run(until_both_are(hub, words))
            hub.kill()
            (journal,) = (hub.directory / "store").rglob("journal")
            lose_the_end(journal, b"round %d word 10." % number)
            hub.start()
            asyncio.run(until_both_are(hub, words))
            if SAID in hub.log:
                break
        assert SAID in hub.log
    finally:
        box.stop()
        hub.stop()
