"""Three servers that keep a stream get another version, one after the other, as the guide's page says: publishing and
consuming go on, and nothing is lost or twice. So do a device of MQTT with a session, its publishers, a mirror and a
stream with a source.

The version before is the interpreter that LEAFD_BEFORE names, with a leafd of its own; without it they are all of
today's, and the walk is the same. Not here: servers that are killed (test_replicated_streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Final

import nats
import nats.errors
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from tests import servers
from tests.crash.mqtt_cluster import PUBLISHERS as DEVICES, QUIET_S, Device, Publisher, judge
from tests.interop.test_meta_group import CONFIG, L, leader_of, three
from tests.interop.test_mqtt_replicas import MQTT
from tests.interop.test_replicated_streams import contents, state_at
from tests.rig.official import ask, connect, must
from tests.rig.reports import report
from tests.rig.waiting import eventually, until

BEFORE: Final = os.environ.get("LEAFD_BEFORE", "")
STREAM: Final = {"name": "S", "subjects": ["s.>"], "num_replicas": 3, "allow_direct": True}
CONSUMER: Final = {"durable_name": "d", "ack_policy": "explicit", "ack_wait": 2 * 10**9}
SILENCE_S: Final = 15.0
"""The longest time without an acknowledgement, on a machine under any load."""
PUBLISHERS: Final = 8


def words(python: str) -> tuple[str, ...]:
    """Before a server's command: it is another interpreter's leafd."""
    return ("sh", "-c", 'shift 3; exec "$0" -m leafd "$@"', python) if python else ()


class Work:
    """Publishers of numbers and one who consumes them, over whichever server is there."""

    def __init__(self, made: list[servers.Server]) -> None:
        self._urls = [server.url for server in made]
        self._numbers = itertools.count()
        self.ended = asyncio.Event()
        self.acknowledged: dict[int, int] = {}
        """Sequences, by number."""
        self.delivered: set[int] = set()
        self.consumed: list[int] = []
        """Numbers whose acknowledgement was confirmed."""
        self.longest_s, self._last = 0.0, time.monotonic()

    async def run(self) -> None:
        """Until it is ended."""
        options: dict[str, Any] = {"user": "a", "password": "a", "reconnect_time_wait": 0.1, "error_cb": _silent}
        client = await nats.connect(self._urls, max_reconnect_attempts=-1, ping_interval=2, **options)
        async with asyncio.TaskGroup() as group:
            for _ in range(PUBLISHERS):
                group.create_task(self._publish(client))
            group.create_task(self._consume(client))
        await client.close()

    async def _publish(self, client: Client) -> None:
        while not self.ended.is_set():
            number = next(self._numbers)
            while number not in self.acknowledged:
                await self._once(client, number)
            await asyncio.sleep(0.01)

    async def _once(self, client: Client, number: int) -> None:
        headers = {"Nats-Msg-Id": str(number)}
        try:
            said = json.loads((await client.request("s.a", str(number).encode(), timeout=1, headers=headers)).data)
        except (nats.errors.Error, OSError):
            said = {}
        if "error" in said or not said:
            await asyncio.sleep(0.05)
            return
        now = time.monotonic()
        self.longest_s, self._last = max(self.longest_s, now - self._last), now
        self.acknowledged[number] = said["seq"]

    async def _consume(self, client: Client) -> None:
        pulled, left = await client.jetstream().pull_subscribe_bind("d", "S"), 1
        while not self.ended.is_set() or left:
            with contextlib.suppress(nats.errors.Error, OSError):
                for message in await pulled.fetch(50, timeout=1):
                    self.delivered.add(int(message.data))
                    await message.ack_sync(timeout=1)
                    self.consumed.append(int(message.data))
            if self.ended.is_set():
                with contextlib.suppress(nats.errors.Error, OSError):
                    info = await pulled.consumer_info()
                    left = (info.num_pending or 0) + (info.num_ack_pending or 0)


async def _silent(error: Exception) -> None:
    pass


def all_up(made: list[servers.Server]) -> bool:
    """As `leafd status` shows it: every server is a member and there, and every copy of the stream is level."""
    for server in made:
        about = report(server, "varz")["leafd"]["group"]
        rows = about["servers"]
        if not about["leader"] or [row["voter"] and row["away"] is None for row in rows] != [True] * 3:
            return False
    accounts = [report(server, "jsz?acc=A&streams=true")["account_details"][0] for server in made]
    clusters = [account["stream_detail"][0]["cluster"] for account in accounts]
    led = [one for one in clusters if any("active" in row for row in one.get("replicas", ()))]
    level = [[row["current"] and not row.get("offline") for row in one["replicas"]] for one in led]
    return [True, True] in level


async def step_down(server: servers.Server) -> None:
    """`nats server cluster step-down`."""
    client = await connect(server, "sys")
    assert (await must(client, "$JS.API.META.LEADER.STEPDOWN"))["success"]
    await client.close()


async def upgraded(made: list[servers.Server], *copies: dict[str, Any]) -> Work:
    """One after the other, the one that leads last. copies: streams that are made beside the one that is published
    to."""
    client = await connect(made[0])

    async def there() -> bool:
        with contextlib.suppress(nats.errors.Error):
            return "config" in await ask(client, "$JS.API.STREAM.CREATE.S", STREAM, seconds=5)
        return False

    await until(there, "the stream is not made")
    body = json.dumps({"stream_name": "S", "config": CONSUMER}).encode()
    assert "config" in json.loads((await client.request("$JS.API.CONSUMER.DURABLE.CREATE.S.d", body, timeout=10)).data)
    for copy in copies:
        said = await client.request(f"$JS.API.STREAM.CREATE.{copy['name']}", json.dumps(copy).encode(), timeout=20)
        assert "config" in json.loads(said.data), said.data
    await client.close()
    work = Work(made)
    running = asyncio.create_task(work.run())
    names = {f"s{number}": server for number, server in enumerate(made)}
    last = await asyncio.to_thread(leader_of, made)
    for name in sorted(names, key=lambda one: one == last):
        if name == last:
            await step_down(names[name])
            await asyncio.to_thread(leader_of, made, but=name)
        assert await asyncio.to_thread(names[name].stop) == 0
        await asyncio.to_thread(names[name].start)
        await asyncio.to_thread(eventually, lambda: all_up(made), lambda: [report(one, "varz") for one in made])
    await asyncio.sleep(2)
    work.ended.set()
    await asyncio.wait_for(running, 120)
    return work


def test_servers_get_another_version_while_their_stream_is_published_to(tmp_path: Path) -> None:
    """What was acknowledged is there, once and in order, at all three; each number was delivered, and
    none again whose acknowledgement was confirmed."""
    with three(L, tmp_path) as made:
        for server in made:
            server.start(before=words(BEFORE))
        leader_of(made)
        work = asyncio.run(upgraded(made))
        print(f"{len(work.acknowledged)} acknowledged, longest silence {work.longest_s:.1f} s")
        count = len(work.acknowledged)
        assert state_at(made[0])["messages"] == count
        everywhere = asyncio.run(contents(made, count))
        assert everywhere[0] == everywhere[1] == everywhere[2]
        numbers = [int(one) for one in everywhere[0]]
        assert all(numbers[sequence - 1] == number for number, sequence in work.acknowledged.items())
        assert work.delivered == set(numbers)
        assert len(work.consumed) == len(set(work.consumed))
        assert work.longest_s < SILENCE_S


COPIES: Final = (
    {"name": "AGGREGATE", "num_replicas": 3, "sources": [{"name": "S"}]},
    {"name": "MIRROR", "num_replicas": 3, "mirror": {"name": "S"}},
)


async def copied(server: servers.Server, name: str, count: int) -> list[int]:
    """What a copy has of the stream, once it has so many messages."""
    client = await connect(server)

    async def whole() -> bool:
        said = json.loads((await client.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=10)).data)
        return bool(said["state"]["messages"] >= count)

    await until(whole, f"{name} does not come to {count} messages")
    pulled = await client.jetstream().pull_subscribe("", stream=name, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    found: list[int] = []

    async def more() -> bool:
        with contextlib.suppress(TimeoutError):  # by asyncio's or the client's name
            found.extend(int(message.data) for message in await pulled.fetch(500, timeout=2))
        return len(found) >= count

    await until(more, lambda: f"{len(found)} of {count} messages of {name} come")
    with contextlib.suppress(TimeoutError):
        found += [int(message.data) for message in await pulled.fetch(1, timeout=2)]
    await client.close()
    return found


def test_devices_and_copies_go_on_while_servers_get_another_version(tmp_path: Path) -> None:
    """A device keeps its session, and what was acknowledged to publishers comes to it, with QoS 2 once. A mirror and an
    aggregate come to what the stream has."""
    with three(L, tmp_path, CONFIG + MQTT) as made:
        for server in made:
            server.start(before=words(BEFORE))
        leader_of(made)
        gone, over = threading.Event(), threading.Event()
        device = Device(made, gone)
        publishers = [Publisher(made, number, over) for number in range(DEVICES)]
        threads = [threading.Thread(target=device.serve, daemon=True)]
        threads[0].start()
        eventually(lambda: device.came, "no server takes the device")
        time.sleep(1)  # its subscription
        threads += [threading.Thread(target=one.serve, daemon=True) for one in publishers]
        for thread in threads[1:]:
            thread.start()
        work = asyncio.run(upgraded(made, *COPIES))
        over.set()
        for thread in threads[1:]:
            thread.join()
        device.heard = time.monotonic()
        eventually(lambda: time.monotonic() - device.heard > QUIET_S, "it does not come to an end")
        gone.set()
        threads[0].join()
        acknowledged = sum(len(one.acknowledged) for one in publishers)
        print(f"{acknowledged} acknowledged, {len(device.taken)} taken by the device, which came {device.came} times")
        assert acknowledged > 100
        assert judge(device, publishers) == []
        for copy in COPIES:
            found = asyncio.run(copied(made[0], str(copy["name"]), len(work.acknowledged)))
            assert sorted(found) == sorted(work.acknowledged), copy["name"]
            if "mirror" in copy:
                assert all(found[sequence - 1] == number for number, sequence in work.acknowledged.items())
