"""Batches into streams that three servers keep, beside three nats-servers: answers and what is stored are the same, and
a leader that dies in the middle of a batch leaves nothing of it.

Not here: batches of one server (tests/wire, test_batches.py), a log's entries (tests/native/test_replicas_batches.c).
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L
from tests.interop.test_replicated_streams import alike, led_by, made_by, same_at_both, stored
from tests.rig.official import ask, connect, headed, must, one_each
from tests.rig.waiting import until

MORE: dict[str, Any] = {
    "allow_atomic": True,
    "allow_rollup_hdrs": True,
    "allow_msg_ttl": True,
    "discard": "new",
    "max_msgs": 40,
    "max_msgs_per_subject": 5,
}


class Batches:
    """One who sends batches, and what is answered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.told: list[object] = []

    async def one(self, batch: str, number: int, subject: str = "s.a", **more: str) -> Any:
        """A message of a batch; more: further headers."""
        headers = headed(Batch_Id=batch, Batch_Sequence=number, **more)
        answer = await ask(self._client, subject, f"{batch}{number}".encode(), seconds=20, headers=headers) or None
        self.told.append(answer)
        return answer

    async def all(self, batch: str, *messages: dict[str, str]) -> Any:
        """A whole batch, which its last message commits."""
        answer = None
        for number, more in enumerate(messages, 1):
            commit = {"Batch_Commit": "1"} if number == len(messages) else {}
            answer = await self.one(batch, number, more.get("subject", "s.a"), **without(more, "subject"), **commit)
        return answer


def without(of: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in of.items() if key != name}


async def conversation(batches: Batches) -> None:
    """What batches may have, and what refuses them."""
    await batches.all("plain", {}, {"subject": "s.b"}, {"Msg_Id": "x"})
    await batches.all("again", {"subject": "s.c"}, {"Msg_Id": "x"})
    await batches.all("twice", {"Msg_Id": "y"}, {"subject": "s.c", "Msg_Id": "y"})
    await batches.all("right", {"Expected_Last_Sequence": "3"}, {"subject": "s.d"})
    await batches.all("wrong", {"Expected_Last_Sequence": "3"}, {"subject": "s.d"})
    await batches.all("late", {}, {"Expected_Last_Sequence": "6"})
    await batches.all("of", {"Expected_Last_Subject_Sequence": "2", "subject": "s.b"}, {"subject": "s.e"})
    await batches.all("of2", {}, {"Expected_Last_Subject_Sequence": "2", "subject": "s.b"})
    await batches.all("of3", {"subject": "s.b"}, {"Expected_Last_Subject_Sequence": "6", "subject": "s.b"})
    await batches.all("id", {"Expected_Last_Msg_Id": "x"}, {})
    await batches.all("lived", {"TTL": "1h", "subject": "s.t"}, {"TTL": "never", "subject": "s.t"})
    await batches.all("ttl", {}, {"TTL": "often"})
    await batches.all("roll", {"Rollup": "sub"}, {"subject": "s.f"})
    await batches.all("roll2", {}, {"Rollup": "sub"})
    await batches.all("roll3", {}, {"Rollup": "all"})
    await batches.all("word", {"Rollup": "some"}, {})
    await batches.all("incr", {"Incr": "1"}, {})
    await batches.all("first", {"Expected_Last_Sequence": "1"}, {"TTL": "often"})
    await batches.one("gap", 1)
    await batches.one("gap", 3)
    await batches.one("unknown", 2)
    await batches.one("e", 1)
    await batches.one("e", 2, "s.g")
    await batches.one("e", 3, Batch_Commit="eob")
    await batches.one("odd", 1, Batch_Commit="maybe")
    await batches.one("level", 1, Required_Api_Level="99")
    await batches.one("x" * 65, 1)
    await batches.all("many", *({"subject": f"s.n.{number}"} for number in range(40)))
    await batches.all("some", *({"subject": f"s.n.{number % 3}"} for number in range(15)))
    await batches.all("full", *({"subject": "s.n.0"} for _ in range(2)))
    await batches.all("all", {"Rollup": "all", "subject": "s.z"}, {"subject": "s.y"})


async def in_the_middle(made: list[servers.Server]) -> list[object]:
    """The leader dies when all but the end of a batch is there, and the next one is asked to commit it."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    client = await connect(made[0])
    leader = await led_by(client)
    await client.close()
    other = next(server for name, server in names.items() if name != leader)
    async with one_each([other]) as (client,):
        batches = Batches(client)
        await batches.one("cut", 1)
        await batches.one("cut", 2)
        names[leader].kill()
        await led_by(client, but=leader)
        answers: list[object] = []

        async def answered() -> bool:  # that a new one listens is not known at once
            with contextlib.suppress(nats.errors.NoRespondersError, nats.errors.TimeoutError):
                answers.append(await batches.one("cut", 3, Batch_Commit="1"))
            return bool(answers)

        await until(answered, "nobody takes the batch's end")
        await batches.all("next", {"subject": "s.w"}, {"subject": "s.v"})
        told = batches.told
    names[leader].start()
    return told


async def at_the_leader(made: list[servers.Server]) -> tuple[list[str], dict[str, Any]]:
    """As `alike`. A nats-server that was killed may keep what the last rollup took elsewhere."""
    async with one_each(made[1:2]) as (client,):
        await led_by(client)
        state: dict[str, Any] = (await must(client, "$JS.API.STREAM.INFO.S"))["state"]
        return await stored(client, state["messages"]), state


async def walk(made: list[servers.Server]) -> list[object]:
    await made_by(made[0], {"s0", "s1", "s2"}, **MORE)
    async with one_each(made[1:2]) as (client,):
        batches = Batches(client)
        await conversation(batches)
    told = batches.told + await in_the_middle(made)
    everywhere, state = await (alike if made[0].kind == L else at_the_leader)(made)
    return [*told, everywhere, [state[name] for name in ("messages", "first_seq", "last_seq", "bytes")]]


def test_batches_of_three_servers_are_answered_and_stored_as_at_nats_servers(tmp_path: Path) -> None:
    """And what was not committed when the leader died is nowhere."""
    same_at_both(walk, tmp_path)
