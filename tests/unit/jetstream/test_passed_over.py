"""A stream that was put back, of which a copy elsewhere passes over messages: what is said, and until when."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.jetstream.given import GIVEN_RECORD
from leafd.jetstream.passed_over import LOOK_S, PASSED_RECORD
from leafd.jetstream.rules.versioning import NEW_HEADER, TAKEN_HEADER

from tests.unit.jetstream.conftest import Bench

COPY = {"name": "JS_SRC_x", "deliver_subject": "$JS.S.1", "direct": True, "sourcing": True}

BY_SEQUENCE: dict[str, object] = {"deliver_policy": "by_start_sequence", "opt_start_seq": 11}
BY_TIME: dict[str, object] = {"deliver_policy": "by_start_time", "opt_start_time": "2531-01-01T00:00:00Z"}


def restarted(bench: Bench) -> Bench:
    """A new service over what the plane has stored."""
    again = Bench(bench.plane)
    again.service.read_records()
    trio.run(again.service.load)
    return again


def put_back(fault: t.PlaneError | None = None) -> Bench:
    """A stream that ends at 5, and a copy of nats-server's that has 10 of it; `fault` when that is written down."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    for _ in range(5):
        bench.plane.store("T", "t")
    bench = restarted(bench)
    bench.plane.fail = fault
    come(bench, 11)
    return bench


def come(bench: Bench, begins: int) -> None:
    """The copy asks for what comes from there on."""
    config = COPY | {"deliver_policy": "by_start_sequence", "opt_start_seq": begins}
    reply = bench.asked("CONSUMER.CREATE.T.JS_SRC_x", {"stream_name": "T", "config": config})
    assert "error" not in reply, reply


def publish(bench: Bench, count: int) -> None:
    for _ in range(count):
        bench.plane.store("T", "t")


def told(bench: Bench, seconds: float = 0.0) -> list[str]:
    """What is said after so long."""

    async def play() -> list[str]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.service.passed_over.run)
            await trio.sleep(seconds)
            await trio.testing.wait_all_tasks_blocked()
            found = await bench.service.passed_over.texts()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return found

    return trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))


def controls(bench: Bench) -> list[bytes]:
    return [key for key in bench.plane.controls if key.startswith(PASSED_RECORD)]


def test_it_is_said_which_messages_a_copy_passes_over_and_how_many_there_are() -> None:
    """Also once publishing has passed them, and by a process that was started since."""
    bench = put_back()
    (text,) = told(bench)
    assert "stream T of account A was put back" in text
    assert "passes over its sequences up to 10, from 6 at the latest: 0 of these are here" in text
    assert "nats stream purge T --seq 11 --force" in text
    publish(bench, 3)
    assert "3 of these are here" in told(bench)[0]
    publish(bench, 9)
    assert "5 of these are here" in told(bench)[0]
    bench = restarted(bench)
    assert "5 of these are here" in told(bench)[0]


def test_it_is_over_when_the_stream_has_none_of_them_and_is_past_them() -> None:
    """Which the log says, and no later start says it again."""
    bench = put_back()
    publish(bench, 3)
    assert len(told(bench)) == len(controls(bench)) == 1
    bench.asked("STREAM.PURGE.T")
    assert "0 of these are here" in told(bench)[0], "the next two will be passed over"
    bench.asked("STREAM.PURGE.T", {"seq": 11})
    assert told(bench, LOOK_S + 1) == []
    assert "T is past sequence 10" in str(bench.log.lines)
    assert controls(bench) == [] == told(restarted(bench))


def test_of_a_stream_that_is_gone_nothing_is_said() -> None:
    bench = put_back()
    assert len(told(bench)) == 1
    bench.asked("STREAM.DELETE.T")
    assert told(bench) == [] == controls(bench)


def test_a_copy_that_acknowledges_tells_where_it_begins() -> None:
    """Its consumer's state knows what it was given: then it is known how many there are."""
    bench = put_back()
    (stream,) = bench.service.catalogue.streams()
    (consumer,) = stream.consumers.values()
    publish(bench, 2)
    bench.service.advisory(t.Advisory(t.AdvisoryCode.PUT_BACK, stream.id, consumer.id, 12, 4, 0, 0, ""))
    (text,) = told(bench)
    assert "passes over its sequences 5 to 12: 3 of these are here; save them" in text


def test_what_cannot_be_written_or_read_now_is_said_nevertheless() -> None:
    """And written later."""
    bench = put_back(t.PlaneError(t.Status.IO, "input/output error"))
    publish(bench, 2)
    bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
    assert "2 of these are here" in told(bench)[0]
    assert controls(bench) == []
    bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
    assert "how many it has of these is not known" in trio.run(bench.service.passed_over.texts)[0]
    told(bench, LOOK_S + 1)
    assert len(controls(bench)) == 1


def settled(bench: Bench) -> None:
    """What is to be written of it is written."""

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.service.passed_over.given.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(play)


def test_a_store_that_was_put_back_knows_what_it_has_given_after_further_starts() -> None:
    """A copy had all five messages; twelve came over two starts, which it cannot have, wherever it begins."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    publish(bench, 5)
    come(bench, 1)
    for count in (4, 8):
        bench = restarted(bench)
        settled(bench)
        publish(bench, count)
    bench = restarted(bench)
    come(bench, 11)
    assert "up to 10, from 6 at the latest: 5 of these are here" in told(bench)[0]


def test_a_copy_that_has_what_this_store_has_given_is_not_ahead() -> None:
    """Its record is there before it is given anything, and goes with the stream."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    come(bench, 1)
    assert bench.plane.controls == {GIVEN_RECORD + b"\0\0\0\1": b"null"}
    publish(bench, 9)
    bench = restarted(bench)
    publish(bench, 3)
    come(bench, 10)
    bench = restarted(bench)
    settled(bench)
    assert list(bench.plane.controls.values()) == [b"12"]
    come(bench, 13)
    assert told(bench) == []
    assert list(bench.plane.controls.values()) == [b"null"]
    bench.asked("STREAM.DELETE.T")
    settled(bench)
    assert bench.plane.controls == {}


def test_a_copy_is_served_though_its_record_cannot_be_written_now() -> None:
    """It is written later."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
    come(bench, 1)
    assert bench.plane.controls == {}
    settled(bench)
    assert list(bench.plane.controls.values()) == [b"null"]


def test_what_is_new_counts_as_given_once_a_copy_that_is_ahead_asks_by_time() -> None:
    """A leafd that hears that the stream was put back: until then another start of the box must not count it."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    publish(bench, 5)
    come(bench, 1)
    bench = restarted(bench)
    settled(bench)
    publish(bench, 12)
    comes_further(bench, BY_SEQUENCE)
    assert list(bench.plane.controls.values()) == [b"5"]
    comes_further(bench, BY_TIME)
    assert list(bench.plane.controls.values()) == [b"null"]


def comes_further(bench: Bench, config: dict[str, object]) -> bytes:
    """A leafd's copy that took sequence 10 last asks; the headers of the answer."""
    body = json.dumps({"stream_name": "T", "config": COPY | config}).encode()
    header = b"NATS/1.0\r\n%s: 10\r\n\r\n" % TAKEN_HEADER
    found = trio.run(bench.service.answer, bench.account, "$JS.API.CONSUMER.CREATE.T.JS_SRC_x", header, body)
    assert found is not None
    assert not found.error, found.members
    return bytes(found.header)


@pytest.mark.parametrize("count", [0, 3])
def test_a_copy_that_is_ahead_hears_behind_which_sequence_all_is_new(count: int) -> None:
    """Also where nothing is new yet: it may come by an old clock before the copy's consumer is made."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    publish(bench, 5)
    bench = restarted(bench)
    publish(bench, count)
    assert NEW_HEADER not in comes_further(bench, BY_SEQUENCE)
    assert NEW_HEADER + b": 5\r\n" in comes_further(bench, BY_TIME)
