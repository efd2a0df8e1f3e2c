"""Clients of a server without JetStream, in a cluster of three that have it: what the API says to them, and what their
operator may order, is the same whether all are leafd or nats-servers. One that asks without end delays no other.

Not here: streams and consumers that such clients use (test_cluster_jetstream.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_cluster_jetstream import started, until_ready
from tests.rig.comparison import told_alike
from tests.rig.official import connect
from tests.rig.waiting import until

WITHOUT = 3
ASKED_S = 10.0
STREAM = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}


async def said(client: Client, subject: str, body: object = None) -> Any:
    """The answer's error, or the members that are the same at each server."""
    payload = json.dumps(body).encode() if body is not None else b""
    found = json.loads((await client.request(f"$JS.API.{subject}", payload, timeout=ASKED_S)).data)
    if "error" in found:
        return found["type"], found["error"]["code"], found["error"]["err_code"]
    return found["type"], found.get("streams"), found.get("success"), found.get("config", {}).get("num_replicas")


async def asked(made: list[servers.Server]) -> list[Any]:
    """What clients of the server without JetStream are told, until two of the others are gone."""
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for user in ("a", "b", "c", "sys"):
            clients[user] = await connect(made[WITHOUT], user)
            stack.push_async_callback(clients[user].close)
        a, b, c, system = clients.values()
        await until_ready(a)
        told = [await said(c, "INFO"), await said(c, "STREAM.CREATE.S", STREAM)]  # no JetStream where there is one
        told += [await said(a, "STREAM.CREATE.S", STREAM), await said(a, "STREAM.NAMES"), await said(b, "STREAM.NAMES")]
        told += [
            await said(a, "STREAM.INFO.T"),
            await said(a, "CONSUMER.INFO.S.C"),
            await said(a, "STREAM.CREATE.X", 5),
        ]
        info = json.loads((await a.request("$JS.API.INFO", b"", timeout=ASKED_S)).data)
        told.append((info["type"], info["streams"]))
        told += [await said(a, "STREAM.PURGE.S"), await said(a, "STREAM.DELETE.S"), await said(a, "STREAM.NAMES")]
        told.append(await said(system, "META.LEADER.STEPDOWN"))
        for server in made[:2]:
            server.kill()

        async def leaderless() -> bool:
            with contextlib.suppress(nats.errors.TimeoutError):
                return bool((await said(a, "STREAM.CREATE.S", STREAM))[1] == 503)
            return False

        await until(leaderless, "one of three does not say that it is alone")
        told.append(await said(a, "STREAM.CREATE.S", STREAM))
        return told


def test_the_api_says_to_them_what_nats_servers_say(tmp_path: Path) -> None:
    """To clients of accounts with and without JetStream, about what is there and is not, with a leader and without."""

    def told(kind: str, folder: Path) -> list[Any]:
        with started((kind,) * 4, folder, WITHOUT) as made:
            return asyncio.run(asked(made))

    found = told_alike(told, tmp_path)
    assert [one[2] for one in (found[0], found[5], found[-1])] == [10039, 10059, 10008]


FLOOD = 30_000
LOOKS = 5


async def _times(made: list[servers.Server]) -> tuple[float, float]:
    """While a client of the server without JetStream asks without end for what costs disk: how long another account's
    client there waits for an answer at most, and how long a message takes over the same route."""
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for server, user in ((made[WITHOUT], "a"), (made[WITHOUT], "b"), (made[WITHOUT], "sys"), (made[0], "sys")):
            clients.append(await connect(server, user))
            stack.push_async_callback(clients[-1].close)
        flood, asker, sender, receiver = clients
        await until_ready(flood)
        await said(flood, "STREAM.CREATE.S", STREAM | {"num_replicas": 1})
        came = await receiver.subscribe("core")
        await receiver.flush()
        for _ in range(LOOKS):
            await said(asker, "INFO")

        async def over_the_route() -> float:
            begun = time.monotonic()
            await sender.publish("core", b"")
            await came.next_msg(timeout=ASKED_S)
            return time.monotonic() - begun

        await until_over(over_the_route)
        socket = await asyncio.open_connection("127.0.0.1", made[WITHOUT].port)
        stack.callback(socket[1].close)
        socket[1].write(b'CONNECT {"user":"a","pass":"a","verbose":false}\r\n' + b"".join(map(_create, range(FLOOD))))
        await socket[1].drain()
        answers, messages = [], []
        for _ in range(LOOKS):
            messages.append(await over_the_route())
            begun = time.monotonic()
            with contextlib.suppress(nats.errors.TimeoutError):
                await said(asker, "INFO")
            answers.append(time.monotonic() - begun)
        return max(answers), max(messages)


async def until_over(attempt: Callable[[], Awaitable[float]]) -> None:
    """Interest takes its time to the other end."""

    async def over() -> bool:
        with contextlib.suppress(nats.errors.TimeoutError):
            return await attempt() >= 0
        return False

    await until(over, "no message comes over the route")


def _create(number: int) -> bytes:
    body = b'{"stream_name":"S","config":{"durable_name":"C%d","ack_policy":"explicit"}}' % number
    return b"PUB $JS.API.CONSUMER.CREATE.S.C%d back %d\r\n%s\r\n" % (number, len(body), body)


def test_a_client_that_floods_delays_no_other_and_no_message(tmp_path: Path) -> None:
    """All their requests come by one route, which is read on while more than a share of them waits."""
    with started((servers.LEAFD,) * 3 + (servers.REFERENCE,), tmp_path, WITHOUT) as made:
        answer_s, message_s = asyncio.run(_times(made))
    assert (answer_s < 1.0, message_s < 1.0) == (True, True), (answer_s, message_s)
