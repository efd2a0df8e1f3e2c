"""A hub at which boxes enrol themselves, and a box that is nothing but a socket and a key: what the tests of enrolment
share.

Keys and signatures are made with PyNaCl, as any other program would. Not here: promises (test_enrol.py
and its neighbours).
"""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any, ClassVar, Final

from leafd.config.flags import Flags
from leafd.config.load import load
from leafd.daemon.store import enrol_directory
from leafd.enrol.port import ask

from tests import servers
from tests.jwts import Key, b64
from tests.rig.waiting import eventually
from tests.servers import Server

HUB: Final = """
listen: "127.0.0.1:{port}"
server_name: hub
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  BOXES {
    jetstream: enabled
    users: [ { user: app, password: app } ]
    streams { TELEMETRY { sources: [ { boxes: "box-*", name: TELEMETRY } ] } }
  }
  SYS { users: [ { user: sys, password: sys } ] }
}
system_account: SYS
enrol { account: BOXES }
"""
BOX: Final = """
listen: "127.0.0.1:{port}"
server_name: {name}
jetstream { store_dir: "{store}", domain: {name} }
streams { TELEMETRY { subjects: ["telemetry.{name}.>"] } }
leafnodes { reconnect: "200ms", remotes: [ { url: "nats-leaf://{login}127.0.0.1:{hub}", nkey: {seed} } ] }
"""


def leafd(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    """A command about that server."""
    return servers.leafd(*words, "-c", server.directory / "server.conf")


def token(server: Server, pattern: str, *words: str) -> str:
    """A new one: of the hub itself, as the command asks it, or of the command where that has more to say."""
    if words[:1] in ((), ("--uses",)) and "tls" not in server.configuration:
        directory = enrol_directory(load(Flags(config=str(server.directory / "server.conf"))).server)
        assert directory is not None
        uses = int(words[1]) if words else 1
        return str(ask(directory, {"do": "token", "pattern": pattern, "uses": uses, "lasts_s": 3600})["token"])
    made = leafd(server, "enrol", "token", "--name", pattern, *words)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


class Login:
    """One connection to the hub's leaf listener that has said its CONNECT. answer: the INFO that lets it in, or the
    text of -ERR."""

    opened: ClassVar[list[Login]] = []

    def __init__(self, server: Server, key: Key, name: str, **said: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.ports["leaf_port"]), 20)
        self.socket.settimeout(20)
        self.lines = self.socket.makefile("rb")
        Login.opened.append(self)
        self.nonce = json.loads(self.lines.readline().partition(b" ")[2])["nonce"]
        connect = {
            "nkey": key.public, "sig": b64(key.sign(self.nonce.encode())), "name": name, "server_id": name + "-id",
            "version": "2.15.1", "headers": True, "jetstream": True, "domain": name, "protocol": 1,
        }  # fmt: skip
        self.connect = connect | said
        self.socket.sendall(b"CONNECT " + json.dumps(self.connect).encode() + b"\r\nPING\r\n")
        self.answer = self._answer()

    def _answer(self) -> dict[str, Any] | str:
        for line in iter(self.lines.readline, b""):
            if line.startswith(b"-ERR"):
                return line[5:].strip().decode().strip("'")
            if line.startswith(b"INFO") and (info := json.loads(line[5:])).get("connect_info"):
                return dict(info)
        return ""

    @property
    def is_in(self) -> bool:
        """Whether the hub has let it in."""
        return isinstance(self.answer, dict)

    def ends(self) -> str:
        """Reads until the hub ends the connection; the text of -ERR before that."""
        said = ""
        for line in iter(self.lines.readline, b""):
            said = line[5:].strip().decode().strip("'") if line.startswith(b"-ERR") else said
        return said

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def close_all() -> None:
    """After a test."""
    while Login.opened:
        Login.opened.pop().close()


def report(server: Server, path: str = "/boxz") -> dict[str, Any]:
    """Of the monitoring port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}{path}", timeout=20) as answer:
        return dict(json.load(answer))


def within(seconds: float, what: Callable[[], object]) -> None:
    """Waits until it is so."""
    eventually(what, "it did not come to that in time", seconds=seconds)
