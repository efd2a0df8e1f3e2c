"""The hub and the leaves: their configuration, their processes, their ends; and the link that can be cut.

A node keeps its ports and its store directory over a kill and a restart. Which program plays it is the
caller's choice: leafd or nats-server read the same file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = {
    "leafd": [sys.executable, "-m", "leafd"],
    "nats-server": [str(Path(sys.executable).with_name("nats-server"))],
}
HUB_DOMAIN = "hub"
START_SECONDS = 30.0
STOP_SECONDS = 10.0


class NodeError(Exception):
    """A node did not do what it had to; the text says where its log is."""


def free_port() -> int:
    """A port that nobody has, now. Nor does an outgoing connection of this machine get it before its node listens, or
    while that node is down: Linux gives those the ports above."""
    ports = range(10_240, 32_768)
    for port in random.SystemRandom().sample(ports, len(ports)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise NodeError(f"none of the ports from {ports.start} to {ports.stop - 1} is free")


@dataclass
class Node:
    """One daemon: a process of its own with a store of its own."""

    name: str
    program: str
    directory: Path
    port: int = field(default_factory=free_port)
    domain: str = ""  # of JetStream, where it is not the node's name
    link_port: int = 0  # where leaves connect to; a hub's server has one
    hub_links: list[int] = field(default_factory=list)  # where to find the hub; a leaf has at least one
    hub_address: str = "127.0.0.1"
    neighbours: list[str] = field(default_factory=list)  # blocks that join it to the hub's other servers
    enter: Callable[[], None] | None = None  # the place where the process is to be
    monitoring_port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None
    up: bool = False

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitoring(self) -> str:
        return f"http://127.0.0.1:{self.monitoring_port}/"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def configure(self) -> None:
        self.directory.mkdir(parents=True)
        store = self.directory / "store"
        lines = [
            f"server_name: {self.name}",
            f"listen: 127.0.0.1:{self.port}",
            f"http: 127.0.0.1:{self.monitoring_port}",
            f'jetstream {{ store_dir: "{store}", domain: {self.domain or self.name} }}',
            *self.neighbours,
        ]
        if self.link_port:
            # Without no_advertise a leaf learns the hub's own address and goes round a cut link.
            lines.append(
                f"leafnodes {{ listen: {self.hub_address}:{self.link_port}, no_advertise: true{self._patience(True)} }}"
            )
        if self.hub_links:
            urls = ", ".join(f'"nats-leaf://{self.hub_address}:{port}"' for port in self.hub_links)
            lines.append(f"leafnodes {{ remotes: [ {{ urls: [ {urls} ]{self._patience(False)} }} ] }}")
        (self.directory / "node.conf").write_text("\n".join(lines) + "\n")

    def _patience(self, hub: bool) -> str:
        """The settings that nats-server needs on a bad line, and leafd does not."""
        if self.enter is None or self.program == "leafd":
            return ""
        return ", authorization { timeout: 60 }" if hub else ', first_info_timeout: "60s"'

    async def start(self) -> None:
        """Start the process and wait until it takes connections."""
        command = [*PROGRAMS[self.program], "-c", str(self.directory / "node.conf")]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                stdout=log,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                env=os.environ,
                preexec_fn=self.enter,
            )
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while not await self._answers():
            if self.process.returncode is not None:
                raise NodeError(f"{self.name} ended with code {self.process.returncode}: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise NodeError(f"{self.name} took no connection within {START_SECONDS:g} s: {self._last_words()}")
            await asyncio.sleep(0.02)
        self.up = True

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return " | ".join([*lines[-3:], f"(log: {self.log})"])

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            greeting = await asyncio.wait_for(reader.readline(), 1)
            return greeting.startswith(b"INFO ")
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def kill(self) -> None:
        """kill -9: no goodbye, nothing flushed."""
        self.up = False
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> None:
        if self.process is None or self.process.returncode is not None:
            return
        self.up = False
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            await self.kill()


@dataclass
class Hub:
    """The servers that are the hub, or one cluster of it."""

    name: str
    servers: list[Node]

    @property
    def url(self) -> str:
        """For a client: any of them will do."""
        return ",".join(server.url for server in self.servers)

    @property
    def down(self) -> list[str]:
        return [server.name for server in self.servers if not server.up]


class Link:
    """A TCP proxy before the hub's leaf port. Cut, it drops its connections and refuses new ones. make: a socket of the
    place where that port is."""

    def __init__(
        self, target: int, address: str = "127.0.0.1", make: Callable[[], socket.socket] | None = None
    ) -> None:
        self.port = free_port()
        self._target = target
        self._address = address
        self._make = make
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def whole(self) -> bool:
        return self._server is not None

    async def join(self) -> None:
        if self._make is None:
            self._server = await asyncio.start_server(self._accept, self._address, self.port)
            return
        listener = self._make()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._address, self.port))
        self._server = await asyncio.start_server(self._accept, sock=listener)

    def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward = await self._go_on()
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward}
        await asyncio.gather(pass_on(reader, onward), pass_on(onward_reader, writer))
        self._writers -= {writer, onward}

    async def _go_on(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._make is None:
            return await asyncio.open_connection(self._address, self._target)
        onward = self._make()
        try:
            await asyncio.get_running_loop().sock_connect(onward, (self._address, self._target))
        except OSError:
            onward.close()
            raise
        return await asyncio.open_connection(sock=onward)


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Passes the bytes of one side to the other. One direction's end is the connection's end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
