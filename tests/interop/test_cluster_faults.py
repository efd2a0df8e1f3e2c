"""A route whose bytes come through in one direction alone: each server serves its own clients meanwhile, takes the
other one for gone, and finds it again when both directions are open.

Cuts in both directions are in test_cluster.py and test_supercluster.py, servers that do not read in
hostile/test_route.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop.test_cluster import CONFIG
from tests.rig.official import one_each, until_heard
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, until

L, R = servers.LEAFD, servers.REFERENCE
LINE_UPS = [(L, L, "there"), (L, L, "back"), (L, R, "back"), (R, L, "there"), (R, L, "back")]
"""The server that listens, the one that dials it, and which way is closed: from the one that dials, or to it."""


class OneWay:
    """A listener before a port; each of the two directions can be closed, and holds what comes until it is open."""

    def __init__(self, beyond: int) -> None:
        self.ways = {"there": threading.Event(), "back": threading.Event()}
        for way in self.ways.values():
            way.set()
        self._beyond = beyond
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._socks: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._beyond))
                except OSError:
                    near.close()
                    continue
                self._socks += [near, far]
                for way, source, sink in (("there", near, far), ("back", far, near)):
                    threading.Thread(target=self._carry, args=(way, source, sink), daemon=True).start()

    def _carry(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.ways[way].wait()
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for way in self.ways.values():
            way.set()
        for sock in (self._listener, *self._socks):
            sock.close()


@contextlib.contextmanager
def one_way(port: int) -> Iterator[OneWay]:
    found = OneWay(port)
    try:
        yield found
    finally:
        found.close()


async def served_each(clients: list[Client]) -> None:
    """By a client of the same server."""
    for number, client in enumerate(clients):

        async def answer(message: Msg, client: Client = client) -> None:
            await client.publish(message.reply, message.data)

        mine = await client.subscribe(f"own.{number}", cb=answer)
        assert (await client.request(f"own.{number}", b"hello", timeout=PATIENCE_S)).data == b"hello"
        await mine.unsubscribe()


@pytest.mark.parametrize(("first", "second", "closed"), LINE_UPS)
def test_a_way_that_is_closed_costs_the_other_server_and_no_client(
    first: str, second: str, closed: str, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as stack:
        port = servers.free_port()
        wire = stack.enter_context(one_way(port))
        made = []
        for number, kind in enumerate((first, second)):
            place = tmp_path / f"s{number}"
            place.mkdir()
            text = CONFIG.replace("{first}", str(wire.port))
            ports = {"route_port": port} if number == 0 else {}
            made.append(servers.make(kind, text, place, name=f"s{number}", more="ping_interval: 1s", **ports))
            made[-1].start()
            stack.callback(made[-1].stop)

        async def play() -> None:
            async with one_each(made) as clients:
                await until_heard(clients, "before")
                wire.ways[closed].clear()
                await until(lambda: not any(report(one, "routez")["num_routes"] for one in made[1:]))
                await served_each(clients)
                wire.ways[closed].set()
                await until_heard(clients, "after")
                await served_each(clients)

        asyncio.run(play())
