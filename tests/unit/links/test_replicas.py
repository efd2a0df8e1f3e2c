"""The task that drives all slots, against a plane that only writes down what it is told; time is trio's mock clock."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.links.origin import Origin
from leafd.links.replica import Slot
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import ORIGIN, SLOT, FakePlane, link_to, on_mock_clock, take_up


@on_mock_clock
async def test_a_new_source_asks_and_starts(plane: FakePlane, replicas: Replicas) -> None:
    """A slot that is set is asked for, and the answer's consumer is taken up with the header's constant parts. Which
    stream it is of is written down before anything of it is stored."""
    replicas.load_progress(10, ORIGIN.key, 7)
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "JS_SRC_x-1"}, b"NATS/1.0\r\nNats-Stream-Identity: ID\r\n\r\n")
    await trio.testing.wait_all_tasks_blocked()

    assert plane.requests[0][2]["config"]["opt_start_seq"] == 8
    assert plane.calls[0][0] == "record"
    start = plane.calls[1]
    assert start[:3] == ("start", 10, 1)
    assert start[3]["consumer"] == "JS_SRC_x-1"
    assert start[3]["last_sequence"] == 7
    assert start[3]["source"] == t.IngestSource("ORDERS:bTMUkJQk", ">", ">", "ID", "ORDERS:bTMUkJQk > >")


@pytest.mark.parametrize(
    ("api", "linked", "wrong", "right"),
    [("", False, 5, 0), ("$JS.hub.API", True, 6, 5), ("$JS.hub.API", False, None, 6), ("theirs.API", True, None, 6)],
    ids=["a stream of this server", "a domain with a link", "a domain behind another", "any other way"],
)
def test_who_answers_for_an_origin(api: str, linked: bool, wrong: int | None, right: int) -> None:
    """The server itself for its own streams, and a link to the origin's domain, where there is one, for that domain;
    the names that others deliver are judged. An answer of somebody else is none."""

    @on_mock_clock
    async def test(plane: FakePlane, replicas: Replicas) -> None:
        if linked:
            replicas.link_up(link_to("hub"))
        replicas.set_slots(10, [replace(SLOT, origin=replace(ORIGIN, api=api))])
        await trio.testing.wait_all_tasks_blocked()
        if wrong is not None:
            plane.answer({"name": "forged"}, connection=wrong)
            await trio.testing.wait_all_tasks_blocked()
            assert not [call for call in plane.calls if call[0] == "start"]
        plane.answer({"name": "good"}, connection=right)
        await trio.testing.wait_all_tasks_blocked()
        (start,) = [call[3] for call in plane.calls if call[0] == "start"]
        assert ("good", right) == (start["consumer"], start["origin"])

    test()


DURABLE = replace(SLOT, origin=replace(ORIGIN, durable="hub", durable_deliver="d.hub"))
RESET = {"name": "hub", "config": {"ack_policy": "flow_control"}, "delivered": {"stream_seq": 4}}


@on_mock_clock
async def test_a_durable_consumer_that_is_made_later_is_taken_up_when_it_delivers(
    plane: FakePlane, replicas: Replicas
) -> None:
    """One that is not there does not answer. What comes to its deliver subject tells of it, however long the next
    request is off."""
    replicas.set_slots(10, [DURABLE])
    await trio.sleep(40)
    before = len(plane.requests)
    (heard,) = [handler for subject, handler in plane.handlers.values() if subject == "d.hub"]
    heard(t.Message(1, 2, 5, 2, "d.hub", "", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b""))
    await trio.testing.wait_all_tasks_blocked()
    assert len(plane.requests) == before + 1
    plane.answer(RESET)
    await trio.testing.wait_all_tasks_blocked()

    assert (plane.calls[-1][0], plane.calls[-1][3]["behind"]) == ("start", 4)
    assert "d.hub" not in {subject for subject, _ in plane.handlers.values()}


@on_mock_clock
async def test_a_source_that_gets_a_durable_consumer_goes_on_where_it_was(plane: FakePlane, replicas: Replicas) -> None:
    """Of the same stream nothing is taken twice, not even what came while the old slot ended; of one that was made
    anew, everything."""
    identity = b"NATS/1.0\r\nNats-Stream-Identity: ID\r\n\r\n"
    replicas.set_slots(10, [SLOT])
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "c"}, identity)
    await trio.testing.wait_all_tasks_blocked()
    plane.sequence, plane.arriving = 40, 1
    for header, last_sequence in ((identity, 41), (b"NATS/1.0\r\nNats-Stream-Identity: NEW\r\n\r\n", 0)):
        replicas.set_slots(10, [])
        replicas.set_slots(10, [DURABLE])
        await trio.testing.wait_all_tasks_blocked()
        plane.sequence = 0
        plane.answer(RESET, header)
        await trio.testing.wait_all_tasks_blocked()
        started = [call[3] for call in plane.calls if call[0] == "start"]
        assert started[-1]["last_sequence"] == last_sequence


@on_mock_clock
async def test_an_unreachable_origin_is_asked_when_a_link_asks_for_its_api(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Until then nobody is told of anything; then it is asked at once, and once."""
    plane.reachable = False
    replicas.set_slots(10, [SLOT])
    await trio.sleep(61.1)
    assert plane.requests == []
    assert not plane.told
    assert len(plane.looks) <= 32
    plane.reachable = True
    replicas.reached(t.Reached(2, "$JS.other.API.CONSUMER.>"))
    replicas.reached(t.Reached(3, "$JS.hub.API.CONSUMER.>"))
    await trio.testing.wait_all_tasks_blocked()
    assert plane.requests == []
    began_s = trio.current_time()
    replicas.reached(t.Reached(2, "$JS.hub.API.CONSUMER.>"))
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "c"})
    await trio.sleep(60)

    assert [began_s] == [when for when, *_ in plane.requests]
    assert [call[0] for call in plane.calls] == ["start"]


@on_mock_clock
async def test_an_origin_behind_a_prefix_that_names_no_domain_is_looked_for(
    plane: FakePlane, replicas: Replicas
) -> None:
    """No link says when it is there: it is looked for often at first, and is taken up when somebody hears."""
    plane.reachable = False
    replicas.set_slots(10, [replace(SLOT, origin=Origin("ORDERS", "JS.hub.API"))])
    await trio.sleep(2.05)
    asked = len(plane.requests)
    plane.reachable = True
    await trio.sleep(0.3)
    plane.answer({"name": "c"})
    await trio.sleep(60)

    assert 8 <= asked <= 12
    assert len(plane.requests) == asked + 1


@on_mock_clock
async def test_a_thousand_unreachable_origins_are_looked_for_twenty_times_a_second(
    plane: FakePlane, replicas: Replicas
) -> None:
    """However many slots wait for boxes that are away, looking for them takes a bounded part of a processor."""
    plane.reachable = False
    slots = [Slot(10, "A", 2, "A", 1 + i, False, Origin("X", f"$JS.b{i}.API"), "hub", f"JS_{i}") for i in range(1000)]
    replicas.set_slots(10, slots)
    await trio.sleep(60)
    before = len(plane.looks)
    await trio.sleep(600)

    assert 11_000 <= len(plane.looks) - before <= 13_000
    assert plane.requests == []
    assert not plane.told


@on_mock_clock
async def test_only_the_link_to_an_origin_s_domain_is_told_where_answers_and_messages_are_wanted(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Where two links lead there, or none is known to, all are told: the answer may come by any."""
    replicas.link_up(link_to("hub"))
    await take_up(plane, replicas)
    assert set(plane.told.values()) == {5}
    assert len(plane.told) == 2
    plane.told.clear()
    other = link_to("hub")
    assert other.bind is not None
    other.connection, other.bind = 6, replace(other.bind, remote_id="N2")
    replicas.link_up(other)
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "c2"})
    await trio.testing.wait_all_tasks_blocked()
    assert set(plane.told.values()) == {0}
    assert len(plane.told) == 2
    plane.told.clear()
    await take_up(plane, replicas, Slot(11, "B", 2, "A", 1, False, Origin("X", "$JS.behind.API"), "leaf", "JS_SRC_y"))
    assert set(plane.told.values()) == {0}
    assert len(plane.told) == 2


@pytest.mark.parametrize(
    ("origin", "linked", "aim"),
    [
        (Origin("X", "$JS.box-0.API"), "hub", "-tFF6"),
        (Origin("X", "$JS.box-0.API"), "box-0", ""),
        (Origin("X"), "hub", "-ZLMV"),
        (Origin("X", "their.API"), "hub", ""),
        (Origin("X", "$JS.box-0.API", deliver="theirs"), "hub", "-tFF6"),
    ],
    ids=["no link to it", "a link to it", "of this domain", "behind a prefix that names no domain", "deliver prefix"],
)
def test_what_is_wanted_of_an_origin_without_a_link_says_its_domain(origin: Origin, linked: str, aim: str) -> None:
    """The server of the cluster that has the link tells no other one. How names are made that come with a prefix of
    somebody's choice is his."""

    @on_mock_clock
    async def test(plane: FakePlane, replicas: Replicas) -> None:
        replicas.link_up(link_to(linked))
        await take_up(plane, replicas, Slot(11, "B", 2, "A", 1, False, origin, "leaf", "JS_SRC_y"))
        answers, messages = plane.requests[0][3], plane.requests[0][2]["config"]["deliver_subject"]
        assert re.fullmatch(r"\$JSC\.R\.\w{8}" + aim, answers)
        assert re.fullmatch(r"theirs\.S\.\w{8}" if origin.deliver else r"\$JS\.S\.\w{8}" + aim, messages)

    test()


@on_mock_clock
async def test_a_returning_link_restarts_its_own_domains_slots_only(plane: FakePlane, replicas: Replicas) -> None:
    """A link to one hub must not make every other source start over."""
    other = Slot(11, "B", 2, "A", 1, False, Origin("X", "$JS.other.API"), "leaf", "JS_SRC_y")
    for slot in (SLOT, other):
        await take_up(plane, replicas, slot, f"c{slot.stream}")
    plane.sequence = 99
    before = len(plane.requests)
    replicas.link_up(link_to("hub"))
    await trio.testing.wait_all_tasks_blocked()

    again = plane.requests[before:]
    assert [request[1] for request in again] == ["$JS.hub.API.CONSUMER.CREATE.ORDERS"]
    assert again[0][2]["config"]["opt_start_seq"] == 100
    assert ("stop", 10, 1) in plane.calls
    assert ("publish", "$JS.hub.API.CONSUMER.DELETE.ORDERS.c10") in plane.calls


@on_mock_clock
async def test_boxes_that_come_back_together_are_each_asked_once(plane: FakePlane, replicas: Replicas) -> None:
    """With as many sources as links, the work grows with their number and not with its square."""
    slots = [Slot(10, "A", 2, "A", 1 + i, False, Origin("X", f"$JS.b{i}.API"), "hub", f"JS_{i}") for i in range(200)]
    plane.reachable = False
    replicas.set_slots(10, slots)
    await trio.sleep(31.1)
    plane.reachable = True
    before = len(plane.requests)
    for i in range(200):
        replicas.link_up(link_to(f"b{i}"))
        replicas.reached(t.Reached(2, f"$JS.b{i}.API.CONSUMER.>"))
        await trio.sleep(0.005)
    await trio.testing.wait_all_tasks_blocked()

    asked = [subject for _, subject, *_ in plane.requests[before:]]
    assert sorted(f"$JS.b{i}.API.CONSUMER.CREATE.X" for i in range(200)) == sorted(asked)


@on_mock_clock
async def test_a_link_whose_interest_is_not_told_anew_is_looked_at(plane: FakePlane, replicas: Replicas) -> None:
    """Another link may have asked for the same before, and there may be no room to tell control of it."""
    plane.reachable = False
    replicas.set_slots(10, [SLOT])
    await trio.sleep(0.1)
    plane.reachable = True
    replicas.link_up(link_to("hub"))
    await trio.sleep(0.6)
    assert ["$JS.hub.API.CONSUMER.CREATE.ORDERS"] == [subject for _, subject, *_ in plane.requests]


@on_mock_clock
async def test_news_that_comes_while_it_is_looked_whether_the_origin_is_there_is_not_lost(
    plane: FakePlane, replicas: Replicas
) -> None:
    """The plane has answered that nobody asks for it, and says the contrary before that is taken in."""
    replicas.set_slots(10, [SLOT])
    replicas.link_up(link_to("hub"))
    plane.busy, plane.reachable = trio.Event(), False
    await trio.sleep(0.6)
    plane.busy.set()
    replicas.reached(t.Reached(2, "$JS.hub.API.CONSUMER.>"))
    await trio.testing.wait_all_tasks_blocked()

    assert [at_s for at_s, _subject in plane.looks] == [trio.current_time()] * 2  # it looks again, and then it waits


@on_mock_clock
async def test_what_waits_for_a_plane_that_is_busy_is_bounded_and_nothing_of_it_is_lost(
    plane: FakePlane, replicas: Replicas
) -> None:
    """A thousand boxes call while the plane carries nothing out for ten minutes: of each slot at most its latest
    request waits. Afterwards each is asked, answered and taken up; those that end meanwhile are not."""
    slots = [Slot(10, "A", 2, "A", 1 + i, False, Origin("X", f"$JS.b{i}.API"), "hub", f"JS_{i}") for i in range(1000)]
    plane.busy = trio.Event()
    replicas.set_slots(10, slots)
    most = 0
    for _ in range(10):
        for i in range(1000):
            replicas.link_up(link_to(f"b{i}"))
        await trio.sleep(60)
        most = max(most, replicas.waiting())
    assert 900 < most <= 1000
    gone, stay = slots[500:], slots[:500]
    replicas.set_slots(10, stay)
    before = len(plane.requests)
    plane.busy.set()
    await trio.testing.wait_all_tasks_blocked()

    asked = [subject for _, subject, *_ in plane.requests[before:]]
    assert {f"$JS.b{i}.API.CONSUMER.CREATE.X" for i in range(500)} == set(asked)
    assert len(asked) == 500
    for at in range(len(plane.requests)):
        plane.answer({"name": "c"}, at=at)
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(slot.number for slot in stay) == sorted(call[2] for call in plane.calls if call[0] == "start")
    assert {slot.number for slot in gone}.isdisjoint(call[2] for call in plane.calls)


@on_mock_clock
async def test_a_slot_that_is_replaced_while_the_plane_is_busy_stops_before_the_next_one_starts(
    plane: FakePlane, replicas: Replicas
) -> None:
    """The same number of the same stream: the old one's end comes first, however late both come."""
    await take_up(plane, replicas)
    plane.busy = trio.Event()
    other = Slot(11, "B", 2, "A", 1, False, Origin("X", "$JS.other.API"), "leaf", "JS_SRC_y")
    replicas.set_slots(11, [other])
    await trio.testing.wait_all_tasks_blocked()
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 41))
    replicas.set_slots(10, [replace(SLOT, origin=replace(ORIGIN, start_seq=5))])
    await trio.sleep(30)
    plane.busy.set()
    await trio.testing.wait_all_tasks_blocked()
    for at in range(len(plane.requests)):
        plane.answer({"name": "d"}, at=at)
    await trio.testing.wait_all_tasks_blocked()

    of_it = [call[0] for call in plane.calls if call[0] in ("start", "stop") and call[1] == 10]
    assert ["start", "stop", "start"] == of_it


@on_mock_clock
async def test_domains_behind_another_are_asked_when_its_link_asks_for_them(
    plane: FakePlane, replicas: Replicas
) -> None:
    """The link leads to the hub; the boxes behind it have no link to here, and it may ask for all of them at once."""
    plane.reachable = False
    for stream, name in ((11, "one"), (12, "two")):
        origin = Origin("X", f"$JS.{name}.API")
        replicas.set_slots(stream, [Slot(stream, "B", 2, "A", 1, False, origin, "leaf", "JS_SRC_y")])
    await trio.sleep(31.1)
    plane.reachable = True
    replicas.reached(t.Reached(2, "$JS.one.API.>"))
    await trio.testing.wait_all_tasks_blocked()
    assert ["$JS.one.API.CONSUMER.CREATE.X"] == [subject for _, subject, *_ in plane.requests]
    plane.answer({"name": "c"})
    replicas.reached(t.Reached(2, "$JS.*.API.>"))
    await trio.testing.wait_all_tasks_blocked()
    assert ["$JS.two.API.CONSUMER.CREATE.X"] == [subject for _, subject, *_ in plane.requests[1:]]


@on_mock_clock
async def test_an_origin_that_is_back_at_another_server_is_asked_at_once(plane: FakePlane, replicas: Replicas) -> None:
    """Its link is no link of this server: what asks for its API once more is all that tells that it was away. Interest
    in the APIs of all domains tells that of none, and what belongs to the link that is new does not count twice."""
    await take_up(plane, replicas)
    replicas.reached(t.Reached(2, "$JS.hub.API.>"))
    await trio.sleep(2.1)
    replicas.reached(t.Reached(2, "$JS.*.API.>"))
    await trio.testing.wait_all_tasks_blocked()
    assert len(plane.requests) == 1
    plane.sequence, began_s = 41, trio.current_time()
    replicas.reached(t.Reached(2, "$JS.hub.API.>"))
    await trio.testing.wait_all_tasks_blocked()

    assert [began_s] == [when for when, *_ in plane.requests[1:]]
    assert plane.requests[-1][2]["config"]["opt_start_seq"] == 42


@on_mock_clock
async def test_an_origin_that_is_reached_by_a_link_of_this_server_is_its_links_concern(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Another way to it, or another subject that it asks for, ends nothing that runs."""
    replicas.link_up(link_to("hub"))
    await take_up(plane, replicas)
    await trio.sleep(2.1)
    asked = len(plane.requests)
    replicas.reached(t.Reached(2, "$JS.hub.API.>"))
    await trio.testing.wait_all_tasks_blocked()

    assert len(plane.requests) == asked


@on_mock_clock
async def test_a_gap_makes_the_consumer_anew_behind_what_is_stored(plane: FakePlane, replicas: Replicas) -> None:
    """EVENT_INGEST with a gap stops the ingest, deletes the consumer and asks from the stored sequence on."""
    await take_up(plane, replicas)
    plane.sequence = 41
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 41))
    await trio.testing.wait_all_tasks_blocked()

    assert plane.requests[-1][2]["config"]["opt_start_seq"] == 42


@on_mock_clock
async def test_a_refused_message_waits_before_it_is_asked_for_again(plane: FakePlane, replicas: Replicas) -> None:
    """A full local stream must not be hammered."""
    await take_up(plane, replicas)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.REFUSED, -2, 4))
    await trio.sleep(1.9)
    early = len(plane.requests)
    await trio.sleep(0.2)

    assert early == 1
    assert len(plane.requests) == 2


@on_mock_clock
async def test_who_is_refused_again_and_again_is_asked_less_often_until_there_is_room(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Each try costs the origin's line messages that are thrown away. One message that is taken counts as room for
    more, and so does the news of room."""
    await take_up(plane, replicas)

    async def refused_and_asked(last_sequence: int) -> float:
        before, began_s = len(plane.requests), trio.current_time()
        plane.sequence = last_sequence
        replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.REFUSED, -2, last_sequence))
        while len(plane.requests) == before:
            await trio.sleep(0.1)
        plane.answer({"name": "c"})
        await trio.testing.wait_all_tasks_blocked()
        return round(trio.current_time() - began_s)

    assert [2, 2, 4, 8, 16, 16, 2] == [await refused_and_asked(taken) for taken in (4, 5, 5, 5, 5, 5, 6)]
    asked = len(plane.requests)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.REFUSED, -2, 6))
    await trio.testing.wait_all_tasks_blocked()
    assert asked == len(plane.requests)
    replicas.room()
    await trio.testing.wait_all_tasks_blocked()
    assert asked + 1 == len(plane.requests)


@on_mock_clock
async def test_who_was_refused_is_asked_soon_when_its_stream_is_less_full(plane: FakePlane, replicas: Replicas) -> None:
    """Later each time, where that was not the room that it needs."""
    await take_up(plane, replicas)

    async def refused_and_asked(last_sequence: int) -> float:
        before, began_s = len(plane.requests), trio.current_time()
        plane.sequence = last_sequence
        replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.REFUSED, -2, last_sequence))
        await trio.testing.wait_all_tasks_blocked()
        replicas.ingest_event(t.Ingest(10, 0, t.IngestCode.ROOM, 0, 0))
        while len(plane.requests) == before:
            await trio.sleep(0.01)
        plane.answer({"name": "c"})
        await trio.testing.wait_all_tasks_blocked()
        return round(trio.current_time() - began_s, 1)

    assert [0.3, 0.5, 1.0, 2.0, 0.3] == [await refused_and_asked(taken) for taken in (5, 5, 5, 5, 6)]


@on_mock_clock
async def test_a_slot_that_the_plane_could_not_start_is_tried_again(plane: FakePlane, replicas: Replicas) -> None:
    """A start that fails leaves no slot behind that counts as running and takes nothing in."""
    plane.broken = {"start"}
    await take_up(plane, replicas)
    await trio.sleep(1)
    assert [call[0] for call in plane.calls] == ["publish"]
    plane.broken = set()
    await trio.sleep(2)
    plane.answer({"name": "d"})
    await trio.testing.wait_all_tasks_blocked()

    assert [call[0] for call in plane.calls] == ["publish", "start"]


@on_mock_clock
async def test_a_slot_that_cannot_be_stopped_is_started_anew(plane: FakePlane, replicas: Replicas) -> None:
    """What was stored last is not known then; the slot asks from what it knew, and the store drops what it has."""
    await take_up(plane, replicas)
    plane.broken = {"stop"}
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 5))
    await trio.testing.wait_all_tasks_blocked()
    plane.answer({"name": "d"})
    await trio.testing.wait_all_tasks_blocked()

    assert [call[0] for call in plane.calls] == ["start", "publish", "start"]


@on_mock_clock
async def test_removing_the_stream_stops_and_tells_the_origin(plane: FakePlane, replicas: Replicas) -> None:
    """Nothing more is asked for, and the origin's consumer is deleted."""
    await take_up(plane, replicas)
    replicas.remove_stream(10)
    await trio.sleep(30)

    assert len(plane.requests) == 1
    assert ("publish", "$JS.hub.API.CONSUMER.DELETE.ORDERS.c") in plane.calls
    assert ("stop", 10, 1) in plane.calls


@on_mock_clock
async def test_a_source_that_waits_tells_how_far_it_was_behind_and_since_when(
    plane: FakePlane, replicas: Replicas
) -> None:
    """A source whose message was refused says what it was told last, when that was, and that it is not known now."""
    await take_up(plane, replicas)
    plane.lag = 51
    known = await replicas.info(SLOT.stream, SLOT.number)
    assert (known.lag, known.known, known.pace, known.mean_size) == (51, True, 25.5, None)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.REFUSED, 0, 5))
    await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(1)
    found = await replicas.info(SLOT.stream, SLOT.number)
    assert (found.lag, found.active_ns, found.running) == (51, 1_000_000_000, False)
    assert (found.known, found.told_ns, found.pace, found.mean_size) == (False, 3_000_000_000, None, 200)
    behind = await replicas.behind()
    assert (behind.running, behind.messages, behind.stopped) == (0, 0, 1)


@on_mock_clock
async def test_how_far_each_box_is_behind_is_told_by_its_domain_and_null_where_a_copy_does_not_run(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Those of another account, and of this server itself, are not among them."""
    replicas.link_up(link_to("hub"))
    await take_up(plane, replicas)
    plane.lag = 7
    far = replace(SLOT, stream=11, origin=replace(ORIGIN, api="$JS.far.API"))
    replicas.set_slots(11, [far])
    replicas.set_slots(12, [replace(SLOT, stream=12, account=3)])
    replicas.set_slots(13, [replace(SLOT, stream=13, origin=Origin("ORDERS"))])
    assert await replicas.behind_each(2) == {"hub": 7, "far": None}
    assert await replicas.behind_each(4) == {}
    replicas.set_slots(10, [SLOT, replace(SLOT, number=2)])
    assert await replicas.behind_each(2) == {"hub": None, "far": None}, "one of two says nothing"
    replicas.set_slots(10, [SLOT])
    replicas.link_down(link_to("hub"))
    assert await replicas.behind_each(2) == {"hub": None, "far": None}


@on_mock_clock
async def test_a_link_that_is_lost_takes_along_what_is_known(plane: FakePlane, replicas: Replicas) -> None:
    """Nobody says how far it is behind from the moment on in which its link ended, long before its silence is told."""
    replicas.link_up(link_to("hub"))
    await take_up(plane, replicas)
    plane.lag = 7
    assert (await replicas.info(SLOT.stream, SLOT.number)).known
    replicas.link_down(link_to("hub"))
    found = await replicas.info(SLOT.stream, SLOT.number)
    assert (found.known, found.lag, found.pace) == (False, 7, None)


@on_mock_clock
async def test_info_of_a_source_that_is_stopped_meanwhile_says_that_it_does_not_run(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Between the question and its answer the ingest may end, which is no error of the stream's info."""
    await take_up(plane, replicas)
    plane.state_status = t.Status.NOT_FOUND
    found = await replicas.info(SLOT.stream, SLOT.number)
    assert (found.lag, found.active_ns, found.running) == (0, -1, False)
    plane.state_status = t.Status.NO_MEMORY
    with pytest.raises(t.PlaneError):
        await replicas.info(SLOT.stream, SLOT.number)


@on_mock_clock
async def test_a_link_that_has_become_slow_is_waited_for_as_long_as_it_takes_now(
    plane: FakePlane, replicas: Replicas
) -> None:
    """It was near when it came up, and then answers take 12 seconds: after one that is late the round trip is measured,
    and requests are no longer made every few seconds. No more than one in ten seconds looks at all connections."""
    link = link_to("hub")
    link.round_trip_s = 0.005
    replicas.link_up(link)
    plane.trips = {5: 12.0, 6: 0.001}
    replicas.set_slots(10, [SLOT])
    await trio.sleep(120)
    times = [at_s for at_s, *_ in plane.requests]
    apart = [later - before for before, later in pairwise(times)]
    assert (True, True) == (apart[0] <= 5, apart[-1] >= 29.9), apart
    assert all(later - before >= 10 for before, later in pairwise(plane.measured))
    assert 12.0 == link.round_trip_s
