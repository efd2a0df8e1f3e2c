"""What already waits for a device when a reload takes its right to hear it: each message is judged when it is sent.

Not here: subscriptions that a reload takes, and what is published behind it (test_mqtt_logins.py).
"""

from __future__ import annotations

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import CONFIGURATION, client
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet, Peer
from tests.rig.reloads import exchanged

RIGHTS, FEWER = 'deny: ["down.secret"]', 'deny: ["down.secret", "down.b"]'


def say(peer: Peer, topic: str, payload: bytes, qos: int) -> None:
    """It is taken."""
    id = peer.publish(topic, payload, qos=qos)
    if qos == 2:
        peer.expect(PUBREC)
        peer.send(mqtt.acknowledge(PUBREL, id))
    peer.expect(PUBCOMP if qos == 2 else PUBACK)


def settle(peer: Peer, messages: list[Packet]) -> None:
    """Acknowledges them, to the end."""
    for one in messages:
        peer.send(mqtt.acknowledge(PUBACK if one.qos == 1 else PUBREC, one.id))
    for one in messages:
        if one.qos == 2:
            peer.send(mqtt.acknowledge(PUBCOMP, one.id))


@pytest.mark.parametrize("level", mqtt.LEVELS)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_waits_for_a_full_window_is_judged_when_it_goes(level: int, qos: int) -> None:
    """A message that waits until the device has acknowledged others does not come. What was sent before is
    acknowledged to its end."""
    configuration = CONFIGURATION.replace("mqtt {", "mqtt { max_ack_pending: 2,", 1)
    with (
        servers.running(servers.LEAFD, configuration) as server,
        client(server, "says") as says,
        client(server, "slow", level=level, user="limited", password="l") as peer,
    ):
        assert [qos, qos] == peer.subscribe(("down/a", qos), ("down/b", qos))
        for topic in ("down/b", "down/b", "down/b", "down/a", "down/b", "down/b", "down/a", "down/b"):
            say(says, topic, b"x", qos)
        begun = [peer.expect(PUBLISH) for _ in range(2)]
        assert [] == peer.round_trip()
        exchanged(server, RIGHTS, FEWER)
        settle(peer, begun)
        rest = [one for one in peer.round_trip() if one.kind == PUBLISH]
        assert ["down/a", "down/a"] == [one.topic for one in rest]
        settle(peer, rest)
        assert [] == [one for one in peer.round_trip() if one.kind == PUBLISH]
        say(says, "down/a", b"last", qos)
        assert b"last" == peer.expect(PUBLISH).payload  # the window has room


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_a_message_of_qos_2_that_may_not_come_again_is_released(level: int) -> None:
    """Its device may have begun to take it, and would take the next message with that identifier for the same one. So
    it is told to forget it, until it says that it has, and does not get it again, also when the right is back."""
    found = {"session_expiry": 600} if level == 5 else {}
    login = {"user": "limited", "password": "l", "level": level, "clean": False, "found": found}
    with servers.running(servers.LEAFD, CONFIGURATION) as server, client(server, "says") as says:
        with client(server, "kept", **login) as peer:
            assert [2] == peer.subscribe(("down/b", 2))
            say(says, "down/b", b"1", 2)
            begun = peer.expect(PUBLISH)
            assert 2 == begun.qos
        exchanged(server, RIGHTS, FEWER)
        for _ in range(2):  # it does not answer
            with client(server, "kept", **login) as peer:
                assert begun.id == peer.expect(PUBREL).id
        with client(server, "kept", **login) as peer:
            assert begun.id == peer.expect(PUBREL).id
            peer.send(mqtt.acknowledge(PUBCOMP, begun.id))
            assert [] == peer.round_trip()
        exchanged(server, FEWER, RIGHTS)
        with client(server, "kept", **login) as peer:
            assert [] == peer.round_trip()
            say(says, "down/b", b"2", 1)
            assert b"2" == peer.expect(PUBLISH).payload
