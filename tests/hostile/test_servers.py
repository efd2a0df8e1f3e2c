"""Hostile values in every field that another server tells of itself: on routes and on gateways, before it is let in and
behind that. A draw with a seed; whatever it is, everybody else is served and nothing unforeseen is counted.

Not here: lies in lines of interest and messages (test_route.py, test_gateway.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from leafd.gojson import Struct
from leafd.links import gateway, route
from leafd.links.gateway_info import GatewayConnect, GatewayInfo
from leafd.links.peers import Peers
from leafd.links.route_info import RouteConnect, RouteInfo
from leafd.links.servers import LOGINS_MAX

from tests import servers
from tests.hostile import fields, values
from tests.hostile.test_gateway import serves
from tests.interop import test_gateway_contract as of_gateways, test_route_contract as of_routes
from tests.rig.ends import End, all_closed, reached
from tests.rig.reports import report

CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: here
accounts { A { users: [ {user: a, password: a} ] }, SYS { users: [ {user: sys, password: sys} ] } }
system_account: SYS
cluster { name: C, listen: "127.0.0.1:{route_port}" }
gateway { name: C, listen: "127.0.0.1:{gateway_port}" }
"""
SEED = 27
ROUNDS = 6  # each field as often
SILENT = 3 * LOGINS_MAX
GOOD_CONNECT = {
    "route_port": b'{"name":"NOTHER","cluster":"C","headers":true,"lnoc":true,"lnocu":true}',
    "gateway_port": b'{"name":"NOTHER","gateway":"D","cluster":"","headers":false}',
}
GOOD_INFO = {
    "route_port": b'{"server_id":"NOTHER","server_name":"other","cluster":"C","host":"127.0.0.1","port":1,'
    b'"headers":true,"proto":2,"max_payload":1000,"route_pool_size":3,"route_pool_idx":0}',
    "gateway_port": b'{"server_id":"NOTHER","server_name":"other","gateway":"D","gateway_url":"127.0.0.1:1",'
    b'"gateway_urls":["127.0.0.1:1"],"gateway_nrp":true,"gateway_iom":true,"headers":true,"proto":2}',
}
WAYS: tuple[tuple[str, str, type[Struct]], ...] = (
    ("route_port", "CONNECT", RouteConnect),
    ("route_port", "INFO", RouteInfo),
    ("gateway_port", "CONNECT", GatewayConnect),
    ("gateway_port", "INFO", GatewayInfo),
)


@dataclass(frozen=True)
class Case:
    """One conversation."""

    port: str
    said: bytes


def drawn(seed: int) -> Iterator[Case]:
    """Each field of each body again and again: in the handshake, and in an INFO behind a good one."""
    rng = random.Random(seed)
    for port, verb, struct in WAYS:
        for path in list(fields.paths(struct)) * ROUNDS:
            body = fields.body(struct, path, rng.choice(values.JSON), twice=rng.random() < 0.1)
            bad = b"%s %s\r\n" % (verb.encode(), body)
            connect = b"CONNECT %s\r\n" % GOOD_CONNECT[port]
            info = b"INFO %s\r\n" % GOOD_INFO[port]
            if verb == "CONNECT":
                yield Case(port, bad + info + b"PING\r\n")
            else:
                yield Case(port, connect + (info if rng.random() < 0.5 else b"") + bad + b"PING\r\n")


def converse(server: servers.Server, case: Case) -> None:
    """All of it is said, and what is answered at once is read; it may be refused at any point."""
    with reached(server.ports[case.port]) as sock:
        sock.settimeout(0.02)
        try:
            sock.sendall(case.said)
            while sock.recv(1 << 16):
                pass
        except (ConnectionError, TimeoutError):
            return


def test_no_field_of_another_server_upsets_this_one() -> None:
    """Some hundred fields six times, with a look behind each fifty."""
    fields.BASES.update(
        {
            RouteConnect: {"name": "NOTHER", "cluster": "C", "headers": True, "lnoc": True},
            RouteInfo: {"server_id": "NOTHER", "server_name": "other", "cluster": "C", "headers": True, "proto": 2},
            GatewayConnect: {"name": "NOTHER", "gateway": "D"},
            GatewayInfo: {"server_id": "NOTHER", "server_name": "other", "gateway": "D", "gateway_iom": True},
        }
    )
    with servers.running(servers.LEAFD, CONFIG) as server:
        number = 0
        for number, case in enumerate(drawn(SEED), start=1):
            converse(server, case)
            if number % 50 == 0:
                figures = report(server, "varz")["leafd"]
                assert not figures["unexpected_errors"], f"{case}: {figures['unexpected_errors_in']}"
        assert number > 250
        asyncio.run(serves(server))
        assert "Traceback" not in server.log
        with socket.create_connection(("127.0.0.1", server.ports["route_port"]), 30) as sock:
            assert sock.recv(5) == b"INFO "


@pytest.mark.parametrize("port", ["route_port", "gateway_port"])
def test_who_connects_and_says_nothing_keeps_no_server_out(port: str) -> None:
    """Neither many that are silent, nor many that stop in the middle of their login."""
    with servers.running(servers.LEAFD, CONFIG) as server, all_closed(), contextlib.ExitStack() as stack:
        for number in range(SILENT):
            sock = stack.enter_context(reached(server.ports[port]))
            sock.sendall(b'CONNECT {"name":' if number % 2 else b"")
        if port == "route_port":
            own = replace(of_routes.OWN, server_id="NLATE", server_name="late")
            assert isinstance(of_routes.dial(server.ports[port], Peers(-1, ()), cluster=own).shake(), route.Join)
        else:
            far = gateway.Machine(replace(of_gateways.OWN), "C")
            assert isinstance(End(reached(server.ports[port]), far).shake(), gateway.Join)
        asyncio.run(serves(server))
