"""Work queues and streams of interest that three servers keep, whose leader is killed: what was confirmed as
acknowledged is gone from all servers, and nothing else is, as at nats-servers.

Three nats-servers walk the same way, which proves the tests. Not here: consumers by themselves
(test_replicated_consumers.py), what a consumer's server asks of the log (tests/native/test_consume_shared.c).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, R, led
from tests.interop.test_replicated_consumers import TRY_S, Pull, fetched, published, rest_of
from tests.interop.test_replicated_streams import led_by, made_by, state_at
from tests.rig.official import connect, patiently
from tests.rig.waiting import eventually

MESSAGES = 40
CONFIRMED = 10


async def consumer(client: Client, name: str, **more: object) -> Pull:
    """A durable one, which is bound."""
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 2_000_000_000, **more}
    await patiently(client, f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
    return await client.jetstream().pull_subscribe_bind(name, "S")


async def some_confirmed(pull: Pull, first: int = 0) -> set[int]:
    """The first CONFIRMED messages of a consumer, which hears that their acknowledgement is kept.

    A fetch may end with fewer: its time is that of all messages together. What then comes late comes twice.
    """
    confirmed: list[int] = []
    while len(confirmed) < CONFIRMED:
        came = await fetched(pull, CONFIRMED - len(confirmed), confirmed=True)
        confirmed += [number for number in came if number not in confirmed]
    assert confirmed == list(range(first, first + CONFIRMED))
    return set(confirmed)


def everywhere(made: list[servers.Server], messages: int, last: int) -> None:
    """All servers have that many, and the same."""

    def level() -> bool:
        states = [state_at(server) for server in made]
        return all(one == states[0] for one in states) and (states[0]["messages"], states[0]["last_seq"]) == (
            messages,
            last,
        )

    eventually(level, lambda: [state_at(server) for server in made])


async def queue(made: list[servers.Server]) -> None:
    names = {f"s{number}": server for number, server in enumerate(made)}
    first = await made_by(made[0], set(names), retention="workqueue")
    client = await connect(next(server for name, server in names.items() if name != first))
    pull = await consumer(client, "C")
    await published(client, range(MESSAGES))
    confirmed = await some_confirmed(pull)
    everywhere(made, MESSAGES - CONFIRMED, MESSAGES)
    in_flight = {int(message.data) for message in await pull.fetch(5, timeout=TRY_S)}
    names[first].kill()
    await led_by(client, but=first)
    await published(client, range(MESSAGES, MESSAGES + 5))
    later = set(await rest_of(pull, set(range(CONFIRMED, MESSAGES + 5))))
    assert in_flight <= later
    assert not later & confirmed
    names[first].start()
    everywhere(made, 0, MESSAGES + 5)
    await client.close()


async def interest(made: list[servers.Server]) -> None:
    names = {f"s{number}": server for number, server in enumerate(made)}
    first = await made_by(made[0], set(names), retention="interest")
    client = await connect(next(server for name, server in names.items() if name != first))
    await published(client, range(1))  # which nobody wants
    everywhere(made, 0, 1)
    one, other = await consumer(client, "A"), await consumer(client, "B")
    await published(client, range(1, 1 + MESSAGES))
    for pull in (one, other):
        await some_confirmed(pull, first=1)
    everywhere(made, MESSAGES - CONFIRMED, 1 + MESSAGES)
    left = set(range(1 + CONFIRMED, 1 + MESSAGES))
    assert await rest_of(one, left)
    everywhere(made, MESSAGES - CONFIRMED, 1 + MESSAGES)  # the other one has it to come
    names[first].kill()
    await led_by(client, but=first)
    await published(client, range(1 + MESSAGES, 6 + MESSAGES))
    fresh = set(range(1 + MESSAGES, 6 + MESSAGES))
    later = set(await rest_of(other, left | fresh))
    assert not later & set(range(1 + CONFIRMED))
    names[first].start()
    everywhere(made, 5, 6 + MESSAGES)
    await patiently(client, "CONSUMER.DELETE.S.A")  # for which the last five are kept
    everywhere(made, 0, 6 + MESSAGES)
    await published(client, range(6 + MESSAGES, 7 + MESSAGES))
    everywhere(made, 1, 7 + MESSAGES)
    await patiently(client, "CONSUMER.DELETE.S.B")
    everywhere(made, 0, 7 + MESSAGES)
    await client.close()


@pytest.mark.parametrize("kind", [R, L])
def test_a_work_queue_lets_go_of_what_was_confirmed_and_of_nothing_else(kind: str, tmp_path: Path) -> None:
    """Whatever was in flight when the leader died comes again from the next one."""
    with led(kind, tmp_path) as made:
        asyncio.run(queue(made))


@pytest.mark.parametrize("kind", [R, L])
def test_a_message_is_kept_while_a_consumer_that_wants_it_has_not_acknowledged_it(kind: str, tmp_path: Path) -> None:
    """Also by a server that leads anew, and no longer than that."""
    with led(kind, tmp_path) as made:
        asyncio.run(interest(made))
