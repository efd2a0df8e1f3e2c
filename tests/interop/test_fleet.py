"""From nothing to an operator with a hub and two leaf boxes, as the README's walkthrough has it: with nsc, with nats
auth, and with JWTs made here, which needs no tools.

The tools are looked for on PATH; without them the tests that need them say so and are skipped. What does not live here:
single requests and verdicts (test_resolver.py, test_operator.py).
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.jwt_peer import Peer, close_all
from tests.jwts import Operator
from tests.servers import LEAFD, REFERENCE, Server, free_port

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream {{ store_dir: "{store}", domain: hub }}
leafnodes {{ listen: "127.0.0.1:{leaf_port}" }}
include ./resolver.conf
"""
BOX = """
listen: "127.0.0.1:{port}"
server_name: {name}
jetstream {{ store_dir: "{store}", domain: {name} }}
leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{hub}", credentials: "{creds}" }} ] }}
"""
SECONDS_MAX = 30.0


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH: see https://github.com/nats-io for the official tools")
    return found


class Desk:
    """Where the operator sits: a home directory of its own, in which the tools keep keys and JWTs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = os.environ | {
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "XDG_DATA_HOME": str(directory / "data"),
            "TERM": "xterm",
        }

    def run(self, *words: str) -> str:
        """A command without a terminal, which must succeed."""
        done = subprocess.run(
            words, cwd=self.directory, env=self.environment, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
        )
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, f"{' '.join(words)}: {text}"
        return text

    def answer(self, *words: str) -> str:
        """A command that asks, with Return for each answer."""
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.directory)
            os.execve(words[0], words, self.environment)
        output, deadline = b"", time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.3)[0]:
                os.write(terminal, b"\r")
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # it has ended
                break
            if b"\x1b[6n" in piece:  # where is the cursor?
                os.write(terminal, b"\x1b[1;1R")
            output += piece
        os.close(terminal)
        assert os.waitpid(process, 0)[1] == 0, f"{' '.join(words)}: {output.decode()}"
        return output.decode()


@contextmanager
def started(kind: str, directory: Path, configuration: str, ports: dict[str, int]) -> Iterator[Server]:
    directory.mkdir(exist_ok=True)
    server = Server(kind, directory, configuration, ports)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def hub(kind: str, directory: Path, resolver: str, port: int) -> Iterator[Server]:
    directory.mkdir()
    (directory / "resolver.conf").write_text(resolver)
    ports = {"port": port, "leaf_port": free_port()}
    text = HUB.format(store=directory / "store", port=port, leaf_port=ports["leaf_port"])
    with started(kind, directory, text, ports) as server:
        yield server


@contextmanager
def box(name: str, directory: Path, creds: Path, link: Server) -> Iterator[Server]:
    port = free_port()
    text = BOX.format(name=name, store=directory / "store", port=port, hub=link.ports["leaf_port"], creds=creds)
    with started(LEAFD, directory, text, {"port": port}) as server:
        yield server


def check_fleet(directory: Path, link: Server, creds: dict[str, Path]) -> None:
    """Two boxes hear each other over the hub, and each has streams of its own."""
    with (
        box("box1", directory / "box1", creds["box1"], link) as one,
        box("box2", directory / "box2", creds["box2"], link) as two,
    ):
        listener, talker = Peer(two), Peer(one)
        listener.say("SUB fleet.> 1")
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            talker.say("PUB fleet.hello 2\r\nhi")
            talker.lines()
            if listener.lines():
                break
            time.sleep(0.2)
        else:
            raise AssertionError(f"nothing came over: {one.log}\n{two.log}\n{link.log}")
        for server in (one, two):
            answered = Peer(server).ask("$JS.API.STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')[0]
            assert b'"error"' not in answered, answered


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_nsc_makes_a_fleet(kind: str, tmp_path: Path) -> None:
    """nsc makes operator, account and users; its configuration runs the hub, and nsc push, pull and delete work."""
    nsc, desk, port = tool("nsc"), Desk(tmp_path), free_port()
    desk.run(nsc, "add", "operator", "FLEET", "--sys")
    desk.run(nsc, "edit", "operator", "--account-jwt-server-url", f"nats://127.0.0.1:{port}")
    desk.run(nsc, "generate", "config", "--nats-resolver", "--config-file", "resolver.conf")
    resolver = (tmp_path / "resolver.conf").read_text().replace("allow_delete: false", "allow_delete: true")
    with hub(kind, tmp_path / "hub", resolver, port) as server:
        desk.run(nsc, "add", "account", "BOXES")
        desk.run(nsc, "edit", "account", "BOXES", "--js-disk-storage", "1G")
        creds = {}
        for name in ("box1", "box2"):
            found = re.search(r"`~(/\S+\.creds)`", desk.run(nsc, "add", "user", "-a", "BOXES", name))
            assert found
            creds[name] = Path(f"{tmp_path}{found[1]}")
        assert "jwt updated" in desk.run(nsc, "push", "-A")
        check_fleet(tmp_path, server, creds)
        desk.run(nsc, "pull", "-A")
        desk.run(nsc, "add", "account", "GONE")
        desk.run(nsc, "push", "-a", "GONE")
        desk.run(nsc, "push", "-R", "GONE")
        assert 1 == len(list((tmp_path / "hub" / "jwt").glob("*.deleted")))


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_nats_auth_makes_a_fleet(kind: str, tmp_path: Path) -> None:
    """The same with nats auth, but for the configuration, which only nsc writes."""
    nats, nsc, desk, port = tool("nats"), tool("nsc"), Desk(tmp_path), free_port()
    desk.run(nats, "auth", "operator", "add", "FLEET")
    desk.run(nsc, "generate", "config", "--nats-resolver", "--config-file", "resolver.conf")
    with hub(kind, tmp_path / "hub", (tmp_path / "resolver.conf").read_text(), port) as server:
        limits = ("--jetstream", "--js-disk", "1GB", "--js-memory", "1MB")
        desk.answer(nats, "auth", "account", "add", "BOXES", "--operator", "FLEET", "--defaults", *limits)
        creds = {}
        for name, account in (("box1", "BOXES"), ("box2", "BOXES"), ("admin", "SYSTEM")):
            creds[name] = tmp_path / f"{name}.creds"
            user = ("user", "add", name, account, "--operator", "FLEET", "--no-bearer")
            desk.answer(nats, "auth", *user, "--credential", str(creds[name]))
        login = ("-s", f"nats://127.0.0.1:{port}", "--creds", str(creds["admin"]))
        desk.run(nats, *login, "auth", "account", "push", "BOXES", "--operator", "FLEET")
        assert "BOXES" in desk.run(nats, *login, "auth", "account", "query", "BOXES", "--operator", "FLEET")
        check_fleet(tmp_path, server, creds)


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_a_fleet_without_tools(kind: str, tmp_path: Path) -> None:
    """The same with JWTs made here, and the requests that nsc push sends."""
    operator = Operator("FLEET")
    boxes = operator.account("BOXES", disk_storage=1_000_000_000)
    resolver = (
        f"operator: {operator.token()}\nsystem_account: {operator.system.public}\n"
        f"resolver: {{ type: full, dir: './jwt' }}\n"
        f"resolver_preload: {{ {operator.system.public}: {operator.system.token()} }}\n"
    )
    creds = {name: boxes.user(name).creds(tmp_path / f"{name}.creds") for name in ("box1", "box2")}
    with hub(kind, tmp_path / "hub", resolver, free_port()) as server:
        answered = Peer(server, operator.system.user("admin")).ask("$SYS.REQ.CLAIMS.UPDATE", boxes.token())[0]
        assert b'"jwt updated"' in answered
        check_fleet(tmp_path, server, creds)
