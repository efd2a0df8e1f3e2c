"""What an operator sees of MQTT devices, and does to them: counts in reports, metrics and `leafd status`, a service
that judges logins, the lame duck. What a report says of one device is test_mqtt_logins.py."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from tests import mqtt, servers
from tests.interop.callout_service import ISSUER, Answer, Request, public, read, response, serving, user
from tests.interop.mqtt_walks import client, port
from tests.mqtt import CONNACK, DISCONNECT, PUBACK, PUBLISH, Peer
from tests.rig import reference
from tests.rig.reports import page, report
from tests.rig.waiting import eventually

CONFIGURATION = """
port: {port}
server_name: one
http: "127.0.0.1:{http_port}"
lame_duck_grace_period: 0s
lame_duck_duration: 30s
jetstream { store_dir: "{store}" }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
"""
USERS = "accounts { A { jetstream: true, users: [ {user: a, password: a} ] } }\n"
JUDGED = """
port: {port}
server_name: judged
jetstream { store_dir: "{store}" }
mqtt { listen: "127.0.0.1:{mqtt_port}" }
accounts {
  AUTH { users: [{user: auth, password: auth}] }
  APP { jetstream: true, users: [{user: app, password: app}] }
}
authorization { timeout: 30, auth_callout { issuer: {issuer}, auth_users: [auth], account: AUTH } }
"""
BOTH = pytest.mark.parametrize("kind", servers.KINDS)


def test_devices_are_counted_by_version_and_refused_logins_too() -> None:
    """In /varz, /metrics and `leafd status`, until they have gone."""
    with servers.running(servers.LEAFD, CONFIGURATION + USERS) as server:
        login: dict[str, Any] = {"user": "a", "password": "a"}
        with client(server, "x", **login), client(server, "y", level=5, **login), client(server, "z", level=5, **login):
            for password in ("b", "c"):
                with Peer(port(server), begin=False) as stranger:
                    stranger.send(mqtt.connect(client="s", user="a", password=password))
                    assert stranger.expect(CONNACK).reason == 5
                    stranger.ended()
            eventually(lambda: counts(server, "clients", "refused_logins") == [{"3.1.1": 1, "5": 2}, 2])
            metrics = page(server, "metrics").decode().splitlines()
            assert {
                'leafd_mqtt_clients{version="3.1.1"} 1', 'leafd_mqtt_clients{version="5"} 2',
                "leafd_mqtt_refused_logins_total 2",
            } <= set(metrics)  # fmt: skip
            assert "3 (1 MQTT 3.1.1, 2 MQTT 5, 2 logins refused)" in told(server, "clients")
        eventually(lambda: counts(server, "clients") == [{"3.1.1": 0, "5": 0}])


def counts(server: servers.Server, *names: str) -> list[Any]:
    """These of the block about MQTT of /varz."""
    found = report(server, "varz")["leafd"]["mqtt"]
    return [found[name] for name in names]


def told(server: servers.Server, word: str) -> str:
    """The line of `leafd status` that begins so."""
    url = f"127.0.0.1:{server.ports['http_port']}"
    done = servers.leafd("status", "--url", url)
    (line,) = [one for one in done.stdout.splitlines() if one.strip().startswith(word)]
    return line


def test_sessions_and_what_waits_for_them_are_counted() -> None:
    """Who is away, how much waits for how long, what is retained; refusals and ends since the start. A session that
    is over is counted no more, and neither is what has been acknowledged; a restart finds them again."""
    text = CONFIGURATION.replace("mqtt {", "mqtt { max_sessions: 2, max_retained: 1,")
    with servers.running(servers.LEAFD, text) as server:
        names = ("sessions", "sessions_away", "expired_sessions", "refused_sessions", "refused_messages")
        with client(server, "a", clean=False) as first:
            first.subscribe(("a", 1))
        with client(server, "b", level=5, clean=False, found={"session_expiry": 1}):
            eventually(lambda: counts(server, *names) == [2, 1, 0, 0, 0])
            with Peer(port(server), begin=False) as third:
                third.send(mqtt.connect(client="c", clean=False))
                assert third.expect(CONNACK).reason == 3
                third.ended()
            eventually(lambda: counts(server, *names) == [2, 1, 0, 1, 0])
        eventually(lambda: counts(server, *names) == [1, 1, 1, 1, 0])
        with client(server, "p", level=5) as peer:
            for topic, reason in (("a", 0), ("one", 0x10), ("two", 0x97)):
                peer.publish(topic, b"12345", qos=1, retain=topic != "a")
                assert reason == peer.expect(PUBACK).reason
        eventually(lambda: counts(server, *names) == [1, 1, 1, 1, 1])
        assert "1, 1 of them away; 1 messages wait" in told(server, "sessions")
        server.stop()
        server.start()
        eventually(lambda: counts(server, *names) == [1, 1, 0, 0, 0])
        waiting, retained = counts(server, "waiting", "retained")
        assert (1, 1) == (waiting["messages"], retained["messages"])
        assert waiting["bytes"] > 5
        assert 0 <= waiting["oldest_seconds"] < 600
        with client(server, "a", clean=False) as first:
            first.send(mqtt.acknowledge(PUBACK, first.expect(PUBLISH).id))
            nothing = {"messages": 0, "bytes": 0, "oldest_seconds": None}
            eventually(lambda: counts(server, "sessions", "sessions_away", "waiting") == [1, 0, nothing])
        with client(server, "a"):
            eventually(lambda: counts(server, "sessions", "sessions_away") == [0, 0])
        assert "leafd_mqtt_sessions 0" in page(server, "metrics").decode().splitlines()


def test_without_a_listener_nobody_tells_of_devices() -> None:
    text = CONFIGURATION.replace("mqtt {", "# mqtt {")
    with servers.running(servers.LEAFD, text) as server:
        assert "mqtt" not in report(server, "varz")["leafd"]
        assert "leafd_mqtt" not in page(server, "metrics").decode()


@BOTH
def test_a_service_judges_devices_like_all_clients(kind: str) -> None:
    """It is asked with the device's identifier and its kind, and what it grants counts."""

    def judge(request: Request) -> Answer:
        name = request["nats"]["connect_opts"].get("user")
        rights = {"pub": {"allow": ["up.>", "$MQTT.>"]}}
        return (
            response(request, user(request, rights, audience="APP"))
            if name == "known"
            else response(request, error="no")
        )

    async def run(server: servers.Server) -> list[Request]:
        async with serving(server, judge) as asked:
            await asyncio.to_thread(play, server)
        return [read(message.data.decode())["nats"] for message in asked]

    def play(server: servers.Server) -> None:
        with client(server, "meter", user="known", password="p") as peer:
            peer.subscribe("#")
            peer.publish("other", b"x")
            peer.publish("up/1", b"y")
            assert ("up/1", b"y") == (lambda one: (one.topic, one.payload))(peer.expect(PUBLISH))
        with Peer(port(server), begin=False) as stranger:
            stranger.send(mqtt.connect(client="s", user="unknown", password="p"))
            assert stranger.expect(CONNACK).reason == 5

    with servers.running(kind, JUDGED, issuer=public(ISSUER)) as server, reference.asked(server):
        asked = asyncio.run(run(server))
    shown = [{name: one["client_info"].get(name) for name in ("type", "kind", "mqtt_id", "user")} for one in asked]
    assert [
        {"type": "mqtt", "kind": "Client", "mqtt_id": name, "user": who}
        for name, who in (("meter", "known"), ("s", "unknown"))
    ] == shown


def test_a_lame_duck_takes_no_devices_and_sends_them_away() -> None:
    """MQTT 5 is told that the server ends (0x8b)."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server, client(server, "c", level=5) as peer:
        assert server.process is not None
        server.process.send_signal(signal.SIGUSR2)
        end = peer.ended()
        assert end is not None
        assert (DISCONNECT, 0x8B) == (end.kind, end.reason)
        with pytest.raises(ConnectionRefusedError):
            client(server, "late")
        server.kill()  # the rest takes its time
