"""Nobody keeps the others out: attacks on a running daemon, and what another client notices of them."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import servers
from tests.rig.raw import RawClient
from tests.rig.stopwatch import Stopwatch

MANY = 10_000
LOGIN_MAX_S = 0.5
"""Fifty milliseconds are the aim."""


@contextlib.contextmanager
def logins(server: servers.Server) -> Iterator[list[float]]:
    """Somebody logs in again and again meanwhile; how long each took."""
    took: list[float] = []
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            watch = Stopwatch(server)
            RawClient(server).close()
            took.append(watch.seconds())
            time.sleep(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        time.sleep(0.1)
        yield took
    finally:
        over.set()
        thread.join(30)


JETSTREAM = """
port: {port}
http: {http_port}
jetstream { store_dir: "{store}" }
"""


def varz(server: servers.Server, within_s: float = 5.0) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/varz", timeout=within_s) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_streams_and_consumers_of_ten_thousand_subjects_keep_nobody_waiting() -> None:
    """Each is made within seconds, as at the reference; a login meanwhile takes no half second, and no turn is long."""
    subjects = [f"s.{n}.a" for n in range(MANY)]
    consumer = {"durable_name": "C", "filter_subjects": subjects, "ack_policy": "explicit"}
    with servers.running(servers.LEAFD, JETSTREAM) as server:
        peer = RawClient(server)
        with logins(server) as took:
            watch = Stopwatch(server)
            for subject, body in (
                ("STREAM.CREATE.S", {"name": "S", "subjects": subjects}),
                ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*.a"]}),
                ("STREAM.UPDATE.S", {"name": "S", "subjects": subjects}),
                ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": consumer}),
                ("STREAM.LIST", {}),
            ):
                assert "error" not in peer.api(subject, body), subject
            assert "error" in peer.api("STREAM.CREATE.T", {"name": "T", "subjects": [f"*.{n}.*" for n in range(MANY)]})
            transform = {"src": "t.*", "dest": "{{wildcard(" * 20_000 + ")}}"}
            assert "error" in peer.api("STREAM.CREATE.T", {"name": "T", "subject_transform": transform})
            assert watch.seconds() < 15
        assert max(took) < LOGIN_MAX_S
        assert varz(server)["leafd"]["longest_turn_cpu_ms"] < 50
        peer.close()


def test_a_client_that_asks_the_api_at_full_speed_keeps_nobody_from_logging_in() -> None:
    """While one floods the API with requests for seconds, others log in and have their own requests answered."""
    with servers.running(servers.LEAFD, JETSTREAM) as server:
        flooding, other = RawClient(server), RawClient(server)
        assert "error" not in other.api("STREAM.CREATE.S", {"name": "S"})
        over = threading.Event()

        def flood() -> None:
            with contextlib.suppress(OSError):
                while not over.is_set():
                    flooding.send(b"PUB $JS.API.STREAM.INFO.S x 0\r\n\r\n" * 500)

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        answered = []
        try:
            with logins(server) as took:
                until = time.monotonic() + 4
                while time.monotonic() < until:
                    watch = Stopwatch(server)
                    assert "error" not in other.api("STREAM.INFO.S", {})
                    answered.append(watch.seconds())
                    time.sleep(0.05)
        finally:
            over.set()
            flooding.socket.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            flooding.close()
            other.close()
        assert max(took) < LOGIN_MAX_S
        assert len(took) > 15
        assert max(answered) < 1


def test_half_sent_requests_do_not_delay_monitoring() -> None:
    """With a hundred connections that sent half a request, /varz answers at once, again and again."""
    with servers.running(servers.LEAFD, JETSTREAM) as server, contextlib.ExitStack() as held:
        for _ in range(100):
            half = held.enter_context(socket.create_connection(("127.0.0.1", server.ports["http_port"]), 5))
            half.sendall(b"GET /varz HTTP/1.1\r\nHost: localhost")
        for _ in range(5):
            watch = Stopwatch(server)
            varz(server)
            assert watch.seconds() < 1


def test_readers_that_do_not_read_do_not_delay_monitoring() -> None:
    """Of a hundred connections that ask fifty times and read nothing, none keeps a seat that somebody else wants."""
    with servers.running(servers.LEAFD, JETSTREAM) as server, contextlib.ExitStack() as held:
        for _ in range(100):
            idle = socket.socket()
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            idle.connect(("127.0.0.1", server.ports["http_port"]))
            held.enter_context(idle).sendall(b"GET /varz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        time.sleep(0.5)
        for _ in range(5):
            watch = Stopwatch(server)
            varz(server)
            assert watch.seconds() < 3  # whoever has a seat and does not read may keep it for 10 s


def test_body_of_thousands_of_chunks_holds_nobody() -> None:
    """A request whose body comes in chunks of one byte is read with pauses."""
    with servers.running(servers.LEAFD, JETSTREAM) as server:
        with socket.create_connection(("127.0.0.1", server.ports["http_port"]), 5) as asker:
            asker.settimeout(2)
            head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            asker.sendall(head + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
            assert asker.recv(100).startswith(b"HTTP/1.1 405")
        assert varz(server)["leafd"]["longest_turn_cpu_ms"] < 10


BCRYPT = """
port: {port}
authorization { users = [ { user: u, password: "{hash}" }, { user: v, password: "{hash}" } ] }
leafnodes { port: {leaf_port} }
"""


def test_guessing_at_the_leaf_port_keeps_no_client_out() -> None:
    """Thirty connections guess a bcrypt password as leafs: clients log in meanwhile, by that name and by another."""
    import bcrypt

    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()
    with servers.running(servers.LEAFD, BCRYPT, hash=hashed) as server:
        over = threading.Event()

        def guess() -> None:
            while not over.is_set():
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", server.ports["leaf_port"])) as s,
                ):
                    s.recv(4096)
                    login = {"user": "u", "pass": "wrong", "name": "x", "protocol": 1}
                    s.sendall(f"CONNECT {json.dumps(login)}\r\nPING\r\n".encode())
                    while s.recv(4096):
                        pass

        guessers = [threading.Thread(target=guess, daemon=True) for _ in range(30)]
        for one in guessers:
            one.start()
        try:
            time.sleep(1)
            for name in ("u", "v", "u", "v"):
                watch = Stopwatch(server)
                peer = RawClient(server, name, says={"pass": "right"})
                assert watch.seconds() < 1.9
                peer.close()
        finally:
            over.set()
            server.stop()
        for one in guessers:
            one.join(10)


DESCRIPTORS = 200


def test_with_few_descriptors_everybody_who_is_in_goes_on() -> None:
    """`ulimit -n 200` and 400 connections: streams can still be made, monitoring answers, admitted clients go on."""
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as directory, contextlib.ExitStack() as held:
        server = servers.make(servers.LEAFD, JETSTREAM, Path(directory))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        started = limited(server)
        held.callback(server.stop)
        assert started
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
        first = RawClient(server)
        held.callback(first.close)
        for _ in range(400):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_connection(("127.0.0.1", server.port), 2))
        assert "error" not in first.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        report = varz(server)
        assert 0 == report["leafd"]["unexpected_errors"]
        assert report["connections"] < DESCRIPTORS
        assert "RLIMIT_NOFILE" in server.log
        assert 1 == first.must("s", "x")["seq"]


def limited(server: servers.Server) -> bool:
    """Starts it with few descriptors; True when it speaks."""
    file = server.directory / "server.conf"
    file.write_text(server.configuration)
    arguments = " ".join(f"'{one}'" for one in (*servers.command(server.kind), "-c", str(file)))
    with (server.directory / "log").open("ab") as output:
        server.process = subprocess.Popen(
            ["sh", "-c", f"ulimit -n {DESCRIPTORS}; exec {arguments}"],
            stdout=output,
            stderr=output,
            cwd=server.directory,
        )
    server._wait_until_it_speaks()
    return True
