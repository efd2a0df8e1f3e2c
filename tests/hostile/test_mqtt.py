"""Hostile MQTT: packets of random content before and after the login, and floods of what a device can make the server
remember. A device that keeps to the protocol is served all the while.

Not here: the reader of packets alone (tests/fuzz), what is refused one by one (tests/interop).
"""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Iterator

import pytest

from tests import mqtt, servers
from tests.mqtt import PUBLISH, Peer, Will
from tests.rig.reports import report
from tests.rig.waiting import eventually

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: one
memory_limit: 64MB
jetstream { store_dir: '{store}', max_file_store: 64MB }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
"""
ROUNDS = 600
NUMBERS = (0, 1, 127, 128, 16_383, 16_384, 65_535, 2_097_151, 2_097_152, 268_435_455)


@pytest.fixture
def server() -> Iterator[servers.Server]:
    with servers.running(servers.LEAFD, CONFIGURATION) as one:
        yield one


def port(server: servers.Server) -> int:
    return server.ports["mqtt_port"]


class Draw:
    """Packets of which some are right, some nearly, some not at all."""

    def __init__(self, seed: int, level: int) -> None:
        self.random, self.level = random.Random(seed), level

    def text(self) -> str:
        parts = (
            "a",
            "b/c",
            "+",
            "#",
            "/",
            "",
            "$share/g/a",
            "$SYS/x",
            "$MQTT/x",
            "$JS/API/INFO",
            "ä",
            "\x00",
            "*",
            ">",
            "x" * 300,
        )
        return "/".join(self.random.choices(parts, k=self.random.choice((1, 1, 2, 5))))

    def properties(self) -> mqtt.Properties:
        if self.random.random() < 0.5:
            return {}
        number = self.random.choice(NUMBERS)
        every: mqtt.Properties = {
            "payload_format": number & 255, "message_expiry": number, "content_type": self.text(),
            "response_topic": self.text(), "correlation_data": bytes(number & 511), "subscription_id": [number],
            "session_expiry": number, "receive_maximum": number & 65_535, "topic_alias_maximum": number & 65_535,
            "topic_alias": number & 65_535, "user": [(self.text(), self.text())] * self.random.choice((1, 3)),
            "maximum_packet": number, "will_delay": number, "request_problem": number & 255,
        }  # fmt: skip
        return {name: every[name] for name in self.random.sample(sorted(every), self.random.choice((1, 1, 2, 4)))}

    def packet(self) -> bytes:
        number, qos, level = self.random.choice((0, 1, 2, 65_535)), self.random.choice((0, 0, 1, 2, 3)), self.level
        match self.random.randrange(9):
            case 0:
                will = Will(self.text(), b"w", qos, True, self.properties()) if self.random.random() < 0.5 else None
                return mqtt.connect(level, self.text(), user=self.text(), will=will, found=self.properties())
            case 1 | 2:
                payload = bytes(self.random.choice((0, 1, 5_000)))
                found = self.properties()
                return mqtt.publish(
                    self.text(), payload, level=level, qos=qos, id=number, dup=bool(qos & 1), found=found
                )
            case 3:
                rows = [(self.text(), self.random.randrange(256)) for _ in range(self.random.choice((0, 1, 3)))]
                return mqtt.subscribe(number, *rows, level=level, found=self.properties())
            case 4:
                return mqtt.unsubscribe(number, *(self.text() for _ in range(2)), level=level)
            case 5:
                return mqtt.acknowledge(
                    self.random.choice((4, 5, 6, 7)), number, self.random.choice((0, 0x10, 0x80, 255))
                )
            case 6:
                return mqtt.disconnect(level, self.random.randrange(256), self.properties())
            case 7:
                return mqtt.packet(
                    self.random.randrange(16), self.random.randbytes(self.random.randrange(40)), number & 15
                )
            case _:
                return mqtt.packet(mqtt.PINGREQ, b"")

    def bytes(self) -> bytes:
        """Some packets, of which one may be cut, changed or longer than it says."""
        raw = bytearray(b"".join(self.packet() for _ in range(self.random.choice((1, 2, 6)))))
        match self.random.randrange(6):
            case 0:
                del raw[self.random.randrange(len(raw)) :]
            case 1:
                for _ in range(3):
                    raw[self.random.randrange(len(raw))] = self.random.randrange(256)
            case 2:
                place = self.random.randrange(len(raw))
                raw[place:place] = self.random.randbytes(self.random.randrange(1, 9))
            case 3:
                raw[1:2] = mqtt.number(self.random.choice(NUMBERS))
        return bytes(raw)


@pytest.mark.parametrize("level", mqtt.LEVELS)
@pytest.mark.parametrize("inside", [False, True], ids=["before the login", "after it"])
def test_random_packets_cost_their_connection_alone(server: servers.Server, level: int, inside: bool) -> None:
    """Each is answered or ends its connection, nothing is unexpected, and a device is served all the while."""
    draw = Draw(seed := secrets.randbelow(1 << 32), level)
    with Peer(port(server), client="witness", keep_alive=0) as witness:
        witness.subscribe("witness/+")
        for number in range(ROUNDS):
            with contextlib.suppress(ConnectionError), Peer(port(server), level=level, begin=False) as peer:
                if inside:
                    peer.send(mqtt.connect(level, f"c{number}"))
                peer.send(draw.bytes())
            if number % 20 == 0:
                witness.publish("witness/x", str(number).encode())
                assert str(number).encode() == witness.expect(PUBLISH).payload, f"seed {seed}, round {number}"
        assert [] == witness.round_trip(), f"seed {seed}"
    assert 0 == report(server, "varz")["leafd"]["unexpected_errors"], f"seed {seed}: {server.log[-2000:]}"


def flood_of_subscriptions(peer: Peer, number: int) -> bytes:
    return mqtt.subscribe(number + 1, *((f"s/{number}/{one}/{'x' * 100}", 1) for one in range(100)), level=5)


def flood_of_aliases(peer: Peer, number: int) -> bytes:
    most = peer.welcome.properties["topic_alias_maximum"]
    topic = f"t/{number}/" + "x" * 30_000
    return b"".join(mqtt.publish(topic, level=5, found={"topic_alias": one + 1}) for one in range(most))


def flood_of_unfinished_messages(peer: Peer, number: int) -> bytes:
    most = peer.welcome.properties["receive_maximum"]
    return b"".join(mqtt.publish("u", level=5, qos=2, id=one + 1) for one in range(most if number == 0 else 0))


@pytest.mark.parametrize("flood", [flood_of_subscriptions, flood_of_aliases, flood_of_unfinished_messages])
def test_a_flood_stays_within_the_memory_limit(server: servers.Server, flood: object) -> None:
    """60 devices each make the server remember all that they can: it keeps what it has room for, and serves others."""
    assert callable(flood)
    peers: list[Peer] = []
    with contextlib.ExitStack() as stack:
        witness = stack.enter_context(Peer(port(server), client="witness", keep_alive=0))
        before = server.memory_bytes("VmRSS")
        for _ in range(60):
            peers.append(stack.enter_context(Peer(port(server), level=5, keep_alive=0)))
            for number in range(20):
                with contextlib.suppress(ConnectionError):
                    peers[-1].send(flood(peers[-1], number))
        for peer in peers:
            with contextlib.suppress(ConnectionError, mqtt.Ended):
                peer.round_trip()
        assert server.memory_bytes("VmRSS") - before < 64 << 20
        witness.subscribe("x")
        witness.publish("x", b"served")
        assert b"served" == witness.expect(PUBLISH).payload
    eventually(lambda: report(server, "connz")["num_connections"] == 0)
    assert 0 == report(server, "varz")["leafd"]["unexpected_errors"]


def test_wills_of_many_devices_that_break_off_at_once_are_all_said(server: servers.Server) -> None:
    """1,000 of them, of 1 KB: each once; and a will that is too large for the server is no login."""
    with Peer(port(server), client="witness", keep_alive=0) as witness:
        witness.subscribe("w/#")
        with contextlib.ExitStack() as stack:
            for number in range(1_000):
                will = Will(f"w/{number}", bytes(1_000))
                stack.enter_context(Peer(port(server), level=5, client=f"c{number}", will=will))
        assert {f"w/{number}" for number in range(1_000)} == {witness.expect(PUBLISH).topic for _ in range(1_000)}
        assert [] == witness.round_trip()
        with Peer(port(server), level=5, begin=False) as peer:
            peer.send(mqtt.connect(5, "c", will=Will("w/large", bytes(20_000))))
            last = peer.ended()
            assert last is None or last.reason >= 0x80
