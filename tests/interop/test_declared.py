"""Streams, consumers and buckets that the configuration declares, on a running daemon beside the reference.

Not here: which changes would lose something, what is wrong with a file (unit/declared).
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Final

import nats
import pytest

from tests import servers
from tests.rig.official import must
from tests.rig.reloads import REFUSED, reloaded
from tests.rig.waiting import eventually
from tests.servers import LEAFD, REFERENCE, Server, ServerDied, running

HEAD: Final = 'listen: "127.0.0.1:{port}"\njetstream { store_dir: "{store}" }\n'
BUCKETS: Final = """
kv {
  PLAIN { }
  FULL { history: 5, ttl: "1h", max_value_size: 1024, max_bucket_size: 1MB, description: text, storage: memory
         metadata { a: b }, republish { src: ">", dest: "rep.>", headers_only: true }, marker_ttl: "10s", compress: true
         tags: [t], cluster: c }
  SHORT { ttl: "30s" }
  MIRROR { mirror: PLAIN }
  FAR { mirror: ORIGIN, mirror_domain: hub }
  SOURCED { sources: [PLAIN, OTHER] }
}
objects {
  PLAIN { }
  FULL { ttl: "24h", max_bucket_size: 1MB, description: text, storage: memory, metadata { a: b }, compress: true
         tags: [t], cluster: c }
}
"""
# What `nats kv add` and `nats object add` send for the same options, recorded from the official command line.
REQUESTS: Final = r"""
{"name":"KV_PLAIN","subjects":["$KV.PLAIN.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"discard":"new","max_age":0,"max_msgs_per_subject":1,"max_msg_size":-1,"storage":"file","num_replicas":1,"duplicate_window":120000000000,"deny_delete":true,"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":false,"consumer_limits":{}}
{"name":"KV_FULL","description":"text","subjects":["$KV.FULL.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":1048576,"discard":"new","max_age":3600000000000,"max_msgs_per_subject":5,"max_msg_size":1024,"storage":"memory","num_replicas":1,"duplicate_window":120000000000,"placement":{"cluster":"c","tags":["t"]},"deny_delete":true,"allow_rollup_hdrs":true,"compression":"s2","republish":{"src":"\u003e","dest":"rep.\u003e","headers_only":true},"allow_direct":true,"mirror_direct":false,"consumer_limits":{},"metadata":{"a":"b"},"allow_msg_ttl":true,"subject_delete_marker_ttl":10000000000}
{"name":"KV_SHORT","subjects":["$KV.SHORT.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"discard":"new","max_age":30000000000,"max_msgs_per_subject":1,"max_msg_size":-1,"storage":"file","num_replicas":1,"duplicate_window":30000000000,"deny_delete":true,"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":false,"consumer_limits":{}}
{"name":"KV_MIRROR","retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"discard":"new","max_age":0,"max_msgs_per_subject":1,"max_msg_size":-1,"storage":"file","num_replicas":1,"duplicate_window":120000000000,"mirror":{"name":"KV_PLAIN"},"deny_delete":true,"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":true,"consumer_limits":{}}
{"name":"KV_FAR","retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"discard":"new","max_age":0,"max_msgs_per_subject":1,"max_msg_size":-1,"storage":"file","num_replicas":1,"duplicate_window":120000000000,"mirror":{"name":"KV_ORIGIN","external":{"api":"$JS.hub.API","deliver":""}},"deny_delete":true,"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":true,"consumer_limits":{}}
{"name":"KV_SOURCED","subjects":["$KV.SOURCED.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"discard":"new","max_age":0,"max_msgs_per_subject":1,"max_msg_size":-1,"storage":"file","num_replicas":1,"duplicate_window":120000000000,"sources":[{"name":"KV_PLAIN","subject_transforms":[{"src":"$KV.PLAIN.\u003e","dest":"$KV.SOURCED.\u003e"}]},{"name":"KV_OTHER","subject_transforms":[{"src":"$KV.OTHER.\u003e","dest":"$KV.SOURCED.\u003e"}]}],"deny_delete":true,"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":false,"consumer_limits":{}}
{"name":"OBJ_PLAIN","subjects":["$O.PLAIN.C.\u003e","$O.PLAIN.M.\u003e"],"retention":"limits","max_consumers":0,"max_msgs":0,"max_bytes":-1,"discard":"new","max_age":0,"max_msgs_per_subject":0,"storage":"file","num_replicas":1,"placement":{"cluster":""},"allow_rollup_hdrs":true,"compression":"none","allow_direct":true,"mirror_direct":false,"consumer_limits":{}}
{"name":"OBJ_FULL","description":"text","subjects":["$O.FULL.C.\u003e","$O.FULL.M.\u003e"],"retention":"limits","max_consumers":0,"max_msgs":0,"max_bytes":1048576,"discard":"new","max_age":86400000000000,"max_msgs_per_subject":0,"storage":"memory","num_replicas":1,"placement":{"cluster":"c","tags":["t"]},"allow_rollup_hdrs":true,"compression":"s2","allow_direct":true,"mirror_direct":false,"consumer_limits":{},"metadata":{"a":"b"}}
"""
FILE: Final = r"""{
  "name": "FILE", "subjects": ["file.\u003e"], "retention": "limits", "max_consumers": -1, "max_msgs_per_subject": -1,
  "max_msgs": 1000, "max_bytes": -1, "max_age": 3600000000000, "max_msg_size": -1, "storage": "file",
  "discard": "old", "num_replicas": 1, "duplicate_window": 120000000000, "sealed": false, "deny_delete": false,
  "deny_purge": false, "allow_rollup_hdrs": false, "allow_direct": true, "mirror_direct": false, "metadata": {"x": "y"}
}"""


async def configs(server: Server, *requests: str) -> list[str]:
    """The configurations of infos, as they are on the wire."""
    client = await nats.connect(server.url)
    try:
        return [json.dumps((await must(client, f"$JS.API.{one}"))["config"]) for one in requests]
    finally:
        await client.close()


async def made(server: Server, requests: list[tuple[str, str]]) -> None:
    client = await nats.connect(server.url)
    try:
        for request, body in requests:
            await must(client, f"$JS.API.{request}", body.encode())
    finally:
        await client.close()


def test_a_bucket_is_what_the_command_line_makes() -> None:
    """A declared bucket, and a stream of a file of `nats stream add`, have byte for byte the configuration that a
    nats-server has after the command line made them. They are there for the first client that gets in."""
    names = [json.loads(line)["name"] for line in REQUESTS.strip().splitlines()]
    infos = [f"STREAM.INFO.{name}" for name in (*names, "FILE")] + ["CONSUMER.INFO.FILE.worker"]
    consumer = {"durable_name": "worker", "name": "worker", "ack_policy": "explicit", "ack_wait": 10_000_000_000}
    requests = [
        (f"STREAM.CREATE.{name}", body)
        for name, body in zip((*names, "FILE"), (*REQUESTS.strip().splitlines(), FILE), strict=True)
    ]
    body = json.dumps({"stream_name": "FILE", "config": consumer})
    declares = HEAD + BUCKETS + "streams { FILE { include file.json } }\n"
    declares += 'consumers { FILE { worker { ack_policy: explicit, ack_wait: "10s" } } }\n'
    with running(REFERENCE, HEAD) as theirs, running(LEAFD, HEAD) as ours:
        asyncio.run(made(theirs, [*requests, ("CONSUMER.CREATE.FILE.worker", body)]))
        assert ours.stop() == 0
        (ours.directory / "file.json").write_text(FILE)
        ours.configuration += declares.removeprefix(HEAD)
        ours.start()
        assert asyncio.run(configs(theirs, *infos)) == asyncio.run(configs(ours, *infos))
        assert ours.stop() == 0
        ours.start()
        assert asyncio.run(configs(theirs, *infos)) == asyncio.run(configs(ours, *infos))
        assert "not as declared" not in ours.log


def test_a_reload_brings_back_what_the_file_says() -> None:
    """What was changed by the API is as declared again; a change that would lose messages refuses the whole reload, and
    is done where the file allows it."""
    text = HEAD + "streams { S { subjects: [s], max_msgs: 10 } }\n"
    with running(LEAFD, text) as server:
        text = server.configuration
        asyncio.run(made(server, [("STREAM.UPDATE.S", '{"name": "S", "subjects": ["s"], "max_msgs": 9}')]))
        assert "max_msgs 9, now 10" in reloaded(server, text)
        asyncio.run(published(server, "s", 5))
        smaller = text.replace("max_msgs: 10", "max_msgs: 2")
        said = reloaded(server, smaller + "debug: true\n", REFUSED)
        assert 'server.conf:3:11: stream "S": max_msgs evicts 3 of 5 messages' in said
        assert asyncio.run(counted(server, "S")) == 5
        assert "[DBG]" not in server.log
        reloaded(server, smaller.replace("max_msgs: 2", "max_msgs: 2, allow_data_loss: true"))
        assert asyncio.run(counted(server, "S")) == 2


def test_who_may_use_the_api_cannot_hold_up_a_reload() -> None:
    """Where putting back what a client changed would lose messages, the stream stays as it is, the log says why, and
    the rest of the reload happens."""
    with running(LEAFD, HEAD + "streams { S { subjects: [s], max_msgs: 2 } }\n") as server:
        asyncio.run(made(server, [("STREAM.UPDATE.S", '{"name": "S", "subjects": ["s", "t"], "max_msgs": 9}')]))
        asyncio.run(published(server, "s", 5))
        said = reloaded(server, server.configuration + "max_payload: 100000\n")
        assert "is not as declared: messages to t would not be stored any more" in said
        assert asyncio.run(counted(server, "S")) == 5


def test_a_start_serves_whatever_is_declared() -> None:
    """What would lose messages at a start is left alone and logged; the daemon serves all the same, and the stream's
    messages are there."""
    with running(LEAFD, HEAD + "streams { S { subjects: [s] } }\n") as server:
        asyncio.run(published(server, "s", 5))
        assert server.stop() == 0
        server.configuration = server.configuration.replace("[s]", "[s], storage: memory")
        server.start()
        assert asyncio.run(counted(server, "S")) == 5
        assert (
            "stream configuration update can not change storage type; made anew, it would lose 5 messages" in server.log
        )


async def published(server: Server, subject: str, count: int) -> None:
    client = await nats.connect(server.url)
    for _ in range(count):
        await client.jetstream().publish(subject, b"payload")
    await client.close()


async def counted(server: Server, stream: str) -> int:
    client = await nats.connect(server.url)
    found = await must(client, f"$JS.API.STREAM.INFO.{stream}")
    await client.close()
    return int(found["state"]["messages"])


HUB: Final = """
listen: "127.0.0.1:{port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
BOX: Final = """
listen: "127.0.0.1:{port}"
jetstream { store_dir: "{store}", domain: box }
leafnodes { reconnect: "1s", remotes: [ { url: "nats-leaf://127.0.0.1:{leaf_port}" } ] }
streams {
  COMMANDS { mirror { name: COMMANDS, external { api: "$JS.hub.API" } } }
  ALL { sources [ { name: COMMANDS, external { api: "$JS.hub.API" } } ] }
}
"""


@pytest.mark.parametrize("kind", [LEAFD, REFERENCE])
def test_mirrors_and_sources_are_declared_while_the_hub_is_away(kind: str) -> None:
    """The box serves them from its start on, and they fill when the hub comes."""
    with running(kind, HUB) as hub:
        asyncio.run(made(hub, [("STREAM.CREATE.COMMANDS", '{"name": "COMMANDS", "subjects": ["commands"]}')]))
        asyncio.run(published(hub, "commands", 3))
        assert hub.stop() in (0, 1)
        with running(LEAFD, BOX, leaf_port=hub.ports["leaf_port"]) as box:
            assert (asyncio.run(counted(box, "COMMANDS")), asyncio.run(counted(box, "ALL"))) == (0, 0)
            hub.start()
            eventually(
                lambda: (asyncio.run(counted(box, "COMMANDS")), asyncio.run(counted(box, "ALL"))) == (3, 3),
                lambda: box.log,
            )


@pytest.mark.parametrize("place", ["account", "top"])
def test_one_file_serves_both_servers(place: str) -> None:
    """nats-server refuses the keys; a file that is included, and empty there, keeps the rest common."""
    within = 'accounts { A { users: [{user: a, password: a}], jetstream: enabled\ninclude "streams.conf"\n} }\n'
    text = HEAD + (within if place == "account" else 'include "streams.conf"\n')
    for kind in (REFERENCE, LEAFD):
        with running(kind, HEAD) as server:
            server.stop()
            file = server.directory / "streams.conf"
            server.configuration += text.removeprefix(HEAD)
            file.write_text("streams { S { } }\n")
            if kind == REFERENCE:
                with pytest.raises(ServerDied, match='unknown field "streams"'):
                    server.start()
                file.write_text("")
            server.start()
            assert ('stream "S" of account' in server.log) == (kind == LEAFD)


def checked(*words: object) -> tuple[int, str]:
    """Exit status and output of leafd with these words."""
    done = servers.leafd(*words)
    return done.returncode, done.stdout + done.stderr


def test_the_plan_is_shown_beforehand() -> None:
    """-t and check say what would be created, updated, left and refused, of a running daemon and of a store at
    rest, and fail where a reload would."""
    text = HEAD + 'http: "127.0.0.1:{monitor_port}"\nstreams { S { subjects: [s] } }\nconsumers { S { c { } } }\n'
    with running(LEAFD, text) as server:
        file = server.directory / "server.conf"
        asyncio.run(published(server, "s", 5))
        before = file.read_text()
        new = before.replace("[s]", "[s, t], max_msgs: 9") + "kv { B { } }\n"
        lines = (
            'stream "S" of account $G: update: subjects ["s"], now ["s", "t"], max_msgs -1, now 9',
            'bucket "B" of account $G: create',
            'consumer "c" of stream "S" of account $G: nothing to do',
        )
        refused = new.replace("max_msgs: 9", "max_msgs: 2")
        told = 'server.conf:4:11: stream "S" of account $G: refused: max_msgs evicts 3 of 5 messages'
        for ways in ((("-t", "-c", file), ("check", file), ("check", file, "--running")), (("-t", "-c", file),)):
            for words in ways:
                file.write_text(new)
                status, said = checked(*words)
                assert (status, [one for one in lines if one not in said]) == (0, []), said
                file.write_text(refused)
                status, said = checked(*words)
                assert (status != 0, told in said) == (True, True), said
            server.stop()
        file.write_text(before)
        assert ["nothing to do"] * 2 == re.findall(
            "nothing to do|create|update|remove|refused", checked("-t", "-c", file)[1]
        )
