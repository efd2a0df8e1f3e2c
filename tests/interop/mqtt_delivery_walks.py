"""To whom a message goes and how, as walks of clients of MQTT 3.1.1 whose outcomes two servers have to share: filters
given twice, retained messages and wills with permissions, denials of what waits, identifiers, mappings, republishing.
The facts are those that nats-server's own tests of MQTT hold; what a client sees of topics and logins is mqtt_walks.py.

    WALKS["given_twice"](server) -> [...]

Not here: what is compared (test_mqtt_delivery.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from tests import mqtt, servers
from tests.interop.mqtt_walks import Nats, all_seen, client, port, seen
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Peer, Will
from tests.rig.waiting import eventually

CONFIGURATION: Final = """
port: {port}
server_name: one
max_payload: 2048
jetstream { store_dir: '{store}' }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
accounts {
  A { jetstream: true,
    mappings: { "mapped.zero": "to.zero", "mapped.one": "to.one", "js.new": "$JS.API.STREAM.CREATE.FROM_MQTT" }
    users: [
      {user: a, password: a}
      {user: writer, password: p, permissions: {
        publish: ["said.>", "$MQTT.>"], subscribe: ["said.>", "unsaid.>", "$MQTT.>"] } }
      {user: reader, password: p, permissions: { subscribe: { allow: [">"], deny: ["secret.>"] }}}
    ]
    exports: [ {service: "asked"}, {stream: "told.>"} ]
  }
  B { jetstream: true, users: [ {user: b, password: b} ]
    imports: [
      {service: {account: A, subject: "asked"}, to: "ask"}
      {stream: {account: A, subject: "told.>"}, prefix: "from"}
    ] }
}
no_auth_user: a
"""
STILL_S: Final = 0.3
"""So long nothing comes, where nothing shall."""


def quiet(*peers: Peer) -> list[Any]:
    """What else comes, in a while."""
    time.sleep(STILL_S)
    return [all_seen(one.round_trip()) for one in peers]


def acknowledged(peer: Peer, topic: str, payload: bytes, **more: Any) -> None:
    """With QoS 1."""
    peer.publish(topic, payload, qos=1, **more)
    peer.expect(PUBACK)


def given_twice(server: servers.Server) -> list[Any]:
    """A filter given twice is one, with the last QoS; two that overlap are two."""
    with client(server, "s") as peer, client(server, "p") as other:
        found: list[Any] = [peer.subscribe(("foo", 1), ("foo", 0)), peer.subscribe("bar"), peer.subscribe(("bar", 1))]
        for topic in ("foo", "bar"):
            acknowledged(other, topic, b"1")
            found.append(seen(peer.expect(PUBLISH)))
        found += quiet(peer)
        found.append(peer.subscribe("foo/#"))
        other.publish("foo", b"2")
        return [*found, seen(peer.expect(PUBLISH)), seen(peer.expect(PUBLISH)), *quiet(peer)]


def no_filters(server: servers.Server) -> list[Any]:
    """A filter that is no subject is refused alone: the others are granted and the connection goes on."""
    found: list[Any] = []
    for text in ("foo bar", "foo\tbar", "foo\nbar", "foo\rbar", "foo\fbar", "$MQTT/sub/foo"):
        with client(server) as peer:
            peer.send(mqtt.subscribe(1, (text, 0), ("good/topic", 0)))
            found.append((text, peer.expect(SUBACK).reasons))
    return found


def no_topics(server: servers.Server) -> list[Any]:
    """A topic that is no subject ends the connection."""
    found: list[Any] = []
    for topic in ("", "foo/+", "foo/#", "foo\tbar", "foo\nbar", "foo\rbar", "foo\fbar"):
        with client(server) as peer:
            peer.publish(topic, b"msg")
            found.append((topic, seen(peer.ended())))
    return found


def letters(server: servers.Server) -> list[Any]:
    """Upper case is not lower case."""
    with Nats(server) as nats, client(server) as peer:
        peer.subscribe("Foo/Bar")
        for subject in ("Foo.Bar", "foo.bar", "FOO.BAR"):
            nats.publish(subject, subject.encode())
        nats.round_trip()
        for topic in ("Foo/Bar", "foo/bar"):
            peer.publish(topic, topic.encode())
        return all_seen(peer.round_trip())


def retained_flag(server: servers.Server) -> list[Any]:
    """Set for who subscribes later, not for who is subscribed, whatever QoS."""
    found: list[Any] = []
    with client(server, "p") as other, client(server, "s") as peer:
        for qos in (0, 1):
            topic = f"flag/{qos}"
            peer.subscribe((topic, qos))
            acknowledged(other, topic, b"kept", retain=True)
            found += [seen(peer.expect(PUBLISH)), retained_one(server, topic, qos)]
            acknowledged(other, topic, b"", retain=True)
            found.append(seen(peer.expect(PUBLISH)))
    return found


def retained_will(server: servers.Server) -> list[Any]:
    """Retained with the QoS of the will, and sent with the lower of both. (None has a name: nats-server closes the
    connection of one whose last one it still takes to be there.)"""
    found: list[Any] = []
    for will_qos in (0, 1):
        for qos in (0, 1):
            topic = f"will/{will_qos}/{qos}"
            with client(server) as here:
                here.subscribe((topic, qos))
                with client(server, will=Will(topic, b"bye", will_qos, retain=True)):
                    pass
                found.append(seen(here.expect(PUBLISH)))
                found.append(retained_one(server, topic, qos))
                forget(server, topic)
    return found


def forget(server: servers.Server, *topics: str) -> None:
    """Nothing is retained for these any more."""
    with client(server) as peer:
        for topic in topics:
            acknowledged(peer, topic, b"", retain=True)


def retained_one(server: servers.Server, topic: str, qos: int, *, there: bool = True, **login: Any) -> list[Any]:
    """What is retained for that filter. there: it is waited for, and what comes live is not it; else nothing comes, in
    a while."""

    def found() -> list[Any]:
        with client(server, **login) as peer:
            peer.send(mqtt.subscribe(1, (topic, qos)))
            peer.expect(SUBACK)
            time.sleep(STILL_S)
            return all_seen([one for one in peer.round_trip() if one.retain or not there])

    return eventually(found) if there else found()


def will_and_permissions(server: servers.Server) -> list[Any]:
    """A will where its user may not publish is not said and not retained; the login is let in all the same."""
    login: dict[str, Any] = {"user": "writer", "password": "p"}
    found: list[Any] = []
    for topic in ("said/will", "unsaid/will"):
        with client(server, will=Will(topic, b"bye", 1, retain=True), **login):
            pass
        found.append(retained_one(server, topic, 1, there=topic == "said/will", **login))
    forget(server, "said/will", "unsaid/will")
    return found


def denied_replay(server: servers.Server) -> list[Any]:
    """Who may hear everything but `secret.>` gets nothing of that: neither live, nor what waited for his session, nor
    what is retained."""
    login: dict[str, Any] = {"user": "reader", "password": "p"}
    found: list[Any] = []
    with client(server, "p") as other:
        with client(server, "live", **login) as live, client(server, "kept", clean=False, **login) as kept:
            found += [live.subscribe("#"), kept.subscribe(("#", 1))]
            for topic in ("secret/one", "open/one"):
                acknowledged(other, topic, topic.encode())
            found += [seen(live.expect(PUBLISH)), seen(one := kept.expect(PUBLISH))]
            kept.send(mqtt.acknowledge(PUBACK, one.id))
            found += quiet(live, kept)
        for topic in ("secret/two", "open/two"):
            acknowledged(other, topic, topic.encode())
        with client(server, "kept", clean=False, **login) as kept:
            found.append(kept.welcome.session_present)
            one = kept.expect(PUBLISH)
            kept.send(mqtt.acknowledge(PUBACK, one.id))
            found += [seen(one), *quiet(kept)]
        with client(server, "kept", **login):
            pass
        for topic in ("secret/kept", "open/kept"):
            acknowledged(other, topic, topic.encode(), retain=True)
        found.append(retained_one(server, "#", 0, **login))
    forget(server, "secret/kept", "open/kept")
    return found


def own_subjects(server: servers.Server) -> list[Any]:
    """What the server keeps for sessions is heard by no device, whatever it subscribes to."""
    with client(server, "spy") as spy, client(server, "kept", clean=False) as kept, client(server, "p") as other:
        kept.subscribe(("spied", 1))
        for text in ("$MQTT/#", "$MQTT/msgs/#", "$MQTT/+/spied", "#"):
            spy.subscribe(text)
        acknowledged(other, "spied", b"x", retain=True)
        one = kept.expect(PUBLISH)
        kept.send(mqtt.acknowledge(PUBACK, one.id))
        found = [seen(spy.expect(PUBLISH)), *quiet(spy)]
        acknowledged(other, "spied", b"", retain=True)
    with client(server, "kept"):
        return found


def identifiers(server: servers.Server) -> list[Any]:
    """One that is free again is not the next one that is used."""
    with client(server, "s") as peer, client(server, "p") as other:
        peer.subscribe(("numbered", 1))
        used = []
        for number in range(5):
            acknowledged(other, "numbered", str(number).encode())
            one = peer.expect(PUBLISH)
            peer.send(mqtt.acknowledge(PUBACK, one.id))
            peer.round_trip()
            used.append(one.id)
        return [len(set(used))]


def unsubscribed_in_flight(server: servers.Server) -> list[Any]:
    """What was released goes on to its end; nothing new comes."""
    with client(server, "s") as peer, client(server, "p") as other:
        peer.subscribe(("ends", 2))
        id = other.publish("ends", b"1", qos=2)
        other.expect(PUBREC)
        other.send(mqtt.acknowledge(PUBREL, id))
        other.expect(PUBCOMP)
        one = peer.expect(PUBLISH)
        peer.send(mqtt.acknowledge(PUBREC, one.id))
        found: list[Any] = [peer.expect(PUBREL).id == one.id]
        peer.unsubscribe("ends")
        peer.send(mqtt.acknowledge(PUBCOMP, one.id))
        acknowledged(other, "ends", b"2")
        return [*found, *quiet(peer)]


def mappings(server: servers.Server) -> list[Any]:
    """A mapped topic is the other one for all: who hears it, and what is retained."""
    found: list[Any] = []
    for name, qos in (("zero", 0), ("one", 1)):
        with Nats(server) as nats, client(server, "s") as peer:
            peer.subscribe((f"to/{name}", qos))
            nats.publish(f"mapped.{name}", b"by nats")
            nats.round_trip()
            found.append(seen(peer.expect(PUBLISH)))
            with client(server, "p") as other:
                other.publish(f"mapped/{name}", b"zero")
                found.append(seen(peer.expect(PUBLISH)))
                for retain in (False, True):
                    acknowledged(other, f"mapped/{name}", b"one", retain=retain)
                    found.append(seen(peer.expect(PUBLISH)))
        found += [retained_one(server, f"{to}/{name}", 1, there=to == "to") for to in ("to", "mapped")]
        forget(server, f"mapped/{name}")
    return found


def other_accounts(server: servers.Server) -> list[Any]:
    """A service and a stream of another account, by devices of both; what is retained stays where it is."""
    login: dict[str, Any] = {"user": "b", "password": "b"}
    with client(server, "a") as a, client(server, "b", **login) as b:
        a.subscribe("asked")
        b.subscribe("ask", "from/told/#")
        b.publish("ask", b"service")
        found: list[Any] = [seen(a.expect(PUBLISH)), seen(b.expect(PUBLISH))]
        a.publish("told/x", b"stream")
        found.append(seen(b.expect(PUBLISH)))
        a.publish("told/y", b"retained", retain=True)
        found += [seen(b.expect(PUBLISH)), *quiet(a, b)]
        found.append(retained_one(server, "told/y", 0))
        found.append(retained_one(server, "from/told/y", 0, there=False, **login))
    forget(server, "told/y")
    return found


def same_name(server: servers.Server) -> list[Any]:
    """A name is a name of its account: nobody there ends another account's client, or gets its session."""
    login: dict[str, Any] = {"user": "b", "password": "b", "clean": False}
    with client(server, "meter", clean=False) as mine:
        mine.subscribe(("named/#", 1))
        with client(server, "meter", **login) as theirs:
            found: list[Any] = [seen(theirs.welcome), *quiet(mine, theirs)]
        mine.send(mqtt.disconnect())
        mine.ended()
    with client(server, "p") as other:
        acknowledged(other, "named/x", b"mine")
    with client(server, "meter", **login) as theirs:
        found += [seen(theirs.welcome), *quiet(theirs)]
    with client(server, "meter", clean=False) as mine:
        one = mine.expect(PUBLISH)
        mine.send(mqtt.acknowledge(PUBACK, one.id))
        found += [seen(mine.welcome), seen(one), *quiet(mine)]
    for ends in ({}, {"user": "b", "password": "b"}):
        with client(server, "meter", **ends):
            pass
    return found


def republished(server: servers.Server) -> list[Any]:
    """A stream's republishing reaches devices once."""
    with Nats(server) as nats, client(server, "s") as peer:
        made = nats.request(
            "$JS.API.STREAM.CREATE.AGAIN", name="AGAIN", subjects=["first"], republish={"src": "first", "dest": "again"}
        )
        peer.subscribe("again", "first")
        nats.publish("first", b"x")
        nats.round_trip()
        found = [seen(one) for one in sorted((peer.expect(PUBLISH) for _ in range(2)), key=lambda one: one.topic)]
        found += quiet(peer)
        nats.request("$JS.API.STREAM.DELETE.AGAIN")
        return ["error" in made, *found]


def by_interest(server: servers.Server) -> list[Any]:
    """A stream that keeps what is wanted: its consumer and a device both get what NATS and MQTT publish there."""
    with Nats(server) as nats, Nats(server) as hears, client(server, "s") as peer, client(server, "p") as other:
        nats.request("$JS.API.STREAM.CREATE.WANTED", name="WANTED", subjects=["wanted.>"], retention="interest")
        hears.subscribe("delivered")
        nats.request(
            "$JS.API.CONSUMER.CREATE.WANTED",
            stream_name="WANTED",
            config={"deliver_subject": "delivered", "ack_policy": "explicit"},
        )
        peer.subscribe(("wanted/x", 1))
        nats.publish("wanted.x", b"nats")
        nats.round_trip()
        found = [seen(peer.expect(PUBLISH)), hears.message()[3]]
        other.publish("wanted/x", b"zero")
        found += [seen(peer.expect(PUBLISH)), hears.message()[3]]
        acknowledged(other, "wanted/x", b"one")
        found += [seen(peer.expect(PUBLISH)), hears.message()[3]]
        nats.request("$JS.API.STREAM.DELETE.WANTED")
        return found


def dollars(server: servers.Server) -> list[Any]:
    """What begins with `$` is for who names it; a wildcard of NATS is a letter in a filter."""
    with Nats(server) as nats, client(server, "s") as peer, client(server, "p") as other:
        found: list[Any] = [peer.subscribe("#", "+/x")]
        nats.publish("$own.x", b"nats")
        nats.round_trip()
        other.publish("$own/x", b"zero")
        acknowledged(other, "$own/x", b"one")
        found += quiet(peer)
        with client(server, "named") as named:
            found.append(named.subscribe("$own/x"))
            other.publish("$own/x", b"two")
            found.append(seen(named.expect(PUBLISH)))
        return found


def large(server: servers.Server) -> list[Any]:
    """A payload above max_payload ends the connection."""
    with client(server, "s") as peer, client(server, "p") as other:
        peer.subscribe("#")
        other.publish("t" * 100, b"x" * 1900)
        one = peer.expect(PUBLISH)
        found: list[Any] = [len(one.topic), len(one.payload)]
        other.publish("t", b"x" * 2049)
        return [*found, seen(other.ended()), *quiet(peer)]


def by_halves(server: servers.Server) -> list[Any]:
    """Packets that come byte by byte are whole ones."""
    with client(server, "s") as peer, Peer(port(server), begin=False) as slow:
        peer.subscribe("slow/#")
        raw = mqtt.connect(client="slow") + mqtt.publish("slow/a", b"payload", qos=1, id=7)
        for place in range(len(raw)):
            slow.send(raw[place : place + 1])
            time.sleep(0.002)
        return [seen(slow.packet()), seen(slow.packet()), seen(peer.expect(PUBLISH))]


def api_by_mapping(server: servers.Server) -> list[Any]:
    """A topic that is mapped to the JetStream API asks it, with whatever QoS."""
    with Nats(server) as nats, client(server, "p") as other:
        body = b'{"name":"FROM_MQTT","subjects":["from.mqtt"]}'
        acknowledged(other, "js/new", body)
        eventually(lambda: nats.request("$JS.API.STREAM.NAMES")["total"] and "FROM_MQTT" in names_of(nats))
        nats.request("$JS.API.STREAM.DELETE.FROM_MQTT")
        return ["FROM_MQTT" in names_of(nats)]


def names_of(nats: Nats) -> list[str]:
    return list(nats.request("$JS.API.STREAM.NAMES")["streams"] or [])


WALKS: Final[dict[str, Callable[[servers.Server], list[Any]]]] = {
    one.__name__: one
    for one in (
        given_twice, no_filters, no_topics, letters, retained_flag, retained_will, will_and_permissions, denied_replay,
        own_subjects, identifiers, unsubscribed_in_flight, mappings, other_accounts, same_name, republished,
        by_interest, dollars, large, by_halves, api_by_mapping,
    )
}  # fmt: skip
