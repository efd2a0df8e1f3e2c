"""The machine of routes held against nats-server itself: over bare sockets, without the plane.

Whatever it says to a real server, that takes it for another server; what it refuses, that refuses in the same words.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from leafd.links.compression import Compression
from leafd.links.handshake import Close
from leafd.links.peers import Peers, Route
from leafd.links.route import Cluster, Join, Learned, Leaves, Machine
from leafd.links.route_info import Place
from leafd.native_types import LineKind

from tests import servers
from tests.rig.ends import End, all_closed, reached
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S, eventually

OWN = Cluster("NOWNOWN", "own", "2.15.1", "C", host="127.0.0.1", port=6222, compression=Compression("accept"))
CONFIG = """
server_name: real
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
leafnodes { listen: 127.0.0.1:{leaf_port} }
cluster { name: C, listen: "127.0.0.1:{route_port}", %s }
"""


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whatever becomes of the test."""
    with all_closed():
        yield


def dial(
    port: int, peers: Peers, account: str = "", place: Place | None = None, cluster: Cluster = OWN
) -> End[Machine]:
    sock = reached(port)
    route = Route(0, f"127.0.0.1:{port}", dialled=True, explicit=True, place=place or Place("127.0.0.1", port))
    route.account = account
    return End(sock, Machine(replace(cluster), peers, route, "n"))


def routez(server: servers.Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report(server, "routez")["routes"]
    return found


@contextmanager
def real(more: str = "", **values: object) -> Iterator[servers.Server]:
    with servers.running(servers.REFERENCE, CONFIG % more, **values) as server:
        yield server


def test_a_real_server_takes_the_whole_pool_and_the_system_accounts_connection() -> None:
    """Each at the place that this end names, and with the interest of the accounts that it carries."""
    with real() as server:
        peers = Peers(3, ("$SYS",))
        ends = [dial(server.ports["route_port"], peers, account) for account in ("", "", "", "$SYS")]
        for number, end in enumerate(ends):
            join = end.shake()
            assert isinstance(join, Join)
            assert join.placed.index == (number if number < 3 else 0)
            end.ping()
        rows = routez(server)
        assert sorted(row.get("account", "") for row in rows) == ["", "", "", "$SYS"]
        assert {(row["remote_id"], row["remote_name"], row["compression"]) for row in rows} == {
            ("NOWNOWN", "own", "off")
        }
        peer = peers.all[rows[0]["remote_id"]] if rows[0]["remote_id"] in peers.all else next(iter(peers.all.values()))
        assert peer.connect_urls == (f"127.0.0.1:{server.port}",)
        assert peer.leafnode_urls == (f"127.0.0.1:{server.ports['leaf_port']}",)
        system = [line for line in ends[3].rest if line.startswith(b"RS+ ")]
        assert system
        assert not any(b"$SYS $SYS" in line for line in system), "lines of such a connection leave the account out"


def test_a_real_server_dials_the_whole_pool_and_the_system_accounts_connection() -> None:
    """One after the other, as each one before has been answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        with real("routes: [nats-route://127.0.0.1:{there}]", there=listener.getsockname()[1]):
            peers, ends = Peers(3, ("$SYS",)), list[End[Machine]]()
            while len(ends) < 4:
                sock, (host, port) = listener.accept()
                sock.settimeout(PATIENCE_S)
                route = Route(len(ends), f"{host}:{port}")
                end = End(sock, Machine(replace(OWN), peers, route, "n"))
                assert isinstance(end.shake(), Join)
                end.ping()
                ends.append(end)
            (peer,) = peers.all.values()
            assert [one is not None for one in peer.pool] == [True, True, True]
            assert list(peer.accounts) == ["$SYS"]


@pytest.mark.parametrize("fields", [{}, {"lang": "x"}, {"gateway": "g"}, {"cluster": "D"}])
def test_refusals_have_a_real_servers_words(fields: dict[str, Any]) -> None:
    """The same CONNECT, said to either."""
    login = {} if fields else {"user": "u", "pass": "wrong"}
    connect = json.dumps({"cluster": "C", "name": "NX", "user": "u", "pass": "p"} | fields | login).encode()
    with (
        real("authorization { user: u, password: p }") as server,
        reached(server.ports["route_port"]) as sock,
    ):
        file = sock.makefile("rb")
        file.readline()
        sock.sendall(b"CONNECT " + connect + b"\r\n")
        theirs = file.readline().decode().strip()
    route = Route(0, "127.0.0.1:1")
    ours = Machine(replace(OWN, user="u", password="p"), Peers(3), route, "n").line(LineKind.CONNECT, connect)
    assert [f"-ERR '{one.why}'" for one in ours if isinstance(one, Close) and one.told] == [theirs]


def test_an_account_without_a_connection_of_its_own_is_refused_in_a_real_servers_words() -> None:
    """What the peer reads tells its operator what to add."""
    with real("accounts: []") as server:
        end = dial(server.ports["route_port"], Peers(3, ("$G",)), "$G")
        end.shake()
        text = end.until(b"-ERR").decode()
    peers = Peers(3, ("$SYS",))
    here = Machine(replace(OWN), peers, Route(0, "127.0.0.1:1"), "n")
    here.line(LineKind.CONNECT, b'{"cluster":"C","name":"NX"}')
    info = {"server_id": "NX", "server_name": "x", "cluster": "C", "route_pool_size": 3, "route_account": "$G"}
    (close,) = here.line(LineKind.INFO, json.dumps(info).encode())
    assert isinstance(close, Close)
    assert text == f"-ERR '{close.why}'"


def test_real_servers_tell_of_new_ones_as_this_registry_would() -> None:
    """Who is told, of which address, and with which gossip_mode."""
    with real() as server:
        first = dial(server.ports["route_port"], Peers(3, ("$SYS",)))
        assert isinstance(first.shake(), Join)
        first.ping()
        other = replace(OWN, server_id="NOTHER", server_name="other", port=6333)
        second = dial(server.ports["route_port"], Peers(3, ("$SYS",)), cluster=other)
        assert isinstance(second.shake(), Join)
        second.ping()
        payload = first.until(b"INFO ").removeprefix(b"INFO ")
        assert first.machine.update(payload) == [Learned(Place("127.0.0.1", 6333), "NOTHER", "", 1)]
        # The same three servers, with this registry in the middle.
        middle = Peers(3, ("$SYS",))
        routes = [Route(1, "127.0.0.1:1"), Route(2, "127.0.0.1:2")]
        for route, name in zip(routes, ("NOWNOWN", "NOTHER"), strict=True):
            middle.place(route, {"server_id": name, "server_name": name, "route_pool_size": 3})
        assert [(to.server_id, mode) for to, mode in middle.told_of(routes[1], {})] == [("NOWNOWN", 1)]


def test_a_real_server_without_a_name_takes_ours_and_says_when_it_leaves() -> None:
    """Lame duck mode reaches the other servers as an INFO."""
    with servers.running(servers.REFERENCE, (CONFIG % "").replace("name: C,", "")) as server:
        end = dial(server.ports["route_port"], Peers(3, ("$SYS",)))
        found = end.shake()
        for _ in range(3):  # it closes what it had under the old name, and is dialled again
            if isinstance(found, Join):
                break
            end.close()
            end = dial(server.ports["route_port"], Peers(3, ("$SYS",)))
            found = end.shake()
        assert isinstance(found, Join)
        assert found.info["cluster"] in ("C", end.machine._cluster.name)
        end.ping()
        assert server.process is not None
        with servers.admitted(server):  # without a client it would end at once
            server.process.send_signal(signal.SIGUSR2)
            payload = end.until(b"INFO ").removeprefix(b"INFO ")
        assert Leaves() in end.machine.update(payload)


def test_a_server_that_goes_is_missed_by_a_real_one_until_it_is_back() -> None:
    """The places in its pool are free again at once."""
    with real() as server:
        for _ in range(3):
            end = dial(server.ports["route_port"], Peers(3, ("$SYS",)))
            assert isinstance(end.shake(), Join)
            end.ping()
            assert [row["remote_id"] for row in routez(server)] == ["NOWNOWN"]
            end.close()
            eventually(lambda: routez(server) == [], lambda: routez(server))
