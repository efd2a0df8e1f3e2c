"""Consumers of mirrors and sources whose acknowledgements alone remove messages at the origin: of work queues.

Not here: what the plane takes (tests/native/test_jetstream.c), and what the origin does (test_consume_copies.c).
"""

from __future__ import annotations

import trio.testing
from leafd import native_types as t
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import SLOT, FakePlane, on_mock_clock

SETTLING = {"name": "c", "config": {"ack_policy": "flow_control"}}
DELETED = ("publish", "$JS.hub.API.CONSUMER.DELETE.ORDERS.c")


async def take_up_settling(plane: FakePlane, replicas: Replicas) -> None:
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer(SETTLING)
    await trio.testing.wait_all_tasks_blocked()


@on_mock_clock
async def test_a_consumer_that_alone_removes_messages_is_set_back_and_not_deleted(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Of a work queue: one made anew would begin behind what is stored here and is not acknowledged yet, which would
    then wait at its origin for ever. One that is not needed any more is deleted."""
    await take_up_settling(plane, replicas)
    plane.sequence = 5
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 5))
    await trio.testing.wait_all_tasks_blocked()
    assert [request[1] for request in plane.requests] == ["$JS.hub.API.CONSUMER.CREATE.ORDERS"] * 2
    assert DELETED not in plane.calls
    plane.answer(SETTLING)
    await trio.testing.wait_all_tasks_blocked()
    replicas.set_slots(10, [])
    await trio.testing.wait_all_tasks_blocked()
    assert DELETED in plane.calls


@on_mock_clock
async def test_a_consumer_for_what_is_newer_is_another_one(plane: FakePlane, replicas: Replicas) -> None:
    """Its origin was put back: it begins by the time, which the one before does not."""
    await take_up_settling(plane, replicas)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.BACK, 0, 5))
    await trio.testing.wait_all_tasks_blocked()
    assert DELETED in plane.calls


@on_mock_clock
async def test_the_server_that_leads_next_has_the_same_consumer(plane: FakePlane, replicas: Replicas) -> None:
    """Deleted by the one that led, it would be gone after the next one has set it back."""
    await take_up_settling(plane, replicas)
    replicas.remove_stream(10, handed_on=True)
    await trio.testing.wait_all_tasks_blocked()
    assert ("stop", 10, 1) in plane.calls
    assert DELETED not in plane.calls
