"""A stream that was put back, of which a copy elsewhere passes over messages: what is said, and until when."""

from __future__ import annotations

import trio
import trio.testing
from leafd import native_types as t
from leafd.jetstream.passed_over import LOOK_S, PASSED_RECORD

from tests.unit.jetstream.conftest import Bench

COPY = {"name": "JS_SRC_x", "deliver_subject": "$JS.S.1", "direct": True, "sourcing": True}


def restarted(bench: Bench) -> Bench:
    """A new service over what the plane has stored."""
    again = Bench(bench.plane)
    again.service.read_records()
    trio.run(again.service.load)
    return again


def put_back() -> Bench:
    """A stream that ends at 5, and a copy of nats-server's that has 10 of it."""
    bench = Bench()
    bench.stream("T", subjects=["t"])
    for _ in range(5):
        bench.plane.store("T", "t")
    bench = restarted(bench)
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
    assert controls(bench) == []
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
    bench = put_back()
    publish(bench, 2)
    bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
    assert "2 of these are here" in told(bench)[0]
    assert controls(bench) == []
    bench.plane.fail = t.PlaneError(t.Status.IO, "input/output error")
    assert "how many it has of these is not known" in trio.run(bench.service.passed_over.texts)[0]
    told(bench, LOOK_S + 1)
    assert len(controls(bench)) == 1
