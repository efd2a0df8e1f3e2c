"""TLS on every port, both ways, beside nats-server: records, hellos and certificates that are wrong on purpose.

Not here: plain text where the handshake belongs (test_tls_first.py), masses that never finish
(interop/test_tls_attacks.py), how the records are made (forged_records.py).
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import servers
from tests.certificates import Authority, Issued
from tests.hostile.forged_records import ANSWERS, ATTACKS, CLIENT, HTTP, WEBSOCKET, outcomes
from tests.hostile.test_tls_first import hello
from tests.interop.test_tls import Files
from tests.rig.waiting import PATIENCE_S

PORTS: Final = """
listen: "127.0.0.1:{port}"
https: "127.0.0.1:{https_port}"
tls { {pair}, {more}
  handshake_first: "1s" }
leafnodes { listen: "127.0.0.1:{leaf_port}", tls { {pair}, {more}
  handshake_first: "1s" } }
websocket { listen: "127.0.0.1:{web_port}", tls { {pair}, {more}
} }
"""
REQUESTS: Final = {"port": CLIENT, "leaf_port": CLIENT, "web_port": WEBSOCKET, "https_port": HTTP}
GO_ON: Final = {"nothing", "5 records without content", "an update of the keys", "an update that asks for one"}
UPDATES: Final = {"2,000 updates", "2,000 updates that ask"}
# RFC 8446, 5: behind the handshake it ends the connection. nats-server takes it as nothing.
CIPHERS: Final = "a change of ciphers"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return Files(authority, authority.issue("server"), authority.issue("client"))


@contextlib.contextmanager
def serving(kind: str, files: Files, more: str = "") -> Iterator[servers.Server]:
    """All four ports with TLS."""
    pair = f"cert_file: '{files.server.certificate}', key_file: '{files.server.key}'"
    more = f"ca_file: '{files.authority.certificate}'\n{more}"
    with servers.running(kind, PORTS, pair=pair, more=more) as server:
        yield server


def admitted(server: servers.Server, name: str, context: ssl.SSLContext) -> bool:
    """Whether that port answers a request behind the handshake."""
    request, found = REQUESTS[name], b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", server.ports[name]), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as safe,
    ):
        safe.sendall(request)
        while ANSWERS[request] not in found and (part := safe.recv(65536)):
            found += part
    return ANSWERS[request] in found


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_wrong_record_ends_its_connection_and_no_other(kind: str, files: Files) -> None:
    """On each port, of every wrong record what the reference makes of it: the end, and no answer to what is behind."""
    with serving(kind, files) as server:
        for name, request in REQUESTS.items():
            expected = {attack: attack in GO_ON for attack in ATTACKS}
            found = outcomes(server.ports[name], request)
            if kind == servers.LEAFD and name == "https_port":
                expected |= dict.fromkeys(UPDATES, True)  # Python's ssl, which serves it, bounds no updates
            if kind != servers.LEAFD:
                expected[CIPHERS] = found[CIPHERS]
            assert expected == found, name
        assert all(admitted(server, name, files.trusting()) for name in REQUESTS)
        if kind == servers.LEAFD:
            assert "more than 16 updates of its keys at once" in server.log


def spoiled_hellos(record: bytes) -> Iterator[bytes]:
    """First the names that no host has, then what chance makes of it."""
    place = record.index(b"localhost")
    for name in (b"\0" * 9, b"local\0ost", b"LOCALHOST", b"../../../", b"\xff" * 9, b"*.*.*.*.*", b"\r\n[INF] x"):
        yield record[:place] + name[:9].ljust(9, b".") + record[place + 9 :]
    for at in range(place - 9, place):  # the lengths around it
        for value in (0, 1, 255):
            yield record[:at] + bytes([value]) + record[at + 1 :]
    chance = random.Random(20261124)
    for _ in range(300):
        found = bytearray(record)
        for _ in range(chance.randint(1, 4)):
            found[chance.randrange(5, len(found))] = chance.randrange(256)
        yield bytes(found[: chance.randint(6, len(found))] if chance.random() < 0.2 else found)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_no_hello_ends_a_server_or_writes_its_log(kind: str, files: Files) -> None:
    """Names that are none, wrong lengths, chance: the ports go on, and the log's lines are the server's own."""
    with serving(kind, files) as server:
        for name in REQUESTS:
            for record in spoiled_hellos(hello(files)):
                with socket.create_connection(("127.0.0.1", server.ports[name]), PATIENCE_S) as sock:
                    sock.sendall(record)
            assert admitted(server, name, files.trusting()), name
        assert not [line for line in server.log.splitlines() if not line.startswith("[")]
        assert not [one for one in server.log if ord(one) < 0x20 and one != "\n"]


class Shown:
    """Certificates that a client may show: each with its chain, as a context."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files, self._folder = files, folder

    def with_chain(self, issued: Issued, *above: Authority) -> ssl.SSLContext:
        """A client that shows it, and behind it the authorities in that order."""
        joined = self._folder / "joined.pem"
        joined.write_bytes(
            b"".join(path.read_bytes() for path in (issued.certificate, *(one.certificate for one in above)))
        )
        context = ssl.create_default_context(cafile=str(self._files.authority.certificate))
        context.load_cert_chain(str(joined), str(issued.key))
        return context

    def chain_of(self, count: int, depth: str = "") -> ssl.SSLContext:
        """So many authorities between the root and the certificate. depth: what the first one allows below it."""
        above = [self._files.authority]
        for number in range(count):
            name = f"middle-{count}-{number}{depth[-1:]}"
            above.append(Authority(self._folder, name, above[-1], depth="" if number else depth))
        return self.with_chain(above[-1].issue(f"end-{count}{depth[-1:]}"), *reversed(above[1:]))

    def all(self) -> dict[str, tuple[ssl.SSLContext, bool]]:
        """By name, and whether it lets a client in."""
        own, folder = self._files.authority, self._folder
        issue = own.issue
        middle = Authority(folder, "middle", own)
        none = Authority(folder, "none", own, section="leaf")
        stranger = Authority(folder, "stranger")
        names = ",".join(f"DNS:host-{number:040}" for number in range(1200))
        return {
            "its own": (self.with_chain(issue("plain")), True),
            "one between": (self.with_chain(middle.issue("below"), middle), True),
            "one between, shown 40 times": (self.with_chain(middle.issue("forty"), *[middle] * 40), True),
            "with strangers in its chain": (self.with_chain(issue("crowd"), stranger, middle, stranger), True),
            "1,200 names": (self.with_chain(issue("names", names=names)), True),
            "a chain of 12": (self.chain_of(12), True),
            "one that is not shown": (self.with_chain(middle.issue("missing")), False),
            "a stranger's": (self.with_chain(stranger.issue("foreign"), stranger), False),
            "below one that may not sign": (self.with_chain(none.issue("unsigned"), none), False),
            "deeper than allowed": (self.chain_of(2, ",pathlen:0"), False),
            "expired": (self.with_chain(issue("old", times=("20200101000000Z", "20210101000000Z"))), False),
            "not valid yet": (self.with_chain(issue("young", times=("20400101000000Z", "20410101000000Z"))), False),
            "for servers alone": (self.with_chain(issue("servers", usage="serverAuth")), False),
            "for mail alone": (self.with_chain(issue("mail", usage="emailProtection")), False),
        }


@pytest.mark.parametrize("kind", servers.KINDS)
def test_only_a_certificate_that_the_authority_vouches_for_lets_in(kind: str, files: Files, tmp_path: Path) -> None:
    """Whatever the chain looks like, on each port that asks for certificates."""
    contexts = Shown(files, tmp_path).all()
    with serving(kind, files, "verify: true") as server:
        for name in ("port", "leaf_port", "web_port"):
            found = {what: admitted(server, name, context) for what, (context, _) in contexts.items()}
            assert {what: lets_in for what, (_, lets_in) in contexts.items()} == found, name
            assert not admitted(server, name, files.trusting()), "without one"


@pytest.mark.parametrize("kind", servers.KINDS)
def test_half_a_hello_on_every_port_keeps_nobody_out(kind: str, files: Files) -> None:
    """Five hundred on each port, all at once and for good: who finishes his handshake is served on each."""
    record = hello(files)
    with contextlib.ExitStack() as stack, serving(kind, files) as server:
        for number in range(500):
            for name in REQUESTS:
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[name]), PATIENCE_S))
                with contextlib.suppress(ConnectionError):  # the first ones may have had their time
                    sock.sendall(record[: number % len(record)])
        assert all(admitted(server, name, files.trusting()) for name in REQUESTS)
