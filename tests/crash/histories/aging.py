"""Messages that age in a stream of three servers, while wall clocks step: none goes before its time.

Each lives for AGE_S, or a shorter time of its own. Clients ask its leader for it, and know when it was published and
when they were answered: whoever says that it is gone before its life is over, counted from when it was published, says
so too early. Not here: that all are gone in the end (judge.py), other streams (workload.py).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client

from tests.crash.histories.asking import asked

AGE_S: Final = 20
LIFE_S: Final = 8
STREAM: Final[dict[str, Any]] = {
    "name": "A",
    "subjects": ["a.*"],
    "num_replicas": 3,
    "max_age": AGE_S * 1_000_000_000,
    "allow_msg_ttl": True,
}
NO_MESSAGE: Final = 10037
"""Error code."""
PAUSE_S: Final = 0.05
KEPT: Final = 2000
"""Messages that are asked for: the newest ones."""


@dataclass
class Aged:
    """A message that was acknowledged. gone: when a client that was told that it is gone heard it first."""

    seq: int
    call: int
    life_s: int
    gone: int = 0

    @property
    def early(self) -> bool:
        return 0 < self.gone < self.call + self.life_s * 1_000_000_000


async def age(ended: asyncio.Event, client: Client, found: list[Aged], seed: int) -> None:
    """Publishes, and asks for what is there, until it has ended."""
    chance, numbers = random.Random(seed), itertools.count()
    recent: deque[Aged] = deque(maxlen=KEPT)
    while not ended.is_set():
        number, call = next(numbers), time.monotonic_ns()
        life_s = LIFE_S if number % 2 else AGE_S
        headers = {"Nats-TTL": f"{LIFE_S}s"} if number % 2 else None
        said = await asked(client, f"a.{number % 4}", b"x" * chance.randint(1, 300), headers)
        if said.get("seq"):
            recent.append(Aged(said["seq"], call, life_s))
            found.append(recent[-1])
        await look(client, chance.choice(recent)) if recent else None
        await asyncio.sleep(PAUSE_S * chance.random())


async def look(client: Client, one: Aged) -> None:
    said = await asked(client, "$JS.API.STREAM.MSG.GET.A", json.dumps({"seq": one.seq}).encode())
    if said.get("error", {}).get("err_code") == NO_MESSAGE and not one.gone:
        one.gone = time.monotonic_ns()
