"""What the launchers of the official clients' own tests read of a server that they have started.

Not here: what a client sees once it is connected, what the monitoring port answers.
"""

from __future__ import annotations

import errno
import json
import re
import socket
from pathlib import Path

import pytest

from tests import servers
from tests.certificates import Authority
from tests.rig.waiting import eventually

LISTENERS = """
host: {host}
port: {port}
http: "{host}:-1"
websocket { host: {host}, port: -1, {web} }
cluster { name: C, listen: "{host}:-1", {routes} }
ports_file_dir: "{directory}"
{tls}
"""


def ports_of(server: servers.Server) -> dict[str, list[str]]:
    """The file that tells the ports, once it is whole."""

    def text() -> str:
        return next((text for path in server.directory.glob("*.ports") if (text := path.read_text())), "")

    said = eventually(text, lambda: f"no file of ports:\n{server.log}", seconds=servers.START_SECONDS_MAX)
    found: dict[str, list[str]] = json.loads(said)
    return found


@pytest.mark.parametrize("secure", [False, True])
def test_the_ports_file_names_every_listener(secure: bool, tmp_path: Path) -> None:
    """Clients, monitoring, WebSocket and routes, each with the scheme that a peer would use, as the reference has
    them."""
    tls, web, routes = "", "no_tls: true", ""
    if secure:
        issued = Authority(tmp_path).issue("server")
        tls = web = routes = f"tls {{ cert_file: '{issued.certificate}', key_file: '{issued.key}' }}"
    seen = {}
    for kind in servers.KINDS:
        with servers.running(kind, LISTENERS, host="127.0.0.1", tls=tls, web=web, routes=routes) as server:
            ports = ports_of(server)
        ports.pop("leafnodes", None)
        seen[kind] = {name: [re.sub(r":\d+$", "", url) for url in urls] for name, urls in ports.items()}
    assert seen[servers.REFERENCE] == seen[servers.LEAFD]


def test_a_listener_of_all_addresses_is_named_by_each() -> None:
    """The first of its URLs is one of the loopback interface, on which a launcher connects."""
    with servers.running(servers.LEAFD, LISTENERS, host="0.0.0.0", tls="", web="no_tls: true", routes="") as server:
        ports = ports_of(server)
        assert f"nats://127.0.0.1:{server.port}" == ports["nats"][0]
        for urls in ports.values():
            hosts = [url.split("//")[1].split(":")[0] for url in urls]
            assert "127.0.0.1" == hosts[0]
            assert "0.0.0.0" not in hosts


@pytest.mark.parametrize("kind", servers.KINDS)
def test_a_listener_of_all_addresses_takes_both_kinds(kind: str) -> None:
    """Whoever resolves localhost to ::1 reaches it, whoever resolves it to 127.0.0.1 does, and INFO says who came."""
    if not socket.has_ipv6:
        pytest.skip("Python has no IPv6 here")
    found = []
    with servers.running(kind, "port: {port}\n") as server:
        for host in ("127.0.0.1", "::1"):
            try:
                peer = socket.create_connection((host, server.port), 10)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    pytest.skip(f"this machine has no {host}")
                raise
            with peer, peer.makefile("rb") as lines:
                found.append(json.loads(lines.readline().removeprefix(b"INFO "))["client_ip"])
    assert ["127.0.0.1", "::1"] == found


SIX = """
listen: "127.0.0.1:{port}"
http: "[::1]:-1"
websocket { host: "::1", port: -1, no_tls: true }
cluster { name: C, listen: "[::1]:-1" }
ports_file_dir: "{directory}"
"""


def test_addresses_of_the_second_kind_are_written_in_brackets_as_at_a_nats_server() -> None:
    """In the log's lines and in the ports file, so that who reads one finds the port behind the last colon."""
    if not socket.has_ipv6:
        pytest.skip("Python has no IPv6 here")
    told = []
    for kind in servers.KINDS:
        with servers.running(kind, SIX) as server:
            urls = {url for urls in ports_of(server).values() for url in urls if "::1" in url}
            said = re.findall(r"(monitor on|route connections on) (\S*):\d+", server.log)
            told.append((sorted(said), {url.rpartition(":")[0] for url in urls}))
    assert told[0] == told[1]
    assert {"[::1]"} == {host for _, host in told[0][0]}
