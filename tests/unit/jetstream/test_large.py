"""Large requests keep nobody waiting: measured by the gauge of turns, over the plane in memory."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from leafd import native_types as t
from leafd.host.gauge import Gauge
from leafd.jetstream.catalogue import Catalogue, Consumer, JetStreamAccount, JetStreamLimits, Settings, Stream
from leafd.jetstream.errors import ApiError
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig
from leafd.jetstream.rules.account_limits import check_new_stream
from trio.testing import MockClock

from tests.rig.logs import QuietLog
from tests.unit.jetstream.conftest import Bench

TURN_MAX_MS = 20.0
MANY = 10_000


def measured(function: Callable[[], Any]) -> float:
    """The longest turn of a run, in milliseconds of CPU. What is there before is frozen, as by the daemon when it has
    started: a collection looks at what the run makes, and not at pytest."""
    gauge = Gauge(QuietLog())
    gc.collect()
    gc.freeze()
    try:
        trio.run(function, instruments=[gauge])
    finally:
        gc.unfreeze()
    return float(gauge.report()["longest_turn_cpu_ms"])


def stream(count: int, last: str = "a") -> dict[str, Any]:
    return {"name": "S", "subjects": [f"s.{n}.{last}" for n in range(count)]}


def consumer(count: int) -> dict[str, Any]:
    config = {"durable_name": "C", "filter_subjects": [f"s.{n}.a" for n in range(count)], "ack_policy": "explicit"}
    return {"stream_name": "S", "config": config}


@pytest.mark.parametrize(
    ("subject", "body"),
    [
        ("STREAM.CREATE.S", stream(MANY)),
        ("STREAM.UPDATE.S", stream(MANY, "b")),
        ("CONSUMER.CREATE.S.C", consumer(MANY)),
        ("STREAM.CREATE.T", {"name": "T", "subjects": [f"*.{n}.*" for n in range(MANY)]}),
    ],
    ids=["stream", "update", "consumer", "overlapping"],
)
def test_ten_thousand_subjects_take_no_long_turn(bench: Bench, subject: str, body: dict[str, Any]) -> None:
    """Made, changed, filtered by or refused: no turn of the control thread is long, and all of it takes no 3 s."""
    prepared = not subject.endswith("CREATE.S")
    if prepared:
        bench.stream("S", subjects=["s.*.a"])
    raw = json.dumps(body).encode()

    async def ask() -> None:
        reply = await bench.ask(subject, raw)
        assert reply is not None
        assert ("error" in reply) == subject.endswith(".T"), str(reply)[:300]

    start = time.thread_time()
    # The bench writes the reply down in a turn of its own.
    assert measured(ask) < TURN_MAX_MS * 2
    assert time.thread_time() - start < 3


def test_a_workqueue_compares_the_filters_of_its_consumers_in_linear_time(bench: Bench) -> None:
    """Two consumers of thousands of filters each on one workqueue: the second is judged at once."""
    bench.stream("S", subjects=["s.>"], retention="workqueue")
    for name, last in (("C", "a"), ("D", "b")):
        filters = [f"s.{n}.{last}" for n in range(MANY)]
        bench.consumer("S", name, durable_name=name, filter_subjects=filters, ack_policy="explicit")
    assert 10100 == bench.code(
        "CONSUMER.CREATE.S.E",
        {
            "stream_name": "S",
            "config": {"name": "E", "filter_subjects": ["s.9999.a", "t.1"], "ack_policy": "explicit"},
        },
    )


def test_a_connection_that_floods_the_api_does_not_keep_another_waiting(bench: Bench) -> None:
    """With ten thousand requests of one connection waiting, another's is among the next few to be answered."""
    bench.stream("S", subjects=["s.>"])
    account = bench.account.id

    def message(connection: int, reply: str) -> t.Message:
        return t.Message(1, account, connection, 0, "$JS.API.STREAM.NAMES", reply, b"", b"")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            bench.plane.published.clear()
            for _ in range(9000):
                bench.service.message(message(1, "flood"))
            bench.service.message(message(2, "mine"))
            while not any(one[1] == "mine" for one in bench.plane.published):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert sum(one[1] == "flood" for one in bench.plane.published) <= 4


def test_listings_of_subjects_are_made_one_after_the_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many at once, each of which may be a hundred thousand lines, two are in memory, of one account one; another
    account's comes next, and a plain info passes them."""
    bench.stream("S", subjects=["s.>"])
    at_work, most, listed = 0, 0, 0
    after: dict[str, int] = {}
    original = bench.plane.stream_state

    async def slow(stream: int, *, subjects_filter: str = "", deleted: bool = False, offset: int = 0) -> t.StreamState:
        nonlocal at_work, most, listed
        if subjects_filter:
            at_work, listed = at_work + 1, listed + 1
            most = max(most, at_work)
            await trio.sleep(0.005)
            at_work -= 1
        return await original(stream, subjects_filter=subjects_filter, deleted=deleted, offset=offset)

    def message(payer: int, connection: int, reply: str, body: bytes = b'{"subjects_filter":">"}') -> t.Message:
        return t.Message(1, bench.account.id, connection, 0, "$JS.API.STREAM.INFO.S", reply, b"", body, payer)

    def replies(subject: str) -> int:
        return sum(one[1] == subject for one in bench.plane.published)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.service.run)
            for connection in range(20):
                bench.service.message(message(1, connection, "listing"))
            bench.service.message(message(1, 99, "plain", b""))
            while listed < 2:
                await trio.sleep(0.001)
            assert 1 == most
            bench.service.message(message(2, 100, "other"))
            while replies("listing") < 20:
                for one in ("plain", "other"):
                    if replies(one):
                        after.setdefault(one, listed)
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(bench.plane, "stream_state", slow)
    trio.run(main, clock=MockClock(autojump_threshold=0))  # a busy machine changes no order
    assert (21, 2) == (listed, most)
    assert after["plain"] <= 4
    assert after["other"] <= 8


class Counted(dict[str, Stream]):
    """Says how often somebody goes over it, or has others do so."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()

    def keys(self) -> Any:
        self.looks += 1
        return super().keys()


def test_a_new_stream_is_judged_without_a_look_at_the_others() -> None:
    """Of an account's streams only the number counts, and those that a backup is becoming are added to it."""
    catalogue, account = Catalogue(), JetStreamAccount(1, "A", JetStreamLimits(max_streams=4))
    catalogue.add_account(account)
    for number in range(2):
        catalogue.add_stream(Stream(number, account, StreamConfig(name=f"S{number}"), 0))
    account.taken.restore(StreamConfig(name="R"))
    account.streams = streams = Counted(account.streams)
    check_new_stream(account, catalogue, Settings("bench"), StreamConfig(name="N", max_bytes=-1))
    account.limits = JetStreamLimits(max_streams=3)
    for name in ("S0", "R"):
        check_new_stream(account, catalogue, Settings("bench"), StreamConfig(name=name, max_bytes=-1))
    with pytest.raises(ApiError, match="maximum number of streams"):
        check_new_stream(account, catalogue, Settings("bench"), StreamConfig(name="N", max_bytes=-1))
    assert streams.looks == 0


def test_an_advisory_costs_the_same_among_many_consumers() -> None:
    """A consumer is found by the plane's id without a look at the stream's others; one that is gone is not found."""
    catalogue = Catalogue()
    owner = Stream(1, JetStreamAccount(1, "A"), StreamConfig(name="S"), 0)
    catalogue.add_stream(owner)
    made = [Consumer(n, f"C{n}", ConsumerConfig(), 0) for n in range(MANY)]
    for one in made:
        owner.add_consumer(one)
    start = time.process_time()
    assert all(catalogue.consumer(1, one.id) == (owner, one) for one in made)
    assert 0.5 > time.process_time() - start
    owner.remove_consumer(made[0])
    again = Consumer(MANY, "C0", ConsumerConfig(), 0)
    owner.add_consumer(again)
    owner.remove_consumer(made[0])

    assert (None, (owner, again)) == (catalogue.consumer(1, 0), catalogue.consumer(1, MANY))
