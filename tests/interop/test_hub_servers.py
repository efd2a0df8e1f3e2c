"""A leaf whose hub is a cluster: which of the hub's servers it hears of, and where it goes when its server does.

Those of reference servers alone prove the tests. Not here: streams that are copied meanwhile
(test_hub_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.certificates import Authority
from tests.interop.test_cluster import CONFIG, Cluster, started
from tests.rig.official import connect
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, until

LEAF = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: leaf
leafnodes {
  reconnect: 1s
  remotes: [ { url: "{url}", {remote} } ]
}
"""
LISTENER = 'leafnodes { listen: "127.0.0.1:{leaf_port}" }'
WEB = LISTENER + '\nwebsocket { listen: "127.0.0.1:{web_port}", no_tls: true }'
SECURE = """
leafnodes {
  listen: "127.0.0.1:{leaf_port}"
  tls { cert_file: "{certificate}", key_file: "{key}", timeout: 30 }
}
websocket { listen: "127.0.0.1:{web_port}", tls { cert_file: "{certificate}", key_file: "{key}", timeout: 30 } }
"""
L, R = servers.LEAFD, servers.REFERENCE
HUBS = [((R, R, R), R), ((R, R, R), L), ((L, L, L), R), ((L, R, L), L)]
MESSAGES = 50


@contextlib.contextmanager
def leaf_of(
    cluster: Cluster, kind: str, folder: Path, *, scheme: str = "nats-leaf", port: str = "leaf_port", remote: str = ""
) -> Iterator[servers.Server]:
    """A leaf that knows the first of the hub's servers."""
    host = "localhost" if scheme in ("tls", "wss") else "127.0.0.1"
    place = folder / f"leaf-{kind}"
    place.mkdir()
    url = f"{scheme}://a:a@{host}:{cluster.servers[0].ports[port]}"
    leaf = servers.make(kind, LEAF, place, url=url, remote=remote)
    leaf.start()
    try:
        yield leaf
    finally:
        leaf.stop()


def alive(cluster: Cluster) -> list[servers.Server]:
    return [one for one in cluster.servers if one.process is not None and one.process.poll() is None]


def server_of(cluster: Cluster) -> servers.Server | None:
    """Which of them has the leaf."""
    having = [one for one in alive(cluster) if any(row["name"] == "leaf" for row in report(one, "leafz")["leafs"])]
    return having[0] if len(having) == 1 else None


def hub_of(leaf: servers.Server) -> dict[str, Any]:
    """What a leafd says of its hub."""
    found: dict[str, Any] = report(leaf, "varz")["leafd"]["remotes"][0]
    return found


def knows(leaf: servers.Server, cluster: Cluster, *numbers: int, port: str = "leaf_port") -> Callable[[], bool]:
    wanted = {f"127.0.0.1:{cluster.servers[number].ports[port]}" for number in numbers}
    return lambda: set(hub_of(leaf)["learned"]) == wanted


async def linked(cluster: Cluster, leaf: servers.Server) -> servers.Server:
    found: list[servers.Server] = []

    def look() -> bool:
        server = server_of(cluster)
        found.extend([server] if server is not None else [])
        return bool(found)

    await until(look, f"{leaf.log[-3000:]}")
    return found[0]


async def until_joined(leaf: servers.Server, server: servers.Server, port: str = "leaf_port") -> None:
    """The leaf says so as well, which may be a moment later than its hub."""
    await until(lambda: hub_of(leaf)["server"] == f"127.0.0.1:{server.ports[port]}", lambda: f"{hub_of(leaf)}")


async def until_through(here: Client, there: Client, subject: str) -> None:
    """Messages of the one come to the other, each of them once."""
    got: list[int] = []
    ready = asyncio.Event()

    async def take(message: Msg) -> None:
        if message.data == b"ready":
            ready.set()
        else:
            got.append(int(message.data))

    subscription = await there.subscribe(subject, cb=take)
    async with asyncio.timeout(PATIENCE_S):
        while not ready.is_set():
            await here.publish(subject, b"ready")
            await here.flush(30)
            await asyncio.sleep(0.05)
    for number in range(MESSAGES):
        await here.publish(subject, b"%d" % number)
    await here.flush(30)
    await until(lambda: len(got) >= MESSAGES, f"{subject}: {got}")
    await asyncio.sleep(0.2)
    assert got == list(range(MESSAGES))
    await subscription.unsubscribe()


async def until_served(cluster: Cluster, leaf: servers.Server, subject: str) -> None:
    """From the leaf to a client at each server, and back."""
    here = await connect(leaf, user="", password="")
    for number, server in enumerate(alive(cluster)):
        there = await connect(server)
        await until_through(here, there, f"{subject}.{number}.up")
        await until_through(there, here, f"{subject}.{number}.down")
        await there.close()
    await here.close()


@pytest.mark.parametrize(("kinds", "kind"), HUBS, ids=lambda one: "-".join(one) if isinstance(one, tuple) else one)
def test_a_leaf_goes_on_at_the_next_server_when_its_own_is_killed(
    kinds: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    """It was told of the others, and its configuration names the first one only: each server is killed in turn, two of
    them at a time, and each comes back."""

    async def play(cluster: Cluster, leaf: servers.Server) -> None:
        assert await linked(cluster, leaf) is cluster.servers[0]
        if kind == L:
            await until(knows(leaf, cluster, 1, 2), f"{hub_of(leaf)}")
        await until_served(cluster, leaf, "first")
        dead: list[servers.Server] = []
        for turn in range(3):
            server = await linked(cluster, leaf)
            if kind == L:
                await until_joined(leaf, server)
            server.kill()
            dead.append(server)
            await linked(cluster, leaf)
            await until_served(cluster, leaf, f"turn{turn}")
            if len(dead) == 2:
                dead.pop(0).start()

    with started(kinds, tmp_path) as cluster, leaf_of(cluster, kind, tmp_path) as leaf:
        asyncio.run(play(cluster, leaf))


@pytest.mark.parametrize("kinds", [(R, R, R), (L, L, L)], ids="-".join)
def test_what_a_leaf_knows_follows_the_servers_that_there_are(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Later INFOs take the place of the first one: a server that goes is forgotten, one that comes is learned."""

    async def play(cluster: Cluster, leaf: servers.Server) -> None:
        await until(knows(leaf, cluster, 1, 2), f"{hub_of(leaf)}")
        cluster.servers[2].kill()
        await until(knows(leaf, cluster, 1), f"{hub_of(leaf)}")
        cluster.servers[1].kill()
        await until(knows(leaf, cluster), f"{hub_of(leaf)}")
        cluster.servers[2].start()
        await until(knows(leaf, cluster, 2), f"{hub_of(leaf)}")
        await until(lambda: bool(hub_of(leaf)["connected"]), f"{hub_of(leaf)}")

    with started(kinds, tmp_path) as cluster, leaf_of(cluster, L, tmp_path) as leaf:
        asyncio.run(play(cluster, leaf))


def test_a_leaf_that_is_told_to_ignore_other_servers_waits_for_its_own(tmp_path: Path) -> None:
    async def play(cluster: Cluster, leaf: servers.Server) -> None:
        first = await linked(cluster, leaf)
        assert hub_of(leaf)["learned"] == []
        first.kill()
        await until(lambda: not hub_of(leaf)["connected"], "the link is up")
        await until(lambda: leaf.log.count("Error trying to connect") > 0, leaf.log)
        assert [one for one in alive(cluster) if report(one, "leafz")["leafs"]] == []
        first.start()
        assert await linked(cluster, leaf) is first

    ignoring = "ignore_discovered_servers: true"
    with started((R, R, R), tmp_path) as cluster, leaf_of(cluster, L, tmp_path, remote=ignoring) as leaf:
        asyncio.run(play(cluster, leaf))


@pytest.mark.parametrize("scheme", ["ws", "tls", "wss"])
@pytest.mark.parametrize("kinds", [(R, R, R), (L, L, L)], ids="-".join)
def test_the_next_server_is_found_over_websocket_and_tls_too(
    kinds: tuple[str, ...], scheme: str, tmp_path: Path
) -> None:
    """The servers' certificate is made out to a name, and they tell of each other by addresses: the name that the
    configuration dials is the one that counts."""
    text, remote, port = CONFIG.replace(LISTENER, WEB), "", "web_port"
    if scheme != "ws":
        authority = Authority(tmp_path)
        issued = authority.issue("hub", names="DNS:localhost")
        secure = SECURE.replace("{certificate}", str(issued.certificate)).replace("{key}", str(issued.key))
        text, remote = CONFIG.replace(LISTENER, secure), f'tls {{ ca_file: "{authority.certificate}", timeout: 30 }}'
        port = "web_port" if scheme == "wss" else "leaf_port"

    async def play(cluster: Cluster, leaf: servers.Server) -> None:
        first = await linked(cluster, leaf)
        await until(knows(leaf, cluster, 1, 2, port=port), f"{hub_of(leaf)}")
        first.kill()
        second = await linked(cluster, leaf)
        await until_joined(leaf, second, port)
        second.kill()
        assert await linked(cluster, leaf) not in (first, second)
        await until_served(cluster, leaf, "third")

    with (
        started(kinds, tmp_path, text=text) as cluster,
        leaf_of(cluster, L, tmp_path, scheme=scheme, port=port, remote=remote) as leaf,
    ):
        asyncio.run(play(cluster, leaf))


def test_a_learned_server_whose_certificate_is_for_another_name_gets_no_login(tmp_path: Path) -> None:
    """Two of the hub's servers have the wrong one: the leaf waits for the first."""
    authority = Authority(tmp_path)
    good, bad = authority.issue("good", names="DNS:localhost"), authority.issue("bad", names="DNS:other.example")

    async def play(cluster: Cluster, leaf: servers.Server) -> None:
        first = await linked(cluster, leaf)
        await until(knows(leaf, cluster, 1, 2), f"{hub_of(leaf)}")
        first.kill()
        await until(lambda: "certificate" in leaf.log, leaf.log[-3000:])
        assert [one for one in alive(cluster) if report(one, "leafz")["leafs"]] == []
        first.start()
        assert await linked(cluster, leaf) is first

    secure = SECURE[: SECURE.index("websocket")]
    text = CONFIG.replace(LISTENER, secure.replace("{certificate}", str(tmp_path / "{name}.pem")))
    text = text.replace("{key}", str(tmp_path / "{name}.key"))
    for number, issued in enumerate((good, bad, bad)):
        (tmp_path / f"s{number}.pem").write_bytes(issued.certificate.read_bytes())
        (tmp_path / f"s{number}.key").write_bytes(issued.key.read_bytes())
    remote = f'tls {{ ca_file: "{authority.certificate}", timeout: 30 }}'
    with (
        started((R, R, R), tmp_path, text=text) as cluster,
        leaf_of(cluster, L, tmp_path, scheme="tls", remote=remote) as leaf,
    ):
        asyncio.run(play(cluster, leaf))


def info_of(server: servers.Server) -> dict[str, Any]:
    """What a leaf listener says at once."""
    with socket.create_connection(("127.0.0.1", server.ports["leaf_port"]), PATIENCE_S) as stream:
        found: dict[str, Any] = json.loads(stream.makefile("rb").readline().removeprefix(b"INFO "))
    return found


@pytest.mark.parametrize("kinds", [(R, R, R), (L, L, L), (L, R, R), (R, L, L)], ids="-".join)
@pytest.mark.parametrize("listener", ["", "no_advertise: true", 'advertise: "leafs.example:{leaf_port}"', "cluster"])
def test_leaves_are_told_of_all_servers_as_a_real_hub_tells_them(
    kinds: tuple[str, ...], listener: str, tmp_path: Path
) -> None:
    """This server's own address is among them, unless it is not to be told. Over WebSocket the others alone are,
    which a nats-server brings up to date when the other list changes. `no_advertise` of the cluster is for clients."""
    own = "" if listener == "cluster" else listener
    text = CONFIG.replace(LISTENER, WEB.replace('{leaf_port}" }', '{leaf_port}"\n' + own + "\n}"))
    host = "leafs.example" if "leafs" in own else "127.0.0.1"
    more = "no_advertise: true" if listener == "cluster" else ""

    def told(cluster: Cluster, server: servers.Server) -> bool:
        info, there = info_of(server), alive(cluster)
        ports = {one.ports["leaf_port"] for one in there if "no_adv" not in own}
        web = {one.ports["web_port"] for one in there if one is not server and not more}
        return (
            set(info.get("leafnode_urls", ())) == {f"{host}:{port}" for port in ports}
            and ("no_adv" in own or set(info.get("ws_connect_urls", ())) == {f"127.0.0.1:{port}" for port in web})
            and (info["host"], info["port"]) == (host, server.ports["leaf_port"])
        )

    async def play(cluster: Cluster) -> None:
        for server in cluster.servers:
            await until(lambda: told(cluster, server), f"{server.kind}: {info_of(server)}")  # noqa: B023
        cluster.servers[2].kill()
        for server in cluster.servers[:2]:
            await until(lambda: told(cluster, server), f"{server.kind}: {info_of(server)}")  # noqa: B023

    with started(kinds, tmp_path, text=text, more=more) as cluster:
        asyncio.run(play(cluster))
