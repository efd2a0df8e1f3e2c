"""An official client of a server under test."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import nats
from nats.aio.client import Client

from tests import servers


@contextlib.asynccontextmanager
async def connected(server: servers.Server) -> AsyncIterator[Client]:
    """nats-py, which gives up when the connection ends."""
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=5)
    try:
        yield client
    finally:
        await client.close()
