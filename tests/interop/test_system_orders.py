"""What the system account's users order a server to do, beside nats-server: the answer, and what it does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client

from tests import servers
from tests.rig.official import ask, connect
from tests.rig.waiting import PATIENCE_S

CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: box
jetstream { store_dir: "{store}" }
accounts {
  A { jetstream: enabled, users: [{user: a, password: a}]
      imports: [{service: {account: SYS, subject: "$SYS.DEBUG.SUBSCRIBERS"}, to: "how.many"}] }
  SYS { users: [{user: s, password: s}], exports: [{service: "$SYS.DEBUG.SUBSCRIBERS"}] }
}
system_account: SYS
"""


@pytest.fixture(params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Any:
    with servers.running(request.param, CONFIGURATION) as one:
        yield one


@asynccontextmanager
async def connected(server: servers.Server, user: str) -> AsyncIterator[Client]:
    client = await connect(server, user, allow_reconnect=True)
    yield client
    await client.close()


def test_an_account_is_purged(server: servers.Server) -> None:
    """Its streams are gone, with what was in them; an account that is not there has none."""

    async def check() -> None:
        async with connected(server, "a") as client, connected(server, "s") as operator:
            streams = client.jetstream()
            for name in ("S", "T"):
                await streams.add_stream(name=name, subjects=[f"{name}.>"])
                await streams.publish(f"{name}.x", b"1")
            answer = await ask(operator, "$JS.API.ACCOUNT.PURGE.A")
            assert answer == {"type": "io.nats.jetstream.api.v1.account_purge_response", "initiated": True}
            assert (await streams.account_info()).streams == 0
            assert (await ask(operator, "$JS.API.ACCOUNT.PURGE.NONE"))["initiated"]

    asyncio.run(check())


def test_a_client_is_asked_to_connect_elsewhere(server: servers.Server) -> None:
    """It gets an INFO that says lame duck mode, and stays until it goes."""

    async def check() -> None:
        async with connected(server, "s") as operator:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            own = json.loads((await reader.readline()).removeprefix(b"INFO "))
            writer.write(b'CONNECT {"user":"a","pass":"a","verbose":false,"protocol":1}\r\nPING\r\n')
            while await reader.readline() != b"PONG\r\n":
                pass
            subject = f"$SYS.REQ.SERVER.{own['server_id']}.LDM"
            assert "error" not in await ask(operator, subject, {"cid": own["client_id"]})
            told = dict[str, Any]()
            while not told.get("ldm"):
                told = json.loads((await reader.readline()).removeprefix(b"INFO "))
            assert told["client_id"] == own["client_id"]
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"PONG\r\n"
            writer.close()
            await writer.wait_closed()
            wrong = await ask(operator, subject, {"cid": 1_000_000})
            assert wrong["error"] == {"code": 500, "description": "no such client id"}

    asyncio.run(check())


def test_how_many_hear_a_subject(server: servers.Server) -> None:
    """Clients' subscriptions of the account that asks: those that match a subject, or, where it has wildcards, those
    within it; of a queue group, if one is named. Streams do not count."""
    expected = {
        b"foo.bar": b"5", b"foo.bar q": b"2", b"foo.bar q more": b"2", b" foo.bar ": b"5", b"foo.*": b"5",
        b"foo.* q": b"2", b"foo.* x": b"0", b"foo.>": b"5", b"*.bar": b"3", b"none": b"0", b"": b"0", b"a b c": b"0",
    }  # fmt: skip

    async def check() -> None:
        async with connected(server, "a") as client, connected(server, "s") as operator:
            await client.jetstream().add_stream(name="S", subjects=["foo.>"])
            for subject, group in (("foo.bar", ""), ("foo.*", ""), ("foo.bar", "q"), ("foo.*", "q"), ("foo.bar", "r")):
                await client.subscribe(subject, group)
            await operator.subscribe("foo.bar")
            await client.flush()
            await operator.flush()
            found = {one: (await client.request("how.many", one, timeout=PATIENCE_S)).data for one in expected}
            assert expected == found
            assert b"1" == (await operator.request("$SYS.DEBUG.SUBSCRIBERS", b"foo.bar", timeout=PATIENCE_S)).data

    asyncio.run(check())
