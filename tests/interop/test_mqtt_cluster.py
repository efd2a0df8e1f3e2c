"""MQTT at three servers of a cluster: what devices publish at one of them comes to sessions and subscriptions of the
others, and what is retained is read at each; leafd and nats-server.

Here nats-server keeps three copies of its streams, and leafd one. Not here: one server's MQTT (test_mqtt.py), links of
leaves (test_mqtt_links.py).
"""

from __future__ import annotations

import base64
import contextlib
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import Nats, client
from tests.interop.test_meta_group import CONFIG, leader_of, three
from tests.mqtt import CONNACK, PUBACK, PUBLISH, SUBACK, Ended, Peer, acknowledge
from tests.rig.waiting import eventually

MQTT = 'server_tags: [ "{name}" ]\nmqtt { listen: "127.0.0.1:{mqtt_port}" }\nno_auth_user: a\n'
STATES = [b"s%d" % number for number in range(3)]


@contextlib.contextmanager
def devices(kind: str, folder: Path) -> Iterator[list[servers.Server]]:
    """Three servers with MQTT; a session is made at the first of them, where leafd keeps it."""
    with three(kind, folder, CONFIG + MQTT) as made:
        for server in made:
            server.start()
        leader_of(made)
        eventually(lambda: has_session(made[0]), "no session is made")
        yield made


def has_session(server: servers.Server) -> bool:
    """The device's, with its filter. A nats-server that has no leader yet ends the connection."""
    with contextlib.suppress(Ended), client(server, "device", clean=False) as device:
        return device.subscribe(("for/device", 1)) == [1]
    return False


def acknowledged(server: servers.Server, topic: str, payload: bytes, *, retain: bool = False) -> bool:
    """Whether the server says that it has a message of QoS 1; else it ends the connection."""
    with contextlib.suppress(Ended), client(server) as device:
        id = device.publish(topic, payload, qos=1, retain=retain)
        return device.expect(PUBACK).id == id
    return False


def brought(server: servers.Server, count: int) -> list[bytes]:
    """What waits for the device, or a message of which it does not."""
    with client(server, "device", clean=False) as device:
        found = []
        for _ in range(count):
            one = device.expect(PUBLISH)
            assert one.qos == 1
            device.send(acknowledge(PUBACK, one.id))
            found.append(one.payload)
        assert device.round_trip() == []
        return found


def has_states(server: servers.Server) -> bool:
    return STATES == retained(server)


def retained(server: servers.Server) -> list[bytes]:
    """What a new subscription gets in a moment; a nats-server may lack what others have just stored."""
    with client(server) as device:
        device.send(mqtt.subscribe(1, ("state/+", 0)))
        device.expect(SUBACK)
        device.socket.settimeout(mqtt.PATIENCE_S if server.kind == servers.LEAFD else 1)
        with contextlib.suppress(TimeoutError):
            return sorted(device.expect(PUBLISH).payload for _ in STATES)
    return []


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_session_gets_what_is_published_at_each_server(kind: str, tmp_path: Path) -> None:
    """Once, also while its client is there and subscribers at other servers get it at once, with its QoS."""
    with devices(kind, tmp_path) as made:
        for server in made:
            eventually(partial(acknowledged, server, "for/device", b"away"))
        found = brought(made[0], 3)

        assert [b"away"] * 3 == found
        with client(made[0], "device", clean=False) as device, client(made[1]) as beside:
            beside.subscribe(("for/+", 1))
            eventually(lambda: interest_is_told(made[2], beside), "no interest")
            assert acknowledged(made[2], "for/device", b"here")

            at_once, kept = beside.expect(PUBLISH), device.expect(PUBLISH)
            assert [(b"here", 1)] * 2 == [(one.payload, one.qos) for one in (at_once, kept)]
            device.send(acknowledge(PUBACK, kept.id))
            assert [] == device.round_trip()


def interest_is_told(server: servers.Server, beside: Peer) -> bool:
    """A message of that server's comes to the subscriber."""
    with client(server) as device:
        device.publish("for/probe", b"probe")
    beside.socket.settimeout(0.3)
    try:
        return beside.expect(PUBLISH).payload == b"probe"
    except TimeoutError:
        return False
    finally:
        beside.socket.settimeout(mqtt.PATIENCE_S)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_is_retained_at_each_server_is_read_at_each(kind: str, tmp_path: Path) -> None:
    """A subscription gets all of it, whichever server keeps it."""
    with devices(kind, tmp_path) as made:
        for number, server in enumerate(made):
            eventually(partial(acknowledged, server, f"state/{number}", STATES[number], retain=True))

        for server in made:
            if kind == servers.LEAFD:
                assert has_states(server)
            else:
                eventually(partial(has_states, server), "it is not read")


def test_a_message_is_acknowledged_only_when_the_server_with_the_session_has_it(tmp_path: Path) -> None:
    """While that one is down a client of 3.1.1 is closed, and one of 5 told; then its message comes to the session."""
    with devices(servers.LEAFD, tmp_path) as made:
        assert acknowledged(made[1], "for/device", b"first")
        made[0].kill()
        eventually(lambda: not acknowledged(made[1], "for/device", b"lost"), "it is still acknowledged")
        with client(made[1], level=5) as five:
            five.publish("for/device", b"lost", qos=1)
            answer = five.expect(PUBACK)

        assert 0x97 == answer.reason
        made[0].start()
        eventually(lambda: acknowledged(made[1], "for/device", b"last"), "it is not acknowledged again")
        found = [one for one in brought_all(made[0]) if one != b"lost"]
        assert [b"first", b"last"] == found


def brought_all(server: servers.Server) -> list[bytes]:
    """All that waits for the device; the last one is "last"."""
    with client(server, "device", clean=False) as device:
        found: list[bytes] = []
        while b"last" not in found:
            one = device.expect(PUBLISH)
            device.send(acknowledge(PUBACK, one.id))
            found.append(one.payload)
        return found


def test_a_message_whose_server_dies_under_it_is_sent_again(tmp_path: Path) -> None:
    """Its publisher is closed, and not left to wait for an answer that nobody can give."""
    with devices(servers.LEAFD, tmp_path) as made, client(made[1]) as device:
        eventually(lambda: acknowledged(made[1], "for/device", b"first"))
        process = made[0].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        device.publish("for/device", b"under way", qos=1)
        made[0].kill()

        assert device.ended_without_a_word()
        made[0].start()
        eventually(lambda: acknowledged(made[1], "for/device", b"last"), "it is not acknowledged again")
        assert [b"first", b"last"] == [one for one in brought_all(made[0]) if one != b"under way"]


def test_a_session_is_served_by_the_server_that_has_it_alone_and_refused_while_that_is_away(tmp_path: Path) -> None:
    """At any server; then a client of 3.1.1 has return code 3, one of 5 is told why, and later it is let in again."""
    with devices(servers.LEAFD, tmp_path) as made:
        assert acknowledged(made[2], "for/device", b"away")
        assert [b"away"] == brought(made[1], 1)
        made[0].kill()
        refusals = []
        for level in mqtt.LEVELS:
            with Peer(made[1].ports["mqtt_port"], level=level, begin=False) as device:
                found = {"session_expiry": 60} if level == 5 else None
                device.send(mqtt.connect(level, "other", clean=False, found=found))
                refusals.append(device.expect(CONNACK).reason)
        assert [3, 0x9C] == refusals
        made[0].start()

        eventually(lambda: is_let_in(made[1]), "it is not let in again")


def is_let_in(server: servers.Server) -> bool:
    """What it acknowledged right before a kill may come again, and is not looked at."""
    with contextlib.suppress(Ended), client(server, "device", clean=False) as device:
        return device.welcome.session_present
    return False


def comes(server: servers.Server, home: servers.Server) -> bool:
    """Whether a message of that server's comes to the session: it hears of a new one within a tenth of a second. Until
    then a client that is there gets it with QoS 0, as one that nobody keeps."""
    assert acknowledged(server, "for/device", b"probe")
    with client(home, "device", clean=False) as device:
        found = [one for one in device.round_trip() if one.qos == 1]
        for one in found:
            device.send(acknowledge(PUBACK, one.id))
        device.round_trip()
        return len(found) == 1


def test_who_listens_to_what_servers_send_each_other_changes_nothing(tmp_path: Path) -> None:
    """A client's interest in the streams' subjects is not taken for a stream, with sessions or without."""
    with three(servers.LEAFD, tmp_path, CONFIG + MQTT) as made, contextlib.ExitStack() as listening:
        for server in made:
            server.start()
        leader_of(made)
        for server in made:
            ear = listening.enter_context(Nats(server, user="a", **{"pass": "a"}))
            for subject in ("$MQTT.msgs.>", "$MQTT.rmsgs.>", ">"):
                ear.subscribe(subject)
            ear.round_trip()
        assert all(acknowledged(server, "for/device", b"before") for server in made)
        eventually(lambda: has_session(made[0]), "no session is made")
        for server in made:
            eventually(partial(comes, server, made[0]), "nothing comes")
        for server in made:
            assert acknowledged(server, "for/device", b"away")
            assert acknowledged(server, "state/0", STATES[0], retain=True)

        assert [b"away"] * 3 == brought(made[0], 3)


def test_what_is_retained_elsewhere_comes_when_its_server_is_back(tmp_path: Path) -> None:
    """A subscription that was made meanwhile goes on to be served, and gets it then."""
    with devices(servers.LEAFD, tmp_path) as made:
        for number, state in enumerate(STATES):
            assert acknowledged(made[1], f"state/{number}", state, retain=True)
        made[0].kill()
        with client(made[2]) as device:
            device.send(mqtt.subscribe(1, ("state/+", 0), ("live", 0)))
            device.expect(SUBACK)
            device.publish("live", b"live")
            assert b"live" == device.expect(PUBLISH).payload
            began = time.monotonic()
            made[0].start()

            assert STATES == sorted(device.expect(PUBLISH).payload for _ in STATES)
            assert time.monotonic() - began < mqtt.PATIENCE_S


def stored(server: servers.Server, name: str) -> list[bytes]:
    """The payloads in a stream of the account's, from the first on, as any server reads them."""
    with Nats(server, user="a", **{"pass": "a"}) as reader:
        state = reader.request(f"$JS.API.STREAM.INFO.{name}").get("state", {})
        found = []
        for seq in range(state.get("first_seq", 1), state.get("last_seq", 0) + 1):
            message = reader.request(f"$JS.API.STREAM.MSG.GET.{name}", seq=seq)["message"]
            found.append(base64.b64decode(message["data"]))
        return found


def make(server: servers.Server, name: str, **more: Any) -> None:
    """A stream on `<name>.>`, asked for at that server."""
    with Nats(server, user="a", **{"pass": "a"}) as maker:
        made = maker.request(f"$JS.API.STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], **more)
        assert "error" not in made, made


def taken(server: servers.Server, topic: str, payload: bytes) -> bool:
    return answered(server, topic, payload) == 0


def answered(server: servers.Server, topic: str, payload: bytes) -> int:
    """The reason in a PUBACK of 5."""
    with client(server, level=5) as five:
        five.publish(topic, payload, qos=1)
        return int(five.expect(PUBACK).reason)


def test_an_acknowledgement_means_that_a_stream_of_another_server_has_it(tmp_path: Path) -> None:
    """One that a server has alone, and one of three servers whose leader is another one: while nobody can store the
    message it is refused."""
    with devices(servers.LEAFD, tmp_path) as made:
        make(made[2], "alone", placement={"tags": ["s2"]})
        make(made[2], "shared", num_replicas=3)
        for number, server in enumerate(made):
            for name in ("alone", "shared"):
                eventually(partial(taken, server, f"{name}/x", b"%d" % number))
        for name in ("alone", "shared"):
            assert {b"0", b"1", b"2"} == set(stored(made[0], name))

        with client(made[1], level=5) as five:
            for number in range(50):
                five.publish("alone/x", b"burst %d" % number, qos=1)
            reasons = [five.expect(PUBACK).reason for _ in range(50)]
            made[2].kill()
            eventually(lambda: answered(made[1], "alone/x", b"lost") == 0x97, "it is still acknowledged")
        assert [0] * 50 == reasons
        eventually(lambda: answered(made[1], "shared/x", b"two left") == 0, "two of three do not go on")
        made[2].start()
        eventually(lambda: answered(made[1], "alone/x", b"last") == 0, "it is not acknowledged again")

        found = stored(made[2], "alone")
        assert [b"burst %d" % number for number in range(50)] == [one for one in found if one.startswith(b"burst")]
        assert b"last" == found[-1]
        assert b"two left" in stored(made[0], "shared")


def test_what_is_retained_and_a_session_outlive_a_server_where_three_have_their_streams(tmp_path: Path) -> None:
    """As an operator may order it, of streams that one server had alone."""
    with devices(servers.LEAFD, tmp_path) as made:
        assert acknowledged(made[1], "state/0", b"before", retain=True)
        with Nats(made[1], user="a", **{"pass": "a"}) as operator:
            for name in ("$MQTT_rmsgs", "$MQTT_msgs"):
                config = operator.request(f"$JS.API.STREAM.INFO.{name}")["config"] | {"num_replicas": 3}
                answer = operator.request(f"$JS.API.STREAM.UPDATE.{name}", **config)
                assert "error" not in answer, answer
                eventually(partial(has_two_copies, made[1], name), "not all have it")

        for number, server in enumerate(made):
            eventually(partial(acknowledged, server, f"state/{number}", STATES[number], retain=True))
        eventually(lambda: [STATES] * 3 == [retained(server) for server in made], "a copy lacks what is agreed on")
        eventually(lambda: acknowledged(made[1], "for/device", b"away"), "it is not acknowledged")
        leader = made[int(led_by(made[1], "$MQTT_msgs")[1:])]
        leader.kill()
        up = [server for server in made if server is not leader]
        eventually(lambda: [b"away"] in [session_of(server) for server in up], "its session is nowhere")
        newer = sorted([STATES[0], b"after", STATES[2]])
        eventually(lambda: retains(up[0], b"after") and newer == retained(up[1]), "two of three do not go on")


def has_two_copies(server: servers.Server, name: str) -> bool:
    return copies(server, name) == 2


def copies(server: servers.Server, name: str) -> int:
    """How many other servers have all of a stream."""
    with Nats(server, user="a", **{"pass": "a"}) as client:
        rows = client.request(f"$JS.API.STREAM.INFO.{name}").get("cluster", {}).get("replicas", [])
        return sum(bool(row.get("current")) for row in rows)


def session_of(server: servers.Server) -> list[bytes]:
    """What waits for the device; nothing, where the server does not serve its session."""
    with contextlib.suppress(AssertionError), client(server, "device", clean=False) as device:
        assert device.welcome.session_present
        return [device.expect(PUBLISH).payload]
    return []


def retains(server: servers.Server, payload: bytes) -> bool:
    """Publishes with QoS 0, since the server with the sessions may be the one that is away."""
    with client(server) as device:
        device.publish("state/1", payload, retain=True)
    return True


def led_by(server: servers.Server, name: str) -> str:
    """The server that leads a stream's group."""
    with Nats(server, user="a", **{"pass": "a"}) as client:
        return str(eventually(lambda: client.request(f"$JS.API.STREAM.INFO.{name}").get("cluster", {}).get("leader")))
