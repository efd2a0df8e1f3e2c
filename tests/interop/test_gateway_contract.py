"""The machine of gateways held against nats-server itself: over bare sockets, without the plane.

Whatever it says to a real server, that takes it for a server of another cluster; what it refuses, that refuses in the
same words.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from leafd.links.gateway import Join, Machine, Supercluster, Told
from leafd.links.handshake import Close
from leafd.links.leaf_info import frame
from leafd.links.route_info import Place
from leafd.native_types import LineKind

from tests import servers
from tests.rig.ends import End, all_closed, reached
from tests.rig.reports import report
from tests.rig.waiting import PATIENCE_S

OWN = Supercluster("NOWNOWN", "own", "2.15.1", "A", host="127.0.0.1", port=1, url="127.0.0.1:1", urls=("127.0.0.1:1",))
CONFIG = """
server_name: real
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
gateway {{ name: B, listen: "127.0.0.1:{{gateway_port}}", %s }}
""".replace("{{", "{").replace("}}", "}")


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whatever becomes of the test."""
    with all_closed():
        yield


def dial(server: servers.Server, wanted: str = "B", place: Place | None = None, **own: Any) -> End[Machine]:
    return End(reached(server.ports["gateway_port"]), Machine(replace(OWN, **own), wanted, place))


def gatewayz(server: servers.Server) -> dict[str, Any]:
    return report(server, "gatewayz")


def interest(end: End[Machine]) -> dict[str, list[str]]:
    """What the real server tells of interest at once, account by account, between the commands that say so."""
    found: dict[str, list[str]] = {}
    ended: set[str] = set()
    while ended != {"$G", "$SYS"}:
        line = end.until(b"").decode()
        if line.startswith("RS+"):
            _, account, subject = line.split(" ", 2)
            found.setdefault(account, []).append(subject)
        elif line.startswith("INFO"):
            info = json.loads(line[5:])
            account = base64.b64decode(info.get("gateway_cmd_payload", "")).decode()
            if info.get("gateway_cmd") == 3:
                ended.add(account)
            assert info["gateway"] in ("B", "C")
    return found


def test_a_real_server_takes_it_for_another_cluster_and_tells_its_interest() -> None:
    """With a login, and each account complete; a queue group's lines come with a weight."""
    with servers.running(servers.REFERENCE, CONFIG % "authorization { user: u, password: p }") as server:
        end = dial(server, place=Place("127.0.0.1", server.ports["gateway_port"], "u", "p"))
        assert isinstance(end.shake(), Join)
        assert end.machine.headers
        found = interest(end)
        assert any("$SYS.REQ.SERVER.PING" in subject for subject in found["$SYS"])
        (there,) = gatewayz(server)["inbound_gateways"]["A"]
        assert there["connection"]["name"] == "NOWNOWN"


def test_a_real_server_dials_back_and_is_taken_with_what_it_says() -> None:
    """Its CONNECT and INFO are those of a server of another cluster."""
    with socket.create_server(("127.0.0.1", 0)) as here, servers.running(servers.REFERENCE, CONFIG % "") as server:
        here.settimeout(PATIENCE_S)
        url = f"127.0.0.1:{here.getsockname()[1]}"
        assert isinstance(dial(server, urls=(url,), url=url).shake(), Join)
        sock, _ = here.accept()
        end = End(
            sock, Machine(replace(OWN, urls=(url,), url=url, rejects_unknown=True, knows=lambda name: name == "B"))
        )
        joined = end.shake()
        assert isinstance(joined, Join)
        assert joined.info["gateway"] == "B"
        assert joined.info["gateway_urls"] == (f"127.0.0.1:{server.ports['gateway_port']}",)
        end.send(b"PING\r\n")
        end.until(b"PONG")
        assert list(gatewayz(server)["outbound_gateways"]) == ["A"]


def test_a_real_server_tells_of_the_other_clusters_that_it_knows() -> None:
    """And the machine hears of them, once each."""
    there = '{ name: C, urls: ["nats://127.0.0.1:9", "nats://127.0.0.1:8"] }'
    more = f'gateways: [ {there}, {{ name: A, url: "nats://127.0.0.1:7" }} ]'
    with servers.running(servers.REFERENCE, CONFIG % more) as server:
        end = dial(server)
        assert isinstance(end.shake(), Join)
        info = end.until(b'INFO {"server_id":"' + gatewayz(server)["server_id"].encode()).removeprefix(b"INFO ")
        (told,) = end.machine.update(info)
        assert isinstance(told, Told)
        assert told.name == "C"
        assert {place.port for place in told.places} == {8, 9}
        assert not told.anew


def test_it_refuses_in_the_words_of_a_real_server() -> None:
    """Clients, routes, wrong logins, unknown clusters, and whatever comes before CONNECT."""
    more = "reject_unknown_cluster: true, authorization { user: u, password: p }"
    login = {"user": "u", "pass": "p", "name": "N"}
    opening: list[tuple[bytes, LineKind]] = [
        (frame("CONNECT", login), LineKind.CONNECT),
        (frame("CONNECT", login | {"lang": "go"}), LineKind.CONNECT),
        (frame("CONNECT", login | {"cluster": "C"}), LineKind.CONNECT),
        (frame("CONNECT", login | {"gateway": "Z"}), LineKind.CONNECT),
        (frame("CONNECT", login | {"gateway": "Z", "pass": "x"}), LineKind.CONNECT),
        (frame("CONNECT", {"name": "N"}), LineKind.CONNECT),
        (frame("INFO", {"server_id": "N", "gateway": "Z"}), LineKind.INFO),
    ]
    with servers.running(servers.REFERENCE, CONFIG % more) as server, ExitStack() as stack:
        for line, kind in opening:
            sock = reached(server.ports["gateway_port"])
            stack.callback(sock.close)
            sock.settimeout(PATIENCE_S)
            file = sock.makefile("rb")
            file.readline()
            sock.sendall(line)
            theirs = file.readline().decode().strip().removeprefix("-ERR '").removesuffix("'")
            here = Machine(
                replace(OWN, name="B", user="u", password="p", rejects_unknown=True, knows=lambda name: False)
            )
            (ours,) = here.line(kind, line.partition(b" ")[2].strip())
            assert isinstance(ours, Close)
            assert ours.told
            assert ours.why == theirs


def test_a_wrong_port_or_cluster_is_found_out_at_a_real_server() -> None:
    """Its clients' port, and a cluster of another name than the configuration says."""
    with servers.running(servers.REFERENCE, CONFIG % "") as server:
        close = dial(server, "C").shake()
        assert isinstance(close, Close)
        assert close.why == 'Connection from "A" rejected, wanted to connect to "C", this is "B"'
        end = End(reached(server.port), Machine(OWN, "B"))
        close = end.shake()
        assert isinstance(close, Close)
        assert close.why == 'Attempt to connect to gateway "B" using wrong port'
