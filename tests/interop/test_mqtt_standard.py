"""Where brokers differ and the standard says who is right: what mosquitto's own tests expect otherwise ("MQTT Version
5.0", cited as 5: section).

Not here: what the standard leaves open (test_mqtt_five.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests import mqtt, servers
from tests.interop.test_mqtt_sessions import CONFIGURATION, broker
from tests.mqtt import LEVELS, PUBLISH, PUBREC, Peer, Will

LATE_S: Final = 3600


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with broker(servers.LEAFD) as found:
        yield found


def test_a_will_waits_no_longer_than_its_session_lasts(port: int) -> None:
    """5: 3.1.3.2.2: until the delay is over or the session ends, whichever is first. Here it ends with its connection;
    mosquitto waits all the same."""
    will = Will("left/short", b"gone", properties={"will_delay": LATE_S})
    with Peer(port, level=5, client="watches") as watcher:
        watcher.subscribe("left/short")
        with Peer(port, level=5, client="short", will=will):
            pass
        assert b"gone" == watcher.expect(PUBLISH).payload


@pytest.mark.parametrize("level", LEVELS)
def test_who_is_taken_over_leaves_a_will(port: int, level: int) -> None:
    """3.1.1: 3.1.2.5, 5: 3.1.4: the older connection is closed, though its session goes on. mosquitto says none."""
    more: dict[str, Any] = {"found": {"session_expiry": LATE_S}} if level == 5 else {}
    name = f"taken{level}"
    with Peer(port, level=level, client=f"watches{level}") as watcher:
        watcher.subscribe("left/#")
        older = Peer(port, level=level, client=name, clean=False, will=Will(f"left/{name}", b"gone"), **more)
        with older, Peer(port, level=level, client=name, clean=False, **more) as newer:
            assert newer.welcome.session_present
            older.ended()
            one = watcher.expect(PUBLISH)
            assert (f"left/{name}", b"gone") == (one.topic, one.payload)
        with Peer(port, level=level, client=name):
            pass  # its session ends


def test_a_will_that_waits_is_not_left_by_who_is_taken_over(port: int) -> None:
    """5: 3.1.4, where the session goes on."""
    will = Will("waits/will", b"gone", properties={"will_delay": LATE_S})
    with Peer(port, level=5, client="watches") as watcher, Peer(port, level=5, client="says") as says:
        watcher.subscribe("waits/#")
        lasting = {"session_expiry": LATE_S}
        older = Peer(port, level=5, client="waits", clean=False, will=will, found=lasting)
        with older, Peer(port, level=5, client="waits", clean=False, found=lasting):
            older.ended()
            says.publish("waits/end", b"end")
            assert b"end" == watcher.expect(PUBLISH).payload
        with Peer(port, level=5, client="waits"):
            pass  # its session ends


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_of_quality_two_that_comes_again_is_answered_each_time(port: int, level: int) -> None:
    """And passed on once (4.3.3). mosquitto closes at the third."""
    with Peer(port, level=level, client="hears") as hears, Peer(port, level=level, client="repeats") as peer:
        hears.subscribe(f"again/{level}")
        for dup in (False, True, True, True, True):
            peer.send(mqtt.publish(f"again/{level}", b"x", level=level, qos=2, id=7, dup=dup))
            assert 7 == peer.expect(PUBREC).id
        assert [b"x"] == [one.payload for one in hears.round_trip()]


def test_the_largest_packet_is_counted_with_its_first_bytes(port: int) -> None:
    """5: 3.1.2.11.4 and 2.1.4: the whole packet. mosquitto leaves the fixed header out."""
    size = len(mqtt.publish("size/topic", b"7890", level=5, qos=1, id=1))
    for most, fits in ((size, True), (size - 1, False)):
        with Peer(port, level=5, client="small", found={"maximum_packet": most}) as small:
            small.subscribe(("size/topic", 1))
            with Peer(port, level=5, client="large") as large:
                large.publish("size/topic", b"7890", qos=1)
                large.expect(mqtt.PUBACK)
            assert ([b"7890"] if fits else []) == [one.payload for one in small.round_trip()]


@pytest.mark.parametrize("level", LEVELS)
def test_what_the_standard_leaves_to_the_server(port: int, level: int) -> None:
    """mosquitto closes for a filter of more than 200 levels, and refuses what is published to $SYS and $share (4.7.2
    says SHOULD). Its answer to a packet identifier 0 is 0x81 (5: 2.2.1 names none), and to a will without a topic there
    is none (5: 3.1.4: MAY)."""
    with Peer(port, level=level, client=f"deep{level}") as peer:
        assert peer.subscribe("/".join("a" * 300)) == [0x80 if level == 4 else 0x8F]
        for topic in ("$SYS/broker/uptime", "$share/share/topic"):
            peer.publish(topic, b"x", qos=1)
            assert peer.expect(mqtt.PUBACK).reason in (0, 0x10)
        peer.send(mqtt.subscribe(0, ("a", 0), level=level))
        last = peer.ended()
        assert last is None if level == 4 else last is not None and last.reason == 0x82
    with Peer(port, level=level, begin=False) as peer:
        peer.send(mqtt.connect(level, "w", will=Will("", b"x")))
        last = peer.ended()
        assert last is None if level == 4 else last is not None and last.reason == 0x90
    with Peer(port, level=level, client="large", will=Will("large", b"x" * (15 << 10))) as peer:
        assert 0 == peer.welcome.reason
    with Peer(port, level=level, begin=False) as peer:
        peer.send(mqtt.connect(level, "large", will=Will("large", b"x" * (16 << 10))))
        last = peer.ended()
        assert last is None if level == 4 else last is not None and last.reason == 0x95


@pytest.mark.parametrize("level", LEVELS)
def test_a_will_is_no_larger_than_other_messages(level: int) -> None:
    """max_payload holds for it. Told in CONNACK, since it cannot be published later."""
    with servers.running(servers.LEAFD, "max_payload: 1KB\n" + CONFIGURATION) as server:
        found = server.ports["mqtt_port"]
        with Peer(found, level=level, client="fits", will=Will("a", b"x" * 1024)) as peer:
            assert 0 == peer.welcome.reason
        with Peer(found, level=level, begin=False) as peer:
            peer.send(mqtt.connect(level, "exceeds", will=Will("a", b"x" * 1025)))
            assert (5 if level == 4 else 0x95) == peer.expect(mqtt.CONNACK).reason
            peer.ended()


@pytest.mark.parametrize("level", LEVELS)
def test_a_thousand_topics_in_one_packet(port: int, level: int) -> None:
    """3.8.3 knows no bound. Home Assistant sends up to 500, which nats-server and mosquitto take, too."""
    filters = [f"many/{number}" for number in range(1024)]
    with Peer(port, level=level, client=f"asks{level}") as peer:
        assert [0] * 1024 == peer.subscribe(*filters)
        peer.publish("many/1023", b"x")
        assert [b"x"] == [one.payload for one in peer.round_trip()]
        assert ([] if level == 4 else [0] * 1024) == peer.unsubscribe(*filters)
        peer.publish("many/1023", b"x")
        assert [] == peer.round_trip()


def test_who_is_in_the_middle_of_a_packet_is_alive(port: int) -> None:
    """Bytes count for the keep alive, as with nats-server: a packet may take longer than that on a slow line. mosquitto
    closes, since 3.1.2.10 has whole packets."""
    raw = mqtt.publish("slowly/sent", b"12345678")
    with Peer(port, client="slow", keep_alive=1) as peer:
        peer.subscribe("slowly/#")
        for begin in range(0, len(raw), 3):
            peer.send(raw[begin : begin + 3])
            time.sleep(0.3)
        assert b"12345678" == peer.expect(PUBLISH).payload
