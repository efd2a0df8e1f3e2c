"""Streams of three servers, each a cluster of its own: placed on one, found from all, as at nats-servers.

The line-up is that of seed 003. One of nats-servers and one of leafd are asked the same, and their answers are compared
without what only time or chance says. The tests follow one another, and the last ones kill servers.
Not here: the group without streams (test_meta_group.py), rows and letters as machines (tests/unit/cluster).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, PubAck, StreamSource

from tests import servers
from tests.rig.comparison import asked_again
from tests.rig.official import connect, one_each
from tests.rig.reports import report
from tests.rig.waiting import AGAIN_S, eventually, until

L, R = servers.LEAFD, servers.REFERENCE
CLUSTERS = ("east", "central", "west")
CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
server_tags: [ "at:{name}" ]
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled }
  B { users: [ {user: b, password: b} ], jetstream: { max_file: 10000, max_streams: 4 } }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
leafnodes { listen: "127.0.0.1:{leaf_port}" }
jetstream { store_dir: "{store}", domain: hub, {meta} }
cluster { name: "{cluster}", listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{route_port}" ] }
gateway { name: "{cluster}", listen: "127.0.0.1:{gateway_port}", gateways: [ {gateways} ] }
"""
LEAF = """
listen: "127.0.0.1:{port}"
server_name: box
accounts { A { users: [ {user: a, password: a} ], jetstream: enabled } }
jetstream { store_dir: "{store}", domain: box }
leafnodes { remotes: [ { url: "nats-leaf://a:a@127.0.0.1:{hub_port}", account: A } ] }
"""
META = {L: "meta_size: 3", R: "max_file: 1GB"}
Answer = dict[str, Any] | str
Asked = tuple[int, str, object]
"""The server, what is asked of it, and the body."""


class Three:
    """Three servers that are up, and who leads them."""

    def __init__(self, made: list[servers.Server]) -> None:
        self.servers = made

    def whole(self, *numbers: int) -> None:
        """These servers are well, and agree on who leads."""
        up = [self.servers[number] for number in numbers or (0, 1, 2)]

        def leaders() -> set[str]:
            return {leader_at(server) for server in up}

        eventually(lambda: len(found := leaders()) == 1 and "" not in found, leaders)

    @contextlib.asynccontextmanager
    async def clients_for(self, questions: list[Asked], user: str) -> AsyncIterator[dict[int, Client]]:
        """A client at each server that is asked, by its number."""
        numbers = sorted({number for number, _, _ in questions})
        async with one_each([self.servers[number] for number in numbers], user) as clients:
            yield dict(zip(numbers, clients, strict=True))

    async def ask(self, questions: list[Asked], seconds: float = 20.0, user: str = "a") -> list[Answer]:
        """What clients at these servers are answered, one after the other."""
        async with self.clients_for(questions, user) as at:
            return [await asked(at[number], subject, body, seconds) for number, subject, body in questions]


async def asked(client: Client, subject: str, body: object, seconds: float) -> Answer:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    try:
        answer: Answer = json.loads((await client.request(f"$JS.API.{subject}", payload, timeout=seconds)).data)
    except nats.errors.NoRespondersError:
        return "nobody"
    return answer


def members(answer: Answer) -> dict[str, Any]:
    assert isinstance(answer, dict), answer
    return answer


def told(answer: Answer) -> Any:
    """An answer without what only time, versions and leafd itself say."""
    text = re.sub(r'"\d{4}-\d\d-\d\dT[^"]*"', '"a time"', json.dumps(answer))
    text = re.sub(r'"_nats.ver": "[^"]*"', '"_nats.ver": ""', text)

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if name not in ("leafd", "api", "limits", "domain")}
        return value

    return plain(json.loads(text))


def is_led_by(server: servers.Server, name: str) -> bool:
    return leader_at(server) == name


def ended(server: servers.Server) -> None:
    if server.process is not None:
        server.stop()


def leader_at(server: servers.Server) -> str:
    """The leader that a server names; "": it knows of none."""
    return str(report(server, "jsz").get("meta_cluster", {}).get("leader", ""))


@contextlib.contextmanager
def started(kind: str, folder: Path) -> Iterator[Three]:
    made: list[servers.Server] = []
    with contextlib.ExitStack() as stack:
        for number, cluster in enumerate(CLUSTERS):
            place = folder / f"{kind}{number}"
            place.mkdir()
            ports: list[tuple[str, object]] = [
                (one, server.ports["gateway_port"]) for one, server in zip(CLUSTERS, made, strict=False)
            ]
            ports += [(cluster, "{gateway_port}")]
            gateways = ", ".join(f'{{ name: "{name}", url: "nats://127.0.0.1:{port}" }}' for name, port in ports)
            text = CONFIG.replace("{gateways}", gateways)
            made.append(servers.make(kind, text, place, name=f"n{number + 1}", cluster=cluster, meta=META[kind]))
        for server in made:
            stack.callback(ended, server)
            server.start()
        three = Three(made)
        three.whole()
        yield three


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Three]]:
    """A supercluster of nats-servers and one of leafd."""
    folder = tmp_path_factory.mktemp("placed")
    with started(R, folder) as theirs, started(L, folder) as ours:
        yield {R: theirs, L: ours}


def same(both: dict[str, Three], questions: list[Asked], user: str = "a") -> list[Answer]:
    """Both answer the same. Returns what leafd answers."""

    async def ask() -> list[Answer]:
        ours = await both[L].ask(questions, user=user)
        async with both[R].clients_for(questions, user) as at:
            for (number, subject, body), own in zip(questions, ours, strict=True):
                again = partial(asked, at[number], subject, body, 20)
                theirs = await asked_again(again, lambda answer, own=own: told(answer) == told(own))  # type: ignore[misc]
                assert told(theirs) == told(own), (number, subject, body)
        return ours

    return asyncio.run(ask())


def test_an_account_reserves_no_more_than_it_may_on_all_servers_together(both: dict[str, Three]) -> None:
    """Streams with max_bytes, wherever each is placed; an update that takes less is no question."""

    def at(cluster: str, name: str, most: int, **more: Any) -> dict[str, Any]:
        return stream(name, name.lower(), max_bytes=most, placement={"cluster": cluster}, **more)

    answers = same(
        both,
        [
            (0, "STREAM.CREATE.BE", at("east", "BE", 6000)),
            (1, "STREAM.CREATE.BC", at("central", "BC", 6000)),
            (1, "STREAM.CREATE.BC", at("central", "BC", 4000)),
            (2, "STREAM.CREATE.BW", at("west", "BW", 1)),
            (2, "STREAM.UPDATE.BC", at("central", "BC", 4001)),
            (2, "STREAM.UPDATE.BC", at("central", "BC", 3000)),
            (0, "STREAM.UPDATE.BE", at("east", "BE", 7001)),
            (0, "STREAM.UPDATE.BE", at("east", "BE", 7000)),
            (2, "STREAM.CREATE.BM", at("west", "BM", 6000, storage="memory")),
            (2, "STREAM.CREATE.BX", at("west", "BX", -1)),
            (1, "STREAM.CREATE.BY", stream("BY", "be")),
            (0, "INFO", None),
            (1, "STREAM.DELETE.BE", None),
            (2, "STREAM.CREATE.BW", at("west", "BW", 7000)),
            *((0, f"STREAM.DELETE.{name}", None) for name in ("BC", "BM", "BW", "BX")),
        ],
        user="b",
    )
    refused = [n for n, answer in enumerate(answers) if isinstance(answer, dict) and "error" in answer]
    assert refused[:4] == [1, 3, 4, 6]


async def published(at: JetStreamContext, subject: str, payload: bytes) -> PubAck:
    """A new stream's interest may still be on its way to this server."""
    while True:
        with contextlib.suppress(nats.js.errors.NoStreamResponseError):
            return await at.publish(subject, payload, timeout=20)
        await asyncio.sleep(AGAIN_S)


def stream(name: str, *subjects: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "subjects": list(subjects)} | more


def test_a_stream_is_placed_on_one_server_and_asked_for_at_all(both: dict[str, Three]) -> None:
    """Create, info, names, lists, updates, and what is refused, from each of the three."""
    consumer = {"stream_name": "S", "config": {"name": "c", "durable_name": "c", "ack_policy": "explicit"}}
    questions: list[Asked] = [
        (0, "STREAM.CREATE.S", stream("S", "s.>")),
        (1, "STREAM.CREATE.W", stream("W", "w.>", placement={"cluster": "west"})),
        (2, "STREAM.CREATE.T", stream("T", "t.>", placement={"cluster": "central", "tags": ["AT:n2"]})),
        (1, "STREAM.CREATE.S", stream("S", "s.>")),
        (1, "STREAM.CREATE.S", stream("S", "other.>")),
        (1, "STREAM.CREATE.X", stream("X", "s.1")),
        (1, "STREAM.CREATE.X", stream("X", "x", placement={"cluster": "nowhere"})),
        (1, "STREAM.CREATE.X", stream("X", "x", placement={"tags": ["a"]})),
        (1, "STREAM.CREATE.X", stream("X", "x", placement={"cluster": "west", "tags": ["at:n1"]})),
        (1, "STREAM.CREATE.X", stream("X", "x", placement={"cluster": "central", "tags": ["!at:n2"]})),
        (1, "STREAM.CREATE.Y", stream("X", "x")),
        (2, "CONSUMER.CREATE.S.c", consumer),
        (2, "STREAM.UPDATE.S", stream("S", "s.>", max_msgs=10)),
        (2, "STREAM.UPDATE.S", stream("S", "s.>", "w.1")),
        (2, "STREAM.UPDATE.NONE", stream("NONE", "q")),
        (2, "STREAM.LEADER.STEPDOWN.S", None),
        (2, "STREAM.PEER.REMOVE.S", {"peer": "n1"}),
        (1, "STREAM.DELETE.NONE", None),
        (2, "STREAM.DELETE.T", None),
        (0, "STREAM.INFO.T", None),
        (0, "STREAM.NAMES", {"subject": "w.1"}),
    ]
    for number in range(3):
        for subject in (
            "STREAM.INFO.S", "STREAM.INFO.W", "STREAM.INFO.NONE", "STREAM.NAMES", "STREAM.LIST", "CONSUMER.INFO.S.c",
            "CONSUMER.INFO.S.none", "CONSUMER.INFO.NONE.c", "CONSUMER.NAMES.S", "CONSUMER.LIST.S", "INFO",
        ):  # fmt: skip
            questions.append((number, subject, None))
    questions += [(1, "CONSUMER.DELETE.S.c", None), (1, "CONSUMER.NAMES.S", None)]
    answers = same(both, questions)
    assert [members(answers[n])["cluster"]["leader"] for n in range(3)] == ["n1", "n3", "n2"]


def test_messages_are_published_read_and_acknowledged_at_any_server(both: dict[str, Three]) -> None:
    """Pulls, pushes, direct gets, a bucket, a mirror and a source, each at another server than the stream."""

    async def walk(three: Three) -> list[object]:
        found: list[object] = []
        async with one_each(three.servers) as clients:
            at = [client.jetstream() for client in clients]
            await at[0].add_stream(name="P", subjects=["p.>"], allow_direct=True)
            for number in range(3):
                for count in range(3):
                    acked = await published(at[number], f"p.{number}.{count}", b"%d" % count)
                    found.append((acked.stream, acked.seq))
            pull = await at[2].pull_subscribe("p.>", durable="d", stream="P")
            left = 9
            while left:  # a fetch may end with fewer
                for message in await pull.fetch(left, timeout=20):
                    await message.ack_sync()
                    found.append(message.subject)
                    left -= 1
            found.append((await at[1].consumer_info("P", "d")).ack_floor.stream_seq)
            push = await at[1].subscribe("p.>", stream="P", config=ConsumerConfig(deliver_policy=None), manual_ack=True)
            for _ in range(9):
                message = await push.next_msg(timeout=20)
                await message.ack_sync()
                found.append(message.subject)
            for client in clients:
                found.append((await client.request("$JS.API.DIRECT.GET.P.p.1.1", timeout=20)).data)
                found.append((await client.request("$JS.API.DIRECT.GET.P", b'{"seq":3}', timeout=20)).data)
            await (await at[1].create_key_value(bucket="B")).put("k", b"v")
            found.append((await (await at[2].key_value("B")).get("k")).value)
            await at[1].add_stream(name="M", mirror=StreamSource(name="P"))
            await at[2].add_stream(name="Q", sources=[StreamSource(name="P")])

            async def copied() -> bool:
                return all([(await at[0].stream_info(name)).state.messages == 9 for name in ("M", "Q")])

            await until(copied, "a copy lacks something")
            for name in ("P", "M", "Q", "KV_B"):
                found.append(await at[1].delete_stream(name))
        return found

    theirs, ours = (asyncio.run(walk(both[kind])) for kind in (R, L))
    assert theirs == ours


def test_a_stream_moves_to_another_cluster_when_its_placement_says_so(both: dict[str, Three]) -> None:
    """With its messages, and back; a cluster that there is not is refused."""

    async def walk(three: Three) -> list[object]:
        found: list[object] = []
        async with one_each(three.servers) as clients:
            await clients[0].jetstream().add_stream(name="MV", subjects=["mv.>"])
            for count, cluster in enumerate(("west", "nowhere", "central", "east"), start=1):
                await published(clients[0].jetstream(), "mv.a", b"x")

                said: dict[str, Any] = {}

                async def there(
                    client: Client = clients[1], count: int = count, cluster: str = cluster, said: dict[str, Any] = said
                ) -> bool:
                    config = stream("MV", "mv.>", placement={"cluster": cluster})
                    if "config" not in said:  # a nats-server that is asked again and again does not come to move it
                        said.clear()
                        said.update(members(await asked(client, "STREAM.UPDATE.MV", config, 10)))
                    try:
                        info = members(await asked(client, "STREAM.INFO.MV", None, 3))
                    except nats.errors.TimeoutError:  # a nats-server answers nothing while the lead goes over
                        return False
                    # (A busy nats-server that does not hear of a cluster for a moment does not place a stream there.)
                    no_place = said.get("error", {}).get("err_code") == 10005
                    refused = no_place and (cluster not in CLUSTERS or three is both[L])
                    state = (info.get("cluster", {}).get("leader"), info.get("state", {}).get("messages"))
                    wanted = f"n{CLUSTERS.index(cluster) + 1}" if cluster in CLUSTERS else ""
                    if refused or state == (wanted, count):
                        found.append(said["error"] if refused else state)
                        return True
                    return False

                await until(there, lambda: found)
            await clients[2].jetstream().delete_stream("MV")
        return found

    ours, theirs = (asyncio.run(walk(both[kind])) for kind in (L, R))
    assert ours == theirs


def test_a_restored_stream_is_taken_in_by_the_group(both: dict[str, Three]) -> None:
    """Backed up at one server, deleted, restored at another one, found at the third."""

    async def walk(three: Three) -> list[object]:
        async with one_each(three.servers) as clients:
            at = [client.jetstream() for client in clients]
            await at[0].add_stream(name="BACKUP", subjects=["backup"])
            for count in range(3):
                await published(at[1], "backup", b"%d" % count)
            inbox = clients[1].new_inbox()
            chunks = await clients[1].subscribe(inbox)
            body = json.dumps({"deliver_subject": inbox}).encode()
            told = json.loads((await clients[1].request("$JS.API.STREAM.SNAPSHOT.BACKUP", body, timeout=20)).data)
            parts: list[bytes] = []
            while chunk := (await chunks.next_msg(timeout=20)):
                if not chunk.data:
                    break
                parts.append(chunk.data)
                if chunk.reply:
                    await chunk.respond(b"")
            await at[2].delete_stream("BACKUP")
            body = json.dumps({"config": told["config"], "state": told["state"]}).encode()
            begun = json.loads((await clients[2].request("$JS.API.STREAM.RESTORE.BACKUP", body, timeout=20)).data)
            for part in (*parts, b""):
                last = await clients[2].request(begun["deliver_subject"], part, timeout=20)
            found: list[object] = [json.loads(last.data)["state"]["messages"]]

            async def known() -> bool:
                return "BACKUP" in [one.config.name for one in await at[0].streams_info()]

            await until(known, "the group does not know it")
            found.append((await at[1].get_msg("BACKUP", 2)).data)
            found.append(await at[1].delete_stream("BACKUP"))
        return found

    theirs, ours = (asyncio.run(walk(both[kind])) for kind in (R, L))
    assert theirs == ours == [3, b"1", True]


def test_a_leaf_copies_streams_of_all_servers_by_the_one_that_it_is_linked_with(
    both: dict[str, Three], tmp_path: Path
) -> None:
    """What a consumer delivers comes behind the answer that tells of it, also from another server."""

    async def walk(box: servers.Server) -> None:
        async with one_each([*both[L].servers, box]) as clients:
            at = [client.jetstream() for client in clients]
            for number in range(3):
                await at[number].add_stream(name=f"CMD{number}", subjects=[f"cmd{number}"])
                await published(at[number], f"cmd{number}", b"x")
                mirror = {"name": f"CMD{number}", "external": {"api": "$JS.hub.API"}}
                answer = await asked(
                    clients[3], f"STREAM.CREATE.M{number}", {"name": f"M{number}", "mirror": mirror}, 20
                )
                assert "error" not in members(answer)
            await at[3].add_stream(name="TEL", subjects=["tel"])
            await published(at[3], "tel", b"x")
            sources = [{"name": "TEL", "external": {"api": "$JS.box.API"}}]
            answer = await asked(clients[0], "STREAM.CREATE.ALL", {"name": "ALL", "sources": sources}, 20)
            assert members(answer)["cluster"]["leader"] == "n1"

            async def copied() -> bool:
                found = [(await at[3].stream_info(f"M{number}")).state.messages for number in range(3)]
                return [*found, (await at[2].stream_info("ALL")).state.messages] == [1, 1, 1, 1]

            await until(copied, "a copy lacks something")
            for name in ("CMD0", "CMD1", "CMD2", "ALL"):
                await at[1].delete_stream(name)

    hub_port = both[L].servers[1].ports["leaf_port"]
    box = servers.make(L, LEAF, tmp_path, hub_port=hub_port)
    box.start()
    try:
        asyncio.run(walk(box))
    finally:
        box.stop()


def test_operators_order_the_group_as_they_do_nats_servers(both: dict[str, Three]) -> None:
    """The lead is handed over; what does not fit is refused in the reference's words."""
    orders: list[tuple[str, bytes]] = [
        ("META.LEADER.STEPDOWN", b'{"placement":{"cluster":"nope"}}'),
        ("META.LEADER.STEPDOWN", b'{"placement":{"preferred":"n9"}}'),
        ("SERVER.REMOVE", b'{"peer":"n9"}'),
        ("SERVER.REMOVE", b""),
        ("SERVER.REMOVE", b"{"),
    ]

    async def order(three: Three) -> list[Answer]:
        client = await connect(three.servers[1], "sys")
        found = [await asked(client, subject, body, 20) for subject, body in orders]
        await client.close()
        return found

    theirs, ours = (asyncio.run(order(both[kind])) for kind in (R, L))
    assert theirs == ours

    async def moved(three: Three, to: int) -> Answer:
        client = await connect(three.servers[0], "sys")
        body = json.dumps({"placement": {"cluster": CLUSTERS[to]}}).encode()
        answer = await asked(client, "META.LEADER.STEPDOWN", body, 20)
        await client.close()
        return answer

    first = report(both[L].servers[0], "jsz")["meta_cluster"]["leader"]
    for to in (number for number in range(3) if f"n{number + 1}" != first):
        wanted = {"type": "io.nats.jetstream.api.v1.meta_leader_stepdown_response", "success": True}
        assert asyncio.run(moved(both[L], to)) == wanted
        eventually(partial(is_led_by, both[L].servers[to], f"n{to + 1}"))
        both[L].whole()


def test_raftz_shows_the_group_of_all_servers_as_nats_servers_do(both: dict[str, Three]) -> None:
    """leafd leaves out what it does not have: queues, and the times of its log's entries."""

    def group(server: servers.Server) -> dict[str, Any]:
        found: dict[str, Any] = report(server, "raftz?group=_meta_")["SYS"]["_meta_"]
        return found

    def at_once(kind: str) -> list[dict[str, Any]]:
        return [group(server) for server in both[kind].servers]

    def told(rows: list[dict[str, Any]]) -> object:
        """What does not depend on who leads, how often and how far."""
        assert sorted(row["state"] for row in rows) == ["FOLLOWER", "FOLLOWER", "LEADER"]
        assert len({row["leader"] for row in rows}) == 1
        leader = next(row for row in rows if row["state"] == "LEADER")
        assert leader["id"] == leader["leader"] == leader["voted_for"]
        assert [row["id"] for row in rows if "leader_since" in row] == [leader["id"]]
        assert all(0 < row["pterm"] <= row["term"] for row in rows)
        assert all((row["wal"]["bytes"] > 0) == (row["wal"]["messages"] > 0) for row in rows)
        assert all(peer["last_replicated_index"] <= leader["pindex"] for peer in leader["peers"].values())
        assert all("last_seen" in peer for peer in leader["peers"].values())
        kept = ("id", "size", "quorum_needed", "ever_had_leader", "system_account", "traffic_account")
        return [
            ({name: row[name] for name in kept}, sorted((one, peer["name"]) for one, peer in row["peers"].items()))
            for row in rows
        ]

    theirs, ours = at_once(R), at_once(L)
    assert told(theirs) == told(ours)
    missing = {name for row in theirs for name in row if not name.startswith("ipq_")} - {
        name for row in ours for name in row
    }
    assert missing == set()
    of_log = {name for row in theirs for name in row["wal"]} - {name for row in ours for name in row["wal"]}
    assert of_log == {"first_ts", "last_ts", "consumer_count"}
    assert {name for row in ours for name in row} <= {name for row in theirs for name in row}
    for asked in ("raftz?acc=NONE", "raftz?acc=A&group=_meta_"):
        assert report(both[R].servers[0], asked) == report(both[L].servers[0], asked) == {}
    for kind in (R, L):
        assert [report(server, "jsz")["ha_assets"] for server in both[kind].servers] == [1, 1, 1]


def test_a_server_that_is_killed_takes_its_streams_along_and_brings_them_back(both: dict[str, Three]) -> None:
    """The others' go on; what is deleted meanwhile is gone when it is back. A minority says that it is one."""
    three = both[L]
    made: list[Asked] = [(0, f"STREAM.CREATE.{name}", stream(name, f"{name}.>")) for name in ("KEPT", "DELETED")]
    for answer in asyncio.run(three.ask(made)):
        assert members(answer)["cluster"]["leader"] == "n1"
    three.servers[0].kill()
    three.whole(1, 2)
    questions: list[Asked] = [
        (1, "STREAM.INFO.KEPT", None),
        (2, "STREAM.DELETE.DELETED", None),
        (1, "STREAM.NAMES", None),
        (1, "STREAM.LIST", None),
        (1, "CONSUMER.MSG.NEXT.KEPT.c", None),
        (2, "STREAM.CREATE.NEW", stream("NEW", "new")),
        (1, "STREAM.INFO.NEW", None),
    ]
    info, deleted, names, listed, pulled, new, found = asyncio.run(three.ask(questions))
    assert members(info)["error"]["err_code"] == 10118
    assert members(deleted)["success"] is True
    assert members(names)["streams"] == ["KEPT", "S", "W"]
    assert [one["config"]["name"] for one in members(listed)["streams"]] == ["W"]
    assert members(listed)["missing"] == ["KEPT", "S"]
    assert pulled == "nobody"
    assert members(new)["cluster"] == members(found)["cluster"] == {"name": "west", "leader": "n3"}
    minority(both)
    three.servers[0].start()
    three.servers[1].start()
    three.whole()

    def here() -> list[str]:
        details = report(three.servers[0], "jsz?streams=1")["account_details"]
        return sorted(one["name"] for account in details for one in account.get("stream_detail", []))

    eventually(lambda: here() == ["KEPT", "S"], here)


def minority(both: dict[str, Three]) -> None:
    """One server of three, as of nats-servers: streams are neither made nor listed, and its own go on."""
    both[L].servers[1].kill()
    for server in both[R].servers[:2]:
        server.kill()
    for three in both.values():
        eventually(partial(is_led_by, three.servers[2], ""))
    answers = same(both, [(2, f"STREAM.{one}", None) for one in ("NAMES", "LIST", "INFO.W", "DELETE.W")])
    assert [members(one).get("error", {}).get("err_code") for one in answers] == [10008, 10008, None, 10008]

    async def last(three: Three) -> tuple[str, int]:
        client = await connect(three.servers[2])
        acked = await published(client.jetstream(), "w.1", b"1")
        await client.close()
        return acked.stream, acked.seq

    assert [asyncio.run(last(three)) for three in both.values()] == [("W", 1), ("W", 1)]


def test_a_wiped_server_makes_what_is_placed_on_it_anew_and_says_so(both: dict[str, Three]) -> None:
    """Its messages are gone, and nobody is told otherwise."""
    three = both[L]
    wiped = three.servers[0]
    # What was deleted until now was not made again by those who were told of it late.
    assert [] == [server.log for server in three.servers if "made, empty" in server.log]
    wiped.stop()
    shutil.rmtree(wiped.directory / "store")
    seen = len(wiped.log)
    wiped.start()
    three.whole()

    async def there() -> bool:
        (answer,) = await three.ask([(1, "STREAM.INFO.KEPT", None)])
        return bool(members(answer).get("cluster", {}).get("leader") == "n1")

    eventually(lambda: asyncio.run(there()))
    assert "which did not have it: made, empty" in wiped.log[seen:]
