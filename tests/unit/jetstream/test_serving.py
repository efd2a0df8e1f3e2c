"""Requests to JetStream take turns: those of one client are begun in the order in which it sent them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.jetstream.ports import SERVER
from leafd.jetstream.serving import AT_WORK_EACH, Guest

from tests.unit.jetstream.conftest import Bench


@pytest.mark.parametrize("turns", range(4))
def test_a_request_does_not_overtake_one_that_waits_for_its_stream(bench: Bench, turns: int) -> None:
    """It comes when the stream has just been made, as many turns after the disk's answer."""
    stored, told = bench.plane.stream_put, [trio.Event() for _ in range(8)]

    async def slow_stream(*args: Any, **kwargs: Any) -> t.StreamState:
        await told[len(bench.plane.streams)].wait()
        return await stored(*args, **kwargs)

    bench.plane.stream_put = slow_stream  # type: ignore[method-assign]

    def ask(subject: str, body: bytes = b"") -> None:
        bench.service.message(t.Message(1, 1, 7, 1, f"$JS.API.{subject}", f"_INBOX.{subject}", b"", body))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for number, event in enumerate(told):
                ask(f"STREAM.CREATE.S{number}", b'{"name":"S%d"}' % number)
                consumer = b'{"stream_name":"S%d","config":{"durable_name":"c"}}' % number
                ask(f"CONSUMER.CREATE.S{number}.c", consumer)
                await trio.testing.wait_all_tasks_blocked()
                event.set()
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                ask(f"CONSUMER.DELETE.S{number}.c")
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(run)
    answers = [payload for _, subject, _, payload in bench.plane.published if "_INBOX" in subject]
    assert 3 * len(told) == len(answers)
    assert [] == [payload for payload in answers if b'"error":{' in payload]


def test_requests_are_begun_in_the_order_they_came(bench: Bench) -> None:
    """A client that sends a stream, a consumer and its info in one go gets all three, however slow the disk is."""
    stored = bench.plane.stream_put
    added = bench.plane.consumer_put

    async def slow_stream(*args: Any, **kwargs: Any) -> t.StreamState:
        await trio.sleep(0.01)
        return await stored(*args, **kwargs)

    async def slow_consumer(*args: Any, **kwargs: Any) -> t.ConsumerState:
        await trio.sleep(0.01)
        return await added(*args, **kwargs)

    bench.plane.stream_put = slow_stream  # type: ignore[method-assign]
    bench.plane.consumer_put = slow_consumer  # type: ignore[method-assign]
    wanted = [
        ("STREAM.CREATE.S", b'{"name":"S"}'),
        ("STREAM.INFO.S", b""),
        ("CONSUMER.CREATE.S.c", b'{"stream_name":"S","config":{"durable_name":"c"}}'),
        ("CONSUMER.INFO.S.c", b""),
        ("CONSUMER.DELETE.S.c", b""),
        ("STREAM.DELETE.S", b""),
    ]

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for number, (subject, body) in enumerate(wanted):
                bench.service.message(t.Message(1, 1, 7, 1, f"$JS.API.{subject}", f"_INBOX.{number}", b"", body))
            while sum(subject.startswith("_INBOX") for _, subject, _, _ in bench.plane.published) < len(wanted):
                await trio.sleep(0.005)
            nursery.cancel_scope.cancel()

    trio.run(run)
    refused = [
        payload for _, subject, _, payload in bench.plane.published if b'"error":{' in payload and "_INBOX" in subject
    ]
    assert [] == refused


@pytest.mark.parametrize("other", [("A", "2"), ("B", "1")])
def test_clients_of_a_server_without_jetstream_wait_each_for_his_own_turn(bench: Bench, other: tuple[str, str]) -> None:
    """One of them asks for more than is at work of one asker, and all of it takes for ever. The others are answered,
    though all come in one account and by one route."""

    async def never(*_args: Any, **_kwargs: Any) -> t.StreamState:
        await trio.sleep_forever()
        raise AssertionError

    bench.plane.stream_put = never  # type: ignore[method-assign]

    def ask(subject: str, turn: tuple[str, str], body: bytes = b"") -> None:
        message = t.Message(1, 9, 7, 1, f"$JS.API.{subject}", f"_INBOX.{subject}", b"", body)
        assert bench.service.guest(message, Guest("A", SERVER, turn))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for number in range(AT_WORK_EACH + 1):
                ask(f"STREAM.CREATE.S{number}", ("A", "1"), b'{"name":"S%d"}' % number)
            ask("INFO", other)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(run)
    assert [subject for _, subject, _, _ in bench.plane.published if "_INBOX" in subject] == ["_INBOX.INFO"]
