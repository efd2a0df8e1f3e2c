"""`leafd doctor` and streams: mirrors and sources that do not flow, subjects that are stored twice, limits. Each
diagnosis by a real fault between a leaf and a hub of either kind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
import pytest
from leafd.cli.doctor import examined
from leafd.doctor.findings import Check, Finding, Level
from nats.aio.client import Client

from tests import servers
from tests.rig.official import ask, must
from tests.rig.waiting import PATIENCE_S, eventually

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
  BOXES {
    jetstream: enabled
    imports: [
      { service: { account: FLEET, subject: "$JS.API.>" }, to: "JS.other.>" }
      { stream: { account: FLEET, subject: "deliver.good.>" } }
      { service: { account: FLEET, subject: "$JS.FC.>" } }
    ]
    users: [ { user: box, password: pbox } ]
  }
  OTHER { jetstream: enabled, users: [ { user: other, password: pother } ] }
  NONE { users: [ { user: none, password: pnone } ] }
  ONE { jetstream: enabled, limits { max_leafnodes: 1 }, users: [ { user: one, password: pone } ] }
  MUTE { jetstream: enabled, users: [ { user: mute, password: pmute } ] }
  FEW { jetstream: enabled, users: [ { user: few, password: pfew, permissions: {
    publish: [ "_leafd_doctor.>", "_INBOX.>" ], subscribe: [ "_leafd_doctor.>", "_INBOX.>" ] } } ] }
  ENOUGH { jetstream: enabled, users: [
    { user: all, password: pall }
    { user: enough, password: penough, permissions: {
      publish: [ "$JS.hub.API.CONSUMER.>", "$JS.FC.>", "$JS.S.>", "$JSC.R.>"
        "$JS.hub.API.INFO", "$JS.hub.API.STREAM.>", "_leafd_doctor.>", "_INBOX.>" ],
      subscribe: [ "$JS.M.>", "$JSC.R.>", "$JS.odd.API.CONSUMER.>", "$JS.FC.>", "_leafd_doctor.>", "_INBOX.>" ] } }
  ] }
}
no_auth_user: box
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: {server_name}
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: {domain} }
leafnodes { reconnect: 1, remotes: [ REMOTES ] }
accounts { ACCOUNTS }
no_auth_user: box
"""
SLOW = (Check.DISK_SPEED, Check.WATCHDOG)
"""What is found on a machine that many tests share."""


@dataclass
class Pair:
    """A hub, and a leaf that is linked to it."""

    hub: servers.Server
    leaf: servers.Server
    unchanging: bool = False
    """Nothing is made and deleted any more: what was found once is still so."""
    last: list[Finding] = field(default_factory=list)

    def findings(self) -> list[Finding]:
        """What the doctor finds."""
        self.last = list(examined(self.leaf.directory / "server.conf", None, None, None, 25.0))
        return self.last

    def linked(self, account: str) -> None:
        """Returns when the daemon says so."""
        url = f"http://127.0.0.1:{self.leaf.ports['http_port']}/varz"

        def connected() -> list[bool]:
            with urllib.request.urlopen(url, timeout=10) as answer:
                remotes = json.load(answer)["leafd"]["remotes"]
            return [one["connected"] for one in remotes if one["account"] == account]

        eventually(lambda: connected() == [True], connected)

    def until(self, check: Check, about: str, level: Level, word: str = "") -> Finding:
        """The finding about something; it may take its time until both sides know of what was just done."""

        end = time.monotonic() + PATIENCE_S
        found = self.last if self.unchanging and self.last else self.findings()
        while True:
            for one in found:
                if (one.check, one.level) == (check, level) and about in one.about and word in one.text:
                    return one
            wrong = [one for one in found if one.level != Level.WELL]
            assert time.monotonic() < end, f"{check} {level} of {about} was not found, but {wrong}"
            found = self.findings()


def leaf_of(hub: servers.Server, folder: Path, name: str, domain: str, users: dict[str, str]) -> servers.Server:
    """A leaf, not started, with an account for each of these users of the hub, which has a user of that name as well;
    each may have more in its remote. An account B has no link."""
    url = f"127.0.0.1:{hub.ports['leaf_port']}"
    remotes = [
        f'{{ url: "nats-leaf://{user}:p{user}@{url}", account: {user.upper()} {more} }}' for user, more in users.items()
    ]
    accounts = [
        f"{user.upper()} {{ jetstream: enabled, users: [ {{ user: {user}, password: p{user} }} ] }}"
        for user in (*users, "b")
    ]
    text = LEAF.replace("REMOTES", "\n".join(remotes)).replace("ACCOUNTS", "\n".join(accounts))
    if "box" not in users:
        text = text.replace("no_auth_user: box", "no_auth_user: b")
    (folder / name).mkdir()
    return servers.make(servers.LEAFD, text, folder / name, server_name=name, domain=domain)


@contextlib.contextmanager
def started(leaf: servers.Server) -> Iterator[servers.Server]:
    leaf.start()
    try:
        yield leaf
    finally:
        leaf.stop()


@pytest.fixture(scope="module", params=servers.KINDS)
def hub(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    with servers.running(request.param, HUB) as server:
        yield server


@pytest.fixture(scope="module")
def pair(hub: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A leaf as it should be; its account BOX is linked to the hub's BOXES."""
    with started(leaf_of(hub, tmp_path_factory.mktemp("flows"), "edge", "edge", {"box": ""})) as leaf:
        yield Pair(hub, leaf)


@pytest.fixture(scope="module")
def odd(hub: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A leaf with a link for each user of the hub with whom something is wrong, and streams that need those links."""
    users = dict.fromkeys(("other", "none", "one", "few", "enough", "nobody"), "")
    users["mute"] = ', deny_exports: "$JS.hub.API.>"'
    with started(leaf_of(hub, tmp_path_factory.mktemp("odd"), "odd", "odd", users)) as leaf:
        pair = Pair(hub, leaf, unchanging=True)
        pair.linked("ONE")  # or the doctor would take the daemon's place
        made(leaf, "none", name="MN", mirror=down("C"))
        made(hub, name="MINE", subjects=["mine"])
        made(leaf, "other", name="MM", mirror=down("MINE"))
        made(leaf, "few", name="MD", mirror=down("C"))
        made(hub, "all", name="CE", subjects=["ce"], messages=3)
        made(leaf, "enough", name="TE", subjects=["te"], messages=3)
        made(leaf, "enough", name="ME", mirror=down("CE"))
        made(hub, "all", name="AE", sources=[down("TE", "$JS.odd.API")])
        yield pair


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
        await must(client, f"$JS.API.STREAM.CREATE.{config['name']}", config)
        for _ in range(messages):
            await client.jetstream().publish(config["subjects"][0], b"x", timeout=10)

    at(server, make, user)


def deleted(server: servers.Server, *names: str) -> None:
    async def delete(client: Client) -> None:
        for name in names:
            await ask(client, f"$JS.API.STREAM.DELETE.{name}")

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
        while wrong := [one for one in pair.findings() if one.level != Level.WELL and one.check not in SLOW]:
            assert time.monotonic() < end, wrong
    finally:
        deleted(pair.hub, "C", "ALL")
        deleted(pair.leaf, "T", "M")


def test_nothing_of_an_examination_is_left(pair: Pair) -> None:
    """No stream has a message more, no link stays, although one stream of the leaf captures every subject."""
    made(pair.leaf, name="EVERYTHING", subjects=["*", "*.>"], no_ack=True)
    counts: list[int] = []

    async def count(client: Client) -> None:
        state = (await ask(client, "$JS.API.STREAM.INFO.EVERYTHING", {"subjects_filter": ">"}))["state"]
        assert not [one for one in state.get("subjects") or () if "doctor" in one]
        counts.append(state["messages"])

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
        # As many as before: sequences alone would not tell, and the mirror cannot take any of them meanwhile.
        made(pair.hub, name="OLD", subjects=["old"], messages=4)
        found = pair.until(Check.ORIGIN_NEW, "mirror of OLD in MO", Level.FAULT)
    finally:
        deleted(pair.hub, "OLD")
        deleted(pair.leaf, "MO")
    assert "delete the mirror and make it anew" in found.owner


def stored(server: servers.Server, stream: str) -> int:
    """How many messages it has."""
    counts: list[int] = []

    async def look(client: Client) -> None:
        counts.append((await ask(client, f"$JS.API.STREAM.INFO.{stream}"))["state"]["messages"])

    at(server, look)
    return counts[0]


def test_a_store_that_was_put_back_from_an_older_copy_is_a_fault(
    hub: servers.Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The hub has more of a stream than the box; the advice moves the stream on, and what comes then arrives."""
    leaf = leaf_of(hub, tmp_path_factory.mktemp("back"), "back", "back", {"box": ""})
    store, copy = leaf.directory / "store", leaf.directory / "copy"

    def publish(count: int, expected: int) -> None:
        async def send(client: Client) -> None:
            for _ in range(count):
                await client.jetstream().publish("tk", b"x", timeout=10)

        at(leaf, send)
        eventually(lambda: stored(hub, "AK") == expected, lambda: stored(hub, "AK"))

    with started(leaf):
        made(leaf, name="TK", subjects=["tk"])
        made(hub, name="AK", sources=[down("TK", "$JS.back.API")])
        publish(3, 3)
    shutil.copytree(store, copy)
    with started(leaf):
        publish(5, 8)
    shutil.rmtree(store)
    copy.rename(store)
    try:
        with started(leaf):
            found = Pair(hub, leaf).until(Check.ORIGIN_OLD, "source of TK in AK at the hub", Level.FAULT)
            assert ("up to 8" in found.text, "this box up to 3" in found.text) == (True, True)
            assert "nats stream purge TK --seq 9 --force" in found.owner
            at(leaf, lambda client: purged(client, "TK", 9))
            publish(2, 10)
    finally:
        deleted(hub, "AK")


async def purged(client: Client, stream: str, sequence: int) -> None:
    await must(client, f"$JS.API.STREAM.PURGE.{stream}", {"seq": sequence})


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
                await ask(client, f"$JS.API.STREAM.DELETE.{name}")

        at(pair.leaf, delete, "b")
    assert ("account: B" in here.owner, "account: B" in there.owner) == (True, True)


def test_subjects_that_both_sides_capture_are_stored_twice(pair: Pair) -> None:
    """A warning; a fault where the hub takes the same messages by a source as well."""
    made(pair.leaf, name="TT", subjects=["tt.>"])
    made(pair.hub, name="HT", subjects=["tt.a.*"])
    try:
        found = pair.until(Check.DOUBLE_COPY, "TT and HT", Level.WARNING)
        assert "deny_exports: tt.>" in found.owner
        deleted(pair.hub, "HT")
        made(pair.hub, name="HT", subjects=["tt.>"], sources=[down("TT", "$JS.edge.API")])
        found = pair.until(Check.DOUBLE_COPY, "TT and HT", Level.FAULT)
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


def test_a_hub_without_room_for_a_second_link_leaves_the_rest_unproven(odd: Pair) -> None:
    """The account takes one leaf, and the daemon is that one: that is no fault."""
    found = odd.until(Check.HUB_LOGIN, "(ONE)", Level.UNPROVEN)
    assert "max_leafnodes" in found.operator


def test_an_account_without_jetstream_at_the_hub_is_a_fault(odd: Pair) -> None:
    """The box logs in as a user of an account that has no streams, and has a mirror of one."""
    found = odd.until(Check.HUB_JETSTREAM, "(NONE)", Level.FAULT)
    assert ("account NONE has no JetStream" in found.text, "account NONE" in found.operator) == (True, True)


def test_the_wrong_account_at_the_hub_does_not_have_the_origin(odd: Pair) -> None:
    """The credentials are of another account than the stream: its name is said, and what each side can do."""
    found = odd.until(Check.ORIGIN, "mirror of MINE in MM", Level.FAULT)
    assert ("the account OTHER at the hub" in found.text, "log in as a user of that one" in found.owner) == (True, True)


def test_denied_subjects_are_named_with_the_right_that_is_missing(odd: Pair) -> None:
    """The box's user may send probes and nothing else."""
    api = odd.until(Check.RIGHTS, "(FEW)", Level.FAULT)
    mirror = odd.until(Check.RIGHTS, "mirror of C in MD", Level.FAULT)
    odd.until(Check.FLOW_UP, "(FEW)", Level.WELL)
    assert "publish $JS.hub.API.INFO" in api.operator
    assert "publish $JS.hub.API.CONSUMER.>" in mirror.operator
    assert "subscribe $JS.M.x" in mirror.operator


def test_the_rights_that_the_page_names_are_enough(odd: Pair) -> None:
    """A mirror and a source flow with them, and the doctor finds nothing wrong."""
    odd.until(Check.ORIGIN, "mirror of CE in ME", Level.WELL, "nothing behind; the origin has 3")
    odd.until(Check.ORIGIN, "source of TE in AE at the hub", Level.WELL, "nothing behind; the origin has 3")
    odd.until(Check.FLOW_UP, "(ENOUGH)", Level.WELL)
    wrong = [one for one in odd.last if "(ENOUGH)" in one.about and one.level in (Level.FAULT, Level.WARNING)]
    assert [] == wrong


def test_what_the_remote_itself_denies_is_found(odd: Pair) -> None:
    """The hub's API is answered there, and cannot be asked from here."""
    found = odd.until(Check.API_UP, "(MUTE)", Level.FAULT)
    assert "deny_exports" in found.owner


def test_a_link_that_is_down_is_told_with_the_daemons_reason(odd: Pair) -> None:
    """The daemon is refused as the doctor is."""
    odd.until(Check.LINK, "127.0.0.1", Level.FAULT, "uthorization")
    odd.until(Check.HUB_LOGIN, "(NOBODY)", Level.FAULT)


def test_two_boxes_of_the_same_domain_are_found(hub: servers.Server, tmp_path: Path) -> None:
    """A box that was copied with its configuration answers for the other one, too."""
    with (
        started(leaf_of(hub, tmp_path, "twin", "twin", {"box": ""})) as leaf,
        started(leaf_of(hub, tmp_path, "copy", "twin", {"box": ""})),
    ):
        found = Pair(hub, leaf).until(Check.DOMAIN, "127.0.0.1", Level.FAULT)
    assert '2 servers answer at the hub as the domain "twin"' in found.text


def test_a_hub_is_examined_too_without_its_configuration(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its monitoring port alone, which a nats-server has as well; with the configuration also what its streams take
    from leaves: one is away."""
    monkeypatch.setattr("leafd.cli.doctor.CONFIGURATION", Path("/nonexistent"))
    monkeypatch.setattr("leafd.cli.pages.CONFIGURATION", Path("/nonexistent"))
    made(pair.leaf, name="TH", subjects=["th"])
    made(pair.hub, "other", name="AW", sources=[down("TH", "$JS.away.API")])
    url = f"http://127.0.0.1:{pair.hub.ports['http_port']}"
    try:
        bare = examined(None, url, None, None, 25.0)
        found = examined(pair.hub.directory / "server.conf", None, None, None, 25.0)
    finally:
        deleted(pair.leaf, "TH")

        async def delete(client: Client) -> None:
            await ask(client, "$JS.API.STREAM.DELETE.AW")

        at(pair.hub, delete, "other")
    assert [True] == ["hub answers" in one.text for one in bare if (one.check, one.level) == (Check.DAEMON, Level.WELL)]
    assert {Check.DISK_SPEED, Check.DISK_ROOM} <= {one.check for one in bare}
    away = [one.level for one in found if (one.check, one.about) == (Check.ORIGIN, "source of TH in AW")]
    assert [Level.WARNING] == away, found
