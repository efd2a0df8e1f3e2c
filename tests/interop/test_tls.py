"""TLS as clients and leaf nodes see it, of leafd and of the reference: who gets in, who does not, and what is said.

A promise that is made for both kinds of server is one that the reference keeps, too. Not here: what a
tls block may say (tests/unit/config), certificates as logins (tests/unit/auth).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest

from tests import servers
from tests.certificates import Authority, Issued
from tests.rig.waiting import PATIENCE_S, logged

SERVER = """
listen: "127.0.0.1:{port}"
server_name: "one"
tls { cert_file: "{cert}", key_file: "{key}", ca_file: "{ca}"
  {more} }
{rest}
"""


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
        assert info["tls_required"]
        assert "tls_verify" not in info
        assert "tls_available" not in info
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


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_namesake_of_the_authority_is_an_unknown_one(kind: str, files: Files, tmp_path: Path) -> None:
    """A certificate signed by another authority of the same name, whose key it does not name: the client hears that the
    authority is unknown."""
    nameless = "DNS:localhost\nauthorityKeyIdentifier = none"
    context = files.trusting(showing=Authority(tmp_path).issue("client", names=nameless))
    with serving(kind, files, more="verify: true") as server, plain(server) as sock:
        info_of(sock)
        with (
            pytest.raises(ssl.SSLError, match="UNKNOWN_CA"),
            context.wrap_socket(sock, server_hostname="127.0.0.1") as secure,
        ):
            secure.recv(1)


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


@contextlib.contextmanager
def serving_first(kind: str, files: Files, more: str, rest: str = "") -> Iterator[servers.Server]:
    """A server that may say nothing before a handshake, so that its log tells when it is there."""
    values = {"cert": files.server.certificate, "key": files.server.key, "ca": files.authority.certificate}
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as directory:
        reports = 'http: "127.0.0.1:{http_port}"\n'
        server = servers.make(kind, SERVER + reports, Path(directory), **values, more=more, rest=rest)
        (server.directory / "server.conf").write_text(server.configuration)
        with (server.directory / "log").open("ab") as output:
            words = [*servers.command(kind), "-c", str(server.directory / "server.conf")]
            server.process = subprocess.Popen(words, stdout=output, stderr=output, cwd=server.directory)
        try:
            logged(server, "Server is ready")
            yield server
        finally:
            server.stop()


def shaken(sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """The same connection with TLS."""
    return context.wrap_socket(sock, server_hostname="localhost")


def ping(sock: socket.socket) -> None:
    """Logs in and is answered."""
    sock.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    found = b""
    while b"PONG\r\n" not in found:
        part = sock.recv(4096)
        assert part, found
        found += part


def log_in(server: servers.Server, context: ssl.SSLContext) -> None:
    """All of it: INFO, handshake, CONNECT and the answer to a PING."""
    with plain(server) as sock:
        info_of(sock)
        with shaken(sock, context) as safe:
            ping(safe)


def came_first(server: servers.Server) -> list[object]:
    """What connz says of each client's handshake."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/connz", timeout=10) as answer:
        return [one.get("tls_first") for one in json.load(answer)["connections"] if "tls_version" in one]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_the_handshake_may_come_first(kind: str, files: Files) -> None:
    """With handshake_first nothing is said in plain text; INFO comes behind the handshake."""
    with serving_first(kind, files, "handshake_first: true") as server:
        with plain(server) as sock:
            sock.settimeout(0.3)
            with pytest.raises(TimeoutError):
                sock.recv(1)
        with shaken(plain(server), files.trusting()) as sock:
            assert info_of(sock)["tls_required"]
            ping(sock)
            assert came_first(server) == [True]


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("word", ["auto", '"300ms"'])
def test_who_does_not_begin_hears_info_after_a_while(kind: str, word: str, files: Files) -> None:
    """With a wait, both kinds of clients get in: who begins at once, and who waits for INFO."""
    with serving_first(kind, files, f"handshake_first: {word}") as server:
        with shaken(plain(server), files.trusting()) as sock:
            assert info_of(sock)["tls_required"]
            ping(sock)
        began = time.monotonic()
        with plain(server) as sock:
            assert info_of(sock)["tls_required"]
            assert time.monotonic() - began > (0.04 if word == "auto" else 0.25)
            with shaken(sock, files.trusting()) as safe:
                ping(safe)
                assert came_first(server) == [None]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_plain_text_is_taken_where_it_is_allowed(kind: str, files: Files) -> None:
    """With allow_non_tls the first byte decides, and INFO says that TLS is there."""
    with serving(kind, files, rest="allow_non_tls: true") as server:
        with plain(server) as sock:
            info = info_of(sock)
            assert info["tls_available"]
            assert "tls_required" not in info
            ping(sock)
        with plain(server) as sock:
            info_of(sock)
            with shaken(sock, files.trusting()) as safe:
                ping(safe)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_an_old_version_is_refused(kind: str, files: Files) -> None:
    """min_version 1.3 leaves out who knows 1.2 at most."""
    old = files.trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with serving(kind, files) as server, plain(server) as sock:
        info_of(sock)
        with shaken(sock, old) as safe:
            assert "TLSv1.2" == safe.version()
            ping(safe)
    with serving(kind, files, more='min_version: "1.3"') as server, plain(server) as sock:
        info_of(sock)
        with pytest.raises(ssl.SSLError):
            shaken(sock, old)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_only_pinned_certificates_get_in(kind: str, files: Files) -> None:
    """A certificate that is trusted and not pinned ends the connection; the log says so."""
    pinned = f'verify: true, pinned_certs: ["{files.client.pin}"]'
    with serving(kind, files, more=pinned) as server:
        log_in(server, files.trusting(showing=files.client))
        with pytest.raises((AssertionError, OSError)):
            log_in(server, files.trusting(showing=files.server))
        assert "TLS handshake error" in logged(server, "not pinned")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_an_expired_certificate_is_told_in_one_line(kind: str, files: Files) -> None:
    """A client's certificate that has expired: refused, and the log names the reason."""
    expired = files.authority.issue("expired", times=("20200101000000Z", "20210131123456Z"))
    with serving(kind, files, more="verify: true") as server:
        with pytest.raises((AssertionError, OSError)):
            log_in(server, files.trusting(showing=expired))
        line = logged(server, "expired")
        assert "TLS handshake error" in line
        if kind == servers.LEAFD:
            assert "CN=expired" in line
            assert "2021-01-31 12:34:56 UTC" in line


def test_an_expired_certificate_of_our_own_is_named(files: Files) -> None:
    """When a peer refuses our certificate since it has expired, our log says that it has, and since when."""
    expired = files.authority.issue("old", times=("20200101000000Z", "20210131123456Z"))
    with serving(servers.LEAFD, files, shown=expired) as server:
        with pytest.raises(ssl.SSLError):
            log_in(server, files.trusting())
        line = logged(server, "our certificate has expired")
        assert "TLS handshake error" in line
        assert "2021-01-31 12:34:56 UTC" in line


@pytest.mark.parametrize("kind", servers.KINDS)
def test_more_handshakes_than_allowed_in_a_second_are_told_so(kind: str, files: Files) -> None:
    """connection_rate_limit: who comes too many is told in plain text, and closed."""
    with serving(kind, files, more="connection_rate_limit: 3") as server:
        time.sleep(1.1)
        outcomes = []
        for _ in range(8):
            sock = plain(server)
            info_of(sock)
            try:
                shaken(sock, files.trusting()).close()
                outcomes.append(True)
            except (ssl.SSLError, OSError):
                outcomes.append(False)
        assert 2 <= sum(outcomes) <= 6, outcomes


@pytest.mark.parametrize("kind", servers.KINDS)
def test_the_name_that_is_asked_for_chooses_the_certificate(kind: str, files: Files) -> None:
    """Of several certificates the client gets the one for the name it asks for (SNI); without a fit, the first."""
    other = files.authority.issue("other", names="DNS:other.example")
    pairs = "".join(f'{{ cert_file: "{one.certificate}", key_file: "{one.key}" }}\n' for one in (files.server, other))
    text = f'listen: "127.0.0.1:{{port}}"\ntls {{ certs: [ {pairs} ] }}\n'
    with servers.running(kind, text.replace("{{", "{").replace("}}", "}")) as server:
        for name in ("localhost", "other.example"):
            with plain(server) as sock:
                info_of(sock)
                with files.trusting().wrap_socket(sock, server_hostname=name) as safe:
                    ping(safe)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_session_is_taken_up_again(kind: str, files: Files) -> None:
    """A client that comes back with its ticket is spared the certificates, also where it has to show one."""
    context = files.trusting(showing=files.client)
    with serving(kind, files, more="verify: true") as server:
        session = None
        for again in (False, True):
            sock = plain(server)
            info_of(sock)
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as safe:
                ping(safe)
                assert again == safe.session_reused
                session = safe.session


@pytest.mark.parametrize("kinds", LINE_UPS, ids=lambda kinds: f"{kinds[0]}-{kinds[1]}")
def test_a_link_s_handshake_may_come_first(kinds: tuple[str, str], files: Files) -> None:
    """handshake_first at both ends of a link: the hub says nothing in plain text."""
    with linked(kinds, files, "handshake_first: true", "handshake_first: true") as (hub, leaf):
        asyncio.run(crosses(leaf, hub))


LOUD_LEAF = LEAF + "debug: true\n"


@contextlib.contextmanager
def between(port: int) -> Iterator[Cut]:
    """A port in front of another one, whose connections can be cut."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cut = Cut(listener.getsockname()[1], [])

        def forward(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while part := source.recv(65536):
                    target.sendall(part)
            cut.now()

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    cut.ends += [near, far]
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=forward, args=pair, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield cut
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            cut.now()
            for end in cut.ends:
                end.close()


@dataclass
class Cut:
    """Connections between two servers."""

    port: int
    ends: list[socket.socket]

    def now(self) -> None:
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def test_a_link_that_comes_back_takes_up_its_session(files: Files) -> None:
    """Certificates cross a metered link once: the second handshake has two thirds of the first one's bytes at most."""
    own = {"ca": files.authority.certificate, "hub_more": "", "leaf_more": ""}
    with servers.running(servers.LEAFD, HUB, cert=files.server.certificate, key=files.server.key, **own) as hub:
        own |= {"cert": files.client.certificate, "key": files.client.key}
        with (
            between(hub.ports["leaf_port"]) as wire,
            servers.running(servers.LEAFD, LOUD_LEAF, **own, hub_port=wire.port) as leaf,
        ):
            first = logged(leaf, "TLS handshake complete")
            asyncio.run(crosses(leaf, hub))
            wire.now()
            second = logged(leaf, "a session taken up again")
            full, resumed = (int(line.split(" bytes")[0].split()[-1]) for line in (first, second))
            assert resumed < full * 2 / 3, (first, second)


def test_a_hub_with_another_name_is_refused(files: Files) -> None:
    """A remote that is dialled by a name takes only a certificate of that name; insecure takes any."""
    odd = Files(files.authority, files.authority.issue("odd", names="DNS:elsewhere.example"), files.client)
    with linked((servers.LEAFD, servers.LEAFD), odd) as (_, leaf):
        line = logged(leaf, "Error trying to connect as leafnode")
        assert "it is not of localhost" in line
        assert "CN=odd" in line
    with linked((servers.LEAFD, servers.LEAFD), odd, leaf_more="insecure: true") as (hub, leaf):
        asyncio.run(crosses(leaf, hub))
