"""Lines of differences.md that need a file, a clock or a reload to be seen: what leafd does, and what nats-server does.

Each test plays the same at both and names what is expected of either. Not here: differences that a
conversation shows (tests/wire, `ours` and `theirs`).
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import subprocess
import time
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.certificates import Authority, Issued, openssl
from tests.interop.test_websocket_told import Browser
from tests.rig.raw import RawClient
from tests.rig.reloads import REFUSED, exchanged
from tests.rig.reports import links, report
from tests.rig.stopwatch import Stopwatch
from tests.rig.waiting import PATIENCE_S, eventually

STORE = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}", max_mem: 64M, max_file: 1G }\n'
MARKS = (b"b9d1-the-bytes-that-are-looked-for-77ae", b"0c3f-others-that-no_erase-is-set-for-18d2")


def on_disk(server: servers.Server, mark: bytes) -> bool:
    """Whether these bytes are in any file of the store."""
    return any(mark in file.read_bytes() for file in (server.directory / "store").rglob("*") if file.is_file())


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_removed_messages_bytes(kind: str) -> None:
    """leafd leaves them on the disk, whatever no_erase says; nats-server overwrites them unless it is set."""
    with servers.running(kind, STORE) as server:
        line = RawClient(server)
        assert "error" not in line.ask("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for name in MARKS:
            line.ask("s", name.decode())
        line.ask("s", "behind them")
        for seq, no_erase in ((1, False), (2, True)):
            assert line.ask("$JS.API.STREAM.MSG.DELETE.S", {"seq": seq, "no_erase": no_erase})["success"]
        line.close()
        server.stop()
        assert [kind == servers.LEAFD, True] == [on_disk(server, mark) for mark in MARKS]


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_stream_that_is_made_again_at_once(kind: str) -> None:
    """leafd's is empty, also where the server is killed right behind the answer. What nats-server's has then depends on
    how far its removal of the files was: mostly nothing."""
    config = {"name": "S", "subjects": ["s"]}
    with servers.running(kind, STORE) as server:
        line = RawClient(server)
        line.ask("$JS.API.STREAM.CREATE.S", config)
        line.say(*["PUB s 4\r\nbody"] * 1000)
        assert 1001 == line.ask("s", "last")["seq"]
        assert line.ask("$JS.API.STREAM.DELETE.S")["success"]
        assert 0 == line.ask("$JS.API.STREAM.CREATE.S", config)["state"]["messages"] or kind == servers.REFERENCE
        line.close()
        server.kill()
        server.start()
        line = RawClient(server)
        found = line.ask("$JS.API.STREAM.INFO.S")
        line.close()
        if kind == servers.LEAFD:
            assert (0, 0) == (found["state"]["messages"], found["state"]["last_seq"])
        else:
            assert found.get("state", {}).get("messages", 0) <= 1001


LOGIN = "listen: 127.0.0.1:{port}\nauthorization { users: [ {user: a, password: %s} ] }\n"
HASHED = "$2a$04$nHKVcJ9b9XKYrBu6xYGJDekFlhJ2kp5xlyCr2t9WpZ1KnZNN7dPAe"  # of nobody's password


@pytest.mark.parametrize(("kind", "late"), [(servers.LEAFD, True), (servers.REFERENCE, False)])
def test_who_guesses_at_a_hashed_password_waits(kind: str, late: bool) -> None:
    """From the sixth wrong one on, an address is refused a second late; by nats-server at once."""
    took, own = [], []
    with servers.running(kind, LOGIN % HASHED) as server:
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as stream:
                began, watch = time.monotonic(), Stopwatch(server)
                stream.sendall(b'CONNECT {"user":"a","pass":"wrong"}\r\nPING\r\n')
                said = b""
                with contextlib.suppress(ConnectionResetError):
                    while some := stream.recv(4096):
                        said += some
                assert b"Authorization Violation" in said
                took.append(time.monotonic() - began)
                own.append(watch.seconds())
    assert min(own[:5]) < 0.9
    assert min(took[5:]) >= 0.9 if late else min(own[5:]) < 0.9


@pytest.mark.parametrize(
    ("kind", "cuts", "least_s", "most_s"), [(servers.LEAFD, 8, 0.0, 1.9), (servers.REFERENCE, 2, 1.9, 99)]
)
def test_how_long_a_leaf_waits_before_it_dials_again(kind: str, cuts: int, least_s: float, most_s: float) -> None:
    """A link was up and is ended. leafd: any part of reconnect, the shortest of several; nats-server: all of it."""
    hub_text = "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\n"
    hub_text += "leafnodes { port: {leaf_port}, no_advertise: true }\n"  # each dial comes here
    with servers.running(servers.REFERENCE, hub_text) as hub, socket.create_server(("127.0.0.1", 0)) as between:
        between.settimeout(PATIENCE_S)
        remote = f"nats-leaf://127.0.0.1:{between.getsockname()[1]}"
        text = f"listen: 127.0.0.1:{{port}}\nleafnodes {{ reconnect: '2s', remotes: [ {{ url: '{remote}' }} ] }}\n"
        with servers.running(kind, text):
            waits, cut = [], 0.0
            for _ in range(cuts + 1):
                near, _ = between.accept()
                waits.append(time.monotonic() - cut)
                with near, socket.create_connection(("127.0.0.1", hub.ports["leaf_port"])) as far:
                    pass_on_until_linked(near, far, hub)
                cut = time.monotonic()
                eventually(lambda: links(hub) == 0)
    assert least_s <= min(waits[1:]) < most_s


def pass_on_until_linked(near: socket.socket, far: socket.socket, hub: servers.Server) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while links(hub) == 0:
        assert time.monotonic() < deadline
        for source in select.select((near, far), (), (), 0.02)[0]:
            (far if source is near else near).sendall(source.recv(65536))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("server")


@pytest.mark.parametrize("kind", servers.KINDS)
def test_behind_a_proxy_the_handshake_may_come_first(
    kind: str, authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    """proxy_protocol with handshake_first: auto. Who comes with a header begins with the handshake; who comes without
    one and waits is greeted by nats-server, and has to speak first with leafd."""
    tls = f"tls {{ cert_file: '{issued.certificate}', key_file: '{issued.key}', handshake_first: auto, timeout: 20 }}\n"
    server = servers.make(kind, "listen: 127.0.0.1:{port}\nproxy_protocol: true\n" + tls, tmp_path)

    def speaks() -> None:
        eventually(lambda: "Server is ready" in server.log)

    server._wait_until_it_speaks = speaks  # type: ignore[method-assign]
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), 3) as stream:
            if kind == servers.LEAFD:
                with pytest.raises(TimeoutError):
                    stream.recv(4)
            else:
                assert b"INFO" == stream.recv(4)
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as stream:
            stream.sendall(b"PROXY TCP4 192.0.2.1 198.51.100.2 40001 4222\r\n")
            trusting = ssl.create_default_context(cafile=str(authority.certificate))
            with trusting.wrap_socket(stream, server_hostname="localhost") as safe:
                assert b"INFO" == safe.recv(4)
    finally:
        server.stop()


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("trusts", [True, False])
def test_a_remote_trusts_whom_the_machine_trusts(
    kind: str, trusts: bool, authority: Authority, hub: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a tls block of the remote the hub's certificate is looked for among the machine's authorities."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate) if trusts else "/dev/null")
    remote = f"tls://localhost:{hub.ports['leaf_port']}"
    text = f"listen: 127.0.0.1:{{port}}\nleafnodes {{ reconnect: '300ms', remotes: [ {{ url: '{remote}' }} ] }}\n"
    eventually(lambda: links(hub) == 0)
    with servers.running(kind, text) as leaf:
        eventually(lambda: links(hub) == 1 or "certificate" in leaf.log)
        assert trusts == (links(hub) == 1)


@pytest.fixture(scope="module")
def hub(issued: Issued) -> Iterator[servers.Server]:
    """One whose leafs come over TLS."""
    tls = f"tls {{ cert_file: '{issued.certificate}', key_file: '{issued.key}', timeout: 20 }}"
    text = f"listen: 127.0.0.1:{{port}}\nhttp: 127.0.0.1:{{http_port}}\nleafnodes {{ port: {{leaf_port}}, {tls} }}\n"
    with servers.running(servers.REFERENCE, text) as server:
        yield server


DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover"
WEB = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
max_payload: 16384
websocket { listen: '127.0.0.1:{web_port}', no_tls: true, compression: true, advertise: 'far.example:443' }
"""
ONE = b"PUB x 1000\r\n" + bytes(1000) + b"\r\n"


def frame(payload: bytes) -> bytes:
    """A compressed message of the client."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    return b"\xc2\xfe" + struct.pack(">H", len(packed)) + bytes(4) + packed


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_a_compressed_message_may_become(kind: str) -> None:
    """One of many messages: eight times max_payload with leafd, max_payload with nats-server."""
    with servers.running(kind, WEB) as server:
        for times, taken in ((0.9, True), (7, kind == servers.LEAFD), (40, False)):
            browser = Browser(server.ports["web_port"], DEFLATE)
            browser.stream.sendall(frame(b'CONNECT {"verbose":false}\r\nSUB y 1\r\n'))
            with contextlib.suppress(OSError):
                browser.stream.sendall(frame(ONE * int(16384 * times / len(ONE)) + b"PUB y 4\r\ncame\r\n"))
                browser.until(b"came")
            browser.close()
            assert taken == (b"came" in browser.heard), times


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize(("old", "new"), [("127.0.0.1:{web}", "127.0.0.1:1"), ("no_tls: true, ", "no_tls: false, ")])
def test_what_of_websocket_takes_a_restart(kind: str, old: str, new: str) -> None:
    """Its address and no_tls cannot be reloaded; what is advertised is shown."""
    with servers.running(kind, WEB) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/varz", timeout=30) as answer:
            assert "far.example:443" == json.load(answer)["websocket"]["advertise"]
        exchanged(server, old.replace("{web}", str(server.ports["web_port"])), new, REFUSED)


REPORTS = ("/varz", "/connz", "/subsz", "/jsz", "/healthz", "/metrics", "/nothing", "/", "/events", "/page.js")
NAMES = {"evil.example:8222": False, "evil": False, "localhost": True, "127.0.0.1": True}


@pytest.mark.parametrize("listen", ["http: 127.0.0.1:{http_port}", "http_port: {http_port}"])
def test_a_page_of_elsewhere_reads_no_report(listen: str) -> None:
    """A name that leads here (DNS rebinding) is not known, and no answer lets another origin read it."""
    with servers.running(servers.LEAFD, f"listen: 127.0.0.1:{{port}}\n{listen}\n") as server:
        for path in REPORTS:
            for name, known in (
                ("evil.example:8222", False),
                ("evil", False),
                ("localhost", True),
                ("127.0.0.1", True),
            ):
                status, head = http_head(server, path, name)
                assert known == (status != 421), (path, name)
                assert "access-control" not in head.lower(), (path, name)


def test_nats_server_lets_every_page_read_its_reports() -> None:
    """Under any name, and from any origin."""
    with servers.running(servers.REFERENCE, "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{http_port}\n") as server:
        status, head = http_head(server, "/varz", "evil.example:8222")
        assert (200, True) == (status, "access-control-allow-origin: *" in head.lower())


def http_head(server: servers.Server, path: str, name: str) -> tuple[int, str]:
    """Status and headers of an answer to who asks under that name, as a page of elsewhere does."""
    with socket.create_connection(("127.0.0.1", server.ports["http_port"]), PATIENCE_S) as stream:
        asked = f"GET {path} HTTP/1.1\r\nHost: {name}\r\nOrigin: http://{name}\r\nConnection: close\r\n\r\n"
        stream.sendall(asked.encode())
        head = b""
        while b"\r\n\r\n" not in head:
            some = stream.recv(65536)
            assert some, head
            head += some
    return int(head.split()[1]), head.partition(b"\r\n\r\n")[0].decode()


def test_a_certificate_that_is_signed_with_sha_1_is_refused_in_one_line(tmp_path: Path) -> None:
    """By the check and by the start, with what to do; nats-server starts with it."""
    issued = sha_1_issued(tmp_path)
    text = f'listen: 127.0.0.1:{{port}}\ntls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}" }}\n'
    with servers.running(servers.REFERENCE, text):
        pass
    file = tmp_path / "leafd.conf"
    file.write_text(text.replace("{port}", "-1"))
    for command in (["check", str(file)], ["-c", str(file)]):
        call = [*servers.command(servers.LEAFD), *command]
        done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        said = [line for line in (done.stdout + done.stderr).splitlines() if "SHA-1" in line]
        assert done.returncode != 0
        assert 1 == len(said)
        assert f"{file}:2:7: cert_file: {issued.certificate}" in said[0]
        assert "SHA-256" in said[0]


def sha_1_issued(folder: Path) -> Issued:
    """A certificate as old authorities signed them."""
    paths = {name: str(folder / name) for name in ("ca.pem", "ca.key", "old.csr", "old.pem", "old.key")}
    ca, ca_key, request, certificate, key = paths.values()
    made = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *made, "-keyout", ca_key, "-out", ca, "-subj", "/CN=old authority", "-days", "100")
    openssl("req", *made, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    signed = ["-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-sha1", "-days", "90"]
    openssl("x509", "-req", *signed, "-out", certificate)
    return Issued(Path(certificate), Path(key))


@pytest.mark.parametrize("kind", servers.KINDS)
def test_how_far_a_copy_is_behind_that_never_heard_of_its_origin(kind: str) -> None:
    """`lag` is a number for clients that know no null, and `active` -1 says that it means nothing; leafd says null."""
    with servers.running(kind, STORE) as server:
        line = RawClient(server)
        mirror = {"name": "X", "external": {"api": "$JS.nowhere.API"}}
        line.ask("$JS.API.STREAM.CREATE.M", {"name": "M", "mirror": mirror})
        found = line.ask("$JS.API.STREAM.INFO.M")["mirror"]
        line.close()
        assert (found["lag"], found["active"]) == (0, -1)
        assert ("leafd" in found) == (kind == servers.LEAFD)
        if kind == servers.LEAFD:
            assert found["leafd"]["behind"] is None
            assert found["leafd"]["told"] is None


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_streams_info_tells_how_far_a_few_copies_of_it_are_and_a_report_tells_of_all(kind: str) -> None:
    """A hub's stream may have a mirror at each of a thousand boxes, which ask for its info over their links."""
    with servers.running(kind, 'http: "127.0.0.1:{http_port}"\n' + STORE) as server:
        line = RawClient(server)

        def mirrors(count: int) -> None:
            for number in range(count):
                line.ask(f"$JS.API.STREAM.CREATE.M{number}", {"name": f"M{number}", "mirror": {"name": "T"}})
            copies = range(count)
            eventually(lambda: all(line.ask(f"$JS.API.STREAM.INFO.M{one}")["state"]["messages"] == 1 for one in copies))

        line.ask("$JS.API.STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})
        line.ask("t", "x")
        mirrors(8)
        found = line.ask("$JS.API.STREAM.INFO.T").get("leafd", {})
        mirrors(9)
        more = line.ask("$JS.API.STREAM.INFO.T").get("leafd", {})
        (account,) = report(server, "jsz?accounts=1&streams=1")["account_details"]
        (row,) = (one for one in account["stream_detail"] if one["name"] == "T")
        line.close()
        told = [sorted(one["copy"] for one in at.get("copiers", ())) for at in (found, more, row.get("leafd", {}))]
        names = [f"M{number}" for number in range(9)]
        assert told == ([names[:8], [], names] if kind == servers.LEAFD else [[], [], []])
