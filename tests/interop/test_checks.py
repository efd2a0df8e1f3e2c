"""`nats server check ...` of the official command line: what it says of leafd it says of nats-server, well or ill.

The tool is looked for on PATH; without it these tests say so and are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource

from tests import servers
from tests.rig.waiting import until

CONFIGURATION = """
listen: "127.0.0.1:{port}"
server_name: hub
jetstream { store_dir: "{store}", domain: hub }
accounts {
  A { jetstream: { max_mem: 10M, max_file: 100M, max_streams: 10, max_consumers: 10 }, users: [{user: a, password: a}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
"""
OK, WARNING, CRITICAL = "OK", "WARNING", "CRITICAL"
CONSUMER = "consumer --stream S --consumer C"
MESSAGE = "message --stream S --subject s.1"
COPY = "--lag-critical 10 --seen-critical 60s"
CHECKS = {
    "connection": OK,
    "stream --stream S --msgs-warn 5 --msgs-critical 1": OK,
    "stream --stream S --msgs-warn 10 --msgs-critical 1": WARNING,
    "stream --stream S --msgs-warn 1 --msgs-critical 100": CRITICAL,
    "stream --stream S --subjects-warn 2 --subjects-critical 3": CRITICAL,
    "stream --stream S --peer-expect 1": CRITICAL,
    f"stream --stream M {COPY}": OK,
    f"stream --stream X --min-sources 1 --max-sources 2 {COPY}": OK,
    "stream --stream X --min-sources 2": CRITICAL,
    "stream --stream NONE": CRITICAL,
    CONSUMER: OK,
    f"{CONSUMER} --outstanding-ack-critical 1": CRITICAL,
    f"{CONSUMER} --unprocessed-critical 2": CRITICAL,
    f"{CONSUMER} --redelivery-critical 1": OK,
    f"{CONSUMER} --last-delivery-critical 1ns": CRITICAL,
    f"{CONSUMER} --last-ack-critical 1h": OK,
    "consumer --stream S --consumer NONE": CRITICAL,
    f"{MESSAGE} --content hello --age-critical 1h": OK,
    f"{MESSAGE} --content other": CRITICAL,
    "message --stream S --subject s.none": CRITICAL,
    "jetstream": OK,
    "jetstream --streams-warn 1 --streams-critical 2": CRITICAL,
    "kv --bucket B --key k": OK,
    "kv --bucket B --key none": CRITICAL,
    "kv --bucket NONE": CRITICAL,
    "request --subject nobody.there": CRITICAL,
    "server --name hub --js-required --auth-required": OK,
    "server --name hub --uptime-warn 1d --uptime-critical 1ns": WARNING,
    "server --name hub --tls-required": CRITICAL,
    "server --name hub --conn-critical 1000 --subs-critical 1": CRITICAL,
    "server --name hub --mem-critical 1": CRITICAL,
    "meta --expect 1 --lag-critical 1 --seen-critical 1s": CRITICAL,
}
"""By check: what it says of both."""


@pytest.fixture(scope="module")
def tool() -> str:
    found = shutil.which("nats")
    if found is None:
        pytest.skip("nats is not on PATH: see https://github.com/nats-io/natscli")
    return found


@pytest.fixture(scope="module")
def verdicts(tool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, dict[str, Any]]]]:
    """By server and check: what the tool reports."""
    home = str(tmp_path_factory.mktemp("home"))

    def judged(server: servers.Server, check: str) -> dict[str, Any]:
        user = "s" if check.startswith(("server", "meta")) else "a"
        words = [tool, "-s", server.url, "--user", user, "--password", user, "server", "check", *check.split()]
        found = subprocess.run(
            [*words, "--format", "json"], capture_output=True, env={**os.environ, "HOME": home}, timeout=60, check=False
        )
        return {"code": found.returncode} | dict(json.loads(found.stdout))

    with ExitStack() as stack:
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for kind in servers.KINDS:
            server = stack.enter_context(servers.running(kind, CONFIGURATION))
            asyncio.run(filled(server))
            with ThreadPoolExecutor(4) as pool:
                rows = pool.map(lambda check, server=server: judged(server, check), CHECKS)
                found[kind] = dict(zip(CHECKS, rows, strict=True))
        yield found


async def filled(server: servers.Server) -> None:
    client = await nats.connect(server.url, user="a", password="a")
    stream = client.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    await stream.add_consumer("S", ConsumerConfig(durable_name="C", ack_wait=3600))
    for number in range(8):
        await stream.publish(f"s.{number}", b"hello")
    got = await (await stream.pull_subscribe("s.>", durable="C", stream="S")).fetch(4, timeout=10)
    for message in got[:2]:
        await message.ack_sync(timeout=10)
    await stream.add_stream(StreamConfig(name="M", mirror=StreamSource(name="S")))
    await stream.add_stream(StreamConfig(name="X", sources=[StreamSource(name="S")]))
    await (await stream.create_key_value(bucket="B")).put("k", b"v")

    async def copied() -> bool:
        return {(await stream.stream_info(name)).state.messages for name in "MX"} == {8}

    await until(copied)
    await client.close()


@pytest.mark.parametrize("check", CHECKS)
def test_both_are_judged_alike(verdicts: dict[str, dict[str, dict[str, Any]]], check: str) -> None:
    """The same verdict, the same exit status, and figures of the same names."""
    ours, theirs = (verdicts[kind][check] for kind in servers.KINDS)
    assert (ours["status"], theirs["status"]) == (CHECKS[check], CHECKS[check])
    assert ours["code"] == theirs["code"]
    names = [[one["name"] for one in found.get("perf_data") or ()] for found in (ours, theirs)]
    assert names[0] == names[1]
