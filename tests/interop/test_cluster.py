"""Clusters of leafd and nats-server, mixed in every proportion, with an official client at each server.

The cluster of three reference servers proves the tests. Only the first server's address stands in `routes`; the others
find each other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.certificates import Authority
from tests.rig.official import (
    QueueGroup,
    ask_all,
    come_in_order,
    connect,
    one_each,
    stay_apart,
    until_heard,
    until_known,
    until_whole,
)
from tests.rig.reports import report
from tests.rig.waiting import until

EACH = 1000
CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
lame_duck_grace_period: 1s
lame_duck_duration: 30s
accounts {
  A { users: [ {user: a, password: a} ] }
  B { users: [ {user: b, password: b} ] }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
leafnodes { listen: "127.0.0.1:{leaf_port}" }
cluster {
  name: C
  listen: "127.0.0.1:{route_port}"
  authorization { user: r, password: secret }
  routes: [ "nats-route://r:secret@127.0.0.1:{first}" ]
  {more}
}
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
leafnodes {
  reconnect: 1s
  remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{first_leaf}" } ]
}
"""
TLS = """tls {{ cert_file: "{certificate}", key_file: "{key}", ca_file: "{authority}" }}"""
L, R = servers.LEAFD, servers.REFERENCE
LINE_UPS = [(R, R, R), (L, R, R), (R, L, R), (R, L, L), (L, R, L), (L, L, L)]


@dataclass
class Cluster:
    """Three servers."""

    servers: list[servers.Server]
    folder: Path

    def clients(self, user: str = "a", **options: Any) -> contextlib.AbstractAsyncContextManager[list[Client]]:
        """One at each server."""
        return one_each(self.servers, user, **options)


def has_peers(server: servers.Server, names: set[str]) -> bool:
    return peers_of(server) == names


def peers_of(server: servers.Server) -> set[str]:
    """The other servers that it has its whole pool and the system account's connection with."""
    names = [row["remote_name"] for row in report(server, "routez")["routes"]]
    return {name for name in names if names.count(name) == 4}


@contextlib.contextmanager
def started(kinds: tuple[str, ...], folder: Path, more: str = "", text: str = CONFIG) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        made: list[servers.Server] = []
        for number, kind in enumerate(kinds):
            place = folder / f"s{number}"
            place.mkdir()
            first = made[0].ports["route_port"] if made else "{route_port}"
            server = servers.make(kind, text.replace("{first}", str(first)), place, name=f"s{number}", more=more)
            made.append(server)
        for server in made:
            server.start()
            stack.callback(server.stop)
        cluster = Cluster(made, folder)
        names = {f"s{number}" for number in range(len(kinds))}
        for number, server in enumerate(made):
            others = names - {f"s{number}"}
            asyncio.run(until(partial(has_peers, server, others), server.log[-3000:]))
        yield cluster


@pytest.fixture(scope="module", params=LINE_UPS, ids="-".join)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For tests that leave it as it was."""
    with started(request.param, tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(params=LINE_UPS, ids="-".join)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """For a test that ends servers."""
    with started(request.param, tmp_path) as found:
        yield found


def test_each_message_comes_to_each_server_once_and_in_the_order_of_its_publisher(cluster: Cluster) -> None:
    """Of each of three publishers at three servers, with headers."""

    async def play() -> None:
        async with cluster.clients() as clients:
            await come_in_order(clients, EACH)

    asyncio.run(play())


def test_requests_are_answered_from_any_server_and_without_a_responder_at_once(cluster: Cluster) -> None:
    """The answer's subject is known at the responder's server by then."""

    async def play() -> None:
        async with cluster.clients(patient=False) as clients:
            for number, client in enumerate(clients):
                for other in clients:
                    with pytest.raises(nats.errors.NoRespondersError):
                        await other.request(f"svc.{number}", b"", timeout=30)

                async def answer(message: Msg, client: Client = client) -> None:
                    await client.publish(message.reply, b"you said " + message.data)

                await client.subscribe(f"svc.{number}", cb=answer)
                await client.flush(30)
            await until_heard(clients, "svc")
            for _ in range(20):
                for number in range(3):
                    for other in clients:
                        found = await other.request(f"svc.{number}", b"hello", timeout=30)
                        assert found.data == b"you said hello"

    asyncio.run(play())


def test_a_queue_group_gets_each_message_once_and_all_members_have_their_share(cluster: Cluster) -> None:
    """Wherever they are; without one here, those elsewhere."""

    async def play() -> None:
        async with cluster.clients() as clients:
            group = QueueGroup(clients)
            await group.join()
            assert min(await group.shares(clients[0], 300)) > 30
            await group.leave(0)
            found = await group.shares(clients[0], 300)
            assert found[0] == 0
            assert min(found[1:]) > 30

    asyncio.run(play())


def test_accounts_stay_apart_over_routes(cluster: Cluster) -> None:
    """The same subject in two accounts are two subjects."""

    async def play() -> None:
        async with cluster.clients("a") as ones, cluster.clients("b") as others:
            await stay_apart(ones, others)

    asyncio.run(play())


def test_clients_learn_of_the_other_servers_and_go_there_when_theirs_ends(mortal: Cluster) -> None:
    """And those who came before a server learn of it, and of its end."""

    async def play() -> None:
        urls = [f"127.0.0.1:{server.port}" for server in mortal.servers]
        for victim in (2, 1):
            here = mortal.servers[0]
            there = mortal.servers[victim]
            stays = await connect(here)
            goes = await connect(there, allow_reconnect=True, reconnect_time_wait=0.1, max_reconnect_attempts=-1)
            named = stays.client_id
            await until(lambda: {one.netloc for one in stays.discovered_servers} >= set(urls[1:victim]), "")  # noqa: B023
            assert stays.client_id == named
            got: list[bytes] = []

            async def take(message: Msg, got: list[bytes] = got) -> None:
                got.append(message.data)

            await goes.subscribe("moved", cb=take)
            await goes.flush(30)
            there.kill()

            async def heard(stays: Client = stays, got: list[bytes] = got) -> bool:
                await stays.publish("moved", b"x")
                await stays.flush(30)
                return bool(got)

            await until(heard, "the client did not come back")
            assert goes.connected_url is not None
            assert goes.connected_url.netloc.rpartition("@")[2] in urls[:victim]
            await goes.close()
            await stays.close()

    asyncio.run(play())


def test_servers_answer_for_themselves_wherever_the_system_account_asks(cluster: Cluster) -> None:
    """What `nats server list`, `ping` and `report` ask: from each server, of all."""

    async def play() -> None:
        async with cluster.clients("sys") as clients:
            await until_heard(clients, "ready")

            await until_known(clients[0])
            for client in clients:
                found = await ask_all(client, "$SYS.REQ.SERVER.PING")
                assert {one["server"]["name"] for one in found} == {"s0", "s1", "s2"}
                assert {one["server"]["cluster"] for one in found} == {"C"}
                assert {len(one["statsz"]["routes"]) for one in found} == {8}
                found = await ask_all(client, "$SYS.REQ.SERVER.PING.ROUTEZ")
                assert {one["data"]["num_routes"] for one in found} == {8}
                found = await ask_all(client, "$SYS.REQ.SERVER.PING.VARZ", b'{"server_name":"s1"}', answers=1)
                assert found[0]["data"]["server_name"] == "s1"

    asyncio.run(play())


def test_leaves_of_any_server_hear_each_other_and_the_cluster(cluster: Cluster) -> None:
    """What a leaf sends reaches clients at each server once, and what they send reaches the leaf."""

    async def play() -> None:
        made = list[servers.Server]()
        for kind in servers.KINDS:
            place = cluster.folder / f"leaf-{kind}"
            place.mkdir()
            hub = cluster.servers[len(made) % 3]
            leaf = servers.make(kind, LEAF.replace("server_name: leaf", f"server_name: leaf-{kind}"), place,
                                first_leaf=hub.ports["leaf_port"])  # fmt: skip
            leaf.start()
            made.append(leaf)
        try:
            leaves = [await nats.connect(leaf.url, allow_reconnect=False) for leaf in made]
            async with cluster.clients() as clients:
                everybody = [*clients, *leaves]
                await until_heard(everybody, "all")
                got: list[list[bytes]] = [[] for _ in everybody]
                for number, client in enumerate(everybody):

                    async def take(message: Msg, mine: list[bytes] = got[number]) -> None:
                        mine.append(message.data)

                    await client.subscribe("once.*", cb=take)
                    await client.flush(30)
                await until_heard(everybody, "again")
                for number, client in enumerate(everybody):
                    await client.publish("once.x", b"%d" % number)
                    await client.flush(30)
                await until(lambda: all(len(one) >= len(everybody) for one in got), f"{got}")
                await asyncio.sleep(0.2)
                for one in got:
                    assert sorted(one) == [b"%d" % number for number in range(len(everybody))]
            for client in leaves:
                await client.close()
        finally:
            for leaf in made:
                leaf.stop()

    asyncio.run(play())


def test_reports_name_the_routes_as_a_real_server_does(cluster: Cluster) -> None:
    """The same fields, and values of the same kind."""
    rows = [report(server, "routez") for server in cluster.servers]
    wanted = {"rid", "remote_id", "remote_name", "did_solicit", "is_configured", "ip", "port", "start", "last_activity",
              "rtt", "uptime", "idle", "pending_size", "in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions",
              "compression"}  # fmt: skip
    for one in rows:
        assert one["num_routes"] == len(one["routes"]) == 8
        assert sorted(row.get("account", "") for row in one["routes"]) == [""] * 6 + ["SYS"] * 2
        for row in one["routes"]:
            assert wanted <= set(row) <= wanted | {"account"}
            assert row["compression"] == "off"
    for number, server in enumerate(cluster.servers):
        found = report(server, "varz")
        assert (found["routes"], found["remotes"]) == (8, 2)
        block = found["cluster"]
        assert block["name"] == "C"
        assert block["cluster_port"] == server.ports["route_port"]
        assert block["pool_size"] == 3
        assert block["urls"] == [f"127.0.0.1:{cluster.servers[0].ports['route_port']}"], number


def test_a_server_that_is_started_again_is_one_of_the_cluster_again(mortal: Cluster) -> None:
    """Under its new id; and what is published there goes to all."""
    for victim in (0, 2):
        server = mortal.servers[victim]
        server.kill()
        server.start()

    async def play() -> None:
        for number, server in enumerate(mortal.servers):
            others = {f"s{other}" for other in range(3)} - {f"s{number}"}
            await until(lambda: peers_of(server) == others, f"{number}: {server.log[-2000:]}")  # noqa: B023
        async with mortal.clients() as clients:
            await until_heard(clients, "back")

    asyncio.run(play())


@pytest.mark.parametrize("kinds", [(L, R), (R, L), (L, L)], ids="-".join)
@pytest.mark.parametrize(
    "more",
    ["pool_size: -1", "pool_size: 1", "pool_size: 5", "accounts: [A, B]", "compression: s2_fast", TLS],
    ids=["no pool", "one", "five", "pinned", "compressed", "TLS"],
)
def test_pools_of_other_sizes_and_accounts_of_their_own(kinds: tuple[str, ...], more: str, tmp_path: Path) -> None:
    """Whatever the connections are, an account's messages find their way."""
    if more == TLS:
        authority = Authority(tmp_path)
        issued = authority.issue("server")
        more = TLS.format(certificate=issued.certificate, key=issued.key, authority=authority.certificate)

    async def play(both: list[servers.Server]) -> None:
        for user in ("a", "b", "sys"):
            clients = [await connect(server, user) for server in both]
            await until_heard(clients, user)
            await until_whole(clients, user)
            for client in clients:
                await client.close()

    with contextlib.ExitStack() as stack:
        made = list[servers.Server]()
        for number, kind in enumerate(kinds):
            place = tmp_path / f"s{number}"
            place.mkdir()
            first = made[0].ports["route_port"] if made else "{route_port}"
            server = servers.make(kind, CONFIG.replace("{first}", str(first)), place, name=f"s{number}", more=more)
            server.start()
            stack.callback(server.stop)
            made.append(server)
        asyncio.run(play(made))
