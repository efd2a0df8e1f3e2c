"""Two machines with one name and domain, as after a disk was copied, which have not enrolled themselves: they take the
link from each other, and the hub has what each of them has once, also after it was killed. The hub says so, and of two
whose domain alone is the same.

nats-server lets both in, too, and says nothing. Not here: boxes that are enrolled, where the second one is refused
(test_enrol.py), how much less often the two come as time passes (unit/links/test_redial.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from leafd.doctor.findings import Check, Finding, Level
from leafd.doctor.links import judge as judge_links
from leafd.links.alive import PROBE_S
from leafd.status import status

from tests import servers
from tests.interop.test_placed_streams import ended
from tests.rig.official import connect, must
from tests.rig.reports import page, report
from tests.rig.waiting import eventually, until

L = servers.LEAFD
HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
http: "127.0.0.1:{http_port}"
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
BOX = """
listen: "127.0.0.1:{port}"
http: "127.0.0.1:{http_port}"
server_name: {name}
jetstream { store_dir: "{store}", domain: {domain} }
leafnodes { reconnect: "1s", remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}" } ] }
"""
SITE = """
listen: "127.0.0.1:{port}"
server_name: {site}
http: "127.0.0.1:{http_port}"
leafnodes { listen: "127.0.0.1:{leaf_port}" }
system_account: S
accounts { S { users: [ { user: s, password: s } ] }, A { users: [ { user: a, password: a } ] } }
no_auth_user: a
"""
GATEWAY = (
    SITE
    + """
gateway { name: {site}, listen: "127.0.0.1:{join_port}", gateways: [ { name: one, url: "nats://127.0.0.1:{first}" } ] }
"""
)
ROUTE = (
    SITE
    + """
cluster { name: c, listen: "127.0.0.1:{join_port}", routes: [ "nats-route://127.0.0.1:{first}" ] }
"""
)
EACH = 5
COLLECTING = {"name": "C", "sources": [{"name": "S", "external": {"api": "$JS.box.API", "deliver": ""}}]}


async def made(server: servers.Server, config: Mapping[str, Any], messages: tuple[str, ...] = ()) -> None:
    client = await connect(server)
    await must(client, f"$JS.API.STREAM.CREATE.{config['name']}", dict(config))
    for text in messages:
        await client.jetstream().publish("s", text.encode())
    await client.close()


async def collected(server: servers.Server) -> Counter[str]:
    """The texts of the collecting stream's messages, and how often each is there."""
    client = await connect(server)
    stream = client.jetstream()
    last = (await stream.stream_info("C")).state.last_seq
    found = [(await stream.get_msg("C", sequence)).data or b"" for sequence in range(1, last + 1)]
    await client.close()
    return Counter(text.decode() for text in found)


async def swaps(server: servers.Server, more: int) -> None:
    """The link goes from one machine to the other, so often again."""
    before = server.log.count("Duplicate Remote LeafNode Connection")

    async def done() -> bool:
        return server.log.count("Duplicate Remote LeafNode Connection") >= before + more

    await until(done, "the machines do not take the link from each other")


def test_what_machines_with_one_name_have_is_collected_once_also_after_a_start(tmp_path: Path) -> None:
    """The position in the stream of each of the two is on the hub's disk."""
    wanted = Counter(f"{number}.{text}" for number in (1, 2) for text in range(EACH))

    async def main(hub: servers.Server, boxes: list[servers.Server]) -> None:
        await made(hub, COLLECTING)
        for number, box in enumerate(boxes, 1):
            box.start()
            texts = tuple(f"{number}.{text}" for text in range(EACH))
            await made(box, {"name": "S", "subjects": ["s"]}, texts)

        async def whole() -> bool:
            return await collected(hub) == wanted

        await until(whole, hub.log)
        hub.kill()
        hub.start()
        await swaps(hub, 3)
        assert await collected(hub) == wanted

    with placed(tmp_path, "box", "box") as (hub, *boxes):
        asyncio.run(main(hub, boxes))


@contextlib.contextmanager
def placed(path: Path, *names: str, domain: str = "box") -> Iterator[list[servers.Server]]:
    """A hub that runs, and boxes with these names that are not started yet."""
    with contextlib.ExitStack() as stack:
        made_servers: list[servers.Server] = []
        for number, name in enumerate(("hub", *names)):
            (path / str(number)).mkdir()
            ports = {"hub_port": made_servers[0].ports["leaf_port"]} if made_servers else {}
            made_servers.append(
                servers.make(L, BOX if ports else HUB, path / str(number), name=name, domain=domain, **ports)
            )
        made_servers[0].start()
        for server in made_servers:
            stack.callback(ended, server)
        yield made_servers


def problems(server: servers.Server) -> list[str]:
    """What needs attention there, as `leafd status` shows it."""
    return list(status(report(server, "varz"), report(server, "leafz"), report(server, "jsz")).problems)


def told(server: servers.Server, words: str) -> None:
    """Waits until one thing needs attention there, and that is this."""

    def one() -> bool:
        found = [text for text in problems(server) if "ANYBODY IS LET IN" not in text]
        return len(found) == 1 and words in found[0]

    eventually(one, f"{problems(server)}\n{server.log}")


def test_the_hub_and_the_boxes_say_that_two_have_one_name(tmp_path: Path) -> None:
    """Once in the log, however often the link changes hands."""
    with placed(tmp_path, "box", "box") as (hub, *boxes):
        for box in boxes:
            box.start()
        told(hub, 'two machines call themselves "box" (account $G), at 127.0.0.1 and 127.0.0.1')
        asyncio.run(swaps(hub, 3))
        assert hub.log.count("two machines call themselves") == 1
        (line,) = judged(hub)
        assert line.check is Check.DOMAIN
        assert "two machines" in line.text
        assert b"\nleafd_twin_boxes 1\n" in page(hub, "metrics")
        eventually(lambda: any("another machine has this server_name" in text for text in problems(boxes[0])))


def judged(server: servers.Server) -> list[Finding]:
    """What the doctor says of the links there that is not well."""
    found: list[Finding] = []
    judge_links(report(server, "varz"), [], found.append)
    return [one for one in found if one.level is not Level.WELL]


def test_the_hub_says_that_two_boxes_have_one_domain_as_long_as_both_are_linked(tmp_path: Path) -> None:
    with placed(tmp_path, "one", "two") as (hub, *boxes):
        for box in boxes:
            box.start()
        told(hub, '(account $G) both have the JetStream domain "box"')
        boxes[0].stop()
        eventually(lambda: not judged(hub), hub.log)
        boxes[0].start()
        told(hub, '(account $G) both have the JetStream domain "box"')
        assert "Duplicate Remote" not in hub.log


def test_each_end_says_that_the_other_one_has_its_domain(tmp_path: Path) -> None:
    """As where a hub's configuration was copied to a box. Once in the log, however often the box comes."""
    with placed(tmp_path, "one", domain="hub") as (hub, box):
        box.start()
        told(hub, '"one" at 127.0.0.1 (account $G) has the JetStream domain "hub" of this server')
        told(box, '"hub" at 127.0.0.1 (account $G) has the JetStream domain "hub" of this server')
        box.stop()
        eventually(lambda: not judged(hub), hub.log)
        box.start()
        told(hub, '"one" at 127.0.0.1')
        assert hub.log.count('has the JetStream domain "hub" of this server') == 1


@pytest.mark.parametrize("joined", [GATEWAY, ROUTE], ids=["clusters", "servers of a cluster"])
def test_each_server_says_that_another_one_has_a_box_of_that_name(tmp_path: Path, joined: str) -> None:
    """A copied disk whose machine dials another site. It is over when one of the two has gone."""
    with contextlib.ExitStack() as stack:
        hubs, boxes = list[servers.Server](), list[servers.Server]()
        for site in ("one", "two"):
            first = hubs[0].ports["join_port"] if hubs else servers.free_port()
            ports = {"first": first} | ({} if hubs else {"join_port": first})
            hubs.append(servers.make(L, joined, tmp_path / site, site=site, **ports))
            box = {"name": "box", "domain": "box", "hub_port": hubs[-1].ports["leaf_port"]}
            boxes.append(servers.make(L, BOX, tmp_path / f"box-{site}", **box))
        for server in [*hubs, *boxes]:
            server.directory.mkdir(exist_ok=True)
            stack.callback(ended, server)
            server.start()
        for hub, other in zip(hubs, ("two", "one"), strict=True):
            told(hub, f'two machines call themselves "box" (account A), at 127.0.0.1 and, by server "{other}"')
            assert ["two machines"] == [line.text[:12] for line in judged(hub)]
        boxes[0].stop()
        eventually(lambda: not judged(hubs[0]), hubs[0].log)


def stopped(server: servers.Server) -> None:
    """It says nothing more, as where the power is gone, and its link stands open."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)


def created(server: servers.Server, links: int) -> None:
    """So many were since the start."""
    eventually(lambda: server.log.count("Leafnode connection created") == links, server.log)


@pytest.mark.parametrize("names", [("box", "box", "box"), ("one", "two", "three")], ids=["name", "domain"])
def test_a_box_that_was_started_again_is_no_second_one(tmp_path: Path, names: tuple[str, ...]) -> None:
    """What is left of the links of its earlier lives may still stand open; its name may be another one by now."""
    with placed(tmp_path, *names) as (hub, *lives):
        for number, box in enumerate(lives, 1):
            box.start()
            created(hub, number)
            if box is not lives[-1]:
                stopped(box)
        time.sleep(PROBE_S + 2)
        assert not judged(hub)
        for box in lives[:-1]:
            box.kill()
