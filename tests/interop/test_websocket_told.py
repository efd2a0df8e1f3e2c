"""What nats-server and leafd tell and take over WebSocket alike, asked of both: INFO, names in the log, kinds of
connections, pings. In frames written here, so that nothing of a client's stands between."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import time
import urllib.request
from typing import Any

import pytest

from tests import servers

SECONDS_MAX = 10.0


class Browser:
    """A WebSocket that says and hears lines."""

    def __init__(self, port: int, *more: str, path: str = "/") -> None:
        key = base64.b64encode(bytes(16)).decode()
        head = "\r\n".join(
            (
                f"GET {path} HTTP/1.1",
                "Host: x",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Version: 13",
                f"Sec-WebSocket-Key: {key}",
                *more,
                "",
                "",
            )
        )
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
        self.stream.sendall(head.encode())
        self.heard = b""
        self.until(b"\r\n\r\n")

    def say(self, text: str) -> None:
        body = text.encode()
        size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + len(body).to_bytes(2, "big")
        self.stream.sendall(b"\x82" + size + bytes(4) + body)

    def until(self, *ends: bytes) -> bytes:
        """All that was heard, once one of these is in it or the server has closed."""
        while not any(end in self.heard for end in ends):
            some = self.stream.recv(65536)
            if not some:
                break
            self.heard += some
        return self.heard

    def info(self) -> dict[str, Any]:
        """The last INFO."""
        self.until(b"INFO ")
        while not re.search(rb"INFO [^\r]*\r\n", self.heard):
            self.until(self.heard + b"\r\n")
        found: dict[str, Any] = json.loads(re.findall(rb"INFO ([^\r]*)\r\n", self.heard)[-1])
        return found

    def close(self) -> None:
        self.stream.close()


def told(kind: str) -> dict[str, Any]:
    """What a client behind a proxy is told, and what others are told of it."""
    text = 'port: {port}\nhttp: "127.0.0.1:{http_port}"\ndebug: true\nclient_advertise: "y.example:4222"\n'
    text += 'websocket { port: {web_port}, no_tls: true, advertise: "x.example:443" }\n'
    with servers.running(kind, text) as server:
        port = server.ports["web_port"]
        browser = Browser(port, "X-Forwarded-For: 10.1.2.3")
        first = browser.info()
        browser.say('CONNECT {"protocol":1,"verbose":false}\r\nPING\r\n')
        browser.until(b"PONG")
        time.sleep(0.2)
        browser.say("PING\r\n")
        while browser.heard.count(b"PONG") < 2:
            browser.heard += browser.stream.recv(65536)
        second = browser.info()
        others = [Browser(port, f"X-Forwarded-For: {one}") for one in ("::1", "10.1.2.3, 10.1.2.4", "nobody")]
        for other in others:
            other.info()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/connz", timeout=10) as answer:
            listed = json.load(answer)["connections"][0]
        names = re.findall(r"(\S*)127\.0\.0\.1:\d+ - (\w+):\d+ - Client connection created", server.log)
        names = [name for name in names if name[1] == "wid"]
        assert server.process is not None
        server.process.send_signal(signal.SIGUSR2)
        browser.until(b'"ldm"')
        third = browser.info()
        for one in (browser, *others):
            one.close()
    keys = ("connect_urls", "ws_connect_urls", "host", "tls_required", "tls_available", "auth_required", "client_ip")
    infos = [{key: info.get(key) for key in keys} for info in (first, second)]
    return {
        "infos": infos,
        "ports": [info["port"] == port for info in (first, second)],
        "farewell": {key: third.get(key) for key in ("ldm", "client_ip")},
        "names": [*names[:1], *sorted(names[1:])],  # those that came at one time are logged in any order
        "connz": {key: listed.get(key) for key in ("ip", "kind", "type")},
    }


def test_info_and_names_are_the_references() -> None:
    """INFO speaks of the listener that a client came to, names no other addresses, and the address that a proxy tells
    of is in the log alone, if it is one. In lame duck mode, too."""
    found = {kind: told(kind) for kind in servers.KINDS}
    assert found[servers.REFERENCE]["names"][0] == ("10.1.2.3/", "wid")  # the question is asked rightly
    assert found[servers.REFERENCE] == found[servers.LEAFD]


WAYS = ("client", "web client", "leaf", "web leaf")
TYPES = ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS", "leafnode_ws")


def lets_in(server: servers.Server, way: str, user: str) -> bool:
    """Whether a login by that way comes through."""
    login = json.dumps({"user": user, "pass": "p", "verbose": False, "name": "edge", "version": "2.15.1"})
    said = f"CONNECT {login}\r\nPING\r\n"
    if way.startswith("web"):
        browser = Browser(server.ports["web_port"], path="/leafnode" if way.endswith("leaf") else "/")
        browser.info()
        browser.say(said)
        heard = browser.until(b"PONG", b"-ERR")
        browser.close()
        return b"PONG" in heard and b"-ERR" not in heard
    port = server.ports["leaf_port"] if way == "leaf" else server.port
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as stream:
        stream.sendall(said.encode())
        heard = b""
        while b"PONG" not in heard and b"-ERR" not in heard and (some := stream.recv(65536)):
            heard += some
    return b"PONG" in heard and b"-ERR" not in heard


def let_in(kind: str) -> dict[str, list[str]]:
    users = "\n".join(f"{{user: u{n}, password: p, allowed_connection_types: [{one}]}}" for n, one in enumerate(TYPES))
    text = "port: {port}\nserver_name: hub\nleafnodes { port: {leaf_port} }\n"
    text += "websocket { port: {web_port}, no_tls: true }\naccounts { A { users: [\n" + users + "\n] } }\n"
    with servers.running(kind, text) as server:
        return {one: [way for way in WAYS if lets_in(server, way, f"u{n}")] for n, one in enumerate(TYPES)}


def test_each_kind_of_connection_has_its_name() -> None:
    """A user who may connect in one way only may in that one: a leaf link over WebSocket is LEAFNODE_WS."""
    found = {kind: let_in(kind) for kind in servers.KINDS}
    assert found[servers.REFERENCE]["LEAFNODE_WS"] == ["web leaf"]
    assert found[servers.REFERENCE] == found[servers.LEAFD]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_who_says_nothing_of_itself_is_the_user_of_the_block(kind: str) -> None:
    """The block's no_auth_user is for clients and leaf links that come over WebSocket, not for others."""
    text = "port: {port}\nserver_name: hub\nleafnodes { port: {leaf_port} }\n"
    text += "websocket { port: {web_port}, no_tls: true, no_auth_user: w }\n"
    text += "accounts { A { users: [ {user: w, password: p} ] } }\n"
    with servers.running(kind, text) as server:
        for path, port in (("/", server.ports["web_port"]), ("/leafnode", server.ports["web_port"])):
            browser = Browser(port, path=path)
            browser.info()
            browser.say('CONNECT {"verbose":false,"name":"edge","version":"2.15.1"}\r\nPING\r\n')
            assert b"-ERR" not in browser.until(b"PONG", b"-ERR")
            browser.close()
        with socket.create_connection(("127.0.0.1", server.ports["leaf_port"]), timeout=SECONDS_MAX) as stream:
            stream.sendall(b'CONNECT {"verbose":false,"name":"edge","version":"2.15.1"}\r\nPING\r\n')
            heard = b""
            while b"-ERR" not in heard and (some := stream.recv(65536)):
                heard += some
            assert b"Authorization Violation" in heard


@pytest.mark.parametrize("kind", servers.KINDS)
def test_pings_come_at_the_blocks_interval(kind: str) -> None:
    """ping_interval of the block counts for clients and leaf links over WebSocket: who does not answer is sent away
    after ping_max of them, and the interval of the server, two minutes, is nobody's there."""
    text = "port: {port}\nserver_name: hub\nleafnodes { port: {leaf_port} }\nping_max: 2\n"
    text += "websocket { port: {web_port}, no_tls: true, ping_interval: '1s' }\n"
    with servers.running(kind, text) as server:
        for path in ("/", "/leafnode"):
            browser = Browser(server.ports["web_port"], path=path)
            browser.info()
            browser.say('CONNECT {"verbose":false,"name":"edge","version":"2.15.1"}\r\n')
            heard = browser.until(b"Stale Connection")
            assert heard.count(b"PING\r\n") == 2
            browser.close()
