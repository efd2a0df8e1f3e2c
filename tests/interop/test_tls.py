"""TLS as clients and leaf nodes see it, of leafd and of the reference: who gets in, who does not, and what is said.

A promise that is made for both kinds of server is one that the reference keeps, too. What does not live here: what a
tls block may say (tests/unit/config), certificates as logins (tests/unit/auth).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest

from tests import servers
from tests.certificates import Authority, Issued

SERVER = """
listen: "127.0.0.1:{port}"
server_name: "one"
tls { cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}"
  {more} }
{rest}
"""
PATIENCE_S = 20.0


@dataclass
class Files:
    """An authority with a server's and a client's certificate."""

    authority: Authority
    server: Issued
    client: Issued

    def trusting(self, *, showing: Issued | None = None) -> ssl.SSLContext:
        """What a client uses that trusts the authority."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if showing is not None:
            context.load_cert_chain(str(showing.certificate), str(showing.key))
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return Files(authority, authority.issue("server"), authority.issue("client"))


@contextlib.contextmanager
def serving(kind: str, files: Files, more: str = "", rest: str = "", shown: Issued | None = None) -> Iterator[Any]:
    shown = shown or files.server
    values = {"cert": shown.certificate, "key": shown.key, "ca": files.authority.certificate}
    with servers.running(kind, SERVER, **values, more=more, rest=rest) as server:
        yield server


def plain(server: servers.Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)


def info_of(sock: socket.socket) -> dict[str, Any]:
    """The INFO line, and not a byte more."""
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        assert byte, line
        line += byte
    found: dict[str, Any] = json.loads(line.removeprefix(b"INFO "))
    return found


def rest_of(sock: socket.socket) -> bytes:
    """What else comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(4096):
            found += part
    return found


def wait_for(server: servers.Server, text: str) -> str:
    """The log's line with that text."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for line in server.log.splitlines():
            if text in line:
                return line
        time.sleep(0.05)
    raise AssertionError(f"no {text!r} in:\n{server.log[-4000:]}")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_messages_of_every_size_pass_in_order(kind: str, files: Files) -> None:
    """Whatever goes in comes out, small ones by the thousand and large ones."""
    sizes = [*range(600), 16_383, 16_384, 16_385, 100_000, 1_000_000, 3]

    async def main(server: servers.Server) -> None:
        client = await nats.connect(f"tls://127.0.0.1:{server.port}", tls=files.trusting())
        got = await client.subscribe("t", pending_bytes_limit=-1)
        for number, size in enumerate(sizes):
            await client.publish("t", bytes([number % 251]) * size)
        for number, size in enumerate(sizes):
            message = await got.next_msg(PATIENCE_S)
            assert message.data == bytes([number % 251]) * size
        await client.close()

    with serving(kind, files) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("kind", servers.KINDS)
def test_info_says_that_tls_is_needed(kind: str, files: Files) -> None:
    """INFO goes out in plain text, and says what is needed."""
    with serving(kind, files) as server, plain(server) as sock:
        info = info_of(sock)
        assert info["tls_required"] and "tls_verify" not in info and "tls_available" not in info
    with serving(kind, files, more="verify: true") as server, plain(server) as sock:
        assert info_of(sock)["tls_verify"]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_plain_text_is_refused_without_a_word(kind: str, files: Files) -> None:
    """A client without TLS gets INFO and then the end of the connection."""
    with serving(kind, files) as server, plain(server) as sock:
        info_of(sock)
        sock.sendall(b"CONNECT {}\r\nPING\r\n")
        assert b"PONG" not in rest_of(sock)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_verify_lets_in_who_shows_a_certificate(kind: str, files: Files, tmp_path: Path) -> None:
    """With verify: nobody without a certificate, nobody with a stranger's, and who has one of the authority's."""
    stranger = Authority(tmp_path, "stranger").issue("guest")

    async def rtt(server: servers.Server, context: ssl.SSLContext) -> None:
        client = await nats.connect(
            f"tls://127.0.0.1:{server.port}", tls=context, allow_reconnect=False, connect_timeout=5
        )
        await client.flush(5)
        await client.close()

    with serving(kind, files, more="verify: true") as server:
        asyncio.run(rtt(server, files.trusting(showing=files.client)))
        for context in (files.trusting(), files.trusting(showing=stranger)):
            with pytest.raises((nats.errors.Error, ssl.SSLError, OSError, TimeoutError)):
                asyncio.run(rtt(server, context))


HUB = """
listen: "127.0.0.1:{port}"
server_name: "hub"
leafnodes {
  listen: "127.0.0.1:{leaf_port}"
  tls { cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}", verify: true
    {hub_more} }
}
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: "leaf"
leafnodes {
  reconnect: 1
  remotes: [ {
    url: "tls://localhost:{hub_port}"
    tls { cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}"
      {leaf_more} }
  } ]
}
"""


@contextlib.contextmanager
def linked(
    kinds: tuple[str, str], files: Files, hub_more: str = "", leaf_more: str = ""
) -> Iterator[tuple[servers.Server, servers.Server]]:
    """A hub and a leaf that dials it."""
    own = {"ca": files.authority.certificate, "hub_more": hub_more, "leaf_more": leaf_more}
    with servers.running(kinds[0], HUB, cert=files.server.certificate, key=files.server.key, **own) as hub:
        own |= {"cert": files.client.certificate, "key": files.client.key, "hub_port": hub.ports["leaf_port"]}
        with servers.running(kinds[1], LEAF, **own) as leaf:
            yield hub, leaf


async def crosses(origin: servers.Server, target: servers.Server) -> None:
    """A message of one server's client comes to a client of the other."""
    there, here = await nats.connect(target.url), await nats.connect(origin.url)
    got = await there.subscribe("over.tls")
    await there.flush()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        await here.publish("over.tls", b"x" * 50_000)
        try:
            assert (await got.next_msg(0.5)).data == b"x" * 50_000
            break
        except nats.errors.TimeoutError:
            assert time.monotonic() < deadline, origin.log[-2000:] + target.log[-2000:]
    await there.close()
    await here.close()


LINE_UPS = [(hub, leaf) for hub in servers.KINDS for leaf in servers.KINDS]


@pytest.mark.parametrize("kinds", LINE_UPS, ids=lambda kinds: f"{kinds[0]}-{kinds[1]}")
def test_a_leaf_link_is_encrypted_at_both_ends(kinds: tuple[str, str], files: Files) -> None:
    """Messages pass both ways over a link whose both ends show certificates, whoever is at the other end."""
    with linked(kinds, files) as (hub, leaf):
        asyncio.run(crosses(hub, leaf))
        asyncio.run(crosses(leaf, hub))
