"""What devices have promised them when a server of three is killed -9: wills, expiry, shared subscriptions, retained
messages, messages that wait, handshakes of QoS 2. Each case prepares something, one server dies, and the case says what
came of it; what has to come of it is beside it in a table.

    python -m tests.crash.mqtt_kills leafd nats-server
    python -m tests.crash.mqtt_kills leafd --victim other

The server that dies is the one that leads the sessions, or another one. All cases of a run share one kill, since making
a cluster takes longer than all of them. nats-server has no MQTT 5, and its answers are shown, not judged.

Not here: many kills in a row (mqtt_cluster.py); to the second, with a time of its own (test_plane_mqtt_cluster.c).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import mqtt, servers
from tests.interop.mqtt_walks import Nats, client
from tests.interop.test_mqtt_replicas import came, cluster
from tests.mqtt import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Ended, Peer, Will, acknowledge
from tests.rig.waiting import eventually

QUIET_S: Final = 1.5
WILL_WAIT_S: Final = 5.0
"""So long the next leader waits for a device before it publishes a will (mqtt-design.md)."""


@dataclass
class Scene:
    """Three servers, of which one is about to die."""

    victim: servers.Server
    others: list[servers.Server]
    """Those that stay."""
    stack: contextlib.ExitStack
    killed: float = 0.0
    """When it died, of the monotonic clock."""

    def peer(self, server: servers.Server, name: str = "", **login: Any) -> Peer:
        """A connection that is closed when the scene is over."""
        return self.stack.enter_context(client(server, name, **login))

    def ear(self, topic: str) -> Ear:
        """Hears a topic at a server that stays, from now on."""
        peer = self.peer(self.others[0])
        peer.subscribe(topic)
        return Ear(peer)

    def since(self) -> float:
        return time.monotonic() - self.killed

    def wait(self, seconds: float) -> None:
        """Until so long behind the kill."""
        time.sleep(max(0.0, seconds - self.since()))

    def back(self, name: str, **login: Any) -> Peer:
        """The device at a server that stays, once it is let in."""

        def tried() -> Peer | None:
            for server in self.others:
                with contextlib.suppress(AssertionError, OSError):
                    return client(server, name, clean=False, **login)
            return None

        found = eventually(tried, f"{name} is not let in")
        assert found is not None
        return self.stack.enter_context(found)


@dataclass
class Ear:
    """Hears messages at a server that stays."""

    peer: Peer

    def heard(self, seconds: float) -> list[tuple[bytes, float]]:
        """What came until nothing has for so long: each payload, and when."""
        found = []
        self.peer.socket.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            while True:
                one = self.peer.packet()
                assert one.kind == PUBLISH, one
                found.append((one.payload, time.monotonic()))
        return found


Case = Callable[[Scene], Iterator[Any]]
"""Prepares, yields once, and is gone on with when the server has died; yields what came of it."""


def _left(peer: Peer) -> None:
    """Its line breaks, and its server has noticed."""
    peer.socket.close()


def will_of_a_session(scene: Scene) -> Iterator[Any]:
    """A device with a session is connected to the server that dies, and does not come back: its will, how often."""
    ear = scene.ear("will/session")
    scene.peer(scene.victim, "will-session", clean=False, will=Will("will/session", b"gone", qos=1))
    yield None
    yield [text for text, _ in ear.heard(WILL_WAIT_S + 6)]


def will_of_one_that_comes_back(scene: Scene) -> Iterator[Any]:
    """It comes back at another server, within the time that the next leader waits: no will."""
    ear = scene.ear("will/back")
    scene.peer(scene.victim, "will-back", clean=False, will=Will("will/back", b"gone", qos=1))
    yield None
    scene.back("will-back")
    yield [text for text, _ in ear.heard(WILL_WAIT_S + 3)]


def delayed_will(scene: Scene) -> Iterator[Any]:
    """It left before the kill, and its will waits 8 s: not earlier, once, and not much later."""
    ear = scene.ear("will/delayed")
    will = Will("will/delayed", b"gone", qos=1, properties={"will_delay": 8})
    device = scene.peer(scene.others[1], "will-delayed", level=5, clean=False, will=will,
                        found={"session_expiry": 600})  # fmt: skip
    _left(device)
    left = time.monotonic()
    yield None
    heard = ear.heard(14)
    yield [(text, 7.5 < at - left < 14) for text, at in heard] or "none"


def delayed_will_of_one_that_comes_back(scene: Scene) -> Iterator[Any]:
    """It is back at another server before the delay is over: no will."""
    ear = scene.ear("will/kept")
    will = Will("will/kept", b"gone", properties={"will_delay": 8})
    login: dict[str, Any] = {"level": 5, "found": {"session_expiry": 600}}
    _left(scene.peer(scene.others[1], "will-kept", clean=False, will=will, **login))
    yield None
    scene.back("will-kept", **login)
    yield [text for text, _ in ear.heard(13)]


def expires(scene: Scene) -> Iterator[Any]:
    """A session of 6 s is there soon behind the kill, and is not when its time and that of the election are over."""
    login: dict[str, Any] = {"level": 5, "found": {"session_expiry": 6}}
    for name in ("expires-early", "expires-late"):
        device = scene.peer(scene.others[0], name, clean=False, **login)
        device.send(mqtt.disconnect(5))
        device.ended()
    left = time.monotonic()
    yield None
    early = scene.back("expires-early", **login)
    soon = time.monotonic() - left
    scene.wait(11)
    late = scene.back("expires-late", **login)
    yield (early.welcome.session_present or f"not after {soon:.1f} s", late.welcome.session_present)


def shared(scene: Scene) -> Iterator[Any]:
    """Two members with sessions, one at the server that dies, have acknowledged some; each message comes once."""
    login: dict[str, Any] = {"level": 5, "found": {"session_expiry": 600}}
    members = [
        scene.peer(server, f"member-{number}", clean=False, **login)
        for number, server in enumerate((scene.victim, scene.others[0]))
    ]
    for member in members:
        assert [1] == member.subscribe(("$share/group/shared/all", 1))
    sent = [b"%d" % number for number in range(20)]
    with client(scene.others[1]) as publisher:
        for text in sent:
            publisher.publish("shared/all", text, qos=1)
        for _ in sent:
            publisher.expect(PUBACK)
    done: list[bytes] = []
    for member in members:
        member.socket.settimeout(QUIET_S)
        with contextlib.suppress(TimeoutError):
            for _ in range(4):
                one = member.expect(PUBLISH)
                member.send(acknowledge(PUBACK, one.id))
                done.append(one.payload)
        member.send(mqtt.packet(mqtt.PINGREQ, b""))
    yield None
    if not _closed(members[1]):
        members[1].socket.close()
    back = scene.back("member-1", **login)
    rest = _acknowledged_all(back, 4 * QUIET_S)
    missing = set(sent) - set(done) - set(rest)
    yield (sorted(missing), [text for text, count in Counter(rest).items() if count > 1])


def _closed(peer: Peer) -> bool:
    with contextlib.suppress(Ended, TimeoutError, OSError):
        peer.socket.settimeout(0.01)
        while True:
            peer.packet()
    return True


def _acknowledged_all(peer: Peer, seconds: float) -> list[bytes]:
    """What comes until nothing has for so long; its handshakes are said whole."""
    found: list[bytes] = []
    peer.socket.settimeout(seconds)
    with contextlib.suppress(TimeoutError):
        while True:
            one = peer.packet()
            if one.kind == PUBLISH:
                found.append(one.payload)
                if one.qos:
                    peer.send(acknowledge(PUBREC if one.qos == 2 else PUBACK, one.id))
            elif one.kind == PUBREL:
                peer.send(acknowledge(PUBCOMP, one.id))
    return found


def retained(scene: Scene) -> Iterator[Any]:
    """One is retained, and acknowledged, right before the kill, another one is replaced: both are read elsewhere."""
    with client(scene.others[0]) as publisher:
        for topic, text in (("kept/new", b"new"), ("kept/old", b"old"), ("kept/old", b"newer"), ("kept/gone", b"x"),
                            ("kept/gone", b"")):  # fmt: skip
            id = publisher.publish(topic, text, qos=1, retain=True)
            assert publisher.expect(PUBACK).id == id
    yield None

    def read() -> list[bytes] | None:
        with contextlib.suppress(Ended, TimeoutError), client(scene.others[1]) as reader:
            reader.send(mqtt.subscribe(1, ("kept/+", 0)))
            reader.expect(mqtt.SUBACK)
            reader.socket.settimeout(5)
            return sorted(reader.expect(PUBLISH).payload for _ in range(2))
        return None

    yield eventually(read, "nothing retained is read")


def queued(scene: Scene) -> Iterator[Any]:
    """Messages of QoS 1 and 2 wait for a device that is away: all of them come, once and in order."""
    with scene.peer(scene.others[0], "away", clean=False) as device:
        assert [2] == device.subscribe(("for/away", 2))
    sent = [b"%d" % number for number in range(10)]
    with client(scene.others[1]) as publisher:
        for number, text in enumerate(sent):
            _publish_whole(publisher, "for/away", text, 1 + number % 2)
    yield None
    device = scene.back("away")
    yield _acknowledged_all(device, QUIET_S) == sent


def _publish_whole(publisher: Peer, topic: str, text: bytes, qos: int) -> None:
    id = publisher.publish(topic, text, qos=qos)
    if qos == 1:
        assert publisher.expect(PUBACK).id == id
        return
    assert publisher.expect(PUBREC).id == id
    publisher.send(acknowledge(PUBREL, id))
    assert publisher.expect(PUBCOMP).id == id


def handshakes_out(scene: Scene) -> Iterator[Any]:
    """A device is in the middle of QoS 2, as receiver: sent, received, released. None comes twice, and none is lost."""
    texts = {"sent": b"sent", "received": b"received", "released": b"released"}
    devices = {}
    for state in texts:
        device = devices[state] = scene.peer(scene.others[0], f"out-{state}", clean=False)
        assert [2] == device.subscribe((f"out/{state}", 2))
    with client(scene.others[1]) as publisher:
        for state, text in texts.items():
            _publish_whole(publisher, f"out/{state}", text, 2)
    ids = {state: devices[state].expect(PUBLISH).id for state in texts}
    for state in ("received", "released"):
        devices[state].send(acknowledge(PUBREC, ids[state]))
        assert ids[state] == devices[state].expect(PUBREL).id
    devices["released"].send(acknowledge(PUBCOMP, ids["released"]))
    devices["released"].round_trip()
    yield None
    found = {}
    for state in texts:
        devices[state].socket.close()
        device = scene.back(f"out-{state}")
        device.socket.settimeout(QUIET_S)
        came: list[tuple[int, bool]] = []
        with contextlib.suppress(TimeoutError):
            while True:
                one = device.packet()
                came.append((one.kind, one.id == ids[state]))
                if one.kind == PUBLISH:
                    device.send(acknowledge(PUBREC, one.id))
                elif one.kind == PUBREL:
                    device.send(acknowledge(PUBCOMP, one.id))
        found[state] = came
    yield found


def handshakes_in(scene: Scene) -> Iterator[Any]:
    """A device is in the middle of QoS 2, as sender: it says again what was not answered. Each came once."""
    receiver = scene.peer(scene.others[0], "in-receiver", clean=False)
    assert [2] == receiver.subscribe(("in/+", 2))
    receiver.socket.close()
    device = scene.peer(scene.victim, "in-sender", clean=False)
    heard = device.publish("in/heard", b"heard", qos=2)
    assert heard == device.expect(PUBREC).id
    done = device.publish("in/done", b"done", qos=2)
    assert done == device.expect(PUBREC).id
    device.send(acknowledge(PUBREL, done))
    assert done == device.expect(PUBCOMP).id
    said = device.publish("in/said", b"said", qos=2)
    yield None
    device = scene.back("in-sender")
    device.send(mqtt.publish("in/said", b"said", qos=2, id=said, dup=True))
    assert said == device.expect(PUBREC).id
    for id in (heard, said):
        device.send(acknowledge(PUBREL, id))
        assert id == device.expect(PUBCOMP).id
    yield sorted(_acknowledged_all(scene.back("in-receiver"), QUIET_S))


def leader_of_sessions(made: list[servers.Server]) -> servers.Server:
    """Which of them leads the stream of the sessions' messages."""

    def named() -> str:
        with Nats(made[0], user="a", **{"pass": "a"}) as asker:
            found = asker.request("$JS.API.STREAM.INFO.$MQTT_msgs")
            return str(found.get("cluster", {}).get("leader", ""))

    name = eventually(named, "nobody leads")
    return next(server for number, server in enumerate(made) if f"s{number}" == name)


def outcomes(made: list[servers.Server], victim: servers.Server, cases: list[Case]) -> dict[str, Any]:
    """What came of each case when that server died; an exception's text where a case could not go on."""
    with contextlib.ExitStack() as stack:
        scene = Scene(victim, [one for one in made if one is not victim], stack)
        begun = {case.__name__: case(scene) for case in cases}
        for name, one in begun.items():
            try:
                next(one)
            except AssertionError as error:
                raise AssertionError(f"{name} could not be prepared") from error
        victim.kill()
        scene.killed = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            return dict(zip(begun, pool.map(_end, begun.values()), strict=True))


def _end(case: Iterator[Any]) -> Any:
    try:
        return next(case)
    except (AssertionError, OSError) as error:
        return f"{type(error).__name__}: {error}"


WILL: Final = [b"gone"]
HANDSHAKES: Final = {"sent": [(PUBLISH, True), (PUBREL, True)], "received": [(PUBREL, True)], "released": []}
EXPECTED: Final[dict[Case, tuple[Any, Any]]] = {
    will_of_a_session: (WILL, WILL),
    will_of_one_that_comes_back: ([], WILL),
    retained: ([b"new", b"newer"],) * 2,
    queued: (True,) * 2,
    handshakes_out: (HANDSHAKES,) * 2,
    handshakes_in: ([b"done", b"heard", b"said"],) * 2,
    delayed_will: ([(b"gone", True)],) * 2,
    delayed_will_of_one_that_comes_back: ([],) * 2,
    expires: ((True, False),) * 2,
    shared: (([], []),) * 2,
}
"""What has to come of each case where the leader dies, and where another server does: then the leader takes it for the
end of the connection, and publishes a will at once."""
BY_5: Final = (delayed_will, delayed_will_of_one_that_comes_back, expires, shared)
VICTIMS: Final = ("leader", "other")


def walk(kind: str, victim: str, folder: Path) -> int:
    """How many cases ended otherwise."""
    faults = 0
    with cluster(kind, folder) as made:
        if kind == servers.LEAFD:
            came(made, present=False)[1].socket.close()
            leader = leader_of_sessions(made)
        else:
            leader = made[0]  # each of them serves any session
        dies = leader if victim == "leader" else next(one for one in made if one is not leader)
        cases = [case for case in EXPECTED if kind == servers.LEAFD or case not in BY_5]
        for case, (name, found) in zip(cases, outcomes(made, dies, cases).items(), strict=True):
            fits = found == EXPECTED[case][VICTIMS.index(victim)]
            faults += kind == servers.LEAFD and not fits
            print(f"{kind}: {name}: {'as it was promised' if fits else found}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=servers.KINDS)
    parser.add_argument("--victim", choices=VICTIMS, default=VICTIMS[0])
    chosen = parser.parse_args()
    faults = 0
    for kind in chosen.kinds:
        with tempfile.TemporaryDirectory(prefix="leafd-mqtt-") as folder:
            faults += walk(kind, chosen.victim, Path(folder))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
