"""A hub that lies about its other servers: a leaf keeps what it may, and comes back to the configured address."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from leafd.links.hub_servers import LEARNED_MAX

from tests import servers
from tests.interop.test_hub_servers import hub_of
from tests.rig.waiting import PATIENCE_S, eventually

LEAF = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: leaf
leafnodes { listen: "127.0.0.1:{leaf_port}", reconnect: 200ms
  remotes: [ { url: "nats-leaf://user:secret@127.0.0.1:{hub}", compression: off } ] }
"""
INFO: dict[str, Any] = {
    "server_id": "LIAR", "server_name": "liar", "version": "2.15.1", "proto": 3, "host": "10.0.0.1", "port": 7422,
    "headers": True, "max_payload": 1 << 20, "client_id": 1, "info_on_connect": True, "nonce": "x",
}  # fmt: skip


class Liar:
    """A hub that lets everybody in and says what it likes."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def link(self, told: list[str]) -> socket.socket:
        """The next one that dials is let in, and is told of these."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        self._open.append(connection)
        self.say(connection, INFO)
        heard = b""
        while b"CONNECT " not in heard or not heard.endswith(b"\n"):
            some = connection.recv(65536)
            assert some, "it went before it had logged in"
            heard += some
        self.say(connection, INFO | {"connect_info": True, "remote_account": "A", "leafnode_urls": told})
        return connection

    def say(self, connection: socket.socket, info: dict[str, Any]) -> None:
        connection.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")

    def close(self) -> None:
        for one in (self.listener, *self._open):
            one.close()


@contextmanager
def played() -> Iterator[tuple[Liar, servers.Server]]:
    liar = Liar()
    try:
        with servers.running(servers.LEAFD, LEAF, hub=liar.port) as leaf:
            yield liar, leaf
    finally:
        liar.close()


def places(count: int) -> list[str]:
    return [f"10.{number >> 8 & 255}.{number & 255}.1:7422" for number in range(count)]


def learned(leaf: servers.Server) -> list[str]:
    found: list[str] = hub_of(leaf)["learned"]
    return found


def test_of_a_line_full_of_addresses_a_bounded_number_is_kept() -> None:
    """As many as one INFO carries, in the first one and in each that follows."""
    with played() as (liar, leaf):
        connection = liar.link(places(2500))
        eventually(lambda: len(learned(leaf)) == LEARNED_MAX, lambda: leaf.log[-3000:])
        for again in range(20):
            told = [f"10.200.{again}.{number}:7422" for number in range(200)]
            liar.say(connection, INFO | {"leafnode_urls": told})
        eventually(lambda: len(learned(leaf)) == LEARNED_MAX and learned(leaf)[0].startswith("10.200.19."))
        eventually(lambda: hub_of(leaf)["connected"])


def test_ten_thousand_addresses_are_more_than_a_line_may_have_and_end_the_link() -> None:
    """Which comes back to the same hub."""
    with played() as (liar, leaf):
        connection = liar.link([])
        eventually(lambda: hub_of(leaf)["connected"])
        liar.say(connection, INFO | {"leafnode_urls": places(10_000)})
        liar.link([])
        eventually(lambda: hub_of(leaf)["connected"])
        assert learned(leaf) == []


@pytest.mark.parametrize("far", [False, True], ids=["this machine's own", "nobody's"])
def test_a_leaf_that_was_told_of_itself_or_of_nobody_comes_back_to_the_configured_hub(*, far: bool) -> None:
    """Its own listener, ports where nobody listens, one where nobody speaks."""
    with played() as (liar, leaf), socket.create_server(("127.0.0.1", 0)) as silent:
        told = [f"127.0.0.1:{leaf.ports['leaf_port']}", "127.0.0.1:1", "127.0.0.1:2"]
        told = [f"127.0.0.1:{silent.getsockname()[1]}"] if far else told
        for _ in range(2):
            connection = liar.link(told)
            eventually(lambda: sorted(learned(leaf)) == sorted(told), lambda: leaf.log[-3000:])
            connection.close()
        liar.link(told)
        eventually(lambda: hub_of(leaf)["connected"])
        assert "secret" not in json.dumps(hub_of(leaf))


def test_what_is_no_address_is_left_out() -> None:
    words = [
        "",
        ":",
        "a b:1",
        "0.0.0.0:1",
        "h:0",
        "h:65536",
        "u:p@h:1",
        "h/x:1",
        "x" * 60_000,
        "\ud800:1",
        "ok.example:1",
    ]
    with played() as (liar, leaf):
        liar.link(words)
        eventually(lambda: hub_of(leaf)["connected"], lambda: leaf.log[-3000:])
        assert learned(leaf) == ["ok.example:1"]
