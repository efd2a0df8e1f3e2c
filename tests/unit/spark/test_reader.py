"""Reading ranges off a real server: every row once and in order, over gaps, filters, breaks and losses."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from leafd.wire_client import Message
from leafd_spark.consumer import Consumer
from leafd_spark.fetch import ApiError, sequence_at, stream_state, with_connection
from leafd_spark.options import Options
from leafd_spark.ranges import DataLoss, Range
from leafd_spark.source import reader
from leafd_spark.source.reader import RangeReader, size_admitted
from leafd_spark.wire import Connection

from .hub import Hub

# The streams that are read in each of the three ways.
WAYS: dict[str, dict[str, Any]] = {
    "direct": {},
    "consumer": {"allow_direct": False},
    "single": {"allow_direct": False, "retention": "workqueue"},
}


@pytest.fixture(params=WAYS)
def stream(hub: Hub, request: pytest.FixtureRequest) -> str:
    """A stream S of messages 1..100, of each kind."""
    hub.create(**WAYS[request.param])
    hub.fill(1, 100)
    return str(request.param)


def read(options: Options, first: int, last: int) -> list[tuple[int, str, bytes]]:
    found = []
    for batch in RangeReader(options, Range(first, last)).batches():
        columns = (batch.column(name).to_pylist() for name in ("sequence", "subject", "data"))
        found += list(zip(*columns, strict=True))
    return found


def numbers(rows: list[tuple[int, str, bytes]]) -> list[int]:
    """The numbers in the payloads; each has to be at its sequence."""
    assert [int(data.split()[0]) for _, _, data in rows] == [sequence for sequence, _, _ in rows]
    return [sequence for sequence, _, _ in rows]


@pytest.mark.usefixtures("stream")
def test_a_range_is_read_from_end_to_end(hub: Hub) -> None:
    """Exactly the range's rows come, in order, whatever the size of a fetch."""
    for fetch in ("1", "7", "1000"):
        assert list(range(11, 91)) == numbers(read(hub.options(fetchMessages=fetch), 11, 90))


@pytest.mark.usefixtures("stream")
def test_a_fetch_is_bounded_by_bytes(hub: Hub) -> None:
    """A bound on bytes makes more fetches, not fewer rows."""
    assert list(range(1, 101)) == numbers(read(hub.options(fetchBytes="100"), 1, 100))


@pytest.mark.usefixtures("stream")
def test_deleted_messages_are_gaps(hub: Hub) -> None:
    """Deleted messages at the range's ends and within it are passed over without a complaint."""
    for sequence in (11, 12, 50, 89, 90, 91):
        hub.remove(sequence)
    expected = [n for n in range(11, 91) if n not in (11, 12, 50, 89, 90)]
    assert expected == numbers(read(hub.options(fetchMessages="10"), 11, 90))


@pytest.mark.usefixtures("stream")
def test_a_subject_filter(hub: Hub) -> None:
    """Only the subject's messages of the range come."""
    found = read(hub.options(subject="s.1", fetchMessages="5"), 11, 90)
    assert [n for n in range(11, 91) if n % 3 == 1] == numbers(found)
    assert {"s.1"} == {subject for _, subject, _ in found}
    assert [] == read(hub.options(subject="s.none"), 11, 90)


@pytest.mark.parametrize("stream", ["direct", "consumer"], indirect=True)
@pytest.mark.usefixtures("stream")
def test_rows_that_vanish_before_they_are_read_are_a_loss(hub: Hub) -> None:
    """A purge between planning and reading raises, or is passed over if the query says so."""
    hub.call("STREAM.PURGE.S", {"seq": 41})
    with pytest.raises(DataLoss, match=r"stream S: messages 11 to 40 vanished"):
        read(hub.options(), 11, 90)
    assert list(range(41, 91)) == numbers(read(hub.options(failOnDataLoss="false"), 11, 90))


@pytest.mark.parametrize("stream", ["direct", "consumer"], indirect=True)
@pytest.mark.usefixtures("stream")
def test_a_range_that_vanished_whole_is_a_loss(hub: Hub) -> None:
    """Nothing left of the range is a loss too, not an empty result."""
    hub.call("STREAM.PURGE.S")
    with pytest.raises(DataLoss, match="messages 11 to 90"):
        read(hub.options(), 11, 90)


@pytest.mark.parametrize("stream", ["single"], indirect=True)
@pytest.mark.usefixtures("stream")
def test_what_a_work_queue_has_handed_out_is_no_loss(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    """Messages that a work queue's own consumers have acknowledged are a warning with a count."""
    hub.call("STREAM.PURGE.S", {"seq": 41})  # to one who comes later it looks like this
    assert list(range(41, 91)) == numbers(read(hub.options(), 11, 90))
    assert "messages 11 to 40 vanished before they were read (at most 30 messages): its retention" in caplog.text


@pytest.mark.usefixtures("stream")
def test_a_server_that_restarts_amid_a_range(hub: Hub) -> None:
    """kill -9 between two fetches: reading goes on where it was."""
    batches = RangeReader(hub.options(fetchMessages="10"), Range(1, 100)).batches()
    found = next(batches).column("sequence").to_pylist()
    hub.server.kill()
    again = threading.Timer(0.3, hub.server.start)
    again.start()
    try:
        for batch in batches:
            found += batch.column("sequence").to_pylist()
    finally:
        again.join()
    assert list(range(1, 101)) == found


def test_a_stream_that_is_not_there_ends_a_read_at_once(hub: Hub) -> None:
    """JetStream's word that there is no such stream is final, for the planner and for a task."""
    options = hub.options("NONE", retrySeconds="600")
    with pytest.raises(ApiError, match="stream not found"):
        with_connection(options, lambda connection: stream_state(connection, options))
    with pytest.raises(ApiError, match="stream not found"):
        read(options, 1, 10)


def test_a_limit_of_bytes_is_found_exactly(hub: Hub) -> None:
    """As many messages as fit, one at least, and all of them if they fit."""
    hub.create("BYTES")
    hub.fill(1, 50, "BYTES", size=100)
    options = hub.options("BYTES", fetchMessages="7")
    for limit, after in ((1, 2), (99, 2), (100, 2), (199, 2), (200, 3), (1050, 11), (5000, 51), (9999, 51)):
        assert after == size_admitted(options, Range(1, 50), limit)
    hub.remove(3, "BYTES")
    hub.remove(4, "BYTES")
    # 1, 2 and 5 fit; 6 is the first that does not.
    assert 6 == size_admitted(options, Range(1, 50), 300)


def test_a_start_by_time(hub: Hub) -> None:
    """The first message at or after an instant, and none for an instant to come."""
    hub.create()
    hub.fill(1, 59)
    hub.fill(60, 100)  # apart, since messages that came together may have one time stamp
    options = hub.options()
    sixty = hub.call("STREAM.MSG.GET.S", {"seq": 60})["message"]["time"]
    assert 60 == with_connection(options, lambda connection: sequence_at(connection, options, sixty))
    assert 1 == with_connection(options, lambda connection: sequence_at(connection, options, "2020-01-01T00:00:00Z"))
    assert None is with_connection(options, lambda connection: sequence_at(connection, options, "2100-01-01T00:00:00Z"))


@pytest.mark.usefixtures("stream")
def test_several_filters(hub: Hub) -> None:
    """The messages of any of several subjects come, in order, whichever way a stream is read."""
    found = read(hub.options(subjects="s.0,s.2", fetchMessages="7"), 11, 90)
    assert [n for n in range(11, 91) if n % 3 != 1] == numbers(found)


@pytest.mark.parametrize("stream", ["direct"], indirect=True)
@pytest.mark.usefixtures("stream")
def test_a_long_range_is_read_by_a_consumer_where_there_may_be_one(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long range takes the faster way, and goes the other one when the stream has no consumer to spare."""
    monkeypatch.setattr(reader, "CONSUMER_WORTH", 10)
    monkeypatch.setattr(reader.RangeReader, "_direct", None)
    assert list(range(1, 101)) == numbers(read(hub.options(fetchMessages="30"), 1, 100))
    monkeypatch.undo()
    monkeypatch.setattr(reader, "CONSUMER_WORTH", 10)
    hub.create("FEW", max_consumers=1)
    hub.fill(1, 50, "FEW")
    taken = {"name": "taken", "ack_policy": "none", "inactive_threshold": 600_000_000_000}
    hub.call("CONSUMER.CREATE.FEW.taken", {"stream_name": "FEW", "config": taken})
    assert list(range(1, 51)) == numbers(read(hub.options("FEW"), 1, 50))


def test_deliveries_go_on_while_their_flow_control_is_answered(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is larger than a server sends ahead is pushed to its end."""
    targets, replies = [], []
    make, goes_on = Consumer.make, Consumer.goes_on

    def noted(self: Consumer, connection: Connection, first: int, *, target: str = "") -> None:
        targets.append(target)
        make(self, connection, first, target=target)

    def answered(self: Consumer, connection: Connection, status: Message) -> bool:
        replies.append(status.reply)
        return goes_on(self, connection, status)

    monkeypatch.setattr(Consumer, "make", noted)
    monkeypatch.setattr(Consumer, "goes_on", answered)
    hub.create(allow_direct=False)
    hub.fill(1, 20_000, size=300)
    assert list(range(1, 20_001)) == numbers(read(hub.options(), 1, 20_000))
    assert targets
    assert all(targets)
    assert any(reply.startswith("$JS.FC.S.") for reply in replies)


@pytest.mark.parametrize("stream", ["consumer"], indirect=True)
@pytest.mark.usefixtures("stream")
def test_a_range_is_pulled_where_much_would_be_pushed_behind_it(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a stream is pulled: no more of it than is wanted is asked for."""
    pull, pulls = Consumer.pull, []

    def noted(self: Consumer, connection: Connection, size: int) -> int:
        pulls.append(size)
        return pull(self, connection, size)

    monkeypatch.setattr(Consumer, "pull", noted)
    assert list(range(11, 51)) == numbers(read(hub.options(), 11, 50))
    assert pulls
    assert max(pulls) <= 40


@pytest.mark.usefixtures("stream")
def test_a_stream_that_is_made_anew_amid_a_range(hub: Hub) -> None:
    """The new stream's messages are not taken for the old one's: it is a loss, unless one wants to read on."""
    made = hub.call("STREAM.INFO.S")["config"]
    for fails in ("true", "false"):
        batches = RangeReader(hub.options(fetchMessages="10", failOnDataLoss=fails), Range(1, 100)).batches()
        next(batches)
        hub.call("STREAM.DELETE.S")
        hub.call("STREAM.CREATE.S", made)
        hub.fill(1, 100)
        if fails == "true":
            with pytest.raises(DataLoss, match="made anew"):
                list(batches)
        else:
            list(batches)


@pytest.mark.usefixtures("stream")
def test_the_consumer_is_removed_when_its_range_is_read(hub: Hub) -> None:
    """Reading without direct gets leaves no consumer behind."""
    assert list(range(1, 101)) == numbers(read(hub.options(), 1, 100))
    assert 0 == hub.call("CONSUMER.NAMES.S")["total"]
