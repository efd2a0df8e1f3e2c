"""What the servers of a group say to each other is said by somebody else: votes, entries, answers and orders, well made
and in a member's name, by clients, leafs, and a server that is no member. And clients acknowledge and are answered in
others' names. Nobody is led otherwise, nothing is lost, and nothing is taken for acknowledged.

Who forges here knows all names and numbers. Not here: frames that are no frames (native/test_raft_frame.c), a member
that lies itself (native/test_groups.c), clients of a nats-server in the cluster (interop/test_handed_on.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import lmdb
import nats.errors
import pytest
from leafd.cluster.council import group_name
from leafd.cluster.founding import Disk
from leafd.cluster.letters import MAGIC, NEWS, QUESTION
from leafd.links.origin import hash8, peer_number
from leafd.links.peers import Peers
from leafd.links.route import Join, Machine
from leafd.links.route_info import LETTERS
from leafd.native_functions import crc32c
from nats.aio.client import Client

from tests import servers
from tests.interop.test_meta_group import L, R, led
from tests.interop.test_route_contract import OWN, dial
from tests.interop.test_scaled_streams import kept_by
from tests.rig.ends import End, all_closed
from tests.rig.official import ask, must, one_each
from tests.rig.raw import RawLeaf
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

CONFIG: Final = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: "{name}"
accounts {
  A {
    users: [ {user: a, password: a}, {user: leaf, password: p} ]
    jetstream: enabled
    imports: [ { service: { account: SYS, subject: "$LR.>" }, to: "evil.>" } ]
  }
  B { users: [ {user: b, password: b} ], jetstream: enabled }
  SYS {
    users: [ {user: sys, password: sys}, {user: sysleaf, password: p} ]
    exports: [ { service: "$LR.>" } ]
    mappings: { "mapped.*": "$LR.$1" }
  }
}
system_account: SYS
jetstream { store_dir: "{store}", {meta} }
cluster { name: C, listen: "127.0.0.1:{route_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
STREAM: Final = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "allow_direct": False}
FAR: Final = 1 << 20
"""A term, or an entry of a log, that no group here comes to."""
PREVOTE, PREVOTED, VOTE, VOTED, ENTRIES, TAKEN, HANDOVER, STATE, PAIR, PAIRED = range(1, 11)
GRANTED, WANTED = 1, 2
SENT_NS: Final = 1
ELECTION_S: Final = 1.5
"""What a member waits before it wants an election."""
ELECTIONS_MAX: Final = 10
"""Less than there are wishes for one among what is forged."""


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whatever becomes of the test."""
    with all_closed():
        yield


def disk_of(server: servers.Server, name: str) -> Disk:
    """The member that this server's disk is: a record of its store (native/store/ledger.h)."""
    (data,) = (server.directory / "store").glob("**/data.mdb")

    def written() -> Disk | None:
        with lmdb.open(str(data.parent), readonly=True, lock=False, max_dbs=1000) as store, store.begin() as reading:
            value = reading.get(b"\xce", db=store.open_db(b"records", reading, create=False))
        return Disk(peer_number(name), int.from_bytes(value[4:], "big")) if value is not None else None

    found = eventually(written)
    assert found is not None
    return found


def message(group: int, subject: int, term: int = FAR, *, flags: int = 0, entries: tuple[bytes, ...] = ()) -> bytes:
    """One message of a frame, as native/raft/frame.h draws it."""
    bodies = b"".join(struct.pack(">IB", len(one), 0) + one for one in entries)
    head = struct.pack(">QBBHI", group, subject, flags, len(entries), len(bodies))
    return head + struct.pack(">7Q", term, FAR, term, term, FAR, 0, 0) + bodies


def frame(sender: Disk, to: Disk, *messages: bytes) -> bytes:
    """A frame of these, whole."""
    rest = b"".join(messages)
    head = struct.pack(">4sHHQQQQQ", b"LRF1", 1, len(messages), *sender, *to, SENT_NS)
    head += struct.pack(">I", len(head) + 8 + len(rest))
    return head + struct.pack(">I", crc32c(head + rest)) + rest


def frames(groups: dict[int, int], sender: Disk, to: Disk) -> list[bytes]:
    """All that can be said of the groups, in the terms that they are in, and in later ones."""
    found, flags = [], (0, GRANTED, WANTED)
    for group, now in groups.items():
        for term in (now, FAR):
            said = [message(group, one, term, flags=some) for one in range(PREVOTE, PAIRED + 1) for some in flags]
            said.append(message(group, ENTRIES, term, entries=(b"x" * 40,)))
            found += [frame(sender, to, one) for one in said] + [frame(sender, to, *said)]
    return found


def letters(groups: dict[int, int]) -> list[bytes]:
    """Orders that would end the stream, or the group."""

    def letter(kind: int, about: dict[str, Any]) -> bytes:
        return struct.pack(">4sBBHQI", MAGIC, kind, 1, 0, 7, 0) + json.dumps(about).encode() + b"\n"

    drop = {"verb": "table", "op": "drop", "account": "A", "name": "S", "created": 0}
    api = {
        "verb": "api",
        "account": "A",
        "subject": "$JS.API.STREAM.DELETE.S",
        "header": "",
        "author": "",
        "client": {},
    }
    away = {"verb": "order", "tokens": ["SERVER", "REMOVE"]}
    rescued = {"news": "rescued", "groups": list(groups), "members": [[1, 1]]}
    dropped = {"news": "row", "revision": FAR, "row": {"account": "A", "name": "S", "gone": []}}
    return [letter(QUESTION, one) for one in (drop, api, away)] + [letter(NEWS, one) for one in (rescued, dropped)]


class Stage:
    """Three servers that keep a stream, and what there is to forge."""

    def __init__(self, made: list[servers.Server], group: str) -> None:
        self.made, self.names = made, ["s0", "s1", "s2"]
        self.peers = [hash8(name) for name in self.names]
        self.disks = [disk_of(*one) for one in zip(made, self.names, strict=True)]
        self.groups = dict.fromkeys((group_name(self.disks), int(group.rsplit("-", 1)[-1], 16)), 1)
        """Their terms, by their names."""

    def state(self) -> list[tuple[int, str, int]]:
        """The terms, leaders and sizes of the two groups, as each server has them."""
        found: list[tuple[int, str, int]] = []
        for server in self.made:
            for account in ("SYS", "A"):
                rows = report(server, f"raftz?acc={account}").get(account, {}).values()
                found += [(row["term"], row.get("leader", ""), row["size"]) for row in rows]
        return found

    def forged(self, to: int, *, own: bool = True) -> list[tuple[str, bytes]]:
        """Subjects and payloads for that server, in the names of the others: as over a link, and as handed on. own: and
        orders in the name of whom the link leads to."""
        found = []
        at = hash8(self.names[to])
        for sender in {0, 1, 2} - {to}:
            said, orders = frames(self.groups, self.disks[sender], self.disks[to]), letters(self.groups)
            found += [(at, one) for one in said + (orders if own else [])]
            found += [(f"{at}.{self.peers[sender]}", one) for one in said + orders]
        return found

    def lines(self, verb: bytes, *beginnings: str, own: bool = True) -> bytes:
        """All of these for all servers, as lines of a protocol."""
        found = bytearray()
        for subject, payload in (one for to in range(3) for one in self.forged(to, own=own)):
            for beginning in beginnings:
                found += b"%b %b%b %d\r\n%b\r\n" % (verb, beginning.encode(), subject.encode(), len(payload), payload)
        return bytes(found)


class Publishing:
    """Clients that publish into the stream all the time, one at each server."""

    def __init__(self, clients: list[Client]) -> None:
        self.clients, self.taken, self.count, self.ends = clients, set[int](), 0, False

    async def run(self) -> None:
        """Until it ends: what is acknowledged is noted."""

        async def publish(client: Client, number: int) -> None:
            count = 0
            while not self.ends:
                headers = {"Nats-Msg-Id": f"{number} {count}"}
                with contextlib.suppress(nats.errors.NoRespondersError, nats.errors.TimeoutError):  # an election
                    answer = await ask(client, f"s.{number}", b"%d" % count, headers=headers)
                    self.taken.add(answer["seq"])
                    count += 1
            self.count += count

        await asyncio.gather(*(publish(one, number) for number, one in enumerate(self.clients)))


@contextlib.asynccontextmanager
async def published_to(made: list[servers.Server]) -> AsyncIterator[Stage]:
    """A stage whose stream takes messages all the while, and has each of them once, on all servers, in the end."""
    async with one_each(made) as clients:
        group = (await must(clients[0], "$JS.API.STREAM.CREATE.S", STREAM))["cluster"]["raft_group"]
        stage = await asyncio.to_thread(Stage, made, group)
        publishing = Publishing(clients)
        task = asyncio.create_task(publishing.run())
        try:
            yield stage
        finally:
            publishing.ends = True
            await task
        count = publishing.count
        assert count > 0
        assert publishing.taken == set(range(1, count + 1))
        await until(lambda: kept_by(made) == dict.fromkeys(stage.names, count), lambda: (count, kept_by(made)))


def joined(server: servers.Server, name: str) -> End[Machine]:
    """A route of a server of that name, which says that it takes part in groups."""
    own = replace(OWN, server_id=f"N{name}", server_name=name, letters=LETTERS)
    end = dial(server.ports["route_port"], Peers(-1, ()), cluster=own)
    assert isinstance(end.shake(), Join)
    return end


async def settled(stage: Stage) -> None:
    """All servers agree on who leads, which is a member as before, and the terms are what some elections make them: the
    machine may be slow."""
    found: list[tuple[int, str, int]] = []

    async def agreed() -> bool:
        found[:] = await asyncio.to_thread(stage.state)
        alike = (len(found), len(set(found[::2])), len(set(found[1::2]))) == (6, 1, 1)
        return alike and all(leader != "" for _, leader, _ in found)

    await until(agreed, lambda: f"the servers do not agree on who leads: {found}")
    for name, (term, leader, size) in zip(stage.groups, found, strict=False):
        assert term < stage.groups[name] + ELECTIONS_MAX
        assert (leader in stage.peers, size) == (True, 3)
        stage.groups[name] = term


async def by_clients(stage: Stage) -> None:
    """Of the system account and of another one, directly, by a mapping and by an import; and they hear nothing."""
    said = {payload for to in range(3) for _, payload in stage.forged(to)}
    for user, beginnings in (("sys", ("$LR.", "mapped.")), ("a", ("$LR.", "evil.")), ("b", ("$LR.",))):
        async with one_each(stage.made, user) as clients:
            for client in clients:
                heard = await client.subscribe("$LR.>")
                for subject, payload in (one for to in range(3) for one in stage.forged(to)):
                    for beginning in beginnings:
                        await client.publish(beginning + subject, payload)
                await client.flush(60)
                await client.publish("$LR.done", b"")
                while (first := await heard.next_msg(30)).subject != "$LR.done":
                    assert first.data in said  # by clients; not by servers


def by_leafs(stage: Stage) -> None:
    """Of both accounts."""
    for server in stage.made:
        for user in ("sysleaf", "leaf"):
            with RawLeaf(server, user, user, says={"pass": "p"}) as leaf:
                leaf.subscribe("$LR.>")
                leaf.send(stage.lines(b"LMSG", "$LR.", "evil.", "mapped."))
                leaf.lines()


def rescues(stage: Stage) -> list[bytes]:
    """Letters of a server that says in its own name that the group was rescued: by a server that nobody knows, by each
    of its members, as this version and as older ones say it."""
    (group, *_), found = stage.groups, list[bytes]()
    for disk in (Disk(1, 1), *stage.disks):
        for more in (dict[str, Any](), {"by": [list(disk)]}):
            said = {"news": "rescued", "groups": [group], "members": [list(disk), [2, 2]], **more}
            found.append(struct.pack(">4sBBHQI", MAGIC, NEWS, 1, 0, len(found), 0) + json.dumps(said).encode())
    return found


async def by_a_rescued_stranger(stage: Stage) -> None:
    """A server that may join the cluster tells that the group was rescued, and by whom: by one that answers in it. All
    have read it by then, since they say so."""
    before = await asyncio.to_thread(stage.state)
    ends = []
    for server, peer in zip(stage.made, stage.peers, strict=True):
        ends.append(await asyncio.to_thread(joined, server, "stranger"))
        for one in rescues(stage):
            ends[-1].send(b"RMSG SYS $LR.%b %d\r\n%b\r\n" % (peer.encode(), len(one), one))
    told = "by one that answers in the group, or is no member of it: this server stays"
    await until(lambda: any(told in server.log for server in stage.made), "no server has judged it")
    await asyncio.sleep(2 * ELECTION_S)
    assert await asyncio.to_thread(stage.state) == before
    for end in ends:
        end.close()


def by_a_stranger(stage: Stage) -> None:
    """A server that may join the cluster, and is no member of the group: in the names of members, over its route. (What
    it orders in its own name is carried out: who knows the routes' password is one of the servers.)"""
    for server in stage.made:
        route = joined(server, "stranger")
        route.send(b"RS+ SYS $LR.>\r\nRS+ SYS >\r\n")
        route.send(stage.lines(b"RMSG", "SYS $LR.", "A $LR.", "A evil.", "SYS mapped.", own=False))
        route.ping()
        assert not [one for one in route.rest if b" $LR." in one]
        route.close()


def test_nobody_speaks_for_a_member_of_a_group(tmp_path: Path) -> None:
    """Whatever is said in its name by clients, leafs and servers that are none: nothing comes of it but
    work."""

    async def run(made: list[servers.Server]) -> None:
        async with published_to(made) as stage:
            await settled(stage)
            for attack in (by_leafs, by_a_stranger):
                await asyncio.to_thread(attack, stage)
                await settled(stage)
            await by_clients(stage)
            await settled(stage)
            await by_a_rescued_stranger(stage)
            assert not [line for server in made for line in server.log.splitlines() if "internal" in line.lower()]

    with led(L, tmp_path, CONFIG) as made:
        asyncio.run(run(made))


def test_what_was_forged_would_be_understood(tmp_path: Path) -> None:
    """By a server that has joined in the name of a member that is dead, as who knows the routes' password can: it is
    taken for that member, so its wish for an election begins one. Nothing is lost by it."""

    async def run(made: list[servers.Server]) -> None:
        async with published_to(made) as stage:
            await settled(stage)
        made[2].kill()
        wish = [message(group, VOTE, flags=WANTED) for group in stage.groups]

        def heard() -> bool:
            route = joined(made[0], "s2")
            said = frame(stage.disks[2], stage.disks[0], *wish)
            route.send(b"RMSG SYS $LR.%b %d\r\n%b\r\n" % (hash8("s0").encode(), len(said), said))
            route.ping()
            route.close()
            return any(term >= FAR for term, *_ in stage.state())

        stage.made = made[:2]
        await asyncio.to_thread(eventually, heard, stage.state)

    with led(L, tmp_path, CONFIG) as made:
        asyncio.run(run(made))


ACKS: Final = (b"", b"+ACK", b"+TERM")
OTHERS: Final = (b"-NAK", b"+NXT", b"+WPI")
"""A nats-server lets go of messages for whoever asks so for the next ones, of whatever message."""


def forged_acks(pending: list[str]) -> list[str]:
    """Subjects that acknowledge nothing that was delivered. pending: those of messages that were."""
    stream, consumer = pending[0].split(".")[-7:-5]
    places = ["15.15", "99.1", "0.0", "0.1", f"{1 << 63}.{1 << 63}", f"{1 << 64}.1", "-1.-1", "x.x", "1"]
    wrong = [f"$JS.ACK.{stream}.{consumer}.1.{place}.1.0" for place in places]
    names = ((stream, "NONE"), ("NONE", consumer), (consumer, stream), ("*", ">"))
    wrong += [f"$JS.ACK.{one}.{other}.1.1.1.1.0" for one, other in names]
    return [*wrong, f"$JS.ACK.{stream}.{consumer}", f"$JS.ACK.{stream}.{consumer}.1.1.1.1.0.1.1.1.1.1.1", "$JS.ACK"]


async def acknowledged(made: list[servers.Server]) -> list[object]:
    """What is found of two consumers after forged acknowledgements and after right ones."""
    found: list[object] = []
    async with one_each(made) as clients, one_each(made, "b") as strangers:
        first = clients[0]
        await must(first, "$JS.API.STREAM.CREATE.S", STREAM)
        names = {"d": "explicit", "e": "all"}
        for name, policy in names.items():
            config = {"durable_name": name, "ack_policy": policy, "ack_wait": 600 * 10**9, "num_replicas": 3}
            await must(first, f"$JS.API.CONSUMER.DURABLE.CREATE.S.{name}", {"stream_name": "S", "config": config})
        for number in range(20):
            await must(first, "s.x", b"%d" % number)

        async def state(name: str) -> tuple[object, ...]:
            info = await must(first, f"$JS.API.CONSUMER.INFO.S.{name}")
            return (
                info["num_ack_pending"],
                info["ack_floor"]["stream_seq"],
                info["num_redelivered"],
                info["num_pending"],
            )

        for name in names:
            pulled = await (await first.jetstream().pull_subscribe_bind(name, "S")).fetch(10, timeout=30)
            pending = [message.reply for message in pulled]
            for client in (*clients, *strangers):
                for body in ACKS if made[0].kind == R else ACKS + OTHERS:
                    for subject in forged_acks(pending) + (pending if client in strangers else []):
                        await client.publish(subject, body)
                await client.flush(60)
            await asyncio.sleep(1)
            found.append(await state(name))
            await clients[2].request(pending[4], b"", timeout=30)
            found.append(await state(name))
    return found


def test_an_acknowledgement_of_what_was_not_delivered_is_none_as_at_nats_servers(tmp_path: Path) -> None:
    """Nor is one of another account: at each server of a stream of three, for consumers that acknowledge one by one,
    and all at once."""
    found = []
    for kind in (R, L):
        with led(kind, tmp_path, CONFIG) as made:
            found.append(asyncio.run(acknowledged(made)))
    assert found[1] == found[0]
    assert found[1] == [(10, 0, 0, 10), (9, 0, 0, 10), (10, 0, 0, 10), (5, 5, 0, 10)]
