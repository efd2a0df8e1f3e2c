"""Stream templates, as the documentation of JetStream's technical preview describes them: nats-server had them until
2.10, so there is nothing to compare with.

Not here: names, limits, refusals (tests/unit/jetstream/test_templates.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.errors import NoRespondersError, TimeoutError as NatsTimeout

from tests.rig.official import ask, must
from tests.rig.waiting import PATIENCE_S
from tests.servers import LEAFD, running

QUIET_S: Final = 1.0
YEAR_NS: Final = 365 * 24 * 3600 * 10**9
BOX: Final = 'listen: 127.0.0.1:{port}\njetstream { store_dir: "{store}" }\n'
CLIENTS: Final[dict[str, Any]] = {
    "name": "CLIENTS",
    "config": {
        "subjects": ["CLIENT.*"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": YEAR_NS,
        "max_msg_size": 2048,
        "num_replicas": 1,
    },
    "max_streams": 1024,
}
"""One stream a client: the template of the documentation's example."""
TYPE: Final = "io.nats.jetstream.api.v1.stream_template_"


@asynccontextmanager
async def client(url: str, **options: Any) -> AsyncIterator[Client]:
    one = await nats.connect(url, allow_reconnect=False, **options)
    yield one
    await one.close()


async def streams(one: Client) -> list[str]:
    return list((await must(one, "$JS.API.STREAM.NAMES"))["streams"] or ())


async def contents(one: Client, name: str) -> list[bytes]:
    """A stream's messages in order."""
    state = (await must(one, f"$JS.API.STREAM.INFO.{name}"))["state"]
    held = [await one.jetstream().get_msg(name, sequence) for sequence in range(1, state["last_seq"] + 1)]
    return [message.data or b"" for message in held]


def test_streams_come_with_traffic_and_go_with_the_template() -> None:
    """A template says what its streams are like; the first message to CLIENT.acme makes CLIENTS_acme and is in it."""

    async def main(url: str) -> None:
        async with client(url) as one:
            reply = await must(one, "$JS.API.STREAM.TEMPLATE.CREATE.CLIENTS", CLIENTS)
            assert (f"{TYPE}create_response", []) == (reply["type"], reply["streams"])
            assert ("CLIENTS", 1024) == (reply["config"]["name"], reply["config"]["max_streams"])
            assert CLIENTS["config"].items() <= reply["config"]["config"].items()
            assert [] == await streams(one)
            await one.publish("CLIENT.acme", b"hello")
            assert {"stream": "CLIENTS_other", "seq": 1} == json.loads(
                (await one.request("CLIENT.other", b"first", timeout=PATIENCE_S)).data
            )
            assert ["CLIENTS_acme", "CLIENTS_other"] == await streams(one)
            assert [b"hello"] == await contents(one, "CLIENTS_acme")
            config = (await must(one, "$JS.API.STREAM.INFO.CLIENTS_acme"))["config"]
            assert (["CLIENT.acme"], YEAR_NS, 2048) == (config["subjects"], config["max_age"], config["max_msg_size"])
            names = await must(one, "$JS.API.STREAM.TEMPLATE.NAMES")
            assert (f"{TYPE}names_response", 1, ["CLIENTS"]) == (names["type"], names["total"], names["streams"])
            info = await must(one, "$JS.API.STREAM.TEMPLATE.INFO.CLIENTS")
            assert (f"{TYPE}info_response", ["CLIENTS_acme", "CLIENTS_other"]) == (info["type"], info["streams"])
            gone = await must(one, "$JS.API.STREAM.TEMPLATE.DELETE.CLIENTS")
            assert {"type": f"{TYPE}delete_response", "success": True} == gone
            assert [] == await streams(one)
            try:
                await one.request("CLIENT.acme", b"hello", timeout=PATIENCE_S)
            except NoRespondersError:
                return
            raise AssertionError("somebody took it")

    with running(LEAFD, BOX) as server:
        asyncio.run(main(server.url))


def test_who_never_uses_templates_finds_none() -> None:
    """The requests are not answered, as by a server of today, until an account has had a template."""

    async def main(url: str) -> None:
        async with client(url) as one:
            for request in ("NAMES", "INFO.CLIENTS", "DELETE.CLIENTS"):
                try:
                    await one.request(f"$JS.API.STREAM.TEMPLATE.{request}", b"", timeout=QUIET_S)
                except NatsTimeout:
                    continue
                raise AssertionError(f"{request} was answered")
            assert 0 == (await ask(one, "$JS.API.INFO"))["streams"]

    with running(LEAFD, BOX) as server:
        asyncio.run(main(server.url))


def test_messages_stay_in_order_while_their_stream_is_made() -> None:
    """Six publishers, each with messages to new subjects at full speed: each stream has them all, in order."""
    publishers, each, subjects = 6, 8, 8

    async def publish(url: str, who: int) -> None:
        async with client(url) as one:
            for number in range(each):
                for subject in range(subjects):
                    await one.publish(f"CLIENT.s{subject}", b"%d.%d" % (who, number))
            await one.request("CLIENT.end", b"%d.0" % who, timeout=PATIENCE_S)

    async def main(url: str) -> None:
        async with client(url) as one:
            await must(one, "$JS.API.STREAM.TEMPLATE.CREATE.CLIENTS", CLIENTS)
            await asyncio.gather(*(publish(url, who) for who in range(publishers)))
            names = set(await streams(one)) - {"CLIENTS_end"}
            assert subjects == len(names)
            for name in names:
                held = [tuple(map(int, word.split(b"."))) for word in await contents(one, name)]
                for who in range(publishers):
                    assert list(range(each)) == [number for publisher, number in held if publisher == who]

    with running(LEAFD, BOX) as server:
        asyncio.run(main(server.url))


def test_a_template_outlives_kill_9() -> None:
    """What was acknowledged is there, and the template goes on: it makes further streams, and deletes all of them."""

    async def before(url: str) -> None:
        async with client(url) as one:
            await must(one, "$JS.API.STREAM.TEMPLATE.CREATE.CLIENTS", CLIENTS | {"max_streams": 2})
            await one.request("CLIENT.a", b"1", timeout=PATIENCE_S)

    async def after(url: str) -> None:
        async with client(url) as one:
            assert [b"1"] == await contents(one, "CLIENTS_a")
            await one.request("CLIENT.b", b"2", timeout=PATIENCE_S)
            refused = json.loads((await one.request("CLIENT.c", b"3", timeout=PATIENCE_S)).data)
            assert 10027 == refused["error"]["err_code"]
            await must(one, "$JS.API.STREAM.DELETE.CLIENTS_a")
            await one.request("CLIENT.c", b"3", timeout=PATIENCE_S)
            assert ["CLIENTS_b", "CLIENTS_c"] == (await must(one, "$JS.API.STREAM.TEMPLATE.INFO.CLIENTS"))["streams"]
            await must(one, "$JS.API.STREAM.TEMPLATE.DELETE.CLIENTS")

    async def at_last(url: str) -> None:
        async with client(url) as one:
            assert [] == await streams(one)

    with running(LEAFD, BOX) as server:
        for step in (before, after, at_last):
            asyncio.run(step(server.url))
            server.kill()
            server.start()


ACCOUNTS: Final = """
listen: 127.0.0.1:{port}
jetstream { store_dir: "{store}", domain: hub }
leafnodes {
  listen: 127.0.0.1:{leaf_port}
  authorization { users: [ { user: leaf, password: leaf, account: A } ] }
}
accounts {
  A { jetstream: enabled, users: [ { user: a, password: a } ]
      exports: [ { service: "CLIENT.*" } ] }
  B { users: [ { user: b, password: b } ]
      imports: [ { service: { account: A, subject: "CLIENT.*" }, to: "to.*" } ] }
}
"""
LEAF: Final = """
listen: 127.0.0.1:{port}
leafnodes { remotes: [ { url: "nats-leaf://leaf:leaf@127.0.0.1:HUB" } ] }
"""


def test_publishers_of_other_accounts_and_behind_links_make_streams() -> None:
    """Whoever may publish to the subject: over a service import, over a leaf link; each gets the stream's answer."""

    async def main(hub: str, leaf: str) -> None:
        async with client(hub, user="a", password="a") as one, client(hub, user="b", password="b") as other:
            await must(one, "$JS.API.STREAM.TEMPLATE.CREATE.CLIENTS", CLIENTS)
            imported = json.loads((await other.request("to.b", b"1", timeout=PATIENCE_S)).data)
            assert ("CLIENTS_b", 1) == (imported["stream"], imported["seq"])
            async with client(leaf) as behind:
                over = json.loads((await answered(behind, "CLIENT.leaf")).data)
            assert ("CLIENTS_leaf", 1) == (over["stream"], over["seq"])
            assert ["CLIENTS_b", "CLIENTS_leaf"] == await streams(one)

    async def answered(one: Client, subject: str) -> Any:
        """Once the link is up."""
        for _ in range(int(PATIENCE_S * 10)):
            try:
                return await one.request(subject, b"1", timeout=PATIENCE_S)
            except NoRespondersError:
                await asyncio.sleep(0.1)
        raise AssertionError("the link does not carry it")

    with running(LEAFD, ACCOUNTS) as hub, running(LEAFD, LEAF.replace("HUB", str(hub.ports["leaf_port"]))) as leaf:
        asyncio.run(main(hub.url, leaf.url))
