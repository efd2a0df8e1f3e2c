"""What clients of a cluster are told of its servers, over TCP and WebSocket, by nats-server and leafd in every mixture.

Not here: that clients go there (test_cluster.py), what is told without a cluster (test_websocket_told.py).
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.interop.test_websocket_told import Browser
from tests.rig.waiting import PATIENCE_S

CONFIG = """
listen: "127.0.0.1:{port}"
server_name: "{name}"
lame_duck_duration: 30s
websocket { listen: "127.0.0.1:{web_port}", no_tls: true }
authorization { user: u, password: p }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats://127.0.0.1:{first}" ], {cluster} }
{more}
"""
CONNECT = 'CONNECT {"protocol":1,"verbose":false,"user":"u","pass":"p"}\r\nPING\r\n'
L, R = servers.LEAFD, servers.REFERENCE
LINE_UPS = [(R, R), (L, R), (R, L), (L, L)]
MEMBERS = ("host", "port", "client_ip", "auth_required", "ldm")


@dataclass
class Pair:
    """Two servers of a cluster. The first one runs."""

    first: servers.Server
    second: servers.Server


@contextlib.contextmanager
def pair(kinds: tuple[str, str], folder: Path, more: str = "", cluster: str = "") -> Iterator[Pair]:
    first = servers.free_port()
    both = list[servers.Server]()
    for number, kind in enumerate(kinds):
        place = folder / f"s{number}"
        place.mkdir()
        port = {"route_port": first} if number == 0 else {}
        texts = {"name": f"s{number}", "first": first, "more": more, "cluster": cluster}
        both.append(servers.make(kind, CONFIG, place, **texts, **port))
    try:
        both[0].start()
        yield Pair(*both)
    finally:
        for one in both:
            if one.process is not None:
                one.stop()


def come(server: servers.Server) -> Browser:
    """A WebSocket client that has logged in."""
    client = Browser(server.ports["web_port"])
    client.info()
    client.say(CONNECT)
    client.until(b'"connect_info"')
    return client


def until_told(client: Browser, *urls: str) -> dict[str, Any]:
    """The first INFO, of those not seen yet, with these URLs in any order."""
    client.stream.settimeout(PATIENCE_S)
    while True:
        for text in re.findall(rb"INFO ([^\r]*)\r\n", client.heard):
            info: dict[str, Any] = json.loads(text)
            if sorted(info.get("connect_urls") or []) == sorted(urls):
                client.heard = client.heard.rpartition(text)[2]
                return {name: info.get(name) for name in MEMBERS}
        some = client.stream.recv(65536)
        assert some, f"it was closed: {client.heard[-1000:]!r}"
        client.heard += some
        if b"PING\r\n" in some:
            client.say("PONG\r\n")


@pytest.mark.parametrize("kinds", LINE_UPS, ids="-".join)
def test_web_clients_are_told_where_the_servers_are_reached_over_websocket(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    """And of nothing else: as a server comes, as it is about to end, and as it has ended. The first client who finds
    the port of a new one open is told of both."""
    with pair(kinds, tmp_path) as both:
        here, there = (f"127.0.0.1:{one.ports['web_port']}" for one in (both.first, both.second))
        member = {"host": "127.0.0.1", "client_ip": "127.0.0.1", "auth_required": True, "ldm": None}
        early = come(both.first)
        both.second.start()
        if both.second.kind == L:  # whose start takes longer: an open port means that it has joined
            expected = {f"127.0.0.1:{one.port}" for one in (both.first, both.second)}
            assert set(json.loads(both.second.greeting[5:])["connect_urls"]) == expected
            with socket.create_connection(("127.0.0.1", both.first.port)) as fresh, fresh.makefile("rb") as lines:
                assert set(json.loads(lines.readline()[5:])["connect_urls"]) == expected
        first, second = both.first.ports["web_port"], both.second.ports["web_port"]
        assert until_told(early, here, there) == member | {"port": first}
        late = come(both.second)
        assert until_told(late, here, there) == member | {"port": second}
        assert both.second.process is not None
        both.second.process.send_signal(signal.SIGUSR2)
        assert until_told(early, here) == member | {"port": first}
        assert until_told(late, here) == member | {"port": second, "ldm": True}
        both.second.kill()
        both.second.start()
        assert until_told(early, here, there) == member | {"port": first}
        both.second.kill()
        assert until_told(early, here) == member | {"port": first}
        for one in (early, late):
            one.close()
