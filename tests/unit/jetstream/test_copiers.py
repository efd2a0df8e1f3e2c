"""A mirror or source elsewhere that copies a stream: what is known of it while its consumer is there and later."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from leafd import native_types as t
from leafd.jetstream import copiers
from leafd.jetstream.catalogue import Consumer, JetStreamAccount, Stream
from leafd.jetstream.copiers import COPIERS_MAX, SHOWN_MAX, Copiers
from leafd.jetstream.models.consumer import ConsumerConfig
from leafd.jetstream.models.stream import StreamConfig

COPY = {"_nats.src.stream": "COPY", "_nats.src.acc": "A", "_nats.src.domain": "hub"}
EMPTY = t.ConsumerState(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class World:
    """One stream of 100 messages, and what the plane says of its consumers."""

    def __init__(self) -> None:
        self.states: dict[int, t.ConsumerState] = {}
        self.stamps: dict[int, int] = {}
        """Of messages that can be read, by their sequences."""
        self.read: list[int] = []
        self.state = t.StreamState(100, 20_000, 1, 100, 0, 0, 1, 0, 0, 0, 0)
        self.stream = cast(Stream, SimpleNamespace(id=7, consumers={}, copies=None, account=SimpleNamespace(id=3)))
        account = SimpleNamespace(streams={"T": self.stream})
        self.held: dict[tuple[int, str], str] = {}
        catalogue = cast(Any, SimpleNamespace(by_name={"A": account}))
        self.copiers = Copiers(cast(Any, self), catalogue, lambda account, domain: self.held.get((account, domain), ""))

    async def stream_state(self, stream: int) -> t.StreamState:
        return self.state

    async def consumer_state(self, stream: int, consumer: int) -> t.ConsumerState:
        return self.states[consumer]

    async def message_get(self, stream: int, mode: int, *, sequence: int, subject: str) -> t.StoredMessage | None:
        assert (stream, mode, subject) == (7, t.Query.NEXT_BY_SUBJECT, ">")
        self.read.append(sequence)
        behind = [one for one in self.stamps if one >= sequence]
        return t.StoredMessage(min(behind), self.stamps[min(behind)], b"t.a", b"", b"") if behind else None

    def begins(self, number: int, taken: int, **config: Any) -> Consumer:
        made = ConsumerConfig(name=f"JS_SRC_{number}", direct=True, sourcing=True, **{"metadata": COPY} | config)
        consumer = Consumer(number, made.name, made, 0)
        self.stream.consumers[consumer.name] = consumer
        self.copiers.begun(self.stream, consumer, taken)
        return consumer

    def ends(self, consumer: Consumer, taken: int) -> None:
        self.copiers.ended(self.stream, consumer, taken)
        del self.stream.consumers[consumer.name]

    def told(self) -> list[tuple[bool, int | None, int | None]]:
        found = trio.run(self.copiers.of, "A", "T")
        return [(one["asks"], one["behind"], one["behind_bytes"]) for one in found]


def test_what_is_not_delivered_and_what_is_not_stored_there_counts() -> None:
    """While it asks, its consumer tells; when it is gone, what lies behind what it had stored, and what comes since."""
    world = World()
    consumer = world.begins(1, 40)
    world.states[1] = replace(EMPTY, pending=30, taken=60, untaken=10)
    assert world.told() == [(True, 40, 8_000)]
    world.ends(consumer, 65)
    assert world.told() == [(False, 35, 7_000)]
    world.state = replace(world.state, messages=200, bytes=40_000, last_seq=200)
    assert world.told() == [(False, 135, 27_000)]
    world.begins(2, 70)  # it is the same copy, by another consumer
    world.states[2] = replace(EMPTY, pending=130, taken=70)
    assert world.told() == [(True, 130, 26_000)]


def test_of_a_copy_that_filters_nobody_knows_what_is_for_it() -> None:
    """Once something came since it was here; before, nothing has."""
    world = World()
    world.ends(world.begins(1, 0, filter_subject="t.a"), 100)
    assert world.told() == [(False, 0, 0)]
    world.state = replace(world.state, last_seq=101)
    assert world.told() == [(False, None, None)]


def test_what_the_stream_has_lost_is_not_missing() -> None:
    """Messages that were removed cannot be taken any more."""
    world = World()
    world.ends(world.begins(1, 10), 10)
    world.state = replace(world.state, messages=20, bytes=4_000, first_seq=81)
    assert world.told() == [(False, 20, 4_000)]


def test_a_copy_that_does_not_say_who_it_is_is_forgotten_with_its_consumer() -> None:
    """Its next one has a name that nobody can connect with it."""
    world = World()
    consumer = world.begins(1, 10, metadata={})
    world.states[1] = replace(EMPTY, pending=5, taken=95)
    assert world.told() == [(True, 5, 1_000)]
    world.ends(consumer, 95)
    assert world.told() == []


def test_whoever_makes_consumers_fills_no_memory_with_them() -> None:
    """The latest are kept, and a stream that goes takes along its own."""
    world = World()
    for number in range(COPIERS_MAX + 50):
        world.ends(world.begins(number, 1, metadata={"_nats.src.stream": f"C{number}"}), 1)
    found = trio.run(world.copiers.of, "A", "T")
    assert [one["copy"] for one in found] == [f"C{number}" for number in range(50, COPIERS_MAX + 50)]
    assert trio.run(world.copiers.of, "A", "T", SHOWN_MAX) == []
    world.copiers.removed(world.stream)
    assert world.told() == []


def test_who_looks_at_a_copy_is_told_what_the_budget_of_its_link_lets_go() -> None:
    """Of the link of the stream's own account to the copy's domain; null where that has none."""
    world = World()
    world.states[1] = EMPTY
    world.begins(1, 40)
    assert trio.run(world.copiers.of, "A", "T")[0]["held"] is None
    world.held = {(3, "hub"): "normal", (4, "hub"): "none", (3, "other"): "high"}
    assert trio.run(world.copiers.of, "A", "T")[0]["held"] == "normal"


class Clock:
    """The time, as a test sets it, in seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.s = 1_000
        patch.setattr(copiers, "now_ns", lambda: self.s * 10**9)
        patch.setattr(copiers, "time", SimpleNamespace(monotonic=lambda: float(self.s)))

    def row(self, world: World) -> tuple[Any, ...]:
        (found,) = trio.run(world.copiers.of, "A", "T")
        return found["behind"], found["oldest"], found["level_in"], found["pace"]


def test_the_first_message_that_is_not_stored_there_has_an_age_also_while_the_copy_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read once for as long as the copy comes no further. Sequence 61 was deleted. What the stream has lost
    counts no more, and then its own first message tells."""
    clock, world = Clock(monkeypatch), World()
    world.stamps = {50: 700 * 10**9, 62: 800 * 10**9, 100: 990 * 10**9}
    consumer = world.begins(1, 40)
    world.states[1] = replace(EMPTY, pending=30, taken=60, untaken=10)
    assert clock.row(world)[:2] == (40, 200 * 10**9)
    world.ends(consumer, 60)
    clock.s += 7
    assert clock.row(world)[:2] == (40, 207 * 10**9)
    assert world.read == [61]
    world.state = replace(world.state, messages=10, bytes=2_000, first_seq=91, first_ts=950 * 10**9)
    assert clock.row(world)[:2] == (10, 57 * 10**9)
    assert world.read == [61]


def test_when_a_copy_will_be_level_follows_from_what_it_came_nearer_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from one look, nor from looks far apart, nor while it is away; when it falls behind it never will."""
    clock, world = Clock(monkeypatch), World()
    consumer = world.begins(1, 0)

    def later(seconds: int, behind: int) -> tuple[Any, ...]:
        clock.s += seconds
        world.states[1] = replace(EMPTY, pending=behind, taken=100 - behind)
        return clock.row(world)[2:]

    assert later(0, 90) == (None, None)
    assert later(1, 88) == (None, None)
    assert later(3, 50) == (5 * 10**9, 10.0)
    assert later(1, 40) == (4 * 10**9, 10.0)
    assert later(3, 70) == (None, -5.0)
    assert later(61, 20) == (None, None)
    assert later(2, 0) == (0, 10.0)
    world.ends(consumer, 100)
    world.state = replace(world.state, messages=130, last_seq=130)
    assert clock.row(world)[2:] == (None, None)


def test_of_large_messages_and_of_those_that_are_not_read_nobody_knows_the_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a copy with filters neither: it may take long to find the first one that is for it."""
    clock, world = Clock(monkeypatch), World()
    world.states[1] = replace(EMPTY, pending=30, taken=60)
    world.begins(1, 60)
    assert clock.row(world)[:2] == (30, None)  # none is found there
    world.stamps = {61: 800 * 10**9}
    world.state = replace(world.state, bytes=100 * copiers.READ_MAX)
    world.states[1] = replace(EMPTY, pending=29, taken=61)
    assert clock.row(world)[:2] == (29, None)
    filtered = World()
    filtered.states[1] = replace(EMPTY, pending=30, taken=60)
    filtered.stamps = {61: 800 * 10**9}
    filtered.begins(1, 60, filter_subject="t.a")
    assert clock.row(filtered)[:2] == (30, None)
    assert world.read + filtered.read == [61]


def test_a_durable_consumer_of_a_copy_is_looked_at_once_and_no_other_one_is() -> None:
    """One that was there before the start is found. A stream may have thousands of consumers, and be asked for its info
    all the time."""
    account = JetStreamAccount(3, "A")
    stream = Stream(7, account, StreamConfig(name="T"), 0)
    made = ConsumerConfig(name="DURABLE", sourcing=True, metadata=COPY)
    stream.add_consumer(Consumer(2, "PLAIN", ConsumerConfig(name="PLAIN"), 0))
    assert stream.copies is None
    for number, name in ((1, "DURABLE"), (3, "GONE")):
        stream.add_consumer(Consumer(number, name, replace(made, name=name), 0))
    stream.remove_consumer(stream.consumers["GONE"])
    assert {"DURABLE"} == stream.copies
    world = World()
    world.stream.consumers |= {"DURABLE": stream.consumers["DURABLE"]}
    world.stream.copies = stream.copies
    world.states[1] = replace(EMPTY, pending=5, taken=95)
    assert world.told() == [(True, 5, 1_000)]
    assert world.stream.copies is None
    assert world.told() == [(True, 5, 1_000)]
