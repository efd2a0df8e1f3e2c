"""Backups of a nats-server before 2.15, whose archive is a tar of its files: one was recorded (backup_2_12.json).

Twenty messages in turn to s.1 .. s.10 (`hello N`, header A: bN) and s.x (`plain N`); the seventh was removed; the
consumer w had five of them and acknowledged three.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.rig.official import ask
from tests.servers import KINDS, LEAFD, Server, running

RECORDED = json.loads((Path(__file__).parent / "backup_2_12.json").read_text())
ARCHIVE = base64.b64decode(RECORDED["archive"])
CONFIGURATION = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'


async def restored(client: Client, archive: bytes, chunk: int) -> dict[str, Any]:
    """The answer that ends it."""
    body = {"config": RECORDED["config"], "state": RECORDED["state"]}
    to = (await ask(client, "$JS.API.STREAM.RESTORE.S", body))["deliver_subject"]
    for at in range(0, len(archive), chunk):
        answer = (await client.request(to, archive[at : at + chunk], timeout=20)).data
        if answer:
            return dict(json.loads(answer))
    return dict(json.loads((await client.request(to, b"", timeout=20)).data))


async def walk(server: Server, chunk: int) -> None:
    client = await nats.connect(server.url)
    answer = await restored(client, ARCHIVE, chunk)
    assert "error" not in answer, answer
    state = {key: answer["state"][key] for key in ("messages", "bytes", "first_seq", "last_seq", "num_subjects")}
    assert state == {key: RECORDED["state"][key] for key in state}
    for sequence in range(1, 21):
        found = await ask(client, "$JS.API.STREAM.MSG.GET.S", {"seq": sequence})
        if sequence == 7:
            assert found["error"]["err_code"] == 10037
            continue
        number = (sequence + 1) // 2
        subject, text = (f"s.{number}", f"hello {number}") if sequence % 2 else ("s.x", f"plain {number}")
        assert (subject, text) == (found["message"]["subject"], base64.b64decode(found["message"]["data"]).decode())
        header = base64.b64decode(found["message"].get("hdrs", "")).decode()
        assert header == (f"NATS/1.0\r\nA: b{number}\r\n\r\n" if sequence % 2 else "")
    assert (await ask(client, "$JS.API.STREAM.MSG.GET.S", {"seq": 1}))["message"]["time"] == RECORDED["state"][
        "first_ts"
    ]
    consumer = await ask(client, "$JS.API.CONSUMER.INFO.S.w")
    assert (consumer["delivered"]["stream_seq"], consumer["ack_floor"]["stream_seq"]) == (5, 3)
    assert (consumer["num_ack_pending"], consumer["num_pending"]) == (2, 14)
    context = client.jetstream()
    subscription = await context.pull_subscribe_bind("w", "S")
    (message,) = await subscription.fetch(1)
    assert message.metadata.sequence.stream in (4, 5, 6)  # those in flight come again when their time is over
    await context.publish("s.x", b"goes on")
    await ask(client, "$JS.API.STREAM.DELETE.S")
    await client.close()


def test_a_backup_of_an_older_server_is_the_stream_that_it_had() -> None:
    """Messages with sequences, times and headers, what was removed, where consumers stood; in chunks of any size."""
    with running(LEAFD, CONFIGURATION) as server:
        for chunk in (100_000, 300):
            asyncio.run(walk(server, chunk))


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_cut_is_told(kind: str) -> None:
    """The client hears of it, and there is no stream: an older archive is taken whole or not at all."""

    async def cut(server: Server) -> None:
        client = await nats.connect(server.url)
        assert "error" in await restored(client, ARCHIVE[:-40], 100)
        assert 10059 == (await ask(client, "$JS.API.STREAM.INFO.S"))["error"]["err_code"]
        await client.close()

    with running(kind, CONFIGURATION) as server:
        asyncio.run(cut(server))
