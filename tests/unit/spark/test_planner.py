"""The planner against real servers: it always gets on where it is told to, and stops where rows were lost."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from leafd_spark.datasource import NatsReader, NatsStreamReader
from leafd_spark.options import parse_options
from leafd_spark.ranges import DataLoss, Range
from leafd_spark.source import planner as planner_module
from leafd_spark.source.planner import Planner
from leafd_spark.source.pushed import Bounds
from leafd_spark.wire import Refused

from tests import servers

from .hub import Hub

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Every reader of a test is stopped, as Spark does with a query's."""
    yield
    while READERS:
        READERS.pop().stop()


READERS: list[NatsStreamReader] = []


# A stream in memory, for limits that remove messages: in files, nats-server's last sequence runs ahead of what was
# published by the number of those removed, now and then.
LIMITED = "LIMITED"


def stream_reader(hub: Hub, **more: str) -> NatsStreamReader:
    reader = NatsStreamReader(hub.options(streaming=True, **more))
    READERS.append(reader)
    return reader


def recreate(hub: Hub, first: int, last: int) -> None:
    hub.call("STREAM.DELETE.S")
    hub.create()
    hub.fill(first, last)


def latest(reader: NatsStreamReader, start: Json) -> Json:
    """The end of the next batch, asked for again and again as Spark does until there is something new."""
    deadline = time.monotonic() + 60
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) == start:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return end


def rows(reader: Any, partitions: Any) -> list[int]:
    return [n for part in partitions for batch in reader.read(part) for n in batch.column("sequence").to_pylist()]


def test_a_logged_batch_of_a_stream_made_anew_is_passed_over(hub: Hub) -> None:
    """With failOnDataLoss=false a batch whose stream was deleted has no rows, and the next one is of the new stream."""
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub, failOnDataLoss="false")
    start = reader.initialOffset()
    end = latest(reader, start)
    recreate(hub, 1, 4)

    again = stream_reader(hub, failOnDataLoss="false")
    assert [] == again.partitions(start, end)
    after = latest(again, end)
    assert [1, 2, 3, 4] == rows(again, again.partitions(end, after))
    with pytest.raises(DataLoss, match="made anew"):
        stream_reader(hub).partitions(start, end)


def test_a_stream_made_anew_after_a_batch_was_planned_is_not_taken_for_the_old_one(hub: Hub) -> None:
    """Also where the new stream has all the sequences of a task: it is a loss, or the task has no rows."""
    hub.create()
    hub.fill(1, 10)
    for fails in ("true", "false"):
        reader = stream_reader(hub, failOnDataLoss=fails)
        start = reader.initialOffset()
        partitions = reader.partitions(start, latest(reader, start))
        recreate(hub, 1, 20)
        if fails == "true":
            with pytest.raises(DataLoss, match="made anew"):
                rows(reader, partitions)
        else:
            assert [] == rows(reader, partitions)


def test_a_purge_beyond_the_batchs_end_leaves_nothing_to_read(hub: Hub) -> None:
    """With failOnDataLoss=false a batch that was purged whole has no rows, and the next one begins behind the purge."""
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub, failOnDataLoss="false")
    start = reader.initialOffset()
    end = latest(reader, start)
    hub.fill(11, 30)
    hub.call("STREAM.PURGE.S", {"seq": 21})

    again = stream_reader(hub, failOnDataLoss="false")
    assert [] == again.partitions(start, end)
    after = latest(again, end)
    assert list(range(21, 31)) == rows(again, again.partitions(end, after))


def test_a_start_beyond_the_end_reads_nothing(hub: Hub) -> None:
    """A batch read that begins behind the stream's last message is empty."""
    hub.create()
    hub.fill(1, 10)
    reader = NatsReader(hub.options(startingSequence="50"))
    assert [] == rows(reader, reader.partitions())


def test_a_stream_restored_from_an_older_copy_is_read_on(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With failOnDataLoss=false an offset behind the stream's end goes back to it, and reads what comes then once."""
    monkeypatch.setattr(planner_module, "SECOND_LOOK", 0.3)
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub, failOnDataLoss="false")
    start = json.loads(json.dumps(reader.initialOffset()).replace('"next": 1', '"next": 50'))
    end = latest(reader, start)
    assert [] == reader.partitions(start, end)
    hub.fill(11, 12)
    again = stream_reader(hub, failOnDataLoss="false")
    assert [11, 12] == rows(again, again.partitions(end, latest(again, end)))
    with pytest.raises(DataLoss, match="restored"):
        latest(stream_reader(hub), start)


def test_a_stream_that_was_deleted_is_left_out(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loss is settled once: with failOnDataLoss=false the others go on, and afterwards no error is left of it."""
    monkeypatch.setattr(planner_module, "SECOND_LOOK", 0.3)
    for name in ("A", "B"):
        hub.create(name)
        hub.fill(1, 5, name)
    reader = stream_reader(hub, stream="A,B", failOnDataLoss="false")
    offset = latest(reader, reader.initialOffset())
    hub.call("STREAM.DELETE.A")
    hub.fill(6, 9, "B")

    with pytest.raises(DataLoss, match="stream A: the stream is gone"):
        latest(stream_reader(hub, stream="A,B"), offset)
    tolerant = stream_reader(hub, stream="A,B", failOnDataLoss="false")
    end = latest(tolerant, offset)
    assert [6, 7, 8, 9] == rows(tolerant, tolerant.partitions(offset, end))
    hub.fill(10, 11, "B")
    strict = stream_reader(hub, stream="A,B")
    assert [10, 11] == rows(strict, strict.partitions(end, latest(strict, end)))


def test_a_query_cannot_begin_behind_the_end_in_silence(hub: Hub) -> None:
    """A start that is not there yet is an error that names it, or the stream's end if loss is no error."""
    hub.create()
    hub.fill(1, 10)
    with pytest.raises(DataLoss, match="to begin at 50, but the stream ends at 10"):
        stream_reader(hub, startingOffsets="50").initialOffset()
    tolerant = stream_reader(hub, startingOffsets="50", failOnDataLoss="false")
    assert 11 == tolerant.initialOffset()["streams"]["S"]["next"]


def test_an_end_that_is_behind_for_a_moment_is_no_loss(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has just taken the lead may not have applied all: the planner looks a second time."""
    monkeypatch.setattr(planner_module, "SECOND_LOOK", 60.0)
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub)
    start = json.loads(json.dumps(reader.initialOffset()).replace('"next": 1', '"next": 13'))
    late = threading.Timer(0.6, hub.fill, (11, 14))
    late.start()
    end = latest(reader, start)
    late.join()
    assert [n for n in (13, 14) if n < end["streams"]["S"]["next"]] == rows(reader, reader.partitions(start, end))


def test_a_checkpoint_of_the_first_version_is_read_on(hub: Hub) -> None:
    """An offset without a stream's name, as the first version wrote it, is the one stream's that the query reads."""
    hub.create()
    hub.fill(1, 10)
    created = hub.call("STREAM.INFO.S")["created"]
    start = {"created": created, "next": 4}
    reader = stream_reader(hub)
    end = latest(reader, start)
    assert list(range(4, 11)) == rows(reader, reader.partitions(start, end))


@pytest.mark.parametrize("config", [{"max_msgs": 50}, {"max_bytes": 4000}, {"max_msgs_per_subject": 5}], ids=str)
def test_a_streams_own_limits_raise_no_alarm(hub: Hub, config: Json) -> None:
    """A head that moved on by the stream's limits is read over, with a subject filter too, though loss is an error."""
    hub.create(LIMITED, storage="memory", **config)
    hub.fill(1, 10, LIMITED)
    reader = stream_reader(hub, stream=LIMITED, subject="limited.1")
    start = latest(reader, reader.initialOffset())
    hub.fill(11, 200, LIMITED)
    first = hub.call(f"STREAM.INFO.{LIMITED}")["state"]["first_seq"]
    assert first > 11

    end = latest(reader, start)
    assert [n for n in range(first, 201) if n % 3 == 1] == rows(reader, reader.partitions(start, end))


def test_a_first_checkpoint_of_the_first_version() -> None:
    """What the first version left in a checkpoint (its offsets/0, as it was) is understood."""
    from pathlib import Path

    from leafd_spark.source.offsets import Offsets

    line = (Path(__file__).parent / "offsets_of_first_version.txt").read_text().splitlines()[2]
    found = Offsets.of(json.loads(line))
    made = "2026-11-22T17:49:40.429865578Z"
    named = found.named({"OTHER": "2020-01-01T00:00:00Z", "S": made})
    assert {"S": (made, 201)} == {name: (part.created, part.next) for name, part in named.streams.items()}


def test_several_streams_are_read_as_one(hub: Hub) -> None:
    """A limit is shared by the streams in proportion to what they hold, and every message of each comes once."""
    hub.create("A")
    hub.create("B")
    hub.fill(1, 90, "A")
    hub.fill(1, 30, "B")
    reader = stream_reader(hub, stream="A,B", maxOffsetsPerTrigger="40")
    offset = reader.initialOffset()
    found: list[tuple[str, int]] = []
    for _ in range(10):
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset:
            break
        batch = [
            (stream, n)
            for part in reader.partitions(offset, end)
            for rows in reader.read(part)
            for stream, n in zip(*(rows.column(c).to_pylist() for c in ("stream", "sequence")), strict=True)
        ]
        assert len(batch) <= 40
        found += batch
        offset = end
    assert sorted([("A", n) for n in range(1, 91)] + [("B", n) for n in range(1, 31)]) == sorted(found)


def test_streams_of_a_pattern_are_found_as_they_appear(hub: Hub) -> None:
    """A stream made while the query runs is read from its beginning; one of another name is not."""
    hub.create("D1")
    hub.fill(1, 3, "D1")
    hub.create("OTHER")
    reader = stream_reader(hub, stream="", streamPattern="D[0-9]+")
    start = reader.initialOffset()
    assert ["D1"] == list(start["streams"])
    end = latest(reader, start)
    hub.create("D2")
    hub.fill(1, 2, "D2")

    noted = latest(reader, end)
    after = latest(reader, noted)
    parts: list[Any] = [*reader.partitions(end, noted), *reader.partitions(noted, after)]
    assert [("D2", 1), ("D2", 2)] == [(part.piece.stream, n) for part in parts for n in rows(reader, [part])]


def test_an_idle_query_costs_one_connection_and_few_requests(hub: Hub) -> None:
    """Two seconds of Spark's polling are one connection and at most five requests a second, counted by the server."""
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub)
    offset = latest(reader, reader.initialOffset())
    before, began = counts(hub), time.monotonic()
    while time.monotonic() - began < 2:
        assert offset == reader.latestOffset(offset, reader.getDefaultReadLimit())
        reader.reportLatestOffset()
        time.sleep(0.01)
    took, after = time.monotonic() - began, counts(hub)
    # The counting itself is not among them: it asks the monitoring port.
    assert 0 == after["total_connections"] - before["total_connections"]
    assert 1 <= after["in_msgs"] - before["in_msgs"] <= 5 * took


def counts(hub: Hub) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{hub.server.ports['monitor_port']}/varz", timeout=10) as answer:
        found = json.load(answer)
    return {name: int(found[name]) for name in ("total_connections", "in_msgs")}


def test_what_no_retry_can_mend_ends_a_query_at_once(hub: Hub) -> None:
    """A domain that is not there is named without waiting for retrySeconds."""
    hub.create()
    began = time.monotonic()
    with pytest.raises(Refused, match=r"\$JS.elsewhere.API.STREAM.INFO.S.*domain"):
        stream_reader(hub, domain="elsewhere", retrySeconds="60").initialOffset()
    assert time.monotonic() - began < 20


def test_pushed_bounds_move_only_what_they_admit(hub: Hub) -> None:
    """Bounds of a pushed filter, by sequence or by time, read their messages and nothing beside them."""
    hub.create()
    hub.fill(1, 249)
    hub.fill(250, 500)  # apart, since messages that came together may have one time stamp
    middle = hub.call("STREAM.MSG.GET.S", {"seq": 250})["message"]["time"]
    planner = Planner(hub.options())
    try:
        assert [("S", Range(101, 110))] == [piece[:2] for piece in planner.whole(Bounds(first=101, last=110))]
        ((_, since, _),) = planner.whole(Bounds(since=middle))
        ((_, before, _),) = planner.whole(Bounds(before=middle))
        assert (500, 1) == (since.last, before.first)
        assert before.last + 1 == since.first == 250
        assert [] == planner.whole(Bounds(since="2100-01-01T00:00:00Z"))
    finally:
        planner.close()


def test_a_query_that_keeps_up_counts_no_bytes(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come since the last batch fits by the stream's own figures: no message is asked for its size."""
    hub.create()
    hub.fill(1, 100, size=100)
    reader = stream_reader(hub, maxBytesPerTrigger="6000")
    offset = reader.initialOffset()
    ends = []
    for _ in range(2):
        offset = latest(reader, offset)
        ends.append(offset["streams"]["S"]["next"])
    assert [61, 101] == ends

    def counted(*_: object) -> int:
        raise AssertionError("sizes were asked for")

    monkeypatch.setattr(planner_module, "admitted", counted)
    hub.fill(101, 120, size=100)
    assert 121 == latest(reader, offset)["streams"]["S"]["next"]


def test_progress_tells_what_is_not_read_yet(hub: Hub) -> None:
    """Backlog, age, gaps and what went unread are in what Spark shows of the streams' ends."""
    hub.create(LIMITED, storage="memory", max_msgs=80)
    hub.fill(1, 50, LIMITED)
    reader = stream_reader(hub, stream=LIMITED, maxOffsetsPerTrigger="10")
    offset = latest(reader, reader.initialOffset())
    hub.fill(51, 100, LIMITED)
    hub.remove(60, LIMITED)
    end = latest(reader, offset)
    said = (reader.reportLatestOffset() or {})["streams"][LIMITED]

    # The limit of 80 messages removed 11..20 before they were read.
    assert 31 == end["streams"][LIMITED]["next"]
    assert (101, 70, 1, 10) == tuple(said[name] for name in ("next", "backlog", "gaps", "goneUnread"))
    assert 0 <= said["ageSecondsAtMost"] < 600


def test_a_batch_waits_for_its_least_size(hub: Hub) -> None:
    """minOffsetsPerTrigger holds a batch back until so many are there or maxTriggerDelay is over, but not the first."""
    hub.create()
    hub.fill(1, 10)
    reader = stream_reader(hub, minOffsetsPerTrigger="40", maxTriggerDelay="1h")
    offset = latest(reader, reader.initialOffset())
    hub.fill(11, 30)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        assert offset == reader.latestOffset(offset, reader.getDefaultReadLimit())
        time.sleep(0.05)
    hub.fill(31, 50)
    assert 51 == latest(reader, offset)["streams"]["S"]["next"]

    impatient = stream_reader(hub, minOffsetsPerTrigger="40", maxTriggerDelay="100ms")
    offset = latest(impatient, impatient.initialOffset())
    hub.fill(51, 60)
    assert 61 == latest(impatient, offset)["streams"]["S"]["next"]


def test_several_subjects_and_times_of_any_form(hub: Hub) -> None:
    """A batch read of two subjects, from one time to another that have a blank where the server wants a T."""
    hub.create()
    for first in (1, 31, 61):
        hub.fill(first, first + 29)  # apart, since messages that came together may have one time stamp
    since, before = (hub.call("STREAM.MSG.GET.S", {"seq": n})["message"]["time"].replace("T", " ") for n in (31, 61))
    reader = NatsReader(hub.options(subjects="s.1,s.2", startingTimestamp=since, endingTimestamp=before))
    assert [n for n in range(31, 61) if n % 3] == sorted(rows(reader, reader.partitions()))


CONFINED = """
listen: 127.0.0.1:{port}
jetstream {{ store_dir: "{store}" }}
authorization: {{
    users: [
        {{ user: all, password: a }}
        {{ user: mute, password: m, permissions: {{ publish: {{ deny: "$JS.API.STREAM.INFO.>" }} }} }}
        {{ user: deaf, password: d, permissions: {{ subscribe: {{ deny: "_INBOX.>" }} }} }}
    ]
}}
""".replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_missing_permission_ends_a_query_at_once(kind: str) -> None:
    """Whoever may not ask, or not hear the answer, is told which subject is missing, without waiting for retries."""
    began = time.monotonic()
    with servers.running(kind, CONFINED) as server:
        for user, missing in (("mute:m", r"Publish.*STREAM\.INFO\.S"), ("deaf:d", r"Subscription.*_INBOX")):
            given = {"servers": server.url.replace("//", f"//{user}@"), "stream": "S", "retrySeconds": "120"}
            planner = Planner(parse_options(given))
            with pytest.raises(Refused, match=missing):
                planner.begin()
            planner.close()
    assert time.monotonic() - began < 60
