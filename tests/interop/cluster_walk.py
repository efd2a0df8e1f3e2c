"""Servers of a mixed cluster, or of mixed clusters behind gateways, that are killed, stopped and reloaded at random.

    python -m tests.interop.cluster_walk LRL --seconds 600 [--seed N] [--gateways]      L is leafd, R nats-server

After each blow, and while servers are down, clients at all that live ask each other: every request is answered by the
one that it is for, each message of a queue group comes to one member, none twice; and when the answering ones are gone
nobody waits for them: there are no responders. Not here: leaves and streams (test_hub_streams.py).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop import test_cluster as of_cluster, test_supercluster as of_supercluster
from tests.rig.official import connect, until_heard
from tests.rig.waiting import PATIENCE_S, until

KINDS = {"L": servers.LEAFD, "R": servers.REFERENCE}
BLOWS = ["kill", "kill", "stop", "reload"]
EACH = 30


def answering(number: int, seen: dict[bytes, list[int]]) -> Callable[[Msg], Awaitable[None]]:
    async def answer(message: Msg) -> None:
        seen.setdefault(message.data, []).append(number)
        await message.respond(b"%d" % number)

    return answer


async def has_none(client: Client, subject: str) -> bool:
    try:
        await client.request(subject, b"", timeout=5)
    except nats.errors.NoRespondersError:
        return True
    except nats.errors.TimeoutError:
        pass
    return False


async def ask(clients: list[Client], name: str, done: Counter[str]) -> None:
    """Each asks each, and the group."""
    seen: dict[bytes, list[int]] = {}
    subscriptions = []
    for number, client in enumerate(clients):
        answer = answering(number, seen)
        subscriptions.append(await client.subscribe(f"svc.{name}.{number}", cb=answer))
        subscriptions.append(await client.subscribe(f"all.{name}", queue="g", cb=answer))
        await client.flush(int(PATIENCE_S))
    await until_heard(clients, f"there.{name}")
    for message in range(EACH):
        for asks, client in enumerate(clients):
            for answers in range(len(clients)):
                body = b"%d.%d.%d" % (asks, answers, message)
                found = await client.request(f"svc.{name}.{answers}", body, timeout=PATIENCE_S)
                assert found.data == b"%d" % answers
            await client.request(f"all.{name}", b"%d.%d" % (asks, message), timeout=PATIENCE_S)
            done["requests"] += len(clients) + 1
    await asyncio.sleep(0.1)
    assert all(len(takers) == 1 for takers in seen.values()), seen
    for subscription in subscriptions:
        await subscription.unsubscribe()
    await until_heard(clients, f"gone.{name}")
    for client in clients:
        for subject in (*(f"svc.{name}.{number}" for number in range(len(clients))), f"all.{name}"):
            await until(partial(has_none, client, subject), f"{subject} is still wanted")
            done["nobody"] += 1


async def come(server: servers.Server) -> Client:
    """A client of it. A nats-server that reloads ends whoever is about to log in: "authentication error"."""
    try:
        return await connect(server)
    except (OSError, nats.errors.Error):
        if server.kind != servers.REFERENCE:
            raise
    return await connect(server)


async def holds(living: list[servers.Server], name: str, done: Counter[str]) -> None:
    clients = [await come(server) for server in living]
    try:
        await until_heard(clients, f"begin.{name}")
        await ask(clients, name, done)
    finally:
        for client in clients:
            await client.close()


def struck(server: servers.Server, blow: str) -> bool:
    """Whether it is down now."""
    if blow == "reload":
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGHUP)
        return False
    server.kill() if blow == "kill" else server.stop()
    return True


def walk(all_of_them: list[servers.Server], seconds: float, rng: random.Random) -> Counter[str]:
    """Until the time is over, or something does not hold."""
    done: Counter[str] = Counter()
    end = time.monotonic() + seconds
    asyncio.run(holds(all_of_them, "first", done))
    while time.monotonic() < end:
        done["rounds"] += 1
        blows = {server.directory: rng.choice(BLOWS) for server in rng.sample(all_of_them, rng.choice([1, 1, 1, 2]))}
        done.update(blows.values())
        down = [one for one in all_of_them if one.directory in blows and struck(one, blows[one.directory])]
        living = [one for one in all_of_them if one not in down]
        if len(living) > 1 and rng.random() < 0.5:
            asyncio.run(holds(living, f"{done['rounds']}a", done))
        time.sleep(rng.uniform(0, 1.5))
        for server in down:
            server.start()
        asyncio.run(holds(all_of_them, f"{done['rounds']}b", done))
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", help="of the three servers, as LRL")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--gateways", action="store_true", help="each server is a cluster of its own")
    given = parser.parse_args()
    kinds = tuple(KINDS[letter] for letter in given.kinds)
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="leafd-walk-") as folder:
        place, rng = Path(folder), random.Random(given.seed)
        if given.gateways:
            with of_supercluster.started(kinds, place) as clusters:
                asyncio.run(clusters.until_met())
                print(dict(walk(clusters.servers, given.seconds, rng)))
            return
        with of_cluster.started(kinds, place) as cluster:
            print(dict(walk(cluster.servers, given.seconds, rng)))


if __name__ == "__main__":
    main()
