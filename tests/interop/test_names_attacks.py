"""A leaf, or a hub, that speaks the protocol by hand puts other names behind an acknowledgement's subject, in every way
that the wire has: to a mapping, an export, a queue group, with headers, with names that are no subjects.

nats-server shows, stores and carries out whatever stands there. One such message in the plane: test_plane_names.c.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from tests.interop.denial_wires import Peer
from tests.rig.official import connect, must
from tests.rig.raw import CLOSED, RawLeaf
from tests.servers import Server, make, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
    A { jetstream: enabled, users: [
            {user: a, password: p},
            {user: reader, password: p, permissions: {subscribe: {allow: ["open.>", "_INBOX.>"], deny: "open.hidden"}}},
            {user: leaf, password: p, permissions: {publish: ["open.>", "map.in"], subscribe: ["_INBOX.>"]}}]
        mappings: {map.in: open.mapped}
        exports: [{stream: "open.>"}, {service: "s.service"}] }
    B { users: [{user: b, password: p}], imports: [{stream: {account: A, subject: "open.>"}, prefix: far}] }
}
"""
ACK = "$JS.ACK.a.b.1.2.3.4.5"
LONG = "open." + "x" * 3000
MANY = "open." + ".".join("y" * 600)
VALID = {"open.shown", "open.a@b", "open.a@s.secret", "open.hidden", "open.mapped", "open.\x01", "map.in", LONG, MANY}
"""What the leaf may publish to: subscribers may see it."""
NO_SUBJECTS = (">", "*", "open.*", "open.>", "open..b", ".open", "open.", "open.\0x", "")
DENIED = (
    *("s.secret", "$JS.API.STREAM.DELETE.S", "$JS.API.CONSUMER.CREATE.S", "$JS.ACK.S.C.1.1.1.1.1.1", "$SYS.x"),
    *("_R_.x", "_GR_.x", "$GR.x", "$NRG.x", "@", "@s.secret", "s.secret@open.a", "s." + "x" * 3000),
)
NAMES = (*VALID, *NO_SUBJECTS, *DENIED)
TARGETS = ("open.to", "map.in")
REPLIES = (ACK, f"{ACK}.6.7", "$JS.ACK.domain.hash.S.C.1.2.3.4.5.6")


def frames(name: str) -> list[bytes]:
    """Every way to send that name."""
    block = b"NATS/1.0\r\nNats-Subject: s.secret\r\nNats-Sequence: 1\r\n\r\n"
    found = []
    for target in TARGETS:
        for reply in REPLIES:
            named = f"{reply}@{name}".encode()
            for words in (named, b"+ " + named + b" group", b"| group " + named, b"| group"):
                found.append(b"LMSG %s %s 1\r\nx\r\n" % (target.encode(), words))
            found.append(b"HMSG %s %s %d %d\r\n%sx\r\n" % (target.encode(), named, len(block), len(block) + 1, block))
    return found


async def login(server: Server, user: str) -> Client:
    return await connect(server, user, password="p")


async def heard_by(client: Client, heard: set[str], *subjects: str) -> None:
    async def note(message: Any) -> None:
        heard.add(message.subject)

    for subject in subjects:
        await client.subscribe(subject, cb=note)
    await client.flush()


async def state(client: Client, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = (await must(client, f"$JS.API.STREAM.INFO.{stream}", {"subjects_filter": ">"}))["state"]
    return found


async def attacked(server: Server) -> dict[str, set[str]]:
    owner, reader, far = [await login(server, name) for name in ("a", "reader", "b")]
    heard: dict[str, set[str]] = {"owner": set(), "reader": set(), "far": set()}
    for name, subject in (("S", "s.>"), ("O", "open.>")):
        await must(owner, f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
    await owner.jetstream().publish("s.secret", b"secret")
    await must(
        owner,
        "$JS.API.CONSUMER.CREATE.S.C",
        {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}},
    )
    await heard_by(owner, heard["owner"], "open.>", "s.>", "map.>")
    await heard_by(reader, heard["reader"], "open.>")
    await heard_by(far, heard["far"], "far.>")
    leaf = RawLeaf(server, "box", "leaf", says={"pass": "p"})
    for name in NAMES:
        for frame in frames(name):
            leaf.send(frame)
        assert CLOSED not in leaf.lines()
    for client in (owner, reader, far):
        await client.flush()
    stored = await state(owner, "O")
    assert {"open.to", "open.mapped"} == set(stored["subjects"])
    assert 1 == (await state(owner, "S"))["messages"]
    assert CLOSED not in leaf.lines()
    leaf.close()
    for client in (owner, reader, far):
        await client.close()
    return heard


def test_no_second_name_leads_where_the_leaf_may_not() -> None:
    """It is stored under the wire's subject, imported under the importer's, and shown where the leaf may publish to it
    and the reader may hear it."""
    with running("leafd", CONFIGURATION) as server:
        heard = asyncio.run(attacked(server))
        server.stop()
        server.start("server.conf")

        async def after() -> dict[str, Any]:
            owner = await login(server, "a")
            found = await state(owner, "O")
            await owner.close()
            return found

        kept = asyncio.run(after())

    shown = {"open.to", *VALID}
    assert {"open.to", "open.mapped"} == set(kept["subjects"])
    assert {"far.open.to", "far.open.mapped"} == heard["far"]
    assert shown == heard["owner"]
    assert heard["reader"] == heard["owner"] - {"open.hidden"}


BOX = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
accounts { A { jetstream: enabled, users: [{user: a, password: p}], mappings: {map.in: open.mapped} } }
leafnodes { remotes: [{url: "nats-leaf://127.0.0.1:{hub_port}", account: A, deny_imports: ["s.>", "$KV.>"]}] }
"""
FROM_HUB = (*NAMES, "$KV.b.key", "$KV.>", "s.service")


class Hub:
    """Takes the box that dials it for a leaf."""

    def __init__(self) -> None:
        self.dialled: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "NHUB", "server_name": "hub", "version": "2.15.1", "proto": 1, "headers": True}
        info |= {"max_payload": 1 << 20, "client_id": 1, "info_on_connect": True, "jetstream": True, "domain": "hub"}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        await reader.readline()
        writer.write(b"INFO " + json.dumps(info | {"connect_info": True, "remote_account": "R"}).encode() + b"\r\n")
        peer = Peer(reader, writer, link=True)
        peer.listen()
        await peer.flush()
        if not self.dialled.done():
            self.dialled.set_result(peer)


async def attacked_by_hub(directory: Path) -> set[str]:
    """What a subscriber of the box's account has seen."""
    hub, heard = Hub(), set[str]()
    listening = await asyncio.start_server(hub.greet, "127.0.0.1", 0)
    server = make("leafd", BOX, directory, hub_port=listening.sockets[0].getsockname()[1])
    await asyncio.to_thread(server.start)
    try:
        peer = await asyncio.wait_for(hub.dialled, 20)
        owner = await login(server, "a")
        for name, subject in (("S", "s.>"), ("O", "open.>"), ("KV_b", "$KV.b.>")):
            await must(owner, f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
        await heard_by(owner, heard, "open.>", "s.>", "map.>", "$KV.>")
        for name in FROM_HUB:
            for frame in frames(name):
                peer.send(frame)
            await peer.flush()
        await owner.flush()
        assert {"open.to", "open.mapped"} == set((await state(owner, "O"))["subjects"])
        assert [0, 0] == [(await state(owner, name))["messages"] for name in ("S", "KV_b")]
        assert "closed" not in peer.heard
        await owner.close()
        await peer.close()
    finally:
        await asyncio.to_thread(server.stop)
        listening.close()
    return heard


def test_no_second_name_of_a_hub_leads_where_the_box_denies_it(tmp_path: Path) -> None:
    """Nothing is stored under it, and nobody sees what `deny_imports` names, nor what is no subject."""
    heard = asyncio.run(attacked_by_hub(tmp_path))

    assert VALID | {"open.to"} <= heard
    assert [] == [name for name in heard if name.startswith(("s.", "$KV.", "$JS.API", "_R_", "_GR_", "$GR.", "$NRG."))]
    assert set() == heard & set(NO_SUBJECTS)
