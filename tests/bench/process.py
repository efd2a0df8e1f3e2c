"""A server process as the benchmarks see it: started, spoken to, and asked for processor time and memory from outside.

Not here: what is measured (rows.py, links.py) and how it is shown (report.py).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import servers

SETTLE_SECONDS_MAX = 15.0
START_SECONDS_MAX = 120.0
POLL_SECONDS = 0.002
WATCH_SECONDS = 0.05
REQUEST_SECONDS_MAX = 60.0
Login = Callable[[str], dict[str, str]]


class Refused(RuntimeError):
    """The server answered a JetStream request with an error."""


class Api:
    """One client connection for requests, one at a time. login: what CONNECT answers a nonce."""

    def __init__(self, port: int, login: Login | None = None, patience: float = REQUEST_SECONDS_MAX) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        self._socket.settimeout(patience)
        # As clients do: without it a request that follows a publish waits for the kernel's acknowledgement, 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        info = json.loads(self._file.readline().partition(b" ")[2])
        self._count = 0
        connect = (login(info.get("nonce", "")) if login is not None else {}) | {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        self._inbox = f"_INBOX.{secrets.token_hex(4)}"  # its own: links carry what somebody else's answers would match
        self._socket.sendall(b"CONNECT " + json.dumps(connect).encode() + f"\r\nSUB {self._inbox}.* 1\r\n".encode())

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def publish(self, subject: str, payload: bytes) -> None:
        """A message of which nothing is heard."""
        self._socket.sendall(f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def request(self, subject: str, body: object = None) -> dict[str, Any]:
        """The JSON that answers, or {"error": ...} when nobody does."""
        payload = b"" if body is None else json.dumps(body).encode()
        self._count += 1
        reply = f"{self._inbox}.{self._count}"
        self._socket.sendall(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
        while True:
            line = self._file.readline().split()
            if not line:
                raise ConnectionError("the server closed the connection")
            if line[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif line[0] == b"-ERR":
                raise Refused(b" ".join(line).decode())
            elif line[0] in (b"MSG", b"HMSG"):
                body_bytes = self._file.read(int(line[-1]) + 2)[:-2]
                if line[1].decode() != reply:
                    continue  # the answer to an earlier request that was given up
                if line[0] == b"HMSG":
                    return {"error": {"description": body_bytes.decode(errors="replace")}}
                answer: dict[str, Any] = json.loads(body_bytes)
                return answer

    def must(self, subject: str, body: object = None) -> dict[str, Any]:
        answer = self.request(subject, body)
        if "error" in answer:
            raise Refused(f"{subject}: {answer['error']}")
        return answer

    def messages_in(self, stream: str) -> int:
        return int(self.must(f"$JS.API.STREAM.INFO.{stream}")["state"]["messages"])


@dataclass
class Process:
    """A server under measurement. Its store outlives the process when it is started again."""

    server: servers.Server
    start_seconds: float = 0.0
    start_cpu_seconds: float = 0.0

    def start(self) -> None:
        """Starts it; start_seconds is the time until a client gets its INFO, start_cpu_seconds its work until then."""
        directory = self.server.directory
        (directory / "server.conf").write_text(self.server.configuration)
        started = time.monotonic()
        with (directory / "log").open("ab") as output:
            self.server.process = subprocess.Popen(
                [*servers.command(self.server.kind), "-c", str(directory / "server.conf")],
                stdout=output,
                stderr=output,
                cwd=directory,
            )
        while not self._speaks():
            if self.server.process.poll() is not None or time.monotonic() - started > START_SECONDS_MAX:
                raise servers.ServerDied(f"{self.server.kind} did not start:\n{self.server.log[-4000:]}")
            time.sleep(POLL_SECONDS)
        self.start_seconds = time.monotonic() - started
        self.start_cpu_seconds = self.cpu_seconds()

    def _speaks(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as probe:
            probe.settimeout(START_SECONDS_MAX)
            return probe.recv(4) == b"INFO"
        return False

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def pid(self) -> int:
        assert self.server.process is not None
        return self.server.process.pid

    def cpu_seconds(self) -> float:
        """Processor time of all threads so far, to the nanosecond: the process's CPU clock, asked for from outside."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def threads_cpu_seconds(self) -> dict[str, float]:
        """Processor time by the threads' names, to the nanosecond: of servers with few threads."""
        found: dict[str, float] = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                name = (task / "comm").read_text().strip()
                found[name] = found.get(name, 0) + int((task / "schedstat").read_text().split()[0]) / 1e9
        return found

    def settled_cpu_seconds(self) -> float:
        """The same, once the server has come to rest: work that was put off belongs to the messages, too."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        before = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(0.4)
            now = self.cpu_seconds()
            if now - before < 0.012:
                break
            before = now
        return self.cpu_seconds()

    def waited_seconds(self) -> float:
        """How long its threads, the unluckiest of them, could have run and had no processor. Where that is much of a
        measurement, others had the machine, and its rate says little."""
        waits = [0.0]
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError, IndexError):  # a thread may end meanwhile
                waits.append(int((task / "schedstat").read_text().split()[1]) / 1e9)
        return max(waits)

    def _status_mb(self, field: str) -> float:
        return self.server.memory_bytes(field) / (1 << 20)

    def peak_mb(self) -> float:
        return self._status_mb("VmHWM")

    def resident_mb(self) -> float:
        return self._status_mb("VmRSS")

    def private_mb(self) -> float:
        """Memory that the kernel cannot take back: pages of no file, and shared memory."""
        return self._status_mb("RssAnon") + self._status_mb("RssShmem")

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[float]]:
        """The first item grows to the most of private_mb while it is watched: the kernel keeps no such peak itself."""
        most = [self.private_mb()]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(WATCH_SECONDS):
                with contextlib.suppress(OSError):
                    most[0] = max(most[0], self.private_mb())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield most
        finally:
            ended.set()
            thread.join()

    def leaf_links(self) -> int:
        """How many leaf links it has now, by its monitoring port; 0 while nothing answers there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.ports["monitor_port"], timeout=5)
        try:
            connection.request("GET", "/leafz")
            answer = json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        return int(answer.get("leafnodes", 0))


@contextlib.contextmanager
def running(kind: str, configuration: str, directory: Path, **more: object) -> Iterator[Process]:
    """A started server with an empty store below directory, stopped at the end."""
    directory.mkdir(parents=True)
    process = Process(servers.make(kind, configuration, directory, **more))
    process.start()
    try:
        yield process
    finally:
        process.server.stop()


@contextlib.contextmanager
def api(process: Process, login: Login | None = None, patience: float = REQUEST_SECONDS_MAX) -> Iterator[Api]:
    connection = Api(process.port, login, patience)
    try:
        yield connection
    finally:
        connection.close()
