"""The streams of the demo, and questions to them: everything that speaks JetStream's API.

leaf S:  TELEMETRY  weather.S.>            what the station measured
         COMMANDS   mirror of the hub's    filtered to commands.S.>
hub:     TELEMETRY  sources of the three leaves' TELEMETRY
         COMMANDS   commands.>
         DAILY      aggregates.daily.>     newest value of each station's day
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from .nodes import HUB_DOMAIN
from .observations import STATIONS
from .traffic import connect

AGGREGATES_PREFIX = "aggregates.daily"
NANOSECOND = 1_000_000_000
DUPLICATE_WINDOW = 600 * NANOSECOND  # longer than any outage here
READ_SILENCE_SECONDS = 5.0
LEADER_SECONDS = 120.0


class JetStreamError(Exception):
    pass


async def ask(
    client: Client, endpoint: str, body: dict[str, Any] | None = None, seconds: float = 5.0
) -> dict[str, Any]:
    """One request to the node's own JetStream API."""
    payload = json.dumps(body).encode() if body else b""
    reply = await client.request(f"$JS.API.{endpoint}", payload, timeout=seconds)
    answer: dict[str, Any] = json.loads(reply.data)
    if "error" in answer:
        raise JetStreamError(f"{endpoint}: {answer['error'].get('description')}")
    return answer


NO_ANSWER = (OSError, TimeoutError, nats.errors.Error, JetStreamError)


def _stream(name: str, **more: Any) -> dict[str, Any]:
    common = {"name": name, "storage": "file", "retention": "limits", "num_replicas": 1, "allow_direct": True}
    return common | more


def leaf_streams(station: str) -> list[dict[str, Any]]:
    hub = {"api": f"$JS.{HUB_DOMAIN}.API"}
    own_commands = {"name": "COMMANDS", "filter_subject": f"commands.{station}.>", "external": hub}
    return [
        _stream("TELEMETRY", subjects=[f"weather.{station}.>"], duplicate_window=DUPLICATE_WINDOW),
        _stream("COMMANDS", mirror=own_commands),
    ]


def hub_streams(**more: Any) -> list[dict[str, Any]]:
    """more: what a hub of several servers says of each stream."""
    sources = [{"name": "TELEMETRY", "external": {"api": f"$JS.{station}.API"}} for station in STATIONS]
    streams = [
        _stream("TELEMETRY", sources=sources),
        _stream("COMMANDS", subjects=["commands.>"], duplicate_window=DUPLICATE_WINDOW),
        _stream("DAILY", subjects=[f"{AGGREGATES_PREFIX}.>"], max_msgs_per_subject=1),
    ]
    return [stream | more for stream in streams]


async def create_streams(url: str, configs: list[dict[str, Any]], seconds: float = 0.0) -> None:
    """Create them; servers that have yet to find each other and choose a leader are asked again for so long."""
    deadline = asyncio.get_running_loop().time() + seconds
    for config in configs:
        while True:
            try:
                await _create(url, config)
                break
            except NO_ANSWER:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(0.5)


async def _create(url: str, config: dict[str, Any]) -> None:
    client = await connect(url)
    try:
        await ask(client, f"STREAM.CREATE.{config['name']}", config)
    finally:
        await client.close()


async def leader_of(url: str, stream: str) -> str:
    """The name of the server that leads the stream now."""
    client = await connect(url)
    try:
        info = await ask(client, f"STREAM.INFO.{stream}")
        return str(info["cluster"].get("leader", ""))
    finally:
        await client.close()


class Counter:
    """Counts a stream's messages by subject, over a connection that it makes anew as often as needed."""

    def __init__(self, url: str, stream: str) -> None:
        self._url = url
        self._stream = stream
        self._client: Client | None = None

    async def counts(self) -> dict[str, int] | None:
        """Messages by subject; None while the node cannot be asked."""
        try:
            if self._client is None or self._client.is_closed:
                self._client = await connect(self._url)
            info = await ask(self._client, f"STREAM.INFO.{self._stream}", {"subjects_filter": ">"}, 1.0)
        except NO_ANSWER:
            await self.close()
            return None
        return {str(subject): int(count) for subject, count in (info["state"].get("subjects") or {}).items()}

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), 2)


async def read_all(url: str, stream: str) -> list[Msg]:
    """Every message of a stream, oldest first. Servers that are choosing a leader are asked again."""
    deadline = asyncio.get_running_loop().time() + LEADER_SECONDS
    while True:
        try:
            return await _read_all(url, stream)
        except NO_ANSWER:
            if asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(0.5)


async def _read_all(url: str, stream: str) -> list[Msg]:
    """All messages, by the official client's ordered consumer."""
    client = await connect(url)
    try:
        info = await ask(client, f"STREAM.INFO.{stream}")
        wanted, last = int(info["state"]["messages"]), int(info["state"]["last_seq"])
        found: list[Msg] = []
        if not wanted:
            return found
        whole = asyncio.Event()

        async def take(message: Msg) -> None:
            found.append(message)
            if message.metadata.sequence.stream >= last:
                whole.set()

        await client.jetstream().subscribe(">", stream=stream, ordered_consumer=True, cb=take)
        before = -1
        while not whole.is_set() and len(found) > before:  # else fewer than the stream says: the check will say so
            before = len(found)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(whole.wait(), READ_SILENCE_SECONDS)
        return found
    finally:
        await client.close()
