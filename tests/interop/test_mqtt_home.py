"""A home as Home Assistant and its devices use a broker: discovery and states are retained, availability is a retained
will, the hub's birth makes devices speak anew; and the broker is started again in between. 3.1.1 and 5; nats-server,
too, where it grants what is asked for.

Not here: each of these alone (mqtt_walks.py, test_mqtt_sessions.py).
"""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests import mqtt, servers
from tests.mqtt import PUBACK, PUBLISH, SUBACK, Peer, Will
from tests.rig.waiting import eventually

CONFIGURATION: Final = """
port: {port}
server_name: one
jetstream { store_dir: '{store}' }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
"""
LAMPS: Final = 20
DESCRIPTIONS: Final = 600
KINDS: Final = [(servers.LEAFD, 4), (servers.LEAFD, 5), (servers.REFERENCE, 4)]


class Home:
    """Who is at the broker: a hub, and lamps."""

    def __init__(self, port: int, level: int) -> None:
        self.port, self.level = port, level

    def lamp(self, number: int) -> Peer:
        """A lamp that has told everybody that it is there, and what it is."""
        will = Will(f"lamp/{number}/available", b"offline", 1, retain=True)
        peer = Peer(self.port, level=self.level, client=f"lamp{number}", will=will)
        peer.subscribe((f"lamp/{number}/set", 1), ("homeassistant/status", 1))
        for topic, payload in (
            (f"homeassistant/light/{number}/config", b'{"~": "lamp/%d"}' % number),
            (f"lamp/{number}/available", b"online"),
            (f"lamp/{number}/state", b"off"),
        ):
            self.say(peer, topic, payload)
        return peer

    def hub(self) -> Peer:
        """The hub, which has not said yet that it is there."""
        will = Will("homeassistant/status", b"offline", 1, retain=False)
        return Peer(self.port, level=self.level, client="hub", will=will)

    def say(self, peer: Peer, topic: str, payload: bytes, *, retain: bool = True) -> None:
        """Publishes with QoS 1; what else comes meanwhile is acknowledged."""
        id = peer.publish(topic, payload, qos=1, retain=retain)
        while (one := peer.packet()).kind != PUBACK or one.id != id:
            self.acknowledge(peer, one)

    def acknowledge(self, peer: Peer, one: mqtt.Packet) -> None:
        if one.kind == PUBLISH and one.qos:
            peer.send(mqtt.acknowledge(PUBACK, one.id))

    def known(self) -> dict[str, bytes]:
        """What a hub that has just been started finds out, by topic."""
        found: dict[str, bytes] = {}
        with self.hub() as hub:
            filters = ("homeassistant/+/+/config", 1), ("lamp/+/available", 1), ("lamp/+/state", 1)
            hub.send(mqtt.subscribe(hub.next_id(), *filters, level=self.level))
            for one in (hub.packet(), *hub.round_trip(), *hub.round_trip()):
                self.acknowledge(hub, one)
                if one.kind != SUBACK:
                    found[one.topic] = one.payload
            hub.send(mqtt.disconnect(self.level))
            hub.ended()
        return found


def state(lamps: dict[int, bytes]) -> dict[str, bytes]:
    """What a hub has to know of lamps, with their availability."""
    found = {}
    for number, available in lamps.items():
        found[f"homeassistant/light/{number}/config"] = b'{"~": "lamp/%d"}' % number
        found[f"lamp/{number}/available"] = available
        found[f"lamp/{number}/state"] = b"off"
    return found


@pytest.mark.parametrize(("kind", "level"), KINDS)
def test_a_home_is_whole_again_after_its_broker_was_restarted(kind: str, level: int) -> None:
    """A hub that comes finds each lamp, one that breaks off is not available, the hub's birth reaches each lamp, and a
    command its own. What was retained outlives a kill of the broker."""
    with servers.running(kind, CONFIGURATION) as server:
        home = Home(server.ports["mqtt_port"], level)
        lamps = [home.lamp(number) for number in range(LAMPS)]
        everything = dict.fromkeys(range(LAMPS), b"online")
        eventually(lambda: home.known() == state(everything))
        lamps[0].socket.close()
        eventually(lambda: home.known() == state(everything | {0: b"offline"}))
        with home.hub() as hub:
            home.say(hub, "homeassistant/status", b"online", retain=False)
            home.say(hub, "lamp/7/set", b"on", retain=False)
            for number, lamp in enumerate(lamps[1:], 1):
                births = [lamp.expect(PUBLISH) for _ in range(1 + (number == 7))]
                # (By two subscriptions, whose order nats-server does not keep.)
                assert [*([b"on"] if number == 7 else []), b"online"] == sorted(one.payload for one in births)
                for one in births:
                    home.acknowledge(lamp, one)
                lamp.round_trip()
        server.kill()
        for lamp in lamps[1:]:
            lamp.ended()
            lamp.socket.close()
        server.start()
        eventually(lambda: home.known() == state(everything | {0: b"offline"}))
        with home.lamp(0):
            eventually(lambda: home.known() == state(everything))
        eventually(lambda: home.known() == state(everything | {0: b"offline"}))


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_hundreds_of_descriptions_are_there_for_a_hub_that_asks_again(level: int) -> None:
    """A hub asks for all its topics in one packet of 500 filters, and for more in another one, as Home Assistant does.
    It gets each description once, also when its broker was killed and it asks again."""
    topics = [f"homeassistant/sensor/{number}/config" for number in range(DESCRIPTIONS)]
    payload = b'{"name": "x", "state_topic": "y"}' + b" " * 1_200
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        home = Home(server.ports["mqtt_port"], level)
        with Peer(home.port, level=level, client="bridge") as bridge:
            for topic in topics:
                home.say(bridge, topic, payload)
        for again in (False, True):
            if again:
                server.kill()
                server.start()
            with home.hub() as hub:
                for first in range(0, DESCRIPTIONS, 500):
                    hub.send(
                        mqtt.subscribe(hub.next_id(), *((one, 1) for one in topics[first : first + 500]), level=level)
                    )
                found: list[str] = []
                while len(found) < DESCRIPTIONS:
                    one = hub.packet()
                    home.acknowledge(hub, one)
                    if one.kind == SUBACK:
                        assert {1} == set(one.reasons)
                    else:
                        assert (PUBLISH, True, payload) == (one.kind, one.retain, one.payload)
                        found.append(one.topic)
                assert sorted(topics) == sorted(found)
                assert [] == hub.round_trip()


@pytest.mark.parametrize("level", mqtt.LEVELS)
@pytest.mark.parametrize("back", [True, False])
def test_a_small_device_with_a_session_outlives_its_broker(level: int, back: bool) -> None:
    """As Tasmota and ESPHome are set up with a session: a will that is retained, and a short keep alive. Its broker is
    killed. If it comes back it has its command, and its will is not said; if not, it is."""
    found = {"session_expiry": 600} if level == 5 else {}
    will = Will("tele/plug/LWT", b"Offline", 1, retain=True)
    login: dict[str, Any] = {"client": "plug", "clean": False, "found": found, "will": will, "keep_alive": 2}
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        home = Home(server.ports["mqtt_port"], level)
        with Peer(home.port, level=level, **login) as plug:
            plug.subscribe(("cmnd/plug/#", 1))
            home.say(plug, "tele/plug/LWT", b"Online")
            server.kill()
            server.start()
        with Peer(home.port, level=level, client="watcher") as watcher:
            watcher.subscribe(("tele/plug/LWT", 1))
            assert b"Online" == watcher.expect(PUBLISH).payload
            home.say(watcher, "cmnd/plug/POWER", b"ON", retain=False)
            if not back:
                one = watcher.expect(PUBLISH)
                assert (b"Offline", False) == (one.payload, one.retain)
                return
            with Peer(home.port, level=level, **login) as plug:
                assert plug.welcome.session_present
                one = plug.expect(PUBLISH)
                assert ("cmnd/plug/POWER", b"ON") == (one.topic, one.payload)
                home.acknowledge(plug, one)
                end = time.monotonic() + 8
                while time.monotonic() < end:  # longer than a will waits behind a start
                    time.sleep(0.5)
                    assert [] == plug.round_trip()
                assert [] == watcher.round_trip()
            one = watcher.expect(PUBLISH)  # it broke off
            assert b"Offline" == one.payload
