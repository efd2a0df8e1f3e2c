"""Publishing to a real server: acknowledged is stored, sent again is not stored twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from leafd.spark.publish import Outgoing, PublishError, RowReader, Window, header_block
from leafd.spark.wire import NoResponders

from tests import servers

from .hub import Hub, running


@pytest.fixture(params=servers.KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    with running(request.param) as found:
        yield found


@pytest.fixture
def stream(hub: Hub) -> str:
    hub.create()
    return "S"


def outgoing(number: int) -> Outgoing:
    return Outgoing("s.x", header_block(f"id-{number}", ()), b"%d" % number)


def stored(hub: Hub) -> int:
    return int(hub.call("STREAM.INFO.S")["state"]["messages"])


@pytest.mark.usefixtures("stream")
def test_every_message_is_stored_before_drain_returns(hub: Hub) -> None:
    """Windows smaller and larger than the number of messages store each of them once."""
    for in_flight in ("1", "7", "1000"):
        window = Window(hub.options(maxInFlight=in_flight))
        for number in range(100):
            window.publish(Outgoing("s.x", header_block(f"{in_flight}-{number}", ()), b"x"))
        window.drain()
        window.close()
        assert (100, 0) == (window.stored, window.duplicates)
    assert 300 == stored(hub)


@pytest.mark.usefixtures("stream")
def test_a_task_that_runs_again_stores_nothing_twice(hub: Hub) -> None:
    """The same ids are duplicates, whichever connection they come over."""
    for expected in ((50, 0), (0, 50)):
        window = Window(hub.options())
        for number in range(50):
            window.publish(outgoing(number))
        window.drain()
        window.close()
        assert expected == (window.stored, window.duplicates)
    assert 50 == stored(hub)


@pytest.mark.usefixtures("stream")
def test_a_server_that_restarts_amid_a_window(hub: Hub) -> None:
    """kill -9 while messages are in flight: all are stored in the end, none twice."""
    window = Window(hub.options(maxInFlight="100"))
    for number in range(250):
        window.publish(outgoing(number))  # 200 acknowledged, 50 not sent yet
    hub.server.kill()
    again = threading.Timer(0.3, hub.server.start)
    again.start()
    try:
        window.drain()
    finally:
        again.join()
    window.close()
    assert 250 == stored(hub)


@pytest.mark.usefixtures("stream")
def test_a_refused_message_ends_the_task(hub: Hub) -> None:
    """What the stream refuses for good is an error that names the subject, not a retry without end."""
    window = Window(hub.options())
    window.publish(Outgoing("s.x", header_block("a", [("Nats-Expected-Stream", "OTHER")]), b""))
    with pytest.raises(PublishError, match=r"s\.x: expected stream does not match"):
        window.drain()
    window.close()


def test_a_subject_that_no_stream_takes(hub: Hub) -> None:
    """Nobody stores it: an error after the time for retries."""
    window = Window(hub.options(retrySeconds="0.2"))
    window.publish(Outgoing("nowhere", header_block("a", ()), b""))
    with pytest.raises(NoResponders):
        window.drain()
    window.close()


def test_rows_become_messages(hub: Hub) -> None:
    """Subject, headers, id and payload come from their columns; the id is made up where no column holds one."""
    batch = pa.record_batch(
        {
            "subject": ["a", None],
            "data": ["text", "more"],
            "headers": pa.array([[("K", "v"), ("nats-msg-id", "theirs")], None], pa.map_(pa.string(), pa.string())),
            "key": [7, 8],
        }
    )
    options = hub.options(subject="default")
    made_up = list(RowReader(options, batch.schema.names, "q-1-0").messages([batch, batch]))
    assert [
        ("a", b"NATS/1.0\r\nK: v\r\nNats-Msg-Id: q-1-0-0\r\n\r\n", b"text"),
        ("default", b"NATS/1.0\r\nNats-Msg-Id: q-1-0-1\r\n\r\n", b"more"),
        ("a", b"NATS/1.0\r\nK: v\r\nNats-Msg-Id: q-1-0-2\r\n\r\n", b"text"),
        ("default", b"NATS/1.0\r\nNats-Msg-Id: q-1-0-3\r\n\r\n", b"more"),
    ] == [(message.subject, message.headers, message.payload) for message in made_up]
    keyed = list(RowReader(hub.options(subject="d", messageIdColumn="key"), batch.schema.names, "q").messages([batch]))
    assert b"NATS/1.0\r\nNats-Msg-Id: 8\r\n\r\n" == keyed[1].headers


def test_rows_that_cannot_be_published(hub: Hub) -> None:
    """What is missing is said by name, before or when the row comes; a header cannot smuggle in another one."""
    options = hub.options()
    with pytest.raises(ValueError, match="need a column data"):
        RowReader(options, ["value"], "p")
    with pytest.raises(ValueError, match="column subject, or the option"):
        RowReader(options, ["data"], "p")
    with pytest.raises(ValueError, match="names key"):
        RowReader(hub.options(subject="s", messageIdColumn="key"), ["data"], "p")
    reader = RowReader(options, ["data", "subject"], "p")
    for wrong in ({"data": ["x"], "subject": ["two words"]}, {"data": [None], "subject": ["s"]}):
        columns = {"data": pa.array(wrong["data"], pa.string()), "subject": pa.array(wrong["subject"], pa.string())}
        with pytest.raises(ValueError, match=r"not a subject|without data"):
            list(reader.messages([pa.record_batch(columns)]))
    with pytest.raises(ValueError, match="cannot hold"):
        header_block("id", [("A", "b\r\nC: d")])
