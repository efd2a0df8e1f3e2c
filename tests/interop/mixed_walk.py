"""A leaf with streams below two clusters of leafd and nats-servers, of which some are killed or stand still at random.

    python -m tests.interop.mixed_walk --seconds 1200 [--seed N]

    E: leafd, leafd, nats-server     W: leafd, nats-server, nats-server     a gateway between them
    the nats-servers' JetStream      DOWN1 in E, DOWN3 and UP3 in W         UP3 sources UP of the leaf
    the leaf, below any nats-server  M1, M3, mirrors of DOWN1 and DOWN3     UP

Each stream at the hub has one replica, so it waits for its server. Messages are published all the time, each until it
is acknowledged. After each blow everything has to be there, once and in order. At most one nats-server is struck at a
time: two of three must agree where streams are. Clients are at any server. The leaf is not: a server without JetStream,
nats-server or leafd, does not lead to the domain of those that have it. Not here: core messages (cluster_walk.py).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_hub_servers import alive
from tests.interop.test_hub_streams import PATIENCE_S, Walk, hub
from tests.rig.official import connect

L, R = servers.LEAFD, servers.REFERENCE
CLUSTERS, KINDS = "EEEWWW", (L, L, R, L, R, R)
BLOWS = ["kill", "kill", "stand still", "stop"]
EACH = 20
LEAF = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: leaf
jetstream { store_dir: "{store}", domain: leaf, max_file_store: 1GB }
leafnodes { reconnect: 1s, remotes: [ { urls: [ {hubs} ], ignore_discovered_servers: true } ] }
debug: true
"""


class Mixed(Walk):
    """The walk; who stands still is not asked."""

    still: frozenset[str] = frozenset()

    def there(self) -> list[servers.Server]:
        return [one for one in alive(self.hub) if str(one.directory) not in self.still]

    @contextlib.asynccontextmanager
    async def at_hub(self) -> AsyncIterator[Client]:
        async with asyncio.timeout(PATIENCE_S):
            while (client := await self._connected()) is None:
                await asyncio.sleep(0.2)
        try:
            yield client
        finally:
            await client.close()

    async def _connected(self) -> Client | None:
        with contextlib.suppress(nats.errors.Error, OSError):
            return await connect(self.there()[0])
        return None


def signalled(server: servers.Server, number: signal.Signals) -> None:
    assert server.process is not None
    os.kill(server.process.pid, number)


def drawn(walk: Mixed, rng: random.Random) -> list[servers.Server]:
    """Who is struck: one or two, or the leaf; never two nats-servers."""
    if rng.random() < 0.15:
        return [walk.leaf]
    found = rng.sample(walk.hub.servers, rng.choice([1, 1, 2]))
    return found if sum(one.kind == R for one in found) < 2 else found[:1]


async def strike(walk: Mixed, struck: list[servers.Server], blow: str, seconds: float) -> None:
    if blow == "stand still":
        walk.still = frozenset(str(one.directory) for one in struck)
        for one in struck:
            signalled(one, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        for one in struck:
            signalled(one, signal.SIGCONT)
        walk.still = frozenset()
        return
    for one in struck:
        one.kill() if blow == "kill" else one.stop()
    await asyncio.sleep(seconds)
    for one in struck:
        one.start()


async def walked(walk: Mixed, seconds: float, rng: random.Random) -> Counter[str]:
    """Until the time is over, or something does not hold."""
    done: Counter[str] = Counter()
    slowest = 0.0
    await walk.make_streams("WE", 1)
    await walk.publish_all(EACH)
    await walk.until_even()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        struck, blow, lasts = drawn(walk, rng), rng.choice(BLOWS), rng.uniform(0.2, 12)
        names = ", ".join(one.directory.name for one in struck)
        done[blow] += 1
        done["rounds"] += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(walk.publish_all(EACH))
            await asyncio.sleep(0.2)
            await strike(walk, struck, blow, lasts)
        began = time.monotonic()
        await walk.publish_all(1)
        await walk.until_even()
        took = time.monotonic() - began
        slowest = max(slowest, took)
        print(f"{done['rounds']}: {blow} {names} for {lasts:.1f} s, level after {took:.1f} s", flush=True)
    done["acknowledged"] = sum(map(len, walk.acknowledged.values()))
    print(f"slowest {slowest:.1f} s")
    await walk.close()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="leafd-walk-") as folder,
        hub(Path(folder), CLUSTERS, KINDS) as cluster,
    ):
        ports = [one.ports["leaf_port"] for one in cluster.servers if one.kind == R]
        hubs = ", ".join(f'"nats-leaf://a:a@127.0.0.1:{port}"' for port in ports)
        place = Path(folder) / "leaf"
        place.mkdir()
        leaf = servers.make(L, LEAF, place, hubs=hubs)
        leaf.start()
        try:
            print(dict(asyncio.run(walked(Mixed(cluster, leaf), given.seconds, random.Random(given.seed)))))
        finally:
            leaf.stop()


if __name__ == "__main__":
    main()
