"""Accounts of an operator in clusters and superclusters: what is pushed at one server holds at all of them, and who was
away or keeps nothing asks the others.

Mixed clusters, in which each server has a resolver with a directory of its own. Not here: what a lone
server answers (test_resolver.py).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.interop import test_cluster as of_cluster, test_supercluster as of_supercluster
from tests.interop.jwt_peer import VIOLATION, Peer, close_all
from tests.interop.test_resolver import deletion, push
from tests.jwts import Account, Operator, User, issued
from tests.rig.reports import report
from tests.rig.waiting import eventually

L, R = servers.LEAFD, servers.REFERENCE
LINE_UPS = [(R, R, R), (L, R, L), (R, L, L)]
PAIRS = [(R, R), (L, R), (R, L), (L, L)]
CLUSTER = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
OPERATOR
resolver: { type: full, dir: "{directory}/jwt", allow_delete: true, interval: "1s", timeout: "1.9s" }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] {more} }
"""
GATEWAY = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
OPERATOR
resolver: { type: full, dir: "{directory}/jwt", interval: "1s", timeout: "1.9s" }
gateway { name: "{cluster}", listen: "127.0.0.1:{gateway_port}", gateways: [ {gateways} ] {more} }
{routes}
"""


def text_of(operator: Operator, text: str = CLUSTER) -> str:
    """The system account is named by the operator alone."""
    preload = f"resolver_preload: {{ {operator.system.public}: {operator.system.token()} }}"
    return text.replace("OPERATOR", f"operator: {operator.token()}\n{preload}")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def kept(server: servers.Server, account: Account) -> str:
    file = server.directory / "jwt" / f"{account.public}.jwt"
    return file.read_text() if file.exists() else ""


def let_in(server: servers.Server, user: User) -> Peer:
    """A client that is logged in, now or soon."""

    def found() -> Peer | None:
        peer = Peer(server, user)
        return peer if not peer.lines() else None

    return eventually(found, lambda: server.log[-3000:])  # type: ignore[return-value]


def answers(peer: Peer, subject: str, body: bytes | str, servers: int) -> list[Any]:
    """What each server says, in the order of their names."""
    found = [json.loads(one) for one in peer.answers(subject, body, count=servers, seconds=60)]
    return [one["data"] if "data" in one else one["error"] for one in sorted(found, key=lambda f: f["server"]["name"])]


def reaches(sender: Peer, hears: Peer, subject: str) -> bool:
    """Whether one message of several comes to a subscriber elsewhere, as soon as it is known that it wants them."""
    sid = str(time.monotonic_ns())
    hears.say(f"SUB {subject} {sid}")
    hears.lines()

    def heard() -> bool:
        sender.say(f"PUB {subject} 2\r\nhi")
        sender.lines()
        return any(f" {sid} " in line for line in hears.lines())

    return eventually(heard)


@pytest.mark.parametrize("kinds", LINE_UPS, ids="-".join)
def test_what_is_pushed_at_one_server_holds_at_all(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """An account that no server has had comes by one push, its users are let in everywhere and hear each other; a
    revoked user is closed everywhere; a deleted account is gone everywhere."""
    operator = Operator()
    account, other = operator.account("A"), operator.account("B").export("svc")
    user, revoked = account.user("u"), account.user("v")
    with of_cluster.started(kinds, tmp_path, text=text_of(operator)) as cluster:
        first, *_, last = cluster.servers
        system = let_in(first, operator.system.user("s"))
        assert [VIOLATION, "closed"] == Peer(last, user).lines()
        for one in (other, account):
            done = answers(system, "$SYS.REQ.CLAIMS.UPDATE", one.token(), len(kinds))
            assert [{"account": one.public, "code": 200, "message": "jwt updated"}] * len(kinds) == done
        assert 1 == len({kept(server, account) for server in cluster.servers})
        names = answers(system, "$SYS.REQ.CLAIMS.LIST", "", len(kinds))
        assert all(set(one) == {operator.system.public, account.public, other.public} for one in names)

        peers = [let_in(server, user) for server in cluster.servers]
        for sender, hears in itertools.permutations(peers, 2):
            assert reaches(sender, hears, "m")

        closed = [let_in(server, revoked) for server in cluster.servers]
        account.nats["revocations"] = {revoked.key.public: issued()}
        account.imported(other, "svc", local_subject="mine")
        answers(system, f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE", account.token(), len(kinds))
        for peer in closed:
            assert "-ERR 'User Authentication Revoked'" in eventually(peer.lines)
        service = let_in(last, other.user("o"))
        service.say("SUB svc 1")
        service.lines()

        def served() -> bool:
            peers[0].say("PUB mine 2\r\nhi")
            peers[0].lines()
            return any("svc 1 " in line for line in service.lines())

        assert eventually(served)

        gone = answers(system, "$SYS.REQ.CLAIMS.DELETE", deletion(operator, account), len(kinds))
        assert [{"code": 200, "message": "deleted 1 accounts"}] * len(kinds) == gone
        for peer, server in zip(peers, cluster.servers, strict=True):
            assert "closed" in eventually(peer.lines)
            assert [VIOLATION, "closed"] == Peer(server, user).lines()


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_who_was_away_takes_up_what_it_has_missed(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """A server that is started again lets in users of an account that was pushed meanwhile, and comes to have the
    JWT that was renewed meanwhile."""
    operator = Operator()
    early, late = operator.account("early"), operator.account("late")
    with of_cluster.started(kinds, tmp_path, text=text_of(operator)) as cluster:
        first, *_, last = cluster.servers
        system = let_in(first, operator.system.user("s"))
        answers(system, "$SYS.REQ.CLAIMS.UPDATE", early.token(), len(kinds))
        last.stop()
        for one in (late, early):
            answers(system, "$SYS.REQ.CLAIMS.UPDATE", one.token(), len(kinds) - 1)
        renewed = kept(first, early)
        assert renewed not in ("", kept(last, early))
        last.start()
        assert let_in(last, late.user("u"))
        assert eventually(lambda: kept(last, early) == renewed, lambda: last.log[-3000:])
        assert eventually(lambda: kept(last, late) == kept(first, late))


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_a_cache_asks_the_servers_that_have_all(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The second server keeps what its clients ask for, and is told of changes of that."""
    operator = Operator()
    account = operator.account("A")
    user, revoked = account.user("u"), account.user("v")
    cached = text_of(operator)
    with of_cluster.started(kinds, tmp_path, text=cached) as cluster:
        first, last = cluster.servers
        system = let_in(first, operator.system.user("s"))
        file = last.directory / "server.conf"
        last.stop()
        file.write_text(file.read_text().replace("type: full", "type: cache").replace("allow_delete: true, ", ""))
        answers(system, "$SYS.REQ.CLAIMS.UPDATE", account.token(), 1)
        last.start()
        there = [let_in(last, one) for one in (user, revoked)]
        assert kept(last, account) == kept(first, account)
        account.nats["revocations"] = {revoked.key.public: issued()}
        push(system, account)
        assert "-ERR 'User Authentication Revoked'" in eventually(there[1].lines)
        assert reaches(let_in(first, user), there[0], "m")


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_what_is_pushed_in_one_cluster_holds_in_the_other(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The same over gateways; a cluster that was away takes up what it has missed."""
    operator = Operator()
    account, late = operator.account("A"), operator.account("late")
    user = account.user("u")
    with of_supercluster.started(kinds, tmp_path, text=text_of(operator, GATEWAY)) as found:
        asyncio.run(found.until_met())
        first, last = found.servers
        system = let_in(first, operator.system.user("s"))

        def pushed() -> bool:
            push(system, account)
            return kept(first, account) == kept(last, account)

        eventually(pushed, lambda: last.log[-3000:])
        peers = [let_in(server, user) for server in found.servers]
        assert reaches(peers[0], peers[1], "m")
        assert reaches(peers[1], peers[0], "n")
        last.stop()
        push(system, late)
        last.start()
        assert let_in(last, late.user("u"))
        assert kept(last, late) == kept(first, late) != ""


def test_a_stream_of_three_is_made_where_nobody_has_used_its_account(tmp_path: Path) -> None:
    """A client of it was at one server only: the others that are to keep the stream, and the one that leads all of
    them, look for the account."""
    operator = Operator()
    account = operator.account("A", disk_storage=-1, mem_storage=-1, streams=-1, consumer=-1)
    text = text_of(
        operator, CLUSTER.replace("cluster {", 'jetstream { store_dir: "{store}", meta_size: 3 }\ncluster {')
    )
    config = json.dumps({"name": "S", "subjects": ["s.>"], "num_replicas": 3, "storage": "file"})
    with of_cluster.started((L, L, L), tmp_path, text=text) as cluster:
        system = let_in(cluster.servers[0], operator.system.user("s"))
        answers(system, "$SYS.REQ.CLAIMS.UPDATE", account.token(), 3)
        for server in cluster.servers:
            assert account.public not in json.dumps(report(server, "accountz"))
        client = let_in(cluster.servers[-1], account.user("u"))

        def asked(subject: str, body: str = "") -> Any:
            return json.loads(client.answers(subject, body, seconds=60)[0])

        eventually(lambda: "error" not in asked("$JS.API.STREAM.CREATE.S", config), cluster.servers[0].log[-2000:])
        assert ["S"] == asked("$JS.API.STREAM.NAMES")["streams"]
        assert {"stream": "S", "seq": 1} == asked("s.x", "1")
        eventually(lambda: all(one["current"] for one in asked("$JS.API.STREAM.INFO.S")["cluster"]["replicas"]))
