"""Secrets stay in the memory of the daemon: passwords, tokens, seeds, keys of the store. Whatever is logged in with and
goes wrong, they are in no line of the log at its most talkative, no report, no answer, no trace and no core dump.

What complaints about a configuration repeat is in tests/unit/config/test_secrets.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from leafd.auth.nkeys import PREFIX_USER, new_seed, sign

from tests import servers
from tests.jwts import Operator
from tests.rig.reloads import REFUSED, reloaded

SEED, FILED = new_seed(PREFIX_USER), new_seed(PREFIX_USER)
WORDS = {
    name: f"Wh1sper{name}"
    for name in (
        "Plain", "Wrong", "Token", "System", "Leaf", "Stranger", "Store", "Odd", "Upper", "Escaped", "Cookie", "Url",
    )
}  # fmt: skip
CREDENTIALS = Operator("O").account("A").user("u")
SECRETS = (*WORDS.values(), SEED, FILED, CREDENTIALS.key.seed, CREDENTIALS.token)
CONFIGURATION = f"""
listen: "127.0.0.1:{{port}}"
server_name: box
http: "127.0.0.1:{{http_port}}"
debug: true
trace: true
jetstream {{ store_dir: "{{store}}", cipher: aes, key: {WORDS["Store"]} }}
accounts {{
  A {{ jetstream: enabled
      users: [{{user: a, password: {WORDS["Plain"]}}}, {{nkey: {sign(SEED, "n")[0]}}}] }}
  SYS {{ users: [{{user: sys, password: {WORDS["System"]}}}] }}
}}
system_account: SYS
websocket {{ listen: "127.0.0.1:{{web_port}}", no_tls: true, user_cookie: u, pass_cookie: p }}
leafnodes {{
  listen: "127.0.0.1:{{leaf_port}}"
  authorization {{ user: leaf, password: {WORDS["Leaf"]}, account: A }}
  reconnect: 1
  remotes: [
    {{ url: "nats://far:{WORDS["Url"]}@127.0.0.1:{{leaf_port}}", account: A }}
    {{ url: "nats://far:{WORDS["Url"]}@127.0.0.1:1", account: A }}
    {{ url: "nats://127.0.0.1:{{leaf_port}}", account: A, nkey: "{{seed}}" }}
    {{ url: "nats://127.0.0.1:{{leaf_port}}", account: SYS, credentials: "{{creds}}" }}
  ]
}}
"""
REPORTS = (
    "varz", "connz?auth=1&subs=detail&state=all", "leafz?subs=1", "accountz?acc=A", "accstatz?unused=1",
    "subsz?subs=1", "jsz?accounts=1&streams=1&consumers=1&config=1", "healthz", "routez", "gatewayz", "",
)  # fmt: skip
REQUESTS = (
    "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.PING.LEAFZ", "$SYS.REQ.SERVER.PING.JSZ",
    "$SYS.REQ.SERVER.PING.SUBSZ", "$SYS.REQ.SERVER.PING.ACCOUNTZ", "$SYS.REQ.ACCOUNT.A.INFO", "$SYS.REQ.USER.INFO",
    "$SYS.REQ.ACCOUNT.A.CONNZ", "$SYS.REQ.SERVER.PING.STATSZ",
)  # fmt: skip


@contextlib.contextmanager
def box(folder: Path) -> Iterator[servers.Server]:
    """A daemon with secrets of every kind, which may write a core dump as far as its limits go."""
    seed, creds = folder / "seed", folder / "creds"
    seed.write_text(FILED)
    CREDENTIALS.creds(creds)
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        with servers.running(servers.LEAFD, CONFIGURATION, seed=seed, creds=creds) as server:
            yield server
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)


def said(port: int, *lines: bytes, until: bytes = b"PONG\r\n") -> bytes:
    """What comes back until that, the end, or a while is over."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), 5) as sock, contextlib.suppress(OSError):
        sock.settimeout(5)
        sock.sendall(b"".join(lines))
        while until not in found and (part := sock.recv(65536)):
            found += part
    return found


def connect(verb: str = "CONNECT", **fields: object) -> bytes:
    return f"{verb} {json.dumps(fields)}\r\nPING\r\n".encode()


def logins(server: servers.Server) -> bytes:
    """Everybody who may try, in every way, right and wrong; what they are told."""
    odd, escaped = WORDS["Odd"], f'"p\\u0061ss":"{WORDS["Escaped"]}"'
    basic = base64.b64encode(f"a:{WORDS['Cookie']}".encode())
    upgrade = (
        b"GET /?pass=%s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        b"Cookie: u=a; p=%s\r\nAuthorization: Basic %s\r\n%s\r\n"
    )
    cookie = WORDS["Cookie"].encode()
    attempts = [
        said(server.port, connect(user="a", **{"pass": WORDS["Plain"]}), b"PUB x 1\r\ny\r\nPING\r\n"),
        said(server.port, connect(user="a", **{"pass": WORDS["Wrong"]})),
        said(server.port, connect(user=WORDS["Wrong"][:0] + "a", auth_token=WORDS["Token"])),
        said(server.port, connect(verb="connect", USER="a", PASS=WORDS["Upper"])),
        said(server.port, f'CONNECT {{"user":"a",{escaped}}}\r\nPING\r\n'.encode()),
        said(server.port, f"CONNECT {{'user':'a','pass':'{odd}'}}\r\nPING\r\n".encode()),
        said(server.port, f'CONNECT {{"user":"a","pass":["{odd}"]}}\r\nPING\r\n'.encode()),
        said(server.port, f'CONNECT {{"user":"a","pass":{{"{odd}":1}}}}\r\nPING\r\n'.encode()),
        said(server.port, f'CONNECT {{"user":"a","pass":"{odd}\r\nPING\r\n'.encode()),
        said(server.port, connect(nkey=SEED, sig=WORDS["Token"], jwt=f"e.{WORDS['Token']}.x")),
        said(server.ports["leaf_port"], connect(version="2.15.1", user="leaf", **{"pass": WORDS["Leaf"]})),
        said(server.ports["leaf_port"], connect(version="2.15.1", user="leaf", **{"pass": WORDS["Stranger"]})),
        said(server.ports["web_port"], upgrade % (cookie, cookie, basic, b""), until=b"INFO"),
        said(server.ports["web_port"], upgrade % (cookie, cookie, basic, b"Origin: ://bad\r\n"), until=b"\r\n\r\n"),
        said(
            server.ports["http_port"],
            b"GET /varz?pass=%s HTTP/1.1\r\nHost: [::1]\r\n\r\n" % cookie,
            until=b"\r\n\r\n",
        ),
    ]
    return b"".join(attempts)


def reports(server: servers.Server) -> bytes:
    """What monitoring says, over HTTP and to the system's user."""
    found = b""
    for path in REPORTS:
        with contextlib.suppress(OSError):
            found += urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}/{path}", timeout=10).read()
    asked = b"".join(b"PUB %s in.%d 0\r\n\r\n" % (one.encode(), number) for number, one in enumerate(REQUESTS))
    head = (
        connect(user="sys", **{"pass": WORDS["System"]}).removesuffix(b"PING\r\n") + b"SUB in.* 1\r\nSUB $SYS.> 2\r\n"
    )
    return found + said(server.port, head + asked, until=b"never")


def test_nothing_that_is_written_has_a_secret(tmp_path: Path) -> None:
    """Log, traces of the protocol, reports and answers, while everybody logs in rightly and wrongly, and a reload
    stumbles over a mistake beside a password."""
    with box(tmp_path) as server:
        answers = logins(server) + reports(server)
        assert b"PONG" in answers
        assert b"server_id" in answers
        reloaded(server, server.configuration + f"authorization: {{pass: [{WORDS['Odd']}]}}", REFUSED)
        log = server.log
    assert "[TRC]" in log
    assert "[DBG]" in log
    shown = [line for line in log.splitlines() if any(secret in line for secret in SECRETS)]

    assert [] == shown
    assert [] == [secret for secret in SECRETS if secret.encode() in answers]


def core_of(folder: Path, pid: int) -> Path | None:
    """The core dump of a process that has ended there, where the kernel leaves it beside it."""
    return next((one for one in (folder / "core", folder / f"core.{pid}") if one.exists()), None)


def test_a_core_dump_has_no_key(tmp_path: Path) -> None:
    """A daemon that is aborted, by its watchdog or a fault, leaves no core dump, though its limits allow one: its
    memory is full of keys."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as other:
        words = [sys.executable, "-c", f"key = '{SEED}'; import os; os.abort()"]
        wide = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)}
        witness = subprocess.Popen(words, cwd=other, stderr=subprocess.DEVNULL, **wide)  # type: ignore[call-overload]
        witness.wait()
        found = core_of(Path(other), witness.pid)
        if found is None:
            pytest.skip("no process leaves a core dump in its folder on this machine")
        assert SEED.encode() in found.read_bytes()
    with box(tmp_path) as server:
        process = server.process
        assert process is not None
        assert "0" != Path(f"/proc/{process.pid}/limits").read_text().split("core file size")[1].split()[0]
        process.send_signal(signal.SIGABRT)
        assert -signal.SIGABRT == process.wait(20)
        assert core_of(server.directory, process.pid) is None
