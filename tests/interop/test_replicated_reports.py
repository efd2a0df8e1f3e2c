"""Reports on streams that three servers keep: what each server says of itself and of them, as at three nats-servers.

The same is asked of three nats-servers and of three leafd. Not here: raftz and a stream's row in jsz
(test_replicated_streams.py), reports of a lone server (test_report_parity.py, test_report_options.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from nats.js import JetStreamContext

from tests import servers
from tests.interop.test_meta_group import L, R, leader_of, led
from tests.interop.test_replicated_consumers import fetched, published
from tests.interop.test_replicated_streams import led_by
from tests.rig.comparison import told_alike
from tests.rig.official import ask, ask_all, connect, patiently
from tests.rig.reports import page, report
from tests.rig.waiting import eventually, until

STREAM = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
ALONE = {"name": "T", "subjects": ["t.>"]}
CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}


async def prepared(made: list[servers.Server]) -> str:
    """A stream of three servers with a consumer, and one of one server; who leads the first."""
    client = await connect(made[0])
    for config in (STREAM, ALONE):
        await patiently(client, f"STREAM.CREATE.{config['name']}", config)
    await patiently(client, "CONSUMER.CREATE.S.C", CONSUMER)
    leader = await led_by(client)
    await client.close()
    return leader


def shared_by(made: list[servers.Server]) -> bool:
    """Whether each server has the stream of three."""
    return all(any(row["name"] == "S" for row in details(server)) for server in made)


def details(server: servers.Server, more: str = "") -> list[dict[str, Any]]:
    """The rows of the account's streams in jsz."""
    accounts = report(server, f"jsz?acc=A&streams=1{more}").get("account_details", [])
    rows: list[dict[str, Any]] = accounts[0].get("stream_detail", []) if accounts else []
    return rows


def of_group(made: list[servers.Server], block: dict[str, Any]) -> dict[str, Any]:
    """What the "jetstream" block says of the group of all servers, without times."""
    meta = block["meta"]
    others = sorted(row["name"] for row in meta.get("replicas", []))
    return {
        "group": meta["name"],
        "leader": meta["leader"] in {f"s{number}" for number in range(len(made))},
        "others": len(others),
        "sizes": (meta["cluster_size"], meta["quorum_needed"]),
        "assets": block["stats"]["ha_assets"] > 0,
    }


async def states(made: list[servers.Server]) -> list[dict[str, Any]]:
    client = await connect(made[0], "sys")
    try:
        found = await ask_all(client, "$SYS.REQ.SERVER.PING")
    finally:
        await client.close()
    return sorted(found, key=lambda one: str(one["server"]["name"]))


def test_varz_and_statsz_name_the_group_of_all_servers_and_who_leads_it_as_at_nats_servers(tmp_path: Path) -> None:
    """In statsz the leader alone shows the others and the cluster's name, in varz each server does; each counts what it
    keeps with others."""

    def told(kind: str, folder: Path) -> list[dict[str, Any]]:
        with led(kind, folder) as made:
            asyncio.run(prepared(made))
            eventually(lambda: shared_by(made), lambda: [details(one) for one in made])
            leader = leader_of(made)
            blocks = {server["server"]["name"]: server["statsz"]["jetstream"] for server in asyncio.run(states(made))}
            (leading,) = [server for number, server in enumerate(made) if f"s{number}" == leader]
            assert of_group(made, report(leading, "varz")["jetstream"]) == of_group(made, blocks[leader])
            assert [2, 2, 2] == [of_group(made, report(one, "varz")["jetstream"])["others"] for one in made]
            return [of_group(made, blocks.pop(leader)), *(of_group(made, one) for one in blocks.values())]

    assert [2, 0, 0] == [one["others"] for one in told_alike(told, tmp_path)]


def rows_of(shown: dict[str, Any]) -> dict[str, tuple[bool, bool]]:
    """By its name whether a member is current, and whether it was heard."""
    return {row["name"]: (row["current"], row["active"] > 0) for row in shown.get("replicas", [])}


@pytest.mark.parametrize("kind", [R, L])
def test_a_follower_s_jsz_names_the_other_members_and_shows_the_leader_alone_as_heard(
    kind: str, tmp_path: Path
) -> None:
    """Of the group of all servers, and of a stream's."""
    with led(kind, tmp_path) as made:
        asyncio.run(prepared(made))

        def shown(number: int) -> list[dict[str, Any]]:
            rows = [row["cluster"] for row in details(made[number]) if row["name"] == "S"]
            return [report(made[number], "jsz")["meta_cluster"], *rows]

        def are_so() -> bool:
            found = [(number, one) for number in range(len(made)) for one in shown(number)]
            return len(found) == 2 * len(made) and all(is_so(number, one) for number, one in found)

        def is_so(number: int, one: dict[str, Any]) -> bool:
            names = {f"s{other}" for other in range(len(made)) if other != number}
            leads = one.get("leader") == f"s{number}"
            heard = names if leads else {one.get("leader")}
            return rows_of(one) == {name: (name in heard, name in heard) for name in names}

        eventually(are_so, lambda: [shown(number) for number in range(len(made))])


def test_a_consumer_of_three_servers_is_shown_with_its_leader_and_the_others_as_at_nats_servers(tmp_path: Path) -> None:
    """In jsz of the server that leads it."""

    def told(kind: str, folder: Path) -> list[tuple[object, ...]]:
        with led(kind, folder) as made:
            asyncio.run(prepared(made))

            def cluster() -> list[tuple[object, ...]]:
                found: list[tuple[object, ...]] = []
                for number, server in enumerate(made):
                    rows = [row for row in details(server, "&consumers=1") if row["name"] == "S"]
                    shown = [one["cluster"] for row in rows for one in row.get("consumer_detail", [])]
                    for one in shown:
                        if one.get("leader") == f"s{number}":
                            names = {one["leader"], *(other["name"] for other in one.get("replicas", []))}
                            found.append((one["name"], "raft_group" in one, sorted(names)))
                return found

            return eventually(cluster, lambda: [details(one, "&consumers=1") for one in made])

    assert told_alike(told, tmp_path) == [("C", True, ["s0", "s1", "s2"])]


@pytest.mark.parametrize("kind", [R, L])
def test_each_server_that_keeps_a_consumer_names_it_whoever_leads(kind: str, tmp_path: Path) -> None:
    """With its places, in jsz, and healthz finds it. (How many messages are left the leader of leafd alone knows. What
    was delivered and not acknowledged the others learn a moment later.)"""

    async def walk(made: list[servers.Server]) -> None:
        await prepared(made)
        client = await connect(made[0])
        await patiently(client, "CONSUMER.CREATE.T.E", {"stream_name": "T", "config": {"durable_name": "E"}})
        await published(client, range(3))
        pull = await client.jetstream().pull_subscribe_bind("C", "S")
        taken: list[int] = []
        while len(taken) < 2:
            taken += await fetched(pull, 2 - len(taken), confirmed=True)
        await until(partial(one_more, pull), "the last message does not come")
        await client.close()

    async def one_more(pull: JetStreamContext.PullSubscription) -> bool:
        with contextlib.suppress(nats.errors.Error):
            return len(await pull.fetch(1, timeout=2)) == 1
        return False

    def place(server: servers.Server) -> dict[str, Any]:
        (row,) = [one for one in details(server, "&consumers=1&config=1&raft=1") if one["name"] == "S"]
        (consumer,) = row["consumer_detail"]
        (group,) = row["consumer_raft_groups"]
        return {
            "counted": row["state"]["consumer_count"],
            "names": (consumer["name"], consumer["config"]["durable_name"], group["name"]),
            "places": (consumer["delivered"]["stream_seq"], consumer["ack_floor"]["stream_seq"]),
        }

    def shown(made: list[servers.Server]) -> list[dict[str, Any]]:
        with contextlib.suppress(ValueError, KeyError):
            return [place(server) for server in made]
        return []

    with led(kind, tmp_path) as made:
        asyncio.run(walk(made))
        everywhere = {"counted": 1, "names": ("C", "C", "C"), "places": (3, 2)}
        eventually(
            lambda: [one.items() >= everywhere.items() for one in shown(made)] == [True] * 3, lambda: shown(made)
        )
        left = [row["consumer_detail"][0]["num_pending"] for one in made for row in details(one, "&consumers=1")[:1]]
        assert kind == R or sorted(left, key=str) == [0, None, None]
        for server in made:
            assert report(server, "healthz?account=A&stream=S&consumer=C")["status"] == "ok"
        counts = sorted(report(server, "jsz")["consumers"] for server in made)
        assert counts == [1, 1, 2]
        rows = [row for server in made for row in details(server, "&consumers=1") if row["name"] == "T"]
        (row,) = rows
        assert row["cluster"].keys() == {"name", "leader"}
        assert [one["cluster"] for one in row["consumer_detail"]] == [row["cluster"]]


def test_stream_leader_only_leaves_out_the_streams_that_others_lead_as_at_nats_servers(tmp_path: Path) -> None:
    """Each stream is in the report of one server."""

    def told(kind: str, folder: Path) -> list[str]:
        with led(kind, folder) as made:
            leader = asyncio.run(prepared(made))
            eventually(lambda: shared_by(made), lambda: [details(one) for one in made])
            found = [[row["name"] for row in details(server, "&stream-leader-only=1")] for server in made]
            assert "S" in found[int(leader.removeprefix("s"))]
            return sorted(name for names in found for name in names)

    assert told_alike(told, tmp_path) == ["S", "T"]


def test_metrics_say_of_each_stream_whether_its_server_leads_it(tmp_path: Path) -> None:
    """Of leafd: one of three servers does."""
    with led(L, tmp_path) as made:
        leader = asyncio.run(prepared(made))
        eventually(lambda: shared_by(made), lambda: [details(one) for one in made])
        for number, server in enumerate(made):
            lines = page(server, "metrics").decode().splitlines()
            (line,) = [one for one in lines if one.startswith("jetstream_stream_total_messages{") and '"S"' in one]
            assert f'is_stream_leader="{str(leader == f"s{number}").lower()}"' in line


@pytest.mark.parametrize("kind", [R, L])
def test_a_stream_that_is_left_with_one_server_is_shown_as_one_that_always_was(kind: str, tmp_path: Path) -> None:
    """Its cluster and its leader, and no group any more."""

    async def walk(made: list[servers.Server]) -> None:
        client = await connect(made[0])
        await patiently(client, "STREAM.CREATE.T", ALONE)
        expected = (await patiently(client, "STREAM.INFO.T"))["cluster"].keys()
        await patiently(client, "STREAM.CREATE.S", STREAM)
        await led_by(client)
        await patiently(client, "STREAM.UPDATE.S", STREAM | {"num_replicas": 1})
        last: dict[str, Any] = {}

        async def alone() -> bool:
            with contextlib.suppress(nats.errors.Error):
                last.update(json.loads((await client.request("$JS.API.STREAM.INFO.S", timeout=5)).data))
            return bool(last.get("cluster", {}).keys() == expected)

        await until(alone, lambda: last)
        for server in made:  # (a nats-server names one for every stream)
            assert all(row.get("stream_raft_group", "S") for row in details(server, "&raft=1"))
        await client.close()

    with led(kind, tmp_path) as made:
        asyncio.run(walk(made))


@pytest.mark.parametrize("kind", [R, L])
def test_who_has_stepped_down_does_not_say_that_it_leads_once_the_order_is_answered(kind: str, tmp_path: Path) -> None:
    """So that the CLI, which asks all servers next, finds no two leaders. Of leafds one leads by then, and answers who
    asks the leader only; nats-servers may have none for a moment."""

    async def stepped_down(server: servers.Server) -> dict[str, Any]:
        client = await connect(server, "sys")
        try:
            answer = json.loads((await client.request("$JS.API.META.LEADER.STEPDOWN", timeout=20)).data)
            if kind == L:
                led = await client.request("$SYS.REQ.SERVER.PING.JSZ", b'{"leader_only": true}', timeout=20)
                assert name != json.loads(led.data)["server"]["name"]
            told = {one["server"]["name"]: one["data"] for one in await ask_all(client, "$SYS.REQ.SERVER.PING.JSZ")}
        finally:
            await client.close()
        assert answer["success"], answer
        shown: dict[str, Any] = told[name]["meta_cluster"]
        return shown

    with led(kind, tmp_path) as made:
        for _ in range(3):
            name = leader_of(made)
            (leading,) = [server for number, server in enumerate(made) if f"s{number}" == name]
            shown = asyncio.run(stepped_down(leading))
            assert shown.get("leader", "") != name


@pytest.mark.parametrize(("kind", "total", "code"), [(R, 0, None), (L, 1, 10059)])
def test_a_page_behind_the_end_of_a_list_names_the_total_at_leafd(
    kind: str, total: int, code: int | None, tmp_path: Path
) -> None:
    """And consumers of a stream that is not there are refused; a cluster of nats-servers gives empty lists."""

    async def walk(made: list[servers.Server]) -> None:
        await prepared(made)
        client = await connect(made[0])

        assert total == (await ask(client, "$JS.API.CONSUMER.LIST.S", b'{"offset": 1}'))["total"]
        assert 1 == (await ask(client, "$JS.API.CONSUMER.NAMES.S", b'{"offset": 1}'))["total"]
        assert code == (await ask(client, "$JS.API.CONSUMER.LIST.NONE", b"")).get("error", {}).get("err_code")
        await client.close()

    with led(kind, tmp_path) as made:
        asyncio.run(walk(made))
