"""`leafd doctor` and streams: mirrors and sources that do not flow, subjects that are stored twice, limits. Each
diagnosis by a real fault between a leaf and a hub of either kind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
from leafd.cli.doctor import examined
from leafd.doctor.findings import Check, Finding, Level
from nats.aio.client import Client

from tests import servers

HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
  FLEET {
    jetstream: enabled
    users: [ { user: fleet, password: pfleet } ]
    exports: [ { service: "$JS.API.>" }, { stream: "deliver.good.>" }, { service: "$JS.FC.>" } ]
  }
  BOXES { jetstream: enabled
    imports: [
      { service: { account: FLEET, subject: "$JS.API.>" }, to: "JS.other.>" }
      { stream: { account: FLEET, subject: "deliver.good.>" } }
      { service: { account: FLEET, subject: "$JS.FC.>" } }
    ]
    users: [
    { user: box, password: p }
    { user: few, password: p, permissions: {
      publish: [ "_leafd_doctor.>", "_INBOX.>" ], subscribe: [ "_leafd_doctor.>", "_INBOX.>" ] } }
    { user: enough, password: p, permissions: {
      publish: [ "$JS.hub.API.CONSUMER.>", "$JS.FC.>", "$JS.S.>", "$JSC.R.>"
        "$JS.hub.API.INFO", "$JS.hub.API.STREAM.>", "_leafd_doctor.>", "_INBOX.>" ],
      subscribe: [ "$JS.M.>", "$JSC.R.>", "$JS.edge-enough.API.CONSUMER.>", "$JS.FC.>"
        "_leafd_doctor.>", "_INBOX.>" ] } }
  ] }
  OTHER { jetstream: enabled, users: [ { user: other, password: pother } ] }
  ONE { jetstream: enabled, limits { max_leafnodes: 1 }, users: [ { user: one, password: p } ] }
  NONE { users: [ { user: none, password: p } ] }
}
no_auth_user: box
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: {name}
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: {name} }
leafnodes {
  remotes: [ { url: "nats-leaf://{user}:{password}@127.0.0.1:{hub_port}", account: {account} {more} } ], reconnect: 1
}
accounts {
  A { jetstream: enabled, users: [ { user: a, password: pa } ] }
  B { jetstream: enabled, users: [ { user: b, password: pb } ] }
}
no_auth_user: a
"""
PATIENCE_S = 60.0


@dataclass
class Pair:
    """A hub, and a leaf that is linked to it."""

    hub: servers.Server
    leaf: servers.Server

    def findings(self) -> list[Finding]:
        """What the doctor finds."""
        return list(examined(self.leaf.directory / "server.conf", None, None, None, 25.0))

    def linked(self) -> None:
        """Returns when the daemon says so."""
        url = f"http://127.0.0.1:{self.leaf.ports['http_port']}/varz"
        end = time.monotonic() + PATIENCE_S
        while True:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if all(one["connected"] for one in json.load(answer)["leafd"]["remotes"]):
                    return
            assert time.monotonic() < end
            time.sleep(0.05)

    def until(self, check: Check, about: str, level: Level, word: str = "") -> Finding:
        """The finding about something; it may take its time until both sides know of what was just done."""

        async def look() -> Finding:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    found = await asyncio.to_thread(self.findings)
                    for one in found:
                        if (one.check, one.level) == (check, level) and about in one.about and word in one.text:
                            return one
                    last[:] = [one for one in found if one.level != Level.WELL]

        last: list[Finding] = []
        try:
            return asyncio.run(look())
        except TimeoutError:
            raise AssertionError(f"{check} {level} of {about} was not found, but {last}") from None


@contextlib.contextmanager
def leaf_of(hub: servers.Server, folder: Path, name: str, user: str = "box", more: str = "") -> Iterator[Pair]:
    (folder / name).mkdir()
    password = "pother" if user == "other" else "p"
    values: dict[str, object] = {
        "name": name,
        "user": user,
        "password": password,
        "account": "A",
        "hub_port": hub.ports["leaf_port"],
        "more": more,
    }
    leaf = servers.make(servers.LEAFD, LEAF, folder / name, **values)
    leaf.start()
    try:
        yield Pair(hub, leaf)
    finally:
        leaf.stop()


@pytest.fixture(scope="module", params=servers.KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(request.param, HUB) as server:
        yield server


@pytest.fixture(scope="module")
def pair(hub: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with leaf_of(hub, tmp_path_factory.mktemp("flows"), "edge") as made:
        yield made


def at(server: servers.Server, what: Callable[[Client], Awaitable[None]], user: str = "") -> None:
    """Does something as a client of a server."""

    async def run() -> None:
        client = await nats.connect(server.url, user=user or None, password=f"p{user}" if user else None)
        try:
            await what(client)
        finally:
            await client.close()

    asyncio.run(run())


def made(server: servers.Server, user: str = "", **config: Any) -> None:
    """A stream, and as many messages in it as "messages" says."""
    messages = config.pop("messages", 0)

    async def make(client: Client) -> None:
        reply = await client.request(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode(), timeout=10)
        assert "error" not in json.loads(reply.data), reply.data
        for _ in range(messages):
            await client.jetstream().publish(config["subjects"][0], b"x", timeout=10)

    at(server, make, user)


def deleted(server: servers.Server, *names: str) -> None:
    async def delete(client: Client) -> None:
        for name in names:
            await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=10)

    at(server, delete)


def down(name: str, api: str = "$JS.hub.API") -> dict[str, Any]:
    return {"name": name, "external": {"api": api}}


def test_flows_that_work_are_proven_and_nothing_else_is_said(pair: Pair) -> None:
    """A mirror of commands and a source of telemetry: no fault, no warning, and each named as followed."""
    made(pair.hub, name="C", subjects=["c"], messages=3)
    made(pair.leaf, name="T", subjects=["t"], messages=3)
    made(pair.leaf, name="M", mirror=down("C"))
    made(pair.hub, name="ALL", sources=[down("T", "$JS.edge.API")])
    try:
        pair.until(Check.ORIGIN, "mirror of C in M", Level.WELL, "nothing behind")
        pair.until(Check.ORIGIN, "source of T in ALL at the hub", Level.WELL, "nothing behind")
        end = time.monotonic() + PATIENCE_S
        while wrong := [one for one in pair.findings() if one.level != Level.WELL]:
            assert time.monotonic() < end, wrong
    finally:
        deleted(pair.hub, "C", "ALL")
        deleted(pair.leaf, "T", "M")


def test_nothing_of_an_examination_is_left(pair: Pair) -> None:
    """No stream has a message more, no link stays, although one stream of the leaf captures every subject."""
    made(pair.leaf, name="EVERYTHING", subjects=["*", "*.>"], no_ack=True)
    counts: list[int] = []

    async def count(client: Client) -> None:
        reply = await client.request("$JS.API.STREAM.INFO.EVERYTHING", b"", timeout=10)
        subjects = json.loads((await client.request("$JS.API.STREAM.INFO.EVERYTHING", b'{"subjects_filter":">"}')).data)
        assert not [one for one in subjects["state"].get("subjects") or () if "doctor" in one]
        counts.append(json.loads(reply.data)["state"]["messages"])

    try:
        found = pair.findings()
    finally:
        at(pair.leaf, count)
        deleted(pair.leaf, "EVERYTHING")
    assert {Check.FLOW_UP, Check.FLOW_DOWN} <= {one.check for one in found if one.level == Level.UNPROVEN}


def test_an_origin_that_is_not_there_is_a_fault_for_its_side(pair: Pair) -> None:
    """A mirror here whose origin the hub does not have, and a source at the hub whose origin this box does not have."""
    made(pair.hub, name="GONE", subjects=["gone"])
    made(pair.leaf, name="MG", mirror=down("GONE"))
    made(pair.leaf, name="TG", subjects=["tg"])
    made(pair.hub, name="AG", sources=[down("TG", "$JS.edge.API")])
    deleted(pair.hub, "GONE")
    deleted(pair.leaf, "TG")
    try:
        here = pair.until(Check.ORIGIN, "mirror of GONE in MG", Level.FAULT)
        there = pair.until(Check.ORIGIN, "source of TG in AG at the hub", Level.FAULT)
    finally:
        deleted(pair.hub, "AG")
        deleted(pair.leaf, "MG")
    assert ('has no stream "GONE"' in here.text, "make the stream GONE there" in here.operator) == (True, True)
    assert "make the stream TG on this box" in there.owner


def test_a_mirror_whose_origin_was_made_anew_is_a_fault(pair: Pair) -> None:
    """The mirror has messages of a stream that is no longer there, although one of the same name is."""
    made(pair.hub, name="OLD", subjects=["old"], messages=4)
    made(pair.leaf, name="MO", mirror=down("OLD"))
    try:
        pair.until(Check.ORIGIN, "mirror of OLD in MO", Level.WELL, "nothing behind")
        deleted(pair.hub, "OLD")
        made(pair.hub, name="OLD", subjects=["old"], messages=6)  # more than before: sequences alone would not tell
        found = pair.until(Check.ORIGIN_NEW, "mirror of OLD in MO", Level.FAULT)
    finally:
        deleted(pair.hub, "OLD")
        deleted(pair.leaf, "MO")
    assert "delete the mirror and make it anew" in found.owner


def test_a_prefix_of_the_wrong_domain_is_a_fault(pair: Pair) -> None:
    """The hub is called otherwise, or the prefix is this box's own."""
    made(pair.hub, name="W", subjects=["w"])
    made(pair.leaf, name="MW", mirror=down("W", "$JS.headquarters.API"))
    made(pair.leaf, name="MS", mirror=down("W", "$JS.edge.API"))
    try:
        found = pair.until(Check.DOMAIN, "mirror of W in MW", Level.FAULT)
        own = pair.until(Check.ORIGIN, "mirror of W in MS", Level.FAULT)
    finally:
        deleted(pair.hub, "W")
        deleted(pair.leaf, "MW", "MS")
    assert ('"headquarters"' in found.text, '"hub"' in found.text) == (True, True)
    assert "this box's own domain" in own.text


def test_a_missing_export_is_a_fault_for_the_operator(pair: Pair) -> None:
    """A prefix that stands for another account's API, which nobody has exported or imported."""
    made(pair.leaf, name="MX", mirror=down("X", "JS.fleet"))
    try:
        found = pair.until(Check.EXPORT, "mirror of X in MX", Level.FAULT)
    finally:
        deleted(pair.leaf, "MX")
    assert "export the service $JS.API.>" in found.operator
    assert "import it to JS.fleet.>" in found.operator


def test_an_export_of_what_is_delivered_is_missing_too(pair: Pair) -> None:
    """The other account's API is shared, and the subject of the messages is not; a mirror whose subject is shared
    works."""
    made(pair.hub, "fleet", name="XD", subjects=["xd"], messages=2)
    made(pair.leaf, name="MXD", mirror={"name": "XD", "external": {"api": "JS.other", "deliver": "deliver.box"}})
    made(pair.leaf, name="MXG", mirror={"name": "XD", "external": {"api": "JS.other", "deliver": "deliver.good"}})
    try:
        found = pair.until(Check.EXPORT, "mirror of XD in MXD", Level.FAULT)
        pair.until(Check.ORIGIN, "mirror of XD in MXG", Level.WELL, "nothing behind")
    finally:
        deleted(pair.leaf, "MXD", "MXG")
    assert "export the stream deliver.box.>" in found.operator


def test_a_stream_in_an_account_without_a_link_is_in_the_wrong_account(pair: Pair) -> None:
    """The link is of account A: a mirror in account B gets nothing, and a source at the hub cannot reach a stream
    there."""
    made(pair.leaf, "b", name="MB", mirror=down("C"))
    made(pair.leaf, "b", name="TB", subjects=["tb"])
    made(pair.hub, name="AB", sources=[down("TB", "$JS.edge.API")])
    try:
        here = pair.until(Check.ACCOUNT, "mirror of C in MB", Level.FAULT)
        there = pair.until(Check.ACCOUNT, "source of TB in AB at the hub", Level.FAULT)
    finally:
        deleted(pair.hub, "AB")

        async def delete(client: Client) -> None:
            for name in ("MB", "TB"):
                await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", timeout=10)

        at(pair.leaf, delete, "b")
    assert ("account: B" in here.owner, "account: B" in there.owner) == (True, True)


def test_subjects_that_both_sides_capture_are_stored_twice(pair: Pair) -> None:
    """A warning; a fault where the hub takes the same messages by a source as well."""
    made(pair.leaf, name="TT", subjects=["tt.>"])
    made(pair.hub, name="HT", subjects=["tt.a.*"])
    try:
        found = pair.until(Check.TWICE, "TT and HT", Level.WARNING)
        assert "deny_exports: tt.>" in found.owner
        deleted(pair.hub, "HT")
        made(pair.hub, name="HT", subjects=["tt.>"], sources=[down("TT", "$JS.edge.API")])
        found = pair.until(Check.TWICE, "TT and HT", Level.FAULT)
        assert "each message twice" in found.text
    finally:
        deleted(pair.hub, "HT")
        deleted(pair.leaf, "TT")


def test_a_full_stream_is_found_before_it_refuses(pair: Pair) -> None:
    """discard: new with 9 of 10 messages is a warning, with 10 a fault, and a mirror that is full does not catch up."""
    made(pair.leaf, name="L", subjects=["l"], max_msgs=10, discard="new", messages=9)
    made(pair.hub, name="ML", subjects=["ml"], messages=5)
    made(pair.leaf, name="LM", mirror=down("ML"), max_msgs=3, discard="new")

    async def one_more(client: Client) -> None:
        await client.jetstream().publish("l", b"x", timeout=10)

    try:
        pair.until(Check.LIMITS, "L", Level.WARNING, "9 messages of 10")
        at(pair.leaf, one_more)
        pair.until(Check.LIMITS, "L", Level.FAULT, "10 messages of 10")
        pair.until(Check.LIMITS, "mirror of ML in LM", Level.FAULT, "is full")
    finally:
        deleted(pair.hub, "ML")
        deleted(pair.leaf, "L", "LM")


def test_an_account_without_jetstream_at_the_hub_is_a_fault(hub: servers.Server, tmp_path: Path) -> None:
    """The box logs in as a user of an account that has no streams, and has a mirror of one."""
    with leaf_of(hub, tmp_path, "edge-none", "none") as pair:
        made(pair.leaf, name="MN", mirror=down("C"))
        found = pair.until(Check.HUB_JETSTREAM, "127.0.0.1", Level.FAULT)
    assert ("account NONE has no JetStream" in found.text, "account NONE" in found.operator) == (True, True)


def test_the_wrong_account_at_the_hub_does_not_have_the_origin(hub: servers.Server, tmp_path: Path) -> None:
    """The credentials are of another account than the stream: its name is said, and what each side can do."""
    made(hub, name="MINE", subjects=["mine"])
    try:
        with leaf_of(hub, tmp_path, "edge-other", "other") as pair:
            made(pair.leaf, name="MM", mirror=down("MINE"))
            found = pair.until(Check.ORIGIN, "mirror of MINE in MM", Level.FAULT)
    finally:
        deleted(hub, "MINE")
    assert ("the account OTHER at the hub" in found.text, "log in as a user of that one" in found.owner) == (True, True)


def test_denied_subjects_are_named_with_the_right_that_is_missing(hub: servers.Server, tmp_path: Path) -> None:
    """The box's user may send probes and nothing else."""
    with leaf_of(hub, tmp_path, "edge-few", "few") as pair:
        made(pair.leaf, name="MD", mirror=down("C"))
        api = pair.until(Check.RIGHTS, "127.0.0.1", Level.FAULT)
        mirror = pair.until(Check.RIGHTS, "mirror of C in MD", Level.FAULT)
        pair.until(Check.FLOW_UP, "127.0.0.1", Level.WELL)
    assert "publish $JS.hub.API.INFO" in api.operator
    assert "publish $JS.hub.API.CONSUMER.>" in mirror.operator
    assert "subscribe $JS.M.x" in mirror.operator


def test_the_rights_that_the_page_names_are_enough(hub: servers.Server, tmp_path: Path) -> None:
    """A mirror and a source flow with them, and the doctor finds nothing wrong."""
    with leaf_of(hub, tmp_path, "edge-enough", "enough") as pair:
        made(hub, name="CE", subjects=["ce"], messages=3)
        made(pair.leaf, name="TE", subjects=["te"], messages=3)
        made(pair.leaf, name="ME", mirror=down("CE"))
        made(hub, name="AE", sources=[down("TE", "$JS.edge-enough.API")])
        try:
            pair.until(Check.ORIGIN, "mirror of CE in ME", Level.WELL, "nothing behind; the origin has 3")
            pair.until(Check.ORIGIN, "source of TE in AE at the hub", Level.WELL, "nothing behind; the origin has 3")
            pair.until(Check.FLOW_UP, "127.0.0.1", Level.WELL)
            end = time.monotonic() + PATIENCE_S
            while wrong := [one for one in pair.findings() if one.level in (Level.FAULT, Level.WARNING)]:
                assert time.monotonic() < end, wrong
        finally:
            deleted(hub, "CE", "AE")


def test_two_boxes_of_the_same_domain_are_found(hub: servers.Server, tmp_path: Path) -> None:
    """A box that was copied with its configuration answers for the other one, too."""
    with leaf_of(hub, tmp_path, "twin") as pair:
        (tmp_path / "copy").mkdir()
        text = LEAF.replace("server_name: {name}", "server_name: copy")
        values = {"name": "twin", "user": "box", "password": "p", "account": "A", "more": ""}
        copy = servers.make(servers.LEAFD, text, tmp_path / "copy", hub_port=hub.ports["leaf_port"], **values)
        copy.start()
        try:
            found = pair.until(Check.DOMAIN, "127.0.0.1", Level.FAULT)
        finally:
            copy.stop()
    assert '2 servers answer at the hub as the domain "twin"' in found.text


def test_what_the_remote_itself_denies_is_found(hub: servers.Server, tmp_path: Path) -> None:
    """The hub's API is answered there, and cannot be asked from here."""
    with leaf_of(hub, tmp_path, "edge-mute", more=', deny_exports: "$JS.hub.API.>"') as pair:
        found = pair.until(Check.API_UP, "127.0.0.1", Level.FAULT)
    assert "deny_exports" in found.owner


def test_a_hub_without_room_for_a_second_link_leaves_the_rest_unproven(hub: servers.Server, tmp_path: Path) -> None:
    """The account takes one leaf, and the daemon is that one: that is no fault."""
    with leaf_of(hub, tmp_path, "edge-one", "one") as pair:
        pair.linked()  # or the doctor would take the daemon's place
        found = pair.until(Check.HUB_LOGIN, "127.0.0.1", Level.UNPROVEN)
    assert "max_leafnodes" in found.operator


def test_a_link_that_is_down_is_told_with_the_daemons_reason(hub: servers.Server, tmp_path: Path) -> None:
    """The daemon is refused as the doctor is."""
    with leaf_of(hub, tmp_path, "edge-lost", "nobody") as pair:
        pair.until(Check.LINK, "127.0.0.1", Level.FAULT, "uthorization")
        pair.until(Check.HUB_LOGIN, "127.0.0.1", Level.FAULT)


def test_a_hub_is_examined_too_without_its_configuration(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its monitoring port alone, which a nats-server has as well: sources from a leaf that is there, and from one
    that is away."""
    monkeypatch.setattr("leafd.cli.doctor.CONFIGURATION", Path("/nonexistent"))
    monkeypatch.setattr("leafd.cli.pages.CONFIGURATION", Path("/nonexistent"))
    made(pair.leaf, name="TH", subjects=["th"])
    made(pair.hub, "other", name="AW", sources=[down("TH", "$JS.away.API")])
    url = f"http://127.0.0.1:{pair.hub.ports['http_port']}"
    try:
        found = examined(None, url, None, None, 25.0)
    finally:
        deleted(pair.leaf, "TH")

        async def delete(client: Client) -> None:
            await client.request("$JS.API.STREAM.DELETE.AW", b"", timeout=10)

        at(pair.hub, delete, "other")
    assert ["hub answers" in one.text for one in found if one.check == Check.DAEMON and one.level == Level.WELL] == [
        True
    ]
    assert {Check.DISK_SPEED, Check.DISK_ROOM} <= {one.check for one in found}
    assert [one.about for one in found if one.check == Check.ORIGIN] == ["source of TH in AW"], found
