"""Who answers may be behind, or be a mirror: what the reader believes, against scripted replicas and real servers."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from leafd_spark.fetch import dial
from leafd_spark.options import Options, parse_options
from leafd_spark.ranges import Range
from leafd_spark.source.reader import GAPS_ASKED, Behind, RangeReader

from tests import servers

from .hub import Hub, running
from .replicas import Replicas, View, serving


def options(replicas: Replicas, **more: str) -> Options:
    return parse_options({"servers": replicas.url, "stream": "S", "retrySeconds": "10"} | more)


def read(wanted: Options, first: int, last: int) -> list[int]:
    found: list[int] = []
    for batch in RangeReader(wanted, Range(first, last)).batches():
        texts = batch.column("data").to_pylist()
        assert [b"%d" % sequence for sequence in batch.column("sequence").to_pylist()] == texts
        found += batch.column("sequence").to_pylist()
    return found


ALL = range(1, 1001)


@pytest.mark.parametrize(
    "views",
    [
        [View(range(1, 400))],
        [View(range(1, 400)), View(range(1, 10)), View(ALL)],
        [View([])],
        [View(range(1, 101)), View(ALL)],
        [View(range(1, 100 * n)) for n in range(1, 20)],
    ],
    ids=["one behind", "each behind", "empty", "behind at a batch's end", "catching up"],
)
@pytest.mark.parametrize("subject", ["", "s.1"], ids=["all", "filtered"])
def test_an_answer_that_ends_early_is_not_believed(views: list[View], subject: str) -> None:
    """Whatever a replica that is behind has, each message comes that the leader has."""
    if subject:
        views = [View([n for n in view.sequences if n % 3 == 1]) for view in views]
    leader = [n for n in ALL if not subject or n % 3 == 1]
    with serving(Replicas(leader, views, last=1000)) as replicas:
        assert leader == read(options(replicas, fetchMessages="100", subject=subject), 1, 1000)


def test_a_hole_is_not_believed() -> None:
    """Messages that an answer passes over are read from the leader."""
    holes = [n for n in ALL if not 300 <= n < 350 and n != 500]
    with serving(Replicas(ALL, [View(holes)])) as replicas:
        assert list(ALL) == read(options(replicas, fetchMessages="100"), 1, 1000)


def test_a_mirror_is_not_believed() -> None:
    """A mirror may have less, at either end and in between: what it answers is not used."""
    with serving(Replicas(ALL, [View(range(900, 950), "M"), View(ALL)])) as replicas:
        assert list(ALL) == read(options(replicas), 1, 1000)
        assert 1 == replicas.count("DIRECT.GET")


def test_gaps_that_the_leader_confirms_cost_little() -> None:
    """One question settles a gap of any size; where there are many, they are not asked about one by one."""
    there = [*range(1, 11), *range(5_000_000, 5_000_010)]
    with serving(Replicas(there, [View(there)])) as replicas:
        assert there == read(options(replicas), 1, 5_000_009)
        assert 1 == replicas.count("STREAM.MSG.GET")
    there = list(range(1, 4000, 2))
    with serving(Replicas(there, [View(there)], last=4000)) as replicas:
        assert there == read(options(replicas, fetchMessages="1000"), 1, 4000)
        assert replicas.count("STREAM.MSG.GET") <= 2 * GAPS_ASKED


def test_a_leader_that_does_not_have_yet_what_was_planned_is_waited_for() -> None:
    """Who says that there is nothing, and ends before the range does, has just taken the lead, or has just lost it."""
    with serving(Replicas(range(1, 11), [View(range(1, 11))])) as replicas:
        with pytest.raises(Behind, match="ends at 10, and was planned to be read to 20"):
            read(options(replicas, retrySeconds="0.3"), 1, 20)
        batches = RangeReader(options(replicas), Range(1, 20)).batches()
        found = next(batches).column("sequence").to_pylist()
        replicas.leader, replicas.views = range(1, 21), [View(range(1, 21))]
        for batch in batches:
            found += batch.column("sequence").to_pylist()
        assert list(range(1, 21)) == found


def exchange(url: str, subject: str, body: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    """Header block and payload of each answer, up to the one that ends them, without times."""
    found: list[tuple[bytes, bytes]] = []
    wanted = parse_options({"servers": url, "stream": "S"})
    with dial(wanted) as connection:
        connection.publish_request(f"$JS.API.{subject}", json.dumps(body).encode())
        while not found or not (found[-1][0].startswith(b"NATS/1.0 ") or b"NATS" not in found[-1][0]):
            message = connection.next_message()
            found.append((re.sub(rb"\d{4}-\d\d-\S+Z", b"TIME", message.headers), message.payload))
    return found


@pytest.fixture(scope="module")
def hub() -> Any:
    with running(servers.REFERENCE) as found:
        yield found


def test_the_scripted_replicas_answer_as_a_server_does(hub: Hub) -> None:
    """Direct gets and single messages of the same stream are answered alike, but for times."""
    there = [1, 2, 3, 6, 7, 10]
    hub.create()
    hub.fill_plain(10)
    for number in set(range(1, 11)) - set(there):
        hub.remove(number)
    with serving(Replicas(there, [View(there)])) as replicas:
        for body in ({"seq": 1, "batch": 4}, {"seq": 4, "batch": 2}, {"seq": 8, "batch": 9}, {"seq": 11, "batch": 1}):
            assert exchange(hub.server.url, "DIRECT.GET.S", body) == exchange(replicas.url, "DIRECT.GET.S", body)
        asked: list[dict[str, Any]] = [{"seq": 3}, {"seq": 4}]
        asked += [{"seq": position, "next_by_subj": ">"} for position in (4, 11)]
        for wanted in asked:
            real, ours = (
                json.loads(exchange(url, "STREAM.MSG.GET.S", wanted)[0][1]) for url in (hub.server.url, replicas.url)
            )
            for answer in (real, ours):
                answer.pop("type", None), answer.get("message", {}).pop("time", None)
            assert real == ours


def test_a_mirror_that_answers_and_has_less(hub: Hub) -> None:
    """On a real server: a mirror with mirror_direct and a limit of its own answers direct gets; all rows come."""
    hub.call("STREAM.DELETE.S")
    hub.create()
    hub.call("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}, "mirror_direct": True, "max_msgs": 10})
    hub.fill_plain(500)
    deadline = time.monotonic() + 30
    while hub.call("STREAM.INFO.M")["state"]["last_seq"] < 500:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    reader = RangeReader(hub.options(), Range(1, 500))
    found = [sequence for batch in reader.batches() for sequence in batch.column("sequence").to_pylist()]
    assert list(range(1, 501)) == found
