"""Clients of the servers, and what they are answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import nats
import nats.errors
from nats.aio.client import Client

from tests.crash.histories.cluster import PORT
from tests.switch import address

WAIT_S: Final = 2.0
"""An answer that takes longer is none."""


async def connected(number: int) -> Client:
    """A client at that server, which comes back to it alone."""
    options: dict[str, Any] = {"user": "a", "password": "a", "connect_timeout": 2, "reconnect_time_wait": 0.2}
    options |= {"max_reconnect_attempts": -1, "ping_interval": 2, "max_outstanding_pings": 2, "error_cb": _silent}
    while True:
        try:
            return await nats.connect(f"nats://{address(number)}:{PORT}", allow_reconnect=True, **options)
        except (nats.errors.Error, OSError, TimeoutError):
            await asyncio.sleep(0.2)


async def _silent(error: Exception) -> None:
    pass


async def asked(client: Client, subject: str, body: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """The answer's members; none: there was no answer."""
    try:
        said = await client.request(subject, body, timeout=WAIT_S, headers=headers)
        found: dict[str, Any] = json.loads(said.data)
    except (nats.errors.Error, TimeoutError, ValueError, OSError):
        return {}
    return found
