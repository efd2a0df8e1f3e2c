"""Mirrors and streams with sources that get replicas later, as at nats-servers: what their origin has comes to them
once, before, meanwhile and behind their leader's death.

Not here: streams without an origin (test_scaled_streams.py), copies that had replicas from the beginning
(test_replicated_sources.py).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests import servers
from tests.interop.test_backup import send, take
from tests.interop.test_replicated_streams import same_at_both
from tests.interop.test_scaled_streams import said
from tests.rig.official import one_each, patiently, stored
from tests.rig.waiting import until

ORIGIN: dict[str, Any] = {"name": "O", "subjects": ["o.>"], "num_replicas": 3, "allow_direct": True}
COPIES: tuple[dict[str, Any], ...] = (
    {"name": "M", "mirror": {"name": "O"}},
    {"name": "D", "sources": [{"name": "O", "filter_subject": "o.a"}], "subjects": ["d"]},
)
SOME = 20


async def publish(client: Client, first: int) -> None:
    """So many numbers from that one on, each until it is acknowledged."""
    for number in range(first, first + SOME):
        await stored(client, "o.a", str(number).encode(), str(number))


async def copied(client: Client, name: str, count: int) -> list[str]:
    """What a copy has, once it has so many."""
    found: list[str] = []

    async def there() -> bool:
        info = await said(client, f"STREAM.INFO.{name}")
        return bool(info.get("state", {}).get("messages", 0) >= count)

    await until(there, f"{name} has not all of it")
    for sequence in range(1, count + 1):
        answer: dict[str, Any] = {}

        async def read(answer: dict[str, Any] = answer, sequence: int = sequence) -> bool:
            answer.update(await said(client, f"STREAM.MSG.GET.{name}", {"seq": sequence}))
            return "message" in answer

        await until(read, f"{name} does not tell what it has")
        found.append(answer["message"]["data"])
    return found


async def kept_by(client: Client, name: str, count: int) -> None:
    """So many servers have all of the stream."""

    async def settled() -> bool:
        rows = (await said(client, f"STREAM.INFO.{name}")).get("cluster", {}).get("replicas", ())
        return len(rows) == count - 1 and all(row["current"] for row in rows)

    await until(settled, f"{name} is not kept by {count}")


async def resized(client: Client, config: dict[str, Any], count: int) -> object:
    """What is answered, and which numbers of members there are, once the stream has so many that have all."""
    info = await said(client, f"STREAM.UPDATE.{config['name']}", config | {"num_replicas": count})

    await kept_by(client, config["name"], count)
    return info.get("error") or info["config"]["num_replicas"]


async def given_back(client: Client, name: str) -> None:
    """The stream's backup becomes one of three servers."""
    reply, archive = await take(client, name)
    await patiently(client, f"STREAM.DELETE.{name}")

    async def restored() -> bool:  # which a server that has just come back may not be chosen for yet
        with contextlib.suppress(AssertionError):
            return "error" not in await send(client, reply["config"] | {"num_replicas": 3}, reply["state"], archive)
        return False

    await until(restored, f"{name} is not restored")


async def walk(made: list[servers.Server]) -> list[object]:
    """What clients are told on the way."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    told: list[object] = []
    async with one_each(made) as (first, second, third):
        await said(first, "STREAM.CREATE.O", ORIGIN)
        await publish(second, 0)
        for config in COPIES:
            await said(third, f"STREAM.CREATE.{config['name']}", config | {"num_replicas": 1})
            told.append(await copied(first, config["name"], SOME))
            told.append(await resized(second, config, 3))
        await publish(third, SOME)
        told += [await copied(first, config["name"], 2 * SOME) for config in COPIES]
        leader = (await said(first, "STREAM.INFO.D"))["cluster"]["leader"]
    names[leader].kill()
    others = [server for name, server in names.items() if name != leader]
    async with one_each(others) as (first, second):
        await publish(first, 2 * SOME)
        told += [await copied(second, config["name"], 3 * SOME) for config in COPIES]
    names[leader].start()
    async with one_each(others) as (first, second):
        told += [await resized(first, config, 1) for config in COPIES]
        await publish(second, 3 * SOME)
        told += [await copied(first, config["name"], 4 * SOME) for config in COPIES]
        await kept_by(first, "O", 3)
        for config in COPIES:
            await given_back(second, config["name"])
        await publish(second, 4 * SOME)
        told += [await copied(first, config["name"], 5 * SOME) for config in COPIES]
    return told


def test_mirrors_and_streams_with_sources_get_replicas_later_as_at_nats_servers(tmp_path: Path) -> None:
    """And are one server's again, and are restored as those of three: each number comes once."""
    told = same_at_both(walk, tmp_path)
    assert [len(one) for one in told if isinstance(one, list)] == [20, 20, 40, 40, 60, 60, 80, 80, 100, 100]
