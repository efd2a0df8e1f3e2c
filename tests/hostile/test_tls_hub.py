"""A box that dials what is not its hub, over TLS: it tells it nothing, goes on for its own clients, and finds the right
one when that is there again. Beside nats-server.

Not here: who is hostile to a listener (test_tls.py), what a hub says behind the handshake
(test_origin.py).
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests import servers
from tests.certificates import Authority, Issued
from tests.hostile.wires import Asker
from tests.rig.waiting import PATIENCE_S, logged

SECRET: Final = b"n0body-hears-this"
BOX: Final = """
listen: "127.0.0.1:{port}"
server_name: "box"
leafnodes {
  reconnect: "200ms"
  remotes: [ {
    url: "tls://box:{secret}@localhost:{hub_port}"
    tls { ca_file: "{ca}", timeout: 1, handshake_first: true }
  } ]
}
"""
INFO: Final = (
    b'INFO {"server_id":"NDHUBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","server_name":"hub",'
    b'"version":"2.15.1","proto":1,"headers":true,"max_payload":1048576,"tls_required":true,"client_id":5,"info_on_connect":true}\r\n'
)
# That the operator finds in the log, each once it is the reason.
REASONS: Final = {
    servers.LEAFD: ("has expired", "not yet valid", "it is not of localhost", "unsuitable certificate purpose"),
    servers.REFERENCE: ("is after 2021", "is before 2040", "not localhost", "incompatible key usage"),
}
STAYS_S: Final = 3.0

Scene = Callable[[socket.socket], bytes]


def raw(*parts: bytes, stays: bool = True) -> Scene:
    """A hub that answers a hello with these bytes, and then waits or leaves."""

    def play(stream: socket.socket) -> bytes:
        stream.recv(65536)
        for part in parts:
            stream.sendall(part)
        found = b""
        while stays and (part := stream.recv(65536)):
            found += part
        return found

    return play


def showing(issued: Issued, *chain: Authority, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Scene:
    """A hub that shows a certificate and begins as a hub does: all that it hears."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    joined = issued.certificate.with_suffix(".joined")
    joined.write_bytes(
        b"".join(path.read_bytes() for path in (issued.certificate, *(one.certificate for one in chain)))
    )
    context.load_cert_chain(str(joined), str(issued.key))
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # to be out of date is its purpose
        context.minimum_version = min(newest, ssl.TLSVersion.TLSv1_2)
        context.maximum_version = newest

    def play(stream: socket.socket) -> bytes:
        found = b""
        with contextlib.suppress(OSError), context.wrap_socket(stream, server_side=True) as safe:
            safe.sendall(INFO)
            while SECRET not in found and (part := safe.recv(65536)):
                found += part
        return found

    return play


def scenes(authority: Authority, stranger: Authority) -> Iterator[tuple[str, Scene]]:
    """What the box meets, a dial each."""
    issue = authority.issue
    none = Authority(stranger.certificate.parent, "none", authority, section="leaf")
    yield "silence", raw()
    yield "the end", raw(stays=False)
    yield "no TLS", raw(INFO)
    yield "noise", raw(os.urandom(5000))
    yield "half a record", raw(b"\x16\x03\x03\x40\x00" + b"\x02\x00\x3f\xfc\x03\x03" + bytes(60))
    yield "a record too long", raw(b"\x16\x03\x03\xff\xff" + bytes(65_535))
    yield "records without content", raw(b"\x16\x03\x03\0\0" * 5000)
    yield (
        "a hello of another suite",
        raw(b"\x16\x03\x03\0\x2a\x02\0\0\x26\x03\x03" + bytes(32) + b"\0" + b"\0\x2f\0" + bytes(2)),
    )
    yield "an alert", raw(b"\x15\x03\x03\0\2\2\x28", stays=False)
    yield "a stranger's", showing(stranger.issue("foreign"), stranger)
    yield "below one that may not sign", showing(none.issue("unsigned"), none)
    yield "another name", showing(issue("elsewhere", names="DNS:elsewhere,IP:192.0.2.1"))
    yield "a name in its subject alone", showing(issue("subject", subject="/CN=localhost", names=""))
    yield "a name with a NUL", showing(issue("star", names="DNS:localhost.elsewhere,DNS:*.localhost"))
    yield "expired", showing(issue("old", times=("20200101000000Z", "20210101000000Z")))
    yield "not valid yet", showing(issue("young", times=("20400101000000Z", "20410101000000Z")))
    yield "for clients alone", showing(issue("clients", usage="clientAuth"))
    yield "an old version", showing(issue("version"), newest=ssl.TLSVersion.TLSv1_1)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_only_the_hub_hears_who_the_box_is(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Eighteen who are not the hub: none is told the password or anything else, local clients are served among them,
    and the nineteenth, who is, gets the login."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    heard = {}
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(PATIENCE_S)
        values = {"ca": authority.certificate, "secret": SECRET.decode(), "hub_port": listener.getsockname()[1]}
        box = stack.enter_context(servers.running(kind, BOX, **values))
        client = stack.enter_context(contextlib.closing(Asker(box.port)))
        client.send(b"SUB own 2\r\n")
        for name, scene in scenes(authority, stranger):
            stream, _ = listener.accept()
            with stream, contextlib.suppress(OSError):
                stream.settimeout(STAYS_S)
                heard[name] = scene(stream)
            client.send(b"PUB own 2\r\nhi\r\n")
            while (line := client.heard()) == b"PING":
                client.send(b"PONG\r\n")
            assert line == b"MSG own 2 2", name
            assert client.heard() == b"hi", name
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(PATIENCE_S)
            assert SECRET in showing(authority.issue("hub"))(stream), box.log
        assert {name for name, found in heard.items() if SECRET in found} == set()
        certificates = list(heard)[9:]
        assert {name: heard[name] for name in certificates} == dict.fromkeys(certificates, b"")
        for reason in REASONS[kind]:
            logged(box, reason)
        assert not [line for line in box.log.splitlines() if not line.startswith("[")]
