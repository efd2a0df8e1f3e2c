"""Each limit is exceeded, on leafd and, where it has it, on nats-server: what is refused, with which words, and what is
there afterwards. The rows are tests/limits_table.py's, the attacks limit_attacks.py's."""

from __future__ import annotations

import pytest

from tests.interop.jwt_peer import Peer, close_all
from tests.interop.limit_attacks import ATTACKS, STORE, Client, error
from tests.interop.test_isolation import Leaf
from tests.interop.test_resolver import full, push
from tests.jwts import Operator
from tests.limits_table import PLAYED, STORED, Row
from tests.rig.waiting import eventually
from tests.servers import KINDS, LEAFD, REFERENCE, running

CASES = [(row, kind) for row in PLAYED for kind in (LEAFD, REFERENCE) if kind == LEAFD or row.theirs]


@pytest.mark.parametrize(("row", "kind"), CASES, ids=[f"{row.name}-{kind}" for row, kind in CASES])
def test_beyond_the_limit(row: Row, kind: str) -> None:
    """What exceeds it is refused with the row's words, and what the row says remains."""
    assert (row.refused, row.remains) == ATTACKS[row.name](kind)


def test_no_attack_is_left_over() -> None:
    """An attack without a row would never be played."""
    assert sorted(row.name for row in PLAYED) == sorted(ATTACKS)


HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
max_connections: 1
leafnodes { listen: "127.0.0.1:{leaf_port}", compression: off }
cluster { name: "c", listen: "127.0.0.1:{route_port}" }
"""
BESIDE = """
listen: "127.0.0.1:{port}"
server_name: beside
cluster { name: "c", listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:HUB" ] }
"""


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_and_the_servers_of_a_cluster_take_no_clients_place(kind: str) -> None:
    """A hub for one client has three boxes and another server below and beside it, and the client; no second one."""
    with running(kind, HUB) as hub, running(kind, BESIDE.replace("HUB", str(hub.ports["route_port"]))) as other:
        boxes = [Leaf(hub, f"box-{number}") for number in range(3)]
        client, beside = Peer(hub), Peer(other)

        def heard_beside() -> bool:
            client.say("PUB far 0\r\n")
            assert [] == client.lines()
            return "MSG far 1 0" in beside.lines()

        beside.say("SUB far 1")
        eventually(heard_beside)
        assert "-ERR 'maximum connections exceeded'" in Peer(hub).lines()
        for box in boxes:
            box.acted_on()
            box.close()
        close_all()


def test_a_client_that_comes_behind_one_that_has_left_has_its_place() -> None:
    """Also at once: it may be in the listener before the server has read that the other has left. nats-server refuses
    every thirtieth or so."""
    with running(LEAFD, 'listen: "127.0.0.1:{port}"\nserver_name: full\nmax_connections: 10\n') as server:
        for _ in range(30):
            clients = [Peer(server) for _ in range(10)]
            for client in clients:
                assert [] == client.lines()
            for client in clients:
                client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_new_jwt_grants_counts_at_once_and_after_a_restart(kind: str) -> None:
    """More is taken at once; less than is stored takes nothing away and adds nothing; a restart counts the same."""
    operator = Operator()
    account = operator.account("A", disk_storage=10 * 1033, mem_storage=0, streams=-1, consumer=-1)
    user = account.user("u")
    with running(kind, full(operator) + STORE.format("")) as server:
        system = Peer(server, operator.system.user("s"))

        def grant(most: int) -> None:
            account.limits["disk_storage"] = most
            assert "jwt updated" == push(system, account)["message"]

        def taken() -> int:
            """How many messages of 1,033 bytes it takes."""
            client = Client(server, user)
            count = 0
            while "taken" == (said := error(client.stored("s.a", "x" * 1000))):
                count += 1
            assert STORED[0] == said
            return count

        assert 200 == push(system, account)["code"]
        assert "taken" == error(Client(server, user).stream())
        assert 10 == taken()
        grant(15 * 1033)
        assert 5 == taken()
        grant(5000)
        assert 0 == taken()
        assert 15 == Client(server, user).api("STREAM.INFO.S")["state"]["messages"]
        grant(17 * 1033)
        close_all()
        server.stop()
        server.start()
        assert 2 == taken()
        close_all()
