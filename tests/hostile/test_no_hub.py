"""Something else answers at a hub's address: a proxy whose hub is away, another service, a hub of another authority.
The box's log says which of these it is, and the box links when the hub is there.

Not here: how often it dials meanwhile (unit/links/test_redial.py), a hub whose INFO is wrong (test_hub_info.py).
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.hostile.test_hub_gossip import LEAF, played
from tests.interop.test_hub_servers import hub_of
from tests.rig.waiting import PATIENCE_S, eventually
from tests.servers import LEAFD, Server, make, running

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nServer: proxy\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry"
BANNER = b"SSH-2.0-OpenSSH_9.2\r\n"
SOMETHING = "no hub answers there, but something else or a proxy before it: "
WEB = LEAF.replace("nats-leaf://user:secret@", "ws://")
HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}"
  %s }
websocket { listen: "127.0.0.1:{web_port}", no_tls: true }
"""


def told(box: Server, words: str) -> None:
    eventually(lambda: words in box.log, lambda: box.log[-3000:])


def test_a_proxy_whose_hub_is_away_is_named_and_the_box_links_when_it_is_there(tmp_path: Path) -> None:
    hub = make(LEAFD, HUB % "", tmp_path)
    with (
        socket.create_server(("127.0.0.1", hub.ports["web_port"])) as proxy,
        running(LEAFD, WEB, hub=hub.ports["web_port"]) as box,
    ):
        proxy.settimeout(PATIENCE_S)
        for _ in range(3):
            connection, _ = proxy.accept()
            with connection:
                connection.settimeout(PATIENCE_S)
                connection.recv(65_536)
                connection.sendall(BAD_GATEWAY)
                connection.recv(65_536)
        told(box, f"{SOMETHING}\"the hub answers the WebSocket request with '502 Bad Gateway'\"")
        proxy.close()
        hub.start()
        try:
            eventually(lambda: hub_of(box)["connected"], lambda: box.log[-3000:])
        finally:
            hub.stop()


def test_another_service_is_no_hub() -> None:
    with played() as (liar, box):
        connection, _ = liar.listener.accept()
        with connection:
            connection.sendall(BANNER)
            connection.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(1000) == b""
        told(box, SOMETHING)
        liar.link([])
        eventually(lambda: hub_of(box)["connected"], lambda: box.log[-3000:])


@pytest.mark.parametrize("whose", ["the hub's", "the box's"])
def test_a_certificate_that_is_not_accepted_is_no_end_by_the_hub(whose: str, tmp_path: Path) -> None:
    known, other = tmp_path / "known", tmp_path / "other"
    known.mkdir()
    other.mkdir()
    ours, theirs = Authority(known), Authority(other)
    server, client = ours.issue("hub"), theirs.issue("box")
    asks = f"ca_file: '{ours.certificate}', verify: true" if whose == "the box's" else ""
    hub_tls = f"tls {{ cert_file: '{server.certificate}', key_file: '{server.key}', {asks} }}"
    trusted = ours if whose == "the box's" else theirs
    box_tls = f"tls {{ ca_file: '{trusted.certificate}', cert_file: '{client.certificate}', key_file: '{client.key}' }}"
    text = LEAF.replace("user:secret@127.0.0.1", "localhost").replace("compression: off", box_tls)
    with running(LEAFD, HUB % hub_tls) as hub, running(LEAFD, text, hub=hub.ports["leaf_port"]) as box:
        told(box, "there is no TLS with the hub: ")
