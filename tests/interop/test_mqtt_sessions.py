"""Sessions that outlive their connection, as walks of a client of MQTT 3.1.1 that leafd and nats-server answer alike,
and mosquitto where it is on the path; and what MQTT 5 adds ("MQTT Version 5.0", cited as 5: section). What a kill -9
leaves of them is tests/crash.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import seen
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet, Peer
from tests.rig.reloads import exchanged
from tests.rig.reports import report
from tests.rig.waiting import eventually

MOSQUITTO: Final = "mosquitto"
CONFIGURATION: Final = """
listen: "127.0.0.1:{port}"
server_name: one
jetstream { store_dir: "{store}", max_mem: 64MB, max_file: 1GB }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
"""
WAIT_S: Final = 4
"""So long nats-server waits before it sends again to who has come back; leafd sends at once."""
KINDS: Final = [*servers.KINDS, *([MOSQUITTO] if shutil.which(MOSQUITTO) else [])]
FOREVER: Final = 0xFFFFFFFF


@contextlib.contextmanager
def broker(kind: str, more: str = "") -> Iterator[int]:
    """The port of one that runs. more: lines of mosquitto's, keys of the mqtt block of the others."""
    if kind != MOSQUITTO:
        wait = f"mqtt {{ ack_wait: {WAIT_S}s," if kind == servers.REFERENCE else f"mqtt {{ {more}"
        with servers.running(kind, CONFIGURATION.replace("mqtt {", wait)) as server:
            yield server.ports["mqtt_port"]
        return
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as folder:
        port, file = servers.free_port(), Path(folder) / "mosquitto.conf"
        file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{more}")
        with subprocess.Popen([MOSQUITTO, "-c", file], stderr=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: _listens(port))
                yield port
            finally:
                process.terminate()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture(scope="module")
def ours() -> Iterator[int]:
    with broker(servers.LEAFD) as port:
        yield port


@pytest.fixture(scope="module", params=KINDS)
def each(request: pytest.FixtureRequest) -> Iterator[int]:
    with broker(request.param) as port:
        yield port


def leave(peer: Peer) -> None:
    peer.send(mqtt.disconnect(peer.level))
    peer.ended()


def three(port: int, name: str, *, clean: bool = False) -> Peer:
    return Peer(port, client=name, clean=clean, keep_alive=0)


def five(port: int, name: str, *, clean: bool = False, expiry: int = FOREVER) -> Peer:
    return Peer(
        port, level=5, client=name, clean=clean, keep_alive=0, found={"session_expiry": expiry} if expiry else None
    )


def published(port: int, topic: str, payloads: list[bytes], qos: int = 1, **more: Any) -> None:
    """By somebody else, until all are acknowledged."""
    with (
        Peer(port, level=5 if more else 4, client="other", keep_alive=0)
        if not more
        else five(port, "other", clean=True, expiry=0) as peer
    ):
        for payload in payloads:
            id = peer.publish(topic, payload, qos=qos, **more)
            if qos == 2:
                peer.expect(PUBREC)
                peer.send(mqtt.acknowledge(PUBREL, id))
            if qos:
                peer.expect(PUBACK if qos == 1 else PUBCOMP)
        peer.round_trip()


def taken(peer: Peer, count: int) -> list[Packet]:
    """So many messages, acknowledged."""
    found: list[Packet] = []
    while len(found) < count:
        one = peer.packet()
        if one.kind == PUBREL:
            peer.send(mqtt.acknowledge(PUBCOMP, one.id))
            continue
        assert one.kind == PUBLISH, one
        found.append(one)
        if one.qos:
            peer.send(mqtt.acknowledge(PUBACK if one.qos == 1 else PUBREC, one.id))
    return found


def finished(peer: Peer) -> list[Packet]:
    """What else comes at once; what QoS 2 has to say is answered."""
    rest = []
    for _ in range(2):
        for one in peer.round_trip():
            if one.kind == PUBREL:
                peer.send(mqtt.acknowledge(PUBCOMP, one.id))
            else:
                rest.append(one)
    return rest


# ---- walks


def test_what_comes_while_a_client_is_away_waits_for_it(each: int) -> None:
    """With QoS 1 and 2, in order, once; what has QoS 0 need not wait (3.1.2.4)."""
    for qos in (1, 2):
        name, topic = f"waits{qos}", f"waits/{qos}"
        with three(each, name) as peer:
            assert (2, 0, False) == seen(peer.welcome)
            assert [qos] == peer.subscribe((topic, qos))
            leave(peer)
        published(each, topic, [b"%d" % one for one in range(10)], qos)
        with three(each, name) as peer:
            assert peer.welcome.session_present
            assert [(b"%d" % one, qos) for one in range(10)] == [(one.payload, one.qos) for one in taken(peer, 10)]
            assert [] == finished(peer)
            leave(peer)
        with three(each, name) as peer:
            assert [] == finished(peer)


def test_a_clean_start_forgets_the_session(each: int) -> None:
    with three(each, "forgets") as peer:
        peer.subscribe(("forgets", 1))
        leave(peer)
    published(each, "forgets", [b"x"])
    with three(each, "forgets", clean=True) as peer:
        assert not peer.welcome.session_present
        published(each, "forgets", [b"y"])
        assert [] == peer.round_trip()
        leave(peer)
    with three(each, "forgets") as peer:
        assert not peer.welcome.session_present
        assert [] == peer.round_trip()


def test_what_was_not_acknowledged_comes_again(each: int) -> None:
    """With its identifier and DUP (4.4); what was is over. QoS 2 goes on where it was."""
    with three(each, "again") as peer:
        peer.subscribe(("again/#", 2))
        published(each, "again/a", [b"1", b"2"])
        first, second = peer.expect(PUBLISH), peer.expect(PUBLISH)
        peer.send(mqtt.acknowledge(PUBACK, first.id))
        peer.round_trip()
    with three(each, "again") as peer:
        message = taken(peer, 1)[0]
        assert (b"2", second.id, True) == (message.payload, message.id, message.dup)
        assert [] == finished(peer)


def test_what_was_received_of_quality_two_is_released_after_a_break(each: int) -> None:
    """PUBREC was said, so PUBREL comes and not the message (4.3.3)."""
    with three(each, "released") as peer:
        peer.subscribe(("released", 2))
        published(each, "released", [b"1"], 2)
        message = peer.expect(PUBLISH)
        peer.send(mqtt.acknowledge(PUBREC, message.id))
        assert message.id == peer.expect(PUBREL).id
    with three(each, "released") as peer:
        assert message.id == peer.expect(PUBREL).id
        peer.send(mqtt.acknowledge(PUBCOMP, message.id))
        assert [] == finished(peer)


@pytest.mark.parametrize("reason", [0, 0x92])
def test_a_release_comes_first_behind_a_kill_until_it_is_answered(reason: int) -> None:
    """PUBREL and then what follows (MQTT-4.4.0-1), also for a client that does not know it any more: such a one says
    0x92 (5: 3.7.2.1), or closes, and hears it again."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        port = server.ports["mqtt_port"]
        with five(port, "killed") as peer:
            peer.subscribe(("killed", 2))
            published(port, "killed", [b"1", b"2"], 2)
            first, second = peer.expect(PUBLISH), peer.expect(PUBLISH)
            peer.send(mqtt.acknowledge(PUBREC, first.id))
            assert first.id == peer.expect(PUBREL).id
            server.kill()
        server.start()
        for again in range(2):
            with five(port, "killed") as peer:
                assert peer.welcome.session_present
                released, message = peer.packet(), peer.packet()
                assert (PUBREL, first.id, 0) == (released.kind, released.id, released.reason)
                assert (PUBLISH, second.id, b"2", True) == (message.kind, message.id, message.payload, message.dup)
                if again:
                    peer.send(mqtt.acknowledge(PUBCOMP, first.id, reason))
                    peer.round_trip()
        with five(port, "killed") as peer:
            message = peer.packet()
            assert (PUBLISH, second.id) == (message.kind, message.id)


def test_a_message_of_quality_two_that_comes_again_after_a_break_is_one(each: int) -> None:
    """The server keeps its identifier with the session (4.3.3)."""
    with three(each, "hears", clean=True) as other:
        other.subscribe(("once", 2))
        with three(each, "once") as peer:
            id = peer.publish("once", b"x", qos=2)
            assert id == peer.expect(PUBREC).id
        with three(each, "once") as peer:
            peer.send(mqtt.publish("once", b"x", qos=2, id=id, dup=True))
            assert id == peer.expect(PUBREC).id
            peer.send(mqtt.acknowledge(PUBREL, id))
            assert id == peer.expect(PUBCOMP).id
            leave(peer)
        assert [b"x"] == [one.payload for one in taken(other, 1)]
        assert [] == finished(other)


def test_subscriptions_of_a_session_hold_and_end(each: int) -> None:
    """They need not be made again; one that was taken back is over."""
    with three(each, "holds") as peer:
        peer.subscribe(("holds/a", 1), ("holds/b", 1))
        peer.unsubscribe("holds/b")
        leave(peer)
    with three(each, "holds") as peer:
        published(each, "holds/b", [b"b"])
        published(each, "holds/a", [b"a"])
        assert [("holds/a", b"a")] == [(one.topic, one.payload) for one in taken(peer, 1)]
        assert [] == finished(peer)


def test_a_session_is_taken_over_with_what_it_has(each: int) -> None:
    """The same identifier again: the older connection ends, and nothing is lost."""
    with three(each, "moves") as first:
        first.subscribe(("moves", 1))
        published(each, "moves", [b"1"])
        first.expect(PUBLISH)
        with three(each, "moves") as second:
            first.ended()
            assert second.welcome.session_present
            assert [b"1"] == [one.payload for one in taken(second, 1)]
            published(each, "moves", [b"2"])
            assert [b"2"] == [one.payload for one in taken(second, 1)]
            assert [] == finished(second)


# ---- MQTT 5


def test_a_session_of_five_lasts_as_long_as_it_was_asked_for(ours: int) -> None:
    """By the session expiry interval, which DISCONNECT may change (5: 3.1.2.11.2, 3.14.2.2.2)."""
    with five(ours, "short", expiry=1) as peer:
        peer.subscribe(("short", 1))
        leave(peer)

    def gone() -> bool:
        time.sleep(1.2)
        with five(ours, "short", expiry=1) as peer:
            present = peer.welcome.session_present
            leave(peer)
        return not present

    eventually(gone)
    with five(ours, "none", expiry=0) as peer:
        leave(peer)
    with five(ours, "none", expiry=FOREVER) as peer:
        assert not peer.welcome.session_present
        peer.send(mqtt.packet(mqtt.DISCONNECT, b"\x00" + mqtt.properties(5, {"session_expiry": 0})))
        peer.ended()
    with five(ours, "none") as peer:
        assert not peer.welcome.session_present


def test_a_session_that_had_none_gets_no_time_at_the_end(ours: int) -> None:
    """A DISCONNECT may not make a session that CONNECT did not ask for (5: 3.14.2.2.2)."""
    with five(ours, "late", expiry=0) as peer:
        peer.send(mqtt.packet(mqtt.DISCONNECT, b"\x00" + mqtt.properties(5, {"session_expiry": 60})))
        end = peer.ended()
        assert end is not None
        assert (mqtt.DISCONNECT, 0x82) == (end.kind, end.reason)


def test_properties_wait_with_the_message(ours: int) -> None:
    with five(ours, "whole") as peer:
        peer.subscribe(("whole", 1))
        leave(peer)
    found = {
        "content_type": "text/plain", "response_topic": "answers/1", "correlation_data": b"\x00\xff",
        "user": [("a", "1"), ("a", "2")], "payload_format": 1,
    }  # fmt: skip
    published(ours, "whole", [b"x"], found=found)
    with five(ours, "whole") as peer:
        assert [found] == [one.properties for one in taken(peer, 1)]


def test_a_message_that_waited_too_long_does_not_come(ours: int) -> None:
    """And one that did not says how much of its time is left (5: 3.3.2.3.3)."""
    with five(ours, "aged") as peer:
        peer.subscribe(("aged", 1))
        leave(peer)
    published(ours, "aged", [b"short"], found={"message_expiry": 1})
    published(ours, "aged", [b"long"], found={"message_expiry": 1000})
    time.sleep(2.1)
    with five(ours, "aged") as peer:
        (message,) = taken(peer, 1)
        assert b"long" == message.payload
        assert 900 < message.properties["message_expiry"] < 1000
        assert [] == finished(peer)


def test_no_more_is_sent_than_the_client_takes_at_once(ours: int) -> None:
    """Its receive maximum, of what waited as well (5: 3.3.4)."""
    with five(ours, "few") as peer:
        peer.subscribe(("few", 1))
        leave(peer)
    published(ours, "few", [b"%d" % one for one in range(10)])
    with Peer(
        ours, level=5, client="few", clean=False, found={"session_expiry": FOREVER, "receive_maximum": 3}
    ) as peer:
        got = [peer.expect(PUBLISH) for _ in range(3)]
        assert [] == peer.round_trip()
        assert [b"0", b"1", b"2"] == [one.payload for one in got]
        for one in got:
            peer.send(mqtt.acknowledge(PUBACK, one.id))
        assert [b"%d" % one for one in range(3, 10)] == [one.payload for one in taken(peer, 7)]


# ---- bounds


@pytest.fixture(scope="module")
def bounded() -> Iterator[int]:
    block = "max_sessions: 2, max_session_expiry: 1s, ack_wait: 1s"
    text = CONFIGURATION.replace("mqtt {", f"mqtt {{ {block},")
    with servers.running(servers.LEAFD, text) as server:
        yield server.ports["mqtt_port"]


def test_an_account_keeps_no_more_sessions_than_the_block_says(bounded: int) -> None:
    """Who is one too many is told so, and may come without a session."""
    with three(bounded, "one"), five(bounded, "two"):
        for level, reason in ((4, 3), (5, 0x97)):
            with Peer(bounded, level=level, begin=False) as peer:
                found = {"session_expiry": 60} if level == 5 else None
                peer.send(mqtt.connect(level, "three", clean=False, found=found))
                assert reason == peer.expect(mqtt.CONNACK).reason
                peer.ended()
        with three(bounded, "three", clean=True) as peer:
            assert [] == peer.round_trip()
        with three(bounded, "one") as peer:
            assert peer.welcome.session_present


def test_a_session_is_not_kept_longer_than_the_block_says(bounded: int) -> None:
    """MQTT 5 is told how long that is."""
    with five(bounded, "two") as peer:
        assert 1 == peer.welcome.properties["session_expiry"]
        leave(peer)
    with three(bounded, "one") as peer:
        leave(peer)

    def gone() -> bool:
        time.sleep(1.2)
        with three(bounded, "one") as peer:
            present = peer.welcome.session_present
            leave(peer)
        return not present

    eventually(gone)


def test_no_message_is_kept_longer_than_the_block_says() -> None:
    """max_message_expiry: for a session, and as a retained message, whatever its publisher says. A reload
    changes that for messages that come then."""
    text = CONFIGURATION.replace("mqtt {", "mqtt { max_message_expiry: 3s,")
    with servers.running(servers.LEAFD, text) as server:
        port = server.ports["mqtt_port"]
        with three(port, "away") as peer:
            peer.subscribe(("kept/#", 1))
            leave(peer)
        for topic, found in (("kept/ever", None), ("kept/long", {"message_expiry": 1000})):
            with five(port, "says") as peer:
                peer.publish(topic, b"1", qos=1, retain=True, found=found)
                assert peer.expect(PUBACK).reason < 0x80
        with five(port, "new") as peer:
            peer.subscribe(("kept/#", 0))
            assert {"kept/ever", "kept/long"} == {peer.expect(PUBLISH).topic for _ in range(2)}
        time.sleep(4.1)
        exchanged(server, "max_message_expiry: 3s,", "")
        published(port, "kept/later", [b"2"])
        time.sleep(4.1)
        with five(port, "newer") as peer:
            peer.subscribe(("kept/#", 0))
            time.sleep(1)
            assert [] == [one.topic for one in peer.round_trip() if one.kind == PUBLISH]
        with three(port, "away") as peer:
            assert ["kept/later"] == [one.topic for one in taken(peer, 1)]
            assert [] == finished(peer)


REPORTING: Final = 'http: "127.0.0.1:{http_port}"\n'


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_no_more_waits_for_a_session_than_the_block_says() -> None:
    """Beside what is in flight; the oldest goes, for that session alone, and is counted. A restart brings none back,
    and a reload changes the bound for what waits already."""
    text = REPORTING + CONFIGURATION.replace("mqtt {", "mqtt { max_queued: 10, max_ack_pending: 4,")
    with servers.running(servers.LEAFD, text) as server:
        port = server.ports["mqtt_port"]
        for name, topic in (("away", "q/#"), ("third", "p/#"), ("here", "q/#")):
            with three(port, name) as peer:
                peer.subscribe((topic, 1))
                leave(peer)
        with three(port, "here") as here:
            published(port, "q/1", numbered(0, 4))
            flying = [here.expect(PUBLISH) for _ in range(4)]
            published(port, "q/1", numbered(4, 30))
            published(port, "p/1", numbered(0, 5))
            eventually(lambda: dropped(server) == 16 + 20, lambda: str(dropped(server)))
            for one in flying:
                here.send(mqtt.acknowledge(PUBACK, one.id))
            assert numbered(20, 30) == [one.payload for one in taken(here, 10)]
            leave(here)
        published(port, "p/1", [b"5"])  # an acknowledgement is on disk with the batch behind it
        server.kill()
        server.start()
        with three(port, "third") as peer:
            assert numbered(0, 6) == [one.payload for one in taken(peer, 6)]
        with three(port, "away") as peer:
            assert numbered(20, 24) == [peer.expect(PUBLISH).payload for _ in range(4)]
        exchanged(server, "max_queued: 10", "max_queued: 3")
        eventually(lambda: dropped(server) == 3, lambda: str(dropped(server)))
        with three(port, "away") as peer:
            assert numbered(20, 24) + numbered(27, 30) == [one.payload for one in taken(peer, 7)]
            assert [] == finished(peer)


def sized(first: int, end: int) -> list[bytes]:
    """Of 1,000 bytes each."""
    return [b"%-1000d" % number for number in range(first, end)]


@pytest.mark.parametrize("kind", [one for one in KINDS if one != servers.REFERENCE])
def test_bytes_that_wait_for_one_device_are_nothing_to_the_others(kind: str) -> None:
    """The same bound of bytes at both: some of its messages go, the newest here, and the other one has all of its own.
    mosquitto counts payloads alone."""
    more = "max_queued_bytes 5000\n" if kind == MOSQUITTO else "max_session_bytes: 5500,"
    with broker(kind, more) as port:
        for name, topic in (("away", "q/#"), ("second", "p/#")):
            with three(port, name) as peer:
                peer.subscribe((topic, 1))
                leave(peer)
        published(port, "q/1", sized(0, 60))
        published(port, "p/1", sized(0, 4))
        with three(port, "second") as peer:
            assert sized(0, 4) == [one.payload for one in taken(peer, 4)]
        with three(port, "away") as peer:
            kept = [one.payload for one in finished(peer) if one.kind == PUBLISH]
        # mosquitto also keeps its max_inflight_messages (20)
        assert kept == (sized(0, len(kept)) if kind == MOSQUITTO else sized(55, 60))
        assert 4 <= len(kept) <= 26


def test_no_more_bytes_wait_for_one_session_than_the_block_says() -> None:
    """Beside what is in flight; its oldest ones go, also with a wildcard and with messages of others between, and are
    counted. A restart brings none back and drops no more, and a reload changes the bound for what waits already."""
    text = REPORTING + CONFIGURATION.replace("mqtt {", "mqtt { max_session_bytes: 10500, max_ack_pending: 4,")
    with servers.running(servers.LEAFD, text) as server:
        port = server.ports["mqtt_port"]
        for name, topic in (("away", "q/#"), ("third", "p/#"), ("here", "q/+")):
            with three(port, name) as peer:
                peer.subscribe((topic, 1))
                leave(peer)
        with three(port, "here") as here:
            published(port, "q/1", sized(0, 4))
            flying = [here.expect(PUBLISH) for _ in range(4)]
            for number in range(4, 30):
                published(port, f"q/{number}", sized(number, number + 1))
            published(port, "p/1", sized(0, 5))
            eventually(lambda: dropped(server) == 16 + 20, lambda: str(dropped(server)))
            for one in flying:
                here.send(mqtt.acknowledge(PUBACK, one.id))
            assert sized(20, 30) == [one.payload for one in taken(here, 10)]
            leave(here)
        published(port, "p/1", sized(5, 6))  # an acknowledgement is on disk with the batch behind it
        server.kill()
        server.start()
        published(port, "q/1", sized(30, 31))
        eventually(lambda: dropped(server) == 1, lambda: str(dropped(server)))
        with three(port, "third") as peer:
            assert sized(0, 6) == [one.payload for one in taken(peer, 6)]
        with three(port, "here") as peer:
            assert sized(30, 31) == [one.payload for one in taken(peer, 1)]
        with three(port, "away") as peer:
            assert sized(21, 25) == [peer.expect(PUBLISH).payload for _ in range(4)]
        exchanged(server, "max_session_bytes: 10500", "max_session_bytes: 3200")
        eventually(lambda: dropped(server) == 4, lambda: str(dropped(server)))
        with three(port, "away") as peer:
            assert sized(21, 25) + sized(28, 31) == [one.payload for one in taken(peer, 7)]
            assert [] == finished(peer)


def dropped(server: servers.Server) -> int:
    found: int = report(server, "varz")["leafd"]["mqtt"]["dropped_messages"]
    return found


def test_no_more_bytes_wait_for_sessions_than_the_block_says() -> None:
    """Of an account, each message once, whoever waits for it. What is more is refused, until some was acknowledged;
    what no session waits for is not."""
    text = CONFIGURATION.replace("mqtt {", "mqtt { max_queued_bytes: 5000,")
    with servers.running(servers.LEAFD, text) as server:
        port = server.ports["mqtt_port"]
        for name in ("one", "two"):
            with three(port, name) as peer:
                peer.subscribe(("q/#", 1))
                leave(peer)
        with five(port, "pub", clean=True, expiry=0) as peer:
            reasons = []
            for topic in ("q/1", "q/1", "q/1", "q/1", "q/1", "q/1", "p/1"):
                peer.publish(topic, bytes(1000), qos=1)
                reasons.append(peer.expect(PUBACK).reason)
            assert [0, 0, 0, 0, 0x97, 0x10] == reasons[1:]
            with three(port, "old") as old:
                old.publish("q/1", bytes(1000), qos=1)
                old.ended()
            for name in ("one", "two"):
                with three(port, name) as late:
                    assert 5 == len(taken(late, 5))
                    late.round_trip()
                    leave(late)

            def room() -> bool:
                peer.publish("q/1", b"x", qos=1)
                return peer.expect(PUBACK).reason == 0

            eventually(room)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_is_not_acknowledged_in_time_is_sent_again(kind: str) -> None:
    """To a client of 3.1.1, with DUP."""
    with servers.running(kind, CONFIGURATION.replace("mqtt {", "mqtt { ack_wait: 1s,")) as server:
        port = server.ports["mqtt_port"]
        with three(port, "slow") as peer:
            peer.subscribe(("slow", 1))
            published(port, "slow", [b"x"])
            first, second = peer.expect(PUBLISH), peer.expect(PUBLISH)
            assert (first.id, b"x", False, True) == (second.id, second.payload, first.dup, second.dup)
            peer.send(mqtt.acknowledge(PUBACK, second.id))
            peer.round_trip()
