"""A server of another cluster that lies: wrong sizes, foreign accounts, lines of other protocols, floods of interest
and of clusters that there are not. It is let in (its login is good) and costs its own connection, nothing else.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nats
import pytest
from leafd.links.gateway import Join, Machine
from leafd.links.leaf_info import frame

from tests import servers
from tests.interop.test_gateway_contract import OWN
from tests.rig.ends import End, all_closed, reached
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S

CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: here
accounts { A { users: [ {user: a, password: a} ] }, SYS { users: [ {user: sys, password: sys} ] } }
system_account: SYS
gateway { name: B, listen: "127.0.0.1:{gateway_port}", gateways: [ {gateways} ] }
"""
LIES: dict[str, bytes] = {
    "a size that is none": b"RMSG A x y z\r\n",
    "a size beyond all": b"RMSG A x 99999999999999999999\r\nhello\r\n",
    "a size below zero": b"RMSG A x -5\r\nhello\r\n",
    "a header longer than the message": b"HMSG A x 50 5\r\nhello\r\n",
    "a message longer than it says": b"RMSG A x 2\r\nhello\r\n",
    "no account": b"RMSG x 5\r\nhello\r\n",
    "an account that there is not": b"RMSG NONE x 5\r\nhello\r\n",
    "a subject that is none": b"RMSG A x..y 5\r\nhello\r\n",
    "a subject with a wildcard": b"RMSG A x.> 5\r\nhello\r\n",
    "queue groups without end": b"RMSG A x | " + b"q " * 5000 + b"5\r\nhello\r\n",
    "an answer of nobody": b"RMSG A _GR_.aaaaaa.bbbbbb.x 5\r\nhello\r\n",
    "an answer that is cut": b"RMSG A _GR_. 5\r\nhello\r\nRMSG A _GR_.a 5\r\nhello\r\n",
    "an answer to nothing": b"RMSG A _GR_.aaaaaa.bbbbbb. 5\r\nhello\r\n",
    "interest the wrong way": b"RS+ A x\r\nRS+ A x q 1\r\nRS- A x\r\nA+ A\r\nA- A\r\n",
    "a line of leafs": b"LS+ o A x\r\nLMSG o A x 0 5\r\nhello\r\n",
    "a line of clients": b"PUB x 5\r\nhello\r\nSUB x 1\r\n",
    "a second login": b"CONNECT {}\r\n" * 50,
    "INFO that is none": b"INFO {\r\nINFO []\r\nINFO 7\r\nINFO {" + b"[" * 3000 + b"\r\n",
    "errors without end": b"-ERR 'x'\r\n" * 2000,
    "a line without end": b"RMSG A " + b"x" * 200_000,
    "no text": bytes(range(256)) * 20,
}


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whatever becomes of the test."""
    with all_closed():
        yield


async def serves(server: servers.Server) -> None:
    """Clients are served as ever."""
    client = await nats.connect(server.url, user="a", password="a", allow_reconnect=False)

    async def answer(message: Any) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe("svc", cb=answer)
    assert (await client.request("svc", b"hello", timeout=PATIENCE_S)).data == b"hello"
    await client.close()


def told(lines: bytes, end: End[Any]) -> None:
    """As much as the other side takes: it may have closed."""
    try:
        end.send(lines)
    except (ConnectionError, TimeoutError):
        return


def is_well(server: servers.Server) -> None:
    asyncio.run(serves(server))
    assert server.process is not None
    assert server.process.poll() is None
    assert "Traceback" not in server.log
    assert "unexpected" not in server.log


def test_what_another_cluster_sends_wrongly_costs_its_own_connection() -> None:
    """Each lie by a connection of its own, after a handshake that is right; and many drawn at random."""
    rng = random.Random(27)
    lines = [line for one in LIES.values() for line in one.split(b"\r\n")]
    drawn = [b"\r\n".join(rng.choice(lines)[: rng.randrange(1, 400)] for _ in range(30)) for _ in range(60)]
    with servers.running(servers.LEAFD, CONFIG, gateways="") as server:
        for lie in (*LIES.values(), *drawn):
            end = End(reached(server.ports["gateway_port"]), Machine(replace(OWN), "B"))
            assert isinstance(end.shake(), Join)
            told(lie + b"\r\n", end)
            end.close()
        is_well(server)
        end = End(reached(server.ports["gateway_port"]), Machine(replace(OWN), "B"))
        assert isinstance(end.shake(), Join)
        end.send(b"PING\r\n")
        end.until(b"PONG")


def test_interest_and_clusters_without_end_are_borne() -> None:
    """Of a cluster that is dialled: 50,000 subjects, half of them in an account that is not here, 1,000 other clusters
    that are not there, lines that are none."""
    with socket.create_server(("127.0.0.1", 0)) as here:
        here.settimeout(PATIENCE_S)
        port = here.getsockname()[1]
        remote = f'{{ name: Z, url: "nats://127.0.0.1:{port}" }}'
        with servers.running(servers.LEAFD, CONFIG, gateways=remote) as server:
            sock, _ = here.accept()
            own = replace(OWN, name="Z", server_name="far", url=f"127.0.0.1:{port}", urls=(f"127.0.0.1:{port}",))
            end = End(sock, Machine(own))
            assert isinstance(end.shake(), Join)
            for number in range(1000):
                about = {"gateway": f"X{number}", "gateway_urls": ["127.0.0.1:1"], "gateway_cmd": 1}
                end.send(frame("INFO", {"server_id": "N"} | about))
            for account in (b"A", b"NONE"):
                lines = [b"RS+ %b s.%d\r\n" % (account, number) for number in range(25_000)]
                lines += [b"RS+ %b s.%d q 1\r\n" % (account, number) for number in range(100)]
                end.send(b"".join(lines))
            end.send(b"A- A\r\nA+ A\r\nRS- A nothing\r\nRS- NONE s.1\r\n")
            end.send(b"PING\r\n")
            end.until(b"PONG")
            asyncio.run(published(server, "s.24999"))
            assert b"RMSG A s.24999 5" in end.until(b"RMSG A s.")
            end.send(b"INFO {\r\nRS+ A\r\n")
            is_well(server)
            found = report(server, "gatewayz")
            assert set(found["outbound_gateways"]) <= {"Z"}
            assert json.dumps(found)


async def published(server: servers.Server, subject: str) -> None:
    client = await nats.connect(server.url, user="a", password="a", allow_reconnect=False)
    await client.publish(subject, b"hello")
    await client.flush(30)
    await client.close()
