"""How a hub is dialled: through an HTTP proxy, with how much patience, and whom a hub lets link to it by its version.
Asked of leafd and of nats-server, whose configuration is the same."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest
import trio
from leafd.config.bind import load_text
from leafd.daemon.remotes import dial_seconds
from leafd.doctor.findings import Finding
from leafd.doctor.hub import reach
from leafd.errors import ConfigError

from tests import servers
from tests.rig.reports import links
from tests.rig.waiting import PATIENCE_S, eventually

HUB = """
listen: 127.0.0.1:{port}
server_name: hub
leafnodes { listen: "127.0.0.1:{leaf_port}" }
websocket { listen: "127.0.0.1:{web_port}", no_tls: true }
"""
LEAF = 'listen: 127.0.0.1:{port}\nserver_name: leaf\nhttp: "127.0.0.1:{http_port}"\nconnect_error_reports: 1\n'


def dialling(url: str, more: str = "") -> str:
    return f'{LEAF}leafnodes {{ reconnect: "200ms", remotes: [{{ url: "{url}", {more} }}] }}\n'


class Proxy:
    """An HTTP proxy, or what stands in its place. answer: None: it opens the tunnel. joins: the first words of a hub
    that speaks first come with its own."""

    def __init__(self, answer: bytes | None = None, *, joins: bool = False) -> None:
        self.heads: list[str] = []
        self._answer, self._joins = answer, joins
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self._listener.accept()[0]], daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        self._open.append(one)
        with contextlib.suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                some = one.recv(65536)
                if not some:
                    return
                head += some
            self.heads.append(head.decode())
            if self._answer is not None:
                one.sendall(self._answer)
                one.shutdown(socket.SHUT_WR)
                return
            host, _, port = head.split()[1].decode().rpartition(":")
            hub = socket.create_connection((host, int(port)))
            self._open.append(hub)
            first = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n"
            if self._joins:
                hub.settimeout(0.3)
                with contextlib.suppress(TimeoutError):
                    first += hub.recv(65536)
                hub.settimeout(None)
            one.sendall(first)
            threading.Thread(target=_pass_on, args=(hub, one), daemon=True).start()
            _pass_on(one, hub)

    def close(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while some := source.recv(65536):
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxied(answer: bytes | None = None, *, joins: bool = False) -> Iterator[Proxy]:
    proxy = Proxy(answer, joins=joins)
    try:
        yield proxy
    finally:
        proxy.close()


def heads(kind: str, url: str, hub_kind: str = servers.REFERENCE) -> list[str]:
    """What the proxy is asked for by a leaf whose link comes up."""
    # (A nats-server that dials drops what a hub says too soon, and tries again.)
    with proxied(joins=kind == servers.LEAFD) as proxy, servers.running(hub_kind, HUB) as hub:
        block = f'proxy {{ url: "http://127.0.0.1:{proxy.port}", username: "box", password: "p:w", timeout: "5s" }}'
        text = dialling(url.format(**hub.ports), block)
        with servers.running(kind, text) as leaf:
            eventually(lambda: links(leaf) == 1, "no link through the proxy")
            lines = proxy.heads[0].replace(url.format(**hub.ports).rpartition("/")[2], "HUB").split("\r\n")
            assert f"Proxy-Authorization: Basic {base64.b64encode(b'box:p:w').decode()}" in lines
            return [line for line in lines if not line.startswith("User-Agent:")]


@pytest.mark.parametrize("hub_kind", servers.KINDS)
@pytest.mark.parametrize("url", ["ws://127.0.0.1:{web_port}", "nats://127.0.0.1:{leaf_port}"])
def test_a_hub_is_dialled_through_an_http_proxy(hub_kind: str, url: str) -> None:
    """The request for the tunnel is nats-server's, and the link comes up behind it."""
    asked = heads(servers.LEAFD, url, hub_kind)
    assert asked[0] == "CONNECT HUB HTTP/1.1"
    assert asked == heads(servers.REFERENCE, url, hub_kind)


def test_a_proxy_that_speaks_tls_is_refused() -> None:
    """nats-server begins a TLS handshake with it."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(PATIENCE_S)
        remote = f'url: "ws://127.0.0.1:1", proxy {{ url: "https://127.0.0.1:{proxy.getsockname()[1]}" }}'
        text = f"leafnodes {{ remotes: [{{ {remote} }}] }}\n"
        with servers.running(servers.REFERENCE, LEAF + text):
            one, _ = proxy.accept()
            with one:
                assert one.recv(1) == b"\x16"
    with pytest.raises(ConfigError, match="TLS to the proxy itself is not in this build"):
        load_text(text)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy wants a login (407): set username and"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", 'refuses the connection to the hub: "403 Forbidden"'),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the proxy does not answer as an HTTP proxy does"),
        (b"HTTP/1.1 200 OK\r\nX: " + bytes([0x78]) * 20_000, "the head of the proxy's answer has no end"),
        (b"", "the proxy closed the connection"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_told_of(answer: bytes, said: str) -> None:
    with proxied(answer) as proxy:
        block = f'proxy {{ url: "http://127.0.0.1:{proxy.port}" }}'
        with servers.running(servers.LEAFD, dialling("ws://127.0.0.1:9", block)) as leaf:
            eventually(lambda: said in leaf.log, leaf.log)


def test_doctor_goes_through_the_proxy_and_says_what_it_says() -> None:
    def examined(proxy: Proxy, hub: servers.Server) -> tuple[bool, list[Finding]]:
        url = "ws://127.0.0.1:{web_port}".format(**hub.ports)
        block = f'proxy {{ url: "http://127.0.0.1:{proxy.port}" }}'
        config = load_text(f'leafnodes {{ remotes: [{{ url: "{url}", {block} }}] }}').server
        assert config.leafnodes is not None
        found: list[Finding] = []
        remote = config.leafnodes.remotes[0]

        async def examine() -> bool:
            reached = await reach(remote, url, found.append)
            if reached is not None:
                with trio.move_on_after(0):
                    await reached.session.run()  # which closes the connection at its end
            return reached is not None

        return trio.run(examine), found

    with servers.running(servers.REFERENCE, HUB) as hub:
        with proxied() as proxy:
            assert examined(proxy, hub)[0]
            assert len(proxy.heads) == 1
        with proxied(b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
            reached, found = examined(proxy, hub)
            assert not reached
            assert ['the proxy refuses the connection to the hub: "403 Forbidden"'] == [one.text for one in found]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_dial_takes_no_longer_than_it_may_and_each_failure_is_told_where_that_is_asked_for(kind: str) -> None:
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # nobody accepts, so the next SYN is not answered
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        url = f"nats://127.0.0.1:{full.getsockname()[1]}"
        with servers.running(kind, dialling(url, 'dial_timeout: "150ms"')) as leaf:
            eventually(lambda: "(attempt 3)" in leaf.log, leaf.log)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_after_a_lost_link_each_failure_of_a_number_is_told_besides_the_first(kind: str) -> None:
    with servers.running(servers.REFERENCE, HUB) as hub:
        text = dialling("nats://127.0.0.1:{leaf_port}".format(**hub.ports)) + "reconnect_error_reports: 2\n"
        with servers.running(kind, text) as leaf:
            eventually(lambda: links(leaf) == 1, "no link")
            hub.kill()
            eventually(lambda: "(attempt 4)" in leaf.log, leaf.log)
            assert [f"(attempt {number})" in leaf.log for number in (1, 2, 3, 4)] == [True, True, False, True]


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize(("patience", "waits"), [("200ms", False), ("10s", True)])
def test_the_first_word_of_a_hub_is_waited_for_as_long_as_it_may_take(kind: str, patience: str, waits: bool) -> None:
    """nats-server waits a second, leafd ten, where nothing is said: too short for some links."""
    with socket.create_server(("127.0.0.1", 0)) as hub:
        hub.settimeout(PATIENCE_S)
        url = f"nats://127.0.0.1:{hub.getsockname()[1]}"
        with servers.running(kind, dialling(url, f'first_info_timeout: "{patience}"')):
            one, _ = hub.accept()
            with one:
                one.settimeout(2.0)
                try:
                    one.recv(64)  # that it waits no longer, in words or without
                    assert not waits
                except TimeoutError:
                    assert waits


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("key", ["min_version", "minimum_version"])
def test_a_hub_lets_no_server_of_a_lower_version_link_to_it(kind: str, key: str) -> None:
    text = f'listen: 127.0.0.1:{{port}}\nleafnodes {{ listen: "127.0.0.1:{{leaf_port}}", {key}: "2.12.3" }}\n'
    with servers.running(kind, text) as hub:
        found = {
            version: _answer(hub.ports["leaf_port"], version) for version in ("2.12.2", "2.12.3", "3.0.0", "new", "")
        }
    refusal = "-ERR 'connection rejected since minimum version required is \"2.12.3\"'"
    assert found == {"2.12.2": refusal, "2.12.3": "", "3.0.0": "", "new": refusal, "": refusal}


def _answer(port: int, version: str) -> str:
    """The error that a leaf of this version gets."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        said = {"version": version, "name": "n", "server_id": "N", "cluster": "n", "headers": True, "protocol": 3}
        sock.sendall(f"CONNECT {json.dumps(said)}\r\nPING\r\n".encode())
        heard = ""
        while "PONG" not in heard and "-ERR" not in heard:
            some = sock.recv(65536).decode()
            if not some:
                break
            heard += some
        return next((line for line in heard.split("\r\n") if line.startswith("-ERR")), "")


def test_the_patience_of_a_remote_goes_before_that_of_all() -> None:
    remotes = 'remotes: [{ url: "nats://h", dial_timeout: "9s" }, { url: "nats://i" }]'
    for text, seconds in ((remotes, [9.0, 0.0]), (f'dial_timeout: "2s", {remotes}', [9.0, 2.0])):
        config = load_text(f"leafnodes {{ {text} }}").server
        assert config.leafnodes is not None
        assert [dial_seconds(config, one) for one in config.leafnodes.remotes] == seconds
