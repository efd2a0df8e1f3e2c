"""How a copy comes about between two leafd: asked for and listened to in one flight; time is trio's mock clock."""

from __future__ import annotations

import trio
import trio.testing
from leafd import native_types as t
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import SLOT, FakePlane, link_to, on_mock_clock, take_up


def subscribed_to(plane: FakePlane, subject: str) -> list[int]:
    return [
        flags
        for (there, _), flags in zip(plane.handlers.values(), plane.flags.values(), strict=True)
        if there == subject
    ]


@on_mock_clock
async def test_a_leafd_is_asked_and_listened_to_in_one_flight(plane: FakePlane, replicas: Replicas) -> None:
    """Its answer comes before its messages. So the deliver subject is listened to with the request, which goes out
    before the other end has told its interest; and nothing is read behind the answer before its messages are taken
    in."""
    replicas.link_up(link_to("hub", orderly=True))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    deliver, inbox = plane.requests[-1][2]["config"]["deliver_subject"], plane.requests[-1][3]

    assert plane.untold == [5]
    assert subscribed_to(plane, deliver) == [0]
    assert subscribed_to(plane, inbox) == [t.SubscribeFlag.ALONE]
    plane.answer({"name": "c", "config": {"idle_heartbeat": 25 * 10**9}}, b"NATS/1.0\r\nLeafd-Heartbeat: 300\r\n\r\n")
    assert plane.repaid == []
    await trio.testing.wait_all_tasks_blocked()
    assert plane.started == {"silence_ns": 660 * 10**9, "spared": True, "repaid": 0}
    assert len(plane.repaid) == 1
    assert subscribed_to(plane, deliver) == []


@on_mock_clock
async def test_a_request_that_is_on_its_way_is_not_sent_again_when_the_link_asks_for_the_api(
    plane: FakePlane, replicas: Replicas
) -> None:
    """That a link asks for it is said right before the answer, which is as good as one to a second request."""
    replicas.link_up(link_to("hub", orderly=True))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    asked = len(plane.requests)
    replicas.reached(t.Reached(2, "$JS.hub.API.>"))
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "c", "config": {"idle_heartbeat": 25 * 10**9}}, b"NATS/1.0\r\nLeafd-Heartbeat: 300\r\n\r\n")
    await trio.testing.wait_all_tasks_blocked()
    assert plane.started == {"silence_ns": 660 * 10**9, "spared": True, "repaid": 0}
    assert len(plane.requests) == asked


@on_mock_clock
async def test_another_server_is_listened_to_after_its_answer(plane: FakePlane, replicas: Replicas) -> None:
    """Its messages may come before its answer, where they would be lost; and it sends the heartbeats that were asked
    for."""
    replicas.link_up(link_to("hub"))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    deliver = plane.requests[-1][2]["config"]["deliver_subject"]

    assert plane.untold == [0]
    assert subscribed_to(plane, deliver) == []
    plane.answer({"name": "c", "config": {"idle_heartbeat": 25 * 10**9}})
    await trio.testing.wait_all_tasks_blocked()
    assert plane.started == {"silence_ns": 55 * 10**9, "spared": False, "repaid": 0}
    assert plane.repaid == []


@on_mock_clock
async def test_an_answer_that_refuses_holds_nobody_up(plane: FakePlane, replicas: Replicas) -> None:
    """What comes behind it is read on at once."""
    replicas.link_up(link_to("hub", orderly=True))
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    deliver = plane.requests[-1][2]["config"]["deliver_subject"]
    reply = plane.requests[-1][3]
    handler = next(one for subject, one in plane.handlers.values() if subject == reply)

    kept = handler(t.Message(1, 2, 5, 2, reply, "", b"", b'{"error": {"code": 404, "err_code": 10059}}'))
    assert not kept
    assert subscribed_to(plane, deliver) == []


@on_mock_clock
async def test_a_link_that_is_lost_stops_its_copies_at_once(plane: FakePlane, replicas: Replicas) -> None:
    """Who relies on the link for hearing of its origin is not told of as running when it has gone."""
    link = link_to("hub", orderly=True)
    replicas.link_up(link)
    await take_up(plane, replicas)
    plane.reachable = False

    replicas.link_down(link)
    await trio.testing.wait_all_tasks_blocked()
    assert ("stop", 10, 1) in plane.calls
    assert not (await replicas.info(10, 1)).running
