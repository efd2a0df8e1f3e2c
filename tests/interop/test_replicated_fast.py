"""Fast batches into streams that three servers keep, beside three nats-servers: what each message is answered, what is
stored, and what a leader's death leaves.

Not here: fast batches of one server (tests/wire).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from tests import servers
from tests.interop.test_replicated_streams import alike, led_by, made_by, same_at_both
from tests.rig.official import one_each
from tests.rig.waiting import until

START, APPEND, COMMIT, COMMIT_EOB, PING = range(5)
MORE: dict[str, Any] = {"allow_batched": True, "allow_rollup_hdrs": True}
MANY = 2000
QUIET_S = 0.3
"""Nothing more is said so long behind the last word."""


class Fast:
    """One who sends fast batches, each message when the one before it is answered."""

    def __init__(self, client: Client) -> None:
        self._client, self._inbox = client, client.new_inbox()
        self.told: list[object] = []

    async def __aenter__(self) -> Fast:
        self._heard = await self._client.subscribe(f"{self._inbox}.>")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._heard.unsubscribe()

    async def say(self, word: str, seq: int, operation: int, subject: str = "s.a", **more: str) -> None:
        """word: the batch's id, flow and what to do at a gap."""
        headers = {f"Nats-{name.replace('_', '-')}": value for name, value in more.items()}
        reply = f"{self._inbox}.{word}.{seq}.{operation}.$FI"
        await self._client.publish(subject, f"{word[0]}{seq}".encode(), reply=reply, headers=headers or None)

    async def one(self, word: str, seq: int, operation: int, subject: str = "s.a", **more: str) -> None:
        await self.say(word, seq, operation, subject, **more)
        self.told.append(await self._rest())

    async def answered(self, word: str, seq: int, operation: int, subject: str = "s.a") -> None:
        """As one(), where there is an answer, however long it takes."""
        await self.say(word, seq, operation, subject)
        self.told.append([await self.next(), *await self._rest()])

    async def _rest(self) -> list[dict[str, Any]]:
        answers = []
        with contextlib.suppress(nats.errors.TimeoutError):
            while True:
                answers.append(json.loads((await self._heard.next_msg(timeout=QUIET_S)).data))
        return answers

    async def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self._heard.next_msg(timeout=20)).data)
        return found


async def conversation(fast: Fast) -> None:
    """What goes well, gaps and refusals, with both words for a gap."""
    await fast.one("a.1.fail", 1, START)
    await fast.one("a.1.fail", 2, APPEND, "s.b", Msg_Id="x")
    await fast.one("a.1.fail", 3, APPEND, "s.b", Msg_Id="x")
    await fast.one("a.1.fail", 3, PING)
    await fast.one("a.1.fail", 4, COMMIT)
    await fast.one("a.1.fail", 5, APPEND)
    await fast.one("b.1.fail", 1, START)
    await fast.one("b.1.fail", 3, APPEND)
    await fast.one("c.1.ok", 1, START)
    await fast.one("c.1.ok", 4, APPEND)
    await fast.one("c.1.ok", 6, PING)
    await fast.one("c.1.ok", 7, COMMIT_EOB)
    await fast.one("d.1.fail", 1, START, Expected_Last_Sequence="6")
    await fast.one("d.1.fail", 2, APPEND, Expected_Last_Sequence="1")
    await fast.one("d.1.fail", 3, APPEND)
    await fast.one("e.1.ok", 1, START)
    await fast.one("e.1.ok", 2, APPEND, Expected_Last_Sequence="1")
    await fast.one("e.1.ok", 3, APPEND, "s.c")
    await fast.one("e.1.ok", 4, COMMIT, "s.c", Expected_Last_Sequence="1")
    await fast.one("f.1.fail", 1, COMMIT)
    await fast.one("g.1.fail", 1, START, Expected_Last_Sequence="1")
    await fast.one("h.1.fail", 1, START, TTL="1h")
    await fast.one("i.1.fail", 2, APPEND)
    await fast.one("j.1.maybe", 1, START)
    await fast.one("k.1.fail", 1, START, "s.c", Rollup="sub")
    await fast.one("k.1.fail", 2, COMMIT_EOB)


async def flowing(fast: Fast) -> dict[str, Any]:
    """Many at once, no more than the flow lets; then the end, with those before it."""
    await fast.say("m.100.fail", 1, START, "s.m")
    told = await fast.next()
    every = told["msgs"]
    told_upto, sent = 0, 1
    while sent < MANY:
        while sent < MANY and sent < told_upto + 2 * every:
            sent += 1
            await fast.say("m.100.fail", sent, APPEND, "s.m")
        if sent < MANY:
            told = await fast.next()
            assert told["type"] == "ack"
            told_upto, every = told["seq"], told["msgs"]
    await fast.say("m.100.fail", MANY + 1, COMMIT_EOB, "s.m")
    while "batch" not in (told := await fast.next()):
        assert told["type"] == "ack"
    return told


async def in_the_middle(made: list[servers.Server]) -> list[object]:
    """The leader dies in the middle, and the next one is asked how far it has come, and goes on."""
    names = {f"s{number}": server for number, server in enumerate(made)}
    await made_by(made[0], set(names), **MORE)
    async with one_each(made[:1]) as (client,):
        leader = await led_by(client)
    other = next(server for name, server in names.items() if name != leader)
    async with one_each([other]) as (client,), Fast(client) as fast:
        for word in "q.1.fail", "r.1.ok":
            await fast.answered(word, 1, START)
            await fast.answered(word, 2, APPEND)
        await fast.answered("e.1.ok", 1, START)
        await fast.answered("e.1.ok", 2, COMMIT)
        names[leader].kill()
        await led_by(client, but=leader)
        unasked = {(await fast.next())["seq"] for _ in "qr"}

        async def known() -> bool:  # that a new one listens is not known at once
            await fast.one("q.1.fail", 2, PING)
            return bool(fast.told[-1] or fast.told.pop())

        await until(known, "nobody knows the batch")
        await fast.answered("q.1.fail", 3, APPEND, "s.b")
        await fast.answered("q.1.fail", 4, COMMIT)
        await fast.answered("r.1.ok", 4, APPEND)
        await fast.answered("r.1.ok", 5, COMMIT_EOB)
        await fast.answered("e.1.ok", 3, APPEND)
        told = [unasked, *fast.told]
    names[leader].start()
    everywhere, state = await alike(made)
    return [*told, everywhere, [state[name] for name in ("messages", "first_seq", "last_seq")]]


async def walk(made: list[servers.Server]) -> list[object]:
    await made_by(made[0], {"s0", "s1", "s2"}, **MORE)
    async with one_each(made[1:2]) as (client,), Fast(client) as fast:
        await conversation(fast)
        fast.told.append(await flowing(fast))
        told = fast.told
    everywhere, state = await alike(made)
    return [*told, everywhere, [state[name] for name in ("messages", "first_seq", "last_seq")]]


def test_fast_batches_of_three_servers_are_answered_and_stored_as_at_nats_servers(tmp_path: Path) -> None:
    """Flow, gaps, refusals and ends; many at once."""
    same_at_both(walk, tmp_path)


def test_the_next_leader_goes_on_with_fast_batches_as_at_nats_servers(tmp_path: Path) -> None:
    """It says how far each has come, takes what comes next, and knows none that had ended."""
    same_at_both(in_the_middle, tmp_path)
