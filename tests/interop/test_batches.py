"""Atomic batches and counters where they are not alone: over imports and leaf links, compressed and encrypted, with
mirrors and sources behind them. What one server says is compared with the other.

Not here: batches and counters by themselves (tests/wire), kills (tests/crash).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from functools import cache
from typing import Any, Final

import nats
import pytest

from tests.hostile.wires import Asker
from tests.rig.waiting import PATIENCE_S, eventually
from tests.servers import KINDS, LEAFD, REFERENCE, running

IDENTITY: Final = re.compile(r"(Nats-Stream-Source: .*) \S+(?=\r\n)")
"""Of a source: that of the stream, which is another one each time."""
VOLATILE: Final = {"created", "ts", "time", "first_ts", "last_ts", "active", "leafd"}
"""What differs from run to run, and what only leafd says (how far a copy is behind)."""
HUB: Final = """
listen: 127.0.0.1:{port}
server_name: hub
jetstream { store_dir: "{store}", cipher: aes, key: "abcdefghijklmnopqrstuvwxyz012345" }
leafnodes {
  listen: 127.0.0.1:{leaf_port}
  authorization { users: [ { user: leaf, password: leaf, account: A } ] }
}
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ]
      exports: [ { service: "s.>" }, { stream: "t.>" } ] }
  B { jetstream: enabled, users: [ { user: b, password: b } ]
      imports: [ { service: { account: A, subject: "s.>" }, to: "to.>" }, { stream: { account: A, subject: "t.>" } } ] }
}
"""
LEAF: Final = """
listen: 127.0.0.1:{port}
server_name: leaf
leafnodes { remotes: [ { url: "nats-leaf://leaf:leaf@127.0.0.1:HUB" } ] }
"""
STREAMS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "S", "subjects": ["s.>"], "allow_atomic": True, "compression": "s2"},
    {"name": "T", "subjects": ["t.>"], "allow_atomic": True, "allow_msg_counter": True, "compression": "s2"},
)
COPIES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "M", "mirror": {"name": "S"}},
    {"name": "MC", "mirror": {"name": "T"}},
    {"name": "MA", "mirror": {"name": "S"}, "allow_atomic": True},
    {"name": "MN", "mirror": {"name": "T"}, "allow_msg_counter": True},
    {"name": "SO", "sources": [{"name": "S"}], "allow_atomic": True, "compression": "s2"},
    {"name": "SC", "sources": [{"name": "T"}], "allow_msg_counter": True, "compression": "s2"},
    {"name": "SN", "sources": [{"name": "T"}]},
)


def batch(name: str, sequence: int, **more: object) -> bytes:
    """The headers of a batch's message; more: as their names without Nats-, - as _."""
    found = {"Batch_Id": name, "Batch_Sequence": sequence} | more
    return "\r\n".join(f"Nats-{key.replace('_', '-')}: {value}" for key, value in found.items()).encode()


def same(value: Any) -> Any:
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {key: same(one) for key, one in value.items() if key not in VOLATILE}
    return [same(one) for one in value] if isinstance(value, list) else value


def said(asker: Asker, subject: str, payload: bytes = b"", header: bytes = b"") -> Any:
    """An answer: JSON, or how a batch goes on."""
    found = asker.ask(subject, payload, header)
    return same(json.loads(found)) if found else found


def held(asker: Asker, stream: str) -> list[tuple[str, str, str]]:
    """A stream's messages: subject, headers, payload."""
    rows = []
    for sequence in range(1, 20):
        answer = asker.asked(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": sequence})
        if "message" not in answer:
            break
        one = answer["message"]
        headers = base64.b64decode(one.get("hdrs", "")).decode()
        rows.append((one["subject"], IDENTITY.sub(r"\1", headers), one.get("data", "")))
    return rows


def until_held(asker: Asker, stream: str, count: int) -> list[tuple[str, str, str]]:
    """Once it has so many."""
    eventually(lambda: len(held(asker, stream)) >= count, lambda: held(asker, stream))
    return held(asker, stream)


def until_reached(asker: Asker, subject: str) -> None:
    """The link is up, and knows who wants the subject. Nothing is stored."""
    eventually(lambda: asker.ask(subject, b"", b"Nats-Expected-Stream: none"), "the link does not carry it")


def over_an_import(a: Asker, b: Asker) -> list[Any]:
    """A batch of the importer; one that both accounts write; a batch whose end is no message."""
    told = [said(b, f"to.{i}", b"i", batch("q", i)) for i in (1, 2)]
    told.append(said(b, "to.3", b"i", batch("q", 3, Batch_Commit=1)))
    told += [said(b, "to.1", b"i", batch("w", 1)), said(a, "s.2", b"a", batch("w", 2))]
    told.append(said(b, "to.3", b"i", batch("w", 3, Batch_Commit=1)))
    told += [said(b, "to.1", b"i", batch("e", 1)), said(b, "to.2", b"", batch("e", 2, Batch_Commit="eob"))]
    return [*told, said(b, "to.2", b"i", batch("gap", 2, Batch_Commit=1)), held(a, "S")]


def counted_in_two_accounts(a: Asker, b: Asker) -> list[Any]:
    """A counter that a stream import brings to a second stream, alone and as a batch."""
    told = [said(b, "$JS.API.STREAM.CREATE.BT", json.dumps(STREAMS[1] | {"name": "BT"}).encode())]
    told += [said(a, "t.c", b"", b"Nats-Incr: 5"), until_held(b, "BT", 1), said(b, "t.c", b"", b"Nats-Incr: 2")]
    told.append(said(a, "t.c", b"", batch("k", 1, Incr=1)))
    told.append(said(a, "t.d", b"", batch("k", 2, Incr="-7", Batch_Commit=1)))
    return [*told, held(a, "T"), until_held(b, "BT", 4)]


def over_a_link(a: Asker, leaf: Asker) -> list[Any]:
    """A batch, and one whose messages come from both sides; increments."""
    told = [said(leaf, "s.1", b"l", batch("l", 1)), said(a, "s.2", b"a", batch("l", 2))]
    told.append(said(leaf, "s.3", b"l", batch("l", 3, Batch_Commit=1)))
    told += [said(leaf, "t.l", b"", b"Nats-Incr: 40"), said(a, "t.l", b"", b"Nats-Incr: 2")]
    return [*told, held(a, "S")[-3:]]


def copied(a: Asker) -> list[Any]:
    """Mirrors and sources: which there may be, and what they have of the last messages."""
    told: list[Any] = [said(a, f"$JS.API.STREAM.CREATE.{one['name']}", json.dumps(one).encode()) for one in COPIES]
    for origin, names in (("S", "M"), ("T", "MC SC SN")):
        count = len(held(a, origin))
        told += [until_held(a, name, count)[-3:] for name in names.split()]
    return told


@cache
def conversation(kind: str) -> dict[str, list[Any]]:
    """All of it with one server, and after a restart."""
    told = {}
    with running(kind, HUB) as hub, running(kind, LEAF.replace("HUB", str(hub.ports["leaf_port"]))) as leaf:
        with (
            Asker(hub.port, PATIENCE_S, user="a", password="a") as a,
            Asker(hub.port, PATIENCE_S, user="b", password="b", number=10**6) as b,
        ):
            for one in STREAMS:
                assert "error" not in said(a, f"$JS.API.STREAM.CREATE.{one['name']}", json.dumps(one).encode())
            told["import"] = over_an_import(a, b)
            told["two accounts"] = counted_in_two_accounts(a, b)
            with Asker(leaf.port, PATIENCE_S, number=2 * 10**6) as behind:
                until_reached(behind, "s.up")
                told["link"] = over_a_link(a, behind)
            before = held(a, "T")
            told["copies"] = copied(a)
        hub.stop()
        hub.start()
        with Asker(hub.port, PATIENCE_S, user="a", password="a") as a:
            assert before == held(a, "T")
            told["after a restart"] = [said(a, "t.c", b"", b"Nats-Incr: 1"), until_held(a, "SC", len(before) + 1)]
    return told


@pytest.mark.parametrize("part", ["import", "two accounts", "link", "copies", "after a restart"])
def test_batches_and_counters_are_the_same_wherever_they_come_from(part: str) -> None:
    """Answers and stored messages, over imports, links, in encrypted and compressed streams, and in copies of them."""
    assert conversation(REFERENCE)[part] == conversation(LEAFD)[part]


@pytest.mark.parametrize("kind", KINDS)
def test_the_official_client_reads_what_a_batch_became(kind: str) -> None:
    """nats-py's PubAck has the batch's id and size; before that a stream has none of its messages."""

    async def main(url: str) -> None:
        client = await nats.connect(url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
        for sequence in (1, 2):
            header = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(sequence)}
            assert b"" == (await client.request("s.x", b"%d" % sequence, headers=header, timeout=PATIENCE_S)).data
        assert 0 == (await js.stream_info("S")).state.messages
        header = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "3", "Nats-Batch-Commit": "1"}
        ack = await js.publish("s.x", b"3", headers=header, timeout=PATIENCE_S)
        assert ("S", 3, "b", 3) == (ack.stream, ack.seq, ack.batch_id, ack.batch_size)
        assert [b"1", b"2", b"3"] == [(await js.get_msg("S", sequence)).data for sequence in (1, 2, 3)]
        await client.close()

    with running(kind, 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n') as server:
        asyncio.run(main(server.url))
