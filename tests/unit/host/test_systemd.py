"""What systemd is told: when the daemon is ready, that each of its threads lives, and how it is. Its side of the socket
is played here; a real systemd is in tests/packaging."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import pytest
import trio
import trio.testing
from leafd import native_types as t
from leafd.daemon.status_line import EVERY_S, Seen, StatusLine, compose
from leafd.guard import Guard
from leafd.host.systemd import Notifier
from leafd.links.lag import Behind
from leafd.links.leaf import Remote
from leafd.links.link import LinkStatus, RemoteStatus

from tests.rig.raw import RawClient
from tests.rig.waiting import PATIENCE_S
from tests.servers import LEAFD, free_port, make

# A disk may take minutes before it counts as dead; here less, and the status line is looked at more often.
PROGRAM = """
import sys
import leafd.daemon.status_line as line
import leafd.host.systemd as systemd
from leafd.__main__ import main
systemd.DISK_S, line.EVERY_S = 0.5, 0.1
sys.exit(main())
"""
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Systemd:
    """Hears what a daemon tells."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.path.unlink()

    def hear(self, wanted: str) -> str:
        """The next message with these words."""
        while True:
            text = self.socket.recv(4096).decode()
            if wanted in text:
                return text

    def silent(self, seconds: float, wanted: str) -> bool:
        """Whether no message with these words comes in this time."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if wanted in self.socket.recv(4096).decode():
                    return False
        self.socket.settimeout(PATIENCE_S)
        return True


@contextlib.contextmanager
def daemon(systemd: Systemd, file: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of that configuration under that systemd, ready when the block is entered."""
    environment = os.environ | {"NOTIFY_SOCKET": str(systemd.path)} | more
    with (file.parent / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, "-c", str(file)], env=environment, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def request(port: int, subject: str, body: bytes) -> bytes:
    """What JetStream answers."""
    with RawClient(port) as client:
        return client.replied(subject, body).payload


def test_ready_is_told_when_everything_answers(tmp_path: Path) -> None:
    """With READY=1 each listener serves whoever comes, and the streams of a store in use are there."""
    ports = {name: free_port() for name in ("port", "leaf_port", "http_port", "web_port")}
    file = tmp_path / "box.conf"
    file.write_text(
        "port: {port}\nleafnodes {{ port: {leaf_port} }}\nhttp_port: {http_port}\n"
        "websocket {{ port: {web_port}, no_tls: true }}\n"
        "jetstream {{ store_dir: '{store}' }}\n".format(store=tmp_path / "store", **ports)
    )
    for body, answer in ((b'{"name":"S","subjects":["s"]}', b'"did_create":true'), (b"", b'"messages":0')):
        with Systemd(tmp_path) as systemd, daemon(systemd, file):
            systemd.hear("READY=1")
            name = "CREATE" if body else "INFO"
            assert answer in request(ports["port"], f"$JS.API.STREAM.{name}.S", body)
            for port, sent, said in (
                (ports["leaf_port"], b"", b"INFO"),
                (ports["http_port"], b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP"),
                (ports["web_port"], b"GET / HTTP/1.0\r\n\r\n", b"HTTP"),
            ):
                with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
                    connection.sendall(sent)
                    assert said == connection.recv(4)


def test_a_daemon_that_does_not_start_is_never_ready(tmp_path: Path) -> None:
    """A store that another daemon has in use keeps a daemon from being ready, though its ports can be opened."""
    file = tmp_path / "second.conf"
    with make_running(tmp_path) as store, Systemd(tmp_path) as systemd:
        file.write_text(f"port: {free_port()}\njetstream {{ store_dir: '{store}' }}\n")
        with daemon(systemd, file) as process:
            assert 1 == process.wait(PATIENCE_S)
        systemd.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            systemd.socket.recv(1)


@contextlib.contextmanager
def make_running(directory: Path) -> Iterator[Path]:
    """A daemon's store in use."""
    server = make(LEAFD, "port: {port}\njetstream { store_dir: '{store}' }\n", directory)
    server.start()
    try:
        yield directory / "store"
    finally:
        server.stop()


@contextlib.contextmanager
def stopped(process: int, name: str) -> Iterator[None]:
    """One thread of a process stands still; the others go on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    threads = Path(f"/proc/{process}/task").iterdir()
    thread = next(int(one.name) for one in threads if (one / "comm").read_text().strip() == name)
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
        pytest.skip(f"one thread alone can be stopped by a debugger only: {os.strerror(ctypes.get_errno())}")
    libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, thread, None, None)


def test_the_watchdog_hears_nothing_when_a_thread_hangs(tmp_path: Path) -> None:
    """It is told of life only while the control thread, the plane's and the journal's turn, and again when they do."""
    port = free_port()
    file = tmp_path / "box.conf"
    file.write_text(f"port: {port}\njetstream {{ store_dir: '{tmp_path / 'store'}' }}\n")
    with Systemd(tmp_path) as systemd, daemon(systemd, file, WATCHDOG_USEC="400000") as process:
        systemd.hear("READY=1")
        assert b"did_create" in request(port, "$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
        control = Path(f"/proc/{process.pid}/comm").read_text().strip()
        for name in (control, "leafd-plane", "leafd-journal"):
            systemd.hear("WATCHDOG=1")
            with stopped(process.pid, name):
                if name == "leafd-journal":  # one that has nothing to write is no sign of anything
                    with RawClient(port) as client:
                        client.publish("s", b"x")
                        assert [] == client.lines()
                deadline = time.monotonic() + PATIENCE_S
                while not systemd.silent(1.5, "WATCHDOG=1"):
                    assert time.monotonic() < deadline, name
            systemd.hear("WATCHDOG=1")


def test_the_status_line_follows_the_box(tmp_path: Path) -> None:
    """A leaf's line tells of its hub and how far its mirror is behind, a hub's of its leaves and clients."""
    hub_port, leaf_port, port = free_port(), free_port(), free_port()
    (tmp_path / "hub").mkdir()
    (tmp_path / "box").mkdir()
    hub_file, box_file = tmp_path / "hub" / "hub.conf", tmp_path / "box" / "box.conf"
    hub_file.write_text(
        f"port: {hub_port}\nserver_name: hub\nleafnodes {{ port: {leaf_port} }}\n"
        f"jetstream {{ store_dir: '{tmp_path / 'hub'}', domain: hub }}\n"
    )
    box_file.write_text(
        f"port: {port}\nserver_name: box\nleafnodes {{ reconnect: '100ms', remotes: [ {{ url: "
        f"'nats-leaf://127.0.0.1:{leaf_port}' }} ] }}\njetstream {{ store_dir: '{tmp_path / 'box'}', domain: box }}\n"
    )
    with Systemd(tmp_path / "hub") as hub, Systemd(tmp_path / "box") as box, daemon(box, box_file):
        assert f"STATUS=not linked to 127.0.0.1:{leaf_port}, " in box.hear("READY=1")
        with daemon(hub, hub_file):
            ready = hub.hear("READY=1")  # the box may have been quicker
            assert "STATUS=0 leafs, " in ready or "STATUS=1 leaf, " in ready
            box.hear("STATUS=linked to hub, ")
            if "STATUS=1 leaf, 0 clients, " not in ready:
                hub.hear("STATUS=1 leaf, 0 clients, ")
            with socket.create_connection(("127.0.0.1", hub_port)):
                hub.hear("STATUS=1 leaf, 1 client, ")
            mirror = b'{"name":"M","mirror":{"name":"S","external":{"api":"$JS.hub.API"}}}'
            assert b"did_create" in request(hub_port, "$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
            assert b"did_create" in request(port, "$JS.API.STREAM.CREATE.M", mirror)
            assert box.hear("STATUS=linked to hub, 0 behind, ").endswith("B free")
        box.hear(f"STATUS=not linked to 127.0.0.1:{leaf_port}, 1 mirror or source without origin, ")


def test_a_reload_leaves_the_line_as_it_is(tmp_path: Path) -> None:
    """Its end is READY=1 and nothing else."""
    file = tmp_path / "box.conf"
    file.write_text(f"port: {free_port()}\n")
    with Systemd(tmp_path) as systemd, daemon(systemd, file) as process:
        assert "STATUS=0 clients" == systemd.hear("READY=1").splitlines()[1]
        process.send_signal(signal.SIGHUP)
        systemd.hear("RELOADING=1")
        assert "READY=1" == systemd.hear("READY=1")


def test_a_line_that_systemd_did_not_take_is_told_again() -> None:
    """Its queue was full for a moment: it hears of the change with the next look, and then no more."""
    said: list[str] = []

    class Full(Notifier):
        def status(self, text: str) -> bool:
            said.append(text)
            return len(said) > 1

    class Kept(StatusLine):
        async def now(self) -> str:
            return "2 clients"

    async def main() -> None:
        nothing: Any = None
        kept = Kept(nothing, nothing, nothing, takes_leafs=False, guard=Guard())
        with trio.move_on_after(10 * EVERY_S):
            await kept.tell(Full({}), "1 client")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ["2 clients", "2 clients"] == said


NOTHING = Seen((), (), False, Behind(), t.Stats(*(0 for _ in fields(t.Stats))))


def remote(url: str, *, connected: bool) -> RemoteStatus:
    return RemoteStatus(Remote((url,), 1, "A"), connected)


def link(name: str, *, hub: bool) -> LinkStatus:
    return LinkStatus(1, name, "A", "peer", hub, "", "")


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (NOTHING, "0 clients"),
        (
            replace(
                NOTHING,
                remotes=(remote("nats-leaf://u:secret@hub:7422", connected=True),),
                links=(link("hub", hub=True),),
                behind=Behind(2, 0, 0),
                stats=replace(NOTHING.stats, disk_free=61_300_000_000),
            ),
            "linked to hub, 0 behind, 61 GB free",
        ),
        (
            replace(
                NOTHING,
                links=(link("a", hub=False), link("b", hub=False)),
                takes_leafs=True,
                stats=replace(NOTHING.stats, connections=14, leafs=2, disk_free=900_000, refusing=1),
            ),
            "2 leafs, 12 clients, file store full, 900 kB free",
        ),
        (
            replace(
                NOTHING,
                remotes=(
                    remote("ws://u:secret@h:1/hubs", connected=False),
                    remote("tls://i", connected=True),
                    remote("nats-leaf://[::1]", connected=False),
                ),
                links=tuple(link(f"hub\n{number}", hub=True) for number in range(5)),
                behind=Behind(1, 7, 2),
            ),
            r"linked to hub\n0, hub\n1, hub\n2 and 2 more, not linked to h:1, [::1]:7422, 7 behind, 2 mirrors or "
            "sources without origin",
        ),
    ],
)
def test_the_status_line_says_what_there_is_to_say(seen: Seen, line: str) -> None:
    """One line without secrets, whatever peers call themselves, and nothing of what the box has not."""
    assert line == compose(seen)
