"""What is denied to a user is denied to his devices, on whatever path MQTT has to a subject, and nothing else is: each
path under each denial has the outcome that a NATS client of the same user has on the path that stands for it.

    paths of MQTT (PATHS)  x  denials (DENIALS)  x  versions  =  cells, played one by one

Not here: the paths of NATS, on which test_denials.py compares leafd with nats-server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests import mqtt, servers
from tests.interop.mqtt_walks import Nats, client
from tests.mqtt import PUBACK, PUBLISH, PUBREC, PUBREL, SUBACK, Peer, Will

DENIALS: dict[str, dict[str, Any]] = {
    "nothing denied": {},
    "publish denied": {"publish": {"deny": ["t.x"]}},
    "publish denied, wider": {"publish": {"deny": ["t.>"]}},
    "others may be published": {"publish": {"allow": ["ok.>", "map.>", "svc.>", "$MQTT.>"]}},
    "the target may be published": {"publish": {"allow": ["t.x", "$MQTT.>"]}},
    "subscribe denied": {"subscribe": {"deny": ["t.x"]}},
    "subscribe denied, wider": {"subscribe": {"deny": ["t.>"]}},
    "group denied": {"subscribe": {"deny": ["t.x grp"]}},
    "others may be subscribed to": {"subscribe": {"allow": ["ok.>", "imp.>", "mark.x"]}},
    "the target may be subscribed to": {"subscribe": {"allow": ["t.x", "mark.x"]}},
    "both denied": {"publish": {"deny": ["t.x", "ok.>"]}, "subscribe": {"deny": ["t.x", "ok.>", "imp.>"]}},
}


@dataclass(frozen=True)
class Path:
    """A way to publish to t.x, or to hear what is said on t.x, t.y and ok.x; and the NATS client's way."""

    topic: str
    subject: str
    group: str = ""
    qos: int = 0
    retain: bool = False
    will: bool = False
    alias: bool = False
    five: bool = False
    """Only MQTT 5 has it."""


PUBLISHED = {
    "publish": Path("t/x", "t.x"),
    "publish, QoS 1": Path("t/x", "t.x", qos=1),
    "publish, QoS 2": Path("t/x", "t.x", qos=2),
    "retained": Path("t/x", "t.x", retain=True),
    "will": Path("t/x", "t.x", will=True),
    "will, retained": Path("t/x", "t.x", will=True, retain=True),
    "alias": Path("t/x", "t.x", alias=True, five=True),
    "mapping": Path("map/x", "map.x"),
    "service of another account": Path("svc/x", "svc.x"),
}
HEARD = {
    "subscribe": Path("t/x", "t.x"),
    "subscribe, QoS 2": Path("t/x", "t.x", qos=2),
    "subscribe to a level": Path("t/+", "t.*"),
    "subscribe to everything": Path("#", ">"),
    "shared": Path("$share/grp/t/x", "t.x", "grp", five=True),
    "shared, another group": Path("$share/other/t/x", "t.x", "other", five=True),
    "stream of another account": Path("imp/+", "imp.*"),
}
CELLS = [
    (level, name, denial)
    for level in mqtt.LEVELS
    for name, path in (PUBLISHED | HEARD).items()
    if level == 5 or not path.five
    for denial in DENIALS
]
SAID = ("t.x", "t.y", "ok.x")


def configuration() -> str:
    users = [{"user": str(n), "password": "p", "permissions": rules} for n, rules in enumerate(DENIALS.values())]
    mine = {
        "jetstream": True,
        "mappings": {"map.x": "t.x"},
        "users": [{"user": "owner", "password": "p"}, *users],
        "imports": [
            {"service": {"account": "X", "subject": "asked"}, "to": "svc.x"},
            {"stream": {"account": "X", "subject": "out"}, "to": "imp.x"},
        ],
    }
    other = {"users": [{"user": "x", "password": "p"}], "exports": [{"service": "asked"}, {"stream": "out"}]}
    return (
        "port: {port}\nserver_name: one\njetstream { store_dir: '{store}' }\nmqtt { listen: '127.0.0.1:{mqtt_port}' }\n"
        f"accounts: {json.dumps({'A': mine, 'X': other})}\n"
    )


@dataclass
class Stage:
    """A server, the owner, who hears everything in the account, and somebody in the other one."""

    server: servers.Server
    owner: Nats
    other: Nats

    def nats(self, denial: str) -> Nats:
        return Nats(self.server, user=number_of(denial), **{"pass": "p"})

    def device(self, denial: str, level: int, **more: Any) -> Peer:
        return client(self.server, "d", level=level, user=number_of(denial), password="p", **more)

    def heard(self) -> set[str]:
        """What both have heard, without what is said behind it."""
        found = set()
        for nats in (self.owner, self.other):
            nats.publish("end")
            while (subject := nats.message()[0]) != "end":
                found.add(subject)
        return {one for one in found if not one.startswith("$")}

    def say(self) -> None:
        for subject in SAID:
            self.owner.publish(subject, subject.encode())
        self.other.publish("out", b"out")
        for nats in (self.owner, self.other):
            nats.round_trip()


def number_of(denial: str) -> str:
    return str(list(DENIALS).index(denial))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with (
        servers.running(servers.LEAFD, configuration()) as server,
        Nats(server, user="owner", **{"pass": "p"}) as owner,
        Nats(server, user="x", **{"pass": "p"}) as other,
    ):
        for nats in (owner, other):
            nats.subscribe(">")
        yield Stage(server, owner, other)


def publish_by_nats(stage: Stage, path: Path, denial: str) -> set[str]:
    with stage.nats(denial) as nats:
        nats.publish(path.subject, b"p")
        nats.round_trip()
    return stage.heard()


def publish_by_mqtt(stage: Stage, path: Path, denial: str, level: int) -> set[str]:
    will = {"will": Will(path.topic, b"p", path.qos, path.retain)} if path.will else {}
    with stage.device(denial, level, **will) as peer:
        if path.will:
            peer.send(b"\x00")  # no packet: its end is no orderly one
            peer.ended()
            return stage.heard()
        found = {"topic_alias": 1} if path.alias else None
        if path.alias:
            peer.publish("ok/first" if denial == "nothing denied" else path.topic, b"p", found=found)
            peer.round_trip()
        id = peer.publish(path.topic, b"p", qos=path.qos, retain=path.retain, found=found)
        if path.qos == 1:
            assert peer.expect(PUBACK).id == id
        if path.qos == 2 and peer.expect(PUBREC).reason < 0x80:
            peer.send(mqtt.acknowledge(PUBREL, id))
        peer.round_trip()
    return stage.heard() - {"ok.first"}


def hear_by_nats(stage: Stage, path: Path, denial: str) -> set[str]:
    with stage.nats(denial) as nats:
        nats.say(f"SUB {path.subject} {path.group} 1")  # that it is denied is one of the answers
        stage.say()
        nats.publish("end.n")
        return {line.split(" ")[1] for line in _lines(nats) if line.startswith("MSG ")} - {"end.n"}


def _lines(nats: Nats) -> list[str]:
    nats.send(b"PING\r\n")
    lines = []
    while (line := nats.line(mqtt.PATIENCE_S)) != "PONG":
        lines.append(line)
        if line.startswith("MSG "):
            nats.payload(int(line.split(" ")[-1]))
    return lines


def hear_by_mqtt(stage: Stage, path: Path, denial: str, level: int) -> set[str]:
    with stage.device(denial, level) as peer:
        peer.send(mqtt.subscribe(1, (path.topic, path.qos), level=level))
        assert peer.expect(SUBACK).id == 1
        stage.say()
        return {one.topic.replace("/", ".") for one in peer.round_trip() if one.kind == PUBLISH}


@pytest.mark.parametrize(("level", "name", "denial"), CELLS, ids=[f"{a}, {b}, {c}" for a, b, c in CELLS])
def test_a_device_gets_as_far_as_a_nats_client_of_its_user(stage: Stage, level: int, name: str, denial: str) -> None:
    """Not a subject farther, and no less."""
    if name in PUBLISHED:
        expected = publish_by_nats(stage, PUBLISHED[name], denial)
        assert expected == publish_by_mqtt(stage, PUBLISHED[name], denial, level)
        assert denial != "nothing denied" or expected
        return
    expected = hear_by_nats(stage, HEARD[name], denial)
    stage.heard()
    assert expected == hear_by_mqtt(stage, HEARD[name], denial, level)
    stage.heard()
    assert denial != "nothing denied" or expected


@pytest.mark.parametrize("level", mqtt.LEVELS)
@pytest.mark.parametrize("denial", [one for one in DENIALS if "ubscri" in one or one == "nothing denied"])
@pytest.mark.parametrize("filter", ["t/x", "t/+", "#"])
def test_what_is_retained_is_heard_by_who_might_have_heard_it(
    stage: Stage, level: int, denial: str, filter: str
) -> None:
    """A retained message is denied like the message was."""
    with client(stage.server, "keeper", user="owner", password="p") as keeper:
        for topic in ("t/x", "mark/x"):
            keeper.publish(topic, b"kept", qos=1, retain=True)
            keeper.expect(PUBACK)
        expected = hear_by_nats(
            stage, Path(filter, filter.replace("/", ".").replace("+", "*").replace("#", ">")), denial
        )
        with stage.device(denial, level) as peer:
            peer.send(mqtt.subscribe(1, (filter, 0), ("mark/x", 0), level=level))
            found = [peer.expect(SUBACK).topic]
            while found[-1] != "mark/x":  # which comes behind the other
                message = peer.expect(PUBLISH)
                assert message.retain
                found.append(message.topic)
        assert ("t/x" in found) == ("t.x" in expected)
        keeper.publish("t/x", b"", qos=1, retain=True)
        keeper.expect(PUBACK)
    stage.heard()


@pytest.mark.parametrize("denial", DENIALS)
def test_a_response_topic_is_a_reply_and_nothing_that_is_published(stage: Stage, denial: str) -> None:
    """As the reply of a NATS client's request, it is told to who answers, who needs the right himself."""
    with stage.nats(denial) as nats, stage.device(denial, 5) as peer:
        nats.publish("ok.ask", b"p", reply="t.x")
        nats.round_trip()
        replies = [_reply(stage)]
        peer.publish("ok/ask", b"p", found={"response_topic": "t/x"})
        peer.round_trip()
        replies.append(_reply(stage))
    assert replies[0] == replies[1]


def _reply(stage: Stage) -> str:
    stage.owner.publish("end")
    found = ""
    while (one := stage.owner.message())[0] != "end":
        found = one[1] if one[0] == "ok.ask" else found
    return found
