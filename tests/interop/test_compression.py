"""Compressed leaf links with nats-server at either end: every mode, over TLS, levels that follow the round trip."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nats
import nats.errors
import pytest

from tests import servers
from tests.certificates import Authority
from tests.rig.waiting import eventually, logged

HUB = """
server_name: hub
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
leafnodes { listen: "127.0.0.1:{leaf_port}", no_advertise: true, OPTIONS }
"""
LEAF = """
server_name: edge
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{monitor_port}"
leafnodes { reconnect: 1s, remotes: [ { url: "SCHEME://127.0.0.1:{hub_leaf_port}", OPTIONS } ] }
"""
LINE_UPS = [(hub, leaf) for hub in servers.KINDS for leaf in servers.KINDS]
LEVELS = ("s2_uncompressed", "s2_fast", "s2_better", "s2_best")
SIZES = (0, 10, 300, 5_000, 70_000, 1_000_000)


@contextlib.contextmanager
def linked(
    kinds: tuple[str, str], hub_options: str, leaf_options: str, *, by: int = 0, scheme: str = "nats-leaf"
) -> Iterator[tuple[servers.Server, servers.Server]]:
    """A hub and a leaf; by: the port of a proxy that the leaf is to dial, which reads the hub's from `target`."""
    with servers.running(kinds[0], HUB.replace("OPTIONS", hub_options)) as hub:
        port = by or hub.ports["leaf_port"]
        Delay.target = hub.ports["leaf_port"]
        text = LEAF.replace("OPTIONS", leaf_options).replace("SCHEME", scheme)
        with servers.running(kinds[1], text, hub_leaf_port=port) as leaf:
            yield hub, leaf


def leafz(server: servers.Server) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['monitor_port']}/leafz", timeout=5) as answer:
        return [one.get("compression", "") for one in json.load(answer)["leafs"]]


def payload(size: int) -> bytes:
    """Half of it can be compressed."""
    text = b'{"box":"box-0001","sensor":"engine","temperature":21.5,"ok":true}'
    return (text * (size // (2 * len(text)) + 1))[: size // 2] + os.urandom(size - size // 2)


async def over_the_link(hub: servers.Server, leaf: servers.Server) -> None:
    """Messages of all sizes, in both directions, whole and in order."""
    here, there = await nats.connect(hub.url), await nats.connect(leaf.url)
    for one, other in ((here, there), (there, here)):
        heard = await one.subscribe("data")
        await one.flush()
        for _ in range(100):
            await other.publish("data", b"first")
            with contextlib.suppress(nats.errors.TimeoutError):
                await heard.next_msg(timeout=0.2)
                break
        sent = [payload(size) for size in SIZES] + [payload(200) for _ in range(300)]
        for data in sent:
            await other.publish("data", data)
        found: list[bytes] = []
        while len(found) < len(sent):
            data = (await heard.next_msg(timeout=10)).data
            if data != b"first":
                found.append(data)
        assert sent == found
        await heard.unsubscribe()
    await here.close()
    await there.close()


@pytest.mark.parametrize("kinds", LINE_UPS, ids="-".join)
@pytest.mark.parametrize(
    ("hub_mode", "leaf_mode", "at_hub", "at_leaf"),
    [
        ("s2_fast", "s2_best", "s2_fast", "s2_best"),
        ("accept", "better", "s2_better", "s2_better"),
        ("s2_better", "accept", "s2_better", "s2_better"),
        ("accept", "accept", "off", "off"),
        ("off", "s2_fast", "off", "off"),
        ("s2_fast", "off", "off", "off"),
        ("not_supported", "s2_fast", "not supported", "not supported"),
    ],
)
def test_each_mode(kinds: tuple[str, str], hub_mode: str, leaf_mode: str, at_hub: str, at_leaf: str) -> None:
    """Both ends agree as nats-server's do, /leafz says upon what, and messages get through."""
    with linked(kinds, f"compression: {hub_mode}", f"compression: {leaf_mode}") as (hub, leaf):
        asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))
        assert [at_hub] == leafz(hub)
        assert [at_leaf] == leafz(leaf)


@pytest.mark.parametrize("kinds", LINE_UPS, ids="-".join)
def test_links_are_s2_streams_unless_told_otherwise(kinds: tuple[str, str]) -> None:
    """Nearby, where the default's level is to compress nothing."""
    with linked(kinds, "", "") as (hub, leaf):
        asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))
        assert leafz(hub)[0] in LEVELS
        assert leafz(leaf)[0] in LEVELS


def link_at(hub: servers.Server, compression: str) -> int:
    """The number of the hub's link, when that is compressed like this."""

    def number() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{hub.ports['monitor_port']}/leafz", timeout=5) as answer:
            links = json.load(answer).get("leafs") or []
        return next((int(one["id"]) for one in links if one.get("compression") == compression), 0)

    return eventually(number, lambda: f"no link with {compression}: {leafz(hub)}\n{hub.log[-2000:]}")


@pytest.mark.parametrize("kinds", LINE_UPS[::2], ids="-".join)
def test_a_reload_changes_links_that_leaves_have_dialled(kinds: tuple[str, str]) -> None:
    """Another level goes on with the same link; where the ends have to agree anew, it is another one."""
    with linked(kinds, "compression: s2_fast", "compression: s2_fast") as (hub, leaf):
        numbers = [link_at(hub, "s2_fast")]
        before = "compression: s2_fast"
        for mode in ("s2_best", "off", "s2_better"):
            path = hub.directory / "server.conf"
            text = path.read_text()
            assert before in text
            path.write_text(text.replace(before, f"compression: {mode}"))
            before = f"compression: {mode}"
            assert hub.process is not None
            hub.process.send_signal(signal.SIGHUP)
            numbers.append(link_at(hub, mode))
            asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))
        assert [numbers[0] == numbers[1], numbers[1] == numbers[2], numbers[2] == numbers[3]] == [True, False, False]


@pytest.mark.parametrize("kinds", [kinds for kinds in LINE_UPS if servers.LEAFD in kinds], ids="-".join)
def test_compression_over_tls(kinds: tuple[str, str], tmp_path: Path) -> None:
    """What is compressed goes through TLS."""
    authority = Authority(tmp_path)
    server = authority.issue("server")
    tls = f"tls {{ cert_file: '{server.certificate}', key_file: '{server.key}', timeout: 10 }}"
    trust = f"tls {{ ca_file: '{authority.certificate}', timeout: 10 }}"
    with linked(kinds, f"{tls}, compression: s2_fast", f"{trust}, compression: s2_better", scheme="tls") as (hub, leaf):
        asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))
        assert (["s2_fast"], ["s2_better"]) == (leafz(hub), leafz(leaf))


class Delay:
    """Passes bytes on, each way after some time."""

    target = 0

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.damaged = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Delay:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as far:
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            back.start()
            self._pass(near, far)
            back.join()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                time.sleep(self.seconds)
                if self.damaged and one.getpeername()[1] != self.target:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kinds", [kinds for kinds in LINE_UPS if servers.LEAFD in kinds], ids="-".join)
def test_the_level_follows_the_round_trip(kinds: tuple[str, str]) -> None:
    """Over a slow line both ends compress better, and less again when it is fast; messages pass all the while."""
    auto = 'compression: { mode: s2_auto, rtt_thresholds: ["100ms", "200ms", "10s"] }'
    with Delay(0.15) as delay, linked(kinds, auto, auto, by=delay.port) as (hub, leaf):
        assert eventually(lambda: leafz(hub) == ["s2_better"] and leafz(leaf) == ["s2_better"]), (
            leafz(hub),
            leafz(leaf),
        )
        delay.seconds = 0
        asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))


def test_damage_ends_the_link_with_a_reason_and_it_comes_back() -> None:
    """One line in the log says it; nothing of what was damaged is heard."""
    kinds, fast = (servers.LEAFD, servers.LEAFD), "compression: s2_fast"
    with Delay(0) as delay, linked(kinds, fast, fast, by=delay.port) as (hub, leaf):
        eventually(lambda: leafz(hub) == ["s2_fast"], lambda: leafz(hub))
        delay.damaged = True
        asyncio.run(one_message(leaf))
        logged(hub, "compressed stream: ")
        delay.damaged = False
        eventually(lambda: leafz(hub) == ["s2_fast"], lambda: leafz(hub))
        asyncio.run(asyncio.wait_for(over_the_link(hub, leaf), 60))


async def one_message(server: servers.Server) -> None:
    client = await nats.connect(server.url)
    heard = await client.subscribe("anything")
    await client.flush()
    await heard.unsubscribe()
    await client.close()
