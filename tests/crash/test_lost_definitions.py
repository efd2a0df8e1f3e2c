"""Both copies of a definition are damaged: its name is kept for it, and everybody who asks hears why.

The bytes of names and copies: native/disk/env_names.c, env_twins.c. Which single pages lose nothing: damaged.py.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests import servers
from tests.crash.damaged import api, configured, file_of
from tests.crash.pages import PAGE, kinds_of
from tests.servers import LEAFD, Server, running

OFFLINE = 10194
CONSUMER_OFFLINE = 10195
STREAMS = ("LOST", "OTHER")


async def fill(server: Server) -> None:
    client = await nats.connect(server.url)
    for name in STREAMS:
        made = await api(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
        assert "error" not in made, made
        for number in range(20):
            await client.request(f"{name}.a", f"{name} {number}".encode(), timeout=5)
    body = {"stream_name": "OTHER", "config": {"durable_name": "reader", "ack_policy": "all"}}
    assert "error" not in await api(client, "CONSUMER.CREATE.OTHER.reader", body)
    await client.close()


def spoil_entries(path: Path, text: bytes) -> int:
    """One bit in each definition with that text, wherever it stands: older commits have some, too."""
    content, found, at = bytearray(path.read_bytes()), 0, 0
    while (at := content.find(text, at)) >= 0:
        content[at + 3] ^= 4
        found, at = found + 1, at + 1
    path.write_bytes(content)
    return found


def spoil_pages(path: Path) -> None:
    """All pages that have definitions, of both copies."""
    kinds, chance = kinds_of(path), random.Random(5)
    with path.open("r+b") as file:
        for page in kinds["records leaf"] + kinds["record_copies leaf"]:
            file.seek(page * PAGE)
            file.write(chance.randbytes(PAGE))


def code_of(answer: dict[str, Any]) -> int | None:
    code: int | None = answer.get("error", {}).get("err_code")
    return code


def health(server: Server, query: str = "") -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/healthz{query}", timeout=5) as page:
            return page.status, json.loads(page.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


async def is_refused(client: Client, name: str) -> None:
    """Nothing but to delete it is done under that name, and it is listed."""
    wanted = {"name": name, "subjects": [f"{name}.>"]}
    asked = [
        await api(client, f"STREAM.CREATE.{name}", wanted),
        await api(client, f"STREAM.UPDATE.{name}", wanted),
        await api(client, f"STREAM.INFO.{name}"),
        await api(client, f"STREAM.PURGE.{name}"),
        await api(client, f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": {"ack_policy": "none"}}),
    ]
    for answer in asked:
        assert OFFLINE == code_of(answer), answer
        assert "damaged in all places" in answer["error"]["description"]  # type: ignore[index]
    offline = (await api(client, "STREAM.LIST"))["offline"]
    assert isinstance(offline, dict)
    assert name in offline


@pytest.mark.parametrize("store", ["plain", "sealed"])
def test_pages_of_all_definitions(store: str) -> None:
    """No page with a definition is left: each name is refused with its reason, over restarts, until it is deleted."""

    async def refused(server: Server) -> None:
        client = await nats.connect(server.url)
        for name in STREAMS:
            await is_refused(client, name)
        with pytest.raises(nats.errors.NoRespondersError):
            await client.request("LOST.a", b"more", timeout=5)
        await client.close()

    async def deleted(server: Server) -> None:
        client = await nats.connect(server.url)
        for name in STREAMS:
            assert {"success": True} == {
                key: value for key, value in (await api(client, f"STREAM.DELETE.{name}")).items() if key != "type"
            }
            made = await api(client, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
            assert "error" not in made
            assert 0 == made["state"]["messages"]  # type: ignore[index]
        await client.close()

    with running(LEAFD, configured(store)) as server:
        asyncio.run(fill(server))
        assert 0 == server.stop()
        spoil_pages(file_of(server, "data.mdb"))
        for _ in range(2):
            server.start()
            asyncio.run(refused(server))
            assert server.log.count('stream "LOST" of account "$G" stays on disk unserved') >= 1
            assert 0 == server.stop()
        server.start()
        asyncio.run(deleted(server))
        assert 0 == server.stop()
        server.start()
        assert "offline" not in health(server)[1]
        assert 0 == server.stop()


def test_one_definition(tmp_path: Path) -> None:
    """One stream's definition is gone, and another's consumer: all else is served, and every report names them."""

    async def scenario(server: Server) -> None:
        client = await nats.connect(server.url)
        await is_refused(client, "LOST")
        info = await api(client, "STREAM.INFO.OTHER")
        assert 20 == info["state"]["messages"]  # type: ignore[index]
        assert CONSUMER_OFFLINE == code_of(await api(client, "CONSUMER.INFO.OTHER.reader"))
        again = {"stream_name": "OTHER", "config": {"durable_name": "reader", "ack_policy": "all"}}
        assert CONSUMER_OFFLINE == code_of(await api(client, "CONSUMER.CREATE.OTHER.reader", again))
        status, told = health(server)
        assert 200 == status
        assert {"$G > LOST", "$G > OTHER > reader"} == set(told["offline"])
        assert told["damaged"]
        assert 503 == health(server, "?account=$G&stream=LOST")[0]
        assert 503 == health(server, "?account=$G&stream=OTHER&consumer=reader")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/jsz?accounts=1", timeout=5) as page:
            (account,) = json.loads(page.read())["account_details"]
        assert {"LOST", "OTHER > reader"} == set(account["leafd"]["offline"])
        assert {"type", "success"} == set(await api(client, "CONSUMER.DELETE.OTHER.reader"))
        assert {"type", "success"} == set(await api(client, "STREAM.DELETE.LOST"))
        assert "error" not in await api(client, "CONSUMER.CREATE.OTHER.reader", again)
        await client.close()

    with running(LEAFD, configured("plain")) as server:
        asyncio.run(fill(server))
        assert 0 == server.stop()
        path = file_of(server, "data.mdb")
        assert spoil_entries(path, b'"config":{"name":"LOST"') >= 2
        assert spoil_entries(path, b'"config":{"durable_name":"reader"') >= 2
        found = servers.leafd("store", "check", "--store", path.parent)
        assert found.returncode != 0
        assert "the definition of stream 1 is lost in both copies" in found.stdout
        assert "the definition of a consumer of stream 2 is lost in both copies" in found.stdout
        server.start()
        asyncio.run(scenario(server))
        assert 0 == server.stop()
        server.start()
        assert {"status": "ok"} == health(server)[1]
        assert 0 == server.stop()
