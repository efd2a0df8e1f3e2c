"""The subscriptions in connz, by HTTP and on $SYS, are those that nats-server shows for the same clients."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.rig.waiting import PATIENCE_S, eventually
from tests.servers import KINDS, LEAFD, REFERENCE, Server, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
http: 127.0.0.1:{http_port}
server_name: box
accounts {
  A { users: [ {user: a, password: a} ] }
  S { users: [ {user: s, password: s} ] }
}
system_account: S
"""


@contextlib.contextmanager
def client(server: Server, user: str, commands: bytes) -> Iterator[socket.socket]:
    """A client that has said all this, and was heard."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as sock:
        body = json.dumps({"verbose": False, "pedantic": False, "user": user, "pass": user, "name": user})
        sock.sendall(f"CONNECT {body}\r\n".encode() + commands + b"PING\r\n")
        heard = b""
        while b"PONG\r\n" not in heard:
            heard += sock.recv(65536)
        yield sock


def get(server: Server, query: str, path: str = "connz") -> Any:
    """The report, or the status of a refusal."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.ports['http_port']}/{path}?{query}", timeout=PATIENCE_S
        ) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def only_two(server: Server) -> bool:
    return bool(get(server, "")["num_connections"] == 2)


def ask(sock: socket.socket, request: dict[str, Any]) -> Any:
    """The answer to a request on $SYS."""
    payload = json.dumps(request).encode()
    sock.sendall(b"PUB $SYS.REQ.SERVER.PING.CONNZ _I.1 %d\r\n%s\r\n" % (len(payload), payload))
    with sock.makefile("rb") as file:
        size = int(file.readline().split()[-1])
        return json.loads(file.read(size + 2))["data"]


def lists(report: Any) -> Any:
    """What a report says of subscriptions, by the clients' names, in no order."""
    if isinstance(report, int):
        return report
    found = {}
    for one in report["connections"]:
        plain, detail = one.get("subscriptions_list"), one.get("subscriptions_list_detail")
        for row in detail or ():
            assert row.pop("cid") == one["cid"]
        rows = detail and sorted(sorted((key, str(value)) for key, value in row.items()) for row in detail)
        found[one["name"]] = (plain and sorted(plain), rows, one["subscriptions"])
    return found


QUERIES = [
    "", "subs=1", "subs=true", "subs=T", "subs=0", "subs=false", "subs=detail", "subs=DETAIL", "subs=x", "subs=-1",
    "subs=detail&auth=1&sort=subs&limit=1", "subs=1&user=a&auth=1",
]  # fmt: skip
REQUESTS: list[dict[str, Any]] = [
    {},
    {"subscriptions": True},
    {"subscriptions_detail": True},
    {"subscriptions": True, "subscriptions_detail": True},
    {"subscriptions": False},
]


def test_subscriptions_as_the_reference_shows_them() -> None:
    """Every form of the question has nats-server's answer: which lists, which fields, what is no switch."""
    shown: dict[str, Any] = {}
    for kind in KINDS:
        commands = (
            b"SUB foo 1\r\nSUB bar.* q x-2\r\nSUB > 3\r\nUNSUB 3 10\r\nSUB gone 4\r\nUNSUB 4\r\nPUB foo 1\r\nx\r\n"
        )
        with (
            running(kind, CONFIGURATION) as server,
            client(server, "a", commands),
            client(server, "s", b"SUB _I.> 1\r\n") as system,
        ):
            # (What waited for the server's start may still be there, as a connection without a name.)
            eventually(partial(only_two, server))
            shown[kind] = [(query, lists(get(server, query))) for query in QUERIES]
            shown[kind] += [(str(request), lists(ask(system, request))) for request in REQUESTS]

    assert any("x-2" in str(rows) for _, rows in shown[REFERENCE])
    assert shown[REFERENCE] == shown[LEAFD]


@pytest.mark.parametrize("count", [20_000])
def test_very_many_subscriptions_are_cut_and_said_to_be(count: int) -> None:
    """Each of many clients has its own subscriptions in a report, few or many. A client with more than a report lists
    costs a bounded report, which says how many it lists."""
    sizes = [number % 3 for number in range(70)] + [200]
    with running(LEAFD, CONFIGURATION) as server:
        with contextlib.ExitStack() as stack:
            for number, size in enumerate(sizes):
                stack.enter_context(
                    client(server, "a", b"".join(b"SUB n.%d.%d %d\r\n" % (number, i, i) for i in range(size)))
                )
            found = [one.get("subscriptions_list", []) for one in get(server, "subs=1&user=a")["connections"]]
            assert [{f"n.{number}.{i}" for i in range(size)} for number, size in enumerate(sizes)] == list(
                map(set, found)
            )
            listed = get(server, "subs=1&limit=1000", "subsz")["subscriptions_list"]
            told = [one["subject"] for one in listed if one["account"] == "A"]
            assert sorted(told) == sorted(subject for each in found for subject in each)
        with client(server, "a", b"".join(b"SUB s.%d %d\r\n" % (i, i) for i in range(count))):
            eventually(lambda: bool(get(server, "")["num_connections"] == 1))
            report = get(server, "subs=1")

    (one,) = report["connections"]
    assert count == one["subscriptions"]
    assert report["subscriptions_cut"] == len(set(one["subscriptions_list"])) < count
