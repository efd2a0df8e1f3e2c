"""Sources that lost messages out of their middle to a damaged page: what their origins still have is fetched again.

What is lost out of the middle of a mirror: test_mirror_holes.py. What is known of a hole, and what then becomes of it:
unit/links/test_source_holes.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests import servers
from tests.crash.test_copies_lost_tail import ORIGIN, PATIENCE_S, make
from tests.crash.test_mirror_holes import FETCHED, KEYS, lose_a_page, pair, remove, until_more_than
from tests.held import ask

MESSAGES = 300
SECOND = {
    "name": "U",
    "external": {"api": "$JS.box.API"},
    "subject_transforms": [{"src": "u.*", "dest": "v.{{wildcard(1)}}"}],
}
"""Of the same server, under other subjects."""


@contextlib.contextmanager
def damaged(
    tmp_path: Path, seed: int, kind: str = servers.LEAFD, sources: Sequence[dict[str, Any]] = (ORIGIN,)
) -> Iterator[tuple[servers.Server, servers.Server, Held]]:
    """A hub that was stopped and lost a page, the server that its stream has its messages of, and what it had."""
    hub, box = pair(tmp_path, kind)
    names = "".join(source["name"] for source in sources)
    hub.start()
    try:
        box.start()
        asyncio.run(make(box, {name: {"subjects": [f"{name.lower()}.>"]} for name in names}))
        asyncio.run(make(hub, {"M": {"sources": list(sources)}}))
        asyncio.run(publish(box, names.lower(), 0, MESSAGES // len(names)))
        before = asyncio.run(until(hub, MESSAGES))
        assert hub.stop() == 0
        lose_a_page(hub, random.Random(seed))
        yield hub, box, before
    finally:
        box.stop()
        hub.stop()


async def publish(box: servers.Server, prefixes: str, first: int, last: int) -> None:
    """On each prefix one after the other, each with its number in it."""
    client = await nats.connect(box.url)
    for number in range(first, last):
        for prefix in prefixes:
            word = b"%s %d " % (prefix.encode(), number) * 12
            headers = {"Kept": str(number)} if number % 3 == 0 else None
            await client.publish(f"{prefix}.{number % KEYS}", word, headers=headers)
    await client.flush(int(PATIENCE_S))
    await client.close()


Held = list[tuple[str, bytes, str, str]]


async def held(client: Client) -> Held:
    """Subject, payload, what the message says of its origin, and a header of its own, in the stream's order."""
    count = (await ask(client, "STREAM.INFO.M", {}, PATIENCE_S))["state"]["messages"]
    subscription = await client.jetstream().subscribe(">", stream="M", ordered_consumer=True)
    found: Held = []
    for _ in range(count):
        message = await subscription.next_msg(timeout=PATIENCE_S)
        headers: dict[str, Any] = message.headers or {}
        found.append((message.subject, message.data, headers["Nats-Stream-Source"], headers.get("Kept", "")))
    await subscription.unsubscribe()
    return found


async def all_of(hub: servers.Server) -> Held:
    client = await nats.connect(hub.url)
    found = await held(client)
    await client.close()
    return found


async def until(hub: servers.Server, count: int) -> Held:
    """What it holds as soon as it holds so many."""
    client = await nats.connect(hub.url)
    end = time.monotonic() + PATIENCE_S
    while (found := (await ask(client, "STREAM.INFO.M", {}))["state"]["messages"]) < count:
        assert time.monotonic() < end, f"{found} of {count}\n{hub.log}"
        await asyncio.sleep(0.1)
    await client.close()
    return await all_of(hub)


def of_each(found: Held) -> dict[str, Held]:
    """By origin."""
    origins: dict[str, Held] = {}
    for one in found:
        origins.setdefault(one[2].split(" ")[0], []).append(one)
    return origins


def said(hub: servers.Server, word: str) -> str:
    """The line of the log that has it."""
    end = time.monotonic() + PATIENCE_S
    while not (lines := [line for line in hub.log.splitlines() if word in line]):
        assert time.monotonic() < end, hub.log
        time.sleep(0.2)
    return lines[-1]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_a_page_took_is_fetched_again(tmp_path: Path, kind: str) -> None:
    """A source that lost a page becomes as it was, with each message where it was, though the daemon is killed while it
    does; what comes later comes once."""
    with damaged(tmp_path, 7, kind) as (hub, box, before):
        hub.start()
        few = len(asyncio.run(all_of(hub)))
        asyncio.run(until_more_than(hub, few, MESSAGES))
        hub.kill()
        hub.start()
        assert asyncio.run(until(hub, MESSAGES)) == before
        asyncio.run(publish(box, "t", MESSAGES, MESSAGES + 1))
        after = asyncio.run(until(hub, MESSAGES + 1))
        assert after[:-1] == before
        assert hub.stop() == 0
        hub.start()
        assert asyncio.run(all_of(hub)) == after


def test_of_several_origins_each_gives_what_was_its_own(tmp_path: Path) -> None:
    """Two origins, one under other subjects: all of it comes back, of each in its order, and nothing twice."""
    with damaged(tmp_path, 11, sources=(ORIGIN, SECOND)) as (hub, _, before):
        hub.start()
        after = asyncio.run(until(hub, MESSAGES))
        assert of_each(after) == of_each(before)
        assert said(hub, FETCHED).endswith("all of it")


def test_what_the_origin_has_no_more_is_said(tmp_path: Path) -> None:
    """Of a hole of which the origin has lost some the rest comes back, and the log counts what does not."""
    with damaged(tmp_path, 13) as (hub, box, before):
        asyncio.run(remove(box, range(1, MESSAGES + 1, 2)))
        hub.start()
        line = said(hub, FETCHED)
        after = asyncio.run(all_of(hub))
        gone = [one for one in before if one not in after]
        assert gone
        assert all(int(one[2].split(" ")[1]) % 2 == 1 for one in gone)
        assert after == [one for one in before if one not in gone]
        assert f"the other {len(gone)} its origins do not have" in line


def test_another_stream_of_the_same_name_gives_nothing(tmp_path: Path) -> None:
    """An origin that was made anew while the hub was down has other messages at those sequences: none of them is put
    into the hole, and the log says why."""
    with damaged(tmp_path, 17) as (hub, box, before):
        asyncio.run(made_anew(box))
        asyncio.run(publish(box, "t", MESSAGES, 3 * MESSAGES))
        hub.start()
        said(hub, "stays without")
        after = asyncio.run(all_of(hub))
        assert [one for one in after if one in before] == after[: sum(one in before for one in after)]
        numbers = [int(one[1].split()[1]) for one in after]
        assert numbers == sorted(set(numbers))


async def made_anew(box: servers.Server) -> None:
    client = await nats.connect(box.url)
    await ask(client, "STREAM.DELETE.T", {})
    await ask(client, "STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"]})
    await client.close()
