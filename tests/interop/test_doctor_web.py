"""`leafd doctor` and links over WebSocket: flows that are proven over ws:// and wss://, and each diagnosis by a real
fault, with a hub of either kind; what a proxy before a hub can do wrong is done by one that is made here."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from leafd.doctor import ask, hub
from leafd.doctor.findings import Check, Level

from tests import servers
from tests.certificates import Authority, Issued
from tests.interop.test_doctor_faults import doctor, found, in_days, until, written

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
LEAFS
websocket { listen: "127.0.0.1:{web_port}", TLS }
accounts {
  BOXES { jetstream: enabled, users: [
    { user: box, password: pbox }
    { user: tied, password: ptied, allowed_connection_types: [ LEAFNODE ] }
  ] }
  NONE { users: [ { user: none, password: pnone } ] }
}
no_auth_user: box
"""
LEAFS = 'leafnodes { listen: "127.0.0.1:{leaf_port}" }'
LEAF = """
listen: "127.0.0.1:{port}"
server_name: edge
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: edge }
leafnodes { reconnect: 1, remotes: [ { REMOTE } ] }
"""
FLOWS = (
    Check.LINK,
    Check.HUB_WEBSOCKET,
    Check.HUB_LOGIN,
    Check.DOMAIN,
    Check.API_UP,
    Check.API_DOWN,
    Check.FLOW_UP,
    Check.FLOW_DOWN,
)


@dataclass
class Hub:
    """One that takes leaves over WebSocket, with TLS or without, and what a box needs to come."""

    server: servers.Server
    authority: Authority
    box: Issued
    tls: bool

    @property
    def port(self) -> int:
        return self.server.ports["web_port"]

    def remote(self, login: str = "box:pbox@", host: str = "localhost", ca: bool = True, own: bool = True) -> str:
        """A remote of a box."""
        if not self.tls:
            return f'url: "ws://{login}127.0.0.1:{self.port}/fleet"'
        tls = f"ca_file: {self.authority.certificate}\n" if ca else ""
        tls += f"cert_file: {self.box.certificate}\nkey_file: {self.box.key}\n" if own else ""
        return f'url: "wss://{login}{host}:{self.port}"\n tls {{\n{tls}}}'


def file_of(folder: Path, remote: str) -> Path:
    return written(folder, f"leafnodes {{ remotes: [ {{ {remote} }} ] }}\n")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long is not what is looked for here; a machine that many tests share takes its time."""
    monkeypatch.setattr(hub, "STEP_S", 20.0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=servers.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def plain(kind: str, authority: Authority) -> Iterator[Hub]:
    text = HUB.replace("LEAFS", LEAFS).replace("TLS", "no_tls: true")
    with servers.running(kind, text) as server:
        yield Hub(server, authority, Issued(Path(), Path()), tls=False)


@pytest.fixture(scope="module")
def secure(kind: str, authority: Authority) -> Iterator[Hub]:
    """It wants certificates of who connects, and shows one for localhost that expires in ten days."""
    shown = authority.issue(f"hub-{kind}", names="DNS:localhost", times=("", in_days(10)))
    tls = f"cert_file: {shown.certificate}, key_file: {shown.key}, ca_file: {authority.certificate}, verify: true"
    text = HUB.replace("LEAFS", LEAFS).replace("TLS", f"tls {{ {tls} }}")
    with servers.running(kind, text) as server:
        yield Hub(server, authority, authority.issue(f"box-{kind}"), tls=True)


@pytest.mark.parametrize("tls", [False, True], ids=["ws", "wss"])
def test_a_link_over_websocket_is_proven_both_ways(plain: Hub, secure: Hub, tls: bool) -> None:
    """A probe comes through in each direction, each JetStream is reached from the other side, and the dates of the
    certificate that the hub shows are looked at."""
    remote = (secure if tls else plain).remote()
    with servers.running(servers.LEAFD, LEAF.replace("REMOTE", remote)) as leaf:
        found(leaf.directory / "server.conf", Check.FLOW_UP, Level.WELL)
        said = until(leaf.directory / "server.conf", Check.FLOW_DOWN, Level.WELL)
    levels = {one.check: one.level for one in said}
    assert {Level.WELL} == {levels[check] for check in FLOWS}
    assert "logged in to the account BOXES" in [one.text for one in said]
    dates = [one for one in said if one.check == Check.CERTIFICATE and "hub's certificate" in one.text]
    assert [tls] == [Level.WELL == levels.get(Check.HUB_TLS)]
    assert ([Level.WARNING] if tls else []) == [one.level for one in dates]


# ---- TLS


def test_a_certificate_of_another_name_is_a_fault_that_names_both(secure: Hub, tmp_path: Path) -> None:
    """The box calls the hub by its address, and the certificate is made out to a name."""
    one = found(file_of(tmp_path, secure.remote(host="127.0.0.1")), Check.HUB_TLS, Level.FAULT)
    assert ('made out to "localhost"' in one.text, '"127.0.0.1"' in one.text) == (True, True)


def test_a_certificate_that_nobody_trusts_is_a_fault(secure: Hub, tmp_path: Path) -> None:
    """The box was not told of the authority."""
    one = found(file_of(tmp_path, secure.remote(ca=False)), Check.HUB_TLS, Level.FAULT)
    assert ("not trusted" in one.text, "ca_file" in one.owner) == (True, True)


def test_a_hub_that_wants_a_certificate_of_the_box_is_a_fault(secure: Hub, tmp_path: Path) -> None:
    """The box shows none."""
    one = found(file_of(tmp_path, secure.remote(own=False)), Check.HUB_TLS, Level.FAULT)
    assert "certificate of this box" in one.owner


def test_a_certificate_that_has_expired_is_a_fault(kind: str, authority: Authority, tmp_path: Path) -> None:
    """The hub's certificate ended yesterday."""
    shown = authority.issue("old", names="DNS:localhost", times=(in_days(-9), in_days(-1)))
    text = HUB.replace("LEAFS", LEAFS).replace(
        "TLS", f"tls {{ cert_file: {shown.certificate}, key_file: {shown.key} }}"
    )
    with servers.running(kind, text) as server:
        remote = f'url: "wss://localhost:{server.ports["web_port"]}", tls {{ ca_file: {authority.certificate} }}'
        one = found(file_of(tmp_path, remote), Check.HUB_TLS, Level.FAULT)
    assert ("has expired" in one.text, "renew" in one.operator) == (True, True)


def test_tls_where_the_hub_has_none_is_a_fault(plain: Hub, tmp_path: Path) -> None:
    """wss:// in place of ws://: the box's owner is told what to write."""
    one = found(file_of(tmp_path, f'url: "wss://127.0.0.1:{plain.port}"'), Check.HUB_TLS, Level.FAULT)
    assert ("handshake failed" in one.text, "write ws://" in one.owner) == (True, True)


def test_no_tls_where_the_hub_has_it_is_a_fault(secure: Hub, tmp_path: Path) -> None:
    """ws:// in place of wss://: the box's owner is told what to write."""
    one = found(file_of(tmp_path, f'url: "ws://127.0.0.1:{secure.port}"'), Check.HUB_WEBSOCKET, Level.FAULT)
    assert "write wss://" in one.owner


# ---- logins and accounts


def test_a_wrong_password_is_a_fault_and_is_not_shown(plain: Hub, tmp_path: Path) -> None:
    """The hub refuses the login over WebSocket as over TCP."""
    file = file_of(tmp_path, plain.remote("box:mistaken@"))
    one = found(file, Check.HUB_LOGIN, Level.FAULT)
    assert ("refuses the login" in one.text, "user and password" in one.owner) == (True, True)
    assert "mistaken" not in str(doctor(file))


def test_a_user_who_may_not_come_over_websocket_is_a_fault(plain: Hub, tmp_path: Path) -> None:
    """The hub's operator is told of the connection types."""
    one = found(file_of(tmp_path, plain.remote("tied:ptied@")), Check.HUB_LOGIN, Level.FAULT)
    assert "LEAFNODE_WS" in one.operator


def test_the_wrong_account_at_the_hub_is_found(plain: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The box logs in as a user of an account that has no JetStream."""
    monkeypatch.setattr(ask, "WAIT_S", 0.5)  # what is asked in vain
    with servers.running(servers.LEAFD, LEAF.replace("REMOTE", plain.remote("none:pnone@"))) as leaf:
        one = found(leaf.directory / "server.conf", Check.HUB_JETSTREAM, Level.WARNING)
    assert ("account NONE has no JetStream" in one.text, "move this box's user" in one.operator) == (True, True)


# ---- ports


@pytest.mark.parametrize("name", ["port", "leaf_port"])
def test_another_port_of_the_hub_is_a_fault(plain: Hub, tmp_path: Path, name: str) -> None:
    """ws:// to the port for clients, or for leaves without WebSocket."""
    remote = f'url: "ws://127.0.0.1:{plain.server.ports[name]}"'
    one = found(file_of(tmp_path, remote), Check.HUB_WEBSOCKET, Level.FAULT)
    assert ("none of its WebSocket ports" in one.text, "nats-leaf://" in one.owner) == (True, True)


def test_the_websocket_port_without_websocket_is_a_fault(
    plain: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nats-leaf:// to the hub's port for WebSocket, which waits for a request."""
    monkeypatch.setattr(hub, "STEP_S", 0.5)
    remote = f'url: "nats-leaf://127.0.0.1:{plain.port}"'
    assert "write ws://" in found(file_of(tmp_path, remote), Check.HUB_PROTOCOL, Level.FAULT).owner


def test_a_hub_that_takes_no_leaves_is_a_fault(kind: str, tmp_path: Path) -> None:
    """It has a port for WebSocket and no leafnodes block."""
    text = HUB.replace("LEAFS", "").replace("TLS", "no_tls: true")
    with servers.running(kind, text) as server:
        file = file_of(tmp_path, f'url: "ws://127.0.0.1:{server.ports["web_port"]}"')
        check = Check.HUB_WEBSOCKET if kind == servers.LEAFD else Check.HUB_PROTOCOL  # 404; the end without a word
        assert "leafnodes { port" in found(file, check, Level.FAULT).operator


def test_an_address_of_several_that_fails_is_a_warning(plain: Hub, tmp_path: Path) -> None:
    """The box gets to its hub by the other one."""
    remote = f'urls: [ "ws://box:pbox@127.0.0.1:{plain.port}", "ws://box:pbox@127.0.0.1:{servers.free_port()}" ]'
    said = until(file_of(tmp_path, remote), Check.HUB_LOGIN, Level.WELL)
    (one,) = [one for one in said if one.check == Check.HUB_PORT]
    assert (one.level, "WebSocket port" in one.owner, "websocket {" in one.operator) == (Level.WARNING, True, True)


# ---- a proxy before the hub


@contextlib.contextmanager
def answering(status: int, *headers: tuple[str, str]) -> Iterator[int]:
    """The port of a web server, or proxy, that answers every request with that status."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *values: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "headers", "text", "owner", "operator"),
    [
        (404, (), "there is no /hubs/leafnode", "write the path", "pass /hubs/leafnode on"),
        (302, (("Location", "https://hub/x"),), 'to go to "https://hub/x"', "no redirection", "pass /hubs/leafnode on"),
        (403, (), 'refused: "403 Forbidden"', "", "login of its own"),
        (502, (), '"502 Bad Gateway"', "", "does not reach it"),
        (200, (), '"200 OK"', "", "headers Upgrade and Connection"),
        (400, (), '"400 Bad Request"', "write wss://", "headers Upgrade and Connection"),
        (101, (("Upgrade", "websocket"), ("Connection", "Upgrade")), "is wrong", "", "in the hub's place"),
    ],
)
def test_a_proxy_that_refuses_the_upgrade_is_a_fault(
    tmp_path: Path, status: int, headers: tuple[tuple[str, str], ...], text: str, owner: str, operator: str
) -> None:
    """Its answer is quoted, with what to change at the box or at the proxy."""
    with answering(status, *headers) as port:
        one = found(file_of(tmp_path, f'url: "ws://127.0.0.1:{port}/hubs/"'), Check.HUB_WEBSOCKET, Level.FAULT)
    assert (text in one.text, owner in one.owner, operator in one.operator) == (True, True, True), one


def test_a_proxy_that_changes_the_path_is_a_fault(plain: Hub, tmp_path: Path) -> None:
    """The hub then takes the box for a client."""

    def forward() -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            while True:
                near = taken.enter_context(listener.accept()[0])
                far = taken.enter_context(socket.create_connection(("127.0.0.1", plain.port)))
                head = b""
                while b"\r\n\r\n" not in head and (more := near.recv(4096)):
                    head += more
                far.sendall(head.replace(b"GET /leafnode ", b"GET / "))
                far.settimeout(60)
                said = b""
                while b"INFO" not in said and (more := far.recv(4096)):
                    said += more
                    near.sendall(more)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=forward)
        thread.start()
        file = file_of(tmp_path, f'url: "ws://127.0.0.1:{listener.getsockname()[1]}"')
        one = found(file, Check.HUB_PROTOCOL, Level.FAULT)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert ("for a client" in one.text, "/leafnode" in one.operator) == (True, True)
