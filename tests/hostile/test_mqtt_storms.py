"""What devices that are logged in do as often and as much as they like: each storm is bounded as the protocol says, and
another device is served all the while.

Not here: random packets, and floods of what is remembered of a connection (test_mqtt.py).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import mqtt, servers
from tests.mqtt import DISCONNECT, PUBACK, PUBLISH, PUBREL, SUBACK, UNSUBACK, Packet, Peer
from tests.rig.reports import report
from tests.rig.stopwatch import waited_s

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: one
memory_limit: 64MB
jetstream { store_dir: '{store}', max_file_store: 256MB }
mqtt { listen: "127.0.0.1:{mqtt_port}", max_ack_pending: 65535, receive_maximum: 1024 }
"""
STORM_S = 3.0
SERVED_S = 5.0
"""No other device waits longer for its own message, beyond what the plane's thread waits for a processor."""
FILTERS_MAX = 1024
UNACKNOWLEDGED = 20_000


@pytest.fixture
def server() -> Iterator[servers.Server]:
    """A daemon for each storm, with another device, which comes again and again and sends itself a message."""
    with servers.running(servers.LEAFD, CONFIGURATION) as one, served(one):
        yield one


def kept(server: servers.Server, client: str, **more: Any) -> Peer:
    """A device with a session."""
    found = {"session_expiry": 600, **more.pop("found", {})}
    return Peer(server.ports["mqtt_port"], level=5, client=client, clean=False, found=found, **more)


@contextlib.contextmanager
def served(server: servers.Server) -> Iterator[None]:
    """Another device has its message each time, in time; at the end the daemon is sound."""
    over, times, failed = threading.Event(), [0.0], list[BaseException]()

    def come_again() -> None:
        try:
            for number in range(1_000_000):
                began = time.monotonic()
                with Peer(server.ports["mqtt_port"], client=f"other-{number}") as peer:
                    peer.subscribe("other/x")
                    peer.publish("other/x", b"served")
                    assert b"served" == peer.expect(PUBLISH).payload
                times.append(time.monotonic() - began)
                if over.wait(0.02):
                    return
        except (OSError, AssertionError) as error:
            failed.append(error)

    thread = threading.Thread(target=come_again)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert [] == failed, server.log[-2000:]
    assert len(times) > 2
    assert max(times) < SERVED_S + waited_s(server.plane_task())
    assert 0 == report(server, "varz")["leafd"]["unexpected_errors"], server.log[-2000:]


def together(*acts: Callable[[], None]) -> None:
    """Each in a thread of its own. What one of them raises is raised."""
    failed = list[BaseException]()

    def act(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=act, args=(one,)) for one in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error


def test_ten_thousand_filters(server: servers.Server) -> None:
    """A session has as many as it may; the others are refused one by one. More than that in one packet end the
    connection."""
    reasons = []
    with kept(server, "many") as peer:
        for number in range(10):
            filters = [(f"f/{number}/{one}", 1) for one in range(1_000)]
            peer.send(mqtt.subscribe(number + 1, *filters, level=5))
            reasons += peer.expect(SUBACK).reasons
    assert [1] * FILTERS_MAX + [0x97] * (10_000 - FILTERS_MAX) == reasons
    with kept(server, "at once") as peer:
        peer.send(mqtt.subscribe(1, *((f"f/{one}", 1) for one in range(10_000)), level=5))
        end = peer.ended()
        assert end is not None
        assert (DISCONNECT, 0x97) == (end.kind, end.reason)


def test_a_device_that_never_acknowledges(server: servers.Server) -> None:
    """It is sent what it asked for, and once more when it comes again, as what may have come before."""
    found = {"receive_maximum": 65_535}
    with kept(server, "deaf", found=found) as deaf, kept(server, "says") as says:
        assert [1] == deaf.subscribe(("in/flight", 1))

        def say() -> None:
            for first in range(0, UNACKNOWLEDGED, 1_000):
                says.send(b"".join(mqtt.publish("in/flight", b"x", level=5, qos=1, id=one + 1) for one in range(1_000)))
                assert list(range(1, 1_001)) == [says.expect(PUBACK).id for _ in range(1_000)], first

        def take() -> None:
            assert UNACKNOWLEDGED == len({deaf.expect(PUBLISH).id for _ in range(UNACKNOWLEDGED)})

        together(say, take)
    with kept(server, "deaf", found=found) as deaf:
        again = [deaf.expect(PUBLISH) for _ in range(UNACKNOWLEDGED)]
        assert {True} == {one.dup for one in again}
        assert UNACKNOWLEDGED == len({one.id for one in again})


def test_releases_of_messages_that_are_not_there(server: servers.Server) -> None:
    """Each is answered, until the device leaves more of the answers unread than may wait for it."""
    block = b"".join(mqtt.acknowledge(PUBREL, id) for id in range(1, 65_536))
    with kept(server, "releases") as peer:
        peer.send(block[: 4 * 100])
        assert [0x92] * 100 == [peer.packet().reason for _ in range(100)]
        until = time.monotonic() + STORM_S
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < until:
                peer.send(block)


def test_one_session_that_fifty_take_over_from_each_other(server: servers.Server) -> None:
    """It is one session all the while, and is there at the end with what its devices have asked for."""
    until, port = time.monotonic() + STORM_S, server.ports["mqtt_port"]
    with kept(server, "taken") as peer:
        assert [1] == peer.subscribe(("for/it", 1))

    def take_over() -> None:
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionError, mqtt.Ended), kept(server, "taken") as one:
                assert one.welcome.session_present
                one.publish("by/it", b"x", qos=1)

    together(*[take_over] * 50)
    with Peer(port, client="says") as says:
        says.publish("for/it", b"last", qos=1)
        says.expect(PUBACK)
    with kept(server, "taken") as peer:
        assert peer.welcome.session_present
        assert b"last" == peer.expect(PUBLISH).payload


def test_members_of_a_share_that_come_and_go(server: servers.Server) -> None:
    """One stays, so nothing is lost: what another one had and did not acknowledge comes to one of them."""
    until, taken, said = time.monotonic() + STORM_S, list[bytes](), list[bytes]()
    over = threading.Event()

    def take(peer: Peer, one: Packet) -> None:
        assert (PUBLISH, 1) == (one.kind, one.qos)
        taken.append(one.payload)
        peer.send(mqtt.acknowledge(PUBACK, one.id))

    def come_and_go(client: str) -> None:
        with kept(server, client) as peer:
            for number in range(1, 60_000):
                asked = mqtt.subscribe(number, ("$share/g/sh/x", 1), level=5)
                for packet, answer in (
                    (asked, SUBACK),
                    (mqtt.unsubscribe(number, "$share/g/sh/x", level=5), UNSUBACK),
                ):
                    peer.send(packet)
                    while (one := peer.packet()).kind != answer:
                        take(peer, one)
                if time.monotonic() > until:
                    break
            for one in peer.round_trip():
                take(peer, one)

    def say() -> None:
        with kept(server, "says") as peer:
            while time.monotonic() < until and len(said) < 60_000:
                said.append(str(len(said)).encode())
                peer.publish("sh/x", said[-1], qos=1)
                peer.expect(PUBACK)

    def stay() -> None:
        with kept(server, "stays") as peer:
            assert [1] == peer.subscribe(("$share/g/sh/x", 1))
            ready.set()
            while not over.is_set() or len(set(taken)) < len(said):
                take(peer, peer.expect(PUBLISH))

    ready = threading.Event()
    staying = threading.Thread(target=stay)
    staying.start()
    ready.wait(mqtt.PATIENCE_S)
    together(say, *[lambda client=f"goes-{one}": come_and_go(client) for one in range(6)])
    over.set()
    with kept(server, "last") as peer:
        said.append(b"last")
        peer.publish("sh/x", b"last", qos=1)
        peer.expect(PUBACK)
    staying.join(mqtt.PATIENCE_S)
    assert len(said) > 10
    assert set(said) == set(taken)
