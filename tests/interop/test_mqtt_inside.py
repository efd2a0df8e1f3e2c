"""What MQTT keeps of messages is on no path to who may not hear them, and nobody writes there: nats-server's tests of
`$MQTT.>` on both servers (server/mqtt_test.go: PermissionsViolation, SubscribeDenyInternalMessageSubject and
SubscribeDenyRetainedAndQoSReplay).

Not here: denials of a user's own subjects, path by path (test_mqtt_denials.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import Nats, client
from tests.mqtt import PUBACK, PUBLISH, Packet, Peer

CONFIGURATION: Final = """
port: {port}
server_name: one
jetstream { store_dir: "{store}" }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
authorization { users: [
  {user: anybody, password: p}
  {user: device, password: p, permissions: {
    publish: {allow: ["foo.bar"]}, subscribe: {allow: ["foo.*"], deny: ["foo.baz"]} } }
  {user: stranger, password: p, permissions: {subscribe: {allow: [">"], deny: ["secret.>"]}}}
] }
"""
REFUSED: Final = 0x80


@pytest.fixture(scope="module", params=servers.KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(request.param, CONFIGURATION) as one:
        yield one


def login(server: servers.Server, user: str, name: str, *, clean: bool = True) -> Peer:
    return client(server, name, user=user, password="p", clean=clean)


def granted(peer: Peer, filter: str, qos: int = 0) -> bool:
    return peer.subscribe((filter, qos)) != [REFUSED]


def heard(peer: Peer) -> list[tuple[str, bytes]]:
    """All that has come, which is acknowledged."""
    found: list[Packet] = [one for one in peer.round_trip() if one.kind == PUBLISH]
    for one in found:
        if one.qos:
            peer.send(mqtt.acknowledge(PUBACK, one.id))
    return [(one.topic, one.payload) for one in found]


def say(peer: Peer, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> None:
    peer.publish(topic, payload, qos=qos, retain=retain)
    if qos:
        peer.expect(PUBACK)


@pytest.mark.parametrize(
    ("filter", "may"),
    [
        ("foo/+", True), ("foo/baz", False), ("foo/*", True), ("foo/*/*", False), ("foo/>", False), ("foo/>/*", False),
        ("$MQTT/msgs/#", False), ("$MQTT/deliver/pubrel/+", False), ("$MQTT/rmsgs/#", False), ("$MQTT/A/#", False),
        ("$JS/#", False), ("#", False),
    ],
)  # fmt: skip
def test_a_device_may_subscribe_to_what_its_permissions_name(server: servers.Server, filter: str, may: bool) -> None:
    """Wildcards of NATS in a filter are judged as what they are, and what the server keeps is nobody's."""
    with login(server, "device", "d") as device:
        assert may == granted(device, filter, 1)


@pytest.mark.parametrize("filter", ["$MQTT/#", "$MQTT/msgs/secret/#", "$MQTT/rmsgs/secret/#", "$MQTT/+/secret/#", "#"])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_is_kept_of_a_message_is_no_way_around_a_denial(server: servers.Server, filter: str, qos: int) -> None:
    """Neither while it is published, with a session that waits for it or without, nor where it was retained."""
    with login(server, "stranger", "s") as stranger, login(server, "anybody", "a") as anybody:
        with login(server, "anybody", "k", clean=False) as keeper:
            assert granted(keeper, "secret/#", 1)
            keeper.send(mqtt.disconnect())
            keeper.ended()
        granted(stranger, filter, qos)
        for number, retain in enumerate((False, True)):
            say(anybody, f"secret/{number}", b"x", retain=retain)
            say(anybody, f"secret/{number}", b"y", qos=0, retain=retain)
        anybody.round_trip()
        assert [] == heard(stranger)
        granted(stranger, filter, qos)
        assert [] == heard(stranger)
        with login(server, "anybody", "k"):  # its session ends
            pass


def test_a_denied_message_waits_for_no_session(server: servers.Server) -> None:
    """Who may hear all but some gets the others when it is back: neither later nor as retained does it hear those."""
    with login(server, "anybody", "a") as anybody:
        with login(server, "stranger", "w", clean=False) as away:
            assert granted(away, "#", 1)
            away.send(mqtt.disconnect())
            away.ended()
        say(anybody, "secret/one", b"denied")
        say(anybody, "open/one", b"allowed")
        say(anybody, "secret/two", b"denied", retain=True)
        say(anybody, "open/two", b"retained", retain=True)
        with login(server, "stranger", "w", clean=False) as back:
            first = [back.expect(PUBLISH) for _ in range(2)]
            assert ["open/one", "open/two"] == [one.topic for one in first]
            for one in first:
                back.send(mqtt.acknowledge(PUBACK, one.id))
            assert [] == heard(back)
        with login(server, "stranger", "n") as new:
            new.send(mqtt.subscribe(new.next_id(), ("#", 0)))
            found = [new.packet(), new.packet()]
            assert [("open/two", b"retained")] == [(one.topic, one.payload) for one in found if one.kind == PUBLISH]
            assert [] == heard(new)
        with login(server, "stranger", "w"):
            pass


def test_nobody_publishes_where_messages_are_kept() -> None:
    """A device that publishes to `$MQTT/msgs/` gives no session a message, and no subscriber of NATS hears of it.
    nats-server 2.15.1 passes it on, and later ones do not."""
    with (
        servers.running(servers.LEAFD, CONFIGURATION) as server,
        Nats(server, user="anybody", **{"pass": "p"}) as nats,
    ):
        nats.subscribe("$MQTT.msgs.>")
        for user in ("device", "anybody"):
            with login(server, user, "i") as device:
                with login(server, "anybody", "k", clean=False) as keeper:
                    assert granted(keeper, "injected", 1)
                    device.publish("$MQTT/msgs/injected", b"internal")
                    device.publish("$MQTT/rmsgs/injected", b"internal")
                    assert [] == heard(keeper)
                with login(server, "anybody", "k") as keeper:
                    assert granted(keeper, "injected", 1)
                    assert [] == heard(keeper)
        assert [] == [line for line in nats.round_trip() if "MSG" in line]
