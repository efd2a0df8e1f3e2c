"""Many accounts, and many strangers, of an operator: nobody waits for them.

Turns are measured in processor time, which other programs on the machine do not change; leafd alone tells them. Not
here: that it is right what happens (test_operator.py, test_resolver.py).
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jwt_peer import HEAD, VIOLATION, Peer, close_all
from tests.jwts import Account, Operator
from tests.rig.stopwatch import Stopwatch
from tests.servers import LEAFD, Server, running

ACCOUNTS = 300
CLIENTS = 200
TURN_MAX_MS = 10.0
"""Twice what a turn may take: a processor whose other half is busy needs twice the CPU time for the same work."""


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


@contextlib.contextmanager
def large(operator: Operator, accounts: list[Account], directory: Path) -> Iterator[Server]:
    """A server whose full resolver has these accounts."""
    (directory / "jwt").mkdir()
    for one in (operator.system, *accounts):
        (directory / "jwt" / f"{one.public}.jwt").write_text(one.token())
    configuration = (
        HEAD + 'http: "127.0.0.1:{http_port}"\n'
        f"operator: {operator.token()}\nsystem_account: {operator.system.public}\n"
        f'resolver: {{ type: full, dir: "{directory}/jwt" }}\n'
    )
    with running(LEAFD, configuration) as server:
        yield server


def admitted(server: Server, account: Account) -> Peer:
    """A client of an account, logged in."""
    peer = Peer(server, account.user("u"))
    assert [] == peer.lines()
    return peer


def longest_turn_ms(server: Server) -> tuple[float, Any]:
    url = f"http://127.0.0.1:{server.ports['http_port']}/varz"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found = json.load(answer)["leafd"]
    return found["longest_turn_cpu_ms"], found["longest_turn_place"]


def test_a_new_jwt_among_many_accounts_holds_nobody(tmp_path: Path) -> None:
    """With hundreds of accounts that import of each other, and clients in each, an update is a matter of short turns,
    and those whom it is not about notice nothing."""
    operator = Operator()
    accounts = [operator.account(f"A{number}") for number in range(ACCOUNTS)]
    for one, before in zip(accounts[1:], accounts, strict=False):
        one.imported(before.export("svc.>"), "svc.a", local_subject="theirs.a")
    with large(operator, accounts, tmp_path) as server:
        system = Peer(server, operator.system.user("s"))
        clients = [Peer(server, accounts[number % ACCOUNTS].user("u")) for number in range(CLIENTS)]
        assert [] == [line for client in clients for line in client.lines()]
        crowd = accounts[-1]
        more = [admitted(server, crowd) for _ in range(CLIENTS)]
        for number in range(3):
            crowd.nats["mappings"] = {f"m{number}": [{"subject": "n"}]}
            crowd.nats["default_permissions"] = {"pub": {"deny": [f"x.{number}"]}}
            assert b'"jwt updated"' in system.answers("$SYS.REQ.CLAIMS.UPDATE", crowd.token(), seconds=20)[0]
        more[0].say("PUB x.2 0\r\n")
        assert "Permissions Violation" in more[0].lines()[0]
        assert all(client.lines() == [] for client in clients)
        turn_ms, place = longest_turn_ms(server)
        assert turn_ms < TURN_MAX_MS, place


def test_strangers_with_jwts_keep_nobody_out(tmp_path: Path) -> None:
    """Whoever comes with JWTs of accounts that do not exist, as fast as it goes, waits behind himself: a user logs in
    meanwhile, and no turn is long."""
    operator = Operator()
    account = operator.account("A")
    strangers = [Operator("X").account("XA").user("x") for _ in range(30)]
    over = threading.Event()
    refused = [0]

    def storm(server: Server) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError, EOFError):
                peer = Peer(server, random.choice(strangers))
                refused[0] += peer.lines() == [VIOLATION, "closed"]
                peer.socket.close()

    with large(operator, [account], tmp_path) as server:
        threads = [threading.Thread(target=storm, args=(server,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        try:
            user, took = account.user("u"), []
            end = time.monotonic() + 4
            while time.monotonic() < end:
                watch = Stopwatch(server)
                peer = Peer(server, user)
                assert [] == peer.lines()
                took.append(watch.seconds())
                peer.socket.close()
        finally:
            over.set()
            for thread in threads:
                thread.join(30)
        assert refused[0] > 20  # (it was 42 on a full machine)
        assert max(took) < 2, max(took)
        turn_ms, place = longest_turn_ms(server)
        assert turn_ms < TURN_MAX_MS, place
