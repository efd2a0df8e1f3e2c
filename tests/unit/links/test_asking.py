"""A request that is sent again before its answer comes: what each answer made, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing
from leafd.links.origin import Origin
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import ORIGIN, SLOT, FakePlane, link_to, on_mock_clock

DELETES = "$JS.hub.API.CONSUMER.DELETE.ORDERS."


def deleted(plane: FakePlane) -> list[str]:
    return [call[1].removeprefix(DELETES) for call in plane.calls if call[0] == "publish"]


async def ask(plane: FakePlane, replicas: Replicas, times: int, origin: Origin = ORIGIN) -> None:
    """The slot's request is sent so often, and nobody has answered."""
    replicas.set_slots(10, [replace(SLOT, origin=origin)])
    with trio.fail_after(100):
        while len(plane.requests) < times:
            await trio.sleep(0.5)


def inboxes(plane: FakePlane) -> set[str]:
    return {subject for subject, _ in plane.handlers.values() if subject.startswith("$JSC.R.")}


@on_mock_clock
async def test_what_a_repeated_request_made_is_deleted(plane: FakePlane, replicas: Replicas) -> None:
    """nats-server makes a consumer for each of them, with the same deliver subject. The first is taken up; then nobody
    listens for answers any more."""
    await ask(plane, replicas, 3)
    assert len({request[3] for request in plane.requests}) == 1
    for name in ("JS_SRC_x-1", "JS_SRC_x-2", "JS_SRC_x-3"):
        assert inboxes(plane)
        plane.answer({"name": name})
        await trio.testing.wait_all_tasks_blocked()

    assert [call[3]["consumer"] for call in plane.calls if call[0] == "start"] == ["JS_SRC_x-1"]
    assert deleted(plane) == ["JS_SRC_x-2", "JS_SRC_x-3"]
    assert inboxes(plane) == set()


@pytest.mark.parametrize(
    ("body", "origin"),
    [
        ({"name": "JS_SRC_x-1"}, ORIGIN),
        ({"name": "of-somebody"}, ORIGIN),
        ({"error": {"code": 400, "err_code": 10025}}, ORIGIN),
        ({"name": "JS_SRC_x-2", "config": {"ack_policy": "flow_control"}}, replace(ORIGIN, durable="d")),
    ],
    ids=["the one that was there", "another's", "none", "a durable consumer's"],
)
def test_what_is_not_one_too_many_stays(body: dict[str, object], origin: Origin) -> None:
    """A leafd, and a nats-server whose stream is a work queue, answer with the same consumer again; and an answer
    does not say which consumers of others may be deleted."""

    @on_mock_clock
    async def test(plane: FakePlane, replicas: Replicas) -> None:
        await ask(plane, replicas, 2, origin)
        plane.answer({"name": "JS_SRC_x-1", "config": {"ack_policy": "flow_control"}})
        await trio.testing.wait_all_tasks_blocked()
        plane.answer(body)
        await trio.testing.wait_all_tasks_blocked()
        assert [call[0] for call in plane.calls if call[0] != "record"] == ["start"]

    test()


@on_mock_clock
async def test_an_answer_that_nobody_may_give_counts_for_nothing(plane: FakePlane, replicas: Replicas) -> None:
    """Neither as one that is still to come, nor as one whose consumer is one too many."""
    await ask(plane, replicas, 2, replace(ORIGIN, api=""))
    plane.answer({"name": "JS_SRC_x-1"}, connection=0)
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "JS_SRC_x-9"}, connection=5)
    assert deleted(plane) == []
    plane.answer({"name": "JS_SRC_x-2"}, connection=0)
    assert deleted(plane) == ["$JS.API.CONSUMER.DELETE.ORDERS.JS_SRC_x-2"]


@on_mock_clock
async def test_nobody_listens_for_late_answers_of_a_slot_that_is_gone(plane: FakePlane, replicas: Replicas) -> None:
    """The consumer that a late answer tells of ends by itself then: nobody listens to what it delivers."""
    await ask(plane, replicas, 2)
    plane.answer({"name": "JS_SRC_x-1"})
    await trio.testing.wait_all_tasks_blocked()
    assert inboxes(plane)
    replicas.set_slots(10, [])
    await trio.testing.wait_all_tasks_blocked()

    assert inboxes(plane) == set()
    assert deleted(plane) == ["JS_SRC_x-1"]


@on_mock_clock
async def test_a_message_that_comes_before_its_consumer_is_taken_up_is_asked_for_again(
    plane: FakePlane, replicas: Replicas
) -> None:
    """A link is read again after five seconds, however busy this server is, and what is then delivered nobody takes in.
    With heartbeats each 300 s the copy lacked it for a minute."""
    replicas.link_up(link_to("hub", orderly=True))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    deliver = plane.requests[-1][2]["config"]["deliver_subject"]
    plane.answer({"name": "JS_SRC_x-1", "num_pending": 1}, b"NATS/1.0\r\nLeafd-Heartbeat: 300\r\n\r\n")
    plane.deliver(deliver)
    await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(1.1)
    assert [call[0] for call in plane.calls if call[0] in ("start", "stop")] == ["start", "stop"]
    assert deleted(plane) == ["JS_SRC_x-1"]
    assert plane.requests[-1][2]["config"]["deliver_subject"] != deliver
    plane.answer({"name": "JS_SRC_x-2", "num_pending": 1}, b"NATS/1.0\r\nLeafd-Heartbeat: 300\r\n\r\n")
    await trio.sleep(30)
    assert [call[0] for call in plane.calls if call[0] in ("start", "stop")] == ["start", "stop", "start"]
