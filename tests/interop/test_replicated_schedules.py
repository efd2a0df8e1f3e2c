"""Schedules of streams that three servers keep, beside three nats-servers: they fire once, go on when their leader is
killed, and end.

Not here: what a schedule may say (tests/interop/test_schedule_rights.py, tests/wire), a log's entries
(tests/native/test_replicas_schedules.c).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_replicated_streams import led_by, made_by, same_at_both, state_at
from tests.rig.official import ask, headed, must, one_each
from tests.rig.waiting import eventually, until

MORE: dict[str, Any] = {"allow_msg_schedules": True, "allow_msg_ttl": True}
NO_MESSAGE = 10037
OWN = re.compile(r"Nats-Schedule-Author: .*\r\n|(Nats-Schedule-Next: )\d.*(\r\n)")
"""What differs with each run: the next time, and the author, whom only leafd notes."""


async def publish(client: Client, subject: str, payload: bytes = b"", **more: str) -> Any:
    return await ask(client, subject, payload, headers=headed(**more))


def in_s(seconds: float) -> str:
    at = time.time() + seconds
    return "@at " + time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03}Z"


async def last(client: Client, subject: str) -> dict[str, Any]:
    """The newest message there; empty: there is none."""
    body = json.dumps({"last_by_subj": subject}).encode()
    while True:
        with contextlib.suppress(nats.errors.Error):
            answer = json.loads((await client.request("$JS.API.STREAM.MSG.GET.S", body, timeout=2)).data)
            if answer.get("error", {}).get("err_code") in (None, NO_MESSAGE):
                return dict(answer.get("message", {}))
        await asyncio.sleep(0.1)  # nobody leads now


async def made(client: Client, subject: str, *, behind: int = 0) -> dict[str, Any]:
    """What a schedule made there, behind that sequence."""

    async def there() -> bool:
        return int((await last(client, subject)).get("seq", 0)) > behind

    await until(there, f"nothing is made at {subject}")
    return await last(client, subject)


async def gone(client: Client, subject: str) -> None:
    async def is_gone() -> bool:
        return not await last(client, subject)

    await until(is_gone, f"{subject} stays")


def shown(message: dict[str, Any]) -> list[str]:
    headers = OWN.sub(r"\1\2", base64.b64decode(message.get("hdrs", "")).decode())
    return [message["subject"], headers, base64.b64decode(message.get("data", "")).decode()]


async def fired(client: Client) -> list[object]:
    """Schedules for a moment: one that stays plain, one with all that it may say, and such as are none."""
    told: list[object] = [await publish(client, "s.data", b"data", Expected_Stream="S")]
    told.append(await publish(client, "s.p.1", b"one", Schedule=in_s(0.3), Schedule_Target="s.t.1"))
    whole = {"Schedule_Source": "s.data", "Schedule_TTL": "1h", "Schedule_Target": "s.t.2", "Msg_Id": "x"}
    told.append(await publish(client, "s.p.2", b"two", Schedule=in_s(0.3), **whole))
    told.append(await publish(client, "s.p.3", Schedule="@often", Schedule_Target="s.t.3"))
    told.append(await publish(client, "s.p.3", Schedule=in_s(9), Schedule_Target="elsewhere"))
    told.append(await publish(client, "s.p.3", Schedule=in_s(9), Schedule_Target="s.p.3"))
    told.append(await publish(client, "s.x", Schedule_Next="purge", Scheduler="s.data"))
    for number in (1, 2):
        told.append(shown(await made(client, f"s.t.{number}")))
        await gone(client, f"s.p.{number}")
    return told


async def walk(at: list[servers.Server]) -> list[object]:
    names = {f"s{number}": server for number, server in enumerate(at)}
    first = await made_by(at[0], set(names), **MORE)
    other = next(server for name, server in names.items() if name != first)
    async with one_each([other]) as (client,):
        told = await fired(client)
        told.append((await publish(client, "s.p.e", b"e", Schedule="@every 1s", Schedule_Target="s.t.e"))["seq"])
        told.append((await publish(client, "s.p.l", b"l", Schedule=in_s(3), Schedule_Target="s.t.l"))["seq"])
        told.append(shown(await made(client, "s.t.e")))
        names[first].kill()
        await led_by(client, but=first)
        later = await made(client, "s.t.l")
        told.append(shown(later))
        told.append(shown(await made(client, "s.t.e", behind=later["seq"])))
        ended = await publish(client, "s.t.e", b"end", Schedule_Next="purge", Scheduler="s.p.e")
        told.append(sorted(ended))
        await gone(client, "s.p.e")
        await asyncio.sleep(1.5)
        assert (await last(client, "s.t.e"))["seq"] == ended["seq"], "it fires on behind its end"
        counts = (await must(client, "$JS.API.STREAM.INFO.S", {"subjects_filter": "s.>"}))["state"]["subjects"]
    names[first].start()
    expected = state_at(other)
    eventually(lambda: all(state_at(server) == expected for server in at), lambda: [state_at(one) for one in at])
    return [*told, sorted(counts), {name: count for name, count in counts.items() if name != "s.t.e"}]


def test_schedules_of_three_servers_fire_as_those_of_nats_servers(tmp_path: Path) -> None:
    """Once, with all that they say, also when their leader is killed; and not behind their end."""
    same_at_both(walk, tmp_path)
