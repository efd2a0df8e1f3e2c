"""How long a mirror at a leaf waits when the stream's leader moves.

    python -m tests.bench.moves [rounds] [leafd | nats-server]

A hub of three nats-servers has a stream with three replicas, a leaf has its mirror. A message a tenth of a second is
published at the hub, each until it is acknowledged. The leader steps down, or is killed and started again a second
later. Measured is the time from the first message that is acknowledged behind that to its being in the mirror: what the
hub itself needs for an election does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests import servers
from tests.interop.test_hub_servers import linked
from tests.interop.test_hub_streams import Walk, asked, hub, leaf_below

PUBLISH_EACH_S = 0.1
LOOK_EACH_S = 0.02


async def last_of(walk: Walk) -> int:
    async with walk.at_leaf() as client:
        found = await asked(client, "$JS.API.STREAM.INFO.M3")
    last: int = found["state"]["last_seq"]
    return last


async def waited_s(walk: Walk, how: str) -> float:
    """From the first acknowledged message behind the move to the mirror's having it."""
    leader = await walk.until_led("DOWN3")
    if how == "kill":
        leader.kill()
    else:
        async with walk.at_hub() as client:
            await asked(client, "$JS.API.STREAM.LEADER.STEPDOWN.DOWN3")
    since: float | None = None

    async def publish() -> None:
        nonlocal since
        while since is None or await last_of(walk) < wanted:
            await walk.publish("DOWN3", 1)
            since = since if since is not None else time.monotonic()
            await asyncio.sleep(PUBLISH_EACH_S)

    wanted = len(walk.acknowledged["DOWN3"]) + 1
    async with asyncio.TaskGroup() as group:
        group.create_task(publish())
        if how == "kill":
            await asyncio.sleep(1)
            leader.start()
        while await last_of(walk) < wanted:
            await asyncio.sleep(LOOK_EACH_S)
        ended = time.monotonic()
    return ended - since if since is not None else 0.0


async def measure(walk: Walk, rounds: int) -> None:
    await walk.make_streams()
    await walk.publish("DOWN3", 10)
    for how in ("step-down", "kill"):
        by: dict[str, list[float]] = {"linked": [], "other": []}
        for _ in range(rounds):
            leader, at = await walk.until_led("DOWN3"), await linked(walk.hub, walk.leaf)
            which = "linked" if leader is at else "other"
            by[which].append(await waited_s(walk, how))
            await asyncio.sleep(2)
        for which, found in by.items():
            if found:
                middle, most = statistics.median(found), max(found)
                where = f"{walk.leaf.kind}: {how} of the leader at the {which} server"
                print(f"{where}: median {middle:.2f} s, most {most:.2f} s, of {len(found)}", flush=True)
    await walk.close()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for kind in sys.argv[2:] or servers.KINDS:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            cluster = stack.enter_context(hub(Path(folder)))
            leaf = stack.enter_context(leaf_below(cluster.servers[0], Path(folder), kind))
            asyncio.run(measure(Walk(cluster, leaf), rounds))


if __name__ == "__main__":
    main()
