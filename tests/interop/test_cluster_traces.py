"""Traces of messages (Nats-Trace-Dest) that go over routes and gateways: which server tells what of them, and who gets
the message, the same with leafd in any place as with nats-servers alone.

Not here: traces on one server and over leaf links (test_trace.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.interop import test_supercluster as of_supercluster
from tests.interop.test_trace import PARENT, SETTLED_S, TRACED, heard, told
from tests.rig.official import until_heard

L, R = servers.LEAFD, servers.REFERENCE
MIXED = [(L, R, R), (R, L, R), (R, R, L), (L, L, R), (L, L, L)]
LAYOUTS = {
    "a cluster": "AAA",
    "three clusters": "ABC",
}
"""The names of the clusters, one letter a server. (Where a cluster of several servers is another's neighbour, chance
says which of them has the gateway.)"""
CONFIG = of_supercluster.CONFIG.replace("A { users", 'A { msg_trace: { dest: "outside.trace" }, users')
ONLY = {"Nats-Trace-Only": "true"}
WAIT_S = 20.0
Found = tuple[list[str], list[str]]
"""What is told of a message, and who hears it."""
CASES: dict[str, tuple[int, str, dict[str, str]]] = {
    f"{subject} from {sender}{more}": (sender, subject, headers)
    for sender in range(3)
    for subject in ("at.0", "at.1", "at.2", "group", "nobody")
    for more, headers in (("", TRACED), (", traced only", TRACED | ONLY))
}
CASES |= {f"of outside from {sender}": (sender, "at.1", {"traceparent": PARENT + "1"}) for sender in range(3)}
"""By name: who sends, the subject, the headers."""


class Stage:
    """A client at each of three servers, and what these get."""

    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients
        self.told: list[Msg] = []
        self.heard: list[Msg] = []

    async def _tell(self, message: Msg) -> None:
        self.told.append(message)

    async def _hear(self, message: Msg) -> None:
        self.heard.append(message)

    async def open(self) -> None:
        for number, client in enumerate(self.clients):
            await client.subscribe(f"at.{number}", cb=self._hear)
        await self.clients[2].subscribe("group", "workers", cb=self._hear)
        for subject in ("trace.x", "outside.trace"):
            await self.clients[0].subscribe(subject, cb=self._tell)
        for client in self.clients:
            await client.flush(30)
        await until_heard(self.clients, "stage")

    async def play(self, name: str, expected: Found | None = None) -> Found:
        """What has come when nothing is expected to come any more."""
        sender, subject, headers = CASES[name]
        self.told.clear()
        self.heard.clear()
        await self.clients[sender].publish(subject, b"hello", headers=dict(headers))
        await self.clients[sender].flush(30)
        began = time.monotonic()
        while True:
            await asyncio.sleep(0.05)
            found = sorted(map(told, self.told)), sorted(map(heard, self.heard))
            gone = time.monotonic() - began
            if gone > 2 * SETTLED_S if expected is None else (found == expected and gone > 0.1) or gone > WAIT_S:
                return found


@asynccontextmanager
async def stage(kinds: tuple[str, ...], layout: str, folder: Path) -> AsyncIterator[Stage]:
    with of_supercluster.started(kinds, folder, clusters=LAYOUTS[layout], text=CONFIG) as found:
        if layout != "a cluster":
            await found.until_met()
        async with found.clients(name="one") as clients:
            made = Stage(clients)
            await made.open()
            yield made


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Found]]:
    """What three nats-servers tell, by layout and case."""

    async def run(layout: str, folder: Path) -> dict[str, Found]:
        async with stage((R, R, R), layout, folder) as made:
            return {name: await made.play(name) for name in CASES}

    return {layout: asyncio.run(run(layout, tmp_path_factory.mktemp(name))) for layout, name in LAYOUTS.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_a_trace_goes_on_at_other_servers(
    expected: dict[str, dict[str, Found]], layout: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """Each server on the way tells what became of the message there, and names whom it has it from."""
    wanted = expected[layout]
    assert len(wanted["at.1 from 0"][0]) == 2, "one event of each server"
    assert wanted["at.1 from 0"][1]
    assert not wanted["at.1 from 0, traced only"][1]

    async def run() -> dict[str, Found]:
        async with stage(kinds, layout, tmp_path) as made:
            return {name: await made.play(name, wanted[name]) for name in CASES}

    found = asyncio.run(run())
    assert {} == {name: (wanted[name], found[name]) for name in CASES if wanted[name] != found[name]}
