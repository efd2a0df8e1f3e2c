"""Counters that three servers keep, beside three nats-servers: sums, in batches, too, and of what sources bring.

Not here: counters of one server (tests/wire), sums under kills (tests/crash/histories).
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_batches import IDENTITY
from tests.interop.test_replicated_streams import led_by, made_by, same_at_both
from tests.rig.official import ask, headed, must, one_each
from tests.rig.waiting import until

MORE: dict[str, Any] = {"allow_msg_counter": True, "allow_atomic": True, "subjects": ["s.>"], "max_msgs_per_subject": 3}
SOURCES: tuple[dict[str, Any], ...] = (
    {"name": "O", "subjects": ["o.>"], "num_replicas": 3, "allow_msg_counter": True, "allow_direct": True},
    {
        "name": "D",
        "sources": [{"name": "S"}, {"name": "O", "subject_transforms": [{"src": "o.*", "dest": "s.{{wildcard(1)}}"}]}],
        "num_replicas": 3,
        "allow_msg_counter": True,
        "allow_direct": True,
    },
)


async def made_as(client: Client, config: dict[str, Any]) -> None:
    """Makes the stream, as soon as all servers can take part."""

    async def there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await must(client, f"$JS.API.STREAM.CREATE.{config['name']}", config)
            return True
        return False

    await until(there, f"{config['name']} is not made")


async def add(client: Client, subject: str, payload: bytes = b"", **more: str) -> Any:
    """An answer to a message with these headers."""
    return await ask(client, subject, payload, seconds=20, headers=headed(**more))


async def held(client: Client, stream: str) -> list[tuple[str, str, str]]:
    """A stream's messages: subject, headers, payload."""
    state = (await must(client, f"$JS.API.STREAM.INFO.{stream}"))["state"]
    rows = []
    for sequence in range(1, state["last_seq"] + 1):
        body = json.dumps({"seq": sequence}).encode()
        answer = json.loads((await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", body, timeout=10)).data)
        if "message" in answer:
            one = answer["message"]
            headers = IDENTITY.sub(r"\1", base64.b64decode(one.get("hdrs", "")).decode())
            rows.append((one["subject"], headers, base64.b64decode(one.get("data", "")).decode()))
    return rows


async def added(client: Client) -> list[object]:
    """Increments one by one, and such as no counter takes."""
    told = [await add(client, "s.a", Incr=word) for word in ("1", "41", "-7", "+3", "0", "9" * 40)]
    told += [await add(client, "s.b", Incr=word) for word in ("one", "", "1.5", "9" * 400, "-" + "9" * 399)]
    told += [await add(client, "s.a"), await add(client, "s.a", b"x", Incr="1")]
    told += [await add(client, "s.a", Incr="1", Expected_Last_Sequence="5"), await add(client, "s.a", Msg_Id="x")]
    told += [await add(client, "s.c", Incr="1", Msg_Id="x"), await add(client, "s.c", Incr="1", Msg_Id="x")]
    for name, words in (("b", ("5", "6", "-1")), ("w", ("1", "two")), ("n", ("1", ""))):
        for number, word in enumerate(words, 1):
            end = {"Batch_Commit": "1"} if number == len(words) else {}
            headers = {"Batch_Id": name, "Batch_Sequence": str(number), "Incr": word} | end
            said = await client.request(
                ("s.a", "s.d")[number % 2],
                timeout=20,
                headers={f"Nats-{key.replace('_', '-')}": value for key, value in headers.items()},
            )
            told.append(json.loads(said.data) if said.data else None)
    return told


SUMMED = re.compile(r"Nats-Counter-Sources: (.*)\r\n")


async def sourced(client: Client) -> list[object]:
    """What the stream with sources has at last for each subject: its sum, and what each source brought. In which order
    the sources come is for each run to say."""
    expected = {subject for subject, _, _ in await held(client, "S")} | {"s.o"}
    found: dict[str, tuple[str, dict[str, object]]] = {}

    async def all_there() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            for subject, headers, payload in await held(client, "D"):
                (sources,) = SUMMED.findall(headers)
                found[subject] = (payload, json.loads(sources))
        total = sum(len(sources) for _, sources in found.values())
        return set(found) == expected and total == len(expected) + 1  # one subject is brought by both

    await until(all_there, "the sources bring not all")
    return [found[subject] for subject in sorted(found)]


async def walk(made: list[servers.Server]) -> list[object]:
    names = {f"s{number}": server for number, server in enumerate(made)}
    first = await made_by(made[0], set(names), **MORE)
    other = next(server for name, server in names.items() if name != first)
    async with one_each([other]) as (client,):
        told = await added(client)
        told.append(await held(client, "S"))
        names[first].kill()
        await led_by(client, but=first)
        answers: list[object] = []

        async def answered() -> bool:  # that a new one listens is not known at once
            with contextlib.suppress(nats.errors.NoRespondersError, nats.errors.TimeoutError):
                answers.append(await add(client, "s.e", Incr="2"))
            return bool(answers)

        await until(answered, "nobody takes an increment")
        told += [await add(client, "s.a", Incr="1"), await add(client, "s.d", Incr="1")]
    names[first].start()
    async with one_each([other]) as (client,):
        for config in SOURCES:
            await made_as(client, config)
        told += [await add(client, f"o.{name}", Incr=word) for name, word in (("o", "7"), ("a", "-3"), ("a", "5"))]
        told.append(await sourced(client))
    return told


def test_counters_of_three_servers_are_those_of_nats_servers(tmp_path: Path) -> None:
    """Sums, refusals, batches, what sources bring, and the same behind their leader's death."""
    same_at_both(walk, tmp_path)
