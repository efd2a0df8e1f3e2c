"""From nothing to an operator with a hub and two leaf boxes: the commands and configurations of the page fleet.md,
as they stand there, with nsc and with nats auth; and the same with JWTs made here, which needs no tools.

The tools are looked for on PATH; without them the tests that need them say so and are skipped. Not here:
single requests and verdicts (test_resolver.py, test_operator.py).
"""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from leafd.auth.creds import signer_from_credentials

from tests.interop.jwt_peer import Peer, close_all
from tests.jwts import Operator
from tests.servers import LEAFD, REFERENCE, Server, free_port

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "packaging" / "doc" / "fleet.md"
SECONDS_MAX: Final = 30.0


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_all()


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH: see https://github.com/nats-io for the official tools")
    return found


class Holder:
    """Who has a credentials file, as a client of the hub."""

    def __init__(self, file: Path) -> None:
        self.connect = signer_from_credentials(str(file))


@dataclass
class Walk:
    """The page: commands for nsc, before the hub runs and then; the same for nats auth; the hub's
    configuration, the line that differs with nats auth, and a box's."""

    nsc: str
    nsc_push: str
    nats: str
    nats_push: str
    hub: str
    hub_of_nats: str
    box: str

    @classmethod
    def read(cls) -> Walk:
        text = PAGE.read_text()
        nsc, nsc_push, nats, nats_push = re.findall(r"(?:^    \S.*\n)+", text, re.M)
        hub, box, hub_of_nats = re.findall(r"```\n(.*?)```", text, re.S)
        return cls(nsc, nsc_push, nats, nats_push, hub, hub_of_nats, box)


class Desk:
    """Where the operator sits: a home directory of its own, in which the tools keep keys and JWTs.

    What the page calls hub.example.org is this machine, on ports that are free.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.leaf_port = free_port(), free_port()
        self.environment = os.environ | {
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "XDG_DATA_HOME": str(directory / "data"),
            "TERM": "xterm",
        }

    def here(self, text: str) -> str:
        """The page's words with this machine's addresses and directories."""
        for name, port in (("4222", self.port), ("7422", self.leaf_port)):
            text = re.sub(rf"(hub\.example\.org|0\.0\.0\.0):{name}", f"127.0.0.1:{port}", text)
        return text

    def type(self, commands: str, answers: dict[str, str] | None = None) -> str:
        """Types the lines of a block, each of which must succeed; what they said."""
        said = ""
        for line in commands.splitlines():
            words = shlex.split(self.here(line), comments=True)
            said += self.run([tool(words[0]), *words[1:]], answers or {})
        return said

    def run(self, words: list[str], answers: dict[str, str]) -> str:
        """A command at a terminal; what it asks is answered by a text that the question holds, or by Return."""
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.directory)
            os.execve(words[0], words, self.environment)
        output, asked, deadline = b"", 0, time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.3)[0]:
                question, asked = output[asked:].decode(errors="replace"), len(output)
                os.write(terminal, next((a for q, a in answers.items() if q in question), "").encode() + b"\r")
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
    def server(self, kind: str, name: str, text: str, ports: dict[str, int]) -> Iterator[Server]:
        """A server whose state is in a directory of its own, and whose configuration is beside what the tools wrote."""
        text = self.here(text).replace("/var/lib/leafd", str(self.directory / name))
        server = Server(kind, self.directory, text.replace("/etc/leafd", str(self.directory)), ports)
        (self.directory / f"{name}.conf").write_text(server.configuration)
        server.start(f"{name}.conf")
        try:
            yield server
        finally:
            server.stop()

    @contextmanager
    def hub(self, kind: str, text: str) -> Iterator[Server]:
        with self.server(kind, "hub", text, {"port": self.port, "leaf_port": self.leaf_port}) as server:
            yield server

    def check_boxes(self, text: str, link: Server) -> None:
        """The hub hears two boxes and each of them hears the hub, and each has streams of its own, which the hub
        reaches."""
        with ExitStack() as stack:
            boxes = []
            for name in ("box-0001", "box-0002"):
                port = free_port()
                mine = text.replace("box-0001", name).replace("listen: 127.0.0.1:4222", f"listen: 127.0.0.1:{port}")
                boxes.append(stack.enter_context(self.server(LEAFD, name, mine, {"port": port})))
            hub = Peer(link, Holder(self.directory / "box-0001.creds"))
            peers = [Peer(box) for box in boxes]
            for listener, talker in ((hub, peers[0]), (hub, peers[1]), (peers[0], hub), (peers[1], hub)):
                listener.say("SUB fleet.> 1")
                deadline = time.monotonic() + SECONDS_MAX
                while not listener.lines():
                    assert time.monotonic() < deadline, f"nothing came over: {[box.log for box in boxes]}\n{link.log}"
                    talker.say("PUB fleet.hello 2\r\nhi")
                    talker.lines()
                    time.sleep(0.2)
                listener.say("UNSUB 1")
                listener.lines()
            for number, box in enumerate(boxes):
                peer = Peer(box)
                peer.sids = 2000 * (number + 1)  # its inboxes are heard on all boxes: they are of one account
                answered = peer.answers("$JS.API.STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')[0]
                assert b'"error"' not in answered, answered
            found = hub.answers("$JS.box-0002.API.STREAM.INFO.S")[0]
            assert b'"domain":"box-0002"' in found.replace(b" ", b""), found


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_nsc_makes_a_fleet(kind: str, tmp_path: Path) -> None:
    """The page's walk with nsc, word for word, on a hub of either kind."""
    walk, desk = Walk.read(), Desk(tmp_path)
    desk.type(walk.nsc)
    with desk.hub(kind, walk.hub) as server:
        assert "jwt updated" in desk.type(walk.nsc_push)
        desk.check_boxes(walk.box, server)


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_nats_auth_makes_a_fleet(kind: str, tmp_path: Path) -> None:
    """The page's walk with nats auth, word for word, on a hub of either kind."""
    walk, desk = Walk.read(), Desk(tmp_path)
    desk.type(walk.nats, {"Enables JetStream": "n", "directory to store JWTs": str(tmp_path / "jwt")})
    with desk.hub(kind, walk.hub_of_nats) as server:
        desk.type(walk.nats_push)
        desk.check_boxes(walk.box, server)


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_nsc_pulls_and_deletes(kind: str, tmp_path: Path) -> None:
    """nsc pull brings what the hub has, and an account that nsc deletes is gone there, where that is allowed."""
    walk, desk = Walk.read(), Desk(tmp_path)
    desk.type(walk.nsc)
    resolver = tmp_path / "resolver.conf"
    resolver.write_text(resolver.read_text().replace("allow_delete: false", "allow_delete: true"))
    with desk.hub(kind, walk.hub):
        desk.type("nsc add account GONE\nnsc push -A\nnsc pull -A\nnsc push -R GONE")
        assert 1 == len(list(tmp_path.glob("**/*.jwt.deleted")))


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_a_fleet_without_tools(kind: str, tmp_path: Path) -> None:
    """The same with JWTs made here, and the requests that nsc push sends."""
    walk, desk, operator = Walk.read(), Desk(tmp_path), Operator("FLEET")
    boxes = operator.account("BOXES", disk_storage=1_000_000_000)
    (tmp_path / "resolver.conf").write_text(
        f"operator: {operator.token()}\nsystem_account: {operator.system.public}\n"
        f"resolver: {{ type: full, dir: './jwt' }}\n"
        f"resolver_preload: {{ {operator.system.public}: {operator.system.token()} }}\n"
    )
    for name in ("box-0001", "box-0002"):
        boxes.user(name).creds(tmp_path / f"{name}.creds")
    with desk.hub(kind, walk.hub) as server:
        answered = Peer(server, operator.system.user("admin")).answers("$SYS.REQ.CLAIMS.UPDATE", boxes.token())[0]
        assert b'"jwt updated"' in answered
        desk.check_boxes(walk.box, server)
