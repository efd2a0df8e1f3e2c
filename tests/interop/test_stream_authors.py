"""What a stream publishes by itself (republish, requests to another JetStream): only what its maker may, today, too.

nats-server asks nobody. Schedules, which act in their author's name likewise: test_schedule_authors.py.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any, Final

import pytest
from nats.aio.client import Client

from tests.interop.test_operator import reload
from tests.interop.test_schedule_authors import login
from tests.rig.official import ask, must
from tests.rig.raw import RawLeaf
from tests.rig.waiting import until
from tests.servers import KINDS, Server, running

INVALID_CONFIG = 10052
NUMBERS = itertools.count()
RIGHTS: Final = 'publish: ["$JS.API.>", "$JS.hub.API.>", "open.>", "wide.>"], subscribe: [">"]'
NARROW: Final = 'publish: {allow: ["$JS.API.>", "$JS.hub.API.>", "open.>"], deny: ["open.not"]}, subscribe: [">"]'
CONFIGURATION = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", max_file: 64M, max_mem: 16M, domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
accounts {
    A { jetstream: enabled, exports: [{service: "$JS.API.>"}], users: [
        {user: owner, password: p}
        {user: user, password: p, permissions: {RIGHTS}}] }
    B { imports: [{service: {account: A, subject: "$JS.API.>"}}], users: [{user: other, password: p}] }
}
"""


def at(rights: str) -> str:
    """The configuration with these rights of the user."""
    return CONFIGURATION.replace("RIGHTS", rights)


def outward(prefix: str, **more: Any) -> dict[str, Any]:
    """A source or mirror of a JetStream that is asked by that prefix."""
    return {"name": "O", "external": {"api": prefix, "deliver": f"{prefix}.d"}} | more


DENIED: Final[dict[str, dict[str, Any]]] = {
    "source": {"sources": [outward("secret.API")]},
    "source with a filter": {"sources": [outward("secret.API", filter_subject="x.*")]},
    "second source": {"sources": [outward("open.API"), outward("secret.API", name="P")]},
    "mirror": {"mirror": outward("secret.API")},
    "republish": {"subjects": ["open.s.>"], "republish": {"src": ">", "dest": "secret.>"}},
    "republish one": {"subjects": ["open.s.*"], "republish": {"src": "open.s.*", "dest": "secret.{{wildcard(1)}}"}},
    "republish by a token": {"subjects": ["open.s.*"], "republish": {"src": "open.s.*", "dest": "{{wildcard(1)}}.x"}},
    "republish partly denied": {"subjects": ["open.s.*"], "republish": {"src": "open.s.*", "dest": "open.$1"}},
    "republish split": {"subjects": ["open.s.*"], "republish": {"src": "open.s.*", "dest": "{{split(1,-)}}.x"}},
}
ALLOWED: Final[dict[str, dict[str, Any]]] = {
    "source": {"sources": [outward("open.API", filter_subject="x.>")]},
    "mirror": {"mirror": outward("open.API")},
    "republish": {"subjects": ["open.s.>"], "republish": {"src": ">", "dest": "open.copy.>"}},
    "republish one": {"subjects": ["open.s.*"], "republish": {"src": "open.s.*", "dest": "open.copy.{{wildcard(1)}}"}},
    "here": {"sources": [{"name": "O"}]},
}


async def refusal(client: Client, subject: str, body: dict[str, Any]) -> int:
    """The error of the answer; 0: it was done."""
    return int((await ask(client, f"$JS.API.{subject}", body)).get("error", {}).get("err_code", 0))


async def each_way(client: Client, config: dict[str, Any]) -> list[int]:
    """What a stream of that configuration meets when it is made, changed to, and restored."""
    made = await refusal(client, "STREAM.CREATE.S", {"name": "S"} | config)
    await refusal(client, "STREAM.DELETE.S", {})
    without = {key: value for key, value in config.items() if key not in ("republish", "sources")} | {"name": "S"}
    changed = made
    if "mirror" not in config:
        assert await refusal(client, "STREAM.CREATE.S", {"subjects": ["open.s.>"]} | without) == 0
        changed = await refusal(client, "STREAM.UPDATE.S", {"subjects": ["open.s.>"]} | without | config)
        await refusal(client, "STREAM.DELETE.S", {})
    free = f"T{next(NUMBERS)}"  # a restore keeps its name and subjects for a while
    elsewhere = json.loads(json.dumps(config | {"name": free}).replace("open.s.", f"open.{free}."))
    restored = await refusal(client, f"STREAM.RESTORE.{free}", {"config": elsewhere, "state": {}})
    return [made, changed, restored]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_publishes_in_the_name_of_who_makes_it(kind: str) -> None:
    """What its maker may not is refused, whichever way the stream would come; nats-server asks nobody."""

    async def attacked(server: Server) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        user = await login(server, "user")
        wrong = {name: await each_way(user, config) for name, config in DENIED.items()}
        right = {name: await each_way(user, config) for name, config in ALLOWED.items()}
        await user.close()
        return wrong, right

    with running(kind, at(NARROW)) as server:
        wrong, right = asyncio.run(attacked(server))
    assert {one: [INVALID_CONFIG if kind == "leafd" else 0] * 3 for one in DENIED} == wrong
    assert {one: [0, 0, 0] for one in ALLOWED} == right


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_of_another_account_publishes_by_a_stream(kind: str) -> None:
    """Who reaches the API by a service import has no rights in its account; plain streams it may make."""

    async def attacked(server: Server) -> tuple[int, int]:
        other = await login(server, "other")
        plain = await refusal(other, "STREAM.CREATE.PLAIN", {"name": "PLAIN", "subjects": ["p"]})
        bad = await refusal(other, "STREAM.CREATE.S", {"name": "S"} | ALLOWED["republish"])
        await other.close()
        return plain, bad

    with running(kind, at(RIGHTS)) as server:
        assert (0, INVALID_CONFIG if kind == "leafd" else 0) == asyncio.run(attacked(server))


@pytest.mark.parametrize("kind", KINDS)
def test_a_leafs_rights_count_for_streams_that_it_makes(kind: str) -> None:
    """They are those of the user by whom the link logged in."""

    async def attacked(server: Server) -> list[int]:
        leaf = RawLeaf(server, "b", "user", says={"pass": "p"})
        for name, config in (("BAD", DENIED["republish"]), ("GOOD", ALLOWED["mirror"])):
            leaf.publish(f"$JS.hub.API.STREAM.CREATE.{name}", json.dumps(config | {"name": name}), reply="r.x")
        owner = await login(server, "owner")

        async def made() -> bool:
            return await refusal(owner, "STREAM.INFO.GOOD", {}) == 0

        await until(made)
        found = [await refusal(owner, f"STREAM.INFO.{name}", {}) for name in ("BAD", "GOOD")]
        leaf.close()
        await owner.close()
        return found

    with running(kind, at(NARROW)) as server:
        assert [10059 if kind == "leafd" else 0, 0] == asyncio.run(attacked(server))


MADE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "R": ("user", {"subjects": ["open.r.>"], "republish": {"src": ">", "dest": "wide.>"}}),
    "KEPT": ("owner", {"subjects": ["open.k.>"], "republish": {"src": ">", "dest": "wide.>"}}),
    "ASKS": ("user", {"sources": [outward("wide.API")]}),
    "GOES_ON": ("owner", {"sources": [outward("wide.kept")]}),
}


async def republished(client: Client) -> set[str]:
    """Which streams republish what is published now."""
    heard: set[str] = set()

    async def hear(message: Any) -> None:
        heard.add(message.subject)

    subscription = await client.subscribe("wide.open.>", cb=hear)
    for subject in ("open.r.x", "open.k.x"):
        await client.jetstream().publish(subject, b"")
    await client.flush()
    await asyncio.sleep(0.3)
    await subscription.unsubscribe()
    return heard


async def error_of(client: Client, stream: str) -> int:
    """The code of the error of a stream's source."""
    return int((await must(client, f"$JS.API.STREAM.INFO.{stream}", {}))["sources"][0].get("error", {}).get("code", 0))


@pytest.mark.parametrize("kind", KINDS)
def test_rights_that_a_reload_takes_away_count_for_streams(kind: str) -> None:
    """Over a restart, too; all else of the stream goes on, and what is given back begins again."""
    both = {"wide.open.r.x", "wide.open.k.x"}
    left = {"wide.open.k.x"} if kind == "leafd" else both

    async def made(server: Server) -> set[str]:
        clients = {name: await login(server, name) for name in ("owner", "user")}
        for name, (maker, config) in MADE.items():
            assert await refusal(clients[maker], f"STREAM.CREATE.{name}", {"name": name} | config) == 0
        found = await republished(clients["owner"])
        for client in clients.values():
            await client.close()
        return found

    async def looked(server: Server) -> tuple[set[str], set[str], tuple[int, int]]:
        owner = await login(server, "owner")
        asked: set[str] = set()

        async def hear(message: Any) -> None:
            asked.add(message.subject)

        for prefix in ("wide.API", "wide.kept"):
            await owner.subscribe(f"{prefix}.CONSUMER.CREATE.>", cb=hear)
        heard = await republished(owner)
        # nats-server asks again after half a minute or so.
        deadline = time.monotonic() + (20 if kind == "leafd" else 0)
        while "wide.kept.CONSUMER.CREATE.O" not in " ".join(asked) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        errors = await error_of(owner, "ASKS"), await error_of(owner, "GOES_ON")
        await owner.close()
        return heard, {one.split(".")[1] for one in asked}, errors

    with running(kind, at(RIGHTS)) as server:
        assert both == asyncio.run(made(server))
        wide = (server.directory / "server.conf").read_text()
        assert "Reloaded" in reload(server, wide.replace(RIGHTS, NARROW))
        heard, _, errors = asyncio.run(looked(server))
        assert left == heard
        assert (kind == "leafd") == (errors[0] == 403)
        assert errors[1] != 403
        server.stop()
        server.start("server.conf")
        heard, asked, errors = asyncio.run(looked(server))
        assert left == heard
        assert kind == "nats-server" or asked == {"kept"}
        assert (kind == "leafd") == (errors[0] == 403)
        assert (kind == "leafd") == ('stream "R" of account "A" does not publish to "wide.>"' in server.log)
        assert "Reloaded" in reload(server, wide)
        heard, asked, _ = asyncio.run(looked(server))
        assert both == heard
        assert kind == "nats-server" or asked == {"kept", "API"}
