"""Streams and consumers that are stored and cannot be served: what is asked for again before (asides.py)."""

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
    assert again.asked("CONSUMER.DELETE.S.c", b"") == {
        "type": "io.nats.jetstream.api.v1.consumer_delete_response",
        "success": True,
    }
    assert not lacks()
