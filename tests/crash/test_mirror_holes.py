"""Mirrors that lost messages out of their middle to a damaged page: what their origin still has is fetched again."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import nats
import pytest

from tests import servers
from tests.crash.pages import PAGE, kinds_of
from tests.crash.test_copies_lost_tail import BOX, HUB, ORIGIN, PATIENCE_S, make
from tests.held import ask, held_of
from tests.rig.waiting import eventually

MESSAGES = 900
KEYS = 40
FETCHED = "were fetched again"


def words() -> list[bytes]:
    return [b"word %d " % number * 12 for number in range(MESSAGES)]


async def publish(box: servers.Server, some: list[bytes]) -> None:
    client = await nats.connect(box.url)
    for number, word in enumerate(some):
        await client.jetstream().publish(f"t.{number % KEYS}", word, timeout=PATIENCE_S)
    await client.close()


async def until_held(hub: servers.Server, wanted: list[bytes]) -> None:
    client = await nats.connect(hub.url)
    end = time.monotonic() + PATIENCE_S
    while (found := await held_of(client, "M", PATIENCE_S)) != wanted:
        assert time.monotonic() < end, f"{len(found)} of {len(wanted)}\n{hub.log}"
        await asyncio.sleep(0.2)
    await client.close()


async def until_more_than(hub: servers.Server, few: int, enough: int) -> None:
    client = await nats.connect(hub.url)
    end = time.monotonic() + PATIENCE_S
    while not few < (await ask(client, "STREAM.INFO.M", {}))["state"]["messages"] <= enough:
        assert time.monotonic() < end, hub.log
        await asyncio.sleep(0.02)
    await client.close()


async def count_of(hub: servers.Server) -> int:
    client = await nats.connect(hub.url)
    count: int = (await ask(client, "STREAM.INFO.M", {}))["state"]["messages"]
    await client.close()
    return count


def lose_a_page(hub: servers.Server, chance: random.Random) -> None:
    """Of the mirror's messages, while the daemon is down."""
    (path,) = (hub.directory / "store").rglob("data.mdb")
    kinds = kinds_of(path)
    name = max((kind for kind in kinds if kind[0] == "m" and kind.endswith(" leaf") and len(kind) == 14),
               key=lambda kind: len(kinds[kind]))  # fmt: skip
    with path.open("r+b") as file:
        file.seek(chance.choice(kinds[name]) * PAGE)
        file.write(bytes(PAGE))


def pair(tmp_path: Path, kind: str) -> tuple[servers.Server, servers.Server]:
    for name in ("hub", "box"):
        (tmp_path / name).mkdir()
    hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
    return hub, servers.make(kind, BOX.replace("HUB", str(hub.ports["leaf_port"])), tmp_path / "box")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_a_page_took_is_fetched_again(tmp_path: Path, kind: str) -> None:
    """A mirror that lost a page becomes whole, in its order, though the daemon is killed while it does."""
    hub, box = pair(tmp_path, kind)
    chance = random.Random(7)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(make(hub, {"M": {"mirror": ORIGIN}}))
        asyncio.run(publish(box, words()))
        asyncio.run(until_held(hub, words()))
        assert hub.stop() == 0
        lose_a_page(hub, chance)
        hub.start()
        assert "it was made anew" in hub.log
        few = asyncio.run(count_of(hub))
        assert few < MESSAGES
        asyncio.run(until_more_than(hub, few, MESSAGES))
        hub.kill()
        hub.start()
        asyncio.run(until_held(hub, words()))
        asyncio.run(publish(box, [b"and one more"]))
        asyncio.run(until_held(hub, [*words(), b"and one more"]))
        assert hub.stop() == 0
        hub.start()
        asyncio.run(until_held(hub, [*words(), b"and one more"]))
    finally:
        box.stop()
        hub.stop()


async def read_all(hub: servers.Server) -> None:
    """Asks for each message, whatever the answer is."""
    client = await nats.connect(hub.url)
    for sequence in range(1, MESSAGES + 1):
        await client.request("$JS.API.STREAM.MSG.GET.M", b'{"seq":%d}' % sequence, timeout=PATIENCE_S)
    await client.close()


@pytest.mark.parametrize("copy", [{"mirror": ORIGIN}, {"sources": [ORIGIN]}], ids=["mirror", "source"])
def test_a_page_that_was_made_anew_while_the_copy_ran_has_its_messages_again(
    tmp_path: Path, copy: dict[str, object]
) -> None:
    """What was on it is fetched again without a start: nothing is counted twice."""
    hub, box = pair(tmp_path, servers.LEAFD)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(make(hub, {"M": copy}))
        asyncio.run(publish(box, words()))
        asyncio.run(until_held(hub, words()))
        assert hub.stop() == 0
        hub.start()
        lose_a_page(hub, random.Random(7))
        asyncio.run(read_all(hub))
        eventually(lambda: "it was made anew" in hub.log, lambda: hub.log)
        assert "The daemon begins again" not in hub.log
        eventually(lambda: FETCHED in hub.log, lambda: hub.log, seconds=PATIENCE_S)
        assert MESSAGES == asyncio.run(count_of(hub))
        asyncio.run(until_held(hub, words()))
        asyncio.run(publish(box, [b"and one more"]))
        asyncio.run(until_held(hub, [*words(), b"and one more"]))
        assert hub.stop() == 0
        hub.start()
        asyncio.run(until_held(hub, [*words(), b"and one more"]))
    finally:
        box.stop()
        hub.stop()


def test_what_was_removed_at_the_origin_stays_away(tmp_path: Path) -> None:
    """The origin has some of it no more: the rest comes back, and the log says so."""
    hub, box = pair(tmp_path, servers.LEAFD)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(make(hub, {"M": {"mirror": ORIGIN}}))
        asyncio.run(publish(box, words()))
        asyncio.run(until_held(hub, words()))
        assert hub.stop() == 0
        lose_a_page(hub, random.Random(11))
        asyncio.run(remove(box, range(1, MESSAGES + 1, 2)))
        hub.start()
        eventually(lambda: FETCHED in hub.log, lambda: hub.log)
        held = asyncio.run(all_of(hub))
        assert [word for word in words()[1::2] if word not in held] == []
        assert len(held) < MESSAGES
    finally:
        box.stop()
        hub.stop()


async def remove(box: servers.Server, sequences: range) -> None:
    client = await nats.connect(box.url)
    for sequence in sequences:
        await ask(client, "STREAM.MSG.DELETE.T", {"seq": sequence, "no_erase": True})
    await client.close()


async def all_of(hub: servers.Server) -> list[bytes]:
    client = await nats.connect(hub.url)
    held = await held_of(client, "M", PATIENCE_S)
    await client.close()
    return held
