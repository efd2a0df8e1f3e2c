"""Two clusters of two servers: what they say to each other is handed on, and nobody else says it.

Each server has a gateway to one server of the other cluster, so some of the group's frames and letters go by a third
server. Not here: three clusters of one (test_placed_streams.py), the rules of handing on (test_plane_meta.c).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leafd.cluster.letters import MAGIC, QUESTION
from leafd.links.origin import hash8

from tests import servers
from tests.rig.official import ask, connect, one_each
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

L, R = servers.LEAFD, servers.REFERENCE
CONFIG = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts {
  A { users: [ {user: a, password: a} ], jetstream: enabled {declared} }
  SYS { users: [ {user: sys, password: sys} ] }
}
system_account: SYS
jetstream { store_dir: "{store}", {meta} }
cluster { name: "{cluster}", listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
"""
GATEWAY = """
gateway { name: "{cluster}", listen: "127.0.0.1:{gateway_port}", gateways: [ {gateways} ] }
"""
DECLARED = ', streams: { DECLARED { subjects: ["declared"] } }'
NAMES = {"e1": "east", "e2": "east", "w1": "west", "w2": "west"}


@contextlib.contextmanager
def four(folder: Path) -> Iterator[dict[str, servers.Server]]:
    """Two clusters of two that are up."""
    made: dict[str, servers.Server] = {}
    with contextlib.ExitStack() as stack:
        for name, cluster in NAMES.items():
            first = made.get(f"{cluster[0]}1")
            east = made.get("e1") if cluster == "west" else None
            there = f'{{ name: east, url: "nats://127.0.0.1:{east.ports["gateway_port"]}" }}' if east else ""
            text = (CONFIG + GATEWAY).replace("{first}", str(first.ports["route_port"]) if first else "{route_port}")
            (folder / name).mkdir()
            more = {"name": name, "cluster": cluster, "meta": "meta_size: 4", "declared": DECLARED}
            made[name] = servers.make(L, text.replace("{gateways}", there), folder / name, **more)
        for server in made.values():
            stack.callback(server.stop)
            server.start()
        yield made


def led(up: list[servers.Server]) -> None:
    """All of them agree on who leads."""

    def agreed() -> bool:
        leaders = {report(server, "jsz").get("meta_cluster", {}).get("leader", "") for server in up}
        return len(leaders) == 1 and "" not in leaders

    eventually(agreed, lambda: [server.log[-1500:] for server in up])


def test_servers_of_two_clusters_found_one_group_and_answer_for_each_other(tmp_path: Path) -> None:
    """A stream on each server is made and asked for at each other one. What each of them declares is there once."""
    with four(tmp_path) as made:
        led(list(made.values()))

        async def ask() -> dict[str, set[str]]:
            found: dict[str, set[str]] = {name: set() for name in made}
            async with one_each(made.values()) as clients:
                for name, client in zip(made, clients, strict=True):
                    config = json.dumps({"name": f"S{name}", "subjects": [f"s.{name}"]}).encode()
                    await client.request(f"$JS.API.STREAM.CREATE.S{name}", config, timeout=20)
                for client in clients:
                    for name in made:
                        answer = await client.request(f"$JS.API.STREAM.INFO.S{name}", timeout=20)
                        found[name].add(json.loads(answer.data)["cluster"]["leader"])
            return found

        assert asyncio.run(ask()) == {name: {name} for name in made}
        declared_once(list(made.values()))
        removed(made)


def declared_once(made: list[servers.Server]) -> None:
    """The four servers have one configuration, and one of them the stream. None of them could make it at its start."""

    async def streams() -> list[dict[str, Any]]:
        client = await connect(made[0])
        found = json.loads((await client.request("$JS.API.STREAM.LIST", timeout=20)).data)["streams"]
        await client.close()
        return [one for one in found if one["config"]["name"] == "DECLARED"]

    eventually(lambda: any("as declared" in server.log for server in made), lambda: [one.log for one in made])
    assert len(asyncio.run(streams())) == 1
    assert not [server.log for server in made if "not as declared" in server.log]


def removed(made: dict[str, servers.Server]) -> None:
    """The streams of a server that SERVER.REMOVE took out stay its own: offline, and there again when it is back."""
    asked, gone = made["e1"], made["w2"]

    async def told(user: str, subject: str, body: bytes = b"") -> dict[str, Any]:
        async with one_each([asked], user) as (client,):
            return await ask(client, f"$JS.API.{subject}", body)

    def info() -> dict[str, Any]:
        return asyncio.run(told("a", "STREAM.INFO.Sw2"))

    gone.kill()
    up = [server for server in made.values() if server is not gone]
    eventually(lambda: info().get("error", {}).get("err_code") == 10118, info)

    def remove() -> dict[str, Any]:
        return asyncio.run(told("sys", "SERVER.REMOVE", b'{"peer":"w2"}'))

    eventually(lambda: "success" in remove(), lambda: (remove(), [server.log[-1500:] for server in up]))
    eventually(lambda: report(asked, "jsz")["meta_cluster"]["cluster_size"] == 3)
    assert info()["error"]["err_code"] == 10118
    assert "Sw2" in asyncio.run(told("a", "STREAM.NAMES"))["streams"]
    gone.start()
    eventually(lambda: "state" in info(), info)
    assert info()["cluster"]["leader"] == "w2"
    # An account is purged on all servers. (The one that was removed hears nothing any more.)
    assert asyncio.run(told("sys", "ACCOUNT.PURGE.A"))["initiated"]
    eventually(lambda: asyncio.run(told("a", "STREAM.NAMES"))["streams"] is None)
    eventually(lambda: [report(server, "jsz")["streams"] for server in up] == [0, 0, 0])


def question(verb: str, **head: object) -> bytes:
    """A letter, as a server would write it."""
    body = json.dumps({"verb": verb, **head}).encode() + b"\n" + json.dumps({"name": "X", "subjects": ["x"]}).encode()
    return struct.pack(">4sBBHQI", MAGIC, QUESTION, 1, 0, 7, 0) + body


def test_a_client_of_a_nats_server_in_the_cluster_writes_no_letters(tmp_path: Path) -> None:
    """Its system account may publish any subject, and the nats-server passes it on to whoever listens to all."""
    with contextlib.ExitStack() as stack:
        made: list[servers.Server] = []
        for kind, name, meta in ((L, "ours", "meta_size: 1"), (R, "theirs", "max_file: 1GB")):
            first = str(made[0].ports["route_port"]) if made else "{route_port}"
            text = CONFIG.replace("{first}", first)
            if kind == R:
                text = "\n".join(line for line in text.splitlines() if not line.startswith("jetstream"))
            (tmp_path / name).mkdir()
            made.append(servers.make(kind, text, tmp_path / name, name=name, cluster="c", meta=meta, declared=""))
            stack.callback(made[-1].stop)
            made[-1].start()
        eventually(lambda: report(made[0], "jsz").get("meta_cluster", {}).get("leader"), lambda: made[0].log)

        async def forge() -> list[str]:
            system, forger, user = await connect(made[0], "sys"), await connect(made[1], "sys"), await connect(made[0])
            heard: list[str] = []

            async def hear(message: object) -> None:
                heard.append(getattr(message, "subject", ""))

            await system.subscribe(">", cb=hear)
            await system.flush()
            head = {"account": "A", "subject": "$JS.API.STREAM.CREATE.X", "header": "", "author": "", "client": {}}

            async def arrived() -> bool:
                for named in ("", f".{hash8('theirs')}"):
                    await forger.publish(f"$LR.{hash8('ours')}{named}", question("api", **head))
                await forger.publish("behind", b"")
                await forger.flush()
                return "behind" in heard

            await until(arrived)
            own = json.dumps({"name": "Y", "subjects": ["y"]}).encode()
            await user.request("$JS.API.STREAM.CREATE.Y", own, timeout=20)
            names = json.loads((await user.request("$JS.API.STREAM.NAMES", timeout=20)).data)["streams"]
            for client in (system, forger, user):
                await client.close()
            assert not [one for one in heard if one.startswith("$LR.")]
            return list(names)

        assert asyncio.run(forge()) == ["Y"]
