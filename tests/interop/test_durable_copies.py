"""Mirrors and sources with a durable consumer of somebody else's: reset, paused, deleted and made anew while they run.

Leafd takes, from either kind of origin: a source of nats-server's loses what comes after a reset (the transcript
jetstream/source-durable-reset). Everything is played at once, each with streams of its own, because most of it is
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from nats.aio.client import Client

from tests import servers
from tests.interop.clients import connected
from tests.interop.test_leaf import HUB, LEAF, Pair, contents, state_of, until_linked
from tests.rig.official import must

SECONDS_MAX: Final = 60.0


@pytest.fixture(params=servers.KINDS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """A hub that is leafd, and a leaf that dials it."""
    with contextlib.ExitStack() as stack:
        for name in ("hub", "leaf"):
            (tmp_path / name).mkdir()
        hub = servers.make(servers.LEAFD, HUB, tmp_path / "hub")
        leaf = servers.make(request.param, LEAF, tmp_path / "leaf", hub_port=hub.ports["leaf_port"])
        for server in (hub, leaf):
            server.start()
            stack.callback(server.stop)
        pair = Pair(hub, leaf)
        asyncio.run(until_linked(pair))
        yield pair


class Copied:
    """A stream O at the leaf, its durable consumer D, and C at the hub, which takes from it."""

    def __init__(self, name: str, how: str, leaf: Client, hub: Client) -> None:
        self.how, self.leaf, self.hub = how, leaf, hub
        tag = f"{name}_{how}"
        self.origin, self.consumer, self.copy, self.deliver = f"O_{tag}", f"D_{tag}", f"C_{tag}", f"d.{tag}"
        self.published = 0

    async def ask(self, verb: str, body: object = None) -> dict[str, Any]:
        return await must(self.leaf, f"$JS.API.CONSUMER.{verb}.{self.origin}.{self.consumer}", body, seconds=20)

    async def make_origin(self, **more: object) -> None:
        body = {"name": self.origin, "subjects": [self.origin], **more}
        await must(self.leaf, f"$JS.API.STREAM.CREATE.{self.origin}", body, seconds=20)

    async def make_consumer(self, **more: object) -> None:
        config = {
            "durable_name": self.consumer,
            "deliver_subject": self.deliver,
            "ack_policy": "flow_control",
            "max_ack_pending": 100,
            **more,
        }
        await self.ask("CREATE", {"stream_name": self.origin, "config": config})

    async def make_copy(self, verb: str = "CREATE", *, durable: bool = True) -> None:
        source: dict[str, Any] = {"name": self.origin, "external": {"api": "$JS.edge.API", "deliver": ""}}
        if durable:
            source["consumer"] = {"name": self.consumer, "deliver_subject": self.deliver}
        body: dict[str, Any] = {"name": self.copy, "allow_direct": True}
        body |= {"mirror": source} if self.how == "mirror" else {"sources": [source]}
        await must(self.hub, f"$JS.API.STREAM.{verb}.{self.copy}", body, seconds=20)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            await self.leaf.jetstream().publish(self.origin, b"%d" % self.published, timeout=20)

    async def until(self, count: int) -> None:
        """The copy holds so many messages."""
        held = -1
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while (held := (await state_of(self.hub, self.copy))["messages"]) != count:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            found = await contents(self.hub, self.copy)
            raise AssertionError(f"{self.copy} holds {held} of {count} messages: {found}") from None

    async def begin(self, **more: object) -> None:
        """Ten messages have been taken."""
        await self.make_origin(**more)
        await self.make_consumer()
        await self.publish(10)
        await self.make_copy()
        await self.until(10)

    async def end(self) -> None:
        """All of it is there, once and in order."""
        await self.until(self.published)
        await asyncio.sleep(1.5)
        assert list(range(1, self.published + 1)) == await contents(self.hub, self.copy), self.copy


async def is_reset(copied: Copied) -> None:
    await copied.begin()
    for body in (None, {"seq": 4}):
        await asyncio.sleep(1.2)
        await copied.ask("RESET", body)
        await copied.publish(20)
        await copied.until(copied.published)
    await copied.end()


async def is_reset_while_paused(copied: Copied) -> None:
    await copied.begin()
    await copied.ask("PAUSE", {"pause_until": "2099-01-01T00:00:00Z"})
    await copied.ask("RESET", {"seq": 3})
    await copied.publish(15)
    await asyncio.sleep(2.5)
    assert (await state_of(copied.hub, copied.copy))["messages"] == 10
    await copied.ask("PAUSE", {})
    await copied.end()


async def acknowledges_little_at_a_time(copied: Copied) -> None:
    await copied.begin()
    await copied.make_consumer(max_ack_pending=2)
    await copied.ask("RESET", {"seq": 1})
    await copied.publish(5)
    await copied.end()


async def is_made_anew_behind_what_was_taken(copied: Copied) -> None:
    await copied.begin()
    await copied.ask("DELETE")
    await copied.make_consumer(deliver_policy="by_start_sequence", opt_start_seq=11)
    await copied.publish(30)
    await copied.end()


async def is_made_late(copied: Copied) -> None:
    await copied.make_origin()
    await copied.publish(5)
    await copied.make_copy()
    await asyncio.sleep(6)
    await copied.make_consumer()
    await copied.end()


async def is_given_later(copied: Copied) -> None:
    if copied.how == "mirror":
        return  # which cannot be updated
    await copied.make_origin()
    await copied.make_consumer()
    await copied.publish(10)
    await copied.make_copy(durable=False)
    await copied.until(10)
    await copied.make_copy("UPDATE")
    await copied.publish(10)
    await copied.end()


async def has_a_stream_made_anew(copied: Copied) -> None:
    """Of which a mirror, whose sequences are the origin's, can only have what lies behind its own."""
    if copied.how == "mirror":
        return
    await copied.begin(retention="workqueue")
    await must(copied.leaf, f"$JS.API.STREAM.DELETE.{copied.origin}", seconds=20)
    await copied.make_origin(retention="workqueue")
    await copied.make_consumer()
    await copied.publish(25)
    await copied.end()


COMBINATIONS: Final[tuple[Callable[[Copied], Awaitable[None]], ...]] = (
    is_reset,
    is_reset_while_paused,
    acknowledges_little_at_a_time,
    is_made_anew_behind_what_was_taken,
    is_made_late,
    is_given_later,
    has_a_stream_made_anew,
)


def test_a_copy_of_a_durable_consumer_has_each_message_once(pair: Pair) -> None:
    """Whatever its owner does with the consumer, nothing is lost and nothing comes twice."""

    async def run() -> None:
        async with connected(pair.leaf) as leaf, connected(pair.hub) as hub, asyncio.TaskGroup() as together:
            for combination in COMBINATIONS:
                for how in ("mirror", "source"):
                    together.create_task(_play(combination, Copied(combination.__name__, how, leaf, hub)))

    asyncio.run(run())


async def _play(combination: Callable[[Copied], Awaitable[None]], copied: Copied) -> None:
    await combination(copied)
