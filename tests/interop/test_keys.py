"""Keys of the configuration that no other test has a use for, beside nats-server."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from tests import servers
from tests.rig.raw import Connection, RawClient
from tests.rig.reloads import reloaded
from tests.rig.waiting import PATIENCE_S, eventually, logged

PLAIN = 'listen: "127.0.0.1:{port}"\nserver_name: box\n'
SECRET = "accounts { SYS { users: [{user: s, password: s}] } }\nsystem_account: SYS\n"
DAY_S = 86_400


@pytest.mark.parametrize("kind", servers.KINDS)
def test_clients_are_told_where_to_come_back_to(kind: str) -> None:
    """With client_advertise clients are told that address in INFO."""
    with servers.running(kind, PLAIN + 'client_advertise: "box.example:4333"\n') as server, Connection(server) as one:
        info = one.info()
    assert (info["host"], info["port"], info.get("connect_urls")) == ("box.example", 4333, None)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_pages_have_a_path_in_front(kind: str) -> None:
    """http_base_path: with it they are there, without it they are not."""
    with servers.running(kind, PLAIN + 'http: "127.0.0.1:{http_port}"\nhttp_base_path: "/behind"\n') as server:
        there = f"http://127.0.0.1:{server.ports['http_port']}"
        with urllib.request.urlopen(f"{there}/behind/varz", timeout=PATIENCE_S) as answer:
            assert json.load(answer)["http_base_path"] == "/behind"
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"{there}/varz", timeout=PATIENCE_S)
        refused.value.close()


@pytest.mark.parametrize("kind", servers.KINDS)
def test_times_of_the_log_are_utc(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """logtime_utc, on a machine in another zone, writes the log's times in UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with servers.running(kind, PLAIN + "logtime_utc: true\n") as server:
        found = re.search(r"\] (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)\.\d+ \[INF\]", server.log)
    assert found is not None
    then = datetime.strptime(found[1], "%Y/%m/%d %H:%M:%S").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - then).total_seconds()) < 3600


@pytest.mark.parametrize("kind", servers.KINDS)
def test_lines_of_the_system_account_are_traced(kind: str) -> None:
    """trace_verbose, without trace, logs the lines of the system account, too."""
    with servers.running(kind, PLAIN + SECRET + "trace_verbose: true\n") as server:
        with RawClient(server, "s") as client:
            client.subscribe("of.the.system")
        eventually(lambda: "of.the.system" in server.log)


TRACED = {
    "": [r'["NATS/1.0\r\nA: b\r\n\r\nsome \"words\" é"]', '["without"]'],
    "max_traced_msg_len: 6": ['["NATS/1..."]', '["withou..."]'],
    "trace_headers: true": [r'["NATS/1.0\r\nA: b"]'],
    "trace_headers: true, max_traced_msg_len: 5": ['["NATS/..."]'],
}


@pytest.mark.parametrize("kind", servers.KINDS)
def test_messages_are_traced(kind: str) -> None:
    """max_traced_msg_len and trace_headers, as a reload changes them."""
    body, head = 'some "words" é'.encode(), b"NATS/1.0\r\nA: b\r\n\r\n"
    said = b"HPUB x %d %d\r\n%s%s\r\nPUB x 7\r\nwithout\r\nPUB x 0\r\n\r\n"
    said %= len(head), len(head) + len(body), head, body
    with servers.running(kind, PLAIN + "trace: true\n") as server:
        text = (server.directory / "server.conf").read_text()
        for more, expected in TRACED.items():
            reloaded(server, text + more)
            seen = len(server.log)
            with RawClient(server) as client:
                client.send(said + b"SUB ends 1\r\n")
                logged(server, "[SUB ends 1]", seen)
            found = [
                one.split("<<- MSG_PAYLOAD: ")[1] for one in server.log[seen:].splitlines() if "MSG_PAYLOAD" in one
            ]
            assert expected == found


@pytest.mark.parametrize("kind", servers.KINDS)
def test_what_goes_out_is_not_traced(kind: str) -> None:
    """nats-server logs it; leafd logs what comes in, and of a long message its first 8 KB."""
    with servers.running(kind, PLAIN + "trace: true\n") as server:
        seen = len(server.log)
        with RawClient(server) as client:
            client.publish("x", b"y" * 20_000)
            client.say("PING", "SUB ends 1")
            logged(server, "[SUB ends 1]", seen)
        said = server.log[seen:]
    assert ("->> [PONG]" in said) == (kind == servers.REFERENCE)
    assert (said.count("y") > 19_000) == (kind == servers.REFERENCE)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_addresses_of_a_hub_are_tried_in_their_order(kind: str) -> None:
    """With no_randomize the addresses of a hub that does not answer are tried in their order."""
    with ExitStack() as stack:
        hubs = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        for hub in hubs:
            hub.settimeout(PATIENCE_S)
        urls = ", ".join(f'"nats-leaf://127.0.0.1:{hub.getsockname()[1]}"' for hub in hubs)
        remote = f'leafnodes {{ reconnect: "1s", remotes: [ {{ urls: [{urls}], no_randomize: true }} ] }}\n'
        stack.enter_context(servers.running(kind, PLAIN + remote))
        times = []
        for hub in hubs:
            connection, _ = hub.accept()
            times.append(time.monotonic())
            connection.close()
    assert times == sorted(times)
