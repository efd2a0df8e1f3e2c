"""Publishing to a real server: acknowledged is stored, sent again is not stored twice."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from leafd_spark.options import parse_options
from leafd_spark.sink.publish import Outgoing, PublishError, Window, header_block
from leafd_spark.wire import Refused

from tests import servers

from .hub import CONFIGURATION, Hub, running


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
def test_rows_that_come_late_find_another_connection(hub: Hub) -> None:
    """The time for retries begins with what is to be sent: a server that restarted while no row came ends nothing."""
    window = Window(hub.options(retrySeconds="60"))
    window.publish(outgoing(1))
    window.drain()
    hub.server.kill()
    hub.server.start()
    window._patience._deadline = window._progress = 0.0  # as if the next row came an hour later
    window.publish(outgoing(2))
    window.drain()
    window.close()
    assert 2 == stored(hub)


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


IN_PROCESS = (
    b'{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"S","seq":0}'
)


def undecided(listener: socket.socket, times: int) -> None:
    """A replica that says so often of each message that its id is in process, and then stores it."""
    asked: Counter[bytes] = Counter()
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        connection.sendall(b'INFO {"max_payload":1048576,"headers":true}\r\n')
        for line in lines:
            if line == b"PING\r\n":
                connection.sendall(b"PONG\r\n")
            elif line.startswith(b"HPUB"):
                _, _, reply, _, size = line.split()
                message_id = lines.read(int(size) + 2).split(b"Nats-Msg-Id: ")[1].split(b"\r\n")[0]
                asked[message_id] += 1
                stored = b'{"stream":"S","seq":%d}' % len(asked)
                answer = IN_PROCESS if asked[message_id] <= times else stored
                connection.sendall(b"MSG %b 2 %d\r\n%b\r\n" % (reply, len(answer), answer))


def test_an_id_that_is_in_process_is_asked_for_again() -> None:
    """Replicas that have not agreed yet on an equal message do not refuse it: it is sent again, on one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        replica = threading.Thread(target=undecided, args=(listener, 2))
        replica.start()
        window = Window(parse_options({"servers": f"nats://127.0.0.1:{listener.getsockname()[1]}", "stream": "S"}))
        for number in range(20):
            window.publish(outgoing(number))
        window.drain()
        window.close()
        replica.join()
    assert 20 == window.stored


def test_what_a_publisher_may_not_do_ends_at_once() -> None:
    """A subject that may not be published on, answers that may not be received: the error names it, at once."""
    users = (
        '{ user: writer, password: w, permissions: { publish: { deny: ["s.secret"] } } }',
        '{ user: deaf, password: d, permissions: { publish: ">", subscribe: { deny: ["_INBOX.>"] } } }',
    )
    for kind in servers.KINDS:
        with servers.running(kind, CONFIGURATION + f"authorization {{ users: [{', '.join(users)}] }}\n") as server:
            hub = Hub(server)
            for user, password, subject, named in (
                ("writer", "w", "s.secret", r"Publish to .s\.secret"),
                ("deaf", "d", "s.x", r"Subscription to ._INBOX"),
            ):
                window = Window(hub.options(retrySeconds="600", user=user, password=password))
                with pytest.raises(Refused, match=named):
                    window.publish(Outgoing(subject, header_block("a", ()), b"x"))
                    window.drain()
                window.close()


def test_a_wrong_domain_ends_soon(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes the subject and nobody answers at the API: the error names the API long before the retries end."""
    monkeypatch.setattr("leafd_spark.sink.publish.NOBODY_SECONDS", 0.5)
    window = Window(hub.options(retrySeconds="600", domain="wrong"))
    window.publish(Outgoing("s.x", header_block("a", ()), b"x"))
    with pytest.raises(PublishError, match=r"nobody answers at \$JS\.wrong\.API: is the domain right"):
        window.drain()
    window.close()
