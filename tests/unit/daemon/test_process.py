"""The daemon as a process: how it starts, answers, reloads, refuses to start, and ends. Expected texts are the
reference server's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from leafd.auth.nkeys import sign

from tests.rig.raw import CLOSED, Connection, RawClient
from tests.rig.template import Process
from tests.rig.waiting import eventually
from tests.servers import LEAFD, Server, free_port, running

SEED = "SUAIWGCODIHYRJ4YY35OF6EPHWXAJV3MDW5XX24RXB6D6YDVDBCCFJPAFM"
PUBLIC = "UDGTQSMYSM5O2QAQFIBPJFEQFJBUUFAEZ5AZ6SLKAXT6FWA4FB2YJDPP"
ACCOUNTS = """
listen: 127.0.0.1:{port}
server_name: box
http: 127.0.0.1:{http_port}
jetstream {{ store_dir: {store}, domain: edge, max_file_store: 64MB, max_memory_store: 16MB }}
accounts {{
  S {{ users: [ {{user: s, password: s}} ] }}
  A {{ users: [ {{user: a, password: a}}, {{user: b, password: b}} ], jetstream: enabled }}
}}
system_account: S
""".replace("{{", "{").replace("}}", "}")


def login(wire: Connection, **says: Any) -> None:
    """CONNECT and PING."""
    wire.connect(**says)
    wire.say("PING")


def get(server: Server, path: str) -> Any:
    """One monitoring report."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}{path}", timeout=10) as answer:
        return json.load(answer)


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for something that another process does."""
    eventually(condition, f"waited for {what}")


def process(server: Server) -> Process:
    assert server.process is not None
    return server.process


# ---- greeting and login


def test_first_info_and_second() -> None:
    """INFO has the fields clients look for; the account is told in a second one, behind the first PONG and not
    before."""
    with running(LEAFD, ACCOUNTS) as server, Connection(server) as wire:
        info = wire.info()
        assert ("box", "2.15.1", 1, True, True, "edge", 5, 1048576, True) == tuple(
            info[name]
            for name in (
                "server_name", "version", "proto", "headers", "jetstream", "domain", "api_lvl", "max_payload",
                "auth_required",
            )
        )  # fmt: skip
        assert (56, "127.0.0.1", server.port) == (len(info["server_id"]), info["client_ip"], info["port"])
        assert "nonce" not in info
        login(wire, user="a", **{"pass": "a"})
        assert "PONG" == wire.line()
        second = wire.info()
        assert (True, "A") == (second["connect_info"], second["remote_account"])
        assert "acc_is_sys" not in second
        with Connection(server) as system:
            system.info()
            login(system, user="s", **{"pass": "s"})
            system.line()
            assert system.info()["acc_is_sys"] is True


def test_wrong_login() -> None:
    """A wrong password ends with the reference's text, and so does a first line that is no CONNECT."""
    with running(LEAFD, ACCOUNTS) as server:
        with Connection(server) as wire:
            wire.info()
            login(wire, user="a", **{"pass": "x"})
            assert ["-ERR 'Authorization Violation'", CLOSED] == wire.ending()
        with Connection(server) as wire:
            wire.info()
            wire.say("PING")
            assert ["-ERR 'Authorization Violation'", CLOSED] == wire.ending()
        with Connection(server) as wire:
            wire.info()
            wire.say("CONNECT {nonsense")
            assert [CLOSED] == wire.ending()


def test_silent_client() -> None:
    """Somebody who does not log in in time is sent away."""
    text = "listen: 127.0.0.1:{port}\nauthorization { user: u, password: p, timeout: 0.2 }"
    with running(LEAFD, text) as server, Connection(server) as wire:
        wire.info()
        assert ["-ERR 'Authentication Timeout'", CLOSED] == wire.ending()


def test_silent_leaf() -> None:
    """The leaf listener has the same patience, with a setting of its own."""
    text = (
        "listen: 127.0.0.1:{port}\nleafnodes { listen: 127.0.0.1:{leaf_port}, "
        "authorization { user: l, password: l, timeout: 0.2 } }"
    )
    with running(LEAFD, text) as server:
        wire = Connection(server.ports["leaf_port"])
        assert 15 == len(wire.info()["nonce"])
        assert ["-ERR 'Authentication Timeout'", CLOSED] == wire.ending()
        wire.close()


def test_half_a_character() -> None:
    """Half a surrogate pair in a login is a wrong login, and nobody else notices."""
    with running(LEAFD, ACCOUNTS) as server:
        for options in (
            {"user": "a", "pass": "\ud800"},
            {"user": "\ud800"},
            {"user": "a", "pass": "a", "name": "\udfff"},
        ):
            with Connection(server) as wire:
                wire.info()
                login(wire, **options)
                assert ("PONG" if "name" in options else "-ERR 'Authorization Violation'") == wire.line()
                assert get(server, "/connz")["total"] == int("name" in options)


def test_nobody_introduced_himself() -> None:
    """Without users a client may begin with any command; verbose stays on for him, as in the reference."""
    with running(LEAFD, "listen: 127.0.0.1:{port}") as server, Connection(server) as wire:
        assert "auth_required" not in wire.info()
        wire.say("SUB foo 1", "PING")
        assert ["+OK", "PONG"] == [wire.line(), wire.line()]


def test_nkey_login() -> None:
    """An nkey user signs the nonce of INFO."""
    text = f"listen: 127.0.0.1:{{port}}\naccounts {{ A {{ users: [ {{nkey: {PUBLIC}}} ] }} }}"
    with running(LEAFD, text) as server:
        with Connection(server) as wire:
            nonce = wire.info()["nonce"]
            assert 15 == len(nonce)
            login(wire, nkey=PUBLIC, sig=sign(SEED, nonce)[1])
            assert "PONG" == wire.line()
            assert "A" == wire.info()["remote_account"]
        with Connection(server) as wire:
            wire.info()
            login(wire, nkey=PUBLIC, sig=sign(SEED, nonce)[1])
            assert "-ERR 'Authorization Violation'" == wire.line()


def test_bcrypt_login() -> None:
    """A hashed password is checked while other clients are served."""
    import bcrypt

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(5)).decode()
    text = f"listen: 127.0.0.1:{{port}}\nauthorization {{ user: u, password: {hashed} }}"
    with running(LEAFD, text) as server:
        for password, answer in (("secret", "PONG"), ("wrong", "-ERR 'Authorization Violation'")):
            with Connection(server) as wire:
                wire.info()
                login(wire, user="u", **{"pass": password})
                assert answer == wire.line()


def test_account_connection_limit() -> None:
    """An account's max_connections is kept; a place that becomes free can be taken again."""
    text = "listen: 127.0.0.1:{port}\naccounts { A { users: [ {user: a, password: a} ], limits { max_conn: 1 } } }"
    with running(LEAFD, text) as server:
        with Connection(server) as first:
            first.info()
            login(first, user="a", **{"pass": "a"})
            assert "PONG" == first.line()
            with Connection(server) as second:
                second.info()
                login(second, user="a", **{"pass": "a"})
                assert "-ERR 'maximum account active connections exceeded'" == second.line()

        def admitted() -> bool:
            with Connection(server) as third:
                third.info()
                login(third, user="a", **{"pass": "a"})
                return third.line() == "PONG"

        until(admitted, "the free place")


# ---- monitoring


def test_monitoring() -> None:
    """The monitoring port answers with the reference's fields, and an unknown path with 404."""
    with running(LEAFD, ACCOUNTS) as server, Connection(server) as wire:
        wire.info()
        login(wire, user="a", name="me", lang="test", **{"pass": "a"})
        wire.line()
        assert {"status": "ok"} == get(server, "/healthz")
        varz = get(server, "/varz")
        assert ("box", "S", 1, 0) == tuple(
            varz[name] for name in ("server_name", "system_account", "connections", "leafnodes")
        )
        assert "edge" == varz["jetstream"]["config"]["domain"]
        connz = get(server, "/connz?auth=1")
        assert [("me", "a", "A")] == [(c["name"], c["authorized_user"], c["account"]) for c in connz["connections"]]
        assert (0, []) == (get(server, "/leafz")["leafnodes"], get(server, "/leafz")["leafs"])
        assert ["A"] == [one["name"] for one in get(server, "/jsz?accounts=1")["account_details"]]
        assert {"$G", "S", "A"} == set(get(server, "/accountz")["accounts"])
        assert get(server, "/accountz?acc=A")["account_detail"]["jetstream_enabled"] is True
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server, "/nothing")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server, "/healthz?account=nope")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            get(server, "/connz?limit=x")
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/", timeout=10) as page:
            assert "<h1>box</h1>" in page.read().decode()


def request(server: Server, user: str, subject: str, body: str = "") -> dict[str, Any]:
    """The JSON that answers one request; of a 503 {}."""
    with RawClient(server, user, says={"no_responders": True}) as one:
        return one.ask(subject, body)


def test_system_services() -> None:
    """$SYS requests are answered in the system account in the reference's envelopes, and in no other account."""
    with running(LEAFD, ACCOUNTS) as server:
        ping = request(server, "s", "$SYS.REQ.SERVER.PING")
        assert ("box", "edge", True) == tuple(ping["server"][name] for name in ("name", "domain", "jetstream"))
        assert {"cpu", "mem", "start", "connections", "jetstream"} <= set(ping["statsz"])
        identity = request(server, "s", "$SYS.REQ.SERVER.PING.IDZ")
        assert {"name": "box", "host": "127.0.0.1", "id": ping["server"]["id"]} == identity
        own = request(server, "s", f"$SYS.REQ.SERVER.{ping['server']['id']}.VARZ")
        assert "box" == own["data"]["server_name"]
        health = request(server, "s", "$SYS.REQ.SERVER.PING.HEALTHZ", '{"details":true}')
        assert {"status": "ok", "status_code": 200} == health["data"]
        wrong = request(server, "s", "$SYS.REQ.SERVER.PING.VARZ", "{bad")
        assert 400 == wrong["error"]["code"]
        missing = request(server, "s", "$SYS.REQ.ACCOUNT.NOPE.INFO")
        assert {"code": 500, "description": "Account NOPE does not exist"} == missing["error"]
        user = request(server, "a", "$SYS.REQ.USER.INFO")
        assert {"user": "a", "account": "A", "account_name": "A"} == user["data"]
        assert {} == request(server, "a", "$SYS.REQ.SERVER.PING.VARZ")


def test_jetstream_of_accounts_without() -> None:
    """They are told that they have none, under the plain and the domain's subjects, as by the reference."""
    text = ACCOUNTS.replace("  S {", "  B { users: [ {user: n, password: n} ] }\n  S {")
    with running(LEAFD, text) as server:
        for user in ("n", "s"):
            for subject in ("$JS.API.INFO", "$JS.edge.API.INFO"):
                answer = request(server, user, subject)
                assert (503, 10039) == (answer["error"]["code"], answer["error"]["err_code"])
        names = request(server, "n", "$JS.API.STREAM.NAMES")
        assert 10039 == names["error"]["err_code"]


# ---- signals


def test_ends_at_once() -> None:
    """SIGTERM and SIGINT end it with status 0, clients or not, in 20 ms where the machine is idle."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with running(LEAFD, ACCOUNTS) as server, Connection(server) as wire:
            wire.info()
            login(wire, user="a", **{"pass": "a"})
            wire.line()
            began = time.monotonic()
            process(server).send_signal(number)
            assert 0 == process(server).wait(10)
            assert time.monotonic() - began < 5.0
            assert "Server Exiting.." in server.log


def rewrite(server: Server, old: str, new: str) -> None:
    """Changes the configuration file and has it reloaded, or refused."""
    file = server.directory / "server.conf"
    text = file.read_text()
    assert old in text

    def ended() -> int:
        # (A turn of a reload that takes long, as on a busy machine, has a line of its own, which names reload.py.)
        return server.log.count("Reloaded server configuration") + server.log.count("Failed to reload server")

    seen = ended()
    file.write_text(text.replace(old, new))
    process(server).send_signal(signal.SIGHUP)
    until(lambda: ended() > seen, "the reload")


def test_reload_of_users() -> None:
    """A user who is gone is sent away, one who stayed is not, a new one may come."""
    with running(LEAFD, ACCOUNTS) as server, Connection(server) as stays, Connection(server) as goes:
        for wire, user in ((stays, "a"), (goes, "b")):
            wire.info()
            login(wire, user=user, **{"pass": user})
            assert "PONG" == wire.line()
            wire.info()
        rewrite(server, "{user: b, password: b}", "{user: c, password: c}")
        assert [CLOSED] == goes.ending()
        stays.say("PING")
        assert "PONG" == stays.line()
        with Connection(server) as comes:
            comes.info()
            login(comes, user="c", **{"pass": "c"})
            assert "PONG" == comes.line()


def test_reload_of_accounts() -> None:
    """An account that is gone takes its clients along; a new one has JetStream at once."""
    with running(LEAFD, ACCOUNTS) as server, Connection(server) as goes:
        goes.info()
        login(goes, user="a", **{"pass": "a"})
        assert "PONG" == goes.line()
        goes.info()
        rewrite(server, "  A { users", "  N { users")
        assert [CLOSED] == goes.ending()
        answer = request(server, "a", "$JS.API.INFO")
        assert isinstance(answer, dict)
        assert "edge" == answer["domain"]
        assert {"$G", "S", "N"} == set(get(server, "/accountz")["accounts"])


SHARING = """
listen: "127.0.0.1:{port}"
accounts {
  E { users: [{user: e, password: e}], exports: [{service: svc}, {stream: "str.>"}] }
  I { users: [{user: i, password: i}], imports: [{service: {account: E, subject: svc}}] }
}
"""


def test_reload_of_imports() -> None:
    """Imports change under clients that stay; what is new reaches subscriptions that were there before."""
    with running(LEAFD, SHARING) as server, Connection(server) as exporter, Connection(server) as importer:
        for wire, user in ((exporter, "e"), (importer, "i")):
            wire.info()
            login(wire, user=user, no_responders=True, **{"pass": user})
            assert "PONG" == wire.line()
            wire.info()
        exporter.say("SUB svc 1", "PING")
        importer.say("SUB > 1", "PUB svc 1", "a", "PING")
        assert "PONG" == exporter.line()
        assert ["MSG svc 1 1", "a", "PONG"] == [importer.line() for _ in range(3)]
        assert exporter.line().startswith("HMSG svc 1 ")
        heard = [exporter.line() for _ in range(4)]
        assert ("NATS/1.0", "a") == (heard[0], heard[3])
        rewrite(server, "{service: {account: E, subject: svc}}", '{stream: {account: E, subject: "str.>"}, prefix: p}')
        importer.say("PUB svc 1", "b", "PING")
        assert ["MSG svc 1 1", "b", "PONG"] == [importer.line() for _ in range(3)]
        exporter.say("PUB str.x 1", "c", "PING")
        assert "PONG" == exporter.line()
        assert ["MSG p.str.x 1 1", "c"] == [importer.line() for _ in range(2)]
        rewrite(server, '{account: E, subject: "str.>"}', "{account: E, subject: other}")
        assert "stream import not authorized" in server.log
        exporter.say("PUB str.x 1", "d", "PING")
        assert "PONG" == exporter.line()
        assert ["MSG p.str.x 1 1", "d"] == [importer.line() for _ in range(2)]


def test_reload_of_limits() -> None:
    """Live keys take effect; a file that is wrong, or changes what takes a restart, changes nothing and says so."""
    with running(LEAFD, ACCOUNTS) as server:
        rewrite(server, "server_name: box", "server_name: box\nmax_payload: 100")
        with Connection(server) as wire:
            assert 100 == wire.info()["max_payload"]
        rewrite(server, "server_name: box", "server_name: other")
        until(lambda: "server_name has changed, which takes a restart" in server.log, "the refusal")
        rewrite(server, "max_payload: 100", "max_paylod: 200")
        assert "unknown field 'max_paylod': did you mean 'max_payload'?" in server.log
        with Connection(server) as wire:
            info = wire.info()
            assert (100, "box") == (info["max_payload"], info["server_name"])


def test_log_is_reopened() -> None:
    """After the file was moved away, SIGUSR1 begins a new one."""
    text = "listen: 127.0.0.1:{port}\nlog_file: {directory}/own.log"
    with running(LEAFD, text) as server:
        log = server.directory / "own.log"
        until(lambda: "Server is ready" in log.read_text(), "the start")
        log.rename(server.directory / "old.log")
        process(server).send_signal(signal.SIGUSR1)
        until(lambda: log.exists() and "re-opened" in log.read_text(), "the new file")


def test_lame_duck() -> None:
    """SIGUSR2 tells the clients, takes no new ones, sends them away after the grace period, and ends."""
    text = ACCOUNTS + 'lame_duck_grace_period: "200ms"\nlame_duck_duration: "30s"'
    with running(LEAFD, text) as server, Connection(server) as wire:
        wire.info()
        login(wire, user="a", **{"pass": "a"})
        wire.line()
        wire.info()
        process(server).send_signal(signal.SIGUSR2)
        assert wire.info()["ldm"] is True
        assert [CLOSED] == wire.ending()
        with pytest.raises(OSError, match="refused"):
            Connection(server)
        assert 0 == process(server).wait(10)


def test_pid_and_ports_files() -> None:
    """They are there while it runs, and gone behind it."""
    text = ACCOUNTS + "pid_file: {directory}/pid\nports_file_dir: {directory}"
    with running(LEAFD, text) as server:
        pid, ports = server.directory / "pid", server.directory / f"nats-server_{process(server).pid}.ports"
        until(ports.exists, "the ports file")
        assert str(process(server).pid) == pid.read_text()
        assert [f"nats://127.0.0.1:{server.port}"] == json.loads(ports.read_text())["nats"]
        server.stop()
        assert (False, False) == (pid.exists(), ports.exists())


# ---- systemd


def test_notify(tmp_path: Path) -> None:
    """systemd hears READY when clients may come, signs of life, RELOADING around a reload, and STOPPING."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(10)
        port = free_port()
        env = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with subprocess.Popen(
            [sys.executable, "-m", "leafd", "-a", "127.0.0.1", "-p", str(port)], env=env, stderr=subprocess.DEVNULL
        ) as daemon:
            try:

                def hear(wanted: str) -> str:
                    while True:
                        text = heard.recv(4096).decode()
                        if wanted in text:
                            return text

                assert "STATUS=" in hear("READY=1")
                Connection(port).close()
                hear("WATCHDOG=1")
                hear("WATCHDOG=1")
                daemon.send_signal(signal.SIGHUP)
                assert "MONOTONIC_USEC=" in hear("RELOADING=1")
                hear("READY=1")
                daemon.terminate()
                hear("STOPPING=1")
            finally:
                daemon.terminate()
                daemon.wait(10)


# ---- what keeps it from starting


def failing(*words: str, **env: str) -> tuple[int, list[str]]:
    """Exit status and log lines of a start that must fail, without times."""
    done = subprocess.run(
        [sys.executable, "-m", "leafd", "-a", "127.0.0.1", "-T=false", *words],
        capture_output=True,
        text=True,
        timeout=20,
        env=os.environ | env,
    )
    lines = [line.partition("] ")[2] for line in done.stderr.splitlines() if "[INF]" not in line]
    return done.returncode, lines


def test_port_in_use() -> None:
    """One line says which, and what to do."""
    with running(LEAFD, "listen: 127.0.0.1:{port}") as server:
        text = (
            f"[FTL] client connections: cannot listen on 127.0.0.1:{server.port}: "
            "the port is in use: stop the other process or choose another port"
        )
        assert (1, [text]) == failing("-p", str(server.port))


def test_store_in_use() -> None:
    """A second daemon leaves the store alone and names the first."""
    with running(LEAFD, ACCOUNTS) as server:
        code, lines = failing("-p", "-1", "-js", "-sd", str(server.directory / "store"))
        assert (1, 1) == (code, len(lines))
        assert f"in use by process {process(server).pid}" in lines[0]
        assert {"status": "ok"} == get(server, "/healthz")


def test_store_not_writable() -> None:
    """One line with the directory and the reason."""
    code, lines = failing("-p", "-1", "-js", "-sd", "/proc/leafd")
    assert (1, 1) == (code, len(lines))
    assert "store directory /proc/leafd/jetstream cannot be written" in lines[0]


def test_foreign_address() -> None:
    """An address of another machine is called that."""
    code, lines = failing("-p", "-1", "-a", "192.0.2.1", "--user", "a", "--pass", "b")
    assert (1, 1) == (code, len(lines))
    assert "does not belong to this machine" in lines[0]


def test_wrong_configuration_under_systemd(tmp_path: Path) -> None:
    """A shell sees 1, as from nats-server; systemd sees 78, which its unit does not retry."""
    bad = tmp_path / "bad.conf"
    bad.write_text("prt: 1")
    command = [sys.executable, "-m", "leafd", "-c", str(bad)]
    plain = {name: value for name, value in os.environ.items() if name not in ("INVOCATION_ID", "NOTIFY_SOCKET")}
    assert 1 == subprocess.run(command, capture_output=True, env=plain, timeout=20).returncode
    systemd = plain | {"INVOCATION_ID": "x", "NOTIFY_SOCKET": str(tmp_path / "n")}
    assert 78 == subprocess.run(command, capture_output=True, env=systemd, timeout=20).returncode


def test_missing_credentials(tmp_path: Path) -> None:
    """A remote whose credentials file is not there is told before anything is opened."""
    path = tmp_path / "c.conf"
    path.write_text(f"leafnodes {{ remotes: [ {{url: 'nats://127.0.0.1:1', credentials: '{tmp_path}/no.creds'}} ] }}")
    code, lines = failing("-p", "-1", "-c", str(path))
    assert (1, 1) == (code, len(lines))
    assert f"credentials file {tmp_path}/no.creds cannot be read" in lines[0]


def test_signal_command() -> None:
    """leafd --signal finds the process by its pid file."""
    with running(LEAFD, ACCOUNTS + "pid_file: {directory}/pid") as server:
        pid = server.directory / "pid"
        until(pid.exists, "the pid file")
        done = subprocess.run(
            [sys.executable, "-m", "leafd", "--signal", f"term={pid}"], capture_output=True, timeout=20
        )
        assert (0, 0) == (done.returncode, process(server).wait(10))
        done = subprocess.run(
            [sys.executable, "-m", "leafd", "--signal", f"term={pid}"], capture_output=True, timeout=20
        )
        assert 1 == done.returncode
        assert b"neither a process id nor a readable pid file" in done.stderr
