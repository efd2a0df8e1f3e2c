"""`leafd doctor` between a leaf and a hub of either kind: each diagnosis by a real fault, on the way to the hub.

The leaf is one that runs well; what is wrong is the configuration that the doctor is given, or what it names.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from leafd.cli.doctor import examined
from leafd.doctor.findings import Check, Finding, Level

from tests import servers
from tests.rig.waiting import eventually

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts { BOXES { jetstream: enabled, users: [ { user: box, password: "s3cret" } ] } }
no_auth_user: box
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: box
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: edge }
leafnodes { remotes: [ { url: "nats-leaf://box:s3cret@127.0.0.1:{hub_port}" } ], reconnect: 1 }
"""


@dataclass
class Pair:
    """A hub, and a leaf that is linked to it."""

    hub: servers.Server
    leaf: servers.Server

    def config(self, folder: Path, remote: str, more: str = "") -> Path:
        """The leaf's configuration with another remote."""
        text = f"""
        listen: "127.0.0.1:{self.leaf.port}"
        http: "127.0.0.1:{self.leaf.ports["http_port"]}"
        leafnodes {{ remotes: [ {{ {remote} }} ] }}
        {more}
        """
        file = folder / "doctor.conf"
        file.write_text(text)
        return file


@pytest.fixture(scope="module", params=servers.KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("doctor")
    for name in ("hub", "leaf"):
        (folder / name).mkdir()
    hub = servers.make(request.param, HUB, folder / "hub")
    leaf = servers.make(servers.LEAFD, LEAF, folder / "leaf", hub_port=hub.ports["leaf_port"])
    with contextlib.ExitStack() as stack:
        for server in (hub, leaf):
            server.start()
            stack.callback(server.stop)
        deadline = time.monotonic() + 60
        while level(findings(leaf.directory / "server.conf"), Check.FLOW_DOWN) != Level.WELL:
            assert time.monotonic() < deadline
        yield Pair(hub, leaf)


@pytest.fixture(params=servers.KINDS)
def apart(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], dict[Check, Finding]]]:
    """Examines a leaf of a hub that keeps leaves apart, with these words in the leaf's remote, once it is linked."""
    text = HUB.replace('{leaf_port}"', '{leaf_port}", isolate_leafnode_interest: true')
    (tmp_path / "hub").mkdir()
    hub = servers.make(request.param, text, tmp_path / "hub")
    with contextlib.ExitStack() as stack:
        hub.start()
        stack.callback(hub.stop)

        def examined_with(remote: str) -> dict[Check, Finding]:
            folder = tmp_path / "leaf"
            folder.mkdir()
            leaf = servers.make(
                servers.LEAFD,
                LEAF.replace('{hub_port}"', f'{{hub_port}}"{remote}'),
                folder,
                hub_port=hub.ports["leaf_port"],
            )
            leaf.start()
            stack.callback(leaf.stop)
            return eventually(
                lambda: found if level(found := findings(folder / "server.conf"), Check.LINK) == Level.WELL else {},
                "no link",
            )

        yield examined_with


def listening(said: bytes, stack: contextlib.ExitStack) -> int:
    """The port of somebody who takes every connection, says this, and then nothing."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def accept() -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            while True:
                taken.enter_context(listener.accept()[0]).sendall(said)

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1])


@pytest.fixture
def mail() -> Iterator[int]:
    """The port of a mail server."""
    with contextlib.ExitStack() as stack:
        yield listening(b"220 mail.example.org ESMTP\r\n", stack)


def findings(config: Path) -> dict[Check, Finding]:
    """What the doctor finds, by what it looked at; of several the gravest."""
    found: dict[Check, Finding] = {}
    for one in examined(config, None, None, None, 20.0):
        found.setdefault(one.check, one)
    return found


def level(found: dict[Check, Finding], check: Check) -> Level | None:
    return found[check].level if check in found else None


def test_a_link_that_works_is_proven_both_ways(pair: Pair) -> None:
    """A probe comes through in each direction, and the account at the hub is named."""
    found = findings(pair.leaf.directory / "server.conf")
    assert {Level.WELL} == {found[check].level for check in (Check.FLOW_UP, Check.FLOW_DOWN, Check.DOMAIN)}
    assert found[Check.HUB_LOGIN].text == "logged in to the account BOXES"


def test_a_hub_that_keeps_leaves_apart_is_no_fault(apart: Callable[[str], dict[Check, Finding]]) -> None:
    """As `leafd init hub` makes it. Both ways are proven without the hub's telling one leaf of another."""
    found = apart("")
    proven = (Check.FLOW_UP, Check.FLOW_DOWN, Check.API_UP, Check.API_DOWN)
    assert {Level.WELL} == {found[check].level for check in proven}, found
    assert "apart" in found[Check.FLOW_UP].text


def test_a_box_that_such_a_hub_cannot_ask_is_a_fault(apart: Callable[[str], dict[Check, Finding]]) -> None:
    """The remote denies what the hub asks; all else is proven as ever."""
    found = apart(', deny_imports: ["$JS.edge.API.>"]')
    assert {Level.WELL} == {found[check].level for check in (Check.FLOW_UP, Check.FLOW_DOWN, Check.API_UP)}, found
    assert Level.FAULT == found[Check.API_DOWN].level
    assert "deny_imports" in found[Check.API_DOWN].owner


def test_the_command_says_all_is_well_by_its_exit_code_and_as_json(pair: Pair) -> None:
    """0 and no faults; no credential in anything that it prints."""
    done = servers.leafd("doctor", "-c", pair.leaf.directory / "server.conf", "--json")
    told = json.loads(done.stdout)
    # A machine that many tests share may be slow, and that is told, too.
    slow = [one["check"] for one in told["findings"] if one["level"] == "warning"]
    assert {Check.DISK_SPEED, Check.WATCHDOG} >= set(slow)
    assert (done.returncode, done.stderr, told["faults"]) == (3 if slow else 0, "", 0)
    assert "s3cret" not in done.stdout


def test_the_command_says_what_is_wrong_to_each_side(pair: Pair, tmp_path: Path) -> None:
    """3, the finding in a table, and below it a line for the box's owner and one for the hub's operator."""
    file = pair.config(tmp_path, f'url: "nats-leaf://box:mistaken@127.0.0.1:{pair.hub.ports["leaf_port"]}"')
    line = [sys.executable, "-m", "leafd", "doctor", "-c", str(file)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "300"})
    assert (done.returncode, done.stderr) == (3, "")
    top, _, below = done.stdout.partition("This box's owner")
    owner, _, operator = below.partition("The hub's operator")
    assert "the hub refuses the login" in top
    assert "compare user and password" in owner
    assert "is this user there" in operator
    assert "mistaken" not in done.stdout


def test_a_nats_server_in_the_boxs_place_is_examined_too(pair: Pair, tmp_path: Path) -> None:
    """It has the same configuration and the same pages; what it does not tell is left out."""
    text = LEAF.replace("server_name: box", "server_name: other").replace("domain: edge", "domain: other")
    leaf = servers.make(servers.REFERENCE, text, tmp_path, hub_port=pair.hub.ports["leaf_port"])
    leaf.start()
    try:
        deadline = time.monotonic() + 30
        while (found := findings(tmp_path / "server.conf"))[Check.FLOW_UP].level != Level.WELL:
            assert time.monotonic() < deadline, found
    finally:
        leaf.stop()
    assert {Level.WELL} == {found[check].level for check in (Check.FLOW_DOWN, Check.API_UP, Check.API_DOWN)}


def test_an_address_of_several_that_fails_is_a_warning(pair: Pair, tmp_path: Path) -> None:
    """The box gets to its hub by the other one."""
    good, bad = pair.hub.ports["leaf_port"], servers.free_port()
    urls = f'urls: [ "nats-leaf://box:s3cret@127.0.0.1:{good}", "nats-leaf://box:s3cret@127.0.0.1:{bad}" ]'
    found = findings(pair.config(tmp_path, urls))
    assert (level(found, Check.HUB_PORT), level(found, Check.HUB_LOGIN)) == (Level.WARNING, Level.WELL)


@pytest.mark.parametrize(
    ("url", "check", "word"),
    [
        ("nats-leaf://box:s3cret@no-such-host.invalid:7422", Check.HUB_ADDRESS, "the name"),
        ("nats-leaf://box:s3cret@127.0.0.1:{free}", Check.HUB_PORT, "refused"),
        ("nats-leaf://box:s3cret@127.0.0.1:{client}", Check.HUB_PROTOCOL, "port for clients"),
        ("nats-leaf://box:s3cret@127.0.0.1:{mail}", Check.HUB_PROTOCOL, "no NATS server"),
        ("nats-leaf://box:wrong@127.0.0.1:{leaf}", Check.HUB_LOGIN, "refuses the login"),
        ("tls://box:s3cret@127.0.0.1:{leaf}", Check.HUB_TLS, "TLS handshake failed"),
    ],
    ids=["name", "refused", "client-port", "no-nats", "password", "no-tls-there"],
)
def test_a_hub_that_is_not_reached_is_a_fault_with_advice(
    pair: Pair, mail: int, tmp_path: Path, url: str, check: Check, word: str
) -> None:
    """Name, port, protocol, TLS, login: the step that fails is named, and what to change; the password is not."""
    ports = {
        "free": servers.free_port(),
        "client": pair.hub.port,
        "mail": mail,
        "leaf": pair.hub.ports["leaf_port"],
    }
    found = findings(pair.config(tmp_path, f'url: "{url.format(**ports)}"'))
    assert level(found, check) == Level.FAULT, found
    assert word in found[check].text
    assert found[check].owner
    assert "s3cret" not in str(found)
    assert "wrong@" not in str(found)


def test_a_seed_that_cannot_be_read_is_a_fault_and_is_not_shown(pair: Pair, tmp_path: Path) -> None:
    """A mistyped seed may be most of a good one."""
    url = f'url: "nats-leaf://127.0.0.1:{pair.hub.ports["leaf_port"]}", nkey: "SUAMISTYPED"'
    found = findings(pair.config(tmp_path, url))
    assert (level(found, Check.HUB_LOGIN), "MISTYPED" in str(found)) == (Level.FAULT, False)


def test_a_remote_that_the_daemon_does_not_know_asks_for_a_reload(pair: Pair, tmp_path: Path) -> None:
    """The configuration was changed since the daemon read it."""
    found = findings(pair.config(tmp_path, f'url: "nats-leaf://127.0.0.1:{servers.free_port()}"'))
    assert (found[Check.LINK].level, "reload" in found[Check.LINK].owner) == (Level.WARNING, True)


def test_the_same_domain_on_both_sides_is_a_fault(pair: Pair, tmp_path: Path) -> None:
    """A box that calls its domain as the hub does is told to take another name."""
    (tmp_path / "same").mkdir()
    text = LEAF.replace("domain: edge", "domain: hub").replace("server_name: box", "server_name: same")
    leaf = servers.make(servers.LEAFD, text, tmp_path / "same", hub_port=pair.hub.ports["leaf_port"])
    leaf.start()
    try:
        found = findings(leaf.directory / "server.conf")
    finally:
        leaf.stop()
    assert (found[Check.DOMAIN].level, '"hub"' in found[Check.DOMAIN].text) == (Level.FAULT, True)


def test_a_daemon_that_does_not_run_is_a_fault_and_the_hub_is_examined_all_the_same(pair: Pair, tmp_path: Path) -> None:
    """Nobody at the monitoring port; the login at the hub is tried."""
    file = pair.config(tmp_path, f'url: "nats-leaf://box:s3cret@127.0.0.1:{pair.hub.ports["leaf_port"]}"')
    file.write_text(file.read_text().replace(str(pair.leaf.ports["http_port"]), str(servers.free_port())))
    found = findings(file)
    assert (level(found, Check.DAEMON), level(found, Check.HUB_LOGIN)) == (Level.FAULT, Level.WELL)


def test_an_examination_ends_in_time_although_everything_hangs(tmp_path: Path) -> None:
    """The daemon and the hub take connections and say nothing: what was not finished is said not to be proven."""
    with contextlib.ExitStack() as stack:
        port = listening(b"", stack)
        file = tmp_path / "doctor.conf"
        file.write_text(
            f'listen: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{port}"\n'
            f'leafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{port}" }} ] }}\n'
        )
        began = time.monotonic()
        found = examined(file, None, None, None, 1.0)
        took = time.monotonic() - began
        done = servers.leafd("doctor", "--timeout", "1", "-c", file, seconds=30)
    assert took < 30.0  # generous: what tells is that steps were cut, whose own bounds are 5 s
    assert (done.returncode, "not finished within 1 s" in " ".join(done.stdout.split())) == (3, True)
    hung = {one.about for one in found if one.level == Level.WARNING}
    assert {"the daemon's pages", "the way to the hub"} <= hung
