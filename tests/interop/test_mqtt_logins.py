"""How a device comes in by MQTT: plain, by TLS, in WebSocket frames, behind a proxy; with a password, a token, a JWT,
a certificate, or nothing. Where both speak it nats-server is asked, too. Reports, reloads and the end are here as
well."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import time
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests import jwts, mqtt, servers
from tests.certificates import Authority
from tests.interop.mqtt_walks import CONFIGURATION, Nats, client, port
from tests.mqtt import CONNACK, DISCONNECT, PATIENCE_S, PUBACK, PUBLISH, Peer
from tests.rig.raw import Refused
from tests.rig.reloads import exchanged
from tests.rig.reports import report
from tests.rig.waiting import eventually

BASE = "port: {port}\nserver_name: one\nhttp: '127.0.0.1:{http_port}'\njetstream { store_dir: '{store}' }\n"
BOTH = pytest.mark.parametrize("kind", servers.KINDS)


def answer(where: int | socket.socket, **login: Any) -> int:
    """What CONNACK says."""
    with Peer(where, begin=False) as peer:
        peer.send(mqtt.connect(**{"client": "c", **login}))
        return peer.expect(CONNACK).reason


def processor_s(server: servers.Server) -> float:
    """Processor time of its process so far."""
    assert server.process is not None
    words = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def exchange(peer: Peer) -> None:
    """Messages of several sizes come back."""
    peer.subscribe("x/y")
    for size in (0, 125, 126, 70_000):
        peer.publish("x/y", bytes(size))
        assert size == len(peer.expect(PUBLISH).payload)


# ---- who


@BOTH
def test_the_listener_may_have_a_login_of_its_own(kind: str) -> None:
    """A user or a token of the mqtt block, where there are no users; a token comes as the password."""
    block = 'mqtt { listen: "127.0.0.1:{mqtt_port}", authorization { %s } }\n'
    with servers.running(kind, BASE + block % "user: dev, password: secret") as server:
        assert [0, 5, 5, 5] == [
            answer(port(server), **login)
            for login in ({"user": "dev", "password": "secret"}, {"user": "dev", "password": "x"}, {"user": "dev"}, {})
        ]
        with Nats(server) as nats:  # who needs none
            assert nats.round_trip() == []
    with servers.running(kind, BASE + block % "token: secret") as server:
        assert [0, 5, 5] == [
            answer(port(server), **login)
            for login in ({"user": "any", "password": "secret"}, {"user": "any", "password": "x"}, {})
        ]


@BOTH
def test_devices_may_be_somebody_without_saying_so(kind: str) -> None:
    """no_auth_user of the block is for MQTT alone, and has the rights of that user."""
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", no_auth_user: sensor }\n'
    text += "accounts { A { jetstream: true, users: [ {user: sensor, password: s}, {user: nats, password: n} ] } }\n"
    with servers.running(kind, text) as server, Nats(server, user="nats", **{"pass": "n"}) as nats:
        nats.subscribe("up")
        with Peer(port(server), client="c") as peer:
            peer.publish("up", b"x")
            assert "up" == nats.message()[0]
        assert 5 == answer(port(server), user="sensor", password="wrong")
        with pytest.raises(Refused):
            Nats(server)


@BOTH
def test_a_jwt_is_a_password(kind: str) -> None:
    """In operator mode: of a bearer token, for MQTT; not of one for others, and not of one whose key has to sign."""
    operator = jwts.Operator()
    account = operator.account("A", mem_storage=-1, disk_storage=-1)
    users = {
        "bearer": account.user("u", bearer_token=True),
        "for MQTT": account.user("u", bearer_token=True, allowed_connection_types=["MQTT"]),
        "for others": account.user("u", bearer_token=True, allowed_connection_types=["STANDARD"]),
        "no bearer": account.user("u"),
    }
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}" }\n' + operator.configuration()
    with servers.running(kind, text) as server:
        found = {name: answer(port(server), user="any", password=user.token) for name, user in users.items()}
        assert {"bearer": 0, "for MQTT": 0, "for others": 5, "no bearer": 5} == found
        assert 5 == answer(port(server), user="any", password="no token")


# ---- how


@BOTH
@pytest.mark.parametrize("mapped", [False, True])
def test_devices_come_by_tls(kind: str, mapped: bool, tmp_path: Path) -> None:
    """The handshake is the first thing; with verify_and_map the certificate's name is the user."""
    authority = Authority(tmp_path)
    own, theirs = authority.issue("server"), authority.issue("box", names="DNS:box.example")
    how = f"ca_file: '{authority.certificate}', verify_and_map: true," if mapped else ""
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", '
    text += f"tls {{ cert_file: '{own.certificate}', key_file: '{own.key}', {how} timeout: 60 }} }}\n"
    text += "accounts { A { jetstream: true, users: [ {user: box.example} ] } }\n" if mapped else ""
    with servers.running(kind, text) as server:
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        if mapped:
            trusting.load_cert_chain(theirs.certificate, theirs.key)
        raw = socket.create_connection(("127.0.0.1", port(server)))
        with Peer(trusting.wrap_socket(raw, server_hostname="localhost"), client="c") as peer:
            exchange(peer)
            (one,) = report(server, "connz?auth=1")["connections"]
            assert ("mqtt", "c", "1.3") == (one["type"], one["mqtt_client"], one["tls_version"])
            assert not mapped or one["authorized_user"] == "box.example"
        with Peer(port(server), begin=False) as plain:
            plain.send(mqtt.connect(client="c"))
            assert plain.ended_without_a_word()


@BOTH
def test_who_begins_its_handshake_late_is_refused(kind: str, tmp_path: Path) -> None:
    """Also where the time is shorter than a second."""
    authority = Authority(tmp_path)
    own = authority.issue("server")
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", '
    text += f"tls {{ cert_file: '{own.certificate}', key_file: '{own.key}', timeout: 0.1 }} }}\n"
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with servers.running(kind, text) as server, socket.create_connection(("127.0.0.1", port(server))) as raw:
        time.sleep(0.3)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            trusting.wrap_socket(raw, server_hostname="localhost")


@pytest.mark.parametrize("web", [False, True], ids=["TLS", "WebSocket"])
def test_a_hash_is_checked_once_for_devices_that_come_again(tmp_path: Path, web: bool) -> None:
    """A login that has come twice costs no hash any more, whoever says it; another password does, and is refused. A
    reload takes it away from who is here and who comes."""
    authority = Authority(tmp_path)
    own = authority.issue("server")
    before, after = (bcrypt.hashpw(one, bcrypt.gensalt(10)).decode() for one in (b"right", b"other"))
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", '
    text += f"tls {{ cert_file: '{own.certificate}', key_file: '{own.key}', timeout: 60 }} }}\n"
    text += 'websocket { listen: "127.0.0.1:{web_port}", no_tls: true, user_cookie: name }\n' if web else ""
    text += f"accounts {{ A {{ jetstream: true, users: [ {{user: a, password: '{before}'}} ] }} }}\n"
    trusting = ssl.create_default_context(cafile=str(authority.certificate))

    def reach() -> Any:
        if web:
            return Framed(server.ports["web_port"])
        raw = socket.create_connection(("127.0.0.1", port(server)))
        return trusting.wrap_socket(raw, server_hostname="localhost")

    def come(name: str, password: str) -> Peer:
        peer = Peer(reach(), begin=False)
        peer.send(mqtt.connect(client=name, user="a", password=password))
        return peer

    def spent(*logins: tuple[str, int]) -> float:
        """Processor time of these, each of which is answered so."""
        begun = processor_s(server)
        for number, (password, expected) in enumerate(logins):
            with come(f"box-{number}", password) as peer:
                assert expected == peer.expect(CONNACK).reason
        return processor_s(server) - begun

    with servers.running(servers.LEAFD, text) as server:
        first = spent(("right", 0), ("right", 0))
        assert spent(*[("right", 0)] * 6) < first / 2
        assert spent(("wrong", 5)) > first / 4
        with come("here", "right") as here:
            assert 0 == here.expect(CONNACK).reason
            exchanged(server, before, after)
            assert here.ended_without_a_word()
        assert spent(("right", 5)) > first / 4
        assert spent(("other", 0)) > first / 4


class Framed:
    """A socket whose bytes travel in frames of WebSocket."""

    def __init__(self, where: int, path: str = "/mqtt", more: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", where), timeout=PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        self._stream = self._socket.makefile("rb")
        self.head = b"".join(iter(self._stream.readline, b"\r\n"))

    def sendall(self, raw: bytes) -> None:
        for at in range(0, len(raw), 1000):  # a packet need not be a frame (5: 6.0)
            piece = raw[at : at + 1000]
            size = bytes([0x80 | len(piece)]) if len(piece) < 126 else b"\xfe" + struct.pack(">H", len(piece))
            self._socket.sendall(b"\x82" + size + bytes(4) + piece)

    def recv(self, _most: int) -> bytes:
        head = self._stream.read(2)
        if len(head) < 2 or head[0] & 15 == 8:
            return b""
        assert head[0] == 0x82, head
        size = head[1]
        if size >= 126:
            size = int.from_bytes(self._stream.read(2 if size == 126 else 8))
        return self._stream.read(size)

    def settimeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


WEB = (
    BASE
    + """
mqtt { listen: "127.0.0.1:{mqtt_port}" }
websocket { listen: "127.0.0.1:{web_port}", no_tls: true }
accounts { A { jetstream: true, users: [
  {user: any, password: a}
  {user: web, password: w, allowed_connection_types: [MQTT_WS]}
  {user: plain, password: p, allowed_connection_types: [MQTT]}
] } }
"""
)


@BOTH
def test_devices_and_pages_come_over_websocket(kind: str) -> None:
    """At /mqtt, with the subprotocol, for users that may (MQTT_WS)."""
    with servers.running(kind, WEB) as server:
        web = server.ports["web_port"]
        framed: Any = Framed(web)
        assert b"\r\nsec-websocket-protocol: mqtt\r\n" in framed.head.lower()
        with Peer(framed, client="page", user="web", password="w") as peer:
            exchange(peer)
            found = report(server, "connz?auth=1")["connections"]
            assert [("mqtt", "page", "web")] == [
                (one["type"], one["mqtt_client"], one["authorized_user"]) for one in found
            ]
        page, plain = {"user": "web", "password": "w"}, {"user": "plain", "password": "p"}
        for _ in range(3):  # leafd knows the last ones from before, and by which way they came
            for login, reason in (({"user": "any", "password": "a"}, 0), (page, 0), (plain, 5)):
                framed = Framed(web, "/any/mqtt")
                assert reason == answer(framed, **login)
            assert [5, 0] == [answer(port(server), **login) for login in (page, plain)]


def test_a_cookie_counts_each_time() -> None:
    """The password may be the request's: who sends the same CONNECT without it is refused, however often it was let
    in with it."""
    text = WEB.replace("no_tls: true", "no_tls: true, pass_cookie: word")
    with servers.running(servers.LEAFD, text) as server:
        for _ in range(3):
            for cookie, reason in (("Cookie: word=w\r\n", 0), ("Cookie: word=x\r\n", 5), ("", 5)):
                framed: Any = Framed(server.ports["web_port"], more=cookie)
                assert reason == answer(framed, user="web"), cookie


def test_a_proxy_may_say_whom_it_speaks_for() -> None:
    """With proxy_protocol: connz shows the device's address. (nats-server reads such headers at its clients' port
    alone.)"""
    text = BASE + 'proxy_protocol: true\nmqtt { listen: "127.0.0.1:{mqtt_port}" }\n'
    with servers.running(servers.LEAFD, text) as server:
        stream = socket.create_connection(("127.0.0.1", port(server)))
        stream.sendall(b"PROXY TCP4 192.0.2.1 198.51.100.2 40001 1883\r\n")
        with Peer(stream, client="c") as peer, Peer(port(server), client="d"):
            exchange(peer)
            found = {one["mqtt_client"]: one["ip"] for one in report(server, "connz")["connections"]}
            assert {"c": "192.0.2.1", "d": "127.0.0.1"} == found


def test_versions_may_be_left_out() -> None:
    """Who speaks another one is told so: return code 1, and reason 0x84 in 5."""
    for spoken, codes in (('["5"]', (1, 0)), ('["3.1.1"]', (0, 0x84)), ("[]", (0, 0))):
        text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", versions: ' + spoken + " }\n"
        with servers.running(servers.LEAFD, text) as server:
            found = []
            for level in mqtt.LEVELS:
                with Peer(port(server), level=level, begin=False) as peer:
                    peer.send(mqtt.connect(level, "c"))
                    found.append(peer.expect(CONNACK).reason)
            assert codes == tuple(found)


# ---- afterwards


def test_a_reload_takes_away_what_a_device_may_not_any_more() -> None:
    """A user who is gone is told why (0x87) and closed, and not let in again, however often it was before; one with
    fewer rights keeps the connection and loses those."""
    with (
        servers.running(servers.LEAFD, CONFIGURATION) as server,
        client(server, "gone", level=5, user="devices", password="d") as gone,
        client(server, "stays", level=5, user="limited", password="l") as stays,
        Nats(server) as nats,
    ):
        assert [0, 0] == stays.subscribe("down/a", "down/b")
        again = {"client": "again", "user": "devices", "password": "d"}
        assert [0, 0, 0] == [answer(port(server), **again) for _ in range(3)]
        exchanged(server, "{user: devices, password: d, allowed_connection_types: [MQTT]}", "")
        assert 5 == answer(port(server), **again)
        end = gone.ended()
        assert end is not None
        assert (DISCONNECT, 0x87) == (end.kind, end.reason)
        exchanged(server, 'deny: ["down.secret"]', 'deny: ["down.secret", "down.b"]')
        for subject in ("down.a", "down.b"):
            nats.publish(subject, b"x")
        nats.round_trip()
        assert ["down/a"] == [one.topic for one in stays.round_trip()]


@pytest.mark.parametrize("level", mqtt.LEVELS)
def test_a_reload_takes_from_a_session_what_its_device_may_not_hear_any_more(level: int) -> None:
    """Also where the right is not denied, but no longer given: while it is here, and when it comes back; and gives it
    back. nats-server goes on sending it while the connection lasts."""
    rights = 'allow: ["down.>", "$MQTT.>"], deny: ["down.secret"]'
    fewer = 'allow: ["down.a", "$MQTT.>"]'
    found = {"session_expiry": 600} if level == 5 else {}
    login = {"user": "limited", "password": "l", "level": level, "clean": False, "found": found}
    with servers.running(servers.LEAFD, CONFIGURATION) as server, client(server, "says") as says:

        def said(payload: bytes) -> None:
            for topic in ("down/b", "down/a"):
                says.publish(topic, payload, qos=1)
                says.expect(PUBACK)

        def heard(peer: Peer) -> list[tuple[str, bytes]]:
            """Up to the last that was said, which it always may hear."""
            messages: list[tuple[str, bytes]] = []
            while not messages or messages[-1][0] != "down/a":
                one = peer.expect(PUBLISH)
                peer.send(mqtt.acknowledge(PUBACK, one.id))
                messages.append((one.topic, one.payload))
            return messages

        with client(server, "kept", **login) as peer:
            assert [1, 1] == peer.subscribe(("down/a", 1), ("down/b", 1))
            said(b"1")
            assert [("down/b", b"1"), ("down/a", b"1")] == heard(peer)
            exchanged(server, rights, fewer)
            said(b"2")
            assert [("down/a", b"2")] == heard(peer)
        said(b"3")
        with client(server, "kept", **login) as peer:
            assert peer.welcome.session_present
            assert [("down/a", b"3")] == heard(peer)
            said(b"4")
            assert [("down/a", b"4")] == heard(peer)
        exchanged(server, fewer, rights)
        said(b"5")
        with client(server, "kept", **login) as peer:
            assert [("down/b", b"5"), ("down/a", b"5")] == heard(peer)


def test_what_a_reload_says_of_the_block_counts_for_who_comes_then() -> None:
    """The QoS that is granted, how much may be in flight; the listener itself takes a restart."""
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", downgrade_qos2_subscribe: false }\n'
    with servers.running(servers.LEAFD, text) as server:
        with client(server, "c") as peer:
            assert [2] == peer.subscribe(("a", 2))
        exchanged(server, "downgrade_qos2_subscribe: false", "downgrade_qos2_subscribe: true, receive_maximum: 7")
        with client(server, "d", level=5) as peer:
            assert 7 == peer.welcome.properties["receive_maximum"]
            assert [1] == peer.subscribe(("a", 2))


@BOTH
def test_quality_two_can_be_refused_to_publishers(kind: str) -> None:
    """reject_qos2_publish ends the connection of who tries, and a login with such a will."""
    text = (
        BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", reject_qos2_publish: true, downgrade_qos2_subscribe: true }\n'
    )
    with servers.running(kind, text) as server:
        with client(server, "c") as peer:
            assert [1, 1] == peer.subscribe(("a", 2), ("b", 1))
            peer.publish("x", b"", qos=2)
            assert peer.ended_without_a_word()
        with Peer(port(server), begin=False) as peer:
            peer.send(mqtt.connect(client="c", will=mqtt.Will("w", b"", qos=2)))
            assert peer.packet().reason != 0


def test_devices_are_told_that_the_server_ends() -> None:
    """DISCONNECT 0x8b (5: 3.14.2.1), by SIGTERM."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server, client(server, "c", level=5) as peer:
        peer.round_trip()
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        end = peer.ended()
        assert end is not None
        assert (DISCONNECT, 0x8B) == (end.kind, end.reason)


def test_nobody_waits_for_ever_before_the_login() -> None:
    """Silence, half a CONNECT and endless bytes end within the time of a login, and a device is served meanwhile."""
    text = CONFIGURATION.replace("no_auth_user: a", "no_auth_user: a\nauthorization { timeout: 1s }")
    beginnings = [b"", b"\x10", b"\x10\xff\xff\x03", b"\x10\x20\x00\x04MQTT", b"\x16\x03\x01\x00\x05", bytes(100_000)]
    with servers.running(servers.LEAFD, text) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(Peer(port(server), begin=False)) for _ in beginnings * 50]
        for peer, beginning in zip(silent, beginnings * 50, strict=True):
            with contextlib.suppress(ConnectionError):
                peer.send(beginning)
        with client(server, "c") as device:
            exchange(device)
            for peer in silent:
                peer.ended()
            exchange_again(device)


def test_before_the_login_a_packet_is_small() -> None:
    """16 KiB: one that announces more ends the connection before it has come. 5 has a reason for that (3.2.2.2)."""
    with servers.running(servers.LEAFD, CONFIGURATION) as server:
        for level in mqtt.LEVELS:
            whole = mqtt.connect(level, "c", will=mqtt.Will("w", bytes(17_000)))
            for sent in (whole, whole[:13]):
                with Peer(port(server), level=level, begin=False) as peer:
                    peer.send(sent)
                    last = peer.ended()
                    assert (None if level == 4 else (mqtt.CONNACK, 0x95)) == (last and (last.kind, last.reason))
        assert 0 == answer(port(server), client="c" * 15_000)


@BOTH
def test_no_more_is_in_flight_than_the_block_says(kind: str) -> None:
    """max_ack_pending: the next message comes when one is acknowledged, and none is lost."""
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}", max_ack_pending: 5 }\n'
    with servers.running(kind, text) as server, client(server, "s") as peer, client(server, "p") as other:
        peer.subscribe(("f", 1))
        for number in range(20):
            other.publish("f", str(number).encode(), qos=1)
            other.expect(PUBACK)
        waiting = [peer.expect(PUBLISH) for _ in range(5)]
        assert [] == peer.round_trip()
        for number in range(20):
            one = waiting.pop(0)
            assert str(number).encode() == one.payload
            peer.send(mqtt.acknowledge(PUBACK, one.id))
            if number < 15:
                waiting.append(peer.expect(PUBLISH))


def exchange_again(peer: Peer) -> None:
    peer.publish("x/y", b"again")
    assert b"again" == peer.expect(PUBLISH).payload


# ---- reports


@BOTH
def test_reports_know_devices(kind: str) -> None:
    """connz has their identifiers and finds them by these, varz the block, events of the system account the end."""
    text = BASE + 'mqtt { listen: "127.0.0.1:{mqtt_port}" }\n'
    text += "accounts { A { jetstream: true, users: [ {user: a, password: a} ] }\n"
    text += "$SYS { users: [ {user: s, password: s} ] } }\n"
    with servers.running(kind, text) as server, Nats(server, user="s", **{"pass": "s"}) as system:
        before = [answer(port(server), client=f"before-{n}", user="a", password="a") for n in range(3)]
        assert [0, 0, 0] == before  # so its login is known
        eventually(lambda: len(report(server, "connz?state=closed&acc=A")["connections"]) == 3)
        system.subscribe("$SYS.ACCOUNT.A.DISCONNECT")
        with client(server, "box-1", user="a", password="a") as peer:
            peer.subscribe("a/b")
            peer.publish("b", b"abc")
            peer.round_trip()
            (one,) = report(server, "connz?auth=1&mqtt_client=box-1")["connections"]
            assert ("Client", "mqtt", "box-1", "A", "a") == tuple(
                one[name] for name in ("kind", "type", "mqtt_client", "account", "authorized_user")
            )
            assert (1, 1) == (one["in_msgs"], one["subscriptions"])
            assert [] == report(server, "connz?mqtt_client=nobody")["connections"]
            assert (port(server), "127.0.0.1") == (
                report(server, "varz")["mqtt"]["port"],
                report(server, "varz")["mqtt"]["host"],
            )
        event = json.loads(system.message()[3])
        assert ("box-1", "mqtt", "Client") == tuple(
            event["client"][name] for name in ("client_id", "client_type", "kind")
        )
        (one,) = eventually(lambda: report(server, "connz?state=closed&mqtt_client=box-1")["connections"])
        assert ("mqtt", "Client Closed") == (one["type"], one["reason"])
