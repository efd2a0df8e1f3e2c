"""Every report of the monitoring port with each of its parameters, and the same over $SYS, beside nats-server's:
status, words of refusals, members, and which rows there are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import urllib.error
import urllib.request
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource

from tests import servers
from tests.interop.test_report_parity import members
from tests.rig.official import connect
from tests.rig.waiting import until

CONFIGURATION = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: box
max_closed_clients: 3
jetstream { store_dir: "{store}", max_mem: 64M, max_file: 1G, domain: edge, sync_interval: always }
server_metadata { place: "attic" }
accounts {
  A { jetstream: { max_mem: 10M, max_file: 100M }, users: [{user: a, password: a}] }
  B { jetstream: { max_mem: 10M, max_file: 100M }, users: [{user: b, password: b}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
"""
SORTS = ("cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle", "uptime",
         "rtt", "stop", "reason", "nonsense")  # fmt: skip
QUERIES = (
    *(f"/connz?sort={word}" for word in SORTS), "/connz?state=closed&sort=stop", "/connz?state=closed&sort=reason",
    *(f"/connz?state={word}" for word in ("open", "closed", "all", "ANY", "nonsense")),
    "/connz?auth=1", "/connz?auth=maybe", "/connz?subs=1", "/connz?subs=detail", "/connz?subs=some",
    "/connz?cid=1000000",
    "/connz?acc=A", "/connz?acc=A&auth=true", "/connz?user=a&auth=1", "/connz?user=nobody", "/connz?mqtt_client=x",
    "/connz?offset=1", "/connz?offset=100", "/connz?limit=1", "/connz?limit=-1", "/connz?limit=x", "/connz?offset=x",
    "/connz?cid=x", "/connz?state=closed&acc=A&auth=1", "/connz?state=closed&acc=B", "/connz?state=closed&subs=1",
    "/connz?state=closed&subs=detail",
    "/subsz", "/subsz?subs=maybe", "/subsz?limit=x", "/subsz?test=a.*", "/subsz?offset=x", "/subscriptionsz",
    "/leafz", "/leafz?subs=1", "/leafz?subs=maybe", "/leafz?acc=A",
    "/routez", "/routez?subs=1", "/routez?subs=detail", "/routez?subs=maybe",
    "/gatewayz", "/gatewayz?accs=1", "/gatewayz?gw_name=x",
    "/varz", "/accountz", "/accountz?acc=A", "/accountz?acc=SYS", "/accountz?acc=$G", "/accountz?acc=NONE",
    "/accstatz", "/accstatz?unused=1", "/accstatz?unused=maybe",
    "/jsz", "/jsz?accounts=1", "/jsz?acc=A", "/jsz?acc=NONE", "/jsz?acc=A&streams=1", "/jsz?acc=A&consumers=1",
    "/jsz?acc=A&streams=1&config=1", "/jsz?acc=A&consumers=1&config=1", "/jsz?config=1", "/jsz?accounts=1&offset=1",
    "/jsz?accounts=1&limit=1", "/jsz?accounts=maybe", "/jsz?streams=1&leader-only=1", "/jsz?limit=x",
    "/jsz?consumers=1&direct-consumers=1", "/jsz?stream-leader-only=maybe", "/jsz?raft=1",
    "/healthz", "/healthz?js-enabled-only=1", "/healthz?js-server-only=1", "/healthz?js-meta-only=1",
    "/healthz?js-enabled=1", "/healthz?details=1", "/healthz?details=maybe", "/healthz?stream=S", "/healthz?consumer=C",
    "/healthz?account=A", "/healthz?account=NONE", "/healthz?account=NONE&details=1", "/healthz?account=A&stream=S",
    "/healthz?account=A&stream=NONE", "/healthz?account=A&stream=NONE&details=1", "/healthz?js-server-only=2",
    "/healthz?js-meta-only=maybe", "/healthz?js-server-only=1&account=NONE", "/healthz?js-enabled-only=1&account=NONE",
    "/healthz?js-meta-only=1&account=NONE", "/healthz?js-server-only=1&stream=S",
    "/healthz?account=A&stream=S&consumer=C", "/healthz?account=A&stream=S&consumer=NONE",
    "/ipqueuesz", "/ipqueuesz?all=maybe", "/raftz", "/expvarz", "/varz?callback=f", "/nonsense",
)  # fmt: skip
REQUESTS = (
    *((f"SERVER.PING.{kind}", {}) for kind in (
        "VARZ", "CONNZ", "SUBSZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "JSZ", "HEALTHZ", "STATSZ", "IDZ",
        "EXPVARZ", "IPQUEUESZ", "RAFTZ", "PROFILEZ",
    )),
    ("SERVER.PING.CONNZ", {"state": 1, "auth": True}), ("SERVER.PING.CONNZ", {"sort": "nonsense"}),
    ("SERVER.PING.CONNZ", {"acc": "A", "filter_subject": "up.*"}), ("SERVER.PING.CONNZ", {"filter_subject": "up"}),
    ("SERVER.PING.CONNZ", {"subscriptions": True, "acc": "A"}),
    ("SERVER.PING.ACCOUNTZ", {"account": "A"}), ("SERVER.PING.ACCOUNTZ", {"account": "NONE"}),
    ("SERVER.PING.JSZ", {"accounts": True, "streams": True, "consumer": True, "config": True}),
    ("SERVER.PING.HEALTHZ", {"account": "NONE"}), ("SERVER.PING.HEALTHZ", {"account": "A", "stream": "S"}),
    ("SERVER.PING.VARZ", {"server_name": "box"}),
    *((f"ACCOUNT.A.{kind}", {}) for kind in ("CONNZ", "LEAFZ", "JSZ", "INFO", "STATZ", "CONNS")),
    ("ACCOUNT.SYS.JSZ", {}), ("ACCOUNT.NONE.JSZ", {}),
    ("ACCOUNT.PING.STATZ", {}), ("ACCOUNT.NONE.INFO", {}), ("SERVER.ID.KICK", {"cid": 1000000}),
    ("SERVER.ID.LDM", {"cid": 1000000}), ("SERVER.ID.STATSZ", {}), ("USER.INFO", {}),
)  # fmt: skip
NOT_HERE = (
    # What Go and nats-server say of their own making.
    "git_commit", "config_digest", "compress_ok", "memstats", "cmdline",
    # Streams that set no limit have none.
    "default_max_consumers",
)  # fmt: skip
OWN = ("leafd", "store", "http_req_stats", "memory", "rtt", "profile", "System recvQ")
"""Members that need not be in both: leafd's own, what was counted or measured so far, words of a profile."""


COPIED = "/jsz?consumers=1&direct-consumers=1"
"""Shows the consumer by which a copy is made, once there is one."""


async def work(server: servers.Server) -> list[Client]:
    """Four clients that stay and four that have gone, a stream with consumers and a copy of it."""
    stay = []
    for number, user in enumerate("abas"):
        client = await connect(server, user, name=f"stays{number}")
        if user != "s":
            await client.subscribe(f"up.{number}")
            await client.flush()
        stay.append(client)
    for number, user in enumerate("aaba"):
        client = await connect(server, user, name=f"goes{number}")
        await client.subscribe("down", queue="q")
        await client.publish("x", b"12345")
        await client.flush()
        await client.close()

    async def shown(words: str, path: str) -> None:
        async def there() -> bool:
            return words in str(await asyncio.to_thread(got, server, path))

        await until(there, f"{path} has no {words}")

    await shown("goes3", "/connz?state=closed")
    stream = stay[0].jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.add_consumer("S", ConsumerConfig(durable_name="C"))
    await stream.add_stream(StreamConfig(name="M", sources=[StreamSource(name="S")]))
    await shown("direct_consumer_detail", COPIED)
    return stay


async def asked(client: Client, server_id: str) -> list[Any]:
    """The answer to each request on $SYS."""
    found = []
    for subject, body in REQUESTS:
        subject = f"$SYS.REQ.{subject.replace('ID', server_id) if '.ID.' in subject else subject}"
        answer = await client.request(subject, json.dumps(body).encode(), timeout=60)
        found.append(json.loads(answer.data))
    return found


def got(server: servers.Server, query: str) -> tuple[int, Any]:
    """Status, and the report or the words of a refusal."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http_port']}{query}", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode().strip()
        with contextlib.suppress(json.JSONDecodeError):
            return error.code, json.loads(text)
        return error.code, text


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """By server, what each query and each request came to."""

    async def play(server: servers.Server) -> dict[str, Any]:
        stay = await work(server)
        every: dict[str, Any] = {}
        for query in QUERIES:
            every[query] = await asyncio.to_thread(got, server, query)
        answers = await asked(stay[3], every["/accountz"][1]["server_id"])
        every |= {f"{name} {json.dumps(body)}": (0, one) for (name, body), one in zip(REQUESTS, answers, strict=True)}
        for client in stay:
            await client.close()
        return every

    results = {}
    for kind in servers.KINDS:
        with servers.running(kind, CONFIGURATION) as server:
            results[kind] = asyncio.run(play(server))
    return results


def names(report: Any) -> set[str]:
    """The paths of its members, without those that need not be there."""
    found = {name for name, _ in members("", report)} if isinstance(report, dict | list) else {str(report)}
    found = {re.sub(r"\[JS_SRC_[^]]*]", "[a copy's]", name) for name in found}
    left_out = (*NOT_HERE, *OWN)
    return {name for name in found if not any(part in left_out for part in name.replace("[", ".").split("."))}


def words(report: Any) -> Any:
    """What a refusal says."""
    if not isinstance(report, dict):
        return report
    inner: dict[str, Any] = report["data"] if isinstance(report.get("data"), dict) else {}
    return [
        part.get(name) for part in (report, inner) for name in ("status", "error", "errors") if "profile" not in part
    ]


@pytest.mark.parametrize("asking", [*QUERIES, *(f"{name} {json.dumps(body)}" for name, body in REQUESTS)])
def test_every_parameter_means_the_same(found: dict[str, dict[str, Any]], asking: str) -> None:
    """What nats-server answers: the same status, the same words or members, the same rows."""
    theirs, ours = found[servers.REFERENCE][asking], found[servers.LEAFD][asking]
    assert theirs[0] == ours[0]
    assert names(theirs[1]) - names(ours[1]) == set()
    assert words(theirs[1]) == words(ours[1])


@pytest.mark.parametrize("account", ["A", "SYS", "$G"])
def test_an_account_is_shown_with_what_the_server_offers_it(found: dict[str, dict[str, Any]], account: str) -> None:
    """Its imports of the system account, that one's exports, and the API by the domain's name."""
    for name in ("imports", "exports", "mappings"):
        theirs, ours = (
            found[kind][f"/accountz?acc={account}"][1]["account_detail"].get(name) or []
            for kind in (servers.REFERENCE, servers.LEAFD)
        )
        rows = [list(one.items()) if isinstance(one, dict) else one for one in (theirs, ours)]
        assert sorted(map(json.dumps, rows[0])) == sorted(map(json.dumps, rows[1]))


def test_what_the_configuration_says_of_the_server_is_shown(found: dict[str, dict[str, Any]]) -> None:
    """How it writes to the disk, and the operator's own words."""
    theirs, ours = (found[kind]["/varz"][1] for kind in (servers.REFERENCE, servers.LEAFD))
    for name in ("sync_interval", "sync_always", "domain", "strict"):
        assert theirs["jetstream"]["config"][name] == ours["jetstream"]["config"][name]
    assert {"place": "attic"} == theirs["metadata"] == ours["metadata"]


@pytest.mark.parametrize("query", [one for one in QUERIES if one.startswith("/connz")])
def test_the_same_connections_are_listed(found: dict[str, dict[str, Any]], query: str) -> None:
    """Whose, and in the same order where that does not depend on what was measured."""
    reports = [found[kind][query][1] for kind in (servers.REFERENCE, servers.LEAFD)]
    if not isinstance(reports[0], dict):
        return
    theirs, ours = ([one.get("name") for one in report["connections"]] for report in reports)
    measured = any(
        f"sort={word}" in query for word in ("pending", "last", "idle", "rtt", "subs", "msgs", "bytes", "reason")
    )
    if measured:
        theirs, ours = sorted(theirs), sorted(ours)
    assert theirs == ours
    numbers = ("num_connections", "total", "offset", "limit")
    assert [reports[0][name] for name in numbers] == [reports[1][name] for name in numbers]


PLAIN = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: plain
server_tags: ["Az:West", " az:west", "", "KIND:core"]
accounts { A { users: [{user: a, password: a}] }, SYS { users: [{user: s, password: s}] } }
system_account: SYS
"""


def test_a_server_without_jetstream_leaves_the_answer_to_who_leads() -> None:
    """`nats server check meta` asks all servers, and takes the first answer; tags are asked for in any case."""

    async def ask(server: servers.Server) -> list[Any]:
        client = await connect(server, "s")
        found: list[Any] = []
        for what, body in (
            ("JSZ", {"leader_only": True}),
            ("JSZ", {}),
            ("VARZ", {"tags": ["AZ:WEST ", "kind:core"]}),
            ("VARZ", {"tags": ["az:east"]}),
        ):
            subject = f"$SYS.REQ.SERVER.PING.{what}"
            try:
                answer = json.loads((await client.request(subject, json.dumps(body).encode(), timeout=2)).data)
                data = answer["data"]
                found.append([answer["server"]["tags"], data.get("tags"), data.get("api"), "limits" in data])
            except nats.errors.TimeoutError:
                found.append(None)
        await client.close()
        return [*found, *(got(server, "/jsz?leader-only=1")), got(server, "/varz")[1]["tags"]]

    told = []
    for kind in servers.KINDS:
        with servers.running(kind, PLAIN) as server:
            told.append(asyncio.run(ask(server)))
    ours, theirs = told if servers.KINDS[0] == servers.LEAFD else reversed(told)
    assert ours == theirs
    assert theirs[0] is None
    assert theirs[3] is None
    assert theirs[-1] == ["az:west", "kind:core"]
