"""What a reload changes of a cluster while it runs, beside nats-server: its servers, accounts with routes of their own,
the pool, the login, what goes over routes.

Clients stay where they are through all of it. Not here: accounts that come by a reload
(test_later_accounts.py), what is agreed upon when servers connect (test_cluster.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from tests import servers
from tests.certificates import Authority, Issued
from tests.interop import test_cluster as of_cluster
from tests.rig.official import until_heard
from tests.rig.reloads import REFUSED, exchanged
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, until

L, R = servers.LEAFD, servers.REFERENCE
PAIRS = [(R, R), (L, R), (R, L), (L, L)]


def accounts_of(server: servers.Server) -> list[str]:
    """Of each connection with other servers: the account that it is for."""
    return sorted(row.get("account", "") for row in report(server, "routez")["routes"])


def routes_of(server: servers.Server) -> list[int]:
    """The numbers of a server's routes."""
    return sorted(row["rid"] for row in report(server, "routez")["routes"])


def pooled(server: servers.Server) -> set[int]:
    """The numbers of those that are not of one account alone."""
    return {row["rid"] for row in report(server, "routez")["routes"] if not row.get("account")}


async def until_routes(cluster: of_cluster.Cluster, accounts: list[str]) -> None:
    def found() -> list[list[str]]:
        return [accounts_of(server) for server in cluster.servers]

    await until(lambda: found() == [sorted(accounts)] * len(cluster.servers), found)


async def hears(sender: Client, listener: Client, subject: str) -> bool:
    """Whether a message comes through that was sent behind one that does."""
    got = await listener.subscribe(subject)
    await until_heard([sender, listener], "beside")
    await sender.publish(subject, b"x")
    await until_heard([sender, listener], "beside")
    with contextlib.suppress(nats.errors.TimeoutError):
        await got.next_msg(0.05)
        return True
    return False


@pytest.fixture(params=PAIRS[1:3], ids="-".join)
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[of_cluster.Cluster]:
    with of_cluster.started(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[of_cluster.Cluster]:
    with of_cluster.started(request.param, tmp_path) as found:
        yield found


def test_a_server_comes_and_goes_with_its_address_in_routes(mixed: of_cluster.Cluster) -> None:
    """The second server dials the first one no more, and does again."""
    first, second = mixed.servers
    there = f'"nats-route://r:secret@127.0.0.1:{first.ports["route_port"]}"'
    exchanged(second, f"routes: [ {there} ]", "routes: []", "Removed route")
    asyncio.run(until_routes(mixed, []))
    exchanged(second, "routes: []", f"routes: [ {there} ]")
    asyncio.run(until_routes(mixed, ["", "", "", "SYS"]))


def test_an_account_gets_routes_of_its_own_and_loses_them(pair: of_cluster.Cluster) -> None:
    """One server is told before the other; at the end of both, and before both, messages go both ways. Other routes
    than the one of the pool by which the account goes stay, and in nats-server that one, too."""

    async def play() -> None:
        first, second = pair.servers
        lost = 0 if {server.kind for server in pair.servers} == {R} else 1
        async with pair.clients() as clients:
            await until_heard(clients, "early")
            for before, after, accounts in (
                ("name: C\n", "name: C\n  accounts: [A]\n", ["", "", "", "A", "SYS"]),
                ("  accounts: [A]\n", "", ["", "", "", "SYS"]),
            ):
                numbers = [pooled(server) for server in pair.servers]
                for server in (second, first):
                    exchanged(server, before, after)
                await until_routes(pair, accounts)
                await until_heard(clients, f"later.{len(accounts)}")
                for there, server in zip(numbers, pair.servers, strict=True):
                    assert len(there & pooled(server)) >= len(there) - lost, server.kind

    asyncio.run(play())


def test_a_pool_becomes_greater_and_smaller(mixed: of_cluster.Cluster) -> None:
    """On one server after the other; the greater one of two counts."""

    async def play() -> None:
        async with mixed.clients() as clients:
            await until_heard(clients, "early")
            for size, before in ((5, "name: C\n"), (2, "pool_size: 5\n")):
                for server in mixed.servers:
                    kept = "name: C\n  " if size == 5 else ""
                    exchanged(server, before, f"{kept}pool_size: {size}\n")
                await until_routes(mixed, [*[""] * size, "SYS"])
                await until_heard(clients, f"size.{size}")

    asyncio.run(play())


def test_permissions_hold_from_a_reload_on(pair: of_cluster.Cluster) -> None:
    """What is no longer imported does not come, what is not exported neither, and all of it does when they are gone. No
    route is closed for it: each keeps its number, at both ends."""

    async def play() -> None:
        second = pair.servers[1]
        numbers = [routes_of(server) for server in pair.servers]
        async with pair.clients() as (a, b):
            assert await hears(a, b, "told.x")
            # what is wanted all the time is taken back, and told again
            lasting = [await client.subscribe(subject) for client, subject in ((a, "told.z"), (b, "kept.z"))]
            await until_heard([a, b], "before")
            denied = 'permissions { import: { deny: "kept.>" }, export: { deny: "told.>" } }\n'
            exchanged(second, "name: C\n", f"name: C\n  {denied}")
            await until_routes(pair, ["", "", "", "SYS"])
            await until_heard([a, b], "again")
            assert not await hears(a, b, "kept.x")
            assert not await hears(b, a, "told.x")
            assert await hears(b, a, "kept.y")
            exchanged(second, denied, "")
            await until_heard([a, b], "anew")
            assert await hears(a, b, "kept.x")
            assert await hears(b, a, "told.x")
            await a.publish("kept.z", b"a")
            await b.publish("told.z", b"b")
            assert [(await one.next_msg(PATIENCE_S)).data for one in lasting] == [b"b", b"a"]
        assert [routes_of(server) for server in pair.servers] == numbers

    asyncio.run(play())


def test_a_changed_compression_holds_for_the_routes_that_are_there(mixed: of_cluster.Cluster) -> None:
    """They are agreed upon anew."""
    for server in mixed.servers:
        exchanged(server, "name: C\n", "name: C\n  compression: s2_fast\n")

    async def play() -> None:
        for server in mixed.servers:

            def compressed(server: servers.Server = server) -> bool:
                rows = report(server, "routez")["routes"]
                return len(rows) == 4 and {row.get("compression") for row in rows} == {"s2_fast"}

            await until(compressed, lambda: report(mixed.servers[0], "routez"))
        async with mixed.clients() as clients:
            await until_heard(clients, "m")

    asyncio.run(play())


def test_a_login_changes_on_one_server_after_the_other(mixed: of_cluster.Cluster) -> None:
    """With the new one on both they are a cluster again."""

    async def play() -> None:
        for server in mixed.servers:
            exchanged(server, "secret", "another")
        await until_routes(mixed, ["", "", "", "SYS"])
        async with mixed.clients() as clients:
            await until_heard(clients, "m")

    asyncio.run(play())


@pytest.mark.parametrize("kind", [L, R])
def test_an_address_that_is_listened_on_stays(kind: str, tmp_path: Path) -> None:
    """A reload that changes it is refused as a whole; the refusal names it."""
    with of_cluster.started((kind,), tmp_path) as cluster:
        (server,) = cluster.servers
        before = f'listen: "127.0.0.1:{server.ports["route_port"]}"\n  auth'
        refusal = exchanged(server, before, 'listen: "127.0.0.1:1"\n  auth', REFUSED).partition(REFUSED)[2]
        assert "cluster" in refusal.splitlines()[0]


def shown_by(port: int, own: Issued, authority: Path) -> bytes | None:
    """The certificate of a listener for servers, to one that has a certificate, too."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    context.load_cert_chain(str(own.certificate), str(own.key))
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as secured,
    ):
        return secured.getpeercert(binary_form=True)


@pytest.mark.parametrize("kind", [L, R])
def test_a_renewed_certificate_is_shown_after_a_reload(kind: str, tmp_path: Path) -> None:
    """To servers of the cluster and to those of others; the configuration stays as it is."""
    authority = Authority(tmp_path)
    first, second = authority.issue("first"), authority.issue("second")
    certificate, key = tmp_path / "used.pem", tmp_path / "used.key"

    def use(issued: Issued) -> None:
        certificate.write_bytes(issued.certificate.read_bytes())
        key.write_bytes(issued.key.read_bytes())

    use(first)
    tls = of_cluster.TLS.format(certificate=certificate, key=key, authority=authority.certificate)
    text = (
        'listen: "127.0.0.1:{port}"\ncluster { name: C, listen: "127.0.0.1:{route_port}", {tls} }\n'
        'gateway { name: C, listen: "127.0.0.1:{gateway_port}", {tls} }\n'
    ).replace("{tls}", tls)
    with servers.running(kind, text) as server:
        ports = [server.ports[name] for name in ("route_port", "gateway_port")]

        def shown() -> list[bytes | None]:
            return [shown_by(port, first, authority.certificate) for port in ports]

        before = shown()
        use(second)
        exchanged(server, "name: C", "name: C")
        after = shown()
        assert all(one != other for one, other in zip(before, after, strict=True))
