"""What MQTT 5 adds, by the standard ("MQTT Version 5.0", cited as 5: section): nats-server does not speak it. How
properties and headers become each other is leafd's own, as mqtt-design.md has it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import CONFIGURATION, Nats, client
from tests.mqtt import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Peer, Will
from tests.rig.reloads import exchanged
from tests.rig.waiting import eventually

NO_LOCAL, AS_PUBLISHED = 0x04, 0x08
NOT_AUTHORIZED, BAD_TOPIC, TAKEN_OVER, NO_SUBSCRIPTION, NO_SUBSCRIBERS = 0x87, 0x90, 0x8E, 0x11, 0x10


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as one:
        yield one


def five(server: servers.Server, name: str = "", **login: object) -> Peer:
    return client(server, name, level=5, **login)


def test_reasons_that_the_standard_leaves_open(server: servers.Server) -> None:
    """Who publishes is told that nobody is subscribed, as long as that is so (5: 3.4.2.1); a denied filter is not
    authorized (5: 3.9.3); whoever sends more than he may is told so before he is closed (5: 3.3.4)."""
    with five(server, "open", user="limited", password="l") as peer, Nats(server) as nats:
        nats.subscribe("up.two")
        for qos, topic, reason in ((1, "up/nobody", NO_SUBSCRIBERS), (2, "up/nobody", 0), (1, "up/two", 0)):
            peer.publish(topic, b"x", qos=qos)
            assert reason == peer.expect((PUBACK, PUBREC)[qos - 1]).reason
        assert [NOT_AUTHORIZED] == peer.subscribe("other")
    with five(server, "open") as peer:
        most = peer.welcome.properties["receive_maximum"]
        peer.send(b"".join(mqtt.publish("q", level=5, qos=2, id=one + 1) for one in range(most + 1)))
        end = peer.ended()
        assert (DISCONNECT, 0x93) == ((end.kind, end.reason) if end is not None else None)


# ---- properties and headers


def test_a_nats_client_sees_properties_as_headers(server: servers.Server) -> None:
    """Content type, expiry, format, correlation data and user properties; the response topic is the reply."""
    with Nats(server) as nats, five(server) as peer:
        nats.subscribe("up")
        found = {
            "payload_format": 1, "message_expiry": 60, "content_type": "text/plain", "response_topic": "answers/1",
            "correlation_data": b"\x0f\xa0", "user": [("unit", "C"), ("unit", "F"), ("two words", "a\nb")],
        }  # fmt: skip
        peer.publish("up", b"21", found=found)
        subject, reply, header, payload, _ = nats.message()
        assert ("up", "answers.1", b"21") == (subject, reply, payload)
        assert sorted(header.decode().split("\r\n")[1:-2]) == sorted(
            [
                "Nmqtt-Pub:0", "Nmqtt-Format:1", "Nmqtt-Expiry:60", "Content-Type:text/plain", "Nmqtt-Correlation:0fa0",
                "unit:C", "unit:F", "Nmqtt-Property:74776f20776f726473:610a62",
            ]
        )  # fmt: skip


def test_no_property_of_a_device_is_an_order_for_a_stream(server: servers.Server) -> None:
    """A user property that has the name of one of JetStream's own headers reaches devices as it was sent, and no stream
    drops, replaces or times out a message because of it: neither the user's, nor those that the server keeps itself."""
    orders = [
        ("Nats-Msg-Id", "same"), ("Nats-Rollup", "all"), ("Nats-TTL", "1s"), ("Nats-Expected-Last-Sequence", "99"),
        ("Nats-Expected-Stream", "other"), ("Nats-Schedule", "@every 1s"), ("Nats-Trace-Dest", "traced"),
    ]  # fmt: skip
    with Nats(server) as nats, five(server) as peer, five(server, "h", found={"session_expiry": 60}) as hears:
        nats.request(
            "$JS.API.STREAM.CREATE.ORDERED", name="ORDERED", subjects=["ordered.>"], storage="file",
            allow_rollup_hdrs=True, allow_msg_ttl=True, allow_msg_schedules=True,
        )  # fmt: skip
        hears.subscribe(("ordered/#", 1))
        for number in range(4):
            peer.publish(f"ordered/{number}", b"x", qos=1, retain=True, found={"user": orders})
            assert peer.expect(PUBACK).reason < 0x80
            message = hears.expect(PUBLISH)
            assert (f"ordered/{number}", orders) == (message.topic, message.properties["user"])
            hears.send(mqtt.acknowledge(PUBACK, message.id))
        assert 4 == nats.request("$JS.API.STREAM.INFO.ORDERED")["state"]["messages"]
        with five(server) as late:
            assert 4 == len({one.topic for one in heard_of(late, ("ordered/#", 0), count=4)})
        for number in range(4):
            peer.publish(f"ordered/{number}", b"", qos=1, retain=True)
            peer.expect(PUBACK)
        nats.request("$JS.API.STREAM.DELETE.ORDERED")


def test_a_device_sees_headers_as_properties(server: servers.Server) -> None:
    """The same fields the other way round: a reply is the response topic, any other header a user property."""
    with Nats(server) as nats, five(server) as peer:
        peer.subscribe("down")
        header = b"NATS/1.0\r\nContent-Type: text/plain\r\nNmqtt-Correlation: 0fa0\r\nNmqtt-Format:1\r\nunit: C\r\n\r\n"
        nats.publish("down", b"21", header, reply="answers.1")
        message = peer.expect(PUBLISH)
        assert ("down", b"21", 0) == (message.topic, message.payload, message.qos)
        assert message.properties == {
            "content_type": "text/plain",
            "correlation_data": b"\x0f\xa0",
            "payload_format": 1,
            "response_topic": "answers/1",
            "user": [("unit", "C")],
        }


def test_properties_reach_another_device_as_they_were_sent(server: servers.Server) -> None:
    """All of a message's, in the order of user properties; one of 3.1.1 gets the payload alone (5: 3.3.2.3)."""
    found = {
        "payload_format": 1, "content_type": "a/b; c=ü", "response_topic": "r/ä", "correlation_data": bytes(range(256)),
        "user": [("b", "2"), ("a", "1"), ("b", "2"), ("", ""), ("Nmqtt-Pub", "2"), ("x:y", " z ")],
    }  # fmt: skip
    with five(server) as peer, five(server) as other, client(server) as old:
        other.subscribe("p/q")
        old.subscribe("p/q")
        peer.publish("p/q", b"\xff\x00", found=found)
        assert found == other.expect(PUBLISH).properties
        assert b"\xff\x00" == old.expect(PUBLISH).payload


def test_a_request_of_a_device_is_answered_by_a_nats_service(server: servers.Server) -> None:
    """The reply that the service publishes to comes at the response topic, and its correlation data with it."""
    with Nats(server) as service, five(server) as peer:
        service.subscribe("service.time")
        peer.subscribe("answers/#")
        peer.publish("service/time", b"?", found={"response_topic": "answers/7", "correlation_data": b"seven"})
        _, reply, header, _, _ = service.message()
        service.publish(reply, b"12:00", header)
        answer = peer.expect(PUBLISH)
        assert ("answers/7", b"12:00", b"seven") == (
            answer.topic,
            answer.payload,
            answer.properties["correlation_data"],
        )


# ---- subscriptions


def test_a_client_can_ask_not_to_hear_itself(server: servers.Server) -> None:
    """No local (5: 3.8.3.1): its own message goes to others alone."""
    with five(server) as peer, five(server) as other:
        peer.subscribe(("n", NO_LOCAL))
        other.subscribe("n")
        peer.publish("n", b"mine")
        assert b"mine" == other.expect(PUBLISH).payload
        other.publish("n", b"theirs")
        other.round_trip()
        assert [b"theirs"] == [one.payload for one in peer.round_trip()]


def test_a_message_has_the_identifiers_of_the_subscriptions_that_it_came_by(server: servers.Server) -> None:
    """5: 3.3.2.3.8. One that has none is not named."""
    with five(server) as peer, five(server) as other:
        peer.subscribe("i/+", found={"subscription_id": 1})
        peer.subscribe("i/#", found={"subscription_id": 268_435_455})
        peer.subscribe("j/#")
        other.publish("i/a", b"x")
        other.publish("j/a", b"y")
        other.round_trip()
        heard = peer.round_trip()
        numbers = sorted(id for one in heard if one.topic == "i/a" for id in one.properties["subscription_id"])
        assert [1, 268_435_455] == numbers
        assert [{}] == [one.properties for one in heard if one.topic == "j/a"]


def test_a_shared_subscription_gets_each_message_once(server: servers.Server) -> None:
    """$share/GROUP/FILTER is a queue group: MQTT clients of both versions and NATS clients are its members."""
    with five(server) as one, client(server) as two, five(server) as all_, Nats(server) as nats, five(server) as peer:
        one.subscribe("$share/g/s/#")
        two.subscribe("$share/g/s/#")
        all_.subscribe("s/#")
        for number in range(200):
            peer.publish(f"s/{number}", b"x")
        peer.round_trip()
        heard = [[packet.topic for packet in each.round_trip()] for each in (one, two)]
        assert sorted(f"s/{number}" for number in range(200)) == sorted(heard[0] + heard[1])
        assert all(heard)
        assert 200 == len(all_.round_trip())
        assert nats.round_trip() == []


def test_unsubscribe_says_whether_there_was_a_subscription(server: servers.Server) -> None:
    """5: 3.11.3."""
    with five(server) as peer:
        peer.subscribe("a")
        assert [0, NO_SUBSCRIPTION] == peer.unsubscribe("a", "never")


def test_each_filter_has_its_own_answer(server: servers.Server) -> None:
    """Granted with its QoS, not authorized, malformed (5: 3.9.3); those that are granted hold."""
    with Nats(server) as nats, five(server, user="limited", password="l") as peer:
        assert [0, NOT_AUTHORIZED, 0x8F, 1, 2] == peer.subscribe(
            "down/a", "down/secret", "down/#/x", ("down/b", 1), ("down/c", 2)
        )
        nats.publish("down.b", b"x")
        nats.round_trip()
        assert ["down/b"] == [one.topic for one in peer.round_trip()]


# ---- publishing


def test_a_message_that_may_not_be_published_is_answered_so(server: servers.Server) -> None:
    """PUBACK and PUBREC say 0x87 (5: 3.4.2.1), and the connection goes on."""
    with five(server, user="limited", password="l") as peer:
        for qos, kind in ((1, PUBACK), (2, PUBREC)):
            number = peer.publish("up/secret", b"x", qos=qos)
            answer = peer.expect(kind)
            assert (number, NOT_AUTHORIZED) == (answer.id, answer.reason)
        peer.publish("up/a", b"x", qos=1)
        assert peer.expect(PUBACK).reason < 0x80


def test_a_topic_can_be_called_by_its_alias(server: servers.Server) -> None:
    """Within what CONNACK grants (5: 3.3.2.3.4); an alias beyond that, or never set, ends the connection."""
    with five(server) as peer:
        most = peer.welcome.properties.get("topic_alias_maximum", 0)
        assert most > 0
        peer.subscribe("t/#")
        peer.publish("t/1", b"1", found={"topic_alias": most})
        peer.publish("", b"2", found={"topic_alias": most})
        peer.publish("t/2", b"3", found={"topic_alias": most})
        peer.publish("", b"4", found={"topic_alias": most})
        assert [("t/1", b"1"), ("t/1", b"2"), ("t/2", b"3"), ("t/2", b"4")] == [
            (one.topic, one.payload) for one in peer.round_trip()
        ]
    for alias in (0, most + 1, most):
        with five(server) as peer:
            peer.publish("", b"x", found={"topic_alias": alias})
            end = peer.ended()
            assert end is not None
            assert (DISCONNECT, True) == (end.kind, end.reason in (0x82, 0x94)), end


def test_a_server_uses_no_more_aliases_than_the_client_takes(server: servers.Server) -> None:
    """5: 3.1.2.11.5: with none it uses none; with two the topics of all messages can still be told."""
    for most in (0, 2):
        with five(server, found={"topic_alias_maximum": most} if most else None) as peer, five(server) as other:
            peer.subscribe("t/#")
            for number in (1, 2, 3, 1, 2, 3, 1):
                other.publish(f"t/{number}", str(number).encode())
            other.round_trip()
            known: dict[int, str] = {}
            for one in peer.round_trip():
                alias = one.properties.get("topic_alias", 0)
                assert 0 <= alias <= most
                if alias and one.topic:
                    known[alias] = one.topic
                assert f"t/{one.payload.decode()}" == (one.topic or known[alias])


def test_quality_two_is_four_packets_and_unknown_identifiers_are_named(server: servers.Server) -> None:
    """PUBREL of an identifier that is not there: PUBCOMP with 0x92 (5: 3.7.2.1)."""
    with five(server) as peer:
        peer.send(mqtt.acknowledge(PUBREL, 77))
        answer = peer.expect(PUBCOMP)
        assert (77, 0x92) == (answer.id, answer.reason)
        number = peer.publish("nobody/hears/this", b"x", qos=2)
        answer = peer.expect(PUBREC)
        assert (number, True) == (answer.id, answer.reason in (0x00, 0x10))


def test_no_more_messages_are_in_flight_than_the_client_takes(server: servers.Server) -> None:
    """Receive maximum (5: 3.3.4): the next comes when one is acknowledged, all of them in order."""
    with five(server, found={"receive_maximum": 3}) as peer, five(server) as other:
        peer.subscribe(("f", 1))
        for number in range(10):
            other.publish("f", str(number).encode(), qos=1)
            other.expect(PUBACK)
        waiting = [one for one in peer.round_trip() if one.kind == PUBLISH]
        assert [b"0", b"1", b"2"] == [one.payload for one in waiting]
        heard = []
        while waiting:
            one = waiting.pop(0)
            heard.append(one.payload)
            peer.send(mqtt.acknowledge(PUBACK, one.id))
            waiting += [more for more in peer.round_trip() if more.kind == PUBLISH]
            assert len(waiting) <= 3
        assert [str(number).encode() for number in range(10)] == heard


def test_a_release_that_is_said_again_in_its_session_is_no_fault(server: servers.Server) -> None:
    """Who lost the connection before PUBCOMP says PUBREL again when it is back, and hears 0 (5: 3.7.2.1)."""
    for clean, reason in ((True, 0x92), (False, 0), (False, 0)):
        with five(server, "again", clean=clean, found={"session_expiry": 60}) as peer:
            peer.send(mqtt.acknowledge(PUBREL, 78))
            assert (78, reason) == ((answer := peer.expect(PUBCOMP)).id, answer.reason)


def test_a_message_that_the_client_does_not_take_is_not_sent(server: servers.Server) -> None:
    """Maximum packet size (5: 3.1.2.11.4): it is as if it were not subscribed, and the rest comes."""
    with five(server, found={"maximum_packet": 100}) as peer, five(server) as other:
        peer.subscribe("m")
        for size in (10, 1_000, 20):
            other.publish("m", bytes(size))
        other.round_trip()
        assert [10, 20] == [len(one.payload) for one in peer.round_trip()]


def test_a_packet_that_is_larger_than_granted_ends_the_connection(server: servers.Server) -> None:
    """CONNACK says how large one may be (5: 3.2.2.3.6), and DISCONNECT that it was larger (0x95)."""
    with five(server) as peer:
        most = peer.welcome.properties["maximum_packet"]
        peer.send(mqtt.packet(PUBLISH, b"")[:1] + mqtt.number(most + 1))
        end = peer.ended()
        assert end is not None
        assert (DISCONNECT, 0x95) == (end.kind, end.reason)


def test_the_block_says_how_large_a_packet_may_be() -> None:
    """max_packet_size, for topic, properties and payload together; 3.1.1 is closed without a word."""
    text = CONFIGURATION.replace('mqtt_port}"', 'mqtt_port}", max_packet_size: 1000')
    with servers.running(servers.LEAFD, text) as one, five(one) as peer, client(one) as old:
        assert 1000 == peer.welcome.properties["maximum_packet"]
        peer.subscribe("m")
        old.publish("m", bytes(900))
        assert 900 == len(peer.expect(PUBLISH).payload)
        old.publish("m", bytes(1000))
        assert old.ended() is None


def test_more_that_waits_for_its_acknowledgement_than_granted_ends_it(server: servers.Server) -> None:
    """QoS 2 whose PUBREL never comes (5: 3.3.4): as many as CONNACK grants, and DISCONNECT 0x93 for the next."""
    with five(server) as peer:
        most = peer.welcome.properties["receive_maximum"]
        for _ in range(most):
            peer.publish("nobody/hears", b"x", qos=2)
        assert [0x80 > peer.expect(PUBREC).reason for _ in range(most)] == [True] * most
        peer.publish("nobody/hears", b"x", qos=2)
        end = peer.ended()
        assert (DISCONNECT, 0x93) == ((end.kind, end.reason) if end is not None else None)


# ---- connections


def test_a_name_is_assigned_to_who_has_none(server: servers.Server) -> None:
    """And told in CONNACK (5: 3.2.2.3.7): another one each time, which can be taken over like any other."""
    with five(server) as one, five(server) as two:
        names = [each.welcome.properties["assigned_client"] for each in (one, two)]
        assert len(set(names)) == 2
        with five(server, names[0]) as other:
            end = one.ended()
            assert end is not None
            assert (DISCONNECT, TAKEN_OVER) == (end.kind, end.reason)
            assert "assigned_client" not in other.welcome.properties


@pytest.mark.parametrize(
    ("reason", "longer", "said"),
    [(0, 0, False), (4, 0, True), (None, 0, True), (0x80, 0, True), (0x93, 0, True), (0, 60, True)],
)
def test_a_will_is_said_unless_its_client_takes_leave(
    server: servers.Server, reason: int | None, longer: int, said: bool
) -> None:
    """DISCONNECT 0 alone drops it (5: 3.1.2.5, 3.14.4). One that wants a session where CONNECT wanted none is no valid
    DISCONNECT (3.14.2.2.2). mosquitto drops it for all reasons but 4."""
    will = Will("will/w", b"gone", properties={"content_type": "text/plain", "user": [("a", "b")]})
    with five(server) as peer:
        peer.subscribe("will/#")
        with five(server, will=will) as dying:
            if reason is not None:
                dying.send(mqtt.disconnect(5, reason, {"session_expiry": longer} if longer else None))
                dying.ended()
        if said:
            message = peer.expect(PUBLISH)
            assert ("will/w", b"gone", will.properties) == (message.topic, message.payload, message.properties)
        assert [] == peer.round_trip()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (mqtt.connect(5, "again"), 0x82),
        (mqtt.publish("a/+", b"", level=5), BAD_TOPIC),
        (mqtt.publish("a", b"", level=5, qos=3, id=1), 0x81),
        (mqtt.subscribe(1, level=5), 0x82),
        (mqtt.subscribe(1, ("a", 0), level=5, found={"subscription_id": 0}), 0x82),
        (mqtt.packet(mqtt.AUTH, b"\x18\x00"), 0x8C),
        (mqtt.packet(mqtt.CONNACK, b"\x00\x00\x00"), 0x82),
        (mqtt.packet(DISCONNECT, b"\x00\x05\x11\xff\xff\xff\xff"), 0x82),
    ],
)
def test_what_breaks_the_protocol_is_told_before_the_end(server: servers.Server, raw: bytes, reason: int) -> None:
    """By a DISCONNECT with its reason (5: 4.13); some faults have more than one name."""
    with five(server) as peer:
        peer.send(raw)
        end = peer.ended()
        assert end is not None
        assert (DISCONNECT, True) == (end.kind, end.reason >= 0x80), end
        assert end.reason in (reason, 0x81, 0x82)


def test_enhanced_authentication_is_refused_with_its_code(server: servers.Server) -> None:
    """CONNACK 0x8c (5: 4.12): nobody is let in by a method that nobody checks."""
    with five(server, begin=False) as peer:
        peer.send(mqtt.connect(5, "c", found={"auth_method": "SCRAM-SHA-1", "auth_data": b"n,,n=a"}))
        assert 0x8C == peer.expect(mqtt.CONNACK).reason
        assert peer.ended() is None


@pytest.mark.parametrize(
    ("login", "reason"), [({"user": "a", "password": "b"}, 0x87), ({"user": "nats", "password": "n"}, 0x87)]
)
def test_a_wrong_login_is_told_in_5_too(server: servers.Server, login: dict[str, str], reason: int) -> None:
    """CONNACK 0x87, and the end."""
    with five(server, begin=False) as peer:
        peer.send(mqtt.connect(5, "c", user=login["user"], password=login["password"]))
        assert reason == peer.expect(mqtt.CONNACK).reason
        assert peer.ended() is None


def test_suback_comes_before_what_it_lets_in(server: servers.Server) -> None:
    """A client that subscribes and publishes at once hears its message, behind SUBACK."""
    with five(server) as peer:
        peer.send(mqtt.subscribe(1, ("at/once", 0), level=5) + mqtt.publish("at/once", b"x", level=5))
        assert [SUBACK, PUBLISH] == [peer.packet().kind, peer.packet().kind]


def test_packets_may_come_in_pieces_and_in_heaps(server: servers.Server) -> None:
    """Byte by byte, and a thousand at once: each is one packet."""
    whole = b"".join(mqtt.publish("p", str(number).encode(), level=5, qos=1, id=number + 1) for number in range(1_000))
    with five(server) as peer:
        for byte in whole[:300]:
            peer.send(bytes([byte]))
        peer.send(whole[300:])
        assert [number + 1 for number in range(1_000)] == [peer.expect(PUBACK).id for _ in range(1_000)]


def test_the_server_may_shorten_the_keep_alive() -> None:
    """max_keep_alive, in CONNACK (5: 3.2.2.3.14), for who wants more or none at all; who wants less has that."""
    text = CONFIGURATION.replace('mqtt_port}"', 'mqtt_port}", max_keep_alive: 100s')
    with servers.running(servers.LEAFD, text) as one:
        for asked, told in ((0, 100), (101, 100), (100, None), (5, None)):
            with five(one, keep_alive=asked) as peer:
                assert told == peer.welcome.properties.get("server_keep_alive")


def test_where_no_session_can_be_kept_that_is_said() -> None:
    """In an account without JetStream: CONNACK says so to MQTT 5 (0 seconds), and refuses 3.1.1 (3), so that nobody
    finds out by losing one."""
    text = CONFIGURATION.replace("A { jetstream: true", "A { jetstream: false")
    with servers.running(servers.LEAFD, text) as one:
        with five(one, "c", found={"session_expiry": 3600}) as peer:
            assert 0 == peer.welcome.properties["session_expiry"]
        with client(one, begin=False) as old:
            old.send(mqtt.connect(4, "c", clean=False))
            assert 3 == old.expect(mqtt.CONNACK).reason
            assert old.ended() is None


# ---- retained messages


@pytest.fixture
def kept(server: servers.Server) -> Iterator[list[str]]:
    """Topics that have retained messages, until the test is over."""
    topics = ["kept/1", "kept/2", "kept/deep/3"]
    with five(server) as peer:
        for topic in topics:
            peer.publish(topic, topic.encode(), retain=True, qos=1, found={"user": [("topic", topic)]})
            assert peer.expect(PUBACK).reason < 0x80
        yield topics
        for topic in topics:
            peer.publish(topic, b"", retain=True, qos=1)
            peer.expect(PUBACK)


def heard_of(peer: Peer, *filters: tuple[str, int], count: int) -> list[mqtt.Packet]:
    """What comes after a subscription: so many, and nothing else."""
    peer.send(mqtt.subscribe(peer.next_id(), *filters, level=5))
    found = [one for one in (peer.packet() for _ in range(count + 1)) if one.kind == PUBLISH]
    assert [] == peer.round_trip()
    return sorted(found, key=lambda one: one.topic)


def test_retained_messages_come_with_their_properties(server: servers.Server, kept: list[str]) -> None:
    """Each once for a filter, with RETAIN set."""
    with five(server) as peer:
        found = heard_of(peer, ("kept/#", 0), count=3)
        assert kept == [one.topic for one in found]
        for one in found:
            assert (one.topic.encode(), True) == (one.payload, one.retain)
            assert [("topic", one.topic)] == one.properties["user"]


def test_a_subscription_says_whether_it_wants_retained_messages(server: servers.Server, kept: list[str]) -> None:
    """Retain handling (5: 3.8.3.1): 0 each time, 1 when the subscription is new, 2 never."""
    with five(server) as peer:
        assert 1 == len(heard_of(peer, (kept[0], 0x00), count=1))
        assert 1 == len(heard_of(peer, (kept[0], 0x00), count=1))
        assert [] == heard_of(peer, (kept[0], 0x10), count=0)
        assert 1 == len(heard_of(peer, (kept[1], 0x10), count=1))
        assert [] == heard_of(peer, (kept[2], 0x20), count=0)
        assert [] == heard_of(peer, ("$share/g/kept/#", 0x00), count=0)


def test_retain_stays_set_for_who_asks_for_it(server: servers.Server) -> None:
    """Retain as published (5: 3.8.3.1); else a message that is passed on has it not."""
    with five(server) as plain, five(server) as asking, five(server) as peer:
        plain.subscribe("r/a")
        asking.subscribe(("r/a", AS_PUBLISHED))
        peer.publish("r/a", b"x", retain=True)
        assert [False, True] == [each.expect(PUBLISH).retain for each in (plain, asking)]
        peer.publish("r/a", b"", retain=True)
        peer.round_trip()


def test_a_retained_message_expires(server: servers.Server) -> None:
    """Message expiry (5: 3.3.2.3.3): it is told with the seconds that are left, and is gone afterwards."""
    with five(server) as peer:
        peer.publish("r/none", b"x", retain=True, found={"message_expiry": 0})
        peer.publish("r/short", b"x", retain=True, qos=1, found={"message_expiry": 1})
        peer.publish("r/long", b"x", retain=True, qos=1, found={"message_expiry": 100})
        assert [PUBACK, PUBACK] == [peer.packet().kind, peer.packet().kind]

        def left() -> bool:
            with five(server) as other:
                other.send(mqtt.subscribe(1, ("r/+", 0), level=5))
                packets = [other.packet()]
                while packets[-1].topic != "r/long":
                    packets.append(other.packet())
                assert 0 < packets[-1].properties["message_expiry"] <= 100
                time.sleep(0.2)
                return bool({"r/none", "r/short"} & {one.topic for one in packets + other.round_trip()})

        eventually(lambda: not left())
        peer.publish("r/long", b"", retain=True, qos=1)
        peer.expect(PUBACK)


def test_an_account_keeps_no_more_retained_messages_than_the_block_says() -> None:
    """max_retained and max_retained_bytes: the next topic is refused with 0x97, those that are there can change."""
    for limit, more, fewer in (
        ("max_retained: 3", "max_retained: 4", "max_retained: 2"),
        ("max_retained_bytes: 3500", "max_retained_bytes: 4500", "max_retained_bytes: 2500"),
    ):
        text = CONFIGURATION.replace('mqtt_port}"', f'mqtt_port}}", {limit}')
        with servers.running(servers.LEAFD, text) as one:
            with five(one) as peer:
                reasons = [retained(peer, number) for number in (0, 1, 2, 0, 3, 4)]
                assert [0x97, 0x97] == reasons[-2:], limit
                assert max(reasons[:3]) < 0x80
                exchanged(one, limit, more)  # the stream that is there follows
                assert [True, False] == [retained(peer, number) < 0x80 for number in (3, 4)], more
            one.stop()
            one.configuration = one.configuration.replace(limit, fewer)
            one.start()
            with five(one) as peer:
                assert 0x97 == retained(peer, 5)
                assert len(heard_of(peer, ("k/#", 0), count=4)) == 4  # nothing that is there goes
                peer.unsubscribe("k/#")
                exchanged(one, fewer, "")
                assert retained(peer, 5) < 0x80


def retained(peer: Peer, number: int) -> int:
    """The answer to a message that is to be retained."""
    peer.publish(f"k/{number}", bytes(900), retain=True, qos=1)
    return peer.expect(PUBACK).reason


def test_retained_messages_are_there_after_a_kill() -> None:
    """What PUBACK acknowledged was on disk."""
    with servers.running(servers.LEAFD, CONFIGURATION) as one:
        with five(one) as peer:
            for number in range(100):
                peer.publish(f"kept/{number}", str(number).encode(), retain=True, qos=1)
            assert [PUBACK] * 100 == [peer.packet().kind for _ in range(100)]
        one.kill()
        one.start()
        with five(one) as peer:
            found = heard_of(peer, ("kept/#", 0), count=100)
            assert {f"kept/{number}" for number in range(100)} == {packet.topic for packet in found}


def test_a_retained_message_keeps_its_properties(server: servers.Server) -> None:
    """Its response topic too, though no stream keeps a reply."""
    found = {
        "content_type": "text/plain",
        "response_topic": "answers/1",
        "correlation_data": b"1",
        "user": [("a", "b")],
    }
    with five(server) as peer, five(server) as other:
        peer.publish("kept/whole", b"x", qos=1, retain=True, found=found)
        peer.expect(PUBACK)
        other.send(mqtt.subscribe(1, ("kept/whole", 1), level=5))
        other.expect(SUBACK)
        assert found == other.expect(PUBLISH).properties
        peer.publish("kept/whole", b"", qos=1, retain=True)
        peer.expect(PUBACK)
