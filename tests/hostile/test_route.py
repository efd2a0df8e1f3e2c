"""A server of this cluster that lies: wrong sizes, foreign accounts, lines of other protocols, floods of interest and
of servers that there are not, and one that does not read. It is let in (its login is good) and costs its own
connection, nothing else; the same of its clients and of the other servers.

Not here: servers of other clusters (test_gateway.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nats
import pytest
from leafd.links.leaf_info import frame
from leafd.links.peers import Peers
from leafd.links.route import Join, Machine

from tests import servers
from tests.hostile.test_gateway import LIES as OF_GATEWAYS, is_well, published, told
from tests.interop.test_route_contract import OWN, dial
from tests.rig.ends import End, all_closed
from tests.rig.reports import report
from tests.rig.waiting import eventually

SMALL = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: here
memory_limit: 32MB
max_payload: 256KB
accounts { A { users: [ {user: a, password: a} ] }, SYS { users: [ {user: sys, password: sys} ] } }
system_account: SYS
"""
"""A server with little memory, for those that join it."""
CONFIG = SMALL + 'cluster { name: C, listen: "127.0.0.1:{route_port}", pool_size: -1 }\n'
LIES: dict[str, bytes] = OF_GATEWAYS | {
    "a leaf's message of half a size": b"LMSG o A x 5\r\nhello\r\n",
    "a leaf's message with more header than all": b"LMSG o A x 9 5\r\nhello\r\n",
    "a leaf's message of our own cluster": b"LMSG C A x 0 5\r\nhello\r\n",
    "a weight that is none": b"RS+ A x q -1\r\nRS+ A x q 99999999999\r\nRS+ A x q y\r\nRS+ A x q 0\r\n",
    "an end of what never began": b"RS- A never\r\nRS- A never q\r\nLS- o A never\r\nRS- NONE never\r\n",
    "interest in no subject": b"RS+ A x..y\r\nRS+ A >.x\r\nRS+ A\r\nRS+\r\n",
    "a name of an account without end": b"RS+ " + b"N" * 3000 + b" x\r\n",
    "what another cluster says": b"A+ A\r\nA- A\r\n",
    "a lame duck that stays": b'INFO {"server_id":"NOWNOWN","ldm":true}\r\n' * 20,
}
SUBJECTS = 1_000_000
GOSSIP = 1_000


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whatever becomes of the test."""
    with all_closed():
        yield


def joined(server: servers.Server, number: int = 0) -> End[Machine]:
    """One that the server takes for another one of its cluster."""
    own = replace(OWN, server_id=f"NLIAR{number}", server_name=f"liar{number}")
    end = dial(server.ports["route_port"], Peers(-1, ()), cluster=own)
    assert isinstance(end.shake(), Join)
    return end


def test_what_a_server_of_the_cluster_sends_wrongly_costs_its_own_connection() -> None:
    """Each lie by a connection of its own, after a handshake that is right; and many drawn at random."""
    rng = random.Random(27)
    lines = [line for one in LIES.values() for line in one.split(b"\r\n")]
    drawn = [b"\r\n".join(rng.choice(lines)[: rng.randrange(1, 400)] for _ in range(30)) for _ in range(60)]
    with servers.running(servers.LEAFD, CONFIG) as server:
        for number, lie in enumerate((*LIES.values(), *drawn)):
            end = joined(server, number)
            told(lie + b"\r\n", end)
            end.close()
        is_well(server)
        joined(server, len(LIES) + len(drawn)).ping()


def test_a_million_subjects_have_a_share_of_the_memory() -> None:
    """Half of them in an account that there is not. What is over the share is refused, and logged; the connection goes
    on, clients are served, and with its end the memory is free again for what the next one asks for."""
    with servers.running(servers.LEAFD, CONFIG) as server:
        end = joined(server)
        for account in (b"A", b"NONE"):
            for first in range(0, SUBJECTS // 2, 10_000):
                end.send(b"".join(b"RS+ %b s.%d\r\n" % (account, n) for n in range(first, first + 10_000)))
        end.ping()
        assert "subscriptions have all of their share of memory_limit" in server.log
        assert 1_000 < report(server, "subsz")["num_subscriptions"] < SUBJECTS // 2
        is_well(server)
        end.close()
        eventually(lambda: report(server, "subsz")["num_subscriptions"] < 1_000)
        again = joined(server, 1)
        again.send(b"RS+ A wanted\r\n")
        again.ping()
        asyncio.run(published(server, "wanted"))
        assert b"RMSG A wanted 5" in again.until(b"RMSG ")


def test_servers_and_loops_without_end_are_borne() -> None:
    """It tells of 1,000 servers at addresses where nobody is, of this server itself, and of itself."""
    with servers.running(servers.LEAFD, CONFIG) as server:
        end = joined(server)
        own = report(server, "varz")["server_id"]
        places = [f"nats-route://127.0.0.1:{1 + n % 9}/" for n in range(GOSSIP)]
        places += [
            f"nats-route://127.0.0.1:{server.ports['route_port']}/",
            "nats-route://",
            "x",
            "",
            "nats-route://[::1",
        ]
        for number, place in enumerate(places):
            about = {"server_name": f"n{number}", "cluster": "C", "host": "127.0.0.1", "port": 1, "ip": place}
            end.send(frame("INFO", about | {"server_id": f"N{number}"}))
            if number % 100 == 0:
                end.send(frame("INFO", about | {"server_id": own}))
                end.send(frame("INFO", about | {"server_id": "NLIAR0"}))
        end.ping()
        is_well(server)
        assert {row["remote_name"] for row in report(server, "routez")["routes"]} == {"liar0"}


def drained(end: End[Any], messages: int) -> None:
    for _ in range(messages):
        end.until(b"RMSG A x 100000")
        assert len(end.line()) == 100_000


async def outlasted(server: servers.Server, reader: End[Any]) -> None:
    """Messages are sent until one that does not read is closed; a client here and the reader get each of them."""
    one = await nats.connect(server.url, user="a", password="a", allow_reconnect=False)
    got = 0

    async def take(_: object) -> None:
        nonlocal got
        got += 1

    await one.subscribe("x", cb=take)
    two = await nats.connect(server.url, user="a", password="a", allow_reconnect=False)
    seen = 0
    body = b"b" * 100_000
    while server.process is not None and "Slow Consumer" not in server.log:
        for _ in range(20):
            await two.publish("x", body)
        await two.flush(60)
        await asyncio.to_thread(drained, reader, 20)
        seen += 20
        assert seen < 20_000, server.log
    while got < seen:
        await asyncio.sleep(0.02)
    await one.close()
    await two.close()


def test_a_server_that_does_not_read_holds_up_nobody() -> None:
    """What waits for it is bounded, and it is closed; another server and a client get everything meanwhile."""
    with servers.running(servers.LEAFD, CONFIG) as server:
        deaf, reader = joined(server, 1), joined(server, 2)
        for end in (deaf, reader):
            end.send(b"RS+ A x\r\n")
            end.ping()
        asyncio.run(outlasted(server, reader))
        names = eventually(lambda: [row["remote_name"] for row in report(server, "routez")["routes"]])
        assert names == ["liar2"]
        is_well(server)
