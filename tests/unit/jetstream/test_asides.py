"""Streams and consumers that are stored and cannot be served: what is asked for again before (asides.py)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from leafd import native_types as t

from tests.unit.jetstream.conftest import Bench


@pytest.mark.parametrize(("fails", "served"), [(3, True), (6, False)])
@pytest.mark.parametrize("status", [t.Status.IO, t.Status.NO_MEMORY])
def test_what_cannot_be_read_for_a_moment_is_asked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, status: t.Status, fails: int, served: bool
) -> None:
    """A read that fails at a start, or memory that is missing, sets no stream and no consumer aside unless it goes on
    for seconds."""
    bench.stream("S")
    bench.consumer("S", "c", durable_name="c")
    left = {"stream_put": fails, "consumer_put": fails}

    def failing(name: str) -> Any:
        put = getattr(bench.plane, name)

        async def attempt(*numbers: int, **config: Any) -> Any:
            left[name] -= 1
            if left[name] >= 0:
                raise t.PlaneError(status, "for a moment")
            return await put(*numbers, **config)

        return attempt

    again = Bench(bench.plane)
    again.service.read_records()
    monkeypatch.setattr(bench.plane, "stream_put", failing("stream_put"))
    monkeypatch.setattr(bench.plane, "consumer_put", failing("consumer_put"))
    trio.run(again.service.load, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (served, served) == ("S" in again.account.streams, again.account.consumers == 1)
    assert served == (not again.log.texts)


def test_what_a_consumer_that_is_aside_may_want_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what it wants, until it is deleted."""
    bench.stream("S", retention="interest")
    bench.consumer("S", "c", durable_name="c")
    bench.consumer("S", "d", durable_name="d")
    put = bench.plane.consumer_put

    async def attempt(stream: int, consumer: int, *rest: Any, **config: Any) -> Any:
        if config["name"] == "c":
            raise t.PlaneError(t.Status.IO, "for ever")
        return await put(stream, consumer, *rest, **config)

    def lacks() -> bool:
        return bool(next(iter(bench.plane.streams.values())).config.flags & t.StreamFlag.LACKS_CONSUMERS)

    again = Bench(bench.plane)
    again.service.read_records()
    with monkeypatch.context() as patched:
        patched.setattr(bench.plane, "consumer_put", attempt)
        trio.run(again.service.load, clock=trio.testing.MockClock(autojump_threshold=0))
    assert again.account.consumers == 1
    assert lacks()
    assert trio.run(_deleted, again) == {
        "type": "io.nats.jetstream.api.v1.consumer_delete_response",
        "success": True,
    }
    assert not lacks()


async def _deleted(bench: Bench) -> dict[str, Any]:
    """The answer, and what follows it."""
    found = await bench.service.answer(bench.account, "$JS.API.CONSUMER.DELETE.S.c", b"", b"")
    assert found is not None
    assert found.after is not None
    await found.after()
    return dict(found.members)


def _aside(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A server that has begun anew, and could not take up a consumer."""
    bench.stream("S", retention="interest")
    bench.consumer("S", "c", durable_name="c")

    async def attempt(*_numbers: int, **_config: Any) -> Any:
        raise t.PlaneError(t.Status.INVALID, "for ever")

    again = Bench(bench.plane)
    again.service.read_records()
    with monkeypatch.context() as patched:
        patched.setattr(bench.plane, "consumer_put", attempt)
        trio.run(again.service.load)
    return again


def test_what_is_kept_for_consumers_that_are_aside_is_said_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many accounts are looked up afterwards."""
    again, put, puts = _aside(bench, monkeypatch), bench.plane.stream_put, list[int]()

    async def counted(stream: int, *rest: Any, **config: Any) -> Any:
        puts.append(stream)
        return await put(stream, *rest, **config)

    monkeypatch.setattr(bench.plane, "stream_put", counted)
    for _ in range(3):
        trio.run(again.service.take_up)
    assert puts == []


def test_what_is_kept_is_not_said_over_a_change_of_the_stream(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is on its way to the disk when somebody's account is looked up, or a consumer deleted."""
    again, put = _aside(bench, monkeypatch), bench.plane.stream_put
    changes = [b'{"name":"S","subjects":["S"],"retention":"interest","description":"%d"}' % number for number in (1, 2)]

    async def slow(*numbers: Any, **config: Any) -> Any:
        state = await put(*numbers, **config)
        await trio.sleep(1)
        return state

    monkeypatch.setattr(bench.plane, "stream_put", slow)

    async def walk() -> None:
        again.service.catalogue.lacking.clear()  # as before it was told
        others: tuple[Callable[[], Awaitable[object]], ...] = again.service.take_up, partial(_deleted, again)
        for change, meanwhile in zip(changes, others, strict=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(again.ask, "STREAM.UPDATE.S", change)
                await trio.sleep(0.5)
                nursery.start_soon(meanwhile)
            assert change[-4:-2] in next(iter(bench.plane.streams.values())).definition

    trio.run(walk, clock=trio.testing.MockClock(autojump_threshold=0))
