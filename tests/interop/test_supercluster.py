"""Superclusters of leafd and nats-server, mixed in every proportion, with an official client at each server.

Those of reference servers alone prove the tests. Only the first cluster's address stands in `gateways`; the others find
each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.certificates import Authority
from tests.interop.test_cluster import TLS
from tests.narrow import wire_to
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
from tests.rig.waiting import PATIENCE_S, until

EACH = 500
CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ] }
  B { users: [ {user: b, password: b} ] }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
leafnodes { listen: "127.0.0.1:{leaf_port}" }
gateway {
  name: "{cluster}"
  listen: "127.0.0.1:{gateway_port}"
  authorization { user: g, password: secret }
  gateways: [ {gateways} ]
  {more}
}
{routes}
"""
ROUTES = """
cluster { name: "{cluster}", listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first_route}" ] }
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: leaf
leafnodes { reconnect: 1s, remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{first_leaf}" } ] }
"""
L, R = servers.LEAFD, servers.REFERENCE
LINE_UPS = [(R, R, R), (L, R, R), (R, L, R), (R, L, L), (L, R, L), (L, L, L)]
PAIRS = [(R, R), (L, R), (R, L), (L, L)]


@dataclass
class Supercluster:
    """Servers, each with the name of its cluster."""

    servers: list[servers.Server]
    clusters: list[str]
    folder: Path

    def clients(self, user: str = "a", **options: Any) -> contextlib.AbstractAsyncContextManager[list[Client]]:
        """One at each server."""
        return one_each(self.servers, user, **options)

    def others(self, number: int) -> set[str]:
        return set(self.clusters) - {self.clusters[number]}

    async def until_met(self, *numbers: int) -> None:
        """Each server reaches each other cluster, and is reached by it."""
        for number in numbers or range(len(self.servers)):
            server, others = self.servers[number], self.others(number)

            def met(server: servers.Server = server, others: set[str] = others) -> bool:
                found = report(server, "gatewayz")
                return set(found["outbound_gateways"]) == others

            await until(met, f"{number}: {server.log[-3000:]}")


def remote(name: str, port: object, more: str = "") -> str:
    return f'{{ name: "{name}", url: "nats://g:secret@127.0.0.1:{port}" {more} }}'


@contextlib.contextmanager
def started(
    kinds: tuple[str, ...], folder: Path, more: str = "", clusters: str = "", text: str = CONFIG
) -> Iterator[Supercluster]:
    """clusters: the names, one letter a server; else each server is a cluster of its own."""
    names = list(clusters or "ABCDE"[: len(kinds)])
    with contextlib.ExitStack() as stack:
        made: list[servers.Server] = []
        for number, kind in enumerate(kinds):
            place, name = folder / f"s{number}", names[number]
            place.mkdir()
            first = made[names.index(name)] if name in names[:number] else None
            routes = ROUTES if names.count(name) > 1 else ""
            routes = routes.replace("{first_route}", str(first.ports["route_port"]) if first else "{route_port}")
            gateways = remote(names[0], made[0].ports["gateway_port"] if made else "{gateway_port}")
            made_of = text.replace("{routes}", routes).replace("{gateways}", gateways)
            made.append(servers.make(kind, made_of, place, name=f"s{number}", cluster=name, more=more))
        for server in made:
            server.start()
            stack.callback(server.stop)
        yield Supercluster(made, names, folder)


@pytest.fixture(scope="module", params=LINE_UPS, ids="-".join)
def supercluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supercluster]:
    """For tests that leave it as it was."""
    with started(request.param, tmp_path_factory.mktemp("supercluster")) as found:
        asyncio.run(found.until_met())
        yield found


@pytest.fixture(params=LINE_UPS, ids="-".join)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Supercluster]:
    """For a test that ends servers."""
    with started(request.param, tmp_path) as found:
        asyncio.run(found.until_met())
        yield found


def test_clusters_that_others_tell_of_are_reached_and_reported_so(supercluster: Supercluster) -> None:
    """Only the first one's address is configured; reports have the fields and values of a real server's."""
    wanted = {"cid", "kind", "ip", "port", "start", "last_activity", "rtt", "uptime", "idle", "pending_bytes",
              "in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions", "name"}  # fmt: skip
    asyncio.run(until(lambda: all(len(report(one, "gatewayz")["inbound_gateways"]) == 2
                                  for one in supercluster.servers), "one is not reached"))  # fmt: skip
    for number, server in enumerate(supercluster.servers):
        found = report(server, "gatewayz?accs=1")
        assert (found["name"], found["host"]) == ("ABC"[number], "127.0.0.1")
        assert found["port"] == server.ports["gateway_port"]
        for name, one in found["outbound_gateways"].items():
            assert one["configured"] == (name == "A")
            assert set(one["connection"]) == wanted
            assert one["connection"]["kind"] == "Gateway"
            assert {"$G", "A", "SYS"} & {account["name"] for account in one["accounts"]}
            assert {account["interest_mode"] for account in one["accounts"]} == {"Interest-Only"}
        for name, several in found["inbound_gateways"].items():
            assert name in supercluster.others(number)
            assert [set(one["connection"]) for one in several] == [wanted]
        assert set(report(server, "gatewayz?gw_name=B")["inbound_gateways"]) <= {"B"}
        block = report(server, "varz")["gateway"]
        assert (block["name"], block["port"]) == (found["name"], found["port"])
        asyncio.run(until(lambda: report(server, "varz")["connections"] == 0, "somebody is left"))  # noqa: B023


def test_each_message_comes_to_each_cluster_once_and_in_the_order_of_its_publisher(supercluster: Supercluster) -> None:
    """Of each of three publishers in three clusters, with headers; a long one, too."""

    async def play() -> None:
        async with supercluster.clients() as clients:
            await come_in_order(clients, EACH)
            await until_whole(clients, "whole")

    asyncio.run(play())


def test_requests_are_answered_from_any_cluster_and_without_a_responder_at_once(supercluster: Supercluster) -> None:
    """Also the first of a client, the subject of whose answers no other cluster has heard of yet."""

    async def play() -> None:
        async with supercluster.clients(patient=False) as clients:
            for other in clients:
                with pytest.raises(nats.errors.NoRespondersError):
                    await other.request("nobody", b"", timeout=30)
            for number, client in enumerate(clients):

                async def answer(message: Msg, client: Client = client) -> None:
                    await client.publish(message.reply, b"you said " + message.data, headers={"K": "v"})

                await client.subscribe(f"svc.{number}", cb=answer)
                await client.flush(30)
            await until_heard(clients, "ready")
            for _ in range(5):
                async with supercluster.clients() as fresh:
                    for number in range(3):
                        for other in fresh:
                            found = await other.request(f"svc.{number}", b"hello", timeout=30)
                            assert found.data == b"you said hello"
                            assert found.headers == {"K": "v"}

    asyncio.run(play())


def test_a_queue_group_is_served_in_the_cluster_of_the_message_else_in_one_other(supercluster: Supercluster) -> None:
    """Each message once, wherever its members are."""

    async def play() -> None:
        async with supercluster.clients() as clients:
            group = QueueGroup(clients)
            await group.join()
            for number, client in enumerate(clients):
                assert await group.shares(client, 200) == [200 * (number == one) for one in range(3)]
            await group.leave(0)
            assert (await group.shares(clients[0], 200))[0] == 0

    asyncio.run(play())


def test_accounts_stay_apart_over_gateways(supercluster: Supercluster) -> None:
    """The same subject in two accounts are two subjects."""

    async def play() -> None:
        async with supercluster.clients("a") as ones, supercluster.clients("b") as others:
            await stay_apart(ones, others)

    asyncio.run(play())


def test_a_cluster_that_is_killed_and_comes_back_is_one_of_the_supercluster_again(mortal: Supercluster) -> None:
    """Whichever it is; meanwhile the others reach each other."""

    async def play(stays: list[int]) -> None:
        clients = [await connect(mortal.servers[one]) for one in stays]
        await until_heard(clients, f"without {stays}".replace(" ", "."))
        for client in clients:
            await client.close()

    for victim in (0, 2):
        server = mortal.servers[victim]
        server.kill()
        asyncio.run(play([one for one in range(3) if one != victim]))
        server.start()
        asyncio.run(mortal.until_met())
        asyncio.run(play([0, 1, 2]))


def test_the_system_account_sees_the_servers_of_all_clusters(supercluster: Supercluster) -> None:
    """What `nats server list` and `report gateways` ask: from each server, of all."""

    async def play() -> None:
        async with supercluster.clients("sys") as clients:
            await until_heard(clients, "ready")
            await until_known(clients[0])
            for client in clients:
                found = await ask_all(client, "$SYS.REQ.SERVER.PING")
                assert {one["server"]["name"]: one["server"]["cluster"] for one in found} == {
                    "s0": "A", "s1": "B", "s2": "C",
                }  # fmt: skip
                for one in found:
                    gateways = one["statsz"]["gateways"]
                    assert {each["name"] for each in gateways} == {"A", "B", "C"} - {one["server"]["cluster"]}
                    assert {each["inbound_connections"] for each in gateways} == {1}
                    assert {"gwid", "name", "sent", "received", "inbound_connections"} == set(gateways[0])
                found = await ask_all(client, "$SYS.REQ.SERVER.PING.GATEWAYZ")
                assert {one["data"]["name"] for one in found} == {"A", "B", "C"}

    asyncio.run(play())


@pytest.mark.parametrize("kinds", [(R, R, R, R), (L, R, R, L), (L, L, R, R), (R, R, L, L), (L, L, L, L)], ids="-".join)
def test_clusters_of_several_servers_hear_each_other_once(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """At each server, and at a leaf of one of them; queue groups stay in the cluster of the message while they can;
    answers find the server that asked."""

    async def play(found: Supercluster, leaf: Client) -> None:
        await found.until_met()
        async with found.clients() as clients:
            everybody = [*clients, leaf]
            await until_heard(everybody, "all")
            got: list[list[bytes]] = [[] for _ in everybody]
            groups: list[bytes] = []
            for number, client in enumerate(everybody):

                async def take(message: Msg, mine: list[bytes] = got[number]) -> None:
                    mine.append(message.data)

                async def member(message: Msg, cluster: str = "AABBB"[number]) -> None:
                    groups.append(message.data + cluster.encode())

                async def answer(message: Msg, client: Client = client) -> None:
                    await client.publish(message.reply, message.data)

                await client.subscribe("once.*", cb=take)
                await client.subscribe("group.x", queue="g", cb=member)
                await client.subscribe(f"svc.{number}", cb=answer)
                await client.flush(30)
            await until_heard(everybody, "again")
            for number, client in enumerate(everybody):
                await client.publish("once.x", b"%d" % number)
                for _ in range(20):
                    await client.publish("group.x", b"AABBB"[number : number + 1])
                await client.flush(30)
            await until(lambda: all(len(one) >= 5 for one in got) and len(groups) >= 100, f"{got} {len(groups)}")
            await asyncio.sleep(0.2)
            for one in got:
                assert sorted(one) == [b"%d" % number for number in range(5)]
            assert sorted(groups) == [b"AA"] * 40 + [b"BB"] * 60
            for number in range(5):
                async with found.clients() as fresh:
                    for asker in (*fresh, leaf):
                        assert (await asker.request(f"svc.{number}", b"hello", timeout=30)).data == b"hello"

    async def with_leaf(found: Supercluster, url: str) -> None:
        leaf = await nats.connect(url, allow_reconnect=False)
        await play(found, leaf)
        await leaf.close()

    with started(kinds, tmp_path, clusters="AABB") as found:
        place = tmp_path / "leaf"
        place.mkdir()
        leaf = servers.make(R, LEAF, place, first_leaf=found.servers[3].ports["leaf_port"])
        leaf.start()
        try:
            asyncio.run(with_leaf(found, leaf.url))
        finally:
            leaf.stop()


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_who_asks_is_told_of_with_the_clusters_that_are_reached(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """A stream is placed in one of them where its client's own cluster has no JetStream. The clients are there before
    the other cluster is."""
    text = CONFIG.replace("password: a} ]", 'password: a} ], exports: [ {service: "who"} ]')
    shared = '{service: {account: A, subject: "who"}, share: true}'
    text = text.replace("password: b} ]", f"password: b}} ], imports: [ {shared} ]")

    async def play(found: Supercluster) -> None:
        async with found.clients() as services, found.clients("b") as asking:

            async def tell(message: Msg) -> None:
                await message.respond(((message.headers or {})["Nats-Request-Info"]).encode())

            for number, other in enumerate("BA"):
                heard = await services[number].subscribe("who", cb=tell)
                await services[number].flush(30)

                async def known(client: Client = asking[number], other: str = other) -> bool:
                    try:
                        told: dict[str, Any] = json.loads((await client.request("who", timeout=3)).data)
                    except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                        return False  # nats-servers lose some while their gateways come up, two by themselves, too
                    return told.get("alts") == [other]

                await until(known, "the other cluster is not told of")
                await heard.unsubscribe()

    with started(kinds, tmp_path, text=text) as found:
        asyncio.run(play(found))


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_gateways_over_tls(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Both ends show a certificate of the authority that both trust."""
    authority = Authority(tmp_path)
    issued = authority.issue("server")
    more = TLS.format(certificate=issued.certificate, key=issued.key, authority=authority.certificate)

    async def play(found: Supercluster) -> None:
        await found.until_met()
        async with found.clients() as clients:
            await until_heard(clients, "ready")
            await until_whole(clients, "whole")

    with started(kinds, tmp_path, more) as found:
        asyncio.run(play(found))


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_a_cluster_that_is_not_in_the_list_is_rejected_where_that_is_asked_for(
    kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """It is not reached either, and both logs say so."""
    with started(kinds, tmp_path, "reject_unknown_cluster: true") as found:
        first, second = found.servers
        asyncio.run(until(lambda: 'Connection to gateway "A" rejected' in second.log.replace("\\", ""), second.log))
        for server in found.servers:
            assert not report(server, "gatewayz")["inbound_gateways"]
        assert first.kind


def test_a_wrong_login_is_refused_and_told(tmp_path: Path) -> None:
    """In either direction between the two kinds."""
    for kinds in ((L, R), (R, L)):
        folder = tmp_path / kinds[0]
        folder.mkdir()
        with started(kinds, folder) as found:
            wrong = CONFIG.replace("password: secret", "password: other").replace("{routes}", "")
            wrong = wrong.replace(
                "{gateways}", remote("A", found.servers[0].ports["gateway_port"]).replace("secret", "x")
            )
            place = folder / "wrong"
            place.mkdir()
            server = servers.make(kinds[1], wrong, place, name="wrong", cluster="W", more="")
            server.start()
            try:
                asyncio.run(until(lambda: "Authorization Violation" in server.log, server.log))  # noqa: B023
                assert "W" not in report(found.servers[0], "gatewayz")["inbound_gateways"]
            finally:
                server.stop()


@pytest.mark.parametrize("kinds", [(L, L, L), (L, R, R), (R, L, R), (R, R, L), (L, L, R), (R, R, R)], ids="-".join)
def test_the_walkthroughs_three_clusters_start_as_they_are(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Its configurations, but for JetStream and the ports: a request of one cluster is answered in another."""
    names = ["east", "central", "west"]
    ports = {name: {word: servers.free_port() for word in ("port", "http", "route", "gateway")} for name in names}
    text = """
port: {port}
http_port: {http}
server_name: n{number}
accounts: { $SYS: { users: [{user: sys, password: pass}] } }
cluster: {
  name: {name},
  port: {route},
  routes: [ "nats-route://0.0.0.0:{route}" ],
}
gateway: {
  name: "{name}",
  port: {gateway},
  gateways: [
    {name: "east", urls: ["nats://0.0.0.0:{east}"]},
    {name: "central", urls: ["nats://0.0.0.0:{central}"]},
    {name: "west", urls: ["nats://0.0.0.0:{west}"]},
  ]
}
"""
    made = []
    with contextlib.ExitStack() as stack:
        for number, name in enumerate(names):
            place = tmp_path / name
            place.mkdir()
            filled = text
            words = {"number": number + 1, "name": name, **ports[name]}
            for word, value in (words | {one: ports[one]["gateway"] for one in names}).items():
                filled = filled.replace("{%s}" % word, str(value))  # noqa: UP031
            known = {"port": ports[name]["port"], "http_port": ports[name]["http"]}
            server = servers.Server(kinds[number], place, filled, known)
            server.start()
            stack.callback(server.stop)
            made.append(server)

        async def play() -> None:
            await Supercluster(made, names, tmp_path).until_met()
            east, west = [await nats.connect(made[one].url, allow_reconnect=False) for one in (0, 2)]

            async def answer(message: Msg) -> None:
                await east.publish(message.reply, b"hello from east")

            await east.subscribe("greet", cb=answer)
            await east.flush(30)
            await until_heard([east, west], "ready")
            assert (await west.request("greet", b"", timeout=PATIENCE_S)).data == b"hello from east"
            await east.close()
            await west.close()

        asyncio.run(play())


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_gateways_that_are_cut_again_and_again_come_back(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Both are found at the address that is advertised; each time all interest is told anew."""
    with contextlib.ExitStack() as stack:
        ports = [servers.free_port() for _ in kinds]
        wires = [stack.enter_context(wire_to(port)) for port in ports]
        made = []
        for number, kind in enumerate(kinds):
            place = tmp_path / f"s{number}"
            place.mkdir()
            text = CONFIG.replace("{gateways}", remote("A", wires[0].port)).replace("{routes}", "")
            more = f'advertise: "127.0.0.1:{wires[number].port}"'
            names = {"name": f"s{number}", "cluster": "AB"[number]}
            made.append(servers.make(kind, text, place, gateway_port=ports[number], more=more, **names))
            made[-1].start()
            stack.callback(made[-1].stop)
        found = Supercluster(made, ["A", "B"], tmp_path)

        async def play() -> None:
            async with found.clients() as clients:
                await until_heard(clients, "before")
                for turn in range(4):
                    wires[turn % 2].cut()
                    await asyncio.sleep(0.3)
                    wires[turn % 2].mend()
                    await until_heard(clients, f"after.{turn}")
                await until_whole(clients, "whole")

        asyncio.run(play())
