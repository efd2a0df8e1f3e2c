"""A message's expiry in streams, and the other way round: leafd's own, as mqtt-design.md has it.

Not here: how long sessions and retained messages are kept (test_mqtt_sessions.py).
"""

from __future__ import annotations

import base64

from tests import servers
from tests.interop.mqtt_walks import CONFIGURATION, Nats, client
from tests.mqtt import PUBACK, PUBLISH
from tests.rig.waiting import eventually


def test_an_expiry_is_a_time_to_live() -> None:
    """In a stream that allows those, which then says so to whoever reads or mirrors it; another stream keeps the
    message. The other way round a message of NATS has its time to live as its expiry."""
    with (
        servers.running(servers.LEAFD, CONFIGURATION) as server,
        Nats(server) as nats,
        client(server, level=5) as peer,
    ):
        for name, allows in (("LIVES", True), ("STAYS", False)):
            nats.request(f"$JS.API.STREAM.CREATE.{name}", name=name, subjects=[f"{name}.>"], allow_msg_ttl=allows)
            peer.publish(f"{name}/a", b"x", qos=1, found={"message_expiry": 2})
            assert 0 == peer.expect(PUBACK).reason
            stored = nats.request(f"$JS.API.STREAM.MSG.GET.{name}", seq=1)["message"]
            fields = base64.b64decode(stored["hdrs"]).decode().split("\r\n")
            assert allows == ("Nats-TTL:2" in [one.replace(" ", "") for one in fields])
            assert "Nmqtt-Expiry:2" in fields
        eventually(lambda: nats.request("$JS.API.STREAM.INFO.LIVES")["state"]["messages"] == 0)
        assert 1 == nats.request("$JS.API.STREAM.INFO.STAYS")["state"]["messages"]
        peer.subscribe("down/ttl")
        nats.publish("down.ttl", b"21", b"NATS/1.0\r\nNats-TTL: 1m30s\r\n\r\n")
        assert {"message_expiry": 90} == peer.expect(PUBLISH).properties
