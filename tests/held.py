"""The content of a stream, asked by an official client: for tests of copies, which compare it with what was published.

Not here: servers (servers.py).
"""

from __future__ import annotations

import json
from typing import Any

from nats.aio.client import Client


async def ask(client: Client, endpoint: str, body: dict[str, Any], patience_s: float = 60.0) -> dict[str, Any]:
    """A request of JetStream's API that has to succeed; its answer."""
    reply = await client.request(f"$JS.API.{endpoint}", json.dumps(body).encode(), timeout=patience_s)
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def held_of(client: Client, name: str, patience_s: float = 60.0) -> list[bytes]:
    """The messages of a stream, in its order."""
    count = (await ask(client, f"STREAM.INFO.{name}", {}, patience_s))["state"]["messages"]
    subscription = await client.jetstream().subscribe(">", stream=name, ordered_consumer=True)
    held = [(await subscription.next_msg(timeout=patience_s)).data for _ in range(count)]
    await subscription.unsubscribe()
    return held
