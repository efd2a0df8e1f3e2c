"""A page of a box's messages is damaged while the box runs, and a hub's copy of that stream comes to it: the page is
made anew while the box serves, and the copy goes on with all that is behind the page. Where messages had been removed
from the stream's middle, nobody knows which ones were on the page, and the box begins again by itself.

Nobody may be there to start the box. Not here: which page, and what is asked for how often (native/test_store_pages.c,
native/test_store_patch.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests import servers
from tests.crash.test_copies_lost_tail import COPIES, PATIENCE_S, make
from tests.crash.test_mirror_holes import lose_a_page, pair, publish, words
from tests.held import ask, held_of
from tests.rig.waiting import eventually


async def held(hub: servers.Server, name: str) -> list[bytes]:
    client = await nats.connect(hub.url)
    found = await held_of(client, name, PATIENCE_S)
    await client.close()
    return found


async def info(server: servers.Server, name: str) -> dict[str, Any]:
    client = await nats.connect(server.url)
    found = await ask(client, f"STREAM.INFO.{name}", {})
    await client.close()
    return found


async def remove_one(box: servers.Server) -> None:
    client = await nats.connect(box.url)
    await ask(client, "STREAM.MSG.DELETE.T", {"seq": 2})
    await client.close()


async def until_last(hub: servers.Server, name: str, box: servers.Server) -> list[bytes]:
    """What the copy has, once it has the last one."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := await held(hub, name))[-1:] != words()[-1:]:
        assert time.monotonic() < deadline, f"{len(found)}\n{box.log}\n{hub.log}"
        await asyncio.sleep(0.5)
    return found


@contextlib.contextmanager
def copied(folder: Path, name: str, *, removed: bool = False) -> Iterator[tuple[servers.Server, servers.Server]]:
    """A hub, whose copy `name` of the box's stream T begins, and the box, which has just lost a page of T. removed: and
    a message of T's middle before."""
    hub, box = pair(folder, servers.LEAFD)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(publish(box, words()))
        if removed:
            asyncio.run(remove_one(box))
        assert box.stop() == 0
        box.start()
        lose_a_page(box, random.Random(5))
        asyncio.run(make(hub, {name: COPIES[name]}))
        yield hub, box
    finally:
        box.stop()
        hub.stop()


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_gets_past_a_page_that_is_made_anew_while_its_origin_runs(tmp_path: Path, name: str) -> None:
    with copied(tmp_path, name) as (hub, box):
        eventually(lambda: "it was made anew" in box.log, lambda: box.log, seconds=PATIENCE_S)
        found = asyncio.run(until_last(hub, name, box))
        assert "The daemon begins again" not in box.log
        assert 0 < len(words()) - len(found) < 100, "one page"
        assert [one for one in words() if one in set(found)] == found, "in their order, each once"
        assert box.stop() == 0
        box.start()
        assert "made anew" not in box.log.rpartition("Server is ready")[2]
        asyncio.run(publish(box, [b"and one more"]))
        eventually(lambda: asyncio.run(held(hub, name))[-1:] == [b"and one more"], lambda: hub.log)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_gets_past_a_page_of_a_stream_with_removed_messages(tmp_path: Path, name: str) -> None:
    """Nobody knows which ones had been removed: what is lost is gone, and the stream is counted again."""
    with copied(tmp_path, name, removed=True) as (hub, box):
        eventually(lambda: "it was made anew" in box.log, lambda: box.log, seconds=PATIENCE_S)
        found = asyncio.run(until_last(hub, name, box))
        assert "The daemon begins again" not in box.log
        assert 0 < len(words()) - len(found) < 100, "one page"
        eventually(lambda: "was counted again" in box.log, lambda: box.log, seconds=PATIENCE_S)
        left = asyncio.run(info(box, "T"))["state"]["messages"]
        assert left - len(found) in (0, 1), "a damaged one stands for a page of which nothing is left"
        assert [one for one in words() if one in set(found)] == found, "in their order, each once"
