"""Publishing to a real server: acknowledged is stored, sent again is not stored twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from leafd.spark.publish import Outgoing, PublishError, Window, header_block

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


@pytest.mark.usefixtures("stream")
def test_a_subject_that_no_stream_takes(hub: Hub) -> None:
    """Nobody stores it, and the server's API says that nobody would: an error at once, which names row and subject."""
    window = Window(hub.options(retrySeconds="600"))
    window.publish(Outgoing("nowhere", header_block("a", ()), b"", "row 7 of partition 2"))
    with pytest.raises(PublishError, match="row 7 of partition 2: nowhere: no stream takes the subject"):
        window.drain()
    window.close()


@pytest.mark.usefixtures("stream")
def test_a_header_cannot_smuggle_in_another(hub: Hub) -> None:
    """A line end in a name or a value is refused, wherever it comes from."""
    for name, value in (("A", "b\r\nC: d"), ("A\r\nB", "c"), ("A:B", "c"), ("", "c")):
        with pytest.raises(ValueError, match="cannot hold"):
            header_block("id", [(name, value)])


@pytest.mark.usefixtures("stream")
def test_the_window_is_refilled_before_it_is_empty(hub: Hub) -> None:
    """A thousand messages through a window of sixteen: never more in flight than that, and every one is stored."""
    window = Window(hub.options(maxInFlight="16"))
    most = 0
    for number in range(1000):
        window.publish(outgoing(number))
        most = max(most, len(window._in_flight))
    window.drain()
    window.close()
    assert 0 < most <= 16
    assert 1000 == stored(hub) == window.stored
