"""Two machines with one name and domain, as after a disk was copied, which have not enrolled themselves: they take the
link from each other, and the hub has what each of them has once, also after it was killed.

nats-server lets both in, too. Not here: boxes that are enrolled, where the second one is refused (test_enrol.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import servers
from tests.interop.test_placed_streams import ended
from tests.rig.official import connect
from tests.rig.waiting import until

L = servers.LEAFD
HUB = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
leafnodes { listen: "127.0.0.1:{leaf_port}" }
"""
BOX = """
listen: "127.0.0.1:{port}"
server_name: box
jetstream { store_dir: "{store}", domain: box }
leafnodes { reconnect: "1s", remotes: [ { url: "nats-leaf://127.0.0.1:{hub_port}" } ] }
"""
EACH = 5
COLLECTING = {"name": "C", "sources": [{"name": "S", "external": {"api": "$JS.box.API", "deliver": ""}}]}


async def made(server: servers.Server, config: Mapping[str, Any], messages: tuple[str, ...] = ()) -> None:
    client = await connect(server)
    answer = await client.request(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode(), timeout=10)
    assert "config" in json.loads(answer.data), answer.data
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

    with contextlib.ExitStack() as stack:
        made_servers: list[servers.Server] = []
        for name, text in (("hub", HUB), ("one", BOX), ("two", BOX)):
            (tmp_path / name).mkdir()
            ports = {"hub_port": made_servers[0].ports["leaf_port"]} if made_servers else {}
            made_servers.append(servers.make(L, text, tmp_path / name, **ports))
        hub, *boxes = made_servers
        hub.start()
        for server in made_servers:
            stack.callback(ended, server)
        asyncio.run(main(hub, boxes))
