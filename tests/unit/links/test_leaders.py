"""Another leader of a stream at a hub that is a cluster: the copy's consumer is asked for there."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
import trio
from leafd import native_types as t
from leafd.links.leaders import ELECTED, MOVED_EACH_S
from leafd.links.link import Link
from leafd.links.replica import FEW
from leafd.links.replicas import Replicas

from tests.unit.links.replica_stage import SLOT, FakePlane, link_to, on_mock_clock, take_up

SUBJECT = f"{ELECTED}.ORDERS"
FAR = 5
"""The connection of every link that the stage makes."""


def to_cluster(cluster: str = "EAST", *, orderly: bool = False) -> Link:
    link = link_to("hub", orderly=orderly)
    assert link.bind is not None
    link.bind = replace(link.bind, cluster=cluster)
    return link


def elected(plane: FakePlane, connection: int = FAR) -> int:
    """The advisory comes; how many listen."""
    found = [handler for subject, handler in plane.handlers.values() if subject == SUBJECT]
    for one in found:
        one(t.Message(1, 2, connection, 2, SUBJECT, "", b"", b"{}"))
    return len(found)


async def running(plane: FakePlane, replicas: Replicas, link: Link) -> None:
    replicas.link_up(link)
    await take_up(plane, replicas)


@on_mock_clock
async def test_a_new_leader_is_asked_for_the_consumer_at_once(plane: FakePlane, replicas: Replicas) -> None:
    await running(plane, replicas, to_cluster())
    assert plane.told[SUBJECT] == FAR, "no other link is told"
    asked = len(plane.requests)
    elected(plane)
    await trio.sleep(0.1)
    assert len(plane.requests) == asked + 1


@on_mock_clock
async def test_a_request_without_an_answer_is_asked_again_at_once(plane: FakePlane, replicas: Replicas) -> None:
    """There was no leader when it came."""
    replicas.link_up(to_cluster())
    replicas.set_slots(10, [SLOT])
    await trio.sleep(1)
    asked = len(plane.requests)
    elected(plane)
    await trio.sleep(0.1)
    assert len(plane.requests) == asked + 1


@on_mock_clock
async def test_who_forges_a_thousand_elections_brings_about_a_restart_every_two_seconds(
    plane: FakePlane, replicas: Replicas
) -> None:
    await running(plane, replicas, to_cluster())
    asked = len(plane.requests)
    for _ in range(1000):
        elected(plane)
        await trio.sleep(10 * MOVED_EACH_S / 1000)
        if len(plane.requests) > asked and plane.requests[-1][0] > trio.current_time() - 0.05:
            plane.answer({"name": "c"})
    assert 9 <= len(plane.requests) - asked <= 11


@on_mock_clock
async def test_the_last_election_of_several_counts(plane: FakePlane, replicas: Replicas) -> None:
    """The consumer of the one before may be gone with its leader."""
    await running(plane, replicas, to_cluster())
    elected(plane)
    await trio.sleep(0.2)
    plane.answer({"name": "c"})
    await trio.sleep(0.2)
    asked = len(plane.requests)
    elected(plane)
    await trio.sleep(MOVED_EACH_S)
    assert len(plane.requests) == asked + 1


@on_mock_clock
async def test_what_this_server_or_another_link_says_of_a_leader_means_nothing(
    plane: FakePlane, replicas: Replicas
) -> None:
    await running(plane, replicas, to_cluster())
    asked = len(plane.requests)
    elected(plane, 0)
    elected(plane, FAR + 1)
    await trio.sleep(3)
    assert len(plane.requests) == asked


@on_mock_clock
async def test_a_hub_that_is_no_cluster_is_not_listened_to(plane: FakePlane, replicas: Replicas) -> None:
    """Neither a server that calls itself by its name alone, nor a leafd: the bytes are spared."""
    for link in (to_cluster(""), to_cluster("hub"), to_cluster(orderly=True)):
        await running(plane, replicas, link)
        assert elected(plane) == 0
        replicas.link_down(link)
        replicas.remove_stream(10)
        await trio.sleep(0.1)


@on_mock_clock
async def test_nobody_listens_any_more_when_the_link_or_the_copy_is_gone(plane: FakePlane, replicas: Replicas) -> None:
    link = to_cluster()
    await running(plane, replicas, link)
    assert elected(plane) == 1
    replicas.link_down(link)
    assert elected(plane) == 0
    replicas.link_up(link)
    await trio.sleep(1)
    assert elected(plane) == 1
    replicas.remove_stream(10)
    assert elected(plane) == 0


# ---- nobody tells of the server of a stream in another cluster


def told_where(plane: FakePlane, cluster: str) -> None:
    """The answer to the question where the stream is."""
    handlers = [one for subject, one in plane.handlers.values() if subject.startswith("$JSC.R.")]
    handlers[-1](t.Message(1, 2, FAR, 2, "", "", b"", json.dumps({"cluster": {"name": cluster}}).encode()))


def heartbeat_s(plane: FakePlane) -> float:
    """Of the consumer that was asked for last."""
    found: int = plane.requests[-1][2]["config"]["idle_heartbeat"]
    return found / 1e9


@on_mock_clock
async def test_the_consumer_of_a_stream_in_another_cluster_has_heartbeats_every_other_second(
    plane: FakePlane, replicas: Replicas
) -> None:
    """So its silence is noticed soon, and it is asked for again and again until its server is back."""
    await running(plane, replicas, to_cluster())
    asked, between_s = len(plane.requests), heartbeat_s(plane)
    told_where(plane, "WEST")
    await trio.sleep(0.1)
    assert len(plane.requests) == asked + 1
    assert heartbeat_s(plane) == 2.0 < between_s
    plane.answer({"name": "c"})
    await trio.sleep(0.1)
    told_where(plane, "WEST")
    await trio.sleep(60)
    assert len(plane.requests) == asked + 1
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.SILENT, 0, 0))
    await trio.sleep(300)
    assert len(plane.requests) > asked + 40
    assert plane.requests[-1][0] - plane.requests[-2][0] < 20


@on_mock_clock
async def test_a_consumer_in_the_hubs_own_cluster_stays_as_it_is(plane: FakePlane, replicas: Replicas) -> None:
    """There the hub tells that its server is gone."""
    await running(plane, replicas, to_cluster())
    asked = len(plane.requests)
    told_where(plane, "EAST")
    await trio.sleep(60)
    assert len(plane.requests) == asked


def questions(plane: FakePlane) -> list[tuple[object, ...]]:
    return [call for call in plane.calls if call[0] == "publish" and ".STREAM.INFO." in call[1]]


@on_mock_clock
async def test_over_a_far_link_it_is_asked_once_where_a_stream_is(plane: FakePlane, replicas: Replicas) -> None:
    """One in another cluster has heartbeats that cost the line little, and is asked for again until its server is
    back, in steps that grow."""
    link = to_cluster()
    link.round_trip_s = 0.5
    await running(plane, replicas, link)
    asked = len(plane.requests)
    told_where(plane, "WEST")
    await trio.sleep(0.1)
    assert len(plane.requests) == asked + 1
    assert heartbeat_s(plane) == 10.0
    plane.answer({"name": "c"})
    await trio.sleep(60)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.SILENT, 0, 0))
    silent_s = trio.current_time()
    await trio.sleep(300)
    at_s = [at_s - silent_s for at_s, *_ in plane.requests[asked + 1 :]]
    assert at_s[0] < 0.1
    assert all(after - before <= max(2.0, before / 3) for before, after in itertools.pairwise(at_s) if before < 90)
    assert len(at_s) < 30
    assert len(questions(plane)) == 1


@on_mock_clock
async def test_over_a_far_link_with_many_copies_nobody_asks_where_a_stream_is(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Their heartbeats stay rare: each costs the line."""
    link = to_cluster()
    link.round_trip_s = 0.5
    for number in range(FEW):
        replicas.set_slots(20 + number, [replace(SLOT, stream=20 + number)])
    await running(plane, replicas, link)
    assert not questions(plane)


# ---- a stream with one replica has no other leader: its server comes back


def lists(link: Link, *servers: str) -> None:
    link.told({"leafnode_urls": list(servers)})


async def unanswered(plane: FakePlane, replicas: Replicas, copies: int, *, round_trip_s: float = 0.0) -> Link:
    """The link of copies that wait: nobody leads their streams."""
    link = to_cluster()
    link.round_trip_s = round_trip_s
    lists(link, "10.0.0.1:7422")
    replicas.link_up(link)
    for number in range(copies):
        replicas.set_slots(10 + number, [replace(SLOT, stream=10 + number)])
    await trio.sleep(100)
    return link


@pytest.mark.parametrize("round_trip_s", [0.0, 0.4], ids=["near", "far"])
def test_a_copy_is_asked_for_soon_after_a_server_has_come_to_its_hub(round_trip_s: float) -> None:
    """Again and again, since the server may need a while for its streams: within two seconds at first, then ever less
    often, as over a link that costs money."""

    @on_mock_clock
    async def test(plane: FakePlane, replicas: Replicas) -> None:
        link = await unanswered(plane, replicas, 1, round_trip_s=round_trip_s)
        before = len(plane.requests)
        lists(link, "10.0.0.1:7422", "10.0.0.2:7422")
        came_s = trio.current_time()
        await trio.sleep(200)
        asked = [at_s - came_s for at_s, *_ in plane.requests[before:]]
        apart = [then - now for now, then in itertools.pairwise(asked)]
        assert asked[0] < 0.1
        assert all(1.0 <= one <= 2.1 for one, at in zip(apart, asked, strict=False) if at < 7)
        assert len(asked) < (60 if round_trip_s == 0.0 else 25)
        assert max(apart) <= 31

    test()


@on_mock_clock
async def test_the_first_answer_ends_the_haste(plane: FakePlane, replicas: Replicas) -> None:
    link = await unanswered(plane, replicas, 1)
    lists(link, "10.0.0.1:7422", "10.0.0.2:7422")
    await trio.sleep(1.5)
    plane.answer({"name": "c"})
    await trio.sleep(0.1)
    asked = len(plane.requests)
    await trio.sleep(100)
    assert len(plane.requests) == asked
    assert "start" in [call[0] for call in plane.calls[-2:]]


@on_mock_clock
async def test_a_thousand_copies_over_a_far_link_ask_four_times_a_second_together(
    plane: FakePlane, replicas: Replicas
) -> None:
    link = await unanswered(plane, replicas, 1000, round_trip_s=0.4)
    before = len(plane.requests)
    lists(link, "10.0.0.1:7422", "10.0.0.2:7422")
    await trio.sleep(20)
    assert 70 <= len(plane.requests) - before <= 90


@on_mock_clock
async def test_who_lists_a_thousand_servers_one_by_one_is_asked_each_two_seconds(
    plane: FakePlane, replicas: Replicas
) -> None:
    link = await unanswered(plane, replicas, 1, round_trip_s=0.4)
    before = len(plane.requests)
    for number in range(1000):
        lists(link, f"10.0.1.{number}:7422")
        await trio.sleep(10 * MOVED_EACH_S / 1000)
    assert len(plane.requests) - before <= 21


@on_mock_clock
async def test_a_copy_that_runs_is_left_alone_when_a_server_comes(plane: FakePlane, replicas: Replicas) -> None:
    link = to_cluster()
    await running(plane, replicas, link)
    asked = len(plane.requests)
    lists(link, "10.0.0.9:7422")
    await trio.sleep(100)
    assert len(plane.requests) == asked


@on_mock_clock
async def test_a_copy_that_is_lost_at_a_near_cluster_is_asked_for_within_seconds(
    plane: FakePlane, replicas: Replicas
) -> None:
    """Where the hub lists no servers, nothing tells that one is back."""
    await running(plane, replicas, to_cluster())
    asked = len(plane.requests)
    replicas.ingest_event(t.Ingest(10, 1, t.IngestCode.GAP, 0, 0))
    await trio.sleep(20)
    assert 12 <= len(plane.requests) - asked <= 21
    await trio.sleep(400)
    assert len(plane.requests) - asked <= 60
