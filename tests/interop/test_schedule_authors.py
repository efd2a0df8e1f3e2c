"""What a schedule does whose author has lost the right to it: by a reload, a revocation, the user's end.

nats-server asks nobody. Who may store a schedule: test_schedule_rights.py.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.interop.jwt_peer import Peer
from tests.interop.test_names_attacks import Hub
from tests.interop.test_operator import reload, with_token
from tests.jwts import Operator
from tests.rig.official import connect, must
from tests.rig.raw import RawLeaf
from tests.rig.waiting import eventually, until
from tests.servers import KINDS, Server, make, running

CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
authorization: {users: [
    {user: owner, password: p}
    {user: user, password: p, permissions: {publish: ["s.>"], subscribe: ["_INBOX.>", "s.>"]}}
    {user: gone, password: p}]}
"""
NARROW = CONFIGURATION.replace(
    'publish: ["s.>"], subscribe: ["_INBOX.>", "s.>"]', 'publish: ["s.plan.>", "s.kept"], subscribe: ["_INBOX.>"]'
).replace("    {user: gone, password: p}", "")
STREAM = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True}
AUTHOR = "Nats-Schedule-Author"
EVERY = "@every 1s"


async def login(server: Server, name: str) -> Client:
    return await connect(server, name, password="p")


async def plan(client: Client, name: str, target: str, when: str = EVERY, **more: str) -> None:
    """Stores a schedule."""
    headers = {"Nats-Schedule": when, "Nats-Schedule-Target": target}
    headers |= {f"Nats-Schedule-{key}": value for key, value in more.items()}
    await client.jetstream().publish(f"s.plan.{name}", name.encode(), headers=headers)


async def counts(server: Server) -> dict[str, int]:
    """How many messages each subject has."""
    client = await login(server, "owner")
    try:
        answer = await must(client, "$JS.API.STREAM.INFO.S", {"subjects_filter": ">"})
        found: dict[str, int] = answer["state"]["subjects"]
        return found
    finally:
        await client.close()


def fired(server: Server, *targets: str) -> Callable[[], Awaitable[bool]]:
    """Whether each of these has had one more message than now."""
    before: dict[str, int] = {}

    async def more() -> bool:
        now = await counts(server)
        first = not before
        before.update({} if before else {target: now.get(target, 0) for target in targets})
        return not first and all(now.get(target, 0) > before[target] for target in targets)

    return more


async def planned(server: Server) -> None:
    """The schedules of three authors, each of which has fired but that for one moment."""
    owner, user, gone = [await login(server, name) for name in ("owner", "user", "gone")]
    await must(owner, "$JS.API.STREAM.CREATE.S", STREAM)
    await owner.jetstream().publish("s.secret", b"secret")
    await plan(owner, "owner", "s.owned")
    await plan(user, "kept", "s.kept")
    await plan(user, "target", "s.target")
    await plan(user, "source", "s.source", Source="s.secret")
    await plan(gone, "gone", "s.gone")
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6))
    await plan(user, "once", "s.once", f"@at {moment}")
    for client in (owner, user, gone):
        await client.close()
    await until(fired(server, "s.owned", "s.kept", "s.target", "s.source", "s.gone"))


def wait_for_once(started: float) -> None:
    time.sleep(max(0.0, started + 7.5 - time.time()))


@pytest.mark.parametrize("kind", KINDS)
def test_rights_that_a_reload_takes_away_count_for_schedules(kind: str) -> None:
    """Of target, source and user, over a restart too; what is still allowed goes on, and what is given back begins
    again but for what was due once. nats-server carries all of it out."""
    lost = ["s.target", "s.source", "s.gone"]

    with running(kind, CONFIGURATION) as server:
        started = time.time()
        asyncio.run(planned(server))
        filled = server.directory / "server.conf"
        wide = filled.read_text()
        narrow = NARROW.replace("{store}", str(server.directory / "store"))
        assert "Reloaded" in reload(server, narrow)
        after = asyncio.run(counts(server))
        asyncio.run(until(fired(server, "s.owned", "s.kept")))
        wait_for_once(started)
        server.stop()
        server.start("server.conf")
        asyncio.run(until(fired(server, "s.owned", "s.kept")))
        later = asyncio.run(counts(server))
        assert (kind == "leafd") == all(later[one] == after[one] for one in lost)
        assert (kind == "nats-server") == ("s.once" in later)
        assert (kind == "leafd") == ("the schedule s.plan.target was not carried out" in server.log)
        assert "Reloaded" in reload(server, wide)
        asyncio.run(until(fired(server, *lost, "s.owned")))
        assert (kind == "nats-server") == ("s.once" in asyncio.run(counts(server)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_may_grant_it_to_everybody(kind: str) -> None:
    """Then a user who is gone goes on, too, until the stream no longer says so; nats-server does not read the word."""

    async def begin(server: Server) -> None:
        await planned(server)
        await grant(server, "any")

    async def grant(server: Server, word: str) -> None:
        owner = await login(server, "owner")
        await must(owner, "$JS.API.STREAM.UPDATE.S", STREAM | {"metadata": {"leafd.schedules": word}})
        await owner.close()

    with running(kind, CONFIGURATION) as server:
        asyncio.run(begin(server))
        assert "Reloaded" in reload(server, NARROW.replace("{store}", str(server.directory / "store")))
        asyncio.run(until(fired(server, "s.target", "s.source", "s.gone")))
        asyncio.run(grant(server, "none"))
        before = asyncio.run(counts(server))
        asyncio.run(until(fired(server, "s.owned", "s.kept")))
        after = asyncio.run(counts(server))
        assert (kind == "leafd") == (before["s.gone"] == after["s.gone"])


def test_nobody_can_write_who_a_schedules_author_is() -> None:
    """The header is the server's: what a client or a service import has there is replaced."""

    async def forged(server: Server) -> tuple[str, str]:
        owner, user = await login(server, "owner"), await login(server, "user")
        await must(owner, "$JS.API.STREAM.CREATE.S", STREAM)
        headers = {AUTHOR: '["user","STANDARD","owner"]', "Nats-Schedule": EVERY, "Nats-Schedule-Target": "s.t"}
        await user.jetstream().publish("s.plan.x", b"", headers=headers)
        await until(fired(server, "s.t"))
        schedule = await owner.jetstream().get_last_msg("S", "s.plan.x")
        made = await owner.jetstream().get_last_msg("S", "s.t")
        await owner.close()
        await user.close()
        return (schedule.headers or {})[AUTHOR], (made.headers or {}).get(AUTHOR, "none")

    with running("leafd", CONFIGURATION) as server:
        assert ('["user","STANDARD","user"]', "none") == asyncio.run(forged(server))


@pytest.mark.parametrize("kind", KINDS)
def test_a_revoked_user_schedules_nothing_more(kind: str) -> None:
    """The JWT's own permissions count while it stands; nats-server goes on."""
    operator = Operator()
    token = operator.token()
    account = operator.account("A", mem_storage=-1, disk_storage=-1)
    users = [account.user(name, pub={"allow": ["s.>", "$JS.API.>"]}, sub={"allow": ["_INBOX.>"]}) for name in "uv"]
    text = 'jetstream { store_dir: "{store}", max_file: 64M }\n'

    with running(kind, text + with_token(operator, token)) as server:
        peers = [Peer(server, user) for user in users]
        # nats-server may still be making the account's directory (10049).
        eventually(lambda: b"error" not in peers[0].answers("$JS.API.STREAM.CREATE.S", json.dumps(STREAM))[0])

        def count() -> dict[str, int]:
            body = json.dumps({"subjects_filter": ">"})
            found: dict[str, int] = json.loads(peers[1].answers("$JS.API.STREAM.INFO.S", body)[0])["state"].get(
                "subjects", {}
            )
            return found

        def wait_for(name: str, more: int) -> None:
            first = count().get(name, 0)
            eventually(lambda: count().get(name, 0) >= first + more, count)

        for peer, name in zip(peers, "uv", strict=True):
            header = f"NATS/1.0\r\nNats-Schedule: {EVERY}\r\nNats-Schedule-Target: s.{name}\r\n\r\n"
            peer.send(f"HPUB s.plan.{name} {len(header)} {len(header)}\r\n{header}\r\n".encode())
            wait_for(f"s.{name}", 1)
        account.nats["revocations"] = {users[0].key.public: int(time.time()) + 1}
        new = (text + with_token(operator, token)).replace("{store}", str(server.directory / "store"))
        assert "Reloaded" in reload(server, new)
        before = count()
        wait_for("s.v", 2)
        assert (kind == "leafd") == (before["s.u"] == count()["s.u"])


LEAFS = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts { A { jetstream: enabled, users: [
    {user: owner, password: p}
    {user: box, password: p, permissions: {publish: ["s.>"], subscribe: ["_INBOX.>"]}}] } }
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_leafs_rights_count_for_what_came_over_its_link(kind: str) -> None:
    """They are those of the user by whom it logged in; a link that has ended changes nothing. nats-server goes on."""
    block = f"NATS/1.0\r\nNats-Schedule: {EVERY}\r\nNats-Schedule-Target: s.%s\r\n\r\n"

    async def planned(server: Server) -> None:
        owner = await login(server, "owner")
        await must(owner, "$JS.API.STREAM.CREATE.S", STREAM)
        leaf = RawLeaf(server, "b", "box", says={"pass": "p"})
        for name in ("kept", "lost"):
            header = (block % name).encode()
            leaf.publish(f"s.plan.{name}", header=header)
        await until(fired(server, "s.kept", "s.lost"))
        leaf.close()
        await owner.close()

    with running(kind, LEAFS) as server:
        asyncio.run(planned(server))
        file = server.directory / "server.conf"
        assert "Reloaded" in reload(server, file.read_text().replace('publish: ["s.>"]', 'publish: ["s.kept"]'))
        before = asyncio.run(counts(server))
        asyncio.run(until(fired(server, "s.kept")))
        after = asyncio.run(counts(server))
        assert before["s.kept"] < after["s.kept"]
        assert (kind == "leafd") == (before["s.lost"] == after["s.lost"])


def test_nobody_can_write_it_in_a_batch_either() -> None:
    """Each message of a batch has its own header, which is replaced."""

    async def forged(server: Server) -> list[str]:
        owner, user = await login(server, "owner"), await login(server, "user")
        await must(owner, "$JS.API.STREAM.CREATE.S", STREAM | {"allow_atomic": True})
        for sequence in range(1, 4):
            headers = {AUTHOR: '["user","STANDARD","owner"]', "Nats-Schedule": EVERY, "Nats-Schedule-Target": "s.t"}
            headers |= {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(sequence)}
            headers |= {"Nats-Batch-Commit": "1"} if sequence == 3 else {}
            answer = await user.request(f"s.plan.{sequence}", b"", 5, headers=headers)
        assert "error" not in json.loads(answer.data)
        schedules = [await owner.jetstream().get_last_msg("S", f"s.plan.{number}") for number in range(1, 4)]
        await owner.close()
        await user.close()
        return [(schedule.headers or {})[AUTHOR] for schedule in schedules]

    with running("leafd", CONFIGURATION) as server:
        assert ['["user","STANDARD","user"]'] * 3 == asyncio.run(forged(server))


BOX = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M, domain: box }
accounts { A { jetstream: enabled, users: [{user: owner, password: p}] } }
leafnodes { remotes: [{url: "nats-leaf://127.0.0.1:{hub_port}", account: A, deny_imports: [DENIED]}] }
"""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_box_denies_its_hub_counts_for_what_the_hub_scheduled(kind: str, tmp_path: Path) -> None:
    """By the remote's `deny_imports` of today, over a restart too, though the hub is not there. nats-server goes on."""
    block = f"NATS/1.0\r\nNats-Schedule: {EVERY}\r\nNats-Schedule-Target: s.%s\r\n\r\n"

    async def planned(server: Server, hub: Hub) -> None:
        peer = await asyncio.wait_for(hub.dialled, 20)
        owner = await login(server, "owner")
        await must(owner, "$JS.API.STREAM.CREATE.S", STREAM)
        for name in ("kept", "lost"):
            header = (block % name).encode()
            peer.send(b"HMSG s.plan.%s %d %d\r\n%s\r\n" % (name.encode(), len(header), len(header), header))
        await until(fired(server, "s.kept", "s.lost"))
        await peer.close()
        await owner.close()

    async def looked(server: Server) -> tuple[int, int]:
        before = await counts(server)
        await until(fired(server, "s.kept"))
        return before["s.lost"], (await counts(server))["s.lost"]

    async def scheduled() -> list[tuple[int, int]]:
        hub = Hub()
        listening = await asyncio.start_server(hub.greet, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        server = make(kind, BOX.replace("DENIED", ""), tmp_path, hub_port=port)
        await asyncio.to_thread(server.start)
        try:
            await planned(server, hub)
            listening.close()
            wide = (server.directory / "server.conf").read_text()
            narrow = wide.replace("deny_imports: []", 'deny_imports: ["s.lost"]')
            found = []
            if kind == "leafd":  # nats-server reloads no remote's denials
                assert "Reloaded" in await asyncio.to_thread(reload, server, narrow)
                found.append(await looked(server))
            await asyncio.to_thread(server.stop)
            (server.directory / "server.conf").write_text(narrow)
            await asyncio.to_thread(server.start, "server.conf")
            return [*found, await looked(server)]
        finally:
            await asyncio.to_thread(server.stop)
            listening.close()

    for before, after in asyncio.run(scheduled()):
        assert (kind == "leafd") == (before == after)
