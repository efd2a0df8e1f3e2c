"""A page of a box's messages is damaged while the box runs, and a hub's copy of that stream comes to it: the box begins
again by itself, and the copy goes on with all that is behind the page.

Nobody may be there to start the box. Not here: which page, and what is asked for how often (native/test_store_pages.c).
"""

from __future__ import annotations

import asyncio
import random
import time
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


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_gets_past_a_page_that_is_damaged_while_its_origin_runs(tmp_path: Path, name: str) -> None:
    hub, box = pair(tmp_path, servers.LEAFD)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {"T": {"subjects": ["t.>"]}}))
        asyncio.run(publish(box, words()))
        assert box.stop() == 0
        box.start()
        lose_a_page(box, random.Random(5))
        asyncio.run(make(hub, {name: COPIES[name]}))
        eventually(lambda: "The daemon begins again" in box.log, lambda: box.log, seconds=PATIENCE_S)
        assert "consumers wait for messages on a damaged page" in box.log
        eventually(lambda: "it was made anew" in box.log, lambda: box.log)
        deadline = time.monotonic() + PATIENCE_S
        while (found := asyncio.run(held(hub, name)))[-1:] != words()[-1:]:
            assert time.monotonic() < deadline, f"{len(found)}\n{box.log}\n{hub.log}"
            time.sleep(0.5)
        left = asyncio.run(info(box, "T"))["state"]["messages"]
        assert 0 < len(words()) - left < 100, "one page"
        assert len(found) == left
        assert [one for one in words() if one in set(found)] == found, "in their order, each once"
    finally:
        box.stop()
        hub.stop()
