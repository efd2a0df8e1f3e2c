"""Reloads of the worst kind: configurations that are broken in every way, many accounts, many reloads under traffic.

Whatever the file says, who is connected is served, and the daemon runs with all of one configuration or all of
another. Not here: what a good reload means for a connection (test_reload.py).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.rig.raw import CLOSED, RawClient
from tests.rig.reports import report
from tests.rig.waiting import eventually
from tests.servers import LEAFD, Server, running

pytestmark = pytest.mark.anew  # its memory is looked at

HEAD = 'listen: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{http_port}"\nserver_name: box\n'
ACCOUNTS = (
    "accounts {\n A { jetstream: enabled, users: [{user: a, password: a}] }\n"
    " B { users: [{user: b, password: b}] }\n}\n"
)
BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "a syntax error": (lambda text: text + "accounts {{", "server.conf:"),
    "half a file": (lambda text: text[: text.index("user: a") + 4], "server.conf:"),
    "an unknown key": (lambda text: text + "max_paylod: 5", "server.conf:9:1: unknown field 'max_paylod'"),
    "no such include": (lambda text: text + 'include "none.conf"', "none.conf: cannot be read"),
    "an include of a directory": (lambda text: text + 'include "store"', "store: cannot be read"),
    "a circle of includes": (lambda text: text + 'include "server.conf"', "server.conf"),
    "a key that takes a restart": (
        lambda text: text.replace("server_name: box", "server_name: other"),
        "server.conf:3:1: server_name has changed, which takes a restart",
    ),
    "another port": (lambda text: text + "leafnodes { port: 1 }", "leafnodes.port has changed, which takes a restart"),
    "no such credentials": (
        lambda text: text + 'leafnodes { remotes: [ { url: "nats://127.0.0.1:1", credentials: "none.creds" } ] }',
        "server.conf:9:24: credentials file none.creds cannot be read",
    ),
    "a certificate": (
        lambda text: text + 'tls { cert_file: "none.pem" }',
        "server.conf:9:7: cert_file: needs a key_file",
    ),
    "an account that is not there": (
        lambda text: text.replace("B {", "B { imports: [{stream: {account: C, subject: x}}], "),
        '"C" account not defined for stream import',
    ),
    "50 MB": (lambda text: text + "# nothing\n" * 5_000_000, "larger than 16 MiB"),
    "a thousand wrong lines": (
        lambda text: text + "\n".join(f"x{i}: 1" for i in range(1000)),
        "more errors like these",
    ),
    "no file": (lambda text: "", "server.conf: cannot be read"),
}


def heard(client: RawClient, *said: str) -> list[str]:
    """What comes before the answer to a PING behind these lines."""
    client.say(*said)
    return client.lines()


def memory(server: Server) -> int:
    assert server.process is not None
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reload(server: Server, text: str, said: str = "Reloaded server configuration", seconds: float = 60) -> str:
    """Has the text reloaded; what the log says of it."""
    file, seen = server.directory / "server.conf", len(server.log)
    fresh = server.directory / "fresh.conf"
    if text:
        fresh.write_text(text)
        fresh.rename(file)
    else:
        file.unlink()
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: said in server.log[seen:], lambda: server.log[seen:][-2000:], seconds=seconds)
    return server.log[seen:]


def test_a_broken_configuration_leaves_the_running_one_whole() -> None:
    """Whatever is wrong, one clear line says where, and clients, rights and limits are what they were."""
    text = HEAD + 'jetstream { store_dir: "{store}", max_file: 64M }\n' + ACCOUNTS
    with running(LEAFD, text) as server:
        good, before = server.configuration, report(server, "varz")
        a = RawClient(server, "a")
        assert [] == heard(a, "SUB x 1")
        for name, (damage, expected) in BROKEN.items():
            said = reload(server, damage(good), "Failed to reload server configuration")
            time.sleep(0.2)  # all lines of one failure
            said = said + server.log[-6000:]
            assert expected in said, (name, said)
            assert "Unexpected error" not in server.log, name
            assert ["MSG x 1 1", "y"] == heard(a, "PUB x 1\r\ny"), name
        after = report(server, "varz")
        assert 0 == after["leafd"]["unexpected_errors"]
        for name in ("config_load_time", "config_digest", "server_name"):
            assert before[name] == after[name]
        RawClient(server, "b").close()
        assert "Reloaded" in reload(server, good.replace("user: b, password: b", "user: b, password: new"))
        assert before["config_digest"] != report(server, "varz")["config_digest"]
        a.close()


def many(count: int, deny: str) -> str:
    accounts = []
    for i in range(count):
        imported = f"\n imports: [{{service: {{account: A{i - 1}, subject: s.{i - 1}}}}}]" if i else ""
        user = f"{{user: u{i}, password: u{i}, permissions: {{publish: {{deny: [{deny}]}}}}}}"
        accounts.append(f" A{i} {{ jetstream: enabled, users: [{user}]\n exports: [{{service: s.{i}}}]{imported} }}\n")
    return HEAD + 'jetstream { store_dir: "{store}", max_file: 64M }\naccounts {\n' + "".join(accounts) + "}\n"


def test_two_thousand_accounts_hold_nobody_up() -> None:
    """A reload that changes each of 2,000 accounts is many short turns, and meanwhile clients log in and are served."""
    with running(LEAFD, many(2000, "x")) as server:
        old = RawClient(server, "u7")
        stop, waits = threading.Event(), []

        def log_in() -> None:
            while not stop.is_set():
                began = time.monotonic()
                RawClient(server, "u8").close()
                waits.append(time.monotonic() - began)

        logins = threading.Thread(target=log_in)
        logins.start()
        try:
            for deny in ("y", "z"):
                reload(server, server.configuration.replace("deny: [x]", f"deny: [{deny}]"))
                refused = [f"-ERR 'Permissions Violation for Publish to \"{deny}\"'"]
                assert refused == heard(old, f"PUB {deny} 0\r\n", "PUB x 0\r\n")
        finally:
            stop.set()
            logins.join()
        own = report(server, "varz")["leafd"]
        assert 0 == own["unexpected_errors"], own
        # The wall's clock is the machine's business, which runs other tests beside this one.
        assert own["longest_turn_cpu_ms"] < 50, own
        assert len(waits) > 10
        old.close()


def test_a_hundred_reloads_under_traffic_lose_nothing() -> None:
    """While 100 reloads change limits, rights and imports of the accounts in use, everybody stays connected, each
    message that is acknowledged is stored, no request finds nobody, and memory does not grow."""
    text = HEAD + 'jetstream { store_dir: "{store}", max_file: 64M }\n' + ACCOUNTS
    with running(LEAFD, text) as server:
        idle = [RawClient(server, "b") for _ in range(200)]
        publisher = RawClient(server, "a")
        publisher.must("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        stop, counts = threading.Event(), {"s.x": 0, "$JS.API.INFO": 0}

        def publish() -> None:
            while not stop.is_set():
                for subject in counts:
                    publisher.must(subject)
                    counts[subject] += 1

        def changed(number: int) -> str:
            rights = f"permissions: {{subscribe: {{deny: [x{number}]}}}}"
            share = (
                f"limits {{max_conn: {1000 + number}}}\n imports: [{{service: {{account: C, subject: svc{number}}}}}]"
            )
            new = f" C {{ users: [{{user: c, password: c}}]\n exports: [{{service: svc{number}}}] }}\n"
            found = server.configuration.replace("password: b", f"password: b, {rights}")
            return found.replace(" A {", f"{new} A {{ {share}\n")

        traffic = threading.Thread(target=publish)
        traffic.start()
        try:
            sizes = []
            for number in range(100):
                reload(server, changed(number))
                if number in (20, 99):
                    sizes.append(memory(server))
        finally:
            stop.set()
            traffic.join()
        assert [[]] * 200 == [one.lines() for one in idle]
        assert counts["s.x"] == publisher.must("$JS.API.STREAM.INFO.S")["state"]["messages"] > 10
        assert min(counts.values()) > 10, counts
        assert sizes[1] - sizes[0] < 8 << 20, sizes
        assert 0 == report(server, "varz")["leafd"]["unexpected_errors"]
        for one in (*idle, publisher):
            one.close()


def test_remotes_come_and_go_while_linked() -> None:
    """A hub that is added by a reload is dialled, one that is taken out loses its link, and one that stays keeps it."""
    hub_text = (
        'listen: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{http_port}"\nleafnodes { listen: "127.0.0.1:{leaf_port}" }\n'
    )
    with running(LEAFD, hub_text) as one, running(LEAFD, hub_text) as two, running(LEAFD, HEAD) as leaf:

        def remotes(*hubs: Server) -> str:
            urls = ", ".join(f'{{url: "nats-leaf://127.0.0.1:{hub.ports["leaf_port"]}"}}' for hub in hubs)
            return leaf.configuration + f"leafnodes {{ remotes: [{urls}] }}\n"

        def linked(first: int, second: int) -> None:
            eventually(
                lambda: (report(one, "varz")["leafnodes"], report(two, "varz")["leafnodes"]) == (first, second),
                lambda: leaf.log[-2000:],
            )

        reload(leaf, remotes(one))
        linked(1, 0)
        reload(leaf, remotes(one, two))
        linked(1, 1)
        reload(leaf, remotes(two))
        linked(0, 1)
        reload(leaf, leaf.configuration)
        linked(0, 0)
        assert 1 == two.log.count("Leafnode connection created")


def test_a_second_reload_is_taken_after_the_first() -> None:
    """What the file says at the last SIGHUP holds, however close one comes behind the other."""
    with running(LEAFD, HEAD + ACCOUNTS) as server:
        assert server.process is not None
        file = server.directory / "server.conf"
        for size in range(1000, 1020):
            fresh = server.directory / "fresh.conf"
            fresh.write_text(server.configuration + f"max_payload: {size}\n")
            fresh.rename(file)
            server.process.send_signal(signal.SIGHUP)
        eventually(lambda: report(server, "varz")["max_payload"] == 1019, lambda: server.log[-1000:])


def test_an_account_that_is_taken_out_and_comes_back_has_its_streams() -> None:
    """Without its account a stream is served to nobody and loses nothing; its clients and leaf links end at once."""
    gone = " G { jetstream: enabled, users: [{user: g, password: g}] }\n"
    text = HEAD + 'jetstream { store_dir: "{store}", max_file: 64M }\nleafnodes { listen: "127.0.0.1:{leaf_port}" }\n'
    with running(LEAFD, text + ACCOUNTS.replace(" B {", gone + " B {")) as server:
        leaf_text = (
            'listen: "127.0.0.1:{port}"\nleafnodes { remotes: [ { url: "nats-leaf://g:g@127.0.0.1:{hub}" } ] }\n'
        )
        with running(LEAFD, leaf_text, hub=server.ports["leaf_port"]):
            eventually(lambda: report(server, "varz")["leafnodes"] == 1)
            g, b = RawClient(server, "g"), RawClient(server, "b")
            g.must("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
            g.must("s.x")
            reload(server, server.configuration.replace(gone, ""))
            assert CLOSED in g.lines()
            assert [] == b.lines()
            eventually(lambda: report(server, "varz")["leafnodes"] == 0)
            reload(server, server.configuration)
            eventually(lambda: report(server, "varz")["leafnodes"] == 1)
            again = RawClient(server, "g")
            assert 2 == again.must("s.x")["seq"]
            assert 0 == report(server, "varz")["leafd"]["unexpected_errors"]
            for one in (g, b, again):
                one.close()
