"""The commands for people: a leaf that `leafd init` made joins a hub of either kind, and what the commands say of both
while the link is up and when it is cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest

from tests import servers
from tests.rig.waiting import eventually

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""


def told(server: servers.Server, *words: str) -> tuple[int, Any]:
    """Exit code and JSON of a command about this server."""
    done = servers.leafd(*words, "--json", "--url", f"127.0.0.1:{server.ports['http_port']}")
    assert done.stderr == "", done.stderr
    return done.returncode, json.loads(done.stdout)


@dataclass
class Pair:
    """A hub, and the leaf that init configured for it."""

    hub: servers.Server
    leaf: servers.Server


@pytest.fixture(scope="module", params=servers.KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The stream COMMANDS of the hub has 3 messages, its mirror at the leaf a consumer that has read none."""
    folder = tmp_path_factory.mktemp("pair")
    for name in ("hub", "leaf"):
        (folder / name).mkdir()
    hub = servers.make(request.param, HUB, folder / "hub")
    url = f"nats-leaf://127.0.0.1:{hub.ports['leaf_port']}"
    made = servers.leafd(
        "init", "leaf", "--name", "box-1", "--hub", url, "--dir", folder, "--store", folder / "leaf/js"
    )
    assert made.returncode == 0, made.stderr
    text = (folder / "leafd.conf").read_text()
    # The line for a nats-server that init says has to stand in the hub's file; and a way in for this test.
    line = next(line for line in made.stdout.splitlines() if line.startswith("    { nkey:"))
    users = f"[\n{line}\n{{ user: test, password: test }}\n]"
    hub.configuration += f"accounts {{ BOXES {{ jetstream: enabled, users: {users} }} }}\nno_auth_user: test\n"
    leaf = servers.make(
        servers.LEAFD, text.replace(":4222", ":{port}").replace(":8222", ":{http_port}"), folder / "leaf"
    )
    with contextlib.ExitStack() as stack:
        for server in (hub, leaf):
            server.start()
            stack.callback(server.stop)
        eventually(lambda: told(leaf, "links")[0] == 0)
        asyncio.run(filled(hub, leaf))
        eventually(lambda: [one["messages"] for one in told(leaf, "streams")[1]] == [3])
        yield Pair(hub, leaf)


async def filled(hub: servers.Server, leaf: servers.Server) -> None:
    client = await nats.connect(hub.url)
    await client.jetstream().add_stream(name="COMMANDS", subjects=["commands.>"])
    for number in range(3):
        await client.jetstream().publish(f"commands.{number}", b"go")
    await client.close()
    client = await nats.connect(leaf.url)
    mirror = {"name": "COMMANDS", "external": {"api": "$JS.hub.API"}}
    body = json.dumps({"name": "COMMANDS", "mirror": mirror}).encode()
    answer = json.loads((await client.request("$JS.API.STREAM.CREATE.COMMANDS", body, timeout=10)).data)
    assert "error" not in answer, answer
    await client.jetstream().add_consumer("COMMANDS", durable_name="worker", ack_policy="explicit")
    await client.close()


def test_what_init_wrote_links_the_leaf_to_the_hub(pair: Pair) -> None:
    """The leaf has a link to the hub and the hub one to the leaf, in the account that init named."""
    code, found = told(pair.leaf, "links")
    assert (code, [(one["role"], one["up"], one["address"]) for one in found]) == (
        0,
        [("hub", True, f"127.0.0.1:{pair.hub.ports['leaf_port']}")],
    )
    code, found = told(pair.hub, "links")
    assert (code, [(one["peer"], one["role"], one["account"]) for one in found]) == (0, [("box-1", "leaf", "BOXES")])


def test_streams_and_consumers_are_listed_as_they_are(pair: Pair) -> None:
    """Messages, first and last sequence, and what a consumer has still to get."""
    for server in (pair.hub, pair.leaf):
        _, (stream,) = told(server, "streams")
        assert (stream["name"], stream["messages"], stream["first"], stream["last"]) == ("COMMANDS", 3, 1, 3)
    code, (consumer,) = told(pair.leaf, "consumers", "COMMANDS")
    assert (code, consumer["name"], consumer["pending"], consumer["unacknowledged"]) == (0, "worker", 3, 0)
    assert told(pair.leaf, "consumers", "OTHER") == (0, [])


def test_tables_show_what_the_json_says(pair: Pair) -> None:
    """Each name and number of the rows is in the table for people."""
    url = f"127.0.0.1:{pair.leaf.ports['http_port']}"
    for words, expected in (
        (("streams",), r"COMMANDS +\S+ +file +3 "),
        (("consumers",), r"worker +COMMANDS +\S+ +3 +0 +0"),
        (("links",), rf"hub +\S+ +127\.0\.0\.1:{pair.hub.ports['leaf_port']} +up"),
        (("status",), r"server +box-1, leafd \d+\.\d+\.\d+ \(speaks as nats-server \d"),
    ):
        shown = servers.leafd(*words, "--url", url).stdout
        assert re.search(expected, shown), shown


def test_status_ends_with_0_while_all_is_well_and_with_3_and_the_reason_when_the_hub_is_gone(pair: Pair) -> None:
    """A cut link and the mirror behind it are problems that are named."""
    code, found = told(pair.leaf, "status")
    assert (code, found["problems"], found["name"], found["domain"]) == (0, [], "box-1", "box-1")
    assert [(one["kind"], one["behind"]) for one in found["copies"]] == [("mirror", 0)]
    pair.hub.stop()
    try:
        eventually(lambda: told(pair.leaf, "status")[0] == 3)
        eventually(lambda: "refused" in "".join(told(pair.leaf, "status")[1]["problems"]))
        _, found = told(pair.leaf, "status")
        assert found["problems"][0].startswith(
            f"no link to the hub nats-leaf://127.0.0.1:{pair.hub.ports['leaf_port']} (account $G): "
        )
        shown = servers.leafd("status", "--url", f"127.0.0.1:{pair.leaf.ports['http_port']}")
        assert (shown.returncode, "! no link to the hub" in shown.stdout) == (3, True)
    finally:
        pair.hub.start()
    eventually(lambda: told(pair.leaf, "status")[0] == 0)


def test_the_daemon_is_found_by_its_configuration(pair: Pair) -> None:
    """-c FILE: the monitoring port that the file names."""
    done = servers.leafd("status", "--json", "-c", pair.leaf.directory / "server.conf")
    assert (done.returncode, json.loads(done.stdout)["name"]) == (0, "box-1")


def test_where_nobody_answers_the_command_says_so_and_ends_with_1(tmp_path: Path) -> None:
    """No daemon, another program, a configuration without monitoring: one line each."""
    port = servers.free_port()
    done = servers.leafd("status", "--url", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr == (
        f"leafd: http://127.0.0.1:{port}: Connection refused: is leafd running, and is this its monitoring port?\n"
    )
    (tmp_path / "a.conf").write_text("listen: 127.0.0.1:4222\n")
    done = servers.leafd("streams", "-c", tmp_path / "a.conf")
    assert (done.returncode, done.stderr.count("\n"), "no monitoring port" in done.stderr) == (1, 1, True)


def test_check_says_where_each_mistake_is_and_what_to_change(tmp_path: Path) -> None:
    """File, line and column; 0 for a good file, 1 for a bad one, 3 for one with a warning."""
    file = tmp_path / "a.conf"
    file.write_text("listen: 127.0.0.1:4222\n")
    assert servers.leafd("check", file).returncode == 0
    file.write_text("listen: 127.0.0.1:4222\njetstream {\n  stor_dir: x\n}\n")
    done = servers.leafd("check", file)
    assert (done.returncode, f"{file}:3:3" in done.stderr, "did you mean 'store_dir'?" in done.stderr) == (
        1,
        True,
        True,
    )
    file.write_text("port: 4222\nport: 4223\nlisten: 127.0.0.1:4224\nlisten: 127.0.0.1:4222\nPort: 4224\n")
    done = servers.leafd("check", file)
    assert (done.returncode, "warning: " in done.stdout) == (3, True)


def test_check_says_what_a_changed_file_would_do_to_the_daemon_that_runs(pair: Pair, tmp_path: Path) -> None:
    """As it runs, nothing; a key that is live; one that takes a restart. No secret is asked for or shown."""
    text = (pair.leaf.directory / "server.conf").read_text()
    file = tmp_path / "new.conf"
    for more, keys in (("", []), ("max_payload: 2MB\n", ["max_payload"])):
        file.write_text(text + more)
        done = servers.leafd("check", file, "--running", "--json")
        assert done.returncode == 0, done
        assert [one["key"] for one in json.loads(done.stdout)["changes"]] == keys
    file.write_text(text.replace("domain:", "sync_interval: 3s, domain:").replace('"box-1"', '"box-2"', 1))
    done = servers.leafd("check", file, "--running", "--json")
    changes = {one["key"]: one["takes"] for one in json.loads(done.stdout)["changes"]}
    assert (done.returncode, changes.get("server_name")) == (3, "restart"), changes
    assert "is refused" in servers.leafd("check", file, "--running").stdout.replace("\n", " ")


def test_init_overwrites_nothing_and_keeps_the_key_to_itself(tmp_path: Path) -> None:
    """The seed's file is its owner's alone, and a second init needs --force."""
    words = ("init", "leaf", "--name", "b", "--hub", "hub.example.org", "--dir", tmp_path, "--store", tmp_path / "js")
    assert servers.leafd(*words).returncode == 0
    assert (tmp_path / "b.nk").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "b.nk").read_text()
    done = servers.leafd(*words)
    assert (done.returncode, "--force" in done.stderr, (tmp_path / "b.nk").read_text()) == (1, True, before)
    assert servers.leafd(*words, "--force").returncode == 0
    assert (tmp_path / "b.nk").read_text() != before
    assert servers.leafd("check", tmp_path / "leafd.conf").returncode == 0


def test_init_asks_for_what_it_was_not_told(tmp_path: Path) -> None:
    """Name and hub are asked for; a name that cannot be part of a subject is refused."""
    done = servers.leafd("init", "leaf", "--dir", tmp_path, "--store", tmp_path, answers="box-9\nhub.example.org\n")
    assert done.returncode == 0, done.stderr
    assert '"nats-leaf://hub.example.org:7422"' in (tmp_path / "leafd.conf").read_text()
    done = servers.leafd("init", "hub", "--name", "a.b", "--dir", tmp_path)
    assert (done.returncode, "name 'a.b'" in done.stderr) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_the_shell_reads(shell: str) -> None:
    """It asks the command itself, which knows its words."""
    done = servers.leafd("completion", shell)
    assert (done.returncode, "_LEAFD_COMPLETE" in done.stdout) == (0, True)
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, timeout=10).returncode == 0
