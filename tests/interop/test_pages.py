"""Commands of README and of the guide, as they stand there, on a hub and a box that the first of them configure.

`nats` is the official command line where it is on PATH; else a few lines of nats-py send the requests of README, and
the guide's commands for nats are left out. What takes a machine of its own (systemctl, apt-get) is tests/packaging's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nats
import pytest

from tests import servers
from tests.rig.waiting import PATIENCE_S, eventually

ROOT: Final = Path(__file__).resolve().parents[2]
START: Final = "\n## A hub and a box in five minutes\n"
NATS: Final = shutil.which("nats")
OF_A_MACHINE: Final = {"systemctl", "apt-get", "tar", "chgrp", "smartctl"}


def commands(text: str) -> list[str]:
    """The indented lines that begin with a program's name; what stands behind two blanks is a remark."""
    lines = re.findall(r"(?m)^(?: {4}| {6})(?! )((?:leafd|nats|openssl|touch|tar|systemctl|apt-get) .*)$", text)
    return [re.split(r" {3,}", line)[0] for line in lines]


def leafd(*words: str) -> subprocess.CompletedProcess[str]:
    return servers.leafd(*words, seconds=PATIENCE_S)


async def _request(url: str, subject: str, body: str, seed: str) -> bytes:
    client = await (nats.connect(url, nkeys_seed=seed) if seed else nats.connect(url))
    try:
        return (await client.request(subject, body.encode(), timeout=PATIENCE_S)).data
    finally:
        await client.close()


@dataclass
class Site:
    """A hub and a box that run as README's start says, and the requests of README."""

    hub: servers.Server
    box: servers.Server
    directory: Path
    requests: list[str]

    def nats(self, words: list[str], *, fails: bool = False) -> str:
        """A command of nats, at the box; with a key at the hub. fails: it may."""
        there, seed = self.box, ""
        if words[0] == "--nkey":
            there, seed = self.hub, str(self.directory / "hub" / Path(words[1]).name)
            words = words[2:]
        if NATS is None:
            assert words[0] == "request", "only the official command line can do this"
            return asyncio.run(_request(there.url, words[1], words[2] if words[2:] else "", seed)).decode()
        key = ["--nkey", seed] if seed else []
        line = [NATS, "--server", there.url, *key, "--timeout", f"{PATIENCE_S:g}s", *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, cwd=self.directory)
        assert fails or 0 == done.returncode, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def read(self, line: str) -> list[str]:
        """What a line of README that reads a message prints, sooner or later; the last of it is the payload."""
        *key, get, stream, _, subject = shlex.split(line)[1:]
        assert "get" == get
        return eventually(lambda: self._read(key[:-1], stream, subject), f"{line}: no message")

    def _read(self, key: list[str], stream: str, subject: str) -> list[str]:
        """Empty while there is none."""
        if NATS is not None:
            said = self.nats([*key, "stream", "get", stream, "--last-for", subject], fails=True)
            return said.split() if said.startswith("Item: ") else []
        asked = json.dumps({"last_by_subj": subject})
        found = json.loads(self.nats([*key, "request", f"$JS.API.STREAM.MSG.GET.{stream}", asked])).get("message")
        return [found["subject"], base64.b64decode(found["data"]).decode()] if found else []

    def typed(self, line: str) -> dict[str, Any]:
        """A request of README; what is answered, around which the command line has words of its own."""
        program, *words = shlex.split(line)
        assert "nats" == program
        said = self.nats(words)
        answer: dict[str, Any] = json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
        return answer


def configured(kind: str, line: str, directory: Path, address: str = "") -> tuple[servers.Server, str]:
    """What a line `leafd init` of README makes, for a server of that kind, with this machine's ports and folders; what
    it printed. address: of the hub's leaf listener, for a box."""
    words = shlex.split(line)[1:]
    words = [address if address and word == "hub.example.org" else word for word in words]
    directory.mkdir()
    made = leafd(*words, "--dir", str(directory), "--store", str(directory / "store"))
    assert 0 == made.returncode, made.stdout + made.stderr
    text = (directory / "leafd.conf").read_text()
    for port, name in ((":4222", ":{port}"), (":8222", ":{http_port}"), ("0.0.0.0:7422", "127.0.0.1:{leaf_port}")):
        text = text.replace(port, name)
    return servers.make(kind, text, directory), made.stdout


@pytest.fixture(scope="module", params=servers.KINDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The hub is of either kind."""
    directory = tmp_path_factory.mktemp("site")
    init_hub, restart, ticket, init_box, restart_box, *requests = commands(
        (ROOT / "README.md").read_text().split(START)[1].split("\n## ")[0]
    )
    assert "systemctl restart leafd" == restart == restart_box
    # What boxes call the hub is this machine here.
    hub, _ = configured(servers.LEAFD, init_hub.replace("hub.example.org", "127.0.0.1"), directory / "hub")
    address = f"127.0.0.1:{hub.ports['leaf_port']}"
    if request.param != servers.LEAFD:
        hub = plain(hub)
        box = by_key(hub, init_box, directory, address)
    hub.start()
    try:
        if request.param == servers.LEAFD:
            made = leafd(*shlex.split(ticket)[1:], "-c", str(directory / "hub" / "server.conf"))
            assert 0 == made.returncode, made.stderr
            box, _ = configured(
                servers.LEAFD, init_box.replace("TOKEN", made.stdout.strip()), directory / "box", address
            )
        box.start()
        try:
            linked(box)
            found = Site(hub, box, directory, requests)
            if request.param != servers.LEAFD:
                collecting(found)
            yield found
        finally:
            box.stop()
    finally:
        hub.stop()


def plain(hub: servers.Server) -> servers.Server:
    """A nats-server with what `leafd init hub` wrote, without the two blocks that it does not know."""
    text = re.sub(r"(?ms)^ {4}# TELEMETRY collects.*?^ {4}\}\n", "", hub.configuration)
    text = re.sub(r"(?m)^# Boxes come with a token.*\n^enrol .*\n", "", text)
    assert "enrol" not in text
    assert "streams" not in text
    assert "tls" in text
    return servers.Server("nats-server", hub.directory, text, hub.ports)


def by_key(hub: servers.Server, line: str, directory: Path, address: str) -> servers.Server:
    """A box that has no token: the line that init prints for it stands in the hub's file."""
    name = shlex.split(line)[shlex.split(line).index("--name") + 1]
    without = f"leafd init leaf --name {name} --hub hub.example.org --ca {directory / 'hub' / 'hub-ca.pem'}"
    box, said = configured(servers.LEAFD, without, directory / "box", address)
    user = re.search(r"\{ nkey: \w+ \}(?= # )", said)
    assert user, said
    hub.configuration = hub.configuration.replace("users: [", f"users: [ {user[0]}, ")
    return box


def collecting(found: Site) -> None:
    """The two streams that a leafd hub has by its file."""
    name = found.box.configuration.split('server_name: "')[1].split('"')[0]
    source = {"name": "TELEMETRY", "external": {"api": f"$JS.{name}.API"}}
    for stream in ({"name": "TELEMETRY", "sources": [source]}, {"name": "COMMANDS", "subjects": ["commands.>"]}):
        request = ["--nkey", "hub-programs.nk", "request", f"$JS.API.STREAM.CREATE.{stream['name']}"]
        assert '"error"' not in found.nats([*request, json.dumps(stream)])


def linked(box: servers.Server) -> None:
    url = f"127.0.0.1:{box.ports['http_port']}"
    eventually(lambda: leafd("links", "--url", url).returncode == 0, lambda: box.log)


def test_the_start_of_readme_works_as_it_stands(site: Site) -> None:
    """Telemetry of the box is read at the hub, and a command that was given there is found at the box."""
    telemetry, commands, measured, read, ordered, arrived = site.requests
    for made in (telemetry, commands):
        assert "error" not in site.typed(made)
    answer = site.typed(measured)
    assert ("TELEMETRY", 1) == (answer["stream"], answer["seq"])
    said = site.read(read)
    assert ("21.5", True) == (said[-1], "telemetry.box-0001.temperature" in said)
    assert "COMMANDS" == site.typed(ordered)["stream"]
    said = site.read(arrived)
    assert ("60", True) == (said[-1], "commands.box-0001.interval" in said)


def refused(port: int, authority: Path | None = None) -> bytes:
    """What a server says to somebody who shows nothing. authority: of a listener with TLS, which comes behind INFO."""
    with ExitStack() as stack:
        stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
        if authority is not None:
            while not stranger.recv(4096, socket.MSG_PEEK).endswith(b"\r\n"):
                pass
            stranger.recv(4096)
            context = ssl.create_default_context(cafile=authority)
            stranger = stack.enter_context(context.wrap_socket(stranger, server_hostname="127.0.0.1"))
        stranger.sendall(b'CONNECT {"name":"unknown","verbose":false}\r\nPING\r\n')
        said = b""
        while b"-ERR" not in said and b"PONG" not in said and (part := stranger.recv(4096)):
            said += part
    return said


def test_the_hub_of_readme_takes_programs_with_its_key_and_nobody_else(site: Site) -> None:
    """From its first second: a client without a key and a box that nobody entered are refused; a program with the key
    that `leafd init hub` made publishes what a stream of the hub keeps."""
    assert b"Authorization Violation" in refused(site.hub.port)
    assert b"Authorization Violation" in refused(site.hub.ports["leaf_port"], site.directory / "hub" / "hub-ca.pem")

    async def stored() -> bytes:
        client = await nats.connect(site.hub.url, nkeys_seed=str(site.directory / "hub" / "hub-programs.nk"))
        try:
            made = await client.request("$JS.API.STREAM.CREATE.TOLD", b'{"name": "TOLD", "subjects": ["told.>"]}')
            assert "error" not in json.loads(made.data)
            return (await client.request("told.box-0001", b"open", timeout=PATIENCE_S)).data
        finally:
            await client.close()

    assert {"stream": "TOLD", "domain": "hub", "seq": 1} == json.loads(asyncio.run(stored()))


def test_the_guide_has_no_block_that_is_not_run() -> None:
    """Each line of a block begins with a program that the next test runs, or leaves to tests/packaging."""
    text = re.sub(r"(?ms)^```.*?^```$", "", (ROOT / "packaging/doc/guide.md").read_text())
    blocks = re.findall(r"(?m)^ {4,6}(?! )(.*)$", text)
    assert [re.split(r" {3,}", line)[0] for line in blocks] == commands(text)
    assert "```" not in text


def test_the_guide_s_commands_work_as_they_stand(site: Site) -> None:
    """Each on the box that README's start has made; those of a machine as a whole are left to tests/packaging."""
    for line in commands((ROOT / "packaging/doc/guide.md").read_text()):
        program, *words = shlex.split(line)
        if program == "leafd" and words[0] == "store":
            words = [one.replace("/var/backups", str(site.directory)) for one in words]
            done = leafd(*words, "-c", str(site.box.directory / "server.conf"))
            refused = words[1] == "restore"  # the box runs here; the guide stops it first
            assert ((1, True) if refused else (0, False)) == (done.returncode, "has this store open" in done.stderr)
        elif program == "leafd":
            file = str(site.box.directory / "server.conf")
            done = leafd(*words, *([file] if words == ["check"] else ["-c", file]))
            assert done.returncode in (0, 3), f"{line}: {done.stdout}{done.stderr}"
            assert "" == done.stderr
        elif program == "nats":
            if NATS is not None:
                site.nats(words)
            if words[:2] == ["stream", "backup"]:  # the guide says: into a store that has no such stream
                asyncio.run(_request(site.box.url, "$JS.API.STREAM.DELETE.TELEMETRY", "", ""))
        elif program == "openssl":
            key = subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout.strip()
            block = f'listen: 127.0.0.1:4222, jetstream {{ store_dir: "{site.directory}", key: "{key}" }}\n'
            (site.directory / "key.conf").write_text(block)
            assert 0 == leafd("check", str(site.directory / "key.conf")).returncode
        elif program == "touch":
            place = Path(words[0].replace("/var/lib/leafd", str(site.box.directory / "store")))
            assert (place.parent / "data.mdb").is_file(), "this is where the store's files are"
        else:
            assert program in OF_A_MACHINE
