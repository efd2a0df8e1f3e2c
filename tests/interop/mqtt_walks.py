"""What a client of MQTT 3.1.1 can do to a server, as walks whose outcomes two servers have to share: each is a function
of a running server and returns what was seen, as plain values.

    WALKS["retained"](server) -> [...]

Not here: who is asked and what is compared (test_mqtt.py), what only 5 has (test_mqtt_five.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests import mqtt, servers
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet, Peer, Will
from tests.rig.raw import RawClient

CONFIGURATION: Final = """
port: {port}
server_name: one
jetstream { store_dir: '{store}' }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
accounts {
  A { jetstream: true, users: [
    {user: a, password: a}
    {user: devices, password: d, allowed_connection_types: [MQTT]}
    {user: nats, password: n, allowed_connection_types: [STANDARD]}
    {user: limited, password: l, permissions: {
      publish: { allow: ["up.>", "$MQTT.>"], deny: ["up.secret"] }
      subscribe: { allow: ["down.>", "$MQTT.>"], deny: ["down.secret"] } } }
  ] }
  B { jetstream: true, users: [ {user: b, password: b} ] }
}
no_auth_user: a
"""
TOPICS: Final = ["a", "a/b", "/a", "a/", "/", "a//b", "//", "a/b/c/d", "a.b", "a.", ".a", "a/.b", "$a/b", "ä/ö", "a*b",
                 "a>b", "_", "a\\b", "a,b", "A/B", "0" * 200]  # fmt: skip
NO_TOPICS: Final = ["a/+", "a/#", "a b", "", "a\tb", "a\x00b"]
SUBJECTS: Final = ["a", "a.b", "/.a", "a./", "/./", "a./.b", "a//b", "$a.b", "ä.ö", "a/b", "//"]
FILTERS: Final = {
    "+": ["a", "/a", "a/b"],
    "#": ["a", "a/b", "/", "$a/b"],
    "a/#": ["a", "a/b", "a/b/c", "b"],
    "a/+": ["a", "a/b", "a/", "a/b/c"],
    "+/b": ["a/b", "/b", "b"],
    "/+": ["/a", "a", "/"],
    "/#": ["/", "/a", "a"],
    "+/+": ["/", "a/b", "/a", "a"],
    "+/#": ["/", "a/b", "/a", "a"],
    "a/+/b": ["a//b", "a/c/b", "a/b"],
    "a//b": ["a//b", "a/b"],
    "$a/#": ["$a/b", "a/b"],
    "$a/+": ["$a/b", "a/b"],
    "a.b": ["a.b", "a/b"],
}


class Nats(RawClient):
    """A NATS client that keeps the patience of the tests of MQTT."""

    def __init__(self, server: servers.Server, **connect: Any) -> None:
        super().__init__(server, patience_s=mqtt.PATIENCE_S, says=connect)

    def request(self, subject: str, **body: Any) -> dict[str, Any]:
        """Of the JetStream API."""
        return self.ask(subject, body or b"")

    def round_trip(self) -> list[str]:
        """As a device's, which has the same name."""
        return self.lines()


def port(server: servers.Server) -> int:
    return server.ports["mqtt_port"]


def client(server: servers.Server, name: str = "", **login: Any) -> Peer:
    """One that is logged in."""
    return Peer(port(server), client=name, **login)


def seen(packet: Packet | None) -> tuple[Any, ...] | None:
    """What of a packet has to be the same; not its identifier."""
    if packet is None:
        return None
    if packet.kind == PUBLISH:
        return ("PUBLISH", packet.topic, packet.payload, packet.qos, packet.retain, packet.dup)
    return (packet.kind, *packet.reasons, packet.session_present)


def all_seen(packets: Iterable[Packet]) -> list[tuple[Any, ...] | None]:
    return [seen(one) for one in packets]


def _published(nats: Nats, mark: bytes) -> tuple[str, str, bytes]:
    """The message with that payload, past what the server itself says in the account."""
    while True:
        subject, reply, header, payload, _ = nats.message()
        if payload == mark:
            return subject, reply, header


def topics(server: servers.Server) -> list[Any]:
    """What a NATS client sees of what an MQTT client publishes to each topic."""
    with Nats(server) as nats:
        nats.subscribe(">")
        found: list[Any] = []
        for topic in TOPICS:
            with client(server) as peer:
                peer.publish(topic, b"wanted")
                try:
                    peer.round_trip()
                except mqtt.Ended:
                    found.append((topic, "ended"))
                    continue
                found.append((topic, *_published(nats, b"wanted")))
        return found


def no_topics(server: servers.Server) -> list[Any]:
    """Topics that nobody may publish to: the connection ends."""
    found: list[Any] = []
    for topic in NO_TOPICS:
        with client(server) as peer:
            peer.publish(topic, b"x")
            found.append((topic, seen(peer.ended())))
    return found


def subjects(server: servers.Server) -> list[Any]:
    """What an MQTT client sees of what a NATS client publishes."""
    with Nats(server) as nats, client(server, "s") as peer:
        peer.subscribe("#", "$a/#")
        found = []
        for subject in SUBJECTS:
            nats.publish(subject, b"x", b"NATS/1.0\r\nA: b\r\n\r\n" if "a" in subject else b"", reply="r.s")
            nats.round_trip()
            found.append((subject, all_seen(peer.round_trip())))
        return found


def filters(server: servers.Server) -> list[Any]:
    """Which topics each filter takes."""
    found: list[Any] = []
    for text, wanted in FILTERS.items():
        with client(server) as peer, client(server) as other:
            granted = peer.subscribe(text)
            for topic in wanted:
                other.publish(topic, b"x")
                other.round_trip()
            found.append((text, granted, [one.topic for one in peer.round_trip()]))
    return found


def logins(server: servers.Server) -> list[Any]:
    """Who is let in, and what the others are told."""
    found: list[Any] = []
    for login in (
        {"user": "a", "password": "a"},
        {"user": "a", "password": "b"},
        {"user": "a"},
        {"user": "nobody", "password": "a"},
        {"user": "devices", "password": "d"},
        {"user": "nats", "password": "n"},
        {},
        {"user": "a", "password": b"\xff\xfe"},
        {"client": "", "clean": True},
        {"client": "", "clean": False},
        {"client": "x" * 1000},
        {"level": 3},
        {"level": 6},
    ):
        with Peer(port(server), begin=False) as peer:
            peer.send(mqtt.connect(**{"client": "c", **login}))  # type: ignore[arg-type]
            try:
                answer = peer.packet()
            except mqtt.Ended:
                found.append((str(login), "ended"))
                continue
            found.append((str(login), seen(answer)))
            if answer.reason:
                found.append(seen(peer.ended()))
    return found


def no_protocol(server: servers.Server) -> list[Any]:
    """What ends a connection without a word: before the login, and after it."""
    found: list[Any] = []
    for raw in (
        mqtt.packet(mqtt.PINGREQ, b""),
        mqtt.publish("a", b"x"),
        mqtt.subscribe(1, ("a", 0)),
        b"GET / HTTP/1.0\r\n\r\n",
        b'CONNECT {"verbose":false}\r\nPING\r\n',
        b"\x10\xff\xff\xff\xff\x7f",
        mqtt.packet(mqtt.CONNECT, mqtt.data("MQTT")),
    ):
        with Peer(port(server), begin=False) as peer:
            peer.send(raw)
            found.append(seen(peer.ended()))
    for raw in (
        mqtt.connect(client="c"),
        b"\x00\x00",
        b"\xf0\x00",
        mqtt.packet(mqtt.CONNACK, b"\x00\x00"),
        mqtt.packet(mqtt.PINGRESP, b""),
        mqtt.packet(mqtt.SUBSCRIBE, b"\x00\x01" + mqtt.data("a") + b"\x00"),
        mqtt.packet(mqtt.SUBSCRIBE, b"\x00\x01", 2),
        mqtt.packet(mqtt.UNSUBSCRIBE, b"\x00\x01", 2),
        mqtt.subscribe(1, ("a", 3)),
        mqtt.publish("a", b"", qos=3, id=1),
        mqtt.publish("a", b"", qos=1, id=0),
        mqtt.packet(mqtt.PUBREL, b"\x00\x01", 0),
    ):
        with client(server) as peer:
            peer.send(raw)
            found.append(seen(peer.ended()))
    return found


def permissions(server: servers.Server) -> list[Any]:
    """Topics that a user may not use."""
    found: list[Any] = []
    with Nats(server) as nats, client(server, "l", user="limited", password="l") as peer:
        nats.subscribe("up.>")
        nats.subscribe("other")
        for topic in ("up/a", "up/secret", "other", "up/b"):
            peer.publish(topic, topic.encode())
        found.append(all_seen(peer.round_trip()))
        found += [nats.message()[0], nats.message()[0]]
        found += [peer.subscribe(text) for text in ("down/a", "down/secret", "other", "#", "down/+")]
        for subject in ("down.a", "down.secret", "other", "down.b", "down"):
            nats.publish(subject, subject.encode())
        nats.round_trip()
        found.append(sorted({one.topic for one in peer.round_trip()}))
    return found


def accounts(server: servers.Server) -> list[Any]:
    """Who is in another account hears nothing."""
    with client(server, "s") as peer, client(server, "o", user="b", password="b") as other:
        peer.subscribe("#")
        other.subscribe("#")
        peer.publish("here", b"1")
        other.publish("there", b"2")
        return [[one.topic for one in peer.round_trip()], [one.topic for one in other.round_trip()]]


def own_messages(server: servers.Server) -> list[Any]:
    """A client hears what it publishes, once for each subscription at most, in order."""
    with client(server, "s") as peer:
        peer.subscribe("a/b")
        for number in range(20):
            peer.publish("a/b", str(number).encode())
        return all_seen(peer.round_trip())


def sizes(server: servers.Server) -> list[Any]:
    """Messages of many sizes, both ways and at once."""
    with Nats(server) as nats, client(server, "s") as peer:
        nats.subscribe("up")
        peer.subscribe("down")
        found = []
        for size in (0, 1, 125, 126, 127, 128, 16_383, 16_384, 100_000, 1_000_000):
            payload = random.Random(size).randbytes(size)
            peer.publish("up", payload)
            found.append(payload == nats.message()[3])
            nats.publish("down", payload)
            found.append(payload == peer.expect(PUBLISH).payload)
        return found


def keep_alive(server: servers.Server) -> list[Any]:
    """Who says nothing for one and a half times the keep alive is gone, and who pings stays."""
    with client(server, "quiet", keep_alive=1) as quiet, client(server, "alive", keep_alive=1) as alive:
        deadline = time.monotonic() + mqtt.PATIENCE_S
        quiet.socket.settimeout(0.2)
        found: list[Any] = []
        while time.monotonic() < deadline and not found:
            alive.round_trip()
            try:
                quiet.packet()
            except TimeoutError:
                continue
            except mqtt.Ended:
                found.append("gone")
        alive.round_trip()
        return found


def taken_over(server: servers.Server) -> list[Any]:
    """The same identifier again: the older connection ends."""
    with client(server, "same") as first:
        first.round_trip()
        with client(server, "same") as second:
            found = [seen(first.ended())]
            second.subscribe("a")
            second.publish("a", b"x")
            return [*found, *all_seen(second.round_trip())]


def wills(server: servers.Server) -> list[Any]:
    """Said when a connection breaks, and not after DISCONNECT."""
    with client(server, "s") as peer:
        peer.subscribe("will/#")
        found: list[Any] = []
        for orderly in (True, False):
            with client(server, "w", will=Will(f"will/{orderly}", b"gone")) as dying:
                if orderly:
                    dying.send(mqtt.disconnect())
                    dying.ended()
        found.append(seen(peer.expect(PUBLISH)))
        found.append(all_seen(peer.round_trip()))
        return found


def quality_one(server: servers.Server) -> list[Any]:
    """QoS 1: acknowledged, and handed on with the lower of both qualities."""
    with client(server, "s1") as one, client(server, "s0") as none, client(server, "p") as peer:
        found: list[Any] = [one.subscribe(("q", 1)), none.subscribe(("q", 0))]
        for qos in (0, 1):
            number = peer.publish("q", str(qos).encode(), qos=qos)
            if qos:
                acknowledged = peer.expect(PUBACK)
                found.append(acknowledged.id == number)
        for _ in range(2):
            message = one.expect(PUBLISH)
            found.append(seen(message))
            if message.qos:
                one.send(mqtt.acknowledge(PUBACK, message.id))
            found.append(seen(none.expect(PUBLISH)))
        return [*found, all_seen(one.round_trip()), all_seen(none.round_trip())]


def quality_two(server: servers.Server) -> list[Any]:
    """QoS 2: four packets, and one message though PUBLISH comes twice."""
    with client(server, "s2") as two, client(server, "p") as peer:
        found: list[Any] = [two.subscribe(("q", 2))]
        number = peer.publish("q", b"2", qos=2)
        found.append(seen(peer.expect(PUBREC)))
        peer.send(mqtt.publish("q", b"2", qos=2, id=number, dup=True))
        found.append(seen(peer.expect(PUBREC)))
        peer.send(mqtt.acknowledge(PUBREL, number))
        found.append(seen(peer.expect(PUBCOMP)))
        message = two.expect(PUBLISH)
        found.append(seen(message))
        two.send(mqtt.acknowledge(PUBREC, message.id))
        found.append(seen(two.expect(PUBREL)))
        two.send(mqtt.acknowledge(PUBCOMP, message.id))
        return [*found, all_seen(two.round_trip())]


def retained(server: servers.Server) -> list[Any]:
    """The last retained message of a topic comes with a subscription, and is gone with an empty one."""
    found: list[Any] = []
    with client(server) as peer:
        for topic, payload in (("kept/a", b"1"), ("kept/b", b"2"), ("kept/a", b"3"), ("kept/c", b"4"), ("kept/c", b"")):
            peer.publish(topic, payload, retain=True, qos=1)
            peer.expect(PUBACK)
    for text in ("kept/#", "kept/a", "kept/+", "kept/c", "#"):
        with client(server) as peer:
            peer.send(mqtt.subscribe(1, (text, 0)))
            found.append((text, _after_suback(peer)))
    with client(server) as peer, client(server) as other:
        peer.subscribe("kept/d")
        other.publish("kept/d", b"5", retain=True)
        found.append(seen(peer.expect(PUBLISH)))
        for topic in "abcd":
            other.publish(f"kept/{topic}", b"", retain=True, qos=1)
            other.expect(PUBACK)
    with client(server) as peer:
        peer.send(mqtt.subscribe(1, ("kept/#", 0)))
        found.append(_after_suback(peer))
    return found


def _after_suback(peer: Peer) -> list[Any]:
    """SUBACK, and what is behind it, in the order of topics."""
    deadline = time.monotonic() + 1
    packets: list[Packet] = []
    while time.monotonic() < deadline:
        packets += peer.round_trip()
        time.sleep(0.05)
    return sorted(all_seen(packets), key=str)


def stored(server: servers.Server) -> list[Any]:
    """A stream stores what MQTT publishes on its subjects."""
    with Nats(server) as nats, client(server, "p") as peer:
        made = nats.request("$JS.API.STREAM.CREATE.S", name="S", subjects=["store.>"], storage="file")
        peer.publish("store/a", b"0")
        peer.publish("store/b/c", b"1", qos=1)
        peer.expect(PUBACK)
        peer.round_trip()
        deadline = time.monotonic() + mqtt.PATIENCE_S  # nats-server's PUBACK does not wait for the stream
        while (state := nats.request("$JS.API.STREAM.INFO.S")["state"])["messages"] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        last = nats.request("$JS.API.STREAM.MSG.GET.S", last_by_subj="store.b.c").get("message", {})
        nats.request("$JS.API.STREAM.DELETE.S")
        return ["error" in made, state["messages"], last.get("subject"), last.get("data"), last.get("hdrs")]


WALKS: Final[dict[str, Callable[[servers.Server], list[Any]]]] = {
    one.__name__: one
    for one in (
        topics, no_topics, subjects, filters, logins, no_protocol, permissions, accounts, own_messages,
        sizes, keep_alive, taken_over, wills, quality_one, quality_two, retained, stored,
    )
}  # fmt: skip
