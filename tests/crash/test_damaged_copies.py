"""What a stream of several servers has at one of them is damaged, and its pages are sound: a message, or how far a
source had come. The server takes a copy of what the others have, by itself and without a start.

Not here: pages, and blocks of the journal (damaged_three.py); the same at a lone server (test_damage.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests import servers
from tests.crash.damaged import file_of
from tests.crash.pages import kinds_of, values_in
from tests.interop.test_meta_group import L, led
from tests.rig.official import ask, connect, must
from tests.rig.reports import report
from tests.rig.waiting import until

MESSAGES: Final = 50
MORE: Final = 20
HURT: Final = 8
"""The sequence of the message that is damaged."""
RECORD_SOURCE: Final = b"\4"
"""What the key of the record of a source's position begins with (native/abi.h)."""
STREAMS: Final[dict[str, dict[str, Any]]] = {
    "U": {"subjects": ["u.>"], "allow_direct": True},
    "FULL": {"sources": [{"name": "U"}], "discard": "new", "max_msgs": 1000},
    "PLAIN": {"sources": [{"name": "U"}]},
}
"""FULL: its entries say which one has to be before them. PLAIN: who leads it tells where its source is."""


async def patiently(client: Client, verb: str, body: dict[str, Any]) -> None:
    """Asks until it is done: nobody may lead just now."""

    async def done() -> bool:
        with contextlib.suppress(AssertionError, nats.errors.Error):
            await must(client, f"$JS.API.{verb}", body)
            return True
        return False

    await until(done, verb)


async def published(client: Client, numbers: range) -> None:
    for number in numbers:

        async def stored(number: int = number) -> bool:
            with contextlib.suppress(nats.errors.Error, nats.js.errors.Error):
                await client.jetstream().publish("u.a", text(number), headers={"Nats-Msg-Id": str(number)})
                return True
            return False

        await until(stored, f"{number} is not stored")


def text(number: int) -> bytes:
    """A message's payload, by its sequence less one."""
    return b"number %d;" % number


def counts(server: servers.Server) -> dict[str, int]:
    """How many messages the streams have at that server."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for account in report(server, "jsz?accounts=true&streams=true").get("account_details", ()):
            found |= {one["name"]: one["state"]["messages"] for one in account.get("stream_detail", ())}
    return found


async def answered(client: Client, subject: str, body: dict[str, Any]) -> Msg:
    """The first answer: there is none while nobody leads."""
    found: list[Msg] = []

    async def there() -> bool:
        with contextlib.suppress(nats.errors.Error):
            found.append(await client.request(subject, json.dumps(body).encode(), timeout=5))
        return found != []

    await until(there, subject)
    return found[0]


async def pulled(client: Client, count: int) -> list[bytes]:
    """So many messages of U, by a new consumer: whoever leads delivers, and those that come again are left out."""
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 2_000_000_000}
    await patiently(client, "CONSUMER.CREATE.U.C", {"stream_name": "U", "config": config})
    found: dict[int, bytes] = {}
    pulls = await client.jetstream().pull_subscribe_bind("C", "U")

    async def all_there() -> bool:
        with contextlib.suppress(nats.errors.Error, nats.js.errors.Error):
            for message in await pulls.fetch(10, timeout=2):
                found.setdefault(message.metadata.sequence.stream, message.data)
                await message.ack()
        return len(found) == count

    await until(all_there, lambda: f"{sorted(found)}")
    return [found[sequence] for sequence in sorted(found)]


async def level(made: list[servers.Server], count: int) -> None:
    """Each server has so many of each stream."""

    async def same() -> bool:
        return all(counts(server) == dict.fromkeys(STREAMS, count) for server in made)

    await until(same, lambda: str([counts(server) for server in made]))


async def whole(client: Client, name: str, *, but: str = "") -> bool:
    """Three servers keep the stream, each of them with all of it, or all of them that are up."""
    with contextlib.suppress(AssertionError, nats.errors.Error):
        cluster = (await must(client, f"$JS.API.STREAM.INFO.{name}"))["cluster"]
        rows = cluster.get("replicas", [])
        return len(rows) == 2 and all(row["current"] or row["name"] == but for row in rows)
    return False


async def leads(client: Client, name: str, wanted: str) -> None:
    """That server leads the stream: it is asked to."""

    async def does() -> bool:
        with contextlib.suppress(nats.errors.Error):
            body = {"placement": {"preferred": wanted}}
            await ask(client, f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", body)
            info = await ask(client, f"$JS.API.STREAM.INFO.{name}")
            return bool(info.get("cluster", {}).get("leader") == wanted)
        return False

    await until(does, f"{wanted} does not lead {name}")


def spoil(server: servers.Server, wanted: Callable[[str, bytes, bytes], bool]) -> int:
    """Flips a bit in each value that is wanted, by its kind of page, its key and itself. Returns how many."""
    path = file_of(server, "data.mdb")
    data = bytearray(path.read_bytes())
    found = [
        at + len(value) - 1
        for kind, pages in kinds_of(path).items()
        for page in pages
        if kind.endswith(" leaf") and kind != "free list leaf"
        for key, value, at in values_in(bytes(data), page)
        if wanted(kind, key, value)
    ]
    for at in found:
        data[at] ^= 0x10
    path.write_bytes(data)
    return len(found)


def position(kind: str, key: bytes, _value: bytes) -> bool:
    """Of a source, also where it is kept a second time."""
    return kind.startswith("record") and key.startswith(RECORD_SOURCE)


def message(kind: str, _key: bytes, value: bytes) -> bool:
    """The one of U, and none that came of it."""
    return kind.startswith("m0") and text(HURT - 1) in value and b"Nats-Stream-Source" not in value


async def begun(made: list[servers.Server]) -> str:
    """The streams are there, with all messages. Returns who leads U."""
    client = await connect(made[0])
    for name, config in STREAMS.items():
        await patiently(client, f"STREAM.CREATE.{name}", {"name": name, "num_replicas": 3, **config})
    await published(client, range(MESSAGES))
    await level(made, MESSAGES)
    leader = str((await must(client, "$JS.API.STREAM.INFO.U"))["cluster"]["leader"])
    await client.close()
    return leader


def test_positions_of_sources_that_are_damaged_at_one_server_are_copied_from_another(tmp_path: Path) -> None:
    """It neither stands still behind the others nor in the lead, and takes each message once."""

    async def walk(made: list[servers.Server]) -> None:
        leader = await begun(made)
        hurt, other = (one for one in made if one is not made[int(leader[1:])])
        hurt.stop()
        assert spoil(hurt, position) == 4, "two streams, each twice"
        hurt.start()
        client = await connect(other)
        await published(client, range(MESSAGES, MESSAGES + MORE))
        await level(made, MESSAGES + MORE)
        for name in ("FULL", "PLAIN"):
            await leads(client, name, f"s{made.index(hurt)}")
        await published(client, range(MESSAGES + MORE, MESSAGES + 2 * MORE))
        await level(made, MESSAGES + 2 * MORE)
        assert "begins again" not in hurt.log
        await client.close()

    with led(L, tmp_path) as made:
        asyncio.run(walk(made))


def test_a_message_that_is_damaged_at_the_leader_is_copied_once_all_servers_are_there(tmp_path: Path) -> None:
    """While another one of three is away the damaged copy stays, since a majority needs its server. Who asks for the
    message hears meanwhile that it cannot be read, not that it is not there, and no consumer passes it over."""

    async def walk(made: list[servers.Server]) -> None:
        leader = await begun(made)
        hurt = made[int(leader[1:])]
        _, away = (one for one in made if one is not hurt)
        hurt.stop()
        assert spoil(hurt, message) == 1
        hurt.start()
        away.stop()
        client = await connect(hurt)
        await leads(client, "U", leader)
        direct = await answered(client, "$JS.API.DIRECT.GET.U", {"seq": HURT})
        assert direct.data == text(HURT - 1) or (direct.headers or {})["Status"] == "503"
        found = await ask(client, "$JS.API.STREAM.MSG.GET.U", {"seq": HURT})
        assert "message" in found or found["error"]["code"] == 503, found
        assert [text(number) for number in range(MESSAGES)] == await pulled(client, MESSAGES)
        await until(lambda: "is damaged here" in hurt.log, "it is not told of")
        await published(client, range(MESSAGES, MESSAGES + MORE))
        assert counts(hurt)["U"] == MESSAGES + MORE
        assert await whole(client, "U", but=f"s{made.index(away)}")
        away.start()

        async def mended() -> bool:
            """It leads with a copy."""
            await leads(client, "U", leader)
            with contextlib.suppress(nats.errors.Error):
                body = json.dumps({"seq": HURT}).encode()
                found = await client.request("$JS.API.DIRECT.GET.U", body, timeout=5)
                return await whole(client, "U") and found.data == text(HURT - 1)
            return False

        await until(mended, "it is not copied")
        assert "begins again" not in hurt.log
        await client.close()
        await level(made, MESSAGES + MORE)

    with led(L, tmp_path) as made:
        asyncio.run(walk(made))


def test_a_stream_that_is_left_with_one_server_goes_on_on_a_disk_that_has_lost_something(tmp_path: Path) -> None:
    """Nobody else has it: what that disk has of it is all that there is. Others can be given copies again."""

    async def walk(made: list[servers.Server]) -> None:
        leader = await begun(made)
        hurt = made[int(leader[1:])]
        client = await connect(made[(int(leader[1:]) + 1) % 3])
        shared = {"name": "U", **STREAMS["U"]}

        async def kept_by(count: int) -> bool:
            with contextlib.suppress(AssertionError, nats.errors.Error):
                cluster = (await must(client, "$JS.API.STREAM.INFO.U"))["cluster"]
                rows = cluster.get("replicas", [])
                return len(rows) == count - 1 and all(row["current"] for row in rows) and bool(cluster.get("leader"))
            return False

        await leads(client, "U", leader)
        await patiently(client, "STREAM.UPDATE.U", {**shared, "num_replicas": 1})
        await until(lambda: kept_by(1), "it is not left with one server")
        await until(lambda: sum("U" in counts(one) for one in made) == 1, "the others have not deleted it")
        (hurt,) = (one for one in made if "U" in counts(one))
        hurt.stop()
        file_of(hurt, "journal").replace(file_of(hurt, "data.mdb").with_name("accept-loss"))
        hurt.start()
        await published(client, range(MESSAGES, MESSAGES + MORE))
        assert "goes on" in hurt.log
        await patiently(client, "STREAM.UPDATE.U", {**shared, "num_replicas": 3})
        await until(lambda: kept_by(3), "it has no copies")
        await level(made, MESSAGES + MORE)
        await client.close()

    with led(L, tmp_path) as made:
        asyncio.run(walk(made))
